"""Lowering of losses: squared errors, and what targets that are classes pick.

Gives rules for `weft.native.lower.lowering`. One idea: an element of the class that a target names is the sum
over all
classes of those elements of which that is true, so picking is a fold like any other, and becomes a part of
the kernel that computes logarithms of probabilities.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from weft.native.ir.definitions import Definition, Shape, broadcast, reshaped
from weft.native.ir.scalar import FLOATS, Builder, Value
from weft.native.lower.folds import cast, each, folded, result_type
from weft.native.lower.indexing import as_index, fail
from weft.native.lower.lowering import Lowering, Unlowered, point, rule
from weft.native.maths import emitting as maths


def reduced(losses: Definition, reduction: str, total: Definition | None = None) -> Definition:
    """The elements, their sum, or that by a total (how many there are, if none is given)."""
    if reduction == "none":
        return losses
    axes = tuple(range(len(losses.shape)))
    count = losses.size
    summed = folded("sum", losses, axes, False, "loss") if axes else losses
    if reduction == "sum":
        return summed
    if total is not None:
        return each(lambda b, s, t: b.div(s, t), summed, total, name="mean")
    return each(lambda b, s: b.div(s, b.like(count, s)), summed, name="mean")


@rule("mse_loss")
def _mse(lowering: Lowering, x: Definition, y: Definition, reduction: str) -> Definition:
    kind = result_type(lowering)
    if kind not in FLOATS or not x.size:
        raise Unlowered("mse_loss of an empty or integer tensor")

    def square(b: Builder, left: Value, right: Value) -> Value:
        difference = b.sub(left, right)
        return b.mul(difference, difference)

    return reduced(each(square, cast(x, kind), cast(y, kind), name="mse_loss", cost=2), reduction)


@rule("binary_cross_entropy")
def _cross_entropy(lowering: Lowering, x: Definition, y: Definition) -> Definition:
    kind = result_type(lowering)
    if kind not in FLOATS or x.type != kind or y.type != kind or not x.size or not y.size:
        raise Unlowered("binary_cross_entropy of mixed dtypes, integers or empty tensors")

    def outside(b: Builder, v: list[Value], _place: Any) -> Value:
        zero, one = b.like(0, v[0]), b.like(1, v[0])
        return b.not_(b.and_(b.ge(v[0], zero), b.le(v[0], one)))

    for value in (x, y):
        fail(lowering, point(outside, value.shape, "b1", (value,), "no probability", 4))

    def entropy(b: Builder, p: Value, t: Value) -> Value:
        least = b.like(-100, p)
        no = b.max(maths.log1p(b, b.neg(p)), least)
        yes = b.max(maths.log(b, p), least)
        return b.sub(b.mul(b.sub(t, b.like(1, t)), no), b.mul(t, yes))

    return each(entropy, x, y, name="binary_cross_entropy", cost=60)


# -- classes -------------------------------------------------------------------------------------------------
class Targets:
    """Targets among classes along an axis of predictions of this shape."""

    def __init__(
        self,
        lowering: Lowering,
        target: Definition,
        weight: Definition | None,
        shape: Shape,
        ignore: int,
        kind: str,
    ) -> None:
        self.axis = 1 if len(shape) > 1 else 0
        self.shape, self.classes = shape, shape[self.axis]
        self.rest = (*shape[: self.axis], *shape[self.axis + 1 :])
        if not target.size or not self.classes or kind not in FLOATS:
            raise Unlowered("a loss without targets or classes, or of integers")
        if weight is not None and weight.type != kind:
            raise Unlowered("class weights of another dtype than the input")
        self.target = reshaped(as_index(target), self.rest)
        self.ignore, self.weight, self.kind = ignore, weight, kind
        fail(lowering, point(self.bad, self.rest, "b1", (self.target,), "no class", 6))

    def kept(self, b: Builder, target: Value) -> Value:
        return b.ne(target, b.const(self.ignore, "i64"))

    def bad(self, b: Builder, values: list[Value], _place: Any) -> Value:
        target = values[0]
        out = b.or_(b.lt(target, b.const(0, "i64")), b.ge(target, b.const(self.classes, "i64")))
        return b.and_(self.kept(b, target), out)

    def spread(self, value: Definition) -> Definition:
        """What there is for each target, for each class."""
        lengths = (*self.shape[: self.axis], 1, *self.shape[self.axis + 1 :])
        return broadcast(reshaped(value, lengths), self.shape)

    def across(self, value: Definition) -> Definition:
        """What there is for each class, for each target."""
        lengths = [1] * len(self.shape)
        lengths[self.axis] = self.classes
        return broadcast(reshaped(value, tuple(lengths)), self.shape)

    def named(self, operands: Sequence[Definition], make: Any, name: str) -> Definition:
        """`make` where an element's class is its target and not ignored; 0 elsewhere."""

        def written(b: Builder, values: list[Value], place: Any) -> Value:
            target, *others = values
            hit = b.and_(b.eq(target, place(self.axis)), self.kept(b, target))
            found = make(b, *others)
            return b.select(hit, found, b.like(0, found))

        return point(written, self.shape, self.kind, (self.spread(self.target), *operands), name, 4)

    def picked(self, x: Definition) -> Definition:
        """The element of each target's class; 0 for those that are ignored."""
        found = self.named((x,), lambda b, value: value, "nll_loss")
        return folded("sum", found, (self.axis,), False, "nll_loss")

    def ones(self) -> Definition:
        """1 for each target that is not ignored, 0 for others."""

        def one(b: Builder, values: list[Value], _place: Any) -> Value:
            return b.cast(self.kept(b, values[0]), self.kind)

        return point(one, self.rest, self.kind, (self.target,), "kept", 2)

    def total(self) -> Definition:
        """What a mean is divided by."""
        return reduced(self.ones() if self.weight is None else self.picked(self.across(self.weight)), "sum")


@rule("nll_loss")
def _nll(
    lowering: Lowering, x: Definition, target: Definition, weight: Any, reduction: str, ignore: int
) -> Definition:
    targets = Targets(lowering, target, weight, x.shape, ignore, x.type)
    losses = each(lambda b, v: b.sub(b.like(0, v), v), targets.picked(x), name="nll_loss")
    if weight is not None:
        losses = each(lambda b, v, w: b.mul(v, w), losses, targets.picked(targets.across(weight)))
    return reduced(losses, reduction, targets.total() if reduction == "mean" else None)


@rule("nll_loss_backward")
def _nll_backward(
    lowering: Lowering,
    grad: Definition,
    target: Definition,
    weight: Any,
    shape: Any,
    reduction: str,
    ignore: int,
) -> Definition:
    targets = Targets(lowering, target, weight, tuple(shape), ignore, grad.type)
    scale = each(lambda b, g: b.neg(g), grad, name="nll_loss_backward")
    if reduction == "mean":
        scale = each(lambda b, s, t: b.div(s, t), scale, targets.total(), name="nll_loss_backward")
    scale = targets.spread(
        broadcast(scale, targets.rest) if scale.size == 1 else reshaped(scale, targets.rest)
    )
    if weight is None:
        return targets.named((scale,), lambda b, value: value, "nll_loss_backward")

    def weighted(b: Builder, value: Value, by: Value) -> Value:
        return b.select(b.eq(by, b.like(0, by)), b.like(0, value), b.mul(value, by))

    return targets.named((scale, targets.across(weight)), weighted, "nll_loss_backward")
