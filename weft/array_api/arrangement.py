"""Functions that move, join, index, sort and search elements."""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from weft.array_api.base import axes_of, promoted, w
from weft.core import dtypes
from weft.tensor.base import Tensor

__all__ = [
    "argmax", "argmin", "argsort", "concat", "count_nonzero", "expand_dims", "flip", "matrix_transpose",
    "moveaxis", "nonzero", "permute_dims", "repeat", "reshape", "roll", "searchsorted", "sort", "squeeze",
    "stack", "take", "take_along_axis", "tile", "unique_all", "unique_counts", "unique_inverse",
    "unique_values", "unstack", "where",
]  # fmt: skip

UniqueAll = namedtuple("UniqueAll", "values indices inverse_indices counts")
UniqueCounts = namedtuple("UniqueCounts", "values counts")
UniqueInverse = namedtuple("UniqueInverse", "values inverse_indices")
SIDES: Final = ("left", "right")


def concat(arrays: Any, /, *, axis: int | None = 0) -> Tensor:
    """Arrays one behind the other; with `axis=None`, of all their elements."""
    joined = promoted(*arrays)
    if axis is None:
        joined, axis = tuple(each.reshape(-1) for each in joined), 0
    return w.cat(list(joined), axis)


def stack(arrays: Any, /, *, axis: int = 0) -> Tensor:
    """Arrays of one shape along a new dimension."""
    return w.stack(list(promoted(*arrays)), axis)


def unstack(x: Tensor, /, *, axis: int = 0) -> tuple[Tensor, ...]:
    """The parts of an array along a dimension."""
    return tuple(w.unbind(x, axis))


def expand_dims(x: Tensor, /, *, axis: int = 0) -> Tensor:
    """The array with a dimension of size 1 more."""
    return w.unsqueeze(x, axis)


def squeeze(x: Tensor, /, axis: Any) -> Tensor:
    """The array without these dimensions, which must be of size 1."""
    axes = axes_of(axis, x)
    if any(x.shape[each] != 1 for each in axes):
        raise ValueError(f"cannot squeeze axes {axes} of an array of shape {tuple(x.shape)}: not all are 1")
    return w.squeeze(x, axes) if axes else x


def flip(x: Tensor, /, *, axis: Any = None) -> Tensor:
    """The array backwards along these dimensions."""
    return w.flip(x, axes_of(axis, x))


def moveaxis(x: Tensor, source: Any, destination: Any, /) -> Tensor:
    """The array with dimensions at other places."""
    return w.movedim(x, source, destination)


def permute_dims(x: Tensor, /, axes: tuple[int, ...]) -> Tensor:
    """The array with its dimensions in this order."""
    return w.permute(x, tuple(axes))


def repeat(x: Tensor, repeats: Any, /, *, axis: int | None = None) -> Tensor:
    """Each element several times in a row."""
    if axis is None:
        x, axis = x.reshape(-1), 0
    if isinstance(repeats, Tensor) and repeats.ndim == 0:
        repeats = int(repeats)
    return w.repeat_interleave(x, repeats, axis)


def reshape(x: Tensor, /, shape: tuple[int, ...], *, copy: bool | None = None) -> Tensor:
    """The elements in another shape; `copy` asks for new memory, or forbids it."""
    made = w.reshape(x, tuple(shape))
    shares = made.data_ptr() == x.data_ptr()
    if copy and shares:
        return made.clone()
    if copy is False and not shares and x.numel():
        raise ValueError("this shape cannot be had without a copy")
    return made


def roll(x: Tensor, /, shift: Any, *, axis: Any = None) -> Tensor:
    """The array turned round, what falls off at one end coming in at the other."""
    if axis is None:
        return w.roll(x.reshape(-1), shift, 0).reshape(x.shape)
    axes = axis if isinstance(axis, tuple) else (axis,)
    shifts = shift if isinstance(shift, tuple) else (shift,) * len(axes)
    return w.roll(x, shifts, axes)


def tile(x: Tensor, repetitions: tuple[int, ...], /) -> Tensor:
    """The array several times along each dimension."""
    return w.tile(x, tuple(repetitions))


def matrix_transpose(x: Tensor, /) -> Tensor:
    """Matrices with rows for columns."""
    if x.ndim < 2:
        raise ValueError("matrices have two dimensions at least")
    return w.transpose(x, -2, -1)


