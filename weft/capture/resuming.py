"""Resuming: the values that a resumed function is called with, as text.

Takes a frame that stands before an instruction and a `Builder`; gives the resume point and the text of its
arguments and cells. One idea: only what may still be read goes along; a local that is dead is not rebuilt.
"""

from __future__ import annotations

from collections.abc import Callable
from types import CellType, CodeType
from typing import Any

from weft.capture.bytecode.resume import CannotResume, Parameter, ResumePoint, StackKind, resume_code
from weft.capture.frame import NULL, Frame, PreviousException
from weft.capture.liveness import live_before
from weft.capture.rebuild import Builder
from weft.trace.breaks import Break

Slot = tuple[StackKind, str | None]
PointMaker = Callable[[CodeType, int, tuple[StackKind, ...], frozenset[str]], ResumePoint]


def slot_of(builder: Builder, value: Any) -> Slot:
    """What lies in a place of the stack, and its text."""
    if value is NULL:
        return StackKind.NULL, None
    if type(value) is PreviousException:
        return StackKind.EXCEPTION, builder.text(value.current)
    return StackKind.VALUE, builder.text(value)


def resume_texts(
    builder: Builder, frame: Frame, index: int, stack: list[Slot], make: PointMaker = resume_code
) -> tuple[ResumePoint, list[str], str]:
    """The point before an instruction, its arguments and the tuple of its cells."""
    live = live_before(frame.code)[index]
    bound = {name for name in frame.locals if name in live}
    bound |= {name for name in frame.code.co_varnames[:1] if name in frame.cells}  # super() looks at it
    try:
        point = make(frame.code, index, tuple(kind for kind, _ in stack), frozenset(bound))
    except CannotResume as error:
        raise Break("cannot-resume", seen=str(error)) from None
    arguments = [
        _argument(builder, frame, parameter, stack)
        for parameter in point.parameters
        if parameter.slot is None or parameter.slot < len(stack)
    ]
    # Where an inlined comprehension has just taken a cell away, it makes one of its own before it reads it.
    cells = [frame.cells[name] if name in frame.cells else CellType() for name in point.freevars]
    return point, arguments, builder.tuple_text(cells)


def _argument(builder: Builder, frame: Frame, parameter: Parameter, stack: list[Slot]) -> str:
    if parameter.slot is not None:
        return str(stack[parameter.slot][1])
    if parameter.kind == "local":
        return builder.text(frame.locals[parameter.name])
    cell = frame.cells[parameter.name]
    known = builder.world.known.get(id(cell))
    written, content = builder.world.written(cell, None)
    if known is not None and not written:
        return builder.read(known.source.cell())
    return builder.text(content if written else cell.cell_contents)
