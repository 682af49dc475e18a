"""Calls of NumPy's functions as one op on tensors: what is called, written as text.

Takes a call of a function, method or operator on arrays; gives a recipe (a text in which arrays are places
in a list), and the op that follows it. One idea: what runs is NumPy itself, on the memory of the tensors, so
that dtypes, rounding and errors are NumPy's own; the types of results are found by a trial on other elements.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable
from functools import lru_cache
from typing import Any, Final

import numpy as np

from weft.autograd.custom_op import CustomOpDef, custom_op
from weft.core.dtypes import BY_NUMPY
from weft.core.interrupts import let_through
from weft.core.once import lock
from weft.core.types import Size
from weft.ops.record import ops
from weft.tensor.base import Tensor
from weft.tensor.interchange import from_numpy
from weft.trace.breaks import Break
from weft.trace.scalars import plain

OPERATORS: Final = {
    name: getattr(operator, name)
    for name in (
        "add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul", "and_", "or_", "xor", "lshift",
        "rshift", "lt", "le", "eq", "ne", "gt", "ge", "neg", "pos", "invert", "getitem",
    )
}  # fmt: skip
BUILTIN_TYPES: Final = {kind.__name__: kind for kind in (bool, int, float, complex)}
LARGEST: Final = 1 << 24
"""How many elements an array may have for a trial on others to be worth its time."""


# -- recipes -------------------------------------------------------------------------------------------------
def written(value: Any, place: Callable[[Any], int | None]) -> Any:
    """An argument as nested tuples of literals; `place` says which array an argument is."""
    found = place(value)
    if found is not None:
        return ("array", found)
    kind = type(value)
    if kind is slice:
        return ("slice", *[written(part, place) for part in (value.start, value.stop, value.step)])
    if kind in (tuple, list, Size):
        return ("list" if kind is list else "tuple", *[written(item, place) for item in value])
    value = plain(value)
    kind = type(value)
    if value is None or kind in (bool, int, str):
        return ("value", value)
    if kind is float:
        return ("float", value.hex())
    if value is Ellipsis:
        return ("dots",)
    if isinstance(value, np.dtype) and value.names is None and not value.hasobject:
        return ("dtype", value.str)
    called = getattr(value, "__name__", "")
    if isinstance(value, type) and BUILTIN_TYPES.get(called) is value:
        return ("type", called)
    if isinstance(value, type) and issubclass(value, np.generic) and getattr(np, called, None) is value:
        return ("scalar type", called)
    if isinstance(value, (np.bool_, np.integer, np.floating)) and value.dtype.itemsize <= 8:
        return ("scalar", value.dtype.str, written(value.item(), place))
    raise Break("numpy-call", seen=f"a {kind.__name__} among the arguments")


def read(parts: Any, arrays: list[Any]) -> Any:
    """The argument that `written` wrote."""
    what, *rest = parts
    if what == "array":
        return arrays[rest[0]]
    if what == "slice":
        return slice(*[read(part, arrays) for part in rest])
    if what in ("list", "tuple"):
        items = [read(part, arrays) for part in rest]
        return items if what == "list" else tuple(items)
    if what == "value":
        return rest[0]
    if what == "float":
        return float.fromhex(rest[0])
    if what == "dots":
        return Ellipsis
    if what == "dtype":
        return np.dtype(rest[0])
    if what == "type":
        return BUILTIN_TYPES[rest[0]]
    if what == "scalar type":
        return getattr(np, rest[0])
    return np.dtype(rest[0]).type(read(rest[1], arrays))


def follow(recipe: str, arrays: list[Any]) -> Any:
    """What the call gives on these arrays."""
    how, name, args, kwargs, _errors = parsed(recipe)
    given = [read(part, arrays) for part in args]
    named = {key: read(part, arrays) for key, part in kwargs}
    if how == "method":
        return getattr(given[0], name)(*given[1:], **named)
    function: Any = OPERATORS.get(name) if how == "operator" else np
    if how == "function":
        for part in name.split("."):
            function = getattr(function, part)
    return function(*given, **named)


@lru_cache(1024)
def parsed(recipe: str) -> Any:
    return ast.literal_eval(recipe)


# -- trials --------------------------------------------------------------------------------------------------
def trial(shape: tuple[int, ...], dtype: Any, strides: tuple[int, ...], indexes: bool) -> Any:
    """An array of this type with harmless elements: matrices that can be inverted; whole numbers and truths
    are ones, or zeros where they may be indices."""
    size = int(np.prod(shape, dtype=np.int64))
    if not 0 < size <= LARGEST or any(step < 0 for step in strides):
        raise Break("numpy-call", seen=f"an array of shape {shape}")
    reach = sum((n - 1) * step for n, step in zip(shape, strides, strict=True)) + dtype.itemsize
    made = np.ndarray(shape, dtype, np.zeros(reach, np.uint8), strides=strides)
    if dtype.kind in "fc":
        elements = 0.5 + np.arange(size).reshape(shape) % 7 / 16
        if len(shape) >= 2 and shape[-1] == shape[-2]:
            elements = elements + elements.swapaxes(-1, -2) + np.eye(shape[-1]) * 4 * shape[-1]
        made[...] = elements
    elif not indexes:
        made[...] = 1
    return made


def tried(recipe: str, arrays: list[Any]) -> Any:
    """What the call gives on trial arrays; a break where it refuses them."""
    try:
        with np.errstate(all="ignore"):
            return follow(recipe, arrays)
    except Exception as error:
        let_through(error)
        raise Break("numpy-call", seen=f"{type(error).__name__}: {error}") from None


def results_of(found: Any) -> list[Any]:
    """The arrays that a call gave; a break where it gave anything else."""
    items = list(found) if type(found) in (tuple, list) else [found]
    for item in items:
        if type(item) is not np.ndarray or item.dtype.kind not in "biufc" or not item.dtype.isnative:
            raise Break(
                "numpy-call", seen=f"a result of class {type(item).__name__}, which depends on elements"
            )
    return items


# -- the op --------------------------------------------------------------------------------------------------
def call_numpy(arrays: list[Tensor], recipe: str) -> list[Tensor]:
    """Follows a recipe on the memory of tensors."""
    given = [tensor.numpy() for tensor in arrays]
    with np.errstate(**dict(parsed(recipe)[-1])):  # as where the captured call stood
        found = follow(recipe, given)
    items = found if type(found) in (tuple, list) else (found,)
    return [
        from_numpy(item.copy() if any(np.may_share_memory(item, other) for other in given) else item)
        for item in items
    ]


def call_on_fakes(arrays: list[Tensor], recipe: str) -> list[Tensor]:
    """Tensors of the types that a recipe gives on tensors of these types."""
    given = [trial_of(tensor, indexes=parsed(recipe)[1] == "getitem") for tensor in arrays]
    return [like(item) for item in results_of(tried(recipe, given))]


def trial_of(tensor: Tensor, indexes: bool = False) -> Any:
    kept = tensor.array
    shape = tuple(int(plain(size)) for size in kept.shape)
    return trial(shape, kept.dtype, tuple(int(plain(step)) for step in kept.strides), indexes)


def like(item: Any) -> Tensor:
    """A tensor with the type and strides of an array."""
    steps = [step // item.itemsize for step in item.strides]
    made: Tensor = ops.empty_strided(item.shape, steps, BY_NUMPY[item.dtype])
    return made


OP: dict[str, CustomOpDef] = {}
LOCK: Final = lock()


def numpy_op() -> CustomOpDef:
    """The op that follows recipes. See Note [Made when first needed] in `weft.core.once`."""
    found = OP.get("call")
    if found is None:
        with LOCK:
            found = OP.get("call")
            if found is None:
                found = custom_op("weft_numpy::follow_recipe", call_numpy, mutates_args=())
                found.register_fake(call_on_fakes)
                found._op.draws = False  # no function that a recipe names does
                OP["call"] = found
    return found
