"""Leaving: what an entry leaves to be done when it has returned.

A `Tail` (the rest of a broken frame) or a `Failure` (the original, as the graph failed). One idea: an entry
bears the name and file of the user's function, so it must be gone when another form of that function runs,
lest tracebacks show both.
"""

from __future__ import annotations

import sys
import threading
import traceback
from collections.abc import Sequence
from types import CodeType, FrameType, FunctionType
from typing import Any

from weft.capture.fronts import uncounted
from weft.core.requirements import Unmet


class Tail:
    """The rest of a broken frame: a resume function and its arguments, not yet run. See Note [Tails]."""

    __slots__ = ("arguments", "cache", "function")

    def __init__(self, cache: Any, function: FunctionType, arguments: list[Any]) -> None:
        self.cache, self.function, self.arguments = cache, function, arguments


class AsWritten:
    """Stands for the cache of a Tail that runs uncompiled."""

    @uncounted
    def serve(self, function: FunctionType, values: Sequence[Any], *, inside: bool) -> Any:
        return function(*values)


AS_WRITTEN = AsWritten()


class Errors:
    """Whether Python code raised an error while the block ran, be it that it caught it itself."""

    any = False

    def __enter__(self) -> Errors:
        self.before = sys.gettrace()
        sys.settrace(self.trace)
        return self

    def __exit__(self, *_error: object) -> None:
        sys.settrace(self.before)

    def trace(self, frame: FrameType, event: str, value: Any) -> Any:
        frame.f_trace_lines = False
        if event == "exception" and not issubclass(value[0], (StopIteration, GeneratorExit)):
            self.any = True
        return self.trace


class Setbacks:
    """What became of the graph of one entry. Emitted code calls `note` where it failed."""

    __slots__ = ("why",)

    def __init__(self) -> None:
        self.why = ""

    def note(self, error: BaseException) -> None:
        self.why = str(error) if isinstance(error, Unmet) else type(error).__name__
        failure.setbacks = self


def line_of(error: BaseException, code: CodeType) -> str:
    """The last line of the user's file that an error went through."""
    lines = [
        f"{frame.f_code.co_filename}:{line}"
        for frame, line in traceback.walk_tb(error.__traceback__)
        if frame.f_code.co_filename == code.co_filename
    ]
    return lines[-1] if lines else code.co_filename


class Failure(threading.local):
    """The call whose graph has just failed in this thread: its entry gave MISS, its original is to run."""

    call: tuple[FunctionType, tuple[Any, ...]] | None = None
    setbacks: Setbacks | None = None
    """Those of the entry that failed last."""

    def takes(self, function: FunctionType, values: Sequence[Any]) -> bool:
        """Whether it is this call, which is thereby done. Finalisers may make others in between."""
        if self.call is None or self.call[0] is not function:
            return False
        if not all(map(_same, self.call[1], values)):
            return False
        self.call = None
        return True


def _same(left: Any, right: Any) -> bool:
    if left is right:
        return True
    return type(left) is type(right) is tuple and len(left) == len(right) and all(map(_same, left, right))


failure = Failure()
