"""LU and LDL factors, and the forms of factorisations that report failure instead of raising.

Takes (batches of) matrices; gives factors, pivots as LAPACK counts them, and an info for each matrix. One
idea: the packed factors of LU are the one record; P, L and U, and solutions, are views and triangular systems
made of it, so that gradients of any order pass through its single rule.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod
from typing import Any

import numpy as np

from weft.core import dtypes
from weft.core.arrays import Array, HostArray, namespace
from weft.core.devices import on_host
from weft.core.dtypes import dtype
from weft.core.types import TensorType
from weft.ops.contract import adjoint, multiply
from weft.ops.families import HIDDEN, composite, contract
from weft.ops.linalg import (
    NOT_INVERTIBLE,
    NOT_POSITIVE,
    NOT_SOLVABLE,
    batch_leading,
    batch_several,
    check_lapack,
    check_system,
    fail,
    failures,
    lapack,
    matrices,
    regular,
    solve_triangular,
    square_samples,
)
from weft.ops.linalg_decompositions import _cholesky_gradient, _positive_samples
from weft.ops.record import Op, ops, type_of
from weft.ops.return_types import result
from weft.ops.samples import Maker, Sample
from weft.ops.values import MaybeTensor, TensorLike

LETTERS = {"f": "s", "d": "d", "F": "c", "D": "z"}
INT = dtypes.int32


def _routine(x: Array, name: str) -> Any:
    return getattr(lapack, LETTERS[x.dtype.char] + name)


# -- LU ------------------------------------------------------------------------------------------------------
def _lu_rule(x: TensorType, pivot: bool, check: str) -> tuple[TensorType, TensorType, TensorType]:
    if x.ndim < 2:
        raise RuntimeError(
            f"linalg.lu_factor: Expected tensor with 2 or more dimensions. Got size: {list(x.shape)} instead"
        )
    check_lapack(x, "lu_cpu")
    if not pivot:
        raise RuntimeError("linalg.lu_factor: LU without pivoting is not implemented on the CPU")
    count = (*x.shape[:-2], min(x.shape[-2:]))
    return x, TensorType(count, INT, x.device), TensorType(x.shape[:-2], INT, x.device)


LU_FAILURE = (
    "U[{order},{order}] is zero and using it on lu_solve would result in a division by zero. If you "
    "still want to "
    "perform the factorization, consider calling linalg.lu(A, pivot) or linalg.lu_factor_ex(A, pivot)"
)


def _refuse(name: str, infos: HostArray, text: str) -> None:
    """Raises for the first matrix that a routine could not factor."""
    if infos.any():
        position = int(np.flatnonzero(infos)[0])
        batch = f"(Batch element {position}): " if infos.ndim else ""
        raise RuntimeError(
            f"torch.linalg.{name}: {batch}{text.format(order=int(infos.reshape(-1)[position]))}"
        )


@on_host
def _lu_kernel(x: HostArray, pivot: bool, check: str) -> tuple[HostArray, HostArray, HostArray]:
    lead, (rows, columns) = x.shape[:-2], x.shape[-2:]
    count = min(rows, columns)
    out, pivots = np.empty(x.shape, x.dtype), np.empty((*lead, count), np.int32)
    infos = np.zeros(lead, np.int32)
    if x.size:
        getrf = _routine(x, "getrf")
        for place in np.ndindex(lead):
            out[place], found, infos[place] = getrf(x[place])
            pivots[place] = found + 1
    if check:
        _refuse(check, infos, LU_FAILURE)
    return out, pivots, infos


def _lu_gradient(g: tuple[Any, ...], out: tuple[Any, ...], _x: TensorType) -> Any:
    """Through P L U = A: below the diagonal what moves L, on and above it what moves U."""
    along, packed, pivots = g[0], out[0], out[1]
    if along is None:
        return None
    rows, columns = _x.shape[-2:]
    count = min(rows, columns)
    lower, upper = _lower(packed, count), _upper(packed, count)
    along_lower = ops.tril(ops.narrow(along, -1, 0, count), -1)
    along_upper = ops.triu(ops.narrow(along, -2, 0, count))
    top, wide = ops.narrow(lower, -2, 0, count), ops.narrow(upper, -1, 0, count)
    left = multiply(adjoint(top), ops.narrow(along_lower, -2, 0, count))
    right = multiply(ops.narrow(along_upper, -1, 0, count), adjoint(wide))
    if rows < columns:
        rest = ops.narrow(along_upper, -1, count, columns - count)
        left = ops.sub(left, multiply(rest, adjoint(ops.narrow(upper, -1, count, columns - count))))
    if rows > columns:
        rest = ops.narrow(along_lower, -2, count, rows - count)
        right = ops.sub(right, multiply(adjoint(ops.narrow(lower, -2, count, rows - count)), rest))
    middle = ops.add(ops.tril(left, -1), ops.triu(right))
    inner = solve_triangular(adjoint(top), middle, upper=True, unitriangular=True)
    total = solve_triangular(adjoint(wide), inner, upper=False, left=False)
    if rows < columns:
        beside = solve_triangular(adjoint(top), rest, upper=True, unitriangular=True)
        total = ops.cat([total, beside], -1)
    if rows > columns:
        total = ops.cat([total, solve_triangular(adjoint(wide), rest, upper=False, left=False)], -2)
    return multiply(permutation(pivots, rows, type_of(packed).dtype), total)


_lu_samples = matrices((3, 3), (4, 2), (2, 3), (2, 2, 2), (0, 2), rest=(True, ""))
lu_packed: Op = contract(
    "_lu_factor", _lu_kernel, _lu_rule, "A: Tensor, pivot: bool, check: str", vjp=_lu_gradient,
    conjugates=True, batch=batch_several, samples=_lu_samples, outputs_read=(0, 1),
    node="LinalgLuFactorExBackward0", **HIDDEN,
)  # fmt: skip


def _permutation_kernel(pivots: Array, rows: int, kind: dtype) -> Array:
    xp = namespace(pivots)
    order = xp.array(xp.broadcast_to(xp.arange(rows), (*pivots.shape[:-1], rows)))
    for i in range(pivots.shape[-1]):
        other = pivots[..., i : i + 1].astype(xp.int64) - 1
        here = order[..., i : i + 1].copy()
        order[..., i : i + 1] = xp.take_along_axis(order, other, -1)
        xp.put_along_axis(order, other, here, -1)
    return (order[..., None, :] == xp.arange(rows)[:, None]).astype(kind.numpy)


permutation: Op = contract(
    "pivots_to_matrix", _permutation_kernel,
    lambda pivots, rows, kind: TensorType((*pivots.shape[:-1], rows, rows), kind, pivots.device),
    "pivots: Tensor, rows: int, dtype: DType", batch=batch_leading,
    samples=lambda make: [Sample(np.asarray([2, 3, 3], np.int32), 3, make.kind)], **HIDDEN,
    refuses="integers",
)  # fmt: skip
"""The matrix P that exchanges rows as LAPACK's pivots say, in order."""


