"""Builtins: functions of Python itself that capture answers in its own way.

One idea: a handler stands for a callable that looks at objects (types, attributes, protocols) or at the
frame, which C code would do without leaving guards.
"""

from __future__ import annotations

import abc
import builtins
import enum
import functools
import operator
import sys
import types
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from weft.capture.attributes import SEAMS, SPECIAL
from weft.capture.c_calls import CALLED_WITH_ONE, METHODS
from weft.capture.calls import HANDLERS, METACLASSES, Handler, handles, natively
from weft.capture.captured_arrays import CapturedArray
from weft.capture.guards import Guard
from weft.capture.namespaces import InstanceDict
from weft.capture.open_texts import OpenText
from weft.capture.operators import BINARY, COMPARE, INPLACE, UNARY
from weft.capture.parts import OPEN
from weft.capture.protocols import EQUALITY, answers_in_c, fits_protocol, has_own_keys, hash_of
from weft.capture.sources import written_in_c
from weft.capture.values import (
    Args,
    BoundMethod,
    Callback,
    CapturedGenerator,
    CapturedTraceback,
    Kwargs,
    Raised,
    has_type,
)
from weft.capture.world import ABSENT, Unopened
from weft.capture.wrapping import SCALARS, SYMBOLIC
from weft.core import modes
from weft.core.contexts import LEFT_IN_C, LeftAtOnce
from weft.core.seams import seams
from weft.nn.parameter import Buffer
from weft.tensor.base import Parameter, Tensor
from weft.trace.breaks import Break
from weft.trace.scalars import SymBool, SymFloat, SymInt

if TYPE_CHECKING:
    from weft.capture.machine import Machine

STOOD_FOR: dict[type, type] = {
    SymInt: int, SymFloat: float, SymBool: bool, CapturedGenerator: types.GeneratorType, InstanceDict: dict,
    Callback: types.FunctionType, CapturedTraceback: types.TracebackType,
    BoundMethod: types.BuiltinFunctionType, OpenText: str,
}  # fmt: skip


Answer = Callable[..., Any]
"""What stands for a builtin: from the machine and the builtin's arguments."""


class Super:
    """`super(cls, receiver)` in captured code."""

    __slots__ = ("cls", "receiver")

    def __init__(self, cls: type, receiver: Any) -> None:
        self.cls, self.receiver = cls, receiver


def traceback_attribute(machine: Machine, value: CapturedTraceback, name: str) -> Any:
    raise Break("traceback", seen=f".{name} of a traceback")


SPECIAL[CapturedTraceback] = traceback_attribute
SPECIAL[OpenText] = lambda machine, value, name: str if name == "__class__" else value.refuse()
SPECIAL[Super] = lambda machine, value, name: machine.attributes.load_super(value.cls, value.receiver, name)


def generator_attribute(machine: Machine, value: CapturedGenerator, name: str) -> Any:
    if name in ("send", "throw", "close", "__next__", "__iter__"):
        return BoundMethod(GENERATOR_METHODS[name], machine, value)
    if name in ("__name__", "__qualname__"):
        return getattr(value.function or value.code, name, None)
    raise Break("generator-state", seen=f".{name} of a generator")


def _throw(
    machine: Machine, generator: CapturedGenerator, error: Any, value: Any = None, trace: Any = None
) -> Any:
    if has_type(error, type):
        error = (
            value
            if has_type(value, error)
            else machine.calls.call(error, () if value is None else (value,), {})
        )
    return machine.generators.advance(generator, None, error)


GENERATOR_METHODS: dict[str, Any] = {
    "send": lambda machine, generator, value: machine.generators.advance(generator, value, None),
    "throw": _throw,
    "close": lambda machine, generator: machine.generators.close(generator),
    "__next__": lambda machine, generator: machine.generators.advance(generator, None, None),
    "__iter__": lambda machine, generator: generator,
}
SPECIAL[CapturedGenerator] = generator_attribute


def method_attribute(machine: Machine, value: BoundMethod, name: str) -> Any:
    raise Break("unusual-object", seen=f".{name} of a builtin method")


SPECIAL[BoundMethod] = method_attribute


