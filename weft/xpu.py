"""Intel's GPUs: there are none that Weft uses."""

from __future__ import annotations


def is_available() -> bool:
    """Whether there is one that Weft can use."""
    return False


def device_count() -> int:
    """How many there are."""
    return 0


def manual_seed(seed: int) -> None:
    """Seeds its random numbers: without one, nothing."""


def empty_cache() -> None:
    """Frees its memory: without one, nothing."""
