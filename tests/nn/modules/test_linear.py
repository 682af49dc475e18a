from __future__ import annotations

import math

import numpy as np
import pytest

import weft
from weft import nn


def test_linear_is_a_product(agrees, draw):
    layer = nn.Linear(4, 3)

    def formula(x):
        return x @ layer.weight.detach().numpy().T + layer.bias.detach().numpy()

    agrees(layer, formula, draw(5, 4))
    agrees(layer, formula, draw(2, 5, 4))
    agrees(layer, formula, draw(4))


def test_linear_without_bias(agrees, draw):
    layer = nn.Linear(4, 3, bias=False)
    assert layer.bias is None and list(layer.state_dict()) == ["weight"]
    agrees(layer, lambda x: x @ layer.weight.detach().numpy().T, draw(5, 4))


def test_linear_starts_uniform_within_the_root_of_its_inputs():
    layer = nn.Linear(100, 300)
    for weight in (layer.weight, layer.bias):
        drawn = weight.detach().numpy()
        assert np.abs(drawn).max() <= 0.1
        np.testing.assert_allclose(drawn.std(), 0.1 / math.sqrt(3), rtol=0.2)
    assert layer.weight.requires_grad and isinstance(layer.weight, nn.Parameter)


def test_linear_takes_dtype_and_device():
    assert nn.Linear(2, 3, dtype=weft.float64).bias.dtype is weft.float64
    assert nn.Linear(2, 3, device="meta").weight.is_meta


def test_linear_prints_its_sizes():
    assert repr(nn.Linear(2, 3, bias=False)) == "Linear(in_features=2, out_features=3, bias=False)"


def test_bilinear_is_a_form_per_output(agrees, draw):
    layer = nn.Bilinear(3, 4, 2)

    def formula(x, y):
        form = np.einsum("...i,kij,...j->...k", x, layer.weight.detach().numpy(), y)
        return form + layer.bias.detach().numpy()

    agrees(layer, formula, draw(5, 3), draw(5, 4))


def test_bilinear_needs_features():
    with pytest.raises(ValueError, match=r"in1_features must be > 0, but got \(in1_features=0\)"):
        nn.Bilinear(0, 2, 3)


def test_identity_forgets_its_arguments(draw):
    x = weft.from_numpy(draw(3))
    assert nn.Identity(54, unused=1)(x) is x
