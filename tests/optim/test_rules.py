"""Optimizers of plain tensor rules: against formulas in float64, torch, a capture, and through gradients."""

from __future__ import annotations

import copy

import numpy as np
import pytest

import weft
from weft.core.settings import settings
from weft.testing import CompileCounter


# -- the rules, stated again in NumPy ------------------------------------------------------------------------
def adamax(step, x, g, state, lr, betas=(0.9, 0.999), eps=1e-8, weight_decay=0):
    g = g + weight_decay * x
    state["m"] = betas[0] * state.get("m", 0) + (1 - betas[0]) * g
    state["u"] = np.maximum(betas[1] * state.get("u", 0), np.abs(g) + eps)
    return x - lr / (1 - betas[0] ** step) * state["m"] / state["u"]


def adam_means(x, g, state, betas):
    state["m"] = betas[0] * state.get("m", 0) + (1 - betas[0]) * g
    state["v"] = betas[1] * state.get("v", 0) + (1 - betas[1]) * g * g
    return state["m"], state["v"]


def decayed(x, g, lr, weight_decay, decoupled):
    return (x - lr * weight_decay * x, g) if decoupled else (x, g + weight_decay * x)


def nadam(
    step, x, g, state, lr, betas=(0.9, 0.999), eps=1e-8, weight_decay=0, momentum_decay=4e-3,
    decoupled_weight_decay=False,
):  # fmt: skip
    x, g = decayed(x, g, lr, weight_decay, decoupled_weight_decay)
    mu, after = (betas[0] * (1 - 0.5 * 0.96 ** (t * momentum_decay)) for t in (step, step + 1))
    state["p"] = state.get("p", 1) * mu
    m, v = adam_means(x, g, state, betas)
    mean = after * m / (1 - state["p"] * after) + (1 - mu) * g / (1 - state["p"])
    return x - lr * mean / (np.sqrt(v / (1 - betas[1] ** step)) + eps)


def radam(step, x, g, state, lr, betas=(0.9, 0.999), eps=1e-8, weight_decay=0, decoupled_weight_decay=False):
    x, g = decayed(x, g, lr, weight_decay, decoupled_weight_decay)
    m, v = adam_means(x, g, state, betas)
    m, seen = m / (1 - betas[0] ** step), 1 - betas[1] ** step
    top = 2 / (1 - betas[1]) - 1
    rho = top - 2 * step * betas[1] ** step / seen
    if rho <= 5:
        return x - lr * m
    r = np.sqrt((rho - 4) * (rho - 2) * top / ((top - 4) * (top - 2) * rho))
    return x - lr * m * r * np.sqrt(seen) / (np.sqrt(v) + eps)


def adagrad(step, x, g, state, lr, lr_decay=0, weight_decay=0, initial_accumulator_value=0, eps=1e-10):
    g = g + weight_decay * x
    state["s"] = state.get("s", initial_accumulator_value) + g * g
    return x - lr / (1 + (step - 1) * lr_decay) * g / (np.sqrt(state["s"]) + eps)


def adadelta(step, x, g, state, lr=1.0, rho=0.9, eps=1e-6, weight_decay=0):
    g = g + weight_decay * x
    state["v"] = rho * state.get("v", 0) + (1 - rho) * g * g
    move = np.sqrt(state.get("u", 0) + eps) / np.sqrt(state["v"] + eps) * g
    state["u"] = rho * state.get("u", 0) + (1 - rho) * move * move
    return x - lr * move


def rprop(step, x, g, state, lr, etas=(0.5, 1.2), step_sizes=(1e-6, 50)):
    turn = np.sign(g * state.get("g", 0))
    size = state.get("s", lr) * np.where(turn > 0, etas[1], np.where(turn < 0, etas[0], 1))
    state["s"] = np.clip(size, *step_sizes)
    state["g"] = np.where(turn < 0, 0, g)
    return x - np.sign(state["g"]) * state["s"]


def asgd(step, x, g, state, lr, lambd=1e-4, alpha=0.75, t0=1e6, weight_decay=0):
    # The size is kept in a step counter's dtype.
    eta = np.float32(lr / (1 + lambd * lr * (step - 1)) ** alpha).astype(float)
    return x - lambd * eta * x - eta * (g + weight_decay * x)


