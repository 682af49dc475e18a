"""Random draws: known answers, the counter scheme, the stated formulas, ranges, and distributions' shapes.

Every test has fixed keys, so a bound that holds once holds always; the bounds are those that a correct stream
misses about once in a thousand keys or less.
"""

from __future__ import annotations

import math
import struct
from concurrent.futures import ThreadPoolExecutor

import ml_dtypes
import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.ops import philox

BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
FLOATING = [np.dtype(np.float16), BFLOAT16, np.dtype(np.float32), np.dtype(np.float64)]
COMPLEX = [np.dtype(np.complex64), np.dtype(np.complex128)]
INTEGER = [np.dtype(kind) for kind in ("u1", "i1", "i2", "i4", "i8")]
MASK = 2**64 - 1


def block(key: int, counter: int) -> list[int]:
    """Philox4x64-10 in Python's integers, written from its definition."""
    c0, c1, c2, c3 = counter, 0, 0, 0
    k0, k1 = key, 0
    for _ in range(10):
        left, right = 0xD2E7470EE14C6C93 * c0, 0xCA5A826395121157 * c2
        c0, c1, c2, c3 = (right >> 64) ^ c1 ^ k0, right & MASK, (left >> 64) ^ c3 ^ k1, left & MASK
        k0, k1 = (k0 + 0x9E3779B97F4A7C15) & MASK, (k1 + 0xBB67AE8584CAA73B) & MASK
    return [c0, c1, c2, c3]


