"""A graph network that finds communities: each node hears its neighbours, and says where it belongs.

    python examples/graph_network.py

Every graph has another number of nodes and edges, and no program is built for them after the first few.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

import numpy as np
from beside import Draws, filled, speed

import weft
from weft import nn
from weft.nn import functional as F

GROUPS = 3


class Layer(nn.Module):
    """A node's next state: its own, and the mean of its neighbours'."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.own, self.heard = nn.Linear(inputs, outputs), nn.Linear(inputs, outputs)

    def forward(self, x: Any, source: Any, target: Any) -> Any:
        total = weft.zeros_like(x).index_add(0, target, x[source])
        count = weft.zeros_like(x[:, :1]).index_add(0, target, weft.ones_like(x[source][:, :1]))
        return self.own(x) + self.heard(total / count.clamp(min=1))


class Network(nn.Module):
    def __init__(self, inputs: int = 8, width: int = 32) -> None:
        super().__init__()
        self.first, self.second = Layer(inputs, width), Layer(width, width)
        self.last = nn.Linear(width, GROUPS)

    def forward(self, x: Any, source: Any, target: Any) -> Any:
        x = F.relu(self.first(x, source, target))
        return self.last(F.relu(self.second(x, source, target)))


def community_graph(draws: Draws, inputs: int = 8) -> tuple[Any, Any, Any, Any]:
    """Noisy features, edges that are likelier within a group, and the groups."""
    nodes = int(draws.generator.integers(40, 80))
    groups = draws.generator.integers(0, GROUPS, nodes)
    chance = np.where(groups[:, None] == groups[None, :], 0.25, 0.02)
    source, target = np.nonzero(draws.generator.random((nodes, nodes)) < chance)
    hints = np.eye(inputs, dtype=np.float32)[groups]
    x = draws.normal(nodes, inputs) + weft.from_numpy(hints)
    return x, weft.from_numpy(source), weft.from_numpy(target), weft.from_numpy(groups)


def make_step(net: Network, optimizer: Any) -> Callable[[Any, Any, Any, Any], Any]:
    def step(x: Any, source: Any, target: Any, groups: Any) -> Any:
        loss = F.cross_entropy(net(x, source, target), groups)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step


def train(steps: int = 300) -> tuple[float, str]:
    """Trains; gives the share of nodes that are placed right in graphs not seen before, and the speed."""
    draws = Draws()
    net = filled(Network())
    optimizer = weft.optim.Adam(net.parameters(), lr=1e-2)
    raw = make_step(net, optimizer)
    step = weft.compile(raw, fullgraph=True)
    for _ in range(steps):
        step(*community_graph(draws))
    right = total = 0
    with weft.no_grad():
        for _ in range(10):
            x, source, target, groups = community_graph(draws)
            right += int((net(x, source, target).argmax(1) == groups).sum())
            total += len(groups)
    return right / total, speed(raw, step, *community_graph(draws))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("--steps", type=int, default=300)
    share, told = train(parser.parse_args().steps)
    print(f"{share:.1%} of nodes are placed right; {told}")


if __name__ == "__main__":
    main()
