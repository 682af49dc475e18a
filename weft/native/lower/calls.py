"""Calls: what a node of a graph calls, with which arguments.

Gives an op's record and all its parameters for a node. One idea: whatever reads graphs of ops asks here.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

from weft.graph.node import Node
from weft.native.target import Unlowered as Unlowered
from weft.ops.record import Op


@cache
def _variadic(op: Op) -> int | None:
    return next((i for i, p in enumerate(op.signature.parameters) if p.variadic), None)


def bound_arguments(op: Op, args: Sequence[Any], kwargs: dict[str, Any]) -> tuple[Any, ...]:
    variadic = _variadic(op)
    if variadic is not None and len(args) > variadic and not isinstance(args[variadic], (tuple, list)):
        args = (*args[:variadic], tuple(args[variadic:]))
    if variadic is not None and len(args) == variadic and op.signature.names[variadic] not in kwargs:
        args = (*args, ())
    return op.signature.bind(tuple(args), dict(kwargs))


def is_op(node: Node) -> bool:
    return isinstance(node.target, Op) or getattr(node.target, "op", None) is not None


def op_of(node: Node) -> Op:
    op = node.target if isinstance(node.target, Op) else getattr(node.target, "op", None)
    if op is None or (not isinstance(node.target, Op) and node.target is not op.face):
        raise Unlowered(f"a call of {node.target}")
    return op
