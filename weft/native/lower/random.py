"""Lowering of random numbers.

Gives rules for `weft.native.lower.lowering`. One idea: words come from a function that goes from counter
block to
counter block (`weft.native.cpu.philox_text`), and Note [Random formulas] in `weft.ops.philox`, step for step
as
there, is a body on words: the bits are eager's.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from weft.core.dtypes import HALVES, as_dtype
from weft.native.ir.definitions import Definition, Number, Shape, reshaped, sliced
from weft.native.ir.scalar import FLOATS, Builder, Value
from weft.native.ir.sizes import is_told_late, whole_number
from weft.native.lower.draws import Drawn
from weft.native.lower.indexing import fail
from weft.native.lower.joining import part, whole
from weft.native.lower.lowering import Lowering, Unlowered, point, rule
from weft.native.lower.pointwise import made, result_of
from weft.ops import philox

WORD = 2**64


class Formulas:
    """The formulas for numbers of 32 or 64 bits, in a body."""

    def __init__(self, builder: Builder, bits: int) -> None:
        self.b, self.bits = builder, bits
        self.known = philox.constants(bits)
        self.float, self.unsigned, self.signed = f"f{bits}", f"u{bits}", f"i{bits}"

    def number(self, value: Any) -> Value:
        return self.b.const(float(value), self.float)

    def whole(self, value: Any) -> Value:
        return self.b.const(int(value), self.unsigned)

    def horner(self, x: Value, coefficients: Sequence[Any]) -> Value:
        b = self.b
        total = b.mul(x, self.number(coefficients[0]))
        total = b.add(total, self.number(coefficients[1]))
        for coefficient in coefficients[2:]:
            total = b.add(b.mul(total, x), self.number(coefficient))
        return total

    def before(self, end: Value, start: Value) -> Value:
        """The number next to the end on the way to the start, which is not above it."""
        b = self.b
        bits, one = b.bitcast(end, self.signed), b.const(1, self.signed)
        zero = b.const(0, self.signed)
        step = b.select(b.lt(bits, zero), one, b.neg(one))
        least = b.bitcast(b.or_(b.shl(one, b.const(self.bits - 1, self.signed)), one), self.float)
        moved = b.bitcast(b.add(bits, step), self.float)
        moved = b.select(b.eq(end, b.like(0, end)), least, moved)
        return b.select(b.eq(end, start), start, moved)

    def unit(self, word: Value, digits: int) -> Value:
        b = self.b
        shift, scale = self.known.unit[digits]
        upper = b.bitcast(b.shr(word, self.whole(shift)), self.signed)
        return b.mul(b.cast(upper, self.float), self.number(scale))

    def open(self, word: Value) -> Value:
        b = self.b
        scaled = b.mul(b.cast(word, self.float), self.number(self.known.open_scale))
        return b.add(scaled, self.number(self.known.open_start))

    def log(self, x: Value) -> Value:
        b, known = self.b, self.known
        bits = b.bitcast(x, self.signed)
        digits = b.const(int(known.mantissa), self.signed)
        exponent = b.shr(b.sub(bits, b.const(int(known.root_half), self.signed)), digits)
        mantissa = b.bitcast(b.sub(bits, b.shl(exponent, digits)), self.float)
        one = self.number(1)
        ratio = b.div(b.sub(mantissa, one), b.add(mantissa, one))
        result = b.mul(self.horner(b.mul(ratio, ratio), known.logarithm), ratio)
        return b.add(result, b.mul(b.cast(exponent, self.float), self.number(known.log_2)))

    def circle(self, turns: Value) -> tuple[Value, Value]:
        b, known = self.b, self.known
        near = b.or_(b.shl(turns, self.whole(2)), self.whole(2))
        angle = b.cast(b.bitcast(near, self.signed), self.float)
        angle = b.mul(angle, self.number(known.angle_scale))
        square = b.mul(angle, angle)
        cosine = self.horner(square, known.cosine)
        sine = b.mul(self.horner(square, known.sine), angle)
        quadrant = b.shr(b.add(turns, self.whole(known.eighth)), self.whole(known.top))
        odd = b.ne(b.and_(quadrant, self.whole(1)), self.whole(0))
        cosine, sine = b.select(odd, sine, cosine), b.select(odd, cosine, sine)
        below = b.ge(quadrant, self.whole(2))  # the sine's sign; the cosine's differs in odd quadrants
        left = b.xor(odd, below)
        return b.select(left, b.neg(cosine), cosine), b.select(below, b.neg(sine), sine)

    def high(self, word: Value, factor: Any) -> Value:
        """The upper 64 bits of a product, by 32-bit halves."""
        b = self.b
        half, mask = self.whole(32), self.whole(0xFFFFFFFF)
        low, high = b.and_(word, mask), b.shr(word, half)
        if is_told_late(factor):
            told = b.bitcast(b.const(factor, "i64"), "u64")
            factor_low, factor_high = b.and_(told, mask), b.shr(told, half)
        else:
            factor_low, factor_high = self.whole(factor & 0xFFFFFFFF), self.whole(factor >> 32)
        middle = b.add(b.mul(high, factor_low), b.shr(b.mul(low, factor_low), half))
        if not is_told_late(factor) and not factor >> 32:
            return b.shr(middle, half)
        low = b.add(b.mul(low, factor_high), b.and_(middle, mask))
        upper = b.add(b.mul(high, factor_high), b.shr(middle, half))
        return b.add(upper, b.shr(low, half))


def bits_of(type_: str) -> int:
    """How many bits a floating number takes."""
    if type_ not in FLOATS:
        raise Unlowered(f"random numbers of dtype {type_}")
    return 32 if type_ == "f32" else 64


def mapped(
    drawn: Drawn, shape: Shape, type_: str, bits: int, formula: Any, name: str, *parameters: Any
) -> Definition:
    """A formula of each element's word, and of floats that may be told by running, as it rounds them."""
    told = [value for value in parameters if isinstance(value, Number)]

    def make(b: Builder, values: list[Value], _place: Any) -> Value:
        f, given = Formulas(b, bits), iter(values[1:])
        floats = [b.cast(float_of(b, value, given), f.float) for value in parameters]
        return b.cast(formula(b, f, values[0], *floats), type_)

    return made(make, shape, type_, [drawn.words(shape, f"u{bits}"), *told], name)


