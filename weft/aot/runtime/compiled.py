"""The runtime: compiled graphs on real tensors, with their effects and one node of the tape.

Takes a captured graph module; gives a `CompiledFunction`. A call runs the forward graph without recording,
writes back what the graph has changed, rebuilds outputs that are inputs or views, and puts one node behind
the rest. One idea: wherever something is met that compiled code was not made for, the captured graph itself
runs, which is eager's own code.

# Note [Plans]
Captured graphs serve inputs of many shapes; compiled ones are made for one. A plan is kept per *key*: shapes,
strides, dtypes, what requires grad, numbers other than floats, and the grad mode. Floats are inputs of what
is compiled. Where tracing asks something of one (whether it is positive), the first plan takes it for a
constant, which makes the better program. Once it was another, plans serve all of which the answers are the
same; there may be several for one key. Numbers that are others in each call get no plan any more after a
while: see Note [Numbers that vary] in `weft.core.varying`.

# Note [Gradients that never came]
Eager does not run what no gradient reaches, and leaves `.grad` None there. A backward graph is made for the
set of outputs that get a gradient. The first time that another set is seen, gradients are computed by running
the captured graph again on the tape, and from then on forward runs keep what that set needs.

# Note [Any order]
With create_graph=True gradients must themselves have a history. They are computed by a function of inputs,
values of earlier stages and tangents, itself compiled: the joint graph as a captured graph. Where the tape
was bypassed (see `Facts.plain_histories`), the captured graph runs again on the tape.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import field
from typing import Any

import numpy as np

from weft.aot.boxed import of_list
from weft.aot.conditions import NONE as OF_ALL
from weft.aot.conditions import Conditions
from weft.aot.facts import Casts, Input, Value, ViewOf
from weft.aot.joint import JointGraph, Refused, trace
from weft.aot.partition import Cut, cut, derivative
from weft.aot.runtime.around import PLAIN_MODES, Around, around, entered, plainly
from weft.aot.runtime.counting import counters, note, refuse, strict
from weft.aot.runtime.effects import (
    Lent,
    all_writable,
    keep_apart,
    overlapping,
    own,
    rebuilt,
    separate,
    write_back,
)  # fmt: skip
from weft.aot.runtime.nodes import (
    CompiledCall,
    inputs_checked,
    inputs_copied,
    inputs_read,
    inputs_saved,
    new_node,
    watch,
)
from weft.aot.runtime.rerun import Rerun, cast_inputs, unchecked
from weft.aot.saved import INPUT, VALUE
from weft.aot.split import Part, natives_of, saves_copies, split
from weft.core import modes
from weft.core.device import device
from weft.core.dtypes import dtype
from weft.core.errors import is_no_derivative
from weft.core.generator import Drawn, Generator, noted
from weft.core.handlers import in_own_context, out_of_handlers
from weft.core.interrupts import let_through
from weft.core.naming import home
from weft.core.once import lock
from weft.core.recent import Recent
from weft.core.records import record
from weft.core.requirements import Committed
from weft.core.varying import Builds, told
from weft.graph.graph import Graph
from weft.graph.interpreter import attribute
from weft.graph.node import READ_FROM, Node, map_arg
from weft.tensor.base import PLAIN, Tensor, address, wrap
from weft.tensor.tape import INFERENCE, STALE
from weft.tensor.views import refresh
from weft.trace.module import GraphModule

Compiler = Callable[[GraphModule, list[Any]], Callable[..., Any]]
Exposed = tuple[frozenset[int], frozenset[int]]
"""Inputs and outputs, by number: see Note [Writes that no version tells of] in `weft.aot.split`."""
ndarray = np.ndarray
PLANS_LIMIT = 64
NONE: frozenset[int] = frozenset()
NO_NODES: frozenset[Node] = frozenset()
NO_PLAN = "a tensor of another class, without elements, or inside an object"
VALUES = (
    int, float, bool, complex, str, bytes, type(None), slice, range, enum.Enum, np.generic, dtype, device,
    Generator,
)  # fmt: skip
"""Kinds of arguments in which no tensor can be, which would be taken for a constant."""


def is_plain(value: object) -> bool:
    if isinstance(value, (tuple, list)):
        return not [each for each in value if not is_plain(each)]
    return isinstance(value, VALUES) or home(type(value)).startswith("weft.core")


def is_leaf_view(value: Any) -> bool:
    """Whether a tensor requires grad by itself, though it is a view."""
    return type(value) in PLAIN and value.origin is not None and value.tracked and value.node is None


@record(slots=True)
class Program:
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
    types: list[Any] | None = None
    """Those of the inputs, when first needed."""
    has_run: bool = False
    node_facts: dict[Any, Any] = field(default_factory=dict)
    """What nodes have in common, see `weft.aot.runtime.nodes.node_facts`."""
    derivatives: dict[int, CompiledFunction] = field(default_factory=dict)
    """A stage's gradients as a function of inputs and tangents, when first needed."""


