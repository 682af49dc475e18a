"""Integrals and derivatives of sampled functions, covariances, running log-sum-exp.

Takes samples along a dimension; gives estimates. One idea: trapezoids, differences and covariances are sums
and products of slices; the running log-sum-exp alone needs care, and its gradient is a recurrence whose
factors never exceed one.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from weft.core import dtypes
from weft.core.arrays import Array, ArrayModule, namespace, row_major
from weft.core.dims import wrap_dim, wrap_dims
from weft.core.types import TensorType
from weft.core.warn import warn
from weft.ops.batching import unchanged
from weft.ops.families import composite, index
from weft.ops.record import Op, ops, type_of, unsupported
from weft.ops.reduce import narrowed
from weft.ops.samples import Maker, Sample
from weft.ops.scan import CARRIERS, widest
from weft.ops.values import MaybeOperand, MaybeTensor, TensorLike


# -- trapezoids ----------------------------------------------------------------------------------------------
def _trapezoids(name: str, y: TensorLike, x: MaybeTensor, dx: MaybeOperand, dim: int) -> tuple[Any, int]:
    """Twice the area of each trapezoid (by dx, or not yet multiplied by it)."""
    kind = type_of(y)
    if kind.dtype is dtypes.bool_:
        what = "`y`" if x is None else "`x` or `y`"
        raise RuntimeError(f"{name}: received a bool input for {what}, but bool is not supported")
    if not kind.ndim:
        raise IndexError(f"Dimension specified as {dim} but tensor has no dimensions")
    dim = wrap_dim(dim, kind.ndim)
    size = kind.shape[dim]
    if x is not None and type_of(x).dtype is dtypes.bool_:
        raise RuntimeError(f"{name}: received a bool input for `x` or `y`, but bool is not supported")
    if not size:
        return ops.mul(y, 1.0), dim
    pairs = ops.add(ops.narrow(y, dim, 0, size - 1), ops.narrow(y, dim, 1, size - 1))
    if x is None:
        return pairs, dim
    shape = tuple(type_of(x).shape)
    if len(shape) == 1:
        if shape[0] != size:
            raise RuntimeError(f"{name}: There must be one `x` value for each sample point")
        x = ops.reshape(x, (1,) * dim + shape + (1,) * (kind.ndim - dim - 1))
        along = dim
    else:
        x = ops.reshape(x, (1,) * (kind.ndim - len(shape)) + shape)
        along = type_of(x).ndim - kind.ndim + dim
    length = type_of(x).shape[along] - 1
    steps = ops.sub(ops.narrow(x, along, 1, length), ops.narrow(x, along, 0, length))
    return ops.mul(pairs, steps), dim


TRAPEZOID = "y: Tensor, x: MaybeTensor = None, *, dx: Any = None, dim: int = -1"


def _trapezoid_samples(make: Maker) -> Iterator[Sample]:
    yield Sample(make(4))
    yield Sample(make(3, 4), dx=0.5, dim=0)
    yield Sample(make(3, 4), make(4))
    yield Sample(make(3, 4), make(3, 4), dim=0)
    yield Sample(make(2, 3, 4), make(3, 1), dim=1)


@composite(TRAPEZOID, method=False, samples=_trapezoid_samples, aliases=("trapz",))
def trapezoid(y: TensorLike, x: MaybeTensor, dx: MaybeOperand, dim: int) -> Any:
    """The integral along a dimension, by trapezoids."""
    areas, dim = _trapezoids("trapezoid", y, x, dx, dim)
    step = 1 if dx is None or x is not None else dx
    return ops.div(ops.mul(ops.sum(areas, dim), step), 2.0)


@composite(TRAPEZOID, method=False, samples=_trapezoid_samples)
def cumulative_trapezoid(y: TensorLike, x: MaybeTensor, dx: MaybeOperand, dim: int) -> Any:
    """The integral up to each sample along a dimension, by trapezoids."""
    areas, dim = _trapezoids("cumulative_trapezoid", y, x, dx, dim)
    step = 1 if dx is None or x is not None else dx
    return ops.div(ops.mul(ops.cumsum(areas, dim), step), 2.0)


# -- derivatives ---------------------------------------------------------------------------------------------
def _part(x: TensorLike, dim: int, start: int, stop: int) -> Any:
    """The slice from `start`, less as many at the end as `stop` says."""
    return ops.narrow(x, dim, start, type_of(x).shape[dim] + stop - start)


def _mix(x: TensorLike, dim: int, places: tuple[int, ...], factors: tuple[Any, ...]) -> Any:
    """A sum of slices of one, each times its factor."""
    total = None
    for place, factor in zip(places, factors, strict=True):
        size = type_of(x).shape[dim]
        term = ops.mul(ops.narrow(x, dim, place % size, 1), factor)
        total = term if total is None else ops.add(total, term)
    return total


def _uniform(x: TensorLike, dim: int, step: float, order: int) -> Any:
    inner = ops.div(ops.sub(_part(x, dim, 2, 0), _part(x, dim, 0, -2)), 2.0 * step)
    if order == 1:
        first, last = _mix(x, dim, (1, 0), (1.0, -1.0)), _mix(x, dim, (-1, -2), (1.0, -1.0))
    else:
        first = _mix(x, dim, (0, 1, 2), (-1.5, 2.0, -0.5))
        last = _mix(x, dim, (-3, -2, -1), (0.5, -2.0, 1.5))
    return ops.cat([ops.div(first, step), inner, ops.div(last, step)], dim)


def _uneven(x: TensorLike, dim: int, at: TensorLike, order: int) -> Any:
    """By the parabola through three neighbours."""
    kind = type_of(x)
    steps = ops.diff(at)
    count = type_of(steps).shape[0]
    shape = (1,) * dim + (-1,) + (1,) * (kind.ndim - dim - 1)

    def one(place: int) -> Any:
        return ops.reshape(ops.narrow(steps, 0, place % count, 1), shape)

    left, right = (ops.reshape(ops.narrow(steps, 0, s, count - 1), shape) for s in (0, 1))
    whole = ops.add(left, right)
    low = ops.neg(ops.div(right, ops.mul(left, whole)))
    middle = ops.div(ops.sub(right, left), ops.mul(left, right))
    high = ops.div(left, ops.mul(right, whole))
    inner = ops.add(
        ops.add(ops.mul(low, _part(x, dim, 0, -2)), ops.mul(middle, _part(x, dim, 1, -1))),
        ops.mul(high, _part(x, dim, 2, 0)),
    )
    if order == 1:
        first = ops.div(_mix(x, dim, (1, 0), (1.0, -1.0)), one(0))
        last = ops.div(_mix(x, dim, (-1, -2), (1.0, -1.0)), one(-1))
    else:
        first = _mix(x, dim, (0, 1, 2), _edge_factors(one(0), one(1)))
        last = ops.neg(_mix(x, dim, (-1, -2, -3), _edge_factors(one(-1), one(-2))))
    return ops.cat([first, inner, last], dim)


def _edge_factors(near: TensorLike, next_: TensorLike) -> tuple[Any, Any, Any]:
    """Of the three samples at an edge, from it inwards."""
    whole = ops.add(near, next_)
    first = ops.neg(ops.div(ops.add(ops.mul(near, 2.0), next_), ops.mul(near, whole)))
    second = ops.div(whole, ops.mul(near, next_))
    return first, second, ops.neg(ops.div(near, ops.mul(next_, whole)))


def _gradient_samples(make: Maker) -> Iterator[Sample]:
    yield Sample(make(4))
    yield Sample(make(3, 4), spacing=2.0)
    yield Sample(make(4, 3), spacing=(0.5, 2.0), edge_order=2)
    yield Sample(make(3, 4), dim=1, edge_order=2)
    yield Sample(make(3, 2), dim=(1, 0))


def _gradient_dims(kind: TensorType, spacing: Any, dim: Any) -> tuple[tuple[int, ...], list[Any]]:
    """The dimensions, and one spacing (a number or a tensor of coordinates) for each."""
    dims = tuple(range(kind.ndim)) if dim is None else (dim,) if isinstance(dim, int) else tuple(dim)
    dims = wrap_dims(dims, kind.ndim)
    if isinstance(spacing, (tuple, list)):
        if len(spacing) != len(dims):
            raise RuntimeError(
                "torch.gradient expected spacing to be unspecified, a scalar or it's spacing and dim "
                f"arguments to have the same length, but got a spacing argument of length {len(spacing)} "
                f"and a dim argument of length {len(dims)}."
            )
        return dims, list(spacing)
    return dims, [1.0 if spacing is None else spacing] * len(dims)


@composite(
    "input: Tensor, *, spacing: Any = None, dim: Any = None, edge_order: int = 1", method=False,
    samples=_gradient_samples,
)  # fmt: skip
def gradient(input: TensorLike, spacing: Any, dim: Any, edge_order: int) -> Any:
    """Derivatives along dimensions, estimated from neighbouring samples."""
    kind = type_of(input)
    if edge_order not in (1, 2):
        raise RuntimeError("torch.gradient only supports edge_order=1 and edge_order=2.")
    dims, steps = _gradient_dims(kind, spacing, dim)
    for place in dims:
        if kind.shape[place] < edge_order + 1:
            raise RuntimeError("torch.gradient expected each dimension size to be at least edge_order+1")
    if kind.dtype.category < dtypes.FLOAT:
        input = ops._to_copy(input, dtypes.get_default_dtype())
    found = []
    for place, step in zip(dims, steps, strict=True):
        rule = _uneven if hasattr(step, "shape") and type_of(step).ndim else _uniform
        found.append(rule(input, place, step, edge_order))
    return tuple(found)


# -- covariance ----------------------------------------------------------------------------------------------
def _weights_kernel(x: Array, message: str) -> Array:
    if x.size and bool((x < 0).any()):
        raise RuntimeError(message)
    return x.copy()


_not_negative: Op = index(
    "not_negative", _weights_kernel, lambda x, message: x, "input: Tensor, message: str", vjp=lambda g: g,
    batch=unchanged, method=False, function=False,
    samples=lambda make: [Sample(make(3, low=0.5), "negative")],
)  # fmt: skip


def _check_weights(word: str, weights: MaybeTensor, count: int, integral: bool) -> Any:
    kind = type_of(weights)
    if kind.ndim > 1:
        raise RuntimeError(
            f"cov(): expected {word} to have one or fewer dimensions but got {word} with {kind.ndim} "
            "dimensions"
        )
    if integral != (kind.dtype.category == dtypes.INTEGER) or (not integral and kind.dtype.is_complex):
        wanted = "integral" if integral else "floating point"
        raise RuntimeError(
            f"cov(): expected {word} to have {wanted} dtype but got {word} with {kind.dtype.scalar_name} "
            "dtype"
        )
    if kind.numel() != count:
        raise RuntimeError(
            f"cov(): expected {word} to have the same numel as there are observations in the input but got "
            f"{kind.numel()} != {count}"
        )
    return _not_negative(weights, f"cov(): {word} cannot be negative")


def _cov_samples(make: Maker) -> Iterator[Sample]:
    yield Sample(make(3, 4))
    yield Sample(make(4), correction=0)
    yield Sample(make(3, 4), fweights=make.ints(4, low=1, high=4), aweights=make(4, low=0.5))
    yield Sample(make(3, 4), aweights=make(4, low=0.5))


@composite(
    "input: Tensor, *, correction: int = 1, fweights: MaybeTensor = None, aweights: MaybeTensor = None",
    samples=_cov_samples,
)  # fmt: skip
def cov(input: TensorLike, correction: int, fweights: MaybeTensor, aweights: MaybeTensor) -> Any:
    """The covariances of variables (rows) over observations (columns)."""
    kind = type_of(input)
    if kind.ndim > 2:
        raise RuntimeError(
            "cov(): expected input to have two or fewer dimensions but got an input with "
            f"{kind.ndim} dimensions"
        )
    if kind.dtype is dtypes.bool_:
        raise RuntimeError("cov(): bool dtype is not supported for input")
    rows = ops.reshape(input, (1, -1)) if kind.ndim < 2 else input
    if kind.dtype.category < dtypes.FLOAT:
        rows = ops._to_copy(rows, dtypes.get_default_dtype())
    count = type_of(rows).shape[1]
    weights: Any = None
    if fweights is not None:
        weights = _check_weights("fweights", fweights, count, True)
    if aweights is not None:
        aweights = _check_weights("aweights", aweights, count, False)
        weights = aweights if weights is None else ops.mul(weights, aweights)
    freedom: Any = count - correction
    if weights is None:
        centred = ops.sub(rows, ops.div(ops.sum(rows, 1, True), count))
        scaled = centred
        if freedom <= 0:
            warn(
                "cov(): degrees of freedom is <= 0. Correction should be strictly less than the number of "
                "observations."
            )
            freedom = 0
    else:
        total = ops.sum(weights)
        centred = ops.sub(rows, ops.div(ops.sum(ops.mul(rows, weights), 1, True), total))
        scaled = ops.mul(centred, weights)
        freedom = ops.sub(total, correction)
        if aweights is not None and correction != 0:
            lost = ops.div(ops.mul(ops.sum(ops.mul(weights, aweights)), correction), total)
            freedom = ops.sub(total, lost)
        freedom = ops.clamp_min(freedom, 0)
    product = ops.matmul(centred, ops.conj(ops.transpose(scaled, 0, 1)))
    out = ops.div(product, freedom)
    return out if kind.ndim == 2 and kind.shape[0] != 1 else ops.reshape(out, ())


@composite("input: Tensor", samples=lambda make: [Sample(make(3, 4)), Sample(make(4), grad=False)])
def corrcoef(input: TensorLike) -> Any:
    """The correlation coefficients of variables (rows) over observations (columns)."""
    kind = type_of(input)
    if kind.ndim > 2:
        raise RuntimeError(
            "corrcoef(): expected input to have two or fewer dimensions but got an input with "
            f"{kind.ndim} dimensions"
        )
    c = cov(input)
    if not type_of(c).ndim:
        return ops.div(c, c)
    spread = ops.sqrt(ops.real(ops.diagonal(c)) if type_of(c).dtype.is_complex else ops.diagonal(c))
    c = ops.div(ops.div(c, ops.unsqueeze(spread, 1)), ops.unsqueeze(spread, 0))
    if type_of(c).dtype.is_complex:
        return ops.complex(ops.clamp(ops.real(c), -1, 1), ops.clamp(ops.imag(c), -1, 1))
    return ops.clamp(c, -1, 1)


# -- running log-sum-exp -------------------------------------------------------------------------------------
def _logcumsumexp_rule(x: TensorType, dim: int) -> TensorType:
    wrap_dim(dim, x.ndim)
    if x.dtype.category < dtypes.FLOAT:
        raise unsupported("logcumsumexp_out_cpu", x.dtype)
    return x


def _logcumsumexp_kernel(x: Array, dim: int) -> Array:
    if not x.ndim or not x.size:
        return x.copy()
    xp, axis = namespace(x), wrap_dim(dim, x.ndim)
    elements = row_major(widest(x))
    if x.dtype.kind != "c":
        return narrowed(xp.logaddexp.accumulate(elements, axis), x.dtype)
    peaks = _running_peaks(xp, elements, axis)
    before = xp.take(peaks, [0], axis), xp.delete(peaks, -1, axis)
    # sums relative to the greatest element so far, which no later one makes 0
    factors = xp.exp(xp.concatenate(before, axis) - peaks)
    scan = ops._linear_scan(xp.exp(elements - peaks), factors, axis, False)
    return narrowed(xp.log(scan) + peaks, x.dtype)


def _running_peaks(xp: ArrayModule, x: Array, axis: int) -> Array:
    """The element with the greatest real part so far (0 where that is infinite)."""
    places = xp.arange(x.shape[axis]).reshape(-1, *(1,) * (x.ndim - 1 - axis))
    highest = xp.maximum.accumulate(x.real, axis)
    last = xp.maximum.accumulate(xp.where(x.real == highest, places, 0), axis)
    peaks = xp.take_along_axis(x, last, axis)
    return xp.where(xp.isfinite(peaks.real), peaks, 0)


def _logcumsumexp_vjp(g: TensorLike, out: TensorLike, x: TensorLike, dim: int) -> Any:
    """s[i] = g[i] + exp(out[i] - out[i+1]) s[i+1]; each element gets exp(x[i] - out[i]) s[i].

    Neighbours of a long sum differ by less than what rounds `out` in its own type, so both are wider here.
    """
    kind = type_of(x)
    if not kind.ndim:
        return g
    wide = CARRIERS.get(kind.dtype)
    if wide is not None:
        g, x = ops._to_copy(g, wide), ops._to_copy(x, wide)
        return ops._to_copy(_logcumsumexp_vjp(g, ops.logcumsumexp(x, dim), x, dim), kind.dtype)
    safe = out
    if not kind.dtype.is_complex:
        safe = ops.masked_fill(out, ops.eq(out, float("-inf")), 0.0)
    factors = safe
    size = kind.shape[wrap_dim(dim, kind.ndim)]
    if size:  # the last element has no next one, and exp of it alone would overflow
        steps = ops.sub(ops.narrow(safe, dim, 0, size - 1), ops.narrow(safe, dim, 1, size - 1))
        factors = ops.cat([ops.exp(steps), ops.zeros_like(ops.narrow(safe, dim, 0, 1))], dim)
    return ops.mul(ops.exp(ops.sub(x, safe)), ops._linear_scan(g, factors, dim, True))


def _logcumsumexp_samples(make: Maker) -> Iterator[Sample]:
    yield Sample(make(4), 0)
    yield Sample(make(3, 4), -1)
    yield Sample(make(4, 3).T, 1)
    yield Sample(make(), 0)
    yield Sample(make(0, 3), 0)


logcumsumexp: Op = index(
    "logcumsumexp", _logcumsumexp_kernel, _logcumsumexp_rule, "input: Tensor, dim: Dim",
    vjp=_logcumsumexp_vjp, out=True, samples=_logcumsumexp_samples,
    refuses="nothing",
)  # fmt: skip
