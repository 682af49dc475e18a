"""Writing by data: scatter, index_add, index_put, masked_scatter and their kin, each giving new memory; in-
place forms are generated.

One idea: sums over repeated positions run on flat memory (`add_at`), where NumPy has its fast loop, whatever
the index looked like.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from math import prod
from typing import Any

import numpy as np

from weft.core import dtypes
from weft.core.arrays import Array, is_array, namespace
from weft.core.dims import wrap_dim
from weft.core.errors import no_derivative
from weft.core.types import TensorType
from weft.ops.facts import Placing
from weft.ops.families import composite
from weft.ops.families import index as index_family
from weft.ops.index_batching import batch_along, batch_index_embed, batch_index_put, batch_rows
from weft.ops.indexing import (
    INTEGERS,
    OUT_OF_BOUNDS,
    check_bounds,
    check_filler,
    check_fit,
    check_indices,
    exact_or_first,
    expand_masks,
    gather,
    index,
    index_key,
    index_select,
    indexed_shape,
    indexes_along,
    indexes_of,
    masked_fill,
    masked_select,
    select_where,
    take,
)
from weft.ops.node_names import by_number
from weft.ops.options import fits
from weft.ops.record import Op, broadcast_shapes, cast_operand, joint, ops, type_of
from weft.ops.replay import view_scatter
from weft.ops.samples import Maker, Sample, Samples
from weft.ops.shape import cat
from weft.ops.slicing import basic_slice, diagonal, select, slice_
from weft.ops.values import Number, TensorLike
from weft.ops.view import embed, like, reshape, sum_to_size


# -- flat memory ---------------------------------------------------------------------------------------------
def is_half(kind: np.dtype[Any]) -> bool:
    """float16 and bfloat16: sums are kept in float32 and rounded once."""
    return kind.itemsize == 2 and kind.kind not in "iu"


def strides_of(shape: tuple[int, ...]) -> list[int]:
    return [prod(shape[i + 1 :]) for i in range(len(shape))]


def reduce_at(operation: Any, x: Array, places: Array, values: Array) -> Array:
    """A copy of x with values folded into it at flat places."""
    xp = namespace(x)
    wide = xp.float32 if is_half(x.dtype) else x.dtype
    total = x.astype(wide, order="C", copy=True)
    operation.at(total.reshape(-1), places.reshape(-1), values.astype(wide, copy=False).reshape(-1))
    return total.astype(x.dtype, copy=False)


def places_along(shape: tuple[int, ...], dim: int, positions: Array) -> Array:
    """Flat places of gather's and scatter's elements: `positions` along dim, their own coordinates
    elsewhere.
    """
    xp = namespace(positions)
    strides = strides_of(shape)
    places = positions * strides[dim]
    for i, n in enumerate(positions.shape):
        if i != dim:
            places = places + (xp.arange(n) * strides[i]).reshape(-1, *(1,) * (positions.ndim - 1 - i))
    return places


def places_of_rows(shape: tuple[int, ...], dim: int, positions: Array) -> Array:
    """Flat places of the slices that a vector names along dim."""
    xp = namespace(positions)
    strides = strides_of(shape)
    places = xp.zeros((1,) * len(shape), np.int64)
    for i, n in enumerate(shape):
        line = positions if i == dim else xp.arange(n)
        places = places + (line * strides[i]).reshape(-1, *(1,) * (len(shape) - 1 - i))
    return places


def places_of_index(shape: tuple[int, ...], indices: Any, dims: tuple[int, ...]) -> Array:
    """Flat places of x[index], in the result's shape."""
    xp = namespace(*indices)
    strides = strides_of(shape)
    common = broadcast_shapes(*[p.shape for p in indices])
    rest = [i for i in range(len(shape)) if i not in dims]
    place = dims[0] if dims[-1] - dims[0] + 1 == len(dims) else 0
    after = len(rest) - place
    places = xp.zeros((), np.int64)
    for dim, positions in zip(dims, indices, strict=True):
        places = places + xp.where(positions < 0, positions + shape[dim], positions) * strides[dim]
    places = xp.reshape(places, (*common, *(1,) * after))
    for order, dim in enumerate(rest):
        trailing = len(rest) - 1 - order + (len(common) if order < place else 0)
        places = places + (xp.arange(shape[dim]) * strides[dim]).reshape(-1, *(1,) * trailing)
    return places


