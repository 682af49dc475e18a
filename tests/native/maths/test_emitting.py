"""Elementary functions over their whole range: against longer numbers of NumPy, and against mpmath."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import mpmath
import numpy as np
import pytest
import scipy.special

from tests.native.harness import given, point
from weft.native.cpu.engine import Loaded, host
from weft.native.cpu.kernel_text import module_text
from weft.native.cpu.outside import table
from weft.native.ir.scalar import NAMES, TYPES, interpret
from weft.native.maths import emitting as maths
from weft.native.maths.emitting import INSTRUCTIONS, Emitting
from weft.native.plan.fuse import fused

KINDS = [np.float32, np.float64]
STRIDE = 4099  # of the 2**32 patterns of float32: a million numbers, of all exponents
LONG = np.finfo(np.longdouble).nmant >= 63
ALL = (-np.inf, np.inf)


def sigmoid(x: Any) -> Any:
    power = np.exp(-np.abs(x))
    return np.where(x < 0, power, 1) / (1 + power)


# name: NumPy's function, mpmath's, and where most of it happens, in float32 and in float64
ONE: dict[str, tuple[Any, Any, list[tuple[float, float]]]] = {
    "exp": (np.exp, mpmath.exp, [(-104, 89), (-746, 710), (-1, 1)]),
    "exp2": (np.exp2, lambda x: mpmath.mpf(2) ** x, [(-151, 129), (-1076, 1025)]),
    "expm1": (np.expm1, mpmath.expm1, [(-20, 89), (-40, 710), (-1, 1)]),
    "sinh": (np.sinh, mpmath.sinh, [(-90, 90), (-711, 711), (-2, 2)]),
    "cosh": (np.cosh, mpmath.cosh, [(-90, 90), (-711, 711), (-2, 2)]),
    "tanh": (np.tanh, mpmath.tanh, [(-1, 1), (-20, 20)]),
    "sigmoid": (sigmoid, lambda x: 1 / (1 + mpmath.exp(-x)), [(-104, 20), (-746, 40), (-4, 4)]),
    "log": (np.log, mpmath.log, [(0.5, 2), (0, 10)]),
    "log2": (np.log2, lambda x: mpmath.log(x) / mpmath.log(2), [(0.5, 2), (0, 10)]),
    "log10": (np.log10, mpmath.log10, [(0.5, 2), (0, 10)]),
    "log1p": (np.log1p, mpmath.log1p, [(-1, 1), (-0.3, 0.5)]),
    "asinh": (np.arcsinh, mpmath.asinh, [(-1, 1), (-10, 10)]),
    "acosh": (np.arccosh, mpmath.acosh, [(1, 1.2), (1, 10)]),
    "atanh": (np.arctanh, mpmath.atanh, [(-1, 1), (-0.3, 0.3)]),
    "softplus": (
        lambda x: np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x))),
        lambda x: mpmath.log1p(mpmath.exp(x)),
        [(-104, 20), (-746, 40), (-2, 2)],
    ),
    "log_sigmoid": (
        lambda x: np.minimum(x, 0) - np.log1p(np.exp(-np.abs(x))),
        lambda x: -mpmath.log1p(mpmath.exp(-x)),
        [(-20, 104), (-40, 746), (-2, 2)],
    ),
    "sin": (np.sin, mpmath.sin, [(-1, 1), (-10, 10), (-1e6, 1e6)]),
    "cos": (np.cos, mpmath.cos, [(-1, 1), (-10, 10), (-1e6, 1e6)]),
    "tan": (np.tan, mpmath.tan, [(-1, 1), (-10, 10), (-1e6, 1e6)]),
    "asin": (np.arcsin, mpmath.asin, [(-1, 1), (0.4, 0.6)]),
    "acos": (np.arccos, mpmath.acos, [(-1, 1), (0.4, 0.6), (-0.6, -0.4)]),
    "atan": (np.arctan, mpmath.atan, [(-1, 1), (-4, 4)]),
    "erf": (scipy.special.erf, mpmath.erf, [(-1, 1), (-6, 6)]),
    "erfc": (scipy.special.erfc, mpmath.erfc, [(-1, 1), (0, 10), (0, 27.3)]),
    "rsqrt": (lambda x: 1 / np.sqrt(x), lambda x: 1 / mpmath.sqrt(x), [(0, 1)]),
}
TWO: dict[str, Callable[..., Any]] = {
    "power": np.power, "hypot": np.hypot, "atan2": np.arctan2, "fmod": np.fmod,
    "floor_divide": np.floor_divide,
}  # fmt: skip


def evaluate(make: Callable[..., Any], *arrays: Any) -> Any:
    """What a kernel of this one function gives."""
    made = point(make, *[given(array, number) for number, array in enumerate(arrays)])
    plan: Any = fused([made])
    (step,) = plan.steps
    text = module_text({"kernel": step.kernel}, host()[2])
    loaded, functions = Loaded(text), table()
    result = np.zeros(arrays[0].shape, TYPES[made.type])
    record, buffers = [*step.sizes], []
    for place, load in enumerate(step.operands):
        record += [place, load.offset, *load.strides]
        buffers.append(result if load.value is made else arrays[load.value.input])
    numbers = np.array(record, np.int64)
    addresses = np.array([array.ctypes.data for array in buffers], np.uint64)
    shape = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 3, *[ctypes.c_int64] * 3)
    call = shape(loaded.address("kernel"))
    call(numbers.ctypes.data, addresses.ctypes.data, functions.ctypes.data, 0, step.sizes[0], 0)
    return result


def patterns(kind: Any, count: int, seed: int) -> Any:
    """Numbers of random bits: all exponents, NaN and infinities among them."""
    whole = np.uint32 if kind == np.float32 else np.uint64
    random = np.random.default_rng(seed)
    return random.integers(0, np.iinfo(whole).max, count, whole, endpoint=True).view(kind)


def sampled(name: str, kind: Any, count: int, seed: int = 0) -> Any:
    random = np.random.default_rng(seed)
    inner = [random.uniform(low, high, count).astype(kind) for low, high in ONE[name][2]]
    return np.concatenate([patterns(kind, count, seed), *inner])


def errors(actual: Any, exact: Any) -> Any:
    """In units in the last place of the type of the first, the second being longer; NaN and infinities count
    as right where rounding gives them, and zeros where the signs agree.
    """
    kind = actual.dtype
    info = np.finfo(kind)
    with np.errstate(all="ignore"):
        rounded = exact.astype(kind)
        _, power = np.frexp(np.abs(exact))
        unit = np.ldexp(exact.dtype.type(1), np.maximum(power - 1, info.minexp) - info.nmant)
        found = np.abs(actual.astype(exact.dtype) - exact) / unit
        same = (np.isnan(actual) & np.isnan(rounded)) | ((actual == rounded) & ~np.isfinite(actual))
        edge = np.isinf(actual) != np.isinf(rounded)
        largest = np.isinf(rounded) & (np.abs(actual) == info.max) & (np.abs(exact) < 2.0 * info.max)
        found = np.where(
            edge & ~largest & ~_nearly_infinite(actual, exact), np.inf, np.where(largest, 1, found)
        )
        found = np.where(np.isnan(found), np.inf, found)
    return np.where(same, 0, found)


def _nearly_infinite(actual: Any, exact: Any) -> Any:
    """Where rounding up the second by one unit overflows, too."""
    largest = exact.dtype.type(np.finfo(actual.dtype).max)
    return np.isinf(actual) & (np.abs(exact) >= largest) & (np.sign(actual) == np.sign(exact))


def exactly(function: Callable[..., Any], x: float, limit: float) -> Any:
    """mpmath's value; None where there is none, or where it is not real."""
    try:
        value = function(mpmath.mpf(max(-limit, min(x, limit))))
    except (ValueError, ZeroDivisionError):
        return None
    return value if isinstance(value, mpmath.mpf) and mpmath.isfinite(value) else None


