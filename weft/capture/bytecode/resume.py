"""Resume code: takes a code object and a point in the middle, gives a code object that starts there.

One idea: the new code is the old one, instruction for instruction, between a head and a tail:

    head    COPY_FREE_VARS, RESUME, jump to the tail
    body    the original, its variables renumbered
    tail    puts the arguments back on the stack, jumps into the body

so that loops, handlers and lines need no thought: they are the original's. Parameters are the original
arguments that are bound, in their order, then the other bound locals, then what lies on the stack. All cells
come by the closure.

# Note [Stack of a resumed frame]
What the tail does for each slot, with the kind that the caller states:

    VALUE       .stack3 is a parameter: LOAD_FAST, DELETE_FAST, so that the frame keeps nothing alive and
                shows no name
    NULL        PUSH_NULL, on 3.11 and 3.12 then SWAP 2: it belongs under the callable there
    EXCEPTION   the slot that PUSH_EXC_INFO made. The parameter is the exception *being handled*, which
                PUSH_EXC_INFO puts in place; what the caller handles goes to the stack. It must have been
                raised: 3.11 crashes in a `with` that is left by an exception without a traceback
    a hole      (layout.py, Note [Holes]) is no value of the canonical stack: PUSH_NULL
    lasti       a VALUE: instruction.offset // 2 in the code that is left. The body's offsets are others: a
                table among the constants translates. In all resumed codes of an original they are the same

# Note [Resuming what was resumed]
A resumed function is compiled like any other, and may break again. Its constants end with (MARK, original):
the new point is found in the original, so that codes do not grow, and a loop that breaks at one place comes
back to the very same code object.
"""

from __future__ import annotations

from collections.abc import Hashable
from enum import Enum
from functools import lru_cache
from inspect import CO_ASYNC_GENERATOR, CO_COROUTINE, CO_GENERATOR, CO_OPTIMIZED, CO_VARARGS, CO_VARKEYWORDS
from types import CodeType

from weft.capture.bytecode.assembler import END, Assembled, NewInstruction, Range, assemble
from weft.capture.bytecode.drafts import NO_ENTRY, NULL_FIRST, Step
from weft.capture.bytecode.effects import STACK
from weft.capture.bytecode.instructions import Bytecode, EntryPoint, StackSlot, decode
from weft.capture.bytecode.layout import SAVED_CELL
from weft.capture.bytecode.native import (
    JUMPS,
    LOCALS,
    MARK,
    OPCODES,
    PAIRS,
    Positions,
    original_code,
    read_exception_table,
    read_instructions,
    slot_names,
)
from weft.core.records import record

SUSPENDING = CO_GENERATOR | CO_COROUTINE | CO_ASYNC_GENERATOR
MANY_SLOTS = 200  # from here on, slots may need two units in one resumed code and one in another


class StackKind(Enum):
    """What a slot of the stack holds; Note [Stack of a resumed frame]."""

    VALUE = "value"
    NULL = "null"
    EXCEPTION = "exception"


@record(frozen=True, slots=True)
class ResumeParameter:
    """What goes into one argument of a resumed function.

    kind "local": the local variable `name`; "content": what the cell `name` holds; "stack": the value at
    `slot` of the stack, counted from the bottom (for an EXCEPTION: the exception being handled).
    """

    kind: str
    name: str
    slot: int | None = None


@record(frozen=True, slots=True, eq=False)
class ResumePoint:
    """Code that starts in the middle of `original`: call it with `parameters`, in order, by position.

    types.FunctionType(code, globals, name, None, closure), where closure has the cells of `freevars`, in
    order. Where an inlined comprehension made a cell variable a plain local, any new cell will do for it.
    """

    code: CodeType
    parameters: tuple[ResumeParameter, ...]
    freevars: tuple[str, ...]
    original: CodeType
    index: int


class CannotResume(ValueError):
    """A point that code cannot be entered at."""


def original_index(code: CodeType, index: int) -> int:
    """The instruction of the original that an instruction of resumed code is."""
    original = original_code(code)
    if original is code:
        return index
    mine, theirs = decode(code), decode(original)
    there = {place: offset for offset, place in _body_places(original).items()}
    wanted = mine.instructions[index].offset
    if wanted not in there:
        raise CannotResume(f"{mine.instructions[index].op} at {wanted} only prepares the stack")
    same = [each.index for each in mine.instructions if each.offset == wanted]
    candidates = [each.index for each in theirs.instructions if each.offset == there[wanted]]
    return candidates[same.index(index)]


