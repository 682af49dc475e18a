"""Instructions: one handler per canonical op.

Each takes the machine, the frame and the op's argument, and changes the frame as Note [Canonical set] in
`weft.capture.bytecode.instructions` says.
"""

from __future__ import annotations

import operator
import types
from collections.abc import Callable
from typing import Any

from weft.capture.binding import called
from weft.capture.frame import NULL, Frame
from weft.capture.frame import Unread as Unread
from weft.capture.machine import STEPS, Machine, Signal, Step
from weft.capture.open_texts import joined
from weft.capture.parts import append, call_part
from weft.capture.raising import expected_truth, require
from weft.capture.values import Args, BoundMethod, Kwargs, Raised, has_type
from weft.capture.variables import unbound
from weft.capture.world import ABSENT, Unopened
from weft.core.naming import OURS, naming
from weft.tensor.base import Tensor
from weft.trace.breaks import Break
from weft.trace.scalars import is_untold


def step(*ops: str) -> Callable[[Step], Step]:
    def register(handler: Step) -> Step:
        for op in ops:
            STEPS[op] = handler
        return handler

    return register


# -- stack ---------------------------------------------------------------------------------------------------
@step("POP_TOP")
def pop_top(machine: Machine, frame: Frame, arg: Any) -> None:
    frame.stack.pop()


@step("PUSH_NULL")
def push_null(machine: Machine, frame: Frame, arg: Any) -> None:
    frame.stack.append(NULL)


@step("COPY")
def copy(machine: Machine, frame: Frame, arg: int) -> None:
    frame.stack.append(frame.stack[-arg])


@step("SWAP")
def swap(machine: Machine, frame: Frame, arg: int) -> None:
    stack = frame.stack
    stack[-1], stack[-arg] = stack[-arg], stack[-1]


# -- names ---------------------------------------------------------------------------------------------------
@step("LOAD_CONST")
def load_const(machine: Machine, frame: Frame, arg: Any) -> None:
    frame.stack.append(arg)


@step("LOAD_FAST")
def load_fast(machine: Machine, frame: Frame, arg: str) -> None:
    frame.stack.append(machine.variables.read_local(frame, arg))


@step("STORE_FAST")
def store_fast(machine: Machine, frame: Frame, arg: str) -> None:
    value = frame.locals[arg] = frame.stack.pop()
    if naming.namespace != OURS and not str(frame.globals.get("__name__")).startswith("weft.generated"):
        machine.recorder.call_it(value, arg)  # PyTorch's graphs speak of the user's variables


@step("DELETE_FAST")
def delete_fast(machine: Machine, frame: Frame, arg: str) -> None:
    if arg not in frame.locals:
        raise machine.fail(unbound(frame, arg))
    machine.world.keep(frame.locals.pop(arg))


@step("LOAD_FAST_AND_CLEAR")
def load_fast_and_clear(machine: Machine, frame: Frame, arg: str) -> None:
    if arg in frame.cells:
        frame.stack.append(frame.cells.pop(arg))
    else:
        frame.stack.append(frame.locals.pop(arg, NULL))


@step("RESTORE_FAST")
def restore_fast(machine: Machine, frame: Frame, arg: tuple[str, bool]) -> None:
    name, is_cell = arg
    value = frame.stack.pop()
    frame.locals.pop(name, None)
    frame.cells.pop(name, None)
    if is_cell:
        frame.cells[name] = machine.wrapping.force(value)
    elif value is not NULL:
        frame.locals[name] = value


@step("MAKE_CELL")
def make_cell(machine: Machine, frame: Frame, arg: str) -> None:
    cell = types.CellType()
    if arg in frame.locals:
        cell.cell_contents = machine.wrapping.force(frame.locals.pop(arg))
    frame.cells[arg] = machine.world.keep(cell)


@step("LOAD_CLOSURE")
def load_closure(machine: Machine, frame: Frame, arg: str) -> None:
    frame.stack.append(frame.cells[arg])


@step("LOAD_DEREF")
def load_deref(machine: Machine, frame: Frame, arg: str) -> None:
    frame.stack.append(machine.variables.read_cell(frame, arg))


@step("STORE_DEREF")
def store_deref(machine: Machine, frame: Frame, arg: str) -> None:
    machine.variables.write_cell(frame.cells[arg], frame.stack.pop())


@step("DELETE_DEREF")
def delete_deref(machine: Machine, frame: Frame, arg: str) -> None:
    machine.variables.read_cell(frame, arg)
    machine.variables.write_cell(frame.cells[arg], ABSENT)


