"""Functions run on types alone: results are types, and nothing happens."""

from __future__ import annotations

import pytest

import weft
from weft.autograd.shapes import result_of
from weft.core.types import TensorType


def types(function, *args):
    return result_of(function, args)


def test_results_are_types():
    x = weft.ones(2, 3)
    assert types(lambda x: {"a": (x @ x.T).double(), "b": [x.sum(), 3]}, x) == [
        TensorType((2, 2), weft.float64),
        TensorType((), weft.float32),
        3,
    ]


def test_closures_are_replaced_too():
    x, weight = weft.ones(2, 3), weft.ones(4, 3)
    assert types(lambda x: weft.nn.functional.linear(x, weight).relu(), x) == [
        TensorType((2, 4), weft.float32)
    ]
    assert types(lambda: weight * 2) == [TensorType((4, 3), weft.float32)]


def test_nothing_is_written_or_drawn():
    buffer = weft.zeros(3)
    generator = weft.Generator().manual_seed(1)
    weft.manual_seed(0)
    expected = weft.rand(2), weft.rand(2, generator=weft.Generator().manual_seed(1))
    weft.manual_seed(0)

    def function(x):
        buffer.add_(1)
        buffer[0] = 5
        return x * weft.rand(3) + weft.rand(3, generator=generator) + weft.zeros(3, device="cpu")

    assert types(function, weft.ones(3)) == [TensorType((3,), weft.float32)]
    assert buffer.tolist() == [0, 0, 0] and buffer._version == 0
    assert weft.equal(weft.rand(2), expected[0])
    assert weft.equal(weft.rand(2, generator=generator), expected[1])


def test_what_needs_elements_is_unknown():
    x = weft.ones(3)
    assert types(lambda x: x * 2 if x.sum() > 0 else x, x) is None
    assert types(lambda x: x * x.sum().item(), x) is None
    assert types(lambda x: x + weft.ones(4), x) is None


def test_modes_are_as_before():
    def function(x):
        raise ValueError("mine")

    assert types(function, weft.ones(3)) is None
    x = weft.ones(2, requires_grad=True)
    assert (x * 2).requires_grad


def test_what_is_left_behind_is_found():
    kept = []
    with pytest.raises(RuntimeError, match="stored a tensor outside of itself"):
        types(lambda x: kept.append(x * 2) or x, weft.ones(2))
    kept.clear()
    with pytest.raises(RuntimeError, match="stored a tensor outside of itself"):
        types(lambda x: kept.append(x) or x * x.item(), weft.ones(2))

    def circular(x):
        held = [x * 2]
        held.append(held)
        return held[0]

    assert types(circular, weft.ones(2)) == [TensorType((2,), weft.float32)]
