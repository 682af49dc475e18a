"""Arrays without elements, as tensors on the `meta` device hold: shape, dtype and strides, nothing else."""

from __future__ import annotations

from collections.abc import Iterable
from math import prod
from typing import Any

import numpy as np

from weft.core.types import TensorType


def contiguous_strides(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Strides, in elements, of a row-major tensor of this shape (counted so for empty ones too)."""
    strides, step = [], 1
    for size in reversed(shape):
        strides.append(step)
        step *= max(size, 1)
    return tuple(reversed(strides))


class NoFlags:
    """What `flags` says of an array without elements: no memory to write straight into."""

    c_contiguous = f_contiguous = forc = writeable = False


class MetaArray:
    """Stands where a NumPy array would: kernels refuse it, so every op goes by its type rule."""

    __slots__ = ("shape", "dtype", "strides")
    __array_ufunc__ = None
    base = None
    flags = NoFlags

    def __init__(
        self, shape: Iterable[int], dtype: np.dtype[Any], strides: Iterable[int] | None = None
    ) -> None:
        self.shape = tuple(shape)
        self.dtype = dtype
        if strides is None:
            strides = (s * dtype.itemsize for s in contiguous_strides(self.shape))
        self.strides = tuple(strides)  # in bytes, as NumPy's

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        return prod(self.shape)

    @property
    def itemsize(self) -> int:
        return self.dtype.itemsize

    @property
    def nbytes(self) -> int:
        return self.size * self.dtype.itemsize

    def copy(self) -> MetaArray:
        return MetaArray(self.shape, self.dtype)


def meta_array(type_: TensorType) -> MetaArray:
    return MetaArray(type_.shape, type_.dtype.numpy)
