"""Tasks: runs of the tape backwards on live tensors, as the one sweep of `weft.ops.sweep`.

Takes seeds (node, output number, gradient) and a `Task`; accumulates into leaves' `.grad`, or captures
gradients where asked. With create_graph=False nodes run on raw arrays; with it, on tensors, recorded, by the
same rules. `weft.autograd.engine` has `backward` and `grad`, which users call.

# Note [Whose array is it]
Rules may return an array they were given (the gradient of both inputs of `a + b` is one array), or one that
is referenced elsewhere. A leaf may keep an array as its `.grad` only if nothing else refers to it, which its
reference count tells.

# Note [Nodes that stand for many]
The sweep visits every node behind its roots, and hooks of a tensor are given None where nothing but nodes
without gradients lead to it. One node of a compiled call has edges to all inputs of that call, though the
output that a gradient came to may depend on few of them: eager's sweep would not visit those for which it has
no gradient. So hooks are not called, and custom Functions not run, there. The same for outputs of such a
node: each would have a node of its own.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Collection, Container
from contextvars import copy_context
from time import sleep
from typing import TYPE_CHECKING, Any

import numpy as np

import weft.autograd.anomaly as anomaly
from weft.autograd.hooks import ACCUMULATED, AFTER, ARRIVED, BEFORE
from weft.core import modes
from weft.core.arrays import MODULES, namespace
from weft.core.interrupts import let_through
from weft.core.once import lock
from weft.core.seams import seams
from weft.core.sparse_array import SparseArray
from weft.core.threads import SHORTLY, start
from weft.ops.record import REGISTRY, broadcast_shapes, quiet, run_quietly
from weft.ops.sweep import LEAF_SEQUENCE, sweep
from weft.tensor.base import PLAIN, Tensor, wrap
from weft.tensor.dispatch import refuse_shape
from weft.tensor.meta import MetaArray, faking, recorder_of
from weft.tensor.overrides import has_handler
from weft.tensor.tape import edges_of
from weft.tensor.views import is_dense, refuse_overlap

if TYPE_CHECKING:
    from weft.tensor.tape import Node


AUTOCAST = "autocast"
"""The name of autocast among the modes."""
LEVELS = 50  # nested runs per thread: each takes about ten Python frames of the thousand there are
Seeds = list[tuple[Any, int, Any]]
_accumulation = lock()


class _Local(threading.local):
    """The task that this thread runs now, so that backwards started by hooks and custom Functions know that
    they are nested."""

    task: Task | None = None


local = _Local()


class Task:
    """One run of the engine: what to keep, what to capture, where to accumulate."""

    __slots__ = (
        "retain",
        "graph",
        "tensors",
        "hollow",
        "captures",
        "captured",
        "accumulate",
        "needed",
        "anomaly",
        "roots",
        "reached",
        "without",
        "sources",
        "faces",
        "depth",
        "running",
        "callbacks",
        "leaves",
        "__weakref__",
    )

    def __init__(self, retain: bool, graph: bool) -> None:
        self.retain, self.graph = retain, graph
        mode = modes.current()
        self.hollow = False if type(mode) is bool else faking(mode)
        # gradients are tensors: to be recorded on the tape, or (fakes have no arrays) by a recorder, or shown
        # to who handles calls below autograd
        self.tensors = graph or self.hollow or (type(mode) is not bool and bool(mode.dispatch))
        self.captures: dict[Any, list[tuple[int, int]]] | None = (
            None  # node: (output number, position in the answer)
        )
        self.captured: dict[int, Any] = {}
        self.accumulate = True
        self.needed: Collection[Any] | None = None  # the nodes to run; None for all
        self.anomaly: bool | None = None
        self.roots: list[Any] = []
        self.reached: dict[Any, None] | None = None
        self.without: set[Any] = set()  # nodes that were run, though no gradient had come
        self.sources: dict[Any, list[tuple[Any, int]]] | None = None
        self.faces: dict[int, Tensor] = {}  # by the array's id: what hooks were given and somebody keeps
        self.depth = 0
        self.running: Any = None  # the node whose rules run on tensors now
        self.callbacks: list[Callable[[], Any]] | None = None
        self.leaves: dict[Any, int] | None = None  # how many edges lead to each, where nothing is watched

    def plain(self, node: Node, gradient: object) -> Any:
        """Runs one node of a backward that records, captures and watches nothing."""
        if node.hooks is not None:
            return self.apply(node, gradient)
        if gradient is None:
            return self.undefined(node)
        results = node.raw_backward(gradient)
        if not self.retain:
            node.release()
        return results

    def plain_leaf(self, leaf: Tensor, gradient: object) -> None:
        if leaf.hooks is not None:
            self.apply(leaf, gradient)
        elif gradient is not None:
            accumulate(leaf, gradient, False)

    def apply(self, node: Any, gradient: Any) -> Any:
        """Runs one node: hooks, capture, the gradient rules, hooks. See Note [Order of hooks] in
        `weft.autograd.hooks`."""
        hooks = node.hooks
        needed = self.needed is None or node in self.needed
        if gradient is None and node.outputs is not None:
            gradient = [None] * len(node.outputs)
        given = gradient
        if hooks is not None:
            given = hooks.run(ARRIVED, node, gradient, self)
        if self.captures is not None and node in self.captures:
            seen = gradient if needed else given
            for slot, position in self.captures[node]:
                self.captured[position] = seen[slot] if node.outputs is not None else seen
        if not needed:
            return None
        gradient = seen = None
        if hooks is not None:
            given = hooks.run(BEFORE, node, given, self)
        if node._seq == LEAF_SEQUENCE:
            self.at_leaf(node, given)
            results: Any = ()
        elif given is None or (node.outputs is not None and not any(value is not None for value in given)):
            results = self.undefined(node)
        elif self.anomaly is None:
            results = self.rules(node, given) if self.tensors else node.raw_backward(given)
        else:
            results = anomaly.watched(node, given, self.tensors, self.anomaly)
        if not self.retain and node._seq != LEAF_SEQUENCE and node not in self.without:
            node.release()
        if hooks is not None:
            results = hooks.run(AFTER, node, results, self, given)
        return results or None

    def shown(self, gradient: object) -> Any:
        """The tensor that users see for an array: the one that they have, if they do."""
        if gradient is None:
            return None
        known = self.faces.get(id(gradient))
        if type(gradient) is SparseArray:
            return gradient.tensor()
        return wrap(gradient) if known is None or known.array is not gradient else known

    def given(self, gradient: Any) -> Any:
        """The same for a tensor: where it stands for an array, it is no view, whatever that is."""
        if self.graph or gradient is None or gradient.origin is None or type(gradient) not in PLAIN:
            return gradient
        return gradient.data

    def show(self, tensor: Tensor) -> None:
        self.faces[id(tensor.array)] = tensor

    def rules(self, node: Node, given: object) -> Any:
        """The gradient rules of a node on tensors. Where these only stand for arrays, no autocast sees what
        the rules of an op do.
        """
        self.running = node
        state = modes.state.get()
        if self.graph or type(state) is bool or getattr(node, "op", None) is None:
            return node.graph_backward(given)
        extra = tuple([pair for pair in state.extra if pair[0] != AUTOCAST])
        if len(extra) == len(state.extra):
            return node.graph_backward(given)
        token = modes.enter(extra=extra)
        try:
            return node.graph_backward(given)
        finally:
            modes.leave(token)

    def at_leaf(self, leaf: Tensor, gradient: Any) -> None:
        if self.accumulate and gradient is not None and leaf.tracked:
            recorder = recorder_of(modes.current()) if self.tensors else None
            if recorder is None or recorder.host.accumulate(leaf, gradient, self.graph) is NotImplemented:
                if self.tensors and not self.graph and not self.hollow:
                    accumulate_offered(leaf, gradient)
                else:
                    accumulate(leaf, gradient, self.tensors, 1)
            if leaf.hooks is not None:
                leaf.hooks.run(ACCUMULATED, leaf, leaf, self)

    def undefined(self, node: Node) -> Any:
        """No gradient reached the node: none leaves it, unless it wants to be asked."""
        self.without.add(node)
        results: Any = (None,) * len(node.next)
        if self.comes_by(node, None):
            if node.runs_without_gradient:
                given = None if node.outputs is None else [None] * len(node.outputs)
                results = node.graph_backward(given) if self.tensors else node.raw_backward(given)
            if not self.retain:
                node.release()
        return results

    def is_told(self, node: Any, slot: int, gradient: Any) -> bool:
        """Whether hooks of an output that no gradient came to are called, with None. See Note [Nodes that
        stand for many]."""
        together = getattr(node, "hooks_without_gradient", True)  # or it is a leaf
        if together and node.outputs is not None and any(value is not None for value in gradient):
            return True
        return self.comes_by(node, None if together else slot)

    def comes_by(self, node: Any, slot: int | None) -> bool:
        """Whether the sweep visits output `slot` of `node` with an undefined gradient (`None`: any output).
        See Note [Nodes that stand for many].
        """
        if self.sources is None:
            self.sources = sources_of(self.roots)
        if not self.sources:
            return True
        stack = [(node, slot)]
        seen: set[Any] = set()
        while stack:
            target, wanted = stack.pop()
            for source, place in self.sources.get(target, ()):
                handed = source.hooks_without_gradient and (wanted is None or place == wanted)
                if not handed or source in seen or not (self.needed is None or source in self.needed):
                    continue
                if source not in self.without:
                    return True
                seen.add(source)
                stack.append((source, None))
        return False

    def will_run(self, node: Any) -> bool:
        """Whether the sweep visits the node: runs it, or captures its gradient."""
        if self.needed is not None:
            return node in self.needed or bool(self.captures and node in self.captures)
        if self.reached is None:
            self.reached = reachable(self.roots)
        return node in self.reached


def accumulate(leaf: Tensor, gradient: Any, graph: bool, held: int = 0) -> None:
    """Adds to a leaf's `.grad`: in place, unless the sum itself must be differentiable. See Note [Whose
    array is it]."""
    if not leaf.tracked:  # it has been told not to require grad since
        return
    if leaf.node is not None:
        raise RuntimeError("leaf variable has been moved into the graph interior")
    if graph:
        accumulate_recorded(leaf, gradient)
        return
    with _accumulation:
        if leaf._grad is None:
            layout = leaf.array
            if (
                sys.getrefcount(gradient) > _unshared + held
                or gradient.base is not None
                or gradient.strides != layout.strides
                or not gradient.flags.writeable
                or not is_dense(gradient)  # of compiled code: expanded, as the leaf is
            ):
                if type(gradient) is SparseArray:
                    leaf._grad = gradient.tensor().clone()
                    return
                gradient = copy_in_layout(gradient, layout)
            made = wrap(gradient)
            if leaf._grad is None:  # still: a handler of signals may have run a backward of its own
                leaf._grad = made
                return
        before = leaf._grad
        into: Any = before.array
        if type(into) is SparseArray or type(gradient) is SparseArray:
            accumulate_sparse(leaf, before, gradient)
            return
        refuse_overlap(into)
        if gradient.shape != into.shape:
            check_shape(gradient, into.shape)
        if into.dtype is gradient.dtype and into.flags.writeable:
            add = MODULES[type(into)].add
            try:
                run_quietly(add, into, gradient, into)
            except RuntimeError as error:  # another thread has the quiet context
                let_through(error)
                quiet(add, into, gradient, into)
        else:
            before.array = quiet(namespace(into).add, into, gradient).astype(into.dtype, copy=False)
        before.bump()


def accumulate_sparse(leaf: Tensor, before: Tensor, gradient: Any) -> None:
    """Adds where one of the two is sparse: in place, unless the sum is dense and what was there is not."""
    with modes.within(grad=False):
        if type(gradient) is SparseArray:
            before.add_(gradient.tensor())
        else:
            leaf._grad = wrap(gradient) + before


def copy_in_layout(gradient: Any, layout: Any) -> Any:
    """A copy with the strides of the leaf's array if that is dense, else row by row."""
    xp = MODULES[type(gradient)]
    copy = xp.empty_like(layout, gradient.dtype, order="C" if layout.flags.c_contiguous else "K")
    if copy.strides != layout.strides:
        copy = xp.empty(layout.shape, gradient.dtype)
    if gradient.shape != copy.shape:
        check_shape(gradient, copy.shape)
    copy[...] = gradient
    return copy


