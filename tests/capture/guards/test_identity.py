"""Guards on what an object is, in both renderings: none keeps it alive or asks it anything."""

from __future__ import annotations

import gc
import math
from typing import Any

import numpy as np
import pytest

import weft
from tests.capture.watchful import (
    HIT,
    Holder,
    Liar,
    MyInt,
    X,
    Y,
    Z,
    build,
    check,
)
from weft.capture.guards import (
    Guard,
    holds,
)
from weft.capture.reading import MISS
from weft.capture.sources import Unholdable, function, local


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
