"""Which modules run now: their dotted names, in forward and in backward.

    with ModuleTracker() as tracker:
        model(x)          # inside, tracker.parents == {"Global", "Model", "Model.layer"}

Hooks on all modules note where a forward begins and ends; hooks on the tensors that enter and leave a module
note the same of its backward, which runs the other way.
"""

from __future__ import annotations

import weakref
from typing import Any, Self

from weft.autograd.graph import register_multi_grad_hook
from weft.autograd.hooks import RemovableHandle
from weft.autograd.tasks import local, queue_callback
from weft.core.modes import grad_enabled
from weft.core.trees import flatten
from weft.nn.modules.hooks import register_module_forward_hook, register_module_forward_pre_hook
from weft.nn.modules.module import Module
from weft.tensor.base import Tensor

__all__ = ["ModuleTracker"]
GLOBAL = "Global"


class ModuleTracker:
    """`parents` holds the names of the modules whose forward or backward runs now, and "Global"."""

    parents: set[str]

    def __init__(self) -> None:
        self.parents = {GLOBAL}
        self._names: weakref.WeakKeyDictionary[Module, str] = weakref.WeakKeyDictionary()
        self._handles: list[RemovableHandle] = []
        self._tidying: Any = None

    @property
    def is_bw(self) -> bool:
        """Whether a backward runs."""
        return local.task is not None

    def name_of(self, module: Module) -> str:
        """The dotted name of a module: that of the one that was called first, and attributes from there."""
        known = self._names.get(module)
        if known is None:
            known = type(module).__name__
            for path, inner in module.named_modules():
                self._names.setdefault(inner, f"{known}.{path}" if path else known)
        return known

    def __enter__(self) -> Self:
        self._handles = [
            register_module_forward_pre_hook(self._begin),
            register_module_forward_hook(self._end, always_call=True),
        ]
        return self

    def __exit__(self, *_error: object) -> None:
        for handle in self._handles:
            handle.remove()
        self._handles = []

    # -- forward, and what it leaves for backward ------------------------------------------------------------
    def _begin(self, module: Module, inputs: Any) -> None:
        name = self.name_of(module)
        self.parents.add(name)
        tensors = _differentiable(inputs)
        if tensors and not self.is_bw:  # a checkpoint that runs again is part of a backward already
            register_multi_grad_hook(tensors, lambda _gradients: self.parents.discard(name))

    def _end(self, module: Module, inputs: Any, outputs: Any) -> None:
        name = self.name_of(module)
        self.parents.discard(name)
        tensors = _differentiable(outputs)
        if tensors and not self.is_bw:
            register_multi_grad_hook(tensors, lambda _gradient: self._enter_backward(name), mode="any")

    def _enter_backward(self, name: str) -> None:
        self.parents.add(name)
        task = local.task
        if self._tidying is None or self._tidying() is not task:
            self._tidying = weakref.ref(task) if task is not None else None
            queue_callback(self._leave_backward)

    def _leave_backward(self) -> None:
        """Of modules whose inputs need no gradients nobody hears that they have ended."""
        self.parents.intersection_update({GLOBAL})
        self._tidying = None


def _differentiable(value: Any) -> list[Tensor]:
    """The tensors in nested data whose gradients will be computed."""
    if not grad_enabled():
        return []
    return [leaf for leaf in flatten(value)[0] if isinstance(leaf, Tensor) and leaf.requires_grad]
