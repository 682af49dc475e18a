"""Instructions: one handler per canonical op.

Each takes the machine, the frame and the op's argument, and changes the frame as Note [Canonical set] in
`weft.capture.bytecode.instructions` says.
"""

from __future__ import annotations

import builtins
import collections.abc
import operator
import sys
import types
from collections.abc import Callable
from typing import Any

from weft.capture.builtins import Super
from weft.capture.bytecode.instructions import CANONICAL
from weft.capture.frame import NULL, Frame, PreviousException
from weft.capture.machine import STEPS, Machine, Signal, Step, push_handled, unbound
from weft.capture.natives import EQUALITY
from weft.capture.sources import constant
from weft.capture.values import CapturedGenerator, Raised
from weft.capture.world import ABSENT
from weft.tensor.base import Tensor
from weft.trace.breaks import Break


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
    if arg not in frame.locals:
        raise machine.fail(unbound(frame, arg))
    value = frame.locals[arg]
    if type(value) is Unread:
        value = frame.locals[arg] = machine.wrap(value.value, value.source)
    frame.stack.append(value)


class Unread:
    """An argument of the root frame that nothing has looked at yet: no guard stands for it."""

    __slots__ = ("source", "value")

    def __init__(self, value: Any, source: Any) -> None:
        self.value, self.source = value, source


@step("STORE_FAST")
def store_fast(machine: Machine, frame: Frame, arg: str) -> None:
    frame.locals[arg] = frame.stack.pop()


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
        frame.cells[name] = value
    elif value is not NULL:
        frame.locals[name] = value


@step("MAKE_CELL")
def make_cell(machine: Machine, frame: Frame, arg: str) -> None:
    cell = types.CellType()
    if arg in frame.locals:
        cell.cell_contents = frame.locals.pop(arg)
    frame.cells[arg] = machine.world.keep(cell)


@step("LOAD_CLOSURE")
def load_closure(machine: Machine, frame: Frame, arg: str) -> None:
    frame.stack.append(frame.cells[arg])


@step("LOAD_DEREF")
def load_deref(machine: Machine, frame: Frame, arg: str) -> None:
    frame.stack.append(machine.read_cell(frame, arg))


@step("STORE_DEREF")
def store_deref(machine: Machine, frame: Frame, arg: str) -> None:
    machine.write_cell(frame.cells[arg], frame.stack.pop())


@step("DELETE_DEREF")
def delete_deref(machine: Machine, frame: Frame, arg: str) -> None:
    machine.read_cell(frame, arg)
    machine.write_cell(frame.cells[arg], ABSENT)


@step("LOAD_GLOBAL")
def load_global(machine: Machine, frame: Frame, arg: str) -> None:
    frame.stack.append(machine.read_global(frame, arg))


@step("STORE_GLOBAL")
def store_global(machine: Machine, frame: Frame, arg: str) -> None:
    machine.write_global(frame, arg, frame.stack.pop())


@step("DELETE_GLOBAL")
def delete_global(machine: Machine, frame: Frame, arg: str) -> None:
    machine.write_global(frame, arg, ABSENT)


@step("LOAD_ASSERTION_ERROR")
def load_assertion_error(machine: Machine, frame: Frame, arg: Any) -> None:
    frame.stack.append(AssertionError)


# -- attributes and items ------------------------------------------------------------------------------------
@step("LOAD_ATTR")
def load_attr(machine: Machine, frame: Frame, arg: str) -> None:
    frame.stack.append(machine.load_attribute(frame.stack.pop(), arg))


@step("LOAD_METHOD")
def load_method(machine: Machine, frame: Frame, arg: str) -> None:
    value = machine.load_attribute(frame.stack.pop(), arg)
    if type(value) is types.MethodType:
        frame.stack += [value.__func__, value.__self__]
    else:
        frame.stack += [value, NULL]


@step("LOAD_SUPER_ATTR")
def load_super_attr(machine: Machine, frame: Frame, arg: tuple[str, bool, bool]) -> None:
    name, is_method, two = arg
    maker, cls, receiver = frame.stack[-3:]
    del frame.stack[-3:]
    if maker is super:
        value = machine.load_super(cls, receiver, name)
    else:
        value = machine.load_attribute(machine.call(maker, (cls, receiver) if two else (), {}), name)
    if not is_method:
        frame.stack.append(value)
    elif type(value) is types.MethodType:
        frame.stack += [value.__func__, value.__self__]
    else:
        frame.stack += [value, NULL]


