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
With create_graph=True gradients must themselves have a history. They are computed by a function of inputs and
tangents, itself compiled: the joint graph as a captured graph. Where the tape was bypassed (see
`Facts.plain_histories`), the captured graph runs again on the tape.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from weft.aot.facts import DATA, DETACH, Constant, Facts, Input, Number, Output, Step, Value, ViewOf
from weft.aot.joint import Joint, trace
from weft.aot.partition import Cut, cut, derivative
from weft.autograd import engine
from weft.autograd.nodes import GradientEdge
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
    backward: Callable[..., Any] | None
    read: set[int]
    """The inputs on whose elements gradients depend."""
    derivative: CompiledFunction | None = None
    """Gradients as a function of inputs and tangents, when first needed."""


@dataclass(slots=True)
class Plan:
    """How calls with one key run."""

    module: GraphModule
    facts: Facts
    program: Program
    programs: dict[tuple[bool, ...], Program] = field(default_factory=dict)
    """By which of the values that require grad get a gradient."""


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
        return run(self, plan, args, mode)

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
                if grad and value.origin is not None:
                    refresh(value)
                tracked = grad and value.tracked
                parts.append((array.shape, array.strides, array.dtype, tracked, value.node is None))
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
        except TypeError:  # an argument that cannot be hashed
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
        plan.programs[mask_of(plan.program)] = plan.program
        counters["plans"] += 1
        return plan

    def trace(self, args: tuple[Any, ...], grad: bool, mask: tuple[bool, ...] | None = None) -> Joint:
        token = modes.enter(grad=grad)
        try:
            joint = trace(self.module, args, mask=mask, gradients=grad, open_floats=not self.fixed_floats)
            if joint.fixed and not self.fixed_floats:
                self.fixed_floats = True
                joint = trace(self.module, args, mask=mask, gradients=grad, open_floats=False)
        finally:
            modes.leave(token)
        return joint

    def program_for(self, plan: Plan, mask: tuple[bool, ...], args: list[Any]) -> Program | None:
        """The program for gradients that come for these values only."""
        if mask not in plan.programs:
            try:
                joint = self.trace(tuple(args), True, mask)
            except (Break, Exception):
                return None
            plan.programs[mask] = self.program(joint, tuple(args))
        return plan.programs[mask]

    def program(self, joint: Joint, args: tuple[Any, ...]) -> Program:
        made = cut(joint, self.choose)
        forward = self.compile_forward(made.forward, list(args))
        backward = None
        if made.backward is not None:
            examples = [node.meta["val"] for node in (*made.residuals, *joint.tangents)]
            backward = self.compile_backward(made.backward, examples)
        return Program(joint, made, forward, backward, inputs_read(joint))

    def derivative(self, program: Program) -> CompiledFunction:
        if program.derivative is None:
            module = derivative(program.joint)
            program.derivative = CompiledFunction(
                module, self.compile_forward, self.compile_backward, self.choose
            )
        return program.derivative


# -- running forward -----------------------------------------------------------------------------------------
def run(compiled: CompiledFunction, plan: Plan, args: tuple[Any, ...], grad: bool) -> Any:
    """One call: values first, then everything that somebody outside can see."""
    facts, program = plan.facts, plan.program
    if facts.written and (overlapping(facts, args) or not all_writable(facts, args, grad)):
        return plan.module.forward(*args)
    recorded = grad and program.backward is not None
    rerun = Rerun(plan.module, facts, program, args) if recorded else None
    token = modes.enter(grad=False)
    try:
        results = program.forward(*args)
    finally:
        modes.leave(token)
    count = len(facts.values)
    values, residuals = list(results[:count]), list(results[count:])
    separate(values, facts, args)
    node = None
    if recorded:
        node = new_node(compiled, plan, program, args)
        node.rerun = rerun
        keep_residuals(node, residuals, facts, args)
    write_back(facts, values, args, node)
    fresh = own(facts, values, node)
    if node is not None:
        watch(node, residuals, args, fresh)
    outputs = [rebuilt(output, args, fresh, values) for output in facts.outputs]
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