# -- scatter -------------------------------------------------------------------------------------------------
def _check_scatter(x: TensorType, dim: int, places: TensorType, src: TensorType | Number) -> TensorType:
    dim = wrap_dim(dim, x.ndim)
    if isinstance(src, TensorType) and src.dtype is not x.dtype:
        raise RuntimeError("scatter(): Expected self.dtype to be equal to src.dtype")
    check_fit(x, places, dim, "scatter")
    if 0 in places.shape:
        return x
    if isinstance(src, TensorType) and max(src.ndim, 1) != max(places.ndim, 1):
        raise RuntimeError("Index tensor must have the same number of dimensions as src tensor")
    small = all(n <= size or i == dim for i, (n, size) in enumerate(zip(places.shape, x.shape, strict=False)))
    if not isinstance(src, TensorType):
        if not small:
            raise RuntimeError(
                f"Expected index {list(places.shape)} to be no larger than self {list(x.shape)} apart from "
                f"dimension {dim}"
            )
    elif not small or any(n > size for n, size in zip(places.shape or (1,), src.shape or (1,), strict=False)):
        raise RuntimeError(
            f"Expected index {list(places.shape)} to be no larger than self {list(x.shape)} apart from "
            f"dimension {dim} and to be "
            f"no larger size than src {list(src.shape)}"
        )
    return x


def _flat_places(x: Array, dim: int, places: Array) -> Array:
    shape = x.shape or (1,)
    places = places if places.ndim else places.reshape(1)
    dim = wrap_dim(dim, len(shape))
    check_bounds(places, shape[dim], OUT_OF_BOUNDS, dim=dim)
    return places_along(shape, dim, places)


def _cropped(src: Array | Number, places: Array, kind: np.dtype[Any]) -> Array:
    """What scatter reads of src: as much as the index covers."""
    if not is_array(src):
        xp = namespace(places)
        return xp.broadcast_to(xp.asarray(cast_operand(src, kind)), places.shape)
    given: Array = src
    if given.ndim != places.ndim:  # of a zero-dim one and a vector
        given = given.reshape(places.shape) if not places.ndim or places.size == 1 else given.reshape(1)
    return given[tuple(slice(n) for n in places.shape)] if given.shape != places.shape else given


def _scatter_rule(
    x: TensorType, dim: int, places: TensorType, src: TensorType | Number | None, value: Number | None,
    reduce: str | None,
) -> TensorType:  # fmt: skip
    source = value if src is None else src
    if source is None:
        raise TypeError("scatter() missing 1 required positional argument: 'src' or 'value'")
    if reduce is not None and reduce not in ("add", "multiply"):
        raise RuntimeError("reduce argument must be either add or multiply.")
    if not isinstance(source, TensorType):
        fits(source, x.dtype)
    return _check_scatter(x, dim, places, source)


def _scatter(
    x: Array, dim: int, places: Array, src: Array | Number | None, value: Any, reduce: str | None
) -> Array:
    if not places.size:
        return x.copy()
    source = _cropped(value if src is None else src, places, x.dtype)
    if reduce is not None:
        fold = namespace(x).add if reduce == "add" else namespace(x).multiply
        return reduce_at(fold, x, _flat_places(x, dim, places), source)
    result = x.copy(order="C")
    result.reshape(-1)[_flat_places(x, dim, places).reshape(-1)] = source.reshape(-1)
    return result


def _scatter_vjp(
    g: TensorLike, _out: object, _x: object, dim: int, places: TensorLike, _src: object,
    value: Number | None, reduce: str | None,
) -> Any:  # fmt: skip
    if reduce is not None:
        no_derivative("derivative for scatter with reduce is not implemented: use scatter_reduce")
    return scatter(g, dim, places, 0)


def source_gradient(g: TensorLike, dim: int, places: TensorLike, source: Any) -> Any:
    """The gradient of scatter's src: gathered, and zero where the index did not reach."""
    shape = type_of(places).shape
    taken = gather(g, dim, places)
    return (
        taken
        if shape == source.shape
        else embed(taken, source.shape, ((basic_slice, (tuple(map(slice, shape)),), None),))
    )


def _scatter_samples(make: Maker) -> Iterator[Sample]:
    yield Sample(make(3, 4), 0, np.array([[0, 1, 2, 0], [2, 0, 1, 1]]), make(2, 4))
    yield Sample(make(3, 4), 1, np.array([[3], [1]]), make(3, 2))
    yield Sample(make(3, 4), -1, np.array([[3], [1]]), 1.5)
    yield Sample(make(3), 0, np.array([2, 0]), value=2.5)
    yield Sample(make(), 0, np.asarray(0), make())


