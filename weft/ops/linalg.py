"""Linear systems and functions of matrices: inverses, determinants, solvers, powers, exponentials, chains.

Takes (batches of) matrices, gives solutions; every op works on the last two dimensions and broadcasts over
the rest. One idea: kernels are LAPACK through `numpy.linalg`, which says only that a factorisation failed;
where it did, the batch is searched again, once, for the words of PyTorch's error.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod
from typing import Any

import numpy as np

from weft.core import dtypes
from weft.core.arrays import Array, ArrayModule, as_array, namespace
from weft.core.devices import device_of
from weft.core.errors import LinAlgError
from weft.core.lazy import lazy
from weft.core.naming import named
from weft.core.types import TensorType
from weft.ops.batching import logical_result, logical_type, to_front
from weft.ops.contract import adjoint, multiply, reduced, transposed
from weft.ops.families import composite, contract
from weft.ops.record import Op, broadcast_shapes, common_device, ops, type_of, unsupported
from weft.ops.return_types import result
from weft.ops.samples import Maker, Sample, Samples
from weft.ops.values import TensorLike

blas = lazy("scipy.linalg.blas")
lapack = lazy("scipy.linalg.lapack")

SLOGDET = result("linalg_slogdet", "sign", "logabsdet")
OLD_SLOGDET = result("slogdet", "sign", "logabsdet")
MATRIX = "A: Tensor"


# -- what the rules of this family check ---------------------------------------------------------------------
PLACE = "linalg."  # where most ops are, in errors


def check_matrix(x: TensorType, name: str, argument: str = "A", place: str = PLACE) -> None:
    if x.ndim < 2:
        raise RuntimeError(f"{place}{name}: The input tensor {argument} must have at least 2 dimensions.")


def check_square(x: TensorType, name: str, place: str = PLACE) -> None:
    if x.ndim < 2:
        check_matrix(x, name, place=place)
    if x.shape[-1] != x.shape[-2]:
        raise RuntimeError(
            f"{place}{name}: A must be batches of square matrices, but they are {x.shape[-2]} by "
            f"{x.shape[-1]} matrices"
        )


def check_floating(x: TensorType, name: str, kernel: str = "", place: str = PLACE) -> None:
    """LAPACK's four dtypes; `kernel` is the name PyTorch gives where half types have no kernel."""
    if x.dtype.category < dtypes.FLOAT:
        raise RuntimeError(
            f"{place}{name}: Expected a floating point or complex tensor as input. Got {x.dtype.scalar_name}"
        )
    if x.dtype in dtypes.HALVES:
        if kernel:
            raise unsupported(kernel, x.dtype)
        raise RuntimeError(f"linalg.{name}: Low precision dtypes not supported. Got {x.dtype.scalar_name}")


def check_lapack(x: TensorType, kernel: str) -> None:
    """Refuses what LAPACK has no routine for."""
    if x.dtype.category < dtypes.FLOAT or x.dtype in dtypes.HALVES:
        raise unsupported(kernel, x.dtype)


def check_system(x: TensorType, name: str, kernel: str = "") -> None:
    check_square(x, name)
    check_floating(x, name, kernel)


def check_same_dtype(name: str, a: TensorType, b: TensorType) -> None:
    if a.dtype is not b.dtype:
        raise RuntimeError(
            f"linalg.{name}: Expected A and B to have the same dtype, but found A of type "
            f"{a.dtype.scalar_name} and B of type {b.dtype.scalar_name} instead"
        )


def square_rule(name: str, kernel: str = "") -> Any:
    def rule(x: TensorType) -> TensorType:
        check_system(x, name, kernel)
        return x

    return rule


NOT_INVERTIBLE = (
    "The diagonal element {info} is zero, the inversion could not be completed because the input matrix is "
    "singular."
)
NOT_SOLVABLE = "The solver failed because the input matrix is singular."
NOT_FULL_RANK = (
    "The least squares solution could not be computed because the input matrix does not have full rank "
    "(error code: {info})."
)
NOT_POSITIVE = (
    "The factorization could not be completed because the input is not positive-definite (the leading "
    "minor of "
    "order {info} is not positive-definite)."
)


def fail(name: str, x: Array, failures: list[tuple[int, int]], text: str) -> LinAlgError:
    """The error for the first failed matrix of a batch; `text` may name LAPACK's info."""
    position, info = failures[0]
    batch = f"(Batch element {position}): " if x.ndim > 2 else ""
    return LinAlgError(f"{name}: {batch}{text.format(info=info)}")


