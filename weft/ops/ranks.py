"""Elements by rank: the k-th smallest, the commonest, medians without NaN, running extremes, quantiles.

Takes arrays and a dimension; gives values, most with the indices they came from. One idea: as in sorting, an
op without gradient finds indices and another takes the values there; what lies between two elements is
interpolated by ops.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from weft.core import dtypes
from weft.core.arrays import Array, namespace, row_major
from weft.core.dims import wrap_dim
from weft.core.dtypes import dtype
from weft.core.types import TensorType
from weft.ops.batching import unchanged
from weft.ops.families import HIDDEN, composite, index, reduce
from weft.ops.forward import total
from weft.ops.record import Op, ops, type_of, unsupported
from weft.ops.reduce import (
    check_elements,
    extreme_gradient,
    folds,
    only_place,
    reduced_shape,
    shared_gradient,
    value_overloads,
    values_op,
    wide,
)
from weft.ops.return_types import result
from weft.ops.samples import Maker, Sample, Samples
from weft.ops.sorting import order_of
from weft.ops.values import Dims, DType, Operand, TensorLike

LONG = dtypes.int64.numpy


def _refuse(name: str, x: TensorType, *refused: dtype) -> None:
    if x.dtype.is_complex or x.dtype in refused:
        raise unsupported(name, x.dtype)


# -- least and greatest --------------------------------------------------------------------------------------
AMINMAX = result("aminmax", "min", "max")


def _both_rule(x: TensorType, dim: Dims, keepdim: bool) -> tuple[TensorType, TensorType]:
    one = ops.amin.on_types((x, dim, keepdim))
    return one, one


def _both_gradient(g: tuple[Any, Any], out: tuple[Any, Any], x: TensorLike, dim: Dims, keepdim: bool) -> Any:
    parts = [None if g[i] is None else extreme_gradient(g[i], out[i], x, dim, keepdim) for i in (0, 1)]
    return total(parts)


_aminmax: Op = reduce(
    "_aminmax", lambda x, dim, keepdim: (ops.amin(x, dim, keepdim), ops.amax(x, dim, keepdim)), _both_rule,
    "input: Tensor, dim: Dims, keepdim: bool", vjp=_both_gradient, node="AminmaxBackward0",
    samples=lambda make: [Sample(make.distinct(2, 3), (), False), Sample(make.distinct(2, 3), 1, True)],
    **HIDDEN,
    refuses="nothing", lowering="extremes",
)  # fmt: skip


def _both_samples(make: Maker) -> Iterator[Sample]:
    yield Sample(make.distinct(2, 3))
    yield Sample(make.distinct(2, 3), dim=1)
    yield Sample(make.distinct(2, 3), dim=0, keepdim=True)
    yield Sample(make.distinct())


@composite(
    "input: Tensor, *, dim: MaybeDim = None, keepdim: bool = False",
    returns=AMINMAX,
    out="exact",
    samples=_both_samples,
)
def aminmax(input: TensorLike, dim: int | None, keepdim: bool) -> Any:
    """The smallest and the largest element, of all or along a dimension."""
    kind = type_of(input)
    if dim is not None and not (kind.ndim and kind.shape[wrap_dim(dim, kind.ndim)]) and kind.ndim:
        raise IndexError(f"aminmax: Expected reduction dim {wrap_dim(dim, kind.ndim)} to have non-zero size.")
    if dim is None and not kind.numel():
        raise RuntimeError(
            "aminmax(): cannot compute aminmax over an empty dimension as the operation has no identity."
        )
    _refuse("aminmax_cpu", kind)
    dims = () if dim is None else (dim,)
    return AMINMAX(*_aminmax(input, dims, keepdim))


# -- running extremes ----------------------------------------------------------------------------------------
def _running(name: str, fold: str) -> Op:
    """Defines `cummax` or `cummin`."""

    def kernel(x: Array, dim: int) -> Array:
        if not x.ndim:
            return only_place(x)
        xp, axis = namespace(x), wrap_dim(dim, x.ndim)
        values = row_major(wide(x))
        best = getattr(xp, fold).accumulate(values, axis)
        new = values == best
        if values.dtype.kind == "f":
            new = new | xp.isnan(values)
        places = xp.arange(x.shape[axis]).reshape(-1, *(1,) * (x.ndim - 1 - axis))
        return xp.maximum.accumulate(xp.where(new, places, 0), axis).astype(LONG, copy=False)

    def rule(x: TensorType, dim: int) -> TensorType:
        wrap_dim(dim, x.ndim)
        _refuse(f"{name}_cpu", x)
        return TensorType(x.shape, dtypes.int64, x.device)

    def samples(make: Maker) -> Iterator[Sample]:
        yield Sample(make.distinct(4), 0)
        yield Sample(make.distinct(3, 4), -1)
        yield Sample(make.distinct(4, 3).T, 1)
        yield Sample(make.distinct(), 0)
        yield Sample(make(0, 3), 0)

    find = index(
        f"_{name}_indices",
        kernel,
        rule,
        "input: Tensor, dim: Dim",
        samples=samples,
        **HIDDEN,
        refuses="nothing",
    )
    returned = result(name, "values", "indices")

    def body(input: TensorLike, dim: int) -> Any:
        indices = find(input, dim)
        return returned(ops.gather(input, dim, indices), indices)

    return composite("input: Tensor, dim: Dim", name=name, returns=returned, out="exact", samples=samples)(
        body
    )


cummax = _running("cummax", "maximum")
cummin = _running("cummin", "minimum")


# -- the k-th and the commonest ------------------------------------------------------------------------------
def _chosen(
    name: str,
    doc: str,
    find: Callable[..., Array],
    samples: Samples,
    *,
    node: str,
    own: str = "",
    lowering: str | None = None,
    refused: tuple[dtype, ...] = (dtypes.bool_,),
    word: str = "",
    label: str = "",
    check: Callable[..., None] | None = None,
    all_node: str | None = None,
) -> Op:
    """The op that gives the elements which `find(x, axis, ...)` chooses along a dimension, and their indices,
    or, where there is a node for all, the one chosen of all. Errors are in the words of `word` and `label`,
    if not in those of the name.
    """
    returned, word = result(name, "values", "indices"), word or name

    def kernel(x: Array, *given: Any) -> Array:
        *own, dim, keepdim = given
        axis = wrap_dim(dim, x.ndim)
        if not x.ndim:
            return only_place(x)
        if not x.shape[axis]:
            raise IndexError(f"the {word} of nothing")  # the type rule says it in full
        shape = reduced_shape(x.shape, (axis,), keepdim)
        found = find(x, axis, *own) if x.size else namespace(x).zeros(shape, LONG)
        return found.reshape(shape).astype(LONG, copy=False)

    def rule(x: TensorType, *given: Any) -> TensorType:
        *own, dim, keepdim = given
        axis = wrap_dim(dim, x.ndim)
        check_elements(word, x, dim)
        if check is not None:
            check(x, axis, *own)
        _refuse(label or f"{word}_cpu", x, *refused)
        return TensorType(reduced_shape(x.shape, (axis,), keepdim) if x.ndim else (), dtypes.int64, x.device)

    indices_of: Op = reduce(
        f"_{name}_indices", kernel, rule, f"input: Tensor, {own}dim: Dim, keepdim: bool",
        trusted=name == "median", refuses="nothing", **HIDDEN,
    )  # fmt: skip
    values_at = values_op(f"_{name}_values", node, lowering)
    of_all = None if all_node is None else _chosen_of_all(name, word, find, indices_of, all_node)

    def body(input: TensorLike, *given: Any) -> Any:
        *own, dim, keepdim = given
        if dim is None and of_all is not None:
            return of_all(input)
        indices = indices_of(input, *own, dim, keepdim)
        return returned(values_at(input, indices, dim, keepdim), indices)

    dims = "Dim = -1" if of_all is None else "MaybeDim = None"
    return composite(
        f"input: Tensor, {own}dim: {dims}, keepdim: bool = False", name, returns=returned, out="exact",
        doc=doc, samples=samples, overloads=() if of_all is None else value_overloads(name),
    )(body)  # fmt: skip


def _chosen_of_all(name: str, word: str, find: Callable[..., Array], indices_of: Op, node: str) -> Op:
    def kernel(x: Array) -> Array:
        xp = namespace(x)
        if not x.size:
            return xp.asarray(xp.iinfo(x.dtype).min if x.dtype.kind in "iu" else xp.nan).astype(x.dtype)
        flat = x.reshape(-1)
        return flat[find(flat, 0)].reshape(())

    def rule(x: TensorType) -> TensorType:
        _refuse(f"{word}_cpu", x, dtypes.bool_)
        return TensorType((), x.dtype, x.device)

    def batch(_op: Op, size: int, args: tuple[Any, ...], places: tuple[Any, ...]) -> Any:
        flat = ops.reshape(ops.movedim(args[0], places[0], 0), (size, -1))
        return ops._values(flat, indices_of(flat, 1, False), 1, False), 0

    return reduce(
        f"_{name}_all", kernel, rule, "input: Tensor", node=node, batch=batch, refuses="nothing",
        vjp=lambda g, out, x: shared_gradient(g, out, x, None, False), **HIDDEN,
    )  # fmt: skip


def _check_rank(x: TensorType, axis: int, k: int) -> None:
    if not 1 <= k <= (x.shape[axis] if x.ndim else 1):
        raise RuntimeError(f"kthvalue(): selected number k out of range for dimension {axis}")


def _kth(x: Array, axis: int, k: int) -> Array:
    return namespace(x).take(wide(x).argpartition(k - 1, axis=axis), namespace(x).asarray([k - 1]), axis=axis)


def _kth_samples(make: Maker) -> Iterator[Sample]:
    yield Sample(make.distinct(5), 2)
    yield Sample(make.distinct(3, 4), 3, 0)
    yield Sample(make.distinct(3, 4), 1, -1, True)
    yield Sample(make.distinct(), 1)


kthvalue = _chosen(
    "kthvalue", "The k-th smallest element along a dimension, and its index.", _kth, _kth_samples,
    own="k: int, ", node="KthvalueBackward0", check=_check_rank,
)  # fmt: skip


def _commonest(x: Array, axis: int) -> Array:
    """The last index of the longest run of equal elements in sorted order."""
    xp = namespace(x)
    rows = xp.moveaxis(wide(x), axis, -1)
    order = rows.argsort(axis=-1, kind="stable")
    ranked = xp.take_along_axis(rows, order, -1)
    places = xp.arange(rows.shape[-1])
    starts = xp.ones(ranked.shape, bool)
    starts[..., 1:] = ranked[..., 1:] != ranked[..., :-1]
    length = places - xp.maximum.accumulate(xp.where(starts, places, 0), -1)
    best = xp.argmax(length, -1)[..., None]  # the first of the longest: the smallest value
    return xp.moveaxis(xp.take_along_axis(order, best, -1), -1, axis)


def _mode_samples(make: Maker) -> Iterator[Sample]:
    yield Sample(make.distinct(5))
    yield Sample(make.distinct(3, 4), 0)
    yield Sample(make.distinct(3, 4), -1, True)
    yield Sample(make(4, 5, low=0, high=2).round(), 1, grad=False)
    yield Sample(make.distinct())
    yield Sample(make(0, 3), 1)


mode = _chosen(
    "mode", "The most frequent value along a dimension (the smallest of several), and its index.", _commonest,
    _mode_samples, node="ModeBackward0", refused=(),
)  # fmt: skip


@composite("input: Tensor", out="exact", samples=lambda make: [Sample(make.distinct(3, 4)), Sample(make())])
def msort(input: TensorLike) -> Any:
    """Sorted along the first dimension."""
    return ops.sort(input, 0)[0]


# -- medians -------------------------------------------------------------------------------------------------
def _middle(x: Array, axis: int) -> Array:
    """Where the lower median lies; the first NaN, where there is one."""
    xp = namespace(x)
    x = wide(x)
    middle = (x.shape[axis] - 1) // 2
    found = xp.take(x.argpartition(middle, axis=axis), xp.asarray([middle]), axis=axis)
    if x.dtype.kind == "f":
        missing = xp.isnan(x)
        if missing.any():
            firsts = xp.argmax(missing, axis=axis, keepdims=True)
            found = xp.where(missing.any(axis=axis, keepdims=True), firsts, found)
    return found


def _median_samples(make: Maker) -> Iterator[Sample]:
    yield Sample(make.distinct(2, 3))
    yield Sample(make.distinct(5), 0)
    yield Sample(make.distinct(2, 4), 1)
    yield Sample(make.distinct(4, 3, 2), 0, True)
    yield Sample(make.distinct(4, 3).T, -1)
    yield Sample(make.distinct(), 0)


median = _chosen(
    "median", "The median (the lower of two), and with dim its index.", _middle, _median_samples,
    node="MedianBackward1", lowering="indexing", label="median_out", all_node="MedianBackward0",
)  # fmt: skip


def _middle_of_numbers(x: Array, axis: int) -> Array:
    """Where the lower median of what is not NaN lies; anywhere if there is nothing else."""
    xp = namespace(x)
    order = order_of(x, axis, False)
    missing = xp.isnan(wide(x)) if x.dtype.kind not in "iub" else xp.zeros(x.shape, bool)
    count = x.shape[axis] - missing.sum(axis=axis, keepdims=True)
    return xp.take_along_axis(order, xp.maximum((count - 1) // 2, 0), axis)


def _nanmedian_samples(make: Maker) -> Iterator[Sample]:
    yield Sample(make.distinct(2, 3))
    yield Sample(make.distinct(5), 0)
    yield Sample(make.distinct(4, 3, 2), 0, True)
    yield Sample(make.distinct(), 0)


nanmedian = _chosen(
    "nanmedian", "The median of the elements that are not NaN, and with dim its index.", _middle_of_numbers,
    _nanmedian_samples, node="NanmedianBackward1", word="median", label="median_out",
    all_node="NanmedianBackward0",
)  # fmt: skip


def _without_nan(input: TensorLike) -> Any:
    kind = type_of(input).dtype
    if kind.is_complex:
        raise RuntimeError("nansum on CPU does not support complex inputs")
    return ops.where(ops.isnan(input), 0, input) if kind.is_floating_point else input


@composite(
    "input: Tensor, dim: Dims = None, keepdim: bool = False, *, dtype: DType = None", out=True, samples=folds,
    amp="float32",
)  # fmt: skip
def nansum(input: TensorLike, dim: Dims, keepdim: bool, dtype: DType) -> Any:
    """The sum, NaN counted as zero."""
    return ops.sum(_without_nan(input), dim, keepdim, dtype=dtype)


@composite(
    "input: Tensor, dim: Dims = None, keepdim: bool = False, *, dtype: DType = None", out=True, samples=folds
)
def nanmean(input: TensorLike, dim: Dims, keepdim: bool, dtype: DType) -> Any:
    """The mean of what is not NaN."""
    kind = type_of(input).dtype
    if kind.category < dtypes.FLOAT:
        raise RuntimeError(
            f"nanmean(): expected input to have floating point or complex dtype but got {kind.scalar_name}"
        )
    total = ops.sum(_without_nan(input), dim, keepdim, dtype=dtype)
    return ops.div(total, ops.sum(ops.logical_not(ops.isnan(input)), dim, keepdim))


@composite(
    "input: Tensor, dim: Dims = None",
    samples=lambda make: (Sample(*s.args[:2], grad=False) for s in folds(make)),
)
def count_nonzero(input: TensorLike, dim: Dims) -> Any:
    """How many elements are not zero."""
    return ops.sum(ops.ne(input, 0), dim)


# -- quantiles -----------------------------------------------------------------------------------------------
INTERPOLATIONS = ("linear", "lower", "higher", "midpoint", "nearest")


def _levels_kernel(q: Array) -> Array:
    if q.size and not bool(((q >= 0) & (q <= 1)).all()):
        raise RuntimeError("quantile() q values must be in the range [0, 1]")
    return q.copy()


_levels: Op = index(
    "_quantile_levels", _levels_kernel, lambda q: q, "input: Tensor", vjp=lambda g: g,
    batch=unchanged, samples=lambda make: [Sample(make(3, low=0.2, high=0.8))],
    method=False, function=False,
)  # fmt: skip


def _check_quantile(kind: TensorType, q: Any, interpolation: str) -> None:
    if not kind.numel():
        raise RuntimeError("quantile() input tensor must be non-empty")
    if kind.dtype not in (dtypes.float32, dtypes.float64):
        raise RuntimeError("quantile() input tensor must be either float or double dtype")
    if hasattr(q, "shape"):
        if type_of(q).ndim > 1:
            raise RuntimeError("quantile() q must be a scalar or 1D tensor")
        if type_of(q).dtype is not kind.dtype:
            raise RuntimeError("quantile() q tensor must be same dtype as the input tensor")
    elif not 0 <= q <= 1:
        raise RuntimeError(f"quantile() q must be in the range [0, 1] but got {q:g}")
    if interpolation not in INTERPOLATIONS:
        raise RuntimeError(
            "quantile() interpolation must be one of linear, lower, higher, midpoint or nearest, but got "
            f"{interpolation}"
        )


def _between(ranked: TensorLike, ranks: TensorLike, interpolation: str) -> Any:
    """The values at fractional places of sorted rows."""
    if interpolation in ("lower", "higher", "nearest"):
        rounded = {"lower": ops.floor, "higher": ops.ceil, "nearest": ops.round}[interpolation](ranks)
        return ops.gather(ranked, -1, ops._to_copy(rounded, dtypes.int64))
    low = ops._to_copy(ranks, dtypes.int64)
    weight: Any = 0.5
    if interpolation == "linear":
        weight = ops.sub(ranks, ops._to_copy(low, type_of(ranks).dtype))
    high = ops._to_copy(ops.ceil(ranks), dtypes.int64)
    return ops.lerp(ops.gather(ranked, -1, low), ops.gather(ranked, -1, high), weight)


def _quantile(
    input: TensorLike, q: Operand, dim: int | None, keepdim: bool, interpolation: str, ignore: bool
) -> Any:
    kind = type_of(input)
    _check_quantile(kind, q, interpolation)
    several = hasattr(q, "shape") and type_of(q).ndim == 1
    if dim is None:
        rows, kept = ops.reshape(input, (-1,)), (1,) * kind.ndim
    else:
        axis = wrap_dim(dim, kind.ndim)
        rows = ops.movedim(input, axis, -1) if kind.ndim else ops.reshape(input, (1,))
        kept = (*kind.shape[:axis], 1, *kind.shape[axis + 1 :]) if kind.ndim else ()
    ranked = ops.sort(rows, -1)[0]
    last = type_of(ranked).shape[-1] - 1
    if hasattr(q, "shape"):
        q = ops.reshape(_levels(q), (-1,))
    else:
        q = ops.new_full(input, (1,), q)
    if ignore:
        count = ops.sum(ops.logical_not(ops.isnan(ranked)), -1, True)
        ranks = ops.clamp_min(ops.mul(q, ops.sub(ops._to_copy(count, kind.dtype), 1)), 0)
    else:
        missing = ops.isnan(ops.narrow(ranked, -1, last, 1))
        ranks = ops.where(missing, float(last), ops.mul(q, last))
    out = _between(ranked, ranks, interpolation)
    lead = tuple(type_of(ranked).shape[:-1])
    if several:
        out = ops.movedim(out, -1, 0)
        return ops.reshape(out, (type_of(out).shape[0], *kept)) if keepdim else out
    return ops.reshape(out, kept if keepdim else lead)


QUANTILE = (
    "input: Tensor, q: Operand, dim: MaybeDim = None, keepdim: bool = False, *, interpolation: str = 'linear'"
)


def _quantile_samples(make: Maker) -> Iterator[Sample]:
    yield Sample(make.distinct(2, 3), 0.3)
    for interpolation in INTERPOLATIONS:
        levels = make(3, low=0.05, high=0.95)
        yield Sample(make.distinct(3, 4), levels, 1, interpolation=interpolation)
    yield Sample(make.distinct(3, 4), make(2, low=0.05, high=0.95), 0, True)
    yield Sample(make.distinct(3, 4), 0.6, -1, True)


@composite(QUANTILE, out="exact", samples=_quantile_samples)
def quantile(input: TensorLike, q: Operand, dim: int | None, keepdim: bool, interpolation: str) -> Any:
    """The q-th quantiles, of all elements or along a dimension."""
    return _quantile(input, q, dim, keepdim, interpolation, False)


@composite(QUANTILE, out="exact", samples=_quantile_samples)
def nanquantile(input: TensorLike, q: Operand, dim: int | None, keepdim: bool, interpolation: str) -> Any:
    """The q-th quantiles of what is not NaN, of all elements or along a dimension."""
    return _quantile(input, q, dim, keepdim, interpolation, True)
