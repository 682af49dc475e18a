"""Dropouts of whole channels, dropouts that keep mean and variance, and the randomised leaky ReLU.

Takes a tensor and a probability; gives the tensor with some of it dropped while training, and the tensor
itself otherwise. The one idea: the noise is drawn without gradient, in the shape in which it shall be shared,
and what follows is a product (and a sum), so that gradients of every order come from those.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from weft.core.generator import Generator
from weft.core.symbolic import applied
from weft.core.types import TensorType
from weft.core.warn import warn
from weft.ops.families import composite
from weft.ops.record import Op, ops, type_of, unsupported
from weft.ops.samples import Maker, Sample
from weft.ops.softmax import no_grad
from weft.ops.values import TensorLike

ALPHA = 1.7580993408473766  # where SELU saturates, negated
USER = "input: Tensor, p: float = 0.5, training: bool = {}, inplace: bool = False"
PLAIN = "input: Tensor, p: float, train: bool"


def _check(p: float, error: type[Exception]) -> None:
    if not 0.0 <= p <= 1.0:
        raise error(f"dropout probability has to be between 0 and 1, but got {p}")


def _refuse_whole(kind: TensorType) -> None:
    if kind.dtype.category < 2:
        raise RuntimeError(
            f"result type Float can't be cast to the desired output type {kind.dtype.scalar_name}"
        )


def _noise_shape(shape: tuple[int, ...], feature: bool) -> tuple[int, ...]:
    """One draw per element, or one per channel."""
    if not feature:
        return tuple(shape)
    if len(shape) < 2:
        raise RuntimeError("Feature dropout requires at least 2 dimensions in the input")
    return (*shape[:2], *(1,) * (len(shape) - 2))


def _kept(x: TensorLike, p: float, feature: bool) -> Any:
    """Ones where something is kept, zeros where it is dropped."""
    shape = _noise_shape(type_of(x).shape, feature)
    return no_grad(lambda: ops.bernoulli(ops.new_empty(x, shape) if feature else x, 1 - p))


def _drop(x: Any, p: float, training: bool, inplace: bool, feature: bool, alpha: bool) -> Any:
    kind = type_of(x)
    if not training or p == 0 or kind.numel() == 0:
        return x
    _noise_shape(kind.shape, feature)
    if p == 1:
        zeros = no_grad(lambda: ops.zeros_like(x))
        return x.mul_(zeros) if inplace else ops.mul(x, zeros)
    _refuse_whole(kind)
    kept = _kept(x, p, feature)
    if not alpha:
        noise = no_grad(lambda: ops.div(kept, 1 - p))
        return x.mul_(noise) if inplace else ops.mul(x, noise)
    scale = 1.0 / applied(math.sqrt, (ALPHA * ALPHA * p + 1) * (1 - p))
    shift = no_grad(lambda: ops.add(ops.mul(ops.sub(kept, 1), ALPHA * scale), ALPHA * scale * p))
    noise = no_grad(lambda: ops.mul(kept, scale))
    return x.mul_(noise).add_(shift) if inplace else ops.add(ops.mul(x, noise), shift)


def _samples(make: Maker) -> Iterator[Sample]:
    yield Sample(make(2, 3, 2), 0.5, False)
    yield Sample(make(2, 3, 2), 1.0, True)
    yield Sample(make(0, 3, 2), 0.5, True)


def _plain(name: str, feature: bool, alpha: bool) -> Op:
    """The form without defaults, which PyTorch keeps beside the one in `nn.functional`."""

    def body(x: TensorLike, p: float, train: bool) -> Any:
        _check(p, RuntimeError)
        return _drop(x, p, train, False, feature, alpha)

    return composite(PLAIN, name=name, method=False, samples=_samples)(body)


feature_dropout = _plain("feature_dropout", True, False)
alpha_dropout = _plain("alpha_dropout", False, True)
feature_alpha_dropout = _plain("feature_alpha_dropout", True, True)


def _user(name: str, feature: bool) -> Op:
    def body(x: TensorLike, p: float, training: bool, inplace: bool) -> Any:
        _check(p, ValueError)
        return _drop(x, p, training, inplace, feature, True)

    return composite(USER.format(False), name=name, namespace="nn.functional", samples=_samples)(body)


_user("alpha_dropout", False)
_user("feature_alpha_dropout", True)


# -- channels ------------------------------------------------------------------------------------------------
def _channels(x: TensorLike, p: float, training: bool, inplace: bool, batched: bool) -> Any:
    """Drops channels; an example without a batch gets one meanwhile."""
    if batched:
        return _drop(x, p, training, inplace, True, False)
    if inplace:
        _drop(ops.unsqueeze(x, 0), p, training, True, True, False)
        return x
    return ops.squeeze(_drop(ops.unsqueeze(x, 0), p, training, False, True, False), 0)


def _note(axes: int, rank: int) -> str:
    plural = "s" if axes > 1 else ""
    return (
        f"Note that dropout{axes}d exists to provide channel-wise dropout on inputs with {axes} spatial "
        f"dimension{plural}, a channel dimension, and an optional batch dimension (i.e. {axes + 1}D or "
        f"{axes + 2}D inputs)."
    )


def _line_samples(make: Maker) -> Iterator[Sample]:
    yield Sample(make(2, 3), 0.5, False)
    yield Sample(make(2, 3, 2), 1.0, True)
    yield Sample(make(2, 3), 1.0, True)


@composite(USER.format(True), namespace="nn.functional", samples=_line_samples)
def dropout1d(x: TensorLike, p: float, training: bool, inplace: bool) -> Any:
    """Drops whole channels of `(N, C, L)` or `(C, L)` while training, and scales the others up."""
    _check(p, ValueError)
    rank = len(type_of(x).shape)
    if rank not in (2, 3):
        raise RuntimeError(
            f"dropout1d: Expected 2D or 3D input, but received a {rank}D input. {_note(1, rank)}"
        )
    return _channels(x, p, training, inplace, rank == 3)


def _deprecated(axes: int, rank: int) -> None:
    if rank not in (axes + 1, axes + 2):
        warn(
            f"dropout{axes}d: Received a {rank}-D input to dropout{axes}d, which is deprecated and will "
            "result in an error in a future release. To retain the behavior and silence this warning, please "
            f"use dropout instead. {_note(axes, rank)}"
        )


def _plane_samples(make: Maker) -> Iterator[Sample]:
    yield Sample(make(2, 3, 2, 2), 0.5, False)
    yield Sample(make(2, 3, 2, 2), 1.0, True)


@composite(USER.format(True), namespace="nn.functional", samples=_plane_samples)
def dropout2d(x: TensorLike, p: float, training: bool, inplace: bool) -> Any:
    """Drops whole channels of `(N, C, H, W)` while training, and scales the others up."""
    _check(p, ValueError)
    rank = len(type_of(x).shape)
    _deprecated(2, rank)
    if rank == 3:
        warn(
            "dropout2d: Received a 3D input to dropout2d and assuming that channel-wise 1D dropout behavior "
            "is desired - input is interpreted as shape (N, C, L), where C is the channel dim. This behavior "
            "will change in a future release to interpret the input as one without a batch dimension, i.e. "
            "shape (C, H, W). To maintain the 1D channel-wise dropout behavior, please switch to using "
            "dropout1d instead."
        )
    return _channels(x, p, training, inplace, True)


def _volume_samples(make: Maker) -> Iterator[Sample]:
    yield Sample(make(2, 3, 2, 2, 1), 0.5, False)
    yield Sample(make(3, 2, 2, 1), 1.0, True)


@composite(USER.format(True), namespace="nn.functional", samples=_volume_samples)
def dropout3d(x: TensorLike, p: float, training: bool, inplace: bool) -> Any:
    """Drops whole channels of `(N, C, D, H, W)` or `(C, D, H, W)` while training, scales the others up."""
    _check(p, ValueError)
    rank = len(type_of(x).shape)
    _deprecated(3, rank)
    return _channels(x, p, training, inplace, rank == 5)


# -- randomised leaky ReLU -----------------------------------------------------------------------------------
RRELU = "input: Tensor, lower: float = 0.125, upper: float = 0.3333333333333333, training: bool = False"


def _randomised(x: Any, lower: float, upper: float, training: bool, inplace: bool) -> Any:
    """Negative elements times a slope: drawn for each while training, the mean one otherwise."""
    kind = type_of(x)
    name = "rrelu_with_noise_out_cpu" if training else "leaky_relu_cpu"
    if not kind.dtype.is_floating_point:
        raise unsupported(name, kind.dtype)
    if lower > upper:
        raise RuntimeError("Lower bound should be less than or equal to the upper bound")
    if not training:
        return ops.nn_functional_leaky_relu(x, (lower + upper) / 2, inplace)

    def slopes() -> Any:
        return ops.where(ops.le(x, 0), ops.uniform(ops.empty_like(x), lower, upper), 1.0)

    noise = no_grad(slopes)
    return x.mul_(noise) if inplace else ops.mul(x, noise)


def _slope_samples(make: Maker) -> Iterator[Sample]:
    yield Sample(make(2, 3), 0.1, 0.3, False)


@composite(f"{RRELU}, inplace: bool = False", namespace="nn.functional", samples=_slope_samples)
def rrelu(x: TensorLike, lower: float, upper: float, training: bool, inplace: bool) -> Any:
    """Leaky ReLU whose slope is drawn between `lower` and `upper` while training."""
    return _randomised(x, lower, upper, training, inplace)


@composite(
    f"{RRELU}, generator: Generator = None",
    name="rrelu",
    method=False,
    inplace=True,
    samples=_slope_samples,
)
def _rrelu(x: TensorLike, lower: float, upper: float, training: bool, generator: Generator | None) -> Any:
    """Leaky ReLU whose slope is drawn between `lower` and `upper` while training."""
    return _randomised(x, lower, upper, training, False)
