"""Elementary functions in scalar instructions, and the builder that has them as methods.

Takes a builder and values; gives values. One idea: each function reduces its argument exactly and ends in a
polynomial evaluated with fused multiply-adds, with the special numbers put right by selects, without a
branch; so every target that has the instructions has the functions, and with the same bits.

An op's record says `emit=lambda b, x: b.tanh(x)`; lowering builds bodies with `Emitting`, whose methods are
the functions below under the same names (`power` is `b.pow`, too):
    exp exp2 expm1 sinh cosh tanh sigmoid
    log log2 log10 log1p asinh acosh atanh softplus log_sigmoid
    sin cos tan asin acos atan atan2
    power hypot rsqrt erf erfc lgamma
    fmod remainder floor_divide trunc_divide            of ints, too; the others are of float32 and float64
They raise TypeError for values of other types: cast first. Errors are below 2 units in the last place over
the whole range; NaN, infinities, signed zeros and denormals are as NumPy's. Nothing is looked up in memory.
Only lgamma and remainders of float64 call the C library, lane by lane.
"""

from __future__ import annotations

from typing import Final

from weft.native.ir.scalar import Builder
from weft.native.maths.circular import acos, asin, atan, atan2, cos, sin, tan
from weft.native.maths.division import floor_divide, fmod, remainder, trunc_divide
from weft.native.maths.exponentials import cosh, exp, exp2, expm1, sigmoid, sinh, tanh
from weft.native.maths.logarithms import (
    acosh,
    asinh,
    atanh,
    log,
    log1p,
    log2,
    log10,
    log_sigmoid,
    softplus,
)
from weft.native.maths.powers import erf, erfc, hypot, lgamma, power, rsqrt
from weft.native.maths.tools import polynomial, scaled

INSTRUCTIONS: Final[dict[str, tuple[int, int]]] = {
    "exp": (25, 30), "exp2": (22, 27), "expm1": (32, 37), "sinh": (40, 48), "cosh": (27, 32),
    "tanh": (33, 44), "sigmoid": (34, 39), "log": (32, 34), "log2": (39, 41), "log10": (41, 43),
    "log1p": (44, 46), "asinh": (56, 58), "acosh": (52, 54), "atanh": (55, 57), "softplus": (63, 70),
    "log_sigmoid": (63, 70), "sin": (28, 164), "cos": (27, 163), "tan": (39, 182), "asin": (24, 31),
    "acos": (25, 32), "atan": (27, 38), "atan2": (45, 56), "power": (71, 126), "hypot": (12, 20),
    "rsqrt": (2, 2), "erf": (39, 72), "erfc": (47, 105), "lgamma": (1, 1), "fmod": (42, 1),
    "remainder": (49, 8), "floor_divide": (62, 21), "trunc_divide": (2, 2),
}  # fmt: skip
"""How many instructions a function is in float32 and in float64, constants and bitcasts not counted. Those of
sin, cos, tan, power, hypot, erfc and fmod of float32 are mostly on float64, so twice as many vectors."""


class Emitting(Builder):
    """A builder with elementary functions."""

    exp, exp2, expm1 = exp, exp2, expm1
    sinh, cosh, tanh, sigmoid = sinh, cosh, tanh, sigmoid
    log, log2, log10, log1p = log, log2, log10, log1p
    asinh, acosh, atanh = asinh, acosh, atanh
    softplus, log_sigmoid = softplus, log_sigmoid
    sin, cos, tan = sin, cos, tan
    asin, acos, atan, atan2 = asin, acos, atan, atan2
    power, pow = power, power
    hypot, rsqrt = hypot, rsqrt
    erf, erfc, lgamma = erf, erfc, lgamma
    fmod, remainder = fmod, remainder
    floor_divide, trunc_divide = floor_divide, trunc_divide


__all__ = [
    "INSTRUCTIONS", "Emitting",
    "acos", "acosh", "asin", "asinh", "atan", "atan2", "atanh", "cos", "cosh", "erf", "erfc",
    "exp", "exp2", "expm1", "floor_divide", "fmod", "hypot", "lgamma", "log", "log10", "log1p", "log2",
    "log_sigmoid", "polynomial", "power", "remainder", "rsqrt", "scaled", "sigmoid", "sin", "sinh",
    "softplus", "tan", "tanh", "trunc_divide",
]  # fmt: skip
