"""Guards on containers and what they hold: only the builtin part is asked."""

from __future__ import annotations

import types
from collections import OrderedDict, defaultdict, deque
from typing import Any

import pytest

from tests.capture.watchful import (
    Holder,
    Liar,
    MyDict,
    MyList,
    MyStr,
    Raiser,
    X,
    check,
)
from weft.capture.guards import (
    Guard,
)
from weft.capture.plain import NotPlain
from weft.capture.sources import function


def typed(kind: type, guard: Guard) -> list[Guard]:
    return [Guard("TYPE", X, kind), guard]


@pytest.mark.parametrize(
    "value", [[1, 2], (1, 2), {"a": 1, "b": 2}, {1, 2}, deque([1, 2]), "ab", b"ab", range(2)]
)
def test_length(value: Any) -> None:
    assert check(Guard("LEN", X, 2), x=value) and not check(Guard("LEN", X, 3), x=value)
    assert check(typed(type(value), Guard("LEN", X, 2)), x=value)
    assert not check(typed(type(value), Guard("LEN", X, 3)), x=value)


def test_length_is_that_of_the_builtin_part() -> None:
    assert check(Guard("LEN", X, 3), x=MyList([1, 2, 3]))
    assert check(typed(MyList, Guard("LEN", X, 3)), x=MyList([1, 2, 3]))
    assert not check(Guard("LEN", X, 3), x=Liar())
    assert not check(Guard("LEN", X, 3), x=5)


KEYED: list[Any] = [
    {"a": 1, "b": 2}, {"b": 1, "a": 2}, {"a": 1}, {}, {"a": 1, "b": 2, "c": 3}, OrderedDict(a=1, b=2),
    defaultdict(int, a=1, b=2), {1: 0}, {True: 0}, {1.0: 0}, {0.0: 0}, {-0.0: 0}, {(1, "a"): 2},
    {(True, "a"): 2}, {None: 1}, {"a": 1, MyStr("b"): 2},
]  # fmt: skip


@pytest.mark.parametrize("position", range(len(KEYED)))
def test_keys_are_exact_and_ordered(position: int) -> None:
    seen = KEYED[position]
    try:
        guard = Guard("KEYS", X, tuple(seen))
    except NotPlain:
        assert any(type(key) is MyStr for key in seen)
        return
    for value in [*KEYED, MyDict(a=1, b=2)]:
        wanted = [(type(k), repr(k)) for k in dict.keys(value)] == [(type(k), repr(k)) for k in seen]
        assert check(guard, x=value) == wanted
        assert check(typed(type(value), guard), x=value) == wanted


def test_keys_that_are_equal_but_not_the_same_object() -> None:
    text = "".join(["some", " ", "key"])
    assert check(typed(dict, Guard("KEYS", X, ("some key",))), x={text: 1})


def test_keys_of_strange_objects_are_not_asked() -> None:
    for kinds in ([Guard("KEYS", X, ("a",))], typed(dict, Guard("KEYS", X, ("a",)))):
        assert not check(kinds, x={Raiser(): 1})
        assert not check(kinds, x=Liar())


def test_keys_of_sets_and_moved_keys() -> None:
    assert check(typed(set, Guard("KEYS", X, (0, 8))), x={0, 8})
    assert not check(typed(set, Guard("KEYS", X, (0, 8))), x={8, 0})
    moved = OrderedDict(a=1, b=2)
    moved.move_to_end("a")
    assert check(typed(OrderedDict, Guard("KEYS", X, ("b", "a"))), x=moved)
    assert not check(typed(OrderedDict, Guard("KEYS", X, ("a", "b"))), x=moved)


