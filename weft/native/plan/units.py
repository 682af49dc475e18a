"""Units and groups: which definitions are computed by one kernel, and what that kernel does.

Takes definitions that are kept; gives, for a group of them, the loops, one scalar body per phase, and for
each load which memory it reads and how it moves along the loops. One idea: everything that is not kept is
written into its readers, at indices that are affine in the loops' counters; where a reshape would make them
otherwise, a loop is cut in two, and only where that does not go is the reshaped value kept instead.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field
from math import prod

from weft.core.records import record
from weft.native.ir.definitions import Definition, Fold, Gather, Given, Opaque, Point, Reshape, Shape, View
from weft.native.ir.scalar import Builder, Value
from weft.native.ir.sizes import Amount, Size, same
from weft.native.maths.emitting import Emitting

Affine = tuple[int, ...]
"""A constant, then one factor per loop."""


class Cut(Exception):
    """A loop must be cut: its inner part is to have this many turns."""

    def __init__(self, loop: int, inner: int) -> None:
        self.loop, self.inner = loop, inner


class Keep(Exception):
    """A definition cannot be written into its reader: it needs memory of its own."""

    def __init__(self, value: Definition, reason: str) -> None:
        super().__init__(reason)
        self.value, self.reason = value, reason


class Split(Exception):
    """A definition cannot be computed beside others that it reads: it needs a kernel of its own."""

    def __init__(self, value: Definition, reason: str) -> None:
        super().__init__(reason)
        self.value, self.reason = value, reason


@record(slots=True)
class Load:
    """Where something is read or written, with the offset and the strides per loop, in elements."""

    value: Definition
    offset: int
    strides: Shape


def row_major(shape: Shape) -> Shape:
    strides, step = [], 1
    for size in reversed(shape):
        strides.append(step)
        step *= size
    return tuple(reversed(strides))


@record(slots=True)
class Indices:
    """The loops of a kernel, and arithmetic on indices that are affine in their counters."""

    sizes: Shape

    def linear(self, first: int, last: int) -> Affine:
        """The counters of some loops as one number, row by row."""
        found = [0] * (len(self.sizes) + 1)
        for loop in range(first, last):
            found[loop + 1] = prod(self.sizes[loop + 1 : last])
        return tuple(found)

    def through(self, given: View, places: tuple[Affine, ...]) -> tuple[Affine, ...]:
        """Indices into the base of a view."""
        found = []
        for offset, moves in zip(given.offsets, given.steps):
            total = [offset, *[0] * len(self.sizes)]
            for step, place in zip(moves, places):
                if step:
                    total = [a + step * b for a, b in zip(total, place)]
            found.append(tuple(total))
        return tuple(found)

    def flat(self, shape: Shape, places: tuple[Affine, ...]) -> Affine:
        total = [0] * (len(self.sizes) + 1)
        for place, stride in zip(places, row_major(shape)):
            total = [a + stride * b for a, b in zip(total, place)]
        return tuple(total)

    def apart(self, value: Definition, shape: Shape, linear: Affine) -> tuple[Affine, ...]:
        """A linear index taken apart by a shape's strides; `value` is kept where that does not go."""
        found = [[0] * (len(self.sizes) + 1) for _ in shape]
        strides = row_major(shape)
        rest = linear[0]
        for axis, stride in enumerate(strides):
            if not same(shape[axis], 1):
                found[axis][0], rest = divmod(rest, stride)
        for loop, factor in enumerate(linear[1:]):
            if factor and not same(self.sizes[loop], 1):
                axis = self.axis_of(value, shape, strides, loop, factor)
                found[axis][loop + 1] += factor // strides[axis]
        for size, place in zip(shape, found):  # an index past its axis would belong to the next one
            most = place[0] + sum(f * (n - 1) for f, n in zip(place[1:], self.sizes) if f > 0)
            if not same(size, 1) and most >= size:
                raise Keep(value, "a reshape of a slice")
        return tuple(map(tuple, found))

    def axis_of(self, value: Definition, shape: Shape, strides: Shape, loop: int, factor: int) -> int:
        """The axis along which a loop moves."""
        reach = factor * (self.sizes[loop] - 1)
        for axis, stride in enumerate(strides):
            if same(shape[axis], 1) or factor < stride:
                continue
            upper = stride * shape[axis]
            if factor % stride:
                break
            if reach < upper:
                return axis
            if upper % factor or self.sizes[loop] % (upper // factor):
                break
            raise Cut(loop, upper // factor)  # the loop runs over more than this axis
        raise Keep(value, "a reshape that mixes dimensions")


class Inlining:
    """Writes definitions into the body of one phase."""

    def __init__(
        self,
        indices: Indices,
        loads: list[Load],
        is_kept: Callable[[Definition], bool],
        found: Callable[[Builder, Definition, tuple[Affine, ...]], Value | None],
        scalars: list[tuple[str, Size | Amount]] | None = None,
    ) -> None:
        self.indices, self.loads, self.is_kept, self.found = indices, loads, is_kept, found
        self.builder: Builder = Emitting()
        if scalars is not None:
            self.builder.scalars = scalars
        self.known: dict[tuple[int, tuple[Affine, ...]], Value] = {}

    def value(self, given: Definition, places: tuple[Affine, ...]) -> Value:
        """The element of a definition at these indices."""
        key = (id(given), places)
        made = self.known.get(key)
        if made is None:
            made = self.found(self.builder, given, places)
            if made is None and (isinstance(given, (Given, Opaque, Fold)) or self.is_kept(given)):
                made = self.load(given, places)
            if made is None:
                made = self.make(given, places)
            self.known[key] = made
        return made

    def make(self, given: Definition, places: tuple[Affine, ...]) -> Value:
        """The element, computed."""
        if isinstance(given, View):
            return self.value(given.base, self.indices.through(given, places))
        if isinstance(given, Reshape):
            return self.regrouped(given.base, self.indices.flat(given.shape, places))
        if isinstance(given, Gather):
            return self.gathered(given, places)
        assert isinstance(given, Point), type(given)
        values = [self.value(each, places) for each in given.operands]
        return given.make(self.builder, values, lambda axis: self.counter(places[axis]))

    def regrouped(self, base: Definition, linear: Affine) -> Value:
        """The element of a definition by its number in row-major order."""
        try:
            if any(factor < 0 for factor in linear[1:]):
                raise Keep(base, "a reshape of a tensor that is read backwards")
            return self.value(base, self.indices.apart(base, base.shape, linear))
        except Keep as keep:
            in_memory = isinstance(base, (Given, Opaque, Fold)) or self.is_kept(base)
            if keep.value is not base or not in_memory or not is_row_major(base):
                raise
            self.found(self.builder, base, ())  # refuses what this kernel computes
        number = access_at(self.loads, base, linear[0], linear[1:])
        return self.builder.load(number, base.type)

    def gathered(self, given: Gather, places: tuple[Affine, ...]) -> Value:
        """An element of memory that other steps have written before."""
        base = given.base
        self.found(self.builder, base, ())  # refuses what this kernel computes
        if not (isinstance(base, (Given, Opaque)) or self.is_kept(base)):
            raise Keep(base, "its elements are gathered by index")
        total = [given.offset, *[0] * len(self.indices.sizes)]
        for step, place in zip(given.moves, places):
            total = [a + step * b for a, b in zip(total, place)]
        index = self.value(given.index, places)
        number = access_at(self.loads, base, total[0], tuple(total[1:]))
        return self.builder.make("gather", base.type, index, value=number)

    def counter(self, place: Affine) -> Value:
        """An index as a number of the body."""
        total: Value | None = None
        for loop, factor in enumerate(place[1:]):
            if factor:
                at = self.builder.make("index", "i64", value=len(self.indices.sizes) - 1 - loop)
                if factor != 1:
                    at = self.builder.mul(at, self.builder.const(factor, "i64"))
                total = at if total is None else self.builder.add(total, at)
        if total is None:
            return self.builder.const(place[0], "i64")
        return total if not place[0] else self.builder.add(total, self.builder.const(place[0], "i64"))

    def load(self, given: Definition, places: tuple[Affine, ...]) -> Value:
        return self.builder.load(access_of(self.loads, given, places, len(self.indices.sizes)), given.type)


def access_of(loads: list[Load], given: Definition, places: tuple[Affine, ...], loops: int) -> int:
    """The number of the access that reads a definition at these indices."""
    strides = row_major(given.shape) if given.strides is None else given.strides
    offset = given.start + sum(stride * place[0] for stride, place in zip(strides, places))
    moves = tuple(
        [sum(stride * place[loop + 1] for stride, place in zip(strides, places)) for loop in range(loops)]
    )
    return access_at(loads, given, offset, moves)


def access_at(loads: list[Load], given: Definition, offset: int, moves: Shape) -> int:
    for number, each in enumerate(loads):
        if each.value is given and same((each.offset, each.strides), (offset, moves)):
            return number
    loads.append(Load(given, offset, moves))
    return len(loads) - 1


def is_row_major(given: Definition) -> bool:
    return given.strides is None or given.strides == row_major(given.shape)


@record(slots=True, eq=False)
class Member:
    """A definition that a group computes."""

    value: Definition
    level: int
    """The phase in which it is computed; for a row's value, the one after which."""
    row: bool
    """Whether it is one number per row: a fold, or what is made of folds."""
    partial: bool = False
    """Whether it is a fold of which each chunk gives a part."""


@record(slots=True, eq=False)
class Group:
    """Definitions that one kernel computes. Elements are `rows` times `inner`; folds are over `inner`."""

    rows: int
    inner: int
    members: dict[int, Member] = field(default_factory=dict)
    """By the `id` of the definition, in order."""
    settled: bool = False
    """Whether rows are what they are because of a fold."""
    across: bool = False
    """Whether that fold walks in another order than that of elements."""
    cost: int = 0
    """How many instructions its members have, about."""

    @property
    def folds(self) -> bool:
        return any(member.row for member in self.members.values())

    @property
    def folds_all(self) -> bool:
        """Whether chunks give parts of a fold. Rows would change its order of sums, and follow from more of a
        size than that it is large."""
        return any(member.partial for member in self.members.values())

    @property
    def parts(self) -> int | None:
        """How many chunks there are, where folds give a part for each of them."""
        for member in self.members.values():
            if member.partial and isinstance(member.value, Fold):
                return member.value.parts
        return None

    @property
    def size(self) -> int:
        return self.rows * self.inner
