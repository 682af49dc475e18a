"""A variational autoencoder of small pictures: rings of any place and size.

    python examples/vae.py

Encoder, reparameterised draw, decoder, the bound on the likelihood and the optimizer are one compiled step.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

from beside import Draws, filled, speed

import weft
from weft import nn
from weft.nn import functional as F

SIDE = 12


def rings(draws: Draws, count: int) -> Any:
    """Pictures of rings, brightness between 0 and 1."""
    axis = weft.linspace(-1, 1, SIDE)
    x, y = axis.reshape(1, 1, -1), axis.reshape(1, -1, 1)
    a, b = draws.uniform(count, 1, 1, low=-0.4, high=0.4), draws.uniform(count, 1, 1, low=-0.4, high=0.4)
    radius = draws.uniform(count, 1, 1, low=0.2, high=0.5)
    distance = ((x - a) ** 2 + (y - b) ** 2).sqrt()
    return weft.exp(-(((distance - radius) / 0.12) ** 2)).reshape(count, -1)


class VAE(nn.Module):
    """Two linear layers each way, with a few latent numbers between them."""

    def __init__(self, width: int = 64, latent: int = 3) -> None:
        super().__init__()
        self.inward = nn.Linear(SIDE * SIDE, width)
        self.statistics = nn.Linear(width, 2 * latent)
        self.outward = nn.Sequential(nn.Linear(latent, width), nn.ReLU(), nn.Linear(width, SIDE * SIDE))

    def forward(self, x: Any, noise: Any) -> tuple[Any, Any, Any]:
        mean, spread = self.statistics(F.relu(self.inward(x))).chunk(2, dim=-1)
        return self.outward(mean + noise * (spread / 2).exp()), mean, spread


def make_step(model: VAE, optimizer: Any) -> Callable[[Any, Any], Any]:
    def step(x: Any, noise: Any) -> Any:
        logits, mean, spread = model(x, noise)
        picture = F.binary_cross_entropy_with_logits(logits, x, reduction="sum")
        divergence = -0.5 * (1 + spread - mean.square() - spread.exp()).sum()
        loss = (picture + divergence) / x.shape[0]
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step


def train(steps: int = 1500, batch: int = 64, latent: int = 3) -> tuple[float, str]:
    """Trains; gives the mean of the last losses, and the step's speed."""
    draws = Draws()
    model = filled(VAE(latent=latent))
    optimizer = weft.optim.Adam(model.parameters(), lr=3e-3)
    raw = make_step(model, optimizer)
    step = weft.compile(raw, fullgraph=True)
    losses = [step(rings(draws, batch), draws.normal(batch, latent)) for _ in range(steps)]
    last = losses[-min(50, steps) :]
    return sum(map(float, last)) / len(last), speed(
        raw, step, rings(draws, batch), draws.normal(batch, latent)
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("--steps", type=int, default=1500)
    loss, told = train(parser.parse_args().steps)
    print(f"bound on the negative log-likelihood of a picture: {loss:.1f}; {told}")


if __name__ == "__main__":
    main()
