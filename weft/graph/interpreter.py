"""Running a graph node by node.

Takes a graph and arguments; gives what the graph returns. One idea: every call goes through `call`, so that
whoever interprets may trace, time, check or replace each operation; with the default it simply runs, also
under a recording mode, which makes interpreting traceable.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from weft.graph.node import Node, map_arg
from weft.graph.text import last_uses

if TYPE_CHECKING:
    from weft.graph.graph import Graph

Call = Callable[[Node, Callable[..., Any], tuple[Any, ...], dict[str, Any]], Any]


def plain_call(
    node: Node, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    """Calls the function; what `run` does unless told otherwise."""
    return function(*args, **kwargs)


def method(name: str) -> Callable[..., Any]:
    """The function that calls the method `name` of its first argument."""

    def call(receiver: object, *args: object, **kwargs: object) -> Any:
        return getattr(receiver, name)(*args, **kwargs)

    call.__name__ = name
    return call


def attribute(owner: object, path: str) -> Any:
    """`owner.layers.0.weight` for the path `layers.0.weight`."""
    for part in path.split("."):
        owner = getattr(owner, part)
    return owner


def bind_placeholders(graph: Graph, args: Sequence[Any]) -> dict[Node, Any]:
    """The values of the inputs; defaults where arguments run out."""
    values: dict[Node, Any] = {}
    rest = list(args)
    for node in graph.placeholders:
        if node.target.startswith("*"):
            values[node] = tuple(rest)
            rest = []
        elif rest:
            values[node] = rest.pop(0)
        elif node.args:
            values[node] = node.args[0]
        else:
            raise TypeError(f"the graph needs a value for {node.target}; {len(args)} were given")
    if rest:
        raise TypeError(f"the graph takes {len(values)} values; {len(args)} were given")
    return values


def run(graph: Graph, args: Sequence[Any] = (), call: Call = plain_call, owner: object = None) -> Any:
    """Runs the graph. `owner` is where attributes and submodules live; sub-graphs are found in the graph."""
    values = bind_placeholders(graph, args)
    freed = last_uses(graph)
    for node in graph.nodes:
        if node.op == "placeholder":
            continue
        inputs = map_arg(node.args, values.__getitem__)
        if node.op == "output":
            return inputs[0]
        options = map_arg(node.kwargs, values.__getitem__)
        if node.op == "get_attr":
            inner = graph.subgraphs.get(node.target)
            values[node] = attribute(owner, node.target) if inner is None else _callable(inner, call, owner)
        else:
            values[node] = call(node, _function(node, owner), inputs, options)
        for unread in freed.get(node, ()):
            del values[unread]
    return None


def _function(node: Node, owner: object) -> Callable[..., Any]:
    if node.op == "call_function":
        function: Callable[..., Any] = node.target
        return function
    return method(node.target) if node.op == "call_method" else attribute(owner, node.target)


def _callable(graph: Graph, call: Call, owner: object) -> Callable[..., Any]:
    def body(*args: object) -> Any:
        return run(graph, args, call, owner)

    body.__name__ = graph.name
    body.graph = graph  # type: ignore[attr-defined]
    return body
