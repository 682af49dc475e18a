"""Statistics: variance and its root, norms, log-sum-exp.

Takes arrays and dimensions (None or an empty tuple: all of them), gives folded arrays. Variances go in two
passes, the mean first, so that a large mean costs no accuracy. `std` and its kin are bodies that sort out
PyTorch's overloads and call one op each.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import inf
from typing import Any

from weft.core import dtypes
from weft.core.arrays import Array, namespace
from weft.core.dtypes import dtype, dtype_of, float32, float64
from weft.core.symbolic import applied
from weft.core.types import TensorType
from weft.core.warn import warn
from weft.ops.facts import Rule
from weft.ops.families import composite, reduce
from weft.ops.forward import total
from weft.ops.record import Op, ops, type_of
from weft.ops.reduce import (
    count_of,
    dims_of,
    fold_sum,
    folds,
    mean_gradient,
    narrowed,
    reduced_shape,
    restore,
)
from weft.ops.samples import Maker, Sample
from weft.ops.values import Dims, DType, TensorLike


# -- variance ----------------------------------------------------------------------------------------------
def _var_rule(x: TensorType, dim: Dims, _correction: float, keepdim: bool) -> TensorType:
    if x.dtype.category < dtypes.FLOAT:
        raise RuntimeError("std and var only support floating point and complex dtypes")
    return TensorType(reduced_shape(x.shape, dims_of(dim, x.ndim), keepdim), x.dtype.to_real(), x.device)


def _variance(x: Array, dim: Dims, correction: float, keepdim: bool) -> Array:
    """The variance of an array of real numbers, in float64 whatever these are, as in PyTorch: squares of
    numbers near the limits of their type are beyond these, while a deviation is not. Equal numbers have 0:
    sums of a shorter type's are exact, and from float64 the first is taken away.
    """
    xp = namespace(x)
    dims = dims_of(dim, x.ndim)
    count = count_of(x.shape, dims)
    given, x = x, x.astype(float64.numpy, copy=False)
    if x is given and count > 1:
        x = xp.subtract(x, x[tuple([slice(1) if axis in dims else slice(None) for axis in range(x.ndim)])])
    mean = fold_sum(x, dims, True, x.dtype)
    xp.true_divide(mean, x.dtype.type(count), out=mean)
    deviation = xp.subtract(x, mean, out=None if x is given else x)
    squares = (
        xp.multiply(deviation, deviation, out=deviation) if x.ndim else xp.asarray(deviation * deviation)
    )
    total = fold_sum(squares, dims, keepdim, squares.dtype)
    freedom = count - correction
    return xp.true_divide(total, total.dtype.type(freedom if freedom > 0 else 0), out=total)


def _complex_variance(x: Array, dim: Dims, correction: float, keepdim: bool) -> Array:
    """The sum of the parts' variances, each of them in the parts' type."""
    kind = dtype_of(x).to_real().numpy
    real, imaginary = (narrowed(_variance(part, dim, correction, keepdim), kind) for part in (x.real, x.imag))
    return namespace(x).asarray(real + imaginary)


def _rounded(value: Array, kind: dtype) -> Array:
    """float64 in another type; halves are rounded from float32."""
    return narrowed(value if kind is float64 else narrowed(value, float32.numpy), kind.numpy)


def _var_kernel(x: Array, dim: Dims, correction: float, keepdim: bool) -> Array:
    if x.dtype.kind == "c":
        return _complex_variance(x, dim, correction, keepdim)
    return _rounded(_variance(x, dim, correction, keepdim), dtype_of(x))


def _std_kernel(x: Array, dim: Dims, correction: float, keepdim: bool) -> Array:
    xp = namespace(x)
    if x.dtype.kind == "c":
        return xp.asarray(xp.sqrt(_complex_variance(x, dim, correction, keepdim)))
    variance = _variance(x, dim, correction, keepdim)
    return _rounded(xp.sqrt(variance, out=variance), dtype_of(x))


def _wide_mean(input: TensorLike, dim: Dims, keepdim: bool) -> Any:
    """The mean as a variance's by-product has it, which `mean` has not: summed in float64."""
    kind = type_of(input).dtype
    if kind.is_complex or kind is float64:
        return ops.mean(input, dim, keepdim)
    return ops._to_copy(ops.mean(input, dim, keepdim, dtype=float64), kind)