def failures(x: Array, routine: str, **options: Any) -> list[tuple[int, int]]:
    """(position, info) of the first matrix that a LAPACK routine refuses: it is known that one is."""
    return refused(x, routine, **options) or [(0, x.shape[-1])]


def refused(x: Array, routine: str, **options: Any) -> list[tuple[int, int]]:
    """(position, info) of the first matrix that a LAPACK routine refuses, if there is one."""
    host = device_of(x).asnumpy
    options = {name: host(value) if hasattr(value, "dtype") else value for name, value in options.items()}
    x = host(x)
    function = getattr(lapack, {"f": "s", "d": "d", "F": "c", "D": "z"}[x.dtype.char] + routine)
    for position, matrix in enumerate(x.reshape(-1, *x.shape[-2:])):
        info = int(function(matrix, **options)[-1])
        if info > 0:
            return [(position, info)]
    return []


# -- batches -------------------------------------------------------------------------------------------------
def call(op: Op, bound: tuple[Any, ...]) -> Any:
    """Calls an op with all its parameters in order."""
    pairs = list(zip(op.signature.parameters, bound, strict=True))
    named = {p.name: v for p, v in pairs if p.keyword_only}
    return op(*[v for p, v in pairs if not p.keyword_only], **named)


def batch_leading(op: Op, _size: int, args: tuple[Any, ...], dims: tuple[Any, ...]) -> tuple[Any, Any]:
    """For ops of one tensor that treat leading dimensions as a batch."""
    logical_result(op, args, dims)
    return call(op, (to_front(args[0], dims[0]), *args[1:])), 0


def batch_several(op: Op, _size: int, args: tuple[Any, ...], dims: tuple[Any, ...]) -> tuple[Any, Any]:
    """As `batch_leading`, for several results."""
    out = call(op, (to_front(args[0], dims[0]), *args[1:]))
    return out, (0,) * len(out)


def level(x: TensorLike, dim: int | None, rank: int) -> Any:
    """The batch in front (of size 1 where there is none) of an example of this rank."""
    value = ops.unsqueeze(x, 0) if dim is None else to_front(x, dim)
    shape = tuple(value.shape)
    gap = rank - (len(shape) - 1)
    return ops.reshape(value, (shape[0], *(1,) * gap, *shape[1:])) if gap else value


def batch_solve(op: Op, _size: int, args: tuple[Any, ...], dims: tuple[Any, ...]) -> tuple[Any, Any]:
    logical_result(op, args, dims)
    first, second = logical_type(args[0], dims[0]), logical_type(args[1], dims[1])
    vector = op is solve and is_vector(first, second)
    rank = max(first.ndim, second.ndim + vector)
    right = args[1]
    if vector:  # a last dimension that stays last
        right = ops.unsqueeze(right, -1)
    out = call(op, (level(args[0], dims[0], rank), level(right, dims[1], rank), *args[2:]))
    return (ops.squeeze(out, -1) if vector else out), 0


# -- samples -------------------------------------------------------------------------------------------------
def regular(make: Maker, *shape: int) -> Any:
    """Matrices with singular values well apart from zero and from each other."""
    matrix = make(*shape, low=-1.0, high=1.0)
    count = min(shape[-2:])
    index = np.arange(count)
    matrix[..., index, index] += (np.arange(count) * 0.7 + 1.5).astype(matrix.dtype)
    return matrix


def matrices(*shapes: tuple[int, ...], rest: tuple[Any, ...] = ()) -> Samples:
    """Matrices of full rank in these shapes."""
    return lambda make: [Sample(regular(make, *shape), *rest) for shape in shapes]


def square_samples(make: Maker) -> Iterator[Sample]:
    yield Sample(regular(make, 3, 3))
    yield Sample(regular(make, 2, 2, 2))
    yield Sample(regular(make, 1, 1))
    yield Sample(make(0, 0))
    yield Sample(make(2, 0, 0))
    yield Sample(regular(make, 3, 3).T)


# -- inverse -------------------------------------------------------------------------------------------------
def _inv(x: Array) -> Array:
    xp = namespace(x)
    try:
        return xp.linalg.inv(x)
    except np.linalg.LinAlgError:
        raise fail("linalg.inv", x, failures(x, "getrf"), NOT_INVERTIBLE) from None


def _inv_or_infinite(x: Array) -> Array:
    """As inv, with infinities for singular matrices."""
    xp = namespace(x)
    try:
        return xp.linalg.inv(x)
    except np.linalg.LinAlgError:
        singular = xp.linalg.det(x) == 0
        safe = xp.where(singular[..., None, None], xp.eye(x.shape[-1], dtype=x.dtype), x)
        return xp.where(singular[..., None, None], xp.asarray(xp.inf, dtype=x.dtype), xp.linalg.inv(safe))


