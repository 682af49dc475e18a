"""Circular functions and their inverses: sin, cos, tan, asin, acos, atan, atan2.

Takes a builder and values; gives values, for arguments of any size.

# Note [Quadrants]
`x = (q + f) pi/2` with a whole q, of which only the last two bits matter, and |f| <= 1/2.
float32: below 8192, x less multiples of pi/2, which is in three parts. Beyond, hardly ever, in float64:
    `x * 2/pi` is exact modulo 4 where 2/pi may be replaced by itself modulo a power of two:
    x of at least 2^B is a whole multiple of 2^(B - 23), so multiples of 4 / 2^(B - 23) may be taken off 2/pi.
    Four ranges of sizes have each their constant, in two parts of 53 bits.
float64: in ints. x = m 2^e, and of the bits of 2/pi only a window of 192 matters, which starts where a bit
    times m is no multiple of 4; the 19 words that hold all bits are shifted by whole words in four steps of
    selects, then by bits. The product with m gives q and 126 bits of f: enough for the float64 closest to a
    multiple of pi/2, of which 62 are zeros.
"""

from __future__ import annotations

from typing import Final

from weft.native.ir.scalar import Builder, Value
from weft.native.maths import coefficients as tables
from weft.native.maths.tools import (
    DOUBLE,
    INFINITY,
    SINGLE,
    layout,
    pick,
    polynomial,
    product_and_error,
    sum_and_error,
    with_sign,
)  # fmt: skip

PI_HIGH_64: Final = 3.141592653589793
PI_LOW_64: Final = 1.2246467991473532e-16
PI_HIGH_32: Final = 3.1415927410125732
PI_LOW_32: Final = -8.742278000372485e-08
HALF_PI: Final = 1.5707963267948966
HALF_PI_LOW: Final = 6.123233995736766e-17
# 2/pi, to more bits than any argument needs: floor(2/pi * 2^1280)
TWO_OVER_PI: Final = int(
    "a2f9836e4e441529fc2757d1f534ddc0db6295993c439041fe5163abdebbc561b7246e3a424dd2e0"
    "06492eea09d1921cfe1deb1cb129a73ee88235f52ebb4484e99c7026b45f7e413991d639835339f4"
    "9c845f8bbdf9283b1ff897ffde05980fef2f118b5a0a6d1f6d367ecf27cb09b74f463f669e5fea2d"
    "7527bac7ebe5f17b3d0739f78a5292ea6bfb5fb11f8d5d0856033046fc7b6babf0cfbc209af4361d",
    16,
)  # fmt: skip
FRACTION_BITS: Final = 1280
HALF_PI_32: Final = (1.5707963705062866, -4.371138828673793e-08, -1.7151245100058819e-15)
"""pi/2 in three float32."""
FEW_32: Final = 8192.0
"""Below this, a float32 less a multiple of pi/2 is computed in float32."""
STARTS_32: Final = (50, 76, 102)
"""Powers of two where the ranges of float32 begin, after the first."""


