"""Triplet loss by a distance of the caller's.

Takes three batches of points and a function of two; gives the loss. It is no op record, because capture has
to follow the caller's function.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from weft.tensor.base import Tensor
from weft.tensor.faces import FUNCTIONS

_pairwise_distance = FUNCTIONS["pairwise_distance"]


def triplet_margin_with_distance_loss(
    anchor: Tensor,
    positive: Tensor,
    negative: Tensor,
    *,
    distance_function: Callable[[Any, Any], Any] | None = None,
    margin: float = 1.0,
    swap: bool = False,
    reduction: str = "mean",
) -> Tensor:
    """How much nearer `negative` is than `positive`, plus a margin, by a distance of the caller's.

    >>> import weft
    >>> a, p, n = weft.zeros(1, 2), weft.zeros(1, 2), weft.ones(1, 2)
    >>> taxi = lambda x, y: (x - y).abs().sum(-1)
    >>> weft.nn.functional.triplet_margin_with_distance_loss(a, p, n, distance_function=taxi)
    tensor(0.)
    """
    if reduction not in ("mean", "sum", "none"):
        raise ValueError(f"{reduction} is not a valid value for reduction")
    if margin <= 0:
        raise ValueError(f"margin must be greater than 0, got {margin}")
    if anchor.ndim != positive.ndim or positive.ndim != negative.ndim:
        raise RuntimeError(
            "The anchor, positive, and negative tensors are expected to have the same number of dimensions, "
            f"but got: anchor {anchor.ndim}D, positive {positive.ndim}D, and negative {negative.ndim}D inputs"
        )
    distance = _pairwise_distance if distance_function is None else distance_function
    near, far = distance(anchor, positive), distance(anchor, negative)
    if swap:
        far = far.minimum(distance(positive, negative))
    loss = (margin + near - far).clamp_min(0)
    if reduction == "none":
        return loss
    return loss.mean() if reduction == "mean" else loss.sum()