def float_of(b: Builder, value: Any, given: Iterator[Value]) -> Value:
    """A float, which the next operand is where only running tells it."""
    if isinstance(value, Number):
        return b.cast(next(given), "f64")
    return b.const(value if is_told_late(value) else float(value), "f64")


def without_halves(drawn: Drawn) -> None:
    """Refuses halves that are not float32 numbers, rounded."""
    if as_dtype(drawn.dtype) in HALVES:
        raise Unlowered(f"random numbers of dtype {drawn.dtype}")


# -- continuous draws ----------------------------------------------------------------------------------------
def uniform(drawn: Drawn, shape: Shape, type_: str, low: Any, high: Any) -> Definition:
    bits = bits_of(type_)
    digits = as_dtype(drawn.dtype).digits
    if isinstance(low, Number) or isinstance(high, Number) or is_told_late(low) or is_told_late(high):
        without_halves(drawn)

        def of_limits(b: Builder, f: Formulas, word: Value, start: Value, end: Value) -> Value:
            moved = b.add(b.mul(f.unit(word, digits), b.sub(end, start)), start)
            return b.min(moved, f.before(end, start))

        return mapped(drawn, shape, type_, bits, of_limits, "uniform", low, high)
    kind: Any = np.float32 if bits == 32 else np.float64
    with np.errstate(all="ignore"):
        start, width = kind(low), kind(high) - kind(low)
        last = np.nextafter(drawn.dtype.type(high), drawn.dtype.type(low))

    def formula(b: Builder, f: Formulas, word: Value) -> Value:
        unit = f.unit(word, digits)
        if low == 0 and high == 1:
            return unit
        moved = b.add(b.mul(unit, f.number(width)), f.number(start))
        return b.min(moved, f.number(last))

    return mapped(drawn, shape, type_, bits, formula, "uniform")


