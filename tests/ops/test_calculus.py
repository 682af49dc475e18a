"""Integrals, derivatives and covariances against NumPy's own."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import weft

RANDOM = np.random.default_rng(0)
Y, AT = RANDOM.standard_normal((4, 5)), np.array([0.0, 1.0, 1.5, 4.0, 4.5])


def test_trapezoids() -> None:
    y, at = weft.from_numpy(Y), weft.from_numpy(AT)
    np.testing.assert_allclose(weft.trapezoid(y, dx=0.5, dim=0).numpy(), np.trapezoid(Y, dx=0.5, axis=0))
    np.testing.assert_allclose(weft.trapezoid(y, at).numpy(), np.trapezoid(Y, AT))
    got = weft.cumulative_trapezoid(y, at).numpy()
    np.testing.assert_allclose(got, np.cumsum((Y[:, 1:] + Y[:, :-1]) / 2 * np.diff(AT), 1))


@pytest.mark.parametrize("order", [1, 2])
def test_derivatives(order: int) -> None:
    y, at = weft.from_numpy(Y), weft.from_numpy(AT)
    got = weft.gradient(y, spacing=(0.5, 2.0), edge_order=order)
    for mine, wanted in zip(got, np.gradient(Y, 0.5, 2.0, edge_order=order), strict=True):
        np.testing.assert_allclose(mine.numpy(), wanted)
    (mine,) = weft.gradient(y, spacing=(at,), dim=1, edge_order=order)
    np.testing.assert_allclose(mine.numpy(), np.gradient(Y, AT, axis=1, edge_order=order))


def test_covariances() -> None:
    y, counts, shares = weft.from_numpy(Y), np.array([1, 2, 1, 3, 1]), RANDOM.random(5)
    np.testing.assert_allclose(weft.cov(y).numpy(), np.cov(Y))
    got = weft.cov(y, fweights=weft.from_numpy(counts), aweights=weft.from_numpy(shares))
    np.testing.assert_allclose(got.numpy(), np.cov(Y, fweights=counts, aweights=shares))
    np.testing.assert_allclose(weft.corrcoef(y).numpy(), np.corrcoef(Y))


def test_running_log_sum_exp_neither_overflows_nor_loses_gradients() -> None:
    x = weft.tensor([float("-inf"), 1000.0, 1000.0, -1000.0], dtype=weft.float64, requires_grad=True)
    out = weft.logcumsumexp(x, 0)
    np.testing.assert_allclose(out.detach().numpy(), [-np.inf, 1000, 1000 + np.log(2), 1000 + np.log(2)])
    out[1:].sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), [0, 2, 1, 0])


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "native"])
def test_second_derivatives_of_running_log_sums_do_not_overflow(backend: str) -> None:
    def first(x: Any) -> Any:
        return weft.autograd.grad(weft.logcumsumexp(x, 0).sum(), x, create_graph=True)[0]

    run = first if backend == "eager" else weft.compile(first, backend=backend)
    x = weft.tensor([88.0, 89.0, 900.0], dtype=weft.float64, requires_grad=True)
    g = run(x)
    np.testing.assert_allclose(g.detach().numpy(), [1.2689414213699952, 0.7310585786300049, 1.0])
    second = weft.autograd.grad((g * g).sum(), x)[0]
    np.testing.assert_allclose(second.numpy(), [0.2115083711370, -0.2115083711370, 0.0], atol=1e-12)


def test_errors() -> None:
    with pytest.raises(RuntimeError, match="There must be one `x` value for each sample point"):
        weft.trapezoid(weft.ones(3), weft.ones(2))
    with pytest.raises(RuntimeError, match="torch.gradient expected each dimension size to be at least"):
        weft.gradient(weft.ones(1))
    with pytest.raises(RuntimeError, match=r"cov\(\): fweights cannot be negative"):
        weft.cov(weft.ones(2, 2), fweights=weft.tensor([-1, 1]))


def test_running_log_sums_of_many_small_elements() -> None:
    x = weft.zeros(20001)
    x[0] = 16.0
    expected = np.log(np.exp(16.0) + np.arange(20001))
    np.testing.assert_allclose(weft.logcumsumexp(x, 0), expected.astype(np.float32), rtol=1e-7)


@pytest.mark.parametrize("compiled", [False, True])
def test_gradients_of_long_running_log_sums_are_not_those_of_rounded_sums(compiled: bool) -> None:
    def slope(x: Any) -> Any:
        return weft.autograd.grad(weft.logcumsumexp(x, 0).sum(), x)[0]

    x = weft.zeros(1_000_000, requires_grad=True)
    found = (weft.compile(slope, fullgraph=True) if compiled else slope)(x)
    # that of element k is the sum of 1/i for i > k
    expected = np.cumsum(1 / np.arange(1_000_000, 0, -1.0))[::-1]
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-6)


def test_running_log_sums_of_complex_numbers_before_a_great_one() -> None:
    x = weft.tensor([4j, 3 + 1j, 1000, 2j], dtype=weft.complex128)
    expected = [4j, np.log(np.exp(4j) + np.exp(3 + 1j)), 1000, 1000]
    np.testing.assert_allclose(weft.logcumsumexp(x, 0), expected)
