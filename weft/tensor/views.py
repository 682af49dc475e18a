"""Views and in-place history: how a tensor that shares memory follows its base on the tape.

Takes the result of a view op, gives a tensor that knows its base and the steps from it. When the base (or
another view of it) is written to, `refresh` rebuilds a view's node from the base's new one;
`weft.tensor.inplace` puts a write to a view behind its base.

# Note [Views and the tape]
    b = a * 2; v = b[0]; v.mul_(3); b.sum().backward()
The write to v makes  n1 = mul(v_old, 3)  and then  b.node = view_scatter(b_old, n1): b's gradient outside of
v goes to b_old, the part inside goes through n1 and v_old's own node (or, if that has hooks, through a node
like it: hooks on v_old hear only of what used v before the write). Another view w of b still holds the old
node; its `seen` version is behind its cell's, so the next use replays its steps on b and takes that node.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from weft.core.arrays import is_array, namespace
from weft.core.dtypes import BY_NUMPY
from weft.core.modes import current, enter, leave
from weft.core.seams import seams
from weft.core.symbolic import any_symbolic
from weft.ops.record import Op
from weft.ops.replay import replay
from weft.tensor.base import PLAIN, Tensor, address, wrap
from weft.tensor.meta import MetaArray
from weft.tensor.tape import INFERENCE, Node, next_sequence, short_name

if TYPE_CHECKING:
    from weft.core.arrays import Array
    from weft.core.modes import State


DEFAULT, MULTIPLE, NO_GRAD, INFERENCE_VIEW, CUSTOM = 0, 1, 2, 3, 1 << 8


class View:
    """How a view was made: its base, the steps from it, in what circumstances, and the version its node
    belongs to."""

    __slots__ = ("base", "steps", "creation", "seen")

    def __init__(self, base: Tensor, steps: tuple[Any, ...], creation: int, seen: int) -> None:
        self.base, self.steps, self.creation, self.seen = base, steps, creation, seen


def make_view(op: Op, bound: tuple[Any, ...], arrays: object, mode: State) -> Any:
    """Wraps the arrays of a view op as views of the op's first argument."""
    parent: Tensor = bound[0]
    if type(mode) is bool:
        creation = DEFAULT if mode else NO_GRAD
    else:
        creation = INFERENCE_VIEW if mode.inference else DEFAULT if mode.grad else NO_GRAD
    if type(arrays) is tuple or type(arrays) is list:
        step = bound[1:]
        creation = creation or MULTIPLE
        return type(arrays)([attach_view(parent, a, (op, step, i), creation) for i, a in enumerate(arrays)])
    return attach_view(parent, arrays, (op, bound[1:], None), creation)


def attach_view(parent: Tensor, array: object, step: tuple[Any, ...], creation: int) -> Tensor:
    """A tensor on this array, one step away from its parent."""
    tensor = wrap(array)
    cell = parent.cell
    if cell is None:
        cell = parent.cell = [0]
    elif cell is INFERENCE:
        tensor.cell = cell
        return tensor
    tensor.cell = cell
    above = parent.origin
    if above is None:
        tensor.origin = View(parent, (step,), creation, cell[0])
    else:
        tensor.origin = View(above.base, (*above.steps, step), creation or above.creation, cell[0])
    if creation >= NO_GRAD and tensor.origin.base.tracked:
        cut_off(tensor)
    return tensor


def untie(piece: Any) -> Any:
    """Makes a view a tensor of its own, on the same memory. A fake stays a view, so that a graph knows whose
    memory it is.
    """
    if type(piece) not in PLAIN or piece.origin is None or type(piece.array) is MetaArray:
        return piece
    if type(piece.node) is Stop:
        piece.node, piece.tracked = None, False
    piece.origin = piece.cell = None
    return piece


seams.untie = untie


class Stop(Node):
    """Behind a view that was made while nothing was recorded: such a view requires grad as its base does,
    but its gradient
    goes nowhere. Users see no grad_fn there."""

    __slots__ = ()

    def raw_backward(self, grad: object) -> Any:
        return ()

    graph_backward = raw_backward


def can_have_gradient(tensor: Tensor) -> bool:
    return BY_NUMPY[tensor.array.dtype].category >= 2


def cut_off(tensor: Tensor) -> None:
    """Puts a Stop behind a view, if its dtype can have gradients at all."""
    if not can_have_gradient(tensor):
        return
    node = Stop.__new__(Stop)
    node._seq = next_sequence()
    node.next = node.params = node.types = node.saved = ()
    node.slots = node.versions = node.hooks = None
    tensor.node, tensor.index, tensor.tracked = node, 0, True


def attach_alias(parent: Tensor) -> Tensor:
    """The same memory and version as a tensor of its own, outside the graph and no view of anything."""
    tensor = wrap(parent.array)
    cell = parent.cell
    if cell is None:
        cell = parent.cell = [0]
    tensor.cell = cell
    return tensor


def settled(tensor: Tensor) -> Tensor:
    """The tensor, with its history up to date."""
    if tensor.origin is not None:
        refresh(tensor)
    return tensor


def refresh(tensor: Tensor) -> None:
    """Brings a view's node up to date with its base."""
    view = tensor.origin
    count = tensor.cell[0]
    base = view.base
    if view.seen == count:
        if base.tracked and not tensor.tracked:  # the base was told to require grad after the view was made
            cut_off(tensor)
        return
    if base.origin is not None or not base.tracked or base.cell is not tensor.cell:
        return
    if not can_have_gradient(tensor):
        view.seen = count
        return
    if view.creation != DEFAULT:
        raise RuntimeError(forbidden_text(tensor, view, "its base or another view of its base has been"))
    view.seen = count
    again = made_again(view)
    before = tensor.node, tensor.index
    tensor.node, tensor.index, tensor.tracked = again.node, again.index, again.tracked
    if tensor.hooks is not None:
        moved(tensor, *before)