def resume_code(
    code: CodeType, index: int, stack: tuple[StackKind, ...] = (), bound: frozenset[str] = frozenset()
) -> ResumePoint:
    """Code that enters `code` just before instruction `index` of its canonical form.

    `stack` tells what lies on the canonical stack there, bottom first; `bound` which locals have a value, and
    which cells are not empty. Locals that are not bound stay so. CannotResume where there is no way in.
    """
    original = original_code(code)
    if original is not code:
        own = {*original.co_varnames, *original.co_cellvars, *original.co_freevars}
        bound |= {name.removeprefix(PLAIN) for name in bound}
        if CONTENT in bound:
            bound |= {original.co_varnames[0]}
        return _resume(original, original_index(code, index), stack, bound & own, True)
    return _resume(code, index, stack, bound, False)


CONTENT = ".content"
PLAIN = ".plain "


@lru_cache(maxsize=4096)
def _resume(
    code: CodeType, index: int, stack: tuple[StackKind, ...], bound: frozenset[str], resumed: bool
) -> ResumePoint:
    bytecode = decode(code)
    entry = bytecode.entries[index]
    _check(bytecode, index, stack)
    plan = _Plan(code, bound, stack, entry)
    body, ranges = _body(code, plan)
    positions = bytecode.instructions[index].positions
    tail = _Tail(code, plan, positions, entry, resumed)
    tail.push_stack(stack)
    tail.run_rest(bytecode, index)
    items = [*_head(code, plan, positions), *body, *tail.items]
    ranges += tail.protected(bytecode.instructions[index].offset)
    assembled = assemble(items, ranges, code.co_firstlineno)
    constants = (*code.co_consts, *tail.constants(), (MARK, code))
    return ResumePoint(
        _replace(code, plan, assembled, constants, len(entry.slots or ())),
        tuple(plan.parameters),
        plan.free,
        code,
        index,
    )


def _check(bytecode: Bytecode, index: int, stack: tuple[StackKind, ...]) -> None:
    """Refuses what would crash the interpreter rather than do something wrong."""
    entry, instruction = bytecode.entries[index], bytecode.instructions[index]
    where = f"{instruction.op} at line {instruction.line} of {bytecode.code.co_qualname}"
    kinds = bytecode.kinds(index)
    if not bytecode.code.co_flags & CO_OPTIMIZED:
        raise CannotResume(f"{where}: module and class bodies have no local slots")
    if entry.offset == NO_ENTRY or kinds is None or entry.slots is None:
        raise CannotResume(f"{where}: no path leads there")
    if len(kinds) != len(stack):
        raise CannotResume(f"{where}: the stack has {len(kinds)} values, not {len(stack)}")
    for kind, given in zip(kinds, stack):
        if (kind == "previous") != (given is StackKind.EXCEPTION):
            raise CannotResume(f"{where}: a slot of kind {kind} cannot be {given.name}")
        if given is StackKind.NULL and kind not in ("null", "self", "saved"):
            raise CannotResume(f"{where}: a slot of kind {kind} cannot be NULL")
        if kind == "null" and given is not StackKind.NULL:
            raise CannotResume(f"{where}: a slot of kind null must be NULL")


class _Plan:
    """Who gets which slot in the new code."""

    def __init__(
        self, code: CodeType, bound: frozenset[str], stack: tuple[StackKind, ...], entry: EntryPoint
    ) -> None:
        self.free = (*code.co_cellvars, *code.co_freevars)
        arguments = code.co_argcount + code.co_kwonlyargcount
        arguments += bool(code.co_flags & CO_VARARGS) + bool(code.co_flags & CO_VARKEYWORDS)
        local = [name for name in code.co_varnames if name not in self.free]
        self.parameters: list[ResumeParameter] = []
        names: list[str] = []
        if "__class__" in code.co_freevars and code.co_argcount:
            # super() without arguments looks at the first argument, and at nothing else.
            first = code.co_varnames[0]
            if first not in bound:
                raise CannotResume(f"{code.co_qualname}: super() needs {first!r}, which is not bound")
            if first in self.free:
                names.append(CONTENT)
                self.parameters.append(ResumeParameter("content", first))
        for name in local:
            if name in bound:
                names.append(name)
                self.parameters.append(ResumeParameter("local", name))
        # Inside an inlined comprehension a cell variable may be a plain local: PLAIN.
        self.plain = {name: PLAIN + name for name in sorted(entry.plain) if name in bound}
        for name, called in self.plain.items():
            names.append(called)
            self.parameters.append(ResumeParameter("local", name))
        self.stack = _stack_names(entry)
        for slot, kind in enumerate(stack):
            if kind is not StackKind.NULL:
                names.append(self.stack[slot])
                self.parameters.append(ResumeParameter("stack", self.stack[slot], slot))
        self.argument_count = len(names)
        self.unbound = [name for name in local if name not in bound]
        names += self.unbound
        names += [name for name, kind in zip(self.stack, stack) if kind is StackKind.NULL]
        self.names = tuple(names)
        self.slots = {name: number for number, name in enumerate((*names, *self.free))}
        self.slot_width = 2 if len(slot_names(code)) > MANY_SLOTS else 1


