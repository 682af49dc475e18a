"""What the forward of a custom Function leaves behind: in its context, in what it returns, and elsewhere.

Takes a call whose forward has been interpreted; gives templates of what is in the context, and the tensors
that others got hold of. One idea: tensors, numbers and containers that nothing else refers to are put into
the context by the graph itself, since they are made there; any other object is put there by the program, once
the graph has run.

# Note [Contexts that the program fills]
    ctx.scale = 2.0; ctx.sizes = [x.shape[0]]     templates over what the graph gives: see `Recipe`
    ctx.config = config                           the graph also gives the context; the segment stores
                                                  `ctx.__dict__['config'] = config`
    config.seen = y = x * 2                       the graph also gives y, which was made inside
    ctx.count += 1, in a backward inside          stored in the end, as all that has changed
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import field
from enum import Enum
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from weft.autograd.function_apply import Kept
from weft.autograd.function_context import FunctionCtx
from weft.capture.higher_order import Picture, parts_of
from weft.capture.sources import function as function_source
from weft.capture.values import has_type
from weft.capture.world import Overlay
from weft.capture.wrapping import SCALARS, SYMBOLIC
from weft.core.device import device
from weft.core.dtypes import dtype
from weft.core.records import record
from weft.core.types import Size
from weft.tensor.base import PLAIN, Tensor
from weft.trace.breaks import Break

if TYPE_CHECKING:
    from weft.capture.machine import Machine

KIND: Final = "autograd-inside"
CONSTANT_TYPES: Final = frozenset({*SCALARS, device, dtype, range, np.dtype})
OWN: Final = frozenset(
    {
        "_forward_cls", "needs_input_grad", "to_save", "saved_for_forward", "dirty_tensors",
        "non_differentiable", "materialize_grads",
    }
)  # fmt: skip
"""What a context has in its `__dict__` beside the user's attributes."""


def refused(seen: str) -> Break:
    return Break(KIND, seen=seen)


def items_of(result: Any) -> tuple[Any, ...]:
    """What forward returned, one by one."""
    return tuple(result) if has_type(result, tuple) else (result,)


def shares_memory(values: Iterable[Any], operands: Iterable[Any]) -> bool:
    """Whether tensors among the values are operands, share memory with one, or are views of anything."""
    cells = [one.cell for one in operands if has_type(one, Tensor) and one.cell is not None]
    ids = {id(one) for one in operands}
    tensors = [value for value in values if has_type(value, Tensor)]
    return any(
        id(tensor) in ids or tensor.origin is not None or any(tensor.cell is cell for cell in cells)
        for tensor in tensors
    )


def tensors_of(given: Any) -> Any:
    """What a call gives, without what is no tensor: the graph gives tensors alone."""
    if has_type(given, tuple):
        return tuple([item if has_type(item, Tensor) else None for item in given])
    return given if has_type(given, Tensor) else None


@record(slots=True)
class Left:
    """What forward left in its context, as templates over the values that its graph has to give."""

    values: list[Any] = field(default_factory=list)
    saved: tuple[Any, ...] | None = None
    saved_for_forward: tuple[Any, ...] | None = None
    attributes: dict[str, Any] = field(default_factory=dict)
    late: dict[str, Any] = field(default_factory=dict)
    """Attributes that the program stores."""


class Contexts(list[Any]):
    """The contexts of one capture. Fakes in graphs lead to them: when the world lets go of the objects of
    the user, they do, too.
    """

    def clear(self) -> None:
        for ctx in self:
            vars(ctx).clear()
        super().clear()


def note_context(machine: Machine, ctx: Any) -> None:
    """Empties a context when capture is over."""
    vars(machine.world).setdefault("contexts", Contexts()).append(ctx)


class NotTemplate(Exception):
    """No error: an object that only the program can put into a context."""


class Templates:
    """Makes templates of values in one context."""

    def __init__(self, world: Any, picture: Picture, shared: bool) -> None:
        self.world, self.picture = world, picture
        self.shared = shared
        """Whether others may hold containers that forward made."""
        self.values: list[Any] = []
        self.seen: set[int] = set()

    def template(self, value: Any) -> Any:
        kind = type(value)
        if kind in PLAIN or has_type(value, SYMBOLIC):
            self.values.append(value)
            return Kept(len(self.values) - 1)
        if kind is tuple or kind is Size:
            return tuple.__new__(kind, [self.template(item) for item in value])  # a Size of places
        if kind in CONSTANT_TYPES or has_type(value, (Enum, type)):
            return value
        if kind not in (list, dict) or self.shared or not self.world.is_fresh(value):
            raise NotTemplate
        if id(value) in self.picture.parts or id(value) in self.seen:
            raise NotTemplate
        self.seen.add(id(value))
        if kind is list:
            return [self.template(item) for item in value]
        if not all(type(key) in SCALARS for key in value):
            raise NotTemplate
        return {key: self.template(item) for key, item in value.items()}

    def left(self, name: str, ctx: Any) -> Left:
        left = Left(self.values)
        if ctx.to_save is not None:
            left.saved = self.saved(name, ctx.to_save)
        for attribute, value in vars(ctx).items():
            if attribute in OWN:
                continue
            count = len(self.values)
            try:
                left.attributes[attribute] = self.template(value)
            except NotTemplate:
                del self.values[count:]
                left.late[attribute] = value
        return left

    def saved(self, name: str, saved: Any) -> Any:
        if type(saved) is not tuple or not all(v is None or type(v) in PLAIN for v in saved):
            raise refused(f"{name}, which saves values that are not tensors")
        return self.template(saved)


def escaping(
    machine: Machine, picture: Picture, roots: Iterable[Any], inside: Callable[[Tensor], bool], changed: bool
) -> list[Tensor]:
    """The tensors made in forward (`inside(tensor)`) that can be reached from these roots, or, where forward
    has changed anything, from what it changed.
    """
    world = machine.world
    waiting = list(roots)
    if changed:
        waiting += [value for overlay in world.overlays.values() for value in overlay.writes.values()]
        waiting += world.logged()
        waiting += [known.value for known in world.changed_mirrors()]
        waiting += [value for value, _parts in picture.parts.values()]
    found: list[Tensor] = []
    seen: set[int] = set()
    while waiting:
        value = waiting.pop()
        if id(value) in seen:
            continue
        seen.add(id(value))
        if has_type(value, Tensor):
            if inside(value):
                found.append(value)
            continue
        waiting += parts_of(machine, value) or ()
    return found


def store_later(machine: Machine, ctx: Any, late: dict[str, Any]) -> None:
    """Lets the program fill a context that the graph gives: with these attributes, and with those that it
    changes from here on.
    """
    world = machine.world
    overlay = Overlay(ctx, "context", function_source())
    overlay.writes.update(late)
    world.overlays[id(world.keep(ctx))] = overlay
    vars(world).setdefault("first_fields", {})[id(ctx)] = user_fields(ctx)


def user_fields(ctx: Any) -> dict[str, Any]:
    """The attributes of a context that are the user's."""
    return {name: value for name, value in vars(ctx).items() if name not in FunctionCtx.__dict__}


def changed_fields(world: Any, overlay: Overlay) -> tuple[dict[str, Any], list[str]]:
    """What the program has to store into a context in the end, and which attributes it has to delete."""
    ctx = overlay.target
    first, now = vars(world)["first_fields"][id(ctx)], user_fields(ctx)
    late = overlay.writes
    stored = {name: value for name, value in now.items() if name in late or first.get(name, now) is not value}
    return stored, [name for name in first if name not in now and name not in overlay.writes]
