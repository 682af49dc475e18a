"""Reinplacing: graphs of pure ops that write the new values of inputs into the inputs' own memory.

Takes a forward graph whose `meta["written"]` names the inputs that the program writes, with the outputs that
are their new values; gives an equal graph in which such values are computed in place wherever that cannot be
observed. One idea: a write may come as soon as nothing after it can fail and the overwritten value is dead.

# Note [In place]
    def forward(p, g):                     def forward(p, g):
        mul = g * 0.1                          mul = g * 0.1
        sub = p - mul                          sub_ = p.sub_(mul)
        return (sub,)                          return (sub_,)
The caller knows by the array that it gets that there is nothing left to copy. Values that are made on the
way, and that only the next op reads, are written over too, piece by piece where the op has no form that
writes: neither its result nor what it needs on the way takes memory of a tensor's size.
"""

from __future__ import annotations

import operator
from math import prod
from typing import Any

from weft.graph.effects import can_fail, effect
from weft.graph.graph import Graph
from weft.graph.node import Node, map_arg
from weft.ops.record import Op
from weft.ops.replay import READERS, replay, view_scatter
from weft.trace.module import GraphModule
from weft.trace.scalars import hint_of, surely_equal

WRITTEN = "written"
"""Where a graph says which of its inputs the program writes: positions of inputs and of outputs."""
PIECE = 16_384
"""Elements: operands and results of this length stay in a core's own cache."""


def op_of(node: Node) -> Op | None:
    found = node.target if isinstance(node.target, Op) else getattr(node.target, "op", None)
    return found if isinstance(found, Op) and node.op == "call_function" else None


def shares(node: Node) -> bool:
    """Whether a node's value may alias its first argument."""
    source = node.args[0] if node.target is operator.getitem and node.args else node
    op = op_of(source) if isinstance(source, Node) else None
    if op is None:
        return True
    return op.shares_memory


def aliases(node: Node) -> list[Node]:
    """The nodes whose values may alias a node's value; the node itself first."""
    found = [node]
    for known in found:
        found += [user for user in known.users if user.op != "output" and shares(user) and user not in found]
    return found


def scatter_into(base: Any, source: Any, steps: Any) -> Any:
    """`view_scatter` that writes into the base."""
    replay(base.array, steps)[...] = source.array
    return base


class Over:
    """An op that writes its result over its first operand, if all operands are row-major."""

    def __init__(self, op: Op) -> None:
        self.op = op
        self.__name__ = self.__qualname__ = f"{op.name}_over"
        self.__module__ = "weft.aot.inplace"

    def __call__(self, first: Any, *others: Any) -> Any:
        arrays = [first.array, *[other.array for other in others]]
        if not all(array.flags.c_contiguous for array in arrays):
            return self.op.face(first, *others)  # whose result may lie as another operand does
        rows = [array.reshape(-1) for array in arrays]
        for start in range(0, rows[0].size, PIECE):
            pieces = [row[start : start + PIECE] for row in rows]
            pieces[0][...] = self.op.on_arrays(tuple(pieces))
        return first


class IfAlike:
    """An op that writes its result over its first operand, if the result would have the same strides."""

    def __init__(self, op: Op) -> None:
        self.op = op
        self.__name__ = self.__qualname__ = f"{op.name}_if_alike"
        self.__module__ = "weft.aot.inplace"

    def __call__(self, first: Any, *others: object, **options: object) -> Any:
        strides = first.array.strides
        if first.array.flags.c_contiguous or all(
            other.array.strides == strides for other in others if hasattr(other, "array")
        ):
            return getattr(first, f"{self.op.name}_")(*others, **options)
        return self.op.face(first, *others, **options)


def alike(node: Node, other: Node) -> bool:
    """Whether two nodes' values have one shape and dtype."""
    a: Any = node.meta.get("val")
    b: Any = other.meta.get("val")
    known = hasattr(a, "array") and hasattr(b, "array")
    return known and a.dtype is b.dtype and surely_equal(tuple(a.array.shape), tuple(b.array.shape))


def writes_well(node: Node) -> bool:
    """Whether an op has a form that writes into its first argument."""
    op = op_of(node)
    if op is None or not node.args or not isinstance(node.args[0], Node) or not alike(node, node.args[0]):
        return False
    if op is view_scatter:
        return not any(step[0] in READERS for step in node.args[2])
    if op.overwrites:
        return not node.kwargs and all(isinstance(n, Node) and alike(node, n) for n in node.args)
    return op.elementwise and bool(op.inplace or op.placing)


