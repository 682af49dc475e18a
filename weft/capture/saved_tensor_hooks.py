"""Saved-tensor hooks in captured code: called where autograd saves, and where a captured backward reads.

Takes what captured code does with `saved_tensors_hooks`, `save_on_cpu` and `disable_saved_tensors_hooks`. One
idea: the tape of fakes saves through the hooks of the active modes as any tape does, so captured code puts
its own pair there, behind functions that call back into the interpreter.

# Note [When a hook runs]
    with saved_tensors_hooks(pack, unpack):
        y = x.exp()                 eager: the op runs, the tape saves y, pack(y) runs
    y.sum().backward()              unpack(packed) runs, then the gradient rule
A fake that an op made has no node until the op's own is written down, so `pack` runs right after that: before
the next op, and before whatever captured code does next. Tensors that leave captured code with packed history
are a break: what runs in a backward outside must be the user's functions and not the interpreter's. Those of
`save_on_cpu` are the library's, and do nothing but copy: a graph may switch them on and off.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from weft.autograd.graph import disable_saved_tensors_hooks, save_on_cpu, saved_tensors_hooks
from weft.capture.calls import handles, interpreted
from weft.capture.values import Args, Kwargs
from weft.core import modes
from weft.tensor.base import Tensor
from weft.tensor.saved import run_pack
from weft.trace.breaks import Break, NeedOps

if TYPE_CHECKING:
    from weft.capture.machine import Machine


def _save_copies(on: bool) -> None:
    """Switches `save_on_cpu` on or off within a graph."""
    active = modes.modes().saved_hooks
    pair = save_on_cpu()
    modes.enter(saved_hooks=(*active, (pair.pack_hook, pair.unpack_hook)) if on else active[:-1])


class PackedValue:
    """What a pack hook gave for a tensor, from when it has run."""

    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value: Any = None


interpreted(
    saved_tensors_hooks.__init__,
    save_on_cpu.__init__,
    disable_saved_tensors_hooks.__init__,
    disable_saved_tensors_hooks.__enter__,
    disable_saved_tensors_hooks.__exit__,
)


@handles(saved_tensors_hooks.__enter__)
def enter(machine: Machine, args: Args, kwargs: Kwargs) -> None:
    (pair,) = args
    active = modes.modes()
    if active.saved_hooks_error is not None:
        raise machine.fail(RuntimeError(active.saved_hooks_error))
    machine.world.saving += 1
    if machine.by_calls and type(pair) is save_on_cpu:
        machine.recorder.note_switch(_save_copies, (True,))
        return
    if not machine.by_ops:
        raise NeedOps("autograd-inside", seen="saved_tensors_hooks")
    pack, unpack = (machine.attributes.load(pair, name) for name in ("pack_hook", "unpack_hook"))
    modes.enter(saved_hooks=(*active.saved_hooks, hooks(machine, pack, unpack)))


@handles(saved_tensors_hooks.__exit__)
def leave(machine: Machine, args: Args, kwargs: Kwargs) -> None:
    if not machine.world.saving:
        raise Break("mode-change", seen="saved_tensors_hooks from outside, left inside")
    machine.world.saving -= 1
    if machine.by_calls:
        machine.recorder.note_switch(_save_copies, (False,))
        return
    modes.enter(saved_hooks=modes.modes().saved_hooks[:-1])


def hooks(machine: Machine, pack: Any, unpack: Any) -> tuple[Any, Any]:
    """The pair in a form that the tape may call. See Note [When a hook runs]."""
    recorder = machine.recorder
    to_pack, to_unpack = machine.c_arguments.callback(pack), machine.c_arguments.callback(unpack)

    def pack_later(tensor: Tensor) -> PackedValue:
        held = PackedValue()

        def run() -> None:
            held.value = run_pack(to_pack, tensor)

        recorder.waiting.append(run)
        return held

    def unpack_now(held: PackedValue) -> Any:
        return recorder.within(to_unpack, (held.value,), {})

    return pack_later, unpack_now
