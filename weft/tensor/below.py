"""Below autograd: `__torch_dispatch__` of modes and of tensor classes, which are handed operators.

Takes a call that the dispatcher would run on arrays; offers it to the innermost `TorchDispatchMode`, then to
the classes of the tensors; records what they answer. One idea: recording is the same as for any call, but a
handler's results stand in for the kernel's, and what is saved are tensors, since such a class may have no
array at all.

# Note [Handlers below autograd]
    class Log(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            return func(*args, **(kwargs or {}))
While it runs, the mode is off and nothing is recorded: the node of the call is made behind it. `func` called
inside goes on to the mode around this one, then to the classes, then to the kernel. Composites are offered as
the ops in their bodies (`weft.ops.overload_bodies` has some for records that are none here), draws of random
numbers whole. Gradients are computed by the same rules on tensors, so handlers see the ops of backward.

# Note [Tensors without arrays]
`_make_wrapper_subclass` gives a tensor whose `array` is a MetaArray: shape, dtype, strides and device, no
elements. A method of tensors that is written by hand must not read it. So classes with a handler get methods
that set the mode `wary`: then none of them takes a short cut, and all end in ops.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import wraps
from types import FunctionType
from typing import TYPE_CHECKING, Any, Final

from weft.core import modes
from weft.core.modes import enter, leave
from weft.core.trees import sequence_like
from weft.ops.overload_bodies import BODIES
from weft.ops.overload_forms import operator_name, overload_of, record_named, spelled
from weft.ops.record import Kind, Op, ops
from weft.tensor.backward import revive
from weft.tensor.base import PLAIN, Tensor, new, storage_root
from weft.tensor.dispatch import (
    dispatch,
    named,
    record,
    refresh_all,
    require_gradient,
    resize_out,
)
from weft.tensor.inplace import dispatch_inplace, node_of_write, set_history, writing_face
from weft.tensor.meta import MetaArray
from weft.tensor.overloads import packet_named
from weft.tensor.overrides import handling, has_handler
from weft.tensor.plan import OUT, plan_of
from weft.tensor.saved import Item, PackedValues, unpacked
from weft.tensor.tape import INFERENCE, Node
from weft.tensor.views import DEFAULT, INFERENCE_VIEW, MULTIPLE, NO_GRAD, Stop, attach_view

if TYPE_CHECKING:
    from weft.core.modes import State


def handlers_among(values: Iterable[Any]) -> list[Any]:
    """The tensors whose classes are asked, one for each class: in order, subclasses before bases."""
    found: list[Any] = []
    for value in values:
        if not has_handler(value) or any(type(other) is type(value) for other in found):
            continue
        place = next((i for i, o in enumerate(found) if issubclass(type(value), type(o))), len(found))
        found.insert(place, value)
    return found


def offered(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], tensors: Iterable[Any]) -> Any:
    """What the innermost mode, or else a class, answers; TypeError if all decline."""
    mode = modes.current()
    stack = () if type(mode) is bool else mode.dispatch
    candidates = [] if modes.modes().unhandled else handlers_among(tensors)
    types = tuple(type(value) for value in candidates)
    if stack:
        token = enter(dispatch=stack[:-1], grad=False, wary=False)
        try:
            result = stack[-1].__torch_dispatch__(func, types, args, kwargs)
        finally:
            leave(token)
        if result is not NotImplemented:
            return result
    for value in candidates:
        handler: Any = type(value).__torch_dispatch__
        token = enter(grad=False, wary=False)
        try:
            result = handler(func, types, args, kwargs)
        finally:
            leave(token)
        if result is not NotImplemented:
            return result
    lines = [
        f"Multiple dispatch failed for 'weft.ops.{func}'; all __torch_dispatch__ handlers returned "
        "NotImplemented:",
        "",
    ]
    lines += [f"  - mode object {stack[-1]}"] if stack else []
    lines += [f"  - tensor subclass {kind}" for kind in types]
    raise TypeError("\n".join(lines))


# -- calls ---------------------------------------------------------------------------------------------------
def call(op: Op, bound: tuple[Any, ...], tensors: list[Tensor], mode: State) -> Any:
    """The call of an op that somebody is to be offered; NotImplemented where a composite's body is to run."""
    grad = mode if type(mode) is bool else mode.grad and not mode.inference
    if op.composed and not is_whole(op, grad and any(tensor.tracked for tensor in tensors)):
        return NotImplemented
    body = BODIES.get(op.qualified_name)
    if body is not None:
        result = body(*bound)
        if result is not NotImplemented:
            return result
    if grad:
        refresh_all(tensors)
    args, kwargs = spelled(op, bound)
    results = offered(packet_named(operator_name(op)).overload(overload_of(op, bound)), args, kwargs, tensors)
    return finished(op, bound, tensors, results, mode)


