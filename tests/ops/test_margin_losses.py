"""Margin losses and likelihoods against their formulas in NumPy."""

from __future__ import annotations

import math

import numpy as np
import pytest

import weft
import weft.nn.functional as F

RANDOM = np.random.default_rng(0)
X, Y = RANDOM.standard_normal((4, 3)), RANDOM.standard_normal((4, 3))
SIGNS = np.array([1, -1, 1, -1])


def tensor(array: object) -> weft.Tensor:
    return weft.from_numpy(np.asarray(array))


def test_pairs() -> None:
    cosine = (X * Y).sum(1) / np.linalg.norm(X, axis=1) / np.linalg.norm(Y, axis=1)
    wanted = np.where(SIGNS == 1, 1 - cosine, np.maximum(cosine - 0.2, 0))
    got = F.cosine_embedding_loss(tensor(X), tensor(Y), tensor(SIGNS), 0.2, reduction="none")
    np.testing.assert_allclose(got.numpy(), wanted)
    wanted = np.maximum(-SIGNS * (X[:, 0] - Y[:, 0]) + 0.3, 0)
    got = F.margin_ranking_loss(tensor(X[:, 0]), tensor(Y[:, 0]), tensor(SIGNS), 0.3, reduction="none")
    np.testing.assert_allclose(got.numpy(), wanted)
    wanted = np.where(SIGNS == 1, X[:, 0], np.maximum(1 - X[:, 0], 0))
    got = F.hinge_embedding_loss(tensor(X[:, 0]), tensor(SIGNS), reduction="none")
    np.testing.assert_allclose(got.numpy(), wanted)
    got = F.soft_margin_loss(tensor(X[:, 0]), tensor(SIGNS))
    np.testing.assert_allclose(got.item(), np.log1p(np.exp(-SIGNS * X[:, 0])).mean())


def test_classes() -> None:
    target, weight = np.array([0, 2, 1, 1]), np.array([0.5, 1.0, 2.0])
    for p in (1, 2):
        wanted = [
            sum(weight[t] * max(0, 0.7 - row[t] + row[i]) ** p for i in range(3) if i != t) / 3
            for row, t in zip(X, target, strict=True)
        ]
        got = F.multi_margin_loss(tensor(X), tensor(target), p, 0.7, tensor(weight), reduction="none")
        np.testing.assert_allclose(got.numpy(), wanted)
    labels = np.array([[2, 0, -1], [1, -1, 0], [-1, 0, 0], [0, 1, 2]])
    named = [{0, 2}, {1}, set(), {0, 1, 2}]
    wanted = [
        sum(max(0, 1 - row[t] + row[i]) for t in group for i in range(3) if i not in group) / 3
        for row, group in zip(X, named, strict=True)
    ]
    got = F.multilabel_margin_loss(tensor(X), tensor(labels), reduction="none")
    np.testing.assert_allclose(got.numpy(), wanted)
    chance, want = 1 / (1 + np.exp(-X)), (Y > 0).astype(float)
    got = F.multilabel_soft_margin_loss(tensor(X), tensor(want))
    np.testing.assert_allclose(got.item(), -(want * np.log(chance) + (1 - want) * np.log(1 - chance)).mean())


def test_likelihoods() -> None:
    counts = np.array([0.0, 1.0, 3.0])
    rates = np.array([0.5, 2.0, 1.5])
    stirling = np.where(counts > 1, counts * np.log(np.maximum(counts, 1)) - counts, 0)
    stirling = stirling + np.where(counts > 1, 0.5 * np.log(2 * np.pi * np.maximum(counts, 1)), 0)
    got = F.poisson_nll_loss(tensor(rates), tensor(counts), False, True, reduction="none")
    np.testing.assert_allclose(got.numpy(), rates - counts * np.log(rates + 1e-8) + stirling)
    variance = np.array([0.5, 2.0, 0.0, 1.0])
    got = F.gaussian_nll_loss(tensor(X), tensor(Y), tensor(variance), True, reduction="none").numpy()
    spread = np.maximum(variance, 1e-6)[:, None]
    wanted = 0.5 * (np.log(spread) + (X - Y) ** 2 / spread) + 0.5 * math.log(2 * math.pi)
    np.testing.assert_allclose(got, wanted)


def test_errors() -> None:
    x = weft.ones(2, 3)
    with pytest.raises(RuntimeError, match="target out of range"):
        F.multi_margin_loss(x, weft.tensor([0, 3]))
    with pytest.raises(RuntimeError, match="argument #2 'target' is out of range"):
        F.multilabel_margin_loss(x, weft.full((2, 3), 5))
    with pytest.raises(ValueError, match="var has negative entry/entries"):
        F.gaussian_nll_loss(x, x, -x)
    with pytest.raises(RuntimeError, match="1D target tensor expects 2D input tensors"):
        F.cosine_embedding_loss(x[0], x[0], weft.ones(2))
    with pytest.raises(ValueError, match="least is not a valid value for reduction"):
        F.soft_margin_loss(x, x, reduction="least")


def test_triplets() -> None:
    a, p, n = (weft.randn(3, 4, dtype=weft.float64) for _ in range(3))

    def distance(x: weft.Tensor, y: weft.Tensor) -> np.ndarray:
        return np.linalg.norm(x.numpy() - y.numpy() + 1e-6, axis=-1)

    expected = np.maximum(distance(a, p) - distance(a, n) + 2.0, 0)
    np.testing.assert_allclose(
        F.triplet_margin_loss(a, p, n, 2.0, reduction="none").numpy(), expected, rtol=1e-10
    )
    swapped = np.maximum(distance(a, p) - np.minimum(distance(a, n), distance(p, n)) + 2.0, 0)
    assert F.triplet_margin_loss(a, p, n, 2.0, swap=True).item() == pytest.approx(swapped.mean())
    with pytest.raises(ValueError, match="margin must be greater than 0, got -1.0"):
        F.triplet_margin_loss(a, p, n, margin=-1.0)
    with pytest.raises(RuntimeError, match="anchor 1D, positive 2D, and negative 2D inputs"):
        F.triplet_margin_loss(a[0], p, n)


def test_triplets_by_any_distance() -> None:
    anchor, near, far = (weft.randn(4, 3, dtype=weft.float64) for _ in range(3))
    plain = F.triplet_margin_with_distance_loss(anchor, near, far, swap=True)
    np.testing.assert_allclose(plain.item(), F.triplet_margin_loss(anchor, near, far, swap=True).item())

    def taxi(a: weft.Tensor, b: weft.Tensor) -> weft.Tensor:
        return (a - b).abs().sum(-1)

    got = F.triplet_margin_with_distance_loss(anchor, near, far, distance_function=taxi, reduction="sum")
    wanted = (taxi(anchor, near) - taxi(anchor, far) + 1).clamp_min(0).sum()
    np.testing.assert_allclose(got.item(), wanted.item())
