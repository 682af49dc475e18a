"""Quotients and remainders as Python has them: `//` and `%` follow the divisor's sign, fmod the other's.

Takes a builder and two values of one type, floats or ints; gives values. One idea: a float remainder is
exact, and all else follows from it. Ints divided by 0 give 0: who has to refuse that looks at the divisors
before.

# Note [Remainders]
Of float32, in float64: a quotient has at most 277 bits before the point. Six times, 48 of them are found by
multiplying with the inverse, and taken off: `r - q y 2^(48 k)` has few bits, so a fused multiply-add gives it
without error, and a last bit of q that is wrong is made good by the next step, or by adding y at the end.
Of float64, quotients have up to 2098 bits, so that the C library's loop is the better one.
"""

from __future__ import annotations

from typing import Final

from weft.native.ir.scalar import FLOATS, Builder, Value
from weft.native.maths.tools import clamped, with_sign

STEP: Final = 48
"""How many bits of a quotient one multiplication gives: few enough that its error is less than a half."""
LARGEST_QUOTIENT: Final = 128 + 149


def fmod(b: Builder, x: Value, y: Value) -> Value:
    """What is left of x by y, with the sign of x."""
    if x.type == "f32":
        return _fmod_32(b, x, y)
    return b.call("fmod", x, y) if x.type in FLOATS else b.rem(x, y)


def _fmod_32(b: Builder, x: Value, y: Value) -> Value:
    """See Note [Remainders]."""
    rest = b.abs(b.cast(x, "f64"))
    divisor = clamped(b, b.abs(b.cast(y, "f64")), None, 2.0**200)  # no infinity
    inverse = b.div(b.like(-1, rest), divisor)
    for step in range(LARGEST_QUOTIENT // STEP, -1, -1):
        factor, scale = inverse, divisor
        if step:
            factor = b.mul(inverse, b.like(2.0 ** -(STEP * step), rest))
            scale = b.mul(divisor, b.like(2.0 ** (STEP * step), rest))
        rest = b.fma(b.rint(b.mul(rest, factor)), scale, rest)
    rest = b.select(b.lt(rest, b.like(0, rest)), b.add(rest, divisor), rest)
    return with_sign(b, b.abs(b.cast(rest, "f32")), x)


def _wrong_side(b: Builder, rest: Value, y: Value) -> Value:
    """Where a rest is not 0 and has not the divisor's sign."""
    zero = b.like(0, y)
    return b.and_(b.ne(rest, zero), b.xor(b.lt(rest, zero), b.lt(y, zero)))


def remainder(b: Builder, x: Value, y: Value) -> Value:
    """What is left of x by y, with the sign of y; a 0 keeps the sign of x."""
    rest = fmod(b, x, y)
    return b.select(_wrong_side(b, rest, y), b.add(rest, y), rest)


def floor_divide(b: Builder, x: Value, y: Value) -> Value:
    """The quotient rounded down, such that `x == y * (x // y) + x % y`."""
    if x.type not in FLOATS:
        made = b.div(x, y)
        return b.select(_wrong_side(b, b.rem(x, y), y), b.sub(made, b.like(1, y)), made)
    zero, one = b.like(0, y), b.like(1, y)
    rest = fmod(b, x, y)
    down = b.select(_wrong_side(b, rest, y), one, zero)
    quotient = b.sub(b.div(b.sub(x, rest), y), down)
    whole = b.floor(quotient)
    whole = b.add(whole, b.select(b.gt(b.sub(quotient, whole), b.like(0.5, y)), one, zero))
    exact = b.div(x, y)
    signed = with_sign(b, b.abs(whole), exact)
    return b.select(b.eq(y, zero), exact, signed)


def trunc_divide(b: Builder, x: Value, y: Value) -> Value:
    """The quotient rounded towards 0."""
    return b.trunc(b.div(x, y)) if x.type in FLOATS else b.div(x, y)
