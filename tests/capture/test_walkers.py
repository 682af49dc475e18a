"""Iterators and views that existed before: captured whole, left where eager leaves them, over changes too."""

from __future__ import annotations

import itertools

import pytest

from tests.capture.features.harness import check, tensor
from weft.capture import walkers

ITERATORS = {
    "list": lambda: iter([1, 2, 3]),
    "empty": lambda: iter([]),
    "tuple": lambda: iter((1, 2, 3)),
    "tensors": lambda: iter([tensor(), tensor() * 2]),
    "keys": lambda: iter({1: 4, 2: 5}),
    "values": lambda: iter({"a": 4, "b": 5}.values()),
    "values backwards": lambda: reversed({"a": 4, "b": 5}.values()),
    "set": lambda: iter({1, 2, 3}),
    "frozenset": lambda: iter(frozenset({1, 2})),
    "range": lambda: iter(range(2, 9, 3)),
    "long range": lambda: iter(range(2**70, 2**70 + 2)),
    "backwards": lambda: reversed([1, 2, 3]),
    "tuple backwards": lambda: reversed((1, 2, 3)),
}
PAIRS = {
    "enumerate": lambda: enumerate([1, 2, 3]),
    "enumerate of values": lambda: enumerate({1: 2, 3: 4}.values(), 3),
    "enumerate of a set": lambda: enumerate({1, 2}, 9),
    "zip": lambda: zip([1, 2], (3, 4)),
    "zip of two lengths": lambda: zip(iter(range(3)), {5: 6, 7: 8}),
    "strict zip": lambda: zip([1, 2], (3,), strict=True),
    "items": lambda: iter({1: 2, 3: 4}.items()),
    "items backwards": lambda: reversed({1: 2, 3: 4}.items()),
    "enumerate of zip": lambda: zip(range(4), map_free()),
}


def map_free():
    return iter([5, 6, 7])


def left_over(*kept):
    """What the iterators of the last call still hold."""
    return [list(itertools.islice(each, 20)) for each in kept]


def checked(function, make, **options):
    """As `check`, with what iterators give when the call is over."""
    kept = []

    def arguments():
        kept[:] = make()
        return (tensor(), *kept)

    def rest():
        walked = [each for each in kept if hasattr(each, "__next__")]
        try:
            return left_over(*walked)
        except (RuntimeError, ValueError) as error:
            return str(error)

    check(function, arguments, watch=rest, **options)


@pytest.mark.parametrize("make", ITERATORS.values(), ids=ITERATORS)
@pytest.mark.parametrize("advance", [0, 1, 5])
def test_items_are_captured(make, advance):
    def begun():
        iterator = make()
        list(itertools.islice(iterator, advance))
        return (iterator,)

    def one_item(x, iterator):
        return x * 2, next(iterator, None)

    def all_items(x, iterator):
        for item in iterator:
            x = x + item
        return x, next(iterator, "end")

    def not_taken(x, iterator):
        return x * 2, iterator is not None

    for function in (one_item, all_items, not_taken):
        checked(function, begun, frames=None)


@pytest.mark.parametrize("make", PAIRS.values(), ids=PAIRS)
def test_pairs_are_captured(make):
    def one_pair(x, iterator):
        a, b = next(iterator)
        return x * a + b

    def all_pairs(x, iterator):
        for a, b in iterator:
            x = x * a + b
        return x

    for function in (one_pair, all_pairs):
        checked(function, lambda: (make(),), raises=ValueError, frames=None)


def test_iterators_within_others_advance_once():
    def function(x, numbers, counting, pairs):
        x = x * next(numbers)
        at, item = next(counting)
        first, second = next(pairs)
        return x + at * item, first, second, next(numbers)

    def make():
        numbers = iter(range(10))
        counting = enumerate(numbers)
        return numbers, counting, zip(counting, "abc")

    checked(function, make)


