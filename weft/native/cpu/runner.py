"""Running: programs on arrays, as machine code of this process.

Takes a program, its functions and the arrays of a call; gives the arrays of its outputs. One idea: everything
that does not depend on addresses is at hand as plain numbers, so that a call takes a block, makes its
outputs, and goes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import accumulate
from typing import Any, Final

import numpy as np

from weft.core.expressions import Symbol
from weft.core.records import record
from weft.native.cpu import blas, tiers
from weft.native.cpu.calls import (
    ALIGNED,
    CHANGED,
    FAILED,
    FIXED,
    FROM_ARRAY,
    FROM_BLOCK,
    FROM_FLOAT,
    TABLE_FIELDS,
    WRITEABLE,
    address,
    check_row,
    function_address,
)
from weft.native.cpu.engine import Functions
from weft.native.cpu.outside import table
from weft.native.cpu.pool import FIELDS, pool
from weft.native.ir.sizes import Size, now
from weft.native.plan.memory import blocks
from weft.native.program.drawing import Draws
from weft.native.program.program import Changed, Failed, Program, found, results_of

Step = Callable[[list[Any], int, int], None]
MOST_ON_STACK = 4096
"""How many addresses a call may have on the stack."""
LONG = 20_000
"""From how many ns on a program lets other threads use the interpreter."""
SETTLED: Final = (
    "size",
    "inputs",
    "multiplies",
    "splits",
    "givens",
    "constants",
    "written",
    "numbers",
    "count",
)
"""What of a program no size changes."""
OPEN: Final = ("outputs", "made", "strides", "arena", "arena_bytes", "looked_at")


@record(frozen=True, slots=True)
class Frame:
    """All that it takes to run a program without Python. Inputs are numbered as the graph's are."""

    places: int
    givens: Sequence[tuple[int, int]]
    """(place, input)"""
    constants: Sequence[tuple[int, Any]]
    """(place, array)"""
    arena: Sequence[tuple[int, int]]
    """(place, offset in the block)"""
    arena_bytes: int
    made: Sequence[tuple[int, tuple[int, ...], Any]]
    """(place, shape, dtype) of outputs that a call makes."""
    strides: Sequence[tuple[int, ...] | None]
    """Of these, in bytes; None is row by row."""
    numbers: Sequence[int]
    """Places among these that become numbers of Python's."""
    outputs: Sequence[int | tuple[str, Any]]
    """A place; or ("input", its number); or ("constant", an object, of which arrays are to be copied)."""
    written: Sequence[tuple[int, int]]
    """(place, input) of inputs that the program writes: these must be writeable, and must not overlap any
    other input."""
    code: int
    count: int
    outside: int
    multiplies: bool
    """Whether BLAS is to use one thread meanwhile: `blas.guard` is then an argument of `run`."""
    seeds: int
    """The place of seeds, where it draws."""


