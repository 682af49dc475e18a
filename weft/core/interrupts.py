"""Interrupts: exceptions that come from outside of what is done, as those of a handler of signals.

Takes exceptions that broad clauses have caught; re-raises those that come from outside. One idea: whoever
tries something and goes another way when it fails must not take a timeout for a failure. A handler, like a
trace function, is given the frame that it interrupts, and classes of users' are not raised by our own lines.
"""

from __future__ import annotations

from opcode import opmap
from types import FrameType, TracebackType
from typing import Final

from weft.core.handlers import Handler
from weft.core.origins import OURS, PACKAGE, is_entry, is_ours

SILENT: Final = StopIteration, StopAsyncIteration, MemoryError
"""What C raises without a word. What a thread raises in another one has none."""
RAISE: Final[int] = opmap["RAISE_VARARGS"]
HANDLING: Final = Handler.__call__.__code__
HANDED: Final = 3
"""Among as many arguments is the frame: (number, frame) or (frame, event, value), perhaps behind `self`."""


def let_through(error: BaseException) -> None:
    """Raises an interrupt again. To be called first where errors of any class are caught."""
    if is_interrupt(error):
        try:
            raise error
        finally:
            del error  # whose traceback holds this frame


def is_interrupt(error: BaseException) -> bool:
    """Whether an exception was not raised by the code that it came out of. Generators make a RuntimeError of
    a StopIteration that strikes there.
    """
    if type(error) is RuntimeError and isinstance(error.__cause__, (StopIteration, StopAsyncIteration)):
        return is_interrupt(error.__cause__)
    trace, last = error.__traceback__, None
    while trace is not None:
        if last is not None and _is_handler(trace):
            return True
        last, trace = trace, trace.tb_next
    owner = type(error).__module__.partition(".")[0]
    expected = owner in OURS if isinstance(error, Exception) else owner == "weft"
    expected = expected and (bool(error.args) or isinstance(error, SILENT) or owner == "weft")
    if last is None or expected:
        return False
    frame = last.tb_frame
    return (is_ours(frame) or is_entry(frame)) and _opcode(last) != RAISE


def _is_handler(trace: TracebackType) -> bool:
    """Whether a frame of a traceback is that of a function which the interpreter called in between."""
    frame = trace.tb_frame
    code = frame.f_code
    if code is HANDLING:
        return True
    if code.co_filename.startswith(PACKAGE):
        return False
    given = frame.f_locals
    for name in code.co_varnames[: min(code.co_argcount, HANDED)]:
        if isinstance(given.get(name), FrameType):
            return True
    rest = given.get(code.co_varnames[code.co_argcount + code.co_kwonlyargcount]) if code.co_flags & 4 else ()
    return isinstance(rest, tuple) and any(isinstance(each, FrameType) for each in rest)


def _opcode(trace: TracebackType) -> int:
    """The instruction that a frame of a traceback was at: of a frame of ours that raises what it was given, a
    statement that says so.
    """
    return trace.tb_frame.f_code.co_code[trace.tb_lasti]
