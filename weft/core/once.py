"""Once: what is made when it is first asked for, and is the same for everybody from then on.

Gives a decorator for functions that make such things, and locks that outlive a fork. One idea: a thing is
made whole, and becomes known by one store.

# Note [Made when first needed]
An interrupt may come between any two lines, and another thread may run there. So
    - a table, class or function is made in a variable of its maker's, and published by one store behind that;
      a flag that says that something is there is set last;
    - where making it twice does no harm but all must get the same one, `dict.setdefault` (or `once`) decides
      who was first; where any one will do, an assignment (or `functools.cache`) does;
    - what has effects (threads that are started, code that is compiled) is made under a lock, which is held
      by `with`, and the table is asked once more inside.
Looking for what is there takes no lock.
"""

from __future__ import annotations

import functools
import os
import threading
from collections.abc import Callable
from typing import Any, Final, Generic, ParamSpec, Protocol, TypeVar, overload

from weft.core.collection import Living

Key = ParamSpec("Key")
Thing = TypeVar("Thing", covariant=True)
T = TypeVar("T")


class Once(Protocol[Key, Thing]):
    """A function that gives what was made for these arguments, and the table of all that was."""

    made: dict[tuple[Any, ...], Any]

    def __call__(self, *args: Key.args, **kwargs: Key.kwargs) -> Thing: ...


def once(make: Callable[Key, Thing]) -> Once[Key, Thing]:
    """As `functools.cache`, for functions of positional arguments whose callers must all get the same object:
    of what threads make at once, the first stays.
    """
    made: dict[tuple[Any, ...], Any] = {}
    plain: Callable[..., Thing] = make

    @functools.cache  # which finds what is there without a call of Python's
    @functools.wraps(make)
    def asked(*key: object) -> Any:
        return made.setdefault(key, plain(*key))

    given: Any = asked
    given.made = made
    typed: Once[Key, Thing] = given
    return typed


class cached(Generic[T]):
    """As `functools.cached_property`, which up to Python 3.11 has one lock for all objects and holds it while
    it computes: a handler of signals or a finalizer that strikes there may wait for a second one, whose
    holder waits for the first.
    """

    def __init__(self, make: Callable[[Any], T]) -> None:
        self.make = make
        self.__doc__ = make.__doc__

    @overload
    def __get__(self, owner: None, kind: type) -> cached[T]: ...
    @overload
    def __get__(self, owner: object, kind: type | None = None) -> T: ...
    def __get__(self, owner: Any, kind: Any = None) -> Any:
        if owner is None:
            return self
        made: Any = owner.__dict__.setdefault(self.make.__name__, self.make(owner))
        return made


_locks: Final[Living[Any]] = Living()


def lock() -> Any:
    """A reentrant lock. In a process that was forked it is free, unless the thread that forked holds it:
    others that did are not there to release it.
    """
    made = threading.RLock()
    _locks.add(made)
    return made


def _in_child() -> None:
    for each in _locks:
        if not each._is_owned():
            each._at_fork_reinit()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)
