"""Custom Functions on tensors of a running transform (vmap, jvp, duals), in captured code.

Takes a call of `apply` on wrappers; gives what the rules of the library for Functions give. One idea: rules
call the methods of the Function (`forward`, `setup_context`, `backward`, `jvp`, `vmap`); they are given
another Function in its place, whose methods re-enter the interpreter.

# Note [Generated rules in a graph]
A batching rule that is made from forward and backward is a Function of the library's, made from the one that
stands in. Its forward runs over the fakes; in the graph, the same rule made from the user's own Function is
put behind the results, so that a backward outside finds nothing of the capture. What else such calls leave on
the tape belongs to the capture: a tensor that is handed on with it, unswept, is a break (see
`weft.capture.gradients.is_spent`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from weft.autograd.function import APPLY, Function, transformed
from weft.capture.calls import HANDLERS, natively
from weft.capture.custom_function.by_ops import record_flat
from weft.capture.custom_function.call import ApplyCall
from weft.capture.custom_function.saved import refused
from weft.capture.values import Args, Callback, entered, has_type
from weft.func.functions import Saved, generated
from weft.tensor.wrapper import Wrapper

if TYPE_CHECKING:
    from weft.capture.machine import Machine

METHODS = ("forward", "setup_context", "backward", "vjp", "jvp", "vmap")


def apply_wrapped(machine: Machine, owner: Any, args: Args) -> Any:
    """`owner.apply(*args)` where some arguments are wrappers."""
    for value in args:
        if callable(value) and not has_type(value, type):
            raise refused(f"{owner.__qualname__} with a function as argument, inside a transform")
    return machine.native(transformed, stand_in(machine, owner), args)


def stand_in(machine: Machine, owner: Any) -> Any:
    """A Function whose methods are those of `owner`, interpreted."""
    known = stand_ins(machine).get(owner)
    if known is not None:
        return known
    methods: dict[str, Any] = {}
    for name in METHODS:
        found = machine.attributes.load(owner, name)
        if found is not getattr(Function, name):
            methods[name] = staticmethod(Callback(found, machine.calls.call))
    made: Any = type(owner.__name__, (Function,), {**methods, "apply": Apply(machine, owner)})
    made.generate_vmap_rule = machine.attributes.load(owner, "generate_vmap_rule")
    made.__module__, made.__qualname__ = owner.__module__, owner.__qualname__
    made._backward_cls.stands_in = True
    made.adapt_generated = Adapter(machine, owner)
    stand_ins(machine)[owner] = made
    return made


def stand_ins(machine: Machine) -> dict[Any, Any]:
    """Those of this capture."""
    found: dict[Any, Any] = vars(machine).setdefault("stand_ins", {})
    return found


class Apply:
    """`apply` of a stand-in: the call of the Function that it stands for."""

    def __init__(self, machine: Machine, owner: Any) -> None:
        self.machine, self.owner = machine, owner

    def __get__(self, _instance: Any, owner: Any) -> Any:
        return self

    def __call__(self, *args: Any) -> Any:
        machine, owner = self.machine, self.owner
        if any(has_type(value, Wrapper) for value in args):
            return transformed(stand_in(machine, owner), args)
        return entered(HANDLERS[id(APPLY)], machine, (owner, *args), {})


class Adapter:
    """Adapts the generated rule of a stand-in: see Note [Generated rules in a graph]."""

    def __init__(self, machine: Machine, owner: Any) -> None:
        self.machine, self.owner = machine, owner

    def __call__(self, made: Any, dims: tuple[Any, ...], level: Any) -> Any:
        own = generated(self.owner, dims, level)
        made.apply = ApplyGenerated(self.machine, made, own)
        made.adapt_generated = Adapter(self.machine, own)
        return made


class ApplyGenerated:
    """`apply` of a generated rule."""

    def __init__(self, machine: Machine, made: Any, own: Any) -> None:
        self.machine, self.made, self.own = machine, made, own

    def __get__(self, _instance: Any, owner: Any) -> Any:
        return self

    def __call__(self, *args: Any) -> Any:
        made = self.made
        if any(has_type(value, Wrapper) for value in args):
            return transformed(made, args)
        call = GeneratedCall(self.machine, self.own, args, made.forward, made.setup_context)
        if not call.is_live():
            return APPLY(made, *args)
        call.made = made
        return record_flat(call, GeneratedBackward(made))


class GeneratedCall(ApplyCall):
    """A call of a generated rule: forward is the library's code."""

    made: Any = None

    def run_forward(self) -> Any:
        result = self.made.forward(*self.args)
        self.made.setup_context(self.ctx, self.args, result)
        return result


class GeneratedBackward:
    """Stands in for the backward of a generated rule, which calls back into the interpreter itself."""

    __slots__ = ("made",)
    interprets = True

    def __init__(self, made: Any) -> None:
        self.made = made

    def backward(self, ctx: Any, *gradients: Any) -> Any:
        return self.made.backward(ctx, *gradients)


natively(
    Saved.save_for_backward,
    Saved.save_for_forward,
    Saved.mark_non_differentiable,
    Saved.mark_dirty,
    Saved.set_materialize_grads,
)
