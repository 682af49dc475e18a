"""Assembling: a plan as a program.

Takes what planning has given, and the names of the functions that a target has made of its steps; gives the
program. One idea: everything that does not depend on addresses (records, sizes, where values lie in a call's
block of memory) is laid out once, as data.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from math import isqrt, prod
from typing import Any, Protocol

import numpy as np

from weft.core.expressions import Expression, Symbol, constant
from weft.core.records import record
from weft.native.ir.definitions import Definition, Direct, Given, Number, Product
from weft.native.ir.scalar import FLOATS, TYPES
from weft.native.ir.sizes import Amount, At, Size, Sizes, equal, hint, is_open, where, word_of
from weft.native.plan import memory
from weft.native.plan.build import Built
from weft.native.plan.memory import Lifetime, Placement, in_runs, placed, placed_open
from weft.native.plan.order import bunches, is_python, reads_of, writes_of
from weft.native.plan.work import CHUNK, chunks_of, work_of
from weft.native.program.listing import Listing, is_ours, numpy_type, stacked, strides_of, whole_of
from weft.native.program.planning import Planned
from weft.native.program.program import ROW, WORK, Program


class Emitted(Protocol):
    """What a target has made of the steps of a plan."""

    @property
    def names(self) -> Sequence[Any]:
        """The functions of the steps by name, or as numbers that choose among them."""

    @property
    def choices(self) -> Mapping[Symbol, str]:
        """Functions among which open sizes choose, by the symbols that stand for them."""

    @property
    def multiplies(self) -> bool:
        """Whether a library of products is called."""


@record(frozen=True, slots=True)
class Recorded:
    """A step as numbers."""

    numbers: Sequence[Any]
    rows: Any
    chunks: Any
    work: Any


ProductRecord = Callable[[Product, Callable[[Definition], int]], Recorded]
"""What the function of a product is given, which is the target's; the places of its values are asked for."""


def assembled(planned: Planned, inputs: int, emitted: Emitted, product: ProductRecord) -> Program:
    """The program of a plan for so many inputs."""
    return Assembly(planned, product).program(planned, inputs, emitted)


