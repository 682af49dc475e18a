"""Interchange with other array libraries: NumPy arrays, array protocols and DLPack, both ways, without
copies.

Takes foreign arrays and gives tensors on the same memory, or the other way round. One idea: the elements are
a NumPy array already, so all that happens here is checking what the other side may not see (gradients, meta
tensors, byte orders).
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

import numpy as np

from weft.core.device import creation_device
from weft.core.dtypes import BY_NUMPY, bfloat16, dtype, get_default_dtype
from weft.core.errors import argument_name
from weft.core.modes import grad_enabled
from weft.core.naming import named
from weft.core.warn import warn_at_level
from weft.tensor.base import PUBLIC, Tensor, fresh, method, public, storage_root

if TYPE_CHECKING:
    from weft.core.arrays import Array
    from weft.core.device import Where


_SUPPORTED = "float64, float32, float16, complex64, complex128, int64, int32, int16, int8, uint8, and bool"
_READ_ONLY = (
    "The given {what} is not writable, and Weft does not support non-writable tensors. This means that "
    "writing to the tensor "
    "will fail or change the {what} behind its owner's back. You may want to copy the {what} to protect its "
    "data or make it "
    "writable before converting it to a tensor."
)


class Owner:
    """Keeps a foreign array alive under the array that a tensor holds, so that the tensor's storage begins
    and ends with it.
    """

    __slots__ = ("__array_interface__", "array")

    def __init__(self, array: Any) -> None:
        self.array = array
        self.__array_interface__ = {
            "version": 3,
            "data": (array.__array_interface__["data"][0], False),
            "shape": array.shape,
            "strides": array.strides,
            "typestr": array.dtype.str if array.dtype is not bfloat16.numpy else "<u2",
        }


_LENT: WeakValueDictionary[int, Any] = WeakValueDictionary()
"""Whole arrays that others hold as well, by their ids: tensors were made from them, or they from tensors."""


def is_lent(root: Any) -> bool:
    """Whether somebody else holds the memory of a storage, who would not move along with it."""
    return isinstance(root.base, Owner) or _LENT.get(id(root)) is root


def adopt(array: Array) -> Any:
    """An array on the same memory whose chain of bases ends there: what a tensor made from it counts as its
    storage.
    """
    if array.base is None and type(array) is np.ndarray:
        _LENT[id(array)] = array
        return array.view()
    held = np.asarray(Owner(array))
    return held if held.dtype == array.dtype else held.view(array.dtype)


def checked_array(array: Any) -> Any:
    """The array, of a dtype that tensors have; or the error that says why it cannot be a tensor."""
    kind = BY_NUMPY.get(array.dtype)
    if kind is None:
        native = array.dtype.newbyteorder("=")
        if native in BY_NUMPY and native != array.dtype:
            raise ValueError(
                "given numpy array has byte order different from the native byte order. Conversion between "
                "byte orders is "
                "currently not supported."
            )
        raise TypeError(
            f"can't convert np.ndarray of type {array.dtype.type.__module__}.{array.dtype.type.__name__}. "
            f"The only supported "
            f"types are: {_SUPPORTED}."
        )
    if any(step < 0 for step in array.strides):
        raise ValueError(
            "At least one stride in the given numpy array is negative, and tensors with negative strides "
            "are not currently "
            "supported. (You can probably work around this by making a copy of your array  with "
            "array.copy().) "
        )
    if any(step % array.dtype.itemsize for step in array.strides):
        raise ValueError(
            "given numpy array strides not a multiple of the element byte size. Copy the numpy array to "
            "reallocate the memory."
        )
    # the dtype object itself is what fast paths compare, and unpickled arrays bring another
    return array if array.dtype is kind.numpy else array.view(kind.numpy)


def alias_array(array: Array) -> Tensor:
    """A tensor on the memory of a NumPy array."""
    array = checked_array(array)
    if not array.flags.writeable:
        warn_at_level(named(_READ_ONLY.format(what="NumPy array")), UserWarning, stacklevel=3)
    return fresh(adopt(array))


@public
def from_numpy(ndarray: object) -> Tensor:
    """A tensor that shares the array's memory."""
    if not isinstance(ndarray, np.ndarray):
        raise TypeError(f"expected np.ndarray (got {argument_name(type(ndarray))})")
    return alias_array(ndarray)


@public
def from_file(
    filename: str, shared: bool | None = None, size: int = 0, *, dtype: dtype | None = None,
    layout: object = None, device: Where = None, pin_memory: bool = False,
) -> Tensor:  # fmt: skip
    """A tensor of `size` elements on a file's memory. Where it is shared, the file is made as long as it must
    be, and what is written goes there; otherwise nobody else sees it.
    """
    kind = (get_default_dtype() if dtype is None else dtype).numpy
    wanted = size * kind.itemsize
    if shared and (not os.path.exists(filename) or os.path.getsize(filename) < wanted):
        with open(filename, "ab") as file:
            file.truncate(wanted)
    if not os.path.exists(filename):
        raise RuntimeError(
            f"unable to open file <{filename}> in read-only mode: No such file or directory (2)"
        )
    if os.path.getsize(filename) < wanted:
        raise RuntimeError(
            f"file <{filename}> size <{os.path.getsize(filename)}> is smaller than the required mapping size "
            f"<{wanted}>"
        )
    if not size:
        return fresh(np.zeros(0, kind))
    mapped = np.memmap(filename, np.uint8, "r+" if shared else "c", shape=(wanted,))
    return alias_array(mapped.view(np.ndarray).view(kind))


