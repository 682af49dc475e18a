"""Verifying: whether a call captures again as it was captured before.

Takes an entry and another one made from a call that the first was about to serve; says in what they differ.
One idea: guards say what an entry depends on, so a call that they let pass must capture the same.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from weft.capture.plain import thaw
from weft.capture.wrapping import size_source


def differing(entry: Any, again: Any, request: Any) -> str | None:
    """In what two captures of one call differ; None where they are the same, or may be two."""
    for name, before, now in (
        ("generated function", entry.text, again.text),
        ("graph", _graph_text(entry), _graph_text(again)),
        ("guards", "\n".join(map(str, entry.guards)), "\n".join(map(str, again.guards))),
    ):
        if before != now and not _specialised(again, request) and not _merged(entry, again):
            return f"the {name} was\n{before}\nand would be\n{now}"
    return None


def uncompiled(graph_module: Any, _inputs: list[Any]) -> Callable[..., Any]:
    """A backend that runs the graph as it is."""
    forward: Callable[..., Any] = graph_module.forward
    return forward


def _specialised(entry: Any, request: Any) -> bool:
    """Whether a number that may vary is 0 or 1 in this call: these are never symbols, where others are."""
    for guard in entry.guards:
        if guard.kind == "EQ" and guard.source is not None and thaw(guard.payload) in (0, 1):
            if request.dynamic or str(guard.source) in request.volatile:
                return True
        elif guard.kind == "TENSOR" and guard.source is not None:
            sizes = enumerate(guard.payload.shape)
            names = {str(size_source(guard.source, dim)) for dim, size in sizes if size in (0, 1)}
            if names and (request.dynamic or names & request.volatile):
                return True
    return False


def _merged(entry: Any, again: Any) -> bool:
    """Whether objects that were two at first are one now, which nothing in the entry depends on."""
    return any(guard.kind == "SAME" and guard not in entry.guards for guard in again.guards)


def _graph_text(entry: Any) -> str:
    return "" if entry.graph_module is None else str(entry.graph_module.code)
