"""Batch rules of views and index ops where the annotations are not the whole story.

Each takes the op, the batch's size, all arguments and where each tensor carries the batch; gives the result
and where the batch is in it. One idea: a batch is one more dimension that an index op can be told to leave
alone, or to walk along with the index (`rows`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from weft.core.arrays import Array, is_array, namespace
from weft.ops.batching import batch_pointwise, fit, joined, logical_result, spread_to, to_front
from weft.ops.record import Op, broadcast_shapes, ops, type_of
from weft.ops.replay import replay, view_scatter
from weft.ops.values import TensorLike

Result = tuple[Any, Any]


def rows(size: int, rank: int, like: TensorLike) -> Any:
    """The batch's own positions, shaped to broadcast against an index of this rank behind the batch."""
    shape = (size, *(1,) * rank)
    if is_array(like):
        return namespace(like).arange(size).reshape(shape)
    return ops.reshape(ops.arange(0, size), shape)


def _neighbours(dims: tuple[int, ...]) -> bool:
    return dims[-1] - dims[0] + 1 == len(dims)


def _ranked(
    indices: Sequence[TensorLike], places: Sequence[int | None], size: int
) -> tuple[list[Any], tuple[int, ...]]:
    """Index tensors with the batch in front, and the shape they broadcast to without it."""
    each = places if isinstance(places, tuple) else (None,) * len(indices)
    ranks = [type_of(p).ndim - (d is not None) for p, d in zip(indices, each, strict=True)]
    rank = max(ranks)
    lined: list[Any] = []
    for positions, dim in zip(indices, each, strict=True):
        if dim is None:
            lined.append(positions)
            continue
        front = to_front(positions, dim)
        shape = type_of(front).shape
        lined.append(ops.reshape(front, (size, *(1,) * (rank - len(shape) + 1), *shape[1:])))
    shapes = [
        type_of(p).shape[1:] if d is not None else type_of(p).shape for p, d in zip(lined, each, strict=True)
    ]
    return lined, broadcast_shapes(*shapes)


def batch_index(op: Op, size: int, args: tuple[Any, ...], dims: tuple[Any, ...]) -> Result:
    """x[index]: the batch is left alone, or indexed by its own rows."""
    x, indices, where = args
    if not where:
        return ops.clone(to_front(x, dims[0])), 0
    if not isinstance(dims[1], tuple):
        common = len(broadcast_shapes(*[type_of(p).shape for p in indices]))
        out = op(to_front(x, dims[0]), indices, tuple(d + 1 for d in where))
        return out, 0 if _neighbours(where) else common
    lined, common_shape = _ranked(indices, dims[1], size)
    if dims[0] is None:
        return op(x, lined, where), where[0] if _neighbours(where) else 0
    own = rows(size, len(common_shape), lined[0])
    out = op(to_front(x, dims[0]), [own, *lined], (0, *(d + 1 for d in where)))
    if _neighbours(where) and where[0]:  # the index came to the front: bring it back to its place
        count = len(common_shape)
        out = ops.movedim(out, tuple(range(1, 1 + count)), tuple(range(1 + where[0], 1 + where[0] + count)))
    return out, 0


def batch_along(op: Op, size: int, args: tuple[Any, ...], dims: tuple[Any, ...]) -> Result:
    """gather and scatter: all get a batch, the dim shifts; zero-dim tensors count as having one dimension."""
    expected = logical_result(op, args, dims)
    values = list(args)
    rank = 1
    for slot in op.signature.tensor_slots:
        if hasattr(args[slot], "shape"):
            front = spread_to(args[slot], dims[slot], size)
            values[slot] = front if type_of(front).ndim > 1 else ops.unsqueeze(front, 1)
            rank = max(rank, type_of(values[slot]).ndim - 1)
    values[1] = args[1] % rank + 1
    return fit(op(*values), expected, size), 0


def batch_cat(op: Op, size: int, args: tuple[Any, ...], dims: tuple[Any, ...]) -> Any:
    """As `joined`, but empty vectors, which may join anything, are left out."""
    tensors, dim = args
    each = dims[0] if isinstance(dims[0], tuple) else (None,) * len(tensors)
    kept = [
        (x, d)
        for x, d in zip(tensors, each, strict=True)
        if type_of(x).numel() or type_of(x).ndim > 1 + (d is not None)
    ]
    if not kept:
        return joined(op, size, args, dims)
    return joined(op, size, ([x for x, _ in kept], dim), (tuple(d for _, d in kept), None))


