"""Native instructions: takes a code object, gives what its bytes say, before any meaning is put on them.

One idea: everything that CPython keeps private about its encoding (caches, jumps, the exception table) is
read here, so that the decoder and the builder of resume code agree on it.
"""

from __future__ import annotations

import dis
import opcode
from types import CodeType
from typing import Any, NamedTuple

OPCODES: dict[str, int] = {name: number for name, number in dis.opmap.items() if number < 256}
EXTENDED_ARG = OPCODES["EXTENDED_ARG"]
JUMPS = frozenset(name for name, number in OPCODES.items() if number in {*dis.hasjrel, *dis.hasjabs})
LOCALS = frozenset(name for name, number in OPCODES.items() if number in {*dis.haslocal, *dis.hasfree})

# Two locals in one instruction, four bits each: the instructions they stand for.
PAIRS = {
    "LOAD_FAST_LOAD_FAST": ("LOAD_FAST", "LOAD_FAST"),
    "STORE_FAST_LOAD_FAST": ("STORE_FAST", "LOAD_FAST"),
    "STORE_FAST_STORE_FAST": ("STORE_FAST", "STORE_FAST"),
}

MARK = "resumed code of"
"""Constants that end with (MARK, code) are those of code that enters `code` in the middle; see resume.py."""


class Positions(NamedTuple):
    """Where in the source an instruction comes from; None where the compiler does not say."""

    line: int | None
    end_line: int | None
    column: int | None
    end_column: int | None


class EncodedInstruction(NamedTuple):
    """One native instruction with its EXTENDED_ARGs and caches folded in.

    `start` is the offset of its first EXTENDED_ARG, which is where jumps land; `offset` that of the opcode
    itself, which is what `f_lasti` shows; `end` that of the next instruction.
    """

    name: str
    arg: int
    start: int
    offset: int
    end: int
    positions: Positions

    @property
    def target(self) -> int:
        """The offset that a jump goes to."""
        distance = -self.arg if "BACKWARD" in self.name else self.arg
        return self.end + 2 * distance


class Protected(NamedTuple):
    """One line of the exception table, in offsets: `start` up to, but without, `end`."""

    start: int
    end: int
    target: int
    depth: int
    lasti: bool


def _cache_counts() -> dict[str, int]:
    private: Any = opcode
    entries = private._inline_cache_entries
    if isinstance(entries, dict):
        return dict(entries)
    return {name: entries[number] for name, number in OPCODES.items()}


CACHES = _cache_counts()


def read_instructions(code: CodeType) -> list[EncodedInstruction]:
    """The instructions of `code` in order, unspecialised."""
    raw = code.co_code
    positions = [*code.co_positions()]
    natives: list[EncodedInstruction] = []
    offset = start = prefix = 0
    while offset < len(raw):
        number, arg = raw[offset], prefix << 8 | raw[offset + 1]
        if number == EXTENDED_ARG:
            prefix = arg
            offset += 2
            continue
        name = dis.opname[number]
        end = offset + 2 + 2 * CACHES.get(name, 0)
        place = tuple.__new__(Positions, positions[offset // 2])
        natives.append(tuple.__new__(EncodedInstruction, (name, arg, start, offset, end, place)))
        offset = start = end
        prefix = 0
    return natives


def read_exception_table(code: CodeType) -> list[Protected]:
    """The exception table, in order; each offset is covered by at most one line."""
    numbers: list[int] = []
    value = 0
    for byte in code.co_exceptiontable:
        value = value << 6 | byte & 63
        if not byte & 64:
            numbers.append(value)
            value = 0
    table = []
    for start, length, target, depth_lasti in zip(*[iter(numbers)] * 4):
        table.append(
            Protected(2 * start, 2 * (start + length), 2 * target, depth_lasti >> 1, bool(depth_lasti & 1))
        )
    return table


def slot_names(code: CodeType) -> list[str]:
    """The name of every slot that LOAD_FAST, LOAD_DEREF and their kin count: locals, then cells, then
    free."""
    cells = [name for name in code.co_cellvars if name not in code.co_varnames]
    return [*code.co_varnames, *cells, *code.co_freevars]


def original_code(code: CodeType) -> CodeType:
    """The code that resumed code was made of; any other code itself."""
    last = code.co_consts[-1] if code.co_consts else None
    if isinstance(last, tuple) and len(last) == 2 and last[0] == MARK and isinstance(last[1], CodeType):
        return last[1]
    return code
