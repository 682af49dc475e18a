"""Reading by data: gather, index, masks, nonzero, where. The writing counterparts are in `weft.ops.scatter`.

Index tensors are ordinary arguments, so that they are saved with their versions and batched like any other;
masks become integer indices before an op sees them. One idea: bounds are checked against the data in the
kernel, everything else in the type rule.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

import numpy as np

from weft.core import dtypes
from weft.core.arrays import MODULES, Array, is_array, namespace, row_major
from weft.core.dims import wrap_dim
from weft.core.dtypes import BY_NUMPY, result_dtype
from weft.core.interrupts import let_through
from weft.core.naming import named
from weft.core.types import TensorType
from weft.core.warn import warn
from weft.ops.batching import DYNAMIC_SHAPE, MASKED_SELECT, batch_pointwise
from weft.ops.facts import Placing
from weft.ops.families import composite, pointwise
from weft.ops.families import index as index_family
from weft.ops.index_batching import (
    batch_along,
    batch_index,
    batch_index_select,
    batch_masked_fill,
    batch_take,
)
from weft.ops.node_names import by_number
from weft.ops.options import fits
from weft.ops.record import Op, broadcast_shapes, cast_operand, common_device, ops, type_of
from weft.ops.samples import Maker, Sample
from weft.ops.shape import flat
from weft.ops.slicing import unbind
from weft.ops.values import MaybeOperand, Number, Operand, TensorLike
from weft.ops.view import (
    FULL,
    check_apart,
    check_exact,
    expand,
    is_target,
    known_data,
    like,
    reshape,
    sum_to_size,
)

ndarray = np.ndarray
INT64: Final = dtypes.int64.numpy
INTEGERS = (dtypes.int32, dtypes.int64)


# -- bounds --------------------------------------------------------------------------------------------------
OUT_OF_BOUNDS = "index {bad} is out of bounds for dimension {dim} with size {size}"
OUT_OF_RANGE = "out of range: tried to access index {bad} on a tensor of {size} elements."


def check_bounds(
    positions: Array,
    size: int,
    text: str,
    error: type[Exception] = RuntimeError,
    low: int = 0,
    dim: int = 0,
) -> None:
    """Raises for positions outside [low, size). The text may name {bad} and {size}."""
    if not positions.size:
        return
    if type(positions) is ndarray and positions.dtype is INT64 and not low:
        as_unsigned = positions.view(np.uint64)
        if MODULES[ndarray].maximum.reduce(as_unsigned, axis=None) < size:  # what is negative is large then
            return
    least, most = positions.min(), positions.max()
    if least < low or most >= size:
        raise error(text.format(bad=int(_first_bad(positions, low, size)), size=size, dim=dim))


def _first_bad(positions: Array, low: int, size: int) -> Any:
    outside = positions.reshape(-1)
    return outside[((outside < low) | (outside >= size)).argmax()]


def exact_and_apart(_op: Op, target: Any, value: Any, tensors: Any) -> None:
    """What `out=` may be for ops that read by data: the result's dtype, in memory of its own."""
    check_exact(target, value)
    check_apart(target, tensors)


def exact_or_first(op: Op, target: Any, value: Any, tensors: Any) -> None:
    """As `exact_and_apart`, for ops that write into a copy of their first tensor: `out=` may be that one."""
    exact_and_apart(op, target, value, tensors[1:] if is_target(tensors[0], target) else tensors)


def exact_or_any(op: Op, target: Any, value: Any, tensors: Any) -> None:
    """As `exact_and_apart`, for ops that read each element where it is written: `out=` may be any of them."""
    exact_and_apart(op, target, value, [x for x in tensors if not is_target(x, target)])


def indexes_along(x: Any, dim: int, positions: Any, *_rest: object) -> Any:
    """What is known where gather and its like are not refused: see `indexes` of `weft.ops.facts`."""
    return [(positions, x.shape[wrap_dim(dim, len(x.shape))] if x.shape else 1, False)]


