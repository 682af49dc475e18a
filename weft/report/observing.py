"""Observing: what the compiler makes during a block.

Takes what `weft.core.logs.tell` tells; gives lists of it, in order. One idea: nothing is looked at while code
is compiled, except that the arrays of a program's first call are copied, so that it can be run again.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from copy import copy
from dataclasses import dataclass, field
from time import perf_counter
from types import CodeType
from typing import Any

from weft.core.counters import built
from weft.core.logs import observers


@dataclass(frozen=True, slots=True)
class Compiled:
    """A call that was compiled."""

    code: CodeType
    entry: Any
    seconds: float


@dataclass(frozen=True, slots=True)
class Made:
    """A native program, what it was made of, and copies of the arrays of its first call."""

    graph_module: Any
    program: Any
    inputs: list[Any]
    seconds: float = 0.0
    """What it took to make, apart from what an entry's seconds hold."""


@dataclass
class Observed:
    """What was compiled, in order."""

    title: str = "compiled code"
    graphs: list[tuple[Any, float]] = field(default_factory=list)
    """Captured graphs, with the seconds that their backend took."""
    entries: list[Compiled] = field(default_factory=list)
    misses: list[tuple[CodeType, list[str]]] = field(default_factory=list)
    """Calls that nothing compiled served, and why each entry did not."""
    programs: list[Made] = field(default_factory=list)
    built: dict[str, int] = field(default_factory=dict)
    """How much was built in the block: see `weft.core.counters`."""
    _began: list[float] = field(default_factory=list)
    _took: float = 0.0

    def __call__(self, event: str, *facts: Any) -> None:
        """Takes what `weft.core.logs.tell` tells."""
        if event == "graph":
            self.graphs.append((facts[0], facts[1]))
        elif event == "begin":
            self._began.append(perf_counter())
        elif event == "end":
            self._took = perf_counter() - self._began.pop() if self._began else 0.0
        elif event == "entry":
            self.entries.append(Compiled(facts[0], facts[1], self._took))
        elif event == "miss":
            self.misses.append((facts[0], list(facts[1])))
        elif event == "program":
            graph_module, program, arrays, seconds = facts
            copies = [copy(array) for array in arrays]
            self.programs.append(Made(graph_module, program, copies, 0.0 if self._began else seconds))

    @property
    def seconds(self) -> float:
        """What compiling took: capture and differentiation, then the making of machine code."""
        return sum(each.seconds for each in self.entries) + sum(each.seconds for each in self.programs)

    @property
    def breaks(self) -> list[Compiled]:
        """The calls that one graph was not enough for, or that run as written."""
        return [each for each in self.entries if each.entry.stop is not None or each.entry.reason is not None]


@contextlib.contextmanager
def observe(title: str = "compiled code") -> Iterator[Observed]:
    """Collects what is compiled in the block, in all threads.

    >>> import weft
    >>> with weft.report.observe() as seen:
    ...     _ = weft.compile(lambda x: x + 1, backend="eager")(weft.ones(2))
    >>> len(seen.graphs)
    1
    """
    seen, before = Observed(title), built()
    observers.append(seen)
    try:
        yield seen
    finally:
        observers.remove(seen)
        seen.built = {kind: max(0, number - before[kind]) for kind, number in built().items()}