@step("STORE_ATTR")
def store_attr(machine: Machine, frame: Frame, arg: str) -> None:
    target = frame.stack.pop()
    machine.store_attribute(target, arg, frame.stack.pop())


@step("DELETE_ATTR")
def delete_attr(machine: Machine, frame: Frame, arg: str) -> None:
    machine.store_attribute(frame.stack.pop(), arg, ABSENT)


@step("BINARY_SUBSCR")
def binary_subscr(machine: Machine, frame: Frame, arg: Any) -> None:
    key = frame.stack.pop()
    frame.stack.append(machine.get_item(frame.stack.pop(), key))


@step("STORE_SUBSCR")
def store_subscr(machine: Machine, frame: Frame, arg: Any) -> None:
    key, container, value = frame.stack.pop(), frame.stack.pop(), frame.stack.pop()
    machine.set_item(container, key, value)


@step("DELETE_SUBSCR")
def delete_subscr(machine: Machine, frame: Frame, arg: Any) -> None:
    key, container = frame.stack.pop(), frame.stack.pop()
    machine.set_item(container, key, ABSENT)


@step("BUILD_SLICE")
def build_slice(machine: Machine, frame: Frame, arg: int) -> None:
    frame.stack[-arg:] = [slice(*frame.stack[-arg:])]


# -- operators -----------------------------------------------------------------------------------------------
@step("UNARY")
def unary(machine: Machine, frame: Frame, arg: str) -> None:
    frame.stack.append(machine.unary(arg, frame.stack.pop()))


@step("BINARY_OP")
def binary_op(machine: Machine, frame: Frame, arg: str) -> None:
    right, left = frame.stack.pop(), frame.stack.pop()
    apply = machine.inplace if arg.endswith("=") else machine.binary
    frame.stack.append(apply(arg, left, right))


@step("COMPARE_OP")
def compare_op(machine: Machine, frame: Frame, arg: str) -> None:
    right, left = frame.stack.pop(), frame.stack.pop()
    frame.stack.append(machine.compare(arg, left, right))


@step("IS_OP")
def is_op(machine: Machine, frame: Frame, arg: Any) -> None:
    right, left = frame.stack.pop(), frame.stack.pop()
    frame.stack.append(machine.identical_values(left, right) is not bool(arg))


@step("CONTAINS_OP")
def contains_op(machine: Machine, frame: Frame, arg: Any) -> None:
    container, item = frame.stack.pop(), frame.stack.pop()
    frame.stack.append(machine.contains(item, container) is not bool(arg))


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
    machine.check(values, EQUALITY)
    frame.stack.append(machine.world.keep(machine.native(set, values)))


@step("BUILD_STRING")
def build_string(machine: Machine, frame: Frame, arg: int) -> None:
    frame.stack.append("".join(taken(frame, arg)))


@step("BUILD_MAP")
def build_map(machine: Machine, frame: Frame, arg: int) -> None:
    values = taken(frame, 2 * arg)
    machine.check(values[::2], EQUALITY)
    pairs = list(zip(values[::2], values[1::2], strict=True))
    frame.stack.append(machine.world.keep(machine.native(dict, pairs)))


@step("BUILD_CONST_KEY_MAP")
def build_const_key_map(machine: Machine, frame: Frame, arg: int) -> None:
    keys = frame.stack.pop()
    frame.stack.append(machine.world.keep(dict(zip(keys, taken(frame, arg), strict=True))))


@step("LIST_APPEND")
def list_append(machine: Machine, frame: Frame, arg: int) -> None:
    value = frame.stack.pop()
    frame.stack[-arg].append(value)


@step("LIST_EXTEND")
def list_extend(machine: Machine, frame: Frame, arg: int) -> None:
    value = frame.stack.pop()
    target = frame.stack[-arg]
    if not hasattr(type(value), "__iter__") and not hasattr(type(value), "__getitem__"):
        raise machine.fail(TypeError(f"Value after * must be an iterable, not {type(value).__name__}"))
    machine.native(target.extend, machine.iterable(value))


