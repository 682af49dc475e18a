"""Subclasses of Tensor: how one is made from data or from another tensor, and what a new class is given.

Attaches `__new__`, `as_subclass`, `_make_subclass` and `__init_subclass__` to Tensor. One idea:
`object.__new__` stays the way the library makes tensors; `Tensor.__new__` serves users' calls only.
"""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np

from weft.core.device import as_device, creation_device
from weft.core.dtypes import get_default_dtype
from weft.core.modes import within
from weft.core.naming import named
from weft.core.seams import seams
from weft.core.types import Size, TensorType
from weft.ops.options import strides_in
from weft.ops.view import alias
from weft.tensor.base import Tensor, fresh, method
from weft.tensor.creation import build
from weft.tensor.dispatch import dispatch
from weft.tensor.meta import MetaArray, meta_array
from weft.tensor.overrides import DisableTorchFunction, has_own_handler, retyped
from weft.tensor.shims import equip
from weft.tensor.views import attach_alias

Kind = TypeVar("Kind", bound=Tensor)
NOT_A_TENSOR = (
    "Creating a Tensor subclass from a class that does not inherit from Tensor is not possible. "
    "Make sure your class inherits from Tensor."
)
FORMS = (
    "new() received an invalid combination of arguments - got ({got}), but expected one of:\n"
    " * (*, weft.device device = None)\n"
    " * (Tensor other)\n"
    " * (tuple of ints size, *, weft.device device = None)\n"
    " * (object data, *, weft.device device = None)\n"
)


@method
def as_subclass(self: Tensor, cls: type[Kind]) -> Kind:
    """A view of this tensor as an instance of `cls`; gradients flow through it."""
    check_class(cls)
    with DisableTorchFunction(), within(dispatch=(), unhandled=True):
        made: Kind = retyped(dispatch(alias, (self,)), cls)
    return made


def make_subclass(cls: type[Kind], data: Tensor, require_grad: bool = False) -> Kind:
    """A leaf of class `cls` on the memory of `data`."""
    check_class(cls)
    if not isinstance(data, Tensor):
        raise TypeError(
            f"_make_subclass(): argument 'data' (position 2) must be Tensor, not {type(data).__name__}"
        )
    made: Kind = retyped(attach_alias(data), cls)
    if require_grad:
        with DisableTorchFunction():
            made.requires_grad_()
    return made


def make_wrapper_subclass(
    cls: type[Kind],
    size: Any,
    strides: Any = None,
    storage_offset: Any = None,
    memory_format: Any = None,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
    dispatch_sizes_strides_policy: Any = None,
    dispatch_device: bool = False,
    dispatch_layout: bool = False,
    _extra_dispatch_keys: Any = None,
    storage_size: Any = None,
) -> Kind:
    """A leaf of class `cls` that shows a type and has no elements: these its `__torch_dispatch__` knows."""
    check_class(cls)
    if not has_own_handler(cls):
        raise RuntimeError(
            f"Tensor subclass {cls.__name__} must define __torch_dispatch__ to be made by "
            "_make_wrapper_subclass"
        )
    kind = get_default_dtype() if dtype is None else dtype
    shape = tuple(size)
    steps = None if strides is None else [step * kind.itemsize for step in strides]
    if steps is None and memory_format is not None:
        steps = [step * kind.itemsize for step in strides_in(shape, memory_format)]
    made: Any = retyped(fresh(MetaArray(shape, kind.numpy, steps, creation_device(device))), cls)
    if requires_grad:
        with DisableTorchFunction():
            made.requires_grad_()
    wrapper: Kind = made
    return wrapper


def check_class(cls: object) -> None:
    if not isinstance(cls, type):
        raise TypeError(f"cls must be a type (got {type(cls).__name__})")
    if not issubclass(cls, Tensor):
        raise TypeError(NOT_A_TENSOR)


def construct(cls: type[Tensor], *args: Any, device: Any = None) -> Any:
    """`Tensor(sizes)`, `Tensor(data)`, `Tensor(other)`: the default dtype, or the other tensor's memory."""
    if len(args) == 1 and isinstance(args[0], Tensor):
        return as_subclass(args[0], cls)
    if len(args) == 1 and not isinstance(args[0], (int, Size)):
        data = args[0]
        if isinstance(data, (float, complex)):
            raise TypeError(f"new(): data must be a sequence (got {type(data).__name__})")
        return retyped(build(data, get_default_dtype(), device), cls)
    sizes = args[0] if len(args) == 1 and isinstance(args[0], Size) else args or (0,)
    if not all(isinstance(size, int) and not isinstance(size, bool) for size in sizes):
        raise TypeError(named(FORMS.format(got=", ".join(type(value).__name__ for value in args))))
    negative = next((size for size in sizes if size < 0), None)
    if negative is not None:
        raise RuntimeError(f"Trying to create tensor with negative dimension {negative}: {list(sizes)}")
    kind = get_default_dtype()
    if as_device(device).type == "meta":
        return retyped(fresh(meta_array(TensorType(tuple(sizes), kind))), cls)
    return retyped(fresh(np.empty(tuple(sizes), kind.numpy)), cls)


def _init_subclass(cls: type[Tensor], /, **keywords: object) -> None:
    super(Tensor, cls).__init_subclass__(**keywords)
    equip(cls)
    if has_own_handler(cls):
        seams.below.guard(cls)


for _name, _value in {
    "__new__": construct,
    "_make_subclass": staticmethod(make_subclass),
    "_make_wrapper_subclass": staticmethod(make_wrapper_subclass),
    "__init_subclass__": classmethod(_init_subclass),
}.items():
    setattr(Tensor, _name, _value)