def lane(key: int, offset: int, index: int, bits: int) -> int:
    """The integer of one element alone, by Note [Counter scheme]."""
    lanes = 256 // bits
    words = block(key, offset + index // lanes)
    place = index % lanes
    return words[place] if bits == 64 else words[place // 2] >> (32 * (place % 2)) & 0xFFFFFFFF


def distance(sample: np.ndarray, cumulative: np.ndarray) -> float:
    """Kolmogorov's: sqrt(n) times the largest gap to the cumulative function, given at the sorted sample."""
    count = len(sample)
    steps = np.arange(count + 1) / count
    gap = max(np.max(steps[1:] - cumulative), np.max(cumulative - steps[:-1]))
    return float(gap * math.sqrt(count))


KOLMOGOROV = 1.95  # exceeded by one key in a thousand


# -- blocks ----------------------------------------------------------------------------------------


def test_known_answers() -> None:
    """The published vectors for key and counter zero, and what NumPy's generator gives elsewhere."""
    assert [hex(word) for word in philox.words(0, 0, 1)] == [
        "0x16554d9eca36314c",
        "0xdb20fe9d672d0fdc",
        "0xd7e772cee186176b",
        "0x7e68b68aec7ba23b",
    ]
    for key, offset in ((0, 1), (5, 1), (2**64 - 1, 2**40), (67280421310721, 2**63 - 9)):
        numpy = np.random.Philox(key=key, counter=offset - 1).random_raw(32)
        np.testing.assert_array_equal(philox.words(key, offset, 8), numpy)
        np.testing.assert_array_equal(philox.reference_words(key, offset, 8), numpy)


@given(st.integers(0, MASK), st.integers(0, 2**63 - 10), st.integers(0, 5))
def test_words_are_blocks_side_by_side(key: int, offset: int, count: int) -> None:
    expected = [word for index in range(count) for word in block(key, offset + index)]
    for words in (philox.words(key, offset, count), philox.reference_words(key, offset, count)):
        assert words.dtype == np.uint64
        assert words.tolist() == expected


def test_words_do_not_depend_on_what_was_drawn_before() -> None:
    expected = philox.words(3, 100, 4).copy()
    for key, offset in ((3, 104), (3, 96), (4, 100), (3, 0)):
        philox.words(key, offset, 4)
        np.testing.assert_array_equal(philox.words(3, 100, 4), expected)


@given(st.lists(st.integers(0, MASK), min_size=1, max_size=4), st.integers(0, MASK))
def test_multiply_high(numbers: list[int], factor: int) -> None:
    result = philox.multiply_high(np.array(numbers, np.uint64), factor)
    assert result.tolist() == [number * factor >> 64 for number in numbers]


def test_threads_draw_the_same() -> None:
    expected = [philox.normal(key, 7, (3000,), np.float32) for key in range(8)]
    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(lambda key: philox.normal(key % 8, 7, (3000,), np.float32), range(64)))
    for index, result in enumerate(results):
        np.testing.assert_array_equal(result, expected[index % 8])


# -- the counter scheme ----------------------------------------------------------------------------

DRAWS = {
    "uniform": lambda key, offset, shape, dtype: philox.uniform(key, offset, shape, dtype),
    "normal": lambda key, offset, shape, dtype: philox.normal(key, offset, shape, dtype),
    "exponential": lambda key, offset, shape, dtype: philox.exponential(key, offset, shape, dtype),
    "cauchy": lambda key, offset, shape, dtype: philox.cauchy(key, offset, shape, dtype),
    "log_normal": lambda key, offset, shape, dtype: philox.log_normal(key, offset, shape, dtype, 0.0, 0.5),
    "bernoulli": lambda key, offset, shape, dtype: philox.bernoulli(key, offset, shape, dtype, 0.5),
    "geometric": lambda key, offset, shape, dtype: philox.geometric(key, offset, shape, dtype, 0.1),
    "integers": lambda key, offset, shape, dtype: philox.integers(key, offset, shape, dtype, 0, 100),
    "full_range": lambda key, offset, shape, dtype: philox.full_range(key, offset, shape, dtype),
}
CASES = (
    [(name, dtype) for name in DRAWS for dtype in FLOATING]
    + [(name, dtype) for name in ("geometric", "integers", "full_range", "bernoulli") for dtype in INTEGER]
    + [(name, dtype) for name in ("uniform", "normal") for dtype in COMPLEX]
    + [("bernoulli", np.dtype(bool)), ("full_range", np.dtype(bool))]
)


@pytest.mark.parametrize(("name", "dtype"), CASES, ids=str)
def test_draws_continue_at_block_boundaries(name: str, dtype: np.dtype) -> None:
    """One long draw, longer than a chunk, equals its parts: so every element depends on its index alone."""
    draw = DRAWS[name]
    whole = draw(5, 40, (70_000,), dtype)
    assert whole.dtype == dtype and whole.shape == (70_000,)
    for first, count in ((0, 8), (8, 24), (65_512, 56), (69_992, 8), (32_760, 5)):
        part = draw(5, 40 + philox.blocks(name, first, dtype), (count,), dtype)
        assert part.tobytes() == whole[first : first + count].tobytes()
    assert whole.tobytes() != draw(6, 40, (70_000,), dtype).tobytes()


@pytest.mark.parametrize(("name", "dtype"), CASES, ids=str)
def test_shapes(name: str, dtype: np.dtype) -> None:
    draw = DRAWS[name]
    flat = draw(1, 2, (24,), dtype)
    assert draw(1, 2, (2, 3, 4), dtype).tobytes() == flat.tobytes()
    for shape in ((), (0,), (3, 0, 2), (1, 1)):
        result = draw(1, 2, shape, dtype)
        assert isinstance(result, np.ndarray) and result.shape == shape and result.dtype == dtype
        assert result.flags.c_contiguous and result.flags.writeable
        assert result.tobytes() == flat[: result.size].tobytes()


@pytest.mark.parametrize(("name", "dtype"), CASES, ids=str)
def test_other_array_libraries_get_the_same_bits(name: str, dtype: np.dtype) -> None:
    class Other:  # not `numpy`, hence served by the reference and in one piece
        def __getattr__(self, attribute: str) -> object:
            return getattr(np, attribute)

    extra = {"log_normal": (0.0, 0.5), "bernoulli": (0.5,), "geometric": (0.1,), "integers": (0, 100)}
    result = getattr(philox, name)(3, 4, (50,), dtype, *extra.get(name, ()), xp=Other())
    assert result.tobytes() == DRAWS[name](3, 4, (50,), dtype).tobytes()


def test_blocks() -> None:
    assert [philox.blocks("uniform", count, np.float32) for count in (0, 1, 8, 9)] == [0, 1, 1, 2]
    assert [philox.blocks("normal", count, np.float64) for count in (0, 1, 4, 5)] == [0, 1, 1, 2]
    assert philox.blocks("uniform", 9, BFLOAT16) == philox.blocks("cauchy", 9, np.float16) == 2
    assert philox.blocks("normal", 5, np.complex64) == 2
    assert philox.blocks("normal", 5, np.complex128) == 3
    assert philox.blocks("integers", 5, np.int8) == philox.blocks("permutation", 5) == 2
    assert philox.blocks("bernoulli", 17, np.float64) == 3
    assert set(philox.BITS) == set(DRAWS) | {"permutation", "multinomial", "tried"}


# -- formulas, element by element ------------------------------------------------------------------


@pytest.mark.parametrize(("dtype", "digits"), list(zip(FLOATING, (11, 8, 24, 53))), ids=str)
def test_uniform_is_exact(dtype: np.dtype, digits: int) -> None:
    bits = 64 if digits == 53 else 32
    result = philox.uniform(8, 9, (21,), dtype).astype(np.float64)
    expected = [(lane(8, 9, index, bits) >> (bits - digits)) * 2.0**-digits for index in range(21)]
    assert result.tolist() == expected


def single(value: float) -> float:
    """Rounded to float32. A double operation on float32 numbers, rounded so, is the float32 operation."""
    return float(struct.unpack("f", struct.pack("f", value))[0])


def scalar_log(u: float, bits: int, round_: object) -> float:
    terms = 5 if bits == 32 else 10
    m, e = math.frexp(u)
    if m < round_(math.sqrt(0.5)):
        m, e = m * 2, e - 1
    s = round_(round_(m - 1) / round_(m + 1))
    q = round_(s * s)
    total = round_(2 / (2 * terms - 1))
    for k in reversed(range(terms - 1)):
        total = round_(round_(total * q) + round_(2 / (2 * k + 1)))
    return round_(round_(total * s) + round_(e * round_(math.log(2))))


def scalar_circle(a: int, bits: int, round_: object) -> tuple[float, float]:
    terms = 6 if bits == 32 else 9
    quadrant = ((a + (1 << (bits - 3))) >> (bits - 2)) % 4
    near = (a << 2 | 2) % 2**bits
    near -= 2**bits if near >> (bits - 1) else 0
    x = round_(round_(near) * round_(math.pi / 2 * 2.0**-bits))
    square = round_(x * x)
    found = []
    for odd in (0, 1):
        total = round_((-1) ** (terms - 1) / math.factorial(2 * terms - 2 + odd))
        for k in reversed(range(terms - 1)):
            total = round_(round_(total * square) + round_((-1) ** k / math.factorial(2 * k + odd)))
        found.append(total)
    c, s = found[0], round_(found[1] * x)
    return ((c, s), (-s, c), (-c, -s), (s, -c))[quadrant]


def scalar_normal(key: int, offset: int, index: int, bits: int) -> float:
    """One element alone, by Note [Random formulas]: what a compiled kernel must do."""
    round_ = single if bits == 32 else float
    digits = 24 if bits == 32 else 53
    pair = index // 2 * 2
    scale = round_((1 - 2.0**-digits) * 2.0**-bits)
    u = round_(round_(round_(lane(key, offset, pair, bits)) * scale) + 2.0 ** -(bits + 1))
    r = round_(math.sqrt(round_(scalar_log(u, bits, round_) * -2)))
    return round_(scalar_circle(lane(key, offset, pair + 1, bits), bits, round_)[index % 2] * r)


@pytest.mark.parametrize(("dtype", "bits"), [(np.float32, 32), (np.float64, 64)])
def test_normal_has_the_stated_bits(dtype: type, bits: int) -> None:
    result = philox.normal(21, 3, (401,), dtype)
    assert result.tolist() == [scalar_normal(21, 3, index, bits) for index in range(401)]


@pytest.mark.parametrize(("dtype", "bits"), [(np.float32, 32), (np.float64, 64)])
def test_normal_is_accurate(dtype: type, bits: int) -> None:
    """Against 40 digits: the formula is Box and Muller's to a few units in the last place."""
    result = philox.normal(2, 0, (400,), dtype)
    with mpmath.workdps(40):
        for index in range(0, 400, 2):
            radius = (lane(2, 0, index, bits) + mpmath.mpf(0.5)) / 2**bits
            angle = 2 * mpmath.pi * (lane(2, 0, index + 1, bits) + mpmath.mpf(0.5)) / 2**bits
            length = mpmath.sqrt(-2 * mpmath.log(radius))
            # Where the uniform number is near 1, its own four roundings weigh 1 / length**2 units each.
            bound = 4 + 4 / length**2
            for place, exact in enumerate((length * mpmath.cos(angle), length * mpmath.sin(angle))):
                error = abs(mpmath.mpf(float(result[index + place])) - exact)
                assert error <= bound * float(np.spacing(dtype(abs(exact))))


def test_extreme_lanes_stay_finite() -> None:
    """The ends of the integer range, which no test would draw: open is open, the circle closes."""
    for bits, dtype in ((32, np.float32), (64, np.float64)):
        precision = philox._precision(bits, np)
        ends = np.array([0, 1, 2 ** (bits - 1), 2**bits - 2, 2**bits - 1], f"u{bits // 8}")
        numbers = philox._open(ends, precision)
        assert numbers.dtype == dtype and numbers.min() > 0 and numbers.max() < 1
        logarithm = philox._log(numbers, precision)
        np.testing.assert_allclose(
            logarithm, np.log(numbers.astype(np.float64)), rtol=4 * np.finfo(dtype).eps
        )
        assert logarithm.max() < 0
        turns = np.array([k * 2 ** (bits - 3) + d for k in range(9) for d in (-1, 0, 1)])
        lanes = np.array([int(turn) % 2**bits for turn in turns], f"u{bits // 8}")
        cosine, sine = philox._circle(lanes, precision)
        angle = np.array([2 * math.pi * ((int(turn) + 0.5) / 2**bits) for turn in turns])
        np.testing.assert_allclose(cosine, np.cos(angle), atol=2 * np.finfo(dtype).eps)
        np.testing.assert_allclose(sine, np.sin(angle), atol=2 * np.finfo(dtype).eps)
        assert np.all(sine != 0)


def test_half_types_round_the_single_draw() -> None:
    for name in ("normal", "exponential", "cauchy"):
        single_draw = DRAWS[name](1, 0, (100,), np.float32)
        for dtype in (np.float16, BFLOAT16):
            assert DRAWS[name](1, 0, (100,), dtype).tobytes() == single_draw.astype(dtype).tobytes()


def test_complex_parts_are_neighbours() -> None:
    parts = philox.uniform(1, 2, (10,), np.float32)
    assert philox.uniform(1, 2, (5,), np.complex64).view(np.float32).tolist() == parts.tolist()
    numbers = philox.normal(1, 2, (50_000,), np.complex128, mean=1 - 2j, std=3.0)
    assert abs(numbers.mean() - (1 - 2j)) < 0.05
    assert abs(numbers.real.var() - 4.5) < 0.1 and abs(numbers.imag.var() - 4.5) < 0.1


# -- continuous distributions ----------------------------------------------------------------------


@pytest.mark.parametrize("dtype", FLOATING, ids=str)
def test_uniform_distribution(dtype: np.dtype) -> None:
    numbers = philox.uniform(1, 0, (200_000,), dtype)
    assert numbers.min() >= 0 and numbers.max() < 1
    numbers = numbers.astype(np.float64)
    step = 2.0 ** -{np.dtype(np.float16): 11, BFLOAT16: 8}.get(dtype, 24)
    assert abs(numbers.mean() - 0.5 + step / 2) < 0.003
    assert abs(numbers.var() - 1 / 12) < 0.001
    if dtype.itemsize > 2:
        assert distance(numbers, np.sort(numbers)) < KOLMOGOROV
    pairs = np.corrcoef(numbers[:-1], numbers[1:])[0, 1]
    assert abs(pairs) < 0.01


@pytest.mark.parametrize("dtype", FLOATING, ids=str)
@pytest.mark.parametrize(
    ("low", "high"), [(-3.0, 5.0), (1.0, 1.03125), (100.0, 101.0), (-1.0, 0.0), (2.0, 2.0), (0.0, 6e4)]
)
def test_uniform_range_is_half_open(dtype: np.dtype, low: float, high: float) -> None:
    numbers = philox.uniform(4, 0, (40_000,), dtype, low, high).astype(np.float64)
    assert low <= numbers.min()
    assert numbers.max() < high or low == high == numbers.max()
    if low != high:
        assert numbers.min() < numbers.max()


def test_uniform_range_formula() -> None:
    unit = philox.uniform(4, 0, (1000,), np.float32)
    np.testing.assert_array_equal(
        philox.uniform(4, 0, (1000,), np.float32, -2.5, 0.7),
        unit * (np.float32(0.7) - np.float32(-2.5)) + np.float32(-2.5),
    )


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_normal_distribution(dtype: type) -> None:
    numbers = np.sort(philox.normal(3, 0, (200_000,), dtype, 2.0, 0.5).astype(np.float64))
    standard = (numbers - 2) / 0.5
    assert abs(standard.mean()) < 0.008
    assert abs(standard.var() - 1) < 0.011
    assert abs((standard**3).mean()) < 0.03
    assert abs((standard**4).mean() - 3) < 0.08
    assert 4 < np.abs(standard).max() < 6
    cumulative = np.array([0.5 * math.erfc(-value / math.sqrt(2)) for value in standard])
    assert distance(standard, cumulative) < KOLMOGOROV


def test_normal_neighbours_are_independent() -> None:
    numbers = philox.normal(3, 0, (200_000,), np.float32).astype(np.float64)
    even, odd = numbers[0::2], numbers[1::2]
    assert abs(np.corrcoef(even, odd)[0, 1]) < 0.011
    assert abs(np.corrcoef(even**2, odd**2)[0, 1]) < 0.011
    quadrants = np.bincount((even > 0) * 2 + (odd > 0), minlength=4)
    assert np.all(np.abs(quadrants - 25_000) < 500)


@pytest.mark.parametrize("dtype", FLOATING, ids=str)
def test_exponential_distribution(dtype: np.dtype) -> None:
    numbers = philox.exponential(6, 0, (100_000,), dtype, 2.0).astype(np.float64)
    assert numbers.min() > 0
    assert abs(numbers.mean() - 0.5) < 0.006
    if dtype.itemsize > 2:
        assert distance(numbers, 1 - np.exp(-2 * np.sort(numbers))) < KOLMOGOROV


def test_extreme_parameters_do_not_warn() -> None:
    assert np.all(philox.exponential(1, 0, (9,), np.float16, 1e-30) == np.inf)
    assert np.all(philox.exponential(1, 0, (9,), np.float32, math.inf) == 0)
    assert np.all(np.isinf(philox.normal(1, 0, (9,), np.float16, 1e6)))
    assert np.all(philox.normal(1, 0, (9,), np.float32, 3.0, 0.0) == 3)
    assert np.all(philox.log_normal(1, 0, (9,), np.float32, 1e4, 1.0) == np.inf)
    assert np.all(np.isfinite(philox.uniform(1, 0, (9,), np.float64, -8e307, 8e307)))
    assert philox.uniform(1, 0, (9,), np.float16, 0.0, 1e6).dtype == np.float16
    assert np.all(philox.geometric(1, 0, (9,), np.int64, 5e-324) > 2**62)
    huge = np.array([1e308, 1e308, 1e308])
    assert set(philox.multinomial(1, 0, huge, 50, True).tolist()) <= {0, 1, 2}


def test_parameters_do_not_widen_the_computation() -> None:
    """A NumPy double as a parameter means what the same Python number means."""
    for draw, values in (
        (philox.normal, (0.1, 0.3)),
        (philox.log_normal, (0.1, 0.3)),
        (philox.cauchy, (0.1, 0.3)),
        (philox.exponential, (0.3,)),
        (philox.uniform, (0.1, 0.3)),
    ):
        plain = draw(1, 0, (500,), np.float32, *values)
        np.testing.assert_array_equal(draw(1, 0, (500,), np.float32, *map(np.float64, values)), plain)


def test_cauchy_distribution() -> None:
    numbers = np.sort(philox.cauchy(7, 0, (100_000,), np.float32, 1.0, 2.0).astype(np.float64))
    assert np.all(np.isfinite(numbers))
    assert distance(numbers, 0.5 + np.arctan((numbers - 1) / 2) / math.pi) < KOLMOGOROV


def test_log_normal_is_the_exponential_of_normal() -> None:
    numbers = philox.log_normal(7, 0, (1000,), np.float64, 0.5, 0.25)
    np.testing.assert_allclose(
        np.log(numbers), philox.normal(7, 0, (1000,), np.float64, 0.5, 0.25), rtol=1e-13, atol=1e-15
    )


# -- discrete distributions ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("low", "high"),
    [(0, 10), (-5, 6), (0, 1), (0, 2**32), (-(2**40), 2**40 + 1), (-(2**63), 2**63), (0, 2**63)],
)
def test_integers_are_multiply_shift(low: int, high: int) -> None:
    result = philox.integers(9, 2, (50,), np.int64, low, high)
    assert result.tolist() == [low + (lane(9, 2, index, 64) * (high - low) >> 64) for index in range(50)]


