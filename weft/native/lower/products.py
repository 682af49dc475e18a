"""Lowering of matrix products: which memory they read, and how it lies.

Gives rules for `weft.native.lower.lowering`. One idea: a transposed matrix is a flag, a broadcast batch a
stride of
zero; only what lies in neither order is copied first.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any, Final

from weft.core.interrupts import let_through
from weft.native.ir.definitions import (
    Definition,
    Given,
    Matrix,
    Point,
    Product,
    Reshape,
    Shape,
    View,
    broadcast,
    permuted,
    reshaped,
    sliced,
)
from weft.native.ir.scalar import FLOATS, Builder, Instruction, Value
from weft.native.ir.sizes import same
from weft.native.lower.folds import each, folded
from weft.native.lower.lowering import Lowering, Unlowered, point, rule
from weft.native.lower.pointwise import made, result_of
from weft.native.plan.units import row_major
from weft.native.target import Target

Memory = tuple[Definition, int, Shape]
THIN: Final = 40
"""Multiplications of a row, at most, that are not worth a call of BLAS."""


def memory_of(value: Definition) -> Memory:
    """Where the elements of a definition lie, once what it looks at is kept: offset and strides."""
    seen: list[View | Reshape] = []
    while True:
        if isinstance(value, (View, Reshape)):
            seen.append(value)
            value = value.base
            continue
        same = unchanged(value)
        if same is None:
            break
        value = same
    own = value.strides if isinstance(value, Given) else None
    base, offset, strides = value, 0, row_major(value.shape) if own is None else own
    for look in reversed(seen):
        if isinstance(look, View):
            offset += sum(a * b for a, b in zip(strides, look.offsets))
            strides = tuple([sum(a * b[axis] for a, b in zip(strides, look.steps))
                             for axis in range(len(look.shape))])  # fmt: skip
            continue
        if strides != row_major(look.base.shape):
            base, offset = look, 0
        strides = row_major(look.shape)
    return base, offset, strides


def unchanged(value: Definition) -> Definition | None:
    """What is multiplied by nothing but ones, as gradients of sums are."""
    if type(value) is not Point or len(value.operands) != 2 or value.type not in FLOATS:
        return None
    for ones, other in (value.operands, value.operands[::-1]):
        if other.type == ones.type == value.type and is_one(ones):
            if [each.op for each in body(value)] == ["load", "load", "mul"]:
                return other
    return None


def is_one(value: Definition) -> bool:
    """Whether all elements are known to be 1."""
    base = value.base if isinstance(value, View) else value
    if type(base) is not Point or base.operands:
        return False
    return [(each.op, each.value) for each in body(base)] == [("const", 1)]


def body(value: Point) -> Sequence[Instruction]:
    """The instructions of a pointwise definition; none where these need more than its operands."""
    builder = Builder()
    values = [builder.load(place, each.type) for place, each in enumerate(value.operands)]
    try:
        value.make(builder, values, lambda axis: builder.make("index", "i64", value=axis))
    except AttributeError as error:  # it needs a builder that knows more
        let_through(error)
        return []
    return builder.instructions


def matrix(value: Definition, operands: list[Definition]) -> Matrix:
    """How a batch of matrices lies in memory; it is copied where BLAS could not read it."""
    for base, offset, strides in (memory_of(value), copy_of(value)):
        rows, columns = value.shape[-2:]
        down, right = strides[-2:]
        batch = joined(value.shape[:-2], strides[:-2])
        if batch is None:
            continue
        if (right == 1 or columns == 1) and (down >= max(columns, 1) or rows == 1):
            return Matrix(number_of(base, operands), offset, False, max(down, columns, 1), batch)
        if (down == 1 or rows == 1) and (right >= max(rows, 1) or columns == 1):
            return Matrix(number_of(base, operands), offset, True, max(right, rows, 1), batch)
    raise Unlowered("a matrix whose strides BLAS does not take")


def copy_of(value: Definition) -> Memory:
    """A copy of matrices that lies row by row, or column by column where they do now."""
    _, _, (*_, down, right) = memory_of(value)
    rank = len(value.shape)
    turned = abs(down) < abs(right) and value.shape[-2] > 1
    seen = permuted(value, (*range(rank - 2), rank - 1, rank - 2)) if turned else value
    copied = point(lambda _b, v, _p: v[0], seen.shape, seen.type, (seen,), "copy")
    *outer, down, right = row_major(seen.shape)
    return copied, 0, (*outer, right, down) if turned else (*outer, down, right)


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


def product(target: Target, left: Definition, right: Definition, name: str) -> Definition:
    """The product of two batches of matrices; the batches broadcast."""
    if left.type != right.type or not target.multiplies(left.type):
        raise Unlowered(f"a matrix product of {left.type} and {right.type}")
    rows, depth = left.shape[-2:]
    columns = right.shape[-1]
    batch = batch_shape(left.shape[:-2], right.shape[:-2])
    shape = (*batch, rows, columns)
    if 0 in (*shape, depth):
        return point(lambda b, _v, _p: b.const(0, left.type), shape, left.type, (), name, 0)
    if is_thin(left, columns, depth):
        return thin(left, right, name)
    if len(right.shape) == 2 and len(left.shape) > 2:  # one product of all rows
        flat = product(target, reshaped(left, (prod(left.shape[:-1]), depth)), right, name)
        return reshaped(flat, shape)
    operands: list[Definition] = []
    spread = [broadcast(value, (*batch, *value.shape[-2:])) for value in (left, right)]
    return Product(
        shape=shape, type=left.type, name=name, call=None, operands=operands, rows=rows, columns=columns,
        depth=depth, count=prod(batch), left=matrix(spread[0], operands), right=matrix(spread[1], operands),
    )  # fmt: skip


def is_thin(left: Definition, columns: int, depth: int) -> bool:
    """Whether a product takes so little for each row that vectors run over rows, or over a batch: it is a
    fold then, which may be part of other kernels. BLAS needs longer rows for its vectors. Weights' gradients,
    whose first matrix lies transposed, may be parts of long sums.
    """
    if (
        len(left.shape) == 2
    ):  # how it lies comes first: of open sizes, comparisons are conditions of a template
        down, across = memory_of(left)[2]
        return (same(across, 1) or not same(down, 1)) and bool(columns * depth <= THIN)
    rows = left.shape[-2]
    small = bool(columns * depth <= THIN)
    return small and (bool(rows * columns * depth <= 4 * THIN) or bool(rows >= THIN))


def thin(left: Definition, right: Definition, name: str) -> Definition:
    """The product as a fold of elements' products."""
    rank = len(right.shape)
    turned = permuted(right, (*range(rank - 2), rank - 1, rank - 2))
    rows = reshaped(left, (*left.shape[:-1], 1, left.shape[-1]))
    columns = reshaped(turned, (*turned.shape[:-2], 1, *turned.shape[-2:]))
    products = each(lambda b, x, y: b.mul(x, y), rows, columns, name=name)
    return folded("sum", products, (len(products.shape) - 1,), False, name)


