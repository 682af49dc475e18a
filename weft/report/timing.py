"""Timing: how long each step of a native program takes.

Takes a program and the arrays of a call; gives seconds. One idea: the program runs step by step on copies, a
few times over, and the best of each step counts. One thread runs it, so sums exceed what a call takes.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from typing import Any

from weft.core.generator import Generator, fork_rng
from weft.core.interrupts import let_through
from weft.core.lazy import lazy

_stepping: Any = lazy("weft.native.program.stepping")
_blas: Any = lazy("weft.native.cpu.blas")
ROUNDS = 5


def seconds_of_steps(program: Any, inputs: Sequence[Any], rounds: int = ROUNDS) -> list[float] | None:
    """The best time of each step; None where the program cannot be run again. Generators stay as they are."""
    best = [float("inf")] * program.program.count
    with fork_rng(), _blas.one_thread():
        for _ in range(rounds):
            try:
                stepping = _stepping.Stepping(program, [_copied(each) for each in inputs])
                for number in range(program.program.count):
                    stepping.step()
                    best[number] = min(best[number], stepping.seconds)
            except (
                Exception
            ) as error:  # what stops a program (an index out of range, say) is told by its call
                let_through(error)
                return None
    return best


def _copied(value: Any) -> Any:
    return value.clone_state() if isinstance(value, Generator) else copy(value)
