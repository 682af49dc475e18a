"""Describing values: `f32[2,3]` from what `meta["val"]` holds.

Takes anything with a shape and a dtype, or a symbolic scalar; gives its type as text, or None where there is
nothing to say. One idea: symbolic scalars describe themselves, and are never asked for their value, because
asking would make them constant.
"""

from __future__ import annotations

from typing import Any, Final

from weft.core.dtypes import bool_, dtype
from weft.core.symbolic import Symbolic

_READABLE: Final = {bool_: "b8"}
"""Where FX's abbreviation of a dtype differs from ours."""


def symbol_text(value: object) -> str | None:
    """The expression of a symbolic scalar (`s0`, `2*s0 + 1`); None for any other value."""
    return value.describe() if isinstance(value, Symbolic) else None


def _size_text(size: object) -> str:
    return str(size) if type(size) is int else symbol_text(size) or str(size)


def _tensor_text(value: object, separator: str, short: dict[dtype, str]) -> str | None:
    kind, shape = getattr(value, "dtype", None), getattr(value, "shape", None)
    if not isinstance(kind, dtype) or shape is None:
        return None
    return f"{short.get(kind, kind.short)}[{separator.join(map(_size_text, shape))}]"


def describe(value: object) -> str | None:
    """The compact form: `f32[2,3]`, `s0`, `(f32[2], i64[2])`."""
    if isinstance(value, (tuple, list)):
        items = [describe(item) or "?" for item in value]
        return f"({', '.join(items)})" if isinstance(value, tuple) else f"[{', '.join(items)}]"
    return symbol_text(value) or _tensor_text(value, ",", {})


def describe_readable(value: Any, stride: bool = False, device: bool = False) -> str | None:
    """FX's form: `f32[2, 3]`, in full `f32[2, 3][3, 1]cpu`; `Sym(s0)`; several values have none."""
    symbol = symbol_text(value)
    if symbol is not None:
        return f"Sym({symbol})"
    text = _tensor_text(value, ", ", _READABLE)
    if text is not None and stride:
        text += f"[{', '.join(map(_size_text, value.stride()))}]"
    return f"{text}{value.device}" if text is not None and device else text
