from __future__ import annotations

import numpy as np
import pytest

import weft
import weft.nn.functional as F
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


SIGNS = np.array([[1.0, -1, 1], [-1, -1, 1], [1, 1, 1], [1, -1, -1]])


@reductions
def test_margins(agrees, draw, reduction):
    reduce = REDUCE[reduction]
    x, y = draw(4, 3), draw(4, 3)
    hinge = lambda x, s: reduce(np.where(s > 0, x, np.maximum(0, 0.7 - x)))
    agrees(nn.HingeEmbeddingLoss(0.7, reduction=reduction), hinge, x, SIGNS)
    ranking = lambda x, y, s: reduce(np.maximum(0, -s * (x - y) + 0.2))
    agrees(nn.MarginRankingLoss(0.2, reduction=reduction), ranking, x, y, SIGNS)
    agrees(nn.SoftMarginLoss(reduction=reduction), lambda x, s: reduce(np.log1p(np.exp(-s * x))), x, SIGNS)

    def cosine(a, b, s):
        c = (a * b).sum(1) / np.sqrt((a**2).sum(1) * (b**2).sum(1))
        return reduce(np.where(s > 0, 1 - c, np.maximum(0, c - 0.1)))

    agrees(nn.CosineEmbeddingLoss(0.1, reduction=reduction), cosine, x, y, SIGNS[:, 0].copy())


@reductions
def test_margins_of_classes(agrees, draw, rng, reduction):
    reduce = REDUCE[reduction]
    x, weight = draw(4, 3), rng.uniform(0.5, 2, 3)

    def multi(x, t):
        gaps = np.maximum(0, 0.8 - x[np.arange(4), t][:, None] + x) ** 2 * weight[t][:, None]
        gaps[np.arange(4), t] = 0
        return reduce(gaps.sum(1) / 3)

    layer = nn.MultiMarginLoss(2, 0.8, weft.from_numpy(weight), reduction=reduction)
    agrees(layer, multi, x, np.array([0, 2, 1, 1]))
    labels = np.array([[2, -1, 0], [0, 1, -1], [1, 2, 0], [-1, 0, 1]])

    def listed(x, t):
        sums = []
        for row, names in zip(x, t):
            there = list(names[: list(names).index(-1)] if -1 in names else names)
            others = [c for c in range(3) if c not in there]
            sums.append(sum(max(0, 1 - (row[a] - row[b])) for a in there for b in others) / 3)
        return reduce(np.array(sums))

    agrees(nn.MultiLabelMarginLoss(reduction=reduction), listed, x, labels)
    present = (SIGNS > 0).astype(float)

    def soft(x, t):
        p = 1 / (1 + np.exp(-x))
        return reduce(-(weight * (t * np.log(p) + (1 - t) * np.log(1 - p))).mean(1))

    agrees(nn.MultiLabelSoftMarginLoss(weft.from_numpy(weight), reduction=reduction), soft, x, present)


@reductions
def test_likelihoods_of_counts_and_values(agrees, draw, rng, reduction):
    reduce = REDUCE[reduction]
    x, counts, variance = draw(4, 3), np.arange(12.0).reshape(4, 3) % 4, rng.uniform(0.5, 2, (4, 3))
    agrees(nn.PoissonNLLLoss(reduction=reduction), lambda x, t: reduce(np.exp(x) - t * x), x, counts)
    stirling = np.where(counts > 1, counts * np.log(np.maximum(counts, 1)) - counts, 0)
    stirling += np.where(counts > 1, 0.5 * np.log(2 * np.pi * np.maximum(counts, 1)), 0)
    full = lambda x, t: reduce(x - t * np.log(x + 1e-8) + stirling)
    agrees(nn.PoissonNLLLoss(False, True, reduction=reduction), full, np.exp(x), counts, slopes=False)
    normal = lambda x, t, v: reduce(0.5 * (np.log(v) + (x - t) ** 2 / v) + 0.5 * np.log(2 * np.pi))
    agrees(nn.GaussianNLLLoss(full=True, reduction=reduction), normal, x, draw(4, 3), variance)


def test_alignments(agrees, draw):
    """CTC beside a sum over all paths of a tiny problem."""
    logs = log_softmax(draw(4, 2, 3), axis=2)
    targets, lengths, sizes = np.array([[1, 2], [2, 2]]), np.array([4, 3]), np.array([2, 1])

    def read(path):
        kept = [c for i, c in enumerate(path) if i == 0 or c != path[i - 1]]
        return [c for c in kept if c]

    def formula(logs, *_):
        found = []
        for n in range(2):
            wanted = list(targets[n, : sizes[n]])
            paths = [p for p in np.ndindex(*(3,) * lengths[n]) if read(p) == wanted]
            found.append(-np.log(sum(np.exp(sum(logs[t, n, c] for t, c in enumerate(p))) for p in paths)))
        return np.array(found)

    tensors = [weft.from_numpy(value) for value in (targets, lengths, sizes)]
    agrees(nn.CTCLoss(reduction="none"), formula, logs, *tensors, slopes=False)
    agrees(nn.CTCLoss(), lambda *given: (formula(*given) / sizes).mean(), logs, *tensors, slopes=False)


