"""Hooks: functions that see, and may replace, gradients on their way through the graph.

Takes user functions, keeps them on nodes and leaves, runs them for the engine. One idea: a node without
hooks carries None, so the engine asks one question; everything else about hooks is here.

# Note [Order of hooks]
For one node, in this order: hooks of the tensors it made (in order of registration), then `retain_grad` of
those tensors, then capture for `autograd.grad`, node pre-hooks, the node itself (for a leaf: accumulation,
then post-accumulate hooks), node hooks.
"""

from __future__ import annotations

import sys
import weakref
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

from weft.core.arrays import namespace
from weft.ops.record import REGISTRY
from weft.tensor.base import Tensor, wrap
from weft.tensor.views import Stop


class HookTable(dict[int, Callable[..., Any]]):
    """Hooks by number, in order of registration; can be referred to weakly."""

    __slots__ = ("__weakref__",)


class RemovableHandle:
    """Takes a hook away again: by `remove()`, or at the end of a `with`."""

    next_id = 0

    def __init__(self, hooks_dict: Any, *, extra_dict: Any = None) -> None:
        self.hooks_dict_ref = weakref.ref(hooks_dict)
        self.id = RemovableHandle.next_id
        RemovableHandle.next_id += 1
        extra = extra_dict if isinstance(extra_dict, list) else [] if extra_dict is None else [extra_dict]
        self.extra_dict_ref = tuple(weakref.ref(table) for table in extra)

    def remove(self) -> None:
        for reference in (self.hooks_dict_ref, *self.extra_dict_ref):
            table = reference()
            if table is not None:
                table.pop(self.id, None)

    def __getstate__(self) -> Any:
        return self.hooks_dict_ref(), self.id, tuple(reference() for reference in self.extra_dict_ref)

    def __setstate__(self, state: Any) -> None:
        table, self.id, *extra = state
        self.hooks_dict_ref = weakref.ref(OrderedDict() if table is None else table)
        tables = extra[0] if extra else ()
        self.extra_dict_ref = tuple(weakref.ref(OrderedDict() if one is None else one) for one in tables)
        RemovableHandle.next_id = max(RemovableHandle.next_id, self.id + 1)

    def __enter__(self) -> RemovableHandle:
        return self

    def __exit__(self, *_error: object) -> None:
        self.remove()


def add_hook(table: Any, hook: Callable[..., Any]) -> RemovableHandle:
    handle = RemovableHandle(table)
    table[handle.id] = hook
    return handle


UNHELD = 2
"""How many references a function sees to a tensor that nobody else has: its own, and that of who counts."""


class Hooks:
    """All hooks of one node (a leaf is the node of its own accumulation)."""

    __slots__ = ("tensors", "retained", "pre", "post", "accumulated", "accumulator", "__weakref__")

    def __init__(self) -> None:
        self.tensors: dict[int, HookTable] = {}  # by output number
        self.retained: dict[int, Any] = {}  # by output number: weak references to tensors with retain_grad
        self.pre: HookTable | None = None
        self.post: HookTable | None = None
        self.accumulated: HookTable | None = None
        self.accumulator: Any = None  # weak reference to a leaf's AccumulateGrad

    def on_tensors(self, node: Any, gradient: Any, task: Any) -> Any:
        """Runs the hooks of the tensors behind this node's outputs, then keeps retained gradients."""
        several, graph = node.outputs is not None, task.tensors
        values = list(gradient) if several else [gradient]
        together = getattr(node, "hooks_without_gradient", True)  # or it is a leaf
        some = together and any(value is not None for value in values)
        for slot, table in list(self.tensors.items()):
            if values[slot] is None and not some and not task.comes_by(node, None if together else slot):
                continue
            given = task.given(values[slot]) if graph else task.shown(values[slot])
            for hook in list(table.values()):
                answer = hook(given)
                given = given if answer is None else checked(hook, given, answer)
                answer = None
            values[slot] = given if graph or given is None else given.array
            if not graph and given is not None and sys.getrefcount(given) > UNHELD:
                task.show(given)
        for slot, reference in list(self.retained.items()):
            tensor = reference()
            if tensor is not None and values[slot] is not None:
                retain(tensor, values[slot], graph)
        return values if several else values[0]

    def on_pre(self, node: Any, gradient: Any, graph: bool) -> Any:
        """Runs node pre-hooks on the tuple of the outputs' gradients."""
        if not self.pre:
            return gradient
        several = node.outputs is not None
        given = wrapped(gradient if several else (gradient,), graph)
        for hook in list(self.pre.values()):
            answer = hook(given)
            if answer is not None:
                given = checked_tuple(hook, given, answer)
        values = unwrapped(given, graph)
        return list(values) if several else values[0]

    def on_post(self, node: Any, results: Any, gradient: Any, graph: bool) -> Any:
        """Runs node hooks on (gradients of the inputs, gradients of the outputs)."""
        if not self.post:
            return results
        inputs = wrapped(results, graph)
        outputs = wrapped(gradient if node.outputs is not None else (gradient,), graph)
        for hook in list(self.post.values()):
            answer = hook(inputs, outputs)
            if answer is not None:
                inputs = checked_tuple(hook, inputs, answer)
        return unwrapped(inputs, graph)

    def on_accumulated(self, leaf: Tensor, _graph: bool) -> None:
        """Runs post-accumulate hooks."""
        if self.accumulated:
            for hook in list(self.accumulated.values()):
                if hook(leaf) is not None:
                    raise RuntimeError("Tensor post accumulate grad hooks should return None.")


