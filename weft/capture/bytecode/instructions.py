"""Canonical instructions: takes a code object of CPython 3.11 to 3.13, gives one instruction set for all.

One idea: versions differ here and nowhere else. `decode(code)` is a `Bytecode`: instructions whose jumps are
indices, the handler of each, and what lies on the stack before each.

# Note [Canonical set]
A stack is written bottom first; `a b -> c` pops b and a and pushes c. `?` marks what is there only sometimes.
Frame variables are slots by name: a local holds a value or is unbound, a cell or free variable holds a cell.
Before the first instruction arguments are in their slots and all cells exist (an argument that is a cell
variable is in its cell). Instructions that only the native interpreter needs are left out: RESUME, NOP,
CACHE, PRECALL, TO_BOOL, COPY_FREE_VARS, RETURN_GENERATOR and its POP_TOP, END_FOR, END_SEND. Whether code is
a generator, coroutine or async generator is in co_flags.

The stack
    POP_TOP: a ->
    PUSH_NULL: -> NULL
    COPY n: pushes the n-th value from the top again; 1 is the top
    SWAP n: exchanges the top and the n-th from the top
Names
    LOAD_CONST value: -> value
    LOAD_FAST name: -> value; UnboundLocalError if unbound
    STORE_FAST name: a ->
    DELETE_FAST name; UnboundLocalError if unbound
    LOAD_CLOSURE name: -> the cell
    LOAD_DEREF name: -> its content; if empty NameError for a free variable, UnboundLocalError for a cell
        variable
    STORE_DEREF name: a ->
    DELETE_DEREF name
    LOAD_FAST_AND_CLEAR name: -> saved; an inlined comprehension (3.12) takes over the slot: pushes what it
        holds, be it a value, a cell, or NULL if unbound. The slot is then an unbound local
    MAKE_CELL name: the local becomes a new cell with its value (empty if unbound); only after
        LOAD_FAST_AND_CLEAR
    RESTORE_FAST (name, is_cell): saved -> ; puts back what LOAD_FAST_AND_CLEAR took: a cell if is_cell, else
        a value, or NULL, which unbinds. What the slot holds until then, value or newer cell, is dropped
    LOAD_GLOBAL name: -> value, from globals, then builtins
    STORE_GLOBAL name: a ->
    DELETE_GLOBAL name
    LOAD_NAME, STORE_NAME, DELETE_NAME name: likewise in module and class bodies
    LOAD_LOCALS: -> namespace
    LOAD_FROM_DICT_OR_GLOBALS, LOAD_FROM_DICT_OR_DEREF name: namespace -> value; in class bodies
    LOAD_BUILD_CLASS: -> __build_class__
    LOAD_ASSERTION_ERROR: -> AssertionError
    SETUP_ANNOTATIONS
Attributes and items
    LOAD_ATTR name: a -> a.name
    STORE_ATTR name: value a ->
    DELETE_ATTR name: a ->
    LOAD_METHOD name: a -> function a, or, where no method can be split off, a -> attribute NULL
    LOAD_SUPER_ATTR (name, is_method, two_arguments): super class self -> attribute, or two values as
        LOAD_METHOD if is_method. Where `super` is not the builtin: super(class, self) or, without
        two_arguments, super() is called
    BINARY_SUBSCR: a key -> a[key]
    STORE_SUBSCR: value a key ->
    DELETE_SUBSCR: a key ->
    BUILD_SLICE n: start stop step? -> slice; a[x:y] is BUILD_SLICE 2, BINARY_SUBSCR
Operators
    UNARY '-' '+' '~' 'not': a -> result
    BINARY_OP '+', '+=', ..: a b -> result
    COMPARE_OP '<' '<=' '==' '!=' '>' '>=': a b -> result, not made a bool
    IS_OP negated: a b -> bool
    CONTAINS_OP negated: a b -> bool; a in b
Building
    BUILD_TUPLE, BUILD_LIST, BUILD_SET, BUILD_STRING n: a1 .. an -> result
    BUILD_MAP n: k1 v1 .. kn vn -> dict
    BUILD_CONST_KEY_MAP n: v1 .. vn keys -> dict
    LIST_APPEND, LIST_EXTEND, SET_ADD, SET_UPDATE, DICT_UPDATE n: a -> ; into the container that is n-th from
        the top after popping
    MAP_ADD n: key value -> ; likewise
    DICT_MERGE n: likewise, the keywords of a call: TypeError on duplicates, which names the callable, (n +
        3)-th from the top after popping
    LIST_TO_TUPLE: list -> tuple
    UNPACK_SEQUENCE n: a -> an .. a1
    UNPACK_EX before | after << 8: a -> last .. list .. first
    FORMAT (conversion, has_spec): a spec? -> str; conversion None, 'str', 'repr' or 'ascii'
    CONVERT_VALUE conversion: a -> str; 3.13, where a format spec is evaluated after it
Calls and functions
    CALL n: callable self|NULL a1 .. an -> result
    CALL_KW (n, names): as CALL n; the last len(names) of the n values are keyword arguments
    CALL_FUNCTION_EX has_keywords: callable NULL args kwargs? -> result
    MAKE_FUNCTION extras: .. code -> function; extras is a subsequence of ('defaults', 'kwdefaults',
        'annotations', 'closure'), whose values lie under the code in that order; annotations are a tuple
        (name, value, ..)
    RETURN_VALUE: a ->
Jumps and loops
    JUMP target
    POP_JUMP_IF_TRUE, POP_JUMP_IF_FALSE target: a -> ; take the truth of any object, as UNARY 'not' does
    POP_JUMP_IF_NONE, POP_JUMP_IF_NOT_NONE target: a ->
    GET_ITER: a -> iterator
    FOR_ITER target: iterator -> iterator next, or, when it is exhausted, iterator -> and jump
Exceptions and with. An ExceptionHandler is entered with the stack cut to its depth, then lasti, if it wants
that, and the exception pushed; lasti is instruction.offset // 2 of the instruction that raised
    PUSH_EXC_INFO: e -> previous e; e is the handled exception now, what was handled before lies below
    POP_EXCEPT: previous -> ; the handled exception is what it was
    CHECK_EXC_MATCH: e type -> e bool
    CHECK_EG_MATCH: e type -> rest match; match is None if nothing matches
    PREP_RERAISE_STAR: original raised_list -> exception or None
    RAISE_VARARGS n: exception? cause? -> ; 0 is a bare raise
    RERAISE n: e -> ; raises e as it is. If n, its line is that of the lasti which is n-th from the top after
        popping
    BEFORE_WITH: manager -> exit entered; a with that is left normally ends in exit None None None, CALL 2
    WITH_EXCEPT_START: exit lasti previous e -> exit lasti previous e result; of exit(type(e), e,
        e.__traceback__)
Match
    GET_LEN: a -> a len(a)
    MATCH_MAPPING, MATCH_SEQUENCE: a -> a bool
    MATCH_KEYS: a keys -> a keys values; a tuple, or None
    MATCH_CLASS n: a type names -> attributes; a tuple, or None; n is the number of positional patterns
Generators and coroutines
    YIELD_VALUE delegating: a -> sent; delegating in `yield from` and `await`: a comes from the iterator of
        SEND, which lies under it, and throw() goes to that iterator first
    GET_YIELD_FROM_ITER: a -> iterator
    SEND target: iterator a -> iterator yielded, or, when it returns, iterator a -> returned and jump
    CLEANUP_THROW: iterator sent e -> value, if e is a StopIteration, else raises e; the handler of a
        delegating yield, made up on 3.11
    STOPITERATION_ERROR: e -> RuntimeError from e, if e is a StopIteration, else e; since 3.12, on 3.11
        generator objects do that
    GET_AWAITABLE where: a -> iterator
    GET_AITER: a -> iterator
    GET_ANEXT: iterator -> iterator awaitable
    END_ASYNC_FOR: iterator e -> ; raises e unless it is a StopAsyncIteration
    BEFORE_ASYNC_WITH: manager -> exit awaitable
    ASYNC_GEN_WRAP: a -> wrapped
Modules and type parameters
    IMPORT_NAME name: level fromlist -> module
    IMPORT_FROM name: module -> module value
    IMPORT_STAR: module -> None
    PRINT: a -> None; the interactive prompt
    INTRINSIC_1 name: a -> result; 'TYPEVAR', 'TYPEALIAS', ..
    INTRINSIC_2 name: a b -> result; 'TYPEVAR_WITH_BOUND', ..
"""

