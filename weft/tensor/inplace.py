"""In-place forms: `x.add_(y)` from the record of `add`, with PyTorch's rules on leaves, views and dtypes.

Takes an op and its arguments; computes as the functional form would, stores into the first argument's memory, bumps its
version, and moves its history (through its base, if it is a view).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from weft.core import modes
from weft.core.dtypes import BY_NUMPY
from weft.ops.record import REGISTRY, Kind, Op, quiet
from weft.tensor import overrides
from weft.tensor.base import PLAIN, Tensor, wrap
from weft.tensor.dispatch import build_node, gather, refuse_complex, typed, untensored, unwrap_indices
from weft.tensor.meta import MetaArray
from weft.tensor.plan import plan_of
from weft.tensor.tape import INFERENCE
from weft.tensor.views import INFERENCE_VIEW, MULTIPLE, NO_GRAD, overlaps_itself, refresh


def dispatch_inplace(op: Op, bound: tuple[Any, ...], face: Any) -> Tensor:
    """Runs the in-place form of `op` on its first argument and returns that argument."""
    mode = modes.current()
    target: Tensor = bound[0]
    tensors = gather(op, bound)
    if type(mode) is not bool or any(type(t) not in PLAIN for t in tensors):
        handled, result = overrides.intercept_function(face, op, bound, tensors, mode)
        if handled:
            return result  # type: ignore[no-any-return]
    grad = mode if type(mode) is bool else mode.grad  # type: ignore[union-attr]
    if grad:
        for tensor in tensors:
            if tensor.origin is not None:
                refresh(tensor)
    tracked = grad and any(t.tracked for t in tensors)
    check_writable(target, grad, tracked)
    bound = unwrap_indices(op, bound)
    if op.kind is Kind.COMPOSITE:
        return assign(target, op.body(*bound))  # type: ignore[misc]
    check_result(op.name, target, op.on_types(tuple(map(typed, bound))))
    if type(target.array) is MetaArray:
        target.bump()
        return target
    raw = tuple(map(untensored, bound))
    if not tracked:
        write(target, op.on_arrays(raw))
        return target
    keep = target.array.copy() if 0 in plan_of(op).saved else None
    old = alias_of(target)
    result = op.on_arrays(raw)
    write(target, result)
    refuse_complex(op, tensors)
    node = build_node(op, (old, *bound[1:]), target.array, [target], mode, keep)
    set_history(target, node)
    return target


def alias_of(tensor: Tensor) -> Tensor:
    """A stand-in with the tensor's present history, for a node that is built after the write."""
    alias = wrap(tensor.array, tensor.tracked)
    alias.node, alias.index, alias.cell = tensor.node, tensor.index, tensor.cell
    if tensor.tracked and tensor.node is None:
        alias.node = tensor  # a leaf: the edge ends at the tensor itself
    return alias


def assign(target: Tensor, value: Tensor) -> Tensor:
    """Makes `target` hold `value`, with value's history: the in-place form of a composite."""
    check_result("assign", target, typed(value))
    tracked = value.tracked and modes.grad_enabled()
    write(target, value.array)
    if tracked:
        set_history(target, value.node or value)
    elif target.tracked and target.node is not None and modes.grad_enabled():
        detach_history(target)
    return target


def detach_history(target: Tensor) -> None:
    if target.origin is None:
        target.node, target.tracked, target.index = None, False, 0
    else:
        zero = wrap(target.array)
        scatter_history(target, zero)


def write(target: Tensor, result: Any) -> None:
    """Stores a result into the tensor's memory and bumps its version."""
    if result is not target.array:
        quiet(np.copyto, target.array, result, casting="unsafe")
    target.bump()


def set_history(target: Tensor, node: Any, index: int = 0) -> None:
    """The tensor was overwritten by the op behind `node`."""
    if target.origin is None:
        target.node, target.index, target.tracked = node, index, True
        return
    written = wrap(target.array, True)
    written.node, written.index = node, index
    scatter_history(target, written)


def scatter_history(target: Tensor, written: Tensor) -> None:
    """See Note [Views and the tape] in `weft.tensor.views`."""
    view = target.origin
    base = view.base
    node = build_node(REGISTRY["view_scatter"], (alias_of(base), written, view.steps), base.array, [base], True)
    base.node, base.index, base.tracked = node, 0, True
    view.seen = -1
    refresh(target)


def check_writable(target: Tensor, grad: bool, tracked: bool) -> None:
    """Raises where PyTorch forbids writing to this tensor."""
    if target.cell is INFERENCE and not modes.modes().inference and (tracked or grad):
        raise RuntimeError(
            "Inplace update to inference tensor outside InferenceMode is not allowed.You can make a clone to get a normal "
            "tensor before doing inplace update.See https://github.com/pytorch/rfcs/pull/17 for more details."
        )
    if type(target.array) is not MetaArray and overlaps_itself(target.array):
        raise RuntimeError(
            "unsupported operation: more than one element of the written-to tensor refers to a single memory location. "
            "Please clone() the tensor before performing the operation."
        )
    if not grad:
        return
    if target.tracked and target.node is None:
        raise RuntimeError("a leaf Variable that requires grad is being used in an in-place operation.")
    view = target.origin
    if view is None:
        return
    if view.base.tracked and view.base.node is None:
        raise RuntimeError("a view of a leaf Variable that requires grad is being used in an in-place operation.")
    if tracked or view.base.tracked:
        _check_creation(target, view)


def _check_creation(target: Tensor, view: Any) -> None:
    if view.creation == MULTIPLE:
        name = type(target.node).__name__ if target.node is not None else "a function"
        raise RuntimeError(
            f"Output {target.index} of {name} is a view and is being modified inplace. This view is the output of a function "
            "that returns multiple views. Such functions do not allow the output views to be modified inplace. You should "
            "replace the inplace operation by an out-of-place one."
        )
    if view.creation == NO_GRAD:
        raise RuntimeError(
            "A view was created in no_grad mode and is being modified inplace with grad mode enabled. Given that this use case "
            "is ambiguous and error-prone, it is forbidden. You can clarify your code by moving both the view and the inplace "
            "either both inside the no_grad block (if you don't want the inplace to be tracked) or both outside (if you want "
            "the inplace to be tracked)."
        )
    if view.creation == INFERENCE_VIEW:
        raise RuntimeError(
            "A view was created in inference mode and is being modified inplace in normal mode. You can clarify your code by "
            "moving both into the same mode."
        )


def check_result(name: str, target: Tensor, result: Any) -> None:
    """The result must fit the tensor's shape and dtype."""
    wanted = BY_NUMPY[target.array.dtype]
    if result.dtype.category > wanted.category:
        raise RuntimeError(
            f"result type {result.dtype.scalar_name} can't be cast to the desired output type {wanted.scalar_name}"
        )
    if tuple(result.shape) != target.array.shape:
        raise RuntimeError(
            f"output with shape {list(target.array.shape)} doesn't match the broadcast shape {list(result.shape)}"
        )
