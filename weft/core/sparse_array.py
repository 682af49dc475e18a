"""Sparse arrays: what flows backwards from a lookup of rows in place of an array that is nearly all zeros.

Takes places and the elements there; gives an object with the facts of an array, which dense arrays and others
of its kind can be added to. One idea: the engine adds gradients by `MODULES[type(a)].add` or NumPy's `add`,
so a class that both know needs nothing of the engine, which stays as it is for dense arrays.
"""

from __future__ import annotations

from typing import Any, cast

import numpy as np

from weft.core.arrays import MODULES, Array, ArrayModule, namespace
from weft.core.seams import seams


class _Flags:
    """There is no memory to write straight into."""

    c_contiguous = f_contiguous = forc = writeable = False


class SparseArray:
    """`values[i]` at `indices[:, i]`, summed where places repeat, and zero elsewhere."""

    __slots__ = ("indices", "values", "shape", "coalesced")
    strides: Any = None  # those of no array
    flags = _Flags

    def __init__(self, indices: Any, values: Any, shape: tuple[int, ...], coalesced: bool = False) -> None:
        self.indices, self.values, self.shape, self.coalesced = indices, values, shape, coalesced

    @property
    def base(self) -> Any:
        """Nobody may keep it as it is: it is made a tensor first."""
        return self

    @property
    def dtype(self) -> Any:
        return self.values.dtype

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        count = 1
        for size in self.shape:
            count *= size
        return count

    @property
    def itemsize(self) -> int:
        return int(self.values.dtype.itemsize)

    @property
    def nbytes(self) -> int:
        return self.size * self.itemsize

    def astype(self, kind: Any, copy: bool = True) -> SparseArray:
        return SparseArray(self.indices, self.values.astype(kind, copy=copy), self.shape, self.coalesced)

    def tensor(self) -> Any:
        """The sparse tensor that holds these arrays."""
        return seams.sparse_tensor(self)

    def add_to(self, array: Array) -> None:
        """Adds it to a dense array in place."""
        place: Any = tuple(self.indices)
        namespace(array).add.at(array, place, self.values)

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, out: Any = None, **options: Any) -> Any:
        if ufunc is not np.add or method != "__call__" or len(inputs) != 2:
            return NotImplemented
        target = out[0] if isinstance(out, tuple) else out
        return add(*inputs, out=None if target is ... else target)


def add(a: Any, b: Any, out: Any = None) -> Any:
    """The sum of two arrays of which at least one is sparse: sparse, where both are."""
    if type(a) is SparseArray and type(b) is SparseArray and a.indices.shape[0] == b.indices.shape[0]:
        xp = namespace(a.values)
        indices = xp.concatenate([a.indices, b.indices], 1)
        return SparseArray(indices, xp.concatenate([a.values, b.values], 0), a.shape)
    if type(a) is SparseArray:
        a, b = (b, a) if type(b) is not SparseArray else (dense(a), b)
    if out is None or out is ...:
        out = a.copy()
    elif out is not a:
        out[...] = a
    b.add_to(out)
    return out


def dense(array: SparseArray) -> Any:
    """All elements of it."""
    made = namespace(array.values).zeros(array.shape, array.dtype)
    array.add_to(made)
    return made


class _Module:
    """The few functions of an array module that the engine needs of gradients."""

    add = staticmethod(add)

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"sparse arrays have no function {name!r}")


MODULES[SparseArray] = cast(ArrayModule, _Module())
