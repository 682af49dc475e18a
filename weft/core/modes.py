"""The one mode stack: what surrounds the code that runs now, read with one ContextVar lookup.

The variable holds `True` (plain eager code, gradients on), `False` (plain, gradients off) or a `Modes`
record when anything rarer is active. One idea: the fast path of every op asks only whether the value is one
of the two plain ones.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar, Token
from typing import Any, Final


class Remembering:
    """What `enter_functions` made of a record last, and for which functions."""

    __slots__ = ("last",)
    last: tuple[tuple[Any, ...], State] | None


class Modes(Remembering):
    """Everything that may surround a call. Immutable: a change makes a new record."""

    __slots__ = (
        "grad",
        "inference",
        "functions",
        "saved_hooks",
        "saved_hooks_error",
        "anomaly",
        "extra",
        "shielded",
        "witness",
    )
    grad: bool
    inference: bool
    functions: tuple[Any, ...]
    saved_hooks: tuple[Any, ...]
    saved_hooks_error: str | None
    anomaly: bool | None
    extra: tuple[tuple[str, Any], ...]
    shielded: bool
    witness: Any

    def __init__(self) -> None:
        self.grad = True
        self.inference = False
        self.functions = ()  # TorchFunctionMode-like objects, innermost last
        self.saved_hooks = ()  # (pack, unpack) pairs, innermost last
        self.saved_hooks_error = None  # text, where saved-tensor hooks are disabled
        self.anomaly = None  # None: off; else whether NaN is checked
        self.extra = ()  # (name, value): room for transforms and autocast
        self.shielded = False  # inside DisableTorchFunction
        self.witness = None  # called as witness(op, tensors, results) after each op, whatever it is part of
        self.last = None

    def is_plain(self) -> bool:
        return not (
            self.inference
            or self.functions
            or self.saved_hooks
            or self.saved_hooks_error
            or self.anomaly is not None
            or self.extra
            or self.shielded
            or self.witness is not None
        )


State = bool | Modes
state: ContextVar[State] = ContextVar("weft_modes", default=True)
current = state.get


def modes() -> Modes:
    """The active modes as a record, also where the plain shorthand stands."""
    value = state.get()
    if isinstance(value, Modes):
        return value
    record = Modes()
    record.grad = value
    return record


def enter(**changes: object) -> Token[State]:
    """Sets the active modes with these changes; undo with `leave(token)`."""
    old = state.get()
    plain = len(changes) == 1 and "grad" in changes and type(old) is bool
    new = bool(changes["grad"]) if plain else changed(**changes)
    try:
        return state.set(new)
    except BaseException:  # an interrupt, behind the call
        state.set(old)
        raise


def enter_functions(functions: tuple[Any, ...]) -> Token[State]:
    """As `enter(functions=functions)`. Whoever is offered calls changes this at each of them, and back: a
    record remembers what it became last.
    """
    old = state.get()
    if type(old) is bool:
        return enter(functions=functions)
    last = old.last
    if last is None or last[0] is not functions:
        last = old.last = functions, changed(functions=functions)
    try:
        return state.set(last[1])
    except BaseException:
        state.set(old)
        raise


def changed(**changes: object) -> State:
    """The active modes with these changes."""
    old = modes()
    record = Modes()
    for name in Modes.__slots__:
        setattr(record, name, changes[name] if name in changes else getattr(old, name))
    return record.grad if record.is_plain() else record


leave: Final[Callable[[Token[State]], None]] = state.reset
"""Undoes `enter`. Not a function of Python's, at the beginning of which an interrupt could strike."""


def grad_enabled() -> bool:
    value = state.get()
    return value if type(value) is bool else value.grad