class Assembly:
    """A program that is being put together."""

    def __init__(self, planned: Planned, product: ProductRecord) -> None:
        self.steps, self.homes, self.sizes = planned.plan.steps, planned.homes, planned.plan.sizes
        self.product = product
        self.places: dict[int, int] = {}
        self.values: dict[int, Definition] = {}
        self.splits = False
        found = [self.step(each) for each in self.steps]
        self.records = [[] if each is None else each.numbers for each in found]
        self.rows: list[list[Any]] = [
            [0] * ROW if each is None else [each.rows, each.chunks, each.work, 0, 0, 0] for each in found
        ]
        self.spans = [(number, number) for number in range(len(found))]
        for first, together, chunks, work in bunches(
            self.steps, [row[WORK] for row in self.rows], self.homes
        ):
            self.rows[first][WORK + 1 :] = together, chunks, work
            self.splits = True
            last = first + hint(together) - 1
            self.spans[first : last + 1] = [(first, last)] * (last - first + 1)

    def place(self, value: Definition) -> int:
        """The place of a value in a call: see Note [Places] in `weft.native.program.program`."""
        found = self.places.get(id(value))
        home = whole_of(value) or self.homes.get(id(value)) if found is None else None
        if home is not None:
            found = self.places[id(value)] = self.place(home)
        if found is None:
            found = self.places[id(value)] = len(self.places)
            self.values[found] = value
        return found

    def output(self, each: Any) -> int | tuple[str, Any]:
        if not isinstance(each, Definition):
            return "constant", each
        each = self.homes.get(id(each), each)
        if isinstance(each, Given):
            return ("constant", each.constant) if each.input is None else ("input", each.input)
        return self.place(each)

    def step(self, each: Any) -> Recorded | None:
        """What the function of a step is given; None where Python does it."""
        if isinstance(each, Product):
            made = self.product(each, self.place)
        elif isinstance(each, Direct):
            places = [self.place(value) for value in (*writes_of(each), *each.operands)]
            known = each.work if is_open(each.work) or each.work else each.chunks * CHUNK
            made = Recorded([*places, *each.numbers], each.rows, each.chunks, -1 if each.checks else known)
        elif isinstance(each, Built):
            made = self.kernel(each)
        else:
            for value in (*each.operands, each):
                self.place(value)
            self.places.setdefault(id(each.call), len(self.places))  # all results, where there are several
            return None
        self.splits |= is_open(made.chunks) or made.chunks > 1
        return made

    def kernel(self, each: Built) -> Recorded:
        """See Note [A kernel's function] in `weft.native.cpu.kernel_text`."""
        numbers: list[Any] = [*each.sizes]
        for load in each.operands:
            numbers += [self.place(load.value), load.offset, *load.strides]
        numbers += [number_word(value, type_) for type_, value in each.scalars]
        rows = prod(each.sizes[:-1]) if len(each.sizes) > 1 else each.sizes[0]
        work = work_of(each.sizes, each.kernel)
        return Recorded(numbers, rows, each.chunks or chunks_of(each.sizes, each.kernel), work)

    def program(self, planned: Planned, inputs: int, emitted: Emitted) -> Program:
        """Settles where everything lies, and how a call finds it."""
        plan = planned.plan
        outputs = [self.output(each) for each in planned.outputs]
        given = [(place, value) for place, value in self.values.items() if isinstance(value, Given)]
        givens = [(place, value.input) for place, value in given if value.input is not None]
        wanted = {each for each in outputs if isinstance(each, int)}
        ours = {p: v for p, v in self.values.items() if is_ours(v)}
        made = [(p, v) for p, v in ours.items() if p in wanted]
        inside = {p: v for p, v in ours.items() if p not in wanted}
        place = placed if self.sizes is None else partial(placed_open, others=calls_around(self.sizes))
        placement = in_runs(self.lifetimes(inside), *stacked(inside, self.places), place)
        if self.sizes is not None:
            bound_waste(self.sizes, placement)
        over = {self.place(home) for home in self.homes.values()}
        is_pythons = any(map(is_python, self.steps))
        return Program(
            size=len(self.places), inputs=inputs + bool(plan.draws), functions=emitted.names,
            records=self.records, rows=self.rows, choices=emitted.choices, multiplies=emitted.multiplies,
            splits=self.splits, givens=givens,
            constants=[(place, value.constant) for place, value in given if value.input is None],
            written=[(place, number) for place, number in givens if place in over],
            numbers=[place for place, _ in made if isinstance(self.values[place], Number)],
            draws=plan.draws, outputs=outputs,
            made=[(p, (v.shown or (v.shape,))[0], numpy_type(v.type)) for p, v in made],
            strides=[strides_of(v) for _, v in made],
            arena=[(p, placement.offsets[p]) for p in inside], arena_bytes=placement.size,
            looked_at=self.views(inside, placement.offsets) if is_pythons else [], sizes=self.sizes,
            listing=Listing(self.steps, plan.reasons, self.homes, self.places, self.values, self.spans),
        )  # fmt: skip

    def lifetimes(self, inside: dict[int, Definition]) -> list[Lifetime]:
        first: dict[int, int] = {}
        last: dict[int, int] = {}
        for (start, end), step in zip(self.spans, self.steps, strict=True):
            for value in (*writes_of(step), *reads_of(step)):
                place = self.places.get(id(value))
                if place in inside:
                    first.setdefault(place, start)
                    last[place] = end
        sizes = {place: value.size * numpy_type(value.type).itemsize for place, value in inside.items()}
        return [Lifetime(place, sizes[place], first[place], last[place]) for place in first]

    def views(
        self, inside: dict[int, Definition], offsets: dict[int, Any]
    ) -> list[tuple[int, tuple[int, ...], Any, int]]:
        """The values of the block that Python reads."""
        read = {self.places[id(v)] for s in self.steps if is_python(s) for v in reads_of(s)}
        found = [(place, inside[place]) for place in sorted(read & set(inside))]
        return [(place, v.shape, numpy_type(v.type), offsets[place]) for place, v in found]


def calls_around(sizes: Sizes) -> list[Callable[[Any], Any]]:
    """The numbers of a plan at a quarter of its sizes, and at four times these."""
    smaller, larger = (
        {one: max(2, value // down) * up if one.kind is int else value for one, value in sizes.values.items()}
        for down, up in ((4, 1), (1, 4))
    )
    return [At(smaller), At(larger)]


def bound_waste(sizes: Sizes, plan: Placement) -> None:
    """Conditions on sizes at which a plan would take too much memory: see Note [Places of open sizes]."""
    if type(plan.size) is not Size:
        return
    (here, _), *others = plan.around
    for larger, (there, waste) in enumerate(others):
        op = "le" if larger else "ge"
        if waste > memory.MOST_WASTE and there >= memory.LARGE:
            limit = constant(isqrt(here * there))
            sizes.conditions[Expression(op, (plan.size.expression, limit), bool)] = True


def number_word(value: Any, type_: str) -> Any:
    """A number as kernels take it: floats of all widths as the bits of a double."""
    if type(value) in (Size, Amount):
        if type_ == "b1":  # of which machines would take the last bit
            return where(equal(value, 0), 0, 1)
        return word_of(value) if type_ in FLOATS else value
    if type_ in FLOATS:
        return int(np.array(value, np.float64).view(np.int64))
    return int(np.array(value).astype(TYPES[type_]).astype(np.int64))
