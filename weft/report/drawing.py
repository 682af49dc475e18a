"""Drawing: where the nodes of a graph stand on a page.

Takes a graph as edges between numbers in the order of the program; gives a place for each node. One idea:
rows such that arrows point down, each node as near as can be to what reads it first, so that what an
optimizer computes does not stand on top of the model; within a row, near to what a node reads and is read by.
"""

from __future__ import annotations

from collections.abc import Sequence

WIDTH, HEIGHT = 168, 64
"""The room of a node, with what is left free around it."""
ROUNDS = 24


def placed(count: int, edges: Sequence[tuple[int, int]]) -> list[tuple[float, float]]:
    """The middle of each node. Edges go from smaller to larger numbers."""
    sources: list[list[int]] = [[] for _ in range(count)]
    targets: list[list[int]] = [[] for _ in range(count)]
    for source, target in edges:
        sources[target].append(source)
        targets[source].append(target)
    rows = _rows(count, sources, targets)
    height = {node: number for number, row in enumerate(rows) for node in row}
    pulls: list[list[tuple[int, float]]] = [[] for _ in range(count)]
    for source, target in edges:  # what is far away pulls little: else an optimizer would draw a model apart
        pull = 1 / (height[target] - height[source]) ** 2
        pulls[source].append((target, pull))
        pulls[target].append((source, pull))
    across = _across(rows, pulls)
    return [(across[node], height[node] * HEIGHT) for node in range(count)]


def _rows(count: int, sources: list[list[int]], targets: list[list[int]]) -> list[list[int]]:
    """Nodes by row, just above what reads them first; writes without readers where the program has them."""
    depth = [0] * count
    for node in range(count):
        if sources[node]:
            depth[node] = 1 + max(depth[source] for source in sources[node])
    deepest = 0
    for node in range(count):
        deepest = max(deepest, depth[node])
        if not targets[node]:
            depth[node] = deepest
    for node in reversed(range(count)):
        if targets[node]:
            depth[node] = min(depth[target] for target in targets[node]) - 1
    rows: list[list[int]] = [[] for _ in range(max(depth, default=-1) + 1)]
    for node in range(count):
        rows[depth[node]].append(node)
    return rows


def _across(rows: list[list[int]], pulls: list[list[tuple[int, float]]]) -> list[float]:
    """How far to the right nodes stand."""
    across = [0.0] * sum(map(len, rows))
    for row in rows:
        for number, node in enumerate(row):
            across[node] = (number - (len(row) - 1) / 2) * WIDTH
    for number in range(ROUNDS):
        for row in rows if number % 2 == 0 else reversed(rows):
            _spread(row, across, pulls)
    return across


def _spread(row: list[int], across: list[float], pulls: list[list[tuple[int, float]]]) -> None:
    """Moves a row's nodes to the middle of what is near, in that order, with room for each."""
    wish = {
        node: sum(pull * across[other] for other, pull in pulls[node]) / sum(pull for _, pull in pulls[node])
        if pulls[node]
        else across[node]
        for node in row
    }
    row.sort(key=lambda node: (wish[node], node))
    right = float("-inf")
    for node in row:
        across[node] = right = max(wish[node], right + WIDTH)
    shift = sum(wish[node] - across[node] for node in row) / len(row)
    for node in row:
        across[node] += shift
