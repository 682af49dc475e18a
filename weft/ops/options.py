"""What creation ops are given: dtypes, sizes, numbers and memory formats, checked as PyTorch checks them.

Takes arguments as users wrote them, gives what kernels and rules work with, or raises the error that users
see. Also how to allocate in a memory format, and how to tell which one strides have.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any, Final

import numpy as np

from weft.core import dtypes
from weft.core.arrays import Array
from weft.core.dtypes import dtype
from weft.core.naming import named
from weft.core.symbolic import Symbolic, size_of
from weft.core.types import TensorType, contiguous_format, layout, memory_format, preserve_format, strided
from weft.ops.values import DType

LARGEST: Final = {
    kind: dtypes.finfo(kind).max for kind in (*dtypes.ALL, *dtypes.NARROW) if kind.category >= dtypes.FLOAT
}


# -- arguments -----------------------------------------------------------------------------------------------
def dtype_argument(value: object, name: str) -> dtype:
    """The dtype a user passed, or PyTorch's TypeError."""
    if isinstance(value, dtype):
        return value
    if value in (bool, int, float, complex):
        return dtypes.as_dtype(value)
    raise TypeError(named(f"{name}(): argument 'dtype' must be weft.dtype, not {type(value).__name__}"))


def chosen(kind: DType, otherwise: dtype | None, name: str) -> dtype:
    """The dtype asked for, else the other, else the default."""
    if kind is not None:
        return dtype_argument(kind, name)
    return dtypes.get_default_dtype() if otherwise is None else otherwise


def checked_size(size: Any, name: str) -> tuple[int, ...]:
    """Sizes as a tuple of whole numbers that are not negative."""
    if not isinstance(size, (tuple, list)):
        raise TypeError(
            f"{name}(): argument 'size' (position 1) must be tuple of ints, not {type(size).__name__}"
        )
    sizes = []
    for position, value in enumerate(size):
        if isinstance(value, (bool, np.bool_)) or not hasattr(value, "__index__"):
            if len(size) == 1:
                raise TypeError(
                    f"{name}(): argument 'size' (position 1) must be tuple of ints, not {kind_name(value)}"
                )
            raise TypeError(
                f"{name}(): argument 'size' failed to unpack the object at pos {position + 1} with error "
                f'"type must be tuple '
                f'of ints,but got {kind_name(value)}"'
            )
        sizes.append(value if type(value) is int else size_of(value))
    if any(n < 0 for n in sizes):
        wrong = next(n for n in sizes if n < 0)
        if name in ("zeros", "ones", "full"):
            raise RuntimeError(f"{name}: Dimension size must be non-negative.")
        raise RuntimeError(f"Trying to create tensor with negative dimension {wrong}: {sizes}")
    return tuple(sizes)


def kind_name(value: object) -> str:
    """What messages call a value's class."""
    return "Tensor" if isinstance(value, TensorType) else type(value).__name__


def check_layout(value: layout | None) -> None:
    if value is not None and value is not strided:
        raise NotImplementedError(f"only the strided layout is supported, not {value!r}")


def fits(value: Any, kind: dtype) -> Any:
    """The number, if it can be an element of this dtype; PyTorch's overflow error otherwise."""
    if isinstance(value, np.generic):
        value = value.item()
    if kind.category == dtypes.BOOL:
        return bool(value)
    if isinstance(value, complex):
        if kind.is_complex:
            return value
        if value.imag != 0:
            raise RuntimeError(f"value cannot be converted to type {kind.c_name} without overflow")
        value = value.real
    if kind.category == dtypes.INTEGER:
        info = np.iinfo(kind.numpy)
        low = -int(info.max) if not kind.is_signed and isinstance(value, int) else int(info.min)
        if not low <= value <= int(info.max):  # also false for NaN
            raise RuntimeError(f"value cannot be converted to type {kind.c_name} without overflow")
        if isinstance(value, Symbolic):
            return value
        return int(value) if value >= 0 or kind.is_signed else int(value) % (int(info.max) + 1)
    if abs(value) > LARGEST[kind] and abs(value) != math.inf:
        raise RuntimeError(f"value cannot be converted to type {kind.c_name} without overflow")
    if kind is dtypes.float16 and type(value) is float:
        return float(np.float32(value))  # PyTorch rounds twice
    return value


def check_number(value: object, name: str, parameter: str, position: int) -> None:
    if not isinstance(value, (int, float, complex, np.number, np.bool_)):
        raise TypeError(
            f"{name}(): argument '{parameter}' (position {position}) must be Number, not {kind_name(value)}"
        )


# -- memory formats ------------------------------------------------------------------------------------------
def in_format(
    make: Callable[[tuple[int, ...]], Array], shape: tuple[int, ...], form: memory_format | None
) -> Array:
    """What `make` allocates for this shape, with its dimensions in the format's order in memory."""
    if form is None or form is contiguous_format:
        return make(shape)
    check_format(form, len(shape))
    order = form.order
    return make(tuple(shape[d] for d in order)).transpose([order.index(d) for d in range(len(order))])


def check_format(form: Any, rank: int) -> None:
    """Raises unless tensors of this rank can have the format."""
    if not isinstance(form, memory_format):
        raise TypeError(
            named(f"argument 'memory_format' must be weft.memory_format, not {type(form).__name__}")
        )
    if form is preserve_format:
        raise RuntimeError("unsupported memory format Preserve")
    if form.order and len(form.order) != rank:
        raise RuntimeError(f"required rank {len(form.order)} tensor to use {form.name} format")


def strides_in(shape: tuple[int, ...], form: memory_format) -> tuple[int, ...]:
    """Strides, in elements, of a dense tensor in this format."""
    strides, step = [0] * len(shape), 1
    for d in reversed(form.order or range(len(shape))):
        strides[d] = step
        step *= max(shape[d], 1)
    return tuple(strides)


def has_format(shape: tuple[int, ...], strides: Iterable[int], form: memory_format) -> bool:
    """Whether elements with these strides (in elements) lie densely in the format's order."""
    if form.order and len(form.order) != len(shape):
        return False
    wanted = strides_in(shape, form)
    if 0 in shape:
        return True
    return all(n == 1 or have == want for n, have, want in zip(shape, strides, wanted, strict=True))


def element_strides(x: Array) -> tuple[int, ...]:
    return tuple(step // x.dtype.itemsize for step in x.strides)


def shaped_like(
    make: Callable[..., Array], x: Array, kind: dtype, form: memory_format | None, *rest: Any
) -> Array:
    """`make` (np.empty, np.zeros, …) with the shape of x, in a format (x's own order where none is given)."""
    if form is None or form is preserve_format:
        flat = [step for n, step in zip(x.shape, x.strides, strict=True) if n > 1]
        if 0 in flat or all(a >= b for a, b in zip(flat, flat[1:], strict=False)):
            made: Array = make(x.shape, *rest, dtype=kind.numpy)
            return made
        order = sorted(range(len(x.shape)), key=lambda d: (-x.strides[d], d))
        made = make(tuple(x.shape[d] for d in order), *rest, dtype=kind.numpy)
        return made.transpose([order.index(d) for d in range(len(order))])
    return in_format(lambda shape: make(shape, *rest, dtype=kind.numpy), x.shape, form)
