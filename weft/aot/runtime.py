"""The runtime: compiled graphs on real tensors, with their effects and one node of the tape.

Takes a captured graph module; gives a `CompiledFunction`. A call runs the forward graph without recording,
writes back what the graph has changed, rebuilds outputs that are inputs or views, and puts one node behind
the rest. One idea: wherever something is met that compiled code was not made for, the captured graph itself
runs, which is eager's own code.

# Note [Plans]
Captured graphs serve inputs of many shapes; compiled ones are made for one. A plan is kept per *key*: shapes,
strides, dtypes, what requires grad, numbers other than floats, and the grad mode.

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

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np

from weft.aot.facts import DATA, DETACH, Constant, Facts, Input, Number, Output, Step, Value, ViewOf
from weft.aot.joint import Joint, Stage, cut_tape, trace
from weft.aot.partition import Cut, cut, derivative
from weft.autograd import engine
from weft.autograd.nodes import GradientEdge
from weft.autograd.tasks import local
from weft.core import modes
from weft.core.dtypes import BY_NUMPY
from weft.core.generator import Generator, default_generator
from weft.core.trees import flatten
from weft.core.types import TensorType
from weft.ops.record import REGISTRY, quiet
from weft.ops.replay import replay
from weft.tensor.base import PLAIN, Tensor, address, storage_root, wrap
from weft.tensor.inplace import check_writable, set_history
from weft.tensor.tape import INFERENCE, Node, freed, gradient_edge, next_sequence, stale_words
from weft.tensor.views import refresh
from weft.trace.breaks import Break
from weft.trace.module import GraphModule

Compiler = Callable[[GraphModule, list[Any]], Callable[..., Any]]
ndarray = np.ndarray
PLANS_LIMIT = 64
NONE: frozenset[int] = frozenset()
counters: dict[str, int] = {"plans": 0, "fallbacks": 0, "reruns": 0}
"""How many plans were made, how many graphs run as captured, how many backwards ran them again."""
reasons: list[str] = []
"""Why graphs run as they were captured, last ones last."""


def refuse(reason: str) -> None:
    counters["fallbacks"] += 1
    reasons.append(reason)
    del reasons[:-100]


@dataclass(slots=True)
class Program:
    """A cut of a joint graph, compiled."""

    joint: Joint
    cut: Cut
    forward: Callable[..., Any]
    backwards: list[Callable[..., Any]]
    read: set[int]
    """The inputs on whose elements gradients depend."""
    absent: frozenset[int]
    """The values that require grad and get no gradient."""
    derivatives: dict[int, CompiledFunction] = field(default_factory=dict)
    """A stage's gradients as a function of inputs and tangents, when first needed."""


@dataclass(slots=True)
class Plan:
    """How calls with one key run."""

    module: GraphModule
    facts: Facts
    program: Program
    programs: dict[frozenset[int], Program] = field(default_factory=dict)
    """By the values that get no gradient."""


