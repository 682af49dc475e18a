"""Partition: a joint graph cut into a forward graph and a backward graph.

Takes a `JointGraph`; gives a `Cut`: the forward graph computes the values and the residuals, the backward
graph the gradients from residuals and tangents. One idea: what is to be kept is a set of nodes of the joint
graph; how it is chosen is a function of its own, and the two graphs follow from it.

# Note [Minimum cut]
    y = x @ w                 from the inputs to what needs a tangent, every path is to be cut once:
    z = y.sin() * 2           cutting a node means to keep it, and costs its bytes
    g = t * 2 * y.cos()       keep y; sin, * 2 and cos are computed where they are needed
A node that must not be computed again hangs on the source, a node that must not be kept has no price: see
`why_not_recompute` and `why_not_save`. Inputs and values that eager would not keep are not kept either: users
may write to them before the backward. Of cuts with equal bytes the one nearest to the backward is taken,
which computes least again.

# Note [Copies]
    y = x.cos() * w           eager keeps x for the gradient of x, and x.cos() for that of w
    x.squeeze_()              by the user, who then asks for the gradient of w alone
A cut may keep x for both. So it is copied, if it is small; whoever writes to large ones and then wants such
gradients is told so.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable
from dataclasses import field
from math import prod
from typing import Any

from weft.aot.flow import INFINITE, Network
from weft.aot.inplace import WRITTEN
from weft.aot.joint import JointGraph, Stage
from weft.aot.saved import INPUT, VALUE
from weft.aot.split import switches
from weft.core.expressions import Symbol, by_name
from weft.core.interrupts import let_through
from weft.core.records import record
from weft.core.symbolic import Symbolic
from weft.graph.effects import effect
from weft.graph.graph import Graph
from weft.graph.node import Node
from weft.ops.record import Kind, Op, ops
from weft.trace.module import GraphModule
from weft.trace.scalars import hint_of, symbols_of

Chooser = Callable[[JointGraph, Stage], list[Node]]


@record(slots=True)
class Cut:
    """The graphs as modules, one backward for each stage. The forward gives values and then all residuals; a
    backward takes its residuals and then its tangents."""

    forward: GraphModule
    backwards: list[GraphModule] = field(default_factory=list)
    residuals: list[list[Node]] = field(default_factory=list)
    """Those of each stage."""
    places: list[list[int]] = field(default_factory=list)
    """Where they stand among all residuals."""
    private: frozenset[int] = frozenset()
    """Those among all that code outside cannot reach: they are no input, no value and no view of one, or are
    to be copied."""


def save_everything(joint: JointGraph, stage: Stage) -> list[Node]:
    """Saves every value of the forward that the recorded backward reads."""
    kept: dict[Node, None] = {}
    for node in backward_nodes(joint, stage):
        kept.update({used: None for used in node.all_input_nodes if used in joint.forward})
    kept.update({node: None for node in stage.gradients if node is not None and node in joint.forward})
    return list(kept)


LARGEST = 20_000
"""Graphs with more nodes are not cut, but kept whole."""


def op_of(node: Node) -> Op | None:
    return node.target if isinstance(node.target, Op) else None


def why_not_recompute(node: Node) -> str | None:
    """Why a node must not be computed again; None if it may."""
    if node.op == "placeholder":
        return "an input"
    if node.op == "get_attr" or node.target is operator.getitem or is_detach(node) or not _is_tensor(node):
        return None if node.op != "call_function" or not effect(node).random else "random numbers"
    op = op_of(node)
    if op is None:
        return "a call of unknown effect"
    if effect(node).random or op.kind is Kind.RANDOM:
        return "random numbers"
    if not op.cheap:
        return f"costly: {op.kind.value}"
    return None


def why_not_save(node: Node, shared: set[Node], kept_anyway: set[Node]) -> str | None:
    """Why a node must not be kept; None if it may. `shared` are the inputs and the values."""
    if node.op == "get_attr":
        return "a constant, which both graphs have"
    val = node.meta.get("val")
    if isinstance(val, (tuple, list)):
        return "several results: each is saved by itself"
    if is_view(node):
        return "a view: it would keep all of its base alive"
    if node in shared and node not in kept_anyway:
        return "the user has it and may write it, and eager code does not save it"
    return None


def is_view(node: Node) -> bool:
    """Whether a node's value may alias its first argument."""
    source = node.args[0] if node.target is operator.getitem else node
    op = op_of(source) if isinstance(source, Node) else None
    return is_detach(node) or (op is not None and (op.kind is Kind.VIEW or op is ops.reshape))