def _inv_gradient(g: TensorLike, out: TensorLike) -> Any:
    return ops.neg(multiply(transposed(out), multiply(g, transposed(out))))


inv = contract(
    "inv", _inv, square_rule("inv"), MATRIX, namespace="linalg", node="LinalgInvExBackward0", amp="float32",
    out="exact", vjp=lambda g, out: _inv_gradient(g, out), samples=square_samples, batch=batch_leading,
)  # fmt: skip
inverse_or_infinite = contract(
    "inverse_or_infinite", _inv_or_infinite, square_rule("inv"), MATRIX, method=False, function=False,
    out=False, vjp=lambda g, out: _inv_gradient(g, out), samples=square_samples, batch=batch_leading,
)  # fmt: skip


# -- determinants --------------------------------------------------------------------------------------------
# Note [Gradient of det]
# The gradient of det(A) is its matrix of cofactors, which for A = U diag(s) V' is
# det(U) det(V) U diag(products of the other s) V'. That needs no division, so it holds for singular A too,
# and so does its own derivative, a form in the products of all s but two. Third and higher derivatives use
# the inverse.
def _orthogonal_parts(x: Array) -> tuple[Array, Array, Array, Array]:
    """U, s, V' (conjugated, where they are complex) and U times the sign det(U) det(V')."""
    xp = namespace(x)
    u, s, vh = xp.linalg.svd(x)
    sign = xp.linalg.det(u) * xp.linalg.det(vh)
    if x.dtype.kind == "c":
        u, vh = u.conj(), vh.conj()
    return u, s, vh, u * sign[..., None, None]


def _others(s: Array) -> Array:
    """For each element the product of the others."""
    xp = namespace(s)
    one = xp.ones_like(s[..., :1])
    before = xp.cumprod(xp.concatenate([one, s[..., :-1]], -1), -1)
    after = xp.cumprod(xp.concatenate([one, s[..., :0:-1]], -1), -1)[..., ::-1]
    return before * after


def _pairwise_others(s: Array) -> Array:
    """For each pair i != j the product of all others; zero on the diagonal."""
    xp = namespace(s)
    size = s.shape[-1]
    result = xp.zeros((*s.shape, size), s.dtype)
    one = xp.ones_like(s[..., :1])
    before = xp.cumprod(xp.concatenate([one, s[..., :-1]], -1), -1) if size else s
    after = xp.cumprod(xp.concatenate([one, s[..., :0:-1]], -1), -1)[..., ::-1] if size else s
    for i in range(size - 1):
        between = xp.cumprod(xp.concatenate([one, s[..., i + 1 : -1]], -1), -1)
        row = before[..., i, None] * between * after[..., i + 1 :]
        result[..., i, i + 1 :] = row
        result[..., i + 1 :, i] = row
    return result


def _cofactor(x: Array) -> Array:
    if not x.shape[-1]:
        return x.copy()
    _, s, vh, signed = _orthogonal_parts(x)
    return (signed * _others(s)[..., None, :]) @ vh


def _cofactor_derivative(g: Array, x: Array) -> Array:
    xp = namespace(x)
    if not x.shape[-1]:
        return x.copy()
    u, s, vh, signed = _orthogonal_parts(x)
    inner = xp.swapaxes(u, -1, -2) @ g @ xp.swapaxes(vh, -1, -2)
    weights = _pairwise_others(s)
    middle = -weights * xp.swapaxes(inner, -1, -2)
    index = xp.arange(s.shape[-1])
    middle[..., index, index] = (weights @ inner[..., index, index][..., None])[..., 0]
    return signed @ middle @ vh


def _third_derivative(h: TensorLike, g: TensorLike, x: TensorLike) -> Any:
    """Gradient at x of <h, cofactor_derivative(g, x)>, for invertible x: see Note [Gradient of det]."""
    inverse = transposed(ops.linalg_inv(x))

    def sandwich(middle: TensorLike) -> Any:
        return multiply(inverse, multiply(transposed(middle), inverse))

    def inner(y: TensorLike) -> Any:
        return ops.sum(ops.mul(inverse, y), (-2, -1), True)

    along_h, along_g = sandwich(h), sandwich(g)
    total = ops.sub(ops.mul(inner(h), inner(g)), ops.sum(ops.mul(h, along_g), (-2, -1), True))
    both = ops.add(
        multiply(along_g, multiply(transposed(h), inverse)),
        multiply(inverse, multiply(transposed(h), along_g)),
    )
    mixed = ops.sub(both, ops.add(ops.mul(along_h, inner(g)), ops.mul(along_g, inner(h))))
    scale = ops.unsqueeze(ops.unsqueeze(ops.linalg_det(x), -1), -1)
    return ops.mul(scale, ops.add(ops.mul(total, inverse), mixed))


