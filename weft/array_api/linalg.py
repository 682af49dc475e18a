"""Linear algebra: the products of the standard itself, and its extension `linalg`."""

from __future__ import annotations

from collections import namedtuple
from typing import Any

from weft.array_api.arrangement import matrix_transpose as matrix_transpose
from weft.array_api.base import axes_of, promoted, w
from weft.array_api.statistics import sum as _sum
from weft.tensor.base import Tensor

EighResult = namedtuple("EighResult", "eigenvalues eigenvectors")
QRResult = namedtuple("QRResult", "Q R")
SlogdetResult = namedtuple("SlogdetResult", "sign logabsdet")
SVDResult = namedtuple("SVDResult", "U S Vh")


def matmul(x1: Tensor, x2: Tensor, /) -> Tensor:
    """The product of matrices."""
    return w.matmul(*promoted(x1, x2))


def tensordot(x1: Tensor, x2: Tensor, /, *, axes: Any = 2) -> Tensor:
    """The sum of products over several dimensions."""
    return w.tensordot(*promoted(x1, x2), dims=axes)


def vecdot(x1: Tensor, x2: Tensor, /, *, axis: int = -1) -> Tensor:
    """The sum of products of vectors, the first conjugated."""
    first, second = promoted(x1, x2)
    if first.shape[axis] != second.shape[axis]:
        raise ValueError(f"vectors of {first.shape[axis]} and {second.shape[axis]} elements")
    return _sum(w.conj(first) * second, axis=axis, dtype=first.dtype)


def outer(x1: Tensor, x2: Tensor, /) -> Tensor:
    """All products of the elements of two vectors."""
    return w.outer(*promoted(x1, x2))


def cross(x1: Tensor, x2: Tensor, /, *, axis: int = -1) -> Tensor:
    """The vector products of vectors of three elements."""
    return w.linalg_cross(*promoted(x1, x2), dim=axis)


def cholesky(x: Tensor, /, *, upper: bool = False) -> Tensor:
    """The Cholesky factor of positive definite matrices."""
    return w.linalg_cholesky(x, upper=upper)


def det(x: Tensor, /) -> Tensor:
    """The determinants of matrices."""
    return w.linalg_det(x)


def diagonal(x: Tensor, /, *, offset: int = 0) -> Tensor:
    """The diagonals of matrices."""
    return w.diagonal(x, offset, -2, -1)


def trace(x: Tensor, /, *, offset: int = 0, dtype: Any = None) -> Tensor:
    """The sums of the diagonals of matrices."""
    return _sum(diagonal(x, offset=offset), axis=-1, dtype=dtype)


def eigh(x: Tensor, /) -> EighResult:
    """Eigenvalues and eigenvectors of symmetric (or Hermitian) matrices."""
    return EighResult(*w.linalg_eigh(x))


def eigvalsh(x: Tensor, /) -> Tensor:
    """Eigenvalues of symmetric (or Hermitian) matrices."""
    return w.linalg_eigvalsh(x)


def inv(x: Tensor, /) -> Tensor:
    """The inverses of matrices."""
    return w.linalg_inv(x)


def matrix_norm(x: Tensor, /, *, keepdims: bool = False, ord: Any = "fro") -> Tensor:
    """The norms of matrices."""
    return w.linalg_matrix_norm(x, ord, (-2, -1), keepdims)


def matrix_power(x: Tensor, n: int, /) -> Tensor:
    """Powers of square matrices."""
    return w.linalg_matrix_power(x, n)


def matrix_rank(x: Tensor, /, *, rtol: Any = None) -> Tensor:
    """The ranks of matrices: how many singular values are above `rtol` times the largest."""
    values = svdvals(x)
    if rtol is None:
        rtol = max(x.shape[-2:]) * w.finfo(x.dtype).eps
    elif isinstance(rtol, Tensor):
        rtol = rtol.unsqueeze(-1)
    large: Tensor = values > values.amax(-1, True) * rtol
    return large.sum(-1)


def pinv(x: Tensor, /, *, rtol: Any = None) -> Tensor:
    """The pseudo-inverses of matrices."""
    if rtol is None:
        rtol = max(x.shape[-2:]) * w.finfo(x.dtype).eps
    return w.linalg_pinv(x, rtol=rtol)


def qr(x: Tensor, /, *, mode: str = "reduced") -> QRResult:
    """Matrices as products of an orthogonal and a triangular one."""
    return QRResult(*w.linalg_qr(x, mode))


def slogdet(x: Tensor, /) -> SlogdetResult:
    """The sign and the logarithm of the determinants of matrices."""
    return SlogdetResult(*w.linalg_slogdet(x))


def solve(x1: Tensor, x2: Tensor, /) -> Tensor:
    """The solutions of systems of linear equations."""
    first, second = promoted(x1, x2)
    if second.ndim == 1:
        return w.linalg_solve(first, second.unsqueeze(-1)).squeeze(-1)
    return w.linalg_solve(first, second)


def svd(x: Tensor, /, *, full_matrices: bool = True) -> SVDResult:
    """The singular value decomposition of matrices."""
    return SVDResult(*w.linalg_svd(x, full_matrices))


def svdvals(x: Tensor, /) -> Tensor:
    """The singular values of matrices."""
    return w.linalg_svdvals(x)


def vector_norm(x: Tensor, /, *, axis: Any = None, keepdims: bool = False, ord: Any = 2) -> Tensor:
    """The norms of vectors."""
    axes = axes_of(axis, x)
    if not axes:
        return w.abs(x)
    return w.linalg_vector_norm(x, ord, axes, keepdims)
