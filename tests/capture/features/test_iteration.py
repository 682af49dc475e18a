"""Iteration: builtins over iterables, comprehensions of all kinds, itertools, iterators partly consumed."""

# ruff: noqa: B023, C416, C417 - unusual ways of writing things are what is tested

from __future__ import annotations

import enum
import itertools
import math
import sys

import pytest

from tests.capture.features.harness import check, one, tensor


def test_min_and_max():
    def function(x, items):
        return (
            x + min(items), max(items), min(3, 1, 2), max("a", "bb", key=len), min([], default=None),
            max(1, 1.0),
            min(items, key=lambda i: -i), max({"a": 1, "b": 2}, key={"a": 1, "b": 2}.get), min(True, 0),
        )  # fmt: skip

    check(function, lambda: (tensor(), [3, 1, 2]))


def test_sum():
    def function(x, items):
        start = sum([[1], [2]], [])
        return sum(items), sum(items, 1.5), sum([x, x * 2]), sum((x for _ in items), start=x), start, sum([])

    check(function, lambda: (tensor(), [1, 2.5]))


def test_any_and_all_stop_early():
    def function(x, items):
        seen = []
        found = any(seen.append(i) or i > 1 for i in items), all(seen.append(i) or i < 2 for i in items)
        return x + 1, found, seen, any([]), all([]), any([0, "", None]), all([1, "a", [0]])

    check(function, lambda: (tensor(), [1, 2, 3]))


def test_zip():
    def function(x, items):
        pairs = list(zip(items, range(9), "ab"))
        turned = list(zip(*pairs))
        try:
            list(zip(items, [1], strict=True))
        except ValueError as error:
            return x + 1, pairs, turned, dict(zip("ab", items)), list(zip()), str(error)

    check(function, lambda: (tensor(), [4, 5, 6]))


def test_enumerate():
    def function(x, items):
        for position, item in enumerate(items, start=2):
            x = x + position * item
        return x, list(enumerate("ab")), list(enumerate(items, 5))

    check(function, lambda: (tensor(), [4, 5]), ops=2)


def test_map_and_filter():
    def function(x, items):
        return (
            list(map(lambda i: x * i, items)), list(filter(None, [0, 1, "", "a"])), list(map(int, "123")),
            list(filter(lambda i: i > 1, items)), list(map(pow, [2, 3], [3, 2])), list(map(str.upper, "ab")),
        )  # fmt: skip

    check(function, lambda: (tensor(), [1, 2]))


def test_map_is_lazy():
    def function(x, log):
        lazy = map(log.append, [1, 2, 3])
        log.append("made")
        next(lazy)
        log.append("first")
        list(lazy)
        return x + len(log)

    check(function, lambda: (tensor(), []))


def test_reversed():
    def function(x, items):
        for item in reversed(items):
            x = x * item + 1
        return (
            x,
            list(reversed("ab")),
            list(reversed(range(3))),
            list(reversed((1, 2))),
            list(reversed({"a": 1})),
        )

    check(function, lambda: (tensor(), [2, 3]))


def test_list_comprehension():
    def function(x, rows):
        y = 2
        return [x * i + y for row in rows for i in row if i % 2], [[i * y for i in row] for row in rows], y

    check(function, lambda: (tensor(), [[1, 2], [3, 5]]))


def test_set_and_dict_comprehension():
    def function(x, items):
        return {i % 3 for i in items}, {i: x + i for i in items if i}, {k: v for v, k in enumerate("ab")}

    check(function, lambda: (tensor(), [0, 1, 5]))


def test_generator_expression():
    def function(x, items):
        lazy = (x * i for i in items)
        first = next(lazy)
        items.append(10)
        return first, list(lazy), sum(i for i in items), tuple(i for i in "ab"), next(lazy, "end")

    check(function, lambda: (tensor(), [1, 2]))


def test_walrus_in_comprehensions():
    def function(x, items):
        big = [last := i for i in items if (double := i * 2) > 2]
        return x + last, double, any((found := i) > 1 for i in items), found, big

    check(function, lambda: (tensor(), [1, 2, 3]))


