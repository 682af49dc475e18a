"""Transposing products: those whose readers all transpose them are computed transposed.

A rule that makes products whose readers all see them with rows and columns exchanged the product of the
other matrices: `(a @ b).T` is `b.T @ a.T`. One idea: a transposed matrix costs a product nothing, or one
early copy, while a transposed read of the result has a stride of a whole row.
"""

from __future__ import annotations

from weft.native.ir.definitions import Definition, Matrix, Product, View
from weft.native.plan.rewrite import Rule

EXCHANGED = ((0, 1), (1, 0))


def is_turned(value: Definition, base: Product) -> bool:
    """Whether a definition is nothing but a product with its axes exchanged."""
    if not isinstance(value, View) or value.shape != base.shape[::-1]:
        return False
    return value.steps == EXCHANGED and not any(value.offsets)


def flipped(matrix: Matrix) -> Matrix:
    return Matrix(matrix.operand, matrix.offset, not matrix.transposed, matrix.leading, matrix.batch)


class TransposeProducts(Rule):
    kinds = (Product,)

    def visit(self, value: Definition) -> None:
        assert isinstance(value, Product)
        if len(value.shape) != 2 or value.onto is not None or self.definitions.is_wanted(value):
            return
        views = self.definitions.readers_of(value)
        if not views or any(map(self.definitions.is_wanted, views)):
            return
        if all(is_turned(view, value) for view in views):
            value.shape, value.rows, value.columns = value.shape[::-1], value.columns, value.rows
            value.left, value.right = flipped(value.right), flipped(value.left)
            for view in dict.fromkeys(views):
                self.definitions.replace(view, value)
