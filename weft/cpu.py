"""The processor, asked as other devices are."""

from __future__ import annotations

from typing import Any


def is_available() -> bool:
    """There is one."""
    return True


def device_count() -> int:
    """How many there are."""
    return 1


def current_device() -> str:
    """Its name."""
    return "cpu"


def synchronize(device: Any = None) -> None:
    """Waits until all work is done: it is."""
