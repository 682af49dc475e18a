"""Breaks: long loops go on in the entries that they have, and what the stack holds is read only in time."""

from __future__ import annotations

from typing import Any

import pytest

import weft
from tests.capture.attacks.scenario import Compile, same
from tests.capture.attacks.watching import watch


def values(x: Any) -> Any:
    return [v.item() + 1 for v in x]


def filtered(x: Any) -> Any:
    return [(v * 2).sum() for v in x if v.item() > 3]


def nested(x: Any) -> Any:
    return [[v.item() * k for v in x] for k in range(9)]


def in_a_list(x: Any) -> Any:
    return [x * 2, *[v.item() for v in x], x + 1]


def appended(x: Any) -> Any:
    found: list[Any] = []
    for v in x:
        if v > 5:
            found.append(v.item())
    return found


@pytest.mark.parametrize("function", [values, filtered, nested, in_a_list, appended])
def test_entries_serve_all_turns_of_a_comprehension(function: Any) -> None:
    def scenario(compile: Compile) -> Any:
        compiled = compile(function)
        return [watch(compiled, weft.arange(float(size))) for size in (20, 20, 12)]

    same(scenario)


def test_a_comprehension_that_fails_after_breaks() -> None:
    def scenario(compile: Compile) -> Any:
        def forward(x: Any) -> Any:
            i = "outer"
            try:
                return [6 / (3 - i + v.item()) for i, v in enumerate(x)]
            except ZeroDivisionError as error:
                return i, str(error)

        return watch(compile(forward), weft.zeros(5))

    same(scenario)
