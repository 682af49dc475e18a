"""Storage: the memory under tensors, as bytes; and the methods that move a tensor to other memory.

Takes tensors, gives `UntypedStorage` objects, one per piece of memory while it is referenced. One idea: the
storage of an array is the last array of its chain of bases, and a window of bytes over that array's extent is
all a storage needs.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from gc import get_objects
from sys import getrefcount
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary, ref

import numpy as np

from weft.core.arrays import is_array, namespace
from weft.core.device import device, meta
from weft.core.devices import device_at, device_of
from weft.core.dtypes import BY_NUMPY, dtype
from weft.core.types import memory_format, preserve_format
from weft.core.warn import warn_at_level
from weft.ops.options import strides_in
from weft.tensor.base import PUBLIC, Tensor, address, method, public, storage_root
from weft.tensor.interchange import adopt, is_lent
from weft.tensor.meta import MetaArray, contiguous_strides

if TYPE_CHECKING:
    from weft.core.device import Where


_KNOWN: WeakValueDictionary[int, UntypedStorage] = WeakValueDictionary()
"""Storages that somebody holds, by the id of their root array (which they keep alive)."""
_SHORTENED: dict[int, tuple[ref[Any], int]] = {}
"""How many bytes of a root array count, by its id, where a storage was made shorter."""


class UntypedStorage:
    """A piece of memory, byte by byte."""

    __slots__ = ("bytes", "root", "owner", "__weakref__")

    def __init__(self, size: Any = 0, *, device: Any = None) -> None:
        if isinstance(size, int):
            self._hold(device_at(device).xp.empty(size, np.uint8))
        else:
            self._hold(device_at(device).xp.array(list(size), np.uint8))

    @classmethod
    def from_file(cls, filename: str, shared: bool = False, nbytes: int = 0) -> UntypedStorage:
        """The bytes of a file as memory; what is written there reaches the file where it is shared."""
        if shared and not os.path.exists(filename):
            with open(filename, "wb") as made:
                made.truncate(nbytes)
        if not (nbytes or os.path.getsize(filename)):
            return cls(0)
        return cls._on(
            np.memmap(filename, np.uint8, "r+" if shared else "c", shape=nbytes or None).view(np.ndarray)
        )

    @classmethod
    def _on(cls, root: Any) -> UntypedStorage:
        """A storage whose memory is an array's."""
        made = cls.__new__(cls)
        made._hold(root)
        return made

    def _hold(self, root: Any) -> None:
        self.root = root
        self.owner: Any = None  # the tensor that follows a resize
        self.bytes: Any = None
        if type(root) is not MetaArray:
            short = _SHORTENED.get(id(root))
            size = short[1] if short is not None and short[0]() is root else None
            self.bytes = device_of(root).extent(root)[:size]

    @property
    def device(self) -> device:
        return meta if self.bytes is None else device_of(self.bytes).place

    @property
    def is_cuda(self) -> bool:
        return self.device.type == "cuda"

    def nbytes(self) -> int:
        return int(self.root.nbytes) if self.bytes is None else int(self.bytes.size)

    size = __len__ = nbytes

    def __sizeof__(self) -> int:
        return super().__sizeof__() + self.nbytes()

    def element_size(self) -> int:
        return 1

    def data_ptr(self) -> int:
        return 0 if self.bytes is None or not self.bytes.size else address(self.bytes)

    def resizable(self) -> bool:
        return self.bytes is None or not is_lent(self.root)

    def check_resizable(self) -> None:
        if not self.resizable():
            raise RuntimeError("Trying to resize storage that is not resizable")

    def resize_(self, size: int) -> UntypedStorage:
        """As many bytes; tensors in it stay in it. A shorter storage keeps its memory, and so has it again
        when it grows (programs free parameters like that); a longer one moves, with the tensors that lie in
        it.
        """
        self.check_resizable()
        whole = None if self.bytes is None else device_of(self.root).extent(self.root)
        if whole is None or size > whole.size:
            return self.moved(size, _tensors_in(self.root))
        key = id(self.root)
        gone = ref(self.root, lambda gone: _forget(key, gone))
        _SHORTENED[key] = gone, size
        self.bytes = whole[:size]
        return self

    def moved(self, size: int, tensors: list[Tensor]) -> UntypedStorage:
        """As `resize_`, with these tensors, and the one that this storage was asked from, of those in it."""
        self.check_resizable()
        grown = namespace(self.bytes).empty(size, np.uint8)
        keep = min(size, self.bytes.size)
        grown[:keep] = self.bytes[:keep]
        owner = self.owner
        places = [(tensor, tensor.storage_offset()) for tensor in tensors if tensor is not owner]
        if owner is not None:
            places.append((owner, owner.storage_offset()))
        self._hold(grown)
        self.owner = owner
        _KNOWN[id(grown)] = self
        for tensor, offset in places:
            if reach(tensor.array.shape, tensor.stride(), offset) * tensor.itemsize <= size:
                tensor.array = over(self, tensor.array.dtype, offset, tensor.array.shape, tensor.stride())
        return self

    def copy_(self, source: UntypedStorage, non_blocking: bool = False) -> UntypedStorage:
        if source.nbytes() != self.nbytes():
            raise RuntimeError(
                f"size does not match, self was {self.nbytes()} bytes but src was {source.nbytes()} bytes"
            )
        self.bytes[...] = source.bytes
        return self

    def fill_(self, value: int) -> UntypedStorage:
        self.bytes[...] = value
        return self

    def clone(self) -> UntypedStorage:
        return UntypedStorage._on(self.bytes.copy())

    def tolist(self) -> list[int]:
        found: list[int] = self.bytes.tolist()
        return found

    def cpu(self) -> UntypedStorage:
        return self

    def is_shared(self) -> bool:
        return False

    def share_memory_(self) -> UntypedStorage:
        return self

    def is_pinned(self, device: Where = None) -> bool:
        return False

    def untyped(self) -> UntypedStorage:
        return self

    def __getitem__(self, place: Any) -> Any:
        if isinstance(place, slice):
            return UntypedStorage._on(self.bytes[place])
        size = self.nbytes()
        if not -size <= place < size:
            raise IndexError(f"index {place} out of range for storage of size {size}")
        return int(self.bytes[place])

    def __setitem__(self, place: object, value: int) -> None:
        self.bytes[place] = value

    def __iter__(self) -> Iterator[int]:
        return iter(self.tolist())

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, UntypedStorage):
            return NotImplemented
        return self is other or (
            self.data_ptr() != 0 and (self.data_ptr(), self.nbytes()) == (other.data_ptr(), other.nbytes())
        )

    def __hash__(self) -> int:
        return hash((self.data_ptr(), self.nbytes()))

    def __repr__(self) -> str:
        rows = "" if self.bytes is None else "".join(f" {value}\n" for value in self.bytes)
        return f"{rows}[weft.storage.UntypedStorage(device={self.device}) of size {self.nbytes()}]"

    def __reduce__(self) -> Any:
        return storage_of_bytes, (self.bytes.tobytes(),)

    def __copy__(self) -> UntypedStorage:
        return self.clone()

    def __deepcopy__(self, memo: dict[int, Any]) -> UntypedStorage:
        made = memo.get(id(self))
        if made is None:
            made = memo[id(self)] = self.clone()
        return made


