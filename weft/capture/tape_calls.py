"""Graphs of compiled autograd in captured code: the hooks, leaves and custom backwards that they call.

Takes calls of the functions in `weft.autograd.compiled_calls`; the user's code behind them becomes part of
the program, and accumulations become effects on `.grad`. One idea: the graph is an ordinary function in
eager's order, so the effects of hooks are ordinary captured effects.

# Note [Where an accumulation stands]
    result = call_hook(hooks[0], grad)       new_grad = clone(grad)           as soon as its argument is there
    accumulate_grad(x, result)               result = ...
    accumulate_grad(y, grad)                 new_grad_1 = clone(result)
                                             x.grad = new_grad_1; y.grad = new_grad    in eager's order
A copy of a gradient is moved right behind the gradient, where nothing in between writes: so the gradient
itself can be freed early. Copies are named, and given by the graph, in the order in which they stand there.

# Note [Lists as inputs]
The list that holds the tensors of a tape is one input of the graph, of which it takes items: a tape has
hundreds, and whoever calls the graph may empty the list once they are taken.
"""

from __future__ import annotations

import operator
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from weft.autograd import compiled_calls as calls
from weft.autograd.compiled_calls import Unexpected, pattern
from weft.autograd.function_node import FunctionNode, missing_backward
from weft.autograd.hooks import KINDS, HookKind
from weft.capture.calls import handles
from weft.capture.grads import read_grad, write_grad
from weft.capture.outcome import GraphInput
from weft.capture.values import Args, Kwargs, has_type
from weft.capture.world import Known
from weft.core.types import contiguous_format
from weft.graph.effects import effect
from weft.graph.node import Node
from weft.ops.record import REGISTRY
from weft.tensor.backward import finish
from weft.tensor.base import PLAIN, Tensor, storage_root
from weft.tensor.saved import Item
from weft.trace.breaks import Break
from weft.trace.recorder import version

if TYPE_CHECKING:
    from weft.capture.machine import Machine

COPY: Final = "accumulation"
"""Marks, in a node's meta, the copy of a gradient that becomes a `.grad`."""
WHOLE_LISTS: Final = "whole_lists"
"""Names, in a function's `__dict__`, the parameters that are lists of tensors: see Note [Lists as inputs]."""


# -- hooks ---------------------------------------------------------------------------------------------------
def call_hook(kind: HookKind, machine: Machine, args: Args, kwargs: Kwargs) -> Any:
    hook, *given = args
    number, expected = (given.pop(0), given.pop(0)) if kind.several else (0, None)
    shown = [own(machine, value) for value in given] if kind.gets_gradients else given
    last = machine.graph._root._prev
    answer = machine.calls.call(hook, tuple(shown), {})
    values = machine.native(kind.answered, hook, given[0], answer)
    if kind.several and pattern(values) != expected:
        raise Unexpected(number, pattern(values))
    if answer is not None:
        rename(machine, values, "result", last)
    return machine.world.keep(values)


for _kind in KINDS:
    if _kind.of_users:
        handles(calls.HOOK_CALLS[_kind])(partial(call_hook, _kind))


def own(machine: Machine, gradient: Any) -> Any:
    """A gradient, or a tuple of them, as a hook gets it: new tensors that are no views."""
    if has_type(gradient, tuple):
        return machine.world.keep(tuple([own(machine, value) for value in gradient]))
    if gradient is None:
        return None
    handed = machine.handed
    if gradient.origin is not None or id(gradient) in handed:
        gradient = machine.native(gradient.detach)
    handed.add(id(machine.world.keep(gradient)))
    return gradient


def rename(machine: Machine, value: Any, name: str, last: Node) -> None:
    """Names the node of a tensor that was made since `last` was the last one."""
    if not has_type(value, Tensor) or not machine.recorder.knows(value):
        return
    node = machine.recorder.node(value)
    since = node
    while since.op != "root" and since is not last:
        since = since._prev
    if since is last and node is not last and node.graph is machine.graph:
        node.graph._names.used.discard(node.name)
        node.name = node.graph._names.create(name)


