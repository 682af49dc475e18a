"""Reductions: sums, products, extremes and truth over dimensions.

Takes arrays and dimensions (None or an empty tuple: all of them), gives folded arrays. Half types accumulate
in float32; float32 sums along strided dimensions run in blocks, so that their error does not grow with the
count. `dims_of`, `kept_shape` and their kin serve every other module that folds dimensions.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import prod as product
from typing import Any, Final, cast

import numpy as np

from weft.core import dtypes
from weft.core.arrays import NUMPY, Array, ArrayFunction, namespace, row_major
from weft.core.dims import wrap_dim, wrap_dims
from weft.core.dtypes import BY_NUMPY, HALF_CHARS, as_dtype, dtype, float32
from weft.core.types import TensorType
from weft.ops.batching import logical_type, spread_to
from weft.ops.facts import OpFacts
from weft.ops.families import composite, reduce
from weft.ops.index_batching import batch_prod
from weft.ops.node_names import if_given
from weft.ops.record import Op, ops, type_of, unsupported
from weft.ops.return_types import result
from weft.ops.samples import Maker, Sample
from weft.ops.values import Dims, DType, MaybeOperand, MaybeTensor, TensorLike
from weft.ops.view import check_exact

SEQUENTIAL: Final = 4096  # so many float32 terms may be added one after the other
BLOCK: Final = 256
ndarray = np.ndarray


# -- dimensions --------------------------------------------------------------------------------------------
def dims_of(dim: Dims, rank: int) -> tuple[int, ...]:
    """The dimensions to fold, from the front; None and () mean all."""
    if dim is None:
        return tuple(range(rank))
    if not isinstance(dim, (tuple, list)):
        single: Any = dim
        return (wrap_dim(single, rank),) if rank else (wrap_dim(single, 0),)[:0]
    if not dim:
        return tuple(range(rank))
    dims = wrap_dims(dim, rank)
    return dims if rank else ()


def reduced_shape(shape: tuple[int, ...], dims: tuple[int, ...], keepdim: bool) -> tuple[int, ...]:
    if keepdim:
        return kept_shape(shape, dims)
    return tuple(n for i, n in enumerate(shape) if i not in dims)


def kept_shape(shape: tuple[int, ...], dims: tuple[int, ...]) -> tuple[int, ...]:
    """The shape with ones where dimensions were folded."""
    return tuple(1 if i in dims else n for i, n in enumerate(shape))


def count_of(shape: tuple[int, ...], dims: tuple[int, ...]) -> int:
    """How many elements fold into one."""
    return product(shape[d] for d in dims)


def restore(g: TensorLike, like: TensorType, dim: Dims, keepdim: bool) -> Any:
    """A result (or its gradient) with its folded dimensions back, as ones."""
    if keepdim or not like.ndim:
        return g
    return ops.reshape(g, kept_shape(like.shape, dims_of(dim, like.ndim)))


def spread(g: TensorLike, like: TensorType, dim: Dims, keepdim: bool) -> Any:
    """The gradient of a sum: g, repeated over the folded dimensions."""
    if not keepdim and len(g.shape):
        g = restore(g, like, dim, keepdim)
    return ops.expand(g, like.shape)


def check_elements(name: str, x: TensorType, dim: Any) -> None:
    """Refuses an empty dimension, which has no maximum or minimum."""
    if x.numel():
        return
    if dim is None or (isinstance(dim, (tuple, list)) and not dim):
        raise RuntimeError(
            f"{name}(): Expected reduction dim to be specified for input.numel() == 0. Specify the reduction "
            "dim with the 'dim' argument."
        )
    for d in dims_of(dim, x.ndim):
        if not x.shape[d]:
            raise IndexError(f"{name}(): Expected reduction dim {d} to have non-zero size.")


# -- dtypes ------------------------------------------------------------------------------------------------
def summed_dtype(x: Any, kind: DType) -> dtype:
    """The dtype of a sum or product: the one asked for, int64 for bools and integers, else the input's."""
    if kind is not None:
        return as_dtype(kind)
    own = x.dtype if type(x) is TensorType else BY_NUMPY[x.dtype]
    return own if own.category >= dtypes.FLOAT else dtypes.int64