# -- gather --------------------------------------------------------------------------------------------------
def check_fit(kind: TensorType, positions: TensorType, dim: int, name: str) -> None:
    """The index of gather and scatter: same rank, and no larger than the tensor apart from `dim`."""
    if positions.dtype not in INTEGERS and 0 not in positions.shape:
        raise RuntimeError(f"{name}(): Expected dtype int32/int64 for index")
    if 0 in positions.shape:
        return
    if max(kind.ndim, 1) != max(positions.ndim, 1):
        other = "input" if name == "gather" else "self"
        raise RuntimeError(f"Index tensor must have the same number of dimensions as {other} tensor")


def _gather_rule(x: TensorType, dim: int, positions: TensorType, sparse_grad: bool) -> TensorType:
    place = wrap_dim(dim, x.ndim)
    check_fit(x, positions, place, "gather")
    if 0 not in positions.shape:
        for i, (n, size) in enumerate(zip(positions.shape, x.shape, strict=False)):
            if i != place and n > size:
                raise RuntimeError(
                    f"Size does not match at dimension {i} expected index {list(positions.shape)} to be no "
                    "larger than self "
                    f"{list(x.shape)} apart from dimension {place}"
                )
    return like(x, positions.shape)


def _gather(x: Array, dim: int, positions: Array, sparse_grad: bool) -> Array:
    xp = namespace(x)
    if not positions.size:
        return xp.zeros(positions.shape, x.dtype)
    source = x.reshape(1) if not x.ndim else x
    places = positions.reshape(1) if not positions.ndim else positions
    dim = wrap_dim(dim, source.ndim)
    check_bounds(places, source.shape[dim], OUT_OF_BOUNDS, dim=dim)
    if xp is np and places.ndim <= 2 and places.dtype.kind == "i":
        if places.ndim == 1:
            taken = source.take(places)
        elif dim:
            taken = source[xp.arange(len(places))[:, None], places]
        else:
            taken = source[places, xp.arange(places.shape[1])]
        return row_major(taken).reshape(positions.shape)
    source = source[tuple(FULL if i == dim else slice(n) for i, n in enumerate(places.shape))]
    return xp.take_along_axis(source, row_major(places), dim).reshape(positions.shape)


def _gather_samples(make: Maker) -> Iterator[Sample]:
    yield Sample(make(3, 4), 0, make.ints(2, 3, high=3))
    yield Sample(make(3, 4), -1, make.ints(3, 5, high=4))
    yield Sample(make(3), 0, make.ints(high=3))
    yield Sample(make(), 0, np.asarray(0))
    yield Sample(make(3, 4), 1, make.ints(0, 2, high=4))


gather: Op = index_family(
    "gather", _gather, _gather_rule, "input: Tensor, dim: Dim, index: Tensor, *, sparse_grad: bool = False",
    out=exact_and_apart,
    vjp=(lambda g, _out, _x, dim, places: ops.scatter_add(ops.new_zeros(g, _x.shape), dim, places, g), None),
    samples=_gather_samples, batch=batch_along,
    refuses="integers", indexes=indexes_along, lowering="indexing",
)  # fmt: skip


@composite(
    "input: Tensor, indices: Tensor, dim: Any = None", out=exact_and_apart,
    samples=lambda make: [Sample(make(3, 4), make.ints(3, 1, high=4), 1),
        Sample(make(3, 4), make.ints(1, 4, high=3), 0), Sample(make(3, 4), make.ints(5, high=12))],
)  # fmt: skip
def take_along_dim(input: TensorLike, indices: TensorLike, dim: int | None) -> Any:
    """Items along one dimension at broadcast positions, or of the flattened tensor."""
    kind, places = type_of(input), type_of(indices)
    if places.dtype is not dtypes.int64:
        raise RuntimeError(
            f"torch.take_along_dim(): dtype of indices should be Long but got {places.dtype.scalar_name}"
        )
    if dim is None:
        return gather(flat(input), 0, ops.remainder(flat(indices), max(kind.numel(), 1)))
    if kind.ndim != places.ndim:
        raise RuntimeError(
            "torch.take_along_dim(): input and indices should have the same number of dimensions, but got "
            f"{kind.ndim} dimensions for input, and {places.ndim} dimensions for indices"
        )
    place = wrap_dim(dim, kind.ndim)
    if not kind.shape:
        raise IndexError(f"Dimension specified as {dim} but tensor has no dimensions")
    rest = broadcast_shapes(_without(kind.shape, place), _without(places.shape, place))
    source = expand(input, (*rest[:place], kind.shape[place], *rest[place:]))
    wanted = expand(indices, (*rest[:place], places.shape[place], *rest[place:]))
    return gather(source, place, ops.remainder(wanted, max(kind.shape[place], 1)))