scatter: Op = index_family(
    "scatter", _scatter, _scatter_rule,
    "input: Tensor, dim: Dim, index: Tensor, src: MaybeOperand = None, *, value: Any = None, reduce: Any = "
    "None",
    inplace=True, out=exact_or_first, samples=_scatter_samples, batch=batch_along,
    vjp=(_scatter_vjp, None, lambda g, _out, _x, dim, places, _src: source_gradient(g, dim, places, _src)),
    refuses="integers", lowering="scatter", apart=True, placing=Placing(),
    node_name=by_number(2, "ScatterBackward1", "ScatterBackward0"),
)  # fmt: skip


def _add_samples(make: Maker) -> Iterator[Sample]:
    yield Sample(make(3, 4), 0, make.ints(2, 4, high=3), make(2, 4))
    yield Sample(make(3, 4), 1, make.ints(2, 5, high=4), make(3, 6))
    yield Sample(make(3), 0, make.ints(7, high=3), make(7))
    yield Sample(make(), 0, np.asarray(0), make())


scatter_add: Op = index_family(
    "scatter_add",
    lambda x, dim, places, src: (
        reduce_at(namespace(x).add, x, _flat_places(x, dim, places),
            _cropped(src, places, x.dtype)) if places.size else x.copy()
    ),
    _check_scatter, "input: Tensor, dim: Dim, index: Tensor, src: Tensor", inplace=True, out=exact_or_first,
    samples=_add_samples, batch=batch_along,
    vjp=(lambda g: g, None, lambda g, _out, _x, dim, places, _src: source_gradient(g, dim, places, _src)),
    refuses="integers", indexes=indexes_along, lowering="scatter", apart=True,
)  # fmt: skip


# -- scatter_reduce ------------------------------------------------------------------------------------------
REDUCTIONS = ("sum", "prod", "mean", "amax", "amin")


def _scatter_reduce_rule(
    x: TensorType, dim: int, places: TensorType, src: TensorType, reduce: str, include_self: bool
) -> TensorType:
    if reduce not in REDUCTIONS:
        raise RuntimeError(f"reduce argument must be either sum, prod, mean, amax or amin, got {reduce}")
    return _check_scatter(x, dim, places, src)


def _identity(reduce: str, kind: np.dtype[Any]) -> Any:
    if reduce in ("sum", "mean"):
        return 0
    if reduce == "prod":
        return 1
    low = reduce == "amax"
    if kind.kind == "b":
        return not low
    if kind.kind in "iu":
        return np.iinfo(kind).min if low else np.iinfo(kind).max
    return -np.inf if low else np.inf


def _scatter_reduce(x: Array, dim: int, places: Array, src: Array, reduce: str, include_self: bool) -> Array:
    if not places.size:
        return x.copy()
    xp = namespace(x)
    kind = x.dtype
    flat_places = _flat_places(x, dim, places).reshape(-1)
    source = _cropped(src, places, kind)
    wide = xp.float32 if is_half(kind) else kind
    start = x.astype(wide, order="C", copy=True)
    if not include_self:
        start.reshape(-1)[flat_places] = _identity(reduce, kind)
    fold = {"sum": xp.add, "mean": xp.add, "prod": xp.multiply, "amax": xp.maximum, "amin": xp.minimum}[
        reduce
    ]
    result = reduce_at(fold, start, flat_places, source)
    if reduce == "mean":
        count = xp.full(result.size, 1 if include_self else 0, np.int64)
        xp.add.at(count, flat_places, 1)
        count = xp.maximum(count, 1).reshape(result.shape)
        result = result // count.astype(wide) if kind.kind in "iu" else (result / count).astype(wide)
    return result.astype(kind, copy=False)


def _scatter_reduce_vjp(
    needs: Sequence[bool], g: TensorLike, out: TensorLike, x: TensorLike, dim: int, places: TensorLike,
    src: TensorLike, reduce: str, include_self: bool,
) -> Any:  # fmt: skip
    shape = type_of(places).shape
    if 0 in shape:
        return g, None, ops.zeros_like(src)
    part = src if shape == type_of(src).shape else basic_slice(src, tuple(map(slice, shape)))
    rule = {"sum": _sum_back, "mean": _mean_back, "prod": _product_back}.get(reduce, _extreme_back)
    to_input, to_source = rule(g, out, x, dim, places, part, include_self)
    if not include_self:
        to_input = scatter(to_input, dim, places, 0)
    if part is not src:
        to_source = embed(to_source, type_of(src).shape, ((basic_slice, (tuple(map(slice, shape)),), None),))
    return to_input, None, to_source


