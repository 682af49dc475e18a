"""Garbage collection: put off while much is made and little becomes garbage.

Gives a context manager for compiling, and a set of what is still there. One idea: a compile makes tens of
thousands of small objects that live as long as the compiled function; walks of the collector over all of
them, again and again, find nothing.
"""

from __future__ import annotations

import gc
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Generic, TypeVar
from weakref import WeakValueDictionary

T = TypeVar("T")


@contextmanager
def uncollected() -> Iterator[None]:
    """Collects nothing inside, if that is not so anyway."""
    if not gc.isenabled():
        yield
        return
    global _by
    gc.disable()
    _by = threading.get_ident()
    try:
        yield
    finally:
        _by = 0
        promote()
        gc.enable()


_by = 0
"""The thread that has put collection off."""


def _in_child() -> None:
    """Whoever put it off is not there after a fork to take it up again."""
    global _by
    if _by not in (0, threading.get_ident()):
        _by = 0
        gc.enable()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)


OF_PYTHON = 2000
"""As many objects may Python 3.12 have frozen itself; whoever freezes a program's has more."""
_left = 16
"""How often `promote` does anything: garbage from before waits until everything is collected."""


def promote() -> None:
    """Takes what there is for old, when a program begins: collections look at what is new, and would walk
    over all that the first compiles have made.
    """
    global _left
    if _left and gc.get_freeze_count() < OF_PYTHON:  # else somebody's would be let loose
        _left -= 1
        gc.freeze()
        gc.unfreeze()


class Living(Generic[T]):
    """Objects that this does not keep alive, in the order in which they came. A walk sees those that are
    there when it begins: other threads add some meanwhile, which a WeakSet does not survive.
    """

    def __init__(self) -> None:
        self._by_id: WeakValueDictionary[int, T] = WeakValueDictionary()

    def add(self, value: T) -> None:
        self._by_id[id(value)] = value

    def __iter__(self) -> Iterator[T]:
        found = [reference() for reference in self._by_id.valuerefs()]
        return iter([value for value in found if value is not None])
