"""Hooks that captured code registers: an effect of the segment on the tensors that it leaves behind.

Takes calls of the methods that register hooks, and of `handle.remove()`; gives lines that register the same
hooks on the real tensors, once the graph has run. One idea: a hook stands in the tables of the fake from the
moment it is registered, so a backward inside the captured code meets it where eager would; what still stands
there at the end is registered outside, in the same order.

# Note [Handles]
    handle = x.register_hook(h)      handle = new_handle()                      with the other objects
    return x * y, handle             register(handle, x, 'register_hook', h)    with the stores
A handle is made before the hook is registered, so that whatever holds it can be built before the stores.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final

from weft.autograd.hooks import KINDS, HookKind, HookTable, RemovableHandle, add_hook, hooks_of
from weft.autograd.tasks import reachable
from weft.autograd.trace_wrapped import check_like, trace_wrapped, wrapped_call
from weft.capture.calls import handles, interpreted, natively
from weft.capture.gradients import Removed, history, is_spent_from
from weft.capture.rebuild.builder import Builder
from weft.capture.rebuild.types import RULES, instance
from weft.capture.values import Args, Kwargs, has_type
from weft.core import modes
from weft.core.interrupts import let_through
from weft.core.records import record
from weft.graph.effects import NATIVE
from weft.tensor.base import PLAIN, Tensor
from weft.tensor.tape import Node
from weft.tensor.views import refresh
from weft.trace.breaks import Break

if TYPE_CHECKING:
    from weft.capture.machine import Machine

KIND: Final = "autograd-inside"


@record(slots=True)
class Registered:
    """A hook that captured code registered."""

    tensor: Any
    kind: HookKind
    hook: Any
    handle: Any
    table: HookTable
    """The table of the fake: whether the hook still stands there says whether it was removed."""
    node: Any
    """The history that the tensor had: a tensor written since has another, and the hook stays behind."""


# -- calls ---------------------------------------------------------------------------------------------------
def register(kind: HookKind, machine: Machine, args: Args, kwargs: Kwargs) -> Any:
    owner, hook = machine.native(lambda self, hook: (self, hook), *args, **kwargs)
    tensor: Any = machine.world.nodes.get(id(owner)) if kind.of == "node" else owner
    if kind.of == "node":  # `tensor.grad_fn.register_hook(hook)`, for a tensor that captured code made
        if tensor is None or tensor.node is not owner:
            raise Break(KIND, seen="a hook on a node that is not the one behind a tensor made here")
        machine.recorder.node(tensor).meta[NATIVE] = True  # its node on the tape is what eager code makes
    elif type(tensor) not in PLAIN:
        raise Break(KIND, seen=f"{kind.method} on a {type(tensor).__name__}")
    elif kind.of == "leaf":
        machine.recorder.facts.append((tensor, "is_leaf"))
    node, slot = machine.native(kind.place, owner)
    table = hooks_of(node).table(kind, slot)
    handle = machine.world.keep(add_hook(table, machine.c_arguments.callback(hook)))
    machine.world.changes += 1
    machine.world.hooked.append(Registered(tensor, kind, hook, handle, table, tensor.node))
    return handle


for _kind in KINDS:
    if _kind.of_users:
        _owner: Any = Node if _kind.of == "node" else Tensor
        handles(_owner.__dict__[_kind.method])(partial(register, _kind))


def registration(machine_or_builder: Any, handle: Any) -> Registered | None:
    found = machine_or_builder.world.hooked
    return next((each for each in found if has_type(each, Registered) and each.handle is handle), None)


@handles(RemovableHandle.remove)
def remove(machine: Machine, args: Args, kwargs: Kwargs) -> None:
    (handle,) = args
    if type(handle) is not RemovableHandle:
        raise Break(KIND, seen=f"remove() of a {type(handle).__name__}")
    machine.world.changes += 1
    found = registration(machine, handle)
    if found is not None:
        found.table.pop(handle.id, None)
    elif id(handle) in machine.world.known:
        if machine.leaves:
            raise Break(KIND, seen="a hook from outside removed beside a backward")
        known = machine.world.known[id(handle)]
        table = known.original.hooks_dict_ref()
        machine.world.guard("TYPE", known.source.member("hooks_dict_ref").referent(), type(table))
        if not has_type(table, HookTable):
            raise Break("library-state", seen="RemovableHandle.remove of a hook that calls may meet")
        machine.world.hooked.append(Removed(handle))
    else:
        raise Break("library-state", seen="RemovableHandle.remove")


@handles(RemovableHandle.__enter__)
def enter(machine: Machine, args: Args, kwargs: Kwargs) -> Any:
    return args[0]


@handles(RemovableHandle.__exit__)
def leave(machine: Machine, args: Args, kwargs: Kwargs) -> None:
    remove(machine, args[:1], {})


# -- traced calls --------------------------------------------------------------------------------------------
@handles(trace_wrapped)
def look_into(machine: Machine, args: Args, kwargs: Kwargs) -> Any:
    """`trace_wrapped(*args, fn=fn)`: what the function does is part of the program."""
    rest = dict(kwargs)
    if "fn" not in rest:
        return machine.native(trace_wrapped, *args, **kwargs)
    function = rest.pop("fn")
    with modes.within(grad=False):
        return machine.calls.call(function, args, rest)


natively(check_like)
interpreted(wrapped_call(len, {}))


# -- emitted code --------------------------------------------------------------------------------------------
def hook_lines(builder: Builder) -> list[str]:
    """Lines that register and remove hooks outside, in the order of the captured code."""
    lines: dict[int, str] = {}
    hooked = builder.world.hooked
    while hooked:  # a hook may itself hold tensors with hooks
        builder.settle()
        met = histories_outside(builder)
        waiting = [number for number in range(len(hooked)) if number not in lines]
        added = [number for number in waiting if is_met(builder, hooked[number], met)]
        if not added:
            break
        builder.storing = True
        for number in added:
            lines[number] = hook_line(builder, hooked[number])
        builder.storing = False
    return [lines[number] for number in sorted(lines)]


def is_met(builder: Builder, each: Any, met: set[Any]) -> bool:
    """Whether a hook that captured code registered or removed makes a difference outside."""
    if has_type(each, Removed):
        return True
    if not (each.node is None or each.node in met or builder.has(each.tensor)):
        return False  # as of a computation that was made again for a checkpoint
    return each.handle.id in each.table and (each.node is None or not is_spent_from(each.node))


def hook_line(builder: Builder, each: Any) -> str:
    if has_type(each, Removed):
        return f"{builder.constant(RemovableHandle.remove, 'remove')}({builder.text(each.handle)})"
    if each.tensor.origin is not None:
        try:
            refresh(each.tensor)
        except RuntimeError as error:
            let_through(error)
            raise Break(KIND, seen="a hook on a view that a write made unusable") from None
    if each.tensor.node is not each.node:
        raise Break(KIND, seen="a hook on a tensor that is written afterwards")
    path = f"grad_fn.{each.kind.method}" if each.kind.of == "node" else each.kind.method
    texts = ", ".join(map(builder.text, (each.handle, each.tensor, path, each.hook)))
    return f"{builder.constant(register_outside, 'register')}({texts})"


def histories_outside(builder: Builder) -> set[Any]:
    """The nodes of the tape that a backward outside can come to."""
    tensors = [node.meta.get("val") for node in builder.outputs]
    tensors += [known.value for known in builder.world.known.values()]
    roots = [history(tensor) for tensor in tensors if has_type(tensor, Tensor)]
    return set(reachable([root for root in roots if root is not None]))


def handle_text(builder: Builder, handle: Any) -> str:
    """A handle that captured code got: see Note [Handles]."""
    if registration(builder, handle) is None:
        return instance(builder, handle)
    return builder.assign(f"{builder.constant(new_handle, 'new_handle')}()", "handle")


RULES[RemovableHandle] = handle_text


def new_handle() -> RemovableHandle:
    """A handle of a hook that does not stand anywhere."""
    return RemovableHandle(HookTable())


def register_outside(handle: RemovableHandle, tensor: Any, path: str, hook: Callable[..., Any]) -> None:
    """Registers a hook under a handle that is there already, by the method at a path of attributes."""
    made = attrgetter(path)(tensor)(hook)
    handle.hooks_dict_ref, handle.id = made.hooks_dict_ref, made.id
