"""Lifetimes: what lives as long as in eager, and what capture must not hold."""

from __future__ import annotations

import gc
import os
import tempfile
import warnings
import weakref
from collections.abc import Callable
from typing import Any

import pytest

import weft
from tests.capture.attacks.scenario import Compile, same, tensor
from tests.capture.attacks.watching import watch


class Thing:
    def __init__(self, name: str, log: list[Any]) -> None:
        self.name, self.log = name, log

    def __del__(self) -> None:
        self.log.append(f"{self.name} is gone")


def make(name: str, log: list[Any]) -> Thing:
    weft.compiler.graph_break()
    return Thing(name, log)


@pytest.fixture
def no_collection() -> Any:
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def test_locals_that_are_not_read_any_more_live_as_long_as_their_frame(no_collection: None) -> None:
    def scenario(compile: Compile) -> Any:
        def inner(x: Any, log: list[Any]) -> Any:
            thing = make("thing", log)
            things = [make("other", log)]
            seen = weakref.ref(thing)
            y = x + 1
            print("break", len(things))
            log.append("middle")
            print(seen() is None)
            return y * 2

        def forward(x: Any) -> Any:
            log: list[Any] = []
            y = inner(x, log)
            log.append("after")
            return y, log

        compiled = compile(forward)
        return [watch(compiled, tensor()) for _ in range(3)]

    same(scenario)


def test_a_temporary_folder_outlives_breaks() -> None:
    def scenario(compile: Compile) -> Any:
        def forward(x: Any) -> Any:
            folder = tempfile.TemporaryDirectory()
            path = folder.name
            y = x + 1
            print("break")
            y = y * 2
            return y, os.path.exists(path)

        compiled = compile(forward)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return [compiled(tensor()) for _ in range(2)]

    same(scenario)


def returns(x: Any, thing: Any) -> Any:
    return x + thing.number


def breaks(x: Any, thing: Any) -> Any:
    y = x + thing.number
    for i in [1, 2]:
        y = y * i
    weft.compiler.graph_break()
    try:
        raise ValueError
    except ValueError:
        y = y + 1
    return sorted([1, 2], key=lambda i: -i), y * 2


def generates(x: Any, thing: Any) -> Any:
    return list(map(x.mul, (i + thing.number for i in range(3))))


def fails(x: Any, thing: Any) -> Any:
    y = x * 2
    try:
        return {}[y]
    except KeyError:
        return thing.nothing


@pytest.mark.parametrize("function", [returns, breaks, generates, fails])
def test_arguments_are_free_when_the_first_call_returns(
    function: Callable[..., Any], no_collection: None
) -> None:
    class Plain:
        number = 1

    compiled = weft.compile(function)
    x, thing = weft.ones(100), Plain()
    seen = [weakref.ref(x), weakref.ref(thing)]
    try:
        compiled(x, thing)
    except AttributeError:
        pass
    del x, thing
    assert [each() is None for each in seen] == [True, True]
