"""Saving scripted functions and modules."""

from __future__ import annotations

from typing import Any


def save(thing: Any, f: Any, extra_files: Any = None) -> None:
    """Writes a scripted function or module to a file."""
    raise NotImplementedError("saving is not there yet")