def batch_ravel(_op: Op, size: int, args: tuple[Any, ...], dims: tuple[Any, ...]) -> Result:
    x = to_front(args[0], dims[0])
    return ops.reshape(x, (size, type_of(x).numel() // max(size, 1))), 0


def batch_index_embed(op: Op, size: int, args: tuple[Any, ...], dims: tuple[Any, ...]) -> Any:
    g, indices, where, shape = args
    if not where:
        return NotImplemented
    if isinstance(dims[1], tuple):
        lined, common_shape = _ranked(indices, dims[1], size)
        first = _index_first(spread_to(g, dims[0], size), where, len(common_shape))
        own = rows(size, len(common_shape), lined[0])
        return op(first, [own, *lined], (0, *(d + 1 for d in where)), (size, *shape)), 0
    common = len(broadcast_shapes(*[type_of(p).shape for p in indices]))
    place = 0 if _neighbours(where) else common
    front = g if dims[0] == place else ops.movedim(g, dims[0], place)
    return op(front, indices, tuple(d + 1 for d in where), (size, *shape)), 0


def batch_index_put(op: Op, size: int, args: tuple[Any, ...], dims: tuple[Any, ...]) -> Any:
    x, values, indices, where, accumulate = args
    if not where:
        return NotImplemented
    if isinstance(dims[2], tuple):
        return _batch_put_apart(op, size, args, dims)
    common = len(broadcast_shapes(*[type_of(p).shape for p in indices]))
    logical = type_of(x).ndim - (dims[0] is not None) - len(where) + common
    spread = spread_to(values, dims[1], size)
    shape = type_of(spread).shape
    spread = ops.reshape(spread, (size, *(1,) * (logical - len(shape) + 1), *shape[1:]))
    if not _neighbours(where):
        spread = ops.movedim(spread, 0, common)
    return op(spread_to(x, dims[0], size), spread, indices, tuple(d + 1 for d in where), accumulate), 0


def _index_first(value: TensorLike, where: tuple[int, ...], count: int) -> Any:
    """What x[index] gives for one example, behind the batch, with the index's own dimensions in front."""
    if not _neighbours(where) or not where[0]:
        return value
    return ops.movedim(value, tuple(range(1 + where[0], 1 + where[0] + count)), tuple(range(1, 1 + count)))


def _batch_put_apart(op: Op, size: int, args: tuple[Any, ...], dims: tuple[Any, ...]) -> Any:
    """index_put where each example has its own index: the batch is indexed by its own rows."""
    x, values, indices, where, accumulate = args
    lined, common_shape = _ranked(indices, dims[2], size)
    logical = type_of(x).ndim - (dims[0] is not None) - len(where) + len(common_shape)
    spread = spread_to(values, dims[1], size)
    shape = type_of(spread).shape
    spread = ops.reshape(spread, (size, *(1,) * (logical - len(shape) + 1), *shape[1:]))
    own = rows(size, len(common_shape), lined[0])
    first = _index_first(spread, where, len(common_shape))
    return op(spread_to(x, dims[0], size), first, [own, *lined], (0, *(d + 1 for d in where)), accumulate), 0


def batch_assign(op: Op, size: int, args: tuple[Any, ...], dims: tuple[Any, ...]) -> Result:
    """copy and fill: the value, spread over the tensor and cast to its dtype."""
    x, value, *rest = args
    if not hasattr(value, "shape"):
        return op(to_front(x, dims[0]), value, *rest), 0
    target = spread_to(x, dims[0], size)
    front = spread_to(value, dims[1], size)
    own = type_of(front).shape[1:]
    gap = type_of(target).ndim - 1 - len(own)
    return ops.copy(target, ops.reshape(front, (size, *(1,) * gap, *own)), False), 0


def batch_view_scatter(_op: Op, size: int, args: tuple[Any, ...], dims: tuple[Any, ...]) -> Result:
    """The places that the steps reach, in each example laid out as a row."""
    x, source, steps = args
    whole = spread_to(x, dims[0], size)
    shape = type_of(whole).shape[1:]
    count = int(np.prod(shape, dtype=np.int64))
    numbers = namespace(x).arange(count) if is_array(x) else ops.arange(0, count)
    places = ops.reshape(replay(ops.reshape(numbers, shape), steps), (-1,))
    values = ops.reshape(spread_to(source, dims[1], size), (size, type_of(places).numel()))
    written = ops._index_put(ops.reshape(whole, (size, count)), values, [places], (1,), False)
    return ops.reshape(written, (size, *shape)), 0


view_scatter.batch = batch_view_scatter  # its record lies below this module


def batch_prod(op: Op, size: int, args: tuple[Any, ...], dims: tuple[Any, ...]) -> Any:
    if args[1] is not None:
        return NotImplemented
    x = to_front(args[0], dims[0])
    rank = type_of(x).ndim - 1
    out = op(ops.reshape(x, (size, type_of(x).numel() // max(size, 1))), 1, False, args[3])
    return (ops.reshape(out, (size, *(1,) * rank)) if args[2] else out), 0


def batch_index_select(op: Op, size: int, args: tuple[Any, ...], dims: tuple[Any, ...]) -> Any:
    x, dim, positions = args
    if dims[2] is None or not type_of(x).ndim - (dims[0] is not None):
        return NotImplemented
    front = to_front(positions, dims[2])
    vector = ops.reshape(front, (size, -1))
    rank = type_of(x).ndim - (dims[0] is not None)
    return batch_index(ops.index, size, (x, [vector], (dim % rank,)), (dims[0], (0,), None))


def batch_rows(op: Op, size: int, args: tuple[Any, ...], dims: tuple[Any, ...]) -> Any:
    """index_add, index_copy, index_fill: one index for the whole batch."""
    x, dim, positions, *rest = args
    rank = type_of(x).ndim - (dims[0] is not None)
    if op.name == "index_fill" and rank and (dims[2] is not None or dims[3] is not None):
        return _filled_rows(size, args, dims, rank)
    if dims[2] is not None or not rank:
        return NotImplemented
    if op.name != "index_fill":
        source = spread_to(rest[0], dims[3], size)
        rest = [source if type_of(source).ndim == rank + 1 else ops.unsqueeze(source, -1), *rest[1:]]
    return op(spread_to(x, dims[0], size), dim % rank + 1, positions, *rest), 0


def _filled_rows(size: int, args: tuple[Any, ...], dims: tuple[Any, ...], rank: int) -> Any:
    """index_fill by rows or values of each example's own: a scatter."""
    x, dim, positions, value = args
    whole, place = spread_to(x, dims[0], size), dim % rank + 1
    shape = tuple(type_of(whole).shape)
    each = ops.reshape(spread_to(positions, dims[2], size), (size, -1))
    each = ops._where(ops.lt(each, 0), ops.add(each, shape[place]), each)
    count = type_of(each).shape[1]
    line = tuple(count if d == place else 1 if d else size for d in range(rank + 1))
    target = (*shape[:place], count, *shape[place + 1 :])
    index = ops.expand(ops.reshape(each, line), target)
    kind = type_of(whole).dtype
    if hasattr(value, "shape"):
        filler = ops._to_copy(spread_to(value, dims[3], size), kind)
        value = ops.expand(ops.reshape(filler, (size, *(1,) * rank)), target)
    return ops.scatter(whole, place, index, value), 0


def batch_take(op: Op, size: int, args: tuple[Any, ...], dims: tuple[Any, ...]) -> Any:
    x, positions = args
    line = ops.reshape(to_front(x, dims[0]), (size, -1)) if dims[0] is not None else ops.reshape(x, (-1,))
    each = None if dims[1] is None else (dims[1],)
    return batch_index(
        ops.index, size, (line, [positions], (0,)), (None if dims[0] is None else 0, each, None)
    )


def batch_masked_fill(op: Op, size: int, args: tuple[Any, ...], dims: tuple[Any, ...]) -> Any:
    x, mask, value = args
    if dims[2] is None:
        return batch_pointwise(op, size, args, dims)
    kind = type_of(x).dtype
    cast = value if type_of(value).dtype is kind else ops._to_copy(value, kind)
    return batch_pointwise(ops._where, size, (mask, cast, x), (dims[1], dims[2], dims[0]))


# -- flat positions ------------------------------------------------------------------------------------------
def _shifted(positions: Array, size: int, span: int) -> Array:
    """Positions of every example in a batch laid out one after the other; -1 stays outside."""
    xp = namespace(positions)
    offsets = xp.arange(size).reshape(size, *(1,) * positions.ndim) * span
    return xp.where(positions < 0, -1, positions + offsets)


def batch_gather_flat(op: Op, size: int, args: tuple[Any, ...], dims: tuple[Any, ...]) -> Result:
    x, positions = args
    front = to_front(x, dims[0])
    return op(front, _shifted(positions, size, type_of(front).numel() // max(size, 1))), 0


def batch_scatter_flat(op: Op, size: int, args: tuple[Any, ...], dims: tuple[Any, ...]) -> Result:
    g, positions, shape = args
    span = int(np.prod(shape, dtype=np.int64))
    return op(to_front(g, dims[0]), _shifted(positions, size, span), (size, *shape)), 0


def batch_as_strided(op: Op, size: int, args: tuple[Any, ...], dims: tuple[Any, ...]) -> Result:
    """Every example as if it were row-major memory of its own; where it is, writes reach it."""
    x = ops.contiguous(to_front(args[0], dims[0]))
    span = type_of(x).numel() // max(size, 1)
    shape, stride, offset = tuple(args[1]), tuple(args[2]), args[3] or 0
    last = offset + sum((n - 1) * step for n, step in zip(shape, stride, strict=True))
    if 0 not in shape and last >= span:
        raise RuntimeError(
            f"as_strided: sizes {list(shape)}, strides {list(stride)} and storage offset {offset} reach "
            f"beyond an example of {span} elements"
        )
    return op(x, (size, *shape), (span, *stride), offset), 0


def _behind(dim: int) -> int:
    """A dimension, where there is one more in front."""
    return dim + 1 if dim >= 0 else dim


BEHIND_THE_BATCH: Final[dict[str, Callable[..., tuple[Any, ...]]]] = {
    "basic_select": lambda key: ((slice(None), *key),),
    "basic_slice": lambda key: ((slice(None), *key),),
    "select": lambda dim, position: (_behind(dim), position),
    "slice": lambda dim, *rest: (_behind(dim), *rest),
    "diagonal": lambda offset, first, second: (offset, _behind(first), _behind(second)),
}
"""View ops that leave a dimension in front alone, and their arguments where there is one."""


def batch_embed(op: Op, size: int, args: tuple[Any, ...], dims: tuple[Any, ...]) -> Result:
    g, shape, steps = args
    if all(step.name in BEHIND_THE_BATCH and position is None for step, _, position in steps):
        behind = tuple([(step, BEHIND_THE_BATCH[step.name](*rest), None) for step, rest, _ in steps])
        return op(to_front(g, dims[0]), (size, *shape), behind), 0
    positions = replay(np.arange(int(np.prod(shape, dtype=np.int64))).reshape(shape), steps)
    return batch_scatter_flat(ops.scatter_flat, size, (g, positions, shape), dims)


# -- rearrangements ------------------------------------------------------------------------------------------
def batch_flip(op: Op, size: int, args: tuple[Any, ...], dims: tuple[Any, ...]) -> Result:
    x = to_front(args[0], dims[0])
    rank = type_of(x).ndim - 1
    return op(x, tuple(d % rank + 1 for d in args[1]) if rank else ()), 0


def batch_roll(op: Op, size: int, args: tuple[Any, ...], dims: tuple[Any, ...]) -> Result:
    x, shifts, where = to_front(args[0], dims[0]), args[1], args[2]
    shape = type_of(x).shape
    where = (where,) if isinstance(where, int) else tuple(where or ())
    if where:
        return op(x, shifts, tuple(d % (len(shape) - 1) + 1 for d in where)), 0
    line = op(ops.reshape(x, (size, int(np.prod(shape[1:], dtype=np.int64)))), shifts, (1,))
    return ops.reshape(line, shape), 0


def batch_repeat(op: Op, _size: int, args: tuple[Any, ...], dims: tuple[Any, ...]) -> Result:
    """Size-one dimensions behind the batch's make room for leading repeats."""
    x, repeats = to_front(args[0], dims[0]), tuple(args[1])
    shape = type_of(x).shape
    lead = len(repeats) - (len(shape) - 1)
    return op(ops.reshape(x, (shape[0], *(1,) * max(lead, 0), *shape[1:])), (1, *repeats)), 0


def batch_diag_embed(op: Op, _size: int, args: tuple[Any, ...], dims: tuple[Any, ...]) -> Result:
    return op(to_front(args[0], dims[0]), args[1], *(d + 1 if d >= 0 else d for d in args[2:])), 0


def batch_t(_op: Op, _size: int, args: tuple[Any, ...], dims: tuple[Any, ...]) -> Result:
    x = to_front(args[0], dims[0])
    return (ops.transpose(x, -1, -2) if type_of(x).ndim == 3 else x), 0


def batch_squeeze(op: Op, _size: int, args: tuple[Any, ...], dims: tuple[Any, ...]) -> Result:
    x = to_front(args[0], dims[0])
    shape = type_of(x).shape
    rank = len(shape) - 1
    where = args[1]
    if where is None:
        gone = [i for i in range(1, rank + 1) if shape[i] == 1]
    else:
        gone = [d % rank + 1 for d in ((where,) if isinstance(where, int) else where)] if rank else []
    return op(x, tuple(gone)), 0


def batch_basic(op: Op, _size: int, args: tuple[Any, ...], dims: tuple[Any, ...]) -> Result:
    return op(to_front(args[0], dims[0]), (slice(None), *args[1])), 0


def batch_diagonal_copy(_op: Op, _size: int, args: tuple[Any, ...], dims: tuple[Any, ...]) -> Result:
    return ops.clone(ops.diagonal(to_front(args[0], dims[0]), args[1], 1, 2)), 0
