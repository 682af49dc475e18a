"""NumPy in captured code: what is known of arrays, and functions of constants.

Takes attributes of arrays and calls of NumPy's functions that captured code makes. One idea: an array's shape
and dtype are guarded where they are read, its elements never; a function whose arguments are all plain
numbers is simply called, and what it gives is a constant.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from weft.capture.attributes import SPECIAL
from weft.capture.calls import HANDLERS, handles
from weft.capture.values import Args, Kwargs, has_type
from weft.capture.wrapping import SCALARS, SYMBOLIC
from weft.core.types import Size
from weft.trace.breaks import Break
from weft.trace.scalars import plain

if TYPE_CHECKING:
    from weft.capture.machine import Machine

KNOWN_FACTS = frozenset({"shape", "dtype", "ndim", "size", "itemsize", "nbytes"})
FOLDED = (
    "prod", "sum", "max", "min", "mean", "std", "var", "median", "argmax", "argmin", "cumsum", "any", "all",
    "clip", "round", "abs", "sign", "gcd", "lcm", "allclose", "isclose", "array_equal", "isscalar", "ndim",
    "size", "shape", "dot", "interp", "percentile", "result_type", "promote_types", "can_cast",
    "min_scalar_type", "issubdtype", "common_type", "broadcast_shapes", "unravel_index",
    "ravel_multi_index", "dtype", "finfo", "iinfo", "isfinite", "isnan", "isinf", "floor", "ceil",
)  # fmt: skip
"""NumPy's functions that depend on nothing but their arguments."""
RESULTS = (*SCALARS, np.generic, np.dtype, np.finfo, np.iinfo, type)


# -- arrays --------------------------------------------------------------------------------------------------
def array_attribute(machine: Machine, value: Any, name: str) -> Any:
    """An attribute of an array: what the guards hold, or a method."""
    known = machine.world.known.get(id(value))
    if name in KNOWN_FACTS:
        if known is not None:
            machine.world.guard("EQ", known.source.member("shape"), value.shape)
            machine.world.guard("EQ", known.source.member("dtype"), value.dtype)
        return machine.native(getattr, value, name)
    if callable(getattr(np.ndarray, name, None)):
        return machine.native(getattr, value, name)  # what it does is decided when it is called
    raise Break("numpy-call", seen=f".{name} of an array")


SPECIAL[np.ndarray] = array_attribute


# -- functions -----------------------------------------------------------------------------------------------
def is_constant(value: Any) -> bool:
    if type(value) in (list, tuple, Size):
        return all(is_constant(item) for item in value)
    return type(value) in SCALARS or has_type(value, (*SYMBOLIC, np.generic, np.dtype, type))


def settled(value: Any) -> Any:
    """The value with numbers in place of symbols."""
    if type(value) in (list, tuple, Size):
        return (list if type(value) is list else tuple)([settled(item) for item in value])
    return plain(value)


def fold(machine: Machine, function: Any, args: Args, kwargs: Kwargs) -> Any:
    if not all(map(is_constant, (*args, *kwargs.values()))):
        raise Break("numpy-call", seen=f"builtin: {getattr(function, '__name__', function)}")
    result = machine.native(function, *settled(args), **{key: settled(item) for key, item in kwargs.items()})
    if not has_type(result, RESULTS) and not (type(result) is tuple and is_constant(result)):
        raise Break("numpy-call", seen=f"an array made by {getattr(function, '__name__', function)}")
    return machine.world.keep(result)


def _register(function: Any) -> None:
    if id(function) not in HANDLERS:

        @handles(function)
        def call(machine: Machine, args: Args, kwargs: Kwargs) -> Any:
            return fold(machine, function, args, kwargs)


for _name in FOLDED:
    if not has_type(getattr(np, _name), np.ufunc):
        _register(getattr(np, _name))
for _kind in (np.finfo, np.iinfo):
    SPECIAL[_kind] = lambda machine, value, name: machine.native(getattr, value, name)
