"""Calls: who runs a call that captured code makes.

Takes a callable and its arguments. Python functions are interpreted ("inlined"), C functions that are known
to be harmless are called on the interpreter's values, the library's own functions are called under the
recorder; everything else is a break. One idea: nothing runs that could read or write the outside world
unseen.
"""

from __future__ import annotations

import dataclasses
import functools
import reprlib
import sys
import types
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from weft.capture.attributes import C_DESCRIPTORS, HEAP, IMMUTABLE
from weft.capture.binding import DEFAULT, bind_arguments
from weft.capture.frame import Frame
from weft.capture.fronts import is_front
from weft.capture.namespaces import is_added
from weft.capture.policy import Policy, policy_of
from weft.capture.sources import Source
from weft.capture.sources import function as function_source
from weft.capture.sources import module as module_source
from weft.capture.values import Args, BoundMethod, Callback, CapturedGenerator, Kwargs, Raised, has_type
from weft.capture.world import ABSENT
from weft.capture.wrapping import library_native
from weft.core.contexts import DONE_IN_C, Leaving
from weft.core.naming import home
from weft.core.seams import seams
from weft.tensor import shims
from weft.tensor.base import Parameter, Tensor
from weft.trace.breaks import Break

if TYPE_CHECKING:
    from weft.capture.machine import Machine

GENERATOR, COROUTINE, ASYNC_GENERATOR = 0x20, 0x80, 0x200
DEEPEST = 64
Handler = Callable[["Machine", Args, Kwargs], Any]
HANDLERS: dict[int, Handler] = {}
"""What captured code does instead of calling these objects, by `id` (they live as long as the process)."""
BY_CODE: dict[types.CodeType, Callable[[Machine, Any, Args, Kwargs], Any]] = {}
"""What captured code does instead of calling closures of these: `(machine, function, args, kwargs)`."""
WRAPPERS_LEFT_OUT = frozenset(
    {
        reprlib.recursive_repr()(lambda self: "").__code__,
        dataclasses.dataclass(type("Sample", (), {})).__repr__.__code__,
    }
)
"""Wrappers that only guard a `__repr__` against recursion, by their code."""
CONVERSIONS = (
    "__index__", "__int__", "__float__", "__complex__", "__bool__", "__len__", "__iter__", "__next__",
    "__getitem__", "__array__",
)  # fmt: skip
RUNS_USER_CODE = ("weft.autograd", "weft.func", "weft.utils", "weft.library", "weft.overrides")
"""Parts of this library that call functions of the user's, or change how others run."""
MAKES_TENSORS = frozenset({"from_numpy"})
"""Functions that modes do not see, and that give tensors: one node each. (Not `frombuffer`: bytes are objects
of Python's, of which the code that runs has other ones, and the tensor must share memory with these.)"""
ANSWERS = frozenset(
    {
        "are_deterministic_algorithms_enabled", "broadcast_shapes", "can_cast", "get_default_device",
        "get_default_dtype", "get_num_threads", "is_autocast_enabled", "is_grad_enabled",
        "is_inference_mode_enabled", "is_storage", "is_tensor", "promote_types", "typename",
        "is_anomaly_enabled", "is_anomaly_check_nan_enabled", "enter", "leave", "modes", "current",
        "grad_enabled", "is_scripting", "is_available", "annotate",
    }
)  # fmt: skip
"""Functions that modes do not see, and that only tell something or manage modes."""
PLAIN_DATA = (
    "weft.core.types", "weft.core.dtypes", "weft.core.device", "weft.core.symbolic", "weft.core.dims",
    "weft.core.trees", "weft.core.errors", "weft.ops",
)  # fmt: skip
GRAD_MODE = "weft.autograd.grad_mode"
NATIVE_CLASSES = ("weft.core", GRAD_MODE, "weft.tensor")
ARGUMENT_BLIND = (list.__new__, dict.__new__, set.__new__, Leaving.__new__)
METACLASSES: dict[Any, Callable[[Machine, type, Args, Kwargs], Any]] = {}
"""Metaclasses whose `__call__` capture knows, by that function."""
_KEPT: list[Any] = []


def handles(*functions: Any) -> Callable[[Handler], Handler]:
    """Decorator: the handler stands for these callables in captured code."""

    def register(handler: Handler) -> Handler:
        for function in functions:
            HANDLERS[id(function)] = handler
            _KEPT.append(function)
        return handler

    return register


