"""Train a small GPT, compiled as one function, and show how it goes.

A transformer learns to write from a text that comes with Weft. Its training
step (forward, backward, optimizer) is captured from Python and compiled as a
whole; it is compared with the same step run eagerly, then trained, and writes a
few lines itself. A page about what was compiled is left in this folder (in a
temporary one, if nothing can be written here). About a minute.
"""

from __future__ import annotations

import argparse
import math
import os
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib import resources
from typing import Any

import weft
from weft import optim
from weft.cli import gpt
from weft.cli.errors import CommandError, doing
from weft.cli.run import check_writable
from weft.nn import functional
from weft.report import Observed, observe, save
from weft.report.facts import facts_of

LENGTH, BATCH, WIDTH, HEADS, LAYERS = 64, 16, 96, 4, 3
COMPARED = 4
"""Steps that are timed eagerly, and compiled."""
REPORT = "weft-report.html"
NARROW = 50
"""Below so many columns, there is no room for a clock."""


@dataclass
class Training:
    """A model with its step, eager and compiled."""

    text: gpt.Text
    model: gpt.GPT
    step: Callable[[Any, Any], Any]
    compiled: Callable[[Any, Any], Any]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--seconds", type=_positive, default=30.0, help="how long to train (default: %(default)s)"
    )
    parser.add_argument("--steps", type=_count, help="train so many steps instead")
    parser.add_argument("--learning-rate", type=_positive, default=2e-3, help="(default: %(default)s)")
    parser.add_argument("--seed", type=_seed, default=0, help="of all random numbers (default: %(default)s)")
    parser.add_argument("--text", metavar="FILE", help="learn from this text instead")
    parser.add_argument("--report", metavar="FILE", help=f"where to write the page (default: {REPORT})")
    parser.add_argument("--no-report", action="store_true", help="write no page")


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) == 0:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number above 0")
    return int(text)


