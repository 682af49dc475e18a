"""Functions of the standard library that programs written for PyTorch's compiler use in captured code."""

from __future__ import annotations

import collections
import functools
import operator
import typing

import weft
from tests.capture.features.harness import check, tensor

seen = []
Word = typing.TypeVar("Word")


@functools.lru_cache
def scaled(x, factor, _unused=None):
    return weft.sin(x * factor)


@functools.cache
def noted(number):
    seen.append(number)
    return number.shape[0] * 2


@functools.cache
def pair(x):
    return [x + 1, x]


def test_cached_functions_of_tensors_are_captured():
    check(lambda x: scaled(x, 2, x), ops=2)


def test_cached_functions_with_effects_are_called_as_they_are():
    def forget():
        noted.cache_clear()
        seen.clear()

    check(lambda x: x * noted(x), breaks=1, state=forget, watch=lambda: len(seen))


def test_what_a_cached_function_made_is_the_same_object():
    check(lambda x: pair(x) is pair(x), state=pair.cache_clear, breaks=2, frames=0)


def test_named_tuple_classes_are_made_in_captured_code():
    def function(x):
        Pair = collections.namedtuple("Pair", ["left", "right", "extra"], defaults=(None, 1))
        made = Pair(x, right=x + 1)
        return made.left + made.right * made.extra, type(made).__name__, made._fields

    check(function)


def test_named_tuples_of_new_classes_are_given_back():
    def function(x):
        return tuple(collections.namedtuple("Pair", "left right")(x, x + 1))

    check(function)
    made = weft.compile(lambda x: collections.namedtuple("Pair", "left right")(x, x + 1))(tensor())
    assert type(made).__name__ == "Pair" and made.right.tolist() == [2.0, 3.0, 4.0]


def test_functions_made_in_captured_code_are_decorated_with_grad_modes():
    def function(x):
        @weft.no_grad()
        def quiet(value):
            "doc"
            return value * 2

        @weft.set_grad_enabled(True)
        def loud(value):
            return value * 3

        return quiet(x), loud(x), quiet.__name__, quiet.__doc__, weft.is_grad_enabled()

    check(function, lambda: (tensor().requires_grad_(),), lambda: (tensor(),), frames=2)


def test_powers_of_one_number():
    base, powers = weft.tensor(2.0), [weft.tensor(3.0), weft.tensor([1.0, 2.0])]
    assert [p.tolist() for p in weft._foreach_pow(base, powers)] == [8.0, [2.0, 4.0]]


def test_unions_are_given_back():
    check(lambda x: (x + 1, {1, 2, 3}.union({4, 1}), {1, 2} | {2, 3}))


def test_operators_as_functions_for_others():
    def function(x):
        unary = (operator.abs, abs, operator.neg, operator.pos, operator.truth, operator.not_, operator.index)
        hints = [*map(operator.length_hint, [(1, 2), [3], {}])]
        return x + 1, [list(map(op, range(-2, 3))) for op in unary], hints, list(map(operator.add, [x], [2]))

    check(function)


def test_type_variables_as_keys():
    check(lambda x, table: x + table[Word], lambda: (tensor(), {Word: 3}))
