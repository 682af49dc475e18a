"""Losses with margins, losses over several labels, and likelihoods of counts and of normal variables.

Takes predictions and targets; gives a number, or one per example with `reduction="none"`. The one idea: all
are written in ops, so that gradients of every order follow; only what looks at values to refuse them is a
record of its own.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from weft.core.arrays import Array, namespace
from weft.core.dtypes import float32, float64, int64
from weft.core.symbolic import applied
from weft.core.types import Size, TensorType
from weft.ops.batching import unchanged
from weft.ops.families import HIDDEN, composite, index
from weft.ops.losses import (
    LEGACY,
    PLACE,
    REDUCTION,
    REDUCTIONS,
    Legacy,
    legacy_reduction,
    loss_of_elements,
    reduced,
)
from weft.ops.normalisation import pairwise_distance
from weft.ops.record import Op, ops, type_of, unsupported
from weft.ops.samples import Maker, Sample
from weft.ops.values import MaybeTensor, TensorLike


def _signs(make: Maker, *shape: int) -> Any:
    """Targets of -1 and 1."""
    return np.asarray(make.ints(*shape, high=2) * 2 - 1)


# -- pairs ---------------------------------------------------------------------------------------------------
def _cosine_samples(make: Maker) -> Iterator[Sample]:
    for reduction in REDUCTIONS:
        yield Sample(make(4, 3), make(4, 3), _signs(make, 4), margin=-0.5, reduction=reduction)
    yield Sample(make(3), make(3), _signs(make))


@loss_of_elements("input1: Tensor, input2: Tensor, target: Tensor, margin: float = 0", _cosine_samples)
def cosine_embedding_loss(input1: TensorLike, input2: TensorLike, target: TensorLike, margin: float) -> Any:
    """One minus the cosine where the target is 1; the cosine above a margin where it is -1."""
    one, two, rank = type_of(input1), type_of(input2), type_of(target).ndim
    if rank > 1:
        raise RuntimeError("0D or 1D target tensor expected, multi-target not supported")
    if one.ndim != rank + 1 or two.ndim != rank + 1:
        raise RuntimeError(
            f"{rank}D target tensor expects {rank + 1}D input tensors, but found inputs with sizes "
            f"{list(one.shape)} and {list(two.shape)}."
        )
    lengths = [ops.add(ops.sum(ops.mul(x, x), rank), 1e-12) for x in (input1, input2)]
    cosine = ops.div(ops.sum(ops.mul(input1, input2), rank), ops.sqrt(ops.mul(*lengths)))
    alike = ops.where(ops.eq(target, 1), ops.rsub(cosine, 1), 0)
    apart = ops.where(ops.eq(target, -1), ops.clamp_min(ops.sub(cosine, margin), 0), 0)
    return ops.add(alike, apart)


def _hinge_samples(make: Maker) -> Iterator[Sample]:
    for reduction in REDUCTIONS:
        yield Sample(make(2, 3), _signs(make, 2, 3), reduction=reduction)
    yield Sample(make(), _signs(make), 0.5)


@loss_of_elements("input: Tensor, target: Tensor, margin: float = 1.0", _hinge_samples)
def hinge_embedding_loss(input: TensorLike, target: TensorLike, margin: float) -> Any:
    """The input where the target is 1; what it lacks of a margin where the target is -1."""
    margin = margin if type_of(input).dtype.category >= 2 else int(margin)
    short = ops.where(ops.ne(target, 1), ops.clamp_min(ops.rsub(input, margin), 0), 0)
    return ops.add(short, ops.where(ops.ne(target, -1), input, 0))


def _ranking_samples(make: Maker) -> Iterator[Sample]:
    for reduction in REDUCTIONS:
        yield Sample(make(4), make(4), _signs(make, 4), 0.3, reduction=reduction)
    yield Sample(make(2, 3), make(2, 3), _signs(make, 2, 3))


@loss_of_elements("input1: Tensor, input2: Tensor, target: Tensor, margin: float = 0", _ranking_samples)
def margin_ranking_loss(input1: TensorLike, input2: TensorLike, target: TensorLike, margin: float) -> Any:
    """How far the first is from exceeding the second (target 1) or the second the first (target -1)."""
    shapes = [Size(type_of(x).shape) for x in (input1, input2, target)]
    if len({len(shape) for shape in shapes}) > 1:
        raise RuntimeError(
            "margin_ranking_loss : All input tensors should have same dimension but got sizes: "
            f"input1: {shapes[0]}, input2: {shapes[1]}, target: {shapes[2]} "
        )
    gap = ops.mul(ops.neg(target), ops.sub(input1, input2))
    return ops.clamp_min(ops.add(gap, applied(float, margin)), 0)


def _soft_samples(make: Maker) -> Iterator[Sample]:
    for reduction in REDUCTIONS:
        yield Sample(make(2, 3), _signs(make, 2, 3), reduction=reduction)


@loss_of_elements("input: Tensor, target: Tensor", _soft_samples)
def soft_margin_loss(input: TensorLike, target: TensorLike) -> Any:
    """The logistic loss with targets -1 and 1: log(1 + exp(-target * input))."""
    kind = type_of(input).dtype
    if kind.category < 2:
        raise RuntimeError(f"result type Float can't be cast to the desired output type {kind.scalar_name}")
    return ops.log1p(ops.exp(ops.mul(ops.neg(input), target)))


# -- triplets ------------------------------------------------------------------------------------------------
def _triplet_samples(make: Maker) -> Iterator[Sample]:
    yield Sample(make(3, 4), make(3, 4), make(3, 4), margin=3.0)
    yield Sample(make(3, 4), make(3, 4), make(3, 4), 3.0, 1.5, swap=True, reduction="sum")
    yield Sample(make(4), make(4), make(4), 5.0, reduction="none")


@loss_of_elements(
    "anchor: Tensor, positive: Tensor, negative: Tensor, margin: float = 1.0, p: float = 2, eps: float = "
    "1e-06, swap: bool = False",
    _triplet_samples,
)
def triplet_margin_loss(
    anchor: TensorLike,
    positive: TensorLike,
    negative: TensorLike,
    margin: float,
    p: float,
    eps: float,
    swap: bool,
) -> Any:
    """How much nearer the anchor is to `negative` than to `positive`, plus a margin, where that is
    positive."""
    if margin <= 0:
        raise ValueError(f"margin must be greater than 0, got {margin}")
    ranks = [len(type_of(x).shape) for x in (anchor, positive, negative)]
    if len(set(ranks)) > 1:
        raise RuntimeError(
            "The anchor, positive, and negative tensors are expected to have the same number of dimensions, "
            "but got: anchor "
            f"{ranks[0]}D, positive {ranks[1]}D, and negative {ranks[2]}D inputs"
        )
    near = pairwise_distance(anchor, positive, p, eps)
    far = pairwise_distance(anchor, negative, p, eps)
    if swap:
        far = ops.minimum(far, pairwise_distance(positive, negative, p, eps))
    return ops.clamp_min(ops.sub(ops.add(near, margin), far), 0)


# -- classes -------------------------------------------------------------------------------------------------
def _class_shape(x: TensorType) -> tuple[int, int]:
    """(examples, classes), or PyTorch's complaint."""
    if x.ndim > 2 or 0 in x.shape[x.ndim - 1 :]:
        raise RuntimeError(
            f"Expected non-empty vector or matrix with optional 0-dim batch size, but got: {list(x.shape)}"
        )
    classes = x.shape[-1] if x.ndim else 1
    return (x.shape[0] if x.ndim == 2 else 1), classes


