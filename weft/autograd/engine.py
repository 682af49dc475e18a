"""The engine: `backward` and `grad` on live tensors, as the one sweep of `weft.ops.sweep` over the tape.

Takes output tensors and gradients; accumulates into leaves' `.grad` or gives the gradients asked for. With create_graph=False
nodes run on raw arrays; with it, on tensors, recorded, by the same rules.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import numpy as np

from weft.core import modes
from weft.core.dtypes import BY_NUMPY
from weft.ops.record import REGISTRY, quiet
from weft.ops.sweep import LEAF_SEQUENCE, sweep
from weft.tensor.base import Tensor, wrap
from weft.tensor.tape import gradient_edge
from weft.tensor.views import refresh

_accumulation = threading.Lock()


class Task:
    """One run of the engine: what to keep, what to capture, where to accumulate."""

    __slots__ = ("retain", "graph", "captures", "captured", "accumulate", "needed")

    def __init__(self, retain: bool, graph: bool, captures: dict[Any, list[tuple[int, int]]] | None, accumulate: bool) -> None:
        self.retain, self.graph, self.captures, self.accumulate = retain, graph, captures, accumulate
        self.captured: dict[int, Any] = {}
        self.needed: set[Any] | None = None

    def reachable(self) -> set[Any] | None:
        """The nodes worth running or capturing; None for all."""
        return None if self.needed is None else self.needed | set(self.captures or ())

    def wrap(self, gradient: Any) -> Any:
        return gradient if gradient is None or self.graph else wrap(gradient)

    def apply(self, node: Any, gradient: Any, owned: bool) -> Any:
        """Runs one node: hooks, capture, the gradient rules, hooks."""
        if node.hooks is not None:
            gradient, owned = node.hooks.on_tensors(node, gradient, self.graph), False
        if self.captures is not None and node in self.captures:
            for slot, position in self.captures[node]:
                self.captured[position] = gradient[slot] if node.outputs is not None else gradient
            if self.needed is not None and node not in self.needed:
                return None
        if node.hooks is not None:
            gradient = node.hooks.on_pre(node, gradient, self.graph)
        if node._seq == LEAF_SEQUENCE:
            if self.accumulate and gradient is not None and (self.captures is None or node in self.captures):
                accumulate(node, gradient, owned, self.graph)
                if node.hooks is not None:
                    node.hooks.on_accumulated(node)
            return None
        if gradient is None and not node.runs_without_gradient:
            return [None] * len(node.next)
        results = node.graph_backward(gradient) if self.graph else node.raw_backward(gradient)
        if not self.retain:
            node.release()
        if node.hooks is not None:
            results = node.hooks.on_post(results, gradient, self.graph)
        return results


def accumulate(leaf: Tensor, gradient: Any, owned: bool, graph: bool) -> None:
    """Adds to a leaf's `.grad`: in place, unless the sum itself must be differentiable."""
    with _accumulation:
        before = leaf._grad
        if graph:
            leaf._grad = REGISTRY["clone"](gradient) if before is None else REGISTRY["add"](before, gradient)
        elif before is None:
            if not owned or gradient.base is not None or not gradient.flags.writeable:
                gradient = np.array(gradient, copy=True, order="K")
            leaf._grad = wrap(gradient)
        else:
            if before.array.dtype is gradient.dtype and before.array.flags.writeable:
                quiet(np.add, before.array, gradient, before.array)
            else:
                before.array = quiet(np.add, before.array, gradient).astype(before.array.dtype, copy=False)
            before.bump()


def add_arrays(a: Any, b: Any) -> Any:
    return quiet(np.add, a, b, out=...)


def add_tensors(a: Any, b: Any) -> Any:
    return REGISTRY["add"](a, b)


def run(seeds: list[tuple[Any, int, Any]], task: Task) -> None:
    """Runs the sweep with grad mode set as the task needs it."""
    token = modes.enter(grad=task.graph)
    try:
        sweep(seeds, task.apply, add_tensors if task.graph else add_arrays, task.reachable())
    finally:
        modes.leave(token)


def leading_to(roots: list[Any], targets: set[Any]) -> set[Any]:
    """The nodes from which some target can be reached (targets themselves only if another lies behind them)."""
    needed: set[Any] = set()
    state: dict[Any, bool] = {}
    stack: list[tuple[Any, bool]] = [(root, False) for root in roots]
    while stack:
        node, done = stack.pop()
        if done:
            if any(t is not None and (t in targets or t in needed) for t in node.next):
                needed.add(node)
            continue
        if node in state or node._seq == LEAF_SEQUENCE:
            continue
        state[node] = True
        stack.append((node, True))
        stack += [(t, False) for t in node.next if t is not None and t not in state]
    return needed


