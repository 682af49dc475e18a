"""Exponentials: exp, exp2, expm1, sinh, cosh, tanh, sigmoid.

Takes a builder and values; gives values. One idea: `x = n ln 2 + r` with a whole n and |r| <= ln 2 / 2, then
`e^r - 1 = r + r^2 P(r)`, then n goes into the exponent.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from weft.native.ir.scalar import Builder, Value
from weft.native.maths import coefficients as tables
from weft.native.maths.tools import (
    clamped,
    nearest,
    pick,
    polynomial,
    power_of_two,
    scaled,
    sum_and_error,
    with_sign,
)  # fmt: skip

LOG2_E: Final = 1.4426950408889634
LN2_HIGH_64: Final = 0.6931471805599453
LN2_LOW_64: Final = 2.3190468138462996e-17
LN2_HIGH_32: Final = float(np.float32(0.6931471805599453))
LN2_LOW_32: Final = -1.904654299957768e-09
UPPER: Final = (89.0, 710.0)
"""Above these, e^x is infinite, and the scaling says so."""
LOWER: Final = (-104.5, -746.0)


def reduced(b: Builder, x: Value) -> tuple[Value, Value]:
    """The rest r of x by ln 2, and the whole number of times."""
    count, number = nearest(b, x, LOG2_E)
    minus = b.neg(count)
    rest = b.fma(minus, b.like(pick(x, LN2_HIGH_32, LN2_HIGH_64), x), x)
    return b.fma(minus, b.like(pick(x, LN2_LOW_32, LN2_LOW_64), x), rest), number


def grown(b: Builder, rest: Value) -> Value:
    """`e^r - 1`."""
    tail = polynomial(b, rest, tables.EXP_32 if rest.type == "f32" else tables.EXP_64)
    return b.fma(b.mul(rest, rest), tail, rest)


def grown_from_one(b: Builder, rest: Value) -> Value:
    """`e^r`, of which 1 + r is in two parts: a quarter of a unit better than `1 + grown`."""
    tail = polynomial(b, rest, tables.EXP_32 if rest.type == "f32" else tables.EXP_64)
    total, lost = sum_and_error(b, b.like(1, rest), rest)
    return b.add(total, b.fma(b.mul(rest, rest), tail, lost))


def exponential(b: Builder, x: Value, extra: int = 0, better: bool = False) -> Value:
    """`e^x * 2^extra` for x that is clamped already; better where more is to be made of it."""
    rest, number = reduced(b, x)
    value = grown_from_one(b, rest) if better else b.add(grown(b, rest), b.like(1, x))
    return scaled(b, value, b.add(number, b.like(extra, number)) if extra else number)


def exp(b: Builder, x: Value) -> Value:
    """e to the power x."""
    return exponential(b, clamped(b, x, pick(x, *LOWER), pick(x, *UPPER)))


def exp2(b: Builder, x: Value) -> Value:
    """2 to the power x."""
    x = clamped(b, x, pick(x, -151.0, -1076.0), pick(x, 129.0, 1025.0))
    count, number = nearest(b, x)
    rest = b.sub(x, count)
    slope = polynomial(b, rest, tables.EXP2_32 if x.type == "f32" else tables.EXP2_64)
    return scaled(b, b.fma(rest, slope, b.like(1, x)), number)


def expm1_quarter(b: Builder, x: Value) -> Value:
    """`(e^x - 1) / 4`, for x that is clamped already, and is not tiny. A quarter, since its power of two
    always exists; what rounding loses of r, and of the largest two of three summands, is added at the end.
    """
    count, number = nearest(b, x, LOG2_E)
    high = b.fma(b.neg(count), b.like(pick(x, LN2_HIGH_32, LN2_HIGH_64), x), x)
    low = b.mul(count, b.like(pick(x, LN2_LOW_32, LN2_LOW_64), x))
    rest = b.sub(high, low)
    lost = b.sub(b.sub(high, rest), low)
    tail = polynomial(b, rest, tables.EXPM1_32 if x.type == "f32" else tables.EXPM1_64)
    tail = b.fma(b.mul(rest, rest), tail, lost)
    factor = power_of_two(b, number, x.type, -2)
    start = b.sub(factor, b.like(0.25, x))
    total = b.fma(factor, rest, start)
    error = b.fma(factor, rest, b.sub(start, total))
    return b.add(total, b.fma(factor, tail, error))


def is_tiny(b: Builder, x: Value) -> Value:
    """Where an odd function with slope 1 is x itself."""
    return b.lt(b.abs(x), b.like(2.0**-60, x))


def expm1(b: Builder, x: Value) -> Value:
    """`e^x - 1`."""
    safe = clamped(b, x, pick(x, -20.0, -40.0), pick(x, 89.6, 710.6))
    made = b.mul(expm1_quarter(b, safe), b.like(4, x))
    return b.select(is_tiny(b, x), x, made)


def sinh(b: Builder, x: Value) -> Value:
    """A polynomial up to 1; beyond, with `h = e^|x| / 2`: `h - 1 / (4 h)`."""
    size = b.abs(x)
    half = exponential(b, clamped(b, size, None, pick(x, 90.0, 711.0)), extra=-1, better=True)
    large = b.sub(half, b.div(b.like(0.25, x), half))
    square = b.mul(size, size)
    tail = polynomial(b, square, tables.SINH_32 if x.type == "f32" else tables.SINH_64)
    small = b.fma(b.mul(size, square), tail, size)
    return with_sign(b, b.select(b.lt(size, b.like(1, x)), small, large), x)


def cosh(b: Builder, x: Value) -> Value:
    """With `h = e^|x| / 2`: `h + 1 / (4 h)`."""
    half = exponential(b, clamped(b, b.abs(x), None, pick(x, 90.0, 711.0)), extra=-1)
    return b.add(half, b.div(b.like(0.25, x), half))


def tanh(b: Builder, x: Value) -> Value:
    """A polynomial up to 5/8; beyond, `1 - 2 / (e^(2|x|) + 1)`, which loses nothing."""
    size = b.abs(x)
    limited = clamped(b, size, None, pick(x, 9.1, 19.2))
    rest, number = reduced(b, b.add(limited, limited))
    factor = power_of_two(b, number, x.type)
    power = b.fma(factor, grown(b, rest), factor)
    large = b.sub(b.like(1, x), b.div(b.like(2, x), b.add(power, b.like(1, x))))
    square = b.mul(size, size)
    tail = polynomial(b, square, tables.TANH_32 if x.type == "f32" else tables.TANH_64)
    small = b.fma(b.mul(size, square), tail, size)
    return with_sign(b, b.select(b.lt(size, b.like(0.625, x)), small, large), x)


def sigmoid(b: Builder, x: Value) -> Value:
    """`1 / (1 + e^-x)`. With `p = e^-|x|` and `q = p / (1 + p)` it is `1 - q`, or `p - p q` where x < 0:
    small results are as good as others, and what rounding does to q matters little.
    """
    one = b.like(1, x)
    power = decay(b, x)
    part = b.div(power, b.add(power, one))
    top = b.select(b.lt(x, b.like(0, x)), power, one)
    return b.fma(b.neg(part), top, top)


def decay(b: Builder, x: Value) -> Value:
    """`e^-|x|`."""
    return exponential(b, clamped(b, b.neg(b.abs(x)), pick(x, *LOWER), None), better=True)