def _only_long(target: TensorType) -> None:
    if target.dtype is not int64:
        raise RuntimeError(f"expected scalar type Long but found {target.dtype.scalar_name}")


def _within_kernel(target: Array, low: int, high: int, message: str) -> Array:
    if target.size and (int(target.min()) < low or int(target.max()) >= high):
        raise RuntimeError(message)
    return target.copy()


within: Op = index(
    "within", _within_kernel, lambda target, low, high, message: target,
    "input: Tensor, low: int, high: int, message: str", batch=unchanged,
    samples=lambda make: [Sample(make.ints(3, high=4), 0, 4, "out of range")], **HIDDEN,
    refuses="integers",
)  # fmt: skip
"""The same numbers; refuses those outside [low, high)."""


def _multi_samples(make: Maker) -> Iterator[Sample]:
    for reduction in REDUCTIONS:
        yield Sample(make(4, 3), make.ints(4, high=3), reduction=reduction)
    yield Sample(make(4, 3), make.ints(4, high=3), 2, 0.7, make(3, low=0.5))
    yield Sample(make(3), make.ints(high=3))


@loss_of_elements(
    "input: Tensor, target: Tensor, p: int = 1, margin: float = 1.0, weight: MaybeTensor = None",
    _multi_samples,
)
def multi_margin_loss(
    input: TensorLike, target: TensorLike, p: int, margin: float, weight: MaybeTensor
) -> Any:
    """How far each class comes within a margin of the target's, averaged over classes."""
    if p not in (1, 2):
        raise ValueError("only p == 1 and p == 2 supported")
    if weight is not None and len(type_of(weight).shape) != 1:
        raise ValueError("weight must be one-dimensional")
    have, wanted = type_of(input), type_of(target)
    count, classes = _class_shape(have)
    if wanted.ndim > 1 or wanted.numel() != count:
        raise RuntimeError(
            "multi_margin_loss: target tensor should be 1-D with size equal to the number of input samples "
            f"(batch size). Expected target size [{count}], but got {list(wanted.shape)}. Input has shape "
            f"{list(have.shape)}."
        )
    if weight is not None and type_of(weight).numel() != classes:
        raise RuntimeError(
            f"inconsistent weight size, expected {classes} but got {list(type_of(weight).shape)}"
        )
    if have.dtype not in (float32, float64):
        raise unsupported("multi_margin_loss_cpu_kernel", have.dtype)
    _only_long(wanted)
    x = ops.reshape(input, (count, classes))
    place = ops.reshape(within(target, 0, classes, "target out of range"), (count, 1))
    excess = ops.clamp_min(ops.add(ops.sub(x, ops.gather(x, 1, place)), margin), 0)
    excess = excess if p == 1 else ops.mul(excess, excess)
    if weight is not None:
        excess = ops.mul(excess, ops.reshape(ops.index_select(weight, 0, ops.reshape(place, (-1,))), (-1, 1)))
    loss = ops.div(ops.sum(ops.where(_others(place, classes), excess, 0), 1), classes)
    return ops.reshape(loss, tuple(wanted.shape))


