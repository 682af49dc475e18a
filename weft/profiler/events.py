"""Events: what a profile has seen, as lists, tables and time lines.

Takes events with their times; gives averages by name, a table, and a file that trace viewers (Perfetto,
`chrome://tracing`) open. One idea: events of one thread nest, so what an event took itself is what it took
less what those inside it took.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

SORTS = {
    "cpu_time": lambda average: average.cpu_time,
    "cpu_time_total": lambda average: average.cpu_time_total,
    "self_cpu_time_total": lambda average: average.self_cpu_time_total,
    "count": lambda average: average.count,
}
"""By what a table may be sorted, in PyTorch's names."""


@dataclass(slots=True)
class Event:
    """Something that took time. Times are in microseconds, from the beginning of the profile."""

    name: str
    kind: str
    """"op", "backward", "kernel", "compiled", "compile" or "user"."""
    start: float
    duration: float
    thread: int
    shapes: tuple[Any, ...] = ()
    place: str = ""
    """The user's line, where it is known."""
    inside: float = 0.0
    """What the events inside took."""

    @property
    def key(self) -> str:
        return self.name

    @property
    def cpu_time_total(self) -> float:
        return self.duration

    @property
    def self_cpu_time_total(self) -> float:
        return max(0.0, self.duration - self.inside)

    @property
    def input_shapes(self) -> list[Any]:
        return list(self.shapes)


@dataclass(slots=True)
class Average:
    """All events of one name."""

    key: str
    kind: str
    count: int = 0
    cpu_time_total: float = 0.0
    self_cpu_time_total: float = 0.0
    input_shapes: list[Any] = field(default_factory=list)

    @property
    def cpu_time(self) -> float:
        return self.cpu_time_total / self.count if self.count else 0.0

    def __repr__(self) -> str:
        return f"<{self.key}: {self.count} calls, {_time(self.cpu_time_total)}>"


def nest(events: Iterable[Event]) -> None:
    """Notes in each event what those inside it took."""
    around: dict[int, list[Event]] = {}
    for event in sorted(events, key=lambda each: (each.start, -each.duration)):
        stack = around.setdefault(event.thread, [])
        while stack and stack[-1].start + stack[-1].duration <= event.start:
            stack.pop()
        if stack:
            stack[-1].inside += event.duration
        stack.append(event)


class EventList(list[Any]):
    """Events, or averages of events."""

    def key_averages(self, group_by_input_shape: bool = False) -> EventList:
        """One `Average` for each name of a kind (and shape), in the order in which they came first: an op
        that ran eagerly and a kernel of that name are two things.
        """
        found: dict[Any, Average] = {}
        for event in self:
            key = (event.name, event.kind, event.shapes if group_by_input_shape else ())
            average = found.get(key)
            if average is None:
                shapes = list(event.shapes) if group_by_input_shape else []
                average = found[key] = Average(event.name, event.kind, input_shapes=shapes)
            average.count += 1
            average.cpu_time_total += event.duration
            average.self_cpu_time_total += event.self_cpu_time_total
        return EventList(found.values())

    def total_average(self) -> Average:
        """All of it as one."""
        whole = Average("Total", "")
        for each in self:
            whole.count += getattr(each, "count", 1)
            whole.cpu_time_total += each.cpu_time_total
            whole.self_cpu_time_total += each.self_cpu_time_total
        return whole

    def table(
        self,
        sort_by: str | None = None,
        row_limit: int = 100,
        max_name_column_width: int = 55,
        header: str | None = None,
        **_ignored: Any,
    ) -> str:
        """The averages as text, the largest first where `sort_by` names a column."""
        averages = self if not self or isinstance(self[0], Average) else self.key_averages()
        if sort_by is not None:
            if sort_by not in SORTS:
                raise ValueError(f"cannot sort by {sort_by!r}: one of {', '.join(SORTS)}")
            averages = EventList(sorted(averages, key=SORTS[sort_by], reverse=True))
        total = sum(each.self_cpu_time_total for each in averages)
        with_shapes = any(each.input_shapes for each in averages)
        head = ["Name", "Kind", "Self CPU %", "Self CPU", "CPU total", "CPU time avg", "# of Calls"]
        rows = [head + ["Input Shapes"] * with_shapes]
        for each in averages[: row_limit if row_limit >= 0 else None]:
            name = each.key
            if len(name) > max_name_column_width > 3:
                name = name[: max_name_column_width - 3] + "..."
            share = f"{100 * each.self_cpu_time_total / (total or 1):.2f}%"
            times = [_time(t) for t in (each.self_cpu_time_total, each.cpu_time_total, each.cpu_time)]
            shapes = [str(each.input_shapes)] * with_shapes
            rows.append([name, each.kind, share, *times, str(each.count), *shapes])
        widths = [max(map(len, column)) for column in zip(*rows)]
        line = "  ".join("-" * width for width in widths)
        texts = [
            "  ".join(
                cell.ljust(width) if number < 2 else cell.rjust(width)
                for number, (cell, width) in enumerate(zip(row, widths))
            ).rstrip()
            for row in rows
        ]
        top = [header] if header else []
        return "\n".join(
            [*top, line, texts[0], line, *texts[1:], line, f"Self CPU time total: {_time(total)}"]
        )

    def __str__(self) -> str:
        return self.table()

    def export_chrome_trace(self, path: str | os.PathLike[str]) -> None:
        """Writes the events as a file for trace viewers."""
        events = [
            {
                "ph": "X", "name": each.name, "cat": each.kind, "ts": each.start, "dur": each.duration,
                "pid": os.getpid(), "tid": each.thread,
                "args": {"line": each.place, "shapes": str(list(each.shapes)) if each.shapes else ""},
            }
            for each in self
        ]  # fmt: skip
        with open(path, "w", encoding="utf-8") as file:
            json.dump({"traceEvents": events, "displayTimeUnit": "ms"}, file)


def _time(microseconds: float) -> str:
    if microseconds >= 1e6:
        return f"{microseconds / 1e6:.3f}s"
    return f"{microseconds / 1e3:.3f}ms" if microseconds >= 1e3 else f"{microseconds:.3f}us"
