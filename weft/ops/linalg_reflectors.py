"""Eigenvalues of general matrices, reflectors, and what is solved with factors that are at hand.

Takes (batches of) matrices; gives spectra, products of Householder reflectors, solutions. One idea: a
product of reflectors is applied, never formed, one reflector after the other; and whoever has a Cholesky
factor solves two triangles.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from weft.core import dtypes
from weft.core.arrays import Array, namespace
from weft.core.types import TensorType
from weft.ops.contract import adjoint, multiply, reduced
from weft.ops.families import composite, contract
from weft.ops.joining import powers
from weft.ops.linalg import (
    NOT_INVERTIBLE,
    batch_leading,
    batch_several,
    batch_solve,
    check_floating,
    check_lapack,
    check_square,
    fail,
    identity_like,
    linalg_solve,
    regular,
    solve_triangular,
)
from weft.ops.record import Op, broadcast_shapes, common_device, ops, type_of, unsupported
from weft.ops.return_types import result
from weft.ops.samples import Maker, Sample
from weft.ops.values import Operand, Sizes, TensorLike

EIG, GEQRF = result("linalg_eig", "eigenvalues", "eigenvectors"), result("geqrf", "a", "tau")
TRIANGULAR = result("triangular_solve", "solution", "cloned_coefficient")


# -- eigenvalues ---------------------------------------------------------------------------------------------
def _check_eig(x: TensorType) -> None:
    check_square(x, "eig")
    if x.dtype.category < dtypes.FLOAT:
        raise RuntimeError(f"Unknown Complex ScalarType for {x.dtype.scalar_name}")
    if x.dtype in dtypes.HALVES:
        raise unsupported("linalg_eig_out_cpu", x.dtype)


def _eigvals_rule(x: TensorType) -> TensorType:
    _check_eig(x)
    return TensorType(x.shape[:-1], x.dtype.to_complex(), x.device)


def _eig_rule(x: TensorType) -> tuple[TensorType, TensorType]:
    values = _eigvals_rule(x)
    return values, TensorType(x.shape, values.dtype, x.device)


def _finite(x: Array) -> Array:
    if not namespace(x).isfinite(x).all():
        raise RuntimeError("torch.linalg.eig: input tensor should not contain infs or NaNs.")
    return x


def _as_complex(x: Array, like: Array) -> Array:
    return x.astype(np.result_type(like.dtype, np.complex64), copy=False)


def _eig_kernel(x: Array) -> tuple[Array, Array]:
    values, vectors = namespace(x).linalg.eig(_finite(x))
    return _as_complex(values, x), _as_complex(vectors, x)


def _eig_gradient(g: tuple[Any, Any], out: tuple[Any, Any]) -> Any:
    """Eigenvectors have norm one and an arbitrary phase: g is projected to what remains."""
    (along_values, along_vectors), (values, vectors) = g, out
    turned = adjoint(vectors)
    if along_vectors is None:
        if along_values is None:
            return None
        return linalg_solve(turned, ops.mul(ops.unsqueeze(along_values, -1), turned), True)
    inner = multiply(turned, along_vectors)
    length = ops.real(ops.diagonal(inner, 0, -2, -1))
    inner = ops.sub(inner, ops.mul(multiply(turned, vectors), ops.unsqueeze(length, -2)))
    one = identity_like(vectors)
    gaps = ops.conj(ops.sub(ops.unsqueeze(values, -2), ops.unsqueeze(values, -1)))
    inner = ops.div(ops.mul(inner, ops.rsub(one, 1)), ops.add(gaps, one))
    if along_values is not None:
        inner = ops.add(inner, ops.diag_embed(along_values))
    return linalg_solve(turned, multiply(inner, turned), True)


def _eig_samples(make: Maker) -> Iterator[Sample]:
    """Vectors have phases of their own, so gradients are tested through what does not depend on them."""
    yield Sample(regular(make, 3, 3), grad=False)
    yield Sample(regular(make, 2, 2, 2), grad=False)
    yield Sample(make(0, 0), grad=False)


eig: Op = contract(
    "eig", _eig_kernel, _eig_rule, "A: Tensor", namespace="linalg", returns=EIG, out="exact",
    vjp=_eig_gradient, conjugates=True, samples=_eig_samples, node="LinalgEigBackward0",
    batch=batch_several,
    doc="Eigenvalues and eigenvectors of square matrices.",
)  # fmt: skip


def _eigvals_gradient(g: TensorLike, _out: object, x: TensorLike) -> Any:
    return _eig_gradient((g, None), tuple(eig(x)))


eigvals = contract(
    "eigvals", lambda x: _as_complex(namespace(x).linalg.eigvals(_finite(x)), x), _eigvals_rule, "A: Tensor",
    namespace="linalg", out="exact", vjp=_eigvals_gradient, conjugates=True, samples=_eig_samples,
    batch=batch_leading, node="LinalgEigBackward0", doc="Eigenvalues of square matrices.",
)  # fmt: skip


# -- reflectors ----------------------------------------------------------------------------------------------
def _geqrf_rule(x: TensorType) -> tuple[TensorType, TensorType]:
    if x.ndim < 2:
        raise RuntimeError("torch.geqrf: input must have at least 2 dimensions.")
    check_lapack(x, "geqrf_cpu")
    return x, TensorType((*x.shape[:-2], min(x.shape[-2:])), x.dtype, x.device)


def _geqrf_kernel(x: Array) -> tuple[Array, Array]:
    xp = namespace(x)
    if not x.size:
        return x.copy(), xp.zeros((*x.shape[:-2], min(x.shape[-2:])), x.dtype)
    packed, tau = xp.linalg.qr(x, mode="raw")
    return xp.ascontiguousarray(xp.swapaxes(packed, -1, -2)), tau


geqrf = contract(
    "geqrf", _geqrf_kernel, _geqrf_rule, "input: Tensor", returns=GEQRF, out="exact",
    batch=batch_several,
    samples=lambda make: [Sample(regular(make, *s), grad=False) for s in ((3, 2), (2, 3), (2, 2, 2))],
    doc="QR as LAPACK packs it: R, and below it the reflectors whose product is Q.",
)  # fmt: skip


def _check_reflectors(name: str, kind: TensorType, tau: TensorType) -> None:
    if kind.ndim < 2:
        raise RuntimeError(f"torch.{name}: input must have at least 2 dimensions.")
    if name != "ormqr" and kind.shape[-2] < kind.shape[-1]:
        raise RuntimeError(f"torch.{name}: input.shape[-2] must be greater than or equal to input.shape[-1]")
    if kind.shape[-1] < tau.shape[-1] and name != "ormqr":
        raise RuntimeError(f"torch.{name}: input.shape[-1] must be greater than or equal to tau.shape[-1]")
    check_lapack(kind, "orgqr_cpu")
    if tau.dtype is not kind.dtype:
        raise RuntimeError(
            f"torch.{name}: tau dtype {tau.dtype.scalar_name} does not match input dtype "
            f"{kind.dtype.scalar_name}"
        )


def _diagonal(like: TensorLike, rows: int, columns: int) -> Any:
    return ops.tril(ops.triu(ops.new_ones(like, (rows, columns))))


def _reflected(packed: TensorLike, tau: TensorLike, x: TensorLike, turned: bool) -> Any:
    """Q x (or Q' x) for the Q whose reflectors are below the diagonal."""
    rows, count = type_of(packed).shape[-2], type_of(tau).shape[-1]
    vectors = ops.tril(ops.narrow(packed, -1, 0, count), -1)
    vectors = ops.add(vectors, _diagonal(packed, rows, count))
    for i in range(count) if turned else reversed(range(count)):
        column = ops.narrow(vectors, -1, i, 1)
        factor = ops.unsqueeze(ops.narrow(tau, -1, i, 1), -1)
        factor = ops.conj(factor) if turned else factor
        x = ops.sub(x, ops.mul(multiply(column, multiply(adjoint(column), x)), factor))
    return x


def _reflector_samples(make: Maker) -> Iterator[Sample]:
    yield Sample(make(4, 3), make(2))
    yield Sample(make(2, 3, 2), make(2, 2))


@composite(
    "input: Tensor, tau: Tensor", namespace="linalg", out=True,
    samples=_reflector_samples,
)  # fmt: skip
def householder_product(input: TensorLike, tau: TensorLike) -> Any:
    """The first columns of the product of the reflectors that `geqrf` gives."""
    kind = type_of(input)
    _check_reflectors("linalg.householder_product", kind, type_of(tau))
    if not kind.numel():
        return ops.clone(input)
    start = _diagonal(input, kind.shape[-2], kind.shape[-1])
    return _reflected(input, tau, ops.expand(start, tuple(kind.shape)), False)


@composite(
    "input: Tensor, input2: Tensor", name="orgqr", out=True, samples=_reflector_samples,
)  # fmt: skip
def _orgqr(input: TensorLike, input2: TensorLike) -> Any:
    """The first columns of the product of the reflectors that `geqrf` gives."""
    return householder_product(input, input2)


def _ormqr_samples(make: Maker) -> Iterator[Sample]:
    yield Sample(make(4, 3), make(3), make(4, 2))
    yield Sample(make(4, 3), make(3), make(2, 4), False, True)


@composite(
    "input: Tensor, input2: Tensor, input3: Tensor, left: bool = True, transpose: bool = False", out=True,
    samples=_ormqr_samples,
)  # fmt: skip
def ormqr(input: TensorLike, input2: TensorLike, input3: TensorLike, left: bool, transpose: bool) -> Any:
    """The product of Q (or its adjoint), as `geqrf` gives it, with a matrix on the right or the left."""
    kind, other = type_of(input), type_of(input3)
    _check_reflectors("ormqr", kind, type_of(input2))
    place = -2 if left else -1
    if other.shape[place] != kind.shape[-2]:
        raise RuntimeError(f"torch.ormqr: other.shape[{place}] must be equal to input.shape[-2]")
    if type_of(input2).shape[-1] != min(other.shape[place], kind.shape[-1]):
        raise RuntimeError(
            f"torch.ormqr: tau.shape[-1] must be equal to min(other.shape[{place}], input.shape[-1])"
        )
    if left:
        return _reflected(input, input2, input3, transpose)
    return adjoint(_reflected(input, input2, adjoint(input3), not transpose))


# -- with a factor at hand -----------------------------------------------------------------------------------
def _check_factor(b: TensorType, a: TensorType, name: str) -> None:
    for word, kind in (("b", b), ("A", a)):
        if kind.ndim < 2:
            article = "b should" if word == "b" else "u should"
            raise RuntimeError(
                f"{article} have at least 2 dimensions, but has {kind.ndim} dimensions instead"
            )
    if a.shape[-1] != a.shape[-2]:
        raise RuntimeError(
            f"A must be batches of square matrices, but they are {a.shape[-2]} by {a.shape[-1]} matrices"
        )
    if a.shape[-1] != b.shape[-2]:
        raise RuntimeError(
            f"Incompatible matrix sizes for {name}: each A matrix is {a.shape[-2]} by {a.shape[-1]} but each "
            f"b matrix is {b.shape[-2]} by {b.shape[-1]}"
        )


def _two_triangles(b: Array, factor: Array, upper: bool) -> Array:
    lower = adjoint(factor) if upper else factor
    inner = solve_triangular(lower, b, upper=False)
    solved: Array = solve_triangular(adjoint(lower), inner, upper=True)
    return solved


def _factor_samples(make: Maker) -> Iterator[Sample]:
    yield Sample(make(3, 2), _factor(make, False, 3, 3), grad=False)
    yield Sample(make(2, 3, 1), _factor(make, True, 3, 3), True, grad=False)


def _factor(make: Maker, upper: bool, *shape: int) -> Any:
    """A Cholesky factor, with a real diagonal. The triangle that is not read has no finite differences, so
    samples with it are not for tests of gradients.
    """
    matrix = regular(make, *shape)
    np.einsum("...ii->...i", matrix)[...] = np.arange(1, shape[-1] + 1)
    return np.triu(matrix) if upper else np.tril(matrix)


def _along_factor(factor: TensorLike, common: TensorLike, upper: bool) -> Any:
    """The gradient of a factor from that of A, of which both triangles count, as in PyTorch: also elements
    of the factor that are not read get what they would if A were multiplied out.
    """
    common = ops.add(common, adjoint(common))
    return ops.neg(multiply(factor, common) if upper else multiply(common, factor))


def _cholesky_solve_rule(b: TensorType, a: TensorType, upper: bool) -> TensorType:
    _check_factor(b, a, "cholesky_solve")
    if b.dtype is not a.dtype:
        raise RuntimeError(
            f"Expected b and A to have the same dtype, but found b of type {b.dtype.scalar_name} and A of "
            f"type {a.dtype.scalar_name} instead."
        )
    check_lapack(a, "cholesky_solve_cpu")
    lead = broadcast_shapes(b.shape[:-2], a.shape[:-2])
    return TensorType(lead + b.shape[-2:], b.dtype, common_device([b, a]))


def _solution_gradient(g: TensorLike, _out: object, _b: TensorType, factor: TensorLike, upper: bool) -> Any:
    return reduced(cholesky_solve(g, factor, upper), _b.shape)


def _solution_factor_gradient(
    g: TensorLike, out: TensorLike, _b: object, factor: TensorLike, upper: bool
) -> Any:
    common = multiply(cholesky_solve(g, factor, upper), adjoint(out))
    return reduced(_along_factor(factor, common, upper), tuple(factor.shape))


cholesky_solve: Op = contract(
    "cholesky_solve", _two_triangles, _cholesky_solve_rule,
    "input: Tensor, input2: Tensor, upper: bool = False", conjugates=True,
    vjp=(_solution_gradient, _solution_factor_gradient), samples=_factor_samples, batch=batch_solve,
    doc="The solution of A X = input, for the Cholesky factor of A.",
)  # fmt: skip


def _cholesky_inverse_rule(x: TensorType, upper: bool) -> TensorType:
    check_square(x, "cholesky_inverse", "")
    check_lapack(x, "cholesky_inverse_out_cpu")
    return x


def _cholesky_inverse_kernel(x: Array, upper: bool) -> Array:
    xp = namespace(x)
    zeros = xp.einsum("...ii->...i", x) == 0
    if zeros.any():
        place = int(xp.flatnonzero(zeros)[0])
        raise fail("cholesky_inverse", x, [(place // x.shape[-1], place % x.shape[-1] + 1)], NOT_INVERTIBLE)
    return _two_triangles(xp.broadcast_to(xp.eye(x.shape[-1], dtype=x.dtype), x.shape), x, upper)


def _cholesky_inverse_gradient(g: TensorLike, out: TensorLike, x: TensorLike, upper: bool) -> Any:
    return _along_factor(x, multiply(out, multiply(g, out)), upper)


contract(
    "cholesky_inverse", _cholesky_inverse_kernel, _cholesky_inverse_rule,
    "input: Tensor, upper: bool = False", conjugates=True, vjp=_cholesky_inverse_gradient,
    samples=lambda make: [Sample(_factor(make, False, 3, 3), grad=False),
        Sample(_factor(make, False, 2, 2, 2), grad=False),
        Sample(_factor(make, True, 2, 2), True, grad=False)],
    batch=batch_leading, doc="The inverse of A, for its Cholesky factor.",
)  # fmt: skip


@composite(
    "b: Tensor, A: Tensor, upper: bool = True, transpose: bool = False, unitriangular: bool = False",
    returns=TRIANGULAR, samples=lambda make: [Sample(make(3, 2), regular(make, 3, 3))],
)  # fmt: skip
def triangular_solve(b: TensorLike, A: TensorLike, upper: bool, transpose: bool, unitriangular: bool) -> Any:
    """The solution of A X = b for a triangular A, and a copy of A."""
    _check_factor(type_of(b), type_of(A), "triangular_solve")
    turned = ops.transpose(A, -1, -2) if transpose else A
    solution = solve_triangular(turned, b, upper=upper != transpose, unitriangular=unitriangular)
    return TRIANGULAR(solution, ops.clone(A))


# -- ranks, determinants, tensors ----------------------------------------------------------------------------
@composite(
    "A: Tensor, tol: Any = None, hermitian: bool = False, *, atol: Any = None, rtol: Any = None",
    namespace="linalg", samples=lambda make: [Sample(regular(make, 3, 2), grad=False)],
)  # fmt: skip
def matrix_rank(
    A: TensorLike,
    tol: TensorLike | float | None,
    hermitian: bool,
    atol: TensorLike | float | None,
    rtol: TensorLike | float | None,
) -> Any:
    """How many singular values are above a tolerance."""
    kind = type_of(A)
    if kind.ndim < 2:
        raise RuntimeError(
            "torch.linalg.matrix_rank: The input tensor input must have at least 2 dimensions."
        )
    if kind.dtype.category < dtypes.FLOAT:
        raise RuntimeError("This function doesn't handle types other than float and double")
    if not kind.numel():
        return ops.new_zeros(A, tuple(kind.shape[:-2]), dtype=dtypes.int64)
    values = ops.abs(ops.linalg_eigvalsh(A)) if hermitian else ops.linalg_svdvals(A)
    largest = ops.amax(values, (-1,), True)
    if tol is not None:
        atol, rtol = tol, 0.0
    if rtol is None:
        eps = dtypes.finfo(kind.dtype).eps * max(kind.shape[-2:])
        given = atol is not None and not hasattr(atol, "shape") and atol > 0
        rtol = 0.0 if given else eps
    limit = ops.mul(largest, _column(rtol))
    if atol is not None:
        low = _column(atol)
        limit = ops.maximum(limit, ops._to_copy(low, type_of(limit).dtype)) if hasattr(low, "shape") else (
            ops.clamp_min(limit, low)
        )  # fmt: skip
    return ops.sum(ops.gt(values, limit), -1)


def _column(value: Operand) -> Any:
    return ops.unsqueeze(value, -1) if hasattr(value, "shape") else value


@composite(
    "A: Tensor", samples=lambda make: [Sample(_positive(make, 3, 3)), Sample(_positive(make, 2, 2, 2))]
)
def logdet(A: TensorLike) -> Any:
    """The logarithm of the determinant; NaN where that is negative."""
    kind = type_of(A)
    check_square(kind, "logdet", "")
    if kind.dtype.category < dtypes.FLOAT:
        check_floating(kind, "logdet", place="")
    sign, size = ops.linalg_slogdet(A)
    if kind.dtype.is_complex:
        return ops.add(size, ops.log(sign))
    return ops.where(ops.eq(sign, -1), math.nan, size)


def _positive(make: Maker, *shape: int) -> Any:
    matrix = regular(make, *shape)
    return np.matmul(matrix, np.swapaxes(matrix, -1, -2)) if not make.kind.is_complex else matrix


def _sides(shape: tuple[int, ...], count: int, word: str) -> tuple[int, int]:
    """The sides of the square matrix whose rows so many dimensions stand for."""
    first, last = math.prod(shape[:count]), math.prod(shape[count:])
    if first != last:
        raise RuntimeError(
            f"Expected self to satisfy the requirement prod(self.shape[{word}:]) == "
            f"prod(self.shape[:{word}]), but "
            f"got {last} != {first}"
        )
    return first, last


@composite(
    "A: Tensor, ind: int = 2", namespace="linalg", out=True,
    samples=lambda make: [Sample(regular(make, 4, 4).reshape(2, 2, 4), 2),
        Sample( regular(make, 4, 4).reshape(4, 2, 2), ind=1)],
)  # fmt: skip
def tensorinv(A: TensorLike, ind: int) -> Any:
    """The inverse of a tensor as a map from its last dimensions to its first `ind`."""
    shape = tuple(type_of(A).shape)
    if ind <= 0:
        raise RuntimeError(f"Expected a strictly positive integer for 'ind', but got {ind}")
    first, last = _sides(shape, ind, "ind")
    return ops.reshape(ops.linalg_inv(ops.reshape(A, (first, last))), (*shape[ind:], *shape[:ind]))


@composite(
    "A: Tensor, B: Tensor, dims: Any = None", namespace="linalg", out=True,
    samples=lambda make: [Sample(regular(make, 4, 4).reshape(2, 2, 4), make(2, 2))],
)  # fmt: skip
def tensorsolve(A: TensorLike, B: TensorLike, dims: Sizes | None) -> Any:
    """X with A X = B, where A maps tensors of X's shape to tensors of B's."""
    if dims is not None:
        rank = type_of(A).ndim
        A = ops.movedim(A, tuple(dims), tuple(range(rank - len(dims), rank)))
    shape, count = tuple(type_of(A).shape), type_of(B).ndim
    first, last = _sides(shape, count, "other.ndim")
    flat = ops.linalg_solve(ops.reshape(A, (first, last)), ops.reshape(B, (first,)))
    return ops.reshape(flat, shape[count:])


@composite(
    "x: Tensor, *, N: Any = None", namespace="linalg", name="vander",
    samples=lambda make: [Sample(make(3)), Sample(make(2, 3), N=2)],
)  # fmt: skip
def _vander(x: TensorLike, N: int | None) -> Any:
    """Rows of rising powers of each element."""
    kind = type_of(x)
    if kind.dtype is dtypes.bool_:
        raise RuntimeError(
            "linalg.vander supports floating point, complex, and integer tensors, but got Bool"
        )
    count = (kind.shape[-1] if kind.ndim else 1) if N is None else N
    if count <= 1:
        raise RuntimeError("N must be greater than 1.")
    return powers(x if kind.ndim else ops.unsqueeze(x, 0), count)


@composite(
    "input: Tensor, tensor: Tensor", name="vdot", out=True,
    aliases=(), samples=lambda make: [Sample(make(3), make(3)), Sample(make(0), make(0))],
)  # fmt: skip
def vdot(input: TensorLike, tensor: TensorLike) -> Any:
    """The dot product of two vectors, the first conjugated."""
    return ops.dot(ops.conj(input), tensor)
