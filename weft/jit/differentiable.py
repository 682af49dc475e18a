"""Differentiable graphs: parts of a scripted function that are one node of the tape.

Takes a graph; gives one in which runs of differentiable ops are `prim::DifferentiableGraph` nodes. One idea:
such a part runs its ops on a tape of its own, and the node that stands for it on the user's tape has as
outputs the part's results and the intermediates that its gradients read. So gradients of any order, and which
outputs require grad, are what eager code gives.

# Note [One node for many]
    def fn(a, b, y): return sin(cat([a, b], 1) + y)
The part's outputs are the sine and its argument, which the sine's gradient reads: `node(g, None)` gives the
gradients of a, b and y. Inputs are taken through `alias`, so that hooks of the user's tensors run once.
"""

from __future__ import annotations

import threading
from typing import Any

from weft.autograd.engine import grad as gradients
from weft.autograd.function import Function
from weft.autograd.grad_mode import enable_grad
from weft.autograd.graph import get_gradient_edge
from weft.autograd.tasks import local as engine
from weft.core import modes
from weft.jit.codegen import generate
from weft.jit.ir import Block, Graph, Node, Value
from weft.jit.lookup import find_operator
from weft.jit.regions import GLUE, blocks_of, groups, outside_values, put_node, related, take_out
from weft.jit.types import TENSOR, ListType, OptionalType
from weft.ops.record import REGISTRY, Kind
from weft.tensor.base import Tensor
from weft.tensor.plan import OUT, plan_of

KINDS = (Kind.POINTWISE, Kind.REDUCE, Kind.CONTRACT)
EXTRA = frozenset(
    [
        "cat",
        "stack",
        "gather",
        "index_select",
        "cumsum",
        "linear",
        "mse_loss",
        "layer_norm",
        "softmax",
        "log_softmax",
    ]
)
ARITHMETIC = frozenset(["add", "sub", "mul", "div", "pow", "neg", "matmul"])


class Smallest:
    """How many ops a part must have to be a node of its own in `graph_for`."""

    ops = 2


def record_of(node: Node) -> Any:
    """The op record behind a node; None where there is none."""
    if not node.operator.startswith("aten::"):
        return None
    name, origin = node.operator.partition("::")[2], node.attributes.get("_from", "")
    if name in ARITHMETIC and not origin:
        return REGISTRY.get(name)
    function = find_operator(name, origin)
    return getattr(function, "op", None)


def fits(node: Node) -> bool:
    """Whether a node may be part of a differentiable graph: pure, no view, with one tensor as its result."""
    if len(node.results) != 1 or node.results[0].kind != TENSOR or node.blocks_ or "out" in node.words:
        return False
    op = record_of(node)
    if op is None or node.operator.endswith("_") or op.vjp is None:
        return False
    return op.kind in KINDS or op.name in EXTRA


def requiring(graph: Graph, given: set[Value]) -> set[Value]:
    """The values that may require grad when the given inputs do."""
    found = set(given)

    def visit(block: Block) -> None:
        for node in block.nodes_:
            for inner in node.blocks_:
                if node.operator == "prim::Loop":
                    found.update(
                        p
                        for p, a in zip(inner.parameters[1:], node.arguments[2:], strict=True)
                        if p.kind == TENSOR
                    )
                visit(inner)
            inside = [value for inner in node.blocks_ for value in inner.returned]
            if node.operator in (
                "prim::GetAttr",
                "prim::PythonOp",
                "prim::CallFunction",
                "prim::CallMethod",
            ) or any(value in found for value in (*node.arguments, *inside)):
                found.update(node.results)

    visit(graph.block)
    return found


class Region:
    """One differentiable graph: called with its inputs, it gives its outputs."""

    def __init__(self, graph: Graph, outputs: int) -> None:
        self.graph, self.outputs = graph, outputs
        self.run: Any = generate(graph, lambda callee: callee).function
        self.single = len(graph.block.returned) == 1

    def __call__(self, *args: Any) -> Any:
        recording = modes.state.get() is True
        if recording:
            tensors = [item for item in leaves(args) if item.requires_grad]
            if tensors:
                return self.recorded(args, tensors)
        results = self.run(*args)
        return (results,) if self.single else results[: self.outputs]

    def recorded(self, args: tuple[Any, ...], tensors: list[Any]) -> Any:
        pending.work = self, args, tensors
        results = DifferentiableGraph.apply(*tensors)
        results = results if isinstance(results, tuple) else (results,)
        return results[: self.outputs]