def is_whole(op: Op, tracked: bool) -> bool:
    """Whether a composite is offered as it is: draws, whose numbers come from a generator."""
    return op.kind is Kind.RANDOM and not tracked and has_operator(op)


def has_operator(op: Op) -> bool:
    """Whether the operator of its name is this op: a composite may share it with an op in its body."""
    return record_named(operator_name(op)) is op


def finished(op: Op, bound: tuple[Any, ...], tensors: list[Tensor], results: Any, mode: State) -> Any:
    """A handler's results: views of what they view, with the node of the call behind them."""
    many = isinstance(results, (tuple, list))
    outputs: list[Any] = list(results) if many else [results]
    if not outputs or any(not isinstance(output, Tensor) for output in outputs):
        return results
    around = modes.in_full(mode)
    tracked = around.grad and not around.inference and any(tensor.tracked for tensor in tensors)
    if op.kind is Kind.VIEW:
        creation = INFERENCE_VIEW if around.inference else DEFAULT if around.grad else NO_GRAD
        creation = creation or (MULTIPLE if many else DEFAULT)
        for i, output in enumerate(outputs):
            outputs[i] = adopted(bound[0], output, (op, bound[1:], i if many else None), creation)
    else:
        for i, output in enumerate(outputs):
            if tracked and (output.tracked or any(output is tensor for tensor in tensors)):
                outputs[i] = shallow(output)
            if around.inference:
                outputs[i].cell = INFERENCE
    results = sequence_like(results, outputs) if many else outputs[0]
    if around.witness is not None:
        around.witness(op, tensors, results)
    if tracked:
        record(op, bound, tensors, results, mode)
        node = next((output.node for output in outputs if output.node is not None), None)
        if node is not None:
            keep(node, bound, outputs)
    gradient = op.signature.gradient_slot
    if gradient is not None and bound[gradient] and not outputs[0].tracked:
        require_gradient(outputs[0])
    return named(op, results)


def shallow(tensor: Tensor) -> Any:
    """The same memory, attributes and version as another tensor of the class, without its history."""
    made = new(type(tensor))
    made.array, made.cell = tensor.array, tensor.shared_cell()
    made.node = made.origin = made._grad = made.hooks = None
    made.index, made.tracked = 0, False
    for kind in type(tensor).__mro__[: type(tensor).__mro__.index(Tensor)]:
        slots = kind.__dict__.get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            if hasattr(tensor, name):
                setattr(made, name, getattr(tensor, name))
    made.__dict__.update(tensor.__dict__)
    return made


def adopted(parent: Tensor, made: Any, step: tuple[Any, ...], creation: int) -> Any:
    """What a handler gave for a view: a view of the parent, if it lies in its memory."""
    if made is parent or (made.tracked and type(made.node) is not Stop):
        made = shallow(made)
    hollow = type(made.array) is MetaArray or type(parent.array) is MetaArray
    if not hollow and storage_root(made.array) is not storage_root(parent.array):
        return made
    like = attach_view(parent, made.array, step, creation)
    made.cell, made.origin = like.cell, like.origin
    made.node, made.index, made.tracked = like.node, like.index, like.tracked
    return made


# -- what backward needs -------------------------------------------------------------------------------------
class KeptTensors(PackedValues):
    """Stands for `node.saved` where classes with handlers take part: their tensors are kept as they are."""

    __slots__ = ()

    def tensors(self, node: Node) -> tuple[Any, ...]:
        return tuple([revived(node, source, value) for source, value in zip(node.saved_sources, self.values)])


def revived(node: Node, source: int, value: Any) -> Any:
    """One saved value as a tensor with its history, of the class that it had."""
    if type(value) is tuple or type(value) is list:
        plain = revive(node, source, unpacked(value))
        return type(value)(
            [like_saved(item, each) if type(item) is Item else each for item, each in zip(value, plain)]
        )
    if type(value) is not Item:
        return revive(node, source, value)
    tensor = value.tensor()
    return like_saved_tensor(tensor, revive(node, source, tensor.array))


def like_saved(item: Item, plain: Tensor) -> Tensor:
    return like_saved_tensor(item.tensor(), plain)


def like_saved_tensor(tensor: Tensor, plain: Tensor) -> Tensor:
    """A saved tensor with the history of the plain one that stands for it."""
    if type(tensor) in PLAIN or type(plain) is type(tensor):
        return plain
    made: Tensor = shallow(tensor)
    made.node, made.index, made.tracked = plain.node, plain.index, plain.tracked
    return made


