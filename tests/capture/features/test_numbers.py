"""Numbers: int, float, complex and bool arithmetic where it has corners, with tensors and without."""

# ruff: noqa: E712, SIM300 - unusual ways of writing things are what is tested

from __future__ import annotations

import math

import pytest

from tests.capture.features.harness import check, tensor


def test_integer_division_and_remainder():
    def function(x, a, b):
        return (
            x + a,
            a // b,
            a % b,
            divmod(a, b),
            -a // b,
            a // -b,
            -a % b,
            a % -b,
            a / b,
            a**b,
            a**-1,
            pow(a, b, 5),
        )

    check(function, lambda: (tensor(), 7, 3), lambda: (tensor(), 7, 3), lambda: (tensor(), 8, 3), frames=2)


def test_float_division_and_remainder():
    def function(x, a):
        return (
            x + a,
            a // 2,
            a % 2,
            -a % 2,
            a % -2,
            divmod(a, 0.3),
            a**0.5,
            (-a) ** 0.5,
            round(a),
            round(a, 1),
            int(-a),
        )

    check(function, lambda: (tensor(), 7.25), lambda: (tensor(), 2.5), frames=2)


def test_big_integers():
    def function(x, n):
        huge = n**100
        return (
            x + 1,
            huge,
            huge // 7,
            huge % 1000,
            huge.bit_length(),
            -huge >> 5,
            huge * huge == n**200,
            int(str(huge)),
            1 << 70,
        )

    check(function, lambda: (tensor(), 12345))


def test_big_integer_as_argument():
    check(
        lambda x, n: (x + 1, n + 1, n * 2),
        lambda: (tensor(), 2**80),
        lambda: (tensor(), 2**81),
        lambda: (tensor(), 2**62),
        frames=3,
    )


def test_bit_operations():
    def function(x, n):
        return (
            x + n,
            n & 6,
            n | 8,
            n ^ 3,
            ~n,
            n << 2,
            n >> 1,
            -n >> 1,
            True & False,
            True | 2,
            n.bit_count(),
        )

    check(function, lambda: (tensor(), 5))


def test_booleans_are_integers():
    def function(x, flag):
        return (
            x + flag,
            x * True,
            flag + flag,
            sum([True, True]),
            [10, 20][flag],
            flag == 1,
            isinstance(flag, int),
            -flag,
        )

    check(function, lambda: (tensor(), True), lambda: (tensor(), False), frames=2)


def test_one_true_and_one_point_zero_are_told_apart():
    def function(x, n):
        return x * n, type(n), n / 2, repr(n)

    check(function, lambda: (tensor(), 1), lambda: (tensor(), True), lambda: (tensor(), 1.0), frames=3)


def test_negative_zero_infinity_and_nan():
    def function(x, value):
        return (
            x + 1,
            value,
            math.copysign(1.0, value),
            value == value,
            value < 1,
            repr(value),
            [value] == [value],
        )

    check(
        function,
        lambda: (tensor(), 0.0),
        lambda: (tensor(), -0.0),
        lambda: (tensor(), math.inf),
        lambda: (tensor(), math.nan),
        lambda: (tensor(), math.nan),
        frames=4,
    )


def test_complex_numbers():
    def function(x, z):
        return (
            x + 1,
            z * 2j,
            z.real,
            z.imag,
            z.conjugate(),
            abs(z),
            z**2,
            z / (1 - 1j),
            z == 1 + 2j,
            complex(1, -0.0),
            -z,
        )

    check(function, lambda: (tensor(), 1 + 2j), lambda: (tensor(), 3j), frames=2)


def test_comparison_between_kinds_of_numbers():
    def function(x, n):
        return (
            x + n,
            n == 2.0,
            n < 2.5,
            n != True,
            2**53 + 1 == float(2**53),
            n == 2 + 0j,
            hash(2) == hash(2.0),
            n is None,
        )

    check(function, lambda: (tensor(), 2))


