"""Counters: how often capture compiled, broke, missed and fell back, for tests and for users.

`counters` maps a group to a Counter: "frames" (total, ok), "stats" (unique_graphs, calls_captured),
"graph_break" (by reason), "recompiles" (by failing guard), "fallbacks" (by reason), "deoptimisations" (by
function and the line or error at which its graph failed), "aot_fallbacks" and "aot_natives" (graphs that run
as captured, and nodes that do so between compiled pieces, by reason), "aot_varying" (functions for whose
numbers no more programs are made, see Note [Numbers that vary] in `weft.core.varying`). One idea: they only
ever count up; `counters.clear()` starts them again.
"""

from __future__ import annotations

from collections import Counter, defaultdict

counters: defaultdict[str, Counter[str]] = defaultdict(Counter)


def count(group: str, name: str, by: int = 1) -> None:
    counters[group][name] += by
