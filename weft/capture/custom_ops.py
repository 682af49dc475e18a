"""Custom ops in captured code: one node, whose kernel does not run; the gradients that users registered.

Takes calls of custom ops. The recorder sees the call, and the op's fake says what it gives. One idea: where
captured code sweeps through such an op, the user's `setup_context` and `backward` are interpreted as any
function is, so that what they read is guarded.

# Note [Gradients of custom ops]
    y = my_op(x)             the node; `setup_context` is interpreted for what it leaves in the context. It
                             will run again when the graph runs, so one with effects is a break
    y.sum().backward()       the ops of the user's backward, and its effects
Where nothing is swept inside, both run when the graph runs, as in eager. What `setup_context` says of the
outputs must be known while capturing, though: a machine of its own interprets it, whose effects are dropped.
"""

from __future__ import annotations

import contextvars
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from weft.autograd.custom_op import CustomOpDef, OpOverload, OpOverloadPacket
from weft.capture.calls import handles
from weft.capture.custom_function.call import has_effects
from weft.capture.custom_function.saved import refused
from weft.capture.higher_order import Picture
from weft.capture.sources import local
from weft.capture.values import Args, Callback, Kwargs
from weft.capture.wrapping import RULES, Wrapping
from weft.trace.breaks import Break

if TYPE_CHECKING:
    from weft.capture.machine import Machine

SETUP: Final = "_setup_context"


@handles(CustomOpDef.__call__, OpOverload.__call__, OpOverloadPacket.__call__)
def custom_op(machine: Machine, args: Args, kwargs: Kwargs) -> Any:
    """The recorder sees the call; the op's fake says what it gives, and its kernel does not run."""
    machine.hears_ops = True
    learn_definition(machine, args[0])
    return machine.native(args[0], *args[1:], **kwargs)


def learn_definition(machine: Machine, op: Any) -> None:
    """Finds the source of an op's definition, whatever name it is called by."""
    for kind, name in ((OpOverloadPacket, "default"), (OpOverload, "_definition")):
        source = machine.world.source_of(op)
        if type(op) is kind and source is not None:
            op = machine.wrapping.wrap(vars(op)[name], source.field(name))


RULES.update(dict.fromkeys((CustomOpDef, OpOverload, OpOverloadPacket), Wrapping.identical))


def user_function(machine: Machine, definition: Any, name: str, function: Any) -> Any:
    """What is called in place of a function that was registered with an op."""
    if not machine.by_ops:
        return partial(overhear, machine, function) if name == SETUP else function
    source = machine.world.source_of(definition)
    if source is None:
        raise refused(f"the gradient of {definition._qualname}, an op that was reached through no source")
    read = machine.wrapping.wrap(function, source.field(name))
    return partial(set_up, machine, read) if name == SETUP else Callback(read, machine.calls.call)


def set_up(machine: Machine, function: Any, **named: Any) -> None:
    picture = Picture(machine, function)
    Callback(function, machine.calls.call)(**named)
    if has_effects(machine, picture):
        raise refused("a setup_context of a custom op that has side effects")


def overhear(machine: Machine, function: Any, **named: Any) -> None:
    """Interprets a setup_context for what it leaves in the context, and for nothing else."""
    entry: Any = stand_for
    inner = type(machine)(entry, dynamic=False)
    inner.recorder.on_input = lambda value: inner.graph.placeholder(f"arg{len(inner.graph.nodes)}", val=value)

    def run() -> None:
        with inner.recorder:
            read = inner.wrapping.wrap(function, local("function"))
            Callback(read, inner.calls.call)(**named)

    try:
        contextvars.copy_context().run(run)
    except Break:
        function(**named)  # as it is: what it changes, it changes now
    finally:
        inner.generators.over = True
        inner.world.forget()


def stand_for(function: Any) -> None:
    """Stands for the function whose parameter the sources of a setup_context start from."""