class CompiledPlan:
    """How calls with one key run."""

    __slots__ = (
        "compiled", "module", "unchecked", "facts", "program", "programs", "whole", "read", "around", "casts",
        "last", "conditions", "fixed",
    )  # fmt: skip

    def __init__(
        self, compiled: CompiledFunction, joint: JointGraph, program: Program, modes_of: Around, casts: Casts
    ) -> None:
        self.compiled, self.module, self.facts, self.program = compiled, compiled.module, joint.facts, program
        self.unchecked = unchecked(self.module)
        self.programs = {program.absent: program}  # by the values that get no gradient
        self.whole = program  # with a gradient for each value
        self.read = program.read
        self.around, self.casts = modes_of, casts
        self.conditions, self.fixed = joint.conditions, compiled.fixed
        self.last: tuple[int, ...] = ()  # where the inputs of the last call lay, found to be apart

    def run(self, args: tuple[Any, ...]) -> Any:
        """One call: values first, then all effects that are observable outside."""
        facts, program = self.facts, self.program
        if facts.written:
            reason = self.unwritable(args)
            if reason is not None:
                refuse(reason)
                return self.module.forward(*args)
        if self.casts:
            args = (*args, *cast_inputs(args, self.casts))
        stages = program.joint.stages
        rerun = Rerun(self.unchecked, facts, program, args, self.around, self.casts) if stages else None
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

    def computed(self, program: Program, rerun: Rerun | None, lent: Lent) -> Any:
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
            rerun = Rerun(self.unchecked, facts, program, args, self.around, self.casts, drawn)
        call = CompiledCall(self.compiled, self, program, rerun)
        if stages:
            keep_apart(residuals, facts, args, values, program.cut.private)
            for stage in range(len(stages)):
                new_node(call, stage, args, values)
        try:
            write_back(facts, values, args, call.edges)
            own(facts, values, call.edges)
            outputs = rebuilt(facts.outputs, args, values)
            if stages:
                watch(call, residuals, args, values, outputs)
            return program.joint.build(outputs)
        except Exception as error:
            let_through(error)
            if not facts.written:
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
        places = tuple([address(value.array) for value in args if type(value) in PLAIN])
        if places != self.last:
            if overlapping(self.facts, args):
                return "an input that is written overlaps another"
            self.last = places
        return None


class AsCaptured:
    """Calls with this key run the captured graph."""

    __slots__ = ("module", "doubt", "conditions")

    def __init__(
        self, module: GraphModule, doubt: str | None = None, conditions: Conditions = OF_ALL
    ) -> None:
        self.module, self.conditions = module, conditions
        self.doubt = doubt  # what went wrong in compiling, unless running goes wrong too

    def run(self, args: tuple[Any, ...]) -> Any:
        result = self.module.forward(*args)
        if self.doubt is not None:
            strict(self.doubt)
        return result


class Pieces:
    """Calls with this key run compiled pieces, and nodes between them as they are: see `weft.aot.split`."""

    __slots__ = ("module", "parts", "functions")
    conditions = OF_ALL

    def __init__(self, module: GraphModule, parts: list[Part], functions: list[CompiledFunction | None]):
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
        return map_arg(graph.output_node.args[0], lambda node: self.value(node, values))

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


def layout_of(key: Any) -> Any:
    """All of a plan's key but its numbers."""
    modes_of, facts = key
    return modes_of, tuple([fact if type(fact) is tuple and len(fact) > 2 else None for fact in facts])


