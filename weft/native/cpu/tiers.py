"""Tiers: code that is made quickly first, and again in the background where it is used.

Takes owners of draft code; has each made at the full level, one after the other, in a thread of its own. That
also does what else nobody is to wait for: it makes what native entries share, and writes entries to disk. One
idea: text, not code, says what a kernel computes, and no pass may change a bit of that; so the two codes of a
text can take each other's place at any time, even while they run.

# Note [Drafts]
    first call      functions whose work is small beside what it costs to compile them well: level 0; those of
                    templates, which are made while a loop goes on, must save more than many calls lose
    second call     the program is asked for here; a moment later, if the process still lives, all its drafts
                    are compiled at level 2, the records' addresses are exchanged, and the disk gets these
What goes wrong here is told to the log `cache`, and the draft stays. The thread ends when nothing is left to
do. Before a fork it ends between two programs, since locks of LLVM must not be held in a child, and goes on
behind it; other threads that are in LLVM are waited for. It ends so before the interpreter does.
`settings.tiers = "full"` (`WEFT_TIERS=full`) makes no drafts, and `wait` waits.
"""

from __future__ import annotations

import atexit
import functools
import mmap
import sys
import threading
from _thread import allocate_lock
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any, Final, TypeVar, TypeVarTuple
from weakref import ref

from weft.core import forks, once
from weft.core.forks import PATIENCE
from weft.core.interrupts import let_through
from weft.core.logs import is_heard, log
from weft.core.settings import settings
from weft.core.slices import in_background
from weft.core.threads import NO_THREAD, Worker, out_of_reach

DELAY: Final = 0.03
"""Seconds between a program's second call and its compilation: processes that are about to end do not pay."""
SLOWER: Final = 6
"""How many ns drafts lose of each ns that full code takes."""
SAVED: Final = 25_000
"""How many ns a draft saves of each line of text."""
LONGEST: Final = 3000
"""Of how many lines a draft is made: each may take a vector of the stack."""
CALLS: Final = 50
"""With how many calls, before better code is there, those are charged who make drafts for a template: it is
made while a loop goes on."""
LEAST: Final = 5_000_000
"""How many ns drafts must save if they are not all that is compiled: they are an object of their own."""

Arguments = TypeVarTuple("Arguments")
Result = TypeVar("Result")
LIBRARY: Final = "llvmlite.binding.ffi"
ROOM: Final = 64 << 20
"""Bytes that must be free before LLVM is called."""
_lock = once.lock()
"""Not a `Condition`, which is taken and released in lines of Python's, where an interrupt may strike."""
_sleep = allocate_lock()
"""Who releases it wakes the thread."""
_waiting: deque[Any] = deque()
"""What gives those whose work is to be done, as owners of drafts: most are weak references."""
_thread: Worker | None = None
_stopped = False
"""Whether the thread is to end, though something may be left."""


def are_used() -> bool:
    """Whether new programs may have drafts. Who looks at code wants to see what will run."""
    return settings.tiers != "full" and not (is_heard("llvm") or is_heard("asm"))


def drafts_of(missing: dict[str, list[str]], works: dict[str, int], calls: int = 1) -> dict[str, list[str]]:
    """Of functions that are to be compiled, those of which a draft is made first; `works` says how many ns of
    a call each takes, and `calls` of how many calls that counts."""
    if settings.tiers == "draft":
        return missing
    saves = {
        name: len(lines) * SAVED - works[name] * SLOWER * calls
        for name, lines in missing.items()
        if len(lines) <= LONGEST
    }
    found = {name: missing[name] for name, saved in saves.items() if saved > 0}
    enough = sum(saves[name] for name in found) >= LEAST
    return found if enough or len(found) == len(missing) else {}


def outgrown(drafts: dict[str, list[str]], works: dict[str, int]) -> list[str]:
    """Drafts that another program has, and that a template is not to begin with."""
    return [name for name in drafts if not drafts_of({name: drafts[name]}, works, CALLS)]


def ask(owner: Any, is_held: bool = False) -> None:
    """Has `owner.improve()` called in the background, if it lives until then, or is held."""
    if settings.tiers == "draft":
        return
    with _lock:
        _waiting.append((lambda: owner) if is_held else ref(owner))
        _start()


def is_running() -> bool:
    """Whether there is a thread. One whose start was interrupted is none."""
    return _thread is not None and _thread.is_alive()


def _start() -> None:
    """Starts the thread, unless there is one."""
    global _thread
    if is_running() or _stopped:
        return
    _sleep.acquire(blocking=False)
    _thread = Worker(_run)
    try:
        _thread.start()
    except NO_THREAD as error:  # as where the interpreter ends
        let_through(error)
        _thread = None


