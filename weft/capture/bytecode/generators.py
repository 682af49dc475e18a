"""Suspended generators: takes the state of one that was never run natively, gives a native one in that state.

One idea: resume code that enters the function *at* its yield. Run once, it yields a value that is discarded
and is then suspended where the other one was: send, throw, close, lines and handlers are native from there
on.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Generator
from inspect import CO_ASYNC_GENERATOR, CO_COROUTINE, CO_GENERATOR
from types import CellType, CodeType, FunctionType
from typing import Any

from weft.capture.bytecode.instructions import decode
from weft.capture.bytecode.resume import CannotResume, ResumePoint, StackKind, resume_code


def suspended_code(
    code: CodeType, index: int, stack: tuple[StackKind, ...] = (), bound: frozenset[str] = frozenset()
) -> ResumePoint:
    """Code of a generator or coroutine that is suspended at the yield just before instruction `index`.

    `stack` is what lies under the value that will be sent; `bound` as for resume_code. Its last parameter is
    the value that starting it yields: `rebuild_generator` takes care of that.
    """
    if code.co_flags & CO_ASYNC_GENERATOR or not code.co_flags & (CO_GENERATOR | CO_COROUTINE):
        raise CannotResume(f"{code.co_qualname} is neither a generator nor a coroutine")
    if index < 1 or decode(code).instructions[index - 1].op != "YIELD_VALUE":
        raise CannotResume(f"{code.co_qualname}: instruction {index} does not follow a yield")
    return resume_code(code, index - 1, (*stack, StackKind.VALUE), bound)


def rebuild_generator(
    point: ResumePoint,
    globals_: dict[str, Any],
    closure: tuple[CellType, ...],
    arguments: tuple[Any, ...],
    name: str | None = None,
    qualname: str | None = None,
) -> Generator[Any, Any, Any] | Coroutine[Any, Any, Any]:
    """The suspended generator of `suspended_code`; `arguments` are the values of all parameters but the
    last."""
    function: Callable[..., Any] = FunctionType(
        point.code, globals_, name or point.code.co_name, None, closure or None
    )
    function.__qualname__ = qualname or point.code.co_qualname
    suspended: Generator[Any, Any, Any] | Coroutine[Any, Any, Any] = function(*arguments, None)
    suspended.send(None)
    return suspended
