"""The joint graph: what a captured graph computes, and the gradients of it, in one graph of pure ops.

Takes a graph module and the inputs of a call; runs it on fakes with the tape on, then the tape backwards, and
gives a `JointGraph`. One idea: gradients are computed by the code that eager runs, recorded as all else is.

# Note [Stages]
    def f(x):
        y = x.sin()               stage 0: y        its node's edges lead to x
        return y, y * 2, y + 1    stage 1: y * 2 and y + 1; their node's edges lead to x and to y
Users may ask for the gradient of one output with respect to another, or hook it. So the tape is cut at a
value that others are computed from: their gradient goes to that value, not through it, and each stage has a
node of its own. So have values whose histories have nothing in common that a backward would free: eager lets
each of them be differentiated once, one after the other.

# Note [Casts that are kept]
Under `with autocast(): y = compiled(x); z = other(x)` the cast of a parameter is made once, and gradients are
summed in the low precision behind it. So such casts are inputs of the graph, taken from autocast's own cache.
"""

from __future__ import annotations

import sys
import warnings
import weakref
from contextlib import AbstractContextManager
from dataclasses import field
from types import BuiltinFunctionType
from typing import TYPE_CHECKING, Any

import numpy as np

from weft.aot.conditions import NONE, Conditions, Place, all_noted, noted
from weft.aot.facts import DATA, Casts, Constant, Facts, Input, Made, Number, Output, Value, ViewOf, Written
from weft.aot.functional import FunctionalRecorder, Root
from weft.aot.pure import Pure, pure
from weft.aot.saved import INPUT, OUTPUT, VALUE, Saved, Ways, parts_freed, saves, tensors_saved, ways_through
from weft.aot.sizes import Opened
from weft.aot.split import switches
from weft.core import modes
from weft.core.expressions import Symbol
from weft.core.interrupts import let_through
from weft.core.origins import PACKAGE
from weft.core.records import record
from weft.core.symbolic import Symbolic
from weft.core.trees import flatten
from weft.core.warn import heard
from weft.graph.effects import ACCUMULATES, effect
from weft.graph.graph import Graph
from weft.graph.interpreter import run
from weft.graph.node import READ_FROM, SYMBOL, Node
from weft.ops.record import Op
from weft.ops.sweep import sweep
from weft.trace.breaks import Break
from weft.trace.fake import bare, fake_input, is_tensor, leaf_on
from weft.trace.recorder import version
from weft.trace.scalars import Scalars, plain

if TYPE_CHECKING:
    from collections.abc import Callable

    from weft.trace.module import GraphModule


GROUPS_LIMIT = 16  # each node has edges to all inputs


@record(slots=True)
class Stage:
    """The gradients of some values: see Note [Stages]."""

    values: list[int]
    """The values of this stage, by number."""
    differentiated: list[int]
    """Those that get a tangent."""
    lower: list[int]
    """Values of earlier stages that these are computed from."""
    tangents: list[Node] = field(default_factory=list)
    """One for each in `differentiated`."""
    gradients: list[Any] = field(default_factory=list)
    """One for each input in `wanted`, then one for each of `lower`: a node, or None where none arrives."""
    spent: bool = True
    """Whether eager's backward would free anything, so that a second one raises."""
    own: list[int] = field(default_factory=list)
    """Values of this stage that its gradients are computed from (as that of exp from its result), once its
    derivative is made: gradients of gradients go to them, too."""
    saved: list[Saved] = field(default_factory=list)
    """The tensors outside that eager would have saved for these gradients."""
    parts: list[tuple[int, int]] = field(default_factory=list)
    """What eager's backward would free: see `parts_freed`."""

    @property
    def mask(self) -> tuple[bool, ...]:
        return tuple([number in self.differentiated for number in self.values])


