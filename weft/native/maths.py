"""Elementary functions in scalar instructions: exponentials, logarithms, and what is made of them.

Takes a builder and values; gives values. One idea: each function reduces its argument exactly and ends in a
polynomial evaluated with fused multiply-adds, with the special numbers put right by selects; so every target
that has the instructions has the functions, and with the same bits.
"""

from __future__ import annotations

from typing import Final

from weft.native.scalar import Builder, Value

LN2_HIGH_32: Final = 0.693145751953125
LN2_LOW_32: Final = 1.428606820309417e-06
LN2_HIGH_64: Final = 0.6931471803691238
LN2_LOW_64: Final = 1.9082149292705877e-10
LOG2_E: Final = 1.4426950408889634


def polynomial(b: Builder, x: Value, coefficients: tuple[float, ...]) -> Value:
    """The coefficients are those of the highest power first."""
    total = b.like(coefficients[0], x)
    for each in coefficients[1:]:
        total = b.fma(total, x, b.like(each, x))
    return total


def scaled(b: Builder, x: Value, power: Value) -> Value:
    """`x * 2**power`, for an int power, in two steps, so that neither factor overflows."""
    bias, shift = (127, 23) if x.type == "f32" else (1023, 52)
    half = b.shr(power, b.like(1, power))
    rest = b.sub(power, half)
    for part in (half, rest):
        bits = b.shl(b.add(part, b.like(bias, part)), b.like(shift, part))
        x = b.mul(x, b.bitcast(bits, x.type))
    return x


def exp(b: Builder, x: Value) -> Value:
    """e to the power x."""
    single = x.type == "f32"
    low, high = (-104.0, 88.8) if single else (-746.0, 709.9)
    safe = b.select(b.lt(x, b.like(low, x)), b.like(low, x), x)
    safe = b.select(b.gt(safe, b.like(high, x)), b.like(high, x), safe)
    safe = b.select(b.isnan(x), b.like(0, x), safe)
    count = b.rint(b.mul(safe, b.like(LOG2_E, x)))
    minus = b.neg(count)
    rest = b.fma(minus, b.like(LN2_HIGH_32 if single else LN2_HIGH_64, x), safe)
    rest = b.fma(minus, b.like(LN2_LOW_32 if single else LN2_LOW_64, x), rest)
    degree = 7 if single else 13
    factors: list[float] = [1.0]
    for power in range(1, degree + 1):
        factors.append(factors[-1] / power)
    value = polynomial(b, rest, tuple(reversed(factors)))
    made = scaled(b, value, b.cast(count, "i32" if single else "i64"))
    made = b.select(
        b.gt(x, b.like(88.72283935546875 if single else 709.782712893384, x)), b.like(float("inf"), x), made
    )
    return b.select(b.isnan(x), x, made)


def log(b: Builder, x: Value) -> Value:
    """The natural logarithm."""
    return b.call("log", x)
