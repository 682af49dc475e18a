"""Lowering of pools: maxima by functions of their own, averages as convolutions by ones.

Gives rules for `weft.native.lower.lowering`. One idea: an average over windows is a convolution of each
plane, divided
by how many elements each window has; one over the whole plane is a fold, and is fused as such.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np

from weft.graph.node import Node
from weft.native.ir.definitions import Definition, Given, Shape, broadcast, reshaped
from weft.native.ir.scalar import FLOATS, TYPES
from weft.native.ir.spatial import Geometry, Laid, Sides, Windowed
from weft.native.lower.conv import filled, laid
from weft.native.lower.folds import each, mean
from weft.native.lower.lowering import Lowering, Unlowered, point, rule
from weft.native.lower.products import memory_of
from weft.native.plan.units import row_major
from weft.native.target import Target
from weft.ops.kernels import pooling as kernels
from weft.ops.pooling import adaptive_size, window


def as_planes(value: Definition, axes: int) -> Definition:
    """`(N, C, *spatial)`, with one example where there is no N."""
    return value if len(value.shape) == axes + 2 else reshaped(value, (1, *value.shape))


def in_order(value: Definition) -> tuple[Definition, int]:
    """Memory in row-major order, and where it starts: a copy, if need be."""
    base, offset, strides = memory_of(value)
    own = [(n, s) for n, s in zip(value.shape, strides) if n != 1]
    plain = [(n, s) for n, s in zip(value.shape, row_major(value.shape)) if n != 1]
    if own == plain:
        return base, offset
    return point(lambda _b, v, _p: v[0], value.shape, value.type, (value,), "copy"), 0


def floating(value: Definition) -> None:
    if value.type not in FLOATS or 0 in value.shape:
        raise Unlowered(f"pooling of {value.type}{list(value.shape)}")


# -- maxima --------------------------------------------------------------------------------------------------
def taps_along(
    size: int, taps: int, stride: int, padding: int, dilation: int, count: int
) -> list[list[tuple[int, int]]]:
    """For each window along an axis, its taps: (tap, place)."""
    found = []
    for number in range(count):
        places = [(tap, number * stride - padding + tap * dilation) for tap in range(taps)]
        found.append([(tap, place) for tap, place in places if 0 <= place < size])
    return found


def maxima(
    target: Target, x: Definition, geometry: Any, counts: Shape, axes: int, shape: Shape, read: bool
) -> tuple[Any, Any]:
    """Maxima and their places; both by one function if somebody reads the latter."""
    floating(x)
    planes = as_planes(x, axes)
    sizes, full = filled(planes.shape[2:], 1), filled(counts, 1)
    taps, stride, padding, dilation = [filled(part, fill) for part, fill in zip(geometry, (1, 1, 0, 1))]
    along = [taps_along(*axis) for axis in zip(sizes, taps, stride, padding, dilation, full)]
    if any(not own for axis in along for own in axis) or prod(sizes) >= 1 << 31:
        raise Unlowered("a pooling window that holds only padding, or a very large plane")
    windows = Windowed(planes.shape[:2], sizes, full, taps[2], stride[2], dilation[2], along)
    return target.maxima(laid(planes), windows, shape, x.type, read)


def maximum_rule(axes: int) -> Callable[..., Any]:
    def lowered(
        lowering: Lowering, x: Definition, kernel: Any, stride: Any, padding: Any, dilation: Any, _ceil: bool
    ) -> tuple[Any, Any]:
        assert lowering.node is not None
        shape = tuple(lowering.node.meta["val"][0].array.shape)
        geometry = window("max_pool", axes, kernel, stride, padding, dilation)
        read = reads_places(lowering.node)
        return maxima(lowering.target, x, geometry, shape[len(shape) - axes :], axes, shape, read)

    return lowered


def reads_places(node: Node) -> bool:
    """Whether somebody reads the second result."""
    parts = [user for user in node.users if user.target is operator.getitem]
    return len(parts) < len(node.users) or any(user.args[1] != 0 and user.users for user in parts)


for _axes in (1, 2, 3):
    rule(f"max_pool{_axes}d_with_indices")(maximum_rule(_axes))


def adaptive_maximum_rule(axes: int) -> Callable[..., Any]:
    def lowered(lowering: Lowering, x: Definition, size: Any) -> tuple[Any, Any]:
        assert lowering.node is not None
        counts = tuple(adaptive_size("adaptive_max_pool", axes, size, x.shape))
        lead = len(x.shape) - axes
        geometry = (*regular(x.shape[lead:], counts), (1,) * axes)
        read = reads_places(lowering.node)
        return maxima(lowering.target, x, geometry, counts, axes, (*x.shape[:lead], *counts), read)

    return lowered


for _axes in (1, 2, 3):
    rule(f"adaptive_max_pool{_axes}d{'' if _axes == 1 else '_with_indices'}")(adaptive_maximum_rule(_axes))


@rule("pool_scatter")
def _scatter(lowering: Lowering, g: Definition, places: Definition, spatial: Any, unique: bool) -> Definition:
    floating(g)
    if places.type != "i64" or places.shape != g.shape:
        raise Unlowered("pooling indices of another dtype or shape")
    spatial = tuple(spatial)
    lead = g.shape[: len(g.shape) - len(spatial)]
    given = in_order(g), in_order(places)
    if not prod(lead) * prod(spatial):
        raise Unlowered("unpooling to an empty tensor")
    return lowering.target.unpooled(*given, lead, g.shape[len(lead) :], spatial, g.type, unique)


@rule("pool_gather")
def _gather(lowering: Lowering, x: Definition, places: Definition, axes: int) -> Definition:
    floating(x)
    lead = x.shape[: len(x.shape) - axes]
    if places.type != "i64" or 0 in places.shape or places.shape[: len(lead)] != lead:
        raise Unlowered("pooling indices of another dtype or shape")
    given = in_order(x), in_order(places)
    sizes = x.shape[len(lead) :], places.shape[len(lead) :]
    return lowering.target.gathered(*given, lead, *sizes, x.type)


# -- averages ------------------------------------------------------------------------------------------------
def constant(array: Any, type_: str, name: str) -> Definition:
    made = np.ascontiguousarray(array, TYPES[type_])
    return Given(shape=made.shape, type=type_, name=name, constant=made)


class Windows:
    """Averages over windows of planes, as convolutions by ones."""

    def __init__(self, target: Target, shape: Shape, counts: Shape, geometry: Any, type_: str) -> None:
        axes = len(counts)
        taps, stride, padding = geometry[:3]
        self.target, self.type = target, type_
        self.planes, self.spatial, self.counts = prod(shape[: len(shape) - axes]), shape[-axes:], counts
        self.sides = Sides(self.planes, 1, 1, 1)
        self.geometry = Geometry(
            filled(self.spatial, 1), filled(counts, 1), filled(taps, 1), filled(stride, 1), filled(padding,
            0), (1, 1, 1),
        )  # fmt: skip
        ones = constant(np.ones(prod(taps)), type_, "ones")
        steps = row_major(filled(taps, 1))
        self.ones = Laid(ones, 0, (0, 0, *steps))

    def sums(self, x: Definition) -> Definition:
        """Of each window."""
        given = laid(reshaped(x, (self.planes, 1, *self.spatial)))
        shape = (self.planes, 1, *self.counts)
        return self.target.convolution(given, self.ones, None, self.geometry, self.sides, shape, self.type)

    def shares(self, g: Definition) -> Definition:
        """For each element, the sum over windows that it is in."""
        given = laid(reshaped(g, (self.planes, 1, *self.counts)))
        shape = (self.planes, 1, *self.spatial)
        return self.target.input_gradient(given, self.ones, None, self.geometry, self.sides, shape, self.type)


def divided(value: Definition, divisor: Any) -> Definition:
    by = constant(divisor, value.type, "divisor")
    return each(lambda b, v, d: b.div(v, d), value, by, name="average")


def divisor_of(shape: Shape, counts: Shape, geometry: Any, include: bool, override: Any, type_: str) -> Any:
    taps, stride, padding = geometry[:3]
    axes = len(taps)
    return kernels._divisor(
        np, shape[len(shape) - axes :], taps, stride, padding, counts, include, override, TYPES[type_]
    )


def averaged(
    target: Target, x: Definition, shape: Shape, geometry: Any, include: bool, override: Any, axes: int
) -> Definition:
    """`shape` is the result's."""
    floating(x)
    counts = shape[len(shape) - axes :]
    taps, _, padding = geometry[:3]
    if counts == (1,) * axes and taps == x.shape[-axes:] and not any(padding) and override is None:
        return mean(x, tuple(range(len(shape) - axes, len(shape))), True)
    sums = reshaped(Windows(target, x.shape, counts, geometry, x.type).sums(x), shape)
    return divided(sums, divisor_of(x.shape, counts, geometry, include, override, x.type))


