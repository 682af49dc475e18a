"""Failing: whether a node may raise for some data of the types that it was made for.

Takes a node; answers yes or no, and yes where it does not know. One idea: data are refused where they are
places among other data (kinds INDEX, and losses by class), by linear algebra, as parameters of random
numbers, as integer divisors, and by little else; what a composite may refuse is what the ops in its body may.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import cache
from typing import Any, Final

from weft.core.dtypes import dtype
from weft.graph.effects import PURE_FUNCTIONS, names_in, op_of
from weft.graph.node import Node, nodes_in
from weft.ops.record import REGISTRY, Kind, Op, ops

DIVISIONS: Final = (
    "div", "remainder", "fmod", "floor_divide", "floordiv", "mod", "truediv", "true_divide",
    "bitwise_left_shift", "bitwise_right_shift", "lshift", "rshift",
)  # fmt: skip
REFUSING: Final = frozenset(
    {
        "bernoulli", "_bernoulli", "normal", "_normal", "multinomial", "philox_bernoulli_by",
        "philox_normal_by", "philox_multinomial", "binary_cross_entropy",
    }
)  # fmt: skip
"""Ops that look at floating point data, and refuse some."""
BY_CLASS: Final = frozenset({"nll_loss", "nll_loss_backward"})
ANY_MATRIX: Final = frozenset({"vector_norm", "cross", "vecdot", "diagonal", "multi_dot"})
"""Linear algebra that knows no singular case."""
COPIES: Final = frozenset(
    {
        "clone", "_to_copy", "copy", "fill", "zero", "cat", "stack", "repeat", "flip", "roll", "tril", "triu",
        "view_scatter", "_unsafe_view", "cumsum", "cumprod", "diag_embed", "_diagonal_copy",
        "constant_pad_nd", "argsort", "_topk_indices",
    }
)  # fmt: skip
"""Ops that move elements to places that no data name."""
SAFE_CALLS: Final = frozenset(
    {
        "item", "copy_", "fill_", "zero_", "detach", "detach_", "to", "float", "double", "half", "bfloat16",
        "long", "int", "bool", "type", "type_as", "cpu", "contiguous", "requires_grad_", "size", "dim",
    }
)  # fmt: skip
"""Methods without a record that only read, copy or convert."""
SAFE_FUNCTIONS: Final = (PURE_FUNCTIONS - {f for f in vars(math).values() if callable(f)}) - {
    complex, divmod, float, int, pow, round,
}  # fmt: skip


def can_fail(node: Node) -> bool:
    """Whether a node may raise, given that its inputs have the types they had."""
    if not node.op.startswith("call_"):
        return False
    if overlaps(node):
        return True
    found = op_of(node)
    if found is None:
        name: str = node.target if isinstance(node.target, str) else getattr(node.target, "__name__", "")
    else:
        name = found[1]
    if name in ("getitem", "setitem"):
        return bool(nodes_in(node.args[1]))  # an index among the data
    if name.startswith(DIVISIONS) or "pow" in name:
        return not _is_floating(node.meta.get("val"))
    if found is not None:
        op = found[0]
        return fails(op, False) or (fails(op, True) and any(map(_holds_places, node.all_input_nodes)))
    if node.op == "call_method":
        return name not in SAFE_CALLS
    if node.op == "call_function" and node.target in SAFE_FUNCTIONS:
        return False
    return not (getattr(node.target, "__module__", "") == "_operator" or name.startswith("_set_"))


def overlaps(node: Node) -> bool:
    """Whether a node reads memory that it writes, as another tensor: with a part in common, it is refused."""
    for written in node.meta.get("writes", ()):
        target = written.meta.get("val")
        for other in node.all_input_nodes:
            value = other.meta.get("val")
            if other is not written and value is not target and _memory(value) & _memory(target):
                return True
    return False


def _memory(value: Any) -> set[int]:
    """What tensors over the same memory have in common: a version, or a count of writes."""
    found = getattr(value, "cell", None), getattr(getattr(value, "array", None), "written", None)
    return {id(each) for each in found if type(each) is list}


@cache
def fails(op: Op, places: bool) -> bool:
    """Whether an op may refuse data; `places`: whether it is given numbers that can be places."""
    if op.kind is Kind.COMPOSITE:
        return op.body is None or any(fails(inner, places) for inner in _ops_behind(op))
    if op in _linear_algebra():
        return op.name not in ANY_MATRIX
    if op.kind is Kind.INDEX:
        return places and op.name not in COPIES
    return op.name in REFUSING or (places and op.name in BY_CLASS)


@cache
def _linear_algebra() -> frozenset[Op]:
    return frozenset(op for name, op in REGISTRY.items() if name.startswith("linalg."))


def _ops_behind(op: Op) -> Iterator[Op]:
    """The ops, but for composites, that a composite's body names, in any helper it names."""
    seen: set[int] = set()
    waiting: list[Any] = [op]
    while waiting:
        value = waiting.pop()
        if id(value) in seen:
            continue
        seen.add(id(value))
        if isinstance(value, Op) and value.kind is not Kind.COMPOSITE:
            yield value
            continue
        function: Any = value.body if isinstance(value, Op) else value
        if hasattr(function, "__code__"):
            for name in names_in(function.__code__):
                waiting += _named(function, name)


def _named(function: Any, name: str) -> list[Any]:
    """What a name in a function's code stands for, as far as it is an op or one of the library's helpers."""
    value = function.__globals__.get(name)
    if value is None:  # `ops.mul`, `ops.linalg_inv`, `x.add_`
        value = getattr(ops, name, None) or REGISTRY.get(name.removesuffix("_"))
    op = value if isinstance(value, Op) else getattr(value, "op", None)
    if isinstance(op, Op):
        return [op]
    inside = (getattr(value, "__module__", None) or "").startswith("weft.ops")
    return [value] if inside and callable(value) and not isinstance(value, type) else []


def _is_floating(value: Any) -> bool:
    kind = getattr(value, "dtype", None)
    return isinstance(kind, dtype) and bool(kind.is_floating_point or kind.is_complex)


def _holds_places(node: Node) -> bool:
    """Whether a node's value may hold integers or truths."""
    value = node.meta.get("val")
    if isinstance(value, (tuple, list)):
        return not all(map(_is_floating, value))
    return not _is_floating(value) and not isinstance(value, (int, float, bool))
