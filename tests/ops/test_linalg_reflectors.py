"""Eigenvalues, reflectors and solutions by factors."""

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
def test_eigenvectors(kind: weft.dtype) -> None:
    x = matrices(kind, 2, 3, 3)
    values, vectors = weft.linalg.eig(x)
    np.testing.assert_allclose((x + 0j) @ vectors, vectors * values.unsqueeze(-2), atol=1e-12)
    np.testing.assert_allclose(np.sort(weft.linalg.eigvals(x)), np.sort(values), atol=1e-12)
    x = x[0].clone().requires_grad_()

    def invariant(t: weft.Tensor) -> weft.Tensor:
        """The sine of a matrix, which no phase of a vector changes."""
        values, vectors = weft.linalg.eig(t)
        return (vectors * values.sin()) @ vectors.inverse()

    assert gradcheck(invariant, (x,)) and gradgradcheck(invariant, (x,))
    assert gradcheck(lambda t: weft.linalg.eigvals(t).abs(), (x,))


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_reflectors(kind: weft.dtype) -> None:
    x, other = matrices(kind, 2, 4, 3), matrices(kind, 2, 4, 3)
    packed, tau = weft.geqrf(x)
    q = weft.linalg.householder_product(packed, tau)
    np.testing.assert_allclose((q @ packed[:, :3].triu()).numpy(), x.numpy(), atol=1e-12)
    assert weft.equal(q, weft.orgqr(packed, tau))
    product = weft.ormqr(packed, tau, other)
    np.testing.assert_allclose((q.mH @ product).numpy(), other[:, :3].numpy(), atol=1e-10)
    back = weft.ormqr(packed, tau, product, transpose=True)
    np.testing.assert_allclose(back.numpy(), other.numpy(), atol=1e-12)
    inputs = (packed[0].clone().requires_grad_(), tau[0].clone().requires_grad_())
    assert gradcheck(weft.linalg.householder_product, inputs)


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_solutions_by_factors(kind: weft.dtype) -> None:
    x, b = matrices(kind, 3, 3), matrices(kind, 3, 2)
    positive = x @ x.mH + weft.eye(3, dtype=kind)
    for upper in (False, True):
        factor = weft.linalg.cholesky(positive, upper=upper)
        np.testing.assert_allclose(positive @ weft.cholesky_solve(b, factor, upper), b, atol=1e-10)
        np.testing.assert_allclose(weft.cholesky_inverse(factor, upper), positive.inverse(), atol=1e-10)
    solution, copy = weft.triangular_solve(b, x, transpose=True)
    np.testing.assert_allclose(x.triu().mT @ solution, b, atol=1e-10)
    assert weft.equal(copy, x) and copy is not x


def test_ranks_determinants_and_tensors() -> None:
    low = matrices(weft.float64, 4, 2) @ matrices(weft.float64, 2, 5)
    assert weft.linalg.matrix_rank(low).item() == 2
    assert weft.linalg.matrix_rank(low, atol=1e9).item() == 0
    assert weft.logdet(weft.eye(2) * 3).item() == pytest.approx(2 * np.log(3))
    assert np.isnan(weft.logdet(weft.tensor([[0.0, 1.0], [1.0, 0.0]])).item())
    a, b = RANDOM.standard_normal((2, 3, 6)), RANDOM.standard_normal((2, 3))
    np.testing.assert_allclose(
        weft.linalg.tensorsolve(weft.from_numpy(a), weft.from_numpy(b)), np.linalg.tensorsolve(a, b)
    )
    np.testing.assert_allclose(weft.linalg.tensorinv(weft.from_numpy(a)), np.linalg.tensorinv(a))
    x = weft.tensor([1 + 1j, 2j])
    assert weft.vdot(x, x).item() == 6
    assert weft.linalg.vander(weft.tensor([2, 3])).tolist() == [[1, 2], [1, 3]]