def _as_it_is(method: Callable[..., Any]) -> Handler:
    return lambda machine, args, kwargs: method(*args, **kwargs)


for _method in GENERATOR_METHODS.values():
    HANDLERS[id(_method)] = _as_it_is(_method)


def expect(
    machine: Machine, name: str, args: Args, low: int, high: int, kwargs: Kwargs | None = None
) -> None:
    """Raises CPython's TypeError by calling the builtin itself where the count of arguments is wrong."""
    if not low <= len(args) <= high or kwargs:
        machine.native(getattr(builtins, name), *args, **(kwargs or {}))
        raise Break("builtin-call", seen=f"builtin: {name}")


def answers(function: Any, low: int, high: int) -> Callable[[Answer], Answer]:
    """Decorator: as `handles`, for a builtin that takes so many arguments, by position alone."""

    def register(answer: Answer) -> Answer:
        @handles(function)
        def call(machine: Machine, args: Args, kwargs: Kwargs) -> Any:
            expect(machine, function.__name__, args, low, high, kwargs)
            return answer(machine, *args)

        return answer

    return register


def unless_raised(kind: type, default: Args, function: Callable[..., Any], *args: Any) -> Any:
    """What the function gives; the default, if there is one, where captured code raises such an error."""
    try:
        return function(*args)
    except Raised as raised:
        if default and has_type(raised.exception, kind):
            return default[0]
        raise


# -- types ---------------------------------------------------------------------------------------------------
def type_of(value: Any) -> type:
    if type(value) is Callback:
        return type(value.function)
    return STOOD_FOR.get(type(value), type(value))


@handles(type)
def type_(machine: Machine, args: Args, kwargs: Kwargs) -> Any:
    if len(args) != 1:
        raise Break("class-definition", seen="type(name, bases, namespace)")
    return type_of(args[0])


@answers(builtins.isinstance, 2, 2)
def isinstance_(machine: Machine, value: Any, classes: Any) -> Any:
    if type(classes) is tuple:
        return any(isinstance_(machine, value, cls) for cls in classes)
    if type(value) is Unopened:
        kind = type(value.original)
        if type(classes) is type and written_in_c(kind):
            return issubclass(kind, classes)
        value = machine.parts.open(value)
    kind = type_of(value)
    if classes is Parameter or classes is Buffer:
        mark = "_is_param" if classes is Parameter else "_is_buffer"
        return (
            issubclass(kind, classes)
            or issubclass(kind, Tensor)
            and machine.attributes.field(value, mark) is True
        )
    if not has_type(classes, type):
        return machine.native(builtins.isinstance, value, classes)
    checker = users_check(machine, classes, "__instancecheck__")
    if checker is not None:
        return machine.operators.truth(machine.calls.call(checker, (classes, value), {}))
    if (fits := fits_protocol(machine, value, classes)) is not None or belongs(machine, kind, classes):
        return fits is not False
    told = machine.attributes.load(value, "__class__") if tells_its_class(machine, value) else kind
    return told is not kind and has_type(told, type) and belongs(machine, told, classes)


def users_check(machine: Machine, cls: Any, name: str) -> Any:
    """The user's function that tells what belongs to a class; None where C code or the library does."""
    if not has_type(cls, type) or type(cls) is type:
        return None
    checker = machine.attributes.lookup(type(cls), name)
    users = has_type(checker, types.FunctionType) and checker.__module__ not in NATIVE_CHECKS
    return checker if users else None


def belongs(machine: Machine, cls: Any, base: Any) -> bool:
    """`issubclass`, by C code. What an abstract class denies may change with later registrations."""
    answer: bool = machine.native(issubclass, cls, base)
    if not answer and has_type(base, abc.ABCMeta):
        machine.world.guards.add(Guard("AMBIENT", None, (abc.get_cache_token, abc.get_cache_token())))
    return answer


def tells_its_class(machine: Machine, value: Any) -> bool:
    """Whether `value.__class__` is code of the user's."""
    if answers_in_c(value):
        return False
    return any(
        machine.attributes.python_method(value, name) is not None
        for name in ("__getattribute__", "__class__")
    )


