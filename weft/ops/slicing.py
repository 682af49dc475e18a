"""Views that reach part of their input: select, slice, basic indexing, diagonals, splits, windows and free
strides.

One idea: each gradient is `embed` (or, where windows overlap, a sum at the elements' positions) through the
same view, so second order needs no rules of its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate
from math import prod
from operator import index as as_index
from typing import Any

import numpy as np

from weft.core.arrays import Array, HostArray, is_array, namespace
from weft.core.devices import DEVICES, device_of
from weft.core.dims import wrap_dim
from weft.core.dtypes import complex128, float64
from weft.core.symbolic import size_of
from weft.core.types import TensorType
from weft.ops.batching import to_front
from weft.ops.families import composite, index
from weft.ops.families import view as view_family
from weft.ops.index_batching import batch_as_strided, batch_basic, batch_gather_flat, batch_scatter_flat
from weft.ops.outline import KERNELS, slice_length
from weft.ops.record import Op, ops, type_of
from weft.ops.replay import READERS
from weft.ops.samples import Maker, Sample
from weft.ops.values import MaybeTensor, Sizes, Spread, TensorLike
from weft.ops.view import along, as_sizes, embed, like, restride


# -- select, slice, narrow -----------------------------------------------------------------------------------
def _select_rule(x: TensorType, dim: int, position: int) -> TensorType:
    if not x.shape:
        raise IndexError("select() cannot be applied to a 0-dim tensor.")
    dim = wrap_dim(dim, x.ndim)
    if not -x.shape[dim] <= position < x.shape[dim]:
        raise IndexError(
            f"select(): index {position} out of range for tensor of size {list(x.shape)} at dimension {dim}"
        )
    return like(x, x.shape[:dim] + x.shape[dim + 1 :])


def _select(x: Array, dim: int, position: int) -> Array:
    return x[along(wrap_dim(dim, x.ndim), int(position))]


KERNELS[_select] = lambda x, dim, position: x[along(wrap_dim(dim, x.ndim), position)]


select: Op = view_family(
    "select", _select, _select_rule, "input: Tensor, dim: Dim, index: int", trusted=True,
    vjp=lambda g, _out, _x, dim, position: embed(g, _x.shape, ((select, (dim, position), None),)),
    samples=lambda make: [Sample(make(2, 3), 0, 1), Sample(make(2, 3), -1, -2), Sample(make(3), 0, 0)],
)  # fmt: skip


def _slice_rule(x: TensorType, dim: int, start: int | None, end: int | None, step: int) -> TensorType:
    if not x.shape:
        raise RuntimeError("slice() cannot be applied to a 0-dim tensor.")
    dim = wrap_dim(dim, x.ndim)
    if step <= 0:
        raise RuntimeError("slice step must be positive")
    count = slice_length(x.shape[dim], slice(start, end, step))
    return like(x, (*x.shape[:dim], count, *x.shape[dim + 1 :]))


def _slice(x: Array, dim: int, start: int | None, end: int | None, step: int) -> Array:
    if step <= 0:
        raise RuntimeError("slice step must be positive")
    return x[along(wrap_dim(dim, x.ndim), slice(start, end, step))]


def _slice_samples(make: Maker) -> Iterator[Sample]:
    yield Sample(make(5, 3), 0, 1, 4, 2)
    yield Sample(make(5, 3), 1, -2)
    yield Sample(make(5, 3), -1, None, 10)
    yield Sample(make(5, 3), 0, 3, 2)


slice_: Op = view_family(
    "slice", _slice, _slice_rule,
    "input: Tensor, dim: Dim = 0, start: Any = None, end: Any = None, step: int = 1", trusted=True,
    vjp=lambda g, _out, _x, dim, start, end, step: (
        embed(g, _x.shape, ((slice_, (dim, start, end, step), None),))
    ),
    method=False, function=False, samples=_slice_samples,
)  # fmt: skip


@composite(
    "input: Tensor, dim: Dim, start: Any, length: int",
    samples=lambda make: [
        Sample(make(4, 3), 0, 1, 2),
        Sample(make(4, 3), -1, -2, 2),
        Sample(make(4, 3), 0, 4, 0),
    ],
)
def narrow(input: TensorLike, dim: int, start: Any, length: int) -> Any:
    """`length` items of one dimension from `start` on."""
    kind = type_of(input)
    if not isinstance(start, int):
        if getattr(start, "ndim", 0) or (hasattr(start, "dtype") and type_of(start).dtype.category != 1):
            raise RuntimeError("start must be an 0-dim integral Tensor.")
        start = int(start)
    if not kind.shape:
        raise RuntimeError("narrow() cannot be applied to a 0-dim tensor.")
    if length < 0:
        raise RuntimeError("narrow(): length must be non-negative.")
    dim = wrap_dim(dim, kind.ndim)
    size = kind.shape[dim]
    if not -size <= start <= size:
        raise IndexError(
            f"start out of range (expected to be in range of [{-size}, {size}], but got {start})"
        )
    start = start + size if start < 0 else start
    if start + length > size:
        raise RuntimeError(f"start ({start}) + length ({length}) exceeds dimension size ({size}).")
    return slice_(input, dim, start, start + length, 1)


# -- basic indexing: ints, slices, None and Ellipsis in one step ---------------------------------------------
def basic_shape(shape: tuple[int, ...], key: tuple[Any, ...]) -> tuple[int, ...]:
    """The shape of x[key], or PyTorch's errors."""
    wanted = sum(1 for item in key if item is not None and item is not ...)
    if wanted > len(shape):
        raise IndexError(f"too many indices for tensor of dimension {len(shape)}")
    result: list[int] = []
    dim = 0
    for item in key:
        if item is None:
            result.append(1)
        elif item is ...:
            count = len(shape) - wanted
            result += shape[dim : dim + count]
            dim += count
            wanted += count  # a second Ellipsis spans nothing
        elif isinstance(item, slice):
            result.append(slice_length(shape[dim], item))
            dim += 1
        else:
            if not -shape[dim] <= item < shape[dim]:
                raise IndexError(f"index {item} is out of bounds for dimension {dim} with size {shape[dim]}")
            dim += 1
    return (*result, *shape[dim:])