@step("LOAD_GLOBAL")
def load_global(machine: Machine, frame: Frame, arg: str) -> None:
    frame.stack.append(machine.variables.read_global(frame, arg))


@step("STORE_GLOBAL")
def store_global(machine: Machine, frame: Frame, arg: str) -> None:
    machine.variables.write_global(frame, arg, frame.stack.pop())


@step("DELETE_GLOBAL")
def delete_global(machine: Machine, frame: Frame, arg: str) -> None:
    machine.variables.write_global(frame, arg, ABSENT)


@step("LOAD_ASSERTION_ERROR")
def load_assertion_error(machine: Machine, frame: Frame, arg: Any) -> None:
    frame.stack.append(AssertionError)


# -- attributes and items ------------------------------------------------------------------------------------
@step("LOAD_ATTR")
def load_attr(machine: Machine, frame: Frame, arg: str) -> None:
    frame.stack.append(machine.attributes.load_unopened(frame.stack.pop(), arg))


@step("LOAD_METHOD")
def load_method(machine: Machine, frame: Frame, arg: str) -> None:
    value = machine.attributes.load_unopened(frame.stack.pop(), arg)
    if type(value) is types.MethodType and not has_type(value.__self__, Tensor):
        frame.stack += [value.__func__, value.__self__]
    else:
        frame.stack += [value, NULL]


@step("LOAD_SUPER_ATTR")
def load_super_attr(machine: Machine, frame: Frame, arg: tuple[str, bool, bool]) -> None:
    name, is_method, two = arg
    maker, cls, receiver = frame.stack[-3:]
    del frame.stack[-3:]
    if maker is super:
        value = machine.attributes.load_super(cls, receiver, name)
    else:
        value = machine.attributes.load(machine.calls.call(maker, (cls, receiver) if two else (), {}), name)
    if not is_method:
        frame.stack.append(value)
    elif type(value) is types.MethodType:
        frame.stack += [value.__func__, value.__self__]
    else:
        frame.stack += [value, NULL]


@step("STORE_ATTR")
def store_attr(machine: Machine, frame: Frame, arg: str) -> None:
    target = frame.stack.pop()
    machine.attributes.store(target, arg, frame.stack.pop())


@step("DELETE_ATTR")
def delete_attr(machine: Machine, frame: Frame, arg: str) -> None:
    machine.attributes.store(frame.stack.pop(), arg, ABSENT)


@step("BINARY_SUBSCR")
def binary_subscr(machine: Machine, frame: Frame, arg: Any) -> None:
    key = frame.stack.pop()
    container = frame.stack.pop()
    frame.stack.append(machine.operators.get_item(container, key))


@step("STORE_SUBSCR")
def store_subscr(machine: Machine, frame: Frame, arg: Any) -> None:
    key, container, value = frame.stack.pop(), frame.stack.pop(), frame.stack.pop()
    machine.operators.set_item(container, key, value)


@step("DELETE_SUBSCR")
def delete_subscr(machine: Machine, frame: Frame, arg: Any) -> None:
    key, container = frame.stack.pop(), frame.stack.pop()
    machine.operators.set_item(container, key, ABSENT)


@step("BUILD_SLICE")
def build_slice(machine: Machine, frame: Frame, arg: int) -> None:
    frame.stack[-arg:] = [slice(*frame.stack[-arg:])]


# -- operators -----------------------------------------------------------------------------------------------
@step("UNARY")
def unary(machine: Machine, frame: Frame, arg: str) -> None:
    frame.stack.append(machine.operators.unary(arg, frame.stack.pop()))


@step("BINARY_OP")
def binary_op(machine: Machine, frame: Frame, arg: str) -> None:
    right, left = frame.stack.pop(), frame.stack.pop()
    apply = machine.operators.inplace if arg.endswith("=") else machine.operators.binary
    frame.stack.append(apply(arg, left, right))


@step("COMPARE_OP")
def compare_op(machine: Machine, frame: Frame, arg: str) -> None:
    right, left = frame.stack.pop(), frame.stack.pop()
    frame.stack.append(machine.operators.compare(arg, left, right))


@step("IS_OP")
def is_op(machine: Machine, frame: Frame, arg: Any) -> None:
    right, left = frame.stack.pop(), frame.stack.pop()
    frame.stack.append(machine.operators.identical_values(left, right) is not bool(arg))


