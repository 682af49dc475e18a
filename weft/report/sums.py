"""Sums: time by line and by kind of kernel, memory along a whole step.

Takes the facts of programs (plain data, see `weft.report.facts`); gives lists for tables and curves. One
idea: what a reader asks first is which of the lines costs what, so steps are added up by line before anything
else is shown, and kernels that differ in their sizes alone count as one.
"""

from __future__ import annotations

import linecache
import re
from collections.abc import Sequence
from typing import Any

Facts = dict[str, Any]
Place = tuple[str, int]
DIFFERENTIATING = ("backward(", "grad(", "jacrev(", "hessian(", "vjp(")
SIZES = re.compile(r"\d+(?: x \d+)*")


def asks_for_gradients(place: Place) -> bool:
    """Whether a line calls what differentiates: what stands there is part of a backward."""
    return any(word in linecache.getline(*place) for word in DIFFERENTIATING)


def timed_steps(programs: Sequence[Facts]) -> list[tuple[Facts, Facts]]:
    """Programs and their steps, where these were timed."""
    pairs = [(program, step) for program in programs for step in program["steps"]]
    return [(program, step) for program, step in pairs if step["microseconds"] is not None]


def by_line(programs: Sequence[Facts]) -> list[Facts]:
    """The time of each line of the user's, forward and backward apart, the dearest first. A step of several
    lines counts for each in equal parts; what has no line stands last, if there is any.
    """
    found: dict[Place | None, Facts] = {}
    for program, step in timed_steps(programs):
        for share in step["shares"] or [None]:
            place, behind = (None, False) if share is None else ((share[0], share[1]), share[2])
            text = "" if place is None else linecache.getline(*place).strip()
            line = found.setdefault(place, {"place": place, "text": text, "forward": 0.0, "backward": 0.0})
            behind = behind or program["backward"] or (place is not None and asks_for_gradients(place))
            line["backward" if behind else "forward"] += step["microseconds"] / max(len(step["shares"]), 1)
    return sorted(
        found.values(), key=lambda line: (line["place"] is None, -line["forward"] - line["backward"])
    )


def by_likeness(programs: Sequence[Facts]) -> list[Facts]:
    """Steps that do the same to other sizes, counted together: how often, to which sizes, how long."""
    found: dict[tuple[str, str], Facts] = {}
    for _, step in timed_steps(programs):
        kind = SIZES.sub("n", step["kind"])
        likeness = ("kernel", step["text"]) if step["text"] else (kind, step["ops"])
        group = found.setdefault(
            likeness,
            {"ops": step["ops"], "kind": kind, "sizes": [], "count": 0, "microseconds": 0.0, "places": []},
        )
        group["sizes"] += [size for size in SIZES.findall(step["kind"])[-1:] if size not in group["sizes"]]
        group["places"] += [place for place in step["places"] if place not in group["places"]]
        group["count"] += 1
        group["microseconds"] += step["microseconds"]
    return sorted(found.values(), key=lambda group: -group["microseconds"])


def along_the_step(programs: Sequence[Facts]) -> list[Facts]:
    """Bytes in use at each step, forward and backward in one curve.

    They are intermediate values and results, and what a forward keeps, until its backward has run. A curve
    begins with a program that is part of no other's step: calls that break have several forwards, and their
    backwards come in the other order.
    """
    curves: list[list[int]] = []
    waiting: set[int] = set()
    for number, program in enumerate(programs):
        if not waiting:
            curves.append([])
        curves[-1].append(number)
        waiting.discard(program["forward"])
        if any(each["forward"] == number for each in programs[number + 1 :]):
            waiting.add(number)
    return [_curve(programs, numbers) for numbers in curves if any(programs[n]["steps"] for n in numbers)]


def _curve(programs: Sequence[Facts], numbers: list[int]) -> Facts:
    live: list[int] = []
    parts = []
    kept: dict[int, int] = {}
    for number in numbers:
        program = programs[number]
        parts.append({"title": program["title"], "first": len(live), "backward": program["backward"]})
        memory = program["memory"]
        for step, inside in enumerate(memory["live"]):
            made = sum(result["bytes"] for result in memory["results"] if result["step"] <= step)
            live.append(inside + made + sum(kept.values()))
        kept.pop(program["forward"], None)
        kept[number] = max((each["kept"] for each in programs if each["forward"] == number), default=0)
    title = programs[numbers[0]]["title"]
    if len(numbers) > 1:
        title = f"programs {numbers[0] + 1} {'and' if len(numbers) == 2 else 'to'} {numbers[-1] + 1}"
    return {"title": title, "live": live, "parts": parts}
