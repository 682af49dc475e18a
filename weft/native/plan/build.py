"""Building kernels: a group of definitions as loops with phases.

Takes a group and what is stored in memory; gives a `Kernel` with the numbers of its call. One idea: all
members are written into the same loops, so what they share is computed once; loops that move alike are
joined at the end.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field
from math import prod

from weft.core.records import record
from weft.native.ir.definitions import Definition, Fold, Given, Opaque, Shape
from weft.native.ir.kernels import Access, Kernel, Phase, Scope, Step, Store, is_even, row_of
from weft.native.ir.kernels import Fold as FoldRecord
from weft.native.ir.scalar import Builder, Value
from weft.native.ir.sizes import Amount, Size, is_open, same
from weft.native.plan.beside import accesses_of
from weft.native.plan.units import (
    Affine,
    Cut,
    Group,
    Indices,
    Inlining,
    Keep,
    Load,
    Member,
    Split,
    access_at,
    access_of,
)
from weft.native.plan.unroll import unrolled

MOST_CUTS = 32
LEAST_ROW = 512
"""Shorter rows are not worth cutting a long one into them."""


@record(slots=True)
class Built:
    """A kernel with the memory that its accesses mean."""

    kernel: Kernel
    sizes: Shape
    operands: list[Load]
    name: str
    chunks: int | None = None
    """How many chunks there must be, if there are parts of folds for each."""
    scalars: tuple[tuple[str, Size | Amount], ...] = ()
    """Numbers that only a call knows, with their types in the kernel."""


@record(slots=True)
class _Phase:
    elements: Inlining
    rows: Inlining
    stores: list[Store] = field(default_factory=list)
    folds: list[FoldRecord] = field(default_factory=list)
    given: list[int] = field(default_factory=list)
    kept: list[Store] = field(default_factory=list)


class _Building:
    """One try, with these loops: `outer` of them count rows, the others are walked along."""

    def __init__(
        self, group: Group, sizes: Shape, outer: int, is_stored: Callable[[Definition], bool]
    ) -> None:
        self.group, self.outer, self.is_stored = group, outer, is_stored
        self.indices = Indices(sizes)
        self.loads: list[Load] = []
        self.scalars: list[tuple[str, Size | Amount]] = []
        self.row_index = self.indices.linear(0, outer)
        self.whole_index = self.indices.linear(0, len(sizes))
        members = list(group.members.values())
        self.done: dict[int, tuple[Affine, ...]] = {}  # where members that are computed stand
        self.numbers: dict[int, int] = {}
        levels = range(1 + max(member.level for member in members))
        for level in levels:  # folds are numbered phase by phase, what is made of them behind
            here = [m for m in members if (m.row or m.partial) and m.level == level]
            for member in sorted(here, key=lambda m: not isinstance(m.value, Fold)):
                self.numbers[id(member.value)] = len(self.numbers)
        self.phases = [_Phase(self.inlining(level, False), self.inlining(level, True)) for level in levels]
        for member in members:
            try:
                self.write(member)
            except Keep as keep:
                if id(keep.value) in group.members and len(members) > 1:
                    raise Split(self.blamed(member, keep), keep.reason) from None
                raise

    def blamed(self, member: Member, keep: Keep) -> Definition:
        """Who is to leave the group: where elements cannot be walked in its loops, the fold that asked for
        these after the elements had come.
        """
        members = list(self.group.members.values())
        place = next((i for i, each in enumerate(members) if isinstance(each.value, Fold)), 0)
        own = keep.value is member.value and not member.row and members.index(member) < place
        return members[place].value if own else member.value

    def inlining(self, level: int, row: bool) -> Inlining:
        return Inlining(self.indices, self.loads, self.is_loaded, self.finder(level, row), self.scalars)

    def is_loaded(self, given: Definition) -> bool:
        """Whether a definition is read from memory where its value is not at hand."""
        member = self.group.members.get(id(given))
        return self.is_stored(given) if member is None else self.is_stored(given) and id(given) in self.done

    def places(self, member: Member) -> tuple[Affine, ...]:
        """Where in its definition a member's element, or row's value, stands."""
        value = member.value
        return self.indices.apart(value, value.shape, self.row_index if member.row else self.whole_index)

    def finder(self, level: int, row: bool) -> Callable[..., Value | None]:
        def find(builder: Builder, given: Definition, places: tuple[Affine, ...]) -> Value | None:
            """The value of a member where it is at hand: a row's value, or an element of this phase."""
            member = self.group.members.get(id(given))
            if member is None or id(given) not in self.done:
                return None
            if member.row:
                if places != self.done[id(given)]:
                    raise Keep(given, "a reduction's result that is read at other indices")
                return builder.make("fold", given.type, value=self.numbers[id(given)])
            if row:
                raise Keep(given, "a per-row value that is computed from elements")
            if places != self.done[id(given)]:
                raise Keep(given, "its elements are read at other indices")
            return None  # at hand, if it was computed in this phase; else read again, or computed again

        return find

    def write(self, member: Member) -> None:
        value, phase = member.value, self.phases[member.level]
        if member.partial:
            assert isinstance(value, Fold)
            self.write_part(value, phase)
            return
        places = self.places(member)
        if isinstance(value, Fold):
            made = phase.elements.value(value.operand, self.operand_places(value, places))
            phase.folds.append(FoldRecord(value.kind, made.place, value.type))
            if self.is_stored(value):
                again = phase.rows.builder.make("fold", value.type, value=self.numbers[id(value)])
                phase.kept.append(Store(again.place, self.access(value, places)))
        elif member.row:
            made = phase.rows.make(value, places)
            phase.rows.known[id(value), places] = made  # others of this phase read it before it is a fold
            phase.given.append(made.place)
            if self.is_stored(value):
                phase.kept.append(Store(made.place, self.access(value, places)))
        else:
            made = phase.elements.make(value, places)
            phase.elements.known[id(value), places] = made
            if self.is_stored(value):
                phase.stores.append(Store(made.place, self.access(value, places)))
        self.done[id(value)] = places

    def write_part(self, value: Fold, phase: _Phase) -> None:
        """A fold over rows, or over everything: a row of results, or one, for each chunk."""
        operand, loops = value.operand, len(self.indices.sizes)
        over, rest = operand.shape[: value.last], operand.shape[value.last :]
        places = self.indices.apart(operand, over, self.row_index if rest else self.whole_index)
        if rest:
            columns = self.indices.apart(operand, rest, self.indices.linear(self.outer, loops))
            places += columns
        made = phase.elements.value(operand, places)
        if rest and same(value.parts, 1):
            access = self.access(value, columns)
        else:
            moves = [prod(self.indices.sizes[loop + 1 :]) if rest else 0 for loop in range(loops)]
            access = access_at(self.loads, value, 0, (*[0] * self.outer, *moves[self.outer :]))
        scope = Scope.COLUMN if rest else Scope.ALL
        phase.folds.append(FoldRecord(value.kind, made.place, value.type, scope, access))

    def operand_places(self, value: Fold, places: tuple[Affine, ...]) -> tuple[Affine, ...]:
        """The indices of an element that is folded."""
        operand = value.operand
        inner = operand.shape[value.first : value.last]
        index = self.indices.linear(self.outer, len(self.indices.sizes))
        walked = self.indices.apart(operand, inner, index)
        return (*places[: value.first], *walked, *places[value.first :])

    def access(self, value: Definition, places: tuple[Affine, ...]) -> int:
        return access_of(self.loads, value, places, len(self.indices.sizes))


