"""Counting: how often compiled code was made, and why captured graphs run as they are.

Takes reasons as text; gives counters, the latest reasons, and calls for whoever watches (the switchboard
counts in `weft.compiler.counters`). One idea: a fallback is never silent, whether it is right or not.
"""

from __future__ import annotations

from collections.abc import Callable

from weft.core.counters import count
from weft.core.errors import NotCompiled as NotCompiled
from weft.core.settings import settings

counters: dict[str, int] = {
    "plans": 0,
    "fallbacks": 0,
    "reruns": 0,
    "natives": 0,
    "narrowed": 0,
}
"""How many plans were made, how many graphs run as captured, how many backwards ran them again, how many
nodes run by themselves between compiled pieces, and how many plans are for one size of those that are open.
"""
reasons: list[str] = []
"""Why graphs, or nodes, run as they were captured, or calls op by op, last ones last."""
watchers: list[Callable[[str, str], None]] = []
"""Called with the kind ("fallbacks", "natives" or "narrowed") and the reason."""


def note(kind: str, reason: str) -> None:
    counters[kind] += 1
    reasons.append(reason)
    del reasons[:-100]
    for watcher in watchers:
        watcher(kind, reason)


def note_plan() -> None:
    counters["plans"] += 1
    count("built", "plans")


def refuse(reason: str) -> None:
    """A graph runs as it was captured."""
    note("fallbacks", reason)


def strict(reason: str) -> None:
    """Raises in strict mode: compiling has failed, and the captured graph has not."""
    if settings.strict:
        raise NotCompiled(f"a graph could not be compiled, though it runs: {reason}")
