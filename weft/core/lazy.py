"""Lazy loading: heavy modules (scipy, llvmlite, our own upper layers) are imported when first used.

Gives a proxy that imports its module on the first attribute read and then keeps what it read. Forks wait for
such imports: Note [Imports in a fork].
"""

from __future__ import annotations

import importlib
from typing import Any

from weft.core import forks as forks


class LazyModule:
    """Stands for a module; the import happens when an attribute is first asked for."""

    def __init__(self, name: str) -> None:
        self.__dict__["_module_name"] = name

    def __getattr__(self, attribute: str) -> Any:
        if attribute.startswith("__"):
            raise AttributeError(attribute)
        value = getattr(importlib.import_module(self._module_name), attribute)
        self.__dict__[attribute] = value
        return value


def lazy(name: str) -> Any:
    """A proxy for the module `name`."""
    return LazyModule(name)
