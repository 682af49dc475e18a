"""Lowering of extremes with their places: argmax, max along an axis, and their gradients.

Gives rules for `weft.native.lower.lowering`. One idea: the place of the greatest element is the least of the
places
where an element equals the greatest, so it is two folds, which go over all elements at once.
"""

from __future__ import annotations

from math import prod
from typing import Any, Final

from weft.core.dims import wrap_dim
from weft.native.ir.definitions import Definition, Number, broadcast, reshaped, sliced
from weft.native.ir.scalar import FLOATS, Builder, Value
from weft.native.ir.sizes import greatest, is_told_late
from weft.native.lower.folds import axes_of, cast, folded, mean
from weft.native.lower.lowering import Lowering, Unlowered, point, rule
from weft.native.lower.numbers import number
from weft.native.lower.pointwise import copied, made, result_of
from weft.native.maths import emitting as maths

NOWHERE: Final = (1 << 63) - 1


def equal(b: Builder, x: Value, extreme: Value) -> Value:
    """Whether an element is the extreme; NaN is beyond all numbers."""
    same = b.eq(x, extreme)
    return b.or_(same, b.ne(x, x)) if x.type in FLOATS else same


def place_of(x: Definition, axis: int, kind: str) -> Definition:
    """The first place of the extreme along an axis, which stays with length 1."""
    if not x.size:
        raise Unlowered("argmax or argmin of an empty tensor")
    extreme = broadcast(folded(kind, x, (axis,), True, kind), x.shape)

    def body(b: Builder, values: list[Value], place: Any) -> Value:
        return b.select(equal(b, *values), place(axis), b.const(NOWHERE, "i64"))

    places = point(body, x.shape, "i64", (x, extreme), f"arg{kind}", 4)
    return folded("min", places, (axis,), True, f"arg{kind}")


def argument(lowering: Lowering, x: Definition, dim: Any, kind: str) -> Definition:
    shape, _ = result_of(lowering)
    if dim is None or not x.shape:
        return reshaped(place_of(reshaped(x, (x.size,)), 0, kind), shape)
    return reshaped(place_of(x, wrap_dim(dim, len(x.shape)), kind), shape)


@rule("argmax", "_max_indices")
def _argmax(lowering: Lowering, x: Definition, dim: Any, _keepdim: bool) -> Definition:
    return argument(lowering, x, dim, "max")


@rule("argmin", "_min_indices")
def _argmin(lowering: Lowering, x: Definition, dim: Any, _keepdim: bool) -> Definition:
    return argument(lowering, x, dim, "min")


@rule("_max_all")
def _max_all(_lowering: Lowering, x: Definition) -> Definition:
    return folded("max", x, tuple(range(len(x.shape))), False, "max")


@rule("_min_all")
def _min_all(_lowering: Lowering, x: Definition) -> Definition:
    return folded("min", x, tuple(range(len(x.shape))), False, "min")


@rule("_placed")
def _placed(
    lowering: Lowering, g: Definition, index: Definition, _shape: Any, dim: int, _keepdim: bool
) -> Definition:
    """The gradient of a value along an axis: at its place, and zero elsewhere."""
    shape, type_ = result_of(lowering)
    if not shape:
        return copied(lowering, g)
    axis = wrap_dim(dim, len(shape))
    thin = tuple([1 if i == axis else n for i, n in enumerate(shape)])
    if prod(thin) != index.size:
        raise Unlowered("a gradient by several indices per row")
    operands = [reshaped(each, thin) for each in (g, index)]
    return made(
        lambda b, v, place: b.select(b.eq(place(axis), v[1]), v[0], b.like(0, v[0])),
        shape, type_, operands, "placed",
    )  # fmt: skip