def _others(place: TensorLike, classes: int) -> Any:
    """True for every class but the one at each place `(N, 1)`."""
    return ops.ne(_numbers(place, classes), place)


def _numbers(like: TensorLike, classes: int) -> Any:
    """0, 1, … as a row beside an integer tensor."""
    ones = ops.new_ones(like, (classes,))
    return ops.sub(ops.cumsum(ones, 0), 1)


def _label_samples(make: Maker) -> Iterator[Sample]:
    target = make.ints(2, 4, high=4)
    target[0, 2] = -1
    for reduction in REDUCTIONS:
        yield Sample(make(2, 4), target, reduction=reduction)
    yield Sample(make(4), target[0])


@loss_of_elements("input: Tensor, target: Tensor", _label_samples)
def multilabel_margin_loss(input: TensorLike, target: TensorLike) -> Any:
    """The margins between all target classes and all others; targets end at the first -1."""
    have, wanted = type_of(input), type_of(target)
    count, classes = _class_shape(have)
    if wanted.numel() != have.numel() or wanted.ndim > max(have.ndim, 1) or (
        have.ndim == 2 and wanted.shape != have.shape
    ):  # fmt: skip
        raise RuntimeError(
            f"inconsistent target size: {list(wanted.shape)} for input of size: {list(have.shape)}"
        )
    if have.dtype not in (float32, float64):
        raise unsupported("multilabel_margin_loss_forward_out_frame", have.dtype)
    _only_long(wanted)
    x = ops.reshape(input, (count, classes))
    label = within(target, -1, classes, "argument #2 'target' is out of range")
    label = ops.reshape(label, (count, classes))
    listed = ops.gt(ops.cumprod(ops._to_copy(ops.ge(label, 0), int64), 1), 0)
    place = ops.where(listed, label, 0)
    named = ops.eq(ops.unsqueeze(place, 2), _numbers(label, classes))
    named = ops.any(ops.logical_and(named, ops.unsqueeze(listed, 2)), 1)
    gap = ops.sub(ops.unsqueeze(x, 1), ops.unsqueeze(ops.gather(x, 1, place), 2))
    counted = ops.logical_and(ops.unsqueeze(listed, 2), ops.unsqueeze(ops.logical_not(named), 1))
    excess = ops.where(counted, ops.clamp_min(ops.add(gap, 1), 0), 0)
    loss = ops.div(ops.sum(excess, (1, 2)), classes)
    return loss if have.ndim == 2 else ops.reshape(loss, ())


def _soft_label_samples(make: Maker) -> Iterator[Sample]:
    for reduction in REDUCTIONS:
        yield Sample(make(2, 3), make(2, 3, low=0, high=1), reduction=reduction)
    yield Sample(make(2, 3), make(2, 3, low=0, high=1), make(3, low=0.5))