def _ones(like: TensorLike, rows: int, columns: int) -> Any:
    """Ones on the diagonal, beside a tensor."""
    return ops.tril(ops.triu(ops.new_ones(like, (rows, columns))))


def _lower(packed: TensorLike, count: int) -> Any:
    part = ops.tril(ops.narrow(packed, -1, 0, count), -1)
    return ops.add(part, _ones(packed, type_of(packed).shape[-2], count))


def _upper(packed: TensorLike, count: int) -> Any:
    return ops.triu(ops.narrow(packed, -2, 0, count))


LU, LU_FACTOR = result("linalg_lu", "P", "L", "U"), result("linalg_lu_factor", "LU", "pivots")
LU_FACTOR_EX = result("linalg_lu_factor_ex", "LU", "pivots", "info")
LU_UNPACK = result("lu_unpack", "P", "L", "U")


_matrix_samples = matrices((3, 3), (4, 2), (2, 3), (2, 2, 2))


@composite(
    "A: Tensor, *, pivot: bool = True", namespace="linalg", returns=LU, samples=_matrix_samples, amp="float32"
)
def lu(A: TensorLike, pivot: bool) -> Any:
    """P, L and U with A = P L U: a permutation, a lower and an upper triangle."""
    kind = type_of(A)
    if kind.ndim < 2:
        raise RuntimeError(
            f"linalg.lu: Expected tensor with 2 or more dimensions. Got size: {list(kind.shape)} instead"
        )
    packed, pivots, _ = lu_packed(A, pivot, "")
    count = min(kind.shape[-2:])
    return LU(permutation(pivots, kind.shape[-2], kind.dtype), _lower(packed, count), _upper(packed, count))


