"""Blocks: rows of pointwise ops that update long tensors in place, piece by piece in cache.

Takes a graph that writes in place (see `weft.aot.inplace`); gives one in which such rows are single calls.
One idea: an optimizer's rule needs a few temporaries as long as a parameter; run on one piece after another,
it needs them as long as a piece. Only ops are taken whose result for an element depends on that element
alone, to the bit.

# Note [Blocks]
    mul_ = m.mul_(0.9)
    add_ = m.add_(g)                       blocks(m, g, p, lr): for each piece of 8,192 elements of the three
    p.add_(add_, alpha=lr)                 tensors, these three calls
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from weft.graph.effects import op_of
from weft.graph.graph import Graph
from weft.graph.node import Node
from weft.trace.module import GraphModule
from weft.trace.scalars import surely_equal

PIECE = 8_192
"""Elements: the operands of a rule and their results stay in a core's own cache, and take half of the memory
that eager's take, which makes up for the arguments that a graph of a whole step has."""
LONGEST = 12
"""Nodes: a row with more of them takes only those that read what it computes."""


class Blocks:
    """Runs a function on pieces of its first arguments, which are of one length."""

    def __init__(self, forward: Callable[..., Any], count: int) -> None:
        self.forward, self.count = forward, count
        self.__name__ = self.__qualname__ = "blocks"
        self.__module__ = "weft.aot.blocks"

    def __call__(self, *values: Any) -> None:
        long, rest = values[: self.count], values[self.count :]
        if not all(value.array.flags.c_contiguous for value in long):
            self.forward(*values)
            return
        rows = [value.array.reshape(-1) for value in long]
        pieces = [value.detach() for value in long]  # tensors that become one piece after another
        for start in range(0, rows[0].size, PIECE):
            for piece, row in zip(pieces, rows, strict=True):
                piece.array = row[start : start + PIECE]
            self.forward(*pieces, *rest)


def shape_of(node: Node) -> tuple[int, ...] | None:
    """The shape of a node's value, None for a number."""
    array = getattr(node.meta.get("val"), "array", None)
    return None if array is None else tuple(array.shape)


def writes(node: Node) -> bool:
    return node.op == "call_method" and str(node.target).endswith("_")


class _Row:
    """Nodes of one shape that shall become one call."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        self.shape = shape
        self.nodes: dict[Node, None] = {}

    def takes(self, node: Node) -> bool:
        """Whether a node computes each element from those in the same place, and from single ones."""
        found = op_of(node)
        if found is None or not found[0].exact or not surely_equal(shape_of(node), self.shape):
            return False
        if len(self.nodes) >= LONGEST and not any(used in self.nodes for used in node.all_input_nodes):
            return False
        if writes(node) and node.args[0] not in self.nodes and self.target(node).op != "placeholder":
            return False
        shapes = [shape_of(used) for used in node.all_input_nodes]
        return all(not shape or surely_equal(shape, self.shape) for shape in shapes)

    def target(self, node: Node) -> Node:
        """The tensor that a node writes to: an input, or what another node has made."""
        while writes(node) and isinstance(node.args[0], Node):
            node = node.args[0]
        return node

    def outer(self) -> dict[Node, Node] | None:
        """The nodes that others read, with the inputs that they are; None where one is no input."""
        found: dict[Node, Node] = {}
        for node in self.nodes:
            if any(user not in self.nodes for user in node.users):
                found[node] = self.target(node)
        if any(node.op != "placeholder" for node in found.values()):
            return None
        return found if len(self.nodes) > 1 and any(map(writes, self.nodes)) else None


def in_blocks(module: GraphModule) -> GraphModule:
    """The module, or one with rows as single calls."""
    if not any(map(writes, module.graph.nodes)):
        return module
    made = _Maker()
    for node in module.graph.nodes:
        made.visit(node)
    return GraphModule(module, made.graph, type(module).__name__) if made.rows else module


class _Maker:
    """Copies a graph, row by row."""

    def __init__(self) -> None:
        self.graph = Graph()
        self.copies: dict[Node, Any] = {}
        self.row: _Row | None = None
        self.rows = 0

    def visit(self, node: Node) -> None:
        shape = shape_of(node)
        if self.row is not None and self.row.takes(node):
            self.row.nodes[node] = None
            return
        long = shape is not None and all(type(n) is int for n in shape) and _length(shape) > 2 * PIECE
        fresh = _Row(shape) if shape is not None and long else None
        starts = fresh is not None and fresh.takes(node)
        if self.row is not None and (starts or any(used in self.row.nodes for used in node.all_input_nodes)):
            self.close()
        if starts and fresh is not None:
            fresh.nodes[node] = None
            self.row = fresh
        else:
            self.copies[node] = self.graph.node_copy(node, self.copies.__getitem__)

    def close(self) -> None:
        """Ends the row: as one call where that is possible, else unchanged."""
        row, self.row = self.row, None
        assert row is not None
        outer = row.outer()
        if outer is None:
            for node in row.nodes:
                self.copies[node] = self.graph.node_copy(node, self.copies.__getitem__)
            return
        read = [used for node in row.nodes for used in node.all_input_nodes if used not in row.nodes]
        long = list(dict.fromkeys(used for used in read if surely_equal(shape_of(used), row.shape)))
        rest = list(dict.fromkeys(used for used in read if used not in long))
        inner = Graph()
        copies = {node: inner.placeholder(node.name) for node in (*long, *rest)}
        for node in row.nodes:
            copies[node] = inner.node_copy(node, copies.__getitem__)
        inner.output(())
        blocks = Blocks(GraphModule(None, inner, "Block").forward, len(long))
        self.graph.call_function(blocks, tuple([self.copies[node] for node in (*long, *rest)]))
        self.copies.update({node: self.copies[target] for node, target in outer.items()})
        self.rows += 1


def _length(shape: tuple[int, ...]) -> int:
    length = 1
    for size in shape:
        length *= size
    return length
