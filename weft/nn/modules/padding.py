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
    """Pads the last dimension with a value.

    >>> weft.nn.ConstantPad1d((1, 2), 9.0)(weft.tensor([[1.0, 2.0]]))
    tensor([[9., 1., 2., 9., 9.]])
    """


class ConstantPad2d(_ConstantPadNd, rank=2):
    """Pads the last two dimensions with a value.

    >>> weft.nn.ConstantPad2d((1, 1, 2, 0), 9.0)(weft.zeros(1, 1, 3, 3)).shape
    weft.Size([1, 1, 5, 5])
    """


class ConstantPad3d(_ConstantPadNd, rank=3):
    """Pads the last three dimensions with a value.

    >>> weft.nn.ConstantPad3d(1, 9.0)(weft.zeros(1, 1, 3, 3, 3)).shape
    weft.Size([1, 1, 5, 5, 5])
    """


class _ZeroPadNd(_ConstantPadNd):
    def __init__(self, padding: Any) -> None:
        super().__init__(padding, 0.0)

    extra_repr = _PadNd.extra_repr


class ZeroPad1d(_ZeroPadNd, ConstantPad1d):
    """Pads the last dimension with zeros.

    >>> weft.nn.ZeroPad1d((1, 2))(weft.tensor([[1.0, 2.0]]))
    tensor([[0., 1., 2., 0., 0.]])
    """


class ZeroPad2d(_ZeroPadNd, ConstantPad2d):
    """Pads the last two dimensions with zeros.

    >>> weft.nn.ZeroPad2d((1, 1, 2, 0))(weft.zeros(1, 1, 3, 3)).shape
    weft.Size([1, 1, 5, 5])
    """


class ZeroPad3d(_ZeroPadNd, ConstantPad3d):
    """Pads the last three dimensions with zeros.

    >>> weft.nn.ZeroPad3d(1)(weft.zeros(1, 1, 3, 3, 3)).shape
    weft.Size([1, 1, 5, 5, 5])
    """


# -- copies of what is there ---------------------------------------------------------------------------------
class _ReflectionPadNd(_PadNd):
    _mode = "reflect"


class ReflectionPad1d(_ReflectionPadNd, rank=1):
    """Pads the last dimension with its mirror image, the border not repeated.

    >>> weft.nn.ReflectionPad1d(2)(weft.tensor([[1.0, 2.0, 3.0]]))
    tensor([[3., 2., 1., 2., 3., 2., 1.]])
    """


class ReflectionPad2d(_ReflectionPadNd, rank=2):
    """Pads the last two dimensions with their mirror image, the border not repeated.

    >>> weft.nn.ReflectionPad2d((1, 1, 2, 0))(weft.zeros(1, 1, 3, 3)).shape
    weft.Size([1, 1, 5, 5])
    """


class ReflectionPad3d(_ReflectionPadNd, rank=3):
    """Pads the last three dimensions with their mirror image, the border not repeated.

    >>> weft.nn.ReflectionPad3d(1)(weft.zeros(1, 1, 3, 3, 3)).shape
    weft.Size([1, 1, 5, 5, 5])
    """


class _ReplicationPadNd(_PadNd):
    _mode = "replicate"


class ReplicationPad1d(_ReplicationPadNd, rank=1):
    """Pads the last dimension with copies of its border.

    >>> weft.nn.ReplicationPad1d(2)(weft.tensor([[1.0, 2.0, 3.0]]))
    tensor([[1., 1., 1., 2., 3., 3., 3.]])
    """


class ReplicationPad2d(_ReplicationPadNd, rank=2):
    """Pads the last two dimensions with copies of their border.

    >>> weft.nn.ReplicationPad2d((1, 1, 2, 0))(weft.zeros(1, 1, 3, 3)).shape
    weft.Size([1, 1, 5, 5])
    """


class ReplicationPad3d(_ReplicationPadNd, rank=3):
    """Pads the last three dimensions with copies of their border.

    >>> weft.nn.ReplicationPad3d(1)(weft.zeros(1, 1, 3, 3, 3)).shape
    weft.Size([1, 1, 5, 5, 5])
    """


class _CircularPadNd(_PadNd):
    _mode = "circular"

    def forward(self, input: Tensor) -> Tensor:
        check_dims(input, [self._rank + 1, self._rank + 2])
        return F.pad(input, self.padding, "circular")


class CircularPad1d(_CircularPadNd, rank=1):
    """Pads the last dimension with its other end.

    >>> weft.nn.CircularPad1d(1)(weft.tensor([[1.0, 2.0, 3.0]]))
    tensor([[3., 1., 2., 3., 1.]])
    """


class CircularPad2d(_CircularPadNd, rank=2):
    """Pads the last two dimensions with their other ends.

    >>> weft.nn.CircularPad2d((1, 1, 2, 0))(weft.zeros(1, 1, 3, 3)).shape
    weft.Size([1, 1, 5, 5])
    """


class CircularPad3d(_CircularPadNd, rank=3):
    """Pads the last three dimensions with their other ends.

    >>> weft.nn.CircularPad3d(1)(weft.zeros(1, 1, 3, 3, 3)).shape
    weft.Size([1, 1, 5, 5, 5])
    """
