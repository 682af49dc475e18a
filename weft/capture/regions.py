"""Regions: native code under a compiled frame, and what it calls.

Takes callables that such code is about to call; gives their compiled forms. One idea: the region is a context
variable, set only while such code runs, so nothing else pays for it.

# Note [Regions]
Where an entry ends in a break, or the original runs, code runs natively that may call other functions. These
are compiled too, in the same context: calls of the segment itself through `callee`, calls behind library code
(`Module.__call__`, `Function.apply`, hooks) through `seams.callee`. Both ask the active `Region`, a context
variable that is set only while such code runs. Other threads start without one; whoever copied the variable
(a task, a thread with a copied context) finds it closed or of another thread, and runs plain.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from contextvars import ContextVar
from threading import get_ident
from typing import Any

from weft.capture.deoptimise import Tail
from weft.capture.fronts import uncounted
from weft.core.once import lock
from weft.core.seams import seams


class Region:
    """Native code under a compiled frame: what it calls is compiled in this context."""

    __slots__ = ("context", "depth", "loop", "open", "tail", "thread")

    def __init__(self, context: Any, around: Region | None) -> None:
        self.context = context
        self.depth: int = 0 if around is None else around.depth + 1
        self.thread, self.loop = get_ident(), _running_loop()
        self.open = True
        self.tail: Tail | None = None
        """The last one that was left in it, be it that an interrupt has kept it from whoever runs it."""

    def way_out(self, error: BaseException) -> Tail | None:
        """Where to go on when its tail was interrupted: see Note [Interrupted tails]."""
        if self.tail is not None:
            self.tail = self.tail.way_out(error)
        return self.tail


active: ContextVar[Region | None] = ContextVar("weft_region", default=None)
_regions_lock = lock()
_regions_open: set[int] = set()


def _running_loop() -> Any:
    asyncio = sys.modules.get("asyncio")
    return None if asyncio is None else asyncio._get_running_loop()


def current_region() -> Region | None:
    region = active.get()
    if region is None or not region.open or region.thread != get_ident():
        return None
    return region if region.loop is _running_loop() else None


def open_seam(region: Region) -> None:
    """Library code asks for compiled forms while any region is open; else eager code must not pay for it."""
    with _regions_lock:
        _regions_open.add(id(region))
        seams.callee = callee


def close_seam(region: Region) -> None:
    with _regions_lock:
        _regions_open.discard(id(region))
        if not _regions_open:
            seams.callee = None


def outside(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, run as if no compiled frame were around."""

    @functools.wraps(function)
    @uncounted
    def run(*args: Any, **kwargs: Any) -> Any:
        if active.get() is None:
            return function(*args, **kwargs)
        before = active.get()
        try:
            active.set(None)
            return function(*args, **kwargs)
        finally:
            active.set(before)

    return run


def callee(value: Any) -> Any:
    """The compiled form of a callable, where a compiled frame is around; see Note [Regions]."""
    region = current_region()
    return value if region is None else region.context.callee(value)


def leave(tail: Tail, error: BaseException | None = None) -> Tail:
    """A tail that an entry leaves, as the region is to know it."""
    if error is not None:
        tail = tail.way_out(error) or tail
    region = active.get()
    if region is not None:
        region.tail = tail
    return tail
