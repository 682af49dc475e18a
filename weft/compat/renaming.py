"""Renaming: classes of ours say that they lie where PyTorch keeps them, and print as users know them."""

from __future__ import annotations

from typing import Any

from weft.compat.table import CLASSES, INTERNAL
from weft.core.naming import rename


def rename_classes(module: Any) -> None:
    """Renames each class of ours that the module holds."""
    for value in list(getattr(module, "__dict__", {}).values()):
        rename_class(value)


def rename_class(kind: Any) -> None:
    """Renames what is given, if it is a class of ours."""
    module = kind.__module__ if isinstance(kind, type) else None
    if not isinstance(module, str) or not (module == "weft" or module.startswith("weft.")):
        return
    package = ".".join(module.split(".")[:2])
    target = CLASSES.get(f"{module}.{kind.__qualname__}") or CLASSES.get(module) or CLASSES.get(package)
    if target is None and package[5:] not in INTERNAL:
        target = f"torch{module[4:]}"
    if target is not None:
        place, _, name = target.partition(":")
        rename(kind, place)
        if name:
            kind.__name__ = kind.__qualname__ = name
