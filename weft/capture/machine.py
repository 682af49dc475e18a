"""The machine: runs canonical instructions over the interpreter's values.

Takes a root frame, gives what it returns, or stops just before the instruction that it was told to stop at.
One idea: a frame's exceptions are Python's own, carried in `Raised`; a `Break` ends the run, and the next run
stops before the root frame's instruction where it happened.

# Note [Generators die]
    for item in items():              CPython closes the suspended generator when `break` drops it, and what
        break                         its `finally` does is part of the program, at this very place. The
    log.append("after")               machine's values are real objects, so a `CapturedGenerator` knows when
                                      that is: nothing else may hold it, and its `__del__` runs the rest.
What cannot be run from there, or a generator that is still suspended inside a `try` when its segment ends and
that no one will see again, sends capture back to before it was made: it is then Python's own.
"""

from __future__ import annotations

import builtins
import types
from collections.abc import Callable
from typing import Any

import weft.capture.arrays as _arrays  # noqa: F401 - registers NumPy
import weft.capture.builtins as _handlers  # noqa: F401 - registers what stands for builtins
import weft.capture.checkpointing as _checkpointing  # noqa: F401 - registers checkpoints
import weft.capture.custom_function as _custom_function  # noqa: F401 - registers autograd Functions
import weft.capture.higher_order as _higher_order  # noqa: F401 - registers control flow
import weft.capture.iteration as _iteration  # noqa: F401 - for those that walk and search
import weft.capture.lazily as _lazily  # noqa: F401 - and for modules that wait for their sizes
import weft.capture.library as _library  # noqa: F401 - and for functions of the standard library
import weft.capture.optimizers as _optimizers  # noqa: F401 - and for optimizers' state
import weft.capture.saving as _saving  # noqa: F401 - and for saved-tensor hooks
import weft.capture.transforms as _transforms  # noqa: F401 - and function transforms
from weft.capture.builtins import CALLED, INSTANCES
from weft.capture.bytecode.effects import values_seen
from weft.capture.bytecode.instructions import Instruction
from weft.capture.frame import Frame, PreviousException, Unread
from weft.capture.hosting import MachineHost
from weft.capture.logs import is_ours
from weft.capture.operators import Operators
from weft.capture.sources import Source, builtin, module
from weft.capture.tape_calls import item_node
from weft.capture.values import CapturedGenerator, Raised, isinstance
from weft.capture.world import ABSENT, Known
from weft.capture.wrapping import plain_key
from weft.graph.node import Node
from weft.trace.breaks import Break

GENERATOR = 0x20
LIBRARY_CALL = "_calling.<locals>.call"
"""The function of `weft.capture.forms` around what has no code that can be read: its line is nobody's."""
Step = Callable[["Machine", Frame, Any], Any]
STEPS: dict[str, Step] = {}
"""One handler per canonical op; `weft.capture.instructions` fills it, and a test says that it is complete."""


class Stop(BaseException):
    """The root frame reached the instruction to stop at."""


class Signal:
    """What ends a frame's run: a return or a yield."""

    __slots__ = ("value", "yielded")

    def __init__(self, value: Any, yielded: bool) -> None:
        self.value, self.yielded = value, yielded


