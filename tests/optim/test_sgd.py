"""SGD against the formula, torch and its own rules."""

from __future__ import annotations

import numpy as np
import pytest

import weft
from weft.optim.sgd import sgd

OPTIONS = [
    {"lr": 0.1},
    {"lr": 0.1, "weight_decay": 0.05},
    {"lr": 0.1, "momentum": 0.9},
    {"lr": 0.1, "momentum": 0.9, "dampening": 0.3, "weight_decay": 0.05},
    {"lr": 0.1, "momentum": 0.8, "nesterov": True},
    {"lr": 0.01, "momentum": 0.8, "nesterov": True, "maximize": True, "weight_decay": 0.1},
    {"lr": 0.01, "maximize": True},
    {"lr": 0.1, "momentum": 0.9, "foreach": True},
    {"lr": 0.1, "momentum": 0.9, "fused": True},
]


def rule(step, x, g, state, lr, momentum=0, dampening=0, weight_decay=0, nesterov=False, maximize=False, **_):
    g = (-g if maximize else g) + weight_decay * x
    if momentum:
        state["b"] = g if step == 1 else momentum * state["b"] + (1 - dampening) * g
        g = g + momentum * state["b"] if nesterov else state["b"]
    return x - lr * g


@pytest.mark.parametrize("options", OPTIONS)
def test_follows_the_formula(problem, options):
    problem.check_formula(weft.optim.SGD, rule, options)


@pytest.mark.torch
@pytest.mark.parametrize("options", OPTIONS)
def test_follows_torch(problem, options):
    problem.check_torch("SGD", options)


def test_tensor_rate_is_read_at_every_step(problem):
    rate = weft.tensor([0.1], dtype=weft.float64)
    found, optimizer = problem.run(weft, weft.optim.SGD, lr=rate)
    for x, y in zip(found, problem.formula(rule, lr=0.1)):
        np.testing.assert_allclose(x, y, rtol=1e-12)
    assert optimizer.param_groups[0]["lr"] is rate


def test_momentum_buffer_is_a_copy_of_the_first_gradient():
    x = weft.ones(3, requires_grad=True)
    optimizer = weft.optim.SGD([x], lr=1.0, momentum=0.5)
    x.grad = weft.full((3,), 2.0)
    optimizer.step()
    buffer = optimizer.state[x]["momentum_buffer"]
    assert buffer.tolist() == [2.0, 2.0, 2.0] and buffer is not x.grad
    x.grad.zero_()
    assert buffer.tolist() == [2.0, 2.0, 2.0]
    assert x.tolist() == [-1.0, -1.0, -1.0]


def test_gradients_are_not_written_to(problem):
    _, optimizer = problem.run(
        weft, weft.optim.SGD, lr=0.1, momentum=0.9, weight_decay=0.1, maximize=True, nesterov=True
    )
    params = optimizer.param_groups[0]["params"]
    before = [x.grad.clone() for x in params]
    optimizer.step()
    assert all(weft.equal(x.grad, y) for x, y in zip(params, before))


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"lr": -1.0}, "Invalid learning rate: -1.0"),
        ({"momentum": -0.5}, "Invalid momentum value: -0.5"),
        ({"weight_decay": -0.5}, "Invalid weight_decay value: -0.5"),
        ({"nesterov": True}, "Nesterov momentum requires a momentum and zero dampening"),
        (
            {"nesterov": True, "momentum": 0.9, "dampening": 0.1},
            "Nesterov momentum requires a momentum and zero dampening",
        ),
        ({"lr": weft.ones(2)}, "Tensor lr must be 1-element"),
    ],
)
def test_refuses(options, text):
    with pytest.raises(ValueError) as caught:
        weft.optim.SGD([weft.ones(1, requires_grad=True)], **options)
    assert str(caught.value) == text


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"fused": True, "differentiable": True}, "`fused` does not support `differentiable`"),
        ({"fused": True, "foreach": True}, "`fused` and `foreach` cannot be `True` together."),
    ],
)
def test_refuses_combinations_of_fused(options, text):
    with pytest.raises(RuntimeError) as caught:
        weft.optim.SGD([weft.ones(1, requires_grad=True)], **options)
    assert str(caught.value) == text


def test_gradient_flows_to_rate_and_decay():
    """Two steps of x -= lr * (x + decay * x), from x = 3: x = 3 * (1 - lr * (1 + decay)) ** 2."""
    start = weft.tensor(3.0, dtype=weft.float64, requires_grad=True)
    rate = weft.tensor(0.1, dtype=weft.float64, requires_grad=True)
    decay = weft.tensor(0.5, dtype=weft.float64, requires_grad=True)
    x = start.clone()
    optimizer = weft.optim.SGD([x], lr=rate, weight_decay=decay, differentiable=True)
    for _ in range(2):
        x.grad = x.clone()
        optimizer.step()
    x.backward()
    kept = 1 - 0.1 * 1.5
    assert x.item() == pytest.approx(3 * kept**2)
    assert start.grad.item() == pytest.approx(kept**2)
    assert rate.grad.item() == pytest.approx(3 * 2 * kept * -1.5)
    assert decay.grad.item() == pytest.approx(3 * 2 * kept * -0.1)


def test_function_fills_in_buffers():
    x, g = weft.ones(2), weft.full((2,), 3.0)
    buffers = [None]
    options = {"weight_decay": 0, "momentum": 0.5, "lr": 1.0, "dampening": 0, "nesterov": False}
    with weft.no_grad():
        sgd([x], [g], buffers, maximize=False, **options)
    assert x.tolist() == [-2.0, -2.0] and buffers[0].tolist() == [3.0, 3.0]