def test_errors() -> None:
    with pytest.raises(RuntimeError, match="input tensor should not contain infs or NaNs"):
        weft.linalg.eig(weft.full((2, 2), float("nan")))
    with pytest.raises(RuntimeError, match=r"input.shape\[-2\] must be greater than or equal to input.shape"):
        weft.linalg.householder_product(weft.ones(2, 3), weft.ones(2))
    with pytest.raises(RuntimeError, match="each A matrix is 3 by 3 but each b matrix is 2 by 2"):
        weft.cholesky_solve(weft.ones(2, 2), weft.eye(3))
    with pytest.raises(RuntimeError, match=r"but got 2 != 8"):
        weft.linalg.tensorinv(weft.ones(4, 2, 2))


def test_powers_of_one_number_and_products_of_no_reflectors() -> None:
    assert weft.linalg.vander(weft.tensor(2.0), N=3).tolist() == [[1, 2, 4]]
    assert weft.linalg.householder_product(weft.rand(0, 0, requires_grad=True), weft.rand(0)).requires_grad


@pytest.mark.parametrize("kind", KINDS, ids=str)
@pytest.mark.parametrize("upper", [False, True])
def test_gradients_of_factors_reach_both_triangles(kind: weft.dtype, upper: bool) -> None:
    """Those of A = L L' multiplied out, as PyTorch has them, although only one triangle is read."""
    full = matrices(kind, 2, 3, 3)
    weft.diagonal(full, 0, -2, -1).copy_(weft.tensor([1.5, 2.0, 3.0]))
    factor = (full.triu() if upper else full.tril()).requires_grad_()
    b = matrices(kind, 4, 1, 3, 2).requires_grad_()

    def through_inverse(x: weft.Tensor) -> weft.Tensor:
        return (x.mH @ x if upper else x @ x.mH).inverse()

    for found, expected, inputs in (
        (weft.cholesky_solve(b, factor, upper), through_inverse(factor) @ b, (b, factor)),
        (weft.cholesky_inverse(factor, upper), through_inverse(factor), (factor,)),
    ):
        np.testing.assert_allclose(found.detach(), expected.detach(), atol=1e-10)
        seed = matrices(kind, *found.shape)
        ours, theirs = (weft.autograd.grad(out, inputs, seed, create_graph=True) for out in (found, expected))
        for mine, other in zip(ours, theirs, strict=True):
            np.testing.assert_allclose(mine.detach(), other.detach(), atol=1e-9)
        second = (
            weft.autograd.grad(sum(g.abs().square().sum() for g in gs), factor)[0] for gs in (ours, theirs)
        )
        mine, other = (g.triu() if upper else g.tril() for g in second)
        np.testing.assert_allclose(mine, other, rtol=1e-7, atol=1e-7)


def test_gradient_of_a_factor_of_two_rows() -> None:
    def total(x: weft.Tensor) -> weft.Tensor:
        return weft.cholesky_solve(weft.ones(2, 1, dtype=x.dtype), x).sum()

    for function in (total, weft.compile(total)):
        factor = weft.tensor([[3.0, 0.0], [1.0, 2.0]], dtype=weft.float64, requires_grad=True)
        function(factor).backward()
        # A = L L', x = A^-1 1 = [2, 6] / 36, and the gradient is -2 x x' L
        x = np.asarray([[2.0], [6.0]]) / 36
        np.testing.assert_allclose(factor.grad, -2 * x @ x.T @ factor.detach().numpy(), atol=1e-12)


def test_the_inverse_by_a_singular_factor_is_refused() -> None:
    singular = weft.tensor([[1.0, 0.0], [0.0, 0.0]])
    for function in (weft.cholesky_inverse, weft.compile(lambda x: weft.cholesky_inverse(x))):
        with pytest.raises(weft.linalg.LinAlgError, match="cholesky_inverse: The diagonal element 2 is zero"):
            function(singular)
    with pytest.raises(RuntimeError, match="b of type Float and A of type Double"):
        weft.cholesky_solve(weft.ones(2, 1), weft.eye(2, dtype=weft.float64))
