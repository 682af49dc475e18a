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
    """A tensor that some node of the tape saved, which somebody outside may write to."""

    kind: str
    """One of the words above."""
    number: int
    gradients: int
    """The gradients that such nodes compute, by position: one bit for each."""
    values: int
    """The values whose gradients come to such nodes, in the same way."""


def tensors_saved(
    starts: Mapping[Any, int], ends: Mapping[Any, int], cells: Mapping[int, tuple[str, int]]
) -> list[Saved]:
    """The tensors that the nodes behind `starts` saved. `ends` are the nodes and leaves that gradients are
    asked for, with the bits of their positions, and so are `starts` for values; `cells` are the tensors known
    outside, by the id of their version cell."""
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
    found: dict[tuple[str, int], tuple[int, int]] = {}
    for node in order:
        versions = getattr(node, "versions", None) or ()
        for cell, seen in zip(versions[::2], versions[1::2], strict=True):
            place = cells.get(id(cell))
            if reached[node] and place is not None and cell[0] == seen:
                gradients, values = found.get(place, (0, 0))
                found[place] = gradients | reached[node], values | come[node]
    return [Saved(*place, *bits) for place, bits in found.items()]
