"""Devices: where a tensor's elements live. `cpu` holds arrays, `meta` holds types only, others await their backends."""

from __future__ import annotations

from typing import Any, Final

KNOWN: Final = ("cpu", "meta", "cuda")


class device:
    """A device type and an optional index, written `device("cpu")` or `device("cuda", 0)`."""

    __slots__ = ("type", "index", "_tokens")
    type: str
    index: int | None

    def __init__(self, type: Any, index: int | None = None) -> None:
        if isinstance(type, device):
            self.type, self.index = type.type, type.index
            return
        if not isinstance(type, str):
            raise TypeError(f"device(): argument 'type' must be str or device, not {type.__class__.__name__}")
        name, colon, number = type.partition(":")
        if colon:
            if index is not None:
                raise RuntimeError(f"type (string) must not include an index because index was passed explicitly: {type}")
            if not number.isdigit():
                raise RuntimeError(f"Invalid device string: '{type}'")
            index = int(number)
        if name not in KNOWN:
            raise RuntimeError(f"Expected one of {', '.join(KNOWN)} device type at start of device string: {type}")
        self.type, self.index = name, index

    def __repr__(self) -> str:
        return f"device(type='{self.type}')" if self.index is None else f"device(type='{self.type}', index={self.index})"

    def __str__(self) -> str:
        return self.type if self.index is None else f"{self.type}:{self.index}"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, device) and (other.type, other.index) == (self.type, self.index)

    def __hash__(self) -> int:
        return hash((self.type, self.index))

    def __reduce__(self) -> Any:
        return device, (self.type, self.index)


cpu: Final = device("cpu")
meta: Final = device("meta")


def as_device(where: Any) -> device:
    """The device meant by a device, a string, or None (the CPU)."""
    if where is None:
        return cpu
    return where if isinstance(where, device) else device(where)