@record(slots=True)
class JointGraph:
    """A joint graph. It takes the inputs and the tangents, and gives values and gradients."""

    graph: Graph
    facts: Facts
    inputs: list[Node]
    wanted: list[int]
    """The inputs that require grad, by number."""
    values: list[Any]
    stages: list[Stage] = field(default_factory=list)
    forward: set[Node] = field(default_factory=set)
    """The nodes that the captured graph made."""
    constants: dict[str, Any] = field(default_factory=dict)
    build: Any = None
    """Builds what the captured graph returns from the outputs in `facts`."""
    fixed: frozenset[int] = frozenset()
    """The floats among the inputs whose very values were relied upon, by number."""
    conditions: Conditions = NONE
    """What was relied upon of the others."""
    casts: Casts = ()
    """The casts of inputs that the autocast around the call keeps."""
    scalars: Scalars | None = None
    """The owner of symbolic numbers in it."""
    places: dict[Symbol, Place] = field(default_factory=dict)
    """Where values of symbols stand among the inputs."""

    def relied(self) -> Conditions:
        """All that is relied upon of what is open, now that the graph is compiled; it notes nothing more."""
        if self.scalars is None:
            return self.conditions
        self.scalars.close()
        known = [one for one in self.scalars.static if self.places.get(one) in self.fixed]
        return all_noted(self.scalars, self.places, known)


class Refused(Exception):
    """The graph, or one node of it, cannot be differentiated ahead of time."""

    def __init__(
        self,
        reason: str,
        node: Node | None = None,
        ends: bool = False,
        error: Exception | None = None,
        conditions: Conditions = NONE,
    ) -> None:
        super().__init__(reason)
        self.reason, self.node = reason, node
        self.ends = ends  # whether it would do that a piece ends behind the node
        self.error = error  # what the program itself raises, or a defect of ours
        self.conditions = conditions  # for which floats among the inputs it is so


