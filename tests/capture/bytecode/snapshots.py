"""Snapshots: takes a native frame that stands before an instruction, gives what an interpreter would know.

One idea: CPython keeps the value stack in memory behind the frame object, and `decode` knows how deep it is:
a function can be left natively before any instruction, and be entered again by resume code.
"""

from __future__ import annotations

import builtins
import ctypes
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import CellType, CodeType, FrameType, FunctionType
from typing import Any

from tests.capture.bytecode import corpus
from tests.capture.bytecode.corpus import EFFECTS, Case
from weft.capture.bytecode.drafts import NULL_FIRST
from weft.capture.bytecode.instructions import decode
from weft.capture.bytecode.native import slot_names
from weft.capture.bytecode.resume import ResumePoint, StackKind, resume_code

NULL = type("Null", (), {"__repr__": lambda self: "NULL"})()
FRAME_POINTER = 24  # in a frame object: after its header and f_back
FIRST_SLOT = 72  # in the interpreter's frame, on 64 bits, in all of 3.11 to 3.13


def read_slots(frame: FrameType, count: int) -> list[Any]:
    """The first `count` slots behind a frame: locals, cells, then the stack."""
    inner = ctypes.c_void_p.from_address(id(frame) + FRAME_POINTER).value
    values = []
    for number in range(count):
        place = inner + FIRST_SLOT + 8 * number
        pointer = ctypes.c_void_p.from_address(place).value
        values.append(NULL if pointer is None else ctypes.py_object.from_address(place).value)
    return values


@dataclass
class Snapshot:
    """A canonical frame: variables, cells, stack."""

    code: CodeType
    index: int
    variables: dict[str, Any]
    cells: dict[str, CellType]
    stack: list[Any]
    kinds: list[StackKind]

    @property
    def bound(self) -> frozenset[str]:
        return frozenset(self.variables) | {name for name, cell in self.cells.items() if full(cell)}

    def point(self) -> ResumePoint:
        return resume_code(self.code, self.index, tuple(self.kinds), self.bound)

    def arguments(self, point: ResumePoint) -> list[Any]:
        """What the parameters of `point` ask for."""
        give = {
            "local": lambda parameter: self.variables[parameter.name],
            "content": lambda parameter: self.cells[parameter.name].cell_contents,
            "stack": lambda parameter: self.stack[parameter.slot],
        }
        return [give[parameter.kind](parameter) for parameter in point.parameters]

    def closure(self, point: ResumePoint) -> tuple[CellType, ...] | None:
        return tuple(self.cells[name] for name in point.freevars) or None


def advance(snapshot: Snapshot, globals_: dict[str, Any]) -> bool:
    """Interprets the first part of an instruction that has several; False if that part jumps."""
    instruction = decode(snapshot.code).instructions[snapshot.index]
    op, arg, stack, kinds = instruction.op, instruction.arg, snapshot.stack, snapshot.kinds
    if op == "STORE_FAST":
        snapshot.variables[arg] = stack.pop()
    elif op.startswith("POP_JUMP_IF"):
        if bool(stack.pop()) == op.endswith("TRUE"):
            return False
    elif op == "BUILD_SLICE":
        stack[-2:] = [slice(*stack[-2:])]
    else:
        push = {
            "LOAD_FAST": lambda: snapshot.variables[arg],
            "LOAD_CONST": lambda: arg,
            "LOAD_GLOBAL": lambda: globals_.get(arg) or getattr(builtins, arg),
            "COPY": lambda: stack[-arg],
        }
        stack.append(push[op]())
    kinds[len(stack) :] = []
    kinds += [StackKind.VALUE] * (len(stack) - len(kinds))
    snapshot.index += 1
    return True


def full(cell: CellType) -> bool:
    try:
        cell.cell_contents
    except ValueError:
        return False
    return True


def take(
    frame: FrameType, index: int, handled: BaseException | None = None, suspended: bool = False
) -> Snapshot:
    """The canonical state of a frame that stands before instruction `index`, where `handled` is handled.

    If it is `suspended` at that instruction, a yield, what it yielded is no longer there.
    """
    code = frame.f_code
    bytecode = decode(code)
    entry = bytecode.entries[index]
    layout = entry.slots
    if entry.rest and layout and layout[-1].kind == "hole":
        layout = layout[:-1]  # LOAD_GLOBAL, which will push it
    layout = layout[:-1] if suspended else layout
    names = slot_names(code)
    values = read_slots(frame, len(names) + len(layout))
    slots = dict(zip(names, values))
    cell_names = {*code.co_cellvars, *code.co_freevars}
    cells = {name: slots[name] for name in cell_names if isinstance(slots[name], CellType)}
    cells.update((name, CellType()) for name in entry.plain)
    local_names = slots.keys() - (cell_names - entry.plain)
    variables = {name: slots[name] for name in local_names if slots[name] is not NULL}
    stack = [value for value, slot in zip(values[len(names) :], layout) if not slot.native_only]
    slot_kinds = [slot.kind for slot in layout if not slot.native_only]
    if NULL_FIRST:
        for place in range(len(stack) - 1):
            if stack[place] is NULL and slot_kinds[place + 1] in ("null", "self"):
                stack[place], stack[place + 1] = stack[place + 1], NULL
    kinds = [StackKind.NULL if value is NULL else StackKind.VALUE for value in stack]
    for place in reversed(range(len(stack))):
        if slot_kinds[place] == "previous":
            stack[place], handled = handled, stack[place]
            kinds[place] = StackKind.EXCEPTION
    return Snapshot(code, index, variables, cells, stack, kinds)


