"""Guards on plain constants: the kinds EQ and CONTENTS.

Takes a picture (`weft.capture.plain`) of what was seen; asks for the same types and bits all through. One
idea: small containers are compared leaf by leaf in the text, large ones by a call.
"""

from __future__ import annotations

from typing import Any, Final

from weft.capture.checking import Checks, Unreadable
from weft.capture.guards.base import Fetch, Pictured, safe_text, short, type_of
from weft.capture.guards.keys import other_keys
from weft.capture.plain import (
    MAPPINGS,
    SEQUENCES,
    SINGLETONS,
    Tree,
    float_bits,
    identical,
    thaw,
)
from weft.capture.reading import Reader
from weft.capture.sources import Source
from weft.core import checks as ask
from weft.core.expressions import Expression, constant

INLINE_LIMIT: Final = 24  # leaves of a container that are compared in the text, rather than by a call
NUMBERS: Final = (int, float)


class ConstantGuard(Pictured):
    """What looks like a picture."""

    def fits(self, found: Any) -> bool:
        return identical(found, self.payload)

    def describe(self) -> str:
        return f"{self.source} == {short(thaw(self.payload))}"

    def apart(self, found: Any) -> dict[str, tuple[str, str]]:
        return {str(self.source): (short(thaw(self.payload)), safe_text(found))}

    def type_shown(self) -> type:
        return self.payload.kind if type(self.payload) is Tree else type(self.payload)

    def render(self, reader: Reader) -> None:
        kind = self.type_shown()
        conditions = differs(reader, reader.read(self.at), self.payload, reader.types.get(self.at) is kind)
        reader.miss_if(" or ".join(conditions))
        reader.types[self.at] = kind

    def check(self, checks: Checks) -> None:
        check_picture(checks, checks.read(self.at), self.payload)
        checks.types[self.at] = self.type_shown()


class Equal(ConstantGuard, kind="EQ"):
    """A plain constant: exact type, floats by bits."""

    tells_value = True

    def changed(self, fetch: Fetch) -> set[str]:
        return {str(self.source)} if type(fetch(self.at)) in NUMBERS else set()

    def exact_sources(self) -> list[Source]:
        return self.sources()

    def check(self, checks: Checks) -> None:
        if self.at.kind == "length":
            checks.need(Expression("eq", (checks.number(self.at), constant(thaw(self.payload))), bool))
        else:
            super().check(checks)

    def units(self) -> set[str]:
        return {str(source) for source in self.sources() if thaw(self.payload) in (0, 1)}


class Contents(ConstantGuard, kind="CONTENTS"):
    """A container of plain constants all through: exact types, order of dicts and sets."""

    def changed(self, fetch: Fetch) -> set[str]:
        value, found = fetch(self.at), {str(self.source)}
        if type(value) is tuple:
            found |= {str(self.at.item(i)) for i, item in enumerate(value) if type(item) in NUMBERS}
        return found


# -- as text -------------------------------------------------------------------------------------------------
def differs(reader: Reader, name: str, picture: Any, typed: bool = False) -> list[str]:
    """Conditions, to be joined by `or`, under which the value of a variable is not what the picture shows."""
    if type(picture) is Tree:
        return _tree_differs(reader, name, picture, typed)
    kind = type(picture)
    if kind in SINGLETONS:
        return [f"{name} is not {reader.constant(picture, getattr(picture, 'name', ''))}"]
    exact = [] if typed else [f"{type_of(reader, name)} is not {reader.constant(kind, kind.__name__)}"]
    if kind in (int, str, bytes) or (kind is float and picture - picture == 0.0 and picture != 0.0):
        return [*exact, f"{name} != {reader.constant(picture)}"]
    if kind is float:
        return [*exact, f"{reader.constant(float_bits, 'bits')}({name}) != {float_bits(picture)!r}"]
    return [_not_identical(reader, name, picture)]


def _not_identical(reader: Reader, name: str, picture: Any) -> str:
    return f"not {reader.constant(identical, 'identical')}({name}, {reader.bind(picture, 'picture')})"


def _leaves(picture: Any) -> int:
    return sum(map(_leaves, picture.items)) + 1 if type(picture) is Tree else 1


def _tree_differs(reader: Reader, name: str, tree: Tree, typed: bool) -> list[str]:
    sequence = tree.kind in SEQUENCES
    mapping = tree.kind in MAPPINGS and all(type(key) is str for key in tree.items[::2])
    if not (sequence or mapping) or _leaves(tree) > INLINE_LIMIT:
        return [_not_identical(reader, name, tree)]
    conditions = []
    if not typed:
        conditions.append(f"{type_of(reader, name)} is not {reader.constant(tree.kind, tree.kind.__name__)}")
    values = tree.items if sequence else tree.items[1::2]
    conditions.append(f"{reader.constant(len, 'len')}({name}) != {len(values)}")
    if mapping and values:
        conditions.append(other_keys(reader, name, tree.items[::2]))
    for position, value in enumerate(values):
        place = f"{name}[{position if sequence else reader.constant(tree.items[2 * position])}]"
        if type(value) in SINGLETONS:
            conditions += differs(reader, place, value)
        else:
            item = reader.fresh()
            first, *rest = differs(reader, item, value)
            conditions += [first.replace(item, f"({item} := {place})", 1), *rest]
    return conditions


# -- as native checks ----------------------------------------------------------------------------------------
def check_picture(checks: Checks, value: Expression, picture: Any) -> None:
    """Checks that a value is what the picture shows."""
    kind = type(picture)
    if kind is Tree and picture.kind in (tuple, list):
        item = ask.tuple_item if picture.kind is tuple else ask.list_item
        checks.need(ask.type_is(value, picture.kind))
        checks.need(ask.length(value, len(picture.items)))
        for place, part in enumerate(picture.items):
            check_picture(checks, item(value, place), part)
    elif kind in SINGLETONS:
        checks.need(ask.is_object(value, picture))
    elif kind is float:
        checks.need(ask.type_is(value, float))
        checks.need(ask.bits(value, int.from_bytes(float_bits(picture), "little", signed=True)))
    elif kind in (int, str, bytes):
        checks.need(ask.type_is(value, kind))
        checks.need(ask.equal(value, picture))
    else:
        raise Unreadable(repr(picture))
