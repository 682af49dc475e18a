"""Slices: long work that is done a little at a time, behind calls that do not wait for it.

Takes work as a generator, which yields where it may rest; gives its result once it is there. One idea: work
that reads what belongs to the user goes on in the user's own thread, behind a call that it is about, and so
sees what it would see if all of it were done there. What does not is done in the background, where a thread
that never rests would keep others from the interpreter for milliseconds each time: it gives way.

# Note [Work in slices]
    def settling(checks, guards):
        for guard in guards:
            yield                       nothing of what it has read is used behind this, unless it is checked
            checks.guard(guard)
A part of the work holds nothing of a call's own over a `yield`: `PresentCall` has the present one.
"""

from __future__ import annotations

from _thread import get_ident
from collections.abc import Callable, Generator, Mapping
from dataclasses import field
from math import inf
from time import perf_counter, sleep
from typing import Any, Final, Generic, TypeVar

from weft.core.interrupts import let_through
from weft.core.records import record
from weft.core.settings import settings

T = TypeVar("T")
Steps = Generator[Any, None, T]
"""Work; it yields True where it waits for the background."""
SLICE: Final = 5e-4
"""Seconds that work takes of a call at least, before it rests."""
REST: Final = 1e-4
_since: Final[dict[int, float]] = {}
"""By threads that work in the background: since when others have waited for the interpreter."""


def in_background(work: Callable[[], None]) -> None:
    """Does it in this thread, which gives way to others meanwhile."""
    _since[get_ident()] = perf_counter()
    try:
        work()
    finally:
        del _since[get_ident()]


def give_way() -> None:
    """Called again and again by long work: where that is done in the background, lets others run."""
    since = _since.get(get_ident())
    if since is not None and perf_counter() - since >= SLICE:
        sleep(REST)
        _since[get_ident()] = perf_counter()


def at_once(work: Steps[T]) -> T:
    """The result of work that nobody does anything else beside."""
    while True:
        try:
            if next(work):
                sleep(REST)
        except StopIteration as end:
            result: T = end.value
            return result


def share(seconds: float) -> float:
    """How many seconds work may take of a call that took so many, before it rests: all where nothing goes on
    in the background."""
    return max(SLICE, seconds / 4) if settings.tiers == "smooth" else inf


class Differs(Exception):
    """What work in slices has read is no more as it was: it has to be done at once."""


@record(slots=True)
class PresentCall:
    """The call behind which work goes on; nothing while it rests."""

    function: Any = None
    arguments: Mapping[str, Any] = field(default_factory=dict)
    stays: bool = True
    """Whether all of the work is done behind this one."""


class Sliced(Generic[T]):
    """Work of which one thread at a time does a slice; `start` begins it for what is in `PresentCall`."""

    def __init__(self, start: Callable[[PresentCall], Steps[T]]) -> None:
        self.call = PresentCall()
        self.resting = [start(self.call)]
        """The work, while nobody does it."""

    def go_on(self, function: Any, arguments: Mapping[str, Any], seconds: float) -> tuple[T] | None:
        """Does some of it behind this call: the result, or None where it is not there yet."""
        try:
            work = self.resting.pop()
        except IndexError as error:  # another thread is at it, or a handler of signals stands upon it
            let_through(error)
            return None
        call, end = self.call, perf_counter() + seconds
        call.function, call.arguments, call.stays = function, arguments, seconds == inf
        try:
            while True:
                waits = next(work)
                if perf_counter() >= end or (waits and seconds < inf):
                    break
                if waits:
                    sleep(REST)
        except StopIteration as done:
            return (done.value,)
        finally:
            call.function, call.arguments = None, {}
        self.resting.append(work)
        return None