@composite(
    "A: Tensor, *, pivot: bool = True", namespace="linalg", returns=LU_FACTOR, samples=_matrix_samples,
    amp="float32",
)  # fmt: skip
def lu_factor(A: TensorLike, pivot: bool) -> Any:
    """L and U in one matrix, and the rows that were exchanged; a singular matrix is an error."""
    packed, pivots, _ = lu_packed(A, pivot, "lu_factor")
    return LU_FACTOR(packed, pivots)


@composite(
    "A: Tensor, *, pivot: bool = True, check_errors: bool = False", namespace="linalg", returns=LU_FACTOR_EX,
    samples=_matrix_samples, amp="float32",
)  # fmt: skip
def lu_factor_ex(A: TensorLike, pivot: bool, check_errors: bool) -> Any:
    """As `lu_factor`, with an info for each matrix: where it is singular, or 0."""
    return LU_FACTOR_EX(*lu_packed(A, pivot, "lu_factor_ex" if check_errors else ""))


@composite("A: Tensor, pivot: bool = True, get_infos: bool = False", name="lu", samples=_matrix_samples)
def _old_lu(A: TensorLike, pivot: bool, get_infos: bool) -> Any:
    """L and U in one matrix, and the rows that were exchanged."""
    packed, pivots, infos = lu_packed(A, pivot, "" if get_infos else "lu_factor")
    return (packed, pivots, infos) if get_infos else (packed, pivots)


@composite(
    "LU_data: Tensor, LU_pivots: Tensor, unpack_data: bool = True, unpack_pivots: bool = True", method=False,
    returns=LU_UNPACK,
    samples=lambda make: [Sample(regular(make, 3, 3), np.asarray([2, 2, 3], np.int32))],
)  # fmt: skip
def lu_unpack(LU_data: TensorLike, LU_pivots: TensorLike, unpack_data: bool, unpack_pivots: bool) -> Any:
    """P, L and U of what `lu_factor` gave."""
    kind = type_of(LU_data)
    if unpack_pivots and type_of(LU_pivots).dtype is not INT:
        raise RuntimeError(
            "torch.lu_unpack: LU_pivots is expected to be a contiguous tensor of torch.int32 dtype."
        )
    count = min(kind.shape[-2:])
    nothing = ops.new_empty(LU_data, (0,))
    turned = permutation(LU_pivots, kind.shape[-2], kind.dtype) if unpack_pivots else nothing
    if not unpack_data:
        return LU_UNPACK(turned, nothing, nothing)
    return LU_UNPACK(turned, _lower(LU_data, count), _upper(LU_data, count))


def _factored(make: Maker, *shape: int) -> tuple[Any, Any]:
    pivots = np.broadcast_to(np.arange(1, shape[-1] + 1, dtype=np.int32), shape[:-1]).copy()
    pivots[..., 0] = 2
    return regular(make, *shape), pivots


def _lu_solve_samples(make: Maker) -> Iterator[Sample]:
    yield Sample(*_factored(make, 3, 3), make(3, 2))
    yield Sample(*_factored(make, 2, 2, 2), make(2, 3, 2), left=False)
    yield Sample(*_factored(make, 3, 3), make(3, 2), adjoint=True)


@composite(
    "LU: Tensor, pivots: Tensor, B: Tensor, *, left: bool = True, adjoint: bool = False", namespace="linalg",
    name="lu_solve", samples=_lu_solve_samples, out=True,
)  # fmt: skip
def _lu_solve(LU: TensorLike, pivots: TensorLike, B: TensorLike, left: bool, adjoint: bool) -> Any:
    """The solution of A X = B (or X A = B) for what `lu_factor` gave of A."""
    kind, other = type_of(LU), type_of(B)
    if other.ndim < 2:
        raise RuntimeError("linalg.lu_solve: The input tensor B must have at least 2 dimensions.")
    if kind.ndim < 2 or kind.shape[-1] != kind.shape[-2]:
        raise RuntimeError(
            "torch.linalg.lu_solve: A must be batches of square matrices, but they are "
            f"{kind.shape[-2]} by {kind.shape[-1]} matrices"
        )
    if type_of(pivots).dtype is not INT:
        raise RuntimeError("linalg.lu_solve: pivots should be a Tensor of scalar type torch.int32")
    if type_of(pivots).shape[-1] != kind.shape[-1]:
        raise RuntimeError(
            "linalg.lu_solve: Number of pivots per batch should be same as the dimension of the matrix"
        )
    size = kind.shape[-1]
    return _with_factors(
        permutation(pivots, size, kind.dtype), _lower(LU, size), _upper(LU, size), B, left, adjoint
    )


