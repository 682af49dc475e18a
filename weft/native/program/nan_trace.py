"""NaN tracing: which step first produces NaN or an infinity.

Takes a graph; gives programs that run step by step and warn, in each call, of the first step that makes NaN
or an infinity from operands that have none, with the user's lines. One idea: the operands of each step are
checked before it and its results after it, so the step that is named is the one at fault.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from weft.core.records import record
from weft.native.backend import Compiled, told
from weft.native.lower.lowering import Lowering
from weft.native.program.executable import Executable, planned
from weft.native.program.program import Program
from weft.native.program.stepping import Shown, Stepping


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


class Traced(Executable):
    """A program that reports the first step producing NaN or an infinity."""

    looks = False

    def make_frame(self) -> Any:
        """There is no way around `__call__`."""
        return None

    def __call__(self, inputs: Sequence[Any]) -> list[Any]:
        stepping = Stepping(self, inputs)
        for fault in faults(stepping):
            warnings.warn(str(fault), RuntimeWarning, stacklevel=2)
        return stepping.results()


class Tracing(Compiled):
    """A graph whose programs are all traced."""

    opens = False

    def made(self, arrays: list[Any]) -> Program:
        module = self.module_for(arrays)
        outputs, plan, homes = planned(Lowering(module.graph, arrays), module)
        return told(Traced(outputs, plan, arrays, homes), arrays, self.graph_module)