def units(actual: float, exact: Any, kind: Any) -> float:
    """The error in units in the last place."""
    info = np.finfo(kind)
    power = mpmath.frexp(abs(exact))[1] - 1 if exact else info.minexp
    unit = mpmath.mpf(2) ** (max(power, info.minexp) - info.nmant)
    if np.isinf(actual):
        exact, actual = abs(exact), float(info.max)
        return 0.0 if exact > info.max else float(abs(exact - info.max) / unit) + 1
    return float(abs(mpmath.mpf(float(actual)) - exact) / unit)


# -- one argument --------------------------------------------------------------------------------------------
@pytest.mark.parametrize("name", ONE)
def test_float32_by_stride(name: str) -> None:
    x = np.arange(0, 2**32, STRIDE, np.uint64).astype(np.uint32).view(np.float32)
    with np.errstate(all="ignore"):
        exact = ONE[name][0](x.astype(np.float64))
    found = errors(evaluate(getattr(maths, name), x), exact)
    assert found.max() < 2, (found.max(), x[found.argmax()])


@pytest.mark.skipif(not LONG, reason="NumPy has no longer numbers here")
@pytest.mark.parametrize("name", [name for name in ONE if name not in ("erf", "erfc")])
def test_float64_against_longer_numbers(name: str) -> None:
    x = sampled(name, np.float64, 20_000)
    with np.errstate(all="ignore"):
        exact = ONE[name][0](x.astype(np.longdouble))
    found = errors(evaluate(getattr(maths, name), x), exact)
    assert found.max() < 2, (found.max(), x[found.argmax()])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ONE)
