"""The machine: runs canonical instructions over the interpreter's values.

Takes a root frame, gives what it returns, or stops just before the instruction that it was told to stop at.
One idea: a frame's exceptions are Python's own, carried in `Raised`; a `Break` ends the run, and the next run
stops before the root frame's instruction where it happened.
"""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import Any, TypeVar

import weft.capture.arrays as _arrays  # noqa: F401 - registers NumPy
import weft.capture.builtins as _handlers  # noqa: F401 - registers what stands for builtins
import weft.capture.checkpointing as _checkpointing  # noqa: F401 - registers checkpoints
import weft.capture.custom_function.apply as _custom_function  # noqa: F401 - registers autograd Functions
import weft.capture.higher_order as _higher_order  # noqa: F401 - registers control flow
import weft.capture.iteration as _iteration  # noqa: F401 - for those that walk and search
import weft.capture.lazy_modules as _lazy_modules  # noqa: F401 - and for modules that wait for their sizes
import weft.capture.library as _library  # noqa: F401 - and for functions of the standard library
import weft.capture.optimizers as _optimizers  # noqa: F401 - and for optimizers' state
import weft.capture.saved_tensor_hooks as _saved_tensor_hooks  # noqa: F401 - and for saved-tensor hooks
import weft.capture.transforms as _transforms  # noqa: F401 - and function transforms
from weft.autograd.checkpoint import Enough
from weft.capture.attributes import Attributes
from weft.capture.binding import bind_arguments
from weft.capture.bytecode.effects import values_seen
from weft.capture.bytecode.instructions import Instruction
from weft.capture.c_arguments import CArguments
from weft.capture.c_calls import CCalls
from weft.capture.calls import Calls
from weft.capture.frame import Frame, PreviousException, Unread
from weft.capture.generators import Generators
from weft.capture.hosting import MachineHost
from weft.capture.inputs import Inputs
from weft.capture.iterators import Iterators
from weft.capture.logs import is_ours
from weft.capture.open_texts import refuse_open
from weft.capture.operators import Operators
from weft.capture.parts import Parts
from weft.capture.texts import Texts
from weft.capture.values import Args, Kwargs, Raised, has_type
from weft.capture.variables import Variables
from weft.capture.world import Unopened, World
from weft.capture.wrapping import SYMBOLIC, Wrapping
from weft.core.interrupts import let_through
from weft.graph.graph import Graph
from weft.trace.breaks import Break
from weft.trace.op_recorder import OpRecorder
from weft.trace.recorder import Recorder
from weft.trace.scalars import Scalars, plain

LIBRARY_CALL = "_calling.<locals>.call"
"""The function of `weft.capture.forms` around what has no code that can be read: its line is nobody's."""
Given = TypeVar("Given")
Step = Callable[["Machine", Frame, Any], Any]
STEPS: dict[str, Step] = {}
"""One handler per canonical op; `weft.capture.instructions` fills it, and a test says that it is complete."""


class StopReached(BaseException):
    """The root frame reached the instruction to stop at."""


class Signal:
    """What ends a frame's run: a return or a yield."""

    __slots__ = ("value", "yielded")

    def __init__(self, value: Any, yielded: bool) -> None:
        self.value, self.yielded = value, yielded