@pytest.mark.parametrize("key", ["a", 1, (1, "a"), None])
def test_presence_and_absence(key: Any) -> None:
    for kind in (dict, OrderedDict, MyDict):
        for value, there in ((kind({key: 1}), True), (kind(), False)):
            assert check(Guard("HAS", X, key), x=value) is there
            assert check(Guard("LACKS", X, key), x=value) is not there
            assert check(typed(kind, Guard("HAS", X, key)), x=value) is there
            assert check(typed(kind, Guard("LACKS", X, key)), x=value) is not there
    assert not check(Guard("LACKS", X, key), x=[]) and not check(Guard("HAS", X, key), x=Liar())


def test_items() -> None:
    inner = X.item("a").item(1)
    guards = [Guard("TYPE", X, dict), Guard("TYPE", X.item("a"), list), Guard("EQ", inner, 5)]
    assert check(guards, x={"a": [4, 5]})
    for value in ({"a": [4, 6]}, {"a": [4]}, {"a": (4, 5)}, {"b": 1}, {}, [], MyDict(a=[4, 5])):
        assert not check(guards, x=value)
    assert check(Guard("EQ", inner, 5), x={"a": [4, 5]}), "types need not be guarded to be read safely"


def test_a_default_factory_is_not_called() -> None:
    value: defaultdict[str, Any] = defaultdict(Liar)
    guards = [Guard("TYPE", X, defaultdict), Guard("EQ", X.item("a"), 5)]
    assert not check(guards, x=value) and not value
    value["a"] = 5
    assert check(guards, x=value)


def test_positions_in_dicts() -> None:
    guards = [Guard("TYPE", X, dict), Guard("EQ", X.key(1), "b"), Guard("EQ", X.value(1), 2)]
    assert check(guards, x={"a": 1, "b": 2}) and not check(guards, x={"b": 2, "a": 1})
    assert not check(guards, x={"a": 1})


def test_fields_appear_and_disappear() -> None:
    holder = Holder()
    absent = [Guard("TYPE", X, Holder), Guard("LACKS", X.member("__dict__"), "w")]
    present = [Guard("TYPE", X, Holder), Guard("EQ", X.field("w"), 2.0)]
    assert check(absent, x=holder) and not check(present, x=holder)
    holder.w = 2.0  # type: ignore[attr-defined]
    assert not check(absent, x=holder) and check(present, x=holder)
    del holder.w  # type: ignore[attr-defined]
    assert check(absent, x=holder) and not check(present, x=holder)
    assert not check(present, x=3)


def test_fields_of_objects_that_intercept_reading() -> None:
    class Intercepting(Holder):
        def __getattribute__(self, name: str) -> Any:
            Liar.asked.append(name)
            return object.__getattribute__(self, name)

    value = Intercepting()
    value.w = 3  # type: ignore[attr-defined]
    assert check([Guard("TYPE", X, Intercepting), Guard("EQ", X.field("w"), 3)], x=value)
    assert check(Guard("EQ", X.field("w"), 3), x=value)


def test_dicts_of_a_class_of_their_own_are_not_asked() -> None:
    class Asking(dict[str, Any]):
        def __getitem__(self, key: str) -> Any:
            Liar.asked.append(key)
            return 3

    value, plain = Holder(), Holder()
    value.__dict__ = Asking(w=3)
    plain.w = 3  # type: ignore[attr-defined]
    for guards in (
        [Guard("TYPE", X, Holder), Guard("EQ", X.field("w"), 3)],
        [Guard("EQ", X.field("w"), 3)],
        [Guard("TYPE", X, Holder), Guard("HAS", X.member("__dict__"), "w")],
    ):
        assert check(guards, x=plain) and not check(guards, x=value)
    made = types.FunctionType((lambda: w).__code__, Asking(w=3))  # type: ignore[name-defined]  # noqa: F821
    place = function().member("__globals__").item("w")
    for guards in (
        [Guard("EQ", place, 3)],
        [Guard("TYPE", function(), types.FunctionType), Guard("EQ", place, 3)],
    ):
        assert check(guards, types.FunctionType(made.__code__, {"w": 3})) and not check(guards, made)
