"""Lowering of ops that write elements at computed places, and of running folds.

Gives rules for `weft.native.lower.lowering`. One idea: whatever is scattered, it is rows of neighbouring
elements that
are put, or added, somewhere in a copy; so one function does all, in the order of the rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from weft.core.dims import wrap_dim
from weft.native.ir.definitions import Definition, Shape, broadcast, reshaped, sliced, view
from weft.native.ir.scalar import Builder, Value
from weft.native.ir.sizes import broadcast_shape
from weft.native.lower.folds import cast
from weft.native.lower.indexing import TABULATED, checked, index_axes, not_empty, table
from weft.native.lower.lowering import Lowering, Unlowered, number, point, rule
from weft.native.lower.pointwise import made, result_of
from weft.native.plan.units import row_major
from weft.ops.record import REGISTRY


def scattered(
    lowering: Lowering, kind: str, base: Definition, places: Definition, values: Definition, columns: int,
    name: str,
) -> Definition:  # fmt: skip
    """`base` with rows of `values` put (or added) where `places` say, in elements from its beginning."""
    rows = in_memory(cast(values, base.type))
    return lowering.target.scattered(kind, in_memory(base), in_memory(places), rows, columns, name)


def in_memory(value: Definition) -> Definition:
    """A copy that lies row by row."""
    return point(lambda _b, v, _p: v[0], value.shape, value.type, (value,), "rows", 0)


def zeros(shape: Shape, type_: str) -> Definition:
    return point(lambda b, _v, _p: b.const(0, type_), shape, type_, (), "zeros", 0)


def flat_places(shape: Shape, dim: int, at: Definition) -> Definition:
    """Where elements lie in a row-major tensor: `at` along an axis, as in their own elsewhere."""
    strides = row_major(shape)

    def make(b: Builder, values: list[Value], place: Any) -> Value:
        total = b.mul(values[0], b.const(strides[dim], "i64"))
        for axis in range(len(at.shape)):
            if axis != dim and at.shape[axis] != 1:
                total = b.add(total, b.mul(place(axis), b.const(strides[axis], "i64")))
        return total

    return point(make, at.shape, "i64", (at,), "places", 4)


# -- along an axis -------------------------------------------------------------------------------------------
def along(
    lowering: Lowering, kind: str, x: Definition, dim: int, index: Definition, source: Any, name: str
) -> Definition:
    """Elements of `source` at places along an axis, each with its own index elsewhere."""
    not_empty(x, index)
    whole = reshaped(x, x.shape or (1,))
    places = reshaped(index, index.shape or (1,))
    axis = wrap_dim(dim, len(whole.shape))
    at = checked(lowering, places, 0, whole.shape[axis])
    values = source
    if isinstance(source, Definition):
        values = reshaped(source, places.shape) if len(source.shape) != len(places.shape) else source
        for place, size in enumerate(places.shape):
            values = sliced(values, place, 0, 1, size)
    else:
        values = point(lambda b, _v, _p: number(b, source, x.type), places.shape, x.type, (), name, 0)
    found = scattered(lowering, kind, whole, flat_places(whole.shape, axis, at), values, 1, name)
    return reshaped(found, x.shape)


@rule("scatter_add")
def _scatter_add(
    lowering: Lowering, x: Definition, dim: int, index: Definition, source: Definition
) -> Definition:
    return along(lowering, "add", x, dim, index, source, "scatter_add")


@rule("scatter")
def _scatter(
    lowering: Lowering, x: Definition, dim: int, index: Definition, source: Any, value: Any, reduce: Any
) -> Definition:
    kind = {None: "set", "add": "add", "multiply": "prod"}[reduce]
    return along(lowering, kind, x, dim, index, value if source is None else source, "scatter")


@rule("scatter_reduce")
def _scatter_reduce(
    lowering: Lowering, x: Definition, dim: int, index: Definition, source: Definition, reduce: str, own: bool
) -> Definition:
    kind = {"sum": "add", "prod": "prod", "amax": "max", "amin": "min"}.get(reduce)
    if kind is None or not own:
        raise Unlowered("scatter_reduce by mean, or with include_self=False")
    return along(lowering, kind, x, dim, index, source, "scatter_reduce")


def rows_along(x: Definition, dim: int, at: Definition) -> tuple[Definition, int]:
    """Where rows of a tensor begin, for each index before the axis, and how long they are."""
    axis = wrap_dim(dim, len(x.shape))
    outer, inner = prod(x.shape[:axis]), prod(x.shape[axis + 1 :])
    size = x.shape[axis]
    shape = (outer, at.size)

    def make(b: Builder, values: list[Value], place: Any) -> Value:
        row = b.add(values[0], b.mul(place(0), b.const(size, "i64")))
        return b.mul(row, b.const(inner, "i64"))

    line = reshaped(at, (1, at.size))
    return point(make, shape, "i64", (line,), "rows", 4), inner


def in_rows(
    lowering: Lowering, kind: str, x: Definition, dim: int, index: Definition, source: Definition, low: int,
    name: str,
) -> Definition:  # fmt: skip
    not_empty(x, index)
    whole = reshaped(x, x.shape or (1,))
    size = whole.shape[wrap_dim(dim, len(whole.shape))]
    at = checked(lowering, reshaped(index, (index.size,)), -size if low else 0, size)
    places, columns = rows_along(whole, dim, at)
    values = reshaped(source, (places.size, columns))
    return reshaped(scattered(lowering, kind, whole, places, values, columns, name), x.shape)


@rule("index_add")
def _index_add(
    lowering: Lowering, x: Definition, dim: int, index: Definition, source: Definition, alpha: Any
) -> Definition:
    values = source
    if alpha != 1:
        values = made(
            lambda b, v, _: b.mul(v[0], number(b, alpha, v[0].type)),
            source.shape,
            source.type,
            (source,),
            "alpha",
        )
    return in_rows(lowering, "add", x, dim, index, values, 0, "index_add")


@rule("index_copy")
def _index_copy(
    lowering: Lowering, x: Definition, dim: int, index: Definition, source: Definition
) -> Definition:
    return in_rows(lowering, "set", x, dim, index, source, 0, "index_copy")


@rule("index_fill")
def _index_fill(lowering: Lowering, x: Definition, dim: int, index: Definition, value: Any) -> Definition:
    whole = x.shape or (1,)
    axis = wrap_dim(dim, len(whole))
    shape = tuple([index.size if i == axis else n for i, n in enumerate(whole)])
    if isinstance(value, Definition):
        source = broadcast(cast(reshaped(value, ()), x.type), shape)
    else:
        stored = int(value) if isinstance(value, float) and x.type not in ("f32", "f64") else value
        source = point(lambda b, _v, _p: number(b, stored, x.type), shape, x.type, (), "index_fill", 0)
    return in_rows(lowering, "set", x, dim, index, source, 1, "index_fill")


@rule("embedding_dense_backward")
def _embedding_backward(
    lowering: Lowering, g: Definition, index: Definition, count: int, padding: int, by_frequency: bool
) -> Definition:
    shape, type_ = result_of(lowering)
    not_empty(g, index)
    if by_frequency:
        raise Unlowered("the gradient of an embedding with scale_grad_by_freq")
    at = checked(lowering, reshaped(index, (index.size,)), 0, count)
    width = shape[-1]
    places = point(lambda b, v, _: b.mul(v[0], b.const(width, "i64")), at.shape, "i64", (at,), "rows", 2)
    rows = reshaped(g, (index.size, width))
    if padding >= 0:
        rows = made(
            lambda b, v, _: b.select(b.eq(v[1], b.const(padding, "i64")), b.like(0, v[0]), v[0]),
            rows.shape, type_, (rows, reshaped(at, (index.size, 1))), "padding",
        )  # fmt: skip
    return scattered(lowering, "add", zeros(shape, type_), places, rows, width, "embedding_backward")


# -- tensors as indices --------------------------------------------------------------------------------------
def put(
    lowering: Lowering,
    x: Definition,
    values: Definition,
    indices: Sequence[Any],
    dims: Sequence[int],
    kind: str,
) -> Definition:
    """Values where tensors of ints say."""
    if not dims or any(not isinstance(each, Definition) or each.type == "b1" for each in indices):
        raise Unlowered("indices that are boolean masks, or no indices")
    not_empty(x, values, *indices)
    joint = broadcast_shape([each.shape for each in indices])
    together = dims[-1] - dims[0] + 1 == len(dims)
    rest = [n for axis, n in enumerate(x.shape) if axis not in dims]
    front = dims[0] if together else 0
    shape = (*rest[:front], *joint, *rest[front:])
    axes, _ = index_axes(lowering, x, indices, dims, shape)
    columns = prod(x.shape[dims[-1] + 1 :])
    lead = len(shape) - (len(x.shape) - dims[-1] - 1)
    strides = row_major(x.shape)
    parts = [(axis, stride) for axis, stride in zip(axes, strides)][: dims[-1] + 1]
    operands = [first_rows(axis, lead, shape) for axis, _ in parts if isinstance(axis, Definition)]

    def make(b: Builder, found: list[Value], place: Any) -> Value:
        given = iter(found)
        total = b.const(0, "i64")
        for axis, stride in parts:
            at = next(given) if isinstance(axis, Definition) else place(axis)
            total = b.add(total, b.mul(at, b.const(stride, "i64")))
        return total

    places = point(make, shape[:lead], "i64", operands, "places", 6)
    rows = reshaped(broadcast(values, shape), (prod(shape[:lead]), columns))
    return scattered(lowering, kind, x, reshaped(places, (places.size,)), rows, columns, "index_put")


def first_rows(axis: Definition, lead: int, shape: Shape) -> Definition:
    """A definition at the first element of each row."""
    for place in range(lead, len(shape)):
        axis = sliced(axis, place, 0, 1, 1)
    return reshaped(axis, shape[:lead])


@rule("_index_put")
def _index_put(
    lowering: Lowering, x: Definition, values: Definition, indices: Any, dims: Any, accumulate: bool
) -> Definition:
    return put(lowering, x, values, indices, tuple(dims), "add" if accumulate else "set")


@rule("index_embed")
def _index_embed(lowering: Lowering, g: Definition, indices: Any, dims: Any, _shape: Any) -> Definition:
    shape, type_ = result_of(lowering)
    return put(lowering, zeros(shape, type_), g, indices, tuple(dims), "add")


@rule("_take_backward")
def _take_backward(lowering: Lowering, g: Definition, index: Definition, _shape: Any) -> Definition:
    shape, type_ = result_of(lowering)
    not_empty(g)
    at = checked(lowering, index, -prod(shape), prod(shape))
    flat = reshaped(at, (at.size,))
    return scattered(lowering, "add", zeros(shape, type_), flat, reshaped(g, (at.size,)), 1, "take_backward")


# -- places that are known -----------------------------------------------------------------------------------
def gathered_back(lowering: Lowering, g: Definition, forward: Any) -> Definition:
    """The gradient of an op that puts elements elsewhere, some of them often: its kernel tells where, from
    their numbers.
    """
    shape, type_ = result_of(lowering)
    not_empty(g)
    if max(prod(shape), g.size) > TABULATED:
        raise Unlowered("an index table that would be too large")
    numbers = np.asarray(forward(np.arange(1, prod(shape) + 1).reshape(shape))).reshape(-1) - 1
    at = table(numbers)
    places = point(lambda b, v, _: b.max(v[0], b.const(0, "i64")), at.shape, "i64", (at,), "places", 1)
    values = made(
        lambda b, v, _: b.select(b.lt(v[1], b.const(0, "i64")), b.like(0, v[0]), v[0]),
        at.shape, type_, (reshaped(g, (g.size,)), at), "values",
    )  # fmt: skip
    return scattered(lowering, "add", zeros(shape, type_), places, values, 1, lowering.op.name)


@rule("border_backward")
def _border_backward(lowering: Lowering, g: Definition, _shape: Any, pad: Any, mode: str) -> Definition:
    words = {"replicate": "replication", "reflect": "reflection", "circular": "circular"}
    if mode not in words:
        raise Unlowered(f"the gradient of padding with mode {mode}")
    op = REGISTRY[f"{words[mode]}_pad{len(tuple(pad)) // 2}d"]
    assert op.kernel is not None
    kernel = op.kernel
    return gathered_back(lowering, g, lambda numbers: kernel(numbers, tuple(pad)))


# -- running folds -------------------------------------------------------------------------------------------
def running(lowering: Lowering, kind: str, operands: list[Definition], dim: int, name: str) -> Definition:
    x = operands[0]
    if not x.size:
        raise Unlowered("a cumulative op of an empty tensor")
    carrier = "f64" if x.type == "f32" and not lowering.gives_halves else x.type  # as eager's
    axis = wrap_dim(dim, len(x.shape))
    return lowering.target.scanned(kind, [in_memory(each) for each in operands], axis, carrier, name)


@rule("cumsum")
def _cumsum(lowering: Lowering, x: Definition, dim: int, _dtype: Any) -> Definition:
    _, type_ = result_of(lowering)
    return running(lowering, "add", [cast(x, type_)], dim, "cumsum") if x.shape else cast(x, type_)


@rule("cumprod")
def _cumprod(lowering: Lowering, x: Definition, dim: int, _dtype: Any) -> Definition:
    _, type_ = result_of(lowering)
    return running(lowering, "prod", [cast(x, type_)], dim, "cumprod") if x.shape else cast(x, type_)


@rule("_linear_scan")
def _linear_scan(
    lowering: Lowering, x: Definition, factors: Definition, dim: int, reverse: bool
) -> Definition:
    if not x.shape:
        return point(lambda _b, v, _p: v[0], (), x.type, (x,), "scan")
    axis = wrap_dim(dim, len(x.shape))
    operands = [x, broadcast(cast(factors, x.type), x.shape)]
    if not reverse:
        return running(lowering, "linear", operands, axis, "scan")
    turned = [backwards(each, axis) for each in operands]
    return backwards(running(lowering, "linear", turned, axis, "scan"), axis)


def backwards(x: Definition, axis: int) -> Definition:
    rank = len(x.shape)
    offsets = tuple([x.shape[axis] - 1 if k == axis else 0 for k in range(rank)])
    steps = [tuple([(-1 if k == axis else 1) if i == k else 0 for i in range(rank)]) for k in range(rank)]
    return view(x, x.shape, offsets, steps) if x.shape[axis] > 1 else x
