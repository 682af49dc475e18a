"""A generator of points on a ring, trained against a critic whose gradient is held to length one.

    python examples/gan.py

The gradient penalty differentiates the critic with respect to its input, and the loss with respect to the
critic: second order, in one compiled step.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

from beside import Draws, filled, speed

import weft
from weft import nn

NOISE = 4
"""How many random numbers a point is made of."""


def layers(inputs: int, width: int, outputs: int) -> Any:
    return nn.Sequential(
        nn.Linear(inputs, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, outputs)
    )


def ring(draws: Draws, count: int) -> Any:
    angle = draws.uniform(count, high=6.2831853)
    radius = 1 + 0.05 * draws.normal(count)
    return weft.stack([radius * angle.cos(), radius * angle.sin()], dim=1)


def make_critic_step(critic: Any, generator: Any, optimizer: Any) -> Callable[[Any, Any, Any], Any]:
    def step(real: Any, noise: Any, mix: Any) -> Any:
        fake = generator(noise).detach()
        between = (mix * real + (1 - mix) * fake).requires_grad_()
        (slope,) = weft.autograd.grad(critic(between).sum(), between, create_graph=True)
        penalty = ((slope.square().sum(1) + 1e-12).sqrt() - 1).square().mean()
        loss = critic(fake).mean() - critic(real).mean() + 10 * penalty
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step


def make_generator_step(critic: Any, generator: Any, optimizer: Any) -> Callable[[Any], Any]:
    def step(noise: Any) -> Any:
        loss = -critic(generator(noise)).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step


def train(rounds: int = 1500, batch: int = 128, width: int = 64) -> tuple[float, str]:
    """Trains; gives how far generated points are from the ring on average, and the critic's speed."""
    draws = Draws()
    critic, generator = filled(layers(2, width, 1), 1), filled(layers(NOISE, width, 2), 2)
    options = {"lr": 1e-3, "betas": (0.0, 0.9)}
    raw = make_critic_step(critic, generator, weft.optim.Adam(critic.parameters(), **options))
    criticise = weft.compile(raw, fullgraph=True)
    imitate = weft.compile(
        make_generator_step(critic, generator, weft.optim.Adam(generator.parameters(), **options)),
        fullgraph=True,
    )
    for _ in range(rounds):
        for _ in range(5):
            criticise(ring(draws, batch), draws.normal(batch, NOISE), draws.uniform(batch, 1))
        imitate(draws.normal(batch, NOISE))
    with weft.no_grad():
        away = (generator(draws.normal(1000, NOISE)).square().sum(1).sqrt() - 1).abs().mean().item()
    given = ring(draws, batch), draws.normal(batch, NOISE), draws.uniform(batch, 1)
    return away, speed(raw, criticise, *given)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("--rounds", type=int, default=1500)
    away, told = train(parser.parse_args().rounds)
    print(f"generated points are {away:.3f} from the ring on average; {told}")


if __name__ == "__main__":
    main()
