"""The switches behind autocast: enabled or not and which dtype, per device type; the cache of casts.

Takes and gives plain values. One idea: only an enabled CPU autocast is a mode that ops see (so that a
disabled one costs nothing); everything else is kept beside, in one record.
"""

from __future__ import annotations

from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from typing import Any

from weft.amp.casting import NAME, Autocast, Cache, active, without_autocast
from weft.core import modes
from weft.core.device import device
from weft.core.dtypes import bfloat16, dtype, float16
from weft.core.warn import warn_at_level

__all__ = [
    "autocast_decrement_nesting",
    "autocast_increment_nesting",
    "clear_autocast_cache",
    "get_autocast_cpu_dtype",
    "get_autocast_dtype",
    "get_autocast_gpu_dtype",
    "is_autocast_cache_enabled",
    "is_autocast_cpu_enabled",
    "is_autocast_enabled",
    "set_autocast_cache_enabled",
    "set_autocast_cpu_dtype",
    "set_autocast_cpu_enabled",
    "set_autocast_dtype",
    "set_autocast_enabled",
    "set_autocast_gpu_dtype",
]


@dataclass(frozen=True, eq=False)
class Settings:
    """What is set now, besides what the active mode says."""

    dtypes: dict[str, dtype] = field(default_factory=lambda: {"cpu": bfloat16, "cuda": float16})
    others: frozenset[str] = frozenset()  # other device types that are enabled: nothing runs there
    caching: bool = True
    nesting: int = 0
    cache: Cache = field(default_factory=Cache)


settings: ContextVar[Settings | None] = ContextVar("weft_autocast", default=None)


def current() -> Settings:
    value = settings.get()
    if value is None:
        value = Settings()  # a cache of its own for every context
        settings.set(value)
    return value


def _known(device_type: str) -> str:
    """The device type, or the error of an unknown one."""
    if device_type in ("cpu", "cuda"):
        return device_type
    device(device_type)  # raises for what is no device at all
    raise RuntimeError("unsupported scalarType")


def is_autocast_available(device_type: str) -> bool:
    """Whether autocast knows this type of device."""
    return device_type in ("cpu", "cuda") or bool(device(device_type) and False)


def put(enabled: bool, kind: dtype, caching: bool) -> None:
    """Sets all that concerns the CPU at once."""
    now = current()
    settings.set(replace(now, dtypes={**now.dtypes, "cpu": kind}, caching=caching))
    extra = without_autocast(modes.modes().extra)
    if enabled:
        extra = (*extra, (NAME, Autocast(kind, caching, now.cache)))
    elif active() is None:
        return
    modes.enter(extra=extra)


def is_autocast_enabled(device_type: str | None = None) -> bool:
    """Whether autocast is on for this type of device (without one: for CUDA, as ever)."""
    if device_type is None:
        device_type = "cuda"
    if _known(device_type) == "cpu":
        return active() is not None
    return device_type in current().others


def get_autocast_dtype(device_type: str) -> dtype:
    """The dtype that autocast lowers to."""
    mode = active() if _known(device_type) == "cpu" else None
    return current().dtypes[device_type] if mode is None else mode.dtype


def is_autocast_cache_enabled() -> bool:
    """Whether autocast remembers the casts of parameters."""
    mode = active()
    return current().caching if mode is None else mode.caching


def set_autocast_enabled(device_type: Any, enabled: bool | None = None) -> None:
    """`set_autocast_enabled(device_type, enabled)`; with one argument, for CUDA."""
    if enabled is None:
        device_type, enabled = "cuda", device_type
    if _known(device_type) == "cpu":
        put(bool(enabled), get_autocast_dtype("cpu"), is_autocast_cache_enabled())
        return
    others = current().others
    settings.set(replace(current(), others=others | {device_type} if enabled else others - {device_type}))


def set_autocast_dtype(device_type: str, dtype: dtype) -> None:
    """Sets the dtype in which autocast computes on a kind of device."""
    if _known(device_type) == "cpu":
        put(active() is not None, dtype, is_autocast_cache_enabled())
    else:
        settings.set(replace(current(), dtypes={**current().dtypes, device_type: dtype}))


def set_autocast_cache_enabled(enabled: bool) -> None:
    """Says whether autocast remembers the casts of parameters."""
    put(active() is not None, get_autocast_dtype("cpu"), enabled)


def clear_autocast_cache() -> None:
    """Forgets the casts of parameters."""
    current().cache.clear()
    mode = active()
    if mode is not None:
        mode.cache.clear()


def autocast_increment_nesting() -> int:
    """One more block of autocast has begun: how many there are now."""
    settings.set(replace(current(), nesting=current().nesting + 1))
    current().cache.open = True
    return current().nesting


def autocast_decrement_nesting() -> int:
    """A block of autocast has ended: how many are left."""
    settings.set(replace(current(), nesting=current().nesting - 1))
    current().cache.open = current().nesting > 0
    return current().nesting


# -- the names they had before -------------------------------------------------------------------------------
def _say(old: str, new: str) -> None:
    warn_at_level(
        f"weft.{old} is deprecated. Please use weft.{new} instead.", DeprecationWarning, stacklevel=3
    )


def is_autocast_cpu_enabled() -> bool:
    """Whether autocast is on for CPUs."""
    _say("is_autocast_cpu_enabled()", "is_autocast_enabled('cpu')")
    return is_autocast_enabled("cpu")


def set_autocast_cpu_enabled(enabled: bool) -> None:
    """Turns autocast on or off for CPUs, without a block."""
    _say("set_autocast_cpu_enabled(enabled)", "set_autocast_enabled('cpu', enabled)")
    set_autocast_enabled("cpu", enabled)


def get_autocast_cpu_dtype() -> dtype:
    """The dtype in which autocast computes on CPUs."""
    _say("get_autocast_cpu_dtype()", "get_autocast_dtype('cpu')")
    return get_autocast_dtype("cpu")


def set_autocast_cpu_dtype(dtype: dtype) -> None:
    """Sets the dtype in which autocast computes on CPUs."""
    _say("set_autocast_cpu_dtype(dtype)", "set_autocast_dtype('cpu', dtype)")
    set_autocast_dtype("cpu", dtype)


def get_autocast_gpu_dtype() -> dtype:
    """The dtype in which autocast would compute on GPUs."""
    _say("get_autocast_gpu_dtype()", "get_autocast_dtype('cuda')")
    return get_autocast_dtype("cuda")


def set_autocast_gpu_dtype(dtype: dtype) -> None:
    """Sets the dtype in which autocast would compute on GPUs."""
    _say("set_autocast_gpu_dtype(dtype)", "set_autocast_dtype('cuda', dtype)")
    set_autocast_dtype("cuda", dtype)