from __future__ import annotations

from functools import lru_cache
from types import CodeType
from typing import Any

from weft.capture.bytecode.drafts import Draft, Step, UnknownInstruction, draft
from weft.capture.bytecode.effects import EFFECTS, JUMP_OPS, stack_effect
from weft.capture.bytecode.layout import INTERNAL, NO_NAMES, InconsistentStack, Layouts, StackSlot, lay_out
from weft.capture.bytecode.native import Positions
from weft.core.once import cached
from weft.core.records import record

__all__ = [
    "CANONICAL",
    "JUMP_OPS",
    "Bytecode",
    "EntryPoint",
    "ExceptionHandler",
    "InconsistentStack",
    "Instruction",
    "Positions",
    "StackSlot",
    "UnknownInstruction",
    "decode",
    "stack_effect",
]

CANONICAL: frozenset[str] = frozenset(EFFECTS)
"""Every op that decode can give."""


@record(frozen=True, slots=True)
class Instruction:
    """One canonical instruction; Note [Canonical set] tells what `arg` is. `offset` is what f_lasti shows."""

    op: str
    arg: Any
    offset: int
    line: int | None
    positions: Positions
    index: int

    def __str__(self) -> str:
        return f"{self.index:4} {self.op}" if self.arg is None else f"{self.index:4} {self.op} {self.arg!r}"


