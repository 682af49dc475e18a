"""A user's own autograd in plain Python over Weft tensors gives the gradients that mathematics (and Weft's
own tape) give.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest

import weft


@pytest.fixture
def engine() -> Any:
    path = Path(__file__).with_name("python_tape.py")
    spec = importlib.util.spec_from_file_location("python_tape", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def operands() -> tuple[weft.Tensor, weft.Tensor]:
    weft.manual_seed(7)
    return weft.randn(10), weft.randn(10)


def test_forward_value(engine: Any) -> None:
    a, b = operands()
    loss = engine.simple(engine.Variable.constant(a, "a"), engine.Variable.constant(b, "b")).sum()
    assert weft.allclose(loss.value, ((a + b) * b).sum())
    assert [entry.outputs for entry in engine.tape] == [["v0"], ["v1"], ["v2"]]


def test_gradients_are_those_of_the_formula(engine: Any) -> None:
    a, b = operands()
    x, y = engine.Variable.constant(a, "a"), engine.Variable.constant(b, "b")
    dx, dy = engine.grad(engine.simple(x, y).sum(), [x, y])
    assert weft.allclose(dx.value, b)
    assert weft.allclose(dy.value, a + 2 * b)


def test_gradients_agree_with_the_library(engine: Any) -> None:
    a, b = operands()
    x, y = engine.Variable.constant(a, "a"), engine.Variable.constant(b, "b")
    dx, dy = engine.grad(engine.simple(x, y).sum(), [x, y])
    p, q = a.clone().requires_grad_(), b.clone().requires_grad_()
    dp, dq = weft.autograd.grad(((p + q) * q).sum(), (p, q))
    assert weft.allclose(dx.value, dp)
    assert weft.allclose(dy.value, dq)


def test_tape_reset_starts_names_and_entries_anew(engine: Any) -> None:
    a, b = operands()
    for _ in range(2):
        engine.reset()
        x, y = engine.Variable.constant(a, "a"), engine.Variable.constant(b, "b")
        loss = engine.simple(x, y).sum()
        assert loss.name == "v2"
        assert len(engine.tape) == 3
        dx, _ = engine.grad(loss, [x, y])
        assert weft.allclose(dx.value, b)


def test_unused_variable_has_no_gradient(engine: Any) -> None:
    a, b = operands()
    x, y, z = (engine.Variable.constant(v) for v in (a, b, a))
    assert engine.grad(engine.simple(x, y).sum(), [z]) == [None]


def test_library_tape_records_through_the_users_engine(engine: Any) -> None:
    """Weft's own gradients flow through everything the user's engine computed, also through its backward
    walk.
    """
    a, b = operands()
    p = a.clone().requires_grad_()
    x, y = engine.Variable.constant(p, "a"), engine.Variable.constant(b, "b")
    _, dy = engine.grad(engine.simple(x, y).sum(), [x, y])
    dy.value.sum().backward()
    assert weft.allclose(p.grad, weft.ones(10))