def all_writable(facts: Facts, args: tuple[Any, ...], grad: bool) -> bool:
    """Whether eager would let all inputs be written; if not, it is left to say so."""
    for written in facts.written:
        target = args[written.input]
        if not target.array.flags.writeable:
            return False
        try:
            check_writable(target, grad and written.history, written.history)
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


def write_back(facts: Facts, values: list[Any], args: tuple[Any, ...], node: Any) -> None:
    """Puts new elements into the inputs, and new histories behind them."""
    for written in facts.written:
        target = args[written.input]
        quiet(np.copyto, target.array, values[written.value].array, casting="unsafe")
        cell = target.shared_cell()
        if cell is not INFERENCE:
            cell[0] += written.times
        if written.history and node is not None:
            set_history(target, node, node.positions[written.value])
            if target.origin is None:
                target.tracked = True


def own(facts: Facts, values: list[Any], node: Any) -> list[Any]:
    """The values as tensors of the user's, with their history."""
    for number, made in enumerate(facts.values):
        value = values[number]
        if not isinstance(value, Tensor):
            continue
        if made.version:
            value.cell = [made.version]
        if made.requires_grad and node is not None:
            value.node, value.index, value.tracked = node, node.positions[number], True
    return values


def rebuilt(output: Output, args: tuple[Any, ...], fresh: list[Any], values: list[Any]) -> Any:
    """What stands for an output."""
    if isinstance(output, Value):
        return fresh[output.index]
    if isinstance(output, Input):
        return args[output.index]
    if isinstance(output, Constant):
        return output.value
    if isinstance(output, Number):
        return values[output.index]
    tensor = args[output.base.index] if isinstance(output.base, Input) else fresh[output.base.index]
    for step in output.steps:
        tensor = stepped(tensor, step)
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
                raise RuntimeError(stale_words(words_of(array), "", cell[0][0], cell[1]))

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

    def gradients(self, grad: Sequence[Any], graph: bool) -> list[Any]:
        """The gradients of the inputs that need one, by running the captured graph on the tape."""
        counters["reruns"] += 1
        token = modes.enter(grad=True)
        try:
            given = self.inputs(apart=True)
            edges = [GradientEdge(given[index].node, 0) for index in self.wanted]
            with self.drawing():
                outputs, _ = flatten(self.module.forward(*given))
            pairs = self.pairs(outputs, given, grad)
            if not pairs:
                return [None] * len(self.wanted)
            values, tangents = zip(*pairs, strict=True)
            return list(engine.grad(values, edges, tangents, create_graph=graph, allow_unused=True))
        finally:
            modes.leave(token)

    def pairs(self, outputs: list[Any], given: list[Any], grad: Sequence[Any]) -> list[tuple[Any, Any]]:
        """The values that have a gradient, with it."""
        values: dict[int, Any] = {w.value: given[w.input] for w in self.facts.written}
        for fact, output in zip(self.facts.outputs, outputs, strict=True):
            if isinstance(fact, Value):
                values[fact.index] = output
            elif isinstance(fact, ViewOf) and isinstance(fact.base, Value) and output.origin is not None:
                if all(step.moves for step in fact.steps):
                    values.setdefault(fact.base.index, output.origin.base)
        floating = [number for number, made in enumerate(self.facts.values) if made.requires_grad]
        return [(values[n], g) for n, g in zip(floating, grad, strict=True) if g is not None]


def words_of(array: Any) -> str:
    """`weft.FloatTensor [2, 3]`."""
    return f"weft.{BY_NUMPY[array.dtype].scalar_name}Tensor {list(array.shape)}"


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


