"""Folding a batch norm into the layer before it, for models that only predict.

Takes a convolution or linear layer and the norm behind it, both in eval mode; gives one layer that does what
both did. One idea: with fixed statistics a norm is a scale and a shift for each output, which the layer's own
weights take up.
"""

from __future__ import annotations

import copy
from typing import Any

from weft.nn.parameter import Parameter
from weft.ops.record import ops
from weft.tensor.base import Tensor

__all__ = ["fuse_conv_bn_eval", "fuse_conv_bn_weights", "fuse_linear_bn_eval", "fuse_linear_bn_weights"]
Pair = tuple[Parameter, Parameter]


def fuse_conv_bn_eval(conv: Any, bn: Any, transpose: bool = False) -> Any:
    """One convolution for a convolution and the batch norm behind it.

    >>> import weft
    >>> conv, norm = weft.nn.Conv1d(2, 3, 1).eval(), weft.nn.BatchNorm1d(3).eval()
    >>> x = weft.ones(1, 2, 4)
    >>> weft.allclose(weft.nn.utils.fuse_conv_bn_eval(conv, norm)(x), norm(conv(x)), atol=1e-6)
    True
    """
    return _fused(conv, bn, fuse_conv_bn_weights, transpose)


def fuse_linear_bn_eval(linear: Any, bn: Any) -> Any:
    """One linear layer for a linear layer and the batch norm behind it."""
    assert not (linear.training or bn.training), "Fusion only for eval!"
    assert linear.out_features == bn.num_features or bn.num_features == 1, (
        "To fuse, linear.out_features == bn.num_features or bn.num_features == 1, got "
        f"linear.out_features={linear.out_features} and bn.num_features={bn.num_features}"
    )
    return _fused(linear, bn, fuse_linear_bn_weights)


def _fused(layer: Any, bn: Any, fuse: Any, *options: Any) -> Any:
    assert not (layer.training or bn.training), "Fusion only for eval!"
    assert bn.running_mean is not None and bn.running_var is not None
    made = copy.deepcopy(layer)
    made.weight, made.bias = fuse(
        made.weight, made.bias, bn.running_mean, bn.running_var, bn.eps, bn.weight, bn.bias, *options
    )
    return made


def fuse_conv_bn_weights(
    conv_w: Tensor,
    conv_b: Tensor | None,
    bn_rm: Tensor,
    bn_rv: Tensor,
    bn_eps: float,
    bn_w: Tensor | None,
    bn_b: Tensor | None,
    transpose: bool = False,
) -> Pair:
    """The weight and bias of the one convolution; those of a transposed one have outputs second."""
    shape = [1] * conv_w.dim()
    shape[1 if transpose else 0] = -1
    return _folded(conv_w, conv_b, bn_rm, bn_rv, bn_eps, bn_w, bn_b, shape)


def fuse_linear_bn_weights(
    linear_w: Tensor,
    linear_b: Tensor | None,
    bn_rm: Tensor,
    bn_rv: Tensor,
    bn_eps: float,
    bn_w: Tensor,
    bn_b: Tensor,
) -> Pair:
    """The weight and bias of the one linear layer."""
    return _folded(linear_w, linear_b, bn_rm, bn_rv, bn_eps, bn_w, bn_b, [-1, 1])


def _folded(
    weight: Tensor, bias: Any, mean: Tensor, variance: Tensor, eps: float, gain: Any, shift: Any, shape: Any
) -> Pair:
    bias = ops.zeros_like(mean) if bias is None else bias
    gain = ops.ones_like(mean) if gain is None else gain
    shift = ops.zeros_like(mean) if shift is None else shift
    scale = gain * ops.rsqrt(variance + eps)
    made = (weight * scale.reshape(shape)).to(weight.dtype)
    moved = ((bias - mean) * scale + shift).to(bias.dtype)
    return Parameter(made, weight.requires_grad), Parameter(moved, bias.requires_grad)