@step("CONTAINS_OP")
def contains_op(machine: Machine, frame: Frame, arg: Any) -> None:
    container, item = frame.stack.pop(), frame.stack.pop()
    frame.stack.append(machine.operators.contains(item, container) is not bool(arg))


# -- building ------------------------------------------------------------------------------------------------
def taken(frame: Frame, count: int) -> list[Any]:
    values = frame.stack[len(frame.stack) - count :]
    del frame.stack[len(frame.stack) - count :]
    return values


@step("BUILD_TUPLE")
def build_tuple(machine: Machine, frame: Frame, arg: int) -> None:
    frame.stack.append(machine.world.keep(tuple(taken(frame, arg))))


@step("BUILD_LIST")
def build_list(machine: Machine, frame: Frame, arg: int) -> None:
    frame.stack.append(machine.world.keep(taken(frame, arg)))


@step("BUILD_SET")
def build_set(machine: Machine, frame: Frame, arg: int) -> None:
    values = taken(frame, arg)
    machine.c_arguments.check_keys(values)
    frame.stack.append(machine.world.keep(machine.native(set, values)))


@step("BUILD_STRING")
def build_string(machine: Machine, frame: Frame, arg: int) -> None:
    frame.stack.append(joined(taken(frame, arg)))


@step("BUILD_MAP")
def build_map(machine: Machine, frame: Frame, arg: int) -> None:
    values = taken(frame, 2 * arg)
    machine.c_arguments.check_keys(values[::2])
    pairs = list(zip(values[::2], values[1::2], strict=True))
    frame.stack.append(machine.world.keep(machine.native(dict, pairs)))


@step("BUILD_CONST_KEY_MAP")
def build_const_key_map(machine: Machine, frame: Frame, arg: int) -> None:
    keys = frame.stack.pop()
    frame.stack.append(machine.world.keep(dict(zip(keys, taken(frame, arg), strict=True))))


@step("LIST_APPEND")
def list_append(machine: Machine, frame: Frame, arg: int) -> None:
    value = frame.stack.pop()
    target = frame.stack[-arg]
    if type(target) is Unread:  # a comprehension across breaks
        if type(target.value) is list and machine.parts.may_stay_unopened(target.value):
            append(machine.parts, machine.parts.take(target.value, target.source), value)
            return
        target = frame.stack[-arg] = machine.wrapping.wrap(target.value, target.source)
    if type(target) is Unopened:
        append(machine.parts, target, value)
        return
    target.append(machine.wrapping.force(value))


@step("LIST_EXTEND")
def list_extend(machine: Machine, frame: Frame, arg: int) -> None:
    value = frame.stack.pop()
    target = frame.stack[-arg]
    if not hasattr(type(value), "__iter__") and not hasattr(type(value), "__getitem__"):
        raise machine.fail(TypeError(f"Value after * must be an iterable, not {type(value).__name__}"))
    rows = machine.iterators.rows(value)
    machine.iterators.ask_length(value)
    machine.native(target.extend, rows)


@step("LIST_TO_TUPLE")
def list_to_tuple(machine: Machine, frame: Frame, arg: Any) -> None:
    frame.stack.append(machine.world.keep(tuple(frame.stack.pop())))


@step("SET_ADD")
def set_add(machine: Machine, frame: Frame, arg: int) -> None:
    value = frame.stack.pop()
    machine.c_arguments.check_keys((value,), frame.stack[-arg])
    machine.native(frame.stack[-arg].add, value)


@step("SET_UPDATE")
def set_update(machine: Machine, frame: Frame, arg: int) -> None:
    source = frame.stack.pop()
    values = machine.iterators.items(source)
    machine.c_arguments.check_keys(values, frame.stack[-arg])
    machine.native(frame.stack[-arg].update, source if type(source) in (set, frozenset, dict) else values)


@step("MAP_ADD")
def map_add(machine: Machine, frame: Frame, arg: int) -> None:
    value, key = frame.stack.pop(), frame.stack.pop()
    machine.c_arguments.check_keys((key,), frame.stack[-arg])
    machine.native(operator.setitem, frame.stack[-arg], key, value)


def as_mapping(machine: Machine, value: Any) -> Any:
    """A mapping that C code may read."""
    return machine.c_arguments.readable_mapping(value)


@step("DICT_UPDATE")
def dict_update(machine: Machine, frame: Frame, arg: int) -> None:
    value = frame.stack.pop()
    mapping = as_mapping(machine, value)
    if not hasattr(type(mapping), "keys"):
        raise machine.fail(TypeError(f"'{type(value).__name__}' object is not a mapping"))
    machine.native(frame.stack[-arg].update, mapping)


