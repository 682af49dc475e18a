"""Linear systems and matrix functions: against NumPy and SciPy, errors, gradients at singular ones too."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.linalg

import weft
from weft.autograd import gradcheck, gradgradcheck
from weft.core.errors import LinAlgError

RANDOM = np.random.default_rng(0)
linalg = weft.linalg


def tensor(*shape: int, grad: bool = False) -> Any:
    values = RANDOM.uniform(-1, 1, shape)
    if len(shape) > 1 and shape[-1] == shape[-2]:
        values += 2 * np.eye(shape[-1])
    return weft.from_numpy(values).requires_grad_(grad)


def matrix(values: Any, grad: bool = False) -> Any:
    return weft.tensor(values, dtype=weft.float64, requires_grad=grad)


SINGULAR = [[1.0, 2.0], [2.0, 4.0]]


def test_inv_and_its_error() -> None:
    x = tensor(4, 3, 3)
    np.testing.assert_allclose(linalg.inv(x).numpy(), np.linalg.inv(x.numpy()))
    text = (
        "linalg.inv: The diagonal element 2 is zero, the inversion could not be completed because the input "
        "matrix is singular."
    )
    with pytest.raises(LinAlgError) as raised:
        linalg.inv(matrix(SINGULAR))
    assert str(raised.value) == text
    with pytest.raises(LinAlgError, match=r"linalg.inv: \(Batch element 1\): The diagonal element 1 is zero"):
        linalg.inv(weft.stack([weft.eye(3), weft.zeros(3, 3)]))
    with pytest.raises(
        RuntimeError, match="A must be batches of square matrices, but they are 2 by 3 matrices"
    ):
        linalg.inv(weft.ones(2, 3))
    with pytest.raises(RuntimeError, match="Expected a floating point or complex tensor as input. Got Long"):
        linalg.inv(weft.ones(2, 2, dtype=weft.int64))
    with pytest.raises(RuntimeError, match="The input tensor A must have at least 2 dimensions"):
        linalg.inv(weft.ones(2))


@pytest.mark.parametrize("shape", [(1, 1), (2, 2), (4, 4), (2, 3, 3), (0, 0), (2, 0, 0)])
def test_determinants(shape: tuple[int, ...]) -> None:
    x = tensor(*shape)
    np.testing.assert_allclose(linalg.det(x).numpy(), np.linalg.det(x.numpy()))
    sign, logarithm = linalg.slogdet(x)
    expected = np.linalg.slogdet(x.numpy())
    np.testing.assert_allclose(sign.numpy(), expected[0])
    np.testing.assert_allclose(logarithm.numpy(), expected[1])


@pytest.mark.parametrize("rank", [0, 1, 2, 3])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_det_has_two_derivatives_at_matrices_of_any_rank(rank: int, seed: int) -> None:
    random = np.random.default_rng(seed)
    values = random.normal(size=(3, rank)) @ random.normal(size=(rank, 3))
    x = weft.from_numpy(values).requires_grad_()
    assert gradcheck(linalg.det, (x,), atol=1e-7)
    assert gradgradcheck(linalg.det, (x,), atol=1e-7)


def test_det_has_a_third_derivative() -> None:
    def hessian_product(x: Any) -> Any:
        (first,) = weft.autograd.grad(linalg.det(x), x, create_graph=True)
        (second,) = weft.autograd.grad((first * first).sum(), x, create_graph=True)
        return second

    assert gradcheck(hessian_product, (tensor(3, 3, grad=True),), atol=1e-6)


def test_slogdet_of_singular_matrices() -> None:
    sign, logarithm = linalg.slogdet(matrix(SINGULAR))
    assert sign.item() == 0
    assert logarithm.item() == -np.inf
    result = weft.slogdet(weft.eye(2))
    assert result.logabsdet.item() == 0
    assert type(result).__name__ == "slogdet"


def test_solve_tells_vectors_from_matrices() -> None:
    a = tensor(3, 3)
    for shape in ((3,), (3, 2)):
        b = tensor(*shape)
        np.testing.assert_allclose(linalg.solve(a, b).numpy(), np.linalg.solve(a.numpy(), b.numpy()))
    batch, vectors = tensor(2, 3, 3), tensor(2, 3)
    expected = np.linalg.solve(batch.numpy(), vectors.numpy()[..., None])[..., 0]
    np.testing.assert_allclose(linalg.solve(batch, vectors).numpy(), expected)
    right = tensor(2, 3)
    np.testing.assert_allclose((linalg.solve(a, right, left=False) @ a).numpy(), right.numpy())


def test_solve_gradient_where_a_batch_looks_like_a_matrix() -> None:
    inputs = tensor(2, 2, 2, grad=True), tensor(2, 2, grad=True)
    assert gradcheck(linalg.solve, inputs)
    assert gradgradcheck(linalg.solve, inputs)
    inputs = tensor(2, 2, 2, grad=True), tensor(1, 2, 2, grad=True)
    assert gradcheck(linalg.solve, inputs)


def test_solve_errors() -> None:
    with pytest.raises(
        LinAlgError, match="linalg.solve: The solver failed because the input matrix is singular"
    ):
        linalg.solve(matrix(SINGULAR), weft.ones(2, dtype=weft.float64))
    with pytest.raises(RuntimeError, match=r"equation AX = B \(3x3 and 2x4\)"):
        linalg.solve(tensor(3, 3), tensor(2, 4))
    with pytest.raises(RuntimeError, match="found A of type Double and B of type Float instead"):
        linalg.solve(tensor(3, 3), weft.ones(3))


@pytest.mark.parametrize("upper", [True, False])
@pytest.mark.parametrize("unit", [True, False])
@pytest.mark.parametrize("batch", [(), (2,), (50,)])
def test_solve_triangular(upper: bool, unit: bool, batch: tuple[int, ...]) -> None:
    a, b = tensor(*batch, 3, 3), tensor(*batch, 3, 2)
    part = np.triu(a.numpy()) if upper else np.tril(a.numpy())
    if unit:
        index = np.arange(3)
        part[..., index, index] = 1
    out = linalg.solve_triangular(a, b, upper=upper, unitriangular=unit)
    np.testing.assert_allclose(part @ out.numpy(), b.numpy(), atol=1e-10)
    other = linalg.solve_triangular(a, b.mT, upper=upper, left=False, unitriangular=unit)
    np.testing.assert_allclose(other.numpy() @ part, b.mT.numpy(), atol=1e-10)


def test_triangular_systems_divide_by_zero_without_an_error() -> None:
    assert np.isinf(linalg.solve_triangular(weft.zeros(2, 2), weft.ones(2, 1), upper=True).numpy()).any()


@pytest.mark.parametrize("n", [-3, -1, 0, 1, 2, 5, 8])
def test_matrix_power(n: int) -> None:
    x = tensor(2, 3, 3)
    np.testing.assert_allclose(
        linalg.matrix_power(x, n).numpy(), np.linalg.matrix_power(x.numpy(), n), rtol=1e-9
    )
    np.testing.assert_allclose(x.matrix_power(n).numpy(), np.linalg.matrix_power(x.numpy(), n), rtol=1e-9)


@pytest.mark.parametrize("scale", [1e-9, 1.0, 30.0])
def test_matrix_exp_equals_scipys(scale: float) -> None:
    x = weft.from_numpy(RANDOM.normal(size=(3, 4, 4)) * scale)
    np.testing.assert_allclose(linalg.matrix_exp(x).numpy(), scipy.linalg.expm(x.numpy()), rtol=1e-9)
    mixed = weft.from_numpy(np.stack([np.zeros((2, 2)), np.array([[0.0, 50.0], [-50.0, 0.0]])]))
    np.testing.assert_allclose(weft.matrix_exp(mixed).numpy()[0], np.eye(2))
    np.testing.assert_allclose(weft.matrix_exp(mixed).numpy()[1, 0], [np.cos(50), np.sin(50)], atol=1e-10)


def test_multi_dot_in_the_cheapest_order() -> None:
    chain = [tensor(2, 30), tensor(30, 1), tensor(1, 40), tensor(40, 3)]
    expected = np.linalg.multi_dot([x.numpy() for x in chain])
    np.testing.assert_allclose(linalg.multi_dot(chain).numpy(), expected)
    assert tuple(linalg.multi_dot([tensor(3), tensor(3, 2), tensor(2)]).shape) == ()
    with pytest.raises(
        RuntimeError, match=r"tensors 0 and 1 with shapes \[2, 3\] and \[4, 5\] cannot be multiplied"
    ):
        linalg.multi_dot([tensor(2, 3), tensor(4, 5)])
    with pytest.raises(RuntimeError, match="expected at least 2 tensors but got 1"):
        linalg.multi_dot([tensor(2, 3)])


def test_vecdot_and_diagonal() -> None:
    x, y = tensor(2, 3), tensor(3)
    np.testing.assert_allclose(linalg.vecdot(x, y).numpy(), x.numpy() @ y.numpy())
    z = weft.tensor([1j, 2.0])
    assert linalg.vecdot(z, z).item() == 5
    square = tensor(2, 3, 3)
    linalg.diagonal(square).zero_()
    assert not np.diagonal(square.numpy(), 0, -2, -1).any()
