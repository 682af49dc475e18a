"""Adam against the formula, torch and its own rules."""

from __future__ import annotations

import numpy as np
import pytest

import weft
from weft.optim.adam import adam

OPTIONS = [
    {"lr": 0.1},
    {"lr": 0.1, "betas": (0.4, 0.9), "eps": 1e-3},
    {"lr": 0.1, "weight_decay": 0.1},
    {"lr": 0.1, "weight_decay": 0.1, "decoupled_weight_decay": True},
    {"lr": 0.1, "amsgrad": True},
    {"lr": 0.02, "amsgrad": True, "maximize": True, "weight_decay": 0.1},
    {"lr": 0.1, "foreach": True},
    {"lr": 0.1, "fused": True, "amsgrad": True},
]


def rule(
    step, x, g, state, lr, betas=(0.9, 0.999), eps=1e-8, weight_decay=0, amsgrad=False, maximize=False,
    decoupled_weight_decay=False, **_,
):  # fmt: skip
    g = -g if maximize else g
    if decoupled_weight_decay:
        x = x - lr * weight_decay * x
    else:
        g = g + weight_decay * x
    state["m"] = betas[0] * state.get("m", 0) + (1 - betas[0]) * g
    state["v"] = betas[1] * state.get("v", 0) + (1 - betas[1]) * g**2
    v = state["v"]
    if amsgrad:
        v = state["top"] = np.maximum(state.get("top", 0), v)
    mean, square = state["m"] / (1 - betas[0] ** step), v / (1 - betas[1] ** step)
    return x - lr * mean / (np.sqrt(square) + eps)


@pytest.mark.parametrize("options", OPTIONS)
def test_follows_the_formula(problem, options):
    problem.check_formula(weft.optim.Adam, rule, options)


@pytest.fixture
def float64():
    """Step counters have the default dtype, and with it what is computed from them."""
    weft.set_default_dtype(weft.float64)
    yield
    weft.set_default_dtype(weft.float32)


@pytest.mark.usefixtures("float64")
@pytest.mark.parametrize("options", [*OPTIONS[:6], {"lr": 0.1, "betas": (0.3, 0.8), "capturable": True}])
@pytest.mark.parametrize("flag", ["capturable", "differentiable"])
def test_form_with_tensors_follows_the_formula(problem, options, flag):
    def make(params, **given):
        return weft.optim.Adam(params, **given)

    if flag == "differentiable":
        options = {**options, "differentiable": True}
        # Leaves cannot be written to while recording: train copies of them, as such users do.
        expected = problem.formula(rule, **options)
        values = [weft.tensor(x) for x in problem.start]
        optimizer = weft.optim.Adam(values, **options)
        for _ in range(20):
            for x, a, b in zip(values, problem.slope, problem.shift):
                x.grad = weft.tensor(a) * x + weft.tensor(b)
            optimizer.step()
        found = [x.detach().numpy() for x in values]
    else:
        options = {**options, "capturable": True}
        expected = problem.formula(rule, **options)
        found, _ = problem.run(weft, make, **options)
    for x, y in zip(found, expected):
        np.testing.assert_allclose(x, y, rtol=1e-12, atol=1e-12)


@pytest.mark.torch
@pytest.mark.parametrize("options", OPTIONS)
def test_follows_torch(problem, options):
    problem.check_torch("Adam", options)


def test_state_has_the_names_and_types_of_pytorch(request):
    x = weft.ones(2, 3, dtype=weft.float64, requires_grad=True)
    x.grad = weft.ones(2, 3, dtype=weft.float64)
    optimizer = weft.optim.Adam([x], amsgrad=True)
    optimizer.step()
    state = optimizer.state[x]
    assert list(state) == ["step", "exp_avg", "exp_avg_sq", "max_exp_avg_sq"]
    assert state["step"].shape == () and state["step"].dtype is weft.float32 and state["step"].item() == 1
    assert {state[name].dtype for name in list(state)[1:]} == {weft.float64}
    request.getfixturevalue("float64")
    again = weft.optim.Adam([x])
    again.step()
    assert again.state[x]["step"].dtype is weft.float64


