"""Planning: from a graph to the steps of its program.

Takes a graph, the arrays of a first call and a target; gives what the program gives, its steps in order, and
the inputs in whose memory values lie. One idea: all of it is decided before there is code.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from weft.core.records import record
from weft.native.ir.definitions import Definition, Given
from weft.native.lower.lowering import Lowering
from weft.native.lower.numbers import any_of
from weft.native.lower.opening import Opened
from weft.native.plan.accumulate_products import AccumulateProducts
from weft.native.plan.fuse import Plan, fused
from weft.native.plan.fuse_epilogue import FuseEpilogues
from weft.native.plan.order import ordered, wished
from weft.native.plan.rewrite import Definitions, Rule
from weft.native.plan.transpose_products import TransposeProducts
from weft.native.target import Target

WRITTEN: Final = "written"
"""Where a graph says which of its inputs the program may write: numbers of inputs and of outputs."""
TOGETHER: Final = 4
"""How many failures a kernel looks at."""
RULES: Final[tuple[type[Rule], ...]] = (TransposeProducts, AccumulateProducts, FuseEpilogues)
"""What is done to the definitions of a program, in this order, whatever its target."""


@record(frozen=True, slots=True)
class Planned:
    """A graph as steps."""

    outputs: list[Any]
    """What it gives: definitions, and numbers and None as they are."""
    plan: Plan
    homes: dict[int, Given]
    """The inputs in whose memory values lie, by the `id` of these."""


def planned(
    graph_module: Any, arrays: Sequence[Any], target: Target, opened: Opened | None = None
) -> Planned:
    """The steps of a graph, for a target."""
    graph = graph_module.graph if opened is None else opened.graph
    lowering = Lowering(graph, arrays, target, opened)
    lowered = lowering.run(lambda path: _attribute(graph_module, path))
    definitions = Definitions(lowered.outputs, [*lowered.checks, *lowered.failures])
    definitions.apply_all(RULES)
    given = [lowering.values[node] for node in lowered.inputs]
    pairs = graph_module.graph.meta.get(WRITTEN, ())
    outputs, written = wished(definitions.outputs, given, pairs)
    wanted = [value for value in outputs if isinstance(value, Definition)]
    Definitions(wanted).apply_all(target.rules)
    plan = fused([*wanted, *lowered.checks, *checks_of(lowered.failures, target)])
    found = ordered(plan.steps, list(written.values()))
    plan.steps = found.steps
    plan.draws = lowered.draws
    plan.sizes = None if opened is None else opened.sizes
    plan.reasons += found.reasons
    for number, (_, place) in written.items():
        outputs[number] = place
    return Planned(outputs, plan, found.homes)


def checks_of(failures: list[Definition], target: Target) -> list[Definition]:
    """The step that checks that nothing has failed, and what it needs: some failures at a time, since those
    of equal computations have equal kernels then."""
    wanted: list[Definition] = []
    while len(failures) > 1:
        failures = [any_of(failures[place : place + TOGETHER]) for place in range(0, len(failures), TOGETHER)]
        wanted += failures
    return [*wanted, *map(target.check, failures)]


def _attribute(owner: Any, path: str) -> Any:
    for part in path.split("."):
        owner = getattr(owner, part)
    return getattr(owner, "array", owner)
