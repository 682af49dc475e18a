"""Tiers: code that is made quickly first, and again in the background where it is used.

Takes owners of draft code; has each made at the full level, one after the other, in a thread of its own. One
idea: text, not code, says what a kernel computes, and no pass may change a bit of that; so the two codes of a
text can take each other's place at any time, even while they run.

# Note [Drafts]
    first call      functions whose work is small beside what it costs to compile them well: level 0
    second call     the program is asked for here; a moment later, if the process still lives, all its drafts
                    are compiled at level 2, the records' addresses are exchanged, and the disk gets these
What goes wrong here is told to the log `cache`, and the draft stays. The thread ends when nothing is left to
do. Before a fork it ends between two programs, since locks of LLVM must not be held in a child, and goes on
behind it; other threads that are in LLVM are waited for. It ends so before the interpreter does.
`settings.tiers = "full"` (`WEFT_TIERS=full`) makes no drafts, and `wait` waits.
"""

from __future__ import annotations

import atexit
import os
import sys
import threading
from collections import deque
from collections.abc import Callable
from typing import Any, Final
from weakref import ref

from weft.core.logs import is_heard, log
from weft.core.settings import settings

DELAY: Final = 0.03
"""Seconds between a program's second call and its compilation: processes that are about to end do not pay."""
PATIENCE: Final = 10.0
"""Seconds that a fork, and the end of the interpreter, wait at most."""
SLOWER: Final = 6
"""How many ns drafts lose of each ns that full code takes."""
SAVED: Final = 25_000
"""How many ns a draft saves of each line of text."""
LONGEST: Final = 2000
"""Of how many lines a draft is made: each may take a vector of the stack."""
LEAST: Final = 5_000_000
"""How many ns drafts must save if they are not all that is compiled: they are an object of their own."""

_changed = threading.Condition()
_waiting: deque[Any] = deque()
"""Weak references to those whose drafts are to be replaced."""
_thread: threading.Thread | None = None
_stopped = False
"""Whether the thread is to end, though something may be left."""


def are_used() -> bool:
    """Whether new programs may have drafts. Who looks at code wants to see what will run."""
    return settings.tiers != "full" and not (is_heard("llvm") or is_heard("asm"))


def drafts_of(missing: dict[str, list[str]], works: dict[str, int]) -> dict[str, list[str]]:
    """Of functions that are to be compiled, those of which a draft is made first; `works` says how many ns of
    a call each takes."""
    if settings.tiers == "draft":
        return missing
    found = {
        name: lines
        for name, lines in missing.items()
        if works[name] * SLOWER < len(lines) * SAVED and len(lines) <= LONGEST
    }
    saved = sum(len(lines) * SAVED - works[name] * SLOWER for name, lines in found.items())
    return found if len(found) == len(missing) or saved >= LEAST else {}


def ask(owner: Any) -> None:
    """Has `owner.improve()` called in the background, if it lives until then."""
    if settings.tiers == "draft":
        return
    with _changed:
        _waiting.append(ref(owner))
        _start()


def _start() -> None:
    """Starts the thread, unless there is one."""
    global _thread
    if _thread is not None or _stopped:
        return
    _thread = threading.Thread(target=_run, name="weft tiers", daemon=True)
    try:
        _thread.start()
    except RuntimeError:  # the interpreter ends
        _thread = None


def _run() -> None:
    global _thread
    with _changed:
        _changed.wait_for(lambda: _stopped, DELAY)
    while True:
        with _changed:
            if _stopped or not _waiting:
                _thread = None
                _changed.notify_all()
                return
            owner = _waiting.popleft()()
        if owner is not None:
            _improve(owner.improve)
        del owner


def _improve(improve: Callable[[], None]) -> None:
    try:
        improve()
    except Exception as error:  # drafts are right, too
        reason = f"{type(error).__name__}: {error}"
        log("cache", lambda: f"a draft stays: {reason}")


def wait() -> None:
    """Until nothing is left to do."""
    with _changed:
        _changed.wait_for(lambda: _thread is None)


def _stop() -> None:
    """Ends the thread, for now. It must not be in LLVM when that is taken down, or copied."""
    global _stopped
    with _changed:
        _stopped = True
        _changed.notify_all()
        thread = _thread
    if thread is not None and thread is not threading.current_thread():
        thread.join(PATIENCE)


def _go_on() -> None:
    global _stopped
    with _changed:
        _stopped = False
        if _waiting:
            _start()


# -- forks ---------------------------------------------------------------------------------------------------
_held: Final[dict[int, Any]] = {}
"""By thread: the lock of LLVM, while it forks."""


def _before_fork() -> None:
    """Nobody is in LLVM while a process is copied: in the child, nobody would ever leave it."""
    _stop()
    library = getattr(sys.modules.get("llvmlite.binding.ffi"), "lib", None)  # where it is loaded
    lock = getattr(getattr(library, "_lock", None), "_lock", None)
    if lock is not None and lock.acquire(timeout=PATIENCE):
        _held[threading.get_ident()] = lock


def _let_in() -> None:
    lock = _held.pop(threading.get_ident(), None)
    if lock is not None:
        lock.release()


def _in_parent() -> None:
    _let_in()
    _go_on()


def _in_child() -> None:
    """The thread is not there any more; what waits does so until the next program asks."""
    global _changed, _thread, _stopped
    _changed, _thread, _stopped = threading.Condition(), None, False
    _let_in()


atexit.register(_stop)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_parent=_in_parent, after_in_child=_in_child)
