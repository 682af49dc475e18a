"""Distributions inside compiled functions: one graph each, with eager's draws, densities and gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import weft
import weft.distributions as d
from weft.core.settings import settings

MATRIX = weft.eye(3) + 0.1
MADE: dict[str, Callable[[Any], Any]] = {
    "Normal": lambda x: d.Normal(x, x + 1),
    "LogNormal": lambda x: d.LogNormal(x, x + 1),
    "Gamma": lambda x: d.Gamma(x, x + 1),
    "Beta": lambda x: d.Beta(x, x + 1),
    "Dirichlet": lambda x: d.Dirichlet(x),
    "Exponential": lambda x: d.Exponential(x),
    "Laplace": lambda x: d.Laplace(x, x),
    "Cauchy": lambda x: d.Cauchy(x, x),
    "HalfNormal": lambda x: d.HalfNormal(x),
    "StudentT": lambda x: d.StudentT(x + 2),
    "FisherSnedecor": lambda x: d.FisherSnedecor(x + 1, x + 5),
    "Gumbel": lambda x: d.Gumbel(x, x),
    "Kumaraswamy": lambda x: d.Kumaraswamy(x, x),
    "Pareto": lambda x: d.Pareto(x, x),
    "Weibull": lambda x: d.Weibull(x, x),
    "Uniform": lambda x: d.Uniform(x, x + 1),
    "InverseGamma": lambda x: d.InverseGamma(x, x),
    "LogisticNormal": lambda x: d.LogisticNormal(x, x),
    "Bernoulli": lambda x: d.Bernoulli(logits=x),
    "Binomial": lambda x: d.Binomial(5, logits=x),
    "Categorical": lambda x: d.Categorical(logits=x),
    "OneHotCategorical": lambda x: d.OneHotCategorical(logits=x),
    "Geometric": lambda x: d.Geometric(logits=x),
    "Poisson": lambda x: d.Poisson(x),
    "NegativeBinomial": lambda x: d.NegativeBinomial(3, logits=x),
    "Multinomial": lambda x: d.Multinomial(4, logits=x),
    "RelaxedBernoulli": lambda x: d.RelaxedBernoulli(weft.tensor(0.5), logits=x),
    "RelaxedOneHotCategorical": lambda x: d.RelaxedOneHotCategorical(weft.tensor(0.5), logits=x),
    "ContinuousBernoulli": lambda x: d.ContinuousBernoulli(logits=x),
    "MultivariateNormal": lambda x: d.MultivariateNormal(x, MATRIX),
    "LowRankMultivariateNormal": lambda x: d.LowRankMultivariateNormal(x, MATRIX[:, :1], x),
    "LKJCholesky": lambda x: d.LKJCholesky(3, x[0]),
    "Independent": lambda x: d.Independent(d.Normal(x, x), 1),
    "MixtureSameFamily": lambda x: d.MixtureSameFamily(d.Categorical(logits=x), d.Normal(x, x)),
    "TransformedDistribution": lambda x: d.TransformedDistribution(
        d.Normal(x, x), [d.ExpTransform(), d.ComposeTransform([d.AffineTransform(1.0, 2.0)])]
    ),
}


@pytest.mark.parametrize("name", MADE)
def test_draws_and_densities_are_one_graph(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def drawn(x: weft.Tensor) -> tuple[weft.Tensor, weft.Tensor]:
        made = MADE[name](x)
        value = made.rsample() if made.has_rsample else made.sample()
        return value, made.log_prob(value)

    monkeypatch.setattr(settings, "strict", True)
    found = []
    for function in (drawn, weft.compile(drawn, backend="native", fullgraph=True)):
        weft.manual_seed(1)
        x = weft.tensor([0.5, 2.0, 1.7], requires_grad=True)
        for _ in range(2):
            value, density = function(x)
            parts = [each.sum() for each in (value, density) if each.requires_grad]
            found.append((value.detach(), density.detach(), weft.autograd.grad(parts, x)))
    weft.testing.assert_close(found[2:], found[:2])


def test_what_a_batch_satisfies_of_definiteness() -> None:
    check = d.constraints.positive_definite.check
    good, bad = MATRIX, MATRIX - 2
    slanted = MATRIX.tril()
    assert check(weft.stack([good, bad])).tolist() == [True, False]
    assert check(weft.stack([good, bad, slanted])).tolist() == [True, True, False], "asymmetry is told first"
    assert check(weft.ones(2, 3, 4)).tolist() == [False, False]
    assert not check(weft.full((2, 2), float("nan")))