def test_integers_distribution_and_dtypes() -> None:
    numbers = philox.integers(9, 0, (100_000,), np.int64, -3, 7)
    counts = np.bincount(numbers + 3, minlength=10)
    assert len(counts) == 10
    assert np.sum((counts - 10_000) ** 2) / 10_000 < 27.9  # chi squared of 9 degrees, once in a thousand
    for dtype in (*FLOATING, *(kind for kind in INTEGER if kind.kind == "i")):
        assert philox.integers(9, 0, (100,), dtype, -3, 7).tolist() == numbers[:100].tolist()
    assert set(philox.integers(9, 0, (99,), np.uint8, 0, 256).tolist()) <= set(range(256))
    assert philox.integers(9, 0, (99,), np.uint64, 0, 2**64).max() > 2**63


@pytest.mark.parametrize(
    ("dtype", "last"),
    [
        *zip(FLOATING, (2**11, 2**8, 2**24, 2**53)),
        *((dtype, int(np.iinfo(dtype).max)) for dtype in INTEGER),
        (np.dtype(bool), 1),
    ],
    ids=str,
)
def test_full_range(dtype: np.dtype, last: int) -> None:
    numbers = philox.full_range(1, 0, (20_000,), dtype)
    assert numbers.min() >= 0
    assert 0.99 * last <= int(numbers.max()) <= last
    np.testing.assert_array_equal(numbers, philox.integers(1, 0, (20_000,), dtype, 0, last + 1))


