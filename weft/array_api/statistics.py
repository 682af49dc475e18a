"""Sums, means, extremes, truths and running sums over dimensions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from weft.array_api.base import axes_of, promoted, w
from weft.core import dtypes
from weft.core.dtypes import BY_NAME
from weft.tensor.base import Tensor

__all__ = [
    "all", "any", "cumulative_prod", "cumulative_sum", "diff", "max", "mean", "min", "prod", "std", "sum",
    "var",
]  # fmt: skip


def _sum_dtype(x: Tensor, dtype: Any) -> Any:
    """Whole numbers are summed as the widest of their kind that there is."""
    if dtype is not None:
        return dtype
    if x.dtype.category == dtypes.INTEGER:
        return dtypes.int64 if x.dtype.is_signed else BY_NAME.get("uint64", dtypes.int64)
    return dtypes.int64 if x.dtype is dtypes.bool_ else x.dtype


def _at_once(
    function: Callable[..., Tensor], alone: Callable[[Tensor], Tensor], x: Tensor, axis: Any, keepdims: bool,
    **options: Any,
) -> Tensor:  # fmt: skip
    """A function over dimensions; over none of them it gives what `alone` gives of the array."""
    axes = axes_of(axis, x)
    return function(x, axes, keepdim=keepdims, **options) if axes else alone(x)


def _one_by_one(function: Callable[..., Tensor], x: Tensor, axis: Any, keepdims: bool) -> Tensor:
    """A function that takes one dimension, over several."""
    for each in sorted(axes_of(axis, x), reverse=True):
        x = function(x, each, keepdims)
    return x


def sum(x: Tensor, /, *, axis: Any = None, dtype: Any = None, keepdims: bool = False) -> Tensor:
    """The sum over dimensions."""
    axes, kind = axes_of(axis, x), _sum_dtype(x, dtype)
    return w.sum(x, axes, keepdims, dtype=kind) if axes else x.to(kind)


def prod(x: Tensor, /, *, axis: Any = None, dtype: Any = None, keepdims: bool = False) -> Tensor:
    """The product over dimensions."""
    return _one_by_one(w.prod, x.to(_sum_dtype(x, dtype)), axis, keepdims)


def mean(x: Tensor, /, *, axis: Any = None, keepdims: bool = False) -> Tensor:
    """The mean over dimensions."""
    return _at_once(w.mean, lambda x: x, x, axis, keepdims)


def var(x: Tensor, /, *, axis: Any = None, correction: float = 0.0, keepdims: bool = False) -> Tensor:
    """The variance over dimensions; `correction` is taken off the number of elements."""
    return _at_once(w.var, w.zeros_like, x, axis, keepdims, correction=correction)


def std(x: Tensor, /, *, axis: Any = None, correction: float = 0.0, keepdims: bool = False) -> Tensor:
    """The standard deviation over dimensions."""
    return _at_once(w.std, w.zeros_like, x, axis, keepdims, correction=correction)


def max(x: Tensor, /, *, axis: Any = None, keepdims: bool = False) -> Tensor:
    """The largest element over dimensions."""
    return _at_once(w.amax, w.clone, x, axis, keepdims)


def min(x: Tensor, /, *, axis: Any = None, keepdims: bool = False) -> Tensor:
    """The smallest element over dimensions."""
    return _at_once(w.amin, w.clone, x, axis, keepdims)


def all(x: Tensor, /, *, axis: Any = None, keepdims: bool = False) -> Tensor:
    """Whether no element is zero, over dimensions."""
    return _one_by_one(w.all, x.to(dtypes.bool_), axis, keepdims)


def any(x: Tensor, /, *, axis: Any = None, keepdims: bool = False) -> Tensor:
    """Whether some element is not zero, over dimensions."""
    return _one_by_one(w.any, x.to(dtypes.bool_), axis, keepdims)


def _running(
    function: Callable[..., Tensor],
    x: Tensor,
    axis: int | None,
    dtype: Any,
    include_initial: bool,
    first: int,
) -> Tensor:
    if axis is None:
        if x.ndim != 1:
            raise ValueError("an array of several dimensions needs an axis")
        axis = 0
    made = function(x, axis, dtype=_sum_dtype(x, dtype))
    if include_initial:
        shape = list(made.shape)
        shape[axis] = 1
        made = w.cat([w.full(tuple(shape), first, dtype=made.dtype), made], axis)
    return made


def cumulative_sum(
    x: Tensor, /, *, axis: int | None = None, dtype: Any = None, include_initial: bool = False
) -> Tensor:
    """Sums of all elements up to each."""
    return _running(w.cumsum, x, axis, dtype, include_initial, 0)


def cumulative_prod(
    x: Tensor, /, *, axis: int | None = None, dtype: Any = None, include_initial: bool = False
) -> Tensor:
    """Products of all elements up to each."""
    return _running(w.cumprod, x, axis, dtype, include_initial, 1)


def diff(
    x: Tensor, /, *, axis: int = -1, n: int = 1, prepend: Tensor | None = None, append: Tensor | None = None
) -> Tensor:
    """Differences of neighbours, `n` times over."""
    parts = [each for each in (prepend, x, append) if each is not None]
    joined = w.cat(list(promoted(*parts)), axis) if len(parts) > 1 else x
    return w.diff(joined, n, axis) if n else joined
