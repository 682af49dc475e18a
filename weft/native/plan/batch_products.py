"""Stacking: a long sum of products with little depth as one product with much of it.

A rule that makes sums of products (the gradient of a weight that a recurrent network uses at every step) one
product of matrices that lie one behind the other. One idea: the memory plan can place
values that are computed apart side by side, so that they are one matrix and nothing is copied.

# Note [Stacks]
    a sum of products       a chain: each product is added to the one before (see
    `weft.native.plan.accumulate_products`)
    its matrices            depth by rows on the left, depth by columns on the right, row by row
    a stack                 these, one behind the other: the depth of the whole product
What lies in an input at equal distances is a stack already. Others are made of values that the program has
memory for, each in one stack, or in a part of one that begins and ends elsewhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count
from typing import Final

from weft.native.ir.definitions import Definition, Direct, Given, Matrix, Part, Point, Product, Stack
from weft.native.plan.common_definitions import CommonDefinitions
from weft.native.plan.rewrite import Rule

LEAST: Final = 2
"""How many products a sum has at least."""
MOST_ELEMENTS: Final = 1 << 21
"""Of a stack: what is in it lives until all of it is there."""
Key = tuple[int, ...]


def fits(each: Product) -> bool:
    """Whether a product may be part of a deeper one."""
    return each.left.transposed and not each.right.transposed and each.count == 1


def chains(order: Sequence[Definition]) -> list[list[Product]]:
    """Long sums of products, the first product first."""
    products = [each for each in order if isinstance(each, Product)]
    inner = {id(each.onto) for each in products if each.onto is not None}
    found = []
    for each in products:
        chain: list[Product] = []
        now = each if each.onto is not None and id(each) not in inner else None
        while now is not None:
            chain.append(now)
            now = now.onto
        if sum(map(fits, chain)) >= LEAST:
            found.append(chain[::-1])
    return found


class Stacking:
    """Finds stacks in one program."""

    def __init__(self, outputs: Sequence[Definition], order: Sequence[Definition]) -> None:
        self.fixed = {id(each) for each in outputs}
        """What lies where others say."""
        self.fixed |= {id(each.onto) for each in order if isinstance(each, Product) and each.onto is not None}
        self.known: dict[int, tuple[int, int]] = {}
        """By `id`: the number of the stack that a value is in, and its place there."""
        self.count = 0
        self.made: dict[Key, Stack] = {}

    def is_free(self, value: Definition, size: int) -> bool:
        """Whether a value may lie anywhere, and is nothing but a matrix."""
        if type(value) is Direct:
            plain = bool(value.operands) and all(isinstance(each, Part) for each in value.operands)
        else:
            plain = type(value) is Point
        moved = value.strides is not None or value.shown is not None or bool(value.start)
        return plain and value.size == size and not moved and id(value) not in self.fixed

    def side(self, each: Product, left: bool) -> tuple[int, ...] | None:
        """What the matrices of a stack have in common, on one side: (0,) those that may lie anywhere, or the
        memory in which they are; None where it can be in none.
        """
        matrix, width = (each.left, each.rows) if left else (each.right, each.columns)
        base = each.operands[matrix.operand]
        if not matrix.offset and matrix.leading == width and self.is_free(base, each.depth * width):
            return (0,)
        return (id(base), matrix.leading) if isinstance(base, Given) else None

    def stacked(self, chain: list[Product]) -> list[Product]:
        """The products of a chain that become one, in the order of their matrices; none if too few do."""
        kinds: dict[Key, list[Product]] = {}
        for each in filter(fits, chain):
            first, second = self.side(each, True), self.side(each, False)
            if first is not None and second is not None:
                kinds.setdefault((each.depth, len(first), *first, *second), []).append(each)
        found = max(kinds.values(), key=len, default=[])
        if len(found) < LEAST or len(found) * found[0].depth * max(found[0].shape) > MOST_ELEMENTS:
            return []
        for left in (True, False):
            if self.side(found[0], left) != (0,):
                found = sorted(found, key=lambda each: (each.left if left else each.right).offset)
                break
        else:
            found = self.in_order(found)
        return found if all(self.settled(found, left) for left in (True, False)) else []

    def in_order(self, found: list[Product]) -> list[Product]:
        """Products in the order in which their matrices are stacked already, if they are."""
        for left in (True, False):
            bases = [id(base_of(each, left)) for each in found]
            if all(base in self.known for base in bases):
                return [
                    each for _, _, each in sorted(zip(map(self.known.__getitem__, bases), count(), found))
                ]
        return found

    def settled(self, found: list[Product], left: bool) -> bool:
        """Whether the matrices can lie one behind the other in this order; if so, they will."""
        bases = [base_of(each, left) for each in found]
        if self.side(found[0], left) != (0,):
            matrices = [each.left if left else each.right for each in found]
            step = found[0].depth * matrices[0].leading
            return all(b.offset - a.offset == step for a, b in zip(matrices, matrices[1:]))
        places = [self.known.get(id(base)) for base in bases]
        if all(place is None for place in places):
            self.known.update({id(base): (self.count, place) for place, base in enumerate(bases)})
            self.count += 1
            return len({id(base) for base in bases}) == len(bases)
        first = places[0]
        return first is not None and places == [(first[0], first[1] + k) for k in range(len(places))]

    def matrix(self, found: list[Product], left: bool, operand: int) -> tuple[Definition, Matrix]:
        """The matrix that all of them are together."""
        first = found[0].left if left else found[0].right
        if self.side(found[0], left) != (0,):
            return base_of(found[0], left), Matrix(operand, first.offset, left, first.leading, 0)
        bases = [base_of(each, left) for each in found]
        key = tuple([id(base) for base in bases])
        if key not in self.made:
            self.made[key] = Stack(
                shape=(len(found) * found[0].depth, first.leading), type=found[0].type, name="stack",
                call=None, operands=bases, function="stack", text="", numbers=(), rows=1, chunks=1,
                work=1,
            )  # fmt: skip
        return self.made[key], Matrix(operand, 0, left, first.leading, 0)

    def join(self, chain: list[Product], found: list[Product]) -> None:
        """Makes products of a chain one. Whoever reads the last product of the chain still does."""
        chosen = {id(each) for each in found}
        others = [each for each in chain if id(each) not in chosen]
        whole = chain[-1] if id(chain[-1]) in chosen else found[0]
        (left, first), (right, second) = (self.matrix(found, side, 1 - side) for side in (True, False))
        whole.operands, whole.left, whole.right = [left, right], first, second
        whole.depth, whole.onto = sum(each.depth for each in found), None
        parts = [*others, whole] if whole is chain[-1] else [whole, *others]
        for before, each in zip([None, *parts], parts):
            kept = each.operands if each.onto is None else each.operands[:-1]
            each.operands = kept if before is None else [*kept, before]
            each.onto = before


def base_of(each: Product, left: bool) -> Definition:
    return each.operands[(each.left if left else each.right).operand]


class BatchProducts(Rule):
    """Makes long sums of products one product each. What is equal is one value before that, and lies at one
    place.
    """

    kinds = ()
    first = (CommonDefinitions,)

    def applies(self) -> bool:
        return bool(chains(self.definitions.order))

    def finish(self) -> None:
        stacking = Stacking(self.definitions.outputs, self.definitions.order)
        waiting = chains(self.definitions.order)
        lies = [any(stacking.side(each, left) not in (None, (0,)) for each in chain for left in (True, False))
                for chain in waiting]  # fmt: skip
        for _, chain in sorted(zip(lies, waiting), key=lambda pair: not pair[0]):  # inputs settle an order
            found = stacking.stacked(chain)
            if found:
                stacking.join(chain, found)
