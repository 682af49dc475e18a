"""Hooks: functions that see, and may replace, gradients on their way through the graph.

Takes user functions, keeps them on nodes and leaves, runs them for the engine. One idea: a node without
hooks carries None, so the engine asks one question; everything else about hooks is here, one `HookKind` for
each kind. The engine, captured code and compiled autograd go over the kinds.

# Note [Order of hooks]
For one node, in this order: hooks of the tensors it made (in order of registration), then `retain_grad` of
those tensors (`ARRIVED`), then capture for `autograd.grad`, node pre-hooks (`BEFORE`), the node itself (for a
leaf: accumulation, then post-accumulate hooks, `ACCUMULATED`), node hooks (`AFTER`).
"""

from __future__ import annotations

import sys
import weakref
from collections import OrderedDict
from collections.abc import Callable, MutableMapping
from functools import partial
from typing import Any, Final, Protocol, TypeVar

from weft.core.arrays import namespace
from weft.core.once import lock
from weft.ops.record import REGISTRY
from weft.tensor.base import Tensor, wrap
from weft.tensor.tape import Node
from weft.tensor.views import Stop, refresh

Hook = Callable[..., Any]


class Sweep(Protocol):
    """What hooks ask of the backward that runs them."""

    @property
    def tensors(self) -> bool:
        """Whether gradients are tensors, and not arrays."""

    def given(self, value: Any) -> Any: ...
    def shown(self, value: Any) -> Any: ...
    def show(self, tensor: Tensor) -> None: ...
    def is_told(self, node: Node, slot: int, gradient: Any) -> bool: ...


class HookTable(dict[int, Any]):
    """Hooks by number, in order of registration; can be referred to weakly."""

    __slots__ = ("__weakref__",)


Tables = dict[int, HookTable]
"""The hooks of one kind that a node has, by output number."""


class RemovableHandle:
    """Removes a hook: by `remove()`, or at the end of a `with`."""

    next_id = 0

    def __init__(self, hooks_dict: MutableMapping[int, Any], *, extra_dict: Any = None) -> None:
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

    def __setstate__(self, state: tuple[Any, ...]) -> None:
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


class HookKind:
    """A kind of hooks: who has them, what they are called with, what they may answer.

    When they run is said by the moment below in which the kind stands.
    """

    name: str
    """Where its tables stand in `Hooks.tables`."""
    of: str = "tensor"
    """What is hooked: a "tensor", a "leaf", or a "node"."""
    method: str
    """The method of `Tensor`, or of `Node`, that registers."""
    compiled: str
    """The function that graphs of compiled autograd call for one: see `weft.autograd.compiled_calls`."""
    several = False
    """Whether it takes and answers tuples, and may leave gradients out of them."""
    gets_gradients = True
    """Whether what it is called with are gradients: each a tensor of its own, and a view of nothing. A kind
    that is called with something else answers nothing."""
    of_users = True
    """Whether its hooks are functions of the user's."""

    def place(self, owner: Any) -> tuple[Any, int]:
        """The node and the output number with which hooks on a tensor or a node stand; raises where there
        can be none."""
        if self.of == "node":
            return owner, 0
        if owner.origin is not None:
            refresh(owner)
        if not owner.tracked:
            raise RuntimeError("cannot register a hook on a tensor that doesn't require gradient")
        if owner.node is None or (self.of == "tensor" and type(owner.node) is Stop):
            return owner, 0
        if self.of == "leaf":
            raise RuntimeError(f"{self.name} cannot be registered on non-leaf tensors")
        return owner.node, owner.index

    def add(self, owner: Any, hook: Callable[..., Any]) -> RemovableHandle:
        node, slot = self.place(owner)
        return add_hook(hooks_of(node).table(self, slot), hook)

    def run(self, tables: Tables, node: Node, value: Any, task: Sweep, *seen: object) -> Any:
        """Runs the hooks of a node on the value that is there at their moment; gives what takes its place."""
        raise NotImplementedError

    def held(self, hook: Hook) -> Any:
        """What graphs are given for a hook; None where it has nothing to do any more."""
        return hook

    def answered(self, hook: Hook, before: Any, answer: object) -> Any:
        """What takes the place of `before`, which the hook was called with; raises where it cannot."""
        raise NotImplementedError


class TensorHooks(HookKind):
    """Called with the gradient of a tensor; may answer with another."""

    name, method, compiled = "tensor hooks", "register_hook", "call_hook"

    def run(self, tables: Tables, node: Node, gradient: Any, task: Sweep, *seen: object) -> Any:
        several, graph = node.outputs is not None, task.tensors
        values = list(gradient) if several else [gradient]
        for slot, table in list(tables.items()):
            if values[slot] is None and not task.is_told(node, slot, gradient):
                continue
            given = task.given(values[slot]) if graph else task.shown(values[slot])
            for hook in list(table.values()):
                answer = hook(given)
                given = given if answer is None else checked(hook, given, answer)
                answer = None
            values[slot] = given if graph or given is None else given.array
            if not graph and given is not None and sys.getrefcount(given) > UNHELD:
                task.show(given)
        return values if several else values[0]

    def answered(self, hook: Hook, before: Any, answer: object) -> Any:
        return before if answer is None else checked(hook, before, answer)


