"""Guards on numbers: the kind CONDITION.

Takes an expression over sizes and scalars, the sources that its symbols stand for, and the truth that it had.
One idea: the expression is text, Python and machine code by itself (`weft.core.expressions`).
"""

from __future__ import annotations

import re
import struct
from typing import TYPE_CHECKING, Any

from weft.capture.checking import Checks, Unreadable
from weft.capture.digests import Unkept
from weft.capture.guards.base import Fetch, Form, Guard, holds, safe_text
from weft.capture.guards.values import check_picture
from weft.capture.reading import Reader
from weft.capture.sources import Source
from weft.core.checks import is_arithmetic
from weft.core.expressions import NAMES, Expression, Symbol, from_data, to_data
from weft.core.interrupts import let_through
from weft.core.records import record

if TYPE_CHECKING:
    from weft.capture.entry_cache.read import EntryReader
    from weft.capture.entry_cache.write import EntryWriter


@record(frozen=True, slots=True)
class Condition:
    """An expression whose symbols stand for these sources, and the truth that it had."""

    expression: Expression
    truth: bool
    sources: tuple[tuple[Symbol, Source], ...]

    def __str__(self) -> str:
        names = {symbol: str(source) for symbol, source in self.sources}
        text = self.expression.render(lambda symbol: names[symbol])
        return text if self.truth else f"not {text}"


def write_condition(writer: EntryWriter, condition: Condition) -> Any:
    named = [[symbol.name, writer.source(source)] for symbol, source in condition.sources]
    try:
        return [to_data(condition.expression), condition.truth, named]
    except TypeError as error:
        let_through(error)
        raise Unkept(f"a condition with {error}") from None


def read_condition(reader: EntryReader, _source: Source | None, data: Any) -> Condition:
    expression, truth, named = data
    made = from_data(expression)
    symbols = {symbol.name: symbol for symbol in made.symbols}
    return Condition(made, truth, tuple([(symbols[name], reader.sources[place]) for name, place in named]))


class Conditional(Guard, kind="CONDITION"):
    """An expression over sizes and scalars has this truth."""

    form = Form(write_condition, read_condition)

    def found(self, fetch: Fetch) -> Any:
        return {symbol: fetch(source) for symbol, source in self.payload.sources}

    def fits(self, found: Any) -> bool:
        return bool(self.payload.expression.evaluate(found)) is self.payload.truth

    def describe(self) -> str:
        return str(self.payload)

    def actual(self, found: Any) -> str:
        return ", ".join(f"{source} = {safe_text(found[symbol])}" for symbol, source in self.payload.sources)

    def sources(self) -> list[Source]:
        return [*super().sources(), *(source for _symbol, source in self.payload.sources)]

    def exact_sources(self) -> list[Source]:
        fact = self.payload.expression
        if self.payload.truth and fact.op == "eq" and fact.args[1].op == "constant":
            return [source for _symbol, source in self.payload.sources]
        return []

    def apart(self, found: Any) -> dict[str, tuple[str, str]]:
        """What is equal to a constant: the value of something that was asked for."""
        condition: Condition = self.payload
        fact, names = condition.expression, dict(condition.sources)
        if not condition.truth or fact.op != "eq" or fact.args[1].op != "constant":
            return {}
        asked, wanted = fact.args[0], fact.args[1].args[0]
        if asked.op == "bits":
            asked, (wanted,) = asked.args[0], struct.unpack("<d", wanted)
        name = asked.render(lambda one: str(names[one]))
        return {name: (repr(wanted), repr(asked.evaluate(found)))}

    def render(self, reader: Reader) -> None:
        condition: Condition = self.payload
        names = {symbol: reader.read(source) for symbol, source in condition.sources}
        negation = "not " if condition.truth else ""
        letters = {symbol: f"_v_{i}" for i, (symbol, _source) in enumerate(condition.sources)}
        body = condition.expression.render(lambda symbol: letters[symbol])
        words = set(re.findall(r"(?<![\w.'\"])[A-Za-z_]\w*", body)) - set(letters.values())
        if words <= {"and", "or", "not", "is", "None", "True", "False"}:
            reader.miss_if(f"{negation}{condition.expression.render(lambda symbol: names[symbol])}")
            return
        # A parameter may be called `abs` or `math`: what needs such names is a function of its own.
        text = f"lambda {', '.join(letters.values())}: {body}"
        function = eval(compile(text, "<weft: condition>", "eval"), dict(NAMES))
        reader.miss_if(f"{negation}{reader.bind(function, 'condition')}({', '.join(names.values())})")

    def check(self, checks: Checks) -> None:
        """Computed natively, or, where whole numbers are checked to be those of this call, seen to hold."""
        condition: Condition = self.payload
        lengths = any(source.kind == "length" for _symbol, source in condition.sources)
        floats = all(symbol.kind is float for symbol, _source in condition.sources)
        if not checks.sized or lengths or floats:  # which are others in the next call
            numbers = {
                symbol: checks.float_number(source) if symbol.kind is float else checks.number(source)
                for symbol, source in condition.sources
            }
            expression = condition.expression.replaced(numbers)
            if not is_arithmetic(expression):
                raise Unreadable(str(self))
            checks.need(expression if condition.truth else Expression("not_", (expression,), bool))
            return
        found = [(source, checks.value(source)) for _symbol, source in condition.sources]
        if not holds(self, checks.function, checks.values) or any(
            type(value) is not int for _, value in found
        ):
            raise Unreadable(str(self))
        for source, value in found:
            register = checks.read(source)
            if source.kind != "size":
                check_picture(checks, register, value)