def bases_kept(joint: JointGraph, stage: Stage) -> set[Node]:
    """What eager saves, and the bases of the views among it."""
    return {base_of(node) for node in save_everything(joint, stage)}


def base_of(node: Node) -> Node:
    """The base of a view."""
    while is_view(node):
        node = node.args[0]
    return node


def _is_tensor(node: Node) -> bool:
    return hasattr(node.meta.get("val"), "array") or isinstance(node.meta.get("val"), (tuple, list))


def price(node: Node) -> int:
    """The bytes that keeping a node costs; leaves live on anyway."""
    val: Any = node.meta.get("val")
    if not hasattr(val, "array") or (node.op == "placeholder" and val.tracked and val.node is None):
        return 0
    return bytes_of(val)


def bytes_of(value: Any) -> int:
    """How many bytes a tensor has, at the sizes it was traced with: costs decide no sizes."""
    array = value.array
    return int(prod(map(hint_of, array.shape)) * array.itemsize)


def min_cut(joint: JointGraph, stage: Stage) -> list[Node]:
    """Saves what takes the fewest bytes: see Note [Minimum cut]."""
    if len(joint.graph.nodes) > LARGEST:
        return save_everything(joint, stage)
    late = tangent_nodes(joint, stage)
    candidates = reached([n for n in stage.gradients if n is not None], set())
    order = [node for node in joint.graph.nodes if node in candidates and node not in late]
    network = Network()
    ends = {node: (network.vertex(), network.vertex()) for node in order}
    gradients = {node for node in stage.gradients if node is not None}
    shared = {n for n in (*joint.inputs, *joint.values) if isinstance(n, Node) and _is_tensor(n)}
    eager = bases_kept(joint, stage)
    for position, node in enumerate(order):
        start, end = ends[node]
        kept = why_not_save(node, shared, eager) is None
        network.edge(start, end, price(node) * LARGEST + LARGEST - position if kept else INFINITE)
        if why_not_recompute(node) is not None:
            network.edge(0, start, INFINITE)
        if node in gradients or any(user in late and user in candidates for user in node.users):
            network.edge(end, 1, INFINITE)
        for user in node.users:
            if user in ends:
                network.edge(end, ends[user][0], INFINITE)
    try:
        side = network.cut()
    except ValueError as error:
        let_through(error)
        return save_everything(joint, stage)
    return [node for node in order if ends[node][0] in side and ends[node][1] not in side]


def tangent_nodes(joint: JointGraph, stage: Stage) -> set[Node]:
    """The nodes that depend on a tangent."""
    found = set(stage.tangents)
    for node in joint.graph.nodes:
        if any(used in found for used in node.all_input_nodes):
            found.add(node)
    return found


def backward_nodes(joint: JointGraph, stage: Stage) -> list[Node]:
    """The nodes behind the captured graph's own that gradients need, in order."""
    needed: set[Node] = set()
    stack = [node for node in stage.gradients if node is not None]
    while stack:
        node = stack.pop()
        if node not in needed and node not in joint.forward and node.op != "placeholder":
            needed.add(node)
            stack += node.all_input_nodes
    return [node for node in joint.graph.nodes if node in needed]


def is_detach(node: Node) -> bool:
    """Whether a node does nothing where no gradients are recorded."""
    return node.op == "call_method" and node.target == "detach"


