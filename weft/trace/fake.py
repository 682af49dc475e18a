"""Fakes: tensors without elements that stand for real ones while a program is recorded.

Takes a tensor (or a type), gives a plain `Tensor` or `Parameter` with the same shape, dtype, strides, device
and autograd facts over a `MetaArray`. One idea: ops need to know nothing of fakes: they go by their type
rules, as for the meta device; see Note [Fakes] in `weft.tensor.meta`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from weft.core import modes
from weft.core.contexts import Block, set_to
from weft.core.device import device
from weft.core.types import TensorType
from weft.tensor.base import PLAIN, Parameter, Tensor, wrap
from weft.tensor.meta import FAKE, MetaArray, is_fake_array
from weft.tensor.tape import INFERENCE, Node, next_sequence
from weft.tensor.views import View
from weft.trace.breaks import Break


class Outside(Node):
    """Behind a fake whose original was made by recorded ops before the capture began."""

    __slots__ = ()
    runs_without_gradient = False

    def raw_backward(self, grad: Any) -> Any:
        raise Break("autograd-inside", "a gradient that flows into a tape from outside")

    graph_backward = raw_backward


class Originals:
    """Keeps the fakes of tensors that share storage sharing it: one version cell, bases before views."""

    def __init__(self) -> None:
        self.cells: dict[int, tuple[Any, Any]] = {}
        self.fakes: dict[int, tuple[Tensor, Tensor]] = {}

    def cell(self, tensor: Tensor) -> Any:
        cell = tensor.cell
        if cell is None or cell is INFERENCE:
            return cell
        return self.cells.setdefault(id(cell), (cell, [cell[0]]))[1]


def fake_of(tensor: Tensor, originals: Originals | None = None) -> Tensor:
    """The fake that stands for this tensor: same class (Tensor or Parameter), facts and history."""
    originals = Originals() if originals is None else originals
    known = originals.fakes.get(id(tensor))
    if known is not None:
        return known[1]
    array = tensor.array
    hollow = MetaArray(array.shape, array.dtype, array.strides, tensor.device, True)
    kind = Parameter if type(tensor) is Parameter else Tensor
    fake = wrap(hollow, tensor.requires_grad, kind)
    originals.fakes[id(tensor)] = (tensor, fake)
    fake.cell = originals.cell(tensor)
    if tensor.__dict__.get("_is_param"):
        fake.__dict__["_is_param"] = True
    view = tensor.origin
    if view is not None:
        base = fake_of(view.base, originals)
        fake.cell = base.shared_cell()
        fake.origin = View(base, view.steps, view.creation, fake.cell[0])
    if tensor.tracked and tensor.node is not None:
        fake.node = _outside(tensor)
    return fake


def fake_input(tensor: Tensor, lies: tuple[tuple[Any, ...], tuple[Any, ...]] | None = None) -> Tensor:
    """The fake of a tensor that is looked at alone: its type and autograd facts, of which it is no view.
    `lies`: shape and strides, where they are not those of this tensor."""
    array = tensor.array
    shape, strides = (array.shape, array.strides) if lies is None else lies
    fake = wrap(MetaArray(shape, array.dtype, strides, tensor.device, True), tensor.tracked)
    fake.cell = INFERENCE if tensor.cell is INFERENCE else [0]
    if tensor.tracked and tensor.node is not None:
        fake.node = _outside(tensor)
        fake.node.types = (fake.array.shape, array.dtype)
    return fake


def bare(fake: Tensor, exact: bool = True) -> Tensor:
    """A fake of the same type, without history and with memory of its own."""
    array: Any = fake.array
    strides = array.strides if exact else None
    return wrap(MetaArray(array.shape, array.dtype, strides, array.device, exact and array.exact))


def leaf_on(tensor: Tensor) -> Tensor:
    """A leaf with the elements of a tensor: where gradients stop that would flow on behind it."""
    return wrap(tensor.array, True)


def of_arrays(value: Any) -> Any:
    """A tensor on an array, also in tuples and lists; whatever else there is, as it is."""
    if isinstance(value, (tuple, list)):
        return type(value)(map(of_arrays, value))
    return wrap(value) if isinstance(value, np.ndarray) else value


def is_tensor(value: Any) -> bool:
    """Whether this is a tensor, of any kind."""
    return isinstance(value, Tensor)


def method(name: str) -> Any:
    """The method of tensors that has this name."""
    return Tensor.__dict__[name]


def hollowly() -> Block:
    """Inside, new tensors are fakes, and nothing is recorded."""
    return set_to((modes.state, modes.changed(grad=False, extra=((FAKE, None),))))


def is_plain_tensor(value: Any) -> bool:
    """Whether this is a tensor of no class of the user's, made outside inference mode."""
    return type(value) in PLAIN and value.cell is not INFERENCE


def _outside(tensor: Tensor) -> Node:
    node = Outside.__new__(Outside)
    node._seq = next_sequence()
    node.next = node.params = node.saved = ()
    node.types = (tensor.array.shape, tensor.array.dtype)
    node.slots = node.versions = node.hooks = None
    return node


def fake_from_type(
    type_: TensorType,
    requires_grad: bool = False,
    strides: Iterable[int] | None = None,
    where: device | None = None,
) -> Tensor:
    """A fake leaf of this type; strides count elements, row-major if not given."""
    kind = type_.dtype.numpy
    steps = None if strides is None else [step * kind.itemsize for step in strides]
    hollow = MetaArray(type_.shape, kind, steps, type_.device if where is None else where, True)
    return wrap(hollow, requires_grad)


def is_fake(value: Any) -> bool:
    """Whether this is a tensor without elements that stands for one of a real device."""
    return type(value) in PLAIN and is_fake_array(value.array)
