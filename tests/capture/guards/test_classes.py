"""Guards on classes: whatever could change what a lookup finds is noticed."""

from __future__ import annotations

import gc
import sys
import types
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import pytest

from tests.capture.watchful import (
    HIT,
    Holder,
    build,
    check,
)
from weft.capture.guards import (
    ClassSources,
    Guard,
    GuardSet,
    class_source,
    guards_for_lookup,
    guards_for_member,
    holds,
    lookup,
)
from weft.capture.reading import MISS
from weft.capture.sources import builtin, constant, module
from weft.ops.record import REGISTRY
from weft.tensor import faces


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
    for name in names:
        guards.update(guards_for_lookup(Importable, name, lookup(Importable, name)))
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
    found = lookup(above, "method")
    assert found == (below, below.__dict__["method"])
    for _ in range(2):
        guards.update(guards_for_lookup(above, "method", found))
        assert len(guards) == 3
    assert lookup(above, "missing") is None


def test_classes_that_are_looked_at_together_have_one_source_each() -> None:
    above, below = family()
    classes, together, alone = ClassSources(), GuardSet(), GuardSet()
    for cls, name in ((above, "method"), (above, "missing"), (below, "method"), (above, "extra")):
        found = lookup(cls, name)
        together.update(classes.guards_for_lookup(cls, name, found))
        alone.update(guards_for_lookup(cls, name, found))
    assert list(together) == list(alone)
    assert classes.of(above) is classes.of(above) and classes.of(above) == class_source(above)


def test_a_class_in_the_place_of_one_that_is_gone_has_a_source_and_an_order_of_its_own() -> None:
    above, below = family()
    classes = ClassSources()
    guards = classes.guards_for_lookup(above, "missing", None)
    assert [guard.kind for guard in guards][0] == "MRO"
    classes.known[id(below)], classes.ordered = classes.known[id(above)], {id(below)}
    assert classes.of(below) == class_source(below)
    assert [guard.kind for guard in classes.guards_for_lookup(below, "missing", None)][0] == "MRO"


def test_classes_in_c_need_no_guards() -> None:
    assert guards_for_lookup(dict, "keys", lookup(dict, "keys")) == []
    assert guards_for_lookup(int, "missing", None) == []


def test_a_face_that_has_not_been_called_stays_the_same_member() -> None:
    fresh = faces.stub(REGISTRY["relu"], "relu", faces.function_source)
    holder = type("Holder", (), {"_function": staticmethod(fresh)})
    place = constant("Holder", holder).entry("_function")
    found = guards_for_member(place, holder.__dict__["_function"])
    with pytest.raises(TypeError):
        fresh("nothing that it takes")
    assert fresh.__code__.co_name != "stub"
    assert all(holds(guard, None, {}) for guard in found)
