"""Sorting: order along a dimension, the largest or smallest k, distinct values.

Takes arrays, gives values with the indices they came from. One idea: an op without gradient finds the
indices, and one op takes the values there, so gradients go back to exactly those elements. Sorts are stable
always; NaN counts as larger than everything.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from weft.core import dtypes
from weft.core.arrays import Array, namespace
from weft.core.dims import wrap_dim
from weft.core.types import TensorType
from weft.ops.batching import DYNAMIC_SHAPE
from weft.ops.families import composite, index
from weft.ops.record import unsupported
from weft.ops.reduce import narrowed, only_place, values_op, wide
from weft.ops.return_types import result
from weft.ops.samples import Maker, Sample
from weft.ops.values import TensorLike

SORT = result("sort", "values", "indices")
TOPK = result("topk", "values", "indices")


# -- sort --------------------------------------------------------------------------------------------------
def _sort_rule(x: TensorType, dim: int, _descending: bool, _stable: bool) -> TensorType:
    wrap_dim(dim, x.ndim)
    if x.dtype.is_complex:
        raise RuntimeError(" Sort does not support complex dtypes on CPU")
    return TensorType(x.shape, dtypes.int64, x.device)


def order_of(x: Array, axis: int, descending: bool) -> Array:
    """The indices that sort along an axis, equal elements in their order."""
    xp = namespace(x)
    x = wide(x)
    if not descending:
        return x.argsort(axis=axis, kind="stable")
    turned = x[(*(slice(None),) * axis, slice(None, None, -1))]
    backwards = turned.argsort(axis=axis, kind="stable")
    return xp.subtract(x.shape[axis] - 1, xp.flip(backwards, axis))


def _argsort_kernel(x: Array, dim: int, descending: bool, _stable: bool) -> Array:
    axis = wrap_dim(dim, x.ndim)
    if not x.ndim:
        return only_place(x)
    return order_of(x, axis, descending).astype(dtypes.int64.numpy, copy=False)


def _sort_samples(make: Maker) -> Iterator[Sample]:
    yield Sample(make.distinct(5))
    yield Sample(make.distinct(2, 3), 0)
    yield Sample(make.distinct(2, 3), 1, True)
    yield Sample(make.distinct(4, 3).T, -1, stable=True)
    yield Sample(make.distinct())
    yield Sample(make(0, 3), 0)
    yield Sample(make(3, 0), 0, descending=True)


argsort = index(
    "argsort", _argsort_kernel, _sort_rule,
    "input: Tensor, dim: Dim = -1, descending: bool = False, *, stable: bool = False", samples=_sort_samples,
    out=True, trusted=True,
    refuses="nothing",
)  # fmt: skip

_sort_values = values_op("_sort_values", "SortBackward0")


@composite(
    "input: Tensor, dim: Dim = -1, descending: bool = False, *, stable: Any = False",
    returns=SORT, out="exact", samples=_sort_samples,
)  # fmt: skip
def sort(input: Any, dim: int, descending: bool, stable: Any) -> Any:
    """Sorted values along a dimension, and their indices. Stable, whatever `stable` says."""
    indices = argsort(input, dim, descending, stable=stable)
    return SORT(_sort_values(input, indices, dim, True), indices)


# -- topk --------------------------------------------------------------------------------------------------
def _topk_rule(x: TensorType, k: int, dim: int, _largest: bool) -> TensorType:
    axis = wrap_dim(dim, x.ndim)
    if isinstance(k, (bool, float)):
        raise TypeError(f"topk(): argument 'k' (position 2) must be int, not {type(k).__name__}")
    if not 0 <= k <= (x.shape[axis] if x.ndim else 1):
        raise RuntimeError("selected index k out of range")
    if x.dtype.is_complex:
        raise RuntimeError(" topk does not support complex dtypes on CPU")
    if x.dtype is dtypes.bool_:
        raise RuntimeError("topk does not support bool dtypes on CPU")
    shape = (*x.shape[:axis], k, *x.shape[axis + 1 :]) if x.ndim else ()
    return TensorType(shape, dtypes.int64, x.device)


def _topk_kernel(x: Array, k: int, dim: int, largest: bool) -> Array:
    xp = namespace(x)
    axis = wrap_dim(dim, x.ndim)
    if not x.ndim:
        if type(k) is not int or not 0 <= k <= 1:
            raise RuntimeError("selected index k out of range")
        return only_place(x)
    n = x.shape[axis]
    if type(k) is not int or not 0 <= k <= n:
        raise RuntimeError("selected index k out of range")
    first = (*(slice(None),) * axis, slice(0, k))
    if n <= 32 or 2 * k >= n or not k:
        return order_of(x, axis, largest)[first].astype(dtypes.int64.numpy)
    x = wide(x)
    kept = (*(slice(None),) * axis, slice(n - k, n)) if largest else first
    found = x.argpartition(n - k if largest else k - 1, axis=axis)[kept]
    found = xp.sort(found, axis=axis)  # equal elements in their order
    ranks = order_of(xp.take_along_axis(x, found, axis), axis, largest)
    return xp.take_along_axis(found, ranks, axis).astype(dtypes.int64.numpy, copy=False)


_topk_indices = index(
    "_topk_indices", _topk_kernel, _topk_rule, "input: Tensor, k: int, dim: Dim, largest: bool", method=False,
    function=False, trusted=True,
    refuses="nothing",
)  # fmt: skip
_topk_values = values_op("_topk_values", "TopkBackward0")


def _topk_samples(make: Maker) -> Iterator[Sample]:
    yield Sample(make.distinct(5), 2)
    yield Sample(make.distinct(4, 3), 2, 0)
    yield Sample(make.distinct(2, 3), 3, 1, False)
    yield Sample(make.distinct(2, 80), 3, 1, sorted=False)
    yield Sample(make.distinct(2, 80), 3, -1, False)
    yield Sample(make.distinct(), 1)
    yield Sample(make(0, 3), 1)
    yield Sample(make.distinct(4), 0)


@composite(
    "input: Tensor, k: int, dim: Dim = -1, largest: bool = True, sorted: bool = True",
    returns=TOPK, out="exact", samples=_topk_samples,
)  # fmt: skip
def topk(input: Any, k: int, dim: int, largest: bool, sorted: bool) -> Any:
    """The k largest (or smallest) along a dimension, best first, and their indices."""
    indices = _topk_indices(input, k, dim, largest)
    return TOPK(_topk_values(input, indices, dim, True), indices)


# -- distinct values ---------------------------------------------------------------------------------------
def _unique_rule(x: TensorType, dim: int | None) -> None:
    if x.dtype.is_complex:
        raise unsupported("unique", x.dtype)
    if dim is not None:
        if not x.ndim:
            raise IndexError(f"Dimension specified as {dim} but tensor has no dimensions")
        axis = wrap_dim(dim, x.ndim)
        if not x.numel() and (x.shape[axis] or sum(not n for n in x.shape) > 1):
            raise RuntimeError(
                "There are 0 sized dimensions, and they aren't selected, so unique cannot be applied"
            )
    if x.device.type == "meta":
        raise NotImplementedError("unique: the result's shape depends on values, and a meta tensor has none")


def _unique_kernel(x: Array, dim: int | None) -> tuple[Array, Array, Array]:
    """Distinct values (slices, with dim), which of them each element (slice) is, and how many of each."""
    xp = namespace(x)
    kind = x.dtype
    values = wide(x)
    if dim is None:
        rows = values.reshape(-1, 1)
        order = xp.argsort(rows[:, 0], kind="stable")
    else:
        rows = xp.moveaxis(values, wrap_dim(dim, x.ndim), 0)
        rows = rows.reshape(rows.shape[0], -1) if rows.size else xp.zeros((rows.shape[0], 1), values.dtype)
        order = xp.lexsort(rows.T[::-1])
    ranked = rows[order]
    starts = xp.ones(len(order), bool)
    starts[1:] = (ranked[1:] != ranked[:-1]).any(axis=1)
    firsts = xp.flatnonzero(starts)
    inverse = xp.empty(len(order), dtypes.int64.numpy)
    inverse[order] = xp.cumsum(starts) - 1
    counts = xp.diff(firsts, append=len(order)).astype(dtypes.int64.numpy)
    if dim is None:
        return narrowed(ranked[firsts, 0], kind), inverse.reshape(x.shape), counts
    return xp.take(x, order[firsts], axis=dim), inverse, counts


_unique = index(
    "_unique", _unique_kernel, _unique_rule, "input: Tensor, dim: Any", method=False, function=False,
    node="Unique2Backward0",
    refuses="nothing",
    unbatchable=DYNAMIC_SHAPE,
)  # fmt: skip


def _unique_samples(make: Maker) -> Iterator[Sample]:
    for shape in ((6,), (2, 3), (), (0,)):
        x = np.asarray(make(*shape, low=-2, high=3).round())
        yield Sample(x, grad=False)
        yield Sample(x, True, True, True, grad=False)
    yield Sample(make(3, 2, low=0, high=1).round(), return_inverse=True, dim=0, grad=False)
    yield Sample(make(2, 4, low=0, high=1).round(), return_counts=True, dim=-1, grad=False)


@composite(
    "input: Tensor, sorted: bool = True, return_inverse: bool = False, return_counts: bool = False, "
    "dim: MaybeDim = None", samples=_unique_samples,
    refuses="nothing", draws=False,
    unbatchable=DYNAMIC_SHAPE,
)  # fmt: skip
def unique(
    input: TensorLike, sorted: bool, return_inverse: bool, return_counts: bool, dim: int | None
) -> Any:
    """Distinct values in order (whatever `sorted` says); with dim, distinct slices."""
    values, inverse, counts = _unique(input, dim)
    extras = ((inverse,) if return_inverse else ()) + ((counts,) if return_counts else ())
    return (values, *extras) if extras else values


def _consecutive_kernel(x: Array, dim: int | None) -> tuple[Array, Array, Array]:
    """The first of each run of equal neighbours, the run each element (slice) is in, and runs' lengths."""
    xp = namespace(x)
    if dim is None:
        rows = x.reshape(-1, 1)
    else:
        rows = xp.moveaxis(x, wrap_dim(dim, x.ndim), 0)
        rows = rows.reshape(rows.shape[0], -1)
    starts = xp.ones(len(rows), bool)
    starts[1:] = (rows[1:] != rows[:-1]).any(axis=1)
    firsts = xp.flatnonzero(starts)
    inverse = (xp.cumsum(starts) - 1).astype(dtypes.int64.numpy, copy=False)
    counts = xp.diff(firsts, append=len(rows)).astype(dtypes.int64.numpy, copy=False)
    if dim is None:
        return rows[firsts, 0], inverse.reshape(x.shape), counts
    return xp.take(x, firsts, axis=dim), inverse, counts


