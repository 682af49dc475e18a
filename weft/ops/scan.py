"""Scans: running sums and products along a dimension, and differences, which undo running sums.

Takes an array and a dimension, gives an array of the same shape. One idea: the gradient of a running product
is a linear recurrence (`_linear_scan`), which needs no division, so zeros are right at every order. What is
carried along is wider than the elements, as in PyTorch: a running sum of ones in float32 would end at 2**24.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from weft.core import dtypes
from weft.core.arrays import Array, ArrayModule, namespace, row_major
from weft.core.dims import wrap_dim
from weft.core.dtypes import HALVES, dtype_of, float32
from weft.core.types import TensorType
from weft.ops.batching import logical_type, spread_to
from weft.ops.families import composite, index
from weft.ops.record import Op, ops, type_of
from weft.ops.reduce import narrowed, summed_dtype
from weft.ops.samples import Maker, Sample
from weft.ops.values import DType, MaybeTensor, TensorLike

CARRIERS = {dtypes.float32: dtypes.float64, dtypes.complex64: dtypes.complex128} | dict.fromkeys(
    HALVES, float32
)


def carrier_of(kind: dtypes.dtype) -> Any:
    """NumPy's dtype of what is carried along in running folds of elements of this dtype."""
    return CARRIERS.get(kind, kind).numpy


def widest(x: Array) -> Array:
    """The array in the type that running folds of it are carried along in."""
    return x.astype(carrier_of(dtype_of(x)), copy=False)


def _scan_rule(name: str) -> Any:
    def rule(x: TensorType, dim: int, kind: DType) -> TensorType:
        given = summed_dtype(x, kind)
        wrap_dim(dim, x.ndim)
        if given is dtypes.bool_:
            raise NotImplementedError(f"\"{name}_out_cpu\" not implemented for 'Bool'")
        return TensorType(x.shape, given, x.device)

    return rule


def _scan_kernel(ufunc: str) -> Any:
    def kernel(x: Array, dim: int, kind: DType) -> Array:
        given = summed_dtype(x, kind)
        if given is dtypes.bool_:
            raise NotImplementedError("a running fold of bools")  # the type rule says it in full
        axis = wrap_dim(dim, x.ndim)
        if x.dtype.kind == "c" and given.category < dtypes.COMPLEX:
            x = x.real
        if not x.ndim:
            return x.astype(given.numpy)
        x = row_major(x)
        out = getattr(namespace(x), ufunc).accumulate(x, axis, dtype=carrier_of(given))
        if ufunc == "add" and given.category >= dtypes.FLOAT:
            out += 0  # sums begin with 0: -0.0 is none
        return narrowed(out, given.numpy)

    return kernel


def _scan_samples(make: Maker) -> Iterator[Sample]:
    yield Sample(make(2, 3), 0)
    yield Sample(make(2, 3), -1)
    yield Sample(make(4, 3).T, 1)
    yield Sample(make(2, 3), 1, dtype=dtypes.float64)
    yield Sample(make(), 0)
    yield Sample(make(0, 3), 0)
    yield Sample(make(3, 0), 0)


def _zeros_samples(make: Maker) -> Iterator[Sample]:
    yield from _scan_samples(make)
    for zeros in (1, 2, 3):
        x = make(4, 3)
        x.flat[: 3 * zeros : 3] = 0
        yield Sample(x, 0)
        yield Sample(x, 1)


SCAN = "input: Tensor, dim: Dim, *, dtype: DType = None"


def _cumsum_gradient(g: TensorLike, _out: object, _x: TensorType, dim: int) -> Any:
    if not _x.ndim:
        return g
    return ops.flip(cumsum(ops.flip(g, (dim,)), dim), (dim,))


cumsum = index(
    "cumsum", _scan_kernel("add"), _scan_rule("cumsum"), SCAN, vjp=_cumsum_gradient, samples=_scan_samples,
    inplace=True, out=True, trusted=True,
    refuses="nothing", lowering="scatter",
)  # fmt: skip


