"""What nodes of the tape are called: PyTorch has a name for each overload of an op, Weft a class for each op.

Takes a node; gives the name that `grad_fn` prints. One idea: the class name, unless a rule of the op says
more of this call: which arguments were numbers, whether a dim was given.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from weft.core.naming import naming


def _is_number(node: Any, slot: int) -> bool:
    """Whether the tensor argument with this number was given as a number, or not at all."""
    return node.types is not None and len(node.types) > 2 * slot and node.types[2 * slot] is None


def _given(param: int, without: str, given: str) -> Callable[[Any], str]:
    return lambda node: without if node.params[param] is None else given


def _by_number(slot: int, number: str, tensor: str) -> Callable[[Any], str]:
    return lambda node: number if _is_number(node, slot) else tensor


def _power(node: Any) -> str:
    if _is_number(node, 0):
        return "PowBackward2"
    return "PowBackward0" if _is_number(node, 1) else "PowBackward1"


def _clamp(node: Any) -> str:
    return "ClampBackward1" if _is_number(node, 1) and _is_number(node, 2) else "ClampBackward0"


def _squeeze(node: Any) -> str:
    dim = node.params[0]
    return (
        "SqueezeBackward0" if dim is None else "SqueezeBackward1" if type(dim) is int else "SqueezeBackward2"
    )


def _product(node: Any) -> str:
    left, right = len(node.types[0]), len(node.types[2])
    known = {(1, 1): "DotBackward0", (2, 1): "MvBackward0", (1, 2): "SqueezeBackward4", (2, 2): "MmBackward0"}
    return known.get((left, right), "UnsafeViewBackward0")


def _linear(node: Any) -> str:
    biased, rank = not _is_number(node, 2), len(node.types[0])
    if rank == 2:
        return "AddmmBackward0" if biased else "MmBackward0"
    return "ViewBackward0" if biased else "UnsafeViewBackward0"


def _division(node: Any) -> str:
    return "DivBackward0" if node.params[0] is None else "DivBackward2"


def _xlogy(node: Any) -> str:
    return (
        "XlogyBackward1"
        if _is_number(node, 0)
        else "XlogyBackward2"
        if _is_number(node, 1)
        else "XlogyBackward0"
    )


RULES: Final[dict[str, Callable[[Any], str]]] = {
    "sum": _given(0, "SumBackward0", "SumBackward1"),
    "mean": _given(0, "MeanBackward0", "MeanBackward1"),
    "prod": _given(0, "ProdBackward0", "ProdBackward1"),
    "clamp": _clamp,
    "clamp_min": _by_number(1, "ClampMinBackward0", "ClampMinBackward1"),
    "clamp_max": _by_number(1, "ClampMaxBackward0", "ClampMaxBackward1"),
    "pow": _power,
    "remainder": _by_number(1, "RemainderBackward0", "RemainderBackward1"),
    "fmod": _by_number(1, "FmodBackward0", "FmodBackward1"),
    "squeeze": _squeeze,
    "lerp": _by_number(2, "LerpBackward0", "LerpBackward1"),
    "matmul": _product,
    "linear": _linear,
    "div": _division,
    "xlogy": _xlogy,
    "copysign": _by_number(1, "CopysignBackward1", "CopysignBackward0"),
    "scatter": _by_number(2, "ScatterBackward1", "ScatterBackward0"),
    "masked_fill": _by_number(2, "MaskedFillBackward0", "MaskedFillBackward1"),
    "index_fill": _by_number(2, "IndexFillBackward0", "IndexFillBackward1"),
    "log1p": lambda node: "Log1PBackward0",
    "floor_divide": lambda node: f"{naming.namespace}::autograd::NotImplemented",
    "heaviside": lambda node: f"{naming.namespace}::autograd::NotImplemented",
}


def labelled(result: Any, name: str) -> Any:
    """The result of a composite op, whose last node is called as PyTorch calls its one node."""
    node = getattr(result, "node", None)
    if node is not None:
        node.__dict__["label"] = name
    return result


def node_name(node: Any) -> str:
    """The name of a node, such as `SumBackward1`."""
    label: str | None = getattr(node, "__dict__", {}).get("label")
    if label is not None:
        return label
    rule = RULES.get(getattr(getattr(node, "op", None), "name", ""))
    if rule is None or type(node).__name__ == "CompiledFunctionBackward":
        return type(node).__name__
    try:
        return rule(node)
    except (AttributeError, IndexError, TypeError):  # a node of another layout
        return type(node).__name__
