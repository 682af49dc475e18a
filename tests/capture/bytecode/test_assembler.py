"""What is read from a code object and written again is the same code."""

from __future__ import annotations

import typing
from types import CodeType

import pytest

from tests.capture.bytecode import corpus
from tests.capture.bytecode.test_instructions import codes_of
from weft.capture.bytecode.assembler import NewInstruction, Range, assemble
from weft.capture.bytecode.native import JUMPS, Positions, read_exception_table, read_instructions


def reassembled(code: CodeType) -> CodeType:
    items = []
    for native in read_instructions(code):
        jump = native.target if native.name in JUMPS else None
        width = (native.offset - native.start) // 2 + 1
        items.append(NewInstruction(native.name, native.arg, native.positions, native.start, jump, width))
    end = len(code.co_code)
    ranges = [
        Range(line.start, "end" if line.end == end else line.end, line.target, line.depth, line.lasti)
        for line in read_exception_table(code)
    ]
    assembled = assemble(items, ranges, code.co_firstlineno)
    return code.replace(
        co_code=assembled.code, co_linetable=assembled.lines, co_exceptiontable=assembled.exceptions
    )


@pytest.mark.parametrize("module", [typing, corpus], ids=lambda module: module.__name__)
def test_reading_and_writing_changes_nothing(module):
    for code in codes_of(module):
        again = reassembled(code)
        assert again.co_code == code.co_code
        assert again.co_exceptiontable == code.co_exceptiontable
        assert list(again.co_positions()) == list(code.co_positions())
        assert list(again.co_lines())[-1] == list(code.co_lines())[-1]


def test_long_jumps_are_widened():
    nowhere = Positions(None, None, None, None)
    middle = [NewInstruction("NOP", 0, nowhere) for _ in range(70_000)]
    items = [NewInstruction("JUMP_FORWARD", jump="out"), *middle, NewInstruction("NOP", label="out")]
    result = assemble(items, [], 1)
    assert result.places["out"] == 70_000 + 3
    assert items[0].width == 3


def test_a_jump_the_other_way_is_refused():
    with pytest.raises(AssertionError, match="the other way"):
        assemble([NewInstruction("NOP", label="back"), NewInstruction("JUMP_FORWARD", jump="back")], [], 1)
