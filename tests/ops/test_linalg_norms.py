"""Norms: against NumPy, dtypes and empty tensors, subgradients at zero and at ties, condition numbers."""

from __future__ import annotations

import math
from math import inf
from typing import Any

import numpy as np
import pytest

import weft

RANDOM = np.random.default_rng(0)
linalg = weft.linalg


def tensor(*shape: int) -> Any:
    return weft.from_numpy(RANDOM.normal(size=shape))


def slope(function: Any, values: Any) -> Any:
    x = weft.tensor(values, dtype=weft.float64, requires_grad=True)
    function(x).backward()
    return x.grad.numpy()


@pytest.mark.parametrize("order", [0, 0.5, 1, 2, 3, -1, -2, inf, -inf])
def test_vector_norm_equals_numpys(order: float) -> None:
    x = tensor(2, 3, 4)
    expected = np.linalg.norm(x.numpy(), order, axis=1)
    np.testing.assert_allclose(linalg.vector_norm(x, order, 1).numpy(), expected)
    np.testing.assert_allclose(linalg.vector_norm(x, order, 1, True).numpy(), expected[:, None])
    np.testing.assert_allclose(linalg.vector_norm(x, order).numpy(), np.linalg.norm(x.numpy().ravel(), order))


@pytest.mark.parametrize("order", ["fro", "nuc", 1, -1, 2, -2, inf, -inf])
def test_matrix_norm_equals_numpys(order: Any) -> None:
    x = tensor(4, 3, 2)
    expected = np.linalg.norm(x.numpy(), order, axis=(0, 2))
    np.testing.assert_allclose(linalg.matrix_norm(x, order, dim=(0, 2)).numpy(), expected)
    kept = linalg.matrix_norm(x, order, dim=(2, 0), keepdim=True)
    np.testing.assert_allclose(kept.numpy(), np.linalg.norm(x.numpy(), order, axis=(2, 0), keepdims=True))
    np.testing.assert_allclose(linalg.norm(x, order, dim=(0, 2)).numpy(), expected)


@pytest.mark.parametrize("order", [0.5, 1, 1.5, 2, 3, inf, -inf, -1])
def test_the_gradient_at_zero_is_zero(order: float) -> None:
    np.testing.assert_array_equal(slope(lambda x: linalg.vector_norm(x, order), [0.0, 0.0, 0.0]), np.zeros(3))


def test_ties_share_the_gradient() -> None:
    np.testing.assert_array_equal(
        slope(lambda x: linalg.vector_norm(x, inf), [0.0, 2.0, -2.0]), [0, 0.5, -0.5]
    )
    np.testing.assert_array_equal(slope(lambda x: linalg.vector_norm(x, 1), [0.0, 2.0, -2.0]), [0, 1, -1])


def test_dtypes() -> None:
    assert linalg.vector_norm(weft.ones(3), dtype=weft.float64).dtype is weft.float64
    assert linalg.vector_norm(weft.tensor([3 + 4j])).item() == 5
    assert linalg.vector_norm(weft.tensor([3 + 4j])).dtype is weft.float32
    assert linalg.vector_norm(weft.ones(4096, dtype=weft.bfloat16)).item() == 64
    with pytest.raises(RuntimeError, match="Expected a floating point or complex tensor as input. Got Long"):
        linalg.vector_norm(weft.ones(3, dtype=weft.int64))
    with pytest.raises(RuntimeError, match=r"convertible without narrowing to the specified dtype \(Float\)"):
        linalg.vector_norm(tensor(3), dtype=weft.float32)
    with pytest.raises(TypeError, match="must be Number, not str"):
        linalg.vector_norm(weft.ones(3), "x")


def test_empty_tensors() -> None:
    empty = weft.ones(3, 0)
    assert linalg.vector_norm(empty).item() == 0
    assert linalg.matrix_norm(empty, 1).item() == 0
    assert linalg.matrix_norm(empty, 2).item() == 0
    with pytest.raises(RuntimeError, match="cannot compute the inf norm on an empty tensor"):
        linalg.vector_norm(empty, inf)
    with pytest.raises(RuntimeError, match="cannot compute the -1 norm on the dimension 1"):
        linalg.vector_norm(empty, -1, dim=1)
    with pytest.raises(IndexError, match="non-zero size"):
        linalg.matrix_norm(empty, -2)


def test_errors() -> None:
    with pytest.raises(RuntimeError, match="linalg.matrix_norm: Order 3 not supported"):
        linalg.matrix_norm(tensor(3, 3), 3)
    with pytest.raises(RuntimeError, match=r"dims must be different. Got \(0, 0\)"):
        linalg.matrix_norm(tensor(3, 3), dim=(0, 0))
    with pytest.raises(RuntimeError, match="the input must be 1D or 2D. Got 3D"):
        linalg.norm(tensor(2, 3, 3), 2)
    with pytest.raises(RuntimeError, match=r"it must be of length 1 or 2. Got \[0, 1, 2\]"):
        linalg.norm(tensor(2, 3, 3), dim=(0, 1, 2))