def test_against_mpmath(name: str, kind: Any) -> None:
    circular = name in ("sin", "cos", "tan")
    count = 600 if name in ("erf", "erfc") else 60
    x = sampled(name, kind, count, seed=1)
    x = x[np.isfinite(x)]
    actual = evaluate(getattr(maths, name), x)
    limit = 2e3 if name in ("exp", "exp2", "expm1", "sinh", "cosh", "erf", "erfc", "sigmoid") else 1e400
    limit = 1e5 if name in ("softplus", "log_sigmoid") else limit
    with mpmath.workprec(1300 if circular else 200):
        for value, result in zip(x.tolist(), actual):
            exact = exactly(ONE[name][1], value, limit)
            if name in ("softplus", "log_sigmoid") and abs(value) > limit:
                exact = value if (value > 0) == (name == "softplus") else 0
            if exact is None:
                assert np.isnan(result), (value, result)
            else:
                assert units(result, exact, kind) < 2, (value, result, exact)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ONE)
def test_special_numbers(name: str, kind: Any) -> None:
    info = np.finfo(kind)
    some = [0, 1, 2, 0.5, 100, 1e4, np.inf, info.tiny, info.smallest_subnormal, 3 * info.tiny / 4, info.max]
    x = np.array([*some, *[-each for each in some], np.nan], kind)
    with np.errstate(all="ignore"):
        expected = np.asarray(ONE[name][0](x), kind)
    actual = evaluate(getattr(maths, name), x)
    np.testing.assert_allclose(actual, expected, rtol=3 * info.eps, atol=2 * info.smallest_subnormal)
    strange = ~np.isfinite(expected) | (expected == 0)
    np.testing.assert_array_equal(actual[strange], expected[strange])
    ordinary = ~np.isnan(expected)
    np.testing.assert_array_equal(np.signbit(actual)[ordinary], np.signbit(expected)[ordinary])


@pytest.mark.parametrize(
    ("kind", "x"),
    [
        (np.float32, 16367173.0 * 2.0**72),  # of all numbers of the type, these are the closest to
        (np.float64, 6381956970095103.0 * 2.0**797),  # a multiple of pi/2
        (np.float64, 2.0**1023),
        (np.float64, float(np.finfo(np.float64).max)),
        (np.float64, 1.5707963267948966),
        (np.float64, 0.7853981633974483),
        (np.float64, 0.785),
        (np.float32, 2.0**50),
        (np.float32, 2.0**76),
        (np.float32, 2.0**102),
    ],
)
def test_hard_angles(kind: Any, x: float) -> None:
    values = np.array([x, -x, np.nextafter(kind(x), kind(0))], kind)
    with mpmath.workprec(1400):
        for name in ("sin", "cos", "tan"):
            for value, result in zip(values.tolist(), evaluate(getattr(maths, name), values)):
                assert units(result, getattr(mpmath, name)(mpmath.mpf(value)), kind) < 1.5, (name, value)