def _torch_strides(out: Array, x: Array, key: tuple[Any, ...]) -> Array:
    """NumPy gives new dimensions stride 0; PyTorch the stride a whole row of what follows would have."""
    strides = list(out.strides)
    place = dim = 0
    spanned = x.ndim - sum(1 for item in key if item is not None and item is not ...)
    for item in key:
        if item is None:
            strides[place] = x.shape[dim] * x.strides[dim] if dim < x.ndim else x.dtype.itemsize
            place += 1
        elif item is ...:
            place, dim, spanned = place + spanned, dim + spanned, 0
        else:
            dim += 1
            place += isinstance(item, slice)
    return restride(out, out.shape, tuple(strides))


def _basic(x: Array, key: tuple[Any, ...]) -> Array:
    if ... in key:
        if key.count(...) > 1:  # PyTorch lets later ones span nothing
            first = key.index(...)
            key = (*key[: first + 1], *(item for item in key[first + 1 :] if item is not ...))
        out = x[key]
    else:
        out = x[(*key, ...)]
    return _torch_strides(out, x, key) if None in key and out.size else out


def _basic_samples(make: Maker) -> Iterator[Sample]:
    yield Sample(make(3, 4), (1,))
    yield Sample(make(3, 4), (slice(0, 2), None, -1))
    yield Sample(make(3, 4), (..., slice(None, None, 2)))
    yield Sample(make(3, 4), ())


def _set_in_zeros(op: Op, g: TensorLike, x: TensorType, key: tuple[Any, ...]) -> Any:
    """The gradient of a part: it, where that lies among zeros."""
    if type(g) is np.ndarray and None not in key and ... not in key:
        result = np.zeros(x.shape, g.dtype)
        result[key] = g
        return result
    return embed(g, x.shape, ((op, (key,), None),))


def _basic_op(name: str, node: str) -> Op:
    op: Op = view_family(
        name, _basic, lambda x, key: like(x, basic_shape(x.shape, key)), "input: Tensor, key: Any",
        trusted=True, vjp=lambda g, _out, _x, key: _set_in_zeros(op, g, _x, key), method=False,
        function=False, node=node, samples=_basic_samples, batch=batch_basic,
    )  # fmt: skip
    return op


