"""Nodes of the tape behind what compiled graphs give.

Takes a call and its residuals; gives one node per stage, whose backward runs the backward graph. One idea:
what the node cannot answer with compiled code, the captured graph answers on the tape.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from numpy import ndarray

from weft.aot.joint import JointGraph, Stage
from weft.aot.partition import base_of, reached, small, to_copy
from weft.aot.runtime.around import plainly
from weft.aot.runtime.effects import Edges
from weft.aot.runtime.quick import NONE
from weft.aot.runtime.rerun import Rerun, behind, types_of, words_of
from weft.aot.saved import INPUT, OUTPUT, VALUE, Saved
from weft.autograd.tasks import local
from weft.core import modes
from weft.core.dtypes import BY_NUMPY
from weft.core.symbolic import Symbolic
from weft.core.types import TensorType
from weft.graph.effects import can_fail, effect
from weft.tensor.base import PLAIN, wrap
from weft.tensor.meta import contiguous_strides
from weft.tensor.tape import Node, freed, next_sequence, stale_words


class Watched(NamedTuple):
    """A tensor outside that eager code would have saved, in all calls of a native entry."""

    is_input: bool
    number: int
    """Of the input, or of the output."""
    words: tuple[Any, Any]
    """Its dtype and shape, of which sizes may be open."""
    output: int | None
    """Which output of its node it is; of inputs, that is found with their edges."""
    saved: Saved


class CompiledCall:
    """One call: what its nodes share. Calls of a native entry have one in common."""

    __slots__ = ("compiled", "plan", "program", "rerun", "edges", "nodes", "watching", "drawn", "quick")

    def __init__(self, compiled: Any, plan: Any, program: Any, rerun: Rerun | None) -> None:
        self.compiled, self.plan, self.program, self.rerun = compiled, plan, program, rerun
        self.edges: Edges = {}  # where the gradients of the values go, by number
        self.nodes: list[CompiledFunctionBackward] = []
        self.watching: list[list[Watched]] = []  # by stage, in calls of native entries
        self.drawn: Any = None  # of such a call: random numbers, as a function of its seeds
        self.quick: list[Any] = []  # by stage: how backward runs natively, see `weft.aot.runtime.quick`


class OpenCalls:
    """What nodes of a native entry for all sizes of a template share."""

    __slots__ = ("template", "program", "symbols", "types", "axes", "watching", "drawn", "quick", "made")

    def __init__(self, plan: Any, symbols: list[Any]) -> None:
        """`plan`: that of a call which was served."""
        self.template, self.program, self.symbols = plan.template, plan.program, symbols
        self.types, self.axes = plan.types, plan.compiled.sizes.axes
        self.watching: list[list[Watched]] = []
        self.drawn: Any = None
        self.quick: list[Any] = []
        self.made: dict[tuple[int, ...], CompiledCall] = {}

    def at(self, sizes: tuple[int, ...]) -> CompiledCall:
        """The calls of these sizes."""
        found = self.made.get(sizes)
        if found is None:
            values = dict(zip(self.symbols, sizes, strict=True))
            plan = self.template.plan_at(values, self.program)
            plan.types = [self.type_at(number, values) for number in range(len(self.types))]
            found = CompiledCall(self.template.compiled, plan, self.program, None)
            found.watching, found.drawn = self.watching, self.drawn
            for first in [*self.made][: max(0, len(self.made) - MOST_SIZES + 1)]:
                self.made.pop(first, None)  # unless another thread has
            self.made[sizes] = found
        return found

    def shape_at(self, shape: tuple[Any, ...], sizes: tuple[int, ...]) -> tuple[int, ...]:
        """A shape of the template at these sizes."""
        values = dict(zip(self.symbols, sizes, strict=True))
        return tuple(
            [each.expression.evaluate(values) if isinstance(each, Symbolic) else each for each in shape]
        )

    def type_at(self, number: int, values: dict[Any, int]) -> Any:
        """Shape, dtype and strides of an input; those with open sizes lie row by row."""
        known, axes = self.types[number], self.axes.get(number)
        if known is None or not axes:
            return known
        shape, kind, _ = known
        sizes = tuple(
            [axes[n].expression.evaluate(values) if n in axes else each for n, each in enumerate(shape)]
        )
        return sizes, kind, contiguous_bytes(sizes, kind.itemsize)


MOST_SIZES = 64


def contiguous_bytes(shape: tuple[int, ...], itemsize: int) -> tuple[int, ...]:
    return tuple([each * itemsize for each in contiguous_strides(shape)])


class CompiledFunctionBackward(Node):
    """Behind the outputs of one stage of a compiled graph."""

    __slots__ = (
        "outputs", "made_by", "sizes", "stage", "rerun", "lower", "watched", "freed", "running",
    )  # fmt: skip
    outputs: Any
    made_by: Any
    """A `CompiledCall`, or `OpenCalls` of which `sizes` say which."""
    sizes: tuple[int, ...] | None
    stage: int
    rerun: Any
    """What it takes to run again: a `Rerun`, what native entries keep for one, or None when it is freed."""
    lower: Sequence[tuple[Any, int]]
    """Where the gradients of values of earlier stages go."""
    watched: Any
    """Version cells of tensors outside that eager code would have saved, and what they were: see `watching`.
    Native entries keep cells and numbers in turn."""
    freed: int
    """The parts of eager's tape that were freed, a bit for each in `Stage.parts`."""
    running: int | None
    """Those that the present sweep visits, and will free; None where it did not ask."""

    @property
    def call(self) -> CompiledCall:
        made_by = self.made_by
        found: CompiledCall = made_by if self.sizes is None else made_by.at(self.sizes)
        return found

    @property
    def hooks_without_gradient(self) -> bool:  # type: ignore[override]
        """Each of the outputs has a node of its own where nothing is compiled: of several, it is not known
        which of them a sweep visits."""
        return len(self.outputs) == 1

    def edges_from(self, slot: int) -> tuple[Any, ...]:
        if len(self.outputs) == 1:
            return self.next
        there = edges_reached(self.call.plan.whole.joint.stages[self.stage], slot)
        return tuple([target if reached else None for target, reached in zip(self.next, there, strict=True)])

    def alone(self, tensor: Any, retain: bool) -> bool:
        quick = self.made_by.quick
        return bool(quick) and quick[self.stage].alone(self, tensor, retain)

    def raw_backward(self, grad: Any) -> Any:
        if self.made_by.quick:
            found = self.made_by.quick[self.stage].run(self, grad)
            if found is not NONE:
                return found
        if self.is_passed_by(grad):
            self.running = 0
            return [None] * len(self.next)
        stage = self.call.program.joint.stages[self.stage]
        residuals = residuals_of(self.saved)  # looked at once: another thread may free it
        as_planned = residuals is not None and all(
            (v is not None) == there for v, there in zip(grad, stage.mask, strict=True)
        )
        rerun = self.check(grad, as_planned)
        tangents: list[Any] = [None if value is None else wrap(value) for value in grad]
        if as_planned:
            given = [*residuals, *[t for t in tangents if t is not None]]
            tangents = residuals = []
            backward = self.call.program.backwards[self.stage]
            if local.task is not None and not local.task.retain:
                del rerun
                self.release()  # what backward has read, it may free, and nobody will run anything again
                self.running = 0
            results = plainly(backward, given)
        else:
            rerun = self.as_rerun(rerun)
            rerun.check(self.needed(grad, rerun))
            results = rerun.gradients(stage, self.lower, tangents, False)
            plan = self.call.plan
            expected = self.call.compiled.program_for(plan, self.absent(grad), rerun.inputs(apart=True))
            plan.program = expected or plan.program
        return [None if value is None else value.array for value in results]

    def graph_backward(self, grad: Any) -> Any:
        """See Note [Any order]."""
        if self.is_passed_by(grad):
            self.running = 0
            return [None] * len(self.next)
        rerun = self.as_rerun(self.check(grad))
        compiled, program = self.call.compiled, None
        if self.call.plan.facts.plain_histories and type(modes.state.get()) is bool:
            program = compiled.program_for(self.call.plan, self.absent(grad), rerun.inputs(apart=True))
        if program is None:
            rerun.check(self.needed(grad, rerun))
            stage = self.call.program.joint.stages[self.stage]
            return rerun.gradients(stage, self.lower, grad, True)
        function = compiled.derivative(program, self.stage)
        rerun.check(None if rerun.casts else inputs_of_stage(program.joint, self.stage))
        given = [*rerun.inputs(apart=False), *self.known_values(program, rerun)]
        with rerun.drawing():
            return list(function(*given, *[g for g in grad if g is not None]))

    def known_values(self, program: Any, rerun: Rerun) -> list[Any]:
        """The values of earlier stages and this one's own, computed again, before edges that are theirs."""
        stage = program.joint.stages[self.stage]
        if not stage.lower and not stage.own:
            return []
        with rerun.drawing():
            values = plainly(program.forward, rerun.inputs(apart=True))
        own = [(self, stage.values.index(number)) for number in stage.own]
        pairs = zip([*stage.lower, *stage.own], [*self.lower, *own], strict=True)
        return [behind(edge, values[number].array, False) for number, edge in pairs]

    def needed(self, grad: Any, rerun: Rerun) -> set[int] | None:
        """The inputs on whose elements the gradients depend that come of these; None for all."""
        if rerun.casts:
            return None
        joint = self.call.plan.whole.joint
        slots = [slot for slot, value in enumerate(grad) if value is not None]
        return inputs_of_values(joint, joint.stages[self.stage], slots)

    def absent(self, grad: Any) -> frozenset[int]:
        """The values without a gradient, given which of this stage's have one."""
        values = self.call.program.joint.stages[self.stage].values
        missing = {number for number, value in zip(values, grad, strict=True) if value is None}
        return frozenset((self.call.program.absent - set(values)) | missing)

    def asked(self) -> list[int] | None:
        """The edges whose gradients this run asks for; None where it asks for all."""
        task = local.task
        if task is None or task.needed is None:
            return None
        captures = task.captures or ()
        return [j for j, n in enumerate(self.next) if n is not None and (n in task.needed or n in captures)]

    def parts_run(self, grad: Any) -> int:
        """The parts of eager's tape that this sweep visits: all where it has no gradient for them."""
        parts = self.call.plan.whole.joint.stages[self.stage].parts
        given = [slot for slot, value in enumerate(grad) if value is not None]
        asked = self.asked()
        if not given or asked is None and len(given) == len(grad):
            return (1 << len(parts)) - 1
        come = sum([1 << slot for slot in given])
        wanted = None if asked is None else sum([1 << position for position in asked])
        found = 0
        for number, (gradients, values) in enumerate(parts):
            if values & come and (wanted is None or gradients & wanted):
                found |= 1 << number
        return found

    def is_passed_by(self, grad: Any) -> bool:
        """Whether what this node needs was freed, and eager's sweep would visit none of the nodes that it
        stands for: nothing that is asked for depends on an output with a gradient."""
        asked = self.asked() if self.saved is None or self.rerun is None else None
        if asked is None:
            return False
        stage = self.call.plan.whole.joint.stages[self.stage]
        come_by = [edges_reached(stage, slot) for slot, value in enumerate(grad) if value is not None]
        return not any(there[j] for there in come_by for j in asked)

    def as_rerun(self, kept: Any) -> Rerun:
        """What `rerun` stands for."""
        return Rerun.of_parts(self.call, kept) if type(kept) is tuple else kept

    def watching(self) -> list[tuple[Any, int, tuple[Any, Any], int | None, Saved]]:
        """Version cells of tensors outside that eager code would have saved, and what they were."""
        watched, rerun = self.watched, self.rerun  # in this order: they are freed in the other
        if type(watched) is list:
            return watched
        found = []
        for cell, count, each in zip(watched[::2], watched[1::2], self.call.watching[self.stage]):
            index = each.output
            if cell[0] != count and each.is_input and rerun is not None:
                target, slot = self.as_rerun(rerun).edges[each.number]
                index = slot if isinstance(target, CompiledFunctionBackward) else None
            words = each.words
            if cell[0] != count and self.sizes is not None:
                words = words[0], self.made_by.shape_at(words[1], self.sizes)
            found.append((cell, count, words, index, each.saved))
        return found

    def check(self, grad: Any, compiled: bool = False) -> Any:
        """Raises where eager would: what it needs was freed, or written since; gives `rerun`. `compiled`:
        whether the backward graph will run, which reads nothing but residuals."""
        watched, rerun = self.watching(), self.rerun  # in this order: they are freed in the other
        if rerun is None:
            freed()
        parts = self.parts_run(grad)
        if parts & self.freed:
            freed()
        for cell, seen, kind, index, saved in watched:
            if cell[0] == seen or not any(
                g is not None and saved.values >> j & 1 for j, g in enumerate(grad)
            ):
                continue  # nothing was written, or eager would not come by the nodes that saved it
            if not self.does_without(saved, compiled):
                origin = "" if index is None else f", which is output {index} of CompiledFunction,"
                raise RuntimeError(stale_words(words_of(*kind), origin, cell[0], seen))
        self.running = parts if local.task is not None and not local.task.retain else None
        return rerun

    def does_without(self, saved: Saved, compiled: bool) -> bool:
        """Whether this run asks only for gradients that neither eager's nodes nor compiled code compute from
        what was saved here. What runs the graph again looks at the inputs that it takes by itself."""
        asked = self.asked()
        if asked is None or saved.kind == OUTPUT:
            return False
        if any(saved.gradients >> j & 1 for j in asked):
            return False
        if not compiled:
            return True
        program = self.call.program
        joint, residuals = program.joint, program.cut.residuals[self.stage]
        numbers = [saved.number] if saved.kind == VALUE else []
        numbers += [w.value for w in joint.facts.written if (INPUT, w.input) == saved[:2]]
        nodes = {joint.values[number] for number in numbers}
        if saved.kind == INPUT:
            nodes.add(joint.inputs[saved.number])
        gradients = [joint.stages[self.stage].gradients[j] for j in asked]
        read = reached([node for node in gradients if node is not None], set(residuals))
        pairs = zip(residuals, program.cut.places[self.stage], strict=True)
        lent = [node for node, place in pairs if place not in program.cut.private]
        return not any(node in read and base_of(node) in nodes for node in lent)

    def release(self) -> None:
        """Drops what the parts that a sweep visited have saved. Where others are left, that is computed again
        from the inputs, should gradients come there."""
        stage = self.call.plan.whole.joint.stages[self.stage]
        running, self.running = self.running, None
        if not stage.spent or running == 0:
            return
        self.saved = None
        every = (1 << len(stage.parts)) - 1
        self.freed |= every if running is None else running
        if self.freed == every:
            self.rerun = None
            self.watched = []


