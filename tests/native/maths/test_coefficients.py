"""The coefficients of elementary functions are what the exchange algorithm gives: made anew, and compared.

Run as a program, it prints the tables of `weft/native/maths/coefficients.py` for other degrees or intervals.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import mpmath
import numpy as np
import pytest
from mpmath import mp, mpf

from weft.native.maths import coefficients as tables

BITS = 200
Function = Callable[[Any], Any]


class Wanted(NamedTuple):
    """What a polynomial approximates, and which error counts."""

    function: Function
    low: Any
    high: Any
    weight: Function
    lengths: dict[str, int]
    """How many coefficients each table has."""


def near_zero(function: Function, limit: Any) -> Function:
    """With the limit where the formula divides by 0."""
    return lambda x: function(x) if abs(x) > mpf(2) ** -30 else limit


def of_square(function: Function) -> Function:
    return lambda z: function(mp.sqrt(z))


def odd(function: Function, cube: Any) -> Function:
    """`(f(x) - x) / x^3`, of x^2."""
    return near_zero(of_square(lambda x: (function(x) - x) / x**3), cube)


def scaled_complement(t: Any) -> Any:
    x = 4 * (1 + t) / (1 - t)
    return mp.exp(x * x) * mp.erfc(x) * (1 + 2 * x)


def wanted() -> dict[str, Wanted]:
    half = mp.log(2) / 2 * mpf("1.001")
    root = mp.sqrt(2)
    eighth = (mp.pi / 4 * 1.0001) ** 2
    ratio = 0.02945  # the square of (sqrt(2) - 1) / (sqrt(2) + 1), and a little
    growth = near_zero(lambda x: (mp.expm1(x) - x) / x**2, mpf(0.5))
    third = mpf(1) / 3

    def same(x: Any) -> Any:
        return x

    def square(x: Any) -> Any:
        return x * x

    def one(_: Any) -> Any:
        return mpf(1)

    return {
        "EXP": Wanted(growth, -half, half, square, {"32": 5, "64": 10}),
        "EXPM1": Wanted(growth, -half, half, abs, {"32": 6, "64": 11}),
        "EXP2": Wanted(
            near_zero(lambda x: mp.expm1(x * mp.log(2)) / x, mp.log(2)), -0.5005, 0.5005, abs,
            {"32": 6, "64": 11, "SHORT": 7},
        ),
        "LOG": Wanted(
            near_zero(lambda x: (mp.log1p(x) - x + x * x / 2) / x**3, third), 1 / root - 1, root - 1, square,
            {"32": 9},
        ),
        "ATANH": Wanted(
            near_zero(of_square(lambda x: (2 * mp.atanh(x) / x - 2) / x**2), 2 * third), 0, ratio, same,
            {"64": 7, "SHORT": 4},
        ),
        "POWER": Wanted(
            near_zero(of_square(lambda x: (3 * mp.atanh(x) / x - 3 - x * x) / x**4), mpf(3) / 5), 0, ratio,
            square, {"64": 7},
        ),
        "SIN": Wanted(odd(mp.sin, -mpf(1) / 6), 0, eighth, same, {"32": 3, "64": 6, "SHORT": 4}),
        "COS": Wanted(
            near_zero(of_square(lambda x: (mp.cos(x) - 1 + x * x / 2) / x**4), mpf(1) / 24), 0, eighth,
            square, {"32": 3, "64": 6, "SHORT": 4},
        ),
        "ATAN": Wanted(odd(mp.atan, -third), 0, 1.0001, same, {"32": 9, "64": 20}),
        "ASIN": Wanted(odd(mp.asin, mpf(1) / 6), 0, 0.2501, same, {"32": 5, "64": 12}),
        "TANH": Wanted(odd(mp.tanh, -third), 0, 0.391, same, {"32": 5, "64": 11}),
        "SINH": Wanted(odd(mp.sinh, mpf(1) / 6), 0, 1.0001, same, {"32": 4, "64": 7}),
        "ERF": Wanted(
            near_zero(of_square(lambda x: mp.erf(x) / x - 1), 2 / mp.sqrt(mp.pi) - 1), 0, 0.8101, one,
            {"32": 6, "64": 12},
        ),
        "ERFC_EXPONENT": Wanted(
            lambda x: -mp.log(mp.erfc(x)), 0.9, 4.0, lambda x: mp.erfc(x) + mpf(2) ** -12, {"32": 9}
        ),
        "ERFCX": Wanted(scaled_complement, -1, 0.75, one, {"64": 24, "SHORT": 14}),
        "ERFCX_SLOPE": Wanted(lambda t: mp.diff(scaled_complement, t), -1, 0.75, one, {"64": 5}),
    }  # fmt: skip


def exchanged(task: Wanted, length: int) -> tuple[list[Any], Any]:
    """The coefficients, lowest power first, of the polynomial whose largest weighted error is least, and that
    error: Remez's exchange, from the extrema of a Chebyshev polynomial.
    """
    low, high, points = mpf(task.low), mpf(task.high), length + 1
    middle, radius = (low + high) / 2, (high - low) / 2

    def weight(x: Any) -> Any:
        return max(task.weight(x), mpf(10) ** -3)

    places = [middle - radius * mp.cos(mp.pi * i / (points - 1)) for i in range(points)]
    last = 40 * points
    grid = [middle - radius * mp.cos(mp.pi * i / last) for i in range(last + 1)]
    values, weights = [task.function(x) for x in grid], [weight(x) for x in grid]
    for _ in range(12):
        matrix, right = mp.matrix(points, points), mp.matrix(points, 1)
        for row, x in enumerate(places):
            for column in range(length):
                matrix[row, column] = x**column
            matrix[row, length] = (-1) ** row / weight(x)
            right[row] = task.function(x)
        solution = mp.lu_solve(matrix, right)
        coefficients = [solution[i] for i in range(length)]
        errors = [
            (horner(coefficients, x) - value) * factor for x, value, factor in zip(grid, values, weights)
        ]
        worst = max(abs(error) for error in errors)
        extrema = extrema_of(errors, points)
        if len(extrema) < points:
            break
        places = [refined(grid, errors, place) for place in extrema]
        if worst / abs(solution[length]) < 1.01:
            break
    return coefficients, worst


def horner(coefficients: list[Any], x: Any) -> Any:
    total = mpf(0)
    for each in reversed(coefficients):
        total = total * x + each
    return total


def extrema_of(errors: list[Any], count: int) -> list[int]:
    """Where the errors are largest, once for each change of sign."""
    found: list[int] = []
    for place, error in enumerate(errors):
        if found and mp.sign(errors[found[-1]]) == mp.sign(error):
            if abs(error) > abs(errors[found[-1]]):
                found[-1] = place
        else:
            found.append(place)
    while len(found) > count:
        found.pop(0 if abs(errors[found[0]]) < abs(errors[found[-1]]) else -1)
    return found


def refined(grid: list[Any], errors: list[Any], place: int) -> Any:
    """The extremum of the parabola through three neighbours."""
    if not 0 < place < len(grid) - 1:
        return grid[place]
    (x0, x1, x2), (y0, y1, y2) = grid[place - 1 : place + 2], errors[place - 1 : place + 2]
    slope = (x1 - x0) * (y1 - y2) - (x1 - x2) * (y1 - y0)
    if slope == 0:
        return x1
    x = x1 - ((x1 - x0) ** 2 * (y1 - y2) - (x1 - x2) ** 2 * (y1 - y0)) / (2 * slope)
    return x if x0 < x < x2 else x1


def made(name: str, suffix: str) -> tuple[tuple[float, ...], float]:
    """The table, and the power of two of its error."""
    with mpmath.workprec(BITS):
        task = wanted()[name]
        coefficients, worst = exchanged(task, task.lengths[suffix])
        numbers = [float(each) for each in reversed(coefficients)]
        if suffix == "32":
            numbers = [float(np.float32(each)) for each in numbers]
        return tuple(numbers), float(mp.log(worst, 2))


NAMES = [(name, suffix) for name, task in wanted().items() for suffix in task.lengths]


@pytest.mark.parametrize(("name", "suffix"), NAMES)
def test_tables_are_the_best_polynomials(name: str, suffix: str) -> None:
    table = getattr(tables, f"{name}_{suffix}")
    expected, error = made(name, suffix)
    # the exchange ends within 1 % of the least error, so the last digits are not the only ones possible
    np.testing.assert_allclose(table, expected, rtol=2e-7 if suffix == "32" else 1e-12)
    assert error < (-26 if suffix == "32" else -31 if suffix == "SHORT" else -55) or name == "ERFCX_SLOPE"


if __name__ == "__main__":
    for each in NAMES:
        print(*each, *made(*each))
