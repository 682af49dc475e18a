"""Lowering of ops that read elements at computed places: gathers, rolls, pads, gradients of views.

Gives rules for `weft.native.lower.lowering`. One idea: the place of an element in memory is a number that a
body
computes, so indices become parts of kernels; those that a user gave are checked by a fold over all of them,
and if one is bad the graph runs op by op, which says so in eager's words.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from weft.core.dims import wrap_dim
from weft.native.ir.definitions import Definition, Gather, Given, Shape, broadcast, reshaped, view
from weft.native.ir.scalar import FLOATS, Builder, Value
from weft.native.ir.sizes import broadcast_shape, is_open
from weft.native.lower.folds import folded
from weft.native.lower.looked import outline, stepped
from weft.native.lower.lowering import Lowering, Unlowered, number, point, rule
from weft.native.lower.pointwise import copied, made, result_of
from weft.native.lower.products import memory_of
from weft.ops.record import REGISTRY, Op
from weft.ops.replay import READERS, read, replay, retypes

Axis = int | Definition
"""Where along an axis of the base to read: as along an own axis, or as a definition says."""
TABULATED = 1 << 20
"""How many places a table may have."""


# -- tools ---------------------------------------------------------------------------------------------------
def gathered(base: Definition, shape: Shape, axes: Sequence[Axis], name: str) -> Definition:
    """Elements of a definition at these places along its axes; places are within it."""
    if base.size == 1:
        return broadcast(reshaped(base, ()), shape)
    memory, offset, strides = memory_of(base)
    moves = [0] * len(shape)
    parts: list[tuple[Definition, int]] = []
    for axis, size, stride in zip(axes, base.shape, strides):
        if size == 1:
            continue
        if isinstance(axis, int):
            moves[axis] += stride
        else:
            parts.append((axis, stride))

    def far(b: Builder, values: list[Value], _place: Any) -> Value:
        total = b.const(0, "i64")
        for value, (_, stride) in zip(values, parts):
            part = value if stride == 1 else b.mul(value, b.const(stride, "i64"))
            total = part if total == b.const(0, "i64") else b.add(total, part)
        return total

    index = point(far, shape, "i64", [part for part, _ in parts], "place", 2 * len(parts))
    return Gather(
        shape=shape, type=base.type, name=name, base=memory, index=index, offset=offset, moves=tuple(moves)
    )


def counted(shape: Shape, make: Any, name: str) -> Definition:
    """A definition of i64 from the element's own place."""
    return point(lambda b, _v, place: make(b, place), shape, "i64", (), name, 4)


def as_index(index: Definition) -> Definition:
    if index.type not in ("i64", "i32", "i16", "i8", "u8"):
        raise Unlowered(f"indices of dtype {index.type}")
    if index.type == "i64":
        return index
    return point(lambda b, v, _: b.cast(v[0], "i64"), index.shape, "i64", (index,), "cast")


def checked(lowering: Lowering, index: Definition, low: int, size: int) -> Definition:
    """Indices from `low` to before `size`, those below zero counted from the end; others are a failure, and 0
    so that nothing outside is read.
    """
    index = as_index(index)

    def bad(b: Builder, v: list[Value], _: Any) -> Value:
        return b.or_(b.lt(v[0], b.const(low, "i64")), b.ge(v[0], b.const(size, "i64")))

    def good(b: Builder, v: list[Value], place: Any) -> Value:
        found = v[0]
        if low < 0:
            below = b.lt(found, b.const(0, "i64"))
            found = b.select(below, b.add(found, b.const(size, "i64")), found)
        return b.select(bad(b, v, place), b.const(0, "i64"), found)

    fail(lowering, point(bad, index.shape, "b1", (index,), "out of range", 3))
    return point(good, index.shape, "i64", (index,), "index", 5)


def fail(lowering: Lowering, truths: Definition) -> None:
    """Ends the program where any of these is true."""
    axes = tuple(range(len(truths.shape)))
    failed = folded("any", truths, axes, False, "failed") if axes else truths
    lowering.definitions.failures.append(failed)


def not_empty(*values: Definition) -> None:
    if any(not value.size for value in values):
        raise Unlowered("indexing of an empty tensor, or by one")


def table(places: Any) -> Definition:
    """Numbers that are known, in memory."""
    if places.size > TABULATED:
        raise Unlowered("an index table that would be too large")
    held = np.asarray(places, np.int64, order="C")
    return Given(shape=held.shape, type="i64", name="table", constant=held)