def wide(x: Array) -> Array:
    """The array, half types as float32."""
    return x.astype(float32.numpy) if x.dtype.char in HALF_CHARS else x


def narrowed(x: Array, kind: np.dtype[Any]) -> Array:
    """The array in this NumPy dtype (the real part, for a real one)."""
    if x.dtype is kind or x.dtype == kind:
        return x
    return (x.real if x.dtype.kind == "c" and kind.kind != "c" else x).astype(kind)


# -- sums --------------------------------------------------------------------------------------------------
def fold_sum(x: Array, axes: Any, keepdims: bool, carrier: Any) -> Array:
    """The sum over these axes, accumulated in `carrier`, with pairwise accuracy whatever the strides. It lies
    row by row, as what other folds give.
    """
    if x.size > SEQUENTIAL and carrier.itemsize == (4 if carrier.kind == "f" else 8) and carrier.kind in "fc":
        order = sorted(axes, key=lambda axis: abs(x.strides[axis]))
        if _sequential(x, axes) > SEQUENTIAL:
            for axis in order:
                x = _blocked(x, axis, carrier)
            return row_major(x if keepdims else x.reshape(reduced_shape(x.shape, axes, False)))
    return row_major(namespace(x).add.reduce(x, axes, dtype=carrier, keepdims=keepdims, out=...))


def _sequential(x: Array, axes: tuple[int, ...]) -> int:
    """How many terms NumPy would add one by one: only the innermost run of folded axes is summed pairwise."""
    facts = sorted((abs(x.strides[i]), n, i in axes) for i, n in enumerate(x.shape) if n > 1)
    count, reach = 1, 0
    pairwise = True
    for step, n, folded in facts:
        if pairwise and folded and (not reach or step == reach):
            reach = step * n
            continue
        pairwise = False
        if folded:
            count *= n
    return count


def _blocked(x: Array, axis: int, carrier: np.dtype[Any]) -> Array:
    """Folds one axis to size one, adding at most BLOCK terms in a row."""
    xp = namespace(x)
    n = x.shape[axis]
    if n <= 2 * BLOCK:
        return xp.add.reduce(x, axis, dtype=carrier, keepdims=True)
    blocks = n // BLOCK
    before, after = x.shape[:axis], x.shape[axis + 1 :]
    lead = (slice(None),) * axis
    partial = xp.empty((*before, blocks + 1, *after), carrier)
    whole = x[(*lead, slice(0, blocks * BLOCK))].reshape((*before, blocks, BLOCK, *after))
    xp.add.reduce(whole, axis + 1, dtype=carrier, out=partial[(*lead, slice(0, blocks))])
    xp.add.reduce(x[(*lead, slice(blocks * BLOCK, n))], axis, dtype=carrier, out=partial[(*lead, blocks)])
    return _blocked(partial, axis, carrier)


_add_up: ArrayFunction = cast(ArrayFunction, np.add.reduce)
_ROW = 1024
_ONES = {char: np.ones(_ROW, char) for char in "fd"}


def _total(x: Array, keepdim: bool) -> Array:
    """The sum of a row-major array of floats. A large one goes as a matrix times ones: BLAS keeps many
    partial sums, reads at memory speed, and each row stays as short as a pairwise block.
    """
    if x.size < 64 * _ROW:
        return _add_up(x, None, keepdims=keepdim, out=...)
    flat = x.reshape(-1)
    whole = flat.size // _ROW * _ROW
    out = _add_up(namespace(x).matmul(flat[:whole].reshape(-1, _ROW), _ONES[x.dtype.char]), None, out=...)
    if whole < flat.size:
        out += _add_up(flat[whole:])
    return out.reshape((1,) * x.ndim) if keepdim else out