def check_shape(gradient: Any, shape: tuple[int, ...]) -> None:
    """Refuses a gradient for another shape: that of a leaf may have changed by its `data` since."""
    both = broadcast_shapes(shape, gradient.shape)
    if both != shape:
        refuse_shape(shape, both)


def accumulate_offered(leaf: Tensor, gradient: Tensor) -> None:
    """Adds a tensor to a leaf's `.grad` by ops that are not recorded: as `accumulate`, in place."""
    if leaf.node is not None:
        raise RuntimeError("leaf variable has been moved into the graph interior")
    if leaf._grad is not None and not has_handler(leaf._grad) and not has_handler(gradient):
        before = leaf._grad
        if gradient.array.shape != before.array.shape:
            check_shape(gradient.array, before.array.shape)
        before.add_(gradient)
    else:
        accumulate_recorded(leaf, gradient)


def accumulate_recorded(leaf: Tensor, gradient: Tensor) -> None:
    """Gives the leaf a new `.grad` that can itself be differentiated. Ops may run user code, so no lock is
    held meanwhile."""
    before = leaf._grad
    if before is not None:
        leaf._grad = REGISTRY["add"](before, gradient)
        return
    array = leaf.array
    given: Any = gradient.array
    sparse = type(given) is SparseArray
    if sparse or type(array) is MetaArray or gradient.array.strides == array.strides or not is_dense(array):
        made = REGISTRY["clone"](gradient)
        if not sparse and type(made.array) is not MetaArray and made.array.strides != array.strides:
            made.array = copy_in_layout(made.array, array)
    else:
        made = REGISTRY["new_empty_strided"](gradient, leaf.shape, leaf.stride())
        made.copy_(gradient)
    leaf._grad = made