@pytest.mark.parametrize("p", [0.0, 0.25, 1 / 3, 0.999, 1.0])
def test_bernoulli(p: float) -> None:
    numbers = philox.bernoulli(5, 0, (100_000,), np.float32, p)
    assert set(numbers.tolist()) <= {0.0, 1.0}
    assert abs(numbers.mean() - p) <= 3.5 * math.sqrt(p * (1 - p) / 100_000)
    assert numbers[:40].tolist() == [lane(5, 0, index, 32) < p * 2**32 for index in range(40)]
    spread = philox.bernoulli(5, 0, (100_000,), np.float32, np.full(100_000, p))
    np.testing.assert_array_equal(numbers, spread)


def test_bernoulli_by_element() -> None:
    for dtype in FLOATING:
        p = np.array([[0, 1, 0.5], [1, 0, 1]]).astype(dtype)
        result = philox.bernoulli(5, 0, (2, 3), dtype, p)
        assert result.dtype == dtype and result.shape == (2, 3)
        assert result[p != 0.5].tolist() == [0, 1, 1, 0, 1]
    assert philox.bernoulli(5, 0, (), np.float32, np.array(1.0)).tolist() == 1
    assert np.all(philox.bernoulli(5, 0, (9,), bool, 1 - 2.0**-40))  # rounds up to certainty


