"""Accumulating products: BLAS adds a product to another one (beta = 1), so no sum is computed.

A rule that makes each sum of two products (the gradient of a weight that is used many times is a long one)
one product that is computed onto the other. One idea: BLAS accumulates at no cost, while a separate sum reads
both operands again.
"""

from __future__ import annotations

from weft.core.interrupts import let_through
from weft.native.ir.definitions import Definition, Point, Product, View
from weft.native.ir.scalar import Builder
from weft.native.plan.rewrite import Rule


def is_sum(value: Definition) -> bool:
    """Whether a definition is nothing but the sum of two others of its shape and type."""
    if type(value) is not Point or value.name != "add" or len(value.operands) != 2:
        return False
    if any((each.shape, each.type) != (value.shape, value.type) for each in value.operands):
        return False
    builder = Builder()
    values = [builder.load(place, each.type) for place, each in enumerate(value.operands)]
    try:
        made = value.make(builder, values, lambda axis: builder.make("index", "i64", value=axis))
    except AttributeError as error:  # it needs a builder that knows more
        let_through(error)
        return False
    if len(builder.instructions) != 3 or made.place != 2:
        return False
    return builder.instructions[2].op == "add" and set(builder.instructions[2].args) == {0, 1}


def product_of(value: Definition) -> Product | None:
    """The product that a definition is, perhaps with its axes turned: gradients of transposed weights are."""
    if isinstance(value, View) and isinstance(value.base, Product):
        moves = [sum(row) for row in value.steps] + [sum(column) for column in zip(*value.steps)]
        plain = all(step >= 0 for row in value.steps for step in row) and not any(value.offsets)
        return value.base if plain and set(moves) == {1} and value.size == value.base.size else None
    return value if isinstance(value, Product) else None


def lie_alike(first: Definition, second: Definition) -> bool:
    """Whether two products are seen with the same axes."""
    if isinstance(first, View) and isinstance(second, View):
        return first.steps == second.steps
    return isinstance(first, View) is isinstance(second, View)


class AccumulateProducts(Rule):
    kinds = (Point,)

    def visit(self, value: Definition) -> None:
        if not is_sum(value):
            return
        assert isinstance(value, Point)
        seen = value.operands
        first, second = map(product_of, seen)
        if second is not None and second.onto is not None:
            first, second, seen = second, first, seen[::-1]
        if first is None or second is None or second.onto is not None or not lie_alike(*seen):
            return
        alone = all(self.definitions.uses(each) == 1 for each in (first, second, *seen))
        if first is not second and alone:
            second.onto = first
            second.operands.append(first)
            self.definitions.replace(value, seen[1])
