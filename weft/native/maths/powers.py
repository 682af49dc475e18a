"""Powers, error functions and lengths: pow, hypot, rsqrt, erf, erfc, lgamma.

Takes a builder and values; gives values. One idea: what has to be better than the type at hand (the logarithm
in a power, the square in a Gaussian) is kept in two floats; float32 uses float64 instead.
"""

from __future__ import annotations

from typing import Final

from weft.native.ir.scalar import Builder, Value
from weft.native.maths import coefficients as tables
from weft.native.maths.exponentials import LOG2_E, grown, reduced
from weft.native.maths.logarithms import taken_apart, taken_apart_all
from weft.native.maths.tools import (
    INFINITY,
    NAN,
    any_sum_and_error,
    as_float,
    clamped,
    layout,
    nearest,
    polynomial,
    power_of_two,
    product_and_error,
    scaled,
    sum_and_error,
    with_sign,
)

# 2 / (3 ln 2) in two parts
LOG2_THIRD_HIGH: Final = 0.9617966939259756
LOG2_THIRD_LOW: Final = 5.0577616648125907e-17


# -- powers --------------------------------------------------------------------------------------------------
def _log2_in_two(b: Builder, x: Value) -> tuple[Value, Value]:
    """The logarithm to base 2 of a positive float64, to 64 bits, in two parts.

    With `s = (m - 1) / (m + 1)`: `log m = 2/3 s (3 + s^2 + s^4 P(s^2))`.
    """
    power, f = taken_apart_all(b, x)
    one, three = b.like(1, x), b.like(3, x)
    # m + 1 = f + 2, in two parts
    under, under_lost = sum_and_error(b, b.like(2, x), f)
    inverse = b.div(one, under)
    s = b.mul(f, inverse)
    missing = b.fma(b.neg(s), under_lost, b.fma(b.neg(s), under, f))
    s_lost = b.mul(missing, inverse)
    z, z_lost = product_and_error(b, s, s)
    z_lost = b.fma(b.add(s, s), s_lost, z_lost)
    more = b.fma(b.mul(z, z), polynomial(b, z, tables.POWER_64), z_lost)
    inner, inner_lost = sum_and_error(b, three, z)
    inner_lost = b.add(inner_lost, more)
    high, low = product_and_error(b, s, inner)
    low = b.add(low, b.fma(s_lost, inner, b.mul(s, inner_lost)))
    high, low = sum_and_error(b, high, low)
    factor = b.like(LOG2_THIRD_HIGH, x)
    product, lost = product_and_error(b, high, factor)
    lost = b.add(lost, b.fma(high, b.like(LOG2_THIRD_LOW, x), b.mul(low, factor)))
    total, error = sum_and_error(b, power, product)
    return sum_and_error(b, total, b.add(error, lost))


def _power_64(b: Builder, size: Value, y: Value) -> Value:
    """`size ** y`, where it is not 1 by definition; 0 and infinity have infinite logarithms."""
    high, low = _log2_in_two(b, size)
    high = b.select(b.eq(size, b.like(0, y)), b.like(-INFINITY, y), high)
    high = b.select(b.eq(size, b.like(INFINITY, y)), b.like(INFINITY, y), high)
    product, lost = product_and_error(b, y, high)
    lost = b.fma(y, low, lost)
    inside = b.lt(b.abs(product), b.like(1100, y))
    lost = b.select(inside, lost, b.like(0, y))
    product = clamped(b, product, -1100.0, 1100.0)
    count, number = nearest(b, product)
    rest = b.add(b.sub(product, count), lost)
    slope = polynomial(b, rest, tables.EXP2_64)
    return scaled(b, b.fma(rest, slope, b.like(1, y)), number)


def exp2_short(b: Builder, x: Value) -> Value:
    """2 to the power of a float64 between -1000 and 1000, good enough for float32."""
    count, number = nearest(b, x)
    rest = b.sub(x, count)
    factor = power_of_two(b, number, "f64")
    return b.fma(b.mul(rest, factor), polynomial(b, rest, tables.EXP2_SHORT), factor)


