"""Changes of resolution as layers: `Upsample` and its older names."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import weft.nn.functional as F
from weft.nn.modules.module import Module
from weft.tensor.base import Tensor

__all__ = ["Upsample", "UpsamplingBilinear2d", "UpsamplingNearest2d"]


class Upsample(Module):
    """Interpolates to a size, or by a factor.

    >>> weft.nn.Upsample(scale_factor=2, mode="bilinear")(weft.zeros(1, 3, 4, 5)).shape
    weft.Size([1, 3, 8, 10])
    """

    __call__: Callable[..., Tensor]

    def __init__(
        self, size: Any = None, scale_factor: Any = None, mode: str = "nearest",
        align_corners: bool | None = None, recompute_scale_factor: bool | None = None,
    ) -> None:  # fmt: skip
        super().__init__()
        self.name = type(self).__name__
        self.size = size
        if isinstance(scale_factor, tuple):
            self.scale_factor: Any = tuple(float(factor) for factor in scale_factor)
        else:
            self.scale_factor = float(scale_factor) if scale_factor else None
        self.mode, self.align_corners = mode, align_corners
        self.recompute_scale_factor = recompute_scale_factor

    def forward(self, input: Tensor) -> Tensor:
        return F.interpolate(
            input, self.size, self.scale_factor, self.mode, self.align_corners,
            recompute_scale_factor=self.recompute_scale_factor,
        )  # fmt: skip

    def extra_repr(self) -> str:
        if self.scale_factor is not None:
            return f"scale_factor={self.scale_factor!r}, mode={self.mode!r}"
        return f"size={self.size!r}, mode={self.mode!r}"


class UpsamplingNearest2d(Upsample):
    """Repeats pixels.

    >>> weft.nn.UpsamplingNearest2d(size=(1, 4))(weft.tensor([[[[0.0, 3.0]]]]))
    tensor([[[[0., 0., 3., 3.]]]])
    """

    def __init__(self, size: Any = None, scale_factor: Any = None) -> None:
        super().__init__(size, scale_factor, mode="nearest")


class UpsamplingBilinear2d(Upsample):
    """Interpolates between pixels, corners kept.

    >>> weft.nn.UpsamplingBilinear2d(scale_factor=2)(weft.tensor([[[[0.0, 3.0]]]]))
    tensor([[[[0., 1., 2., 3.],
              [0., 1., 2., 3.]]]])
    """

    def __init__(self, size: Any = None, scale_factor: Any = None) -> None:
        super().__init__(size, scale_factor, mode="bilinear", align_corners=True)
