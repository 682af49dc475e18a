"""Native entries: each kind of check, on objects that pass it and on objects that do not."""

from __future__ import annotations

import gc
import sys
import types
import weakref
from contextvars import ContextVar
from typing import Any

import numpy as np
import pytest

import weft
from tests.native.entry.test_checks import of_rows
from tests.native.targets import TRIPLES, assembled
from weft.native.entry import entry
from weft.tensor.base import Parameter, Tensor
from weft.tensor.tape import INFERENCE
from weft.tensor.views import View

MISS = object()


@pytest.fixture(scope="module")
def entrance() -> entry.Entrance:
    assert entry.supported()
    return entry.entrance(entry.Layout(Tensor, Parameter, View, INFERENCE))


@pytest.mark.parametrize("triple", TRIPLES)
def test_the_entry_assembles_for_every_processor(triple: str) -> None:
    slots = {name: 8 * place for place, name in enumerate((*entry.SLOTS, "base", entry.WEAK), 2)}
    assembled(entry.entry_text(slots), triple)


def made(entrance: entry.Entrance, *checks: Any, registers: int = 8, returned: Any = ()) -> Any:
    """A function of one argument, which is in register 0."""
    return entrance.make(of_rows([("argument", 0, 0), *checks], registers), list(returned), MISS, None)


def function(x: Any = 1) -> Any:
    return x


class Slotted:
    __slots__ = ("value",)
    value: Any


def slotted(value: Any) -> Slotted:
    found = Slotted()
    found.value = value
    return found


class WithDict:
    def __init__(self, **values: Any) -> None:
        self.__dict__.update(values)


X = weft.arange(6.0).reshape(2, 3)
PLAIN = [Tensor, False, np.dtype(np.float32), 2, 2, 3]
CODE = entry.member_offset(types.FunctionType, "__code__")
VALUE = entry.slot_offset(Slotted, "value")
KEY = "a key"
BOTH = [("is_object", 0, 3, "b"), ("is_object", 0, 4, None)]
LATE = weft.zeros(4, 3)
LATE_VIEW = LATE[1:3]
LATE.requires_grad_()

CHECKS: dict[str, tuple[list[Any], list[Any], list[Any]]] = {
    "type_is": ([("type_is", 0, 0, float)], [1.5, 0.0], [1, "a", None, np.float64(1.0)]),
    "is_object": ([("is_object", 0, 0, None)], [None], [0, False]),
    "equal numbers": ([("type_is", 0, 0, int), ("equal", 0, 0, 10**12)], [10**12], [10**12 + 1, 0, 1.5]),
    "equal texts": (
        [("type_is", 0, 0, str), ("equal", 0, 0, "abc")],
        ["abc", "".join("abc")],
        ["abd", b"abc"],
    ),
    "bits": ([("type_is", 0, 0, float), ("bits", 0, 0, -(2**63))], [-0.0], [0.0, 1.0, -1.0]),
    "length of a list": (
        [("type_is", 0, 0, list), ("length", 0, 0, 2)],
        [[1, 2]],
        [[], [1], [1, 2, 3], (1, 2)],
    ),
    "list item": (
        [("type_is", 0, 0, list), ("list_item", 1, 0, 1), ("is_object", 0, 1, None)],
        [[1, None], [1, None, 2]],
        [[], [1], [1, 2]],
    ),
    "tuple item": (
        [("type_is", 0, 0, tuple), ("tuple_item", 1, 0, 1), ("is_object", 0, 1, None)],
        [(1, None)],
        [(), (1,), (None, 1)],
    ),
    "dict item": (
        [("type_is", 0, 0, dict), ("dict_item", 1, 0, KEY), ("is_object", 0, 1, None)],
        [{KEY: None}, {"".join(KEY): None, 1: 2}],
        [{}, {KEY: 1}, {"other": None}],
    ),
    "dict lacks": ([("type_is", 0, 0, dict), ("dict_lacks", 0, 0, KEY)], [{}, {1: 2}], [{KEY: None}]),
    "dict length": ([("type_is", 0, 0, dict), ("dict_length", 0, 0, 1)], [{1: 1}], [{}, {1: 1, 2: 2}]),
    "dict keys": (
        [("type_is", 0, 0, dict), ("dict_keys", 0, 0, 2, ["a", "b"])],
        [{"a": 1, "b": 2}],
        [{"b": 1, "a": 2}, {"a": 1}, {"a": 1, "b": 2, "c": 3}, {}],
    ),
    "dict walk": (
        [("type_is", 0, 0, dict), ("dict_walk", 1, 0, 2), *BOTH],
        [{"a": 1, "b": None}],
        [{"b": None, "a": 1}, {"a": 1, "b": 2}, {"a": 1}],
    ),
    "slot": (
        [("type_is", 0, 0, Slotted), ("slot", 1, 0, VALUE), ("is_object", 0, 1, None)],
        [slotted(None)],
        [slotted(1), Slotted(), 3],
    ),
    "slot_is": (
        [("type_is", 0, 0, Slotted), ("slot_is", 0, 0, VALUE, None)],
        [slotted(None)],
        [slotted(1), Slotted()],
    ),
    "slot_isnt": (
        [("type_is", 0, 0, Slotted), ("slot_isnt", 0, 0, VALUE, None)],
        [slotted(1)],
        [slotted(None), Slotted()],
    ),
    "instance_dict": (
        [("type_is", 0, 0, WithDict), ("instance_dict", 1, 0, dict), ("dict_item", 2, 1, KEY)],
        [WithDict(**{KEY: 1})],
        [WithDict(), 3],
    ),
    "code": (
        [("type_is", 0, 0, types.FunctionType), ("slot_is", 0, 0, CODE, function.__code__)],
        [function],
        [made, len],
    ),
    "tensor": (
        [("tensor", 1, 0, PLAIN)],
        [X, weft.zeros(2, 3)],
        [
            X.double(), X[0], X.t(), weft.zeros(2, 4), X.clone().requires_grad_(), 3, X.numpy(),
            weft.nn.Parameter(X.clone()), weft.zeros(0, 3), X.to("meta"), LATE_VIEW,
        ],
    ),
    "free sizes": (
        [("tensor", 1, 0, [Tensor, False, np.dtype(np.float32), 2, -1, 3])],
        [X, weft.zeros(7, 3), weft.zeros(0, 3)],
        [weft.zeros(7, 4), X[0]],
    ),
    "strides": (
        [("tensor", 1, 0, [*PLAIN[:4], -1, -1]), ("strides", 0, 1, 2, [12, 4])],
        [X],
        [weft.zeros(3, 2).t(), weft.zeros(2, 4)],
    ),
    "flags": (
        [("tensor", 1, 0, PLAIN), ("flags", 0, 1, 0x400, 0x400)],
        [X],
        [],
    ),
    "type": ([("type_of", 1, 0), ("is_object", 0, 1, int)], [3], [True, 3.0]),
    "call_is": ([("call_is", 0, lambda: True, True)], [1], []),
    "call_missing": ([("call_missing", 0, lambda x: None if x else MISS)], [1, "a"], [0, ""]),
    "call that fails": ([("call_missing", 0, lambda x: None if x > 0 else 1 / x)], [1], [0, "a"]),
}  # fmt: skip