class CompiledFunction:
    """A captured graph, compiled ahead of time."""

    def __init__(self, module: GraphModule, forward: Compiler, backward: Compiler, choose: Any) -> None:
        self.module = module
        self.compile_forward, self.compile_backward, self.choose = forward, backward, choose
        self.plans: dict[Any, Plan | None] = {}
        self.fixed_floats = False

    def __call__(self, *args: Any) -> Any:
        mode = modes.state.get()
        if type(mode) is not bool:
            return self.module.forward(*args)
        plan = self.plan_for(args, mode)
        if plan is None:
            return self.module.forward(*args)
        return run(self, plan, args)

    # -- plans -----------------------------------------------------------------------------------------------
    def key(self, args: tuple[Any, ...], grad: bool) -> Any:
        """What a plan depends on; None for arguments that none can serve."""
        parts: list[Any] = [grad]
        for value in args:
            kind = type(value)
            if kind in PLAIN:
                array = value.array
                if type(array) is not ndarray or value.cell is INFERENCE:
                    return None
                if value.origin is not None:
                    refresh(value)
                parts.append((array.shape, array.strides, array.dtype, value.tracked, value.node is None))
            elif isinstance(value, Tensor):
                return None
            elif kind is float and not self.fixed_floats:
                parts.append(float)
            elif isinstance(value, Generator):
                parts.append(Generator)
            else:
                parts.append((kind, value))
        return tuple(parts)

    def plan_for(self, args: tuple[Any, ...], grad: bool) -> Plan | None:
        try:
            key = self.key(args, grad)
            known = self.plans.get(key, self) if key is not None else None
        except (TypeError, RuntimeError):  # an argument that cannot be hashed, or a view that may not be read
            return None
        if known is self:
            known = self.make_plan(args, grad)
            if len(self.plans) >= PLANS_LIMIT:
                self.plans.clear()
            self.plans[self.key(args, grad)] = known
        return known  # type: ignore[return-value]

    def make_plan(self, args: tuple[Any, ...], grad: bool) -> Plan | None:
        try:
            joint = self.trace(args, grad)
        except Break as found:
            refuse(str(found))
            return None
        except Exception as error:  # the captured graph will raise it at its own place
            refuse(f"{type(error).__name__}: {error}")
            return None
        plan = Plan(self.module, joint.facts, self.program(joint, args))
        plan.programs[plan.program.absent] = plan.program
        counters["plans"] += 1
        return plan

    def trace(self, args: tuple[Any, ...], grad: bool, absent: frozenset[int] = NONE) -> Joint:
        token = modes.enter(grad=grad)
        try:
            joint = trace(self.module, args, absent=absent, open_floats=not self.fixed_floats)
            if joint.fixed and not self.fixed_floats:
                self.fixed_floats = True
                joint = trace(self.module, args, absent=absent, open_floats=False)
        finally:
            modes.leave(token)
        return joint

    def program_for(self, plan: Plan, absent: frozenset[int], args: list[Any]) -> Program | None:
        """The program for gradients that never come for some values."""
        if absent not in plan.programs:
            try:
                joint = self.trace(tuple(args), True, absent)
            except (Break, Exception):
                return None
            plan.programs[absent] = self.program(joint, tuple(args))
        return plan.programs[absent]

    def program(self, joint: Joint, args: tuple[Any, ...]) -> Program:
        made = cut(joint, self.choose)
        forward = self.compile_forward(made.forward, list(args))
        backwards = []
        for stage, module, kept in zip(joint.stages, made.backwards, made.residuals, strict=True):
            examples = [node.meta["val"] for node in (*kept, *stage.tangents)]
            backwards.append(self.compile_backward(module, examples))
        absent = [n for stage in joint.stages for n in stage.values if n not in stage.differentiated]
        return Program(joint, made, forward, backwards, inputs_read(joint), frozenset(absent))

    def derivative(self, program: Program, stage: int) -> CompiledFunction:
        if stage not in program.derivatives:
            module = derivative(program.joint, program.joint.stages[stage])
            compilers = self.compile_forward, self.compile_backward
            program.derivatives[stage] = CompiledFunction(module, *compilers, self.choose)
        return program.derivatives[stage]


# -- running forward -----------------------------------------------------------------------------------------
def run(compiled: CompiledFunction, plan: Plan, args: tuple[Any, ...]) -> Any:
    """One call: values first, then everything that somebody outside can see."""
    facts, program = plan.facts, plan.program
    if facts.written and (overlapping(facts, args) or not all_writable(facts, args)):
        return plan.module.forward(*args)
    stages = program.joint.stages
    rerun = Rerun(plan.module, facts, program, args) if stages else None
    token = modes.enter(grad=False)
    try:
        results = program.forward(*args)
    finally:
        modes.leave(token)
    count = len(facts.values)
    values, residuals = list(results[:count]), list(results[count:])
    separate(values, facts, args)
    call = Call(compiled, plan, program, rerun)
    if stages:
        keep_apart(residuals, facts, args)
        for stage in range(len(stages)):
            new_node(call, stage, args, values)
    write_back(facts, values, args, call.edges)
    own(facts, values, call.edges)
    if stages:
        watch(call, residuals, args, values)
    outputs = [rebuilt(output, args, values) for output in facts.outputs]
    return program.joint.build(outputs)


