"""The Tensor class itself: its slots, its plain facts, and the ways to make one from an array.

Takes an array, gives a `Tensor`. Ops are attached by `weft.tensor.faces`, the other families of methods by
their modules with `@method`. One idea: the slots are what the generated fast path reads, and nothing on that
path is a property.

# Note [Slots]
    array    the NumPy array (or MetaArray); views share memory, so a tensor view is an array view
    tracked  whether gradients flow to it (what `requires_grad` tells)
    node     the Node that made it (what `grad_fn` tells), None for leaves
    index    which output of that node it is
    cell     [version] shared by all tensors of one storage; None until somebody needs it
    origin   how it was made from its base (`weft.tensor.views.View`), None if it is no view
    _grad    the accumulated gradient
    hooks    hooks on a leaf, and what else is rare (`weft.autograd` owns it)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from weft.core import modes
from weft.core.arrays import Array
from weft.core.device import cpu, device
from weft.core.devices import DEVICES, HOST
from weft.core.dims import wrap_dim
from weft.core.dtypes import BY_NUMPY, dtype
from weft.core.types import Size
from weft.ops.record import FACED
from weft.ops.sweep import LEAF_SEQUENCE
from weft.tensor.meta import MetaArray, contiguous_strides
from weft.tensor.methods import Methods
from weft.tensor.tape import INFERENCE

Method = TypeVar("Method", bound=Callable[..., Any])
ndarray = np.ndarray


class Tensor(Methods):
    """A multi-dimensional array of one dtype, with autograd facts."""

    __module__ = "weft"  # where users find it

    __slots__ = (
        "array",
        "tracked",
        "node",
        "index",
        "cell",
        "origin",
        "_grad",
        "hooks",
        "__weakref__",
        "__dict__",
    )
    _seq = LEAF_SEQUENCE
    outputs = None
    __array_priority__ = 1000
    __hash__ = object.__hash__

    array: Array
    tracked: bool
    node: Any
    index: int
    cell: Any
    origin: Any
    _grad: Any
    hooks: Any

    # -- facts
    # ------------------------------------------------------------------------------------------------------
    @property
    def shape(self) -> Size:
        return tuple.__new__(Size, self.array.shape)

    @property
    def dtype(self) -> dtype:
        return BY_NUMPY[self.array.dtype]

    @property
    def device(self) -> device:
        array: Any = self.array
        kind = type(array)
        if kind is ndarray:
            return cpu
        return array.device if kind is MetaArray else DEVICES.get(kind, HOST).place

    @property
    def ndim(self) -> int:
        array: Array = self.array
        return array.ndim

    def dim(self) -> int:
        """How many dimensions there are."""
        array: Array = self.array
        return array.ndim

    ndimension = dim

    def size(self, dim: int | None = None) -> Any:
        """The shape, or the size of one dimension."""
        if dim is None:
            return tuple.__new__(Size, self.array.shape)
        return self.array.shape[wrap_dim(dim, self.array.ndim)]

    def numel(self) -> int:
        """How many elements there are."""
        array: Array = self.array
        return array.size

    nelement = numel

    def element_size(self) -> int:
        """The bytes of an element."""
        array: Array = self.array
        return array.dtype.itemsize

    @property
    def itemsize(self) -> int:
        array: Array = self.array
        return array.dtype.itemsize

    @property
    def nbytes(self) -> int:
        array: Array = self.array
        return array.size * array.dtype.itemsize

    def stride(self, dim: int | None = None) -> Any:
        """Steps, in elements, from one item to the next along each dimension (or one of them)."""
        array = self.array
        if array.size == 0:
            strides = contiguous_strides(array.shape)
        else:
            item = array.dtype.itemsize
            strides = tuple(step // item for step in array.strides)
        return strides if dim is None else strides[wrap_dim(dim, array.ndim)]

    def storage_offset(self) -> int:
        """How many elements after the start of its storage the first element lies."""
        array: Array = self.array
        root = storage_root(array)
        if root is array:
            return 0
        return (address(array) - address(root)) // array.dtype.itemsize

    def data_ptr(self) -> int:
        """The address of the first element; 0 where there is none."""
        return 0 if type(self.array) is MetaArray or not self.array.size else address(self.array)

    const_data_ptr = data_ptr

    def is_floating_point(self) -> bool:
        """Whether elements are floats."""
        return BY_NUMPY[self.array.dtype].is_floating_point

    def is_complex(self) -> bool:
        """Whether elements are complex."""
        return BY_NUMPY[self.array.dtype].is_complex

    def is_signed(self) -> bool:
        """Whether elements may be negative."""
        return BY_NUMPY[self.array.dtype].is_signed

    @property
    def is_meta(self) -> bool:
        return type(self.array) is MetaArray and self.array.device.type == "meta"

    def is_inference(self) -> bool:
        """Whether the tensor was made in inference mode."""
        return self.cell is INFERENCE

    # -- versions
    # ---------------------------------------------------------------------------------------------------
    @property
    def _version(self) -> int:
        if self.cell is INFERENCE:
            raise RuntimeError("Inference tensors do not track version counter.")
        return 0 if self.cell is None else self.cell[0]

    def bump(self) -> None:
        """Notes that the elements were written to."""
        if self.cell is None:
            self.cell = [1]
        elif self.cell is not INFERENCE:
            self.cell[0] += 1
        elif type(self.array) is MetaArray:
            self.array.written[0] += 1

    def shared_cell(self) -> Any:
        """The version cell, made if need be, for another tensor of the same storage."""
        if self.cell is None:
            self.cell = [0]
        return self.cell


def storage_root(array: Array) -> Any:
    """The array whose memory this one lies in: the last array of its chain of bases."""
    return DEVICES.get(type(array), HOST).base(array)


def address(array: Array) -> int:
    return DEVICES.get(type(array), HOST).address(array)


class ParameterKind(type):
    """`isinstance(x, Parameter)` holds for tensors of other classes too that were made parameters (marked
    `_is_param`).
    """

    def __instancecheck__(cls, instance: object) -> bool:
        if type.__instancecheck__(cls, instance):
            return True
        return (
            cls is Parameter
            and isinstance(instance, Tensor)
            and getattr(instance, "_is_param", False) is True
        )


class Parameter(Tensor, metaclass=ParameterKind):
    """A tensor that a module trains. Ops treat it as a plain Tensor and give plain Tensors.

    Arguments:

    - `data`: the tensor whose elements it holds, by default none
    - `requires_grad`: whether gradients are computed for it

    Shapes:

    - that of `data`

    >>> weight = weft.nn.Parameter(weft.ones(2))
    >>> weight.requires_grad, weight.is_leaf, type(weight * 2).__name__
    (True, True, 'Tensor')
    """

    __slots__ = ()


PLAIN = frozenset({Tensor, Parameter})
FACED.update(PLAIN)

new = object.__new__


def wrap(array: Any, tracked: bool = False, kind: type[Tensor] = Tensor) -> Tensor:
    """A tensor that holds this very array."""
    tensor = new(kind)
    tensor.array = array
    tensor.tracked = tracked
    tensor.node = tensor.cell = tensor.origin = tensor._grad = tensor.hooks = None
    tensor.index = 0
    return tensor


def fresh(array: object) -> Tensor:
    """As `wrap`, for tensors made by the user's call: an inference tensor inside inference_mode."""
    tensor = wrap(array)
    mode = modes.current()
    if type(mode) is not bool and mode.inference:
        tensor.cell = INFERENCE
    return tensor


PUBLIC: dict[str, Any] = {}
"""Public names that are not faces of ops, by qualified name: `weft` exports them beside `faces.FUNCTIONS`."""


def public(value: Method) -> Method:
    """Decorator: the function or class is exported by `weft` under its name."""
    PUBLIC[value.__name__] = value
    return value


def method(function: Method) -> Method:
    """Decorator: the function becomes the Tensor method of its name."""
    setattr(Tensor, function.__name__, function)
    return function
