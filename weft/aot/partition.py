"""Partition: a joint graph cut into a forward graph and a backward graph.

Takes a `Joint`; gives a `Cut`: the forward graph computes the values and the residuals, the backward graph
the gradients from residuals and tangents. One idea: what is to be kept is a set of nodes of the joint graph;
how it is chosen is a function of its own, and the two graphs follow from it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from weft.aot.joint import Joint
from weft.graph.effects import effect
from weft.graph.graph import Graph
from weft.graph.node import Node
from weft.ops.record import Op
from weft.trace.module import GraphModule

Chooser = Callable[[Joint], list[Node]]
SWITCHES = ("_set_grad_enabled", "_set_inference_mode", "_set_autocast")


@dataclass(slots=True)
class Cut:
    """The two graphs as modules. The forward gives values and then residuals; the backward takes residuals
    and then tangents."""

    forward: GraphModule
    backward: GraphModule | None
    residuals: list[Node] = field(default_factory=list)


def save_everything(joint: Joint) -> list[Node]:
    """Keeps whatever the recorded backward reads of the forward."""
    kept: dict[Node, None] = {}
    for node in backward_nodes(joint):
        kept.update({used: None for used in node.all_input_nodes if used in joint.forward})
    kept.update({node: None for node in joint.gradients if node is not None and node in joint.forward})
    return list(kept)


def backward_nodes(joint: Joint) -> list[Node]:
    """The nodes behind the captured graph's own that gradients need, in order."""
    needed: set[Node] = set()
    stack = [node for node in joint.gradients if node is not None]
    while stack:
        node = stack.pop()
        if node not in needed and node not in joint.forward and node.op != "placeholder":
            needed.add(node)
            stack += node.all_input_nodes
    return [node for node in joint.graph.nodes if node in needed]


def plain(node: Node) -> bool:
    """Whether a node does nothing where no gradients are recorded."""
    return node.op == "call_method" and node.target == "detach"


def switches(node: Node) -> bool:
    """Whether a node changes modes."""
    return getattr(node.target, "__name__", None) in SWITCHES


class _Copier:
    """Copies nodes of the joint graph into another: without what concerns the tape, unless it is on."""

    def __init__(self, recorded: bool = False) -> None:
        self.graph = Graph()
        self.copies: dict[Node, Any] = {}
        self.recorded = recorded  # whether gradients will be recorded when the graph runs

    def copy(self, node: Node) -> None:
        if not self.recorded:
            if switches(node):
                return
            if plain(node):
                self.copies[node] = self.value(node.args[0])
                return
        made = self.graph.node_copy(node, self.value)
        if isinstance(made.target, Op):
            made.target = made.target.face  # which takes arguments as users write them
        self.copies[node] = made

    def value(self, node: Any) -> Any:
        return self.copies[node] if isinstance(node, Node) else node

    def input(self, node: Node) -> None:
        made = self.graph.placeholder(node.name)
        made.meta = dict(node.meta)
        self.copies[node] = made


def cut(joint: Joint, choose: Chooser = save_everything) -> Cut:
    """The two graphs; no backward where no gradient is asked for."""
    residuals = choose(joint) if joint.tangents else []
    forward = _forward(joint, residuals)
    backward = _backward(joint, residuals) if joint.tangents else None
    return Cut(forward, backward, residuals)


def _forward(joint: Joint, residuals: list[Node]) -> GraphModule:
    made = _Copier()
    for node in joint.inputs:
        made.input(node)
    ends = [node for node in (*joint.values, *residuals) if isinstance(node, Node)]
    needed = _reached(joint, ends, set(joint.inputs))
    for node in joint.graph.nodes:
        if node in made.copies or node.op in ("placeholder", "output"):
            continue
        if node in needed or (node in joint.forward and effect(node).random):
            made.copy(node)
    made.graph.output(tuple([made.value(node) for node in (*joint.values, *residuals)]))
    return GraphModule(joint.constants, made.graph, "Forward")


def _backward(joint: Joint, residuals: list[Node]) -> GraphModule:
    made = _Copier()
    for node in (*residuals, *joint.tangents):
        made.input(node)
    needed = _reached(joint, [n for n in joint.gradients if n is not None], set(made.copies))
    for node in joint.graph.nodes:
        if node in needed and node not in made.copies:
            made.copy(node)
    made.graph.output(tuple([None if node is None else made.value(node) for node in joint.gradients]))
    return GraphModule(joint.constants, made.graph, "Backward")


def derivative(joint: Joint) -> GraphModule:
    """The gradients as a graph of their own, from inputs and tangents, for the tape to run over: whatever the
    captured graph did without recording is done without recording here."""
    made = _Copier(recorded=True)
    for node in (*joint.inputs, *joint.tangents):
        made.input(node)
    needed = _reached(joint, [n for n in joint.gradients if n is not None], set(made.copies))
    for node in joint.graph.nodes:
        if node in made.copies or node.op in ("placeholder", "output"):
            continue
        if node in needed or switches(node) or (node in joint.forward and effect(node).random):
            made.copy(node)
    made.graph.output(tuple([None if node is None else made.value(node) for node in joint.gradients]))
    return GraphModule(joint.constants, made.graph, "Derivative")


def _reached(joint: Joint, ends: list[Node], stops: set[Node]) -> set[Node]:
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
