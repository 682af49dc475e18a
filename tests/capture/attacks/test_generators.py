"""Generators that die half-way: what their `finally` does happens where CPython does it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import weft
from tests.capture.attacks.scenario import Compile, same, tensor
from tests.capture.attacks.watching import watch


def items(x: Any, log: list[Any]) -> Iterator[Any]:
    try:
        for number in range(5):
            yield x + number
    finally:
        log.append("closed")


def loud(x: Any, log: list[Any]) -> Iterator[Any]:
    try:
        yield x * 2
        yield x * 3
    finally:
        print("closed")
        log.append("closed")


def within(x: Any, log: list[Any]) -> Iterator[Any]:
    with weft.no_grad():
        yield from items(x, log)


def deleted(x: Any, log: list[Any], make: Any) -> Any:
    it = make(x, log)
    y = next(it)
    del it
    log.append("after")
    return y, weft.is_grad_enabled()


def replaced(x: Any, log: list[Any], make: Any) -> Any:
    it = make(x, log)
    y = next(it)
    it = 1
    log.append("after")
    return y, it


def left(x: Any, log: list[Any], make: Any) -> Any:
    for y in make(x, log):  # noqa: B007
        if len(log) > 1:
            break
        log.append("turn")
    log.append("after")
    return y


def returned_from(x: Any, log: list[Any], make: Any) -> Any:
    def inner() -> Any:
        it = make(x, log)
        return next(it)

    y = inner()
    log.append("after")
    return y


def held(x: Any, log: list[Any], make: Any) -> Any:
    its = [make(x, log)]
    y = next(its[0])
    its.clear()
    log.append("after")
    return y


def kept(x: Any, log: list[Any], make: Any) -> Any:
    it = make(x, log)
    y = next(it)
    print("break")
    log.append("after")
    print("again")
    return y * 2


def handed_out(x: Any, log: list[Any], make: Any) -> Any:
    it = make(x, log)
    y = next(it)
    return y, next(it), it


@pytest.mark.parametrize("make", [items, within])
@pytest.mark.parametrize("function", [deleted, replaced, left, returned_from, held, kept, handed_out])
def test_a_dropped_generator_is_closed_there_and_then(function: Any, make: Any) -> None:
    def scenario(compile: Compile) -> Any:
        compiled = compile(function)
        logs: list[Any] = [[], []]
        seen = [watch(compiled, tensor(), log, make) for log in logs]
        del seen[0]["result"], seen[1]["result"]
        return seen, logs

    same(scenario)


@pytest.mark.parametrize("function", [returned_from, kept, handed_out])
def test_closing_that_cannot_be_captured(function: Any) -> None:
    def scenario(compile: Compile) -> Any:
        compiled = compile(function)
        return [watch(compiled, tensor(), [], loud) for _ in range(2)]

    same(scenario)


def test_an_error_while_a_dropped_generator_closes_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(x: Any) -> Iterator[Any]:
        try:
            yield x
        finally:
            raise KeyError("late")

    def scenario(compile: Compile) -> Any:
        reported: list[Any] = []

        def report(unraisable: Any) -> None:
            if isinstance(unraisable.exc_value, KeyError):
                reported.append(unraisable.exc_value.args)

        monkeypatch.setattr("sys.unraisablehook", report)

        def inner(x: Any) -> Any:
            it = failing(x)
            return next(it) + 1

        def forward(x: Any) -> Any:
            return inner(x) * 2

        return [compile(forward)(tensor()) for _ in range(2)], reported

    same(scenario)