def _var_gradient(
    g: TensorLike, _out: object, x: TensorLike, dim: Dims, correction: float, keepdim: bool
) -> Any:
    own = type_of(x)
    freedom = count_of(own.shape, dims_of(dim, own.ndim)) - correction
    deviation = ops.sub(x, ops.mean(x, dim, True))
    return ops.mul(ops.mul(restore(g, own, dim, keepdim), 2 / freedom if freedom else inf), deviation)


def _std_gradient(
    g: TensorLike, out: TensorLike, x: TensorLike, dim: Dims, correction: float, keepdim: bool
) -> Any:
    """As the variance's, through the root; where all elements are equal PyTorch gives 0."""
    through = ops.masked_fill(ops.div(g, ops.mul(out, 2)), ops.eq(out, 0), 0)
    return _var_gradient(through, None, x, dim, correction, keepdim)


def _half_forward(tangent: TensorLike, x: TensorLike, dim: Dims, correction: float, keepdim: bool) -> Any:
    """Half the direction of the variance: the mean of deviation times direction."""
    own = type_of(x)
    freedom = count_of(own.shape, dims_of(dim, own.ndim)) - correction
    deviation = ops.mul(ops.sub(x, ops.mean(x, dim, True)), 1 / freedom if freedom else inf)
    if own.dtype.is_complex:
        return ops.sum(ops.real(ops.mul(ops.conj(deviation), tangent)), dim, keepdim)
    return ops.sum(ops.mul(deviation, tangent), dim, keepdim)


def _var_forward(
    tangents: tuple[Any, ...], _out: TensorLike, x: TensorLike, dim: Dims, correction: float, keepdim: bool
) -> Any:
    return ops.mul(_half_forward(tangents[0], x, dim, correction, keepdim), 2)


def _std_forward(
    tangents: tuple[Any, ...], out: TensorLike, x: TensorLike, dim: Dims, correction: float, keepdim: bool
) -> Any:
    """That of the variance over twice the result, and 0 where the gradient is."""
    half = _half_forward(tangents[0], x, dim, correction, keepdim)
    return ops.div(half, ops.masked_fill(out, ops.eq(out, 0), inf))  # masked first: gradients stay finite


def _corrected(make: Maker) -> Iterator[Sample]:
    yield Sample(make(2, 3), None, 1, False)
    yield Sample(make(2, 3), 0, 0, True)
    yield Sample(make(2, 3, 2), (0, 2), 0.5, False)


def _spread_op(name: str, kernel: Rule, gradient: Rule, forward: Rule | None = None) -> Op:
    return reduce(
        f"_{name}", kernel, _var_rule, "input: Tensor, dim: Dims, correction: float, keepdim: bool",
        vjp=gradient, conjugates=True, node=f"{name.capitalize()}Backward0", method=False, function=False,
        out=False, jvp=forward, samples=_corrected, trusted=True,
        refuses="nothing", lowering="extremes",
    )  # fmt: skip


_var = _spread_op("var", _var_kernel, _var_gradient)
_std = _spread_op("std", _std_kernel, _std_gradient, _std_forward)


