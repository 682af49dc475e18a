"""Whole training steps as programs: losses, parameters, optimizer state and versions are eager's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import weft
import weft.nn.functional as F
from weft import nn
from weft.core.settings import settings
from weft.testing import assert_close

OPTIMIZERS: dict[str, Callable[..., Any]] = {
    "sgd": lambda p: weft.optim.SGD(p, lr=0.05, momentum=0.9, weight_decay=0.01),
    "adam": lambda p: weft.optim.Adam(p, lr=0.01),
    "adamw": lambda p: weft.optim.AdamW(p, lr=0.01, amsgrad=True),
    "rmsprop": lambda p: weft.optim.RMSprop(p, lr=0.01, momentum=0.5, centered=True),
}


@pytest.fixture(autouse=True)
def strict(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fallbacks are errors."""
    monkeypatch.setattr(settings, "strict", True)


def trained(optimizer: str, backend: str | None, rounds: int = 8) -> list[Any]:
    weft.compiler.reset()
    weft.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 16), nn.LayerNorm(16), nn.Tanh(), nn.Linear(16, 3))
    chosen = OPTIMIZERS[optimizer](model.parameters())
    x, y = weft.randn(10, 6), weft.randint(0, 3, (10,))

    def step(x: Any, y: Any) -> Any:
        chosen.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        chosen.step()
        return loss

    function = step if backend is None else weft.compile(step, backend=backend)
    losses = []
    for number in range(rounds):
        if number == 5:
            chosen.param_groups[0]["lr"] *= 0.5  # a schedule compiles nothing anew
        losses.append(function(x, y).detach().clone())
    state = []
    for each in model.parameters():
        state += [value for value in chosen.state[each].values() if isinstance(value, weft.Tensor)]
    parameters = [each.detach() for each in model.parameters()]
    versions = weft.tensor([each._version for each in model.parameters()])
    return [losses, parameters, state, versions]


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_steps(optimizer: str) -> None:
    assert_close(trained(optimizer, "native"), trained(optimizer, None), rtol=1e-4, atol=1e-5)
