"""Graphs that take lists of tensors, as graphs that take tensors.

Takes a captured graph whose placeholders include lists (compiled autograd hands a whole tape over as one);
gives a graph with one placeholder per item that is read, and where each comes from. One idea: what compiles
graphs ahead of time need not know that there are lists.
"""

from __future__ import annotations

import operator
from typing import Any, NamedTuple

from weft.graph.graph import Graph
from weft.graph.node import Node, map_arg
from weft.trace.module import GraphModule


class WithoutLists(NamedTuple):
    """A graph without lists; for each of its inputs the argument, and the item of it if that is a list."""

    module: GraphModule
    places: list[tuple[int, int | None]]

    def inputs(self, args: Any) -> list[Any]:
        """What the graph takes, for the arguments of the one with lists."""
        return [args[place] if item is None else args[place][item] for place, item in self.places]


def open_lists(module: GraphModule) -> WithoutLists | None:
    """The graph with its lists taken apart; None where there are none, or they are used in another way."""
    graph: Graph = module.graph
    lists = [node for node in graph.placeholders if node.type is list]
    items = [user for node in lists for user in node.users]
    if not lists or any(
        node.target is not operator.getitem or type(node.args[1]) is not int for node in items
    ):
        return None
    made = Graph()
    made.subgraphs = dict(graph.subgraphs)
    known: dict[Node, Node] = {}
    places: list[tuple[int, int | None]] = []
    for place, node in enumerate(graph.placeholders):
        if node.type is not list:
            known[node] = made.node_copy(node, known.__getitem__)
            places.append((place, None))
            continue
        for user in node.users:
            known[user] = made.placeholder(user.name, val=user.meta.get("val"))
            places.append((place, user.args[1]))
    for node in graph.nodes:
        if node.op == "output":
            made.output(map_arg(node.args[0], known.__getitem__))
        elif node.op != "placeholder" and node not in known:
            known[node] = made.node_copy(node, known.__getitem__)
            writes = node.meta.get("writes")
            if writes:
                known[node].meta["writes"] = tuple([known[each] for each in writes])
    return WithoutLists(GraphModule(module, made, "GraphModule"), places)
