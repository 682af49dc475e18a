"""One item of a container, taken by a constant: only that item is guarded."""

from __future__ import annotations

import weft
from tests.capture.features.harness import check, tensor
from weft.compiler import graph_break

settings = {"rate": 2, "inner": {"sizes": [1, 2], "name": "a"}, "step": 0}


def test_other_items_may_change():
    def function(x, items):
        return x * items[1]

    check(function, lambda: (tensor(), {1: 3, 2: 4}), lambda: (tensor(), {1: 3, 2: 5, "more": None}))
    check(function, lambda: (tensor(), (1, 2, 3)), lambda: (tensor(), (11, 2, 13)))
    check(function, lambda: (tensor(), [1, 2]), lambda: (tensor(), [5, 2, object]))
    check(function, lambda: (tensor(), [1, "a"]), lambda: (tensor(), [1, 2]), raises=TypeError)


def test_items_of_items():
    def prepare():
        settings.update(step=0, inner={"sizes": [1, 2], "name": "a"})

    def advance(x, change=None):
        settings["step"] += 1
        if change is not None:
            settings["inner"]["sizes"].append(change)
        return (x,)

    def function(x):
        return x * settings["inner"]["sizes"][-1] + settings["rate"]

    calls = [lambda: advance(tensor()), lambda: advance(tensor()), lambda: advance(tensor(), 7)]
    check(function, *calls, state=prepare, frames=2)


def test_items_before_and_after_a_change_under_another_name():
    def function(x, one, other):
        before = one["key"]
        other["key"] = 5
        return x + before + one["key"]

    def same():
        shared = {"key": 1}
        return tensor(), shared, shared

    check(function, lambda: (tensor(), {"key": 1}, {"key": 2}), same, frames=2)


def test_the_last_item_of_a_list_that_grows_under_another_name():
    def function(x, one, other):
        first = one[0]
        other.append(3)
        return x + first + one[-1]

    def same():
        shared = [1]
        return tensor(), shared, shared

    check(function, lambda: (tensor(), [1], [2]), same, frames=2)


def test_attributes_read_as_items():
    class Thing:
        def __init__(self):
            self.value = 1

    def make():
        thing = Thing()
        return tensor(), thing, thing.__dict__

    def function(x, thing, fields):
        before = fields["value"]
        thing.value = 5
        return x + before + fields["value"]

    check(function, make, breaks=None, frames=None)


def test_missing_items():
    def function(x, items):
        return x + items["key"]

    check(function, lambda: (tensor(), {"key": 1}), lambda: (tensor(), {"other": 1}), raises=KeyError)
    check(lambda x, items: x + items[2], lambda: (tensor(), [1, 2]), frames=0, raises=IndexError)


def test_items_and_then_the_whole():
    def function(x, items):
        first = items["a"]
        items["new"] = x
        return x + first + len(items) + items["a"]

    check(function, lambda: (tensor(), {"a": 1}))


def test_items_across_a_break():
    def function(x, items):
        x = x + items["a"]
        graph_break()
        return x + items["a"] + items["b"], items

    check(function, lambda: (tensor(), {"a": 1, "b": 2}), frames=2, breaks=1)


def test_tensors_as_items():
    one = weft.ones(3)
    check(
        lambda items: items["a"] + items["b"],
        lambda: ({"a": one, "b": one, "c": 1},),
        lambda: ({"a": one, "b": tensor(), "c": 2},),
        frames=2,
    )
