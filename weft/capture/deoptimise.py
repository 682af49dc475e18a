"""Tails and deoptimisation: what is left to run when an entry has returned.

A `Tail` (the rest of a frame behind a graph break) or a `Failure` (the original function, since the graph
failed). One idea: an entry bears the name and file of the user's function, so its frame must have returned
when another form of that function runs, lest tracebacks show both.

# Note [Interrupted tails]
    with lock:                  the segment that ends at `print` has taken the lock; that it is released is
        print(y)                an effect of the tail, or of a tail of that one
        return y.sum()
A handler of signals that raises while the tail is looked up, compiled or computed must find what the frame
would do about it: nothing of the tail is done yet, so it is as if the exception had been raised where the
tail begins (or by the instruction before, whose handler covers more), and the original goes on, uncompiled,
at the handler there. A segment marks its function as begun before its first effect, and so does whoever runs
one as written. From then on the exception passes as it is.
"""

from __future__ import annotations

import sys
import threading
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import CodeType, FrameType, FunctionType, TracebackType
from typing import Any, Final

from weft.capture.break_instruction import enter_original
from weft.capture.bytecode.instructions import decode
from weft.capture.bytecode.native import OPCODES
from weft.capture.bytecode.resume import StackKind, resume_code
from weft.capture.fronts import BEGUN, uncounted
from weft.core.interrupts import let_through
from weft.core.requirements import EXHAUSTED, Committed, Doubtful, Unmet
from weft.core.warn import given_by, said_already

HEAD: Final = 4
"""Where the RESUME of resumed code stands at most."""


class Tail:
    """The rest of a broken frame: a resume function and its arguments, not yet run. See Note [Tails].

    `at` is the instruction of the code that was left, `left`, whose handler meets what interrupts it; None
    where there is none.
    """

    __slots__ = ("arguments", "at", "cache", "function", "left", "point")

    def __init__(
        self,
        cache: Any,
        function: FunctionType,
        arguments: list[Any],
        point: Any = None,
        left: CodeType | None = None,
        at: int | None = None,
    ) -> None:
        self.cache, self.function, self.arguments = cache, function, arguments
        self.point, self.left, self.at = point, left, at

    def _has_begun(self, error: BaseException) -> bool:
        """Whether anything of it was done before the error came."""
        if BEGUN not in self.function.__dict__:
            return False
        code = self.function.__code__
        for frame in _frames(error):
            if frame.tb_frame.f_code is code:  # signals are looked at where it begins, before it goes on
                return frame.tb_lasti > HEAD or code.co_code[frame.tb_lasti] != OPCODES["RESUME"]
        return True

    def way_out(self, error: BaseException) -> Tail | None:
        """The handler that the error meets; None where it must pass. See Note [Interrupted tails]."""
        if self.point is None:  # it is a way out itself, and holds an exception whose traceback holds it
            self.arguments.clear()
        if self.at is None or self.left is None or self._has_begun(error):
            return None
        bytecode = decode(self.left)
        handler = bytecode.handlers[self.at]
        assert handler is not None
        given = list(zip(self.point.parameters, self.arguments))
        named = {each.name: value for each, value in given if each.slot is None}
        stack = {each.slot: value for each, value in given if each.slot is not None}
        lying = decode(self.point.original).kinds(self.point.index) or ()
        kinds = [_kind(lying[slot], slot in stack) for slot in range(handler.depth)]
        for pushed in [bytecode.instructions[self.at].offset // 2, error][not handler.lasti :]:
            stack[len(kinds)] = pushed
            kinds.append(StackKind.VALUE)
        point = resume_code(self.left, handler.target_index, tuple(kinds), frozenset(named))
        function = enter_original(point, self.function, self.function.__closure__ or ())
        arguments = [named[each.name] if each.slot is None else stack[each.slot] for each in point.parameters]
        return Tail(AS_WRITTEN, function, arguments)


def _kind(lying: str, given: bool) -> StackKind:
    if lying == "previous":
        return StackKind.EXCEPTION
    return StackKind.VALUE if given else StackKind.NULL


def _frames(error: BaseException) -> Iterator[TracebackType]:
    trace = error.__traceback__
    while trace is not None:
        yield trace
        trace = trace.tb_next


class AsWritten:
    """Stands for the cache of a Tail that runs uncompiled."""

    @uncounted
    def serve(self, function: FunctionType, values: Sequence[Any], *, inside: bool) -> Any:
        function.__dict__[BEGUN] = True
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

    __slots__ = ("why", "sure", "given", "writes")

    def __init__(self) -> None:
        self.why, self.sure = "", True
        self.writes = False
        """Whether the graph writes to inputs which nobody puts back, since nothing can fail behind that: but
        for want of memory or of stack, where the original must not write them once more."""
        self.given: list[Any] = []  # what the graph has warned of

    def note(self, error: BaseException) -> None:
        if self.writes and isinstance(error, EXHAUSTED):
            raise error
        let_through(error)
        if isinstance(error, Committed):
            raise error
        self.why = str(error) if isinstance(error, Unmet) else type(error).__name__
        self.sure = not isinstance(error, Doubtful)
        self.given = [] if isinstance(error, Unmet) else given_by(sys._getframe(1).f_globals)
        failure.setbacks = self
        if error is not failure.told:
            failure.told = None


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
    told: Warning | None = None
    """What the library had to say of a call, where a filter makes warnings errors: no failure of the graph,
    which has not run. The original runs, and then it is raised."""

    @contextmanager
    def telling(self) -> Iterator[None]:
        """Around a warning that is given while a graph runs."""
        try:
            yield
        except Warning as error:
            self.told = error
            raise

    @uncounted
    def tell_behind(self, call: Callable[..., Any], function: FunctionType, values: Sequence[Any]) -> Any:
        """The call, and then what was to be told of it."""
        told, self.told = self.told, None
        call(function, *values)
        assert told is not None
        raise told.with_traceback(None)

    def without_repeats(self, call: Callable[..., Any]) -> Callable[..., Any]:
        """The call, which does not warn again of what the graph that failed has warned of."""
        given = [] if self.setbacks is None else self.setbacks.given
        if not given:
            return call

        @uncounted
        def called(function: FunctionType, *values: Any) -> Any:
            with said_already(given):
                return call(function, *values)

        return called

    def takes(self, function: FunctionType, values: Sequence[Any]) -> bool:
        """Whether it is this call, which is thereby done. Finalisers may make others in between."""
        if self.call is None or self.call[0] is not function:
            return False
        if not all(_same(one, other) for one, other in zip(self.call[1], values)):
            return False
        self.call = None
        return True


def _same(left: Any, right: Any) -> bool:
    if left is right:
        return True
    if not type(left) is type(right) is tuple or len(left) != len(right):
        return False
    return all(_same(one, other) for one, other in zip(left, right))


failure = Failure()
