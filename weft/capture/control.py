"""Control instructions: exceptions, `with`, `match`, generators and imports; and what is never captured.

The second half of `weft.capture.instructions`, in the same form.
"""

from __future__ import annotations

import builtins
import collections.abc
import sys
import types
from typing import Any

from weft.capture.break_instruction import exception_matches, no_context
from weft.capture.bytecode.instructions import CANONICAL
from weft.capture.calls import handles
from weft.capture.frame import Frame, PreviousException
from weft.capture.instructions import step
from weft.capture.machine import STEPS, Machine, Signal, Step, push_handled
from weft.capture.sources import builtin
from weft.capture.sources import module as module_source
from weft.capture.values import Args, CapturedGenerator, Kwargs, Raised, has_type
from weft.capture.world import ABSENT
from weft.trace.breaks import Break


# -- exceptions ----------------------------------------------------------------------------------------------
@step("PUSH_EXC_INFO")
def push_exc_info(machine: Machine, frame: Frame, arg: Any) -> None:
    push_handled(frame, frame.stack.pop())


@step("POP_EXCEPT")
def pop_except(machine: Machine, frame: Frame, arg: Any) -> None:
    previous = frame.stack.pop()
    frame.handled = previous.previous if has_type(previous, PreviousException) else previous


@step("CHECK_EXC_MATCH")
def check_exc_match(machine: Machine, frame: Frame, arg: Any) -> None:
    wanted = frame.stack.pop()
    frame.stack.append(machine.native(exception_matches, frame.stack[-1], wanted))


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
    if has_type(value, type) and issubclass(value, BaseException):
        value = machine.calls.call(value, (), {})
    if has_type(value, BaseException):
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
    found = {name: machine.attributes.lookup(kind, name) for name in ("__enter__", "__exit__")}
    for name, value in found.items():
        if value is ABSENT:
            raise machine.fail(no_context(kind, name))
    machine.c_arguments.refuse_opaque(manager)
    leave = machine.attributes.bind(found["__exit__"], manager, kind)
    entered = machine.calls.call(machine.attributes.bind(found["__enter__"], manager, kind), (), {})
    frame.stack += [leave, entered]


@step("WITH_EXCEPT_START")
def with_except_start(machine: Machine, frame: Frame, arg: Any) -> None:
    error = frame.stack[-1]
    leave = frame.stack[-4]
    frame.stack.append(
        machine.calls.call(leave, (type(error), error, machine.attributes.traceback_of(error)), {})
    )


# -- match ---------------------------------------------------------------------------------------------------
@step("GET_LEN")
def get_len(machine: Machine, frame: Frame, arg: Any) -> None:
    frame.stack.append(machine.calls.call(len, (frame.stack[-1],), {}))


@step("MATCH_MAPPING")
def match_mapping(machine: Machine, frame: Frame, arg: Any) -> None:
    frame.stack.append(has_type(frame.stack[-1], collections.abc.Mapping))


@step("MATCH_SEQUENCE")
def match_sequence(machine: Machine, frame: Frame, arg: Any) -> None:
    value = frame.stack[-1]
    frame.stack.append(
        has_type(value, collections.abc.Sequence) and not has_type(value, (str, bytes, bytearray))
    )


@step("MATCH_KEYS")
def match_keys(machine: Machine, frame: Frame, arg: Any) -> None:
    subject, keys = frame.stack[-2:]
    values = []
    for key in keys:
        if not machine.operators.contains(key, subject):
            frame.stack.append(None)
            return
        values.append(machine.operators.get_item(subject, key))
    frame.stack.append(tuple(values))


@step("MATCH_CLASS")
def match_class(machine: Machine, frame: Frame, arg: int) -> None:
    names, cls, subject = frame.stack.pop(), frame.stack.pop(), frame.stack.pop()
    if not has_type(cls, type):
        raise machine.fail(TypeError("called match pattern must be a class"))
    if not machine.calls.call(builtins.isinstance, (subject, cls), {}):
        frame.stack.append(None)
        return
    attributes: list[Any] = []
    wanted = list(names)
    if arg:
        try:
            positional = machine.attributes.load(cls, "__match_args__")
        except Raised:
            positional = None
        if positional is None and cls in SELF_MATCHING:
            attributes.append(subject)
        else:
            wanted = [*positional_names(machine, cls, positional, arg), *wanted]
    for name in wanted:
        value = machine.calls.call(getattr, (subject, name, ABSENT), {})
        if value is ABSENT:
            frame.stack.append(None)
            return
        attributes.append(value)
    frame.stack.append(tuple(attributes))