def test_geometric() -> None:
    numbers = philox.geometric(5, 0, (100_000,), np.int64, 0.3)
    assert numbers.min() == 1
    for trials in (1, 2, 5):
        share = 0.3 * 0.7 ** (trials - 1)
        assert abs((numbers == trials).mean() - share) < 3.5 * math.sqrt(share / 100_000)
    for dtype, most in ((np.int8, 127), (np.uint8, 255), (np.float16, 65504), (np.int32, 2**31 - 1)):
        assert philox.geometric(5, 0, (9,), dtype, 1e-15).tolist() == [most] * 9
    assert philox.geometric(5, 0, (9,), np.int64, 1e-300).min() > 2**62
    assert philox.geometric(5, 0, (9,), np.float32, 1 - 1e-16).tolist() == [1] * 9


@pytest.mark.parametrize("count", [0, 1, 2, 3, 8, 9, 1000])
def test_permutation_is_one(count: int) -> None:
    result = philox.permutation(3, 1, count)
    assert result.dtype == np.int64
    assert sorted(result.tolist()) == list(range(count))
    words = [lane(3, 1, index, 64) for index in range(count)]
    assert result.tolist() == sorted(range(count), key=lambda index: words[index])


def test_permutations_are_equally_likely() -> None:
    counts: dict[tuple[int, ...], int] = {}
    for key in range(6000):
        order = tuple(philox.permutation(key, 0, 3, np.int32).tolist())
        counts[order] = counts.get(order, 0) + 1
    assert len(counts) == 6
    assert (
        sum((count - 1000) ** 2 for count in counts.values()) / 1000 < 20.5
    )  # 5 degrees, once in a thousand


