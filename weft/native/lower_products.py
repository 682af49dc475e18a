"""Lowering of matrix products: which memory they read, and how it lies.

Gives rules for `weft.native.lower`. One idea: a transposed matrix is a flag, a broadcast batch a stride of
zero; only what lies in neither order is copied first.
"""

from __future__ import annotations

from math import prod
from typing import Any

from weft.native.blas import FUNCTIONS, function
from weft.native.lower import Lowering, Unlowered, point, rule
from weft.native.lower_folds import each
from weft.native.tensors import (
    Definition,
    Given,
    Matrix,
    Product,
    Reshape,
    Shape,
    View,
    broadcast,
    permuted,
    reshaped,
)
from weft.native.units import row_major

Memory = tuple[Definition, int, Shape]


def memory_of(value: Definition) -> Memory:
    """Where the elements of a definition lie, once what it looks at is kept: offset and strides."""
    if isinstance(value, Given):
        return value, 0, row_major(value.shape) if value.strides is None else value.strides
    if isinstance(value, View):
        base, offset, strides = memory_of(value.base)
        offset += sum(a * b for a, b in zip(strides, value.offsets))
        moves = [sum(a * b[axis] for a, b in zip(strides, value.steps)) for axis in range(len(value.shape))]
        return base, offset, tuple(moves)
    if isinstance(value, Reshape):
        base, offset, strides = memory_of(value.base)
        if strides == row_major(value.base.shape):
            return base, offset, row_major(value.shape)
    return value, 0, row_major(value.shape)


def matrix(value: Definition, operands: list[Definition]) -> Matrix:
    """How a batch of matrices lies in memory; it is copied where BLAS could not read it."""
    copied = point(lambda _b, v, _p: v[0], value.shape, value.type, (value,), "copy")
    for base, offset, strides in (memory_of(value), (copied, 0, row_major(value.shape))):
        rows, columns = value.shape[-2:]
        down, right = strides[-2:]
        batch = joined(value.shape[:-2], strides[:-2])
        if batch is None:
            continue
        if (right == 1 or columns == 1) and (down >= max(columns, 1) or rows == 1):
            return Matrix(number_of(base, operands), offset, False, max(down, columns, 1), batch)
        if (down == 1 or rows == 1) and (right >= max(rows, 1) or columns == 1):
            return Matrix(number_of(base, operands), offset, True, max(right, rows, 1), batch)
    raise Unlowered("matrices that lie in no order")


def number_of(value: Definition, operands: list[Definition]) -> int:
    for number, known in enumerate(operands):
        if known is value:
            return number
    operands.append(value)
    return len(operands) - 1


def joined(shape: Shape, strides: Shape) -> int | None:
    """The one distance between the entries of a batch, if there is one."""
    axes = [(n, s) for n, s in zip(shape, strides) if n != 1]
    if not axes:
        return 0
    for (_, outer), (size, inner) in zip(axes, axes[1:]):
        if outer != inner * size:
            return None
    return axes[-1][1]


def product(left: Definition, right: Definition, name: str) -> Definition:
    """The product of two batches of matrices; the batches broadcast."""
    if left.type != right.type or left.type not in FUNCTIONS or not function(left.type)[0]:
        raise Unlowered(f"products of {left.type} and {right.type}")
    rows, depth = left.shape[-2:]
    columns = right.shape[-1]
    batch = batch_shape(left.shape[:-2], right.shape[:-2])
    if 0 in (*batch, rows, columns, depth):
        raise Unlowered("a product of nothing")
    shape = (*batch, rows, columns)
    if len(right.shape) == 2 and len(left.shape) > 2:  # one product of all rows
        flat = product(reshaped(left, (prod(left.shape[:-1]), depth)), right, name)
        return reshaped(flat, shape)
    operands: list[Definition] = []
    spread = [broadcast(value, (*batch, *value.shape[-2:])) for value in (left, right)]
    return Product(
        shape=shape, type=left.type, name=name, call=None, operands=operands, rows=rows, columns=columns,
        depth=depth, count=prod(batch), left=matrix(spread[0], operands), right=matrix(spread[1], operands),
    )  # fmt: skip


def batch_shape(left: Shape, right: Shape) -> Shape:
    rank = max(len(left), len(right))
    pairs = zip((1,) * (rank - len(left)) + left, (1,) * (rank - len(right)) + right)
    return tuple([a if b == 1 else b for a, b in pairs])


@rule("matmul")
def _matmul(_lowering: Lowering, left: Definition, right: Definition) -> Definition:
    first = reshaped(left, (1, *left.shape)) if len(left.shape) == 1 else left
    second = reshaped(right, (*right.shape, 1)) if len(right.shape) == 1 else right
    made = product(first, second, "matmul")
    shape = made.shape
    if len(left.shape) == 1:
        shape = (*shape[:-2], shape[-1])
    if len(right.shape) == 1:
        shape = shape[:-1]
    return reshaped(made, shape)


@rule("mm", "bmm")
def _mm(_lowering: Lowering, left: Definition, right: Definition, *_: Any) -> Definition:
    return product(left, right, "mm")


@rule("nn.functional.linear")
def _linear(_lowering: Lowering, x: Definition, weight: Definition, bias: Any) -> Definition:
    if len(weight.shape) != 2 or not x.shape:
        raise Unlowered("linear of vectors")
    flat = reshaped(x, (prod(x.shape[:-1]), x.shape[-1]))
    made = product(flat, permuted(weight, (1, 0)), "linear")
    if bias is not None:
        made = each(lambda b, v, w: b.add(v, w), made, bias, name="bias")
    return reshaped(made, (*x.shape[:-1], weight.shape[0]))
