"""Bits on demand: what machine code may compute where results are to have eager's bits.

Takes what an op was lowered to; says whether that gives the bits of the op's array kernel. What does not is
called as it is, between pieces of machine code, on arrays that lie as eager's do: kernels of libraries add up
in an order that follows from that. One idea: a body of IEEE arithmetic rounds where the kernel does, and all
else is found out by looking at the body. No op is named.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import numpy as np
from numpy.lib.stride_tricks import as_strided

from weft.graph.node import Node
from weft.native.ir.definitions import Definition, Gather, Given, Opaque, Point, Reshape, Stack, View
from weft.native.ir.scalar import FLOATS
from weft.native.lower.layouts import row_major
from weft.native.plan.units import Indices, Inlining
from weft.ops.record import Kind, Op

MOVES: Final = frozenset({
    "const", "scalar", "load", "index", "cast", "select", "eq", "ne", "lt", "le", "gt", "ge", "and", "or",
    "xor", "not", "neg", "abs", "min", "max", "floor", "ceil", "trunc", "rint", "shl", "shr",
})  # fmt: skip
"""Instructions that round nothing, but for conversions, which have one result."""
ROUNDS: Final = frozenset({"add", "sub", "mul", "div", "sqrt"})
"""Those of which IEEE says what they give."""


def gives_eagers_bits(op: Op, made: Any, bound: Sequence[Any]) -> bool:
    """Whether definitions of an op's results have the bits of its array kernel."""
    known = {id(each) for each in definitions_in(bound)}
    waiting = [each for each in definitions_in([made]) if id(each) not in known]
    rounds = 0
    while waiting:
        each = waiting.pop()
        known.add(id(each))
        if type(each) is Point:
            found = roundings(each)
            if found is None:
                return False
            rounds += found
        elif type(each) not in (Given, View, Reshape, Gather, Stack, Opaque) or is_product(each):
            return False
        waiting += [operand for operand in operands_of(each) if id(operand) not in known]
    return rounds <= 1 or op.kind is Kind.POINTWISE


def is_product(each: Definition) -> bool:
    """Whether a definition is more than a call of an array kernel, or a row of values."""
    return isinstance(each, Opaque) and type(each) not in (Opaque, Stack)


def operands_of(each: Any) -> Sequence[Definition]:
    found: Sequence[Definition] = each.operands
    return found


def definitions_in(values: Sequence[Any]) -> Iterator[Definition]:
    for value in values:
        if isinstance(value, Definition):
            yield value
        elif isinstance(value, (tuple, list)):
            yield from definitions_in(value)


def roundings(point: Point) -> int | None:
    """How often an element of this value is rounded on its way; None for instructions that no kernel need
    have."""
    builder = Inlining(Indices(()), [], lambda _: False, lambda *_: None).builder
    values = [builder.load(place, each.type) for place, each in enumerate(point.operands)]
    point.make(builder, values, lambda axis: builder.make("index", "i64", value=axis))
    rounds = 0
    for each in builder.instructions:
        if each.op in ROUNDS or (each.op == "rem" and each.type not in FLOATS):
            rounds += each.type in FLOATS
        elif each.op not in MOVES:
            return None
    return rounds


def lying_as(op: Callable[..., Any], strides: Sequence[Any]) -> Callable[..., Any]:
    """The op, on arrays that it is given in some order in memory, and that are to lie as these strides (in
    elements) say: one for each argument, None where it may lie as it does."""

    def call(*args: Any) -> Any:
        return op(*[laid_out(value, wanted) for value, wanted in zip(args, strides, strict=True)])

    return call


def laid_out(value: Any, strides: Any) -> Any:
    """An array, or those in a list, with these strides."""
    if strides is None:
        return value
    if isinstance(value, (tuple, list)):
        return type(value)([laid_out(each, one) for each, one in zip(value, strides, strict=True)])
    if not isinstance(value, np.ndarray):
        return value
    steps = tuple([step * value.itemsize for step in strides])
    if value.strides == steps or not value.size:
        return value
    behind = sum((n - 1) * max(step, 0) for n, step in zip(value.shape, strides))
    before = sum((n - 1) * min(step, 0) for n, step in zip(value.shape, strides))
    memory = np.empty(behind - before + 1, value.dtype)
    made = as_strided(memory[-before:], value.shape, steps)
    made[...] = value
    return made


def strides_wanted(argument: Any, layouts: Callable[[Node], Any]) -> Any:
    """How an argument of a node lies in eager code; None where that is row by row."""
    if isinstance(argument, (tuple, list)):
        found = [strides_wanted(each, layouts) for each in argument]
        return found if any(each is not None for each in found) else None
    if not isinstance(argument, Node):
        return None
    array = getattr(argument.meta.get("val"), "array", None)
    strides = layouts(argument) if array is not None else None
    if array is None or not isinstance(strides, tuple) or strides == row_major(array.shape):
        return None
    return strides
