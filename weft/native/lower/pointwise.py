"""Lowering of what is pointwise but has no promotion, or no operands: selections, copies, ranges, triangles.

Gives rules for `weft.native.lower.lowering`. One idea: whatever an element is made of, its own place or the
elements
of operands at that place, is a body; so these become parts of the kernels around them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from weft.core.dtypes import BY_NUMPY
from weft.graph.node import Node
from weft.native.ir.definitions import Definition, Number, Point, Shape, broadcast, reshaped, view
from weft.native.ir.scalar import FLOATS, TYPES, Builder, Value
from weft.native.lower.joining import part, whole
from weft.native.lower.layouts import row_major
from weft.native.lower.lowering import (
    Lowering,
    Unlowered,
    number,
    point,
    rule,
    tried,
    type_name,
    type_name_of,
)
from weft.ops.bounds import finite_limits
from weft.ops.create import Steps

MOST_STACKED = 4
Make = Callable[[Builder, list[Value], Any], Value]


def result_of(lowering: Lowering) -> tuple[Shape, str]:
    """The shape and type of the node's result."""
    assert lowering.node is not None
    array: Any = lowering.node.meta["val"].array
    return tuple(array.shape), type_name(array.dtype)


def made(make: Make, shape: Shape, type_: str, operands: Sequence[Definition], name: str) -> Definition:
    """A pointwise definition, after a trial."""
    for each in operands:
        type_name_of(each)
    return point(make, shape, type_, operands, name, tried(make, operands))


# -- selections ----------------------------------------------------------------------------------------------
@rule("keep")
def _keep(lowering: Lowering, x: Definition, mask: Definition, _beside: Any) -> Definition:
    shape, type_ = result_of(lowering)
    if mask.type != "b1":
        raise Unlowered("a mask that is not boolean")
    return made(lambda b, v, _: b.select(v[1], v[0], b.like(0, v[0])), shape, type_, (x, mask), "keep")


@rule("_where", numbers="floats")
def _where(lowering: Lowering, condition: Definition, x: Any, y: Any) -> Definition:
    shape, type_ = result_of(lowering)
    tensors = [value for value in (x, y) if isinstance(value, Definition)]

    def make(b: Builder, values: list[Value], _place: Any) -> Value:
        given = iter(values[1:])
        first, second = (
            b.cast(next(given), type_) if isinstance(value, Definition) else number(b, value, type_)
            for value in (x, y)
        )
        return b.select(b.cast(values[0], "b1"), first, second)

    return made(make, shape, type_, (condition, *tensors), "where")


@rule("masked_fill")
def _masked_fill(lowering: Lowering, x: Definition, mask: Definition, value: Any) -> Definition:
    shape, type_ = result_of(lowering)
    if isinstance(value, Definition):
        return made(
            lambda b, v, _: b.select(v[1], b.cast(v[2], type_), v[0]),
            shape,
            type_,
            (x, mask, value),
            "masked_fill",
        )
    stored = int(value) if isinstance(value, float) and TYPES[type_].kind in "iu" else value
    return made(
        lambda b, v, _: b.select(v[1], number(b, stored, type_), v[0]),
        shape,
        type_,
        (x, mask),
        "masked_fill",
    )


@rule("nan_to_num")
def _nan_to_num(lowering: Lowering, x: Definition, nan: Any, *limits: Any) -> Definition:
    """Infinities become the largest numbers of the result's dtype, not of the one that is computed in."""
    given = x.operands[0] if isinstance(x, Point) and x.name == "widen" else x
    kind = BY_NUMPY[TYPES[given.type]]
    return lowering.pointwise(lowering.op, (x, nan, *finite_limits(kind, *limits)))


# -- copies --------------------------------------------------------------------------------------------------
def copied(lowering: Lowering, x: Definition) -> Definition:
    shape, type_ = result_of(lowering)
    return made(lambda b, v, _: b.cast(v[0], type_), shape, type_, (x,), "copy")


@rule("_to_copy", "clone")
def _copy(lowering: Lowering, x: Definition, *_options: Any) -> Definition:
    return copied(lowering, x)


@rule("copy")
def _assign(lowering: Lowering, _x: Definition, source: Definition, _non_blocking: bool) -> Definition:
    return copied(lowering, source)


