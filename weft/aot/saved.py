"""What eager code saves: the tensors outside whose later writes make a backward an error.

Takes the tape that a traced graph has left; gives the inputs, values and outputs among what its nodes saved.
One idea: the tape ran over fakes as it does over tensors, so the version cells that its nodes hold tell
exactly which tensors eager watches, and for which gradients.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

INPUT, VALUE, OUTPUT = "input", "value", "output"


class Saved(NamedTuple):
    """A tensor that some node of the tape saved, which somebody outside may write to."""

    kind: str
    """One of the words above."""
    number: int
    gradients: int
    """The gradients that such nodes compute, by position: one bit for each."""


def tensors_saved(
    starts: Iterable[Any], ends: Mapping[Any, int], cells: Mapping[int, tuple[str, int]]
) -> list[Saved]:
    """The tensors that the nodes behind `starts` saved. `ends` are the nodes and leaves that gradients are
    asked for, with the bits of their positions; `cells` are the tensors known outside, by the id of their
    version cell."""
    reached: dict[Any, int] = {}
    found: dict[tuple[str, int], int] = {}
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
        versions = getattr(node, "versions", None) or ()
        for cell, seen in zip(versions[::2], versions[1::2], strict=True):
            place = cells.get(id(cell))
            if bits and place is not None and cell[0] == seen:
                found[place] = found.get(place, 0) | bits
    return [Saved(*place, bits) for place, bits in found.items()]
