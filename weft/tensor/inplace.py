"""In-place forms: `x.add_(y)` from the record of `add`, with PyTorch's rules on leaves, views and dtypes.

Takes an op and its arguments; computes as the functional form would, stores into the first argument's
memory, bumps its version, and moves its history (through its base, if it is a view).
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

import weft.tensor.overrides as overrides
from weft.core import modes
from weft.core.arrays import namespace
from weft.core.dtypes import BY_NUMPY
from weft.core.seams import seams
from weft.core.warn import warn
from weft.ops.indexing import expand_masks, index_key
from weft.ops.record import Kind, Op, ops, quiet
from weft.ops.view import restride
from weft.tensor.base import PLAIN, Tensor, wrap
from weft.tensor.dispatch import (
    build_node,
    check_cast,
    flat_inputs,
    gather,
    refuse_shape,
    typed,
    untensored,
    unwrap_indices,
    watch_indices,
)
from weft.tensor.meta import MetaArray
from weft.tensor.plan import OUT, plan_of
from weft.tensor.tape import INFERENCE
from weft.tensor.views import (
    DEFAULT,
    can_have_gradient,
    check_overlap,
    forbidden_text,
    made_again,
    moved,
    overlaps_itself,
    refresh,
    refuse_overlap,
    repeats,
)
from weft.tensor.wrapper import LevelEntry, highest, mapping

if TYPE_CHECKING:
    from weft.core.arrays import Array
    from weft.core.modes import State
    from weft.tensor.tape import Node


@cache
def writing_face(op: Op) -> Any:
    """The method of tensors that is the in-place form of `op`: what modes are told is called."""
    found = Tensor.__dict__.get(f"{op.name}_")
    if found is None:
        faces = (value for name, value in vars(Tensor).items() if name.endswith("_") and name[:2] != "__")
        found = next((face for face in faces if getattr(face, "op", None) is op), op.face)
    return found


def dispatch_inplace(op: Op, bound: tuple[Any, ...], face: Any) -> Tensor:
    """Runs the in-place form of `op` on its first argument and returns that argument."""
    mode = modes.current()
    target: Tensor = bound[0]
    tensors = gather(op, bound)
    special = type(mode) is not bool or any(type(t) not in PLAIN for t in tensors)
    answer: Tensor
    if special:
        handled, result = overrides.intercept_function(face, op, bound, tensors, mode)
        if handled:
            answer = result
            return answer
        top = highest(bound)
        if top is not None and not (op.kind is Kind.RANDOM and op.composed and mapping()):
            made: Tensor = type(top).write(op, bound, top.level)
            return made
    if op.kind is Kind.RANDOM and op.composed and (maps := mapping()):
        found: Tensor = maps[-1].draw_inplace(op, bound)
        return found
    grad = mode if type(mode) is bool else mode.grad and not mode.inference
    if grad:
        for tensor in tensors:
            if tensor is not target and tensor.origin is not None:
                refresh(tensor)
    if type(mode) is not bool and mode.witness is not None:
        mode.witness(op, tensors, target)
    tracked = grad and any(t.tracked for t in tensors) and can_have_gradient(target)
    overlapping = overlaps_itself(target.array) and not tracked and may_overlap(op, bound, grad)
    check_writable(target, grad, tracked, overlapping)
    tracked = tracked or (grad and target.tracked)
    if special and overrides.is_offered(mode, tensors):
        answer = seams.below.write(op, bound, tensors, mode, tracked)
        return answer
    if overlapping and op is ops.index_put and len(bound[1]) <= target.array.ndim:
        indices, dims = expand_masks(target.array.shape, bound[1])
        return put_overlapping(target, bound[1], (target, bound[2], indices, dims, bound[3]))
    if op.composed:
        if tracked:  # what the body saves must not be what is written next
            before = alias_of(target)
            before.array, before.cell = target.array.copy(), None
            bound = (before, *bound[1:])
        return assign(target, op.body(*bound))  # type: ignore[misc]
    original, bound = bound, unwrap_indices(op, bound)
    check_result(op.name, target, types_of_write(op, target, tuple(map(typed, bound))))
    result = target.array
    if type(result) is not MetaArray:
        raw = tuple([untensored(each) for each in bound])
        if op.kind is Kind.POINTWISE or op is ops.copy or op.apart:
            others = raw[1:2] if op is ops.masked_fill else raw[1:]  # its value is read first
            check_overlap(target.array, others, apart=op.apart)
        if overlapping:
            overwrite(op, raw, target)
            return target
        result = op.on_arrays(raw)
    if not tracked:
        write(target, result)
        return target
    node = node_of_write(op, bound, target, mode)
    if bound is not original:
        watch_indices(op, original, node)
    write(target, result)
    set_history(target, node)
    return target


# Note [Writes to memory that overlaps itself]
# PyTorch refuses most writes to memory with a repeated dimension (`expand`), but some ops do not look; where
# strides fold otherwise (`unfold`), it refuses none. An op that puts values in places is well defined if
# elements that share a place are given one value. Only what the op writes is stored, since an element it
# leaves alone may share its place with one that it writes. Where values differ, the order of the machine's
# loops would decide; so it would for ops that read what they replace (`add_`), and then find what they have
# written themselves. Those are refused, and so is a write that a gradient would have to follow.
def may_overlap(op: Op, bound: tuple[Any, ...], grad: bool) -> bool:
    """Whether an op may write to its first argument, whose elements share memory."""
    target = bound[0]
    base = target if target.origin is None else target.origin.base
    if type(target.array) is MetaArray or (grad and (target.tracked or base.tracked)):
        return False
    if any(step < 0 for step in target.array.strides):
        return False
    if op.placing is None:
        return False
    if repeats(target.array):
        return op.placing.repeats and not (op is ops.fill and isinstance(bound[1], Tensor))
    given = dict(zip(op.signature.names, bound, strict=True))
    return given.get("reduce") is None and not (op is ops.put and given["accumulate"])


def overwrite(op: Op, raw: tuple[Any, ...], target: Tensor) -> None:
    """Stores what an op writes, and nothing else, into memory that overlaps itself."""
    array = target.array
    warn_of_repeats(op, array)
    if op is ops._index_put and raw[4]:
        op.on_arrays(raw)  # raises for indices out of bounds
        quiet(namespace(array).add.at, array, index_key(array.ndim, raw[2], raw[3]), raw[1])
    elif op.placing is not None and op.placing.whole:
        put_where(array, op.on_arrays(raw), True)
    else:
        xp = namespace(array)
        low, high = (op.on_arrays((xp.full(array.shape, n, array.dtype), *raw[1:])) for n in (0, 1))
        put_where(array, low, (low != 0) | (high != 1))
    target.bump()


def put_where(array: Array, values: Any, where: Array | bool) -> None:
    """Writes values to memory that overlaps itself; raises where a place would be given different ones."""
    xp = namespace(array)
    scratch = xp.zeros_like(memory_of(array))
    trial = restride(scratch, array.shape, array.strides)
    quiet(xp.copyto, trial, values, casting="unsafe", where=where)
    wanted = quiet(values.astype, array.dtype)
    if not (((trial == wanted) | ((trial != trial) & (wanted != wanted))) | ~xp.asarray(where)).all():
        refuse_overlap(array)
    quiet(xp.copyto, array, values, casting="unsafe", where=where)


def memory_of(array: Array) -> Any:
    """The span of memory that an array without negative strides lies in, as a vector."""
    reach = sum(step * (size - 1) for step, size in zip(array.strides, array.shape, strict=True))
    return restride(array, (reach // array.itemsize + 1,), (array.itemsize,))


def warn_of_repeats(op: Op, array: Array) -> None:
    """PyTorch's warning before a write to repeated dimensions that it means to refuse one day."""
    if op.placing is not None and op.placing.deprecated is not None and repeats(array):
        method, example = op.placing.deprecated
        warn(
            f"Use of {method} on expanded tensors is deprecated. Please clone() the tensor before performing "
            f"this operation. This also applies to advanced indexing e.g. {example}"
        )