class _Copier:
    """Copies nodes of the joint graph into another: without what concerns the tape, unless it is on."""

    def __init__(self, recorded: bool = False) -> None:
        self.graph = Graph()
        self.copies: dict[Node, Any] = {}
        self.recorded = recorded  # whether gradients will be recorded when the graph runs
        self.needed: set[Node] = set()

    def copy(self, node: Node) -> None:
        if not self.recorded:
            if switches(node):
                return
            if is_detach(node):
                self.copies[node] = self.value(node.args[0])
                return
        made = self.graph.node_copy(node, self.value)
        if isinstance(made.target, Op):
            made.target = made.target.face  # which takes arguments as users write them
        self.copies[node] = made
        for user in node.users:  # results are taken apart at once, or all would live as long as the last
            if user.target is operator.getitem and user in self.needed and user not in self.copies:
                self.copy(user)

    def copy_with_inputs(self, node: Node) -> None:
        """Copies a node, and before it what it needs: what is computed again is so right before its use."""
        stack = [node]
        while stack:
            missing = [used for used in stack[-1].all_input_nodes if used not in self.copies]
            if missing:
                stack += reversed(missing)
            else:
                last = stack.pop()
                if last not in self.copies:
                    self.copy(last)

    def value(self, node: object) -> Any:
        return self.copies[node] if isinstance(node, Node) else node

    def input(self, node: Node) -> None:
        made = self.graph.placeholder(node.name)
        made.meta = dict(node.meta)
        self.copies[node] = made


def cut(joint: JointGraph, choose: Chooser = save_everything) -> Cut:
    """The graphs; no backward where no gradient is asked for."""
    residuals = [with_open_sizes(joint, stage, choose(joint, stage)) for stage in joint.stages]
    every = list(dict.fromkeys(node for kept in residuals for node in kept))
    number = {node: place for place, node in enumerate(every)}
    backwards = [_backward(joint, stage, kept) for stage, kept in zip(joint.stages, residuals, strict=True)]
    places = [[number[node] for node in kept] for kept in residuals]
    known = {node for node in (*joint.inputs, *joint.values) if isinstance(node, Node)}
    copied = {
        n for stage, kept in zip(joint.stages, residuals, strict=True) for n in to_copy(joint, stage, kept)
    }
    private = frozenset([at for node, at in number.items() if node in copied or base_of(node) not in known])
    return Cut(_forward(joint, every), backwards, residuals, places, private)


def with_open_sizes(joint: JointGraph, stage: Stage, residuals: list[Node]) -> list[Node]:
    """Residuals from which, and from the tangents, each open size of a backward can be read."""
    if not joint.places:
        return residuals
    given = [*residuals, *stage.tangents]
    readable = symbols_of([node.meta.get("val") for node in given])
    found: dict[Node, None] = dict.fromkeys(residuals)
    used = reached([node for node in stage.gradients if node is not None], set(given))
    for node in (*given, *[node for node in joint.graph.nodes if node in used]):  # some are computed again
        for symbol in by_name(open_symbols(node.meta.get("val"))):
            if symbol not in readable and symbol in joint.places:
                number = joint.places[symbol]
                found[joint.inputs[number if isinstance(number, int) else number[0]]] = None
    return list(found)


def open_symbols(value: Any) -> set[Symbol]:
    """The symbols of a node's sizes."""
    if isinstance(value, (tuple, list)):
        return set().union(*map(open_symbols, value))
    array = getattr(value, "array", None)
    sizes = (value,) if array is None else (*array.shape, *array.strides)
    return {one for size in sizes if isinstance(size, Symbolic) for one in size.expression.symbols}


COPIES = 64 * 1024
"""Bytes of the user's that a call may copy, or a sixteenth of what it makes to keep, if that is more."""