@method
def numpy(self: Tensor, *, force: bool = False) -> Any:
    """The elements as a NumPy array on the same memory; `force` detaches first."""
    where = self.device
    if where.type != "cpu":
        raise TypeError(
            f"can't convert {where} device type tensor to numpy. Use Tensor.cpu() to copy the tensor to host "
            "memory first."
        )
    if self.tracked and not force and grad_enabled():
        raise RuntimeError(
            "Can't call numpy() on Tensor that requires grad. Use tensor.detach().numpy() instead."
        )
    root = storage_root(self.array)
    _LENT[id(root)] = root
    return self.array.view()


@method
def __array__(self: Tensor, dtype: Any = None, copy: bool | None = None) -> Any:
    array = numpy(self)
    if dtype is None or np.dtype(dtype) == array.dtype:
        return array.copy() if copy else array
    if copy is False:
        raise ValueError("Unable to avoid copy while creating an array as requested.")
    return array.astype(dtype)


@method
def __array_wrap__(self: Tensor, array: Array, context: object = None, return_scalar: bool = False) -> Any:
    """What a NumPy function computed from tensors comes back as a tensor."""
    return from_numpy(np.asarray(array))


# -- DLPack --------------------------------------------------------------------------------------------------
@method
def __dlpack__(
    self: Tensor,
    *,
    stream: object = None,
    max_version: Any = None,
    dl_device: Any = None,
    copy: bool | None = None,
) -> Any:
    """A capsule that lends this tensor's memory to another library."""
    if self.tracked:
        raise BufferError("Can't export tensors that require gradient, use tensor.detach()")
    if self.is_meta:
        raise BufferError("Cannot pack tensors on meta")
    if stream is not None and stream != -1:
        raise AssertionError("stream should be None on cpu.")
    return self.array.__dlpack__(max_version=max_version, dl_device=dl_device, copy=copy)


@method
def __dlpack_device__(self: Tensor) -> tuple[int, int]:
    """DLPack's number of this tensor's device."""
    if self.is_meta:
        raise ValueError("Unknown device type meta for Dlpack")
    return 1, 0


class Capsule:
    """Stands for the owner of a bare capsule, whom NumPy wants to ask for it."""

    __slots__ = ("capsule",)

    def __init__(self, capsule: object) -> None:
        self.capsule = capsule

    def __dlpack__(self, **_options: object) -> Any:
        return self.capsule

    def __dlpack_device__(self) -> tuple[int, int]:
        return 1, 0


@public
def from_dlpack(ext_tensor: object, *, device: Where = None, copy: bool | None = None) -> Tensor:
    """A tensor on the memory of another library's array (or of a DLPack capsule)."""
    if isinstance(ext_tensor, Tensor) and ext_tensor.tracked:
        raise BufferError("Can't export tensors that require gradient, use tensor.detach()")
    if not hasattr(ext_tensor, "__dlpack__"):
        if type(ext_tensor).__name__ != "PyCapsule":
            raise RuntimeError(
                "from_dlpack received an invalid capsule. Note that DLTensor capsules can be consumed only "
                "once, so you might "
                "have already constructed a tensor from it once."
            )
        ext_tensor = Capsule(ext_tensor)
    if device is not None:
        creation_device(device)
    array = np.from_dlpack(ext_tensor, copy=copy) if copy is not None else np.from_dlpack(ext_tensor)
    return fresh(checked_array(array))


@public
def to_dlpack(tensor: Tensor) -> Any:
    """A DLPack capsule for this tensor."""
    return __dlpack__(tensor)


@public
def frombuffer(
    buffer: Any, *, dtype: Any, count: int = -1, offset: int = 0, requires_grad: bool = False
) -> Tensor:
    """A one-dimensional tensor on the memory of a buffer."""
    size = memoryview(buffer).nbytes
    if not size:
        raise ValueError(f"both buffer length ({size}) and count ({count}) must not be 0")
    if not 0 <= offset < size:
        raise ValueError(
            f"offset ({offset} bytes) must be non-negative and no greater than buffer length ({size} bytes) "
            f"minus 1"
        )
    if (count < 0 and count != -1) or count == 0:
        raise ValueError(f"count ({count}) must be positive or -1")
    if count == -1 and (size - offset) % dtype.itemsize:
        raise ValueError(
            f"buffer length ({size - offset} bytes) after offset ({offset} bytes) must be a multiple of "
            f"element size "
            f"({dtype.itemsize})"
        )
    if count > 0 and offset + count * dtype.itemsize > size:
        raise ValueError(
            f"requested buffer length ({count} * {dtype.itemsize} bytes) after offset ({offset} bytes) must "
            f"not be greater than "
            f"actual buffer length ({size} bytes)"
        )
    array = np.frombuffer(buffer, np.uint8, -1 if count < 0 else count * dtype.itemsize, offset).view(
        dtype.numpy
    )
    if not array.flags.writeable:
        warn_at_level(named(_READ_ONLY.format(what="buffer")), UserWarning, stacklevel=2)
    made = fresh(adopt(array))
    return made.requires_grad_() if requires_grad else made


PUBLIC["utils.dlpack.from_dlpack"] = from_dlpack
PUBLIC["utils.dlpack.to_dlpack"] = to_dlpack
