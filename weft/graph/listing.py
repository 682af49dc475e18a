"""The list of a graph's nodes in FX's own form, one a line: what `print(graph)` shows under PyTorch's name.

graph():
    %x : [num_users=1] = placeholder[target=x]
    %add : [num_users=1] = call_function[target=operator.add](args = (%x, 1), kwargs = {})
    return add
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from weft.graph.names import Paths
from weft.graph.node import Node

if TYPE_CHECKING:
    from weft.graph.graph import Graph


def listing(graph: Graph) -> str:
    """All nodes of a graph."""
    lines = ["graph():"]
    for node in graph.nodes:
        lines.append("    " + format_node(node))
    return "\n".join(lines)


def format_node(node: Node) -> str:
    """One node, as FX writes it."""
    paths = Paths()
    kind = "" if node.type is None else f"{_type_text(node.type, paths)} "
    head = f"%{node.name} : {kind}[num_users={len(node.users)}] ="
    if node.op == "placeholder":
        default = f"(default={node.args[0]})" if node.args else ""
        return f"{head} placeholder[target={node.target}]{default}"
    if node.op == "get_attr":
        return f"{head} get_attr[target={node.target}]"
    if node.op == "output":
        returned = "" if node.type is None else f" -> {_type_text(node.type, paths)}"
        return f"return{returned} {_returned(node.args[0])}"
    target = node.target if isinstance(node.target, str) else paths.of(node.target)
    return (
        f"{head} {node.op}[target={target}](args = {_argument(node.args)}, kwargs = {_argument(node.kwargs)})"
    )


def _type_text(kind: Any, paths: Paths) -> str:
    return paths.of(kind) if isinstance(kind, type) else str(kind)


def _returned(value: Any) -> str:
    """FX writes what is returned as Python writes it, nodes by name."""
    return str(value)


def _argument(value: Any) -> str:
    if isinstance(value, Node):
        return f"%{value.name}"
    if isinstance(value, list):
        return f"[{', '.join(map(_argument, value))}]"
    if isinstance(value, tuple) and not hasattr(value, "_fields"):
        inner = ", ".join(map(_argument, value))
        return f"({inner},)" if len(value) == 1 else f"({inner})"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{key}: {_argument(item)}' for key, item in value.items())}}}"
    return str(value)