@answers(issubclass, 2, 2)
def issubclass_(machine: Machine, cls: Any, classes: Any) -> bool:
    for candidate in classes if type(classes) is tuple else (classes,):
        checker = users_check(machine, candidate, "__subclasscheck__")
        if checker is not None:
            if machine.operators.truth(machine.calls.call(checker, (candidate, cls), {})):
                return True
        elif belongs(machine, cls, candidate):
            return True
    return False


NATIVE_CHECKS = (
    "abc", "typing", "enum", "_py_abc",
    "weft.nn.parameter", "weft.tensor.parameter", "weft.tensor.legacy",
)  # fmt: skip


@handles(type.__call__)
def type_call(machine: Machine, args: Args, kwargs: Kwargs) -> Any:
    return machine.calls.construct_plainly(args[0], args[1:], kwargs)


@handles(builtins.__build_class__)
def build_class(machine: Machine, args: Args, kwargs: Kwargs) -> Any:
    raise Break("class-definition", seen=f"class {args[1]}")


natively(callable)


# -- attributes ----------------------------------------------------------------------------------------------
@answers(getattr, 2, 3)
def getattr_(machine: Machine, value: Any, name: Any, *default: Any) -> Any:
    if type(name) is not str:
        return machine.native(getattr, value, name, *default)
    return unless_raised(AttributeError, default, machine.attributes.load, value, name)


@answers(hasattr, 2, 2)
def hasattr_(machine: Machine, value: Any, name: Any) -> Any:
    return getattr_(machine, value, name, ABSENT) is not ABSENT


answers(setattr, 3, 3)(lambda machine, *args: machine.attributes.store(*args))
answers(delattr, 2, 2)(lambda machine, *args: machine.attributes.store(*args, ABSENT))


@handles(object.__setattr__)
def object_setattr(machine: Machine, args: Args, kwargs: Kwargs) -> Any:
    machine.attributes.store_plainly(*args)


@handles(object.__delattr__)
def object_delattr(machine: Machine, args: Args, kwargs: Kwargs) -> Any:
    machine.attributes.store_plainly(args[0], args[1], ABSENT)


@handles(object.__getattribute__)
def object_getattribute(machine: Machine, args: Args, kwargs: Kwargs) -> Any:
    return machine.attributes.load_plainly(*args, fallback=False)


def bound_setattr(machine: Machine, receiver: Any, args: Args, kwargs: Kwargs) -> tuple[bool, Any]:
    if has_type(receiver, type):
        return False, None
    machine.attributes.store_plainly(receiver, *args)
    return True, None


def _bound(handler: Handler) -> Callable[[Machine, Any, Args, Kwargs], tuple[bool, Any]]:
    return lambda machine, receiver, args, kwargs: (True, handler(machine, (receiver, *args), kwargs))


METHODS["__setattr__"] = bound_setattr
METHODS.update(__delattr__=_bound(object_delattr), __getattribute__=_bound(object_getattribute))


@handles(vars)
def vars_(machine: Machine, args: Args, kwargs: Kwargs) -> Any:
    if len(args) != 1:
        raise Break("frame-introspection", seen="builtin: vars")
    return machine.attributes.load(args[0], "__dict__")


@handles(super)
def super_(machine: Machine, args: Args, kwargs: Kwargs) -> Any:
    if len(args) == 2:
        return Super(*args)
    if args or machine.frame is None:
        raise Break("builtin-call", seen="builtin: super with one argument")
    frame = machine.frame
    cls = machine.variables.read_cell(frame, "__class__")
    return Super(cls, machine.variables.first_argument(frame))


for _function in (locals, dir, print, input, open, eval, exec, compile, breakpoint, memoryview):

    @handles(_function)
    def _refuse(machine: Machine, args: Args, kwargs: Kwargs, name: str = _function.__name__) -> Any:
        raise Break("builtin-call", seen=f"builtin: {name}")


