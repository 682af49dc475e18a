"""View steps as data: the way from a base to one of its views, applied to arrays or tensors.

A step is `(op, arguments after the first, output number or None)`. `view_scatter` is the transpose: a base
in which the region that the steps reach is replaced.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from weft.core.arrays import Array, namespace
from weft.core.dtypes import dtype
from weft.ops.families import index
from weft.ops.record import REGISTRY, Op, ops
from weft.ops.samples import Maker, Sample
from weft.ops.values import TensorLike

Steps = tuple[tuple[Any, tuple[Any, ...], int | None], ...]


def as_called(op: Op, rest: tuple[Any, ...]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Bound arguments after the first as a caller would pass them: by name where position cannot do."""
    parameters = op.signature.parameters[1:]
    places = [i for i, p in enumerate(parameters) if p.keyword_only or p.variadic]
    if not places:
        return rest, {}
    first = places[0] + 1 if parameters[places[0]].variadic else places[0]
    return rest[:first], {p.name: v for p, v in zip(parameters[first:], rest[first:])}


def replay(value: Any, steps: Steps) -> Any:
    """Applies view steps to an array or a tensor."""
    for op, rest, position in steps:
        args, kwargs = as_called(op, rest)
        value = op(value, *args, **kwargs)
        if position is not None:
            value = value[position]
    return value


READERS: dict[Any, Callable[..., Any]] = {}
"""Ops whose view depends on strides, and how to read the same elements off a value with other strides (a
gradient lies in memory as it pleases, whatever the base's order)."""


def read(value: Any, steps: Steps) -> Any:
    """The elements that the steps reach, from a value whose strides need not be the base's."""
    for op, rest, position in steps:
        reader = READERS.get(op)
        if reader is None:
            args, kwargs = as_called(op, rest)
            value = op(value, *args, **kwargs)
        else:
            value = reader(value, *rest)
        if position is not None:
            value = value[position]
    return value


def retypes(steps: Steps) -> bool:
    """Whether a step looks at memory as another type."""
    parts = [part for _op, rest, _position in steps for part in rest]
    pairs = (ops.view_as_real, ops.view_as_complex)
    return any(op in pairs for op, _rest, _position in steps) or any(
        isinstance(each, dtype) for part in parts for each in (part if type(part) is tuple else (part,))
    )


def _scatter(base: Array, source: Array, steps: Steps) -> Array:
    xp = namespace(base)
    if retypes(steps) or not any(op in READERS for op, _rest, _position in steps):
        result = xp.array(base, copy=True, order="K")
        replay(result, steps)[...] = source
        return result
    result = xp.array(base, copy=True, order="C")
    places = xp.asarray(read(xp.arange(1, base.size + 1).reshape(base.shape), steps)).reshape(-1)
    inside = places > 0  # 0: memory outside the base
    result.reshape(-1)[places[inside] - 1] = source.reshape(-1)[inside]
    return result if base.flags.c_contiguous else _laid_as(base, result)


def _laid_as(base: Array, values: Array) -> Array:
    """The values in the order in which a copy of the base lies in memory."""
    result = namespace(base).array(base, copy=True, order="K")
    result[...] = values
    return result


def _zero(g: TensorLike, steps: Steps) -> Any:
    """The gradient of the base: g, with zeros where the view was."""
    return view_scatter(g, REGISTRY["zeros_like"](read(g, steps)), steps)


def _samples(make: Maker) -> Iterator[Sample]:
    row = (ops.select, (0, 1), None)
    yield Sample(make(3, 4), make(4), (row,))
    yield Sample(make(3, 4), make(2), (row, (ops.narrow, (0, 1, 2), None)))
    yield Sample(make(2, 4), make(2), ((ops.unbind, (0,), 1), (ops.narrow, (0, 0, 2), None)))


view_scatter = index(
    "view_scatter", _scatter, lambda x, src, steps: x, "input: Tensor, src: Tensor, steps: Any",
    vjp=(lambda g, _out, _x, _src, steps: _zero(g, steps), lambda g, _out, _x, _src, steps: read(g, steps)),
    conjugates=True,  # steps that show parts of complex numbers are no holomorphic functions
    samples=_samples, method=False, function=False, node="CopySlices",
    refuses="nothing", lowering="indexing", cheap=True,
)  # fmt: skip
