"""A neural ordinary differential equation that learns a spiral from points on it.

    python examples/neural_ode.py

The network gives a velocity; Runge-Kutta's method of order four integrates it, and gradients flow through all
stages of all steps. The loop is plain Python.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

from beside import draw, filled, speed

import weft
from weft import nn

STEP = 0.1


def integrated(field: Callable[[Any], Any], y: Any, steps: int) -> Any:
    """The path from `y` on, one point a step."""
    path = []
    for _ in range(steps):
        a = field(y)
        b = field(y + STEP / 2 * a)
        c = field(y + STEP / 2 * b)
        d = field(y + STEP * c)
        y = y + STEP / 6 * (a + 2 * b + 2 * c + d)
        path.append(y)
    return weft.stack(path)


def spiral(y: Any) -> Any:
    """The field to be learned."""
    return y**3 @ weft.tensor([[-0.1, 2.0], [-2.0, -0.1]])


def make_step(net: Any, optimizer: Any, turns: int) -> Callable[[Any, Any], Any]:
    def step(start: Any, path: Any) -> Any:
        loss = (integrated(lambda y: net(y**3), start, turns) - path).abs().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step


def train(steps: int = 400, turns: int = 10, width: int = 50, plot: str = "") -> tuple[float, str]:
    """Trains on pieces of the true path; gives the last loss, and the step's speed."""
    with weft.no_grad():
        whole = integrated(spiral, weft.tensor([[2.0, 0.0]]), 200)[:, 0]
    starts = weft.arange(0, 200 - turns - 1, 5)
    begin = whole[starts]
    path = weft.stack([whole[starts + k + 1] for k in range(turns)])
    net = filled(nn.Sequential(nn.Linear(2, width), nn.Tanh(), nn.Linear(width, 2)))
    optimizer = weft.optim.Adam(net.parameters(), lr=1e-2)
    raw = make_step(net, optimizer, turns)
    step = weft.compile(raw, fullgraph=True)
    loss = 0.0
    for _ in range(steps):
        loss = step(begin, path)
    with weft.no_grad():
        learned = integrated(net, whole[:1], 200)[:, 0]
    curves = {"true": (whole[:, 0], whole[:, 1]), "learned": (learned[:, 0], learned[:, 1])}
    draw(plot, curves, "x", "y")
    return float(loss), speed(raw, step, begin, path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--plot", default="", metavar="FILE", help="draw both paths (needs matplotlib)")
    options = parser.parse_args()
    loss, told = train(options.steps, plot=options.plot)
    print(f"mean distance from the spiral: {loss:.4f}; {told}")


if __name__ == "__main__":
    main()