@pytest.mark.parametrize("order", [None, 2, -2, "fro", "nuc", 1, -1, inf, -inf])
def test_cond(order: Any) -> None:
    x = tensor(2, 3, 3)
    np.testing.assert_allclose(linalg.cond(x, order).numpy(), np.linalg.cond(x.numpy(), order))


def test_cond_of_singular_and_empty_matrices() -> None:
    singular = weft.stack([weft.eye(2), weft.zeros(2, 2)])
    np.testing.assert_array_equal(linalg.cond(singular, 1).numpy(), [1, inf])
    np.testing.assert_array_equal(linalg.cond(weft.ones(2, 0, 0)).numpy(), [0, 0])
    with pytest.raises(RuntimeError, match="linalg.cond got an invalid norm type: x"):
        linalg.cond(weft.eye(2), "x")


def test_zeros_of_gradients_have_the_sign_of_what_arrived() -> None:
    for sign in (1.0, -1.0):
        found = slope(
            lambda x, sign=sign: (linalg.vector_norm(x, dim=1) * sign).sum(), [[-0.0, 0.0], [3.0, 4.0]]
        )
        assert np.copysign(1.0, found[0]).tolist() == [sign, sign]
        np.testing.assert_allclose(found[1], [0.6 * sign, 0.8 * sign])


@pytest.mark.parametrize("order", [np.float32(3), np.int64(3), weft.tensor(3.0)])
def test_orders_may_be_numbers_of_numpys(order: Any) -> None:
    x = weft.tensor([3.0, 4.0, 5.0])
    assert weft.linalg.vector_norm(x, order).item() == pytest.approx(6.0)
    assert weft.cdist(x[None], 0 * x[None], order).item() == pytest.approx(6.0)


@pytest.mark.parametrize("order, curvature", [(0.5, math.nan), (1.5, math.nan), (2, math.nan), (3, 0.0)])
@pytest.mark.parametrize("compiled", [False, True])
def test_the_second_derivative_at_zero(order: float, curvature: float, compiled: bool) -> None:
    """There is none; PyTorch says so but for orders above 2."""

    def curved(x: weft.Tensor) -> weft.Tensor:
        (first,) = weft.autograd.grad(linalg.vector_norm(x, order), x, create_graph=True)
        (second,) = weft.autograd.grad(first.sum(), x)
        return second

    found = (weft.compile(curved) if compiled else curved)(weft.zeros(2, requires_grad=True))
    np.testing.assert_array_equal(found.numpy(), [curvature, curvature])


FORWARD_OVER_REVERSE = [  # PyTorch's, at [0, 0] and at [0, 2]
    (lambda x: linalg.vector_norm(x), [0.0, 0.0], [0.5, 0.0]),
    (lambda x: linalg.matrix_norm(x.reshape(1, 2)), [0.0, 0.0], [0.5, 0.0]),
    (lambda x: linalg.norm(x.reshape(1, 2), "fro"), [0.0, 0.0], [0.5, 0.0]),
    (lambda x: linalg.vector_norm(x, -1), [0.0, 0.0], [0.0, 0.0]),
    (lambda x: linalg.vector_norm(x, 0.5), [math.nan, math.nan], [0.0, 0.0]),
    (lambda x: linalg.vector_norm(x, 3), [0.0, 0.0], [0.0, 0.0]),
]


@pytest.mark.parametrize("norm, nowhere, half", FORWARD_OVER_REVERSE)
@pytest.mark.parametrize("backend", ["eager", "aot_eager", "native"])
def test_forward_over_reverse_mode_at_zero(norm: Any, nowhere: Any, half: Any, backend: str) -> None:
    def along(x: Any) -> Any:
        return weft.func.jvp(weft.func.grad(norm), (x,), (weft.ones(2, dtype=weft.float64),))[1]

    run = along if backend == "eager" else weft.compile(along, backend=backend)
    for values, expected in (([0.0, 0.0], nowhere), ([0.0, 2.0], half)):
        found = run(weft.tensor(values, dtype=weft.float64))
        np.testing.assert_allclose(found.numpy(), expected, atol=1e-15)


@pytest.mark.parametrize("order", [-1, 0.5, 1, 1.5, 2, 3, inf])
def test_the_direction_of_the_norm_of_zeros_is_zero(order: float) -> None:
    x, t = weft.zeros(2, dtype=weft.float64), weft.ones(2, dtype=weft.float64)
    assert weft.func.jvp(lambda x: linalg.vector_norm(x, order), (x,), (t,))[1].item() == 0