def _batch_pair(op: Op, size: int, args: tuple[Any, ...], dims: tuple[Any, ...]) -> tuple[Any, Any]:
    rank = logical_type(args[1], dims[1]).ndim
    values = [level(v, d, rank) for v, d in zip(args, dims, strict=True)]
    shapes = [(size, *v.shape[1:]) for v in values]
    return op(*[ops.expand(v, s) for v, s in zip(values, shapes, strict=True)]), 0


cofactor_derivative: Op = contract(
    "cofactor_derivative", _cofactor_derivative, lambda g, x: square_rule("det", "lu_cpu")(x),
    "input: Tensor, A: Tensor", method=False, function=False, out=False, batch=_batch_pair,
    vjp=(lambda h, _out, _g, x: cofactor_derivative(h, x), lambda h, _out, g, x: _third_derivative(h, g, x)),
    samples=lambda make: [Sample(make(*s), regular(make, *s)) for s in ((3, 3), (2, 2, 2), (1, 1))],
)  # fmt: skip
cofactor = contract(
    "cofactor", _cofactor, square_rule("det", "lu_cpu"), MATRIX, method=False, function=False, out=False,
    vjp=lambda g, _out, x: cofactor_derivative(g, x), samples=square_samples, batch=batch_leading,
)  # fmt: skip


def _det_type(x: TensorType) -> TensorType:
    check_system(x, "det", "lu_cpu")
    return TensorType(x.shape[:-2], x.dtype, x.device)


det = contract(
    "det", lambda x: namespace(x).linalg.det(x), _det_type, MATRIX, namespace="linalg",
    node="LinalgDetBackward0", out="exact",
    vjp=lambda g, _out, x: ops.mul(ops.unsqueeze(ops.unsqueeze(g, -1), -1), cofactor(x)),
    samples=square_samples, batch=batch_leading,
)  # fmt: skip


def _slogdet_type(x: TensorType) -> tuple[TensorType, TensorType]:
    check_system(x, "slogdet")
    return TensorType(x.shape[:-2], x.dtype, x.device), TensorType(x.shape[:-2], x.dtype.to_real(), x.device)


def _slogdet_gradient(g: tuple[Any, Any], out: Sequence[TensorLike], x: TensorLike) -> Any:
    """The sign of a real determinant is a step; that of a complex one turns with it."""
    size = g[1]
    if type_of(x).dtype.is_complex and g[0] is not None:
        turn = ops.mul(ops.imag(ops.mul(g[0], ops.conj(out[0]))), 1j)
        size = turn if size is None else ops.add(size, turn)
    if size is None:
        return None
    return ops.mul(ops.unsqueeze(ops.unsqueeze(size, -1), -1), adjoint(inverse_or_infinite(x)))


slogdet = contract(
    "slogdet", lambda x: tuple(map(as_array, namespace(x).linalg.slogdet(x))), _slogdet_type, MATRIX,
    namespace="linalg", node="LinalgSlogdetBackward0", returns=SLOGDET, out="exact", vjp=_slogdet_gradient,
    conjugates=True,
    samples=square_samples, batch=batch_leading,
)  # fmt: skip


# -- linear systems ------------------------------------------------------------------------------------------
def is_vector(a: TensorType, b: TensorType) -> bool:
    """Whether the right-hand side is (a batch of) vectors rather than matrices."""
    return b.ndim == 1 or (a.ndim - 1 == b.ndim and b.shape == a.shape[:-1])


def _solve_type(a: TensorType, b: TensorType, left: bool) -> TensorType:
    check_system(a, "solve", "lu_cpu")
    check_same_dtype("solve", a, b)
    vector = is_vector(a, b)
    return _system_type(
        "solve", a, TensorType((*b.shape, 1), b.dtype, b.device) if vector else b, left, vector
    )


def _system_type(name: str, a: TensorType, b: TensorType, left: bool, vector: bool) -> TensorType:
    check_matrix(b, name, "B")
    rows = b.shape[-2] if left else b.shape[-1]
    if rows != a.shape[-1]:
        raise RuntimeError(
            f"linalg.{name}: Incompatible shapes of A and B for the equation "
            f"{'AX = B' if left else 'XA = B'} "
            f"({a.shape[-2]}x{a.shape[-1]} and {b.shape[-2]}x{b.shape[-1]})"
        )
    lead = broadcast_shapes(b.shape[:-2], a.shape[:-2])
    return TensorType(lead + (b.shape[-2:-1] if vector else b.shape[-2:]), b.dtype, common_device([a, b]))