def residuals_of(saved: Any) -> Any:
    """What a node has saved, as tensors and numbers; native entries keep arrays."""
    return saved and [wrap(each) if isinstance(each, ndarray) else each for each in saved]


def edges_reached(stage: Stage, slot: int) -> list[bool]:
    """For each gradient of a stage, whether it depends on that of one of its values."""
    seen = computed_from([tangent_of(stage, slot)])
    return [gradient in seen for gradient in stage.gradients]


def tangent_of(stage: Stage, slot: int) -> Any:
    return stage.tangents[stage.differentiated.index(stage.values[slot])]


def computed_from(nodes: list[Any]) -> set[Any]:
    """These nodes, and all that use them."""
    seen: set[Any] = set()
    stack = list(nodes)
    while stack:
        node = stack.pop()
        if node not in seen:
            seen.add(node)
            stack += node.users
    return seen


def inputs_read(joint: JointGraph) -> set[int]:
    """The inputs on whose elements gradients depend."""
    return _inputs_behind(joint, [n for stage in joint.stages for n in stage.gradients if n is not None])


def inputs_of_stage(joint: JointGraph, number: int) -> set[int]:
    """The inputs on whose elements the gradients of one stage depend, and the values that it knows of."""
    stage = joint.stages[number]
    known = [joint.values[value] for value in (*stage.lower, *stage.own)]
    return _inputs_behind(joint, [*known, *[node for node in stage.gradients if node is not None]])


