"""Views that are copied: what a view op shows, in memory of its own; and pieces with a promise.

Takes what the view op of the same name takes; gives contiguous tensors. One idea: a list of names, since a
copy of a view is a clone of it. `unsafe_split` and `unsafe_chunk` give pieces on the memory of the whole that
count as tensors of their own: each may be written to, and the whole does not hear of it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

from weft.core.arrays import Array, namespace
from weft.core.seams import seams
from weft.core.types import TensorType, contiguous_format
from weft.ops.batching import spread_to
from weft.ops.families import composite, index
from weft.ops.record import REGISTRY, Op, ops, type_of
from weft.ops.samples import Maker, Sample
from weft.ops.scatter import check_source
from weft.ops.slicing import element_strides, elements_shown
from weft.ops.slicing import storage_offset as offset_in_storage
from weft.ops.values import Sizes, Spread, TensorLike
from weft.ops.view import as_sizes

SAMPLES: dict[str, Callable[[Maker], Sample]] = {
    "alias": lambda make: Sample(make(2, 3)),
    "as_strided": lambda make: Sample(make(2, 3), (2, 2), (1, 2), 1),
    "diagonal": lambda make: Sample(make(3, 4), 1),
    "expand": lambda make: Sample(make(3, 1), (2, -1, 4)),
    "narrow": lambda make: Sample(make(4, 3), 0, 1, 2),
    "permute": lambda make: Sample(make(2, 3, 4), (2, 0, 1)),
    "select": lambda make: Sample(make(2, 3), 1, 2),
    "slice": lambda make: Sample(make(4, 3), 0, 1, 4, 2),
    "split": lambda make: Sample(make(5, 3), 2),
    "split_with_sizes": lambda make: Sample(make(4, 3), [1, 3]),
    "squeeze": lambda make: Sample(make(2, 1, 3)),
    "t": lambda make: Sample(make(2, 3)),
    "transpose": lambda make: Sample(make(2, 3, 4), 0, 2),
    "unbind": lambda make: Sample(make(2, 3), 1),
    "unfold": lambda make: Sample(make(5, 2), 0, 3, 2),
    "unsqueeze": lambda make: Sample(make(2, 3), 1),
    "view": lambda make: Sample(make(2, 6), (3, -1)),
    "view_as_complex": lambda make: Sample(make(3, 2), grad=False),
    "view_as_real": lambda make: Sample(make(3) * 1j, grad=False),
}
PLAIN = {"permute": "dims: Any", "expand": "size: Shape, *, implicit: bool = False", "view": "size: Shape"}
"""Parameters where the view op takes several arguments for one."""


def _copied(value: TensorLike | Sequence[TensorLike]) -> Any:
    if isinstance(value, (tuple, list)):
        return tuple([_copied(one) for one in value])
    return ops.clone(value, memory_format=contiguous_format)


def _define(name: str, sample: Callable[[Maker], Sample]) -> None:
    record = REGISTRY[name]
    text = f"input: Tensor, {PLAIN[name]}" if name in PLAIN else record.signature.text

    def body(input: TensorLike, *given: Any) -> Any:
        return _copied(record(input, *given))

    body.__doc__ = f"A copy of what `{name}` shows."
    composite(text, name=f"{name}_copy", method=name == "narrow", samples=lambda make: [sample(make)])(body)


for _name, _sample in SAMPLES.items():
    _define(_name, _sample)


# -- what `as_strided` shows, written to ---------------------------------------------------------------------
def _scatter_rule(x: TensorType, src: TensorType, size: Sizes, stride: Sizes, *_rest: object) -> TensorType:
    wanted = tuple(size)
    check_source(wanted, src)
    if any(n > 1 and not step for n, step in zip(wanted, stride, strict=True)):
        raise RuntimeError(
            "unsupported operation: more than one element of the written-to tensor refers to a single memory "
            "location. Please clone() the tensor before performing the operation."
        )
    return x


def _scatter_kernel(
    x: Array, src: Array, size: Sizes, stride: Sizes, shift: int, steps: Sizes, _storage_offset: int | None
) -> Array:
    """`shift` counts elements of memory from the start of x, whose strides are `steps`."""
    xp = namespace(x)
    places = xp.asarray(elements_shown(x.shape, steps, size, stride, shift)[0].reshape(-1))
    own = places >= 0  # memory between the elements of x is no part of the result
    out = xp.array(x, order="K", copy=True)
    out[xp.unravel_index(places[own], x.shape)] = src.reshape(-1)[own]  # of several for one place, the last
    return out


def _shown(g: TensorLike, size: Sizes, stride: Sizes, storage_offset: int | None) -> Any:
    return ops.as_strided(ops.clone(g, memory_format=contiguous_format), size, stride, storage_offset)


def _replaced_gradient(g: TensorLike, _out: object, _x: TensorType, _src: object, *given: Any) -> Any:
    """PyTorch's: that of what was replaced, as if it were still there, and 0 for all else."""
    size, stride, *_, offset = given
    shown = _shown(g, size, stride, offset)
    return _as_strided_scatter(ops.new_zeros(g, tuple(_x.shape)), shown, *given)


