"""Casting: what autocast does to a call of an op that has a category.

Takes an op and its arguments, gives the op's result on arguments cast as its category (`op.amp`) says. The
dispatcher finds an `Autocast` among the modes and hands it such calls. One idea: the ops inside the call run
without autocast, so a composite that has a category is cast as a whole, and one that has none is cast inside.

# Note [Cache of casts]
A parameter used twice is cast once: leaves that require grad and are float32 keep their cast until the
outermost autocast is left, with the node that leads back to the leaf. An entry counts only for the same
tensor at the same version, in the same grad mode.
"""

from __future__ import annotations

import weakref
from typing import Any

from weft.core import modes
from weft.core.dtypes import dtype, float32, float64
from weft.ops.record import Op, ops
from weft.tensor.base import PLAIN, Tensor
from weft.tensor.dispatch import dispatch
from weft.tensor.tape import INFERENCE

NAME = "autocast"
"""The name of the entry in `Modes.extra`."""


class Cache(dict[Any, Any]):
    """Casts of leaves. Open inside an autocast only: what runs later with the same modes (a checkpoint
    computing again) must not leave anything behind."""

    open = False


class Autocast:
    """An active autocast."""

    __slots__ = ("dtype", "caching", "cache")

    def __init__(self, kind: dtype, caching: bool, cache: Cache) -> None:
        self.dtype = kind
        self.caching = caching
        self.cache = cache

    def call(self, op: Op, bound: tuple[Any, ...]) -> Any:
        """The op on arguments cast as its category says."""
        kind = {"lower": self.dtype, "float32": float32}.get(op.amp or "")
        if kind is None:
            kind = self.widest(bound)
        arguments = tuple([self.cast(value, kind) for value in bound])
        token = modes.enter(extra=without_autocast(modes.modes().extra))
        try:
            return dispatch(op, arguments)
        finally:
            modes.leave(token)

    def cast(self, value: Any, kind: dtype) -> Any:
        """A tensor that autocast may cast, cast; tensors in lists too; anything else as it is."""
        if isinstance(value, Tensor):
            if value.dtype is kind or not is_eligible(value):
                return value
            cached = (
                self.caching
                and self.cache.open
                and kind is self.dtype
                and value.tracked
                and value.node is None
                and value.origin is None
                and value.cell is not INFERENCE
                and type(value) in PLAIN
                and value.dtype is float32
            )
            return self.cached(value, kind) if cached else ops._to_copy(value, kind)
        if type(value) is list or type(value) is tuple:
            return type(value)(self.cast(item, kind) for item in value)
        return value

    def cached(self, leaf: Tensor, kind: dtype) -> Any:
        """See Note [Cache of casts]."""
        key = (id(leaf), kind, modes.grad_enabled())
        version = leaf.shared_cell()[0]
        entry = self.cache.get(key)
        if entry is not None and entry[0]() is leaf and entry[1] == version:
            return entry[2]
        result = ops._to_copy(leaf, kind)
        self.cache[key] = (weakref.ref(leaf), version, result)
        return result

    def widest(self, values: Any) -> dtype:
        """The widest floating dtype among the arguments that may be cast."""
        kind = self.dtype
        for value in values:
            if isinstance(value, Tensor):
                if not is_eligible(value):
                    continue
                found = value.dtype
            elif type(value) is list or type(value) is tuple:
                found = self.widest(value)
            else:
                continue
            if found is float32:
                kind = float32
            elif kind is not float32 and found is not self.dtype:
                raise RuntimeError("Unexpected floating ScalarType in at::autocast::prioritize")
        return kind


def is_eligible(tensor: Tensor) -> bool:
    """Whether autocast may cast this tensor: floating, on the CPU, and not a float64, which somebody asked
    for."""
    kind = tensor.dtype
    return kind.is_floating_point and kind is not float64 and tensor.device.type == "cpu"


def without_autocast(extra: tuple[tuple[str, Any], ...]) -> tuple[tuple[str, Any], ...]:
    return tuple([item for item in extra if item[0] != NAME])


def active() -> Autocast | None:
    """The autocast that surrounds the code that runs now."""
    mode = modes.current()
    if type(mode) is bool:
        return None
    return next((value for name, value in mode.extra if name == NAME), None)
