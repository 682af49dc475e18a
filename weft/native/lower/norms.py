"""Lowering of normalisations over channels: batch norm and group norm.

Gives rules for `weft.native.lower.lowering`. One idea: they are the formulas of the eager kernels, over
definitions,
so that whatever comes before and after is computed in the same loops.
"""

from __future__ import annotations

from math import prod
from typing import Any

from weft.native.ir.definitions import Definition, Shape, broadcast, reshaped
from weft.native.lower.folds import each, floating, inverse, mean, normal
from weft.native.lower.lowering import Lowering, Unlowered, rule


def channels(value: Definition, rank: int) -> Definition:
    """One number per channel, so that it goes along with `(N, C, *spatial)`."""
    return reshaped(value, (1, value.shape[0], *(1,) * (rank - 2)))


def known(x: Definition, *parameters: Any) -> None:
    floating(x)
    if 0 in x.shape:
        raise Unlowered("a normalisation of an empty tensor")
    for each_ in parameters:
        if each_ is not None and each_.type != x.type:
            raise Unlowered(f"a normalisation of {x.type} with parameters of {each_.type}")


def affine(value: Definition, weight: Any, bias: Any) -> Definition:
    if weight is not None:
        value = each(lambda b, v, w: b.mul(v, w), value, weight, name="weight")
    if bias is not None:
        value = each(lambda b, v, w: b.add(v, w), value, bias, name="bias")
    return value


@rule("batch_norm_training", numbers="floats")
def _training(
    _lowering: Lowering, x: Definition, weight: Any, bias: Any, eps: float
) -> tuple[Definition, Definition, Definition]:
    known(x, weight, bias)
    rank = len(x.shape)
    dims = (0, *range(2, rank))
    middle = mean(x, dims, True)
    centred = each(lambda b, v, m: b.sub(v, m), x, middle, name="centre")
    spread = mean(each(lambda b, v: b.mul(v, v), centred, name="square"), dims, True)
    scale = inverse(spread, eps)
    if weight is not None:
        scale = each(lambda b, s, w: b.mul(s, w), scale, channels(weight, rank), name="scale")
    scale.kept = True
    made = each(lambda b, v, s: b.mul(v, s), centred, scale, name="batch_norm")
    if bias is not None:
        made = each(lambda b, v, w: b.add(v, w), made, channels(bias, rank), name="batch_norm")
    return made, reshaped(middle, (x.shape[1],)), reshaped(spread, (x.shape[1],))


@rule("batch_norm_inference", numbers="floats")
def _inference(
    _lowering: Lowering,
    x: Definition,
    weight: Any,
    bias: Any,
    middle: Definition,
    spread: Definition,
    eps: float,
) -> Definition:
    known(x, weight, bias, middle, spread)
    rank = len(x.shape)
    scale = inverse(spread, eps)
    if weight is not None:
        scale = each(lambda b, s, w: b.mul(s, w), scale, weight, name="scale")
    scale.kept = True
    shift = each(lambda b, m, s: b.mul(b.neg(m), s), middle, scale, name="shift")
    if bias is not None:
        shift = each(lambda b, m, w: b.add(m, w), shift, bias, name="shift")
    return each(
        lambda b, v, s, m: b.add(b.mul(v, s), m),
        x,
        broadcast(channels(scale, rank), x.shape),
        broadcast(channels(shift, rank), x.shape),
        name="batch_norm",
    )


@rule("group_norm", numbers="floats")
def _group_norm(
    _lowering: Lowering, x: Definition, groups: int, weight: Any, bias: Any, eps: float, _cudnn: bool
) -> Definition:
    known(x, weight, bias)
    inner = x.shape[1] // groups
    shape: Shape = (x.shape[0], groups, inner, prod(x.shape[2:]))
    made, _ = normal(reshaped(x, shape), (2, 3), eps)
    parts = [None if p is None else reshaped(p, (1, groups, inner, 1)) for p in (weight, bias)]
    return reshaped(affine(made, *parts), x.shape)
