"""The pool's machine code: claiming chunks, threads that wait, and the loop that runs programs; as LLVM text.

Takes a kind of processor; gives the functions that `weft.native.cpu.pool` loads. One idea: a chunk is
claimed by one atomic exchange that also says which job it belongs to; see Note [A job] and Note [Records of a
program] there. Threads sleep by `futex`, which the C library reaches by its number; all other calls have
names.
"""

from __future__ import annotations

from typing import Final

from weft.native.cpu.processor import MONOTONIC, Processor
from weft.native.cpu.writer import Writer

FIELDS: Final = 8
COUNT, NEXT, DONE, HELD, ENDS, JOB, SYSCALL, THREADS, YIELD, CLOCK, ASLEEP, MISSED = (
    0, 8, 16, 24, 32, 40, 48, 49, 50, 51, 56, 57,
)  # fmt: skip
"""Where in the state things stand, in numbers; those that threads fight over have a cache line each."""
GET, PUT, USERS, BEFORE, LOCK = range(5)
"""Where in the guard of BLAS things stand: see `weft.native.cpu.blas`."""
WORTH_WAKING = 100_000
WORTH_SHARING = 8_000
"""From how much work on (in ns) a step is shared with threads that sleep, and with threads that do not."""
SHORTLY = 100_000
"""For how many ns work that was worth sharing counts: as long as threads spin."""
PATIENCE: Final = 2_000
"""How often a thread looks whether others are done before it lets them have the core."""
WAIT, WAKE, ALL = 128, 129, 1024
"""What `futex` is to do, for threads of one process; how many it wakes."""
ARGUMENTS: Final = ("ptr %buffers", "ptr %outside")
PART: Final = ("ptr %function", "ptr %record", *ARGUMENTS, "i64 %rows", "i64 %chunks", "i64 %chunk")
RUN: Final = ("ptr %code", "i64 %first", "i64 %count", *ARGUMENTS, "ptr %state")


def text(processor: Processor) -> str:
    """The module, but for what `weft.native.cpu.calls` adds."""
    w = Writer()
    w.declare(f"@{processor.pause}", "void", *processor.argument.split()[:1])
    _claim(w)
    _share(w)
    _part(w)
    _worker(w, processor)
    _run(w)
    _go(w, processor)
    _bunch(w)
    _lock(w, processor)
    _blas(w, "blas_enter", 1)
    _blas(w, "blas_leave", -1)
    return w.text()


# -- what several need ---------------------------------------------------------------------------------------
def _seen(w: Writer, pointer: str) -> str:
    return w.let(f"load atomic i64, ptr {pointer} seq_cst, align 8")


def _shown(w: Writer, value: str | int, pointer: str) -> None:
    w.line(f"store atomic i64 {value}, ptr {pointer} seq_cst, align 8")


def _exchanged(w: Writer, pointer: str, old: str | int, new: str | int) -> str:
    """Whether a number was the old one, and is the new one now."""
    pair = w.let(f"cmpxchg ptr {pointer}, i64 {old}, i64 {new} seq_cst seq_cst")
    return w.let(f"extractvalue {{ i64, i1 }} {pair}, 1")


def _pause(w: Writer, processor: Processor) -> None:
    w.call("void", f"@{processor.pause}", *filter(None, [processor.argument]))


def _futex(w: Writer, processor: Processor, syscall: str, what: int, number: str | int) -> None:
    given = (f"i64 {processor.futex}", "ptr %state", f"i32 {what}", f"i32 {number}", "ptr null")
    w.call("i64 (i64, ...)", syscall, *given)


def _record(w: Writer, records: str, number: str) -> tuple[str, list[str]]:
    """A record: its address; function, numbers, rows and chunks."""
    at = w.item_at(records, w.scaled(number, FIELDS))
    types = ("ptr", "ptr", "i64", "i64")
    return at, [w.let(f"load {type}, ptr {w.item_at(at, place)}") for place, type in enumerate(types)]


def _call_part(w: Writer, step: list[str], chunk: str) -> None:
    function, record, rows, chunks = step
    given = (f"ptr {function}", f"ptr {record}", *ARGUMENTS, f"i64 {rows}", f"i64 {chunks}", f"i64 {chunk}")
    w.call("void", "@part", *given)