@rule("_tie_weights")
def _tie_weights(lowering: Lowering, x: Definition, value: Definition, dim: Any) -> Definition:
    """What part of a gradient each of several equal extremes gets."""
    _, type_ = result_of(lowering)
    if type_ not in FLOATS:
        raise Unlowered("the gradient of an integer maximum")
    axes = axes_of(dim, len(x.shape))
    hits = made(lambda b, v, _: b.cast(_hit(b, *v), type_), x.shape, type_, (x, value), "ties")
    counts = folded("sum", hits, axes, True, "ties")
    return made(lambda b, v, _: b.div(v[0], v[1]), x.shape, type_, (hits, counts), "ties")


def _hit(b: Builder, x: Value, value: Value) -> Value:
    same = b.eq(x, value)
    return b.or_(same, b.and_(b.ne(x, x), b.ne(value, value))) if x.type in FLOATS else same


# -- statistics ----------------------------------------------------------------------------------------------
def variance(x: Definition, dim: Any, correction: Any, keepdim: bool) -> Definition:
    """The variance, in float64 as eager's; from float64 the first number is taken away, as there."""
    if x.type not in FLOATS:
        raise Unlowered(f"a variance of {x.type}")
    axes = axes_of(dim, len(x.shape))
    count = prod([x.shape[axis] for axis in axes])
    if x.type == "f64" and count > 1:
        first = x
        for axis in axes:
            first = sliced(first, axis, 0, 1, 1)
        x = made(lambda b, v, _: b.sub(v[0], v[1]), x.shape, x.type, (x, first), "shift")
    x = cast(x, "f64")
    mean = made(
        lambda b, v, _: b.div(v[0], b.like(count, v[0])),
        tuple([1 if axis in axes else n for axis, n in enumerate(x.shape)]),
        x.type, (folded("sum", x, axes, True, "mean"),), "mean",
    )  # fmt: skip

    def square(b: Builder, v: list[Value], _: Any) -> Value:
        less = b.sub(v[0], v[1])
        return b.mul(less, less)

    total = folded("sum", made(square, x.shape, x.type, (x, mean), "square"), axes, keepdim, "variance")
    freedom = greatest(count - correction, 0)
    return made(lambda b, v, _: b.div(v[0], b.like(freedom, v[0])), total.shape, x.type, (total,), "variance")


def _wide_mean(x: Definition, dim: Any, keepdim: bool) -> Definition:
    return cast(mean(cast(x, "f64"), axes_of(dim, len(x.shape)), keepdim), x.type)


@rule("_var_mean")
def _var_mean(
    lowering: Lowering, x: Definition, dim: Any, correction: Any, keepdim: bool
) -> tuple[Definition, Definition]:
    return _var(lowering, x, dim, correction, keepdim), _wide_mean(x, dim, keepdim)


@rule("_std_mean")
def _std_mean(
    lowering: Lowering, x: Definition, dim: Any, correction: Any, keepdim: bool
) -> tuple[Definition, Definition]:
    return _std(lowering, x, dim, correction, keepdim), _wide_mean(x, dim, keepdim)


@rule("_aminmax")
def _aminmax(_lowering: Lowering, x: Definition, dim: Any, keepdim: bool) -> tuple[Definition, Definition]:
    axes = axes_of(dim, len(x.shape))
    return folded("min", x, axes, keepdim, "amin"), folded("max", x, axes, keepdim, "amax")


@rule("_var")
def _var(_lowering: Lowering, x: Definition, dim: Any, correction: Any, keepdim: bool) -> Definition:
    return cast(variance(x, dim, correction, keepdim), x.type)


@rule("_std")
def _std(_lowering: Lowering, x: Definition, dim: Any, correction: Any, keepdim: bool) -> Definition:
    found = variance(x, dim, correction, keepdim)
    return cast(made(lambda b, v, _: b.sqrt(v[0]), found.shape, found.type, (found,), "std"), x.type)


