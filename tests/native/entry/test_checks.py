"""Checks of entries: none of them runs code of users, and machine code means what Python does."""

from __future__ import annotations

import signal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import weft
from tests.core.test_expressions import NUMBERS, whole_trees
from weft.core import checks as ask
from weft.core.checks import ARITHMETIC, GREATEST, LEAST, OPERATIONS, satisfied
from weft.core.expressions import Expression, Symbol, constant, symbol
from weft.native.entry import entry
from weft.native.entry.checks import FLOATING, ORDERED, WRITERS
from weft.tensor.base import Parameter, Tensor
from weft.tensor.tape import INFERENCE
from weft.tensor.views import View

MISS = object()


def of_rows(rows: list[Any], registers: int) -> entry.Lowering:
    """Rows as they stand, and how many registers they take."""
    lowering = entry.Lowering(())
    lowering.rows, lowering.count = rows, registers
    return lowering


class Key:
    """Is asked whether it is the text whenever somebody looks for that."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.asked = 0

    def __hash__(self) -> int:
        return hash(self.text)

    def __eq__(self, other: object) -> bool:
        self.asked += 1
        return False


@pytest.mark.parametrize("check", [("dict_item", 1, 0, "key"), ("dict_lacks", 0, 0, "other")])
def test_keys_of_users_are_not_asked(check: Any) -> None:
    entrance = entry.entrance(entry.Layout(Tensor, Parameter, View, INFERENCE))
    look = entrance.make(of_rows([("argument", 0, 0), ("type_is", 0, 0, dict), check], 2), [], MISS, None)
    key = Key(check[3])
    for found in ({"key": 1}, {"key": 1, 2: 3}, {2: 3, "key": 1}):
        assert look(found) == ()
    for found in ({key: 1, "key": 1}, {"key": 1, key: 1}, {"key": 1, Key("far"): 1}):
        key.asked = 0
        assert look(found) is MISS
        assert not key.asked


def test_dicts_with_keys_of_users() -> None:
    held: dict[Any, Any] = {"weight": weft.ones(3)}
    numbered: dict[Any, Any] = {1: weft.ones(3), "other": 2}

    def f(x: weft.Tensor) -> weft.Tensor:
        return x + held["weight"] + numbered[1]

    compiled = weft.compile(f, backend="native")
    for _ in range(4):
        assert compiled(weft.zeros(3)).tolist() == [2.0] * 3
    held.clear()
    held[Key("weight")], held["weight"] = 1, weft.full((3,), 5.0)
    numbered[Key("other")] = 3
    for _ in range(4):
        assert compiled(weft.zeros(3)).tolist() == [6.0] * 3


@pytest.mark.parametrize("name", ["call_is", "call_missing"])
def test_interrupts_come_through(name: str) -> None:
    def interrupted(*_values: Any) -> Any:
        raise KeyboardInterrupt

    entrance = entry.entrance(entry.Layout(Tensor, Parameter, View, INFERENCE))
    operands = (interrupted, None) if name == "call_is" else (interrupted,)
    look = entrance.make(of_rows([(name, 0, *operands)], 1), [], MISS, None)
    with pytest.raises(KeyboardInterrupt):
        look(1)


@pytest.mark.skipif(not hasattr(signal, "SIGUSR1"), reason="no signals")
@pytest.mark.parametrize("kind", [RuntimeError, TimeoutError, LookupError])
@pytest.mark.parametrize("name", ["call_is", "call_missing"])
def test_what_a_handler_raises_comes_through(name: str, kind: type[Exception]) -> None:
    raised = kind("rung")

    def ring(_number: int, _frame: Any) -> None:
        raise raised

    def slow(*_values: Any) -> Any:
        signal.raise_signal(signal.SIGUSR1)

    def fails(*_values: Any) -> Any:
        raise kind("own")

    entrance = entry.entrance(entry.Layout(Tensor, Parameter, View, INFERENCE))
    before = signal.signal(signal.SIGUSR1, ring)
    try:
        for function in (slow, fails):
            operands = (function, None) if name == "call_is" else (function,)
            look = entrance.make(of_rows([(name, 0, *operands)], 1), [], MISS, None)
            if function is fails:
                assert look(1) is MISS
                continue
            with pytest.raises(kind) as caught:
                look(1)
            assert caught.value is raised
            assert [each.name for each in caught.traceback][1:] == ["slow", "ring"]
    finally:
        signal.signal(signal.SIGUSR1, before)


# -- expressions ---------------------------------------------------------------------------------------------
def compiled(*checks: Expression) -> Any:
    """The checks as a native function of the three numbers."""
    lowering = entry.Lowering(NUMBERS)
    for check in checks:
        lowering.need(check)
    entrance = entry.entrance(entry.Layout(Tensor, Parameter, View, INFERENCE))
    return entrance.make(lowering, [], MISS, None)


def fits(tree: Expression, values: dict[Symbol, Any]) -> bool:
    """Whether all numbers on the way can be computed in 64 bits."""
    try:
        found = tree.evaluate(values)
    except ZeroDivisionError:
        return True  # a miss in either form
    if tree.op == "mod":  # which comes with a quotient
        found = Expression("floordiv", tree.args, int).evaluate(values)
    inside = tree.op in ("constant", "symbol") or all(fits(each, values) for each in tree.args)
    return inside and LEAST <= found <= GREATEST


far = st.one_of(
    st.integers(-9, 9), st.integers(LEAST, GREATEST), st.sampled_from([LEAST, LEAST + 1, GREATEST])
)


@settings(max_examples=400, deadline=None)
@given(whole_trees, st.tuples(far, far, far))
def test_machine_code_computes_what_python_does(tree: Expression, numbers: tuple[int, ...]) -> None:
    values = {Symbol(name, int): number for name, number in zip(NUMBERS, numbers)}
    found = compiled(tree)(*numbers) is not MISS
    assert found == (satisfied([tree], values) and fits(tree, values))


def floats(depth: int) -> st.SearchStrategy[Expression]:
    """Expressions over two floats of Python's."""
    leaf = st.one_of(
        st.sampled_from([ask.double(symbol(name, object)) for name in NUMBERS[:2]]),
        st.sampled_from([0.0, -0.0, 1.5, 3e38, float("inf"), float("nan"), 0, -7, 2**52]).map(constant),
    )
    if not depth:
        return leaf
    below = floats(depth - 1)
    pair = st.tuples(st.sampled_from(["add", "sub", "mul"]), st.tuples(below, below))
    alone = st.tuples(st.sampled_from(["neg", "abs"]), st.tuples(below))
    made = st.one_of(pair, alone).map(lambda each: Expression(each[0], each[1], float))
    return st.one_of(leaf, made)


