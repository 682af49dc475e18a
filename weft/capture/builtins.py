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
from typing import Any

import numpy as np

from weft.capture.attributes import SEAMS, SPECIAL
from weft.capture.calls import HANDLERS, METACLASSES, handles
from weft.capture.guards import Guard
from weft.capture.namespaces import InstanceDict
from weft.capture.natives import EQUALITY, METHODS
from weft.capture.operators import BINARY, COMPARE, INPLACE, UNARY
from weft.capture.protocols import fits_protocol, has_own_keys, hash_of
from weft.capture.values import (
    BoundMethod,
    Callback,
    CapturedGenerator,
    CapturedTraceback,
    Raised,
    isinstance,
)
from weft.capture.world import ABSENT, Appended
from weft.capture.wrapping import SCALARS, SYMBOLIC
from weft.core import modes
from weft.core.seams import seams
from weft.nn.parameter import Buffer
from weft.tensor.base import Parameter, Tensor
from weft.trace.breaks import Break
from weft.trace.scalars import SymBool, SymFloat, SymInt

Args = tuple[Any, ...]
Kwargs = dict[str, Any]
STOOD_FOR: dict[type, type] = {
    SymInt: int, SymFloat: float, SymBool: bool, CapturedGenerator: types.GeneratorType, InstanceDict: dict,
    Callback: types.FunctionType, CapturedTraceback: types.TracebackType,
    BoundMethod: types.BuiltinFunctionType,
}  # fmt: skip


class Super:
    """`super(cls, receiver)` in captured code."""

    __slots__ = ("cls", "receiver")

    def __init__(self, cls: type, receiver: Any) -> None:
        self.cls, self.receiver = cls, receiver


def traceback_attribute(machine: Any, value: CapturedTraceback, name: str) -> Any:
    raise Break("traceback", seen=f".{name} of a traceback")


SPECIAL[CapturedTraceback] = traceback_attribute
SPECIAL[Super] = lambda machine, value, name: machine.load_super(value.cls, value.receiver, name)


def generator_attribute(machine: Any, value: CapturedGenerator, name: str) -> Any:
    if name in ("send", "throw", "close", "__next__", "__iter__"):
        return BoundMethod(GENERATOR_METHODS[name], machine, value)
    if name in ("__name__", "__qualname__"):
        return getattr(value.function or value.code, name, None)
    raise Break("generator-state", seen=f".{name} of a generator")


def _throw(
    machine: Any, generator: CapturedGenerator, error: Any, value: Any = None, trace: Any = None
) -> Any:
    if isinstance(error, type):
        error = (
            value if isinstance(value, error) else machine.call(error, () if value is None else (value,), {})
        )
    return machine.advance(generator, None, error)


GENERATOR_METHODS: dict[str, Any] = {
    "send": lambda machine, generator, value: machine.advance(generator, value, None),
    "throw": _throw,
    "close": lambda machine, generator: machine.close_generator(generator),
    "__next__": lambda machine, generator: machine.advance(generator, None, None),
    "__iter__": lambda machine, generator: generator,
}
SPECIAL[CapturedGenerator] = generator_attribute


def method_attribute(machine: Any, value: BoundMethod, name: str) -> Any:
    raise Break("unusual-object", seen=f".{name} of a builtin method")


SPECIAL[BoundMethod] = method_attribute


def append_to(machine: Any, target: Appended, *args: Any, **kwargs: Any) -> None:
    if len(args) != 1 or kwargs:
        machine.native([].append, *args, **kwargs)
    machine.changes += 1
    now = machine.world.by_original.get(id(target.original))
    (target if now is None else now.value).append(machine.world.keep(args[0]))


HANDLERS[id(append_to)] = lambda machine, args, kwargs: append_to(*args, **kwargs)
SPECIAL[Appended] = lambda machine, value, name: BoundMethod(append_to, machine, value)
for _method in GENERATOR_METHODS.values():
    HANDLERS[id(_method)] = lambda machine, args, kwargs, method=_method: method(*args, **kwargs)  # type: ignore[misc]


