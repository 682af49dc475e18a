"""Lowering of resizing and of adaptive averages: weighted sums along one axis after the other.

Gives rules for `weft.native.lower.lowering`. One idea: the tables of places and weights are those of the
eager
kernels, and so is the order of the axes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from weft.native.ir.definitions import Definition, Shape, broadcast, reshaped
from weft.native.ir.scalar import TYPES
from weft.native.ir.spatial import WeightedPlaces
from weft.native.lower.folds import each
from weft.native.lower.lowering import Lowering, Unlowered, rule
from weft.native.lower.pools import Windows, averaged, divided, divisor_of, floating, in_order, regular
from weft.native.target import Target
from weft.ops.kernels import pooling, resize
from weft.ops.pooling import adaptive_size


def summed(target: Target, x: Definition, axis: int, lists: WeightedPlaces, name: str) -> Definition:
    """Weighted sums along an axis."""
    base, start = in_order(x)
    return target.weighted_sums(base, start, x.shape, axis, lists, x.type, name)


def lists_of(table: Any) -> WeightedPlaces:
    counts = table.counts.tolist()
    places, weights = table.places.T.tolist(), table.weights.T.tolist()
    return [list(zip(p, w))[:n] for p, w, n in zip(places, weights, counts)]


def resampled(target: Target, x: Definition, tables: list[Any], name: str) -> Definition:
    """The order of the axes is that of the eager kernel."""
    floating(x)
    lead = len(x.shape) - len(tables)
    have, want = x.shape[lead:], [table.counts.size for table in tables]
    if 0 in want:
        raise Unlowered("interpolation to an empty size")
    order = sorted(range(len(tables)), key=lambda axis: (want[axis] / max(have[axis], 1), -axis))
    for axis in order:
        lists = lists_of(tables[axis])
        if lists != [[(place, 1.0)] for place in range(have[axis])]:
            x = summed(target, x, lead + axis, lists, name)
    return x


def upsample_rule(mode: str, antialias: bool) -> Callable[..., Any]:
    def lowered(lowering: Lowering, x: Definition, size: Any, align: bool, scales: Any) -> Definition:
        size = tuple(size)
        tables = resize._tables(
            TYPES[x.type], x.shape[len(x.shape) - len(size) :], size, mode, align, scales, antialias
        )
        return resampled(lowering.target, x, [table[0] for table in tables], "upsample")

    return lowered


@rule("upsample_backward")
def _upsample_backward(
    lowering: Lowering, g: Definition, size: Any, mode: str, align: bool, scales: Any, antialias: bool
) -> Definition:
    size = tuple(size)
    lead = len(g.shape) - len(size)
    if mode == "area":
        raise Unlowered("the gradient of interpolation with mode area")
    tables = resize._tables(TYPES[g.type], size, g.shape[lead:], mode, align, scales, antialias)
    return resampled(lowering.target, g, [table[1] for table in tables], "upsample_backward")


for _axes in (1, 2, 3):
    rule(f"upsample_nearest{_axes}d")(upsample_rule("nearest", False))
    rule(f"_upsample_nearest_exact{_axes}d")(upsample_rule("nearest-exact", False))
for _name, _mode in (("linear1d", "linear"), ("bilinear2d", "bilinear"), ("trilinear3d", "trilinear")):
    rule(f"upsample_{_name}")(upsample_rule(_mode, False))
rule("upsample_bicubic2d")(upsample_rule("bicubic", False))
rule("_upsample_bilinear2d_aa")(upsample_rule("bilinear", True))
rule("_upsample_bicubic2d_aa")(upsample_rule("bicubic", True))


# -- adaptive averages ---------------------------------------------------------------------------------------
def adaptive_sums(target: Target, x: Definition, lead: int, counts: Shape) -> Definition:
    """The sums of adaptive windows, axis by axis."""
    for axis, count in enumerate(counts, lead):
        size = x.shape[axis]
        if size != count:
            starts, stops = pooling._adaptive_windows(size, count)
            lists = [[(place, 1.0) for place in range(a, b)] for a, b in zip(starts, stops)]
            x = summed(target, x, axis, lists, "adaptive_avg_pool")
    return x


def all_alike(sizes: Shape, counts: Shape) -> bool:
    return all(size % count == 0 for size, count in zip(sizes, counts))


def adaptive_rule(axes: int) -> Callable[..., Any]:
    def lowered(lowering: Lowering, x: Definition, size: Any) -> Definition:
        floating(x)
        counts = tuple(adaptive_size("adaptive_avg_pool", axes, size, x.shape))
        lead = len(x.shape) - axes
        if 0 in counts:
            raise Unlowered("adaptive average pooling to an empty size")
        if all_alike(x.shape[lead:], counts):
            shape = (*x.shape[:lead], *counts)
            return averaged(lowering.target, x, shape, regular(x.shape[lead:], counts), True, None, axes)
        divisor = pooling._adaptive_divisor(np, x.shape[lead:], counts, np.float64)
        sums = adaptive_sums(lowering.target, x, lead, counts)
        unsigned = each(lambda b, v: b.add(v, b.like(0.0, v)), sums, name="sums")  # as from zero
        return divided(unsigned, divisor)

    return lowered


@rule("adaptive_avg_pool_backward")
def _adaptive_backward(lowering: Lowering, g: Definition, shape: Any, axes: int) -> Definition:
    floating(g)
    shape = tuple(shape)
    lead = len(g.shape) - axes
    counts = g.shape[lead:]
    if not all_alike(shape[lead:], counts):
        share = divided(g, pooling._adaptive_divisor(np, shape[lead:], counts, np.float64))
        return adaptive_sums(lowering.target, share, lead, shape[lead:])
    geometry = regular(shape[lead:], counts)
    share = divided(g, divisor_of(shape, counts, geometry, True, None, g.type))
    if counts == (1,) * axes:
        return broadcast(share, shape)
    return reshaped(Windows(lowering.target, shape, counts, geometry, g.type).shares(share), shape)


for _axes in (1, 2, 3):
    rule(f"{'' if _axes == 1 else 'nn.functional.'}adaptive_avg_pool{_axes}d")(adaptive_rule(_axes))