def built(group: Group, is_stored: Callable[[Definition], bool]) -> Built:
    """The kernel of a group. Raises Keep where something must be kept before."""
    sizes: list[int] = [group.rows, group.inner]
    outer = 1
    for _ in range(MOST_CUTS):
        try:
            state = _Building(group, tuple(sizes), outer, is_stored)
        except Cut as cut:
            sizes[cut.loop : cut.loop + 1] = [sizes[cut.loop] // cut.inner, cut.inner]
            outer += cut.loop < outer
            continue
        return _written_out(_finished(state, group))
    raise Keep(next(iter(group.members.values())).value, "its loops would have to be split too often")


def _written_out(made: Built) -> Built:
    """The kernel without its short loops."""
    found = unrolled(made.kernel, made.sizes, made.operands)
    if found is not None:
        made.kernel, made.sizes, made.operands = found
    return made


def _finished(state: _Building, group: Group) -> Built:
    """Joins loops, and writes the kernel's record."""
    sizes, outer = state.indices.sizes, state.outer
    moves = [load.strides for load in state.loads]
    bodies = [half.builder.instructions for phase in state.phases for half in (phase.elements, phase.rows)]
    if any(each.op == "index" for body in bodies for each in body):  # counters are told apart by their loops
        if group.settled and len(sizes) - outer > 1:
            _put_in_order(state, group, first_of(group), "a reduction that uses indices of several loops")
        return _record(state, group, sizes, moves)
    if not group.settled:
        sizes, moves = joined(sizes, moves)
        row = row_of(sizes[0]) if len(sizes) == 1 and not (group.folds_all or is_open(sizes)) else 0
        if row and (row >= LEAST_ROW or row == sizes[0]):
            sizes, moves = (sizes[0] // row, row), [(each[0] * row, each[0]) for each in moves]
        return _record(state, group, sizes, moves)
    rows, row_moves = joined(sizes[:outer], [each[:outer] for each in moves])
    walked, walked_moves = joined(sizes[outer:], [each[outer:] for each in moves])
    if len(walked) > 1:
        for load, each in zip(state.loads, walked_moves):
            if not all(same(each[i], each[i + 1] * walked[i + 1]) for i in range(len(walked) - 1)):
                _put_in_order(state, group, load.value, "a reduction over memory that has no single stride")
    if not walked:
        walked, walked_moves = (1,), [(0,)] * len(moves)
    if by_columns(group, rows, row_moves, walked_moves):
        return _columns(state, group, (*walked, *rows), [(*b, *a) for a, b in zip(row_moves, walked_moves)])
    return _record(state, group, (*rows, *walked), [(*a, *b) for a, b in zip(row_moves, walked_moves)])


def _put_in_order(state: _Building, group: Group, given: Definition, reason: str) -> None:
    """Refuses a fold over several loops: what it folds is to be kept, or computed by another kernel."""
    for member in group.members.values():
        if isinstance(member.value, Fold):
            operand = member.value.operand
            if id(operand) in group.members:
                raise Split(member.value, reason)
            if not isinstance(operand, (Given, Opaque)) and not state.is_stored(operand):
                raise Keep(operand, reason)
    for member in reversed(group.members.values()):
        if not member.row:
            raise Split(member.value, reason)
    raise Keep(given, reason)


def by_columns(group: Group, rows: Shape, row_moves: list[Shape], walked_moves: list[Shape]) -> bool:
    """Whether a fold walks across rows: memory is then read as it lies, and each column has its sum."""
    if len(group.members) != 1 or len(rows) != 1 or not group.folds:
        return False
    pairs = [(row[-1], walked[-1]) for row, walked in zip(row_moves, walked_moves)]
    return any(walked > row == 1 for row, walked in pairs)


def _columns(state: _Building, group: Group, sizes: Shape, moves: list[Shape]) -> Built:
    """A fold over all loops but the innermost."""
    built_by_rows = _record(state, group, sizes, moves)
    kernel = built_by_rows.kernel
    (phase,) = kernel.phases
    (fold,), (store,) = phase.folds, phase.kept
    record = FoldRecord(fold.kind, fold.value, fold.type, Scope.COLUMN, store.access)
    accesses = list(kernel.accesses)
    accesses[store.access] = Access(fold.type, Step.ONE, True)
    built_by_rows.kernel = Kernel(
        kernel.outer, tuple(accesses), (Phase(phase.body, (), (record,)),), kernel.scalars, kernel.even
    )
    return built_by_rows


def first_of(group: Group) -> Definition:
    return next(iter(group.members.values())).value


def joined(sizes: Shape, moves: list[Shape]) -> tuple[Shape, list[Shape]]:
    """The loops without those of one turn, neighbours that move alike as one."""
    loops = [loop for loop, size in enumerate(sizes) if not same(size, 1)]
    new_sizes: list[int] = []
    new_moves: list[list[int]] = [[] for _ in moves]
    for loop in reversed(loops):
        alike = bool(new_sizes) and all(
            same(each[loop], new[0] * new_sizes[0]) for each, new in zip(moves, new_moves)
        )
        if alike:
            new_sizes[0] *= sizes[loop]
            continue
        new_sizes.insert(0, sizes[loop])
        for each, new in zip(moves, new_moves):
            new.insert(0, each[loop])
    return tuple(new_sizes), [tuple(each) for each in new_moves]


def _record(state: _Building, group: Group, sizes: Shape, moves: list[Shape]) -> Built:
    if not sizes:
        sizes, moves = (1,), [(0,)] * len(moves)
    written = {store.access for phase in state.phases for store in (*phase.stores, *phase.kept)}
    row_stores = {store.access for phase in state.phases for store in phase.kept}
    row_stores |= {fold.access for phase in state.phases for fold in phase.folds if fold.access is not None}
    written |= row_stores
    accesses = accesses_of(state.loads, moves, written, row_stores)
    phases = [
        Phase(
            phase.elements.builder.body(),
            tuple(phase.stores),
            tuple(phase.folds),
            phase.rows.builder.body(),
            tuple(phase.given),
            tuple(phase.kept),
        )
        for phase in state.phases
    ]
    operands = [Load(load.value, load.offset, each) for load, each in zip(state.loads, moves)]
    names = [member.value.name for member in group.members.values() if member.value.name]
    types = tuple([type_ for type_, _ in state.scalars])
    kernel = Kernel(len(sizes) - 1, accesses, tuple(phases), types, is_even(sizes))
    return Built(kernel, sizes, operands, " ".join(dict.fromkeys(names)), group.parts, tuple(state.scalars))
