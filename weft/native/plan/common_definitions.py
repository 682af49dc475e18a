"""Common definitions: those that are equal are computed once.

A rule that makes readers of equal definitions read the first of them. One idea: a pointwise definition is
what its function's code is, with what that has enclosed, so two that were made by the same line of an op's
rule with equal numbers are equal: the spread that a norm needs, and its backward again, is computed once.
"""

from __future__ import annotations

from types import FunctionType
from typing import Any

from weft.native.ir.definitions import Definition, Fold, Gather, Point, Reshape, View
from weft.native.ir.sizes import Amount, Size
from weft.native.plan.rewrite import Definitions, Rule

PLAIN = frozenset({int, float, bool, str, type(None)})


class CommonDefinitions(Rule):
    """Finds, for each definition, the first that is equal. Outputs stay values of their own."""

    kinds = (View, Reshape, Gather, Fold, Point)
    changes_outputs = False

    def __init__(self, definitions: Definitions) -> None:
        super().__init__(definitions)
        self.known: dict[Any, Definition] = {}
        self.keys: dict[int, tuple[Point, Any]] = {}

    def key_of(self, value: Point) -> Any:
        """What a pointwise definition does with its operands."""
        found = self.keys.get(id(value))
        if found is None:
            found = self.keys[id(value)] = value, self.key(value.make)
        return found[1]

    def visit(self, value: Definition) -> None:
        if value.strides is not None:
            return
        key = self.likeness(value)
        found = value if key is None else self.known.setdefault(key, value)
        if found is not value:
            self.definitions.replace(value, found)

    def likeness(self, value: Definition) -> Any:
        """What equal definitions have in common; None for those that are told apart."""
        if isinstance(value, Reshape):
            return value.shape, id(value.base)
        if isinstance(value, View):
            return value.shape, id(value.base), value.offsets, value.steps
        if isinstance(value, Gather):
            return value.shape, id(value.base), id(value.index), value.offset, value.moves
        if isinstance(value, Fold):
            return value.kind, id(value.operand), value.first, value.last, value.parts
        if type(value) is not Point:  # parts lie at places of their own, and numbers are of Python's
            return None
        operands = tuple([id(each) for each in value.operands])
        return value.shape, value.type, operands, self.key_of(value)

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
