"""Mappings and sets: dict, OrderedDict, defaultdict, Counter, ChainMap, set and frozenset."""

# ruff: noqa: C405, C406, C408, F601 - unusual ways of writing things are what is tested

from __future__ import annotations

import types
from collections import ChainMap, Counter, OrderedDict, defaultdict

import pytest

from tests.capture.features.harness import check, tensor


def test_dict_methods():
    def function(x, table):
        table["new"] = x + 1
        table.update({"a": 5}, b=6)
        table |= {"c": 7}
        seen = (
            table.get("a"),
            table.get("z"),
            table.get("z", 9),
            table.setdefault("d", x),
            table.setdefault("a", 0),
        )
        return (
            seen,
            table.pop("b"),
            table.pop("zz", None),
            table.popitem(),
            table.copy(),
            len(table),
            "a" in table,
        )

    check(
        function, lambda: (tensor(), {"a": 1}), lambda: (tensor(), {"a": 1}), lambda: (tensor(), {}), frames=2
    )


def test_dict_order():
    def function(x, table):
        value = table.pop("a")
        table["a"] = value
        table["b"] = x + 1
        del table["c"]
        table["c"] = 3
        return list(table), list(table.values()), next(iter(table.items())), list(reversed(table))

    check(function, lambda: (tensor(), {"a": 1, "b": 2, "c": 3}))


def test_other_order_of_keys_is_noticed():
    def function(x, table):
        return x * list(table.values())[0]

    check(function, lambda: (tensor(), {"a": 1, "b": 3}), lambda: (tensor(), {"b": 3, "a": 1}), frames=2)


def test_dict_views():
    def function(x, table):
        keys, values, items = table.keys(), table.values(), table.items()
        before = len(keys)
        table["z"] = x + 1
        return (
            before, len(keys), list(values), sorted(keys & {"a", "z"}), sorted(keys - {"a"}),
            ("a", 1) in items,
            keys == {"a", "b", "z"}, sorted(keys | {"q"}), "z" in keys, keys.isdisjoint({"q"}),
        )  # fmt: skip

    check(function, lambda: (tensor(), {"a": 1, "b": 2}))


def test_dict_views_escape():
    def function(x, table):
        made = {"k": x + 1}
        return table.keys(), made.items(), made.values(), made

    check(function, lambda: (tensor(), {"a": 1}), after=lambda views: [list(view) for view in views])


def test_dict_of_tensors():
    def function(x, table):
        total = x
        for key, value in table.items():
            total = total + value * len(key)
            table[key] = total
        return total

    check(function, lambda: (tensor(), {"a": tensor(1, 1, 1), "bb": tensor(2, 2, 2)}), ops=4)


def test_dict_comparison_and_constructors():
    def function(x):
        return (
            dict(a=1) == {"a": 1}, dict([("a", 1), ("b", 2)]), dict({"a": 1}, b=2), dict.fromkeys("ab", 0),
            dict(zip("ab", [1, 2])), {} == {1: 2}, {"a": 1} | {"b": x + 1},
            {1: "int", 1.0: "float", True: "bool"},
        )  # fmt: skip

    check(function)


@pytest.mark.parametrize(
    "wrong",
    [
        lambda table: table["none"],
        lambda table: table.pop("none"),
        lambda table: {}.popitem(),
        lambda table: {[]: 1},
        lambda table: table.update([1]),
        lambda table: table.update(["abc"]),
        lambda table: dict(1),
        lambda table: table + table,
        lambda table: table.none,
        lambda table: [k for k in table if table.pop(k)],
        lambda table: [table.setdefault(k * 2) for k in table],
        lambda table: set([[]]),
        lambda table: {1}.remove(2),
        lambda table: set().pop(),
        lambda table: Counter(a=1).nothing,
        lambda table: OrderedDict().popitem(),
        lambda table: ChainMap()["none"],
        lambda table: defaultdict()["none"],
        lambda table: defaultdict(3),
        lambda table: types.MappingProxyType(table).__setitem__,
    ],
)
def test_wrong_use_raises_the_same(wrong):
    def function(x, table):
        y = x + 1
        try:
            wrong(table)
        except (LookupError, ValueError, TypeError, AttributeError, RuntimeError) as error:
            return y, type(error), error.args, str(error)

    check(function, lambda: (tensor(), {"a": 1}))


def test_missing_key_uncaught():
    def function(x, table):
        y = x + 1
        return y + table["none"]

    check(function, lambda: (tensor(), {"a": 1}), frames=0, raises=KeyError)


def test_keys_of_many_kinds():
    def function(x, table):
        table[1.5] = x
        table[None] = "none"
        table[(1, ("a", 2))] += 1
        table[frozenset({1})] = x + 1
        return table, table[b"k"]

    check(function, lambda: (tensor(), {1: "a", (1, ("a", 2)): 3, b"k": True}))


def test_functions_and_classes_as_keys():
    def function(x, table):
        return table[int] * x + table[len], table[check]

    check(function, lambda: (tensor(), {int: 2, len: 3, check: "c"}))


def test_tensors_as_keys():
    def function(x, y):
        table = {x: 1, y: 2}
        table[x] += 5
        return table[x] * x, len(table), y in table

    def same():
        x = tensor()
        return x, x

    check(function, lambda: (tensor(), tensor()), same, frames=2)


