"""Control flow: loops with else, match statements, walrus, assert, del, augmented assignment, short-circuits.

PYTEST_DONT_REWRITE: the asserts in captured functions are what is tested.
"""

# ruff: noqa: B007, PIE807 - unusual ways of writing things are what is tested

from __future__ import annotations

from dataclasses import dataclass

import pytest

from tests.capture.features.harness import check, tensor


def test_for_else_break_continue():
    def function(x, items, stop):
        for item in items:
            if item == 2:
                continue
            if item == stop:
                x = x * 10
                break
            x = x + item
        else:
            x = -x
        return x

    check(
        function,
        lambda: (tensor(), [1, 2, 3], 3),
        lambda: (tensor(), [1, 2, 3], 9),
        lambda: (tensor(), [1, 2, 3], 3),
        frames=2,
    )


def test_while_else():
    def function(x, n):
        while n > 0:
            n -= 2
            x = x + n
            if n == 1:
                break
        else:
            x = x * 2
        return x, n

    check(function, lambda: (tensor(), 4), lambda: (tensor(), 5), lambda: (tensor(), 4), frames=2)


def test_nested_loops_and_early_return():
    def function(x, rows):
        for row in rows:
            for item in row:
                if item < 0:
                    return x, "early"
                x = x + item
            else:
                continue
        while True:
            x = x * 2
            return x, "late"

    check(function, lambda: (tensor(), [[1], [-1]]), lambda: (tensor(), [[1], [2]]), frames=2)


def test_loop_variable_after_the_loop():
    def function(x, items):
        for i, (a, *b) in enumerate(items):
            x = x + a
        return x, i, a, b

    check(function, lambda: (tensor(), [(1, 2), (3, 4, 5)]))


def test_if_elif_else_on_sizes_and_types():
    def function(x, value):
        if x.shape[0] > 5:
            return x - 1
        elif isinstance(value, str):
            return x + len(value)
        elif value is None:
            return x * 2
        else:
            return x * value

    check(function, lambda: (tensor(), "abc"), lambda: (tensor(), None), lambda: (tensor(), 4), frames=3)


def test_conditional_expression_and_short_circuits():
    def function(x, a, b, log):
        def note(value):
            log.append(value)
            return value

        first = note(a) and note(b)
        second = note(a) or note(b)
        third = note(1) if not note(a) else note(2)
        return x + third, first, second, not first, a and b or log

    check(function, lambda: (tensor(), 0, [], []), lambda: (tensor(), 3, "b", []), frames=2)


def test_chained_comparison():
    def function(x, n, log):
        def note(value):
            log.append(value)
            return value

        return (
            x + n,
            0 < note(n) < note(5),
            1 == 1 != n is not None,
            note(9) < note(1) < note(2),
            n in [5] == [5],
        )

    check(function, lambda: (tensor(), 3, []), lambda: (tensor(), 7, []), frames=2)


def test_truth_of_values():
    def function(x, values):
        return x + 1, [bool(v) for v in values], [i for i, v in enumerate(values) if v], not values

    check(
        function,
        lambda: (tensor(), [0, 1, "", "a", [], [0], None, 0.0, -0.0, (), {}, {1}, range(0), b"", 0j]),
    )


def test_walrus():
    def function(x, items):
        if (n := len(items)) > 2:
            x = x * n
        while (item := items.pop()) != 1:
            x = x + item
        return x, n, item, (m := 3) + m

    check(function, lambda: (tensor(), [1, 2, 3]), lambda: (tensor(), [1, 2]), frames=2)


def test_assert():
    def function(x, n):
        assert x.shape[0] == 3, "never"
        try:
            assert n > 5, f"{n} is small"
        except AssertionError as error:
            return x + 1, error.args
        return x + 2

    check(function, lambda: (tensor(), 3), lambda: (tensor(), 7), frames=2)


def test_assert_that_fails():
    def function(x, n):
        y = x + 1
        assert n > 5, ("small", n)
        return y

    check(
        function,
        lambda: (tensor(), 7),
        lambda: (tensor(), 3),
        lambda: (tensor(), 7),
        frames=1,
        raises=AssertionError,
    )


def test_del_of_every_kind():
    def function(x, items, table, box):
        y = x + 1
        del items[0], table["a"], box.value
        del y
        (a, b) = 1, 2
        del (a, b)
        return x * 2, hasattr(box, "value")

    check(function, lambda: (tensor(), [1, 2], {"a": 1, "b": 2}, Point(1, 2)), frames=1)


@dataclass
class Point:
    """Something with attributes to match."""

    value: object
    other: object = 0


class Circle:
    """A class with match arguments of its own."""

    __match_args__ = ("radius",)

    def __init__(self, radius):
        self.radius = radius


class Constants:
    """Names for value patterns."""

    LIMIT = 10


def test_del_of_an_attribute_that_is_not_there():
    def function(x, box):
        try:
            del box.nothing
        except AttributeError as error:
            return x + 1, str(error)

    check(function, lambda: (tensor(), Point(1)))