class _Tracing:
    """One run of a captured graph on fakes."""

    def __init__(
        self, inputs: tuple[Any, ...], fixed: frozenset[int], casts: Casts, opened: Opened | None
    ) -> None:
        self.current: Node | None = None  # the captured node that runs now
        self.ends = False
        self.graph = Graph()
        self.recorder = FunctionalRecorder(self.graph, self.on_input)
        self.recorder.where = self.where
        self.opened, self.casts = opened, casts
        self.scalars = self.recorder.scalars = Scalars() if opened is None else opened.scalars
        self.constants: dict[str, Any] = {}
        self.roots: dict[int, Root] = {}
        self.nodes: list[Node] = []
        self.symbols: dict[Symbol, Place] = {}  # of floats and sizes, and which inputs they are
        if opened is not None:
            self.symbols.update(opened.places)
        self.first_cast = len(inputs) - len(casts)
        self.given = [self.input(i, value, i in fixed) for i, value in enumerate(inputs)]
        self.versions = {index: version(root.tensor) for index, root in self.roots.items()}
        self.histories = {index: root.tensor.node for index, root in self.roots.items()}
        self.tracked = {index: root.tensor.tracked for index, root in self.roots.items()}
        self.numbers: dict[int, int] = {}
        self.values: list[Any] = []
        self.rows: set[int] = set()  # roots that lie row by row, wherever they are given out
        self.views: list[Any] = []  # outputs that are views, with their captured nodes
        self.cells: dict[int, tuple[str, int]] = {}  # version cells of tensors that others have, by id
        self.visible: set[int] = set()  # roots whose history can be reached from outside
        self.leaves: dict[int, Any] = {}  # where the tape is cut, by the number of the value
        self.facts = Facts()
        self.makers: dict[int, Node] = {}  # the captured nodes that gave tensors first, by id
        self.owners: dict[Any, Node] = {}  # the captured nodes that nodes of the tape come from
        self.inner: dict[Any, Node] = {}  # leaves that captured nodes made, and these

    def input(self, index: int, value: Any, fixed: bool) -> Any:
        """The placeholder of an input, and what stands for it."""
        node = self.graph.placeholder(f"primals_{index + 1}")
        self.nodes.append(node)
        if is_tensor(value):
            fake = fake_input(value, self.lies(index, value))
            node.meta["val"] = fake
            self.roots[index] = self.recorder.new_root(fake, node, index)
            self.recorder.note_array(fake)
            return fake
        if self.opened is not None and index in self.opened.numbers:
            value = self.opened.numbers[index]
            node.meta["val"] = value
            if isinstance(value, Symbolic):
                self.recorder.bind(value, node)
            return value
        node.meta["val"] = value
        if type(value) is float and not fixed:
            value = self.scalars.symbol_float(node.name, value)
            self.symbols[value.expression.args[0]] = index
            node.meta[SYMBOL] = value.expression.args[0]
            self.recorder.bind(value, node)
        elif type(value) not in (int, float, bool, str, type(None), complex):
            self.recorder.bind(value, node)
        return value

    def lies(self, index: int, value: Any) -> Any:
        """Shape and strides of an input, where they are not its own."""
        if self.opened is None:
            return None
        if index < self.first_cast:
            return self.opened.shapes.get(index)
        return self.opened.like(value.array, self.casts[index - self.first_cast][0])

    def on_input(self, value: object) -> Node:
        """A tensor, or an array, that is no input and that no call made."""
        if not isinstance(value, np.ndarray) and not isinstance(getattr(value, "array", None), np.ndarray):
            raise Break("unsupported", "a value that no recorded call made")
        name = f"_tensor_constant{len(self.constants)}"
        self.constants[name] = value
        node = self.graph.get_attr(name)
        node.meta["val"] = value
        return node

    # -- outputs ---------------------------------------------------------------------------------------------
    def value_of(self, root: Root) -> int:
        """The number of a root among the values."""
        if id(root) not in self.numbers:
            self.numbers[id(root)] = len(self.values)
            self.values.append(root)
            array = root.tensor.array
            known = (array.exact and root.writes) or id(root) in self.rows
            strides = array.strides if known else None
            inference = type(root.tensor.cell) not in (list, type(None))
            made = Made(bool(root.tensor.tracked), strides, version(root.tensor), inference)
            self.facts.values.append(made)
        return self.numbers[id(root)]

    def output(self, value: Any) -> Output:
        if not is_tensor(value):
            known = isinstance(value, Symbolic)
            node = self.recorder.node(value) if known else self.recorder.argument(value)
            if not isinstance(node, Node):
                if hasattr(type(value), "save_for_backward"):
                    raise Break("unsupported", "the context of a custom Function as output")
                return Constant(plain(value))
            self.values.append(node)
            self.facts.values.append(Made(False))
            return Number(len(self.values) - 1)
        if not self.recorder.knows_tensor(value):
            raise Break("unsupported", "an output that no recorded call made")
        place = self.recorder.place(value)
        root = place.root
        if value.requires_grad and value.node is None and (root.input is None or place.parent is not None):
            self.refuse_leaf(value)
        if root.source is not None:
            raise Break("unsupported", "an output that may or may not be a view")
        if root.unversioned:
            raise Break("unsupported", "an output that may or may not be a tensor that was written")
        base: Input | Value
        base = Value(self.value_of(root)) if root.input is None else Input(root.input)
        if all(step.moves for step in place.steps):
            self.visible.add(id(root))
        if place.parent is None:
            return base
        if value.requires_grad and any(not step.moves for step in place.steps):
            raise Break("unsupported", "a detached tensor that was written with a history")
        own = any(step.op == DATA for step in place.steps)
        view = value.origin
        stale = view is not None and view.seen != version(value)
        old = place.born < root.writes
        later = self.recorder.written[place.made_at :]
        behind = frozenset([each.input for each in later if each.input is not None])
        own_version = version(value) if own else None
        return ViewOf(base, place.steps, own_version, stale, old, place.identities, behind)

    def refuse_leaf(self, leaf: Any) -> None:
        """A leaf that somebody else could give a gradient has to be made by its own node."""
        self.current = self.inner.get(leaf, self.current)
        raise Break("unsupported", "a leaf that requires grad and is made inside")

    def where(self) -> Any:
        """The user's line behind what is being recorded; gradients stand where what they belong to stands."""
        node = self.owners.get(self.recorder.running()) or self.current
        return None if node is None else node.meta.get("source")

    def note_made(self, tensors: list[Any], node: Node) -> None:
        """A captured node gave these tensors, and put new nodes on the tape."""
        if node.target == "requires_grad_":
            self.inner.update({each: node for each in tensors if each.tracked and each.node is None})
        stack = []
        for tensor in tensors:
            self.makers.setdefault(id(tensor), node)
            stack.append(tensor.node)
        while stack:
            last = stack.pop()
            if hasattr(last, "next") and last not in self.owners:
                self.owners[last] = node
                stack += last.next

    def note_rows(self, node: Node, tensor: Any) -> None:
        """A captured node was `contiguous`. Where strides are not known, no node stands for it."""
        array = tensor.array
        if not node.kwargs and not array.exact and array.shape and all(n > 1 for n in array.shape):
            place = self.recorder.place(tensor)
            if place.parent is None and place.root.input is None:
                self.rows.add(id(place.root))

    def node_of_value(self, numbers: list[int]) -> Node | None:
        """The captured node behind the first of these values."""
        return next((self.makers.get(id(self.values[number].tensor)) for number in numbers), None)

    def note_cells(self, outputs: list[Any]) -> None:
        """Notes whose version cells are whose."""
        named = [(INPUT, index, root.tensor) for index, root in self.roots.items()]
        named += [(VALUE, n, root.tensor) for n, root in enumerate(self.values) if isinstance(root, Root)]
        named += [(OUTPUT, n, leaf) for n, leaf in enumerate(outputs) if is_tensor(leaf)]
        for kind, number, tensor in named:
            if type(tensor.cell) is list:
                self.cells.setdefault(id(tensor.cell), (kind, number))

    def finish(self, result: Any) -> Any:
        """Notes what was written and what is given out."""
        leaves, build = flatten(result)
        for index, root in self.roots.items():
            times = version(root.tensor) - self.versions[index]
            if root.writes or times:
                moved = root.tensor.node is not self.histories[index]
                number = self.value_of(root)
                self.facts.values[number].requires_grad = moved
                self.facts.written.append(Written(index, number, times, moved))
                self.visible.add(id(root))
        self.facts.outputs = []
        for leaf in leaves:
            self.current = self.makers.get(id(leaf))
            self.facts.outputs.append(self.output(leaf))
            if isinstance(self.facts.outputs[-1], ViewOf):
                self.views.append((leaf, self.current))
        self.current = None
        self.note_cells(leaves)
        for number, value in enumerate(self.values):
            made = self.facts.values[number]
            made.requires_grad = made.requires_grad and id(value) in self.visible
        self.facts.plain_histories = self.recorder.plain_histories
        self.facts.draws = any(effect(node).random for node in self.graph.nodes)
        return build