def test_comprehension_variables_do_not_leak():
    def function(x):
        i = "outer"
        inner = [i for i in range(2)], {i: i for i in range(2)}
        return x + 1, i, inner

    check(function)


def test_comprehension_closures():
    def function(x, items):
        scale = 3
        adders = [lambda y, i=i: y + i * scale for i in items]
        scale = 4
        return [add(x) for add in adders], [[f(1) for f in (lambda k: k + i,)] for i in items]

    check(function, lambda: (tensor(), [1, 2]))


def test_comprehension_of_an_unbound_name():
    def function(x):
        try:
            return [nothing for _ in range(2)]
        except NameError as error:
            return x + 1, str(error)

    check(function)


def test_iterator_partly_consumed_inside():
    def function(x, items):
        iterator = iter(items)
        first = next(iterator)
        rest = [x * item for item in iterator]
        return first, rest, next(iterator, None)

    check(function, lambda: (tensor(), [1, 2, 3]))


@pytest.mark.parametrize(
    "make",
    [
        lambda x: iter([x, 2, 3]),
        lambda x: iter((x, 2, 3)),
        lambda x: iter({x: 1, 2: 3}),
        lambda x: iter({1: x, 2: 3}.items()),
        lambda x: iter({1: x, 2: 3}.values()),
        lambda x: iter(range(5)),
        lambda x: iter("abc"),
        lambda x: iter(b"abc"),
        lambda x: reversed([x, 2, 3]),
        lambda x: enumerate([x, 2, 3], 4),
        lambda x: zip([x, 2, 3], "abc"),
        lambda x: map(lambda i: x * i, [1, 2, 3]),
        lambda x: filter(lambda i: i != 2, [1, 2, 3]),
        lambda x: (x + i for i in range(3)),
        lambda x: itertools.chain([x, 1], "ab"),
        lambda x: itertools.count(3, 2),
        lambda x: itertools.cycle([1, x]),
        lambda x: itertools.repeat(x, 3),
        lambda x: itertools.islice([x, 1, 2, 3], 1, None),
        lambda x: itertools.accumulate([1, 2, 3]),
        lambda x: itertools.takewhile(lambda i: i < 3, [1, 2, 3]),
        lambda x: itertools.dropwhile(lambda i: i < 2, [1, 2, 3]),
        lambda x: itertools.zip_longest([x, 1], "abc"),
        lambda x: itertools.product([1, x], "ab"),
        lambda x: itertools.permutations([1, 2, 3], 2),
        lambda x: itertools.combinations([1, x, 3], 2),
        lambda x: itertools.starmap(pow, [(2, 3), (3, 2)]),
        lambda x: itertools.compress("abc", [1, 0, 1]),
        lambda x: itertools.filterfalse(None, [0, 1, "", 2]),
    ],
)
def test_iterator_escapes_partly_consumed(make):
    def function(x):
        y = x + 1
        iterator = make(y)
        return next(iterator), iterator, y

    counter = check(function, after=lambda result: [type(result[1]), *itertools.islice(result[1], 4)])
    assert counter.op_count >= 1


def test_iterator_continues_after_a_break():
    from weft.compiler import graph_break

    def function(x, items):
        iterator = iter(items)
        x = x * next(iterator)
        graph_break()
        for item in iterator:
            x = x + item
        return x

    check(function, lambda: (tensor(), [1, 2, 3]), frames=2, breaks=1)


def test_iterators_share_their_source():
    def function(x):
        source = iter([1, 2, 3, 4])
        pairs = [(a, b) for a, b in zip(source, source)]
        letters = iter("abcd")
        head = list(itertools.islice(letters, 2))
        return x + 1, pairs, head, list(letters)

    check(function)


def test_list_grows_while_it_is_walked():
    def function(x, items):
        for item in items:
            if len(items) < 6:
                items.append(item + 1)
        return x + len(items)

    check(function, lambda: (tensor(), [1, 2]))


def test_sentinel_iteration():
    def function(x):
        left = [3, 2, 1, 0, 9]
        return [x + i for i in iter(lambda: left.pop(0), 0)], left

    check(function)


