"""Draws by rejection: their distributions, against scipy's, and how gamma and beta numbers move."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import special, stats

from weft.ops import accepted, philox

COUNT = 40000


@pytest.mark.parametrize("shape", [0.05, 0.7, 1.0, 4.0, 2e4])
def test_gamma(shape: float) -> None:
    drawn = accepted.gamma(3, 11, np.full(COUNT, shape))
    assert stats.kstest(drawn, "gamma", args=(shape,)).pvalue > 1e-3


def _chi_square(drawn: Any, law: Any) -> float:
    values = np.arange(law.ppf(1e-4), law.ppf(1 - 1e-4) + 1)
    expected = law.pmf(values) * drawn.size
    counted = np.array([(drawn == value).sum() for value in values])
    frequent = expected > 8
    statistic = ((counted - expected) ** 2 / expected)[frequent].sum()
    return float(stats.chi2.sf(statistic, frequent.sum() - 1))


@pytest.mark.parametrize("rate", [0.3, 9.9, 10.0, 24.0, 900.0])
def test_poisson(rate: float) -> None:
    assert _chi_square(accepted.poisson(3, 11, np.full(COUNT, rate)), stats.poisson(rate)) > 1e-3


@pytest.mark.parametrize("count, chance", [(5, 0.3), (40, 0.9), (100, 0.5), (1000, 0.02), (10000, 0.7)])
def test_binomial(count: int, chance: float) -> None:
    drawn = accepted.binomial(3, 11, np.array(float(count)), np.full(COUNT, chance), (COUNT,))
    assert _chi_square(drawn, stats.binom(count, chance)) > 1e-3


def test_edges() -> None:
    with np.errstate(all="ignore"):
        assert np.isnan(accepted.gamma(3, 1, np.array([-1.0, np.nan]))).all()
        assert accepted.poisson(3, 1, np.array([0.0]))[0] == 0
        exact = accepted.binomial(3, 1, np.array([7.0, 7.0, 0.0]), np.array([0.0, 1.0, 0.5]), (3,))
    assert exact.tolist() == [0, 7, 0]


def test_an_element_has_draws_of_its_own() -> None:
    """What an element is does not depend on its neighbours, nor on how words are made."""
    shapes = np.array([0.3, 5.0, 80.0, 1.0])
    drawn = accepted.gamma(3, 11, shapes)
    assert accepted.gamma(3, 11, np.array([9.0, 5.0, 0.1, 2.0]))[1] == drawn[1]
    blocks = np.arange(11, 15, dtype=np.uint64)
    assert (philox.words_at(3, blocks).reshape(-1) == philox.words(3, 11, 4)).all()


PLACES = [0.001, 0.05, 0.3, 0.5, 0.7, 0.95, 0.999]


@pytest.mark.parametrize("shape", [0.3, 1.0, 2.5, 20.0, 5000.0, 3e5])
def test_gamma_slope(shape: float) -> None:
    """Against differences of the inverse distribution function."""
    value, step = stats.gamma.ppf(PLACES, shape), shape * 1e-5
    higher, lower = (special.gammaincinv(shape + side * step, PLACES) for side in (1, -1))
    found = accepted.gamma_slope(np.full(len(PLACES), shape), value)
    np.testing.assert_allclose(found, (higher - lower) / (2 * step), 1e-6)


@pytest.mark.parametrize("first, second", [(0.5, 3), (2, 2), (50, 400), (3000, 20), (1e4, 1e4)])
def test_beta_slope(first: float, second: float) -> None:
    value, step = stats.beta.ppf(PLACES, first, second), first * 1e-5
    higher, lower = (special.betaincinv(first + side * step, second, PLACES) for side in (1, -1))
    found = accepted.beta_slope(value, np.full(len(PLACES), first), np.full(len(PLACES), second))
    np.testing.assert_allclose(found, (higher - lower) / (2 * step), 1e-6)
