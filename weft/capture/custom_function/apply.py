"""Custom autograd Functions in captured code: `Foo.apply(...)` as one node with two sub-graphs.

Takes a call of `Function.apply`; gives, behind a `FunctionCtx()` node, one `autograd_function_apply` node
whose parameters are the graphs of forward and backward. One idea: forward belongs to the program that is
being captured; backward will run later, in another world, so it is captured by a machine of its own, whose
guards are checked when backward runs.

# Note [A Function in a graph]
    Foo.apply(x, config, z)      with config.scale a tensor that forward reads and saves

    function_ctx = FunctionCtx()
    fwd_body_0 = self.fwd_body_0       (function_ctx, x, z, scale) -> (output, [what it left in ctx])
    bwd_body_0 = self.bwd_body_0       (function_ctx, gradient, what it left) -> gradients
    y = autograd_function_apply(fwd_body_0, bwd_body_0, x, z, scale, args_tensor_mask=[True, False, True])
Where no gradient is recorded, forward is simply part of the program, without gradients. What forward changes
outside of itself is changed by the program; a tensor that it writes is written by the node. What backward
changes is changed when it runs, by the user's own backward: see `custom_function_backward`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import weft.capture.custom_ops as _custom_ops  # noqa: F401 - registers custom ops
from weft.autograd.function import (
    APPLY,
    Function,
    blocked,
    no_setup,
    once_differentiable,
    positional,
)
from weft.autograd.function_apply import is_intact
from weft.autograd.function_context import FunctionCtx, Packed, unpack
from weft.autograd.function_node import FunctionNode
from weft.capture.calls import BY_CODE, handles
from weft.capture.custom_function.by_ops import interpret_backward, record_flat
from weft.capture.custom_function.call import ApplyCall
from weft.capture.custom_function.saved import items_of, refused
from weft.capture.custom_function.transforms import apply_wrapped
from weft.capture.policy import MARK, Policy
from weft.capture.sources import READ_BY
from weft.capture.values import Args, Kwargs, has_type
from weft.core import modes
from weft.graph.effects import Effect
from weft.tensor.base import PLAIN, Tensor
from weft.tensor.wrapper import Wrapper
from weft.trace.breaks import Break

if TYPE_CHECKING:
    from weft.capture.machine import Machine


# -- the call ------------------------------------------------------------------------------------------------
@handles(APPLY)
def apply(machine: Machine, args: Args, kwargs: Kwargs) -> Any:
    owner, *given = args
    if not has_type(owner, type) or not issubclass(owner, Function):
        raise refused("Function.apply of an object that is not a Function class")
    policy = owner.__dict__.get(MARK, (None, ""))[0]
    if policy is Policy.IN_GRAPH:
        result = machine.native(machine.recorder.record, owner.apply, tuple(given), kwargs)
        if machine.by_ops:
            interpret_backward(machine, owner, result)
        return result
    if policy is Policy.BREAK:
        raise Break("skipped-function", seen=owner.__qualname__)
    if owner.boxed_grads_call or owner.clear_saved_tensors_on_access:
        raise refused(f"{owner.__qualname__}, whose backward is to drop what it has read")
    if machine.attributes.load(owner, "apply").__func__ is not APPLY:
        raise refused(f"{owner.__qualname__}.apply")
    wrapped = any(has_type(value, Wrapper) for value in given)
    for value in given:
        if has_type(value, Tensor) and type(value) not in PLAIN and not has_type(value, Wrapper):
            raise refused(f"{owner.__qualname__} on a {type(value).__name__}")
    setup = machine.attributes.load(owner, "setup_context")
    forward = machine.attributes.load(owner, "forward")
    plain = setup is no_setup
    if kwargs or not plain:
        bound = machine.native(positional, owner, tuple(given), kwargs, plain)
        given = [
            *bound[: len(given) + len(kwargs)],
            *defaults_read(machine, owner, forward, bound, given, kwargs),
        ]
    if wrapped:
        return apply_wrapped(machine, owner, tuple(given))
    call = ApplyCall(machine, owner, tuple(given), forward, None if plain else setup)
    if not call.is_live():
        return call.inline()
    return record_flat(call) if machine.by_ops else call.record()


def defaults_read(
    machine: Machine, owner: Any, forward: Any, bound: Args, given: list[Any], kwargs: Kwargs
) -> list[Any]:
    """The default values of forward's last parameters that `setup_context` is to see."""
    count = len(bound) - len(given) - len(kwargs)
    if not count:
        return []
    function = getattr(forward, "__func__", forward)
    source = machine.world.source_of(function)
    values = getattr(function, "__defaults__", None) or ()
    if kwargs or source is None or count > len(values):
        raise refused(f"{owner.__qualname__} with default values")
    machine.calls.guard_defaults(function, source)
    places = range(len(values) - count, len(values))
    return [
        machine.wrapping.wrap(values[place], source.member("__defaults__").item(place)) for place in places
    ]