# -- the node ------------------------------------------------------------------------------------------------
class CompiledFunctionBackward(Node):
    """Behind the outputs of a compiled graph."""

    __slots__ = ("outputs", "compiled", "plan", "program", "rerun", "positions", "watched")
    outputs: Any
    compiled: CompiledFunction
    plan: Plan
    program: Program
    rerun: Any
    positions: dict[int, int]
    """Output numbers by the numbers of values."""
    watched: list[tuple[Any, int, Any, int | None]]
    """Version cells of tensors outside that share memory with what was saved, and what they were."""

    def raw_backward(self, grad: Any) -> Any:
        self.check()
        mask = tuple([value is not None for value in grad])
        tangents = [None if value is None else wrap(value) for value in grad]
        if mask == mask_of(self.program) and self.program.backward is not None:
            results = self.program.backward(*self.saved, *[t for t in tangents if t is not None])
        else:
            self.rerun.check()
            results = self.rerun.gradients(tangents, False)
            expected = self.compiled.program_for(self.plan, mask, self.rerun.inputs(apart=True))
            self.plan.program = expected or self.plan.program
        return [None if value is None else value.array for value in results]

    def graph_backward(self, grad: Any) -> Any:
        """See Note [Any order]."""
        self.check()
        self.rerun.check()
        mask = tuple([value is not None for value in grad])
        program = None
        if self.plan.facts.plain_histories:
            program = self.compiled.program_for(self.plan, mask, self.rerun.inputs(apart=True))
        if program is None:
            return self.rerun.gradients(grad, True)
        function = self.compiled.derivative(program)
        with self.rerun.drawing():
            return list(function(*self.rerun.inputs(apart=False), *[g for g in grad if g is not None]))

    def check(self) -> None:
        if self.saved is None:
            freed()
        for cell, seen, array, index in self.watched:
            if cell[0] != seen:
                origin = "" if index is None else f", which is output {index} of CompiledFunction,"
                raise RuntimeError(stale_words(words_of(array), origin, cell[0], seen))

    def release(self) -> None:
        self.saved = self.rerun = None


def inputs_read(joint: Joint) -> set[int]:
    """The inputs on whose elements gradients depend."""
    seen: set[Any] = set()
    stack = [node for node in joint.gradients if node is not None]
    while stack:
        node = stack.pop()
        if node not in seen:
            seen.add(node)
            stack += node.all_input_nodes
    return {index for index, node in enumerate(joint.inputs) if node in seen}


def mask_of(program: Program) -> tuple[bool, ...]:
    floating = [i for i, made in enumerate(program.joint.facts.values) if made.requires_grad]
    return tuple([number in program.joint.differentiated for number in floating])


def new_node(
    compiled: CompiledFunction, plan: Plan, program: Program, args: tuple[Any, ...]
) -> CompiledFunctionBackward:
    """The node of one call: edges to the inputs that require grad."""
    node = CompiledFunctionBackward.__new__(CompiledFunctionBackward)
    node._seq = next_sequence()
    node.compiled, node.plan, node.program = compiled, plan, program
    edges = [gradient_edge(args[index]) for index in program.joint.wanted]
    node.next = tuple(target for target, _ in edges)
    node.slots = tuple(slot for _, slot in edges)
    node.params = ()
    node.hooks = node.versions = None
    types: list[Any] = []
    for index in program.joint.wanted:
        types += [args[index].array.shape, args[index].array.dtype]
    node.types = tuple(types)
    nodes = [program.joint.values[n].meta["val"] for n, m in enumerate(plan.facts.values) if m.requires_grad]
    node.outputs = tuple(TensorType(v.array.shape, BY_NUMPY[v.array.dtype], v.device) for v in nodes)
    floating = [n for n, made in enumerate(plan.facts.values) if made.requires_grad]
    node.positions = {number: position for position, number in enumerate(floating)}
    return node


def keep_residuals(node: Any, residuals: list[Any], facts: Facts, args: tuple[Any, ...]) -> None:
    """Residuals that lie in memory about to be written are copied."""
    written = {id(storage_root(args[w.input].array)) for w in facts.written}
    if written:
        for position, value in enumerate(residuals):
            if isinstance(value, Tensor) and id(storage_root(value.array)) in written:
                residuals[position] = wrap(value.array.copy())
    node.saved = tuple(residuals)


def watch(node: Any, residuals: list[Any], args: tuple[Any, ...], fresh: list[Any]) -> None:
    """Notes the versions of the tensors outside in whose memory residuals lie."""
    cells: dict[int, Any] = {}
    for value in (*args, *fresh):
        if type(value) in PLAIN:
            cells[id(storage_root(value.array))] = value
    node.watched = []
    for value in residuals:
        owner = cells.get(id(storage_root(value.array))) if isinstance(value, Tensor) else None
        if owner is not None:
            cell = owner.shared_cell()
            node.watched.append((cell, cell[0], value.array, owner.index if owner.node is node else None))