def natively(*functions: Any) -> None:
    """These run as they are in captured code, whatever they are given."""
    for function in functions:
        HANDLERS[id(function)] = functools.partial(_run_natively, function)
        _KEPT.append(function)


def _run_natively(function: Any, machine: Machine, args: Args, kwargs: Kwargs) -> Any:
    return machine.native(function, *args, **kwargs)


def interpreted(*functions: Any) -> None:
    """The code of these functions of the library, and of those that they define, is interpreted as if it was
    the user's.
    """
    for function in functions:
        inner = [code for code in function.__code__.co_consts if type(code) is types.CodeType]
        BY_CODE.update(dict.fromkeys([function.__code__, *inner], inline))


def inline(machine: Machine, function: Any, args: Args, kwargs: Kwargs) -> Any:
    """What `BY_CODE` holds for code that is to be interpreted."""
    return machine.calls.inline(function, args, kwargs)


class Calls:
    """Deciding who runs a call; running Python functions and making objects."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.world, self.recorder = machine.world, machine.recorder
        self.native, self.fail = machine.native, machine.fail

    def call(self, function: Any, args: Args, kwargs: Kwargs) -> Any:
        """`function(*args, **kwargs)`."""
        handler = HANDLERS.get(id(function))
        if handler is not None:
            return handler(self.machine, args, kwargs)
        kind = type(function)
        if kind is types.FunctionType:
            return self.call_function(function, args, kwargs)
        if kind is types.MethodType:
            if has_type(function.__self__, Tensor) and is_tensor_method(function):
                args = (function.__self__, *args)
                handler = HANDLERS.get(id(function.__func__))
                if handler is not None:
                    return handler(self.machine, args, kwargs)
                self.check_library(args, kwargs)
                return self.native(self.recorder.call_method, function.__name__, args, kwargs)
            return self.call(function.__func__, (function.__self__, *args), kwargs)
        if has_type(function, type):
            return self.construct(function, args, kwargs)
        if kind is functools.partial or kind is BoundMethod:
            return self.call(function.func, (*function.args, *args), {**function.keywords, **kwargs})
        if kind is Callback:
            return self.call(function.function, args, kwargs)
        if kind.__flags__ & HEAP and not kind.__flags__ & IMMUTABLE:
            return self.call_instance(function, args, kwargs)
        return self.machine.c_calls.call(function, args, kwargs)

    def call_instance(self, function: Any, args: Args, kwargs: Kwargs) -> Any:
        """Calls an object whose class is written in Python."""
        found = self.machine.attributes.lookup(type(function), "__call__")
        if found is ABSENT:
            raise self.fail(TypeError(f"'{type(function).__name__}' object is not callable"))
        if has_type(found, types.FunctionType):
            return self.call(found, (function, *args), kwargs)
        if has_type(found, C_DESCRIPTORS):
            raise Break("builtin-call", seen=f"calling a {type(function).__name__}")
        return self.call(self.machine.attributes.bind(found, function, type(function)), args, kwargs)

    def call_method(self, found: Any, receiver: Any, *args: Any) -> Any:
        """Calls what `lookup` found on the receiver's class, as the interpreter calls special methods."""
        if has_type(found, types.FunctionType):
            return self.call(found, (receiver, *args), {})
        return self.call(self.machine.attributes.bind(found, receiver, type(receiver)), args, {})

    # -- Python functions ------------------------------------------------------------------------------------
    def call_function(self, function: types.FunctionType, args: Args, kwargs: Kwargs) -> Any:
        special = BY_CODE.get(function.__code__)
        if special is not None:
            return special(self.machine, function, args, kwargs)
        if is_front(function) or function.__code__ in WRAPPERS_LEFT_OUT:
            around: Any = function
            return self.call(around.__wrapped__, args, kwargs)
        policy, reason = policy_of(function)
        if policy is Policy.BREAK:
            raise Break("skipped-function", seen=reason)
        if policy is Policy.NATIVE or library_native(function):
            return self.call_library(function, args, kwargs)
        if policy is Policy.IN_GRAPH:
            return self.native(self.recorder.record, function, args, kwargs)
        return self.inline(function, args, kwargs)

    def call_library(self, function: types.FunctionType, args: Args, kwargs: Kwargs) -> Any:
        """A function of this library: it runs as it is, and the recorder sees what it calls."""
        if function.__name__ not in ANSWERS:
            self.check_library(args, kwargs)
        if not is_recorded(function):
            if (function.__module__ or "").startswith(RUNS_USER_CODE):
                raise Break("autograd-inside", seen=function.__qualname__)
            if function.__name__ in MAKES_TENSORS:
                return self.native(self.recorder.call, function, args, kwargs)
            if function.__name__ not in ANSWERS and not is_plain_data(function):
                raise Break("library-state", seen=function.__qualname__)
        for value in (*args, *kwargs.values()):
            if has_type(value, (types.FunctionType, types.MethodType, functools.partial, Callback)):
                raise Break("library-callback", seen=f"{function.__qualname__} with a function as argument")
            if home(type(value)) == GRAD_MODE and id(value) in self.world.known:
                for name in list(vars(value)):  # which mode it puts back is part of what is relied upon
                    self.machine.attributes.load(value, name)
        return self.native(function, *args, **kwargs)

    def check_library(self, args: Args, kwargs: Kwargs) -> None:
        """Breaks where the library would turn objects of the user's into numbers, or draw from their
        iterators.
        """
        for value in (*args, *kwargs.values()):
            if not has_type(value, np.ndarray):  # an input of the graph, or refused where it is read
                self.machine.c_arguments.check(value, CONVERSIONS)

    def inline(self, function: types.FunctionType, args: Args, kwargs: Kwargs) -> Any:
        """Interprets the function; of a generator function, only makes the generator."""
        frame, arguments = self.make_frame(function, args, kwargs)
        flags = function.__code__.co_flags
        if flags & (COROUTINE | ASYNC_GENERATOR):
            raise Break("async", seen=f"a call of {function.__qualname__}")
        if flags & GENERATOR:
            generators = self.machine.generators
            generator = CapturedGenerator(frame, arguments, generators.advance, generators.drop)
            self.world.watch(generator)
            return generator
        self.machine.depth += 1
        if self.machine.depth > DEEPEST:
            raise Break("recursion-depth", seen=function.__qualname__)
        try:
            return self.machine.run(frame)
        finally:
            self.machine.depth -= 1

    def make_frame(
        self, function: types.FunctionType, args: Args, kwargs: Kwargs
    ) -> tuple[Frame, dict[str, Any]]:
        known = self.world.known.get(id(function))
        source = None if known is None else known.source
        code = function.__code__
        try:
            bound = self.native(bind_arguments, function, args, kwargs)
        except Raised:
            self.guard_defaults(function, source)
            raise
        for name, value in bound.items():
            if type(value) is DEFAULT:
                bound[name] = self.default(function, source, value)
        if source is not None:
            self.world.guard("CODE", source, code)
        scope = self.globals_source(function, source)
        if source is not None and scope.kind == "module" and source.root().kind in ("local", "function"):
            self.world.guard("SAME", source.member("__globals__"), scope)
        frame = Frame(code, function.__globals__, scope, function, self.machine.frame)
        self.machine.variables.enter(frame, function, source, bound)
        return frame, bound

    def guard_defaults(self, function: types.FunctionType, source: Source | None) -> None:
        """Other defaults might have made a call right that was wrong."""
        if source is None:
            return
        for name in ("__defaults__", "__kwdefaults__"):
            value: Any = getattr(function, name)
            if value is None:
                self.world.guard("EQ", source.member(name), None)
            else:
                kind, payload = ("KEYS", tuple(value)) if type(value) is dict else ("LEN", len(value))
                self.world.guard(kind, source.member(name), payload)

    def default(self, function: types.FunctionType, source: Source | None, mark: DEFAULT) -> Any:
        if mark.name is None:
            value = (function.__defaults__ or ())[mark.position]
            step = None if source is None else source.member("__defaults__").item(mark.position)
            if source is not None:
                self.world.guard("LEN", source.member("__defaults__"), len(function.__defaults__ or ()))
        else:
            value = (function.__kwdefaults__ or {})[mark.name]
            step = None if source is None else source.member("__kwdefaults__").item(mark.name)
        return value if step is None else self.machine.wrapping.read(value, step)

    def globals_source(self, function: types.FunctionType, source: Source | None) -> Source:
        name = function.__globals__.get("__name__")
        if has_type(name, str) and name in sys.modules:
            if sys.modules[name].__dict__ is function.__globals__:
                return module_source(name)
        if source is not None:
            return source.member("__globals__")
        frame = self.machine.frame
        while frame is not None:
            if frame.globals is function.__globals__:
                return frame.globals_source
            frame = frame.parent
        if function.__globals__ is self.machine.entry_function.__globals__:
            return function_source().member("__globals__")
        raise Break("unknown-globals", seen=function.__qualname__)

    # -- classes ---------------------------------------------------------------------------------------------
    def construct(self, cls: type, args: Args, kwargs: Kwargs) -> Any:
        """`cls(*args, **kwargs)`."""
        meta = type(cls)
        if meta is not type:
            maker = self.machine.attributes.lookup(meta, "__call__")
            if has_type(maker, types.FunctionType):
                special = METACLASSES.get(maker)
                if special is not None:
                    return special(self.machine, cls, args, kwargs)
                return self.call(maker, (cls, *args), kwargs)
        return self.construct_plainly(cls, args, kwargs)

    def construct_plainly(self, cls: type, args: Args, kwargs: Kwargs) -> Any:
        """`type.__call__(cls, *args, **kwargs)`."""
        if cls.__flags__ & IMMUTABLE or not cls.__flags__ & HEAP:
            return self.machine.c_calls.call(cls, args, kwargs)
        if issubclass(cls, Tensor) or home(cls).startswith(NATIVE_CLASSES):
            return self.construct_library(cls, args, kwargs)
        if self.machine.attributes.lookup(cls, "__del__") not in (ABSENT, DONE_IN_C):
            raise Break("finaliser", seen=cls.__qualname__)
        maker = self.machine.attributes.lookup(cls, "__new__")
        start = self.machine.attributes.lookup(cls, "__init__")
        value = self.allocate(cls, maker, start, args, kwargs)
        if has_type(value, cls):
            self.initialise(value, start, args, kwargs)
        return value

    def allocate(self, cls: type, maker: Any, start: Any, args: Args, kwargs: Kwargs) -> Any:
        if has_type(maker, staticmethod):
            maker = self.machine.attributes.wrapped_function(maker)
        if has_type(maker, types.FunctionType):
            return self.call(maker, (cls, *args), kwargs)
        if issubclass(cls, BaseException) and not issubclass(cls, BaseExceptionGroup):
            return self.world.keep(self.native(maker, cls, *args, **kwargs))  # it keeps all arguments
        if maker is object.__new__ or (has_type(start, types.FunctionType) and maker in ARGUMENT_BLIND):
            if has_type(start, types.FunctionType):
                return self.world.keep(self.native(maker, cls))
            return self.world.keep(self.native(maker, cls, *args, **kwargs))
        return self.world.keep(self.machine.c_calls.call(maker, (cls, *args), kwargs))

    def initialise(self, value: Any, start: Any, args: Args, kwargs: Kwargs) -> None:
        if has_type(start, types.FunctionType):
            result = self.call(start, (value, *args), kwargs)
            if result is not None:
                text = f"__init__() should return None, not '{type(result).__name__}'"
                raise self.fail(TypeError(text))
        elif start is not object.__init__:
            self.machine.c_calls.call(start, (value, *args), kwargs)

    def construct_library(self, cls: type, args: Args, kwargs: Kwargs) -> Any:
        if cls is Parameter:
            return self.native(self.recorder.call, cls, args, kwargs)
        if issubclass(cls, Tensor):
            raise Break("tensor-class", seen=f"{cls.__name__}(...)")
        return self.world.keep(self.native(cls, *args, **kwargs))


@functools.cache
def _public_functions() -> frozenset[Any]:
    found = [*shims.functions().values(), *shims.attributes().values()]
    return frozenset(value for value in found if has_type(value, types.FunctionType))


def is_recorded(function: types.FunctionType) -> bool:
    """Whether the recorder sees calls of this function, and decides itself."""
    native = hasattr(function, "op") or function.__module__ == GRAD_MODE
    return native or function in _public_functions()


def is_plain_data(function: types.FunctionType) -> bool:
    """Whether a function belongs to the library's plain data (sizes, dtypes, devices) and changes nothing."""
    return (function.__module__ or "").startswith(PLAIN_DATA) and not function.__name__.startswith("set_")


def is_tensor_method(method: types.MethodType) -> bool:
    """Whether a bound method is Tensor's own, under its own name."""
    found = Tensor.__dict__.get(method.__name__)
    return found is method.__func__ and not method.__name__.startswith("_") and not is_added(found)


HANDLERS[id(seams)] = lambda machine, args, kwargs: None