class Runner:
    """A program in this process: with machine code, and what its records point to. Attributes that are called
    as fields of the program are these, with the numbers of this runner's sizes."""

    size: int
    inputs: int
    multiplies: bool
    splits: bool
    count: int
    givens: Sequence[tuple[int, int]]
    constants: Sequence[tuple[int, Any]]
    written: Sequence[tuple[int, int]]
    numbers: Sequence[int]
    outputs: list[Any]
    made: Sequence[tuple[int, tuple[int, ...], Any]]
    strides: Sequence[tuple[int, ...] | None]
    arena: Sequence[tuple[int, int]]
    arena_bytes: int
    looked_at: Sequence[tuple[int, tuple[int, ...], Any, int]]
    draws: Draws | None
    python: dict[int, tuple[Step, int]]
    """Steps that Python does, with the places of their results."""
    words: Any
    """All records, one behind the other."""
    code: Any
    """See Note [Records of a program] in `weft.native.cpu.pool`."""
    keep: list[Any]
    """What the code points to."""
    results: list[tuple[str, Any]]
    frame: Frame | None
    piecewise: bool = False
    """Whether steps are run apart though none needs Python."""
    looks: bool = True
    """Whether a call sees by itself that inputs are not as the program was made for."""
    is_restored: bool = False
    """Whether the program comes from the disk."""
    key: str | None = None
    """Under which it is on disk."""
    keep_again: Callable[[], None] | None = None
    """Has the disk keep it as it is now."""
    calls: int = 0
    """How often Python has run it, up to twice: see Note [Drafts] in `weft.native.cpu.tiers`."""

    def __init__(self, program: Program, functions: Functions, inputs: Sequence[Any]) -> None:
        self.take(program, functions, program.work)
        self.words, self.code = tables(program, functions)
        pythons = [number for number, name in enumerate(program.functions) if name == ""]
        self.settle(as_it_is if program.sizes is None else now, pythons)
        self.keep = [self.words]
        self.connect(inputs)

    def take(self, program: Program, functions: Functions, work: int) -> None:
        """What no size changes."""
        self.program, self.functions, self.outside, self.work = program, functions, table(), work
        for name in SETTLED:
            setattr(self, name, getattr(program, name))

    def settle(self, at: Callable[[Any], Any], pythons: Iterable[int]) -> None:
        """What sizes change, with `at` the numbers of this runner's, and the steps that Python does."""
        program = self.program
        for name in OPEN:
            setattr(self, name, at(getattr(program, name)))
        self.draws = Draws(at(program.draws)) if program.draws else None
        self.python = {}
        for number in pythons:
            assert program.listing is not None
            self.python[number] = program.listing.call_step(number, at)

    def connect(self, inputs: Sequence[Any]) -> None:
        """Settles how a call finds what the records name, for inputs that are laid out as these."""
        inputs = inputs if self.draws is None else [*inputs, self.draws.example]
        over = {place for place, _ in self.written}
        flags = {n: ALIGNED | WRITEABLE if place in over else ALIGNED for place, n in self.givens}
        checks = [check_row(n, inputs[n], needed, self.keep) for n, needed in flags.items()]
        floats = {n for n, value in enumerate(inputs) if isinstance(value, float)}
        fills = [[p, FROM_FLOAT if number in floats else FROM_ARRAY, number] for p, number in self.givens]
        fills += [[place, FROM_ARRAY, self.inputs + k] for k, (place, _, _) in enumerate(self.made)]
        fills += [[place, FROM_BLOCK, offset] for place, offset in self.arena]
        fills += [[place, FIXED, address(array)] for place, array in self.constants]
        self.write_table(checks, fills)
        self.results = results_of(self.program, self.outputs)
        passed = self.draws is not None and self.draws.needs_inputs
        simple = not (self.python or passed)
        self.frame = self.make_frame() if simple else None

    def write_table(self, checks: list[list[int]], fills: list[list[int]]) -> None:
        """See Note [Table of a program] in `weft.native.cpu.calls`."""
        kept = [np.array(rows or [[0]], np.int64) for rows in (checks, fills)]
        guard = blas.guard() if self.multiplies else None
        long = self.work > LONG
        self.table = np.array(
            [
                self.size, address(self.code), self.count, address(self.outside),
                0 if guard is None else address(guard), len(checks), address(kept[0]), len(fills),
                address(kept[1]), int(long), function_address("PyEval_SaveThread"),
                function_address("PyEval_RestoreThread"),
            ],
            np.int64,
        )  # fmt: skip
        assert len(self.table) == TABLE_FIELDS
        self.keep += [*kept, guard]
        self.here = address(self.table)

    def make_frame(self) -> Frame | None:
        last = self.inputs - 1 if self.draws is not None else None
        return Frame(
            places=self.size, givens=[each for each in self.givens if each[1] != last],
            seeds=next((place for place, number in self.givens if number == last), self.size),
            constants=self.constants, arena=self.arena, arena_bytes=self.arena_bytes,
            made=self.made, strides=self.strides, numbers=self.numbers, outputs=self.outputs,
            written=self.written, code=address(self.code),
            count=self.count, outside=address(self.outside), multiplies=self.multiplies,
        )  # fmt: skip

    # -- drafts ----------------------------------------------------------------------------------------------
    def ask(self) -> None:
        """It is used: its code is worth more."""
        if self.functions.drafts():
            tiers.ask(self)
        elif self.functions.moved:  # for a program that shares them
            self.improve()
        self.calls = 2

    def improve(self) -> None:
        """Exchanges drafts for code of the full level, which gives the same bits."""
        moved = self.functions.improve()
        old = [row for row in self.code[: self.count] if int(row[0]) in moved]
        for row in old:
            row[0] = moved[int(row[0])]
        if old and self.keep_again is not None:
            self.keep_again()

    # -- calls -----------------------------------------------------------------------------------------------
    def __call__(self, inputs: Sequence[Any]) -> list[Any]:
        """The results for these inputs, which are numbered as the graph's are. Raises Changed where they are
        laid out otherwise."""
        items = list(inputs)
        if self.draws is None:
            return self.run(items)
        seeds = self.draws.take(inputs)
        try:
            return self.run([*items, seeds])
        except BaseException:
            self.draws.give_back(seeds, inputs)
            raise

    def run(self, items: list[Any]) -> list[Any]:
        """The results for these inputs and seeds, behind which new arrays are put."""
        if self.calls < 2:
            if self.calls:
                self.ask()
            else:
                self.calls = 1
        for (_, shape, kind), strides in zip(self.made, self.strides):
            items.append(np.ndarray(shape, kind, None, 0, strides))
        threads = pool()
        if self.splits and not threads.started:
            threads.start()
        block = blocks.take(self.arena_bytes) if self.arena_bytes else None
        base = 0 if block is None else block.address
        values: list[Any] = []
        try:
            if self.python or self.piecewise or self.table[0] > MOST_ON_STACK:
                values = self.by_parts(threads, items, block, base)
            else:
                reached = threads.call(self.here, id(items), base, threads.here)
                if reached < 0:
                    raise Changed if reached == CHANGED else Failed
        finally:
            if block is not None:
                blocks.give(block)
        return [found(how, where, items, values) for how, where in self.results]

    def arrays_of(self, items: list[Any], block: Any) -> list[Any]:
        """What lies at each place before the first step, of what Python may see."""
        arrays: list[Any] = [None] * self.size
        for place, number in self.givens:
            arrays[place] = items[number]
        for place, array in self.constants:
            arrays[place] = array
        for number, (place, _, _) in enumerate(self.made, self.inputs):
            arrays[place] = items[number]
        if self.python:
            for place, shape, kind, offset in self.looked_at:
                arrays[place] = np.ndarray(shape, kind, block.array, offset)
        return arrays

    def by_parts(self, threads: Any, items: list[Any], block: Any, base: int) -> list[Any]:
        """Runs a program of which Python does some steps; gives all values that it has seen."""
        buffers = np.zeros(max(self.size, 1), np.int64)
        here = address(buffers)
        if threads.prepare(self.here, id(items), base, here) == CHANGED:
            raise Changed
        arrays = self.arrays_of(items, block)
        step, end = 0, base + (0 if block is None else block.room)
        while True:
            step = threads.steps(self.here, step, here, threads.here)
            if step == FAILED:
                raise Failed
            if step >= self.count:
                return arrays
            while step in self.python:
                function, target = self.python[step]
                function(arrays, base, end)
                if isinstance(arrays[target], np.ndarray):
                    buffers[target] = address(arrays[target])
                step += 1


def as_it_is(value: Any) -> Any:
    return value


def tables(program: Program, functions: Functions) -> tuple[Any, Any]:
    """The records of a program for the sizes for which it was planned, and its code: see Note [Records of a
    program] in `weft.native.cpu.pool`."""
    ends = [*accumulate(map(len, program.records))]
    at = as_it_is if program.sizes is None else now
    words = np.array([at(number) for record in program.records for number in record] or [0], np.int64)
    start, known = address(words), addresses(program, functions)
    made = []
    for name, numbers, row, end in zip(program.functions, program.records, program.rows, ends, strict=True):
        if name == "":
            made.append([0, 0, *row])
            continue
        function = name.expression.evaluate(known) if type(name) is Size else functions.address(name)
        made.append([function, start + 8 * (end - len(numbers)), *at(row)])
    return words, np.array(made or [[0] * FIELDS], np.int64)


def addresses(program: Program, functions: Functions) -> dict[Symbol, int]:
    """What symbols stand for where functions are chosen by sizes."""
    values = {} if program.sizes is None else dict(program.sizes.values)
    return values | {symbol: functions.address(name) for symbol, name in program.choices.items()}
