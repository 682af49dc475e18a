"""What all distributions share."""

from __future__ import annotations

import math

import pytest

import weft
from weft.distributions import Bernoulli, Categorical, Distribution, Normal


def test_parameters_broadcast() -> None:
    normal = Normal(weft.zeros(2, 1), weft.ones(3))
    assert normal.batch_shape == (2, 3) and normal.sample((4,)).shape == (4, 2, 3)
    assert repr(Normal(0.0, 1.0)) == "Normal(loc: 0.0, scale: 1.0)"
    assert normal.perplexity().shape == (2, 3)


def test_parameters_are_checked() -> None:
    with pytest.raises(ValueError, match=r"Expected parameter loc \(Tensor of shape \(2,\)\).*Real\(\)"):
        Normal(weft.tensor([0.0, math.nan]), 1.0)
    with pytest.raises(ValueError, match=r"scale: -1\.0\) to satisfy.*GreaterThan\(lower_bound=0\.0\)"):
        Normal(0.0, -1.0)
    with pytest.raises(ValueError, match=r"Interval\(lower_bound=0\.0, upper_bound=1\.0\)"):
        Bernoulli(2.0)
    assert Normal(0.0, -1.0, validate_args=False).scale.item() == -1


def test_values_are_checked() -> None:
    normal = Normal(weft.zeros(2), 1.0)
    with pytest.raises(ValueError, match=r"within the support \(Real\(\)\)"):
        normal.log_prob(weft.tensor(math.nan))
    with pytest.raises(ValueError, match="Value is not broadcastable with batch_shape"):
        normal.log_prob(weft.ones(5))
    with pytest.raises(ValueError, match="must be a Tensor"):
        normal.log_prob(3.0)
    with pytest.raises(ValueError, match=r"IntegerInterval\(lower_bound=0, upper_bound=2\)"):
        Categorical(weft.ones(3)).log_prob(weft.tensor(7))


def test_checks_may_be_turned_off() -> None:
    before = Distribution._validate_args
    try:
        Distribution.set_default_validate_args(False)
        Normal(0.0, -1.0)
    finally:
        Distribution.set_default_validate_args(before)
    with pytest.raises(ValueError):
        Distribution.set_default_validate_args(3)  # type: ignore[arg-type]


@pytest.mark.parametrize("ask", ["sample", "entropy", "enumerate_support"])
def test_the_base_knows_nothing(ask: str) -> None:
    with pytest.raises(NotImplementedError):
        getattr(Distribution(), ask)()
    for name in ("log_prob", "cdf", "icdf"):
        with pytest.raises(NotImplementedError):
            getattr(Distribution(), name)(weft.ones(1))
    for name in ("mean", "variance"):
        with pytest.raises(NotImplementedError):
            getattr(Distribution(), name)
