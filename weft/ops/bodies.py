"""Pieces of scalar bodies that several records share.

Takes a builder of bodies (`weft.native.maths.emitting`) and values of one type; gives values. One idea: an
`emit`
says operation by operation what the record's kernel does to one element, so both give the same numbers; where
it has no body for a type or a number it gives NotImplemented, and the kernel itself is called.
"""

from __future__ import annotations

from typing import Any, Final

from weft.ops.values import BodyBuilder, Element, Number

FLOATS: Final = frozenset({"f32", "f64"})
BITS: Final = {"f32": "i32", "f64": "i64"}
"""Ints of the same size, which a float's sign and infinities can be read from."""


def is_float(x: Element) -> bool:
    return x.type in FLOATS


def constant(b: BodyBuilder, x: Element) -> Any:
    """The number that a value always is; None where it differs from element to element."""
    made = b.instructions[x.place]
    return made.value if made.op == "const" else None


def truth(b: BodyBuilder, value: bool) -> Any:
    return b.const(value, "b1")


def clip(b: BodyBuilder, x: Element, low: Element | Number, high: Element | Number) -> Any:
    """x between two numbers; NaN stays, and so does a zero of either sign: of equal numbers, the second is
    taken."""
    return b.min(b.like(high, x), b.max(b.like(low, x), x))


def positive_part(b: BodyBuilder, x: Element) -> Any:
    return b.max(b.like(0, x), x)


def reciprocal(b: BodyBuilder, x: Element) -> Any:
    return b.div(b.like(1, x), x)


def is_infinite(b: BodyBuilder, x: Element) -> Any:
    return b.eq(b.abs(x), b.like(float("inf"), x)) if is_float(x) else truth(b, False)


def is_finite(b: BodyBuilder, x: Element) -> Any:
    return b.lt(b.abs(x), b.like(float("inf"), x)) if is_float(x) else truth(b, True)


def is_nan(b: BodyBuilder, x: Element) -> Any:
    return b.isnan(x) if is_float(x) else truth(b, False)


def sign_bit(b: BodyBuilder, x: Element) -> Any:
    if is_float(x):
        x = b.bitcast(x, BITS[x.type])
    return b.lt(x, b.like(0, x))


def sign(b: BodyBuilder, x: Element) -> Any:
    """-1, 0 or 1; NaN is neither above nor below zero."""
    if x.type == "b1":
        return x
    above = b.select(b.gt(x, b.like(0, x)), b.like(1, x), b.like(0, x))
    return above if x.type == "u8" else b.select(b.lt(x, b.like(0, x)), b.like(-1, x), above)


def copy_sign(b: BodyBuilder, x: Element, y: Element) -> Any:
    """The size of x with the sign of y."""
    bits = BITS[x.type]
    mask = b.bitcast(b.like(-0.0, x), bits)
    size, turned = b.bitcast(b.abs(x), bits), b.and_(b.bitcast(y, bits), mask)
    return b.bitcast(b.or_(size, turned), x.type)


# -- quotients -----------------------------------------------------------------------------------------------
def dividing(b: BodyBuilder, y: Element) -> bool:
    """Whether a division by y cannot fail: ints are divided only by numbers that are known not to be 0, or
    where somebody else looks for zeros.
    """
    return is_float(y) or b.divides or bool(constant(b, y))


def wrong_side(b: BodyBuilder, rest: Element, y: Element) -> Any:
    """Whether a remainder has not the divisor's sign."""
    zero = b.like(0, rest)
    return b.and_(b.ne(rest, zero), b.xor(b.lt(rest, zero), b.lt(y, zero)))


def floor_divide(b: BodyBuilder, x: Element, y: Element) -> Any:
    """Python's rule."""
    return b.floor_divide(x, y) if dividing(b, y) else NotImplemented


def trunc_divide(b: BodyBuilder, x: Element, y: Element) -> Any:
    return b.trunc(b.div(x, y)) if dividing(b, y) else NotImplemented


def remainder(b: BodyBuilder, x: Element, y: Element) -> Any:
    """With the sign of the divisor."""
    if not dividing(b, y):
        return NotImplemented
    rest = b.fmod(x, y)
    return b.select(wrong_side(b, rest, y), b.add(rest, y), rest)  # zeros keep the dividend's sign


def fmod(b: BodyBuilder, x: Element, y: Element) -> Any:
    """With the sign of the dividend."""
    return b.fmod(x, y) if dividing(b, y) else NotImplemented


# -- powers --------------------------------------------------------------------------------------------------
def power(b: BodyBuilder, x: Element, y: Element) -> Any:
    exponent = constant(b, y)
    if x.type == "b1":
        return b.or_(x, b.not_(y))
    if not is_float(x):
        return NotImplemented if exponent is None or exponent < 0 else whole_power(b, x, exponent)
    if 1 not in b.numbers or (b.half == "f16" and exponent in ROOTS):
        return b.pow(x, y)
    if exponent is not None:
        return number_power(b, x, y, exponent)
    made = b.pow(x, y)
    for exponent in CHEAP_EXPONENTS:
        if b.half == "f16" and exponent in ROOTS:
            continue
        made = b.select(b.eq(y, b.like(exponent, y)), number_power(b, x, y, exponent), made)
    return made


def whole_power(b: BodyBuilder, x: Element, exponent: int) -> Any:
    """By squaring; ints wrap, so the order of the products does not matter."""
    made = b.like(1, x)
    while exponent:
        if exponent & 1:
            made = b.mul(made, x)
        exponent >>= 1
        x = b.mul(x, x) if exponent else x
    return made


CHEAP_EXPONENTS = (2, 0.5, 1, 3, -1, -0.5, -2)
ROOTS = (0.5, -0.5)
"""Exponents that PyTorch takes roots for, but not in float16: there -inf gives inf, and -0.0 gives 0.0."""


def number_power(b: BodyBuilder, x: Element, y: Element, exponent: float) -> Any:
    """Exponents that have a cheaper function."""
    if exponent == 2:
        return b.mul(x, x)
    if exponent == 0.5:
        return b.sqrt(x)
    if exponent == 1:
        return x
    if exponent == 3:
        return b.mul(b.mul(x, x), x)
    if exponent == -1:
        return reciprocal(b, x)
    if exponent == -0.5:
        return reciprocal(b, b.sqrt(x))
    if exponent == -2:
        return reciprocal(b, b.mul(x, x))
    return b.like(1, x) if exponent == 0 else b.pow(x, y)
