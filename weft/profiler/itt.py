"""Marks for Intel's VTune, of which there are none: programs ask `is_available()` and do without."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

__all__ = ["is_available", "mark", "range", "range_pop", "range_push"]


def is_available() -> bool:
    """Whether marks go anywhere."""
    return False


def _refuse(*_args: Any) -> NoReturn:
    raise RuntimeError("ITT functions not installed. Are you sure you have a ITT build?")


range_push = range_pop = mark = _refuse


@contextmanager
def range(msg: str, *args: Any, **kwargs: Any) -> Iterator[None]:
    """A block with this name, of which `args` and `kwargs` are parts."""
    range_push(msg.format(*args, **kwargs))
    yield
