"""Conditions: what a trace has assumed about the floats and sizes among its inputs.

Takes the facts that symbolic numbers have noted while a graph was traced; gives a test of later inputs. One
idea: a graph that asked whether a float is positive serves every positive one, so the answer belongs to the
plan, and not the float. Likewise with a size that is at least 4.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from typing import Any

from weft.core.expressions import NAMES, OPERATIONS, Expression, Symbol, constant
from weft.core.interrupts import let_through
from weft.trace.scalars import Scalars

Facts = tuple[tuple[Expression, bool], ...]
Place = int | tuple[int, int]
"""Where a symbol's value is among inputs: the number of one that it is, or that of a tensor and an axis."""


class Conditions:
    """Expressions over inputs, each with the truth that it had."""

    __slots__ = ("facts", "places", "_test")

    def __init__(self, facts: Sequence[tuple[Expression, bool]], places: Mapping[Symbol, Place]) -> None:
        self.facts: Facts = tuple(facts)
        self.places = {one: places[one] for fact, _ in self.facts for one in fact.symbols}
        self._test: Callable[[Sequence[Any]], bool] | None = None

    @property
    def inputs(self) -> frozenset[int]:
        """The floats among the inputs that some condition reads."""
        return frozenset([p for one, p in self.places.items() if one.kind is float and type(p) is int])

    def of_floats(self) -> Conditions:
        """Those that read a float."""
        facts = [fact for fact in self.facts if any(one.kind is float for one in fact[0].symbols)]
        return Conditions(facts, self.places) if facts else NONE

    def hold(self, values: Sequence[Any]) -> bool:
        """Whether all conditions hold for these inputs, so that the trace is valid for them."""
        if not self.facts:
            return True
        if self._test is None:
            self._test = self._made()
        try:
            return self._test(values)
        except (ArithmeticError, ValueError) as error:  # as Python's own call would raise
            let_through(error)
            return False

    def _made(self) -> Callable[[Sequence[Any]], bool]:
        texts = [text if truth else f"not {text}" for text, truth in self.texts()]
        code = compile(f"lambda values: {' and '.join(texts)}", "<weft: conditions>", "eval")
        made: Callable[[Sequence[Any]], bool] = eval(code, dict(NAMES))
        return made

    def texts(self) -> list[tuple[str, bool]]:
        """The expressions as Python writes them, over the inputs as `values`, and their truths."""
        return [(fact.render(self._text), truth) for fact, truth in self.facts]

    def _text(self, one: Symbol) -> str:
        place = self.places[one]
        if isinstance(place, int):
            return f"values[{place}]"
        number, axis = place
        return f"values[{number}].array.shape[{axis}]"

    def cover(self, other: Conditions) -> bool:
        """Whether all that the other asks for is asked for here."""
        return {*self.texts()} >= {*other.texts()}


NONE = Conditions((), {})


def noted(scalars: Scalars, places: Mapping[Symbol, Place]) -> tuple[frozenset[int], Conditions]:
    """The floats among the inputs whose very values were relied upon, and the conditions on the others."""
    fixed = {one: value for one, value in scalars.static.items() if one.kind is float}
    found = all_noted(scalars, places, fixed)
    return frozenset([place for one in fixed if type(place := places[one]) is int]), found


def all_noted(scalars: Scalars, places: Mapping[Symbol, Place], known: Container[Symbol] = ()) -> Conditions:
    """All that was relied upon, values among it but those of symbols that are known, as conditions."""
    values = [(_is(one, value), True) for one, value in scalars.static.items() if one not in known]
    facts = [*values, *scalars.guards()]
    return Conditions(facts, places) if facts else NONE


def _is(one: Symbol, value: object) -> Expression:
    """That a number is this one; a float by its bits."""
    symbol = Expression("symbol", (one,), one.kind)
    if one.kind is not float:
        return Expression("eq", (symbol, constant(value)), bool)
    bits = Expression("bits", (symbol,), bytes)
    return Expression("eq", (bits, constant(OPERATIONS["bits"][0](value))), bool)
