"""Activations: values beside their definitions, kinks, in-place flags, errors."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import weft
from weft.nn import functional as F

NAN, INF = math.nan, math.inf
X = np.array([-7.0, -3.0, -1.0, -0.5, 0.0, 0.5, 1.0, 3.0, 7.0, 30.0])


def definition(name: str, x: np.ndarray) -> np.ndarray:
    """What each activation is, in double precision."""
    logistic = 1 / (1 + np.exp(-x))
    plus = np.logaddexp(x, 0)
    table: dict[str, Any] = {
        "relu": np.maximum(x, 0),
        "relu6": np.clip(x, 0, 6),
        "leaky_relu": np.where(x > 0, x, 0.01 * x),
        "elu": np.where(x > 0, x, np.expm1(np.minimum(x, 0))),
        "celu": np.where(x > 0, x, np.expm1(np.minimum(x, 0))),
        "selu": 1.0507009873554805 * np.where(x > 0, x, 1.6732632423543772 * np.expm1(np.minimum(x, 0))),
        "sigmoid": logistic,
        "logsigmoid": -np.logaddexp(-x, 0),
        "silu": x * logistic,
        "mish": x * np.tanh(plus),
        "softplus": plus,
        "softsign": x / (1 + abs(x)),
        "tanhshrink": x - np.tanh(x),
        "hardtanh": np.clip(x, -1, 1),
        "hardsigmoid": np.clip(x + 3, 0, 6) / 6,
        "hardswish": x * np.clip(x + 3, 0, 6) / 6,
        "softshrink": np.sign(x) * np.maximum(abs(x) - 0.5, 0),
        "hardshrink": np.where(abs(x) > 0.5, x, 0),
        "gelu": np.array([0.5 * v * math.erfc(-v / math.sqrt(2)) for v in x]),
    }
    return np.asarray(table[name])


NAMES = [
    "relu", "relu6", "leaky_relu", "elu", "celu", "selu", "sigmoid", "logsigmoid", "silu", "mish", "softplus",
    "softsign", "tanhshrink", "hardtanh", "hardsigmoid", "hardswish", "softshrink", "hardshrink", "gelu",
]  # fmt: skip


def gradient(function: Any, values: list[float]) -> list[float]:
    x = weft.tensor(values, dtype=weft.float64, requires_grad=True)
    return weft.autograd.grad(function(x).sum(), x)[0].tolist()


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    ("kind", "tolerance"), [(weft.float64, 1e-13), (weft.float32, 1e-6), (weft.bfloat16, 1e-2)]
)
def test_values(name: str, kind: weft.dtype, tolerance: float) -> None:
    got = getattr(F, name)(weft.tensor(X, dtype=kind))
    assert got.dtype is kind
    np.testing.assert_allclose(got.double().numpy(), definition(name, X), rtol=tolerance, atol=tolerance / 10)


@pytest.mark.parametrize("name", NAMES)
def test_nan_goes_through_and_large_values_make_no_new_one(name: str) -> None:
    function = getattr(F, name)
    if name != "softsign":  # infinity over infinity
        assert not function(weft.tensor([200.0, -200.0, INF])).isnan().any()
    for size in (1, 5000):
        assert function(weft.full((size,), NAN)).isnan().all()


@pytest.mark.parametrize(
    ("name", "values", "expected"),
    [
        ("relu", [-1.0, 0.0, 1.0], [0.0, 0.0, 1.0]),
        ("relu6", [0.0, 3.0, 6.0], [0.0, 1.0, 0.0]),
        ("hardtanh", [-1.0, 0.0, 1.0], [0.0, 1.0, 0.0]),
        ("leaky_relu", [-1.0, 0.0, 1.0], [0.01, 0.01, 1.0]),
        ("elu", [0.0, 1.0], [1.0, 1.0]),
        ("hardsigmoid", [-3.0, 0.0, 3.0], [0.0, 1 / 6, 0.0]),
        ("hardswish", [-3.0, 0.0, 3.0], [0.0, 0.5, 1.0]),
        ("softshrink", [-0.5, 0.5, 0.6], [0.0, 0.0, 1.0]),
        ("hardshrink", [-0.5, 0.5, 0.6], [0.0, 0.0, 1.0]),
        ("softplus", [-800.0, 0.0, 25.0], [0.0, 0.5, 1.0]),
        ("logsigmoid", [0.0, 800.0], [0.5, 0.0]),
    ],
)
def test_gradients_at_kinks_and_far_out(name: str, values: list[float], expected: list[float]) -> None:
    assert gradient(getattr(F, name), values) == pytest.approx(expected, abs=1e-12)


def test_second_order_stays_finite_where_the_other_branch_overflows() -> None:
    for function in (F.elu, F.celu, F.selu, F.mish, F.softplus, F.silu, F.gelu):
        x = weft.tensor([800.0], dtype=weft.float64, requires_grad=True)
        (first,) = weft.autograd.grad(function(x).sum(), x, create_graph=True)
        (second,) = weft.autograd.grad(first.sum(), x)
        assert second.tolist() == [0.0]


@pytest.mark.parametrize(
    "name",
    [
        "relu",
        "relu6",
        "leaky_relu",
        "elu",
        "celu",
        "selu",
        "silu",
        "mish",
        "hardtanh",
        "hardsigmoid",
        "hardswish",
    ],
)
def test_inplace_flag_writes_into_the_input_with_the_same_gradient(name: str) -> None:
    function = getattr(F, name)
    x = weft.tensor([-2.0, 0.3, 5.0], dtype=weft.float64, requires_grad=True)
    expected = function(x)
    target = x.clone()
    result = function(target, inplace=True)
    assert result is target
    assert target._version == 1
    np.testing.assert_array_equal(target.detach().numpy(), expected.detach().numpy())
    got, want = (weft.autograd.grad(y.sum(), x)[0].tolist() for y in (result, expected))
    assert got == want
    with pytest.raises(RuntimeError, match="a leaf Variable that requires grad"):
        function(x, inplace=True)


def test_threshold_and_its_forms() -> None:
    x = weft.tensor([0.5, 2.0, NAN])
    np.testing.assert_array_equal(F.threshold(x, 1.0, 20.0).numpy(), [20.0, 2.0, NAN])
    assert F.threshold(x[:2], 1, 20, inplace=True).tolist() == [20.0, 2.0]
    assert weft.threshold is F.threshold
    assert F.relu_(weft.tensor([-1.0])).tolist() == [0.0]
    assert F.elu_(weft.tensor([1.0])).tolist() == [1.0]


def test_gelu_by_tanh() -> None:
    got = F.gelu(weft.tensor(X), approximate="tanh").numpy()
    inner = math.sqrt(2 / math.pi) * (X + 0.044715 * X**3)
    np.testing.assert_allclose(got, 0.5 * X * (1 + np.tanh(inner)), rtol=1e-6, atol=1e-6)


def test_softplus_parameters() -> None:
    x = weft.tensor([0.1, 1.0, 5.0], dtype=weft.float64)
    expected = [math.log1p(math.exp(0.3)) / 3, 1.0, 5.0]
    assert F.softplus(x, beta=3, threshold=1).tolist() == pytest.approx(expected)


def test_prelu() -> None:
    x = weft.tensor([[-1.0, -2.0, 3.0]])
    assert F.prelu(x, weft.tensor([0.1, 0.5, 1.0])).tolist() == [[pytest.approx(-0.1), -1.0, 3.0]]
    assert F.prelu(x, weft.tensor(0.5)).tolist() == [[-0.5, -1.0, 3.0]]
    with pytest.raises(RuntimeError, match="parameter numbers = 2 and channel size = 3"):
        F.prelu(x, weft.ones(2))
    with pytest.raises(RuntimeError, match="scalar or 1D tensor, but got: ndim = 2"):
        F.prelu(x, weft.ones(1, 3))


def test_glu() -> None:
    x = weft.tensor([[1.0, 2.0, 0.0, 100.0]])
    assert F.glu(x).tolist() == [[0.5, 2.0]]
    assert F.glu(x.T, 0).shape == (2, 1)
    with pytest.raises(RuntimeError, match="Halving dimension must be even, but dimension 1 is size 3"):
        F.glu(weft.ones(2, 3))
    with pytest.raises(RuntimeError, match="glu does not support 0-dimensional tensors"):
        F.glu(weft.tensor(1.0))


@pytest.mark.parametrize(
    ("call", "kind", "message"),
    [
        (
            lambda: F.gelu(weft.tensor([1])),
            NotImplementedError,
            "\"GeluKernelImpl\" not implemented for 'Long'",
        ),
        (
            lambda: F.gelu(weft.ones(1), approximate="x"),
            RuntimeError,
            "approximate argument must be either none or",
        ),
        (lambda: F.relu(weft.tensor([True])), RuntimeError, "Boolean inputs not supported for relu"),
        (lambda: F.hardtanh(weft.ones(1), 1.0, -1.0), ValueError, "min_val cannot be greater than max_val"),
        (lambda: F.hardtanh(weft.ones(1).byte()), RuntimeError, "unsigned type with negative limits"),
        (lambda: F.softshrink(weft.ones(1), -0.5), RuntimeError, "lambda must be in range"),
        (lambda: F.celu(weft.ones(1), 0.0), RuntimeError, "alpha cannot be 0 for CELU"),
        (lambda: F.elu(weft.tensor([1])), NotImplementedError, "\"elu_cpu\" not implemented for 'Long'"),
    ],
)
def test_errors(call: Any, kind: type[Exception], message: str) -> None:
    for _ in range(2):
        with pytest.raises(kind, match=message):
            call()


@pytest.mark.parametrize("name", ["relu", "relu6", "hardtanh", "elu", "selu", "celu", "hardswish"])
def test_gradients_at_nan_do_not_vanish(name: str) -> None:
    x = weft.tensor([NAN], requires_grad=True)
    getattr(F, name)(x).sum().backward()
    assert x.grad is not None and x.grad.item() != 0


def test_gradient_of_threshold_at_nan() -> None:
    x = weft.tensor([NAN, 1.0, -1.0], requires_grad=True)
    F.threshold(x, 0.1, 2.0).sum().backward()
    assert x.grad is not None and x.grad.tolist() == [1, 1, 0]


@pytest.mark.parametrize("name", ["elu", "selu", "celu"])
def test_second_derivatives_at_the_kink_are_zero(name):
    function = getattr(weft.nn.functional, name)
    x = weft.tensor([0.0, -1.0, 2.0], dtype=weft.float64, requires_grad=True)
    (slope,) = weft.autograd.grad(function(x).sum(), x, create_graph=True)
    (second,) = weft.autograd.grad(slope.sum(), x)
    assert second[0] == 0 and second[2] == 0
    assert abs(second[1] - slope[1]) < 1e-15  # an exponential below


@pytest.mark.parametrize(
    "name", ["relu", "relu6", "leaky_relu", "hardtanh", "hardsigmoid", "hardshrink", "softshrink"]
)
def test_second_derivatives_of_piecewise_linear_functions_are_zeros(name: str) -> None:
    x = weft.tensor([-0.75, 0.25, 0.75], requires_grad=True)
    (first,) = weft.autograd.grad(getattr(F, name)(x).sum(), x, create_graph=True)
    (second,) = weft.autograd.grad(first.sum(), x)
    assert second.tolist() == [0, 0, 0]


@pytest.mark.parametrize("backend", [None, "aot_eager", "native"])
@pytest.mark.parametrize("alpha", [0.0, -0.0, -1.0, INF, NAN])
def test_what_alpha_makes_of_zero_stays_below_zero(alpha: float, backend: str | None) -> None:
    """PyTorch computes the branch of each element alone: zeros keep their signs, inf times 0 is no NaN."""

    def call(x: weft.Tensor, alpha: float) -> Any:
        return F.elu(x, alpha)

    x = weft.tensor([0.5, -1.25, 0.0, -0.0, INF, -INF, NAN])
    made = (call if backend is None else weft.compile(call, backend=backend))(x, alpha).tolist()
    expected = [0.5, alpha * math.expm1(-1.25), 0.0, -0.0, INF, -alpha, NAN]
    assert [str(round(value, 5)) for value in made] == [str(round(value, 5)) for value in expected]


@pytest.mark.parametrize("size", [3, 40000])
@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("kind", [weft.float16, weft.bfloat16, weft.float32, weft.float64])
def test_logsigmoid_of_infinity_is_a_positive_zero(kind: weft.dtype, compiled: bool, size: int) -> None:
    function: Any = weft.nn.functional.logsigmoid
    called = weft.compile(lambda x: function(x)) if compiled else function
    found = called(weft.full((size,), math.inf, dtype=kind))
    assert not found.any() and not found.signbit().any()


@pytest.mark.parametrize("backend", [None, "aot_eager", "native"])
def test_threshold_takes_its_numbers_as_elements(backend: str | None) -> None:
    def found(x: weft.Tensor, threshold: float, value: float) -> weft.Tensor:
        return F.threshold(x, threshold, value)

    if backend is not None:
        found = weft.compile(found, backend=backend)
    x = weft.tensor([1, 2], dtype=weft.uint8)
    assert found(x, 1, -3).tolist() == [253, 2]
    assert found(x, -1, 3).tolist() == [3, 3], "-1 is 255"
    with pytest.raises(RuntimeError, match="value cannot be converted to type uint8_t without overflow"):
        found(x, 1, 300)
    assert found(weft.tensor([-1, -2, 5]), -1.5, 7.9).tolist() == [7, 7, 5], "-1.5 is -1"
