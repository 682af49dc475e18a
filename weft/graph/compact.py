"""The compact print: a graph as a table of typed values, for people.

Takes a graph; gives

    graph forward(x: f32[2,3], w: f32[3,3]):                    # model.py:7
      %0: f32[2,3] = matmul(x, w)                               # model.py:8
      return %0

One idea: values are numbers, inputs keep their names, and a line names its place only where it differs from
the line before.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from weft.graph.describe import describe as describe_value
from weft.graph.names import Paths, public_path
from weft.graph.node import AnyGraph, Node
from weft.graph.spelling import Readable

if TYPE_CHECKING:
    from weft.graph.graph import Graph

COMMENT_COLUMN: Final = 60
Describe = Callable[[Any], str | None]


class Numbered(Readable):
    """Spells nodes as `%0` and calls by their last name alone."""

    kwarg = "{}={}"

    def __init__(self, graph: Graph, paths: Paths) -> None:
        super().__init__(paths)
        self.names: dict[Node, str] = {}
        count = 0
        for node in graph.nodes:
            if node.op == "placeholder":
                self.names[node] = node.target.replace("*", "")
            elif node.op == "get_attr" and node.target in graph.subgraphs:
                self.names[node] = node.target
            elif node.op != "output":
                self.names[node] = f"%{count}"
                count += 1

    def node(self, node: Node) -> str:
        return self.names.get(node, node.name)

    def call(self, node: Node) -> str:
        if node.op == "get_attr":
            return f"self.{node.target}"
        if node.op == "call_function":
            called = public_path(node.target).rpartition(".")[2].replace("<lambda>", "lambda")
        else:
            called = node.target if node.op == "call_method" else f"self.{node.target}"
        return f"{called}({self.arguments(node.args, node.kwargs)})"


def _place(source: Any) -> str | None:
    return None if source is None else f"{os.path.basename(source[0])}:{source[1]}"


def _commented(line: str, place: str | None) -> str:
    return line if place is None else f"{line.ljust(COMMENT_COLUMN - 2)}  # {place}"


def _typed(name: str, value: object, describe: Describe) -> str:
    text = describe(value) if value is not None else None
    return name if text is None else f"{name}: {text}"


def compact(graph: Graph, *, describe: Describe = describe_value, namespace: str | None = None) -> str:
    """The graph in STYLE's form; sub-graphs follow, indented, under their names."""
    return "\n".join(_lines(graph, graph.name, describe, Paths(namespace)))


def _lines(graph: Graph, name: str, describe: Describe, paths: Paths) -> list[str]:
    spelling = Numbered(graph, paths)
    inputs = ", ".join(
        _typed(node.target, node.meta.get("val"), describe)
        if node.meta.get("val") is not None or node.type is None
        else f"{node.target}: {getattr(node.type, '__name__', node.type)}"
        for node in graph.placeholders
    )
    previous = _place(graph.source)
    lines = [_commented(f"graph {name}({inputs}):", previous)]
    for node in graph.nodes:
        if node.op == "placeholder" or (node.op == "get_attr" and node.target in graph.subgraphs):
            continue
        if node.op == "output":
            lines.append(f"  return {spelling.value(node.args[0])}")
            continue
        place = _place(node.meta.get("source"))
        left = _typed(spelling.node(node), node.meta.get("val"), describe)
        lines.append(_commented(f"  {left} = {spelling.call(node)}", place if place != previous else None))
        previous = place or previous
    inner: dict[str, Any] = dict(graph.subgraphs)
    inner.update(spelling.graphs.values())
    for key, sub in inner.items():
        if isinstance(sub, AnyGraph):
            lines += [f"  {line}" for line in _lines(sub, key, describe, paths)]  # type: ignore[arg-type]
    return lines


def tabular(graph: Graph) -> str:
    """The nodes as a table: op, name, target, arguments."""
    head = ("opcode", "name", "target", "args", "kwargs")
    rows = [(node.op, node.name, _target(node), repr(node.args), repr(node.kwargs)) for node in graph.nodes]
    widths = [max(len(row[column]) for row in [head, *rows]) for column in range(len(head))]
    rule = tuple("-" * width for width in widths)
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip()
        for row in [head, rule, *rows]
    )


def _target(node: Node) -> str:
    return node.target if isinstance(node.target, str) else public_path(node.target)
