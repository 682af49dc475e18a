"""Norms of vectors and matrices, and condition numbers.

Takes tensors, an order and dimensions; gives norms with PyTorch's subgradients (zero at zero, shared between
ties). One idea: `vector_norm` is the only kernel; matrix norms are vector norms, maxima and singular values
in turn.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import inf
from typing import Any

from weft.core import dtypes
from weft.core.arrays import Array, as_array, namespace, row_major
from weft.core.dims import wrap_dim
from weft.core.dtypes import as_dtype
from weft.core.types import TensorType
from weft.ops.families import composite, reduce
from weft.ops.linalg import check_floating, check_matrix, inverse_or_infinite, regular
from weft.ops.record import ops, type_of
from weft.ops.reduce import dims_of, fold_sum, reduced_shape, restore, wide
from weft.ops.samples import Maker, Sample
from weft.ops.values import Dims, DType, MaybeTensor, Number, TensorLike


# -- vectors -------------------------------------------------------------------------------------------------
def _check_dtype(name: str, x: TensorType, kind: DType) -> dtypes.dtype:
    """The dtype a norm computes in."""
    if kind is None:
        if x.dtype.category < dtypes.FLOAT:
            check_floating(x, name)
        return x.dtype
    wanted = as_dtype(kind)
    if wanted.category < dtypes.FLOAT:
        raise RuntimeError(
            f"linalg.{name}: dtype should be floating point or complex, but got {wanted.scalar_name}"
        )
    if wanted.is_complex is not x.dtype.is_complex:
        word = "complex" if x.dtype.is_complex else "real"
        raise RuntimeError(
            f"linalg.{name}: dtype should be {word} for {word} inputs, but got {wanted.scalar_name}"
        )
    if dtypes.promote_types(x.dtype, wanted) is not wanted:
        raise RuntimeError(
            f"linalg.{name}: the dtype of the input ({x.dtype.scalar_name}) should be convertible without "
            "narrowing to the "
            f"specified dtype ({wanted.scalar_name})"
        )
    return wanted


def _order_text(order: float) -> str:
    return f"{order:g}"


def _vector_norm_type(x: TensorType, order: Number, dim: Dims, keepdim: bool, kind: DType) -> TensorType:
    if isinstance(order, str) or not isinstance(order, (int, float)):
        raise TypeError(
            f"linalg_vector_norm(): argument 'ord' (position 2) must be Number, not {type(order).__name__}"
        )
    computed = _check_dtype("vector_norm", x, kind)
    dims = dims_of(dim, x.ndim)
    if not x.numel() and (order < 0 or order == inf):
        _check_empty(x, order, dim, dims)
    return TensorType(reduced_shape(x.shape, dims, keepdim), computed.to_real(), x.device)


def _check_empty(x: TensorType, order: float, dim: Dims, dims: tuple[int, ...]) -> None:
    reason = "because the operation does not have an identity"
    if dim is None or dim == () or len(dims) == x.ndim:
        raise RuntimeError(
            f"linalg.vector_norm cannot compute the {_order_text(order)} norm on an empty tensor {reason}"
        )
    for d in dims:
        if not x.shape[d]:
            raise RuntimeError(
                f"linalg.vector_norm cannot compute the {_order_text(order)} norm on the dimension "
                f"{d}because this "
                "dimension is empty and the operation does not have an identity"
            )


def _vector_norm(x: Array, order: Number, dim: Dims, keepdim: bool, kind: DType) -> Array:
    xp = namespace(x)
    if kind is not None or not x.size or x.dtype.kind in "iub" or not isinstance(order, (int, float)):
        result = _vector_norm_type(type_of(x), order, dim, keepdim, kind).dtype.numpy
        x = x if kind is None else x.astype(as_dtype(kind).numpy)
    else:
        result = x.real.dtype if x.dtype.kind == "c" else x.dtype
    x = wide(x)
    axes = dims_of(dim, x.ndim)
    carrier = x.real.dtype
    if order == 2:
        squares = x.real * x.real + x.imag * x.imag if x.dtype.kind == "c" else x * x
        out = xp.sqrt(fold_sum(squares, axes, keepdim, carrier))
    elif order == 0:
        out = fold_sum((x != 0).astype(carrier), axes, keepdim, carrier)
    elif order == inf:
        out = row_major(as_array(xp.max(xp.abs(x), axes, keepdims=keepdim)))
    elif order == -inf:
        out = row_major(as_array(xp.min(xp.abs(x), axes, keepdims=keepdim)))
    elif order == 1:
        out = fold_sum(xp.abs(x), axes, keepdim, carrier)
    else:
        power = carrier.type(order)
        out = fold_sum(xp.abs(x) ** power, axes, keepdim, carrier) ** carrier.type(1 / order)
    return xp.asarray(out).astype(result, copy=False)


def _vector_norm_gradient(
    g: TensorLike, out: TensorLike, x: TensorLike, order: float, dim: Dims, keepdim: bool, kind: DType
) -> Any:
    """Elements of zero vectors, and zeros where the slope is infinite, get gradient 0. Gradients of that are
    NaN where vectors are zero, as PyTorch's: there are none.
    """
    if order == 0:
        return None
    like = type_of(x)
    if kind is not None and like.dtype is not as_dtype(kind):
        x = ops._to_copy(x, as_dtype(kind))
    g, norm = restore(g, like, dim, keepdim), restore(out, like, dim, keepdim)
    if order == 1:
        return ops.mul(g, ops.sgn(x))
    if order == 2:
        return ops.mul(g, ops.masked_fill(ops.div(x, norm), ops.eq(norm, 0), 0))
    size = ops.abs(x)
    if order in (inf, -inf):
        hits = ops._to_copy(ops.eq(size, norm), type_of(norm).dtype)
        count = _no_zeros(ops.sum(hits, dims_of(dim, like.ndim), True)) if like.ndim else hits
        return ops.mul(ops.sgn(x), ops.mul(hits, ops.div(g, count)))
    if order < 1:
        slope = ops.mul(ops.sgn(x), ops.masked_fill(ops.pow(size, order - 1), ops.eq(size, 0), 0))
        return ops.mul(ops.mul(slope, g), ops.pow(norm, 1 - order))
    if order < 2:
        slope = ops.mul(ops.sgn(x), ops.pow(size, order - 1))
    else:
        slope = ops.mul(x, ops.pow(size, order - 2))
    scale = ops.masked_fill(ops.div(g, ops.pow(norm, order - 1)), ops.eq(norm, 0), 0)
    return ops.mul(slope, scale)


def _vector_norm_direction(
    tangents: tuple[Any, ...],
    out: TensorLike,
    x: TensorLike,
    order: float,
    dim: Dims,
    keepdim: bool,
    kind: DType,
) -> Any:
    """Like the gradient's, zeros do not move; what they are divided by is masked first, so that gradients of
    this, which are what forward over reverse mode computes, are zero there too.
    """
    if order == 0:
        return None
    like, tangent = type_of(x), tangents[0]
    if kind is not None and like.dtype is not as_dtype(kind):
        x, tangent = ops._to_copy(x, as_dtype(kind)), ops._to_copy(tangent, as_dtype(kind))

    def total(weights: MaybeTensor, along: TensorLike) -> Any:
        """The sum of the direction's parts along these numbers, weighted."""
        parts = ops.mul(along, tangent)
        if like.dtype.is_complex:
            parts = ops.real(ops.mul(ops.conj(along), tangent))
        return ops.sum(parts if weights is None else ops.mul(weights, parts), dim, keepdim)

    if order == 1:
        return total(None, ops.sgn(x))
    if order == 2:
        return ops.div(total(None, x), ops.masked_fill(out, ops.eq(out, 0), inf))
    size = ops.abs(x)
    if order in (inf, -inf):
        hits = ops._to_copy(ops.eq(size, restore(out, like, dim, keepdim)), type_of(out).dtype)
        return ops.div(total(hits, ops.sgn(x)), _no_zeros(ops.sum(hits, dim, keepdim)))
    if order < 1:
        weights = ops.pow(ops.masked_fill(size, ops.eq(size, 0), inf), order - 1)
        return ops.mul(total(weights, ops.sgn(x)), ops.pow(out, 1 - order))
    if order < 2:
        moved = total(ops.pow(size, order - 1), ops.sgn(x))
    else:
        moved = total(ops.pow(size, order - 2), x)
    return ops.div(moved, ops.masked_fill(ops.pow(out, order - 1), ops.eq(out, 0), inf))


