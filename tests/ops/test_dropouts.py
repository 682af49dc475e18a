"""Dropouts of channels and of SELU's inputs: what is dropped, what is kept, and what gradients say."""

from __future__ import annotations

import numpy as np
import pytest

import weft
import weft.nn.functional as F


@pytest.mark.parametrize(
    ("function", "shape"),
    [(F.dropout1d, (4, 5, 6)), (F.dropout2d, (4, 5, 3, 2)), (F.dropout3d, (4, 5, 2, 2, 2))],
)
def test_channels_are_dropped_whole(function: object, shape: tuple[int, ...]) -> None:
    weft.manual_seed(3)
    x = weft.ones(shape, requires_grad=True)
    out = function(x, 0.5)  # type: ignore[operator]
    planes = out.detach().reshape(4, 5, -1).numpy()
    assert set(np.unique(planes)) == {0.0, 2.0}
    assert (planes == planes[..., :1]).all()
    out.sum().backward()
    np.testing.assert_array_equal(x.grad.numpy(), out.detach().numpy())
    assert function(x, 0.5, False) is x  # type: ignore[operator]


def test_an_example_without_batch_drops_its_channels() -> None:
    weft.manual_seed(1)
    out = F.dropout1d(weft.ones(8, 4), 0.5).numpy()
    assert (out == out[:, :1]).all() and 0 < (out == 0).sum() < out.size
    x = weft.ones(8, 4)
    assert F.dropout1d(x, 0.5, inplace=True) is x and (x == 0).any()


@pytest.mark.parametrize("function", [F.alpha_dropout, F.feature_alpha_dropout])
def test_alpha_dropouts_keep_mean_and_variance(function: object) -> None:
    x = weft.randn(400, 200)
    out = function(x, 0.3, training=True)  # type: ignore[operator]
    assert abs(out.mean().item()) < 0.02 and abs(out.var().item() - 1) < 0.02
    assert (out == out.min()).sum() < 2 or function is not F.alpha_dropout


def test_the_randomised_slope_is_the_gradient_too() -> None:
    x = weft.tensor([-1.0, -2.0, 3.0], requires_grad=True)
    out = F.rrelu(x, 0.2, 0.4, training=True)
    (out / x).sum().backward(retain_graph=True)
    ratio = (out / x).detach()
    assert ratio[2] == 1 and ((ratio[:2] >= 0.2) & (ratio[:2] <= 0.4)).all()
    np.testing.assert_allclose(F.rrelu(x, 0.2, 0.4).detach().numpy(), [-0.3, -0.6, 3.0], rtol=1e-6)


def test_errors() -> None:
    with pytest.raises(ValueError, match="dropout probability has to be between 0 and 1, but got 1.5"):
        F.dropout2d(weft.ones(1, 1, 2, 2), 1.5)
    with pytest.raises(RuntimeError, match="dropout1d: Expected 2D or 3D input, but received a 1D input"):
        F.dropout1d(weft.ones(3))
    with pytest.raises(RuntimeError, match="Lower bound should be less than or equal to the upper bound"):
        F.rrelu(weft.ones(3), 0.5, 0.2)
    with pytest.warns(UserWarning, match="Received a 2-D input to dropout2d"):
        F.dropout2d(weft.ones(3, 3))
