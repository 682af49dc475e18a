"""Verifying: whether a call captures again as it was captured before.

Takes an entry and another one made from a call that the first was about to serve; says in what they differ.
One idea: guards say what an entry depends on, so a call that they let pass must capture the same.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from weft.capture.guards import Same


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
    found = [guard.units() for guard in entry.guards]
    return any(names and (request.dynamic or names & request.volatile) for names in found)


def _merged(entry: Any, again: Any) -> bool:
    """Whether objects that were two at first are one now, which nothing in the entry depends on."""
    return any(type(guard) is Same and guard not in entry.guards for guard in again.guards)


def _graph_text(entry: Any) -> str:
    return "" if entry.graph_module is None else str(entry.graph_module.code)
