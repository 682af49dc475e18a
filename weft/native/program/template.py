"""Templates: programs whose numbers are expressions over the sizes of a call.

Takes a graph with open sizes; gives programs for any sizes for which what planning has decided holds. One
idea: a program for some sizes is a copy of the tables of another, with other numbers in them; which numbers,
and where they stand, is data.

# Note [Formulas]
    records of steps    rows, columns, offsets, strides          arena     offsets of values, and its length
    code                chunks, work, functions to choose from   outputs   shapes and strides
Python computes all of them at once, by straight-line code that is made of the expressions when first needed.
Native entries compute them by themselves: see Note [Numbers that change] in `weft.native.entry.text`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from weft.core.expressions import NAMES, OPERATIONS, Expression, Symbol, by_name, constant_text, in_order
from weft.native.cpu.calls import address
from weft.native.cpu.runner import OPEN as OPEN_FIELDS
from weft.native.cpu.runner import Runner, addresses
from weft.native.ir.sizes import OPEN, Size


class Formulas:
    """Expressions, computed together from the values of their symbols."""

    def __init__(self, expressions: Sequence[Expression]) -> None:
        self.numbers = {each: number for number, each in enumerate(dict.fromkeys(expressions))}
        self.symbols = by_name({one for each in self.numbers for one in each.symbols})
        self._function: Any = None

    def values(self, symbols: Mapping[Symbol, int]) -> list[int]:
        """Their values, in order."""
        if self._function is None:
            self._function = self._made()
        found: list[int] = self._function(*[symbols[one] for one in self.symbols])
        return found

    def _made(self) -> Any:
        names = {Expression("symbol", (one,), one.kind): f"s{n}" for n, one in enumerate(self.symbols)}
        lines = []
        for each in in_order(self.numbers):
            if each.op == "constant":
                names[each] = constant_text(each.args[0])
            elif each.op != "symbol":
                text = OPERATIONS[each.op][1].format(*[names[arg] for arg in each.args])
                names[each] = f"v{len(names)}"
                lines.append(f"    {names[each]} = {text}")
        given = ", ".join(f"s{number}" for number in range(len(self.symbols)))
        results = ", ".join([names[each] for each in self.numbers])
        text = "\n".join([f"def formulas({given}):", *lines, f"    return [{results}]"])
        place: dict[str, Any] = dict(NAMES)
        exec(compile(text, "<weft: formulas>", "exec"), place)
        return place["formulas"]


class At:
    """Values of what is open, by expression; other values are as they are."""

    def __init__(self, known: Mapping[Expression, int]) -> None:
        self.known = known

    def __call__(self, value: Any) -> Any:
        kind = type(value)
        if kind in OPEN:
            return self.known[value.expression]
        if kind is slice:
            return slice(self(value.start), self(value.stop), self(value.step))
        return kind([self(each) for each in value]) if kind is list or kind is tuple else value


def open_within(value: Any) -> Iterator[Expression]:
    """The expressions of what is open in a value."""
    kind = type(value)
    if kind in OPEN:
        yield value.expression
    elif kind is list or kind is tuple:
        for each in value:
            yield from open_within(each)
    elif kind is slice:
        yield from open_within((value.start, value.stop, value.step))


class Template:
    """The program of a graph with open sizes: planned and compiled once, with numbers that a call settles."""

    keep_again: Callable[[], None] | None = None
    """Has the disk keep it as it is now."""

    def __init__(self, first: Runner) -> None:
        """Notes which numbers are open of a program, which `first` runs for the sizes of one call."""
        program = first.program
        assert program.sizes is not None
        self.program, self.first, self.sizes = program, first, program.sizes
        self.conditions = dict(program.sizes.conditions)
        self.asked = Formulas([*self.conditions])
        words = [number for record in program.records for number in record]
        self.words = [(n, each.expression) for n, each in enumerate(words) if type(each) in OPEN]
        """Of all records: which numbers are open, and what they are."""
        code = [(name, 0, *row) for name, row in zip(program.functions, program.rows, strict=True)]
        self.fields = [
            (row, field, each.expression)
            for row, fields in enumerate(code)
            for field, each in enumerate(fields)
            if type(each) in OPEN
        ]
        """Of the code, likewise."""
        others = [getattr(program, name) for name in (*OPEN_FIELDS, "draws")]
        listing = program.listing
        python = [] if listing is None else [listing.steps[number] for number in first.python]
        bound = [(each.call.bound, each.shape) for each in python]
        places_ = [each for _, each in self.words], [each for *_, each in self.fields]
        self.formulas = Formulas([*places_[0], *places_[1], *open_within(others), *open_within(bound)])
        numbers = self.formulas.numbers
        self.word_places = np.array([n for n, _ in self.words], np.int64)
        self.word_numbers = np.array([numbers[each] for _, each in self.words], np.int64)
        known = addresses(program, first.functions)
        self.cells = np.array([known[each] for each in program.choices] or [0], np.int64)
        """Where the functions lie among which sizes choose."""
        self.offsets = first.code[: program.count, 1] - address(first.words)

    @property
    def is_narrow(self) -> bool:
        """Whether it serves nothing but the numbers of the call for which it was made."""
        return any(truth and each.op == "eq" for each, truth in self.conditions.items())

    def fits(self, values: dict[Symbol, int]) -> bool:
        """Whether what planning has decided holds for these sizes."""
        found = self.asked.values(values)
        return all(bool(each) is truth for each, truth in zip(found, self.conditions.values(), strict=True))

    def at(self, values: Mapping[Symbol, int], inputs: Sequence[Any]) -> Settled:
        """The program for these sizes, which shares code with all others."""
        return Settled(self, values, inputs)

    def improved(self) -> None:
        """Notes better code, where functions are chosen by sizes."""
        moved = self.first.functions.moved
        self.cells[:] = [moved.get(each, each) for each in self.cells.tolist()]
        if self.keep_again is not None:
            self.keep_again()


class Settled(Runner):
    """The program of a template for the sizes of a call."""

    def __init__(self, template: Template, values: Mapping[Symbol, int], inputs: Sequence[Any]) -> None:
        first, self.template = template.first, template
        self.take(template.program, first.functions, first.work)
        self.piecewise = first.piecewise
        known = addresses(template.program, first.functions)
        found = template.formulas.values({**known, **values})
        at = At(dict(zip(template.formulas.numbers, found)))
        self.words = first.words.copy()
        if len(template.words):
            self.words[template.word_places] = np.array(found, np.int64)[template.word_numbers]
        self.code = first.code.copy()
        if self.count:
            records = self.code[: self.count, 1]
            records[:] = np.where(records == 0, 0, template.offsets + address(self.words))
        for row, field, each in template.fields:
            self.code[row, field] = at.known[each]
        self.settle(at, first.python)
        self.keep = [self.words]
        self.connect(inputs)

    def improve(self) -> None:
        super().improve()
        self.template.improved()

    def numbers_of_tables(self) -> list[tuple[int, Expression]]:
        """Where in its records, code and draws open numbers lie, and what they are."""
        words, code = address(self.words), address(self.code)
        width = self.code.shape[1]
        found = [(words + 8 * n, each) for n, each in self.template.words]
        found += [(code + 8 * (width * row + field), each) for row, field, each in self.template.fields]
        if self.draws is not None:
            counts, blocks = address(self.draws.counts), [each for _, each in self.program.draws]
            found += [
                (counts + 8 * n, each.expression) for n, each in enumerate(blocks) if type(each) is Size
            ]
        return found

    @property
    def functions_of_sizes(self) -> dict[Symbol, int]:
        """Where the addresses of functions stand among which sizes choose."""
        start = address(self.template.cells)
        return {each: start + 8 * number for number, each in enumerate(self.program.choices)}
