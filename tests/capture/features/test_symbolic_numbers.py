"""Numbers that vary: ints and floats of arguments as symbols, and where they are needed as they are."""

from __future__ import annotations

import math

from tests.capture.features.harness import check, tensor


def several(*values):
    """Calls with one tensor and each of the values in turn."""
    return [lambda value=value: (tensor(), value) for value in values]


def test_symbolic_int_in_containers():
    def function(x, n):
        return (
            x * n,
            [0] * n,
            "ab" * n,
            (1,) * n,
            list(range(n)),
            [9, 8, 7, 6, 5, 4, 3, 2, 1, 0][n],
            {n: "v"},
            n in {4, 5},
            {4: "a"}.get(n),
            f"{n}",
            str(n),
            hash(n) == n,
            divmod(n, 3),
            -n // 2,
            n**2,
            n << 1,
            n & 3,
            bool(n),
            float(n),
            complex(n),
            n.bit_length(),
            min(n, 5),
            max(n, 5),
            sorted([n, 5]),
            sum([n, n]),
            round(n, -1),
            abs(-n),
            pow(n, 2, 7),
            bin(n),
            n / 2,
            math.sqrt(n),
            math.gcd(n, 6),
            [1, 2, 3, 4, 5, 6, 7, 8, 9][:n],
            isinstance(n, int),
            type(n),
        )

    check(function, *several(4, 5, 7), frames=3)


def test_symbolic_int_arithmetic_only():
    def function(x, n):
        return x * n, n + 1, n * n - 3, n // 3, n % 3, -n, abs(n), n > 3, n == n, [n, n + 1], {"n": n}, (n,)

    check(function, *several(4, 5, 7, 9), frames=2)


def test_symbolic_int_overflow():
    def function(x, n):
        return x + 1, n * n, n * n * n, n + 1

    check(function, *several(3, 5, 2**40, 2**61, 2**63, -(2**62), 2**70), frames=2)


def test_symbolic_float_everywhere():
    def function(x, f):
        return (
            x * f,
            round(f),
            int(f),
            f"{f:.2f}",
            str(f),
            {f: 1},
            math.sqrt(f),
            f**2,
            f % 1,
            f // 1,
            min(f, 1.0),
            max(1, f),
            abs(-f),
            0 < f < 2,
            f == f,
            sorted([f, 1.0]),
            [f],
            f.is_integer(),
            divmod(f, 1),
            bool(f),
            f in [1.5],
            hash(f),
            isinstance(f, float),
            type(f),
            math.floor(f),
            repr(f),
            f or 3,
            not f,
            f if f > 1 else -f,
        )

    check(function, *several(0.5, 1.5, 2.25), frames=3)


def test_symbolic_float_only_arithmetic():
    def function(x, f):
        return x * f, f + 1, f * f - 3, -f, [f, f / 2], {"f": f * 2}, 2**f, f % 1, f // 1, abs(f)

    check(function, *several(0.5, 1.5, -2.25, 0.0, math.inf), frames=1)


def test_float_zero_division_symbolic():
    def function(x, f):
        try:
            return x * (1 / f)
        except ZeroDivisionError as e:
            return x + 1, str(e)

    check(function, *several(0.5, 0.0, 0.25, 0.0), frames=2)


def test_int_zero_division_symbolic():
    def function(x, n):
        try:
            return x * (7 // n), 7 % n
        except ZeroDivisionError as e:
            return x + 1, str(e)

    check(function, *several(2, 3, 0, 5), frames=3)


def test_float_nan_symbolic():
    def function(x, f):
        return x * f, f < 1, f != f, min(f, 1.0), max(1.0, f), [f] == [f]

    check(function, *several(0.5, math.nan, -0.0, math.nan), frames=1)


def test_symbolic_size_slices():
    def function(x, items):
        return (
            x + 1,
            items[: x.shape[0]],
            items[-x.shape[0] :],
            list(range(x.shape[0])),
            [x[i] for i in range(x.shape[0])],
            x.shape[0] * "a",
        )

    check(
        function,
        lambda: (tensor(), [1, 2, 3, 4, 5]),
        lambda: (tensor(1, 2), [1, 2, 3, 4, 5]),
        lambda: (tensor(1, 2, 3, 4), [1, 2, 3, 4, 5]),
        frames=3,
    )
