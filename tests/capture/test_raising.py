"""Which way a branch is expected to go. PYTEST_DONT_REWRITE: asserts are those that Python compiles."""

from __future__ import annotations

from collections.abc import Callable
from types import FunctionType
from typing import Any

import pytest

from weft.capture.frame import Frame
from weft.capture.raising import awaited_truth, expected_truth
from weft.capture.sources import function as function_source

JUMPS = ("POP_JUMP_IF_TRUE", "POP_JUMP_IF_FALSE")


def frames(function: Any) -> list[Frame]:
    """The frame at each of the function's conditional jumps."""
    assert isinstance(function, FunctionType)
    made = []
    for instruction in Frame(
        function.__code__, function.__globals__, function_source(), function, None
    ).bytecode.instructions:
        if instruction.op in JUMPS:
            frame = Frame(function.__code__, function.__globals__, function_source(), function, None)
            frame.instruction, frame.index = instruction, instruction.index + 1
            made.append(frame)
    return made


def expected(function: Any) -> list[bool | None]:
    return [
        expected_truth(frame, frame.instruction.arg, frame.instruction.op == "POP_JUMP_IF_TRUE")
        for frame in frames(function)
    ]


def asserts(x: Any) -> Any:
    assert x, f"{x}"
    return x


def raises(x: Any) -> Any:
    if x:
        print(x)
        raise ValueError(x)
    return x


def raises_else(x: Any) -> Any:
    if x:
        y = 1
    else:
        raise ValueError(x)
    return y


def raises_after_a_loop(x: Any) -> Any:
    if x:
        for i in range(3):
            print(i)
        raise ValueError(x)
    return x


def in_a_with(x: Any) -> Any:
    with open(x) as file:
        assert x
    return file


def cleans_up(x: Any) -> Any:
    try:
        assert x
    finally:
        print(x)
    return x


def raises_again(x: Any) -> Any:
    try:
        assert x
    except AssertionError as error:
        raise ValueError from error
    return x


def handles(x: Any) -> Any:
    try:
        assert x
    except AssertionError:
        return None
    return x


def goes_on(x: Any) -> Any:
    return 1 if x else 2


def ends_an_iteration(x: Any) -> Any:
    if x:
        raise StopIteration
    return x


def never_leaves(x: Any) -> Any:
    while True:
        if x:
            raise ValueError


def raises_anyway(x: Any) -> Any:
    if x:
        raise ValueError
    raise KeyError


@pytest.mark.parametrize(
    ("function", "truths"),
    [
        (asserts, [True]),
        (raises, [False]),
        (raises_else, [True]),
        (raises_after_a_loop, [False]),
        (handles, [None]),
        (goes_on, [None]),
        (ends_an_iteration, [None]),
        (never_leaves, [None]),
        (raises_anyway, [None]),
    ],
)
def test_ways_that_raise(function: Callable[..., Any], truths: list[bool | None]) -> None:
    assert expected(function)[: len(truths)] == truths


@pytest.mark.parametrize("function", [in_a_with, cleans_up, raises_again])
def test_handlers_that_raise_again(function: Callable[..., Any]) -> None:
    assert expected(function)[0] is True


def test_callers_may_handle() -> None:
    inner = frames(raises)[0]
    for outer, truth in ((handles, None), (raises_again, False), (asserts, False)):
        inner.parent = frames(outer)[0]
        assert expected_truth(inner, inner.instruction.arg, inner.instruction.op == JUMPS[0]) is truth


def test_what_a_call_is_awaited_to_give() -> None:
    def of_all(x: Any) -> Any:
        assert all(x)
        return x

    def of_any(x: Any) -> Any:
        if any(x):
            raise ValueError
        return x

    def of_none(x: Any) -> Any:
        return all(x)

    found = []
    for function in (of_all, of_any, of_none):
        frame = Frame(function.__code__, function.__globals__, function_source(), function, None)
        calls = [each for each in frame.bytecode.instructions if each.op == "CALL"]
        frame.instruction, frame.index = calls[0], calls[0].index + 1
        found.append(awaited_truth(frame))
    assert found == [True, False, None]
