"""Segments for tests: values that capture could have made, and calls captured and emitted without a compiler.

`rebuilt` takes a value as if captured code had made it; `Segment` runs the interpreter over a call and emits
what it gave, with a runtime that resumes uncompiled.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from types import CellType, FunctionType
from typing import Any

from weft.capture.binding import parameter_names
from weft.capture.emit import Emitted, emit, plan_outputs
from weft.capture.frame import Frame
from weft.capture.outcome import EscapingException, Outcome
from weft.capture.session import Broken, Failed, capture
from weft.capture.sources import function, local
from weft.capture.world import World
from weft.graph.graph import Graph
from weft.trace.breaks import Break
from weft.trace.module import GraphModule
from weft.trace.recorder import Recorder
from weft.trace.scalars import Scalars


class PlainRuntime:
    """Resumes natively and compiles nothing; notes what was asked."""

    def __init__(self) -> None:
        self.called: list[Any] = []
        self.points: list[Any] = []

    def callee(self, value: Any) -> Any:
        self.called.append(value)
        return value

    def resume(
        self, point: Any, function: FunctionType, cells: tuple[CellType, ...], _at: Any = None, *raised: Any
    ) -> Any:
        if raised:  # as what it gave ran at once
            return lambda *_values: _raise(*raised)
        self.points.append(point)
        return FunctionType(point.code, function.__globals__, function.__name__, None, cells or None)

    enter_original = resume


def _raise(error: BaseException) -> None:
    raise error


def _nothing(a: Any = None, b: Any = None) -> None:
    pass


def outcome_of(world: World, value: Any = None, root: Callable[..., Any] = _nothing) -> Outcome:
    """A segment that returns the value, with these effects."""
    graph = Graph()

    def on_input(value: Any) -> Any:
        raise Break("unknown-tensor", seen=repr(type(value)))

    recorder = Recorder(graph, on_input)
    source = function().member("__globals__")
    frame = Frame(root.__code__, root.__globals__, source, root, None)  # type: ignore[attr-defined, arg-type]
    return Outcome(world, recorder, Scalars(), frame, "return", [], True, True, value)


def emitted_of(outcome: Outcome) -> Emitted:
    plan_outputs(outcome)
    return emit(outcome, graph_callable=None, runtime=PlainRuntime())


def rebuilt(value: Any, **known: Any) -> Any:
    """What emitted code makes of the value; `known` names parts of it that existed before, by parameter."""
    world = World()
    names = list(known)
    root = eval(f"lambda {', '.join(names)}: None")
    for name, part in known.items():
        world.learn(part, part, local(name))
    call = emitted_of(outcome_of(world, value, root)).make()
    first, second = call(root, *known.values()), call(root, *known.values())
    if type(first) is type(value) and isinstance(value, (list, dict, set)):
        assert first is not second, "each call must make an object of its own"
    return first


def text_of(value: Any, **known: Any) -> str:
    world = World()
    root = eval(f"lambda {', '.join(known)}: None")
    for name, part in known.items():
        world.learn(part, part, local(name))
    return emitted_of(outcome_of(world, value, root)).text


class Uncaught(Exception):
    """Captured code raised an exception that nothing caught: the original would run."""


class Segment:
    """One call of a function, captured up to its first break (or up to a step) and emitted."""

    def __init__(self, function: FunctionType, *args: Any, stop_at: int | None = None) -> None:
        self.function, self.args = function, args
        self.runtime = PlainRuntime()
        self.broke = False
        arguments = dict(zip(parameter_names(function.__code__), args, strict=True))
        while True:
            found = capture(function, arguments, stop_at=stop_at)
            if isinstance(found, Broken):
                stop_at = found.step
                self.broke = True
                continue
            if isinstance(found, Failed):
                raise Uncaught(found.error)
            try:
                outputs = plan_outputs(found)
            except EscapingException as escaping:
                stop_at = max(escaping.step - 1, 0)
                continue
            break
        self.outcome = found
        graph = found.recorder.graph
        found.recorder.finish()
        graph.output(tuple(outputs))
        self.module = GraphModule({}, graph)
        self.emitted = emit(found, graph_callable=self.module, runtime=self.runtime)
        self.text = self.emitted.text
        self.entry = self.emitted.make()

    def __call__(self, *args: Any) -> Any:
        """Runs the entry, on the captured call's own arguments if none are given."""
        return self.entry(self.function, *(args or self.args))

    @property
    def part(self) -> str:
        """The text after the guards."""
        lines = [line.removeprefix("    ") for line in self.text.splitlines()]
        titles = ("# graph", "# objects", "# stores", "# break")
        start = next(place for place, line in enumerate(lines) if line.startswith(titles))
        return "\n".join(lines[start:])


def outcome_text(call: Callable[[], Any]) -> str:
    """What a call gives or raises, with the chain of exceptions and the user's lines."""
    try:
        return f"gives {shown(call())}"
    except Exception as error:
        return f"raises {chain_text(error)}"


def chain_text(error: BaseException | None) -> str:
    if error is None:
        return "None"
    parts = f"{type(error).__name__}{error.args!r} from {chain_text(error.__cause__)}"
    return f"{parts} in {chain_text(error.__context__)}" if error.__context__ is not error else parts


def shown(value: Any) -> str:
    """A text that two values share if they are alike, tensors by their elements."""
    return re.sub(r" at 0x[0-9a-f]+", "", repr(value))


def stops_everywhere(
    function: FunctionType, make: Callable[[], tuple[Any, ...]], start: int = 0, stride: int = 1
) -> int:
    """Breaks a call before each of its instructions in turn; whatever runs then must do what eager does."""
    expected_args = make()
    expected = outcome_text(lambda: function(*expected_args))
    count = 0
    for step in range(start, 10_000, stride):
        args = make()
        try:
            segment = Segment(function, *args, stop_at=step)
        except Uncaught:
            break
        if segment.outcome.kind == "return":
            break
        found = outcome_text(segment)
        place = f"stopped at step {step}, before {segment.outcome.frame.instruction}\n{segment.text}"
        assert found == expected, f"{found}\nwhere eager {expected}\n{place}"
        assert shown(args) == shown(expected_args), f"{shown(args)} not {shown(expected_args)}\n{place}"
        count += 1
        if segment.broke:
            break
    return count