def _without(shape: tuple[int, ...], dim: int) -> tuple[int, ...]:
    return shape[:dim] + shape[dim + 1 :]


# -- index_select and take -----------------------------------------------------------------------------------
def _index_select_rule(x: TensorType, dim: int, positions: TensorType) -> TensorType:
    place = wrap_dim(dim, x.ndim)
    if positions.ndim > 1:
        raise IndexError("index_select(): Index is supposed to be a vector")
    if positions.dtype not in INTEGERS:
        raise RuntimeError("index_select(): Expected dtype int32 or int64 for index")
    if not x.shape:
        if positions.numel() != 1:
            raise RuntimeError(
                f"index_select(): Index to scalar can have only 1 value, got {positions.numel()} value(s)"
            )
        return x
    return like(x, (*x.shape[:place], positions.numel(), *x.shape[place + 1 :]))


def _index_select(x: Array, dim: int, positions: Array) -> Array:
    size = x.shape[dim] if x.ndim else 1
    check_bounds(positions, size, "index out of range in self", IndexError)
    if not x.ndim:
        return x.copy()
    return x.take(positions.reshape(-1), dim)


def _index_select_vjp(g: TensorLike, _out: object, _x: TensorType, dim: int, positions: TensorLike) -> Any:
    return ops.index_add(ops.new_zeros(g, _x.shape), dim, reshape(positions, (-1,)), g) if _x.shape else g


index_select: Op = index_family(
    "index_select", _index_select, _index_select_rule, "input: Tensor, dim: Dim, index: Tensor",
    out=exact_and_apart, vjp=(_index_select_vjp, None), batch=batch_index_select,
    samples=lambda make: [Sample(make(3, 4), 0, make.ints(5, high=3)),
        Sample(make(3, 4), -1, make.ints(2, high=4)), Sample(make(3, 4), 0, make.ints(high=3)),
        Sample(make(), 0, np.zeros(1, np.int64)), Sample(make(3, 4), 0, make.ints(0, high=3))],
    refuses="integers", indexes=indexes_along, lowering="indexing",
)  # fmt: skip


def _take_rule(x: TensorType, positions: TensorType) -> TensorType:
    if positions.dtype is not dtypes.int64:
        raise RuntimeError(f"take(): Expected a long tensor for index, but got {positions.dtype.scalar_name}")
    if not x.numel() and positions.numel():
        raise IndexError("take(): tried to take from an empty tensor")
    return like(x, positions.shape)


def _take(x: Array, positions: Array) -> Array:
    check_bounds(positions, x.size, OUT_OF_RANGE, IndexError, -x.size)
    return x.reshape(-1)[positions.reshape(-1)].reshape(positions.shape)


take: Op = index_family(
    "take", _take, _take_rule, "input: Tensor, index: Tensor", out=exact_and_apart,
    vjp=(lambda g, _out, _x, places: ops._take_backward(g, places, _x.shape), None), batch=batch_take,
    samples=lambda make: [Sample(make(3, 4), make.ints(2, 3, high=12, low=-12)),
        Sample(make(3), make.ints(high=3)), Sample(make(), make.ints(2, high=1))],
    refuses="integers", lowering="indexing",
)  # fmt: skip


# -- index: what x[i, :, j] becomes --------------------------------------------------------------------------
def broadcast_indices(shapes: list[tuple[int, ...]]) -> tuple[int, ...]:
    try:
        return broadcast_shapes(*shapes)
    except RuntimeError as error:
        let_through(error)
        listed = ", ".join(str(list(shape)) for shape in shapes)
        raise IndexError(
            f"shape mismatch: indexing tensors could not be broadcast together with shapes {listed}"
        ) from None