# One op per kind of the key's last item, only so that `grad_fn` has the name that PyTorch's chain of views
# would end in.
basic_select = _basic_op("basic_select", "SelectBackward0")
basic_slice = _basic_op("basic_slice", "SliceBackward0")
basic_unsqueeze = _basic_op("basic_unsqueeze", "UnsqueezeBackward0")
basic_alias = _basic_op("basic_alias", "AliasBackward0")


# -- diagonal ------------------------------------------------------------------------------------------------
def diagonal_size(rows: int, columns: int, offset: int) -> int:
    return max(min(rows, columns - offset) if offset >= 0 else min(rows + offset, columns), 0)


def _diagonal_rule(x: TensorType, offset: int, dim1: int, dim2: int) -> TensorType:
    first, second = wrap_dim(dim1, x.ndim), wrap_dim(dim2, x.ndim)
    if first == second:
        raise RuntimeError(f"diagonal dimensions cannot be identical {dim1}, {dim2}")
    rest = [n for i, n in enumerate(x.shape) if i not in (first, second)]
    return like(x, (*rest, diagonal_size(x.shape[first], x.shape[second], offset)))


def _diagonal(x: Array, offset: int, dim1: int, dim2: int) -> Array:
    first, second = wrap_dim(dim1, x.ndim), wrap_dim(dim2, x.ndim)
    count = diagonal_size(x.shape[first], x.shape[second], offset)
    if count:
        x = x[along(first, slice(-offset, None))] if offset < 0 else x[along(second, slice(offset, None))]
    keep = [i for i in range(x.ndim) if i not in (first, second)]
    strides = (*(x.strides[i] for i in keep), x.strides[first] + x.strides[second])
    return restride(x, (*(x.shape[i] for i in keep), count), strides)


def _diagonal_samples(make: Maker) -> Iterator[Sample]:
    yield Sample(make(3, 4))
    yield Sample(make(3, 4), 1)
    yield Sample(make(2, 3, 4), -1, 0, 2)
    yield Sample(make(2, 3, 4), 1, -1, 0)
    yield Sample(make(3, 4), 5)


diagonal: Op = view_family(
    "diagonal", _diagonal, _diagonal_rule, "input: Tensor, offset: int = 0, dim1: Dim = 0, dim2: Dim = 1",
    vjp=lambda g, _out, _x, offset, dim1, dim2: embed(g, _x.shape, ((diagonal, (offset, dim1, dim2), None),)),
    samples=_diagonal_samples,
)  # fmt: skip


# -- several views at once -----------------------------------------------------------------------------------
def _unbind_rule(x: TensorType, dim: int) -> tuple[TensorType, ...]:
    if not x.shape:
        raise IndexError(f"Dimension specified as {dim} but tensor has no dimensions")
    dim = wrap_dim(dim, x.ndim)
    return (like(x, x.shape[:dim] + x.shape[dim + 1 :]),) * x.shape[dim]


def _unbind(x: Array, dim: int) -> tuple[Array, ...]:
    dim = wrap_dim(dim, x.ndim)
    return tuple(x[along(dim, i)] for i in range(x.shape[dim]))


def filled(g: Sequence[MaybeTensor], outputs: Any) -> list[Any]:
    """Gradients of several outputs with zeros where none arrived."""
    known = next(item for item in g if item is not None)
    return [
        ops.new_zeros(known, kind.shape) if item is None else item
        for item, kind in zip(g, outputs, strict=True)
    ]


unbind: Op = view_family(
    "unbind", _unbind, _unbind_rule, "input: Tensor, dim: Dim = 0", several=True, trusted=True,
    vjp=lambda g, _out, _x, dim: ops.stack(filled(g, _out), dim),
    samples=lambda make: [Sample(make(2, 3)), Sample(make(2, 3), -1), Sample(make(3))],
)  # fmt: skip


def _parts(x: Array, sizes: Sizes, dim: int) -> tuple[Array, ...]:
    dim = wrap_dim(dim, x.ndim)
    ends = list(accumulate(sizes))
    if (ends[-1] if ends else 0) != x.shape[dim] or min(sizes, default=0) < 0:
        raise ValueError("sizes do not add up")  # the type rule says it in full
    return tuple(x[along(dim, slice(end - n, end))] for n, end in zip(sizes, ends, strict=True))


