"""Guards on containers: the kinds LEN, KEYS, HAS and LACKS.

Takes a source whose value is, or builds on, a container of Python's own; asks for its builtin part alone. One
idea: where the lines before have checked the exact type, its own methods are the short way.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

from weft.capture.checking import DICTS, Checks, Unreadable
from weft.capture.guards.base import NAME, ByName, Guard, Pictured, safe_text, short
from weft.capture.guards.classes import check_class
from weft.capture.guards.keys import other_keys, same_keys
from weft.capture.plain import exact_key, freeze, thaw
from weft.capture.reading import Reader
from weft.capture.sources import (
    builtin_base,
    safe_contains,
    safe_iter,
    safe_length,
    written_in_c,
)
from weft.core import checks as ask


class Length(ByName, kind="LEN"):
    """Length of a builtin container."""

    early = True

    def fits(self, found: Any) -> bool:
        return bool(safe_length(found) == self.payload)

    def describe(self) -> str:
        return f"len({self.source}) == {self.payload}"

    def apart(self, found: Any) -> dict[str, tuple[str, str]]:
        return {f"len({self.source})": (str(self.payload), self.actual(found))}

    def actual(self, found: Any) -> str:
        return str(safe_length(found))

    def render(self, reader: Reader) -> None:
        kind = reader.known(self.at)
        plain = kind is not None and written_in_c(kind)
        measure = reader.constant(len if plain else safe_length, "len")
        reader.miss_if(f"{measure}({reader.read(self.at)}) != {self.payload}")

    def check(self, checks: Checks) -> None:
        kind = checks.container(self.at)
        if kind in (list, tuple):
            checks.need(ask.length(checks.read(self.at), self.payload))
        elif kind is not None and builtin_base(kind) in DICTS:
            checks.need(ask.dict_length(checks.read(self.at), self.payload))
        else:
            raise Unreadable(str(self))
        checks.lengths[self.at] = self.payload


class DictKeys(Pictured, kind="KEYS"):
    """A dict's keys: plain constants, in this order."""

    early = True

    def normal(self, payload: Any) -> Any:
        return super().normal(tuple(payload))

    def fits(self, found: Any) -> bool:
        return same_keys(found, self.payload.items)

    def describe(self) -> str:
        return f"list({self.source}) == {short(list(map(thaw, self.payload.items)))}"

    def apart(self, found: Any) -> dict[str, tuple[str, str]]:
        wanted = short(list(map(thaw, self.payload.items)))
        return {f"the keys of {self.source}": (wanted, self.actual(found))}

    def actual(self, found: Any) -> str:
        return f"[{', '.join(map(safe_text, safe_iter(found)))}]"

    def render(self, reader: Reader) -> None:
        keys = self.payload.items
        name, kind = reader.read(self.at), reader.known(self.at)
        if kind is None or not written_in_c(kind):
            reader.miss_if(f"not {reader.constant(same_keys)}({name}, {reader.bind(keys, 'keys')})")
        elif not keys:
            reader.miss_if(name)
        else:
            count = f"{reader.constant(len, 'len')}({name}) != {len(keys)}"
            reader.miss_if(f"{count} or {other_keys(reader, name, keys)}")

    def check(self, checks: Checks) -> None:
        keys, kind = self.payload.items, checks.known(self.at)
        base = None if kind is None else builtin_base(kind)
        if base not in DICTS or (keys and base is OrderedDict):  # whose order is its own
            raise Unreadable(str(self))
        if not keys:
            checks.need(ask.dict_length(checks.read(self.at), 0))
        else:
            there = list(safe_iter(checks.value(self.at)))  # the very objects
            if not same_keys(there, keys) or any(type(key) is not str for key in there):
                raise Unreadable(str(self))
            checks.need(ask.dict_keys(checks.read(self.at), there))
        checks.lengths[self.at] = len(keys)


class Membership(ByName):
    """Whether a dict has a key."""

    there: bool

    def key(self) -> Any:
        return exact_key(freeze(self.payload))

    def fits(self, found: Any) -> bool:
        return safe_contains(found, self.payload) is self.there

    def describe(self) -> str:
        return f"{self.payload!r} {'in' if self.there else 'not in'} {self.source}"

    def actual(self, found: Any) -> str:
        return "otherwise"

    def render(self, reader: Reader) -> None:
        name, key = reader.read(self.at), reader.constant(self.payload)
        kind = reader.known(self.at)
        if kind is dict or kind is OrderedDict:
            reader.miss_if(f"{key} {'not in' if self.there else 'in'} {name}")
        else:
            negation = "not " if self.there else ""
            reader.miss_if(f"{negation}{reader.constant(safe_contains, 'contains')}({name}, {key})")

    def check(self, checks: Checks) -> None:
        if self.at.kind == "constant":  # a class's names
            check_class(self, checks)
            return
        kind = checks.known(self.at)
        if kind is None or builtin_base(kind) not in DICTS or type(self.payload) is not str:
            raise Unreadable(str(self))
        checks.need((ask.dict_item if self.there else ask.dict_lacks)(checks.read(self.at), self.payload))


class Maybe(Guard, kind="MAYBE"):
    """What stands at the source can be read: a dict lacks the key, or has an object of the class there."""

    form = NAME

    def normal(self, payload: Any) -> Any:
        return 0

    def fits(self, found: Any) -> bool:
        return True

    def describe(self) -> str:
        key, kind = self.at.detail
        return f"{key!r} not in {self.at.parent} or type({self.at.parent}[{key!r}]) is {kind().__name__}"

    def actual(self, found: Any) -> str:
        return "otherwise"

    def render(self, reader: Reader) -> None:
        reader.read(self.at)

    def check(self, checks: Checks) -> None:
        checks.read(self.at)


class Has(Membership, kind="HAS"):
    """A dict has the key."""

    there = True


class Lacks(Membership, kind="LACKS"):
    """A dict lacks the key."""

    there = False