# -- multinomial -----------------------------------------------------------------------------------

WEIGHTS = np.array([0.0, 1.0, 0.0, 3.0, 6.0, 0.0])


@pytest.mark.parametrize("dtype", FLOATING, ids=str)
def test_multinomial_with_replacement(dtype: np.dtype) -> None:
    rows = np.stack((WEIGHTS, WEIGHTS[::-1])).astype(dtype)
    result = philox.multinomial(1, 0, rows, 20_000, True)
    assert result.dtype == np.int64 and result.shape == (2, 20_000)
    for row, weights in zip(result, rows.astype(np.float64)):
        shares = np.bincount(row, minlength=6) / 20_000
        assert np.all(shares[weights == 0] == 0)
        np.testing.assert_allclose(shares, weights / 10, atol=0.012)
    np.testing.assert_array_equal(philox.multinomial(1, 0, rows[0], 20_000, True), result[0])


def test_multinomial_without_replacement() -> None:
    rows = np.tile(WEIGHTS.astype(np.float32), (20_000, 1))
    result = philox.multinomial(2, 0, rows, 3, False)
    assert result.dtype == np.int64 and result.shape == (20_000, 3) and result.flags.c_contiguous
    assert np.all(np.sort(result, axis=1) == [1, 3, 4])
    # First by weight, second by weight among what is left: 4 then 3 is 0.6 * 0.75.
    np.testing.assert_allclose(np.bincount(result[:, 0], minlength=6) / 20_000, WEIGHTS / 10, atol=0.012)
    assert abs(np.mean((result[:, 0] == 4) & (result[:, 1] == 3)) - 0.45) < 0.012


