"""Random numbers: takes (key, offset) of a generator, a shape and a dtype, gives an array of draws.

One idea: every element is a pure function of (key, offset, its index), so the same bits come out eagerly,
compiled, in any order and on any number of threads. Nothing here holds state that a caller could see; how far
a draw moves a generator is told by `blocks`.

# Note [Counter scheme]
Philox4x64-10 maps a key (2 words of 64 bits) and a counter (4 words) to a block of 4 words. Here

    key = (seed, 0)        counter = (offset + index // lanes, 0, 0, 0)        lane = index % lanes

- A 64-bit draw has 4 lanes a block: lane l is word l. A 32-bit draw has 8: lane l is the low (l even) or
  high (l odd) half of word l // 2, which is how a little-endian machine reads the block as 8 integers. `BITS`
  says which draw takes what; half and bfloat16 take 32 bits like float32, and a complex number is two real
  elements, 2i and 2i + 1.
- Each draw starts at a fresh block and takes ceil(count / lanes) of them. So drawing 10 and then 10 equals
  drawing 20 only where 10 is a multiple of the lanes; in return lane and block depend on the index alone, and
  a vector of 8 (or 4) elements is one block.
- Offsets stay below 2**63 (see `weft.core.generator`): counter word 0 never carries.

NumPy's own bit generator produces the blocks at C speed (it increments before the first block, hence the - 1
in `_Stream.seek`); `reference_words` is the same in array operations, for other array libraries and as the
tests' truth.

# Note [Random formulas]
With a = the element's integer of `bits` bits, d = the digits of its dtype (11 half, 8 bfloat16, 24, 53),
D = 24 or 53, the digits it is computed with, and every step and constant rounded to float32 (32 bits) or
float64 (64 bits):

    uniform      (a >> (bits - d)) * 2**-d             then * (high - low) + low, at most the last before high
    open(a)      float(a) * ((1 - 2**-D) * 2**-bits) + 2**-(bits + 1)             strictly between 0 and 1
    log(u)       u = 2**e * m, sqrt(1/2) <= m < sqrt(2), by its bits; s = (m - 1) / (m + 1); q = s * s
                 horner(2/1, 2/3, 2/5, ...; q) * s + float(e) * ln(2)             5 terms, in float64 10
    circle(a)    quadrant = (a + 2**(bits - 3)) >> (bits - 2)                     both modulo 2**bits
                 x = float(signed(a << 2 | 2)) * (pi/2 * 2**-bits); cosine and sine of x as Taylor series
                 in x * x by horner (6 terms, in float64 9; the sine's * x), exchanged in odd quadrants and
                 negated by quadrant: the point at (a + 1/2) * 2**-bits of a turn
    normal       elements 2k and 2k + 1 from r = sqrt(log(open(a[2k])) * -2), (c, s) = circle(a[2k + 1]):
                 c * r and s * r                       then * std + mean
    exponential  log(open(a)) / -rate
    cauchy       (c, s) = circle(a >> 1): c / s        then * -sigma + median
    log_normal   exp(normal)
    geometric    ceil(log(open(a)) / log1p(-p))        within 1 .. the largest; from 64 bits
    integers     low + ((a * (high - low)) >> 64)      from 64 bits: the bias is at most span / 2**64
    bernoulli    a < p * 2**32, compared exactly       from 32 bits

Only additions, multiplications, divisions and square roots occur, never a libm call (but for log_normal), and
a Horner step is a multiplication and then an addition: compiled code that does the same, without contracting
to FMA, has the same bits on every machine.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import ml_dtypes
import numpy as np

from weft.core.arrays import NUMPY, Array, ArrayModule, namespace
from weft.core.dtypes import ALL
from weft.core.interrupts import let_through
from weft.ops.ahead import MOST as MOST_AHEAD
from weft.ops.ahead import drawn_ahead

MULTIPLIER: Final = (0xD2E7470EE14C6C93, 0xCA5A826395121157)  # Philox4x64's, for counter words 0 and 2
WEYL: Final = (0x9E3779B97F4A7C15, 0xBB67AE8584CAA73B)  # what each round adds to the key
ROUNDS: Final = 10

_CHUNK_BLOCKS: Final = 4096  # 128 KiB of words: a chunk and its scratch stay in the second-level cache
_WORD: Final = 2**64
_NO_WORDS: Final = np.zeros(4, np.uint64)

_float32: Final = np.dtype(np.float32)
_float64: Final = np.dtype(np.float64)
_DIGITS: Final = {kind.numpy: kind.digits for kind in ALL if kind.digits}
_REAL: Final[dict[Any, np.dtype[Any]]] = {np.dtype(np.complex64): _float32, np.dtype(np.complex128): _float64}


# -- blocks of words -------------------------------------------------------------------------------


class _Stream:
    """NumPy's bit generator and where it stands, so that a draw that follows another need not seek."""

    def __init__(self) -> None:
        self.generator = np.random.Philox(key=0)
        self.key, self.next = -1, -1

    def seek(self, key: int, offset: int) -> None:
        before = (offset - 1, 0, 0, 0) if offset else (_WORD - 1,) * 4
        self.generator.state = {
            "bit_generator": "Philox",
            "state": {"counter": np.array(before, np.uint64), "key": np.array((key, 0), np.uint64)},
            "buffer": _NO_WORDS,  # never read: the position says that it is used up
            "buffer_pos": 4,
            "has_uint32": 0,
            "uinteger": 0,
        }