def _sum_back(
    g: TensorLike, _out: TensorLike, _x: TensorLike, dim: int, places: TensorLike, _src: TensorLike,
    _include: bool,
) -> Any:  # fmt: skip
    return g, gather(g, dim, places)


def _mean_back(
    g: TensorLike, _out: TensorLike, _x: TensorLike, dim: int, places: TensorLike, src: TensorLike,
    include: bool,
) -> Any:  # fmt: skip
    count = ops.ones_like(g) if include else ops.zeros_like(g)
    count = scatter_add(count, dim, places, ops.ones_like(src))
    share = ops.div(g, masked_fill(count, ops.eq(count, 0), 1))
    return share, gather(share, dim, places)


def _product_back(
    g: TensorLike, out: TensorLike, x: TensorLike, dim: int, places: TensorLike, src: TensorLike,
    include: bool,
) -> Any:  # fmt: skip
    """Quotients where elements are not zero; where exactly one is, the product of the others."""
    zero = ops.eq(x, 0)
    whole = masked_fill(x, zero, 1)
    without_input = scatter_reduce(whole, dim, places, src, "prod", include_self=include)
    to_input = ops.div(ops.mul(g, without_input), whole)
    empty = ops.eq(src, 0)
    zeros = gather(
        scatter_add(ops.zeros_like(x), dim, places, ops._to_copy(empty, type_of(x).dtype)), dim, places
    )
    single = ops.logical_and(empty, ops.eq(zeros, 1))
    others = scatter_reduce(x, dim, places, masked_fill(src, single, 1), "prod", include_self=include)
    several = ops.div(gather(ops.mul(g, out), dim, places), masked_fill(src, empty, 1))
    return to_input, select_where(single, gather(ops.mul(g, others), dim, places), several)


def _extreme_back(
    g: TensorLike, out: TensorLike, x: TensorLike, dim: int, places: TensorLike, src: TensorLike,
    include: bool,
) -> Any:  # fmt: skip
    """Ties share the gradient equally."""
    kind = type_of(x).dtype
    from_source = ops._to_copy(ops.eq(src, gather(out, dim, places)), kind)
    from_input = ops._to_copy(ops.eq(x, out), kind)
    if not include:
        from_input = scatter(from_input, dim, places, 0)
    share = ops.div(g, scatter_add(from_input, dim, places, from_source))
    return ops.mul(from_input, share), ops.mul(from_source, gather(share, dim, places))


def _scatter_reduce_samples(make: Maker) -> Iterator[Sample]:
    for reduce in REDUCTIONS:
        for include in (True, False):
            values = make.distinct(5, 4)
            yield Sample(values[:3], 0, make.ints(2, 4, high=3), values[3:], reduce, include_self=include)
    yield Sample(make(3), 0, make.ints(7, high=3), make(8), "mean")


scatter_reduce: Op = index_family(
    "scatter_reduce", _scatter_reduce, _scatter_reduce_rule,
    "input: Tensor, dim: Dim, index: Tensor, src: Tensor, reduce: str, *, include_self: bool = True",
    inplace=True, out=exact_or_first, vjp=joint(_scatter_reduce_vjp), samples=_scatter_reduce_samples,
    batch=batch_along,
    refuses="integers", lowering="scatter",
)  # fmt: skip


# -- index_add, index_copy, index_fill -----------------------------------------------------------------------
def check_rows(
    name: str, x: TensorType, dim: int, places: TensorType, source: TensorType, scalars: bool = True
) -> int:
    """The dimension along which the source's slices go where a vector says; what does not fit is refused."""
    place = wrap_dim(dim, x.ndim)
    if places.ndim > 1:
        raise IndexError(
            f"{name}(): Index is supposed to be a vector, but got dim: {places.ndim} with type: "
            f"{places.dtype.scalar_name} and size: {list(places.shape)}"
        )
    if places.dtype not in INTEGERS:
        raise RuntimeError(
            f"{name}(): Expected dtype int32/int64 for index but got: {places.dtype.scalar_name}"
        )
    if source.dtype is not x.dtype:
        raise RuntimeError(
            f"{name}(): self ({x.dtype.scalar_name}) and source ({source.dtype.scalar_name}) must have "
            "the same "
            "scalar type"
        )
    have = source.shape[place] if place < source.ndim else 1
    if places.numel() != have and not source.shape and not scalars:
        raise IndexError(f"Dimension specified as {dim} but tensor has no dimensions")
    if places.numel() != have:
        raise RuntimeError(
            f"{name}(): Number of indices ({places.numel()}) should be equal to source.size(dim): "
            f"({have}), for dim: {dim}"
        )
    return place