def average_rule(axes: int) -> Callable[..., Any]:
    def lowered(
        lowering: Lowering, x: Definition, kernel: Any, stride: Any, padding: Any, _ceil: bool, include: bool,
        override: Any = None,
    ) -> Definition:  # fmt: skip
        assert lowering.node is not None
        shape = tuple(lowering.node.meta["val"].array.shape)
        geometry = window("avg_pool", axes, kernel, stride, padding)
        return averaged(lowering.target, x, shape, geometry, include, override, axes)

    return lowered


@rule("avg_pool_backward")
def _average_backward(
    lowering: Lowering, g: Definition, shape: Any, kernel: Any, stride: Any, padding: Any, _ceil: bool,
    include: bool, override: Any,
) -> Definition:  # fmt: skip
    floating(g)
    shape, geometry = tuple(shape), (tuple(kernel), tuple(stride), tuple(padding))
    axes = len(geometry[0])
    counts = g.shape[len(g.shape) - axes :]
    share = divided(g, divisor_of(shape, counts, geometry, include, override, g.type))
    if counts == (1,) * axes and geometry[0] == shape[-axes:] and not any(geometry[2]):
        return broadcast(share, shape)
    return reshaped(Windows(lowering.target, shape, counts, geometry, g.type).shares(share), shape)


def regular(sizes: Shape, counts: Shape) -> Any:
    """The windows of an adaptive average, where all are alike."""
    if 0 in counts or any(size % count for size, count in zip(sizes, counts)):
        raise Unlowered("adaptive pooling whose windows differ in size")
    taps = tuple([size // count for size, count in zip(sizes, counts)])
    return taps, taps, (0,) * len(taps)


for _axes in (1, 2, 3):
    rule(f"{'' if _axes == 1 else 'nn.functional.'}avg_pool{_axes}d")(average_rule(_axes))