def exactly(value: Any) -> Any:
    """A key that only indistinguishable values share: zeros have signs, and NaN equals itself."""
    if isinstance(value, (float, complex, np.inexact)):
        return repr(value)
    return tuple([exactly(each) for each in value]) if isinstance(value, tuple) else value


def varying(graph: Graph, plans: list[tuple[Any, Conditions]]) -> str:
    """The warning for numbers whose changing values have made too many programs."""
    columns = zip(*[facts for facts, _ in plans], strict=True)
    numbers = {place for place, column in enumerate(columns) if len({*column} - {float}) > 1}
    if not numbers:
        numbers = {place for _, conditions in plans for place in conditions.places.values()}
    inputs = [graph.placeholders[place] for place in sorted(numbers)]
    places = [node.meta.get(READ_FROM, (node.name, "a graph")) for node in inputs]
    places = places or [("a number", "a graph")]  # of plans that are gone
    return told(places[0][1], dict.fromkeys([name for name, _ in places]))


class CompiledFunction:
    """A captured graph, compiled ahead of time."""

    def __init__(self, module: GraphModule, forward: Compiler, backward: Compiler, choose: Any) -> None:
        self.module = module
        self.compile_forward, self.compile_backward, self.choose = forward, backward, choose
        self.plans = Recent()  # lists of plans, by key
        self.last: tuple[Any, AnyPlan] | None = None  # a key and its plan
        self.splits: dict[Any, Pieces] = {}
        self.natives = natives_of(module.graph)
        self.saves_copies = any(saves_copies(node) for node in module.graph.nodes)
        self.fixed = NONE  # floats that are constants of plans, by number
        self.needed = NONE  # those that cannot be anything else
        self.opened = NONE  # those that were, until they changed
        self.lock = lock()  # of what makes plans: keys say which floats were constants
        self.exposed: Exposed = (NONE, NONE)
        self.builds = Builds()
        self.varied = AsCaptured(module)

    def __call__(self, *args: object) -> Any:
        self.builds.calls[0] += 1
        mode = modes.state.get()
        if self.saves_copies:
            refuse("hooks for saved tensors are switched on inside")
            return self.module.forward(*args)
        if self.natives:
            return self.pieces(self.natives, NO_NODES).run(args)
        modes_of: Any = PLAIN_MODES[mode] if type(mode) is bool else around(mode)
        if type(modes_of) is str:
            refuse(modes_of)
            return self.module.forward(*args)
        return self.plan_for(args, modes_of).run(args)

    # -- plans -----------------------------------------------------------------------------------------------
    def fact(self, value: Any, number: int) -> Any:
        """What a plan depends on in one argument; None where none can serve it."""
        kind = type(value)
        if kind in PLAIN:
            array, cell = value.array, value.cell
            if type(array) is not ndarray:
                return None
            if value.origin is not None and cell is not INFERENCE:
                refresh(value)
            facts = array.shape, array.strides, array.dtype, value.tracked, value.node is None
            return (*facts, cell is INFERENCE)
        if isinstance(value, Tensor) or not is_plain(value):
            return None
        if kind is float and number not in self.fixed:
            return float
        return Generator if isinstance(value, Generator) else (kind, exactly(value))

    def key(self, args: tuple[Any, ...], modes_of: Around) -> Any:
        """What a plan depends on; None for arguments that none can serve."""
        facts = tuple([self.fact(value, number) for number, value in enumerate(args)])
        return None if None in facts else (modes_of, facts)

    def holds(self, key: Any, args: tuple[Any, ...], modes_of: Around) -> bool:
        """Whether this is the arguments' key. One fact after another: all of them together would take more
        memory than the histories of eager tensors do."""
        known, facts = key
        if known != modes_of or len(facts) != len(args):
            return False
        for number, value in enumerate(args):  # noqa: SIM110 - a generator would change a StopIteration
            if self.fact(value, number) != facts[number]:
                return False
        return True

    def plan_for(self, args: tuple[Any, ...], modes_of: Around) -> AnyPlan:
        if self.natives:
            return self.pieces(self.natives, NO_NODES)
        try:
            last = self.last
            if last is not None and self.holds(last[0], args, modes_of) and last[1].conditions.hold(args):
                return last[1]
            key = self.key(args, modes_of)
            if key is None:
                return self.refused(NO_PLAN)
            known = next((plan for plan in self.plans.find(key) or () if plan.conditions.hold(args)), None)
        except TypeError as error:
            let_through(error)
            return self.refused("an argument that cannot be compared")
        except RuntimeError as error:
            let_through(error)
            return self.refused("a view that may not be read")
        if known is None:
            if not self.builds.wants((key, [value for value in args if type(value) is float])):
                return self.varied
            key, known = self.new_plan(args, modes_of)
        self.last = key, known
        return known

    def new_plan(self, args: tuple[Any, ...], modes_of: Around) -> tuple[Any, AnyPlan]:
        """A plan and its key; says so where it is the last for numbers that vary."""
        with self.lock:
            key = self.key(args, modes_of)
            for plan in self.plans.get(key, ()):  # of another thread
                if plan.conditions.hold(args):
                    return key, plan
            opened = self.open_changed(key)
            plan = self.make_plan(args, modes_of)
            key = self.key(args, modes_of)
            if sum(map(len, self.plans.values())) >= PLANS_LIMIT:
                self.plans.drop()
            self.plans.keep(key, [*self.plans.get(key, ()), plan])
            if type(plan) is CompiledPlan and not opened and self.builds.made(layout_of(key)):
                note("varying", varying(self.module.graph, self.alike(key)))
            return key, plan

    def open_changed(self, key: Any) -> bool:
        """Lets floats be inputs that are constants of other plans, and others now; whether there are any."""
        given, constant = key[1], self.fixed - self.needed
        changed = {
            place for facts, _ in self.alike(key) for place in constant if facts[place] != given[place]
        }
        self.fixed -= changed
        self.opened |= changed
        return bool(changed)

    def alike(self, key: object) -> list[tuple[Any, Conditions]]:
        """The facts and conditions of plans that differ from that of a key in nothing but numbers."""
        layout = layout_of(key)
        found = [(known[1], plans) for known, plans in self.plans.items() if layout_of(known) == layout]
        return [(facts, plan.conditions) for facts, plans in found for plan in plans]

    def refused(self, reason: str, doubt: str | None = None, conditions: Conditions = OF_ALL) -> AsCaptured:
        refuse(reason)
        return AsCaptured(self.module, doubt, conditions)

    def make_plan(self, args: tuple[Any, ...], modes_of: Around) -> AnyPlan:
        try:
            joint, casts = in_own_context(self.trace_floats, args, modes_of)
        except Refused as found:
            return self.without(found, args)
        if any(self.exposed) and self.saves_exposed(joint):
            return self.refused("a tensor that eager code saves is written through `.data` later")
        counters["plans"] += 1
        return CompiledPlan(self, joint, in_own_context(self.program, joint, args), modes_of, casts)

    def saves_exposed(self, joint: JointGraph) -> bool:
        """Whether eager would have saved a tensor that is written through `.data` later."""
        inputs, outputs = self.exposed
        places: set[tuple[str, int]] = {(INPUT, index) for index in inputs}
        for output in outputs:
            fact = joint.facts.outputs[output]
            base = fact.base if isinstance(fact, ViewOf) else fact
            if isinstance(base, (Input, Value)):
                places.add((INPUT if isinstance(base, Input) else VALUE, base.index))
        return any((saved.kind, saved.number) in places for stage in joint.stages for saved in stage.saved)

    def without(self, found: Refused, args: tuple[Any, ...]) -> Pieces | AsCaptured:
        """A plan that runs the refused node as captured, where it is a single node."""
        if found.error is not None:
            text = f"{type(found.error).__name__}: {found.error}"
            # What has no derivative, or was written after it was saved, has no gradient in eager either,
            # which says so when asked. Fakes are no views, so views of a leaf that is one are refused writes
            # that concern its base, which need not require grad.
            expected = is_no_derivative(found.error) or str(found.error).startswith(STALE)
            doubt = None if expected or any(map(is_leaf_view, args)) else text
            return self.refused(text, doubt, found.conditions)
        nodes = [node for node in self.module.graph.nodes if node.op.startswith("call_")]
        if found.node not in nodes or (found.ends and found.node is nodes[-1]):
            return self.refused(found.reason, conditions=found.conditions)
        note("natives", found.reason)
        one = frozenset({found.node})
        return self.pieces(NO_NODES, one) if found.ends else self.pieces(one, NO_NODES)

    def pieces(self, natives: frozenset[Node], ends: frozenset[Node]) -> Pieces:
        if (natives, ends) not in self.splits:
            graph = self.module.graph
            later: list[Any] = []
            if any(self.exposed):  # this is a piece itself, and gives a tuple of nodes
                later = [graph.placeholders[index] for index in self.exposed[0]]
                later += [graph.output_node.args[0][index] for index in self.exposed[1]]
            parts = split(self.module, natives, ends, later)
            functions = [self.piece(part) for part in parts]
            self.splits[natives, ends] = Pieces(self.module, parts, functions)
        return self.splits[natives, ends]

    def piece(self, part: Part) -> CompiledFunction | None:
        if part.module is None:
            return None
        made = self.like(part.module)
        inputs = frozenset([i for i, node in enumerate(part.inputs) if node in part.exposed])
        made.exposed = inputs, frozenset([i for i, node in enumerate(part.outputs) if node in part.exposed])
        return made

    def like(self, module: GraphModule) -> CompiledFunction:
        return CompiledFunction(module, self.compile_forward, self.compile_backward, self.choose)

    def trace(
        self,
        args: tuple[Any, ...],
        modes_of: Around,
        fixed: frozenset[int],
        absent: frozenset[int] = NONE,
        casts: Casts = (),
        order: list[int] | None = None,
    ) -> tuple[JointGraph, Casts]:
        """The joint graph, and the casts that it takes behind the inputs."""
        with entered(modes_of) as cache:
            joint = trace(
                self.module, args, absent=absent, fixed=fixed, casts=casts, cache=cache, order=order
            )
        if joint.casts and not casts and modes_of.keeps_casts:
            given = cast_inputs(args, joint.casts)
            return self.trace((*args, *given), modes_of, fixed, absent, joint.casts, order)
        return joint, casts

    def trace_floats(self, args: tuple[Any, ...], modes_of: Around) -> tuple[JointGraph, Casts]:
        """The same; the floats that something was asked of become constants, unless they have changed."""
        while True:
            joint, casts = self.trace(args, modes_of, self.fixed)
            found = joint.fixed | (joint.conditions.inputs - self.opened)
            if not found:
                return joint, casts
            self.fixed |= found
            self.needed |= joint.fixed & self.opened

    def program_for(self, plan: CompiledPlan, absent: frozenset[int], args: list[Any]) -> Program | None:
        """The program for gradients that never come for some values."""
        if absent not in plan.programs:
            for index, _, _ in plan.casts:  # leaves, as they were in the call: autocast keeps casts of these
                args[index] = wrap(args[index].array, True)
            order = plan.whole.joint.wanted
            try:
                joint, _ = in_own_context(
                    self.trace, tuple(args), plan.around, plan.fixed, absent, plan.casts, order
                )
            except Refused:
                return None
            if joint.fixed or not plan.conditions.cover(joint.conditions):  # for fewer floats than the plan
                return None
            made = in_own_context(self.program, joint, tuple(args))
            made.read |= plan.read  # gradients may come to other values after all
            made.copied |= plan.whole.copied
            made.saved |= plan.whole.saved
            plan.programs[absent] = made
        return plan.programs[absent]

    def program(self, joint: JointGraph, args: tuple[Any, ...]) -> Program:
        made = cut(joint, self.choose)
        made.forward.materialise(self.compile_forward)
        forward = of_list(self.compile_forward(made.forward, list(args)))
        backwards = []
        for stage, module, kept in zip(joint.stages, made.backwards, made.residuals, strict=True):
            module.materialise(self.compile_backward)
            examples = [node.meta["val"] for node in (*kept, *stage.tangents)]
            backwards.append(of_list(self.compile_backward(module, examples)))
        absent = [n for stage in joint.stages for n in stage.values if n not in stage.differentiated]
        read, checked = inputs_read(joint), inputs_checked(joint)
        copied, saved = inputs_copied(joint, made.residuals), inputs_saved(joint)
        return Program(joint, made, forward, backwards, read, copied, saved, checked, frozenset(absent))

    def derivative(self, program: Program, stage: int) -> CompiledFunction:
        if stage not in program.derivatives:
            program.derivatives[stage] = self.like(derivative(program.joint, program.joint.stages[stage]))
        return program.derivatives[stage]