def _stack_names(entry: EntryPoint) -> list[str]:
    """What the parameters for the stack are called; no identifier starts with a dot."""
    real = [slot for slot in entry.slots or () if not slot.native_only]
    return [
        f"{SAVED_CELL}{number} {slot.detail[0]}" if _is_saved_cell(slot) else f"{STACK}{number}"
        for number, slot in enumerate(real)
    ]


def _is_saved_cell(slot: StackSlot) -> bool:
    return slot.kind == "saved" and slot.detail is not None and bool(slot.detail[1])


def _head(code: CodeType, plan: _Plan, positions: Positions) -> list[NewInstruction]:
    """The head, of one length for all resumed codes of an original: lasti depends on it."""
    copy = NewInstruction("COPY_FREE_VARS", len(plan.free)) if plan.free else NewInstruction("NOP")
    copy.width = plan.slot_width
    items = [copy]
    if code.co_flags & SUSPENDING:
        items += [NewInstruction("RETURN_GENERATOR"), NewInstruction("POP_TOP")]
    items += [NewInstruction("RESUME"), NewInstruction("JUMP_FORWARD", jump="tail", width=3)]
    for item in items:
        item.positions = positions
    return items


def _body(code: CodeType, plan: _Plan) -> tuple[list[NewInstruction], list[Range]]:
    """The original from its first RESUME on, labelled by its offsets."""
    natives = read_instructions(code)
    old = slot_names(code)
    items: list[NewInstruction] = []
    start = next(index for index, native in enumerate(natives) if native.name == "RESUME")
    for native in natives[start:]:
        item = NewInstruction(native.name, native.arg, native.positions, native.start)
        if native.name in PAIRS:
            first, second = PAIRS[native.name]
            item.name, item.arg = first, 0
            items.append(_slot_item(item, old[native.arg >> 4], plan))
            item = _slot_item(NewInstruction(second, 0, native.positions), old[native.arg & 15], plan)
        elif native.name in LOCALS:
            item = _slot_item(item, old[native.arg], plan)
        elif native.name in JUMPS:
            item.jump = native.target
        items.append(item)
    labels = [native.start for native in natives[start:]]
    items.append(NewInstruction("NOP", label="body end"))  # never reached: ranges may end there

    def label(offset: int) -> int | str:
        return next((each for each in labels if each >= offset), "body end")

    ranges = [
        Range(label(line.start), label(line.end), line.target, line.depth, line.lasti)
        for line in read_exception_table(code)
    ]
    return items, ranges


def _slot_item(item: NewInstruction, name: str, plan: _Plan) -> NewInstruction:
    item.arg = plan.slots[name]
    item.width = plan.slot_width
    # The compiler knew which locals are bound; in code entered elsewhere an error is better than a crash
    if item.name == "LOAD_FAST" and name in plan.unbound and "LOAD_FAST_CHECK" in OPCODES:
        item.name = "LOAD_FAST_CHECK"
    return item


@lru_cache(maxsize=1024)
def _body_places(code: CodeType) -> dict[int, int]:
    """Offset of an instruction of `code` -> its offset in every resumed code made of it."""
    everything = frozenset({*code.co_varnames, *code.co_cellvars, *code.co_freevars})
    plan = _Plan(code, everything, (), EntryPoint(0, (), (), frozenset()))
    positions = Positions(None, None, None, None)
    body, _ = _body(code, plan)
    items = [*_head(code, plan, positions), *body, NewInstruction("NOP", label="tail")]
    places = assemble(items, [], code.co_firstlineno).places
    widths = {item.label: item.width for item in body}
    result = {}
    for native in read_instructions(code):
        if native.start not in places:
            continue
        opcode = places[native.start] + widths[native.start] - 1
        result[native.offset] = 2 * opcode
    return result