@rule("flip")
def _flip(lowering: Lowering, x: Definition, dims: Any) -> Definition:
    """A view that runs backwards, and a copy of it."""
    rank = len(x.shape)
    dims = (dims,) if isinstance(dims, int) else tuple(dims)
    turned = {dim % rank for dim in dims} if rank else set()
    offsets = tuple([x.shape[axis] - 1 if axis in turned else 0 for axis in range(rank)])
    steps = [
        tuple([(-1 if axis in turned else 1) if i == axis else 0 for i in range(rank)])
        for axis in range(rank)
    ]
    return copied(lowering, view(x, x.shape, offsets, steps) if x.size else x)


@rule("repeat")
def _repeat(lowering: Lowering, x: Definition, _repeats: Any) -> Definition:
    """Each axis with one of length `repeats` before it, over which nothing moves."""
    shape, _ = result_of(lowering)
    lead = len(shape) - len(x.shape)
    own = (1,) * lead + x.shape
    if 0 in own or 0 in shape:
        raise Unlowered("repeat of an empty tensor, or to one")
    apart = tuple([size for n, m in zip(shape, own) for size in (n // m, m)])
    thin = reshaped(x, tuple([size for m in own for size in (1, m)]))
    return copied(lowering, reshaped(broadcast(thin, apart), shape))


@rule("stack")
def _stack(lowering: Lowering, tensors: Sequence[Definition], dim: int) -> Definition:
    """Few tensors, chosen by the index: all are read everywhere. Many are parts of a whole."""
    shape, type_ = result_of(lowering)
    axis = dim % len(shape)
    if len(tensors) > MOST_STACKED and 0 not in shape:
        found, strides = whole(lowering.target, shape, type_, "stack"), row_major(shape)
        for place, each in enumerate(tensors):
            part(found, each, place * strides[axis], (*strides[:axis], *strides[axis + 1 :]))
        return found
    thin = [reshaped(each, (*each.shape[:axis], 1, *each.shape[axis:])) for each in tensors]

    def make(b: Builder, values: list[Value], place: Any) -> Value:
        found = b.cast(values[-1], type_)
        for at, value in reversed(list(enumerate(values[:-1]))):
            found = b.select(b.eq(place(axis), b.const(at, "i64")), b.cast(value, type_), found)
        return found

    return made(make, shape, type_, thin, "stack")


# -- from nothing --------------------------------------------------------------------------------------------
def filled(lowering: Lowering, value: Any, name: str) -> Definition:
    shape, type_ = result_of(lowering)
    stored = int(value) if isinstance(value, float) and TYPES[type_].kind in "iu" else value
    return made(lambda b, _v, _p: number(b, stored, type_), shape, type_, (), name)


def filled_by(lowering: Lowering, value: Number, name: str) -> Definition:
    """A tensor of a float that only running tells. Halves are rounded from it at once, not from float32."""
    shape, type_ = result_of(lowering)
    if type_ not in FLOATS or value.type != "f64" or not isinstance(lowering.node, Node):
        raise Unlowered(f"{name} of a scalar that is known only at run time")
    return made(lambda b, v, _p: b.cast(v[0], type_), shape, type_, (value,), name)


@rule("zeros", "zeros_like", "new_zeros", "zero")
def _zeros(lowering: Lowering, *_: Any) -> Definition:
    return filled(lowering, 0, "zeros")


@rule("ones", "ones_like", "new_ones")
def _ones(lowering: Lowering, *_: Any) -> Definition:
    return filled(lowering, 1, "ones")


def full_of(lowering: Lowering, value: Any) -> Definition:
    if isinstance(value, Number):
        return filled_by(lowering, value, "full")
    if isinstance(value, Definition):
        raise Unlowered("full with a tensor as fill value")
    return filled(lowering, value, "full")


@rule("full", "full_like", numbers="floats")
def _full(lowering: Lowering, _size: Any, value: Any, *_: Any) -> Definition:
    return full_of(lowering, value)


@rule("new_full", numbers="floats")
def _new_full(lowering: Lowering, _x: Any, _size: Any, value: Any, *_: Any) -> Definition:
    return full_of(lowering, value)


@rule("fill")
def _fill(lowering: Lowering, _x: Definition, value: Any) -> Definition:
    return copied(lowering, value) if isinstance(value, Definition) else filled(lowering, value, "fill")


@rule("arange", numbers="floats")
def _arange(lowering: Lowering, start: Any, end: Any, step: Any, dtype: Any, *_: Any) -> Definition:
    shape, type_ = result_of(lowering)
    work = "i64" if TYPES[type_].kind in "iu" else "f64"
    if any(isinstance(each, Definition) for each in (start, end, step)):
        if work == "i64":
            raise Unlowered("arange of integers made of floats known only at run time")
        return _arange_of_told(shape, type_, 0.0 if end is None or start is None else start, step)
    steps = Steps(start, end, step, dtype)

    def make(b: Builder, _values: list[Value], place: Any) -> Value:
        counted = b.mul(b.cast(place(0), work), number(b, steps.step, work))
        return b.cast(b.add(counted, number(b, steps.start, work)), type_)

    return made(make, shape, type_, (), "arange")


def _arange_of_told(shape: Shape, type_: str, start: Any, step: Any) -> Definition:
    """Where a call tells where it starts, or how far it steps; how many elements there are is known."""
    told = [value for value in (start, step) if isinstance(value, Definition)]

    def make(b: Builder, values: list[Value], place: Any) -> Value:
        given = iter(values)
        first, by = (
            b.cast(next(given), "f64") if isinstance(v, Definition) else b.const(v, "f64")
            for v in (start, step)
        )
        return b.cast(b.add(b.mul(b.cast(place(0), "f64"), by), first), type_)

    return made(make, shape, type_, told, "arange")


@rule("linspace", numbers="floats")
def _linspace(lowering: Lowering, start: Any, end: Any, steps: Any, *_: Any) -> Definition:
    shape, type_ = result_of(lowering)
    if (
        type_ not in FLOATS
        or type(steps) is not int
        or isinstance(start, complex)
        or isinstance(end, complex)
    ):
        raise Unlowered(
            "linspace of integers or complex numbers, or with a step count known only at run time"
        )
    if lowering.gives_halves:
        raise Unlowered("linspace of half precision, which eager rounds after each step")
    told = [value for value in (start, end) if isinstance(value, Definition)]

    def make(b: Builder, values: list[Value], place: Any) -> Value:
        given = iter(values)
        ends = [next(given) if isinstance(v, Definition) else b.const(v, "f64") for v in (start, end)]
        first, last = (b.cast(each, type_) for each in ends)
        if steps == 1:
            return first
        step = b.div(b.sub(last, first), b.const(steps - 1, type_))
        up, down = place(0), b.sub(b.const(steps - 1, "i64"), place(0))
        rising = b.add(first, b.mul(step, b.cast(up, type_)))
        falling = b.sub(last, b.mul(step, b.cast(down, type_)))
        return b.select(b.lt(up, b.const(steps // 2, "i64")), rising, falling)

    return made(make, shape, type_, told, "linspace")


@rule("eye")
def _eye(lowering: Lowering, *_: Any) -> Definition:
    shape, type_ = result_of(lowering)

    def make(b: Builder, _values: list[Value], place: Any) -> Value:
        return b.cast(b.eq(place(0), place(1)), type_)

    return made(make, shape, type_, (), "eye")


# -- triangles -----------------------------------------------------------------------------------------------
def triangle(lowering: Lowering, x: Definition, diagonal: int, comparison: str, name: str) -> Definition:
    shape, type_ = result_of(lowering)
    rank = len(shape)

    def make(b: Builder, values: list[Value], place: Any) -> Value:
        apart = b.sub(place(rank - 1), place(rank - 2))
        inside = b.binary(comparison, apart, b.const(diagonal, "i64"))
        return b.select(inside, values[0], b.like(0, values[0]))

    return made(make, shape, type_, (x,), name)


@rule("tril")
def _tril(lowering: Lowering, x: Definition, diagonal: int) -> Definition:
    return triangle(lowering, x, diagonal, "le", "tril")


@rule("triu")
def _triu(lowering: Lowering, x: Definition, diagonal: int) -> Definition:
    return triangle(lowering, x, diagonal, "ge", "triu")