def _cumprod_gradient(g: TensorLike, out: TensorLike, x: TensorLike, dim: int) -> Any:
    """The gradient of x[i] is (x[0] … x[i-1]) times r[i], where r[i] = g[i] + x[i+1] r[i+1]."""
    own = type_of(x)
    if not own.ndim:
        return g
    if type_of(out).dtype is not own.dtype:
        x = ops._to_copy(x, type_of(out).dtype)
    before = _shift(out, dim, 1, 1)
    return ops.mul(before, _linear_scan(g, _shift(x, dim, -1, 0), dim, True))


cumprod = index(
    "cumprod", _scan_kernel("multiply"), _scan_rule("cumprod"), SCAN, vjp=_cumprod_gradient,
    samples=_zeros_samples, inplace=True, out=True, trusted=True,
    refuses="nothing", lowering="scatter",
)  # fmt: skip


# -- helpers of the gradients ------------------------------------------------------------------------------
def _along(x: Array, axis: int, start: int | None, stop: int | None) -> tuple[slice, ...]:
    return (*(slice(None),) * (axis % x.ndim), slice(start, stop))


def _shift_kernel(x: Array, dim: int, by: int, fill: float) -> Array:
    out = namespace(x).full(x.shape, fill, x.dtype)
    if by > 0:
        out[_along(x, dim, by, None)] = x[_along(x, dim, None, -by)]
    else:
        out[_along(x, dim, None, by)] = x[_along(x, dim, -by, None)]
    return out


_shift: Op = index(
    "_shift", _shift_kernel, lambda x, dim, by, fill: x, "input: Tensor, dim: Dim, by: int, fill: float",
    vjp=lambda g, _out, _x, dim, by: _shift(g, dim, -by, 0), method=False, function=False,
    samples=lambda make: [Sample(make(2, 3), 1, 1, 0), Sample(make(2, 3), 0, -1, 1),
        Sample(make(2, 0), 1, 1, 0)],
    refuses="nothing", lowering="indexing",
)  # fmt: skip
"""The elements moved along a dimension by `by` places; what is vacated holds `fill`."""


def _linear_scan_kernel(x: Array, factors: Array, dim: int, reverse: bool) -> Array:
    """By doubling: after each round an element has taken in twice as many of its predecessors.

    Products of factors may overflow where none of the sums does, and infinite ones meet zeros that they do
    not meet one by one: where something is not finite, it is done again, one by one.
    """
    xp = namespace(x)
    if not x.ndim or not x.size:
        return x.copy()
    axis = dim % x.ndim
    total = _doubled(xp, widest(x), widest(factors), axis, reverse)
    if not xp.isfinite(total).all():
        total = _one_by_one(xp, widest(x), widest(factors), axis, reverse)
    return narrowed(total, x.dtype)


def _one_by_one(xp: ArrayModule, x: Array, factors: Array, axis: int, reverse: bool) -> Array:
    total = xp.array(x, copy=True)
    along, scale = xp.moveaxis(total, axis, 0), xp.moveaxis(xp.broadcast_to(factors, x.shape), axis, 0)
    if reverse:
        along, scale = along[::-1], scale[::-1]
    for i in range(1, len(along)):
        along[i] += scale[i] * along[i - 1]
    return total


def _doubled(xp: ArrayModule, x: Array, factors: Array, axis: int, reverse: bool) -> Array:
    total, factors = xp.array(x, copy=True), xp.array(factors, copy=True)
    step = 1
    while step < x.shape[axis]:
        late, early = _along(x, axis, step, None), _along(x, axis, None, -step)
        if reverse:
            late, early = early, late
        total[late] += factors[late] * total[early].copy()
        factors[late] *= factors[early].copy()
        step *= 2
    return total


