"""The accelerator of this machine: there is none that Weft uses yet."""

from __future__ import annotations

from typing import Any


def is_available() -> bool:
    """Whether there is one that Weft can use."""
    return False


def device_count() -> int:
    """How many there are."""
    return 0


def current_accelerator(check_available: bool = False) -> Any:
    """The device, or None."""
    return None
