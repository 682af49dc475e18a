"""Likeness: groups that differ only in the memory that they read and write share one kernel.

Takes a group of definitions; gives what its kernel follows from, with definitions as numbers in the order in
which they are met, and these definitions. One idea: a hundred equal layers, steps or parameters are a hundred
groups, of which one is built and the others are only looked at.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from weft.native.ir.definitions import Definition, Fold, Gather, Given, Opaque, Point, Reshape, View
from weft.native.plan.common_definitions import CommonDefinitions
from weft.native.plan.units import Group


class Unlike(Exception):
    """A definition of a kind that is not known here."""


class Likeness:
    """What the kernel of a group follows from."""

    def __init__(
        self, group: Group, is_stored: Callable[[Definition], bool], common: CommonDefinitions
    ) -> None:
        self.group, self.is_stored, self.common = group, is_stored, common
        self.numbers: dict[int, int] = {}
        self.met: list[Definition] = []
        self.facts: list[Any] = []
        for member in group.members.values():
            number = self.number(member.value)
            stored = is_stored(member.value)
            self.facts.append((number, member.level, member.row, member.partial, stored))
        self.key = (group.rows, group.inner, group.settled, group.across, tuple(self.facts))

    def number(self, value: Definition) -> int:
        found = self.numbers.get(id(value))
        if found is None:
            fact = self.fact(value)
            found = self.numbers[id(value)] = len(self.met)
            self.met.append(value)
            self.facts.append(fact)
        return found

    def fact(self, value: Definition) -> Any:
        """What a definition is, as far as kernels know."""
        member = id(value) in self.group.members
        place = value.shape, value.type, value.strides, value.start
        if not member and (isinstance(value, (Given, Opaque, Fold)) or self.is_stored(value)):
            return place
        if isinstance(value, Point):
            operands = tuple([self.number(each) for each in value.operands])
            return (*place, type(value), operands, self.common.key_of(value))
        if isinstance(value, View):
            return (*place, View, self.number(value.base), value.offsets, value.steps)
        if isinstance(value, Reshape):
            return (*place, Reshape, self.number(value.base))
        if isinstance(value, Fold):
            operand = self.number(value.operand)
            return (*place, value.kind, operand, value.first, value.last, value.parts)
        if isinstance(value, Gather):
            base, index = self.number(value.base), self.number(value.index)
            return (*place, Gather, base, index, value.offset, value.moves)
        raise Unlike