def put_overlapping(target: Tensor, items: Any, bound: tuple[Any, ...]) -> Tensor:
    """`index_put_` at index tensors (or None) into memory that may overlap itself; PyTorch writes a single
    value under a mask by `masked_fill_`, and warns of both.
    """
    inner = ops._index_put
    dispatch_inplace(inner, bound, writing_face(inner))
    places = [item for item in items if item is not None]
    if (
        len(places) == 1
        and typed(places[0]).dtype.name == "bool"
        and bound[1].array.size == 1
        and not bound[4]
    ):
        warn_of_repeats(ops.masked_fill, target.array)
    return target


def types_of_write(op: Op, target: Tensor, types: tuple[Any, ...]) -> Any:
    """The type of the result. A dtype that no kernel serves is refused, but only after shape and dtype were
    found fit."""
    try:
        result = op.on_types(types)
        if op.inplace == "exact" and result.dtype is not types[0].dtype:
            raise RuntimeError(
                f"the base given to {op.name}_ has dtype {types[0].dtype.scalar_name} but the operation's "
                "result requires "
                f"dtype {result.dtype.scalar_name}"
            )
        return result
    except NotImplementedError:
        base = getattr(op.promotion, "base", None)
        if base is not None:
            check_result(op.name, target, base.rule(op, types))
        raise


def node_of_write(op: Op, bound: tuple[Any, ...], target: Tensor, mode: State) -> Any:
    """The node of an in-place call that is about to write: inputs are noted at the version they have now."""
    plan = plan_of(op)
    needs = tuple(isinstance(v, Tensor) and v.tracked for v in flat_inputs(plan, bound))
    saves = plan.saved_for(needs) if plan.fixed else plan.saved
    keep = target.array.copy() if 0 in saves else None
    node = build_node(op, (alias_of(target), *bound[1:]), target.array, [target], mode, keep)
    if OUT in saves and type(node.saved) is tuple:  # the output will be one version on
        node.versions = (node.versions[0], node.versions[1] + 1, *node.versions[2:])
    return node


