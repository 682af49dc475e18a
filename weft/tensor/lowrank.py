"""Factors of low rank: `svd_lowrank` and `pca_lowrank`.

Takes and gives what PyTorch's functions of these names do. One idea: random columns, sent through a matrix
and back a few times, span most of what it reaches, so factors of a small matrix give those of a large one.
"""

from __future__ import annotations

from typing import Any

from weft.tensor.base import Tensor, public
from weft.tensor.faces import FUNCTIONS


def _basis(matrix: Tensor, q: int, niter: int) -> Any:
    """Columns that span most of what a matrix reaches."""
    qr = FUNCTIONS["linalg.qr"]
    start = FUNCTIONS["randn_like"](matrix.new_empty((matrix.shape[-1], q)))
    found = qr(matrix @ start)[0]
    for _ in range(niter):
        found = qr(matrix @ qr(matrix.mH @ found)[0])[0]
    return found


def _check_rank(q: int, matrix: Tensor) -> None:
    most = min(matrix.shape[-2:])
    if not 0 <= q <= most:
        raise ValueError(f"q(={q}) must be non-negative integer and not greater than min(m, n)={most}")


@public
def svd_lowrank(
    A: Tensor, q: int | None = 6, niter: int | None = 2, M: Tensor | None = None
) -> tuple[Any, Any, Any]:
    """The largest singular values and their vectors, by random projections; of A - M, where M is given."""
    matrix: Any = A if M is None else A - M
    q = 6 if q is None else q
    _check_rank(q, matrix)
    basis = _basis(matrix, q, 2 if niter is None else niter)
    left, values, right = FUNCTIONS["linalg.svd"](basis.mH @ matrix, full_matrices=False)
    return basis @ left, values, right.mH


@public
def pca_lowrank(A: Tensor, q: int | None = None, center: bool = True, niter: int = 2) -> tuple[Any, Any, Any]:
    """Principal components: `svd_lowrank` of the rows less their mean."""
    q = min(6, *A.shape[-2:]) if q is None else q
    _check_rank(q, A)
    if niter < 0:
        raise ValueError(f"niter(={niter}) must be non-negative integer")
    return svd_lowrank(A - A.mean(-2, True) if center else A, q, niter)
