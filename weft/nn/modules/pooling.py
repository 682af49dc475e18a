"""Pools as layers: maxima, means and p-norms of windows, of a size given or of a number of windows given.

Takes images `(N, C, ...)` or `(C, ...)`, gives smaller ones.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import weft.nn.functional as F
from weft.nn.modules.ranked import Ranked
from weft.nn.modules.utils import _ntuple, _single
from weft.tensor.base import Tensor

__all__ = [
    "AdaptiveAvgPool1d", "AdaptiveAvgPool2d", "AdaptiveAvgPool3d", "AdaptiveMaxPool1d", "AdaptiveMaxPool2d",
    "AdaptiveMaxPool3d", "AvgPool1d", "AvgPool2d", "AvgPool3d", "FractionalMaxPool2d", "FractionalMaxPool3d",
    "LPPool1d", "LPPool2d", "LPPool3d", "MaxPool1d", "MaxPool2d", "MaxPool3d", "MaxUnpool1d", "MaxUnpool2d",
    "MaxUnpool3d",
]  # fmt: skip


# -- maxima --------------------------------------------------------------------------------------------------
class _MaxPoolNd(Ranked):
    __call__: Callable[..., Any]
    _kind = "max_pool"
    _shown = ("kernel_size", "stride", "padding", "dilation", "ceil_mode")

    def __init__(
        self, kernel_size: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1,
        return_indices: bool = False, ceil_mode: bool = False,
    ) -> None:  # fmt: skip
        super().__init__()
        self.kernel_size = kernel_size
        self.stride = stride if stride is not None else kernel_size
        self.padding, self.dilation, self.return_indices = padding, dilation, return_indices
        self.ceil_mode = ceil_mode

    def forward(self, input: Tensor) -> Any:
        return type(self)._function(
            input, self.kernel_size, self.stride, self.padding, self.dilation, ceil_mode=self.ceil_mode,
            return_indices=self.return_indices,
        )  # fmt: skip


class MaxPool1d(_MaxPoolNd, rank=1):
    """The greatest of each window of `(N, C, L)`.

    >>> weft.nn.MaxPool1d(2)(weft.tensor([[[1.0, 4.0, 3.0, 2.0]]]))
    tensor([[[4., 3.]]])
    """


class MaxPool2d(_MaxPoolNd, rank=2):
    """The greatest of each window of `(N, C, H, W)`.

    >>> weft.nn.MaxPool2d(3, stride=2, padding=1)(weft.zeros(2, 8, 6, 4)).shape
    weft.Size([2, 8, 3, 2])
    """


class MaxPool3d(_MaxPoolNd, rank=3):
    """The greatest of each window of `(N, C, D, H, W)`.

    >>> weft.nn.MaxPool3d((1, 2, 2))(weft.zeros(2, 8, 3, 6, 4)).shape
    weft.Size([2, 8, 3, 3, 2])
    """


class _FractionalMaxPoolNd(Ranked):
    """Windows of one size at places drawn at random, so many that the output has the size asked for."""

    __call__: Callable[..., Any]
    _kind = "fractional_max_pool"
    return_indices: Any  # a bool

    def __init__(
        self, kernel_size: Any, output_size: Any = None, output_ratio: Any = None,
        return_indices: bool = False, _random_samples: Tensor | None = None,
    ) -> None:  # fmt: skip
        super().__init__()
        name, rank = type(self).__name__, self._rank
        per_dimension = _ntuple(rank)
        if rank == 3 and any(size <= 0 for size in per_dimension(kernel_size)):
            raise ValueError(f"kernel_size must be greater than 0, but got {kernel_size}")
        self.kernel_size = per_dimension(kernel_size)
        self.return_indices = return_indices
        self.register_buffer("_random_samples", _random_samples)
        self.output_size = per_dimension(output_size) if output_size is not None else None
        self.output_ratio = per_dimension(output_ratio) if output_ratio is not None else None
        if output_size is None and output_ratio is None:
            raise ValueError(f"{name} requires specifying either an output size, or a pooling ratio")
        if output_size is not None and output_ratio is not None:
            raise ValueError("only one of output_size and output_ratio may be specified")
        if self.output_ratio is not None and not all(0 < ratio < 1 for ratio in self.output_ratio):
            raise ValueError(f"output_ratio must be between 0 and 1 (got {output_ratio})")

    def forward(self, input: Tensor) -> Any:
        return type(self)._function(
            input, self.kernel_size, self.output_size, self.output_ratio, self.return_indices,
            _random_samples=self._random_samples,
        )  # fmt: skip


class FractionalMaxPool2d(_FractionalMaxPoolNd, rank=2):
    """Maxima of windows of `(N, C, H, W)` at random places, to an output size or ratio.

    >>> weft.nn.FractionalMaxPool2d(2, output_ratio=0.5)(weft.zeros(2, 8, 10, 6)).shape
    weft.Size([2, 8, 5, 3])
    """


class FractionalMaxPool3d(_FractionalMaxPoolNd, rank=3):
    """Maxima of windows of `(N, C, D, H, W)` at random places, to an output size or ratio.

    >>> weft.nn.FractionalMaxPool3d(2, output_size=(2, 4, 3))(weft.zeros(2, 8, 4, 8, 6)).shape
    weft.Size([2, 8, 2, 4, 3])
    """


# -- back from maxima ----------------------------------------------------------------------------------------
class _Windows(Ranked):
    """Pools that show how their windows lie."""

    _shown = ("kernel_size", "stride", "padding")


class _MaxUnpoolNd(_Windows):
    """Puts maxima back where they were found, with zeros elsewhere."""

    _kind = "max_unpool"

    def __init__(self, kernel_size: Any, stride: Any = None, padding: Any = 0) -> None:
        super().__init__()
        per_dimension = _ntuple(self._rank)
        self.kernel_size = per_dimension(kernel_size)
        self.stride = per_dimension(stride if stride is not None else kernel_size)
        self.padding = per_dimension(padding)

    def forward(self, input: Tensor, indices: Tensor, output_size: Any = None) -> Tensor:
        function = type(self)._function
        return function(input, indices, self.kernel_size, self.stride, self.padding, output_size)


class MaxUnpool1d(_MaxUnpoolNd, rank=1):
    """Undoes `MaxPool1d` as far as its indices tell.

    >>> import weft
    >>> pool, unpool = weft.nn.MaxPool1d(2, return_indices=True), weft.nn.MaxUnpool1d(2)
    >>> unpool(*pool(weft.tensor([[[1.0, 4.0, 3.0, 2.0]]]))).tolist()
    [[[0.0, 4.0, 3.0, 0.0]]]
    """


class MaxUnpool2d(_MaxUnpoolNd, rank=2):
    """Undoes `MaxPool2d` as far as its indices tell.

    >>> pool, unpool = weft.nn.MaxPool2d(2, return_indices=True), weft.nn.MaxUnpool2d(2)
    >>> unpool(*pool(weft.tensor([[[1.0, 4.0], [3.0, 2.0]]]))).tolist()
    [[[0.0, 4.0], [0.0, 0.0]]]
    """


class MaxUnpool3d(_MaxUnpoolNd, rank=3):
    """Undoes `MaxPool3d` as far as its indices tell.

    >>> pool, unpool = weft.nn.MaxPool3d(2, return_indices=True), weft.nn.MaxUnpool3d(2)
    >>> unpool(*pool(weft.zeros(1, 2, 4, 4, 6))).shape
    weft.Size([1, 2, 4, 4, 6])
    """


# -- means ---------------------------------------------------------------------------------------------------
class AvgPool1d(_Windows):
    """The mean of each window of `(N, C, L)`.

    >>> weft.nn.AvgPool1d(2)(weft.tensor([[[1.0, 3.0, 5.0, 7.0]]]))
    tensor([[[2., 6.]]])
    """

    def __init__(
        self, kernel_size: Any, stride: Any = None, padding: Any = 0, ceil_mode: bool = False,
        count_include_pad: bool = True,
    ) -> None:  # fmt: skip
        super().__init__()
        self.kernel_size = _single(kernel_size)
        self.stride = _single(stride if stride is not None else kernel_size)
        self.padding = _single(padding)
        self.ceil_mode, self.count_include_pad = ceil_mode, count_include_pad

    def forward(self, input: Tensor) -> Tensor:
        return F.avg_pool1d(
            input, self.kernel_size, self.stride, self.padding, self.ceil_mode, self.count_include_pad
        )


class _AvgPoolNd(_Windows):
    _kind = "avg_pool"

    def __init__(
        self, kernel_size: Any, stride: Any = None, padding: Any = 0, ceil_mode: bool = False,
        count_include_pad: bool = True, divisor_override: int | None = None,
    ) -> None:  # fmt: skip
        super().__init__()
        self.kernel_size = kernel_size
        self.stride = stride if stride is not None else kernel_size
        self.padding, self.ceil_mode, self.count_include_pad = padding, ceil_mode, count_include_pad
        self.divisor_override = divisor_override

    def forward(self, input: Tensor) -> Tensor:
        return type(self)._function(
            input, self.kernel_size, self.stride, self.padding, self.ceil_mode, self.count_include_pad,
            self.divisor_override,
        )  # fmt: skip


class AvgPool2d(_AvgPoolNd, rank=2):
    """The mean of each window of `(N, C, H, W)`.

    >>> weft.nn.AvgPool2d(2)(weft.zeros(2, 8, 6, 4)).shape
    weft.Size([2, 8, 3, 2])
    """


class AvgPool3d(_AvgPoolNd, rank=3):
    """The mean of each window of `(N, C, D, H, W)`.

    >>> weft.nn.AvgPool3d((1, 2, 2))(weft.zeros(2, 8, 3, 6, 4)).shape
    weft.Size([2, 8, 3, 3, 2])
    """


# -- p-norms -------------------------------------------------------------------------------------------------
class _LPPoolNd(Ranked):
    _kind = "lp_pool"
    _shown = ("norm_type", "kernel_size", "stride", "ceil_mode")

    def __init__(
        self, norm_type: float, kernel_size: Any, stride: Any = None, ceil_mode: bool = False
    ) -> None:
        super().__init__()
        self.norm_type, self.kernel_size, self.stride = norm_type, kernel_size, stride
        self.ceil_mode = ceil_mode

    def forward(self, input: Tensor) -> Tensor:
        function = type(self)._function
        return function(input, float(self.norm_type), self.kernel_size, self.stride, self.ceil_mode)


class LPPool1d(_LPPoolNd, rank=1):
    """The p-norm of each window of `(N, C, L)`.

    >>> weft.nn.LPPool1d(2, 2)(weft.tensor([[[3.0, 4.0, 0.0, 5.0]]]))
    tensor([[[5., 5.]]])
    """


class LPPool2d(_LPPoolNd, rank=2):
    """The p-norm of each window of `(N, C, H, W)`.

    >>> weft.nn.LPPool2d(2, 2)(weft.zeros(2, 8, 6, 4)).shape
    weft.Size([2, 8, 3, 2])
    """


class LPPool3d(_LPPoolNd, rank=3):
    """The p-norm of each window of `(N, C, D, H, W)`.

    >>> weft.nn.LPPool3d(2, (1, 2, 2))(weft.zeros(2, 8, 3, 6, 4)).shape
    weft.Size([2, 8, 3, 3, 2])
    """


# -- as many windows as asked for ----------------------------------------------------------------------------
class _AdaptiveAvgPoolNd(Ranked):
    _kind = "adaptive_avg_pool"
    _shown = ("output_size",)

    def __init__(self, output_size: Any) -> None:
        super().__init__()
        self.output_size = output_size

    def forward(self, input: Tensor) -> Tensor:
        return type(self)._function(input, self.output_size)


class AdaptiveAvgPool1d(_AdaptiveAvgPoolNd, rank=1):
    """Means of windows of `(N, C, L)` that make `output_size` of them.

    >>> weft.nn.AdaptiveAvgPool1d(2)(weft.tensor([[[1.0, 3.0, 5.0, 7.0]]]))
    tensor([[[2., 6.]]])
    """


class AdaptiveAvgPool2d(_AdaptiveAvgPoolNd, rank=2):
    """Means of windows of `(N, C, H, W)` that make `output_size` of them.

    >>> weft.nn.AdaptiveAvgPool2d(1)(weft.zeros(2, 8, 7, 5)).shape
    weft.Size([2, 8, 1, 1])
    """


class AdaptiveAvgPool3d(_AdaptiveAvgPoolNd, rank=3):
    """Means of windows of `(N, C, D, H, W)` that make `output_size` of them.

    >>> weft.nn.AdaptiveAvgPool3d((1, 2, 3))(weft.zeros(2, 8, 4, 4, 6)).shape
    weft.Size([2, 8, 1, 2, 3])
    """


class _AdaptiveMaxPoolNd(Ranked):
    __call__: Callable[..., Any]
    _kind = "adaptive_max_pool"
    _shown = ("output_size",)

    def __init__(self, output_size: Any, return_indices: bool = False) -> None:
        super().__init__()
        self.output_size, self.return_indices = output_size, return_indices

    def forward(self, input: Tensor) -> Any:
        return type(self)._function(input, self.output_size, self.return_indices)


class AdaptiveMaxPool1d(_AdaptiveMaxPoolNd, rank=1):
    """Maxima of windows of `(N, C, L)` that make `output_size` of them.

    >>> weft.nn.AdaptiveMaxPool1d(2)(weft.tensor([[[1.0, 3.0, 5.0, 7.0]]]))
    tensor([[[3., 7.]]])
    """


class AdaptiveMaxPool2d(_AdaptiveMaxPoolNd, rank=2):
    """Maxima of windows of `(N, C, H, W)` that make `output_size` of them.

    >>> weft.nn.AdaptiveMaxPool2d((None, 2))(weft.zeros(2, 8, 7, 4)).shape
    weft.Size([2, 8, 7, 2])
    """


class AdaptiveMaxPool3d(_AdaptiveMaxPoolNd, rank=3):
    """Maxima of windows of `(N, C, D, H, W)` that make `output_size` of them.

    >>> weft.nn.AdaptiveMaxPool3d(2)(weft.zeros(2, 8, 4, 4, 6)).shape
    weft.Size([2, 8, 2, 2, 2])
    """
