"""Guards: each kind hits and misses where it must, in both renderings, and never runs user code."""

from __future__ import annotations

import gc
import math
import sys
import types
import weakref
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import weft
from tests.capture.watchful import (
    HIT,
    Holder,
    Liar,
    MyDict,
    MyInt,
    MyList,
    MyStr,
    Raiser,
    X,
    Y,
    Z,
    build,
    check,
    nobody_was_asked,
)
from weft.capture.guards import (
    ClassLookup,
    Condition,
    Guard,
    GuardSet,
    TensorFacts,
    explain_miss,
    guards_for_lookup,
    guards_for_member,
    holds,
    lookup,
    saveable,
)
from weft.capture.plain import NotPlain
from weft.capture.reading import MISS
from weft.capture.sources import Unholdable, builtin, constant, function, local, module
from weft.core import modes
from weft.core.dtypes import get_default_dtype
from weft.ops.record import REGISTRY
from weft.tensor import faces
from weft.tensor.base import Tensor
from weft.trace import expressions


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    yield from nobody_was_asked()


# -- types and identity --------------------------------------------------------------------------------------
def test_type_is_exact() -> None:
    assert check(Guard("TYPE", X, int), x=3)
    for value in (True, MyInt(3), 3.0, None, Liar()):
        assert not check(Guard("TYPE", X, int), x=value)


def test_a_class_that_is_gone_matches_nothing() -> None:
    kind = type("Local", (), {})
    guard = Guard("TYPE", X, kind)
    value, entry = kind(), build([guard], ["x"])
    assert entry(value) == HIT and holds(guard, None, {"x": value})
    value.__class__ = Holder
    assert entry(value) is MISS
    del value, kind
    gc.collect()
    assert guard.payload() is None
    assert entry(None) is MISS and not holds(guard, None, {"x": None})
    assert "<gone>" in str(guard)


def test_identity() -> None:
    one, other = Holder(), Holder()
    guard = Guard("IS", X, one)
    assert check(guard, x=one)
    assert not check(guard, x=other) and not check(guard, x=None) and not check(guard, x=Liar())
    entry = build([guard], ["x"])
    del one
    gc.collect()
    assert entry(None) is MISS and not holds(guard, None, {"x": None})


def test_identity_of_what_is_no_objects_own() -> None:
    sentinel = object()
    for value in (None, sentinel, len, math, int, weft.float32, np.add, ...):
        assert check(Guard("IS", X, value), x=value)
        assert not check(Guard("IS", X, value), x=object())
    with pytest.raises(Unholdable):
        Guard("IS", X, [1])


def test_identity_of_wrappers_is_that_of_their_functions() -> None:
    def getter(self: Any) -> int:
        return 1

    guard = Guard("IS", X, property(getter))
    assert check(guard, x=property(getter))
    assert not check(guard, x=property(lambda self: 1))
    assert not check(guard, x=property(getter, lambda self, value: None))
    assert not check(guard, x=staticmethod(getter)) and not check(guard, x=getter)


def test_same_and_distinct() -> None:
    one, two, three, four = [1], [1], [1], [1]
    assert check(Guard("SAME", X, Y), x=one, y=one) and not check(Guard("SAME", X, Y), x=one, y=two)
    assert check(Guard("DISTINCT", X, [Y, Z]), x=one, y=two, z=three)
    for clash in ({"x": two, "z": three}, {"x": three, "z": three}, {"x": one, "z": two}):
        assert not check(Guard("DISTINCT", X, [Y, Z]), y=two, **clash)
    many = Guard("DISTINCT", X, [X, Y, Z, local("w")])
    assert check(many, x=one, y=two, z=three, w=four) and not check(many, x=one, y=two, z=three, w=one)
    assert check(Guard("DISTINCT", X, [X]), x=one)


# -- containers ----------------------------------------------------------------------------------------------
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


# -- objects -------------------------------------------------------------------------------------------------
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


def test_slots() -> None:
    class Slotted:
        __slots__ = ("a", "b")

    value, place = Slotted(), X.slot(Slotted, "a")
    assert check(Guard("UNSET", place), x=value) and not check(Guard("EQ", place, 1), x=value)
    value.a = 1
    assert not check(Guard("UNSET", place), x=value) and check(Guard("EQ", place, 1), x=value)
    del value.a
    assert check(Guard("UNSET", place), x=value)
    assert not check(Guard("UNSET", place), x=Holder()) and not check(Guard("EQ", place, 1), x=Holder())