def _all_parts(w: Writer, step: list[str]) -> None:
    """All chunks of a step, one after the other."""
    with w.counting("0", step[3]) as chunk:
        _call_part(w, step, chunk.at)


# -- chunks --------------------------------------------------------------------------------------------------
def taken(w: Writer, chunks: str, left: str) -> str:
    """Which chunk is taken where so many are left."""
    return w.sub(chunks, left)


def _claim(w: Writer) -> None:
    """The number of a chunk of this job that nobody has taken; -1 where there is none."""
    with w.function("i64", "claim", "ptr %state", "i64 %job", "i64 %chunks"):
        slot = w.item_at("%state", NEXT)
        again, ours, take, done, none = (w.label() for _ in range(5))
        w.go(again)
        w.begin(again)
        now = _seen(w, slot)
        w.choose(w.same("i64", w.let(f"lshr i64 {now}, 32"), "%job"), ours, none)
        w.begin(ours)
        left = w.let(f"and i64 {now}, {(1 << 32) - 1}")
        w.choose(w.same("i64", left, "0"), none, take)
        w.begin(take)
        w.choose(_exchanged(w, slot, now, w.sub(now, 1)), done, again)
        w.begin(done)
        w.ret("i64", taken(w, "%chunks", left))
        w.begin(none)
        w.ret("i64", -1)


def _share(w: Writer) -> None:
    """Runs chunks of a job until none are left."""
    with w.function("void", "share", "ptr %state", "i64 %job"):
        types = ("ptr", "ptr", "i64", "i64", "ptr", "ptr")
        pointers = [w.item_at("%state", JOB + place) for place in range(len(types))]
        *step, buffers, outside = [w.let(f"load {t}, ptr {p}") for t, p in zip(types, pointers)]
        function, record, rows, chunks = step
        done = w.item_at("%state", DONE)
        more, work, end = (w.label() for _ in range(3))
        w.go(more)
        w.begin(more)
        chunk = w.call("i64", "@claim", "ptr %state", "i64 %job", f"i64 {chunks}")
        w.choose(w.let(f"icmp slt i64 {chunk}, 0"), end, work)
        w.begin(work)
        given = (f"ptr {function}", f"ptr {record}", f"ptr {buffers}", f"ptr {outside}")
        w.call("void", "@part", *given, f"i64 {rows}", f"i64 {chunks}", f"i64 {chunk}")
        w.let(f"atomicrmw add ptr {done}, i64 1 seq_cst")
        w.go(more)
        w.begin(end)
        w.ret()


def _part(w: Writer) -> None:
    """One chunk: its rows are a function of its number alone."""
    with w.function("void", "part", *PART):
        behind = w.add("%chunk", 1)
        ends = [w.let(f"mul i64 %rows, {chunk}") for chunk in ("%chunk", behind)]
        low, high = (w.let(f"udiv i64 {end}, %chunks") for end in ends)
        given = ("ptr %record", *ARGUMENTS, f"i64 {low}", f"i64 {high}", "i64 %chunk")
        w.call("void", "%function", *given)
        w.ret()


def _bunch(w: Writer) -> None:
    """Some of the steps that may run at the same time: a function as those of steps are."""
    with w.function("void", "bunch", "ptr %records", *ARGUMENTS, "i64 %lo", "i64 %hi", "i64 %number"):
        with w.counting("%lo", "%hi") as number:
            _, step = _record(w, "%records", number.at)
            _all_parts(w, step)
        w.ret()


# -- threads -------------------------------------------------------------------------------------------------
def _worker(w: Writer, processor: Processor) -> None:
    """A thread: looks for jobs, spins for a while, then sleeps until it is woken."""
    with w.function("void", "worker", "ptr %state", "ptr %syscall", "i64 %spins"):
        last, turns = w.phi("i64"), w.phi("i64")

        def back(seen: str | int, turn: str | int) -> None:
            w.bring(last, seen)
            w.bring(turns, turn)
            w.go(look)

        look, see, idle, run, sleep, spin, end = (w.label() for _ in range(7))
        back(0, 0)
        with w.joining(look, last, turns):
            stop = _seen(w, w.item_at("%state", ENDS))
            w.choose(w.other("i64", stop, "0"), end, see)
            w.begin(see)
            now = _seen(w, "%state")
            w.choose(w.same("i64", now, last.name), idle, run)
            w.begin(run)
            w.call("void", "@share", "ptr %state", f"i64 {now}")
            back(now, 0)
            w.begin(idle)
            more = w.add(turns.name, 1)
            w.choose(w.let(f"icmp ugt i64 {more}, %spins"), sleep, spin)
            w.begin(spin)
            _pause(w, processor)
            back(last.name, more)
            w.begin(sleep)
            asleep = w.item_at("%state", ASLEEP)
            w.let(f"atomicrmw add ptr {asleep}, i64 1 seq_cst")
            _futex(w, processor, "%syscall", WAIT, w.let(f"trunc i64 {now} to i32"))
            w.let(f"atomicrmw sub ptr {asleep}, i64 1 seq_cst")
            back(last.name, 0)
        w.begin(end)
        w.ret()