def test_stop_iteration_value():
    def function(x):
        def generate():
            yield x + 1
            return "done"

        running = generate()
        first = next(running)
        try:
            next(running)
        except StopIteration as stop:
            return first, stop.value, stop.args

    check(function)


def test_iterating_a_tensor():
    def function(x):
        return [row * 2 for row in x], list(x)[0] + 1, len(x), max(enumerate([1, 2]))

    check(function)


def test_itertools_chain_product_and_friends():
    def function(x, items):
        return (
            [x * i for i in itertools.chain(items, [7])], list(itertools.chain.from_iterable(["ab", items])),
            list(itertools.product(items, "ab")), list(itertools.product([0, 1], repeat=2)),
            list(itertools.permutations(items)), list(itertools.combinations(items, 2)),
            list(itertools.combinations_with_replacement(items, 2)), list(itertools.pairwise(items)),
        )  # fmt: skip

    check(function, lambda: (tensor(), [1, 2, 3]))


def test_itertools_with_functions():
    def function(x, items):
        return (
            list(itertools.accumulate([x, x, x])),
            list(itertools.accumulate(items, lambda a, b: a * b, initial=2)),
            list(itertools.takewhile(lambda i: i < 3, items)),
            list(itertools.dropwhile(lambda i: i < 2, items)),
            list(itertools.starmap(lambda a, b: x + a * b, [(1, 2), (3, 4)])),
            list(itertools.filterfalse(lambda i: i % 2, items)),
            list(itertools.compress("abc", [1, 0, True])),
        )  # fmt: skip

    check(function, lambda: (tensor(), [1, 2, 3]))


def test_itertools_groupby():
    def function(x, words):
        groups = {key: list(group) for key, group in itertools.groupby(sorted(words), key=lambda w: w[0])}
        return x + len(groups), groups, [(k, len(list(g))) for k, g in itertools.groupby("aab")]

    check(function, lambda: (tensor(), ["bee", "ant", "bat"]))


def test_itertools_islice_count_cycle_repeat():
    def function(x):
        counted = itertools.count(10, 5)
        return (
            list(itertools.islice(counted, 2)), next(counted),
            list(itertools.islice(itertools.cycle("ab"), 5)),
            list(itertools.repeat(x + 1, 2)), list(itertools.islice(range(10), 2, 9, 3)),
            list(itertools.zip_longest([1], "ab", fillvalue=x)),
        )  # fmt: skip

    check(function)


def test_itertools_tee():
    def function(x, items):
        a, b = itertools.tee(items)
        return x + next(a), next(a), list(b), list(a)

    check(function, lambda: (tensor(), [1, 2, 3]))


@pytest.mark.skipif(sys.version_info < (3, 12), reason="batched came with 3.12")
def test_itertools_batched():
    check(lambda x: (x + 1, list(itertools.batched("abcde", 2))))


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: min([]),
        lambda: max(),
        lambda: min(1),
        lambda: sum("ab"),
        lambda: sum(["a"]),
        lambda: sum(["a"], ""),
        lambda: next(iter([])),
        lambda: next([]),
        lambda: iter(3),
        lambda: list(3),
        lambda: reversed({1}),
        lambda: enumerate(),
        lambda: zip(1),
        lambda: map(len),
        lambda: list(map(len, [1])),
        lambda: list(filter(len, [1])),
        lambda: sorted([1, "a"]),
        lambda: any(3),
        lambda: range(1.5),
        lambda: range(1, 2, 0),
        lambda: len(3),
        lambda: len(iter([])),
        lambda: list(itertools.islice([1], -1)),
        lambda: [a for a, b in [1]],
    ],
)
def test_wrong_use_raises_the_same(wrong):
    def function(x):
        y = x + 1
        try:
            wrong()
        except (TypeError, ValueError, StopIteration) as error:
            return y, type(error), error.args

    check(function, one)


class Level(enum.IntEnum):
    MID = 4


def test_members_of_enums_are_numbers_where_c_code_asks_whether_they_are_iterable() -> None:
    """The class of an Enum can be iterated, its members cannot."""
    check(lambda x: x * math.gcd(Level.MID, 6) + math.factorial(Level(4)), lambda: (tensor(),))
