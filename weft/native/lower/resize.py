"""Lowering of resizing and of adaptive averages: weighted sums along one axis after the other.

Gives rules for `weft.native.lower.lowering`. One idea: the tables of places and weights are those of the
eager
kernels, and so is the order of the axes.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np

from weft.native.cpu import resize_text
from weft.native.cpu.conv import MOVE, direct, lanes_of
from weft.native.cpu.engine import host
from weft.native.ir.definitions import Definition, Shape, broadcast, reshaped
from weft.native.ir.scalar import TYPES
from weft.native.lower.folds import each
from weft.native.lower.lowering import Lowering, Unlowered, rule
from weft.native.lower.pools import Windows, averaged, divided, divisor_of, floating, in_order, regular
from weft.ops.kernels import pooling, resize
from weft.ops.pooling import adaptive_size

Lists = list[list[tuple[int, float]]]
"""For each result, places and weights."""


def bits_of(number: float) -> int:
    return int(np.float64(number).view(np.int64))


def summed(x: Definition, axis: int, lists: Lists, name: str) -> Definition:
    """Weighted sums along an axis."""
    count, length = len(lists), x.shape[axis]
    inner, outer = prod(x.shape[axis + 1 :]), prod(x.shape[:axis])
    weighted = any(weight != 1.0 for row in lists for _, weight in row)
    base, start = in_order(x)
    width = host()[2]
    shape = (*x.shape[:axis], count, *x.shape[axis + 1 :])
    if inner > 1:
        starts, entries = [0], []
        for row in lists:
            entries += [number for place, weight in row for number in (place, bits_of(weight))]
            starts.append(len(entries) // 2)
        numbers = [count, length, inner, start, 8, 8 + len(starts), *starts, *entries]
        text, rows = resize_text.across(x.type, width, weighted), outer * count
    else:
        vectors, taps = lane_tables(lists, lanes_of(x.type, width))
        numbers = [count, length, start, len(vectors) // 3, 8, 8 + len(vectors), *vectors, *taps]
        text, rows = resize_text.along(x.type, width, weighted), outer
    return direct(text, name, shape, x.type, [base], numbers, rows, prod(shape) * MOVE * 2)


def lane_tables(lists: Lists, lanes: int) -> tuple[list[int], list[int]]:
    """Vectors of results along the last axis, and their taps."""
    vectors: list[int] = []
    taps: list[int] = []
    size = 1 + 2 * lanes
    for begin in range(0, len(lists), lanes):
        rows = lists[begin : begin + lanes]
        first = len(taps) // size
        for number in range(max(map(len, rows))):
            own = [row[number] if number < len(row) else None for row in rows]
            own += [None] * (lanes - len(rows))
            taps.append(sum(1 << lane for lane, each in enumerate(own) if each is not None))
            taps += [0 if each is None else each[0] for each in own]
            taps += [0 if each is None else bits_of(each[1]) for each in own]
        vectors += [first, len(taps) // size, (1 << len(rows)) - 1]
    return vectors, taps


def lists_of(table: Any) -> Lists:
    counts = table.counts.tolist()
    places, weights = table.places.T.tolist(), table.weights.T.tolist()
    return [list(zip(p, w))[:n] for p, w, n in zip(places, weights, counts)]


def resampled(x: Definition, tables: list[Any], name: str) -> Definition:
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
            x = summed(x, lead + axis, lists, name)
    return x


def upsample_rule(mode: str, antialias: bool) -> Callable[..., Any]:
    def lowered(_lowering: Lowering, x: Definition, size: Any, align: bool, scales: Any) -> Definition:
        size = tuple(size)
        tables = resize._tables(
            TYPES[x.type], x.shape[len(x.shape) - len(size) :], size, mode, align, scales, antialias
        )
        return resampled(x, [table[0] for table in tables], "upsample")

    return lowered


@rule("upsample_backward")
def _upsample_backward(
    _lowering: Lowering, g: Definition, size: Any, mode: str, align: bool, scales: Any, antialias: bool
) -> Definition:
    size = tuple(size)
    lead = len(g.shape) - len(size)
    if mode == "area":
        raise Unlowered("the gradient of interpolation with mode area")
    tables = resize._tables(TYPES[g.type], size, g.shape[lead:], mode, align, scales, antialias)
    return resampled(g, [table[1] for table in tables], "upsample_backward")


for _axes in (1, 2, 3):
    rule(f"upsample_nearest{_axes}d")(upsample_rule("nearest", False))
    rule(f"_upsample_nearest_exact{_axes}d")(upsample_rule("nearest-exact", False))
for _name, _mode in (("linear1d", "linear"), ("bilinear2d", "bilinear"), ("trilinear3d", "trilinear")):
    rule(f"upsample_{_name}")(upsample_rule(_mode, False))
rule("upsample_bicubic2d")(upsample_rule("bicubic", False))
rule("_upsample_bilinear2d_aa")(upsample_rule("bilinear", True))
rule("_upsample_bicubic2d_aa")(upsample_rule("bicubic", True))


# -- adaptive averages ---------------------------------------------------------------------------------------
def adaptive_sums(x: Definition, lead: int, counts: Shape) -> Definition:
    """The sums of adaptive windows, axis by axis."""
    for axis, count in enumerate(counts, lead):
        size = x.shape[axis]
        if size != count:
            starts, stops = pooling._adaptive_windows(size, count)
            lists = [[(place, 1.0) for place in range(a, b)] for a, b in zip(starts, stops)]
            x = summed(x, axis, lists, "adaptive_avg_pool")
    return x


def all_alike(sizes: Shape, counts: Shape) -> bool:
    return all(size % count == 0 for size, count in zip(sizes, counts))


def adaptive_rule(axes: int) -> Callable[..., Any]:
    def lowered(_lowering: Lowering, x: Definition, size: Any) -> Definition:
        floating(x)
        counts = tuple(adaptive_size("adaptive_avg_pool", axes, size, x.shape))
        lead = len(x.shape) - axes
        if 0 in counts:
            raise Unlowered("adaptive average pooling to an empty size")
        if all_alike(x.shape[lead:], counts):
            shape = (*x.shape[:lead], *counts)
            return averaged(x, shape, regular(x.shape[lead:], counts), True, None, axes)
        divisor = pooling._adaptive_divisor(np, x.shape[lead:], counts, np.float64)
        sums = adaptive_sums(x, lead, counts)
        unsigned = each(lambda b, v: b.add(v, b.like(0.0, v)), sums, name="sums")  # as from zero
        return divided(unsigned, divisor)

    return lowered


@rule("adaptive_avg_pool_backward")
def _adaptive_backward(_lowering: Lowering, g: Definition, shape: Any, axes: int) -> Definition:
    floating(g)
    shape = tuple(shape)
    lead = len(g.shape) - axes
    counts = g.shape[lead:]
    if not all_alike(shape[lead:], counts):
        share = divided(g, pooling._adaptive_divisor(np, shape[lead:], counts, np.float64))
        return adaptive_sums(share, lead, shape[lead:])
    geometry = regular(shape[lead:], counts)
    share = divided(g, divisor_of(shape, counts, geometry, True, None, g.type))
    if counts == (1,) * axes:
        return broadcast(share, shape)
    return reshaped(Windows(shape, counts, geometry, g.type).shares(share), shape)


for _axes in (1, 2, 3):
    rule(f"{'' if _axes == 1 else 'nn.functional.'}adaptive_avg_pool{_axes}d")(adaptive_rule(_axes))
