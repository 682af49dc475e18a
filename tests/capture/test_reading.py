"""Reading in generated code: names that never collide, and each source read once."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.capture.watchful import (
    CONSTANTS,
    HIT,
    Holder,
    Liar,
    X,
    build,
    check,
    exactly,
    nobody_was_asked,
)
from weft.capture.guards import (
    Guard,
    guards_for_lookup,
    lookup,
)
from weft.capture.guards.rendering import guarded, render_guards
from weft.capture.reading import MISS, Reader
from weft.capture.sources import local


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    yield from nobody_was_asked()


def test_parameters_may_have_any_name() -> None:
    names = ["type", "len", "MISS", "Tensor", "_v0", "_v1", "_v2_type", "Exception", "all", "map"]
    guards = [Guard("TYPE", local(name), dict) for name in names]
    guards += [Guard("KEYS", local(name), ("a",)) for name in names]
    assert check(guards, **{name: {"a": 1} for name in names})
    assert not check(guards, **{name: {"a": 1} for name in names[:-1]}, map={})


def test_the_argument_of_a_comprehension() -> None:
    namespace: dict[str, Any] = {}
    reader = Reader([], namespace)
    name = reader.read(local(".0"))
    assert name.isidentifier() and name.startswith("_v")
    assert reader.read(local("x")) == "x"


def test_a_source_is_read_once() -> None:
    reader = Reader([], {})
    place = X.field("w").item("k")
    first = reader.read(place)
    count = len(reader.lines)
    assert reader.read(X.field("w").item("k")) == first and len(reader.lines) == count
    reader.read(X.field("v"))
    assert len(reader.lines) == count + 1, "the dict of the object is shared"


@pytest.mark.parametrize("value", CONSTANTS, ids=lambda value: type(value).__name__)
def test_constants_are_literals_or_names(value: Any) -> None:
    namespace: dict[str, Any] = {}
    reader = Reader([], namespace)
    text = reader.constant(value, "a hint")
    found = eval(text, namespace)
    assert type(found) is type(value)
    assert found is value or exactly(found) == exactly(value)
    assert reader.constant(value) == text
    if namespace and text in namespace:
        assert text.startswith("_v") and text.endswith("_a_hint")


def test_later_code_reuses_what_guards_read() -> None:
    namespace: dict[str, Any] = {}
    reader = Reader([], namespace, ["x"])
    render_guards([Guard("TYPE", X, Holder), Guard("EQ", X.field("w"), 3)], reader)
    count = len(reader.lines)
    reader.read(X.field("w"))
    assert len(reader.lines) == count


def test_classes_are_checked_before_what_is_read_by_them() -> None:
    class Plain: ...

    value = Plain()
    value.w = 3  # type: ignore[attr-defined]
    guards = [
        Guard("TYPE", X, Plain),
        Guard("EQ", X.field("w"), 3),
        *guards_for_lookup(Plain, "__getattribute__", lookup(Plain, "__getattribute__")),
    ]
    entry = build(guards, ["x"])
    assert entry(value) == HIT
    Plain.__getattribute__ = lambda self, name: Liar.asked.append(name)  # type: ignore[method-assign]
    assert entry(value) is MISS


def test_no_guards_no_lines() -> None:
    assert guarded(Reader([], {})) == []
    assert build([], [])() == HIT
