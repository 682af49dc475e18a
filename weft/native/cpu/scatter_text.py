"""The functions of scatters and running folds, as LLVM text.

Gives modules for `weft.native.lower.scatter`. One idea: both go through memory in an order that matters, so a
chunk takes some neighbouring columns, as many as a vector has lanes, and goes through all their rows.
"""

from __future__ import annotations

from functools import cache
from typing import Final

from weft.native.cpu.body_text import HANDLERS, BodyText
from weft.native.cpu.conv_code import BYTES as BYTES
from weft.native.cpu.conv_code import ELEMENTS, Code

COMBINED: Final = {"add": "add", "prod": "mul", "max": "max", "min": "min"}
TYPES: Final = frozenset(ELEMENTS)


class Columns:
    """A vector of neighbouring columns, or a single one."""

    def __init__(self, type_: str, vector_bytes: int, single: bool) -> None:
        self.code = Code(type_, vector_bytes)
        self.single, self.lanes = single, 1 if single else self.code.lanes
        self.text = BodyText(self.code.out, self.lanes)
        self.mask = self.left = ""

    def start(self, block: str, columns: str) -> str:
        """The first column of a block; those behind the last one are left alone."""
        if self.single:
            return block
        first = self.code.mul(block, self.lanes)
        self.left = self.code.sub(columns, first)
        self.mask = self.code.first_lanes(self.left)
        return first

    def load(self, pointer: str) -> str:
        return self.code.load_one(pointer) if self.single else self.code.masked_load(pointer, self.mask)

    def store(self, value: str, pointer: str) -> None:
        if self.single:
            self.code.store_one(value, pointer)
        else:
            self.code.store_first(value, pointer, self.left)

    def combined(self, word: str, *args: str, type_: str = "") -> str:
        kind = type_ or self.code.type
        return HANDLERS[word](self.text, kind, list(args), [kind] * len(args))

    def cast(self, value: str, from_: str, to: str) -> str:
        return value if from_ == to else HANDLERS["cast"](self.text, to, [value], [from_])


@cache
def scatter(type_: str, kind: str, vector_bytes: int, single: bool) -> str:
    """A copy of something in which rows were replaced, or something was added to them, one after another.

    0 result, base, where rows begin, rows    4 elements of the result, how many rows, columns. What is cut
    into chunks are blocks of columns.
    """
    columns = Columns(type_, vector_bytes, single)
    code = columns.code
    target, base, places, values = [code.buffer(place) for place in range(4)]
    size, count, width = code.numbers(4, 3)
    with code.loop("%lo", "%hi") as block:
        first = columns.start(block.at, width)
        to, old, new = [code.past(pointer, first) for pointer in (target, base, values)]
        with code.loop("0", size, width) as row:
            columns.store(columns.load(code.past(old, row.at)), code.past(to, row.at))
        with code.loop("0", count) as row:
            place = code.number(row.at, places)
            there = code.past(to, place)
            value = columns.load(code.past(new, code.mul(row.at, width)))
            if kind != "set":
                value = columns.combined(COMBINED[kind], columns.load(there), value)
            columns.store(value, there)
    return code.text()


@cache
def scan(type_: str, kind: str, vector_bytes: int, single: bool, carrier: str) -> str:
    """A running fold along an axis: each element is combined with the result before it, which is carried
    along in a type that may be wider than the elements'.

    0 result, elements (and, where what came before is multiplied by a factor, these)    then how long the
    axis is, and the columns behind it. What is cut into chunks are blocks of columns, for each index before.
    """
    columns = Columns(type_, vector_bytes, single)
    code = columns.code
    operands = 2 if kind == "linear" else 1
    target, *sources = [code.buffer(place) for place in range(1 + operands)]
    length, width, blocks = code.numbers(1 + operands, 3)
    size = code.mul(length, width)
    nothing = -0.0 if kind == "linear" and type_.startswith("f") else 0  # cumsum(-0.0) is 0.0
    begin = columns.text.constant(1 if kind == "prod" else nothing, carrier)

    def load(pointer: str) -> str:
        return columns.cast(columns.load(pointer), type_, carrier)

    with code.loop("%lo", "%hi") as block:
        outer, number = code.apart(block.at, blocks)
        first = code.add(code.mul(outer, size), columns.start(number, width))
        to, *given = [code.past(pointer, first) for pointer in (target, *sources)]
        with code.loop("0", size, width, [(columns.text.type(carrier), begin)]) as row:
            value = load(code.past(given[0], row.at))
            before = row.values[0]
            if kind == "linear":
                before = columns.combined("mul", load(code.past(given[1], row.at)), before, type_=carrier)
            made = columns.combined(COMBINED.get(kind, "add"), before, value, type_=carrier)
            columns.store(columns.cast(made, carrier, type_), code.past(to, row.at))
            row.following = [made]
    return code.text()