def batch_shape(left: Shape, right: Shape) -> Shape:
    rank = max(len(left), len(right))
    pairs = zip((1,) * (rank - len(left)) + left, (1,) * (rank - len(right)) + right)
    return tuple([a if b == 1 else b for a, b in pairs])


@rule("matmul")
def _matmul(lowering: Lowering, left: Definition, right: Definition) -> Definition:
    first = reshaped(left, (1, *left.shape)) if len(left.shape) == 1 else left
    second = reshaped(right, (*right.shape, 1)) if len(right.shape) == 1 else right
    made = product(lowering.target, first, second, "matmul")
    shape = made.shape
    if len(left.shape) == 1:
        shape = (*shape[:-2], shape[-1])
    if len(right.shape) == 1:
        shape = shape[:-1]
    return reshaped(made, shape)


@rule("mm", "bmm")
def _mm(lowering: Lowering, left: Definition, right: Definition, *_: Any) -> Definition:
    return product(lowering.target, left, right, "mm")


@rule("nn.functional.linear")
def _linear(lowering: Lowering, x: Definition, weight: Definition, bias: Any) -> Definition:
    if len(weight.shape) != 2 or not x.shape:
        raise Unlowered("linear with a weight that is no matrix, or of a scalar")
    flat = reshaped(x, (prod(x.shape[:-1]), x.shape[-1]))
    made = product(lowering.target, flat, permuted(weight, (1, 0)), "linear")
    if bias is not None:
        made = each(lambda b, v, w: b.add(v, w), made, bias, name="bias")
    return reshaped(made, (*x.shape[:-1], weight.shape[0]))