def add_arrays(a: object, b: object) -> Any:
    add = MODULES[type(a)].add
    try:
        return run_quietly(add, a, b, out=...)
    except RuntimeError as error:  # another thread has the quiet context
        let_through(error)
        return quiet(add, a, b, out=...)


def add_tensors(a: object, b: object) -> Any:
    return REGISTRY["add"](a, b)


def run(seeds: Seeds, task: Task) -> None:
    """Runs the sweep in the grad mode that the task needs; far down in nested runs, in a thread with a fresh
    stack."""
    if seams.backward is not None and seams.backward(seeds, task):
        return
    outer = local.task
    if outer is not None:
        task.depth = outer.depth + 1
        if task.depth % LEVELS == 0:
            _elsewhere(seeds, task)
            return
    _run(seeds, task)


def _run(seeds: Seeds, task: Task) -> None:
    value, outer = modes.state.get(), local.task
    if type(value) is not bool:
        task.anomaly = value.anomaly
    plain = task.captures is None and task.needed is None and task.anomaly is None and not task.tensors
    task.roots = [seed[0] for seed in seeds]
    wanted = None if task.needed is None else {*task.needed, *(task.captures or ())}
    try:
        if type(value) is not bool:
            modes.enter(grad=task.graph)
        elif value is not task.graph:
            modes.state.set(task.graph)
        local.task = task
        if plain:
            if all(root._seq != LEAF_SEQUENCE for root in task.roots):
                task.leaves = {}
            sweep(seeds, task.plain, task.plain_leaf, add_arrays, None, task.leaves)
        else:
            sweep(seeds, task.apply, task.apply, add_tensors if task.tensors else add_arrays, wanted)
        if task.callbacks is not None:
            for callback in task.callbacks:
                callback()
    finally:
        local.task = outer
        modes.state.set(value)