def test_lists_that_grow_and_shrink_under_their_iterator():
    def grow(x, items, iterator):
        for item in iterator:
            if item < 10:
                items.append(item + 10)
            x = x + item
        return x

    def grow_later(x, items, iterator):
        x = x + next(iterator)
        items.append(7)
        return x

    def clear(x, items, iterator):
        x = x + next(iterator)
        items.clear()
        return x, next(iterator, "end")

    for function in (grow, grow_later, clear):
        checked(function, lambda: (items := [1, 2], iter(items)))


def test_a_list_shortened_below_its_iterator():
    def function(x, items, iterator):
        x = x + next(iterator) + next(iterator)
        items.clear()
        return x

    checked(function, lambda: (items := [1, 2, 3], iter(items)), breaks=None, frames=None)


def test_dicts_that_change_under_their_iterator():
    def same_keys(x, table, iterator):
        for key in iterator:
            table[key] = table[key] + 1
        return x * 2

    def more_keys(x, table, iterator):
        x = x * table[next(iterator)]
        table["z"] = 3
        try:
            next(iterator)
        except RuntimeError as error:
            return x, str(error)

    def make():
        table = {"a": 1, "b": 2}
        return table, iter(table)

    checked(same_keys, make)
    checked(more_keys, make, breaks=None, frames=None)


def test_one_iterator_from_two_places():
    def function(x, one, other):
        return x * next(one) + next(other), one is other

    checked(function, lambda: (iterator := iter([1, 2, 3]), iterator))
    checked(function, lambda: (iter([1, 2, 3]), iter([1, 2, 3])))


def test_an_iterator_is_returned_and_kept_as_itself():
    class Holder:
        pass

    def function(x, holder):
        next(holder.iterator)
        holder.kept = [holder.iterator]
        return x + 1, holder.kept[0] is holder.iterator

    def make():
        holder = Holder()
        holder.iterator = iter([1, 2, 3])
        return (tensor(), holder)

    check(function, make)


def test_views_are_captured():
    def function(x, keys, values, items):
        return x * len(keys), "a" in keys, list(values), [key for key, _ in items]

    table = {"a": 1, "b": 2}
    check(function, lambda: (tensor(), table.keys(), table.values(), table.items()))


def test_what_stands_elsewhere_in_each_call_is_not_looked_into():
    def function(x, iterator):
        return x * next(iterator)

    held = []

    def begin():
        held[:] = [iter([2, 3, 4])]

    check(function, *[lambda: (tensor(), held[0])] * 3, state=begin, breaks=None, frames=3)


@pytest.mark.parametrize("make", [*ITERATORS.values(), *PAIRS.values()], ids=[*ITERATORS, *PAIRS])
@pytest.mark.parametrize("steps", range(5))
def test_alike_and_settled(make, steps):
    original, reached = make(), make()
    for iterator in (original, reached):
        with_errors(itertools.islice(iterator, steps))
    copy = walkers.alike(reached, walkers.walked(reached))
    assert type(copy) is type(original) and walkers.place(copy) == walkers.place(reached)
    if type(reached) is not zip:  # which has no place of its own
        fresh = make()
        walkers.settle(fresh, walkers.place(reached))
        assert with_errors(fresh) == with_errors(original)


def with_errors(iterator):
    try:
        return [each.tolist() if hasattr(each, "tolist") else each for each in iterator]
    except ValueError as error:
        return str(error)


def test_a_container_that_changed_its_size_is_told():
    table = {1: 2}
    iterator = iter(table)
    table[3] = 4
    assert walkers.standing(iterator) is None


def test_code_of_containers_is_not_run():
    class Turning(tuple):
        def __getitem__(self, place):
            asked.append(place)
            return 5

    class Counting(dict):
        def __len__(self):
            asked.append("len")
            return 9

    asked = []

    def function(x, turned, keys):
        return x * next(turned), next(keys)

    def make():
        return tensor(), reversed(Turning((1, 2))), iter(Counting(a=1, b=2))

    def look():
        seen, asked[:] = list(asked), []
        return seen

    check(function, make, watch=look, breaks=None, frames=None)
    assert walkers.standing(iter(Counting(a=1))) == 0 and asked == []
