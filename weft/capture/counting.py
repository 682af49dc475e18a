"""Counting: numbers that captured code reads where it then writes others.

Takes what a capture found; gives the marks of such places, which are symbols when the call is captured anew.
One idea: `self.steps += 1` tells at once that the next call finds another number there, so no entry is made
for the first one. Sizes that happen to be 0 or 1 are other programs; what is counted passes through them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from weft.capture.plain import thaw
from weft.capture.sources import Source
from weft.capture.world import items_of
from weft.trace.scalars import SymFloat, SymInt

if TYPE_CHECKING:
    from weft.capture.outcome import Outcome
    from weft.capture.world import World

NUMBERS = (int, float)
STEPS = ("field", "slot", "item", "cell")


def counted(source: Source) -> str:
    """The mark of a number that is counted on."""
    return f"counted {source}"


def numbers_counted(outcome: Outcome) -> frozenset[str]:
    """The marks of the numbers that guards compare, and that the stores replace."""
    compared: dict[tuple[Source | None, Any], tuple[Source, Any]] = {}
    for guard in outcome.world.guards:
        if guard.kind == "EQ" and guard.at.kind in STEPS and type(thaw(guard.payload)) in NUMBERS:
            detail = guard.at.detail[1] if guard.at.kind == "slot" else guard.at.detail
            compared[guard.at.parent, detail] = guard.at, thaw(guard.payload)
    marks: set[str] = set()
    for place, new in stored(outcome.world) if compared else ():
        source, old = compared.get(place, (None, None))
        kind = type(new)
        if source is not None and (kind in (SymInt, SymFloat) or (kind in NUMBERS and new != old)):
            marks |= {str(source), counted(source)}
    return frozenset(marks)


def stored(world: World) -> Iterator[tuple[tuple[Source, Any], Any]]:
    """What the stores put where: by the source of the owner, and the name or key."""
    for overlay in world.overlays.values():
        for name, new in overlay.writes.items():
            yield (overlay.source, name), new
    for unopened in world.still_unopened():
        for key, new in unopened.items.items():
            yield (unopened.source, key), new
    for known in world.changed_mirrors():
        pairs = known.value.items() if isinstance(known.value, dict) else enumerate(items_of(known.value))
        for key, new in pairs:
            yield (known.source, key), new
