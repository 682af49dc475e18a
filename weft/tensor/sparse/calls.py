"""Calls that sparse tensors take over: ops and their in-place forms, and gradients that arrive.

Takes an op and its arguments; gives what its rule gives. One idea: an op without a rule is run on what is
stored if it is one of single elements that leaves zeros as they are, and refused otherwise.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from weft.core import modes
from weft.core.types import sparse_coo
from weft.ops.record import Kind, Op, ops
from weft.tensor.base import Tensor
from weft.tensor.inplace import dispatch_inplace
from weft.tensor.sparse.base import RULES, WRITES, SparseTensor, attached, refuse, sparse
from weft.tensor.sparse.places import as_coo, coalesced, firsts, looked_up
from weft.tensor.sparse.text import describe
from weft.tensor.wrapper import Level, wrappers


def call(cls: type[SparseTensor], op: Op, bound: tuple[Any, ...], level: Level) -> Any:
    rule = RULES.get(op)
    if rule is not None:
        return rule(*bound)
    if op.composed:
        body: Any = op.body
        return body(*bound)
    first = bound[0]
    alone = sum(isinstance(value, Tensor) for value in bound) == 1
    if op.kind is Kind.POINTWISE and alone and isinstance(first, SparseTensor):
        return keep_zeros(op, bound)
    return refuse(op, wrappers(bound)[0])


def write(cls: type[SparseTensor], op: Op, bound: tuple[Any, ...], level: Level) -> Any:
    target = bound[0]
    writer = WRITES.get(op)
    if writer is not None:
        return writer(*bound)
    if not isinstance(target, SparseTensor):
        refuse(op, wrappers(bound)[0])
    return replace(target, cls.call(op, bound, level))


attached(classmethod(call), "call")
attached(classmethod(write), "write")


def replace(target: SparseTensor, result: object) -> SparseTensor:
    """Puts a result in place of what a tensor held, as in-place forms do."""
    if modes.grad_enabled() and target.elements.requires_grad and target.elements.grad_fn is None:
        raise RuntimeError("a leaf Variable that requires grad is being used in an in-place operation.")
    if not isinstance(result, SparseTensor):
        raise RuntimeError("the result of an in-place operation on a sparse tensor is not sparse")
    if result.dtype is not target.dtype:
        if result.dtype.category > target.dtype.category:
            raise RuntimeError(
                f"result type {result.dtype.scalar_name} can't be cast to the desired output type "
                f"{target.dtype.scalar_name}"
            )
        result = result.like(result.elements.to(target.dtype))
    if tuple(result.sizes) != tuple(target.sizes):
        raise RuntimeError(
            f"output with shape {list(target.sizes)} doesn't match the broadcast shape {list(result.sizes)}"
        )
    same = len(result.places) == len(target.places) and all(
        a is b for a, b in zip(result.places, target.places)
    )
    if same and not (
        modes.grad_enabled() and (result.elements.requires_grad or target.elements.requires_grad)
    ):
        target.elements.copy_(result.elements)  # others may hold the values
        return target
    target.places, target.form, target.ordered = result.places, result.form, result.ordered
    target.elements = result.elements
    return target


def keep_zeros(op: Op, bound: tuple[Any, ...]) -> Any:
    """An op on single elements, on those that are stored: only where it leaves zeros as they are."""
    first: SparseTensor = bound[0]
    zero = op(ops.new_zeros(first.elements.detach(), (1,)), *bound[1:])
    with_zeros = bool(ops.any(zero)) if isinstance(zero, Tensor) else True
    if with_zeros or not isinstance(zero, Tensor):
        refuse(op, first)
    source = first if first.form is not sparse_coo else coalesced(first)
    return source.like(op(source.elements, *bound[1:]))


def added_to(target: Tensor, source: SparseTensor, factor: Any = 1) -> Tensor:
    """Adds a sparse tensor to a dense one in place."""
    if tuple(target.shape) != tuple(source.sizes):
        raise RuntimeError(
            f"add: expected 'self' and 'other' to have same size, but self has size "
            f"{list(target.shape)} while "
            f"other has size {list(source.sizes)} (FYI: dense-sparse addition does not currently support "
            "broadcasting)"
        )
    found = as_coo(source)
    elements = found.elements if type(factor) is int and factor == 1 else found.elements * factor
    elements = elements.to(target.dtype)
    rows = found.places[0]
    if rows.shape[0] == 1:
        return dispatch_inplace(ops.index_add, (target, 0, rows[0], elements, 1), Tensor.index_add_)
    return target.index_put_(tuple(rows), elements, True)


# -- gradients -----------------------------------------------------------------------------------------------
def gradient_of(tensor: SparseTensor, value: Tensor) -> SparseTensor:
    """See Note [Gradients of sparse tensors]."""
    if tensor.ordered or tensor.form is not sparse_coo:
        return sparse(tensor.form, tensor.places, value, tensor.sizes, tensor.ordered)
    places, chosen = firsts(tensor)
    return sparse(sparse_coo, (places,), ops.index_select(value, 0, chosen), tensor.sizes, True)


def with_gradient(tensor: SparseTensor, value: Any) -> Any:
    """The gradient of the elements as that of the tensor. See Note [Gradients of sparse tensors]."""
    if value is None or isinstance(value, SparseTensor):
        return value
    known = tensor.__dict__.get("gradient")
    if known is None or known[0] is not value:
        known = tensor.gradient = value, gradient_of(tensor, value)
    return known[1]


def _get_grad(self: SparseTensor) -> Any:
    return with_gradient(self, self.elements.grad)


def _set_grad(self: SparseTensor, value: Any) -> None:
    if value is None:
        self.elements.grad = None
        return
    if tuple(value.shape) != tuple(self.sizes):
        raise RuntimeError(
            f"attempting to assign a gradient of size '{list(value.shape)}' to a tensor of size "
            f"'{list(self.sizes)}'. Please ensure that the gradient and the tensor are the same size"
        )
    self.elements.grad = looked_up(value, self)


def _delete_grad(self: SparseTensor) -> None:
    self.elements.grad = None


attached(property(_get_grad, _set_grad, _delete_grad), "grad")


@attached
def backward(self: SparseTensor, gradient: Any = None, *args: Any, **kwargs: Any) -> None:
    given = None if gradient is None else looked_up(gradient, self)
    self.elements.backward(given, *args, **kwargs)


@attached
def register_hook(self: SparseTensor, hook: Callable[..., Any]) -> Any:
    def shown(gradient: Tensor) -> Any:
        answer = hook(gradient_of(self, gradient))
        return None if answer is None else looked_up(answer, self)

    return self.elements.register_hook(shown)


def gradients_of_parts(
    grad: Callable[..., Any],
    outputs: Sequence[Any],
    inputs: Sequence[Any],
    given: Sequence[Any] | None,
    options: tuple[Any, ...],
) -> Any:
    """What `grad` gives where some of its arguments are sparse: it is asked for what these store."""
    if given is not None and isinstance(given, Tensor):
        given = (given,)

    def part(value: Any) -> Any:
        return value.elements if isinstance(value, SparseTensor) else value

    seeds = given
    if given is not None:
        seeds = [
            looked_up(seed, output) if isinstance(output, SparseTensor) and seed is not None else seed
            for output, seed in zip(outputs, given)
        ]
    found = grad([part(each) for each in outputs], [part(each) for each in inputs], seeds, *options)
    return tuple(
        gradient_of(each, value)
        if isinstance(each, SparseTensor) and value is not None and not isinstance(value, SparseTensor)
        else value
        for each, value in zip(inputs, found)
    )


attached(staticmethod(gradients_of_parts), "gradients_of_parts")


@attached
def __repr__(self: SparseTensor, *, tensor_contents: str | None = None) -> str:
    return describe(self)
