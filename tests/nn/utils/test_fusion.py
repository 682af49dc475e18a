"""Layers that take up the batch norm behind them."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

import pytest

import weft
from weft import nn
from weft.nn.modules.utils import consume_prefix_in_state_dict_if_present


def settled(norm: Any) -> Any:
    """A norm with statistics and parameters that do something."""
    for name, tensor in (*norm.named_parameters(), *norm.named_buffers()):
        if tensor.is_floating_point():
            with weft.no_grad():
                tensor.copy_(weft.arange(1.0, tensor.numel() + 1) * (0.5 if "running" in name else 0.25))
    return norm.eval()


@pytest.mark.parametrize("affine", [True, False])
@pytest.mark.parametrize("bias", [True, False])
def test_one_layer_does_what_two_did(affine: bool, bias: bool) -> None:
    x = weft.arange(18.0).sin().reshape(1, 2, 3, 3)
    cases = [
        (nn.Conv2d(2, 3, 2, bias=bias), nn.BatchNorm2d(3, affine=affine), x, False),
        (nn.ConvTranspose2d(2, 3, 2, bias=bias), nn.BatchNorm2d(3, affine=affine), x, True),
    ]
    for layer, norm, given, transpose in cases:
        layer, norm = layer.eval(), settled(norm)
        fused = nn.utils.fuse_conv_bn_eval(layer, norm, transpose)
        weft.testing.assert_close(fused(given), norm(layer(given)), rtol=1e-4, atol=1e-5)
        assert type(fused) is type(layer) and fused is not layer
    linear, norm = nn.Linear(3, 4, bias=bias).eval(), settled(nn.BatchNorm1d(4, affine=affine))
    given = x.reshape(6, 3)
    fused = nn.utils.fuse_linear_bn_eval(linear, norm)
    weft.testing.assert_close(fused(given), norm(linear(given)), rtol=1e-4, atol=1e-5)


def test_only_for_eval_and_for_sizes_that_fit() -> None:
    with pytest.raises(AssertionError, match="Fusion only for eval!"):
        nn.utils.fuse_conv_bn_eval(nn.Conv1d(1, 1, 1), nn.BatchNorm1d(1).eval())
    with pytest.raises(AssertionError, match="got linear.out_features=4 and bn.num_features=2"):
        nn.utils.fuse_linear_bn_eval(nn.Linear(3, 4).eval(), nn.BatchNorm1d(2).eval())


def test_prefixes_of_state_dicts() -> None:
    state: Any = nn.Sequential(OrderedDict(module=nn.Sequential(nn.Linear(1, 1)))).state_dict()
    consume_prefix_in_state_dict_if_present(state, "module.")
    assert list(state) == ["0.weight", "0.bias"]
    nn.Sequential(nn.Linear(1, 1)).load_state_dict(state)