def test_multinomial_of_one_sample_needs_no_replacement() -> None:
    rows = np.tile(WEIGHTS, (3, 1))
    assert philox.multinomial_count(rows.shape, 1, False) == 3
    np.testing.assert_array_equal(
        philox.multinomial(2, 0, rows, 1, False), philox.multinomial(2, 0, rows, 1, True)
    )
    assert philox.multinomial_count(rows.shape, 2, False) == 18
    assert philox.multinomial_count(rows.shape, 2, True) == 6
    assert philox.multinomial_count((6,), 2, True) == 2


def test_multinomial_takes_zero_weights_last() -> None:
    assert philox.multinomial(2, 0, np.array([0.0, 0.0, 1.0]), 3, False).tolist() == [2, 0, 1]
    assert philox.multinomial(2, 0, np.ones((0, 3)), 2, False).shape == (0, 2)
    assert philox.multinomial(2, 0, np.ones((0, 3)), 2, True).shape == (0, 2)


@given(
    st.lists(st.sampled_from([0.0, 5e-324, 1e-300, 0.1, 1.0, 1e300]), min_size=1, max_size=9).filter(any),
    st.integers(0, 50),
)
def test_multinomial_never_takes_weight_zero(weights: list[float], key: int) -> None:
    rows = np.array([weights, weights[::-1]])
    for result, row in zip(philox.multinomial(key, 0, rows, 7, True), rows):
        assert np.all(row[result] > 0)


