"""Divergences between two distributions."""

from __future__ import annotations

import math
from typing import Any

import pytest

import weft
from weft import distributions as d
from weft.distributions import kl_divergence, register_kl

LOC, SCALE = weft.tensor([0.5, -1.0]), weft.tensor([1.5, 0.3])
CHANCES = weft.tensor([[0.2, 0.3, 0.5], [0.1, 0.1, 0.8]])
COVARIANCE = weft.tensor([[2.0, 0.5], [0.5, 1.0]])


@pytest.mark.parametrize(
    ("p", "q", "expected"),
    [
        (d.Normal(LOC, SCALE), d.Normal(SCALE, SCALE * 2), [0.3737, 2.6654]),
        (d.LogNormal(LOC, SCALE), d.LogNormal(SCALE, SCALE), [0.2222, 9.3889]),
        (d.Bernoulli(weft.tensor([0.2])), d.Bernoulli(weft.tensor([0.4])), [0.0915]),
        (d.Categorical(CHANCES), d.Categorical(CHANCES.flip(-1)), [0.2749, 1.4556]),
        (d.OneHotCategorical(CHANCES), d.OneHotCategorical(CHANCES.flip(-1)), [0.2749, 1.4556]),
        (d.Exponential(SCALE), d.Exponential(SCALE * 2), [0.3069, 0.3069]),
        (d.Laplace(LOC, SCALE), d.Laplace(SCALE, SCALE * 2), [0.2832, 1.8664]),
        (d.Uniform(0.0, 1.0), d.Uniform(-1.0, 3.0), [1.3863]),
        (d.Uniform(0.0, 1.0), d.Uniform(0.5, 3.0), [math.inf]),
        (d.Geometric(weft.tensor([0.2])), d.Geometric(weft.tensor([0.4])), [0.4576]),
        (
            d.MultivariateNormal(LOC, COVARIANCE),
            d.MultivariateNormal(LOC, scale_tril=COVARIANCE.tril()),
            [0.1008],
        ),
        (d.Independent(d.Normal(LOC, SCALE), 1), d.Independent(d.Normal(SCALE, SCALE), 1), [9.6111]),
    ],
)
def test_figures(p: Any, q: Any, expected: list[float]) -> None:
    assert kl_divergence(p, q).flatten().tolist() == pytest.approx(expected, abs=1e-4)
    assert kl_divergence(p, p).abs().max().item() == pytest.approx(0.0, abs=1e-5)


def test_classes_that_nobody_compares() -> None:
    with pytest.raises(NotImplementedError, match="No KL.* for p type Cauchy and q type Laplace"):
        kl_divergence(d.Cauchy(0.0, 1.0), d.Laplace(0.0, 1.0))

    class Own(d.Normal):
        pass

    @register_kl(Own, Own)
    def compare(p: Any, q: Any) -> str:
        return "own"

    assert kl_divergence(Own(0.0, 1.0), Own(0.0, 1.0)) == "own"
    assert kl_divergence(Own(0.0, 1.0), d.Normal(0.0, 1.0)).item() == 0
    with pytest.raises(TypeError, match="Distribution subclass"):
        register_kl(3, Own)
    with pytest.raises(NotImplementedError):
        kl_divergence(d.Independent(d.Normal(LOC, SCALE), 1), d.Independent(d.Normal(LOC, SCALE), 0))
