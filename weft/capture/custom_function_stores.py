"""Contexts of custom Functions, as segments fill them.

Takes a `Builder` and the overlay of a context that the graph gives; gives the stores of what forward left in
it. One idea: the context is one more result of the graph: see Note [Contexts that the program fills] in
`weft.capture.custom_function_left`.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from weft.autograd.function_context import FunctionCtx
from weft.capture.gradients import is_freed
from weft.capture.rebuild import Builder
from weft.capture.rebuild_types import RULES
from weft.capture.world import Overlay


def context_stores(builder: Builder, overlay: Overlay, _target: str) -> list[str]:
    """Has a context built, unless a sweep has freed it: then nobody can ask for what is in it."""
    ctx = overlay.target
    node = None if ctx._node is None else ctx._node()
    if node is None or not is_freed(node):
        builder.text(ctx)
    return []


def context(builder: Builder, value: Any) -> str:
    """A context: one of the graph's results, filled with what the graph does not know."""
    recorder = builder.outcome.recorder
    if not recorder.knows(value):
        builder.refuse(value)
    name = builder.output(recorder.node(value))
    overlay = builder.world.overlays.get(id(value))
    for key, content in ({} if overlay is None else overlay.writes).items():
        builder.later(partial(_fill, builder, f"{name}.__dict__[{key!r}]", content))
    return name


def _fill(builder: Builder, place: str, content: Any) -> None:
    builder.line(f"{place} = {builder.text(content)}")


RULES[FunctionCtx] = context
