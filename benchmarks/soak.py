"""A soak: thousands of compiles in one process, whose memory must not grow.

Takes how many rounds; prints the memory of the process and how many pieces of code live, as it goes. Each
round makes a function of its own (other constants, other sizes, sometimes a gradient, a written input, a step
of Python), compiles it, calls it, compares with eager and lets go of it. One idea: what is let go of must be
gone, so the second half of the rounds may take no more than the first half left.

    python benchmarks/soak.py [rounds]
"""

from __future__ import annotations

import gc
import os
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

ROUNDS = 10_000
ALLOWED = 24 << 20
"""How many bytes the second half may add: allocators do not give everything back."""


def resident() -> int:
    """The memory of this process, in bytes."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGESIZE")


def made(weft: Any, number: int) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """A function that no other round has, and its inputs."""
    factor, size = 1.0 + number / 1000, 2 + number % 37

    def pointwise(x: Any, y: Any) -> Any:
        return (x * factor + weft.tanh(y)) / (y * y + factor)

    def folded(x: Any, y: Any) -> Any:
        return weft.softmax(x * factor, -1) @ y.t(), (x + y).sum(0)

    def written(x: Any, y: Any) -> Any:
        x.mul_(factor).add_(y)
        return x.amax(-1)

    def called(x: Any, y: Any) -> Any:
        return (x * factor).sort(dim=-1)[0] + y

    def differentiated(x: Any, y: Any) -> Any:
        loss = (x * factor * y).exp().sum()
        return weft.autograd.grad(loss, [x])[0]

    function = (pointwise, folded, written, called, differentiated)[number % 5]
    inputs = weft.rand(3, size), weft.rand(3, size)
    if function is differentiated:
        inputs[0].requires_grad_()
    return function, inputs


def one_round(weft: Any, number: int) -> None:
    function, inputs = made(weft, number)
    compiled = weft.compile(function, backend="native")
    copies = tuple([each.detach().clone().requires_grad_(each.requires_grad) for each in inputs])
    weft.testing.assert_close(compiled(*inputs), function(*copies), rtol=1e-4, atol=1e-5)


def soak(rounds: int, report: Callable[[str], None] = lambda line: None) -> int:
    """Runs so many rounds; gives by how many bytes the second half has grown."""
    import weft
    import weft.testing
    from weft.native.cpu import engine

    half, start = 0, time.perf_counter()
    for number in range(rounds):
        one_round(weft, number)
        if number + 1 in (rounds // 2, rounds) or (number + 1) % max(rounds // 10, 1) == 0:
            gc.collect()
            now = resident()
            half = half if number + 1 > rounds // 2 else now
            passed = time.perf_counter() - start
            report(f"{number + 1:6} rounds  {now >> 20:5} MiB  {engine.living():4} modules  {passed:6.1f} s")
    return resident() - half


def main() -> int:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else ROUNDS
    with tempfile.TemporaryDirectory() as folder:
        os.environ.setdefault("WEFT_CACHE_DIR", folder)
        grown = soak(rounds, print)
    print(f"the second half grew by {grown / (1 << 20):.1f} MiB")
    return int(grown > ALLOWED)


if __name__ == "__main__":
    sys.exit(main())
