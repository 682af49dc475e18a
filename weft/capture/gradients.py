"""Gradients inside captured code: `backward()`, `autograd.grad`, `.grad` of leaves, and what hooks do.

Takes the calls that a recorder leaves to autograd (`Treatment.AUTOGRAD`); runs the library's own engine over
the fakes. One idea: the tape of fakes is a tape like any other, so nothing of the sweep is written twice:
each gradient rule's ops are recorded where the engine runs them, and a hook is called back into the
interpreter at the very moment when eager would call it.

# Note [A backward in a graph]
    loss = (model(x) - y).square().sum()      the ops of the forward pass, one by one (see `NeedOps`)
    loss.backward()                           the ops of each gradient rule, in the engine's order
                                              p.grad is None:  clone of the gradient, an effect on p
                                              else:            p.grad.add_(gradient), in place
    return loss                               what is handed out has a spent history, as in eager
A leaf that existed before has its hooks and its `.grad` guarded. A clone is left out of the graph where its
argument is new and nobody else's: see `without_clones`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from weft.autograd import engine
from weft.autograd.function_node import FunctionNode
from weft.autograd.hooks import KINDS, Hooks, HookTable, hooks_of
from weft.autograd.nodes import GradientEdge, anchor
from weft.autograd.tasks import reachable
from weft.capture.grads import read_grad, write_grad
from weft.capture.sources import Source
from weft.capture.values import Args, Kwargs, has_type
from weft.core.interrupts import let_through
from weft.core.records import record
from weft.core.types import contiguous_format
from weft.graph.effects import ACCUMULATES
from weft.graph.node import Node
from weft.ops.record import REGISTRY, Kind
from weft.ops.sweep import LEAF_SEQUENCE
from weft.tensor.base import PLAIN, Tensor
from weft.tensor.views import is_dense, refresh
from weft.trace.breaks import Break, NeedOps
from weft.trace.fake import Outside, bare, is_fake

if TYPE_CHECKING:
    from weft.capture.machine import Machine

KIND: Final = "autograd-inside"


def differentiate(machine: Machine, func: Any, name: str, args: Args, kwargs: Kwargs) -> Any:
    """Stands for `backward`, `grad` and the other calls that concern the tape."""
    if func in SWEEPS:
        if not machine.by_ops:
            raise NeedOps(KIND, seen=name)
        return run_engine(machine, func, args, kwargs)
    if name in ("retain_grad", "retains_grad") and machine.world.is_fresh(args[0]):
        return func(*args, **kwargs)
    raise Break(KIND, seen=f"Tensor.{name}")


INPUTS: Final = {Tensor.__dict__["backward"]: 4, engine.backward: 5, engine.grad: 1}
"""Where the sweeps take the tensors whose gradients alone are asked for."""
SWEEPS: Final = tuple(INPUTS)


def run_engine(machine: Machine, func: Any, args: Args, kwargs: Kwargs) -> Any:
    """Runs the sweep over the fakes."""
    recorder: Any = machine.recorder
    if machine.saved_through:
        raise Break(KIND, seen="a backward under saved_tensors_hooks from outside")
    args, kwargs = as_tuples(args), {name: as_tuples((value,))[0] for name, value in kwargs.items()}
    names, args, kwargs = without_names(INPUTS[func], args, kwargs)
    roots = roots_of(args[:1] or (kwargs.get("outputs", kwargs.get("tensors")),))
    check_outside(machine, roots, kwargs.get("inputs", args[INPUTS[func] : INPUTS[func] + 1]))
    for leaf in leaves_behind(roots):
        learn_leaf(machine, leaf)
    before = {id(tensor) for tensor in recorder.tensors()} | machine.world.known.keys()
    result = recorder.within(recorder.plain(func), args, kwargs)
    if func is not engine.grad:
        return None
    gradients = own_results(recorder, result, before)
    return tuple(gradients) if names is None else dict(zip(names, gradients, strict=True))


def without_names(place: int, args: Args, kwargs: Kwargs) -> tuple[list[Any] | None, Args, Kwargs]:
    """The keys of the inputs where these are a dict, and the arguments with a tuple in its place."""
    inputs = kwargs.get("inputs", args[place] if len(args) > place else None)
    if type(inputs) is not dict:
        return None, args, kwargs
    values = tuple(inputs.values())
    if "inputs" in kwargs:
        return list(inputs), args, {**kwargs, "inputs": values}
    return list(inputs), (*args[:place], values, *args[place + 1 :]), kwargs


def check_outside(machine: Machine, roots: list[Any], inputs: Any) -> None:
    """Breaks where gradients of some tensors alone are asked for, and might flow to them on a tape that
    captured code does not know.
    """
    outside = [node for node in reachable(roots) if has_type(node, Outside)]
    if not outside:
        return
    found = [value for value in as_list(inputs) if id(value) in machine.world.known]
    if found and not (len(found) == len(outside) == 1 and found[0].node is outside[0]):
        raise Break(KIND, seen="gradients that may flow to a tensor on a tape from outside")


def check_inference(machine: Machine) -> None:
    """Breaks where a transform saves a tensor made in inference mode and others are on a tape: a graph has no
    transform around its ops, so the tape that these make when it runs would refuse to save that tensor.
    """
    recorder: Any = machine.recorder
    tensors = [*recorder.tensors(), *(known.value for known in machine.world.known.values())]
    found = [value for value in tensors if has_type(value, Tensor) and value.tracked]
    first = [value for value in found if value.node is None or has_type(value.node, Outside)]
    if any(id(value) not in recorder.entries for value in first):
        raise Break(KIND, seen="a tensor made in inference mode that a transform saves")


def as_list(values: Any) -> list[Any]:
    """The tensors in tuples of tuples."""
    if has_type(values, (tuple, list)):
        return [value for item in values for value in as_list(item)]
    return [values]


def as_tuples(values: Args) -> Args:
    """The arguments, with tuples in place of iterators over tensors, which are read twice."""
    plain = (Tensor, GradientEdge, dict, str, bool, int)
    return tuple(
        [v if v is None or has_type(v, plain) or not hasattr(v, "__iter__") else tuple(v) for v in values]
    )


def own_results(recorder: Any, result: Any, before: set[int]) -> list[Any]:
    """Gradients as eager returns them: never a tensor that is referenced already, though it may alias one."""
    seen: set[int] = set(before)
    given: list[Any] = []
    for value in result:
        if has_type(value, Tensor) and id(value) in seen and not value.tracked:
            value = recorder.call_method("detach", (value,))
        seen.add(id(value))
        given.append(value)
    return given


def roots_of(values: Any) -> list[Any]:
    """The tape's nodes (or leaves) behind outputs."""
    found: list[Any] = []
    for value in values:
        if has_type(value, GradientEdge):
            found.append(anchor(value.node))
        elif has_type(value, Tensor):
            if value.tracked:
                found.append(value if value.node is None else value.node)
        elif has_type(value, (tuple, list)):
            found += roots_of(value)
    return found


