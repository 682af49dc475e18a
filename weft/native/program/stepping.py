"""Stepping: programs run record by record, with every value to look at.

Takes what runs a program and the inputs of a call; gives, step by step, what was read and written. One idea:
records know nothing of how memory is shared, so each value gets an array of its own, which stays.

    stepping = Stepping(runner, arrays)
    for step in stepping:
        print(step, step.writes)          # the step has run
    stepping.results()
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator, Sequence
from time import perf_counter
from typing import Any

import numpy as np

from weft.core.records import record
from weft.native.cpu.calls import address
from weft.native.ir.definitions import Definition, Direct, Given, Reshape, View, operands_of
from weft.native.ir.sizes import now
from weft.native.plan.build import Built
from weft.native.plan.order import reads_of, writes_of
from weft.native.program.listing import is_ours, numpy_type, stacked
from weft.native.program.program import Failed, found

Source = tuple[Any, ...]
Doing = Callable[[Any, Any, list[Any], int, int, int], None]
"""Does a chunk of a step: the step, the numbers of its record, arrays by place, which rows, which chunk."""
CHECKS = ("failed", "refused", "input ")
"""Names of what programs compute to see whether they may go on."""
FUNCTION: Any = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 3, *[ctypes.c_int64] * 3)


def computed(step: Any) -> list[Definition]:
    """All that a step computes, each behind what it is made of; not what it reads."""
    if not isinstance(step, Built):
        return list(writes_of(step))
    seen = {id(value) for value in reads_of(step)}
    found: list[Definition] = []
    waiting = [(value, False) for value in writes_of(step)]
    while waiting:
        each, done = waiting.pop()
        if done:
            found.append(each)
        elif id(each) not in seen and not isinstance(each, Given):
            seen.add(id(each))
            waiting.append((each, True))
            waiting += [(value, False) for value in reversed(operands_of(each))]
    return found


def lines_of(step: Any) -> tuple[Source, ...]:
    """The user's lines behind a step, in order."""
    return tuple(sorted({tuple(each.source[:3]) for each in computed(step) if each.source}))


def shares_of(step: Any) -> list[tuple[str, int, bool]]:
    """The user's lines that a step works for: file, line, and whether it computes gradients of what stands
    there.
    """
    found = set()
    for each in computed(step):
        if each.source:
            file, line, behind = *each.source[:2], len(each.source) > 4
            found.add((*each.source[4], True) if behind else (file, line, False))
    return sorted(found)


def ops_of(step: Any) -> str:
    """The ops that a step does, for people."""
    names = [each.name for each in computed(step) if each.name and not isinstance(each, (View, Reshape))]
    names = [name for name in names if not name.startswith(CHECKS)]
    return " ".join(dict.fromkeys(names)) or step.name or type(step).__name__.lower()


@record(frozen=True, slots=True)
class Shown:
    """A step that has run."""

    number: int
    name: str
    """The ops that it does."""
    lines: tuple[Source, ...]
    """The user's: file, line, function."""
    reads: tuple[Any, ...]
    writes: tuple[Any, ...]

    def __str__(self) -> str:
        return f"step {self.number}: {self.name} {place_text(self.lines)}".rstrip()


def place_text(lines: Sequence[Source]) -> str:
    return f"({', '.join(f'{file}:{line} in {function}' for file, line, function in lines)})" if lines else ""


class Stepping:
    """A call of a program, step by step. `doing` does the steps in place of their machine code."""

    def __init__(self, runner: Any, inputs: Sequence[Any], doing: Doing | None = None) -> None:
        program = runner.program.settled()
        assert program.listing is not None
        if runner.draws is not None:
            inputs = [*inputs, runner.draws.take(inputs)]
        self.runner, self.program, self.inputs, self.doing = runner, program, list(inputs), doing
        self.listing = program.listing
        self.number = 0
        """Of the step that comes next."""
        self.seconds = 0.0
        """What the latest step took, without the time that looking at it takes."""
        self.arrays: list[Any] = [None] * program.size
        """What lies at each place; None where nothing has been put yet."""
        for place, number in program.givens:
            self.arrays[place] = np.asarray(inputs[number])
        for place, constant in program.constants:
            self.arrays[place] = constant
        for place, value in self.listing.values.items():
            if is_ours(value):
                self.arrays[place] = np.empty(now(value.shape), numpy_type(value.type))
        for (place, shape, kind), strides in zip(program.made, program.strides, strict=True):
            self.arrays[place] = np.ndarray(shape, kind, None, 0, strides)
        self.runs, self.firsts = stacked(self.listing.values, self.listing.places)
        for run in self.runs:
            self.put_together(run)

    def put_together(self, run: list[int]) -> None:
        """Has arrays lie one behind the other."""
        arrays = [self.arrays[place] for place in run]
        memory = np.concatenate([array.reshape(-1) for array in arrays])
        ends = np.cumsum([array.size for array in arrays]).tolist()
        for place, array, end in zip(run, arrays, ends, strict=True):
            self.arrays[place] = memory[end - array.size : end].reshape(array.shape)
        for place, first in self.firsts.items():
            if first in run:
                shape, start = now(self.listing.values[place].shape), ends[run.index(first)]
                start -= arrays[run.index(first)].size
                self.arrays[place] = memory[start : start + int(np.prod(shape))].reshape(shape)

    def value(self, definition: Definition) -> Any:
        """What a definition is so far."""
        return self.arrays[self.listing.places[id(definition)]]

    def upcoming(self) -> list[Any]:
        """What the next step will read."""
        return [self.value(value) for value in reads_of(self.listing.steps[self.number])]

    def step(self) -> Shown:
        """Runs the next step."""
        number, runner = self.number, self.runner
        each = self.listing.steps[number]
        self.number += 1
        self.seconds = 0.0
        if number in runner.python:
            function, _target = runner.python[number]
            began = perf_counter()
            function(self.arrays, 0, 0)
            self.seconds = perf_counter() - began
        else:
            self.native(each, number)
        if isinstance(each, Direct) and each.checks and self.value(each).item():
            if runner.draws is not None:
                runner.draws.give_back(self.inputs[-1], self.inputs)
            raise Failed
        reads = tuple([self.value(value) for value in reads_of(each)])
        writes = tuple([self.value(value) for value in writes_of(each)])
        return Shown(number, ops_of(each), lines_of(each), reads, writes)

    def native(self, each: Any, number: int) -> None:
        """Runs a record, chunk by chunk: see Note [Records of a program] in `weft.native.cpu.pool`."""
        rows, chunks = self.program.rows[number][:2]
        if self.doing is None:
            function, numbers = map(int, self.runner.code[number, :2])
            starts = [0 if array is None else address(np.asarray(array)) for array in self.arrays]
            buffers = np.array(starts, np.int64)
        for chunk in range(chunks):
            low, high = rows * chunk // chunks, rows * (chunk + 1) // chunks
            if self.doing is None:
                call, where = FUNCTION(function), (address(buffers), address(self.runner.outside))
                began = perf_counter()
                call(numbers, *where, low, high, chunk)
                self.seconds += perf_counter() - began
            else:
                self.doing(each, self.program.records[number], self.arrays, low, high, chunk)

    def __iter__(self) -> Iterator[Shown]:
        while self.number < self.program.count:
            yield self.step()

    def finish(self) -> None:
        """Runs all steps that are left."""
        for _ in self:
            pass

    def results(self) -> list[Any]:
        """What the program gives, once all steps have run."""
        items = [*self.inputs, *[self.arrays[place] for place, _, _ in self.program.made]]
        return [found(how, where, items, self.arrays) for how, where in self.runner.results]
