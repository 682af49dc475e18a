"""Turning: matrix products whose readers all transpose them are computed transposed.

Takes the definitions of a program; makes products whose readers all see them with rows and columns exchanged
the product of the other matrices: `(a @ b).T` is `b.T @ a.T`. One idea: a transposed matrix costs a product
nothing, or one early copy, while a transposed read of the result has a stride of a whole row.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from weft.native.ir.definitions import Definition, Matrix, Product, View, operands_of
from weft.native.plan.accumulate_products import reread
from weft.native.plan.fuse import ordered

EXCHANGED = ((0, 1), (1, 0))


def is_turned(value: Definition, base: Product) -> bool:
    """Whether a definition is nothing but a product with its axes exchanged."""
    if not isinstance(value, View) or value.shape != base.shape[::-1]:
        return False
    return value.steps == EXCHANGED and not any(value.offsets)


def flipped(matrix: Matrix) -> Matrix:
    return Matrix(matrix.operand, matrix.offset, not matrix.transposed, matrix.leading, matrix.batch)


def turned(outputs: Sequence[Any], others: Sequence[Definition] = ()) -> None:
    """Turns products; `others` are needed, too."""
    wanted = [value for value in (*outputs, *others) if isinstance(value, Definition)]
    order = ordered(wanted)
    readers: dict[int, list[Definition]] = {}
    for value in order:
        for each in operands_of(value):
            readers.setdefault(id(each), []).append(value)
    fixed = {id(each) for each in wanted}
    now: dict[int, Definition] = {}
    for each in order:
        if not isinstance(each, Product) or len(each.shape) != 2 or each.onto is not None:
            continue
        seen = readers.get(id(each), [])
        if id(each) in fixed or not seen or any(id(view) in fixed for view in seen):
            continue
        if all(is_turned(view, each) for view in seen):
            each.shape, each.rows, each.columns = each.shape[::-1], each.columns, each.rows
            each.left, each.right = flipped(each.right), flipped(each.left)
            now.update({id(view): each for view in seen})
    for value in order if now else ():
        reread(value, now)