def _parts_rule(x: TensorType, sizes: Sizes, dim: int) -> tuple[TensorType, ...]:
    if not x.shape:
        raise RuntimeError("split expects at least a 1-dimensional tensor")
    dim = wrap_dim(dim, x.ndim)
    sizes = as_sizes(sizes)
    if any(n < 0 for n in sizes):
        raise RuntimeError(
            "split_with_sizes expects split_sizes have only non-negative entries, but got "
            f"split_sizes={list(sizes)}"
        )
    if sum(sizes) != x.shape[dim]:
        raise RuntimeError(
            f"split_with_sizes expects split_sizes to sum exactly to {x.shape[dim]} (input tensor's size at "
            f"dimension {dim}), "
            f"but got split_sizes={list(sizes)}"
        )
    return tuple(like(x, (*x.shape[:dim], n, *x.shape[dim + 1 :])) for n in sizes)


split_with_sizes: Op = view_family(
    "split_with_sizes", _parts, _parts_rule, "input: Tensor, split_sizes: Any, dim: Dim = 0", several=True,
    trusted=True, vjp=lambda g, _out, _x, sizes, dim: ops.cat(filled(g, _out), dim),
    samples=lambda make: [Sample(make(5, 3), (2, 3)), Sample(make(5, 3), (1, 0, 2), -1)],
)  # fmt: skip


