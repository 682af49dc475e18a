"""Guards on what an object is: its type, its identity, its code, whether it is there.

Takes a source; gives the kinds TYPE, IS, SAME, DISTINCT, CODE and UNSET. One idea: objects of a user's are
held as `Ref` holds them, by name or weakly, so guards keep nothing alive and a thing that is gone is a miss.
"""

from __future__ import annotations

import types
from enum import Enum
from typing import Any, Final

from weft.capture.checking import Checks, Unreadable
from weft.capture.digests import Unkept
from weft.capture.guards.base import (
    OBJECT,
    SOURCE,
    Fetch,
    Form,
    Guard,
    as_ref,
    each,
    is_not,
    is_object,
    object_text,
    safe_text,
    type_of,
)
from weft.capture.reading import Reader
from weft.capture.sources import Source, cell_value, fetch_step, slot_value
from weft.core import checks as ask
from weft.core.interrupts import let_through


class ObjectGuard(Guard):
    """A kind whose payload is one object."""

    form = OBJECT

    def normal(self, payload: Any) -> Any:
        return as_ref(payload)


class Type(ObjectGuard, kind="TYPE"):
    """type(source) is the class."""

    tells_type = True

    def fits(self, found: Any) -> bool:
        return is_object(type(found), self.payload)

    def describe(self) -> str:
        kind = self.payload()
        return f"type({self.source}) is {'<gone>' if kind is None else kind.__name__}"

    def actual(self, found: Any) -> str:
        return type(found).__name__

    def render(self, reader: Reader) -> None:
        kind = self.payload()
        if kind is not None and reader.types.get(self.at) is kind:
            return
        reader.miss_if(is_not(reader, type_of(reader, reader.read(self.at)), self.payload))
        if kind is not None:
            reader.types[self.at] = kind

    def check(self, checks: Checks) -> None:
        checks.need(ask.type_is(checks.read(self.at), checks.hold(self.payload)))
        checks.types[self.at] = self.payload()


CHOSEN: Final = (types.ModuleType, Enum, type(None))


class Is(ObjectGuard, kind="IS"):
    """source is this very object."""

    def fits(self, found: Any) -> bool:
        return is_object(found, self.payload)

    def apart(self, found: Any) -> dict[str, tuple[str, str]]:
        """Classes, functions and constants with names choose what code does."""
        wanted = self.payload()
        if any(callable(each) or isinstance(each, CHOSEN) for each in (wanted, found)):
            return {}
        was = f"one that is gone ({id(self):#x})" if wanted is None else object_text(wanted)
        return {f"the object {self.source}": (was, object_text(found))}

    def describe(self) -> str:
        ref = self.payload
        return f"{self.source} is {ref.strong!r}" if ref.is_none else f"{self.source} is {ref!r}"

    def render(self, reader: Reader) -> None:
        name, ref = reader.read(self.at), self.payload
        if ref.parts is not None:
            reader.miss_if(f"not {reader.constant(is_object, 'is_object')}({name}, {reader.bind(ref)})")
            return
        text = is_not(reader, name, ref)
        reader.miss_if(text if ref.weak is None else f"{text} or {name} is None")

    def check(self, checks: Checks) -> None:
        checks.need(ask.is_object(checks.read(self.at), checks.hold(self.payload)))


class Same(Guard, kind="SAME"):
    """The same object as another source's."""

    form = SOURCE

    def found(self, fetch: Fetch) -> Any:
        return fetch(self.at), fetch(self.payload)

    def fits(self, found: Any) -> bool:
        return found[0] is found[1]

    def describe(self) -> str:
        return f"{self.source} is {self.payload}"

    def actual(self, found: Any) -> str:
        return "otherwise"

    def sources(self) -> list[Source]:
        return [self.at, self.payload]

    def render(self, reader: Reader) -> None:
        reader.miss_if(f"{reader.read(self.at)} is not {reader.read(self.payload)}")

    def check(self, checks: Checks) -> None:
        checks.need(ask.same(checks.read(self.at), checks.read(self.payload)))


