"""Grad modes: `no_grad`, `enable_grad`, `set_grad_enabled`, `inference_mode`, as context managers and as
decorators.

Takes nothing, changes what `weft.core.modes` holds. One idea: leaving a mode restores only what entering it
changed, so modes may be left in any order; a decorated generator or coroutine enters the mode for each of
its steps, so it never leaks to its driver.
"""

from __future__ import annotations

import inspect
from collections.abc import AsyncGenerator, Callable, Generator
from contextvars import Context, ContextVar, copy_context
from functools import partial, wraps
from itertools import repeat
from typing import Any, Final, TypeVar

from weft.core import modes
from weft.core.contexts import Leaving, LeftAtOnce, choosing, forget
from weft.core.modes import state
from weft.core.warn import warn_at_level

multithreading: ContextVar[bool] = ContextVar("weft_multithreading", default=True)
view_replay: ContextVar[bool] = ContextVar("weft_view_replay", default=False)
_held: Context | None = None
"""Holds the variables that there were when a generator was closed last."""
Decorated = TypeVar("Decorated", bound=Callable[..., Any])


def is_grad_enabled() -> bool:
    """Whether ops record gradients now."""
    return modes.grad_enabled()


def is_inference_mode_enabled() -> bool:
    """Whether inference mode is on."""
    value = state.get()
    return type(value) is not bool and value.inference


def put(**changes: object) -> None:
    """Changes the active modes for good: until somebody puts them back."""
    modes.enter(**changes)


def put_grad(enabled: bool) -> bool:
    """Switches recording on or off and tells what it was."""
    value = state.get()
    if type(value) is bool:
        try:
            state.set(enabled)
        except BaseException:  # an interrupt, behind the call
            state.set(value)
            raise
        return value
    modes.enter(grad=enabled)
    return value.grad


def _drive(factory: Callable[[], Any], steps: Any) -> Generator[Any, Any, Any]:
    """Runs a generator (or what a coroutine awaits) with the mode entered around each step only. It may be
    the collector that closes it: see Note [Finalizers set no context variables].
    """
    global _held
    try:
        with factory():
            answer = steps.send(None)
        while True:
            try:
                request = yield answer
            except GeneratorExit:
                _held = copy_context()
                with factory():
                    steps.close()
                raise
            except BaseException as error:
                with factory():
                    answer = steps.throw(error)
            else:
                with factory():
                    answer = steps.send(request)
    except StopIteration as stop:
        return stop.value


class _Steps:
    """Makes an awaitable of a coroutine that enters the mode for each step."""

    __slots__ = ("factory", "coroutine")

    def __init__(self, factory: Callable[[], Any], coroutine: object) -> None:
        self.factory, self.coroutine = factory, coroutine

    def __await__(self) -> Generator[Any, Any, Any]:
        return _drive(self.factory, self.coroutine)


async def _drive_async(factory: Callable[[], Any], source: Any) -> AsyncGenerator[Any, Any]:
    try:
        value = await _Steps(factory, _awaited(source.asend(None)))
        while True:
            try:
                request = yield value
            except GeneratorExit:
                await _Steps(factory, _awaited(source.aclose()))
                raise
            except BaseException as error:
                value = await _Steps(factory, _awaited(source.athrow(error)))
            else:
                value = await _Steps(factory, _awaited(source.asend(request)))
    except StopAsyncIteration:
        return


async def _awaited(awaitable: Any) -> Any:
    return await awaitable


def decorate(factory: Callable[[], Any], function: Callable[..., Any]) -> Any:
    """The function, run inside a new context of the factory at each call."""
    if inspect.isclass(function):
        warn_at_level(
            "Decorating classes is deprecated and will be disabled in future versions. You should only "
            "decorate functions "
            "or methods. To preserve the current behavior of class decoration, you can directly decorate the "
            "`__init__` "
            "method and nothing else.",
            FutureWarning,
            stacklevel=3,
        )
        made = function

        def construct(*args: object, **kwargs: object) -> Any:
            with factory():
                return made(*args, **kwargs)

        return construct
    if inspect.isasyncgenfunction(function):

        @wraps(function)
        def around_async_generator(*args: object, **kwargs: object) -> Any:
            return _drive_async(factory, function(*args, **kwargs))

        return around_async_generator
    if inspect.iscoroutinefunction(function):

        @wraps(function)
        async def around_coroutine(*args: object, **kwargs: object) -> Any:
            return await _Steps(factory, function(*args, **kwargs))

        return around_coroutine
    if inspect.isgeneratorfunction(function):

        @wraps(function)
        def around_generator(*args: object, **kwargs: object) -> Any:
            return (yield from _drive(factory, function(*args, **kwargs)))

        return around_generator

    @wraps(function)
    def around(*args: object, **kwargs: object) -> Any:
        with factory():
            return function(*args, **kwargs)

    return around


def _back_to(before: modes.State, inside: modes.State, **changes: object) -> Callable[[], None]:
    """A C function that puts the modes back to what they were where they still are as inside. Else, as modes
    may be left in any order, it puts back what was changed.
    """
    return choosing(state.get, {inside: partial(state.set, before)}, partial(modes.enter, **changes))


def _leaving(grad: bool) -> Callable[[], None]:
    back = partial(state.set, grad)
    return choosing(state.get, {True: back, False: back}, partial(put_grad, grad))


LEAVING: Final = {grad: _leaving(grad) for grad in (True, False)}
"""How modes are left that were entered where nothing rarer was active."""