def test_triplets_by_any_distance(agrees, draw):
    distance = lambda a, b: (a - b).abs().sum(-1)
    layer = nn.TripletMarginWithDistanceLoss(distance_function=distance, margin=2.0)

    def formula(a, p, n):
        return np.maximum(np.abs(a - p).sum(1) - np.abs(a - n).sum(1) + 2, 0).mean()

    agrees(layer, formula, draw(4, 3), draw(4, 3), draw(4, 3))


def test_more_options_are_checked():
    with pytest.raises(ValueError, match="only p == 1 and p == 2 supported"):
        nn.MultiMarginLoss(3)
    with pytest.raises(ValueError, match="expected weight to be None or 1D tensor, got 2D instead"):
        nn.MultiMarginLoss(weight=weft.ones(1, 1))
    with pytest.raises(
        ValueError, match="TripletMarginWithDistanceLoss: expected margin to be greater than 0"
    ):
        nn.TripletMarginWithDistanceLoss(margin=0.0)
    with pytest.warns(FutureWarning, match="NLLLoss2d has been deprecated"):
        nn.NLLLoss2d()


def test_a_loss_with_its_own_linear_layer(draw):
    x, target = draw(5, 3), weft.tensor([[0, 1], [2, 3], [3, 3], [1, 0], [0, 2]])
    layer = nn.LinearCrossEntropyLoss(3, 4, out_features=(2,), bias=True, dtype=weft.float64)
    assert list(layer.state_dict()) == ["linear.weight", "linear.bias"]
    assert layer.linear.weight.shape == (8, 3)
    given = weft.from_numpy(x) if isinstance(x, np.ndarray) else x
    for option in ({}, {"reduction": "none"}, {"ignore_index": 3}, {"label_smoothing": 0.2}):
        for name, value in option.items():
            setattr(layer, name, value)
        expected = nn.CrossEntropyLoss(**option)(layer.linear(given).reshape(5, 4, 2), target)
        assert weft.allclose(layer(given, target), expected)
        layer.reduction, layer.ignore_index, layer.label_smoothing = "mean", None, 0.0
    assert weft.equal(weft.compile(layer, fullgraph=True)(given, target).isfinite(), weft.tensor(True))
    cut = nn.LinearCrossEntropyLoss(3, 4, options=nn.LinearCrossEntropyOptions(batch_chunk_size=2))
    assert cut(given.float(), target[:, 0]).dim() == 0


@pytest.mark.parametrize(
    ("inputs", "text"),
    [
        (lambda: (weft.ones(2, 5, 3), weft.ones(4, 3)), "expected input with dimensionality 1 or 2, got 3"),
        (lambda: (weft.ones(5, 3), weft.ones(3)), "linear_weight with dimensionality at least 2, got 1"),
        (lambda: (weft.ones(5, 2), weft.ones(4, 3)), r"\(in_features\), got 2 and 3, respectively"),
        (lambda: (weft.ones(3), weft.ones(2, 4, 3)), r"requires batched input, \(N, 3\), got unbatched"),
    ],
)
def test_linear_cross_entropy_refuses(inputs, text):
    with pytest.raises(RuntimeError, match=text):
        F.linear_cross_entropy(*inputs(), weft.zeros(5, dtype=weft.int64))


def test_linear_cross_entropy_refuses_targets_and_options():
    x, rows = weft.ones(5, 3), weft.ones(4, 3)
    with pytest.raises(RuntimeError, match="expected target dtype to be Long or Byte, but got Int"):
        F.linear_cross_entropy(x, rows, weft.zeros(5, dtype=weft.int32))
    with pytest.raises(RuntimeError, match="ignore_index cannot be specified when target contains prob"):
        F.linear_cross_entropy(x, rows, weft.ones(5, 4) / 4, ignore_index=1)
    with pytest.raises(RuntimeError, match=r"expected linear_bias shape \(4,\), got \(3,\)"):
        F.linear_cross_entropy(x, rows, weft.zeros(5, dtype=weft.int64), linear_bias=weft.ones(3))
    with pytest.raises(ValueError, match="batch_chunk_size must be positive int or None, got -1"):
        nn.LinearCrossEntropyOptions(batch_chunk_size=-1)
    with pytest.raises(RuntimeError, match=r"expected label_smoothing to be in range \[0, 1\], got 2.0"):
        nn.LinearCrossEntropyLoss(3, 4, label_smoothing=2.0)
    with pytest.raises(ValueError, match="invalid acc_policy: 'x'"):
        nn.LinearCrossEntropyOptions(acc_policy="x")