@composite(
    f"input: Tensor, target: Tensor, weight: MaybeTensor = None, {LEGACY}, {REDUCTION}",
    samples=_soft_label_samples,
    **PLACE,
)
def multilabel_soft_margin_loss(
    input: TensorLike, target: TensorLike, weight: MaybeTensor, size_average: Legacy, reduce: Legacy,
    reduction: str,
) -> Any:  # fmt: skip
    """The cross entropy of each class's sigmoid with its target, averaged over classes."""
    reduction = legacy_reduction(size_average, reduce, reduction)
    if reduction not in REDUCTIONS:
        raise ValueError(f"{reduction} is not valid")
    sure, unsure = ops.nn_functional_logsigmoid(input), ops.nn_functional_logsigmoid(ops.neg(input))
    loss = ops.neg(ops.add(ops.mul(target, sure), ops.mul(ops.rsub(target, 1), unsure)))
    loss = loss if weight is None else ops.mul(loss, weight)
    last = type_of(input).ndim - 1
    return reduced(ops.div(ops.sum(loss, last), type_of(input).shape[last]), reduction)


# -- likelihoods ---------------------------------------------------------------------------------------------
def _poisson_samples(make: Maker) -> Iterator[Sample]:
    for reduction in REDUCTIONS:
        yield Sample(make(2, 3), make(2, 3, low=0.1), reduction=reduction)
    yield Sample(make(2, 3, low=0.3), make(2, 3, low=0.1, high=4), False, True)


@loss_of_elements(
    "input: Tensor, target: Tensor, log_input: bool = True, full: bool = False, size_average: Any = "
    f"None, eps: float = 1e-08, reduce: Any = None, {REDUCTION}",
    _poisson_samples,
)
def poisson_nll_loss(input: TensorLike, target: TensorLike, log_input: bool, full: bool, eps: float) -> Any:
    """The negative log-likelihood of counts under Poisson distributions of these rates (or log-rates)."""
    if log_input:
        loss = ops.sub(ops.exp(input), ops.mul(target, input))
    else:
        loss = ops.sub(input, ops.mul(target, ops.log(ops.add(input, eps))))
    if full:
        stirling = ops.add(
            ops.sub(ops.mul(target, ops.log(target)), target),
            ops.mul(ops.log(ops.mul(target, 2 * math.pi)), 0.5),
        )
        loss = ops.add(loss, ops.masked_fill(stirling, ops.le(target, 1), 0))
    return loss


def _variance_kernel(variance: Array, eps: float) -> Array:
    if (variance < 0).any():
        raise ValueError("var has negative entry/entries")
    return namespace(variance).maximum(variance, variance.dtype.type(eps))


variance_above: Op = index(
    "variance_above", _variance_kernel, lambda variance, eps: variance, "input: Tensor, eps: float",
    vjp=lambda g: g, batch=unchanged, samples=lambda make: [Sample(make(2, 3, low=0.5), 1e-6)],
    **HIDDEN,
)  # fmt: skip
"""A variance kept above eps, to which gradients flow as if it had not been; negative ones are refused."""


def _gaussian_samples(make: Maker) -> Iterator[Sample]:
    for reduction in REDUCTIONS:
        yield Sample(make(2, 3), make(2, 3), make(2, 3, low=0.5), reduction=reduction)
    yield Sample(make(2, 3), make(2, 3), make(2, low=0.5), True)
    yield Sample(make(2, 3), make(2, 3), make(2, 1, low=0.5))
    yield Sample(make(2, 3), make(2, 3), 0.7)


@composite(
    f"input: Tensor, target: Tensor, var: Operand, full: bool = False, eps: float = 1e-06, {REDUCTION}",
    samples=_gaussian_samples,
    **PLACE,
)
def gaussian_nll_loss(
    input: TensorLike, target: TensorLike, var: TensorLike | float, full: bool, eps: float, reduction: str
) -> Any:
    """The negative log-likelihood of targets under normal distributions of these means and variances."""
    if not hasattr(var, "shape"):
        if var < 0:
            raise ValueError("var has negative entry/entries")
        var = ops.mul(ops.ones_like(input), var)
    shape, spread = tuple(type_of(input).shape), tuple(type_of(var).shape)
    if spread != shape:
        if shape[:-1] == spread:
            var = ops.unsqueeze(var, -1)
        elif len(shape) != len(spread) or sum(y for x, y in zip(shape, spread, strict=True) if x != y) != 1:
            raise ValueError("var is of incorrect size")
    if reduction not in REDUCTIONS:
        raise ValueError(f"{reduction} is not valid")
    var = variance_above(var, eps)
    gap = ops.sub(input, target)
    loss = ops.mul(ops.add(ops.log(var), ops.div(ops.mul(gap, gap), var)), 0.5)
    if full:
        loss = ops.add(loss, 0.5 * math.log(2 * math.pi))
    return reduced(loss, reduction)
