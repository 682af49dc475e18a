"""Garbage collection: put off while much is made and little becomes garbage.

Gives a context manager for compiling. One idea: a compile makes tens of thousands of small objects that live
as long as the compiled function; walks of the collector over all of them, again and again, find nothing.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def uncollected() -> Iterator[None]:
    """Collects nothing inside, if that is not so anyway."""
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