def _forget(key: int, gone: ref[Any]) -> None:
    """Drops what is known of a root array that is gone; another one may have its id by now."""
    known = _SHORTENED.get(key)
    if known is not None and known[0] is gone:
        _SHORTENED.pop(key, None)


def storage_of_bytes(content: bytes) -> UntypedStorage:
    """A storage with this content."""
    return UntypedStorage._on(np.frombuffer(content, np.uint8).copy())


class TypedStorage:
    """A storage read as elements of one dtype (deprecated in PyTorch, and minimal here)."""

    __slots__ = ("_untyped", "dtype")

    def __init__(self, untyped: UntypedStorage, kind: dtype) -> None:
        self._untyped, self.dtype = untyped, kind

    def untyped(self) -> UntypedStorage:
        return self._untyped

    def _elements(self) -> Any:
        return self._untyped.bytes.view(self.dtype.numpy)

    @property
    def device(self) -> device:
        return self._untyped.device

    def nbytes(self) -> int:
        return self._untyped.nbytes()

    def __sizeof__(self) -> int:
        return super().__sizeof__() + self.nbytes()

    def size(self) -> int:
        return self._untyped.nbytes() // self.dtype.itemsize

    __len__ = size

    def resize_(self, size: int) -> TypedStorage:
        """As many elements."""
        self._untyped.resize_(size * self.dtype.itemsize)
        return self

    def element_size(self) -> int:
        return self.dtype.itemsize

    def data_ptr(self) -> int:
        return self._untyped.data_ptr()

    def tolist(self) -> list[Any]:
        found: list[Any] = self._elements().tolist()
        return found

    def __getitem__(self, place: int) -> Any:
        return self._elements()[place].item()

    def __setitem__(self, place: object, value: object) -> None:
        self._elements()[place] = value

    def __iter__(self) -> Iterator[Any]:
        return iter(self.tolist())

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, TypedStorage) and other._untyped == self._untyped and other.dtype is self.dtype
        )

    def __hash__(self) -> int:
        return hash(self._untyped)

    def __repr__(self) -> str:
        rows = "".join(f" {value}\n" for value in self.tolist())
        where = f"(dtype={self.dtype}, device={self.device})"
        return f"{rows}[weft.storage.TypedStorage{where} of size {self.size()}]"