def test_rounding():
    def function(x):
        return (
            x + 1, round(2.5), round(3.5), round(-2.5), round(2.675, 2), round(1234, -2), round(1.5, None),
            type(round(1.0, 0)),
            int(2.9), int(-2.9), math.floor(-2.1), float(3), abs(-3), abs(-3.5), abs(3 - 4j), round(True),
            (2.5).__round__(),
        )  # fmt: skip

    check(function)


@pytest.mark.parametrize(
    "wrong",
    [
        lambda n: n / 0,
        lambda n: n // 0,
        lambda n: n % 0,
        lambda n: n / 0.0,
        lambda n: 1.5 % 0,
        lambda n: divmod(n, 0),
        lambda n: 0**-1,
        lambda n: 0.0**-1,
        lambda n: 1j / 0,
        lambda n: n << -1,
        lambda n: pow(2, -1, 4),
        lambda n: pow(2, 2, 0),
        lambda n: 10.0**400,
        lambda n: int(math.inf),
        lambda n: int(math.nan),
        lambda n: float(10**400),
        lambda n: 10**400 / 3.0,
        lambda n: n + "a",
        lambda n: n + None,
        lambda n: -"a",
        lambda n: ~1.5,
        lambda n: 1j < 2,
        lambda n: n < "a",
        lambda n: n[0],
        lambda n: n.none,
        lambda n: n(),
        lambda n: len(n),
        lambda n: [1] * 1.5,
        lambda n: int([]),
        lambda n: int("1" * 5000),
        lambda n: round("a"),
        lambda n: abs(None),
    ],
)
def test_wrong_use_raises_the_same(wrong):
    def function(x, n):
        y = x + n
        try:
            wrong(n)
        except (TypeError, ValueError, ArithmeticError, AttributeError) as error:
            return y, type(error), error.args

    check(function, lambda: (tensor(), 3))


def test_division_by_zero_uncaught_after_a_graph():
    def function(x, n):
        y = x + 1
        return y / (1 // n)

    check(
        function,
        lambda: (tensor(), 1),
        lambda: (tensor(), 0),
        lambda: (tensor(), 1),
        raises=ZeroDivisionError,
    )


def test_number_of_an_argument_becomes_symbolic():
    def function(x, n):
        return x * n + n // 2, n + 1, n % 3 == 0

    check(function, *(lambda n=n: (tensor(), n) for n in (4, 5, 7, 8, 10)), frames=2)


def test_float_argument_is_symbolic():
    def function(x, scale):
        return x * scale, scale / 2 + 1, -scale

    check(function, *(lambda s=s: (tensor(), s) for s in (0.5, 1.5, -2.25)), frames=1)


def test_float_argument_decides_a_branch():
    def function(x, scale):
        return x * scale if scale > 1 else x + scale

    check(function, *(lambda s=s: (tensor(), s) for s in (0.5, 1.5, 0.25, 2.5)), frames=2)


def test_integer_methods():
    def function(x, n):
        return (
            x + n,
            n.bit_length(),
            n.real,
            n.imag,
            n.numerator,
            n.denominator,
            n.conjugate(),
            n.__add__(1),
            int.__mul__(n, 2),
        )

    check(function, lambda: (tensor(), 6))


def test_mixed_arithmetic_with_tensors():
    def function(x, n):
        return (
            x + n,
            n - x,
            2**x,
            x**n,
            n / x,
            x // n,
            x % n,
            -x,
            abs(x),
            x @ x,
            n * x + 1.5,
            x / True,
            1j * x,
        )

    check(function, lambda: (tensor(), 3))


def test_scalar_results_keep_their_types():
    def function(x, n):
        return [
            type(v) for v in (n, n + 0.0, n / 1, n // 1, n * True, n == 2, x.shape[0], x.dim(), x.numel())
        ], x + n

    check(function, lambda: (tensor(), 2), lambda: (tensor(), 3), lambda: (tensor(), 4), frames=2)


def test_int_subclass_and_index_protocol():
    def function(x, place):
        return [10, 20, 30][place] * x, "abc"[place], range(5)[place:], list(range(place))

    check(function, lambda: (tensor(), Place(1)), lambda: (tensor(), Place(2)), frames=2)


class Place:
    """A number for indexing only."""

    def __init__(self, at):
        self.at = at

    def __index__(self):
        return self.at
