"""Resuming: the values that a resumed function is called with, as text.

Takes a frame that stands before an instruction and a `Builder`; gives the resume point and the text of its
arguments and cells. One idea: only what may still be read goes along; a local that is dead is not rebuilt.

# Note [Dead locals]
    folder = TemporaryDirectory()     `folder` is not read any more, but it must live as long as the frame:
    path = folder.name                when it dies, the folder is deleted. So what may be noticed when it goes
    print("a break")                  (anything but tensors and plain data) is handed on, read or not.
    save(x, path)
"""

from __future__ import annotations

from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable
from types import BuiltinFunctionType, CellType, CodeType, FunctionType, ModuleType
from typing import Any, Final

from weft.capture.attributes import HEAP
from weft.capture.bytecode.resume import CannotResume, ResumeParameter, ResumePoint, StackKind, resume_code
from weft.capture.frame import NULL, Frame, PreviousException, Unread
from weft.capture.liveness import live_before
from weft.capture.rebuild.builder import Builder
from weft.capture.values import CapturedGenerator
from weft.capture.world import Unopened
from weft.core.device import device
from weft.core.dtypes import dtype
from weft.core.interrupts import let_through
from weft.core.types import Size
from weft.tensor.base import Parameter as TensorParameter
from weft.tensor.base import Tensor
from weft.trace.breaks import Break

Slot = tuple[StackKind, str | None]
PointMaker = Callable[[CodeType, int, tuple[StackKind, ...], frozenset[str]], ResumePoint]


def slot_of(builder: Builder, value: Any) -> Slot:
    """The kind of a stack slot, and its text."""
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
    bound |= {name for name, value in frame.locals.items() if name not in live and _is_missed(builder, value)}
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


def _argument(builder: Builder, frame: Frame, parameter: ResumeParameter, stack: list[Slot]) -> str:
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


UNNOTICED: Final = frozenset(
    {
        type(None), bool, int, float, complex, str, bytes, range, slice, type(Ellipsis), type(NotImplemented),
        Tensor, TensorParameter, Size, dtype, device, type, ModuleType, BuiltinFunctionType,
    }
)  # fmt: skip
"""Classes of objects that nobody sees go."""
CONTAINERS: Final = frozenset({list, tuple, set, frozenset, deque})
MAPPINGS: Final = frozenset({dict, OrderedDict, defaultdict})


def _is_missed(builder: Builder, value: Any, existed: bool = False, depth: int = 4) -> bool:
    """Whether it may be noticed when the value of a local dies before its frame: see Note [Dead locals].

    `existed`: it is not a value of the interpreter but an object that was there before.
    """
    known = builder.world.known.get(id(value))
    if type(value) is CapturedGenerator:
        return value.started and value.frame is not None
    if type(value) in (Unread, Unopened):
        return True  # no guard says what the next call passes here
    if known is not None:
        value, existed = known.original, True
    kind = type(value)
    if kind in UNNOTICED or (kind is FunctionType and not value.__closure__):
        return False
    if not depth:
        return True
    if kind in CONTAINERS:
        return any(_is_missed(builder, item, existed, depth - 1) for item in value)
    if kind in MAPPINGS:
        return any(_is_missed(builder, item, existed, depth - 1) for item in value.values())
    if existed or not kind.__flags__ & HEAP:
        return existed
    try:
        held = object.__getattribute__(value, "__dict__")
    except AttributeError as error:
        let_through(error)
        return False
    return type(held) is dict and any(_is_missed(builder, item, False, depth - 1) for item in held.values())
