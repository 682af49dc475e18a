"""Quantisation while training: observers of ranges, and numbers rounded as integers would hold them.

Takes tensors of floats; gives tensors of floats. One idea: nothing is stored as integers, for which there
are no dtypes: a `FakeQuantize` rounds to a grid that its observer measures, and lets gradients through within
it. Where PyTorch names `quint8` and `qint8`, the grids are those of `uint8` and `int8`.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import weft.nn as nn
from weft.autograd.function import Function
from weft.core.dtypes import dtype, finfo, int8, int32, int64, uint8
from weft.core.dtypes import float32 as single
from weft.core.warn import warn_at_level
from weft.tensor.base import PUBLIC, Tensor

__all__ = [
    "FakeQuantize", "FakeQuantizeBase", "MinMaxObserver", "MovingAverageMinMaxObserver", "ObserverBase",
    "QConfig", "disable_fake_quant", "disable_observer", "enable_fake_quant", "enable_observer",
    "fake_quantize_per_channel_affine", "fake_quantize_per_tensor_affine", "per_channel_affine",
    "per_channel_symmetric", "per_tensor_affine", "per_tensor_symmetric", "qscheme",
]  # fmt: skip

RANGES: dict[dtype, tuple[int, int]] = {uint8: (0, 255), int8: (-128, 127)}
"""The integers of a dtype."""


class qscheme:
    """How a grid is laid out: one for a tensor or one for each channel, around 0 or not."""

    def __init__(self, name: str, channels: bool, symmetric: bool) -> None:
        self.name, self.channels, self.symmetric = name, channels, symmetric

    def __repr__(self) -> str:
        return f"torch.{self.name}"

    def __reduce__(self) -> str:
        return self.name


per_tensor_affine = qscheme("per_tensor_affine", False, False)
per_tensor_symmetric = qscheme("per_tensor_symmetric", False, True)
per_channel_affine = qscheme("per_channel_affine", True, False)
per_channel_symmetric = qscheme("per_channel_symmetric", True, True)


# -- rounding ------------------------------------------------------------------------------------------------
class _Rounded(Function):
    """Numbers on a grid; the gradient of those beyond its ends is 0."""

    @staticmethod
    def forward(input: Tensor, scale: Any, zero_point: Any, low: int, high: int) -> tuple[Tensor, Tensor]:
        places = (input * (1.0 / scale)).round() + zero_point
        within = (places >= low) & (places <= high)
        return ((places.clamp(low, high) - zero_point) * scale).to(input.dtype), within

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
        ctx.mark_non_differentiable(output[1])
        ctx.save_for_backward(output[1])

    @staticmethod
    def backward(ctx: Any, gradient: Tensor, _within: Any) -> tuple[Any, ...]:
        (within,) = ctx.saved_tensors
        return gradient * within, None, None, None, None


def fake_quantize_per_tensor_affine(
    input: Tensor, scale: Any, zero_point: Any, quant_min: int, quant_max: int
) -> Tensor:
    """The tensor's numbers as a grid of integers would hold them: rounded to `scale`, and cut at the ends.

    >>> import weft
    >>> weft.fake_quantize_per_tensor_affine(weft.tensor([0.26, -9.0, 9.0]), 0.5, 0, -2, 3)
    tensor([ 0.5000, -1.0000,  1.5000])
    """
    if quant_min > quant_max:
        raise RuntimeError("`quant_min` should be less than or         equal to `quant_max`.")
    if not isinstance(zero_point, Tensor) and not quant_min <= zero_point <= quant_max:
        raise RuntimeError("`zero_point` must be between `quant_min` and `quant_max`.")
    rounded: Tensor = _Rounded.apply(input, scale, zero_point, quant_min, quant_max)[0]
    return rounded


def fake_quantize_per_channel_affine(
    input: Tensor, scale: Tensor, zero_point: Tensor, axis: int, quant_min: int, quant_max: int
) -> Tensor:
    """As `fake_quantize_per_tensor_affine`, with a grid for each index of one dimension."""
    if scale.dim() != 1:
        raise RuntimeError("scale should be a 1-D tensor")
    if zero_point.dim() != 1:
        raise RuntimeError("zero point should be a 1-D tensor")
    if scale.numel() != zero_point.numel():
        raise RuntimeError("scale and zero-point need to have the same dimensions")
    if scale.numel() != input.size(axis):
        raise RuntimeError("dimensions of scale and zero-point are not consistent with input tensor")
    shape = [-1 if place == axis % input.dim() else 1 for place in range(input.dim())]
    grids = scale.view(shape), zero_point.view(shape)
    rounded: Tensor = _Rounded.apply(input, *grids, quant_min, quant_max)[0]
    return rounded


# -- observers -----------------------------------------------------------------------------------------------
class _Partial:
    """A class with some of its arguments, which makes objects when called: what `QConfig` holds."""

    def __init__(self, made: functools.partial[Any]) -> None:
        self.p = made

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.p(*args, **kwargs)

    def __repr__(self) -> str:
        return repr(self.p)

    def with_args(self, **kwargs: Any) -> _Partial:
        """The same with more arguments."""
        return _Partial(functools.partial(self, **kwargs))


def with_args(cls: Callable[..., Any], /, **kwargs: Any) -> _Partial:
    """A maker of objects of the class with these arguments."""
    return _Partial(functools.partial(cls, **kwargs))


class ObserverBase(nn.Module):
    """What measures the range of what passes through it, and tells the grid for it."""

    with_args = classmethod(with_args)

    def __init__(self, dtype: Any = uint8, is_dynamic: bool = False) -> None:
        super().__init__()
        self.dtype, self.is_dynamic = dtype, is_dynamic

    def calculate_qparams(self, **kwargs: Any) -> Any:
        raise NotImplementedError


class MinMaxObserver(ObserverBase):
    """Measures the least and the largest number that it ever sees."""

    min_val: Tensor
    max_val: Tensor

    def __init__(
        self,
        dtype: Any = uint8,
        qscheme: qscheme = per_tensor_affine,
        reduce_range: bool = False,
        quant_min: int | None = None,
        quant_max: int | None = None,
        factory_kwargs: Any = None,
        eps: float = finfo(single).eps,
        is_dynamic: bool = False,
        **_more: Any,
    ) -> None:
        super().__init__(dtype, is_dynamic)
        if qscheme.channels:
            raise NotImplementedError(
                f"{type(self).__name__}'s qscheme only support torch.per_tensor_symmetric and "
                "torch.per_tensor_affine."
            )
        if dtype not in RANGES:
            raise NotImplementedError(f"grids of {dtype}: only those of uint8 and int8 are here")
        self.qscheme, self.reduce_range, self.eps = qscheme, reduce_range, eps
        self.has_customized_qrange = quant_min is not None and quant_max is not None
        low, high = RANGES[dtype]
        if reduce_range:
            low, high = (low // 2, high // 2)
        self.quant_min = low if quant_min is None else quant_min
        self.quant_max = high if quant_max is None else quant_max
        self.register_buffer("min_val", PUBLIC["tensor"](math.inf))
        self.register_buffer("max_val", PUBLIC["tensor"](-math.inf))

    def forward(self, x_orig: Tensor) -> Tensor:
        """Takes the tensor's range down, and gives the tensor."""
        if x_orig.numel() == 0:
            return x_orig
        low, high = x_orig.detach().to(self.min_val.dtype).aminmax()
        self.note(low, high)
        return x_orig

    def note(self, low: Tensor, high: Tensor) -> None:
        """Widens what is known by a range."""
        self.min_val.copy_(self.min_val.minimum(low))
        self.max_val.copy_(self.max_val.maximum(high))

    def calculate_qparams(self, **_more: Any) -> tuple[Tensor, Tensor]:
        """The distance of the grid's numbers, and the integer that stands for 0."""
        if math.isinf(self.min_val) and math.isinf(self.max_val):
            warn_at_level(
                "must run observer before calling calculate_qparams. Returning default values.",
                UserWarning,
                2,
            )
            return PUBLIC["tensor"]([1.0]), PUBLIC["tensor"]([0])
        low, high = self.min_val.clamp(max=0.0), self.max_val.clamp(min=0.0)
        if self.qscheme.symmetric:
            scale = (-low).maximum(high) / (float(self.quant_max - self.quant_min) / 2)
            middle = (self.quant_min + self.quant_max) // 2 if self.has_customized_qrange else 128
            zero = low.new_full((), middle if self.dtype is uint8 else 0, dtype=int64)
            return scale.clamp(min=self.eps).view(1), zero.view(1)
        scale = ((high - low) / float(self.quant_max - self.quant_min)).clamp(min=self.eps)
        zero = self.quant_min - (low / scale).round().to(int32)
        return scale.view(1), zero.clamp(self.quant_min, self.quant_max).view(1)

    def reset_min_max_vals(self) -> None:
        """Forgets what it has seen."""
        self.min_val.fill_(math.inf)
        self.max_val.fill_(-math.inf)

    def extra_repr(self) -> str:
        return f"min_val={self.min_val}, max_val={self.max_val}"


