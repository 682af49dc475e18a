"""Checkpoints in captured code: `weft.utils.checkpoint` with the function as a graph of its own.

Takes calls of `checkpoint`; gives one node that runs the library's own checkpoint on a sub-graph, so that
what the part saves is forgotten and computed again in backward. One idea: a sub-graph is a function like any
other, so nothing of checkpointing is written twice.

# Note [Checkpoints and backward]
    y = checkpoint(block, x, use_reentrant=False)      checkpointed_0 = self.checkpointed_0   (x, w) -> (...,)
    return y                                           checkpointed = checkpointed(checkpointed_0, (x,), (w,))

    y = checkpoint(block, x, use_reentrant=False)      the ops of block
    y.sum().backward()                                 the ops of block once more, and those of its gradients
Where a backward is captured too, the library's checkpoint runs over the fakes as it runs over tensors: the
recomputation is recorded where the engine asks for it. Its nodes are marked, and no pass merges them with
those of the first computation.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, Final

from weft.autograd.checkpoint import (
    StopRecomputation,
    checkpoint,
    noop_context_fn,
    put_random_state,
    random_state,
    set_checkpoint_debug_enabled,
    set_checkpoint_early_stop,
)
from weft.autograd.function_context import Packed as PackedItem
from weft.autograd.function_node import FunctionNode
from weft.autograd.tasks import reachable
from weft.capture.autocasting import _set_autocast
from weft.capture.calls import handles
from weft.capture.gradients import history
from weft.capture.higher_order import TRACKED, append, draws, interpret, result_of
from weft.capture.outcome import Outcome
from weft.capture.values import Args, Callback, Kwargs, has_type
from weft.core import modes
from weft.graph.effects import Effect, effect
from weft.graph.graph import Graph
from weft.graph.node import Node
from weft.ops.sweep import LEAF_SEQUENCE
from weft.tensor.base import Tensor
from weft.tensor.saved import PackedValues
from weft.trace.breaks import Break, NeedCalls

if TYPE_CHECKING:
    from weft.capture.machine import Machine

LATER: Final = "CheckpointFunctionBackward"
OPTIONS: Final = ("use_reentrant", "preserve_rng_state", "determinism_check", "early_stop")


def checkpointed(graph: Any, operands: Args, extra: Args, options: Kwargs) -> Any:
    """`checkpoint` of a graph that takes more operands than are to be kept for it."""
    return checkpoint(lambda *values: graph(*values, *extra), *operands, **options)


# -- handlers ------------------------------------------------------------------------------------------------
@handles(checkpoint)
def checkpoint_(machine: Machine, args: Args, kwargs: Kwargs) -> Any:
    if not args:
        return machine.native(checkpoint, *args, **kwargs)
    function, *given = args
    options: Kwargs = {name: kwargs[name] for name in OPTIONS if name in kwargs}
    named = {name: value for name, value in kwargs.items() if name not in (*OPTIONS, "context_fn", "debug")}
    if kwargs.get("context_fn", noop_context_fn) is not noop_context_fn or kwargs.get("debug", False):
        raise Break("library-callback", seen="checkpoint with context_fn or debug")
    if options.get("use_reentrant") is None:
        raise Break("library-state", seen="checkpoint without use_reentrant, which warns")
    if not has_type(options["use_reentrant"], bool) or options["use_reentrant"] and named:
        return machine.native(checkpoint, *args, **kwargs)  # which raises
    if not modes.grad_enabled():
        return machine.calls.call(function, tuple(given), named)
    if machine.by_ops:
        return machine.native(checkpoint, again(machine, function), *given, **named, **options)
    return as_node(machine, function, tuple(given), named, options)


@handles(set_checkpoint_debug_enabled, set_checkpoint_early_stop)
def change_defaults(machine: Machine, args: Args, kwargs: Kwargs) -> Any:
    raise Break("library-state", seen="defaults of checkpoint")


def again(machine: Machine, function: Any) -> Any:
    """The function in a form that the library may call, whenever it wants it computed again."""

    def call(given: Any, args: Args, kwargs: Kwargs) -> Any:
        try:
            return machine.calls.call(given, args, kwargs)
        finally:
            left = machine.recorder.waiting  # there may be no op left to stop after
            left[:] = [
                each
                for each in left
                if not has_type(each, StopRecomputation) or each.part.function is not entry
            ]

    entry = Callback(function, call)
    return entry


def check_spent(outcome: Outcome, outputs: list[Node]) -> None:
    """Breaks where a tensor leaves captured code with a history that holds packed tensors (or one from
    outside has got one, by a write), or hooks stay on: they are the interpreter's own.
    """
    if outcome.world.saving:
        raise NeedCalls("autograd-inside", seen="saved_tensors_hooks that are still active at the end")
    values = [node.meta.get("val") for node in outputs]
    values += [known.value for known in outcome.world.known.values()]
    roots = [history(value) for value in values if has_type(value, Tensor)]
    for node in reachable([root for root in roots if root is not None]):
        packed = node._seq != LEAF_SEQUENCE and type(node.saved) is PackedValues and node.saved.values
        if has_type(node, FunctionNode):
            packed = any(type(item) is PackedItem for item in node.ctx._items or ())
        if packed or (type(node).__name__ == LATER and node.ctx._items is not None):
            raise NeedCalls("autograd-inside", seen="a checkpoint whose backward runs outside")


def drop_idle_states(graph: Graph) -> None:
    """Leaves out the random state around recomputations that draw nothing: each of its nodes would stand
    between what could be compiled together.
    """
    nodes = list(graph.nodes)
    draws = [place for place, node in enumerate(nodes) if node.target not in STATES and may_draw(node)]
    places = {node: place for place, node in enumerate(nodes)}
    for before in [node for node in nodes if node.target is random_state]:
        back = [user for user in before.users if user.target is put_random_state]
        if len(back) != 1 or len(before.users) != 1:
            continue
        begin, end = places[before] + 1, places[back[0]]
        if nodes[begin].target is put_random_state and not any(begin < place < end for place in draws):
            for node in (back[0], nodes[begin], before):
                graph.erase_node(node)
    for node in [node for node in graph.nodes if node.target is random_state and not node.users]:
        graph.erase_node(node)


def may_draw(node: Node) -> bool:
    """Whether a node may draw random numbers. Methods of tensors that do are ops, and known to."""
    facts = effect(node)
    return facts.random or (facts.unknown and node.op == "call_function" and not is_switch(node))


def is_switch(node: Node) -> bool:
    return str(getattr(node.target, "__name__", "")).startswith("_set_")


STATES: Final = (random_state, put_random_state)


# -- as a node -----------------------------------------------------------------------------------------------
def as_node(machine: Machine, function: Any, args: Args, named: Kwargs, options: Kwargs) -> Any:
    reentrant = options["use_reentrant"]
    operands = [value for value in (*args, *named.values()) if has_type(value, Tensor)]
    whole = functools.partial(function, **named) if named else function
    machine.recorder.follow_modes()
    with modes.within(grad=not reentrant), machine.recorder.unswitched():
        body = interpret(machine, whole, args, operands, may_write=True)
    results = body.tensors()
    if any(node.target is _set_autocast for node in body.graph.nodes):
        raise Break("mode-change", seen="autocast around code that is differentiated later")
    if reentrant:
        inside = {id(value) for value in (*operands, *body.lifted)}
        if any(id(leaf) in inside or leaf.origin is not None for leaf in results):
            raise Break(
                "higher-order-operands", seen="a checkpointed function that returns one of its arguments"
            )
        results = [result_of(TRACKED, leaf, leaf, leaf.array.shape, operands) for leaf in results]
    writes = tuple([machine.recorder.node(tensor) for tensor in body.written])
    parts = [("checkpointed_0", body.graph), tuple(operands), tuple(body.lifted), options]
    facts = Effect(random=draws(body.graph.nodes), writes=writes)
    return body.whole(append(machine, checkpointed, "checkpointed", parts, results, facts))