def _solve(a: Array, b: Array, left: bool) -> Array:
    xp = namespace(a)
    vector = is_vector(type_of(a), type_of(b))
    if vector:
        b = b[..., None]
    matrix, right = (a, b) if left else (xp.swapaxes(a, -1, -2), xp.swapaxes(b, -1, -2))
    if not right.size or not matrix.size:
        lead = np.broadcast_shapes(matrix.shape[:-2], right.shape[:-2])
        out = xp.zeros(lead + right.shape[-2:], a.dtype)
    else:
        try:
            out = xp.linalg.solve(matrix, right)
        except np.linalg.LinAlgError:
            raise fail(named("weft.linalg.solve"), a, failures(a, "getrf"), NOT_SOLVABLE) from None
    out = out if left else xp.swapaxes(out, -1, -2)
    return out[..., 0] if vector else out


def _solve_right(g: TensorLike, _out: object, a: TensorLike, _b: TensorType, left: bool) -> Any:
    vector = is_vector(type_of(a), _b)
    g = ops.unsqueeze(g, -1) if vector else g
    gradient = linalg_solve(transposed(a), g, left)
    return reduced(ops.squeeze(gradient, -1) if vector else gradient, _b.shape)


def linalg_solve(a: TensorLike, b: TensorLike, left: bool) -> Any:
    """`solve` of matrices only: where a batch of them could be taken for vectors, a dimension of size 1 goes
    in front.
    """
    if is_vector(type_of(a), type_of(b)):
        b = ops.unsqueeze(b, 0)
        out = solve(a, b, left=left)
        return out
    return solve(a, b, left=left)


def _solve_left(g: TensorLike, out: TensorLike, a: TensorLike, _b: TensorType, left: bool) -> Any:
    vector = is_vector(type_of(a), _b)
    g, x = (ops.unsqueeze(g, -1), ops.unsqueeze(out, -1)) if vector else (g, out)
    inner = linalg_solve(transposed(a), g, left)
    product = multiply(inner, transposed(x)) if left else multiply(transposed(x), inner)
    return reduced(ops.neg(product), tuple(a.shape))


def _solve_samples(make: Maker) -> Iterator[Sample]:
    yield Sample(regular(make, 3, 3), make(3, 2))
    yield Sample(regular(make, 3, 3), make(3))
    yield Sample(regular(make, 2, 3, 3), make(2, 3))
    yield Sample(regular(make, 2, 1, 2, 2), make(2, 2, 3))
    yield Sample(regular(make, 3, 3), make(2, 3), left=False)
    yield Sample(make(0, 0), make(0, 2))
    yield Sample(regular(make, 2, 2), make(2, 0))


solve = contract(
    "solve", _solve, _solve_type, "A: Tensor, B: Tensor, *, left: bool = True", namespace="linalg",
    node="LinalgSolveExBackward0", amp="float32", out="exact", vjp=(_solve_left, _solve_right),
    samples=_solve_samples, batch=batch_solve,
)  # fmt: skip


def _triangular_type(
    a: TensorType, b: TensorType, upper: bool, left: bool, unitriangular: bool
) -> TensorType:
    check_square(a, "solve_triangular")
    result = _system_type("solve_triangular", a, b, left, False)
    check_lapack(a, "triangular_solve_cpu")
    check_same_dtype("solve_triangular", a, b)
    return result


def _solve_triangular(a: Array, b: Array, upper: bool, left: bool, unitriangular: bool) -> Array:
    xp = namespace(a)
    if not left:
        out = _solve_triangular(
            xp.swapaxes(a, -1, -2), xp.swapaxes(b, -1, -2), not upper, True, unitriangular
        )
        return xp.swapaxes(out, -1, -2)
    lead = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    size, columns = b.shape[-2:]
    count = prod(lead)
    if not count or not size or not columns:
        return xp.zeros((*lead, size, columns), b.dtype)
    if count > size or xp is not np:
        return _substitute(xp, a, b, lead, upper, unitriangular)
    function = getattr(blas, {"f": "s", "d": "d", "F": "c", "D": "z"}[a.dtype.char] + "trsm")
    made: Array = xp.empty((count, size, columns), b.dtype)
    pairs = zip(
        *(xp.broadcast_to(v, lead + v.shape[-2:]).reshape(count, *v.shape[-2:]) for v in (a, b)), strict=True
    )
    for position, (matrix, right) in enumerate(pairs):
        made[position] = function(1.0, matrix.T, right, lower=int(upper), trans_a=1, diag=int(unitriangular))
    return made.reshape(*lead, size, columns)


