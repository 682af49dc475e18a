"""Views and in-place history: how a tensor that shares memory follows its base on the tape.

Takes the result of a view op, gives a tensor that knows its base and the steps from it. When the base (or another view of it)
is written to, `refresh` rebuilds a view's node from the base's new one; `weft.tensor.inplace` puts a write to a view behind its base.

# Note [Views and the tape]
    b = a * 2; v = b[0]; v.mul_(3); b.sum().backward()
The write to v makes  n1 = mul(v_old, 3)  and then  b.node = view_scatter(b_old, n1): b's gradient outside of v goes to b_old, the
part inside goes through n1 and v_old's own node. Another view w of b still holds the old node; its `seen` version is behind its
cell's, so the next use replays its steps on b and takes that node.
"""

from __future__ import annotations

from typing import Any

from weft.core.modes import current, enter, leave
from weft.ops.record import Op
from weft.ops.replay import replay
from weft.tensor.base import PLAIN, Tensor, wrap

DEFAULT, MULTIPLE, NO_GRAD, INFERENCE_VIEW, CUSTOM = range(5)


class View:
    """How a view was made: its base, the steps from it, in what circumstances, and the version its node belongs to."""

    __slots__ = ("base", "steps", "creation", "seen")

    def __init__(self, base: Tensor, steps: tuple[Any, ...], creation: int, seen: int) -> None:
        self.base, self.steps, self.creation, self.seen = base, steps, creation, seen


def make_view(op: Op, bound: tuple[Any, ...], arrays: Any, mode: Any) -> Any:
    """Wraps the arrays of a view op as views of the op's first argument."""
    parent: Tensor = bound[0]
    grad = mode if type(mode) is bool else mode.grad
    if type(arrays) is tuple or type(arrays) is list:
        creation = MULTIPLE if grad else NO_GRAD
        step = bound[1:]
        return type(arrays)(attach_view(parent, a, (op, step, i), creation) for i, a in enumerate(arrays))
    return attach_view(parent, arrays, (op, bound[1:], None), DEFAULT if grad else NO_GRAD)


def attach_view(parent: Tensor, array: Any, step: tuple[Any, ...], creation: int) -> Tensor:
    """A tensor on this array, one step away from its parent."""
    tensor = wrap(array)
    cell = parent.cell
    if cell is None:
        cell = parent.cell = [0]
    tensor.cell = cell
    above = parent.origin
    if above is None:
        tensor.origin = View(parent, (step,), creation, _count(cell))
    else:
        creation = creation or above.creation
        tensor.origin = View(above.base, (*above.steps, step), creation, _count(cell))
    return tensor


def attach_alias(parent: Tensor) -> Tensor:
    """The same memory and version as a tensor of its own, outside the graph and no view of anything."""
    tensor = wrap(parent.array)
    cell = parent.cell
    if cell is None:
        cell = parent.cell = [0]
    tensor.cell = cell
    return tensor


def _count(cell: Any) -> int:
    return cell[0] if type(cell) is list else 0


def refresh(tensor: Tensor) -> None:
    """Brings a view's node up to date with its base."""
    view = tensor.origin
    count = _count(tensor.cell)
    if view.seen == count:
        return
    view.seen = count
    base = view.base
    if not base.tracked or base.cell is not tensor.cell or view.creation == NO_GRAD:
        return
    plain = type(base) in PLAIN and type(current()) is bool
    token = enter(grad=True) if plain else enter(grad=True, shielded=True, functions=())
    try:
        again = replay(base, view.steps)
    finally:
        leave(token)
    tensor.node, tensor.index, tensor.tracked = again.node, again.index, again.tracked


def overlaps_itself(array: Any) -> bool:
    """Whether two indices of this array may name one element (a broadcast dimension, or strides that fold)."""
    if array.size <= 1 or array.flags.c_contiguous:
        return False
    facts = sorted((abs(step), size) for step, size in zip(array.strides, array.shape, strict=True) if size > 1)
    reach = array.dtype.itemsize
    for step, size in facts:
        if step < reach:
            return True
        reach = step * size
    return False
