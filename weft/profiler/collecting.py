"""Collecting: a profile is a block in which everything that takes time leaves an event.

Takes the names of PyTorch's profiler; gives events. One idea: nothing in the library waits to be profiled.
Eager ops and their backward rules are functions whose code has a name of its own (`<weft relu>`), so Python's
profiling hook sees them come and go; compiled code is compiled anew for the block, in a form that tells how
long each of its steps takes.
"""

from __future__ import annotations

import functools
import os
import sys
import threading
from collections.abc import Callable
from enum import Enum
from threading import get_ident
from time import perf_counter
from types import FrameType, TracebackType
from typing import Any, Final

from weft import compiler
from weft.core.lazy import lazy
from weft.core.logs import observers
from weft.profiler.events import Event, EventList, nest
from weft.tensor.base import Tensor

_timing: Any = lazy("weft.native.program.timing")
MARK: Final = "<weft "
BACKWARD: Final = "<weft backward of "
COMPILED: Final = "<weft: front of "
SKIPPED: Final = ("<weft stub>", "<weft shim>")
PACKAGE: Final = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep


class ProfilerActivity(Enum):
    """What may be profiled."""

    CPU = 0
    CUDA = 1


class ProfilerAction(Enum):
    """What a profile does in a step of its schedule."""

    NONE = 0
    WARMUP = 1
    RECORD = 2
    RECORD_AND_SAVE = 3


def supported_activities() -> set[ProfilerActivity]:
    """What this machine can profile."""
    return {ProfilerActivity.CPU}


