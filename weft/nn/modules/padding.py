"""Padding as layers: constants, reflections, replicas of the border, or the other end around.

Takes images, gives larger ones. One idea: a class says its number of dimensions, its mode and the ranks it
accepts.
"""

from __future__ import annotations

from typing import Any

import weft.nn.functional as F
from weft.nn.modules.ranked import Ranked, check_dims
from weft.nn.modules.utils import _ntuple
from weft.tensor.base import Tensor

__all__ = [
    "CircularPad1d", "CircularPad2d", "CircularPad3d", "ConstantPad1d", "ConstantPad2d", "ConstantPad3d",
    "ReflectionPad1d", "ReflectionPad2d", "ReflectionPad3d", "ReplicationPad1d", "ReplicationPad2d",
    "ReplicationPad3d", "ZeroPad1d", "ZeroPad2d", "ZeroPad3d",
]  # fmt: skip


class _PadNd(Ranked):
    padding: tuple[int, ...]
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
    _shown = ("padding", "value")

    def __init__(self, padding: Any, value: float) -> None:
        super().__init__(padding)
        self.value = value

    def forward(self, input: Tensor) -> Tensor:
        return F.pad(input, self.padding, "constant", self.value)

    extra_repr = Ranked.extra_repr


class ConstantPad1d(_ConstantPadNd, rank=1):
    """Pads the last dimension with a value."""


class ConstantPad2d(_ConstantPadNd, rank=2):
    """Pads the last two dimensions with a value."""


class ConstantPad3d(_ConstantPadNd, rank=3):
    """Pads the last three dimensions with a value."""


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
class _ReflectionPadNd(_PadNd):
    _mode = "reflect"


class ReflectionPad1d(_ReflectionPadNd, rank=1):
    """Pads the last dimension with its mirror image, the border not repeated."""


class ReflectionPad2d(_ReflectionPadNd, rank=2):
    """Pads the last two dimensions with their mirror image, the border not repeated."""


class ReflectionPad3d(_ReflectionPadNd, rank=3):
    """Pads the last three dimensions with their mirror image, the border not repeated."""


class _ReplicationPadNd(_PadNd):
    _mode = "replicate"


class ReplicationPad1d(_ReplicationPadNd, rank=1):
    """Pads the last dimension with copies of its border."""


class ReplicationPad2d(_ReplicationPadNd, rank=2):
    """Pads the last two dimensions with copies of their border."""


class ReplicationPad3d(_ReplicationPadNd, rank=3):
    """Pads the last three dimensions with copies of their border."""


class _CircularPadNd(_PadNd):
    _mode = "circular"

    def forward(self, input: Tensor) -> Tensor:
        check_dims(input, [self._rank + 1, self._rank + 2])
        return F.pad(input, self.padding, "circular")


class CircularPad1d(_CircularPadNd, rank=1):
    """Pads the last dimension with its other end."""


class CircularPad2d(_CircularPadNd, rank=2):
    """Pads the last two dimensions with their other ends."""


class CircularPad3d(_CircularPadNd, rank=3):
    """Pads the last three dimensions with their other ends."""
