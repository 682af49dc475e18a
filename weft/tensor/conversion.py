"""Conversion: tensors to other dtypes, devices and memory formats, and to Python's numbers and lists;
writing over them.

Takes a tensor, gives a tensor of another kind (itself, where nothing changes) or plain Python values. One
idea: all of `to`, `float()`, `type()` and `cpu()` settle what is wanted and meet in `converted`.
"""

from __future__ import annotations

import numbers
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from weft.core import dtypes, modes
from weft.core.arrays import MODULES, namespace
from weft.core.device import cpu, creation_device, device, meta
from weft.core.devices import DEVICES, device_of, transfer
from weft.core.dtypes import BY_NUMPY, dtype
from weft.core.interrupts import let_through
from weft.core.naming import named
from weft.core.types import memory_format, preserve_format
from weft.core.warn import warn
from weft.ops.create import copy_format
from weft.ops.options import check_format, dtype_argument, fits, has_format
from weft.ops.record import REGISTRY, ops, quiet
from weft.tensor.base import PLAIN, Tensor, fresh, method, public, wrap
from weft.tensor.inplace import check_writable, dispatch_inplace
from weft.tensor.meta import MetaArray
from weft.tensor.overrides import handling, offer_function
from weft.tensor.views import check_overlap, overlaps_itself

if TYPE_CHECKING:
    from weft.core.device import Where


ONE_ELEMENT = "only one element tensors can be converted to Python scalars"


# -- to another kind of tensor -------------------------------------------------------------------------------
def warn_complex(source: dtype, target: dtype) -> None:
    """PyTorch's warning where imaginary parts get lost."""
    if source.is_complex and dtypes.BOOL < target.category < dtypes.COMPLEX:
        warn("Casting complex values to real discards the imaginary part")


