"""Views with open sizes: what a view's kernel does to an array that is known by shape and strides alone.

Takes the shape of a base and a view op with its arguments; gives the shapes of the views, and per axis of the
base how far they begin and move along it. One idea: view kernels run on outlines of arrays, so an outline
that
also knows where it begins tells the whole map of indices, with sizes that only a call knows.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from weft.ops.outline import KERNELS, Outline, clamped
from weft.ops.record import Op
from weft.ops.replay import as_called

BYTE: Final = np.dtype(np.int8)
Seen = tuple[tuple[Any, ...], tuple[Any, ...], Any]
"""Shape, strides, and where it begins."""


class Looked(Outline):
    """An outline that knows where it begins, in elements."""

    __slots__ = ("offset",)

    def __init__(self, shape: tuple[Any, ...], strides: tuple[Any, ...], offset: Any) -> None:
        super().__init__(shape, strides, BYTE)
        self.offset = offset

    def restrided(self, shape: tuple[Any, ...], strides: tuple[Any, ...]) -> Looked:
        return Looked(tuple(shape), tuple(strides), self.offset)

    def __getitem__(self, key: Any) -> Looked:
        made = super().__getitem__(key)
        items = key if isinstance(key, tuple) else (key,)
        wanted = sum(1 for item in items if item is not None and item is not ...)
        offset, dim = self.offset, 0
        for item in items:
            if item is ...:
                dim += self.ndim - wanted
            elif item is not None:
                offset = offset + self.strides[dim] * first(item, self.shape[dim])
                dim += 1
        return Looked(made.shape, made.strides, offset)


def first(item: Any, size: Any) -> Any:
    """The first place along an axis that a key takes."""
    if not isinstance(item, slice):
        return item + size if item < 0 else item
    if item.step is not None and item.step < 0:
        raise TypeError("a slice that runs backwards")
    return 0 if item.start is None else clamped(item.start, size)


def stepped(shape: tuple[Any, ...], steps: Any) -> tuple[list[Any], list[tuple[Any, ...]]]:
    """Where view steps lead: a start for each axis of the base, and how much it moves along each of the view.
    Raises TypeError where they need more than an outline."""
    values = [
        seen(shape, [int(each == axis) for each in range(len(shape))], steps) for axis in range(len(shape))
    ]
    return [value.offset for value in values], [value.strides for value in values]


def outline(shape: tuple[Any, ...], steps: Any) -> tuple[Any, ...]:
    """The shape of what view steps lead to."""
    found: tuple[Any, ...] = seen(shape, [0] * len(shape), steps).shape
    return found


def seen(shape: tuple[Any, ...], strides: list[int], steps: Any) -> Any:
    """The outline of what view steps lead to."""
    value = Looked(shape, tuple(strides), 0)
    for op, rest, position in steps:
        args, kwargs = as_called(op, rest)
        bound = op.signature.bind(tuple(args), dict(kwargs)) if kwargs else tuple(args)
        found: Any = KERNELS.get(op.kernel, op.kernel)(value, *bound)
        value = found if position is None else found[position]
    if not isinstance(value, Looked):
        raise TypeError("a view that needs elements")
    return value


def looked_at(op: Op, shape: tuple[Any, ...], rest: tuple[Any, ...]) -> tuple[list[list[Seen]], bool]:
    """What a view op gives for a base of this shape, for each of its axes as if only that one moved, and
    whether it gives several."""
    assert op.kernel is not None
    kernel = KERNELS.get(op.kernel, op.kernel)
    found: list[list[Seen]] = []
    several = False
    for axis in range(max(len(shape), 1)):
        strides = tuple([int(each == axis) for each in range(len(shape))])
        made = kernel(Looked(shape, strides, 0), *rest)
        several = isinstance(made, (tuple, list))
        found.append([(each.shape, each.strides, each.offset) for each in (made if several else (made,))])
    return found, several