def keep(node: Node, bound: tuple[Any, ...], outputs: list[Tensor], instead: Any = None) -> None:
    """Lets a node keep tensors where it saved the arrays of some whose classes have handlers; `instead` of
    the first argument, which was written to, a copy.
    """
    if node.saved is None or not node.saved:
        return
    inputs = [each for value in bound for each in (value if isinstance(value, (tuple, list)) else (value,))]
    if not any(has_handler(value) for value in (*inputs, *outputs)):
        return
    if type(node.saved) is not tuple:  # hooks have them
        node.saved = KeptTensors(node.saved.values)
        return
    values: list[Any] = []
    for source, saved in zip(node.saved_sources, node.saved, strict=True):
        of_results: Any = outputs if type(saved) is tuple else outputs[0]
        original = of_results if source == OUT else bound[source]
        values.append(held(saved, instead if source == 0 and instead is not None else original))
    node.saved = KeptTensors(tuple(values))


def held(saved: Any, original: Any) -> Any:
    if type(saved) is tuple or type(saved) is list:
        return type(saved)([held(each, tensor) for each, tensor in zip(saved, original)])
    if saved is None or not has_handler(original):
        return saved
    return Item(shallow(original), _itself, saved)


def _itself(value: Any) -> Any:
    return value


def computes_on_tensors(roots: Iterable[Any]) -> bool:
    """Whether a backward from these nodes meets tensors whose classes have handlers."""
    stack = list(roots)
    seen = set(stack)
    while stack:
        node = stack.pop()
        if node is None:
            continue
        if isinstance(node, Tensor):
            if has_handler(node):
                return True
            continue
        if type(node.saved) is KeptTensors or getattr(node, "meets_handlers", False):
            return True
        for target in node.next:
            if target is not None and target not in seen:
                seen.add(target)
                stack.append(target)
    return False


# -- writes --------------------------------------------------------------------------------------------------
def write(op: Op, bound: tuple[Any, ...], tensors: list[Tensor], mode: State, tracked: bool) -> Any:
    """The in-place form of an op that somebody is to be offered."""
    target: Tensor = bound[0]
    if (op.composed and not is_whole(op, tracked)) or not has_operator(op):
        return put(target, dispatch(op, (ops.clone(target), *bound[1:])))
    node = copy = None
    if tracked and op.vjp is not None:
        if has_handler(target) and 0 in plan_of(op).saved:
            token = enter(grad=False)
            try:
                copy = ops.clone(target)
            finally:
                leave(token)
        node = node_of_write(op, bound, target, mode)
    before = target.cell[0] if type(target.cell) is list else 0
    args, kwargs = spelled(op, bound)
    func = packet_named(f"{operator_name(op)}_").overload(overload_of(op, bound))
    offered(func, args, kwargs, tensors)
    if (target.cell[0] if type(target.cell) is list else 0) == before:
        target.bump()
    if node is not None:
        keep(node, bound, [target], copy)
        set_history(target, node)
    return target


def put(target: Tensor, value: Tensor) -> Tensor:
    """Writes another tensor's elements, as an operator that somebody is offered."""
    made: Tensor = dispatch_inplace(ops.copy, (target, value, False), writing_face(ops.copy))
    return made


def into(op: Op, bound: tuple[Any, ...], tensors: list[Tensor], out: Any) -> Any:
    """The `out=` form."""
    targets = out if isinstance(out, (tuple, list)) else (out,)
    if not has_operator(op):
        results = dispatch(op, bound, casts=False)
        for target, value in zip(targets, results if isinstance(results, (tuple, list)) else (results,)):
            if target.shape != value.shape:
                resize_out(target, value.shape)
            put(target, value)
        return out
    args, kwargs = spelled(op, bound)
    func = packet_named(operator_name(op)).overload("out")
    offered(func, args, kwargs | {"out": out}, (*tensors, *targets))
    return out


# -- functions that are no ops -------------------------------------------------------------------------------
def function_offered(name: str, *args: Any) -> Any:
    """What is answered to a call of an operator that no record stands behind."""
    return offered(packet_named(name).overload("default"), args, {}, args)


def wary(plain: FunctionType) -> Callable[..., Any]:
    """A method of tensors for classes with handlers: see Note [Tensors without arrays]."""

    @wraps(plain)
    def method(*args: Any, **kwargs: Any) -> Any:
        if type(modes.current()) is not bool:
            return plain(*args, **kwargs)
        token = enter(wary=True)
        try:
            return plain(*args, **kwargs)
        finally:
            leave(token)

    return method


def guard(cls: type[Tensor]) -> None:
    """Gives a new class with a handler methods that take no short cuts."""
    if not any(isinstance(each, type) for each in handling):
        handling.append(Tensor)
    for name in SHORT_CUTS:
        plain = getattr(Tensor, name)
        if getattr(cls, name, None) is plain and isinstance(plain, FunctionType):
            setattr(cls, name, wary(plain))


SHORT_CUTS: Final = (
    "__getitem__", "__setitem__", "to", "type", "float", "double", "half", "bfloat16", "int", "long", "bool",
    "copy_", "contiguous", "cpu", "type_as", "__iter__",
)  # fmt: skip
"""Methods written by hand that read arrays where nothing but plain tensors can take part."""
