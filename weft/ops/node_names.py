"""Names of nodes on the tape that depend on the call: PyTorch has a name for each overload of an op.

Gives values for the field `node_name` of records: functions from a node to what `grad_fn` prints. One idea:
which overload it was shows in which arguments were numbers, and whether a dim was given.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from weft.core.naming import naming


def is_number(node: Any, slot: int) -> bool:
    """Whether the tensor argument with this number was given as a number, or not at all."""
    return node.types is not None and len(node.types) > 2 * slot and node.types[2 * slot] is None


def if_given(param: int, without: str, given: str) -> Callable[[Any], str]:
    return lambda node: without if node.params[param] is None else given


def by_number(slot: int, number: str, tensor: str) -> Callable[[Any], str]:
    return lambda node: number if is_number(node, slot) else tensor


def power(node: Any) -> str:
    if is_number(node, 0):
        return "PowBackward2"
    return "PowBackward0" if is_number(node, 1) else "PowBackward1"


def clamp(node: Any) -> str:
    return "ClampBackward1" if is_number(node, 1) and is_number(node, 2) else "ClampBackward0"


def squeeze(node: Any) -> str:
    dim = node.params[0]
    return (
        "SqueezeBackward0" if dim is None else "SqueezeBackward1" if type(dim) is int else "SqueezeBackward2"
    )


def product(node: Any) -> str:
    left, right = len(node.types[0]), len(node.types[2])
    known = {(1, 1): "DotBackward0", (2, 1): "MvBackward0", (1, 2): "SqueezeBackward4", (2, 2): "MmBackward0"}
    return known.get((left, right), "UnsafeViewBackward0")


def linear(node: Any) -> str:
    biased, rank = not is_number(node, 2), len(node.types[0])
    if rank == 2:
        return "AddmmBackward0" if biased else "MmBackward0"
    return "ViewBackward0" if biased else "UnsafeViewBackward0"


def division(node: Any) -> str:
    return "DivBackward0" if node.params[0] is None else "DivBackward2"


def xlogy(node: Any) -> str:
    return (
        "XlogyBackward1"
        if is_number(node, 0)
        else "XlogyBackward2"
        if is_number(node, 1)
        else "XlogyBackward0"
    )


def not_implemented(_node: Any) -> str:
    """The name of nodes whose gradient PyTorch refuses."""
    return f"{naming.namespace}::autograd::NotImplemented"