def span(array: Any) -> tuple[int, int]:
    """The first and the last byte that an array reaches, by strides."""
    low = high = address(array)
    if not array.size:
        return low, low
    for size, stride in zip(array.shape, array.strides, strict=True):
        if stride < 0:
            low += (size - 1) * stride
        else:
            high += (size - 1) * stride
    return low, high + array.itemsize


def overlapping(facts: Facts, args: tuple[Any, ...]) -> bool:
    """Whether an input that is written may share memory with another one."""
    spans = [(i, span(value.array)) for i, value in enumerate(args) if type(value) in PLAIN]
    for written in facts.written:
        low, high = span(args[written.input].array)
        for index, (start, stop) in spans:
            if index != written.input and start < high and low < stop:
                return True
    return False


def all_writable(facts: Facts, args: tuple[Any, ...]) -> bool:
    """Whether eager would let all inputs be written; if not, it is left to say so."""
    for written in facts.written:
        target = args[written.input]
        if not target.array.flags.writeable:
            return False
        try:
            check_writable(target, written.history, written.history)
        except RuntimeError:
            return False
    return True


def separate(values: list[Any], facts: Facts, args: tuple[Any, ...]) -> None:
    """Gives each value memory of its own, in the order that eager's would have."""
    owners = {id(storage_root(value.array)) for value in args if type(value) in PLAIN}
    for number, made in enumerate(facts.values):
        value = values[number]
        if not isinstance(value, Tensor):
            continue
        array = value.array
        owner = id(storage_root(array))
        if owner in owners or not array.flags.writeable:
            array = array.copy()
            owner = id(array)
        if made.strides is not None and array.strides != made.strides:
            array = in_layout(array, made.strides)
            owner = id(array)
        owners.add(owner)
        values[number] = wrap(array)


def in_layout(array: Any, strides: tuple[int, ...]) -> Any:
    """A copy with these strides, where they are those of some order of the dimensions."""
    order = sorted(range(array.ndim), key=lambda d: (-strides[d], d))
    made = np.empty([array.shape[d] for d in order], array.dtype)
    made = made.transpose(np.argsort(order)) if order else made
    made[...] = array
    return made


def write_back(facts: Facts, values: list[Any], args: tuple[Any, ...], edges: Edges) -> None:
    """Puts new elements into the inputs, and new histories behind them."""
    for written in facts.written:
        target = args[written.input]
        quiet(np.copyto, target.array, values[written.value].array, casting="unsafe")
        cell = target.shared_cell()
        if cell is not INFERENCE:
            cell[0] += written.times
        if written.history and written.value in edges:
            set_history(target, *edges[written.value])


def own(facts: Facts, values: list[Any], edges: Edges) -> None:
    """Makes the values tensors of the user's, with their history."""
    for number, made in enumerate(facts.values):
        value = values[number]
        if isinstance(value, Tensor):
            if made.version:
                value.cell = [made.version]
            if number in edges:
                value.node, value.index = edges[number]
                value.tracked = True


def rebuilt(output: Output, args: tuple[Any, ...], values: list[Any]) -> Any:
    """What stands for an output."""
    if isinstance(output, (Value, Number)):
        return values[output.index]
    if isinstance(output, Input):
        return args[output.index]
    if isinstance(output, Constant):
        return output.value
    tensor = args[output.base.index] if isinstance(output.base, Input) else values[output.base.index]
    for step in output.steps:
        tensor = stepped(tensor, step)
    if output.version:
        tensor.cell = [output.version]
    if output.stale and tensor.origin is not None:
        tensor.origin.seen = -1
    return tensor


def stepped(tensor: Tensor, step: Step) -> Any:
    token = modes.enter(grad=step.grad)
    try:
        if step.op == DETACH:
            return tensor.detach()
        if step.op == DATA:
            return tensor.data
        return replay(tensor, ((step.op, step.rest, step.position),))
    finally:
        modes.leave(token)


