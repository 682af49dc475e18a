"""LU and LDL factors, and factorisations that report failure."""

from __future__ import annotations

import numpy as np
import pytest

import weft
from weft.autograd import gradcheck, gradgradcheck

RANDOM = np.random.default_rng(0)
KINDS = [weft.float64, weft.complex128]


def matrices(kind: weft.dtype, *shape: int) -> weft.Tensor:
    x = RANDOM.standard_normal(shape)
    return weft.from_numpy(x + 1j * RANDOM.standard_normal(shape) if kind.is_complex else x)


@pytest.mark.parametrize("kind", KINDS, ids=str)
@pytest.mark.parametrize("shape", [(3, 3), (2, 4, 3), (2, 3, 4)])
def test_factors_multiply_back(shape: tuple[int, ...], kind: weft.dtype) -> None:
    x = matrices(kind, *shape)
    p, lower, upper = weft.linalg.lu(x)
    np.testing.assert_allclose((p @ lower @ upper).numpy(), x.numpy(), atol=1e-12)
    unpacked = weft.lu_unpack(*weft.linalg.lu_factor(x))
    for mine, other in zip((p, lower, upper), unpacked, strict=True):
        assert weft.equal(mine, other)


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_gradients(kind: weft.dtype) -> None:
    for shape in ((3, 3), (3, 2), (2, 3)):
        x = matrices(kind, *shape).requires_grad_()
        assert gradcheck(lambda t: weft.linalg.lu(t)[1:], (x,))
    x = matrices(kind, 2, 2).requires_grad_()
    assert gradgradcheck(lambda t: weft.linalg.lu(t)[1:], (x,))
    assert gradcheck(lambda t: weft.linalg.inv_ex(t).inverse, (x,))
    assert gradcheck(lambda t: weft.linalg.cholesky_ex(t @ t.mH + 2 * weft.eye(2)).L, (x,))


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_solutions(kind: weft.dtype) -> None:
    a, b = matrices(kind, 2, 3, 3), matrices(kind, 2, 3, 2)
    factors = weft.linalg.lu_factor(a)
    np.testing.assert_allclose((a @ weft.linalg.lu_solve(*factors, b)).numpy(), b.numpy(), atol=1e-10)
    right = weft.linalg.lu_solve(*factors, b.mT.contiguous(), left=False)
    np.testing.assert_allclose((right @ a).numpy(), b.mT.numpy(), atol=1e-10)
    turned = weft.linalg.lu_solve(*factors, b, adjoint=True)
    np.testing.assert_allclose((a.mH @ turned).numpy(), b.numpy(), atol=1e-10)
    symmetric = a + a.mT
    solution = weft.linalg.ldl_solve(*weft.linalg.ldl_factor(symmetric), b)
    np.testing.assert_allclose((symmetric @ solution).numpy(), b.numpy(), atol=1e-10)


def test_failure_is_reported() -> None:
    x = weft.stack([weft.eye(2), weft.tensor([[1.0, 1.0], [1.0, 1.0]]), -weft.eye(2)])
    assert weft.linalg.inv_ex(x).info.tolist() == [0, 2, 0]
    assert weft.linalg.cholesky_ex(x).info.tolist() == [0, 2, 1]
    assert weft.linalg.lu_factor_ex(x).info.tolist() == [0, 2, 0]
    assert weft.linalg.solve_ex(x, weft.ones(3, 2, 1)).info.tolist() == [0, 2, 0]
    with pytest.raises(weft.linalg.LinAlgError, match=r"linalg.inv_ex: \(Batch element 1\): The diagonal"):
        weft.linalg.inv_ex(x, check_errors=True)
    with pytest.raises(RuntimeError, match=r"U\[2,2\] is zero and using it on lu_solve"):
        weft.linalg.lu_factor(x[1])
    with pytest.raises(RuntimeError, match="LU without pivoting is not implemented on the CPU"):
        weft.linalg.lu(x, pivot=False)


def test_solve_ex_takes_vectors() -> None:
    matrix = weft.tensor([[2.0, 0.0], [0.0, 4.0]])
    assert weft.linalg.solve_ex(matrix, weft.ones(2)).result.tolist() == [0.5, 0.25]
    assert weft.linalg.solve_ex(matrix.expand(3, 2, 2), weft.ones(3, 2)).result.shape == (3, 2)
