"""Logs: what the compiler did, on standard error, by topic.

`WEFT_LOGS=graph,guards` (or `weft.compiler.set_logs("graph", "guards")`) turns topics on; each is a logger of
its own, `weft.compile.graph`, that others may handle as they please. One idea: texts are made only for
topics that are on, so `log` takes a function.
"""

from __future__ import annotations

import logging
import os
import sys
import warnings
from collections.abc import Callable
from typing import Final

TOPICS: Final = {
    "graph": "each captured graph as it is handed to the backend",
    "guards": "what must hold for an entry to be used",
    "breaks": "each graph break with its reason",
    "recompiles": "the guard that failed when something is compiled again",
    "source": "the generated function of each entry",
    "compiled_autograd": "each tape that was captured as a graph, and why others were not",
    "deoptimised": "each call whose graph failed, so that the original ran",
    "fusion": "which ops native kernels fuse, and why not more",
    "kernels": "each native kernel as loops over scalar instructions, with the lines that it comes from",
    "llvm": "the LLVM text of kernels as they are compiled",
    "asm": "the assembly of kernels as they are compiled",
    "memory": "the memory plan of native programs: offsets of values, and which share memory",
    "entries": "why a compiled call is left to Python, or what it leaves to Python",
    "cache": "hits and misses of the cache on disk, and why something is not cached",
}
ROOT: Final = "weft.compile"


class _ToStderr(logging.Handler):
    """Writes to whatever `sys.stderr` is when the record comes."""

    def emit(self, record: logging.LogRecord) -> None:
        print(self.format(record), file=sys.stderr)


_handler = _ToStderr()
_handler.setFormatter(logging.Formatter("[%(name)s] %(message)s"))


def set_logs(*topics: str) -> None:
    """Turns on these topics, and only these."""
    unknown = [topic for topic in topics if topic not in TOPICS]
    if unknown:
        raise ValueError(f"unknown log topic {unknown[0]!r}; the topics are {', '.join(TOPICS)}")
    root = logging.getLogger(ROOT)
    if topics and _handler not in root.handlers:
        root.addHandler(_handler)
    elif not topics:
        root.removeHandler(_handler)
    for topic in TOPICS:
        level = logging.DEBUG if topic in topics else logging.NOTSET
        logger(topic).setLevel(level)


_loggers: Final = {topic: logging.getLogger(f"{ROOT}.{topic}") for topic in TOPICS}


def logger(topic: str) -> logging.Logger:
    """Who takes what is said of a topic."""
    return _loggers[topic]


def is_heard(topic: str) -> bool:
    """Whether anybody listens to a topic. Asks without the lock of `logging`, which its functions take and
    release in lines of Python's: an interrupt between these would keep all threads from it for ever.
    """
    listener = logger(topic)
    if listener.disabled or listener.manager.disable >= logging.DEBUG:
        return False
    return listener.getEffectiveLevel() <= logging.DEBUG


def log(topic: str, text: Callable[[], str]) -> None:
    """Says something to those who listen to a topic."""
    if is_heard(topic):
        logger(topic).debug("%s", text())


observers: Final[list[Callable[..., object]]] = []
"""Who is told what is compiled, as it comes; reports and profiles are made of it. See `tell`."""


def tell(event: str, *facts: object) -> None:
    """Tells observers: "begin" and "end" (code that is compiled), "entry" (code, what became of it), "graph"
    (a graph module, the seconds that its backend took), "miss" (code, reasons), "program" (graph module,
    native program, arrays, the seconds that it took to make).
    """
    for observer in tuple(observers):
        observer(event, *facts)


def read_environment() -> None:
    """Turns on what `WEFT_LOGS` names."""
    words = [word.strip() for word in os.environ.get("WEFT_LOGS", "").split(",")]
    topics = [word for word in words if word in TOPICS]
    for word in words:
        if word and word not in TOPICS:
            warnings.warn(
                f"WEFT_LOGS: unknown topic {word!r}; the topics are {', '.join(TOPICS)}", stacklevel=2
            )
    if topics:
        set_logs(*topics)
