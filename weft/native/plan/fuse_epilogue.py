"""Epilogue fusion: pointwise ops that read only a convolution's result run before it is stored.

Takes the outputs of a program; gives them with cheap pointwise definitions taken into the functions whose
results they read. One idea: an activation behind a convolution costs nothing while the results are in
registers, and takes memory and time of its own once they are not.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from weft.native.ir.definitions import (
    Definition,
    Direct,
    Fold,
    Gather,
    Opaque,
    Point,
    Reshape,
    View,
    operands_of,
)
from weft.native.ir.scalar import Body
from weft.native.maths.emitting import Emitting
from weft.native.plan.fuse import ordered

DEAREST: Final = 8
"""How much a body may cost: it is written as often as there are registers."""
ALONE: Final = frozenset({"index", "fold", "scalar", "call"})
"""Instructions that need more than the result."""


class Placed(Exception):
    """A body wants to know where its element is."""


def absorb(outputs: Sequence[Any], others: Sequence[Definition]) -> list[Any]:
    """The outputs, some of them other definitions than before; `others` are read, too."""
    wanted = [each for each in outputs if isinstance(each, Definition)]
    order = ordered([*wanted, *others])
    readers: dict[int, list[Definition]] = {}
    for value in order:
        for each in operands_of(value):
            readers.setdefault(id(each), []).append(value)
    fixed = {id(each) for each in (*wanted, *others)}
    instead: dict[int, Definition] = {}
    taken: dict[int, list[Point]] = {}
    for value in order:
        if type(value) is not Point or len(value.operands) != 1 or value.kept:
            continue
        (operand,) = value.operands
        base = instead.get(id(operand), operand)
        if not isinstance(base, Direct) or base.finishing is None:
            continue
        if id(operand) in fixed or len(readers[id(operand)]) != 1:
            continue
        points = [*taken.get(id(base), ()), value]
        body = body_of(points, base)
        if body is not None:
            base.text = base.finishing(body)
            base.name = f"{base.name} {value.name}"
            taken[id(base)] = points
            instead[id(value)] = base
    for value in order if instead else ():
        read(value, instead)
    return [instead.get(id(each), each) for each in outputs]


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


def read(value: Definition, instead: dict[int, Definition]) -> None:
    """Makes a definition read others."""
    if isinstance(value, (Point, Opaque)):
        value.operands[:] = [instead.get(id(each), each) for each in value.operands]
    elif isinstance(value, (View, Reshape)):
        value.base = instead.get(id(value.base), value.base)
    elif isinstance(value, Gather):
        value.base = instead.get(id(value.base), value.base)
        value.index = instead.get(id(value.index), value.index)
    elif isinstance(value, Fold):
        value.operand = instead.get(id(value.operand), value.operand)
