"""`.grad` of tensors in captured code: read with guards, written as an effect on the same object.

Takes a machine and a tensor of its program; gives or sets what `.grad` is at this point. One idea: a write is
unconditional, so what stood there before is guarded only where captured code reads it first.

# Note [Where a gradient is kept]
    zero_grad(); loss.backward()      the overlay of the parameter says None, then the sum: one store at the
                                      end, and no guard on what `.grad` was before the call
    loss.backward()                   the engine reads `.grad` first: None, or a tensor of this type, guarded
    w = weft.ones(3, requires_grad=True); w.grad = g      a tensor made here keeps its own, and whoever gets
                                                          it finds it there

# Note [Gradients let go]
    zero_grad(); loss.backward()      eager frees the old gradients first, and then makes new ones. A store at
                                      the end would have both in memory, so where nothing has read the old
                                      one, and nothing before can fail, it goes away before the graph runs
A graph that fails later leaves no trace of that: the original begins with letting go of it, too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from weft.autograd.hooks import RETAINED
from weft.autograd.properties import check_gradient
from weft.capture.values import has_type
from weft.capture.world import ABSENT
from weft.graph.effects import can_fail
from weft.tensor.base import PLAIN, Tensor
from weft.tensor.meta import MetaArray
from weft.trace.breaks import Break

if TYPE_CHECKING:
    from weft.capture.machine import Machine

SLOT = "_grad"
GRADIENT = frozenset({"grad", SLOT})
"""Names of attributes that give or take the gradient. The second is the library's own, and never warns."""


def read_grad(machine: Machine, tensor: Tensor) -> Any:
    """What `tensor.grad` is now: None or a tensor. Guarded where it was there before the call."""
    world = machine.world
    known = world.known.get(id(tensor))
    if known is None:
        return tensor._grad
    written, new = world.written(tensor, SLOT)
    if written:
        return new
    world.let_go[id(tensor)] = False
    return machine.wrapping.wrap(known.original._grad, known.source.member(SLOT))


def write_grad(machine: Machine, tensor: Tensor, value: Any) -> None:
    """Makes `value`, None or a tensor that fits, the gradient of the tensor; nothing is guarded."""
    known = machine.world.known.get(id(tensor))
    if known is None:
        machine.world.changes += 1
        tensor._grad = machine.world.keep(value)
    else:
        if not machine.world.written(tensor, SLOT)[0] and machine.world.let_go.get(id(tensor)) is not False:
            nodes = machine.recorder.graph.nodes
            machine.world.let_go[id(tensor)] = value is None and not any(map(can_fail, nodes))
        machine.world.write(tensor, "attribute", known.source, SLOT, value)


def load_grad(machine: Machine, tensor: Tensor, name: str) -> Any:
    """`tensor.grad`, as captured code reads it."""
    if (
        name == SLOT
        or machine.attributes.is_leaf(tensor)
        or (tensor.hooks is RETAINED and machine.world.is_fresh(tensor))
    ):
        return read_grad(machine, tensor)
    raise Break("tensor-state", seen=".grad of a tensor that is no leaf, which may warn")


def load_node(machine: Machine, tensor: Tensor) -> Any:
    """`tensor.grad_fn` of a tensor that captured code made: the node behind the fake. It may be asked for
    hooks, and never leaves.
    """
    machine.world.nodes[id(tensor.node)] = tensor
    return machine.world.keep(tensor.node)


def store_grad(machine: Machine, tensor: Tensor, value: Any) -> None:
    """`tensor.grad = value`, as captured code writes it; ABSENT deletes, which leaves None."""
    if value is ABSENT or value is None:
        write_grad(machine, tensor, None)
        return
    if has_type(value, Tensor) and not (type(value) in PLAIN and type(value.array) is MetaArray):
        raise Break("tensor-metadata-write", seen=".grad = a tensor of an unusual kind")
    machine.native(check_gradient, tensor, value)
    write_grad(machine, tensor, value)
