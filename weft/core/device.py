"""Devices: where a tensor's elements live. `cpu` holds arrays, `meta` holds types only, others await their
backends.

`with device("meta"):` and `set_default_device` say where new tensors go that name no device:
`creation_device` reads them.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from functools import wraps
from typing import Any, ClassVar, Final, ParamSpec, TypeAlias, TypeVar

from weft.core.naming import OURS, named, naming
from weft.core.settings import change_default

KNOWN: Final = ("cpu", "meta", "cuda")
NAMES: Final = (
    "cpu", "cuda", "ipu", "xpu", "mkldnn", "opengl", "opencl", "ideep", "hip", "ve", "fpga", "maia", "xla",
    "lazy", "vulkan", "mps", "meta", "hpu", "mtia", "privateuseone",
)  # fmt: skip
"""What PyTorch's message lists, whatever a build can use."""

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


class device:
    """A device type and an optional index, written `device("cpu")` or `device("cuda", 0)`."""

    __module__ = "weft"  # where users find it

    __slots__ = ("type", "index")
    type: str
    index: int | None

    def __init__(self, type: device | str, index: int | None = None) -> None:
        if isinstance(type, device):
            self.type, self.index = type.type, type.index
            return
        if not isinstance(type, str):
            raise TypeError(f"device(): argument 'type' must be str or device, not {type.__class__.__name__}")
        name, colon, number = type.partition(":")
        if colon:
            if index is not None:
                raise RuntimeError(
                    f"type (string) must not include an index because index was passed explicitly: {type}"
                )
            if not number.isdigit():
                raise RuntimeError(f"Invalid device string: '{type}'")
            index = int(number)
        if name not in KNOWN:
            raise RuntimeError(
                f"Expected one of {', '.join(NAMES)} device type at start of device string: {type}"
            )
        self.type, self.index = name, index

    def __repr__(self) -> str:
        return (
            f"device(type='{self.type}')"
            if self.index is None
            else f"device(type='{self.type}', index={self.index})"
        )

    def __str__(self) -> str:
        return self.type if self.index is None else f"{self.type}:{self.index}"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, device) and (other.type, other.index) == (self.type, self.index)

    def __hash__(self) -> int:
        return hash((self.type, self.index))

    def __reduce__(self) -> Any:
        return device, (self.type, self.index)

    def __enter__(self) -> device:
        _entered.set((*_entered.get(), self))
        return self

    def __exit__(self, *_error: object) -> None:
        _entered.set(_entered.get()[:-1])

    def __call__(self, function: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
        """As a decorator: the function runs with this device as the default."""

        @wraps(function)
        def inside(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Result:
            with self:
                return function(*args, **kwargs)

        return inside


PLACES: Final[dict[tuple[str, int], device]] = {}
"""Devices other than the CPU on which tensors can be made, by type and index (`weft.core.devices`)."""
_entered: ContextVar[tuple[device, ...]] = ContextVar("weft_devices", default=())

cpu: Final = device("cpu")
meta: Final = device("meta")


Where: TypeAlias = device | str | int | None
"""What a `device=` argument may be; indices only name accelerators."""


def as_device(where: device | str | None) -> device:
    """The device meant by a device, a string, or None (the CPU)."""
    if where is None:
        return cpu
    return where if isinstance(where, device) else device(where)


class Default:
    """The device of new tensors outside of any `with device(...)`."""

    device: device = cpu
    watchers: ClassVar[list[Callable[[], None]]] = []
    """Called after a change: compiled code does not ask, it is told."""


def get_default_device() -> device:
    """The device on which new tensors are made that name none."""
    entered = _entered.get()
    return entered[-1] if entered else Default.device


def is_plain() -> bool:
    """Whether new tensors that name no device go to the CPU."""
    return Default.device is cpu and not _entered.get()


def set_default_device(device: Where) -> None:
    """Sets the device on which new tensors are made that name none; None is the CPU."""
    change_default(Default, "device", creation_device(cpu if device is None else device))


def creation_device(where: Where) -> device:
    """Where a new tensor goes for this `device=` argument, or the error that says that it cannot."""
    if where is None:
        return get_default_device()
    if isinstance(where, int) and not isinstance(where, bool):
        raise RuntimeError("Cannot access accelerator device when none is available.")
    if not isinstance(where, (device, str)):
        raise TypeError(named(f"argument 'device' must be weft.device, not {type(where).__name__}"))
    found = as_device(where)
    known = PLACES.get((found.type, found.index or 0))
    if known is not None:
        return known
    if found.type == "cuda":
        who = "Weft" if naming.namespace == OURS else "Torch"
        raise AssertionError(f"{who} not compiled with CUDA enabled")
    return meta if found.type == "meta" else cpu
