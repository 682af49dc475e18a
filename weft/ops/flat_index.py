"""Writing at flat places, folding rows into places, and indices of triangles.

Takes tensors, places and sources; gives new memory. One idea: `put` is `take` turned round, and folding rows
is a scatter whose index is the same along every other dimension.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from weft.core.arrays import Array, namespace
from weft.core.device import creation_device
from weft.core.dims import wrap_dim
from weft.core.dtypes import int64
from weft.core.types import TensorType, layout
from weft.ops.create import OPTIONS
from weft.ops.facts import Placing
from weft.ops.families import composite, create, index
from weft.ops.indexing import OUT_OF_RANGE, check_bounds
from weft.ops.options import check_layout, chosen
from weft.ops.record import Op, ops, type_of, unsupported
from weft.ops.samples import Maker, Sample
from weft.ops.scatter import check_rows, reduce_at
from weft.ops.values import DeviceLike, DType, TensorLike


# -- put -----------------------------------------------------------------------------------------------------
def _put_rule(x: TensorType, places: TensorType, source: TensorType, _accumulate: bool) -> TensorType:
    if places.dtype is not int64:
        raise RuntimeError(f"put_(): Expected a long tensor for index, but got {places.dtype.scalar_name}")
    if source.dtype is not x.dtype:
        raise RuntimeError(
            "put_(): self and source expected to have the same dtype, but got self.dtype = "
            f"{x.dtype.scalar_name} and source.dtype = {source.dtype.scalar_name}"
        )
    if source.numel() != places.numel():
        raise IndexError(
            "put_(): Expected source and index to have the same number of elements, but got source.numel() "
            f"= {source.numel()}, index.numel() = {places.numel()}"
        )
    return x


def _put_kernel(x: Array, places: Array, source: Array, accumulate: bool) -> Array:
    if not places.size:
        return x.copy()
    xp, size = namespace(x), x.size
    check_bounds(places, size, OUT_OF_RANGE, IndexError, -size)
    places = xp.where(places < 0, places + size, places)
    if accumulate:
        return reduce_at(xp.add, x, places, source)
    out = x.copy(order="C")
    out.reshape(-1)[places.reshape(-1)] = source.reshape(-1)
    return out


def _put_samples(make: Maker) -> Iterator[Sample]:
    yield Sample(make(3, 4), np.asarray([[1, 5], [-1, 0]]), make(2, 2))
    yield Sample(make(3, 4), make.ints(5, high=12), make(5), True)
    yield Sample(make(3), make.ints(0, high=3), make(0))


def _put_source(g: TensorLike, _out: object, _x: object, places: TensorLike, _source: TensorType) -> Any:
    return ops.reshape(ops.take(g, places), tuple(_source.shape))


put: Op = index(
    "put", _put_kernel, _put_rule, "input: Tensor, index: Tensor, source: Tensor, accumulate: bool = False",
    vjp=(
        lambda g, _out, _x, places, _source, accumulate: (
            g if accumulate else put(g, places, ops.new_zeros(g, tuple(places.shape)))
        ),
        None,
        _put_source,
    ),
    inplace=True, samples=_put_samples, batch=lambda op, size, args, dims: NotImplemented,
    refuses="integers", placing=Placing(),
)  # fmt: skip


# -- folding rows --------------------------------------------------------------------------------------------
def _rows_samples(make: Maker) -> Iterator[Sample]:
    for how in ("prod", "mean", "amax", "amin"):
        for include in (True, False):
            values = make.distinct(5, 4)
            yield Sample(values[:3], 0, make.ints(2, high=3), values[3:], how, include_self=include)
    yield Sample(make(3, 4), -1, make.ints(2, high=4), make(3, 2), "mean")


@composite(
    "input: Tensor, dim: Dim, index: Tensor, source: Tensor, reduce: str, *, include_self: bool = True",
    inplace=True, out=True, samples=_rows_samples,
)  # fmt: skip
def index_reduce(
    input: TensorLike, dim: int, index: TensorLike, source: TensorLike, reduce: str, include_self: bool
) -> Any:
    """Rows of `source` folded into the rows of `input` at these indices."""
    kind, rows = type_of(input), type_of(source)
    if reduce not in ("prod", "mean", "amax", "amin"):
        raise RuntimeError(
            f"index_reduce(): Expected reduce to be one of prod, mean, amax or amin but got {reduce}."
        )
    check_rows("index_reduce_", kind, dim, type_of(index), rows)
    index = within_rows(index, kind.shape[wrap_dim(dim, kind.ndim)] if kind.ndim else 1)
    if not kind.ndim:
        index = ops.reshape(index, ())
        return ops.scatter_reduce(input, 0, index, ops.reshape(source, ()), reduce, include_self=include_self)
    place = wrap_dim(dim, kind.ndim)
    shape = (1,) * place + (-1,) + (1,) * (kind.ndim - place - 1)
    wide = (*kind.shape[:place], type_of(index).numel(), *kind.shape[place + 1 :])
    index = ops.expand(ops.reshape(ops._to_copy(index, int64), shape), wide)
    source = ops.reshape(source, wide) if rows.ndim != kind.ndim else source
    return ops.scatter_reduce(input, place, index, source, reduce, include_self=include_self)


def _within_kernel(places: Array, size: int) -> Array:
    check_bounds(places, size, "index out of range in self", IndexError)
    return places.copy()


within_rows: Op = index(
    "within_rows", _within_kernel, lambda places, size: places, "input: Tensor, size: int", method=False,
    function=False, batch=lambda op, size, args, dims: (op(*args), dims[0]),
    samples=lambda make: [Sample(make.ints(3, high=4), 4)],
    refuses="integers",
)  # fmt: skip


# -- triangles -----------------------------------------------------------------------------------------------
def _triangle(name: str, part: str, lower: bool) -> None:
    """Defines `tril_indices` or `triu_indices`."""

    def kernel(row: int, col: int, offset: int, dtype: DType, *_ignored: object) -> Array:
        places = getattr(np, part)(row, offset, col)
        return np.stack(places).astype(chosen(dtype, int64, name).numpy)

    def count(row: int, col: int, offset: int) -> int:
        if lower:
            return sum(min(max(i + offset + 1, 0), col) for i in range(row))
        return sum(col - min(max(i + offset, 0), col) for i in range(row))

    def rule(
        row: int, col: int, offset: int, dtype: DType, layout: layout | None, device: DeviceLike, *_ig: object
    ) -> TensorType:
        for word, value in (("row", row), ("col", col)):
            if value < 0:
                raise RuntimeError(f"{word} must be non-negative, got{value}")
        check_layout(layout)
        kind = chosen(dtype, int64, name)
        if kind.category != 1:
            raise unsupported(name, kind)
        return TensorType((2, count(row, col, offset)), kind, creation_device(device))

    create(
        name, kernel, rule, f"row: int, col: int, offset: int = 0, *, {OPTIONS}", method=False,
        doc=f"The coordinates of the {'lower' if lower else 'upper'} triangle of a matrix, rows first.",
        samples=lambda make: [Sample(3, 3), Sample(3, 4, 1), Sample(4, 2, -1), Sample(0, 3)],
    )  # fmt: skip


_triangle("tril_indices", "tril_indices", True)
_triangle("triu_indices", "triu_indices", False)
