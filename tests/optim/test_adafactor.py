"""Adafactor beside a formula, torch and a capture."""

from __future__ import annotations

import numpy as np
import pytest

import weft
from weft.testing import CompileCounter

OPTIONS = [{}, {"lr": 0.5, "beta2_decay": -0.5, "d": 1.5, "weight_decay": 0.1}, {"eps": (1e-3, 0.1)}]


def rule(step, x, g, state, lr=1e-2, beta2_decay=-0.8, eps=(None, 1e-3), d=1.0, weight_decay=0.0):
    least = np.finfo(x.dtype).eps if eps[0] is None else eps[0]
    weight = step**beta2_decay
    mean = lambda value: np.sqrt((value**2).mean())
    reach = max(eps[1], mean(x)) * min(lr, 1 / np.sqrt(step))
    x = x * (1 - lr * weight_decay)
    move = lambda name, value: state.update(
        {name: state.get(name, 0) + weight * (value - state.get(name, 0))}
    )
    if x.ndim > 1:
        move("r", (g**2).mean(-1, keepdims=True))
        move("c", (g**2).mean(-2, keepdims=True))
        v = state["r"] * state["c"] / np.maximum(state["r"].mean(-2, keepdims=True), least)
    else:
        move("v", g**2)
        v = state["v"]
    change = g / np.sqrt(np.maximum(v, least**2))
    return x - reach / max(1.0, mean(change) / d) * change


@pytest.mark.parametrize("options", OPTIONS)
def test_follows_the_formula(problem, options):
    problem.check_formula(weft.optim.Adafactor, rule, options)


@pytest.mark.torch
@pytest.mark.parametrize("options", [*OPTIONS, {"maximize": True}])
def test_follows_torch(problem, options):
    problem.check_torch("Adafactor", options)


def test_a_step_is_one_graph():
    weights = [weft.nn.Parameter(weft.arange(6.0).view(2, 3)) for _ in range(2)]
    plain, compiled = (weft.optim.Adafactor([weight]) for weight in weights)
    counter = CompileCounter()
    step = weft.compile(compiled.step, backend=counter, fullgraph=True)
    for _ in range(3):
        for weight in weights:
            weight.grad = weight.detach() - 2
        plain.step()
        step()
    assert weft.allclose(*weights) and counter.frame_count == 1


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"lr": -0.5}, "Learning rate should be >= 0 but is: -0.5"),
        ({"beta2_decay": 0.8}, "beta2_decay should be <= 0 but is: 0.8"),
        ({"eps": (-1e-30, 1e-3)}, "epsilon1 should be >= 0 but is: -1e-30"),
        ({"eps": (None, -1e-3)}, "epsilon2 should be >= 0 but is: -0.001"),
        ({"d": 0.0}, "Clipping threshold d should be >= 1 but is: 0.0"),
        ({"weight_decay": -1}, "weight_decay should be >= 0 but is: -1"),
    ],
)
def test_refuses(options, text):
    with pytest.raises(ValueError) as caught:
        weft.optim.Adafactor([weft.ones(1, requires_grad=True)], **options)
    assert str(caught.value) == text