@step("LIST_TO_TUPLE")
def list_to_tuple(machine: Machine, frame: Frame, arg: Any) -> None:
    frame.stack.append(machine.world.keep(tuple(frame.stack.pop())))


@step("SET_ADD")
def set_add(machine: Machine, frame: Frame, arg: int) -> None:
    value = frame.stack.pop()
    machine.check(value, EQUALITY)
    machine.native(frame.stack[-arg].add, value)


@step("SET_UPDATE")
def set_update(machine: Machine, frame: Frame, arg: int) -> None:
    values = machine.items(frame.stack.pop())
    machine.check(values, EQUALITY)
    machine.native(frame.stack[-arg].update, values)


@step("MAP_ADD")
def map_add(machine: Machine, frame: Frame, arg: int) -> None:
    value, key = frame.stack.pop(), frame.stack.pop()
    machine.check(key, EQUALITY)
    machine.native(operator.setitem, frame.stack[-arg], key, value)


def as_mapping(machine: Machine, value: Any) -> Any:
    """A mapping that C code may read."""
    if isinstance(value, dict) and not machine.python_method(value, "keys"):
        return value
    keys = machine.python_method(value, "keys")
    if keys is None:
        return value
    names = machine.items(machine.call_method(keys, value))
    return {name: machine.get_item(value, name) for name in names}


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
    target, function = frame.stack[-arg], frame.stack[-(arg + 2)]
    mapping = as_mapping(machine, value)
    name = getattr(function, "__qualname__", type(function).__name__)
    if not hasattr(type(mapping), "keys"):
        text = f"{name}() argument after ** must be a mapping, not {type(value).__name__}"
        raise machine.fail(TypeError(text))
    for key in mapping:
        if key in target:
            raise machine.fail(TypeError(f"{name}() got multiple values for keyword argument '{key}'"))
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
        exec(text, space)
        _UNPACKERS[key] = space["unpack"]
    return _UNPACKERS[key]


@step("UNPACK_SEQUENCE")
def unpack_sequence(machine: Machine, frame: Frame, arg: int) -> None:
    value = frame.stack.pop()
    values = machine.native(unpacker(arg, 0, False), machine.iterable(value))
    frame.stack += values[::-1]


@step("UNPACK_EX")
def unpack_ex(machine: Machine, frame: Frame, arg: int) -> None:
    value = frame.stack.pop()
    values = machine.native(unpacker(arg & 0xFF, arg >> 8, True), machine.iterable(value))
    machine.world.keep(values)
    frame.stack += values[::-1]


CONVERSIONS: dict[Any, Callable[[Machine, Any], Any]] = {
    None: lambda machine, value: value,
    "str": lambda machine, value: machine.text(value),
    "repr": lambda machine, value: machine.text(value, "__repr__"),
    "ascii": lambda machine, value: ascii_of(machine.text(value, "__repr__")),
}


def ascii_of(text: str) -> str:
    return text.encode("ascii", "backslashreplace").decode("ascii")


@step("FORMAT")
def format_value(machine: Machine, frame: Frame, arg: tuple[Any, bool]) -> None:
    conversion, has_specification = arg
    specification = frame.stack.pop() if has_specification else ""
    value = CONVERSIONS[conversion](machine, frame.stack.pop())
    frame.stack.append(machine.format(value, specification))


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
    frame.stack.append(machine.call(function, tuple(args), {}))


@step("CALL_KW")
def call_kw(machine: Machine, frame: Frame, arg: tuple[int, tuple[str, ...]]) -> None:
    count, names = arg
    values = taken(frame, count)
    split = count - len(names)
    args, kwargs = values[:split], dict(zip(names, values[split:], strict=True))
    receiver, function = frame.stack.pop(), frame.stack.pop()
    if receiver is not NULL:
        args.insert(0, receiver)
    frame.stack.append(machine.call(function, tuple(args), kwargs))


