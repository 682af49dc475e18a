"""Plain constants are compared exactly: types, bits and order, and no object is asked."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings

from tests.capture.watchful import (
    CONSTANTS,
    FOREIGN,
    HIT,
    MyDict,
    MyFloat,
    MyInt,
    MyList,
    MyStr,
    X,
    build,
    check,
    exactly,
    nobody_was_asked,
    trees,
)
from weft.capture.guards import (
    Guard,
    holds,
)
from weft.capture.plain import NotPlain, freeze, thaw


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    yield from nobody_was_asked()


@pytest.mark.parametrize("position", range(len(CONSTANTS)))
def test_a_constant_is_equal_to_itself_alone(position: int) -> None:
    seen = CONSTANTS[position]
    try:
        guard = Guard("CONTENTS", X, seen)
    except NotPlain:
        assert type(seen) in (MyInt, MyStr, MyFloat, MyDict, MyList)
        return
    entry = build([guard], ["x"])
    for other, value in enumerate([*CONSTANTS, *FOREIGN]):
        wanted = other == position
        assert holds(guard, None, {"x": value}) is wanted, value
        assert (entry(value) == HIT) is wanted, (value, entry.source)
    assert entry(thaw(freeze(seen))) == HIT


def test_a_picture_does_not_follow_the_value() -> None:
    value = {"a": [1]}
    guard = Guard("CONTENTS", X, value)
    value["a"].append(2)
    assert not check(guard, x=value)
    assert check(guard, x={"a": [1]})


def test_containers_within_themselves_are_not_plain() -> None:
    value: list[Any] = []
    value.append(value)
    with pytest.raises(NotPlain):
        Guard("EQ", X, value)


def test_the_order_of_a_set_is_part_of_it() -> None:
    one, other = {0, 8}, {8, 0}
    assert list(one) != list(other) and one == other
    assert check(Guard("CONTENTS", X, one), x={0, 8})
    assert not check(Guard("CONTENTS", X, one), x=other)


@settings(max_examples=150, deadline=None)
@given(trees, trees)
def test_contents_agree_with_an_exact_comparison(one: Any, other: Any) -> None:
    guard = Guard("CONTENTS", X, one)
    assert check(guard, x=one)
    assert check(guard, x=other) == (exactly(one) == exactly(other))