def schedule(
    *, wait: int, warmup: int, active: int, repeat: int = 0, skip_first: int = 0
) -> Callable[[int], ProfilerAction]:
    """Which steps a profile records: after `skip_first`, cycles of `wait`, `warmup` and `active` steps.

    >>> plan = weft.profiler.schedule(wait=1, warmup=1, active=2, repeat=1)
    >>> [plan(step).name for step in range(5)]
    ['NONE', 'WARMUP', 'RECORD', 'RECORD_AND_SAVE', 'NONE']
    """
    if min(wait, warmup, repeat, skip_first) < 0 or active < 1:
        raise ValueError(f"a schedule needs active > 0 and nothing negative, not {wait=} {warmup=} {active=}")
    length = wait + warmup + active

    def action(step: int) -> ProfilerAction:
        step -= skip_first
        if step < 0 or (repeat and step // length >= repeat):
            return ProfilerAction.NONE
        place = step % length
        if place < wait:
            return ProfilerAction.NONE
        if place < wait + warmup:
            return ProfilerAction.WARMUP
        return ProfilerAction.RECORD_AND_SAVE if place == length - 1 else ProfilerAction.RECORD

    return action


_active: list[profile] = []
"""The profiles that record now, the latest last."""


class record_function:
    """A block, or with `@record_function("name")` a function, that profiles show under this name."""

    def __init__(self, name: str, args: str | None = None) -> None:
        self.name = name if args is None else f"{name}({args})"
        self.began: list[float] = []

    def __enter__(self) -> record_function:
        self.began.append(perf_counter())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        began = self.began.pop()
        for each in tuple(_active):
            each._note(self.name, "user", began, perf_counter() - began)

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def recorded(*args: Any, **kwargs: Any) -> Any:
            with record_function(self.name):
                return function(*args, **kwargs)

        return recorded


class profile:
    """Records what takes time in a block.

    `record_shapes` notes the shapes of ops' tensors. `kernels=False` leaves compiled code as it is: then a
    call of it is one event, and nothing is compiled anew. With a `schedule`, call `step()` after each step;
    `on_trace_ready(profile)` is called when its active steps are over, or at the end.

    >>> import weft
    >>> with weft.profiler.profile() as seen:
    ...     _ = weft.ones(3) + 1
    >>> "add" in {event.name for event in seen.events()}
    True
    """

    def __init__(
        self,
        *,
        activities: Any = None,
        schedule: Callable[[int], ProfilerAction] | None = None,
        on_trace_ready: Callable[[profile], Any] | None = None,
        record_shapes: bool = False,
        profile_memory: bool = False,
        with_stack: bool = False,
        kernels: bool = True,
        **_ignored: Any,
    ) -> None:
        wanted = set(activities) if activities is not None else {ProfilerActivity.CPU}
        if ProfilerActivity.CPU not in wanted:
            raise ValueError("only ProfilerActivity.CPU can be profiled here")
        self.schedule, self.on_trace_ready = schedule, on_trace_ready
        self.record_shapes, self.with_stack, self.kernels = record_shapes, with_stack, kernels
        self.step_num = 0
        self.action = ProfilerAction.RECORD if schedule is None else schedule(0)
        self.recorded: list[Event] = []
        self.zero = 0.0
        self.hearing = False
        self._compiling: list[float] = []
        self._open: dict[int, list[tuple[str, str, float, tuple[Any, ...], FrameType]]] = {}

    # -- the block -------------------------------------------------------------------------------------------
    def __enter__(self) -> profile:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def start(self) -> None:
        self.zero = perf_counter()
        if self.kernels:
            compiler.time_steps(True)
        self._follow()

    def stop(self) -> None:
        was = self.hearing
        self._unhear()
        if self.kernels:
            compiler.time_steps(False)
        nest(self.recorded)
        if was and self.on_trace_ready is not None:
            self.on_trace_ready(self)

    def step(self) -> None:
        """Says that a step of the program is over."""
        finished = self.action is ProfilerAction.RECORD_AND_SAVE
        self.step_num += 1
        if self.schedule is None:
            return
        self.action = self.schedule(self.step_num)
        if finished:
            self._unhear()
            nest(self.recorded)
            if self.on_trace_ready is not None:
                self.on_trace_ready(self)
        self._follow()

    def _follow(self) -> None:
        """Listens, or not, as the schedule says."""
        wanted = self.action in (ProfilerAction.RECORD, ProfilerAction.RECORD_AND_SAVE)
        if wanted and not self.hearing:
            self.recorded = []
            self._hear()
        elif not wanted and self.hearing:
            self._unhear()

    # -- listening -------------------------------------------------------------------------------------------
    def _hear(self) -> None:
        self.hearing = True
        _active.append(self)
        observers.append(self._compiled)
        if self.kernels:
            _timing.listeners.append(self._kernel)
        threading.setprofile(self._called)
        sys.setprofile(self._called)

    def _unhear(self) -> None:
        if not self.hearing:
            return
        sys.setprofile(None)
        threading.setprofile(None)
        self.hearing = False
        self._open.clear()
        _active.remove(self)
        observers.remove(self._compiled)
        if self.kernels:
            _timing.listeners.remove(self._kernel)

    def _note(
        self, name: str, kind: str, began: float, took: float, shapes: tuple[Any, ...] = (), place: str = ""
    ) -> None:
        start = 1e6 * (began - self.zero)
        self.recorded.append(Event(name, kind, start, 1e6 * took, get_ident(), shapes, place))

    def _compiled(self, event: str, *facts: Any) -> None:
        """What is done to compile is one event: ops on fakes are no ops."""
        if event == "begin":
            self._compiling.append(perf_counter())
            sys.setprofile(None)
        elif event == "end":
            began = self._compiling.pop() if self._compiling else perf_counter()
            self._note(f"compile {facts[0].co_qualname}", "compile", began, perf_counter() - began)
            if not self._compiling:
                sys.setprofile(self._called)

    def _kernel(self, name: str, lines: tuple[Any, ...], began: float, took: float) -> None:
        place = ", ".join(f"{file}:{line}" for file, line, _ in lines)
        kind = "compile" if name == _timing.COMPILING else "kernel"
        self._note(name, kind, began, took, (), place)

    def _called(self, frame: FrameType, event: str, _argument: Any) -> None:
        file = frame.f_code.co_filename
        if not file.startswith("<weft") or event not in ("call", "return") or file in SKIPPED:
            return
        if frame.f_code.co_name == "<module>":  # which defines such a function
            return
        stack = self._open.setdefault(get_ident(), [])
        if event == "call":
            if file.startswith(BACKWARD):
                name, kind = file[len(MARK) : -1], "backward"
            elif file.startswith(COMPILED):
                name, kind = frame.f_code.co_name, "compiled"
            elif file.startswith(MARK):
                name, kind = frame.f_code.co_name.strip("_"), "op"
            else:
                return
            shapes = self._shapes(frame) if self.record_shapes else ()
            stack.append((name, kind, perf_counter(), shapes, frame))
        elif stack and stack[-1][4] is frame:
            name, kind, began, shapes, _ = stack.pop()
            self._note(name, kind, began, perf_counter() - began, shapes, self._place(frame))

    def _shapes(self, frame: FrameType) -> tuple[Any, ...]:
        code = frame.f_code
        names = code.co_varnames[: code.co_argcount]
        values = [frame.f_locals.get(name) for name in names]
        return tuple(tuple(value.shape) for value in values if isinstance(value, Tensor))

    def _place(self, frame: FrameType) -> str:
        """The user's line that led to a call, if `with_stack` asks for it."""
        above: FrameType | None = frame.f_back if self.with_stack else None
        while above is not None and above.f_code.co_filename.startswith((PACKAGE, "<weft")):
            above = above.f_back
        return "" if above is None else f"{above.f_code.co_filename}:{above.f_lineno}"

    # -- results ---------------------------------------------------------------------------------------------
    def events(self) -> EventList:
        """All events, by when they began."""
        return EventList(sorted(self.recorded, key=lambda event: event.start))

    def key_averages(self, group_by_input_shape: bool = False, group_by_stack_n: int = 0) -> EventList:
        """An average for each name; `.table()` shows them."""
        return self.events().key_averages(group_by_input_shape)

    def export_chrome_trace(self, path: str | os.PathLike[str]) -> None:
        """Writes a file that Perfetto and chrome://tracing open."""
        self.events().export_chrome_trace(path)
