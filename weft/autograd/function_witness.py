"""Tells tensors that a Function's forward computed from its inputs from those that are constants.

Takes the ops of forward (`Modes.witness` is told of each); gives, for a tensor that forward saved, whether a
gradient could have flowed to it. One idea: watching is dear, and what a Function saves hardly ever changes
from call to call. So the first recorded call of each Function is watched; later calls are watched only as
long as some saved tensor is a constant that watching alone can tell.

# Note [Watched calls]
For one Function class, by positions in `save_for_backward` of tensors that are neither input nor output:
    watched before, computed from inputs each time  -> taken to be computed; the call need not be watched
    never seen at this position                     -> taken to be computed, and the next call is watched
    watched before, a constant at least once        -> calls stay watched
Taking a constant for computed can only make a second derivative raise, never make it wrong. `detach` hides
where a tensor came from, so that users can say what is to count as a constant.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable
from typing import Any

from weft.core.dtypes import BY_NUMPY
from weft.ops.record import Kind, Op
from weft.tensor.base import Tensor


class Witness:
    """Follows, through the ops of one forward, what is computed from its inputs."""

    def __init__(self, inputs: Iterable[Any]) -> None:
        # Tensors compare by element, so a set of them is kept by identity.
        self.touched: dict[int, weakref.ref[Tensor]] = {}
        for value in inputs:
            if isinstance(value, Tensor) and value.tracked:
                self.touched[id(value)] = weakref.ref(value)

    def __call__(self, op: Op | None, tensors: list[Tensor], results: object) -> None:
        """An op has made (or is about to overwrite) these results from these tensors."""
        if (op is None or passes_gradients(op)) and any(self.has_touched(each) for each in tensors):
            self.touch(results)

    def has_touched(self, value: Tensor) -> bool:
        """Whether it, or the tensor whose memory it views, was computed from an input."""
        for tensor in (value,) if value.origin is None else (value, value.origin.base):
            known = self.touched.get(id(tensor))
            if known is not None and known() is tensor:
                return True
        return False

    def touch(self, value: object) -> None:
        if isinstance(value, Tensor):
            if BY_NUMPY[value.array.dtype].category >= 2:
                self.touched[id(value)] = weakref.ref(value)
                if value.origin is not None:
                    self.touch(value.origin.base)
        elif isinstance(value, (tuple, list)):
            for item in value:
                self.touch(item)

    def is_constant(self, node: Any, position: int, tensor: Tensor) -> bool:
        """Whether the tensor saved at this position was not computed; notes it for later calls."""
        constant = not self.has_touched(tensor)
        positions = type(node).positions
        if constant:
            positions[position] = False
        else:
            positions.setdefault(position, True)
        return constant

    def done(self, node_class: Any) -> None:
        """Decides whether the next call must be watched."""
        node_class.watched = not all(node_class.positions.values())


class Absent:
    """Stands for the witness of a call that was not watched."""

    def is_constant(self, node: Any, position: int, _tensor: Tensor) -> bool:
        kind = type(node)
        if position not in kind.positions:
            kind.watched = True
        return False


ABSENT = Absent()


def passes_gradients(op: Op) -> bool:
    """Whether gradients flow from the results of this op to its arguments."""
    return op.vjp is not None and op.kind not in (Kind.CREATE, Kind.RANDOM)
