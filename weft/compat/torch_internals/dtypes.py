"""Sets of dtypes, as tests name them: `floating_types_and(weft.half)` is a tuple."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import weft

Dtypes = tuple[Any, ...]
_FLOATS: Dtypes = (weft.float32, weft.float64)
_COMPLEX: Dtypes = (weft.complex64, weft.complex128)
_INTEGERS: Dtypes = (weft.uint8, weft.int8, weft.int16, weft.int32, weft.int64)


def _sets(*kinds: Any) -> tuple[Callable[[], Dtypes], Callable[..., Dtypes]]:
    """A set, and that set with more."""

    def plain() -> Dtypes:
        return kinds

    def more(*others: Any) -> Dtypes:
        return tuple(dict.fromkeys((*kinds, *others)))

    return plain, more


floating_types, floating_types_and = _sets(*_FLOATS)
complex_types, complex_types_and = _sets(*_COMPLEX)
integral_types, integral_types_and = _sets(*_INTEGERS)
floating_and_complex_types, floating_and_complex_types_and = _sets(*_FLOATS, *_COMPLEX)
all_types, all_types_and = _sets(*_FLOATS, *_INTEGERS)
all_types_and_complex, all_types_and_complex_and = _sets(*_FLOATS, *_INTEGERS, *_COMPLEX)
double_types, _ = _sets(weft.float64, weft.complex128)
floating_types_and_half, _ = _sets(*_FLOATS, weft.float16)
all_types_and_half, _ = _sets(*_FLOATS, *_INTEGERS, weft.float16)


def empty_types() -> Dtypes:
    """No dtype."""
    return ()


def custom_types(*dtypes: Any) -> Dtypes:
    """These dtypes."""
    return dtypes


def get_all_int_dtypes() -> list[Any]:
    """All integers."""
    return list(_INTEGERS)


def get_all_fp_dtypes(include_half: bool = True, include_bfloat16: bool = True) -> list[Any]:
    """All floats."""
    return [
        *_FLOATS,
        *([weft.float16] if include_half else []),
        *([weft.bfloat16] if include_bfloat16 else []),
    ]


def get_all_complex_dtypes(include_complex32: bool = False) -> list[Any]:
    """All complex dtypes."""
    return list(_COMPLEX)


def get_all_math_dtypes(device: Any = "cpu") -> list[Any]:
    """All that one can calculate with on this device."""
    return [*get_all_int_dtypes(), *get_all_fp_dtypes(include_half=False), *_COMPLEX]


def get_all_dtypes(
    include_half: bool = True,
    include_bfloat16: bool = True,
    include_bool: bool = True,
    include_complex: bool = True,
    include_complex32: bool = False,
    include_qint: bool = False,
) -> list[Any]:
    """All dtypes."""
    made = [*get_all_int_dtypes(), *get_all_fp_dtypes(include_half, include_bfloat16)]
    made += [weft.bool] if include_bool else []
    return made + (list(_COMPLEX) if include_complex else [])
