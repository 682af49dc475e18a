from __future__ import annotations

import numpy as np
import pytest

import weft
from weft import nn


def standard(x, axes, eps):
    return (x - x.mean(axes, keepdims=True)) / np.sqrt(x.var(axes, keepdims=True) + eps)


@pytest.mark.parametrize("shape", [(5,), (4, 5)])
def test_layer_norm(agrees, draw, values, shape):
    layer = nn.LayerNorm(shape, eps=1e-3)
    axes = tuple(range(-len(shape), 0))

    def formula(x):
        learnt = values(layer)
        return standard(x, axes, 1e-3) * learnt["weight"] + learnt["bias"]

    agrees(layer, formula, draw(3, 4, 5))
    agrees(nn.LayerNorm(shape, elementwise_affine=False), lambda x: standard(x, axes, 1e-5), draw(3, 4, 5))


def test_layer_norm_without_bias(agrees, draw, values):
    layer = nn.LayerNorm(5, bias=False)
    agrees(layer, lambda x: standard(x, -1, 1e-5) * values(layer)["weight"], draw(3, 5))
    assert list(layer.state_dict()) == ["weight"] and layer.bias is None


@pytest.mark.parametrize("eps", [None, 0.1])
def test_rms_norm(agrees, draw, values, eps):
    layer = nn.RMSNorm(5, eps=eps)
    small = np.finfo(np.float64).eps if eps is None else eps

    def formula(x):
        return x / np.sqrt((x**2).mean(-1, keepdims=True) + small) * values(layer)["weight"]

    agrees(layer, formula, draw(3, 4, 5))


@pytest.mark.parametrize("groups", [1, 2, 6])
def test_group_norm(agrees, draw, values, groups):
    layer = nn.GroupNorm(groups, 6)

    def formula(x):
        normal = standard(x.reshape(2, groups, -1), -1, 1e-5).reshape(x.shape)
        learnt = {name: value.reshape(-1, 1, 1) for name, value in values(layer).items()}
        return normal * learnt["weight"] + learnt["bias"]

    agrees(layer, formula, draw(2, 6, 3, 2))


def test_groups_divide_channels():
    with pytest.raises(ValueError, match=r"num_channels \(4\) must be divisible by num_groups \(3\)"):
        nn.GroupNorm(3, 4)


def test_start_as_nothing_but_normal():
    for layer in (nn.LayerNorm(3), nn.GroupNorm(1, 3), nn.RMSNorm(3)):
        assert (layer.weight == 1).all()
        assert getattr(layer, "bias", None) is None or (layer.bias == 0).all()
    assert nn.LayerNorm(3, dtype=weft.float64).weight.dtype is weft.float64


def test_printed():
    assert repr(nn.LayerNorm(3)) == "LayerNorm((3,), eps=1e-05, elementwise_affine=True, bias=True)"
    assert repr(nn.RMSNorm([2, 3])) == "RMSNorm((2, 3), eps=None, elementwise_affine=True)"
    assert repr(nn.GroupNorm(2, 4, bias=False)) == "GroupNorm(2, 4, eps=1e-05, affine=True, bias=False)"


def test_neighbouring_channels(agrees, draw):
    def formula(x):
        total = np.zeros_like(x)
        for channel in range(x.shape[1]):
            total[:, channel] = (x[:, max(0, channel - 1) : channel + 2] ** 2).sum(1)
        return x / (2.0 + 0.5 / 3 * total) ** 0.6

    agrees(nn.LocalResponseNorm(3, 0.5, 0.6, 2.0), formula, draw(2, 5, 3))
    agrees(nn.CrossMapLRN2d(3, 0.5, 0.6, 2.0), formula, draw(2, 4, 3, 2))
    assert repr(nn.LocalResponseNorm(2)) == "LocalResponseNorm(2, alpha=0.0001, beta=0.75, k=1.0)"