class MovingAverageMinMaxObserver(MinMaxObserver):
    """Measures a range that follows what it sees, by a small step each time."""

    def __init__(self, averaging_constant: float = 0.01, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.averaging_constant = averaging_constant

    def note(self, low: Tensor, high: Tensor) -> None:
        if math.isinf(self.min_val) and math.isinf(self.max_val):
            super().note(low, high)
            return
        self.min_val.add_(self.averaging_constant * (low - self.min_val))
        self.max_val.add_(self.averaging_constant * (high - self.max_val))


# -- modules -------------------------------------------------------------------------------------------------
class FakeQuantizeBase(nn.Module):
    """What rounds as integers would, with two switches: whether it rounds, and whether it still measures."""

    fake_quant_enabled: Tensor
    observer_enabled: Tensor
    with_args = classmethod(with_args)

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("fake_quant_enabled", PUBLIC["tensor"]([1], dtype=uint8))
        self.register_buffer("observer_enabled", PUBLIC["tensor"]([1], dtype=uint8))

    def enable_fake_quant(self, enabled: bool = True) -> None:
        self.fake_quant_enabled[0] = 1 if enabled else 0

    def disable_fake_quant(self) -> None:
        self.enable_fake_quant(False)

    def enable_observer(self, enabled: bool = True) -> None:
        self.observer_enabled[0] = 1 if enabled else 0

    def disable_observer(self) -> None:
        self.enable_observer(False)


class FakeQuantize(FakeQuantizeBase):
    """Rounds what passes through it to the grid that its observer has measured until now."""

    scale: Tensor
    zero_point: Tensor

    def __init__(
        self,
        observer: Any = MovingAverageMinMaxObserver,
        quant_min: int | None = None,
        quant_max: int | None = None,
        is_dynamic: bool = False,
        **observer_kwargs: Any,
    ) -> None:
        super().__init__()
        if quant_min is not None and quant_max is not None and quant_min > quant_max:
            raise AssertionError("quant_min must be less than or equal to quant_max")
        self.activation_post_process = observer(
            quant_min=quant_min, quant_max=quant_max, is_dynamic=is_dynamic, **observer_kwargs
        )
        self.quant_min = self.activation_post_process.quant_min
        self.quant_max = self.activation_post_process.quant_max
        self.is_dynamic = is_dynamic
        self.dtype, self.qscheme = self.activation_post_process.dtype, self.activation_post_process.qscheme
        self.register_buffer("scale", PUBLIC["tensor"]([1.0]))
        self.register_buffer("zero_point", PUBLIC["tensor"]([0], dtype=int32))

    def calculate_qparams(self) -> Any:
        return self.activation_post_process.calculate_qparams()

    def forward(self, X: Tensor) -> Tensor:
        if self.observer_enabled[0] == 1:
            self.activation_post_process(X.detach())
            scale, zero_point = self.calculate_qparams()
            self.scale.copy_(scale)
            self.zero_point.copy_(zero_point)
        if self.fake_quant_enabled[0] == 1:
            X = fake_quantize_per_tensor_affine(
                X, self.scale, self.zero_point, self.quant_min, self.quant_max
            )
        return X


class QConfig(NamedTuple):
    """What makes the observers of a layer: of its results, and of its weights."""

    activation: Any
    weight: Any


def enable_fake_quant(mod: Any) -> None:
    """For `model.apply`: such modules round from now on."""
    if isinstance(mod, FakeQuantizeBase):
        mod.enable_fake_quant()


def disable_fake_quant(mod: Any) -> None:
    """For `model.apply`: such modules round no more."""
    if isinstance(mod, FakeQuantizeBase):
        mod.disable_fake_quant()


def enable_observer(mod: Any) -> None:
    """For `model.apply`: such modules measure from now on."""
    if isinstance(mod, FakeQuantizeBase):
        mod.enable_observer()


def disable_observer(mod: Any) -> None:
    """For `model.apply`: such modules measure no more."""
    if isinstance(mod, FakeQuantizeBase):
        mod.disable_observer()