def _with_mean(name: str, kernel: Rule, gradient: Rule, forward: Rule) -> Op:
    """The op of this name together with the mean: two results of one node."""

    def both(x: Array, dim: Dims, correction: float, keepdim: bool) -> tuple[Array, Array]:
        return kernel(x, dim, correction, keepdim), _wide_mean(x, dim, keepdim)

    def rule(x: TensorType, dim: Dims, correction: float, keepdim: bool) -> tuple[TensorType, TensorType]:
        first = _var_rule(x, dim, correction, keepdim)
        return first, TensorType(first.shape, x.dtype, x.device)

    def backward(
        g: tuple[Any, Any], out: tuple[Any, Any], x: TensorLike, dim: Dims, correction: float, keepdim: bool
    ) -> Any:
        parts = [
            None if g[0] is None else gradient(g[0], out[0], x, dim, correction, keepdim),
            None if g[1] is None else mean_gradient(g[1], None, type_of(x), dim, keepdim),
        ]
        return total(parts)

    def direction(
        tangents: tuple[Any, ...],
        out: tuple[Any, Any],
        x: TensorLike,
        dim: Dims,
        correction: float,
        keepdim: bool,
    ) -> tuple[Any, Any]:
        return forward(tangents, out[0], x, dim, correction, keepdim), _wide_mean(tangents[0], dim, keepdim)

    return reduce(
        f"_{name}_mean", both, rule, "input: Tensor, dim: Dims, correction: float, keepdim: bool",
        vjp=backward, conjugates=True, node=f"{name.capitalize()}MeanBackward0", method=False, function=False,
        out=False, jvp=direction, samples=_corrected, outputs_read=(0,) if name == "std" else (),
        refuses="nothing", lowering="extremes",
    )  # fmt: skip


_var_mean = _with_mean("var", _var_kernel, _var_gradient, _var_forward)
_std_mean = _with_mean("std", _std_kernel, _std_gradient, _std_forward)


def _overloads(
    name: str, input: TensorLike, dim: Any, unbiased: Any, keepdim: bool, correction: float | None
) -> Any:
    """What the overloads of std and var mean: dim, correction, keepdim. Raises and warns as PyTorch does."""
    own = type_of(input)
    if type(dim) is bool:
        dim, unbiased = None, dim
    if correction is not None and unbiased is not None:
        raise TypeError(
            f"{name}() received an invalid combination of arguments - both unbiased and correction"
        )
    if own.dtype.category < dtypes.FLOAT and name.endswith("_mean"):
        raise RuntimeError(f"{name} only support floating point and complex dtypes")
    if correction is None:
        correction = 0 if unbiased is False else 1
    if count_of(own.shape, dims_of(dim, own.ndim)) - correction <= 0:
        warn(
            f"{name}(): degrees of freedom is <= 0. Correction should be strictly less than the reduction "
            "factor (input numel divided by output numel)."
        )
    return dim, correction, keepdim


def _spread_samples(make: Maker) -> Iterator[Sample]:
    yield Sample(make(2, 3))
    yield Sample(make(2, 3), False)
    yield Sample(make(2, 3), 0)
    yield Sample(make(3, 3, 2), (0, -1), False, True)
    yield Sample(make(4, 3).T, 1, correction=2)
    yield Sample(make(4, 3), unbiased=False)
    yield Sample(make(4, 3), correction=0.5, keepdim=True)
    yield Sample(make(2, 3), (), keepdim=True)
    yield Sample(make(0, 3), 0, grad=False)
    yield Sample(make(1, 3), 0, grad=False)
    yield Sample(make(), correction=0, grad=False)


SPREAD = (
    "input: Tensor, dim: Any = None, unbiased: Any = None, keepdim: bool = False, *, "
    "correction: Number = None"
)


@composite(SPREAD, samples=_spread_samples, out=True)
def var(input: TensorLike, dim: Any, unbiased: Any, keepdim: bool, correction: float | None) -> Any:
    """The variance; `correction` (1, or 0 for unbiased=False) is taken off the count it is divided by."""
    return _var(input, *_overloads("var", input, dim, unbiased, keepdim, correction))


@composite(SPREAD, samples=_spread_samples, out=True)
def std(input: TensorLike, dim: Any, unbiased: Any, keepdim: bool, correction: float | None) -> Any:
    """The standard deviation: the root of `var`."""
    return _std(input, *_overloads("std", input, dim, unbiased, keepdim, correction))


@composite(SPREAD, samples=_spread_samples, method=False)
def var_mean(input: TensorLike, dim: Any, unbiased: Any, keepdim: bool, correction: float | None) -> Any:
    """The variance and the mean."""
    dim, correction, keepdim = _overloads("var_mean", input, dim, unbiased, keepdim, correction)
    return _var_mean(input, dim, correction, keepdim)