def test_cells() -> None:
    def outer(value: Any) -> Any:
        def inner() -> Any:
            return value

        return inner

    place = function().member("__closure__").item(0).cell()
    assert check(Guard("EQ", place, 3), outer(3)) and not check(Guard("EQ", place, 3), outer(4))
    empty = outer(3)
    del empty.__closure__[0].cell_contents
    assert not check(Guard("EQ", place, 3), empty) and check(Guard("UNSET", place), empty)
    assert not check(Guard("UNSET", place), outer(None))
    assert not check(Guard("UNSET", X.cell()), x=3)


# -- functions and classes -----------------------------------------------------------------------------------
def test_code_defaults_and_globals() -> None:
    def make(default: int) -> Any:
        def made(a: int = default, *, b: int = 2) -> int:
            return a

        return made

    guards = [
        Guard("CODE", X, make(1).__code__),
        Guard("CONTENTS", X.member("__defaults__"), (1,)),
        Guard("CONTENTS", X.member("__kwdefaults__"), {"b": 2}),
    ]
    assert check(guards, x=make(1))
    assert not check(guards, x=make(2)) and not check(guards, x=len) and not check(guards, x=Liar())
    changed = make(1)
    changed.__defaults__ = None
    assert not check(guards, x=changed)
    changed = make(1)
    changed.__kwdefaults__["b"] = 3
    assert not check(guards, x=changed)
    changed = make(1)
    changed.__code__ = (lambda a: a).__code__
    assert not check(guards, x=changed)


def test_shadowed_builtins(monkeypatch: pytest.MonkeyPatch) -> None:
    space = types.ModuleType("weft_test_space")
    monkeypatch.setitem(sys.modules, "weft_test_space", space)
    guards = [Guard("LACKS", module("weft_test_space"), "oct"), Guard("IS", builtin("oct"), oct)]
    entry = build(guards, [])
    assert entry() == HIT and check(guards)
    space.oct = lambda x: 3  # type: ignore[attr-defined]
    assert entry() is MISS and not check(guards)
    del space.oct  # type: ignore[attr-defined]
    assert entry() == HIT
    monkeypatch.setattr("builtins.oct", lambda x: 3)
    assert entry() is MISS


def family() -> tuple[type, type]:
    class Below:
        limit = 3

        def method(self) -> int:
            return 1

        @property
        def size(self) -> int:
            return 1

        @classmethod
        def make(cls) -> None: ...

        table: dict[str, int] = {}
        helper = Holder()

    class Above(Below): ...

    return Above, Below


def replaced_code(below: Any) -> None:
    below.method.__code__ = (lambda self: 2).__code__


CHANGES: list[tuple[str, Callable[[Any, Any], None]]] = [
    ("limit", lambda above, below: setattr(above, "limit", 3)),
    ("limit", lambda above, below: setattr(below, "limit", 4)),
    ("limit", lambda above, below: delattr(below, "limit")),
    ("limit", lambda above, below: setattr(above, "__bases__", (type("Other", (below,), {"limit": 9}),))),
    ("method", lambda above, below: setattr(above, "method", below.method)),
    ("method", lambda above, below: setattr(below, "method", lambda self: 2)),
    ("method", lambda above, below: replaced_code(below)),
    ("method", lambda above, below: setattr(below, "method", property(below.method))),
    ("size", lambda above, below: setattr(below, "size", property(lambda self: 2))),
    (
        "size",
        lambda above, below: setattr(below, "size", below.__dict__["size"].setter(lambda self, v: None)),
    ),
    ("size", lambda above, below: setattr(below, "size", 1)),
    ("make", lambda above, below: setattr(below, "make", classmethod(lambda cls: None))),
    ("make", lambda above, below: setattr(below, "make", staticmethod(below.__dict__["make"].__func__))),
    ("table", lambda above, below: setattr(below, "table", OrderedDict())),
    ("helper", lambda above, below: setattr(below, "helper", Holder())),
    ("missing", lambda above, below: setattr(above, "missing", None)),
    ("missing", lambda above, below: setattr(below, "missing", None)),
    ("__getattr__", lambda above, below: setattr(below, "__getattr__", lambda self, name: 1)),
]


@pytest.mark.parametrize("position", range(len(CHANGES)))
def test_changes_of_classes_are_noticed(position: int) -> None:
    name, change = CHANGES[position]
    above, below = family()
    guards = guards_for_lookup(above, name, lookup(above, name))
    entry = build(guards, [])
    assert entry() == HIT and check(guards)
    setattr(above, "unrelated", 1)  # noqa: B010
    assert entry() == HIT and check(guards)
    change(above, below)
    assert entry() is MISS and not check(guards), entry.source
    del above, below, change
    gc.collect()
    assert entry() is MISS


