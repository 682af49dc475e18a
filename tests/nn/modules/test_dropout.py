from __future__ import annotations

import numpy as np
import pytest

import weft
from weft import nn


def test_nothing_is_dropped_outside_training():
    x = weft.ones(3, 4)
    for layer in (nn.Dropout(0.9), nn.Dropout1d(0.9), nn.Dropout3d(0.9)):
        with pytest.warns(UserWarning) if isinstance(layer, nn.Dropout3d) else _nothing():
            assert (layer.eval()(x) == 1).all()


class _nothing:
    def __enter__(self):
        return None

    def __exit__(self, *_):
        return None


def test_the_rest_is_scaled_so_that_the_mean_stays():
    out = nn.Dropout(0.25)(weft.ones(200, 200, dtype=weft.float64)).numpy()
    assert set(np.unique(out)) == {0.0, 1 / 0.75}
    np.testing.assert_allclose(out.mean(), 1, atol=0.03)


@pytest.mark.parametrize(
    ("layer", "shape"),
    [
        (nn.Dropout1d(0.5), (50, 20, 7)),
        (nn.Dropout2d(0.5), (50, 20, 3, 2)),
        (nn.Dropout3d(0.5), (50, 20, 2, 2, 2)),
    ],
)
def test_channels_fall_as_a_whole(layer, shape):
    out = layer(weft.ones(*shape)).numpy().reshape(50, 20, -1)
    assert (out == out[:, :, :1]).all()
    assert set(np.unique(out)) == {0.0, 2.0}
    np.testing.assert_allclose(out.mean(), 1, atol=0.15)


def test_channels_without_a_batch():
    out = nn.Dropout1d(0.5)(weft.ones(40, 7)).numpy()
    assert (out == out[:, :1]).all() and len(np.unique(out)) == 2


@pytest.mark.parametrize("shape", [(40, 7), (3, 40, 7)])
def test_in_place_writes_to_the_input(shape):
    x = weft.ones(*shape)
    out = nn.Dropout1d(0.5, inplace=True)(x)
    assert out is x and x.shape == shape and (x == 0).any()


def test_all_is_dropped_at_one():
    assert (nn.Dropout(1.0)(weft.ones(5)) == 0).all()
    assert (nn.Dropout2d(1.0)(weft.ones(1, 5, 2, 2)) == 0).all()


def test_gradients_pass_where_values_did():
    x = weft.ones(6, 5, 4, 4, requires_grad=True)
    out = nn.Dropout2d(0.4)(x)
    out.sum().backward()
    np.testing.assert_array_equal(x.grad.numpy(), out.detach().numpy())


def test_same_seed_same_noise():
    draws = []
    for _ in range(2):
        weft.manual_seed(3)
        draws.append(nn.Dropout(0.5)(weft.ones(50)).numpy())
    np.testing.assert_array_equal(*draws)


def test_probability_and_rank_are_checked():
    with pytest.raises(ValueError, match="dropout probability has to be between 0 and 1, but got 1.5"):
        nn.Dropout(1.5)
    with pytest.raises(RuntimeError, match="dropout1d: Expected 2D or 3D input, but received a 4D input"):
        nn.Dropout1d()(weft.ones(1, 1, 1, 1))
    with pytest.warns(UserWarning, match="Received a 3D input to dropout2d"):
        nn.Dropout2d()(weft.ones(1, 1, 1))
    with pytest.warns(UserWarning, match="Received a 2-D input to dropout3d"):
        nn.Dropout3d()(weft.ones(1, 1))
    assert repr(nn.Dropout2d(0.3, True)) == "Dropout2d(p=0.3, inplace=True)"
