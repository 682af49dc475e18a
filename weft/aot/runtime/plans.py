"""Plans: how calls of a compiled graph run.

Takes graphs that were compiled; gives objects whose `run` does a call: values first, then all effects that
are observable outside. One idea: what a plan cannot do, the captured graph does, which is eager's own code.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import field
from typing import Any

from weft.aot.conditions import NONE as OF_ALL
from weft.aot.conditions import Conditions
from weft.aot.facts import Casts, Facts
from weft.aot.joint import JointGraph
from weft.aot.partition import Cut
from weft.aot.runtime.around import Around, plainly
from weft.aot.runtime.counting import refuse, strict
from weft.aot.runtime.effects import (
    Lent,
    all_writable,
    keep_apart,
    overlapping,
    own,
    rebuilt,
    separate,
    sharing_versions,
    write_back,
)  # fmt: skip
from weft.aot.runtime.nodes import (
    CompiledCall,
    new_node,
    watch,
)
from weft.aot.runtime.rerun import Rerun, cast_inputs
from weft.aot.sizes import Values, facts_at, facts_hold_sizes
from weft.aot.split import Part
from weft.core import modes
from weft.core.generator import Drawn, noted
from weft.core.handlers import out_of_handlers
from weft.core.interrupts import let_through
from weft.core.records import record
from weft.core.requirements import EXHAUSTED, Committed
from weft.graph.interpreter import attribute
from weft.graph.node import Node, map_arg
from weft.tensor.base import PLAIN, address
from weft.trace.module import GraphModule


@record(slots=True)
class CompiledCut:
    """A cut of a joint graph, compiled."""

    joint: JointGraph
    cut: Cut
    forward: Callable[..., Any]
    backwards: list[Callable[..., Any]]
    read: set[int]
    """The inputs on whose elements gradients depend."""
    copied: set[int]
    """Those of them that eager code would not have saved for some value, and that are kept as they were."""
    saved: set[int]
    """The inputs that it would have saved."""
    checked: set[int]
    """The inputs on whose elements it depends whether the graph fails."""
    absent: frozenset[int]
    """The values that require grad and get no gradient."""
    conditions: Conditions = OF_ALL
    """What was relied upon of open sizes, and of floats."""
    has_run: bool = False
    derivatives: dict[int, Any] = field(default_factory=dict)
    """A stage's gradients as a function of inputs and tangents, when first needed."""


class CompiledPlan:
    """How calls with one key run."""

    __slots__ = (
        "compiled", "module", "unchecked", "facts", "program", "programs", "whole", "around", "casts", "last",
        "conditions", "fixed", "types", "node_facts", "template",
    )  # fmt: skip

    def __init__(
        self, compiled: Any, facts: Facts, program: CompiledCut, modes_of: Around, casts: Casts
    ) -> None:
        self.compiled, self.module, self.facts, self.program = compiled, compiled.module, facts, program
        self.unchecked: GraphModule = compiled.without_checks()
        self.programs = {program.absent: program}  # by the values that get no gradient
        self.whole = program  # with a gradient for each value
        self.around, self.casts = modes_of, casts
        self.conditions, self.fixed = program.joint.conditions, compiled.fixed
        self.last: tuple[int, ...] = ()  # where the inputs of the last call lay, found to be apart
        self.types: list[Any] | None = None  # those of the inputs, when first needed
        self.node_facts: dict[Any, Any] = {}  # see `weft.aot.runtime.nodes.node_facts`
        self.template: Template | None = None  # what this plan was made of, if sizes are open there

    def run(self, args: tuple[Any, ...]) -> Any:
        """One call: values first, then all effects that are observable outside."""
        facts, program = self.facts, self.program
        if facts.written:
            reason = self.unwritable(args)
            if reason is not None:
                return as_captured(self.module, args, reason)
        if self.casts:
            args = (*args, *cast_inputs(args, self.casts))
        stages = program.joint.stages
        rerun = Rerun(self, program, args) if stages else None
        lent = Lent(facts, args)
        try:
            if program.has_run:
                results = self.computed(program, rerun, lent)
            else:  # which compiles
                results = out_of_handlers(self.computed, program, rerun, lent)
                program.has_run = True
        finally:
            lent.settle()
        count = len(facts.values)
        values, residuals = list(results[:count]), list(results[count:])
        del results
        separate(values, facts, args)
        return self.ended(args, values, residuals, rerun)

    def computed(self, program: CompiledCut, rerun: Rerun | None, lent: Lent) -> Any:
        """The values of a call, and what its gradients need."""
        if rerun is None or not self.facts.draws:
            return plainly(program.forward, lent.values)
        with noted() as rerun.drawn:
            return plainly(program.forward, lent.values)

    def ended(
        self,
        args: tuple[Any, ...],
        values: list[Any],
        residuals: list[Any],
        rerun: Any = None,
        drawn: Drawn | None = None,
    ) -> Any:
        """What a call gives whose values each have memory of their own: with effects, and on the tape.
        `drawn`: the random numbers, where there is no `rerun` that says so.
        """
        facts, program = self.facts, self.program
        stages = program.joint.stages
        if stages and rerun is None:
            rerun = Rerun(self, program, args, drawn)
        call = CompiledCall(self.compiled, self, program, rerun)
        if stages:
            keep_apart(residuals, facts, args, values, program.cut.private)
            for stage in range(len(stages)):
                new_node(call, stage, args, values)
        try:
            write_back(facts, values, args, call.edges)
            own(facts, values, call.edges)
            outputs = rebuilt(facts, args, values)
            if stages:
                watch(call, residuals, args, values, outputs)
            return program.joint.build(outputs)
        except Exception as error:
            let_through(error)
            if not facts.written or isinstance(error, EXHAUSTED):
                raise
            reason = f"internal error behind the writes of a compiled call: {type(error).__name__}: {error}"
            raise Committed(reason) from error

    def unwritable(self, args: tuple[Any, ...]) -> str | None:
        """Why inputs must not be written as the facts say."""
        if not all_writable(self.facts, args):
            return "an input that may not be written"
        lower = {number for stage in self.program.joint.stages for number in stage.lower}
        if any(w.value in lower and args[w.input].origin is not None for w in self.facts.written):
            return "a view that is written, and then read by what has a history"
        # Eager makes the history of such a view anew, so what is read afterwards leads to another node.
        silent = [args[w.input] for w in self.facts.written if not w.history]
        if self.program.joint.stages and any(t.origin is not None and t.tracked for t in silent):
            return "a view with a history that is written without gradients"
        # What was saved of the one is stale when the other is written, with elements of its own or not.
        if self.program.joint.stages and sharing_versions(self.facts, args):
            return "an input that is written counts its versions together with another"
        places = tuple([address(value.array) for value in args if type(value) in PLAIN])
        if places != self.last:
            if overlapping(self.facts, args):
                return "an input that is written overlaps another"
            self.last = places
        return None


