"""Checks as expressions: what they print, what they mean, and what they cannot be."""

from __future__ import annotations

import pickle
import types
import weakref
from collections import defaultdict
from typing import Any

import pytest

from weft.core import checks as ask
from weft.core.checks import ARITHMETIC, Borrowed, Missed, Slot, is_arithmetic, object_of, satisfied
from weft.core.expressions import OPERATIONS, Expression, Symbol, constant, symbol

X = symbol("x", object)


class Slotted:
    __slots__ = ("value",)


def holds(check: Expression, value: Any) -> bool:
    return satisfied([check], {Symbol("x", object): value})


def test_texts() -> None:
    code = Slot(0, types.FunctionType.__dict__["__code__"])
    item = ask.list_item(X, 1)
    assert repr(ask.type_is(X, list)) == "type(x) is list"
    assert repr(ask.length(item, 2)) == "len(x[1]) == 2"
    assert repr(ask.slot_is(X, code, None)) == "x.__code__ is None"
    assert repr(ask.distinct((X, item))) == "distinct(x, x[1])"
    assert repr(ask.dict_lacks(X, "a")) == "'a' not in x"
    assert repr(ask.version(dict, 7, id)) == "version(dict) == 7"
    less = Expression("lt", (ask.size(ask.tensor(X, [1]), 0), constant(3)), bool)
    assert repr(less) == "tensor(x, [1]).shape[0] < 3"


def test_reading_what_is_not_there_misses() -> None:
    assert not holds(ask.list_item(X, 1), [1]) and holds(ask.list_item(X, 1), [1, None])
    made: defaultdict[str, int] = defaultdict(int)
    assert not holds(ask.dict_item(X, "a"), made) and not made
    assert holds(ask.list_item(X, -1), [1]) and not holds(ask.list_item(X, -2), [1])
    nothing = Slotted()
    maybe = ask.type_or(ask.dict_maybe(X, "a", nothing), list, nothing)
    assert holds(maybe, {"a": []}) and holds(maybe, made) and not made and not holds(maybe, {"a": ()})
    assert not holds(maybe, {None: 1})
    for found, count in (([1, 2], ask.count(X)), ({1: 2, 3: 4}, ask.dict_count(X))):
        assert holds(Expression("eq", (count, constant(2)), bool), found)
    place = Slot(16, Slotted.__dict__["value"])
    empty = Slotted()
    assert not holds(ask.slot(X, place), empty) and not holds(ask.slot_is(X, place, None), empty)
    assert not holds(ask.slot_isnt(X, place, None), empty)
    assert holds(ask.dict_walk(X, 1), {1: 2}) and not holds(ask.dict_walk(X, 2), {1: 2})


def test_whole_numbers_are_exact_ints_that_fit() -> None:
    for value, there in ((3, True), (-(2**63), True), (2**63, False), (True, False), (3.0, False)):
        assert holds(Expression("eq", (ask.whole(X), ask.whole(X)), bool), value) is there


def test_objects_that_are_not_kept() -> None:
    thing = Slotted.__new__(type("Weak", (), {}))  # type: ignore[call-overload]
    weak = weakref.ref(thing)
    assert object_of(weak) is thing is object_of(Borrowed(thing))
    assert holds(ask.is_object(X, weak), thing)
    del thing
    with pytest.raises(Missed, match="gone"):
        object_of(weak)
    assert not holds(ask.is_object(X, weak), None)


def test_what_a_check_is_not() -> None:
    with pytest.raises(TypeError, match="type_is takes 2 operands, not 1"):
        ask.type_is(X)
    with pytest.raises(TypeError, match="cannot be stored"):
        pickle.dumps(ask.type_is(X, int))
    assert ask.whole(X) != ask.whole(X) and ask.whole(X).symbols == {Symbol("x", object)}


def test_what_machine_code_can_compute() -> None:
    assert set(OPERATIONS) > ARITHMETIC
    number = symbol("s0", int)
    yes = [number, ask.whole(X), constant(2**63 - 1), constant(True), Expression("not_", (number,), bool)]
    no = [
        X, ask.type_is(X, int), constant(2**63), constant(1.0), symbol("f0", float),
        Expression("abs", (number,), int), Expression("add", (number, constant(2**70)), int),
        Expression("truediv", (number, number), float),
    ]  # fmt: skip
    assert all(map(is_arithmetic, yes)) and not any(map(is_arithmetic, no))


def test_symbols_become_what_checks_read() -> None:
    array = ask.tensor(X, [1])
    bound = Expression(
        "lt", (symbol("s0", int), Expression("mul", (symbol("s1", int), constant(2)), int)), bool
    )
    told = bound.replaced({Symbol("s0", int): ask.size(array, 0), Symbol("s1", int): ask.whole(X)})
    assert repr(told) == "tensor(x, [1]).shape[0] < (x * 2)" and told.symbols == {Symbol("x", object)}
    assert told.replaced({Symbol("x", object): constant(1)}).symbols == told.symbols and told.size == 8
