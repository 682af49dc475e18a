"""Where loaded tensors go: what `map_location` means.

Takes the user's `map_location` and the device that a file names; gives the device. One idea: PyTorch's rules,
on a machine that has no other device than the CPU (and `meta`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from weft.core.device import as_device, cpu, device, meta
from weft.tensor.storage import UntypedStorage

Place = Callable[[str, UntypedStorage], "UntypedStorage | device"]
NO_CUDA = (
    "Attempting to deserialize object on a CUDA device but weft.cuda.is_available() is False. If you are "
    "running on a CPU-only machine, please use weft.load with map_location=weft.device('cpu') to map your "
    "storages to the CPU."
)


def restored(location: str) -> device:
    """The device of this name, if there is one."""
    kind = location.partition(":")[0]
    if kind == "cpu":
        return cpu
    if kind == "meta":
        return meta
    if kind == "cuda":
        raise RuntimeError(NO_CUDA)
    raise RuntimeError(
        f"don't know how to restore data location of weft.UntypedStorage (tagged with {location[:80]})"
    )


def placer(map_location: Any) -> Place:
    """A function from a location and the storage read for it to a storage or a device."""
    if map_location is None:
        return lambda location, storage: restored(location)
    if isinstance(map_location, Mapping):
        known = {str(key): str(value) for key, value in map_location.items()}
        return lambda location, storage: restored(known.get(location, location))
    if isinstance(map_location, (str, device)):
        where = restored(str(as_device(map_location)))
        return lambda location, storage: where
    if not callable(map_location):
        raise TypeError(f"map_location cannot be of type {type(map_location).__name__}")

    def ask(location: str, storage: UntypedStorage) -> UntypedStorage | device:
        try:
            found = map_location(storage, location)
        except Exception as error:
            ask.failure = error  # type: ignore[attr-defined]
            raise
        if found is None:
            return restored(location)
        return found.untyped() if hasattr(found, "untyped") else restored(str(found))

    return ask