def expect(machine: Any, name: str, args: Args, low: int, high: int, kwargs: Kwargs | None = None) -> None:
    """Raises CPython's TypeError by calling the builtin itself where the count of arguments is wrong."""
    if not low <= len(args) <= high or kwargs:
        machine.native(getattr(__import__("builtins"), name), *args, **(kwargs or {}))
        raise Break("builtin-call", seen=f"builtin: {name}")


# -- types ---------------------------------------------------------------------------------------------------
def type_of(value: Any) -> type:
    if type(value) is Callback:
        return type(value.function)
    return STOOD_FOR.get(type(value), type(value))


@handles(type)
def type_(machine: Any, args: Args, kwargs: Kwargs) -> Any:
    if len(args) != 1:
        raise Break("class-definition", seen="type(name, bases, namespace)")
    return type_of(args[0])


@handles(builtins.isinstance)
def isinstance_(machine: Any, args: Args, kwargs: Kwargs) -> Any:
    expect(machine, "isinstance", args, 2, 2, kwargs)
    value, classes = args
    if type(classes) is tuple:
        return any(isinstance_(machine, (value, cls), {}) for cls in classes)
    kind = type_of(value)
    if classes is Parameter or classes is Buffer:
        mark = "_is_param" if classes is Parameter else "_is_buffer"
        return issubclass(kind, classes) or issubclass(kind, Tensor) and machine.field(value, mark) is True
    if not isinstance(classes, type):
        return machine.native(builtins.isinstance, value, classes)
    checker = machine.lookup(type(classes), "__instancecheck__") if type(classes) is not type else ABSENT
    if isinstance(checker, types.FunctionType) and checker.__module__ not in NATIVE_CHECKS:
        return machine.truth(machine.call(checker, (classes, value), {}))
    if (fits := fits_protocol(machine, value, classes)) is not None or belongs(machine, kind, classes):
        return fits is not False
    told = machine.load_attribute(value, "__class__") if tells_its_class(machine, value) else kind
    return told is not kind and isinstance(told, type) and belongs(machine, told, classes)


def belongs(machine: Any, cls: Any, base: Any) -> bool:
    """`issubclass`, by C code. What an abstract class denies may change with later registrations."""
    answer: bool = machine.native(issubclass, cls, base)
    if not answer and isinstance(base, abc.ABCMeta):
        machine.world.guards.add(Guard("AMBIENT", None, (abc.get_cache_token, abc.get_cache_token())))
    return answer


def tells_its_class(machine: Any, value: Any) -> bool:
    """Whether `value.__class__` is code of the user's."""
    if machine.is_plain(value):
        return False
    return any(machine.python_method(value, name) is not None for name in ("__getattribute__", "__class__"))


@handles(issubclass)
def issubclass_(machine: Any, args: Args, kwargs: Kwargs) -> Any:
    expect(machine, "issubclass", args, 2, 2, kwargs)
    cls, classes = args
    for candidate in classes if type(classes) is tuple else (classes,):
        checker = (
            machine.lookup(type(candidate), "__subclasscheck__")
            if isinstance(candidate, type) and type(candidate) is not type
            else ABSENT
        )
        if isinstance(checker, types.FunctionType) and checker.__module__ not in NATIVE_CHECKS:
            if machine.truth(machine.call(checker, (candidate, cls), {})):
                return True
        elif belongs(machine, cls, candidate):
            return True
    return False


NATIVE_CHECKS = (
    "abc", "typing", "enum", "_py_abc",
    "weft.nn.parameter", "weft.tensor.parameter", "weft.tensor.legacy",
)  # fmt: skip


@handles(type.__call__)
def type_call(machine: Any, args: Args, kwargs: Kwargs) -> Any:
    return machine.construct_plainly(args[0], args[1:], kwargs)


@handles(builtins.__build_class__)
def build_class(machine: Any, args: Args, kwargs: Kwargs) -> Any:
    raise Break("class-definition", seen=f"class {args[1]}")