def _source_gradient(g: TensorLike, _out: object, _x: object, _src: object, *given: Any) -> Any:
    size, stride, *_, offset = given
    return _shown(g, size, stride, offset)


def _batch_scatter(op: Op, size: int, args: tuple[Any, ...], dims: tuple[Any, ...]) -> tuple[Any, int]:
    """One more dimension in front, whose step leaves room for a whole example."""
    x, src = (spread_to(args[i], dims[i], size) for i in (0, 1))
    shape, stride, shift, steps, offset = args[2:]
    held, shown = zip(type_of(x).shape[1:], steps, strict=True), zip(shape, stride, strict=True)
    step = 1 + abs(shift) + sum(n * each for n, each in (*held, *shown))
    return op(x, src, (size, *shape), (step, *stride), shift, (step, *steps), offset), 0


_as_strided_scatter: Op = index(
    "_as_strided_scatter", _scatter_kernel, _scatter_rule,
    "input: Tensor, src: Tensor, size: Any, stride: Any, shift: int, input_stride: Any, storage_offset: Any",
    vjp=(_replaced_gradient, _source_gradient), batch=_batch_scatter, method=False, function=False,
    node="AsStridedScatterBackward0",
)  # fmt: skip


def _batch_of_contiguous(op: Op, size: int, args: tuple[Any, ...], dims: tuple[Any, ...]) -> tuple[Any, int]:
    """Examples count as contiguous, wherever they lie in memory."""
    x, src = (spread_to(args[i], dims[i], size) for i in (0, 1))
    shape, stride, offset = args[2:]
    within = type_of(x).shape[1:]
    steps = tuple([prod(within[dim + 1 :]) for dim in range(len(within))])
    own = (as_sizes(shape), as_sizes(stride), offset or 0, steps, offset)
    return _batch_scatter(_as_strided_scatter, size, (x, src, *own), (0, 0))


@composite(
    "input: Tensor, src: Tensor, size: Shape, stride: Any, storage_offset: Any = None",
    samples=lambda make: [Sample(make(2, 3), make(2, 2), (2, 2), (1, 2), 1, grad=False)],
    batch=_batch_of_contiguous,
)
def as_strided_scatter(
    input: TensorLike, src: TensorLike, size: Sizes, stride: Spread, storage_offset: int | None
) -> Any:
    """A copy with the elements replaced that `as_strided` shows."""
    size, stride = as_sizes(size), as_sizes(stride)
    if isinstance(input, TensorType):
        return _scatter_rule(input, type_of(src), size, stride)
    steps = element_strides(input)
    if any(not step and n > 1 for n, step in zip(type_of(input).shape, steps, strict=True)):
        input = ops.clone(input, memory_format=contiguous_format)
        steps = element_strides(input)
    ops.as_strided(input, size, stride, storage_offset)  # says what is out of bounds
    shift = 0 if storage_offset is None else storage_offset - offset_in_storage(input)
    return _as_strided_scatter(input, src, size, stride, shift, steps, storage_offset)


# -- pieces --------------------------------------------------------------------------------------------------
def _untied(pieces: tuple[TensorLike, ...] | list[TensorLike]) -> Any:
    return type(pieces)(map(seams.untie, pieces))


@composite("input: Tensor, chunks: int, dim: Dim = 0", samples=lambda make: [Sample(make(5, 2), 2)])
def unsafe_chunk(input: TensorLike, chunks: int, dim: int) -> Any:
    """As `chunk`, but the parts are no views."""
    return _untied(ops.chunk(input, chunks, dim))


@composite("input: Tensor, split_size: Any, dim: Dim = 0", samples=lambda make: [Sample(make(5, 2), 2)])
def unsafe_split(input: TensorLike, split_size: Spread, dim: int) -> Any:
    """As `split`, but the parts are no views."""
    return _untied(ops.split(input, split_size, dim))


@composite(
    "input: Tensor, split_sizes: Any, dim: Dim = 0",
    samples=lambda make: [Sample(make(5, 2), [2, 3])],
)
def unsafe_split_with_sizes(input: TensorLike, split_sizes: Sizes, dim: int) -> Any:
    """As `split_with_sizes`, but the parts are no views."""
    return _untied(ops.split_with_sizes(input, split_sizes, dim))
