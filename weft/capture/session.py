"""Session: one capture, from a function and its arguments to a segment.

Takes a function and the values of its parameters, gives an `Outcome`, or the reason why the original must
run. One idea: a capture that meets a break is thrown away and run again up to the instruction before it, so
nothing is ever undone.
"""

from __future__ import annotations

import contextvars
import types
from collections.abc import Iterable
from typing import Any

import numpy as np

import weft.capture.control as _control
from weft.capture.autocasting import entered_since, own_settings, without_fakes
from weft.capture.binding import parameter_names
from weft.capture.frame import Frame, Unread
from weft.capture.guards import TENSOR_FACTS, Condition, Guard, strides_of
from weft.capture.higher_order import draws
from weft.capture.library import note_device_of
from weft.capture.machine import Machine, StopReached
from weft.capture.outcome import GraphInput, Outcome
from weft.capture.sources import function as function_source
from weft.capture.sources import local
from weft.capture.transforms import is_transforming
from weft.capture.values import Raised, has_type
from weft.capture.world import World
from weft.capture.wrapping import SYMBOLIC
from weft.core import modes
from weft.core.expressions import by_name
from weft.core.records import record, replace
from weft.graph.node import Node
from weft.tensor.base import PLAIN, Tensor
from weft.tensor.wrapper import levels
from weft.trace.breaks import Break

assert _control is not None
GENERATOR_LIKE = 0x20 | 0x80 | 0x200


@record(slots=True)
class Failed:
    """The captured program raised: its original must run, and raise at its own lines."""

    machine: Machine
    error: BaseException


@record(slots=True)
class Broken:
    """A break, and the step of the root frame before which the next run has to stop."""

    stop: Break
    step: int
    frame: Frame


def capture(
    function: types.FunctionType,
    arguments: dict[str, Any],
    volatile: frozenset[str] = frozenset(),
    dynamic: bool | None = None,
    stop_at: int | None = None,
    machines: list[Machine] | None = None,
    by_ops: bool = False,
    by_calls: bool = False,
) -> Outcome | Failed | Broken:
    """Runs the machine once over a call of the function, and files it in `machines`, for `release`."""
    machine = Machine(function, volatile, dynamic, stop_at, by_ops)
    machine.by_calls = by_calls
    if machines is not None:
        machines.append(machine)
    return contextvars.copy_context().run(_run, machine, arguments)


def release(machine: Machine) -> None:
    """Lets go of the user's objects: the machine is part of cycles, and they must not wait for a collection.

    What capture gave stays valid but for its objects: graph, guards and texts.
    """
    world = machine.world
    for error, _step in world.raised.values():
        error.__traceback__ = None
    world.forget()
    machine.recorder.forget()
    if machine.root is not None:
        machine.root.forget()
    machine.forget()


def _run(machine: Machine, arguments: dict[str, Any]) -> Outcome | Failed | Broken:
    machine.world.float_errors = np.geterr()
    warning: Any = {name: "raise" for name, way in machine.world.float_errors.items() if way == "warn"}
    np.seterr(**warning)  # in this context only
    before = modes.current()
    nesting, around = own_settings(), levels.get()
    machine.saved_through = has_type(before, modes.Modes) and bool(before.saved_hooks)
    if has_type(before, modes.Modes) and (before.saved_hooks or before.witness is not None):
        modes.enter(saved_hooks=(), witness=None)  # they are for what the graph computes, not for fakes
    frame = root_frame(machine, arguments)
    value: Any = None
    kind = "return"
    with machine.recorder:
        inside = modes.current()
        machine.world.guards.add(Guard("MODE", function_source(), before))
        try:
            value = machine.run(frame)
            frame.forget()
            if machine.generators.pending is not None:
                raise machine.generators.pending
        except StopReached:
            kind = "break"
        except Raised as raised:
            note_facts(machine)
            note_leaves(machine)
            mutation_guards(machine.world, machine.graph.nodes, machine.inputs.items)
            machine.scalars.close()
            return Failed(machine, raised.exception)
        except Break as stop:
            step = machine.root_steps
            if stop.culprit is not None:
                step = machine.world.made_at.get(id(stop.culprit), step)
            return Broken(stop, max(step - 1, 0), frame)
        finally:
            machine.generators.over = True
        after = modes.current()
    if levels.get() != around:
        step = machine.world.made_at.get(id(levels.get()[-1]), machine.root_steps)
        return Broken(Break("transform-inside", seen="a dual level that stays open"), max(step - 1, 0), frame)
    note_facts(machine)
    machine.scalars.close()
    drop_settled(machine)
    return Outcome(
        world=machine.world,
        recorder=machine.recorder,
        scalars=machine.scalars,
        frame=frame,
        kind=kind,
        inputs=machine.inputs.items,
        modes_before=before,
        modes_after=before if after is inside else _without_recorder(after, before),
        value=value,
        autocasts=entered_since(nesting),
    )