def standard_normal(drawn: Drawn, shape: Shape, type_: str) -> Definition:
    """Two numbers of two words, side by side."""
    bits = bits_of(type_)
    count = math.prod(shape)
    pairs = -(-count // 2)
    raw = drawn.words((2 * pairs,), f"u{bits}")
    operands = [sliced(raw, 0, start, 2, pairs) for start in (0, 1)]

    def side(number: int) -> Any:
        def make(b: Builder, values: list[Value], _place: Any) -> Value:
            f = Formulas(b, bits)
            radius = b.sqrt(b.mul(f.log(f.open(values[0])), f.number(-2)))
            return b.mul(f.circle(values[1])[number], radius)

        return make

    both = whole(drawn.target, (2 * pairs,), type_, "normal")
    for number in (0, 1):
        part(both, made(side(number), (pairs,), type_, operands, "normal"), number, (2,))
    return reshaped(sliced(both, 0, 0, 1, count) if count % 2 else both, shape)


def normal(drawn: Drawn, shape: Shape, type_: str, mean: Any, std: Any) -> Definition:
    """With numbers that are known, or told by running: eager multiplies and adds unless by 1 and 0."""
    if isinstance(mean, complex):
        raise Unlowered("normal numbers with a complex mean")
    base = standard_normal(drawn, shape, type_)
    if not is_told_late(mean) and not is_told_late(std) and std == 1 and mean == 0:
        return base
    told = [value for value in (mean, std) if isinstance(value, Number)]

    def make(b: Builder, values: list[Value], _place: Any) -> Value:
        given, found = iter(values[1:]), values[0]
        shift, scale = float_of(b, mean, given), float_of(b, std, given)
        if isinstance(std, Number) or is_told_late(std) or std != 1:  # which changes nothing where it is 1
            found = b.mul(found, b.cast(scale, type_))
        if isinstance(mean, Number) or is_told_late(mean):
            return b.select(b.eq(shift, b.like(0, shift)), found, b.add(found, b.cast(shift, type_)))
        return found if mean == 0 else b.add(found, b.cast(shift, type_))

    return made(make, shape, type_, [base, *told], "normal")


@rule("rand", "rand_like")
def _rand(lowering: Lowering, first: Any, drawn: Any, *_: Any) -> Definition:
    return uniform(drawn, *result_of(lowering), 0.0, 1.0)


@rule("uniform", numbers="floats")
def _uniform(lowering: Lowering, _x: Definition, low: Any, high: Any, drawn: Any) -> Definition:
    return uniform(drawn, *result_of(lowering), low, high)


@rule("randn", "randn_like")
def _randn(lowering: Lowering, first: Any, drawn: Any, *_: Any) -> Definition:
    return standard_normal(drawn, *result_of(lowering))


@rule("_normal", numbers="floats")
def _normal_in_place(lowering: Lowering, _x: Definition, mean: Any, std: Any, drawn: Any) -> Definition:
    return normal(drawn, *result_of(lowering), mean, std)


@rule("normal", numbers="floats")
def _normal(lowering: Lowering, mean: Any, std: Any, _size: Any, drawn: Any, *_: Any) -> Definition:
    shape, type_ = result_of(lowering)
    tensors = [value for value in (mean, std) if isinstance(value, Definition)]
    if all(isinstance(value, Number) for value in tensors):
        return normal(drawn, shape, type_, mean, std)
    if any(value.type != type_ for value in tensors):
        raise Unlowered("normal numbers whose mean and std differ in dtype")
    without_halves(drawn)
    if isinstance(std, Definition):
        bad = made(lambda b, v, _p: b.not_(b.ge(v[0], b.like(0, v[0]))), std.shape, "b1", [std], "negative")
        fail(lowering, bad)

    def make(b: Builder, values: list[Value], _place: Any) -> Value:
        given = iter(values[1:])
        by = {place: next(given) for place, v in enumerate((mean, std)) if isinstance(v, Definition)}
        scaled = b.mul(values[0], by.get(1) or b.const(float(std), type_))
        return b.add(scaled, by.get(0) or b.const(float(mean), type_))

    return made(make, shape, type_, [standard_normal(drawn, shape, type_), *tensors], "normal")


@rule("exponential", numbers="floats")
def _exponential(lowering: Lowering, _x: Definition, rate: Any, drawn: Any) -> Definition:
    shape, type_ = result_of(lowering)

    def formula(b: Builder, f: Formulas, word: Value, rate: Value) -> Value:
        return b.div(f.log(f.open(word)), b.neg(rate))

    return mapped(drawn, shape, type_, bits_of(type_), formula, "exponential", rate)


@rule("cauchy", numbers="floats")
def _cauchy(lowering: Lowering, _x: Definition, median: Any, sigma: Any, drawn: Any) -> Definition:
    shape, type_ = result_of(lowering)

    def formula(b: Builder, f: Formulas, word: Value, median: Value, sigma: Value) -> Value:
        cosine, sine = f.circle(b.shr(word, f.whole(1)))
        return b.add(b.mul(b.div(cosine, sine), b.neg(sigma)), median)

    return mapped(drawn, shape, type_, bits_of(type_), formula, "cauchy", median, sigma)


# -- discrete draws ------------------------------------------------------------------------------------------
def integers(drawn: Drawn, shape: Shape, type_: str, low: Any, high: Any) -> Definition:
    without_halves(drawn)
    digits = as_dtype(drawn.dtype).digits
    if digits and max(abs(low), abs(high - 1)) > 2**digits:
        raise Unlowered("random integers that the dtype cannot represent exactly")
    between = "u64" if type_ == "u64" else "i64"

    def formula(b: Builder, f: Formulas, word: Value) -> Value:
        if is_told_late(low) or is_told_late(high):
            start = b.bitcast(b.const(low, "i64"), "u64")
            return b.bitcast(b.add(f.high(word, high - low), start), between)
        found = word if high - low == WORD else f.high(word, high - low)
        return b.bitcast(b.add(found, f.whole(low % WORD)), between)

    return mapped(drawn, shape, type_, 64, formula, "integers")


@rule("randint")
def _randint(lowering: Lowering, low: Any, high: Any, size: Any, drawn: Any, *_: Any) -> Definition:
    if isinstance(high, (tuple, list)) and size is None:
        low, high = None, low
    return integers(drawn, *result_of(lowering), 0 if low is None else whole_number(low), whole_number(high))


@rule("randint_like")
def _randint_like(lowering: Lowering, _x: Definition, low: Any, high: Any, drawn: Any, *_: Any) -> Definition:
    if high is None:
        low, high = 0, low
    return integers(drawn, *result_of(lowering), 0 if low is None else whole_number(low), whole_number(high))


@rule("random")
def _random(lowering: Lowering, x: Definition, low: Any, high: Any, drawn: Any) -> Definition:
    shape, type_ = result_of(lowering)
    if low is None and high is None:
        digits = as_dtype(drawn.dtype).digits
        most = 1 if type_ == "b1" else 2**digits if digits else int(np.iinfo(drawn.dtype).max)
        return integers(drawn, shape, type_, 0, most + 1)
    first, last = (0, low) if high is None else (0 if low is None else low, high)
    return integers(drawn, shape, type_, whole_number(first), whole_number(last))


@rule("geometric")
def _geometric(lowering: Lowering, _x: Definition, p: float, drawn: Any) -> Definition:
    shape, type_ = result_of(lowering)
    without_halves(drawn)
    most = philox.most_trials(drawn.dtype)

    def formula(b: Builder, f: Formulas, word: Value) -> Value:
        trials = b.ceil(b.div(f.log(f.open(word)), f.number(math.log1p(-p))))
        return b.min(b.max(trials, f.number(1)), f.number(most))

    return mapped(drawn, shape, type_, 64, formula, "geometric")


def bernoulli(lowering: Lowering, drawn: Drawn, p: Any) -> Definition:
    shape, type_ = result_of(lowering)
    if isinstance(p, Definition):
        return _bernoulli_by(lowering, drawn, p)
    threshold = math.ceil(float(p) * 2**32)
    if threshold == 2**32:
        return point(lambda b, _v, _p: b.const(1, type_), shape, type_, (), "bernoulli", 0)
    below = drawn.words(shape, "b1", threshold)
    return made(lambda b, v, _p: b.cast(v[0], type_), shape, type_, [below], "bernoulli")


def _bernoulli_by(lowering: Lowering, drawn: Drawn, p: Definition) -> Definition:
    """With a probability for each element."""
    shape, type_ = result_of(lowering)

    def bad(b: Builder, values: list[Value], _place: Any) -> Value:
        x = values[0]
        return b.not_(b.and_(b.ge(x, b.like(0, x)), b.le(x, b.like(1, x))))

    fail(lowering, made(bad, p.shape, "b1", [p], "no probability"))

    def make(b: Builder, values: list[Value], _place: Any) -> Value:
        threshold = b.mul(b.cast(values[1], "f64"), b.const(2.0**32, "f64"))
        return b.cast(b.lt(b.cast(values[0], "f64"), threshold), type_)

    return made(make, shape, type_, [drawn.words(shape, "u32"), p], "bernoulli")


@rule("bernoulli", numbers="floats")
def _bernoulli(lowering: Lowering, x: Definition, p: Any, drawn: Any) -> Definition:
    return bernoulli(lowering, drawn, x if p is None else p)


@rule("_bernoulli", numbers="floats")
def _bernoulli_in_place(lowering: Lowering, _x: Definition, p: Any, drawn: Any) -> Definition:
    return bernoulli(lowering, drawn, p)
