"""Sizes against Python's ints: what is computed, compared and decided of them."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.core.expressions import Symbol, symbol
from weft.core.polynomials import Algebra
from weft.native.ir.sizes import (
    Amount,
    At,
    Size,
    Sizes,
    broadcast_shape,
    greatest,
    hint,
    is_open,
    least,
    same,
    whole_number,
)

N, M = Symbol("s0", int), Symbol("s1", int)
OPS: list[Callable[[Any, Any], Any]] = [
    operator.add, operator.sub, operator.mul, operator.floordiv, operator.mod, least, greatest,
]  # fmt: skip


def opened(n: int = 7, m: int = 5) -> tuple[Sizes, Any, Any]:
    algebra = Algebra()
    algebra.ranges = {N: (2, None), M: (2, None)}
    owner = Sizes(algebra, {N: n, M: m})
    return owner, owner.of(symbol("s0", int)), owner.of(symbol("s1", int))


def holds(owner: Sizes, values: dict[Symbol, int]) -> bool:
    return all(bool(each.evaluate(values)) is truth for each, truth in owner.conditions.items())


@given(
    steps=st.lists(st.tuples(st.sampled_from(OPS), st.integers(0, 9), st.integers(0, 9)), max_size=8),
    one=st.tuples(st.integers(2, 40), st.integers(2, 40)),
    other=st.tuples(st.integers(2, 40), st.integers(2, 40)),
)
def test_arithmetic_is_that_of_ints_at_all_sizes_that_fit(
    steps: list[Any], one: tuple[int, int], other: tuple[int, int]
) -> None:
    owner, n, m = opened(*one)
    made: list[Any] = [n, m, 3, 64]
    plain = {key: [key[0], key[1], 3, 64] for key in (one, other)}
    for op, i, j in steps:
        i, j = i % len(made), j % len(made)
        if op in (operator.floordiv, operator.mod) and any(not each[j] for each in plain.values()):
            continue
        made.append(op(made[i], made[j]))
        for known in plain.values():
            known.append(op(known[i], known[j]))
    for key, known in plain.items():
        at = At({N: key[0], M: key[1]})
        if key == one or holds(owner, {N: key[0], M: key[1]}):
            assert [at(each) for each in made] == known
            assert at(tuple(made)) == tuple(known)
    assert list(hint(tuple(made))) == plain[one]


@given(a=st.integers(-50, 50), b=st.integers(-50, 50), n=st.integers(2, 50), m=st.integers(2, 50))
def test_decisions_are_conditions(a: int, b: int, n: int, m: int) -> None:
    for op in (operator.lt, operator.le, operator.gt, operator.ge, operator.eq, operator.ne):
        owner, one, two = opened(n, m)
        truth = op(one * a + 3, two + b)
        assert truth is op(n * a + 3, m + b)
        assert holds(owner, {N: n, M: m})
        for values in ((2, 2), (n, m + 1), (50, 3), (b if b > 1 else 2, m)):
            known = dict(zip((N, M), values))
            if holds(owner, known):
                assert op(known[N] * a + 3, known[M] + b) is truth


COMPARISONS = (operator.lt, operator.le, operator.gt, operator.ge, operator.eq, operator.ne)


@given(
    asked=st.lists(
        st.tuples(st.sampled_from(COMPARISONS), st.integers(-3, 3), st.integers(-3, 3), st.integers(-9, 9)),
        max_size=8,
    ),
    one=st.tuples(st.integers(2, 9), st.integers(2, 9)),
)
def test_what_was_decided_before_is_right_at_all_sizes_that_fit(asked: Any, one: tuple[int, int]) -> None:
    owner, n, m = opened(*one)
    answers = [op(n * a + m * b, c) for op, a, b, c in asked]
    for i in range(2, 12):
        for j in range(2, 12):
            if (i, j) == one or holds(owner, {N: i, M: j}):
                assert answers == [op(i * a + j * b, c) for op, a, b, c in asked]


def test_what_holds_for_all_sizes_is_no_condition() -> None:
    owner, n, m = opened()
    assert n > 1 and n != 1 and n * m >= 4 and n * 64 % 64 == 0 and (n * m) // m == n and not n < 2
    assert divmod(3, n * 4) == (0, 3) and bool(n) and n * m - n > 0 and least(n, 1) == 1
    assert same((n + m, 3), (m + n, 3)) and not same((n,), (m,))
    assert owner.conditions == {}


def test_numbers_that_are_asked_for_are_settled() -> None:
    owner, n, _ = opened(7)
    assert [0] * n == [0] * 7 and len(range(n)) == 7
    assert holds(owner, {N: 7, M: 3}) and not holds(owner, {N: 8, M: 3})


def test_costs_are_amounts() -> None:
    owner, n, _ = opened(10)
    cost = 20 + 0.25 * n * 4 / 3
    assert type(cost) is Amount and type(whole_number(cost)) is Size
    for value in (10, 11, 4000):
        assert At({N: value, M: 2})(whole_number(cost)) == int(20 + 0.25 * value * 4 / 3)
    assert owner.conditions == {} and whole_number(2.5) == 2
    with pytest.raises(TypeError):
        int(cost)  # type: ignore[call-overload]


def test_sizes_of_other_plans_are_others() -> None:
    (_, n, _), (_, other, _) = opened(7), opened(9)
    assert n != other and not same(n, other) and hash(n) == hash(other)
    assert {n: 1}.get(other) is None


def test_shapes() -> None:
    owner, n, m = opened()
    assert broadcast_shape([(n, 1, 3), (m, 1)]) == (n, m, 3)
    assert is_open(((1, (n,)), 3)) and not is_open((1, [2.0, "n"]))
    assert owner.conditions == {}
