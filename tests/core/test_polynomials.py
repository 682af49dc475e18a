"""What is known of sums and products of symbols."""

from __future__ import annotations

import itertools

import pytest

from weft.core.expressions import Expression, constant, symbol
from weft.core.polynomials import COMPARE, Algebra

A, B = symbol("a", int), symbol("b", int)


def add(left: Expression, right: Expression) -> Expression:
    return Expression("add", (left, right), int)


def mul(left: Expression, right: Expression | int) -> Expression:
    return Expression("mul", (left, right if isinstance(right, Expression) else constant(right)), int)


CASES = {
    "a < a * b": ("lt", A, mul(A, B), True),
    "64 (a * b - 1) < 64 b": ("lt", mul(add(mul(A, B), constant(-1)), 64), mul(B, 64), False),
    "b - 1 < a * b": ("lt", add(B, constant(-1)), mul(A, B), True),
    "a * b == a": ("eq", mul(A, B), A, False),
    "a * b + 1 >= a + b": ("ge", add(mul(A, B), constant(1)), add(A, B), True),
    "a < b": ("lt", A, B, None),
    "a * b < 5 a": ("lt", mul(A, B), mul(A, 5), None),
    "a * b == 4": ("eq", mul(A, B), constant(4), None),
    "a * b >= 4": ("ge", mul(A, B), constant(4), True),
}


@pytest.mark.parametrize("name", CASES)
def test_products_of_what_is_at_least_two(name: str) -> None:
    op, left, right, expected = CASES[name]
    algebra = Algebra()
    algebra.ranges = {one.args[0]: (2, None) for one in (A, B)}
    assert algebra.compare(op, left, right) is expected
    asked = Expression(op, (left, right), bool)
    pairs = itertools.product((2, 3, 7), repeat=2)
    truths = {bool(asked.evaluate({A.args[0]: a, B.args[0]: b})) for a, b in pairs}
    assert truths == ({True, False} if expected is None else {expected})


def test_all_comparisons_agree_with_bounds_from_the_least() -> None:
    """Whatever is said of sums with factors of either sign holds for small numbers."""
    algebra = Algebra()
    algebra.ranges = {A.args[0]: (0, None), B.args[0]: (-1, 3)}
    for x, y, z in itertools.product((-2, -1, 0, 1, 2), repeat=3):
        left, right = add(mul(mul(A, B), x), mul(A, y)), add(mul(B, z), constant(y))
        for op in COMPARE:
            known = algebra.compare(op, left, right)
            for a, b in itertools.product(range(4), range(-1, 4)):
                values = {A.args[0]: a, B.args[0]: b}
                truth = bool(Expression(op, (left, right), bool).evaluate(values))
                assert known is None or known is truth, (op, left, right, values)