def _constants_32() -> list[tuple[float, float]]:
    """For each range of sizes, 2/pi without what gives multiples of 4, in two parts."""
    made = []
    for start in (None, *STARTS_32):
        number = TWO_OVER_PI
        if start is not None:
            whole = 1 << (FRACTION_BITS + 2 - (start - 23))
            number = (number + whole // 2) % whole - whole // 2
        high = _rounded(number)
        made.append((high, _rounded(number - int(high * 2.0**400) * (1 << (FRACTION_BITS - 400)))))
    return made


def _rounded(number: int) -> float:
    """`number / 2**FRACTION_BITS` as a float."""
    return number / (1 << FRACTION_BITS)


CONSTANTS_32: Final = _constants_32()
WORDS: Final = [
    (TWO_OVER_PI >> (FRACTION_BITS - 64 * word - 9)) & (2**64 - 1) for word in range(19)
]  # fmt: skip
"""Word w holds the bits of 2/pi * 2^(64 w + 9) before the point."""


# -- quadrants -----------------------------------------------------------------------------------------------
def quadrants_32(b: Builder, size: Value) -> tuple[Value, Value]:
    """f times pi/2 as a float64, and an i64 whose last bits are q, for a float64 that was a float32."""
    high, low = (b.like(each, size) for each in CONSTANTS_32[0])
    for start, (next_high, next_low) in zip(STARTS_32, CONSTANTS_32[1:]):
        beyond = b.ge(size, b.like(2.0**start, size))
        high = b.select(beyond, b.like(next_high, size), high)
        low = b.select(beyond, b.like(next_low, size), low)
    moved = b.fma(size, high, b.like(DOUBLE.magic, size))
    count = b.sub(moved, b.like(DOUBLE.magic, size))
    fraction = b.fma(size, low, b.fma(size, high, b.neg(count)))
    return b.mul(fraction, b.like(HALF_PI, size)), b.bitcast(moved, "i64")


def _window(b: Builder, place: Value) -> list[Value]:
    """192 bits of 2/pi from a place on (below 1024), in three words."""
    words = [b.const(each, "u64") for each in WORDS]
    for step, count in ((8, 11), (4, 7), (2, 5), (1, 4)):
        far = b.ne(b.and_(place, b.const(64 * step, "u64")), b.const(0, "u64"))
        words = [b.select(far, words[i + step], words[i]) for i in range(count)]
    left = b.and_(place, b.const(63, "u64"))
    right = b.xor(left, b.const(63, "u64"))
    one = b.const(1, "u64")
    return [b.or_(b.shl(x, left), b.shr(b.shr(y, one), right)) for x, y in zip(words, words[1:])]


def _long_product(b: Builder, x: Value, y: Value) -> tuple[Value, Value]:
    """The 128 bits of a product of u64, of which x is below 2^54, in multiplications of 32 bits."""
    mask, half = b.const(2**32 - 1, "u64"), b.const(32, "u64")
    x0, x1, y0, y1 = b.and_(x, mask), b.shr(x, half), b.and_(y, mask), b.shr(y, half)
    first = b.mul(x0, y0)
    second = b.add(b.mul(x1, y0), b.shr(first, half))
    third = b.add(b.mul(x0, y1), b.and_(second, mask))
    upper = b.add(b.add(b.mul(x1, y1), b.shr(second, half)), b.shr(third, half))
    return upper, b.or_(b.shl(third, half), b.and_(first, mask))


def quadrants_64(b: Builder, size: Value) -> tuple[Value, Value, Value]:
    """f times pi/2 in two parts, and an i64 whose last bits are q."""
    bits = b.bitcast(size, "u64")
    power = b.shr(bits, b.const(52, "u64"))
    mantissa = b.or_(b.and_(bits, b.const(2**52 - 1, "u64")), b.const(2**52, "u64"))
    above = b.gt(power, b.const(1022, "u64"))
    place = b.select(above, b.sub(power, b.const(1023, "u64")), b.const(0, "u64"))
    mantissa = b.select(above, b.add(mantissa, mantissa), mantissa)
    first, second, third = _window(b, place)
    high1, low1 = _long_product(b, mantissa, second)
    high2, _ = _long_product(b, mantissa, third)
    low = b.add(low1, high2)
    carry = b.select(b.lt(low, low1), b.const(1, "u64"), b.const(0, "u64"))
    high = b.add(b.add(b.mul(mantissa, first), high1), carry)
    two, rest = b.const(2, "u64"), b.const(62, "u64")
    quadrant = b.bitcast(b.shr(b.add(high, b.const(2**61, "u64")), rest), "i64")
    fraction = b.bitcast(b.or_(b.shl(high, two), b.shr(low, rest)), "i64")
    # the fraction, a signed number of 128 bits, as floats of its first 32, next 32 and next 53 bits
    upper = b.cast(b.shr(fraction, b.const(32, "i64")), "f64")
    middle = b.cast(b.and_(fraction, b.const(2**32 - 1, "i64")), "f64")
    lower = b.cast(b.bitcast(b.shr(b.shl(low, two), b.const(11, "u64")), "i64"), "f64")
    upper = b.mul(upper, b.like(2.0**-32, size))
    weight = b.like(2.0**-64, size)
    total = b.fma(middle, weight, upper)
    error = b.fma(middle, weight, b.sub(upper, total))
    total, error = sum_and_error(b, total, b.fma(lower, b.like(2.0**-117, size), error))
    half_pi = b.like(HALF_PI, size)
    angle, lost = product_and_error(b, total, half_pi)
    lost = b.add(lost, b.fma(total, b.like(HALF_PI_LOW, size), b.mul(error, half_pi)))
    small = b.le(size, b.like(0.785, size))
    angle = b.select(small, size, b.add(angle, b.sub(size, size)))  # infinity - infinity is NaN
    lost = b.select(small, b.like(0, size), lost)
    return angle, lost, b.select(small, b.const(0, "i64"), quadrant)


# -- sin, cos, tan -------------------------------------------------------------------------------------------
def _sine(b: Builder, x: Value, lost: Value | None, table: tuple[float, ...]) -> Value:
    square = b.mul(x, x)
    cube = b.mul(x, square)
    more = polynomial(b, square, table)
    return b.fma(cube, more, x) if lost is None else b.add(x, b.fma(cube, more, lost))


def _cosine(b: Builder, x: Value, lost: Value | None, table: tuple[float, ...]) -> Value:
    square, one = b.mul(x, x), b.like(1, x)
    more = b.mul(b.mul(square, square), polynomial(b, square, table))
    if lost is None:
        return b.add(one, b.fma(square, b.like(-0.5, x), more))
    half = b.mul(square, b.like(0.5, x))
    start = b.sub(one, half)
    error = b.sub(b.sub(one, start), half)
    return b.add(start, b.add(error, b.fma(b.neg(x), lost, more)))


def quadrants_of_few(b: Builder, size: Value) -> tuple[Value, Value]:
    """f times pi/2, and q in the last bits of an i32, for a float32 below FEW_32: the first product and
    difference are exact, each of the others loses half a unit of what is left.
    """
    moved = b.fma(size, b.like(1 / HALF_PI, size), b.like(SINGLE.magic, size))
    minus = b.neg(b.sub(moved, b.like(SINGLE.magic, size)))
    angle = size
    for part in HALF_PI_32:
        angle = b.fma(minus, b.like(part, size), angle)
    return angle, b.bitcast(moved, "i32")


def _turned(b: Builder, x: Value, turn: int) -> Value:
    """The sine of |x|, `turn` quadrants further."""
    size = b.abs(x)
    if x.type == "f64":
        angle, lost, quadrant = quadrants_64(b, size)
        sine, cosine = _sine(b, angle, lost, tables.SIN_64), _cosine(b, angle, lost, tables.COS_64)
        return _picked(b, sine, cosine, quadrant, turn)
    angle, quadrant = quadrants_of_few(b, size)
    sine, cosine = _sine(b, angle, None, tables.SIN_32), _cosine(b, angle, None, tables.COS_32)
    usual = _picked(b, sine, cosine, quadrant, turn)
    many = b.ge(size, b.like(FEW_32, size))
    return b.rarely(many, usual, size, lambda inner, given: _turned_far(inner, given, turn))


def _turned_far(b: Builder, size: Value, turn: int) -> Value:
    """The same for a float32 of any size."""
    angle, quadrant = quadrants_32(b, b.cast(size, "f64"))
    near = b.cast(angle, "f32")
    sine, cosine = _sine(b, near, None, tables.SIN_32), _cosine(b, near, None, tables.COS_32)
    return _picked(b, sine, cosine, b.cast(quadrant, "i32"), turn)


def _picked(b: Builder, sine: Value, cosine: Value, quadrant: Value, turn: int) -> Value:
    """Sine or cosine, by the quadrant, with the sign that it has there."""
    kind = layout(sine)
    if turn:
        quadrant = b.add(quadrant, b.like(turn, quadrant))
    odd = b.ne(b.and_(quadrant, b.like(1, quadrant)), b.like(0, quadrant))
    made = b.select(odd, cosine, sine)
    width = kind.mantissa + 9 if sine.type == "f32" else 64
    sign = b.shl(b.shr(quadrant, b.like(1, quadrant)), b.like(width - 1, quadrant))
    return b.bitcast(b.xor(b.bitcast(made, kind.whole), sign), sine.type)


def _same_sign(b: Builder, made: Value, x: Value) -> Value:
    """An odd function of |x| as that of x."""
    kind = layout(x)
    sign = b.and_(b.bitcast(x, kind.whole), b.const(kind.sign_bit, kind.whole))
    return b.bitcast(b.xor(b.bitcast(made, kind.whole), sign), x.type)


def sin(b: Builder, x: Value) -> Value:
    """The sine."""
    return _same_sign(b, _turned(b, x, 0), x)


def cos(b: Builder, x: Value) -> Value:
    """The cosine."""
    return _turned(b, x, 1)


def _tangent_64(b: Builder, size: Value) -> Value:
    """In both parts of sine and cosine, so that their quotient is rounded hardly more than once."""
    angle, lost, quadrant = quadrants_64(b, size)
    square, one = b.mul(angle, angle), b.like(1, size)
    more = b.fma(b.mul(angle, square), polynomial(b, square, tables.SIN_64), lost)
    sine = sum_and_error(b, angle, more)
    half = b.mul(square, b.like(0.5, size))
    start, error = sum_and_error(b, one, b.neg(half))
    more = b.mul(b.mul(square, square), polynomial(b, square, tables.COS_64))
    # x^2 rounded, half of what that lost matters here
    half_lost = b.mul(b.fma(angle, angle, b.neg(square)), b.like(0.5, size))
    cosine = sum_and_error(b, start, b.add(b.sub(error, half_lost), b.fma(b.neg(angle), lost, more)))
    odd = b.ne(b.and_(quadrant, b.like(1, quadrant)), b.like(0, quadrant))
    top, top_lost = (b.select(odd, b.neg(x), y) for x, y in zip(cosine, sine))
    under, under_lost = (b.select(odd, x, y) for x, y in zip(sine, cosine))
    inverse = b.div(one, under)
    made = b.mul(top, inverse)
    missing = b.fma(b.neg(made), under, top)
    missing = b.add(missing, b.fma(b.neg(made), under_lost, top_lost))
    return b.fma(missing, inverse, made)


def tan(b: Builder, x: Value) -> Value:
    """The tangent."""
    size = b.abs(x)
    if x.type == "f64":
        return _same_sign(b, _tangent_64(b, size), x)
    angle, quadrant = quadrants_32(b, b.cast(size, "f64"))
    sine, cosine = _sine(b, angle, None, tables.SIN_SHORT), _cosine(b, angle, None, tables.COS_SHORT)
    odd = b.ne(b.and_(quadrant, b.like(1, quadrant)), b.like(0, quadrant))
    quotient = b.div(b.select(odd, b.neg(cosine), sine), b.select(odd, sine, cosine))
    return _same_sign(b, b.cast(quotient, "f32"), x)


# -- inverses ------------------------------------------------------------------------------------------------
def _odd_series(b: Builder, x: Value, square: Value, table: tuple[float, ...]) -> Value:
    """`x + x^3 P(x^2)`, without the x."""
    return b.mul(b.mul(x, square), polynomial(b, square, table))


def _half_pi(b: Builder, x: Value, times: float) -> tuple[Value, Value]:
    high = pick(x, PI_HIGH_32, PI_HIGH_64) * times
    return b.like(high, x), b.like(pick(x, PI_LOW_32, PI_LOW_64) * times, x)


def _arc(b: Builder, x: Value) -> tuple[Value, Value, Value]:
    """The arc sine of |x| or, above 1/2, of `sqrt((1 - |x|) / 2)`, in two parts; and where that is."""
    size = b.abs(x)
    beyond = b.gt(size, b.like(0.5, x))
    folded = b.fma(size, b.like(-0.5, x), b.like(0.5, x))
    square = b.select(beyond, folded, b.mul(size, size))
    start = b.select(beyond, b.sqrt(folded), size)
    table = tables.ASIN_32 if x.type == "f32" else tables.ASIN_64
    return start, _odd_series(b, start, square, table), beyond


def asin(b: Builder, x: Value) -> Value:
    """The arc sine: above 1/2, `pi/2 - 2 asin(sqrt((1 - x) / 2))`."""
    start, more, beyond = _arc(b, x)
    half, half_low = _half_pi(b, x, 0.5)
    minus = b.like(-2, x)
    total, lost = sum_and_error(b, half, b.mul(start, minus))
    large = b.add(total, b.add(lost, b.fma(more, minus, half_low)))
    return with_sign(b, b.select(beyond, large, b.add(start, more)), x)


def acos(b: Builder, x: Value) -> Value:
    """The arc cosine: `pi/2 - asin x`, and beyond 1/2 twice the small arc, or pi without it."""
    start, more, beyond = _arc(b, x)
    negative = b.lt(x, b.like(0, x))
    half, half_low = _half_pi(b, x, 0.5)
    pi, pi_low = _half_pi(b, x, 1.0)
    zero, one, two = b.like(0, x), b.like(1, x), b.like(2, x)
    base = b.select(beyond, b.select(negative, pi, zero), half)
    base_low = b.select(beyond, b.select(negative, pi_low, zero), half_low)
    factor = b.select(beyond, two, one)
    # with the arc added where x < 0 and small, or x > 1/2
    down = b.xor(negative, beyond)
    factor = b.select(down, factor, b.neg(factor))
    return b.add(b.fma(start, factor, base), b.fma(more, factor, base_low))


def _arc_tangent(b: Builder, y: Value, x: Value) -> Value:
    """The angle of (x, y), of which neither is negative, nor both 0 or infinite."""
    zero = b.like(0, x)
    steep = b.gt(y, x)
    t = b.div(b.select(steep, b.neg(x), y), b.select(steep, y, x))
    more = _odd_series(b, t, b.mul(t, t), tables.ATAN_32 if x.type == "f32" else tables.ATAN_64)
    half, half_low = _half_pi(b, x, 0.5)
    total, lost = sum_and_error(b, b.select(steep, half, zero), t)
    lost = b.select(steep, b.add(lost, half_low), zero)
    return b.add(total, b.add(lost, more))


def atan(b: Builder, x: Value) -> Value:
    """The arc tangent."""
    return with_sign(b, _arc_tangent(b, b.abs(x), b.like(1, x)), x)


def atan2(b: Builder, y: Value, x: Value) -> Value:
    """The angle of the point (x, y), between -pi and pi."""
    kind = layout(x)
    one, zero, infinity = b.like(1, x), b.like(0, x), b.like(INFINITY, x)
    high, wide = b.abs(y), b.abs(x)
    both = b.and_(b.eq(high, infinity), b.eq(wide, infinity))
    high, wide = b.select(both, one, high), b.select(both, one, wide)
    wide = b.select(b.eq(b.add(high, wide), zero), one, wide)
    made = _arc_tangent(b, high, wide)
    pi, pi_low = _half_pi(b, x, 1.0)
    behind = b.lt(b.bitcast(x, kind.whole), b.const(0, kind.whole))  # -0, too
    made = b.select(behind, b.sub(pi, b.sub(made, pi_low)), made)
    strange = b.or_(b.isnan(x), b.isnan(y))
    return b.select(strange, b.add(x, y), with_sign(b, made, y))
