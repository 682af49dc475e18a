"""One line on the terminal while something takes long: `working` for a piece of work, `progress` for a loop.

Takes a text; gives a line on stderr that is written again and again and leaves nothing behind. Only where
stderr is a terminal, and not with `WEFT_PROGRESS=0` or `weft.compiler.settings.progress = False`.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Iterable, Iterator
from typing import Any, TypeVar

from weft.core.interrupts import let_through
from weft.core.settings import settings

T = TypeVar("T")
PATIENCE = 1.0
"""Seconds that work may take without a word."""
PERIOD = 0.1
"""Seconds between two states of a loop."""
CLEAR = "\r\x1b[K"


def stream() -> Any:
    """Where lines go."""
    return sys.stderr


def shown() -> bool:
    """Whether anybody would see a line, and wants it."""
    where = stream()
    return settings.progress and hasattr(where, "isatty") and where.isatty()


def _write(text: str) -> None:
    """A line in place of the one before, no wider than the terminal."""
    where = stream()
    try:
        columns = os.get_terminal_size(where.fileno()).columns
        text = text if len(text) < columns else text[: columns - 1]
    except (OSError, ValueError) as error:  # it is no file, or closed
        let_through(error)
    try:
        where.write(CLEAR + text)
        where.flush()
    except (OSError, ValueError) as error:
        let_through(error)


class working:
    """A block that may take long: after a second a line says what it is, and for how long it has run."""

    _depth = threading.local()

    def __init__(self, text: str) -> None:
        self.text = text
        self._done: threading.Event | None = None

    def __enter__(self) -> None:
        self._depth.now = getattr(self._depth, "now", 0) + 1
        if self._depth.now == 1 and shown():  # work inside work says nothing of its own
            self._done = threading.Event()
            teller = threading.Thread(target=self._tell, args=(self._done,), daemon=True)
            teller.start()
            self._teller = teller

    def __exit__(self, *_error: object) -> None:
        self._depth.now -= 1
        if self._done is not None:
            self._done.set()
            self._teller.join()

    def _tell(self, done: threading.Event) -> None:
        began, said = time.monotonic(), False
        while not done.wait(PATIENCE):
            _write(f"weft: {self.text} ... {time.monotonic() - began:.0f} s")
            said = True
        if said:
            _write("")


def progress(items: Iterable[T], text: str = "", total: int | None = None) -> Iterator[T]:
    """The items, with a line that says how many came, how fast, and how long the rest will take.

    `total` is their number where `len` does not tell. On anything but a terminal this only iterates.

    >>> sum(progress(range(4), "adding"))
    6
    """
    if not shown():
        yield from items
        return
    sized: Any = items
    whole = len(sized) if total is None and hasattr(items, "__len__") else total
    began = told = time.monotonic()
    count = 0
    try:
        for item in items:
            yield item
            count += 1
            now = time.monotonic()
            if now - told >= PERIOD:
                _write(state(text, count, whole, now - began))
                told = now
    finally:
        _write("")


def state(text: str, count: int, whole: int | None, seconds: float) -> str:
    """The line after so many items and seconds."""
    rate = count / seconds if seconds else 0.0
    of = "" if whole is None else f"/{whole}"
    line = f"{text + ' ' if text else ''}{count}{of}, {rate:.3g}/s"
    return line if whole is None or not rate else f"{line}, {max(whole - count, 0) / rate:.0f} s left"