def _no_zeros(x: TensorLike) -> Any:
    """The values with 1 for 0: what is divided by them is zero there."""
    return ops.masked_fill(x, ops.eq(x, 0), 1)


def _vector_samples(make: Maker) -> Iterator[Sample]:
    def away(*shape: int) -> Any:
        return make.distinct(*shape) if shape else make(low=0.5, high=2.0)

    for order in (2, 1, 3, 0.5, -1, inf, -inf):
        yield Sample(away(2, 3), order)
        yield Sample(away(2, 3), order, dim=1, keepdim=True)
    yield Sample(away(2, 3), 0, grad=False)
    yield Sample(away(), 2)
    yield Sample(make(0, 3), 2)
    yield Sample(away(2, 3, 2), 2, dim=(0, 2))
    yield Sample(away(3, 2).T, 1.5, dim=-2)
    yield Sample(away(2, 3), 2, dtype=dtypes.float64)


vector_norm = reduce(
    "vector_norm", _vector_norm, _vector_norm_type,
    "x: Tensor, ord: Number = 2, dim: Dims = None, keepdim: bool = False, *, dtype: DType = None",
    namespace="linalg", node="LinalgVectorNormBackward0", out="exact", trusted=True,
    vjp=_vector_norm_gradient, jvp=_vector_norm_direction, conjugates=True, samples=_vector_samples,
    refuses="nothing", lowering="extremes",
)  # fmt: skip


