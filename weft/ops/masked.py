"""Reductions and normalisations of some elements: the `masked` namespace.

Takes a tensor and a mask (true: the element is used; none: all are); gives what the op of that name gives for
the unmasked elements. One idea: each op has a neutral element (0 for sums, -inf for maxima); masked elements
are replaced by it, so their gradients are zero by themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import inf, nan
from typing import Any

from weft.core import dtypes
from weft.core.arrays import Array, namespace
from weft.core.types import TensorType
from weft.ops.families import composite, index
from weft.ops.record import Op, ops, quiet, type_of
from weft.ops.reduce import dims_of
from weft.ops.samples import Maker, Sample
from weft.ops.values import Dims, DType, MaybeTensor, Number, Sizes, TensorLike

FOLD = (
    "input: Tensor, dim: Dims = None, *, keepdim: bool = False, dtype: DType = None, mask: MaybeTensor = None"
)
LINE = "input: Tensor, dim: int, *, dtype: DType = None, mask: MaybeTensor = None"


def _masked(x: TensorLike, mask: MaybeTensor, nothing: float) -> Any:
    """The tensor with this number where the mask is false."""
    if mask is None:
        return x
    kind: TensorType = type_of(mask)
    if kind.dtype is not dtypes.bool_:
        mask = ops.ne(mask, 0)
    return ops.where(mask, x, bool(nothing) if type_of(x).dtype is dtypes.bool_ else nothing)


def _cast(x: TensorLike, dtype: DType) -> Any:
    return x if dtype is None or type_of(x).dtype is dtype else ops._to_copy(x, dtype)


def _bounded(x: TensorLike, mask: MaybeTensor, sign: int, name: str) -> Any:
    """The tensor with a number where the mask is false that no element is below (sign -1) or above (1)."""
    if mask is None:
        return x
    kind = type_of(x).dtype
    if kind is dtypes.bool_:
        raise NotImplementedError(f"identity of {name} on {kind!r} input")
    if kind.category >= dtypes.FLOAT:
        return _masked(x, mask, sign * inf)
    limits = dtypes.iinfo(kind)
    return _masked(x, mask, limits.max if sign > 0 else limits.min)


def _dims(dim: Dims) -> Any:
    return None if dim is None else (dim,) if isinstance(dim, int) else tuple(dim)


def _samples(make: Maker) -> Iterator[Sample]:
    mask = make.bools(3, 4)
    mask[:, :2] = True
    yield Sample(make.distinct(3, 4), 1, mask=mask)
    yield Sample(make.distinct(3, 4), mask=mask)
    yield Sample(make.distinct(3, 4), (0, 1), keepdim=True)


def _line_samples(make: Maker) -> Iterator[Sample]:
    mask = make.bools(3, 4)
    mask[:, :2] = True
    yield Sample(make.distinct(3, 4), 1, mask=mask)
    yield Sample(make.distinct(3, 4), 0)


def _fold(name: str, doc: str, run: Callable[..., Any]) -> Op:
    """Defines a reduction over some dimensions."""

    def body(input: TensorLike, dim: Dims, keepdim: bool, dtype: DType, mask: MaybeTensor) -> Any:
        return run(_cast(input, dtype), mask, _dims(dim), keepdim)

    body.__doc__ = doc
    return composite(FOLD, name=name, namespace="masked", samples=_samples)(body)


def _product(x: TensorLike, mask: MaybeTensor, dim: Sizes | None, keepdim: bool) -> Any:
    x = _masked(x, mask, 1)
    rank = type_of(x).ndim
    places = tuple(range(rank)) if dim is None else tuple(d % max(rank, 1) for d in dim)
    for place in sorted(places, reverse=True):
        x = ops.prod(x, place, keepdim)
    return x


def _extreme(x: TensorLike, mask: MaybeTensor, dim: Dims, keepdim: bool, sign: int) -> Any:
    x = _bounded(x, mask, -sign, "amax" if sign > 0 else "amin")
    return (ops.amax if sign > 0 else ops.amin)(x, () if dim is None else dim, keepdim)


def _count(x: Any, mask: Any, dim: Any, keepdim: bool) -> Any:
    """How many elements are unmasked, in the tensor's real dtype."""
    ones = ops.ones_like(x)
    ones = ops.real(ones) if type_of(ones).dtype.is_complex else ones
    return ops.sum(_masked(ones, mask, 0), dim, keepdim)


def _mean(x: TensorLike, mask: MaybeTensor, dim: Dims, keepdim: bool) -> Any:
    kind = type_of(x).dtype
    if kind.category < dtypes.FLOAT:
        raise ValueError(
            "mean(): Could not infer output dtype. Input dtype must be either a floating point or complex "
            f"dtype. Got: {kind!r}"
        )
    if mask is None:
        return ops.mean(x, dim, keepdim)
    return ops.div(ops.sum(_masked(x, mask, 0), dim, keepdim), _count(x, mask, dim, keepdim))