# Streams that nobody is using. Taking one from a list is atomic, against threads and signal handlers alike.
_idle: Final[list[_Stream]] = []


def words(key: int, offset: int, count: int, xp: ArrayModule = NUMPY) -> Array:
    """The 4 * count words of blocks offset .. offset + count - 1, as uint64 in one dimension."""
    if xp is not np:
        return reference_words(key, offset, count, xp)
    try:
        stream = _idle.pop()
    except IndexError as error:
        let_through(error)
        stream = _Stream()
    if stream.next != offset or stream.key != key:
        stream.seek(key, offset)
    result = stream.generator.random_raw(4 * count)
    stream.key, stream.next = key, offset + count
    _idle.append(stream)  # not in a finally: after an error nobody knows where it stands
    return result


def multiply_high(x: Array, y: int) -> Array:
    """The upper 64 bits of the 128-bit product of uint64 elements with one number, by 32-bit halves."""
    low, high = x & 0xFFFFFFFF, x >> 32
    y_low, y_high = y & 0xFFFFFFFF, y >> 32
    middle = high * y_low
    middle += (low * y_low) >> 32
    if not y_high:
        return middle >> 32
    low *= y_high
    low += middle & 0xFFFFFFFF
    high *= y_high
    high += middle >> 32
    high += low >> 32
    return high


def reference_words(key: int, offset: int, count: int, xp: ArrayModule = NUMPY) -> Array:
    """What `words` gives, in array operations only."""
    first = xp.arange(count, dtype=xp.uint64) + xp.asarray(offset, dtype=xp.uint64)
    return words_at(key, first, xp).reshape(-1)


def words_at(key: int, blocks: Array, xp: ArrayModule = NUMPY) -> Array:
    """The words of these blocks, in rows of four."""
    first = blocks
    second, third, fourth = xp.zeros_like(first), xp.zeros_like(first), xp.zeros_like(first)
    keys = [key, 0]
    for _ in range(ROUNDS):
        first, second, third, fourth = (
            multiply_high(third, MULTIPLIER[1]) ^ second ^ keys[0],
            third * MULTIPLIER[1],
            multiply_high(first, MULTIPLIER[0]) ^ fourth ^ keys[1],
            first * MULTIPLIER[0],
        )
        keys = [(half + step) % _WORD for half, step in zip(keys, WEYL)]
    return xp.stack((first, second, third, fourth), axis=1)


# -- how much a draw takes -------------------------------------------------------------------------

