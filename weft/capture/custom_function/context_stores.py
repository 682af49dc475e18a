"""Contexts of custom Functions, as segments fill them.

Takes a `Builder` and the overlay of a context that the graph gives; gives the stores of what forward left in
it. One idea: the context is one more result of the graph: see Note [Contexts that the program fills] in
`weft.capture.custom_function.saved`.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from weft.autograd.function_context import FunctionCtx
from weft.autograd.tasks import reachable
from weft.capture.custom_function.saved import changed_fields
from weft.capture.gradients import history, is_spent
from weft.capture.rebuild.builder import Builder
from weft.capture.rebuild.types import RULES
from weft.capture.values import has_type
from weft.capture.world import Overlay
from weft.tensor.base import Tensor


def context_stores(builder: Builder, overlay: Overlay, _target: str) -> list[str]:
    """Has a context built where somebody can ask for what is in it, when all that is handed on is known."""
    ctx = overlay.target

    def build_if_reached() -> None:
        early = builder.storing or builder.opened  # others may be handed on later
        if early or is_reached(builder, ctx):
            builder.text(ctx)

    builder.later(build_if_reached)
    return []


def is_reached(builder: Builder, ctx: Any) -> bool:
    """Whether a tensor that others get, or have already, has the context's node behind it."""
    node = None if ctx._node is None else ctx._node()
    if node is None:
        return True
    values = [*builder.built, *(known.value for known in builder.world.known.values())]
    tensors = [value for value in values if has_type(value, Tensor) and value.tracked]
    roots = [history(tensor) for tensor in tensors if not is_spent(tensor)]
    return any(found is node for found in reachable([root for root in roots if root is not None]))


def context(builder: Builder, value: Any) -> str:
    """A context: one of the graph's results, filled with what the graph does not know."""
    recorder = builder.outcome.recorder
    if not recorder.knows(value):
        builder.refuse(value)
    name = builder.output(recorder.node(value))
    overlay = builder.world.overlays.get(id(value))
    if overlay is not None:
        stored, deleted = changed_fields(builder.world, overlay)
        for key in deleted:
            builder.line(f"{name}.__dict__.pop({key!r})")
        for key, content in stored.items():
            builder.later(partial(_fill, builder, f"{name}.__dict__[{key!r}]", content))
    return name


def _fill(builder: Builder, place: str, content: Any) -> None:
    builder.line(f"{place} = {builder.text(content)}")


RULES[FunctionCtx] = context