def _variance(x: TensorLike, mask: MaybeTensor, dim: Dims, keepdim: bool, correction: Number) -> Any:
    if type_of(x).dtype is dtypes.bool_:
        ops.sub(x, 1.0)  # which refuses that
    if type_of(x).dtype.category < dtypes.FLOAT:
        x = ops._to_copy(x, dtypes.float32)
    gap = _masked(ops.sub(x, _mean(x, mask, dim, True)), mask, 0)
    squares = ops.mul(gap, ops.conj(gap))
    squares = ops.real(squares) if type_of(squares).dtype.is_complex else squares
    freedom = ops.clamp_min(ops.sub(_count(x, mask, dim, keepdim), correction), 0)
    return ops.div(ops.sum(squares, dim, keepdim), freedom)


_fold(
    "sum",
    "The sum of the unmasked elements.",
    lambda x, mask, dim, keep: ops.sum(_masked(x, mask, 0), dim, keep),
)
_fold("prod", "The product of the unmasked elements.", _product)
_fold(
    "amax",
    "The maximum of the unmasked elements.",
    lambda x, mask, dim, keep: _extreme(x, mask, dim, keep, 1),
)
_fold(
    "amin",
    "The minimum of the unmasked elements.",
    lambda x, mask, dim, keep: _extreme(x, mask, dim, keep, -1),
)
_fold("mean", "The mean of the unmasked elements.", _mean)


def _log_sum(x: TensorLike, mask: MaybeTensor, dim: Dims, keepdim: bool) -> Any:
    places = tuple(range(type_of(x).ndim)) if dim is None else dim
    return _cast(ops.logsumexp(_bounded(x, mask, -1, "logsumexp"), places, keepdim), type_of(x).dtype)


_fold("logsumexp", "The logarithm of the sum of exponentials of the unmasked elements.", _log_sum)


def _place(name: str, sign: int) -> Op:
    """Defines `argmax` or `argmin`, which give places in the input's dtype, as PyTorch's do."""

    def body(input: TensorLike, dim: int | None, keepdim: bool, dtype: DType, mask: MaybeTensor) -> Any:
        x = _cast(input, dtype)
        found = getattr(ops, name)(_bounded(x, mask, -sign, name), dim, keepdim)
        return ops._to_copy(found, type_of(x).dtype)

    body.__doc__ = "The index of the maximum or minimum of the unmasked elements."
    return composite(
        FOLD.replace("dim: Dims", "dim: MaybeDim"), name=name, namespace="masked",
        samples=lambda make: (Sample(*s.args, grad=False, **s.kwargs) for s in list(_samples(make))[:2]),
    )(body)  # fmt: skip


_place("argmax", 1)
_place("argmin", -1)


def _back(x: Array, kind: Any) -> Array:
    if namespace(x).isnan(x).any():
        raise ValueError("masked median expects no fully masked out rows if dtype is not floating point")
    return quiet(x.astype, kind.numpy)


_median_back = index(
    "_median_back", _back, lambda x, kind: TensorType(x.shape, kind, x.device),
    "input: Tensor, dtype: DType", method=False, function=False,
    samples=lambda make: [Sample(make(3), dtypes.int64, grad=False)],
)  # fmt: skip
"""Medians of numbers that are no floats, in their dtype again; of nothing they have none."""


@composite(
    "input: Tensor, dim: Dims = -1, *, keepdim: bool = False, dtype: DType = None, mask: MaybeTensor = None",
    namespace="masked", samples=_line_samples,
)  # fmt: skip
def median(input: TensorLike, dim: Dims, keepdim: bool, dtype: DType, mask: MaybeTensor) -> Any:
    """The middle of what counts, along the first of the dimensions; `dtype` is for inputs that are no
    floats.
    """
    own = type_of(input)
    x = input if own.dtype.category >= dtypes.FLOAT else ops._to_copy(input, dtypes.float32)
    line = min(dims_of(dim, own.ndim), default=0)
    found = ops.nanmedian(_masked(x, mask, nan), line, keepdim)[0]
    return found if x is input else _median_back(found, own.dtype if dtype is None else dtype)


@composite(
    "input: Tensor, ord: float = 2.0, dim: Dims = None, *, keepdim: bool = False, dtype: DType = None, "
    "mask: MaybeTensor = None",
    namespace="masked",
    samples=lambda make: (Sample(s.args[0], 2.0, *s.args[1:], **s.kwargs) for s in _samples(make)),
)  # fmt: skip
def norm(input: Any, ord: float, dim: Any, keepdim: bool, dtype: Any, mask: Any) -> Any:
    """The vector norm of the unmasked elements."""
    x = _masked(_cast(input, dtype), mask, inf if ord == -inf else 0)
    return ops.linalg_vector_norm(x, ord, _dims(dim), keepdim)