# -- leaves --------------------------------------------------------------------------------------------------
@handles(calls.accumulate_grad)
def accumulate_grad(machine: Machine, args: Args, kwargs: Kwargs) -> None:
    leaf, gradient = args
    if not leaf.tracked:
        return
    before = read_grad(machine, leaf)
    if before is None:
        write_grad(machine, leaf, copied(machine, leaf, gradient))
    else:
        machine.native(machine.recorder.call_method, "add_", (before, gradient))


def copied(machine: Machine, leaf: Any, gradient: Any) -> Any:
    """A copy of a gradient, laid out as the leaf."""
    mine, given = leaf.array, gradient.array
    layout: Kwargs = {}
    if not (given.exact and mine.strides == given.strides):
        order = dense_order(mine)
        if order is not None:
            return machine.native(permuted_copy, gradient, order)
        layout = {"memory_format": contiguous_format}
    copy = machine.native(REGISTRY["clone"], gradient, **layout)
    node, source = machine.recorder.node(copy), machine.recorder.node(gradient)
    node.meta[COPY] = True
    move_behind(node, source)
    return copy


def dense_order(array: Any) -> list[int] | None:
    """The dimensions from the outermost to the innermost, of an array that is dense but not row by row."""
    order = sorted(range(array.ndim), key=lambda dim: (-array.strides[dim], dim))
    extent = array.itemsize
    for dim in reversed(order):
        if array.shape[dim] != 1 and array.strides[dim] != extent:
            return None
        extent *= array.shape[dim]
    longer = [dim for dim in order if array.shape[dim] != 1]
    return None if longer == sorted(longer) else order


def permuted_copy(gradient: Any, order: list[int]) -> Any:
    """A copy in which these dimensions lie one within the other."""
    copy = gradient.permute(*order).clone(memory_format=contiguous_format)
    return copy.permute(*[order.index(dim) for dim in range(len(order))]).detach()


def move_behind(node: Node, source: Node) -> None:
    """See Note [Where an accumulation stands]."""
    if source.op == "placeholder":
        return
    between = node._prev
    while between is not source:
        calls_something = between.op.startswith("call_")
        if between.op == "root" or between.meta.get("writes"):
            return
        if calls_something and (
            between.meta.get("val") is None or effect(between).unknown
        ):  # a mode's switch
            return
        between = between._prev
    while source._next.meta.get(COPY) and source._next is not node:
        source = source._next
    source.append(node)


def copies_in_order(outputs: dict[Node, str], nodes: list[Node]) -> dict[Node, str]:
    """What a graph gives, the copies of gradients among it in the order in which they stand, and so named."""
    copies = [node for node in nodes if node.meta.get(COPY)]
    if not copies:
        return outputs
    names = copies[0].graph._names
    for node in copies:
        names.used.discard(node.name)
    names.counts.pop("new_grad", None)
    for node in copies:
        node.name = names.create("new_grad")
    given = iter([node for node in copies if node in outputs])
    return {(n := next(given) if node.meta.get(COPY) else node): outputs[n] for node in outputs}


@handles(calls.retain_grad)
def retain_grad(machine: Machine, args: Args, kwargs: Kwargs) -> None:
    tensor, gradient = args
    before = read_grad(machine, tensor)
    if before is None:
        new = machine.native(REGISTRY["clone"], gradient, memory_format=contiguous_format)
    else:
        new = machine.native(REGISTRY["add"], before, gradient)
    write_grad(machine, tensor, new)


# -- what nodes saved ----------------------------------------------------------------------------------------
@handles(calls.check_saved)
def check_saved(machine: Machine, args: Args, kwargs: Kwargs) -> None:
    refuse_written(machine, args[0])


