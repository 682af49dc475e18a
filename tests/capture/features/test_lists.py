"""Sequences: lists, tuples and deques, their methods, slices, unpacking and sorting."""

# ruff: noqa: PLE0643, PIE800 - unusual ways of writing things are what is tested

from __future__ import annotations

import collections
from collections import deque

import pytest

from tests.capture.features.harness import check, tensor


def test_list_methods():
    def function(x, items):
        items.insert(0, "first")
        items.extend((1, 2, 1))
        items.remove(1)
        popped = items.pop(), items.pop(0)
        items.reverse()
        return popped, items.count(2), items.index(2), items.copy(), len(items), items.append(x + 1)

    check(function, lambda: (tensor(), [5, 6]), lambda: (tensor(), [5, 6]), lambda: (tensor(), [5]), frames=2)


def test_list_cleared_and_refilled():
    def function(x, items):
        kept = items[0]
        items.clear()
        items += [kept, x * 2]
        return items

    check(function, lambda: (tensor(), [tensor(), 1, 2]))


@pytest.mark.parametrize(
    "wrong",
    [
        lambda items: items[9],
        lambda items: items.index("none"),
        lambda items: items.remove("none"),
        lambda items: [].pop(),
        lambda items: items["a"],
        lambda items: items + (1,),
        lambda items: items.insert(),
        lambda items: items.nothing,
        lambda items: items < 3,
        lambda items: items.__setitem__(9, 1),
        lambda items: items.__setitem__(slice(0, 2, 2), [1, 2, 3]),
        lambda items: {}[(1, 2)],
        lambda items: (1, 2)[2],
        lambda items: hash(items),
        lambda items: deque().popleft(),
        lambda items: deque([1]).remove(3),
    ],
)
def test_wrong_use_raises_the_same(wrong):
    def function(x, items):
        y = x + 1
        try:
            wrong(items)
        except (LookupError, ValueError, TypeError, AttributeError) as error:
            return y, type(error), error.args, str(error)

    check(function, lambda: (tensor(), [1, 2, 3]))


