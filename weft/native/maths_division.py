"""Quotients and remainders as Python has them: `//` and `%` follow the divisor's sign, fmod the other's.

Takes a builder and two values of one type, floats or ints; gives values. One idea: a float remainder is
exact, which takes a loop, so it is the C library's, and all else follows from it. Ints divided by 0 give 0:
who has to refuse that looks at the divisors before.
"""

from __future__ import annotations

from weft.native.maths_tools import with_sign
from weft.native.scalar import FLOATS, Builder, Value


def fmod(b: Builder, x: Value, y: Value) -> Value:
    """What is left of x by y, with the sign of x."""
    return b.call("fmod", x, y) if x.type in FLOATS else b.rem(x, y)


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
