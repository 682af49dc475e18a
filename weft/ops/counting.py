"""Counting and looking up: histograms, places in sorted sequences, membership.

Takes arrays of values; gives counts, places or truth. One idea: nothing here has a gradient; a place in a
sorted sequence is found by halving, for all values and all rows at once.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from weft.core import dtypes
from weft.core.arrays import Array, ArrayModule, namespace
from weft.core.types import TensorType
from weft.ops.batching import DYNAMIC_SHAPE, spread_to, to_front, unchanged
from weft.ops.families import composite, index
from weft.ops.record import Op, ops, type_of, unsupported
from weft.ops.reduce import wide
from weft.ops.return_types import result
from weft.ops.samples import Maker, Sample
from weft.ops.values import MaybeTensor, Number, TensorLike


def _value_dependent(name: str, x: TensorType) -> None:
    if x.device.type == "meta":
        raise NotImplementedError(f"{name}: the result's shape depends on values, and a meta tensor has none")


# -- counts --------------------------------------------------------------------------------------------------
def _bincount_rule(x: TensorType, weights: TensorType | None, minlength: int) -> None:
    if x.dtype.category != dtypes.INTEGER:
        raise unsupported("bincount_cpu", x.dtype)
    if minlength < 0:
        raise RuntimeError("minlength should be >= 0")
    if x.ndim != 1:
        raise RuntimeError("bincount only supports 1-d non-negative integral inputs.")
    if weights is not None and weights.shape != x.shape:
        raise RuntimeError("weights should be 1-d and have the same length as input")
    _value_dependent("bincount", x)


def _bincount_kernel(x: Array, weights: Array | None, minlength: int) -> Array:
    xp = namespace(x)
    if x.size and int(x.min()) < 0:
        raise RuntimeError("bincount only supports 1-d non-negative integral inputs.")
    if weights is None:
        return xp.bincount(x, minlength=minlength).astype(xp.int64, copy=False)
    if not x.size:
        return xp.zeros(minlength, xp.int64)
    out = xp.bincount(x, weights.astype(xp.float64, copy=False), minlength)
    return out.astype(weights.dtype if weights.dtype == xp.float32 else xp.float64, copy=False)


def _bincount_samples(make: Maker) -> Iterator[Sample]:
    yield Sample(make.ints(6, high=4))
    yield Sample(make.ints(6, high=4), make(6), 7, grad=False)
    yield Sample(make.ints(0, high=4), minlength=3)


bincount = index(
    "bincount", _bincount_kernel, _bincount_rule,
    "input: Tensor, weights: MaybeTensor = None, minlength: int = 0", samples=_bincount_samples,
    batch=lambda op, size, args, dims: NotImplemented,
    refuses="integers",
    unbatchable=DYNAMIC_SHAPE,
)  # fmt: skip


def _limits(x: Array, low: float, high: float, name: str) -> tuple[Any, Any]:
    """The least and greatest edge: given, or the data's own."""
    if low == high and x.size:
        values = wide(x)
        low, high = float(values.min()), float(values.max())
    if not (math.isfinite(low) and math.isfinite(high)):
        raise RuntimeError(f"torch.{name}: range of [{low:g}, {high:g}] is not finite")
    if low == high:
        low, high = low - 1, high + 1
    if low > high:
        raise RuntimeError(f"torch.{name}: max must be larger than min")
    return x.dtype.type(low), x.dtype.type(high)


def _histc_rule(x: TensorType, bins: int, low: float, high: float) -> TensorType:
    if bins <= 0:
        raise RuntimeError(f"torch.histogram(): bins must be > 0, but got {bins} for dimension 0")
    if low > high:
        raise RuntimeError("torch.histc: max must be larger than min")
    if x.dtype not in (dtypes.float32, dtypes.float64, *dtypes.HALVES):
        raise unsupported("histogram_cpu", x.dtype)
    return TensorType((bins,), x.dtype, x.device)


def _histc_kernel(x: Array, bins: int, low: float, high: float) -> Array:
    xp, kind = namespace(x), x.dtype
    x = wide(x).reshape(-1)
    least, most = _limits(x, float(low), float(high), "histc")
    inside = x[(x >= least) & (x <= most)]
    places = ((inside - least) * bins / (most - least)).astype(xp.int64)
    return xp.bincount(xp.minimum(places, bins - 1), minlength=bins).astype(kind)


