"""What PyTorch's programs ask of a backward that runs, and its nodes by name.

Takes nodes and tensors; tells which run of the engine this is, what it will run, in which order. One idea:
the task that runs knows all of it; numbers of tasks are given when they are first asked for.
"""

from __future__ import annotations

import heapq
import weakref
from collections.abc import Iterable
from itertools import count
from typing import Any

from weft.autograd import graph
from weft.autograd.grad_mode import multithreading
from weft.autograd.nodes import AccumulateGrad as AccumulateGrad
from weft.autograd.nodes import anchor, face_of
from weft.autograd.tasks import Task, leading_to, local, reachable
from weft.core import modes
from weft.ops.sweep import LEAF_SEQUENCE
from weft.tensor.base import Tensor
from weft.tensor.saved import SavedTensor as SavedTensor
from weft.tensor.saved import run_pack
from weft.tensor.tape import Node, RefusingNode, gradient_edge, node_between

_numbers: weakref.WeakKeyDictionary[Task, int] = weakref.WeakKeyDictionary()
_next_number = count().__next__


def _current_graph_task_id() -> int:
    """The number of the backward that runs; -1 where none does."""
    task = local.task
    if task is None:
        return -1
    if task not in _numbers:
        _numbers[task] = _next_number()
    return _numbers[task]


def _running() -> Task:
    if local.task is None:
        raise RuntimeError("This should only be called during the backward pass")
    return local.task


def _get_current_graph_task_keep_graph() -> bool:
    """Whether the backward that runs keeps what was saved."""
    return _running().retain


def _will_engine_execute_node(node: Any) -> bool:
    """Whether the backward that runs will run this node."""
    if not isinstance(node, Node):
        raise RuntimeError(f"_will_engine_execute_node expects an grad_fn, but got {type(node).__name__}")
    task = _running()
    end = anchor(node)
    if task.captures is not None and end in task.captures and end._seq == LEAF_SEQUENCE:
        raise RuntimeError(
            "_will_engine_execute_node was called on a leaf's AccumulateGrad: you are currently running "
            "autograd.grad(), which accumulates nothing"
        )
    return task.will_run(end)


def _current_graph_task_execution_order() -> list[Any]:
    """The nodes that the backward that runs will have run, in order."""
    task = _running()
    if multithreading.get():
        raise RuntimeError(
            "_current_graph_task_execution_order expects the current backward to be executed with "
            "multithreading disabled, e.g. by set_multithreading_enabled(False)"
        )
    if task.captures is not None:
        wanted = {*leading_to(task.roots, task.captures), *task.captures}
    else:
        wanted = set(reachable(task.roots) if task.needed is None else task.needed)
    waits = dict.fromkeys(wanted, 0)
    for node in wanted:
        for target in _targets(node):
            if target in waits:
                waits[target] += 1
    order: list[Any] = []
    ready = [(-node._seq, place, node) for place, node in enumerate(task.roots) if not waits.get(node, 1)]
    heapq.heapify(ready)
    while ready:
        *_, node = heapq.heappop(ready)
        order.append(face_of(node))
        for target in _targets(node):
            if target in waits:
                waits[target] -= 1
                if not waits[target]:
                    heapq.heappush(ready, (-target._seq, len(order), target))
    return order


def _targets(node: Any) -> Any:
    return () if node._seq == LEAF_SEQUENCE else node.next


# -- nodes ---------------------------------------------------------------------------------------------------
class DelayedError(RefusingNode):
    """`DelayedError(text, count)(*tensors)`: the tensors, whose gradients raise this text."""

    __slots__ = ()

    def __init__(self, text: str, outputs: int) -> None:
        self.params = (text,)

    def __call__(self, *tensors: Tensor) -> Any:
        made = tuple([_behind(DelayedError, tensor, self.params) for tensor in tensors])
        return made[0] if len(made) == 1 else made


class UndefinedGrad(Node):
    """`UndefinedGrad()(*tensors)`: the tensors, of which no gradient arrives."""

    __slots__ = ()

    def __init__(self) -> None:
        self.params = ()

    def __call__(self, *tensors: Tensor) -> Any:
        made = tuple([_behind(UndefinedGrad, tensor, ()) for tensor in tensors])
        return made[0] if len(made) == 1 else made

    def raw_backward(self, grad: object) -> Any:
        return (None,)

    graph_backward = raw_backward


def _behind(kind: type, tensor: Tensor, params: tuple[Any, ...]) -> Tensor:
    if not tensor.requires_grad or not modes.grad_enabled():
        return tensor
    made = tensor.detach()
    node = node_between(kind, [gradient_edge(tensor)], (tensor, tensor), params)
    made.requires_grad_()
    made.node, made.index = node, 0
    return made


# -- saved tensors -------------------------------------------------------------------------------------------
class _Made(SavedTensor):
    """A saved tensor of no node, packed by the hooks that were active."""

    __slots__ = ("value", "unpack_hook")

    def __init__(self, tensor: Tensor, hooks: Any) -> None:
        self.unpack_hook = None if hooks is None else hooks[1]
        self.value = tensor if hooks is None else run_pack(hooks[0], tensor)

    def unpack(self) -> Any:
        """The tensor again."""
        return self.value if self.unpack_hook is None else self.unpack_hook(self.value)


def _make_saved_tensor(tensor: Tensor, is_output: bool = False) -> SavedTensor:
    """What autograd would keep of a tensor."""
    hooks = modes.modes().saved_hooks
    return _Made(tensor, hooks[-1] if hooks else None)


def _saved_tensors_hooks_is_enabled() -> bool:
    """Whether hooks on saved tensors may be asked for."""
    return modes.modes().saved_hooks_error is None


def _saved_tensors_hooks_disable(text: str, fail_if_non_empty: bool = True) -> None:
    """Refuses hooks on saved tensors with this text, until they are enabled."""
    graph.disable_saved_tensors_hooks(text).__enter__()


def _saved_tensors_hooks_enable() -> None:
    """Takes hooks on saved tensors again."""
    modes.enter(saved_hooks_error=None)


def _unsafe_set_version_counter(tensors: Iterable[Tensor], versions: Iterable[int]) -> None:
    """Says how often tensors were written to."""
    for tensor, version in zip(tensors, versions, strict=True):
        if version < 0:
            raise RuntimeError(f"Cannot set a version counter to a negative value: {version}")
        tensor.shared_cell()[0] = version


class _WeakTensorRef:
    """A reference to a tensor that does not keep it."""

    def __init__(self, tensor: Tensor) -> None:
        self.reference = weakref.ref(tensor)

    def expired(self) -> bool:
        """Whether the tensor is gone."""
        return self.reference() is None