class _Tail:
    """The tail being written: from arguments to the stack, then into the body."""

    def __init__(
        self, code: CodeType, plan: _Plan, positions: Positions, entry: EntryPoint, resumed: bool
    ) -> None:
        self.code, self.plan, self.positions, self.entry = code, plan, positions, entry
        self.resumed, self.first_constant = resumed, len(code.co_consts)
        self.translates = False
        self.items: list[NewInstruction] = []
        self.rest_start = self.rest_end = 0

    def add(self, name: str, arg: int = 0, jump: object = None) -> None:
        label = None if self.items else "tail"
        self.items.append(NewInstruction(name, arg, self.positions, label, jump))

    def push_stack(self, stack: tuple[StackKind, ...]) -> None:
        """Note [Stack of a resumed frame]."""
        for name in sorted(self.entry.plain):
            self.add("LOAD_FAST_AND_CLEAR", self.plan.slots[name])
            self.add("POP_TOP")
            if name in self.plan.plain:
                self.add("LOAD_FAST", self.plan.slots[self.plan.plain[name]])
                self.add("DELETE_FAST", self.plan.slots[self.plan.plain[name]])
                self.add("STORE_FAST", self.plan.slots[name])
        number = 0
        for slot in self.entry.slots or ():
            if slot.kind == "hole":
                self.add("PUSH_NULL")
            elif slot.kind == "filler":
                self.add("LOAD_CONST", self.first_constant + 1)
            else:
                self.push(number, slot, stack)
                number += 1

    def push(self, number: int, slot: StackSlot, stack: tuple[StackKind, ...]) -> None:
        parameter = self.plan.slots[self.plan.stack[number]]
        if slot.kind == "saved" and not _is_saved_cell(
            slot
        ):  # a value or NULL, and the decoder should see that it is
            self.add("LOAD_FAST_AND_CLEAR", parameter)
            return
        if stack[number] is StackKind.NULL:
            self.add("PUSH_NULL")
            if NULL_FIRST:
                self.add("SWAP", 2)
            return
        if slot.kind == "lasti" and not self.resumed:
            self.translates = True
            self.add("LOAD_CONST", self.first_constant)
            self.add("LOAD_FAST", parameter)
            self.add("BINARY_SUBSCR")
        else:
            self.add("LOAD_FAST", parameter)
        self.add("DELETE_FAST", parameter)
        if stack[number] is StackKind.EXCEPTION:
            self.add("PUSH_EXC_INFO")
            self.add("POP_TOP")

    def run_rest(self, bytecode: Bytecode, index: int) -> None:
        """What is left of a native instruction that is entered in its middle; then the jump."""
        instruction = bytecode.instructions[index]
        self.rest_start = len(self.items)
        for step in self.entry.rest:
            self.run_step(step)
        truth = instruction.op in ("POP_JUMP_IF_TRUE", "POP_JUMP_IF_FALSE")
        truth = truth or (instruction.op == "UNARY" and instruction.arg == "not")
        if truth and "TO_BOOL" in OPCODES:  # the compiler leaves it out after comparisons
            self.add("TO_BOOL")
        self.rest_end = len(self.items)
        if not self.items or self.items[-1].name != "RETURN_VALUE":
            self.add("JUMP_BACKWARD_NO_INTERRUPT", jump=self.entry.offset)

    def run_step(self, step: Step) -> None:
        op, arg = step
        if op in ("LOAD_FAST", "STORE_FAST"):
            self.add(op, self.plan.slots[arg])
        elif op == "LOAD_GLOBAL":
            self.add(op, self.code.co_names.index(arg) << 1)
        elif op in ("POP_JUMP_IF_TRUE", "POP_JUMP_IF_FALSE"):
            self.add(op.replace("JUMP_", "JUMP_BACKWARD_"), jump=arg)
        elif op in ("PUSH_NULL", "POP_TOP", "RETURN_VALUE", "BINARY_SUBSCR", "STORE_SUBSCR"):
            self.add(op)
        else:
            raise CannotResume(f"{op} cannot be run on its own")

    def protected(self, offset: int) -> list[Range]:
        """The handler of the instruction that is entered also is that of its rest."""
        if self.rest_start == self.rest_end:
            return []
        first = self.items[self.rest_start]
        first.label = first.label or "rest"
        end: Hashable = END
        if self.rest_end < len(self.items):
            end = self.items[self.rest_end].label = "leave"
        for line in read_exception_table(self.code):
            if line.start <= offset < line.end:
                return [Range(first.label, end, line.target, line.depth, line.lasti)]
        return []

    def constants(self) -> tuple[object, ...]:
        """The table from the original's lasti to the body's, where one is needed, and None for fillers."""
        if not self.translates:
            return ((), None)
        places = _body_places(self.code)
        return (tuple(places.get(offset, 0) // 2 for offset in range(0, len(self.code.co_code), 2)), None)


def _replace(
    code: CodeType, plan: _Plan, assembled: Assembled, constants: tuple[object, ...], depth: int
) -> CodeType:
    return code.replace(
        co_code=assembled.code,
        co_linetable=assembled.lines,
        co_exceptiontable=assembled.exceptions,
        co_consts=constants,
        co_varnames=plan.names,
        co_nlocals=len(plan.names),
        co_cellvars=(),
        co_freevars=plan.free,
        co_argcount=plan.argument_count,
        co_posonlyargcount=0,
        co_kwonlyargcount=0,
        co_flags=code.co_flags & ~(CO_VARARGS | CO_VARKEYWORDS),
        co_stacksize=max(code.co_stacksize, depth + 3),
    )
