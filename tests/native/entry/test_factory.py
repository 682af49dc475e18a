"""Which programs may stand behind a native entry, which gives their values out as they are."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from weft.native.entry.factory import _is_simple

ROWS, COLUMNS = (24, 8), (8, 16)
"""Strides of two by three numbers, row by row and column by column."""


def simple(
    outputs: list[Any],
    strides: list[Any],
    *,
    values: int | None = None,
    made_strides: Any = None,
    written: tuple[Any, ...] = (),
    inside: tuple[Any, ...] = (),
    numbers: tuple[int, ...] = (),
    kind: Any = np.float64,
) -> bool:
    """Of a program that makes the places 0 and 1."""
    made = [(place, (2, 3), np.dtype(kind)) for place in (0, 1)]
    frame = SimpleNamespace(
        made=made, strides=[made_strides] * 2, outputs=outputs, written=list(inside), numbers=list(numbers)
    )
    found = SimpleNamespace(
        strides=strides, written=list(written), values=len(outputs) if values is None else values
    )
    return _is_simple(found, SimpleNamespace(frame=frame))  # type: ignore[arg-type]


def test_new_arrays_that_lie_as_eagers_do() -> None:
    assert simple([0, 1], [None, ROWS])
    assert simple([0], [COLUMNS], made_strides=COLUMNS)


REFUSED: dict[str, dict[str, Any]] = {
    "columns instead of rows": {"outputs": [0], "strides": [COLUMNS]},
    "rows instead of columns": {"outputs": [1, 0], "strides": [None, ROWS], "made_strides": COLUMNS},
    "one array for two values": {"outputs": [0, 0], "strides": [None, None]},
    "an input": {"outputs": [("input", 0)], "strides": [None]},
    "a constant": {"outputs": [("constant", 0)], "strides": [None]},
    "an array that is a constant": {"outputs": [("constant", np.ones(2))], "strides": [None], "values": 0},
    "a place that nobody makes": {"outputs": [7], "strides": [None]},
    "written elsewhere": {"outputs": [0], "strides": [None], "written": ((2, 0, 1),)},
    "a number in single precision": {"outputs": [0], "strides": [None], "numbers": (0,), "kind": np.float32},
    "a number twice": {"outputs": [0, 0], "strides": [None, None], "numbers": (0,)},
    "more values than outputs": {"outputs": [0], "strides": [None, None]},
}


@pytest.mark.parametrize("why", REFUSED)
def test_what_is_given_out_otherwise(why: str) -> None:
    assert not simple(**REFUSED[why])


def test_what_is_kept_for_gradients_may_be_an_input_or_a_size_or_come_twice() -> None:
    assert simple([0, ("input", 2)], [None, None], values=1)
    assert simple([0, ("constant", 5)], [None, None], values=1)
    assert simple([0, 0], [None, None], values=1)


def test_values_in_the_memory_of_what_they_are_written_to() -> None:
    assert simple([0], [None], written=((2, 0, 1),), inside=((0, 2),))
    assert simple([0], [None], numbers=(0,))