histc = index(
    "histc", _histc_kernel, _histc_rule,
    "input: Tensor, bins: int = 100, min: Number = 0, max: Number = 0", out=True,
    batch=lambda op, size, args, dims: NotImplemented,
    samples=lambda make: [Sample(make(10), 4, grad=False), Sample(make(2, 5), 3, -1, 1, grad=False),
        Sample(make(0), 3, grad=False)],
)  # fmt: skip
HISTOGRAM = result("histogram", "hist", "bin_edges")


def _edges_kernel(x: Array, bins: int, limits: Sequence[float] | None) -> Array:
    xp = namespace(x)
    low, high = (0.0, 0.0) if limits is None else limits
    if limits is None and not x.size:
        low, high = 0.0, 1.0
    elif (given := limits is not None) and low == high or not given and (x == x.flat[0]).all():
        low = low if given else float(x.flat[0])
        low, high = low - 0.5, low + 0.5
    least, most = _limits(x.reshape(-1), float(low), float(high), "histogram")
    return xp.linspace(least, most, bins + 1, dtype=x.dtype)


def _edges_rule(x: TensorType, bins: int, limits: Sequence[float] | None) -> TensorType:
    if bins <= 0:
        raise RuntimeError(f"torch.histogram(): bins must be > 0, but got {bins} for dimension 0")
    return TensorType((bins + 1,), x.dtype, x.device)


_edges = index(
    "_histogram_edges", _edges_kernel, _edges_rule, "input: Tensor, bins: int, limits: Any", method=False,
    function=False, batch=lambda op, size, args, dims: NotImplemented,
)  # fmt: skip


def _filled_kernel(x: Array, edges: Array, weight: Array | None, density: bool) -> Array:
    xp = namespace(x)
    flat = x.reshape(-1)
    inside = (flat >= edges[0]) & (flat <= edges[-1])
    places = xp.minimum(xp.searchsorted(edges, flat[inside], side="right") - 1, edges.size - 2)
    shares = None if weight is None else weight.reshape(-1)[inside].astype(xp.float64)
    out = xp.bincount(places, shares, minlength=edges.size - 1).astype(x.dtype)
    return (out / (xp.diff(edges) * out.sum())).astype(x.dtype) if density else out


def _filled_rule(x: TensorType, edges: TensorType, weight: TensorType | None, density: bool) -> TensorType:
    if edges.dtype is not x.dtype:
        raise RuntimeError(
            "torch.histogramdd(): input tensor and bins tensors should have the same dtype, but got input "
            f"with dtype {x.dtype.name} and bins for dimension 0 with dtype {edges.dtype.name}"
        )
    if x.dtype not in (dtypes.float32, dtypes.float64):
        raise unsupported("histogram_cpu", x.dtype)
    return TensorType((edges.shape[0] - 1,), x.dtype, x.device)


_filled = index(
    "_histogram_counts", _filled_kernel, _filled_rule,
    "input: Tensor, edges: Tensor, weight: MaybeTensor, density: bool", method=False, function=False,
    batch=lambda op, size, args, dims: NotImplemented,
)  # fmt: skip


def _histogram_samples(make: Maker) -> Iterator[Sample]:
    yield Sample(make(10), 4, grad=False)
    yield Sample(make(10), 3, range=(-1.0, 1.0), weight=make(10, low=0.1), density=True, grad=False)
    yield Sample(make(10), np.asarray([-1.0, 0.0, 2.0]).astype(make.kind.numpy), grad=False)


@composite(
    "input: Tensor, bins: Any, *, range: Any = None, weight: MaybeTensor = None, density: bool = False",
    returns=HISTOGRAM, samples=_histogram_samples,
)  # fmt: skip
def histogram(input: TensorLike, bins: Any, range: Any, weight: MaybeTensor, density: bool) -> Any:
    """Counts (or weights, or densities) of elements in bins, and the bins' edges."""
    edges = bins if hasattr(bins, "shape") else _edges(input, bins, range)
    return HISTOGRAM(_filled(input, edges, weight, density), edges)


