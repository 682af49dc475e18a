"""Functions of each element, or of pairs of elements."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from weft.array_api.base import array_of, named, promoted, w
from weft.core import dtypes
from weft.tensor.base import Tensor

__all__ = ["clip", "conj", "imag", "pow", "real", "sign"]

UNARY: Final = {
    name: name
    for name in (
        *("abs", "acos", "acosh", "asin", "asinh", "atan", "atanh", "cos", "cosh", "exp", "expm1"),
        *("isfinite", "isinf", "isnan", "log", "log1p", "log2", "log10", "logical_not", "negative"),
        *("positive", "reciprocal", "signbit", "sin", "sinh", "sqrt", "square", "tan", "tanh"),
    )
} | {"bitwise_invert": "bitwise_not"}
ROUNDING: Final = ("ceil", "floor", "round", "trunc")
BINARY: Final = {
    name: name
    for name in (
        *("add", "atan2", "bitwise_and", "bitwise_left_shift", "bitwise_or", "bitwise_right_shift"),
        *("bitwise_xor", "copysign", "divide", "floor_divide", "hypot", "logaddexp", "logical_and"),
        *("logical_or", "logical_xor", "maximum", "minimum", "multiply", "nextafter", "remainder"),
        *("subtract",),
    )
} | {
    "equal": "eq",
    "not_equal": "ne",
    "less": "lt",
    "less_equal": "le",
    "greater": "gt",
    "greater_equal": "ge",
}


def _unary(name: str, own: str) -> Callable[..., Tensor]:
    def function(x: Tensor, /) -> Tensor:
        made: Tensor = getattr(w, own)(x)
        return made

    return named(function, name, f"`weft.{own}` of each element.")


def _rounding(name: str) -> Callable[..., Tensor]:
    def function(x: Tensor, /) -> Tensor:
        whole = x.dtype.category < dtypes.FLOAT
        if x.dtype.is_complex and name == "round":
            return w.complex(w.round(x.real), w.round(x.imag))
        return x.clone() if whole else getattr(w, name)(x)

    return named(function, name, f"`weft.{name}` of each element; whole numbers as they are.")


def _binary(name: str, own: str) -> Callable[..., Tensor]:
    def function(x1: Any, x2: Any, /) -> Tensor:
        made: Tensor = getattr(w, own)(*promoted(x1, x2))
        return made

    return named(function, name, f"`weft.{own}` of pairs of elements, with the standard's promotion.")


TABLE: Final[dict[str, Callable[..., Tensor]]] = {
    **{name: _unary(name, own) for name, own in UNARY.items()},
    **{name: _rounding(name) for name in ROUNDING},
    **{name: _binary(name, own) for name, own in BINARY.items()},
}


def pow(x1: Any, x2: Any, /) -> Tensor:
    """Powers of pairs of elements."""
    return w.pow(*promoted(x1, x2))


def sign(x: Tensor, /) -> Tensor:
    """-1, 0 or 1; for complex numbers, the number on the unit circle in the same direction."""
    found = w.sgn(x)
    return w.where(w.isnan(x), x, found) if x.dtype.category >= dtypes.FLOAT else found


def conj(x: Tensor, /) -> Tensor:
    """The conjugate of each element."""
    return w.conj(x)


def real(x: Tensor, /) -> Tensor:
    """The real part of each element."""
    return w.real(x)


def imag(x: Tensor, /) -> Tensor:
    """The imaginary part of each element."""
    return w.imag(x) if x.dtype.is_complex else w.zeros_like(x)


def clip(x: Tensor, /, min: Any = None, max: Any = None) -> Tensor:
    """Each element, not below `min` and not above `max`."""
    made = x.clone()
    if min is not None:
        made = w.maximum(*_beside(made, min))
    if max is not None:
        made = w.minimum(*_beside(made, max))
    return made


def _beside(x: Tensor, bound: Any) -> tuple[Tensor, Tensor]:
    return x, array_of(bound, x.dtype).to(x.dtype)