@rule("logsumexp")
def _logsumexp(lowering: Lowering, x: Definition, dim: Any, keepdim: bool) -> Definition:
    shape, type_ = result_of(lowering)
    if not x.size or type_ not in FLOATS:
        raise Unlowered("logsumexp of an empty or integer tensor")
    axes = axes_of(dim, len(x.shape))
    given = cast(x, type_)
    peak = folded("max", given, axes, True, "max")
    infinity = float("inf")

    def finite(b: Builder, v: list[Value], _: Any) -> Value:
        within = b.lt(b.abs(v[0]), b.like(infinity, v[0]))
        return b.select(within, v[0], b.like(0, v[0]))

    safe = made(finite, peak.shape, type_, (peak,), "peak")
    powers = made(lambda b, v, _: maths.exp(b, b.sub(v[0], v[1])), x.shape, type_, (given, safe), "exp")
    total = folded("sum", powers, axes, True, "sum")
    found = made(
        lambda b, v, _: b.add(maths.log(b, v[0]), v[1]), total.shape, type_, (total, safe), "logsumexp"
    )
    return reshaped(found, shape)


@rule("linalg.vector_norm", numbers="floats")
def _vector_norm(
    lowering: Lowering, x: Definition, order: Any, dim: Any, keepdim: bool, _dtype: Any
) -> Definition:
    _, type_ = result_of(lowering)
    if not x.size or type_ not in FLOATS:
        raise Unlowered("a norm of an empty or integer tensor")
    axes, given = axes_of(dim, len(x.shape)), cast(x, type_)
    if isinstance(order, Definition):
        if not isinstance(order, Number) or order.type != "f64":
            raise Unlowered("a norm whose order is a tensor or an int known only at run time")
        return _norm_of_order(lowering, given, order, axes, keepdim)
    if is_told_late(order):
        late = number(lambda b: b.const(order, "f64"), [], "f64", "order")
        return _norm_of_order(lowering, given, late, axes, keepdim)
    power = float(order)

    def part(b: Builder, v: list[Value], _: Any) -> Value:
        if power == 2:
            return b.mul(v[0], v[0])
        if power == 0:
            return b.cast(b.ne(v[0], b.like(0, v[0])), type_)
        size = b.abs(v[0])
        return (
            size if power in (1, float("inf"), -float("inf")) else maths.power(b, size, b.like(power, size))
        )

    kind = {float("inf"): "max", -float("inf"): "min"}.get(power, "sum")
    total = folded(kind, made(part, x.shape, type_, (given,), "norm"), axes, keepdim, "norm")
    if power in (0, 1, float("inf"), -float("inf")):
        return total

    def root(b: Builder, v: list[Value], _: Any) -> Value:
        return b.sqrt(v[0]) if power == 2 else maths.power(b, v[0], b.like(1 / power, v[0]))

    return made(root, total.shape, type_, (total,), "norm")


def _norm_of_order(
    lowering: Lowering, x: Definition, order: Number, axes: tuple[int, ...], keepdim: bool
) -> Definition:
    """A norm whose order only running tells: orders that have formulas of their own are told apart in each
    element; infinite ones, which are no sums, stop the program.
    """
    type_ = x.type
    infinite = lambda b, p: b.eq(b.abs(p), b.const(float("inf"), "f64"))
    lowering.definitions.failures.append(number(infinite, [order], "b1", "infinite order"))

    def part(b: Builder, v: list[Value], _: Any) -> Value:
        size, power = b.abs(v[0]), v[1]
        found = maths.power(b, size, b.cast(power, type_))
        found = b.select(b.eq(power, b.like(1, power)), size, found)
        found = b.select(b.eq(power, b.like(2, power)), b.mul(size, size), found)
        some = b.cast(b.ne(size, b.like(0, size)), type_)
        return b.select(b.eq(power, b.like(0, power)), some, found)

    def root(b: Builder, v: list[Value], _: Any) -> Value:
        total, power = v
        found = maths.power(b, total, b.cast(b.div(b.like(1, power), power), type_))
        found = b.select(b.eq(power, b.like(2, power)), b.sqrt(total), found)
        whole = b.or_(b.eq(power, b.like(0, power)), b.eq(power, b.like(1, power)))
        return b.select(whole, total, found)

    parts = made(part, x.shape, type_, (x, order), "norm")
    total = folded("sum", parts, axes, keepdim, "norm")
    return made(root, total.shape, type_, (total, order), "norm")