def small(nodes: Iterable[Node], residuals: Iterable[Node]) -> list[Node]:
    """The nodes that fit into the bytes that a call with these residuals may copy, the smallest first."""
    room = max(COPIES, sum([size_of(node) for node in residuals if node.op != "placeholder"]) // 16)
    found = []
    for node in sorted(nodes, key=size_of):
        room -= size_of(node)
        if room >= 0:
            found.append(node)
    return found


def size_of(node: Node) -> int:
    value: Any = node.meta.get("val")
    return bytes_of(value) if hasattr(value, "array") else 0


def to_copy(joint: JointGraph, stage: Stage, residuals: list[Node]) -> list[Node]:
    """The residuals that the user can write, and that eager would not have saved for a gradient that reads
    them: see Note [Copies]."""
    places = {node: (INPUT, number) for number, node in enumerate(joint.inputs)}
    places |= {node: (VALUE, number) for number, node in enumerate(joint.values) if isinstance(node, Node)}
    places |= {joint.values[written.value]: (INPUT, written.input) for written in joint.facts.written}
    eager = {(saved.kind, saved.number): saved.gradients for saved in stage.saved}
    shared = {
        node: places[base] for node in residuals if (base := base_of(node)) in places and _is_tensor(node)
    }
    found: dict[Node, None] = {}
    for position, gradient in enumerate(stage.gradients if shared else ()):
        read = set() if gradient is None else reached([gradient], set(residuals))
        found |= {n: None for n, at in shared.items() if n in read and not eager.get(at, 0) >> position & 1}
    return small(found, residuals)


def _forward(joint: JointGraph, residuals: list[Node]) -> GraphModule:
    made = _Copier()
    for node in joint.inputs:
        made.input(node)
    ends = [node for node in (*joint.values, *residuals) if isinstance(node, Node)]
    ends += [node for node in joint.forward if (found := effect(node)).checks or found.random]
    needed = made.needed = reached(ends, set(joint.inputs))
    for node in joint.graph.nodes:
        if node in made.copies or node.op in ("placeholder", "output"):
            continue
        if node in needed:
            made.copy(node)
    made.graph.output(tuple([made.value(node) for node in (*joint.values, *residuals)]))
    made.graph.meta[WRITTEN] = tuple([(written.input, written.value) for written in joint.facts.written])
    return GraphModule(joint.constants, made.graph, "Forward", lazily=True)


def _backward(joint: JointGraph, stage: Stage, residuals: list[Node]) -> GraphModule:
    made = _Copier()
    for node in (*residuals, *stage.tangents):
        made.input(node)
    late = tangent_nodes(joint, stage)
    needed = made.needed = reached([n for n in stage.gradients if n is not None], set(made.copies))
    for node in joint.graph.nodes:
        if node in needed and node not in made.copies and (node in late or node in stage.gradients):
            made.copy_with_inputs(node)
    made.graph.output(tuple([None if node is None else made.value(node) for node in stage.gradients]))
    return GraphModule(joint.constants, made.graph, "Backward", lazily=True)


def derivative(joint: JointGraph, stage: Stage) -> GraphModule:
    """A stage's gradients as a graph of their own, from inputs, values of earlier stages, own values and
    tangents, for the tape to run over: whatever the captured graph did without recording is done without
    recording here.
    """
    made = _Copier(recorded=True)
    for node in (*joint.inputs, *[joint.values[lower] for lower in stage.lower]):
        made.input(node)
    found = reached([node for node in stage.gradients if node is not None], set(made.copies))
    own = [number for number in stage.values if joint.values[number] in found]
    stage.own = [number for number in own if joint.values[number] not in made.copies]
    for node in (*[joint.values[number] for number in stage.own], *stage.tangents):
        made.input(node)
    draws = [node for node in joint.forward if effect(node).random and node not in made.copies]
    ends = [*draws, *[node for node in stage.gradients if node is not None]]
    needed = made.needed = reached(ends, set(made.copies))
    for node in joint.graph.nodes:
        if node in made.copies or node.op in ("placeholder", "output"):
            continue
        if node in needed or switches(node):
            made.copy(node)
    made.graph.output(tuple([None if node is None else made.value(node) for node in stage.gradients]))
    return GraphModule(joint.constants, made.graph, "Derivative", lazily=True)


def reached(ends: list[Node], stops: set[Node]) -> set[Node]:
    """The nodes that the ends are computed from, as far as the stops."""
    seen: set[Node] = set()
    stack = list(ends)
    while stack:
        node = stack.pop()
        if node in seen:
            continue
        seen.add(node)
        if node not in stops:
            stack += node.all_input_nodes
    return seen
