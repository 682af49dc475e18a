"""Graphs of pure ops as native programs, against eager."""

from __future__ import annotations

import pytest

import weft
from weft.core.settings import settings
from weft.native.lower.lowering import Lowering, Unlowered
from weft.testing import assert_close


def test_a_chain_with_gradients() -> None:
    def f(a: weft.Tensor, b: weft.Tensor) -> weft.Tensor:
        return ((a + b) * b - a * a) / (b * b + 1)

    results = []
    for function in (f, weft.compile(f, backend="native", fullgraph=True)):
        weft.manual_seed(0)
        a, b = weft.randn(7, 5, requires_grad=True), weft.randn(5, requires_grad=True)
        value = function(a, b)
        value.sum().backward()
        results.append((value.detach(), a.grad, b.grad))
    assert_close(results[0], results[1])


def test_ops_without_kernels_run_as_they_are() -> None:
    def f(x: weft.Tensor) -> tuple[weft.Tensor, ...]:
        values, places = weft.sort(x * 2, dim=1)
        return values + 1, places, x @ values.t()

    x = weft.randn(4, 6)
    assert_close(weft.compile(f, backend="native", fullgraph=True)(x), f(x))


def test_views_are_not_copied_between_kernels() -> None:
    def f(x: weft.Tensor) -> weft.Tensor:
        return (x.t()[1:, ::2] + x[::2, 1:].t()).reshape(-1) * 2

    for x in (weft.randn(6, 5), weft.randn(5, 6).t(), weft.randn(12, 5)[::2]):
        assert_close(weft.compile(f, backend="native", fullgraph=True)(x), f(x))


def test_outputs_that_are_inputs() -> None:
    def f(x: weft.Tensor) -> tuple[weft.Tensor, ...]:
        return x, x.t(), x + 1

    x = weft.randn(3, 2)
    same, view, _ = weft.compile(f, backend="native", fullgraph=True)(x)
    assert same is x and view._base is x


def test_what_has_no_program_runs_op_by_op(monkeypatch: pytest.MonkeyPatch) -> None:
    def f(x: weft.Tensor) -> weft.Tensor:
        return x * 2

    def refused(_lowering: Lowering, _node: object) -> None:
        raise Unlowered("a call of something")

    x = weft.randn(3)
    monkeypatch.setattr(Lowering, "call", refused)
    monkeypatch.setattr(settings, "strict", False)
    monkeypatch.setattr("weft.native.backend._warned", set())
    monkeypatch.setenv("WEFT_CACHE", "0")  # where another test may have left its program
    with pytest.warns(UserWarning, match="no native program"):
        assert_close(weft.compile(f, backend="native", fullgraph=True)(x), x * 2)
    monkeypatch.setattr(settings, "strict", True)
    weft.compiler.reset()
    with pytest.raises(weft.compiler.NotCompiled, match="no native program"):
        weft.compile(f, backend="native", fullgraph=True)(x)
