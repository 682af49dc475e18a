from __future__ import annotations

import numpy as np
import pytest

import weft
from weft import nn

REDUCE = {"none": lambda x: x, "mean": np.mean, "sum": np.sum}
reductions = pytest.mark.parametrize("reduction", REDUCE)


def log_softmax(x, axis=1):
    shifted = x - x.max(axis, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis, keepdims=True))


@reductions
def test_differences(agrees, draw, reduction):
    reduce = REDUCE[reduction]
    x, y = draw(4, 3), draw(4, 3)
    agrees(nn.MSELoss(reduction=reduction), lambda x, y: reduce((x - y) ** 2), x, y)
    agrees(nn.L1Loss(reduction=reduction), lambda x, y: reduce(np.abs(x - y)), x, y)

    def smooth(x, y):
        d = np.abs(x - y)
        return reduce(np.where(d < 0.7, d**2 / 1.4, d - 0.35))

    agrees(nn.SmoothL1Loss(reduction=reduction, beta=0.7), smooth, x, y)

    def huber(x, y):
        d = np.abs(x - y)
        return reduce(np.where(d < 0.7, d**2 / 2, 0.7 * (d - 0.35)))

    agrees(nn.HuberLoss(reduction, 0.7), huber, x, y)


@reductions
def test_negative_log_likelihood(agrees, draw, rng, reduction):
    weight = rng.uniform(0.5, 2, 3)
    target = np.array([0, 2, 1, 1])

    def formula(x, t):
        picked = np.where(t == 1, 0, -x[np.arange(4), t] * weight[t])
        return picked.sum() / weight[t][t != 1].sum() if reduction == "mean" else REDUCE[reduction](picked)

    layer = nn.NLLLoss(weft.from_numpy(weight), ignore_index=1, reduction=reduction)
    agrees(layer, formula, draw(4, 3), target)
    assert list(layer.state_dict()) == ["weight"]


@reductions
def test_cross_entropy_of_classes(agrees, draw, rng, reduction):
    weight = rng.uniform(0.5, 2, 3)
    target = np.array([[0, 2], [1, 1], [2, 0], [1, 2]])

    def formula(x, t):
        logs = log_softmax(x)
        picked = -np.take_along_axis(logs, t[:, None], 1)[:, 0] * weight[t]
        spread = -(logs * weight[:, None]).sum(1)
        loss = 0.8 * picked + 0.2 / 3 * spread
        return loss.sum() / weight[t].sum() if reduction == "mean" else REDUCE[reduction](loss)

    layer = nn.CrossEntropyLoss(weft.from_numpy(weight), reduction=reduction, label_smoothing=0.2)
    agrees(layer, formula, draw(4, 3, 2), target)


def test_cross_entropy_of_probabilities(agrees, draw, rng):
    target = rng.dirichlet(np.ones(3), 4)
    agrees(nn.CrossEntropyLoss(), lambda x, t: -(log_softmax(x) * t).sum(1).mean(), draw(4, 3), target)


@reductions
def test_two_classes(agrees, draw, rng, reduction):
    reduce = REDUCE[reduction]
    p, t, weight = rng.uniform(0.1, 0.9, (4, 3)), rng.uniform(0, 1, (4, 3)), rng.uniform(0.5, 2, 3)

    def formula(p, t):
        return reduce(-weight * (t * np.log(p) + (1 - t) * np.log(1 - p)))

    agrees(nn.BCELoss(weft.from_numpy(weight), reduction=reduction), formula, p, t)
    positive = rng.uniform(0.5, 2, 3)

    def from_logits(x, t):
        p = 1 / (1 + np.exp(-x))
        return reduce(-weight * (positive * t * np.log(p) + (1 - t) * np.log(1 - p)))

    layer = nn.BCEWithLogitsLoss(weft.from_numpy(weight), None, None, reduction, weft.from_numpy(positive))
    agrees(layer, from_logits, draw(4, 3), t)
    assert list(layer.state_dict()) == ["weight", "pos_weight"]


def test_divergence(agrees, draw, rng):
    target = rng.dirichlet(np.ones(3), 4)
    x = draw(4, 3)
    formula = lambda x, t: (t * (np.log(t) - x)).sum() / 4
    agrees(nn.KLDivLoss(reduction="batchmean"), formula, x, target)
    layer = nn.KLDivLoss(reduction="sum", log_target=True)
    agrees(layer, lambda x, t: (np.exp(t) * (t - x)).sum(), x, np.log(target))


@pytest.mark.parametrize("swap", [False, True])
def test_triplets(agrees, draw, swap):
    def distance(a, b):
        return np.linalg.norm(a - b + 1e-6, axis=-1)

    def formula(a, p, n):
        apart = np.minimum(distance(a, n), distance(p, n)) if swap else distance(a, n)
        return np.maximum(distance(a, p) - apart + 2, 0).mean()

    agrees(nn.TripletMarginLoss(2.0, swap=swap), formula, draw(4, 3), draw(4, 3), draw(4, 3))


@pytest.mark.parametrize(
    ("old", "new"), [((True, True), "mean"), ((False, True), "sum"), ((None, False), "none")]
)
def test_old_arguments_name_a_reduction(old, new):
    with pytest.warns(UserWarning, match=f"please use reduction='{new}' instead"):
        assert nn.MSELoss(*old).reduction == new


def test_options_are_checked():
    with pytest.raises(TypeError, match="delta must be a float or int, got: <class 'str'>"):
        nn.HuberLoss(delta="1")
    with pytest.raises(ValueError, match="expected margin to be greater than 0, got 0.0 instead"):
        nn.TripletMarginLoss(0.0)
    with pytest.raises(ValueError, match="most is not a valid value for reduction"):
        nn.MSELoss(reduction="most")(weft.ones(2), weft.ones(2))