def known(positions: Any) -> Any:
    """Places that a call gives; not those of tensors."""
    if isinstance(positions, Given) and positions.constant is not None:
        return positions.constant
    if isinstance(positions, Definition):
        raise Unlowered("indices that are known only at run time")
    return np.asarray(positions)


def picked(lowering: Lowering, x: Definition, places: Any, name: str) -> Definition:
    """Elements of `x` by their number in row-major order; 0 where that is below 0."""
    shape, type_ = result_of(lowering)
    if not x.size:
        raise Unlowered("indexing of an empty tensor, or by one")
    at = table(places.reshape(shape))
    safe = point(lambda b, v, _: b.max(v[0], b.const(0, "i64")), shape, "i64", (at,), "place")
    flat = gathered(reshaped(x, (x.size,)), shape, [safe], name)
    if places.size and places.min() >= 0:
        return copied(lowering, flat)
    return made(
        lambda b, v, _: b.select(b.lt(v[1], b.const(0, "i64")), b.like(0, v[0]), v[0]),
        shape, type_, (flat, at), name,
    )  # fmt: skip


# -- indices of the user's -----------------------------------------------------------------------------------
@rule("gather")
def _gather(lowering: Lowering, x: Definition, dim: int, index: Definition, _sparse: bool) -> Definition:
    not_empty(x, index)
    shape = index.shape
    source = reshaped(x, (1,)) if not x.shape else x
    places = reshaped(index, (1,)) if not shape else index
    axis = wrap_dim(dim, len(source.shape))
    at = checked(lowering, places, 0, source.shape[axis])
    axes: list[Axis] = [at if i == axis else i for i in range(len(source.shape))]
    return copied(lowering, reshaped(gathered(source, places.shape, axes, "gather"), shape))


@rule("_max_values", "_min_values", "_sort_values", "_topk_values", "_median_values")
def _at_indices(lowering: Lowering, x: Definition, index: Definition, dim: int, keepdim: bool) -> Definition:
    """Values at places that are known to be within."""
    shape, _ = result_of(lowering)
    if not x.shape:
        return copied(lowering, x)
    not_empty(x, index)
    axis = wrap_dim(dim, len(x.shape))
    length = index.shape[axis] if keepdim else 1
    wide = tuple([length if i == axis else n for i, n in enumerate(x.shape)])
    at = reshaped(index, wide)
    axes: list[Axis] = [at if i == axis else i for i in range(len(x.shape))]
    return copied(lowering, reshaped(gathered(x, wide, axes, "values"), shape))


@rule("index_select")
def _index_select(lowering: Lowering, x: Definition, dim: int, index: Definition) -> Definition:
    not_empty(x, index)
    shape, _ = result_of(lowering)
    at = checked(lowering, index, 0, x.shape[dim] if x.shape else 1)
    if not x.shape:
        return copied(lowering, x)
    axis = wrap_dim(dim, len(x.shape))
    line = reshaped(at, tuple([index.size if i == axis else 1 for i in range(len(shape))]))
    axes: list[Axis] = [broadcast(line, shape) if i == axis else i for i in range(len(shape))]
    return copied(lowering, gathered(x, shape, axes, "index_select"))


@rule("take")
def _take(lowering: Lowering, x: Definition, index: Definition) -> Definition:
    not_empty(x, index)
    at = checked(lowering, index, -x.size, x.size)
    return copied(lowering, gathered(reshaped(x, (x.size,)), index.shape, [at], "take"))


@rule("embedding")
def _embedding(lowering: Lowering, weight: Definition, index: Definition, *_: Any) -> Definition:
    not_empty(weight, index)
    shape = result_of(lowering)[0]
    at = checked(lowering, index, 0, weight.shape[0])
    rank = len(index.shape)
    line = reshaped(at, (*index.shape, *[1] * (len(shape) - rank)))
    axes: list[Axis] = [broadcast(line, shape), *range(rank, len(shape))]
    return copied(lowering, gathered(weight, shape, axes, "embedding"))