class Template:
    """What plans for the same keys but for open sizes have in common: see Note [Plans for open sizes] in
    `weft.aot.sizes`."""

    __slots__ = ("compiled", "program", "programs", "around", "casts", "conditions", "fixed", "holds_sizes")

    def __init__(self, compiled: Any, program: CompiledCut, modes_of: Around, casts: Casts) -> None:
        self.compiled, self.around, self.casts, self.fixed = compiled, modes_of, casts, compiled.fixed
        self.program = program
        self.programs = [program]  # the last is the one that served last
        self.conditions = program.conditions
        self.holds_sizes = facts_hold_sizes(program.joint.facts)

    def plan(self, args: tuple[Any, ...], values: Values) -> CompiledPlan:
        """The plan for a call for which the conditions hold."""
        latest = self.programs[-1]
        served = latest is not self.program and latest.conditions.hold(args)
        return self.plan_at(values, latest if served else self.program)

    def plan_at(self, values: Values, program: CompiledCut) -> CompiledPlan:
        """The plan at these sizes, with one of the programs."""
        facts = self.program.joint.facts
        if self.holds_sizes:
            facts = facts_at(facts, values)
        made = CompiledPlan(self.compiled, facts, self.program, self.around, self.casts)
        made.conditions, made.fixed, made.template = self.conditions.of_floats(), self.fixed, self
        made.programs[program.absent] = made.program = program
        return made

    def program_for(self, absent: frozenset[int], args: Sequence[Any]) -> CompiledCut | None:
        """The program for gradients that never come for some values, if there is one for these sizes."""
        for program in self.programs:
            if program.absent == absent and program.conditions.hold(args):
                return program
        return None

    def serves(self, program: CompiledCut) -> None:
        """Notes that this program serves a call."""
        self.programs = [*[each for each in self.programs if each is not program], program]


def as_captured(module: GraphModule, args: tuple[Any, ...], reason: str) -> Any:
    """One call of the captured graph, where nothing but eager code does what is asked for."""
    refuse(reason)
    return module.forward(*args)


class AsCaptured:
    """Calls with this key run the captured graph."""

    __slots__ = ("module", "doubt", "conditions")

    def __init__(
        self, module: GraphModule, doubt: str | None = None, conditions: Conditions = OF_ALL
    ) -> None:
        self.module, self.conditions = module, conditions
        self.doubt = doubt  # why it is not compiled, unless running goes wrong too

    def run(self, args: tuple[Any, ...]) -> Any:
        result = self.module.forward(*args)
        if self.doubt is not None:
            strict(self.doubt)
        return result


class Pieces:
    """Calls with this key run compiled pieces, and nodes between them as they are: see `weft.aot.split`."""

    __slots__ = ("module", "parts", "functions")
    conditions = OF_ALL

    def __init__(self, module: GraphModule, parts: list[Part], functions: list[Any]):
        self.module, self.parts, self.functions = module, parts, functions

    def run(self, args: tuple[Any, ...]) -> Any:
        graph = self.module.graph
        values: dict[Node, Any] = dict(zip(graph.placeholders, args, strict=True))
        before = modes.state.get()
        try:
            for part, function in zip(self.parts, self.functions, strict=True):
                if part.switches:
                    for node in part.switches:
                        node.target(*node.args)
                if function is not None:
                    results = function(*[values[node] for node in part.inputs])
                    values.update(zip(part.outputs, results, strict=True))
                    del results
                else:
                    self.run_nodes(part, values)
                for node in part.freed:
                    values.pop(node, None)
                modes.state.set(before)
        finally:
            modes.state.set(before)
        return map_arg(graph.output_node().args[0], lambda node: self.value(node, values))

    def run_nodes(self, part: Part, values: dict[Node, Any]) -> None:
        for node in part.nodes:
            args = map_arg(node.args, lambda used: self.value(used, values))
            kwargs = map_arg(node.kwargs, lambda used: self.value(used, values))
            if node.op == "call_method":
                values[node] = getattr(args[0], node.target)(*args[1:], **kwargs)
            elif node.op == "call_module":
                values[node] = attribute(self.module, node.target)(*args, **kwargs)
            else:
                values[node] = node.target(*args, **kwargs)

    def value(self, node: Node, values: dict[Node, Any]) -> Any:
        return attribute(self.module, node.target) if node.op == "get_attr" else values[node]


AnyPlan = CompiledPlan | Pieces | AsCaptured