_unique_consecutive = index(
    "_unique_consecutive", _consecutive_kernel, _unique_rule, "input: Tensor, dim: Any", method=False,
    function=False, node="UniqueConsecutiveBackward0",
    refuses="nothing",
)  # fmt: skip


def _consecutive_samples(make: Maker) -> Iterator[Sample]:
    for shape in ((6,), (2, 3), (0,)):
        x = make(*shape, low=-2, high=3).round()
        yield Sample(x, grad=False)
        yield Sample(x, True, True, grad=False)
    yield Sample(make(3, 2, low=0, high=1).round(), return_inverse=True, dim=0, grad=False)


@composite(
    "input: Tensor, return_inverse: bool = False, return_counts: bool = False, dim: MaybeDim = None",
    samples=_consecutive_samples,
    refuses="nothing", draws=False,
    unbatchable=DYNAMIC_SHAPE,
)  # fmt: skip
def unique_consecutive(input: TensorLike, return_inverse: bool, return_counts: bool, dim: int | None) -> Any:
    """One of each run of equal neighbours; with dim, of equal neighbouring slices."""
    values, inverse, counts = _unique_consecutive(input, dim)
    extras = ((inverse,) if return_inverse else ()) + ((counts,) if return_counts else ())
    return (values, *extras) if extras else values
