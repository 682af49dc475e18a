"""Normalisation by statistics of each example: `LayerNorm`, `RMSNorm`, `GroupNorm`, `LocalResponseNorm`.

Takes a tensor, gives it centred and scaled by its own mean and variance, then scaled and shifted by what is
learnt.
"""

from __future__ import annotations

import numbers
from collections.abc import Callable
from typing import Any

import weft.nn.functional as F
import weft.nn.init as init
from weft.nn.modules.module import Module
from weft.nn.modules.utils import empty_parameter, named
from weft.tensor.base import Tensor

__all__ = ["CrossMapLRN2d", "GroupNorm", "LayerNorm", "LocalResponseNorm", "RMSNorm"]


def _as_shape(shape: Any) -> tuple[int, ...]:
    return (shape,) if isinstance(shape, numbers.Integral) else tuple(shape)  # type: ignore[return-value]


class _Affine(Module):
    """A layer that at the end scales and shifts by what is learnt, where that is wanted."""

    __call__: Callable[..., Tensor]
    weight: Tensor | None
    bias: Tensor | None

    def _make_affine(self, shape: Any, affine: bool, bias: bool, device: Any, dtype: Any) -> None:
        for name, wanted in (("weight", affine), ("bias", affine and bias)):
            self.register_parameter(name, empty_parameter(shape, device, dtype) if wanted else None)

    def reset_parameters(self) -> None:
        """Back to scale 1 and shift 0."""
        if self.weight is not None:
            init.ones_(self.weight)
        if self.bias is not None:
            init.zeros_(self.bias)


class LayerNorm(_Affine):
    """Mean 0 and variance 1 over the last dimensions, those of `normalized_shape`.

    >>> weft.nn.LayerNorm(2)(weft.tensor([[1.0, 3.0], [5.0, 9.0]])).detach()
    tensor([[-1.0000,  1.0000],
            [-1.0000,  1.0000]])
    """

    normalized_shape: tuple[int, ...]

    def __init__(
        self, normalized_shape: Any, eps: float = 1e-5, elementwise_affine: bool = True, bias: bool = True,
        device: Any = None, dtype: Any = None,
    ) -> None:  # fmt: skip
        super().__init__()
        self.normalized_shape = _as_shape(normalized_shape)
        self.eps, self.elementwise_affine = eps, elementwise_affine
        self._make_affine(self.normalized_shape, elementwise_affine, bias, device, dtype)
        self.reset_parameters()

    def forward(self, input: Tensor) -> Tensor:
        return F.layer_norm(input, self.normalized_shape, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        shown = named(self, "eps", "elementwise_affine")
        return f"{self.normalized_shape}, {shown}, bias={self.bias is not None}"


class RMSNorm(Module):
    """Root mean square 1 over the last dimensions, those of `normalized_shape`.

    >>> weft.nn.RMSNorm(2, elementwise_affine=False)(weft.tensor([3.0, 4.0]))
    tensor([0.8485, 1.1314])
    """

    __call__: Callable[..., Tensor]
    normalized_shape: tuple[int, ...]
    weight: Tensor | None

    def __init__(
        self, normalized_shape: Any, eps: float | None = None, elementwise_affine: bool = True,
        device: Any = None, dtype: Any = None,
    ) -> None:  # fmt: skip
        super().__init__()
        self.normalized_shape = _as_shape(normalized_shape)
        self.eps, self.elementwise_affine = eps, elementwise_affine
        wanted = empty_parameter(self.normalized_shape, device, dtype) if elementwise_affine else None
        self.register_parameter("weight", wanted)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Back to scale 1."""
        if self.weight is not None:
            init.ones_(self.weight)

    def forward(self, x: Tensor) -> Tensor:
        return F.rms_norm(x, self.normalized_shape, self.weight, self.eps)

    def extra_repr(self) -> str:
        return f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.elementwise_affine}"


class GroupNorm(_Affine):
    """Mean 0 and variance 1 over each of `num_groups` groups of channels.

    >>> weft.nn.GroupNorm(2, 6)(weft.zeros(8, 6, 4, 4)).shape
    weft.Size([8, 6, 4, 4])
    """

    def __init__(
        self, num_groups: int, num_channels: int, eps: float = 1e-5, affine: bool = True,
        device: Any = None, dtype: Any = None, *, bias: bool = True,
    ) -> None:  # fmt: skip
        super().__init__()
        if num_channels % num_groups:
            raise ValueError(f"num_channels ({num_channels}) must be divisible by num_groups ({num_groups})")
        self.num_groups, self.num_channels, self.eps, self.affine = num_groups, num_channels, eps, affine
        self._make_affine((num_channels,), affine, bias, device, dtype)
        self.reset_parameters()

    def forward(self, input: Tensor) -> Tensor:
        return F.group_norm(input, self.num_groups, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        shown = named(self, "eps", "affine")
        return f"{self.num_groups}, {self.num_channels}, {shown}, bias={self.bias is not None}"


class LocalResponseNorm(Module):
    """Each element over a power of what the squares of the `size` channels around it come to.

    >>> weft.nn.LocalResponseNorm(2)(weft.zeros(8, 6, 4, 4)).shape
    weft.Size([8, 6, 4, 4])
    """

    __call__: Callable[..., Tensor]

    def __init__(self, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0) -> None:
        super().__init__()
        self.size, self.alpha, self.beta, self.k = size, alpha, beta, k

    def forward(self, input: Tensor) -> Tensor:
        return F.local_response_norm(input, self.size, self.alpha, self.beta, self.k)

    def extra_repr(self) -> str:
        return f"{self.size}, alpha={self.alpha}, beta={self.beta}, k={self.k}"


class CrossMapLRN2d(LocalResponseNorm):
    """The older name of `LocalResponseNorm`, for images.

    >>> weft.nn.CrossMapLRN2d(2)(weft.zeros(8, 6, 4, 4)).shape
    weft.Size([8, 6, 4, 4])
    """

    def __init__(self, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1) -> None:
        super().__init__(size, alpha, beta, k)