SPREAD = (
    "input: Tensor, dim: Dims = None, unbiased: Any = None, *, correction: Any = None, "
    "keepdim: bool = False, dtype: DType = None, mask: MaybeTensor = None"
)


def _correction(unbiased: bool | None, correction: Number | None) -> Any:
    if unbiased is not None and correction is not None:
        raise ValueError("Only one of unbiased and correction may be given")
    if correction is not None:
        return correction
    return 1 if unbiased is None or unbiased else 0


def _spread_dtype(input: TensorLike, dtype: DType) -> Any:
    """The dtype of a variance: what is asked for, or the input's, complex too."""
    own = type_of(input).dtype
    return dtype or (dtypes.float32 if own.category < dtypes.FLOAT else own)


@composite(SPREAD, namespace="masked", samples=_samples)
def var(input: Any, dim: Any, unbiased: Any, correction: Any, keepdim: bool, dtype: Any, mask: Any) -> Any:
    """The variance of the unmasked elements."""
    given = _correction(unbiased, correction)
    return _cast(
        _variance(_cast(input, dtype), mask, _dims(dim), keepdim, given), _spread_dtype(input, dtype)
    )


@composite(SPREAD, namespace="masked", samples=lambda make: (s for s in list(_samples(make))[1:]))
def std(
    input: TensorLike,
    dim: Dims,
    unbiased: bool | None,
    correction: Number | None,
    keepdim: bool,
    dtype: DType,
    mask: MaybeTensor,
) -> Any:
    """The standard deviation of what counts."""
    return ops.sqrt(var(input, dim, unbiased, correction=correction, keepdim=keepdim, dtype=dtype, mask=mask))


# -- along one dimension -------------------------------------------------------------------------------------
def _line(name: str, doc: str, fill: Callable[..., Any], run: Callable[..., Any]) -> Op:
    def body(input: TensorLike, dim: int, dtype: DType, mask: MaybeTensor) -> Any:
        return run(fill(_cast(input, dtype), mask), dim)

    def samples(make: Maker) -> Iterator[Sample]:
        for sample in _line_samples(make):  # differences of infinities say nothing
            infinite = name == "log_softmax" and "mask" in sample.kwargs
            yield Sample(*sample.args, grad=not infinite, **sample.kwargs)

    body.__doc__ = doc
    return composite(LINE, name=name, namespace="masked", samples=samples)(body)


def _running(op: Op) -> Callable[[Any, int], Any]:
    return lambda x, dim: op(x, dim, dtype=type_of(x).dtype)


def _above(x: TensorLike, mask: MaybeTensor) -> Any:
    return _bounded(x, mask, -1, "amax")


_line(
    "cumsum",
    "The cumulative sum of the unmasked elements.",
    lambda x, mask: _masked(x, mask, 0),
    _running(ops.cumsum),
)
_line(
    "cumprod", "The cumulative product of the unmasked elements.", lambda x, mask: _masked(x, mask, 1),
    _running(ops.cumprod),
)  # fmt: skip
_line("softmax", "Softmax over the unmasked elements.", _above, lambda x, dim: ops.softmax(x, dim))
_line(
    "log_softmax", "The logarithm of softmax over the unmasked elements.", _above,
    lambda x, dim: ops.log_softmax(x, dim),
)  # fmt: skip
_line(
    "softmin", "Softmax of the negated unmasked elements.", lambda x, mask: _bounded(x, mask, 1, "amin"),
    lambda x, dim: ops.softmax(ops.neg(x), dim),
)  # fmt: skip


@composite(
    "input: Tensor, ord: float, dim: int, *, eps: float = 1e-12, dtype: DType = None, "
    "mask: MaybeTensor = None",
    namespace="masked",
    samples=lambda make: (Sample(s.args[0], 2.0, *s.args[1:], **s.kwargs) for s in _line_samples(make)),
)  # fmt: skip
def normalize(input: Any, ord: float, dim: int, eps: float, dtype: Any, mask: Any) -> Any:
    """The unmasked elements, divided by their norm along a dimension; 0 elsewhere."""
    x = _cast(input, dtype)
    length = norm(x, ord, dim, keepdim=True, mask=mask)
    return ops.div(_masked(x, mask, 0), ops.clamp_min(length, eps))


@composite(
    "input: Tensor, other: Tensor, *, dtype: DType = None, input_mask: MaybeTensor = None, "
    "other_mask: MaybeTensor = None",
    namespace="masked",
    samples=lambda make: [Sample(make(3), make(3)),
        Sample(make(3), make(3), input_mask=make.bools(3), grad=False)],
)  # fmt: skip
def logaddexp(input: Any, other: Any, dtype: Any, input_mask: Any, other_mask: Any) -> Any:
    """log(exp(input) + exp(other)), of the unmasked elements."""
    found = ops.logaddexp(_masked(input, input_mask, -inf), _masked(other, other_mask, -inf))
    return _cast(found, type_of(input).dtype if dtype is None else dtype)