def _substitute(
    xp: ArrayModule, a: Array, b: Array, lead: tuple[int, ...], upper: bool, unitriangular: bool
) -> Array:
    """Row by row, for all matrices of a large batch at once."""
    size, columns = b.shape[-2:]
    out = xp.array(xp.broadcast_to(b, (*lead, size, columns)), order="C")
    for row in reversed(range(size)) if upper else range(size):
        known = slice(row + 1, size) if upper else slice(0, row)
        out[..., row, :] -= (a[..., row, None, known] @ out[..., known, :])[..., 0, :]
        if not unitriangular:
            out[..., row, :] /= a[..., row, row, None]
    return out


def _triangular_right(
    g: TensorLike, _out: object, a: TensorLike, _b: TensorType, upper: bool, left: bool, unitriangular: bool
) -> Any:
    gradient = solve_triangular(transposed(a), g, upper=not upper, left=left, unitriangular=unitriangular)
    return reduced(gradient, _b.shape)


def _triangular_left(
    g: TensorLike, out: TensorLike, a: TensorLike, _b: object, upper: bool, left: bool, unitriangular: bool
) -> Any:
    inner = solve_triangular(transposed(a), g, upper=not upper, left=left, unitriangular=unitriangular)
    product = ops.neg(multiply(inner, transposed(out)) if left else multiply(transposed(out), inner))
    product = ops.triu(product, int(unitriangular)) if upper else ops.tril(product, -int(unitriangular))
    return reduced(product, tuple(a.shape))


def _triangular_samples(make: Maker) -> Iterator[Sample]:
    yield Sample(regular(make, 3, 3), make(3, 2), upper=True)
    yield Sample(regular(make, 3, 3), make(3, 2), upper=False)
    yield Sample(regular(make, 3, 3), make(2, 3), upper=True, left=False)
    yield Sample(regular(make, 2, 2), make(4, 2, 2), upper=False, unitriangular=True)
    yield Sample(regular(make, 5, 2, 2), make(2, 1), upper=True)
    yield Sample(make(0, 0), make(0, 2), upper=True)


solve_triangular = contract(
    "solve_triangular", _solve_triangular, _triangular_type,
    "A: Tensor, B: Tensor, *, upper: bool, left: bool = True, unitriangular: bool = False",
    namespace="linalg", node="LinalgSolveTriangularBackward0", out="exact",
    vjp=(_triangular_left, _triangular_right), samples=_triangular_samples, batch=batch_solve,
)  # fmt: skip


# -- powers, exponentials, chains ----------------------------------------------------------------------------
def _identity(x: Array) -> Array:
    xp = namespace(x)
    return xp.array(xp.broadcast_to(xp.eye(x.shape[-1], dtype=x.dtype), x.shape))


identity_like = contract(
    "identity_like", _identity, lambda x: x, "input: Tensor", method=False, function=False, out=False,
    vjp=lambda g: None, batch=batch_leading,
    samples=lambda make: [Sample(make(2, 2), grad=False), Sample(make(3, 0, 0), grad=False)],
    refuses="nothing", lowering="indexing",
)  # fmt: skip


def _power_samples(make: Maker) -> Iterator[Sample]:
    for n in (0, 1, 2, 3, 5, -1, -2):
        yield Sample(regular(make, 2, 2), n)
    yield Sample(regular(make, 2, 2, 2), 3)


@composite("A: Tensor, n: int", namespace="linalg", out="exact", samples=_power_samples)
def matrix_power(A: TensorLike, n: int) -> Any:
    """The n-th power of square matrices, by repeated squaring; negative powers are those of the inverse."""
    check_square(type_of(A), "matrix_power")
    if not isinstance(n, int) or isinstance(n, bool):
        raise TypeError(
            f"linalg_matrix_power(): argument 'n' (position 2) must be int, not {type(n).__name__}"
        )
    if n == 0:
        return identity_like(A)
    base = ops.linalg_inv(A) if n < 0 else A
    power = abs(n)
    if power == 1:
        return base if n < 0 else ops.clone(base)
    total = None
    while power:
        if power & 1:
            total = base if total is None else ops.matmul(total, base)
        power >>= 1
        if power:
            base = ops.matmul(base, base)
    return total


