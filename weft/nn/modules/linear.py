"""Layers that are one product: `Linear`, `Bilinear`, and `Identity`, which is none.

Takes features in the last dimension, gives others. Weights start uniform within 1 / sqrt(features in).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import weft.nn.functional as F
import weft.nn.init as init
from weft.autograd.grad_mode import no_grad
from weft.nn.modules.lazy import LazyLayer
from weft.nn.modules.module import Module
from weft.nn.modules.utils import empty_parameter, named
from weft.tensor.base import Tensor

__all__ = ["Bilinear", "Identity", "LazyLinear", "Linear"]


class Identity(Module):
    """Gives its input; takes and forgets any arguments, so that it can stand in for any layer.

    >>> weft.nn.Identity(54, unused=True)(weft.ones(2))
    tensor([1., 1.])
    """

    __call__: Callable[..., Tensor]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__()

    def forward(self, input: Tensor) -> Tensor:
        return input


class Linear(Module):
    """`y = x @ weight.T + bias`.

    >>> layer = weft.nn.Linear(3, 2)
    >>> layer(weft.zeros(5, 3)).shape, layer.weight.shape
    (weft.Size([5, 2]), weft.Size([2, 3]))
    """

    __call__: Callable[..., Tensor]
    weight: Tensor
    bias: Tensor | None

    def __init__(
        self, in_features: int, out_features: int, bias: bool = True, device: Any = None, dtype: Any = None
    ) -> None:
        super().__init__()
        self.in_features, self.out_features = in_features, out_features
        self.weight = empty_parameter((out_features, in_features), device, dtype)
        self.register_parameter("bias", empty_parameter((out_features,), device, dtype) if bias else None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draws new weights; with a = sqrt(5) the bound of the Kaiming scheme is 1 / sqrt(in_features)."""
        init.kaiming_uniform_(self.weight, a=math.sqrt(5))
        if self.bias is not None:
            bound = 1 / math.sqrt(self.weight.shape[1]) if self.weight.shape[1] else 0
            init.uniform_(self.bias, -bound, bound)

    def forward(self, input: Tensor) -> Tensor:
        return F.linear(input, self.weight, self.bias)

    def extra_repr(self) -> str:
        return f"{named(self, 'in_features', 'out_features')}, bias={self.bias is not None}"


class NonDynamicallyQuantizableLinear(Linear):
    """The output projection of attention, under the name that PyTorch prints for it."""


class Bilinear(Module):
    """`y[k] = x1 @ weight[k] @ x2 + bias[k]`.

    >>> weft.nn.Bilinear(3, 4, 5)(weft.zeros(2, 3), weft.zeros(2, 4)).shape
    weft.Size([2, 5])
    """

    __call__: Callable[..., Tensor]
    weight: Tensor
    bias: Tensor | None

    def __init__(
        self, in1_features: int, in2_features: int, out_features: int, bias: bool = True,
        device: Any = None, dtype: Any = None,
    ) -> None:  # fmt: skip
        super().__init__()
        self.in1_features, self.in2_features, self.out_features = in1_features, in2_features, out_features
        self.weight = empty_parameter((out_features, in1_features, in2_features), device, dtype)
        self.register_parameter("bias", empty_parameter((out_features,), device, dtype) if bias else None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draws new weights, uniform within 1 / sqrt(in1_features)."""
        if self.in1_features <= 0:
            raise ValueError(f"in1_features must be > 0, but got (in1_features={self.in1_features})")
        bound = 1 / math.sqrt(self.weight.shape[1])
        init.uniform_(self.weight, -bound, bound)
        if self.bias is not None:
            init.uniform_(self.bias, -bound, bound)

    def forward(self, input1: Tensor, input2: Tensor) -> Tensor:
        return F.bilinear(input1, input2, self.weight, self.bias)

    def extra_repr(self) -> str:
        sizes = named(self, "in1_features", "in2_features", "out_features")
        return f"{sizes}, bias={self.bias is not None}"


class LazyLinear(LazyLayer, Linear):
    """A `Linear` that takes `in_features` from its first input.

    >>> layer = weft.nn.LazyLinear(3)
    >>> layer(weft.zeros(2, 5)).shape, type(layer).__name__, layer.in_features
    (weft.Size([2, 3]), 'Linear', 5)
    """

    cls_to_become = Linear
    _size = "in_features"

    def __init__(self, out_features: int, bias: bool = True, device: Any = None, dtype: Any = None) -> None:
        super().__init__(0, 0, False)  # without memory and without draws
        self._make_lazy(bias, device, dtype)
        self.out_features = out_features

    def initialize_parameters(self, input: Tensor) -> None:
        """Takes the width of this input."""
        if self.has_uninitialized_params():
            with no_grad():
                self.in_features = input.shape[-1]
                self.weight.materialize((self.out_features, self.in_features))
                if self.bias is not None:
                    self.bias.materialize((self.out_features,))
                self.reset_parameters()
        if self.in_features == 0:
            if input.shape[-1] != self.weight.shape[-1]:
                raise AssertionError(
                    f"The in_features inferred from input: {input.shape[-1]} is not equal to "
                    f"in_features from self.weight: {self.weight.shape[-1]}"
                )
            self.in_features = input.shape[-1]