def _run() -> None:
    global _thread
    _sleep.acquire(timeout=DELAY)
    while True:
        with _lock:
            if _stopped or not _waiting:
                _thread = None
                return
            owner = _waiting.popleft()()
        if owner is not None:
            in_background(partial(_improve, owner.improve))
        del owner


def _improve(improve: Callable[[], None]) -> None:
    try:
        improve()
    except Exception as error:  # drafts are right, too
        reason = f"{type(error).__name__}: {error}"
        log("cache", lambda: f"what was to be done in the background is not: {reason}")


def wait() -> None:
    """Until nothing is left to do."""
    let_go()
    while (thread := _thread) is not None and thread.is_alive():
        thread.join()


def _stop() -> None:
    """Ends the thread, for now. It must not be in LLVM when that is taken down, or copied."""
    global _stopped
    let_go()
    with _lock:
        _stopped = True
        if _sleep.locked():
            _sleep.release()
        thread = _thread
    if thread is not None and thread.ident != threading.get_ident():
        thread.join(PATIENCE)


def _go_on() -> None:
    global _stopped
    with _lock:
        _stopped = False
        if _waiting:
            _start()


# -- the lock of LLVM ----------------------------------------------------------------------------------------
def _lock_of_llvm() -> Any:
    """Which llvmlite takes around each call; None where it is not loaded."""
    library = getattr(sys.modules.get(LIBRARY), "lib", None)
    return getattr(getattr(library, "_lock", None), "_lock", None)


def let_go() -> None:
    """Releases the lock of LLVM where an interrupt has kept llvmlite from that: it takes and releases it in
    lines of Python, also where code of ours is finalised. All other threads would wait for ever.
    """
    lock = _lock_of_llvm()
    if lock is None or not lock._is_owned():
        return
    frame: Any = sys._getframe()
    while frame is not None:  # a handler of signals may stand upon a call that goes on
        if frame.f_globals.get("__name__") == LIBRARY:
            return
        frame = frame.f_back
    while lock._is_owned() and _held.get(threading.get_ident()) is None:
        lock.release()


def _holds_llvm() -> bool:
    lock = _lock_of_llvm()
    return lock is not None and bool(lock._is_owned())


def letting_go(work: Callable[[*Arguments], Result]) -> Callable[[*Arguments], Result]:
    """For functions that call LLVM."""

    @functools.wraps(work)
    def run(*args: *Arguments) -> Result:
        try:
            return work(*args)
        finally:
            let_go()

    return run


def calling_llvm(work: Callable[[*Arguments], Result]) -> Callable[[*Arguments], Result]:
    """For those that take long: out of reach of handlers of signals and of what other threads raise, which
    llvmlite is not made for, and with memory enough, as LLVM ends the process where that is short.
    """
    there = out_of_reach(letting_go(work), _holds_llvm, everywhere=True)

    @functools.wraps(work)
    def run(*args: *Arguments) -> Result:
        try:
            mmap.mmap(-1, ROOM).close()
        except OSError as error:
            let_through(error)
            raise MemoryError(f"LLVM needs more memory than this process may have: {error}") from None
        return there(*args)

    return run


# -- forks ---------------------------------------------------------------------------------------------------
_held: Final[dict[int, list[Any]]] = {}
"""By thread: the lock of LLVM, while it forks; more than once where a finalizer forks in a hook."""


def _before_fork() -> None:
    """No thread is inside LLVM during a fork: in the child, its locks would never be released."""
    _stop()
    lock = _lock_of_llvm()
    if lock is not None and lock.acquire(timeout=PATIENCE):
        _held.setdefault(threading.get_ident(), []).append(lock)


def _let_in() -> None:
    held = _held.get(threading.get_ident())
    if held:
        held.pop().release()
    if not held:
        _held.pop(threading.get_ident(), None)


def _in_parent() -> None:
    _let_in()
    _go_on()


def _in_child() -> None:
    """The thread is not there any more; what waits does so until the next program asks. Who holds the lock of
    LLVM, as patience was at an end, is not there either.
    """
    global _sleep, _thread, _stopped
    _sleep, _thread, _stopped = allocate_lock(), None, False
    _held.clear()
    let_go()
    lock = _lock_of_llvm()
    if lock is not None and not lock._is_owned():
        lock._at_fork_reinit()


atexit.register(_stop)
forks.around(_before_fork, _in_parent, _in_child)
