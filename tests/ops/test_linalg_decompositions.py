"""Factorisations: factors give back the matrix, error texts, gradients to second order, least squares."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import weft
from weft.autograd import gradcheck, gradgradcheck
from weft.core.errors import LinAlgError

RANDOM = np.random.default_rng(0)
linalg = weft.linalg
SHAPES = [(3, 3), (4, 2), (2, 4), (2, 3, 2), (2, 2, 3)]


def tensor(*shape: int, grad: bool = False) -> Any:
    return weft.from_numpy(RANDOM.normal(size=shape)).requires_grad_(grad)


def positive(x: Any) -> Any:
    return x @ x.mT + weft.eye(x.shape[-2], dtype=x.dtype)


def symmetric(x: Any) -> Any:
    return x + x.mT


def check(function: Any, *inputs: Any) -> None:
    assert gradcheck(function, inputs, atol=1e-6)
    assert gradgradcheck(function, inputs, atol=1e-5)


@pytest.mark.parametrize("shape", [(3, 3), (2, 2, 2)])
def test_cholesky(shape: tuple[int, ...]) -> None:
    x = positive(tensor(*shape))
    lower, upper = linalg.cholesky(x), linalg.cholesky(x, upper=True)
    np.testing.assert_allclose((lower @ lower.mT).numpy(), x.numpy())
    np.testing.assert_allclose(upper.numpy(), lower.mT.numpy())
    check(lambda t: linalg.cholesky(positive(t)), tensor(*shape, grad=True))
    check(lambda t: linalg.cholesky(positive(t), upper=True), tensor(*shape, grad=True))


def test_cholesky_errors() -> None:
    text = (
        "linalg.cholesky: The factorization could not be completed because the input is not "
        "positive-definite (the leading minor of order 2 is not positive-definite)."
    )
    with pytest.raises(LinAlgError) as raised:
        linalg.cholesky(weft.tensor([[1.0, 2.0], [2.0, 1.0]]))
    assert str(raised.value) == text
    with pytest.raises(LinAlgError, match=r"\(Batch element 1\): .* leading minor of order 1"):
        linalg.cholesky(weft.stack([weft.eye(2), weft.zeros(2, 2)]))
    with pytest.raises(LinAlgError, match="leading minor of order 1"):
        linalg.cholesky(weft.full((2, 2), float("nan")))


@pytest.mark.parametrize("shape", [(3, 3), (2, 2, 2)])
def test_eigh(shape: tuple[int, ...]) -> None:
    x = symmetric(tensor(*shape))
    values, vectors = linalg.eigh(x)
    np.testing.assert_allclose((vectors * values.unsqueeze(-2) @ vectors.mT).numpy(), x.numpy(), atol=1e-12)
    np.testing.assert_allclose(linalg.eigvalsh(x).numpy(), values.numpy())
    check(lambda t: linalg.eigvalsh(symmetric(t)), tensor(*shape, grad=True))

    def whole(t: Any) -> Any:
        result = linalg.eigh(symmetric(t))
        return result.eigenvalues, result.eigenvectors.abs()

    check(whole, tensor(*shape, grad=True))


def test_eigh_reads_one_triangle() -> None:
    x = weft.tensor([[1.0, 9.0], [2.0, 3.0]])
    np.testing.assert_allclose(linalg.eigvalsh(x).numpy(), np.linalg.eigvalsh([[1, 2], [2, 3]]), rtol=1e-6)
    np.testing.assert_allclose(
        linalg.eigvalsh(x, "U").numpy(), np.linalg.eigvalsh([[1, 9], [9, 3]]), rtol=1e-6
    )
    with pytest.raises(RuntimeError, match="Expected UPLO argument to be 'L' or 'U', but got x"):
        linalg.eigh(x, UPLO="x")
    with pytest.raises(LinAlgError, match="linalg.eigh: The algorithm failed to converge"):
        linalg.eigh(weft.full((2, 2), float("nan")))


@pytest.mark.parametrize("shape", SHAPES)
def test_qr(shape: tuple[int, ...]) -> None:
    x = tensor(*shape)
    for mode in ("reduced", "complete"):
        result = linalg.qr(x, mode)
        np.testing.assert_allclose((result.Q @ result.R).numpy(), x.numpy(), atol=1e-12)
    empty, r = linalg.qr(x, "r")
    assert tuple(empty.shape) == (0,)
    np.testing.assert_allclose(r.numpy(), linalg.qr(x).R.numpy(), atol=1e-12)
    check(lambda t: tuple(linalg.qr(t)), tensor(*shape, grad=True))
    check(lambda t: linalg.qr(t).R, tensor(*shape, grad=True))
    check(lambda t: linalg.qr(t).Q, tensor(*shape, grad=True))


def test_qr_without_a_derivative_says_so() -> None:
    with pytest.raises(RuntimeError, match="mode='complete' and nrows > ncols"):
        linalg.qr(tensor(3, 2, grad=True), "complete").R.sum().backward()
    with pytest.raises(RuntimeError, match="depends on Q, which is not computed when mode='r'"):
        linalg.qr(tensor(3, 2, grad=True), "r").R.sum().backward()
    with pytest.raises(RuntimeError, match="qr received unrecognized mode 'x'"):
        linalg.qr(tensor(3, 2), "x")


@pytest.mark.parametrize("shape", SHAPES)
def test_svd(shape: tuple[int, ...]) -> None:
    x = tensor(*shape)
    u, s, vh = linalg.svd(x, full_matrices=False)
    np.testing.assert_allclose((u * s.unsqueeze(-2) @ vh).numpy(), x.numpy(), atol=1e-12)
    full = linalg.svd(x)
    assert full.U.shape[-1] == shape[-2]
    assert full.Vh.shape[-1] == shape[-1]
    np.testing.assert_allclose(linalg.svdvals(x).numpy(), s.numpy())
    check(linalg.svdvals, tensor(*shape, grad=True))

    def invariant(t: Any) -> Any:
        result = linalg.svd(t, full_matrices=False)
        return result.U.abs(), result.S, result.Vh.abs(), result.U @ result.Vh

    check(invariant, tensor(*shape, grad=True))


def test_svd_of_values_that_are_not_numbers() -> None:
    with pytest.raises(
        LinAlgError, match="linalg.svd: The algorithm failed to converge because the input matrix contained"
    ):
        linalg.svd(weft.full((2, 2), float("nan")))
    with pytest.raises(RuntimeError, match="`driver=` is only supported on CUDA"):
        linalg.svd(weft.eye(2), driver="gesvd")


@pytest.mark.parametrize("shape", SHAPES)
def test_pinv(shape: tuple[int, ...]) -> None:
    x = tensor(*shape)
    np.testing.assert_allclose(linalg.pinv(x).numpy(), np.linalg.pinv(x.numpy()), atol=1e-10)
    check(linalg.pinv, tensor(*shape, grad=True))


def test_pinv_tolerances() -> None:
    x = weft.diag(weft.tensor([1.0, 1e-3, 0.0]))
    assert linalg.pinv(x)[1, 1].item() == pytest.approx(1000)
    assert linalg.pinv(x, rtol=1e-2)[1, 1].item() == 0
    assert linalg.pinv(x, atol=1e-2)[1, 1].item() == 0
    assert weft.pinverse(x, 1e-2)[1, 1].item() == 0
    np.testing.assert_allclose(linalg.pinv(-x, hermitian=True).numpy(), linalg.pinv(-x).numpy(), rtol=1e-6)
    per_matrix = linalg.pinv(weft.stack([x, x]), rtol=weft.tensor([1e-2, 1e-5]))
    np.testing.assert_allclose(per_matrix[:, 1, 1].numpy(), [0, 1000], rtol=1e-5)


@pytest.mark.parametrize("shape", [(4, 2), (2, 4), (3, 3), (2, 4, 2)])
def test_lstsq(shape: tuple[int, ...]) -> None:
    a, b = tensor(*shape), tensor(*shape[:-1], 3)
    expected = np.linalg.pinv(a.numpy()) @ b.numpy()
    result = linalg.lstsq(a, b, driver="gelsd")
    np.testing.assert_allclose(result.solution.numpy(), expected, atol=1e-10)
    assert (result.rank.numpy() == min(shape[-2:])).all()
    np.testing.assert_allclose(result.singular_values.numpy(), linalg.svdvals(a).numpy())
    if shape[-2] > shape[-1]:
        error = ((a.numpy() @ expected - b.numpy()) ** 2).sum(-2)
        np.testing.assert_allclose(result.residuals.numpy(), error)
        check(
            lambda x, y: linalg.lstsq(x, y, driver="gelsd").residuals,
            tensor(*shape, grad=True),
            tensor(*shape[:-1], 3, grad=True),
        )
    check(
        lambda x, y: linalg.lstsq(x, y).solution, tensor(*shape, grad=True), tensor(*shape[:-1], 3, grad=True)
    )


def test_lstsq_errors_and_drivers() -> None:
    a, b = tensor(3, 2), tensor(3, 1)
    assert tuple(linalg.lstsq(a, b).residuals.shape) == (0,)
    assert tuple(linalg.lstsq(a, b, driver="gels").residuals.shape) == (1,)
    assert tuple(linalg.lstsq(a, b[:, 0]).solution.shape) == (2,)
    with pytest.raises(
        RuntimeError, match=r"parameter `driver` should be one of \(gels, gelsy, gelsd, gelss\)"
    ):
        linalg.lstsq(a, b, driver="x")
    with pytest.raises(RuntimeError, match=r"input.size\(-2\) should match other.size\(-2\)"):
        linalg.lstsq(a, tensor(2, 2))


def test_gels_refuses_dependent_columns_and_rows() -> None:
    text = (
        "lstsq: The least squares solution could not be computed because the input matrix does not have"
    )
    dependent = weft.tensor([[1.0, 0.0], [2.0, 0.0], [3.0, 0.0]], dtype=weft.float64)
    for matrix in (dependent, dependent.mT.contiguous(), dependent.float()):
        right = weft.ones(matrix.shape[0], 1, dtype=matrix.dtype)
        with pytest.raises(linalg.LinAlgError, match=text + r" full rank \(error code: 2\)"):
            linalg.lstsq(matrix, right, driver="gels")
        assert linalg.lstsq(matrix, right).rank.item() == 1
    both = weft.stack([weft.ones(3, 2, dtype=weft.float64).triu(), dependent])
    with pytest.raises(linalg.LinAlgError, match=r"\(Batch element 1\): "):
        linalg.lstsq(both, weft.ones(2, 3, 1, dtype=weft.float64), driver="gels")
    assert linalg.lstsq(weft.zeros(2, 2), weft.ones(2, 1), driver="gels").solution.tolist() == [[0.0], [0.0]]


def test_older_names() -> None:
    x = tensor(3, 2)
    q, r = weft.qr(x)
    np.testing.assert_allclose((q @ r).numpy(), x.numpy(), atol=1e-12)
    u, s, v = weft.svd(x)
    np.testing.assert_allclose((u * s @ v.mT).numpy(), x.numpy(), atol=1e-12)
    assert weft.svd(x, compute_uv=False).V.sum().item() == 0
    np.testing.assert_allclose(positive(x).cholesky().numpy(), np.linalg.cholesky(positive(x).numpy()))


def test_least_squares_without_right_sides_have_no_rank() -> None:
    for shape in ((3, 2), (2, 3), (2, 3, 2)):
        a = tensor(*shape)
        found = linalg.lstsq(a, tensor(*shape[:-1], 0))
        assert found.rank.tolist() == np.zeros(shape[:-2]).tolist()
        assert found.solution.shape == (*shape[:-2], shape[-1], 0)
    assert linalg.lstsq(tensor(3, 2), tensor(3, 1)).rank.item() == 2
