"""Random tensors of any dtype for tests."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import weft
from weft.tensor.base import Tensor

__all__ = ["make_tensor"]

RANGES: dict[str, tuple[float, float]] = {"bool": (0, 2), "uint8": (0, 10)}
"""Values lie in [-9, 10) unless these say otherwise."""


def make_tensor(
    *shape: Any,
    dtype: Any,
    device: Any = "cpu",
    low: float | None = None,
    high: float | None = None,
    requires_grad: bool = False,
    noncontiguous: bool = False,
    exclude_zero: bool = False,
    memory_format: Any = None,
) -> Tensor:
    """A tensor with values drawn evenly from [low, high), by Weft's own random numbers."""
    sizes = tuple(shape[0]) if len(shape) == 1 and not isinstance(shape[0], int) else tuple(shape)
    if requires_grad and not (dtype.is_floating_point or dtype.is_complex):
        raise ValueError(f"`requires_grad=True` is not supported for integral dtypes, but got {dtype=}")
    if noncontiguous and memory_format is not None:
        raise ValueError("The parameters `noncontiguous` and `memory_format` are mutually exclusive.")
    name = str(dtype).rpartition(".")[2]
    bottom, top = RANGES.get(name, (-9, 10))
    bottom, top = bottom if low is None else low, top if high is None else high
    if not bottom < top:
        raise ValueError(f"`low` must be less than `high`, but got {bottom} >= {top}")
    wanted = (*sizes[:-1], 2 * sizes[-1]) if noncontiguous and sizes else sizes
    result: Tensor = _drawn(wanted, dtype, bottom, top).to(device)
    if noncontiguous and sizes:
        result = result[..., ::2]
    if memory_format is not None:
        result = result.clone(memory_format=memory_format)
    if exclude_zero:
        result[result == 0] = 1 if dtype == weft.bool or not dtype.is_floating_point else _tiny(dtype)
    return result.requires_grad_() if requires_grad else result


def _drawn(sizes: tuple[int, ...], dtype: Any, low: float, high: float) -> Any:
    if dtype.is_complex:
        real = weft.float64 if dtype == weft.complex128 else weft.float32
        return weft.complex(_drawn(sizes, real, low, high), _drawn(sizes, real, low, high)).to(dtype)
    if dtype.is_floating_point:
        return (weft.rand(sizes, dtype=weft.float64) * (high - low) + low).to(dtype)
    return weft.randint(math.floor(low), math.ceil(high), sizes).to(dtype)


def _tiny(dtype: Any) -> float:
    return float(np.finfo(np.float16 if dtype == weft.float16 else np.float32).tiny)