def wrapped(values: Any, graph: bool) -> tuple[Any, ...]:
    return tuple(v if v is None or graph else wrap(v) for v in values)


def unwrapped(values: Any, graph: bool) -> tuple[Any, ...]:
    return tuple(v if v is None or graph else v.array for v in values)


def hook_name(hook: Any) -> str:
    return str(getattr(hook, "__name__", None) or hook)


def checked(hook: Any, before: Any, after: Any) -> Any:
    """What a hook returned in place of a gradient must look like that gradient."""
    if after is not None and not isinstance(after, Tensor):
        raise TypeError(f"expected Variable, but hook returned '{type(after).__name__}'")
    if after is None or before is None:
        return after
    if after.array.dtype is not before.array.dtype:
        was, got = f"weft.{before.dtype.scalar_name}Tensor", f"weft.{after.dtype.scalar_name}Tensor"
        raise RuntimeError(f"hook '{hook_name(hook)}' has changed the type of value (was {was} got {got})")
    if after.array.shape != before.array.shape:
        raise RuntimeError(f"hook '{hook_name(hook)}' has changed the size of value")
    return after


def checked_tuple(hook: Any, before: tuple[Any, ...], answer: Any) -> tuple[Any, ...]:
    if not isinstance(answer, tuple):
        raise TypeError(f"expected tuple, but hook returned '{type(answer).__name__}'")
    if len(answer) != len(before):
        raise RuntimeError(
            f"hook '{hook_name(hook)}' has returned an incorrect number of values (got {len(answer)}, but "
            f"expected {len(before)})"
        )
    return tuple(checked(hook, b, a) for b, a in zip(before, answer))


def retain(tensor: Tensor, gradient: Any, graph: bool) -> None:
    """Adds to the `.grad` of a tensor that is no leaf."""
    given = gradient if graph else wrap(namespace(gradient).array(gradient, copy=True, order="C"))
    before = tensor._grad
    if before is not None:
        tensor._grad = REGISTRY["add"](before, given)
    else:
        tensor._grad = REGISTRY["clone"](given) if graph else given


class Retained:
    """Marks a tensor whose gradient is kept; follows it when it is written to and its node changes."""

    __slots__ = ()

    def moved(self, tensor: Tensor, node: Any, index: int) -> None:
        """The tensor's history has moved from this node's output to where it is now."""
        if node is not None and node.hooks is not None:
            node.hooks.retained.pop(index, None)
        if tensor.node is None:
            tensor.hooks = None
            return
        hooks_of(tensor.node).retained[tensor.index] = weakref.ref(tensor)


RETAINED = Retained()


def hooks_of(node: Any) -> Hooks:
    """The node's hooks, made if it has none."""
    hooks = node.hooks
    if not isinstance(hooks, Hooks):
        hooks = node.hooks = Hooks()
    return hooks


def tensor_table(tensor: Tensor) -> HookTable:
    """Where hooks on this tensor's gradient stand: on its node, or on itself."""
    if tensor.node is None or type(tensor.node) is Stop:
        return hooks_of(tensor).tensors.setdefault(0, HookTable())
    return hooks_of(tensor.node).tensors.setdefault(tensor.index, HookTable())