@handles(Function.__init__)
def instantiate(machine: Machine, args: Args, kwargs: Kwargs) -> None:
    """`Foo().apply(x)`: the instance is of no use, and says so when it is made uncompiled."""


def differentiate_once(machine: Machine, function: Any, args: Args, kwargs: Kwargs) -> Any:
    """A backward that cannot be differentiated: where nothing is recorded, it is just that backward."""
    backward = machine.attributes.load(function, "__wrapped__")
    if not modes.grad_enabled():
        return machine.calls.call(backward, args, kwargs)
    if not machine.recorder.knows(args[0]):
        raise refused("once_differentiable, called by captured code")
    with modes.within(grad=False):
        outputs = machine.calls.call(backward, args, kwargs)
    given = [value for value in args if has_type(value, Tensor) and value.tracked]
    if not given:
        return outputs
    cut = [block(machine, args[0], given, value) for value in items_of(outputs)]
    return tuple(cut) if has_type(outputs, tuple) else cut[0]


def block(machine: Machine, ctx: Any, given: list[Tensor], value: Any) -> Any:
    """A gradient that raises when it is differentiated, also where the graph hands it out."""
    if value is None:
        return None
    recorder = machine.recorder
    parts = recorder.node(ctx), recorder.argument(given), recorder.argument(value)
    made = machine.native(blocked, ctx, given, value)
    recorder.follow_modes()
    node = recorder.graph.call_function(blocked, parts)
    node.meta["val"], node.meta["source"], node.meta["effect"] = made, machine.where(), Effect()
    recorder.bind(made, node)
    return made


BY_CODE[once_differentiable(lambda ctx: None).__code__] = differentiate_once


def _native(function: Any) -> None:
    @handles(function)
    def noted(machine: Machine, args: Args, kwargs: Kwargs) -> Any:
        if args and not machine.world.is_fresh(args[0]):
            return machine.calls.inline(function, args, kwargs)  # an effect, as of any object from outside
        return machine.native(function, *args, **kwargs)


INTACT: Final = "saved_intact"
"""What sources call the fact that saved tensors can be given back."""


def saved_of(ctx: Any) -> Any:
    """The saved tensors of a context from outside; hooks of the user's must not run where guards read."""
    if any(type(item) is Packed for item in ctx._items or ()):
        raise LookupError("saved tensors that hooks have packed")
    return unpack(ctx)


READ_BY[FunctionCtx, "saved_tensors"] = saved_of
READ_BY[FunctionCtx, INTACT] = is_intact


@handles(FunctionCtx.__dict__["saved_tensors"].fget)
def saved_tensors(machine: Machine, args: Args, kwargs: Kwargs) -> Any:
    (ctx,) = args
    source = machine.world.source_of(ctx)
    if source is None:
        return machine.native(unpack, ctx)
    if any(type(item) is Packed for item in ctx._items or ()):
        raise refused("saved tensors that hooks have packed")
    machine.world.guard("EQ", source.member(INTACT), is_intact(ctx))
    found = machine.native(saved_of, ctx)  # which raises where they were freed or overwritten
    return machine.wrapping.wrap(found, source.member("saved_tensors"))


@handles(FunctionCtx.__dict__["__getattr__"])
def missing_attribute(machine: Machine, args: Args, kwargs: Kwargs) -> Any:
    """What neither the context nor its class has: an error, unless its node has it."""
    ctx, name = args
    if hasattr(FunctionNode, name) or name in ("saved_tensors", "saved_variables"):
        raise refused(f"ctx.{name}, which is an attribute of the node")
    return machine.native(FunctionCtx.__getattr__, ctx, name)


for _method in (
    "save_for_backward", "save_for_forward", "mark_dirty", "mark_non_differentiable", "set_materialize_grads",
):  # fmt: skip
    _native(FunctionCtx.__dict__[_method])
