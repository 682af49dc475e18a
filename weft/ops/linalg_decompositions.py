"""Factorisations: Cholesky, symmetric eigenvalues, QR, singular values, pseudo-inverse, least squares.

Takes (batches of) matrices, gives factors under PyTorch's field names. One idea: a gradient is written with
the factors themselves (they are saved as outputs), so it is again differentiable, and a factor nobody used
costs nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from weft.core import dtypes
from weft.core.arrays import Array, namespace
from weft.core.naming import named
from weft.core.types import TensorType
from weft.ops.batching import logical_result, logical_type
from weft.ops.contract import adjoint, multiply, reduced
from weft.ops.families import composite, contract
from weft.ops.linalg import (  # fmt: skip
    NOT_FULL_RANK,
    NOT_POSITIVE,
    batch_leading,
    call,
    check_floating,
    check_lapack,
    check_matrix,
    check_square,
    check_system,
    fail,
    failures,
    identity_like,
    is_vector,
    level,
    matrices,
    refused,
    regular,
    solve_triangular,
)
from weft.ops.record import Op, broadcast_shapes, joint, ops, type_of
from weft.ops.return_types import result
from weft.ops.samples import Maker, Sample
from weft.ops.values import MaybeTensor, TensorLike

EIGH = result("linalg_eigh", "eigenvalues", "eigenvectors")
QR = result("linalg_qr", "Q", "R")
SVD = result("linalg_svd", "U", "S", "Vh")
LSTSQ = result("linalg_lstsq", "solution", "residuals", "rank", "singular_values")
OLD_QR = result("qr", "Q", "R")
OLD_SVD = result("svd", "U", "S", "V")


def _column(x: TensorLike) -> Any:
    """A vector as weights of rows."""
    return ops.unsqueeze(x, -1)


def _row(x: TensorLike) -> Any:
    """A vector as weights of columns."""
    return ops.unsqueeze(x, -2)


# -- Cholesky ------------------------------------------------------------------------------------------------
def _cholesky_type(x: TensorType, _upper: bool) -> TensorType:
    check_system(x, "cholesky", "cholesky_cpu")
    return x


def _cholesky(x: Array, upper: bool) -> Array:
    xp = namespace(x)
    try:
        out = xp.linalg.cholesky(x, upper=upper)
    except np.linalg.LinAlgError:
        raise fail("linalg.cholesky", x, failures(x, "potrf", lower=not upper), NOT_POSITIVE) from None
    bad = xp.isnan(xp.diagonal(out, 0, -2, -1).real)
    if bad.any():
        position, order = xp.argwhere(bad.reshape(-1, bad.shape[-1]))[0]
        raise fail("linalg.cholesky", x, [(int(position), int(order) + 1)], NOT_POSITIVE)
    return out


def hermitian(lower: Any) -> Any:
    """The Hermitian matrix with this lower triangle; its diagonal is real."""
    below = ops.tril(lower, -1)
    if not type_of(lower).dtype.is_complex:
        return ops.add(lower, adjoint(below))
    diagonal = ops.real(ops.diagonal(lower, 0, -2, -1))
    middle = ops._to_copy(ops.diag_embed(diagonal), type_of(lower).dtype)
    return ops.add(middle, ops.add(below, adjoint(below)))


def _cholesky_gradient(g: TensorLike, out: TensorLike, _x: object, upper: bool) -> Any:
    factor, g = (adjoint(out), adjoint(g)) if upper else (out, g)
    inner = ops.tril(multiply(adjoint(factor), g))
    inner = ops.add(inner, adjoint(ops.tril(inner, -1)))  # PyTorch leaves the diagonal its imaginary part
    middle = solve_triangular(adjoint(factor), inner, upper=True)
    return ops.mul(solve_triangular(factor, middle, upper=False, left=False), 0.5)


def _positive_samples(make: Maker) -> Iterator[Sample]:
    """Finite differences of single elements leave the symmetric matrices: gradients are tested through a
    symmetric input.
    """
    for shape in ((3, 3), (2, 2, 2), (1, 1), (0, 0)):
        matrix = regular(make, *shape)
        yield Sample(np.matmul(matrix, np.swapaxes(matrix, -1, -2)), grad=False)


cholesky = contract(
    "cholesky", _cholesky, _cholesky_type, "A: Tensor, *, upper: bool = False", namespace="linalg",
    node="LinalgCholeskyExBackward0", amp="float32", out="exact", vjp=_cholesky_gradient, conjugates=True,
    samples=_positive_samples, batch=batch_leading,
)  # fmt: skip


# -- symmetric eigenvalues -----------------------------------------------------------------------------------
def _check_eigh(x: TensorType, uplo: str) -> None:
    check_square(x, "eigh")
    if not isinstance(uplo, str) or uplo.upper() not in ("L", "U"):
        raise RuntimeError(f"Expected UPLO argument to be 'L' or 'U', but got {uplo}")
    check_lapack(x, "linalg_eigh_cpu")


def _eigvalsh_type(x: TensorType, uplo: str) -> TensorType:
    _check_eigh(x, uplo)
    return TensorType(x.shape[:-1], x.dtype.to_real(), x.device)


def _eigh_type(x: TensorType, uplo: str) -> tuple[TensorType, TensorType]:
    return _eigvalsh_type(x, uplo), x


def _eigen(function: str, x: Array, uplo: str) -> Any:
    xp = namespace(x)
    text = (
        "The algorithm failed to converge because the input matrix is ill-conditioned or has too many "
        "repeated eigenvalues (error code: {info})."
    )
    try:
        out = getattr(xp.linalg, function)(x, uplo.upper())
    except np.linalg.LinAlgError:
        bad = _unusable(x)
        raise fail("linalg.eigh", x, [(bad[0] if bad else 0, x.shape[-1] - 1)], text) from None
    values = out[0] if function == "eigh" else out
    if x.shape[-1] > 1 and bool(xp.isnan(values).any()):
        raise fail("linalg.eigh", x, [((_unusable(x) or [0])[0], x.shape[-1] - 1)], text)
    return out


def _unusable(x: Array) -> list[int]:
    """Positions of the matrices of a batch that are not finite."""
    xp = namespace(x)
    flat = x.reshape(-1, *x.shape[-2:])
    return [int(i) for i in xp.flatnonzero(~xp.isfinite(flat).all((-2, -1)))]


def _eigh_gradient(g: tuple[Any, Any], out: tuple[Any, Any]) -> Any:
    values, vectors = out
    along_values, along_vectors = g
    if along_vectors is None:
        return None if along_values is None else _spectral(vectors, along_values, adjoint(vectors))
    inner = multiply(adjoint(vectors), along_vectors)
    gaps = ops.sub(_row(values), _column(values))
    inner = ops.div(ops.mul(ops.sub(inner, adjoint(inner)), 0.5), ops.add(gaps, identity_like(gaps)))
    if along_values is not None:
        inner = ops.add(inner, ops.diag_embed(along_values))
    return multiply(vectors, multiply(inner, adjoint(vectors)))


def _spectral(left: TensorLike, values: TensorLike, right: TensorLike) -> Any:
    """left diag(values) right."""
    return multiply(ops.mul(left, _row(values)), right)


eigh = contract(
    "eigh", lambda x, uplo: tuple(_eigen("eigh", x, uplo)), _eigh_type, "A: Tensor, UPLO: str = 'L'",
    namespace="linalg", node="LinalgEighBackward0", amp="float32", returns=EIGH, out="exact",
    vjp=_eigh_gradient, conjugates=True, samples=_positive_samples, batch=batch_leading,
)  # fmt: skip


def _eigvalsh_gradient(g: TensorLike, _out: object, x: TensorLike, uplo: str) -> Any:
    vectors = eigh(x, uplo)[1]
    return _spectral(vectors, g, adjoint(vectors))


eigvalsh = contract(
    "eigvalsh", lambda x, uplo: _eigen("eigvalsh", x, uplo), _eigvalsh_type, "A: Tensor, UPLO: str = 'L'",
    namespace="linalg", node="LinalgEighBackward0", amp="float32", out="exact", vjp=_eigvalsh_gradient,
    conjugates=True, samples=_positive_samples, batch=batch_leading,
)  # fmt: skip


# -- QR ------------------------------------------------------------------------------------------------------
def _qr_type(x: TensorType, mode: str) -> tuple[TensorType, TensorType]:
    if mode not in ("reduced", "complete", "r"):
        raise RuntimeError(
            f"qr received unrecognized mode '{mode}' but expected one of 'reduced' (default), 'r', or "
            "'complete'"
        )
    check_matrix(x, "qr")
    check_floating(x, "qr", "geqrf_cpu")
    lead, (rows, columns) = x.shape[:-2], x.shape[-2:]
    inner = rows if mode == "complete" else min(rows, columns)
    first = (0,) if mode == "r" else (*lead, rows, inner)
    return TensorType(first, x.dtype, x.device), TensorType((*lead, inner, columns), x.dtype, x.device)


def _qr(x: Array, mode: str) -> tuple[Array, Array]:
    xp = namespace(x)
    if mode == "r":
        return xp.empty((0,), x.dtype), xp.linalg.qr(x, "r")
    q, r = xp.linalg.qr(x, mode)
    return q, r


def _qr_gradient(g: tuple[Any, Any], out: tuple[Any, Any], _x: TensorType, mode: str) -> Any:
    if mode == "r":
        raise RuntimeError(
            "The derivative of linalg.qr depends on Q, which is not computed when mode='r'. Please use "
            "linalg.qr(A, "
            "mode='reduced') if you are going to differentiate through linalg.qr."
        )
    rows, columns = _x.shape[-2:]
    if mode == "complete" and rows > columns:
        raise RuntimeError(
            "The QR decomposition is not differentiable when mode='complete' and nrows > ncols."
        )
    along_q, along_r = g
    q, r = out
    if along_q is None and along_r is None:
        return None
    if rows >= columns:
        return _tall_qr(along_q, along_r, q, r)
    if along_r is None:
        square = _tall_qr(along_q, None, q, ops.narrow(r, -1, 0, rows))
        return ops.cat([square, ops.zeros_like(ops.narrow(r, -1, rows, columns - rows))], -1)
    rest, along_rest = ops.narrow(r, -1, rows, columns - rows), ops.narrow(along_r, -1, rows, columns - rows)
    extra = multiply(multiply(q, rest), adjoint(along_rest))
    along_q = extra if along_q is None else ops.add(along_q, extra)
    square = _tall_qr(along_q, ops.narrow(along_r, -1, 0, rows), q, ops.narrow(r, -1, 0, rows))
    return ops.cat([square, multiply(q, along_rest)], -1)


def _tall_qr(along_q: MaybeTensor, along_r: MaybeTensor, q: TensorLike, r: TensorLike) -> Any:
    terms = []
    if along_r is not None:
        terms.append(multiply(r, adjoint(along_r)))
    if along_q is not None:
        terms.append(ops.neg(multiply(adjoint(along_q), q)))
    middle = terms[0] if len(terms) == 1 else ops.add(*terms)
    middle = hermitian(ops.tril(middle))
    total = multiply(q, middle)
    if along_q is not None:
        total = ops.add(total, along_q)
    return solve_triangular(adjoint(r), total, upper=False, left=False)


_matrix_samples = matrices((3, 3), (4, 2), (2, 3), (2, 3, 2), (0, 2), (2, 0))


def _qr_samples(make: Maker) -> Iterator[Sample]:
    yield from _matrix_samples(make)
    yield Sample(regular(make, 3, 2), "complete", grad=False)
    yield Sample(regular(make, 2, 3), "complete")
    yield Sample(regular(make, 3, 2), "r", grad=False)


qr = contract(
    "qr", _qr, _qr_type, "A: Tensor, mode: str = 'reduced'", namespace="linalg", node="LinalgQrBackward0",
    amp="float32", returns=QR, out="exact", vjp=_qr_gradient, conjugates=True, samples=_qr_samples,
    batch=lambda op, size, args, dims: (
        NotImplemented if args[1] == "r" else batch_leading(op, size, args, dims)
    ),
)  # fmt: skip


# -- singular values -----------------------------------------------------------------------------------------
def _svdvals_type(x: TensorType, driver: str | None) -> TensorType:
    check_matrix(x, "svd")
    check_floating(x, "svd", "linalg_svd_cpu")
    if driver is not None:
        raise RuntimeError(
            named(
                "weft.linalg.svd: keyword argument `driver=` is only supported on CUDA inputs with cuSOLVER "
                "backend."
            )
        )
    return TensorType((*x.shape[:-2], min(x.shape[-2:])), x.dtype.to_real(), x.device)


def _svd_type(x: TensorType, full_matrices: bool, driver: str | None) -> tuple[TensorType, ...]:
    values = _svdvals_type(x, driver)
    lead, (rows, columns) = x.shape[:-2], x.shape[-2:]
    count = values.shape[-1]
    left = (*lead, rows, rows if full_matrices else count)
    right = (*lead, columns if full_matrices else count, columns)
    return TensorType(left, x.dtype, x.device), values, TensorType(right, x.dtype, x.device)


def decompose(x: Array, full_matrices: bool = False, *, vectors: bool = True) -> Any:
    """LAPACK's singular value decomposition, with PyTorch's error."""
    xp = namespace(x)
    try:
        out = xp.linalg.svd(x, full_matrices=full_matrices, compute_uv=vectors)
    except np.linalg.LinAlgError:
        bad = _unusable(x)
        text = "The algorithm failed to converge because the input matrix contained non-finite values."
        raise fail("linalg.svd", x, [(bad[0] if bad else 0, 0)], text) from None
    return tuple(out) if vectors else out


def _svd_gradient(g: tuple[Any, ...], out: tuple[Any, ...], _x: TensorType) -> Any:
    rows, columns = _x.shape[-2:]
    count = min(rows, columns)
    left, values, right = out
    along_left, along_values, along_right = g
    left, right = ops.narrow(left, -1, 0, count), ops.narrow(right, -2, 0, count)
    terms = [] if along_values is None else [_spectral(left, along_values, right)]
    squares = ops.mul(values, values)
    gaps = ops.sub(_row(squares), _column(squares))
    gaps = ops.add(gaps, identity_like(gaps))
    if along_left is not None:
        along_left = ops.narrow(along_left, -1, 0, count)
        inner = multiply(adjoint(left), along_left)
        middle = ops.mul(ops.div(ops.sub(inner, adjoint(inner)), gaps), _row(values))
        term = multiply(left, middle)
        if rows > count:
            outside = ops.sub(along_left, multiply(left, inner))
            term = ops.add(term, ops.div(outside, _row(values)))
        if type_of(left).dtype.is_complex:  # phases that left and right share
            turn = ops.imag(ops.diagonal(inner, 0, -2, -1))
            term = ops.add(term, ops.mul(left, _row(ops.mul(ops.div(turn, values), 1j))))
        terms.append(multiply(term, right))
    if along_right is not None:
        along_right = ops.narrow(along_right, -2, 0, count)
        inner = multiply(right, adjoint(along_right))
        middle = ops.mul(ops.div(ops.sub(inner, adjoint(inner)), gaps), _column(values))
        term = multiply(middle, right)
        if columns > count:
            outside = ops.sub(along_right, multiply(adjoint(inner), right))
            term = ops.add(term, ops.div(outside, _column(values)))
        terms.append(multiply(left, term))
    total = None
    for term in terms:
        total = term if total is None else ops.add(total, term)
    return total


def _svd_samples(make: Maker) -> Iterator[Sample]:
    for sample in _matrix_samples(make):
        yield Sample(*sample.args, full_matrices=False)
    yield Sample(regular(make, 3, 2), grad=False)
    yield Sample(regular(make, 2, 2))


svd = contract(
    "svd", lambda x, full_matrices, driver: decompose(x, full_matrices), _svd_type,
    "A: Tensor, full_matrices: bool = True, *, driver: Any = None", namespace="linalg",
    node="LinalgSvdBackward0", amp="float32", returns=SVD, out="exact", vjp=_svd_gradient, conjugates=True,
    samples=_svd_samples, batch=batch_leading,
)  # fmt: skip


def _svdvals_gradient(g: TensorLike, _out: object, x: TensorLike) -> Any:
    left, _, right = svd(x, False)
    return _spectral(left, g, right)


svdvals = contract(
    "svdvals", lambda x, driver: decompose(x, vectors=False), _svdvals_type,
    "A: Tensor, *, driver: Any = None", namespace="linalg", node="LinalgSvdBackward0", amp="float32",
    out="exact", vjp=_svdvals_gradient, conjugates=True, samples=_matrix_samples, batch=batch_leading,
)  # fmt: skip


# -- pseudo-inverse and least squares ------------------------------------------------------------------------
def _pinv_type(x: TensorType, rcond: Any, hermitian: bool, atol: Any, rtol: Any) -> TensorType:
    if x.ndim < 2 or x.dtype.category < dtypes.FLOAT or x.dtype in dtypes.HALVES:
        raise RuntimeError(
            f"linalg.pinv({x.dtype.scalar_name}{{{list(x.shape)}}}): expected a tensor with 2 or more "
            "dimensions of float, double, "
            "cfloat or cdouble types"
        )
    if hermitian:
        check_square(x, "eigh")
    return TensorType((*x.shape[:-2], x.shape[-1], x.shape[-2]), x.dtype, x.device)


def _tolerance(x: Array, largest: Array, atol: Any, rtol: Any) -> Array:
    """Singular values up to this count as zero."""
    xp = namespace(x)
    if atol is None:
        atol = 0.0
    if rtol is None:
        default = np.finfo(x.dtype).eps * max(x.shape[-2:])
        rtol = xp.where(xp.asarray(atol) > 0, 0.0, default)
    atol, rtol = (xp.asarray(t, dtype=largest.dtype) for t in (atol, rtol))
    return xp.maximum(atol, rtol * largest)[..., None]


def _pinv(x: Array, rcond: Any, hermitian: bool, atol: Any, rtol: Any) -> Array:
    xp = namespace(x)
    rtol = rcond if rtol is None else rtol
    if not x.size:
        return xp.zeros((*x.shape[:-2], x.shape[-1], x.shape[-2]), x.dtype)
    if hermitian:
        values, vectors = _eigen("eigh", x, "L")
        sizes = xp.abs(values)
        left, right = vectors, xp.swapaxes(vectors, -1, -2).conj()
    else:
        left, values, right = decompose(x)
        sizes = values
    keep = sizes > _tolerance(x, sizes.max(-1), atol, rtol)
    weights = xp.where(keep, 1 / xp.where(keep, values, 1), 0).astype(x.dtype)
    return (xp.swapaxes(right, -1, -2).conj() * weights[..., None, :]) @ xp.swapaxes(left, -1, -2).conj()


def _pinv_gradient(g: TensorLike, x: TensorLike, p: TensorLike) -> Any:
    """-P' G P' + (1 - A P) G' P P' + P' P G' (1 - P A), for the pseudo-inverse P of A."""
    flipped, other = adjoint(p), adjoint(g)
    total = ops.neg(multiply(flipped, multiply(g, flipped)))
    second = multiply(other, multiply(p, flipped))
    third = multiply(flipped, multiply(p, other))
    total = ops.add(total, ops.sub(second, multiply(x, multiply(p, second))))
    return ops.add(total, ops.sub(third, multiply(multiply(third, p), x)))


def _pinv_samples(make: Maker) -> Iterator[Sample]:
    yield from _matrix_samples(make)
    yield Sample(regular(make, 3, 3), atol=1e-3, rtol=1e-4)
    yield Sample(regular(make, 3, 3), 1e-6)


pinv = contract(
    "pinv", _pinv, _pinv_type,
    "A: Tensor, rcond: Any = None, hermitian: bool = False, *, atol: Any = None, rtol: Any = None",
    namespace="linalg", node="LinalgPinvBackward0", out=True,
    vjp=lambda g, out, x: _pinv_gradient(g, x, out), conjugates=True, samples=_pinv_samples,
    batch=batch_leading,
)  # fmt: skip
DRIVERS = ("gels", "gelsy", "gelsd", "gelss")


def _lstsq_type(
    a: TensorType, b: TensorType, rcond: float | None, driver: str | None
) -> tuple[TensorType, ...]:
    if a.ndim < 2:
        raise RuntimeError(named("weft.linalg.lstsq: input must have at least 2 dimensions."))
    if b.ndim < 1:
        raise RuntimeError(named("weft.linalg.lstsq: other must have at least 1 dimension."))
    vector = is_vector(a, b)
    right = (*b.shape, 1) if vector else b.shape
    if a.shape[-2] != right[-2]:
        raise RuntimeError(named("weft.linalg.lstsq: input.size(-2) should match other.size(-2)"))
    if a.dtype is not b.dtype:
        raise RuntimeError(
            named(
                "weft.linalg.lstsq: Expected input and other to have the same dtype, but got input's dtype "
                f"{a.dtype.scalar_name} and other's dtype {b.dtype.scalar_name}"
            )
        )
    if driver is not None and driver not in DRIVERS:
        raise RuntimeError(
            named("weft.linalg.lstsq: parameter `driver` should be one of (gels, gelsy, gelsd, gelss)")
        )
    if a.dtype.category < dtypes.FLOAT or a.dtype in dtypes.HALVES:
        raise RuntimeError("This function doesn't handle types other than float and double")
    driver = driver or "gelsy"
    lead = broadcast_shapes(a.shape[:-2], right[:-2])
    rows, columns = a.shape[-2:]
    real = a.dtype.to_real()
    solution = (*lead, columns) if vector else (*lead, columns, right[-1])
    residuals = (*lead, right[-1]) if rows > columns and driver != "gelsy" else (0,)
    rank = (0,) if driver == "gels" else a.shape[:-2]
    values = (*a.shape[:-2], min(rows, columns)) if driver in ("gelsd", "gelss") else (0,)
    kinds = (a.dtype, real, dtypes.int64, real)
    shapes = (solution, residuals, rank, values)
    return tuple(TensorType(shape, kind, a.device) for shape, kind in zip(shapes, kinds, strict=True))


def _lstsq(a: Array, b: Array, rcond: float | None, driver: str | None) -> tuple[Array, ...]:
    xp = namespace(a)
    driver = driver or "gelsy"
    vector = is_vector(type_of(a), type_of(b))
    right = b[..., None] if vector else b
    if driver == "gels" and a.size:
        found = refused(a, "gels", b=xp.zeros((max(a.shape[-2:]), 1), a.dtype))
        if found:
            raise fail(named("weft.linalg.lstsq"), a, found, NOT_FULL_RANK)
    left, values, other = decompose(a)
    if rcond is None:
        rcond = np.finfo(a.dtype).eps * max(a.shape[-2:])
    largest = values.max(-1, initial=0)
    keep = values > (largest * values.dtype.type(rcond))[..., None]
    weights = xp.where(keep, 1 / xp.where(keep, values, 1), 0).astype(a.dtype)
    inner = weights[..., None] * (xp.swapaxes(left, -1, -2).conj() @ right)
    solution = xp.swapaxes(other, -1, -2).conj() @ inner
    rank = xp.asarray(keep.sum(-1), dtype=xp.int64)
    if driver == "gelsy" and not right.shape[-1]:
        rank = xp.zeros_like(rank)  # LAPACK's routine of this name ends early, before it looks at the matrix
    rows, columns = a.shape[-2:]
    residuals = xp.empty((0,), values.dtype)
    if rows > columns and driver != "gelsy" and (driver == "gels" or bool((rank == columns).all())):
        residuals = (xp.abs(a @ solution - right) ** 2).sum(-2).astype(values.dtype)
    return (
        solution[..., 0] if vector else solution,
        residuals,
        xp.empty((0,), xp.int64) if driver == "gels" else rank,
        values if driver in ("gelsd", "gelss") else xp.empty((0,), values.dtype),
    )


def _lstsq_gradient(
    needs: Sequence[bool], g: tuple[Any, ...], out: tuple[Any, ...], a: TensorLike, b: TensorLike
) -> tuple[Any, Any]:
    """By way of the pseudo-inverse for the solution; at a minimum the residuals do not depend on it."""
    along_solution, along_residuals, _, along_values = g
    vector = is_vector(type_of(a), type_of(b))
    solution, right = (_column(out[0]), _column(b)) if vector else (out[0], b)
    left_terms, right_terms = [], []
    if along_solution is not None:
        along = _column(along_solution) if vector else along_solution
        inverse = pinv(a)
        if needs[0]:
            left_terms.append(_pinv_gradient(multiply(along, adjoint(right)), a, inverse))
        if needs[1]:
            right_terms.append(multiply(adjoint(inverse), along))
    if along_residuals is not None and tuple(out[1].shape) != (0,):
        error = ops.mul(ops.sub(multiply(a, solution), right), ops.mul(_row(along_residuals), 2))
        left_terms.append(multiply(error, adjoint(solution)))
        right_terms.append(ops.neg(error))
    if along_values is not None and tuple(out[3].shape) != (0,):
        factors = svd(a, False)
        left_terms.append(_spectral(factors[0], along_values, factors[2]))
    gradients: list[Any] = []
    for terms, shape in ((left_terms, tuple(a.shape)), (right_terms, tuple(right.shape))):
        parts = [reduced(term, shape) for term in terms]
        gradients.append(None if not parts else parts[0] if len(parts) == 1 else ops.add(*parts[:2]))
        if len(parts) == 3:
            gradients[-1] = ops.add(gradients[-1], parts[2])
    if vector and gradients[1] is not None:
        gradients[1] = ops.squeeze(gradients[1], -1)
    return gradients[0], gradients[1]


def _lstsq_samples(make: Maker) -> Iterator[Sample]:
    yield Sample(regular(make, 3, 3), make(3, 2))
    yield Sample(regular(make, 4, 2), make(4, 1))
    yield Sample(regular(make, 2, 3), make(2))
    yield Sample(regular(make, 2, 3, 2), make(2, 3, 2), driver="gelsd")
    yield Sample(regular(make, 3, 2), make(3), driver="gels")


def _batch_lstsq(op: Op, _size: int, args: tuple[Any, ...], dims: tuple[Any, ...]) -> tuple[Any, Any]:
    types = logical_result(op, args, dims)
    first, second = logical_type(args[0], dims[0]), logical_type(args[1], dims[1])
    vector = is_vector(first, second)
    right = _column(args[1]) if vector else args[1]
    rank = max(first.ndim, second.ndim + vector)
    out = call(op, (level(args[0], dims[0], rank), level(right, dims[1], rank), *args[2:]))
    solution = ops.squeeze(out[0], -1) if vector else out[0]
    matrix_dim = 0 if dims[0] is not None else None
    parts = [solution, *out[1:]]
    where: list[int | None] = [0, 0, matrix_dim, matrix_dim]
    for position in (1, 2, 3):
        if types[position].shape == (0,):
            where[position] = None
        elif where[position] is None:
            parts[position] = ops.squeeze(parts[position], 0)
    return tuple(parts), tuple(where)


lstsq = contract(
    "lstsq", _lstsq, _lstsq_type, "A: Tensor, B: Tensor, rcond: Any = None, *, driver: Any = None",
    namespace="linalg", node="LinalgLstsqBackward0", amp="float32", returns=LSTSQ, out=True,
    vjp=joint(_lstsq_gradient), conjugates=True, samples=_lstsq_samples, batch=_batch_lstsq,
)  # fmt: skip


# -- the same under their older names ------------------------------------------------------------------------
@composite("input: Tensor, upper: bool = False", name="cholesky", out=True, samples=_positive_samples)
def _old_cholesky(input: TensorLike, upper: bool) -> Any:
    """The Cholesky factor of symmetric positive definite matrices."""
    return cholesky(input, upper=upper)


@composite(
    "input: Tensor, some: bool = True", name="qr", returns=OLD_QR, out="exact", samples=_matrix_samples
)
def _old_qr(input: TensorLike, some: bool) -> Any:
    """The QR decomposition; all columns of Q unless `some`."""
    return OLD_QR(*qr(input, "reduced" if some else "complete"))


@composite(
    "input: Tensor, some: bool = True, compute_uv: bool = True", name="svd", returns=OLD_SVD, out="exact",
    samples=_matrix_samples,
)  # fmt: skip
def _old_svd(input: TensorLike, some: bool, compute_uv: bool) -> Any:
    """The singular value decomposition, with V rather than its adjoint."""
    if not compute_uv:
        values = svdvals(input)
        lead, (rows, columns) = tuple(input.shape[:-2]), tuple(input.shape[-2:])
        return OLD_SVD(
            ops.new_zeros(input, (*lead, rows, rows)), values, ops.new_zeros(input, (*lead, columns, columns))
        )
    left, values, right = svd(input, not some)
    return OLD_SVD(left, values, adjoint(right))


@composite("input: Tensor, rcond: Any = 1e-15", name="pinverse", amp="float32", samples=_matrix_samples)
def _pinverse(input: TensorLike, rcond: Any) -> Any:
    """The pseudo-inverse."""
    return pinv(input, rcond)
