"""External functions: the C library's mathematics and BLAS, by address.

Takes names as bodies call them (`lgamma.f64`); gives a table of addresses that kernels reach through their
arguments, so that compiled code has no symbols of its own to resolve. One idea: a function's place in the
table is the same in every program and every process, so machine code can be kept and shared.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from functools import cache
from typing import Any, Final

import numpy as np

from weft.core.lazy import lazy
from weft.native.cpu.blas import FUNCTIONS, function

_util: Any = lazy("ctypes.util")

NAMES: Final = (
    "fmod.f32", "fmod.f64", "lgamma.f32", "lgamma.f64", "sgemm.blas", "dgemm.blas", "pow.f64", "exp.f64",
    "log.f64", "log2.f64", "log10.f64", "sin.f64", "cos.f64", "tan.f64", "atan.f64", "sinh.f64", "cosh.f64",
    "tanh.f64",
)  # fmt: skip
"""What machine code may call, each at its place. New ones come last: code that is kept on disk counts."""


def _libraries() -> Iterator[Any]:
    """Where functions are looked for: this process, then the C library's mathematics."""
    yield ctypes.CDLL(None)
    yield ctypes.CDLL(_util.find_library("m") or None)  # dear: it asks other programs


@cache
def address_of(name: str) -> int:
    """The address of a function: `exp.f32` is the C library's `expf`."""
    base, _, kind = name.partition(".")
    if kind == "blas":
        return function({gemm: type_ for type_, gemm in FUNCTIONS.items()}[base])[0]
    name = base + ("f" if kind == "f32" else "")
    found = next((getattr(each, name) for each in _libraries() if hasattr(each, name)), None)
    if found is None:
        raise KeyError(f"{name}: no library of this process has it")
    return ctypes.cast(found, ctypes.c_void_p).value or 0


def place_of(name: str) -> int:
    """The place of a function in the table."""
    if name not in NAMES:
        raise KeyError(
            f"{name}: machine code calls what weft.native.cpu.outside.NAMES lists, and this is not there"
        )
    return NAMES.index(name)


@cache
def table() -> Any:
    """The addresses of all functions, each at its place."""
    return np.array([address_of(name) for name in NAMES], np.uint64)
