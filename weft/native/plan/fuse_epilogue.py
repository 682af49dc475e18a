"""Epilogue fusion: pointwise ops that read only a convolution's result run before it is stored.

A rule that takes cheap pointwise definitions into the functions whose results they read. One idea: an
activation behind a convolution costs nothing while the results are in registers, and takes memory and time of
its own once they are not.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from weft.native.ir.definitions import Definition, Direct, Point
from weft.native.ir.scalar import Body
from weft.native.maths.emitting import Emitting
from weft.native.plan.rewrite import Definitions, Rule

DEAREST: Final = 8
"""How much a body may cost: it is written as often as there are registers."""
ALONE: Final = frozenset({"index", "fold", "scalar", "call"})
"""Instructions that need more than the result."""


class Placed(Exception):
    """A body wants to know where its element is."""


class FuseEpilogues(Rule):
    kinds = (Point,)

    def __init__(self, definitions: Definitions) -> None:
        super().__init__(definitions)
        self.taken: dict[int, list[Point]] = {}
        """What functions compute of their results, by the `id` of these."""

    def visit(self, value: Definition) -> None:
        if type(value) is not Point or len(value.operands) != 1 or value.kept:
            return
        (base,) = value.operands
        if not isinstance(base, Direct) or base.finishing is None or self.definitions.uses(base) != 1:
            return
        points = [*self.taken.get(id(base), ()), value]
        body = body_of(points, base)
        if body is not None:
            base.text = base.finishing(body)
            base.name = f"{base.name} {value.name}"
            self.taken[id(base)] = points
            self.definitions.replace(value, base)


def body_of(points: Sequence[Point], base: Direct) -> Body | None:
    """What pointwise definitions compute, one of the other, if that is cheap and needs nothing else."""
    if sum(each.cost for each in points) > DEAREST or points[-1].shape != base.shape:
        return None

    def place(_axis: int) -> Any:
        raise Placed

    builder = Emitting()
    made = builder.load(0, base.type)
    try:
        for each in points:
            made = each.make(builder, [made], place)
    except Placed:
        return None
    body = builder.body()[: made.place + 1]
    loads = sum(each.op == "load" for each in body)
    if made.type != base.type or loads != 1 or any(each.op in ALONE for each in body) or made.place == 0:
        return None
    return body
