"""Naming: the name under which this library speaks of itself, in texts and in classes.

Users import `weft`; under `weft.compat` they import `torch` and are to read that name. One idea: whoever
prints asks here, and where a class was renamed, `home` still tells where it is written.
"""

from __future__ import annotations

import re
from typing import Any, Final

OURS: Final = "weft"
_OUR_NAMES: Final = re.compile(r"\bweft\.(?=[A-Za-z_])")


class Naming:
    """The name in force."""

    namespace: str = OURS


naming: Final = Naming()


def named(text: str) -> str:
    """The text, which says `weft.something`, with the name in force.

    >>> named("must be weft.dtype")
    'must be weft.dtype'
    """
    if naming.namespace == OURS:
        return text
    return _OUR_NAMES.sub(f"{naming.namespace}.", text).replace("Weft", "PyTorch")


_homes: Final[dict[int, str]] = {}
"""By identity: classes of users' need not be hashable, and ours are never freed."""


def home(kind: type) -> str:
    """The module in which a class is written, whatever its `__module__` says to users."""
    found: Any = _homes.get(id(kind))
    return (kind.__module__ or "") if found is None else found


def rename(kind: type, module: str) -> None:
    """Lets a class of ours say that it lies in this module."""
    _homes.setdefault(id(kind), kind.__module__)
    kind.__module__ = module
