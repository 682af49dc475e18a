"""Recorded calls as data: what the nodes of the tape behind a call are made of.

Takes a plan that has just served a call; gives a tree of parts, which whoever runs the forward graph natively
puts together in the same call. One idea: the nodes are the ordinary ones (`weft.aot.runtime.nodes`), and what
cannot be said in advance of them is an object, an array or a version of this very call.

# Note [Parts]
    ("constant", object)                    ("called", function)        what it gives
    ("input", i)                            ("array", i)                of a tensor; ("copy", i) is one of it
    ("slot", i, name)                       ("cell", i), ("count", i)   the version of a tensor
    ("kept", k)      a result of the graph  ("own cell", k), ("own count", k)   of the output of this number
    ("seeds",), ("counts",)  of draws       ("stage", n)                the node of an earlier stage
    ("size", expression, now)               a number that follows from open sizes
    ("tuple", parts)                        ("instance", class, parts by slot)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from weft.aot.facts import Input, Output, Value
from weft.aot.runtime.nodes import CompiledCall, CompiledFunctionBackward, NodeFacts, OpenCalls, Watched
from weft.aot.runtime.plans import CompiledCut, CompiledPlan
from weft.aot.runtime.quick import Quick
from weft.aot.runtime.rerun import parts_of_rerun
from weft.aot.saved import INPUT, OUTPUT, VALUE
from weft.core.records import record
from weft.core.symbolic import any_symbolic
from weft.core.types import TensorType
from weft.tensor.tape import next_sequence

Part = tuple[Any, ...]
NONE: Part = ("constant", None)


@record(frozen=True, slots=True)
class NodesOfCall:
    """The nodes of a call."""

    call: CompiledCall | OpenCalls
    nodes: list[Part]
    """One for each stage, in their order."""
    ends: dict[int, tuple[int, int]]
    """By the number of an output: the stage of its node, and which of that one's outputs it is."""
    private: frozenset[int]
    """The results of the graph that may not lie in memory that the user has."""
    plan: CompiledPlan
    """Which must have this program still."""
    otherwise: Callable[[], Any]
    """Gives the call as one whose nodes Python makes."""
    numbers: dict[int, Part]
    """Parts of inputs that are open numbers."""

    def run_by(self, machine: Any) -> None:
        """Lets the nodes run natively by what makes native entries."""
        if not self.call.quick:
            program, plan = self.plan.program, self.plan
            types = [types_of_outputs(program, number, plan) for number in range(len(self.nodes))]
            self.call.quick = [Quick(machine, program, *each) for each in enumerate(types)]


def types_of_outputs(program: CompiledCut, number: int, plan: CompiledPlan) -> tuple[Any, ...] | None:
    """The types of what a stage gives, if they are those of all calls."""
    values = program.joint.stages[number].values
    open_ones = [value for value in values if any_symbolic(shape_of(program, value))]
    return None if open_ones else facts_of(plan, number).outputs  # type: ignore[union-attr]


def facts_of(plan: CompiledPlan, number: int) -> NodeFacts | None:
    program = plan.program
    whole = plan.programs.get(frozenset(), program)
    return plan.node_facts.get((number, id(program), id(whole)))


def shape_of(program: CompiledCut, value: int) -> tuple[Any, ...]:
    """The shape of a value, as it was traced."""
    return tuple(getattr(getattr(program.joint.values[value].meta.get("val"), "array", None), "shape", ()))


def tuple_of(parts: Sequence[Part]) -> Part:
    return ("tuple", list(parts)) if parts else ("constant", ())


class Sizes:
    """Parts for what is open of the calls of a template; all is constant where nothing is."""

    def __init__(self, plan: CompiledPlan) -> None:
        sizes = plan.compiled.sizes if plan.template is not None else None
        self.plan, self.axes, self.numbers = plan, {}, {}
        self.symbols: list[Any] = []
        if sizes is not None:
            self.axes, self.symbols = sizes.axes, [*sizes.sources]
            self.numbers = {number: value.expression for number, value in sizes.numbers.items()}

    def number(self, value: Any, now: int) -> Part:
        expression = getattr(value, "expression", None)
        return ("constant", now) if expression is None else ("size", expression, now)

    def shape(self, open_shape: Sequence[Any], shape: Sequence[int]) -> Part:
        if not any_symbolic(tuple(open_shape)):
            return ("constant", tuple(shape))
        return tuple_of([self.number(one, now) for one, now in zip(open_shape, shape, strict=True)])

    def types(self, types: Sequence[Any], stage: Any, wanted: Sequence[int]) -> Part:
        """Shapes and dtypes of inputs, and of values of earlier stages."""
        parts: list[Part] = []
        for place, index in enumerate((*wanted, *stage.lower)):
            shape, kind = types[2 * place : 2 * place + 2]
            if place < len(wanted):
                axes = self.axes.get(index, {})
                opened: Sequence[Any] = [axes.get(axis, size) for axis, size in enumerate(shape)]
            else:
                opened = shape_of(self.plan.program, index)
            parts += [self.shape(opened, shape), ("constant", kind)]
        return tuple_of(parts) if any(how != "constant" for how, *_ in parts) else ("constant", tuple(types))

    def outputs(self, types: Sequence[Any], values: Sequence[int]) -> Part:
        parts = []
        for value, type_ in zip(values, types, strict=True):
            shape = self.shape(shape_of(self.plan.program, value), type_.shape)
            made = {"shape": shape, "dtype": ("constant", type_.dtype), "device": ("constant", type_.device)}
            parts.append(("constant", type_) if shape[0] == "constant" else ("instance", TensorType, made))
        return tuple_of(parts) if any(how != "constant" for how, *_ in parts) else ("constant", tuple(types))


