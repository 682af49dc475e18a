"""One visit of each instruction gives what joining all paths gives, or leaves it to that."""

from __future__ import annotations

from types import CodeType, ModuleType
from typing import Any

import pytest

from tests.capture.bytecode.test_instructions import MODULES, codes_of
from weft.capture.bytecode import layout
from weft.capture.bytecode.drafts import NO_ENTRY, NULL_FIRST, Draft, draft
from weft.capture.bytecode.instructions import decode
from weft.capture.bytecode.layout import Agreeing, InconsistentStack, Joined, lay_out
from weft.capture.bytecode.native import Positions
from weft.capture.bytecode.resume import StackKind, resume_code
from weft.capture.bytecode.single_visit import TAKES_SLOT, Link, visited

CHOOSING = ("callables", "call_of_choice")
"""Functions of the corpus that call what a condition chooses, behind a NULL."""
NOWHERE = Positions(None, None, None, None)


def drafts_of(*steps: tuple[str, Any]) -> list[Draft]:
    return [
        Draft(op, arg, 2 * place, NOWHERE, NO_ENTRY, start=2 * place) for place, (op, arg) in enumerate(steps)
    ]


def compare(code: CodeType, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Holds both against each other, wherever layouts are asked for; whether one visit was enough."""
    seen: list[Agreeing] = []

    def both(
        drafts: list[Draft],
        links: list[Link | None],
        cells: frozenset[str],
        saves: bool,
        filled: bool = False,
    ) -> Any:
        joined = Joined(drafts, links, cells, filled)
        found = made(drafts, links, cells, saves, filled)
        assert [found.state(index) for index in range(len(drafts))] == joined.states
        seen.extend([found] if isinstance(found, Agreeing) else [])
        return found

    made = layout.laid_out
    with monkeypatch.context() as patch:
        patch.setattr(layout, "laid_out", both)
        lay_out(code, draft(code))
    return bool(seen)


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.__name__)
def test_joining_gives_the_same(module: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    for code in codes_of(module):
        once = compare(code, monkeypatch)
        joins = NULL_FIRST and code.co_name in CHOOSING
        joins = joins or any(each.op == TAKES_SLOT for each in draft(code))
        assert once is not joins, code.co_qualname


def test_joining_gives_the_same_for_resumed_code(monkeypatch: pytest.MonkeyPatch) -> None:
    def function(first: Any, second: Any) -> Any:
        return first(second if first else 2, [second])(first.real(1), key=2)

    bytecode = decode(function.__code__)
    count = 0
    for each in bytecode.instructions:
        kinds = bytecode.kinds(each.index)
        if each.op == "CALL" and kinds is not None:
            stack = tuple([StackKind.NULL if kind == "null" else StackKind.VALUE for kind in kinds])
            point = resume_code(function.__code__, each.index, stack, frozenset({"first", "second"}))
            compare(point.code, monkeypatch)
            count += 1
    assert count > 1


LOAD = ("LOAD_CONST", None)
DOUBTFUL: dict[str, list[tuple[str, Any]]] = {
    "too few values": [("POP_TOP", None), LOAD, ("RETURN_VALUE", None)],
    "a NULL is read": [("PUSH_NULL", None), ("RETURN_VALUE", None)],
    "no end": [LOAD, ("POP_TOP", None)],
    "depths differ": [LOAD, ("POP_JUMP_IF_TRUE", 3), LOAD, LOAD, ("RETURN_VALUE", None)],
    "nothing to swap": [LOAD, ("SWAP", 2), ("RETURN_VALUE", None)],
}


@pytest.mark.parametrize("steps", DOUBTFUL.values(), ids=DOUBTFUL)
def test_what_is_doubtful_is_left_to_joining(steps: list[tuple[str, Any]]) -> None:
    drafts = drafts_of(*steps)
    assert visited(drafts, [None] * len(drafts)) is None


def test_kinds_that_differ_are_joined() -> None:
    drafts = drafts_of(
        LOAD, LOAD, ("POP_JUMP_IF_TRUE", 5), ("PUSH_NULL", None), ("JUMP", 6), LOAD, ("POP_TOP", None), LOAD,
        ("RETURN_VALUE", None),
    )  # fmt: skip
    links: list[Link | None] = [None] * len(drafts)
    assert visited(drafts, links) is None
    found = layout.laid_out(drafts, links, frozenset(), False)
    state = found.state(6)
    assert state is not None
    assert [slot.kind for slot in state.slots] == ["value", "self"]


def test_a_handler_wants_what_is_there() -> None:
    drafts = drafts_of(LOAD, ("RETURN_VALUE", None), ("RETURN_VALUE", None))
    links = [Link(2, 1, False), None, None]
    assert visited(drafts, links) is None
    with pytest.raises(InconsistentStack, match="its handler wants 1 values"):
        layout.laid_out(drafts, links, frozenset(), False)
    assert visited(drafts, [None, Link(2, 1, True), None]) == [(), (0,), (0, 3, 0)]
