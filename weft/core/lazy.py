"""Lazy loading: heavy modules (scipy, llvmlite, our own upper layers) are imported when first used.

Gives a proxy that imports its module on the first attribute read and then keeps what it read. Forks wait for
such imports: Note [Imports in a fork]. One idea: an import is never interrupted. Python's own takes and
releases the lock of a module in lines of Python, where whatever strikes leaves it taken: all other threads
that need the module would wait for ever.
"""

from __future__ import annotations

import importlib
import sys
from types import ModuleType
from typing import Any, Final

from weft.core.forks import is_importing
from weft.core.threads import out_of_reach


def _load(name: str) -> ModuleType:
    return importlib.import_module(name)


_apart: Final = out_of_reach(_load, is_importing, everywhere=True)


def load(name: str) -> ModuleType:
    """The module, imported out of reach of interrupts where it is not there yet."""
    found = sys.modules.get(name)
    if found is not None and not getattr(found.__spec__, "_initializing", False):
        return found
    return _apart(name)


class LazyModule:
    """Stands for a module; the import happens when an attribute is first asked for."""

    def __init__(self, name: str) -> None:
        self.__dict__["_module_name"] = name

    def __getattr__(self, attribute: str) -> Any:
        if attribute.startswith("__"):
            raise AttributeError(attribute)
        value = getattr(load(self._module_name), attribute)
        self.__dict__[attribute] = value
        return value


def lazy(name: str) -> Any:
    """A proxy for the module `name`."""
    return LazyModule(name)
