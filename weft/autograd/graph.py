"""`weft.autograd.graph`: nodes and edges as users see them, hooks on saved tensors, hooks on several
gradients.

Gives context managers that change what autograd saves, and `register_multi_grad_hook`. One idea: what
autograd saves passes through the innermost pair of hooks of the active modes, so everything here is a pair
of functions.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ContextDecorator, contextmanager
from typing import Any, Self

from weft.autograd.hooks import RemovableHandle
from weft.autograd.nodes import AccumulateGrad as AccumulateGrad
from weft.autograd.nodes import GradientEdge as GradientEdge
from weft.autograd.nodes import get_gradient_edge as get_gradient_edge
from weft.autograd.tasks import local
from weft.core import modes
from weft.core.once import lock
from weft.ops.record import ops
from weft.tensor.base import Tensor
from weft.tensor.tape import Node as Node
from weft.tensor.tape import gradient_edge

__all__ = [
    "GradientEdge",
    "Node",
    "allow_mutation_on_saved_tensors",
    "disable_saved_tensors_hooks",
    "get_gradient_edge",
    "increment_version",
    "register_multi_grad_hook",
    "save_on_cpu",
    "saved_tensors_hooks",
]


class saved_tensors_hooks:
    """Inside, each tensor that autograd saves is replaced by `pack_hook(tensor)` until `unpack_hook` gives
    it back."""

    def __init__(self, pack_hook: Callable[[Tensor], Any], unpack_hook: Callable[[Any], Tensor]) -> None:
        self.pack_hook, self.unpack_hook = pack_hook, unpack_hook

    def __enter__(self) -> None:
        active = modes.modes()
        if active.saved_hooks_error is not None:
            raise RuntimeError(active.saved_hooks_error)
        modes.enter(saved_hooks=(*active.saved_hooks, (self.pack_hook, self.unpack_hook)))

    def __exit__(self, *_error: object) -> None:
        modes.enter(saved_hooks=modes.modes().saved_hooks[:-1])


class save_on_cpu(saved_tensors_hooks):
    """Inside, saved tensors are kept as copies in main memory."""

    def __init__(self, pin_memory: bool = False, device_type: str = "cuda") -> None:
        del pin_memory, device_type  # there is only one memory yet
        super().__init__(lambda tensor: ops.clone(tensor), lambda packed: packed)


class disable_saved_tensors_hooks(ContextDecorator):
    """Inside, asking for saved-tensor hooks raises RuntimeError with this message; so does entering while
    some are active."""

    def __init__(self, error_message: str) -> None:
        self.error_message = error_message

    def __enter__(self) -> None:
        active = modes.modes()
        if active.saved_hooks:
            raise RuntimeError(self.error_message)
        self.before = active.saved_hooks_error
        modes.enter(saved_hooks_error=self.error_message)

    def __exit__(self, *_error: object) -> None:
        modes.enter(saved_hooks_error=self.before)

    def _recreate_cm(self) -> Self:
        return type(self)(self.error_message)


class _MultiHandle(RemovableHandle):
    """Removes all hooks of one `register_multi_grad_hook`."""

    def __init__(self, handles: Sequence[RemovableHandle]) -> None:
        self.handles = handles

    def remove(self) -> None:
        for handle in self.handles:
            handle.remove()


def register_multi_grad_hook(
    tensors: Sequence[Tensor], fn: Callable[..., None], *, mode: str = "all"
) -> RemovableHandle:
    """Calls `fn` once per backward: with all the gradients when the last of them is known, or (mode "any")
    with the first."""
    if mode not in ("all", "any"):
        raise ValueError(f"Expects mode to be one of ('all', 'any') but got {mode}")
    for tensor in tensors:
        assert tensor.requires_grad, "Expected gradient function to be set"
    guard = lock()
    # Keyed weakly by the run of the engine: an unfinished run leaves nothing behind.
    runs: weakref.WeakKeyDictionary[Any, dict[str, Any]] = weakref.WeakKeyDictionary()
    references = [weakref.ref(gradient_edge(tensor)[0]) for tensor in tensors]

    def progress(task: Any) -> dict[str, Any]:
        state = runs.get(task)
        if state is None:
            alive = [reference() for reference in references]
            expected = sum(node is not None and task.will_run(node) for node in alive)
            state = runs[task] = {"left": expected, "gradients": [None] * len(references), "done": False}
        return state

    def hook_for(position: int) -> Callable[[Any], None]:
        def on_all(gradient: object) -> None:
            with guard:
                state = progress(local.task)
                state["gradients"][position] = gradient
                state["left"] -= 1
                ready = state["left"] == 0
            if ready:
                fn(state["gradients"])

        def on_any(gradient: object) -> None:
            with guard:
                state = progress(local.task)
                first, state["done"] = not state["done"], True
            if first:
                fn(gradient)

        return on_all if mode == "all" else on_any

    handles = [tensor.register_hook(hook_for(i)) for i, tensor in enumerate(tensors)]
    return _MultiHandle(handles)


class _Mutations:
    """What `allow_mutation_on_saved_tensors` keeps: copies are made of saved tensors the first time they are
    written to."""

    def __init__(self) -> None:
        self.cleared = False

    def clear(self) -> None:
        self.cleared = True


class allow_mutation_on_saved_tensors(saved_tensors_hooks):
    """Inside, tensors that autograd saved may be written to: autograd keeps copies of its own.

    Copies are made when saving, so that memory is higher than where nothing is ever written to.
    """

    def __init__(self) -> None:
        self.kept = _Mutations()
        super().__init__(lambda tensor: ops.clone(tensor), self._unpack)

    def __enter__(self) -> _Mutations:  # type: ignore[override]
        super().__enter__()
        return self.kept

    def __exit__(self, *error: object) -> None:
        super().__exit__(*error)
        self.kept.clear()

    def _unpack(self, packed: object) -> Any:
        if self.kept.cleared:
            raise AssertionError(
                "Trying to backward outside of the 'allow_mutation_on_saved_tensors' context in which the "
                "graph was originally "
                "recorded."
            )
        return packed


def increment_version(tensor: Tensor | Iterable[Tensor]) -> None:
    """Notes that a tensor was written to by means that autograd cannot see."""
    for each in (tensor,) if isinstance(tensor, Tensor) else tensor:
        each.bump()


@contextmanager
def _unsafe_preserve_version_counter(tensors: Any) -> Iterator[None]:
    """Writes inside are not noted: what was saved of these tensors counts as unchanged, though it is not."""
    cells = [tensor.shared_cell() for tensor in ((tensors,) if isinstance(tensors, Tensor) else tensors)]
    before = [cell[0] for cell in cells]
    try:
        yield
    finally:
        for cell, version in zip(cells, before, strict=True):
            cell[0] = version
