"""Outlines: arrays as far as view kernels know them, with sizes and strides that may be symbolic.

Takes the shape, strides (in bytes) and dtype of an array; gives an object on which view kernels run as on the
array itself: basic keys, permutations, reshapes without a copy, free strides. One idea: NumPy would ask a
symbolic size for its value, and the kernels say all there is to say about strides, so only the array is
replaced.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import prod
from typing import Any, Final

import numpy as np

from weft.core.dims import wrap_dim
from weft.core.symbolic import any_symbolic

KERNELS: Final[dict[Callable[..., Any], Callable[..., Any]]] = {}
"""What runs instead of a kernel whose checks would ask sizes for their values."""


class Outline:
    """Shape, strides and dtype of an array that is not there."""

    __slots__ = ("shape", "strides", "dtype")

    def __init__(self, shape: tuple[Any, ...], strides: tuple[Any, ...], dtype: np.dtype[Any]) -> None:
        self.shape, self.strides, self.dtype = shape, strides, dtype

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> Any:
        return prod(self.shape)

    @property
    def flags(self) -> Outline:
        return self

    @property
    def c_contiguous(self) -> bool:
        step = self.dtype.itemsize
        for size, stride in zip(reversed(self.shape), reversed(self.strides), strict=True):
            if size != 1 and stride != step:
                return False
            step = step * size
        return True

    def restrided(self, shape: tuple[Any, ...], strides: tuple[Any, ...]) -> Outline:
        return Outline(tuple(shape), tuple(strides), self.dtype)

    def transpose(self, dims: Any) -> Outline:
        places = [wrap_dim(d, self.ndim) for d in dims]
        return self.restrided(tuple(self.shape[d] for d in places), tuple(self.strides[d] for d in places))

    @property
    def T(self) -> Outline:
        return self.transpose(reversed(range(self.ndim)))

    def swapaxes(self, first: int, second: int) -> Outline:
        places = list(range(self.ndim))
        first, second = wrap_dim(first, self.ndim), wrap_dim(second, self.ndim)
        places[first], places[second] = second, first
        return self.transpose(places)

    def squeeze(self, dims: tuple[int, ...]) -> Outline:
        return self.transpose([d for d in range(self.ndim) if d not in dims])

    def view(self, kind: np.dtype[Any]) -> Outline:
        """The same bytes as another dtype; the last dimension, row by row, takes up the difference."""
        old, new = self.dtype.itemsize, kind.itemsize
        if old == new:
            return Outline(self.shape, self.strides, kind)
        *lead, last = self.shape
        return Outline((*lead, last * old // new), (*self.strides[:-1], new), kind)

    def __getitem__(self, key: Any) -> Outline:
        key = key if isinstance(key, tuple) else (key,)
        shape: list[Any] = []
        strides: list[Any] = []
        dim = 0
        wanted = sum(1 for item in key if item is not None and item is not ...)
        for item in key:
            if item is None:
                shape.append(1)
                strides.append(0)
            elif item is ...:
                after = dim + self.ndim - wanted
                shape += self.shape[dim:after]
                strides += self.strides[dim:after]
                dim = after
            else:
                if isinstance(item, slice):
                    shape.append(slice_length(self.shape[dim], item))
                    strides.append(self.strides[dim] * (1 if item.step is None else item.step))
                dim += 1
        return self.restrided((*shape, *self.shape[dim:]), (*strides, *self.strides[dim:]))

    def reshape(self, size: Any, copy: bool = False) -> Outline:
        """A view with these sizes (one of them may be -1), or ValueError where strides do not allow it."""
        sizes = [size] if not isinstance(size, (tuple, list)) else list(size)
        if -1 in sizes:
            known = prod(n for n in sizes if n != -1)
            sizes[sizes.index(-1)] = self.size // known
        return self.restrided(tuple(sizes), tuple(self._strides_for(sizes)))

    def _strides_for(self, sizes: list[Any]) -> list[Any]:
        """New dimensions are cut, from the last on, out of runs of old ones that lie evenly in memory."""
        item = self.dtype.itemsize
        strides: list[Any] = []
        if self.size == 0:
            for place in range(len(sizes)):
                strides.append(item * prod(max(n, 1) for n in sizes[place + 1 :]))
            return strides
        runs = self._runs()
        left, step = 1, item  # how much of the run at hand is still to be cut, and the stride of what is next
        for n in reversed(sizes):
            if n != 1:
                if left == 1:
                    left, step = next(runs)
                rest = left % n  # sizes that divide for all values leave a plain 0
                if not (type(rest) is int and rest == 0) and (n > left or rest != 0):
                    raise ValueError("sizes do not follow the strides")
                left = left // n
            strides.append(step)
            step = step * n
        return strides[::-1]

    def _runs(self) -> Iterator[tuple[Any, Any]]:
        """Sizes and innermost strides of runs of dimensions, from the last on."""
        count, first = 1, self.dtype.itemsize
        for size, stride in zip(reversed(self.shape), reversed(self.strides), strict=True):
            if size == 1:
                continue
            if count != 1 and stride == count * first:
                count = count * size
                continue
            if count != 1:
                yield count, first
            count, first = size, stride
        yield count, first


def slice_length(size: int, key: slice) -> int:
    """How many items of a dimension a slice takes."""
    start, stop, step = key.start, key.stop, key.step
    if not any_symbolic((size, start, stop, step)):
        return len(range(*key.indices(size)))
    start = clamped(0 if start is None else start, size)
    stop = clamped(size if stop is None else stop, size)
    step = 1 if step is None else step
    return (stop - start + step - 1) // step if start < stop else 0


def clamped(bound: Any, size: Any) -> Any:
    """An end of a slice, counted from the front and within the dimension."""
    if bound < 0:
        bound = bound + size
        return 0 if bound < 0 else bound
    return size if bound > size else bound
