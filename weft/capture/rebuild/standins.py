"""Rebuilding what only the interpreter has: values that stand for an object of Python's own.

Takes a `Builder` and such a value; gives text for what it stands for. One idea: none of these classes may
ever reach the user's program.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Final

from weft.capture.builtins import GENERATOR_METHODS, Super
from weft.capture.captured_arrays import CapturedArray, array_of, call_method
from weft.capture.instructions import Unread
from weft.capture.iterators import SequenceIterator, UserIterator
from weft.capture.namespaces import ClassDict, InstanceDict, ModuleDict
from weft.capture.rebuild.builder import Builder, Rule
from weft.capture.rebuild.iterators import with_state
from weft.capture.sources import Nothing
from weft.capture.values import Callback, CapturedTraceback
from weft.capture.world import Unopened


def traceback(builder: Builder, value: CapturedTraceback) -> str:
    """Of an exception that existed before; others get theirs when they are raised."""
    if builder.world.is_fresh(value.error):
        builder.refuse(value)
    return f"{builder.text(value.error)}.__traceback__"


def sequence_iterator(builder: Builder, value: SequenceIterator) -> str:
    made = f"{builder.constant(iter, 'iter')}({builder.text(value.value)})"
    if value.position:
        made = f"{builder.constant(with_state, 'with_state')}({made}, {value.position})"
    return builder.assign(made, "iterator")


def captured_array(builder: Builder, value: CapturedArray) -> str:
    return builder.assign(f"{builder.constant(array_of, 'array_of')}({builder.text(value.tensor)})", "array")


def unopened(builder: Builder, value: Unopened) -> str:
    """A container of which only parts were used: the stores change it before anybody sees it."""
    if value.made is not None:
        return builder.text(value.made)
    if value.default is None:
        return builder.read(value.source)
    read, kind = builder.read(value.source), builder.constant(Nothing, "Nothing")
    made, ask = builder.text(value.default), builder.constant(type, "type")
    return builder.assign(f"{made} if {ask}({read}) is {kind} else {read}")


RULES: Final[dict[type, Rule]] = {
    # An argument that captured code never looked at.
    Unread: lambda builder, value: builder.read(value.source),
    InstanceDict: lambda builder, value: builder.read(value._known.source.member("__dict__")),
    ModuleDict: lambda builder, value: builder.read(value.source),
    ClassDict: lambda builder, value: builder.assign(f"{builder.text(value.cls)}.__dict__"),
    Unopened: unopened,
    Super: lambda builder, value: builder.assign(
        builder.call_text(builder.constant(super, "super"), (value.cls, value.receiver))
    ),
    Callback: lambda builder, value: builder.text(value.function),
    CapturedTraceback: traceback,
    CapturedArray: captured_array,
    UserIterator: lambda builder, value: builder.text(value.iterator),
    SequenceIterator: sequence_iterator,
}


def standing_method(value: functools.partial[Any]) -> tuple[str, Any] | None:
    """The name and the receiver, where a partial stands for a bound method of a generator or an array."""
    if value.func is call_method:
        _machine, array, method = value.args
        return (method, array)
    names: dict[int, str] = {id(method): name for name, method in GENERATOR_METHODS.items()}
    function: Callable[..., Any] = value.func
    name = names.get(id(function))
    return None if name is None else (name, value.args[1])