PUBLIC.update(UntypedStorage=UntypedStorage, TypedStorage=TypedStorage)


@public
def is_storage(obj: object) -> bool:
    """Whether the object is a storage."""
    return isinstance(obj, (UntypedStorage, TypedStorage))


def storage_of(tensor: Tensor) -> UntypedStorage:
    """The storage of a tensor: one object for all that share memory, as long as somebody holds it."""
    root = storage_root(tensor.array)
    found = _KNOWN.get(id(root))
    if found is None or found.root is not root:
        found = _KNOWN[id(root)] = UntypedStorage._on(root)
    found.owner = tensor
    return found


def over(
    storage: UntypedStorage, kind: np.dtype[Any], offset: int, size: tuple[int, ...], stride: tuple[int, ...]
) -> Any:
    """An array over a storage; offset and strides count elements."""
    steps: Any = tuple(step * kind.itemsize for step in stride)
    if storage.bytes is None:
        return MetaArray(size, kind, steps)
    if 0 in size:
        steps, offset = None, min(offset, storage.nbytes() // kind.itemsize)
    return device_of(storage.bytes).window(storage.bytes, size, kind, offset * kind.itemsize, steps)


def reach(size: tuple[int, ...], stride: tuple[int, ...], offset: int) -> int:
    """How many elements a storage must have for these sizes and strides."""
    return 0 if 0 in size else offset + 1 + sum((n - 1) * step for n, step in zip(size, stride, strict=True))


# -- methods -------------------------------------------------------------------------------------------------
@method
def untyped_storage(self: Tensor) -> UntypedStorage:
    """The memory under this tensor."""
    return storage_of(self)


@method
def storage(self: Tensor) -> TypedStorage:
    """The memory under this tensor, read as its dtype."""
    warn_at_level(
        "TypedStorage is deprecated. It will be removed in the future and UntypedStorage will be the only "
        "storage class. This "
        "should only matter to you if you are using storages directly.  To access UntypedStorage directly, "
        "use "
        "tensor.untyped_storage() instead of tensor.storage()",
        UserWarning,
        stacklevel=2,
    )
    return TypedStorage(storage_of(self), self.dtype)


@method
def is_set_to(self: Tensor, tensor: Tensor) -> bool:
    """Whether both tensors are the same elements of the same memory."""
    same = self.array.shape == tensor.array.shape and self.stride() == tensor.stride()
    return (
        same and storage_of(self) == storage_of(tensor) and self.storage_offset() == tensor.storage_offset()
    )


@method
def set_(
    self: Tensor,
    source: object = None,
    storage_offset: int = 0,
    size: Sequence[int] | None = None,
    stride: Sequence[int] | None = None,
) -> Tensor:
    """Makes this tensor a tensor on other memory: a tensor's, or a part of a storage."""
    if self.tracked:
        raise RuntimeError("set_() on a Tensor that requires grad is not supported; use .detach() or no_grad")
    if source is None:
        self.array = namespace(self.array).empty(0, self.array.dtype)
    else:
        if isinstance(source, Tensor) and source.dtype is not self.dtype:
            raise RuntimeError(
                f"Could not set tensor of type {source.dtype.cpp_name} to a tensor of type "
                f"{self.dtype.cpp_name}"
            )
        if isinstance(source, Tensor) and size is None:
            self.array = source.array
        else:
            self.array = _part(self, source, storage_offset, size, stride)
    self.origin = None
    self.bump()
    return self


def _part(self: Tensor, source: Any, offset: int, size: Any, stride: Any) -> Any:
    held = storage_of(source) if isinstance(source, Tensor) else source.untyped()
    kind = self.array.dtype
    if size is None:
        size = (held.nbytes() // kind.itemsize - offset,)
    size = (size,) if isinstance(size, int) else tuple(size)
    stride = contiguous_strides(size) if stride is None else tuple(stride)
    if len(size) != len(stride):
        raise RuntimeError(
            f"mismatch in length of strides and shape. Input has {len(size)} sizes, {len(stride)} strides"
        )
    if offset < 0:
        raise RuntimeError(f"Tensor: invalid storage offset {offset}")
    needed = reach(size, stride, offset) * kind.itemsize
    if needed > held.nbytes():
        held.owner = None
        held.resize_(needed)
    return over(held, kind, offset, size, stride)


def _is_shared(self: Tensor) -> bool:
    """Whether anybody else may have memory of this tensor. Nobody has where each array that leads to it, from
    the tensor's own to the one that owns it, is held by the one before it alone.
    """
    holder = self.array
    if getrefcount(holder) > 3:  # the tensor, the name and the argument
        return True
    while getattr(holder, "base", None) is not None:
        if getrefcount(holder.base) > 2:  # the array and the argument
            return True
        holder = holder.base
    return False


def _tensors_in(root: object) -> list[Tensor]:
    """All tensors whose memory is this array's. Arrays do not know their views, so all objects are asked."""
    found = []
    for each in get_objects():
        if issubclass(type(each), Tensor):
            array = getattr(each, "array", None)
            if is_array(array) and storage_root(array) is root:
                found.append(each)
    return found


def rearrange(self: Tensor, size: tuple[int, ...], stride: tuple[int, ...]) -> None:
    """Gives a tensor other sizes in its memory, which grows where it is too small, for all that lie in it."""
    shared = _is_shared(self)
    held, kind = storage_of(self), self.array.dtype
    offset = self.storage_offset()
    needed = reach(size, stride, offset) * kind.itemsize
    if needed > held.nbytes():
        held.moved(needed, _tensors_in(held.root) if shared else [])
    self.array = over(held, kind, offset, size, stride)


@method
def resize_(self: Tensor, *sizes: Any, memory_format: memory_format | None = None) -> Tensor:
    """Gives this tensor another shape, row-major; more memory is taken where needed, and left unset."""
    size = tuple(sizes[0]) if len(sizes) == 1 and not isinstance(sizes[0], int) else sizes
    if self.tracked:
        raise RuntimeError("cannot resize variables that require grad")
    if any(n < 0 for n in size):
        raise RuntimeError(f"Trying to create tensor with negative dimension {min(size)}: {list(size)}")
    if memory_format is preserve_format:
        raise RuntimeError("Unsupported memory format Preserve")
    if size == self.array.shape and memory_format is None:
        return self
    kind = self.array.dtype
    stride = contiguous_strides(size) if memory_format is None else strides_in(size, memory_format)
    if self.is_meta:
        self.array = MetaArray(size, kind, [step * kind.itemsize for step in stride])
        return self
    rearrange(self, size, stride)
    self.bump()
    return self


@method
def resize_as_(self: Tensor, the_template: Tensor, memory_format: memory_format | None = None) -> Tensor:
    """Gives this tensor the other's shape."""
    return resize_(self, the_template.shape, memory_format=memory_format)


@method
def is_pinned(self: Tensor, device: Where = None) -> bool:
    """False: memory is never pinned."""
    return False


@method
def pin_memory(self: Tensor, device: Where = None) -> Tensor:
    """Raises: there is no accelerator to pin memory for."""
    raise RuntimeError("Cannot access accelerator device when none is available.")


@method
def is_shared(self: Tensor) -> bool:
    """False: memory is not shared between processes."""
    return False


@method
def share_memory_(self: Tensor) -> Tensor:
    """The tensor itself: memory is shared between threads as it is, and never between processes."""
    return self


def rebuild(
    storage: UntypedStorage, kind: dtype, offset: int, size: tuple[int, ...], stride: tuple[int, ...]
) -> Any:
    """An array as pickles and deep copies describe it, whose root is the storage's."""
    return over(storage, kind.numpy, offset, size, stride)


def described(tensor: Tensor) -> tuple[UntypedStorage, dtype, int, tuple[int, ...], tuple[int, ...]]:
    """What `rebuild` takes."""
    held = storage_of(tensor)
    held.owner = None
    return held, BY_NUMPY[tensor.array.dtype], tensor.storage_offset(), tensor.array.shape, tensor.stride()


__all__ = ["TypedStorage", "UntypedStorage", "adopt", "described", "rebuild", "storage_of"]
