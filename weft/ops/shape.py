"""Joining, repeating and rearranging: ops that move elements into new memory by position alone.

One idea: each gradient is the transposed movement, written in the same few ops (cat and split, flip and flip,
roll and roll back).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from operator import index as as_index
from typing import Any

import numpy as np

from weft.core import dtypes
from weft.core.arrays import Array, namespace, row_major
from weft.core.dims import wrap_dim, wrap_dims
from weft.core.dtypes import promote_types
from weft.core.naming import named
from weft.core.symbolic import applied
from weft.core.types import TensorType, contiguous_format
from weft.core.warn import warn
from weft.ops.batching import joined, leading
from weft.ops.facts import Placing
from weft.ops.families import composite, index
from weft.ops.index_batching import (
    batch_cat,
    batch_diag_embed,
    batch_diagonal_copy,
    batch_flip,
    batch_repeat,
    batch_roll,
)
from weft.ops.record import Op, common_device, ops, type_of, unsupported
from weft.ops.samples import Maker, Sample
from weft.ops.slicing import diagonal, slice_, unbind
from weft.ops.values import Dims, Sizes, Spread, TensorLike
from weft.ops.view import (
    as_sizes,
    check_apart,
    expand,
    known_data,
    like,
    reshape,
    transpose,
    unsqueeze,
    view,
)

ndarray = np.ndarray


# -- cat and stack -------------------------------------------------------------------------------------------
def _skipped(shape: tuple[int, ...]) -> bool:
    """PyTorch lets empty vectors join anything."""
    return shape == (0,)


def joined_dtype(types: Sequence[TensorType]) -> Any:
    kind = types[0].dtype
    for other in types[1:]:
        kind = promote_types(kind, other.dtype)
    return kind


def _cat_rule(tensors: Sequence[TensorType], dim: int) -> TensorType:
    if not tensors:
        raise ValueError("torch.cat(): expected a non-empty list of Tensors")
    for position, x in enumerate(tensors):
        if not x.shape:
            raise RuntimeError(f"zero-dimensional tensor (at position {position}) cannot be concatenated")
    kind = joined_dtype(tensors)
    device = common_device(list(tensors))
    parts = [(i, x) for i, x in enumerate(tensors) if not _skipped(x.shape)]
    if not parts:
        return TensorType((0,), kind, device) if wrap_dim(dim, 1) == 0 else tensors[0]
    first = parts[0][1]
    place = wrap_dim(dim, first.ndim)
    total = 0
    for position, x in parts:
        if x.ndim != first.ndim:
            raise RuntimeError(f"Tensors must have same number of dimensions: got {first.ndim} and {x.ndim}")
        for i, (have, want) in enumerate(zip(x.shape, first.shape, strict=True)):
            if have != want and i != place:
                raise RuntimeError(
                    f"Sizes of tensors must match except in dimension {place}. Expected size {want} but got "
                    f"size {have} for "
                    f"tensor number {position} in the list."
                )
        total += x.shape[place]
    return TensorType((*first.shape[:place], total, *first.shape[place + 1 :]), kind, device)


def check_joined(_op: Op, target: Any, value: Any, tensors: Any) -> None:
    """What `out=` may be."""
    check_apart(target, tensors)
    if value.dtype.category > target.dtype.category:
        raise TypeError(
            f"torch.cat(): input types can't be cast to the desired output type {target.dtype.scalar_name}"
        )


def _cat(tensors: Sequence[Array], dim: int) -> Array:
    parts = [x for x in tensors if x.shape != (0,)] or tensors[:1]
    first = tensors[0].dtype
    xp = namespace(*tensors)
    if all(x.dtype is first for x in tensors):
        joined = xp.concatenate(parts, dim)
        if joined.ndim < 4 and joined.flags.c_contiguous:
            return joined
    else:
        kind = joined_dtype([type_of(x) for x in tensors]).numpy
        joined = xp.concatenate([x.astype(kind, copy=False) for x in parts], dim)
    return joined if all(map(_channels_last, parts)) else row_major(joined)


def _channels_last(x: Array) -> bool:
    """Whether the second of four or five dimensions lies innermost; what else joins lies row by row."""
    if not 4 <= x.ndim <= 5 or x.flags.c_contiguous:
        return False
    return bool(x.transpose(0, *range(2, x.ndim), 1).flags.c_contiguous)


def _cat_vjp(g: TensorLike, _out: object, _tensors: Sequence[TensorType], dim: int) -> list[Any]:
    place = wrap_dim(dim, g.ndim)
    gradients: list[Any] = []
    start = 0
    for x in _tensors:
        if _skipped(x.shape):
            gradients.append(ops.new_zeros(g, (0,)))
            continue
        gradients.append(slice_(g, place, start, start + x.shape[place], 1))
        start += x.shape[place]
    return gradients


def _cat_samples(make: Maker) -> Iterator[Sample]:
    yield Sample([make(2, 3), make(1, 3)])
    yield Sample([make(2, 3), make(2, 1), make(2, 0)], -1)
    yield Sample([make(2, 3), make(0)])
    yield Sample([make(3)])
    yield Sample([make(3, 2).T, make(2, 3)], 1)


cat: Op = index(
    "cat", _cat, _cat_rule, "tensors: Tensors, dim: Dim = 0", vjp=_cat_vjp, aliases=("concat", "concatenate"),
    method=False, out=check_joined, amp="widest", samples=_cat_samples, batch=batch_cat, trusted=True,
    refuses="nothing", lowering="joining", cheap=True,
)  # fmt: skip


def _stack_rule(tensors: Sequence[TensorType], dim: int) -> TensorType:
    if not tensors:
        raise RuntimeError("stack expects a non-empty TensorList")
    first = tensors[0]
    place = wrap_dim(dim, first.ndim + 1)
    for position, x in enumerate(tensors[1:], 1):
        if x.shape != first.shape:
            raise RuntimeError(
                f"stack expects each tensor to be equal size, but got {list(first.shape)} at entry 0 and "
                f"{list(x.shape)} at "
                f"entry {position}"
            )
    shape = (*first.shape[:place], len(tensors), *first.shape[place:])
    return TensorType(shape, joined_dtype(tensors), common_device(list(tensors)))


def _stack(tensors: Sequence[Array], dim: int) -> Array:
    first = tensors[0].dtype
    if all(x.dtype is first for x in tensors):
        return row_major(namespace(*tensors).stack(tensors, dim))
    kind = joined_dtype([type_of(x) for x in tensors]).numpy
    return row_major(namespace(*tensors).stack([x.astype(kind, copy=False) for x in tensors], dim))


stack: Op = index(
    "stack", _stack, _stack_rule, "tensors: Tensors, dim: NewDim = 0", batch=joined,
    vjp=lambda g, _out, _tensors, dim: list(unbind(g, dim)), method=False, out=check_joined, amp="widest",
    trusted=True,
    samples=lambda make: [Sample([make(2, 3), make(2, 3)]), Sample([make(2), make(2)], -1),
        Sample([make(), make()])],
    refuses="nothing", lowering="pointwise",
)  # fmt: skip


def _at_least(x: TensorLike, rank: int) -> Any:
    """Leading dimensions of size one until there are `rank`."""
    shape = type_of(x).shape
    return x if len(shape) >= rank else view(x, (1,) * (rank - len(shape)) + tuple(shape))


@composite(
    "tensors: Tensors", method=False, out=check_joined,
    samples=lambda make: [Sample([make(2, 3), make(2, 1)]), Sample([make(2), make(3)]),
        Sample([make(), make(1)])],
)  # fmt: skip
def hstack(tensors: Sequence[TensorLike]) -> Any:
    """Joined along the second dimension (the first, for vectors)."""
    if not tensors:
        raise RuntimeError("hstack expects a non-empty TensorList")
    parts = [_at_least(x, 1) for x in tensors]
    return cat(parts, 0 if type_of(parts[0]).ndim == 1 else 1)


@composite(
    "tensors: Tensors", method=False, out=check_joined, aliases=("row_stack",),
    samples=lambda make: [Sample([make(2, 3), make(1, 3)]), Sample([make(2), make(2)]),
        Sample([make(), make(1)])],
)  # fmt: skip
def vstack(tensors: Sequence[TensorLike]) -> Any:
    """Joined along the first dimension, vectors as rows."""
    if not tensors:
        raise RuntimeError("vstack expects a non-empty TensorList")
    return cat([_at_least(x, 2) for x in tensors], 0)


@composite(
    "tensors: Tensors", method=False, out=check_joined,
    samples=lambda make: [Sample([make(2, 3, 1), make(2, 3, 2)]), Sample([make(2), make(2)])],
)  # fmt: skip
def dstack(tensors: Sequence[TensorLike]) -> Any:
    """Joined along the third dimension."""
    if not tensors:
        raise RuntimeError("dstack expects a non-empty TensorList")
    deep = [unsqueeze(_at_least(x, 2), 2) if type_of(x).ndim < 3 else x for x in tensors]
    return cat(deep, 2)


@composite(
    "tensors: Tensors", method=False, out=check_joined,
    samples=lambda make: [Sample([make(2), make(2, 3)]), Sample([make(), make(1)])],
)  # fmt: skip
def column_stack(tensors: Sequence[TensorLike]) -> Any:
    """Joined along the second dimension, vectors as columns."""
    if not tensors:
        raise RuntimeError("column_stack expects a non-empty TensorList")
    columns = [reshape(x, (type_of(x).numel(), 1)) if type_of(x).ndim < 2 else x for x in tensors]
    return cat(columns, 1)


# -- repeats -------------------------------------------------------------------------------------------------
def _repeat_rule(x: TensorType, repeats: Sizes) -> TensorType:
    repeats = as_sizes(repeats)
    lead = len(repeats) - x.ndim
    if lead < 0:
        raise RuntimeError(
            "Number of dimensions of repeat dims can not be smaller than number of dimensions of tensor"
        )
    shape = [n * times for n, times in zip((1,) * lead + x.shape, repeats, strict=True)]
    for n in shape:
        if n < 0:
            raise RuntimeError(f"Trying to create tensor with negative dimension {n}: {shape}")
    return like(x, shape)


def _repeat(x: Array, repeats: Sizes) -> Array:
    made = namespace(x).tile(x, tuple(map(as_index, repeats)))
    return made if x.size else namespace(x).zeros(made.shape, x.dtype)  # NumPy gives a view of nothing


def _repeat_vjp(g: TensorLike, _out: object, _x: TensorType, repeats: Sizes) -> Any:
    """Sums over the copies: each dimension as (copies, size)."""
    repeats = as_sizes(repeats)
    if 0 in repeats:
        return ops.new_zeros(g, _x.shape)
    shape = (1,) * (len(repeats) - _x.ndim) + _x.shape
    pairs = [n for pair in zip(repeats, shape, strict=True) for n in pair]
    if not pairs:
        return g
    return reshape(ops.sum(reshape(g, pairs), tuple(range(0, len(pairs), 2))), _x.shape)


def _repeat_samples(make: Maker) -> Iterator[Sample]:
    yield Sample(make(2, 3), 2, 1)
    yield Sample(make(2, 3), (2, 1, 3))
    yield Sample(make(2, 3), (0, 2))
    yield Sample(make(), (2,))
    yield Sample(make(), ())


repeat: Op = index(
    "repeat", _repeat, _repeat_rule,
    "input: Tensor, *repeats: Shape", function=False, vjp=_repeat_vjp, samples=_repeat_samples,
    batch=batch_repeat,
    refuses="nothing", lowering="pointwise",
)  # fmt: skip


@composite(
    "input: Tensor, *dims: Any",
    samples=lambda make: [Sample(make(2, 3), 2), Sample(make(2, 3), (2, 1, 2)), Sample(make(), (2,))],
)
def tile(input: TensorLike, dims: Sizes) -> Any:
    """As repeat; missing leading repeats count as 1."""
    dims = as_sizes(dims)
    return repeat(input, (1,) * (type_of(input).ndim - len(dims)) + dims)


def _repeat_counts(repeats: Array) -> Array:
    if repeats.size and repeats.min() < 0:
        raise RuntimeError("repeats can not be negative")
    return namespace(repeats).repeat(namespace(repeats).arange(repeats.size, dtype=repeats.dtype), repeats)


def _counts_rule(repeats: TensorType) -> None:
    if repeats.ndim != 1:
        raise RuntimeError("repeat_interleave only accept 1D vector as repeat")
    if repeats.dtype.name not in ("int32", "int64"):
        raise unsupported("repeat_interleave_cpu", repeats.dtype)
    return known_data(repeats, "repeat_interleave")


_repeat_positions = index(
    "_repeat_positions", _repeat_counts, _counts_rule, "repeats: Tensor", method=False, function=False,
    refuses="integers",
)  # fmt: skip


def _interleave_samples(make: Maker) -> Iterator[Sample]:
    yield Sample(make(2, 3), 2)
    yield Sample(make(2, 3), 3, 1)
    yield Sample(make(2, 3), np.array([2, 0]), 0)
    yield Sample(make(2, 3), np.array([2]), -1)


@composite(
    "input: Tensor, repeats: Any = None, dim: Any = None, *, output_size: Any = None",
    samples=_interleave_samples,
    refuses="integers",
    draws=False,
)
def repeat_interleave(
    input: TensorLike, repeats: TensorLike | int | None, dim: int | None, output_size: int | None
) -> Any:
    """Each item repeated in place: by one number, or each by its own."""
    if repeats is None:
        return _repeat_positions(input)
    if dim is None:
        input, dim = flat(input), 0
    kind = type_of(input)
    place = wrap_dim(dim, kind.ndim)
    if isinstance(repeats, bool) or not (hasattr(repeats, "shape") or isinstance(repeats, int)):
        raise TypeError(
            "repeat_interleave(): argument 'repeats' (position 2) must be Tensor or int, not "
            f"{type(repeats).__name__}"
        )
    if isinstance(repeats, int):
        if repeats < 0:
            raise RuntimeError("Repeats must be non-negative")
        if not kind.shape:
            input, kind = reshape(input, (1,)), like(kind, (1,))
        shape, count = kind.shape, applied(int, repeats)
        spread = expand(unsqueeze(input, place + 1), (*shape[: place + 1], count, *shape[place + 1 :]))
        copied = ops.clone(spread, memory_format=contiguous_format)
        return view(copied, (*shape[:place], shape[place] * count, *shape[place + 1 :]))
    counts = type_of(repeats)
    size = kind.shape[place] if kind.shape else 1
    if counts.ndim > 1:
        raise RuntimeError("repeats must be 0-dim or 1-dim tensor")
    if counts.ndim == 0 or counts.shape[0] == 1:
        repeats = expand(reshape(repeats, (1,)), (size,))
    elif counts.shape[0] != size:
        raise RuntimeError(
            "repeats must have the same size as input along dim, but got repeats.size(0) = "
            f"{counts.shape[0]} and "
            f"input.size({place}) = {size}"
        )
    return ops.index_select(input, place, _repeat_positions(repeats))


def flat(x: TensorLike) -> Any:
    return reshape(x, (-1,)) if type_of(x).numel() else reshape(x, (0,))


# -- reversals and rotations ---------------------------------------------------------------------------------
def _flip_rule(x: TensorType, dims: Sizes) -> TensorType:
    wrap_dims(dims, x.ndim)
    return x


def _flip(x: Array, dims: Sizes) -> Array:
    if not x.ndim:
        return x.copy()
    return namespace(x).flip(x, wrap_dims(dims, x.ndim)).copy()


flip: Op = index(
    "flip", _flip, _flip_rule, "input: Tensor, *dims: Dims", vjp=lambda g, _out, _x, dims: flip(g, dims),
    batch=batch_flip,
    samples=lambda make: [Sample(make(2, 3), 0), Sample(make(2, 3), (0, -1)), Sample(make(2, 3), ()),
        Sample(make(), (0,))],
    refuses="nothing", lowering="pointwise",
)  # fmt: skip


@composite("input: Tensor", samples=lambda make: [Sample(make(2, 3))])
def fliplr(input: TensorLike) -> Any:
    if type_of(input).ndim < 2:
        raise RuntimeError("Input must be >= 2-d.")
    return flip(input, (1,))


@composite("input: Tensor", samples=lambda make: [Sample(make(2, 3)), Sample(make(3))])
def flipud(input: TensorLike) -> Any:
    if type_of(input).ndim < 1:
        raise RuntimeError("Input must be >= 1-d.")
    return flip(input, (0,))


def _pair(shifts: Spread, dims: Dims) -> tuple[tuple[int, ...], tuple[int, ...]]:
    shifts = (shifts,) if isinstance(shifts, int) else as_sizes(shifts)
    dims = (dims,) if isinstance(dims, int) else as_sizes(dims or ())
    return shifts, dims


def _roll_rule(x: TensorType, shifts: Spread, dims: Dims) -> TensorType:
    shifts, dims = _pair(shifts, dims)
    if not shifts:
        raise RuntimeError("`shifts` required")
    if len(shifts) != len(dims) and (dims or len(shifts) != 1):
        raise RuntimeError(f"shifts and dimensions must align. shifts: {len(shifts)}, dims:{len(dims)}")
    for d in dims:
        if not x.ndim:
            raise IndexError(f"Dimension specified as {d} but tensor has no dimensions")
        wrap_dim(d, x.ndim)
    return x


def _roll(x: Array, shifts: Spread, dims: Dims) -> Array:
    shifts, dims = _pair(shifts, dims)
    if not x.size:
        return x.copy()
    return namespace(x).roll(x, shifts if dims else shifts[0], dims or None)


def _back(shifts: Spread) -> Any:
    return -shifts if isinstance(shifts, int) else tuple(-n for n in shifts)


def _roll_samples(make: Maker) -> Iterator[Sample]:
    yield Sample(make(2, 3), 1)
    yield Sample(make(2, 3), 1, 0)
    yield Sample(make(2, 3), (1, -2), (0, 1))
    yield Sample(make(0, 3), 1, 1)


roll: Op = index(
    "roll", _roll, _roll_rule, "input: Tensor, shifts: Any, dims: Dims = ()", samples=_roll_samples,
    vjp=lambda g, _out, _x, shifts, dims: roll(g, _back(shifts), dims), batch=batch_roll,
    refuses="nothing", lowering="indexing",
)  # fmt: skip


@composite(
    "input: Tensor, k: int = 1, dims: Any = (0, 1)",
    samples=lambda make: [Sample(make(2, 3)), Sample(make(2, 3), 2), Sample(make(2, 3, 4), -1, (1, 2))],
)
def rot90(input: TensorLike, k: int, dims: Sizes) -> Any:
    """Rotated by quarter turns in the plane of two dimensions."""
    dims = as_sizes((dims,) if isinstance(dims, int) else dims)
    rank = type_of(input).ndim
    if len(dims) != 2:
        raise RuntimeError(f"expected total rotation dims == 2, but got dims = {len(dims)}")
    if rank < 2:
        raise RuntimeError(f"expected total dims >= 2, but got total dims = {rank}")
    first, second = dims
    if first == second or abs(first - second) == rank:
        raise RuntimeError(
            f"expected rotation dims to be different, but got dim0 = {first} and dim1 = {second}"
        )
    if not -rank <= first < rank or not -rank <= second < rank:
        bad = first if not -rank <= first < rank else second
        raise RuntimeError(f"Rotation dim{0 if bad == first else 1} out of range, dim = {bad}")
    k %= 4
    if k == 0:
        return ops.clone(input)
    if k == 2:
        return flip(input, (first, second))
    return (
        transpose(flip(input, (second,)), first, second)
        if k == 1
        else flip(transpose(input, first, second), (second,))
    )


# -- grids ---------------------------------------------------------------------------------------------------
def _meshgrid_samples(make: Maker) -> Iterator[Sample]:
    yield Sample(make(2), make(3), indexing="ij")
    yield Sample(make(2), make(3), make(), indexing="xy")


@composite("*tensors: Tensors, indexing: Any = None", method=False, samples=_meshgrid_samples)
def meshgrid(tensors: Sequence[TensorLike], indexing: str | None) -> Any:
    """Coordinate grids from vectors, as views."""
    if not tensors:
        raise RuntimeError("meshgrid expects a non-empty TensorList")
    types = [type_of(x) for x in tensors]
    for kind in types:
        if kind.ndim > 1:
            raise RuntimeError(
                f"torch.meshgrid: Expected 0D or 1D tensor in the tensor list but got: {kind.ndim}D"
            )
        if kind.dtype is not types[0].dtype:
            raise RuntimeError("meshgrid expects all tensors to have the same dtype")
    if indexing is None:
        warn(
            named("weft.meshgrid: in an upcoming release, it will be required to pass the indexing argument.")
        )
        indexing = "ij"
    if indexing not in ("ij", "xy"):
        raise RuntimeError(f'torch.meshgrid: indexing must be one of "xy" or "ij", but received: {indexing}')
    swap = indexing == "xy" and len(tensors) > 1
    order = [1, 0, *range(2, len(tensors))] if swap else list(range(len(tensors)))
    items = [tensors[i] for i in order]
    shape = tuple(type_of(x).numel() for x in items)
    rank = len(items)
    grids = [
        expand(view(x, (1,) * i + (shape[i],) + (1,) * (rank - 1 - i)), shape) for i, x in enumerate(items)
    ]
    return tuple(grids[i] for i in order)  # swapping is its own inverse


# -- triangles and diagonals ---------------------------------------------------------------------------------
def _triangle_rule(name: str) -> Any:
    def rule(x: TensorType, diagonal: int) -> TensorType:
        if x.ndim < 2:
            raise RuntimeError(f"{name}: input tensor must have at least 2 dimensions")
        return x

    return rule


def _triangle_samples(make: Maker) -> Iterator[Sample]:
    yield Sample(make(3, 4))
    yield Sample(make(3, 4), 1)
    yield Sample(make(2, 3, 3), -1)
    yield Sample(make(0, 3))


tril: Op = index(
    "tril", lambda x, k: namespace(x).tril(x, k), _triangle_rule("tril"), "input: Tensor, diagonal: int = 0",
    inplace=True, out="exact", vjp=lambda g, _out, _x, k: tril(g, k), samples=_triangle_samples,
    batch=leading,
    refuses="nothing", lowering="pointwise", placing=Placing(repeats=True),
)  # fmt: skip
triu: Op = index(
    "triu", lambda x, k: namespace(x).triu(x, k), _triangle_rule("triu"), "input: Tensor, diagonal: int = 0",
    inplace=True, out="exact", vjp=lambda g, _out, _x, k: triu(g, k), samples=_triangle_samples,
    batch=leading,
    refuses="nothing", lowering="pointwise", placing=Placing(repeats=True),
)  # fmt: skip


def _diag_embed_rule(x: TensorType, offset: int, dim1: int, dim2: int) -> TensorType:
    rank = x.ndim + 1
    first, second = wrap_dim(dim1, rank), wrap_dim(dim2, rank)
    if first == second:
        raise RuntimeError(f"diagonal dimensions cannot be identical {dim1}, {dim2}")
    if not x.shape:
        raise IndexError("Dimension out of range (expected to be in range of [-1, 0], but got -2)")
    shape = list(x.shape[:-1])
    size = x.shape[-1] + abs(offset)
    for place in sorted((first, second)):
        shape.insert(place, size)
    return like(x, shape)


def _diag_embed(x: Array, offset: int, dim1: int, dim2: int) -> Array:
    shape = _diag_embed_rule(TensorType(x.shape, dtypes.float32), offset, dim1, dim2).shape
    result = namespace(x).zeros(shape, x.dtype)
    diagonal(result, offset, dim1 % len(shape), dim2 % len(shape))[...] = x
    return result


def _diag_embed_samples(make: Maker) -> Iterator[Sample]:
    yield Sample(make(2, 3))
    yield Sample(make(3), 1)
    yield Sample(make(2, 3), -1, 0, 2)


diag_embed: Op = index(
    "diag_embed", _diag_embed, _diag_embed_rule,
    "input: Tensor, offset: int = 0, dim1: int = -2, dim2: int = -1",
    vjp=lambda g, _out, _x, offset, dim1, dim2: diagonal(g, offset, dim1, dim2), samples=_diag_embed_samples,
    batch=batch_diag_embed,
    refuses="nothing", lowering="indexing",
)  # fmt: skip


_diagonal_copy: Op = index(
    "_diagonal_copy", lambda x, offset: diagonal(x, offset, 0, 1).copy(),
    lambda x, offset: diagonal(x, offset, 0, 1), "input: Tensor, offset: int = 0",
    vjp=lambda g, _out, _x, offset: _diagonal_back(g, _x.shape, offset), method=False, function=False,
    node="DiagonalBackward0_copy",
    samples=lambda make: [Sample(make(3, 4)), Sample(make(3, 4), -1)], batch=batch_diagonal_copy,
    refuses="nothing", lowering="indexing",
)  # fmt: skip


def _diagonal_back(g: TensorLike, shape: tuple[int, ...], offset: int) -> Any:
    return ops.embed(g, shape, ((diagonal, (offset, 0, 1), None),))


@composite(
    "input: Tensor, diagonal: int = 0",
    out="exact",
    samples=lambda make: [Sample(make(3)), Sample(make(3), -1), Sample(make(3, 4)), Sample(make(3, 4), 1)],
)
def diag(input: TensorLike, diagonal: int) -> Any:
    """A square matrix with this diagonal; or, of a matrix, a diagonal."""
    rank = type_of(input).ndim
    if rank not in (1, 2):
        raise RuntimeError(f"diag(): Supports 1D or 2D tensors. Got {rank}D")
    return diag_embed(input, diagonal) if rank == 1 else _diagonal_copy(input, diagonal)


@composite("input: Tensor, offset: int = 0", samples=lambda make: [Sample(make(2, 2)), Sample(make(3), 1)])
def diagflat(input: TensorLike, offset: int) -> Any:
    return diag_embed(flat(input), offset)