# -- protocols -----------------------------------------------------------------------------------------------
@answers(len, 1, 1)
def len_(machine: Machine, value: Any) -> Any:
    if type(value) is Unopened:
        found = machine.parts.length(value)
        if found is not OPEN:
            return found
        value = machine.parts.open(value)
    if not answers_in_c(value) and not has_type(value, (InstanceDict, CapturedArray)):
        found = machine.attributes.python_method(value, "__len__")
        if found is not None:
            result = machine.calls.call_method(found, value)
            operators = machine.operators
            if has_type(result, SymInt) and not operators.truth(operators.compare("<", result, 0)):
                return result
            result = result.plain() if has_type(result, SYMBOLIC) else result
            return machine.native(len, Sized(machine, result))
    if STOOD_FOR.get(type(value), type(value)) is np.ndarray:
        return machine.native(len_of_tensor, machine.attributes.load(value, "shape"))
    machine.c_arguments.refuse_opaque(value)
    if has_type(value, Tensor):
        return machine.native(len_of_tensor, value.shape)
    return machine.native(len, value)


class Sized:
    """Gives `len` the answer of a `__len__`, to be checked as it checks answers."""

    def __init__(self, machine: Machine, answer: Any) -> None:
        self.answer: int = index_of(machine, answer)

    def __len__(self) -> int:
        return self.answer


def index_of(machine: Machine, value: Any) -> Any:
    """What a user's `__index__` gives; other values stay."""
    return machine.operators.index(value)


def len_of_tensor(shape: Any) -> Any:
    if not shape:
        raise TypeError("len() of unsized object" if type(shape) is tuple else "len() of a 0-d tensor")
    return shape[0]


@handles(iter)
def iter_(machine: Machine, args: Args, kwargs: Kwargs) -> Any:
    if len(args) == 2:
        machine.c_arguments.check(args[1], EQUALITY)
        given = Callback(args[0], machine.c_calls.call_to_compare) if callable(args[0]) else args[0]
        return machine.world.keep(machine.native(iter, given, args[1]))
    expect(machine, "iter", args, 1, 1, kwargs)
    return machine.iterators.iterator(args[0])


@answers(next, 1, 2)
def next_(machine: Machine, iterator: Any, *default: Any) -> Any:
    machine.world.changes += 1
    return unless_raised(StopIteration, default, machine.iterators.next_item, iterator)


@handles(bool)
def bool_(machine: Machine, args: Args, kwargs: Kwargs) -> Any:
    truth = machine.operators.untold_truth(args[0]) if len(args) == 1 and not kwargs else None
    if truth is not None:
        return truth
    if len(args) == 1 and not kwargs:
        return machine.operators.truth(args[0])
    return machine.native(bool, *args, **kwargs)


@handles(str)
def str_(machine: Machine, args: Args, kwargs: Kwargs) -> Any:
    if len(args) == 1 and not kwargs:
        return machine.texts.text(args[0])
    return machine.native(str, *args, **kwargs)


answers(repr, 1, 1)(lambda machine, value: machine.texts.text(value, "__repr__"))
answers(format, 1, 2)(lambda machine, value, *spec: machine.texts.format(value, *(spec or ("",))))


@answers(hash, 1, 1)
def hash_(machine: Machine, value: Any) -> Any:
    if has_own_keys(machine, value):
        return hash_of(machine, value)
    items = value if has_type(value, (tuple, frozenset)) else (value,)
    if all(type(item) in SCALARS or has_type(item, SYMBOLIC) for item in items):
        return machine.native(hash, value)
    if type(value).__hash__ is None and answers_in_c(value):
        return machine.native(hash, value)
    raise Break("builtin-call", seen="builtin: hash of an object")


def element_of(machine: Machine, value: Tensor) -> Any:
    """The number that a tensor of one element holds, where that can be in the graph; else the tensor."""
    number = machine.recorder.element(value)
    return value if number is None else number


