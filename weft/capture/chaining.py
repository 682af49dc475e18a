"""Chaining: shortcuts of one entry for several layouts of its inputs (a polymorphic inline cache).

Takes a way to make a shortcut from a call; gives a function that runs the shortcut which fits, or the entry.
One idea: what stands behind a shortcut is a name of its own globals, so that a chain is changed by one store.

The entry stands at the end, and counts what it still has to serve itself: what comes again and again gets a
shortcut of its own, which is for all sizes that a program serves, or else for one. Of these there are so
many; for a new one the oldest goes, and it takes more and more calls to get one, so that what never settles
costs nothing.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from functools import partial
from types import FunctionType
from typing import Any, Final

from weft.capture.fronts import uncounted
from weft.capture.reading import MISS
from weft.capture.shortcut import ALONE, ANY, CALLS_BEFORE_NATIVE_ENTRY, EARLY, OPEN, SLOW, ShortcutRecipe
from weft.capture.sources import Source, fetch
from weft.core.interrupts import let_through
from weft.core.once import lock
from weft.core.slices import Differs, PresentCall, Sliced, Steps, share
from weft.tensor.base import PLAIN

LONGEST: Final = 8
"""So many shortcuts an entry may have."""
MOST_COUNTED: Final = 64
Make = Callable[[Any, PresentCall], Steps[tuple[Any, str] | None]]
"""A shortcut, in front of something, from a call; and for which calls it is."""


def open_sources(recipe: ShortcutRecipe) -> list[Source]:
    """What may differ between calls of an entry: tensors that have no fixed sizes, and numbers."""
    free = [guard.source for guard in recipe.guards if guard.is_open()]
    fixed = {guard.source for guard in recipe.guards if guard.tells_value}
    numbers = [source for source in recipe.inputs if source not in fixed and source.kind != "size"]
    return [source for source in (*free, *numbers) if source is not None]


def chained(
    make: Make, sources: list[Source], names: Sequence[str], step: Any, call: PresentCall
) -> Steps[tuple[Any, str] | None]:
    """The first of a chain of shortcuts in front of an entry that has just served this call, and for which
    calls it is; None where it has none.
    """
    first = yield from make(step, call)
    if first is None:
        return None
    quick, kind = first
    if kind not in (ANY, EARLY):
        Chain(make, sources, names, step, quick, kind)
    return quick, kind


class Chain:
    """Shortcuts for several layouts. The first stays; the others follow, newest first.

    Each link holds the next one, and the last one this object, which must not hold them: who drops the first
    drops all.
    """

    def __init__(
        self,
        make: Make,
        sources: list[Source],
        names: Sequence[str],
        step: Any,
        first: FunctionType,
        kind: str = ALONE,
    ) -> None:
        self.make, self.sources, self.names, self.step = make, sources, names, step
        self.kind = kind
        self.first = weakref.ref(first)
        self.making: Sliced[tuple[Any, str] | None] | None = None
        self.served: dict[Any, int] = {}
        self.tried = 0
        self.lock = lock()
        self.join([first], self.counting())

    def links(self) -> tuple[list[FunctionType], Any]:
        """The shortcuts, and what stands at the end."""
        found: list[FunctionType] = []
        here: Any = self.first()
        while here is not None and SLOW in here.__globals__:
            found.append(here)
            here = here.__globals__[SLOW]
        return found, here

    def counting(self) -> Callable[..., Any]:
        """The entry; what it serves is counted."""
        step = self.step

        @uncounted
        def run(function: Any, *values: Any) -> Any:
            result = step(function, *values)
            if result is not MISS:
                if self.making is None:
                    self.count(function, values)
                else:
                    self.go_on(function, values)
            return result

        return run

    def layout(self, function: Any, values: Sequence[Any]) -> Any:
        """What tells apart calls that need shortcuts of their own; not sizes, where shortcuts are for all
        that a program serves."""
        if self.kind == OPEN:
            return None
        given = dict(zip(self.names, values))
        found: list[Any] = []
        for source in self.sources:
            value = fetch(source, function, given)
            kind = type(value)
            if kind in PLAIN:
                found.append((value.array.shape, value.array.strides))
            else:
                found.append(value if kind is int else kind)
        return tuple(found)

    def count(self, function: Any, values: Sequence[Any]) -> None:
        """Notes a call that no shortcut has served; what comes often gets one."""
        try:
            layout = self.layout(function, values)
        except Exception as error:  # the call has changed what it was given
            let_through(error)
            return
        with self.lock:
            times = self.served.get(layout, 0) + 1
            if times < CALLS_BEFORE_NATIVE_ENTRY << (self.tried // LONGEST):
                if len(self.served) >= MOST_COUNTED:
                    self.served.clear()
                self.served[layout] = times
                return
            self.served.pop(layout, None)
            self.tried += 1
        self.making = Sliced(partial(self.make, self.step))
        self.go_on(function, values)

    def go_on(self, function: Any, values: Sequence[Any]) -> None:
        """Makes a shortcut, or a part of it."""
        making = self.making
        if making is None:
            return
        try:
            found = making.go_on(function, dict(zip(self.names, values)), share(0.0))
        except Differs:
            found = (None,)
        except BaseException:
            self.making = None
            raise
        if found is not None:
            self.making = None
            self.take(found[0])

    def take(self, made: tuple[Any, str] | None) -> None:
        if made is None or made[1] in (ANY, EARLY):
            return
        self.kind = made[1]
        with self.lock:
            links, end = self.links()
            if links:  # else the entry itself is gone
                self.join([links[0], made[0], *links[1 : LONGEST - 1]], end)

    def join(self, links: list[FunctionType], end: Any) -> None:
        """Lets each shortcut lead to the next, and the last to the entry."""
        for link, behind in reversed(list(zip(links, [*links[1:], end], strict=True))):
            link.__globals__[SLOW] = behind