@pytest.mark.parametrize("name", CHECKS)
def test_checks(entrance: entry.Entrance, name: str) -> None:
    checks, passing, missing = CHECKS[name]
    check = made(entrance, *checks, returned=[0])
    if name == "flags":
        missing = [weft.zeros(2, 3)]
        missing[0].array.flags.writeable = False
    for value in passing:
        found = check(value)
        assert type(found) is tuple and found[0] is value
    for value in missing:
        assert check(value) is MISS, value
    assert check() is MISS
    assert sys.exception() is None if hasattr(sys, "exception") else True


def test_modes(entrance: entry.Entrance) -> None:
    variable: ContextVar[Any] = ContextVar("variable", default=True)
    check = made(entrance, ("mode", 0, variable, True))
    assert check(1) == ()
    token = variable.set(False)
    assert check(1) is MISS
    variable.reset(token)
    assert check(1) == ()


def test_versions_of_classes(entrance: entry.Entrance) -> None:
    class Base:
        pass

    class Derived(Base):
        value = 1

    check = made(entrance, ("version", 0, Derived, entry.class_version(Derived)))
    assert check(1) == ()
    Derived.value = 2
    assert check(1) is MISS
    check = made(entrance, ("version", 0, Derived, entry.class_version(Derived)))
    assert check(1) == ()
    Base.other = 1  # type: ignore[attr-defined]
    assert check(1) is MISS


def test_distinct(entrance: entry.Entrance) -> None:
    parts = [("tuple_item", 1, 0, 0), ("tuple_item", 2, 0, 1), ("tuple_item", 3, 0, 2)]
    check = made(entrance, ("type_is", 0, 0, tuple), *parts, ("distinct", 0, 3, [1, 2, 3], [0, 0, 0]))
    a, b, c = object(), object(), object()
    for _ in range(3):
        assert check((a, b, c)) == ()
        assert check((a, b, a)) is MISS
        assert check((a, b, a)) is MISS
        assert check((b, b, c)) is MISS
        assert check((b, a, c)) == ()


def test_what_dies_ends_the_entry(entrance: entry.Entrance) -> None:
    class Gone:
        pass

    check = made(entrance, ("type_is", 0, 0, weakref.ref(Gone)))
    assert check(Gone()) == ()
    del Gone
    gc.collect()
    assert check(1) is MISS

    held = WithDict()
    check = made(entrance, ("is_object", 0, 0, held))
    ref = weakref.ref(held)
    del held
    assert ref() is not None and check(ref()) == ()
    del check
    gc.collect()
    assert ref() is None


def test_references_are_balanced(entrance: entry.Entrance) -> None:
    value, other = WithDict(a=1), object()
    check = made(entrance, ("type_is", 0, 0, WithDict), ("instance_dict", 1, 0, dict), returned=[0, 1])
    before = [sys.getrefcount(each) for each in (value, value.__dict__, other, MISS)]
    for _ in range(1000):
        assert check(value)[0] is value
        assert check(other) is MISS
    assert [sys.getrefcount(each) for each in (value, value.__dict__, other, MISS)] == before


def test_too_many_registers(entrance: entry.Entrance) -> None:
    with pytest.raises(ValueError, match="stack"):
        made(entrance, registers=entry.MOST_REGISTERS + 1)
