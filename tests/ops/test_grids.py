"""Affine grids and sampling at their places: identities, a loop, and PyTorch's error texts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import weft
from weft.nn import functional as F

random = np.random.default_rng(0)


def make(*shape: int) -> weft.Tensor:
    return weft.from_numpy(random.standard_normal(shape))


def test_affine_grid_of_the_identity() -> None:
    identity = weft.tensor([[[1.0, 0, 0], [0, 1.0, 0]]])
    grid = F.affine_grid(identity, (1, 1, 2, 3), align_corners=True)
    assert grid[0, 0, :, 0].tolist() == [-1, 0, 1]
    assert grid[0, :, 0, 1].tolist() == [-1, 1]
    inner = F.affine_grid(identity, (1, 1, 2, 4), align_corners=False)
    assert inner[0, 0, :, 0].tolist() == [-0.75, -0.25, 0.25, 0.75]
    with pytest.warns(UserWarning, match="align_corners=False since 1.3.0"):
        F.affine_grid(identity, (1, 1, 2, 3))


@pytest.mark.parametrize("size", [(2, 3, 4), (2, 3, 0, 4)])
def test_affine_grid_refuses_sizes(size: Any) -> None:
    with pytest.raises(
        (NotImplementedError, ValueError), match="affine_grid only supports|non-zero, positive"
    ):
        F.affine_grid(weft.zeros(2, 2, 3), size, align_corners=False)


@pytest.mark.parametrize("mode", ["bilinear", "nearest", "bicubic"])
@pytest.mark.parametrize("align", [False, True])
def test_sampling_at_the_identity_gives_the_image(mode: str, align: bool) -> None:
    x = make(2, 3, 4, 5)
    identity = weft.tensor([[[1.0, 0, 0], [0, 1.0, 0]]] * 2, dtype=weft.float64)
    grid = F.affine_grid(identity, x.shape, align_corners=align)
    np.testing.assert_allclose(
        F.grid_sample(x, grid, mode, align_corners=align).numpy(), x.numpy(), rtol=1e-9, atol=1e-9
    )


def test_what_lies_outside() -> None:
    x = weft.tensor([[[[1.0, 2.0, 4.0]]]])
    grid = weft.tensor([[[[-3.0, 0.0], [0.5, 0.0], [2.0, 0.0]]]])

    def row(padding_mode: str) -> Any:
        return F.grid_sample(x, grid, padding_mode=padding_mode, align_corners=True)[0, 0, 0].tolist()

    assert row("zeros") == [0.0, 3.0, 0.0]
    assert row("border") == [1.0, 3.0, 4.0]
    assert row("reflection") == [4.0, 3.0, 2.0]


def test_sampling_a_volume_by_its_corners() -> None:
    x = make(1, 1, 2, 2, 2)
    centre = weft.zeros(1, 1, 1, 1, 3, dtype=weft.float64)
    assert F.grid_sample(x, centre, align_corners=True).item() == pytest.approx(x.mean().item())


def test_sampling_refusals() -> None:
    x, grid = weft.zeros(1, 1, 4, 4), weft.zeros(1, 2, 2, 2)
    with pytest.raises(ValueError, match="'bilinear', 'nearest' or 'bicubic', but got: 'soft'"):
        F.grid_sample(x, grid, "soft")
    with pytest.raises(ValueError, match="expected padding_mode to be 'zeros', 'border', or 'reflection'"):
        F.grid_sample(x, grid, padding_mode="soft")
    with pytest.raises(RuntimeError, match="expected grid to have size 2 in last dimension"):
        F.grid_sample(x, weft.zeros(1, 2, 2, 3), align_corners=False)
    with pytest.warns(UserWarning, match="align_corners=False since 1.3.0"):
        F.grid_sample(x, grid)


def test_places_of_the_nearest_have_a_gradient_of_zeros() -> None:
    x = weft.arange(9.0).reshape(1, 1, 3, 3).requires_grad_()
    grid = weft.tensor([[[[-1.0, float("nan")], [0.6, -0.2]]]], requires_grad=True)
    expected = F.grid_sample(x.detach(), grid.detach(), "nearest", align_corners=False)
    out = F.grid_sample(x, grid, "nearest", align_corners=False)
    assert weft.equal(out, expected)
    out.sum().backward()
    assert grid.grad is not None
    assert weft.equal(grid.grad[0, 0, 1], weft.zeros(2))
    assert x.grad is not None