# Bits an element takes: a number, or None for 32 or 64 by the dtype.
BITS: Final[dict[str, int | None]] = {
    "uniform": None,
    "normal": None,
    "exponential": None,
    "cauchy": None,
    "log_normal": None,
    "bernoulli": 32,
    "geometric": 64,
    "integers": 64,
    "full_range": 64,
    "permutation": 64,
    "multinomial": 64,
    "tried": 32 * 256,  # 32 blocks: see `weft.ops.accepted`
}


def blocks(draw: str, count: int, dtype: Any = None) -> int:
    """How many blocks the draw of this name takes for so many elements: what `Generator.advance` is given.

    A dtype is needed where `BITS` has None. For multinomial the count is `multinomial_count`.
    """
    bits = BITS[draw]
    if bits is None:
        real = np.dtype(dtype)
        if real in _REAL:
            real, count = _REAL[real], 2 * count
        bits = 64 if real == _float64 else 32
    return -(-count * bits // 256)


Transform = Callable[[Array], Array]  # lanes -> their values


class Drawn(NamedTuple):
    """Which elements a draw gives: of this shape and dtype, from the blocks of a stream from `offset` on."""

    key: int
    offset: int
    shape: Sequence[int]
    dtype: np.dtype[Any]
    xp: ArrayModule


FORMULAS: Final[dict[str, Callable[..., Array]]] = {}
"""What makes the values of each draw: of a `Drawn` and the parameters."""


def _draw(values: Callable[..., Array]) -> Callable[..., Array]:
    """Decorator: a draw of the formula below."""
    FORMULAS[values.__name__] = values

    @functools.wraps(values)
    def draw(key: int, offset: int, shape: Sequence[int], dtype: Any, *given: Any, **named: Any) -> Array:
        xp = named.pop("xp", NUMPY)
        return values(Drawn(key, offset, shape, np.dtype(dtype), xp), *given, **named)

    return draw


def _fill(to: Drawn, transform: Transform, bits: int) -> Array:
    """An array of this shape, made chunk by chunk; the assignment rounds to the dtype."""
    key, offset, shape, dtype, xp = to
    count = math.prod(shape)
    lanes = 256 // bits
    out = xp.empty(count, dtype=dtype)
    step = _CHUNK_BLOCKS * lanes if xp is np else count
    for start in range(0, count, step or 1):
        stop = min(start + step, count)
        raw = words(key, offset + start // lanes, -(-(stop - start) // lanes), xp)
        out[start:stop] = transform(raw if bits == 64 else raw.view(np.uint32))[: stop - start]
    return out.reshape(shape)


# -- words to numbers ------------------------------------------------------------------------------


@dataclass(frozen=True)
class Precision:
    """The constants of Note [Random formulas] for draws of 32 or of 64 bits; polynomials highest term first.

    They are 0-dimensional arrays, because with those NumPy is twice as fast on short arrays as with numbers.
    """

    bits: int
    floating: Any
    unsigned: Any
    signed: Any
    unit: dict[int, tuple[Array, Array]]  # by digits: how far to shift, what to multiply with
    open_scale: Array
    open_start: Array
    logarithm: list[Array]
    cosine: list[Array]
    sine: list[Array]
    log_2: Array
    angle_scale: Array
    minus_two: Array
    unity: Array
    root_half: Array  # the bits of sqrt(1/2), signed
    mantissa: Array  # how many bits stand below the exponent, signed
    one: Array  # unsigned from here on
    two: Array
    top: Array  # how far to the right the quadrant lies
    eighth: Array  # of a turn


@functools.cache
def _precision(bits: int, xp: ArrayModule) -> Precision:
    digits, log_terms, circle_terms = (24, 5, 6) if bits == 32 else (53, 10, 9)
    floating, unsigned, signed = (np.dtype(f"{kind}{bits // 8}") for kind in "fui")

    def number(value: float) -> Array:
        return xp.asarray(value, dtype=floating)

    def whole(value: int) -> Array:
        return xp.asarray(value, dtype=unsigned)

    def taylor(odd: int) -> list[Array]:
        return [number((-1) ** k / math.factorial(2 * k + odd)) for k in reversed(range(circle_terms))]

    return Precision(
        bits=bits,
        floating=floating,
        unsigned=unsigned,
        signed=signed,
        unit={wanted: (whole(bits - wanted), number(2.0**-wanted)) for wanted in (8, 11, digits)},
        open_scale=number((1 - 2.0**-digits) * 2.0**-bits),
        open_start=number(2.0 ** -(bits + 1)),
        logarithm=[number(2 / (2 * k + 1)) for k in reversed(range(log_terms))],
        cosine=taylor(0),
        sine=taylor(1),
        log_2=number(math.log(2)),
        angle_scale=number(math.pi / 2 * 2.0**-bits),
        minus_two=number(-2),
        unity=number(1),
        root_half=number(math.sqrt(0.5)).view(signed),
        mantissa=xp.asarray(digits - 1, dtype=signed),
        one=whole(1),
        two=whole(2),
        top=whole(bits - 2),
        eighth=whole(1 << (bits - 3)),
    )


def constants(bits: int) -> Precision:
    """The constants for draws of 32 or of 64 bits, for who computes them otherwise."""
    return _precision(bits, np)


def _precision_of(to: Drawn) -> Precision:
    return _precision(64 if to.dtype == _float64 else 32, to.xp)


def _horner(x: Array, coefficients: Sequence[Array]) -> Array:
    total = x * coefficients[0]
    total += coefficients[1]
    for coefficient in coefficients[2:]:
        total *= x
        total += coefficient
    return total


def _unit(lanes: Array, digits: int, precision: Precision) -> Array:
    """Multiples of 2**-digits in [0, 1)."""
    shift, scale = precision.unit[digits]
    # Without its sign bit the integer may be read as signed, which processors convert faster.
    result = (lanes >> shift).view(precision.signed).astype(precision.floating)
    result *= scale
    return result


def _open(lanes: Array, precision: Precision) -> Array:
    """Numbers strictly between 0 and 1 that use all bits, so that their logarithm reaches far."""
    result = lanes.astype(precision.floating)
    result *= precision.open_scale
    result += precision.open_start
    return result


def _log(numbers: Array, precision: Precision) -> Array:
    """The natural logarithm of normal positive numbers."""
    bits = numbers.view(precision.signed)
    exponent = bits - precision.root_half
    exponent >>= precision.mantissa
    mantissa = (bits - (exponent << precision.mantissa)).view(precision.floating)
    ratio = mantissa - precision.unity
    mantissa += precision.unity
    ratio /= mantissa
    result = _horner(ratio * ratio, precision.logarithm)
    result *= ratio
    whole = exponent.astype(precision.floating)
    whole *= precision.log_2
    result += whole
    return result


def _circle(turns: Array, precision: Precision) -> tuple[Array, Array]:
    """Cosine and sine of the angle that is this integer plus one half, out of 2**bits of a turn."""
    near = turns << precision.two
    near |= precision.two
    angle = near.view(precision.signed).astype(precision.floating)
    angle *= precision.angle_scale
    square = angle * angle
    cosine = _horner(square, precision.cosine)
    sine = _horner(square, precision.sine)
    sine *= angle
    # Exchange and negate in the bits. The sine is negative in quadrants 2 and 3, the cosine in 1 and 2: their
    # signs differ in the odd ones.
    quadrant = turns + precision.eighth
    quadrant >>= precision.top
    odd = quadrant & precision.one
    cosine_bits, sine_bits = cosine.view(precision.unsigned), sine.view(precision.unsigned)
    change = cosine_bits ^ sine_bits
    change *= odd
    quadrant &= precision.two
    quadrant <<= precision.top
    change ^= quadrant
    sine_bits ^= change
    odd <<= precision.one
    odd <<= precision.top
    change ^= odd
    cosine_bits ^= change
    return cosine, sine


def _standard_normal(lanes: Array, precision: Precision, xp: ArrayModule) -> Array:
    radius = _log(_open(lanes[0::2], precision), precision)
    radius *= precision.minus_two
    xp.sqrt(radius, out=radius)
    # Copied, because operations on every other element are several times slower.
    cosine, sine = _circle(lanes[1::2].copy(), precision)
    result = xp.empty(lanes.shape, dtype=precision.floating)
    xp.multiply(cosine, radius, out=result[0::2])
    xp.multiply(sine, radius, out=result[1::2])
    return result


def open_numbers(raw: Array, xp: ArrayModule = NUMPY) -> Array:
    """Numbers strictly between 0 and 1, in float64, of words."""
    return _open(raw, _precision(64, xp))


def normal_numbers(first: Array, second: Array, xp: ArrayModule = NUMPY) -> Array:
    """Standard normal numbers, in float64, each of two words."""
    precision = _precision(64, xp)
    radius = xp.sqrt(_log(_open(first, precision), precision) * precision.minus_two)
    return radius * _circle(second.copy(), precision)[0]


def _standard(to: Drawn, name: str, numbers: Callable[[Array, Precision], Array]) -> Array | None:
    """Numbers of a standard distribution, flat and to be written to, where they are few and one draw follows
    the other.
    """
    count, precision = math.prod(to.shape), _precision_of(to)
    if not 0 < count <= MOST_AHEAD or to.xp is not np or to.dtype != precision.floating:
        return None

    def compute(offset: int, count: int) -> Array:
        with np.errstate(all="ignore"):
            return _fill(
                Drawn(to.key, offset, (count,), to.dtype, to.xp),
                lambda lanes: numbers(lanes, precision),
                precision.bits,
            )

    return drawn_ahead((name, to.dtype), to.key, to.offset, 256 // precision.bits, count, compute)


# -- continuous draws ------------------------------------------------------------------------------


def _floating(to: Drawn, numbers: Callable[[Array, Precision], Array]) -> Array:
    """Fill from lanes of the precision that the dtype is drawn with; overflow to infinity warns no one."""
    precision = _precision_of(to)
    with np.errstate(all="ignore"):
        return _fill(to, lambda lanes: numbers(lanes, precision), precision.bits)


def _pairs(draw: str, to: Drawn, *parameters: Any) -> Array:
    """Complex numbers whose parts are two real draws."""
    parts = FORMULAS[draw](to._replace(shape=(*to.shape, 2), dtype=_REAL[to.dtype]), *parameters)
    return parts.view(to.dtype).reshape(to.shape)


@_draw
def uniform(to: Drawn, low: float = 0.0, high: float = 1.0) -> Array:
    """Uniform in [low, high), from as many bits as the dtype has digits."""
    if to.dtype in _REAL:
        return _pairs("uniform", to, low, high)
    digits, precision = _DIGITS[to.dtype], _precision_of(to)
    ready = _standard(to, "uniform", lambda lanes, precision: _unit(lanes, digits, precision))
    if low == 0 and high == 1:
        if ready is not None:
            return ready.reshape(to.shape)
        return _fill(to, lambda lanes: _unit(lanes, digits, precision), precision.bits)
    kind = precision.floating.type
    with np.errstate(all="ignore"):
        start, end = kind(low), kind(high)
        # Rounding may reach `high`, which is not in the range: stop at the dtype's last number before it.
        last = kind(np.nextafter(to.dtype.type(high), to.dtype.type(low)))

    def spread(result: Array) -> Array:
        result *= end - start
        result += start
        return to.xp.minimum(result, last, out=result)

    if ready is not None:
        with np.errstate(all="ignore"):
            return spread(ready).reshape(to.shape)
    return _floating(to, lambda lanes, precision: spread(_unit(lanes, digits, precision)))


@_draw
def normal(to: Drawn, mean: complex = 0.0, std: float = 1.0) -> Array:
    """Normal; of a complex number each part has half the variance."""
    if to.dtype in _REAL:
        result = _pairs("normal", to, 0.0, std * math.sqrt(0.5))
        result += mean
        return result

    def spread(result: Array) -> Array:
        if std != 1:
            result *= float(std)
        if mean != 0:
            result += float(mean)  # type: ignore[arg-type]  # complex only above
        return result

    ready = _standard(to, "normal", lambda lanes, precision: _standard_normal(lanes, precision, to.xp))
    if ready is not None:
        if mean == 0 and std == 1:
            return ready.reshape(to.shape)
        with np.errstate(all="ignore"):
            return spread(ready).reshape(to.shape)
    return _floating(to, lambda lanes, precision: spread(_standard_normal(lanes, precision, to.xp)))


@_draw
def log_normal(to: Drawn, mean: float = 1.0, std: float = 2.0) -> Array:
    """The exponential of a normal number."""

    def numbers(lanes: Array, precision: Precision) -> Array:
        result = _standard_normal(lanes, precision, to.xp)
        result *= float(std)
        result += float(mean)
        return to.xp.exp(result, out=result)

    return _floating(to, numbers)


@_draw
def exponential(to: Drawn, rate: float = 1.0) -> Array:
    """Exponential with this rate (PyTorch's lambd); never zero before it is rounded to a half type."""

    def numbers(lanes: Array, precision: Precision) -> Array:
        result = _log(_open(lanes, precision), precision)
        result /= -float(rate)
        return result

    return _floating(to, numbers)


@_draw
def cauchy(to: Drawn, median: float = 0.0, sigma: float = 1.0) -> Array:
    """Cauchy: minus the cotangent of an angle in the upper half of the circle, where the sine is positive."""

    def numbers(lanes: Array, precision: Precision) -> Array:
        result, sine = _circle(lanes >> 1, precision)
        result /= sine
        result *= -float(sigma)
        result += float(median)
        return result

    return _floating(to, numbers)


# -- discrete draws --------------------------------------------------------------------------------


def _largest(dtype: np.dtype[Any]) -> int:
    """The largest finite number of a dtype, as an integer."""
    if dtype.kind in "iu":
        return int(np.iinfo(dtype).max)
    limits: Any = ml_dtypes.finfo  # untyped
    return int(float(limits(dtype).max))  # bfloat16's own int() goes through 64 bits


def most_trials(dtype: np.dtype[Any]) -> float:
    """The most that `geometric` gives in this dtype."""
    dtype = np.dtype(dtype)
    most = float(_largest(dtype))
    # 2**63 - 1 is no double, and 2**63 no int64.
    return min(most, math.nextafter(2.0**63, 0)) if dtype.kind in "iu" else most


@_draw
def geometric(to: Drawn, p: float) -> Array:
    """How many trials of probability p until the first success: 1 up to the most that the dtype holds."""
    most = most_trials(to.dtype)
    scale = math.log1p(-p)
    precision = _precision(64, to.xp)

    def numbers(raw: Array) -> Array:
        result = _log(_open(raw, precision), precision)
        result /= scale
        to.xp.ceil(result, out=result)
        return to.xp.clip(result, 1, most, out=result)

    with np.errstate(all="ignore"):
        return _fill(to, numbers, 64)


@_draw
def integers(to: Drawn, low: int, high: int) -> Array:
    """Integers in [low, high), where high - low is at most 2**64 and the dtype can hold them."""
    span = high - low
    view = np.uint64 if to.dtype == np.uint64 else np.int64

    def numbers(raw: Array) -> Array:
        result = raw if span == _WORD else multiply_high(raw, span)
        result += low % _WORD
        return result.view(view)

    return _fill(to, numbers, 64)


@_draw
def full_range(to: Drawn) -> Array:
    """What `random_()` without bounds gives: integers up to 2**digits of a floating dtype, else up to max."""
    if to.dtype.kind == "b":
        last = 1
    elif to.dtype in _DIGITS:
        last = 2 ** _DIGITS[to.dtype]
    else:
        last = _largest(to.dtype)
    return FORMULAS["integers"](to, 0, last + 1)


@_draw
def bernoulli(to: Drawn, p: Any = 0.5) -> Array:
    """One with probability p, otherwise zero; p is a number, or an array of exactly this shape."""
    if not isinstance(p, (int, float)):
        count = math.prod(to.shape)
        lanes = words(to.key, to.offset, blocks("bernoulli", count), to.xp).view(np.uint32)[:count]
        bounds: Array = p.astype(np.float64)
        bounds *= 2.0**32
        return (lanes.reshape(to.shape) < bounds).astype(to.dtype)
    threshold = math.ceil(p * 2**32)
    if threshold == 2**32:  # which is no uint32
        return to.xp.ones(to.shape, dtype=to.dtype)
    return _fill(to, lambda lanes: lanes < threshold, 32)


def permutation(
    key: int,
    offset: int,
    count: int,
    dtype: np.dtype[Any] | type[np.generic] = np.int64,
    xp: ArrayModule = NUMPY,
) -> Array:
    """The numbers 0 .. count - 1 in random order.

    Each sits in the low bits of its random word, and the words are sorted: as no two are equal, every way of
    sorting gives the same order.
    """
    width = max(count - 1, 1).bit_length()
    keys = words(key, offset, blocks("permutation", count), xp)[:count]
    keys >>= width
    keys <<= width
    keys |= xp.arange(count, dtype=np.uint64)
    keys.sort()
    keys &= (1 << width) - 1
    return keys.astype(dtype)


def check_multinomial(weights: Array, samples: int, replacement: bool) -> None:
    """Raise what PyTorch raises for weights (one row, or rows) that nothing can be sampled from."""
    xp = namespace(weights)
    if weights.ndim not in (1, 2):
        raise RuntimeError("prob_dist must be 1 or 2 dim")
    if samples <= 0:
        raise RuntimeError("cannot sample n_sample <= 0 samples")
    if not replacement and samples > weights.shape[-1]:
        raise RuntimeError("cannot sample n_sample > prob_dist.size(-1) samples without replacement")
    finite, positive = bool(xp.isfinite(weights).all()), not bool((weights < 0).any())
    if not replacement or samples == 1:
        if not (finite and positive):
            raise RuntimeError("probability tensor contains either `inf`, `nan` or element < 0")
    elif not positive:
        raise RuntimeError("invalid multinomial distribution (encountering probability entry < 0)")
    elif not finite:
        raise RuntimeError(
            "invalid multinomial distribution (encountering probability entry = infinity or NaN)"
        )
    if not bool((weights != 0).any(axis=-1).all()):
        raise RuntimeError("invalid multinomial distribution (sum of probabilities <= 0)")


def multinomial_count(shape: Sequence[int], samples: int, replacement: bool) -> int:
    """How many random numbers `multinomial` takes for weights of this shape: the count for `blocks`."""
    return math.prod(shape[:-1]) * (samples if replacement or samples == 1 else shape[-1])


def multinomial(key: int, offset: int, weights: Array, samples: int, replacement: bool) -> Array:
    """Indices drawn by (checked) weights along the last dimension; zero weights only when no other is left.

    With replacement the weights' running sum is searched. Without, the categories race: each arrives after an
    exponential time of its weight's rate, and the first to arrive are the sample, in order.
    """
    xp = namespace(weights)
    weights = weights.astype(np.float64)
    with np.errstate(all="ignore"):
        if replacement or samples == 1:
            total = xp.cumsum(weights, axis=-1)
            whole = total[..., -1:]
            target = uniform(key, offset, (*weights.shape[:-1], samples), np.float64, xp=xp)
            target *= whole
            return _search(total, xp.minimum(target, xp.nextafter(whole, 0.0)), xp)
        times = exponential(key, offset, weights.shape, np.float64, xp=xp)
        times /= weights
    order = xp.argsort(times, axis=-1, kind="stable")
    return xp.ascontiguousarray(order[..., :samples])


def _search(rising: Array, target: Array, xp: ArrayModule) -> Array:
    """For each target the first index of its row where the row exceeds it; the last element always does."""
    if rising.ndim == 1:
        return xp.searchsorted(rising, target, side="right")
    first = xp.zeros(target.shape, dtype=np.int64)
    last = xp.full(target.shape, rising.shape[-1] - 1, dtype=np.int64)
    for _ in range(rising.shape[-1].bit_length()):
        middle = (first + last) >> 1
        beyond = xp.take_along_axis(rising, middle, axis=-1) <= target
        first = xp.where(beyond, middle + 1, first)
        last = xp.where(beyond, last, middle)
    return first