class Distinct(Guard, kind="DISTINCT"):
    """The objects of the source and of these sources are pairwise different."""

    form = each(SOURCE)

    def normal(self, payload: Any) -> Any:
        return tuple(payload)

    def different(self) -> list[Source]:
        return list(dict.fromkeys([self.at, *self.payload]))

    def found(self, fetch: Fetch) -> Any:
        return [fetch(source) for source in self.different()]

    def fits(self, found: Any) -> bool:
        return len(set(map(id, found))) == len(found)

    def describe(self) -> str:
        return f"distinct({', '.join(map(str, self.different()))})"

    def actual(self, found: Any) -> str:
        return "otherwise"

    def sources(self) -> list[Source]:
        return [self.at, *self.payload]

    def render(self, reader: Reader) -> None:
        names = [reader.read(source) for source in self.different()]
        if len(names) <= 3:
            pairs = [f"{a} is {b}" for i, a in enumerate(names) for b in names[i + 1 :]]
            if pairs:
                reader.miss_if(" or ".join(pairs))
            return
        identity = reader.constant(id, "id")
        found = ", ".join(f"{identity}({name})" for name in names)
        reader.miss_if(f"{reader.constant(len, 'len')}({{{found}}}) != {len(names)}")

    def check(self, checks: Checks) -> None:
        found = tuple([checks.read(source) for source in self.different()])
        if len(found) > 1:
            checks.need(ask.distinct(found))


class Code(Guard, kind="CODE"):
    """A Python function with this code object."""

    tells_type = True
    form = Form(lambda writer, code: writer.code(code), lambda reader, at, data: reader.code(at, data))

    def fits(self, found: Any) -> bool:
        return type(found) is types.FunctionType and found.__code__ is self.payload

    def describe(self) -> str:
        return f"{self.source}.__code__ is {code_text(self.payload)}"

    def actual(self, found: Any) -> str:
        return code_text(found.__code__) if type(found) is types.FunctionType else safe_text(found)

    def render(self, reader: Reader) -> None:
        name, code = reader.read(self.at), reader.constant(self.payload, self.payload.co_name)
        kind = reader.constant(types.FunctionType, "function")
        typed = reader.types.get(self.at) is types.FunctionType
        exact = "" if typed else f"{type_of(reader, name)} is not {kind} or "
        reader.miss_if(f"{exact}{name}.__code__ is not {code}")
        reader.types[self.at] = types.FunctionType

    def check(self, checks: Checks) -> None:
        place = checks.factory.member(types.FunctionType, "__code__")
        if place is None:
            raise Unreadable(str(self))
        function = checks.read(self.at)
        checks.need(ask.type_is(function, types.FunctionType))
        checks.need(ask.slot_is(function, place, self.payload))
        checks.types[self.at] = types.FunctionType


def code_text(code: types.CodeType) -> str:
    return f"<code {code.co_qualname}, line {code.co_firstlineno}>"


def _refuse(*_given: object) -> Any:
    raise Unkept("a guard of kind UNSET")


UNKEPT: Final = Form(_refuse, _refuse)


class Unset(Guard, kind="UNSET"):
    """A cell or slot without a value."""

    form = UNKEPT

    def found(self, fetch: Fetch) -> Any:
        assert self.at.parent is not None
        return fetch(self.at.parent)

    def fits(self, found: Any) -> bool:
        if self.at.kind == "cell":
            return cell_is_unset(found)
        return slot_is_unset(found, self.at.detail[0](), self.at.detail[1])

    def describe(self) -> str:
        return f"{self.source} is unset"

    def actual(self, found: Any) -> str:
        return safe_text(fetch_step(self.at, found))

    def render(self, reader: Reader) -> None:
        assert self.at.parent is not None
        above = reader.read(self.at.parent)
        if self.at.kind == "cell":
            reader.miss_if(f"not {reader.constant(cell_is_unset, 'unset')}({above})")
        else:
            owner, name = reader.read_ref(self.at.detail[0]), self.at.detail[1]
            reader.miss_if(f"not {reader.constant(slot_is_unset, 'unset')}({above}, {owner}, {name!r})")

    def check(self, checks: Checks) -> None:
        raise Unreadable(str(self))


def cell_is_unset(cell: Any) -> bool:
    try:
        cell_value(cell)
    except ValueError as error:
        let_through(error)
        return True
    return False


def slot_is_unset(value: Any, owner: Any, name: str) -> bool:
    try:
        slot_value(value, owner, name)
    except AttributeError as error:
        let_through(error)
        return True
    return False
