"""Losses of what a linear layer would give, the layer being part of them.

Takes inputs, the layer's weight and bias, and targets; gives the loss. The one idea: written in ops, so that
a compiled step fuses layer and loss by itself; options that say how to cut the work do not change numbers.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from weft.core.dtypes import int64, uint8
from weft.ops.contract import linear
from weft.ops.families import composite
from weft.ops.losses import REDUCTION, check_reduction, cross_entropy
from weft.ops.record import ops, type_of
from weft.ops.samples import Maker, Sample
from weft.ops.values import MaybeTensor, TensorLike


def _samples(make: Maker) -> Iterator[Sample]:
    yield Sample(make(4, 3), make(5, 3), make.ints(4, high=5))
    yield Sample(make(4, 3), make(5, 2, 3), make.ints(4, 2, high=5), linear_bias=make(5, 2), reduction="sum")
    yield Sample(make(3), make(5, 3), make.ints(high=5), label_smoothing=0.1)


def _check(input: TensorLike, weight: TensorLike, bias: MaybeTensor, label_smoothing: float) -> None:
    given, rows = type_of(input), type_of(weight)
    if given.ndim not in (1, 2):
        raise RuntimeError(f"expected input with dimensionality 1 or 2, got {given.ndim}")
    if rows.ndim < 2:
        raise RuntimeError(f"expected linear_weight with dimensionality at least 2, got {rows.ndim}")
    if given.shape[-1] != rows.shape[-1]:
        raise RuntimeError(
            "expected equal input and linear_weight last dimensions (in_features), got "
            f"{given.shape[-1]} and {rows.shape[-1]}, respectively"
        )
    if given.ndim == 1 and rows.ndim > 2:
        raise RuntimeError(
            f"K-dimensional loss defined by linear_weight shape {tuple(rows.shape)} requires batched input, "
            f"(N, {rows.shape[-1]}), got unbatched input with shape {tuple(given.shape)}"
        )
    if bias is not None and tuple(type_of(bias).shape) != tuple(rows.shape[:-1]):
        raise RuntimeError(
            f"expected linear_bias shape {tuple(rows.shape[:-1])}, got {tuple(type_of(bias).shape)}"
        )
    if not 0.0 <= label_smoothing <= 1.0:
        raise RuntimeError(f"expected label_smoothing to be in range [0, 1], got {label_smoothing}")


@composite(
    "input: Tensor, linear_weight: Tensor, target: Tensor, *, linear_bias: MaybeTensor = None, "
    f"weight: MaybeTensor = None, {REDUCTION}, ignore_index: Any = None, label_smoothing: float = 0.0, "
    "options: Any = None",
    namespace="nn.functional", samples=_samples,
)  # fmt: skip
def linear_cross_entropy(
    input: TensorLike, linear_weight: TensorLike, target: TensorLike, linear_bias: MaybeTensor,
    weight: MaybeTensor, reduction: str, ignore_index: Any, label_smoothing: float, options: Any,
) -> Any:  # fmt: skip
    """`cross_entropy` of `linear(input, linear_weight, linear_bias)`; further dimensions of the weight are
    those of a loss at several places.
    """
    check_reduction(reduction)
    _check(input, linear_weight, linear_bias, label_smoothing)
    *places, features = type_of(linear_weight).shape
    kind = type_of(target).dtype
    if kind.is_floating_point:
        if ignore_index is not None:
            raise RuntimeError("ignore_index cannot be specified when target contains probabilities")
    elif kind not in (int64, uint8):
        raise RuntimeError(f"expected target dtype to be Long or Byte, but got {kind.scalar_name}")
    outputs = math.prod(places)
    rows = ops.reshape(linear_weight, (outputs, features))
    shift = None if linear_bias is None else ops.reshape(linear_bias, (outputs,))
    logits = ops.reshape(linear(input, rows, shift), (*type_of(input).shape[:-1], *places))
    ignored = -100 if ignore_index is None else ignore_index
    return cross_entropy(
        logits, target, weight, ignore_index=ignored, reduction=reduction, label_smoothing=label_smoothing
    )
