"""Functions that symbolic tracing keeps whole: `wrap("len")`, or `@wrap` on a function of the module.

Takes names of globals; while a function is traced, calls of these with proxies become one node each. One
idea: the global itself is exchanged meanwhile, as nothing else sees calls of builtins.
"""

from __future__ import annotations

import builtins
import functools
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

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


@contextmanager
def kept_whole(
    is_proxy: Callable[[Any], bool], record: Callable[[Callable[..., Any], Any, Any], Any]
) -> Iterator[None]:
    """Meanwhile, calls of wrapped functions with proxies are recorded."""
    before = []
    for (_, name), space in _wrapped.items():
        original = space.get(name, getattr(builtins, name, None))
        if original is not None:
            before.append((space, name, name in space, original))
            space[name] = _front(original, is_proxy, record)
    try:
        yield
    finally:
        for space, name, was_there, original in before:
            if was_there:
                space[name] = original
            else:
                del space[name]


def _front(original: Any, is_proxy: Any, record: Any) -> Callable[..., Any]:
    @functools.wraps(original)
    def front(*args: Any, **kwargs: Any) -> Any:
        if any(map(is_proxy, (*args, *kwargs.values()))):
            return record(original, args, kwargs)
        return original(*args, **kwargs)

    return front
