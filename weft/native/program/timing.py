"""Timing: programs that report how long their steps take.

Takes a graph; gives programs that are run step by step, as fast as steps run, and tell each step's name, the
user's lines, when it began and what it took. One idea: a program's records are run one at a time, or so many
as run together; everything else is as without timing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import perf_counter
from typing import Any, Final

import numpy as np

from weft.native.backend import Compiled
from weft.native.cpu.calls import CHANGED, FAILED, address
from weft.native.cpu.runner import Runner
from weft.native.cpu.target import Cpu
from weft.native.program.describe import listed
from weft.native.program.program import Changed, Failed
from weft.native.program.stepping import lines_of, ops_of
from weft.native.target import Running

LAST = 2
"""Where in a program's table it says behind which record to stop: see Note [Table of a program]."""
listeners: Final[list[Callable[[str, tuple[Any, ...], float, float], None]]] = []
"""Told of each step: its ops, the user's lines, when it began, how many seconds it took."""


COMPILING: Final = "compile a native program"


class Timed(Runner):
    """A program that tells how long its steps take."""

    piecewise = True

    def make_frame(self) -> Any:
        """There is no way around `run`."""
        return None

    def connect(self, inputs: Sequence[Any]) -> None:
        super().connect(inputs)
        steps = listed(self.program).steps
        self.names = [ops_of(step) for step in steps]
        self.lines = [lines_of(step) for step in steps]
        self.spans = listed(self.program).spans

    def by_parts(self, threads: Any, items: list[Any], block: Any, base: int) -> list[Any]:
        """Runs the steps one at a time, or those that run together."""
        buffers = np.zeros(max(self.size, 1), np.int64)
        here = address(buffers)
        if threads.prepare(self.here, id(items), base, here) == CHANGED:
            raise Changed
        arrays = self.arrays_of(items, block)
        table = self.table.copy()
        step, end = 0, base + (0 if block is None else block.room)
        while step < self.count:
            began = perf_counter()
            if step in self.python:
                function, target = self.python[step]
                function(arrays, base, end)
                if isinstance(arrays[target], np.ndarray):
                    buffers[target] = address(arrays[target])
                behind = step + 1
            else:
                table[LAST] = behind = self.spans[step][1] + 1
                if threads.steps(address(table), step, here, threads.here) == FAILED:
                    raise Failed
            self.tell(step, behind, began)
            step = behind
        return arrays

    def tell(self, first: int, behind: int, began: float) -> None:
        took = perf_counter() - began
        names = " + ".join(self.names[first:behind])
        lines = tuple(dict.fromkeys(line for each in self.lines[first:behind] for line in each))
        for listener in tuple(listeners):
            listener(names, lines, began, took)


class Timing(Compiled):
    """A graph whose programs are all timed."""

    def made(self, arrays: list[Any]) -> Running:
        began = perf_counter()
        runner = super().made(arrays)
        for listener in tuple(listeners):
            listener(COMPILING, (), began, perf_counter() - began)
        return runner


timed: Final = Cpu(Timed)
