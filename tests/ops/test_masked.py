"""Masked ops against the plain ones on the elements that count."""

from __future__ import annotations

import numpy as np
import pytest

import weft

X = np.random.default_rng(0).standard_normal((3, 6))
MASK = np.array([[1, 0, 1, 1, 0, 1], [1, 1, 1, 1, 1, 1], [0, 0, 1, 0, 1, 0]], bool)


@pytest.mark.parametrize(
    ("name", "fold"),
    [
        ("sum", np.sum), ("prod", np.prod), ("amax", np.max), ("amin", np.min), ("mean", np.mean),
        ("var", lambda v: np.var(v, ddof=1)), ("std", lambda v: np.std(v, ddof=1)),
        ("logsumexp", lambda v: np.log(np.exp(v).sum())), ("norm", np.linalg.norm),
        ("median", lambda v: np.sort(v)[(len(v) - 1) // 2]),
    ],
)  # fmt: skip
def test_rows(name: str, fold: object) -> None:
    x, mask = weft.from_numpy(X), weft.from_numpy(MASK)
    got = getattr(weft.masked, name)(x, dim=1, mask=mask).numpy()
    wanted = [fold(row[kept]) for row, kept in zip(X, MASK, strict=True)]  # type: ignore[operator]
    np.testing.assert_allclose(got, wanted)


def test_lines() -> None:
    x, mask = weft.from_numpy(X), weft.from_numpy(MASK)
    soft = weft.masked.softmax(x, 1, mask=mask).numpy()
    wanted = np.where(MASK, np.exp(X), 0)
    np.testing.assert_allclose(soft, wanted / wanted.sum(1, keepdims=True))
    np.testing.assert_allclose(weft.masked.cumsum(x, 1, mask=mask), np.cumsum(np.where(MASK, X, 0), 1))
    np.testing.assert_allclose(weft.masked.normalize(x, 2.0, 1, mask=mask).norm(dim=1), 1)
    assert weft.masked.argmax(x, 1, mask=mask).dtype is weft.float64


def test_what_does_not_count_gets_no_gradient() -> None:
    x = weft.from_numpy(X.copy()).requires_grad_()
    weft.masked.mean(x, mask=weft.from_numpy(MASK)).backward()
    np.testing.assert_allclose(x.grad.numpy(), MASK / MASK.sum())
    with pytest.raises(ValueError, match="Could not infer output dtype"):
        weft.masked.mean(weft.tensor([1, 2]))