def converted(
    tensor: Tensor, kind: dtype, where: device, copy: bool = False, form: memory_format | None = None
) -> Tensor:
    """The tensor in a dtype, on a device and in a memory format: itself where it is so already."""
    here = tensor.device
    same_form = (
        form is None or form is preserve_format or has_format(tensor.array.shape, tensor.stride(), form)
    )
    if kind is tensor.dtype and where == here and same_form and not copy:
        if form is not None and form is not preserve_format:
            check_format(form, tensor.ndim)
        return tensor
    if where == here:
        warn_complex(tensor.dtype, kind)
        mode = modes.current()
        if mode is False or (mode is True and not tensor.tracked and tensor.origin is None):
            if tensor.__class__ in PLAIN and tensor.array.__class__ in DEVICES:
                return wrap(quiet(copy_format, tensor.array, kind, form))
        found: Tensor = ops._to_copy(tensor, kind, form)
        return found
    if here is meta:
        raise NotImplementedError("Cannot copy out of meta tensor; no data!")
    if where is not meta:
        return converted(ops._to_device(tensor, where, here), kind, where, False, form)
    array = tensor.array
    strides = [step // array.dtype.itemsize * kind.itemsize for step in array.strides]
    return fresh(MetaArray(array.shape, kind.numpy, strides))


@method
def to(self: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """`to(dtype)`, `to(device, dtype)`, `to(other)`, each with non_blocking, copy and memory_format."""
    if len(args) == 1 and not kwargs and args[0].__class__ is dtype:
        return self if args[0].numpy is self.array.dtype else converted(self, args[0], self.device)
    names: tuple[str, ...] = ("device", "dtype", "non_blocking", "copy")
    if args:
        first = args[0]
        if isinstance(first, Tensor):
            names = ("other", "non_blocking", "copy")
        elif isinstance(first, dtype) or first in (float, int, bool, complex):
            names = ("dtype", "non_blocking", "copy")
        elif isinstance(first, (bool, float, complex)):  # a number stands for a tensor here too
            args, names = (dtypes.as_dtype(first.__class__), *args[1:]), ("dtype", "non_blocking", "copy")
        elif not (first is None or isinstance(first, (str, int, device))):
            raise _no_such_to(args)
    given = dict(zip(names, args, strict=False))
    if len(args) > len(names) or given.keys() & kwargs.keys():
        raise _no_such_to(args)
    given.update(kwargs)
    form = given.pop("memory_format", None)
    other, where, kind = (
        given.pop("other", given.pop("tensor", None)),
        given.pop("device", None),
        given.pop("dtype", None),
    )
    copy = given.pop("copy", False)
    given.pop("non_blocking", None)
    if given:
        raise TypeError(f"to() got an unexpected keyword argument '{next(iter(given))}'")
    if other is not None:
        where, kind = other.device, other.dtype
    kind = self.dtype if kind is None else dtype_argument(kind, "to")
    return converted(self, kind, self.device if where is None else creation_device(where), copy, form)


def _no_such_to(args: tuple[Any, ...]) -> TypeError:
    got = ", ".join(type(value).__name__ for value in args)
    return TypeError(
        f"to() received an invalid combination of arguments - got ({got}), but expected one of:\n"
        + named(
            " * (weft.device device = None, weft.dtype dtype = None, bool non_blocking = False, bool copy = "
            "False, *, "
            "weft.memory_format memory_format = None)\n"
            " * (weft.dtype dtype, bool non_blocking = False, bool copy = False, *, weft.memory_format "
            "memory_format = None)\n"
            " * (Tensor tensor, bool non_blocking = False, bool copy = False, *, weft.memory_format "
            "memory_format = None)\n"
        )
    )


def _caster(name: str, kind: dtype) -> Callable[..., Tensor]:
    def cast_to(self: Tensor, memory_format: memory_format | None = None) -> Tensor:
        if memory_format is None and self.array.dtype is kind.numpy:
            return self
        return converted(self, kind, self.device, False, memory_format)

    cast_to.__name__ = cast_to.__qualname__ = name
    cast_to.__doc__ = f"The tensor as {kind.name}; itself if it is that already."
    return cast_to


CASTS = {
    "bool": dtypes.bool_, "byte": dtypes.uint8, "char": dtypes.int8, "short": dtypes.int16,
    "int": dtypes.int32,
    "long": dtypes.int64, "half": dtypes.float16, "bfloat16": dtypes.bfloat16, "float": dtypes.float32,
    "double": dtypes.float64,
    "cfloat": dtypes.complex64, "cdouble": dtypes.complex128,
}  # fmt: skip
for _name, _kind in CASTS.items():
    setattr(Tensor, _name, _caster(_name, _kind))


def _cpu(self: Tensor, memory_format: memory_format | None = None) -> Tensor:
    """The tensor on the CPU; itself if it is there already."""
    return converted(self, self.dtype, cpu, False, memory_format)


_cpu.__name__ = "cpu"
method(_cpu)


@method
def cuda(
    self: Tensor, device: Where = None, non_blocking: bool = False, memory_format: memory_format | None = None
) -> Tensor:
    """The tensor on a GPU."""
    return converted(self, self.dtype, creation_device("cuda" if device is None else device))


@method
def type_as(self: Tensor, other: Tensor) -> Tensor:
    """The tensor in the other's dtype."""
    return converted(self, other.dtype, other.device)


# -- to Python -----------------------------------------------------------------------------------------------
@method
def item(self: Tensor) -> Any:
    """The one element, as a Python number."""
    if handling:
        handled, result = offer_function(modes.current(), "_local_scalar_dense", self)
        if handled:
            return result
    array = self.array
    if array.__class__ is MetaArray:
        raise RuntimeError("Tensor.item() cannot be called on meta tensors")
    if array.size != 1:
        raise RuntimeError(f"a Tensor with {array.size} elements cannot be converted to Scalar")
    return array.item()


@method
def tolist(self: Tensor) -> Any:
    """The elements as (nested) lists of Python numbers."""
    if self.is_meta:
        raise NotImplementedError("Cannot copy out of meta tensor; no data!")
    return self.array.tolist()


@method
def __bool__(self: Tensor) -> bool:
    size = self.array.size
    if size != 1:
        values = "more than one value" if size else "no values"
        raise RuntimeError(f"Boolean value of Tensor with {values} is ambiguous")
    return bool(item(self))


def _number(self: Tensor, kind: dtype) -> Any:
    if self.array.size != 1:
        raise ValueError(ONE_ELEMENT)
    value = item(self)
    if isinstance(value, complex):
        if value.imag:
            raise RuntimeError(f"value cannot be converted to type {kind.c_name} without overflow")
        return value.real
    return value


@method
def __int__(self: Tensor) -> int:
    return int(_number(self, dtypes.int64))


@method
def __float__(self: Tensor) -> float:
    return float(_number(self, dtypes.float64))


@method
def __complex__(self: Tensor) -> complex:
    if self.array.size != 1:
        raise ValueError(ONE_ELEMENT)
    return complex(item(self))


@method
def __index__(self: Tensor) -> int:
    if self.array.size != 1 or BY_NUMPY[self.array.dtype].category > dtypes.INTEGER:
        raise TypeError("only integer tensors of a single element can be converted to an index")
    return int(item(self))


@method
def __len__(self: Tensor) -> int:
    shape = self.array.shape
    if not shape:
        raise TypeError("len() of a 0-d tensor")
    return shape[0]


@method
def __iter__(self: Tensor) -> Iterator[Tensor]:
    if not self.array.ndim:
        raise TypeError("iteration over a 0-d tensor")
    return iter(ops.unbind(self, 0))


@method
def __reversed__(self: Tensor) -> Tensor:
    return self if not self.array.ndim else ops.flip(self, (0,))


@method
def __contains__(self: Tensor, element: object) -> bool:
    if not isinstance(element, (Tensor, numbers.Number)):
        raise RuntimeError(
            f"Tensor.__contains__ only supports Tensor or scalar, but you passed in a {element.__class__}."
        )
    return bool(ops.any(ops.eq(self, element)))


# -- writing over --------------------------------------------------------------------------------------------
def _plainly_writable(target: Tensor, *sources: Any) -> bool:
    """Whether a write needs nothing but the write: no gradient is recorded, and no override applies."""
    mode = modes.current()
    if mode.__class__ is not bool or target.__class__ not in PLAIN or target.array.__class__ not in DEVICES:
        return False
    for tensor in sources:
        if isinstance(tensor, Tensor):
            if tensor.__class__ not in PLAIN or tensor.array.__class__ not in DEVICES:
                return False
            if mode and (tensor.tracked or tensor.origin is not None):
                return False
    if mode and (target.tracked or target.origin is not None):
        return False
    if overlaps_itself(target.array):
        return False  # see Note [Writes to memory that overlaps itself] in `weft.tensor.inplace`
    check_writable(target, False, False)
    return True


@method
def copy_(self: Tensor, src: Tensor | complex, non_blocking: bool = False) -> Any:
    """Writes the elements of `src`, broadcast and cast, over this tensor's."""
    if self.dtype in dtypes.NARROW and isinstance(src, Tensor) and src.dtype is not self.dtype:
        src = src.to(self.dtype)  # what is out of range is cast as `to` does
    if not isinstance(src, Tensor):
        if not isinstance(src, (numbers.Number, np.generic)):
            raise TypeError(
                f"copy_(): argument 'other' (position 1) must be Tensor, not {src.__class__.__name__}"
            )
        src = wrap(np.asarray(src))
    warn_complex(src.dtype, self.dtype)
    if src.is_meta and not self.is_meta:
        raise NotImplementedError("Cannot copy out of meta tensor; no data!")
    if _plainly_writable(self, src):
        source, target = src.array, self.array
        if type(source) is not type(target):
            source = transfer(source, device_of(target))
        check_overlap(target, (source,))
        if source.dtype.kind == "c" and target.dtype.kind not in "cb":
            source = source.real
        if source.ndim <= target.ndim:  # NumPy would drop leading dimensions of size 1
            try:
                quiet(MODULES[type(target)].copyto, target, source, casting="unsafe")
            except ValueError as error:
                let_through(error)
                # the rule knows why
            else:
                self.bump()
                return self
    return dispatch_inplace(REGISTRY["copy"], (self, src, non_blocking), copy_)


@method
def fill_(self: Tensor, value: Tensor | complex) -> Tensor:
    """Sets every element to one value."""
    if not isinstance(value, Tensor):
        if not isinstance(value, (numbers.Number, np.generic)):
            raise TypeError(
                f"fill_() received an invalid combination of arguments - got ({value.__class__.__name__}), "
                f"but expected one "
                "of:\n * (Tensor value)\n * (Number value)\n"
            )
        if _plainly_writable(self):
            self.array.fill(fits(value, self.dtype))
            self.bump()
            return self
    else:
        warn_complex(value.dtype, self.dtype)
    return dispatch_inplace(REGISTRY["fill"], (self, value), fill_)


@method
def zero_(self: Tensor) -> Tensor:
    """Sets every element to zero."""
    if _plainly_writable(self):
        self.array.fill(0)
        self.bump()
        return self
    return dispatch_inplace(REGISTRY["zero"], (self,), zero_)


@method
def apply_(self: Tensor, callable: Callable[[Any], Any]) -> Tensor:
    """Replaces each element by what the function gives for it."""
    if self.tracked:
        raise RuntimeError(
            "Can't call apply_() on Variable that requires grad. Use var.detach().apply_() instead."
        )
    for place in np.ndindex(self.array.shape):
        self.array[place] = callable(self.array[place].item())
    self.bump()
    return self


@method
def map_(self: Tensor, tensor: Tensor, callable: Callable[[Any, Any], Any]) -> Tensor:
    """Replaces each element by what the function gives for it and the other tensor's."""
    if self.tracked:
        raise RuntimeError(
            "Can't call map_() on Variable that requires grad. Use var.detach().map_() instead."
        )
    other = namespace(tensor.array).broadcast_to(tensor.array, self.array.shape)
    for place in np.ndindex(self.array.shape):
        self.array[place] = callable(self.array[place].item(), other[place].item())
    self.bump()
    return self


@method
def map2_(self: Tensor, x: Tensor, y: Tensor, callable: Callable[[Any, Any, Any], Any]) -> Tensor:
    """Replaces each element by what the function gives for it and those of two other tensors."""
    if self.tracked or x.tracked or y.tracked:
        raise RuntimeError(
            "Can't call map2_() on Variable that requires grad. Use var.detach().map2_() instead."
        )
    xp = namespace(self.array)
    first, second = (xp.broadcast_to(each.array, self.array.shape) for each in (x, y))
    for place in np.ndindex(self.array.shape):
        self.array[place] = callable(self.array[place].item(), first[place].item(), second[place].item())
    self.bump()
    return self


@method
def module_load(self: Tensor, other: Tensor, assign: bool = False) -> Tensor:
    """What `load_state_dict` puts in place of this tensor for a loaded one, where tensors are swapped."""
    return other.detach() if assign else self.detach().copy_(other)


for _function in (fill_, zero_):
    public(_function)
