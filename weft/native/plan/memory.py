"""Memory planning: the offsets of a program's values, and the blocks that calls compute in.

Takes how large values are and during which steps they are needed; gives offsets in one block. One idea: what
is not needed at the same time may lie at the same place, and a block is a call's own for as long as it runs,
so that calls may nest, and may come from several threads.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable, Iterable, Sequence
from itertools import accumulate
from typing import Any, Final

import numpy as np

from weft.core.interrupts import let_through
from weft.core.records import record
from weft.native.ir.sizes import greatest, hint, unsimplified

ALIGNMENT: Final = 64
"""A line of the cache, and the widest vector."""
LARGE: Final = 1 << 20
"""Smaller blocks need not be counted."""


@record(frozen=True, slots=True)
class Lifetime:
    """A value: the first step that writes it, and the last one that reads it; both need it."""

    key: int
    size: Any
    """In bytes; may be open."""
    first: int
    last: int


@record(frozen=True, slots=True)
class Placement:
    """Where values lie."""

    offsets: dict[int, Any]
    size: Any
    """Of the whole block, in bytes."""


def aligned(size: Any) -> Any:
    return -(-size // ALIGNMENT) * ALIGNMENT


def placed(lifetimes: Iterable[Lifetime]) -> Placement:
    """Puts each value into the smallest gap that holds it, in the order in which they come to life."""
    gaps: list[tuple[int, int]] = []  # (offset, size), by offset, never beside one another
    living: list[tuple[int, int, int]] = []  # (last step, offset, size), by last step
    offsets: dict[int, int] = {}
    end = 0
    for value in sorted(lifetimes, key=lambda each: (each.first, -each.size)):
        while living and living[0][0] < value.first:
            _, offset, size = living.pop(0)
            insort(gaps, (offset, size))
            gaps = _joined(gaps)
        size = aligned(value.size)
        if not size:
            offsets[value.key] = 0
            continue
        fitting = [gap for gap in gaps if gap[1] >= size]
        if fitting:
            offset, room = min(fitting, key=lambda gap: gap[1])
            gaps.remove((offset, room))
            if room > size:
                insort(gaps, (offset + size, room - size))
        elif gaps and sum(gaps[-1]) == end:  # the last gap, made larger
            offset, _ = gaps.pop()
            end = offset + size
        else:
            offset, end = end, end + size
        offsets[value.key] = offset
        insort(living, (value.last, offset, size))
    return Placement(offsets, end)


def placed_in_slots(lifetimes: Iterable[Lifetime]) -> Placement:
    """Gives each value a slot that is free, one that has to grow the least. Sizes may be open: which values
    share a slot is settled once, a slot is as large as its largest value, and slots lie one behind the other.
    """
    slots: list[_Slot] = []
    for value in sorted(lifetimes, key=lambda each: (each.first, -hint(each.size))):
        size = hint(value.size)
        free = [slot for slot in slots if slot.last < value.first]
        if free:
            slot = min(free, key=lambda each: (max(size - each.hint, 0), max(each.hint - size, 0)))
        else:
            slot = _Slot()
            slots.append(slot)
        slot.take(value)
    offsets: dict[int, Any] = {}
    end: Any = 0
    for slot in slots:
        offsets |= dict.fromkeys(slot.keys, end)
        end = unsimplified("add", end, aligned(greatest(*slot.sizes)))
    return Placement(offsets, end)


class _Slot:
    """Memory for values that are not needed at the same time."""

    def __init__(self) -> None:
        self.keys: list[int] = []
        self.sizes: dict[Any, None] = {}
        self.hint, self.last = 0, -1

    def take(self, value: Lifetime) -> None:
        self.keys.append(value.key)
        self.sizes[value.size] = None
        self.hint, self.last = max(self.hint, hint(value.size)), value.last


def in_runs(
    lifetimes: Iterable[Lifetime],
    runs: Iterable[Sequence[int]],
    alike: dict[int, int],
    placed: Callable[[Iterable[Lifetime]], Placement] = placed,
) -> Placement:
    """Places values so that those of each run lie one behind the other, and some where others do."""
    values = {value.key: value for value in lifetimes}
    joined: list[Lifetime] = []
    inside: list[tuple[int, list[tuple[int, int]]]] = []
    for run in runs:
        parts = [values[key] for key in run]
        others = [values[key] for key, other in alike.items() if other in run]
        ends = [(value.first, value.last) for value in (*parts, *others)]
        starts = list(accumulate([0, *[value.size for value in parts]]))
        first, last = min(first for first, _ in ends), max(last for _, last in ends)
        joined.append(Lifetime(run[0], starts[-1], first, last))
        inside.append((run[0], list(zip(run, starts))))
    gone = {key for run in inside for key, _ in run[1]} | alike.keys()
    plan = placed([*[value for key, value in values.items() if key not in gone], *joined])
    offsets = dict(plan.offsets)
    for start, places in inside:
        before = plan.offsets[start]
        offsets.update({key: unsimplified("add", before, distance) for key, distance in places})
    offsets.update({key: offsets[other] for key, other in alike.items()})
    return Placement(offsets, plan.size)


def _joined(gaps: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Gaps, neighbours as one."""
    found: list[tuple[int, int]] = []
    for offset, size in gaps:
        if found and sum(found[-1]) == offset:
            found[-1] = (found[-1][0], found[-1][1] + size)
        else:
            found.append((offset, size))
    return found


class Block:
    """Memory for one call at a time."""

    __slots__ = ("address", "array", "room")

    def __init__(self, room: int) -> None:
        raw = np.empty(room + ALIGNMENT, np.uint8)
        start: int = raw.__array_interface__["data"][0]
        skipped = aligned(start) - start
        self.array: Any = raw[skipped : skipped + room]
        self.address = start + skipped
        self.room = room


class Blocks:
    """Blocks that are free, by how much they hold. Lists are changed by single steps of the interpreter, so
    no lock is needed: a block is in a list, or somebody has it.
    """

    KEPT: Final = 1 << 28
    """How many bytes may wait here, about; a block that is larger than all may wait alone."""
    MOST: Final = 4
    """How many blocks of one size may."""

    def __init__(self) -> None:
        self.free: dict[int, list[Block]] = {}

    def take(self, size: int) -> Block:
        """A block of at least this size."""
        room = room_for(size)
        waiting = self.free.get(room)
        if waiting:
            try:
                return waiting.pop()
            except IndexError as error:  # another thread was faster
                let_through(error)
        return Block(room)

    def give(self, block: Block) -> None:
        """Returns a block, which must not be used any more."""
        waiting = self.free.setdefault(block.room, [])
        if len(waiting) >= self.MOST:
            return
        if block.room >= LARGE and self.held() + block.room > self.KEPT:
            self.free.clear()  # what is used again comes again
            waiting = self.free.setdefault(block.room, [])
        waiting.append(block)

    def held(self) -> int:
        """How many bytes wait here."""
        return sum(room * len(waiting) for room, waiting in list(self.free.items()))

    def clear(self) -> None:
        self.free.clear()


def room_for(size: int) -> int:
    """The size of a block for so many bytes: a power of two; untouched pages cost nothing."""
    return 1 << max(size - 1, 1023).bit_length()


blocks: Final = Blocks()
