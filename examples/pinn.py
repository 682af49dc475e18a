"""A network that solves a differential equation: it is trained on its own second derivative.

    python examples/pinn.py

Poisson's equation u'' = f on [0, 1] with u = 0 at both ends, for f whose solution is sin(3 pi x). The loss
holds second derivatives of the network, so its gradient holds third ones; all of it is one compiled function.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable
from typing import Any

import numpy as np
from beside import Draws, draw, filled, speed

import weft
from weft import nn


def network(width: int) -> Any:
    layers = [nn.Linear(1, width), nn.Tanh(), nn.Linear(width, width), nn.Tanh(), nn.Linear(width, 1)]
    return filled(nn.Sequential(*layers)).to(weft.float64)


def make_step(net: Any, optimizer: Any) -> Callable[[Any], Any]:
    """A step of training: points in, the loss out."""
    ends = weft.tensor([[0.0], [1.0]], dtype=weft.float64)
    rate = 3 * math.pi

    def step(x: Any) -> Any:
        x = x.clone().requires_grad_()
        u = net(x)
        (slope,) = weft.autograd.grad(u.sum(), x, create_graph=True)
        (curve,) = weft.autograd.grad(slope.sum(), x, create_graph=True)
        inside = (curve / rate**2 + weft.sin(rate * x)).square().mean()
        loss = inside + net(ends).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step


def train(steps: int = 3000, width: int = 32, seed: int = 0, plot: str = "") -> tuple[float, str]:
    """Trains; gives the largest error of the solution, and the step's speed."""
    net = network(width)
    optimizer = weft.optim.Adam(net.parameters(), lr=5e-3)
    schedule = weft.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    raw = make_step(net, optimizer)
    step = weft.compile(raw, fullgraph=True)
    draws = Draws(seed, np.float64)
    for _ in range(steps):
        step(draws.uniform(64, 1))
        schedule.step()
    x = weft.linspace(0, 1, 101, dtype=weft.float64).reshape(-1, 1)
    with weft.no_grad():
        found, true = net(x), weft.sin(3 * math.pi * x)
    error = (found - true).abs().max().item()
    draw(plot, {"network": (x, found), "sin(3 pi x)": (x, true)}, "x", "u")
    return error, speed(raw, step, draws.uniform(64, 1))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("--steps", type=int, default=3000)
    parser.add_argument("--plot", default="", metavar="FILE", help="draw the solution (needs matplotlib)")
    options = parser.parse_args()
    error, told = train(options.steps, plot=options.plot)
    print(f"largest error of the solution: {error:.4f}; {told}")


if __name__ == "__main__":
    main()
