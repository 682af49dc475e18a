"""An LSTM that adds two marked numbers of a sequence, whose length is another one in every row.

    python examples/lstm.py

Rows are padded to one length, and the state behind each row's last number is read with `gather`: so one
program serves all lengths.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

import numpy as np
from beside import Draws, filled, speed

import weft
from weft import nn

LONGEST = 12


def problems(draws: Draws, rows: int) -> tuple[Any, Any, Any]:
    """Numbers with marks, lengths, and the sums of the two marked numbers of each row."""
    lengths = draws.generator.integers(4, LONGEST + 1, rows)
    numbers = draws.generator.uniform(0, 1, (rows, LONGEST)).astype(np.float32)
    marks = np.zeros_like(numbers)
    for row, length in enumerate(lengths):
        marks[row, draws.generator.choice(length, 2, replace=False)] = 1
    given = weft.from_numpy(np.stack([numbers, marks], axis=-1))
    return given, weft.from_numpy(lengths), weft.from_numpy((numbers * marks).sum(1))


class Adder(nn.Module):
    def __init__(self, width: int = 32) -> None:
        super().__init__()
        self.memory = nn.LSTM(2, width, batch_first=True)
        self.head = nn.Linear(width, 1)

    def forward(self, x: Any, lengths: Any) -> Any:
        states, _ = self.memory(x)
        last = (lengths - 1).reshape(-1, 1, 1).expand(-1, 1, states.shape[-1])
        return self.head(states.gather(1, last)[:, 0])[:, 0]


def make_step(model: Adder, optimizer: Any) -> Callable[[Any, Any, Any], Any]:
    def step(x: Any, lengths: Any, sums: Any) -> Any:
        loss = nn.functional.mse_loss(model(x, lengths), sums)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        return loss.detach()

    return step


def train(steps: int = 1500, rows: int = 64, width: int = 32) -> tuple[float, str]:
    """Trains; gives the mean of the last losses, and the step's speed."""
    draws = Draws()
    model = filled(Adder(width))
    optimizer = weft.optim.Adam(model.parameters(), lr=5e-3)
    raw = make_step(model, optimizer)
    step = weft.compile(raw, fullgraph=True)
    losses = [step(*problems(draws, rows)) for _ in range(steps)]
    last = losses[-min(50, steps) :]
    return sum(map(float, last)) / len(last), speed(raw, step, *problems(draws, rows))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("--steps", type=int, default=1500)
    loss, told = train(parser.parse_args().steps)
    print(f"mean squared error {loss:.4f} (0.167 without learning); {told}")


if __name__ == "__main__":
    main()
