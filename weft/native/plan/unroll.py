"""Short loops: kernels whose innermost loops have few turns, written out, so that vectors run over the next.

Takes a kernel with the numbers of its call; gives another that does the same. One idea: a loop of a few turns
that planning knows is a row of copies of its body, in which a fold is a chain of instructions, so a kernel
with short rows becomes one without rows.

# Note [Short rows]
    for n in rows:                            for n in 0..rows, as vectors:
        for j in 0..3: x[n, j]                    x[n, 0], x[n, 1], x[n, 2]
        fold, after                               a chain, after
        for j in 0..3: y[n, j] = ...              y[n, 0], y[n, 1], y[n, 2] = ...
Elements of one row lie beside each other, and loads of them know it (`Access.leader`): memory is read as it
lies, and shuffled. Folds have the order of sums that the loops have (Note [Chains] in
`weft.native.ir.scalar`), and so has what is folded over all rows. So both have the same bits, and which of
them a plan takes is no condition of it: where the length of rows is open, it is the loops.
"""

from __future__ import annotations

from itertools import product
from math import prod
from typing import Any, Final

from weft.native.ir.definitions import Shape
from weft.native.ir.kernels import (
    COMBINED,
    Kernel,
    Phase,
    Scope,
    Store,
    identity,
    is_even,
    lane_bytes,
    unrolled_by,
)
from weft.native.ir.kernels import Fold as FoldRecord
from weft.native.ir.scalar import FOLDED, Builder, Instruction, Value, fold_constants
from weft.native.ir.sizes import expression, hint, same
from weft.native.plan.beside import accesses_of
from weft.native.plan.units import Load

LONGEST: Final = 32
"""Turns of a loop that is written out, at most."""
MOST_INSTRUCTIONS: Final = 640
"""Of all copies of a body."""
MOST_ACCESSES: Final = 128
"""Of all copies: each has an address and a shuffle, for which LLVM takes longer than for arithmetic."""
LEAST_ROWS: Final = 8
"""So many elements, at least, vectors run over."""


def depth_of(sizes: Shape, kernel: Kernel, loads: list[Load]) -> int:
    """How many loops, the innermost last, are to be written out; 0 where none should be."""
    if len(sizes) < 2 or type(sizes[-1]) is not int or sizes[-1] > LONGEST:
        return 0
    folds = [fold for phase in kernel.phases for fold in phase.folds]
    if any(fold.scope is Scope.COLUMN for fold in folds):
        return 0
    over_all = any(fold.scope is Scope.ALL for fold in folds)
    instructions = length_of(kernel)
    points, found = 1, 0
    for place in range(len(sizes) - 1, 0, -1):
        size = sizes[place]
        if type(size) is not int or size > LONGEST or points * size * instructions > MOST_INSTRUCTIONS:
            break
        if over_all and points > 1 and size > 1:
            break  # rows are folded in the order of loops
        if copies_of(loads, sizes[place:], place) > MOST_ACCESSES:
            break
        points *= size
        if points > 1 and hint(sizes[place - 1]) >= LEAST_ROWS:
            found = len(sizes) - place
    kept = [size for size in sizes[: len(sizes) - found] if not same(size, 1)]
    return 0 if over_all and len(kept) != 1 else found


def copies_of(loads: list[Load], short: Shape, first: int) -> int:
    """How many places the accesses have along short loops, of which `first` loops are outside."""
    count = 0
    for load in loads:
        moved = [size for size, stride in zip(short, load.strides[first:]) if not same(stride, 0)]
        count += prod(moved)
    return count


def length_of(kernel: Kernel) -> int:
    """How many instructions one turn of a row has: what several phases compute is computed once."""
    known: dict[Any, int] = {}
    for phase in kernel.phases:
        places: list[int] = []
        for each in phase.body:
            key = each.op, each.type, tuple([places[arg] for arg in each.args]), repr(each.value)
            places.append(known.setdefault(key, len(known)))
    folds = sum(len(phase.folds) for phase in kernel.phases)
    return folds + sum(key[0] not in ("const", "fold", "scalar") for key in known)


def unrolled(kernel: Kernel, sizes: Shape, loads: list[Load]) -> tuple[Kernel, Shape, list[Load]] | None:
    """The kernel with its short loops written out, its sizes and operands; None where it has none."""
    depth = depth_of(sizes, kernel, loads)
    return _Unrolling(kernel, sizes, loads, depth).run() if depth else None


