"""Generators: running captured generators to their next yield, throwing into them, and closing them.

Takes a `CapturedGenerator`; gives what it yields, or raises StopIteration in the captured program. One idea:
the frame of a suspended generator stays as it is, so resuming is running it on.

# Note [Generators die]
    for item in items():              CPython closes the suspended generator when `break` drops it, and what
        break                         its `finally` does is part of the program, at this very place. The
    log.append("after")               machine's values are real objects, so a `CapturedGenerator` knows when
                                      that is: nothing else may hold it, and its `__del__` runs the rest.
What cannot be run from there, or a generator that is still suspended inside a `try` when its segment ends and
that no one will see again, sends capture back to before it was made: it is then Python's own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from weft.capture.frame import Frame
from weft.capture.values import CapturedGenerator, Raised, has_type
from weft.trace.breaks import Break

if TYPE_CHECKING:
    from weft.capture.machine import Machine


class Generators:
    """Running generators."""

    over = True
    """Whether capture has ended: what dies now, dies with it."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.calls, self.attributes = machine.calls, machine.attributes
        self.world, self.fail = machine.world, machine.fail
        self.over = False
        self.pending: Break | None = None
        """Why a generator that died could not be closed."""

    def advance(self, generator: CapturedGenerator, value: Any, error: BaseException | None) -> Any:
        """Runs a generator to its next yield, sending a value or throwing an error in."""
        frame = generator.frame
        if generator.running:
            raise self.fail(ValueError("generator already executing"))
        if frame is None:
            raise self.fail(StopIteration() if error is None else error)
        if not generator.started:
            if value is not None:
                raise self.fail(TypeError("can't send non-None value to a just-started generator"))
            if error is not None:
                generator.frame = None
                raise self.fail(error)
        elif error is None:
            frame.stack.append(value)
        if error is not None:
            self.machine.note_raised(error)
            error, value, thrown = self.throw_into_delegate(frame, error)
            if thrown:
                return value
        return self.resume(generator, frame, error)

    def resume(self, generator: CapturedGenerator, frame: Frame, error: BaseException | None) -> Any:
        generator.started = generator.running = True
        frame.parent = self.machine.frame
        self.machine.depth += 1
        if self.machine.depth > 60:
            raise Break("recursion-depth")
        try:
            signal = self.machine.run_until_signal(frame, error)
        except Raised as raised:
            failure = raised.exception
        else:
            if signal.yielded:
                return signal.value
            generator.frame = None
            raise self.fail(StopIteration() if signal.value is None else StopIteration(signal.value))
        finally:
            generator.running = False
            self.machine.depth -= 1
        generator.frame = None
        if has_type(failure, StopIteration):
            error = RuntimeError("generator raised StopIteration")
            error.__cause__ = error.__context__ = failure
            raise self.fail(error)
        raise Raised(failure)

    def throw_into_delegate(
        self, frame: Frame, error: BaseException
    ) -> tuple[BaseException | None, Any, bool]:
        """Throws into the iterator of a `yield from` first. Answers (error to raise here, value, yielded)."""
        instruction = frame.instruction
        if instruction.op != "YIELD_VALUE" or not instruction.arg or not frame.stack:
            return error, None, False
        inner = frame.stack[-1]
        if has_type(error, GeneratorExit):
            self.close_iterator(inner)
            return error, None, False
        if not has_type(inner, CapturedGenerator) and not hasattr(type(inner), "throw"):
            return error, None, False
        try:
            method = self.attributes.load(inner, "throw")
            return None, self.calls.call(method, (error,), {}), True
        except Raised as raised:
            return raised.exception, None, False

    def close_iterator(self, inner: Any) -> None:
        if has_type(inner, CapturedGenerator):
            self.close(inner)
        elif hasattr(type(inner), "close"):
            self.calls.call(self.attributes.load(inner, "close"), (), {})

    def drop(self, generator: CapturedGenerator) -> None:
        """Closes a generator that nothing refers to any more."""
        if self.over:
            return
        try:
            self.close(generator)
        except Break as stop:
            self.pending = stop
        except Raised as raised:
            error = type(raised.exception).__name__
            self.pending = Break("generator-dies", seen=f"{generator.code.co_qualname} raises {error}")
        if self.pending is not None:
            self.pending.with_traceback(None).culprit = generator.code
            self.world.made_at[id(generator.code)] = self.world.made_at[id(generator)]

    def close(self, generator: CapturedGenerator) -> None:
        if generator.frame is None:
            return
        if not generator.started:
            generator.frame = None
            return
        try:
            self.advance(generator, None, GeneratorExit())
        except Raised as raised:
            if has_type(raised.exception, (GeneratorExit, StopIteration)):
                return
            raise
        raise self.fail(RuntimeError("generator ignored GeneratorExit"))