def _seed(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 0 on")
    return int(text)


def _positive(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not (math.isfinite(number) and number > 0):
        raise argparse.ArgumentTypeError(f"{text!r} is not a finite number above 0")
    return number


def run(options: argparse.Namespace) -> int:
    try:
        # Here, not above: rich is an extra, and no other command should need it or wait for it.
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
    except ImportError as missing:
        raise CommandError("the demo needs rich, which is not installed. Try: pip install rich") from missing
    path = None if options.no_report else report_path(options.report)
    console = Console(highlight=False)
    training = prepared(read_text(options.text), options.seed, options.learning_rate)
    size, length = training.model.size(), len(training.text.numbers)
    console.print(
        f"A GPT of {size:,} parameters ({LAYERS} layers, width {WIDTH}) learns to write "
        f"from {length:,} characters."
    )
    seen = first_call(training)
    console.print(compiled_text(seen))
    eager, fast = compared(training)
    console.print(
        f"A step takes {1000 * eager:.1f} ms eagerly, {1000 * fast:.1f} ms compiled: "
        f"[bold]{eager / fast:.1f} times faster[/bold]."
    )
    columns = [TextColumn("training"), BarColumn(), TextColumn("{task.fields[said]}")]
    if console.width >= NARROW:
        columns.append(TimeElapsedColumn())
    with Progress(*columns, console=console) as progress:
        task = progress.add_task("training", total=1.0, said="step 0")

        def report(part: float, step: int, loss: float) -> None:
            known = "" if math.isnan(loss) else f"  loss {loss:.3f}"
            progress.update(task, completed=part, said=f"step {step}{known}")

        steps, loss, taken = train(training, options, report)
    rate = steps * BATCH * LENGTH / taken
    console.print(
        f"{steps:,} steps in {taken:.1f} s, {rate:,.0f} characters a second, loss {loss:.3f}. It writes:"
    )
    console.print()
    console.print(gpt.sample(training.model, training.text, "\n", 300).strip(), markup=False)
    console.print()
    if path is not None:
        written(seen, path, console)
    return 0


def report_path(asked: str | None) -> str:
    """Where the page goes: where it was asked for, else here, else, where nothing can be written here, where
    passing files are kept.
    """
    try:
        check_writable(asked or REPORT)
    except CommandError:
        if asked:
            raise
        return os.path.join(tempfile.mkdtemp(prefix="weft-"), REPORT)
    return asked or REPORT


def read_text(path: str | None) -> str:
    """The text to learn from."""
    if path is None:
        return resources.files("weft.cli").joinpath("tales.txt").read_text(encoding="utf-8")
    try:
        with doing(f"open {path}"), open(path, encoding="utf-8") as file:
            text = file.read()
    except UnicodeDecodeError:
        raise CommandError(f"{path} is no text in UTF-8") from None
    if len(text) < 2 * LENGTH:
        raise CommandError(f"{path} has {len(text)} characters: the demo needs at least {2 * LENGTH}")
    return text


def prepared(text: str, seed: int, rate: float) -> Training:
    weft.manual_seed(seed)
    learned = gpt.Text(text)
    model = gpt.GPT(len(learned.alphabet), LENGTH, WIDTH, HEADS, LAYERS)
    optimizer = optim.AdamW(model.parameters(), lr=rate)

    def step(given: Any, wanted: Any) -> Any:
        scores = model(given)
        loss = functional.cross_entropy(scores.view(-1, scores.shape[-1]), wanted.view(-1))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.detach()

    return Training(learned, model, step, weft.compile(step, fullgraph=True))


def first_call(training: Training) -> Observed:
    """Captures and compiles the step."""
    batch = training.text.batch(BATCH, LENGTH)
    with observe("a training step of a small GPT") as seen:
        training.compiled(*batch)
    return seen


def compiled_text(seen: Observed) -> str:
    summary = facts_of(seen, timed=False)["summary"]
    calls = "one function" if summary["graphs"] == 1 else f"{summary['graphs']} functions"
    return (
        f"Its training step was captured from Python and compiled to {calls} of machine code "
        f"in {summary['compile milliseconds'] / 1000:.2f} s: "
        f"{summary['ops']} ops (forward, backward, AdamW) became {summary['kernels']} kernels and "
        f"{summary['products']} matrix products, with {summary['breaks']} graph breaks."
    )


def compared(training: Training) -> tuple[float, float]:
    """Seconds of a step, eager and compiled, at best."""
    batches = [training.text.batch(BATCH, LENGTH) for _ in range(COMPARED)]
    found = []
    for step in (training.step, training.compiled):
        step(*batches[0])
        times = []
        for batch in batches:
            began = time.perf_counter()
            step(*batch)
            times.append(time.perf_counter() - began)
        found.append(min(times))
    return found[0], found[1]


def train(
    training: Training, options: argparse.Namespace, report: Callable[[float, int, float], object]
) -> tuple[int, float, float]:
    """Trains; `report(part done, step, loss)` hears of it. Gives the steps, the latest loss, the seconds."""
    began = time.perf_counter()
    average, step = math.nan, 0
    while True:
        taken = time.perf_counter() - began
        part = step / options.steps if options.steps else taken / options.seconds
        if step % 8 == 0 or part >= 1:
            report(min(part, 1.0), step, average)
        if part >= 1:
            return step, average, taken
        loss = training.compiled(*training.text.batch(BATCH, LENGTH)).item()
        average = loss if math.isnan(average) else 0.95 * average + 0.05 * loss
        step += 1
        if not math.isfinite(loss):
            raise CommandError(
                f"the loss became {loss} in step {step}: training diverged. "
                f"Try a --learning-rate below {options.learning_rate:g}"
            )


def written(seen: Observed, path: str, console: Any) -> None:
    """Writes the report."""
    with doing(f"write {path}", ". Try: weft demo --report FILE"):
        save(seen, path)
    console.print(f"What was compiled, line by line: {path} (open it in a browser)", soft_wrap=True)
