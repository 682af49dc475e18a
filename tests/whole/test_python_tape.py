"""A user's own autograd in plain Python over Weft tensors gives the gradients that mathematics (and Weft's
own tape) give.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest

import weft
from weft.compiler import optimize_assert
from weft.testing import CompileCounter, same


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


# -- captured -----------------------------------------------------------------------------------------------
def forward(engine: Any, a: weft.Tensor, b: weft.Tensor) -> Any:
    return engine.simple(engine.Variable.constant(a, "a"), engine.Variable.constant(b, "b")).sum()


def with_backward(engine: Any, a: weft.Tensor, b: weft.Tensor) -> Any:
    x, y = engine.Variable.constant(a, "a"), engine.Variable.constant(b, "b")
    return engine.grad(engine.simple(x, y).sum(), [x, y])


def reset_inside(engine: Any, a: weft.Tensor, b: weft.Tensor) -> Any:
    engine.reset()
    result = with_backward(engine, a, b)
    engine.reset()
    return result


@pytest.mark.parametrize(("program", "ops"), [(forward, 3), (with_backward, 8), (reset_inside, 8)])
def test_the_engine_is_captured_in_one_frame(engine: Any, program: Any, ops: int) -> None:
    counter = CompileCounter()
    compiled = optimize_assert(counter)(lambda a, b: program(engine, a, b))
    for seed in (1, 2):
        weft.manual_seed(seed)
        a, b = weft.randn(10), weft.randn(10)
        engine.reset()
        ours, taped = compiled(a, b), [(entry.inputs, entry.outputs) for entry in engine.tape]
        engine.reset()
        theirs = program(engine, a, b)
        assert same(ours, theirs)
        assert taped == [(entry.inputs, entry.outputs) for entry in engine.tape]
    assert (counter.frame_count, counter.op_count) == (1, ops)


def test_the_tape_crosses_between_two_captures(engine: Any) -> None:
    a, b = operands()
    x, y = engine.Variable.constant(a, "a"), engine.Variable.constant(b, "b")
    engine.reset()
    loss = engine.simple(x, y).sum()
    theirs = engine.grad(loss, [x, y])
    engine.reset()
    counter = CompileCounter()
    run = optimize_assert(counter)(lambda u, v: engine.simple(u, v).sum())
    pull = optimize_assert(counter)(engine.grad)
    compiled_loss = run(x, y)
    assert same(compiled_loss, loss)
    assert same(pull(compiled_loss, [x, y]), theirs)
    assert (counter.frame_count, counter.op_count) == (2, 8)
