"""How many threads there are: asked for, by affinity, by quota."""

from __future__ import annotations

import _thread
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from pathlib import Path
from time import sleep
from typing import Any

import pytest

from weft.core import threads


@pytest.fixture(autouse=True)
def forgotten() -> Iterator[None]:
    before = list(threads.asked), list(threads.watchers)
    threads.available.cache_clear()
    yield
    threads.asked[:], threads.watchers[:] = before
    threads.available.cache_clear()


@pytest.mark.parametrize(
    ("content", "expected"),
    [("150000 100000", 2), ("50000 100000", 1), ("max 100000", 64), ("", 64), ("-1 100000", 64)],
)
def test_quotas(content: str, expected: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "cpu.max"
    path.write_text(content)
    monkeypatch.setattr(threads, "QUOTAS", ((str(path),), (str(tmp_path / "none"),)))
    monkeypatch.setattr(os, "sched_getaffinity", lambda _process: set(range(64)), raising=False)
    assert threads.available() == expected


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({}, 0),
        ({"OMP_NUM_THREADS": "3"}, 3),
        ({"OMP_NUM_THREADS": "4,2"}, 4),
        ({"OMP_NUM_THREADS": "3", "WEFT_NUM_THREADS": "5"}, 5),
        ({"OMP_NUM_THREADS": "0"}, 0),
        ({"WEFT_NUM_THREADS": "many"}, 0),
    ],
)
def test_the_environment_may_name_a_number(
    variables: dict[str, str], expected: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in threads.VARIABLES:
        monkeypatch.delenv(name, raising=False)
    for name, text in variables.items():
        monkeypatch.setenv(name, text)
    assert threads.named.__wrapped__() == expected


def test_what_is_asked_for_counts() -> None:
    told: list[int] = []
    threads.watchers.append(told.append)
    threads.ask(3)
    assert threads.count() == 3 and told == [3]
    threads.asked.clear()
    assert threads.count() == threads.available() >= 1


def test_a_start_that_is_interrupted(monkeypatch: pytest.MonkeyPatch) -> None:
    """The handler's exception comes out, and the thread runs."""
    dropped, ran = [], threading.Event()
    monkeypatch.setattr(sys, "unraisablehook", dropped.append)
    monkeypatch.setattr(threading, "excepthook", dropped.append)

    def handle(_number: int, _frame: Any) -> None:
        raise Late

    def profile(_frame: Any, event: str, value: Any) -> None:
        if event == "c_return" and value is _thread.start_new_thread:
            sys.setprofile(None)
            sleep(0.05)  # the new thread is further than this one
            signal.raise_signal(signal.SIGUSR1)

    thread = threading.Thread(target=ran.set)
    before = signal.signal(signal.SIGUSR1, handle)
    sys.setprofile(profile)
    try:
        with pytest.raises(Late):
            threads.start(thread)
    finally:
        sys.setprofile(None)
        signal.signal(signal.SIGUSR1, before)
    assert ran.wait(10)
    thread.join()
    assert dropped == []


class Late(Exception):
    pass


def test_what_is_out_of_reach_is_done_before_an_interrupt_goes_on() -> None:
    steps, begun = [], threading.Event()
    variable: ContextVar[int] = ContextVar("variable", default=0)

    def handle(_number: int, _frame: Any) -> None:
        steps.append("handler")
        raise Late

    @threads.out_of_reach
    def work(value: int) -> int:
        begun.set()
        if value:
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGUSR1)
        for _ in range(5):
            sleep(0.01)
        steps.append("work")
        return value + variable.get()

    variable.set(3)
    assert work(0) == 3
    steps.clear()
    before = signal.signal(signal.SIGUSR1, handle)
    try:
        with pytest.raises(Late):
            work(1)
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert steps == ["handler", "work"]


def test_what_is_out_of_reach_raises() -> None:
    @threads.out_of_reach
    def work() -> None:
        raise KeyError("a")

    with pytest.raises(KeyError, match="a"):
        work()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there are no forks")
@pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")
def test_a_handler_forks_while_something_is_out_of_reach(monkeypatch: pytest.MonkeyPatch) -> None:
    """What runs it is not there in the child, which does it itself."""
    children: list[int] = []
    main = os.getpid()
    monkeypatch.setattr(threads, "CHECKED", 0.05)

    def handle(_number: int, _frame: Any) -> None:
        children.append(os.fork())

    @threads.out_of_reach
    def work() -> int:
        if os.getpid() == main:
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGUSR1)
            sleep(0.1)
        return 7

    before = signal.signal(signal.SIGUSR1, handle)
    try:
        found = work()
    finally:
        signal.signal(signal.SIGUSR1, before)
        if children == [0]:
            os._exit(found)
    assert found == 7
    assert os.waitstatus_to_exitcode(os.waitpid(children[0], 0)[1]) == 7


class Strikes:
    """Raises something in its thread at the n-th event of some files and at the next ones, as another thread
    would. The profile function ends before that.
    """

    def __init__(self, point: int, count: int, files: tuple[str, ...]) -> None:
        self.point, self.count, self.files, self.seen = point, count, files, 0
        self.go, self.struck = threading.Lock(), threading.Lock()

    def __call__(self, frame: Any, event: str, _value: Any) -> None:
        if event in ("call", "c_return") and frame.f_code.co_filename in self.files:
            self.seen += 1
            if self.point <= self.seen < self.point + self.count:
                raise Late


def struck(work: Callable[[], Any], point: int, count: int, files: tuple[str, ...]) -> bool:
    """Does it in a thread, where something is raised at some events; says whether that came so far."""
    strikes = Strikes(point, count, files)

    def there() -> None:
        for _ in range(count + 1):
            sys.setprofile(strikes)
            try:
                work()
            except Late:
                continue
            finally:
                sys.setprofile(None)
            break

    thread = threading.Thread(target=there)
    thread.start()
    thread.join(10)
    assert not thread.is_alive(), "it hangs"
    return strikes.seen >= point


@pytest.mark.parametrize("count", [1, 2, 5])
def test_workers_that_are_struck_as_they_are_started(count: int) -> None:
    """Each one that was started runs and ends, and nobody waits for one that was not."""
    point = 1
    while True:
        ran: list[int] = []
        worker = threads.Worker(ran.append, 1)
        came = struck(worker.start, point, count, (threads.__file__, threading.__file__))
        worker.join(10)
        assert not worker.is_alive() and (not worker.is_started or ran)
        if not came:
            break
        point += 1
    assert point > 1


def test_workers_run_and_end() -> None:
    gate, found = threading.Lock(), []
    gate.acquire()
    worker = threads.Worker(lambda *given: (gate.acquire(), found.append(given)), 1, 2)
    assert not worker.is_alive()
    worker.join()
    worker.start()
    worker.join(0.01)
    assert worker.is_alive() and found == []
    gate.release()
    worker.join()
    assert not worker.is_alive() and found == [(1, 2)]
    failing = threads.Worker(lambda: _thread.exit())
    failing.start()
    failing.join(10)
    assert not failing.is_alive()


def test_what_cannot_be_started_says_so() -> None:
    thread = threading.Thread(target=int)
    threads.start(thread)
    thread.join()
    with pytest.raises(RuntimeError, match="threads can only be started once"):
        threads.start(thread)


def test_nothing_waits_for_a_thread_where_the_interpreter_ends() -> None:
    text = """if True:
        import os, sys
        from weft.core.threads import out_of_reach
        class Last:
            def __del__(self, ends=sys.is_finalizing, write=out_of_reach(os.write, everywhere=True)):
                write(1, b"is over" if ends() else b"goes on")
        sys.modules["kept until modules are taken down"] = Last()
    """
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, timeout=20)
    assert (done.returncode, done.stdout) == (0, "is over"), done.stderr
