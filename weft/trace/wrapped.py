"""Functions that symbolic tracing keeps whole: `wrap("len")`, or `@wrap` on a function of the module.

Takes names of globals; while a function is traced, calls of these with proxies become one node each. One
idea: the global itself is exchanged meanwhile, as nothing else sees calls of builtins.
"""

from __future__ import annotations

import builtins
import functools
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Final

from weft.core.contexts import Block, set_to
from weft.core.once import lock

_wrapped: Final[dict[tuple[int, str], dict[str, Any]]] = {}
"""The globals in which a name is kept whole, by their identity and the name."""


def wrap(fn_or_name: Any) -> Any:
    """Keeps calls of a global function of the calling module whole in symbolic traces; also a decorator.

    >>> wrap("len")
    'len'
    """
    if not callable(fn_or_name) and not isinstance(fn_or_name, str):
        raise RuntimeError("Unsupported type for global function! Must be either a callable or string name")
    name = fn_or_name if isinstance(fn_or_name, str) else fn_or_name.__name__
    frame = sys._getframe(1)
    if frame.f_code.co_name != "<module>":
        raise NotImplementedError("wrap must be called at the top level of a module")
    _wrapped[id(frame.f_globals), name] = frame.f_globals
    return fn_or_name


Record = Callable[[Callable[..., Any], Any, Any], Any]
_recording: Final[ContextVar[tuple[Callable[[Any], bool], Record] | None]] = ContextVar(
    "weft_wrapped_recording", default=None
)
_lock = lock()
_traces: Final[set[object]] = set()
_exchanged: Final[dict[tuple[int, str], tuple[dict[str, Any], bool, Any]]] = {}
"""What stood there before, while any thread traces."""


def recorded(is_proxy: Callable[[Any], bool], record: Record) -> Block:
    """Meanwhile, calls of `fronted` functions with proxies, in this context, are recorded."""
    return set_to((_recording, (is_proxy, record)))


@contextmanager
def fronted(more: Iterable[tuple[dict[str, Any], str]] = ()) -> Iterator[None]:
    """Meanwhile, functions stand in place of wrapped ones, and of `more` (where they stand, and under which
    names), that ask whether a call is to be recorded.
    """
    trace = object()
    try:
        with _lock:
            _traces.add(trace)
            _exchange(more)
        yield
    finally:
        with _lock:
            _traces.discard(trace)
            if not _traces:
                _put_back()


def _exchange(more: Iterable[tuple[dict[str, Any], str]]) -> None:
    wanted = [*_wrapped.items(), *(((id(space), name), space) for space, name in more)]
    for key, space in wanted:
        name = key[1]
        original = space.get(name, getattr(builtins, name, None))
        if key not in _exchanged and original is not None:
            _exchanged[key] = space, name in space, original
            space[name] = _front(original)


def _put_back() -> None:
    while _exchanged:
        key, (space, was_there, original) = next(iter(_exchanged.items()))
        if was_there:
            space[key[1]] = original
        else:
            space.pop(key[1], None)
        del _exchanged[key]


def _front(original: Any) -> Callable[..., Any]:
    @functools.wraps(original)
    def front(*args: Any, **kwargs: Any) -> Any:
        recording = _recording.get()
        if recording is not None and any(map(recording[0], (*args, *kwargs.values()))):
            return recording[1](original, args, kwargs)
        return original(*args, **kwargs)

    return front