def indexed_shape(
    shape: tuple[int, ...], shapes: list[tuple[int, ...]], dims: tuple[int, ...]
) -> tuple[int, ...]:
    """The shape of x indexed along `dims`: in their place if they are neighbours, else in front."""
    common = broadcast_indices(shapes)
    rest = [n for i, n in enumerate(shape) if i not in dims]
    place = dims[0] if dims[-1] - dims[0] + 1 == len(dims) else 0
    return (*rest[:place], *common, *rest[place:])


def index_key(rank: int, indices: Sequence[Array], dims: tuple[int, ...]) -> tuple[Any, ...]:
    key: list[Any] = [FULL] * (dims[-1] + 1 if dims else 0)
    for dim, positions in zip(dims, indices, strict=True):
        key[dim] = positions
    return tuple(key)


NO_ITEMS = "index is out of bounds for dimension with size 0"


def check_indices(shape: tuple[int, ...], indices: Any, dims: tuple[int, ...]) -> None:
    for dim, positions in zip(dims, indices, strict=True):
        size = shape[dim]
        if not size and positions.size:
            raise IndexError(NO_ITEMS)
        check_bounds(positions, size, OUT_OF_BOUNDS, IndexError, -size, dim)


def _index(x: Array, indices: Sequence[Array], dims: tuple[int, ...]) -> Array:
    if not dims:
        return x.copy()
    try:
        if dims[0] == 0 or dims[-1] - dims[0] + 1 != len(dims):  # NumPy's order in memory is PyTorch's
            return x[index_key(x.ndim, indices, dims)]
        if len(dims) == 1 and x.flags.c_contiguous:
            return x.take(indices[0], dims[0])
        return _in_order(x[index_key(x.ndim, indices, dims)], x, indices, dims)
    except IndexError:
        check_indices(x.shape, indices, dims)
        raise


def _in_order(out: Array, x: Array, indices: Sequence[Array], dims: tuple[int, ...]) -> Array:
    """The result with its dimensions in PyTorch's order in memory: that of x's strides, with the dimensions
    of the indices, for which x has none, where they stand.
    """
    common = len(broadcast_shapes(*[p.shape for p in indices]))
    place, lead = dims[0], x.strides[: dims[0]]
    rows = [(*lead, *(0,) * common, *x.strides[dims[-1] + 1 :])]
    for positions in indices:
        own = [0 if n == 1 else s for n, s in zip(positions.shape, positions.strides, strict=True)]
        padded = (0,) * (place + common - len(own)), (0,) * (out.ndim - place - common)
        rows.append((*padded[0], *own, *padded[1]))

    def before(a: int, b: int) -> int:
        """Whether a lies outside b (1), inside (-1), or no operand can tell (0)."""
        for row in rows:
            if row[a] and row[b] and row[a] != row[b]:
                return 1 if row[a] > row[b] else -1
        return 0

    order = list(range(out.ndim))  # outermost first
    for start in range(out.ndim - 2, -1, -1):
        moving = start
        for other in range(start + 1, out.ndim):
            told = before(order[moving], order[other])
            if told < 0:
                order[moving], order[other] = order[other], order[moving]
                moving = other
            elif told > 0:
                break
    if tuple(order) == tuple(range(out.ndim)):
        return namespace(x).ascontiguousarray(out)
    made = namespace(x).empty([out.shape[d] for d in order], out.dtype)
    made = made.transpose([order.index(d) for d in range(out.ndim)])
    made[...] = out
    return made


def _index_rule(x: TensorType, indices: Sequence[TensorType], dims: tuple[int, ...]) -> TensorType:
    for positions in indices:
        if positions.dtype not in INTEGERS:
            raise IndexError("tensors used as indices must be long, int, byte or bool tensors")
    if dims and dims[-1] >= x.ndim:
        raise IndexError(f"too many indices for tensor of dimension {x.ndim} (got {dims[-1] + 1})")
    if any(x.shape[dim] == 0 for dim in dims) and not any(0 in p.shape for p in indices):
        raise IndexError(NO_ITEMS)  # also where nothing would be read
    return like(x, indexed_shape(x.shape, [p.shape for p in indices], dims)) if dims else x


