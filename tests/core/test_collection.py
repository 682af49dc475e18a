"""Collection is put off, and comes back."""

from __future__ import annotations

import ast
import gc
import os
import signal
import sys
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

import weft
from weft.core import collection
from weft.core.collection import Living, promote, put_off


@contextmanager
def uncollected() -> Iterator[None]:
    """As whoever compiles."""
    held = put_off()
    try:
        yield
        if held is not None:
            promote()
    finally:
        held = None


def collects() -> bool:
    return gc.isenabled() and 0 < gc.get_threshold()[0] < collection.NEVER


def test_put_off_and_back() -> None:
    assert collects()
    with uncollected():
        assert not collects()
        with uncollected():
            assert not collects()
        assert not collects()
    assert collects()
    with pytest.raises(ValueError), uncollected():
        raise ValueError
    assert collects()


def test_what_could_not_be_taken_up_is_taken_up_later(monkeypatch: pytest.MonkeyPatch) -> None:
    before = gc.get_threshold()
    held = put_off()
    assert held is not None and collection._back is not None
    monkeypatch.setattr(collection._back, "back", int)  # as where there is no memory for it
    try:
        held = None
        assert not collects()
        with uncollected():
            assert not collects()
        assert collects()
        assert gc.get_threshold() == before
    finally:
        gc.set_threshold(*before)


def test_who_has_switched_it_off_keeps_it_so() -> None:
    gc.disable()
    try:
        with uncollected():
            pass
        assert not collects()
        weft.compile(lambda x: x + 1)(weft.ones(2))
        assert not collects()
    finally:
        gc.enable()


def in_thread(function: Any, *args: Any) -> None:
    thread = threading.Thread(target=function, args=args)
    thread.start()
    thread.join()


def test_what_others_switch_meanwhile_stays() -> None:
    before = gc.get_threshold()
    try:
        with uncollected():
            in_thread(gc.disable)
        assert not gc.isenabled() and gc.get_threshold() == before
        gc.enable()
        with uncollected():
            in_thread(gc.enable)
            assert not collects()
        assert collects()
        with uncollected():
            in_thread(gc.set_threshold, 123, 7, before[2])
        assert gc.get_threshold() == (123, 7, before[2])
    finally:
        gc.set_threshold(*before)
        gc.enable()


def test_a_threshold_of_nothing_stays() -> None:
    before = gc.get_threshold()
    gc.set_threshold(0)
    try:
        with uncollected():
            assert gc.get_threshold()[0] == 0
        assert gc.get_threshold()[0] == 0
    finally:
        gc.set_threshold(*before)


def test_what_is_compiled_runs_with_it() -> None:
    seen = []

    def broken(x: weft.Tensor) -> weft.Tensor:
        y = x + 1
        seen.append(collects())
        return y * 2

    weft.compile(broken)(weft.ones(2))
    assert seen == [True] and collects()