def _with_factors(
    p: TensorLike, lower: TensorLike, upper: TensorLike, b: TensorLike, left: bool, turned: bool
) -> Any:
    """A = P L U solved by two triangles; `turned` takes the adjoint of A."""
    if not left:
        return adjoint(_with_factors(p, lower, upper, adjoint(b), True, not turned))
    if turned:
        inner = solve_triangular(adjoint(upper), b, upper=False)
        return multiply(p, solve_triangular(adjoint(lower), inner, upper=True, unitriangular=True))
    inner = solve_triangular(lower, multiply(adjoint(p), b), upper=False, unitriangular=True)
    return solve_triangular(upper, inner, upper=True)


@composite(
    "b: Tensor, LU_data: Tensor, LU_pivots: Tensor", out=True,
    samples=lambda make: iter(Sample(s.args[2], *s.args[:2]) for s in list(_lu_solve_samples(make))[:1]),
)  # fmt: skip
def lu_solve(b: TensorLike, LU_data: TensorLike, LU_pivots: TensorLike) -> Any:
    """The solution of A X = b for what `lu_factor` gave of A."""
    return _lu_solve(LU_data, LU_pivots, b)


# -- LDL -----------------------------------------------------------------------------------------------------
LDL, LDL_EX = (
    result("linalg_ldl_factor", "LD", "pivots"),
    result("linalg_ldl_factor_ex", "LD", "pivots", "info"),
)


def _ldl_rule(x: TensorType, hermitian: bool, check: str) -> tuple[TensorType, TensorType, TensorType]:
    check_system(x, "ldl_factor_ex")
    return x, TensorType(x.shape[:-1], INT, x.device), TensorType(x.shape[:-2], INT, x.device)


@on_host
def _ldl_kernel(x: HostArray, hermitian: bool, check: str) -> tuple[HostArray, HostArray, HostArray]:
    lead = x.shape[:-2]
    out, pivots = np.empty(x.shape, x.dtype), np.empty(x.shape[:-1], np.int32)
    infos = np.zeros(lead, np.int32)
    if x.size:
        routine = _routine(x, "hetrf" if hermitian and x.dtype.kind == "c" else "sytrf")
        for place in np.ndindex(lead):
            out[place], pivots[place], infos[place] = routine(x[place], lower=1)
    if check:
        _refuse(check, infos, "Unknown error code: {order}.")
    return np.tril(out), pivots, infos


ldl_packed: Op = contract(
    "_ldl_factor", _ldl_kernel, _ldl_rule, "A: Tensor, hermitian: bool, check: str", batch=batch_several,
    samples=lambda make: iter(Sample(*s.args, False, "", grad=False) for s in _positive_samples(make)),
    **HIDDEN,
)  # fmt: skip


def _symmetric(make: Maker) -> Iterator[Sample]:
    return (Sample(*s.args, grad=False) for s in list(_positive_samples(make))[:2])


@composite("A: Tensor, *, hermitian: bool = False", namespace="linalg", returns=LDL, samples=_symmetric)
def ldl_factor(A: TensorLike, hermitian: bool) -> Any:
    """L and D in one matrix with A = L D L', and the rows that were exchanged."""
    packed, pivots, _ = ldl_packed(A, hermitian, "ldl_factor")
    return LDL(packed, pivots)


@composite(
    "A: Tensor, *, hermitian: bool = False, check_errors: bool = False", namespace="linalg", returns=LDL_EX,
    samples=_symmetric,
)  # fmt: skip
def ldl_factor_ex(A: TensorLike, hermitian: bool, check_errors: bool) -> Any:
    """As `ldl_factor`, with an info for each matrix."""
    return LDL_EX(*ldl_packed(A, hermitian, "ldl_factor_ex" if check_errors else ""))