class Machine(Operators):
    """The interpreter."""

    def __init__(
        self,
        function: types.FunctionType,
        volatile: frozenset[str] = frozenset(),
        dynamic: bool | None = None,
        stop_at: int | None = None,
        by_ops: bool = False,
    ) -> None:
        super().__init__(volatile, dynamic, by_ops)
        self.over = False
        self.entry_function = function
        self.stop_at = stop_at
        self.frame: Frame | None = None
        self.steps_now = self.world.steps_now = lambda: self.root_steps
        self.root_steps = 0
        self.root: Frame | None = None
        self.recorder.where = self.where
        self.recorder.host = MachineHost(self)
        self.hears_ops = False
        """Whether functions that were registered with custom ops are captured code's."""
        self.leaves: set[int] = set()
        """The leaves whose hooks are known, by `id`."""
        self.handed: set[int] = set()
        """Gradients that hooks of a tape have got, by `id`."""

    def where(self) -> tuple[str, int, str] | None:
        """The user's line that is being captured; a line of the library's where no user's is behind it."""
        frame = self.frame
        while frame is not None:
            if not is_ours(frame.code.co_filename):
                return frame.place()
            frame = frame.parent
        nearest = self.frame
        return None if nearest is None or nearest.code.co_qualname == LIBRARY_CALL else nearest.place()

    def item_of_list(self, value: Any, known: Known) -> Node | None:
        return item_node(self, value, known)

    # -- the loop --------------------------------------------------------------------------------------------
    def run(self, frame: Frame) -> Any:
        """Runs a frame to its return."""
        signal = self.run_until_signal(frame)
        return signal.value

    def run_until_signal(self, frame: Frame, error: BaseException | None = None) -> Signal:
        """Runs to a return or a yield; `error` is raised at the current instruction first."""
        caller, self.frame = self.frame, frame
        try:
            if error is not None:
                self.unwind(frame, error)
            return self.loop(frame)
        finally:
            self.frame = caller

    def loop(self, frame: Frame) -> Signal:
        instructions = frame.bytecode.instructions
        is_root = frame is self.root
        while True:
            instruction: Instruction = instructions[frame.index]
            frame.instruction = instruction
            if is_root:
                if frame.lazy and not self.read_stack(frame, instruction):
                    raise Stop
                if self.root_steps == self.stop_at:
                    raise Stop
                self.root_steps += 1
            frame.index += 1
            try:
                signal: Signal | None = STEPS[instruction.op](self, frame, instruction.arg)
                if self.pending is not None:
                    raise self.pending
                if self.recorder.waiting:
                    self.native(self.recorder.run_waiting)
            except Raised as raised:
                error = raised.exception
            else:
                if signal is not None:
                    return signal
                continue
            self.unwind(frame, error)

    def read_stack(self, frame: Frame, instruction: Instruction) -> bool:
        """Reads what the instruction looks at, where nothing has read it yet. False where that is a break,
        and the instruction the one to stop at.
        """
        try:
            self.read_values(frame, instruction)
        except Break:
            if self.root_steps == self.stop_at:
                return False
            self.root_steps += 1  # it is this instruction that breaks, not the one before
            raise
        return True

    def read_values(self, frame: Frame, instruction: Instruction) -> None:
        stack = frame.stack
        seen = values_seen(instruction.op, instruction.arg)
        for place in range(0 if seen is None else len(stack) - seen, len(stack)):
            stack[place] = self.seen(stack[place])
        frame.lazy = any(type(value) is Unread for value in stack)

    def unwind(self, frame: Frame, error: BaseException) -> None:
        """Enters the handler that covers the current instruction, or leaves the frame."""
        self.chain(frame, error)
        handler = frame.bytecode.handlers[frame.instruction.index]
        if handler is None:
            raise Raised(error)
        del frame.stack[handler.depth :]
        if handler.lasti:
            frame.stack.append(frame.instruction.offset // 2)
        frame.stack.append(error)
        frame.index = handler.target_index

    def chain(self, frame: Frame, error: BaseException) -> None:
        """Sets `__context__` as raising does, for errors that native code raised without one."""
        handled = self.handled(frame)
        if handled is None or handled is error or error.__context__ is not None:
            return
        link: BaseException | None = handled
        while link is not None:
            if link.__context__ is error:
                link.__context__ = None
            link = link.__context__
        error.__context__ = handled

    def handled(self, frame: Frame | None) -> BaseException | None:
        """The exception being handled, as `sys.exc_info` sees it from this frame."""
        while frame is not None:
            if frame.handled is not None:
                return frame.handled
            frame = frame.parent
        return None

    def exception_info(self) -> Any:
        error = self.handled(self.frame)
        if error is None:
            return None, None, None
        return type(error), error, self.traceback_of(error)

    # -- variables -------------------------------------------------------------------------------------------
    def read_cell(self, frame: Frame, name: str) -> Any:
        content = self.cell_content(frame.cells[name])
        if content is ABSENT:
            raise self.fail(unbound(frame, name))
        return content

    def cell_content(self, cell: types.CellType) -> Any:
        """What a cell holds, or ABSENT."""
        written, value = self.world.written(cell, None)
        if written:
            return value
        known = self.world.known.get(id(cell))
        try:
            content = cell.cell_contents
        except ValueError:
            if known is not None:
                self.world.guard("UNSET", known.source.cell())
            return ABSENT
        return content if known is None else self.read(content, known.source.cell())

    def write_cell(self, cell: types.CellType, value: Any) -> None:
        known = self.world.known.get(id(cell))
        self.changes += 1
        self.world.keep(value)
        if known is not None:
            self.write(cell, "cell", known.source, None, value)
        elif value is ABSENT:
            del cell.cell_contents
        else:
            cell.cell_contents = value

    def read_global(self, frame: Frame, name: str) -> Any:
        written, value = self.world.written(frame.globals, name)
        if written and value is not ABSENT:
            return value
        self.world.claim(frame.globals, frame.globals)
        if name in frame.globals and not written:
            return self.read(frame.globals[name], frame.globals_source.item(name))
        if not written:
            self.world.guard("LACKS", frame.globals_source, name)
        scope = frame.globals.get("__builtins__", __builtins__)
        scope = scope if isinstance(scope, dict) else scope.__dict__
        if scope is not builtins.__dict__:
            raise Break("unknown-globals", seen=f"{name}, from builtins of its own")
        if name not in scope:
            self.world.guard("LACKS", module("builtins"), name)
            raise self.fail(NameError(f"name '{name}' is not defined", name=name))
        return self.wrap(scope[name], builtin(name))

    def write_global(self, frame: Frame, name: str, value: Any) -> None:
        self.world.claim(frame.globals, frame.globals)
        if value is ABSENT:
            written, old = self.world.written(frame.globals, name)
            if (written and old is ABSENT) or (not written and name not in frame.globals):
                raise self.fail(NameError(f"name '{name}' is not defined", name=name))
            if not written:
                self.world.guard("HAS", frame.globals_source, name)
        self.write(frame.globals, "item", frame.globals_source, name, value)

    def first_argument(self, frame: Frame) -> Any:
        """What zero-argument `super()` takes for the receiver."""
        if not frame.code.co_argcount:
            raise self.fail(RuntimeError("super(): no arguments"))
        name = frame.code.co_varnames[0]
        content = ABSENT
        if name in frame.cells:
            content = self.cell_content(frame.cells[name])
        elif name in frame.locals:
            STEPS["LOAD_FAST"](self, frame, name)  # it may be the first to look at an argument
            content = frame.stack.pop()
        if content is ABSENT:
            raise self.fail(RuntimeError("super(): arg[0] deleted"))
        return content

    def next_appends(self) -> bool:
        frame = self.frame
        if frame is None:
            return False
        following = frame.bytecode.instructions[frame.index : frame.index + 2]
        if not following or following[0].arg != "append" or not reads_plainly(frame.instruction):
            return False
        ops = [instruction.op for instruction in following]
        return ops[0] == "LOAD_METHOD" or ops == ["LOAD_ATTR", "PUSH_NULL"]  # of a name that was imported

    def next_takes(self, value: Any) -> bool:
        frame, world = self.frame, self.world
        if frame is None or not (reads_plainly(frame.instruction) or frame.instruction.op == "BINARY_SUBSCR"):
            return False
        following = frame.bytecode.instructions[frame.index : frame.index + 2]
        if len(following) < 2:
            return False
        first, second = following
        if first.op != "LOAD_CONST" or second.op != "BINARY_SUBSCR" or world.pure:
            return False
        if any(id(value) in found for found in (world.by_original, world.appended, world.namespaces)):
            return False
        if type(value) is dict:
            return plain_key(first.arg) and first.arg in value and "__name__" not in value
        return type(first.arg) is int and -len(value) <= first.arg < len(value)

    # -- calls -----------------------------------------------------------------------------------------------
    def call_native(self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        special = INSTANCES.get(type(function))
        if special is not None and len(args) == 1 and not kwargs:
            return special(self, function, args[0])
        special = CALLED.get(type(function))
        if special is not None:
            return special(self, function, args, kwargs)
        return super().call_native(function, args, kwargs)

    # -- generators ------------------------------------------------------------------------------------------
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
            self.note_raised(error)
            error, value, thrown = self.throw_into_delegate(frame, error)
            if thrown:
                return value
        return self.resume_generator(generator, frame, error)

    def resume_generator(
        self, generator: CapturedGenerator, frame: Frame, error: BaseException | None
    ) -> Any:
        generator.started = generator.running = True
        frame.parent = self.frame
        self.depth += 1
        if self.depth > 60:
            raise Break("recursion-depth")
        try:
            signal = self.run_until_signal(frame, error)
        except Raised as raised:
            failure = raised.exception
        else:
            if signal.yielded:
                return signal.value
            generator.frame = None
            raise self.fail(StopIteration() if signal.value is None else StopIteration(signal.value))
        finally:
            generator.running = False
            self.depth -= 1
        generator.frame = None
        if isinstance(failure, StopIteration):
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
        if isinstance(error, GeneratorExit):
            self.close_iterator(inner)
            return error, None, False
        if not isinstance(inner, CapturedGenerator) and not hasattr(type(inner), "throw"):
            return error, None, False
        try:
            method = self.load_attribute(inner, "throw")
            return None, self.call(method, (error,), {}), True
        except Raised as raised:
            return raised.exception, None, False

    def close_iterator(self, inner: Any) -> None:
        if isinstance(inner, CapturedGenerator):
            self.close_generator(inner)
        elif hasattr(type(inner), "close"):
            self.call(self.load_attribute(inner, "close"), (), {})

    over = True
    """Whether capture has ended: what dies now, dies with it."""
    pending: Break | None = None
    """Why a generator that died could not be closed."""

    by_calls = False
    """Whether op by op was tried, and left something behind that only whole calls can."""
    saved_through = False
    """Whether saved-tensor hooks are active around the call: what a graph saves goes through them."""

    def drop(self, generator: CapturedGenerator) -> None:
        """Closes a generator that nothing refers to any more."""
        if self.over:
            return
        try:
            self.close_generator(generator)
        except Break as stop:
            self.pending = stop
        except Raised as raised:
            error = type(raised.exception).__name__
            self.pending = Break("generator-dies", seen=f"{generator.code.co_qualname} raises {error}")
        if self.pending is not None:
            self.pending.with_traceback(None).culprit = generator.code
            self.world.made_at[id(generator.code)] = self.world.made_at[id(generator)]

    def close_generator(self, generator: CapturedGenerator) -> None:
        if generator.frame is None:
            return
        if not generator.started:
            generator.frame = None
            return
        try:
            self.advance(generator, None, GeneratorExit())
        except Raised as raised:
            if isinstance(raised.exception, (GeneratorExit, StopIteration)):
                return
            raise
        raise self.fail(RuntimeError("generator ignored GeneratorExit"))


def reads_plainly(instruction: Instruction) -> bool:
    """Whether what an instruction reads is what it pushes."""
    return instruction.op in ("LOAD_GLOBAL", "LOAD_FAST", "LOAD_DEREF", "LOAD_ATTR")


def unbound(frame: Frame, name: str) -> NameError:
    if name in frame.code.co_freevars:
        text = (
            f"cannot access free variable '{name}' where it is not associated with a value in enclosing scope"
        )
        return NameError(text)
    return UnboundLocalError(f"cannot access local variable '{name}' where it is not associated with a value")


def push_handled(frame: Frame, error: BaseException) -> None:
    frame.stack += [PreviousException(frame.handled, error), error]
    frame.handled = error


__all__ = ["STEPS", "Machine", "Signal", "Source", "Stop", "push_handled", "unbound"]