PADE = (
    64764752532480000.0, 32382376266240000.0, 7771770303897600.0, 1187353796428800.0, 129060195264000.0,
    10559470521600.0,
    670442572800.0, 33522128640.0, 1323241920.0, 40840800.0, 960960.0, 16380.0, 182.0, 1.0,
)  # fmt: skip
"""Coefficients of the diagonal Padé approximant of exp of degree 13."""
PADE_RADIUS = 5.371920351148152  # the 1-norm up to which it is exact in double precision


def _matrix_exp_type(x: TensorType) -> TensorType:
    check_square(x, "matrix_exp")
    if x.dtype.category < dtypes.FLOAT:
        check_floating(x, "matrix_exp")
    return x


def _matrix_exp(x: Array) -> Array:
    """Scaling and squaring in double precision, all matrices of the batch at once."""
    xp = namespace(x)
    if not x.size:
        return x.copy()
    a = x.astype(xp.complex128 if x.dtype.kind == "c" else xp.float64)
    norm = xp.abs(a).sum(-2).max(-1)
    scale = xp.where(xp.isfinite(norm), xp.ceil(xp.log2(xp.maximum(norm, PADE_RADIUS) / PADE_RADIUS)), 0)
    a = a / xp.exp2(scale)[..., None, None]
    one = xp.eye(x.shape[-1], dtype=a.dtype)
    a2 = a @ a
    a4 = a2 @ a2
    a6 = a4 @ a2
    b = PADE
    odd = a @ (a6 @ (b[13] * a6 + b[11] * a4 + b[9] * a2) + b[7] * a6 + b[5] * a4 + b[3] * a2 + b[1] * one)
    even = a6 @ (b[12] * a6 + b[10] * a4 + b[8] * a2) + b[6] * a6 + b[4] * a4 + b[2] * a2 + b[0] * one
    out = xp.linalg.solve(even - odd, even + odd)
    for step in range(int(scale.max())):
        out = xp.where((scale > step)[..., None, None], out @ out, out)
    return out.astype(x.dtype)


def _matrix_exp_gradient(g: TensorLike, _out: object, x: TensorLike) -> Any:
    """exp of [[A', G], [0, A']] holds the derivative of exp at A' along G in its corner."""
    size = x.shape[-1]
    flipped = transposed(x)
    top = ops.cat([flipped, g], -1)
    bottom = ops.cat([ops.zeros_like(flipped), flipped], -1)
    whole = matrix_exp(ops.cat([top, bottom], -2))
    return ops.narrow(ops.narrow(whole, -2, 0, size), -1, size, size)


matrix_exp = contract(
    "matrix_exp", _matrix_exp, _matrix_exp_type, MATRIX, namespace="linalg", node="LinalgMatrixExpBackward0",
    vjp=_matrix_exp_gradient, samples=square_samples, batch=batch_leading,
)  # fmt: skip


def _check_chain(tensors: Sequence[TensorLike]) -> None:
    count = len(tensors)
    if count < 2:
        raise RuntimeError(f"multi_dot(): expected at least 2 tensors but got {count}")
    kind = type_of(tensors[0]).dtype
    for position, tensor in enumerate(tensors):
        rank = len(tensor.shape)
        if position in (0, count - 1):
            if rank not in (1, 2):
                which = "first" if position == 0 else "last"
                raise RuntimeError(f"multi_dot(): the {which} tensor must be 1D or 2D but got {rank}D")
        elif rank != 2:
            raise RuntimeError(f"multi_dot(): tensor {position} must be 2D but got {rank}D")
    for position, tensor in enumerate(tensors):
        other = type_of(tensor).dtype
        if other is not kind:
            raise RuntimeError(
                f"multi_dot(): all tensors must have be the same dtype but tensor 0 is {kind.cpp_name} and "
                f"tensor {position} "
                f"{other.cpp_name}"
            )
    for position in range(count - 1):
        left, right = tuple(tensors[position].shape), tuple(tensors[position + 1].shape)
        if left[-1] != right[0]:
            raise RuntimeError(
                f"multi_dot(): tensors {position} and {position + 1} with shapes {list(left)} and "
                f"{list(right)} cannot be "
                "multiplied"
            )


def _chain_splits(sizes: list[int]) -> list[list[int]]:
    """Where to split each part of a chain of matrices so that the products cost least."""
    count = len(sizes) - 1
    cost = [[0] * count for _ in range(count)]
    split = [[0] * count for _ in range(count)]
    for width in range(1, count):
        for i in range(count - width):
            j = i + width
            options = [
                cost[i][k] + cost[k + 1][j] + sizes[i] * sizes[k + 1] * sizes[j + 1] for k in range(i, j)
            ]
            cost[i][j] = min(options)
            split[i][j] = i + options.index(cost[i][j])
    return split


