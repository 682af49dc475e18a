"""Sums, means, extremes, truths and running sums over dimensions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from weft.array_api.base import axes_of, promoted, w
from weft.core import dtypes
from weft.core.dtypes import BY_NAME
from weft.tensor.base import Tensor


def _sum_dtype(x: Tensor, dtype: Any) -> Any:
    """Whole numbers are summed as the widest of their kind that there is."""
    if dtype is not None:
        return dtype
    if x.dtype.category == dtypes.INTEGER:
        return dtypes.int64 if x.dtype.is_signed else BY_NAME.get("uint64", dtypes.int64)
    return dtypes.int64 if x.dtype is dtypes.bool_ else x.dtype


def sum(x: Tensor, /, *, axis: Any = None, dtype: Any = None, keepdims: bool = False) -> Tensor:
    """The sum over dimensions."""
    axes, kind = axes_of(axis, x), _sum_dtype(x, dtype)
    return w.sum(x, axes, keepdims, dtype=kind) if axes else x.to(kind)


def prod(x: Tensor, /, *, axis: Any = None, dtype: Any = None, keepdims: bool = False) -> Tensor:
    """The product over dimensions."""
    made = x.to(_sum_dtype(x, dtype))
    for each in sorted(axes_of(axis, x), reverse=True):
        made = w.prod(made, each, keepdims)
    return made


def mean(x: Tensor, /, *, axis: Any = None, keepdims: bool = False) -> Tensor:
    """The mean over dimensions."""
    axes = axes_of(axis, x)
    return w.mean(x, axes, keepdims) if axes else x


def var(x: Tensor, /, *, axis: Any = None, correction: float = 0.0, keepdims: bool = False) -> Tensor:
    """The variance over dimensions; `correction` is taken off the number of elements."""
    axes = axes_of(axis, x)
    if not axes:
        return w.zeros_like(x)
    return w.var(x, axes, correction=correction, keepdim=keepdims)


def std(x: Tensor, /, *, axis: Any = None, correction: float = 0.0, keepdims: bool = False) -> Tensor:
    """The standard deviation over dimensions."""
    axes = axes_of(axis, x)
    if not axes:
        return w.zeros_like(x)
    return w.std(x, axes, correction=correction, keepdim=keepdims)


def max(x: Tensor, /, *, axis: Any = None, keepdims: bool = False) -> Tensor:
    """The largest element over dimensions."""
    axes = axes_of(axis, x)
    return w.amax(x, axes, keepdims) if axes else x.clone()


def min(x: Tensor, /, *, axis: Any = None, keepdims: bool = False) -> Tensor:
    """The smallest element over dimensions."""
    axes = axes_of(axis, x)
    return w.amin(x, axes, keepdims) if axes else x.clone()


def all(x: Tensor, /, *, axis: Any = None, keepdims: bool = False) -> Tensor:
    """Whether no element is zero, over dimensions."""
    made = x.to(dtypes.bool_)
    for each in sorted(axes_of(axis, x), reverse=True):
        made = w.all(made, each, keepdims)
    return made


def any(x: Tensor, /, *, axis: Any = None, keepdims: bool = False) -> Tensor:
    """Whether some element is not zero, over dimensions."""
    made = x.to(dtypes.bool_)
    for each in sorted(axes_of(axis, x), reverse=True):
        made = w.any(made, each, keepdims)
    return made


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