# -- running again -------------------------------------------------------------------------------------------
class Rerun:
    """What it takes to run the captured graph again as it ran: inputs as they were, and random numbers."""

    __slots__ = ("module", "facts", "wanted", "numbers", "arrays", "types", "edges", "cells", "offsets")

    def __init__(self, module: GraphModule, facts: Facts, program: Program, args: tuple[Any, ...]) -> None:
        self.module, self.facts, self.wanted = module, facts, program.joint.wanted
        written = {w.input for w in facts.written}
        count = len(args)
        self.numbers: list[Any] = [None] * count  # inputs that are no tensors
        self.types: list[Any] = [None] * count  # shape, dtype and strides of those that are
        self.arrays: list[Any] = [None] * count  # None where elements do not matter
        self.edges: list[Any] = [(None, 0)] * count
        self.cells: list[Any] = [None] * count
        for index, value in enumerate(args):
            if type(value) not in PLAIN:
                self.numbers[index] = value
                continue
            array = value.array
            self.types[index] = array.shape, array.dtype, array.strides
            self.edges[index] = gradient_edge(value)
            if index in program.read:
                self.arrays[index] = array.copy() if index in written else array
                if index not in written:
                    self.cells[index] = (value.shared_cell(), value.shared_cell()[0])
        drawn = [value for value in args if isinstance(value, Generator)] if facts.draws else []
        self.offsets = [(g, g.get_offset()) for g in (default_generator, *drawn)] if facts.draws else []

    def check(self) -> None:
        """Raises where an input whose elements are needed was written since."""
        for array, cell in zip(self.arrays, self.cells, strict=True):
            if cell is not None and cell[0][0] != cell[1]:
                words = words_of(array.dtype, array.shape)
                raise RuntimeError(stale_words(words, "", cell[0][0], cell[1]))

    def array(self, index: int) -> Any:
        if self.arrays[index] is not None:
            return self.arrays[index]
        shape, kind, strides = self.types[index]
        made = np.zeros(shape, kind)
        return made if made.strides == strides else in_layout(made, strides)

    def inputs(self, apart: bool) -> list[Any]:
        """The inputs as they were. `apart`: those that need a gradient as tensors of their own."""
        found: list[Any] = []
        for index, type_ in enumerate(self.types):
            if type_ is None:
                found.append(self.numbers[index])
            elif index in self.wanted:
                found.append(behind(self.edges[index], self.array(index), apart))
                if not apart and self.cells[index] is not None:
                    found[-1].cell = self.cells[index][0]
            else:
                found.append(wrap(self.array(index)))
        return found

    @contextmanager
    def drawing(self) -> Iterator[None]:
        """Random numbers as they were drawn."""
        now = [(generator, generator.get_offset()) for generator, _ in self.offsets]
        try:
            for generator, offset in self.offsets:
                generator.set_offset(offset)
            yield
        finally:
            for generator, offset in now:
                generator.set_offset(offset)

    def gradients(
        self, stage: Stage, lower: list[tuple[Any, int]], grad: Sequence[Any], graph: bool
    ) -> list[Any]:
        """The gradients of a stage's values, by running the captured graph on the tape."""
        counters["reruns"] += 1
        token = modes.enter(grad=True)
        try:
            given = self.inputs(apart=True)
            edges = [(given[index].node, 0) for index in self.wanted]
            with self.drawing():
                outputs, _ = flatten(self.module.forward(*given))
            values = self.values(outputs, given)
            stops: dict[tuple[Any, int], Any] = {}
            for number, edge in zip(stage.lower, lower, strict=True):
                stop = behind(edge, values[number].array, True)
                stop.node._seq = values[
                    number
                ].node._seq  # the sweep comes to it when it would have come there
                stops[values[number].node, values[number].index] = stop.node
                edges.append((stop.node, 0))
            pairs = [(values[n], g) for n, g in zip(stage.values, grad, strict=True) if g is not None]
            if not pairs or not edges:
                return [None] * len(edges)
            cut_tape([value.node for value, _ in pairs], stops)
            starts, tangents = zip(*pairs, strict=True)
            wanted = [GradientEdge(node, slot) for node, slot in edges]
            return list(engine.grad(starts, wanted, tangents, create_graph=graph, allow_unused=True))
        finally:
            modes.leave(token)

    def values(self, outputs: list[Any], given: list[Any]) -> dict[int, Any]:
        """The values, as far as they can be reached from the outputs."""
        values: dict[int, Any] = {w.value: given[w.input] for w in self.facts.written}
        for fact, output in zip(self.facts.outputs, outputs, strict=True):
            if isinstance(fact, Value):
                values[fact.index] = output
            elif isinstance(fact, ViewOf) and isinstance(fact.base, Value) and output.origin is not None:
                if all(step.moves for step in fact.steps):
                    values.setdefault(fact.base.index, output.origin.base)
        return values