class _Mode:
    """What modes have in common: decorating."""

    def clone(self) -> Any:
        return type(self)()

    def __call__(self, function: Decorated) -> Decorated:
        found: Decorated = decorate(self.clone, function)
        return found


class Mode(_Mode, LeftAtOnce):
    """A mode of gradients."""


class _GradMode(Mode):
    """A mode without arguments, which may be given the function that it decorates."""

    grad: bool

    def __new__(cls, orig_func: Callable[..., Any] | None = None) -> Any:
        made = Leaving.__new__(cls)
        return made if orig_func is None else made(orig_func)

    def __init__(self, orig_func: Callable[..., Any] | None = None) -> None:
        self.prev = False
        self.close = LEAVING[False]

    def __enter__(self) -> Any:
        before = state.get()
        inside: modes.State = self.grad
        if type(before) is bool:
            self.prev, self.close = before, LEAVING[before]
        else:
            self.prev, inside = before.grad, modes.changed(grad=inside)
            self.close = _back_to(before, inside, grad=self.prev)
        try:
            state.set(inside)
        except BaseException:  # an interrupt, behind the call
            state.set(before)
            raise

    def _leave(self, *_error: object) -> None:
        put_grad(self.prev)

    def _prepare(self) -> None:
        self.close = LEAVING[self.prev]


class no_grad(_GradMode):
    """Inside, ops record nothing and results do not require grad."""

    grad = False


class enable_grad(_GradMode):
    """Inside, ops record, also within no_grad."""

    grad = True


class _AtOnce(Mode):
    """Switches something at once when called; as a context manager, puts it back at the end."""

    put: Callable[[bool], bool]
    """Switches, and tells what it was."""

    def __init__(self, mode: bool) -> None:
        self.mode = mode
        self.prev = self.put(mode)
        self._prepare()

    def clone(self) -> Any:
        return type(self)(self.mode)

    def __call__(self, function: Decorated) -> Decorated:
        self.put(self.prev)
        return super().__call__(function)

    def __enter__(self) -> Any:
        self.put(self.mode)
        self._prepare()

    def _leave(self, *_error: object) -> None:
        self.put(self.prev)


class set_grad_enabled(_AtOnce):
    """Switches recording at once when called; as a context manager, puts it back at the end."""

    put = staticmethod(put_grad)

    def __init__(self, mode: bool) -> None:
        if not isinstance(mode, bool):
            raise TypeError(
                f"set_grad_enabled(): argument 'enabled' (position 1) must be bool, not {type(mode).__name__}"
            )
        before = state.get()
        try:
            super().__init__(mode)
        except BaseException:  # an interrupt
            state.set(before)
            raise

    def __enter__(self) -> Any:
        try:
            super().__enter__()
        except BaseException:  # an interrupt: nobody will leave it
            self.close()
            raise

    def _prepare(self) -> None:
        inside = state.get()
        if type(inside) is bool:
            self.close = LEAVING[self.prev]
        else:
            self.close = _back_to(modes.changed(grad=self.prev), inside, grad=self.prev)

    def __repr__(self) -> str:
        return f"set_grad_enabled(mode={self.mode})"


class inference_mode(Mode):
    """Inside, nothing is recorded and new tensors can never take part in autograd; `inference_mode(False)`
    leaves it again."""

    def __new__(cls, mode: bool | Callable[..., Any] = True) -> Any:
        made = Leaving.__new__(cls)
        if isinstance(mode, bool):
            return made
        made.mode = True
        return made(mode)

    def __init__(self, mode: bool | Callable[..., Any] = True) -> None:
        if isinstance(mode, bool):
            self.mode = mode
        self._before: Any = None

    def clone(self) -> Any:
        return type(self)(self.mode)

    def __enter__(self) -> Any:
        before, inside = state.get(), modes.changed(inference=self.mode, grad=not self.mode)
        grad, inference = self._before = (
            (before, False) if type(before) is bool else (before.grad, before.inference)
        )
        self.close = _back_to(before, inside, grad=grad, inference=inference)
        try:
            state.set(inside)
        except BaseException:  # an interrupt, behind the call
            state.set(before)
            raise

    def _leave(self, *_error: object) -> None:
        grad, inference = self._before
        modes.enter(grad=grad, inference=inference)

    def _prepare(self) -> None:
        if self._before is not None:
            grad, inference = self._before
            self.close = choosing(state.get, {}, partial(modes.enter, grad=grad, inference=inference))


class _Switch(_AtOnce):
    """A switch of PyTorch's engine without a meaning here: whatever it says, programs compute the same."""

    variable: ContextVar[bool]

    def put(self, mode: bool) -> bool:
        before = self.variable.get()
        self.variable.set(mode)
        return before

    def _prepare(self) -> None:
        self.close = map(forget, map(self.variable.set, repeat(self.prev))).__next__


class set_multithreading_enabled(_Switch):
    """Whether a backward may use several threads: it runs in the calling one either way."""

    variable = multithreading


def is_multithreading_enabled() -> bool:
    """What `set_multithreading_enabled` was last told."""
    return multithreading.get()


class _force_original_view_tracking(_Switch):
    """Whether views that are written to are made again as they were made: they always are."""

    variable = view_replay


__all__ = [
    "enable_grad",
    "inference_mode",
    "is_grad_enabled",
    "is_inference_mode_enabled",
    "no_grad",
    "set_grad_enabled",
]
