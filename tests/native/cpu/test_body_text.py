"""Every instruction as machine code, against what NumPy makes of it, on numbers that are hard on machines."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import weft
from tests.native.harness import given, point, run_plan
from weft.native.cpu.body_text import literal
from weft.native.ir.scalar import TYPES, Builder, interpret

EDGES: dict[str, list[Any]] = {
    "f32": [0.0, -0.0, 1.5, -2.5, 3.0, 1e-40, 3e38, np.inf, -np.inf, np.nan, 2.0**31, -7.25,
            0.5, 1e9, 33, -1],
    "f64": [0.0, -0.0, 1.5, -2.5, 3.0, 1e-310, 1e300, np.inf, -np.inf, np.nan, 2.0**63, -7.25,
            0.5, 1e9, 33, -1],
    "i32": [0, 1, -1, 2, -2**31, 2**31 - 1, 7, -7, 31, 32, 33, 100, 5, -3, 64, 12],
    "i64": [0, 1, -1, 2, -2**63, 2**63 - 1, 7, -7, 63, 64, 65, 100, 5, -3, 2**40, 12],
    "u8": [0, 1, 2, 3, 255, 254, 7, 8, 9, 128, 127, 100, 5, 6, 64, 12],
    "b1": [True, False] * 8,
}  # fmt: skip
NUMBERS = ("f32", "f64", "i32", "i64", "u8")


def pairs(type_: str) -> tuple[Any, Any]:
    """All pairs of the hard numbers, and an odd number of them, so that some are left over for no vector."""
    values = np.array(EDGES[type_], TYPES[type_])
    return np.repeat(values, len(values))[:-1].copy(), np.tile(values, len(values))[:-1].copy()


def check(type_: str, make: Any, result: str | None = None) -> None:
    x, y = pairs(type_)
    builder = Builder()
    made = make(builder, builder.load(0, type_), builder.load(1, type_))
    expected = interpret(builder.body(), lambda each: (x, y)[each.value])[made.place]
    value = point(make, given(x, 0), given(y, 1), type_=result or made.type)
    (actual,), _ = run_plan([value], [x, y])
    np.testing.assert_array_equal(actual, np.broadcast_to(expected, x.shape))
    if made.type in ("f32", "f64"):
        ordinary = ~np.isnan(actual)
        signs = np.signbit(actual), np.signbit(np.broadcast_to(expected, x.shape))
        np.testing.assert_array_equal(signs[0][ordinary], signs[1][ordinary])


@pytest.mark.parametrize("type_", NUMBERS)
@pytest.mark.parametrize("op", ["add", "sub", "mul", "min", "max", "eq", "ne", "lt", "le", "gt", "ge", "div"])
def test_binary(op: str, type_: str) -> None:
    check(type_, lambda b, x, y: getattr(b, op)(x, y))


@pytest.mark.parametrize("type_", ["f32", "f64"])
@pytest.mark.parametrize("op", ["neg", "abs", "sqrt", "floor", "ceil", "trunc", "rint"])
def test_unary(op: str, type_: str) -> None:
    check(type_, lambda b, x, y: getattr(b, op)(x))


@pytest.mark.parametrize("type_", ["i32", "i64", "u8", "b1"])
@pytest.mark.parametrize("op", ["and_", "or_", "xor"])
def test_bits(op: str, type_: str) -> None:
    check(type_, lambda b, x, y: getattr(b, op)(x, y))


@pytest.mark.parametrize("type_", ["i32", "i64", "u8"])
@pytest.mark.parametrize("op", ["shl", "shr"])
def test_shifts_inside_the_range(op: str, type_: str) -> None:
    mask = TYPES[type_].itemsize * 8 - 1
    check(type_, lambda b, x, y: getattr(b, op)(x, b.and_(y, b.like(mask, y))))


@pytest.mark.parametrize("type_", ["i32", "i64"])
def test_shifts_past_the_range(type_: str) -> None:
    x, _ = pairs(type_)
    far = np.full(x.shape, 100, x.dtype)
    lost = point(lambda b, x, n: b.shl(x, n), given(x, 0), given(far, 1))
    signs = point(lambda b, x, n: b.shr(x, n), given(x, 0), given(far, 1))
    (zeros, ends), _ = run_plan([lost, signs], [x, far])
    np.testing.assert_array_equal(zeros, 0)
    np.testing.assert_array_equal(ends, np.where(x < 0, -1, 0))


@pytest.mark.parametrize("target", ["f32", "f64", "i32", "i64", "u8", "b1"])
@pytest.mark.parametrize("source", ["f32", "f64", "i32", "i64", "u8", "b1"])
def test_casts(source: str, target: str) -> None:
    x = np.array(EDGES[source], TYPES[source])
    if source in ("f32", "f64") and target == "u8":
        x = x[(x >= 0) & (x < 256)]  # elsewhere NumPy's own answer depends on the machine
    value = point(lambda b, x: b.cast(x, target), given(x, 0), type_=target)
    (actual,), _ = run_plan([value], [x])
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(actual, x.astype(TYPES[target]))


@pytest.mark.parametrize("type_", ["f32", "f64"])
def test_select_and_fused(type_: str) -> None:
    check(type_, lambda b, x, y: b.select(b.lt(x, y), x, y))
    x, y = (np.abs(values[np.isfinite(values)]) % 100 for values in pairs(type_))
    count = min(len(x), len(y))
    x, y = x[:count].copy(), y[:count].copy()
    value = point(lambda b, x, y: b.fma(x, y, x), given(x, 0), given(y, 1))
    (actual,), _ = run_plan([value], [x, y])
    np.testing.assert_allclose(actual, x * y + x, rtol=1e-6)


def test_bits_of_floats() -> None:
    x = np.array(EDGES["f32"], np.float32)
    value = point(lambda b, x: b.bitcast(x, "i32"), given(x, 0), type_="i32")
    (actual,), _ = run_plan([value], [x])
    np.testing.assert_array_equal(actual, x.view(np.int32))


def test_upper_halves_of_products() -> None:
    x = np.array([0, 1, 2**63, 2**64 - 1, 12345678901234567, 3**40], np.uint64)
    value = point(lambda b, x: b.make("mulhigh", "u64", x, x), given(x, 0))
    (actual,), _ = run_plan([value], [x])
    assert [int(a) for a in actual] == [int(v) * int(v) >> 64 for v in x]


def test_literals() -> None:
    assert literal(1.0, "f32") == "0x3FF0000000000000"
    assert literal(255, "u8") == "-1"
    assert literal(True, "b1") == "true"


@pytest.mark.parametrize("type_", ["f32", "f64", "i32"])
def test_what_is_rare_is_computed_for_the_lanes_that_ask(type_: str) -> None:
    def make(b: Any, x: Any, y: Any) -> Any:
        return b.rarely(b.gt(x, y), b.neg(x), x, lambda inner, given: inner.mul(given, inner.like(3, given)))

    check(type_, make)
    check(type_, lambda b, x, y: make(b, x, x))


@pytest.mark.parametrize("tiers", ["draft", "full"])
def test_constants_that_are_found_late_are_spread(tiers: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """LLVM ended the process where it read one of two constants from a table, and found out afterwards which
    it is, and that it is spread over a vector."""

    def told(x: weft.Tensor, byte: weft.Tensor, y: weft.Tensor) -> tuple[weft.Tensor, ...]:
        large = (byte.long() > 300).float() + 1
        chosen = weft.where(byte.long() > 300, 2.0, 1.0)
        number = (weft.where((x == x) | (x != x), 0, 2**62) > 0).double() + 1
        place = (x.max(0).indices > 0).float() + 1
        return *(each + y for each in (large, chosen, number, place)), large, chosen, number, place

    monkeypatch.setattr(weft.compiler.settings, "tiers", tiers)
    compiled = weft.compile(told, backend="native", fullgraph=True)
    given = weft.tensor(0.5), weft.tensor(200, dtype=weft.uint8), weft.ones(40)
    weft.testing.assert_close(compiled(*given), told(*given))
