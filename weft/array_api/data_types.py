"""Dtypes of the standard, and functions about them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from weft.array_api.base import NUMBERS, promoted, w
from weft.core import dtypes
from weft.core.device import cpu
from weft.core.dtypes import dtype
from weft.core.dtypes import finfo as finfo
from weft.core.dtypes import iinfo as iinfo
from weft.tensor.base import Tensor

__all__ = [
    "astype", "broadcast_arrays", "broadcast_to", "can_cast", "finfo", "iinfo", "isdtype", "result_type",
]  # fmt: skip

STANDARD: Final[tuple[str, ...]] = (
    *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    *("float32", "float64", "complex64", "complex128"),
)
KNOWN: Final[dict[str, dtype]] = {name: dtypes.BY_NAME[name] for name in STANDARD if name in dtypes.BY_NAME}
"""The standard's dtypes, as far as Weft has them."""

_KINDS: Final[dict[str, Callable[[dtype], bool]]] = {
    "bool": lambda kind: kind is dtypes.bool_,
    "signed integer": lambda kind: kind.category == dtypes.INTEGER and kind.is_signed,
    "unsigned integer": lambda kind: kind.category == dtypes.INTEGER and not kind.is_signed,
    "integral": lambda kind: kind.category == dtypes.INTEGER,
    "real floating": lambda kind: kind.is_floating_point,
    "complex floating": lambda kind: kind.is_complex,
    "numeric": lambda kind: kind is not dtypes.bool_,
}


def isdtype(dtype: Any, kind: Any) -> bool:
    """Whether a dtype is of a kind, given by name, as a dtype, or as a tuple of such."""
    if isinstance(kind, tuple):
        return any(isdtype(dtype, each) for each in kind)
    if isinstance(kind, str):
        if kind not in _KINDS:
            raise ValueError(f"unknown kind of dtypes {kind!r}")
        return _KINDS[kind](dtype)
    return bool(dtype is kind)


def astype(x: Tensor, dtype: Any, /, *, copy: bool = True, device: Any = None) -> Tensor:
    """The array in another dtype; a copy, unless `copy` is False and nothing has to change."""
    if x.dtype.is_complex and not dtype.is_complex:
        raise TypeError("an array of complex numbers has no other dtypes to be cast to")
    where = x.device if device is None else device
    return x.to(where, dtype, copy=copy)


def broadcast_to(x: Tensor, /, shape: tuple[int, ...]) -> Tensor:
    """The array repeated to this shape, without a copy."""
    return w.broadcast_to(x, shape)


def broadcast_arrays(*arrays: Tensor) -> list[Tensor]:
    """The arrays, each repeated to the shape of all."""
    return list(w.broadcast_tensors(*arrays))


def can_cast(from_: Any, to: Any, /) -> bool:
    """Whether promotion takes the one to the other."""
    kind = from_.dtype if isinstance(from_, Tensor) else from_
    return dtypes.promote_types(kind, to) is to


def result_type(*arrays_and_dtypes: Any) -> Any:
    """The dtype that arrays, dtypes and Python numbers become together."""
    kinds = [each.dtype if isinstance(each, Tensor) else each for each in arrays_and_dtypes]
    known = [each for each in kinds if isinstance(each, dtype)]
    if not known:
        raise ValueError("at least one array or dtype is needed")
    numbers = [each for each in kinds if isinstance(each, NUMBERS) and not isinstance(each, dtype)]
    examples = [w.empty(0, dtype=each) for each in known]
    return promoted(*examples, *numbers)[0].dtype


class Info:
    """What `__array_namespace_info__` tells of this namespace."""

    def capabilities(self) -> dict[str, Any]:
        """Which optional parts there are."""
        return {"boolean indexing": True, "data-dependent shapes": True, "max dimensions": 64}

    def default_device(self) -> Any:
        """Where new arrays are."""
        return cpu

    def devices(self) -> list[Any]:
        """Where arrays can be."""
        return [cpu]

    def default_dtypes(self, *, device: Any = None) -> dict[str, Any]:
        """The dtypes of arrays that are made without one."""
        floating = dtypes.get_default_dtype()
        return {
            "real floating": floating,
            "complex floating": floating.to_complex(),
            "integral": dtypes.int64,
            "indexing": dtypes.int64,
        }

    def dtypes(self, *, device: Any = None, kind: Any = None) -> dict[str, Any]:
        """The dtypes there are, of a kind or of all."""
        return {name: each for name, each in KNOWN.items() if kind is None or isdtype(each, kind)}


def __array_namespace_info__() -> Info:
    """What this namespace has."""
    return Info()
