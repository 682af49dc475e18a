"""Conditions: what a trace has assumed about the floats among its inputs.

Takes the facts that symbolic numbers have noted while a graph was traced; gives a test of later inputs. One
idea: a graph that asked whether a float is positive serves every positive one, so the answer belongs to the
plan, and not the float.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from weft.core.expressions import NAMES, OPERATIONS, Expression, Symbol, constant
from weft.core.interrupts import let_through
from weft.trace.scalars import Scalars

Facts = tuple[tuple[Expression, bool], ...]


class Conditions:
    """Expressions over inputs, each with the truth that it had."""

    __slots__ = ("facts", "places", "_test")

    def __init__(self, facts: Sequence[tuple[Expression, bool]], places: Mapping[Symbol, int]) -> None:
        self.facts: Facts = tuple(facts)
        self.places = {one: places[one] for fact, _ in self.facts for one in fact.symbols}
        """The inputs that symbols stand for, by number."""
        self._test: Callable[[Sequence[Any]], bool] | None = None

    @property
    def inputs(self) -> frozenset[int]:
        """The inputs that some condition reads."""
        return frozenset(self.places.values())

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
        return [(fact.render(lambda one: f"values[{self.places[one]}]"), truth) for fact, truth in self.facts]

    def cover(self, other: Conditions) -> bool:
        """Whether all that the other asks for is asked for here."""
        return {*self.texts()} >= {*other.texts()}


NONE = Conditions((), {})


def noted(scalars: Scalars, places: Mapping[Symbol, int]) -> tuple[frozenset[int], Conditions]:
    """The inputs whose very values were relied upon, and the conditions on the others."""
    facts = scalars.guards()
    return frozenset([places[one] for one in scalars.static]), Conditions(facts, places) if facts else NONE


def all_noted(scalars: Scalars, places: Mapping[Symbol, int]) -> Conditions:
    """All that was relied upon, values among it, as conditions."""
    return Conditions(
        [*[(_is(one, value), True) for one, value in scalars.static.items()], *scalars.guards()], places
    )


def _is(one: Symbol, value: object) -> Expression:
    """That a float has these bits."""
    bits = Expression("bits", (Expression("symbol", (one,), one.kind),), bytes)
    return Expression("eq", (bits, constant(OPERATIONS["bits"][0](value))), bool)
