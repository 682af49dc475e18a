"""Handlers of signals: what they do while something is traced is not part of it.

Takes work that sets modes of its own; gives its result. One idea: the work has a copy of the context, and a
handler that strikes meanwhile has another, as it was before; what a handler sets there lasts.

# Note [Handlers while tracing]
    signal.signal(SIGALRM, lambda *_: count.add_(1))
    weft.compile(f)(x)          # the write happens when the signal comes, and is no part of f's graph
A handler runs in the main thread, between any two lines, with the context variables of the code that it
interrupts: a recorder, modes without gradients, listeners to warnings. So the user's handlers stand behind
`Handler`s for as long as such work takes. One that an interrupt leaves in place calls the user's, and puts
that back. Finalizers that compute would do so there, too, when the collector calls them: it has to wait.
"""

from __future__ import annotations

import ctypes
import importlib
import signal
import sys
from _thread import get_ident
from collections.abc import Callable
from contextvars import Context, copy_context
from functools import partial
from threading import main_thread
from types import FrameType
from typing import Any, Final, ParamSpec, TypeVar

from weft.core.collection import put_off
from weft.core.contexts import Block
from weft.core.origins import is_ours, is_tracing

P = ParamSpec("P")
R = TypeVar("R")
plain_signals: Any = importlib.import_module("_signal")
"""Python's own functions, in C. Those of `signal` make numbers members of enums, in lines that take a
ValueError of a handler for that of a number that is none.
"""
IDLE: Final = (signal.SIG_DFL, signal.SIG_IGN, None)
"""Handlers that are no functions. None is one that Python has not installed."""
HARMLESS: Final = (*IDLE, signal.default_int_handler)
"""Handlers that run no code of the user's."""
ENDS: Final = (StopIteration, StopAsyncIteration, GeneratorExit)
"""What ends iterators."""


RESTART: Final = 0x10000000
"""Of the flags of a signal in Linux: calls of the system that it interrupts go on (`signal.siginterrupt`)."""


class _Action(ctypes.Structure):
    """`struct sigaction` of C."""

    _fields_ = (
        ("handler", ctypes.c_void_p),
        ("mask", ctypes.c_ubyte * 128),
        ("flags", ctypes.c_int),
        ("restorer", ctypes.c_void_p),
    )


_sigaction = getattr(ctypes.CDLL(None), "sigaction", None) if sys.platform == "linux" else None


def exchange(number: int, handler: Callable[[int, FrameType | None], Any]) -> None:
    """Installs another handler, and leaves the flag as it is, which `signal.signal` would clear."""
    action = _Action()
    known = _sigaction is not None and _sigaction(int(number), None, ctypes.byref(action)) == 0
    plain_signals.signal(number, handler)
    if known and action.flags & RESTART:
        plain_signals.siginterrupt(number, False)


class Surroundings:
    """The context around some work, which is still going on."""

    __slots__ = ("before", "carried", "carries", "context", "handlers", "work")

    def __init__(self) -> None:
        self.before: Context = copy_context()
        self.context: Context | None = self.before
        """As handlers have left it; None once this has been left."""
        self.work: list[Surroundings] = [self]
        """Nothing once the work is done."""
        self.handlers: dict[int, Handler] = {}
        self.carries = False
        """Whether somebody waits for what is `Carried`."""
        self.carried: Carried | None = None
        """What was raised last, be it lost on its way, as in a finalizer."""

    def enter(self) -> None:
        for number in plain_signals.valid_signals():
            handler = plain_signals.getsignal(number)
            if handler not in HARMLESS and type(handler) is not Handler:
                made = self.handlers[number] = Handler(handler, self)
                exchange(number, made)

    def leave(self) -> None:
        """Puts handlers back, whatever they raise meanwhile; gives this context what they have set."""
        raised: BaseException | None = None
        while self.handlers or self.context is not None:
            try:
                while self.handlers:
                    number = next(iter(self.handlers))
                    if plain_signals.getsignal(number) is self.handlers[number]:
                        exchange(number, self.handlers[number].handler)
                    del self.handlers[number]
                for variable, value in self.context.items() if self.context is not None else ():
                    if self.before.get(variable, self) is not value:
                        variable.set(value)
                self.context = None
            except BaseException as error:
                raised = error
        if raised is not None:
            raise raised

    def taken(self) -> BaseException:
        """What was carried, with a traceback that shows where it struck."""
        carried, self.carried = self.carried, None
        assert carried is not None
        first = carried.__traceback__
        if first is not None and first.tb_frame is sys._getframe(1):  # which raises it anew
            first = first.tb_next
        last = first
        while last is not None and last.tb_next is not None:
            last = last.tb_next
        if last is not None:
            behind = carried.error.__traceback__  # begins in the frame in which the other ends
            last.tb_next = behind and behind.tb_next
            carried.error.__traceback__ = first
        return carried.error