def _converter(function: Any, name: str) -> None:
    @handles(function)
    def convert(machine: Machine, args: Args, kwargs: Kwargs) -> Any:
        if len(args) == 1 and not kwargs:
            value = args[0]
            if has_type(value, Tensor) and function is not complex:
                value = element_of(machine, value)
            if has_type(value, (SymInt, SymFloat)) and type_of(value) is function:
                return value
            if has_type(value, SymInt) and function is float:
                return machine.native(operator.mul, value, 1.0)
            if has_type(value, SymFloat) and function is int:
                return machine.native(value.__trunc__)
            found = None if answers_in_c(value) else machine.attributes.python_method(value, name)
            if found is not None:
                result = machine.calls.call_method(found, value)
                kind = type_of(result)
                if kind is function:
                    return result
                if issubclass(kind, function):
                    seen = f"{name} that gives no exact {function.__name__}"  # Python warns
                    raise Break("builtin-protocol", seen=seen)
                owner = f"{type(value).__name__}." if function is float else ""
                text = f"{owner}{name} returned non-{function.__name__} (type {kind.__name__})"
                raise machine.fail(TypeError(text))
        args = tuple(index_of(machine, value) for value in args)
        return machine.c_calls.call_pure(function, args, kwargs)


_converter(int, "__int__")
_converter(float, "__float__")
_converter(complex, "__complex__")


@handles(abs)
def abs_(machine: Machine, args: Args, kwargs: Kwargs) -> Any:
    found = None
    if len(args) == 1 and not kwargs and not answers_in_c(args[0]):
        found = machine.attributes.python_method(args[0], "__abs__")
    if found is None:
        return machine.c_calls.call_pure(abs, args, kwargs)
    return machine.calls.call_method(found, args[0])


@handles(round)
def round_(machine: Machine, args: Args, kwargs: Kwargs) -> Any:
    given = (*args, *kwargs.values()) if set(kwargs) <= {"ndigits"} else ()
    if 1 <= len(given) <= 2 and args and not answers_in_c(args[0]):
        found = machine.attributes.python_method(args[0], "__round__")
        if found is not None:
            return machine.calls.call_method(found, args[0], *(given[1:] if given[-1] is not None else ()))
    return machine.c_calls.call_pure(round, args, kwargs)


@handles(divmod)
def divmod_(machine: Machine, args: Args, kwargs: Kwargs) -> Any:
    if len(args) != 2 or kwargs or (answers_in_c(args[0]) and answers_in_c(args[1])):
        return machine.c_calls.call_pure(divmod, args, kwargs)
    return machine.operators.by_protocol(divmod, "divmod()", "__divmod__", "__rdivmod__", *args)


@handles(pow)
def pow_(machine: Machine, args: Args, kwargs: Kwargs) -> Any:
    if len(args) == 2 and not kwargs:
        return machine.operators.binary("**", *args)
    found = (
        None if not args or answers_in_c(args[0]) else machine.attributes.python_method(args[0], "__pow__")
    )
    if found is not None and len(args) == 3 and not kwargs:
        result = machine.calls.call_method(found, *args)
        if result is not NotImplemented:
            return result
    args = tuple(value.plain() if has_type(value, SYMBOLIC) else value for value in args)
    return machine.c_calls.call_pure(pow, args, kwargs)


def context_get(machine: Machine, receiver: Any, args: Args, kwargs: Kwargs) -> tuple[bool, Any]:
    if receiver is modes.state:
        return True, current_modes(machine, args, kwargs)
    return False, None


METHODS["get"] = context_get


def leave_mode(machine: Machine, receiver: Any, args: Args, kwargs: Kwargs) -> tuple[bool, Any]:
    """`__exit__` of a mode that was bound where it is C's."""
    if has_type(receiver, LeftAtOnce) and type(receiver).__exit__ is LEFT_IN_C:
        return True, machine.calls.call_method(type(receiver)._leave, receiver, *args)
    return False, None


METHODS["__exit__"] = leave_mode


# -- the operator module -------------------------------------------------------------------------------------
def _operator(method: str, symbol: str) -> Handler:
    """What stands for a function of the module: a method of `machine.operators`, for one symbol."""
    return lambda machine, args, kwargs: getattr(machine.operators, method)(symbol, *args)


for _symbol, (_apply, _name, _other) in BINARY.items():
    HANDLERS[id(_apply)] = _operator("binary", _symbol)
for _symbol, (_apply, _name) in INPLACE.items():
    HANDLERS[id(_apply)] = _operator("inplace", _symbol)
for _symbol, (_apply, _name, _other) in COMPARE.items():
    HANDLERS[id(_apply)] = _operator("compare", _symbol)
