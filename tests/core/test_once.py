"""Once: all get the same object, and locks are free in forked processes."""

from __future__ import annotations

import os
import sys
import threading
from typing import Any

import pytest

from weft.core.once import cached, lock, once


def test_threads_get_the_same_object() -> None:
    barrier = threading.Barrier(4)

    @once
    def make(name: str) -> list[str]:
        barrier.wait()  # all of them are here before any is done
        return [name]

    found: list[Any] = []
    threads = [threading.Thread(target=lambda: found.append(make("a"))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 4 and all(each is found[0] for each in found)


def test_what_fails_is_made_again() -> None:
    tries: list[int] = []

    @once
    def make() -> int:
        tries.append(1)
        if len(tries) == 1:
            raise KeyboardInterrupt
        return len(tries)

    with pytest.raises(KeyboardInterrupt):
        make()
    assert make() == make() == 2


def test_none_is_something_that_was_made() -> None:
    calls: list[int] = []

    @once
    def make() -> None:
        calls.append(1)

    make(), make()
    assert len(calls) == 1


def in_child(work: Any) -> int:
    child = os.fork()
    if not child:
        os._exit(work())
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


@pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")
@pytest.mark.skipif(not hasattr(os, "fork"), reason="there are no forks")
def test_a_lock_of_another_thread_is_free_in_a_child() -> None:
    held, done, guard = threading.Event(), threading.Event(), lock()

    def hold() -> None:
        with guard:
            held.set()
            done.wait()

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait()
    try:
        assert in_child(lambda: 0 if guard.acquire(timeout=5) else 1) == 0
        assert not guard.acquire(timeout=0.01)
    finally:
        done.set()
        thread.join()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there are no forks")
def test_a_lock_that_the_forking_thread_holds_stays_held() -> None:
    def work() -> int:
        guard.release()
        return 0

    guard = lock()
    with guard:
        assert in_child(work) == 0


def test_what_is_there_is_found_without_a_call_of_python() -> None:
    calls: list[str] = []

    @once
    def make(name: str) -> str:
        return name

    make("a")
    sys.setprofile(lambda frame, event, _: calls.append(frame.f_code.co_name) if event == "call" else None)
    try:
        make("a")
    finally:
        sys.setprofile(None)
    assert not calls


def test_what_an_object_keeps_is_computed_under_no_lock() -> None:
    """Of two threads each computes what the other one asks for meanwhile, as in a finalizer."""
    meeting = threading.Barrier(2)

    class Pair:
        def __init__(self, is_inner: bool = False) -> None:
            self.is_inner = is_inner

        @cached
        def left(self) -> int:
            if self.is_inner:
                return 1
            meeting.wait(5)
            return Pair(is_inner=True).right

        @cached
        def right(self) -> int:
            if self.is_inner:
                return 2
            meeting.wait(5)
            return Pair(is_inner=True).left

    found: list[int] = []
    threads = [
        threading.Thread(target=lambda: found.append(Pair().left), daemon=True),
        threading.Thread(target=lambda: found.append(Pair().right), daemon=True),
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(5)
    assert sorted(found) == [1, 2]