def indexes_of(shape: Sequence[Any], indices: Sequence[Any], dims: Sequence[int]) -> Any:
    """The same of indexing."""
    return [(positions, shape[dim], True) for positions, dim in zip(indices, dims, strict=True)]


def _index_samples(make: Maker) -> Iterator[Sample]:
    yield Sample(make(3, 4), [make.ints(5, high=3, low=-3)], (0,))
    yield Sample(make(3, 4, 2), [make.ints(2, 1, high=3), make.ints(3, high=4)], (0, 1))
    yield Sample(make(3, 4, 2), [make.ints(2, high=3), make.ints(2, high=2)], (0, 2))
    yield Sample(make(3, 4), [make.ints(0, high=4)], (1,))


index: Op = index_family(
    "index", _index, _index_rule, "input: Tensor, indices: Tensors, dims: Any", method=False, function=False,
    vjp=(lambda g, _out, _x, indices, dims: ops.index_embed(g, indices, dims, _x.shape), None),
    samples=_index_samples, batch=batch_index,
    refuses="integers", lowering="indexing",
    indexes=lambda x, indices, dims: indexes_of(x.shape, indices, dims),
)  # fmt: skip


def expand_masks(shape: tuple[int, ...], items: Any) -> tuple[list[Any], tuple[int, ...]]:
    """Integer indices and their dimensions, from index tensors (or None) laid along the dimensions; masks
    cover as many dimensions as they have."""
    indices: list[Any] = []
    dims: list[int] = []
    place = 0
    for item in items:
        if item is None:
            place += 1
            continue
        kind = type_of(item)
        if kind.dtype is dtypes.bool_ or kind.dtype is dtypes.uint8:
            if kind.dtype is dtypes.uint8:
                warn(
                    named(
                        "indexing with dtype weft.uint8 is now deprecated, please use a "
                        "dtype weft.bool instead."
                    )
                )
            check_mask(kind.shape, shape, place)
            parts = nonzero(item, as_tuple=True) if kind.shape else ()
            indices += parts
            dims += range(place, place + kind.ndim)
            place += kind.ndim
            continue
        if kind.dtype not in INTEGERS:
            raise IndexError("tensors used as indices must be long, int, byte or bool tensors")
        indices.append(item)
        dims.append(place)
        place += 1
    if place > len(shape):
        raise IndexError(f"too many indices for tensor of dimension {len(shape)} (got {place})")
    return indices, tuple(dims)


def check_mask(mask: tuple[int, ...], shape: tuple[int, ...], place: int) -> None:
    if place + len(mask) > len(shape):
        raise IndexError(f"too many indices for tensor of dimension {len(shape)}")
    for offset, n in enumerate(mask):
        if n != shape[place + offset]:
            raise IndexError(
                f"The shape of the mask {list(mask)} at index {offset} does not match the shape of the "
                "indexed tensor "
                f"{list(shape)} at index {place + offset}"
            )


# -- nonzero and masks ---------------------------------------------------------------------------------------
_nonzero = index_family(
    "_nonzero", lambda x: namespace(x).stack(x.nonzero(), 0).T if x.ndim else _nonzero_scalar(x),
    lambda x: known_data(x, "nonzero"), "input: Tensor",
    method=False, function=False,
    refuses="nothing",
)  # fmt: skip


def _nonzero_scalar(x: Array) -> Array:
    return namespace(x).zeros((1 if x else 0, 0), np.int64)


def _one_result(op: Op, target: Any, value: Any, tensors: Any) -> None:
    if value.array.ndim == 1:  # a part of the tuple that as_tuple=True gives
        raise TypeError("nonzero(): argument 'out' must be Tensor, not tuple")
    exact_and_apart(op, target, value, tensors)


