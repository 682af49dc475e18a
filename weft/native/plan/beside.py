"""Accesses that lie beside each other: what a kernel knows of its operands' memory.

Takes where operands are read and written; gives the accesses of a kernel. One idea: elements that lie a few
places apart along the innermost axis, and others between them, are one stretch of memory, which is read and
written as it lies.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, Final

from weft.native.ir.definitions import Shape
from weft.native.ir.kernels import Access, Step
from weft.native.ir.sizes import expression
from weft.native.plan.units import Load

FARTHEST: Final = 64
"""How far apart elements are at most that are read together."""


def accesses_of(
    loads: Sequence[Load], moves: Sequence[Shape], written: Collection[int], by_rows: Collection[int]
) -> tuple[Access, ...]:
    """The accesses of operands; `by_rows` are those that are written once a row."""
    found = []
    lies = lying(loads, moves)
    for number, (load, each) in enumerate(zip(loads, moves)):
        step = {0: Step.NONE, 1: Step.ONE}.get(each[-1], Step.OTHER)
        if number in written and number not in by_rows and step is Step.NONE:
            step = Step.OTHER  # a walk of one turn
        single = step is Step.NONE and all(type(move) is int and not move for move in each)
        apart, leader, place = lies.get(number, (0, 0, 0))
        found.append(Access(load.value.type, step, number in written, apart, leader, place, single))
    return tuple(found)


def lying(loads: Sequence[Load], moves: Sequence[Shape]) -> dict[int, tuple[int, int, int]]:
    """Of accesses that lie apart: how far, the first one of their stretch, and the place behind that."""
    stretches: dict[Any, list[tuple[int, int]]] = {}
    first: dict[Any, Any] = {}
    for number, (load, each) in enumerate(zip(loads, moves)):
        if type(each[-1]) is int and 1 < each[-1] <= FARTHEST:
            key: Any = id(load.value), *map(expression, each)
            distance = load.offset - first.setdefault(key, load.offset)
            if type(distance) is int:
                stretches.setdefault(key, []).append((distance, number))
    found: dict[int, tuple[int, int, int]] = {}
    for members in stretches.values():
        start = leader = None
        for distance, number in sorted(members):
            apart = moves[number][-1]
            if start is None or leader is None or distance - start >= apart:
                start, leader = distance, number
            found[number] = apart, leader, distance - start
    return found