def test_what_the_first_compiles_made_is_old(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(collection, "_left", 1)
    with uncollected():
        made: list[list[int]] = [[] for _ in range(10)]
    old = {id(each) for each in gc.get_objects(2)}
    assert all(id(each) in old for each in made)
    assert collection._left == 0
    with uncollected():
        pass
    assert collection._left == 0


def test_what_somebody_has_frozen_stays_frozen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(collection, "_left", 1)
    gc.freeze()
    try:
        count = gc.get_freeze_count()
        with uncollected():
            pass
        assert gc.get_freeze_count() > count // 2 > 0
    finally:
        gc.unfreeze()


class Thing:
    pass


def test_what_lives_may_become_more_while_it_is_walked() -> None:
    first, second, later = Thing(), Thing(), Thing()
    living: Living[Thing] = Living()
    living.add(first)
    living.add(second)
    seen = []
    for each in living:
        living.add(later)
        seen.append(each)
    assert seen == [first, second] and list(living) == [first, second, later]
    seen.clear()
    del first, each
    gc.collect()
    assert list(living) == [second, later]


def test_threads_leave_in_any_order() -> None:
    inside, leave = threading.Event(), threading.Event()

    def other() -> None:
        with uncollected():
            inside.set()
            leave.wait(10)

    thread = threading.Thread(target=other)
    with uncollected():
        thread.start()
        assert inside.wait(10)
    assert not collects()  # the other is still at it
    leave.set()
    thread.join()
    assert collects()


class Interrupt(Exception):
    pass


@pytest.mark.parametrize("place", ["put_off", "uncollected", "promote", "__exit__", "__init__"])
def test_an_interrupt_does_not_leave_it_off(place: str) -> None:
    for number in range(12):
        seen = -1

        def interrupt(frame: Any, event: str, _value: Any, last: int = number) -> None:
            nonlocal seen
            if frame.f_code.co_name == place and event != "c_call":
                seen += 1
                if seen == last:
                    raise Interrupt

        sys.setprofile(interrupt)
        try:
            with uncollected():
                pass
        except Interrupt:
            pass
        finally:
            sys.setprofile(None)
        assert collects()


@pytest.mark.skipif(not hasattr(signal, "SIGUSR1"), reason="no signals")
def test_a_handler_that_keeps_what_it_raises_does_not_leave_it_off() -> None:
    def handler(_number: int, _frame: Any) -> None:
        error = Interrupt()  # whose traceback holds this frame, which holds it
        raise error

    def interrupted(last: int) -> bool:
        seen = 0

        def strike(frame: Any, event: str, _value: Any) -> None:
            nonlocal seen
            ours = frame.f_code.co_filename == collection.__file__ or frame.f_code.co_name == "_capture"
            if ours and event in ("call", "c_return"):
                seen += 1
                if seen == last:
                    sys.setprofile(None)
                    signal.raise_signal(signal.SIGUSR1)

        compiled = weft.compile(lambda x: x * last, backend="eager")
        sys.setprofile(strike)
        try:
            compiled(weft.ones(2))
        except Interrupt:
            return True
        finally:
            sys.setprofile(None)
        return False

    before, last = signal.signal(signal.SIGUSR1, handler), 1
    try:
        while interrupted(last):
            assert collects(), last
            last += 1
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert last > 10


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_a_child_collects_where_another_thread_had_put_it_off() -> None:
    inside, leave = threading.Event(), threading.Event()

    def other() -> None:
        with uncollected():
            inside.set()
            leave.wait(10)

    thread = threading.Thread(target=other)
    thread.start()
    assert inside.wait(10)
    try:
        with uncollected():
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", DeprecationWarning)  # of a fork beside threads
                child = os.fork()
            if child == 0:
                off = collects()
        if child == 0:
            os._exit(10 * off + (not collects()))
        assert os.waitpid(child, 0)[1] == 0
    finally:
        leave.set()
        thread.join()


class Parsing:
    """A cycle, whose finalizer makes a tree of Python's."""

    def __init__(self) -> None:
        self.me = self

    def __del__(self) -> None:
        ast.parse("def f(a, b=1): ...")


def test_trees_are_made_while_no_finalizer_makes_one() -> None:
    before = gc.get_threshold()
    try:
        for threshold in range(10, 60):
            gc.set_threshold(threshold, 1000, 1000)
            for _ in range(40):
                Parsing()
                collection.parsed("def f(input: Tensor, other: Operand, *, alpha: Number = 1): ...")
    finally:
        gc.set_threshold(*before)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_a_child_collects_where_another_thread_was_about_to_put_it_off() -> None:
    inside, leave = threading.Event(), threading.Event()

    def profile(frame: Any, event: str, value: Any) -> None:
        if event == "c_return" and value is gc.set_threshold and frame.f_code is put_off.__code__:
            sys.setprofile(None)
            inside.set()
            leave.wait(10)

    def other() -> None:
        sys.setprofile(profile)
        with uncollected():
            pass

    thread = threading.Thread(target=other)
    thread.start()
    assert inside.wait(10)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            child = os.fork()
        if child == 0:
            first = collects()
            with uncollected():
                off = collects()
            os._exit(10 * off + (not collects()) + 100 * (not first))
        assert os.waitpid(child, 0)[1] == 0
    finally:
        leave.set()
        thread.join()
    assert collects()