@pytest.mark.parametrize(
    ("weights", "samples", "replacement", "text"),
    [
        (np.ones((2, 3, 4)), 1, False, "prob_dist must be 1 or 2 dim"),
        (np.array(1.0), 1, False, "prob_dist must be 1 or 2 dim"),
        (np.ones(2), 0, False, "cannot sample n_sample <= 0 samples"),
        (np.ones(2), 3, False, r"cannot sample n_sample > prob_dist.size\(-1\) samples without replacement"),
        (np.array([0.0, -1.0]), 1, False, "probability tensor contains either `inf`, `nan` or element < 0"),
        (np.array([1.0, np.nan]), 1, True, "probability tensor contains either `inf`, `nan` or element < 0"),
        (np.array([1.0, -1.0]), 2, True, r"\(encountering probability entry < 0\)"),
        (np.array([1.0, np.inf]), 2, True, r"\(encountering probability entry = infinity or NaN\)"),
        (np.array([[1.0, 0.0], [0.0, 0.0]]), 2, True, r"\(sum of probabilities <= 0\)"),
        (np.zeros(2, BFLOAT16), 1, False, r"\(sum of probabilities <= 0\)"),
        (np.ones((3, 0)), 2, True, r"\(sum of probabilities <= 0\)"),
    ],
)
def test_multinomial_errors(weights: np.ndarray, samples: int, replacement: bool, text: str) -> None:
    with pytest.raises(RuntimeError, match=text):
        philox.check_multinomial(weights, samples, replacement)


def test_multinomial_accepts() -> None:
    for dtype in FLOATING:
        philox.check_multinomial(WEIGHTS.astype(dtype), 3, False)
    philox.check_multinomial(np.ones((2, 3)), 9, True)
