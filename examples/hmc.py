"""Bayesian logistic regression with Hamiltonian Monte Carlo.

    python examples/hmc.py

A proposal follows the gradient of the log-posterior for some leapfrog steps; all of them, gradients included,
are one compiled function.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

import numpy as np
from beside import Draws, draw, speed

import weft
from weft.nn import functional as F

WEIGHTS = (1.5, -2.0, 0.5)
TURNS, SIZE = 10, 0.15


def make_energy(x: Any, y: Any) -> Callable[[Any], Any]:
    """Minus the log-posterior of weights, for a standard normal prior."""

    def energy(w: Any) -> Any:
        return F.binary_cross_entropy_with_logits(x @ w, y, reduction="sum") + 0.5 * (w @ w)

    return energy


def make_proposal(energy: Callable[[Any], Any]) -> Callable[[Any, Any], Any]:
    def slope(w: Any) -> Any:
        w = w.clone().requires_grad_()
        return weft.autograd.grad(energy(w), w)[0]

    def proposal(w: Any, momentum: Any) -> Any:
        """Where the leapfrog ends, and the logarithm of the chance to go there."""
        before = energy(w) + 0.5 * (momentum @ momentum)
        p = momentum - 0.5 * SIZE * slope(w)
        for turn in range(TURNS):
            w = w + SIZE * p
            p = p - (SIZE if turn < TURNS - 1 else 0.5 * SIZE) * slope(w)
        return w, before - energy(w) - 0.5 * (p @ p)

    return proposal


def sample(count: int = 1500, rows: int = 300, plot: str = "") -> tuple[Any, float, str]:
    """Means of the weights, the share of proposals that were taken, and a proposal's speed."""
    draws = Draws(0, np.float64)
    x = draws.normal(rows, len(WEIGHTS))
    chance = (x @ weft.tensor(WEIGHTS, dtype=weft.float64)).sigmoid()
    y = (draws.uniform(rows) < chance).to(weft.float64)
    raw = make_proposal(make_energy(x, y))
    propose = weft.compile(raw, fullgraph=True)
    w, seen, taken = weft.zeros(len(WEIGHTS), dtype=weft.float64), [], 0
    for number in range(count):
        there, logarithm = propose(w, draws.normal(len(WEIGHTS)))
        if np.log(draws.generator.random()) < float(logarithm):
            w, taken = there, taken + 1
        if number >= count // 5:
            seen.append(w)
    chain = weft.stack(seen)
    draw(
        plot, {f"weight {n}": (range(len(seen)), chain[:, n]) for n in range(len(WEIGHTS))}, "draw", "weight"
    )
    return chain.mean(0), taken / count, speed(raw, propose, w, draws.normal(len(WEIGHTS)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("--count", type=int, default=1500)
    parser.add_argument("--plot", default="", metavar="FILE", help="draw the chain (needs matplotlib)")
    options = parser.parse_args()
    mean, share, told = sample(options.count, plot=options.plot)
    found = ", ".join(f"{each:.2f}" for each in mean.tolist())
    print(f"weights {found} (made with {WEIGHTS}); {share:.0%} of proposals taken; {told}")


if __name__ == "__main__":
    main()