def _index_add_rule(
    x: TensorType, dim: int, places: TensorType, source: TensorType, alpha: Number
) -> TensorType:
    place = check_rows("index_add_", x, dim, places, source, scalars=False)
    if x.ndim and source.ndim:
        if x.shape[:place] + x.shape[place + 1 :] != source.shape[:place] + source.shape[place + 1 :]:
            raise RuntimeError(
                "source tensor shape must match self tensor shape, excluding the specified dimension. Got "
                "self.shape = "
                f"{list(x.shape)} source.shape = {list(source.shape)}"
            )
    return x


def _rows(x: Array, dim: int, places: Array) -> Array:
    shape = x.shape or (1,)
    return places_of_rows(shape, wrap_dim(dim, len(shape)), places.reshape(-1))


def _index_add(x: Array, dim: int, places: Array, source: Array, alpha: Number) -> Array:
    size = (x.shape or (1,))[dim]
    check_bounds(places, size, OUT_OF_BOUNDS, dim=wrap_dim(dim, x.ndim))
    if alpha != 1:
        source = source * cast_operand(alpha, source.dtype)[()]
    return reduce_at(namespace(x).add, x, _rows(x, dim, places), source) if places.size else x.copy()


def _rows_gradient(g: TensorLike, dim: int, places: TensorLike, source: TensorType) -> Any:
    """The gradient of index_add's and index_copy's source."""
    taken = index_select(g, dim, places)
    return taken if type_of(taken).shape == source.shape else reshape(taken, source.shape)


def _index_add_vjp(
    g: TensorLike, _out: object, _x: object, dim: int, places: TensorLike, _source: TensorType, alpha: Number
) -> Any:
    taken = _rows_gradient(g, dim, places, _source)
    return taken if alpha == 1 else ops.mul(taken, alpha)


def _index_add_samples(make: Maker) -> Iterator[Sample]:
    yield Sample(make(3, 4), 0, make.ints(5, high=3), make(5, 4))
    yield Sample(make(3, 4), -1, make.ints(2, high=4), make(3, 2), alpha=2.5)
    yield Sample(make(3), 0, make.ints(high=3), make())
    yield Sample(make(), 0, np.zeros(1, np.int64), make())


index_add: Op = index_family(
    "index_add", _index_add, _index_add_rule,
    "input: Tensor, dim: Dim, index: Tensor, source: Tensor, *, alpha: Number = 1", inplace=True,
    out=exact_or_first, vjp=(lambda g: g, None, _index_add_vjp), samples=_index_add_samples,
    batch=batch_rows,
    refuses="integers", indexes=indexes_along, lowering="scatter", apart=True,
)  # fmt: skip


def _index_copy_rule(x: TensorType, dim: int, places: TensorType, source: TensorType) -> TensorType:
    place = wrap_dim(dim, x.ndim)
    if places.ndim > 1:
        raise IndexError(f"index_copy_(): Index should have dimension 1 or 0 (got {places.ndim})")
    count = places.numel()
    if not source.shape and count != 1:
        raise IndexError(f"index_copy_(): When source is scalar, index should have one element (got {count})")
    if source.ndim != x.ndim and source.ndim and x.ndim:
        raise IndexError(
            "index_copy_(): When source and destination are not scalars, their dimensionality must match. "
            "Source dimensionality "
            f"({source.ndim}), destination dimensionality ({x.ndim})"
        )
    if places.dtype is not dtypes.int64:
        raise RuntimeError(
            f"index_copy_(): Expected a long tensor for index, but got {places.dtype.scalar_name}"
        )
    if source.dtype is not x.dtype:
        raise RuntimeError(
            "index_copy_(): self and source expected to have the same dtype, but got (self) "
            f"{x.dtype.scalar_name} and (source) "
            f"{source.dtype.scalar_name}"
        )
    left = x.shape[:place] + x.shape[place + 1 :]
    right = source.shape[:place] + source.shape[place + 1 :]
    if left != right:
        raise RuntimeError(
            "index_copy_(): Source/destination tensor must have same slice shapes. Destination slice shape: "
            f"{list(left)} at dimension {place} and source slice shape: {list(right)} at dimension "
            f"{place if source.ndim else 0}."
        )
    if source.ndim and count != source.shape[place]:
        raise IndexError(
            f"index_copy_(): Number of indices ({count}) should be equal to source.size(dim) "
            f"({source.shape[place]})"
        )
    return x


