"""Custom ops in captured code: one node, whose kernel does not run; the gradients that users registered.

Takes calls of custom ops. The recorder sees the call, and the op's fake says what it gives. One idea: where
captured code sweeps through such an op, the user's `setup_context` and `backward` are interpreted as any
function is, so that what they read is guarded.

# Note [Gradients of custom ops]
    y = my_op(x)             the node; `setup_context` is interpreted for what it leaves in the context. It
                             will run again when the graph runs, so one with effects is a break
    y.sum().backward()       the ops of the user's backward, and its effects
Where nothing is swept inside, neither is looked at: both run when the graph runs, as in eager.
"""

from __future__ import annotations

from functools import partial
from typing import Any, Final

from weft.autograd.custom_op import CustomOpDef, OpOverload, OpOverloadPacket
from weft.capture.calls import handles
from weft.capture.custom_function_call import has_effects
from weft.capture.custom_function_left import refused
from weft.capture.higher_order import Picture
from weft.capture.values import Callback
from weft.capture.wrapping import RULES, Wrapping

Args = tuple[Any, ...]
Kwargs = dict[str, Any]
SETUP: Final = "_setup_context"


@handles(CustomOpDef.__call__, OpOverload.__call__, OpOverloadPacket.__call__)
def custom_op(machine: Any, args: Args, kwargs: Kwargs) -> Any:
    """The recorder sees the call; the op's fake says what it gives, and its kernel does not run."""
    machine.recorder.user_function = partial(user_function, machine)
    learn_definition(machine, args[0])
    return machine.native(args[0], *args[1:], **kwargs)


def learn_definition(machine: Any, op: Any) -> None:
    """Finds the source of an op's definition, whatever name it is called by."""
    for kind, name in ((OpOverloadPacket, "default"), (OpOverload, "_definition")):
        source = machine.world.source_of(op)
        if type(op) is kind and source is not None:
            op = machine.wrap(vars(op)[name], source.field(name))


RULES.update(dict.fromkeys((CustomOpDef, OpOverload, OpOverloadPacket), Wrapping.identical))


def user_function(machine: Any, definition: Any, name: str, function: Any) -> Any:
    """What is called in place of a function that was registered with an op."""
    if not machine.by_ops:
        return function
    source = machine.world.source_of(definition)
    if source is None:
        raise refused(f"the gradient of {definition._qualname}, an op that nothing was read from")
    read = machine.wrap(function, source.field(name))
    return partial(set_up, machine, read) if name == SETUP else Callback(read, machine.call)


def set_up(machine: Any, function: Any, **named: Any) -> None:
    picture = Picture(machine, function)
    Callback(function, machine.call)(**named)
    if has_effects(machine, picture):
        raise refused("a setup_context of a custom op, which changes something outside")
