"""Arithmetic: promotion, integer and bool rules, PyTorch's errors, and gradients at the edges."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import weft

INF, NAN = float("inf"), float("nan")


def same(got: Any, expected: Any) -> None:
    """Equal elements and dtype."""
    assert got.dtype is expected.dtype
    np.testing.assert_array_equal(got.numpy(), expected.numpy())


def gradient(function: Any, *values: Any) -> list[list[float]]:
    """The gradients of the summed result."""
    inputs = [weft.tensor(value, dtype=weft.float64, requires_grad=True) for value in values]
    return [g.tolist() for g in weft.autograd.grad(function(*inputs).sum(), inputs)]


INTS = weft.tensor([7, -7, 3])
BOOLS = weft.tensor([True, False])


def test_alpha_scales_the_second_operand() -> None:
    same(weft.add(INTS, 2, alpha=3), weft.tensor([13, -1, 9]))
    same(weft.sub(INTS, INTS, alpha=2), weft.tensor([-7, 7, -3]))
    same(weft.rsub(INTS, 1, alpha=2), weft.tensor([-13, 15, -5]))
    same(weft.add(BOOLS, BOOLS, alpha=True), BOOLS)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: weft.add(INTS, INTS, alpha=1.5), "argument alpha must not be a floating point number"),
        (lambda: weft.add(INTS, INTS, alpha=True), "Boolean alpha only supported for Boolean results"),
        (lambda: weft.add(INTS / 2, 1, alpha=1j), "argument alpha must not be a complex number"),
        (lambda: weft.sub(BOOLS, BOOLS), "with two bool tensors is not supported"),
        (
            lambda: weft.sub(BOOLS, 1),
            "with a bool tensor is not supported. If you are trying to invert a mask",
        ),
        (lambda: weft.rsub(BOOLS, 1), "with a bool tensor is not supported"),
        (lambda: weft.neg(BOOLS), "Negation, the `-` operator, on a bool tensor is not supported"),
        (lambda: weft.positive(BOOLS), "The `\\+` operator, on a bool tensor is not supported"),
        (lambda: weft.pow(INTS, -1), "Integers to negative integer powers are not allowed"),
        (lambda: weft.pow(BOOLS, BOOLS), "\"pow\" not implemented for 'Bool'"),
        (lambda: weft.floor_divide(INTS, 0), "ZeroDivisionError"),
        (lambda: weft.remainder(INTS, weft.tensor([1, 0, 1])), "ZeroDivisionError"),
        (lambda: weft.fmod(INTS, 0), "ZeroDivisionError"),
        (lambda: weft.div(INTS, 0, rounding_mode="trunc"), "ZeroDivisionError"),
        (
            lambda: weft.div(INTS, 2, rounding_mode="up"),
            "rounding_mode to be one of None, 'trunc', or 'floor'",
        ),
        (lambda: weft.addcdiv(INTS, INTS, INTS), "Integer division with addcdiv is no longer supported"),
        (
            lambda: weft.lerp(weft.ones(2), weft.ones(2).double(), 0.5),
            "expected dtype float for `end` but got",
        ),
        (lambda: weft.abs(BOOLS), "\"abs_cpu\" not implemented for 'Bool'"),
        (lambda: weft.add(weft.ones(3), weft.ones(4)), "size of tensor a \\(3\\) must match"),
    ],
)
def test_errors(call: Any, message: str) -> None:
    for _ in range(2):  # the second call may take another path
        with pytest.raises(RuntimeError, match=message):
            call()


def test_wrong_kinds_of_operands() -> None:
    with pytest.raises(TypeError, match="argument 'other' \\(position 2\\) must be Tensor, not str"):
        weft.add(INTS, "a")
    with pytest.raises(TypeError, match="invalid combination of arguments"):
        weft.bitwise_and(2, 3)


def test_unsigned_integers_wrap() -> None:
    small = weft.tensor([5, 250], dtype=weft.uint8)
    same(small + 300, weft.tensor([49, 38], dtype=weft.uint8))
    same(small * -1, weft.tensor([251, 6], dtype=weft.uint8))
    same(-small, weft.tensor([251, 6], dtype=weft.uint8))


def test_integer_division_rounds_as_asked() -> None:
    same(weft.div(INTS, 2), weft.tensor([3.5, -3.5, 1.5]))
    same(weft.div(INTS, 2, rounding_mode="floor"), weft.tensor([3, -4, 1]))
    same(weft.div(INTS, 2, rounding_mode="trunc"), weft.tensor([3, -3, 1]))
    same(weft.floor_divide(INTS, -2), weft.tensor([-4, 3, -2]))
    same(weft.remainder(INTS, -2), weft.tensor([-1, -1, -1]))
    same(weft.fmod(INTS, -2), weft.tensor([1, -1, 1]))


@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_float_floor_division_is_numpys(kind: Any) -> None:
    edges = np.array([0.0, -0.0, 1, -1, 2.5, np.inf, -np.inf, np.nan, 1e-30, 7, -7, 0.1, 0.3, 1e30], kind)
    left, right = (grid.ravel() for grid in np.meshgrid(edges, edges))
    x, y = weft.from_numpy(left.copy()), weft.from_numpy(right.copy())
    with np.errstate(all="ignore"):
        quotient, rest = np.floor_divide(left, right), np.remainder(left, right)
    np.testing.assert_array_equal(weft.floor_divide(x, y).numpy(), quotient)
    np.testing.assert_array_equal(
        np.signbit(weft.floor_divide(x, y).numpy())[quotient == 0], np.signbit(quotient)[quotient == 0]
    )
    np.testing.assert_array_equal(weft.remainder(x, y).numpy(), rest)


def test_integer_powers() -> None:
    same(weft.pow(INTS, 2), weft.tensor([49, 49, 9]))
    same(weft.pow(weft.tensor([1, -1, -1, 2]), weft.tensor([-3, -3, -2, -1])), weft.tensor([1, -1, 1, 0]))
    same(weft.pow(2, weft.tensor([0, 3])), weft.tensor([1, 8]))
    same(weft.float_power(INTS, 2), weft.tensor([49.0, 49.0, 9.0], dtype=weft.float64))
    with pytest.raises(RuntimeError, match="the base given to float_power_ has dtype Float"):
        weft.ones(2).float_power_(2)


@pytest.mark.parametrize("backend", [None, "aot_eager", "native"])
@pytest.mark.parametrize(
    ("number", "expected"),
    [(1e300, [0.0, -1.0, 0.0]), (1e-320, [INF, -INF, NAN]), (-1e-320, [-INF, INF, NAN])],
)
def test_numbers_are_rounded_before_they_divide(number: float, expected: Any, backend: str | None) -> None:
    def call(x: weft.Tensor, number: float) -> weft.Tensor:
        return x // number

    x = weft.tensor([0.5, -1.25, 0.0])
    made = (call if backend is None else weft.compile(call, backend=backend))(x, number)
    np.testing.assert_array_equal(made.numpy(), expected)


@pytest.mark.parametrize("exponent", [2, 3, 0.5, -1, -0.5, -2, 1, 0, 1.7])
def test_powers_with_their_own_loops_agree_with_the_general_one(exponent: float) -> None:
    x = np.array([0.25, 1.5, 4.0])
    np.testing.assert_allclose(weft.pow(weft.from_numpy(x), exponent).numpy(), x**exponent, rtol=1e-15)


def test_gradients_of_powers_at_the_edges() -> None:
    assert gradient(lambda x: x**0, [0.0, 2.0]) == [[0.0, 0.0]]
    assert gradient(lambda x: x**2, [0.0, 3.0]) == [[0.0, 6.0]]
    base, exponent = gradient(weft.pow, [0.0, 0.0, 2.0], [0.0, 2.0, 3.0])
    assert base == [0.0, 0.0, 12.0]
    assert exponent[:2] == [0.0, 0.0]
    assert exponent[2] == pytest.approx(8 * np.log(2))
    assert gradient(lambda x: 0**x, [1.0]) == [[0.0]]


def test_gradients_of_sizes_and_quotients() -> None:
    assert gradient(abs, [0.0, -2.0, 3.0]) == [[0.0, -1.0, 1.0]]
    assert gradient(weft.sign, [0.0, -2.0]) == [[0.0, 0.0]]
    assert gradient(lambda x, y: weft.div(x, y, rounding_mode="floor"), [5.0], [2.0]) == [[0.0], [0.0]]
    assert gradient(weft.remainder, [5.0], [2.0]) == [[1.0], [-2.0]]
    assert gradient(weft.fmod, [-5.0], [2.0]) == [[1.0], [2.0]]
    with pytest.raises(RuntimeError, match="derivative for aten::floor_divide is not implemented"):
        gradient(weft.floor_divide, [5.0], [2.0])


def test_lerp_gives_its_ends_exactly() -> None:
    start, end = weft.tensor([0.1, 1e8]), weft.tensor([0.3, 1.0])
    same(weft.lerp(start, end, 0.0), start)
    same(weft.lerp(start, end, 1.0), end)
    same(weft.lerp(start, end, weft.tensor([0.0, 1.0])), weft.tensor([0.1, 1.0]))


def test_values_of_fused_ops_are_cast_to_the_dtype() -> None:
    same(weft.addcmul(INTS, INTS, INTS, value=0.5), INTS)
    same(weft.addcmul(INTS, INTS, INTS, value=2), weft.tensor([105, 91, 21]))


def test_keep_is_exact_where_a_product_is_not() -> None:
    from weft.ops.arithmetic import keep

    x = np.array([np.inf, np.nan, -0.0, 2.0], np.float32)
    np.testing.assert_array_equal(
        keep(x, np.array([False, False, True, True])), np.array([0, 0, -0.0, 2], np.float32)
    )
    half = x.astype(np.float16)
    assert keep(half, np.array([False] * 4)).dtype == np.float16
    assert keep(x.astype(complex), np.array([False, True, True, True]))[0] == 0


def test_bools_count_in_square() -> None:
    same(weft.square(BOOLS), weft.tensor([1, 0]))


def test_aliases_are_the_same_functions() -> None:
    assert weft.multiply is weft.mul
    assert weft.subtract is weft.sub
    assert weft.divide is weft.div
    assert weft.negative is weft.neg
    assert weft.absolute is weft.abs
    assert weft.Tensor.absolute is weft.Tensor.abs


def test_gradients_of_complex_tensors_are_the_same_every_time() -> None:
    """|x²| = |x|², whose gradient is 2x."""
    x = weft.tensor([1 + 3j], requires_grad=True)
    for _ in range(3):
        x.grad = None
        weft.mul(x, x).abs().sum().backward()
        assert weft.allclose(x.grad, weft.tensor([2 + 6j]))


def test_signs_of_nan_are_zero() -> None:
    x = weft.tensor([float("nan"), -2.0])
    assert weft.sign(x).tolist() == [0, -1] and weft.sgn(x).tolist() == [0, -1]


def test_negative_alpha_of_unsigned_tensors_wraps() -> None:
    x = weft.tensor([7, 1], dtype=weft.uint8)
    assert weft.sub(x, x, alpha=-1).tolist() == [14, 2] and weft.add(x, x, alpha=-1).tolist() == [0, 0]


def test_numbers_alone() -> None:
    assert weft.add(1, 2).dtype is weft.int64 and weft.div(1, 2).item() == 0.5
    assert weft.mul(2, 1.5).item() == 3
    with pytest.raises(TypeError):
        weft.maximum(1, 2)


def test_second_derivatives_of_powers_at_zero_are_finite():
    """Polynomial features: the column of ones moves nowhere, at 0 too."""
    for exponents in (weft.arange(4), weft.arange(4, dtype=weft.float64)):

        def features(x, exponents=exponents):
            return (x[:, None] ** exponents).sum()

        x = weft.tensor([0.0, -1.0, 2.0], dtype=weft.float64)
        expected = np.diag([2.0, -4.0, 14.0])
        assert np.array_equal(weft.func.hessian(features)(x).numpy(), expected)
        assert np.array_equal(weft.func.jacrev(weft.func.jacrev(features))(x).numpy(), expected)
        assert np.array_equal(weft.func.jacfwd(weft.func.jacfwd(features))(x).numpy(), expected)


def test_quotients_rounded_down_are_exact_in_float32() -> None:
    from weft.ops.kernels.division import float_floor_divide, python_floor_divide

    rng = np.random.default_rng(0)
    whole = rng.integers(-(2**17), 2**17, 20_000).astype(np.float32)
    for y in (np.float32(0.1), np.float32(-0.3), np.float32(7), np.float32(1e-4)):
        for x in (whole * y, np.nextafter(whole * y, np.float32(np.inf)), whole, whole * 0):
            divisor = np.full_like(x, y)
            expected = np.floor(np.divide(x.astype(np.longdouble), divisor.astype(np.longdouble)))
            got = float_floor_divide(x, divisor)
            small = np.abs(expected) < 2**22
            assert np.array_equal(got[small], expected[small].astype(np.float32))
            assert np.array_equal(got, python_floor_divide(x, divisor))
    odd = np.array([np.nan, np.inf, 1, -0.0], np.float32)
    with np.errstate(all="ignore"):
        out = float_floor_divide(odd, np.array([1, 2, 0, 1], np.float32))
    assert np.array_equal(out, [np.nan, np.nan, np.inf, -0.0], True)
    x = weft.from_numpy(whole * np.float32(0.3))
    assert ((x // 0.3) == (x // weft.tensor(0.3))).all() and ((x // 0.3) == (x // 0.3)).all()
    assert (x[:0] // 0.3).shape == (0,) and (weft.tensor(1.0) // 0.3).item() == 3


@pytest.mark.parametrize("kind", ["float32", "float64", "int64", "uint8"])
@pytest.mark.parametrize("name", ["add_", "sub_"])
def test_inplace_with_alpha_on_large_tensors(name: str, kind: str) -> None:
    """Written piece by piece, the same bits as in one go; also with itself and with overlapping operands."""
    values = np.random.default_rng(1).integers(0, 9, 40_000).astype(kind)
    sign = 1 if name == "add_" else -1
    wide = values.astype(np.float64 if kind.startswith("f") else np.int64)
    for times in (1, 2):  # the second call takes the straight-line path
        x = weft.from_numpy(values.copy())
        y = weft.from_numpy(values[::-1].copy())
        getattr(x, name)(y, alpha=3)
        assert np.array_equal(x.numpy(), (wide + sign * 3 * wide[::-1]).astype(kind)), times
        getattr(y, name)(y, alpha=2)
        assert np.array_equal(y.numpy(), (wide[::-1] * (1 + sign * 2)).astype(kind)), times


@pytest.mark.parametrize("kind", [weft.float32, weft.float64])
def test_floors_of_quotients_by_infinity(kind: weft.dtype) -> None:
    infinity = float("inf")
    x = weft.tensor([-1.0, 1.0, 0.0, 5.0], dtype=kind)
    assert (x // infinity).tolist() == (x // weft.full((4,), infinity, dtype=kind)).tolist() == [-1, 0, 0, 0]
    assert weft.div(x, -infinity, rounding_mode="floor").tolist() == [0, -1, 0, -1]


def test_factors_of_whole_numbers_wrap_or_overflow() -> None:
    x = weft.tensor([1, 2, 3], dtype=weft.uint8)
    same(weft.addcmul(x, x, x, value=-1), weft.tensor([0, 254, 250], dtype=weft.uint8))
    same(weft.add(x, x, alpha=-255), weft.tensor([2, 4, 6], dtype=weft.uint8))
    for value in (300, -256):
        for call in (lambda v: weft.addcmul(x, x, x, value=v), lambda v: weft.add(x, x, alpha=v)):
            with pytest.raises(RuntimeError, match="cannot be converted to type uint8_t without overflow"):
                call(value)
    with pytest.raises(RuntimeError, match="cannot be converted to type int8_t without overflow"):
        weft.sub(x.to(weft.int8), 1, alpha=300)


@pytest.mark.parametrize("kind", [weft.float32, weft.float64, weft.bfloat16])
def test_remainders_of_zero_keep_the_sign_of_the_dividend(kind: weft.dtype) -> None:
    x = weft.tensor([-2.0, 2.0, -0.0, 0.0, -4.0], dtype=kind)
    for divisor in (2, -2):
        for call in (weft.remainder, weft.compile(lambda x, y: weft.remainder(x, y))):
            assert repr(call(x, divisor).tolist()) == "[-0.0, 0.0, -0.0, 0.0, -0.0]"
