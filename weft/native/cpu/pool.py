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
from weft.native.cpu import calls
from weft.native.cpu.engine import Loaded
from weft.native.cpu.outside import address_of

FIELDS: Final = 8
COUNT, NEXT, DONE, HELD, ENDS, JOB, SYSCALL, THREADS, ASLEEP, MISSED = 0, 8, 16, 24, 32, 40, 48, 49, 56, 57
"""Where in the state things stand, in numbers; those that threads fight over have a cache line each."""
SPINS: Final = 4_000
STACK: Final = 1 << 20
"""How many bytes of stack a thread has at least, whatever others ask for."""
WORTH_WAKING: Final = 100_000
WORTH_SHARING: Final = 8_000
"""From how much work on (in ns) a step is shared with threads that sleep, and with threads that do not."""
SHORTLY: Final = 250_000
"""For how many ticks of the processor's clock work that was worth sharing counts: as long as they spin."""
WAIT, WAKE, FUTEX = 128, 129, 202

PLAN: Final = """
define i64 @claim(ptr %state, i64 %job, i64 %chunks) {
entry:
  %next = getelementptr i64, ptr %state, i64 8
  br label %again
again:
  %now = load atomic i64, ptr %next seq_cst, align 8
  %whose = lshr i64 %now, 32
  %mine = icmp eq i64 %whose, %job
  br i1 %mine, label %ours, label %none
ours:
  %left = and i64 %now, 4294967295
  %over = icmp eq i64 %left, 0
  br i1 %over, label %none, label %take
take:
  %new = sub i64 %now, 1
  %pair = cmpxchg ptr %next, i64 %now, i64 %new seq_cst seq_cst
  %took = extractvalue { i64, i1 } %pair, 1
  br i1 %took, label %done, label %again
done:
  %chunk = sub i64 %chunks, %left
  ret i64 %chunk
none:
  ret i64 -1
}

define void @share(ptr %state, i64 %job) {
entry:
  %p0 = getelementptr i64, ptr %state, i64 40
  %function = load ptr, ptr %p0
  %p1 = getelementptr i64, ptr %state, i64 41
  %record = load ptr, ptr %p1
  %p2 = getelementptr i64, ptr %state, i64 42
  %rows = load i64, ptr %p2
  %p3 = getelementptr i64, ptr %state, i64 43
  %chunks = load i64, ptr %p3
  %p4 = getelementptr i64, ptr %state, i64 44
  %buffers = load ptr, ptr %p4
  %p5 = getelementptr i64, ptr %state, i64 45
  %outside = load ptr, ptr %p5
  %done = getelementptr i64, ptr %state, i64 16
  br label %more
more:
  %chunk = call i64 @claim(ptr %state, i64 %job, i64 %chunks)
  %none = icmp slt i64 %chunk, 0
  br i1 %none, label %end, label %work
work:
  call void @part(ptr %function, ptr %record, ptr %buffers, ptr %outside, i64 %rows, i64 %chunks, i64 %chunk)
  %was = atomicrmw add ptr %done, i64 1 seq_cst
  br label %more
end:
  ret void
}

define void @part(ptr %function, ptr %record, ptr %buffers, ptr %outside,
                  i64 %rows, i64 %chunks, i64 %chunk) {
  %a = mul i64 %rows, %chunk
  %lo = udiv i64 %a, %chunks
  %after = add i64 %chunk, 1
  %b = mul i64 %rows, %after
  %hi = udiv i64 %b, %chunks
  call void %function(ptr %record, ptr %buffers, ptr %outside, i64 %lo, i64 %hi, i64 %chunk)
  ret void
}

define void @worker(ptr %state, ptr %syscall, i64 %spins) {
entry:
  %ends = getelementptr i64, ptr %state, i64 32
  br label %look
look:
  %last = phi i64 [ 0, %entry ], [ %last, %spin ], [ %now, %ran ], [ %last, %slept ]
  %turns = phi i64 [ 0, %entry ], [ %more, %spin ], [ 0, %ran ], [ 0, %slept ]
  %stop = load atomic i64, ptr %ends seq_cst, align 8
  %stopped = icmp ne i64 %stop, 0
  br i1 %stopped, label %end, label %see
see:
  %now = load atomic i64, ptr %state seq_cst, align 8
  %same = icmp eq i64 %now, %last
  br i1 %same, label %idle, label %run
run:
  call void @share(ptr %state, i64 %now)
  br label %ran
ran:
  br label %look
idle:
  %more = add i64 %turns, 1
  %tired = icmp ugt i64 %more, %spins
  br i1 %tired, label %sleep, label %spin
spin:
  call void @llvm.x86.sse2.pause()
  br label %look
sleep:
  %low = trunc i64 %now to i32
  %asleep = getelementptr i64, ptr %state, i64 56
  %falls = atomicrmw add ptr %asleep, i64 1 seq_cst
  %r = call i64 (i64, ...) %syscall(i64 202, ptr %state, i32 128, i32 %low, ptr null)
  %wakes = atomicrmw sub ptr %asleep, i64 1 seq_cst
  br label %slept
slept:
  br label %look
end:
  ret void
}

define i64 @run(ptr %code, i64 %first, i64 %count, ptr %buffers, ptr %outside, ptr %state, ptr %blas) {
  %multiplies = icmp ne ptr %blas, null
  br i1 %multiplies, label %guarded, label %plain
guarded:
  call void @blas_enter(ptr %blas)
  %last = call i64 @go(ptr %code, i64 %first, i64 %count, ptr %buffers, ptr %outside, ptr %state)
  call void @blas_leave(ptr %blas)
  ret i64 %last
plain:
  %step = call i64 @go(ptr %code, i64 %first, i64 %count, ptr %buffers, ptr %outside, ptr %state)
  ret i64 %step
}

define i64 @go(ptr %code, i64 %first, i64 %count, ptr %buffers, ptr %outside, ptr %state) {
entry:
  %syscallslot = getelementptr i64, ptr %state, i64 48
  %syscall = load ptr, ptr %syscallslot
  %threadsslot = getelementptr i64, ptr %state, i64 49
  %threads = load i64, ptr %threadsslot
  br label %head
head:
  %step = phi i64 [ %first, %entry ], [ %following, %next ]
  %more = icmp slt i64 %step, %count
  br i1 %more, label %body, label %over
over:
  ret i64 %count
body:
  %place = mul i64 %step, 8
  %r0 = getelementptr i64, ptr %code, i64 %place
  %function = load ptr, ptr %r0
  %r1 = getelementptr i64, ptr %r0, i64 1
  %record = load ptr, ptr %r1
  %r2 = getelementptr i64, ptr %r0, i64 2
  %rows = load i64, ptr %r2
  %r3 = getelementptr i64, ptr %r0, i64 3
  %chunks = load i64, ptr %r3
  %python = icmp eq ptr %function, null
  br i1 %python, label %leave, label %choose
leave:
  ret i64 %step
choose:
  %r4 = getelementptr i64, ptr %r0, i64 4
  %ownwork = load i64, ptr %r4
  %r5 = getelementptr i64, ptr %r0, i64 5
  %together = load i64, ptr %r5
  %r6 = getelementptr i64, ptr %r0, i64 6
  %bunchchunks = load i64, ptr %r6
  %r7 = getelementptr i64, ptr %r0, i64 7
  %bunchwork = load i64, ptr %r7
  %bunch = icmp ugt i64 %together, 1
  %jobfunction = select i1 %bunch, ptr @bunch, ptr %function
  %jobrecord = select i1 %bunch, ptr %r0, ptr %record
  %jobrows = select i1 %bunch, i64 %together, i64 %rows
  %jobchunks = select i1 %bunch, i64 %bunchchunks, i64 %chunks
  %work = select i1 %bunch, i64 %bunchwork, i64 %ownwork
  %several = icmp ugt i64 %jobchunks, 1
  %helped = icmp ugt i64 %threads, 1
  %both = and i1 %several, %helped
  br i1 %both, label %weigh, label %alone
weigh:
  %asleep = getelementptr i64, ptr %state, i64 56
  %some = icmp uge i64 %work, WORTH_SHARING
  br i1 %some, label %look, label %alone
look:
  %sleepers = load atomic i64, ptr %asleep seq_cst, align 8
  %beside = add i64 %sleepers, 1
  %awake = icmp ult i64 %beside, %threads
  br i1 %awake, label %try, label %drowsy
drowsy:
  %clock = call i64 @llvm.readcyclecounter()
  %missed = getelementptr i64, ptr %state, i64 57
  %earlier = atomicrmw xchg ptr %missed, i64 %clock monotonic
  %since = sub i64 %clock, %earlier
  %shortly = icmp ult i64 %since, SHORTLY
  %much = icmp uge i64 %work, WORTH_WAKING
  %wakes = or i1 %shortly, %much
  br i1 %wakes, label %try, label %alone
try:
  %held = getelementptr i64, ptr %state, i64 24
  %pair = cmpxchg ptr %held, i64 0, i64 1 seq_cst seq_cst
  %free = extractvalue { i64, i1 } %pair, 1
  br i1 %free, label %post, label %alone
alone:
  br label %turn
turn:
  %chunk = phi i64 [ 0, %alone ], [ %chunk2, %one ]
  %left = icmp ult i64 %chunk, %chunks
  br i1 %left, label %one, label %check
one:
  call void @part(ptr %function, ptr %record, ptr %buffers, ptr %outside, i64 %rows, i64 %chunks, i64 %chunk)
  %chunk2 = add i64 %chunk, 1
  br label %turn
check:
  %checks = icmp slt i64 %ownwork, 0
  br i1 %checks, label %word, label %next
word:
  %result = load i64, ptr %record
  %resultslot = getelementptr ptr, ptr %buffers, i64 %result
  %resultat = load ptr, ptr %resultslot
  %wrong = load i64, ptr %resultat
  %stops = icmp ne i64 %wrong, 0
  br i1 %stops, label %failed, label %next
failed:
  ret i64 -2
post:
  %s0 = getelementptr i64, ptr %state, i64 40
  store ptr %jobfunction, ptr %s0
  %s1 = getelementptr i64, ptr %state, i64 41
  store ptr %jobrecord, ptr %s1
  %s2 = getelementptr i64, ptr %state, i64 42
  store i64 %jobrows, ptr %s2
  %s3 = getelementptr i64, ptr %state, i64 43
  store i64 %jobchunks, ptr %s3
  %s4 = getelementptr i64, ptr %state, i64 44
  store ptr %buffers, ptr %s4
  %s5 = getelementptr i64, ptr %state, i64 45
  store ptr %outside, ptr %s5
  %done = getelementptr i64, ptr %state, i64 16
  store atomic i64 0, ptr %done seq_cst, align 8
  %before = load atomic i64, ptr %state seq_cst, align 8
  %wide = add i64 %before, 1
  %job = and i64 %wide, 2147483647
  %upper = shl i64 %job, 32
  %unclaimed = or i64 %upper, %jobchunks
  %claims = getelementptr i64, ptr %state, i64 8
  store atomic i64 %unclaimed, ptr %claims seq_cst, align 8
  store atomic i64 %job, ptr %state seq_cst, align 8
  %stillasleep = load atomic i64, ptr %asleep seq_cst, align 8
  %any = icmp ne i64 %stillasleep, 0
  br i1 %any, label %wake, label %posted
wake:
  %woken = call i64 (i64, ...) %syscall(i64 202, ptr %state, i32 129, i32 1024, ptr null)
  br label %posted
posted:
  call void @share(ptr %state, i64 %job)
  br label %wait
wait:
  %turns = phi i64 [ 0, %posted ], [ %turn1, %pause ], [ 0, %yield ]
  %finished = load atomic i64, ptr %done seq_cst, align 8
  %all = icmp uge i64 %finished, %jobchunks
  br i1 %all, label %release, label %patience
patience:
  %turn1 = add i64 %turns, 1
  %tired = icmp ugt i64 %turn1, 2000
  br i1 %tired, label %yield, label %pause
pause:
  call void @llvm.x86.sse2.pause()
  br label %wait
yield:
  %yielded = call i64 (i64, ...) %syscall(i64 24)
  br label %wait
release:
  store atomic i64 0, ptr %held seq_cst, align 8
  %past = select i1 %bunch, i64 %together, i64 1
  br label %next
next:
  %done1 = phi i64 [ %past, %release ], [ 1, %check ], [ 1, %word ]
  %following = add i64 %step, %done1
  br label %head
}

define void @bunch(ptr %records, ptr %buffers, ptr %outside, i64 %lo, i64 %hi, i64 %number) {
entry:
  br label %head
head:
  %i = phi i64 [ %lo, %entry ], [ %next, %done ]
  %more = icmp slt i64 %i, %hi
  br i1 %more, label %one, label %end
one:
  %place = mul i64 %i, 8
  %r0 = getelementptr i64, ptr %records, i64 %place
  %function = load ptr, ptr %r0
  %r1 = getelementptr i64, ptr %r0, i64 1
  %record = load ptr, ptr %r1
  %r2 = getelementptr i64, ptr %r0, i64 2
  %rows = load i64, ptr %r2
  %r3 = getelementptr i64, ptr %r0, i64 3
  %chunks = load i64, ptr %r3
  br label %turn
turn:
  %chunk = phi i64 [ 0, %one ], [ %after, %part ]
  %left = icmp ult i64 %chunk, %chunks
  br i1 %left, label %part, label %done
part:
  call void @part(ptr %function, ptr %record, ptr %buffers, ptr %outside, i64 %rows, i64 %chunks, i64 %chunk)
  %after = add i64 %chunk, 1
  br label %turn
done:
  %next = add i64 %i, 1
  br label %head
end:
  ret void
}

define void @lock(ptr %slot) {
entry:
  br label %again
again:
  %pair = cmpxchg ptr %slot, i64 0, i64 1 seq_cst seq_cst
  %got = extractvalue { i64, i1 } %pair, 1
  br i1 %got, label %done, label %pause
pause:
  call void @llvm.x86.sse2.pause()
  br label %again
done:
  ret void
}

define void @blas_enter(ptr %blas) {
  %lock = getelementptr i64, ptr %blas, i64 4
  call void @lock(ptr %lock)
  %countslot = getelementptr i64, ptr %blas, i64 2
  %count = load i64, ptr %countslot
  %more = add i64 %count, 1
  store i64 %more, ptr %countslot
  %first = icmp eq i64 %count, 0
  br i1 %first, label %set, label %done
set:
  %get = load ptr, ptr %blas
  %threads = call i32 %get()
  %wide = zext i32 %threads to i64
  %before = getelementptr i64, ptr %blas, i64 3
  store i64 %wide, ptr %before
  %putslot = getelementptr i64, ptr %blas, i64 1
  %put = load ptr, ptr %putslot
  call void %put(i32 1)
  br label %done
done:
  store atomic i64 0, ptr %lock seq_cst, align 8
  ret void
}

define void @blas_leave(ptr %blas) {
  %lock = getelementptr i64, ptr %blas, i64 4
  call void @lock(ptr %lock)
  %countslot = getelementptr i64, ptr %blas, i64 2
  %count = load i64, ptr %countslot
  %less = sub i64 %count, 1
  store i64 %less, ptr %countslot
  %last = icmp eq i64 %less, 0
  br i1 %last, label %set, label %done
set:
  %before = getelementptr i64, ptr %blas, i64 3
  %wide = load i64, ptr %before
  %threads = trunc i64 %wide to i32
  %putslot = getelementptr i64, ptr %blas, i64 1
  %put = load ptr, ptr %putslot
  call void %put(i32 %threads)
  br label %done
done:
  store atomic i64 0, ptr %lock seq_cst, align 8
  ret void
}
declare void @llvm.x86.sse2.pause()
declare i64 @llvm.readcyclecounter()
"""
TEXT: Final = (
    PLAN.replace("WORTH_SHARING", str(WORTH_SHARING))
    .replace("WORTH_WAKING", str(WORTH_WAKING))
    .replace("SHORTLY", str(SHORTLY))
)


class Pool:
    """Threads, made when first needed, and the functions that run programs on them."""

    def __init__(self, threads: int) -> None:
        self.threads = max(threads, 1)
        self.loaded = Loaded(TEXT + calls.TEXT, 0)  # as fast as level 2, and compiled in a fifth of its time
        self.syscall = address_of("syscall.f64")
        self.state: Any = np.zeros(64, np.uint64)
        self.state[SYSCALL], self.state[THREADS] = self.syscall, 1
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
                wake(FUTEX, self.here, WAKE, 1024, 0)
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
