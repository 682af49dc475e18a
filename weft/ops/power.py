"""Powers, of whole numbers and of floats.

Gives `pow` and `float_power`. One idea: exponents that have a cheaper function are told by their value, in
kernels as in bodies, if they are numbers; a tensor of exponents, even of no dimension, takes the function of
all of them. The two differ: `sqrt(-inf)` is NaN and `sqrt(-0.0)` is -0.0, `pow` with 0.5 has `inf` and 0.0.
In float16 no number has roots taken either.
"""

from __future__ import annotations

import cmath
import math
from collections.abc import Iterator
from typing import Any

import numpy as np

import weft.ops.bodies as bodies
import weft.ops.node_names as node_names
from weft.core import dtypes
from weft.core.arrays import MODULES, Array, is_array
from weft.core.dtypes import dtype
from weft.core.symbolic import applied
from weft.core.types import TensorType
from weft.ops.arithmetic import (
    COMPLEX,
    INTEGERS,
    NARROW,
    Refusing,
    is_bare,
    keep,
    kind_of,
    mul,
    sub,
    zeros,
)
from weft.ops.families import TellingNumbers, pointwise, promote
from weft.ops.options import fits
from weft.ops.record import Op, ops
from weft.ops.samples import Maker, Sample, binary_samples
from weft.ops.values import Number, Operand, TensorLike


def _whole_power(x: Array, y: Array) -> Array:
    """Integer powers; a negative exponent rounds the reciprocal towards zero."""
    xp = MODULES[type(x)]
    below = xp.less(y, 0)
    if not xp.any(below):
        return xp.power(x, y, out=...)
    odd = xp.bitwise_and(y, 1) == 1
    inverse = xp.where(x == 1, 1, xp.where(x == -1, xp.where(odd, -1, 1), 0)).astype(x.dtype)
    return xp.where(below, inverse, xp.power(x, xp.maximum(y, 0)))


def _float_exponent(x: Array, exponent: float) -> Array | None:
    """Exponents that have a cheaper function."""
    xp = MODULES[type(x)]
    if exponent == 2:
        return xp.square(x, out=...)
    if exponent == 0.5:
        return xp.sqrt(x, out=...)
    if exponent == 1:
        return xp.positive(x, out=...)
    if exponent == 3:
        return xp.multiply(xp.square(x), x, out=...)
    if exponent == -1:
        return xp.reciprocal(x, out=...)
    if exponent == -0.5:
        return xp.reciprocal(xp.sqrt(x), out=...)
    if exponent == -2:
        return xp.reciprocal(xp.square(x), out=...)
    return None


def _spread_power(x: Any, y: Any) -> Array:
    """Powers with an exponent for each element: NumPy takes roots where one exponent stands for all. They lie
    in memory as those of other exponents do.
    """
    steps = np.nditer((x, y, None), ("zerosize_ok",), op_dtypes=(x.dtype, y.dtype, x.dtype))
    spread = steps.operands[2]
    shape = spread.shape
    spread = spread.reshape(shape or (1,))
    spread[...] = y
    made: Array = np.power(x, spread, out=...)
    return made if shape else made.reshape(shape)


def _pow(x: Array, y: Any) -> Array:
    xp = MODULES[type(x)]
    kind = x.dtype.kind
    if kind == "f":
        if type(y) not in MODULES:
            out = _float_exponent(x, float(y))
            return xp.power(x, y, out=...) if out is None else out
        one_for_all = y.size <= 1 or 0 in y.strides or y.shape != x.shape
        if one_for_all and xp is np and xp.any(xp.equal(y, 0.5)):
            return _spread_power(x, y)
    if kind == "b":
        return xp.logical_or(x, xp.logical_not(y), out=...)
    if kind in "iu":
        if is_bare(y) and y < 0:
            raise RuntimeError("Integers to negative integer powers are not allowed.")
        return _whole_power(x, y)
    return xp.power(x, y, out=...)