# -- programs ------------------------------------------------------------------------------------------------
def _run(w: Writer) -> None:
    """Steps from the first one on; gives the step that Python has to do, how many there are, or -2."""
    with w.function("i64", "run", *RUN, "ptr %blas"):
        guarded, plain = w.label(), w.label()
        w.choose(w.other("ptr", "%blas", "null"), guarded, plain)
        w.begin(guarded)
        w.call("void", "@blas_enter", "ptr %blas")
        found = w.call("i64", "@go", *RUN)
        w.call("void", "@blas_leave", "ptr %blas")
        w.ret("i64", found)
        w.begin(plain)
        w.ret("i64", w.call("i64", "@go", *RUN))


def _go(w: Writer, processor: Processor) -> None:
    with w.function("i64", "go", *RUN):
        time = w.let("alloca [2 x i64]")
        threads = w.item("%state", THREADS)
        step, past = w.phi("i64"), w.phi("i64")
        head, body, over, leave, chosen, share, alone, following = (w.label() for _ in range(8))
        w.bring(step, "%first")
        w.go(head)
        with w.joining(head, step):
            w.choose(w.let(f"icmp slt i64 {step.name}, %count"), body, over)
            w.begin(over)
            w.ret("i64", "%count")
            w.begin(body)
            at, own = _record(w, "%code", step.name)
            w.choose(w.same("ptr", own[0], "null"), leave, chosen)
            w.begin(leave)
            w.ret("i64", step.name)
            w.begin(chosen)
            own_work, together, bunch_chunks, bunch_work = (w.item(at, place) for place in range(4, FIELDS))
            bunch = w.let(f"icmp ugt i64 {together}, 1")
            pairs = zip(("ptr", "ptr", "i64", "i64"), ("@bunch", at, together, bunch_chunks), own)
            job = [w.pick(bunch, type, several, one) for type, several, one in pairs]
            work = w.pick(bunch, "i64", bunch_work, own_work)
            _weigh(w, (job[3], work, threads), time, share, alone)
            w.begin(alone)
            _alone(w, own, own_work)
            w.bring(past, 1)
            w.go(following)
            w.begin(share)
            _shared(w, processor, job)
            w.bring(past, w.pick(bunch, "i64", together, 1))
            w.go(following)
            with w.joining(following, past):
                w.bring(step, w.add(step.name, past.name))
                w.go(head)


def _weigh(w: Writer, sizes: tuple[str, str, str], time: str, share: str, alone: str) -> None:
    """Whether a step is shared: goes to `share` where it holds the pool, else to `alone`."""
    chunks, work, threads = sizes
    several, helped = w.let(f"icmp ugt i64 {chunks}, 1"), w.let(f"icmp ugt i64 {threads}, 1")
    w.need(w.let(f"and i1 {several}, {helped}"), alone)
    w.need(w.let(f"icmp uge i64 {work}, {WORTH_SHARING}"), alone)
    hold, drowsy = w.label(), w.label()
    beside = w.add(_seen(w, w.item_at("%state", ASLEEP)), 1)
    w.choose(w.let(f"icmp ult i64 {beside}, {threads}"), hold, drowsy)
    w.begin(drowsy)
    w.call("i32", w.item("%state", CLOCK, "ptr"), f"i32 {MONOTONIC}", f"ptr {time}")
    now = w.add(w.scaled(w.item(time, 0), 1_000_000_000), w.item(time, 1))
    earlier = w.let(f"atomicrmw xchg ptr {w.item_at('%state', MISSED)}, i64 {now} monotonic")
    shortly = w.let(f"icmp ult i64 {w.sub(now, earlier)}, {SHORTLY}")
    much = w.let(f"icmp uge i64 {work}, {WORTH_WAKING}")
    w.choose(w.let(f"or i1 {shortly}, {much}"), hold, alone)
    w.begin(hold)
    w.choose(_exchanged(w, w.item_at("%state", HELD), 0, 1), share, alone)


