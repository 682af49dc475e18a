"""A Gaussian process whose length scale, amplitude and noise are found by marginal likelihood.

    python examples/gaussian_process.py

The likelihood needs a Cholesky factor of the covariance; its gradient is taken by the library.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable
from typing import Any

import numpy as np
from beside import Draws, speed

import weft


def covariance(a: Any, b: Any, scale: Any, amplitude: Any) -> Any:
    distance = (a.unsqueeze(1) - b.unsqueeze(0)) / scale
    return amplitude**2 * weft.exp(-0.5 * distance.square())


def make_step(logs: Any, optimizer: Any) -> Callable[[Any, Any], Any]:
    def step(x: Any, y: Any) -> Any:
        scale, amplitude, noise = logs.exp().unbind()
        matrix = covariance(x, x, scale, amplitude)
        matrix = matrix + (noise**2 + 1e-8) * weft.eye(len(x), dtype=x.dtype)
        factor = weft.linalg.cholesky(matrix)
        solved = weft.cholesky_solve(y.unsqueeze(1), factor)[:, 0]
        loss = 0.5 * (y @ solved) + factor.diagonal().log().sum() + 0.5 * len(x) * math.log(2 * math.pi)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step


def train(steps: int = 300, points: int = 60, noise: float = 0.1) -> tuple[list[float], float, str]:
    """Gives length scale, amplitude and noise as found, the last loss, and the step's speed."""
    draws = Draws(0, np.float64)
    x = draws.uniform(points, low=-3.0, high=3.0)
    y = weft.sin(2 * x) + noise * draws.normal(points)
    logs = weft.zeros(3, dtype=weft.float64, requires_grad=True)
    raw = make_step(logs, weft.optim.Adam([logs], lr=0.05))
    step = weft.compile(raw, fullgraph=True)
    loss = 0.0
    for _ in range(steps):
        loss = step(x, y)
    found = logs.detach().exp().tolist()
    return found, float(loss), speed(raw, step, x, y)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("--steps", type=int, default=300)
    (scale, amplitude, noise), loss, told = train(parser.parse_args().steps)
    print(f"length scale {scale:.2f}, amplitude {amplitude:.2f}, noise {noise:.3f} (0.1 was put in)")
    print(f"negative log-likelihood {loss:.2f}; {told}")


if __name__ == "__main__":
    main()