class RetainedGradients(HookKind):
    """`retain_grad`: our own hooks, which keep the gradient of a tensor."""

    name, method, compiled, of_users = "retained gradients", "retain_grad", "retain_grad", False

    def run(self, tables: Tables, node: Node, gradient: Any, task: Sweep, *seen: object) -> Any:
        for slot, table in list(tables.items()):
            value = gradient if node.outputs is None else gradient[slot]
            if value is not None:
                for hook in list(table.values()):
                    hook(value)
        return gradient

    def held(self, hook: Any) -> Any:
        return hook.args[0]()

    def keep(self, tensor: Tensor) -> None:
        hooks_of(tensor.node).table(self, tensor.index)[0] = partial(retain, weakref.ref(tensor))


class TupleHooks(HookKind):
    """Of nodes: called with tuples of gradients; may answer with another in place of the first one."""

    of, several = "node", True

    def ask(self, tables: Tables, values: Any, task: Sweep, *seen: object) -> tuple[Any, ...]:
        graph = task.tensors
        given, rest = wrapped(values, graph), [wrapped(group, graph) for group in seen]
        for hook in list(tables[0].values()):
            answer = hook(given, *rest)
            if answer is not None:
                given = self.answered(hook, given, answer)
        return tuple([v if v is None or graph else v.array for v in given])

    def answered(self, hook: Hook, before: tuple[Any, ...], answer: object) -> tuple[Any, ...]:
        if answer is None:
            return before
        if not isinstance(answer, tuple):
            raise TypeError(f"expected tuple, but hook returned '{type(answer).__name__}'")
        if len(answer) != len(before):
            raise RuntimeError(
                f"hook '{hook_name(hook)}' has returned an incorrect number of values (got {len(answer)}, "
                f"but expected {len(before)})"
            )
        return tuple([checked(hook, b, a) for b, a in zip(before, answer)])


class NodePreHooks(TupleHooks):
    """Called with the gradients of a node's outputs."""

    name, method, compiled = "node pre-hooks", "register_prehook", "call_pre_hook"

    def run(self, tables: Tables, node: Node, gradient: Any, task: Sweep, *seen: object) -> Any:
        if node.outputs is None:
            return self.ask(tables, (gradient,), task)[0]
        return list(self.ask(tables, gradient, task))


class NodeHooks(TupleHooks):
    """Called with the gradients of a node's inputs, and those of its outputs."""

    name, method, compiled = "node hooks", "register_hook", "call_post_hook"

    def run(self, tables: Tables, node: Node, results: Any, task: Sweep, *seen: object) -> Any:
        return self.ask(tables, results, task, seen if node.outputs is None else seen[0])


class PostAccumulateHooks(HookKind):
    """Called with a leaf; answer nothing."""

    name, of, gets_gradients = "post accumulate grad hooks", "leaf", False
    method, compiled = "register_post_accumulate_grad_hook", "call_post_accumulate_hook"

    def run(self, tables: Tables, node: Node, leaf: Any, task: Sweep, *seen: object) -> Any:
        for hook in list(tables[0].values()):
            answer = hook(leaf)
            if answer is not None:
                self.answered(hook, leaf, answer)
        return leaf

    def answered(self, hook: Hook, before: Any, answer: object) -> None:
        if answer is not None:
            raise RuntimeError(f"Tensor {self.name} should return None.")


TENSOR, RETAINING = TensorHooks(), RetainedGradients()
PRE, POST, POST_ACCUMULATE = NodePreHooks(), NodeHooks(), PostAccumulateHooks()
Moment = tuple[HookKind, ...]
ARRIVED: Final[Moment] = (TENSOR, RETAINING)
BEFORE: Final[Moment] = (PRE,)
AFTER: Final[Moment] = (POST,)
ACCUMULATED: Final[Moment] = (POST_ACCUMULATE,)
KINDS: Final[Moment] = (*ARRIVED, *BEFORE, *AFTER, *ACCUMULATED)
"""All kinds, in the order in which graphs of compiled autograd number the hooks of a node."""