def _without_recorder(after: Any, before: Any) -> Any:
    """The modes that captured code left, as they would be without the recorder."""
    around = modes.in_full(before)
    outside = {"functions": around.functions, "saved_hooks": around.saved_hooks, "witness": around.witness}
    return replace(after, extra=without_fakes(after.extra), **outside).in_short()


def root_frame(machine: Machine, arguments: dict[str, Any]) -> Frame:
    """The frame that a call of the entry function starts with."""
    function = machine.entry_function
    code = function.__code__
    source = function_source()
    machine.world.learn(function, function, source)
    frame = Frame(code, function.__globals__, machine.calls.globals_source(function, source), function, None)
    machine.root = frame
    unread = {name: Unread(arguments[name], local(name)) for name in parameter_names(code)}
    for mark in unread.values():
        machine.world.learn(mark, mark, mark.source)
    in_cells = {name: mark for name, mark in unread.items() if name in code.co_cellvars}
    plain = {name: mark for name, mark in unread.items() if name not in in_cells}
    machine.variables.enter(frame, function, source, plain)
    for name, mark in in_cells.items():
        wrapping = machine.wrapping
        # No instruction reads the cell yet at which a text that varies could break: it is guarded instead.
        wrap = wrapping.guarded if type(mark.value) is str else wrapping.wrap
        frame.cells[name].cell_contents = wrap(mark.value, mark.source)
    return frame


def note_leaves(machine: Machine) -> None:
    """Errors of in-place calls depend on which tensors are leaves."""
    for known in list(machine.world.known.values()):
        if type(known.original) in PLAIN and known.original.tracked:
            machine.world.guard("FACT", known.source, ("is_leaf", known.original.node is None))


def note_facts(machine: Machine) -> None:
    """Guards for what the recorder and the symbolic scalars relied upon."""
    for fake, fact in machine.recorder.facts:
        known = machine.world.known.get(id(fake))
        if known is None:
            continue
        if fact == "stride":
            note_strides(machine, known)
        else:
            machine.world.guard("FACT", known.source, (fact, TENSOR_FACTS[fact](known.original)))
    note_device_of(machine, machine.graph)
    if draws(machine.graph.nodes):  # vmap would say which numbers
        machine.world.guards.add(Guard("AMBIENT", None, (is_transforming, False)))
    scalars = machine.scalars
    for symbol, value in scalars.static.items():
        machine.world.guard("EQ", scalars.sources[symbol], value)
    for expression, truth in scalars.guards():
        sources = tuple((symbol, scalars.sources[symbol]) for symbol in by_name(expression.symbols))
        if sources:
            condition = Condition(expression, truth, sources)
            machine.world.guard("CONDITION", sources[0][1], condition)


def note_strides(machine: Machine, known: Any) -> None:
    """The strides of a tensor were asked for. Those of a contiguous one follow from its sizes."""
    shape = known.value.array.shape
    varies = any(has_type(size, SYMBOLIC) for size in shape)
    if varies and known.original.array.flags.c_contiguous and 1 not in known.original.array.shape:
        machine.world.guard("FACT", known.source, ("is_contiguous", True))
    else:
        machine.world.guard("STRIDE", known.source, strides_of(known.original))


def drop_settled(machine: Machine) -> None:
    """Leaves out the placeholders of sizes that turned out to be fixed."""
    for item in list(machine.inputs.items):
        value = item.known.value
        if has_type(value, SYMBOLIC) and value.expression.symbols <= machine.scalars.static.keys():
            if not item.node.users:
                machine.graph.erase_node(item.node)
                machine.inputs.items.remove(item)


def mutation_guards(world: World, nodes: Iterable[Node], inputs: Iterable[GraphInput]) -> None:
    """Objects that captured code changes must not be the same as others it read, if they were not."""
    if any(node.meta.get("writes") for node in nodes):
        tensors = [each.known.source for each in inputs if has_type(each.known.value, Tensor)]
        if len(tensors) > 1:
            world.guard("DISTINCT", tensors[0], tuple(tensors))
    changed = list(world.changed_mirrors())
    changed += [world.known[key] for key in world.overlays if key in world.known]
    kinds = {type(known.original) for known in changed if known.snapshot is not None or _is_object(known)}
    identified: dict[type, list[Any]] = {}
    for known in world.identified.values():
        if has_type(known.original, Tensor) or _is_object(known):
            identified.setdefault(type(known.original), []).append(known.source)
    for sources in identified.values():
        if len(sources) > 1:
            world.guard("DISTINCT", sources[0], tuple(sources))
    unopened = world.still_unopened()
    for kind in kinds | {type(found.original) for found in unopened if found.log}:
        sources = [k.source for k in world.by_original.values() if type(k.original) is kind]
        sources += [found.source for found in unopened if type(found.original) is kind]
        if len(sources) > 1:
            world.guard("DISTINCT", sources[0], tuple(sources))


def _is_object(known: Any) -> bool:
    return not has_type(known.original, (type, types.ModuleType))  # whose identity is guarded
