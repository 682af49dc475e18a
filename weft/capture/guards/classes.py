"""Guards on classes: the order in which they resolve names, and names that they lack.

Takes a class and a name; gives the kinds MRO and ABSENT, `lookup`, and the guards that keep its answer true.
One idea: what a lookup passed by is guarded as well as what it found.
"""

from __future__ import annotations

import types
from collections.abc import Iterable
from typing import Any

from weft.capture.checking import Checks, Unreadable
from weft.capture.guards.base import OBJECT, ByName, Guard, as_ref, each, holds, is_object
from weft.capture.reading import Reader
from weft.capture.sources import WRAPPERS, Ref, Source, class_dict, class_mro, constant, written_in_c
from weft.core.interrupts import let_through
from weft.ops.record import Op


def check_class(guard: Guard, checks: Checks) -> None:
    """A class that has not changed since the guard was seen to hold: what native code asks of classes."""
    checks.unchanged(guard.at)
    if not holds(guard, checks.function, checks.values):
        raise Unreadable(str(guard))


class Mro(Guard, kind="MRO"):
    """The class resolves names in these classes, in this order."""

    early = True
    form = each(OBJECT)

    def normal(self, payload: Any) -> Any:
        return tuple(map(as_ref, payload))

    def fits(self, found: Any) -> bool:
        return same_classes(found, self.payload)

    def describe(self) -> str:
        return f"{self.source}.__mro__ == ({', '.join(map(repr, self.payload))})"

    def actual(self, found: Any) -> str:
        return ", ".join(kind.__name__ for kind in class_mro(found))

    def render(self, reader: Reader) -> None:
        ref, refs = self.at.detail, self.payload
        if self.at.kind == "constant" and ref.weak is None and all(base.weak is None for base in refs):
            order = class_mro(ref.strong)
            if same_classes(ref.strong, refs):  # a new tuple stands there as soon as the bases change
                name = reader.bind(order, f"{ref.strong.__name__}_mro")
                reader.miss_if(f"{reader.constant(class_mro, 'mro')}({reader.read(self.at)}) is not {name}")
                return
        ask = reader.constant(same_classes, "same_classes")
        reader.miss_if(f"not {ask}({reader.read(self.at)}, {reader.bind(refs, 'mro')})")

    def check(self, checks: Checks) -> None:
        check_class(self, checks)


def same_classes(kind: type, refs: tuple[Ref, ...]) -> bool:
    found = class_mro(kind)
    return len(found) == len(refs) and all(map(is_object, found, refs))


class AbsentFromClass(ByName, kind="ABSENT"):
    """The class's own dict lacks the name."""

    early = True

    def fits(self, found: Any) -> bool:
        return self.payload not in class_dict(found)

    def describe(self) -> str:
        return f"{self.payload!r} not in {self.source}.__dict__"

    def actual(self, found: Any) -> str:
        return "otherwise"

    def render(self, reader: Reader) -> None:
        render_absent([self], reader)

    def check(self, checks: Checks) -> None:
        check_class(self, checks)


def render_absent(guards: Iterable[Guard], reader: Reader) -> None:
    """All names that one class must lack are asked for at once."""
    by_class: dict[Source, list[str]] = {}
    for guard in guards:
        by_class.setdefault(guard.at, []).append(guard.payload)
    for source, names in by_class.items():
        ref = source.detail
        if len(names) > 2 and source.kind == "constant" and ref.weak is None:
            lacks = reader.bind(class_dict(ref.strong).keys().isdisjoint, f"{ref.strong.__name__}_lacks")
            reader.miss_if(f"not {lacks}({reader.bind(frozenset(names), 'names')})")
        else:
            members = reader.read_class_dict(source)
            reader.miss_if(" or ".join(f"{name!r} in {members}" for name in names))


# -- names looked up on classes ------------------------------------------------------------------------------
def lookup(cls: type, name: str) -> tuple[type, Any] | None:
    """The first class of the method resolution order whose own dict has the name, and what it has there."""
    for owner in class_mro(cls):
        members = class_dict(owner)
        if name in members:
            return owner, members[name]
    return None


def class_source(cls: type) -> Source:
    """The class as a constant, held by name or weakly."""
    return constant(cls.__name__, cls)


class ClassSources:
    """The sources of classes that are looked at together, made once for each, and whose order is guarded."""

    __slots__ = ("known", "ordered")

    def __init__(self) -> None:
        self.known: dict[int, Source] = {}
        self.ordered: set[int] = set()

    def of(self, cls: type) -> Source:
        """As `class_source`."""
        found = self.known.get(id(cls))
        if found is None or found.detail() is not cls:  # a class that is gone may have had the same id
            found = self.known[id(cls)] = class_source(cls)
            self.ordered.discard(id(cls))
        return found

    def guards_for_lookup(self, cls: type, name: str, found: tuple[type, Any] | None) -> list[Guard]:
        """What keeps a `lookup` true: the order, absence before the owner, and the value there. None for
        classes in C; the order of a class only once.
        """
        guards: list[Guard] = []
        if not written_in_c(cls):
            source = self.of(cls)
            if id(cls) not in self.ordered:
                guards.append(Guard("MRO", source, class_mro(cls)))
        for owner in class_mro(cls):
            if found is not None and owner is found[0]:
                if not written_in_c(owner):
                    guards += guards_for_member(self.of(owner).entry(name), found[1])
                break
            if not written_in_c(owner):
                guards.append(Guard("ABSENT", self.of(owner), name))
        if guards:
            self.ordered.add(id(cls))  # last: no guard is given where something was raised
        return guards


def guards_for_lookup(cls: type, name: str, found: tuple[type, Any] | None) -> list[Guard]:
    """What keeps one `lookup` true."""
    return ClassSources().guards_for_lookup(cls, name, found)


def guards_for_member(source: Source, value: Any) -> list[Guard]:
    """Guards that the value in a class's dict stays what it is: functions by code, constants by value,
    wrappers by what they wrap, else by identity where it can be held, else by type alone.
    """
    if type(value) is types.FunctionType:
        if isinstance(getattr(value, "op", None), Op):  # whose code is another after the first call
            return [Guard("IS", source, value)]
        return [Guard("CODE", source, value.__code__)]
    if type(value) in WRAPPERS:
        guards = [Guard("TYPE", source, type(value))]
        for member in WRAPPERS[type(value)]:
            guards += guards_for_member(source.member(member), getattr(value, member))
        return guards
    for kind in ("EQ", "IS"):
        try:
            return [Guard(kind, source, value)]
        except TypeError as error:  # NotPlain, Unholdable
            let_through(error)
            continue
    return [Guard("TYPE", source, type(value))]
