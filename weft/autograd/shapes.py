"""Running a function on types alone: what a branch that is not taken would give.

Takes a function and its arguments, gives the types of its results, or None where they depend on elements.
One idea: a function mode replaces every tensor that any call sees, also those the function closes over, by a
stand-in without elements, so that nothing is computed, drawn or written. What the function does to other
objects cannot be held back; where it leaves a stand-in behind, that is found and refused.
"""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from typing import Any

from weft.core import modes
from weft.core.device import meta
from weft.core.generator import Generator, apart
from weft.core.interrupts import let_through
from weft.core.trees import flatten, tree_map
from weft.core.types import TensorType
from weft.tensor.base import Tensor, wrap
from weft.tensor.meta import meta_array


class Shapes:
    """The mode: calls run on stand-ins."""

    def __init__(self) -> None:
        self.known: dict[int, tuple[Tensor, Tensor]] = {}  # the tensor is held so that its id stays its own
        self.made: list[weakref.ref[Tensor]] = []

    def stand_in(self, value: object) -> Any:
        """A tensor without elements in place of one with; the same one each time."""
        if isinstance(value, Generator):
            return None  # the default one, which `result_of` sets back
        if not isinstance(value, Tensor) or value.is_meta:
            return value
        found = self.known.get(id(value))
        if found is None:
            made = wrap(meta_array(TensorType(value.shape, value.dtype)))
            self.made.append(weakref.ref(made))
            found = self.known[id(value)] = (value, made)
        return found[1]

    def __torch_function__(
        self, function: Callable[..., Any], _types: object, args: object = (), kwargs: Any = None
    ) -> Any:
        options = dict(kwargs or {})
        if "device" in options:
            options["device"] = meta
        with meta:
            result = function(*tree_map(self.stand_in, args), **tree_map(self.stand_in, options))
        result = tree_map(self.stand_in, result)
        self.made += [weakref.ref(leaf) for leaf in flatten(result)[0] if isinstance(leaf, Tensor)]
        return result

    def kept(self) -> bool:
        """Whether a stand-in is still referenced."""
        self.known.clear()
        if all(reference() is None for reference in self.made):
            return False
        gc.collect()  # perhaps a circle of references that nobody can reach
        return any(reference() is not None for reference in self.made)


def result_of(function: Callable[..., Any], args: Any) -> list[Any] | None:
    """The leaves of the function's result, tensors as their types; None where types cannot tell."""
    mode = Shapes()
    types = _run(mode, function, args)
    if mode.kept():
        raise RuntimeError(
            f"{getattr(function, '__qualname__', function)} stored a tensor outside of itself. A function "
            "that is "
            "handed to control flow may not have side effects, because it may run on types alone: return the "
            "tensor instead."
        )
    return types


def _run(mode: Shapes, function: Callable[..., Any], args: object) -> list[Any] | None:
    token = modes.enter(grad=False, functions=(mode,))
    try:
        with apart():
            result = function(*tree_map(mode.stand_in, args))
    except Exception as error:  # needs elements, or something that has no type rule: the real run will say
        let_through(error)
        return None
    finally:
        modes.leave(token)
    return [typed(leaf) for leaf in flatten(result)[0]]


def typed(leaf: object) -> Any:
    """A tensor's type, anything else itself."""
    return TensorType(leaf.shape, leaf.dtype) if isinstance(leaf, Tensor) else leaf
