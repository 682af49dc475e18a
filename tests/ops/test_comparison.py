"""Comparisons, logic and bits."""

from __future__ import annotations

import math

import numpy as np
import pytest

import weft

NAN, INF = math.nan, math.inf


def test_comparisons_give_bools_and_know_nan() -> None:
    x, y = weft.tensor([1.0, NAN, 3.0]), weft.tensor([1.0, NAN, 2.0])
    assert weft.eq(x, y).tolist() == [True, False, False]
    assert weft.ne(x, y).tolist() == [False, True, True]
    assert weft.gt(x, y).tolist() == [False, False, True]
    assert weft.le(x, 1).tolist() == [True, False, False]
    assert weft.lt(x, y).dtype is weft.bool


def test_numbers_beside_narrow_integers_are_wrapped_on_every_path() -> None:
    small = weft.tensor([5, 250], dtype=weft.uint8)
    for _ in range(2):
        assert weft.lt(small, 300).tolist() == [True, False]
        assert weft.eq(small, 261).tolist() == [True, False]


def test_integers_beside_floats_compare_as_floats() -> None:
    assert weft.tensor([1, 2]).lt(1.5).tolist() == [True, False]
    assert weft.tensor([True]).eq(1.5).tolist() == [False]


def test_complex_numbers_have_no_order() -> None:
    z = weft.tensor([1j])
    assert weft.eq(z, z).all()
    with pytest.raises(NotImplementedError, match="\"lt_cpu\" not implemented for 'ComplexFloat'"):
        weft.lt(z, z)


def test_in_place_comparison_keeps_the_dtype() -> None:
    x = weft.tensor([1.0, 5.0])
    assert x.gt_(2).tolist() == [0.0, 1.0]
    assert x.dtype is weft.float32


def test_shape_is_checked_before_the_dtype_is_refused() -> None:
    with pytest.raises(RuntimeError, match="doesn't match the broadcast shape"):
        weft.ones(3).bitwise_and_(weft.ones(2, 3))
    with pytest.raises(RuntimeError, match="can't be cast to the desired output type"):
        weft.tensor([1]).bitwise_and_(1.5)


def test_logic() -> None:
    x, y = weft.tensor([0.0, 2.0, NAN]), weft.tensor([1, 0, 1])
    assert weft.logical_and(x, y).tolist() == [False, False, True]
    assert weft.logical_or(x, y).tolist() == [True, True, True]
    assert weft.logical_xor(x, y).tolist() == [True, True, False]
    assert weft.logical_not(x).tolist() == [True, False, False]


def test_kinds_of_values() -> None:
    x = weft.tensor([NAN, INF, -INF, -0.0])
    assert weft.isnan(x).tolist() == [True, False, False, False]
    assert weft.isinf(x).tolist() == [False, True, True, False]
    assert weft.isfinite(x).tolist() == [False, False, False, True]
    assert weft.isposinf(x).tolist() == [False, True, False, False]
    assert weft.isneginf(x).tolist() == [False, False, True, False]
    assert weft.signbit(x).tolist()[2:] == [True, True]
    assert weft.isreal(weft.tensor([1 + 0j, 1j])).tolist() == [True, False]
    assert not weft.isnan(weft.tensor([1, 2])).any()
    assert weft.isreal(weft.ones(2, device="meta")).is_meta


def test_isclose_and_allclose() -> None:
    x = weft.tensor([1.0, NAN, INF, 0.0])
    y = weft.tensor([1.0 + 1e-6, NAN, INF, 1e-9])
    assert weft.isclose(x, y).tolist() == [True, False, True, True]
    assert weft.allclose(x, y, equal_nan=True) is True
    assert weft.allclose(x, y) is False
    assert weft.isclose(weft.tensor([1, 5]), weft.tensor([2, 5]), rtol=1).all()
    with pytest.raises(RuntimeError, match="Float did not match Double"):
        weft.isclose(x, y.double())
    with pytest.raises(RuntimeError, match="rtol must be greater than or equal to zero, but got -1"):
        weft.isclose(x, y, rtol=-1)


def test_equal_answers_with_a_bool() -> None:
    assert weft.equal(weft.ones(2), weft.ones(2)) is True
    assert weft.equal(weft.ones(2), weft.ones(3)) is False
    assert weft.tensor([NAN]).equal(weft.tensor([NAN])) is False


@pytest.mark.parametrize("kind", [weft.int8, weft.uint8, weft.int32, weft.int64])
def test_shifts_out_of_range(kind: weft.dtype) -> None:
    x = weft.tensor([1, 5], dtype=kind)
    bits = weft.iinfo(kind).bits
    assert (x << 1).tolist() == [2, 10]
    assert (x << bits).tolist() == [0, 0]
    assert weft.bitwise_left_shift(
        x, weft.tensor([1, bits + 3 if bits < 64 else 70], dtype=kind)
    ).tolist() == [2, 0]
    assert (x >> bits).tolist() == [0, 0]
    if kind.is_signed:
        assert (x << -1).tolist() == [0, 0]
        assert (-x >> bits).tolist() == [-1, -1]


def test_bits() -> None:
    x = weft.tensor([6, 3])
    assert weft.bitwise_and(x, 5).tolist() == [4, 1]
    assert weft.bitwise_or(x, 5).tolist() == [7, 7]
    assert weft.bitwise_xor(5, x).tolist() == [3, 6]
    assert weft.bitwise_not(weft.tensor([True, False])).tolist() == [False, True]
    np.testing.assert_array_equal(weft.gcd(x, weft.tensor([4, 9])).numpy(), [2, 3])
    with pytest.raises(NotImplementedError, match="\"bitwise_and_cpu\" not implemented for 'Float'"):
        weft.bitwise_and(weft.ones(2), x)


def test_shifts_to_the_right_by_more_than_there_are_bits() -> None:
    assert (weft.tensor([200, 3], dtype=weft.uint8) >> 9).tolist() == [0, 0]
    assert (weft.tensor([200, 3], dtype=weft.uint8) >> weft.tensor([8, 1], dtype=weft.uint8)).tolist() == [
        0,
        1,
    ]
    assert (weft.tensor([-100, 100], dtype=weft.int8) >> 9).tolist() == [-1, 0]


@pytest.mark.parametrize("compiled", [False, True])
def test_least_multiples_that_wrap_are_positive(compiled: bool) -> None:
    function = weft.compile(lambda x, y: weft.lcm(x, y)) if compiled else weft.lcm
    x, y = (weft.tensor(values, dtype=weft.int32) for values in ([2, -4, 0], [2**31 - 1, 6, 5]))
    assert function(x, y).tolist() == [2, 12, 0]


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("name", ["bitwise_left_shift", "bitwise_right_shift"])
def test_shifts_by_numbers_wrap_these_first_in_every_call(name: str, compiled: bool) -> None:
    shift = getattr(weft, name)
    for kind in (weft.int8, weft.uint8, weft.int16):
        x = weft.tensor([1, 2, 64], dtype=kind)
        for by in (2**40, 2**40 + 1, 2**16 + 2, 1, 9, -3):
            wrapped = weft.tensor(by).to(kind)
            function = weft.compile(lambda x, by=by: shift(x, by)) if compiled else shift
            for _ in range(2):
                assert function(x, by).tolist() == shift(x, wrapped).tolist(), (kind, by)
