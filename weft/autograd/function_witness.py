"""Tells tensors that a Function's forward computed from its inputs from those that are constants.

Takes the ops of forward, as a function mode that sees each call; gives, for a tensor that forward saved,
whether a gradient could have flowed to it. One idea: watching is dear, and what a Function saves hardly ever
changes from call to call. So the first recorded call of each Function is watched; later calls are watched
only as long as some saved tensor is a constant that watching alone can tell.

# Note [Watched calls]
For one Function class, by positions in `save_for_backward` of tensors that are neither input nor output:
    watched before, computed from inputs each time  -> taken to be computed; the call need not be watched
    never seen at this position                     -> taken to be computed, and the next call is watched
    watched before, a constant at least once        -> calls stay watched
Taking a constant for computed can only make a second derivative raise, never make it wrong.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable
from typing import Any

from weft.core.dtypes import BY_NUMPY
from weft.core.modes import modes
from weft.ops.record import Kind
from weft.tensor.base import Tensor
from weft.tensor.overrides import name_of

SHAPE_OF_SECOND = frozenset({"expand_as", "view_as", "reshape_as", "type_as"})
CUTS = frozenset({"weft.Tensor.detach", "weft.Tensor.data.__get__", "weft.Tensor.grad.__get__"})


class Witness:
    """Follows, through the calls of one forward, what is computed from its inputs."""

    def __init__(self, inputs: Iterable[Any]) -> None:
        # Tensors compare by element, so a set of them is kept by identity.
        self.touched: dict[int, weakref.ref[Tensor]] = {}
        for value in inputs:
            if isinstance(value, Tensor) and value.tracked:
                self.touched[id(value)] = weakref.ref(value)

    def __torch_function__(
        self, function: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        result = function(*args, **(kwargs or {}))
        relevant = args[:1] if getattr(function, "__name__", "") in SHAPE_OF_SECOND else args
        if passes_gradients(function) and self.knows((*relevant, *(kwargs or {}).values())):
            self.touch(args[0] if result is None and args else result)
        return result

    def knows(self, values: Iterable[Any]) -> bool:
        for value in values:
            if isinstance(value, Tensor):
                if self.has_touched(value):
                    return True
            elif isinstance(value, (tuple, list)) and self.knows(value):
                return True
        return False

    def has_touched(self, value: Tensor) -> bool:
        known = self.touched.get(id(value))
        return known is not None and known() is value

    def touch(self, value: Any) -> None:
        if isinstance(value, Tensor):
            if BY_NUMPY[value.array.dtype].category >= 2:
                self.touched[id(value)] = weakref.ref(value)
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


def passes_gradients(function: Any) -> bool:
    """Whether gradients flow from the results of this function to its arguments."""
    op = getattr(function, "op", None)
    if op is None:
        return name_of(function) not in CUTS
    if op.kind in (Kind.CREATE, Kind.RANDOM):
        return False
    return op.vjp is not None or bool(op.composed)


def watching(witness: Witness) -> tuple[Any, ...]:
    """The function modes with the witness as the innermost."""
    return (*modes().functions, witness)