class Machine:
    """The interpreter of one capture: the loop over instructions, exceptions, and those who do the work.

    Each collaborator is given the machine. What it needs of those made before it stands in its `__init__`;
    for the others, made later, it asks the machine.
    """

    world: World
    graph: Graph
    recorder: Recorder
    scalars: Scalars
    inputs: Inputs  # placeholders, made when first used
    calls: Calls  # who runs a call; Python functions and classes
    wrapping: Wrapping  # objects from outside become values
    attributes: Attributes  # getattr, setattr, super
    variables: Variables  # locals, cells, globals
    c_arguments: CArguments  # what may be handed to C code
    generators: Generators  # captured generators: advance, throw, close
    iterators: Iterators  # iter, next, all items
    texts: Texts  # str, repr, format
    parts: Parts  # containers of which only parts are looked at
    operators: Operators  # arithmetic, comparison, truth, subscription
    c_calls: CCalls  # builtins and builtin methods

    frame: Frame | None = None  # also of a machine that has let go: its recorder may still ask where it is
    depth = 0
    by_calls = False
    """Whether op by op was tried, and left something behind that only whole calls can."""
    saved_through = False
    """Whether saved-tensor hooks are active around the call: what a graph saves goes through them."""

    def __init__(
        self,
        function: types.FunctionType,
        volatile: frozenset[str] = frozenset(),
        dynamic: bool | None = None,
        stop_at: int | None = None,
        by_ops: bool = False,
    ) -> None:
        self.entry_function = function
        self.stop_at = stop_at
        self.root: Frame | None = None
        self.root_steps = 0
        self.by_ops = by_ops
        """Whether calls are taken apart into ops, over which the tape and transforms can run."""
        self.open_texts = False
        """Whether there are any; see `weft.capture.open_texts`."""
        self.hears_ops = False
        """Whether functions that were registered with custom ops are captured code's."""
        self.leaves: set[int] = set()
        """The leaves whose hooks are known, by `id`."""
        self.handed: set[int] = set()
        """Gradients that hooks of a tape have got, by `id`."""
        self.world = World()
        self.world.steps_now = lambda: self.root_steps
        self.graph = Graph()
        self.inputs = Inputs(self)
        self.recorder = (OpRecorder if by_ops else Recorder)(self.graph, self.inputs.node)
        self.recorder.where = self.where
        self.recorder.host = MachineHost(self)
        self.recorder.scalars = self.scalars = Scalars()
        self.calls = Calls(self)
        self.wrapping = Wrapping(self, volatile, dynamic)
        self.scalars.keep, self.scalars.asked = self.world.keep, self.wrapping.refuse_volatile
        self.attributes = Attributes(self)
        self.variables = Variables(self)
        self.c_arguments = CArguments(self)
        self.generators = Generators(self)
        self.iterators = Iterators(self)
        self.texts = Texts(self)
        self.parts = Parts(self)
        self.operators = Operators(self)
        self.c_calls = CCalls(self)

    def forget(self) -> None:
        """Lets go of all that it and its collaborators hold."""
        for held in vars(self).values():
            if getattr(held, "machine", None) is self:
                vars(held).clear()
        vars(self).clear()

    def where(self) -> tuple[str, int, str] | None:
        """The user's line that is being captured; a line of the library's where no user's is behind it."""
        frame = self.frame
        while frame is not None:
            if not is_ours(frame.code.co_filename):
                return frame.place()
            frame = frame.parent
        nearest = self.frame
        return None if nearest is None or nearest.code.co_qualname == LIBRARY_CALL else nearest.place()

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
        instructions, generators = frame.bytecode.instructions, self.generators
        unopened = self.world.unopened
        is_root = frame is self.root
        while True:
            instruction: Instruction = instructions[frame.index]
            frame.instruction = instruction
            if is_root:
                if (frame.lazy or unopened) and not self.read_stack(frame, instruction):
                    raise StopReached
                if self.root_steps == self.stop_at:
                    raise StopReached
                self.root_steps += 1
            elif unopened:
                self.read_values(frame, instruction)
            frame.index += 1
            try:
                signal: Signal | None = STEPS[instruction.op](self, frame, instruction.arg)
                if generators.pending is not None:
                    raise generators.pending
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
        """Reads what the instruction looks at, and opens the containers of which it may need all."""
        stack = frame.stack
        seen = values_seen(instruction.op, instruction.arg)
        if seen == 0:
            return
        first = 0 if seen is None else len(stack) - seen
        waiting = False
        for place in range(first, len(stack)):
            value = stack[place]
            if type(value) is Unread:
                value = stack[place] = self.wrapping.read(value.value, value.source)
            waiting |= type(value) is Unopened
        if waiting:
            kept = self.parts.places_kept(instruction, stack)
            for place in range(first, len(stack)):
                value = stack[place] = self.parts.now(stack[place])
                if type(value) is Unopened and len(stack) - place not in kept:
                    stack[place] = self.parts.open(value)
        frame.lazy = frame.lazy and any(type(value) is Unread for value in stack)

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
        """`sys.exc_info()`."""
        error = self.handled(self.frame)
        if error is None:
            return None, None, None
        return type(error), error, self.attributes.traceback_of(error)

    # -- calls as they are, and what they raise --------------------------------------------------------------
    def native(self, function: Callable[..., Given], /, *args: Any, **kwargs: Any) -> Given:
        """Calls a function as it is, uninterpreted; what it raises is raised in the captured program."""
        if self.open_texts and function is not bind_arguments and function is not dict:
            refuse_open((args, kwargs))
        try:
            return function(*args, **kwargs)
        except RecursionError as error:
            let_through(error)
            raise Break("recursion-depth") from None
        except FloatingPointError as error:  # see `session`: NumPy would warn
            let_through(error)
            raise Break("numpy-call", seen=str(error)) from None
        except (Exception, Enough) as error:
            let_through(error)
            caught: Any = error
        if type(caught) is TypeError and wants_numbers(function, args, kwargs):
            fixed = {name: specialised(value) for name, value in kwargs.items()}
            return self.native(function, *map(specialised, args), **fixed)
        try:
            # The machine's own frames are no part of the program, and must hold none of its objects.
            raise Raised(self.note_raised(caught.with_traceback(None)))
        finally:
            del caught  # its traceback holds this frame

    def note_raised(self, error: BaseException) -> BaseException:
        """Files an exception of the captured program, and puts ordinary names for symbols into its text."""
        if len(error.args) == 1 and type(error.args[0]) is str and "Sym" in error.args[0]:
            text = error.args[0].replace("SymInt", "int").replace("SymFloat", "float")
            error.args = (text.replace("SymBool", "bool"),)
        self.world.raised.setdefault(id(error), (error, self.root_steps))
        return error

    def fail(self, error: BaseException) -> Raised:
        """An exception of the captured program, to be raised by the caller."""
        return Raised(self.note_raised(error))


def push_handled(frame: Frame, error: BaseException) -> None:
    frame.stack += [PreviousException(frame.handled, error), error]
    frame.handled = error


def wants_numbers(function: Any, args: Args, kwargs: Kwargs) -> bool:
    """Whether C code that calls nothing back refused its arguments, and symbols are among them."""
    if not has_type(function, (types.BuiltinFunctionType, type, types.MethodWrapperType)):
        return False
    inner = [item for value in args if type(value) is tuple for item in value]
    given = [*args, *kwargs.values(), *inner]
    simple = all(not callable(value) for value in given)
    return simple and any(has_type(value, SYMBOLIC) for value in given)


def specialised(value: Any) -> Any:
    """The number that a symbol stands for, also in a tuple."""
    return tuple(map(plain, value)) if type(value) is tuple else plain(value)
