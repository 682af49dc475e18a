"""Facts: what a graph does to its inputs and what its outputs are, as data.

Made by `functional`, read by `partition` and by the runtime, which does to real tensors what the facts say.
One idea: the graph computes values only; everything about identity, memory and history stands here.

# Note [Outputs]
    def f(x, w):
        y = x * w                   values: y, and the new value of x
        x.add_(1)                   inputs[0]: written once, by value 0
        return y, y[0], x, x.t()    Value(1), ViewOf(Value(1), select), Input(0), ViewOf(Input(0), t)
A view is made anew from its base, by eager's own code, so that its history and its place in memory are
eager's.
"""

from __future__ import annotations

from dataclasses import field
from typing import Any

from weft.core.records import record

Casts = tuple[tuple[int, Any, bool], ...]
"""Casts of inputs: its number, the dtype, and whether gradients were recorded."""
DETACH, DATA = "detach", "data"
"""Steps that are no ops: `x.detach()` and `x.data`."""


@record(frozen=True, slots=True)
class Step:
    """One step from a tensor to a view of it: a view op with its arguments, or a word above."""

    op: Any
    rest: tuple[Any, ...] = ()
    position: int | None = None
    grad: bool = True
    """Whether gradients were recorded when the view was made."""
    inference: bool = False

    @property
    def moves(self) -> bool:
        """Whether other elements are reached, or in another order."""
        return type(self.op) is not str


@record(frozen=True, slots=True)
class Input:
    """An output that is an input itself."""

    index: int


@record(frozen=True, slots=True)
class Value:
    """An output that is a new tensor: the value of this number."""

    index: int


@record(frozen=True, slots=True)
class ViewOf:
    """An output that is a view."""

    base: Input | Value
    steps: tuple[Step, ...]
    version: int | None = None
    """Its own version, where it shares none with its base (behind `.data`)."""
    stale: bool = False
    """Whether its base was written since it was made."""
    old: bool = False
    """Whether it was made before its base was last written."""
    tensors: tuple[int, ...] = ()
    """Which tensor each step leads to: outputs that have one in common share that very tensor."""
    behind: frozenset[int] = frozenset()
    """The inputs that are written after it was made: whether one of them counts its writes with the base,
    being a view of the same tensor, is known in a call."""


@record(frozen=True, slots=True)
class Constant:
    """An output that is no tensor and known."""

    value: Any


@record(frozen=True, slots=True)
class Number:
    """An output that the graph computes, but no tensor: the value of this number."""

    index: int


Output = Input | Value | ViewOf | Constant | Number


@record(slots=True)
class Written:
    """An input whose elements the graph changes."""

    input: int
    value: int
    """The number of the value that it holds at the end."""
    times: int
    """How often its version is counted up."""
    history: bool
    """Whether it has a new history: the gradient of the value is its own."""


@record(slots=True)
class Made:
    """One value that the graph gives."""

    requires_grad: bool
    strides: tuple[int, ...] | None = None
    """Where in memory elements lie, in bytes; None if it does not matter."""
    version: int = 0
    """How often it was written before it is given out."""
    inference: bool = False
    """Whether it was made in inference mode."""


@record(slots=True)
class Facts:
    """Everything that the graph does not say itself."""

    values: list[Made] = field(default_factory=list)
    written: list[Written] = field(default_factory=list)
    outputs: list[Output] = field(default_factory=list)
    draws: bool = False
    """Whether random numbers are drawn."""
    plain_histories: bool = True
    """Whether each value's history is that of the graph's own nodes: False where a tensor that is tracked was
    written without the tape's knowledge (under no_grad, or through `.data`), or any through `.data`, which
    nodes may have saved: histories of gradients read it as it is then."""