class Importable(Holder):
    """Classes that modules hold are read by a shorter way."""

    limit = 3

    def method(self) -> int:
        return 1


@pytest.mark.parametrize("names", [["limit"], ["a1", "a2"], ["a1", "a2", "a3", "a4"], ["method", "a1"]])
def test_changes_of_importable_classes(names: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    guards = GuardSet()
    finder = ClassLookup(guards)
    for name in names:
        finder.find(Importable, name)
    assert all(guard.source is not None and guard.source.root().detail.weak is None for guard in guards)
    entry = build(guards, [])
    assert entry() == HIT and check(guards)
    for name in names:
        with monkeypatch.context() as patch:
            patch.setattr(Importable, name, 4, raising=False)
            assert entry() is MISS and not check(guards)
        assert entry() == HIT
    Importable.__bases__ = (type("Other", (Holder,), {}),)
    try:
        assert entry() is MISS and not check(guards)
    finally:
        Importable.__bases__ = (Holder,)


def test_a_lookup_is_guarded_once() -> None:
    above, below = family()
    guards = GuardSet()
    finder = ClassLookup(guards)
    assert finder.find(above, "method") == (below, below.__dict__["method"])
    count = len(guards)
    assert finder.find(above, "method") == (below, below.__dict__["method"])
    guards.update(guards_for_lookup(above, "method", lookup(above, "method")))
    assert len(guards) == count == 3
    assert finder.find(above, "missing") is None


def test_classes_in_c_need_no_guards() -> None:
    assert guards_for_lookup(dict, "keys", lookup(dict, "keys")) == []
    assert guards_for_lookup(int, "missing", None) == []


# -- tensors -------------------------------------------------------------------------------------------------
def facts_of(tensor: Tensor, *dynamic: int) -> Guard:
    return Guard("TENSOR", X, TensorFacts.of(tensor, dynamic))


class Sub(Tensor): ...


def test_tensors() -> None:
    x = weft.ones(2, 3)
    guard = facts_of(x)
    assert check(guard, x=x) and check(guard, x=weft.zeros(2, 3))
    misses = [
        weft.ones(2, 4), weft.ones(3), weft.ones(2, 3, 1), weft.ones(2, 3, dtype=weft.float64),
        weft.ones(2, 3, requires_grad=True), weft.nn.Parameter(x), x.as_subclass(Sub),
        weft.ones(2, 3, device="meta"), x.array, None, 3, Liar(),
    ]  # fmt: skip
    for value in misses:
        assert not check(guard, x=value)
    assert check(facts_of(misses[4]), x=misses[4]) and check(facts_of(misses[5]), x=misses[5])
    assert check(facts_of(misses[7]), x=misses[7]) and not check(facts_of(misses[7]), x=x)
    assert check(facts_of(weft.tensor(1.0)), x=weft.tensor(2.0))


def test_tensors_over_other_arrays() -> None:
    class Odd(np.ndarray[Any, Any]): ...

    x = weft.ones(2)
    guard = facts_of(x)
    x.array = x.array.view(Odd)
    assert not check(guard, x=x)
    x.array = np.ones(2, np.dtype("f4").newbyteorder())
    assert not check(guard, x=x)


def test_sizes_that_may_vary() -> None:
    guard = facts_of(weft.ones(2, 3), 0)
    assert check(guard, x=weft.ones(7, 3))
    for value in (weft.ones(2, 4), weft.ones(2), weft.ones(2, 3, 3), weft.ones(7, 3, dtype=weft.int64)):
        assert not check(guard, x=value)
    assert check([guard, Guard("EQ", X.size(0), 7)], x=weft.ones(7, 3))
    assert not check([guard, Guard("EQ", X.size(0), 7)], x=weft.ones(8, 3))
    place = X.member("array").member("shape")
    assert check([Guard("LEN", place, 2), guard, Guard("EQ", place.item(0), 7)], x=weft.ones(7, 3))


def test_strides() -> None:
    x = weft.ones(2, 3)
    for guards in ([Guard("STRIDE", X, (3, 1))], [facts_of(x), Guard("STRIDE", X, (3, 1))]):
        assert check(guards, x=x) and not check(guards, x=weft.ones(3, 2).t())
    assert check([facts_of(x, 0), Guard("STRIDE", X, (3, 1))], x=weft.ones(5, 3))
    empty = weft.ones(0, 3)
    assert check([facts_of(empty), Guard("STRIDE", X, empty.stride())], x=empty)
    assert not check(Guard("STRIDE", X, (3, 1)), x=Liar())


def test_facts_of_tensors() -> None:
    leaf = weft.ones(2, requires_grad=True)
    made, view = leaf * 2, weft.ones(2, 2)[0]
    strided = weft.ones(2, 2).t()
    for name, yes, no in (
        ("is_leaf", leaf, made),
        ("is_view", view, leaf),
        ("is_contiguous", leaf, strided),
    ):
        for value, fact in ((yes, True), (no, False)):
            assert check(Guard("FACT", X, (name, fact)), x=value)
            assert not check(Guard("FACT", X, (name, not fact)), x=value)
            assert check([facts_of(value), Guard("FACT", X, (name, fact))], x=value)
            assert not check([facts_of(value), Guard("FACT", X, (name, not fact))], x=value)
    assert check(Guard("FACT", X, ("has_grad", False)), x=leaf)
    made.sum().backward()
    assert check(Guard("FACT", X, ("has_grad", True)), x=leaf)
    assert not check(Guard("FACT", X, ("is_leaf", True)), x=3)


# -- what is around ------------------------------------------------------------------------------------------
def test_modes() -> None:
    on, off = Guard("MODE", None, True), Guard("MODE", None, False)
    assert check(on) and not check(off)
    with weft.no_grad():
        assert check(off) and not check(on)
    with weft.inference_mode():
        inference = Guard("MODE", None, modes.current())
        assert check(inference) and not check(on) and not check(off)
        assert "inference=True" in str(inference)
    assert not check(inference)
    with weft.inference_mode():
        assert check(inference)


def test_modes_with_objects() -> None:
    with weft.autocast("cpu", dtype=weft.bfloat16):
        guard = Guard("MODE", None, modes.current())
        assert check(guard)
        with weft.no_grad():
            assert not check(guard)
    assert not check(guard)


def test_ambient_settings() -> None:
    guard = Guard("AMBIENT", None, (get_default_dtype, weft.float32))
    assert check(guard) and str(guard) == "get_default_dtype() == weft.float32"
    weft.set_default_dtype(weft.float64)
    try:
        assert not check(guard)
    finally:
        weft.set_default_dtype(weft.float32)


def test_conditions() -> None:
    s0, s1 = expressions.symbol("s0", int), expressions.symbol("s1", int)
    sources = ((s0.args[0], X), (s1.args[0], Y.item(0)))
    less = expressions.Expression("lt", (s0, s1), bool)
    for truth in (True, False):
        guard = Guard("CONDITION", None, Condition(less, truth, sources))
        assert check(guard, x=1, y=[2]) is truth and check(guard, x=2, y=[2]) is not truth
        assert not check(guard, x=1, y=[])
    assert str(guard) == "not (L['x'] < L['y'][0])"
    bound = expressions.Expression(
        "le", (expressions.Expression("abs", (s0,), int), expressions.constant(3)), bool
    )
    guard = Guard("CONDITION", None, Condition(bound, True, ((s0.args[0], local("abs")),)))
    assert check(guard, abs=-3) and not check(guard, abs=-4), "a parameter may be called like a builtin"


# -- sets, explanations, saving ------------------------------------------------------------------------------
def test_a_set_keeps_order_and_tells_exact_constants_apart() -> None:
    guards = GuardSet([Guard("EQ", X, 1), Guard("EQ", X, True), Guard("EQ", X, 1.0), Guard("EQ", X, 1)])
    assert [guard.payload for guard in guards] == [1, True, 1.0] and len(guards) == 3
    assert Guard("EQ", X, True, where=("f.py", 1, "f")) in guards
    guards = GuardSet([Guard("EQ", X, 0.0), Guard("EQ", X, -0.0), Guard("HAS", X, 1), Guard("HAS", X, True)])
    assert len(guards) == 4
    kind = type("Local", (), {})
    assert len(GuardSet([Guard("TYPE", X, kind), Guard("TYPE", X, kind)])) == 1


def test_a_miss_explains_itself() -> None:
    guards = GuardSet([Guard("TYPE", X, Tensor), facts_of(weft.ones(2)), Guard("EQ", local("n"), 3)])
    x = weft.ones(2)
    assert explain_miss(guards, None, {"x": x, "n": 3}) is None
    told = {
        "type(L['x']) is Tensor  # actual int": {"x": 3, "n": 3},
        "L['n'] == 3  # actual 4": {"x": x, "n": 4},
        "L['n'] == 3  # actual True": {"x": x, "n": True},
        "L['n'] == 3  # actual nothing there (KeyError)": {"x": x},
        "L['x'] is Tensor(float32[2])  # actual Tensor(float32[3], requires_grad)": {
            "x": weft.ones(3, requires_grad=True),
            "n": 3,
        },
    }
    for text, values in told.items():
        assert str(explain_miss(guards, None, values)) == text


@pytest.mark.parametrize(
    ("guard", "values", "text"),
    [
        (Guard("LEN", X, 2), {"x": [1]}, "len(L['x']) == 2  # actual 1"),
        (Guard("KEYS", X, ("a",)), {"x": {"b": 1}}, "list(L['x']) == ['a']  # actual ['b']"),
        (Guard("HAS", X, "a"), {"x": {}}, "'a' in L['x']  # actual otherwise"),
        (
            Guard("EQ", X, 3),
            {"x": Liar()},
            f"L['x'] == 3  # actual an object of class {Liar.__module__}.Liar",
        ),
        (Guard("STRIDE", X, (1,)), {"x": weft.ones(2, 3)}, "L['x'].stride() == (1,)  # actual (3, 1)"),
        (Guard("FACT", X, ("is_leaf", False)), {"x": weft.ones(2)}, "L['x'].is_leaf is False  # actual True"),
        (Guard("MODE", None, False), {}, "modes == (grad=False)  # actual (grad=True)"),
        (Guard("SAME", X, Y), {"x": [], "y": []}, "L['x'] is L['y']  # actual otherwise"),
        (Guard("UNSET", X.cell()), {"x": types.CellType(3)}, "L['x'].cell_contents is unset  # actual 3"),
    ],
    ids=lambda value: value.kind if isinstance(value, Guard) else None,
)
def test_the_text_of_misses(guard: Guard, values: dict[str, Any], text: str) -> None:
    miss = explain_miss([guard], None, values)
    assert miss is not None and miss.guard is guard and str(miss) == text


def test_what_can_be_saved() -> None:
    kind = type("Local", (), {})
    s0 = expressions.symbol("s0", int)
    yes = [
        Guard("TYPE", X, int), Guard("TYPE", X, weft.nn.Linear), Guard("EQ", X, (1, "a")),
        Guard("IS", X, len), Guard("IS", X, None), facts_of(weft.ones(2)), Guard("MODE", None, True),
        Guard("HAS", X, "a"), Guard("SAME", X, Y), Guard("LEN", builtin("len"), 1),
        Guard("CONDITION", None, Condition(s0, True, ((s0.args[0], X),))),
        Guard("CODE", X, build.__code__), Guard("AMBIENT", None, (get_default_dtype, weft.float32)),
    ]  # fmt: skip
    no = [
        Guard("TYPE", X, kind), Guard("IS", X, Holder()), Guard("EQ", constant("k", kind).entry("a"), 1),
        Guard("IS", X, object()), Guard("SAME", X, constant("k", kind)),
        Guard("DISTINCT", X, [constant("k", kind)]), Guard("MRO", X, [kind, object]),
        Guard("IS", X, property(lambda self: 1)), Guard("EQ", X.slot(kind, "a"), 1),
    ]  # fmt: skip
    assert [guard for guard in yes if not saveable(guard)] == []
    assert [guard for guard in no if saveable(guard)] == []


def test_entries_keep_nothing_alive() -> None:
    model, x = weft.nn.Linear(2, 3), weft.ones(2)
    kind = type("Local", (weft.nn.Linear,), {"extra": property(lambda self, model=model: model)})
    other = kind(2, 3)
    guards = GuardSet(
        [Guard("IS", local("model"), model), Guard("IS", X, x), Guard("TYPE", local("other"), kind)]
    )
    guards.update(
        [
            facts_of(x),
            Guard("TENSOR", local("model").field("_parameters").item("weight"), facts_of(x).payload),
        ]
    )
    ClassLookup(guards).find(kind, "extra")
    entry = build(guards, ["model", "x", "other"])
    watches = [weakref.ref(model), weakref.ref(x), weakref.ref(kind), weakref.ref(other)]
    entry(model, x, other)
    del model, x, kind, other
    gc.collect()
    assert [watch() for watch in watches] == [None] * 4
    assert len(guards) > 5 and entry is not None


def test_a_face_that_has_not_been_called_stays_the_same_member() -> None:
    fresh = faces.stub(REGISTRY["relu"], "relu", faces.function_source)
    holder = type("Holder", (), {"_function": staticmethod(fresh)})
    place = constant("Holder", holder).entry("_function")
    found = guards_for_member(place, holder.__dict__["_function"])
    with pytest.raises(TypeError):
        fresh("nothing that it takes")
    assert fresh.__code__.co_name != "stub"
    assert all(holds(guard, None, {}) for guard in found)
