"""The pool: native threads of our own that share the chunks of a kernel, and the loop that runs programs.

Takes programs as records; runs them step by step, each step's chunks on all threads. One idea: threads are
Python's, so that interpreter and debuggers know them, but what they run is a loop of ours that spins for a
while, then sleeps in the kernel; a chunk is claimed by one atomic exchange that also says which job it
belongs to, so no thread can mistake one job for another.

# Note [A job]
`state` is a row of numbers: the job's count (which threads wait on), how many chunks nobody has taken yet
(the job's count in its upper half), how many are done, whether a program holds the pool, whether threads are
to end, the job's own numbers, and how many threads sleep. Chunks are the same whether one thread runs them or
ten: so are the bits. Threads that sleep are woken for much work only, threads that are awake are given less,
too. A thread that comes late may read the numbers of the next job for those of the one that it saw, which is
why what is left stands beside the count: of a job that is over nothing can be taken, whatever was read.

# Note [Records of a program]
    function, record, rows, chunks, work      one step; work is how long it takes, in ns, roughly
    together, chunks, work                    how many steps from here on may run at the same time, if several
A function of 0 means that Python has to do something; work below 0, that the step checks: where the i64 that
it has computed is not 0, the program ends, and gives -2.

# Note [One thread of BLAS]
While a program that multiplies runs, BLAS uses the thread that calls it alone: the first such program says
so, and the last one sets it back.
"""

from __future__ import annotations

import atexit
import ctypes
import os
import threading
from typing import Any, Final

import numpy as np

from weft.core.once import lock
from weft.core.threads import Worker, count, stack_asked_for, watchers
from weft.native.cpu import calls, pool_text, processor
from weft.native.cpu.engine import Loaded, triple
from weft.native.cpu.outside import address_of
from weft.native.cpu.pool_text import ALL, CLOCK, ENDS, SYSCALL, THREADS, WAKE, YIELD

SPINS: Final = 4_000
STACK: Final = 1 << 20
"""How many bytes of stack a thread has at least, whatever others ask for."""
FIELDS: Final = pool_text.FIELDS
"""How many numbers the record of a step has."""


class Pool:
    """Threads, made when first needed, and the functions that run programs on them."""

    def __init__(self, threads: int) -> None:
        self.threads = max(threads, 1)
        self.processor = processor.processor(triple())
        text = pool_text.text(self.processor) + calls.text()
        self.loaded = Loaded(text, 0)  # as fast as level 2, and compiled in a fifth of its time
        self.syscall = address_of("syscall")
        self.state: Any = np.zeros(64, np.uint64)
        self.state[SYSCALL], self.state[THREADS] = self.syscall, 1
        for place, name in ((YIELD, processor.YIELD), (CLOCK, processor.CLOCK)):
            self.state[place] = address_of(name)
        self.here: int = self.state.__array_interface__["data"][0]
        pointer, number, function = ctypes.c_void_p, ctypes.c_int64, self.loaded.address
        self._work = ctypes.CFUNCTYPE(None, pointer, pointer, number)(function("worker"))
        # These hold on to the interpreter, and let go of it by themselves.
        self.call = ctypes.PYFUNCTYPE(number, *[pointer] * 4)(function("call"))
        self.prepare = ctypes.PYFUNCTYPE(number, *[pointer] * 4)(function("prepare"))
        self.steps = ctypes.PYFUNCTYPE(number, pointer, number, pointer, pointer)(function("steps"))
        self.run_address = function("run")
        self.started = False
        self.workers: list[Worker] = []

    def start(self) -> None:
        """Starts the threads. They run code of this object: it lives until they have ended."""
        with _starting:
            if self.started:
                return
            if self not in _living:  # as it is where starting it was interrupted
                _living.append(self)
            self.add_workers()
            self.started = True

    def use(self, threads: int) -> None:
        """Uses so many threads from now on. Those that are too many sleep."""
        with _starting:
            self.threads = max(threads, 1)
            if self.started:
                self.add_workers()

    def add_workers(self) -> None:
        """Starts the threads that are missing, with room for what functions put on their stacks."""
        asked = stack_asked_for()
        if 0 < asked < STACK:
            threading.stack_size(STACK)
        self.workers = [work for work in self.workers if work.is_alive()]
        try:
            for _number in range(len(self.workers), self.threads - 1):
                work = Worker(self._work, self.here, self.syscall, SPINS)
                self.workers.append(work)  # before it runs: who ends the threads must know of it
                work.start()
        finally:
            if 0 < asked < STACK:
                threading.stack_size(asked)
        self.state[THREADS] = self.threads

    def close(self) -> None:
        """Ends the threads."""
        self.state[ENDS] = 1
        wake = ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_int64] * 5)(self.syscall)
        for work in self.workers:
            while work.is_alive():
                wake(self.processor.futex, self.here, WAKE, ALL, 0)
                work.join(0.01)
        self.workers.clear()
        if self in _living:
            _living.remove(self)


_starting = lock()
_pool: list[Pool] = []
_living: list[Pool] = []
"""Pools whose threads run."""


def pool() -> Pool:
    """The one pool of this process."""
    if not _pool:
        with _starting:
            if not _pool:
                _pool.append(Pool(count()))
    return _pool[0]


def _use(number: int) -> None:
    """So many threads from now on."""
    for each in _pool:
        each.use(number)


watchers.append(_use)


_parents: list[Pool] = []
"""Pools of the process that this one was forked from: to free their code takes the lock of LLVM."""


def _forget() -> None:
    """Threads do not survive a fork."""
    _parents.extend(_pool)
    _pool.clear()
    _living.clear()


@atexit.register
def _end() -> None:
    """Threads must not outlive the code that they run."""
    for each in list(_living):
        each.close()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
