"""Distances against norms of differences."""

from __future__ import annotations

import numpy as np
import pytest

import weft
import weft.nn.functional as F
from weft.ops import distances

X, Y = (np.random.default_rng(i).standard_normal((n, 3)) for i, n in ((0, 4), (1, 5)))


@pytest.mark.parametrize("p", [0.0, 1.0, 2.0, 2.5, float("inf")])
def test_all_pairs(p: float) -> None:
    gaps = X[:, None] - Y
    wanted = np.linalg.norm(gaps, ord=p, axis=-1)
    np.testing.assert_allclose(weft.cdist(weft.from_numpy(X), weft.from_numpy(Y), p).numpy(), wanted)
    wanted = np.array([np.linalg.norm(X[i] - X[j], ord=p) for i in range(4) for j in range(i + 1, 4)])
    np.testing.assert_allclose(F.pdist(weft.from_numpy(X), p).numpy(), wanted)
    got = weft.dist(weft.from_numpy(X), weft.from_numpy(Y[:4]), p)
    np.testing.assert_allclose(got.item(), np.linalg.norm((X - Y[:4]).ravel(), ord=p))


def test_blocks_of_rows_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = weft.cdist(weft.from_numpy(X), weft.from_numpy(Y))
    monkeypatch.setattr(distances, "BLOCK", 20)
    np.testing.assert_array_equal(weft.cdist(weft.from_numpy(X), weft.from_numpy(Y)).numpy(), whole.numpy())


def test_points_that_coincide_have_no_gradient() -> None:
    x = weft.ones(2, 3, requires_grad=True)
    weft.cdist(x, x).sum().backward()
    assert not x.grad.any()


def test_rows_are_cut_back() -> None:
    x = weft.tensor([[3.0, 4.0], [0.3, 0.4]])
    np.testing.assert_allclose(weft.renorm(x, 2, 0, 1.0).numpy(), [[0.6, 0.8], [0.3, 0.4]], rtol=1e-6)
    assert x.renorm_(2, 0, 1.0) is x and x.norm(dim=1).max() <= 1


def test_errors() -> None:
    with pytest.raises(RuntimeError, match="X1 and X2 must have the same number of columns. X1: 3 X2: 2"):
        weft.cdist(weft.ones(2, 3), weft.ones(2, 2))
    with pytest.raises(RuntimeError, match="pdist only supports 2D tensors, got: 1D"):
        weft.pdist(weft.ones(3))
    with pytest.raises(RuntimeError, match="renorm: non-positive-norm not supported"):
        weft.renorm(weft.ones(2, 2), 0, 0, 1.0)


@pytest.mark.parametrize(
    "distance", [lambda x: weft.cdist(x, weft.ones(4, 2), p=0.0), lambda x: F.pdist(x, 0.0)]
)
def test_counts_of_what_differs_have_a_gradient_of_zeros(distance) -> None:
    x = weft.tensor([[1.0, 2.0], [float("inf"), 3.0], [1.0, 1.0]], requires_grad=True)
    distance(x).sum().backward()
    assert weft.equal(x.grad, weft.zeros(3, 2))


@pytest.mark.parametrize("kind", [weft.float16, weft.bfloat16])
def test_norms_of_halves_that_are_cut_back_are_not_rounded_but_factors_are(kind: weft.dtype) -> None:
    x = weft.from_numpy(np.random.default_rng(3).standard_normal((7, 33))).to(kind)
    norms = weft.linalg.vector_norm(x.float(), dim=1, keepdim=True)
    assert bool((norms > 1.5).all())
    wanted = x * (1.5 / (norms + 1e-7)).to(kind)
    for renorm in (weft.renorm, weft.compile(weft.renorm)):
        assert weft.equal(renorm(x, 2, 0, 1.5), wanted)