@composite(SPREAD, samples=_spread_samples, method=False)
def std_mean(input: TensorLike, dim: Any, unbiased: Any, keepdim: bool, correction: float | None) -> Any:
    """The standard deviation and the mean."""
    dim, correction, keepdim = _overloads("std_mean", input, dim, unbiased, keepdim, correction)
    return _std_mean(input, dim, correction, keepdim)


# -- log-sum-exp -------------------------------------------------------------------------------------------
def _logsumexp_rule(x: TensorType, dim: Dims, keepdim: bool) -> TensorType:
    if dim is None:
        raise TypeError("logsumexp(): argument 'dim' (position 2) must be tuple of ints, not NoneType")
    kind = x.dtype if x.dtype.category >= dtypes.FLOAT else dtypes.get_default_dtype()
    return TensorType(reduced_shape(x.shape, dims_of(dim, x.ndim), keepdim), kind, x.device)


def _logsumexp_kernel(x: Array, dim: Dims, keepdim: bool) -> Array:
    if dim is None:
        raise TypeError("logsumexp() without dimensions")  # the type rule says it in full
    xp = namespace(x)
    kind = dtype_of(x) if dtype_of(x).category >= dtypes.FLOAT else dtypes.get_default_dtype()
    x = x.astype(kind.computes_in.numpy, copy=False)
    dims = dims_of(dim, x.ndim)
    peak = xp.maximum.reduce(x.real, dims, keepdims=True, initial=-inf)
    peak = xp.where(xp.isfinite(peak), peak, 0)  # infinities take part as they are
    total = fold_sum(xp.exp(xp.subtract(x, peak)), dims, True, x.dtype)
    out = xp.asarray(xp.log(total) + peak)
    return narrowed(out.reshape(reduced_shape(x.shape, dims, keepdim)), kind.numpy)


def _logsumexp_gradient(g: TensorLike, out: TensorLike, x: TensorLike, dim: Dims, keepdim: bool) -> Any:
    own = type_of(x)
    shares = ops.exp(ops.sub(x, restore(out, own, dim, keepdim)))
    return ops.mul(restore(g, own, dim, keepdim), shares)


logsumexp = reduce(
    "logsumexp", _logsumexp_kernel, _logsumexp_rule, "input: Tensor, dim: Dims, keepdim: bool = False",
    vjp=_logsumexp_gradient, trusted=True, aliases=("special.logsumexp",),
    samples=lambda make: (s for s in folds(make) if len(s.args) > 1),
    refuses="nothing", lowering="extremes",
)  # fmt: skip


# -- norms -------------------------------------------------------------------------------------------------
def _norm_samples(make: Maker) -> Iterator[Sample]:
    yield Sample(make.distinct(2, 3))
    yield Sample(make.distinct(2, 3), 2, 0)
    yield Sample(make.distinct(2, 3), "fro", (0, 1), True)
    yield Sample(make.distinct(2, 3, 2), inf, (0, 2))
    yield Sample(make.distinct(2, 3), 3, dtype=dtypes.float64)
    yield Sample(make.distinct(), 1)
    yield Sample(make(0, 3))
    yield Sample(make.distinct(2, 3), None, 1)


@composite(
    "input: Tensor, p: Any = 'fro', dim: Dims = None, keepdim: bool = False, dtype: DType = None",
    samples=_norm_samples, out="exact",
)  # fmt: skip
def norm(input: TensorLike, p: Any, dim: Dims, keepdim: bool, dtype: DType) -> Any:
    """The vector norm of order p over dimensions; 'fro' means 2, 'nuc' is the nuclear norm of matrices."""
    given = (dim,) if isinstance(dim, int) else dim
    if isinstance(p, str) and (p != "fro" or (given is not None and len(given) > 2)):
        dims = tuple(range(type_of(input).ndim)) if given is None else tuple(given)
        return ops.linalg_matrix_norm(input, p, dims, keepdim, dtype=dtype)
    order = 2.0 if p is None or p == "fro" else applied(float, p)
    return ops.linalg_vector_norm(input, order, dim, keepdim, dtype=dtype)
