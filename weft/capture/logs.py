"""Logs: what the compiler did, on standard error, by topic.

`WEFT_LOGS=graph,guards` (or `weft.compiler.set_logs("graph", "guards")`) turns topics on; each is a logger of
its own, `weft.compile.graph`, that others may handle as they please. One idea: texts are made only where
somebody listens, so `log` takes a function.
"""

from __future__ import annotations

import contextlib
import logging
import os
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any, Final

TOPICS: Final = {
    "graph": "each captured graph as it is handed to the backend",
    "guards": "what must hold for an entry to be used",
    "breaks": "each graph break with its reason",
    "recompiles": "the guard that failed when something is compiled again",
    "source": "the generated function of each entry",
    "compiled_autograd": "each tape that was captured as a graph, and why others were not",
    "deoptimised": "each call whose graph failed, so that the original ran",
}
ROOT: Final = "weft.compile"
PACKAGE: Final = f"{os.path.dirname(os.path.dirname(os.path.abspath(__file__)))}{os.sep}"


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
        logging.getLogger(f"{ROOT}.{topic}").setLevel(level)


def log(topic: str, text: Callable[[], str]) -> None:
    logger = logging.getLogger(f"{ROOT}.{topic}")
    if logger.isEnabledFor(logging.DEBUG):
        logger.debug("%s", text())


def warn_user(text: str) -> None:
    """Warns of something at the line of the user's that led to it."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith((PACKAGE, "<weft")):
        frame = frame.f_back
    if frame is None:
        warnings.warn(text, RuntimeWarning, stacklevel=2)
        return
    space = frame.f_globals
    registry = space.setdefault("__warningregistry__", {})
    place = frame.f_code.co_filename, frame.f_lineno
    warnings.warn_explicit(text, RuntimeWarning, *place, space.get("__name__"), registry)


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


class Hush:
    """While capturing, no warning is shown: what captured code does will warn when it is run."""

    def __init__(self) -> None:
        self.lock, self.depth = threading.Lock(), 0
        self.show: Callable[..., Any] = warnings.showwarning

    @contextlib.contextmanager
    def __call__(self, asked: Callable[[], bool]) -> Iterator[None]:
        """`asked()` says, in the thread that warns, whether it is capturing: others are not concerned."""
        with self.lock:
            self.depth += 1
            if self.depth == 1:
                self.show = show = warnings.showwarning
                warnings.showwarning = lambda *args, **kwargs: None if asked() else show(*args, **kwargs)
        try:
            yield
        finally:
            with self.lock:
                self.depth -= 1
                if not self.depth:
                    warnings.showwarning = self.show


hush = Hush()
