"""Random steps: model, optimizer, precision, checkpoints, clipping and hooks drawn together, eager against
compiled."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any

import pytest

import weft
from tests.capture.features.test_whole_steps import BACKENDS, OPTIMIZERS, check, strictly  # noqa: F401
from weft.amp import GradScaler, autocast
from weft.nn import functional as F
from weft.utils.checkpoint import checkpoint

SEEDS = range(14)


@dataclass
class Recipe:
    """What a step is made of."""

    optimizer: str
    norm: bool
    dropout: bool
    reentrant: bool | None
    """Of a checkpoint around the middle; None is none."""
    precision: Any
    scaled: bool
    parts: int
    clip: str | None
    hook: str | None
    zero: str
    schedule: bool
    average: bool


def draw(seed: int) -> Recipe:
    rng = random.Random(seed)
    return Recipe(
        optimizer=rng.choice(list(OPTIMIZERS)),
        norm=rng.random() < 0.4,
        dropout=rng.random() < 0.4,
        reentrant=rng.choice([None, None, False, True]),
        precision=rng.choice([None, None, weft.bfloat16, weft.float16]),
        scaled=rng.random() < 0.3,
        parts=rng.choice([1, 1, 2]),
        clip=rng.choice([None, None, "norm", "value"]),
        hook=rng.choice([None, None, "forward", "module", "leaf", "accumulated"]),
        zero=rng.choice(["first", "last", "never", "zeros"]),
        schedule=rng.random() < 0.3,
        average=rng.random() < 0.2,
    )


class Net(weft.nn.Module):
    def __init__(self, recipe: Recipe) -> None:
        super().__init__()
        self.recipe = recipe
        self.first = weft.nn.Linear(6, 8)
        self.second = weft.nn.Linear(8, 8)
        self.last = weft.nn.Linear(8, 3)
        self.norm: Any = weft.nn.BatchNorm1d(8) if recipe.norm else weft.nn.Identity()
        self.dropout: Any = weft.nn.Dropout(0.3) if recipe.dropout else weft.nn.Identity()
        if recipe.hook == "forward":
            self.second.register_forward_hook(lambda module, args, result: result * 1.1)
        elif recipe.hook == "module":
            self.last.register_full_backward_hook(lambda module, given, taken: (given[0] * 1.5,))
        elif recipe.hook == "leaf":
            self.first.weight.register_hook(lambda gradient: gradient * 0.5)
        elif recipe.hook == "accumulated":
            self.second.weight.register_post_accumulate_grad_hook(self.shrink)

    @staticmethod
    def shrink(parameter: Any) -> None:
        parameter.grad.mul_(0.7)

    def middle(self, x: Any) -> Any:
        return self.dropout(F.relu(self.norm(self.second(x))))

    def forward(self, x: Any) -> Any:
        x = self.first(x).tanh()
        if self.recipe.reentrant is None:
            return self.last(self.middle(x))
        return self.last(checkpoint(self.middle, x, use_reentrant=self.recipe.reentrant))


class Trainer:
    """The step, written as people write it."""

    def __init__(self, recipe: Recipe, model: Any, optimizer: Any) -> None:
        self.recipe, self.model, self.optimizer = recipe, model, optimizer
        self.scaler = GradScaler("cpu", init_scale=256.0, growth_interval=2, enabled=recipe.scaled)
        self.averages = [p.detach().clone() for p in model.parameters()]

    def loss(self, x: Any, y: Any) -> Any:
        kind = self.recipe.precision
        with autocast("cpu", dtype=kind or weft.bfloat16, enabled=kind is not None):
            return F.cross_entropy(self.model(x), y) / self.recipe.parts

    def step(self, x: Any, y: Any) -> Any:
        recipe, optimizer, scaler = self.recipe, self.optimizer, self.scaler
        if recipe.zero in ("first", "zeros"):
            optimizer.zero_grad(set_to_none=recipe.zero == "first")
        size = x.shape[0] // recipe.parts
        for start in range(0, x.shape[0], size):
            loss = self.loss(x[start : start + size], y[start : start + size])
            scaler.scale(loss).backward()
        if recipe.clip is not None:
            scaler.unscale_(optimizer)
        if recipe.clip == "norm":
            weft.nn.utils.clip_grad_norm_(self.model.parameters(), 0.2)
        elif recipe.clip == "value":
            weft.nn.utils.clip_grad_value_(self.model.parameters(), 0.05)
        scaler.step(optimizer)
        scaler.update()
        if recipe.average:
            with weft.no_grad():
                for average, parameter in zip(self.averages, self.model.parameters()):
                    average.lerp_(parameter, 0.1)
        if recipe.zero == "last":
            optimizer.zero_grad()
        return loss, [average.sum() for average in self.averages]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("seed", SEEDS)
def test_random_steps(seed: int, backend: str) -> None:
    recipe = draw(seed)
    schedules: list[Any] = []

    def optimizer(parameters: Any) -> Any:
        made = OPTIMIZERS[recipe.optimizer](parameters)
        schedules[:] = [weft.optim.lr_scheduler.ExponentialLR(made, 0.9)] if recipe.schedule else []
        return made

    def stepping(model: Any, chosen: Any) -> Any:
        return Trainer(recipe, model, chosen).step

    def data() -> Any:
        return weft.randn(8, 6), weft.randint(0, 3, (8,))

    def between(chosen: Any, number: int) -> None:
        for schedule in schedules:
            schedule.step()

    frames = 2 if recipe.zero in ("never", "zeros") else 1
    check(lambda: Net(recipe), data, stepping, optimizer, backend, frames, between, count=4)