def _index_copy(x: Array, dim: int, places: Array, source: Array) -> Array:
    text = f"index_copy_(): {OUT_OF_BOUNDS}"
    check_bounds(places, (x.shape or (1,))[dim], text, IndexError, dim=wrap_dim(dim, x.ndim))
    result = x.copy(order="C")
    if places.size:
        result.reshape(-1)[_rows(x, dim, places).reshape(-1)] = source.reshape(-1)
    return result


index_copy: Op = index_family(
    "index_copy", _index_copy, _index_copy_rule, "input: Tensor, dim: Dim, index: Tensor, source: Tensor",
    inplace=True, out=exact_or_first, amp="widest",
    vjp=(
        lambda g, _out, _x, dim, places: index_fill(g, dim, places, 0), None,
        lambda g, _out, _x, dim, places, _source: _rows_gradient(g, dim, places, _source),
    ),
    batch=batch_rows,
    samples=lambda make: [Sample(make(3, 4), 0, np.array([2, 0]), make(2, 4)),
        Sample(make(3, 4), -1, np.array([1]), make(3, 1)), Sample(make(3), 0, np.asarray(1), make()),
        Sample(make(), 0, np.zeros(1, np.int64), make())],
    refuses="integers", lowering="scatter", apart=True, placing=Placing(),
)  # fmt: skip


def _index_fill_rule(x: TensorType, dim: int, places: TensorType, value: TensorType | Number) -> TensorType:
    wrap_dim(dim, x.ndim)
    if isinstance(value, TensorType):
        check_filler("index_fill_", value)
    kind = value.dtype if isinstance(value, TensorType) else dtypes.scalar_dtype(value)
    if kind.is_complex and not x.dtype.is_complex:
        raise RuntimeError("index_fill_(): Converting complex Scalar to non-complex type is not supported")
    if not isinstance(value, TensorType):
        fits(value, x.dtype)
    if places.dtype is not dtypes.int64:
        raise IndexError("index_fill_(): Expected dtype int64 for index.")
    if places.ndim > 1:
        raise RuntimeError("Index has to be a vector/scalar")
    return x


def _index_fill(x: Array, dim: int, places: Array, value: Array | Number) -> Array:
    size = (x.shape or (1,))[dim]
    check_bounds(places, size, OUT_OF_BOUNDS, IndexError, -size, wrap_dim(dim, x.ndim))
    result = x.copy(order="C")
    if places.size:
        line = namespace(x).where(places < 0, places + size, places)
        number = int(value) if isinstance(value, float) and x.dtype.kind in "iu" else value
        result.reshape(-1)[_rows(x, dim, line).reshape(-1)] = cast_operand(number, x.dtype)[()]
    return result


index_fill: Op = index_family(
    "index_fill", _index_fill, _index_fill_rule, "input: Tensor, dim: Dim, index: Tensor, value: Operand",
    inplace=True,
    vjp=(
        lambda g, _out, _x, dim, places: index_fill(g, dim, places, 0), None,
        lambda g, _out, _x, dim, places: (
            ops.sum(select_where(ops.eq(index_fill(ops.zeros_like(g), dim, places, 1), 1), g, 0))
        ),
    ),
    batch=batch_rows,
    samples=lambda make: [Sample(make(3, 4), 0, np.array([2, 0]), 1.5),
        Sample(make(3, 4), -1, np.array([1, -1]), make()), Sample(make(), 0, np.asarray(0), make())],
    refuses="integers", lowering="scatter", placing=Placing(repeats=True, deprecated=("index_fill_",
    "tensor[mask] = scalar")),
    node_name=by_number(2, "IndexFillBackward0", "IndexFillBackward1"),
)  # fmt: skip


# -- index_put -----------------------------------------------------------------------------------------------
def _put_rule(
    x: TensorType, values: TensorType, indices: Sequence[TensorType], dims: tuple[int, ...], accumulate: bool
) -> TensorType:
    shape = indexed_shape(x.shape, [p.shape for p in indices], dims) if dims else x.shape
    lead = len(shape) - values.ndim
    if lead < 0 or any(n not in (1, shape[lead + i]) for i, n in enumerate(values.shape)):
        raise RuntimeError(
            f"shape mismatch: value tensor of shape {list(values.shape)} cannot be broadcast to indexing "
            "result of shape "
            f"{list(shape)}"
        )
    if values.dtype is not x.dtype:
        raise RuntimeError(
            f"Index put requires the source and destination dtypes match, got {x.dtype.scalar_name} for the "
            "destination and "
            f"{values.dtype.scalar_name} for the source."
        )
    return x


