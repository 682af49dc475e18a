"""The reverse sweep: from roots to leaves, each node once, after everything that feeds it a gradient.

Takes seeds and functions (`apply` a node, `add` two gradients) and perhaps the nodes `wanted`; knows nothing of tensors. The
tape, double backward, ahead-of-time differentiation and compiled autograd all run this one loop. A node has `next` (targets, None
where no gradient flows), `slots` (output numbers of the targets, None if all 0), `_seq` (higher runs first) and `outputs` (None
for one output, else a sequence of that length). It never recurses.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable
from heapq import heappop, heappush
from itertools import count
from typing import Any, Final

LEAF_SEQUENCE: Final = 1 << 62
_tie = count().__next__


def dependencies(roots: Iterable[Any]) -> dict[Any, int]:
    """How many edges lead to each node that is reachable from the roots (roots themselves included)."""
    counts: dict[Any, int] = dict.fromkeys(roots, 0)
    stack = [root for root in counts if root._seq != LEAF_SEQUENCE]
    while stack:
        for target in stack.pop().next:
            if target is None:
                continue
            if target in counts:
                counts[target] += 1
            else:
                counts[target] = 1
                if target._seq != LEAF_SEQUENCE:
                    stack.append(target)
    return counts


def sweep(
    seeds: list[tuple[Any, int, Any]],
    apply: Callable[[Any, Any], Any],
    add: Callable[[Any, Any], Any],
    wanted: Container[Any] | None = None,
) -> None:
    """Runs `apply(node, gradient)` over the graph; what it returns flows on along the node's edges.

    A node with several outputs gets a list with None for outputs no gradient reached. A node that no gradient reached still
    runs, with None. Leaves run as soon as their sum is complete; nothing here holds a gradient while `apply` runs, so that whoever
    is given an array can tell by its reference count whether it may be kept.
    """
    counts = dependencies([seed[0] for seed in seeds])
    pending: dict[Any, Any] = {}
    leaves: list[Any] = []
    heap: list[tuple[int, int, Any]] = []
    for node, slot, gradient in seeds:
        deposit(pending, node, slot, gradient, add)
    for node in pending:
        if not counts[node]:
            heappush(heap, (-node._seq, _tie(), node))
    gradient = None
    while heap:
        node = heappop(heap)[2]
        results = apply(node, pending.pop(node, None))
        if results is None:
            continue
        slots = node.slots
        position = 0
        for target in node.next:
            if target is not None:
                left = counts[target] = counts[target] - 1
                if wanted is None or target in wanted:
                    value = results[position]
                    if value is not None:
                        if target.outputs is not None:
                            deposit(pending, target, 0 if slots is None else slots[position], value, add)
                        elif target in pending:
                            pending[target] = add(pending[target], value)
                        else:
                            pending[target] = value
                    if not left:
                        if target._seq == LEAF_SEQUENCE:
                            leaves.append(target)
                        else:
                            heappush(heap, (-target._seq, _tie(), target))
            position += 1
        value = results = None
        if leaves:
            for target in leaves:
                apply(target, pending.pop(target, None))
            leaves.clear()


def deposit(pending: dict[Any, Any], node: Any, slot: int, value: Any, add: Callable[[Any, Any], Any]) -> None:
    """Adds a gradient to what waits for the node."""
    if node.outputs is not None:
        waiting = pending.get(node)
        if waiting is None:
            waiting = pending[node] = [None] * len(node.outputs)
        before = waiting[slot]
        waiting[slot] = value if before is None or value is None else add(before, value)
    else:
        before = pending.get(node)
        pending[node] = value if before is None else add(before, value)