@composite(
    "input: Tensor, *, as_tuple: bool = False", out=_one_result, name="nonzero",
    samples=lambda make: [Sample(make(2, 3), grad=False), Sample(make(), grad=False)],
    unbatchable=DYNAMIC_SHAPE,
)  # fmt: skip
def nonzero(input: TensorLike, as_tuple: bool) -> Any:
    """The positions of elements that are not zero: one row each, or one vector per dimension."""
    if not as_tuple:
        return _nonzero(input)
    if not type_of(input).shape:
        input = reshape(input, (1,))
    return unbind(_nonzero(input), 1)


@composite("input: Tensor", samples=lambda make: [Sample(make(2, 3), grad=False)], unbatchable=DYNAMIC_SHAPE)
def argwhere(input: TensorLike) -> Any:
    return _nonzero(input)


def _masked_select_rule(x: TensorType, mask: TensorType) -> None:
    if mask.dtype is not dtypes.bool_:
        raise RuntimeError("masked_select: expected BoolTensor for mask")
    broadcast_shapes(mask.shape, x.shape)
    return known_data(x, "masked_select")


def _masked_select(x: Array, mask: Array) -> Array:
    if x.shape != mask.shape:
        x, mask = namespace(x).broadcast_arrays(x, mask)
    return x[mask] if x.ndim else x.reshape(1)[mask.reshape(1)]


def _masked_select_vjp(g: TensorLike, _out: object, _x: TensorType, mask: TensorLike) -> Any:
    shape = broadcast_shapes(_x.shape, type_of(mask).shape)
    return sum_to_size(ops.masked_scatter(ops.new_zeros(g, shape), mask, g), _x.shape)


masked_select: Op = index_family(
    "masked_select", _masked_select, _masked_select_rule, "input: Tensor, mask: Tensor", out=exact_and_apart,
    vjp=(_masked_select_vjp, None),
    samples=lambda make: [Sample(make(2, 3), make.bools(2, 3)), Sample(make(2, 3), make.bools(3)),
        Sample(make(3), make.bools(2, 1)), Sample(make(), make.bools())],
    refuses="nothing",
    unbatchable=MASKED_SELECT,
)  # fmt: skip


# -- where ---------------------------------------------------------------------------------------------------
def _where_dtype(x: Operand | TensorType, y: Operand | TensorType) -> Any:
    return result_dtype((x, y))


def _where_rule(condition: TensorType, x: TensorType | Number, y: TensorType | Number) -> TensorType:
    if condition.dtype not in (dtypes.bool_, dtypes.uint8):
        raise RuntimeError(
            "where expected condition to be a boolean tensor, but got a tensor with dtype "
            f"{condition.dtype.scalar_name}"
        )
    types = [t for t in (condition, x, y) if isinstance(t, TensorType)]
    shape = broadcast_shapes(*[t.shape for t in types[1:]], condition.shape)
    result = _where_dtype(x, y)
    for value in (x, y):
        if not isinstance(value, TensorType) and result not in dtypes.HALVES:
            fits(value, result)
    return TensorType(shape, result, common_device(types))


BOOLEAN: Final = dtypes.bool_.numpy
PLAIN_FLOATS: Final = frozenset({np.dtype(np.float32), np.dtype(np.float64)})


def _where(condition: Array, x: Array | Number, y: Array | Number) -> Array:
    if condition.dtype is BOOLEAN and type(condition) is ndarray:
        xp = MODULES[ndarray]
        if type(x) is ndarray and x.dtype in PLAIN_FLOATS:
            if type(y) is ndarray and y.dtype is x.dtype:
                return xp.where(condition, x, y)
            if type(y) is float:
                return xp.where(condition, x, x.dtype.type(y))
        elif type(x) is float and type(y) is ndarray and y.dtype in PLAIN_FLOATS:
            return xp.where(condition, y.dtype.type(x), y)
    kind = _where_dtype(x, y).numpy
    if condition.dtype != bool:
        condition = condition != 0
    xp, x, y = MODULES[type(condition)], cast_operand(x, kind), cast_operand(y, kind)
    if xp is not np:
        x, y = xp.asarray(x), xp.asarray(y)
    return xp.where(condition, x, y)