def test_tensor_rate_and_betas(problem):
    betas = (weft.tensor(0.9, dtype=weft.float64), weft.tensor([0.999], dtype=weft.float64))
    rate = weft.tensor(0.1, dtype=weft.float64)
    found, _ = problem.run(weft, weft.optim.Adam, lr=rate, betas=betas)
    for x, y in zip(found, problem.formula(rule, lr=0.1)):
        np.testing.assert_allclose(x, y, rtol=1e-12)


@pytest.mark.parametrize("kind", ["bfloat16", "float16"])
def test_half_types_are_trained_by_ops(kind):
    dtype = getattr(weft, kind)
    x = weft.ones(4, dtype=dtype, requires_grad=True)
    x.grad = weft.tensor([1.0, -1.0, 2.0, 0.5], dtype=dtype)
    weft.optim.Adam([x], lr=0.25).step()
    assert x.dtype is dtype and x.tolist() == [0.75, 1.25, 0.75, 0.75]


def test_strided_parameters_are_trained_in_place():
    base = weft.zeros(3, 4)
    x = base.t()[1:].requires_grad_()
    x.grad = weft.ones(3, 3)
    weft.optim.Adam([x], lr=0.5).step()
    assert base[:, 0].tolist() == [0, 0, 0] and np.allclose(base[:, 1:].detach().numpy(), -0.5)


@pytest.mark.usefixtures("float64")
def test_gradient_flows_through_a_step():
    """After one step x = x0 - lr * g / (|g| + eps): its derivative by lr is -g / (|g| + eps)."""
    rate = weft.tensor(0.1, dtype=weft.float64, requires_grad=True)
    start = weft.tensor([2.0, -3.0], dtype=weft.float64, requires_grad=True)
    x = start.clone()
    optimizer = weft.optim.Adam([x], lr=rate, eps=1.0, differentiable=True)
    x.grad = x.clone()
    optimizer.step()
    (x * weft.tensor([1.0, 10.0], dtype=weft.float64)).sum().backward()
    assert rate.grad.item() == pytest.approx(-(2 / 3) + 10 * 3 / 4)
    assert start.grad.tolist() == pytest.approx([1 - 0.1 / 9, 10 * (1 - 0.1 / 16)])


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"lr": -1}, "Invalid learning rate: -1"),
        ({"eps": -1e-8}, "Invalid epsilon value: -1e-08"),
        ({"betas": (1.0, 0.9)}, "Invalid beta parameter at index 0: 1.0"),
        ({"betas": (0.9, -0.1)}, "Invalid beta parameter at index 1: -0.1"),
        ({"weight_decay": -1}, "Invalid weight_decay value: -1"),
        ({"betas": (0.9, weft.tensor(0.9))}, "betas must be either both floats or both Tensors"),
        ({"betas": (weft.ones(2) / 2, weft.tensor(0.9))}, "Tensor betas[0] must be 1-element"),
        (
            {"lr": weft.tensor(0.1), "foreach": True},
            "lr as a Tensor is not supported for capturable=False and foreach=True",
        ),
        (
            {"betas": (weft.tensor(0.9), weft.tensor(0.9)), "foreach": True},
            "betas[0] as a Tensor is not supported for capturable=False and foreach=True",
        ),
    ],
)
def test_refuses(options, text):
    with pytest.raises(ValueError) as caught:
        weft.optim.Adam([weft.ones(1, requires_grad=True)], **options)
    assert str(caught.value) == text


def test_old_state_with_numbers_for_steps_is_loaded(problem):
    _, optimizer = problem.run(weft, weft.optim.Adam, lr=0.1)
    saved = optimizer.state_dict()
    for state in saved["state"].values():
        state["step"] = state["step"].item()
    optimizer.load_state_dict(saved)
    step = optimizer.state[optimizer.param_groups[0]["params"][0]]["step"]
    assert isinstance(step, weft.Tensor) and step.item() == 20 and step.shape == ()


def test_function_wants_tensors_for_steps():
    with pytest.raises(RuntimeError, match="`state_steps` argument must contain a list of singleton tensors"):
        adam(
            [weft.ones(1)], [weft.ones(1)], [weft.ones(1)], [weft.ones(1)], [], [1],
            amsgrad=False, beta1=0.9, beta2=0.9, lr=0.1, weight_decay=0, eps=0, maximize=False,
        )  # fmt: skip
