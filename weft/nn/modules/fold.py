"""Windows as columns and back, as layers: `Unfold`, `Fold`."""

from __future__ import annotations

from typing import Any

import weft.nn.functional as F
from weft.nn.modules.ranked import Showing
from weft.tensor.base import Tensor

__all__ = ["Fold", "Unfold"]


class Fold(Showing):
    """Sums columns back into the images they are windows of.

    >>> columns = weft.nn.Unfold(2, stride=2)(weft.ones(1, 3, 4, 6))
    >>> weft.nn.Fold((4, 6), 2, stride=2)(columns).shape
    weft.Size([1, 3, 4, 6])
    """

    _shown = ("output_size", "kernel_size", "dilation", "padding", "stride")

    def __init__(
        self, output_size: Any, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1
    ) -> None:
        super().__init__()
        self.output_size, self.kernel_size, self.dilation = output_size, kernel_size, dilation
        self.padding, self.stride = padding, stride

    def forward(self, input: Tensor) -> Tensor:
        return F.fold(input, self.output_size, self.kernel_size, self.dilation, self.padding, self.stride)


class Unfold(Showing):
    """The windows of images as columns.

    >>> weft.nn.Unfold(2, stride=2)(weft.zeros(1, 3, 4, 6)).shape
    weft.Size([1, 12, 6])
    """

    _shown = ("kernel_size", "dilation", "padding", "stride")

    def __init__(self, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1) -> None:
        super().__init__()
        self.kernel_size, self.dilation, self.padding, self.stride = kernel_size, dilation, padding, stride

    def forward(self, input: Tensor) -> Tensor:
        return F.unfold(input, self.kernel_size, self.dilation, self.padding, self.stride)