@handles(callable)
def callable_(machine: Any, args: Args, kwargs: Kwargs) -> Any:
    return machine.native(callable, *args, **kwargs)


# -- attributes ----------------------------------------------------------------------------------------------
@handles(getattr)
def getattr_(machine: Any, args: Args, kwargs: Kwargs) -> Any:
    expect(machine, "getattr", args, 2, 3, kwargs)
    value, name = args[0], args[1]
    if type(name) is not str:
        return machine.native(getattr, *args)
    if len(args) == 2:
        return machine.load_attribute(value, name)
    try:
        return machine.load_attribute(value, name)
    except Raised as raised:
        if isinstance(raised.exception, AttributeError):
            return args[2]
        raise


@handles(hasattr)
def hasattr_(machine: Any, args: Args, kwargs: Kwargs) -> Any:
    expect(machine, "hasattr", args, 2, 2, kwargs)
    missing = object()
    return getattr_(machine, (*args, missing), {}) is not missing


@handles(setattr)
def setattr_(machine: Any, args: Args, kwargs: Kwargs) -> Any:
    expect(machine, "setattr", args, 3, 3, kwargs)
    machine.store_attribute(*args)


@handles(delattr)
def delattr_(machine: Any, args: Args, kwargs: Kwargs) -> Any:
    expect(machine, "delattr", args, 2, 2, kwargs)
    machine.store_attribute(*args, ABSENT)


@handles(object.__setattr__)
def object_setattr(machine: Any, args: Args, kwargs: Kwargs) -> Any:
    machine.plain_store(*args)


@handles(object.__delattr__)
def object_delattr(machine: Any, args: Args, kwargs: Kwargs) -> Any:
    machine.plain_store(*args, ABSENT)


@handles(object.__getattribute__)
def object_getattribute(machine: Any, args: Args, kwargs: Kwargs) -> Any:
    return machine.plain_attribute(*args, fallback=False)


def bound_setattr(machine: Any, receiver: Any, args: Args, kwargs: Kwargs) -> tuple[bool, Any]:
    if isinstance(receiver, type):
        return False, None
    return True, machine.plain_store(receiver, *args)


def bound_delattr(machine: Any, receiver: Any, args: Args, kwargs: Kwargs) -> tuple[bool, Any]:
    return True, machine.plain_store(receiver, *args, ABSENT)


def bound_getattribute(machine: Any, receiver: Any, args: Args, kwargs: Kwargs) -> tuple[bool, Any]:
    return True, machine.plain_attribute(receiver, *args, fallback=False)


METHODS.update(__setattr__=bound_setattr, __delattr__=bound_delattr, __getattribute__=bound_getattribute)


@handles(vars)
def vars_(machine: Any, args: Args, kwargs: Kwargs) -> Any:
    if len(args) != 1:
        raise Break("frame-introspection", seen="builtin: vars")
    return machine.load_attribute(args[0], "__dict__")


@handles(super)
def super_(machine: Any, args: Args, kwargs: Kwargs) -> Any:
    if len(args) == 2:
        return Super(*args)
    if args or machine.frame is None:
        raise Break("builtin-call", seen="builtin: super with one argument")
    frame = machine.frame
    cls = machine.read_cell(frame, "__class__")
    return Super(cls, machine.first_argument(frame))


@handles(id, locals, globals, dir, print, input, open, eval, exec, compile, breakpoint, memoryview)
def unseen(machine: Any, args: Args, kwargs: Kwargs) -> Any:
    raise Break("builtin-call")


for _function in (id, locals, globals, dir, print, input, open, eval, exec, compile, breakpoint, memoryview):

    def _refuse(machine: Any, args: Args, kwargs: Kwargs, name: str = _function.__name__) -> Any:
        raise Break("builtin-call", seen=f"builtin: {name}")

    HANDLERS[id(_function)] = _refuse


