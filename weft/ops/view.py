"""Views: ops whose results share their first argument's memory, and the composites that choose between view
and copy.

Kernels give array views with PyTorch's strides (also for dimensions of size 1, where NumPy would not care).
One idea: the gradient of a view that reaches part of its input is `embed`, zeros of the input's shape with
the gradient written through the same view.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from math import prod
from operator import index as as_index
from typing import Any, TypeVar, cast

import numpy as np
from numpy.lib.stride_tricks import as_strided as numpy_as_strided

import weft.ops.node_names as node_names
from weft.core.arrays import Array, is_array, namespace
from weft.core.devices import DEVICES, device_of
from weft.core.dims import wrap_dim, wrap_dims
from weft.core.dtypes import dtype
from weft.core.errors import no_derivative
from weft.core.interrupts import let_through
from weft.core.symbolic import size_of
from weft.core.types import TensorType, contiguous_format
from weft.ops.batching import expanded, permuted
from weft.ops.families import composite, index
from weft.ops.families import view as view_family
from weft.ops.index_batching import batch_embed, batch_ravel, batch_squeeze, batch_t
from weft.ops.outline import KERNELS, Outline
from weft.ops.record import Op, broadcast_shapes, ops, same_shape, type_of
from weft.ops.replay import READERS, Steps, replay
from weft.ops.samples import Maker, Sample, unary_samples
from weft.ops.values import Dims, Sizes, TensorLike

ndarray = np.ndarray
Shown = TypeVar("Shown", Array, Outline)
FULL = slice(None)
NOT_VIEWABLE = (
    "view size is not compatible with input tensor's size and stride (at least one dimension spans across "
    "two contiguous "
    "subspaces). Use .reshape(...) instead."
)
NOT_DENSE = "self.stride(-1) must be 1"


# -- dimensions and sizes ------------------------------------------------------------------------------------
def as_sizes(size: Any) -> tuple[int, ...]:
    """Sizes as plain ints, whether they came as ints, NumPy ints or a Size; symbolic ones stay."""
    return tuple(map(size_of, size))


def infer_sizes(size: tuple[int, ...], numel: int) -> tuple[int, ...]:
    """The sizes with a -1 filled in, or PyTorch's errors."""
    known, hole = 1, None
    for position, n in enumerate(size):
        if n == -1:
            if hole is not None:
                raise RuntimeError("only one dimension can be inferred")
            hole = position
        elif n < 0:
            raise RuntimeError(f"invalid shape dimension {n} at index {position} of shape {list(size)}")
        else:
            known *= n
    if hole is None:
        if known == numel:
            return size
    elif known == 0 and numel == 0:
        raise RuntimeError(
            f"cannot reshape tensor of 0 elements into shape {list(size)} because the unspecified dimension "
            "size -1 can be "
            "any value and is ambiguous"
        )
    elif known and numel % known == 0:
        return (*size[:hole], numel // known, *size[hole + 1 :])
    raise RuntimeError(f"shape '{list(size)}' is invalid for input of size {numel}")


def like(x: TensorType, shape: Iterable[int]) -> TensorType:
    """The type with another shape."""
    return TensorType(shape, x.dtype, x.device)


def known_data(x: TensorType, name: str) -> None:
    """The type of what only data can tell: nothing; and the meta device has no data to ask."""
    if x.device.type == "meta":
        raise NotImplementedError(f"{name}: the result's shape depends on values, and a meta tensor has none")


# -- arrays --------------------------------------------------------------------------------------------------
def restride(x: Any, shape: tuple[int, ...], strides: tuple[int, ...]) -> Array:
    """A writable view at the same start with these sizes and byte strides; the caller answers for the
    bounds.
    """
    if type(x) is ndarray and (x.flags.c_contiguous or x.flags.f_contiguous) and x.size:
        return ndarray(shape, x.dtype, x, 0, strides)
    if namespace(x) is not np:
        return namespace(x).lib.stride_tricks.as_strided(x, shape, strides)
    if type(x) is not ndarray:
        if isinstance(x, Outline):
            return cast(Array, x.restrided(shape, strides))
        raise TypeError("only arrays can be viewed")
    return numpy_as_strided(x, shape, strides)


def along(dim: int, item: Any) -> tuple[Any, ...]:
    """The key that applies `item` to one dimension."""
    return (*(FULL,) * dim, item, ...)


def check_exact(target: Any, value: Any) -> None:
    """Refuses an `out=` that has not the very dtype of the result."""
    if target.dtype is not value.dtype:
        raise RuntimeError(
            f"Expected out tensor to have dtype {value.dtype.cpp_name}, but got {target.dtype.cpp_name} "
            "instead"
        )


def check_apart(target: Any, tensors: Any) -> None:
    """Raises unless an `out=` tensor has memory of its own."""
    written = target.array
    memory = is_array(written)  # a traced array has none; views of one are told apart later
    for x in tensors:
        shares = memory and type(x.array) is type(written)
        if x is target or (shares and namespace(written).may_share_memory(x.array, written)):
            raise RuntimeError(
                "unsupported operation: some elements of the input tensor and the written-to tensor refer to "
                "a single memory "
                "location. Please clone() the tensor before performing the operation."
            )


def is_target(x: Any, target: Any) -> bool:
    """Whether a tensor is the `out=` tensor, or all of its elements in the same order."""
    one, other = x.array, target.array
    if x is target or not is_array(other) or type(one) is not type(other):
        return x is target
    place = device_of(one).address
    return place(one) == place(other) and one.shape == other.shape and one.strides == other.strides


# -- embed: the transpose of a partial view ------------------------------------------------------------------
def _embed(g: Array, shape: tuple[int, ...], steps: Steps) -> Array:
    result = namespace(g).zeros(shape, g.dtype)
    replay(result, steps)[...] = g
    return result


embed: Op = index(
    "embed", _embed, lambda g, shape, steps: like(g, shape), "input: Tensor, shape: Any, steps: Any",
    vjp=lambda g, _out, _g, shape, steps: replay(g, steps), method=False, function=False,
    node="EmbedBackward0",
    samples=lambda make: [Sample(make(3), (2, 3), ((ops.select, (0, 1), None),))], batch=batch_embed,
    refuses="nothing", lowering="indexing",
)  # fmt: skip


# -- view and reshape ----------------------------------------------------------------------------------------
def _view(x: Array, size: Sequence[Any]) -> Array:
    try:
        out = x.reshape(size, copy=False)
    except ValueError as error:
        let_through(error)
        raise RuntimeError(NOT_VIEWABLE) from None
    except TypeError:
        if len(size) == 1 and type(size[0]) is dtype:
            return _reinterpret(x, size[0])
        raise
    if size and min(size) < -1:  # NumPy takes any negative size for -1
        raise ValueError("negative size")
    return out


def _outline_view(x: Outline, size: Sequence[Any]) -> Outline:
    if len(size) == 1 and type(size[0]) is dtype:
        return _reinterpret(x, size[0])
    try:
        return x.reshape(tuple(size))
    except ValueError as error:
        let_through(error)
        raise RuntimeError(NOT_VIEWABLE) from None


KERNELS[_view] = _outline_view


def _view_rule(x: TensorType, size: Sequence[int | dtype]) -> TensorType:
    if len(size) == 1 and type(size[0]) is dtype:
        return _reinterpret_rule(x, size[0])
    return like(x, infer_sizes(as_sizes(size), x.numel()))


def _reinterpret(x: Shown, kind: dtype) -> Shown:
    old, new = x.dtype.itemsize, kind.itemsize
    if old != new and x.ndim and x.strides[-1] != old:
        raise RuntimeError(
            f"{NOT_DENSE} to view {type_of(x).dtype.scalar_name} as {kind.scalar_name} "
            "(different element sizes), "
            f"but got {x.strides[-1] // old}"
        )
    return x.view(kind.numpy)


def _reinterpret_rule(x: TensorType, kind: dtype) -> TensorType:
    old, new = x.dtype.itemsize, kind.itemsize
    if old == new:
        return TensorType(x.shape, kind, x.device)
    pair = f"{x.dtype.scalar_name} as {kind.scalar_name} (different element sizes)"
    if not x.shape:
        raise RuntimeError(f"self.dim() cannot be 0 to view {pair}")
    if old > new:
        return TensorType((*x.shape[:-1], x.shape[-1] * (old // new)), kind, x.device)
    ratio = new // old
    if x.shape[-1] % ratio:
        raise RuntimeError(
            f"self.size(-1) must be divisible by {ratio} to view {pair}, but got {x.shape[-1]}"
        )
    return TensorType((*x.shape[:-1], x.shape[-1] // ratio), kind, x.device)


def _view_vjp(g: TensorLike, _out: object, _x: TensorType, size: Sequence[int | dtype]) -> Any:
    if len(size) == 1 and type(size[0]) is dtype:
        no_derivative("view(dtype) reinterprets bits: it has no derivative", NotImplementedError)
    return reshape(g, _x.shape)


def _view_samples(make: Maker) -> Iterator[Sample]:
    yield Sample(make(2, 6), 3, 4)
    yield Sample(make(2, 6), (3, -1, 2))
    yield Sample(make(2, 6)[:, ::2], (2, 1, 3))
    yield Sample(make(), (1, 1))
    yield Sample(make(0, 3), (3, 0))


view: Op = view_family(
    "view",
    _view,
    _view_rule,
    "input: Tensor, *size: Shape",
    vjp=_view_vjp,
    function=False,
    trusted=True,
    reshapes=True,
    samples=_view_samples,
)
_unsafe_view: Op = index(
    "_unsafe_view", lambda x, size: x.reshape(size),
    lambda x, size: like(x, infer_sizes(size, x.numel())), "input: Tensor, size: Shape",
    vjp=lambda g, _out, _x: ops.reshape(g, _x.shape), method=False, function=False,
    node="UnsafeViewBackward0", samples=lambda make: [Sample(make(2, 6), (3, 4))],
    refuses="nothing", cheap=True,
    shares_memory=True, reshapes=True,
)  # fmt: skip


def _reshape_samples(make: Maker) -> Iterator[Sample]:
    yield from _view_samples(make)
    yield Sample(make(4, 3).T, (12,))
    yield Sample(make(4, 3).T, (2, -1))


@composite("input: Tensor, *shape: Shape", samples=_reshape_samples, cheap=True, reshapes=True)
def reshape(input: TensorLike, shape: Sizes) -> Any:
    """A view with these sizes where strides allow it, else a copy."""
    return reshaped(input, shape)


def reshaped(input: Any, shape: Sizes) -> Any:
    if type(input) in DEVICES:
        return input.reshape(tuple(map(as_index, shape)))
    try:
        return view(input, tuple(shape))
    except RuntimeError as error:
        let_through(error)
        if error.args[0] is not NOT_VIEWABLE:
            raise
    shape = infer_sizes(as_sizes(shape), type_of(input).numel())
    return _unsafe_view(ops.clone(input, memory_format=contiguous_format), shape)


def _read(value: TensorLike, size: Sequence[Any]) -> Any:
    """What a view shows, of a value that lies otherwise. As one op where it may be: only running tells of a
    gradient whether that copies.
    """
    if type(value) in DEVICES or (len(size) == 1 and type(size[0]) is dtype):
        return reshaped(value, size)
    return reshape(value, tuple(size))


READERS[view] = _read


alias = view_family(
    "alias",
    lambda x: x[...],
    lambda x: x,
    "input: Tensor",
    vjp=lambda g: g,
    samples=unary_samples(-2, 2),
    batch=lambda op, size, args, dims: (op(args[0]), dims[0]),
    method=False,
    function=False,
)


def _reshaped_like_samples(make: Maker) -> Iterator[Sample]:
    yield Sample(make(2, 3), make(6))
    yield Sample(make(4), make(2, 1, 2))


@composite("input: Tensor, other: Tensor", function=False, samples=_reshaped_like_samples)
def view_as(input: TensorLike, other: TensorLike) -> Any:
    return view(input, type_of(other).shape)


@composite("input: Tensor, other: Tensor", function=False, samples=_reshaped_like_samples)
def reshape_as(input: TensorLike, other: TensorLike) -> Any:
    return reshape(input, type_of(other).shape)


def _flatten_samples(make: Maker) -> Iterator[Sample]:
    yield Sample(make(2, 3, 4))
    yield Sample(make(2, 3, 4), 1)
    yield Sample(make(2, 3, 4), 0, 1)
    yield Sample(make())
    yield Sample(make(4, 3).T)


@composite("input: Tensor, start_dim: Dim = 0, end_dim: Dim = -1", samples=_flatten_samples)
def flatten(input: TensorLike, start_dim: int, end_dim: int) -> Any:
    """Dimensions start_dim to end_dim as one; the tensor itself if that changes nothing."""
    shape = tuple(input.shape)
    start, end = wrap_dim(start_dim, len(shape)), wrap_dim(end_dim, len(shape))
    if start > end:
        raise RuntimeError("flatten() has invalid args: start_dim cannot come after end_dim")
    if not shape:
        return reshaped(input, (1,))
    if start == end:
        return input
    return reshaped(input, (*shape[:start], prod(shape[start : end + 1]), *shape[end + 1 :]))


@composite(
    "input: Tensor",
    batch=batch_ravel,
    samples=lambda make: [Sample(make(2, 3)), Sample(make(3, 2).T), Sample(make())],
)
def ravel(input: TensorLike) -> Any:
    return view(ops.contiguous(input), (type_of(input).numel(),))


@composite(
    "input: Tensor, dim: Dim, sizes: Shape",
    samples=lambda make: [
        Sample(make(2, 6), 1, (3, 2)),
        Sample(make(6, 2), 0, (-1, 3)),
        Sample(make(3, 2).T, -1, (3, 1)),
    ],
)
def unflatten(input: TensorLike, dim: int, sizes: Sizes) -> Any:
    """One dimension as several."""
    shape = type_of(input).shape
    dim = wrap_dim(dim, len(shape))
    sizes = as_sizes((sizes,) if isinstance(sizes, int) else sizes)
    if not sizes:
        raise RuntimeError("unflatten: sizes must be non-empty")
    if not shape:
        raise RuntimeError(
            f"unflatten got an unexpected error:\nDimension specified as {dim} but tensor has no dimensions"
        )
    try:
        filled = infer_sizes(sizes, shape[dim])
    except RuntimeError as error:
        let_through(error)
        if "is invalid for input" in str(error):
            raise RuntimeError(
                f"unflatten: Provided sizes {list(sizes)} don't multiply up to the size of dim {dim} "
                f"({shape[dim]}) in the "
                "input tensor"
            ) from None
        raise RuntimeError(f"unflatten got an unexpected error:\n{error}") from None
    return view(input, (*shape[:dim], *filled, *shape[dim + 1 :]))


# -- expand --------------------------------------------------------------------------------------------------
def _expand_rule(x: TensorType, size: Sizes, implicit: bool = False) -> TensorType:
    size = as_sizes(size)
    lead = len(size) - x.ndim
    if lead < 0:
        raise RuntimeError(
            f"expand(weft.{x.dtype.scalar_name}Tensor{{{list(x.shape)}}}, size={list(size)}): the number of "
            "sizes provided "
            f"({len(size)}) must be greater or equal to the number of dimensions in the tensor ({x.ndim})"
        )
    shape = list(size)
    for position in reversed(range(len(size))):
        n = size[position]
        if position < lead:
            if n < 0:
                raise RuntimeError(
                    f"The expanded size of the tensor ({n}) isn't allowed in a leading, non-existing "
                    f"dimension {position}"
                )
            continue
        old = x.shape[position - lead]
        if n == -1:
            shape[position] = old
        elif n != old and (old != 1 or n < 0):
            raise RuntimeError(
                f"The expanded size of the tensor ({n}) must match the existing size ({old}) at "
                "non-singleton dimension "
                f"{position}.  Target sizes: {list(size)}.  Tensor sizes: {list(x.shape)}"
            )
    return like(x, shape)


def _expand(x: Array, size: Sizes, implicit: bool = False) -> Array:
    old, steps, lead = x.shape, x.strides, len(size) - x.ndim
    shape, strides = [n if type(n) is int else size_of(n) for n in size], [0] * len(size)
    for position in reversed(range(len(shape))):
        target = shape[position]
        if position >= lead:
            have, step = old[position - lead], steps[position - lead]
        else:
            after = position + 1
            have, step = 1, shape[after] * strides[after] if after < len(shape) else 0
        if target == -1 and position >= lead:
            shape[position] = target = have
        if target != have:
            if have != 1 or target < 0:
                raise ValueError("sizes do not match")
            step = 0
        strides[position] = step
    if lead < 0:
        raise ValueError("too few sizes")
    return restride(x, tuple(shape), tuple(strides))


def _expand_samples(make: Maker) -> Iterator[Sample]:
    yield Sample(make(3, 1), 3, 4)
    yield Sample(make(3, 1), (2, -1, 4))
    yield Sample(make(), (2, 3))
    yield Sample(make(1, 3), (0, 3))
    yield Sample(make(1, 3)[:, ::2], (2, 2))


expand: Op = view_family(
    "expand", _expand, _expand_rule, "input: Tensor, *size: Shape, implicit: bool = False", function=False,
    trusted=True, vjp=lambda g, _out, _x: ops.sum_to_size(g, _x.shape), samples=_expand_samples,
    batch=expanded,
)  # fmt: skip


def _expanded_like_samples(make: Maker) -> Iterator[Sample]:
    yield Sample(make(3, 1), make(2, 3, 4))
    yield Sample(make(), make(2))


@composite("input: Tensor, other: Tensor", function=False, samples=_expanded_like_samples)
def expand_as(input: TensorLike, other: TensorLike) -> Any:
    return expand(input, type_of(other).shape)


@composite("input: Tensor, *size: Shape", samples=_expand_samples)
def broadcast_to(input: TensorLike, size: Sizes) -> Any:
    return expand(input, size)


def _broadcast_samples(make: Maker) -> Iterator[Sample]:
    yield Sample(make(3, 1), make(2))
    yield Sample(make(2, 3), make(3), make())


@composite("*tensors: Tensors", method=False, samples=_broadcast_samples)
def broadcast_tensors(tensors: Sequence[TensorLike]) -> Any:
    shape = broadcast_shapes(*[type_of(t).shape for t in tensors])
    return tuple(t if same_shape(type_of(t).shape, shape) else expand(t, shape) for t in tensors)


def reducible(shape: tuple[int, ...], target: tuple[int, ...]) -> bool:
    lead = len(shape) - len(target)
    return lead >= 0 and all(n == 1 or n == shape[lead + i] for i, n in enumerate(target))


@composite(
    "input: Tensor, *size: Shape", function=False,
    samples=lambda make: [Sample(make(2, 3), 3), Sample(make(2, 3), (2, 1)), Sample(make(2, 3), ()),
        Sample(make(3), 3)],
)  # fmt: skip
def sum_to_size(input: TensorLike, size: Sizes) -> Any:
    """Sums over the dimensions along which `size` would be broadcast to the tensor's shape."""
    shape, size = type_of(input).shape, tuple(size)
    if not size:
        return ops.sum(input)
    if same_shape(shape, size):
        return input
    if not reducible(shape, size):
        raise RuntimeError(f"size {{{list(size)}}} is not expandable to size {{{list(shape)}}}.")
    lead = len(shape) - len(size)
    dims = (*range(lead), *(lead + i for i, n in enumerate(size) if n == 1 and shape[lead + i] != 1))
    if len(dims) == lead:  # a tensor of its own, no view of one
        return ops.sum(input, dims)
    total = ops.sum(input, dims, True)
    return view(total, size) if lead else total


# -- permutations --------------------------------------------------------------------------------------------
def _permute_rule(x: TensorType, dims: Sizes) -> TensorType:
    if len(dims) != x.ndim:
        raise RuntimeError(
            "permute(sparse_coo): number of dimensions in the tensor input does not match the length of the "
            "desired ordering of "
            f"dimensions i.e. input.dim() = {x.ndim} is not equal to len(dims) = {len(dims)}"
        )
    order = tuple(wrap_dim(d, x.ndim) for d in dims)
    if len(set(order)) != len(order):
        raise RuntimeError("permute(): duplicate dims are not allowed.")
    return like(x, [x.shape[d] for d in order])


def _inverse(dims: Sizes) -> tuple[int, ...]:
    rank = len(dims)
    back = [0] * rank
    for position, d in enumerate(dims):
        back[d % rank] = position
    return tuple(back)


def _permute_samples(make: Maker) -> Iterator[Sample]:
    yield Sample(make(2, 3, 4), 2, 0, 1)
    yield Sample(make(2, 3, 4), (-1, 0, 1))
    yield Sample(make(0, 3), (1, 0))
    yield Sample(make(), ())


permute: Op = view_family(
    "permute", lambda x, dims: x.transpose(dims), _permute_rule, "input: Tensor, *dims: Any", trusted=True,
    vjp=lambda g, _out, _x, dims: permute(g, _inverse(dims)), samples=_permute_samples, batch=permuted,
)  # fmt: skip


def _transpose_rule(x: TensorType, dim0: int, dim1: int) -> TensorType:
    first, second = wrap_dim(dim0, x.ndim), wrap_dim(dim1, x.ndim)
    shape = list(x.shape)
    if shape:
        shape[first], shape[second] = shape[second], shape[first]
    return like(x, shape)


transpose: Op = view_family(
    "transpose", lambda x, dim0, dim1: x.swapaxes(dim0, dim1) if x.ndim or dim0 not in (0, -1) else x[...],
    _transpose_rule, "input: Tensor, dim0: Dim, dim1: Dim",
    vjp=lambda g, _out, _x, dim0, dim1: transpose(g, dim0, dim1), trusted=True,
    samples=lambda make: [Sample(make(2, 3, 4), 0, 2), Sample(make(2, 3), -1, 0), Sample(make(2, 3), 1, 1),
        Sample(make(), 0, -1)],
)  # fmt: skip


@composite("input: Tensor, axis0: Dim, axis1: Dim", samples=lambda make: [Sample(make(2, 3, 4), 0, -1)])
def swapaxes(input: TensorLike, axis0: int, axis1: int) -> Any:
    return transpose(input, axis0, axis1)


@composite("input: Tensor, dim0: Dim, dim1: Dim", samples=lambda make: [Sample(make(2, 3, 4), 0, -1)])
def swapdims(input: TensorLike, dim0: int, dim1: int) -> Any:
    return transpose(input, dim0, dim1)


def _t_rule(x: TensorType) -> TensorType:
    if x.ndim > 2:
        raise RuntimeError(f"t() expects a tensor with <= 2 dimensions, but self is {x.ndim}D")
    return like(x, x.shape[::-1])


def _t(x: Array) -> Array:
    if x.ndim > 2:
        raise RuntimeError("t() expects a tensor with <= 2 dimensions")
    return x.T


t: Op = view_family(
    "t", _t, _t_rule, "input: Tensor", vjp=lambda g: t(g), trusted=True,
    samples=lambda make: [Sample(make(2, 3)), Sample(make(3)), Sample(make())],
    batch=batch_t,
)  # fmt: skip


@composite("input: Tensor", samples=lambda make: [Sample(make(2, 3, 4)), Sample(make(2, 3))])
def adjoint(input: TensorLike) -> Any:
    """The last two dimensions swapped, elements conjugated."""
    kind = type_of(input)
    if kind.ndim < 2:
        raise RuntimeError(
            f"tensor.adjoint() is only supported on matrices or batches of matrices. Got {kind.ndim}-D "
            "tensor."
        )
    swapped = transpose(input, -2, -1)
    return ops.conj(swapped) if kind.dtype.is_complex else swapped


def _movedim_samples(make: Maker) -> Iterator[Sample]:
    yield Sample(make(2, 3, 4), 0, 2)
    yield Sample(make(2, 3, 4), (0, 1), (-1, 0))


@composite("input: Tensor, source: Any, destination: Any", aliases=("moveaxis",), samples=_movedim_samples)
def movedim(input: Any, source: Any, destination: Any) -> Any:
    """Some dimensions moved to other positions, the rest in order."""
    rank = type_of(input).ndim
    source = (source,) if isinstance(source, int) else tuple(source)
    destination = (destination,) if isinstance(destination, int) else tuple(destination)
    if len(source) != len(destination):
        raise RuntimeError(
            f"movedim: Invalid source or destination dims: source ({list(source)} dims) should contain the "
            "same number of "
            f"dims as destination ({list(destination)} dims)"
        )
    origin = [wrap_dim(d, rank) for d in source]
    target = [wrap_dim(d, rank) for d in destination]
    for label, given, wrapped in (("source", source, origin), ("destination", destination, target)):
        if len(set(wrapped)) != len(wrapped):
            raise RuntimeError(f"movedim: repeated dim in `{label}` ({list(given)})")
    if not rank:
        return permute(input, ())
    order = [d for d in range(rank) if d not in origin]
    for place, dim in sorted(zip(target, origin, strict=True)):
        order.insert(place, dim)
    return permute(input, tuple(order))


# -- dimensions of size one ----------------------------------------------------------------------------------
def _squeezed(shape: tuple[int, ...], dim: Dims) -> tuple[int, ...]:
    """The dimensions that go."""
    if dim is None:
        return tuple(i for i, n in enumerate(shape) if n == 1)
    dims = wrap_dims((dim,) if isinstance(dim, int) else dim, len(shape))
    return tuple(d for d in dims if shape and shape[d] == 1)


def _squeeze_rule(x: TensorType, dim: Dims) -> TensorType:
    gone = _squeezed(x.shape, dim)
    return like(x, [n for i, n in enumerate(x.shape) if i not in gone])


def _squeeze_samples(make: Maker) -> Iterator[Sample]:
    yield Sample(make(1, 2, 1))
    yield Sample(make(1, 2, 1), 0)
    yield Sample(make(1, 2, 1), (0, -1))
    yield Sample(make(1, 2, 1), 1)
    yield Sample(make())


squeeze: Op = view_family(
    "squeeze", lambda x, dim: x.squeeze(_squeezed(x.shape, dim)), _squeeze_rule,
    "input: Tensor, dim: Dims = None", trusted=True,
    vjp=lambda g, _out, _x: view(g, _x.shape) if g.ndim != _x.ndim else g, samples=_squeeze_samples,
    batch=batch_squeeze,
    node_name=node_names.squeeze,
)  # fmt: skip


def _unsqueeze(x: Array, dim: int) -> Array:
    shape = x.shape
    rank = len(shape)
    place = dim + rank + 1 if dim < 0 else dim
    if not 0 <= place <= rank:
        raise IndexError("Dimension out of range")
    if place == rank and not x.flags.c_contiguous:
        return restride(x, (*shape, 1), (*x.strides, x.dtype.itemsize))
    return x.reshape((*shape[:place], 1, *shape[place:]), copy=False)


def _unsqueeze_rule(x: TensorType, dim: int) -> TensorType:
    place = wrap_dim(dim, x.ndim + 1)
    return like(x, (*x.shape[:place], 1, *x.shape[place:]))


unsqueeze: Op = view_family(
    "unsqueeze", _unsqueeze, _unsqueeze_rule, "input: Tensor, dim: NewDim",
    vjp=lambda g, _out, _x, dim: squeeze(g, dim), trusted=True,
    samples=lambda make: [Sample(make(2, 3), 0), Sample(make(2, 3), -1), Sample(make(2, 3), 1),
        Sample(make(), 0)],
)  # fmt: skip