CASES = [
    ("Adamax", adamax, {"lr": 0.1}),
    ("Adamax", adamax, {"lr": 0.1, "betas": (0.4, 0.9), "eps": 1e-3, "weight_decay": 0.1}),
    ("NAdam", nadam, {"lr": 0.1, "betas": (0.3, 0.9), "momentum_decay": 0.1}),
    ("NAdam", nadam, {"lr": 0.1, "weight_decay": 0.1, "decoupled_weight_decay": True}),
    ("NAdam", nadam, {"lr": 0.1, "weight_decay": 0.1, "eps": 1e-3}),
    ("RAdam", radam, {"lr": 0.1}),
    ("RAdam", radam, {"lr": 0.1, "betas": (0.4, 0.8), "eps": 1e-3, "weight_decay": 0.1}),
    ("RAdam", radam, {"lr": 0.1, "weight_decay": 0.1, "decoupled_weight_decay": True}),
    ("Adagrad", adagrad, {"lr": 0.5}),
    (
        "Adagrad",
        adagrad,
        {"lr": 0.5, "lr_decay": 0.1, "weight_decay": 0.1, "initial_accumulator_value": 0.5, "eps": 1e-3},
    ),
    ("Adadelta", adadelta, {}),
    ("Adadelta", adadelta, {"lr": 0.5, "rho": 0.6, "eps": 1e-2, "weight_decay": 0.1}),
    ("Rprop", rprop, {"lr": 0.3}),
    ("Rprop", rprop, {"lr": 0.3, "etas": (0.3, 1.5), "step_sizes": (0.01, 0.6)}),
    ("ASGD", asgd, {"lr": 0.1}),
    ("ASGD", asgd, {"lr": 0.1, "lambd": 0.1, "alpha": 0.5, "t0": 3, "weight_decay": 0.1}),
]
cases = pytest.mark.parametrize(("name", "rule", "options"), CASES)
SMALL_STATE = ("ASGD", "NAdam")
"""These keep numbers in the dtype of step counters."""


@cases
def test_follows_the_formula(problem, name, rule, options):
    found, _ = problem.run(weft, getattr(weft.optim, name), **options)
    bound = 1e-5 if name in SMALL_STATE else 1e-12
    for x, y in zip(found, problem.formula(rule, **options)):
        np.testing.assert_allclose(x, y, rtol=bound, atol=bound)


@pytest.mark.torch
@cases
def test_follows_torch(problem, name, rule, options):
    problem.check_torch(name, options)
    listed = name != "ASGD"  # its lists keep other roundings of the step size
    problem.check_torch(name, {**options, "maximize": True, "foreach": listed})


@cases
def test_maximising_is_minimising_the_negative(name, rule, options):
    if options.get("weight_decay") or options.get("lambd"):
        pytest.skip("decay has one direction")
    ends = []
    for sign, maximize in ((1.0, False), (-1.0, True)):
        x = weft.tensor([1.0, -2.0, 3.0], requires_grad=True)
        optimizer = getattr(weft.optim, name)([x], maximize=maximize, **options)
        for _ in range(4):
            optimizer.zero_grad()
            (sign * (x * x)).sum().backward()
            optimizer.step()
        ends.append(x.detach())
    assert weft.equal(*ends)


@cases
def test_steps_are_captured_whole(monkeypatch, name, rule, options):
    """One graph serves every step, state is made as in eager, and the parameters are eager's."""
    monkeypatch.setattr(settings, "strict", True)
    weft.manual_seed(0)
    models = [weft.nn.Linear(4, 3)]
    models.append(copy.deepcopy(models[0]))
    plain, compiled = (getattr(weft.optim, name)(model.parameters(), **options) for model in models)
    counter = CompileCounter()
    step = weft.compile(compiled.step, backend=counter, fullgraph=True)
    x = weft.randn(5, 4)
    for _ in range(7):
        for model in models:
            model.zero_grad()
            model(x).square().sum().backward()
        plain.step()
        step()
    for ours, theirs in zip(models[1].parameters(), models[0].parameters()):
        np.testing.assert_allclose(ours.detach().numpy(), theirs.detach().numpy(), rtol=2e-6, atol=1e-7)
        mine, expected = compiled.state[ours], plain.state[theirs]
        assert list(mine) == list(expected)
        for key, value in expected.items():
            np.testing.assert_allclose(mine[key].numpy(), value.numpy(), rtol=2e-5, atol=1e-6)
    assert counter.frame_count == 1


