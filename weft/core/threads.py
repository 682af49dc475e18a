"""Threads: how many a computation may use, and how one is started.

Takes what the user asks for, what the system allows; tells those that have threads of their own. One idea:
the number stands here, below everything that needs it.
"""

from __future__ import annotations

import functools
import math
import os
import sys
from _thread import allocate_lock, get_ident, start_new_thread
from collections.abc import Callable
from contextvars import copy_context
from functools import cache, partial
from operator import call
from threading import Thread, main_thread, stack_size
from time import monotonic, sleep
from typing import Any, Final, TypeVar, TypeVarTuple
from weakref import ref

from weft.core.contexts import run_all
from weft.core.interrupts import is_interrupt, let_through

asked: Final[list[int]] = []
"""What the user asked for, if anything."""
watchers: Final[list[Callable[[int], None]]] = []
"""Told when another number is asked for."""
VARIABLES: Final = ("WEFT_NUM_THREADS", "OMP_NUM_THREADS")
QUOTAS: Final = (
    ("/sys/fs/cgroup/cpu.max",),
    ("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "/sys/fs/cgroup/cpu/cpu.cfs_period_us"),
)
"""Where Linux says how much of a second a group of processes may compute in each period."""


def count() -> int:
    """How many threads one computation may use."""
    return asked[0] if asked else named() or available()


@cache
def named() -> int:
    """What the environment says when it is first asked, 0 where it says nothing: `WEFT_NUM_THREADS` or, as
    for other libraries, `OMP_NUM_THREADS`."""
    for name in VARIABLES:
        text = os.environ.get(name, "").partition(",")[0].strip()
        if text.isdecimal() and int(text) > 0:
            return int(text)
    return 0


Arguments = TypeVarTuple("Arguments")
Result = TypeVar("Result")
NO_THREAD: Final = (RuntimeError, MemoryError)
"""What there is where no thread can be started."""
STACK: Final = 1 << 20
"""Bytes. Where threads have less, what is out of reach runs where it is called."""
CHECKED: Final = 1.0
SHORTLY: Final = 1e-4


def stack_asked_for() -> int:
    """The stack that the user wants threads to have, 0 for the system's. Asking Python sets it to 0."""
    size = stack_size()
    if size:
        stack_size(size)
    return size


class _Life:
    """What a thread holds for as long as it lives."""

    __slots__ = ("__weakref__",)


_out_there: Final[set[int]] = set()
"""The threads that nobody reaches."""


def out_of_reach(
    work: Callable[[*Arguments], Result], holds: Callable[[], bool] = lambda: False, everywhere: bool = False
) -> Callable[[*Arguments], Result]:
    """A function that runs where no handler of signals can interrupt it: in the main thread's stead, a thread
    of its own runs it, as handlers run in the main thread alone. For what is not made for interrupts between
    any two of its lines, as most libraries are not. What a handler raises meanwhile goes on when it is done.
    `holds`: whether the caller has a lock that the work takes, as where a handler stands upon other such
    work: another thread would wait for it for ever. `everywhere`: in the stead of every thread, as one may
    raise something in another.
    """

    @functools.wraps(work)
    def run(*args: *Arguments) -> Result:
        reached = get_ident() not in _out_there if everywhere else get_ident() == main_thread().ident
        if not reached or 0 < stack_asked_for() < STACK or holds() or sys.is_finalizing():
            return work(*args)  # where the interpreter ends, threads start and never run
        context, process = copy_context(), os.getpid()
        done: list[tuple[Any, BaseException | None]] = []
        gate = allocate_lock()
        gate.acquire()
        life: _Life | None = _Life()
        alive = ref(life)

        def there(_life: _Life | None) -> None:
            _out_there.add(get_ident())
            try:
                done.append((context.run(work, *args), None))
            except BaseException as error:
                done.append((None, error))
            finally:
                _out_there.discard(get_ident())
                gate.release()

        try:
            start_new_thread(there, (life,))
            life = None
            while not gate.acquire(timeout=CHECKED) and os.getpid() == process and alive() is not None:
                pass
        except BaseException as error:
            if type(error) in NO_THREAD and not is_interrupt(error):
                return work(*args)
            life = None
            while not done and os.getpid() == process and alive() is not None:
                sleep(SHORTLY)
            raise
        if not done:  # a handler has forked, and this is the child; or memory was too short for the thread
            return work(*args)
        result: Result
        result, failure = done.pop()
        try:
            if failure is not None:
                raise failure
            return result
        finally:
            del failure

    return run


def _start(thread: Thread) -> None:
    thread.start()


start: Final = out_of_reach(_start, everywhere=True)
"""Starts a thread that runs code of the user's. Where `Thread.start` is interrupted it raises something else,
and what it has started fails at once, or waits for ever for a lock.
"""


class Worker:
    """A thread that runs code of ours. It is started by one call of C's, and nobody holds a lock where it is
    waited for: exceptions of handlers of signals, and those that other threads raise, leave neither half a
    thread nor somebody who waits for it.
    """

    __slots__ = ("work", "args", "is_started", "has_ended", "ident")

    def __init__(self, work: Callable[..., Any], *args: Any) -> None:
        self.work, self.args = work, args
        self.is_started = self.has_ended = False
        self.ident = 0

    def start(self) -> None:
        """Raises a RuntimeError where there can be no thread."""
        begin: Callable[[], Any] = partial(start_new_thread, self._run, ())
        noted: Callable[[], Any] = partial(setattr, self, "is_started", True)
        run_all(map(call, [begin, noted]))

    def _run(self) -> None:
        try:
            self.ident = get_ident()
            _out_there.add(self.ident)
            self.work(*self.args)
        finally:
            self.has_ended = True
            _out_there.discard(self.ident)

    def is_alive(self) -> bool:
        return self.is_started and not self.has_ended

    def join(self, seconds: float = math.inf) -> None:
        """Waits until it has ended, for so long at most."""
        end = monotonic() + seconds
        while self.is_alive() and monotonic() < end:
            sleep(SHORTLY)


def ask(number: int) -> None:
    asked[:] = [number]
    for watcher in watchers:
        watcher(number)


def _words(path: str) -> list[str]:
    with open(path, encoding="utf-8") as file:  # `pathlib` takes longer to import than all of this module
        return file.read().split()


@cache
def available() -> int:
    """How many processors this process may use at once."""
    found = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    for paths in QUOTAS:
        try:
            words = [word for path in paths for word in _words(path)]
            quota, period = int(words[0]), int(words[1])
        except (OSError, ValueError, IndexError) as error:
            let_through(error)
            continue
        if quota > 0 and period > 0:
            found = min(found, math.ceil(quota / period))
    return max(found, 1)
