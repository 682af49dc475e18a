"""Rewriting: who reads what, before and while rules put definitions in the place of others."""

from __future__ import annotations

from typing import Any

from weft.native.ir.definitions import Definition, Given, Point, Reshape
from weft.native.plan.rewrite import Definitions, Rule, ordered


def point(name: str, *operands: Definition) -> Point:
    return Point(
        shape=(4,), type="f32", name=name, operands=list(operands), make=lambda _b, values, _p: values[0]
    )


def names(values: Any) -> list[str]:
    return [value.name for value in values]


X = Given(shape=(4,), type="f32", name="x", input=0)


class Skip(Rule):
    """Puts what a definition reads in its place."""

    kinds = (Point,)

    def visit(self, value: Definition) -> None:
        if value.name == "skip":
            self.definitions.replace(value, value.operands[0])


def test_definitions_stand_behind_what_they_are_made_of() -> None:
    a = point("a", X)
    b, c = point("b", a), point("c", a, a)
    d = point("d", b, c)
    assert names(ordered([d, b])) == ["x", "a", "b", "c", "d"]


def test_readers_count_as_often_as_they_read() -> None:
    a = point("a", X)
    b = point("b", a, a)
    definitions = Definitions([b, 1.5, a], [a])
    assert names(definitions.readers_of(a)) == ["b", "b"]
    assert (definitions.uses(a), definitions.uses(b), definitions.uses(X)) == (4, 1, 1)
    assert definitions.is_wanted(a) and not definitions.is_wanted(X)


def test_readers_and_outputs_read_what_stands_in_the_place_of_others() -> None:
    first = point("skip", X)
    second = point("skip", first)
    last = Reshape(shape=(2, 2), type="f32", name="last", base=second)
    definitions = Definitions([last, second, 2])
    definitions.apply(Skip)
    assert last.base is X
    assert definitions.outputs == [last, X, 2]
    definitions.read()
    assert names(definitions.order) == ["x", "last"]


def test_uses_follow_what_is_replaced() -> None:
    """Whether they were asked for before or are asked for afterwards."""
    for early in (True, False):
        a = point("a", X)
        skipped = point("skip", a)
        b, c = point("b", skipped), point("c", skipped)
        definitions = Definitions([b, c, skipped])
        if early:
            assert definitions.uses(a) == 1
        definitions.replace(skipped, a)
        assert names(definitions.readers_of(a)) == ["b", "c"]
        assert definitions.uses(a) == 3 and definitions.is_wanted(a)


def test_a_rule_that_does_not_apply_is_shown_nothing_and_needs_no_other() -> None:
    seen: list[str] = []

    class Before(Rule):
        def visit(self, value: Definition) -> None:
            seen.append(f"before {value.name}")

    class Seldom(Rule):
        kinds = (Point,)
        first = (Before,)

        def applies(self) -> bool:
            return len(self.definitions.order) > 2

        def visit(self, value: Definition) -> None:
            seen.append(value.name)

        def finish(self) -> None:
            seen.append("finished")

    a = point("a", X)
    Definitions([a]).apply_all([Seldom])
    assert not seen
    Definitions([point("b", a)]).apply_all([Seldom])
    assert seen == ["before x", "before a", "before b", "a", "b", "finished"]