def _sum_rule(x: TensorType, dim: Dims, keepdim: bool, kind: DType) -> TensorType:
    return TensorType(reduced_shape(x.shape, dims_of(dim, x.ndim), keepdim), summed_dtype(x, kind), x.device)


def _sum(x: Array, dim: Dims, keepdim: bool, kind: DType) -> Array:
    own = x.dtype
    if kind is None and own.char in "fd" and type(x) is ndarray:  # the common cases, straight to NumPy
        if dim is None:
            if x.flags.c_contiguous:
                return _total(x, keepdim)
            if x.size <= SEQUENTIAL:
                return _add_up(x, None, keepdims=keepdim, out=...)
        elif x.size <= SEQUENTIAL and x.ndim and (type(dim) is int or (type(dim) is tuple and dim)):
            return row_major(_add_up(x, dim, keepdims=keepdim, out=...))
    given = summed_dtype(x, kind)
    carrier = given.computes_in
    if own.kind == "c" and given.category < dtypes.COMPLEX:
        x = x.real
    return narrowed(fold_sum(x, dims_of(dim, x.ndim), keepdim, carrier.numpy), given.numpy)


def folds(make: Maker) -> Iterator[Sample]:
    """Samples for reductions with dim and keepdim."""
    yield Sample(make(2, 3))
    yield Sample(make(2, 3), 0)
    yield Sample(make(2, 3, 2), (0, -1), True)
    yield Sample(make(3, 4).T, -1, True)
    yield Sample(make())
    yield Sample(make(), 0)
    yield Sample(make(2, 3), ())
    yield Sample(make(0, 3), 0)
    yield Sample(make(2, 0), 0, True)


def _folds_with_dtype(make: Maker) -> Iterator[Sample]:
    yield from folds(make)
    yield Sample(make(2, 3), 1, dtype=dtypes.float64)
    yield Sample(make(2, 3), dtype=dtypes.float32, grad=False)


FOLD: Final = "input: Tensor, dim: Dims = None, keepdim: bool = False, *, dtype: DType = None"

sum_ = reduce(
    "sum", _sum, _sum_rule, FOLD, trusted=True, samples=_folds_with_dtype,
    vjp=lambda g, _out, _x, dim, keepdim: spread(g, _x, dim, keepdim),
    refuses="nothing", lowering="folds",
    node_name=if_given(0, "SumBackward0", "SumBackward1"),
)  # fmt: skip


def _mean_dtype(x: TensorType, kind: DType) -> dtype:
    given = x.dtype if kind is None else as_dtype(kind)
    if given.category < dtypes.FLOAT:
        which = "Input" if kind is None else "Optional"
        raise RuntimeError(
            f"mean(): could not infer output dtype. {which} dtype must be either a floating point or complex "
            f"dtype. Got: {given.scalar_name}"
        )
    return given


def _mean_rule(x: TensorType, dim: Dims, keepdim: bool, kind: DType) -> TensorType:
    given = _mean_dtype(x, kind)
    return TensorType(reduced_shape(x.shape, dims_of(dim, x.ndim), keepdim), given, x.device)


def _mean(x: Array, dim: Dims, keepdim: bool, kind: DType) -> Array:
    own = x.dtype
    if kind is None and dim is None and own.char in "fd" and type(x) is ndarray:
        if x.flags.c_contiguous:
            total = _total(x, keepdim)
            return NUMPY.true_divide(total, x.size, total)
    given = BY_NUMPY[own] if kind is None else as_dtype(kind)
    if given.category < dtypes.FLOAT:
        raise RuntimeError("mean() of whole numbers")  # the type rule says it in full
    carrier = given.computes_in
    if own.kind == "c" and given.category < dtypes.COMPLEX:
        x = x.real
    dims = dims_of(dim, x.ndim)
    total = fold_sum(x, dims, keepdim, carrier.numpy)
    count = carrier.numpy.type(count_of(x.shape, dims))
    return narrowed(namespace(x).true_divide(total, count, out=total), given.numpy)


