"""Running: deep stacks, forms of functions, and who else calls what is compiled."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Iterator
from typing import Any

import pytest

import weft
from tests.capture.attacks.scenario import Compile, same, tensor


def deep(x: Any, depth: int) -> Any:
    return x if depth == 0 else deep(x + 1, depth - 1) * 1


def deep_with_breaks(x: Any, depth: int) -> Any:
    if depth == 0:
        return x
    weft.compiler.graph_break()
    return deep_with_breaks(x + 1, depth - 1) * 1


class Nested(weft.nn.Module):
    def __init__(self, depth: int) -> None:
        super().__init__()
        self.inner = Nested(depth - 1) if depth else None

    def forward(self, x: Any) -> Any:
        return x if self.inner is None else self.inner(x + 1)


@pytest.mark.parametrize("function", [deep, deep_with_breaks])
def test_recursion_as_deep_as_in_eager(function: Any) -> None:
    def scenario(compile: Compile) -> Any:
        compiled = compile(function)
        return [compiled(tensor(), depth) for depth in (50, 200, 500)]

    same(scenario)


def test_modules_nested_deeply() -> None:
    def scenario(compile: Compile) -> Any:
        return [compile(Nested(depth))(tensor()) for depth in (20, 120)]

    same(scenario)


def test_coroutine_and_generator_functions_are_known_as_such() -> None:
    @weft.compile
    async def later(x: Any) -> Any:
        await asyncio.sleep(0)
        return x * 2

    @weft.compile
    def items(x: Any) -> Iterator[Any]:
        yield x + 1

    assert inspect.iscoroutinefunction(later) and inspect.isgeneratorfunction(items)
    assert asyncio.run(later(weft.ones(1))).item() == 2
    assert [item.item() for item in items(weft.ones(1))] == [2]
