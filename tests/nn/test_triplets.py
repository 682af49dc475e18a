"""Triplet loss by a distance of the caller's, eager and captured."""

from __future__ import annotations

import pytest

import weft
import weft.nn.functional as F


def taxi(a: weft.Tensor, b: weft.Tensor) -> weft.Tensor:
    return (a - b).abs().sum(-1)


def test_capture_follows_the_distance() -> None:
    anchor, near, far = (weft.randn(4, 3) for _ in range(3))

    def loss(a: weft.Tensor) -> weft.Tensor:
        return F.triplet_margin_with_distance_loss(a, near, far, distance_function=taxi, swap=True)

    compiled = weft.compile(loss, fullgraph=True, backend="eager")
    assert weft.allclose(compiled(anchor), loss(anchor))


def test_errors() -> None:
    x = weft.ones(2, 2)
    with pytest.raises(ValueError, match="margin must be greater than 0, got -1"):
        F.triplet_margin_with_distance_loss(x, x, x, margin=-1)
    with pytest.raises(RuntimeError, match="but got: anchor 2D, positive 1D, and negative 2D inputs"):
        F.triplet_margin_with_distance_loss(x, x[0], x)