def equal_parts(size: int, each: int) -> list[int]:
    """Sizes of the parts when `size` is cut every `each` items."""
    if each == 0:
        return [0]
    count = as_index(max(-(-size // each), 1))
    return [each] * (count - 1) + [size - each * (count - 1)]


_split_even: Op = view_family(
    "_split_even", lambda x, each, dim: _parts(x, equal_parts(x.shape[wrap_dim(dim, x.ndim)], each), dim),
    lambda x, each, dim: _parts_rule(x, equal_parts(x.shape[wrap_dim(dim, x.ndim)], each), dim),
    "input: Tensor, split_size: int, dim: Dim = 0",
    vjp=lambda g, _out, _x, each, dim: ops.cat(filled(g, _out), dim), method=False, function=False,
    node="SplitBackward0", several=True, trusted=True,
    samples=lambda make: [Sample(make(5, 3), 2), Sample(make(5, 3), 2, 1)],
)  # fmt: skip


@composite(
    "input: Tensor, split_size_or_sections: Any, dim: Dim = 0", method=False,
    samples=lambda make: [Sample(make(5, 3), 2), Sample(make(5, 3), [1, 2], -1)],
)  # fmt: skip
def split(input: TensorLike, split_size_or_sections: Spread, dim: int) -> Any:
    """The tensor cut along one dimension, every so many items or into these sizes."""
    kind = type_of(input)
    if not isinstance(split_size_or_sections, (int, np.integer)):
        return split_with_sizes(input, tuple(split_size_or_sections), dim)
    each = size_of(split_size_or_sections)
    if not kind.shape:
        raise RuntimeError("split expects at least a 1-dimensional tensor")
    if each < 0:
        raise RuntimeError(f"split expects split_size be non-negative, but got split_size={each}")
    size = kind.shape[wrap_dim(dim, kind.ndim)]
    if each == 0 and size:
        raise RuntimeError(
            f"split_size can only be 0 if dimension size is 0, but got dimension size of {size}"
        )
    return _split_even(input, each, dim)


@composite(
    "input: Tensor, chunks: int, dim: Dim = 0",
    samples=lambda make: [Sample(make(5, 3), 2), Sample(make(5, 3), 5, 1)],
)
def chunk(input: TensorLike, chunks: int, dim: int) -> Any:
    """The tensor cut into at most this many parts of equal size."""
    kind = type_of(input)
    if not kind.shape:
        raise RuntimeError("chunk expects at least a 1-dimensional tensor")
    if chunks <= 0:
        raise RuntimeError(f"chunk expects `chunks` to be greater than 0, got: {chunks}")
    size = kind.shape[wrap_dim(dim, kind.ndim)]
    each = -(-size // chunks)
    if each == 0:
        return split_with_sizes(input, (0,) * chunks, dim)
    return _split_even(input, each, dim)


def _tensor_split_samples(make: Maker) -> Iterator[Sample]:
    yield Sample(make(5, 3), 2)
    yield Sample(make(5, 3), (1, 4), 0)
    yield Sample(make(5, 3), 4, 1)


@composite("input: Tensor, indices_or_sections: Any, dim: Dim = 0", samples=_tensor_split_samples)
def tensor_split(input: TensorLike, indices_or_sections: Any, dim: int) -> Any:
    """The tensor cut into parts as equal as can be, or at these positions."""
    kind = type_of(input)
    if not kind.shape:
        raise RuntimeError(
            "tensor_split expected at least a 1-dimensional tensor, but got a tensor with 0 dims"
        )
    dim = wrap_dim(dim, kind.ndim)
    size = kind.shape[dim]
    sections = indices_or_sections
    if hasattr(sections, "tolist"):
        if type_of(sections).dtype.name != "int64":
            raise RuntimeError(
                "tensor_split expected tensor_indices_or_sections to have dtype of long, but got "
                f"{type_of(sections).dtype.scalar_name}"
            )
        if sections.ndim > 1:
            raise RuntimeError(
                "tensor_split expected tensor_indices_or_sections to be a zero-dimensional or "
                "one-dimensional tensor, but got a "
                f"tensor with {sections.ndim} dims"
            )
        sections = sections.tolist()
    if isinstance(sections, int):
        if sections <= 0:
            raise RuntimeError(f"number of sections must be larger than 0, got {sections}")
        each, extra = divmod(size, sections)
        edges = [i * each + min(i, extra) for i in range(sections + 1)]
    else:
        edges = [0, *sections, size]
    return tuple(slice_(input, dim, start, end, 1) for start, end in zip(edges[:-1], edges[1:], strict=True))


@composite(
    "input: Tensor, indices_or_sections: Any",
    samples=lambda make: [Sample(make(2, 4), 2), Sample(make(4), (1, 3))],
)
def hsplit(input: TensorLike, indices_or_sections: Spread) -> Any:
    kind = type_of(input)
    if not kind.shape:
        raise RuntimeError(
            "torch.hsplit requires a tensor with at least 1 dimension, but got a tensor with 0 dimensions!"
        )
    return _even_split("hsplit", input, indices_or_sections, 0 if kind.ndim == 1 else 1)


@composite(
    "input: Tensor, indices_or_sections: Any",
    samples=lambda make: [Sample(make(4, 2), 2), Sample(make(4, 2), (1,))],
)
def vsplit(input: TensorLike, indices_or_sections: Spread) -> Any:
    if type_of(input).ndim < 2:
        raise RuntimeError(
            "torch.vsplit requires a tensor with at least 2 dimension, but got a tensor with "
            f"{type_of(input).ndim} dimensions!"
        )
    return _even_split("vsplit", input, indices_or_sections, 0)


@composite("input: Tensor, indices_or_sections: Any", samples=lambda make: [Sample(make(1, 2, 4), 2)])
def dsplit(input: TensorLike, indices_or_sections: Spread) -> Any:
    if type_of(input).ndim < 3:
        raise RuntimeError(
            "torch.dsplit requires a tensor with at least 3 dimension, but got a tensor with "
            f"{type_of(input).ndim} dimensions!"
        )
    return _even_split("dsplit", input, indices_or_sections, 2)


def _even_split(name: str, x: TensorLike, sections: Spread, dim: int) -> Any:
    size = type_of(x).shape[dim]
    if isinstance(sections, int) and (sections <= 0 or size % sections):
        raise RuntimeError(
            f"torch.{name} attempted to split along dimension {dim}, but the size of the dimension {size} is "
            "not divisible by "
            f"the split_size {sections}!"
        )
    return tensor_split(x, sections, dim)


# -- windows and free strides --------------------------------------------------------------------------------
def _gather_flat(x: Array, positions: Array) -> Array:
    xp = namespace(x)
    flat, positions = x.reshape(-1), xp.asarray(positions)
    if not flat.size:
        return xp.zeros(positions.shape, x.dtype)
    taken = flat[positions.reshape(-1)]
    if positions.size and positions.min() < 0:
        taken[positions.reshape(-1) < 0] = 0
    return taken.reshape(positions.shape)


def _scatter_flat(g: Array, positions: Array, shape: tuple[int, ...]) -> Array:
    xp = namespace(g)
    wide = xp.float32 if g.dtype.itemsize == 2 and g.dtype.kind not in "iu" else g.dtype
    total = xp.zeros(prod(shape) + 1, wide)  # the last element takes what lies outside (position -1)
    xp.add.at(total, xp.asarray(positions).reshape(-1), g.reshape(-1).astype(wide))
    return total[:-1].reshape(shape).astype(g.dtype, copy=False)


gather_flat: Op = index(
    "gather_flat", _gather_flat, lambda x, positions: like(x, positions.shape),
    "input: Tensor, positions: Any",
    vjp=lambda g, _out, _x, positions: scatter_flat(g, positions, _x.shape), method=False, function=False,
    samples=lambda make: [Sample(make(2, 3), np.array([0, 5, 5, -1]))], batch=batch_gather_flat,
    refuses="integers", lowering="indexing",
)  # fmt: skip
scatter_flat: Op = index(
    "scatter_flat", _scatter_flat, lambda g, positions, shape: like(g, shape),
    "input: Tensor, positions: Any, shape: Any",
    vjp=lambda g, _out, _x, positions: gather_flat(g, positions), method=False, function=False,
    samples=lambda make: [Sample(make(4), np.array([0, 5, 5, -1]), (2, 3))], batch=batch_scatter_flat,
    refuses="integers", lowering="indexing",
)  # fmt: skip


def _unfold_rule(x: TensorType, dimension: int, size: int, step: int) -> TensorType:
    dim = wrap_dim(dimension, x.ndim)
    have = x.shape[dim] if x.shape else 1
    if size < 0:
        raise RuntimeError(f"size is {size} but must be >= 0")
    if size > have:
        raise RuntimeError(f"maximum size for tensor at dimension {dim} is {have} but size is {size}")
    if step <= 0:
        raise RuntimeError(f"step is {step} but must be > 0")
    if not x.shape:
        return like(x, (size,))
    return like(x, (*x.shape[:dim], (have - size) // step + 1, *x.shape[dim + 1 :], size))


def _unfold(x: Array, dimension: int, size: int, step: int) -> Array:
    shape = _unfold_rule(type_of(x), dimension, size, step).shape
    if not x.shape:
        return restride(x, shape, (x.dtype.itemsize,))
    dim = wrap_dim(dimension, x.ndim)
    steps = x.strides
    return restride(x, shape, (*steps[:dim], steps[dim] * step, *steps[dim + 1 :], steps[dim]))


def _unfold_vjp(g: TensorLike, _out: object, _x: TensorType, dimension: int, size: int, step: int) -> Any:
    positions = _unfold(np.arange(_x.numel()).reshape(_x.shape), dimension, size, step)
    return scatter_flat(g, positions, _x.shape)


unfold: Op = view_family(
    "unfold", _unfold, _unfold_rule, "input: Tensor, dimension: Dim, size: int, step: int", vjp=_unfold_vjp,
    function=False,
    samples=lambda make: [Sample(make(5, 3), 0, 2, 1), Sample(make(5, 3), -1, 2, 1),
        Sample(make(5), 0, 3, 2), Sample(make(), 0, 1, 1)],
)  # fmt: skip


def owner(x: Array) -> Array:
    """The array that holds the memory x looks at."""
    while is_array(x.base):
        x = x.base
    return x


def address(x: Array) -> int:
    return device_of(x).address(x)


def reach(x: Array) -> int:
    """How many bytes lie between the first element's begin and the last one's end."""
    if not x.size:
        return 0
    return x.dtype.itemsize + sum((n - 1) * step for n, step in zip(x.shape, x.strides, strict=True))


def _free_strides(x: Array, size: tuple[int, ...], stride: Sizes, shift: int, _steps: Sizes) -> Array:
    """`shift` counts elements from the start of x."""
    item = x.dtype.itemsize
    storage = owner(x)
    size_in_bytes = reach(storage)
    start = address(x) - address(storage) + shift * item
    needed = (
        0 if 0 in size else start + item * (1 + sum((n - 1) * s for n, s in zip(size, stride, strict=True)))
    )
    if start < 0 or needed > size_in_bytes:
        raise RuntimeError(
            f"setStorage: sizes {list(size)}, strides {list(stride)}, storage offset {start // item}, and "
            f"itemsize {item} "
            f"requiring a storage size of {needed} are out of bounds for storage of size {size_in_bytes}"
        )
    strides = tuple(s * item for s in stride)
    if 0 in size:
        return restride(x, size, strides)
    if not storage.flags.c_contiguous and not storage.flags.f_contiguous:
        storage = restride(storage, (size_in_bytes // item,), (item,))
    return device_of(x).window(storage, size, x.dtype, start, strides)


def _positions(size: Sizes, stride: Sizes, shift: int) -> HostArray:
    """For each element its place in memory, in elements."""
    places = np.asarray(shift)
    for n, step in zip(size, stride, strict=True):
        places = places[..., None] + np.arange(n) * step
    return places


def elements_shown(
    shape: Sizes, steps: Sizes, size: Sizes, stride: Sizes, shift: int
) -> tuple[HostArray, HostArray]:
    """For each element of an as_strided view, which element of its input lies there (-1: none); and for each
    element of the input, which one stands for all that share its place."""
    held = _positions(shape, steps, 0).reshape(-1)
    wanted = _positions(size, stride, shift).reshape(tuple(size))
    low = min(held.min(initial=0), wanted.min(initial=0))
    table = np.full(max(held.max(initial=0), wanted.max(initial=0)) - low + 1, -1)
    table[held - low] = np.arange(held.size)
    return table[wanted - low].reshape(tuple(size)), table[held - low].reshape(shape)


def _free_vjp(
    g: TensorLike, _out: object, _x: TensorType, size: Sizes, stride: Sizes, shift: int, steps: Sizes
) -> Any:
    seen, first = elements_shown(_x.shape, steps, size, stride, shift)
    spread = scatter_flat(g, seen, _x.shape)
    if len(np.unique(first)) == first.size:
        return spread
    # Elements of an overlapping input share one place: each takes an equal part of what that place received.
    shares = gather_flat(scatter_flat(ops.new_ones(g, _x.shape), first, _x.shape), first)
    return ops.div(gather_flat(spread, first), shares)


def _read_free(value: TensorLike, size: Sizes, stride: Sizes, shift: int, steps: Sizes) -> Any:
    return gather_flat(value, elements_shown(type_of(value).shape, steps, size, stride, shift)[0])


def _batch_free(op: Op, size: int, args: tuple[Any, ...], dims: tuple[Any, ...]) -> Any:
    """A view of the whole batch where examples lie in memory as the rule was told, else their elements."""
    x, shape, stride, shift, steps = args
    held, dim = element_strides(x), dims[0]
    if (*held[:dim], *held[dim + 1 :]) == tuple(steps):
        return op(x, (size, *shape), (held[dim], *stride), shift, held), 0
    within = type_of(x).shape[:dim] + type_of(x).shape[dim + 1 :]
    return batch_gather_flat(
        gather_flat, size, (x, elements_shown(within, steps, shape, stride, shift)[0]), (dim, None)
    )


_as_strided: Op = view_family(
    "_as_strided", _free_strides, lambda x, size, *_rest: like(x, size),
    "input: Tensor, size: Any, stride: Any, shift: int, input_stride: Any", vjp=_free_vjp, method=False,
    function=False, node="AsStridedBackward0", batch=_batch_free,
)  # fmt: skip
READERS[_as_strided] = _read_free


def element_strides(x: Any) -> tuple[int, ...]:
    """Strides in elements, of an array, or of a tensor (whose array it looks at)."""
    array = x if hasattr(x, "strides") else x.array
    return tuple(step // array.dtype.itemsize for step in array.strides)


def storage_offset(x: Any) -> int:
    """How many elements of the memory lie before the first of x."""
    array: Array = x if type(x) in DEVICES else x.array
    if type(array) not in DEVICES:
        return 0
    return (address(array) - address(owner(array))) // array.dtype.itemsize


@composite(
    "input: Tensor, size: Shape, stride: Any, storage_offset: Any = None",
    samples=lambda make: [
        Sample(make(3, 4), (2, 2), (1, 2)),
        Sample(make(3, 4), (2, 3), (1, 1), 2),
        Sample(make(3, 4), (), (), 5),
    ],
    batch=batch_as_strided,
)
def as_strided(input: TensorLike, size: Sizes, stride: Spread, storage_offset: int | None) -> Any:
    """A view of the tensor's whole memory with these sizes and strides (in elements)."""
    size, stride = as_sizes(size), as_sizes(stride)
    if len(size) != len(stride):
        raise RuntimeError("mismatch in length of strides and shape")
    if any(step < 0 for step in stride):
        raise RuntimeError(
            f"as_strided: Negative strides are not supported at the moment, got strides: {list(stride)}"
        )
    if any(n < 0 for n in size):
        raise RuntimeError(
            f"Storage size calculation overflowed with sizes={list(size)} and strides={list(stride)}"
        )
    kind = type_of(input)
    if isinstance(input, TensorType):
        return like(kind, size)
    start = _offset(input)
    if storage_offset is not None and storage_offset < 0:
        raise RuntimeError(f"Tensor: invalid storage offset {storage_offset}")
    return _as_strided(
        input, size, stride, 0 if storage_offset is None else storage_offset - start, element_strides(input)
    )


_offset = storage_offset


# -- complex numbers as pairs --------------------------------------------------------------------------------
def _pairs_rule(x: TensorType) -> TensorType:
    if not x.dtype.is_complex:
        raise RuntimeError("view_as_real is only supported for complex tensors")
    return TensorType((*x.shape, 2), x.dtype.to_real(), x.device)


view_as_real: Op = view_family(
    "view_as_real",
    lambda x: x.reshape((*x.shape, 1), copy=False).view(x.real.dtype),
    _pairs_rule,
    "input: Tensor",
    vjp=lambda g: view_as_complex(ops.contiguous(g)),
    conjugates=True,
    samples=lambda make: [Sample(make(2, 3, kind=complex128), grad=False)],
    batch=lambda op, size, args, dims: (op(to_front(args[0], dims[0])), 0),
    method=False,
)


def _complex_rule(x: TensorType) -> TensorType:
    if x.dtype.name not in ("float32", "float64"):
        raise RuntimeError(
            "view_as_complex is only supported for half, float and double tensors, but got a tensor of "
            f"scalar type: {x.dtype.scalar_name}"
        )
    if not x.shape:
        raise RuntimeError("Input tensor must have one or more dimensions")
    if x.shape[-1] != 2:
        raise RuntimeError("Tensor must have a last dimension of size 2")
    return TensorType(x.shape[:-1], x.dtype.to_complex(), x.device)


NOT_PAIRED = "Tensor must have a last dimension with stride 1"


def _view_as_complex(x: Array) -> Array:
    if x.strides[-1] != x.dtype.itemsize:
        raise RuntimeError(NOT_PAIRED)
    return x.view(namespace(x).result_type(x.dtype, namespace(x).complex64))[..., 0]


def _complex_samples(make: Maker) -> Iterator[Sample]:
    yield Sample(make(2, 3, kind=complex128), grad=False)


def _part_samples(make: Maker) -> Iterator[Sample]:
    yield Sample(make(2, 3))
    yield from _complex_samples(make)


view_as_complex: Op = view_family(
    "view_as_complex",
    _view_as_complex,
    _complex_rule,
    "input: Tensor",
    vjp=lambda g: view_as_real(g),
    conjugates=True,
    amp="float32",
    samples=lambda make: [Sample(make(3, 2, kind=float64), grad=False)],
    batch=lambda op, size, args, dims: (op(ops.contiguous(to_front(args[0], dims[0]))), 0),
    method=False,
)


@composite("input: Tensor", method=False, samples=_part_samples)
def real(input: TensorLike) -> Any:
    """The real parts, as a view; the tensor itself if it is real."""
    return select(view_as_real(input), -1, 0) if type_of(input).dtype.is_complex else input


@composite("input: Tensor", method=False, samples=_complex_samples)
def imag(input: TensorLike) -> Any:
    """The imaginary parts, as a view."""
    if not type_of(input).dtype.is_complex:
        raise RuntimeError("imag is not implemented for tensors with non-complex dtypes.")
    return select(view_as_real(input), -1, 1)