def inputs_of_values(joint: JointGraph, stage: Stage, slots: list[int]) -> set[int]:
    """The inputs on whose elements a stage's gradients depend where these of its values alone have one."""
    every, some = computed_from(stage.tangents), computed_from([tangent_of(stage, slot) for slot in slots])
    others = [used for node in some for used in node.all_input_nodes if used not in every]
    return _inputs_behind(joint, others)


def inputs_copied(joint: JointGraph, residuals: list[list[Any]]) -> set[int]:
    """The inputs on whose elements gradients depend though eager code would not have saved them (or not for
    these gradients, or those of some values), so that users may write to them: who computes gradients again
    needs them as they were, see Note [Copies] in `weft.aot.partition`.
    """
    found: set[int] = set()
    for stage, kept in zip(joint.stages, residuals, strict=True):
        bases = {base_of(node) for node in to_copy(joint, stage, kept)}
        found |= {index for index, node in enumerate(joint.inputs) if node in bases}
        saved = {place.number: place.values for place in stage.saved if place.kind == INPUT}
        found |= _inputs_behind(joint, [n for n in stage.gradients if n is not None]) - saved.keys()
        for slot in [slot for slot, there in enumerate(stage.mask) if there]:
            without = {index for index, values in saved.items() if not values >> slot & 1} - found
            if without:
                found |= without & inputs_of_values(joint, stage, [slot])
    numbers = {joint.inputs[index]: index for index in sorted(found)}
    return {numbers[node] for node in small(numbers, {node for nodes in residuals for node in nodes})}