def test_ordered_dict():
    def function(x, table):
        table["b"] = x + 1
        table.move_to_end("a")
        table["c"] = 3
        table.move_to_end("c", last=False)
        first = table.popitem(last=False)
        made = OrderedDict(z=1)
        made["y"] = x
        return (
            first,
            list(table),
            list(reversed(table)),
            made,
            OrderedDict(a=1, b=2) == OrderedDict(b=2, a=1),
            OrderedDict(z=1) == {"z": 1},
        )

    check(function, lambda: (tensor(), OrderedDict(a=1, b=2)))


def test_default_dict():
    def function(x, table):
        table["a"].append(x + 1)
        table["b"].append(2)
        made = defaultdict(lambda: x * 2)
        made["k"]
        counts = defaultdict(int)
        for letter in "abca":
            counts[letter] += 1
        return (
            table,
            made,
            counts,
            counts.default_factory is int,
            "q" in counts,
            counts.get("q"),
            dict(counts),
        )

    check(function, lambda: (tensor(), defaultdict(list, b=[1])))


def test_default_dict_escapes_with_its_factory():
    def function(x):
        made = defaultdict(lambda: x + 1)
        made[1] = 2
        return made

    check(function, after=lambda made: (made[5], made), frames=0)


def test_counter():
    def function(x, counts):
        counts["a"] += 2
        counts.update("abz")
        made = Counter("hello")
        made.subtract({"l": 1})
        return (
            x + counts["a"], counts, made, made["none"], made.most_common(1), made + Counter(h=2),
            made - Counter(h=1),
            sorted(made.elements()), made.total(), made & Counter(l=5), made | Counter(l=5), -made,
        )  # fmt: skip

    check(function, lambda: (tensor(), Counter(a=1, b=2)))


def test_chain_map():
    def function(x, first, second):
        both = ChainMap(first, second)
        both["new"] = x + 1
        child = both.new_child({"b": 9})
        return (
            both["a"],
            both["b"],
            child["b"],
            list(both),
            len(child),
            both.maps[1] is second,
            "a" in child,
            both.get("q"),
        )

    check(function, lambda: (tensor(), {"a": 1}, {"a": 2, "b": 3}))


def test_mapping_proxy():
    def function(x, table):
        proxy = types.MappingProxyType(table)
        return x + proxy["a"], list(proxy), "b" in proxy, proxy.get("z", 1), len(proxy)

    check(function, lambda: (tensor(), {"a": 1}))


def test_set_methods():
    def function(x, items):
        items.add(5)
        items.discard(99)
        items.update([6, 7], (8,))
        items.remove(1)
        items |= {9}
        items -= {2}
        return (
            x + len(items),
            items,
            5 in items,
            items.copy(),
            items.issubset(range(20)),
            items.issuperset({5}),
        )

    check(function, lambda: (tensor(), {1, 2, 3}), lambda: (tensor(), {1, 2}), frames=2)


def test_set_algebra():
    def function(x, a, b):
        return (
            x + 1, a | b, a & b, a - b, a ^ b, a <= b, a < a | b, a.union([1], [2]), a.intersection(b),
            a.isdisjoint(b),
            a.difference([1]), a.symmetric_difference(b), a == {3, 2, 1}, a != b, a >= {1}, frozenset(a) == a,
        )  # fmt: skip

    check(function, lambda: (tensor(), {1, 2, 3}, frozenset({2, 3, 4})))


def test_set_in_place_algebra():
    def function(x, a, b):
        a.intersection_update(b)
        b.symmetric_difference_update({1, 9})
        b.difference_update({3})
        a ^= {7}
        a &= {7, 2}
        return x + len(a), a, b

    check(function, lambda: (tensor(), {1, 2, 3}, {2, 3}))


def test_frozenset():
    def function(x, items):
        table = {items: x + 1, frozenset("ab"): 2}
        return table[items], table[frozenset("ba")], items | {5}, type(items & {1}), len(items)

    check(function, lambda: (tensor(), frozenset({1, 2})))


def test_set_walked_in_order():
    def function(x, items):
        total = x
        for item in items:
            total = total * item
        return total, [*items], sorted(items), max(items), items

    check(function, lambda: (tensor(), {3, 1, 2}), ops=3)


def test_pop_of_a_set_breaks():
    def function(x, items):
        y = x + 1
        first = items.pop()
        return y * first, items

    check(function, lambda: (tensor(), {3, 1, 2}), frames=2, breaks=1)


def test_set_of_tensors():
    def function(x, y):
        seen = set()
        for item in (x, y, x):
            if item not in seen:
                seen.add(item)
        return x + len(seen)

    def same():
        x = tensor()
        return x, x

    check(function, lambda: (tensor(), tensor()), same, frames=2)


def test_changed_value_is_noticed():
    check(
        lambda x, table: x * table["k"]["n"],
        lambda: (tensor(), {"k": {"n": 3}}),
        lambda: (tensor(), {"k": {"n": 4.5}}),
        frames=2,
    )


def test_added_key_is_noticed():
    def function(x, table):
        return x + 1 if "flag" in table else x - 1

    check(function, lambda: (tensor(), {}), lambda: (tensor(), {"flag": None}), frames=2)


def test_dict_subclass_with_missing():
    def function(x, table):
        table["own"] = x + 1
        return table["none"], table["own"], table.get("none"), Doubling(k=x)["k"]

    check(function, lambda: (tensor(), Doubling(a=1)))


class Doubling(dict):
    """A dict that answers for keys it has not."""

    def __missing__(self, key):
        return key * 2
