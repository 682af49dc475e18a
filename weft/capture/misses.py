"""Misses: what a guard that failed says about the next capture.

Takes guards and the call that they did not let through; gives the sources whose numbers changed, which are
symbols from then on. One idea: what changed once will change again.
"""

from __future__ import annotations

from typing import Any

from weft.capture.guards import Guard
from weft.capture.sources import Ref, Source, fetch
from weft.capture.wrapping import size_source
from weft.tensor.base import Tensor


def is_gone(guard: Guard) -> bool:
    """Whether the guard can never hold again: the object that it asks for is no more."""
    held = guard.payload
    return isinstance(held, Ref) and held.weak is not None and held() is None


NUMERIC = ("EQ", "CONTENTS", "TENSOR")
"""The kinds of guards that hold numbers and sizes."""


def changed_sources(guard: Guard, function: Any, arguments: dict[str, Any]) -> set[str]:
    """The sizes and numbers whose change made this guard fail, as the text of their sources."""
    source = guard.source
    if source is None or guard.kind not in NUMERIC:
        return set()
    try:
        value = fetch(source, function, arguments)
    except Exception:
        return set()
    if guard.kind == "TENSOR":
        return changed_sizes(source, guard.payload, value)
    if guard.kind == "EQ":
        return {str(source)} if type(value) in (int, float) else set()
    found = {str(source)}
    if type(value) is tuple:
        found |= {str(source.item(i)) for i, item in enumerate(value) if type(item) in (int, float)}
    return found


def changed_sizes(source: Source, facts: Any, value: Any) -> set[str]:
    if not isinstance(value, Tensor) or len(value.array.shape) != len(facts.shape):
        return set()
    pairs = enumerate(zip(facts.shape, value.array.shape))
    return {str(size_source(source, dim)) for dim, (was, now) in pairs if was is not None and was != now}
