"""What a Tensor shows of autograd: requires_grad, grad, grad_fn, detach, backward.

Attaches properties and methods to `Tensor`. One idea: a view follows its base lazily, so whatever reads a
tensor's history asks `settled` first.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from weft.autograd.engine import backward
from weft.autograd.hooks import RETAINED, TENSOR
from weft.autograd.tasks import local
from weft.core import modes
from weft.core.dtypes import BY_NUMPY
from weft.core.seams import seams
from weft.core.warn import warn_at_level
from weft.tensor.base import Tensor, method, wrap
from weft.tensor.overrides import handling, has_handler, offer_function
from weft.tensor.tape import INFERENCE
from weft.tensor.views import DEFAULT, Stop, attach_alias, can_have_gradient, settled

NOT_LEAF = "you can only change requires_grad flags of leaf variables."
ADVICE = (
    " If you want to use a computed variable in a subgraph that doesn't require differentiation use "
    "var_no_grad = var.detach()."
)
NON_LEAF_GRAD = (
    "The .grad attribute of a Tensor that is not a leaf Tensor is being accessed. Its .grad attribute won't "
    "be populated during "
    "autograd.backward(). If you indeed want the .grad field to be populated for a non-leaf Tensor, use "
    ".retain_grad() on the "
    "non-leaf Tensor. If you access the non-leaf Tensor by mistake, make sure you access the leaf Tensor "
    "instead. See "
    "github.com/pytorch/pytorch/pull/30531 for more information."
)


def _change(tensor: Tensor, value: bool, reason: str) -> None:
    settled(tensor)
    if tensor.node is not None:
        if not value:
            raise RuntimeError(NOT_LEAF + ADVICE)
        return
    if value:
        if tensor.cell is INFERENCE and not modes.modes().inference:
            raise RuntimeError(
                "Setting requires_grad=True on inference tensor outside InferenceMode is not allowed."
            )
        if BY_NUMPY[tensor.array.dtype].category < 2:
            raise RuntimeError(reason)
    tensor.tracked = value


def _get_requires_grad(self: Tensor) -> bool:
    view = self.origin
    if view is not None and view.creation != DEFAULT:  # to bring such a view up to date may be forbidden
        return bool(self.tracked or (view.base.tracked and can_have_gradient(self)))
    return settled(self).tracked


def _set_requires_grad(self: Tensor, value: bool) -> None:
    if not isinstance(value, bool):
        raise RuntimeError("requires_grad must be a bool")
    if value and settled(self).node is not None:
        raise RuntimeError(NOT_LEAF)
    _change(self, value, "only Tensors of floating point and complex dtype can require gradients")


@method
def requires_grad_(self: Tensor, requires_grad: bool = True) -> Tensor:
    """Sets whether gradients flow to this leaf."""
    if not isinstance(requires_grad, bool):
        raise TypeError(
            "requires_grad_(): argument 'requires_grad' (position 1) must be bool, not "
            f"{type(requires_grad).__name__}"
        )
    _change(self, requires_grad, "only Tensors of floating point dtype can require gradients")
    return self


def _get_grad(self: Tensor) -> Any:
    gradient = self._grad
    if gradient is None and _grad_fn(self) is not None and self.hooks is not RETAINED:
        warn_at_level(NON_LEAF_GRAD, UserWarning, stacklevel=2)
    return gradient


def _set_grad(self: Tensor, value: object) -> None:
    if value is not None:
        check_gradient(self, value)
    self._grad = value


def check_gradient(self: Tensor, value: object) -> None:
    """Refuses what cannot be the gradient of this tensor."""
    if not isinstance(value, Tensor):
        raise TypeError(
            f"assigned grad expected to be a Tensor or None but got grad of type {type(value).__name__}"
        )
    if value is self:
        raise RuntimeError("can't assign Variable as its own grad")
    if value.array.dtype is not self.array.dtype:
        raise RuntimeError(
            f"attempting to assign a gradient with dtype '{value.dtype.cpp_name}' to a tensor with "
            f"grad_dtype '{self.dtype.scalar_name}'. The gradient must match the tensor's grad_dtype "
            "(defaults to the tensor's dtype). You can set the tensor's grad_dtype attribute with a specific "
            "dtype, or None to allow any dtype. Set grad_dtype with caution. Diverging the dtypes of a "
            "tensor and its gradient may break downstream systems that assume they match."
        )
    if value.device != self.device:
        raise RuntimeError(
            f"attempting to assign a gradient located on device '{value.device}' to a tensor located on "
            f"device '{self.device}'. "
            "Please ensure that the gradient and the tensor are on the same device"
        )
    if value.array.shape != self.array.shape:
        raise RuntimeError(
            f"attempting to assign a gradient of size '{list(value.array.shape)}' to a tensor of size "
            f"'{list(self.array.shape)}'. Please ensure that the gradient and the tensor are the same size"
        )


def _delete_grad(self: Tensor) -> None:
    self._grad = None


def _delete_requires_grad(self: Tensor) -> None:
    raise RuntimeError("requires_grad must be a bool")


def _delete_data(self: Tensor) -> None:
    raise RuntimeError("Deleting tensor data is not allowed. Delete tensor instead!")


def _get_data(self: Tensor) -> Tensor:
    """The same memory without history, and without a share in the version."""
    if handling and has_handler(self):
        return self.detach()
    data = wrap(self.array)
    if self.cell is INFERENCE:
        data.cell = INFERENCE
    return data


def _set_data(self: Tensor, value: object) -> None:
    if not isinstance(value, Tensor):
        raise TypeError(f"Variable data has to be a tensor, but got {type(value).__name__}")
    if self.device != value.device:
        raise RuntimeError(
            "Attempted to call `variable.set_data(tensor)`, but `variable` and `tensor` have incompatible "
            "tensor type."
        )
    if settled(self).tracked and value.dtype.category < 2:
        raise RuntimeError(
            "data set to a tensor that requires gradients must be floating point or complex dtype"
        )
    self.array = value.array


def _grad_fn(self: Tensor) -> Any:
    node = settled(self).node
    return None if type(node) is Stop else node


def _is_leaf(self: Tensor) -> bool:
    return _grad_fn(self) is None


def _output_nr(self: Tensor) -> int:
    return settled(self).index


def _get_base(self: Tensor) -> Any:
    return None if self.origin is None else self.origin.base


def _retains_grad(self: Tensor) -> bool:
    return self.hooks is RETAINED


def _backward_hooks(self: Tensor) -> Any:
    node = settled(self).node
    hooks = (self if node is None else node).hooks
    return None if hooks is None or hooks is RETAINED else hooks.tables.get(TENSOR.name, {}).get(self.index)


for _name, _property in {
    "requires_grad": property(
        _get_requires_grad,
        _set_requires_grad,
        _delete_requires_grad,
        "Whether gradients flow to this tensor.",
    ),
    "grad": property(
        _get_grad, _set_grad, _delete_grad, "The gradient that backward has summed up so far, or None."
    ),
    "data": property(_get_data, _set_data, _delete_data, _get_data.__doc__),
    "grad_fn": property(_grad_fn, doc="The node that made this tensor; None for a leaf."),
    "is_leaf": property(_is_leaf, doc="Whether no recorded op made this tensor."),
    "output_nr": property(_output_nr, doc="Which output of its node this is."),
    "_base": property(_get_base, doc="The tensor whose memory this one views; None if it is no view."),
    "retains_grad": property(_retains_grad, doc="Whether `.grad` of this non-leaf is kept."),
    "_backward_hooks": property(_backward_hooks, doc="Hooks on this tensor's gradient, by number."),
}.items():
    setattr(Tensor, _name, _property)


@method
def _is_view(self: Tensor) -> bool:
    return self.origin is not None


@method
def detach(self: Tensor) -> Tensor:
    """The same memory, outside the graph; writing to it counts as writing to this tensor."""
    if handling:
        handled, result = offer_function(modes.current(), "detach", self)
        if handled:
            found: Tensor = result
            return found
    return attach_alias(self)


@method
def detach_(self: Tensor) -> Tensor:
    """Cuts this tensor off the graph that made it."""
    if self.origin is not None:
        raise RuntimeError(
            "Can't detach views in-place. Use detach() instead. If you are using DistributedDataParallel "
            "(DDP) for training, "
            "and gradient_as_bucket_view is set as True, gradients are views of DDP buckets, and hence "
            "detach_() cannot be "
            "called on these gradients. To fix this error, please refer to the Optimizer.zero_grad() "
            "function in "
            "weft/optim/optimizer.py as the solution."
        )
    self.node, self.index, self.tracked = None, 0, False
    if self.hooks is RETAINED:
        self.hooks = None
    return self


def _tensor_backward(
    self: Tensor,
    gradient: Tensor | None = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    inputs: Tensor | Sequence[Tensor] | None = None,
) -> None:
    """Sums gradients into the leaves this tensor came from."""
    node = self.node
    if (
        node is not None
        and gradient is None
        and inputs is None
        and not create_graph
        and type(self) is Tensor
        and self.origin is None
        and modes.state.get() is True
        and local.task is None
        and seams.backward is None
        and node.hooks is None
        and node.alone(self, bool(retain_graph))
    ):
        return
    backward(self, gradient, retain_graph, create_graph, inputs=inputs)


setattr(Tensor, "backward", _tensor_backward)  # noqa: B010  (its name is taken by the function above)
