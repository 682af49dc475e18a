"""Tensors put together: on a diagonal, in all combinations, as powers; and tensors of at least some rank.

Takes tensors; gives bigger ones. One idea: all are views, paddings, products and gathers that exist, so
gradients come with them; only the places of combinations are found by a record.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from typing import Any

from weft.core.arrays import Array, namespace
from weft.core.dtypes import int64
from weft.core.types import TensorType
from weft.ops.families import composite, index
from weft.ops.record import Op, ops, type_of
from weft.ops.samples import Maker, Sample
from weft.ops.values import TensorLike


# -- ranks ---------------------------------------------------------------------------------------------------
def _raised(x: TensorLike, rank: int) -> Any:
    """The tensor with dimensions of size one put around it as NumPy does."""
    shape = tuple(type_of(x).shape)
    if len(shape) >= rank:
        return x
    if rank == 3 and len(shape) == 2:
        return ops.unsqueeze(x, 2)
    if rank == 3 and len(shape) == 1:
        return ops.reshape(x, (1, *shape, 1))
    return ops.reshape(x, (1,) * (rank - len(shape)) + shape)


def _at_least(rank: int) -> Op:
    """Defines `atleast_1d`, `2d` or `3d`."""

    def body(tensors: Sequence[Any]) -> Any:
        listed = len(tensors) == 1 and isinstance(tensors[0], (tuple, list))
        if listed or len(tensors) != 1:
            return tuple(_raised(x, rank) for x in (tensors[0] if listed else tensors))
        return _raised(tensors[0], rank)

    body.__doc__ = f"The tensors, those of a lower rank than {rank} with dimensions of size one."

    def samples(make: Maker) -> Iterator[Sample]:
        yield Sample(make(2))
        yield Sample(make(), make(2, 3))
        yield Sample(make(2, 3))

    return composite("*tensors: Tensors", name=f"atleast_{rank}d", method=False, samples=samples)(body)


for _rank in (1, 2, 3):
    _at_least(_rank)


# -- diagonals and products ----------------------------------------------------------------------------------
@composite(
    "*tensors: Tensors", method=False,
    samples=lambda make: [Sample(make(2, 3), make(), make(2)), Sample(make(1, 2))],
)  # fmt: skip
def block_diag(tensors: Sequence[TensorLike]) -> Any:
    """The matrices along the diagonal of one, zeros elsewhere."""
    if not tensors:
        return ops.empty((1, 0))
    blocks = []
    for position, x in enumerate(tensors):
        rank = type_of(x).ndim
        if rank > 2:
            raise RuntimeError(
                "torch.block_diag: Input tensors must have 2 or fewer dimensions. Input "
                f"{position} has {rank} dimensions"
            )
        blocks.append(_raised(x, 2))
    widths = [type_of(x).shape[1] for x in blocks]
    before, rows = 0, []
    for block, width in zip(blocks, widths, strict=True):
        rows.append(ops.constant_pad_nd(block, (before, sum(widths) - before - width), 0))
        before += width
    return ops.cat(rows, 0)


@composite(
    "*tensors: Tensors", method=False,
    samples=lambda make: [Sample(make(2), make(3)), Sample(make(3)), Sample(make(2), make(1), make(2))],
)  # fmt: skip
def cartesian_prod(tensors: Sequence[TensorLike]) -> Any:
    """All combinations of one element from each vector, as rows."""
    for x in tensors:
        if type_of(x).ndim != 1:
            raise RuntimeError(f"Expect a 1D vector, but got shape {list(type_of(x).shape)}")
    if len(tensors) == 1:
        return tensors[0]
    count = len(tensors)
    sizes = tuple(type_of(x).shape[0] for x in tensors)
    columns = []
    for position, x in enumerate(tensors):
        shape = (1,) * position + (sizes[position],) + (1,) * (count - position - 1)
        columns.append(ops.reshape(ops.expand(ops.reshape(x, shape), sizes), (-1,)))
    return ops.stack(columns, 1)


def _places_count(n: int, r: int, repeated: bool) -> int:
    return math.comb(n + r - 1, r) if repeated and r else math.comb(n, r)


def _places_kernel(x: Array, r: int, repeated: bool) -> Array:
    xp = namespace(x)
    choose = itertools.combinations_with_replacement if repeated else itertools.combinations
    flat = xp.fromiter(itertools.chain.from_iterable(choose(range(x.shape[0]), r)), xp.int64)
    return flat.reshape(-1)


_places: Op = index(
    "combination_places", _places_kernel,
    lambda x, r, repeated: TensorType((r * _places_count(x.shape[0], r, repeated),), int64, x.device),
    "input: Tensor, r: int, with_replacement: bool", method=False, function=False,
    batch=lambda op, size, args, dims: (op(ops.select(args[0], dims[0], 0), *args[1:]), None),
    samples=lambda make: [Sample(make(4), 2, False), Sample(make(3), 2, True)],
    refuses="nothing",
)  # fmt: skip


def _combination_samples(make: Maker) -> Iterator[Sample]:
    yield Sample(make(4))
    yield Sample(make(3), 3, True)
    yield Sample(make(3), 5)


@composite(
    "input: Tensor, r: int = 2, with_replacement: bool = False", method=False, samples=_combination_samples
)
def combinations(input: TensorLike, r: int, with_replacement: bool) -> Any:
    """All combinations of r elements of a vector, as rows."""
    kind = type_of(input)
    if kind.ndim != 1:
        raise RuntimeError(f"Expect a 1D vector, but got shape {list(kind.shape)}")
    if r < 0:
        raise RuntimeError(f"Expect a non-negative number, but got {r}")
    if r == 0:
        return ops.new_empty(input, (0,))
    chosen = ops.index_select(input, 0, _places(input, r, with_replacement))
    return ops.reshape(chosen, (_places_count(kind.shape[0], r, with_replacement), r))


# -- powers --------------------------------------------------------------------------------------------------
def powers(x: TensorLike, count: int) -> Any:
    """1, x, x², … along a new last dimension."""
    kind = type_of(x)
    shape = tuple(kind.shape)
    first = ops.new_ones(x, (*shape, 1), dtype=kind.dtype if kind.dtype.category > 1 else int64)
    if count < 2:
        return ops.narrow(first, -1, 0, count)
    rest = ops.cumprod(ops.expand(ops.unsqueeze(x, -1), (*shape, count - 1)), -1)
    return ops.cat([first, rest], -1)


def _vander_samples(make: Maker) -> Iterator[Sample]:
    yield Sample(make(3))
    yield Sample(make(3), 4, True)
    yield Sample(make(3), 0)


@composite("x: Tensor, N: Any = None, increasing: bool = False", method=False, samples=_vander_samples)
def vander(x: Any, N: Any, increasing: bool) -> Any:
    """The Vandermonde matrix: falling (or rising) powers of each element, as rows."""
    kind = type_of(x)
    if kind.ndim != 1:
        raise RuntimeError("x must be a one-dimensional tensor.")
    count = kind.shape[0] if N is None else N
    if count < 0:
        raise RuntimeError("N must be non-negative.")
    rows = powers(x, count)
    return rows if increasing else ops.flip(rows, (1,))