def _power_32(b: Builder, size: Value, y: Value) -> Value:
    """`size ** y` of float64 numbers that were float32."""
    power, mantissa = taken_apart(b, size)
    f = b.sub(mantissa, b.like(1, size))
    s = b.div(f, b.add(f, b.like(2, f)))
    z = b.mul(s, s)
    double = b.add(s, s)
    logarithm = b.fma(b.mul(s, z), polynomial(b, z, tables.ATANH_SHORT), double)
    high = b.fma(logarithm, b.like(LOG2_E, f), as_float(b, power, "f64"))
    high = b.select(b.eq(size, b.like(0, y)), b.like(-INFINITY, y), high)
    high = b.select(b.eq(size, b.like(INFINITY, y)), b.like(INFINITY, y), high)
    return exp2_short(b, clamped(b, b.mul(y, high), -200.0, 200.0))


def power(b: Builder, x: Value, y: Value) -> Value:
    """x to the power y, as C defines it: 1 where y is 0 or x is 1, NaN for negative x and broken y."""
    kind = layout(x)
    size, zero, one, infinity = b.abs(x), b.like(0, x), b.like(1, x), b.like(INFINITY, x)
    if x.type == "f32":
        made = b.cast(_power_32(b, b.cast(size, "f64"), b.cast(y, "f64")), "f32")
    else:
        made = _power_64(b, size, y)
    whole = b.eq(b.trunc(y), y)
    half = b.mul(y, b.like(0.5, y))
    odd = b.and_(whole, b.ne(b.trunc(half), half))
    sign = b.and_(b.bitcast(x, kind.whole), b.const(kind.sign_bit, kind.whole))
    sign = b.select(odd, sign, b.const(0, kind.whole))
    made = b.bitcast(b.xor(b.bitcast(made, kind.whole), sign), x.type)
    negative = b.and_(b.lt(x, zero), b.gt(x, b.neg(infinity)))
    made = b.select(b.and_(negative, b.not_(whole)), b.like(NAN, x), made)
    made = b.select(b.isnan(x), x, made)
    always = b.and_(b.eq(size, one), b.eq(b.abs(y), infinity))
    always = b.or_(always, b.or_(b.eq(x, one), b.eq(y, zero)))
    return b.select(always, one, made)


def hypot(b: Builder, x: Value, y: Value) -> Value:
    """`sqrt(x^2 + y^2)` without overflow; infinite where one is, even beside NaN."""
    if x.type == "f32":
        wide, high = b.cast(x, "f64"), b.cast(y, "f64")
        made = b.cast(b.sqrt(b.fma(wide, wide, b.mul(high, high))), "f32")
    else:
        wide, high = b.abs(x), b.abs(y)
        largest = b.select(b.gt(wide, high), wide, high)
        one = b.like(1, x)
        large = b.gt(largest, b.like(2.0**500, x))
        little = b.lt(largest, b.like(2.0**-400, x))
        factor = b.select(large, b.like(2.0**-600, x), b.select(little, b.like(2.0**600, x), one))
        back = b.select(large, b.like(2.0**600, x), b.select(little, b.like(2.0**-600, x), one))
        wide, high = b.mul(wide, factor), b.mul(high, factor)
        made = b.mul(b.sqrt(b.fma(wide, wide, b.mul(high, high))), back)
    infinity = b.like(INFINITY, x)
    infinite = b.or_(b.eq(b.abs(x), infinity), b.eq(b.abs(y), infinity))
    return b.select(infinite, infinity, made)


def rsqrt(b: Builder, x: Value) -> Value:
    """`1 / sqrt(x)`."""
    return b.div(b.like(1, x), b.sqrt(x))


# -- error functions -----------------------------------------------------------------------------------------
def _complement_32(b: Builder, size: Value) -> Value:
    """erfc of a float64 that was a float32 and is not negative: `e^(-x^2) P((x - 4)/(x + 4)) / (1 + 2x)`."""
    limited = clamped(b, size, None, 10.5)
    one, four = b.like(1, size), b.like(4, size)
    first, second = b.add(limited, four), b.fma(limited, b.like(2, size), one)
    inverse = b.div(one, b.mul(first, second))
    t = b.mul(b.mul(b.sub(limited, four), second), inverse)
    value = b.mul(polynomial(b, t, tables.ERFCX_SHORT), b.mul(first, inverse))
    gauss = exp2_short(b, b.mul(b.mul(limited, limited), b.like(-LOG2_E, size)))
    return b.mul(gauss, value)


