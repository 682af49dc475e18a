"""Recent: a least-recently-used cache.

Takes entries under a lock of its user's, gives them without one. One idea: a use writes the number of an
everlasting count beside the key, so finding never changes the order, or the size, of what others may walk.
"""

from __future__ import annotations

from collections.abc import Hashable
from itertools import count
from typing import Any


class Recent(dict[Any, Any]):
    """A least-recently-used cache: a dictionary that drops the entries first that were not asked for."""

    __slots__ = ("_uses", "_count")

    def __init__(self) -> None:
        super().__init__()
        self._uses: dict[Any, int] = {}
        self._count = count()

    def find(self, key: Hashable) -> Any:
        """The entry, which is used now; None where there is none."""
        found = self.get(key)
        if found is not None:
            self._uses[key] = next(self._count)
        return found

    def keep(self, key: Hashable, value: object) -> None:
        """A new entry."""
        self._uses[key] = next(self._count)
        self[key] = value

    def drop(self) -> None:
        """Forgets the entry that was not asked for the longest."""
        oldest = min(self, key=lambda key: self._uses.get(key, -1))
        del self[oldest]
        self._uses.pop(oldest, None)