def mean_gradient(g: TensorLike, _out: object, _x: TensorType, dim: Dims, keepdim: bool) -> Any:
    count = count_of(_x.shape, dims_of(dim, _x.ndim))
    return ops.div(spread(g, _x, dim, keepdim), max(count, 1))  # this order: a tensor that can be written to


mean = reduce(
    "mean",
    _mean,
    _mean_rule,
    FOLD,
    trusted=True,
    samples=_folds_with_dtype,
    vjp=mean_gradient,
    refuses="nothing",
    lowering="folds",
    node_name=if_given(0, "MeanBackward0", "MeanBackward1"),
)


# -- products ----------------------------------------------------------------------------------------------
def _prod_rule(x: TensorType, dim: int | None, keepdim: bool, kind: DType) -> TensorType:
    dims = tuple(range(x.ndim)) if dim is None else (wrap_dim(dim, x.ndim),)
    return TensorType(reduced_shape(x.shape, dims, keepdim), summed_dtype(x, kind), x.device)


def _prod(x: Array, dim: int | None, keepdim: bool, kind: DType) -> Array:
    given = summed_dtype(x, kind)
    carrier = given.computes_in
    if x.dtype.kind == "c" and given.category < dtypes.COMPLEX:
        x = x.real
    axes = dims_of(dim if dim is None else wrap_dim(dim, x.ndim), x.ndim)
    out = namespace(x).multiply.reduce(x, axes, dtype=carrier.numpy, keepdims=keepdim, out=...)
    return narrowed(row_major(out), given.numpy)


def _prod_gradient(g: TensorLike, _out: TensorType, x: TensorLike, dim: int | None, keepdim: bool) -> Any:
    """Each element's gradient is the product of the others, found without dividing, so zeros do no harm."""
    own = type_of(x)
    if own.dtype is not _out.dtype:
        x = ops._to_copy(x, _out.dtype)
    if not own.ndim:
        return g
    if dim is None:
        others = _prod_others(ops.reshape(x, (own.numel(),)), 0)
        return ops.mul(ops.reshape(g, (1,) * own.ndim), ops.reshape(others, own.shape))
    return ops.mul(restore(g, own, dim, keepdim), _prod_others(x, wrap_dim(dim, own.ndim)))


def _prod_others(x: TensorLike, dim: int) -> Any:
    before = ops._shift(ops.cumprod(x, dim), dim, 1, 1)
    after = ops.flip(ops._shift(ops.cumprod(ops.flip(x, (dim,)), dim), dim, 1, 1), (dim,))
    return ops.mul(before, after)


def _prod_samples(make: Maker) -> Iterator[Sample]:
    yield Sample(make(2, 3))
    yield Sample(make(2, 3), 0)
    yield Sample(make(2, 3, 2), -1, True)
    yield Sample(make())
    yield Sample(make(), 0)
    yield Sample(make(0, 3), 0)
    yield Sample(make(2, 3), 1, dtype=dtypes.float64)
    for zeros in (1, 2, 3):
        x = make(4, 3)
        x.flat[: 3 * zeros : 3] = 0
        yield Sample(x)
        yield Sample(x, 0)
        yield Sample(x, 1, True)


prod = reduce(
    "prod", _prod, _prod_rule,
    "input: Tensor, dim: MaybeDim = None, keepdim: bool = False, *, dtype: DType = None", vjp=_prod_gradient,
    samples=_prod_samples, batch=batch_prod, amp="float32", trusted=True,
    refuses="nothing", lowering="folds",
    node_name=if_given(0, "ProdBackward0", "ProdBackward1"),
)  # fmt: skip


# -- extremes ----------------------------------------------------------------------------------------------
def _extreme_rule(name: str, title: str) -> Any:
    def rule(x: TensorType, dim: Dims, keepdim: bool) -> TensorType:
        dims = dims_of(dim, x.ndim)
        check_elements(title, x, dim)
        if x.dtype.is_complex:
            raise unsupported(name, x.dtype)
        return TensorType(reduced_shape(x.shape, dims, keepdim), x.dtype, x.device)

    return rule


