"""The reverse sweep: from roots to leaves, each node once, after everything that feeds it a gradient.

Takes seeds and three functions (`apply` a node, `add` two gradients, whether a node is `wanted`), knows nothing of tensors. The
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
    """How many edges lead to each node that is reachable from the roots."""
    counts: dict[Any, int] = {}
    seen: set[Any] = set()
    stack: list[Any] = []
    for root in roots:
        if root not in seen:
            seen.add(root)
            stack.append(root)
    while stack:
        node = stack.pop()
        if node._seq == LEAF_SEQUENCE:
            continue
        for target in node.next:
            if target is None:
                continue
            if target in counts:
                counts[target] += 1
            else:
                counts[target] = 1
                if target not in seen:
                    seen.add(target)
                    stack.append(target)
    return counts


def sweep(
    seeds: list[tuple[Any, int, Any]],
    apply: Callable[[Any, Any, bool], Any],
    add: Callable[[Any, Any], Any],
    wanted: Container[Any] | None = None,
) -> None:
    """Runs `apply(node, gradient, owned)` over the graph; what it returns flows on along the node's edges.

    `owned` says that nothing else holds the gradient, so a leaf may keep it. A node with several outputs gets a list with None
    for outputs no gradient reached. A node all of whose gradients are None still runs, with None.
    """
    counts = dependencies([node for node, _, _ in seeds])
    pending: dict[Any, Any] = {}
    borrowed: set[Any] = set()
    heap: list[tuple[int, int, Any]] = []
    for node, slot, gradient in seeds:
        known = node in pending
        _deposit(pending, borrowed, node, slot, gradient, add, False)
        if not known and not counts.get(node):
            heappush(heap, (-node._seq, _tie(), node))
    while heap:
        node = heappop(heap)[2]
        gradient = pending.pop(node, None)
        results = apply(node, gradient, node not in borrowed)
        if results is None:
            continue
        slots = node.slots
        for position, target in enumerate(node.next):
            if target is None:
                continue
            if wanted is None or target in wanted:
                value = results[position]
                if value is not None:
                    owned = value is not gradient
                    _deposit(pending, borrowed, target, 0 if slots is None else slots[position], value, add, owned)
            left = counts[target] = counts[target] - 1
            if not left and (wanted is None or target in wanted):
                heappush(heap, (-target._seq, _tie(), target))


def _deposit(
    pending: dict[Any, Any], borrowed: set[Any], node: Any, slot: int, value: Any, add: Callable[[Any, Any], Any], owned: bool
) -> None:
    """Adds a gradient to what waits for the node."""
    if node.outputs is not None:
        waiting = pending.get(node)
        if waiting is None:
            waiting = pending[node] = [None] * len(node.outputs)
        before = waiting[slot]
        waiting[slot] = value if before is None else add(before, value)
        return
    before = pending.get(node)
    if before is None:
        pending[node] = value
        if not owned and node._seq == LEAF_SEQUENCE:
            borrowed.add(node)
    else:
        pending[node] = add(before, value)
        borrowed.discard(node)
