"""Capture beside torch.compile with its `eager` backend: the cost of a guarded call, and of capturing.

    python benchmarks/capture.py [--json FILE]

Needs torch (the `bench` extra). Each library runs in processes of its own, one per row and round, the two
libraries taking turns; the best of the rounds counts. A call's row is what it costs over the backend's own
callable. A capture's row is the first call less a later one: the second program captured by its process,
so that what is loaded or warmed once for all is not counted.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
Row = Callable[[Any], float]
ROWS: dict[str, tuple[str, float | None, float | None, Row]] = {}
"""By name: the unit, the most that Weft may take in it, how many times below torch.compile it has to be
(None: no aim yet), and the measurement.
"""


def row(name: str, unit: str, most: float | None, times: float | None = 5.0) -> Callable[[Row], Row]:
    def add(function: Row) -> Row:
        ROWS[name] = (unit, most, times, function)
        return function

    return add


def best(step: Callable[[], Any], seconds: float = 0.6) -> float:
    """Seconds that one step takes, at best."""
    count = 1
    while True:
        start = time.perf_counter()
        for _ in range(count):
            step()
        taken = time.perf_counter() - start
        if taken > 0.01:
            break
        count *= 4
    least, end = taken / count, time.perf_counter() + seconds
    while time.perf_counter() < end:
        start = time.perf_counter()
        for _ in range(count):
            step()
        least = min(least, (time.perf_counter() - start) / count)
    return least


def first_and_later(call: Callable[[], Any]) -> tuple[float, float]:
    start = time.perf_counter()
    call()
    first = time.perf_counter() - start
    later = []
    for _ in range(5):
        start = time.perf_counter()
        call()
        later.append(time.perf_counter() - start)
    return first, min(later)


class Holder:
    """An object of the user's with an attribute that the program reads."""

    def __init__(self) -> None:
        self.scale = 2.0


@row("a guarded call: three tensors, an attribute", "us", 1.5)
def _(lib: Any) -> float:
    holder = Holder()

    def program(a: Any, b: Any, c: Any) -> Any:
        return a + b * c * holder.scale

    results: list[Any] = []

    def backend(module: Any, inputs: list[Any]) -> Callable[..., Any]:
        results[:] = [module.forward(*inputs)]
        return lambda *_inputs: results[0]

    compiled = lib.compile(program, backend=backend)
    a, b, c = (lib.randn(4) for _ in range(3))
    compiled(a, b, c)
    callee: Callable[..., Any] = lambda *_inputs: results[0]
    return (best(lambda: compiled(a, b, c)) - best(lambda: callee(a, b, c))) * 1e6


def transformer(lib: Any, depth: int = 12, width: int = 64, heads: int = 4) -> Any:
    nn, F = lib.nn, lib.nn.functional

    class Block(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
            self.mix, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
            self.act, self.drop = nn.GELU(), nn.Dropout(0.0)

        def forward(self, x: Any) -> Any:
            batch, length, size = x.shape
            parts = self.mix(self.first(x)).split(size, dim=2)
            q, k, v = (p.view(batch, length, heads, size // heads).transpose(1, 2) for p in parts)
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + self.out(y.transpose(1, 2).contiguous().view(batch, length, size))
            return x + self.drop(self.down(self.act(self.up(self.second(x)))))

    class Net(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.layers = nn.ModuleList([Block() for _ in range(depth)])
            self.norm = nn.LayerNorm(width)

        def forward(self, x: Any) -> Any:
            for layer in self.layers:
                x = layer(x)
            return self.norm(x)

    return Net()


@row("capturing a 12-layer transformer's forward", "ms", 1000.0)
def _(lib: Any) -> float:
    def small(x: Any) -> Any:
        return (x + 1).relu()

    lib.compile(small, backend="eager")(lib.randn(3))
    model, x = transformer(lib), lib.randn(2, 8, 64)
    compiled = lib.compile(model, backend="eager", fullgraph=True)
    model(x)
    first, later = first_and_later(lambda: compiled(x))
    return (first - later) * 1e3


@row("capturing a function of ten ops", "ms", None)
def _(lib: Any) -> float:
    def small(x: Any) -> Any:
        return (x + 1).relu()

    def program(x: Any, y: Any) -> Any:
        total = x
        for step in range(3):
            total = (total + y * step).tanh()
        return total.sum()

    lib.compile(small, backend="eager")(lib.randn(3))
    x, y = lib.randn(4), lib.randn(4)
    compiled = lib.compile(program, backend="eager", fullgraph=True)
    program(x, y)
    first, later = first_and_later(lambda: compiled(x, y))
    return (first - later) * 1e3


@row("a guarded call of the transformer, over its graph", "us", None, None)
def _(lib: Any) -> float:
    model, x = transformer(lib), lib.randn(2, 8, 64)
    given: list[Any] = []

    def backend(module: Any, inputs: list[Any]) -> Callable[..., Any]:
        given[:] = [module.forward(*inputs)]
        return lambda *_inputs: given[0]

    compiled = lib.compile(model, backend=backend, fullgraph=True)
    compiled(x)
    return best(lambda: compiled(x)) * 1e6


def measured(library: str, name: str) -> float:
    """A row, in a new process."""
    threads = {"OMP_NUM_THREADS": "2", "OPENBLAS_NUM_THREADS": "2", "MKL_NUM_THREADS": "2"}
    command = [sys.executable, __file__, "--worker", library, name]
    space = {**os.environ, **threads, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, env=space, capture_output=True, text=True, check=True)
    return float(done.stdout.strip().splitlines()[-1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--worker", nargs=2, help=argparse.SUPPRESS)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    options = parser.parse_args()
    if options.worker:
        library, name = options.worker
        print(ROWS[name][3](importlib.import_module(library)))
        return
    figures = {}
    print(f"| row | Weft | torch.compile | times below | aim |\n{'| --- ' * 5}|")
    for name, (unit, most, times, _) in ROWS.items():
        weft, torch = float("inf"), float("inf")
        for _round in range(options.rounds):
            weft = min(weft, measured("weft", name))
            torch = min(torch, measured("torch", name))
        aims = [f"{most:g} {unit}"] if most is not None else []
        aim = ", ".join([*aims, f"{times:g}x"] if times is not None else aims) or "none yet"
        missed = (times is not None and torch / weft < times) or (most is not None and weft > most)
        note = " (missed)" if missed else ""
        print(f"| {name} | {weft:.2f} {unit} | {torch:.2f} {unit} | {torch / weft:.1f} | {aim}{note} |")
        figures[name] = {"unit": unit, "weft": weft, "torch": torch}
    if options.json:
        options.json.write_text(json.dumps(figures, indent=1))


if __name__ == "__main__":
    main()
