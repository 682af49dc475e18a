from __future__ import annotations

import numpy as np
import pytest

import weft
from weft import nn


def standard(x, axes, eps=1e-5):
    return (x - x.mean(axes, keepdims=True)) / np.sqrt(x.var(axes, keepdims=True) + eps)


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_each_channel_of_each_example(agrees, draw, values, rank):
    kind = (nn.InstanceNorm1d, nn.InstanceNorm2d, nn.InstanceNorm3d)[rank - 1]
    axes = tuple(range(-rank, 0))
    x = draw(2, 3, *(3, 2, 2)[:rank])
    agrees(kind(3), lambda x: standard(x, axes), x)
    agrees(kind(3), lambda x: standard(x, axes), x[0])
    layer = kind(3, affine=True)

    def formula(x):
        learnt = {name: value.reshape(-1, *(1,) * rank) for name, value in values(layer).items()}
        return standard(x, axes) * learnt["weight"] + learnt["bias"]

    agrees(layer, formula, x)


def test_running_statistics_are_means_over_examples(agrees, draw):
    layer = nn.InstanceNorm1d(3, track_running_stats=True).double()
    x = draw(4, 3, 5)
    layer(weft.from_numpy(x))
    np.testing.assert_allclose(layer.running_mean.numpy(), 0.1 * x.mean((0, 2)), rtol=1e-12)
    variance = 0.9 + 0.1 * x.var(2, ddof=1).mean(0)
    np.testing.assert_allclose(layer.running_var.numpy(), variance, rtol=1e-12)
    mean, variance = layer.running_mean.numpy()[:, None], layer.running_var.numpy()[:, None]
    agrees(layer.eval(), lambda x: (x - mean) / np.sqrt(variance + 1e-5), x)


def test_ranks_and_channels_are_checked():
    with pytest.raises(ValueError, match=r"expected 3D or 4D input \(got 2D input\)"):
        nn.InstanceNorm2d(3)(weft.ones(2, 3))
    with pytest.raises(ValueError, match=r"size at dim=1 to match num_features \(3\), but got: 4"):
        nn.InstanceNorm1d(3, affine=True)(weft.ones(2, 4, 5))
    with pytest.warns(UserWarning, match="input's size at dim=0 does not match num_features"):
        nn.InstanceNorm1d(3)(weft.ones(4, 5))


def test_old_statistics_are_refused():
    state = {"running_mean": weft.zeros(3), "running_var": weft.ones(3)}
    with pytest.raises(RuntimeError, match='running stats buffer.s. "running_mean" and "running_var"'):
        nn.InstanceNorm1d(3).load_state_dict(state)
