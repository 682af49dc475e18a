"""Array kernels of rounding division: quotients rounded down or towards zero, and what is left.

Takes two arrays of one dtype, gives another. One idea: integers refuse a zero divisor, floats follow Python's
rule, in passes for which NumPy has fast loops.
"""

from __future__ import annotations

import numpy as np

from weft.core.arrays import MODULES, Array


def check_divisor(x: Array, y: Array) -> None:
    if x.dtype.kind in "iu" and x.size and not MODULES[type(x)].all(y):
        raise RuntimeError("ZeroDivisionError")


def floor_divide(x: Array, y: Array) -> Array:
    if x.dtype.kind in "iu":
        check_divisor(x, y)
        return MODULES[type(x)].floor_divide(x, y, out=...)
    return float_floor_divide(x, y)


EXACT_QUOTIENT = float(2**22)  # below it, Python's rule is exact in float32


def float_floor_divide(x: Array, y: Array) -> Array:
    """The quotient rounded down. That of two float32 numbers, taken in float64, is on the right side of every
    whole number that is not huge; beyond, Python's rule says what to do, rounding errors included.
    """
    xp = MODULES[type(x)]
    y = xp.asarray(y, x.dtype)  # numbers are rounded first, to zeros and infinities too
    if x.dtype == np.float32:
        xp.floor(whole := xp.divide(x, y, dtype=np.float64, out=...), out=whole)
        small = whole.size and whole.min() > -EXACT_QUOTIENT and whole.max() < EXACT_QUOTIENT  # nor NaN
        if small and xp.isfinite(y).all():  # -1 by infinity is a little less than 0
            return whole.astype(np.float32)
    return python_floor_divide(x, y)


def python_floor_divide(x: Array, y: Array) -> Array:
    """Python's rule, as NumPy's loop computes it, but in passes that are SIMD loops: six times as fast."""
    xp = MODULES[type(x)]
    rest = xp.fmod(x, y, out=...)
    down = wrong_side(rest, y)
    quotient = xp.divide(xp.subtract(x, rest, out=rest), y, out=...)
    xp.subtract(quotient, down, out=quotient)
    whole = xp.floor(quotient, out=...)
    xp.add(whole, xp.greater(xp.subtract(quotient, whole, out=quotient), 0.5), out=whole)
    exact = xp.divide(x, y, out=...)
    xp.copysign(whole, exact, out=whole)  # for zeros: elsewhere the signs agree
    zero = xp.equal(y, 0)
    if zero.any():
        xp.copyto(whole, exact, where=zero)
    return whole


def wrong_side(rest: Array, y: Array) -> Array:
    """Where a remainder has not the divisor's sign."""
    xp = MODULES[type(rest)]
    return xp.logical_and(xp.not_equal(rest, 0), xp.not_equal(xp.less(rest, 0), xp.less(y, 0)))


def trunc_divide(x: Array, y: Array) -> Array:
    xp = MODULES[type(x)]
    if x.dtype.kind in "iu":
        check_divisor(x, y)
        return xp.floor_divide(xp.subtract(x, xp.fmod(x, y)), y, out=...)
    return xp.trunc(xp.true_divide(x, y), out=...)
