"""Custom Functions where gradients are taken inside captured code: op by op, backward interpreted.

Takes a call of `apply` under an `OpRecorder`; gives tensors with the Function's own node behind their fakes.
One idea: forward is part of the program, and the node is a genuine one, whose backward re-enters the
interpreter at the moment when the engine asks for it: what it computes and what it changes is part of the
program, too.

# Note [Histories that outlive the program]
    y = Foo.apply(x)          the ops of forward, without gradients
                              foo_applied = foo_applied((y,), (x,), [what forward left])    y, and its context
    y.sum().backward()        the ops of Foo's backward
    return y                  spent; had nobody swept, `foo_applied` would have put Foo's node behind y
A graph whose histories are all spent needs none of these nodes, and ahead-of-time backends drop them.
"""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any

from weft.autograd.function import recorded
from weft.autograd.function_apply import Attached
from weft.autograd.function_context import Loose
from weft.autograd.function_node import NO_BACKWARD, FunctionNode, missing_backward
from weft.autograd.function_witness import Witness
from weft.capture.custom_function.saved import items_of, shares_memory, store_later, tensors_of
from weft.capture.higher_order import NO_CALL, Picture, note_effect
from weft.capture.values import entered, has_type
from weft.core import modes
from weft.graph.effects import Effect
from weft.tensor.base import Tensor
from weft.trace.recorder import version

if TYPE_CHECKING:
    from weft.capture.machine import Machine


class Interpreted:
    """Stands in for a backward while captured code sweeps."""

    __slots__ = ("machine", "owner")
    interprets = True

    def __init__(self, machine: Machine, owner: Any) -> None:
        self.machine, self.owner = machine, owner

    def backward(self, ctx: Any, *gradients: Any) -> Any:
        """Interprets the user's backward; its errors are raised as such."""
        machine = self.machine
        for gradient in gradients:
            machine.world.keep(gradient)
        return entered(lambda: machine.calls.call(self.found(), (ctx, *gradients), {}))

    def found(self) -> Any:
        """The Function's `backward`, or its `vjp`; read with guards."""
        machine = self.machine
        backward, vjp = [machine.attributes.load(self.owner, name) for name in ("backward", "vjp")]
        if vjp is missing_backward:
            if backward is missing_backward:
                raise NotImplementedError(NO_BACKWARD)
            return backward
        if backward is not missing_backward:
            return self.owner._backward_cls.find_backward()  # which raises
        return vjp


def record_flat(call: Any, backward: Any = None) -> Any:
    """One call of `apply`, live. `backward` stands in for the Function's own; else that is interpreted."""
    machine, recorder, ctx = call.machine, call.machine.recorder, call.ctx
    picture = Picture(machine, call.forward)
    call.before = {id(tensor): version(tensor) for tensor in recorder.tensors()}
    witness = Witness(call.args)
    with modes.within(grad=False, witness=witness):
        result = call.run_forward()
    recipe, left, _escaped = call.described(result, picture, flat=True)
    call.keep_forward(recipe, left)
    items = items_of(result)
    tensors = tuple([item for item in items if has_type(item, Tensor)])
    target = Attached(recipe, tuple([has_type(value, Tensor) for value in call.args]))
    written = tuple([recorder.node(items[place]) for place in recipe.dirty])
    parts = [recorder.argument(value) for value in (tensors, tuple(call.operands), left.values)]
    recorder.follow_modes()
    node = recorder.graph.call_function(target, tuple(parts))
    others = [tensor for tensor in recorder.tensors() if id(tensor) in call.before]
    shares = shares_memory(tensors, [*call.operands, *others])
    node.meta["source"] = machine.where()
    note_effect(node, Effect(writes=written, aliases=shares))
    ctx._captured = backward or Interpreted(machine, call.owner)
    given = machine.native(recorded, call.owner, ctx, call.args, result, modes.current(), witness)
    saved = enumerate(ctx._items or ())
    target.constants = frozenset([place for place, item in saved if type(item) is not Loose])
    node.meta["val"] = (tensors_of(given), None)
    recorder.bind_result((tensors_of(given),), node, NO_CALL, [])
    taken = recorder.graph.call_function(operator.getitem, (node, 1))
    taken.meta["val"], taken.meta["source"] = None, machine.where()
    recorder.bind(ctx, taken)
    store_later(machine, ctx, left.late)
    recorder.run_waiting()  # hooks that pack what was saved
    return given


def interpret_backward(machine: Machine, owner: Any, result: Any) -> None:
    """Where a call was put into the graph whole: a sweep inside captured code interprets its backward."""
    for item in items_of(result):
        node = item.node if has_type(item, Tensor) else None
        if has_type(node, FunctionNode) and node.ctx._captured is None:
            node.ctx._captured = Interpreted(machine, owner)
