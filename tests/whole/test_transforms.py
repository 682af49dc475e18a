"""Transforms nested in any order: against finite differences, formulas in float64, and each other."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import weft
from weft.func import grad, hessian, jacfwd, jacrev, jvp, linearize, vjp, vmap

POINT = weft.tensor([0.3, -0.7, 1.1], dtype=weft.float64)
OTHER = weft.tensor([1.3, 0.4, -0.2], dtype=weft.float64)
BATCH = weft.tensor([[0.3, -0.7, 1.1], [0.9, 0.2, -0.4]], dtype=weft.float64)
MATRIX = weft.tensor([[0.2, -1.0, 0.5], [0.7, 0.1, -0.3], [-0.6, 0.8, 0.4]], dtype=weft.float64)

PIECES: dict[str, Any] = {
    "sin": lambda x: x.sin(),
    "exp": lambda x: (x * 0.5).exp(),
    "square": lambda x: x * x + x,
    "matmul": lambda x: MATRIX @ x,
    "softmax": lambda x: weft.softmax(x, 0),
    "tanh": lambda x: weft.tanh(x),
    "cumprod": lambda x: weft.cumprod(x + 2, 0),
    "norm": lambda x: x / (1 + weft.linalg.vector_norm(x)),
    "slices": lambda x: weft.cat([x[1:], x[:1] * x[2]]),
    "index": lambda x: x[weft.tensor([2, 0, 0])] * x,
    "outer": lambda x: weft.outer(x, x).sum(1),
    "logsumexp": lambda x: x - weft.logsumexp(x, 0),
    "where": lambda x: weft.where(x > 0, x * x, x.sin()),
    "layer_norm": lambda x: weft.nn.functional.layer_norm(x * weft.tensor([1.0, 2.0, 3.0]).double(), (3,)),
    "inplace": lambda x: (x * 2).mul_(x).sin_(),
    "written": lambda x: _written(x),
}


def _written(x: Any) -> Any:
    y = x * 1.5
    y[0] = x[1] * x[2]
    y[1:].mul_(x[:2])
    return y


def chain(names: Any) -> Any:
    def function(x: Any) -> Any:
        for name in names:
            x = PIECES[name](x)
        return x.sum()

    return function


def differences(function: Any, x: Any) -> Any:
    """Central differences of a function of a vector, as the last dimension."""
    step = 1e-6
    columns = []
    for i in range(x.numel()):
        move = weft.zeros_like(x)
        move[i] = step
        columns.append((function(x + move) - function(x - move)) / (2 * step))
    return weft.stack(columns, -1)


def close(a: Any, b: Any, tolerance: float = 1e-9) -> None:
    np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=tolerance, atol=tolerance)


chains = st.lists(st.sampled_from(sorted(PIECES)), min_size=1, max_size=3)
MODES = {"reverse": jacrev, "forward": jacfwd}


@settings(max_examples=25, deadline=None)
@given(chains, st.lists(st.sampled_from(sorted(MODES)), min_size=1, max_size=3))
def test_jacobians_of_any_order_in_any_mode(names: list[str], modes: list[str]) -> None:
    function = chain(names)
    for mode in modes:
        lower, function = function, MODES[mode](function)
    close(function(POINT), differences(lower, POINT), 1e-4)


@settings(max_examples=25, deadline=None)
@given(chains, st.lists(st.sampled_from(["reverse", "forward", "vmap"]), min_size=2, max_size=4))
def test_vmap_at_any_level(names: list[str], kinds: list[str]) -> None:
    """Going over to a batch and picking one example out of it changes nothing, at any level."""
    plain = mapped = chain(names)
    for kind in kinds:
        if kind == "vmap":
            mapped = picked(mapped)
        elif kinds.count(kind) < 4:
            plain, mapped = MODES[kind](plain), MODES[kind](mapped)
    close(mapped(POINT), plain(POINT))


def picked(function: Any) -> Any:
    return lambda x: vmap(function)(weft.stack([x * 2, x, x.sin()]))[1]


@settings(max_examples=15, deadline=None)
@given(chains)
def test_products_agree_with_jacobians(names: list[str]) -> None:
    function = chain(names)
    row = jacrev(function)(POINT)
    value, slope = jvp(function, (POINT,), (OTHER,))
    close(slope, (row * OTHER).sum())
    close(value, function(POINT))
    close(vjp(function, POINT)[1](weft.tensor(2.0).double())[0], 2 * row)
    close(linearize(function, POINT)[1](OTHER), slope)
    second = jvp(grad(function), (POINT,), (OTHER,))[1]
    close(second, hessian(function)(POINT) @ OTHER, 1e-8)
    close(grad(lambda x: jvp(function, (x,), (OTHER,))[1])(POINT), second, 1e-8)
    close(vjp(grad(function), POINT)[1](OTHER)[0], second, 1e-8)
    close(grad(lambda x: (grad(function)(x) * OTHER).sum())(POINT), second, 1e-8)
    close(
        jvp(lambda x: jvp(function, (x,), (OTHER,))[1], (POINT,), (OTHER,))[1], (second * OTHER).sum(), 1e-8
    )


def test_hessian_against_its_formula() -> None:
    """f = exp(a.x) |x|^2: H = exp(a.x) (|x|^2 a a' + 2 a x' + 2 x a' + 2 I)."""

    def function(x: Any) -> Any:
        return (OTHER @ x).exp() * (x * x).sum()

    def formula(x: Any) -> Any:
        a, p = OTHER.numpy(), x.numpy()
        square, cross = p @ p * np.outer(a, a), 2 * (np.outer(a, p) + np.outer(p, a))
        return weft.from_numpy(np.exp(a @ p) * (square + cross + 2 * np.eye(3)))

    for outer in (jacfwd, jacrev):
        for inner in (jacfwd, jacrev):
            close(outer(inner(function))(POINT), formula(POINT))
    close(hessian(function)(POINT), formula(POINT))
    close(vmap(hessian(function))(BATCH), weft.stack([formula(x) for x in BATCH]))


def test_per_example_gradients_against_their_formula() -> None:
    """A linear model's squared error: the gradient for one example is 2 (w.x - y) x."""
    targets = weft.tensor([1.0, -2.0], dtype=weft.float64)
    weight = weft.tensor([0.5, 0.1, -0.3], dtype=weft.float64)

    def loss(weight: Any, x: Any, y: Any) -> Any:
        return (weight @ x - y) ** 2

    errors = BATCH.numpy() @ weight.numpy() - targets.numpy()
    expected = weft.from_numpy(2 * errors[:, None] * BATCH.numpy())
    close(vmap(grad(loss), in_dims=(None, 0, 0))(weight, BATCH, targets), expected)
    close(grad(lambda w: vmap(loss, in_dims=(None, 0, 0))(w, BATCH, targets).sum())(weight), expected.sum(0))


def test_examples_do_not_share_the_gradients_of_what_they_share() -> None:
    close(vmap(lambda a: grad(lambda w: (w * a).sum())(POINT))(BATCH), BATCH)
    inner = vmap(lambda a: vmap(lambda b: grad(lambda w: (w * a * b).sum())(POINT))(BATCH))(BATCH)
    close(inner, BATCH[:, None] * BATCH[None])


def test_levels_do_not_confuse_perturbations() -> None:
    """d/dx (x * d/dy (x + y)) is 1: an inner derivative must not see the outer direction."""
    one = weft.tensor(1.0)

    def derivative(function: Any, x: Any) -> Any:
        return jvp(function, (x,), (one,))[1]

    assert derivative(lambda x: x * derivative(lambda y: x + y, one), one).item() == 1
    assert grad(lambda x: x * grad(lambda y: x + y)(one))(one).item() == 1
    assert derivative(lambda x: x * grad(lambda y: x * y)(one), one).item() == 2
    assert grad(lambda x: x * derivative(lambda y: x * y, one))(one).item() == 2


@pytest.mark.parametrize("order", [1, 2, 3, 4])
def test_high_orders(order: int) -> None:
    forward: Any = weft.sin
    mixed: Any = weft.sin
    for i in range(order):
        forward, mixed = jacfwd(forward), (jacfwd if i % 2 else grad)(mixed)
    expected = [np.cos, lambda x: -np.sin(x), lambda x: -np.cos(x), np.sin][order - 1](0.7)
    x = weft.tensor(0.7, dtype=weft.float64)
    assert forward(x).item() == pytest.approx(expected)
    assert mixed(x).item() == pytest.approx(expected)
