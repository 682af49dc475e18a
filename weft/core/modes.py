"""The one mode stack: what surrounds the code that runs now, read with one ContextVar lookup.

The variable holds `True` (plain eager code, gradients on), `False` (plain, gradients off) or a `Modes`
record when anything rarer is active. One idea: the fast path of every op asks only whether the value is one
of the two plain ones.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar, Token
from typing import Any, Final

from weft.core.contexts import Block, set_to
from weft.core.records import record, replace


class Remembering:
    """What `enter_functions` made of a record last, if anything, and for which functions."""

    __slots__ = ("last",)
    last: tuple[tuple[Any, ...], State]


@record(slots=True, eq=False)
class Modes(Remembering):
    """Everything that may surround a call. Immutable: a change makes a new record."""

    grad: bool = True
    inference: bool = False
    functions: tuple[Any, ...] = ()
    """TorchFunctionMode-like objects, innermost last."""
    saved_hooks: tuple[Any, ...] = ()
    """(pack, unpack) pairs, innermost last."""
    saved_hooks_error: str | None = None
    """The text, where saved-tensor hooks are disabled."""
    anomaly: bool | None = None
    """None: off; else whether NaN is checked."""
    extra: tuple[tuple[str, Any], ...] = ()
    """(name, value): room for transforms and autocast."""
    shielded: bool = False
    """Whether this is inside DisableTorchFunction."""
    witness: Any = None
    """Called as witness(op, tensors, results) after each op, whatever it is part of."""
    dispatch: tuple[Any, ...] = ()
    """TorchDispatchMode-like objects, innermost last: see `weft.tensor.below`."""
    wary: bool = False
    """Whether a tensor takes part whose class has a `__torch_dispatch__`: no method may read its array."""
    unhandled: bool = False
    """Whether classes' `__torch_dispatch__` is off."""

    def in_short(self) -> State:
        """The record, or the shorthand for it where there is one."""
        return self.grad if self.is_plain() else self

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
            or self.dispatch
            or self.wary
            or self.unhandled
        )


State = bool | Modes
state: ContextVar[State] = ContextVar("weft_modes", default=True)
current = state.get


def modes() -> Modes:
    """The active modes as a record, also where the plain shorthand stands."""
    return in_full(state.get())


def in_full(value: State) -> Modes:
    return value if isinstance(value, Modes) else Modes(grad=value)


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
    record: Remembering = old
    last = getattr(record, "last", None)
    if last is None or last[0] is not functions:
        last = record.last = functions, changed(functions=functions)
    try:
        return state.set(last[1])
    except BaseException:
        state.set(old)
        raise


def changed(**changes: object) -> State:
    """The active modes with these changes."""
    return replace(modes(), **changes).in_short()


leave: Final[Callable[[Token[State]], None]] = state.reset
"""Undoes `enter`. Not a function of Python's, at the beginning of which an interrupt could strike."""


def within(**changes: object) -> Block:
    """Inside, the active modes have these changes. For hot paths, `enter` and `leave` cost less."""
    return set_to((state, changed(**changes)))


def grad_enabled() -> bool:
    value = state.get()
    return value if type(value) is bool else value.grad
