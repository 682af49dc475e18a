"""Views that are copied: what a view op shows, in memory of its own; and pieces with a promise.

Takes what the view op of the same name takes; gives contiguous tensors. One idea: a list of names, since a
copy of a view is a clone of it. `unsafe_split` and `unsafe_chunk` give pieces that nobody writes to, which
for us are the same as others.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from weft.core.dtypes import int64
from weft.core.types import contiguous_format
from weft.ops.families import composite
from weft.ops.record import REGISTRY, ops, type_of
from weft.ops.samples import Maker, Sample
from weft.ops.slicing import narrow as _narrow  # noqa: F401 - the ops that are copied

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


def _copied(value: Any) -> Any:
    if isinstance(value, (tuple, list)):
        return tuple([_copied(one) for one in value])
    return ops.clone(value, memory_format=contiguous_format)


def _define(name: str, sample: Callable[[Maker], Sample]) -> None:
    record = REGISTRY[name]
    text = f"input: Tensor, {PLAIN[name]}" if name in PLAIN else record.signature.text

    def body(input: Any, *given: Any) -> Any:
        return _copied(record(input, *given))

    body.__doc__ = f"A copy of what `{name}` shows."
    composite(text, name=f"{name}_copy", method=name == "narrow", samples=lambda make: iter([sample(make)]))(
        body
    )


for _name, _sample in SAMPLES.items():
    _define(_name, _sample)


@composite(
    "input: Tensor, src: Tensor, size: Shape, stride: Any, storage_offset: Any = None",
    samples=lambda make: iter([Sample(make(2, 3), make(2, 2), (2, 2), (1, 2), 1)]),
)
def as_strided_scatter(input: Any, src: Any, size: Any, stride: Any, storage_offset: Any) -> Any:
    """A copy with the elements replaced that `as_strided` shows."""
    wanted, given = tuple(size), tuple(type_of(src).shape)
    if wanted != given:
        raise RuntimeError(
            "expected src to have a size equal to the slice of self. src size = "
            f"{list(given)}, slice size = {list(wanted)}"
        )
    whole = ops.contiguous(input)
    ones = ops.ones_like(whole, dtype=int64)
    places = ops.reshape(ops.sub(ops.cumsum(ops.reshape(ones, (-1,)), 0), 1), tuple(type_of(whole).shape))
    index = ops.reshape(ops.as_strided(places, size, stride, storage_offset), (-1,))
    flat = ops.index_copy(ops.reshape(whole, (-1,)), 0, index, ops.reshape(src, (-1,)))
    return ops.reshape(flat, tuple(type_of(input).shape))


@composite("input: Tensor, chunks: int, dim: Dim = 0", samples=lambda make: iter([Sample(make(5, 2), 2)]))
def unsafe_chunk(input: Any, chunks: int, dim: int) -> Any:
    """As `chunk`."""
    return ops.chunk(input, chunks, dim)


@composite("input: Tensor, split_size: Any, dim: Dim = 0", samples=lambda make: iter([Sample(make(5, 2), 2)]))
def unsafe_split(input: Any, split_size: Any, dim: int) -> Any:
    """As `split`."""
    return ops.split(input, split_size, dim)


@composite(
    "input: Tensor, split_sizes: Any, dim: Dim = 0",
    samples=lambda make: iter([Sample(make(5, 2), [2, 3])]),
)
def unsafe_split_with_sizes(input: Any, split_sizes: Any, dim: int) -> Any:
    """As `split_with_sizes`."""
    return ops.split_with_sizes(input, split_sizes, dim)
