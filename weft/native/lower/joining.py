"""Lowering of tensors that are put together: `cat`.

Gives a rule for `weft.native.lower.lowering`. One idea: each part is computed where it belongs in the whole,
so that
what makes it writes there itself, and nothing is copied.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from weft.native.ir.definitions import Definition, Direct, Part, Shape
from weft.native.lower.lowering import Lowering, Unlowered, rule, type_name
from weft.native.plan.units import row_major
from weft.native.target import Target


def whole(target: Target, shape: Shape, type_: str, name: str) -> Direct:
    """A definition that is made of parts, which are its operands; they are complete when it is its turn."""
    if not target.joins:
        raise Unlowered(f"{name}, of parts that are computed in place")
    return Direct(
        shape=shape, type=type_, name=name, call=None, function="whole", text="", numbers=(), rows=1,
        chunks=1, work=1,
    )  # fmt: skip


def part(of: Direct, value: Definition, start: int, strides: Shape) -> Part:
    """A value as a part of a whole: from which of its elements on, and how it lies there."""
    to = of.type
    made = Part(
        shape=value.shape, type=to, name=of.name, operands=[value], whole=of, start=start, strides=strides,
        make=lambda builder, values, _place: builder.cast(values[0], to),
    )  # fmt: skip
    of.operands.append(made)
    return made


@rule("cat")
def _cat(lowering: Lowering, tensors: Sequence[Any], dim: Any) -> Definition:
    assert lowering.node is not None
    result: Any = lowering.node.meta["val"]
    shape = tuple(result.array.shape)
    if not isinstance(dim, int) or not shape:
        raise Unlowered("cat along a dimension that is no int, or to a scalar")
    axis = dim % len(shape)
    given = [each for each in tensors if each.size]
    if not given or any(len(each.shape) != len(shape) for each in given):
        raise Unlowered("cat of empty tensors, or of tensors of several ranks")
    made = whole(lowering.target, shape, type_name(result.array.dtype), "cat")
    strides = row_major(shape)
    place = 0
    for each in given:
        part(made, each, place * strides[axis], strides)
        place += each.shape[axis]
    if place != shape[axis]:
        raise Unlowered("cat whose result has another size than its parts")
    return made
