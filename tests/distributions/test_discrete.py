"""Distributions over choices and counts."""

from __future__ import annotations

import math

import pytest

import weft
from weft.distributions import Bernoulli, Categorical, Geometric, OneHotCategorical

CHANCES = weft.tensor([[0.2, 0.3, 0.5], [0.1, 0.1, 0.8]])


def test_bernoulli() -> None:
    coin = Bernoulli(weft.tensor([0.2, 0.7]))
    assert coin.log_prob(weft.tensor([1.0, 0.0])).tolist() == pytest.approx([-1.6094, -1.204], abs=1e-4)
    assert coin.entropy().tolist() == pytest.approx([0.5004, 0.6109], abs=1e-4)
    assert coin.variance.tolist() == pytest.approx([0.16, 0.21]) and coin.mode.tolist() == [0.0, 1.0]
    assert coin.enumerate_support().tolist() == [[0.0, 0.0], [1.0, 1.0]]
    by_logits = Bernoulli(logits=coin.logits)
    assert weft.allclose(by_logits.probs, coin.probs)
    weft.manual_seed(1)
    assert weft.allclose(coin.sample((4000,)).mean(0), coin.mean, atol=0.04)


def test_geometric() -> None:
    tries = Geometric(weft.tensor([0.2, 0.7]))
    assert tries.log_prob(weft.tensor([2.0, 0.0])).tolist() == pytest.approx([-2.0557, -0.3567], abs=1e-4)
    assert tries.mean.tolist() == pytest.approx([4.0, 0.4286], abs=1e-4)
    assert tries.entropy().tolist() == pytest.approx([2.502, 0.8727], abs=1e-4)
    assert tries.variance.tolist() == pytest.approx([20.0, 0.6122], abs=1e-4)
    weft.manual_seed(1)
    assert weft.allclose(tries.sample((4000,)).mean(0), tries.mean, atol=0.3)
    assert tries.mode.tolist() == [0.0, 0.0]


def test_categorical() -> None:
    choice = Categorical(CHANCES)
    assert choice.log_prob(weft.tensor([2, 0])).tolist() == pytest.approx([-0.6931, -2.3026], abs=1e-4)
    assert choice.entropy().tolist() == pytest.approx([1.0297, 0.639], abs=1e-4)
    assert choice.mode.tolist() == [2, 2] and math.isnan(choice.mean[0].item())
    assert choice.param_shape == (2, 3) and choice.batch_shape == (2,) and choice.event_shape == ()
    assert choice.enumerate_support().tolist() == [[0, 0], [1, 1], [2, 2]]
    weft.manual_seed(0)
    drawn = choice.sample((4000,))
    shares = weft.stack([(drawn == k).float().mean(0) for k in range(3)], -1)
    assert drawn.shape == (4000, 2) and weft.allclose(shares, CHANCES, atol=0.04)
    assert choice.expand((5, 2)).sample().shape == (5, 2)


def test_gradients_of_log_probabilities() -> None:
    logits = CHANCES.clone().requires_grad_()
    Categorical(logits=logits).log_prob(weft.tensor([2, 0])).sum().backward()
    assert logits.grad is not None
    expected = [-0.2894, -0.3199, 0.6093, 0.7509, -0.2491, -0.5017]
    assert logits.grad.flatten().tolist() == pytest.approx(expected, abs=1e-4)


def test_one_hot() -> None:
    choice = OneHotCategorical(CHANCES)
    at = weft.tensor([[0.0, 0.0, 1.0], [1.0, 0.0, 0.0]])
    assert choice.log_prob(at).tolist() == pytest.approx([-0.6931, -2.3026], abs=1e-4)
    assert choice.event_shape == (3,) and choice.mode.tolist() == [[0.0, 0.0, 1.0]] * 2
    assert choice.sample((4,)).sum(-1).tolist() == [[1.0, 1.0]] * 4
    assert choice.expand((6, 2)).sample().shape == (6, 2, 3)
    assert choice.enumerate_support().shape == (3, 2, 3)
    assert weft.equal(choice.mean, choice.probs) and choice.entropy().shape == (2,)
    assert choice.variance[0, 0].item() == pytest.approx(0.16)


def test_parameters_are_told_once() -> None:
    for kind in (Bernoulli, Categorical, Geometric):
        with pytest.raises(ValueError, match="Either `probs` or `logits` must be specified, but not both"):
            kind()
    with pytest.raises(ValueError, match="`probs` parameter must be at least one-dimensional"):
        Categorical(weft.tensor(1.0))
    with pytest.raises(ValueError, match=r"to satisfy the constraint Simplex\(\)"):
        Categorical(weft.zeros(2))
    with pytest.raises(AttributeError, match="has no attribute 'weights'"):
        _ = Categorical(CHANCES).weights