def _extreme_kernel(ufunc: str) -> Any:
    def kernel(x: Array, dim: Dims, keepdim: bool) -> Array:
        kind = x.dtype
        x = wide(x)
        out: Array = getattr(namespace(x), ufunc).reduce(x, dims_of(dim, x.ndim), keepdims=keepdim, out=...)
        return narrowed(row_major(out), kind)

    return kernel


def _tie_weights_kernel(x: Array, value: Array, dim: Dims) -> Array:
    xp = namespace(x)
    kind = x.dtype
    x, value = wide(x), wide(value)
    hits = x == value
    if kind.kind not in "iub":
        hits |= (x != x) & (value != value)
    counts = xp.add.reduce(hits, dims_of(dim, x.ndim), keepdims=True, dtype=x.dtype)
    return xp.true_divide(hits, counts, dtype=x.dtype).astype(kind, copy=False)


def _batch_tie_weights(op: Op, size: int, args: tuple[Any, ...], places: tuple[Any, ...]) -> Any:
    rank = logical_type(args[0], places[0]).ndim
    x, value = (spread_to(args[i], places[i], size) for i in (0, 1))
    if not rank:
        return ops.ones_like(x), 0
    return op(x, value, tuple(d + 1 for d in dims_of(args[2], rank))), 0


_tie_weights = reduce(
    "_tie_weights", _tie_weights_kernel, lambda x, value, dim: x, "input: Tensor, value: Tensor, dim: Dims",
    method=False, function=False, out=False, vjp=(None, None), batch=_batch_tie_weights,
    refuses="nothing", lowering="extremes",
)  # fmt: skip
"""Each element's share of the gradient of an extreme: equal shares for all that equal the value, else 0."""


def shared_gradient(g: TensorLike, out: TensorLike, x: TensorLike, dim: Dims, keepdim: bool) -> Any:
    own = type_of(x)
    return ops.mul(restore(g, own, dim, keepdim), _tie_weights(x, restore(out, own, dim, keepdim), dim))


def extreme_gradient(g: TensorLike, out: TensorLike, x: TensorLike, dim: Dims, keepdim: bool) -> Any:
    """Equal shares for all that equal the value. NaN equals nothing: where it is the extreme, all get NaN."""
    own = type_of(x)
    hits = ops.eq(x, restore(out, own, dim, keepdim))
    return ops.div(ops.mul(restore(g, own, dim, keepdim), hits), ops.sum(hits, dim, True))


def _extreme_samples(make: Maker) -> Iterator[Sample]:
    yield Sample(make.distinct(2, 3))
    yield Sample(make.distinct(2, 3), 0)
    yield Sample(make.distinct(2, 3, 2), (0, -1), True)
    yield Sample(make.distinct(3, 4).T, -1)
    yield Sample(make.distinct(), 0)
    yield Sample(make.distinct(2, 3), ())
    yield Sample(make(0, 3), 1)


def _extreme(name: str, ufunc: str) -> Op:
    return reduce(
        name, _extreme_kernel(ufunc), _extreme_rule(f"{name[1:]}_values_cpu", name),
        "input: Tensor, dim: Dims = (), keepdim: bool = False",
        vjp=extreme_gradient, samples=_extreme_samples, out="exact", trusted=True,
        refuses="nothing", lowering="folds",
    )  # fmt: skip


amax = _extreme("amax", "maximum")
amin = _extreme("amin", "minimum")


def _extreme_of_all(name: str, ufunc: str) -> Op:
    kernel, rule = _extreme_kernel(ufunc), _extreme_rule(f"{name}_all", name)
    return reduce(
        f"_{name}_all", lambda x: kernel(x, None, False), lambda x: rule(x, None, False), "input: Tensor",
        vjp=lambda g, out, x: shared_gradient(g, out, x, None, False), method=False, function=False,
        out=False, node=f"{name.capitalize()}Backward1", batch=_batch_all(ufunc), trusted=True,
        samples=lambda make: [Sample(make.distinct(2, 3)), Sample(make.distinct())],
        refuses="nothing", lowering="extremes",
    )  # fmt: skip


