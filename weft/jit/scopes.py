"""Scopes: which name stands for what at a place of the code.

Takes names and sugared values; gives them back. One idea: each branch and each loop has a frame of its own
above that of what surrounds it, and a type refinement by a test is held apart from assignments, since it ends
with its branch.
"""

from __future__ import annotations

from typing import Any

from weft.jit.sugar import Simple, Sugar
from weft.jit.types import Type


class Frame:
    """The names of one block."""

    def __init__(self, parent: Frame | None, loop: Any = None) -> None:
        self.parent = parent
        self.names: dict[str, Sugar] = {}
        self.refined: dict[str, Sugar] = {}
        self.missing: dict[str, str] = {}
        """Names that exist on some ways only, and what to say when they are used."""
        self.loop: Any = loop if loop is not None or parent is None else parent.loop

    def find(self, name: str) -> Sugar | None:
        frame: Frame | None = self
        while frame is not None:
            for table in (frame.refined, frame.names):
                if name in table:
                    return table[name]
            if name in frame.missing:
                return None
            frame = frame.parent
        return None

    def find_assigned(self, name: str) -> Sugar | None:
        """What was assigned, without what tests say about it."""
        frame: Frame | None = self
        while frame is not None:
            if name in frame.names:
                return frame.names[name]
            frame = frame.parent
        return None

    def why_missing(self, name: str) -> str | None:
        frame: Frame | None = self
        while frame is not None:
            if name in frame.missing:
                return frame.missing[name]
            frame = frame.parent
        return None

    def set(self, name: str, value: Sugar) -> None:
        self.names[name] = value
        self.refined.pop(name, None)
        self.missing.pop(name, None)

    def refine(self, name: str, value: Sugar) -> None:
        self.refined[name] = value

    def outer_type(self, name: str) -> Type | None:
        """The type that a variable has in what surrounds this block."""
        if self.parent is None:
            return None
        found = self.parent.find_assigned(name)
        return found.value.kind if isinstance(found, Simple) else None
