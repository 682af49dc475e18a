"""What graphs of compiled autograd call: hooks, custom backwards, and the accumulation into `.grad`.

Takes what the engine would hand to a hook or a leaf, as tensors; does what the engine does. One idea: run as
they are, these functions are eager's own code; captured, each stands for the user's code behind it (see
`weft.capture.tape_calls`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from weft.autograd import hooks
from weft.autograd.function_node import FunctionNode
from weft.autograd.tasks import accumulate
from weft.tensor.base import Tensor, storage_root, wrap
from weft.tensor.tape import check_versions

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

    def __init__(self, called: Any, number: int, found: Pattern) -> None:
        name = getattr(called, "__qualname__", type(called).__name__)
        super().__init__(
            f"{name} returned None in other places than when the graph of this backward was made: run it "
            "again, or outside of compiled autograd."
        )
        self.number, self.found = number, found


def pattern(values: Any) -> Pattern:
    """Where among the values there are gradients."""
    return tuple([value is not None for value in values])


def call_hook(hook: Callable[[Any], Any], gradient: Any) -> Any:
    """The gradient after one hook of a tensor."""
    answer = hook(wrap(gradient.array))
    return gradient if answer is None else hooks.checked(hook, gradient, answer)


def call_pre_hook(
    hook: Callable[..., Any], number: int, given: Pattern, gradients: tuple[Any, ...]
) -> tuple[Any, ...]:
    """The gradients of a node's outputs after one hook that runs before the node.

    `number` is that of the hook, `given` says where it is expected to leave gradients.
    """
    answer = hook(own(gradients))
    return expected(hook, number, given, gradients, answer)


def call_post_hook(
    hook: Callable[..., Any], number: int, given: Pattern, inputs: tuple[Any, ...], outputs: tuple[Any, ...]
) -> tuple[Any, ...]:
    """The gradients of a node's inputs after one hook that runs after the node."""
    answer = hook(own(inputs), own(outputs))
    return expected(hook, number, given, inputs, answer)


def own(gradients: tuple[Any, ...]) -> tuple[Any, ...]:
    """The gradients as a hook gets them: tensors of its own, and views of nothing."""
    return tuple([None if value is None else wrap(value.array) for value in gradients])


def expected(hook: Any, number: int, given: Pattern, before: tuple[Any, ...], answer: Any) -> tuple[Any, ...]:
    """What a hook answered, checked; None leaves the gradients as they were."""
    values = before if answer is None else hooks.checked_tuple(hook, before, answer)
    if pattern(values) != given:
        raise OtherGradients(hook, number, pattern(values))
    return values


def call_post_accumulate_hook(hook: Callable[..., Any], leaf: Tensor) -> None:
    """Tells a hook that a leaf has its gradient."""
    if hook(leaf) is not None:
        raise RuntimeError("Tensor post accumulate grad hooks should return None.")


def accumulate_grad(leaf: Tensor, gradient: Tensor) -> None:
    """Adds to a leaf's `.grad`."""
    accumulate(leaf, gradient.array, False, ALWAYS_COPY)


def retain_grad(tensor: Tensor, gradient: Tensor) -> None:
    """Adds to the `.grad` of a tensor that is no leaf."""
    hooks.retain(tensor, gradient.array, False)


def unpack_saved(item: Any) -> Any:
    """A saved tensor, as the user's unpack hook gives it back."""
    tensor = item.tensor()
    check_unpacked(item, tensor)
    return tensor.detach()


def check_unpacked(item: Any, tensor: Any) -> None:
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


def saved_memory(node: Any) -> set[int]:
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


def call_backward(node: Any, number: int, given: Pattern, _shapes: Any, *gradients: Any) -> tuple[Any, ...]:
    """Runs the backward of a custom Function, expected to give gradients for the inputs that `given` says."""
    arrays = [None if value is None else value.array for value in gradients]
    found = node.raw_backward(arrays[0] if node.outputs is None else arrays)
    if pattern(found) != given:
        raise OtherGradients(node, number, pattern(found))
    return tuple([None if value is None else wrap(value) for value in found])
