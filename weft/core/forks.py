"""Forks: what must be over in other threads before a process is copied, and signals that come meanwhile.

Takes what others have to do before and behind a fork; does it, with handlers of signals put off. One idea:
Python drops whatever is raised in a hook of `os.register_at_fork`, so nothing of the user's may run in one.

# Note [Signals in a fork]
    os.fork()                   waits in a hook until nobody is in LLVM; a handler that raises there would be
                                told to `sys.unraisablehook`, and the fork would go on with half of its hooks
So handlers are exchanged for one that takes note. When the parent's hooks are done, the signals are raised
again, and strike behind `os.fork()`: by a function of C, as a line of Python's would still be in a hook.
Handlers run in the main thread, so another one that forks meanwhile leaves them alone; in its child, which
has no other thread, it puts back what the main thread has exchanged.

# Note [Imports in a fork]
A module that another thread is importing is imported by nobody in the child: its lock is never released. So a
fork waits until no module of ours, or of what we stand on, is. One whose import begins behind that, in the
moment before the process is copied, is forgotten in the child, with its lock, and imported anew there.
"""

from __future__ import annotations

import functools
import logging  # noqa: F401 - whose hooks, of Python, are to run before the last one here
import os
import sys
from _thread import get_ident, interrupt_main
from collections.abc import Callable
from importlib import _bootstrap
from threading import main_thread
from time import monotonic, sleep
from types import FrameType
from typing import Any, Final

from weft.core.contexts import choosing
from weft.core.handlers import IDLE, exchange, plain_signals, take_back
from weft.core.origins import OURS

PATIENCE: Final = 10.0
"""Seconds that a fork waits at most."""
SHORTLY: Final = 1e-3
_around: Final[list[tuple[Callable[[], None], Callable[[], None], Callable[[], None]]]] = []
_locks: Final[dict[str, Any]] = getattr(_bootstrap, "_module_locks", {})
"""Weak references to the locks of modules that are being imported. Python's own."""
_handlers: Final[dict[int, Any]] = {}
"""The user's, while they are put off."""
_came: Final[list[int]] = []
"""The signals that came meanwhile."""


def around(before: Callable[[], None], parent: Callable[[], None], child: Callable[[], None]) -> None:
    """Has them called before a fork, and in the parent and the child behind it."""
    _around.append((before, parent, child))


def _note(number: int, _frame: FrameType | None) -> None:
    if number not in _came:
        _came.append(number)


def _put_off() -> None:
    for number in plain_signals.valid_signals():
        handler = plain_signals.getsignal(number)
        if handler not in IDLE and handler is not _note:
            _handlers[number] = handler
            exchange(number, _note)


def _take_up() -> None:
    for number in [*_handlers]:
        exchange(number, _handlers[number])
        del _handlers[number]


def _importing() -> dict[str, int | None]:
    """The modules that are being imported, with the thread that does it."""
    return {name: getattr(known(), "owner", None) for name, known in list(_locks.items())}


def is_importing() -> bool:
    """Whether this thread is in an import, so that others may have to wait for it."""
    return get_ident() in _importing().values()


def _in_flight() -> list[str]:
    """The modules that other threads import, and that may be needed in the child."""
    return [
        name
        for name, owner in _importing().items()
        if owner not in (None, get_ident()) and name.partition(".")[0] in OURS
    ]


def _forget_imports() -> None:
    for name in _in_flight():
        if getattr(getattr(sys.modules.get(name), "__spec__", None), "_initializing", False):
            del sys.modules[name]
        _locks.pop(name, None)


def _runs_handlers() -> bool:
    return get_ident() == main_thread().ident


def _before() -> None:
    if _runs_handlers():
        _came.clear()
        _put_off()
    end = monotonic() + PATIENCE
    while True:
        while _in_flight() and monotonic() < end:
            sleep(SHORTLY)
        for before, _, _ in _around:  # behind that: what was imported may have a lock that they take
            before()
        if not _in_flight() or monotonic() >= end:
            return
        for _, parent, _ in _around:  # they took long enough for another import to begin
            parent()


def _in_parent() -> None:
    for _, parent, _ in _around:
        parent()
    if _runs_handlers():
        _take_up()


def _in_child() -> None:
    _came.clear()
    _take_up()
    if get_ident() not in _raising:  # the thread that has exchanged handlers is not there to put them back
        take_back()
    _raising.clear()
    _raising[get_ident()] = _raise
    _forget_imports()
    for _, _, child in _around:
        child()


_raise: Final = functools.partial(_came.sort, key=interrupt_main)
_raising: Final[dict[int, Any]] = {main_thread().ident or 0: _raise}
"""By the thread that handlers run in: what has those of the signals that came called."""
if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before, after_in_parent=_in_parent, after_in_child=_in_child)
    os.register_at_fork(after_in_parent=choosing(get_ident, _raising, int))
