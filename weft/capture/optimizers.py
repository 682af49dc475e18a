"""Optimizers in captured code: state is made before the graph, not in it.

Takes what an optimizer says before it makes state (`seams.making_state`); has the real optimizer make it for
every parameter that has a gradient here, and capture begin anew. One idea: the step that makes the state and
the steps that find it are then one program, so a second iteration needs no second graph.

# Note [State before the step]
    optimizer.step()         eager: state[p] = {"step": 0, "exp_avg": 0, ...}, then the update, in every call
Making state consists of zeros and draws no random numbers, so doing it before the rest of the call gives the
same numbers. It is undone where the call turns out to run as it is: then the original makes it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from weft.amp.grad_scaler import unless
from weft.capture.attributes import SEAMS
from weft.capture.calls import handles
from weft.capture.grads import read_grad
from weft.capture.higher_order import append, draws, interpret
from weft.capture.outcome import Unprepared
from weft.capture.values import Args, Kwargs
from weft.core import modes
from weft.graph.effects import Effect
from weft.trace.breaks import Break

if TYPE_CHECKING:
    from weft.capture.machine import Machine

OPTIONS = ("amsgrad", "fused", "momentum", "centered", "dampening")
"""What the form of the state depends on."""


def making_state(optimizer: Any) -> None:
    """Stands for `seams.making_state` in captured code."""


@handles(making_state)
def prepare(machine: Machine, args: Args, kwargs: Kwargs) -> None:
    (optimizer,) = args
    missing = lacking(machine, optimizer)
    if missing:
        known = machine.world.known.get(id(optimizer))
        again = None if known is None else (known.source, places_of(optimizer, missing))
        raise Unprepared(lambda: make_states(optimizer, missing), again)


def preparing(owner: Any, name: str) -> None:
    """Stands for `seams.prepare` in captured code."""


@handles(preparing)
def prepare_by_name(machine: Machine, args: Args, kwargs: Kwargs) -> None:
    owner, name = args
    if not machine.world.is_fresh(owner) and not modes.modes().inference:
        known = machine.world.known.get(id(owner))
        raise Unprepared(lambda: getattr(owner, name)(), None if known is None else (known.source, name))


SEAMS["making_state"] = making_state
SEAMS["prepare"] = preparing


# -- steps that may be skipped -------------------------------------------------------------------------------
def unless_set(flags: Args, graph: Any, operands: Args) -> tuple[()]:
    """Runs the graph, which gives nothing and writes its operands, unless one of the flags is set."""
    if not any(flag.item() for flag in flags):
        graph(*operands)
    return ()


@handles(unless)
def step_unless(machine: Machine, args: Args, kwargs: Kwargs) -> None:
    """`GradScaler.step`: whether the optimizer runs is known when the graph runs. It may write tensors, and
    nothing else.
    """
    flags, function = args
    body = interpret(machine, function, (), [], may_write=True, once=True)
    if body.leaves != [None]:
        raise Break("higher-order-operands", seen="an optimizer step under a GradScaler that returns a value")
    writes = tuple([machine.recorder.node(tensor) for tensor in body.written])
    parts = [tuple(flags), ("unless_set_0", body.graph), tuple(body.lifted)]
    facts = Effect(random=draws(body.graph.nodes), writes=writes)
    append(machine, unless_set, "unless_set", parts, [], facts)


def lacking(machine: Machine, optimizer: Any) -> list[tuple[Any, Any]] | None:
    """The parameters that have a gradient and no state, each with its group; None where that cannot be said
    of real objects alone.
    """
    world = machine.world
    ours = type(optimizer)._init_state.__module__.startswith("weft.optim.")
    if not ours or world.is_fresh(optimizer) or modes.modes().inference:
        return None
    states = machine.attributes.load(optimizer, "state")
    found = []
    for group in machine.attributes.load(optimizer, "param_groups"):
        known = world.known.get(id(group))
        if known is None or any(
            value is not group.get(name) for name, value in known.snapshot if name in OPTIONS
        ):
            return None
        if not optimizer._keeps_state(known.original):
            continue
        for param in group["params"]:
            original = world.known.get(id(param))
            if original is None:
                return None
            if read_grad(machine, param) is not None and not states.get(param):
                found.append((original.original, known.original))
    return found


def places_of(optimizer: Any, missing: list[tuple[Any, Any]]) -> list[tuple[int, int]]:
    """Parameters by their groups, and their places in these."""
    places = {
        id(param): (number, place)
        for number, group in enumerate(optimizer.param_groups)
        for place, param in enumerate(group["params"])
    }
    return [places[id(param)] for param, _group in missing]


IS_DUE: dict[str, Callable[[Any], bool]] = {
    "_note_call": lambda owner: not getattr(owner, "_opt_called", False),
    "_start": lambda owner: owner._scale is None,
}
"""What is prepared by name, and when."""


def prepare_again(owner: Any, what: Any) -> Callable[[], None]:
    """Does what another process had to do before this call was captured, where it is due; gives what undoes
    it. `what` is a name, or places of parameters.
    """
    if not isinstance(what, str):
        return make_states_at(owner, what)
    if not type(owner).__module__.startswith("weft.") or modes.modes().inference:
        raise TypeError(f"{type(owner).__qualname__} is none of ours")
    undo: Callable[[], None] = getattr(type(owner), what)(owner) if IS_DUE[what](owner) else lambda: None
    return undo


def make_states_at(optimizer: Any, places: list[tuple[int, int]]) -> Callable[[], None]:
    """`make_states` of those parameters at these places that have no state."""
    if not type(optimizer).__module__.startswith("weft.optim.") or modes.modes().inference:
        raise TypeError(f"{type(optimizer).__qualname__} is no optimizer of ours")
    groups = [optimizer.param_groups[number] for number, _place in places]
    given = [(group["params"][place], group) for group, (_, place) in zip(groups, places, strict=True)]
    missing = [(param, group) for param, group in given if not optimizer.state.get(param)]
    if not all(optimizer._keeps_state(group) for _param, group in missing):
        raise ValueError("options that need no state")
    return make_states(optimizer, missing)


def make_states(optimizer: Any, missing: list[tuple[Any, Any]]) -> Callable[[], None]:
    """Makes the state of real parameters; gives what takes it away again."""
    table = optimizer.state
    new = [param for param, _group in missing if param not in table]
    for param, group in missing:
        optimizer._init_state(param, table[param], group)

    def undo() -> None:
        for param, _group in missing:
            table[param].clear()
        for param in new:
            del table[param]

    return undo
