"""Contexts of custom Functions, as segments fill them.

Takes a `Builder` and the overlay of a context that the graph gives; gives the stores of what forward left in
it. One idea: the context is one more result of the graph: see Note [Contexts that the program fills] in
`weft.capture.custom_function_left`.
"""

from __future__ import annotations

from typing import Any

from weft.autograd.function_context import FunctionCtx
from weft.capture.rebuild import Builder
from weft.capture.rebuild_types import RULES
from weft.capture.world import Overlay


def context_stores(builder: Builder, overlay: Overlay, _target: str) -> list[str]:
    name = builder.text(overlay.target)
    return [f"{name}.__dict__[{key!r}] = {builder.text(value)}" for key, value in overlay.writes.items()]


def context(builder: Builder, value: Any) -> str:
    """A context: one of the graph's results."""
    recorder = builder.outcome.recorder
    if not recorder.knows(value):
        builder.refuse(value)
    return builder.output(recorder.node(value))


RULES[FunctionCtx] = context
