"""Bags of embeddings: rows of a table, summed, averaged or maximised bag by bag.

Takes indices, a table and where each bag starts; gives one vector per bag. The one idea: which bag an index
belongs to is worked out once; what follows is the gather, the sum by index and the gather at a maximum that
exist already, with their gradients.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from weft.core.arrays import Array, namespace
from weft.core.dtypes import bool_, int32, int64
from weft.core.seams import seams
from weft.core.types import Size, TensorType
from weft.core.warn import warn
from weft.ops.attention import embedding, embedding_renorm
from weft.ops.families import HIDDEN, composite, index
from weft.ops.record import Op, ops, type_of
from weft.ops.samples import Maker, Sample
from weft.ops.softmax import no_grad
from weft.ops.values import MaybeTensor, TensorLike


def _owners_kernel(offsets: Array, count: int, last: bool) -> Array:
    """The bag of each of `count` indices."""
    xp = namespace(offsets)
    if offsets.size:
        if int(offsets[0]) != 0:
            raise RuntimeError(
                "offsets[0] has to be 0, i.e., the first sequence in the mini-batch has to start from "
                f"position 0. However, got {int(offsets[0])}"
            )
        if int(offsets[-1]) > count:
            raise RuntimeError(
                f"offsets[-1] can not be greater than input's length {count} but got offsets[-1] of "
                f"{int(offsets[-1])}"
            )
    starts = offsets[:-1] if last else offsets
    return xp.searchsorted(starts, xp.arange(count), side="right").astype(xp.int64) - 1


def _owners_rule(offsets: TensorType, count: int, last: bool) -> TensorType:
    if last and offsets.numel() < 1:
        raise RuntimeError("include_last_offset: number of offset should be at least 1")
    return TensorType((count,), int64, offsets.device)


bag_owners: Op = index(
    "bag_owners", _owners_kernel, _owners_rule, "offsets: Tensor, count: int, last: bool",
    samples=lambda make: [Sample(make.ints(3, high=1), 4, False)], **HIDDEN,
    refuses="integers",
)  # fmt: skip


def _greatest_kernel(rows: Array, owners: Array, kept: Array, bags: int) -> tuple[Array, Array]:
    """For each bag and column the row of its first maximum (0 where a bag is empty), and whether there is
    one.
    """
    xp = namespace(rows)
    width = rows.shape[1]
    best = xp.full((bags, width), -xp.inf, rows.dtype)
    places = xp.flatnonzero(kept)
    owner, values = owners[places], rows[places]
    found = xp.zeros((bags, width), xp.int64)
    some = xp.zeros((bags, 1), bool)
    if places.size:
        xp.maximum.at(best, owner, values)
        first = xp.where(values == best[owner], places[:, None], rows.shape[0])
        lowest = xp.full((bags, width), rows.shape[0], xp.int64)
        xp.minimum.at(lowest, owner, first)
        some[owner] = True
        found = xp.where(lowest == rows.shape[0], 0, lowest)
    return found, some


bag_greatest: Op = index(
    "bag_greatest", _greatest_kernel,
    lambda rows, owners, kept, bags: (
        TensorType((bags, rows.shape[1]), int64, rows.device), TensorType((bags, 1), bool_, rows.device)
    ),
    "rows: Tensor, owners: Tensor, kept: Tensor, bags: int",
    samples=lambda make: [Sample(make.distinct(4, 3), make.ints(4, high=2), make.bools(4), 3)],
    **HIDDEN,
    refuses="integers",
)  # fmt: skip


def _check(
    input: TensorLike, weight: TensorLike, offsets: MaybeTensor, factors: MaybeTensor, mode: str
) -> None:
    for value in (input, offsets):
        kind = type_of(value).dtype
        if kind not in (int64, int32):
            raise RuntimeError(
                "Expected tensor for argument #1 'indices' to have one of the following scalar types: Long, "
                f"Int; but got torch.{kind.scalar_name}Tensor instead (while checking arguments for "
                "embedding_bag)"
            )
    kind = type_of(weight).dtype
    if not kind.is_floating_point:
        raise RuntimeError(
            "Expected tensor for argument #1 'weight' to have one of the following scalar types: Half, "
            f"BFloat16, Float, Double; but got torch.{kind.scalar_name}Tensor instead (while checking "
            "arguments for embedding_bag)"
        )
    if factors is not None and type_of(factors).dtype is not kind:
        raise RuntimeError(
            "Expected tensor for argument #1 'weight' to have the same type as tensor for argument #1 "
            f"'per_sample_weights'; but type torch.{kind.scalar_name}Tensor does not equal "
            f"torch.{type_of(factors).dtype.scalar_name}Tensor (while checking arguments for embedding_bag)"
        )


def _offsets(input: TensorLike, offsets: MaybeTensor) -> tuple[Any, Any]:
    """Flat indices, and where bags start (None: every row of the given two-dimensional ones is a bag)."""
    shape = type_of(input).shape
    if len(shape) == 2:
        if offsets is not None:
            raise ValueError(
                "if input is 2D, then offsets has to be None, as input is treated is a mini-batch of fixed "
                f"length sequences. However, found offsets of type {type(offsets)}"
            )
        return ops.reshape(input, (-1,)), None
    if len(shape) != 1:
        raise ValueError(f"input has to be 1D or 2D Tensor, but got Tensor of dimension {len(shape)}")
    if offsets is None:
        raise ValueError("offsets has to be a 1D Tensor but got None")
    if type_of(offsets).ndim != 1:
        raise ValueError("offsets has to be a 1D Tensor")
    return input, offsets


def _row_owners(flat: TensorLike, rows: int, width: int) -> Any:
    """The row of each element of a matrix, row by row."""
    numbers = ops.sub(ops.cumsum(ops.new_ones(flat, (rows,), dtype=int64), 0), 1)
    return ops.reshape(ops.expand(ops.unsqueeze(numbers, 1), (rows, width)), (-1,))


def _bag_samples(make: Maker) -> Iterator[Sample]:
    starts = np.array([0, 2, 2], dtype=np.int64)
    for mode in ("sum", "mean", "max"):
        yield Sample(make.ints(5, high=6), make.distinct(6, 3), starts, mode=mode)
        yield Sample(make.ints(2, 3, high=6), make.distinct(6, 3), mode=mode, padding_idx=1)
    yield Sample(make.ints(5, high=6), make(6, 3), starts, mode="sum", per_sample_weights=make(5))
    yield Sample(make.ints(5, high=6), make(6, 3), np.array([0, 2, 5]), include_last_offset=True)


MODES = ("sum", "mean", "max")


@composite(
    "input: Tensor, weight: Tensor, offsets: MaybeTensor = None, max_norm: Any = None, norm_type: float = 2, "
    "scale_grad_by_freq: bool = False, mode: str = 'mean', sparse: bool = False, "
    "per_sample_weights: MaybeTensor = None, include_last_offset: bool = False, padding_idx: Any = None",
    namespace="nn.functional", samples=_bag_samples,
)  # fmt: skip
def embedding_bag(
    input: TensorLike, weight: TensorLike, offsets: MaybeTensor, max_norm: float | None, norm_type: float,
    scale_grad_by_freq: bool, mode: str, sparse: bool, per_sample_weights: MaybeTensor,
    include_last_offset: bool, padding_idx: int | None,
) -> Any:  # fmt: skip
    """Sums, means or maxima of the rows of a table, bag by bag."""
    if type_of(weight).dtype is int64 and type_of(input).dtype.is_floating_point:
        warn(
            "Argument order of nn.functional.embedding_bag was changed. Usage `embedding_bag(weight, input, "
            "...)` is deprecated, and should now be `embedding_bag(input, weight, ...)`."
        )
        input, weight = weight, input
    shape, factors = tuple(type_of(input).shape), per_sample_weights
    if factors is not None and tuple(type_of(factors).shape) != shape:
        raise ValueError(
            f"embedding_bag: If per_sample_weights ({Size(type_of(factors).shape)}) is not None, then it "
            f"must have the same shape as the input ({Size(shape)})"
        )
    if type_of(weight).ndim != 2:
        raise ValueError(f"weight has to be a 2D Tensor, but got Tensor of dimension {type_of(weight).ndim}")
    flat, starts = _offsets(input, offsets)
    _check_mode(mode, scale_grad_by_freq, sparse)
    if max_norm is not None:
        smaller = no_grad(embedding_renorm, weight, flat, float(max_norm), float(norm_type))
        weight = no_grad(weight.copy_, smaller) if hasattr(weight, "copy_") else smaller
    if factors is not None and mode != "sum":
        raise NotImplementedError(
            "embedding_bag: per_sample_weights was not None. per_sample_weights is only supported for "
            f"mode='sum' (got mode='{mode}'). Please open a feature request on GitHub."
        )
    _check(flat, weight, flat if starts is None else starts, factors, mode)
    rows = type_of(weight).shape[0]
    if padding_idx is not None and not -rows <= padding_idx < rows:
        raise RuntimeError(
            f"padding_idx must be within the number of embeddings, {-rows} through {rows - 1}, but got "
            f"{padding_idx}"
        )
    if starts is None:
        bags, owners = shape[0], _row_owners(flat, *shape)
    else:
        bags = type_of(starts).shape[0] - include_last_offset
        owners = bag_owners(starts, shape[0], include_last_offset)
    kept = None if padding_idx is None else ops.ne(flat, padding_idx % rows)
    factors = None if factors is None else ops.reshape(factors, (-1,))
    sparse = sparse and seams.gives_sparse_rows(weight)
    unread = padding_idx % rows if sparse and padding_idx is not None else -1  # its rows are left out
    vectors = embedding(weight, flat, unread, scale_grad_by_freq, sparse)
    return _pooled(vectors, owners, kept, factors, bags, mode)


def _check_mode(mode: str, by_frequency: bool, sparse: bool) -> None:
    if mode not in MODES:
        raise ValueError("mode has to be one of sum, mean or max")
    if mode == "max":
        if by_frequency:
            raise ValueError("max mode does not support scaling the gradient by the frequency")
        if sparse:
            raise ValueError("max mode does not support sparse weights")


def _pooled(
    vectors: TensorLike, owners: TensorLike, kept: MaybeTensor, factors: MaybeTensor, bags: int, mode: str
) -> Any:
    width = type_of(vectors).shape[1]
    if mode == "max":
        counted = ops.new_ones(owners, tuple(type_of(owners).shape), dtype=bool_) if kept is None else kept
        places, some = bag_greatest(vectors, owners, counted, bags)
        if not type_of(vectors).shape[0]:
            return ops.new_zeros(vectors, (bags, width))
        return ops.where(some, ops.gather(vectors, 0, places), 0.0)
    if factors is not None:
        vectors = ops.mul(vectors, ops.unsqueeze(factors, 1))
    if kept is not None:
        vectors = ops.where(ops.unsqueeze(kept, 1), vectors, 0.0)
    total = ops.index_add(ops.new_zeros(vectors, (bags, width)), 0, owners, vectors)
    if mode == "sum":
        return total
    ones = ops.new_ones(vectors, tuple(type_of(owners).shape)) if kept is None else kept
    ones = ops._to_copy(ones, type_of(vectors).dtype)
    counts = ops.index_add(ops.new_zeros(vectors, (bags,)), 0, owners, ones)
    return ops.div(total, ops.unsqueeze(ops.clamp_min(counts, 1), 1))