class Carried(BaseException):
    """What a handler raised, where it would be taken for something else on its way out of the work around:
    whatever walks an iterator takes a StopIteration for its end, `list` a TypeError of a `__len__` for none,
    `getattr` an AttributeError for no attribute, modules of Python's own an OSError for no file.
    """

    def __init__(self, error: BaseException, around: Surroundings) -> None:
        super().__init__(error)
        self.error, self.around = error, around


class Handler:
    """A handler of the user's that runs in the context around some work."""

    __slots__ = ("handler", "around")

    def __init__(self, handler: Callable[[int, FrameType | None], Any], around: Surroundings) -> None:
        self.handler, self.around = handler, around

    def __call__(self, number: int, frame: FrameType | None) -> Any:
        if not self.around.work:  # an interrupt kept it from being put back
            if plain_signals.getsignal(number) is self:
                exchange(number, self.handler)
            return self.handler(number, frame)
        context = (self.around.context or self.around.before).copy()
        try:
            return context.run(self.handler, number, frame)
        except BaseException as error:
            if not self.around.carries or isinstance(error, Carried):
                raise
            if not isinstance(error, ENDS) and not self._strikes_ours(frame):
                raise
            self.around.carried = Carried(error, self.around)
            raise self.around.carried from None
        finally:
            if self.around.context is not None:
                self.around.context = context

    def _strikes_ours(self, frame: FrameType | None) -> bool:
        """Whether nobody but us stands between there and the work's beginning: a backend of the user's, say,
        may catch what its own alarm raises.
        """
        while frame is not None and (is_ours(frame) or is_tracing(frame)):
            if frame.f_code is out_of_handlers.__code__ and frame.f_locals.get("around") is self.around:
                return True
            frame = frame.f_back
        return False


def take_back() -> None:
    """Installs the user's handlers again, where nobody is left to do so."""
    for number in plain_signals.valid_signals():
        handler = plain_signals.getsignal(number)
        if type(handler) is Handler:
            exchange(number, handler.handler)


def handlers_outside() -> Block:
    """Meanwhile, handlers of signals run in the context that there is now, whatever modes are on by then. See
    Note [Handlers while tracing].
    """
    if get_ident() != main_thread().ident:
        return Block([], [])
    around = Surroundings()
    return Block([around.enter], [around.work.clear], around, last=around.leave)


def in_own_context(work: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """Runs it in a copy of the context, which goes with whatever modes an interrupt leaves on there; handlers
    of signals run in the context around it, and the user's finalizers not before its end.
    """
    held = put_off()
    try:
        return out_of_handlers(partial(copy_context().run, work, *args, **kwargs))
    finally:
        del held


def out_of_handlers(work: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """Runs it; handlers of signals run in the context around it, and what they raise comes out of it."""
    around: Surroundings | None = None
    try:
        with handlers_outside() as around:
            if around is not None:
                around.carries = True
            result = work(*args, **kwargs)
        if around is None or around.carried is None:
            return result
    except Carried as carried:
        if carried.around is not around:
            raise
    except BaseException:  # perhaps of somebody who has met half of what an iterator should have given
        if around is None or around.carried is None:
            raise
    error = around.taken()
    try:
        raise error
    finally:
        del error  # whose traceback holds this frame