def inputs_saved(joint: JointGraph) -> set[int]:
    """The inputs that eager code would have saved for some gradient."""
    return {place.number for stage in joint.stages for place in stage.saved if place.kind == INPUT}


def inputs_checked(joint: JointGraph) -> set[int]:
    """The inputs on whose elements it depends whether the graph fails; checks are not run again."""
    return _inputs_behind(joint, [n for n in joint.forward if can_fail(n) and not effect(n).checks])


def _inputs_behind(joint: JointGraph, stack: list[Any]) -> set[int]:
    seen: set[Any] = set()
    while stack:
        node = stack.pop()
        if node not in seen:
            seen.add(node)
            stack += node.all_input_nodes
    return {index for index, node in enumerate(joint.inputs) if node in seen}


class NodeFacts(NamedTuple):
    """What the nodes of one stage have in common in all calls of a program."""

    wanted: list[tuple[int, bool]]
    """The inputs that have edges, and whether a gradient goes there."""
    lower: list[bool]
    """The same for values of earlier stages."""
    types: tuple[Any, ...]
    outputs: tuple[TensorType, ...]


def node_facts(call: CompiledCall, number: int, args: tuple[Any, ...], values: list[Any]) -> NodeFacts:
    """Made in the first call, and anew when it is known for more gradients where they go."""
    joint = call.program.joint
    stage = joint.stages[number]
    whole = call.plan.programs.get(frozenset(), call.program)
    known: dict[Any, NodeFacts] = call.plan.node_facts
    key = number, id(call.program), id(whole)
    if key not in known:
        ways = call.plan.whole.joint.stages[number].gradients, whole.joint.stages[number].gradients
        there = [None not in both for both in zip(*ways, strict=True)]
        count = len(joint.wanted)
        behind_edges = [types_of(call.plan, args)[index][:2] for index in joint.wanted]
        behind_edges += [(values[lower].array.shape, values[lower].array.dtype) for lower in stage.lower]
        arrays = [values[value].array for value in stage.values]
        known[key] = NodeFacts(
            list(zip(joint.wanted, there[:count], strict=True)),
            there[count:],
            tuple([fact for type_ in behind_edges for fact in type_]),
            tuple([TensorType(array.shape, BY_NUMPY[array.dtype]) for array in arrays]),
        )
    return known[key]