def _pow_rule(x: TensorType | Number, y: Any) -> TensorType:
    result = power.rule(pow_, (x, y))
    if result.dtype in INTEGERS and is_bare(y) and y < 0:
        raise RuntimeError("Integers to negative integer powers are not allowed.")
    if result.dtype in INTEGERS | NARROW and is_bare(y) and not isinstance(y, complex):
        fits(y, result.dtype)
    return result


def _base_gradient(op: Op, g: TensorLike, x: TensorLike, exponent: Any) -> Any:
    if is_bare(exponent):
        return zeros(g) if exponent == 0 else mul(g, mul(op(x, exponent - 1), exponent))
    defined = ops.ne(exponent, 0)
    below = keep(sub(exponent, 1), defined)  # 0 to the -1 would be infinite, and NaN one derivative later
    return keep(mul(g, mul(op(x, below), exponent)), defined)


def _negative(exponent: Operand) -> Any:
    """Whether exponents are below zero, or NaN, which gradients of a base of zero keep."""
    return ops.logical_not(ops.ge(ops.real(exponent) if kind_of(exponent).is_complex else exponent, 0))


def _number_log(base: Number, kind: dtype) -> Any:
    """The logarithm of a bare number, complex where the result is."""
    if isinstance(base, complex) or (base < 0 and kind.is_complex):
        return cmath.log(base)
    return applied(math.log, base) if base > 0 else math.nan


def _exponent_gradient(g: TensorLike, out: TensorLike, base: Any, exponent: Operand) -> Any:
    if is_bare(base):
        if base == 0:
            return keep(mul(mul(g, out), -math.inf), _negative(exponent))
        return mul(mul(g, out), _number_log(base, kind_of(out)))
    if kind_of(out).is_complex and not kind_of(base).is_complex:
        base = ops._to_copy(base, kind_of(out))
    defined = ops.logical_or(ops.ne(base, 0), _negative(exponent))
    return keep(mul(g, mul(out, ops.log(base))), defined)


def _power_samples(make: Maker) -> Iterator[Sample]:
    yield from binary_samples((0.3, 2), (-2, 2), 2)(make)
    for exponent in (0.5, 3, -1, 1.7, 0):
        yield Sample(make(2, 3, low=0.3), exponent)


def _power_dtypes(operands: list[Any]) -> tuple[dtype, dtype]:
    compute, result = promote.dtypes(operands)
    if compute is dtypes.bool_ and not is_bare(operands[1]):
        raise NotImplementedError("\"pow\" not implemented for 'Bool'")
    return compute, result


class _Power(TellingNumbers, Refusing):
    __slots__ = ()

    def run(self, op: Op, bound: tuple[Any, ...]) -> Array:
        x, exponent = bound
        if not is_array(exponent) and exponent in bodies.ROOTS and x.dtype == dtypes.float16.numpy:
            bound = x, np.asarray(exponent, x.dtype)  # not told from a tensor's
        return super().run(op, bound)


power = _Power(promote, _power_dtypes)
pow_: Op = pointwise(
    "pow",
    _pow,
    power,
    signature="input: Operand, exponent: Operand",
    samples=_power_samples,
    rule=_pow_rule,
    emit=bodies.power,
    vjp=(
        lambda g, _out, x, exponent: _base_gradient(pow_, g, x, exponent),
        lambda g, out, x, exponent: _exponent_gradient(g, out, x, exponent),
    ),
    node_name=node_names.power,
)


def _double(operands: list[Any]) -> tuple[dtype, dtype]:
    kind = dtypes.complex128 if any(kind_of(value) in COMPLEX for value in operands) else dtypes.float64
    return kind, kind


float_power: Op = pointwise(
    "float_power",
    _pow,
    TellingNumbers("double", _double),
    emit=bodies.power,
    signature="input: Operand, exponent: Operand",
    samples=_power_samples,
    node="PowBackward1",
    out="exact",
    inplace="exact",
    vjp=(
        lambda g, _out, x, exponent: _base_gradient(float_power, g, x, exponent),
        lambda g, out, x, exponent: _exponent_gradient(g, out, x, exponent),
    ),
)