def words_of(kind: Any, shape: tuple[int, ...]) -> str:
    """`weft.FloatTensor [2, 3]`."""
    return f"weft.{BY_NUMPY[kind].scalar_name}Tensor {list(shape)}"


def behind(target: tuple[Any, int], array: Any, apart: bool) -> Tensor:
    """A tensor with these elements, whose gradient goes to the target; perhaps with a node of its own."""
    edge, slot = target
    if isinstance(edge, Tensor):
        source, apart = edge, apart or edge.array is not array
    else:
        source = wrap(array, True)
        source.node, source.index = edge, slot
    if not apart:
        return source
    alias: Tensor = REGISTRY["alias"](source)
    alias.array, alias.origin, alias.cell = array, None, None
    return alias


# -- the nodes -----------------------------------------------------------------------------------------------
Edges = dict[int, tuple[Any, int]]


class Call:
    """One call: what its nodes share."""

    __slots__ = ("compiled", "plan", "program", "rerun", "edges", "nodes")

    def __init__(self, compiled: CompiledFunction, plan: Plan, program: Program, rerun: Rerun | None) -> None:
        self.compiled, self.plan, self.program, self.rerun = compiled, plan, program, rerun
        self.edges: Edges = {}  # where the gradients of the values go, by number
        self.nodes: list[CompiledFunctionBackward] = []


class CompiledFunctionBackward(Node):
    """Behind the outputs of one stage of a compiled graph."""

    __slots__ = ("outputs", "call", "stage", "rerun", "lower", "watched")
    outputs: Any
    call: Any
    stage: int
    rerun: Rerun | None
    lower: list[tuple[Any, int]]
    """Where the gradients of values of earlier stages go."""
    watched: list[tuple[Any, int, tuple[Any, Any], int | None]]
    """Version cells of tensors outside that share memory with what was saved, and what they were."""

    def raw_backward(self, grad: Any) -> Any:
        rerun = self.check()
        stage = self.call.program.joint.stages[self.stage]
        tangents: list[Any] = [None if value is None else wrap(value) for value in grad]
        if all((value is not None) == there for value, there in zip(grad, stage.mask, strict=True)):
            given = [*self.saved, *[t for t in tangents if t is not None]]
            given.reverse()
            tangents = []
            if local.task is not None and not local.task.retain:
                self.saved = None  # what backward has read, it may free
            results = handing_over(len(given))(self.call.program.backwards[self.stage], given)
        else:
            rerun.check()
            results = rerun.gradients(stage, self.lower, tangents, False)
            plan = self.call.plan
            expected = self.call.compiled.program_for(plan, self.absent(grad), rerun.inputs(apart=True))
            plan.program = expected or plan.program
        return [None if value is None else value.array for value in results]

    def graph_backward(self, grad: Any) -> Any:
        """See Note [Any order]."""
        rerun = self.check()
        rerun.check()
        compiled, program = self.call.compiled, None
        if self.call.plan.facts.plain_histories:
            program = compiled.program_for(self.call.plan, self.absent(grad), rerun.inputs(apart=True))
        if program is None:
            stage = self.call.program.joint.stages[self.stage]
            return rerun.gradients(stage, self.lower, grad, True)
        function = compiled.derivative(program, self.stage)
        given = [*rerun.inputs(apart=False), *self.lower_values(program, rerun)]
        with rerun.drawing():
            return list(function(*given, *[g for g in grad if g is not None]))

    def lower_values(self, program: Program, rerun: Rerun) -> list[Any]:
        """The values of earlier stages, computed again, before the edges that are theirs."""
        if not self.lower:
            return []
        token = modes.enter(grad=False)
        try:
            with rerun.drawing():
                values = program.forward(*rerun.inputs(apart=True))
        finally:
            modes.leave(token)
        lower = program.joint.stages[self.stage].lower
        return [
            behind(edge, values[number].array, False) for number, edge in zip(lower, self.lower, strict=True)
        ]

    def absent(self, grad: Any) -> frozenset[int]:
        """The values without a gradient, given which of this stage's have one."""
        values = self.call.program.joint.stages[self.stage].values
        missing = {number for number, value in zip(values, grad, strict=True) if value is None}
        return frozenset((self.call.program.absent - set(values)) | missing)

    def check(self) -> Rerun:
        if self.saved is None or self.rerun is None:
            freed()
        for cell, seen, kind, index in self.watched:
            if cell[0] != seen:
                origin = "" if index is None else f", which is output {index} of CompiledFunction,"
                raise RuntimeError(stale_words(words_of(*kind), origin, cell[0], seen))
        assert self.rerun is not None
        return self.rerun

    def release(self) -> None:
        self.saved = self.rerun = None
        self.watched = []


