"""Extremes with their places, and statistics: against eager, with ties and NaN, in chunks and along axes."""

from __future__ import annotations

import numpy as np
import pytest

import weft
from tests.native.lowered import assert_same, opaques
from weft.native.cpu.runner import Runner
from weft.testing import assert_close


def extremes(x: weft.Tensor) -> tuple[weft.Tensor, ...]:
    return (
        x.argmax(), x.argmin(0), x.argmax(1, keepdim=True), *x.max(1), *x.min(0), x.max(), x.min(),
        *x.max(-1, keepdim=True), x.amax(0), x.argmax(1) + 1,
    )  # fmt: skip


@pytest.mark.parametrize("kind", [weft.float32, weft.float64, weft.int64, weft.uint8])
def test_the_first_of_equals(kind: weft.dtype) -> None:
    x = weft.randint(0, 50, (300, 200)).to(kind)
    assert not opaques(extremes, x)
    assert_same(extremes, x)
    assert_same(extremes, x.t())


def test_not_a_number_is_beyond_all() -> None:
    x = weft.randn(300, 200)
    x[7, 3] = x[7, 90] = x[250, 3] = float("nan")
    x[8] = -np.inf
    assert_same(extremes, x)


def test_gradients() -> None:
    def f(x: weft.Tensor) -> tuple[weft.Tensor, ...]:
        loss = (
            x.max(1).values.sum()
            + x.min(0).values.square().sum()
            + x.amax(1).sum()
            + x.max()
            + x.std(0).sum()
        )
        return weft.autograd.grad(loss + x.var() + x.norm() + x.logsumexp(1).sum(), x)

    x = (weft.randint(-5, 5, (20, 30)) * 0.5).double().requires_grad_()
    assert not opaques(f, x)
    assert_same(f, x)


def test_statistics() -> None:
    def f(x: weft.Tensor) -> tuple[weft.Tensor, ...]:
        return (
            x.var(), x.std(0), x.var(1, correction=0), x.var((0, 1), keepdim=True), x.logsumexp(1),
            x.logsumexp((0, 1), keepdim=True), x.norm(), x.norm(p=1, dim=0), x.norm(p=float("inf"), dim=1),
            x.norm(p=3, dim=1), weft.linalg.vector_norm(x, 0),
        )  # fmt: skip

    x = weft.randn(200, 300)
    x[4] = -np.inf
    x[5] = np.inf
    assert not opaques(f, x)
    assert_same(f, x)


ORDERS = (0.5, 3.5, 2.0, 1.0, 0.0, -0.0, -1.5, np.inf, -np.inf, np.nan, 1.25)


@pytest.mark.parametrize("grad", [False, True])
def test_norms_of_an_order_that_varies(
    grad: bool, programs: list[Runner], monkeypatch: pytest.MonkeyPatch
) -> None:
    """One program, without Python, for all orders of which the gradient is the same formula."""
    monkeypatch.setattr(weft.compiler.settings, "strict", False)  # infinite ones are no sums

    def norm(x: weft.Tensor, order: float) -> tuple[weft.Tensor, ...]:
        norm = weft.linalg.vector_norm
        return norm(x, order), norm(x, order, 1), norm(x, order, (0,), keepdim=True, dtype=weft.float64)

    compiled = weft.compile(norm, fullgraph=True)
    x = weft.tensor([[1.5, -0.5, 2.0], [0.25, 1.0, -3.0]])
    for order in (0.5, 3.5, 2.0, -1.5, 1.25) if grad else ORDERS:
        found = []
        for function in (norm, compiled):
            given = x.clone().requires_grad_(grad)
            values = function(given, order)
            if grad:
                sum(value.sum() for value in values).backward()  # type: ignore[attr-defined]
            found.append((values, given.grad))
        assert_close(found[1], found[0], rtol=1e-5, atol=1e-6, equal_nan=True)
    assert not any(each.python for each in programs)
    if not grad:
        assert len(programs) <= 2  # for the first order, and for all


def test_norms_of_an_order_that_varies_where_elements_are_zero(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(weft.compiler.settings, "strict", False)  # infinite ones are no sums
    compiled = weft.compile(lambda x, order: weft.linalg.vector_norm(x, order, 1), fullgraph=True)
    x = weft.tensor([[0.0, -0.0, 0.0], [0.0, 2.0, np.nan]])
    for order in ORDERS:
        expected = weft.linalg.vector_norm(x, order, 1)
        assert_close(compiled(x, order), expected, rtol=1e-6, atol=0, equal_nan=True)
