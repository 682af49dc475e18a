"""Context variables that are set for the length of a block.

Takes variables and values; gives a context manager. One idea: an interrupt may strike where a Python function
begins and behind each call of a C function, so values are taken back by one C function that `with` calls
itself, and no generator is left suspended for a finalizer to close.

# Note [Finalizers set no context variables]
    @contextmanager
    def entered():
        token = state.set(False)
        try:
            yield                  an interrupt strikes in `contextlib`: the generator stays suspended here
        finally:
            state.reset(token)     the collector closes it: inside of any call, `other.set(1)` among them
`ContextVar.set` copies a map that it does not hold. Up to Python 3.11 a garbage collection may start while it
does; a finalizer that sets a variable then frees that map, and the context is garbage: counts below zero,
values of other variables. So functions that yield set no variables (a test reads them all), and blocks are
`Block`s, or `try` statements whose `finally` calls C functions alone. A generator that must set variables as
it is closed has the map held meanwhile, and for long enough, by a copy of the context.
"""

from __future__ import annotations

from _io import _IOBase
from collections import deque
from collections.abc import Callable
from contextvars import ContextVar
from functools import partial, reduce
from itertools import repeat
from operator import call
from typing import Any, Final

Actions = list[Callable[[], Any]]
run_all: Final = deque[Any](maxlen=0).extend
"""Runs an iterator to its end, in C, and gives None."""
forget: Final = deque[Any](maxlen=0).append
"""Takes anything, in C, and gives None."""


LEFT_IN_C: Final = _IOBase.__exit__
DONE_IN_C: Final[Any] = _IOBase.__del__
"""The finalizer of a `Leaving`, which does nothing."""


class Leaving(_IOBase):
    """What a `with` statement leaves by one call of C's: `_IOBase.__exit__` calls `close()`, which should be
    of C's, too, and give None, and looks at nothing else.
    """

    __slots__ = ("close",)
    close: Callable[[], None]
    closed = True
    """So that the finalizer of files does not close it."""


class LeftAtOnce(Leaving):
    """A block that one call of C's leaves, which no interrupt can prevent. `_leave` says the same in Python,
    for captured code.
    """

    def _leave(self, *_error: object) -> None:
        raise NotImplementedError

    def _prepare(self) -> None:
        """Has it left as its attributes say: captured code makes objects of these alone."""
        raise NotImplementedError


def choosing(
    ask: Callable[[], Any], actions: dict[Any, Callable[[], Any]], otherwise: Callable[[], Any]
) -> Callable[[], None]:
    """A C function that does, again and again, what stands for the present answer, and gives None."""
    chosen = map(actions.get, map(call, repeat(ask)), repeat(otherwise))
    return map(forget, map(call, chosen)).__next__


class Block(Leaving):
    """What a `with` statement does first and at last, whatever strikes. Actions should be C functions: in
    others an interrupt may strike before their first line. One of Python's is the `last`: nothing is left
    behind it, and no iterator takes a StopIteration that strikes there for its end.
    """

    __slots__ = ("entering", "given")

    def __init__(
        self, enter: Actions, leave: Actions, given: object = None, last: Callable[[], None] | None = None
    ) -> None:
        self.entering, self.given = enter, given
        left = map(call, leave)
        if last is None:
            self.close = partial(run_all, left)
        else:  # next(all of them, call)(last), in C
            rest = partial(next, filter(None, map(forget, left)))
            self.close = partial(reduce, call, (call, last), rest)

    def __enter__(self) -> Any:
        try:
            for action in self.entering:
                action()
        except BaseException:  # an interrupt, behind an action
            self.close()
            raise
        return self.given


def set_to(*pairs: tuple[ContextVar[Any], Any], given: object = None) -> Block:
    """Variables, which have values or defaults, have these values meanwhile; `with` gives `given`."""
    enter: Actions = [partial(variable.set, value) for variable, value in pairs]
    leave: Actions = [partial(variable.set, variable.get()) for variable, _ in pairs]
    return Block(enter, leave, given)
