"""Functions are left before every instruction they run and entered again: nothing must differ."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from types import CodeType, FrameType

import pytest

from tests.capture.bytecode.corpus import CASES, EFFECTS, Case
from tests.capture.bytecode.snapshots import (
    Outcome,
    advance,
    call,
    first_visits,
    in_new_thread,
    left_at,
    outcome,
    resumed,
    run,
    take,
    visits,
    warm_up,
)
from weft.capture.bytecode.instructions import decode
from weft.capture.bytecode.native import read_instructions
from weft.capture.bytecode.resume import original_code, original_index

warm_up()


def entries(code: CodeType) -> dict[int, list[int]]:
    """The instructions that can be entered while native code stands at an offset."""
    found: dict[int, list[int]] = {}
    for index, entry in enumerate(decode(code).entries):
        if (
            not entry.rest
            and entry.slots is not None
            and (code is original_code(code) or in_body(code, index))
        ):
            found.setdefault(entry.offset, []).append(index)
    return found


def in_body(code: CodeType, index: int) -> bool:
    """Whether an instruction of resumed code is one of the original, not one that prepares the stack."""
    try:
        original_index(code, index)
    except ValueError:
        return False
    return True


def continued(frame: FrameType, index: int) -> Outcome:
    case = resumed(take(frame, index, sys.exc_info()[1]))
    return in_new_thread(lambda: outcome(lambda: call(case)))


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_every_instruction_can_be_entered(case: Case) -> None:
    expected = run(case)
    indices = entries(case.function.__code__)
    entered = 0
    for visit, offset in first_visits(visits(case)):
        for index in indices.get(offset, ()):
            EFFECTS.clear()
            got = left_at(case, visit, lambda frame, index=index: continued(frame, index))
            assert got == expected, str(decode(case.function.__code__).instructions[index])
            entered += 1
    assert entered > 3


def parts(code: CodeType) -> dict[int, list[int]]:
    """Native offset -> the instructions in which that native one has to be entered in its middle."""
    starts = {native.end: native.start for native in read_instructions(code)}
    found: dict[int, list[int]] = {}
    for index, entry in enumerate(decode(code).entries):
        if entry.rest and entry.slots is not None:
            found.setdefault(starts[entry.offset], []).append(index)
    return found


def continued_inside(frame: FrameType, index: int) -> Outcome | None:
    """Goes to `index` by hand, from the first part of its native instruction."""
    instructions = decode(frame.f_code).instructions
    offset = instructions[index].offset
    first = next(each.index for each in instructions if each.offset == offset)
    snapshot = take(frame, first, sys.exc_info()[1])
    while snapshot.index < index:
        if not advance(snapshot, frame.f_globals):
            return None
    case = resumed(snapshot)
    return in_new_thread(lambda: outcome(lambda: call(case)))


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_instructions_that_have_parts_can_be_entered_in_the_middle(case: Case) -> None:
    expected = run(case)
    indices = parts(case.function.__code__)
    for visit, offset in first_visits(visits(case)):
        for index in indices.get(offset, ()):
            EFFECTS.clear()
            got = left_at(case, visit, lambda frame, index=index: continued_inside(frame, index))
            instruction = decode(case.function.__code__).instructions[index]
            assert got is None or got == expected, str(instruction)


def test_parts_are_met() -> None:
    """Every version has instructions of several parts, and the corpus has some."""
    assert sum(len(parts(case.function.__code__)) for case in CASES) > 20


def left_twice(case: Case, first: int, index: int, second: int) -> Outcome | None:
    """Leaves the original at one visit, and what was resumed there at another; None if it ends before."""

    def leave(frame: FrameType) -> Outcome | None:
        inner = resumed(take(frame, index, sys.exc_info()[1]))
        indices = entries(inner.function.__code__)

        def leave_again(frame: FrameType) -> Outcome | None:
            found = indices.get(frame.f_lasti)
            return continued(frame, found[-1]) if found else None

        return in_new_thread(lambda: left_at(inner, second, leave_again))

    EFFECTS.clear()
    return left_at(case, first, leave)


def some_pairs(case: Case) -> Iterator[tuple[int, int, int]]:
    """A few places to leave the original at, and a few later ones each."""
    indices = entries(case.function.__code__)
    seen = [(visit, offset) for visit, offset in first_visits(visits(case), 1) if offset in indices]
    for visit, offset in seen[:: max(1, len(seen) // 5)]:
        for second in range(4, len(seen) + 20, max(3, len(seen) // 6)):
            yield visit, indices[offset][0], second


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_resumed_code_can_be_left_again(case: Case) -> None:
    expected = run(case)
    results = [left_twice(case, *pair) for pair in some_pairs(case)]
    assert [got for got in results if got is not None and got != expected] == []
    assert any(results)
