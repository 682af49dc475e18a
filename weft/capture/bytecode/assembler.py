"""The assembler: takes native instructions with labels, gives the bytes and tables of a code object.

One idea: a `NewInstruction` names its jump target by label; sizes grow until every argument fits, and the
line and exception tables are written for the offsets that result.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import NamedTuple

from weft.capture.bytecode.native import CACHES, EXTENDED_ARG, OPCODES, Positions
from weft.core.records import record


@record(slots=True)
class NewInstruction:
    """One native instruction to be written. `jump` is the label it goes to; `width` its least number of
    units."""

    name: str
    arg: int = 0
    positions: Positions = Positions(None, None, None, None)
    label: Hashable = None
    jump: Hashable = None
    width: int = 1


class Range(NamedTuple):
    """Items protected by a handler, by label: `start` up to, but without, `end`."""

    start: Hashable
    end: Hashable
    target: Hashable
    depth: int
    lasti: bool


class Assembled(NamedTuple):
    """The parts of a code object that depend on its instructions; `places` is label -> code unit."""

    code: bytes
    lines: bytes
    exceptions: bytes
    places: dict[Hashable, int]


END = "end"
"""The label after the last item."""


def assemble(items: list[NewInstruction], ranges: list[Range], first_line: int) -> Assembled:
    """Bytes, line table and exception table of `items`; ranges come in the order of their items."""
    places = _settle(items)
    code, lines = bytearray(), bytearray()
    line = first_line
    for item in items:
        for position in range(item.width - 1, 0, -1):
            code += bytes((EXTENDED_ARG, item.arg >> 8 * position & 0xFF))
        code += bytes((OPCODES[item.name], item.arg & 0xFF)) + bytes(2 * CACHES.get(item.name, 0))
        units = item.width + CACHES.get(item.name, 0)
        while units > 0:
            lines += _line_entry(item.positions, min(units, 8), line)
            line = line if item.positions.line is None else item.positions.line
            units -= 8
    exceptions = bytearray()
    for start, end, target, depth, lasti in ranges:
        if places[start] == places[end]:
            continue
        exceptions += _exception_number(places[start], first=True)
        exceptions += _exception_number(places[end] - places[start])
        exceptions += _exception_number(places[target])
        exceptions += _exception_number(depth << 1 | lasti)
    return Assembled(bytes(code), bytes(lines), bytes(exceptions), places)


def _settle(items: list[NewInstruction]) -> dict[Hashable, int]:
    """Widens items until their arguments fit; gives the place of every label."""
    while True:
        places: dict[Hashable, int] = {}
        ends = []
        place = 0
        for item in items:
            if item.label is not None:
                places[item.label] = place
            place += item.width + CACHES.get(item.name, 0)
            ends.append(place)
        places[END] = place
        settled = True
        for item, end in zip(items, ends):
            if item.jump is not None:
                distance = places[item.jump] - end
                item.arg = -distance if "BACKWARD" in item.name else distance
                assert item.arg >= 0, f"{item.name} to {item.jump} goes the other way"
            needed = max(1, (item.arg.bit_length() + 7) // 8)
            if needed > item.width:
                item.width, settled = needed, False
        if settled:
            return places


def _exception_number(number: int, first: bool = False) -> bytes:
    """Six bits a byte, the highest first; bit 6 says that more follow, bit 7 that an entry starts."""
    digits = [number & 63]
    while number := number >> 6:
        digits.insert(0, number & 63 | 64)
    digits[0] |= 128 if first else 0
    return bytes(digits)


def _line_number(number: int) -> bytes:
    """Six bits a byte, the lowest first."""
    digits = []
    while number >= 64:
        digits.append(number & 63 | 64)
        number >>= 6
    return bytes((*digits, number))


def _signed(number: int) -> int:
    return -number << 1 | 1 if number < 0 else number << 1


def one_place(units: int, positions: Positions, first_line: int) -> bytes:
    """The line table of code that stands at one place of the user's, all of it."""
    entries, line = [], first_line
    while units > 0:
        count = min(units, 8)
        entries.append(_line_entry(positions, count, line))
        units -= count
        line = line if positions.line is None else positions.line
    return b"".join(entries)


def _line_entry(positions: Positions, units: int, line_before: int) -> bytes:
    """One entry of the line table, in the long form (14), without columns (13) or without anything (15)."""
    line, end_line, column, end_column = positions
    if line is None:
        return bytes((0x80 | 15 << 3 | units - 1,))
    delta = _line_number(_signed(line - line_before))
    if end_line is None or column is None or end_column is None:
        return bytes((0x80 | 13 << 3 | units - 1,)) + delta
    start = bytes((0x80 | 14 << 3 | units - 1,))
    return start + delta + b"".join(map(_line_number, (end_line - line, column + 1, end_column + 1)))