@rule("index")
def _index(lowering: Lowering, x: Definition, indices: Sequence[Any], dims: Sequence[int]) -> Definition:
    """Ints of tensors, together; masks are as large as values tell."""
    shape, _ = result_of(lowering)
    if not dims:
        return copied(lowering, x)
    if any(not isinstance(each, Definition) or each.type == "b1" for each in indices):
        raise Unlowered("indices that are boolean masks")
    not_empty(x, *indices)
    axes, _ = index_axes(lowering, x, indices, dims, shape)
    return copied(lowering, gathered(x, shape, axes, "index"))


def index_axes(
    lowering: Lowering, x: Definition, indices: Sequence[Definition], dims: Sequence[int], shape: Shape
) -> tuple[list[Axis], Shape]:
    """Where along the axes of `x` the elements of `x[indices]` lie, and the shape of the indices together:
    their axes stand where the first one stood, if they are neighbours, else in front.
    """
    joint = broadcast_shape([each.shape for each in indices])
    together = dims[-1] - dims[0] + 1 == len(dims)
    front = dims[0] if together else 0
    known = {}
    for dim, each in zip(dims, indices):
        at = broadcast(checked(lowering, each, -x.shape[dim], x.shape[dim]), joint)
        rest = len(shape) - front - len(joint)
        known[dim] = broadcast(reshaped(at, (*[1] * front, *joint, *[1] * rest)), shape)
    axes: list[Axis] = []
    own = [i for i in range(len(shape)) if not front <= i < front + len(joint)]
    free = iter(own)
    for dim in range(len(x.shape)):
        axes.append(known[dim] if dim in known else next(free))
    return axes, joint


# -- places that are known -----------------------------------------------------------------------------------
@rule("gather_flat")
def _gather_flat(lowering: Lowering, x: Definition, positions: Any) -> Definition:
    return picked(lowering, x, known(positions), "gather")


@rule("roll")
def _roll(lowering: Lowering, x: Definition, shifts: Any, dims: Any) -> Definition:
    shifts = (shifts,) if isinstance(shifts, int) else tuple(shifts)
    dims = (dims,) if isinstance(dims, int) else tuple(dims or ())
    not_empty(x)
    if not x.shape:
        return copied(lowering, x)
    flat = x if dims else reshaped(x, (x.size,))
    by: dict[int, int] = {}
    for place, shift in enumerate(shifts):
        axis = wrap_dim(dims[place], len(x.shape)) if dims else 0
        by[axis] = by.get(axis, 0) + shift
    axes: list[Axis] = [turned_axis(flat.shape, axis, by.get(axis, 0)) for axis in range(len(flat.shape))]
    return copied(lowering, reshaped(gathered(flat, flat.shape, axes, "roll"), x.shape))


def turned_axis(shape: Shape, axis: int, shift: int) -> Axis:
    size = shape[axis]
    start = -shift % size
    if not start:
        return axis

    def make(b: Builder, place: Any) -> Value:
        at = b.add(place(axis), b.const(start, "i64"))
        return b.select(b.ge(at, b.const(size, "i64")), b.sub(at, b.const(size, "i64")), at)

    return counted(shape, make, "roll")


