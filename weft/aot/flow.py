"""Maximum flow, minimum cut: Dinic's algorithm on small networks of whole numbers.

Takes vertices by number and edges with capacities; gives the vertices on the source's side of a cheapest cut.
One idea: shortest augmenting paths, found in layers; nothing here recurses, as chains may be long.
"""

from __future__ import annotations

from collections import deque
from typing import Final

INFINITE: Final = 1 << 62


class Network:
    """A flow network. Vertex 0 is the source, vertex 1 the sink."""

    def __init__(self) -> None:
        self.edges: list[list[int]] = [[], []]  # numbers of the edges that leave a vertex
        self.targets: list[int] = []
        self.capacities: list[int] = []  # what is left; each edge is followed by its reverse

    def vertex(self) -> int:
        self.edges.append([])
        return len(self.edges) - 1

    def edge(self, start: int, end: int, capacity: int) -> None:
        for a, b, left in ((start, end, capacity), (end, start, 0)):
            self.edges[a].append(len(self.targets))
            self.targets.append(b)
            self.capacities.append(left)

    def layers(self) -> list[int]:
        """How many edges with something left lie between the source and each vertex; -1: not reached."""
        found = [-1] * len(self.edges)
        found[0] = 0
        waiting = deque([0])
        while waiting:
            vertex = waiting.popleft()
            for edge in self.edges[vertex]:
                target = self.targets[edge]
                if self.capacities[edge] and found[target] < 0:
                    found[target] = found[vertex] + 1
                    waiting.append(target)
        return found

    def augment(self, layers: list[int]) -> int:
        """Fills paths through the layers until none is left; gives how much went through."""
        tried = [0] * len(self.edges)
        total = 0
        path: list[int] = []
        vertex = 0
        while True:
            if vertex == 1:
                least = min(self.capacities[edge] for edge in path)
                total += least
                first = len(path)
                for place, edge in enumerate(path):
                    self.capacities[edge] -= least
                    self.capacities[edge ^ 1] += least
                    if not self.capacities[edge] and place < first:
                        first = place
                vertex = self.targets[path[first] ^ 1]
                del path[first:]
                continue
            leaving = self.edges[vertex]
            while tried[vertex] < len(leaving):
                edge = leaving[tried[vertex]]
                if self.capacities[edge] and layers[self.targets[edge]] == layers[vertex] + 1:
                    break
                tried[vertex] += 1
            else:
                if not path:
                    return total
                edge = path.pop()
                vertex = self.targets[edge ^ 1]
                tried[vertex] += 1
                continue
            path.append(edge)
            vertex = self.targets[edge]

    def cut(self) -> set[int]:
        """The vertices on the source's side of a minimum cut. Raises where every cut is infinite."""
        flow = 0
        while True:
            layers = self.layers()
            if layers[1] < 0:
                return {vertex for vertex, layer in enumerate(layers) if layer >= 0}
            flow += self.augment(layers)
            if flow >= INFINITE:
                raise ValueError("every cut of this network is infinite")
