"""Splitting a graph: parts of a module become modules of their own, called by what is left.

Takes a GraphModule and a function that says to which part each node belongs; gives a module with a submodule
for each part. One idea: parts are put in an order in which each comes behind all that it reads from; what one
gives to others are its outputs.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import getitem
from typing import Any

from weft.graph.graph import Graph
from weft.graph.interpreter import attribute
from weft.graph.node import Node, map_arg
from weft.nn.modules.module import Module
from weft.trace.module import GraphModule


class GraphPart:
    """One part: its nodes, what they read from outside, and which of them are read there."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.nodes: list[Node] = []
        self.inputs: dict[Node, None] = {}
        self.outputs: dict[Node, None] = {}
        self.after: dict[str, None] = {}  # parts that it reads from


def split_module(
    m: GraphModule,
    root_m: Module,
    split_callback: Callable[[Node], Any],
    qualname_map: dict[str, str] | None = None,
    keep_original_order: bool = False,
    keep_original_node_name: bool = False,
    keep_original_input_name: bool = True,
    *,
    partition_affix: str | None = None,
    tuple_return: bool = False,
) -> GraphModule:
    """A module that computes what `m` does by submodules `submod_0`, `submod_1`, ..., one for each answer of
    `split_callback`. `qualname_map` is filled with where attributes of theirs were before.
    """
    affix = "" if partition_affix is None else f"{partition_affix}_"
    parts: dict[str, GraphPart] = {}
    part_of: dict[Node, GraphPart] = {}
    for node in m.graph.nodes:
        if node.op not in ("placeholder", "get_attr", "output"):
            name = f"submod_{affix}{split_callback(node)}"
            part_of[node] = parts.setdefault(name, GraphPart(name))
            part_of[node].nodes.append(node)
    for node in m.graph.nodes:
        _note_reads(node, part_of)
    order = list(parts.values()) if keep_original_order else _in_order(parts)
    attributes: dict[str, Any] = {}
    for part in order:
        attributes[part.name] = _module_of(part, root_m, qualname_map, keep_original_node_name, tuple_return)
    return _outer(m, root_m, order, attributes, tuple_return)


def _note_reads(node: Node, part_of: dict[Node, GraphPart]) -> None:
    own = part_of.get(node)
    for used in node.all_input_nodes:
        source = part_of.get(used)
        if source is own:
            continue
        if own is not None:
            own.inputs[used] = None
        if source is not None:
            source.outputs[used] = None
            if own is not None:
                own.after[source.name] = None


def _in_order(parts: dict[str, GraphPart]) -> list[GraphPart]:
    """The parts, each behind those that it reads from, else as they come."""
    order: list[GraphPart] = []
    left = dict(parts)
    while left:
        ready = next((part for part in left.values() if not left.keys() & part.after.keys()), None)
        if ready is None:
            raise RuntimeError("cycle exists between partitions!")
        order.append(left.pop(ready.name))
    return order


def _module_of(
    part: GraphPart, root: Module, names: dict[str, str] | None, keep_names: bool, as_tuple: bool
) -> GraphModule:
    graph = Graph()
    inside: dict[Node, Node] = {}
    for used in part.inputs:
        inside[used] = graph.placeholder(used.name, used.type)
        inside[used].meta = dict(used.meta)
    held: dict[str, Any] = {}
    for node in part.nodes:
        target = node.target
        if node.op == "call_module":
            target = node.target.replace(".", "_")
            held[target] = attribute(root, node.target)
            if names is not None:
                names[f"{part.name}.{target}"] = node.target
        args, kwargs = (map_arg(each, inside.__getitem__) for each in (node.args, node.kwargs))
        name = node.name if keep_names else None
        inside[node] = graph.create_node(node.op, target, args, kwargs, name, node.type)
        inside[node].meta = dict(node.meta)
    results = [inside[node] for node in part.outputs]
    graph.output(results[0] if len(results) == 1 and not as_tuple else tuple(results))
    return GraphModule(held, graph)


def _outer(
    m: GraphModule, root: Module, order: list[GraphPart], attributes: dict[str, Any], as_tuple: bool
) -> GraphModule:
    """What calls the parts."""
    graph = Graph()
    outside: dict[Node, Any] = {}
    for node in m.graph.nodes:
        if node.op in ("placeholder", "get_attr"):
            outside[node] = graph.node_copy(node, outside.__getitem__)
            if node.op == "get_attr":
                attributes[node.target] = attribute(m, node.target)
    for part in order:
        called = graph.call_module(part.name, tuple(outside[used] for used in part.inputs))
        if len(part.outputs) == 1 and not as_tuple:
            outside[next(iter(part.outputs))] = called
            continue
        for place, node in enumerate(part.outputs):
            outside[node] = graph.call_function(getitem, (called, place))
    graph.output(map_arg(m.graph.output_node().args[0], outside.__getitem__))
    made = GraphModule(attributes, graph)
    made.training = root.training
    return made
