"""Counters: how often the compiler built something, broke, missed and fell back, for tests and for users.

`counters` maps a group to a Counter: "built" (captures, plans, programs, kernels, native entries), "frames"
(total, ok), "stats" (unique_graphs, calls_captured), "graph_break" (by reason), "recompiles" (by failing
guard), "fallbacks" (by reason), "deoptimisations" (by function and the line or error at which its graph
failed), "aot_fallbacks" and "aot_natives" (graphs that run as captured, and nodes that do so between compiled
pieces, by reason), "varying" (what was said of functions that get program after program, see
`weft.core.varying`). One idea: they only ever count up; `counters.clear()` starts them again.
"""

from __future__ import annotations

from collections import Counter, defaultdict

counters: defaultdict[str, Counter[str]] = defaultdict(Counter)


BUILT = ("captures", "plans", "programs", "kernels", "native entries")
"""What "built" counts, from Python's bytecode to machine code: graphs captured, graphs differentiated ahead
of time, native programs made (not those read from disk) with their kernels, and compiled functions that were
given a native entry."""


def count(group: str, name: str, by: int = 1) -> None:
    counters[group][name] += by


def built() -> dict[str, int]:
    """How many of each kind were built so far."""
    found = counters.get("built", Counter())
    return {kind: found[kind] for kind in BUILT}