# -- protocols -----------------------------------------------------------------------------------------------
@handles(len)
def len_(machine: Any, args: Args, kwargs: Kwargs) -> Any:
    expect(machine, "len", args, 1, 1, kwargs)
    value = args[0]
    if not machine.is_plain(value) and not isinstance(value, InstanceDict):
        found = machine.python_method(value, "__len__")
        if found is not None:
            result = machine.call_method(found, value)
            if isinstance(result, SymInt) and not machine.truth(machine.compare("<", result, 0)):
                return result
            result = result.plain() if isinstance(result, SYMBOLIC) else result
            return machine.native(len, Sized(machine, result))
    if isinstance(value, np.ndarray):
        return machine.native(len_of_tensor, machine.load_attribute(value, "shape"))
    machine.refuse_opaque(value)
    if isinstance(value, Tensor):
        return machine.native(len_of_tensor, value.shape)
    return machine.native(len, value)


class Sized:
    """Gives `len` the answer of a `__len__`, to be checked as it checks answers."""

    def __init__(self, machine: Any, answer: Any) -> None:
        self.answer = index_of(machine, answer)

    def __len__(self) -> int:
        return self.answer  # type: ignore[no-any-return]


def index_of(machine: Any, value: Any) -> Any:
    """What a user's `__index__` gives; other values stay."""
    return machine.index(value)


def len_of_tensor(shape: Any) -> Any:
    if not shape:
        raise TypeError("len() of unsized object" if type(shape) is tuple else "len() of a 0-d tensor")
    return shape[0]


@handles(iter)
def iter_(machine: Any, args: Args, kwargs: Kwargs) -> Any:
    if len(args) == 2:
        machine.check(args[1], EQUALITY)
        given = Callback(args[0], machine.compared) if callable(args[0]) else args[0]
        return machine.world.keep(machine.native(iter, given, args[1]))
    expect(machine, "iter", args, 1, 1, kwargs)
    return machine.iterator(args[0])


@handles(next)
def next_(machine: Any, args: Args, kwargs: Kwargs) -> Any:
    expect(machine, "next", args, 1, 2, kwargs)
    machine.changes += 1
    if len(args) == 1:
        return machine.next_item(args[0])
    try:
        return machine.next_item(args[0])
    except Raised as raised:
        if isinstance(raised.exception, StopIteration):
            return args[1]
        raise


@handles(bool)
def bool_(machine: Any, args: Args, kwargs: Kwargs) -> Any:
    truth = machine.untold_truth(args[0]) if len(args) == 1 and not kwargs else None
    if truth is not None:
        return truth
    return machine.truth(args[0]) if len(args) == 1 and not kwargs else machine.native(bool, *args, **kwargs)


@handles(str)
def str_(machine: Any, args: Args, kwargs: Kwargs) -> Any:
    return machine.text(args[0]) if len(args) == 1 and not kwargs else machine.native(str, *args, **kwargs)


@handles(repr)
def repr_(machine: Any, args: Args, kwargs: Kwargs) -> Any:
    expect(machine, "repr", args, 1, 1, kwargs)
    return machine.text(args[0], "__repr__")


@handles(format)
def format_(machine: Any, args: Args, kwargs: Kwargs) -> Any:
    expect(machine, "format", args, 1, 2, kwargs)
    return machine.format(args[0], args[1] if len(args) == 2 else "")


@handles(hash)
def hash_(machine: Any, args: Args, kwargs: Kwargs) -> Any:
    expect(machine, "hash", args, 1, 1, kwargs)
    value = args[0]
    if has_own_keys(machine, value):
        return hash_of(machine, value)
    items = value if isinstance(value, (tuple, frozenset)) else (value,)
    if all(type(item) in SCALARS or isinstance(item, SYMBOLIC) for item in items):
        return machine.native(hash, value)
    if type(value).__hash__ is None and machine.is_plain(value):
        return machine.native(hash, value)
    raise Break("builtin-call", seen="builtin: hash of an object")


def element_of(machine: Any, value: Tensor) -> Any:
    """The number that a tensor of one element holds, where that can be in the graph; else the tensor."""
    number = machine.recorder.element(value)
    return value if number is None else number


