"""Garbage collection: deferred while much is allocated and little becomes garbage.

Gives what holds it off while something is compiled, and a set of what is still there. One idea: a compile
makes tens of thousands of small objects that live as long as the compiled function; walks of the collector
over all of them, again and again, find nothing.
"""

from __future__ import annotations

import ast
import gc
import operator
import os
import threading
from collections.abc import Callable, Iterator
from itertools import starmap, tee
from typing import Any, Final, Generic, TypeVar
from weakref import WeakValueDictionary, ref

T = TypeVar("T")


class _Off:
    """Collection is off while this is held by anyone. Nothing has to run for it to come back: an interrupt
    may strike where a block that put collection off is left, too.
    """

    __slots__ = ("__weakref__",)


class _Back(ref[_Off]):
    """What is told when nobody holds it any more. Not a line of Python, which an interrupt could stop."""

    back: Callable[[], object] = int
    """Nothing to do, as long as nothing was put off."""


class _PostponingThread:
    """One thread that has put collection off. Made, kept and found without a line of Python's, whose frame
    would hold it as long as the traceback of an interrupt there.
    """

    __slots__ = ("__weakref__", "off")
    off: _Off | None


NEVER: Final = (1 << 30) + 977
"""So many objects must be new before any are collected. The collector's switch stays a program's own: nobody
could tell who has used it last."""


def _exchange(found: tuple[int, ...], wanted: tuple[int, ...]) -> Callable[[], None]:
    """Sets other thresholds, if they are still as found."""
    now = tee(starmap(gc.get_threshold, [()]))
    return starmap(gc.set_threshold, map({found: wanted}.get, *now)).__next__


_lock = threading.RLock()  # a handler of signals may compile, too
_back: _Back | None = None
_before: tuple[int, int, int] | None = None
"""The thresholds that were there last."""
_holders: Final[dict[int, ref[_PostponingThread]]] = {}
"""By thread. All of them hold the same."""


def put_off() -> _PostponingThread | None:
    """Collects nothing while the caller holds what this gives, if that is not so anyway: in no thread, until
    nobody does. To be let go by `finally: held = None`: a block of `contextlib` is held by the traceback of
    what interrupts it, and a traceback that is part of a cycle waits for a collection.
    """
    global _back, _before
    off = holder = None
    try:
        with _lock:
            known = _holders.get(threading.get_ident())
            holder = None if known is None else known()
            if holder is not None:
                return holder
            off = None if _back is None else _back()
            if off is None:
                before = gc.get_threshold()
                if before[0] == NEVER and _before is not None:  # there was no memory for taking it up again
                    before = _before
                if not gc.isenabled() or not before[0]:
                    return None
                off, without = _Off(), (NEVER, *before[1:])
                back = _Back(off, operator.methodcaller("back"))
                back.back = _exchange(without, before)
                _back, _before = back, before
                gc.set_threshold(*without)
            holder = _PostponingThread()
            holder.off = off
            _holders[threading.get_ident()] = ref(holder)
            return holder
    except BaseException:
        off = holder = None
        raise


def parsed(text: str, mode: str = "exec") -> Any:
    """The tree of a text. Up to Python 3.11 trees are made with a count that all share: a finalizer that
    makes one meanwhile is taken for an error.
    """
    held = put_off()
    try:
        return ast.parse(text, mode=mode)
    finally:
        del held


def _in_child() -> None:
    """Other threads that put it off are not there after a fork to take it up again."""
    global _lock, _back
    _lock = threading.RLock()
    for thread, known in list(_holders.items()):
        holder = known()
        if thread != threading.get_ident() and holder is not None:
            holder.off = None
    mine = _holders.get(threading.get_ident())
    if _back is not None and _back() is not None and (mine is None or mine() is None):
        _back.back()  # another thread was about to note that it holds it
        _back.back, _back = int, None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)


OF_PYTHON = 2000
"""As many objects may Python 3.12 have frozen itself; whoever freezes a program's has more."""
_left = 16
"""How often `promote` does anything: garbage from before waits until everything is collected."""


def promote() -> None:
    """Takes what there is for old, when a program begins: collections look at what is new, and would walk
    over all that the first compiles have made.
    """
    global _left
    if _left and gc.get_freeze_count() < OF_PYTHON:  # else somebody's would be let loose
        _left -= 1
        list(map(operator.call, (gc.freeze, gc.unfreeze)))  # with no line, and so no interrupt, in between


class Living(Generic[T]):
    """Objects that this does not keep alive, in the order in which they came. A walk sees those that are
    there when it begins: other threads add some meanwhile, which a WeakSet does not survive.
    """

    def __init__(self) -> None:
        self._by_id: WeakValueDictionary[int, T] = WeakValueDictionary()

    def add(self, value: T) -> None:
        self._by_id[id(value)] = value

    def __iter__(self) -> Iterator[T]:
        found = [reference() for reference in self._by_id.valuerefs()]
        return iter([value for value in found if value is not None])