def _elsewhere(seeds: Seeds, task: Task) -> None:
    """Runs a task in a thread of its own and waits for it; an interrupt meanwhile goes on when it is done, as
    gradients would change under whoever catches it.
    """
    failure: list[BaseException] = []

    def work() -> None:
        try:
            _run(seeds, task)
        except BaseException as error:
            failure.append(error)

    context = copy_context()
    thread = threading.Thread(target=context.run, args=(work,), name="weft nested backward")
    try:
        start(thread)
        thread.join()
    except BaseException:
        while thread.is_alive():
            sleep(SHORTLY)
        raise
    if failure:
        raise failure[0]


def queue_callback(callback: Callable[[], Any]) -> None:
    """Calls `callback()` when the backward that now runs has done its work."""
    task = local.task
    if task is None:
        raise RuntimeError("Final callbacks can only be installed during backward pass.")
    if task.callbacks is None:
        task.callbacks = []
    task.callbacks.append(callback)


def reachable(roots: list[Any]) -> dict[Any, None]:
    """Every node and leaf behind the roots, in an order that depends on nothing else."""
    seen: dict[Any, None] = dict.fromkeys(roots)
    stack = list(roots)
    while stack:
        node = stack.pop()
        if node._seq != LEAF_SEQUENCE:
            for target in node.next:
                if target is not None and target not in seen:
                    seen[target] = None
                    stack.append(target)
    return seen