def alias_of(tensor: Tensor) -> Tensor:
    """A stand-in with the tensor's present history, for a node whose input it is."""
    alias = wrap(tensor.array, tensor.tracked)
    if tensor.origin is not None and getattr(tensor.node, "hooks", None) is not None:
        again = made_again(tensor.origin)  # see Note [Views and the tape] in `weft.tensor.views`
        alias.node, alias.index, alias.cell = again.node, again.index, tensor.cell
        return alias
    alias.node, alias.index, alias.cell = tensor.node, tensor.index, tensor.cell
    if tensor.tracked and tensor.node is None:
        alias.node = tensor  # a leaf: the edge ends at the tensor itself
    return alias


def assign(target: Tensor, value: Tensor) -> Tensor:
    """Makes `target` hold `value`, with value's history: the in-place form of a composite."""
    check_result("assign", target, typed(value))
    mode = modes.current()
    special = type(mode) is not bool or type(target) not in PLAIN or type(value) not in PLAIN
    if special and overrides.is_offered(mode, (target, value)):
        made: Tensor = seams.below.put(target, value)
        return made
    if type(mode) is not bool and mode.witness is not None:
        mode.witness(None, [value], target)
    grad = mode if type(mode) is bool else mode.grad and not mode.inference
    if not grad or not (value.tracked or target.tracked):
        write(target, value.array)
        return target
    if not value.tracked:  # the old history stays, with a gradient of zeros
        node = build_node(
            ops.view_scatter, (alias_of(target), wrap(value.array), ()), target.array, [target], mode
        )
        index = 0
    else:
        if value.node is None or value.array.dtype is not target.array.dtype:
            value = ops._to_copy(value, BY_NUMPY[target.array.dtype])
        node, index = value.node, value.index
    write(target, value.array)
    set_history(target, node, index)
    return target


def write(target: Tensor, result: object) -> None:
    """Stores a result into the tensor's memory and bumps its version."""
    if result is not target.array and type(target.array) is not MetaArray:
        quiet(namespace(target.array).copyto, target.array, result, casting="unsafe")
    target.bump()


def set_history(target: Tensor, node: Node, index: int = 0) -> None:
    """The tensor was overwritten by the op behind `node`."""
    if target.origin is None:
        _move(target, node, index)
        return
    written = wrap(target.array, True)
    written.node, written.index = node, index
    scatter_history(target, written)


def _move(tensor: Tensor, node: Node, index: int) -> None:
    before = tensor.node, tensor.index
    tensor.node, tensor.index, tensor.tracked = node, index, True
    if tensor.hooks is not None:
        moved(tensor, *before)


def scatter_history(target: Tensor, written: Tensor) -> None:
    """See Note [Views and the tape] in `weft.tensor.views`."""
    view = target.origin
    base = view.base
    node = build_node(ops.view_scatter, (alias_of(base), written, view.steps), base.array, [base], True)
    _move(base, node, 0)
    view.seen = -1
    refresh(target)


def check_writable(target: Tensor, grad: bool, tracked: bool, overlapping: bool = False) -> None:
    """Raises where PyTorch forbids writing to this tensor; `overlapping`: its elements may share memory."""
    if target.cell is INFERENCE and not modes.modes().inference:
        raise RuntimeError(
            "Inplace update to inference tensor outside InferenceMode is not allowed.You can make a clone to "
            "get a normal "
            "tensor before doing inplace update.See https://github.com/pytorch/rfcs/pull/17 for more details."
        )
    if not overlapping:
        refuse_overlap(target.array)
    check_history(target, grad, tracked)


def check_history(target: Tensor, grad: bool, tracked: bool) -> None:
    """Raises where the tape cannot follow a write to this tensor: leaves, and views made in certain ways."""
    if not grad:
        return
    view = target.origin
    if view is not None:
        if (tracked or target.tracked or view.base.tracked) and view.creation != DEFAULT:
            raise RuntimeError(forbidden_text(target, view, "is being"))
        refresh(target)
        base = view.base
        if (base.tracked and base.node is None) or (
            target.tracked and (base.node is None or target.node is None)
        ):
            raise RuntimeError(
                "a view of a leaf Variable that requires grad is being used in an in-place operation."
            )
    elif target.tracked and (target.node is None or type(target.node) is LevelEntry):
        raise RuntimeError("a leaf Variable that requires grad is being used in an in-place operation.")


def check_result(name: str, target: Tensor, result: Any) -> None:
    """The result must fit the tensor's shape and dtype."""
    check_cast(result.dtype, target)
    if tuple(result.shape) != target.array.shape:
        refuse_shape(target.array.shape, result.shape)
