"""Twins: common subexpression elimination of definitions.

Takes definitions in order, each behind what it is made of; makes readers of twins read one. One idea:
a pointwise definition is what its function's code is, with what that has enclosed, so two that were made by
the same line of an op's rule with equal numbers are equal: the spread that a norm needs, and its backward
again, is computed once.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import FunctionType
from typing import Any

from weft.native.ir.definitions import Definition, Fold, Gather, Given, Point, Reshape, View
from weft.native.ir.sizes import Amount, Size

PLAIN = frozenset({int, float, bool, str, type(None)})


class Twins:
    """Finds, for each definition, the first that is equal."""

    def __init__(self) -> None:
        self.first: dict[int, Definition] = {}
        """By `id`; those that are not there are the first themselves."""
        self.known: dict[Any, Definition] = {}
        self.keys: dict[int, tuple[Point, Any]] = {}

    def key_of(self, value: Point) -> Any:
        """What a pointwise definition does with its operands."""
        found = self.keys.get(id(value))
        if found is None:
            found = self.keys[id(value)] = value, self.key(value.make)
        return found[1]

    def of(self, value: Definition) -> Definition:
        return self.first.get(id(value), value)

    def add(self, value: Definition) -> None:
        """Looks a definition up, whose operands become the first of their kind."""
        if isinstance(value, Given):
            return
        if isinstance(value, (View, Reshape)):
            value.base = self.of(value.base)
            if isinstance(value, Reshape):
                key: Any = (value.shape, id(value.base))
            else:
                key = (value.shape, id(value.base), value.offsets, value.steps)
        elif isinstance(value, Gather):
            value.base, value.index = self.of(value.base), self.of(value.index)
            key = (value.shape, id(value.base), id(value.index), value.offset, value.moves)
        elif isinstance(value, Fold):
            value.operand = self.of(value.operand)
            key = (value.kind, id(value.operand), value.first, value.last, value.parts)
        elif type(value) is Point:
            value.operands = [self.of(each) for each in value.operands]
            operands = tuple([id(each) for each in value.operands])
            key = (value.shape, value.type, operands, self.key_of(value))
        else:  # calls are made as often as they stand there; their operands are numbered
            operands_of_call = getattr(value, "operands", None)
            if operands_of_call is not None:
                operands_of_call[:] = [self.of(each) for each in operands_of_call]
            return
        if value.strides is not None:
            return
        found = self.known.setdefault(key, value)
        if found is not value:
            self.first[id(value)] = found

    def key(self, value: Any) -> Any:
        """What makes a function, or something that one has enclosed, what it is."""
        kind = type(value)
        if kind is float:
            return value.hex()
        if kind is Size or kind is Amount:
            return value
        if kind in PLAIN:
            return kind, value
        if kind is FunctionType:
            cells = value.__closure__ or ()
            enclosed = tuple([self.key(cell.cell_contents) for cell in cells])
            return value.__code__, enclosed, self.key(value.__defaults__)
        if kind is tuple or kind is list:
            return kind, tuple([self.key(each) for each in value])
        if isinstance(value, Definition):  # which one it is, operands say
            return Definition, value.shape, value.type
        return kind, id(value)


def without_twins(order: Sequence[Definition]) -> Twins:
    """Makes readers of equal definitions read the first of them."""
    twins = Twins()
    for value in order:
        twins.add(value)
    return twins
