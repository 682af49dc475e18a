"""Train a small network on embedded data and show how it goes.

A network with one hidden layer learns to read noisy, shifted digits that the
command draws itself; nothing is downloaded. It trains eagerly, op by op, and is
then tested on digits that it has not seen.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

import weft
import weft.cli.digits as digits
from weft import nn, optim
from weft.cli.errors import CommandError
from weft.nn import functional

TRAINING_SIZE = 10_000
TEST_SIZE = 2_000
SHOWN = 7


@dataclass(frozen=True)
class Result:
    """What a training run came to."""

    accuracy: float  # of the test set, 0 to 1
    loss: float  # mean over the last epoch
    steps: int
    seconds: float  # of training alone
    answers: list[int]  # to the first SHOWN digits of the test set


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--epochs", type=_count, default=15, help="passes over the data (default: %(default)s)"
    )
    parser.add_argument("--hidden", type=_count, default=158, help="hidden units (default: %(default)s)")
    parser.add_argument(
        "--batch-size", type=_count, default=64, help="pictures in a step (default: %(default)s)"
    )
    parser.add_argument("--learning-rate", type=_rate, default=0.2, help="(default: %(default)s)")
    parser.add_argument(
        "--seed", type=_seed, default=0, help="equal seeds, equal runs (default: %(default)s)"
    )


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) == 0:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number above 0")
    return int(text)


def _seed(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 0 on")
    return int(text)


def _rate(text: str) -> float:
    try:
        rate = float(text)
    except ValueError:
        rate = math.nan
    if not (math.isfinite(rate) and rate > 0):
        raise argparse.ArgumentTypeError(f"{text!r} is not a finite number above 0")
    return rate


def run(options: argparse.Namespace) -> int:
    try:
        # Here, not above: rich is an extra, and no other command should need it or wait for it.
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
    except ImportError as missing:
        raise CommandError(
            f"the demo needs {missing.name}, which is not installed. Try: pip install 'weft[cli]'"
        ) from missing
    console = Console(highlight=False)
    columns = (
        TextColumn("training"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("epochs  loss {task.fields[loss]:.4f}"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console) as progress:
        task = progress.add_task("training", total=options.epochs, loss=math.nan)
        result = train(
            epochs=options.epochs,
            hidden=options.hidden,
            batch_size=options.batch_size,
            learning_rate=options.learning_rate,
            seed=options.seed,
            report=lambda done, loss: progress.update(task, completed=done, loss=loss),
        )
    pictures, _ = digits.draw(TEST_SIZE, options.seed + 1)
    console.print(*sketch(pictures[:SHOWN], result.answers), sep="\n", no_wrap=True)
    console.print(
        f"{result.accuracy:.1%} of {TEST_SIZE:,} unseen digits read correctly, final loss {result.loss:.4f}"
    )
    console.print(
        f"{result.steps:,} steps in {result.seconds:.2f} s: {result.steps / result.seconds:,.0f} steps/s, "
        f"{TRAINING_SIZE * options.epochs / result.seconds:,.0f} pictures/s"
    )
    return 0


def train(
    *,
    epochs: int,
    hidden: int,
    batch_size: int,
    learning_rate: float,
    seed: int,
    report: Callable[[float, float], object],
) -> Result:
    """Plain stochastic gradient descent; `report(epochs done, loss)` is called after every few steps."""
    weft.manual_seed(seed)
    pictures, labels = map(weft.from_numpy, digits.draw(TRAINING_SIZE, seed))
    network = nn.Sequential(nn.Linear(digits.PIXELS, hidden), nn.ReLU(), nn.Linear(hidden, digits.CLASSES))
    optimizer = optim.SGD(network.parameters(), lr=learning_rate)
    starts = range(0, TRAINING_SIZE, batch_size)
    mean, began = math.nan, time.perf_counter()
    for epoch in range(epochs):
        order, total = weft.randperm(TRAINING_SIZE), 0.0
        for number, start in enumerate(starts, 1):
            chosen = order[start : start + batch_size]
            loss = functional.cross_entropy(network(pictures[chosen]), labels[chosen])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item()
            if number % 16 == 0 or number == len(starts):
                report(epoch + number / len(starts), total / number)
        mean = total / len(starts)
        if not math.isfinite(mean):
            raise CommandError(
                f"the loss became {mean} in epoch {epoch + 1}: training diverged. "
                f"Try a --learning-rate below {learning_rate:g}"
            )
    seconds = time.perf_counter() - began
    accuracy, answers = examine(network, seed + 1)
    return Result(accuracy, mean, epochs * len(starts), seconds, answers)


def examine(network: nn.Module, seed: int) -> tuple[float, list[int]]:
    """The share of the test digits that the network reads correctly, and its first few answers."""
    pictures, labels = map(weft.from_numpy, digits.draw(TEST_SIZE, seed))
    with weft.no_grad():
        answers = network(pictures).argmax(dim=1)
        return (answers == labels).float().mean().item(), answers[:SHOWN].tolist()


def sketch(pictures: NDArray[np.float32], answers: list[int]) -> list[str]:
    """Pictures side by side as lines of text, with what the network read below each."""
    drawn = [digits.as_text(picture) for picture in pictures]
    return [
        *("  ".join(parts) for parts in zip(*drawn)),
        "  ".join(str(answer).center(digits.SIDE) for answer in answers),
    ]
