"""Bounds: maxima and minima, clamping, and numbers in place of NaN and infinities.

Gives pointwise ops whose gradients pass or do not; ties and bounds follow PyTorch: equal operands share half
each, a value at its bound passes.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

import weft.ops.bodies as bodies
import weft.ops.node_names as node_names
from weft.core import dtypes
from weft.core.arrays import MODULES, Array, as_array, namespace
from weft.core.dtypes import bfloat16, dtype
from weft.core.types import TensorType
from weft.ops.arithmetic import (
    COMPLEX,
    FLOATS,
    NARROW,
    PAIR,
    Refusing,
    is_bare,
    keep,
    kind_of,
    kinked,
    mul,
    refusing,
)
from weft.ops.facts import Rule
from weft.ops.families import TellingNumbers, pointwise, promote
from weft.ops.node_names import by_number
from weft.ops.options import fits
from weft.ops.record import Op, Promotion, ops, quiet
from weft.ops.samples import Maker, Sample, binary_samples
from weft.ops.values import BodyBuilder, Element, MaybeOperand, Number, TensorLike


def _share(g: TensorLike, loses: TensorLike, ties: TensorLike) -> Any:
    """The gradient of an operand that does not lose; equal ones get half each, beside NaN both get all."""
    return keep(ops.where(ties, mul(g, 0.5), g), ops.logical_not(loses))


def _no_complex(name: str) -> Promotion:
    return refusing(promote, COMPLEX, f"{name} not implemented for complex tensors.", RuntimeError)


def _extreme(name: str, kernel: np.ufunc, loses: str, wins: str) -> Op:
    """The greater or the smaller of two; `loses` and `wins` compare the first with the second."""

    def gradient(loses: str) -> Rule:
        return lambda g, _out, x, y: _share(g, getattr(ops, loses)(x, y), ops.eq(x, y))

    return pointwise(
        name,
        kernel,
        _no_complex(name),
        PAIR,
        emit=lambda b, x, y: getattr(b, name[:3])(x, y),
        inplace=False,
        samples=binary_samples((-2, 2), (-2, 2), None),
        vjp=(gradient(loses), gradient(wins)),
        exact=True,
    )


maximum = _extreme("maximum", np.maximum, "lt", "gt")
minimum = _extreme("minimum", np.minimum, "gt", "lt")


def _known_extreme(name: str, wins: str, wins_alone: str) -> Op:
    """The greater or the smaller of two; NaN loses. Of two zeros the first is taken, in bfloat16 the second,
    as in PyTorch: which NumPy takes depends on where they lie in memory.
    """

    def kernel(x: Array, y: Array) -> Array:
        xp = MODULES[type(x)]
        out = getattr(xp, name)(x, y, out=...)
        if out.dtype.kind not in "biu":
            xp.copyto(out, y if out.dtype == bfloat16.numpy else x, where=xp.equal(x, y))
        return xp.asarray(out)

    def emit(b: BodyBuilder, x: Element, y: Element) -> Any:
        first = getattr(b, wins_alone if b.half == "b16" else wins)
        return b.select(b.or_(first(x, y), bodies.is_nan(b, y)), x, y)

    def taken(x: TensorLike, y: TensorLike) -> Any:
        return ops.logical_or(getattr(ops, wins)(x, y), ops.isnan(y))

    return pointwise(
        name,
        kernel,
        _no_complex(name),
        PAIR,
        emit=emit,
        inplace=False,
        stepwise=(bfloat16,),
        samples=binary_samples((-2, 2), (-2, 2), None),
        vjp=(
            lambda g, _out, x, y: keep(g, taken(x, y)),
            lambda g, _out, x, y: keep(g, ops.logical_not(taken(x, y))),
        ),
    )


fmax = _known_extreme("fmax", "ge", "gt")
fmin = _known_extreme("fmin", "le", "lt")


def _clamp(x: Array, low: Array | Number | None, high: Array | Number | None) -> Array:
    xp = MODULES[type(x)]
    if x.size > 4096 and x.dtype.kind == "f" and type(low) not in MODULES and type(high) not in MODULES:
        return xp.asarray(xp.clip(x, -np.inf if low is None else low, np.inf if high is None else high))
    out = x
    if low is not None:
        out = xp.maximum(low, out, out=...)  # of two zeros, the second is taken: x stays
    if high is not None:
        out = xp.minimum(high, out, out=...)
    return out


NUMBERS = (True, 1, 1.0, 1j)  # one of each category


def _bounded_dtypes(operands: list[Any]) -> tuple[dtype, dtype]:
    """Beside a number, a zero-dim bound is a number too."""
    bounds = operands[1:]
    if len(bounds) == 2 and any(map(is_bare, bounds)) and not all(map(is_bare, bounds)):
        operands = [
            operands[0],
            *(b if is_bare(b) or b.ndim else NUMBERS[kind_of(b).category] for b in bounds),
        ]
    return promote.dtypes(operands)


bounded = refusing(Promotion("promote", _bounded_dtypes), COMPLEX, "clamp is not supported for complex types")
PLAIN_BOUNDS = frozenset({float, int, type(None)})


class Bounding(Refusing):
    """Floats between plain numbers, by far the commonest case, need no promotion."""

    __slots__ = ()

    def run(self, op: Op, bound: tuple[Any, ...]) -> Array:
        x, low, high = bound
        if x.dtype in (np.float32, np.float64) and type(low) in PLAIN_BOUNDS and type(high) in PLAIN_BOUNDS:
            return as_array(quiet(_clamp, x, low, high))
        return super().run(op, bound)


def _clamp_rule(
    x: TensorType, low: TensorType | Number | None, high: TensorType | Number | None
) -> TensorType:
    if x.dtype in FLOATS and type(low) in PLAIN_BOUNDS and type(high) in PLAIN_BOUNDS and low is not high:
        if low is not None:
            fits(low, x.dtype)
        if high is not None:
            fits(high, x.dtype)
        return x
    if low is None and high is None:
        raise RuntimeError("torch.clamp: At least one of 'min' or 'max' must not be None")
    if x.dtype in FLOATS and (isinstance(low, complex) or isinstance(high, complex)):
        raise RuntimeError("value cannot be converted to type double without overflow")
    result = bounded.rule(clamp, (x, low, high))
    for bound in (low, high):
        if bound is not None and is_bare(bound):
            fits(bound, result.dtype)
    return result


def _inside(x: TensorLike, low: MaybeOperand, high: MaybeOperand) -> Any:
    if low is None:
        return ops.le(x, high)
    if high is None:
        return ops.ge(x, low)
    return ops.logical_and(ops.ge(x, low), ops.le(x, high))


def _low_gradient(g: TensorLike, x: TensorLike, low: MaybeOperand, high: MaybeOperand) -> Any:
    below = ops.lt(x, low)
    return keep(g, below if high is None else ops.logical_and(below, ops.lt(low, high)))


def _high_gradient(g: TensorLike, x: TensorLike, low: MaybeOperand, high: MaybeOperand) -> Any:
    above = ops.gt(x, high)
    if low is None:
        return keep(g, above)
    crossed = ops.gt(low, high) if not is_bare(low) else ops.lt(high, low)
    return keep(g, ops.logical_or(above, crossed))


def _clamp_samples(make: Maker) -> Iterator[Sample]:
    yield Sample(make(2, 3), -0.7, 0.9)
    yield Sample(make(2, 3), min=-0.5)
    yield Sample(make(2, 3), max=0.5)
    yield Sample(make(), -0.5, 0.5)
    yield Sample(make(2, 3), make(2, 3, low=-2, high=-1), make(3, low=0, high=1))
    yield Sample(make(2, 3), make(3), None)
    yield Sample(make(0, 3), None, make(1, 3))


def _emit_clamp(b: BodyBuilder, x: Element, low: Element | None, high: Element | None) -> Any:
    x = x if low is None else b.max(low, x)
    return x if high is None else b.min(high, x)


clamp = pointwise(
    "clamp",
    _clamp,
    Bounding(promote, bounded.dtypes),
    signature="input: Tensor, min: MaybeOperand = None, max: MaybeOperand = None",
    rule=_clamp_rule,
    emit=_emit_clamp,
    samples=_clamp_samples,
    aliases=("clip",),
    vjp=(
        lambda g, _out, x, low, high: keep(g, _inside(x, low, high)),
        lambda g, _out, x, low, high: _low_gradient(g, x, low, high),
        lambda g, _out, x, low, high: _high_gradient(g, x, low, high),
    ),
    node_name=node_names.clamp,
)


class _OneBound(TellingNumbers, Refusing):
    __slots__ = ()


def _one_sided(bound: str, ufunc: str, within: str, beyond: str) -> Op:
    """With a bound on one side: of two zeros a tensor's is taken, a number's is not."""

    def kernel(x: Array, bound: Any) -> Array:
        function = getattr(MODULES[type(x)], ufunc)
        made: Array = function(x, bound, out=...) if type(bound) in MODULES else function(bound, x, out=...)
        return made

    def emit(b: BodyBuilder, x: Element, limit: Element) -> Any:
        return getattr(b, ufunc[:3])(*((limit, x) if 1 in b.numbers else (x, limit)))

    node = f"Clamp{bound.capitalize()}Backward"
    return pointwise(
        f"clamp_{bound}",
        kernel,
        _OneBound(promote, bounded.dtypes),
        f"input: Tensor, {bound}: Operand",
        emit=emit,
        samples=binary_samples((-2, 2), (-2, 2), 0.3),
        vjp=(
            lambda g, _out, x, limit: keep(g, getattr(ops, within)(x, limit)),
            lambda g, _out, x, limit: keep(g, getattr(ops, beyond)(x, limit)),
        ),
        node_name=by_number(1, f"{node}0", f"{node}1"),
    )


clamp_min = _one_sided("min", "maximum", "ge", "lt")
clamp_max = _one_sided("max", "minimum", "le", "gt")


def _nan_to_num(x: Array, nan: float | None, posinf: float | None, neginf: float | None) -> Array:
    if x.dtype.kind not in "fc":
        return x.copy()
    return namespace(x).nan_to_num(x, nan=0.0 if nan is None else nan, posinf=posinf, neginf=neginf)


def _emit_nan_to_num(
    b: BodyBuilder,
    x: Element,
    nan: Element | Number | None,
    posinf: Element | Number | None,
    neginf: Element | Number | None,
) -> Any:
    if not bodies.is_float(x):
        return x
    limits = np.finfo(np.float32 if x.type == "f32" else np.float64)
    above = b.like(limits.max if posinf is None else posinf, x)
    below = b.like(limits.min if neginf is None else neginf, x)
    made = b.select(b.eq(x, b.like(np.inf, x)), above, x)
    made = b.select(b.eq(x, b.like(-np.inf, x)), below, made)
    return b.select(b.isnan(x), b.like(0 if nan is None else nan, x), made)


def finite_limits(
    kind: dtype, posinf: float | None, neginf: float | None
) -> tuple[float | None, float | None]:
    """What infinities become.

    The largest values of the *result's* dtype, which for halves is not the computing one.
    """
    if kind not in NARROW:
        return posinf, neginf
    limits = dtypes.finfo(kind)
    return limits.max if posinf is None else posinf, limits.min if neginf is None else neginf


class Replacing(Promotion):
    """Passes the limits of the operand's own dtype to the kernel."""

    __slots__ = ()

    def run(self, op: Op, bound: tuple[Any, ...]) -> Array:
        return super().run(op, (*bound[:2], *finite_limits(kind_of(bound[0]), *bound[2:])))


nan_to_num = pointwise(
    "nan_to_num",
    _nan_to_num,
    Replacing("promote", promote.dtypes),
    emit=_emit_nan_to_num,
    samples=kinked(0.3, 2),
    signature="input: Tensor, nan: float = None, posinf: float = None, neginf: float = None",
    vjp=lambda g, _out, x: keep(g, ops.isfinite(x)),
    trusted=False,
    out="exact",
    lowering="pointwise",
)