def _alone(w: Writer, step: list[str], work: str) -> None:
    """A step on this thread alone; ends the program where it checks, and finds something wrong."""
    _all_parts(w, step)
    check, on, failed = (w.label() for _ in range(3))
    w.choose(w.let(f"icmp slt i64 {work}, 0"), check, on)
    w.begin(check)
    result = w.item("%buffers", w.item(step[1], 0), "ptr")
    w.choose(w.other("i64", w.item(result, 0), "0"), failed, on)
    w.begin(failed)
    w.ret("i64", -2)
    w.begin(on)


def _shared(w: Writer, processor: Processor, job: list[str]) -> None:
    """A step, or several, on all threads. This one holds the pool."""
    given = zip(("ptr", "ptr", "i64", "i64", "ptr", "ptr"), (*job, "%buffers", "%outside"))
    for place, (type, value) in enumerate(given):
        w.put_item(type, value, w.item_at("%state", JOB + place), 0)
    done, syscall = w.item_at("%state", DONE), w.item("%state", SYSCALL, "ptr")
    _shown(w, 0, done)
    number = w.let(f"and i64 {w.add(_seen(w, '%state'), 1)}, {(1 << 31) - 1}")
    unclaimed = w.let(f"or i64 {w.let(f'shl i64 {number}, 32')}, {job[3]}")
    _shown(w, unclaimed, w.item_at("%state", NEXT))
    _shown(w, number, "%state")
    with w.when(w.other("i64", _seen(w, w.item_at("%state", ASLEEP)), "0")):
        _futex(w, processor, syscall, WAKE, ALL)
    w.call("void", "@share", "ptr %state", f"i64 {number}")
    wait, patience, pause, rest, release = (w.label() for _ in range(5))
    turns = w.phi("i64")
    w.bring(turns, 0)
    w.go(wait)
    with w.joining(wait, turns):
        w.choose(w.let(f"icmp uge i64 {_seen(w, done)}, {job[3]}"), release, patience)
        w.begin(patience)
        more = w.add(turns.name, 1)
        w.choose(w.let(f"icmp ugt i64 {more}, {PATIENCE}"), rest, pause)
        w.begin(pause)
        _pause(w, processor)
        w.bring(turns, more)
        w.go(wait)
        w.begin(rest)
        w.call("i32", w.item("%state", YIELD, "ptr"))
        w.bring(turns, 0)
        w.go(wait)
    w.begin(release)
    _shown(w, 0, w.item_at("%state", HELD))


# -- BLAS ----------------------------------------------------------------------------------------------------
def _lock(w: Writer, processor: Processor) -> None:
    with w.function("void", "lock", "ptr %slot"):
        again, pause, done = (w.label() for _ in range(3))
        w.go(again)
        w.begin(again)
        w.choose(_exchanged(w, "%slot", 0, 1), done, pause)
        w.begin(pause)
        _pause(w, processor)
        w.go(again)
        w.begin(done)
        w.ret()


def _blas(w: Writer, name: str, step: int) -> None:
    """One more program that multiplies, or one less: the first sets BLAS to one thread, the last sets it
    back.
    """
    with w.function("void", name, "ptr %blas"):
        lock = w.item_at("%blas", LOCK)
        w.call("void", "@lock", f"ptr {lock}")
        count = w.item("%blas", USERS)
        after = w.add(count, step)
        w.put_item("i64", after, "%blas", USERS)
        with w.when(w.same("i64", count if step > 0 else after, "0")):
            threads: str = "1"
            if step > 0:
                known = w.call("i32", w.item("%blas", GET, "ptr"))
                w.put_item("i64", w.let(f"zext i32 {known} to i64"), "%blas", BEFORE)
            else:
                threads = w.let(f"trunc i64 {w.item('%blas', BEFORE)} to i32")
            w.call("void", w.item("%blas", PUT, "ptr"), f"i32 {threads}")
        _shown(w, 0, lock)
        w.ret()