def _put(x: Array, values: Array, indices: Sequence[Array], dims: tuple[int, ...], accumulate: bool) -> Array:
    xp = namespace(x)
    if not dims:
        return xp.add(x, values) if accumulate else xp.broadcast_to(values, x.shape).copy()
    check_indices(x.shape, indices, dims)
    if not accumulate:
        result = x.copy(order="K")
        result[index_key(x.ndim, indices, dims)] = values
        return result
    places = places_of_index(x.shape, indices, dims)
    return reduce_at(xp.add, x, places, xp.broadcast_to(values, places.shape))


def _put_vjp_input(
    g: TensorLike, _out: object, _x: object, _values: object, indices: Sequence[TensorLike],
    dims: tuple[int, ...], accumulate: bool,
) -> Any:  # fmt: skip
    return g if accumulate else _index_put(g, ops.new_zeros(g, ()), indices, dims, False)


def _put_vjp_values(
    g: TensorLike, _out: object, _x: object, _values: TensorType, indices: Sequence[TensorLike],
    dims: tuple[int, ...],
) -> Any:  # fmt: skip
    return sum_to_size(index(g, indices, dims), _values.shape)


def _put_samples(make: Maker) -> Iterator[Sample]:
    yield Sample(make(3, 4), make(2, 4), [np.array([2, 0])], (0,), False)
    yield Sample(make(3, 4), make(2), [np.array([2, 0]), np.array([1, 1])], (0, 1), False)
    yield Sample(make(3, 4, 2), make(5, 1), [make.ints(5, high=3), make.ints(5, high=2)], (0, 2), True)
    yield Sample(make(3, 4), make(), [make.ints(5, high=4, low=-4)], (1,), True)


_index_put: Op = index_family(
    "_index_put", _put, _put_rule,
    "input: Tensor, values: Tensor, indices: Tensors, dims: Any, accumulate: bool = False",
    vjp=(_put_vjp_input, _put_vjp_values, None), method=False, function=False, inplace=True,
    node="IndexPutBackward0", samples=_put_samples, batch=batch_index_put,
    refuses="integers", lowering="scatter", apart=True, placing=Placing(repeats=True,
    deprecated=("index_put_", "tensor[indices] = tensor")),
)  # fmt: skip
index_embed: Op = index_family(
    "index_embed",
    lambda g, indices, dims, shape: _put(namespace(g).zeros(shape, g.dtype), g, indices, dims, True),
    lambda g, indices, dims, shape: like(g, shape), "input: Tensor, indices: Tensors, dims: Any, shape: Any",
    vjp=(lambda g, _out, _x, indices, dims: index(g, indices, dims), None), method=False, function=False,
    samples=lambda make: [Sample(make(5, 4), [make.ints(5, high=3)], (0,), (3, 4))],
    batch=batch_index_embed,
    refuses="integers", lowering="scatter",
    indexes=lambda _g, indices, dims, shape: indexes_of(shape, indices, dims),
)  # fmt: skip


def _index_put_samples(make: Maker) -> Iterator[Sample]:
    yield Sample(make(3, 4), (np.array([2, 0]),), make(2, 4))
    yield Sample(make(3, 4), (make.ints(5, high=3), make.ints(5, high=4)), make(5), accumulate=True)
    yield Sample(make(3, 4), (np.array([True, False, True]),), make(4))


@composite(
    "input: Tensor, indices: Any, values: Tensor, accumulate: bool = False",
    inplace=True,
    samples=_index_put_samples,
    placing=Placing(repeats=True),
    refuses="integers",
    draws=False,
)
def index_put(input: TensorLike, indices: Any, values: TensorLike, accumulate: bool) -> Any:
    """The tensor with values written (or added) where the index tensors point."""
    shape = type_of(input).shape
    if len(indices) > len(shape):
        raise IndexError(f"too many indices for tensor of dimension {len(shape)} (got {len(indices)})")
    found, dims = expand_masks(shape, indices)
    return _index_put(input, values, found, dims, accumulate)


