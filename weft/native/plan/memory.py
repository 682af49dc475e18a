"""Memory planning: the offsets of a program's values, and the blocks that calls compute in.

Takes how large values are and during which steps they are needed; gives offsets in one block. One idea: what
is not needed at the same time may lie at the same place, and a block is a call's own for as long as it runs,
so that calls may nest, and may come from several threads.

# Note [Places of open sizes]
A plan for some sizes says which value lies on which others. That is all that is kept of it where sizes are
open: a value begins where the last of those ends that it lies on. So what is needed at the same time lies
apart at all sizes, and nothing lies higher than there at those of the plan. A quarter of these sizes, and
four times as much, have plans of their own; of the three orders that one is taken whose worst waste is least,
if it is not too much for this call. Where it takes more than a quarter beyond the plan of other sizes, it is
not for these: half way to them, by its own length, another template begins.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial, reduce
from itertools import accumulate
from typing import Any, Final

import numpy as np

from weft.core.interrupts import let_through
from weft.core.records import record, replace
from weft.native.ir.sizes import hint, unsimplified

ALIGNMENT: Final = 64
"""A line of the cache, and the widest vector."""
LARGE: Final = 1 << 20
"""Smaller blocks need not be counted."""
MOST_WASTE: Final = 1.25
"""How many times what a program for one size alone needs those for others, too, may need."""


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
    around: Sequence[tuple[int, float]] = ()
    """Of open sizes: its size in these calls, and how many times what a plan for each alone needs."""


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


def placed_open(lifetimes: Iterable[Lifetime], others: Iterable[Callable[[Any], int]] = ()) -> Placement:
    """Places values whose sizes are open: see Note [Places of open sizes]. `others` give sizes of values as
    they are in other calls."""
    values = list(lifetimes)
    every = [_numbers(values, read) for read in (hint, *others)]
    calls = [sizes for sizes in every if sizes is not None]
    plans = [placed([replace(value, size=sizes[value.key]) for value in values]) for sizes in calls]
    orders = [stacked(values, plan.offsets, sizes) for sizes, plan in zip(calls, plans, strict=True)]

    def waste(order: Mapping[int, Sequence[int]]) -> list[float]:
        return [_end(order, sizes) / max(own.size, 1) for sizes, own in zip(calls, plans, strict=True)]

    def cost(order: Mapping[int, Sequence[int]]) -> tuple[bool, float]:
        wasted = waste(order)
        return wasted[0] > MOST_WASTE, max(wasted)

    best = min(orders, key=cost)
    found = iter(waste(best))
    around = [(0, 1.0) if sizes is None else (_end(best, sizes), next(found)) for sizes in every]
    room = {value.key: aligned(value.size) for value in values}
    offsets: dict[int, Any] = {}
    ends: dict[int, Any] = {}
    for key, under in best.items():
        offsets[key] = _highest([ends[each] for each in under])
        ends[key] = unsimplified("add", offsets[key], room[key])
    covered = {each for under in best.values() for each in under}
    return Placement(offsets, _highest([end for key, end in ends.items() if key not in covered]), around)


def _highest(ends: Sequence[Any]) -> Any:
    """The last of some places, which are long sums."""
    return reduce(partial(unsimplified, "max"), ends) if ends else 0


def stacked(
    values: Iterable[Lifetime], offsets: Mapping[int, int], sizes: Mapping[int, int]
) -> dict[int, list[int]]:
    """For values with offsets, from the lowest on: on which others each lies. Whatever is needed at the same
    time and lies lower is one of these, or below one of them. Those without elements come first, since what
    lies on one lies on all that it lies on."""

    def place(value: Lifetime) -> tuple[bool, int, int, int]:
        return sizes[value.key] > 0, offsets[value.key], value.first, value.key

    starts: list[int] = [-1]
    tops: list[int | None] = [None]
    """What lies on top, from which step on."""
    found: dict[int, list[int]] = {}
    for value in sorted(values, key=place):
        begin, end = bisect_right(starts, value.first) - 1, bisect_left(starts, value.last + 1)
        found[value.key] = [each for each in dict.fromkeys(tops[begin:end]) if each is not None]
        changes: list[tuple[int, int | None]] = [(value.first, value.key)]
        if starts[begin] < value.first:
            changes.insert(0, (starts[begin], tops[begin]))
        if end == len(starts) or starts[end] > value.last + 1:
            changes.append((value.last + 1, tops[end - 1]))
        starts[begin:end] = [start for start, _ in changes]
        tops[begin:end] = [top for _, top in changes]
    return found


def _numbers(values: Sequence[Lifetime], read: Callable[[Any], int]) -> dict[int, int] | None:
    """The sizes of values in a call; None where they have none there."""
    try:
        return {value.key: read(value.size) for value in values}
    except ArithmeticError as error:
        let_through(error)
        return None


def _end(order: Mapping[int, Sequence[int]], sizes: Mapping[int, int]) -> int:
    """Where the last value ends in a call with these sizes."""
    ends: dict[int, int] = {}
    for key, under in order.items():
        ends[key] = max([ends[each] for each in under], default=0) + aligned(sizes[key])
    return max(ends.values(), default=0)


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
    return Placement(offsets, plan.size, plan.around)


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
