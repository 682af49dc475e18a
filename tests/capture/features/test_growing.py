"""Lists that captured code only appends to are never read: their length guards nothing."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import weft
import weft.compiler
from weft.core.settings import settings
from weft.testing import CompileCounter, same

LOSSES: list[Any] = []


@pytest.fixture(autouse=True)
def strict() -> Iterator[None]:
    settings.strict = True
    LOSSES.clear()
    weft.compiler.reset()
    yield
    settings.strict = False


class Recorder:
    def __init__(self) -> None:
        self.history: list[Any] = []


def compiled(function: Any) -> tuple[Any, CompileCounter]:
    counter = CompileCounter()
    return weft.compile(function, backend=counter), counter


def test_a_global_list_grows_without_recompiling() -> None:
    def step(x: weft.Tensor) -> weft.Tensor:
        y = x + 1
        LOSSES.append(y)
        return y

    run, counter = compiled(step)
    for _ in range(12):
        assert run(weft.ones(2)) is LOSSES[-1]
    assert len(LOSSES) == 12 and counter.frame_count == 1


def test_attributes_and_arguments_grow_too() -> None:
    def step(x: weft.Tensor, out: list[Any], recorder: Recorder) -> weft.Tensor:
        out.append(x * 2)
        recorder.history.append("seen")
        return x + 1

    run, counter = compiled(step)
    out: list[Any] = []
    recorder = Recorder()
    for _ in range(5):
        run(weft.ones(2), out, recorder)
    assert len(out) == len(recorder.history) == 5 and counter.frame_count == 1


def test_a_break_while_the_argument_is_made() -> None:
    def step(x: weft.Tensor, out: list[float]) -> weft.Tensor:
        y = x + 1
        out.append(y.sum().tolist())
        return y * 2

    run, counter = compiled(step)
    out: list[float] = []
    for _ in range(5):
        run(weft.ones(2), out)
    assert out == [4.0] * 5 and counter.frame_count == 2


def test_reading_the_list_afterwards_sees_what_was_appended() -> None:
    def step(x: weft.Tensor, out: list[Any]) -> weft.Tensor:
        out.append(1)
        x = x + len(out)
        out.append(out[0])
        return x

    run, _ = compiled(step)
    for start in ([], [7], [8, 9]):
        mine, theirs = list(start), list(start)
        assert same(run(weft.ones(2), mine), step(weft.ones(2), theirs))
        assert mine == theirs


def test_the_same_list_by_two_names() -> None:
    def step(x: weft.Tensor, a: list[Any], b: list[Any]) -> weft.Tensor:
        a.append(x)
        return x * len(b)

    run, counter = compiled(step)
    shared: list[Any] = [0]
    assert same(run(weft.ones(2), [], shared), weft.ones(2))
    assert same(run(weft.ones(2), shared, shared), weft.ones(2) * 2)
    assert len(shared) == 2 and counter.frame_count == 2


def test_a_subclass_with_its_own_append_is_asked() -> None:
    class Loud(list[Any]):
        def append(self, value: Any) -> None:
            super().append(value)
            super().append("again")

    def step(x: weft.Tensor, out: Loud) -> weft.Tensor:
        out.append(1)
        return x + 1

    run, _ = compiled(step)
    out = Loud()
    run(weft.ones(2), out)
    assert list(out) == [1, "again"]