def leaves_behind(roots: list[Any]) -> list[Any]:
    return [node for node in reachable(roots) if node._seq == LEAF_SEQUENCE]


# -- leaves that existed before ------------------------------------------------------------------------------
@record(slots=True)
class Removed:
    """A handle from outside whose hook captured code took away."""

    handle: Any


def learn_leaf(machine: Machine, leaf: Any) -> None:
    """Gives the fake of a leaf the hooks of its original; guarded."""
    known = machine.world.known.get(id(leaf))
    if known is None or id(leaf) in machine.leaves:
        return
    machine.leaves.add(id(leaf))
    machine.recorder.facts.append((leaf, "is_leaf"))
    hooks = known.original.hooks
    machine.world.guard("FACT", known.source, ("has_hooks", bool(hooks)))
    if not hooks:
        return
    if type(hooks) is not Hooks:
        raise Break(KIND, seen="a backward through a leaf with other things than hooks on it")
    if any(has_type(each, Removed) for each in machine.world.hooked):
        raise Break(KIND, seen="a backward after the removal of a hook from outside")
    source = known.source.slot(Tensor, "hooks").slot(Hooks, "tables")
    machine.world.guard("KEYS", source, tuple(hooks.tables))
    mine = hooks_of(leaf)
    for kind in KINDS:
        tables = hooks.tables.get(kind.name)
        if tables is not None:
            learn_table(machine, tables[0], source.item(kind.name).item(0), mine.table(kind))