class _Unrolling:
    """Writes the copies of all bodies into one."""

    def __init__(self, kernel: Kernel, sizes: Shape, loads: list[Load], depth: int) -> None:
        self.kernel, self.loads, self.depth = kernel, loads, depth
        self.short = sizes[len(sizes) - depth :]
        self.kept = [axis for axis, n in enumerate(sizes[: len(sizes) - depth]) if not same(n, 1)]
        self.sizes = tuple([sizes[axis] for axis in self.kept])
        self.rank = len(sizes)
        self.builder = Builder()
        self.made: list[Load] = []
        self.known: dict[Any, int] = {}
        self.stores: dict[int, Value] = {}
        self.over_all: list[FoldRecord] = []
        self.by_rows: set[int] = set()

    def run(self) -> tuple[Kernel, Shape, list[Load]]:
        *rows, inner = self.short
        for place in product(*map(range, rows)):
            self.row(place, inner)
        stores = tuple([Store(value.place, access) for access, value in self.stores.items()])
        phase = Phase(self.builder.body(), stores, tuple(self.over_all))
        moves = [load.strides for load in self.made]
        accesses = accesses_of(self.made, moves, [*self.stores, *self.by_rows], self.by_rows)
        made = Kernel(
            len(self.sizes) - 1, accesses, (phase,), self.kernel.scalars, is_even(self.sizes),
            bool(self.over_all), lane_bytes(self.kernel),
        )  # fmt: skip
        return made, self.sizes, self.made

    def row(self, place: tuple[int, ...], inner: int) -> None:
        """All phases on one row, which stands there along the outer ones of the short loops."""
        folds: list[Value | None] = []
        for phase in self.kernel.phases:
            copies = [self.copy(phase.body, (*place, turn), folds) for turn in range(inner)]
            for turn, values in enumerate(copies):
                for store in phase.stores:
                    self.stores[self.access(store.access, (*place, turn))] = values[store.value]
            for fold in phase.folds:
                chain = self.chain(fold, [values[fold.value] for values in copies], unrolled_by(phase))
                if fold.scope is Scope.ALL:
                    assert fold.access is not None
                    access = self.access(fold.access, (*place, 0))
                    self.by_rows.add(access)
                    made = FoldRecord(fold.kind, chain.place, fold.type, fold.scope, access)
                    self.over_all.append(made)
                folds.append(chain)
            values = self.copy(phase.after, (*place, 0), folds)
            folds += [values[each] for each in phase.given]
            for store in phase.kept:
                self.stores[self.access(store.access, (*place, 0))] = values[store.value]

    def chain(self, fold: FoldRecord, values: list[Value], unroll: int) -> Value:
        """What a fold over a row gives: see Note [Chains] in `weft.native.ir.scalar`."""
        how = COMBINED[fold.kind], identity(fold), unroll
        return self.builder.make(FOLDED, fold.type, *values, value=how)

    def access(self, number: int, place: tuple[int, ...]) -> int:
        """The access at one place of the short loops."""
        load = self.loads[number]
        outer = tuple([load.strides[axis] for axis in self.kept])
        short = load.strides[self.rank - self.depth :]
        offset = load.offset + sum(a * b for a, b in zip(short, place) if b)
        key = id(load.value), expression(offset), tuple(map(expression, outer))
        found = self.known.get(key)
        if found is None:
            found = self.known[key] = len(self.made)
            self.made.append(Load(load.value, offset, outer))
        return found

    def copy(self, body: Any, place: tuple[int, ...], folds: list[Value | None]) -> list[Value]:
        """The values of a body at one place."""
        found: list[Value] = []
        for each in body:
            found.append(self.step(each, [found[arg] for arg in each.args], place, folds))
        return found

    def step(self, each: Instruction, args: list[Value], place: tuple[int, ...], folds: list[Any]) -> Value:
        builder = self.builder
        if each.op == "load":
            access = self.access(each.value, place)
            return self.stores.get(access) or builder.load(access, each.type)
        if each.op == "gather":
            return builder.make("gather", each.type, *args, value=self.access(each.value, place))
        if each.op == "fold":
            return folds[each.value]  # type: ignore[no-any-return]
        if each.op == "index":
            return self.index(each, place)
        return fold_constants(builder, each, args)

    def index(self, each: Instruction, place: tuple[int, ...]) -> Value:
        """A place along a loop: a number, where that is written out or has one turn."""
        axis = self.rank - 1 - each.value
        if axis >= self.rank - self.depth:
            return self.builder.const(place[axis - (self.rank - self.depth)], each.type)
        if axis not in self.kept:
            return self.builder.const(0, each.type)
        value = len(self.kept) - 1 - self.kept.index(axis)
        return self.builder.make("index", each.type, value=value)
