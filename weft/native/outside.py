"""Functions from outside: the C library's mathematics, by address.

Takes names as bodies call them (`lgamma.f64`); gives a table of addresses that kernels reach through their
arguments, so that compiled code has no symbols of its own to resolve.
"""

from __future__ import annotations

import ctypes
import ctypes.util
from functools import cache
from typing import Any

import numpy as np

from weft.native.blas import FUNCTIONS, function


@cache
def _library() -> Any:
    return ctypes.CDLL(ctypes.util.find_library("m") or None)


@cache
def address_of(name: str) -> int:
    """The address of a function: `exp.f32` is the C library's `expf`."""
    base, _, kind = name.partition(".")
    if kind == "blas":
        return function({gemm: type_ for type_, gemm in FUNCTIONS.items()}[base])[0]
    name = base + ("f" if kind == "f32" else "")
    found = getattr(_library() if hasattr(_library(), name) else ctypes.CDLL(None), name)
    return ctypes.cast(found, ctypes.c_void_p).value or 0


def table(places: dict[str, int]) -> Any:
    """The addresses of these functions, each at its place."""
    made = np.zeros(max(len(places), 1), np.uint64)
    for name, place in places.items():
        made[place] = address_of(name)
    return made
