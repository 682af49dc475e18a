"""Numbers drawn ahead are those that would have been computed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import weft
from weft.ops import ahead, philox


@pytest.fixture(autouse=True)
def empty() -> None:
    ahead._chunks.clear()
    ahead._ends.clear()


def drawn(name: str, kind: Any, *parameters: float, count: int, offset: int) -> Any:
    return getattr(philox, name)(11, offset, (count,), kind, *parameters)


@pytest.mark.parametrize("kind", [np.float32, np.float64])
@pytest.mark.parametrize(
    ("name", "parameters"),
    [("uniform", ()), ("uniform", (-2.0, 3.5)), ("normal", ()), ("normal", (1.5, 0.25))],
)
def test_runs_of_draws(name: str, parameters: tuple[float, ...], kind: Any) -> None:
    steps, offset = [], 3
    for number in range(90):
        count = 1 + number * 7 % ahead.MOST
        steps.append((count, offset))
        offset += philox.blocks(name, count, kind)
    run = [drawn(name, kind, *parameters, count=count, offset=offset) for count, offset in steps]
    assert (name, np.dtype(kind)) in ahead._chunks
    for (count, offset), values in zip(steps, run, strict=True):
        ahead._chunks.clear()
        ahead._ends.clear()
        alone = drawn(name, kind, *parameters, count=count, offset=offset)
        assert not ahead._chunks and values.tobytes() == alone.tobytes()


def test_what_is_given_may_be_written() -> None:
    weft.manual_seed(5)
    first = [weft.randn(6) for _ in range(8)]
    kept = [each.clone() for each in first]
    for each in first:
        each.zero_()
    weft.manual_seed(5)
    assert all(weft.equal(one, weft.randn(6)) for one in kept)


def test_streams_that_take_turns_are_apart() -> None:
    one, other = weft.Generator().manual_seed(1), weft.Generator().manual_seed(2)
    mixed = [(weft.randn(5, generator=one), weft.randn(5, generator=other)) for _ in range(9)]
    one.manual_seed(1)
    other.manual_seed(2)
    assert all(weft.equal(pair[0], weft.randn(5, generator=one)) for pair in mixed)
    assert all(weft.equal(pair[1], weft.randn(5, generator=other)) for pair in mixed)


@pytest.mark.parametrize("kind", [weft.bfloat16, weft.float16, weft.complex64])
def test_other_dtypes_are_as_before(kind: Any) -> None:
    weft.manual_seed(3)
    few = [weft.randn(8, dtype=kind) for _ in range(6)]
    assert not ahead._chunks or kind is weft.complex64
    weft.manual_seed(3)
    ahead._chunks.clear()
    for each in few:
        ahead._ends.clear()
        ahead._chunks.clear()
        assert weft.equal(each, weft.randn(8, dtype=kind))
