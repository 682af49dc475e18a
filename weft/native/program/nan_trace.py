"""NaN tracing: which op first produces NaN or an infinity.

Takes a graph; gives programs that run step by step and warn, in each call, of the first op that makes NaN or
an infinity from operands that have none, with the user's line. One idea: the operands of each step are
checked before it and its results after it. A step that is at fault may do several ops, so the graph is then
run op by op on the same inputs, and each op is checked likewise; where that gives no such op (it is rounded
otherwise), the step is named.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import numpy as np

from weft.core import modes
from weft.core.interrupts import let_through
from weft.core.records import record
from weft.core.warn import warn
from weft.graph.effects import effect
from weft.graph.graph import Graph
from weft.graph.interpreter import run
from weft.graph.node import Node
from weft.native.backend import Compiled
from weft.native.cpu.runner import Runner
from weft.native.cpu.target import Cpu
from weft.native.program.stepping import Shown, Stepping
from weft.native.target import Running

REMEDY: Final = "WEFT_DEBUG=step prints each op of a call with its operands"


@record(frozen=True, slots=True)
class Fault:
    """A step that gave NaN though it read none, or an infinity though all that it read was finite."""

    step: Shown
    kind: str

    def __str__(self) -> str:
        return f"{self.kind} comes from {self.step}"


def has_nan(values: Sequence[Any]) -> bool:
    return any(np.isnan(value).any() for value in values if _may_fail(value))


def has_infinity(values: Sequence[Any]) -> bool:
    return any(np.isinf(value).any() for value in values if _may_fail(value))


def _may_fail(value: Any) -> bool:
    return isinstance(value, np.ndarray) and value.dtype.kind in "fc"


def faults(stepping: Stepping) -> list[Fault]:
    """Runs all steps; gives the first that makes a NaN, and the first that makes an infinity."""
    found: dict[str, Fault] = {}
    while stepping.number < stepping.program.count:
        reads = stepping.upcoming()
        nan, infinity = has_nan(reads), has_infinity(reads)
        step = stepping.step()
        if not nan and has_nan(step.writes):
            found.setdefault("NaN", Fault(step, "NaN"))
        if not nan and not infinity and has_infinity(step.writes):
            found.setdefault("infinity", Fault(step, "an infinity"))
    return list(found.values())


# -- the op at fault -----------------------------------------------------------------------------------------
class _Unknown:
    """What would be drawn, written or made of that: the op is not run a second time."""


UNKNOWN: Final = _Unknown()


class _Found(Exception):
    """The first op at fault."""

    def __init__(self, node: Node) -> None:
        self.node = node


def origin(graph: Graph, inputs: Sequence[Any], kind: str) -> Node | None:
    """The first op of the graph that makes a NaN, or an infinity, of operands that have none."""

    def call(node: Node, function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        operands = list(arrays_in((args, tuple(kwargs.values()))))
        if not effect(node).pure or any(each is UNKNOWN for each in operands):
            return UNKNOWN
        before = has_nan(operands) or (kind != "NaN" and has_infinity(operands))
        result = function(*args, **kwargs)
        made = list(arrays_in(result))
        if not before and (has_nan(made) if kind == "NaN" else has_infinity(made)):
            raise _Found(node)
        return result

    try:
        with modes.within(grad=False):
            run(graph, inputs, call)
    except _Found as found:
        return found.node
    except Exception as error:  # an op that refuses what it is given op by op: the step is named
        let_through(error)
    return None


def arrays_in(value: Any) -> Iterator[Any]:
    """The arrays of the tensors in nested sequences; numbers and the like as they are."""
    if isinstance(value, (tuple, list)):
        for each in value:
            yield from arrays_in(each)
    else:
        yield getattr(value, "array", value)


def described(node: Node, kind: str) -> str:
    """Which op makes such numbers, and where the user wrote it."""
    source = node.meta.get("source")
    place = f" ({source[0]}:{source[1]} in {source[2]})" if source else ""
    name = getattr(node.target, "__name__", str(node.target))
    return f"{kind} comes from {name}{place}; {REMEDY}"


class Traced(Runner):
    """A program that reports the first step producing NaN or an infinity."""

    looks = False
    faults: Sequence[Fault] = ()
    """Of the latest call."""

    def make_frame(self) -> Any:
        """There is no way around `__call__`."""
        return None

    def __call__(self, inputs: Sequence[Any]) -> list[Any]:
        stepping = Stepping(self, inputs)
        self.faults = faults(stepping)
        return stepping.results()


class Tracing(Compiled):
    """A graph whose programs are all traced."""

    faults: Sequence[Fault] = ()
    """Of the latest call."""

    def __call__(self, *inputs: Any) -> tuple[Any, ...]:
        graph, before = self.graph_module.graph, list(inputs)
        for number, _output in graph.meta.get("written", ()):
            before[number] = self.layout.wrap(self.layout.array(inputs[number]).copy())
        self.faults = []
        results = super().__call__(*inputs)
        for fault in self.faults:
            node = origin(graph, before, fault.kind)
            warn(described(node, fault.kind) if node is not None else f"{fault}; {REMEDY}", "RuntimeWarning")
        return results

    def results(self, program: Running, inputs: tuple[Any, ...], values: list[Any]) -> tuple[Any, ...]:
        if isinstance(program, Traced):
            self.faults = program.faults
        return super().results(program, inputs, values)


traced: Final = Cpu(Traced)
