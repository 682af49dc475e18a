"""Checking a graph: that it is what every pass may rely on.

Takes a graph; raises `GraphError` with everything that is wrong. One idea: the rules are small functions that
give complaints, so that a broken graph is described whole. The captured dialect allows any callable, methods
and modules; the core dialect only op records, `getitem`, and values with types.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Final

from weft.core.trees import flatten
from weft.graph.node import OP_CODES, AnyGraph, Node, nodes_in
from weft.ops.record import Op

if TYPE_CHECKING:
    from weft.graph.graph import Graph


class GraphError(RuntimeError):
    """A graph that breaks the rules."""


def _order(graph: Graph) -> Iterator[str]:
    seen: set[Node] = set()
    finished = begun = False
    for node in graph.nodes:
        if finished:
            yield f"{node.name} stands behind the output"
        for used in nodes_in((node.args, node.kwargs)):
            if used.graph is not graph:
                yield f"{node.name} reads {used.name}, which belongs to another graph"
            elif used._erased:
                yield f"{node.name} reads {used.name}, which was erased"
            elif used not in seen:
                yield f"{node.name} reads {used.name} before it was defined"
        if node.op == "placeholder":
            if begun:
                yield f"placeholder {node.name} stands behind other nodes"
        else:
            begun = True
        finished = finished or node.op == "output"
        seen.add(node)
    if not finished:
        yield "there is no output node"
    if len(seen) != len(graph.nodes):
        yield f"the graph counts {len(graph.nodes)} nodes and holds {len(seen)}"


def _users(graph: Graph) -> Iterator[str]:
    expected: dict[Node, set[Node]] = {node: set() for node in graph.nodes}
    for node in graph.nodes:
        for used in nodes_in((node.args, node.kwargs)):
            if used in expected:
                expected[used].add(node)
    for node, users in expected.items():
        if set(node.users) != users:
            have = sorted(user.name for user in node.users)
            yield f"{node.name} lists the users {have}, but is read by {sorted(user.name for user in users)}"


def _names(graph: Graph) -> Iterator[str]:
    seen: set[str] = set()
    for node in graph.nodes:
        if node.name in seen:
            yield f"the name {node.name} is taken twice"
        if not node.name.isidentifier():
            yield f"{node.name!r} is no identifier"
        seen.add(node.name)


def _forms(graph: Graph) -> Iterator[str]:
    for node in graph.nodes:
        if node.op not in OP_CODES:
            yield f"{node.name} has the unknown op {node.op!r}"
        elif node.op == "call_function":
            if not callable(node.target):
                yield f"{node.name} calls {node.target!r}, which is no function"
        elif not isinstance(node.target, str):
            yield f"{node.name} has op {node.op} and needs a name as its target, not {node.target!r}"
        elif node.op == "call_method" and not node.args:
            yield f"{node.name} calls the method {node.target} of nothing"
        elif node.op == "output" and len(node.args) != 1:
            yield f"the output has {len(node.args)} arguments, not one"


def _core_forms(graph: Graph) -> Iterator[str]:
    for node in graph.nodes:
        if node.op in ("call_method", "call_module"):
            yield f"{node.name} is a {node.op}, which the core dialect has not"
        elif (
            node.op == "call_function"
            and not isinstance(node.target, Op)
            and node.target is not operator.getitem
        ):
            yield f"{node.name} calls {node.target!r}, which is no op record"


def _types(graph: Graph) -> Iterator[str]:
    for node in graph.nodes:
        if node.op in ("placeholder", "call_function", "call_method") and node.meta.get("val") is None:
            yield f'{node.name} has no type in meta["val"]'


Rule = Callable[["Graph"], Iterator[str]]
CAPTURED: Final[tuple[Rule, ...]] = (_order, _users, _names, _forms)
CORE: Final[tuple[Rule, ...]] = (*CAPTURED, _core_forms, _types)
DIALECTS: Final[dict[str, tuple[Rule, ...]]] = {"captured": CAPTURED, "core": CORE}


def complaints(graph: Graph, dialect: str = "captured") -> list[str]:
    """Everything wrong with a graph and its sub-graphs."""
    found = [text for rule in DIALECTS[dialect] for text in rule(graph)]
    for name, inner in _inner_graphs(graph):
        found += [f"in {name}: {text}" for text in complaints(inner, dialect)]
    return found


def _inner_graphs(graph: Graph) -> Iterator[tuple[str, Any]]:
    yield from graph.subgraphs.items()
    for node in graph.nodes:
        for value in flatten((node.args, node.kwargs))[0]:
            if isinstance(value, AnyGraph):
                inner: Any = value
                yield inner.name, inner


def check(graph: Graph, dialect: str = "captured") -> Graph:
    """The graph itself, if it keeps the rules; else GraphError with all complaints."""
    found = complaints(graph, dialect)
    if found:
        raise GraphError("the graph breaks its rules:\n  " + "\n  ".join(found))
    return graph
