"""Halves: ops on float16 and bfloat16, in float32.

Takes the arguments of an op, and what its rule gave; gives them in float32, and in halves again. One idea:
eager computes every op on halves in float32 and rounds once, so rules need not know of them.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from weft.core.dtypes import BY_NUMPY, float32
from weft.native.ir.definitions import Definition, Point
from weft.native.ir.scalar import HALVES, NAMES, TYPES, Builder, Value
from weft.native.lower.calls import Unlowered
from weft.ops.record import Op, to_half


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
        raise Unlowered(f"a result computed in {made.type} and rounded to {to}")
    return converted(made, to, made.name, 4)


def converted(value: Definition, to: str, name: str, cost: int) -> Definition:
    return Point(
        shape=value.shape, type=to, name=name, make=lambda b, v, _: b.cast(v[0], to), operands=[value],
        cost=cost,
    )  # fmt: skip


# -- operands of other types, which eager rounds to halves first ---------------------------------------------
def rounded_places(op: Op, bound: tuple[Any, ...]) -> tuple[int, ...]:
    """Which arguments of an op that computes with halves are rounded to these."""
    wide = op.unrounded
    places = []
    for place in (*op.signature.tensor_slots, *op.rounded):
        value = bound[place]
        half = isinstance(value, Point) and value.name == "widen"
        single = not getattr(value, "shape", ())
        if value is not None and not half and not (single and place in wide):
            places.append(place)
    return tuple(places)


def in_half(value: Any, half: str) -> Any:
    """A number, rounded to a half; definitions are rounded where they are computed."""
    return value if isinstance(value, Definition) else to_half(value, TYPES[half])


class Stepwise:
    """A builder that rounds to a half what each step gives, constants too."""

    def __init__(self, builder: Builder, half: str) -> None:
        self.builder, self.half = builder, half

    def __getattr__(self, name: str) -> Any:
        step = getattr(self.builder, name)
        if not callable(step):
            return step

        def rounded(*args: Any) -> Any:
            made = step(*args)
            return by_half(self.builder, made, self.half) if made.type == "f32" else made

        return rounded


def stepping(op: Op, builder: Builder, half: str) -> Any:
    """The builder for the body of an op that computes with halves, if it does."""
    stepwise = half and BY_NUMPY[TYPES[half]] in op.stepwise
    return Stepwise(builder, half) if stepwise else builder


def by_half(b: Builder, value: Value, half: str) -> Value:
    """A value, rounded to a half, in float32."""
    return b.cast(b.cast(b.cast(value, "f32"), half), "f32")