def sources_of(roots: list[Any]) -> dict[Any, list[tuple[Any, int]]]:
    """For each node and leaf behind the roots, the nodes with edges to it, and to which output; nothing where
    no node stands for many."""
    found: dict[Any, list[tuple[Any, int]]] = {}
    nodes = [node for node in reachable(roots) if node._seq != LEAF_SEQUENCE]
    if all(node.hooks_without_gradient for node in nodes):
        return found
    for node in nodes:
        for target, place in edges_of(node):
            if target is not None:
                found.setdefault(target, []).append((node, place))
    return found


def leading_to(roots: list[Any], targets: Container[Any]) -> set[Any]:
    """The nodes from which some target can be reached (targets themselves only if another lies behind
    them)."""
    needed: set[Any] = set()
    opened: set[Any] = set()
    stack: list[tuple[Any, bool]] = [(root, False) for root in roots]
    while stack:
        node, done = stack.pop()
        if done:
            if any(t is not None and (t in targets or t in needed) for t in node.next):
                needed.add(node)
        elif node not in opened and node._seq != LEAF_SEQUENCE:
            opened.add(node)
            stack.append((node, True))
            stack += [(t, False) for t in node.next if t is not None and t not in opened]
    return needed


class _Probe:
    """A node whose rule makes a new array, to see the reference count of a gradient that nothing else refers
    to."""

    _seq, slots, outputs, hooks = 0, None, None, None
    runs_without_gradient = False

    def __init__(self, leaf: Tensor) -> None:
        self.next = (leaf,)
        self.made = 0

    def raw_backward(self, _gradient: object) -> Any:
        array = np.ones(1)
        self.made = id(array)
        return (array,)

    def release(self) -> None:
        pass


_unshared = 0


def _calibrate() -> int:
    """The smallest count with which a fresh gradient is kept: it differs between interpreters."""
    global _unshared
    for _unshared in range(1, 10):
        leaf = wrap(np.zeros(1), True)
        probe = _Probe(leaf)
        task = Task(False, False)
        sweep([(probe, 0, np.ones(1))], task.plain, task.plain_leaf, add_arrays)
        if id(leaf._grad.array) == probe.made:
            return _unshared
    return 0


_unshared = _calibrate()
