"""From Python objects to what they stand for in scripted code, and from operators' names back to functions.

Takes objects that names of the user's code lead to; gives sugared values. One idea: an operator is known by
its name and by where it was found, so that a saved graph finds the same function.
"""

from __future__ import annotations

import builtins
import enum
import functools
import math
import sys
import types as python_types
import warnings
from typing import Any

import weft.jit.annotations as notes
import weft.jit.marks as marks
from weft.autograd.function import Function
from weft.core.device import device as Device
from weft.core.interrupts import let_through
from weft.core.naming import home
from weft.jit.sugar import Builtin, Called, Cast, Class, Constant, Python, PythonModule, Special, Sugar
from weft.nn.modules.module import Module
from weft.ops.record import REGISTRY
from weft.tensor.base import Tensor

NAMESPACES = ("", "nn.functional", "special", "linalg", "fft", "nn.init", "_C._nn")
SPECIAL: dict[Any, str] = {
    range: "range", enumerate: "enumerate", zip: "zip", len: "len", isinstance: "isinstance",
    hasattr: "hasattr", getattr: "getattr", print: "print", min: "min", max: "max", abs: "abs", sum: "sum",
    round: "round", sorted: "sorted", reversed: "reversed", any: "any", all: "all", ord: "ord", chr: "chr",
    hex: "hex", oct: "oct", bin: "bin", divmod: "divmod", pow: "pow", super: "super", hash: "hash",
    type: "type",
    iter: "iter", id: "id", slice: "slice",
    marks.is_scripting: "is_scripting", marks.is_tracing: "is_tracing", marks.annotate: "annotate",
    marks.isinstance_: "isinstance", warnings.warn: "warn",
}  # fmt: skip
CASTS: dict[Any, str] = {
    int: "int", float: "float", bool: "bool", complex: "complex", str: "str", list: "list", tuple: "tuple",
    dict: "dict",
}  # fmt: skip
CONTEXTS: set[Any] = set()


def root() -> Any:
    return sys.modules["weft"]


@functools.cache
def _operators() -> dict[int, tuple[str, str]]:
    """By the identity of a public function: its name and its namespace."""
    found: dict[int, tuple[str, str]] = {}
    for space in NAMESPACES:
        try:
            module = functools.reduce(getattr, space.split(".") if space else [], root())
        except AttributeError as error:
            let_through(error)
            continue
        for name in dir(module):
            thing = getattr(module, name, None)
            if callable(thing) and not isinstance(thing, type):
                found.setdefault(id(thing), (name, space))
    return found


def find_operator(name: str, origin: str) -> Any:
    """The function of an operator; for methods None where the class has none."""
    if origin == "Tensor":
        return getattr(Tensor, name, None)
    if origin.startswith("op:"):
        op = REGISTRY.get(origin[3:])
        return None if op is None else op.face
    spaces = (origin,) if origin else ("", "nn.functional", "linalg", "special")
    for space in spaces:
        try:
            module = functools.reduce(getattr, space.split(".") if space else [], root())
            short = name.removeprefix(f"{space}_") if space in ("special", "linalg", "fft") else name
            return getattr(module, short)
        except AttributeError as error:
            let_through(error)
            continue
    return getattr(Tensor, name, None)


def operator_of(function: Any) -> tuple[str, str] | None:
    """The name of one of our operators, and where it is found; None for other things."""
    return _operators().get(id(function)) if hasattr(function, "op") else None


def operator_name(name: str, space: str) -> str:
    """`linalg_norm` for `norm` of `linalg`."""
    return f"{space}_{name}" if space in ("special", "linalg", "fft") else name


def is_context(thing: Any) -> bool:
    """Whether a class makes contexts that scripted code may enter: no_grad and its kin."""
    return (
        isinstance(thing, type)
        and hasattr(thing, "__enter__")
        and home(thing).startswith(("weft.autograd", "weft.profiler"))
    )


def as_sugar(thing: Any) -> Sugar | None:
    """What a Python object stands for; None for plain values."""
    try:
        special = SPECIAL.get(thing)
        cast = CASTS.get(thing)
    except TypeError as error:
        let_through(error)
        special = cast = None
    if special is not None:
        return Special(special, thing)
    if cast is not None:
        return Cast(cast)
    if isinstance(thing, python_types.ModuleType) or hasattr(thing, "__path_of_module__"):
        return PythonModule(thing)
    if isinstance(thing, type):
        return _class(thing)
    if hasattr(thing, "scripted_function") or getattr(thing, "is_script_function", False):
        return Called(thing)
    if isinstance(thing, functools.partial):
        return None
    if isinstance(thing, Module):
        return None
    if callable(thing):
        return _function(thing)
    return None


def _class(thing: Any) -> Sugar | None:
    if issubclass(thing, BaseException):
        return Class(thing, "exception")
    if issubclass(thing, tuple) and hasattr(thing, "_fields"):
        return Class(thing, "tuple")
    if is_context(thing):
        return Class(thing, "context")
    if issubclass(thing, Function):
        return Class(thing, "function")
    if issubclass(thing, enum.Enum):
        return Class(thing, "enum")
    if thing is Device:
        return Special("device", thing)
    if thing is Tensor or issubclass(thing, Tensor) or thing is object:
        return Constant(thing)
    if issubclass(thing, Module) or thing.__module__ in ("typing", "builtins"):
        return Constant(thing)
    return Class(thing, "interface" if thing in notes.INTERFACES else "class")


def _function(thing: Any) -> Sugar | None:
    mark = marks.modifier(thing)
    name = getattr(thing, "__name__", type(thing).__name__)
    if mark == marks.IGNORE:
        return Python(thing, None, name)
    if mark == marks.UNUSED:
        return Special("unused", thing)
    known = _operators().get(id(thing))
    if known is not None:
        return Builtin(operator_name(*known), known[1], thing)
    module = home(thing) if isinstance(thing, type) else getattr(thing, "__module__", None) or ""
    if (
        isinstance(thing, python_types.BuiltinFunctionType)
        and module == "math"
        or getattr(math, name, None) is thing
    ):
        return Builtin(name, "math", thing)
    if module.startswith("weft.jit"):
        return Special(name, thing)
    if (
        isinstance(thing, python_types.MethodType)
        and isinstance(thing.__self__, type)
        and issubclass(thing.__self__, Function)
    ):
        return Python(thing, None, thing.__self__.__name__)
    if isinstance(thing, python_types.FunctionType):
        return Called(thing)
    if isinstance(thing, python_types.MethodDescriptorType | python_types.BuiltinFunctionType):
        if getattr(builtins, name, None) is not thing:
            return None
    return None