def test_augmented_assignment():
    def function(x, items, table, box):
        n = 7
        n += 1
        n -= 2
        n *= 3
        n //= 4
        n **= 2
        n %= 5
        n <<= 3
        n |= 1
        n ^= 2
        n &= 15
        n >>= 1
        y = x * 1
        y += 1
        y *= n
        items[0] += 5
        items[-1] += [x]
        table["k"] -= 2
        box.value *= x
        return y, n

    check(function, lambda: (tensor(), [1, []], {"k": 5}, Point(3)))


def test_augmented_assignment_of_an_argument_changes_it():
    def function(x, y):
        alias = x
        x += y
        x *= 2
        return x is alias

    check(function, lambda: (tensor(), tensor()))


def test_augmented_assignment_into_a_tuple_fails_after_the_change():
    def function(x):
        pair = ([1], 2)
        try:
            pair[0] += [2]
        except TypeError as error:
            return x + 1, pair, str(error)

    check(function)


def test_order_of_assignments():
    def function(x, log):
        class_less = {}

        def note(value):
            log.append(value)
            return value

        class_less[note("a")] = class_less[note("b")] = note(x)
        i, class_less[i] = 1, 2
        items = [0, 1, 2]
        j = 0
        j, items[j] = 2, "set"
        return items, class_less, x + 1

    check(function, lambda: (tensor(), []))


def describe(x, subject):
    """One statement with patterns of all kinds."""
    match subject:
        case None | True | False:
            return x, "single"
        case 0 | -1 | 2.5 | "text" | b"bytes" | 1 + 2j:
            return x + 1, "literal"
        case Constants.LIMIT:
            return x + 2, "value"
        case []:
            return x + 3, "empty"
        case [one]:
            return x + 4, one
        case [int(a), str() as b, *_]:
            return x + 5, a, b
        case ("deep", [first, *middle, last], {"key": inner}):
            return x + 6, first, middle, last, inner
        case (a, b) if a == b:
            return x + 7, "guard"
        case {"kind": "circle", "radius": r, **rest}:
            return x * r, rest
        case {"kind": ("square" | "cube") as kind}:
            return x + 8, kind
        case Point(value=int() | float() as n, other=[_, _]):
            return x * n, "attributes"
        case Point(value, other=0):
            return x + 9, value
        case Circle(radius):
            return x * radius, "positional"
        case str(text):
            return x + 10, text
        case float() | int():
            return x * subject, "number"
        case dict() as other:
            return x + 11, other
        case _:
            return x + 12, "rest"


@pytest.mark.parametrize(
    "make",
    [
        lambda: None,
        lambda: True,
        lambda: -1,
        lambda: 2.5,
        lambda: "text",
        lambda: b"bytes",
        lambda: 1 + 2j,
        lambda: 10,
        lambda: [],
        lambda: (),
        lambda: [7],
        lambda: (1, "b", 3, 4),
        lambda: ("deep", [1, 2, 3, 4], {"key": "v", "more": 1}),
        lambda: ("a", "a"),
        lambda: ("a", "b"),
        lambda: {"kind": "circle", "radius": 3, "colour": "red"},
        lambda: {"kind": "cube"},
        lambda: {"kind": "line"},
        lambda: Point(3, (1, 2)),
        lambda: Point("v"),
        lambda: Point(1, 1),
        lambda: Circle(4),
        lambda: "abc",
        lambda: 77,
        lambda: 1.5,
        lambda: {},
        lambda: {1, 2},
        lambda: range(2),
    ],
)
def test_match(make):
    def function(x, subject):
        return describe(x * 2, subject)

    check(function, lambda: (tensor(), make()))


def test_match_notices_changed_subjects():
    check(
        describe,
        lambda: (tensor(), [1, "b"]),
        lambda: (tensor(), {"kind": "circle", "radius": 2}),
        lambda: (tensor(), Circle(5)),
        lambda: (tensor(), [1, "b"]),
        frames=3,
    )


def test_match_binds_even_when_the_guard_fails():
    def function(x, pair):
        match pair:
            case (a, b) if a > b:
                return x + a
            case (c, _):
                return x * c, a, b

    check(function, lambda: (tensor(), (1, 2)), lambda: (tensor(), (2, 1)), frames=2)


def test_match_of_classes_that_are_wrong():
    def function(x, value):
        try:
            match value:
                case Circle(1, 2):
                    return x
        except TypeError as error:
            return x + 1, str(error)

    check(function, lambda: (tensor(), Circle(1)))


def test_match_on_tensors_inside_structures():
    def function(x, subject):
        match subject:
            case {"w": w, "b": b}:
                return x * w + b
            case [w, b]:
                return x * w - b
            case w:
                return x / w

    check(
        function,
        lambda: (tensor(), {"w": tensor(), "b": tensor()}),
        lambda: (tensor(), [tensor(), tensor()]),
        lambda: (tensor(), tensor()),
        frames=3,
    )


def test_pass_and_ellipsis_bodies():
    def function(x):
        def nothing(): ...

        for _ in range(2):
            pass
        if nothing() is None:
            pass
        return x + 1, nothing(), ...

    check(function)


def test_many_branches_give_each_their_entry():
    def function(x, n):
        return x + 1 if n == 2 else x - 1 if n == 3 else x * n

    check(function, *(lambda n=n: (tensor(), n) for n in (2, 3, 4, 5, 2, 3)), frames=3)
