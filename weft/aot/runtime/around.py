"""What surrounds a call: the modes that a plan depends on.

Takes the active modes; gives an `Around`, which is part of a plan's key, or the reason why nothing compiled
may run. One idea: a plan is traced in the modes that it was asked for in, and its graphs, in which everything
that modes decide has been decided, run in none.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from weft.core import modes
from weft.core.contexts import Block, set_to

AUTOCAST = "autocast"


class Around(NamedTuple):
    """The modes of a call."""

    grad: bool
    inference: bool = False
    autocast: tuple[Any, ...] | None = None
    """Its class, that of its cache, its dtype, whether it keeps casts, and whether it keeps them now."""

    @property
    def records(self) -> bool:
        return self.grad and not self.inference

    @property
    def keeps_casts(self) -> bool:
        """Whether casts of leaves are kept beyond the call: see Note [Casts that are kept]."""
        return self.autocast is not None and self.autocast[3] and self.autocast[4]


PLAIN_MODES = {True: Around(True), False: Around(False)}


def around(mode: Any) -> Around | str:
    """The modes of a call, or why it has to run as captured."""
    if type(mode) is bool:
        return PLAIN_MODES[mode]
    if mode.dispatch or mode.wary or mode.unhandled:
        return "a dispatch mode is active, which sees every operator"
    if mode.functions or mode.shielded:
        return "a function mode is active, which sees every call"
    if mode.saved_hooks or mode.saved_hooks_error:
        return "hooks for saved tensors are active, which see what eager code saves"
    if mode.anomaly is not None:
        return "anomaly detection is on, which names the lines of eager code"
    if mode.witness is not None:
        return "a mode is active that compiled code does not know"
    autocast = None
    for name, value in mode.extra:
        if name != AUTOCAST:
            return f"a transform is active ({name})"
        autocast = (type(value), type(value.cache), value.dtype, value.caching, bool(value.cache.open))
    return Around(mode.grad, mode.inference, autocast)


def entered(modes_of: Around, grad: bool | None = None) -> Block:
    """These modes and no others; gives the cache of autocast, which is empty and the call's own."""
    record = modes.Modes()
    record.grad = modes_of.grad if grad is None else grad
    record.inference = modes_of.inference
    cache: Any = None
    if modes_of.autocast is not None:
        kind, cache_kind, dtype, caching, is_open = modes_of.autocast
        cache = cache_kind()
        cache.open = is_open
        record.extra = ((AUTOCAST, kind(dtype, caching, cache)),)
    return set_to((modes.state, record.grad if record.is_plain() else record), given=cache)


def plainly(program: Callable[[list[Any]], Any], given: list[Any]) -> Any:
    """Runs a program with no modes, and nothing recorded: in a `try`, which costs less than a block."""
    before = modes.state.get()
    try:
        modes.state.set(False)
        return program(given)
    finally:
        modes.state.set(before)
