"""Namespaces: the dicts of objects and modules as captured code sees them, and questions about names in them.

Takes a machine and the owner of the names; gives mappings whose reads are guarded one by one. One idea: such
a dict may hold anything, so what captured code does not touch is not guarded.
"""

from __future__ import annotations

import types
from collections.abc import Iterator, MutableMapping
from typing import TYPE_CHECKING, Any

from weft.capture.guards import Guard, class_source, guards_for_member, lookup
from weft.capture.sources import Source, class_dict
from weft.capture.values import has_type
from weft.capture.world import ABSENT, Known
from weft.core.interrupts import let_through
from weft.trace.breaks import Break

if TYPE_CHECKING:
    from weft.capture.machine import Machine


class InstanceDict(MutableMapping[str, Any]):
    """The `__dict__` of an object that existed before: reads are guarded one by one, writes go to its
    overlay.
    """

    def __init__(self, machine: Machine, known: Known) -> None:
        self._machine, self._known = machine, known

    def _find(self, name: Any) -> Any:
        """What stands under the name now, or ABSENT. Guarded."""
        return self._machine.parts.open(self._machine.attributes.field(self._known.value, name))

    def _write(self, name: str, value: Any) -> None:
        """Files a write; ABSENT deletes."""
        self._machine.world.write(self._known.value, "attribute", self._known.source, name, value)

    def __getitem__(self, name: str) -> Any:
        value = self._find(name)
        if value is ABSENT:
            raise KeyError(name)
        return value

    def __setitem__(self, name: str, value: Any) -> None:
        self._write(name, value)

    def __delitem__(self, name: str) -> None:
        self[name]
        self._write(name, ABSENT)

    def __iter__(self) -> Iterator[str]:
        fields = object.__getattribute__(self._known.original, "__dict__")
        source = self._known.source.member("__dict__")
        self._machine.world.guard("KEYS", source, tuple(fields))
        overlay = self._machine.world.overlays.get(id(self._known.value))
        if overlay is None:
            return iter(list(fields))
        gone = overlay.deleted
        added = [name for name in overlay.writes if name not in fields or name in gone]
        slots = [name for name in added if find_slot(type(self._known.value), name)]
        added = [name for name in added if overlay.writes[name] is not ABSENT and name not in slots]
        return iter([*(name for name in fields if name not in gone), *added])

    def __len__(self) -> int:
        return len(list(iter(self)))

    def __contains__(self, name: object) -> bool:
        return self._find(name) is not ABSENT


class ModuleDict(InstanceDict):
    """The variables of a module, as `globals()` and `vars(module)` give them."""

    def __init__(self, machine: Machine, fields: dict[str, Any], source: Source) -> None:
        self._machine, self._fields, self.source = machine, fields, source

    def _find(self, name: Any) -> Any:
        written, new = self._machine.world.written(self._fields, name)
        if written:
            return self._machine.parts.open(new)
        if name not in self._fields:
            self._machine.world.guard("LACKS", self.source, name)
            return ABSENT
        return self._machine.wrapping.wrap(self._fields[name], self.source.item(name))

    def _write(self, name: str, value: Any) -> None:
        self._machine.world.write(self._fields, "item", self.source, name, value)

    def __iter__(self) -> Iterator[str]:
        raise Break("builtin-protocol", seen="all variables of a module")


class ClassDict(ModuleDict):
    """The attributes of a class itself, as `cls.__dict__` gives them."""

    def __init__(self, machine: Machine, cls: type) -> None:
        self._machine, self.cls = machine, cls

    def _find(self, name: Any) -> Any:
        world = self._machine.world
        written, new = world.written(self.cls, name)
        if written:
            return new
        source = class_source(self.cls)
        if name not in class_dict(self.cls):
            world.guards.add(Guard("ABSENT", source, name))
            return ABSENT
        found = class_dict(self.cls)[name]
        world.guards.update(guards_for_member(source.entry(name), found))
        return self._machine.wrapping.wrap(found, source.entry(name))

    def __setitem__(self, name: str, value: Any) -> None:
        raise TypeError("'mappingproxy' object does not support item assignment")

    def __delitem__(self, name: str) -> None:
        raise TypeError("'mappingproxy' object does not support item deletion")


def is_added(found: Any) -> bool:
    """Whether an attribute of a class of ours was put there by the user."""
    inner = getattr(found, "__func__", found.fget if has_type(found, property) else found)
    return has_type(inner, types.FunctionType) and not str(inner.__module__).startswith("weft")


def find_slot(cls: type, name: str) -> bool:
    """Whether the name is kept beside the object's dict."""
    found = lookup(cls, name)
    return found is not None and has_type(found[1], types.MemberDescriptorType)


class _Sample:
    __slots__ = ("slot",)
    slot: Any


def _tells_module() -> bool:
    try:
        _Sample().slot  # noqa: B018
    except AttributeError as error:
        let_through(error)
        return _Sample.__module__ in str(error)
    return False


TELLS_MODULE = _tells_module()
"""Whether this Python names the module of a class whose slot is empty."""


def missing_text(cls: type, name: str) -> str:
    """What Python says of an attribute that is not there."""
    shown = cls.__name__
    if TELLS_MODULE and find_slot(cls, name):
        shown = cls.__qualname__ if cls.__module__ == "__main__" else f"{cls.__module__}.{cls.__qualname__}"
    return f"'{shown}' object has no attribute '{name}'"