def _ldl_solve_rule(packed: TensorType, pivots: TensorType, b: TensorType, hermitian: bool) -> TensorType:
    if b.ndim < 2:
        raise IndexError("Dimension out of range (expected to be in range of [-1, 0], but got -2)")
    check_system(packed, "ldl_solve")
    if packed.dtype is not b.dtype or pivots.dtype is not INT or pivots.shape != packed.shape[:-1]:
        raise RuntimeError(
            "torch.linalg.ldl_solve: LD and B must be of one dtype, and pivots one int32 for each row of LD"
        )
    lead = np.broadcast_shapes(packed.shape[:-2], b.shape[:-2])
    return TensorType((*lead, *b.shape[-2:]), b.dtype, b.device)


def _check_pivots(rows: HostArray) -> None:
    """LAPACK trusts pivots and would write elsewhere: they must be such as `ldl_factor` gives."""
    size = rows.shape[-1]
    order = abs(rows.astype(np.int64))
    blocks = (rows < 0).reshape(-1, size)
    wrong = ((order < 1) | (order > size)).any()
    for line in blocks if blocks.any() else ():
        runs = np.diff(np.flatnonzero(np.diff(np.concatenate([[False], line, [False]]))))[::2]
        wrong = wrong or bool((runs % 2).any())
    if wrong:
        raise RuntimeError("torch.linalg.ldl_solve: pivots are not those of a factorization")


@on_host
def _ldl_solve_kernel(packed: HostArray, pivots: HostArray, b: HostArray, hermitian: bool) -> HostArray:
    _check_pivots(pivots)
    lead = np.broadcast_shapes(packed.shape[:-2], b.shape[:-2])
    count = prod(lead)
    routine = _routine(packed, "hetrs" if hermitian and packed.dtype.kind == "c" else "sytrs")
    flat = [
        np.broadcast_to(v, lead + v.shape[v.ndim - keep :]).reshape(count, *v.shape[v.ndim - keep :])
        for v, keep in ((packed, 2), (pivots, 1), (b, 2))
    ]
    out = np.empty((count, *b.shape[-2:]), b.dtype)
    for place, (matrix, rows, right) in enumerate(zip(*flat, strict=True)):
        out[place], _ = routine(matrix, rows, right, lower=1)
    return out.reshape(*lead, *b.shape[-2:])


def _ldl_solve_samples(make: Maker) -> Iterator[Sample]:
    matrix = regular(make, 3, 3)
    matrix = np.tril(np.matmul(matrix, np.swapaxes(matrix, -1, -2)))
    yield Sample(matrix, np.arange(1, 4, dtype=np.int32), make(3, 2), grad=False)


contract(
    "ldl_solve", _ldl_solve_kernel, _ldl_solve_rule,
    "LD: Tensor, pivots: Tensor, B: Tensor, *, hermitian: bool = False", namespace="linalg",
    samples=_ldl_solve_samples, doc="The solution of A X = B for what `ldl_factor` gave of A.",
)  # fmt: skip


# -- forms that report failure -------------------------------------------------------------------------------
CHOLESKY_EX, INV_EX = result("linalg_cholesky_ex", "L", "info"), result("linalg_inv_ex", "inverse", "info")
SOLVE_EX = result("linalg_solve_ex", "result", "info")


def _infos(x: HostArray, routine: str, **options: Any) -> HostArray:
    out = np.zeros(x.shape[:-2], np.int32)
    for place in np.ndindex(x.shape[:-2]) if x.size else ():
        out[place] = max(int(_routine(x, routine)(x[place], **options)[-1]), 0)
    return out


def _cholesky_ex_rule(x: TensorType, upper: bool, check: bool) -> tuple[TensorType, TensorType]:
    check_system(x, "cholesky", "cholesky_cpu")
    return x, TensorType(x.shape[:-2], INT, x.device)


