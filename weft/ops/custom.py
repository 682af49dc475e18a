"""Where custom ops are found by name: `weft.ops.mylib.myop`.

`weft.library` enters each op that a user defines here, under its namespace; `weft.ops` looks here for names
that are none of its modules.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final


class Namespace:
    """The custom ops of one library, as attributes."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"'_OpNamespace' '{self._name}' object has no attribute '{name}'")

    def __dir__(self) -> list[str]:
        return sorted(name for name in self.__dict__ if name != "_name")

    def __repr__(self) -> str:
        return f"<module 'weft.ops.{self._name}' from 'weft.ops'>"


NAMESPACES: Final[dict[str, Namespace]] = {}
LATE: Final[dict[str, Callable[[], Namespace]]] = {}
"""Namespaces that are made when they are first asked for."""


def found(name: str) -> Namespace | None:
    """The namespace of this name, if there is one."""
    known = NAMESPACES.get(name)
    make = LATE.get(name) if known is None else None
    return known if make is None else NAMESPACES.setdefault(name, make())


def enter(namespace: str, name: str, value: Any) -> None:
    """Makes `weft.ops.<namespace>.<name>` be this value."""
    space = found(namespace)
    if space is None:
        space = NAMESPACES.setdefault(namespace, Namespace(namespace))
    space.__dict__[name] = value


def remove(namespace: str, name: str) -> None:
    """Forgets a name, and its namespace once that is empty."""
    known = NAMESPACES.get(namespace)
    if known is not None:
        known.__dict__.pop(name, None)
        if not dir(known):
            del NAMESPACES[namespace]
