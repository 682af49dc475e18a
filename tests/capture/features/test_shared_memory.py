"""Writes to tensors whose elements share memory: compiled code leaves the memory that eager code leaves."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import weft

Tensor = weft.Tensor
Write = Callable[[Tensor], Any]
VIEWS: dict[str, Callable[[Tensor], Tensor]] = {
    "expanded": lambda x: x.expand(2, 4),
    "unfolded": lambda x: x.unfold(0, 2, 1),
}
WRITES: dict[str, Write] = {
    "zero": lambda x: x.zero_(),
    "fill": lambda x: x.fill_(3.0),
    "masked": lambda x: x.masked_fill_(weft.eye(*x.shape).bool(), 7.0),
    "index": lambda x: x.index_fill_(1, weft.tensor([0]), 7.0),
    "setitem": lambda x: x.__setitem__(x > 2, 7.0),
    "accumulate": lambda x: x.index_put_((weft.tensor([0, 1]),), weft.tensor(3.0), True),
    "tril": lambda x: x.tril_(),
    "copy": lambda x: x.copy_(weft.ones(x.shape)),
    "add": lambda x: x.add_(1),
    "zeros": lambda x: weft.zeros(tuple(x.shape), out=x),
}


def inside(view: Callable[[Tensor], Tensor], write: Write) -> Callable[[Tensor], Any]:
    def run(x: Tensor) -> Any:
        base = x * 2
        part = view(base)
        try:
            write(part)
        except RuntimeError as error:
            return base + 100, str(error)
        return base + 1, part * 2

    return run


def given(view: Callable[[Tensor], Tensor], write: Write) -> Callable[[Tensor], Any]:
    def run(x: Tensor) -> Any:
        counted = weft.zeros(3).add_(1)
        write(x)
        return x + 1, counted.mul_(3)

    return run


def trace(function: Callable[[Tensor], Any], calls: list[Callable[[], Tensor]]) -> list[Any]:
    """What calls give, and leave in memory."""
    seen: list[Any] = []
    for make in calls:
        x = make()
        try:
            result = function(x)
        except RuntimeError as error:
            result = (str(error),)
        parts = [each if isinstance(each, str) else each.tolist() for each in result]
        seen.append((parts, x.tolist(), x._version))
    return seen


@pytest.mark.filterwarnings("ignore:Use of")
@pytest.mark.parametrize("backend", ["native", "aot_eager", "eager"])
@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("write", WRITES)
def test_memory_is_as_in_eager(write: str, view: str, backend: str) -> None:
    def vector() -> Tensor:
        return weft.arange(4.0) + 1

    def shared() -> Tensor:
        return VIEWS[view](vector())

    def apart() -> Tensor:
        return shared().clone()

    for make, calls in (
        (inside, [vector, vector]),
        (given, [shared, apart, shared]),
        (given, [apart, apart, shared]),
    ):
        function = make(VIEWS[view], WRITES[write])
        weft.compiler.reset()
        assert trace(weft.compile(function, backend=backend), calls) == trace(function, calls)


def test_a_permitted_write_is_no_exception_of_the_captured_program() -> None:
    def run(x: Tensor) -> Tensor:
        part = x.expand(2, 3)
        try:
            part.zero_()
        except RuntimeError:
            return x + 100
        return x + 1

    assert weft.compile(run, backend="aot_eager")(weft.ones(3)).tolist() == [1, 1, 1]