@step("CALL_FUNCTION_EX")
def call_function_ex(machine: Machine, frame: Frame, arg: Any) -> None:
    kwargs = dict(as_mapping(machine, frame.stack.pop())) if arg else {}
    args = frame.stack.pop()
    frame.stack.pop()
    function = frame.stack.pop()
    if not isinstance(args, (tuple, list)):
        if not hasattr(type(args), "__iter__") and not hasattr(type(args), "__getitem__"):
            name = getattr(function, "__qualname__", type(function).__name__)
            text = f"{name}() argument after * must be an iterable, not {type(args).__name__}"
            raise machine.fail(TypeError(text))
        args = machine.items(args)
    for name in kwargs:
        if not isinstance(name, str):
            raise machine.fail(TypeError("keywords must be strings"))
    frame.stack.append(machine.call(function, tuple(args), kwargs))


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
    return Signal(frame.stack.pop(), False)


# -- jumps ---------------------------------------------------------------------------------------------------
@step("JUMP")
def jump(machine: Machine, frame: Frame, arg: int) -> None:
    frame.index = arg


def truth_of(machine: Machine, value: Any) -> bool:
    if isinstance(value, Tensor):
        raise Break("data-dependent-branch", seen=describe(machine, value))
    return machine.truth(value)


def describe(machine: Machine, value: Tensor) -> str:
    node = machine.recorder.node(value)
    return f"truth of {node.name}: a tensor of shape {tuple(value.shape)}"


@step("POP_JUMP_IF_TRUE")
def pop_jump_if_true(machine: Machine, frame: Frame, arg: int) -> None:
    if truth_of(machine, frame.stack.pop()):
        frame.index = arg


@step("POP_JUMP_IF_FALSE")
def pop_jump_if_false(machine: Machine, frame: Frame, arg: int) -> None:
    if not truth_of(machine, frame.stack.pop()):
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
    frame.stack.append(machine.iterator(frame.stack.pop()))


@step("FOR_ITER")
def for_iter(machine: Machine, frame: Frame, arg: int) -> None:
    try:
        item = machine.next_item(frame.stack[-1])
    except Raised as raised:
        if not isinstance(raised.exception, StopIteration):
            raise
        machine.world.raised.pop(id(raised.exception), None)
        frame.stack.pop()
        frame.index = arg
    else:
        frame.stack.append(item)


# -- exceptions ----------------------------------------------------------------------------------------------
@step("PUSH_EXC_INFO")
def push_exc_info(machine: Machine, frame: Frame, arg: Any) -> None:
    push_handled(frame, frame.stack.pop())


@step("POP_EXCEPT")
def pop_except(machine: Machine, frame: Frame, arg: Any) -> None:
    previous = frame.stack.pop()
    frame.handled = previous.previous if isinstance(previous, PreviousException) else previous


@step("CHECK_EXC_MATCH")
def check_exc_match(machine: Machine, frame: Frame, arg: Any) -> None:
    wanted = frame.stack.pop()
    kinds = wanted if isinstance(wanted, tuple) else (wanted,)
    for kind in kinds:
        if not (isinstance(kind, type) and issubclass(kind, BaseException)):
            text = "catching classes that do not inherit from BaseException is not allowed"
            raise machine.fail(TypeError(text))
    frame.stack.append(isinstance(frame.stack[-1], wanted))


@step("RAISE_VARARGS")
def raise_varargs(machine: Machine, frame: Frame, arg: int) -> None:
    if arg == 0:
        error = machine.handled(frame)
        if error is None:
            raise machine.fail(RuntimeError("No active exception to reraise"))
        raise Raised(error)
    cause = exception_of(machine, frame.stack.pop(), cause=True) if arg == 2 else ABSENT
    error = exception_of(machine, frame.stack.pop())
    if cause is not ABSENT:
        error.__cause__ = cause
    raise machine.fail(error)


def exception_of(machine: Machine, value: Any, cause: bool = False) -> Any:
    if isinstance(value, type) and issubclass(value, BaseException):
        value = machine.call(value, (), {})
    if isinstance(value, BaseException):
        if not machine.world.is_fresh(value):
            raise Break("foreign-exception", seen=f"raising {type(value).__name__} made elsewhere")
        return value
    if cause and value is None:
        return None
    text = (
        "exception causes must derive from BaseException"
        if cause
        else "exceptions must derive from BaseException"
    )
    raise machine.fail(TypeError(text))