NOWHERE = (None, 0)


def new_node(call: CompiledCall, number: int, args: tuple[Any, ...], values: list[Any]) -> None:
    """The node of one stage: edges to the inputs that require grad, and to values of earlier stages."""
    stage = call.program.joint.stages[number]
    facts = node_facts(call, number, args, values)
    node = CompiledFunctionBackward.__new__(CompiledFunctionBackward)
    node._seq = next_sequence()
    assert call.rerun is not None
    node.made_by, node.sizes = call, None
    node.stage, node.rerun = number, call.rerun
    node.lower = [call.edges[lower] for lower in stage.lower]
    ends = call.rerun.edges
    edges = [ends[index] if there else NOWHERE for index, there in facts.wanted]
    edges += [edge if there else NOWHERE for edge, there in zip(node.lower, facts.lower, strict=True)]
    node.next = tuple([target for target, _ in edges])
    node.slots = tuple([slot for _, slot in edges])
    node.params = ()
    node.hooks = node.versions = node.running = None
    node.freed = 0
    node.types, node.outputs = facts.types, facts.outputs
    for slot, value in enumerate(stage.values):
        call.edges[value] = (node, slot)
    call.nodes.append(node)


def watch(
    call: CompiledCall, residuals: list[Any], args: tuple[Any, ...], values: list[Any], outputs: list[Any]
) -> None:
    """Gives the nodes what they keep, and notes the versions of the tensors outside that eager code would
    have saved."""
    made = call.program.cut
    held = list(values)
    for written in call.plan.facts.written:
        held[written.value] = args[written.input]  # which has the new elements
    known = {INPUT: args, OUTPUT: outputs}
    given = set(map(id, args))
    for place, value in enumerate(residuals):
        if id(value) in given and type(value) in PLAIN:
            residuals[place] = wrap(value.array)  # which the tensor may leave: `x.data = ...`
    for node, places in zip(call.nodes, made.places, strict=True):
        node.saved = tuple([residuals[place] for place in places])
        node.watched = []
        for saved in call.plan.whole.joint.stages[node.stage].saved:  # gradients may come to any value
            owner = known.get(saved.kind, held)[saved.number]
            cell = owner.shared_cell() if type(owner) in PLAIN else None
            if type(cell) is list:
                index = owner.index if isinstance(owner.node, CompiledFunctionBackward) else None
                node.watched.append((cell, cell[0], (owner.array.dtype, owner.array.shape), index, saved))
    call.nodes, call.edges, call.rerun = [], {}, None  # nodes hold the call
