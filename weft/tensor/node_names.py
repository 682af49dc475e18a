"""What nodes of the tape are called: PyTorch has a name for each overload of an op, Weft a class for each op.

Takes a node; gives the name that `grad_fn` prints. One idea: the class name, unless a rule of the op says
more of this call: which arguments were numbers, whether a dim was given.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from weft.core.interrupts import let_through

if TYPE_CHECKING:
    from weft.tensor.tape import Node


def labelled(result: object, name: str) -> Any:
    """The result of a composite op, whose last node is called as PyTorch calls its one node."""
    node = getattr(result, "node", None)
    if node is not None:
        node.__dict__["label"] = name
    return result


def node_name(node: Node) -> str:
    """The name of a node, such as `SumBackward1`."""
    label: str | None = getattr(node, "__dict__", {}).get("label")
    if label is not None:
        return label
    rule = getattr(getattr(node, "op", None), "node_name", None)
    if rule is None or type(node).__name__ == "CompiledFunctionBackward":
        return type(node).__name__
    try:
        return str(rule(node))
    except (AttributeError, IndexError, TypeError) as error:  # a node of another layout
        let_through(error)
        return type(node).__name__
