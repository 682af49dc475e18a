"""Padding as layers: constants, reflections, replicas of the border, or the other end around.

Takes images, gives larger ones. One idea: a class says its number of dimensions, its mode and the ranks it
accepts.
"""

from __future__ import annotations

from typing import Any

import weft.nn.functional as F
from weft.nn.modules.module import Module
from weft.nn.modules.utils import _ntuple
from weft.tensor.base import Tensor

__all__ = [
    "CircularPad1d", "CircularPad2d", "CircularPad3d", "ConstantPad1d", "ConstantPad2d", "ConstantPad3d",
    "ReflectionPad1d", "ReflectionPad2d", "ReflectionPad3d", "ReplicationPad1d", "ReplicationPad2d",
    "ReplicationPad3d", "ZeroPad1d", "ZeroPad2d", "ZeroPad3d",
]  # fmt: skip


class _PadNd(Module):
    padding: tuple[int, ...]
    _rank: int
    _mode: str

    def __init__(self, padding: Any) -> None:
        super().__init__()
        self.padding = _ntuple(2 * self._rank)(padding)

    def forward(self, input: Tensor) -> Tensor:
        return F.pad(input, self.padding, self._mode)

    def extra_repr(self) -> str:
        return f"{self.padding}"


# -- constants -----------------------------------------------------------------------------------------------
class _ConstantPadNd(_PadNd):
    _mode = "constant"

    def __init__(self, padding: Any, value: float) -> None:
        super().__init__(padding)
        self.value = value

    def forward(self, input: Tensor) -> Tensor:
        return F.pad(input, self.padding, "constant", self.value)

    def extra_repr(self) -> str:
        return f"padding={self.padding}, value={self.value}"


class ConstantPad1d(_ConstantPadNd):
    """Pads the last dimension with a value."""

    _rank = 1


class ConstantPad2d(_ConstantPadNd):
    """Pads the last two dimensions with a value."""

    _rank = 2


class ConstantPad3d(_ConstantPadNd):
    """Pads the last three dimensions with a value."""

    _rank = 3


class _ZeroPadNd(_ConstantPadNd):
    def __init__(self, padding: Any) -> None:
        super().__init__(padding, 0.0)

    extra_repr = _PadNd.extra_repr


class ZeroPad1d(_ZeroPadNd, ConstantPad1d):
    """Pads the last dimension with zeros."""


class ZeroPad2d(_ZeroPadNd, ConstantPad2d):
    """Pads the last two dimensions with zeros."""


class ZeroPad3d(_ZeroPadNd, ConstantPad3d):
    """Pads the last three dimensions with zeros."""


# -- copies of what is there ---------------------------------------------------------------------------------
class ReflectionPad1d(_PadNd):
    """Pads the last dimension with its mirror image, the border not repeated."""

    _rank, _mode = 1, "reflect"


class ReflectionPad2d(_PadNd):
    """Pads the last two dimensions with their mirror image, the border not repeated."""

    _rank, _mode = 2, "reflect"


class ReflectionPad3d(_PadNd):
    """Pads the last three dimensions with their mirror image, the border not repeated."""

    _rank, _mode = 3, "reflect"


class ReplicationPad1d(_PadNd):
    """Pads the last dimension with copies of its border."""

    _rank, _mode = 1, "replicate"


class ReplicationPad2d(_PadNd):
    """Pads the last two dimensions with copies of their border."""

    _rank, _mode = 2, "replicate"


class ReplicationPad3d(_PadNd):
    """Pads the last three dimensions with copies of their border."""

    _rank, _mode = 3, "replicate"


class _CircularPadNd(_PadNd):
    _mode = "circular"

    def forward(self, input: Tensor) -> Tensor:
        if input.dim() not in (self._rank + 1, self._rank + 2):
            raise ValueError(
                f"expected {self._rank + 1}D or {self._rank + 2}D input (got {input.dim()}D input)"
            )
        return F.pad(input, self.padding, "circular")


class CircularPad1d(_CircularPadNd):
    """Pads the last dimension with its other end."""

    _rank = 1


class CircularPad2d(_CircularPadNd):
    """Pads the last two dimensions with their other ends."""

    _rank = 2


class CircularPad3d(_CircularPadNd):
    """Pads the last three dimensions with their other ends."""

    _rank = 3