@on_host
def _cholesky_ex_kernel(x: HostArray, upper: bool, check: bool) -> tuple[HostArray, HostArray]:
    infos = _infos(x, "potrf", lower=not upper)
    if not infos.any():
        return np.linalg.cholesky(x, upper=upper), infos
    if check:
        raise fail("linalg.cholesky_ex", x, failures(x, "potrf", lower=not upper), NOT_POSITIVE)
    routine = _routine(x, "potrf")
    out = np.empty(x.shape, x.dtype)
    for place in np.ndindex(x.shape[:-2]):
        out[place] = routine(x[place], lower=not upper)[0]
    return np.triu(out) if upper else np.tril(out), infos


contract(
    "cholesky_ex", _cholesky_ex_kernel, _cholesky_ex_rule,
    "A: Tensor, *, upper: bool = False, check_errors: bool = False", namespace="linalg",
    returns=CHOLESKY_EX, out="exact",
    vjp=lambda g, out, _x, upper: None if g[0] is None else _cholesky_gradient(g[0], out[0], _x, upper),
    conjugates=True, outputs_read=(0,), samples=_positive_samples, amp="float32",
    batch=batch_several,
    doc="The Cholesky factor of each matrix, and where a matrix is not positive-definite.",
)  # fmt: skip


def _inv_ex_rule(x: TensorType, check: bool) -> tuple[TensorType, TensorType]:
    check_system(x, "inv")
    return x, TensorType(x.shape[:-2], INT, x.device)


@on_host
def _inv_ex_kernel(x: HostArray, check: bool) -> tuple[HostArray, HostArray]:
    infos = _infos(x, "getrf")
    if check and infos.any():
        raise fail("linalg.inv_ex", x, failures(x, "getrf"), NOT_INVERTIBLE)
    singular = (infos != 0)[..., None, None]
    safe = np.where(singular, np.eye(x.shape[-1], dtype=x.dtype), x)
    return np.where(singular, x.dtype.type(np.inf), np.linalg.inv(safe)), infos


def _inv_ex_gradient(g: Sequence[MaybeTensor], out: Sequence[TensorLike]) -> Any:
    if g[0] is None:
        return None
    return ops.neg(multiply(adjoint(out[0]), multiply(g[0], adjoint(out[0]))))


contract(
    "inv_ex", _inv_ex_kernel, _inv_ex_rule, "A: Tensor, *, check_errors: bool = False", namespace="linalg",
    returns=INV_EX, out="exact", vjp=_inv_ex_gradient, conjugates=True, outputs_read=(0,),
    samples=square_samples,
    amp="float32",
    batch=batch_several,
    doc="The inverse of each matrix, and where a matrix is singular.",
)  # fmt: skip


@on_host
def _singular_kernel(x: HostArray, check: bool) -> HostArray:
    infos = _infos(x, "getrf")
    if check and infos.any():
        raise fail("torch.linalg.solve_ex", x, failures(x, "getrf"), NOT_SOLVABLE)
    return infos


def _singular_rule(x: TensorType, check: bool) -> TensorType:
    check_system(x, "solve", "lu_cpu")
    return TensorType(x.shape[:-2], INT, x.device)


_singular = contract(
    "_singular_orders", _singular_kernel, _singular_rule,
    "A: Tensor, check: bool", batch=batch_leading,
    samples=lambda make: [Sample(regular(make, 2, 2), False)], **HIDDEN,
)  # fmt: skip


def _solve_ex_samples(make: Maker) -> Iterator[Sample]:
    yield Sample(regular(make, 3, 3), make(3, 2))
    yield Sample(regular(make, 3, 3), make(2, 3), left=False)


@composite(
    "A: Tensor, B: Tensor, *, left: bool = True, check_errors: bool = False", namespace="linalg",
    returns=SOLVE_EX, out="exact", samples=_solve_ex_samples, amp="float32",
)  # fmt: skip
def solve_ex(A: TensorLike, B: TensorLike, left: bool, check_errors: bool) -> Any:
    """The solution of A X = B, and where a matrix is singular (there it is made of infinities)."""
    infos = _singular(A, check_errors)
    singular = ops.reshape(ops.ne(infos, 0), (*type_of(A).shape[:-2], 1, 1))
    safe = ops.where(singular, _ones(A, *type_of(A).shape[-2:]), A)
    out = ops.linalg_solve(safe, B, left=left)
    flags = singular if type_of(out).ndim >= type_of(A).ndim else ops.squeeze(singular, -1)
    return SOLVE_EX(ops.where(flags, float("inf"), out), infos)