def in_place(module: GraphModule) -> GraphModule:
    """The module, or one that writes in place."""
    pairs = module.graph.meta.get(WRITTEN, ())
    nodes = list(module.graph.nodes)
    inputs = module.graph.placeholders
    results = module.graph.output_node().args[0]
    if pairs:
        wished = {node for position, number in pairs for node in _steps(inputs[position], results[number])}
        nodes = _numbers_first(nodes, wished)
    order = {node: place for place, node in enumerate(nodes)}
    risky = max([place for place, node in enumerate(nodes) if can_fail(node)], default=-1)
    chosen: dict[Node, Node] = {}  # the nodes that write, with the inputs that they write to, or themselves
    for position, number in pairs:
        for node in _chain(inputs[position], results[number], order, risky):
            chosen[node] = inputs[position]
    for node in nodes:
        if node not in chosen and _is_scratch(node, chosen) and _may_write(node, order, -1):
            chosen[node] = node
    return _rewritten(module, nodes, chosen) if chosen else module


def _numbers_first(nodes: list[Node], wished: set[Node]) -> list[Node]:
    """The nodes, computations of numbers that may fail before all that would write in place, if these need
    but single elements.
    """
    needed = {node for node in nodes if can_fail(node) and not hasattr(node.meta.get("val"), "array")}
    stack = list(needed)
    while stack:
        node = stack.pop()
        value: Any = node.meta.get("val")
        if hasattr(value, "array") and prod(map(hint_of, value.array.shape)) > 1:
            return nodes
        if effect(node).random or isinstance(value, (tuple, list)):
            return nodes
        for used in node.all_input_nodes:
            if used not in needed:
                needed.add(used)
                stack.append(used)
    start = next((place for place, node in enumerate(nodes) if node in wished - needed), len(nodes))
    late = [node for node in nodes[start:] if node in needed]
    return [*nodes[:start], *late, *[node for node in nodes[start:] if node not in needed]]


def _is_scratch(node: Node, chosen: dict[Node, Node]) -> bool:
    """Whether a node could write over an intermediate value."""
    op = op_of(node)
    if op is None or not op.elementwise or op.shares_memory or not writes_well(node):
        return False
    before: Node = node.args[0]
    maker = op_of(before)
    fresh = maker is not None and not maker.shares_memory and chosen.get(before, before) is before
    return fresh and _lie_alike(node, before)


def _lie_alike(node: Node, other: Node) -> bool:
    """Whether two values of one shape are known to have the same strides."""
    a: Any = node.meta["val"]
    b: Any = other.meta["val"]
    return surely_equal(tuple(a.array.strides), tuple(b.array.strides))


def _lies_openly(node: Node) -> bool:
    """Whether the strides of a value are known only at run time, as for what depends on gradients from
    outside: users see the strides of results, which follow from those of intermediates."""
    value: Any = node.meta["val"]
    return value.array.ndim > 1 and not value.array.exact


def _steps(start: Node, last: object) -> list[Node]:
    """The nodes that compute an input's new value step by step from the old one."""
    found: list[Node] = []
    node = last
    while isinstance(node, Node) and node is not start and writes_well(node):
        found.append(node)
        node = node.args[0]
    return found if node is start else []


def _chain(start: Node, last: object, order: dict[Node, int], risky: int) -> list[Node]:
    """These nodes, if all may write to the input."""
    found = _steps(start, last)
    return found if all(_may_write(node, order, risky) for node in found) else []


def _may_write(node: Node, order: dict[Node, int], risky: int) -> bool:
    """Whether the value that a node would overwrite is dead."""
    before: Node = node.args[0]
    same = aliases(before)
    late = any(order[user] > order[node] for alias in same for user in alias.users)
    mixed = any(used in same for used in node.all_input_nodes if used is not before)
    return order[node] > risky and not late and not mixed


def _rewritten(module: GraphModule, nodes: list[Node], chosen: dict[Node, Node]) -> GraphModule:
    graph = Graph()
    copies: dict[Node, Any] = {}
    for node in nodes:
        if node not in chosen:
            copies[node] = graph.node_copy(node, copies.__getitem__)
            continue
        op = op_of(node)
        assert op is not None
        args, kwargs = (map_arg(given, copies.__getitem__) for given in (node.args, node.kwargs))
        if op is view_scatter:
            copies[node] = graph.call_function(scatter_into, args)
        elif op.overwrites:
            copies[node] = graph.call_function(Over(op), args)
        elif chosen[node] is node and (_lies_openly(node) or _lies_openly(node.args[0])):
            copies[node] = graph.call_function(IfAlike(op), args, kwargs)
        else:
            copies[node] = graph.call_method(f"{op.name}_", args, kwargs)
        copies[node].meta = dict(node.meta)
    return GraphModule(module, graph, type(module).__name__)
