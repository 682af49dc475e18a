"""Molecular dynamics with forces from a learned potential.

    python examples/molecular_dynamics.py

A network is fitted to the forces of a Lennard-Jones cluster: forces are gradients of its energy, so the loss
holds a derivative, and training differentiates twice. Then velocity Verlet integrates with it, and energy
should stay.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

import numpy as np
from beside import Draws, draw, filled, speed

import weft
from weft import nn

SIDE = 2
FIRST, SECOND = map(weft.from_numpy, np.triu_indices(SIDE**3, 1))
"""The atoms of each pair."""


def lattice() -> Any:
    axis = np.arange(SIDE) * 1.15
    return weft.from_numpy(np.stack(np.meshgrid(axis, axis, axis), axis=-1).reshape(-1, 3))


def distances(x: Any) -> Any:
    """Of all pairs, once each."""
    apart = x[..., FIRST, :] - x[..., SECOND, :]
    return apart.square().sum(-1).sqrt()


def true_energy(x: Any) -> Any:
    inverse = distances(x) ** -6
    return (4 * (inverse**2 - inverse)).sum(-1)


class Potential(nn.Module):
    """The energy of a pair as a function of its distance, summed over pairs."""

    def __init__(self, width: int = 32) -> None:
        super().__init__()
        self.pair = nn.Sequential(
            nn.Linear(2, width), nn.Tanh(), nn.Linear(width, width), nn.Tanh(), nn.Linear(width, 1)
        )

    def forward(self, x: Any) -> Any:
        r = distances(x)
        return self.pair(weft.stack([r, r**-6], dim=-1)).sum((-1, -2))


def forces(energy: Callable[[Any], Any], x: Any, create_graph: bool = False) -> Any:
    x = x.clone().requires_grad_()
    (gradient,) = weft.autograd.grad(energy(x).sum(), x, create_graph=create_graph)
    return -gradient


def make_step(model: Potential, optimizer: Any) -> Callable[[Any, Any], Any]:
    def step(x: Any, wanted: Any) -> Any:
        loss = (forces(model, x, create_graph=True) - wanted).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step


def simulated(energy: Callable[[Any], Any], x: Any, v: Any, steps: int, dt: float = 0.005) -> Any:
    """The total energy after each step of velocity Verlet."""

    def move(x: Any, v: Any, f: Any) -> Any:
        v = v + 0.5 * dt * f
        x = x + dt * v
        f = forces(energy, x)
        v = v + 0.5 * dt * f
        return x, v, f, energy(x).detach() + 0.5 * v.square().sum()

    advance, f, totals = weft.compile(move), forces(energy, x), []
    for _ in range(steps):
        x, v, f, total = advance(x, v, f)
        totals.append(total)
    return weft.stack(totals)


def train(steps: int = 600, turns: int = 200, plot: str = "") -> tuple[float, float, str]:
    """Gives the error of forces beside their size, how much energy drifts, and the step's speed."""
    draws = Draws(0, np.float64)
    model = filled(Potential()).to(weft.float64)
    optimizer = weft.optim.Adam(model.parameters(), lr=3e-3)
    raw = make_step(model, optimizer)
    step = weft.compile(raw, fullgraph=True)
    for _ in range(steps):
        x = lattice() + 0.04 * draws.normal(16, SIDE**3, 3)
        step(x, forces(true_energy, x))
    x = lattice() + 0.04 * draws.normal(16, SIDE**3, 3)
    wanted = forces(true_energy, x)
    with weft.enable_grad():
        error = (forces(model, x) - wanted).square().mean().sqrt() / wanted.square().mean().sqrt()
    totals = simulated(model, lattice(), 0.05 * draws.normal(SIDE**3, 3), turns)
    draw(plot, {"total energy": (range(len(totals)), totals)}, "step", "energy")
    drift = (totals[-1] - totals[0]).abs() / totals[0].abs()
    return float(error), float(drift), speed(raw, step, x, wanted)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("--steps", type=int, default=600)
    parser.add_argument(
        "--plot", default="", metavar="FILE", help="draw the energy of the simulation (needs matplotlib)"
    )
    options = parser.parse_args()
    error, drift, told = train(options.steps, plot=options.plot)
    print(f"forces are off by {error:.1%}; energy drifts by {drift:.2e} in 200 steps; {told}")


if __name__ == "__main__":
    main()