# -- matrices ------------------------------------------------------------------------------------------------
def _matrix_dims(x: TensorType, dim: Dims) -> tuple[int, int]:
    dims = tuple(dim) if isinstance(dim, (tuple, list)) else (dim,)
    if len(dims) != 2:
        raise RuntimeError(f"linalg.matrix_norm: dim must be a 2-tuple. Got {' '.join(map(str, dims))}")
    first, second = wrap_dim(dims[0], x.ndim), wrap_dim(dims[1], x.ndim)
    if first == second:
        raise RuntimeError(f"linalg.matrix_norm: dims must be different. Got ({dims[0]}, {dims[1]})")
    return first, second


def _check_order(order: float | str) -> None:
    known = ("fro", "nuc") if isinstance(order, str) else (1, -1, 2, -2, inf, -inf)
    if order not in known:
        text = order if isinstance(order, str) else _order_text(order)
        raise RuntimeError(f"linalg.matrix_norm: Order {text} not supported.")


def _dropped(x: TensorLike, dims: tuple[int, ...], keepdim: bool) -> Any:
    """Without the dimensions of size 1 at these places, unless they are kept."""
    return x if keepdim else ops.reshape(x, tuple(n for i, n in enumerate(x.shape) if i not in dims))


def _extreme(x: TensorLike, order: Any, dim: int) -> Any:
    """The largest (or for a negative order smallest) along one dimension, kept; the largest of nothing is
    0.
    """
    if order < 0:
        return ops.amin(x, dim, True)
    return ops.amax(x, dim, True) if x.shape[dim] else ops.sum(x, dim, True)


def _singular_norm(x: TensorLike, order: Any, dims: tuple[int, int], keepdim: bool) -> Any:
    rank = len(x.shape)
    others = tuple(i for i in range(rank) if i not in dims)
    values = ops.linalg_svdvals(ops.permute(x, (*others, *dims)))
    out = ops.sum(values, -1, True) if order == "nuc" else _extreme(values, order, -1)
    if not keepdim:
        return ops.squeeze(out, -1)
    order_back = [0] * rank
    for position, dim in enumerate((*others, *dims)):
        order_back[dim] = position
    return ops.permute(ops.unsqueeze(out, -1), tuple(order_back))


def _matrix_samples(make: Maker) -> Iterator[Sample]:
    for order in ("fro", "nuc", 1, -1, 2, -2, inf, -inf):
        yield Sample(regular(make, 2, 3), order)
        yield Sample(regular(make, 2, 2, 2), order, dim=(0, 2), keepdim=True)
    yield Sample(make(0, 2))
    yield Sample(regular(make, 2, 2), dtype=dtypes.float64)


@composite(
    "A: Tensor, ord: Any = 'fro', dim: Any = (-2, -1), keepdim: bool = False, *, dtype: DType = None",
    namespace="linalg", out="exact", samples=_matrix_samples,
)  # fmt: skip
def matrix_norm(A: TensorLike, ord: float | str, dim: Dims, keepdim: bool, dtype: DType) -> Any:
    """A norm of matrices: "fro", "nuc", 1, 2, inf and the negative orders (smallest instead of largest)."""
    like = type_of(A)
    check_matrix(like, "matrix_norm")
    dims = _matrix_dims(like, dim)
    _check_order(ord)
    kind = _check_dtype("matrix_norm", like, dtype)
    if ord == "fro":
        return vector_norm(A, 2, dims, keepdim, dtype=dtype)
    if ord in ("nuc", 2, -2):
        check_floating(TensorType((), kind), "matrix_norm")
        return _singular_norm(A if kind is like.dtype else ops._to_copy(A, kind), ord, dims, keepdim)
    summed, other = dims if ord in (1, -1) else dims[::-1]
    totals = vector_norm(A, 1, (summed,), True, dtype=dtype)
    return _dropped(_extreme(totals, ord, other), dims, keepdim)