def _converter(function: Any, name: str) -> None:
    @handles(function)
    def convert(machine: Any, args: Args, kwargs: Kwargs) -> Any:
        if len(args) == 1 and not kwargs:
            value = args[0]
            if isinstance(value, Tensor) and function is not complex:
                value = element_of(machine, value)
            if isinstance(value, (SymInt, SymFloat)) and type_of(value) is function:
                return value
            if isinstance(value, SymInt) and function is float:
                return machine.native(operator.mul, value, 1.0)
            if isinstance(value, SymFloat) and function is int:
                return machine.native(value.__trunc__)
            found = None if machine.is_plain(value) else machine.python_method(value, name)
            if found is not None:
                result = machine.call_method(found, value)
                if type_of(result) is function:
                    return result
                owner = f"{type(value).__name__}." if function is float else ""
                text = f"{owner}{name} returned non-{function.__name__} (type {type(result).__name__})"
                raise machine.fail(TypeError(text))
        args = tuple(index_of(machine, value) for value in args)
        return machine.call_pure(function, args, kwargs)


_converter(int, "__int__")
_converter(float, "__float__")
_converter(complex, "__complex__")


@handles(abs)
def abs_(machine: Any, args: Args, kwargs: Kwargs) -> Any:
    found = None
    if len(args) == 1 and not kwargs and not machine.is_plain(args[0]):
        found = machine.python_method(args[0], "__abs__")
    return machine.call_pure(abs, args, kwargs) if found is None else machine.call_method(found, args[0])


@handles(round)
def round_(machine: Any, args: Args, kwargs: Kwargs) -> Any:
    given = (*args, *kwargs.values()) if set(kwargs) <= {"ndigits"} else ()
    if 1 <= len(given) <= 2 and args and not machine.is_plain(args[0]):
        found = machine.python_method(args[0], "__round__")
        if found is not None:
            return machine.call_method(found, args[0], *(given[1:] if given[-1] is not None else ()))
    return machine.call_pure(round, args, kwargs)


@handles(divmod)
def divmod_(machine: Any, args: Args, kwargs: Kwargs) -> Any:
    if len(args) != 2 or kwargs or (machine.is_plain(args[0]) and machine.is_plain(args[1])):
        return machine.call_pure(divmod, args, kwargs)
    return machine.by_protocol(divmod, "divmod()", "__divmod__", "__rdivmod__", *args)


@handles(pow)
def pow_(machine: Any, args: Args, kwargs: Kwargs) -> Any:
    if len(args) == 2 and not kwargs:
        return machine.binary("**", *args)
    found = None if not args or machine.is_plain(args[0]) else machine.python_method(args[0], "__pow__")
    if found is not None and len(args) == 3 and not kwargs:
        result = machine.call_method(found, *args)
        if result is not NotImplemented:
            return result
    args = tuple(value.plain() if isinstance(value, SYMBOLIC) else value for value in args)
    return machine.call_pure(pow, args, kwargs)


def context_get(machine: Any, receiver: Any, args: Args, kwargs: Kwargs) -> tuple[bool, Any]:
    if receiver is modes.state:
        return True, current_modes(machine, args, kwargs)
    return False, None


METHODS["get"] = context_get


# -- the operator module -------------------------------------------------------------------------------------
for _symbol, (_apply, _name, _other) in BINARY.items():
    HANDLERS[id(_apply)] = lambda machine, args, kwargs, symbol=_symbol: machine.binary(symbol, *args)  # type: ignore[misc]
for _symbol, (_apply, _name) in INPLACE.items():
    HANDLERS[id(_apply)] = lambda machine, args, kwargs, symbol=_symbol: machine.inplace(symbol, *args)  # type: ignore[misc]
for _symbol, (_apply, _name, _other) in COMPARE.items():
    HANDLERS[id(_apply)] = lambda machine, args, kwargs, symbol=_symbol: machine.compare(symbol, *args)  # type: ignore[misc]