def trace(
    module: GraphModule,
    inputs: tuple[Any, ...],
    *,
    absent: frozenset[int] = frozenset(),
    fixed: frozenset[int] = frozenset(),
    casts: Casts = (),
    cache: object = None,
    order: list[int] | None = None,
    open_inputs: Callable[[], Opened] | None = None,
) -> JointGraph:
    """The joint graph of a graph module for inputs like these, for all sizes that `open_inputs` opens.
    `absent` are values that require grad and get no tangent; `fixed` are floats that are part of the graph.
    The last inputs are `casts` of earlier ones, which `cache` (that of autocast) shall hold. Gradients go to
    inputs in this `order`; without, as eager's sweep comes to them. Raises Refused where the graph, or one
    node of it, must run as it is.
    """
    if not absent and not casts and cache is None:
        opened = None if open_inputs is None else open_inputs()
        with _quietly(module.graph):
            found = pure(module, inputs, opened)
        if found is not None:
            return _without_gradients(found, inputs, opened)
    tracing = _Tracing(inputs, fixed, casts, None if open_inputs is None else open_inputs())
    try:
        with tracing.recorder, _quietly(module.graph):
            kept = _KeptCasts(tracing, casts, cache)
            joint = _joint(tracing, module, tracing.given[: len(inputs) - len(casts)], absent, order)
            joint.casts = kept.casts()
    except Break as found:
        conditions = all_noted(tracing.scalars, tracing.symbols)
        raise Refused(str(found), tracing.current, tracing.ends, conditions=conditions) from None
    except Exception as error:  # the captured graph will raise it at its own place
        let_through(error)
        conditions = all_noted(tracing.scalars, tracing.symbols)
        raise Refused(str(error), tracing.current, error=error, conditions=conditions) from error
    for node, captured in zip(joint.inputs, module.graph.placeholders):
        if READ_FROM in captured.meta:
            node.meta[READ_FROM] = captured.meta[READ_FROM]
    return joint


