"""View steps as data: the way from a base to one of its views, applied to arrays or tensors.

A step is `(op, arguments after the first, output number or None)`. `view_scatter` is the transpose: a base
in which the region that the steps reach is replaced.
"""

from __future__ import annotations

from typing import Any

from weft.core.arrays import Array, namespace
from weft.ops.families import index
from weft.ops.record import REGISTRY

Steps = tuple[tuple[Any, tuple[Any, ...], int | None], ...]


def replay(value: Any, steps: Steps) -> Any:
    """Applies view steps to an array or a tensor."""
    for op, rest, position in steps:
        value = op(value, *rest)
        if position is not None:
            value = value[position]
    return value


def _scatter(base: Array, source: Array, steps: Steps) -> Array:
    result = namespace(base).array(base, copy=True, order="K")
    replay(result, steps)[...] = source
    return result


def _zero(g: Any, steps: Steps) -> Any:
    """The gradient of the base: g, with zeros where the view was."""
    return view_scatter(g, REGISTRY["zeros_like"](replay(g, steps)), steps)


view_scatter = index(
    "view_scatter", _scatter, lambda x, src, steps: x, "input: Tensor, src: Tensor, steps: Any",
    vjp=(lambda g, _out, _x, _src, steps: _zero(g, steps), lambda g, _out, _x, _src, steps: replay(g, steps)),
    method=False, function=False, node="CopySlices",
)  # fmt: skip
