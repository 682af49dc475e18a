"""Expressions: the forms of one tree agree, and a tree that was stored is the same one."""

from __future__ import annotations

import json
import math
import pickle
import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.core.expressions import (
    NAMES,
    Expression,
    Symbol,
    constant,
    from_data,
    symbol,
    to_data,
)

BINARY = ("add", "sub", "mul", "floordiv", "mod", "eq", "ne", "lt", "le", "gt", "ge", "and_", "or_", "xor")
TRUTHS = ("eq", "ne", "lt", "le", "gt", "ge", "not_")
NUMBERS = ("s0", "s1", "s2")


def joined(op: str, args: tuple[Expression, ...]) -> Expression:
    return Expression(op, args, bool if op in TRUTHS else int)


whole_trees = st.recursive(
    st.one_of(
        st.integers(-5, 70).map(constant), st.sampled_from(NUMBERS).map(lambda name: symbol(name, int))
    ),
    lambda inner: st.one_of(
        st.tuples(st.sampled_from(BINARY), st.tuples(inner, inner)).map(lambda made: joined(*made)),
        st.tuples(st.sampled_from(("neg", "not_")), st.tuples(inner)).map(lambda made: joined(*made)),
    ),
    max_leaves=8,
)
"""Arithmetic, comparisons and connectives over three whole numbers."""


def outcome(compute: Any) -> Any:
    try:
        return compute()
    except ZeroDivisionError:
        return "nothing"


@given(whole_trees, st.tuples(*[st.integers(-9, 9)] * 3))
def test_text_and_value_agree(tree: Expression, numbers: tuple[int, ...]) -> None:
    values = {Symbol(name, int): number for name, number in zip(NUMBERS, numbers)}
    text = tree.render(lambda each: each.name)
    names = NAMES | {each.name: number for each, number in values.items()}
    assert outcome(lambda: eval(text, names)) == outcome(lambda: tree.evaluate(values))
    told = tree.replaced({each: constant(number) for each, number in values.items()})
    assert not told.symbols and outcome(lambda: told.evaluate({})) == outcome(lambda: tree.evaluate(values))


@given(whole_trees)
def test_what_is_stored_is_read_again(tree: Expression) -> None:
    again = from_data(json.loads(json.dumps(to_data(tree))))
    assert again == tree and hash(again) == hash(tree) and again.kind is tree.kind
    assert pickle.loads(pickle.dumps(tree)) == tree


@pytest.mark.parametrize("value", [0, -(2**80), True, False, 0.0, -0.0, math.inf, 1.5, b"", b"\x00\xff"])
def test_stored_constants_are_exact(value: Any) -> None:
    again = from_data(json.loads(json.dumps(to_data(constant(value)))))
    assert again == constant(value) and type(again.args[0]) is type(value)
    assert repr(again.args[0]) == repr(value)


def test_stored_nans_keep_their_bits() -> None:
    nan = struct.unpack("<d", b"\x01\x00\x00\x00\x00\x00\xf8\x7f")[0]
    assert struct.pack("<d", from_data(to_data(constant(nan))).args[0]) == struct.pack("<d", nan)


def test_what_cannot_be_stored() -> None:
    for made in (constant("a"), symbol("x", object), Expression("str", (symbol("f0", float),), str)):
        with pytest.raises(TypeError, match="an expression of type"):
            to_data(made)
    with pytest.raises(ValueError, match="no operation is called system"):
        from_data(["system", [["constant", "1", "int"]], "int"])


def test_symbols_that_are_not_told_stay() -> None:
    tree = joined("add", (symbol("s0", int), symbol("s1", int)))
    assert repr(tree.replaced({Symbol("s0", int): constant(3)})) == "3 + s1"
