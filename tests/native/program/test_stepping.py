"""Programs run record by record."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import weft
from weft.native import backend
from weft.native.program.stepping import Stepping
from weft.native.reference.interpreter import interpreted


def f(x: weft.Tensor, w: weft.Tensor) -> tuple[weft.Tensor, weft.Tensor]:
    y = weft.softmax(x * 2, -1)
    z = y @ w
    values, _ = weft.sort(z)
    return z.tanh(), values + 1


@pytest.fixture
def program(monkeypatch: pytest.MonkeyPatch) -> Any:
    made: list[Any] = []
    monkeypatch.setattr(backend, "listeners", [lambda program, _arrays: made.append(program)])
    weft.compiler.reset()
    with weft.no_grad():
        weft.compile(f, backend="native", fullgraph=True)(weft.randn(3, 40), weft.randn(40, 5))
    (found,) = made
    return found


@pytest.mark.parametrize("doing", [None, interpreted])
def test_each_step_can_be_looked_at(program: Any, doing: Any) -> None:
    x, w = weft.randn(3, 40), weft.randn(40, 5)
    stepping = Stepping(program, [x.array, w.array], doing)
    steps = list(stepping)
    assert [step.number for step in steps] == list(range(program.count))
    softmax, product = steps[0], steps[1]
    assert "softmax" in softmax.name and np.array_equal(softmax.reads[0], x.array)
    assert np.allclose(softmax.writes[0], weft.softmax(x * 2, -1).array)
    assert product.reads[0] is softmax.writes[0] and product.reads[1] is w.array
    assert {line[2] for step in steps for line in step.lines} == {"f"}
    first = f.__code__.co_firstlineno
    assert [line[1] - first for line in softmax.lines] == [1]
    assert str(product).startswith("step 1: matmul (") and f"test_stepping.py:{first + 2} in f" in str(
        product
    )
    for made, expected in zip(stepping.results(), f(x, w)):
        assert np.allclose(made, expected.array, atol=1e-6)


def test_one_at_a_time(program: Any) -> None:
    x, w = weft.randn(3, 40), weft.randn(40, 5)
    stepping = Stepping(program, [x.array, w.array])
    assert stepping.number == 0 and stepping.upcoming()[0] is x.array
    stepping.step()
    assert stepping.number == 1
    stepping.arrays[program.program.listing.places[id(program.program.listing.steps[1].operands[0])]][...] = (
        0  # what if?
    )
    stepping.finish()
    assert np.array_equal(stepping.results()[0], np.zeros((3, 5), np.float32))


def test_steps_give_what_calls_give(program: Any) -> None:
    x, w = weft.randn(3, 40), weft.randn(40, 5)
    stepping = Stepping(program, [x.array, w.array])
    stepping.finish()
    for made, expected in zip(stepping.results(), program([x.array, w.array])):
        assert np.array_equal(made, expected)
