"""Python's operators on tensors: `x + y`, `2 ** x`, `x += 1`, `~mask`, `x < y`, from the op records.

Takes one table from dunder to op; gives Tensor its special methods. One idea: an operator is its op's face
with the same straight path for plain tensors, and one more question before the generic route: an operand of a
foreign type is not ours to refuse, so the answer is NotImplemented and Python tries the other side, or says
"unsupported operand type(s) for +: 'Tensor' and 'str'".
"""

from __future__ import annotations

import numbers
from collections.abc import Callable
from typing import Any

import numpy as np

import weft.tensor.faces as faces
import weft.tensor.source as source
from weft.ops.record import REGISTRY, Op
from weft.ops.signature import OPERAND, TENSOR
from weft.tensor.base import Tensor, wrap
from weft.tensor.overrides import has_override
from weft.tensor.plan import plan_of

BINARY = {
    "__add__": "add",
    "__radd__": "add",
    "__sub__": "sub",
    "__rsub__": "rsub",
    "__mul__": "mul",
    "__rmul__": "mul",
    "__truediv__": "div",
    "__floordiv__": "floor_divide",
    "__mod__": "remainder",
    "__pow__": "pow",
    "__matmul__": "matmul",
    "__and__": "bitwise_and",
    "__rand__": "bitwise_and",
    "__or__": "bitwise_or",
    "__ror__": "bitwise_or",
    "__xor__": "bitwise_xor",
    "__rxor__": "bitwise_xor",
    "__lshift__": "bitwise_left_shift",
    "__rshift__": "bitwise_right_shift",
    "__eq__": "eq",
    "__ne__": "ne",
    "__lt__": "lt",
    "__le__": "le",
    "__gt__": "gt",
    "__ge__": "ge",
}
SWAPPED = {
    "__rpow__": "pow",
    "__rfloordiv__": "floor_divide",
    "__rmod__": "remainder",
    "__rmatmul__": "matmul",
    "__rlshift__": "bitwise_left_shift",
    "__rrshift__": "bitwise_right_shift",
}
INPLACE = {
    "__iadd__": "add",
    "__isub__": "sub",
    "__imul__": "mul",
    "__itruediv__": "div",
    "__ifloordiv__": "floor_divide",
    "__imod__": "remainder",
    "__ipow__": "pow",
    "__iand__": "bitwise_and",
    "__ior__": "bitwise_or",
    "__ixor__": "bitwise_xor",
    "__ilshift__": "bitwise_left_shift",
    "__irshift__": "bitwise_right_shift",
}
UNARY = {"__neg__": "neg", "__pos__": "positive", "__abs__": "abs"}


def is_operand(value: object) -> bool:
    """Whether an operator may hand this value to its op: a tensor, a number, or what overrides functions."""
    return isinstance(value, (Tensor, numbers.Number, np.generic)) or has_override(value)


def is_tensor_operand(value: object) -> bool:
    """The same for ops that take no numbers, such as matmul."""
    return isinstance(value, Tensor) or has_override(value)


def operator_source(op: Op, name: str) -> str:
    """The face as a special method: parameters beyond the operands stand at their defaults."""
    plan = plan_of(op)
    parameters = op.signature.parameters
    tensors = [parameters[i] for i in plan.tensor_slots]
    rest = "".join(f", {parameters[i].name}={parameters[i].default!r}" for i in plan.plain_slots)
    bound = "(" + "".join(f"{p.name}, " for p in parameters) + ")"
    lines = [f"def {name}({', '.join(p.name for p in tensors)}{rest}):"]
    numeric = tensors[-1].annotation == OPERAND
    if op.composed:
        lines += source.composite_block(op, bound)
    elif source.has_fast_path(op, plan):
        lines += source.fast_block(op, plan, tensors, None)
        if len(tensors) == 2 and numeric:
            lines += source.fast_block(op, plan, tensors, tensors[1])
    if name in ("__eq__", "__ne__"):  # else NumPy would leave both to the default, identity
        other = tensors[1].name
        lines += [f"    if isinstance({other}, ndarray):", f"        {other} = wrap({other})"]
    if len(tensors) == 2:
        lines += _refusal(tensors[1].name, numeric)
    return "\n".join([*lines, f"    return dispatch(OP, {bound})"]) + "\n"


def inplace_operator_source(op: Op, name: str) -> str:
    """The in-place form as a special method."""
    head, _, tail = source.inplace_source(op, plan_of(op), name).rpartition("    return dispatch_inplace")
    second = op.signature.parameters[op.signature.tensor_slots[1]]
    return "\n".join([head.rstrip("\n"), *_refusal(second.name, second.annotation != TENSOR)]) + (
        "\n    return dispatch_inplace" + tail
    )


def _refusal(name: str, numeric: bool) -> list[str]:
    question = "is_operand" if numeric else "is_tensor_operand"
    return [f"    if not {question}({name}):", "        return NotImplemented"]


def _swapped(op: Op, name: str) -> Callable[[Any, Any], Any]:
    """`other ∘ self`, for ops that take a number first."""
    accepts = is_operand if op.signature.parameters[0].annotation == OPERAND else is_tensor_operand

    def reflected(self: Tensor, other: Any) -> Any:
        return op.face(other, self) if accepts(other) else NotImplemented

    return _named(reflected, name)


def _named(function: Callable[..., Any], name: str) -> Callable[..., Any]:
    function.__name__, function.__qualname__ = name, f"Tensor.{name}"
    return function


def _divide_into(self: Tensor, other: object) -> Any:
    """`other / self`, as PyTorch computes it."""
    if isinstance(other, np.ndarray):
        other = wrap(other)
    if not is_operand(other):
        return NotImplemented
    return REGISTRY["mul"].face(REGISTRY["reciprocal"].face(self), other)


def _invert(self: Tensor) -> Any:
    """`~self`."""
    if self.array.dtype.kind in "fcV":
        raise TypeError("~ (operator.invert) is only implemented on integer and Boolean-type tensors")
    return REGISTRY["bitwise_not"].face(self)


def install() -> None:
    """Gives Tensor its special methods."""
    faces.SHARED.update(is_operand=is_operand, is_tensor_operand=is_tensor_operand, wrap=wrap)
    for table, write in (
        (BINARY, operator_source),
        (UNARY, operator_source),
        (INPLACE, inplace_operator_source),
    ):
        for name, op in table.items():
            setattr(Tensor, name, faces.stub(REGISTRY[op], name, write))
    for name, op in SWAPPED.items():
        setattr(Tensor, name, _swapped(REGISTRY[op], name))
    for name, function in (("__rtruediv__", _divide_into), ("__invert__", _invert)):
        setattr(Tensor, name, _named(function, name))


install()
