"""Lists of tensors by device and dtype, for optimizers that step all of a kind at once.

Takes lists of equal length (parameters, gradients, states), gives them apart by the device and dtype of the
first. One idea: what goes together is decided by the first list; the others follow it, None included.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

Group = tuple[list[list[Any]], list[int]]


def _group_tensors_by_device_and_dtype(
    tensorlistlist: Sequence[Sequence[Any]], with_indices: bool = False
) -> dict[tuple[Any, Any], Group]:
    """By device and dtype: the lists' items, and their places where these are asked for."""
    groups: dict[tuple[Any, Any], Group] = {}
    for place, items in enumerate(zip(*tensorlistlist, strict=True)):
        first = items[0]
        lists, places = groups.setdefault((first.device, first.dtype), ([[] for _ in items], []))
        for made, item in zip(lists, items, strict=True):
            made.append(item)
        if with_indices:
            places.append(place)
    return groups


def _get_foreach_kernels_supported_devices() -> list[str]:
    """Where steps of lists are one call."""
    return ["cpu"]


def _get_fused_kernels_supported_devices() -> list[str]:
    """Where steps may be fused."""
    return ["cpu"]


def _device_has_foreach_support(device: Any) -> bool:
    """Whether steps of lists are one call there."""
    return device.type in _get_foreach_kernels_supported_devices()


def _has_foreach_support(tensors: Sequence[Any], device: Any) -> bool:
    """Whether all of these can be stepped by one call."""
    return _device_has_foreach_support(device) and all(
        each is None or hasattr(each, "dtype") for each in tensors
    )