SELF_MATCHING = frozenset({bool, bytearray, bytes, dict, float, frozenset, int, list, set, str, tuple})


def positional_names(machine: Machine, cls: type, names: Any, count: int) -> list[str]:
    names = names or ()
    if not has_type(names, tuple):
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
    frame.stack.append(value if has_type(value, CapturedGenerator) else machine.iterators.iterator(value))


@step("SEND")
def send(machine: Machine, frame: Frame, arg: int) -> None:
    value = frame.stack.pop()
    receiver = frame.stack[-1]
    try:
        if has_type(receiver, CapturedGenerator):
            result = machine.generators.advance(receiver, value, None)
        elif value is None:
            result = machine.iterators.next_item(receiver)
        else:
            result = machine.calls.call(machine.attributes.load(receiver, "send"), (value,), {})
    except Raised as raised:
        if not has_type(raised.exception, StopIteration):
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
    if not has_type(error, StopIteration):
        raise Raised(error)
    del frame.stack[-2:]
    frame.stack.append(error.value)


@step("STOPITERATION_ERROR")
def stopiteration_error(machine: Machine, frame: Frame, arg: Any) -> None:
    error = frame.stack.pop()
    if has_type(error, StopIteration):
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
    if (
        full not in sys.modules
        or machine.variables.read_global(frame, "__import__") is not builtins.__import__
    ):
        raise Break("import", seen=f"import {full}")
    frame.stack.append(found(machine, full, arg, frame.globals, None, names, level))


@handles(builtins.__import__)
def import_by_call(machine: Machine, args: Args, kwargs: Kwargs) -> Any:
    """The call with a name alone, of a module that is there already, imports nothing."""
    if len(args) != 1 or kwargs or type(args[0]) is not str or args[0] not in sys.modules:
        raise Break("builtin-call", seen="builtin: __import__")
    return found(machine, args[0], args[0])


def found(machine: Machine, full: str, *args: Any) -> Any:
    """What `__import__` gives for a module that was imported before, guarded."""
    module = machine.native(__import__, *args)
    imported(machine, full)
    shown: Any = module.__dict__.get("__name__") if has_type(module, types.ModuleType) else full
    if sys.modules.get(shown) is not module:
        raise Break("import", seen=f"import {full}")
    return imported(machine, shown)


def imported(machine: Machine, name: str) -> Any:
    """What stands in `sys.modules`, which anyone may change."""
    source = module_source("sys").item("modules")
    machine.world.guard("TYPE", source, dict)
    if type(sys.modules) is not dict or sys.modules[name] is None:
        raise Break("import", seen=f"import {name}")
    return machine.wrapping.identical(sys.modules[name], source.item(name))


@step("IMPORT_FROM")
def import_from(machine: Machine, frame: Frame, arg: str) -> None:
    module = frame.stack[-1]
    if arg not in module.__dict__ and f"{module.__name__}.{arg}" in sys.modules:
        machine.world.guard("LACKS", machine.attributes.module_source(module), arg)
        frame.stack.append(imported(machine, f"{module.__name__}.{arg}"))
        return
    frame.stack.append(machine.attributes.load(module, arg))


@step("LOAD_BUILD_CLASS")
def load_build_class(machine: Machine, frame: Frame, arg: Any) -> None:
    frame.stack.append(machine.wrapping.wrap(builtins.__build_class__, builtin("__build_class__")))


# -- what is never captured ----------------------------------------------------------------------------------
UNCAPTURED = {
    "class-definition": (
        "LOAD_LOCALS", "LOAD_FROM_DICT_OR_GLOBALS", "LOAD_FROM_DICT_OR_DEREF",
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

assert set(STEPS) >= CANONICAL, CANONICAL - set(STEPS)
