"""What all functions of the namespace share: Weft's own functions by name, and the standard's promotion.

Takes arguments as the standard allows them (arrays, Python numbers); gives arrays of one dtype. One idea: in
the standard an array without dimensions promotes like any other, and a Python number takes the dtype of the
array beside it; PyTorch has other rules, so operands are cast before Weft's functions see them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any, Final, Protocol, cast

from weft.core import dtypes
from weft.core.dtypes import dtype, promote_types
from weft.tensor.base import PUBLIC, Tensor
from weft.tensor.faces import FUNCTIONS

NUMBERS: Final = (bool, int, float, complex)


_TABLE: Final = {
    name.replace(".", "_"): function
    for name, function in {**PUBLIC, **FUNCTIONS}.items()
    if "." not in name or name.startswith(("linalg.", "fft."))
}


class Functions(Protocol):
    """Weft's functions by name: most give one tensor."""

    finfo: type[dtypes.finfo]
    broadcast_tensors: Callable[..., Sequence[Tensor]]
    linalg_eigh: Callable[..., Sequence[Tensor]]
    linalg_qr: Callable[..., Sequence[Tensor]]
    linalg_slogdet: Callable[..., Sequence[Tensor]]
    linalg_svd: Callable[..., Sequence[Tensor]]
    meshgrid: Callable[..., Sequence[Tensor]]
    nonzero: Callable[..., Sequence[Tensor]]
    sort: Callable[..., Sequence[Tensor]]
    unbind: Callable[..., Sequence[Tensor]]

    def __getattr__(self, name: str) -> Callable[..., Tensor]: ...


w: Final = cast(Functions, SimpleNamespace(**_TABLE))
"""Weft's functions as attributes: `w.add` is `weft.add`, `w.linalg_inv` is `weft.linalg.inv`."""


def array_of(value: Any, like: dtype) -> Tensor:
    """A Python number as an array: of the dtype beside it, if that can hold its kind."""
    if isinstance(value, Tensor):
        return value
    if not isinstance(value, NUMBERS):
        raise TypeError(f"expected an array or a Python number, but got {type(value).__name__}")
    kind = like
    if isinstance(value, complex) and not like.is_complex:
        kind = like.to_complex() if like.is_floating_point else dtypes.get_default_dtype().to_complex()
    elif isinstance(value, float) and like.category < dtypes.FLOAT:
        kind = dtypes.get_default_dtype()
    elif not isinstance(value, bool) and like is dtypes.bool_:
        kind = dtypes.int64
    return w.asarray(value, dtype=kind)


def promoted(*operands: Any) -> tuple[Tensor, ...]:
    """The operands, as arrays of the dtype that all can be cast to."""
    arrays = [operand for operand in operands if isinstance(operand, Tensor)]
    if not arrays:
        raise TypeError("at least one operand must be an array")
    kind = arrays[0].dtype
    for array in arrays[1:]:
        kind = promote_types(kind, array.dtype)
    made = [array_of(operand, kind) for operand in operands]
    for array in made:
        kind = promote_types(kind, array.dtype)
    return tuple(array if array.dtype is kind else array.to(kind) for array in made)


def named(function: Callable[..., Tensor], name: str, text: str) -> Callable[..., Tensor]:
    """The function under this name, with this text."""
    function.__name__ = function.__qualname__ = name
    function.__doc__ = text
    return function


def axes_of(axis: Any, x: Tensor) -> tuple[int, ...]:
    """Dimensions as numbers from 0 on; None is all of them."""
    if axis is None:
        return tuple(range(x.ndim))
    axes = axis if isinstance(axis, tuple) else (axis,)
    for each in axes:
        if not -x.ndim <= each < x.ndim:
            raise IndexError(f"axis {each} is out of bounds for an array of {x.ndim} dimensions")
    return tuple(each % x.ndim for each in axes)


def shape_of(shape: Any) -> tuple[int, ...]:
    """A shape from a number or several."""
    return (shape,) if isinstance(shape, int) else tuple(shape)