def _batch_all(ufunc: str) -> Any:
    def rule(_op: Op, size: int, args: tuple[Any, ...], places: tuple[Any, ...]) -> Any:
        x = spread_to(args[0], places[0], size)
        dims = tuple(range(1, len(x.shape)))
        return (ops.amax if ufunc == "maximum" else ops.amin)(x, dims) if dims else x, 0

    return rule


_max_all = _extreme_of_all("max", "maximum")
_min_all = _extreme_of_all("min", "minimum")


# -- places of extremes ------------------------------------------------------------------------------------
def only_place(x: Array) -> Array:
    """Index 0, for a zero-dim array; an array without elements has no `astype` and so is refused."""
    return namespace(x).zeros_like(x.astype(dtypes.bool_.numpy), dtypes.int64.numpy)


def _place_kernel(finder: str) -> Any:
    def kernel(x: Array, dim: int | None, keepdim: bool) -> Array:
        xp = namespace(x)
        x = wide(x)
        find = getattr(x, finder)  # the method: NumPy's function would take an array without elements too
        if dim is None:
            place = xp.asarray(find())
            return place.reshape((1,) * x.ndim) if keepdim else place
        axis = wrap_dim(dim, x.ndim)
        if not x.ndim:
            return only_place(x)
        if not x.shape[axis]:
            raise IndexError("the place of an extreme of nothing")  # the type rule says it in full
        if not x.size:
            return xp.zeros(reduced_shape(x.shape, (axis,), keepdim), dtypes.int64.numpy)
        return xp.asarray(find(axis, keepdims=keepdim))

    return kernel


def _place_rule(name: str, refuses_bool: bool) -> Any:
    def rule(x: TensorType, dim: int | None, keepdim: bool) -> TensorType:
        dims = tuple(range(x.ndim)) if dim is None else (wrap_dim(dim, x.ndim),)
        if x.dtype.is_complex or (refuses_bool and x.dtype is dtypes.bool_):
            kind = "complex" if x.dtype.is_complex else "bool"
            raise RuntimeError(f"{name}(): does not support {kind} input")
        if dim is None and not x.numel():
            raise IndexError(f"{name}(): Expected reduction dim to be specified for input.numel() == 0.")
        check_elements(name, x, dim)
        shape = reduced_shape(x.shape, dims if x.ndim else (), keepdim)
        return TensorType(shape, dtypes.int64, x.device)

    return rule


def _place_samples(make: Maker) -> Iterator[Sample]:
    yield Sample(make.distinct(2, 3))
    yield Sample(make.distinct(2, 3), 0)
    yield Sample(make.distinct(2, 3, 2), -1, True)
    yield Sample(make.distinct(2, 3), None, True)
    yield Sample(make.distinct(), 0)
    yield Sample(make(0, 3), 1)


def _batch_places(op: Op, size: int, args: tuple[Any, ...], places: tuple[Any, ...]) -> Any:
    """The place in the flattened example."""
    if args[1] is not None:
        return NotImplemented
    x = spread_to(args[0], places[0], size)
    flat = op(ops.reshape(x, (size, -1)), 1, False)
    return ops.reshape(flat, (size, *(1,) * (len(x.shape) - 1))) if args[2] else flat, 0


PLACE: Final = "input: Tensor, dim: MaybeDim = None, keepdim: bool = False"


def _place_op(name: str) -> Op:
    return reduce(
        name, _place_kernel(name), _place_rule(name, True), PLACE, samples=_place_samples,
        batch=_batch_places, out="exact", trusted=True,
        refuses="nothing", lowering="extremes",
    )  # fmt: skip


argmax = _place_op("argmax")
argmin = _place_op("argmin")


# -- values at places --------------------------------------------------------------------------------------
def _values_rule(x: TensorType, indices: TensorType, _dim: int, _keepdim: bool) -> TensorType:
    return TensorType(indices.shape, x.dtype, x.device)


