"""Logarithms: log, log2, log10, log1p, asinh, acosh, atanh, softplus, log-sigmoid.

Takes a builder and values; gives values. One idea: `x = 2^k (1 + f)`, 1 + f between the roots of 1/2 and 2;
`log(1 + f) = f + tail(f)` is kept in these two parts until all is summed. In float32 the tail is a polynomial
of f; in float64 it is one of `s = f / (2 + f)`, which is much shorter and worth a division.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from weft.native.ir.scalar import Builder, Value
from weft.native.maths import coefficients as tables
from weft.native.maths.exponentials import (
    LN2_HIGH_32,
    LN2_HIGH_64,
    LN2_LOW_32,
    LN2_LOW_64,
    LOG2_E,
    decay,
    is_tiny,
)
from weft.native.maths.tools import (
    INFINITY,
    NAN,
    any_sum_and_error,
    as_float,
    layout,
    pick,
    polynomial,
    product_and_error,
    sum_and_error,
    with_sign,
)  # fmt: skip

LOG2_E_HIGH_32: Final = float(np.float32(LOG2_E))
LOG2_E_LOW_32: Final = 1.9259629911266175e-08
LOG2_E_LOW_64: Final = 2.0355273740931033e-17
LOG10_E_HIGH_64: Final = 0.4342944819032518
LOG10_E_LOW_64: Final = 1.098319650216765e-17
LOG10_E_HIGH_32: Final = float(np.float32(LOG10_E_HIGH_64))
LOG10_E_LOW_32: Final = -1.0103050052231683e-08
# log10(2) in two parts, the first of so few bits (14 and 40) that its multiples by exponents are exact
LOG10_2_HIGH_32: Final = 0.301025390625
LOG10_2_LOW_32: Final = 4.605038981195214e-06
LOG10_2_HIGH_64: Final = 0.30102999566361177
LOG10_2_LOW_64: Final = 3.694239077158931e-13
ROOT_OF_HALF_BITS: Final = {"f32": 0x3F3504F3, "f64": 0x3FE6A09E667F3BCD}
HUGE: Final = (2.0**13, 2.0**28)
"""Above these, 1 + x^2 is x^2 to all digits."""


def taken_apart(b: Builder, x: Value) -> tuple[Value, Value]:
    """The exponent k, as an int, and the mantissa, between the roots of 1/2 and 2, of a positive number."""
    kind = layout(x)
    bits = b.bitcast(x, kind.whole)
    shift = b.like(kind.mantissa, bits)
    power = b.shr(b.sub(bits, b.like(ROOT_OF_HALF_BITS[x.type], bits)), shift)
    return power, b.bitcast(b.sub(bits, b.shl(power, shift)), x.type)


def taken_apart_all(b: Builder, x: Value) -> tuple[Value, Value]:
    """The exponent as a float, and the mantissa less 1; denormals are scaled first."""
    kind = layout(x)
    denormal = b.lt(x, b.like(kind.least, x))
    lift = kind.mantissa + 1
    normal = b.select(denormal, b.mul(x, b.like(2.0**lift, x)), x)
    power, mantissa = taken_apart(b, normal)
    less = b.select(denormal, b.like(kind.magic + lift, x), b.like(kind.magic, x))
    return as_float(b, power, x.type, less), b.sub(mantissa, b.like(1, x))


def tail(b: Builder, f: Value) -> Value:
    """`log(1 + f) - f`."""
    square = b.mul(f, f)
    if f.type == "f32":
        cube = b.mul(b.mul(f, square), polynomial(b, f, tables.LOG_32))
        return b.fma(square, b.like(-0.5, f), cube)
    half = b.mul(square, b.like(0.5, f))
    s = b.div(f, b.add(f, b.like(2, f)))
    z = b.mul(s, s)
    inner = b.fma(z, polynomial(b, z, tables.ATANH_64), half)
    return b.fma(s, inner, b.neg(half))


def summed(b: Builder, power: Value, f: Value, lost: Value | None = None) -> Value:
    """`power * ln 2 + log(1 + f)`, where f is rounded, and what that lost may be given."""
    low = tail(b, f) if lost is None else b.add(tail(b, f), lost)
    low = b.fma(power, b.like(pick(f, LN2_LOW_32, LN2_LOW_64), f), low)
    return b.fma(power, b.like(pick(f, LN2_HIGH_32, LN2_HIGH_64), f), b.add(f, low))


def at_edges(b: Builder, x: Value, made: Value) -> Value:
    """The logarithm of 0, of negative numbers and of infinity."""
    made = b.select(b.eq(x, b.like(INFINITY, x)), x, made)
    edge = b.select(b.eq(x, b.like(0, x)), b.like(-INFINITY, x), b.like(NAN, x))
    return b.select(b.gt(x, b.like(0, x)), made, edge)


def log(b: Builder, x: Value) -> Value:
    """The natural logarithm."""
    return at_edges(b, x, summed(b, *taken_apart_all(b, x)))


def _by_base(b: Builder, f: Value, high: float, low: float) -> tuple[Value, Value]:
    """`log(1 + f)` times a factor of two parts, in two parts."""
    factor = b.like(high, f)
    product, error = product_and_error(b, f, factor)
    return product, b.fma(tail(b, f), factor, b.fma(f, b.like(low, f), error))


def log2(b: Builder, x: Value) -> Value:
    """The logarithm to base 2; powers of two give whole numbers."""
    power, f = taken_apart_all(b, x)
    high, low = _by_base(b, f, pick(x, LOG2_E_HIGH_32, LOG2_E), pick(x, LOG2_E_LOW_32, LOG2_E_LOW_64))
    total, lost = sum_and_error(b, power, high)
    return at_edges(b, x, b.add(total, b.add(lost, low)))


def log10(b: Builder, x: Value) -> Value:
    """The logarithm to base 10."""
    power, f = taken_apart_all(b, x)
    high, low = _by_base(
        b, f, pick(x, LOG10_E_HIGH_32, LOG10_E_HIGH_64), pick(x, LOG10_E_LOW_32, LOG10_E_LOW_64)
    )
    start = b.mul(power, b.like(pick(x, LOG10_2_HIGH_32, LOG10_2_HIGH_64), x))
    total, lost = sum_and_error(b, start, high)
    low = b.fma(power, b.like(pick(x, LOG10_2_LOW_32, LOG10_2_LOW_64), x), low)
    return at_edges(b, x, b.add(total, b.add(lost, low)))


def log_of_sum(b: Builder, total: Value, lost: Value, more: Value | None = None) -> Value:
    """`log(total + lost) + more * ln 2`, where lost is what rounding lost of the positive total."""
    kind = layout(total)
    power, mantissa = taken_apart(b, total)
    # 2^(1 - k), which is 0 where 2^-k would be a denormal
    bits = b.shl(b.sub(b.like(kind.bias + 1, power), power), b.like(kind.mantissa, power))
    half = b.mul(lost, b.like(0.5, total))
    factor, start = b.bitcast(bits, total.type), b.sub(mantissa, b.like(1, total))
    f = b.fma(half, factor, start)
    missing = b.fma(half, factor, b.sub(start, f))
    count = as_float(b, power, total.type)
    return summed(b, count if more is None else b.add(count, more), f, missing)


def log1p(b: Builder, x: Value) -> Value:
    """`log(1 + x)`; what rounding 1 + x loses comes back with the fraction."""
    total, lost = any_sum_and_error(b, b.like(1, x), x)
    made = log_of_sum(b, total, lost)
    made = b.select(b.eq(x, b.like(INFINITY, x)), x, made)
    edge = b.select(b.eq(x, b.like(-1, x)), b.like(-INFINITY, x), b.like(NAN, x))
    made = b.select(b.gt(x, b.like(-1, x)), made, edge)
    return b.select(is_tiny(b, x), x, made)


def _log1p_of_decay(b: Builder, x: Value) -> Value:
    """`log(1 + e^-|x|)`."""
    return log_of_sum(b, *sum_and_error(b, b.like(1, x), decay(b, x)))


def softplus(b: Builder, x: Value) -> Value:
    """`log(1 + e^x)`."""
    zero = b.like(0, x)
    return b.add(b.select(b.gt(x, zero), x, zero), _log1p_of_decay(b, x))


def log_sigmoid(b: Builder, x: Value) -> Value:
    """`log(1 / (1 + e^-x))`."""
    zero = b.like(0, x)
    return b.sub(b.select(b.lt(x, zero), x, zero), _log1p_of_decay(b, x))


def _log_of_one_and(b: Builder, part: Value, lost: Value, size: Value) -> Value:
    """`log(1 + part + lost)`, and where size is huge `log(2 size)`."""
    huge = b.gt(size, b.like(pick(size, *HUGE), size))
    total, error = any_sum_and_error(b, b.like(1, size), part)
    total = b.select(huge, size, total)
    error = b.select(huge, b.like(0, size), b.add(error, lost))
    made = log_of_sum(b, total, error, b.select(huge, b.like(1, size), b.like(0, size)))
    return b.select(b.eq(size, b.like(INFINITY, size)), size, made)


def asinh(b: Builder, x: Value) -> Value:
    """`log(1 + t)` with `t = |x| + x^2 / (1 + sqrt(1 + x^2))`."""
    size, one = b.abs(x), b.like(1, x)
    square = b.mul(x, x)
    more = b.div(square, b.add(one, b.sqrt(b.add(square, one))))
    part, lost = sum_and_error(b, size, more)
    return b.select(is_tiny(b, x), x, with_sign(b, _log_of_one_and(b, part, lost, size), x))


def acosh(b: Builder, x: Value) -> Value:
    """`log(1 + t + sqrt(2 t + t^2))` with `t = x - 1`."""
    t = b.sub(x, b.like(1, x))
    root = b.sqrt(b.fma(t, t, b.add(t, t)))
    part, lost = sum_and_error(b, root, t)
    made = _log_of_one_and(b, part, lost, x)
    return b.select(b.lt(x, b.like(1, x)), b.like(NAN, x), made)


def atanh(b: Builder, x: Value) -> Value:
    """`log(1 + 2 |x| / (1 - |x|)) / 2`."""
    size, one = b.abs(x), b.like(1, x)
    below = b.sub(one, size)
    below_lost = b.sub(b.sub(one, below), size)
    inverse = b.div(one, below)
    twice = b.add(size, size)
    part = b.mul(twice, inverse)
    missing = b.fma(b.neg(part), below_lost, b.fma(b.neg(part), below, twice))
    total, lost = any_sum_and_error(b, one, part)
    made = b.mul(log_of_sum(b, total, b.fma(missing, inverse, lost)), b.like(0.5, x))
    edge = b.select(b.eq(size, one), b.like(INFINITY, x), b.like(NAN, x))
    return b.select(is_tiny(b, x), x, with_sign(b, b.select(b.lt(size, one), made, edge), x))