@handles(calls.unpack_saved)
def unpack_saved(machine: Machine, args: Args, kwargs: Kwargs) -> Any:
    (item,) = args
    known = machine.world.known.get(id(item))
    if known is None or type(item) is not Item:
        raise Break("autograd-inside", seen="a packed tensor of unknown origin")
    unpack = machine.wrapping.wrap(item.unpack, known.source.slot(Item, "unpack"))
    value = machine.wrapping.wrap(item.value, known.source.slot(Item, "value"))
    tensor = machine.calls.call(unpack, (value,), {})
    if type(tensor) not in PLAIN:
        raise Break("autograd-inside", seen=f"a {type(tensor).__name__} that an unpack hook gives")
    machine.native(calls.check_unpacked, item, tensor)
    return tensor


def refuse_written(machine: Machine, node: Any) -> None:
    """Captured code that wrote what a node saved fails, so that the graph runs as it is, and says so."""
    written = [known.original for known in machine.world.known.values() if is_written(known)]
    if written:
        memory = calls.saved_memory(node)
        if any(id(storage_root(tensor.array)) in memory for tensor in written):
            raise machine.fail(RuntimeError("a saved tensor has been modified by an inplace operation"))


def is_written(known: Known) -> bool:
    if type(known.original) not in PLAIN or type(known.value) not in PLAIN:
        return False
    return version(known.value) != version(known.original)


# -- custom Functions ----------------------------------------------------------------------------------------
@handles(calls.call_backward)
def call_backward(machine: Machine, args: Args, kwargs: Kwargs) -> Any:
    node, number, given, shapes, *gradients = args
    known = machine.world.known.get(id(node))
    if known is None or not has_type(node, FunctionNode):
        raise Break("autograd-inside", seen="a backward of unknown origin")
    refuse_written(machine, node)
    ctx = machine.wrapping.wrap(node.ctx, known.source.slot(FunctionNode, "ctx"))
    owner = node._forward_cls
    backward = machine.attributes.load(owner, "backward")
    vjp = machine.attributes.load(owner, "vjp")
    if (backward is missing_backward) is (vjp is missing_backward):
        raise Break("autograd-inside", seen=f"{owner.__qualname__} without a backward, or with two")
    result = machine.calls.call(backward if vjp is missing_backward else vjp, (ctx, *gradients), {})
    values = machine.native(node.per_tensor, result)
    if pattern(values) != given:
        raise Unexpected(number, pattern(values))
    for place, value in enumerate(values):
        if value is not None:
            kind = node.types[2 * place + 1]
            machine.native(fitting, node, place, value, shapes[place])
            values[place] = machine.native(finish, value, shapes[place], kind)
    return machine.world.keep(tuple(values))


def fitting(node: Any, place: int, value: Any, shape: tuple[int, ...]) -> None:
    """Raises, as eager does, where a gradient cannot be brought to the type of its input."""
    if value.array.shape != shape or value.array.dtype is not node.types[2 * place + 1]:
        node.check_shape(place, value)


# -- lists ---------------------------------------------------------------------------------------------------
def item_node(machine: Machine, value: Any, known: Known) -> Node | None:
    """The node of a tensor that is an item of a list which the graph takes whole; None for others."""
    source, owner = known.source, known.source.parent
    names = machine.entry_function.__dict__.get(WHOLE_LISTS, ())
    if owner is None or source.kind != "item" or owner.kind != "local" or owner.detail not in names:
        return None
    whole = list_node(machine, owner)
    node: Node = machine.graph.call_function(operator.getitem, (whole, source.detail))
    node.meta["val"] = value
    if machine.recorder.where is not None:
        node.meta["source"] = machine.recorder.where()
    machine.recorder.bind(value, node)
    return node


def list_node(machine: Machine, source: Any) -> Node:
    for each in machine.inputs.items:
        if each.known.source == source:
            found: Node = each.node
            return found
    node: Node = machine.graph.placeholder(source.placeholder_name(), list)
    machine.inputs.items.append(GraphInput(node, Known(None, None, source)))
    return node