def _values_kernel(x: Array, indices: Array, dim: int, keepdim: bool) -> Array:
    xp = namespace(x)
    if not x.ndim:
        return x.copy()
    dim = wrap_dim(dim, x.ndim)
    if keepdim:
        return xp.take_along_axis(x, indices, dim)
    return xp.take_along_axis(x, xp.expand_dims(indices, dim), dim).reshape(indices.shape)


def _placed_kernel(g: Array, indices: Array, shape: tuple[int, ...], dim: int, keepdim: bool) -> Array:
    xp = namespace(g)
    if not shape:
        return g.copy()
    out = xp.zeros(shape, g.dtype)
    dim = wrap_dim(dim, len(shape))
    if not keepdim:
        g, indices = xp.expand_dims(g, dim), xp.expand_dims(indices, dim)
    xp.put_along_axis(out, indices, g, dim)
    return out


def _batch_values(op: Op, size: int, args: tuple[Any, ...], places: tuple[Any, ...]) -> Any:
    """Both tensors get a batch in front; the example's shape (of the gradient) and its dim grow with it."""
    first, indices = (spread_to(args[i], places[i], size) for i in (0, 1))
    rest = list(args[2:])
    shape = rest[0] if isinstance(rest[0], tuple) else tuple(first.shape)[1:]
    if not shape:
        return first, 0
    if isinstance(rest[0], tuple):
        rest[0] = (size, *shape)
    rest[-2] = wrap_dim(rest[-2], len(shape)) + 1
    return op(first, indices, *rest), 0


_placed = reduce(
    "_placed", _placed_kernel, lambda g, indices, shape, dim, keepdim: TensorType(shape, g.dtype, g.device),
    "input: Tensor, indices: Tensor, shape: Any, dim: Dim, keepdim: bool",
    vjp=(lambda g, _out, _g, indices, _shape, dim, keepdim: _values(g, indices, dim, keepdim), None),
    method=False, function=False, out=False, batch=_batch_values,
    refuses="nothing", lowering="extremes",
)  # fmt: skip
"""Zeros of the shape, but the given elements at their indices along dim: the transpose of taking values."""


def values_op(name: str, node: str, lowering: str | None = "indexing") -> Op:
    """An op that takes elements at indices along a dimension, none twice; each user has its own in graphs."""
    return reduce(
        name, _values_kernel, _values_rule, "input: Tensor, indices: Tensor, dim: Dim, keepdim: bool",
        node=node,
        vjp=(lambda g, _out, _x, indices, dim, keepdim: _placed(g, indices, _x.shape, dim, keepdim), None),
        method=False, function=False, out=False, batch=_batch_values, refuses="nothing", lowering=lowering,
    )  # fmt: skip


_values: Op = values_op("_values", "GatherBackward0", lowering=None)


def _check_extremes(op: Op, target: Any, value: Any, tensors: Any) -> None:
    """Along a dimension `out=` must have the very dtype; else it may be cast to."""
    along = len(tensors) == 1 and (value.ndim or tensors[0].ndim < 2)
    if along:
        check_exact(target, value)


def value_overloads(name: str, *more: tuple[str, str]) -> tuple[tuple[str, str], ...]:
    """The forms of an op that gives a value of all, or values with indices along a dimension."""
    along = "input: Tensor, dim: Dim, keepdim: bool = False"
    return ("input: Tensor", "Tensor"), (along, f"_{name}_result"), *more


