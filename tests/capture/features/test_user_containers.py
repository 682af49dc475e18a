"""Containers of users' classes: mappings and sequences in Python, subclasses of builtin ones."""

# ruff: noqa: E741 - unusual writing is what is tested

from __future__ import annotations

from collections import OrderedDict, UserDict, UserList, defaultdict, deque
from collections.abc import Mapping, MutableMapping

from tests.capture.features.harness import check, tensor


class View(Mapping):
    def __init__(self, data):
        self.data = data

    def __getitem__(self, k):
        return self.data[k] * 2

    def __iter__(self):
        return iter(self.data)

    def __len__(self):
        return len(self.data)


def test_user_mapping_into_dicts():
    def function(x, view):
        table = {"z": x + 1}
        table.update(view)
        return (
            dict(view),
            {**view},
            table,
            OrderedDict(view),
            list(view.items()),
            view.get("q", 3),
            "a" in view,
            len(view),
            {"k": 1} | dict(view),
            dict(view, c=3),
        )

    check(function, lambda: (tensor(), View({"a": 1, "b": 2})))


def test_user_mapping_as_keywords():
    def inner(**names):
        return names

    check(lambda x, view: (x + 1, inner(**view)), lambda: (tensor(), View({"a": 1})))


class MyDict(MutableMapping):
    def __init__(self):
        self.data = {}

    def __getitem__(self, k):
        return self.data[k]

    def __setitem__(self, k, v):
        self.data[k] = v

    def __delitem__(self, k):
        del self.data[k]

    def __iter__(self):
        return iter(self.data)

    def __len__(self):
        return len(self.data)


def test_mutable_mapping_mixins():
    def function(x, d):
        d.update(a=x + 1, b=2)
        d.setdefault("c", 3)
        p = d.pop("b"), d.pop("zz", None)
        e = MyDict()
        e["k"] = 5
        return p, d, e, d == e, list(d.keys()), list(d.values()), e.popitem()

    check(function, lambda: (tensor(), MyDict()))


def test_user_dict_and_user_list():
    def function(x, d, l):
        d["k"] = x + 1
        l.append(2)
        made = UserList([1, 2])
        made.extend([3])
        return d, l, made, made + [4], d["k"], l[0], len(made), UserDict(a=1)

    check(function, lambda: (tensor(), UserDict(), UserList([1])))


class Ordered(OrderedDict):
    pass


class Bag(set):
    pass


class Queue(deque):
    pass


class Pair(tuple):
    pass


class Def(defaultdict):
    pass


class Text(str):
    pass


class Num(int):
    pass


def test_ordered_dict_subclass():
    def function(x, t):
        t["c"] = x + 1
        t.move_to_end("a")
        m = Ordered(z=1)
        m["y"] = 2
        m.move_to_end("z")
        return list(t), t, m, list(m)

    check(function, lambda: (tensor(), Ordered(a=1, b=2)))


def test_set_subclass():
    def function(x, b):
        b.add(5)
        m = Bag([1, 2])
        m.add(3)
        return x + len(b), m, 5 in b, type(b | {1})

    check(function, lambda: (tensor(), Bag({1, 2})))


def test_deque_subclass():
    def function(x, q):
        q.append(x + 1)
        m = Queue([1], 3)
        m.appendleft(0)
        return q, m, len(q), q[0], m.maxlen

    check(function, lambda: (tensor(), Queue([1, 2])))


def test_tuple_subclass():
    def function(x, p):
        m = Pair((x + 1, 2))
        return m, p, m[0], len(p), p + (1,), type(p)

    check(function, lambda: (tensor(), Pair((1, 2))))


def test_defaultdict_subclass():
    def function(x, d):
        d["q"].append(x + 1)
        m = Def(int)
        m["a"] += 1
        return d, m

    check(function, lambda: (tensor(), Def(list)))


def test_str_and_int_subclasses():
    def function(x, t, n):
        return (
            x + n,
            t + "!",
            t.upper(),
            n + 1,
            n == 3,
            t == "ab",
            {t: 1},
            {n: 2},
            [10, 20, 30, 40][n],
            f"{t} {n}",
            type(t),
            type(n + 1),
            len(t),
            str(t),
        )

    check(
        function,
        lambda: (tensor(), Text("ab"), Num(3)),
        lambda: (tensor(), Text("ab"), Num(3)),
        lambda: (tensor(), Text("ab"), Num(2)),
        frames=2,
    )
