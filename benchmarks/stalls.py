"""Stalls: how long single calls take while code gets better behind them.

    python benchmarks/stalls.py [--calls 1000] [--rounds 3] [--json FILE]

Each form of each program runs in processes of its own: `cold` with an empty cache, `warm` with the cache of
that run. A call is a step with its gradient, be that inside of the compiled function or taken outside.
`steady` is the median of the second half of the calls. Of calls 2 to the last, the slowest is to take at most
three times that and 5 ms, and all of them together at most twice as long as steady ones, and the first call.
Of the rounds, the one with the fastest slowest call counts: other work on the machine stalls calls, too.
`WEFT_TIERS` is `smooth` unless the environment says otherwise.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ.setdefault("WEFT_TIERS", "smooth")
ROOT = Path(__file__).resolve().parent.parent
Step = Callable[[], Any]
TIMES, PLUS, TOGETHER = 3.0, 5e-3, 2.0
"""What the slowest call may take: so often a steady one, and so many seconds; and all calls together."""


# -- programs ------------------------------------------------------------------------------------------------
def mlp(weft: Any) -> tuple[Callable[[Any, Any], Any], tuple[Any, Any], Any]:
    """A loss, its inputs, and an optimizer of its parameters."""
    nn, functional = weft.nn, weft.nn.functional
    net = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
    given = weft.randn(32, 64), weft.randint(0, 10, (32,))
    return lambda x, y: functional.cross_entropy(net(x), y), given, weft.optim.AdamW(net.parameters(), 1e-3)


def small(weft: Any) -> tuple[Callable[[Any, Any], Any], tuple[Any, Any], Any]:
    p = weft.randn(10).requires_grad_()
    given = weft.randn(10), weft.randn(10)
    return lambda x, y: ((x * p).tanh() - y).square().mean(), given, weft.optim.SGD([p], 1e-3)


def whole(weft: Any, program: Any) -> Step:
    loss, given, optimizer = program(weft)

    def step(x: Any, y: Any) -> Any:
        optimizer.zero_grad()
        found = loss(x, y)
        found.backward()
        optimizer.step()
        return found

    compiled = weft.compile(step)
    return lambda: compiled(*given)


def outside(weft: Any, program: Any) -> Step:
    loss, given, _optimizer = program(weft)
    compiled = weft.compile(loss)
    return lambda: compiled(*given).backward()


ROWS: dict[str, tuple[Any, Any]] = {
    "MLP 32x64x64x10, whole step": (whole, mlp),
    "MLP 32x64x64x10, backward() outside": (outside, mlp),
    "small loss of 10 numbers, backward() outside": (outside, small),
}


# -- measuring -----------------------------------------------------------------------------------------------
def measure(name: str, calls: int) -> list[float]:
    """The seconds of each call."""
    weft = importlib.import_module("weft")
    form, program = ROWS[name]
    step, taken = form(weft, program), []
    for _ in range(calls):
        began = time.perf_counter()
        step()
        taken.append(time.perf_counter() - began)
    return taken


def facts(taken: list[float]) -> dict[str, float]:
    steady = statistics.median(taken[len(taken) // 2 :])
    slowest = max(range(1, len(taken)), key=taken.__getitem__)
    return {
        "first": taken[0], "steady": steady, "slowest": taken[slowest], "call": slowest + 1,
        "limit": TIMES * steady + PLUS, "rest": sum(taken[1:]),
        "rest_limit": TOGETHER * steady * (len(taken) - 1) + taken[0],
    }  # fmt: skip


def in_process(name: str, calls: int, cache: str) -> dict[str, float]:
    environment = dict(os.environ, PYTHONPATH=str(ROOT), WEFT_CACHE_DIR=cache)
    command = [sys.executable, __file__, "--one", name, "--calls", str(calls)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return facts(json.loads(done.stdout))


def text_of(name: str, kind: str, seen: dict[str, float]) -> str:
    met = seen["slowest"] <= seen["limit"] and seen["rest"] <= seen["rest_limit"]
    return (
        f"{name:46} {kind:4} first {1e3 * seen['first']:7.1f} ms  steady {1e6 * seen['steady']:7.1f} us  "
        f"slowest {1e3 * seen['slowest']:6.2f} ms at {seen['call']:.0f} (aim {1e3 * seen['limit']:.2f})  "
        f"sum {1e3 * seen['rest']:6.1f} ms (aim {1e3 * seen['rest_limit']:.1f}){'' if met else '  behind'}"
    )


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--calls", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        print(json.dumps(measure(options.one, options.calls)))
        return
    seen: dict[tuple[str, str], dict[str, float]] = {}
    for _ in range(options.rounds):
        for name in ROWS:
            with tempfile.TemporaryDirectory() as cache:
                for kind in ("cold", "warm"):
                    found = in_process(name, options.calls, cache)
                    known = seen.get((name, kind))
                    if known is None or found["slowest"] < known["slowest"]:
                        seen[name, kind] = found
    for (name, kind), found in seen.items():
        print(text_of(name, kind, found))
    if options.json:
        rows = [{"row": name, "cache": kind, **found} for (name, kind), found in seen.items()]
        Path(options.json).write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