class Hooks:
    """All hooks of one node (a leaf is the node of its own accumulation)."""

    __slots__ = ("tables", "accumulator", "__weakref__")

    def __init__(self) -> None:
        self.tables: dict[str, Tables] = {}  # by the name of the kind
        self.accumulator: Any = None  # weak reference to a leaf's AccumulateGrad

    def table(self, kind: HookKind, slot: int = 0) -> HookTable:
        """The hooks of one kind on an output (of the node itself: 0), made if there were none."""
        made = {slot: HookTable()}  # whole: another thread may run what is there
        return self.tables.setdefault(kind.name, made).setdefault(slot, HookTable())

    def run(self, moment: Moment, node: Node, value: Any, task: Sweep, *seen: object) -> Any:
        """Runs the hooks of the kinds of a moment, each on what those before leave."""
        tables = self.tables
        for kind in moment:
            if kind.name in tables:
                value = kind.run(tables[kind.name], node, value, task, *seen)
        return value


def standing(hooks: object) -> list[tuple[HookKind, int, HookTable, int]]:
    """The hooks of a node that would do something: kind, output number, table, and number in it."""
    found: list[tuple[HookKind, int, HookTable, int]] = []
    if type(hooks) is Hooks:
        for kind in KINDS:
            for slot, table in list(hooks.tables.get(kind.name, {}).items()):
                for number, hook in list(table.items()):
                    if kind.of_users or kind.held(hook) is not None:
                        found.append((kind, slot, table, number))
    return found


def wrapped(values: Any, graph: bool) -> tuple[Any, ...]:
    return tuple([v if v is None or graph else wrap(v) for v in values])


def hook_name(hook: Callable[..., Any]) -> str:
    return str(getattr(hook, "__name__", None) or hook)


def checked(hook: Callable[..., Any], before: Any, after: object) -> Any:
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


def retain(reference: Callable[[], Tensor | None], gradient: Any) -> None:
    """Adds to the `.grad` of a tensor that is no leaf, if it is still there."""
    tensor = reference()
    if tensor is None:
        return
    graph = isinstance(gradient, Tensor)
    given = gradient if graph else wrap(namespace(gradient).array(gradient, copy=True, order="C"))
    before = tensor._grad
    if before is not None:
        tensor._grad = REGISTRY["add"](before, given)
    else:
        tensor._grad = REGISTRY["clone"](given) if graph else given


class Retained:
    """Marks a tensor whose gradient is kept; follows it when it is written to and its node changes."""

    __slots__ = ()

    def moved(self, tensor: Tensor, node: Node, index: int) -> None:
        """The tensor's history has moved from this node's output to where it is now."""
        if node is not None and node.hooks is not None:
            node.hooks.tables.get(RETAINING.name, {}).pop(index, None)
        if tensor.node is None:
            tensor.hooks = None
            return
        RETAINING.keep(tensor)


RETAINED = Retained()


_first: Final = lock()


def hooks_of(node: Any) -> Hooks:
    """The node's hooks, made if it has none."""
    hooks = node.hooks
    if not isinstance(hooks, Hooks):
        with _first:  # of two threads' hooks, one would be lost
            made, before = Hooks(), node.hooks
            if not isinstance(before, Hooks) and node.hooks is before:  # nor has a handler made some
                node.hooks = made
            hooks = node.hooks
    known: Hooks = hooks
    return known


# -- methods that register -----------------------------------------------------------------------------------
Method = TypeVar("Method", bound=Callable[..., Any])


def registers(kind: HookKind) -> Callable[[Method], Method]:
    """Decorator: the function becomes the method that registers hooks of a kind."""

    def attach(function: Method) -> Method:
        setattr(Node if kind.of == "node" else Tensor, kind.method, function)
        return function

    return attach


@registers(TENSOR)
def register_hook(self: Tensor, hook: Callable[[Tensor], Tensor | None]) -> RemovableHandle:
    """Calls `hook(grad)` whenever the gradient of this tensor is known; what it returns replaces the
    gradient."""
    return TENSOR.add(self, hook)


@registers(RETAINING)
def retain_grad(self: Tensor) -> None:
    """Keeps the gradient of this non-leaf in `.grad`."""
    if self.origin is not None:
        refresh(self)
    if not self.tracked:
        raise RuntimeError("can't retain_grad on Tensor that has requires_grad=False")
    if self.node is not None and type(self.node) is not Stop and self.hooks is not RETAINED:
        RETAINING.keep(self)
        self.hooks = RETAINED


@registers(PRE)
def register_node_prehook(self: Node, hook: Callable[..., Any]) -> RemovableHandle:
    """Calls `hook(grad_outputs)` before this node runs; a tuple it returns replaces grad_outputs."""
    return PRE.add(self, hook)


@registers(POST)
def register_node_hook(self: Node, hook: Callable[..., Any]) -> RemovableHandle:
    """Calls `hook(grad_inputs, grad_outputs)` after this node ran; a tuple it returns replaces
    grad_inputs."""
    return POST.add(self, hook)


@registers(POST_ACCUMULATE)
def register_post_accumulate_grad_hook(self: Tensor, hook: Callable[[Tensor], None]) -> RemovableHandle:
    """Calls `hook(tensor)` after backward has added to this leaf's `.grad`."""
    return POST_ACCUMULATE.add(self, hook)