def _norm_samples(make: Maker) -> Iterator[Sample]:
    yield Sample(make.distinct(2, 3))
    yield Sample(make.distinct(2, 3, 2))
    yield Sample(make.distinct(3), 3)
    yield Sample(regular(make, 2, 3), "nuc")
    yield Sample(make.distinct(2, 3, 2), 1, (0, 2))
    yield Sample(make.distinct(2, 3), inf, 1, True)
    yield Sample(make(low=0.5))


@composite(
    "input: Tensor, ord: Any = None, dim: Any = None, keepdim: bool = False, *, dtype: DType = None",
    namespace="linalg", out="exact", samples=_norm_samples,
)  # fmt: skip
def norm(input: TensorLike, ord: float | str | None, dim: Dims, keepdim: bool, dtype: DType) -> Any:
    """A vector norm or, for two dimensions or an order with a name, a matrix norm."""
    rank = len(input.shape)
    dims = None if dim is None else (dim,) if isinstance(dim, int) else tuple(dim)
    if dims is not None and len(dims) not in (1, 2):
        raise RuntimeError(f"linalg.norm: If dim is specified, it must be of length 1 or 2. Got {list(dims)}")
    if dims is None and ord is not None and rank not in (1, 2):
        raise RuntimeError(
            f"linalg.norm: If dim is not specified but ord is, the input must be 1D or 2D. Got {rank}D."
        )
    if isinstance(ord, str):
        if dims is None:
            dims = (0, 1) if rank == 2 else (-2, -1)
        return matrix_norm(input, ord, dims, keepdim, dtype=dtype)
    if ord is not None and (len(dims) == 2 if dims is not None else rank == 2):
        return matrix_norm(input, ord, (0, 1) if dims is None else dims, keepdim, dtype=dtype)
    return vector_norm(input, 2 if ord is None else ord, dims, keepdim, dtype=dtype)


def _cond_samples(make: Maker) -> Iterator[Sample]:
    for order in (None, 2, -2, "fro", "nuc", 1, inf, -inf):
        yield Sample(regular(make, 3, 3), order)
    yield Sample(regular(make, 2, 3, 2))
    yield Sample(make(2, 0, 0))


@composite("A: Tensor, p: Any = None", namespace="linalg", out=True, samples=_cond_samples)
def cond(A: TensorLike, p: float | str | None) -> Any:
    """The condition number with respect to a matrix norm; infinite for singular matrices."""
    like = type_of(A)
    if like.ndim < 2:
        raise RuntimeError("linalg.cond: The input tensor must have at least 2 dimensions.")
    if p not in (None, "fro", "nuc", 1, -1, 2, -2, inf, -inf):
        text = p if isinstance(p, str) else _order_text(p)
        raise RuntimeError(f"linalg.cond got an invalid norm type: {text}")
    if not like.numel():
        kind = like.dtype if like.dtype.category >= dtypes.FLOAT else dtypes.get_default_dtype()
        return ops.new_zeros(A, like.shape[:-2], dtype=kind.to_real())
    if p is None or p in (2, -2):
        values = ops.linalg_svdvals(A)
        first, last = ops.select(values, -1, 0), ops.select(values, -1, -1)
        return ops.div(last, first) if p == -2 else ops.div(first, last)
    if like.shape[-1] != like.shape[-2]:
        raise RuntimeError(
            f"linalg.cond(ord={p if isinstance(p, str) else _order_text(p)}): A must be batches of square "
            "matrices, but they are "
            f"{like.shape[-2]} by {like.shape[-1]} matrices"
        )
    inverse = inverse_or_infinite(A)
    singular = ops.isinf(ops.select(ops.select(inverse, -1, 0), -1, 0))
    inverse = ops.masked_fill(inverse, ops.isinf(inverse), 0)  # infinities have no singular values
    out = ops.mul(matrix_norm(A, p), matrix_norm(inverse, p))
    return ops.masked_fill(out, ops.logical_or(singular, ops.isnan(out)), inf)
