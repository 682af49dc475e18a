"""Calls that tracers keep whole."""

from __future__ import annotations

from typing import Any

import pytest

import weft
from weft.autograd.trace_wrapped import trace_wrapped
from weft.testing import assert_close
from weft.trace.make_fx import make_fx


def scaled(value: Any, by: float = 2.0) -> Any:
    return value * by


def test_eager_calls_the_function_without_recording() -> None:
    x = weft.ones(2, requires_grad=True)
    out = trace_wrapped(x, fn=scaled, by=3.0)
    assert_close(out, weft.full((2,), 3.0))
    assert not out.requires_grad
    assert weft.is_grad_enabled()


def test_grad_mode_is_put_back_after_an_error() -> None:
    def fail(_value: Any) -> Any:
        raise ValueError("no good")

    with pytest.raises(ValueError, match="no good"):
        trace_wrapped(weft.ones(2), fn=fail)
    assert weft.is_grad_enabled()


def test_tracing_does_not_call_the_function() -> None:
    seen: list[Any] = []

    def note(value: Any) -> Any:
        seen.append(value.shape)
        return value + 1

    traced = make_fx(lambda x: trace_wrapped(x * 2, fn=note).sin())(weft.ones(3))
    assert seen == []
    names = [node.name for node in traced.graph.nodes if node.op == "call_function"]
    assert names == ["mul", "trace_wrapped", "sin"]
    assert_close(traced(weft.ones(3)), weft.full((3,), 3.0).sin())
    assert seen == [(3,)]


def test_arguments_beside_the_first() -> None:
    traced = make_fx(lambda x, y: trace_wrapped(x, y, fn=lambda a, b: a * b))(weft.ones(2), weft.ones(2))
    assert_close(traced(weft.full((2,), 3.0), weft.full((2,), 5.0)), weft.full((2,), 15.0))


def test_two_calls_have_two_names() -> None:
    traced = make_fx(lambda x: trace_wrapped(trace_wrapped(x, fn=scaled), fn=scaled))(weft.ones(2))
    assert [node.name for node in traced.graph.nodes][1:3] == ["trace_wrapped", "trace_wrapped_1"]
    assert_close(traced(weft.ones(2)), weft.full((2,), 4.0))


def test_a_graph_checks_what_the_function_gives() -> None:
    traced = make_fx(lambda x: trace_wrapped(x, fn=lambda value: value.sum()))(weft.ones(2))
    with pytest.raises(
        RuntimeError, match=r"trace_wrapped: <lambda> gave weft.float32 \[\] for weft.float32 \[2\]"
    ):
        traced(weft.ones(2))
    traced = make_fx(lambda x: trace_wrapped(x, fn=lambda value: 3))(weft.ones(2))
    with pytest.raises(RuntimeError, match="gave a int for"):
        traced(weft.ones(2))


def test_the_first_argument_must_be_a_tensor() -> None:
    with pytest.raises(TypeError, match="expected a tensor as first argument"):
        make_fx(lambda x: trace_wrapped(3, x, fn=scaled))(weft.ones(2))


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_capture_looks_inside(backend: str) -> None:
    def f(x: Any) -> Any:
        return trace_wrapped(x, fn=scaled, by=4.0) + x

    x = weft.ones(2, requires_grad=True)
    out = weft.compile(f, backend=backend, fullgraph=True)(x)
    assert_close(out, weft.full((2,), 5.0))
    out.sum().backward()
    assert_close(x.grad, weft.ones(2))


def test_a_traced_graph_can_be_captured() -> None:
    traced = make_fx(lambda x: trace_wrapped(x, fn=scaled))(weft.ones(2))
    assert_close(weft.compile(traced, fullgraph=True)(weft.ones(2)), weft.full((2,), 2.0))