def _overloads(name: str, finder: str) -> Op:
    """`max(x)`, `max(x, dim)`, `max(x, other)`: the three forms of one name."""
    returned = result(name, "values", "indices")
    find = reduce(
        f"_{name}_indices", _place_kernel(finder), _place_rule(name, False),
        "input: Tensor, dim: MaybeDim, keepdim: bool", method=False, function=False, out=False, trusted=True,
        refuses="nothing", lowering="extremes",
    )  # fmt: skip
    take = values_op(f"_{name}_values", f"{name.capitalize()}Backward0")
    all_of, elementwise = f"_{name}_all", f"{name}imum"

    def body(input: TensorLike, dim: MaybeOperand, keepdim: bool, other: MaybeTensor) -> Any:
        if other is not None or hasattr(dim, "shape"):
            return getattr(ops, elementwise)(input, dim if other is None else other)
        if dim is None:
            return getattr(ops, all_of)(input)
        if isinstance(dim, (bool, float, complex)):
            raise TypeError(
                f"{name}() received an invalid combination of arguments - got (Tensor, {type(dim).__name__})"
            )
        indices = find(input, dim, keepdim)
        return returned(take(input, indices, dim, keepdim), indices)

    def samples(make: Maker) -> Iterator[Sample]:
        yield Sample(make.distinct(2, 3))
        yield Sample(make.distinct(2, 3), 0)
        yield Sample(make.distinct(2, 3, 2), -1, True)
        yield Sample(make.distinct(4, 3).T, 1)
        yield Sample(make.distinct(), 0)
        yield Sample(make.distinct(2, 3), make(3, low=5, high=6))
        yield Sample(make.distinct(2, 3), other=make(2, 1, low=-9, high=-8))

    facts: OpFacts = {
        "returns": returned,
        "out": _check_extremes,
        "samples": samples,
        "overloads": value_overloads(name, ("input: Tensor, other: Tensor", "Tensor")),
    }
    signature = "input: Tensor, dim: MaybeOperand = None, keepdim: bool = False, *, other: MaybeTensor = None"
    return composite(signature, name, **facts)(body)


max_ = _overloads("max", "argmax")
min_ = _overloads("min", "argmin")


# -- truth -------------------------------------------------------------------------------------------------
def _truth_dims(dim: Dims, rank: int) -> tuple[int, ...]:
    """As `dims_of`, but an empty list folds nothing."""
    return () if isinstance(dim, (tuple, list)) and not dim else dims_of(dim, rank)


def _truth_rule(x: TensorType, dim: Dims, keepdim: bool) -> TensorType:
    kind = dtypes.uint8 if x.dtype is dtypes.uint8 else dtypes.bool_
    return TensorType(reduced_shape(x.shape, _truth_dims(dim, x.ndim), keepdim), kind, x.device)


def _truth_kernel(ufunc: str) -> Any:
    def kernel(x: Array, dim: Dims, keepdim: bool) -> Array:
        kind = x.dtype
        if kind.kind != "b":
            x = x != 0
        out: Array = getattr(namespace(x), ufunc).reduce(
            x, _truth_dims(dim, x.ndim), keepdims=keepdim, out=...
        )
        return row_major(out.astype(kind) if kind == dtypes.uint8.numpy else out)

    return kernel


def _batch_truth(op: Op, size: int, args: tuple[Any, ...], places: tuple[Any, ...]) -> Any:
    if isinstance(args[1], (tuple, list)) and not args[1]:
        return op(spread_to(args[0], places[0], size), (), args[2]), 0
    return NotImplemented


def _truth_samples(make: Maker) -> Iterator[Sample]:
    yield from folds(make)
    yield Sample(make.bools(2, 3), 1)
    yield Sample(make(2, 3, kind=dtypes.uint8, low=0), 1)


TRUTH: Final = "input: Tensor, dim: Dims = None, keepdim: bool = False"


def _check_truth(op: Op, target: Any, _value: Any, _tensors: Any) -> None:
    if target.dtype not in (dtypes.bool_, dtypes.uint8):
        raise RuntimeError(f"{op.name} only supports bool tensor for result, got: {target.dtype.scalar_name}")


def _truth_op(name: str, ufunc: str) -> Op:
    return reduce(
        name, _truth_kernel(ufunc), _truth_rule, TRUTH, samples=_truth_samples, batch=_batch_truth,
        trusted=True, out=_check_truth,
        refuses="nothing", lowering="folds",
    )  # fmt: skip


all_ = _truth_op("all", "logical_and")
any_ = _truth_op("any", "logical_or")
