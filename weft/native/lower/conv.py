"""Lowering of convolutions: to register tiles of our own, and to matrix products where one tap is all there
is.

Gives rules for `weft.native.lower.lowering`. One idea: whatever the number of axes, a convolution has three;
the
missing ones have one place.
"""

from __future__ import annotations

from math import prod
from typing import Any, TypeVar

from weft.native.ir.definitions import Definition, Shape, broadcast, permuted, reshaped
from weft.native.ir.scalar import FLOATS
from weft.native.ir.spatial import AXES, Geometry, Laid, Sides
from weft.native.lower.folds import each, folded
from weft.native.lower.lowering import Lowering, Unlowered, point, rule
from weft.native.lower.products import memory_of, product
from weft.native.target import Target
from weft.ops.convolution import per_axis
from weft.ops.kernels.padding import as_pairs

Item = TypeVar("Item")


def filled(values: Any, missing: Item) -> tuple[Item, ...]:
    """One entry for each of three axes."""
    given = tuple(values)
    return (missing,) * (AXES - len(given)) + given


def laid(value: Definition) -> Laid:
    """Where the elements of `(N, C, *spatial)` lie, along five axes."""
    base, offset, strides = memory_of(value)
    return Laid(base, offset, (*strides[:2], *filled(strides[2:], 0)))


def laid_bias(bias: Any) -> Laid | None:
    return None if bias is None else Laid(*memory_of(bias))


def nothing(shape: Shape, type_: str, name: str) -> Definition:
    """Zeros: the sum of no products."""
    return point(lambda b, _v, _p: b.const(0.0, type_), shape, type_, (), name)


def common_type(*values: Any) -> str:
    types = {value.type for value in values if value is not None}
    if len(types) != 1 or not types <= set(FLOATS):
        raise Unlowered(f"a convolution of {' and '.join(sorted(types))}")
    return str(types.pop())


class Call:
    """The geometry of one call, the same for a convolution and its two gradients."""

    def __init__(
        self, x: Shape, w: Shape, y: Shape, stride: Any, padding: Any, dilation: Any, groups: int
    ) -> None:
        axes = len(w) - 2
        if not 1 <= axes <= AXES:
            raise Unlowered(f"a convolution over {axes} spatial dimensions")
        stride, dilation = per_axis(stride, "stride", axes), per_axis(dilation, "dilation", axes)
        pairs = as_pairs(per_axis(padding, "padding", axes))
        self.x, self.w, self.y = x, w, y
        self.empty = 0 in (*x, *w, *y)
        self.geometry = Geometry(
            filled(x[2:], 1), filled(y[2:], 1), filled(w[2:], 1), filled(stride, 1),
            filled([low for low, _ in pairs], 0), filled(dilation, 1),
        )  # fmt: skip
        self.sides = Sides(x[0], groups, x[1] // groups, w[0] // groups)
        self.turned = Sides(x[0], groups, w[0] // groups, x[1] // groups)
        self.pixels = prod(y[2:])
        plain = {*stride} == {1} and all(pair == (0, 0) for pair in pairs)
        self.product = plain and groups == 1 and prod(w[2:]) == 1 and x[2:] == y[2:]
        """Whether it is a matrix product for each example."""


def forward(target: Target, call: Call, x: Definition, w: Definition, bias: Any) -> Definition:
    type_ = common_type(x, w, bias)
    if call.empty:
        made = nothing(call.y, type_, "convolution")
    elif call.product:
        right = reshaped(x, (call.x[0], call.x[1], call.pixels))
        left = broadcast(reshaped(w, (call.w[0], call.w[1])), (call.x[0], call.w[0], call.w[1]))
        made = reshaped(product(target, left, right, "convolution"), call.y)
    else:
        args = (laid_bias(bias), call.geometry, call.sides, call.y, type_)
        return target.convolution(laid(x), laid(w), *args)
    return made if bias is None else with_bias(made, bias)


def with_bias(made: Definition, bias: Definition) -> Definition:
    spread = reshaped(bias, (*bias.shape, *(1,) * (len(made.shape) - 2)))
    return each(lambda b, v, w: b.add(v, w), made, spread, name="bias")


def backward(target: Target, call: Call, g: Definition, w: Definition, bias: Any) -> Definition:
    """The gradient of the input; a transposed convolution."""
    type_ = common_type(g, w, bias)
    if call.empty:
        made = nothing(call.x, type_, "convolution_input")
    elif call.product:
        right = reshaped(g, (call.y[0], call.y[1], call.pixels))
        turned = permuted(reshaped(w, (call.w[0], call.w[1])), (1, 0))
        left = broadcast(turned, (call.y[0], *turned.shape))
        made = reshaped(product(target, left, right, "convolution_input"), call.x)
    else:
        args = (laid_bias(bias), call.geometry, call.turned, call.x, type_)
        return target.input_gradient(laid(g), laid(w), *args)
    return made if bias is None else with_bias(made, bias)


@rule("convolution_forward")
def _forward(
    lowering: Lowering,
    x: Definition,
    w: Definition,
    stride: Any,
    padding: Any,
    dilation: Any,
    groups: int,
    size: Any,
) -> Definition:
    shape = (x.shape[0], w.shape[0], *tuple(size))
    return forward(
        lowering.target, Call(x.shape, w.shape, shape, stride, padding, dilation, groups), x, w, None
    )


@rule("convolution_input")
def _input(
    lowering: Lowering,
    g: Definition,
    w: Definition,
    shape: Any,
    stride: Any,
    padding: Any,
    dilation: Any,
    groups: int,
) -> Definition:
    return backward(
        lowering.target, Call(tuple(shape), w.shape, g.shape, stride, padding, dilation, groups), g, w, None
    )


@rule("convolution_weight")
def _weight(
    lowering: Lowering,
    g: Definition,
    x: Definition,
    shape: Any,
    stride: Any,
    padding: Any,
    dilation: Any,
    groups: int,
) -> Definition:
    call = Call(x.shape, tuple(shape), g.shape, stride, padding, dilation, groups)
    type_ = common_type(g, x)
    if call.empty:
        return nothing(call.w, type_, "convolution_weight")
    if call.product:
        left = reshaped(g, (call.y[0], call.y[1], call.pixels))
        right = permuted(reshaped(x, (call.x[0], call.x[1], call.pixels)), (0, 2, 1))
        made = folded(
            "sum",
            product(lowering.target, left, right, "convolution_weight"),
            (0,),
            False,
            "convolution_weight",
        )
        return reshaped(made, call.w)
    return lowering.target.weight_gradient(laid(g), laid(x), call.geometry, call.sides, call.w, type_)


@rule("convolution")
def _convolution(
    lowering: Lowering,
    x: Definition,
    w: Definition,
    bias: Any,
    stride: Any,
    padding: Any,
    dilation: Any,
    transposed: bool,
    output_padding: Any,
    groups: int,
) -> Definition:
    assert lowering.node is not None
    shape = tuple(lowering.node.meta["val"].array.shape)
    if transposed:
        return backward(
            lowering.target, Call(shape, w.shape, x.shape, stride, padding, dilation, groups), x, w, bias
        )
    return forward(
        lowering.target, Call(x.shape, w.shape, shape, stride, padding, dilation, groups), x, w, bias
    )
