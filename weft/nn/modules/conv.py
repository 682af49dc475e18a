"""Convolutions as layers, and their transposes.

Takes images `(N, C, ...)` or `(C, ...)`, gives images. One idea: a class per rank says only how many
dimensions it slides over and which function does it; everything else is one base.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import weft.nn.functional as F
import weft.nn.init as init
from weft.nn.modules.lazy import LazyLayer
from weft.nn.modules.ranked import Ranked
from weft.nn.modules.utils import _ntuple, _reverse_repeat_tuple, empty_parameter, named, unusual
from weft.tensor.base import Tensor

__all__ = [
    "Conv1d", "Conv2d", "Conv3d", "ConvTranspose1d", "ConvTranspose2d", "ConvTranspose3d", "LazyConv1d",
    "LazyConv2d", "LazyConv3d", "LazyConvTranspose1d", "LazyConvTranspose2d", "LazyConvTranspose3d",
]  # fmt: skip

PADDING_MODES = ("zeros", "reflect", "replicate", "circular")


def _choice(values: Sequence[str]) -> str:
    return "{" + ", ".join(map(repr, values)) + "}"


def _check(in_channels: int, out_channels: int, groups: int, stride: Any, padding: Any, mode: str) -> None:
    if groups <= 0:
        raise ValueError("groups must be a positive integer")
    if in_channels % groups:
        raise ValueError("in_channels must be divisible by groups")
    if out_channels % groups:
        raise ValueError("out_channels must be divisible by groups")
    if isinstance(padding, str):
        if padding not in ("same", "valid"):
            raise ValueError(
                f"Invalid padding string {padding!r}, should be one of {_choice(('same', 'valid'))}"
            )
        if padding == "same" and any(step != 1 for step in stride):
            raise ValueError("padding='same' is not supported for strided convolutions")
    if mode not in PADDING_MODES:
        raise ValueError(
            f"padding_mode must be one of {_choice(PADDING_MODES)}, but got padding_mode='{mode}'"
        )


class _ConvNd(Ranked):
    weight: Tensor
    bias: Tensor | None

    def __init__(
        self, in_channels: int, out_channels: int, kernel_size: tuple[int, ...], stride: tuple[int, ...],
        padding: Any, dilation: tuple[int, ...], transposed: bool, output_padding: tuple[int, ...],
        groups: int, bias: bool, padding_mode: str, device: Any = None, dtype: Any = None,
    ) -> None:  # fmt: skip
        super().__init__()
        _check(in_channels, out_channels, groups, stride, padding, padding_mode)
        self.in_channels, self.out_channels, self.kernel_size = in_channels, out_channels, kernel_size
        self.stride, self.padding, self.dilation, self.transposed = stride, padding, dilation, transposed
        self.output_padding, self.groups, self.padding_mode = output_padding, groups, padding_mode
        self._reversed_padding_repeated_twice = self._border()
        source, result = (out_channels, in_channels) if transposed else (in_channels, out_channels)
        self.weight = empty_parameter((result, source // groups, *kernel_size), device, dtype)
        self.register_parameter("bias", empty_parameter((out_channels,), device, dtype) if bias else None)
        self.reset_parameters()

    def _border(self) -> list[int]:
        """The padding as `functional.pad` takes it, for modes that pad first and convolve then."""
        if not isinstance(self.padding, str):
            return list(_reverse_repeat_tuple(self.padding, 2))
        if self.padding == "valid":
            return [0, 0] * len(self.kernel_size)
        border = []
        for step, size in zip(reversed(self.dilation), reversed(self.kernel_size)):
            total = step * (size - 1)
            border += [total // 2, total - total // 2]
        return border

    def reset_parameters(self) -> None:
        """Draws new weights, uniform within 1 / sqrt(what one output sums over)."""
        init.kaiming_uniform_(self.weight, a=math.sqrt(5))
        if self.bias is not None:
            fan_in = math.prod(self.weight.shape[1:])
            bound = 1 / math.sqrt(fan_in) if fan_in else 0
            init.uniform_(self.bias, -bound, bound)

    def extra_repr(self) -> str:
        rank = len(self.kernel_size)
        text = f"{self.in_channels}, {self.out_channels}, {named(self, 'kernel_size', 'stride')}"
        text += unusual(
            self, padding=(0,) * len(self.padding), dilation=(1,) * rank, output_padding=(0,) * rank, groups=1
        )
        return text + (", bias=False" if self.bias is None else "") + unusual(self, padding_mode="zeros")


class _Convolution(_ConvNd):
    """A convolution of `_rank` dimensions."""

    _kind = "conv"

    def __init__(
        self, in_channels: int, out_channels: int, kernel_size: Any, stride: Any = 1, padding: Any = 0,
        dilation: Any = 1, groups: int = 1, bias: bool = True, padding_mode: str = "zeros",
        device: Any = None, dtype: Any = None,
    ) -> None:  # fmt: skip
        per_dimension = _ntuple(self._rank)
        super().__init__(
            in_channels, out_channels, per_dimension(kernel_size), per_dimension(stride),
            padding if isinstance(padding, str) else per_dimension(padding), per_dimension(dilation), False,
            per_dimension(0), groups, bias, padding_mode, device, dtype,
        )  # fmt: skip

    def _conv_forward(self, input: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        padding = self.padding
        if self.padding_mode != "zeros":
            input = F.pad(input, self._reversed_padding_repeated_twice, self.padding_mode)
            padding = 0
        function = type(self)._function
        return function(input, weight, bias, self.stride, padding, self.dilation, self.groups)

    def forward(self, input: Tensor) -> Tensor:
        return self._conv_forward(input, self.weight, self.bias)


class Conv1d(_Convolution, rank=1):
    """A convolution over `(N, C, L)` or `(C, L)`.

    >>> weft.nn.Conv1d(3, 8, kernel_size=3, padding=1)(weft.zeros(2, 3, 10)).shape
    weft.Size([2, 8, 10])
    """


class Conv2d(_Convolution, rank=2):
    """A convolution over `(N, C, H, W)` or `(C, H, W)`.

    >>> weft.nn.Conv2d(3, 8, kernel_size=3, stride=2)(weft.zeros(2, 3, 9, 7)).shape
    weft.Size([2, 8, 4, 3])
    """


class Conv3d(_Convolution, rank=3):
    """A convolution over `(N, C, D, H, W)` or `(C, D, H, W)`.

    >>> weft.nn.Conv3d(3, 8, kernel_size=(1, 3, 3))(weft.zeros(2, 3, 4, 6, 6)).shape
    weft.Size([2, 8, 4, 4, 4])
    """


class _ConvTransposeNd(_ConvNd):
    """A transposed convolution of `_rank` dimensions: the gradient of a convolution with respect to its
    input."""

    _kind = "conv_transpose"

    def __init__(
        self, in_channels: int, out_channels: int, kernel_size: Any, stride: Any = 1, padding: Any = 0,
        output_padding: Any = 0, groups: int = 1, bias: bool = True, dilation: Any = 1,
        padding_mode: str = "zeros", device: Any = None, dtype: Any = None,
    ) -> None:  # fmt: skip
        if padding_mode != "zeros":
            raise ValueError(f'Only "zeros" padding mode is supported for {type(self).__name__}')
        per_dimension = _ntuple(self._rank)
        super().__init__(
            in_channels, out_channels, per_dimension(kernel_size), per_dimension(stride),
            per_dimension(padding), per_dimension(dilation), True, per_dimension(output_padding), groups,
            bias, padding_mode, device, dtype,
        )  # fmt: skip

    def _output_padding(self, input: Tensor, output_size: Sequence[int] | None) -> Sequence[int]:
        """What to add at the end of each dimension to reach the size asked for."""
        if output_size is None:
            return self.output_padding
        rank = self._rank
        leading = 2 if input.dim() == rank + 2 else 1
        wanted = output_size
        if len(wanted) == leading + rank:
            wanted = wanted[leading:]
        if len(wanted) != rank:
            raise ValueError(
                f"ConvTranspose{rank}D: for {input.dim()}D input, output_size must have {rank} "
                f"or {leading + rank} elements (got {len(wanted)})"
            )
        least = [
            (size - 1) * step - 2 * border + spread * (kernel - 1) + 1
            for size, step, border, spread, kernel in zip(
                input.shape[leading:], self.stride, self.padding, self.dilation, self.kernel_size
            )
        ]
        most = [size + step - 1 for size, step in zip(least, self.stride)]
        if any(not low <= size <= high for low, size, high in zip(least, wanted, most)):
            raise ValueError(
                f"requested an output size of {wanted}, but valid sizes range "
                f"from {least} to {most} (for an input of {input.size()[2:]})"
            )
        return [size - low for size, low in zip(wanted, least)]

    def forward(self, input: Tensor, output_size: Sequence[int] | None = None) -> Tensor:
        extra = self._output_padding(input, output_size)
        function = type(self)._function
        return function(
            input, self.weight, self.bias, self.stride, self.padding, extra, self.groups, self.dilation
        )


class ConvTranspose1d(_ConvTransposeNd, rank=1):
    """A transposed convolution over `(N, C, L)` or `(C, L)`.

    >>> weft.nn.ConvTranspose1d(8, 3, kernel_size=4, stride=2, padding=1)(weft.zeros(2, 8, 5)).shape
    weft.Size([2, 3, 10])
    """


class ConvTranspose2d(_ConvTransposeNd, rank=2):
    """A transposed convolution over `(N, C, H, W)` or `(C, H, W)`.

    >>> weft.nn.ConvTranspose2d(8, 3, kernel_size=2, stride=2)(weft.zeros(2, 8, 4, 3)).shape
    weft.Size([2, 3, 8, 6])
    """


class ConvTranspose3d(_ConvTransposeNd, rank=3):
    """A transposed convolution over `(N, C, D, H, W)` or `(C, D, H, W)`.

    >>> weft.nn.ConvTranspose3d(8, 3, kernel_size=2, stride=2)(weft.zeros(2, 8, 2, 4, 3)).shape
    weft.Size([2, 3, 4, 8, 6])
    """


# -- sizes from the first input ------------------------------------------------------------------------------
class _LazyConvNd(LazyLayer):
    """Takes `in_channels` from the first input."""

    _size = "in_channels"
    in_channels: int
    out_channels: int
    kernel_size: tuple[int, ...]
    groups: int
    transposed: bool
    _rank: int

    def initialize_parameters(self, input: Tensor, *_args: Any, **_kwargs: Any) -> None:
        """Takes the channels of this input."""
        rank = self._rank
        if not self.has_uninitialized_params():  # a state dict has told the shapes
            self.in_channels = self.in_channels or input.shape[-rank - 1]
            return
        if input.dim() not in (rank + 1, rank + 2):
            raise RuntimeError(
                f"Expected {rank + 1}D (unbatched) or {rank + 2}D (batched) input to {type(self).__name__}, "
                f"but got input of size: {input.shape}"
            )
        self.in_channels = input.shape[-rank - 1]
        if self.in_channels % self.groups:
            raise ValueError("in_channels must be divisible by groups")
        source, result = self.in_channels, self.out_channels
        if self.transposed:
            source, result = result, source
        self.weight.materialize((result, source // self.groups, *self.kernel_size))
        if self.bias is not None:
            self.bias.materialize((self.out_channels,))
        self.reset_parameters()


class _LazyConvolution(_LazyConvNd):
    def __init__(
        self, out_channels: int, kernel_size: Any, stride: Any = 1, padding: Any = 0, dilation: Any = 1,
        groups: int = 1, bias: bool = True, padding_mode: str = "zeros", device: Any = None,
        dtype: Any = None,
    ) -> None:  # fmt: skip
        super().__init__(0, 0, kernel_size, stride, padding, dilation, groups, False, padding_mode)
        self.out_channels = out_channels
        self._make_lazy(bias, device, dtype)


class _LazyConvTranspose(_LazyConvNd):
    def __init__(
        self, out_channels: int, kernel_size: Any, stride: Any = 1, padding: Any = 0,
        output_padding: Any = 0, groups: int = 1, bias: bool = True, dilation: Any = 1,
        padding_mode: str = "zeros", device: Any = None, dtype: Any = None,
    ) -> None:  # fmt: skip
        super().__init__(
            0, 0, kernel_size, stride, padding, output_padding, groups, False, dilation, padding_mode
        )
        self.out_channels = out_channels
        self._make_lazy(bias, device, dtype)


class LazyConv1d(_LazyConvolution, Conv1d):
    """A `Conv1d` that takes `in_channels` from its first input.

    >>> layer = weft.nn.LazyConv1d(8, kernel_size=3)
    >>> layer(weft.zeros(2, 3, 10)).shape, type(layer).__name__, layer.in_channels
    (weft.Size([2, 8, 8]), 'Conv1d', 3)
    """

    cls_to_become = Conv1d


class LazyConv2d(_LazyConvolution, Conv2d):
    """A `Conv2d` that takes `in_channels` from its first input.

    >>> layer = weft.nn.LazyConv2d(8, kernel_size=3)
    >>> layer(weft.zeros(2, 3, 6, 6)).shape, type(layer).__name__, layer.in_channels
    (weft.Size([2, 8, 4, 4]), 'Conv2d', 3)
    """

    cls_to_become = Conv2d


class LazyConv3d(_LazyConvolution, Conv3d):
    """A `Conv3d` that takes `in_channels` from its first input.

    >>> layer = weft.nn.LazyConv3d(8, kernel_size=3)
    >>> layer(weft.zeros(2, 3, 4, 6, 6)).shape, type(layer).__name__, layer.in_channels
    (weft.Size([2, 8, 2, 4, 4]), 'Conv3d', 3)
    """

    cls_to_become = Conv3d


class LazyConvTranspose1d(_LazyConvTranspose, ConvTranspose1d):
    """A `ConvTranspose1d` that takes `in_channels` from its first input.

    >>> layer = weft.nn.LazyConvTranspose1d(3, kernel_size=2, stride=2)
    >>> layer(weft.zeros(2, 8, 5)).shape, type(layer).__name__, layer.in_channels
    (weft.Size([2, 3, 10]), 'ConvTranspose1d', 8)
    """

    cls_to_become = ConvTranspose1d


class LazyConvTranspose2d(_LazyConvTranspose, ConvTranspose2d):
    """A `ConvTranspose2d` that takes `in_channels` from its first input.

    >>> layer = weft.nn.LazyConvTranspose2d(3, kernel_size=2, stride=2)
    >>> layer(weft.zeros(2, 8, 4, 3)).shape, type(layer).__name__, layer.in_channels
    (weft.Size([2, 3, 8, 6]), 'ConvTranspose2d', 8)
    """

    cls_to_become = ConvTranspose2d


class LazyConvTranspose3d(_LazyConvTranspose, ConvTranspose3d):
    """A `ConvTranspose3d` that takes `in_channels` from its first input.

    >>> layer = weft.nn.LazyConvTranspose3d(3, kernel_size=2, stride=2)
    >>> layer(weft.zeros(2, 8, 2, 4, 3)).shape, type(layer).__name__, layer.in_channels
    (weft.Size([2, 3, 4, 8, 6]), 'ConvTranspose3d', 8)
    """

    cls_to_become = ConvTranspose3d
