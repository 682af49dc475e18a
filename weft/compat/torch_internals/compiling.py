"""What tests of the compiler ask of it beside results: callbacks around compilations, and code that runs
while code is captured.

Takes functions, calls them when something is compiled. One idea: whoever wants to know is an observer of
`weft.core.logs`, and nothing here is looked at while compiled code runs.
"""

from __future__ import annotations

import contextlib
import enum
from collections.abc import Callable, Iterator
from types import CodeType
from typing import Any

from weft import compiler
from weft.capture import runtime
from weft.compat.torch_internals.configs import dynamo
from weft.core import logs

Callback = Callable[[Any], Any]


class CallbackTrigger(enum.Enum):
    """Why something is compiled."""

    DYNAMO = 1
    LAZY_BACKWARD = 2
    TRITON_AUTOTUNING = 3
    CUDAGRAPH_RECORDING = 4


class CallbackArgs:
    """What a callback is told."""

    def __init__(self, code: Any) -> None:
        self.callback_trigger, self.compile_id = CallbackTrigger.DYNAMO, getattr(code, "co_name", "")


class CallbackHandler:
    """Functions to be called when a compilation starts and when it ends."""

    def __init__(self) -> None:
        self.start_callbacks: list[Callback] = []
        self.end_callbacks: list[Callback] = []

    def _observe(self, event: str, *facts: Any) -> None:
        if event in ("begin", "end"):
            for callback in self.start_callbacks if event == "begin" else self.end_callbacks:
                callback(CallbackArgs(facts[0]))

    def _listen(self) -> None:
        if self._observe not in logs.observers:
            logs.observers.append(self._observe)

    def register_start_callback(self, callback: Callback) -> Callback:
        """Calls the function whenever a compilation starts. Also a decorator."""
        self.start_callbacks.append(callback)
        self._listen()
        return callback

    def register_end_callback(self, callback: Callback) -> Callback:
        """Calls the function whenever a compilation ends. Also a decorator."""
        self.end_callbacks.append(callback)
        self._listen()
        return callback

    def remove_start_callback(self, callback: Callback) -> None:
        """Forgets a function."""
        self.start_callbacks.remove(callback)

    def remove_end_callback(self, callback: Callback) -> None:
        """Forgets a function."""
        self.end_callbacks.remove(callback)

    def clear(self) -> None:
        """Forgets all functions."""
        self.start_callbacks.clear()
        self.end_callbacks.clear()
        if self._observe in logs.observers:
            logs.observers.remove(self._observe)


callback_handler = CallbackHandler()
on_compile_start = callback_handler.register_start_callback
on_compile_end = callback_handler.register_end_callback


class Comptime:
    """`comptime(fn)`: what runs while code is captured, and not when it is called."""

    def __call__(self, fn: Callable[..., Any], fallback_fn: Callable[[], Any] = lambda: None) -> Any:
        return fallback_fn()

    def graph_break(self) -> None:
        """Captured code breaks here."""
        compiler.graph_break()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return _nothing


def _nothing(*_args: Any, **_kwargs: Any) -> None:
    return None


comptime = Comptime()


def patch_dynamo_config(*args: Any, **values: Any) -> Any:
    """Settings for a while."""
    return dynamo.patch(*args, **values)


@contextlib.contextmanager
def error_on_graph_break(error_on_graph_break: bool) -> Iterator[None]:
    """Whether breaks are errors is said where the function is compiled: nothing to change."""
    yield


def dont_skip_tracing(fn: Any = None) -> Any:
    """Nothing is skipped by its file: nothing to change."""
    return (lambda target: target) if fn is None else fn


def skip_frame(msg: str = "") -> None:
    """Captured code breaks here."""
    compiler.graph_break(msg)


def substitute_in_graph(original_fn: Any, **_options: Any) -> Any:
    """A decorator of a function that stands for another one: the other one itself is captured."""
    return lambda replacement: replacement


def _debug_get_cache_entry_list(code: Any) -> list[Any]:
    """What was compiled of a function or of its code, newest first."""
    wanted = getattr(code, "__code__", code)
    if not isinstance(wanted, CodeType):
        raise TypeError("expected a code object!")
    caches = (cache for context in list(runtime.contexts) for cache in list(context.caches.values()))
    return [installed.entry for cache in caches if cache.code is wanted for installed in cache.entries]