def _without_gradients(found: Pure, inputs: tuple[Any, ...], opened: Opened | None) -> JointGraph:
    """The joint graph of one that is pure, and of which no gradient can be asked for."""
    wanted = [index for index, value in enumerate(inputs) if is_tensor(value) and value.tracked]
    graph, facts, nodes, values, build = found
    forward = {node for node in graph.nodes if node.op != "output"}
    made = JointGraph(graph, facts, nodes, wanted, list(values), forward=forward, build=build)
    if opened is not None:
        made.scalars, made.places = opened.scalars, opened.places
        made.fixed, made.conditions = noted(opened.scalars, opened.places)
    return made


def _joint(
    tracing: _Tracing, module: GraphModule, given: list[Any], absent: frozenset[int], order: list[int] | None
) -> JointGraph:
    recorder = tracing.recorder

    def call(node: Node, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        tracing.current, mode = node, modes.current()
        if node.target == "contiguous" and ACCUMULATES not in node.meta and recorder.may_copy(args[0]):
            found = recorder.record_contiguous(
                args[0], len(node.all_input_nodes[0].users) == 1, *args[1:], **kwargs
            )
        else:  # Python's own functions of numbers (`math.sqrt`) would ask for values
            found = function(*args, **kwargs) if kwargs else tracing.scalars.apply(function, *args)
        if modes.current() is not mode and not switches(node):
            tracing.current = None
            raise Break("mode-change", f"{node.name} changes modes")
        tracing.note_made(recorder.tensors_in(found), node)
        if node.target == "contiguous":
            tracing.note_rows(node, found)
        return found

    result = run(module.graph, given, call, module)
    tracing.current = None
    build = tracing.finish(result)
    nodes = [recorder.root_node(value) if isinstance(value, Root) else value for value in tracing.values]
    recorder.finish()
    modes.enter(grad=True, inference=False)  # whatever modes the graph is run in, gradients are not
    forward = set(tracing.graph.nodes)
    stages = _stages(tracing, absent)
    wanted = _in_order_of_arrival(tracing, stages) if order is None else order
    if any(stage.lower for stage in stages) and not tracing.facts.plain_histories:
        tracing.ends, tracing.current = True, tracing.node_of_value(stages[0].values)
        raise Break("unsupported", "outputs computed from others that were written without the tape")
    last = tracing.nodes[-1] if tracing.nodes else None
    for stage in stages:
        ways = _ways(tracing, stage, wanted)
        stage.saved, stage.parts = tensors_saved(ways, tracing.cells), parts_freed(ways)
        fakes = _tangents(tracing, stage, last)
        last = stage.tangents[-1] if stage.tangents else last
        found = _gradients(tracing, stage, wanted, fakes)
        stage.gradients = [None if g is None else recorder.node(g) for g in found]
    recorder.finish()
    relied = noted(tracing.scalars, tracing.symbols)
    tracing.graph.output((tuple(nodes), tuple(tuple(stage.gradients) for stage in stages)))
    return JointGraph(
        tracing.graph, tracing.facts, tracing.nodes, wanted, nodes, stages, forward, tracing.constants, build,
        *relied, scalars=tracing.scalars, places=tracing.symbols,
    )  # fmt: skip


class _KeptCasts:
    """The casts that the autocast around a call keeps: see Note [Casts that are kept]."""

    def __init__(self, tracing: _Tracing, casts: Casts, cache: Any) -> None:
        self.tracing, self.cache = tracing, cache
        given = tracing.given
        for (index, kind, grad), fake in zip(casts, given[len(given) - len(casts) :], strict=True):
            leaf = given[index]
            self.cache[id(leaf), kind, grad] = (weakref.ref(leaf), version(leaf), fake)

    def casts(self) -> Casts:
        """Those of inputs."""
        numbers = {id(root.tensor): index for index, root in self.tracing.roots.items()}
        keys = self.cache or ()
        return tuple([(numbers[one], kind, grad) for one, kind, grad in keys if one in numbers])


def _refuse_warnings(text: str) -> bool:
    """Refuses a call that warns: it has to run in each call to warn each time."""
    raise Break("unsupported", f"a call that warns: {text}")


def _quietly(graph: Graph) -> AbstractContextManager[None]:
    return heard(_refuse_warnings, any(map(_is_users, graph.nodes)))


def _is_users(node: Node) -> bool:
    """Whether a node calls Python code that is not the library's: such code warns by itself."""
    if node.op != "call_function":
        return node.op == "call_module"
    target: Any = node.target
    if isinstance(target, (BuiltinFunctionType, Op)):
        return target is warnings.warn
    module = sys.modules.get(getattr(target, "__module__", None) or "")
    return not (getattr(module, "__file__", None) or "").startswith(PACKAGE)


def ancestors(node: Any) -> set[tuple[Any, int]]:
    """The edges (node and output number) behind a node of the tape."""
    found: set[tuple[Any, int]] = set()
    seen = {node}
    stack = [node]
    while stack:
        last = stack.pop()
        for position, target in enumerate(getattr(last, "next", ())):
            if target is not None:
                found.add((target, last.slots[position] if last.slots is not None else 0))
                if target not in seen:
                    seen.add(target)
                    stack.append(target)
    return found


def cut_tape(roots: list[Any], leaves: dict[tuple[Any, int], Any]) -> None:
    """Lets edges end at leaves instead, from whichever node behind the roots they come."""
    seen = set(roots)
    stack = list(roots)
    while stack:
        node = stack.pop()
        edges = getattr(node, "next", ())
        slots = node.slots if edges and node.slots is not None else (0,) * len(edges)
        if any((target, slot) in leaves for target, slot in zip(edges, slots, strict=True)):
            changed = [leaves.get(edge) for edge in zip(edges, slots, strict=True)]
            node.slots = tuple([slot if new is None else 0 for new, slot in zip(changed, slots, strict=True)])
            node.next = tuple([old if new is None else new for new, old in zip(changed, edges, strict=True)])
        for target in edges:
            if target is not None and target not in seen:
                seen.add(target)
                stack.append(target)


def _stages(tracing: _Tracing, absent: frozenset[int]) -> list[Stage]:
    """The values that require grad, by how many others they are behind one another."""
    made = tracing.facts.values
    tensors = {n: tracing.values[n].tensor for n in range(len(made)) if made[n].requires_grad}
    edges = {number: (tensor.node, tensor.index) for number, tensor in tensors.items()}
    behind = {number: ancestors(tensor.node) for number, tensor in tensors.items()}
    nodes = {node for found in behind.values() for node, _ in found} | {node for node, _ in edges.values()}
    for leaf in [node for node in nodes if node in tracing.inner]:
        tracing.refuse_leaf(leaf)
    custom = next((node for node in nodes if hasattr(type(node), "_forward_cls")), None)
    if custom is not None:
        tracing.current = tracing.owners.get(custom)
        raise Break("unsupported", "a custom Function, whose backward must run when gradients are computed")
    reached: set[tuple[Any, int]] = set().union(*behind.values()) if tracing.views else set()
    for view, node in tracing.views:
        if view.requires_grad and (view.node, view.index) in reached:
            tracing.current = node
            raise Break("unsupported", "an output computed from another that is a view")
    numbers: dict[tuple[Any, int], list[int]] = {}
    for number, edge in edges.items():
        numbers.setdefault(edge, []).append(number)
    lower = {
        n: sorted([m for edge in behind[n] & numbers.keys() for m in numbers[edge] if m != n])
        for n in tensors
    }
    levels: dict[int, int] = {}
    for number in sorted(tensors, key=lambda n: len(behind[n])):
        levels[number] = 1 + max([levels[m] for m in lower[number]], default=-1)
    used = {m for found in lower.values() for m in found}
    tracing.leaves = {m: leaf_on(tensors[m]) for m in used}
    if used:
        roots = [tensor.node for tensor in tensors.values()]
        cut_tape(roots, {edges[m]: leaf for m, leaf in tracing.leaves.items()})
    stages = []
    for level in range(max(levels.values(), default=-1) + 1):
        for values, spent in _groups({n: tensors[n].node for n in tensors if levels[n] == level}):
            below = sorted({m for n in values for m in lower[n]})
            stages.append(Stage(values, [n for n in values if n not in absent], below, spent=spent))
    return _in_order(stages, {number: tensor.node._seq for number, tensor in tensors.items()})


def _in_order(stages: list[Stage], sequence: dict[int, int]) -> list[Stage]:
    """The stages as eager would have made their nodes, so that hooks are called in its order; each behind
    those that its values are computed from."""
    waiting = sorted(stages, key=lambda stage: max(sequence[number] for number in stage.values))
    found: list[Stage] = []
    done: set[int] = set()
    while waiting:
        found.append(next(stage for stage in waiting if done.issuperset(stage.lower)))
        waiting.remove(found[-1])
        done.update(found[-1].values)
    return found


def _in_order_of_arrival(tracing: _Tracing, stages: list[Stage]) -> list[int]:
    """The inputs that require grad, as eager's sweep comes to them: the edges of one node are followed in
    their order, and hooks tell. It depends on which inputs are leaves, so graphs that are made for a call
    later, of inputs with stand-ins for their histories, are told the order of the first.
    """
    wanted = [index for index in tracing.roots if tracing.tracked[index]]
    sources = {tracing.histories[index] or tracing.roots[index].tensor: index for index in wanted}
    arrived: list[int] = []

    def come(node: object, _gradient: object) -> Any:
        if node in sources:
            arrived.append(sources[node])
            return None
        return (True,) * len(getattr(node, "next", ()))

    for stage in stages[::-1]:
        tensors = [tracing.values[number].tensor for number in stage.values]
        sweep([(t.node, t.index, True) for t in tensors], come, come, lambda one, _other: one)
    last = {index: place for place, index in enumerate(arrived)}
    return sorted(wanted, key=lambda index: last.get(index, -1))


def _groups(histories: dict[int, Any]) -> list[tuple[list[int], bool]]:
    """Values whose histories would free something in common, and whether they would free anything."""
    groups: list[tuple[list[int], set[Any]]] = []
    for number, node in sorted(histories.items(), key=lambda item: item[1]._seq):
        freed = {each for each in (node, *[target for target, _ in ancestors(node)]) if saves(each)}
        together = [group for group in groups if not freed.isdisjoint(group[1])]
        groups = [group for group in groups if group not in together]
        numbers = sorted([number, *[n for values, _ in together for n in values]])
        groups.append((numbers, freed.union(*[nodes for _, nodes in together])))
    if len(groups) > GROUPS_LIMIT:
        groups = [(sorted(histories), set().union(*[nodes for _, nodes in groups]))]
    return [(values, bool(nodes)) for values, nodes in groups]


def _tangents(tracing: _Tracing, stage: Stage, last: Node | None) -> list[Any]:
    """Placeholders for the gradients of a stage's values, behind those there are; gives their fakes."""
    fakes = []
    for value in stage.differentiated:
        fake = bare(tracing.values[value].tensor, exact=False)
        name = f"tangents_{value + 1}"
        if last is None:
            node = tracing.graph.placeholder(name)
        else:
            with tracing.graph.inserting_after(last):
                node = tracing.graph.placeholder(name)
        node.meta["val"] = fake
        tracing.recorder.new_root(fake, node)
        tracing.recorder.note_array(fake)
        stage.tangents.append(node)
        fakes.append(fake)
        last = node
    return fakes


def _sources(tracing: _Tracing, stage: Stage, wanted: list[int]) -> list[Any]:
    """The nodes and leaves that gradients go to: those of the inputs as they came, and earlier values."""
    sources = [tracing.histories[index] or tracing.roots[index].tensor for index in wanted]
    return sources + [tracing.leaves[number] for number in stage.lower]


def _ways(tracing: _Tracing, stage: Stage, wanted: list[int]) -> Ways:
    ends: dict[Any, int] = {}
    for position, source in enumerate(_sources(tracing, stage, wanted)):
        ends[source] = ends.get(source, 0) | 1 << position
    starts: dict[Any, int] = {}
    for position, number in enumerate(stage.values):
        if number in stage.differentiated:
            node = tracing.values[number].tensor.node
            starts[node] = starts.get(node, 0) | 1 << position
    return ways_through(starts, ends)


def _gradients(tracing: _Tracing, stage: Stage, wanted: list[int], tangents: list[Any]) -> tuple[Any, ...]:
    """The gradients of a stage's values with respect to the inputs as they came, and to earlier values."""
    outputs = [tracing.values[number].tensor for number in stage.differentiated]
    sources = _sources(tracing, stage, wanted)
    # A backward runs rules on arrays, which no autocast sees, wherever it is called.
    extra = tuple([pair for pair in modes.modes().extra if pair[0] != "autocast"])
    token = modes.enter(extra=extra)
    try:
        return tracing.recorder.gradients(outputs, sources, tangents)
    finally:
        modes.leave(token)