def leaves(values: Any) -> list[Any]:
    """The tensors among arguments and in lists of them."""
    found: list[Any] = []
    for value in values:
        if isinstance(value, Tensor):
            found.append(value)
        elif type(value) in (list, tuple):
            found += leaves(value)
    return found


def replaced(values: Any, known: dict[int, Any]) -> Any:
    """The arguments with tensors replaced."""
    return [
        known.get(id(value), value)
        if not isinstance(value, (list, tuple))
        else type(value)(replaced(value, known))
        for value in values
    ]


pending = threading.local()


class DifferentiableGraph(Function):
    """The node that stands for a region: see Note [One node for many]."""

    @staticmethod
    def forward(ctx: Any, *tensors: Any) -> Any:
        region, args, _ = pending.work
        pending.work = None
        ctx.set_materialize_grads(False)
        with enable_grad():
            inner = [REGISTRY["alias"].face(tensor) for tensor in tensors]
            known = {id(tensor): made for tensor, made in zip(tensors, inner, strict=True)}
            results = region.run(*replaced(args, known))
        results = (results,) if region.single else results
        # Edges, not tensors: those of views lead elsewhere once their base was written to.
        ctx.inner, ctx.results = [get_gradient_edge(made) for made in inner], results
        outputs = tuple([result.detach() for result in results])
        ctx.mark_non_differentiable(
            *[made for made, result in zip(outputs, results, strict=True) if not result.requires_grad]
        )
        return outputs

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        pairs = [
            (result, grad) for result, grad in zip(ctx.results or (), grads, strict=False)
            if grad is not None and result.requires_grad
        ]  # fmt: skip
        if not pairs:
            return tuple([None] * len(ctx.inner))
        task = engine.task
        retain = task is None or task.retain
        recording = modes.current() is True
        found = gradients(
            [result for result, _ in pairs], ctx.inner, [grad for _, grad in pairs],
            retain_graph=retain or recording, create_graph=recording, allow_unused=True,
        )  # fmt: skip
        return tuple(found)


def captured(graph: Graph) -> list[Value]:
    """The intermediates that gradients read, as far as the ops' rules say."""
    wanted: dict[Value, None] = {}
    tensors = {value for node in graph.walk() for value in node.results if value.kind == TENSOR}
    for node in graph.walk():
        op = record_of(node) if node.operator not in GLUE else None
        if op is None:
            continue
        if op.body is not None:
            wanted.update(dict.fromkeys(value for value in node.arguments if value in tensors))
            continue
        for source in plan_of(op).saved:
            if source == OUT:
                wanted[node.results[0]] = None
            elif source < len(node.arguments) - len(node.words) and node.arguments[source] in tensors:
                wanted[node.arguments[source]] = None
    return [value for value in wanted if value not in graph.block.returned]


def with_differentiable_graphs(
    graph: Graph,
    given: set[Value] | None = None,
    smallest: int | None = None,
    blocks: list[Block] | None = None,
) -> Graph:
    """The graph, changed, with its differentiable parts (those of some blocks) as nodes of their own."""
    reached = None if given is None else requiring(graph, given)

    def test(node: Node) -> bool:
        return fits(node) and (reached is None or any(v in reached for v in tensors_of(node)))

    for block in blocks_of(graph) if blocks is None else blocks:
        least = smallest or Smallest.ops
        found = groups(block, test, least, fits)
        if given is not None:
            found = related(block, groups(block, test, 1, fits), least)
        for group in found:
            piece = take_out(group, outside_values(graph, group), "DifferentiableGraph")
            if not piece.outputs or not all(value.kind == TENSOR for value in piece.outputs):
                continue
            inner = piece.graph
            inner.block.returned += captured(inner)
            attributes = {"Subgraph": inner}
            node = Node("prim::DifferentiableGraph", graph, piece.inputs, (), attributes, group[0].place)
            node.target = Region(inner, len(piece.outputs))
            node.results = piece.outputs
            for index, value in enumerate(node.results):
                value.owner, value.index = node, index
            put_node(block, group, node)
    return graph


def tensors_of(node: Node) -> list[Value]:
    kinds = (ListType, OptionalType)
    return [value for value in node.arguments if value.kind == TENSOR or isinstance(value.kind, kinds)]
