"""Work in slices: how much is done at a time, who does it, and what it sees."""

from __future__ import annotations

import gc
import math
import weakref
from time import perf_counter
from typing import Any

import pytest

from weft.core import slices
from weft.core.settings import settings
from weft.core.slices import SLICE, PresentCall, Sliced, Steps, at_once, give_way, in_background, share


def adding(call: PresentCall) -> Steps[list[Any]]:
    """What it sees behind each of three calls."""
    found = []
    for _ in range(3):
        found.append((call.function, dict(call.arguments)))
        yield
    return found


def test_each_slice_sees_its_own_call() -> None:
    work = Sliced(adding)
    results = [work.go_on(number, {"x": number}, 0.0) for number in range(4)]
    assert results[:3] == [None, None, None]
    assert results[3] == ([(0, {"x": 0}), (1, {"x": 1}), (2, {"x": 2})],)
    assert work.go_on(4, {}, 0.0) is None, "it is done once"


def test_work_without_an_end_of_its_time_is_done_at_once() -> None:
    assert Sliced(adding).go_on(7, {}, math.inf) == ([(7, {})] * 3,)
    assert at_once(adding(PresentCall(1, {}))) == [(1, {})] * 3


def test_nothing_of_a_call_is_held_while_work_rests() -> None:
    class Value:
        pass

    work, value = Sliced(adding), Value()
    seen = weakref.ref(value)

    def looking(call: PresentCall) -> Steps[None]:
        while True:
            assert call.arguments["x"] is seen()
            yield

    work = Sliced(looking)
    gc.disable()
    try:
        work.go_on(None, {"x": value}, 0.0)
        del value
        assert seen() is None
    finally:
        gc.enable()


def test_work_that_is_being_done_is_not_begun_again() -> None:
    """As by a handler of signals that stands upon it, or another thread."""
    inside: list[Any] = []

    def working(call: PresentCall) -> Steps[str]:
        inside.append(work.go_on("inner", {}, math.inf))
        inside.append(call.function)
        yield
        return "done"

    work: Sliced[str] = Sliced(working)
    assert work.go_on("outer", {}, math.inf) == ("done",)
    assert inside == [None, "outer"]


def test_what_it_raises_comes_out_and_ends_it() -> None:
    def failing(_call: PresentCall) -> Steps[None]:
        yield
        raise ValueError("no")

    work = Sliced(failing)
    assert work.go_on(None, {}, 0.0) is None
    with pytest.raises(ValueError, match="no"):
        work.go_on(None, {}, 0.0)
    assert work.go_on(None, {}, 0.0) is None
    assert work.call == PresentCall(stays=False), "nothing of the call is left"


def test_shares(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settings, "tiers", "smooth")
    assert share(0.0) == SLICE and share(1.0) == 0.25
    for mode in ("full", "draft"):
        monkeypatch.setattr(settings, "tiers", mode)
        assert share(0.0) == math.inf, "all of it where nothing goes on in the background"


def test_what_is_done_in_the_background_gives_way(monkeypatch: pytest.MonkeyPatch) -> None:
    rests: list[float] = []
    monkeypatch.setattr(slices, "sleep", rests.append)

    def working() -> None:
        for _ in range(5):
            end = perf_counter() + 2 * SLICE
            while perf_counter() < end:
                pass
            give_way()
            give_way()

    working()
    assert rests == [], "nobody waits for a thread in the foreground but itself"
    in_background(working)
    assert len(rests) >= 5
    count = len(rests)
    working()
    assert len(rests) == count
