"""Guards: an argument of any kind that changes between calls is noticed, wherever the change is."""

from __future__ import annotations

import collections
import functools
import math
import operator
import types
from collections import OrderedDict, deque
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pytest

import weft
from tests.capture.features.harness import Call, check, tensor


class Point(NamedTuple):
    a: object
    b: object = 2


@dataclass
class Box:
    value: object

    def scale(self, by=2):
        return self.value * by


class Slotted:
    __slots__ = ("value",)

    def __init__(self, value):
        self.value = value


def maker(n):
    return lambda: n


def with_default(n):
    def function(k=n):
        return k

    return function


def with_keyword(n):
    def function(*, k=n):
        return k

    return function


def shared(a):
    return [a, a]


@pytest.mark.parametrize(
    ("use", "first", "second"),
    [
        (lambda v: v, lambda: 3, lambda: 4),
        (lambda v: v, lambda: 1, lambda: True),
        (lambda v: v, lambda: 0, lambda: False),
        (lambda v: v, lambda: 2, lambda: 2.0),
        (lambda v: math.copysign(1, v), lambda: 0.0, lambda: -0.0),
        (lambda v: v.imag, lambda: 1j, lambda: 2j),
        (lambda v: repr(v), lambda: complex(0.0, 0.0), lambda: complex(0.0, -0.0)),
        (lambda v: len(v), lambda: "ab", lambda: "abc"),
        (lambda v: v[0], lambda: b"ab", lambda: b"bb"),
        (lambda v: v is None, lambda: None, lambda: 0),
        (lambda v: v is ..., lambda: ..., lambda: None),
        (lambda v: len(v), lambda: range(3), lambda: range(4)),
        (lambda v: [1, 2, 3, 4][v][0], lambda: slice(0, 2), lambda: slice(1, 2)),
        (lambda v: v[0], lambda: (1, 2), lambda: (2, 2)),
        (lambda v: len(v), lambda: (1, 2), lambda: (1, 2, 3)),
        (lambda v: isinstance(v, tuple), lambda: (1, 2), lambda: [1, 2]),
        (lambda v: v[0][0], lambda: ([1], 2), lambda: ([5], 2)),
        (lambda v: v[1]["k"][0], lambda: [0, {"k": (1,)}], lambda: [0, {"k": (2,)}]),
        (lambda v: v.get("k", 9), lambda: {"k": 1}, lambda: {"j": 1}),
        (lambda v: list(v)[0], lambda: {"a": 1, "b": 2}, lambda: {"b": 2, "a": 1}),
        (lambda v: type(v).__name__, lambda: {"a": 1}, lambda: OrderedDict(a=1)),
        (lambda v: type(v).__name__, lambda: {"a": 1}, lambda: collections.defaultdict(int, a=1)),
        (lambda v: v["z"], lambda: collections.defaultdict(int), lambda: collections.defaultdict(list)),
        (lambda v: 3 in v, lambda: {1, 2}, lambda: {1, 3}),
        (lambda v: len(v), lambda: frozenset({1}), lambda: frozenset({1, 2})),
        (lambda v: v.maxlen, lambda: deque([1], 2), lambda: deque([1], 3)),
        (lambda v: v[0], lambda: deque([1]), lambda: deque([4])),
        (lambda v: v.a, lambda: Point(1), lambda: Point(2)),
        (lambda v: isinstance(v, Point), lambda: Point(1, 2), lambda: (1, 2)),
        (lambda v: v.value, lambda: Box(1), lambda: Box(2)),
        (lambda v: hasattr(v, "value"), lambda: Box(1), lambda: object()),
        (lambda v: v.value, lambda: Slotted(1), lambda: Slotted(2)),
        (lambda v: v.value, lambda: Box(1), lambda: Slotted(1)),
        (lambda v: v.value, lambda: types.SimpleNamespace(value=1), lambda: types.SimpleNamespace(value=2)),
        (lambda v: v([1, 2]), lambda: len, lambda: sum),
        (lambda v: v("12"), lambda: int, lambda: float),
        (lambda v: v([3, 4]), lambda: operator.itemgetter(0), lambda: operator.itemgetter(1)),
        (lambda v: v(), lambda: maker(1), lambda: maker(2)),
        (lambda v: v(), lambda: with_default(1), lambda: with_default(2)),
        (lambda v: v(), lambda: with_keyword(1), lambda: with_keyword(2)),
        (lambda v: v(), lambda: lambda: 1, lambda: lambda: 2),
        (lambda v: v(), lambda: functools.partial(max, 1, 2), lambda: functools.partial(max, 3, 2)),
        (lambda v: v(2), lambda: functools.partial(max, 1), lambda: functools.partial(min, 1)),
        (lambda v: v("11"), lambda: functools.partial(int, base=2), lambda: functools.partial(int, base=3)),
        (lambda v: v(), lambda: Box(1).scale, lambda: Box(2).scale),
        (lambda v: v(1), lambda: [1, 2].count, lambda: [1, 1].count),
        (lambda v: v(1), lambda: [1, 2].count, lambda: [1, 2].index),
        (lambda v: v.__name__, lambda: math, lambda: operator),
        (lambda v: v.__name__, lambda: Box, lambda: Point),
        (lambda v: v[0] is v[1], lambda: [[1], [1]], lambda: shared([1])),
        (lambda v: v[0] is v[1], lambda: [Box(1), Box(1)], lambda: shared(Box(1))),
        (lambda v: v[0] is v[1], lambda: [tensor(), tensor()], lambda: shared(tensor())),
        (lambda v: v.dtype, lambda: weft.ones(2), lambda: weft.ones(2, dtype=weft.int64)),
        (lambda v: v.shape[0], lambda: weft.ones(2), lambda: weft.ones(3)),
        (lambda v: v.dim(), lambda: weft.ones(2), lambda: weft.ones(2, 1)),
        (lambda v: v.is_contiguous(), lambda: weft.ones(2, 3), lambda: weft.ones(3, 2).t()),
        (lambda v: v.requires_grad, lambda: weft.ones(2), lambda: weft.ones(2, requires_grad=True)),
        (lambda v: isinstance(v, weft.Tensor), lambda: weft.ones(2), lambda: 2),
        (lambda v: v, lambda: weft.float32, lambda: weft.float64),
        (lambda v: v[0], lambda: weft.Size([1, 2]), lambda: weft.Size([2, 2])),
        (lambda v: v + 1, lambda: np.float32(1), lambda: np.float32(2)),
        (lambda v: type(v).__name__, lambda: np.int64(1), lambda: 1),
        (lambda v: v.args[0], lambda: ValueError(1), lambda: ValueError(2)),
        (lambda v: sorted(v)[0], lambda: [3, 1], lambda: [3, 2]),
        (lambda v: sum(v), lambda: [1.5, 2.5], lambda: [1.5, 3.5]),
        (lambda v: max(v, key=lambda i: -i), lambda: [1, 2], lambda: [3, 2]),
        (lambda v: "{} {}".format(*v), lambda: ["a", 1], lambda: ["a", 2]),
        (lambda v: [*v], lambda: {"a": 1}, lambda: {"b": 1}),
    ],
)
def test_changed_argument(use, first, second):
    def function(x, value):
        return x * 2, use(value), [value]

    calls = [lambda make=make: (tensor(), make()) for make in (first, second, first, second)]
    check(function, *calls, frames=None, breaks=None)