def pairs_of(pad: Sequence[int], rank: int) -> list[tuple[int, int]]:
    """How much comes before and after each axis; the last axis is named first."""
    given = [(pad[2 * k], pad[2 * k + 1]) for k in range(len(pad) // 2)]
    return [(0, 0)] * (rank - len(given)) + given[::-1]


@rule("constant_pad_nd")
def _constant_pad(lowering: Lowering, x: Definition, pad: Any, value: Any) -> Definition:
    not_empty(x)
    shape, type_ = result_of(lowering)
    rank = len(x.shape)
    starts = [before for before, _ in pairs_of(tuple(pad), rank)]
    return placed(x, shape, starts, identity(rank), value, type_, "pad")


def identity(rank: int) -> list[Shape]:
    return [tuple([int(i == k) for i in range(rank)]) for k in range(rank)]


def placed(
    x: Definition,
    shape: Shape,
    starts: Sequence[int],
    steps: Sequence[Shape],
    fill: Any,
    type_: str,
    name: str,
) -> Definition:
    """`x` within a larger tensor: its element at `i` stands at `starts + steps * i`; else there is `fill`, a
    number or another tensor of that shape."""
    sources: dict[int, int] = {}  # of each axis of x, an axis of the result that tells its index
    for axis, moves in enumerate(steps):
        for own, step in enumerate(moves):
            if step and x.shape[own] > 1:
                sources.setdefault(own, axis)
    moving = [[j for j, step in enumerate(moves) if step and x.shape[j] > 1] for moves in steps]
    if any(len(own) > 1 for own in moving) or any(n > 1 and j not in sources for j, n in enumerate(x.shape)):
        raise Unlowered("a view whose elements overlap")

    def index(b: Builder, own: int, place: Any) -> tuple[Value, list[Value]]:
        """The index along an axis of `x`, and what must hold for it to be one."""
        axis = sources[own]
        start, step, size = starts[axis], steps[axis][own], x.shape[own]
        at, truths = place(axis), []
        if start:
            at = b.sub(at, b.const(start, "i64"))
        if abs(step) != 1:
            truths.append(b.eq(b.rem(at, b.const(step, "i64")), b.const(0, "i64")))
        at = at if step == 1 else b.div(at, b.const(step, "i64"))
        if start or (size - 1) * step + 1 != shape[axis]:
            truths += [b.ge(at, b.const(0, "i64")), b.lt(at, b.const(size, "i64"))]
        return at, truths

    def along(own: int) -> Axis:
        if x.shape[own] == 1:
            return point(lambda b, _v, _p: b.const(0, "i64"), shape, "i64", (), name, 0)
        axis = sources[own]
        if (starts[axis], steps[axis][own], x.shape[own]) == (0, 1, shape[axis]):
            return axis

        def make(b: Builder, place: Any) -> Value:
            at, truths = index(b, own, place)
            low = b.max(at, b.const(0, "i64")) if truths else at
            return b.min(low, b.const(x.shape[own] - 1, "i64")) if truths else low

        return counted(shape, make, name)

    def body(b: Builder, values: list[Value], place: Any) -> Value:
        truths = [truth for own in sources for truth in index(b, own, place)[1]]
        for axis, own in enumerate(moving):
            if own and sources[own[0]] == axis:
                continue
            wanted = b.const(starts[axis], "i64")
            if own:
                at = b.mul(index(b, own[0], place)[0], b.const(steps[axis][own[0]], "i64"))
                wanted = b.add(wanted, at)
            if own or shape[axis] != 1 or starts[axis]:
                truths.append(b.eq(place(axis), wanted))
        inside = truths[0] if truths else b.const(True, "b1")
        for truth in truths[1:]:
            inside = b.and_(inside, truth)
        other = b.cast(values[1], type_) if under else number(b, fill, type_)
        return b.select(inside, b.cast(values[0], type_), other)

    under = (fill,) if isinstance(fill, Definition) else ()
    there = gathered(x, shape, [along(own) for own in range(len(x.shape))], name)
    return made(body, shape, type_, (there, *under), name)


@rule("_shift")
def _shift(lowering: Lowering, x: Definition, dim: int, by: int, fill: float) -> Definition:
    not_empty(x)
    shape, type_ = result_of(lowering)
    axis = wrap_dim(dim, len(shape))
    starts = [by if i == axis else 0 for i in range(len(shape))]
    return placed(x, shape, starts, identity(len(shape)), fill, type_, "shift")


def mirrored(mode: str) -> Any:
    """The place in a border's original, for a place counted from it."""

    def make(b: Builder, at: Value, size: int) -> Value:
        zero, last = b.const(0, "i64"), b.const(size - 1, "i64")
        if mode == "replicate":
            return b.min(b.max(at, zero), last)
        if mode == "circular":
            at = b.select(b.lt(at, zero), b.add(at, b.const(size, "i64")), at)
            return b.select(b.gt(at, last), b.sub(at, b.const(size, "i64")), at)
        at = b.select(b.lt(at, zero), b.neg(at), at)
        return b.select(b.gt(at, last), b.sub(b.const(2 * (size - 1), "i64"), at), at)

    return make


def bordered(lowering: Lowering, x: Definition, pad: Any, mode: str) -> Definition:
    not_empty(x)
    shape, _ = result_of(lowering)
    axes: list[Axis] = []
    for axis, (before, after) in enumerate(pairs_of(tuple(pad), len(x.shape))):
        size = x.shape[axis]
        if not before and not after:
            axes.append(axis)
            continue
        if mode == "circular" and not 0 <= min(before, after) <= max(before, after) <= size:
            raise Unlowered("circular padding that is negative or wider than the tensor")
        axes.append(border_axis(shape, axis, before, size, mode))
    return copied(lowering, gathered(x, shape, axes, mode))


def border_axis(shape: Shape, axis: int, before: int, size: int, mode: str) -> Definition:
    inside = mirrored(mode)

    def make(b: Builder, place: Any) -> Value:
        found: Value = inside(b, b.sub(place(axis), b.const(before, "i64")), size)
        return found

    return counted(shape, make, mode)


for _mode, _word in (("replicate", "replication"), ("reflect", "reflection"), ("circular", "circular")):
    for _rank in (1, 2, 3):

        @rule(f"{_word}_pad{_rank}d")
        def _border(lowering: Lowering, x: Definition, pad: Any, mode: str = _mode) -> Definition:
            return bordered(lowering, x, pad, mode)


# -- gradients of views --------------------------------------------------------------------------------------
def looked_through(shape: Shape, steps: Any) -> tuple[list[int], list[Shape]] | None:
    """Where views lead, if that is affine: a start for each axis of the base, and how much it moves along
    each axis of the view.
    """
    if is_open((shape, *[rest for _, rest, _ in steps])):
        return stepped(shape, steps)
    starts: list[int] = []
    moves: list[Shape] = []
    for axis in range(len(shape)):
        memory = np.zeros(max(shape) + 1, np.int8)  # as much as a copy would read
        strides = tuple([int(i == axis) for i in range(len(shape))])
        looked = replay(as_strided(memory, shape, strides, writeable=False), steps)
        start = looked.__array_interface__["data"][0] - memory.__array_interface__["data"][0]
        if not np.may_share_memory(looked, memory):
            return None
        starts.append(start)
        moves.append(tuple(looked.strides))
    return starts, moves


def shape_shown(shape: Shape, steps: Any) -> Shape:
    """The shape of views of a tensor of this shape."""
    if is_open((shape, *[rest for _, rest, _ in steps])):
        return outline(shape, steps)
    return tuple(
        replay(as_strided(np.zeros(1, np.int8), shape, (0,) * len(shape), writeable=False), steps).shape
    )


def replayed(shape: Shape, steps: Any) -> Any:
    """The numbers of the elements that views lead to."""
    if retypes(steps):
        raise Unlowered("a view as another dtype")
    if prod(shape) > TABULATED:
        raise Unlowered("an index table that would be too large")
    return np.asarray(read(np.arange(prod(shape)).reshape(shape), steps))


def returned(shape: Shape, steps: Any) -> Any:
    """For each element, where a view shows it; -1 where it does not."""
    shown = replayed(shape, steps).reshape(-1)
    if len(np.unique(shown)) != len(shown):
        raise Unlowered("a view whose elements overlap")
    back = np.full(prod(shape), -1, np.int64)
    back[shown] = np.arange(shown.size)
    return back


@rule("embed")
def _embed(lowering: Lowering, g: Definition, shape: Any, steps: Any) -> Definition:
    """A tensor of zeros with `g` where views of it lead."""
    whole, type_ = result_of(lowering)
    not_empty(g)
    found = None if any(op in READERS for op, _, _ in steps) else looked_through(whole, steps)
    if found is not None:
        try:
            return placed(g, whole, *found, 0, type_, "embed")
        except Unlowered:
            pass
    return picked(lowering, g, returned(whole, steps), "embed")


@rule("view_scatter")
def _view_scatter(lowering: Lowering, base: Definition, source: Definition, steps: Any) -> Definition:
    """A tensor with other elements where views of it lead."""
    whole, type_ = result_of(lowering)
    not_empty(base, source)
    if not any(op in READERS for op, _, _ in steps) and not retypes(steps):
        found, shown = looked_through(whole, steps), shape_shown(whole, steps)
        try:
            if found is not None:
                return placed(broadcast(source, shown), whole, *found, base, type_, "view_scatter")
        except Unlowered:
            pass
    shown = replayed(whole, steps).shape
    at = table(returned(whole, steps).reshape(whole))
    safe = point(lambda b, v, _: b.max(v[0], b.const(0, "i64")), whole, "i64", (at,), "place")
    new = gathered(reshaped(broadcast(source, shown), (prod(shown),)), whole, [safe], "view_scatter")
    return made(
        lambda b, v, _: b.select(b.lt(v[2], b.const(0, "i64")), v[0], b.cast(v[1], type_)),
        whole, type_, (base, new, at), "view_scatter",
    )  # fmt: skip


@rule("scatter_flat")
def _scatter_flat(lowering: Lowering, g: Definition, positions: Any, shape: Any) -> Definition:
    """Elements at places that are known, each at one of its own."""
    whole, _ = result_of(lowering)
    not_empty(g)
    places = known(positions).reshape(-1)
    if max(prod(whole), places.size) > TABULATED:
        raise Unlowered("an index table that would be too large")
    inside = np.flatnonzero(places >= 0)
    if len(np.unique(places[inside])) != len(inside):
        raise Unlowered("repeated indices")
    back = np.full(prod(whole), -1, np.int64)
    back[places[inside]] = inside
    return picked(lowering, g, back, "scatter")


@rule("one_hot_elements")
def _one_hot(lowering: Lowering, x: Definition, _classes: int) -> Definition:
    shape, type_ = result_of(lowering)
    not_empty(x)
    at = reshaped(checked(lowering, x, 0, shape[-1]), (*x.shape, 1))
    last = len(shape) - 1
    return made(lambda b, v, place: b.cast(b.eq(v[0], place(last)), type_), shape, type_, (at,), "one_hot")


@rule(
    "channel_shuffle", "pixel_shuffle", "pixel_unshuffle", "_diagonal_copy", "diag_embed",
    "nn.functional.unfold",
)  # fmt: skip
def _moved(lowering: Lowering, x: Definition, *rest: Any) -> Definition:
    """Elements elsewhere, between zeros: the op's kernel tells which, from their numbers."""
    not_empty(x)
    if x.size > TABULATED or any(isinstance(value, Definition) for value in rest):
        raise Unlowered("an index table that would be too large")
    numbers = np.arange(1, x.size + 1).reshape(x.shape)
    return picked(lowering, x, np.asarray(lowering.op.kernel(numbers, *rest)) - 1, lowering.op.name)


@rule("trace")
def _trace(lowering: Lowering, x: Definition) -> Definition:
    _, type_ = result_of(lowering)
    not_empty(x)
    line = view(x, (min(x.shape),), (0, 0), [(1,), (1,)])
    return folded(
        "sum",
        made(lambda b, v, _: b.cast(v[0], type_), line.shape, type_, (line,), "trace"),
        (0,),
        False,
        "trace",
    )


@rule("trace_backward")
def _trace_backward(lowering: Lowering, g: Definition, _shape: Any) -> Definition:
    shape, type_ = result_of(lowering)
    return made(
        lambda b, v, place: b.select(b.eq(place(0), place(1)), v[0], b.like(0, v[0])),
        shape, type_, (reshaped(g, ()),), "trace_backward",
    )  # fmt: skip


@rule("identity_like")
def _identity_like(lowering: Lowering, _x: Definition) -> Definition:
    shape, type_ = result_of(lowering)
    row, column = len(shape) - 2, len(shape) - 1
    return made(
        lambda b, _v, place: b.cast(b.eq(place(row), place(column)), type_), shape, type_, (), "identity"
    )


# -- division of ints ----------------------------------------------------------------------------------------
@rule("floor_divide", "trunc_divide", "remainder", "fmod")
def _divide(lowering: Lowering, x: Any, y: Any) -> Definition:
    return divided(lowering, lowering.op, x, y)


@rule("div", numbers="all")
def _div(lowering: Lowering, x: Any, y: Any, rounding_mode: Any) -> Definition:
    """Rounding division promotes otherwise than true division."""
    if rounding_mode is None:
        return lowering.pointwise(REGISTRY["div"], (x, y, None))
    return divided(lowering, REGISTRY[f"{rounding_mode}_divide"], x, y)


def divided(lowering: Lowering, op: Op, x: Any, y: Any) -> Definition:
    """A quotient, or a remainder; eager refuses to divide ints by zeros."""
    _, type_ = result_of(lowering)
    if type_ in FLOATS or not isinstance(y, Definition) or not y.size:
        return lowering.pointwise(op, (x, y))

    def by_zero(b: Builder, v: list[Value], _: Any) -> Value:
        return b.not_(b.cast(b.cast(v[0], type_), "b1"))

    fail(lowering, made(by_zero, y.shape, "b1", (y,), "divided by zero"))
    return lowering.pointwise(op, (x, y), divides=True)
