"""RMSprop against the formula, torch and its own rules."""

from __future__ import annotations

import numpy as np
import pytest

import weft

OPTIONS = [
    {"lr": 0.05},
    {"lr": 0.05, "alpha": 0.6, "eps": 1e-3, "weight_decay": 0.1},
    {"lr": 0.05, "momentum": 0.7},
    {"lr": 0.05, "centered": True},
    {"lr": 0.01, "centered": True, "momentum": 0.5, "maximize": True, "foreach": True},
    {"lr": 0.05, "alpha": 0.3, "centered": True},
]


def rule(
    step,
    x,
    g,
    state,
    lr,
    alpha=0.99,
    eps=1e-8,
    weight_decay=0,
    momentum=0,
    centered=False,
    maximize=False,
    **_,
):
    g = (-g if maximize else g) + weight_decay * x
    v = state["v"] = alpha * state.get("v", 0) + (1 - alpha) * g * g
    if centered:
        state["m"] = alpha * state.get("m", 0) + (1 - alpha) * g
        v = v - state["m"] ** 2
    move = g / (np.sqrt(v) + eps)
    if momentum:
        move = state["b"] = momentum * state.get("b", 0) + move
    return x - lr * move


@pytest.mark.parametrize("options", OPTIONS)
def test_follows_the_formula(problem, options):
    problem.check_formula(weft.optim.RMSprop, rule, options)


@pytest.mark.torch
@pytest.mark.parametrize("options", OPTIONS)
def test_follows_torch(problem, options):
    problem.check_torch("RMSprop", options)


@pytest.mark.parametrize("options", OPTIONS)
def test_differentiable_form_follows_the_formula(problem, options):
    values = [weft.tensor(x) for x in problem.start]
    optimizer = weft.optim.RMSprop(values, differentiable=True, **options)
    for _ in range(20):
        for x, a, b in zip(values, problem.slope, problem.shift):
            x.grad = weft.tensor(a) * x + weft.tensor(b)
        optimizer.step()
    for x, y in zip(values, problem.formula(rule, **options)):
        np.testing.assert_allclose(x.detach().numpy(), y, rtol=1e-9, atol=1e-9)


def test_gradient_flows_through_a_step():
    """x = x0 - lr * g / (sqrt(alpha * 0 + (1 - alpha) * g**2) + eps), for g = x0."""
    start = weft.tensor(2.0, dtype=weft.float64, requires_grad=True)
    x = start.clone()
    optimizer = weft.optim.RMSprop([x], lr=0.1, alpha=0.75, eps=1.0, differentiable=True)
    x.grad = x.clone()
    optimizer.step()
    x.backward()
    assert x.item() == pytest.approx(2 - 0.1 * 2 / (0.5 * 2 + 1))
    assert start.grad.item() == pytest.approx(1 - 0.1 / (0.5 * 2 + 1) ** 2)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"lr": -1}, "Invalid learning rate: -1"),
        ({"eps": -1}, "Invalid epsilon value: -1"),
        ({"momentum": -1}, "Invalid momentum value: -1"),
        ({"weight_decay": -1}, "Invalid weight_decay value: -1"),
        ({"alpha": -1}, "Invalid alpha value: -1"),
    ],
)
def test_refuses(options, text):
    with pytest.raises(ValueError) as caught:
        weft.optim.RMSprop([weft.ones(1, requires_grad=True)], **options)
    assert str(caught.value) == text


def test_state_has_the_names_of_pytorch():
    x = weft.ones(2, requires_grad=True)
    x.grad = weft.ones(2)
    optimizer = weft.optim.RMSprop([x], momentum=0.5, centered=True)
    optimizer.step()
    assert list(optimizer.state[x]) == ["step", "square_avg", "momentum_buffer", "grad_avg"]
