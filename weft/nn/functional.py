"""Functional forms of layers, activations and losses, generated from the op records."""

from __future__ import annotations

import warnings as _warnings
from collections.abc import Callable as _Callable
from typing import Any as _Any

from weft.ops.losses import check_reduction as _check_reduction
from weft.ops.losses import reduced as _reduced
from weft.ops.record import ops as _ops
from weft.tensor.faces import FUNCTIONS as _FUNCTIONS

globals().update(
    {name.rpartition(".")[2]: face for name, face in _FUNCTIONS.items() if name.startswith("nn.functional.")}
)


def triplet_margin_with_distance_loss(
    anchor: _Any,
    positive: _Any,
    negative: _Any,
    *,
    distance_function: _Callable[[_Any, _Any], _Any] | None = None,
    margin: float = 1.0,
    swap: bool = False,
    reduction: str = "mean",
) -> _Any:
    """How much nearer `negative` is than `positive`, plus a margin, by a distance of the caller's."""
    _check_reduction(reduction)
    if margin <= 0:
        raise ValueError(f"margin must be greater than 0, got {margin}")
    ranks = (anchor.ndim, positive.ndim, negative.ndim)
    if len(set(ranks)) > 1:
        raise RuntimeError(
            "The anchor, positive, and negative tensors are expected to have the same number of dimensions, "
            f"but got: anchor {ranks[0]}D, positive {ranks[1]}D, and negative {ranks[2]}D inputs"
        )
    distance = _ops.pairwise_distance if distance_function is None else distance_function
    near, far = distance(anchor, positive), distance(anchor, negative)
    if swap:
        far = _ops.minimum(far, distance(positive, negative))
    return _reduced(_ops.clamp_min(near + margin - far, 0), reduction)


def upsample_nearest(input: _Any, size: _Any = None, scale_factor: _Any = None) -> _Any:
    """`interpolate` with the nearest element; that is what to call instead."""
    _warnings.warn(
        "`nn.functional.upsample_nearest` is deprecated. Use `nn.functional.interpolate` instead.",
        UserWarning,
        stacklevel=2,
    )
    return _ops.nn_functional_interpolate(input, size, scale_factor, mode="nearest")


def upsample_bilinear(input: _Any, size: _Any = None, scale_factor: _Any = None) -> _Any:
    """`interpolate` between four elements, corners aligned; that is what to call instead."""
    _warnings.warn(
        "`nn.functional.upsample_bilinear` is deprecated. Use `nn.functional.interpolate` instead.",
        UserWarning,
        stacklevel=2,
    )
    return _ops.nn_functional_interpolate(input, size, scale_factor, mode="bilinear", align_corners=True)