@cases
def test_gradients_flow_through_steps(problem, name, rule, options):
    """The derivative of the end by the start, against finite differences of the formula."""
    start = weft.tensor(problem.start[1], requires_grad=True)
    x = start.clone()
    optimizer = getattr(weft.optim, name)([x], differentiable=True, **options)
    a, b = problem.slope[1], problem.shift[1]
    for _ in range(3):
        x.grad = weft.tensor(a) * x + weft.tensor(b)
        optimizer.step()
    x.sum().backward()

    def end(value):
        state = {}
        for step in range(1, 4):
            value = rule(step, value, a * value + b, state, **options)
        return value

    span = 1e-6
    slope = (end(problem.start[1] + span) - end(problem.start[1] - span)) / (2 * span)
    np.testing.assert_allclose(start.grad.numpy(), slope, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", sorted({case[0] for case in CASES}))
def test_state_round_trip_and_rate_as_tensor(problem, name):
    make = getattr(weft.optim, name)
    lr = {"lr": weft.tensor(0.1, dtype=weft.float64)}
    found, optimizer = problem.run(weft, make, **lr)
    expected, _ = problem.run(weft, make, lr=0.1)
    for x, y in zip(found, expected):
        np.testing.assert_allclose(x, y, rtol=1e-12)
    saved = copy.deepcopy(optimizer.state_dict())
    other = make([weft.tensor(x, requires_grad=True) for x in found], lr=0.1)
    other.load_state_dict(saved)
    again = other.state_dict()
    assert again["param_groups"] == saved["param_groups"]
    for number, state in saved["state"].items():
        assert {key: value.tolist() for key, value in state.items()} == {
            key: value.tolist() for key, value in again["state"][number].items()
        }
    for state in saved["state"].values():  # as saved long ago
        state["step"] = state["step"].item()
    other.load_state_dict(saved)
    assert isinstance(other.state[other.param_groups[0]["params"][0]]["step"], weft.Tensor)


@pytest.mark.parametrize("name", ["Adamax", "NAdam", "RAdam", "Adagrad", "Adadelta", "Rprop", "ASGD"])
def test_complex_parameters_are_pairs_of_real_ones(name):
    start = np.array([1 + 2j, -3 + 0.5j])
    x = weft.tensor(start, requires_grad=True)
    pair = weft.view_as_real(weft.tensor(start)).requires_grad_()
    optimizers = [getattr(weft.optim, name)([value], lr=0.1) for value in (x, pair)]
    for _ in range(3):
        x.grad = x.detach() * 2
        pair.grad = pair.detach() * 2
        for optimizer in optimizers:
            optimizer.step()
    assert weft.allclose(weft.view_as_real(x.detach()), pair.detach())


@pytest.mark.parametrize(
    ("name", "options", "text"),
    [
        ("Adamax", {"lr": -1}, "Invalid learning rate: -1"),
        ("Adamax", {"betas": (1.0, 0.5)}, "Invalid beta parameter at index 0: 1.0"),
        ("NAdam", {"momentum_decay": -0.2}, "Invalid momentum_decay value: -0.2"),
        ("RAdam", {"betas": (0.5, -1)}, "Invalid beta parameter at index 1: -1"),
        ("RAdam", {"weight_decay": -1}, "Invalid weight_decay value: -1"),
        ("Adagrad", {"lr_decay": -0.5}, "Invalid lr_decay value: -0.5"),
        ("Adagrad", {"initial_accumulator_value": -1}, "Invalid initial_accumulator_value value: -1"),
        ("Adadelta", {"rho": 1.1}, "Invalid rho value: 1.1"),
        ("Rprop", {"etas": (1.0, 0.5)}, "Invalid eta values: 1.0, 0.5"),
        ("ASGD", {"weight_decay": -0.5}, "Invalid weight_decay value: -0.5"),
        ("ASGD", {"lr": weft.ones(2)}, "Tensor lr must be 1-element"),
    ],
)
def test_refuses(name, options, text):
    with pytest.raises(ValueError) as caught:
        getattr(weft.optim, name)([weft.ones(1, requires_grad=True)], **options)
    assert str(caught.value) == text


ALL = ["SGD", "Adam", "AdamW", "RMSprop", "Adafactor", "Muon", *dict.fromkeys(name for name, _, _ in CASES)]


@pytest.mark.parametrize("name", ALL)
def test_may_be_made_in_captured_code(name):
    """One graph holds the optimizer's making, its step and the clearing of gradients."""

    def moved(x):
        x = x.clone().requires_grad_()
        optimizer = getattr(weft.optim, name)([x], lr=0.1)
        (x * x).sum().backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=False)
        return x.detach(), x.grad

    start = weft.randn(3, 2)
    expected = moved(start)  # wraps the class's step, which is done once
    counter = CompileCounter()
    found = weft.compile(moved, backend=counter, fullgraph=True)(start)
    assert counter.frame_count == 1
    for one, other in zip(found, expected, strict=True):
        assert weft.allclose(one, other)
