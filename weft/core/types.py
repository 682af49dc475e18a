"""Shapes and tensor types: what is known of a tensor without its elements."""

from __future__ import annotations

from collections.abc import Iterable
from math import prod
from typing import Any, SupportsIndex, overload

import weft.core.device as devices
import weft.core.dtypes as dtypes
from weft.core.naming import naming
from weft.core.symbolic import describe, size_of


class Size(tuple[int, ...]):
    """A shape: a tuple that prints as PyTorch's and counts its elements."""

    __module__ = "weft"  # where users find it

    __slots__ = ()

    def __new__(cls, sizes: Iterable[Any] = ()) -> Size:
        items = tuple(sizes)
        for position, item in enumerate(items):
            if type(item) is not int:
                if not hasattr(item, "__index__"):
                    raise TypeError(
                        f"{naming.namespace}.Size() takes an iterable of 'int' "
                        f"(item {position} is '{type(item).__name__}')"
                    )
                items = tuple(map(size_of, items))
        return tuple.__new__(cls, items)

    def numel(self) -> int:
        return prod(self)

    def __repr__(self) -> str:
        return f"{naming.namespace}.Size([{', '.join(map(str, self))}])"

    @overload
    def __getitem__(self, key: SupportsIndex) -> int: ...
    @overload
    def __getitem__(self, key: slice) -> Size: ...
    def __getitem__(self, key: SupportsIndex | slice) -> Any:
        item: Any = tuple.__getitem__(self, key)
        return Size(item) if isinstance(key, slice) else item

    def __add__(self, other: Iterable[int]) -> Size:  # type: ignore[override]
        if not isinstance(other, tuple):
            raise TypeError(
                f"can only concatenate tuple (not {type(other).__name__}) to {naming.namespace}.Size"
            )
        return Size(tuple.__add__(self, other))

    def __radd__(self, other: tuple[int, ...]) -> Size:
        return Size(tuple.__add__(tuple(other), self))

    def __mul__(self, times: SupportsIndex) -> Size:
        return Size(tuple.__mul__(self, times))

    __rmul__ = __mul__

    def __reduce__(self) -> Any:
        return Size, (tuple(self),)


class Named:
    """What is known by a name of the library's."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return f"{naming.namespace}.{self.name}"


class memory_format(Named):
    """An order of dimensions in memory: row-major, or channels innermost."""

    __slots__ = ("order",)

    def __init__(self, name: str, order: tuple[int, ...] = ()) -> None:
        super().__init__(name)
        self.order = order  # dimensions from the outermost to the innermost

    def __reduce__(self) -> Any:
        return memory_format_by_name, (self.name,)


contiguous_format = memory_format("contiguous_format")
preserve_format = memory_format("preserve_format")
channels_last = memory_format("channels_last", (0, 2, 3, 1))
channels_last_3d = memory_format("channels_last_3d", (0, 2, 3, 4, 1))
MEMORY_FORMATS = {f.name: f for f in (contiguous_format, preserve_format, channels_last, channels_last_3d)}


def memory_format_by_name(name: str) -> memory_format:
    return MEMORY_FORMATS[name]


class layout(Named):
    """How elements are stored: all of them, or those that are not zero and their places."""

    __slots__ = ()

    def __reduce__(self) -> Any:
        return layout_by_name, (self.name,)


strided = layout("strided")
sparse_coo, sparse_csr, sparse_csc = layout("sparse_coo"), layout("sparse_csr"), layout("sparse_csc")
sparse_bsr, sparse_bsc = layout("sparse_bsr"), layout("sparse_bsc")
LAYOUTS = {f.name: f for f in (strided, sparse_coo, sparse_csr, sparse_csc, sparse_bsr, sparse_bsc)}


def layout_by_name(name: str) -> layout:
    return LAYOUTS[name]


class TensorType:
    """Shape, dtype and device of a tensor: what type rules take and give."""

    __slots__ = ("shape", "dtype", "device")
    shape: tuple[int, ...]
    dtype: dtypes.dtype
    device: devices.device

    def __init__(
        self, shape: Iterable[int], dtype: dtypes.dtype, device: devices.device = devices.cpu
    ) -> None:
        self.shape = tuple(shape)
        self.dtype = dtype
        self.device = device

    @property
    def ndim(self) -> int:
        return len(self.shape)

    def numel(self) -> int:
        return prod(self.shape)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TensorType) and (self.shape, self.dtype, self.device) == (
            other.shape,
            other.dtype,
            other.device,
        )

    def __hash__(self) -> int:
        return hash((self.shape, self.dtype))

    def __repr__(self) -> str:
        return f"{self.dtype.short}[{','.join(map(describe, self.shape))}]"
