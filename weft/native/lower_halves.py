"""Halves: ops on float16 and bfloat16, in float32.

Takes the arguments of an op, and what its rule gave; gives them in float32, and in halves again. One idea:
eager computes every op on halves in float32 and rounds once, so rules need not know of them.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from weft.core.dtypes import float32
from weft.native.lower_calls import Unlowered
from weft.native.scalar import HALVES, NAMES
from weft.native.tensors import Definition, Point


def has_half(value: Any) -> bool:
    """Whether there are halves among arguments, or among results."""
    if isinstance(value, (tuple, list)):
        return any(has_half(item) for item in value)
    if isinstance(value, Definition):
        return value.type in HALVES
    array = getattr(value, "array", None)
    return array is not None and NAMES.get(array.dtype) in HALVES


def widened(value: Any) -> Any:
    """Arguments, with float32 for halves."""
    if isinstance(value, (tuple, list)) and type(value) in (tuple, list):
        return type(value)([widened(item) for item in value])
    if isinstance(value, Definition) and value.type in HALVES:
        return converted(value, "f32", "widen", 1)
    return value


def widened_result(value: Any) -> Any:
    """The type of a result, as rules ask for it, with float32 for halves."""
    if isinstance(value, (tuple, list)):
        return tuple([widened_result(item) for item in value])
    if not has_half(value):
        return value
    array = SimpleNamespace(shape=value.array.shape, dtype=float32.numpy)
    return SimpleNamespace(array=array, dtype=float32, shape=value.array.shape)


def narrowed(made: Any, result: Any) -> Any:
    """What a rule gave, with halves where the op gives halves."""
    if isinstance(made, tuple):
        return tuple([narrowed(item, part) for item, part in zip(made, result)])
    if not isinstance(made, Definition) or not has_half(result):
        return made
    to = NAMES[result.array.dtype]
    if made.type != "f32":
        raise Unlowered(f"{made.type} as {to}")
    return converted(made, to, made.name, 4)


def converted(value: Definition, to: str, name: str, cost: int) -> Definition:
    return Point(
        shape=value.shape, type=to, name=name, make=lambda b, v, _: b.cast(v[0], to), operands=[value],
        cost=cost,
    )  # fmt: skip