# What a run came to


@dataclass
class Outcome:
    value: Any = None
    error: tuple[Any, ...] | None = None
    effects: tuple[Any, ...] = ()


def describe(error: BaseException, depth: int = 4) -> tuple[Any, ...]:
    """Type, text, lines in the corpus and what it came from."""
    lines = [
        (entry.name, entry.lineno)
        for entry in traceback.extract_tb(error.__traceback__)
        if entry.filename.endswith(("corpus.py", "test_generators.py"))
    ]
    parts = getattr(error, "exceptions", ())
    linked = [link and describe(link, depth - 1) for link in (error.__cause__, error.__context__) if depth]
    return type(error).__name__, str(error), lines, error.__suppress_context__, linked, list(map(str, parts))


def outcome(call: Callable[[], Any]) -> Outcome:
    try:
        value = call()
    except BaseException as error:
        return Outcome(error=describe(error), effects=tuple(map(repr, EFFECTS)))
    return Outcome(value=repr(value), effects=tuple(map(repr, EFFECTS)))


def in_new_thread(call: Callable[[], Any]) -> Any:
    """The result of a call that no exception is being handled around."""
    results: list[Any] = []
    errors: list[BaseException] = []

    def target() -> None:
        try:
            results.append(call())
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=target)
    thread.start()
    thread.join()
    if errors:
        raise errors[0]
    return results[0]


def call(case: Case) -> Any:
    return case.function(*case.arguments(), **case.keywords)


def run(case: Case) -> Outcome:
    """What the original comes to."""
    EFFECTS.clear()
    return in_new_thread(lambda: outcome(lambda: call(case)))


def visits(case: Case) -> list[int]:
    """The offsets of the instructions that the original runs, in order."""
    seen: list[int] = []

    def trace(frame: FrameType, event: str, value: Any) -> Any:
        if frame.f_code is not case.function.__code__:
            return None
        frame.f_trace_opcodes = True
        if event == "opcode":
            seen.append(frame.f_lasti)
        return trace

    with tracing(trace):
        outcome(lambda: call(case))
    return seen


class tracing:
    """Traces; 3.12 sends no opcode events the first time that anything asks for them."""

    def __init__(self, trace: Any) -> None:
        self.trace = trace

    def __enter__(self) -> None:
        self.before = sys.gettrace()
        sys.settrace(self.trace)

    def __exit__(self, *error: Any) -> None:
        sys.settrace(self.before)


def warm_up() -> None:
    visits(Case(describe, lambda: (ValueError(),)))


def left_at(case: Case, visit: int, leave: Callable[[FrameType], Any]) -> Any:
    """What `leave` gives when the original's frame is about to run its instruction number `visit`."""
    count = -1
    results: list[Any] = []

    def trace(frame: FrameType, event: str, value: Any) -> Any:
        nonlocal count
        if frame.f_code is not case.function.__code__:
            return None
        frame.f_trace_opcodes = True
        if event == "opcode":
            count += 1
            if count == visit:
                try:
                    results.append(leave(frame))
                except BaseException as error:
                    results.append(error)
        return trace

    with tracing(trace):
        outcome(lambda: call(case))  # its rest runs as well, and is of no interest
    if not results:
        return None
    if isinstance(results[0], BaseException):
        raise results[0]
    return results[0]


def resumed(snapshot: Snapshot) -> Case:
    """The resumed function and its arguments, from a snapshot."""
    point = snapshot.point()
    code = point.code
    function = FunctionType(code, vars(corpus), code.co_name, None, snapshot.closure(point))
    arguments = tuple(snapshot.arguments(point))
    return Case(function, lambda: arguments)


def first_visits(seen: list[int], most: int = 2) -> Iterator[tuple[int, int]]:
    """(visit, offset) for the first few visits of every offset."""
    counts: dict[int, int] = {}
    for visit, offset in enumerate(seen):
        counts[offset] = counts.get(offset, 0) + 1
        if counts[offset] <= most:
            yield visit, offset