def test_order_of_keywords():
    def function(x, **named):
        return x + 1, list(named)

    check(function, lambda: Call(tensor(), a=1, b=2), lambda: Call(tensor(), b=2, a=1), frames=2)


def test_an_argument_that_is_also_a_global():
    def function(x, items):
        items.append(x + 1)
        return len(SHARED), len(items)

    def begin():
        SHARED[:] = [1]

    check(
        function,
        lambda: (tensor(), [1]),
        lambda: (tensor(), SHARED),
        state=begin,
        watch=lambda: SHARED,
        frames=2,
    )


SHARED: list[object] = []


def test_an_argument_that_is_also_in_a_closure():
    kept = Box(1)

    def function(x, box):
        box.value = x + 1
        return kept.value

    def begin():
        kept.value = 1

    check(function, lambda: (tensor(), Box(5)), lambda: (tensor(), kept), state=begin, frames=None)


def test_a_default_that_is_also_an_argument():
    kept = [1]

    def function(x, a, b=kept):
        a.append(x + 1)
        return len(b)

    def begin():
        kept[:] = [1]

    check(function, lambda: (tensor(), [1]), lambda: (tensor(), kept), state=begin, frames=2)


def test_a_list_that_holds_another_argument():
    def function(x, rows, row):
        row.append(x + 1)
        return len(rows[0])

    def holding():
        row = [1]
        return (tensor(), [row], row)

    check(function, lambda: (tensor(), [[1]], [1]), holding, lambda: (tensor(), [[1]], [1]), frames=2)


def test_the_same_tensor_twice():
    def function(x, y):
        x.add_(1)
        return y * 2

    def twice():
        x = tensor()
        return x, x

    check(function, lambda: (tensor(), tensor()), twice, lambda: (tensor(), tensor()), frames=2)


def test_views_of_one_tensor():
    def function(x, y):
        x.add_(1)
        return y * 2

    def views():
        base = tensor(1, 2, 3, 4)
        return base[:3], base[1:]

    check(function, lambda: (tensor(), tensor()), views, frames=None)


def test_swapped_code():
    def inner(x):
        return x + 1

    def other(x):
        return x * 5

    first = inner.__code__

    def swapped():
        inner.__code__ = other.__code__
        return (tensor(),)

    def begin():
        inner.__code__ = first

    check(lambda x: inner(x), lambda: (tensor(),), swapped, state=begin, frames=2)
