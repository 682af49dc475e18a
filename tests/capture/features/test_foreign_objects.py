"""Objects of C classes that existed before: effects on them happen once, in the right call, or break."""

from __future__ import annotations

import array
import collections
import functools
import io
import itertools
import operator
import queue
import random
import re
import types
from collections import deque

import pytest

from tests.capture.features.harness import check, tensor


def contents(value):
    """What is left of an object after a call."""
    if isinstance(value, io.StringIO):
        return value.getvalue()
    if isinstance(value, random.Random):
        return value.random()
    if isinstance(value, queue.Queue):
        return value.qsize()
    if isinstance(value, types.BuiltinFunctionType):
        return contents(value.__self__)
    if isinstance(value, functools.partial):
        return [contents(part) for part in (value.func, *value.args)]
    if hasattr(value, "__next__") or isinstance(value, (bytearray, array.array, deque, list)):
        return list(itertools.islice(value, 5))
    return None


@pytest.mark.parametrize(
    ("make", "use"),
    [
        (lambda: bytearray(b"ab"), lambda v: v.append(1)),
        (lambda: bytearray(b"ab"), lambda v: v.__setitem__(0, 65)),
        (lambda: bytearray(b"ab"), lambda v: v.extend(b"x")),
        (lambda: array.array("i", [1]), lambda v: v.append(2)),
        (lambda: io.StringIO(), lambda v: v.write("a")),
        (lambda: iter([1, 2, 3]), lambda v: next(v)),
        (lambda: iter([1, 2, 3]), lambda v: v.__next__()),
        (lambda: iter([1, 2, 3]), lambda v: v.__setstate__(1)),
        (lambda: itertools.count(), lambda v: next(v)),
        (lambda: (i for i in range(3)), lambda v: next(v)),
        (lambda: (i for i in range(3)), lambda v: v.send(None)),
        (lambda: (i for i in range(3)), lambda v: v.close()),
        (lambda: (i for i in range(3)), lambda v: list(v)),
        (lambda: map(str, [1, 2]), lambda v: list(v)),
        (lambda: zip([1, 2]), lambda v: [a for (a,) in v]),
        (lambda: enumerate([1, 2]), lambda v: dict(v)),
        (lambda: iter([3, 1, 2]), lambda v: sorted(v)),
        (lambda: iter([3, 1, 2]), lambda v: sum(v)),
        (lambda: iter([3, 1, 2]), lambda v: min(v)),
        (lambda: iter([3, 1, 2]), lambda v: 1 in v),
        (lambda: iter([3, 1, 2]), lambda v: [*v]),
        (lambda: iter(["a", "b"]), lambda v: "".join(v)),
        (lambda: iter([3, 1, 2]), lambda v: list(zip(v, v))),
        (lambda: iter([3, 1, 2]), lambda v: list(itertools.islice(v, 2))),
        (lambda: iter([3, 1, 2]), lambda v: any(i == 1 for i in v)),
        (lambda: iter([3, 1, 2]), lambda v: functools.reduce(operator.add, v)),
        (lambda: iter([3, 1, 2]), lambda v: collections.Counter(v)),
        (lambda: iter([3, 1, 2]), lambda v: deque(v, 2)),
        (lambda: iter([3, 1, 2]), lambda v: [].extend(v)),
        (lambda: iter([3, 1, 2]), lambda v: set().update(v)),
        (lambda: iter([3, 1, 2]), lambda v: operator.length_hint(v)),
        (lambda: random.Random(3), lambda v: v.random()),
        (lambda: queue.Queue(), lambda v: v.put(1)),
        (lambda: types.SimpleNamespace(a=1), lambda v: setattr(v, "a", v.a + 1)),
        (lambda: types.SimpleNamespace(a=1), lambda v: v.__dict__.update(b=2)),
        (lambda: types.SimpleNamespace(a=1), lambda v: repr(v)),
        (lambda: types.SimpleNamespace(a=1), lambda v: v == types.SimpleNamespace(a=1)),
        (lambda: types.MappingProxyType({"a": 1}), lambda v: v["a"]),
        (lambda: {"a": 1}.keys(), lambda v: list(v)),
        (lambda: {"a": 1}.items(), lambda v: len(v)),
        (lambda: memoryview(b"ab"), lambda v: v[0]),
        (lambda: slice(1, 2), lambda v: v.indices(5)),
        (lambda: [1].append, lambda v: v(2)),
        (lambda: {"a": 1}.get, lambda v: v("a")),
        (lambda: deque([1]).popleft, lambda v: v()),
        (lambda: bytearray(b"a").append, lambda v: v(2)),
        (lambda: iter([1, 2]).__next__, lambda v: v()),
        (lambda: functools.partial(list.append, [1]), lambda v: v(3)),
        (lambda: functools.partial([1].append), lambda v: v(3)),
        (lambda: operator.itemgetter(1), lambda v: v([1, 2])),
        (lambda: operator.methodcaller("append", 3), lambda v: v([])),
    ],
)
def test_effects_on_objects_of_c_happen_once(make, use):
    def function(x, value):
        y = x + 1
        result = use(value)
        return y * 2, result

    given = []

    def arguments():
        given[:] = [make()]
        return (tensor(), given[0])

    check(function, arguments, watch=lambda: contents(given[0]), breaks=None, frames=None)


@pytest.mark.parametrize(
    ("use", "values"),
    [
        (lambda g: g([1, 2, 3]), [operator.itemgetter(0), operator.itemgetter(1)]),
        (lambda g: g(3), [operator.attrgetter("real"), operator.attrgetter("imag")]),
        (lambda g: g("aab"), [operator.methodcaller("count", "a"), operator.methodcaller("count", "b")]),
        (lambda p: len(p.sub("", "aab")), [re.compile("a"), re.compile("b")]),
    ],
)
def test_other_getters_and_patterns_are_noticed(use, values):
    def function(x, value):
        return x * use(value)

    check(function, *(lambda v=v: (tensor(), v) for v in values), frames=2)