def seed_for(tensor: Tensor, gradient: Any, position: int, graph: bool) -> Any:
    """The gradient to start from at this output: checked, or ones for a scalar."""
    array = tensor.array
    if gradient is None:
        if array.size != 1:
            raise RuntimeError("grad can be implicitly created only for scalar outputs")
        if array.dtype.kind == "c":
            raise RuntimeError(
                f"grad can be implicitly created only for real scalar outputs but got {tensor.dtype}"
            )
        ones = np.ones(array.shape, array.dtype)
        return wrap(ones) if graph else ones
    if not isinstance(gradient, Tensor):
        raise TypeError(f"gradients can be either Tensors or None, but got {type(gradient).__name__}")
    if gradient.array.shape != array.shape:
        raise RuntimeError(
            f"Mismatch in shape: grad_output[{position}] has a shape of {gradient.shape} and output[{position}] has a shape of "
            f"{tensor.shape}."
        )
    if BY_NUMPY[gradient.array.dtype].is_complex != BY_NUMPY[array.dtype].is_complex:
        raise RuntimeError(
            f"For complex Tensors, both grad_output and output are required to have the same dtype. Mismatch in dtype: "
            f"grad_output[{position}] has a dtype of {gradient.dtype} and output[{position}] has a dtype of {tensor.dtype}."
        )
    if gradient.array.dtype is not array.dtype:
        gradient = REGISTRY["_to_copy"](gradient, tensor.dtype)
    return gradient if graph else gradient.array


def seeds_for(tensors: Sequence[Tensor], gradients: Sequence[Any], graph: bool) -> list[tuple[Any, int, Any]]:
    seeds = []
    for position, (tensor, gradient) in enumerate(zip(tensors, gradients, strict=True)):
        if tensor.origin is not None:
            refresh(tensor)
        if not tensor.tracked:
            raise RuntimeError(f"element {position} of tensors does not require grad and does not have a grad_fn")
        node, slot = gradient_edge(tensor)
        seeds.append((node, slot, seed_for(tensor, gradient, position, graph)))
    return seeds


def backward(
    tensors: Any, grad_tensors: Any = None, retain_graph: bool | None = None, create_graph: bool = False,
    grad_variables: Any = None, inputs: Any = None,
) -> None:  # fmt: skip
    """Sums gradients of the tensors into the `.grad` of the leaves (of `inputs` only, if given)."""
    outputs = (tensors,) if isinstance(tensors, Tensor) else tuple(tensors)
    given = grad_tensors if grad_tensors is not None else grad_variables
    gradients = (None,) * len(outputs) if given is None else (given,) if isinstance(given, Tensor) else tuple(given)
    seeds = seeds_for(outputs, gradients, create_graph)
    task = Task(create_graph if retain_graph is None else retain_graph, create_graph, None, True)
    run(seeds, task)


def grad(
    outputs: Any, inputs: Any, grad_outputs: Any = None, retain_graph: bool | None = None, create_graph: bool = False,
    only_inputs: bool = True, allow_unused: bool | None = None, is_grads_batched: bool = False, materialize_grads: bool = False,
) -> tuple[Any, ...]:  # fmt: skip
    """The gradients of the outputs with respect to the inputs."""
    outs = (outputs,) if isinstance(outputs, Tensor) else tuple(outputs)
    wanted = (inputs,) if isinstance(inputs, Tensor) else tuple(inputs)
    given = (None,) * len(outs) if grad_outputs is None else (grad_outputs,) if isinstance(grad_outputs, Tensor) else grad_outputs
    seeds = seeds_for(outs, tuple(given), create_graph)
    captures: dict[Any, list[tuple[int, int]]] = {}
    for position, tensor in enumerate(wanted):
        if not tensor.tracked:
            raise RuntimeError("One of the differentiated Tensors does not require grad")
        node, slot = gradient_edge(tensor)
        captures.setdefault(node, []).append((slot, position))
    task = Task(create_graph if retain_graph is None else retain_graph, create_graph, captures, False)
    task.needed = leading_to([node for node, _, _ in seeds], set(captures))
    run(seeds, task)
    return tuple(task.wrap(task.captured.get(i)) for i in range(len(wanted)))