def test_slices():
    def function(x, items):
        n = len(items)
        return (
            items[1:],
            items[:-1],
            items[::-1],
            items[n // 2 : n : 2],
            items[10:],
            items[slice(1, 3)],
            x + n,
        )

    check(function, lambda: (tensor(), [1, 2, 3, 4, 5]), lambda: (tensor(), (1, 2, 3)), frames=2)


def test_slice_assignment_and_deletion():
    def function(x, items):
        items[1:3] = [x, x + 1, "new"]
        items[::2] = reversed(items[::2])
        del items[-1], items[0:1]
        items[len(items) :] = "ab"
        return items

    check(function, lambda: (tensor(), [1, 2, 3, 4, 5]))


def test_list_operators():
    def function(x, items):
        alias = items
        items += [x]
        items *= 2
        return (
            items is alias,
            items + [1],
            [x] * 3,
            2 * [0],
            [1, 2] < [1, 3],
            [1] == [1.0],
            x in [x, 1],
            x + 1,
        )

    check(function, lambda: (tensor(), [1]))


def test_list_identity_is_kept():
    def function(x, items):
        inner = [x * 2]
        return items, [items, inner, inner], (inner, items)

    check(function, lambda: (tensor(), [1]))


def test_list_of_itself():
    def function(x):
        items = [x + 1]
        items.append(items)
        return items

    check(function, after=lambda items: items[1] is items)


def test_nested_lists_changed_in_place():
    def function(x, rows):
        rows[0][1] = x + rows[1][0]
        rows.append(rows[0])
        rows[2].append("both")
        return rows

    check(function, lambda: (tensor(), [[1, 2], [3, 4]]))


def test_unpacking():
    def function(x, pair):
        a, b = pair
        (c, (d, *e)), f = (1, "xyz"), x
        *g, h = range(4)
        i, *j, k = [1, 2]
        a, b = b, a
        return a, b, c, d, e, f * 2, g, h, i, j, k

    check(function, lambda: (tensor(), (tensor(), 2)), lambda: (tensor(), [1, "b"]), frames=2)


def test_unpacking_a_tensor():
    def function(x):
        a, b, c = x
        return a * 2, c - b

    check(function)


@pytest.mark.parametrize("count", [1, 3])
def test_unpacking_the_wrong_number(count):
    def function(x):
        y = x + 1
        try:
            a, b = range(count)
        except ValueError as error:
            message = str(error)
        try:
            a, *b, c = [1] * (count // 2)
        except ValueError as error:
            message += str(error)
        return y, message

    check(function)


def test_unpacking_what_is_not_iterable():
    def function(x, value):
        try:
            a, b = value
        except TypeError as error:
            return x + 1, str(error)

    check(function, lambda: (tensor(), 3), lambda: (tensor(), None), frames=2)


def test_starred_displays():
    def function(x, items, names):
        return [*items, x + 1, *items], (*items, *"ab"), {*items, 9}, {**names, "k": 1, **{"a": 2}}

    check(function, lambda: (tensor(), [1, 2], {"a": 1, "b": 2}))


def test_tuples():
    def function(x, pair):
        a = (x, *pair)
        return a + (1,), a[1:], pair * 2, pair.index(2), pair.count(1), (1, 2) < (1, 3), pair == (1, 2), x + 1

    check(function, lambda: (tensor(), (1, 2)), lambda: (tensor(), (2, 2, 1)), frames=2)


def test_tuple_identity():
    def function(x, pair):
        y = x + pair[0]
        return pair, [pair], tuple(pair) is pair, pair[:] is pair, y

    check(function, lambda: (tensor(), (tensor(), [1])))


Point = collections.namedtuple("Point", ["a", "b"], defaults=[5])


def test_namedtuples():
    def function(x, given):
        made = Point(x + 1)
        a, b = given
        return (
            made,
            made.b,
            given._replace(b=a),
            given._asdict(),
            Point._make([1, 2]),
            Point._fields,
            given.a + b,
        )

    check(function, lambda: (tensor(), Point(tensor(), 2)))


def test_sorting():
    def function(x, items):
        down = sorted(items, key=lambda pair: -pair[1])
        items.sort(reverse=True)
        words = sorted(["b", "A", "c"], key=str.lower)
        return x + down[0][1], down, items, words, sorted("cab"), sorted({3, 1}), sorted([2, 1], reverse=True)

    check(function, lambda: (tensor(), [("a", 2), ("b", 3), ("a", 1)]))


def test_sorting_is_stable_and_fails_alike():
    def function(x, items):
        by_first = sorted(items, key=lambda pair: pair[0])
        try:
            sorted([1, "a"])
        except TypeError as error:
            return x + 1, by_first, str(error)

    check(function, lambda: (tensor(), [(2, "a"), (1, "b"), (2, "c"), (1, "d")]))


def test_sorting_tensors_by_a_plain_key():
    def function(x, items):
        items.sort(key=lambda item: item.shape[0])
        return [item * 2 for item in items]

    check(function, lambda: (tensor(), [tensor(1, 2), tensor(1), tensor(1, 2, 3)]))


def test_deques():
    def function(x, queue):
        queue.append(x + 1)
        queue.appendleft("left")
        queue.rotate(1)
        queue.extendleft([7, 8])
        last = queue.pop()
        return queue.popleft(), last, len(queue), queue[0], queue.maxlen, list(queue)

    check(function, lambda: (tensor(), deque([1, 2, 3, 4])))


def test_bounded_deque():
    def function(x, queue):
        queue.append(x + 1)
        made = deque([1, 2, 3], 2)
        made.append(x * 2)
        return queue, made, made.maxlen

    check(
        function, lambda: (tensor(), deque([1, 2, 3], 3)), lambda: (tensor(), deque([1, 2, 3], 9)), frames=2
    )


def test_deque_operators():
    def function(x, queue):
        queue[1] = x + 1
        del queue[0]
        queue += [5]
        queue.reverse()
        copy = queue.copy()
        copy.clear()
        return queue, copy, deque([1]) + deque([2]), deque([1]) * 2, 5 in queue, queue.index(5)

    check(function, lambda: (tensor(), deque([1, 2, 3])))


def test_ranges():
    def function(x, n):
        numbers = range(1, n, 3)
        return (
            x + n,
            numbers,
            list(numbers),
            numbers[-1],
            numbers[1:],
            4 in numbers,
            len(numbers),
            numbers.index(4),
        )

    check(function, lambda: (tensor(), 20), lambda: (tensor(), 21), lambda: (tensor(), 20), frames=2)


def test_list_methods_reached_through_the_class():
    def function(x, items):
        list.append(items, x + 1)
        list.__setitem__(items, 0, "set")
        return items.__len__(), list.__getitem__(items, 0), items.__contains__(2), items.__iter__().__next__()

    check(function, lambda: (tensor(), [1, 2]))


def test_list_subclass():
    check(lambda x, items: add_total(x, items), lambda: (tensor(), Stack([1, 2])))


class Stack(list):
    """A list with a method of its own."""

    def push(self, value):
        self.append(value)
        return self


def add_total(x, items):
    items.push(3).push(x)
    made = Stack((x + 1,))
    return items, made, len(items), items[0], items[1:], isinstance(items, list)


def test_changed_item_is_noticed():
    check(
        lambda x, items: x * items[1],
        lambda: (tensor(), [1, 3]),
        lambda: (tensor(), [2, 5]),
        frames=2,
    )


def test_aliased_items_are_noticed():
    def function(x, rows):
        rows[0].append(x + 1)
        return len(rows[1])

    def aliased():
        row = [1]
        return (tensor(), [row, row])

    check(function, lambda: (tensor(), [[1], [1]]), aliased, frames=2)