# -- places in sorted sequences ------------------------------------------------------------------------------
def _halving(xp: ArrayModule, rows: Array, values: Array, right: bool) -> Array:
    """Between which neighbours of its row each value belongs; NaN belongs last."""
    low = xp.zeros(values.shape, xp.int64)
    high = xp.full(values.shape, rows.shape[-1], xp.int64)
    for _ in range(max(rows.shape[-1], 0).bit_length()):
        middle = (low + high) // 2
        there = xp.take_along_axis(rows, xp.minimum(middle, rows.shape[-1] - 1), -1)
        after = ~(there > values) if right else ~(there >= values)
        active = low < high
        low = xp.where(active & after, middle + 1, low)
        high = xp.where(active & ~after, middle, high)
    return low


def _search_kernel(
    rows: Array, values: Array | Number, out_int32: bool, right: bool, side: str | None, sorter: Array | None
) -> Array:
    xp = namespace(rows)
    right = right or side == "right"
    if sorter is not None:
        if sorter.size and (int(sorter.min()) < 0 or int(sorter.max()) >= rows.shape[-1]):
            raise RuntimeError("torch.searchsorted(): sorter index out of range")
        rows = xp.take_along_axis(rows, sorter, -1)
    values = wide(xp.asarray(values))
    rows = wide(rows)
    kind = xp.int32 if out_int32 else xp.int64
    if rows.ndim == 1:
        flat = values.reshape(-1)
        found = _halving(xp, rows, flat, right) if rows.size else xp.zeros(flat.shape, xp.int64)
        return found.reshape(values.shape).astype(kind)
    return (_halving(xp, rows, values, right) if rows.size else xp.zeros(values.shape, xp.int64)).astype(kind)


def _search_rule(
    rows: TensorType,
    values: TensorType | Number,
    out_int32: bool,
    right: bool,
    side: str | None,
    sorter: TensorType | None,
) -> TensorType:
    word = "torch.searchsorted()"
    if side is not None:
        if side not in ("left", "right"):
            raise RuntimeError(f"{word}: side can only be 'left' or 'right' but got {side}")
        if right and side == "left":
            raise RuntimeError(
                f"{word}: side and right can't be set to opposites, got side of left while right was True"
            )
    if not rows.ndim:
        raise RuntimeError(f"{word}: boundaries tensor should have positive dimension, but got 0 dimension")
    shape = tuple(values.shape) if hasattr(values, "shape") else ()
    if rows.ndim > 1 and (len(shape) != rows.ndim or shape[:-1] != tuple(rows.shape[:-1])):
        raise RuntimeError(
            f"{word}: boundaries tensor should be 1 dimension or the first N-1 dimensions of boundaries "
            f"tensor and input value tensor must match, but we got boundaries tensor {list(rows.shape)} and "
            f"input value tensor {list(shape)}"
        )
    if sorter is not None:
        if sorter.shape != rows.shape:
            raise RuntimeError(
                f"{word}: boundary and sorter must have the same size, but got boundary tensor "
                f"{list(rows.shape)}and got sorter tensor {list(sorter.shape)}"
            )
        if sorter.dtype is not dtypes.int64:
            raise RuntimeError(
                f"{word}: sorter must be a tensor of long dtype but got dtype {sorter.dtype.scalar_name}"
            )
    if rows.dtype.is_complex or rows.dtype is dtypes.bool_:
        raise unsupported("searchsorted_out_cpu", rows.dtype)
    return TensorType(shape, dtypes.int32 if out_int32 else dtypes.int64, rows.device)


def _search_batch(op: Op, size: int, args: tuple[Any, ...], dims: tuple[Any, ...]) -> Any:
    rows, values, small, right, side, sorter = args
    if dims[0] is None and dims[5] is None and len(rows.shape) == 1:
        return op(rows, to_front(values, dims[1]), *args[2:]), 0
    rows = spread_to(rows, dims[0], size)
    sorter = None if sorter is None else spread_to(sorter, dims[5], size)
    if not hasattr(values, "shape"):
        values = ops._to_copy(ops.new_full(rows, (size, 1), values), type_of(rows).dtype)
        return ops.squeeze(op(rows, values, small, right, side, sorter), -1), 0
    values = spread_to(values, dims[1], size)
    if len(rows.shape) > 2:
        return op(rows, values, small, right, side, sorter), 0
    shape = tuple(values.shape)
    flat = ops.reshape(values, (size, -1))
    return ops.reshape(op(rows, flat, small, right, side, sorter), shape), 0


