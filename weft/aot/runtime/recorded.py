"""Recorded calls as data: what the nodes of the tape behind a call are made of.

Takes a plan that has just served a call; gives a tree of parts, which whoever runs the forward graph natively
puts together in the same call. One idea: the nodes are the ordinary ones (`weft.aot.runtime.nodes`), and what
cannot be said in advance of them is an object, an array or a version of this very call.

# Note [Parts]
    ("constant", object)                    ("called", function)        what it gives
    ("input", i)                            ("array", i)                of a tensor; ("copy", i) is one of it
    ("slot", i, name)                       ("cell", i), ("count", i)   the version of a tensor
    ("kept", k)      a result of the graph  ("own cell", k), ("own count", k)   of the output of this number
    ("seeds",)       of what was drawn      ("stage", n)                the node of an earlier stage
    ("tuple", parts)                        ("instance", class, parts by slot)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from weft.aot.facts import Input, Output, Value
from weft.aot.runtime.nodes import CompiledCall, CompiledFunctionBackward, NodeFacts, Watched
from weft.aot.runtime.plans import CompiledPlan
from weft.aot.runtime.quick import Quick
from weft.aot.runtime.rerun import parts_of_rerun
from weft.aot.saved import INPUT, OUTPUT, VALUE
from weft.core.records import record
from weft.tensor.tape import next_sequence

Part = tuple[Any, ...]
NONE: Part = ("constant", None)


@record(frozen=True, slots=True)
class NodesOfCall:
    """The nodes of a call."""

    call: CompiledCall
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

    def run_by(self, machine: Any) -> None:
        """Lets the nodes run natively by what makes native entries."""
        outputs = [parts["outputs"][1] for _, _, parts in self.nodes]
        self.call.quick = [Quick(machine, self.call, *each) for each in enumerate(outputs)]


def tuple_of(parts: Sequence[Part]) -> Part:
    return ("tuple", list(parts)) if parts else ("constant", ())


def recorded(
    plan: CompiledPlan,
    outputs: Sequence[Output],
    nodes_of_inputs: Sequence[bool],
    otherwise: Callable[[], Any],
) -> NodesOfCall | None:
    """The nodes of calls with this plan; None where more than parts are needed. `nodes_of_inputs`: which of
    the inputs have a node behind them."""
    program = plan.program
    call = CompiledCall(plan.compiled, plan, program, None)
    whole = plan.programs.get(frozenset(), program)
    places = {output.index: place for place, output in enumerate(outputs) if isinstance(output, Value)}
    shared = parts_of_rerun(plan, program, nodes_of_inputs)
    nodes: list[Part] = []
    ends: dict[int, tuple[int, int]] = {}
    types: dict[int, Any] = {}
    for number, stage in enumerate(program.joint.stages):
        facts = plan.node_facts.get((number, id(program), id(whole)))
        if facts is None or not places.keys() >= {*stage.values, *stage.lower}:
            return None
        lower = [ends[places[each]] for each in stage.lower]
        for slot, value in enumerate(stage.values):
            ends[places[value]] = number, slot
            types[places[value]] = facts.outputs[slot]
        watched = watched_by(plan, number, places, outputs, types, ends)
        if watched is None:
            return None
        call.watching.append(watched)
        nodes.append(node_parts(call, number, facts, lower, shared, nodes_of_inputs))
    return NodesOfCall(call, nodes, ends, program.cut.private, plan, otherwise)


def node_parts(
    call: CompiledCall,
    number: int,
    facts: NodeFacts,
    lower: list[tuple[int, int]],
    shared: list[Part],
    nodes_of_inputs: Sequence[bool],
) -> Part:
    """The node of one stage, as `weft.aot.runtime.nodes.new_node` makes it."""
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
    kept = [("kept", len(call.plan.facts.values) + place) for place in call.program.cut.places[number]]
    watched: list[Part] = []
    for each in call.watching[number]:
        own = "" if each.is_input else "own "
        watched += [(f"{own}cell", each.number), (f"{own}count", each.number)]
    parts = {
        "_seq": ("called", next_sequence), "next": tuple_of(targets), "slots": tuple_of(slots),
        "saved": tuple_of(kept), "versions": NONE, "params": ("constant", ()),
        "types": ("constant", facts.types), "hooks": NONE, "outputs": ("constant", facts.outputs),
        "call": ("constant", call), "stage": ("constant", number), "rerun": tuple_of(shared),
        "lower": tuple_of(ends), "watched": tuple_of(watched), "freed": ("constant", 0), "running": NONE,
    }  # fmt: skip
    return ("instance", CompiledFunctionBackward, parts)


def watched_by(
    plan: CompiledPlan,
    number: int,
    places: dict[int, int],
    outputs: Sequence[Output],
    types: dict[int, Any],
    ends: dict[int, tuple[int, int]],
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
            found.append(Watched(True, index, (kind, shape), None, saved))
        elif index in ends:
            known = types[index]
            found.append(Watched(False, index, (known.dtype.numpy, known.shape), ends[index][1], saved))
        else:
            return None
    return found
