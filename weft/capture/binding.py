"""Binding: which argument goes to which parameter, decided by Python itself.

Takes a function and a call's arguments; gives the parameters' values by name, with `DEFAULT` marks where a
default stands in. One idea: a stub with the same signature is called, so that the rules and the TypeErrors
are CPython's own.
"""

from __future__ import annotations

import types
from collections.abc import Sequence
from typing import Any

VARARGS, VARKEYWORDS = 0x04, 0x08


class DEFAULT:
    """The default of a parameter: by position among `__defaults__`, or by name among `__kwdefaults__`."""

    __slots__ = ("name", "position")

    def __init__(self, position: int, name: str | None = None) -> None:
        self.position, self.name = position, name


_STUBS: dict[types.CodeType, types.FunctionType] = {}


def parameter_names(code: types.CodeType) -> tuple[str, ...]:
    """All parameters in the order of `co_varnames`, the starred ones last."""
    count = code.co_argcount + code.co_kwonlyargcount
    return code.co_varnames[: count + bool(code.co_flags & VARARGS) + bool(code.co_flags & VARKEYWORDS)]


def takes_alike(code: types.CodeType, other: types.CodeType) -> bool:
    """Whether functions of these have the same parameters."""
    flags = VARARGS | VARKEYWORDS
    return (
        parameter_names(code) == parameter_names(other)
        and code.co_argcount == other.co_argcount
        and code.co_posonlyargcount == other.co_posonlyargcount
        and code.co_kwonlyargcount == other.co_kwonlyargcount
        and code.co_flags & flags == other.co_flags & flags
    )


def signature_text(code: types.CodeType) -> str:
    """The parameters as a `def` writes them, without defaults. Odd names (`.0`) are mangled."""
    names = [_clean(name) for name in parameter_names(code)]
    positional, keyword_only = code.co_argcount, code.co_kwonlyargcount
    parts = names[:positional]
    if code.co_posonlyargcount:
        parts.insert(code.co_posonlyargcount, "/")
    rest = names[positional + keyword_only :]
    if code.co_flags & VARARGS:
        parts.append("*" + rest.pop(0))
    elif keyword_only:
        parts.append("*")
    parts += names[positional : positional + keyword_only]
    if code.co_flags & VARKEYWORDS:
        parts.append("**" + rest.pop(0))
    return ", ".join(parts)


def argument_text(code: types.CodeType, texts: Sequence[str]) -> str:
    """The arguments of a call that passes all parameters on; `texts` in the order of `parameter_names`."""
    positional, keyword_only = code.co_argcount, code.co_kwonlyargcount
    parts = list(texts[:positional])
    rest = list(texts[positional + keyword_only :])
    if code.co_flags & VARARGS:
        parts.append("*" + rest.pop(0))
    named = list(zip(parameter_names(code), texts))[positional : positional + keyword_only]
    parts += [f"{name}={text}" for name, text in named]
    if code.co_flags & VARKEYWORDS:
        parts.append("**" + rest.pop(0))
    return ", ".join(parts)


def _clean(name: str) -> str:
    return name if name.isidentifier() else "_" + "".join(c if c.isalnum() else "_" for c in name)


def _stub(function: types.FunctionType) -> types.FunctionType:
    code = function.__code__
    stub = _STUBS.get(code)
    if stub is None:
        names = [_clean(name) for name in parameter_names(code)]
        values = ", ".join(names) + ("," if names else "")
        text = f"def stub({signature_text(code)}):\n    return ({values})"
        space: dict[str, Any] = {}
        exec(compile(text, "<weft: binding>", "exec"), space)
        stub = _STUBS[code] = space["stub"]
    return stub


def bind_arguments(
    function: types.FunctionType, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> dict[str, Any]:
    """The parameters' values by name."""
    code = function.__code__
    defaults, keyword_defaults = function.__defaults__, function.__kwdefaults__
    if not kwargs and not code.co_flags & (VARARGS | VARKEYWORDS) and not code.co_kwonlyargcount:
        if len(args) == code.co_argcount:
            return dict(zip(code.co_varnames, args, strict=False))
    shared = _stub(function)
    stub = types.FunctionType(shared.__code__, shared.__globals__, function.__name__)
    stub.__qualname__ = function.__qualname__
    stub.__defaults__ = tuple(DEFAULT(i) for i in range(len(defaults))) if defaults else None
    if keyword_defaults:
        stub.__kwdefaults__ = {_clean(n): DEFAULT(0, n) for n in keyword_defaults}
    values = stub(*args, **kwargs)
    return dict(zip(parameter_names(code), values, strict=True))


def called(function: Any) -> str:
    """How errors of binding name a callable."""
    name, module = getattr(function, "__qualname__", None), getattr(function, "__module__", None)
    if name is None:
        return str(function)
    return f"{name}()" if module in (None, "builtins") else f"{module}.{name}()"