def _adjoint_scan(g: TensorLike, factors: TensorLike, dim: int, reverse: bool) -> Any:
    """The gradient of the terms: the same recurrence, run the other way."""
    return _linear_scan(g, _shift(factors, dim, 1 if reverse else -1, 0), dim, not reverse)


def _factors_gradient(
    g: TensorLike, out: TensorLike, _x: object, factors: TensorLike, dim: int, reverse: bool
) -> Any:
    previous = _shift(out, dim, -1 if reverse else 1, 0)
    return ops.mul(_adjoint_scan(g, factors, dim, reverse), previous)


def _batch_linear_scan(op: Op, size: int, args: tuple[Any, ...], places: tuple[Any, ...]) -> Any:
    rank = logical_type(args[0], places[0]).ndim
    x, factors = (spread_to(args[i], places[i], size) for i in (0, 1))
    return op(x, factors, wrap_dim(args[2], rank) + 1, args[3]), 0


_linear_scan: Op = index(
    "_linear_scan", _linear_scan_kernel, lambda x, factors, dim, reverse: x,
    "input: Tensor, factors: Tensor, dim: Dim, reverse: bool", vjp=(
        lambda g, _out, _x, factors, dim, reverse: _adjoint_scan(g, factors, dim, reverse), _factors_gradient,
    ), method=False, function=False, batch=_batch_linear_scan,
    samples=lambda make: [Sample(make(3, 4), make(3, 4), 1, False), Sample(make(5, 2), make(5, 2), 0, True)],
    refuses="nothing", lowering="scatter",
)  # fmt: skip
"""y[i] = x[i] + factors[i] y[i-1] along a dimension (y[i+1] if reverse)."""


# -- differences -------------------------------------------------------------------------------------------
def _check_edge(edge: Any, x: TensorType, dim: int) -> None:
    kind = type_of(edge)
    if kind.ndim != x.ndim:
        raise RuntimeError("diff expects prepend or append to be the same dimension as input")
    for i, (mine, theirs) in enumerate(zip(x.shape, kind.shape, strict=True)):
        if mine != theirs and i != dim:
            raise RuntimeError(
                "diff expects the shape of tensor to prepend or append to match that of input except along "
                f"the differencing dimension; input.size({i}) = {mine}, but got tensor.size({i}) = {theirs}"
            )


def _diff_samples(make: Maker) -> Iterator[Sample]:
    yield Sample(make(5))
    yield Sample(make(2, 4), 2)
    yield Sample(make(3, 4), 1, 0)
    yield Sample(make(3, 4), 1, 0, make(2, 4), make(1, 4))
    yield Sample(make(3, 4), 2, -1, append=make(3, 2))
    yield Sample(make(3), 0)
    yield Sample(make(3), 7)


@composite(
    "input: Tensor, n: int = 1, dim: Dim = -1, prepend: MaybeTensor = None, append: MaybeTensor = None",
    samples=_diff_samples, out=True,
)  # fmt: skip
def diff(input: TensorLike, n: int, dim: int, prepend: MaybeTensor, append: MaybeTensor) -> Any:
    """Differences of neighbours along a dimension, n times over."""
    kind = type_of(input)
    if not kind.ndim:
        raise RuntimeError("diff expects input to be at least one-dimensional")
    if n < 0:
        raise RuntimeError(f"order must be non-negative but got {n}")
    dim = wrap_dim(dim, kind.ndim)
    for edge in (prepend, append):
        if edge is not None:
            _check_edge(edge, kind, dim)
    if n == 0:
        return ops.clone(input)
    parts = [part for part in (prepend, input, append) if part is not None]
    value = ops.cat(parts, dim) if len(parts) > 1 else input
    subtract = ops.logical_xor if type_of(value).dtype is dtypes.bool_ else ops.sub
    length = type_of(value).shape[dim]
    if not length:
        return ops.clone(value)
    for _ in range(min(n, length)):
        length -= 1
        value = subtract(ops.narrow(value, dim, 1, length), ops.narrow(value, dim, 0, length))
    return value
