"""A policy that learns to balance a pole on a cart by trying: REINFORCE with a baseline.

    python examples/policy_gradient.py

Many carts are simulated at once, as tensors. An episode is a Python loop without gradients; the update of the
policy, whose batch has as many rows as poles were still standing, is compiled.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

from beside import Draws, draw, filled, speed

import weft
from weft import nn
from weft.nn import functional as F

CARTS, LONGEST = 32, 200


def pushed(state: Any, right: Any) -> Any:
    """Where carts and poles are a fiftieth of a second after they were pushed left or right."""
    x, v, angle, spin = state.unbind(1)
    force = weft.where(right, 10.0, -10.0)
    sin, cos = angle.sin(), angle.cos()
    common = (force + 0.05 * spin.square() * sin) / 1.1
    turn = (9.8 * sin - cos * common) / (0.5 * (4.0 / 3.0 - 0.1 * cos.square() / 1.1))
    speedup = common - 0.05 * turn * cos / 1.1
    moved = [x + 0.02 * v, v + 0.02 * speedup, angle + 0.02 * spin, spin + 0.02 * turn]
    return weft.stack(moved, dim=1)


def episode(policy: Any, draws: Draws) -> tuple[Any, Any, Any, float]:
    """States, actions and returns of all turns in which a pole stood; how long poles stood on average."""
    state, stands = draws.uniform(CARTS, 4, low=-0.05, high=0.05), weft.ones(CARTS, dtype=weft.bool)
    states, actions, alive = [], [], []
    with weft.no_grad():
        for _ in range(LONGEST):
            chance = policy(state).softmax(-1)[:, 1]
            right = draws.uniform(CARTS) < chance
            states.append(state)
            actions.append(right)
            alive.append(stands)
            state = pushed(state, right)
            stands = stands & (state[:, 0].abs() < 2.4) & (state[:, 2].abs() < 0.2095)
            if not bool(stands.any()):
                break
        lived = weft.stack(alive).float()
        returns, following = [], weft.zeros(CARTS)
        for turn in range(len(lived) - 1, -1, -1):
            following = lived[turn] + 0.98 * following
            returns.append(following)
        kept = weft.stack(alive)
        value = weft.stack(returns[::-1])[kept]
        value = (value - value.mean()) / (value.std() + 1e-6)
        taken = weft.stack(states)[kept], weft.stack(actions)[kept].long(), value
    return *taken, float(lived.sum(0).mean())


def make_step(policy: Any, optimizer: Any) -> Callable[[Any, Any, Any], Any]:
    def step(states: Any, actions: Any, values: Any) -> Any:
        loss = (F.cross_entropy(policy(states), actions, reduction="none") * values).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step


def train(episodes: int = 60, plot: str = "") -> tuple[list[float], str]:
    """Trains; gives how long poles stood in each episode, and the step's speed."""
    draws = Draws()
    policy = filled(nn.Sequential(nn.Linear(4, 64), nn.Tanh(), nn.Linear(64, 2)))
    optimizer = weft.optim.Adam(policy.parameters(), lr=1e-2)
    raw = make_step(policy, optimizer)
    step = weft.compile(raw, fullgraph=True)
    lengths = []
    for _ in range(episodes):
        *batch, length = episode(policy, draws)
        step(*batch)
        lengths.append(length)
    draw(plot, {"poles": (range(episodes), lengths)}, "episode", "turns that poles stand")
    return lengths, speed(raw, step, *batch)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("--episodes", type=int, default=60)
    parser.add_argument(
        "--plot", default="", metavar="FILE", help="draw how long poles stand (needs matplotlib)"
    )
    options = parser.parse_args()
    lengths, told = train(options.episodes, options.plot)
    for number in range(9, len(lengths), 10):
        print(f"episode {number + 1:3}: poles stand for {lengths[number]:5.1f} of {LONGEST} turns")
    print(told)


if __name__ == "__main__":
    main()