# -- products with something added ---------------------------------------------------------------------------
def added(total: Definition, made: Definition, beta: Any, alpha: Any) -> Definition:
    """`beta * total + alpha * made`; where beta is 0, what `total` holds does not count."""
    if isinstance(beta, Definition) or isinstance(alpha, Definition):
        raise Unlowered("alpha or beta known only at run time")
    if alpha != 1:
        made = each(lambda b, v: b.mul(v, b.like(alpha, v)), made, name="alpha")
    if beta == 0:
        return made
    if total.type != made.type:
        raise Unlowered(f"a product of {made.type} that is added to {total.type}")
    if beta == 1:
        return each(lambda b, v, t: b.add(v, t), made, broadcast(total, made.shape), name="add")
    return each(
        lambda b, v, t: b.add(v, b.mul(t, b.like(beta, t))), made, broadcast(total, made.shape), name="add"
    )


@rule("addmm", "baddbmm")
def _addmm(
    lowering: Lowering, total: Definition, left: Definition, right: Definition, beta: Any, alpha: Any
) -> Definition:
    return added(total, product(lowering.target, left, right, "addmm"), beta, alpha)


@rule("addbmm")
def _addbmm(
    lowering: Lowering, total: Definition, left: Definition, right: Definition, beta: Any, alpha: Any
) -> Definition:
    rows, depth = left.shape[1], left.shape[0] * left.shape[2]
    wide = reshaped(permuted(left, (1, 0, 2)), (rows, depth))
    return added(
        total, product(lowering.target, wide, reshaped(right, (depth, right.shape[2])), "addbmm"), beta, alpha
    )


def vector_product(target: Target, matrix_: Definition, vector: Definition) -> Definition:
    found = product(target, matrix_, reshaped(vector, (*vector.shape, 1)), "mv")
    return reshaped(found, found.shape[:-1])


@rule("mv")
def _mv(lowering: Lowering, left: Definition, right: Definition) -> Definition:
    return vector_product(lowering.target, left, right)


@rule("addmv")
def _addmv(
    lowering: Lowering, total: Definition, left: Definition, right: Definition, beta: Any, alpha: Any
) -> Definition:
    return added(total, vector_product(lowering.target, left, right), beta, alpha)


@rule("dot")
def _dot(_lowering: Lowering, left: Definition, right: Definition) -> Definition:
    if left.type != right.type or left.type not in FLOATS or not left.size:
        raise Unlowered(f"a vector product of {left.type} and {right.type}, or of no elements")
    parts = each(lambda b, x, y: b.mul(x, y), left, right, name="dot")
    return folded("sum", parts, (0,), False, "dot")


@rule("addr")
def _addr(
    _lowering: Lowering, total: Definition, left: Definition, right: Definition, beta: Any, alpha: Any
) -> Definition:
    if left.type != right.type or left.type not in FLOATS or not left.size or not right.size:
        raise Unlowered(f"a vector product of {left.type} and {right.type}, or of no elements")
    column = reshaped(left, (left.size, 1))
    return added(total, each(lambda b, x, y: b.mul(x, y), column, right, name="addr"), beta, alpha)


@rule("linalg.cross")
def _cross(lowering: Lowering, x: Definition, y: Definition, dim: int) -> Definition:
    """All three components, chosen by the index."""
    shape, type_ = result_of(lowering)
    axis = dim % len(shape)
    operands = [sliced(value, axis, place, 1, 1) for value in (x, y) for place in range(3)]

    def make(b: Builder, values: list[Value], place: Any) -> Value:
        parts = []
        for i in range(3):
            p, q = (i + 1) % 3, (i + 2) % 3
            parts.append(b.sub(b.mul(values[p], values[3 + q]), b.mul(values[q], values[3 + p])))
        other = b.select(b.eq(place(axis), b.const(1, "i64")), parts[1], parts[2])
        return b.select(b.eq(place(axis), b.const(0, "i64")), parts[0], other)

    return made(make, shape, type_, operands, "cross")
