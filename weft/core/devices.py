"""Devices as objects: for each class of arrays, how its memory is made, found and computed with.

Takes an array; gives the `Device` that serves its class: the array module, allocation, addresses, views of
memory, ufuncs, scientific functions and the stream. One idea: which device a tensor is on is decided by the
class of its array, so whatever must work on several devices asks here instead of naming NumPy.

# Note [What a device must offer]
`xp` has NumPy's names and conventions: ufuncs take `out=...` and then give an array whatever its rank, also
where a library's own do not know that word. Results have the layouts that NumPy gives them (`order="K"`). A
kernel may mix arrays of one device with numbers, but never with arrays of another: `asarray` and `asnumpy`
are the only ways across. Ufuncs in records are NumPy's; `ufunc` finds a device's own by name. Kernels run in
NumPy's quiet error state (`weft.ops.record.quiet`) wherever their arrays are: a library with warnings of its
own turns them off in `xp`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeVar, cast

import numpy as np

from weft.core.arrays import MODULES, NUMPY, Array, ArrayModule, HostArray
from weft.core.device import PLACES, Where, cpu, creation_device, device
from weft.core.lazy import lazy

ndarray = np.ndarray
Kernel = TypeVar("Kernel", bound=Callable[..., Any])


class Device:
    """One class of arrays and what is done with them below the level of ops."""

    stream: Any = None
    """What work is queued on; None where a call returns after its work is done."""

    def __init__(self, place: device, array_class: type[Any], xp: ArrayModule, special: object) -> None:
        self.place = place
        self.array_class = array_class
        self.xp = xp
        self.special = special  # what has the names of scipy.special

    def __repr__(self) -> str:
        return f"<device {self.place} of {self.array_class.__module__}.{self.array_class.__qualname__}>"

    def asarray(self, value: object, kind: np.dtype[Any] | None = None) -> Array:
        """Numbers and NumPy arrays on this device; an array of the device itself as it is."""
        return self.xp.asarray(value, kind)

    def asnumpy(self, array: Array) -> HostArray:
        """The elements in a NumPy array."""
        raise NotImplementedError

    def address(self, array: Array) -> int:
        """Where the first element is, as a number: comparable among arrays of one device."""
        raise NotImplementedError

    def base(self, array: Array) -> Array:
        """The array that owns the memory in which this one lies."""
        owner = array.base
        return array if owner is None else self.base(owner)

    def window(
        self,
        memory: Array,
        shape: tuple[int, ...],
        kind: np.dtype[Any],
        offset: int,
        strides: Sequence[int] | None = None,
    ) -> Array:
        """A view of a contiguous array's memory; offset and strides are in bytes."""
        raise NotImplementedError

    def extent(self, owner: Array) -> Array:
        """The memory of an array that owns it, as bytes."""
        return self.window(owner, (owner.nbytes,), np.dtype(np.uint8), 0)

    def ufunc(self, kernel: np.ufunc) -> Any:
        """This device's own ufunc of that name."""
        return getattr(self.xp, kernel.__name__)


class HostDevice(Device):
    """NumPy's arrays."""

    def asnumpy(self, array: Array) -> HostArray:
        return np.asarray(array)

    def address(self, array: Any) -> int:
        return int(array.__array_interface__["data"][0])

    def base(self, array: Array) -> Array:
        """Memory may belong to something else in the end (a file, a buffer): then the last array counts."""
        base = array.base
        while base is not None:
            if isinstance(base, ndarray):
                array = base
            base = getattr(base, "base", None)
        return array

    def window(
        self,
        memory: Any,
        shape: tuple[int, ...],
        kind: np.dtype[Any],
        offset: int,
        strides: Sequence[int] | None = None,
    ) -> Array:
        return ndarray(shape, kind, memory, offset, strides)

    def extent(self, owner: Array) -> Array:
        return np.asarray(Window(owner))

    def ufunc(self, kernel: np.ufunc) -> Any:
        return kernel


class Window:
    """The extent of an array as bytes, for NumPy; `base` leads back to the array, so that views of it have
    the same root.
    """

    __slots__ = ("__array_interface__", "base")

    def __init__(self, root: Any) -> None:
        low, high = np.lib.array_utils.byte_bounds(root)
        self.base = root
        self.__array_interface__ = {
            "version": 3, "data": (low, not root.flags.writeable),
            "shape": (high - low if root.size else 0,), "typestr": "|u1",
        }  # fmt: skip


HOST: Final = HostDevice(cpu, ndarray, NUMPY, lazy("scipy.special"))
DEVICES: Final[dict[type, Device]] = {ndarray: HOST}
"""Array classes that tensors may hold, with their devices."""


def register(found: Device) -> None:
    """Makes an array class known: tensors may hold its arrays from now on."""
    MODULES[found.array_class] = found.xp
    DEVICES[found.array_class] = found
    PLACES[found.place.type, found.place.index or 0] = found.place


def forget(found: Device) -> None:
    """Takes a registration back."""
    PLACES.pop((found.place.type, found.place.index or 0), None)
    DEVICES.pop(found.array_class, None)
    MODULES.pop(found.array_class, None)


def device_of(*values: object) -> Device:
    """The device whose arrays are among these values: the CPU, unless one belongs elsewhere."""
    for value in values:
        found = DEVICES.get(type(value))
        if found is not None and found is not HOST:
            return found
    return HOST


def transfer(array: Array, to: Device) -> Array:
    """The array on a device: itself if it is there."""
    here = device_of(array)
    return array if here is to else to.asarray(here.asnumpy(array))


def special_functions(*arrays: Array) -> Any:
    """What has the names of `scipy.special` for these arrays."""
    return device_of(*arrays).special


def on_host(kernel: Kernel) -> Kernel:
    """Decorator: a kernel that only the CPU has (LAPACK's). Arrays of other devices are brought there,
    and the results back.
    """

    @functools.wraps(kernel)
    def run(*args: Any) -> Any:
        device = device_of(*args)
        if device is HOST:
            return kernel(*args)
        out = kernel(*[device.asnumpy(arg) if type(arg) is device.array_class else arg for arg in args])
        return tuple(map(device.asarray, out)) if type(out) is tuple else device.asarray(out)

    return cast(Kernel, run)


def device_at(place: Where) -> Device:
    """The device object for a `device=` argument as kernels are given it: None is the CPU."""
    if place is None or place is cpu:
        return HOST
    wanted = creation_device(place)
    return next(found for found in DEVICES.values() if found.place == wanted)
