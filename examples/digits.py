"""A convolutional network that reads scikit-learn's handwritten digits, trained in compiled steps.

    python examples/digits.py

Each step (forward, loss, backward, optimizer) is one graph without a break. The pictures are the 1,797 that
come with scikit-learn, 8 by 8 pixels; a fifth of them is kept for the test.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from beside import speed

import weft
from weft import nn, optim
from weft.data import DataLoader, Subset, TensorDataset, random_split
from weft.nn import functional as F


@dataclass(frozen=True)
class Result:
    """What a training run came to."""

    accuracy: float  # of the pictures kept for the test, 0 to 1
    loss: float  # mean over the last epoch
    seconds: float  # of training, compiling included
    breaks: int
    speed: str  # of a step, beside the same as written


class Network(nn.Module):
    """Two layers of convolutions, a pool, another layer, and a linear one."""

    def __init__(self, channels: int = 32) -> None:
        super().__init__()
        self.first = nn.Conv2d(1, channels, 3, padding=1)
        self.second = nn.Conv2d(channels, channels, 3, padding=1)
        self.third = nn.Conv2d(channels, 2 * channels, 3, padding=1)
        self.norm = nn.BatchNorm2d(channels)
        self.last = nn.Linear(2 * channels * 2 * 2, 10)
        self.dropout = nn.Dropout(0.25)

    def forward(self, x: Any) -> Any:
        x = F.relu(self.first(x))
        x = F.max_pool2d(F.relu(self.norm(self.second(x))), 2)
        x = F.max_pool2d(F.relu(self.third(x)), 2)
        return self.last(self.dropout(x.flatten(1)))


def pictures(seed: int = 0) -> tuple[Subset[Any], Subset[Any]]:
    """The digits for training and for the test; raises ImportError without scikit-learn."""
    from sklearn.datasets import load_digits

    images, labels = load_digits(return_X_y=True)
    x = weft.tensor(images / 8.0 - 1.0, dtype=weft.float32).reshape(-1, 1, 8, 8)
    data = TensorDataset(x, weft.tensor(labels, dtype=weft.int64))
    kept = len(data) // 5
    train, test = random_split(data, [len(data) - kept, kept], weft.Generator().manual_seed(seed))
    return train, test


def make_step(network: nn.Module, optimizer: Any) -> Callable[[Any, Any], Any]:
    """A step of training: pictures and labels in, the loss out."""

    def step(x: Any, y: Any) -> Any:
        optimizer.zero_grad()
        loss = F.cross_entropy(network(x), y)
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step


def accuracy(network: nn.Module, test: Subset[Any]) -> float:
    """The share of pictures that the network reads right."""
    network.eval()
    with weft.no_grad():
        right = sum(int((network(x).argmax(1) == y).sum()) for x, y in DataLoader(test, 64))
    network.train()
    return right / len(test)


def train(
    epochs: int = 12, batch_size: int = 32, seed: int = 0, report: Callable[[int, float], None] | None = None
) -> Result:
    """Trains and tests; `report(epoch, loss)` is called after each epoch."""
    weft.manual_seed(seed)
    training, test = pictures(seed)
    network = Network()
    optimizer = optim.AdamW(network.parameters(), lr=2e-3, weight_decay=1e-3)
    raw = make_step(network, optimizer)
    step = weft.compile(raw, fullgraph=True)
    loader = DataLoader(
        training, batch_size, shuffle=True, drop_last=True, generator=weft.Generator().manual_seed(seed)
    )
    began, mean = time.perf_counter(), 0.0
    before = breaks()
    for epoch in range(epochs):
        mean = sum(float(step(x, y)) for x, y in loader) / len(loader)
        if report is not None:
            report(epoch, mean)
    seconds = time.perf_counter() - began
    right = accuracy(network, test)
    told = speed(raw, step, *next(iter(loader)), calls=10)
    return Result(right, mean, seconds, breaks() - before, told)


def breaks() -> int:
    """How many breaks of graphs there were so far."""
    return sum(weft.compiler.counters["graph_break"].values())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("--epochs", type=int, default=12)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    result = train(
        options.epochs,
        seed=options.seed,
        report=lambda epoch, loss: print(f"epoch {epoch + 1:2}  loss {loss:.4f}"),
    )
    print(
        f"{result.accuracy:.2%} of unseen digits read right after {result.seconds:.1f} s with compiling; "
        f"breaks: {result.breaks}; {result.speed}"
    )


if __name__ == "__main__":
    main()
