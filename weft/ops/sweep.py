"""The reverse sweep: from roots to leaves, each node once, after everything that feeds it a gradient.

Takes seeds and functions (`apply` a node, `arrive` at a leaf, `add` two gradients) and perhaps the nodes
`wanted`; knows nothing of tensors. The tape, double backward, ahead-of-time differentiation and compiled
autograd all run this one loop. A node has `next` (targets, None where no gradient flows), `slots` (output
numbers of the targets, None if all 0), `_seq` (when it was made) and `outputs` (None for one output, else a
sequence of that length). It never recurses.

# Note [Order of the sweep]
A node is made after what its edges lead to, so descending `_seq` is an order in which each node comes after
all that feed it: the same order in which a priority queue of ready nodes would give them. Leaves were not
made by anything; they run as soon as the last gradient for them has come.
"""

from __future__ import annotations

from collections.abc import Callable, Container
from operator import attrgetter
from typing import Any, Final

LEAF_SEQUENCE: Final = 1 << 62
_made = attrgetter("_seq")


def discover(
    roots: Any, wanted: Container[Any] | None, leaves: dict[Any, int] | None = None
) -> tuple[list[Any], dict[Any, int]]:
    """The nodes behind the roots in the order of the sweep, and how many edges lead to each leaf."""
    leaves = {} if leaves is None else leaves
    seen: set[Any] = set()
    order: list[Any] = []
    for root in roots:
        if root._seq == LEAF_SEQUENCE:
            leaves[root] = 0
        else:
            seen.add(root)
            order.append(root)
    for node in order:  # grows while it is walked
        for target in node.next:
            if target is None or (wanted is not None and target not in wanted):
                continue
            if target._seq == LEAF_SEQUENCE:
                leaves[target] = leaves.get(target, 0) + 1
            elif target not in seen:
                seen.add(target)
                order.append(target)
    if len(order) > 1:
        order.sort(key=_made, reverse=True)
    return order, leaves


def sweep(
    seeds: list[tuple[Any, int, Any]],
    apply: Callable[[Any, Any], Any],
    arrive: Callable[[Any, Any], Any],
    add: Callable[[Any, Any], Any],
    wanted: Container[Any] | None = None,
    leaves: dict[Any, int] | None = None,
) -> None:
    """Runs `apply(node, gradient)` over the graph; what it returns flows on along the node's edges, None if
    nothing does.

    A node with several outputs gets a list with None for outputs no gradient reached. A node that no
    gradient reached still runs, with None. Nothing here holds a gradient while `arrive(leaf, gradient)`
    runs, so that it can tell by the reference count whether an array may be kept. `leaves` is filled with how
    many edges lead to each; one that `apply` takes out gets no gradients.
    """
    pending: dict[Any, Any] = {}
    for node, slot, value in seeds:
        deposit(pending, node, slot, value, add)
    order, leaves = discover(pending, wanted, leaves)
    edges_left = dict(leaves)
    value = None
    for leaf in [leaf for leaf, edges in leaves.items() if not edges]:
        arrive(leaf, pending.pop(leaf, None))
    complete: list[Any] = []
    for node in order:
        results = apply(node, pending.pop(node, None))
        if results is None:
            continue
        for position, target in enumerate(node.next):
            if target is not None and (wanted is None or target in wanted):
                value = results[position]
                if value is not None:
                    if target.outputs is not None:
                        deposit(
                            pending, target, 0 if node.slots is None else node.slots[position], value, add
                        )
                    elif target in pending:
                        pending[target] = add(pending[target], value)
                    else:
                        pending[target] = value
                if target in leaves:
                    edges_left[target] = left = edges_left[target] - 1
                    if not left:
                        complete.append(target)
        if complete:
            value = results = None
            for leaf in complete:
                arrive(leaf, pending.pop(leaf, None))
            complete.clear()


def deposit(
    pending: dict[Any, Any], node: Any, slot: int, value: Any, add: Callable[[Any, Any], Any]
) -> None:
    """Adds a gradient to what waits for the node."""
    if node.outputs is not None:
        waiting = pending.get(node)
        if waiting is None:
            waiting = pending[node] = [None] * len(node.outputs)
        before = waiting[slot]
        waiting[slot] = value if before is None else add(before, value)
    else:
        before = pending.get(node)
        pending[node] = value if before is None else add(before, value)
