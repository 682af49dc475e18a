"""Numbers that are counted on are symbols from the first program on."""

from __future__ import annotations

from typing import Any

import pytest

import weft
import weft.compiler
from weft.core.counters import counters
from weft.testing import CompileCounter


class Counts:
    __slots__ = ("inner", "slotted")

    def __init__(self) -> None:
        self.inner: dict[str, Any] = {"n": 0}
        self.slotted = 0


TOTAL = 0


def attribute(x: weft.Tensor, counts: Counts) -> Any:
    counts.slotted += 1
    return x * counts.slotted


def item(x: weft.Tensor, counts: Counts) -> Any:
    counts.inner["n"] += 2
    return x * counts.inner["n"]


def whole(x: weft.Tensor, counts: Counts) -> Any:
    counts.inner["n"] += 1
    return x + 1, list(counts.inner.values())


def of_module(x: weft.Tensor, counts: Counts) -> Any:
    global TOTAL
    TOTAL += 1
    return x * TOTAL, counts


@pytest.mark.parametrize("function", [attribute, item, whole, of_module])
def test_counting_compiles_once(function: Any) -> None:
    global TOTAL
    found = []
    counter = CompileCounter()
    weft.compiler.reset()
    for step in (function, weft.compile(function, backend=counter)):
        TOTAL, counts = 0, Counts()
        results = [step(weft.ones(2), counts) for _ in range(6)]
        numbers = [each if isinstance(each, weft.Tensor) else each[0] for each in results]
        found.append(([each.tolist() for each in numbers], counts.inner, counts.slotted, TOTAL))
    assert found[0] == found[1] and counter.frame_count == 1


def test_ways_that_depend_on_a_count_are_programs() -> None:
    counts = Counts()

    def step(x: weft.Tensor) -> weft.Tensor:
        counts.slotted += 1
        return x * 2 if counts.slotted % 3 == 0 else x + 1

    counter = CompileCounter()
    run = weft.compile(step, backend=counter)
    assert [run(weft.ones(1)).item() for _ in range(9)] == [2.0] * 9 and counter.frame_count == 2


def test_a_number_that_is_written_as_it_was_stays_constant() -> None:
    counts = Counts()

    def step(x: weft.Tensor) -> weft.Tensor:
        counts.slotted = counts.slotted
        return x + counts.slotted

    weft.compiler.reset()
    run = weft.compile(step, backend=CompileCounter())
    run(weft.ones(1))
    counts.slotted = 5
    assert run(weft.ones(1)).item() == 6.0
    assert any("slotted == 0" in reason for reason in counters["recompiles"])