def _search_samples(make: Maker) -> Iterator[Sample]:
    line = np.sort(make.distinct(5))
    yield Sample(line, make(2, 3), grad=False)
    yield Sample(line, make(3), right=True, out_int32=True, grad=False)
    yield Sample(np.sort(make.distinct(2, 5), -1), make(2, 3), side="right", grad=False)
    mixed = make.distinct(2, 4)
    yield Sample(mixed, make(2, 3), sorter=np.argsort(mixed, -1), grad=False)
    yield Sample(line, 0.3, grad=False)


SEARCH = "out_int32: bool = False, right: bool = False"
searchsorted: Op = index(
    "searchsorted", _search_kernel, _search_rule,
    f"sorted_sequence: Tensor, input: Operand, *, {SEARCH}, side: Any = None, sorter: MaybeTensor = None",
    method=False, out=True, batch=_search_batch, samples=_search_samples,
    refuses="integers",
)  # fmt: skip


def _bucket_samples(make: Maker) -> Iterator[Sample]:
    line = np.sort(make.distinct(5))
    yield Sample(make(2, 3), line, grad=False)
    yield Sample(make(3), line, right=True, out_int32=True, grad=False)
    yield Sample(0.3, line, grad=False)


@composite(
    f"input: Operand, boundaries: Tensor, *, {SEARCH}", method=False, out=True, samples=_bucket_samples
)
def bucketize(input: Any, boundaries: Any, out_int32: bool, right: bool) -> Any:
    """The index of the bucket, between sorted boundaries, of each element."""
    rank = type_of(boundaries).ndim
    if rank != 1:
        raise RuntimeError(f"boundaries tensor must be 1 dimension, but got dim({rank})")
    return searchsorted(boundaries, input, out_int32=out_int32, right=right)


# -- membership ----------------------------------------------------------------------------------------------
def _isin_rule(
    elements: TensorType | Number, tested: TensorType | Number, _unique: bool, _invert: bool
) -> TensorType:
    types = [v for v in (elements, tested) if isinstance(v, TensorType)]
    if not types:
        raise TypeError("isin() received an invalid combination of arguments - got (float, float)")
    for kind in types:
        if kind.dtype.is_complex or kind.dtype is dtypes.bool_:
            raise RuntimeError(f"Unsupported input type encountered for isin(): {kind.dtype.scalar_name}")
    shape = elements.shape if isinstance(elements, TensorType) else ()
    return TensorType(shape, dtypes.bool_, types[0].device)


def _isin_kernel(elements: Array | Number, tested: Array | Number, unique: bool, invert: bool) -> Array:
    xp = namespace(elements if hasattr(elements, "shape") else tested)
    left, right = (wide(xp.asarray(v)) for v in (elements, tested))
    return xp.asarray(xp.isin(left, right, assume_unique=unique, invert=invert))


def _isin_batch(op: Op, size: int, args: tuple[Any, ...], dims: tuple[Any, ...]) -> Any:
    return NotImplemented if dims[1] is not None else unchanged(op, size, args, dims)


isin = index(
    "isin", _isin_kernel, _isin_rule,
    "elements: Operand, test_elements: Operand, *, assume_unique: bool = False, invert: bool = False",
    method=False, out=True, batch=_isin_batch,
    samples=lambda make: [Sample(make.ints(2, 3, high=4), make.ints(3, high=4)),
        Sample(make.ints(2, 3, high=4), 2, invert=True), Sample(1, make.ints(3, high=4))],
    refuses="nothing",
)  # fmt: skip


@composite(
    "indices: Tensor, shape: Any", method=False,
    samples=lambda make: [Sample(make.ints(4, high=6), (2, 3)), Sample(make.ints(high=6), 6)],
)  # fmt: skip
def unravel_index(indices: Any, shape: Any) -> Any:
    """Flat indices into a tensor of this shape, as one index per dimension."""
    kind = type_of(indices).dtype
    if kind.category != dtypes.INTEGER:
        raise TypeError(f"expected 'indices' to be integer dtype, but got {kind!r}")
    if hasattr(shape, "tolist"):
        shape = shape.tolist()
    sizes = (shape,) if isinstance(shape, int) else tuple(shape)
    if any(n < 0 for n in sizes):
        raise ValueError(f"'shape' cannot have negative values, but got {tuple(sizes)}")
    found = []
    for position, size in enumerate(sizes):
        step = math.prod(sizes[position + 1 :])
        found.append(ops.remainder(ops.floor_divide(indices, step), size))
    return tuple(found)