# -- masked_scatter and take's transpose ---------------------------------------------------------------------
def _masked_scatter_rule(x: TensorType, mask: TensorType, source: TensorType) -> TensorType:
    if source.dtype is not x.dtype:
        raise RuntimeError(
            f"masked_scatter: expected self and source to have same dtypes but got{x.dtype.scalar_name} and "
            f"{source.dtype.scalar_name}"
        )
    shape = broadcast_shapes(mask.shape, x.shape)
    if mask.dtype is not dtypes.bool_:
        raise RuntimeError(
            f"masked_scatter_ only supports boolean masks, but got mask with dtype {mask.dtype.scalar_name}"
        )
    return like(x, shape)


def _masked_scatter(x: Array, mask: Array, source: Array) -> Array:
    xp = namespace(x)
    shape = broadcast_shapes(x.shape, mask.shape)
    result = xp.broadcast_to(x, shape).copy()
    chosen = xp.broadcast_to(mask, shape)
    count = int(xp.count_nonzero(chosen))
    if count > source.size:
        raise RuntimeError("Number of elements of source < number of ones in mask")
    if result.ndim:
        result[chosen] = source.reshape(-1)[:count]
    elif count:
        result[...] = source.reshape(-1)[0]
    return result


def _masked_scatter_source(
    g: TensorLike, _out: object, _x: object, mask: TensorLike, _source: TensorType
) -> Any:
    taken = masked_select(g, mask)
    missing = _source.numel() - type_of(taken).shape[0]
    whole = cat([taken, ops.new_zeros(g, (missing,))]) if missing else taken
    return reshape(whole, _source.shape)


masked_scatter: Op = index_family(
    "masked_scatter", _masked_scatter, _masked_scatter_rule, "input: Tensor, mask: Tensor, source: Tensor",
    inplace=True,
    vjp=(
        lambda g, _out, _x, mask: sum_to_size(masked_fill(g, mask, 0), _x.shape), None,
        _masked_scatter_source,
    ),
    samples=lambda make: [Sample(make(2, 3), make.bools(2, 3), make(2, 4)),
        Sample(make(2, 3), make.bools(3), make(6)), Sample(make(3), make.bools(2, 3), make(6)),
        Sample(make(), make.bools(), make(1))],
    refuses="integers", placing=Placing(),
)  # fmt: skip


def _take_back(g: Array, places: Array, shape: tuple[int, ...]) -> Array:
    size = prod(shape)
    line = namespace(g).where(places < 0, places + size, places)
    return reduce_at(namespace(g).add, namespace(g).zeros(shape, g.dtype), line, g)


_take_backward: Op = index_family(
    "_take_backward", _take_back, lambda g, places, shape: like(g, shape),
    "input: Tensor, index: Tensor, shape: Any",
    vjp=(lambda g, _out, _x, places: take(g, places), None), method=False, function=False,
    samples=lambda make: [Sample(make(5), make.ints(5, high=6, low=-6), (2, 3))],
    refuses="integers", lowering="scatter",
)  # fmt: skip


# -- writes into views ---------------------------------------------------------------------------------------
def check_source(wanted: tuple[int, ...], src: TensorType) -> None:
    """Refuses a source that has not the shape of what it replaces."""
    if tuple(src.shape) != wanted:
        raise RuntimeError(
            f"expected src to have a size equal to the slice of self. src size = {list(src.shape)}, slice "
            "size = "
            f"{list(wanted)}"
        )


def _replacing(
    view: Op, signature: str, samples: Samples, doc: str, out: Callable[..., None] | bool = False
) -> Op:
    """A copy in which what a view shows is replaced."""

    def body(input: TensorLike, src: TensorLike, *where: Any) -> Any:
        check_source(view(type_of(input), *where).shape, type_of(src))
        return view_scatter(input, src, ((view, where, None),))

    return composite(
        f"input: Tensor, src: Tensor, {signature}", f"{view.name}_scatter", samples=samples, out=out, doc=doc
    )(body)


_replacing(
    select,
    "dim: Dim, index: int",
    lambda make: [Sample(make(3, 4), make(4), 0, 1)],
    "A copy with one slice replaced.",
)
_replacing(
    slice_,
    "dim: Dim = 0, start: Any = None, end: Any = None, step: int = 1",
    lambda make: [Sample(make(3, 4), make(3, 2), 1, 0, 4, 2)],
    "A copy with a range of slices replaced.",
    exact_or_first,
)
_replacing(
    diagonal,
    "offset: int = 0, dim1: Dim = 0, dim2: Dim = 1",
    lambda make: [Sample(make(3, 4), make(3)), Sample(make(3, 4), make(2), -1)],
    "A copy with a diagonal replaced.",
)