def _where_samples(make: Maker) -> Iterator[Sample]:
    yield Sample(make.bools(2, 3), make(2, 3), make(2, 3))
    yield Sample(make.bools(2, 3), make(3), make(2, 1))
    yield Sample(make.bools(3), make(2, 1), 1.5)
    yield Sample(make.bools(3), 2, make())
    yield Sample(make.bools(), make(), make())


select_where: Op = pointwise(
    "_where", _where, None, "condition: Tensor, input: Operand, other: Operand", rule=_where_rule,
    vjp=(
        None,
        lambda g, _out, condition: select_where(condition, g, 0),
        lambda g, _out, condition: select_where(condition, 0, g),
    ),
    method=False, function=False, node="WhereBackward0", samples=_where_samples, batch=batch_pointwise,
    lowering="pointwise",
)  # fmt: skip


@composite(
    "condition: Tensor, input: MaybeOperand = None, other: MaybeOperand = None", out=exact_or_any,
    method=False, samples=_where_samples,
)  # fmt: skip
def where(condition: TensorLike, input: MaybeOperand, other: MaybeOperand) -> Any:
    """`input` where the condition holds, `other` elsewhere; of a condition alone, where it holds."""
    if input is None and other is None:
        return nonzero(condition, as_tuple=True)
    if input is None or other is None:
        raise TypeError(
            "where() received an invalid combination of arguments: input and other come together or not at "
            "all"
        )
    chosen = select_where(condition, input, other)
    if type_of(condition).dtype is dtypes.uint8:
        warn(
            "where received a uint8 condition tensor. This behavior is deprecated and will be removed in a "
            "future version of PyTorch. Use a boolean condition instead."
        )
    return chosen


# -- masked_fill ---------------------------------------------------------------------------------------------
def check_filler(name: str, value: TensorType) -> None:
    """Refuses tensors with dimensions as a value to fill with."""
    if value.shape:
        raise RuntimeError(
            f"{name} only supports a 0-dimensional value tensor, but got tensor with {value.ndim} "
            "dimension(s)."
        )


def _masked_fill_rule(x: TensorType, mask: TensorType, value: TensorType | Number) -> TensorType:
    if mask.dtype is not dtypes.bool_:
        raise RuntimeError(
            f"masked_fill_ only supports boolean masks, but got mask with dtype {mask.dtype.cpp_name}"
        )
    if isinstance(value, TensorType):
        check_filler("masked_fill_", value)
    else:
        fits(value, x.dtype)
    return like(x, broadcast_shapes(mask.shape, x.shape))


def _masked_fill(x: Array, mask: Array, value: Array | Number) -> Array:
    xp, stored = MODULES[type(x)], _stored(value, x.dtype)
    return row_major(xp.where(mask, stored if xp is np else xp.asarray(stored), x))


def _stored(value: Any, kind: Any) -> Array:
    if is_array(value) and value.dtype.kind == "c" and kind.kind != "c":
        fits(complex(value) if value.imag else float(value.real), BY_NUMPY[kind])
        value = value.real
    return cast_operand(int(value) if isinstance(value, float) and kind.kind in "iu" else value, kind)


masked_fill: Op = pointwise(
    "masked_fill", _masked_fill, None, "input: Tensor, mask: Tensor, value: Operand", rule=_masked_fill_rule,
    vjp=(
        lambda g, _out, _x, mask: masked_fill(g, mask, 0),
        None,
        lambda g, _out, _x, mask: select_where(mask, g, 0),
    ),
    inplace=True, batch=batch_masked_fill,
    samples=lambda make: [Sample(make(2, 3), make.bools(2, 3), 1.5),
        Sample(make(2, 3), make.bools(3), make()), Sample(make(2, 3), make.bools(2, 1), 0),
        Sample(make(), make.bools(), 2.0)],
    lowering="pointwise",
    placing=Placing(repeats=True, deprecated=("masked_fill_", "tensor[mask] = scalar")),
    node_name=by_number(2, "MaskedFillBackward0", "MaskedFillBackward1"),
)  # fmt: skip