@step("DICT_MERGE")
def dict_merge(machine: Machine, frame: Frame, arg: int) -> None:
    value = frame.stack.pop()
    target, function = frame.stack[-arg], frame.stack[-(arg + 3)]
    mapping = as_mapping(machine, value)
    if not hasattr(type(mapping), "keys"):
        text = f"{called(function)} argument after ** must be a mapping, not {type(value).__name__}"
        raise machine.fail(TypeError(text))
    for key in mapping:
        if key in target:
            text = f"{called(function)} got multiple values for keyword argument '{key}'"
            raise machine.fail(TypeError(text))
    machine.native(target.update, mapping)


_UNPACKERS: dict[tuple[int, int, bool], Callable[[Any], list[Any]]] = {}


def unpacker(before: int, after: int, starred: bool) -> Callable[[Any], list[Any]]:
    """A function that unpacks as Python does, with its errors."""
    key = (before, after, starred)
    if key not in _UNPACKERS:
        names = [f"a{i}" for i in range(before)]
        names += ["*rest"] if starred else []
        names += [f"z{i}" for i in range(after)]
        plain = ", ".join(name.lstrip("*") for name in names)
        left = ", ".join(names) + ("," if names else "")
        text = f"def unpack(value):\n    {left or '()'} = value\n    return [{plain}]"
        space: dict[str, Any] = {}
        exec(compile(text, "<weft: unpacking>", "exec"), space)
        _UNPACKERS[key] = space["unpack"]
    return _UNPACKERS[key]


@step("UNPACK_SEQUENCE")
def unpack_sequence(machine: Machine, frame: Frame, arg: int) -> None:
    value = frame.stack.pop()
    values = machine.native(unpacker(arg, 0, False), machine.iterators.rows(value))
    frame.stack += values[::-1]


@step("UNPACK_EX")
def unpack_ex(machine: Machine, frame: Frame, arg: int) -> None:
    value = frame.stack.pop()
    values = machine.native(unpacker(arg & 0xFF, arg >> 8, True), machine.iterators.rows(value))
    machine.world.keep(values)
    frame.stack += values[::-1]


CONVERSIONS: dict[Any, Callable[[Machine, Any], Any]] = {
    None: lambda machine, value: value,
    "str": lambda machine, value: machine.texts.text(value),
    "repr": lambda machine, value: machine.texts.text(value, "__repr__"),
    "ascii": lambda machine, value: machine.texts.ascii(value),
}


@step("FORMAT")
def format_value(machine: Machine, frame: Frame, arg: tuple[Any, bool]) -> None:
    conversion, has_specification = arg
    specification = frame.stack.pop() if has_specification else ""
    value = CONVERSIONS[conversion](machine, frame.stack.pop())
    frame.stack.append(machine.texts.format(value, specification))


@step("CONVERT_VALUE")
def convert_value(machine: Machine, frame: Frame, arg: Any) -> None:
    frame.stack.append(CONVERSIONS[arg](machine, frame.stack.pop()))


# -- calls ---------------------------------------------------------------------------------------------------
@step("CALL")
def call(machine: Machine, frame: Frame, arg: int) -> None:
    args = taken(frame, arg)
    receiver, function = frame.stack.pop(), frame.stack.pop()
    if receiver is not NULL:
        args.insert(0, receiver)
    frame.stack.append(call_directly(machine, frame, function, tuple(args), {}))


def call_directly(machine: Machine, frame: Frame, function: Any, args: Args, kwargs: Kwargs) -> Any:
    """A call whose result is pushed as it is: a container may stay unopened."""
    inner = function.__func__ if type(function) is types.MethodType else function
    frame.awaits = inner.__code__ if type(inner) is types.FunctionType else None
    if type(function) is BoundMethod and function.func is call_part:
        return call_part(*function.args, *args, **kwargs)
    return machine.calls.call(function, args, kwargs)


@step("CALL_KW")
def call_kw(machine: Machine, frame: Frame, arg: tuple[int, tuple[str, ...]]) -> None:
    count, names = arg
    values = taken(frame, count)
    split = count - len(names)
    args, kwargs = values[:split], dict(zip(names, values[split:], strict=True))
    receiver, function = frame.stack.pop(), frame.stack.pop()
    if receiver is not NULL:
        args.insert(0, receiver)
    frame.stack.append(call_directly(machine, frame, function, tuple(args), kwargs))