for _symbol, (_apply_one, _name) in UNARY.items():
    HANDLERS[id(_apply_one)] = _operator("unary", _symbol)
HANDLERS[id(operator.not_)] = lambda machine, args, kwargs: not machine.operators.truth(*args)
HANDLERS[id(operator.truth)] = lambda machine, args, kwargs: machine.operators.truth(*args)
HANDLERS[id(operator.getitem)] = lambda machine, args, kwargs: machine.operators.get_item(*args)
HANDLERS[id(operator.setitem)] = lambda machine, args, kwargs: machine.operators.set_item(*args)
HANDLERS[id(operator.delitem)] = lambda machine, args, kwargs: machine.operators.set_item(
    args[0], args[1], ABSENT
)
HANDLERS[id(operator.contains)] = lambda machine, args, kwargs: machine.operators.contains(args[1], args[0])
HANDLERS[id(operator.is_)] = lambda machine, args, kwargs: machine.operators.identical_values(*args)
HANDLERS[id(operator.is_not)] = lambda machine, args, kwargs: not machine.operators.identical_values(*args)
HANDLERS[id(operator.index)] = lambda machine, args, kwargs: index_operator(machine, *args)
HANDLERS[id(sys.exc_info)] = lambda machine, args, kwargs: machine.exception_info()
if hasattr(sys, "exception"):
    HANDLERS[id(sys.exception)] = lambda machine, args, kwargs: machine.handled(machine.frame)
HANDLERS[id(seams.is_compiling)] = HANDLERS[id(SEAMS["is_compiling"])] = lambda machine, args, kwargs: True


@handles(modes.current)
def current_modes(machine: Machine, args: Args, kwargs: Kwargs) -> Any:
    """The modes as captured code would find them without a recorder."""
    now = modes.modes()
    if len(now.functions) > 1 or len(now.extra) > 1 or now.inference or now.saved_hooks or now.shielded:
        raise Break("mode-change", seen="weft.core.modes.current")
    return now.grad


def index_operator(machine: Machine, value: Any) -> Any:
    value = index_of(machine, value)
    return value if has_type(value, SymInt) else machine.native(operator.index, value)


def made(value: Any) -> tuple[Any, tuple[Any, ...]]:
    """What such an object was made with."""
    maker, parts = value.__reduce__()
    return maker, parts


def call_attrgetter(machine: Machine, getter: operator.attrgetter[Any], value: Any) -> Any:
    _, names = made(getter)
    results = []
    for name in names:
        result = value
        for part in name.split("."):
            result = machine.attributes.load(result, part)
        results.append(result)
    return results[0] if len(results) == 1 else tuple(results)


def call_itemgetter(machine: Machine, getter: operator.itemgetter[Any], value: Any) -> Any:
    _, keys = made(getter)
    results = [machine.operators.get_item(value, key) for key in keys]
    return results[0] if len(results) == 1 else tuple(results)


def call_methodcaller(machine: Machine, caller: operator.methodcaller, value: Any) -> Any:
    maker, parts = made(caller)
    kwargs: Kwargs = {}
    if has_type(maker, functools.partial):
        name, kwargs, args = maker.args[0], maker.keywords, list(parts)
    else:
        name, *args = parts
    return machine.calls.call(machine.attributes.load(value, name), tuple(args), kwargs)


CALLED_WITH_ONE.update(
    {
        operator.attrgetter: call_attrgetter,
        operator.itemgetter: call_itemgetter,
        operator.methodcaller: call_methodcaller,
    }
)


def _enum_call(machine: Machine, cls: Any, args: Args, kwargs: Kwargs) -> Any:
    if kwargs or len(args) != 1:
        raise Break("class-definition", seen=f"{cls.__name__}(...)")
    machine.c_arguments.check(args[0], EQUALITY)
    missing = getattr(machine.attributes.lookup(cls, "_missing_"), "__func__", None)
    if getattr(missing, "__module__", "enum") != "enum":  # may run: what enum does around it is interpreted
        return machine.calls.call(enum.Enum.__new__, (cls, *args), {})
    return machine.native(cls, *args)


METACLASSES[enum.EnumMeta.__call__] = _enum_call