special = st.one_of(st.floats(), st.sampled_from([0.0, -0.0, float("nan"), float("inf"), 3.4e38]))


@settings(max_examples=300, deadline=None)
@given(st.sampled_from(["eq", "ne", "lt", "le", "gt", "ge"]), floats(3), floats(3), special, special)
def test_conditions_on_floats_are_computed_as_python_does(
    op: str, left: Expression, right: Expression, a: float, b: float
) -> None:
    tree = Expression(op, (left, right), bool)
    if not ask.is_arithmetic(tree):  # of whole numbers alone, under signs that are for floats
        return
    objects = {Symbol(name, object): value for name, value in zip(NUMBERS, (a, b, 0))}
    assert (compiled(tree)(a, b, 0) is not MISS) == tree.evaluate(objects)


@pytest.mark.parametrize("op", ["floordiv", "mod"])
def test_quotients_that_do_not_fit_miss(op: str) -> None:
    quotient = Expression(op, (symbol("s0", int), symbol("s1", int)), int)
    check = compiled(Expression("le", (quotient, constant(9)), bool))
    assert check(LEAST, -1, 0) is MISS and check(LEAST, 0, 0) is MISS
    assert check(LEAST, 1, 0) == () == check(LEAST + 9, -(2**62), 0) == check(-7, 2, 0)


@settings(max_examples=100, deadline=None)
@given(st.lists(whole_trees, min_size=2, max_size=4), st.tuples(*[st.integers(-3, 3)] * 3))
def test_several_checks_hold_together(trees: list[Expression], numbers: tuple[int, ...]) -> None:
    values = {Symbol(name, int): number for name, number in zip(NUMBERS, numbers)}
    assert (compiled(*trees)(*numbers) is not MISS) == satisfied(trees, values)


@pytest.mark.parametrize("value", [True, 1.0, None, 2**63, -(2**63) - 1, "1"])
def test_symbols_of_numbers_are_exact_ints_that_fit(value: Any) -> None:
    same = Expression("eq", (symbol("s0", int), symbol("s0", int)), bool)
    check = compiled(same)
    assert check(1, 0, 0) == () == check(-1, 0, 0) and check(value, 0, 0) is MISS


def test_what_is_read_twice_is_read_once() -> None:
    lowering = entry.Lowering(["x"])
    x = symbol("x", object)
    item = ask.list_item(x, 0)
    for check in (ask.type_is(x, list), ask.is_object(item, None), ask.type_is(item, type(None))):
        lowering.need(check)
    assert [row[0] for row in lowering.rows] == ["argument", "type_is", "list_item", "is_object", "type_is"]
    s0 = symbol("x", int)
    total = Expression("add", (s0, constant(1)), int)
    lowering = entry.Lowering(["x"])
    lowering.need(Expression("lt", (total, Expression("mul", (total, total), int)), bool))
    assert [row[0] for row in lowering.rows] == ["argument", "whole", "number", "add", "mul", "lt", "true"]


def test_what_has_no_machine_code() -> None:
    x = symbol("x", object)
    for check, text in (
        (Expression("not_", (ask.type_is(x, int),), bool), "is no value"),
        (Expression("truediv", (symbol("s0", int), constant(2)), float), "has no machine code"),
        (Expression("abs", (symbol("s0", int),), int), "has no machine code"),
    ):
        with pytest.raises(TypeError, match=text):
            entry.Lowering(["x", "s0"]).need(check)


def test_every_operation_has_machine_code() -> None:
    rows = {
        "argument",
        "number",
        "true",
        "call_missing",
        "is_surely",
        "cell",
        "float",
        "truncated",
        "fneg",
        "fabs",
    }
    rows |= {*FLOATING, *ORDERED}
    assert set(WRITERS) == (set(OPERATIONS) - {"walked"}) | ARITHMETIC | rows
