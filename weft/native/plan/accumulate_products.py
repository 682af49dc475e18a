"""Accumulating products: BLAS adds a product to another one (beta = 1), so no sum is computed.

Takes the definitions of a program; gives them with each sum of two products (the gradient of a weight that is
used many times is a long one) as one product that is computed onto the other. One idea: BLAS accumulates at
no cost, while a separate sum reads both operands again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from weft.core.interrupts import let_through
from weft.native.ir.definitions import (
    Definition,
    Fold,
    Gather,
    Opaque,
    Point,
    Product,
    Reshape,
    View,
    operands_of,
)
from weft.native.ir.scalar import Builder
from weft.native.plan.fuse import ordered


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


def summed(outputs: Sequence[Any], others: Sequence[Definition] = ()) -> list[Any]:
    """The outputs, with products that are added to others; `others` are needed, too."""
    wanted = [value for value in (*outputs, *others) if isinstance(value, Definition)]
    order = ordered(wanted)
    readers: dict[int, int] = {}
    for each in (*wanted, *[operand for value in order for operand in operands_of(value)]):
        readers[id(each)] = readers.get(id(each), 0) + 1
    now: dict[int, Definition] = {}
    for value in order:
        reread(value, now)
        if not is_sum(value):
            continue
        assert isinstance(value, Point)
        seen = value.operands
        first, second = map(product_of, seen)
        if second is not None and second.onto is not None:
            first, second, seen = second, first, seen[::-1]
        if first is None or second is None or second.onto is not None or not lie_alike(*seen):
            continue
        if first is not second and all(readers[id(each)] == 1 for each in (first, second, *seen)):
            second.onto = first
            second.operands.append(first)
            now[id(value)] = seen[1]
            readers[id(seen[1])] = readers[id(value)]
    return [now.get(id(value), value) for value in outputs]


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


def reread(value: Definition, now: dict[int, Definition]) -> None:
    """Makes a definition read what others have become."""
    if isinstance(value, (Point, Opaque)):
        value.operands[:] = [now.get(id(each), each) for each in value.operands]
    elif isinstance(value, (View, Reshape)):
        value.base = now.get(id(value.base), value.base)
    elif isinstance(value, Gather):
        value.base = now.get(id(value.base), value.base)
        value.index = now.get(id(value.index), value.index)
    elif isinstance(value, Fold):
        value.operand = now.get(id(value.operand), value.operand)
