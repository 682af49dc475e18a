"""Distributions over numbers: figures that were computed independently, and draws."""

from __future__ import annotations

import math
from typing import Any

import pytest

import weft
from weft.distributions import Cauchy, Exponential, Gumbel, HalfNormal, Laplace, LogNormal, Normal, Uniform

LOC, SCALE = weft.tensor([0.5, -1.0]), weft.tensor([1.5, 0.3])
CASES: dict[str, tuple[Any, Any, dict[str, list[float]]]] = {
    "Normal": (
        Normal(LOC, SCALE), [0.1, 0.2],
        {"log_prob": [-1.36, -7.715], "entropy": [1.8244, 0.215], "variance": [2.25, 0.09],
         "cdf": [0.3949, 1.0], "icdf": [-0.2866, -0.924], "mean": [0.5, -1.0]},
    ),
    "LogNormal": (
        LogNormal(LOC, SCALE), [0.4, 0.2],
        {"log_prob": [-0.8539, -0.1689], "entropy": [2.3244, -0.785], "variance": [218.9016, 0.0139],
         "cdf": [0.1725, 0.0211], "icdf": [0.7508, 0.3969], "mean": [5.0784, 0.3848]},
    ),
    "HalfNormal": (
        HalfNormal(SCALE), [0.3, 0.4],
        {"log_prob": [-0.6513, 0.0893], "entropy": [1.1313, -0.4782], "variance": [0.8176, 0.0327],
         "cdf": [0.1585, 0.8176], "icdf": [0.578, 0.2525], "mean": [1.1968, 0.2394]},
    ),
    "Laplace": (
        Laplace(LOC, SCALE), [0.1, 0.2],
        {"log_prob": [-1.3653, -3.4892], "entropy": [2.0986, 0.4892], "variance": [4.5, 0.18],
         "cdf": [0.383, 0.9908], "icdf": [-0.2662, -0.9331], "mean": [0.5, -1.0]},
    ),
    "Cauchy": (
        Cauchy(LOC, SCALE), [0.1, 0.2],
        {"log_prob": [-1.6189, -2.774], "entropy": [2.9365, 1.3271], "variance": [math.inf, math.inf],
         "cdf": [0.417, 0.922], "icdf": [-0.5898, -0.9025], "mode": [0.5, -1.0]},
    ),
    "Gumbel": (
        Gumbel(LOC, SCALE), [0.1, 0.2],
        {"log_prob": [-1.4444, -2.8143], "entropy": [1.9827, 0.3732], "variance": [3.7011, 0.148],
         "cdf": [0.271, 0.9819], "icdf": [0.2216, -0.7985], "mean": [1.3658, -0.8268]},
    ),
    "Uniform": (
        Uniform(LOC, LOC + SCALE), [1.0, -0.9],
        {"log_prob": [-0.4055, 1.204], "entropy": [0.4055, -1.204], "variance": [0.1875, 0.0075],
         "cdf": [0.3333, 0.3333], "icdf": [0.95, -0.82], "mean": [1.25, -0.85]},
    ),
    "Exponential": (
        Exponential(SCALE), [0.3, 0.4],
        {"log_prob": [-0.0445, -1.324], "entropy": [0.5945, 2.204], "variance": [0.4444, 11.1111],
         "cdf": [0.3624, 0.1131], "icdf": [0.2378, 3.0543], "mode": [0.0, 0.0]},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_figures(name: str) -> None:
    distribution, at, expected = CASES[name]
    for what, figures in expected.items():
        found = getattr(distribution, what)
        if what in ("log_prob", "cdf"):
            found = found(weft.tensor(at))
        elif what == "icdf":
            found = found(weft.tensor([0.3, 0.6]))
        elif what == "entropy":
            found = found()
        assert found.tolist() == pytest.approx(figures, abs=6e-5), what


@pytest.mark.parametrize("name", CASES)
def test_draws(name: str) -> None:
    distribution = CASES[name][0]
    weft.manual_seed(3)
    drawn = distribution.sample((4000,))
    assert drawn.shape == (4000, 2) and not drawn.requires_grad
    middle = distribution.icdf(weft.tensor(0.5))
    assert weft.allclose((drawn < middle).float().mean(0), weft.tensor(0.5), atol=0.04)
    wide = distribution.expand((3, 2))
    assert wide.batch_shape == (3, 2) and wide.sample().shape == (3, 2)
    assert distribution.has_rsample


def test_gradients_flow_through_draws() -> None:
    loc, scale = LOC.clone().requires_grad_(), SCALE.clone().requires_grad_()
    Normal(loc, scale).rsample((5,)).sum().backward()
    assert loc.grad is not None and loc.grad.tolist() == [5.0, 5.0]
    assert scale.grad is not None and scale.grad.shape == (2,)


def test_one_graph() -> None:
    def program(x: Any) -> Any:
        normal = Normal(x, 2.0)
        return normal.log_prob(weft.zeros(2)) + normal.rsample().detach() * 0 + normal.entropy()

    compiled = weft.compile(program, fullgraph=True, backend="eager")
    assert weft.allclose(compiled(LOC), program(LOC))


def test_a_range_needs_an_end_behind_its_start() -> None:
    with pytest.raises(ValueError, match="Uniform is not defined"):
        Uniform(1.0, 0.0)
    assert Uniform(0.0, 1.0, validate_args=False).log_prob(weft.tensor(3.0)).item() == -math.inf
    with pytest.raises(ValueError):
        HalfNormal(-1.0)
