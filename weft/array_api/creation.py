"""Functions that make arrays."""

from __future__ import annotations

import math
from typing import Any

from weft.array_api.base import promoted, shape_of, w
from weft.core import dtypes
from weft.tensor.base import Tensor

__all__ = [
    "arange", "asarray", "e", "empty", "empty_like", "eye", "from_dlpack", "full", "full_like", "inf",
    "linspace", "meshgrid", "nan", "newaxis", "ones", "ones_like", "pi", "tril", "triu", "zeros",
    "zeros_like",
]  # fmt: skip


def asarray(obj: Any, /, *, dtype: Any = None, device: Any = None, copy: bool | None = None) -> Tensor:
    """An array from an array, from nested sequences or from a number."""
    return w.asarray(obj, dtype=dtype, device=device, copy=copy)


def arange(
    start: Any, /, stop: Any = None, step: Any = 1, *, dtype: Any = None, device: Any = None
) -> Tensor:
    """Numbers from `start` on, one step apart, before `stop`."""
    if stop is None:
        start, stop = 0, start
    if dtype is None:
        whole = all(isinstance(each, int) for each in (start, stop, step))
        dtype = dtypes.int64 if whole else dtypes.get_default_dtype()
    if (stop - start) * step <= 0:
        return w.empty(0, dtype=dtype, device=device)
    return w.arange(start, stop, step, dtype=dtype, device=device)


def empty(shape: Any, *, dtype: Any = None, device: Any = None) -> Tensor:
    """An uninitialised array."""
    return w.empty(shape_of(shape), dtype=dtype, device=device)


def zeros(shape: Any, *, dtype: Any = None, device: Any = None) -> Tensor:
    """An array of zeros."""
    return w.zeros(shape_of(shape), dtype=dtype, device=device)


def ones(shape: Any, *, dtype: Any = None, device: Any = None) -> Tensor:
    """An array of ones."""
    return w.ones(shape_of(shape), dtype=dtype, device=device)


def full(shape: Any, fill_value: Any, *, dtype: Any = None, device: Any = None) -> Tensor:
    """An array of one number."""
    return w.full(shape_of(shape), fill_value, dtype=dtype, device=device)


def empty_like(x: Tensor, /, *, dtype: Any = None, device: Any = None) -> Tensor:
    """An uninitialised array of the same shape."""
    return w.empty_like(x, dtype=dtype, device=device)


def zeros_like(x: Tensor, /, *, dtype: Any = None, device: Any = None) -> Tensor:
    """An array of zeros of the same shape."""
    return w.zeros_like(x, dtype=dtype, device=device)


def ones_like(x: Tensor, /, *, dtype: Any = None, device: Any = None) -> Tensor:
    """An array of ones of the same shape."""
    return w.ones_like(x, dtype=dtype, device=device)


def full_like(x: Tensor, /, fill_value: Any, *, dtype: Any = None, device: Any = None) -> Tensor:
    """An array of one number of the same shape."""
    return w.full_like(x, fill_value, dtype=dtype, device=device)


def eye(
    n_rows: int, n_cols: int | None = None, /, *, k: int = 0, dtype: Any = None, device: Any = None
) -> Tensor:
    """Ones on a diagonal, zeros elsewhere."""
    columns = n_rows if n_cols is None else n_cols
    kind = dtypes.get_default_dtype() if dtype is None else dtype
    rows = w.arange(n_rows, device=device).reshape(n_rows, 1)
    return (w.arange(columns, device=device) - rows == k).to(kind)


def linspace(
    start: Any,
    stop: Any,
    /,
    num: int,
    *,
    dtype: Any = None,
    device: Any = None,
    endpoint: bool = True,
) -> Tensor:
    """`num` numbers from `start` to `stop` at equal distances, `stop` included or not."""
    floating = dtypes.get_default_dtype()
    if dtype is None:
        dtype = floating.to_complex() if isinstance(start, complex) or isinstance(stop, complex) else floating
    kind = dtypes.complex128 if dtype.is_complex else dtypes.float64
    steps = max(num - 1 if endpoint else num, 1)
    count = w.arange(num, dtype=dtypes.float64, device=device).to(kind)
    made: Tensor = start + count * ((stop - start) / steps)
    if endpoint and num > 1:
        made[-1] = stop
    return made.to(dtype)


def meshgrid(*arrays: Tensor, indexing: str = "xy") -> list[Tensor]:
    """Grids of coordinates from vectors."""
    return list(w.meshgrid(*promoted(*arrays), indexing=indexing)) if arrays else []


def tril(x: Tensor, /, *, k: int = 0) -> Tensor:
    """The matrix with zeros above a diagonal."""
    return w.tril(x, k)


def triu(x: Tensor, /, *, k: int = 0) -> Tensor:
    """The matrix with zeros below a diagonal."""
    return w.triu(x, k)


def from_dlpack(x: Any, /, *, device: Any = None, copy: bool | None = None) -> Tensor:
    """An array on the memory of another library's array."""
    return w.from_dlpack(x, device=device, copy=copy)


e, pi, inf, nan, newaxis = math.e, math.pi, math.inf, math.nan, None
