"""Channels to space and back as layers: `PixelShuffle`, `PixelUnshuffle`."""

from __future__ import annotations

import weft.nn.functional as F
from weft.nn.modules.ranked import Showing
from weft.tensor.base import Tensor

__all__ = ["PixelShuffle", "PixelUnshuffle"]


class PixelShuffle(Showing):
    """`(N, C * r * r, H, W)` to `(N, C, H * r, W * r)`.

    >>> weft.nn.PixelShuffle(2)(weft.zeros(1, 12, 3, 5)).shape
    weft.Size([1, 3, 6, 10])
    """

    _shown = ("upscale_factor",)

    def __init__(self, upscale_factor: int) -> None:
        super().__init__()
        self.upscale_factor = upscale_factor

    def forward(self, input: Tensor) -> Tensor:
        return F.pixel_shuffle(input, self.upscale_factor)


class PixelUnshuffle(Showing):
    """`(N, C, H * r, W * r)` to `(N, C * r * r, H, W)`.

    >>> weft.nn.PixelUnshuffle(2)(weft.zeros(1, 3, 6, 10)).shape
    weft.Size([1, 12, 3, 5])
    """

    _shown = ("downscale_factor",)

    def __init__(self, downscale_factor: int) -> None:
        super().__init__()
        self.downscale_factor = downscale_factor

    def forward(self, input: Tensor) -> Tensor:
        return F.pixel_unshuffle(input, self.downscale_factor)