def made_again(view: View) -> Tensor:
    """A view made anew from its base, with a node of its own."""
    plain = type(view.base) in PLAIN and type(current()) is bool
    token = enter(grad=True) if plain else enter(grad=True, inference=False, shielded=True, functions=())
    try:
        found: Tensor = replay(view.base, view.steps)
        return found
    finally:
        leave(token)


def moved(tensor: Tensor, node: Node, index: int) -> None:
    """Tells a tensor with retain_grad that its history has moved from this node."""
    move = getattr(tensor.hooks, "moved", None)
    if move is not None:
        move(tensor, node, index)


def forbidden_text(tensor: Tensor, view: View, modified: str) -> str:
    """Why this view may not be written to (or its base), in PyTorch's words."""
    inference = view.creation == INFERENCE_VIEW
    if tensor.node is not None and type(tensor.node) is not Stop:
        text = (
            f"Output {tensor.index} of {short_name(tensor.node)} is a view and {modified} modified inplace."
        )
    elif inference:
        text = f"A view was created in inference mode and {modified} modified inplace in normal mode."
    else:
        text = f"A view was created in no_grad mode and {modified} modified inplace with grad mode enabled."
    if view.creation == MULTIPLE:
        return text + (
            " This view is the output of a function that returns multiple views. Such functions do not allow "
            "the output views to "
            "be modified inplace. You should replace the inplace operation by an out-of-place one."
        )
    if view.creation == CUSTOM:
        return text + (
            " This view was created inside a custom Function (or because an input was returned as-is) and "
            "the autograd logic to "
            "handle view+inplace would override the custom backward associated with the custom Function, "
            "leading to incorrect "
            "gradients. This behavior is forbidden. You can fix this by cloning the output of the custom "
            "Function."
        )
    block = "inference_mode" if inference else "no_grad"
    return text + (
        " Given that this use case is ambiguous and error-prone, it is forbidden. You can clarify your code "
        "by moving both the "
        f"view and the inplace either both inside the {block} block (if you don't want the inplace to be "
        "tracked) or both outside "
        "(if you want the inplace to be tracked)."
    )


def overlaps_itself(array: Array) -> bool:
    """Whether two indices of this array may name one element (a broadcast dimension, or strides that
    fold)."""
    if array.flags.c_contiguous:
        return False
    if type(array) is MetaArray and any_symbolic((*array.shape, *array.strides)):
        return _overlaps_openly(array)
    if array.size <= 1:
        return False
    facts = sorted(
        (abs(step), size) for step, size in zip(array.strides, array.shape, strict=True) if size > 1
    )
    reach = array.dtype.itemsize
    for step, size in facts:
        if step < reach:
            return True
        reach += step * (size - 1)
    return False


def _overlaps_openly(array: MetaArray) -> bool:
    """The same where sizes are open; what it depends on is noted. The axes are taken in the order of this
    call's strides: if each of these steps over all that those before it reach, there is no overlap,
    whatever their order is in another call.
    """
    pairs = [*zip(array.strides, array.shape, strict=True)]
    if any(type(size) is int and size == 0 for _step, size in pairs):
        return False
    reach: Any = array.dtype.itemsize
    for step, size in sorted(pairs, key=lambda pair: getattr(pair[0], "hint", pair[0])):
        if type(size) is int and size == 1:
            continue
        if step < reach and size > 1:
            return all(size != 0 for size in array.shape)
        reach = reach + step * (size - 1)
    return False


def repeats(array: Array) -> bool:
    """Whether a dimension of several indices has stride 0, as `expand` makes it."""
    return any(step == 0 and size > 1 for step, size in zip(array.strides, array.shape, strict=True))


def refuse_overlap(array: Array) -> None:
    """Raises where a write would store two elements in one place."""
    if overlaps_itself(array):
        raise RuntimeError(
            "unsupported operation: more than one element of the written-to tensor refers to a single memory "
            "location. "
            "Please clone() the tensor before performing the operation."
        )


def check_overlap(written: object, others: tuple[Any, ...], apart: bool = False) -> None:
    """Raises where an operand shares some, but not exactly all, of the memory that is written to; or any of
    it, where they must be apart. Arrays with gaps are let pass, as PyTorch does: it cannot tell cheaply.
    """
    for other in others:
        if type(other) is list or type(other) is tuple:
            check_overlap(written, tuple(other), apart)
        elif (
            is_array(other)
            and type(other) is type(written)
            and namespace(other).may_share_memory(written, other)
            and written.size
            and other.size
            and (apart or not _same_place(written, other))
            and is_dense(written)
            and is_dense(other)
        ):
            raise RuntimeError(
                "unsupported operation: some elements of the input tensor and the written-to tensor refer to "
                "a single memory location. Please clone() the tensor before performing the operation."
            )


def is_dense(array: Array) -> bool:
    """Whether the elements fill their span of memory, in whatever order."""
    if array.flags.forc:
        return True
    step = array.itemsize
    for stride, size in sorted(
        (stride, size) for stride, size in zip(array.strides, array.shape, strict=True) if size > 1
    ):
        if stride != step:
            return False
        step *= size
    return True


def _same_place(a: Any, b: Any) -> bool:
    same_start = address(a) == address(b)
    return bool(
        same_start
        and a.shape == b.shape
        and all(n == 1 or s == t for n, s, t in zip(a.shape, a.strides, b.strides, strict=True))
    )
