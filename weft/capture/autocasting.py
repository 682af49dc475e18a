"""Autocast in captured code: entering and leaving it.

Takes the calls of `autocast.__enter__` and `_leave` that captured code makes; gives the modes that the
calls inside are recorded under. One idea: the switches are set natively, in the context that belongs to the
capture alone; the recorder writes down in the graph what it sees of them, and the defaults that were read
leave a guard.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

from weft.amp import state
from weft.amp.autocast_mode import autocast
from weft.amp.casting import NAME, Autocast, Cache, without_autocast
from weft.autograd.grad_mode import _drive
from weft.capture.calls import handles, interpreted, natively
from weft.capture.guards import Guard
from weft.capture.values import Args, Kwargs
from weft.core import modes
from weft.core.dtypes import dtype
from weft.nn.modules.rnn import _autocast_dtype
from weft.tensor.meta import FAKE
from weft.trace.breaks import Break, NeedOps

if TYPE_CHECKING:
    from weft.capture.machine import Machine


# -- what emitted code and graphs call -----------------------------------------------------------------------
def _set_autocast(kind: dtype | None, caching: bool) -> None:
    """Switches autocast within a graph. Casts are not kept: a graph names each tensor it casts."""
    extra = without_autocast(modes.modes().extra)
    if kind is not None:
        extra = (*extra, (NAME, Autocast(kind, caching, Cache())))
    modes.enter(extra=extra)


def put_autocast(kind: dtype | None, caching: bool, entered: int) -> None:
    """Leaves autocast as captured code left it, `entered` blocks deeper than before."""
    state.put(kind is not None, kind or state.get_autocast_dtype("cpu"), caching)
    for _ in range(entered):
        state.autocast_increment_nesting()
    for _ in range(-entered):
        if state.autocast_decrement_nesting() == 0:
            state.clear_autocast_cache()


def autocast_defaults() -> tuple[dtype, bool]:
    """What an autocast without a dtype takes where none is active."""
    now = state.current()
    return now.dtypes["cpu"], now.caching


# -- around a capture ----------------------------------------------------------------------------------------
def own_settings() -> int:
    """Gives the capture switches and casts of its own; tells how many autocasts are entered."""
    now = state.current()
    state.settings.set(dataclasses.replace(now, cache=Cache()))
    mode = modes.modes()
    pairs = [(n, Autocast(v.dtype, v.caching, Cache()) if n == NAME else v) for n, v in mode.extra]
    if any(name == NAME for name, _ in pairs):
        modes.enter(extra=tuple(pairs))
    return now.nesting


def entered_since(nesting: int) -> int:
    """How many autocasts captured code has entered and not left."""
    return state.current().nesting - nesting


def without_fakes(extra: tuple[tuple[str, Any], ...]) -> tuple[tuple[str, Any], ...]:
    return tuple(pair for pair in extra if pair[0] != FAKE)


# -- handlers ------------------------------------------------------------------------------------------------
def read_defaults(machine: Machine) -> None:
    """Guards what the capture found. The first to ask comes before whatever captured code changes."""
    if not any(
        guard.kind == "AMBIENT" and guard.payload[0]() is autocast_defaults for guard in machine.world.guards
    ):
        machine.world.guards.add(Guard("AMBIENT", None, (autocast_defaults, autocast_defaults())))


def _answer(function: Any) -> None:
    @handles(function)
    def answer(machine: Machine, args: Args, kwargs: Kwargs) -> Any:
        read_defaults(machine)
        return machine.native(function, *args, **kwargs)


for _function in (state.is_autocast_enabled, state.get_autocast_dtype, state.is_autocast_cache_enabled):
    _answer(_function)


interpreted(_drive)  # runs a generator under a grad mode: its steps are the user's
natively(_autocast_dtype)  # guarded by the modes around


@handles(autocast.__init__)
def initialise(machine: Machine, args: Args, kwargs: Kwargs) -> None:
    device_type = args[1] if len(args) > 1 else kwargs.get("device_type")
    enabled = args[3] if len(args) > 3 else kwargs.get("enabled", True)
    kind = args[2] if len(args) > 2 else kwargs.get("dtype")
    if device_type == "cuda" and enabled or kind is not None and kind.itemsize != 2:
        raise Break("mode-change", seen=f"autocast({device_type!r}), which warns")
    read_defaults(machine)
    machine.native(autocast.__init__, *args, **kwargs)


def is_absent(machine: Machine, value: Any) -> bool:
    """Whether a backward says that a device which is not there casts nothing, as `custom_bwd` does."""
    place = machine.attributes.load(value, "device")
    off = not machine.attributes.load(value, "_enabled") and not state.is_autocast_enabled(place)
    return place != "cpu" and off and machine.root is None and machine.world.is_fresh(value)


def _checked(machine: Machine, value: Any) -> None:
    if machine.attributes.load(value, "device") != "cpu":
        raise Break("mode-change", seen="autocast of an unavailable device")
    read_defaults(machine)


@handles(autocast.__enter__)
def enter(machine: Machine, args: Args, kwargs: Kwargs) -> Any:
    (value,) = args
    if is_absent(machine, value):
        return machine.native(autocast.__enter__, value)
    _checked(machine, value)
    if not machine.by_ops and modes.grad_enabled() and machine.attributes.load(value, "_enabled"):
        # Casts of leaves are kept inside, and gradients summed behind them: a graph has to name them.
        kind = Break if machine.by_calls else NeedOps
        raise kind("mode-change", seen="autocast around code that is differentiated later")
    before = (state.is_autocast_enabled("cpu"), *_now())
    machine.native(list.append, machine.attributes.load(value, "_before"), before)
    state.autocast_increment_nesting()
    names = ("_enabled", "fast_dtype", "_cache_enabled")
    state.put(*[machine.attributes.load(value, name) for name in names])
    return value


def _now() -> tuple[dtype, bool]:
    return state.get_autocast_dtype("cpu"), state.is_autocast_cache_enabled()


@handles(autocast._leave)
def leave(machine: Machine, args: Args, kwargs: Kwargs) -> None:
    value = args[0]
    if is_absent(machine, value):
        machine.native(autocast._leave, *args)
        return
    _checked(machine, value)
    if state.autocast_decrement_nesting() == 0:
        state.clear_autocast_cache()
    state.put(*machine.native(list.pop, machine.attributes.load(value, "_before")))
