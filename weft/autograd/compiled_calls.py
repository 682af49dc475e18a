"""What graphs of compiled autograd call: hooks, custom backwards, and the accumulation into `.grad`.

Takes what the engine would hand to a hook or a leaf, as tensors; does what the engine does. One idea: run as
they are, these functions are eager's own code; captured, each stands for the user's code behind it (see
`weft.capture.tape_calls`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from weft.autograd.function_node import FunctionNode
from weft.autograd.hooks import KINDS, RETAINING, HookKind, retain
from weft.autograd.tasks import accumulate
from weft.tensor.base import Tensor, storage_root, wrap
from weft.tensor.tape import check_versions

if TYPE_CHECKING:
    from weft.tensor.tape import Node


Pattern = tuple[bool, ...]
ALWAYS_COPY: Final = -(1 << 30)
"""More references than any array has: a gradient that a graph holds is somebody else's."""


class Unexpected(BaseException):
    """While a graph is captured: what it calls gives gradients in other places than it was made for."""

    def __init__(self, number: int, found: Pattern) -> None:
        super().__init__(number, found)
        self.number, self.found = number, found


class OtherGradients(RuntimeError):
    """While a graph runs: what it calls gave gradients in other places than it was made for."""

    def __init__(self, called: object, number: int, found: Pattern) -> None:
        name = getattr(called, "__qualname__", type(called).__name__)
        super().__init__(
            f"{name} returned None in other places than when the graph of this backward was made: run it "
            "again, or outside of compiled autograd."
        )
        self.number, self.found = number, found


def pattern(values: Any) -> Pattern:
    """Where among the values there are gradients."""
    return tuple([value is not None for value in values])


def hook_call(kind: HookKind) -> Callable[..., Any]:
    """What graphs call for a hook of a kind: with the hook and what that is given; it gives what takes the
    place of the first.

    Where a hook may leave gradients out, the call has two more arguments behind the hook: its number, and
    where it is expected to leave gradients.
    """

    def call(hook: Callable[..., Any], *given: Any) -> Any:
        answer = hook(*[own(each) for each in given]) if kind.gets_gradients else hook(*given)
        return kind.answered(hook, given[0], answer)

    def call_expecting(hook: Callable[..., Any], number: int, expected: Pattern, *given: Any) -> Any:
        values = call(hook, *given)
        if pattern(values) != expected:
            raise OtherGradients(hook, number, pattern(values))
        return values

    made = call_expecting if kind.several else call
    made.__name__ = made.__qualname__ = kind.compiled
    return made


def own(gradient: Any) -> Any:
    """A gradient, or a tuple of them, as a hook gets it: tensors of its own, and views of nothing."""
    if isinstance(gradient, tuple):
        return tuple([own(value) for value in gradient])
    return None if gradient is None else wrap(gradient.array)


def accumulate_grad(leaf: Tensor, gradient: Tensor) -> None:
    """Adds to a leaf's `.grad`."""
    accumulate(leaf, gradient.array, False, ALWAYS_COPY)


def retain_grad(tensor: Tensor, gradient: Tensor) -> None:
    """Adds to the `.grad` of a tensor that is no leaf."""
    retain(lambda: tensor, gradient.array)


HOOK_CALLS: Final = {
    RETAINING: retain_grad,
    **{kind: hook_call(kind) for kind in KINDS if kind.of_users},
}
globals().update({call.__name__: call for call in HOOK_CALLS.values()})  # as other functions of this module


def unpack_saved(item: Any) -> Any:
    """A saved tensor, as the user's unpack hook gives it back."""
    tensor = item.tensor()
    check_unpacked(item, tensor)
    return tensor.detach()


def check_unpacked(item: Any, tensor: Tensor) -> None:
    """Graphs are made for what was packed."""
    if tensor.array.shape != item.shape or tensor.array.dtype is not item.dtype:
        raise RuntimeError(
            f"a saved tensor of shape {list(item.shape)} and dtype {item.dtype} was unpacked as one of shape "
            f"{list(tensor.array.shape)} and dtype {tensor.array.dtype}"
        )


def check_saved(node: Any) -> None:
    """Raises, as the node itself would, where what it saved was written to: by a hook that has just run."""
    if node.versions is not None:
        check_versions(node, node.versions)
    elif node.op is None:
        node.check()


def saved_memory(node: Node) -> set[int]:
    """Whose memory holds what a node saved: `id`s of arrays."""
    items = node.ctx._items if isinstance(node, FunctionNode) else node.saved
    found: list[Any] = []
    stack = list(items or ())
    while stack:
        item = stack.pop()
        if isinstance(item, (tuple, list)):
            stack += item
        elif isinstance(item, np.ndarray):
            found.append(item)
        elif hasattr(item, "array"):
            stack.append(item.array)
    return {id(storage_root(array)) for array in found}


def call_backward(
    node: Node, number: int, given: Pattern, _shapes: object, *gradients: Any
) -> tuple[Any, ...]:
    """Runs the backward of a custom Function, expected to give gradients for the inputs that `given` says."""
    arrays = [None if value is None else value.array for value in gradients]
    found = node.raw_backward(arrays[0] if node.outputs is None else arrays)
    if pattern(found) != given:
        raise OtherGradients(node, number, pattern(found))
    return tuple([None if value is None else wrap(value) for value in found])
