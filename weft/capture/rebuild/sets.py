"""Rebuilding sets: an order of filling by which a new set is walked as another one is.

Takes the items of a set as it is walked, and the size of its table; gives the order in which to add them. One
idea: captured code may have walked the set (`for name in names: ...`) and the rest of the program may walk it
again, so both must meet the items in the same order, whatever it is.

# Note [Order of sets]
A set is walked along its table. Where an item lies depends on its hash, on the size of the table, and on who
came first to a place that two items want. Added one by one, items make the table grow fourfold when it is
full by 60 %; added from a dict or a set, they make room for twice their number at once. Items that are added
in the order of the table find their places again, save those that had to leave their own for one *before* it:
each of these moves to the end of the queue, so that the other is there first, or before the one that has its
place now. Where that goes in circles, it starts again from some other order.
"""

from __future__ import annotations

import random
from typing import Any, TypeVar

ATTEMPTS = 100
FEW = 16
"""So many items are tried in any order."""
SetLike = TypeVar("SetLike", bound=set[Any])


def table_size(value: Any) -> int:
    """The bytes of a set's table, 0 where the small one inside the object serves."""
    return set.__sizeof__(value) - type(value).__basicsize__


def filled(target: SetLike, items: list[Any], at_once: int) -> SetLike:
    """The set with the items added: so many of them at once, the others one by one. Below 0: all one by one,
    then so many again at once, which makes room for them as if they were new (as `a | b` does).
    """
    if at_once > 0:
        set.update(target, dict.fromkeys(items[:at_once]))
    set.update(target, items[max(at_once, 0) :])
    if at_once < 0:
        set.update(target, dict.fromkeys(items[:-at_once]))
    return target


def filling(items: list[Any], size: int) -> tuple[list[Any], int] | None:
    """The order of adding, and how many to add at once; None if none is found."""
    count = len(items)
    ways = dict.fromkeys([0, count, *range(count - 1, max(count - 9, 0), -1), count // 2, count // 4])
    ways.update(dict.fromkeys(range(-1, -min(count, 8) - 1, -1)))
    for at_once in ways:
        if table_size(filled(set(), items, at_once)) == size:
            order = _repaired(items, at_once)
            if order is not None:
                return order, at_once
    return None


def _repaired(items: list[Any], at_once: int) -> list[Any] | None:
    chance = random.Random(0)
    order = list(items)
    for attempt in range(ATTEMPTS if len(items) <= FEW else 2):
        for _ in range(len(items) + 2):
            made: set[Any] = filled(set(), order, at_once)
            wrong = next(
                ((item, got) for item, got in zip(items, made, strict=True) if item is not got), None
            )
            if wrong is None:
                return order
            missed, found = wrong
            order = [item for item in order if item is not missed]
            order.insert(order.index(found) if attempt % 2 else len(order), missed)
        order = chance.sample(items, len(items)) if attempt else list(items)
    return None