@cache
def handing_over(count: int) -> Callable[..., Any]:
    """A function `call(f, values)` that takes the values from the end of a list and calls f with them, so
    that nobody but f holds them: a call `f(*values)` would hold them until it returns.
    """
    space: dict[str, Any] = {}
    exec(f"def call(f, values):\n    return f({', '.join(['values.pop()'] * count)})", space)
    function: Callable[..., Any] = space["call"]
    return function


def inputs_read(joint: Joint) -> set[int]:
    """The inputs on whose elements gradients depend."""
    seen: set[Any] = set()
    stack = [node for stage in joint.stages for node in stage.gradients if node is not None]
    while stack:
        node = stack.pop()
        if node not in seen:
            seen.add(node)
            stack += node.all_input_nodes
    return {index for index, node in enumerate(joint.inputs) if node in seen}


def new_node(call: Call, number: int, args: tuple[Any, ...], values: list[Any]) -> None:
    """The node of one stage: edges to the inputs that require grad, and to values of earlier stages."""
    joint = call.program.joint
    stage = joint.stages[number]
    node = CompiledFunctionBackward.__new__(CompiledFunctionBackward)
    node._seq = next_sequence()
    node.call, node.stage, node.rerun = call, number, call.rerun
    node.lower = [call.edges[lower] for lower in stage.lower]
    edges = [gradient_edge(args[index]) for index in joint.wanted] + node.lower
    node.next = tuple([target for target, _ in edges])
    node.slots = tuple([slot for _, slot in edges])
    node.params = ()
    node.hooks = node.versions = None
    behind_edges = [args[index] for index in joint.wanted] + [values[lower] for lower in stage.lower]
    node.types = tuple([fact for t in behind_edges for fact in (t.array.shape, t.array.dtype)])
    arrays = [values[value].array for value in stage.values]
    node.outputs = tuple([TensorType(array.shape, BY_NUMPY[array.dtype]) for array in arrays])
    for slot, value in enumerate(stage.values):
        call.edges[value] = (node, slot)
    call.nodes.append(node)


def keep_apart(residuals: list[Any], facts: Facts, args: tuple[Any, ...]) -> None:
    """Residuals that lie in memory about to be written are copied."""
    written = {id(storage_root(args[w.input].array)) for w in facts.written}
    for position, value in enumerate(residuals):
        if written and isinstance(value, Tensor) and id(storage_root(value.array)) in written:
            residuals[position] = wrap(value.array.copy())


def watch(call: Call, residuals: list[Any], args: tuple[Any, ...], values: list[Any]) -> None:
    """Gives the nodes what they keep, and notes the versions of tensors outside in whose memory it lies."""
    owners: dict[int, Any] = {}
    for value in (*args, *values):
        if type(value) in PLAIN:
            owners[id(storage_root(value.array))] = value
    for node, places in zip(call.nodes, call.program.cut.places, strict=True):
        node.saved = tuple([residuals[place] for place in places])
        node.watched = []
        for value in node.saved:
            owner = owners.get(id(storage_root(value.array))) if isinstance(value, Tensor) else None
            if owner is not None:
                cell = owner.shared_cell()
                index = owner.index if isinstance(owner.node, CompiledFunctionBackward) else None
                node.watched.append((cell, cell[0], (value.array.dtype, value.array.shape), index))
    call.nodes = []  # which hold the call
