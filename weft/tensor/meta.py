"""Arrays without elements, as tensors on the `meta` device hold: shape, dtype and strides, nothing else.

# Note [Fakes]
A MetaArray may name another device than `meta`: the tensor that holds it is then a *fake*, which stands for a
tensor of that device while a program is recorded (`weft.trace`). Ops treat both alike, by their type rules.
Whatever asks a fake for elements while a recorder is active ends in the recorder's `refuse`. `exact` says
whether the strides are what eager's would be: views compute theirs, but most kernels are free to choose the
layout of their results.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from math import prod
from operator import index as as_index
from typing import TYPE_CHECKING, Any, NoReturn, TypeGuard

import numpy as np

from weft.core import modes
from weft.core.arrays import Array
from weft.core.device import device, meta
from weft.core.interrupts import let_through
from weft.core.symbolic import Symbolic, any_symbolic
from weft.core.types import TensorType
from weft.ops.outline import KERNELS, Outline

if TYPE_CHECKING:
    from weft.core.modes import State


FAKE = "fake"
"""The name of the entry in `Modes.extra` while a recorder is active: new tensors are fakes too."""


def faking(mode: State) -> bool:
    """Whether a recorder is active, given the present modes."""
    return type(mode) is not bool and any(name == FAKE for name, _ in mode.extra)


def recorder_of(mode: State) -> Any:
    """The recorder that is active, given the present modes; None if there is none."""
    return None if type(mode) is bool else next((value for name, value in mode.extra if name == FAKE), None)


def contiguous_strides(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Strides, in elements, of a row-major tensor of this shape (counted so for empty ones too)."""
    strides, step = [], 1
    for size in reversed(shape):
        strides.append(step)
        step *= max(size, 1)
    return tuple(reversed(strides))


class NoFlags:
    """What `flags` says of an array without elements: no memory to write straight into."""

    c_contiguous = f_contiguous = forc = writeable = False


class MetaArray:
    """Stands where a NumPy array would: kernels refuse it, so every op goes by its type rule."""

    __slots__ = ("shape", "dtype", "strides", "device", "exact", "written")
    __array_ufunc__ = None
    base = None
    flags = NoFlags

    def __init__(
        self,
        shape: Iterable[int],
        dtype: np.dtype[Any],
        strides: Iterable[int] | None = None,
        device: device = meta,
        exact: bool = False,
    ) -> None:
        self.shape = tuple(shape)
        self.dtype = dtype
        if strides is None:
            strides = (s * dtype.itemsize for s in contiguous_strides(self.shape))
        self.strides = tuple(strides)  # in bytes, as NumPy's
        self.device = device
        self.exact = exact
        self.written = [0]  # how often, where no version tells (in inference mode); views share it

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        return prod(self.shape)

    @property
    def itemsize(self) -> int:
        return self.dtype.itemsize

    @property
    def nbytes(self) -> int:
        return self.size * self.dtype.itemsize

    @property
    def is_contiguous(self) -> bool:
        """Whether the elements would lie row by row."""
        return self.strides == tuple(s * self.dtype.itemsize for s in contiguous_strides(self.shape))

    def copy(self) -> MetaArray:
        made = MetaArray(self.shape, self.dtype, None, self.device)
        recorder = recorder_of(modes.current())
        if recorder is not None:
            recorder.copied(self, made)
        return made

    if TYPE_CHECKING:  # nobody compares its elements; for a checker it is an array all the same

        def __eq__(self, other: object, /) -> Array: ...  # type: ignore[override]
        def __ne__(self, other: object, /) -> Array: ...  # type: ignore[override]

    def alias(self) -> MetaArray:
        """Another array on the same memory."""
        made = MetaArray(self.shape, self.dtype, self.strides, self.device, self.exact)
        made.written = self.written
        return made

    def __bool__(self) -> NoReturn:
        refuse_read("bool")
        raise RuntimeError("Boolean value of a tensor without elements")

    def __getattr__(self, name: str) -> Any:
        refuse_read(name)
        raise AttributeError(f"an array without elements has no attribute {name!r}")


def refuse_read(name: str) -> None:
    """Tells the recorder, if one is active, that elements are asked for."""
    recorder = recorder_of(modes.current())
    if recorder is not None:
        recorder.refuse(name)


def is_fake_array(array: object) -> TypeGuard[MetaArray]:
    """Whether the array stands for one of a real device."""
    return type(array) is MetaArray and array.device.type != "meta"


def meta_array(type_: TensorType, where: device = meta, exact: bool = False) -> MetaArray:
    """An array without elements, of this type whatever device the type names."""
    return MetaArray(type_.shape, type_.dtype.numpy, None, where, exact)


class _UntouchedMemory:
    """Describes memory to NumPy that is never accessed."""

    __slots__ = ("__array_interface__",)
    __array_interface__: dict[str, Any]


_NOWHERE = np.zeros(2)  # an address for arrays whose elements are never read


def _hollow(array: MetaArray) -> Any:
    """A NumPy array of the same shape and strides over no memory of its own: for kernels that only view."""
    kind = array.dtype
    if kind.kind == "V" or not kind.isbuiltin:  # bfloat16: the interface cannot name it
        return np.lib.stride_tricks.as_strided(np.zeros(1, kind), array.shape, array.strides)
    holder = _UntouchedMemory()
    holder.__array_interface__ = {
        "shape": array.shape, "strides": array.strides, "typestr": kind.str, "version": 3,
        "data": (_NOWHERE.__array_interface__["data"][0], False),
    }  # fmt: skip
    return np.asarray(holder)


def meta_view(kernel: Callable[..., Any], array: MetaArray, args: tuple[Any, ...], types: Any) -> Any:
    """What a view kernel gives for an array without elements: strides as eager's; `types` is what the type
    rule says.
    """

    def described(view: Any, type_: TensorType) -> MetaArray:
        made = MetaArray(type_.shape, view.dtype, view.strides, array.device, array.exact)
        made.written = array.written
        return made

    try:
        if _symbolic((*array.shape, *array.strides, *args)):
            out = outlined(kernel, array, args)
        else:
            out = kernel(_hollow(array), *args)
    except RuntimeError as error:
        let_through(error)
        if "setStorage" in str(error):  # it may reach beyond this array, into the memory that it lies in
            refuse_read("as_strided")
        raise
    if type(out) is tuple or type(out) is list:
        return type(out)([described(*each) for each in zip(out, types)])
    return described(out, types)


def outlined(kernel: Callable[..., Any], array: MetaArray, args: tuple[Any, ...]) -> Any:
    """What a view kernel gives where sizes are symbolic; kernels that need more than an outline make them
    plain.
    """
    try:
        return KERNELS.get(kernel, kernel)(Outline(array.shape, array.strides, array.dtype), *args)
    except (AttributeError, TypeError) as error:
        let_through(error)
        shape, strides = map(as_index, array.shape), map(as_index, array.strides)
        return kernel(_hollow(MetaArray(shape, array.dtype, strides)), *args)


def _symbolic(value: object) -> bool:
    """Whether an argument is, or holds, a symbolic number."""
    if type(value) is slice:
        return any_symbolic((value.start, value.stop, value.step))
    if isinstance(value, (tuple, list)):
        return any(_symbolic(each) for each in value)
    return isinstance(value, Symbolic)
