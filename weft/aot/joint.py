"""The joint graph: what a captured graph computes, and the gradients of it, in one graph of pure ops.

Takes a graph module and the inputs of a call; runs it on fakes with the tape on, then the tape backwards, and
gives a `Joint`. One idea: gradients are computed by the code that eager runs, recorded as everything else is.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from weft.aot.facts import Constant, Facts, Input, Made, Number, Output, Value, ViewOf, Written
from weft.aot.functional import FunctionalRecorder, Root
from weft.core.trees import flatten
from weft.graph.effects import effect
from weft.graph.graph import Graph
from weft.graph.interpreter import run
from weft.graph.node import Node
from weft.trace.breaks import Break
from weft.trace.fake import bare, fake_input, is_tensor
from weft.trace.recorder import version
from weft.trace.scalars import Scalars


@dataclass(slots=True)
class Joint:
    """A joint graph. It takes the inputs and the tangents, and gives values and gradients."""

    graph: Graph
    facts: Facts
    inputs: list[Node]
    tangents: list[Node]
    """One for each value in `differentiated`."""
    differentiated: list[int]
    """The values whose gradients are asked for, by number."""
    wanted: list[int]
    """The inputs that require grad, by number."""
    values: list[Any]
    gradients: list[Any]
    """One for each input in `wanted`: a node, or None where no gradient reaches it."""
    forward: set[Node] = field(default_factory=set)
    """The nodes that the captured graph made."""
    constants: dict[str, Any] = field(default_factory=dict)
    build: Any = None
    """Builds what the captured graph returns from the outputs in `facts`."""
    fixed: bool = False
    """Whether the values of floats among the inputs were relied upon."""


class _Tracing:
    """One run of a captured graph on fakes."""

    def __init__(self, inputs: tuple[Any, ...], open_floats: bool) -> None:
        self.graph = Graph()
        self.recorder = FunctionalRecorder(self.graph, self.on_input)
        self.scalars = Scalars()
        self.constants: dict[str, Any] = {}
        self.roots: dict[int, Root] = {}
        self.nodes: list[Node] = []
        self.given = [self.input(i, value, open_floats) for i, value in enumerate(inputs)]
        self.versions = {index: version(root.tensor) for index, root in self.roots.items()}
        self.histories = {index: root.tensor.node for index, root in self.roots.items()}
        self.tracked = {index: root.tensor.tracked for index, root in self.roots.items()}
        self.numbers: dict[int, int] = {}
        self.values: list[Any] = []
        self.facts = Facts()

    def input(self, index: int, value: Any, open_floats: bool) -> Any:
        """The placeholder of an input, and what stands for it."""
        node = self.graph.placeholder(f"primals_{index + 1}")
        self.nodes.append(node)
        if is_tensor(value):
            fake = fake_input(value)
            node.meta["val"] = fake
            self.roots[index] = self.recorder.new_root(fake, node, index)
            self.recorder.note_array(fake)
            return fake
        node.meta["val"] = value
        if type(value) is float and open_floats:
            value = self.scalars.symbol_float(node.name, value)
            self.recorder.bind(value, node)
        elif type(value) not in (int, float, bool, str, type(None), complex):
            self.recorder.bind(value, node)
        return value

    def on_input(self, value: Any) -> Node:
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
            strides = array.strides if array.exact and root.writes else None
            made = Made(bool(root.tensor.tracked), strides, version(root.tensor))
            self.facts.values.append(made)
        return self.numbers[id(root)]

    def output(self, value: Any) -> Output:
        if not is_tensor(value):
            node = self.recorder.argument(value)
            if not isinstance(node, Node):
                return Constant(value)
            self.values.append(node)
            self.facts.values.append(Made(False))
            return Number(len(self.values) - 1)
        place = self.recorder.place(value)
        root = place.root
        base: Input | Value
        base = Value(self.value_of(root)) if root.input is None else Input(root.input)
        return base if place.parent is None else ViewOf(base, place.steps)

    def finish(self, result: Any) -> Any:
        leaves, build = flatten(result)
        for index, root in self.roots.items():
            times = version(root.tensor) - self.versions[index]
            if root.writes or times:
                moved = root.tensor.node is not self.histories[index]
                number = self.value_of(root)
                self.facts.values[number].requires_grad = moved
                self.facts.written.append(Written(index, number, times, moved))
        self.facts.outputs = [self.output(leaf) for leaf in leaves]
        known = {id(root) for root in self.values}
        if any(isinstance(root, Root) and id(root.source) in known for root in self.values):
            raise Break("unsupported", "outputs that may or may not share memory")
        self.facts.plain_histories = self.recorder.plain_histories
        self.facts.draws = any(effect(node).random for node in self.graph.nodes)
        return build


def trace(
    module: Any,
    inputs: tuple[Any, ...],
    *,
    mask: tuple[bool, ...] | None = None,
    gradients: bool = True,
    open_floats: bool = True,
) -> Joint:
    """The joint graph of a graph module for inputs like these. `mask` says which of the values that require
    grad get a tangent (all, if None). Raises Break or the user's error where the graph must run as it is.
    """
    if module.graph.subgraphs:
        raise Break("unsupported", "a graph with graphs inside")
    tracing = _Tracing(inputs, open_floats)
    recorder, facts = tracing.recorder, tracing.facts
    with recorder:
        result = run(module.graph, tracing.given, owner=module)
        build = tracing.finish(result)
        nodes = [recorder.root_node(value) if isinstance(value, Root) else value for value in tracing.values]
        recorder.finish()
        forward = set(tracing.graph.nodes)
        floating = [i for i, made in enumerate(facts.values) if made.requires_grad]
        differentiated = [n for i, n in enumerate(floating) if mask is None or mask[i]]
        wanted = [index for index in tracing.roots if tracing.tracked[index]]
        tangents = _tangents(tracing, differentiated) if gradients else []
        found: tuple[Any, ...] = (None,) * len(wanted)
        if gradients and tangents and wanted:
            found = _gradients(tracing, differentiated, wanted, [fake for _, fake in tangents])
        grads = [None if g is None else recorder.node(g) for g in found]
        recorder.finish()
    fixed = bool(tracing.scalars.static or tracing.scalars.guards())
    tracing.graph.output((tuple(nodes), tuple(grads)))
    return Joint(
        tracing.graph, facts, tracing.nodes, [node for node, _ in tangents], differentiated, wanted,
        nodes, grads, forward, tracing.constants, build, fixed,
    )  # fmt: skip


def _tangents(tracing: _Tracing, differentiated: list[int]) -> list[tuple[Node, Any]]:
    """Placeholders for the gradients of the values, behind those of the inputs."""
    last = tracing.nodes[-1] if tracing.nodes else None
    made = []
    for number, value in enumerate(differentiated):
        fake = bare(tracing.values[value].tensor, exact=False)
        if last is None:
            node = tracing.graph.placeholder(f"tangents_{number + 1}")
        else:
            with tracing.graph.inserting_after(last):
                node = tracing.graph.placeholder(f"tangents_{number + 1}")
        node.meta["val"] = fake
        tracing.recorder.new_root(fake, node)
        tracing.recorder.note_array(fake)
        made.append((node, fake))
        last = node
    return made


def _gradients(
    tracing: _Tracing, differentiated: list[int], wanted: list[int], tangents: list[Any]
) -> tuple[Any, ...]:
    """The gradients of the values with respect to the inputs as they came."""
    outputs = [tracing.values[number].tensor for number in differentiated]
    sources = [tracing.histories[index] or tracing.roots[index].tensor for index in wanted]
    return tracing.recorder.gradients(outputs, sources, tangents)