for _symbol, (_apply_one, _name) in UNARY.items():
    HANDLERS[id(_apply_one)] = lambda machine, args, kwargs, symbol=_symbol: machine.unary(symbol, *args)  # type: ignore[misc]
HANDLERS[id(operator.not_)] = lambda machine, args, kwargs: not machine.truth(*args)
HANDLERS[id(operator.truth)] = lambda machine, args, kwargs: machine.truth(*args)
HANDLERS[id(operator.getitem)] = lambda machine, args, kwargs: machine.get_item(*args)
HANDLERS[id(operator.setitem)] = lambda machine, args, kwargs: machine.set_item(*args)
HANDLERS[id(operator.delitem)] = lambda machine, args, kwargs: machine.set_item(*args, ABSENT)
HANDLERS[id(operator.contains)] = lambda machine, args, kwargs: machine.contains(args[1], args[0])
HANDLERS[id(operator.is_)] = lambda machine, args, kwargs: machine.identical_values(*args)
HANDLERS[id(operator.is_not)] = lambda machine, args, kwargs: not machine.identical_values(*args)
HANDLERS[id(operator.index)] = lambda machine, args, kwargs: index_operator(machine, *args)
HANDLERS[id(sys.exc_info)] = lambda machine, args, kwargs: machine.exception_info()
if hasattr(sys, "exception"):
    HANDLERS[id(sys.exception)] = lambda machine, args, kwargs: machine.handled(machine.frame)
HANDLERS[id(seams.is_compiling)] = HANDLERS[id(SEAMS["is_compiling"])] = lambda machine, args, kwargs: True


@handles(modes.current)
def current_modes(machine: Any, args: Args, kwargs: Kwargs) -> Any:
    """The modes as captured code would find them without a recorder."""
    now = modes.modes()
    if len(now.functions) > 1 or len(now.extra) > 1 or now.inference or now.saved_hooks or now.shielded:
        raise Break("mode-change", seen="weft.core.modes.current")
    return now.grad


def index_operator(machine: Any, value: Any) -> Any:
    value = index_of(machine, value)
    return value if isinstance(value, SymInt) else machine.native(operator.index, value)


def made(value: Any) -> tuple[Any, tuple[Any, ...]]:
    """What such an object was made with."""
    maker, parts = value.__reduce__()
    return maker, parts


def call_attrgetter(machine: Any, getter: operator.attrgetter[Any], value: Any) -> Any:
    _, names = made(getter)
    results = []
    for name in names:
        result = value
        for part in name.split("."):
            result = machine.load_attribute(result, part)
        results.append(result)
    return results[0] if len(results) == 1 else tuple(results)


def call_itemgetter(machine: Any, getter: operator.itemgetter[Any], value: Any) -> Any:
    _, keys = made(getter)
    results = [machine.get_item(value, key) for key in keys]
    return results[0] if len(results) == 1 else tuple(results)


def call_methodcaller(machine: Any, caller: operator.methodcaller, value: Any) -> Any:
    maker, parts = made(caller)
    kwargs: Kwargs = {}
    if isinstance(maker, functools.partial):
        name, kwargs, args = maker.args[0], maker.keywords, list(parts)
    else:
        name, *args = parts
    return machine.call(machine.load_attribute(value, name), tuple(args), kwargs)


INSTANCES: dict[type, Any] = {
    operator.attrgetter: call_attrgetter,
    operator.itemgetter: call_itemgetter,
    operator.methodcaller: call_methodcaller,
}


CALLED: dict[type, Any] = {}
"""What captured code does instead of calling objects of these types: `(machine, object, args, kwargs)`."""


def _enum_call(machine: Any, cls: type, args: Args, kwargs: Kwargs) -> Any:
    if kwargs or len(args) != 1:
        raise Break("class-definition", seen=f"{cls.__name__}(...)")
    machine.check(args[0], EQUALITY)
    return machine.native(cls, *args)


METACLASSES[enum.EnumMeta.__call__] = _enum_call
