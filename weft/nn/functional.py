"""Functional forms of layers, activations and losses, generated from the op records."""

from __future__ import annotations

from typing import Any as _Any

from weft.core.warn import warn_at_level as _warn_at_level
from weft.nn.dispatching import GRID_SAMPLE_INTERPOLATION_MODES as GRID_SAMPLE_INTERPOLATION_MODES
from weft.nn.dispatching import GRID_SAMPLE_PADDING_MODES as GRID_SAMPLE_PADDING_MODES
from weft.nn.dispatching import BroadcastingList1 as BroadcastingList1
from weft.nn.dispatching import BroadcastingList2 as BroadcastingList2
from weft.nn.dispatching import BroadcastingList3 as BroadcastingList3
from weft.nn.dispatching import assert_int_or_pair as assert_int_or_pair
from weft.nn.dispatching import boolean_dispatch as boolean_dispatch
from weft.nn.pools import WITH_INDICES as _both
from weft.nn.triplets import (
    triplet_margin_with_distance_loss as triplet_margin_with_distance_loss,
)
from weft.ops.record import ops as _ops
from weft.tensor.faces import FUNCTIONS as _FUNCTIONS
from weft.tensor.overrides import handle_torch_function as handle_torch_function
from weft.tensor.overrides import has_torch_function as has_torch_function

globals().update(
    {name.rpartition(".")[2]: face for name, face in _FUNCTIONS.items() if name.startswith("nn.functional.")}
)


def has_torch_function_unary(value: _Any) -> bool:
    """`has_torch_function` of one argument."""
    return has_torch_function((value,))


def has_torch_function_variadic(*values: _Any) -> bool:
    """`has_torch_function` of the arguments."""
    return has_torch_function(values)


def rrelu_(
    input: _Any,
    lower: float = 1.0 / 8,
    upper: float = 1.0 / 3,
    training: bool = False,
    generator: _Any = None,
) -> _Any:
    """`rrelu` in place."""
    return input.rrelu_(lower, upper, training, generator=generator)


def upsample_nearest(input: _Any, size: _Any = None, scale_factor: _Any = None) -> _Any:
    """`interpolate` with the nearest element; that is what to call instead."""
    _warn_at_level(
        "`nn.functional.upsample_nearest` is deprecated. Use `nn.functional.interpolate` instead.",
        UserWarning,
        stacklevel=2,
    )
    return _ops.nn_functional_interpolate(input, size, scale_factor, mode="nearest")


def upsample_bilinear(input: _Any, size: _Any = None, scale_factor: _Any = None) -> _Any:
    """`interpolate` between four elements, corners aligned; that is what to call instead."""
    _warn_at_level(
        "`nn.functional.upsample_bilinear` is deprecated. Use `nn.functional.interpolate` instead.",
        UserWarning,
        stacklevel=2,
    )
    return _ops.nn_functional_interpolate(input, size, scale_factor, mode="bilinear", align_corners=True)


globals().update(_both)