def learn_table(machine: Machine, table: HookTable, source: Source, copy: HookTable) -> None:
    machine.world.guard("KEYS", source, tuple(table))
    own = dict(copy)
    copy.clear()
    for number, hook in table.items():
        copy[number] = machine.c_arguments.callback(machine.wrapping.wrap(hook, source.item(number)))
    copy.update(own)  # registered by captured code: behind the others


def accumulate(machine: Machine, leaf: Any, gradient: Any, create_graph: bool) -> None:
    """Adds to a leaf's `.grad`, as the engine does to real ones: in place, unless the sum itself must be
    differentiable.
    """
    if not leaf.tracked:
        return
    if leaf.node is not None:
        raise RuntimeError("leaf variable has been moved into the graph interior")
    before = read_grad(machine, leaf)
    if before is not None and not create_graph:
        before.add_(gradient)
        return
    if before is not None:
        new = REGISTRY["add"](before, gradient)
    else:
        new = copy_like(machine, leaf, gradient)
    write_grad(machine, leaf, new)


def copy_like(machine: Machine, leaf: Any, gradient: Any) -> Any:
    """A copy with the strides of the leaf if these are known and leave no gaps, else row by row."""
    strides = leaf.array.strides
    if not leaf.array.exact:
        layout = {}
    elif leaf.is_contiguous() or not is_dense(leaf.array):
        layout = {"memory_format": contiguous_format}
    elif gradient.array.exact and gradient.array.strides == strides:
        layout = {}
    else:
        made = REGISTRY["new_empty_strided"](gradient, leaf.shape, leaf.stride())
        made.copy_(gradient)
        return made
    new = REGISTRY["clone"](gradient, **layout)
    machine.recorder.node(new).meta[ACCUMULATES] = strides
    return new


# -- afterwards ----------------------------------------------------------------------------------------------
def without_clones(recorder: Any, outputs: list[Node]) -> list[Node]:
    """Removes clones of gradients that are new and unaliased from a graph; gives its outputs."""
    instead: dict[Node, Node] = {}
    for node in list(recorder.graph.nodes):
        layout = node.meta.get(ACCUMULATES)
        if layout is None:
            continue
        source = instead.get(node.args[0], node.args[0])
        alone = len(source.users) == 1 and source not in outputs
        if not alone or not is_new(source):
            continue
        if not source.meta["val"].array.exact and node.kwargs:  # a copy only where its layout is another
            node.op, node.target, node.kwargs = "call_method", "contiguous", {}
        elif source.meta["val"].array.strides == layout:
            for user in node.users:
                written = user.meta.get("writes")
                if written:
                    user.meta["writes"] = tuple([source if each is node else each for each in written])
            node.replace_all_uses_with(source)
            recorder.replace(node, source)
            recorder.graph.erase_node(node)
            instead[node] = source
    return [instead.get(node, node) for node in outputs]


def is_new(node: Node) -> bool:
    """Whether a node gives memory of its own."""
    op = getattr(node.target, "op", None)
    value: Any = node.meta.get("val")
    if op is None or node.meta.get("writes") or type(value) not in PLAIN or "out" in node.kwargs:
        return False
    return op.kind in (Kind.POINTWISE, Kind.REDUCE, Kind.CONTRACT)