def recorded(
    plan: CompiledPlan,
    outputs: Sequence[Output],
    nodes_of_inputs: Sequence[bool],
    otherwise: Callable[[], Any],
    now: Sequence[Any],
) -> NodesOfCall | None:
    """The nodes of calls with this plan; None where more than parts are needed. `nodes_of_inputs`: which of
    the inputs have a node behind them. `now`: the inputs of the call."""
    if plan.types is None:  # another thread has made it, and not called it yet
        return None
    program, sizes = plan.program, Sizes(plan)
    call: CompiledCall | OpenCalls = CompiledCall(plan.compiled, plan, program, None)
    if sizes.symbols:
        call = OpenCalls(plan, sizes.symbols)
    places = {output.index: place for place, output in enumerate(outputs) if isinstance(output, Value)}
    numbers: dict[int, Part] = {
        number: ("size", expression, now[number]) for number, expression in sizes.numbers.items()
    }
    shared = parts_of_rerun(plan, program, nodes_of_inputs, numbers)
    nodes: list[Part] = []
    ends: dict[int, tuple[int, int]] = {}
    types: dict[int, Any] = {}
    for number, stage in enumerate(program.joint.stages):
        facts = facts_of(plan, number)
        if facts is None or not places.keys() >= {*stage.values, *stage.lower}:
            return None
        lower = [ends[places[each]] for each in stage.lower]
        for slot, value in enumerate(stage.values):
            ends[places[value]] = number, slot
            types[places[value]] = facts.outputs[slot]
        watched = watched_by(plan, number, places, outputs, types, ends, sizes)
        if watched is None:
            return None
        call.watching.append(watched)
        parts = node_parts(call, plan, number, facts, lower, shared, nodes_of_inputs)
        parts["types"] = sizes.types(facts.types, stage, program.joint.wanted)
        parts["outputs"] = sizes.outputs(facts.outputs, stage.values)
        values = [numbers.get(sizes.plan.compiled.sizes.sources[one]) for one in sizes.symbols]
        if sizes.symbols:
            parts["sizes"] = tuple_of([each or NONE for each in values])
            if None in values:
                return None
        nodes.append(("instance", CompiledFunctionBackward, parts))
    return NodesOfCall(call, nodes, ends, program.cut.private, plan, otherwise, numbers)


def node_parts(
    call: CompiledCall | OpenCalls,
    plan: CompiledPlan,
    number: int,
    facts: NodeFacts,
    lower: list[tuple[int, int]],
    shared: list[Part],
    nodes_of_inputs: Sequence[bool],
) -> dict[str, Part]:
    """The node of one stage, as `weft.aot.runtime.nodes.new_node` makes it, but for its types."""
    targets: list[Part] = []
    slots: list[Part] = []
    for index, there in facts.wanted:
        has_node = nodes_of_inputs[index]
        targets.append((("slot", index, "node") if has_node else ("input", index)) if there else NONE)
        slots.append(("slot", index, "index") if there and has_node else ("constant", 0))
    for (stage, slot), there in zip(lower, facts.lower, strict=True):
        targets.append(("stage", stage) if there else NONE)
        slots.append(("constant", slot if there else 0))
    ends = [tuple_of([("stage", stage), ("constant", slot)]) for stage, slot in lower]
    kept = [("kept", len(plan.facts.values) + place) for place in plan.program.cut.places[number]]
    watched: list[Part] = []
    for each in call.watching[number]:
        own = "" if each.is_input else "own "
        watched += [(f"{own}cell", each.number), (f"{own}count", each.number)]
    return {
        "_seq": ("called", next_sequence), "next": tuple_of(targets), "slots": tuple_of(slots),
        "saved": tuple_of(kept), "versions": NONE, "params": ("constant", ()), "hooks": NONE,
        "made_by": ("constant", call), "sizes": NONE, "stage": ("constant", number),
        "rerun": tuple_of(shared), "lower": tuple_of(ends), "watched": tuple_of(watched),
        "freed": ("constant", 0), "running": NONE,
    }  # fmt: skip


def watched_by(
    plan: CompiledPlan,
    number: int,
    places: dict[int, int],
    outputs: Sequence[Output],
    types: dict[int, Any],
    ends: dict[int, tuple[int, int]],
    sizes: Sizes,
) -> list[Watched] | None:
    """The tensors whose versions a node watches, as `weft.aot.runtime.nodes.watch` notes them; None where
    these are others than inputs, and outputs with a history."""
    found: list[Watched] = []
    known_types = plan.types or []
    written = {each.input for each in plan.facts.written}
    for saved in plan.whole.joint.stages[number].saved:
        index = saved.number
        output = outputs[index] if saved.kind == OUTPUT else None
        if isinstance(output, Input):
            index, is_input = output.index, True
        else:
            is_input = saved.kind == INPUT
            index = places.get(index, -1) if saved.kind == VALUE else index
        if is_input and index in written:
            return None
        if is_input:
            shape, kind, _ = known_types[index]
            axes = sizes.axes.get(index, {})
            opened = tuple([axes.get(axis, size) for axis, size in enumerate(shape)])
            found.append(Watched(True, index, (kind, opened), None, saved))
        elif index in ends:
            known = types[index]
            value = next(value for value, place in places.items() if place == index)
            opened = shape_of(plan.program, value) if sizes.symbols else known.shape
            found.append(Watched(False, index, (known.dtype.numpy, opened), ends[index][1], saved))
        else:
            return None
    return found
