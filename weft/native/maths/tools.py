"""What elementary functions share: polynomials, powers of two, signs, sums and products without error.

Takes a builder and values; gives values. One idea: floats are taken apart and put together by their bits,
with integer instructions that every vector unit has, so no float is ever cast to an int (a cast that is
defined for all floats is dear).
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

from weft.native.ir.scalar import Builder, Value

INFINITY: Final = float("inf")
NAN: Final = float("nan")


class Format(NamedTuple):
    """How a type of floats is laid out."""

    whole: str
    """The ints of the same width."""
    mantissa: int
    bias: int
    magic: float
    """1.5 * 2**mantissa: added to a small number, it leaves the nearest int in the last bits."""
    magic_bits: int
    sign_bit: int
    least: float
    """The smallest number that is no denormal."""


def _bits(number: float, single: bool) -> int:
    return int(struct.unpack("<i" if single else "<q", struct.pack("<f" if single else "<d", number))[0])


SINGLE: Final = Format("i32", 23, 127, 12582912.0, _bits(12582912.0, True), -(2**31), 2.0**-126)
DOUBLE: Final = Format("i64", 52, 1023, 1.5 * 2.0**52, _bits(1.5 * 2.0**52, False), -(2**63), 2.0**-1022)


def layout(x: Value) -> Format:
    if x.type not in ("f32", "f64"):
        raise TypeError(f"an elementary function of numbers of type {x.type}: cast them to floats first")
    return SINGLE if x.type == "f32" else DOUBLE


def pick(x: Value, single: float, double: float) -> float:
    """The number for the type at hand."""
    return single if x.type == "f32" else double


def polynomial(b: Builder, x: Value, coefficients: tuple[float, ...]) -> Value:
    """The coefficients are those of the highest power first."""
    total = b.like(coefficients[0], x)
    for each in coefficients[1:]:
        total = b.fma(total, x, b.like(each, x))
    return total


def clamped(b: Builder, x: Value, low: float | None, high: float | None) -> Value:
    """NaN stays."""
    if low is not None:
        x = b.select(b.lt(x, b.like(low, x)), b.like(low, x), x)
    if high is not None:
        x = b.select(b.gt(x, b.like(high, x)), b.like(high, x), x)
    return x


def nearest(b: Builder, x: Value, factor: float = 1.0) -> tuple[Value, Value]:
    """The int nearest to `x * factor`, as a float and as an int; it must be below 2**(mantissa - 1)."""
    kind = layout(x)
    magic = b.like(kind.magic, x)
    moved = b.add(x, magic) if factor == 1 else b.fma(x, b.like(factor, x), magic)
    number = b.sub(b.bitcast(moved, kind.whole), b.const(kind.magic_bits, kind.whole))
    return b.sub(moved, magic), number


def as_float(b: Builder, number: Value, type_: str, less: Value | None = None) -> Value:
    """A small int as a float, optionally less a number that is added to `magic`."""
    kind = SINGLE if type_ == "f32" else DOUBLE
    moved = b.bitcast(b.add(number, b.like(kind.magic_bits, number)), type_)
    return b.sub(moved, b.const(kind.magic, type_) if less is None else less)


def power_of_two(b: Builder, number: Value, type_: str, extra: int = 0) -> Value:
    """`2.0 ** (number + extra)`; the power must be that of a number that is no denormal."""
    kind = SINGLE if type_ == "f32" else DOUBLE
    bits = b.shl(b.add(number, b.like(kind.bias + extra, number)), b.like(kind.mantissa, number))
    return b.bitcast(bits, type_)


def scaled(b: Builder, x: Value, power: Value) -> Value:
    """`x * 2**power`, for an int power, in two steps, so that neither factor overflows."""
    half = b.shr(power, b.like(1, power))
    return b.mul(b.mul(x, power_of_two(b, half, x.type)), power_of_two(b, b.sub(power, half), x.type))


def with_sign(b: Builder, magnitude: Value, x: Value) -> Value:
    """The magnitude, which must not be negative, with the sign of x."""
    kind = layout(x)
    sign = b.and_(b.bitcast(x, kind.whole), b.const(kind.sign_bit, kind.whole))
    return b.bitcast(b.or_(b.bitcast(magnitude, kind.whole), sign), x.type)


def sum_and_error(b: Builder, large: Value, small: Value) -> tuple[Value, Value]:
    """The rounded sum, and what rounding lost, where |large| >= |small|, or large is 0."""
    total = b.add(large, small)
    return total, b.sub(small, b.sub(total, large))


def any_sum_and_error(b: Builder, x: Value, y: Value) -> tuple[Value, Value]:
    """The rounded sum, and what rounding lost, whichever is larger."""
    total = b.add(x, y)
    part = b.sub(total, x)
    return total, b.add(b.sub(x, b.sub(total, part)), b.sub(y, part))


def product_and_error(b: Builder, x: Value, y: Value) -> tuple[Value, Value]:
    product = b.mul(x, y)
    return product, b.fma(x, y, b.neg(product))