def _missing_64(b: Builder, size: Value) -> Value:
    """The same of a float64, to as many digits as `1 - erfc` shows from 0.9 on."""
    limited = clamped(b, size, None, 6.0)
    four = b.like(4, size)
    value = polynomial(b, b.div(b.sub(limited, four), b.add(limited, four)), tables.ERFCX_64)
    rest, number = reduced(b, b.neg(b.mul(limited, limited)))
    factor = power_of_two(b, number, "f64")
    gauss = b.fma(factor, grown(b, rest), factor)
    return b.div(b.mul(value, gauss), b.fma(limited, b.like(2, size), b.like(1, size)))


def _complement_64(b: Builder, size: Value) -> Value:
    """The same of a float64, for erfc. All but the tails of the polynomials is in two parts: x^2,
    (x - 4)/(x + 4) (what its rounding does to P follows from P's slope), the product, and the quotient.
    """
    x = clamped(b, size, None, 27.5)
    one, four = b.like(1, x), b.like(4, x)
    first, first_lost = any_sum_and_error(b, four, x)
    above, above_lost = any_sum_and_error(b, x, b.neg(four))
    inverse = b.div(one, first)
    t = b.mul(above, inverse)
    t_lost = b.fma(b.neg(t), first_lost, b.add(above_lost, b.fma(b.neg(t), first, above)))
    change = b.mul(b.mul(t_lost, inverse), polynomial(b, t, tables.ERFCX_SLOPE_64))
    start, inner = b.like(tables.ERFCX_64[-1], x), polynomial(b, t, tables.ERFCX_64[:-1])
    value = b.fma(t, inner, start)
    change = b.add(change, b.fma(t, inner, b.sub(start, value)))
    square, square_lost = product_and_error(b, x, x)
    rest, number = reduced(b, b.neg(square))
    more = grown(b, b.sub(rest, square_lost))
    top, top_lost = sum_and_error(b, value, b.fma(value, more, b.fma(change, more, change)))
    under, under_lost = any_sum_and_error(b, one, b.add(x, x))
    inverse = b.div(one, under)
    made = b.mul(top, inverse)
    missing = b.fma(b.neg(made), under_lost, b.add(top_lost, b.fma(b.neg(made), under, top)))
    return scaled(b, b.fma(missing, inverse, made), number)


def erfc(b: Builder, x: Value) -> Value:
    """1 - erf x, as good where it is tiny."""
    if x.type == "f32":
        wide = b.cast(x, "f64")
        part = _complement_32(b, b.abs(wide))
        made = b.select(b.lt(wide, b.like(0, wide)), b.sub(b.like(2, wide), part), part)
        return b.cast(made, "f32")
    part = _complement_64(b, b.abs(x))
    return b.select(b.lt(x, b.like(0, x)), b.sub(b.like(2, x), part), part)


def erf(b: Builder, x: Value) -> Value:
    """The error function: a polynomial up to 0.9, beyond it what is missing to 1."""
    size = b.abs(x)
    square = b.mul(x, x)
    table = tables.ERF_32 if x.type == "f32" else tables.ERF_64
    small = b.fma(size, polynomial(b, square, table), size)
    if x.type == "f32":
        limited = clamped(b, size, None, 4.0)
        rest, number = reduced(b, b.neg(polynomial(b, limited, tables.ERFC_EXPONENT_32)))
        factor = power_of_two(b, number, "f32")
        missing = b.fma(factor, grown(b, rest), factor)
    else:
        missing = _missing_64(b, size)
    large = b.sub(b.like(1, x), missing)
    return with_sign(b, b.select(b.lt(size, b.like(0.9, x)), small, large), x)


def lgamma(b: Builder, x: Value) -> Value:
    """The logarithm of the gamma function: the C library's."""
    return b.call("lgamma", x)
