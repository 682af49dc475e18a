"""The one way a command says that its user must do something: an error that is shown without a traceback."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


class CommandError(Exception):
    """What went wrong and what to try, in one or two sentences that follow `weft: `."""


@contextmanager
def doing(what: str, remedy: str = "") -> Iterator[None]:
    """Says `cannot …` where the system refuses it."""
    try:
        yield
    except OSError as error:
        raise CommandError(f"cannot {what}: {error.strerror}{remedy}") from None
