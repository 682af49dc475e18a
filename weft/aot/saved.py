"""What eager code saves: the tensors outside whose later writes make a backward an error.

Takes the tape that a traced graph has left; gives the inputs, values and outputs among what its nodes saved.
One idea: the tape ran over fakes as it does over tensors, so the version cells that its nodes hold tell
exactly which tensors eager watches, and for which gradients.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

INPUT, VALUE, OUTPUT = "input", "value", "output"


class Saved(NamedTuple):
    """A tensor that some node of the tape saved and that code outside may write."""

    kind: str
    """One of the words above."""
    number: int
    gradients: int
    """The gradients that such nodes compute, by position: one bit for each."""
    values: int
    """The values whose gradients come to such nodes, in the same way."""


Ways = list[tuple[Any, int, int]]
"""Nodes of the tape, each with the gradients that it leads to and the values that lead to it, as bits."""


def ways_through(starts: Mapping[Any, int], ends: Mapping[Any, int]) -> Ways:
    """The nodes behind `starts`. `ends` are the nodes and leaves that gradients are asked for, with the bits
    of their positions, and so are `starts` for values."""
    reached: dict[Any, int] = {}
    order: list[Any] = []  # nodes behind those that their edges lead to
    stack = [(node, False) for node in starts]
    while stack:
        node, done = stack.pop()
        if node in reached and not done:
            continue
        targets = [target for target in getattr(node, "next", ()) if target is not None]
        if not done:
            reached[node] = 0
            stack.append((node, True))
            stack += [(target, False) for target in targets if target not in reached]
            continue
        bits = 0
        for target in targets:
            bits |= ends.get(target, 0) | reached.get(target, 0)
        reached[node] = bits
        order.append(node)
    come = dict(starts)
    for node in reversed(order):
        for target in getattr(node, "next", ()):
            if target is not None:
                come[target] = come.get(target, 0) | come[node]
    return [(node, reached[node], come[node]) for node in order]


def tensors_saved(ways: Ways, cells: Mapping[int, tuple[str, int]]) -> list[Saved]:
    """The tensors that these nodes saved; `cells` are those known outside, by the id of their version
    cell."""
    found: dict[tuple[str, int], tuple[int, int]] = {}
    for node, reached, come in ways:
        versions = getattr(node, "versions", None) or ()
        for cell, seen in zip(versions[::2], versions[1::2], strict=True):
            place = cells.get(id(cell))
            if reached and place is not None and cell[0] == seen:
                gradients, values = found.get(place, (0, 0))
                found[place] = gradients | reached, values | come
    return [Saved(*place, *bits) for place, bits in found.items()]


def saves(node: object) -> bool:
    """Whether a backward frees something that a node of the tape holds."""
    return bool(getattr(node, "saved", None))


def parts_freed(ways: Ways) -> list[tuple[int, int]]:
    """The ways through nodes that a backward frees: of each part of the tape that sweeps visit together, the
    gradients it leads to and the values that lead to it."""
    return list(dict.fromkeys([(reached, come) for node, reached, come in ways if saves(node)]))