@record(frozen=True, slots=True)
class ExceptionHandler:
    """Where an exception goes: the stack is cut to `depth`, then lasti if wanted and the exception are
    pushed."""

    target_index: int
    depth: int
    lasti: bool


@record(frozen=True, slots=True)
class EntryPoint:
    """How native code is entered before an instruction: run the steps of `rest`, then go to `offset`.

    `slots` is the native stack there, None where no path leads; `plain` the cell variables that are locals
    now.
    """

    offset: int
    rest: tuple[Step, ...]
    slots: tuple[StackSlot, ...] | None
    plain: frozenset[str]


@record(frozen=True, eq=False)
class Bytecode:
    """A decoded code object."""

    code: CodeType
    instructions: tuple[Instruction, ...]
    handlers: tuple[ExceptionHandler | None, ...]
    layouts: Layouts

    @cached
    def entries(self) -> tuple[EntryPoint, ...]:
        """How native code is entered before each instruction: what only code that is resumed asks for."""
        found: list[EntryPoint] = []
        for index, each in enumerate(self.layouts.drafts):
            if each.op not in INTERNAL:
                state = self.layouts.state(index)
                slots, plain = (None, NO_NAMES) if state is None else (state.slots, state.plain)
                found.append(EntryPoint(each.entry, each.rest, slots, plain))
        return tuple(found)

    def kinds(self, index: int) -> tuple[str, ...] | None:
        """The kind of every value on the canonical stack before an instruction; see layout.StackSlot."""
        slots = self.entries[index].slots
        return None if slots is None else tuple(slot.kind for slot in slots if not slot.native_only)

    def __str__(self) -> str:
        return "\n".join(map(str, self.instructions))


def _canonical(each: Draft, index: int, layouts: Layouts) -> tuple[str, Any]:
    """Op and argument of a draft that stays."""
    if each.op == "FILL":
        return "PUSH_NULL", None
    if each.op == "LOAD_FAST" and each.arg in layouts.cells:
        state = layouts.state(index)
        if state is None or each.arg not in state.plain:
            return "LOAD_CLOSURE", each.arg
    if each.op == "STORE_FAST" and layouts.saves:
        state = layouts.state(index)
        if state is not None and state.slots[-1].kind == "saved":
            return "RESTORE_FAST", (each.arg, state.slots[-1].detail == (each.arg, True))
    return each.op, each.arg


CHANGING = frozenset({"FILL", "LOAD_FAST", "STORE_FAST"})
"""Ops of drafts that may get another name."""


def _assemble(code: CodeType, layouts: Layouts) -> Bytecode:
    """Leaves out the internal ops and numbers what is left."""
    number: list[int] = []  # draft index -> index of the instruction at or after it
    kept = 0
    for each in layouts.drafts:
        number.append(kept)
        kept += each.op not in INTERNAL
    instructions: list[Instruction] = []
    handlers: list[ExceptionHandler | None] = []
    for index, (each, link) in enumerate(zip(layouts.drafts, layouts.links)):
        op, arg = each.op, each.arg
        if op in INTERNAL:
            continue
        if op in CHANGING:
            op, arg = _canonical(each, index, layouts)
        elif op in JUMP_OPS:
            arg = number[arg]
        line = each.positions.line
        instructions.append(Instruction(op, arg, each.offset, line, each.positions, len(instructions)))
        handler = None
        if link is not None:
            depth = layouts.canonical_depth(index, link.depth)
            handler = None if depth is None else ExceptionHandler(number[link.target], depth, link.lasti)
        handlers.append(handler)
    return Bytecode(code, tuple(instructions), tuple(handlers), layouts)


@lru_cache(maxsize=4096)
def decode(code: CodeType) -> Bytecode:
    """The canonical form of a code object. UnknownInstruction or InconsistentStack for code no compiler
    writes."""
    return _assemble(code, lay_out(code, draft(code)))