def _chain_samples(make: Maker) -> Iterator[Sample]:
    yield Sample([make(2, 3), make(3, 4)])
    yield Sample([make(2, 3), make(3, 1), make(1, 4), make(4, 2)])
    yield Sample([make(3), make(3, 2), make(2)])
    yield Sample([make(3), make(3)])
    yield Sample([make(0, 3), make(3, 2), make(2, 2)])


@composite("tensors: Tensors", namespace="linalg", out="exact", samples=_chain_samples)
def multi_dot(tensors: Sequence[TensorLike]) -> Any:
    """The product of two or more matrices in the cheapest order; the first and the last may be vectors."""
    _check_chain(tensors)
    if len(tensors) == 2:
        return ops.matmul(tensors[0], tensors[1])
    first, last = len(tensors[0].shape), len(tensors[-1].shape)
    chain = list(tensors)
    if first == 1:
        chain[0] = ops.unsqueeze(chain[0], 0)
    if last == 1:
        chain[-1] = ops.unsqueeze(chain[-1], -1)
    split = _chain_splits([chain[0].shape[0], *(t.shape[1] for t in chain)])

    def run(i: int, j: int) -> Any:
        if i == j:
            return chain[i]
        middle = split[i][j]
        return ops.mm(run(i, middle), run(middle + 1, j))

    out = run(0, len(chain) - 1)
    if last == 1:
        out = ops.squeeze(out, -1)
    return ops.squeeze(out, 0) if first == 1 else out


def _vecdot_samples(make: Maker) -> Iterator[Sample]:
    yield Sample(make(2, 3), make(2, 3))
    yield Sample(make(3, 2), make(3, 1), dim=0)
    yield Sample(make(3), make(2, 3))
    yield Sample(make(), make())


@composite(
    "x: Tensor, y: Tensor, *, dim: Dim = -1", namespace="linalg", out="exact",
    samples=_vecdot_samples, amp="lower",
)  # fmt: skip
def vecdot(x: TensorLike, y: TensorLike, dim: int) -> Any:
    """The dot product along a dimension, with broadcasting; the first argument is conjugated."""
    first, second = type_of(x), type_of(y)
    if first.dtype.category < dtypes.FLOAT:
        check_floating(first, "vecdot")
    if first.dtype is not second.dtype:
        raise RuntimeError(
            "linalg.vecdot: Expected x and y to have the same dtype, but found x of type "
            f"{first.dtype.scalar_name} and y of "
            f"type {second.dtype.scalar_name} instead"
        )
    return ops.sum(ops.mul(ops.conj(x) if first.dtype.is_complex else x, y), dim)


@composite(
    "A: Tensor, *, offset: int = 0, dim1: int = -2, dim2: int = -1",
    namespace="linalg",
    samples=square_samples,
)
def diagonal(A: TensorLike, offset: int, dim1: int, dim2: int) -> Any:
    """The diagonals of matrices, as a view."""
    return ops.diagonal(A, offset, dim1, dim2)


# -- the same under their older names ------------------------------------------------------------------------
def _plain(
    op: Op, doc: str, samples: Samples = square_samples, signature: str = "input: Tensor", **facts: Any
) -> Op:
    """The op outside `linalg`."""
    facts = {"out": "exact", "doc": doc} | facts
    return composite(signature, op.name, samples=samples, **facts)(lambda *args: op(*args))


_plain(det, "The determinant of square matrices.", out=False)
_plain(matrix_exp, "The exponential of square matrices.", out=False)
_plain(matrix_power, "The n-th power of square matrices.", _power_samples, "input: Tensor, n: int")


@composite("input: Tensor", name="inverse", out="exact", samples=square_samples)
def inverse(input: TensorLike) -> Any:
    """The inverse of square matrices."""
    return inv(input)


@composite("input: Tensor", name="slogdet", out="exact", returns=OLD_SLOGDET, samples=square_samples)
def _slogdet(input: TensorLike) -> Any:
    """Sign and logarithm of the absolute value of the determinant."""
    return OLD_SLOGDET(*slogdet(input))


@composite(
    "*matrices: Tensors", name="chain_matmul", method=False, out="exact",
    samples=lambda make: [Sample(make(2, 3), make(3, 1), make(1, 4))],
)  # fmt: skip
def chain_matmul(matrices: Sequence[TensorLike]) -> Any:
    """The product of matrices in the cheapest order."""
    if len(matrices) == 1:
        return matrices[0]
    return multi_dot(list(matrices))