@step("CALL_FUNCTION_EX")
def call_function_ex(machine: Machine, frame: Frame, arg: Any) -> None:
    kwargs = dict(as_mapping(machine, frame.stack.pop())) if arg else {}
    args = frame.stack.pop()
    frame.stack.pop()
    function = frame.stack.pop()
    if type(args) not in (tuple, list):
        if not hasattr(type(args), "__iter__") and not hasattr(type(args), "__getitem__"):
            text = f"{called(function)} argument after * must be an iterable, not {type(args).__name__}"
            raise machine.fail(TypeError(text))
        args = machine.iterators.items(args, asks=True)
    for name in kwargs:
        if not has_type(name, str):
            raise machine.fail(TypeError("keywords must be strings"))
    frame.stack.append(machine.calls.call(function, tuple(args), kwargs))


@step("MAKE_FUNCTION")
def make_function(machine: Machine, frame: Frame, arg: tuple[str, ...]) -> None:
    code = frame.stack.pop()
    extras = dict(zip(arg, taken(frame, len(arg)), strict=True))
    function = types.FunctionType(
        code, frame.globals, code.co_name, extras.get("defaults"), extras.get("closure")
    )
    function.__kwdefaults__ = extras.get("kwdefaults")
    function.__qualname__ = code.co_qualname
    annotations = extras.get("annotations")
    if annotations:
        function.__annotations__ = dict(zip(annotations[::2], annotations[1::2], strict=True))
    frame.stack.append(machine.world.keep(function))


@step("RETURN_VALUE")
def return_value(machine: Machine, frame: Frame, arg: Any) -> Signal:
    value = frame.stack.pop()
    if type(value) is Unopened and not goes_to_stack(frame):
        value = machine.parts.open(value)
    return Signal(value, False)


def goes_to_stack(frame: Frame) -> bool:
    """Whether what the frame returns is pushed by its caller as it is; else C code may get hold of it."""
    caller = frame.parent
    if caller is None:
        return True
    op = caller.instruction.op
    if op == "BINARY_SUBSCR":
        return frame.code.co_name in ("__getitem__", "__missing__")
    return op in ("LOAD_ATTR", "LOAD_METHOD") or (op in ("CALL", "CALL_KW") and caller.awaits is frame.code)


# -- jumps ---------------------------------------------------------------------------------------------------
@step("JUMP")
def jump(machine: Machine, frame: Frame, arg: int) -> None:
    frame.index = arg


def truth_of(machine: Machine, frame: Frame, target: int, jumps_on: bool) -> bool:
    """The truth of the top of the stack; one that only running can tell is required to lead on."""
    value = frame.stack.pop()
    if not has_type(value, Tensor) and not is_untold(value):
        return machine.operators.truth(value)
    truth = expected_truth(frame, target, jumps_on)
    if truth is None or not require(machine, value, truth):
        raise Break("data-dependent-branch", seen=describe(machine, value))
    return truth


def describe(machine: Machine, value: Any) -> str:
    node = machine.recorder.node(value)
    if not has_type(value, Tensor):
        return f"truth of {node.name}: a number that only running can tell"
    return f"truth of {node.name}: a tensor of shape {tuple(value.shape)}"


@step("POP_JUMP_IF_TRUE")
def pop_jump_if_true(machine: Machine, frame: Frame, arg: int) -> None:
    if truth_of(machine, frame, arg, True):
        frame.index = arg


@step("POP_JUMP_IF_FALSE")
def pop_jump_if_false(machine: Machine, frame: Frame, arg: int) -> None:
    if not truth_of(machine, frame, arg, False):
        frame.index = arg


@step("POP_JUMP_IF_NONE")
def pop_jump_if_none(machine: Machine, frame: Frame, arg: int) -> None:
    if frame.stack.pop() is None:
        frame.index = arg


@step("POP_JUMP_IF_NOT_NONE")
def pop_jump_if_not_none(machine: Machine, frame: Frame, arg: int) -> None:
    if frame.stack.pop() is not None:
        frame.index = arg


@step("GET_ITER")
def get_iter(machine: Machine, frame: Frame, arg: Any) -> None:
    frame.stack.append(machine.iterators.iterator(frame.stack.pop()))


@step("FOR_ITER")
def for_iter(machine: Machine, frame: Frame, arg: int) -> None:
    try:
        item = machine.iterators.next_item(frame.stack[-1])
    except Raised as raised:
        if not has_type(raised.exception, StopIteration):
            raise
        machine.world.raised.pop(id(raised.exception), None)
        frame.stack.pop()
        frame.index = arg
    else:
        frame.stack.append(item)