@step("RERAISE")
def reraise(machine: Machine, frame: Frame, arg: int) -> None:
    raise Raised(frame.stack.pop())


@step("BEFORE_WITH")
def before_with(machine: Machine, frame: Frame, arg: Any) -> None:
    manager = frame.stack.pop()
    kind = type(manager)
    found = {name: machine.lookup(kind, name) for name in ("__enter__", "__exit__")}
    for name, value in found.items():
        if value is ABSENT:
            missed = " (missed __exit__ method)" if name == "__exit__" else ""
            text = f"'{kind.__name__}' object does not support the context manager protocol{missed}"
            raise machine.fail(TypeError(text))
    machine.refuse_opaque(manager)
    leave = machine.bind(found["__exit__"], manager, kind)
    entered = machine.call(machine.bind(found["__enter__"], manager, kind), (), {})
    frame.stack += [leave, entered]


@step("WITH_EXCEPT_START")
def with_except_start(machine: Machine, frame: Frame, arg: Any) -> None:
    error = frame.stack[-1]
    leave = frame.stack[-4]
    frame.stack.append(machine.call(leave, (type(error), error, error.__traceback__), {}))


# -- match ---------------------------------------------------------------------------------------------------
@step("GET_LEN")
def get_len(machine: Machine, frame: Frame, arg: Any) -> None:
    frame.stack.append(machine.call(len, (frame.stack[-1],), {}))


@step("MATCH_MAPPING")
def match_mapping(machine: Machine, frame: Frame, arg: Any) -> None:
    frame.stack.append(isinstance(frame.stack[-1], collections.abc.Mapping))


@step("MATCH_SEQUENCE")
def match_sequence(machine: Machine, frame: Frame, arg: Any) -> None:
    value = frame.stack[-1]
    frame.stack.append(
        isinstance(value, collections.abc.Sequence) and not isinstance(value, (str, bytes, bytearray))
    )


@step("MATCH_KEYS")
def match_keys(machine: Machine, frame: Frame, arg: Any) -> None:
    subject, keys = frame.stack[-2:]
    values = []
    for key in keys:
        if not machine.contains(key, subject):
            frame.stack.append(None)
            return
        values.append(machine.get_item(subject, key))
    frame.stack.append(tuple(values))


@step("MATCH_CLASS")
def match_class(machine: Machine, frame: Frame, arg: int) -> None:
    names, cls, subject = frame.stack.pop(), frame.stack.pop(), frame.stack.pop()
    if not isinstance(cls, type):
        raise machine.fail(TypeError("called match pattern must be a class"))
    if not machine.call(isinstance, (subject, cls), {}):
        frame.stack.append(None)
        return
    attributes: list[Any] = []
    wanted = list(names)
    if arg:
        try:
            positional = machine.load_attribute(cls, "__match_args__")
        except Raised:
            positional = None
        if positional is None and cls in SELF_MATCHING:
            attributes.append(subject)
        else:
            wanted = [*positional_names(machine, cls, positional, arg), *wanted]
    for name in wanted:
        value = machine.call(getattr, (subject, name, ABSENT), {})
        if value is ABSENT:
            frame.stack.append(None)
            return
        attributes.append(value)
    frame.stack.append(tuple(attributes))


SELF_MATCHING = frozenset({bool, bytearray, bytes, dict, float, frozenset, int, list, set, str, tuple})


def positional_names(machine: Machine, cls: type, names: Any, count: int) -> list[str]:
    names = names or ()
    if not isinstance(names, tuple):
        text = f"{cls.__name__}.__match_args__ must be a tuple (got {type(names).__name__})"
        raise machine.fail(TypeError(text))
    if count > len(names):
        plural = "" if len(names) == 1 else "s"
        text = f"{cls.__name__}() accepts {len(names)} positional sub-pattern{plural} ({count} given)"
        raise machine.fail(TypeError(text))
    return list(names[:count])


# -- generators ----------------------------------------------------------------------------------------------
@step("YIELD_VALUE")
def yield_value(machine: Machine, frame: Frame, arg: Any) -> Signal:
    if frame is machine.root:
        raise Break("generator-frame")
    return Signal(frame.stack.pop(), True)