@pytest.mark.parametrize("kind", KINDS)
def test_log_gamma(kind: Any) -> None:
    random = np.random.default_rng(4)
    x = np.concatenate([random.uniform(-20, 50, 100), 10 ** random.uniform(-30, 30, 100)]).astype(kind)
    with mpmath.workprec(200):
        for value, result in zip(x.tolist(), evaluate(maths.lgamma, x)):
            assert units(result, mpmath.loggamma(mpmath.mpf(value)).real, kind) < 4, (value, result)
    edges = np.array([0, -0.0, -1, -2, 1, 2, np.inf, -np.inf, np.nan], kind)
    expected = np.array([np.inf, np.inf, np.inf, np.inf, 0, 0, np.inf, np.inf, np.nan], kind)
    np.testing.assert_array_equal(evaluate(maths.lgamma, edges), expected)


def test_powers_of_two_and_ten_have_whole_logarithms() -> None:
    for kind, tens in ((np.float32, 11), (np.float64, 23)):
        info = np.finfo(kind)
        twos = np.arange(info.minexp - info.nmant, info.maxexp)
        np.testing.assert_array_equal(evaluate(maths.log2, np.ldexp(kind(1), twos)), twos)
        powers = np.array([10.0**power for power in range(tens)], kind)
        np.testing.assert_array_equal(evaluate(maths.log10, powers), np.arange(tens))
        np.testing.assert_array_equal(evaluate(maths.exp2, twos.astype(kind)), np.ldexp(kind(1), twos))


# -- two arguments -------------------------------------------------------------------------------------------
def two_samples(name: str, kind: Any) -> tuple[Any, Any]:
    random = np.random.default_rng(5)
    count = 20_000
    x, y = patterns(kind, count, 6), patterns(kind, count, 7)
    xs, ys = [x], [y]
    if name == "power":
        most = 700 if kind == np.float64 else 87
        base = np.exp(random.uniform(-most, most, count))
        xs += [base, 1 + random.uniform(-0.3, 0.4, count), 1 + random.uniform(-1e-6, 1e-6, count)]
        with np.errstate(all="ignore"):
            ys.append(random.uniform(-most, most, count) / np.log(base))
        ys += [random.uniform(-1000, 1000, count), random.uniform(-1e8, 1e8, count)]
        xs.append(random.uniform(-9, 9, count))
        ys.append(random.integers(-40, 40, count).astype(float))
    else:
        xs += [random.uniform(-1, 1, count), x * kind(0.75)]
        ys += [random.uniform(-1, 1, count), x * random.uniform(0.5, 2, count).astype(kind)]
    with np.errstate(all="ignore"):
        return tuple(np.concatenate([each.astype(kind) for each in part]) for part in (xs, ys))  # type: ignore[return-value]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ["power", "hypot", "atan2"])
def test_two_arguments_against_longer_numbers(name: str, kind: Any) -> None:
    if kind == np.float64 and not LONG:
        pytest.skip("NumPy has no longer numbers here")
    with np.errstate(all="ignore"):
        x, y = two_samples(name, kind)
        longer = np.float64 if kind == np.float32 else np.longdouble
        exact = TWO[name](x.astype(longer), y.astype(longer))
    found = errors(evaluate(getattr(maths, name), x, y), exact)
    assert found.max() < 2, (found.max(), x[found.argmax()], y[found.argmax()])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", TWO)
