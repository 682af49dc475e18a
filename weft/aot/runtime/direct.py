"""Direct runs: what a call of a compiled graph does, as data.

Takes a compiled function and the inputs of a call that it has served; gives a `Direct`, from which the call
can be done without this package, but for its end where something is recorded. One idea: a call without casts
is its forward graph, a version here and there, and nodes behind what it gives.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

from weft.aot.conditions import Conditions, Place
from weft.aot.facts import DETACH, Constant, Input, Number, Output, Value, ViewOf
from weft.aot.runtime.around import PLAIN_MODES
from weft.aot.runtime.compiled import SIZES_LIMIT, CompiledFunction
from weft.aot.runtime.effects import rebuilt
from weft.aot.runtime.plans import CompiledPlan, Pieces
from weft.aot.runtime.recorded import NodesOfCall, recorded
from weft.aot.sizes import has_sizes
from weft.core import modes
from weft.core.expressions import Expression, Symbol
from weft.core.logs import log
from weft.core.records import record
from weft.graph.node import READ_FROM
from weft.tensor.base import PLAIN
from weft.tensor.inplace import check_writable
from weft.tensor.tape import INFERENCE


@record(frozen=True, slots=True)
class OpenSizesOfCall:
    """What is open of a call, whose plan is of a template."""

    numbers: frozenset[int]
    """The inputs that are open whole numbers."""
    axes: dict[int, dict[int, Expression]]
    """The open axes of tensors, and what they follow from."""
    facts: list[tuple[Expression, bool]]
    """What has to hold of sizes."""
    places: dict[Symbol, Place]
    strides: list[tuple[Any, ...] | None]
    """How each value is to lie in memory, in symbols."""


@record(frozen=True, slots=True)
class Direct:
    """A call that is its forward graph."""

    forward: Any
    """What the compiler of the forward graph gave."""
    inputs: list[Any]
    outputs: list[tuple[str, Any, int]]
    """("value", its number, its version), ("input", its number, 0) or ("constant", the object, 0)."""
    written: list[tuple[int, int, int]]
    """Inputs that are written: number, the value that each holds at the end, how often its version grows."""
    strides: list[tuple[int, ...] | None]
    """How each value is to lie in memory; None where that does not matter."""
    values: int
    """How many of what the forward graph gives are values; the rest is kept for gradients."""
    conditions: Conditions
    """What has to hold of floats among the inputs."""
    open: frozenset[int]
    """The floats among the inputs that may be others as far as these hold."""
    calls: Any
    """An array of one number, which is to grow by one with each call."""
    finish: Callable[..., Any] | None = None
    """Where something is recorded, or views are given: makes the outputs from what the forward graph gives
    (`outputs` say what of it), the inputs and, if random numbers were drawn, where the default generator
    stood before; None where it cannot."""
    sizes: OpenSizesOfCall | None = None
    recorded: NodesOfCall | None = None
    """Where something is recorded, if its nodes can be made of parts (`finish` then is None)."""
    finish_open: Callable[..., Any] | None = None
    """The same for calls of other sizes."""
    is_closed: bool = False
    """Whether nothing of it depends on sizes or whole numbers that may be others in other calls."""


class NotDirect(Exception):
    """Why a call is more than its forward graph."""


def direct(function: Callable[..., Any], args: tuple[Any, ...]) -> Direct | Literal[False] | None:
    """The call as data, which has just been served; None where it is more than that, False where its inputs
    are no more what they were."""
    try:
        return _direct(function, args)
    except NotDirect as found:
        reason = str(found)
        log("entries", lambda: f"a graph is left to Python: {reason}")
        return None


def _direct(function: Callable[..., Any], args: tuple[Any, ...]) -> Direct | Literal[False]:
    mode = modes.state.get()
    if type(function) is not CompiledFunction:
        raise NotDirect(f"it is a {type(function).__name__}")
    if type(mode) is not bool:
        raise NotDirect("modes are active around it")
    plan = function.plan_there(args, PLAIN_MODES[mode])
    if plan is None and not function.natives:
        return False
    if type(plan) is Pieces:
        raise NotDirect(f"{_names_between(plan)} run as written, between compiled pieces")
    if type(plan) is not CompiledPlan:
        raise NotDirect(getattr(plan, "doubt", None) or "it runs as captured")
    if plan.casts:
        raise NotDirect("autocast keeps casts of its inputs")
    reason = plan.unwritable(args)
    if reason is not None:
        raise NotDirect(reason)
    names = [node.meta.get(READ_FROM, (node.name,))[0] for node in function.module.graph.placeholders]
    for name, value in zip(names, args):
        if not _is_plain(value):
            raise NotDirect(f"{name} is {_special(value)}")
    if plan.program.joint.stages:
        return _recorded(function, plan, args)
    facts = plan.facts
    if not _is_written_plainly(plan, args):
        raise NotDirect("it writes a view, or what gets a history")
    if any(made.inference for made in facts.values):
        raise NotDirect("it makes tensors of inference mode")
    outputs = _simple_outputs(plan)
    if outputs is None:
        return _rebuilt(function, plan, args)
    return _described(function, plan, args, outputs)


End = Callable[[CompiledPlan, tuple[Any, ...], tuple[Any, ...], Any], Any]
"""Makes the outputs of a call with a plan from results, inputs and random numbers."""


def _described(
    function: CompiledFunction,
    plan: CompiledPlan,
    args: tuple[Any, ...],
    outputs: list[tuple[str, Any, int]],
    end: End | None = None,
    nodes: NodesOfCall | None = None,
) -> Direct:
    facts, sizes = plan.facts, opened(plan)
    kept = len(plan.program.cut.forward.graph.output_node().args[0]) - len(facts.values)
    return Direct(
        forward=getattr(plan.program.forward, "function", None),
        inputs=list(args),
        outputs=outputs,
        written=[(written.input, written.value, written.times) for written in facts.written],
        strides=[*[made.strides for made in facts.values], *[None] * (kept if end or nodes else 0)],
        values=len(facts.values),
        conditions=plan.conditions,
        open=open_floats(plan, args),
        calls=function.builds.calls,
        finish=None if end is None else finishing(end, plan),
        sizes=sizes,
        recorded=nodes,
        finish_open=None if end is None or sizes is None else finishing_open(end, plan, sizes),
        is_closed=not has_sizes(function.module.graph),
    )


def finishing(end: End, plan: CompiledPlan) -> Callable[..., Any]:
    return lambda results, given, drawn=None: end(plan, results, given, drawn)


def finishing_open(end: End, plan: CompiledPlan, sizes: OpenSizesOfCall) -> Callable[..., Any]:
    """The same, with the plan of the template for the sizes of each call."""
    template, plans = plan.template, dict[tuple[int, ...], CompiledPlan]()
    assert template is not None
    places = {symbol: sizes.places[symbol] for symbol in template.compiled.sizes.sources}

    def finish(results: tuple[Any, ...], given: tuple[Any, ...], drawn: Any = None) -> Any:
        numbers = [
            given[place[0]].array.shape[place[1]] if isinstance(place, tuple) else given[place]
            for place in places.values()
        ]
        key = tuple(numbers)
        own = plans.get(key)
        if own is None:
            if len(plans) >= SIZES_LIMIT:
                plans.clear()
            own = plans[key] = template.plan(given, dict(zip(places, numbers)))
        return end(own, results, given, drawn)

    return finish


def _names_between(plan: Pieces) -> str:
    """The nodes that run as they are, and where they were written."""
    nodes = [node for part, made in zip(plan.parts, plan.functions) if made is None for node in part.nodes]
    return ", ".join([f"{node.name} ({node.told_source('{}:{} in {}', '')})" for node in nodes])


def _special(value: Any) -> str:
    if type(value) not in PLAIN:
        return f"of type {type(value).__name__}"
    return "a tensor of inference mode" if value.cell is INFERENCE else "a view that requires grad"


def _is_written_plainly(plan: CompiledPlan, args: tuple[Any, ...]) -> bool:
    """Whether inputs that are written get new elements and versions, and nothing else."""
    targets = [args[written.input] for written in plan.facts.written]
    if any(written.history for written in plan.facts.written):
        return False
    if any(target.origin is not None for target in targets):
        return False
    for target in targets:
        check_writable(target, False, False)
    return True


def _simple_outputs(plan: CompiledPlan) -> list[tuple[str, Any, int]] | None:
    """What a call gives as data; None where views are made, or a structure of its own."""
    facts = plan.facts
    if any(made.inference for made in facts.values):
        return None
    outputs: list[tuple[str, Any, int]] = []
    given = [plain_value(output) for output in facts.outputs]
    values = [output.index for output in given if isinstance(output, (Value, Number))]
    if len(set(values)) != len(values):
        return None
    for output in given:
        if isinstance(output, Value):
            outputs.append(("value", output.index, facts.values[output.index].version))
        elif isinstance(output, Number):
            outputs.append(("value", output.index, 0))
        elif isinstance(output, Input):
            outputs.append(("input", output.index, 0))
        elif isinstance(output, Constant):
            outputs.append(("constant", output.value, 0))
        else:
            return None
    marks = [object() for _ in outputs]
    return outputs if [*plan.program.joint.build(marks)] == marks else None


def opened(plan: CompiledPlan) -> OpenSizesOfCall | None:
    """What is open of calls with this plan; None where nothing is."""
    template, sizes = plan.template, plan.compiled.sizes
    if template is None or sizes is None:
        return None
    axes = {
        number: {axis: size.expression for axis, size in each.items()} for number, each in sizes.axes.items()
    }
    facts: list[tuple[Expression, bool]] = []
    places: dict[Symbol, Place] = dict(sizes.sources)
    for conditions in (template.conditions, plan.program.conditions):
        facts += [fact for fact in conditions.facts if all(one.kind is int for one in fact[0].symbols)]
        places |= conditions.places
    strides = [made.strides for made in template.program.joint.facts.values]
    return OpenSizesOfCall(frozenset(sizes.numbers), axes, facts, places, strides)


def _recorded(function: CompiledFunction, plan: CompiledPlan, args: tuple[Any, ...]) -> Direct:
    """A call that ends with nodes of the tape."""
    facts, program = plan.facts, plan.program
    if not _is_written_plainly(plan, args):
        raise NotDirect("it writes a view, or what gets a history")
    count = len(facts.values)
    kept = len(program.cut.forward.graph.output_node().args[0])

    def end(plan: CompiledPlan, results: tuple[Any, ...], given: tuple[Any, ...], drawn: Any) -> Any:
        if plan.program is not program:  # gradients were asked for that it does not keep enough for
            return None
        return plan.ended(given, list(results[:count]), list(results[count:]), drawn=drawn)

    outputs: list[tuple[str, Any, int]] = [("value", number, 0) for number in range(kept)]
    general = None if facts.written else _described(function, plan, args, outputs, end)
    given, ends = _simple_outputs(plan), {value for stage in program.joint.stages for value in stage.values}
    cut_off = any(isinstance(each, ViewOf) and each.base.index in ends for each in facts.outputs)
    writes = {written.value for written in facts.written}
    seen = {value for how, value, _ in given or () if how == "value"} | writes
    if given is None or cut_off or count != len(seen):
        return _left(general, "it gives views, a structure of its own, or what is cut off from its history")
    has_node = [type(value) in PLAIN and value.node is not None for value in args]
    made = recorded(plan, [plain_value(output) for output in facts.outputs], has_node, lambda: general, args)
    if made is None:
        return _left(general, "what its nodes keep is more than inputs and results")
    return _described(function, plan, args, given, nodes=made)


def _rebuilt(function: CompiledFunction, plan: CompiledPlan, args: tuple[Any, ...]) -> Direct:
    """A call that ends with views, or gives the same tensor twice."""
    facts = plan.facts
    bases = [output.base if isinstance(output, ViewOf) else output for output in facts.outputs]
    wanted = sorted({base.index for base in bases if isinstance(base, (Value, Number))})
    if {written.value for written in facts.written} & {*wanted}:
        raise NotDirect("it gives a view of what it writes")

    def end(plan: CompiledPlan, results: tuple[Any, ...], given: tuple[Any, ...], _drawn: Any) -> Any:
        values: list[Any] = [None] * len(facts.values)
        for number, value in zip(wanted, results, strict=True):
            values[number] = value
        return plan.program.joint.build(rebuilt(plan.facts, given, values))

    return _described(
        function, plan, args, [("value", number, facts.values[number].version) for number in wanted], end
    )


def _left(general: Direct | None, reason: str) -> Direct:
    """A call whose nodes Python makes; raises where it cannot, behind writes."""
    if general is None:
        raise NotDirect(reason)
    log("entries", lambda: f"the nodes of a graph are left to Python: {reason}")
    return general


def open_floats(plan: CompiledPlan, args: tuple[Any, ...]) -> frozenset[int]:
    """The floats that are no constants of a plan, whether its programs read them or not."""
    return frozenset([n for n, value in enumerate(args) if type(value) is float and n not in plan.fixed])


def plain_value(output: Output) -> Output:
    """An output; the value itself where it was only detached, since nothing else refers to it."""
    if isinstance(output, ViewOf) and isinstance(output.base, Value) and output.version is None:
        if not output.stale and not output.old and all(step.op == DETACH for step in output.steps):
            return output.base
    return output


def _is_plain(value: Any) -> bool:
    if type(value) in PLAIN:
        return (value.origin is None or not value.tracked) and value.cell is not INFERENCE
    return type(value) in (int, float, bool, type(None))
