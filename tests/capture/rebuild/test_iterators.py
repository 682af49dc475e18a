"""Iterators partly consumed go on where they were, over the same objects."""

from __future__ import annotations

import itertools
from collections import OrderedDict, deque

import pytest

import weft
from tests.capture.segments import Segment, rebuilt
from weft.trace.breaks import Break

DATA = [3, 1, 2, 5]
MAKERS = {
    "list": lambda: iter(list(DATA)),
    "tuple": lambda: iter(tuple(DATA)),
    "str": lambda: iter("abcd"),
    "bytes": lambda: iter(b"abcd"),
    "range": lambda: iter(range(4)),
    "long range": lambda: iter(range(2**70, 2**70 + 4)),
    "set": lambda: iter({1, 2, 3}),
    "deque": lambda: iter(deque(DATA)),
    "reversed": lambda: reversed(list(DATA)),
    "reversed range": lambda: reversed(range(4)),
    "dict": lambda: iter({"a": 1, "b": 2, "c": 3}),
    "values": lambda: iter({"a": 1, "b": 2, "c": 3}.values()),
    "items": lambda: iter({"a": 1, "b": 2, "c": 3}.items()),
    "reversed dict": lambda: reversed({"a": 1, "b": 2, "c": 3}),
    "reversed items": lambda: reversed({"a": 1, "b": 2, "c": 3}.items()),
    "ordered": lambda: iter(OrderedDict(a=1, b=2, c=3)),
    "enumerate": lambda: enumerate(DATA, 5),
    "zip": lambda: zip(DATA, "abcd"),
    "strict zip": lambda: zip(DATA, "abcd", strict=True),
    "map": lambda: map(str, DATA),
    "filter": lambda: filter(None, [0, *DATA]),
    "count": lambda: itertools.islice(itertools.count(3, 2), 5),
    "cycle": lambda: itertools.islice(itertools.cycle(DATA), 7),
    "repeat": lambda: itertools.repeat("x", 4),
    "chain": lambda: itertools.chain([1, 2], "ab"),
    "chain.from_iterable": lambda: itertools.chain.from_iterable([[1, 2], [3], [4]]),
    "islice": lambda: itertools.islice(range(20), 1, 9, 2),
    "product": lambda: itertools.product([1, 2], "ab"),
    "permutations": lambda: itertools.permutations([1, 2, 3], 2),
    "combinations": lambda: itertools.combinations([1, 2, 3, 4], 2),
    "accumulate": lambda: itertools.accumulate(DATA),
    "accumulate from": lambda: itertools.accumulate(DATA, initial=10),
    "takewhile": lambda: itertools.takewhile(bool, DATA),
    "dropwhile": lambda: itertools.dropwhile(bool, [*DATA, 0, 1, 2]),
    "starmap": lambda: itertools.starmap(max, [(1, 2), (4, 3), (5, 5)]),
    "compress": lambda: itertools.compress("abcd", [1, 0, 1, 1]),
    "filterfalse": lambda: itertools.filterfalse(None, [0, 1, 0, ""]),
    "zip_longest": lambda: itertools.zip_longest([1], "abc", fillvalue=0),
    "tee": lambda: itertools.tee(DATA)[0],
    "nested": lambda: enumerate(zip(map(str, DATA), itertools.chain(DATA, DATA))),
    "sentinel": lambda: iter([5, 6, 0, 7].pop, 0),
}


@pytest.mark.parametrize("kind", MAKERS)
@pytest.mark.parametrize("taken", [0, 1, 2, 99])
def test_the_rest_is_the_same(kind, taken):
    value, same = MAKERS[kind](), MAKERS[kind]()
    for iterator in (value, same):
        list(itertools.islice(iterator, taken))
    made = rebuilt((value,))[0]
    assert list(made) == list(same)


def test_groups():
    value = itertools.groupby("aabbb")
    next(value)
    made = rebuilt((value,))[0]
    assert [(key, list(group)) for key, group in made] == [("b", ["b"] * 3)]


def test_iterators_that_share_their_source():
    shared = iter(range(6))
    next(shared)
    made, again = rebuilt((zip(shared, shared), shared))
    assert next(made) == (1, 2) and next(again) == 3 and next(made) == (4, 5)


def test_over_what_existed_before():
    data = [1, 2, 3]
    value = iter(data)
    next(value)
    made = rebuilt((value,), a=data)[0]
    data.append(4)
    assert list(made) == [2, 3, 4]


def test_dicts_notice_changes_of_size():
    data = {"a": 1, "b": 2, "c": 3}
    value = iter(data.items())
    next(value)
    made = rebuilt((value,), a=data)[0]
    assert next(made) == ("b", 2)
    data["d"] = 4
    with pytest.raises(RuntimeError, match="changed size"):
        next(made)


def test_views_are_live():
    data = {"a": 1}
    keys, values, items = rebuilt((data.keys(), data.values(), data.items()), a=data)
    data["b"] = 2
    assert list(keys) == ["a", "b"] and list(values) == [1, 2] and list(items) == [("a", 1), ("b", 2)]


def test_iterators_without_a_state_are_refused():
    value = itertools.pairwise([1, 2, 3])
    next(value)
    with pytest.raises(Break, match="cannot-rebuild"):
        rebuilt((value,))


def test_callables_inside_are_the_users():
    def f(x, names):
        def shout(name):
            return name.upper()

        made = map(shout, names)
        first = next(made)
        return x + 1, first, made

    _, first, rest = Segment(f, weft.ones(1), ["a", "b", "c"])()
    assert first == "A" and list(rest) == ["B", "C"]


def test_loops_over_a_dict_that_grew_before():
    def f(x, data):
        data["new"] = x + 1
        for key in data:
            print(key)
        return len(data)

    data = {"a": 1}
    segment = Segment(f, weft.ones(1), data)
    assert segment() == 2 and list(data) == ["a", "new"]


def test_loops_over_a_dict_whose_values_change():
    def f(x, data):
        for key in data:
            data[key] = x + 1
            print(key)

    data = {"a": 1, "b": 2}
    Segment(f, weft.ones(1), data)()
    assert data["a"].tolist() == data["b"].tolist() == [2.0]