def test_special_pairs(name: str, kind: Any) -> None:
    info = np.finfo(kind)
    some = [
        0,
        1,
        2,
        3,
        7,
        0.5,
        1.5,
        7.25,
        1e15,
        2.0**53 + 2,
        np.inf,
        info.tiny,
        info.smallest_subnormal,
        info.max,
    ]
    each = np.array([*some, *[-number for number in some], np.nan], kind)
    x, y = np.repeat(each, each.size), np.tile(each, each.size)
    with np.errstate(all="ignore"):
        expected = TWO[name](x, y)
    actual = evaluate(getattr(maths, name), x, y)
    close = 0 if name in ("fmod", "floor_divide") else 3
    np.testing.assert_allclose(actual, expected, rtol=close * info.eps, atol=close * info.smallest_subnormal)
    ordinary = ~np.isnan(expected)
    np.testing.assert_array_equal(np.signbit(actual)[ordinary], np.signbit(expected)[ordinary])


@pytest.mark.parametrize("kind", KINDS)
def test_remainders_have_the_sign_of_the_divisor(kind: Any) -> None:
    random = np.random.default_rng(8)
    x = np.concatenate([random.uniform(-100, 100, 1000).astype(kind), patterns(kind, 1000, 1)])
    y = np.concatenate([random.uniform(-9, 9, 1000).astype(kind), patterns(kind, 1000, 2)])
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(evaluate(maths.fmod, x, y), np.fmod(x, y))
        rest, whole = evaluate(maths.remainder, x, y), evaluate(maths.floor_divide, x, y)
        finite = np.isfinite(y)
        np.testing.assert_array_equal(rest[finite], np.remainder(x, y)[finite])
        np.testing.assert_array_equal(whole[finite], np.floor_divide(x, y)[finite])
        np.testing.assert_array_equal(evaluate(maths.trunc_divide, x, y), np.trunc(x / y))


@pytest.mark.parametrize("kind", [np.int8, np.int32, np.int64, np.uint8])
def test_quotients_of_ints(kind: Any) -> None:
    random = np.random.default_rng(9)
    x, y = (random.integers(0, 256, 3000).astype(np.uint8).astype(kind) for _ in range(2))
    x[::3] -= kind(100)
    y[::2] -= kind(100)
    with np.errstate(all="ignore"):
        for name, expected in (
            ("remainder", np.remainder),
            ("fmod", np.fmod),
            ("floor_divide", np.floor_divide),
        ):
            np.testing.assert_array_equal(evaluate(getattr(maths, name), x, y), expected(x, y))


# -- the builder ---------------------------------------------------------------------------------------------
def built(name: str, type_: str) -> tuple[Emitting, Any]:
    builder = Emitting()
    values = [
        builder.load(place, type_) for place in range(1 + (name in (*TWO, "remainder", "trunc_divide")))
    ]
    return builder, getattr(builder, name)(*values)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", INSTRUCTIONS)
def test_methods_of_the_builder_mean_the_same_to_the_interpreter(name: str, kind: Any) -> None:
    builder, made = built(name, NAMES[np.dtype(kind)])
    random = np.random.default_rng(3)
    arrays = [
        np.concatenate([patterns(kind, 100, 3 + i), random.uniform(-3, 3, 100).astype(kind)]) for i in (0, 1)
    ]
    reference = interpret(builder.body(), lambda each: arrays[each.value])[made.place]
    actual = evaluate(
        getattr(maths, name),
        *arrays[: 1 + max(each.value == 1 for each in builder.body() if each.op == "load")],
    )
    close = 1e-5 if name == "lgamma" else 1
    np.testing.assert_allclose(
        actual, reference, rtol=close * np.finfo(kind).eps if close == 1 else close, atol=0
    )


def test_instructions_are_counted() -> None:
    """What the table says, which lowering takes for the cost of a function."""
    counts = {}
    for name in INSTRUCTIONS:
        bodies = [built(name, type_)[0].body() for type_ in ("f32", "f64")]
        counts[name] = tuple(
            sum(each.op not in ("const", "load", "bitcast") for each in body) for body in bodies
        )
    assert counts == INSTRUCTIONS


def test_ints_are_to_be_cast_first() -> None:
    builder = Emitting()
    with pytest.raises(TypeError, match="numbers of type i32: cast"):
        builder.tanh(builder.load(0, "i32"))