def history(tensor: Tensor) -> Any:
    """The node behind a tensor as it is now: a view whose base was written has another than before."""
    if tensor.origin is not None:
        try:
            refresh(tensor)
        except RuntimeError as error:  # a write made the view unusable: nobody comes by it
            let_through(error)
    return tensor.node


def is_spent(tensor: Any) -> bool:
    """Whether a backward has freed the saved tensors of a tensor's history: another one would raise."""
    root = history(tensor)
    return root is not None and tensor.tracked and is_spent_from(root)


def is_spent_from(root: Any) -> bool:
    """Whether a backward has freed some node that this one leads to."""
    nodes = [node for node in reachable([root]) if node._seq != LEAF_SEQUENCE]
    if any(is_freed(node) for node in nodes):
        return True
    for node in nodes:
        if has_type(node, FunctionNode) and node.stands_in:  # nothing in the graph puts it there
            raise Break(KIND, seen=f"a tensor handed on with {type(node).__name__} behind it")
    return False


def spent_on(tensor: Any) -> list[Tensor] | None:
    """The leaves that a spent history leads to; None where it leads to others too, by ways that are not, or
    where a custom backward decides whether anything spent is asked for.
    """
    found = reachable([tensor.node])
    if not asks_for_spent(tensor.node):
        return None
    spent = reachable([node for node in found if node._seq != LEAF_SEQUENCE and is_freed(node)])
    ends = [node for node in found if node._seq == LEAF_SEQUENCE or has_type(node, Outside)]
    if any(node not in spent or has_type(node, Outside) for node in ends):
        return None
    return ends


def asks_for_spent(root: Any) -> bool:
    """Whether a sweep from here visits a freed node, whatever custom backwards give before."""
    waiting, seen = [root], {root}
    while waiting:
        node = waiting.pop()
        if node._seq == LEAF_SEQUENCE:
            continue
        if is_freed(node):
            return True
        if not has_type(node, FunctionNode):
            new = [target for target in node.next if target is not None and target not in seen]
            seen.update(new)
            waiting += new
    return False


def is_freed(node: Any) -> bool:
    if has_type(node, FunctionNode):  # one that saved nothing can be swept again
        return node.ctx._items is None and node.ctx._versions is not None
    return node.saved is None


def without_history(recorder: Any, tensor: Any) -> Node:
    """The node that gives a tensor's elements alone; one for each tensor."""
    found: Node | None = recorder.bare.get(id(tensor))
    if found is None:
        found = recorder.graph.call_method("detach", (recorder.node(tensor),))
        found.meta["val"] = bare(tensor)
        recorder.bare[id(tensor)] = found
    return found


# -- what a tensor is ----------------------------------------------------------------------------------------
def change(machine: Machine, func: Any, name: str, args: Args, kwargs: Kwargs) -> Any:
    """`requires_grad_`, `detach_`, `t_` and their like: a node, which stands for the tensor from here on."""
    tensor = args[0]
    recorder = machine.recorder
    if not has_type(tensor, Tensor) or type(tensor) not in PLAIN or not is_fake(tensor):
        return NotImplemented
    known = id(tensor) in machine.world.known
    if known and name not in OF_INPUTS or name not in OF_FRESH:
        return NotImplemented
    if known and not machine.attributes.is_leaf(tensor):
        return NotImplemented
    before = tensor.tracked
    func(*args, **kwargs)
    if tensor.tracked is before and name in OF_INPUTS:
        return tensor
    node = recorder.node(tensor)
    changed = recorder.append(("call_method", name, False), args, kwargs, tensor)
    changed.meta["writes"] = (node,)
    recorder.bind(tensor, changed)
    return tensor


OF_INPUTS: Final = frozenset({"requires_grad_"})
OF_FRESH: Final = OF_INPUTS | {
    "detach_", "t_", "transpose_", "swapaxes_", "swapdims_", "squeeze_", "unsqueeze_",
}  # fmt: skip
"""Calls that change what a tensor is, and can be made in a graph."""
