"""Values that stand for running Python code: callbacks that C code may call, and suspended generators.

One idea: whatever C code calls or iterates re-enters the interpreter, so that nothing of the user's runs
unseen.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from weft.capture.frame import Frame
from weft.trace.breaks import Break

if TYPE_CHECKING:
    from builtins import isinstance as has_type  # so that checkers narrow by it

    __all__ = ["has_type"]
else:

    def has_type(value: Any, classes: Any) -> bool:
        """`isinstance` by the type alone: the builtin asks objects for `__class__`, which may run a
        `__getattribute__` of the user's.
        """
        return issubclass(type(value), classes)


Given = TypeVar("Given")
Args = tuple[Any, ...]
Kwargs = dict[str, Any]
"""What a call gives, as handlers get it."""


class Raised(BaseException):
    """Carries an exception of the captured program through the interpreter's own code."""

    def __init__(self, exception: BaseException) -> None:
        super().__init__(exception)
        self.exception = exception


def entered(function: Callable[..., Given], /, *args: Any) -> Given:
    """Calls the interpreter for code that knows nothing of it: errors of captured code are raised as such."""
    try:
        return function(*args)
    except Raised as raised:
        error = raised.exception
    try:
        raise error
    finally:
        del error  # its traceback holds this frame


class CapturedTraceback:
    """The traceback of an exception in captured code. It may be handed around, not looked into."""

    __slots__ = ("error",)

    def __init__(self, error: BaseException) -> None:
        self.error = error


class Callback:
    """A Python callable in a form that C code may call: the interpreter runs it."""

    __slots__ = ("call", "function")

    def __init__(self, function: Any, call: Callable[..., Any]) -> None:
        self.function, self.call = function, call

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return entered(self.call, self.function, args, kwargs)

    @property
    def __name__(self) -> str:
        name: str = self.function.__name__
        return name

    def __repr__(self) -> str:
        if has_type(self.function, type):
            return repr(self.function)
        raise Break("address-in-text", seen="the text of a function")


CACHED = type(functools.lru_cache(len))
"""What `functools.lru_cache` makes."""


class BoundMethod(functools.partial[Any]):
    """A builtin method of an object that something stands for: `.append` of a list, `.send` of a generator.
    It may be called and handed around, not looked into.
    """


class CapturedGenerator:
    """A generator whose frame the interpreter runs. `frame` is None once it has finished."""

    __slots__ = (
        "advance", "arguments", "code", "drop", "frame", "function", "running", "started", "__weakref__",
    )  # fmt: skip

    def __init__(
        self,
        frame: Frame,
        arguments: dict[str, Any],
        advance: Callable[..., Any],
        drop: Callable[[CapturedGenerator], None],
    ) -> None:
        self.frame: Frame | None = frame
        self.function = frame.function
        self.code = frame.code
        self.arguments = arguments
        """The bound arguments, by which one that has not started can be made again."""
        self.advance = advance
        """`advance(generator, value, error)` runs to the next yield, or raises Raised(StopIteration)."""
        self.drop = drop
        """Called when nothing refers to it any more: see Note [Generators die] in `generators`."""
        self.started = self.running = False

    def __del__(self) -> None:
        if self.would_act():
            self.drop(self)

    def would_act(self) -> bool:
        """Whether closing it runs code of its own: it is suspended inside a `try` or a `with`."""
        frame = self.frame
        if frame is None or not self.started or self.running:
            return False
        instructions, handlers = frame.bytecode.instructions, frame.bytecode.handlers
        handler = handlers[frame.instruction.index]
        if handler is not None and instructions[handler.target_index].op == "CLEANUP_THROW":  # a `yield from`
            inner = frame.stack[-1]
            acts = inner.would_act() if type(inner) is CapturedGenerator else hasattr(type(inner), "close")
            if acts:
                return True
            handler = handlers[handler.target_index]
        if handler is None:
            return False
        return instructions[handler.target_index].op != "STOPITERATION_ERROR"

    def __iter__(self) -> CapturedGenerator:
        return self

    def __next__(self) -> Any:
        return self._from_c(None, None)

    def send(self, value: Any) -> Any:
        return self._from_c(value, None)

    def _from_c(self, value: Any, error: BaseException | None) -> Any:
        return entered(self.advance, self, value, error)