# -- indexing and searching ----------------------------------------------------------------------------------
def take(x: Tensor, indices: Tensor, /, *, axis: int | None = None) -> Tensor:
    """The elements with these numbers along a dimension."""
    if axis is None:
        if x.ndim != 1:
            raise ValueError("an array of several dimensions needs an axis")
        axis = 0
    if indices.ndim == 0:
        return w.index_select(x, axis, indices.reshape(1)).squeeze(axis)
    size = x.shape[axis]
    return w.index_select(x, axis, w.where(indices < 0, indices + size, indices))


def take_along_axis(x: Tensor, indices: Tensor, /, *, axis: int = -1) -> Tensor:
    """The elements with these numbers along a dimension, row by row."""
    size = x.shape[axis]
    return w.take_along_dim(x, w.where(indices < 0, indices + size, indices).to(dtypes.int64), axis)


def where(condition: Tensor, x1: Any, x2: Any, /) -> Tensor:
    """Elements of the one where the condition holds, of the other where it does not."""
    if not isinstance(x1, Tensor) and not isinstance(x2, Tensor):
        raise TypeError("at least one of the two must be an array")
    return w.where(condition, *promoted(x1, x2))


def nonzero(x: Tensor, /) -> tuple[Tensor, ...]:
    """The places of elements that are not zero, one array for each dimension."""
    if x.ndim == 0:
        raise ValueError("an array without dimensions has no places")
    return tuple(w.nonzero(x, as_tuple=True))


def argmax(x: Tensor, /, *, axis: int | None = None, keepdims: bool = False) -> Tensor:
    """The place of the largest element."""
    return _extreme(w.argmax, x, axis, keepdims)


def argmin(x: Tensor, /, *, axis: int | None = None, keepdims: bool = False) -> Tensor:
    """The place of the smallest element."""
    return _extreme(w.argmin, x, axis, keepdims)


def _extreme(function: Callable[..., Tensor], x: Tensor, axis: int | None, keepdims: bool) -> Tensor:
    if axis is None:
        found = function(x.reshape(-1), 0)
        return found.reshape((1,) * x.ndim) if keepdims else found
    return function(x, axis, keepdims)


def count_nonzero(x: Tensor, /, *, axis: Any = None, keepdims: bool = False) -> Tensor:
    """How many elements are not zero."""
    axes = axes_of(axis, x)
    there = (x != 0).to(dtypes.int64)
    return w.sum(there, axes, keepdims) if axes else there


def searchsorted(x1: Tensor, x2: Any, /, *, side: str = "left", sorter: Tensor | None = None) -> Tensor:
    """Where elements would have to be put into a sorted vector."""
    if side not in SIDES:
        raise ValueError(f"side must be one of {SIDES}, but is {side!r}")
    ordered = x1 if sorter is None else x1[sorter]
    ordered, wanted = promoted(ordered, x2)
    return w.searchsorted(ordered, wanted, right=side == "right")


def sort(x: Tensor, /, *, axis: int = -1, descending: bool = False, stable: bool = True) -> Tensor:
    """The elements in order."""
    return w.sort(x, dim=axis, descending=descending, stable=stable)[0]


def argsort(x: Tensor, /, *, axis: int = -1, descending: bool = False, stable: bool = True) -> Tensor:
    """The places of the elements in order."""
    return w.sort(x, dim=axis, descending=descending, stable=stable)[1]


def _unique(x: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    array = np.asarray(x.detach().array)
    found = np.unique(array, True, True, True, equal_nan=False)
    values, indices, inverse, counts = (w.asarray(np.ascontiguousarray(each)) for each in found)
    return values, indices, inverse.reshape(x.shape), counts


def unique_all(x: Tensor, /) -> UniqueAll:
    """The elements that differ, where each is first, which one each element is, and how many there are."""
    return UniqueAll(*_unique(x))


def unique_counts(x: Tensor, /) -> UniqueCounts:
    """The elements that differ, and how many there are of each."""
    values, _, _, counts = _unique(x)
    return UniqueCounts(values, counts)


def unique_inverse(x: Tensor, /) -> UniqueInverse:
    """The elements that differ, and which one each element is."""
    values, _, inverse, _ = _unique(x)
    return UniqueInverse(values, inverse)


def unique_values(x: Tensor, /) -> Tensor:
    """The elements that differ."""
    return _unique(x)[0]
