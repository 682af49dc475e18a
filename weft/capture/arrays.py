"""NumPy in captured code: what is known of arrays, functions of constants, and where calls on arrays arrive.

Takes attributes of arrays and calls of NumPy's functions that captured code makes. One idea: an array's shape
and dtype are guarded where they are read, its elements never; a function whose arguments are all plain
numbers is simply called, and what it gives is a constant; of arrays it is a node (`captured_arrays`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from weft.capture import captured_arrays as captured
from weft.capture.attributes import SPECIAL
from weft.capture.builtins import STOOD_FOR
from weft.capture.c_calls import CALLED
from weft.capture.calls import HANDLERS, handles
from weft.capture.captured_arrays import CapturedArray
from weft.capture.operators import OPERATED
from weft.capture.values import Args, BoundMethod, Kwargs, has_type
from weft.capture.wrapping import SCALARS, SYMBOLIC
from weft.core.types import Size
from weft.tensor.base import Tensor
from weft.tensor.creation import as_tensor, tensor
from weft.tensor.interchange import from_numpy
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
    if name == "T" and known is not None:
        return captured.call_arrays(machine, "method", "transpose", (value,), {})
    if name in captured.METHODS and known is not None:
        return BoundMethod(captured.call_method, machine, value, name)
    if callable(getattr(np.ndarray, name, None)):
        return machine.native(getattr, value, name)  # what it does is decided when it is called
    raise Break("numpy-call", seen=f".{name} of an array")


SPECIAL[np.ndarray] = array_attribute
SPECIAL[CapturedArray] = captured.attribute
STOOD_FOR[CapturedArray] = np.ndarray
OPERATED.update(dict.fromkeys(captured.ARRAYS, captured.operate))


def _makes_tensors(function: Any, copies: bool) -> None:
    """Captured code calls this function of tensors on arrays too."""

    @handles(function)
    def to_tensor(machine: Machine, args: Args, kwargs: Kwargs) -> Any:
        if not args or type(args[0]) is not CapturedArray:
            return machine.calls.call_function(function, args, kwargs)
        if len(args) > 1 or kwargs.keys() - {"dtype"}:
            raise Break("numpy-call", seen=f"{function.__name__} of an array, with options")
        made = captured.tensor_from(machine, args[0])
        if kwargs.get("dtype") is not None:
            made = machine.native(machine.recorder.call_method, "to", (made, kwargs["dtype"]))
        return machine.native(machine.recorder.call_method, "clone", (made,)) if copies else made


_makes_tensors(from_numpy, copies=False)
_makes_tensors(as_tensor, copies=False)
_makes_tensors(tensor, copies=True)


@handles(Tensor.numpy)
def to_array(machine: Machine, args: Args, kwargs: Kwargs) -> Any:
    if len(args) != 1 or kwargs:
        raise Break("numpy-call", seen=".numpy() with options")
    return captured.array_on(machine, args[0])


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
    name = PATHS.get(id(function))
    if name is not None and captured.has_arrays((*args, *kwargs.values())):
        return captured.call_arrays(machine, "function", name, args, kwargs)
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


def call_ufunc(machine: Machine, function: Any, args: Args, kwargs: Kwargs) -> Any:
    """A ufunc: of numbers, a number; of arrays, a node."""
    called: str = function.__name__
    if captured.has_arrays((*args, *kwargs.values())):
        if getattr(np, called, None) is not function:
            raise Break("numpy-call", seen=f"builtin: {called}")
        return captured.call_arrays(machine, "function", called, args, kwargs)
    args = tuple(plain(value) for value in args)
    if all(type(v) in SCALARS or has_type(v, np.generic) for v in (*args, *kwargs.values())):
        return machine.native(function, *args, **kwargs)
    raise Break("numpy-call", seen=f"builtin: {called}")


def _at(path: str) -> Any:
    found: Any = np
    for part in path.split("."):
        found = getattr(found, part, None)
    return found


CALLED[np.ufunc] = call_ufunc
PATHS: dict[int, str] = {
    id(_at(_name)): _name for _name in captured.FUNCTIONS.split() if _at(_name) is not None
}
"""NumPy's functions that may be called on arrays, by `id`: what they are called."""
for _name in (*FOLDED, *PATHS.values()):
    if not has_type(_at(_name), (np.ufunc, type(None))):
        _register(_at(_name))
for _kind in (np.finfo, np.iinfo):
    SPECIAL[_kind] = lambda machine, value, name: machine.native(getattr, value, name)