@step("GET_YIELD_FROM_ITER")
def get_yield_from_iter(machine: Machine, frame: Frame, arg: Any) -> None:
    value = frame.stack.pop()
    frame.stack.append(value if isinstance(value, CapturedGenerator) else machine.iterator(value))


@step("SEND")
def send(machine: Machine, frame: Frame, arg: int) -> None:
    value = frame.stack.pop()
    receiver = frame.stack[-1]
    try:
        if isinstance(receiver, CapturedGenerator):
            result = machine.advance(receiver, value, None)
        elif value is None:
            result = machine.next_item(receiver)
        else:
            result = machine.call(machine.load_attribute(receiver, "send"), (value,), {})
    except Raised as raised:
        if not isinstance(raised.exception, StopIteration):
            raise
        machine.world.raised.pop(id(raised.exception), None)
        frame.stack.pop()
        frame.stack.append(raised.exception.value)
        frame.index = arg
    else:
        frame.stack.append(result)


@step("CLEANUP_THROW")
def cleanup_throw(machine: Machine, frame: Frame, arg: Any) -> None:
    error = frame.stack.pop()
    if not isinstance(error, StopIteration):
        raise Raised(error)
    del frame.stack[-2:]
    frame.stack.append(error.value)


@step("STOPITERATION_ERROR")
def stopiteration_error(machine: Machine, frame: Frame, arg: Any) -> None:
    error = frame.stack.pop()
    if isinstance(error, StopIteration):
        replaced = RuntimeError("generator raised StopIteration")
        replaced.__cause__ = replaced.__context__ = error
        error = machine.note_raised(replaced)
    frame.stack.append(error)


# -- modules -------------------------------------------------------------------------------------------------
@step("IMPORT_NAME")
def import_name(machine: Machine, frame: Frame, arg: str) -> None:
    names, level = frame.stack.pop(), frame.stack.pop()
    package = frame.globals.get("__package__") or ""
    full = (
        arg
        if not level
        else ".".join([*package.split(".")[: len(package.split(".")) - level + 1], arg]).rstrip(".")
    )
    if full not in sys.modules or machine.read_global(frame, "__import__") is not builtins.__import__:
        raise Break("import", seen=f"import {full}")
    module = machine.native(__import__, arg, frame.globals, None, names, level)
    frame.stack.append(machine.identical(module, constant(full, module)))


@step("IMPORT_FROM")
def import_from(machine: Machine, frame: Frame, arg: str) -> None:
    module = frame.stack[-1]
    if arg not in module.__dict__ and f"{module.__name__}.{arg}" in sys.modules:
        inner = sys.modules[f"{module.__name__}.{arg}"]
        frame.stack.append(machine.identical(inner, constant(inner.__name__, inner)))
        return
    frame.stack.append(machine.load_attribute(module, arg))


# -- what is never captured ----------------------------------------------------------------------------------
UNCAPTURED = {
    "class-definition": (
        "LOAD_BUILD_CLASS", "LOAD_LOCALS", "LOAD_FROM_DICT_OR_GLOBALS", "LOAD_FROM_DICT_OR_DEREF",
        "LOAD_NAME", "STORE_NAME", "DELETE_NAME", "SETUP_ANNOTATIONS", "INTRINSIC_1", "INTRINSIC_2",
    ),
    "async": (
        "GET_AWAITABLE", "GET_AITER", "GET_ANEXT", "END_ASYNC_FOR", "BEFORE_ASYNC_WITH", "ASYNC_GEN_WRAP",
    ),
    "exception-group": ("CHECK_EG_MATCH", "PREP_RERAISE_STAR"),
    "import": ("IMPORT_STAR",),
    "builtin-call": ("PRINT",),
}  # fmt: skip


def _refusal(kind: str, op: str) -> Step:
    def refuse(machine: Machine, frame: Frame, arg: Any) -> None:
        raise Break(kind, seen=op.lower())

    return refuse


for _kind, _ops in UNCAPTURED.items():
    for _op in _ops:
        STEPS[_op] = _refusal(_kind, _op)

assert Super is not None and set(STEPS) >= CANONICAL, CANONICAL - set(STEPS)
