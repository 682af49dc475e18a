"""Outcome: what one run of the interpreter over one segment gave, for the emitter."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from weft.capture.frame import Frame
from weft.capture.world import Known, World
from weft.core.records import record
from weft.graph.node import Node
from weft.trace.breaks import Break
from weft.trace.recorder import Recorder
from weft.trace.scalars import Scalars


@record(slots=True)
class GraphInput:
    """A placeholder and what feeds it: a known tensor, or the symbolic scalar of a source."""

    node: Node
    known: Known


@record(slots=True)
class Outcome:
    """A segment: everything up to a return, or up to the instruction that capture could not take."""

    world: World
    recorder: Recorder
    scalars: Scalars
    frame: Frame
    """The root frame as it stands; at a break, just before `frame.instruction`."""
    kind: str  # "return" or "break"
    inputs: list[GraphInput]
    modes_before: Any
    modes_after: Any
    value: Any = None
    """What is returned."""
    stop: Break | None = None
    """Why capture stopped."""
    autocasts: int = 0
    """How many autocast blocks captured code has entered and not left."""


class EscapingException(BaseException):
    """An exception that captured code raised would escape from it: capture must stop before that step."""

    def __init__(self, step: int) -> None:
        super().__init__(step)
        self.step = step


class Unprepared(BaseException):
    """Something has to be made before the call is captured: `prepare()` does, and gives what undoes it.
    `again` says what that is, for other processes; None where it cannot be said.
    """

    def __init__(self, prepare: Callable[[], Callable[[], None]], again: Any = None) -> None:
        super().__init__()
        self.prepare, self.again = prepare, again
