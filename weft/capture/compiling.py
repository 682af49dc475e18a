"""Compiling: one call of a function to one entry.

Takes a function, the values of its parameters and a request; gives an `Entry`. One idea: capture decides how
far the segment goes, the emitter says which of its values leave it, the backend compiles the graph in
between.
"""

from __future__ import annotations

import platform
import types
from collections.abc import Callable
from functools import partial
from typing import Any

import weft.capture.bytecode.drafts as drafts
from weft.capture.binding import parameter_names
from weft.capture.bytecode.instructions import UnknownInstruction
from weft.capture.chaining import chained, open_sources
from weft.capture.checkpointing import check_spent, drop_idle_states
from weft.capture.counting import numbers_counted
from weft.capture.effects import early_numbers
from weft.capture.eligible import GENERATOR_LIKE
from weft.capture.emit import Emitted, emit, plan_outputs
from weft.capture.entry_cache.read import kept_entry, key_of
from weft.capture.entry_cache.write import Keep
from weft.capture.gradients import without_clones
from weft.capture.guards import Guard, GuardSet
from weft.capture.guards.rendering import guarded, render_guards
from weft.capture.kinds import unsupported
from weft.capture.lazy_modules import OutOfOrder
from weft.capture.machine import Machine
from weft.capture.outcome import EscapingException, Outcome, Unprepared
from weft.capture.reading import FUNCTION, MISS, Reader, local_name
from weft.capture.runtime import Entry, Request, count_ops
from weft.capture.session import Broken, Failed, capture, mutation_guards, release
from weft.capture.shortcut import shortcut
from weft.capture.sources import fetch
from weft.capture.sources import function as own_function
from weft.capture.transforms import is_transforming
from weft.core import modes
from weft.core.counters import count
from weft.core.interrupts import let_through
from weft.core.logs import is_heard, observers
from weft.core.progress import working
from weft.core.records import replace
from weft.core.settings import settings
from weft.core.slices import Differs, PresentCall, Steps, at_once
from weft.core.varying import VARYING
from weft.graph.graph import Graph
from weft.graph.node import READ_FROM
from weft.tensor.base import Tensor
from weft.trace.breaks import Break, NeedCalls, NeedOps
from weft.trace.module import GraphModule
from weft.trace.scalars import hint_of


def compile_frame(function: types.FunctionType, arguments: dict[str, Any], request: Request) -> Entry:
    """The entry that serves this call."""
    if function.__code__.co_flags & GENERATOR_LIKE:
        return _original(function, None, "generators and coroutines run as they are")
    if function_modes_active():
        guards = GuardSet()
        guards.add(Guard("AMBIENT", None, (function_modes_active, True)))
        return _guarded_original(function, guards, "a mode takes its calls over")
    if is_transforming():
        guards = GuardSet()
        guards.add(Guard("AMBIENT", None, (is_transforming, True)))
        return _guarded_original(function, guards, "it is called inside a transform")
    factory, key = request.context.entry_factory(), None
    if factory is not None and may_be_kept(request):
        surroundings = factory.surroundings()
        key = None if surroundings is None else key_of(function, arguments, request, surroundings)
    if key is not None:
        make = partial(_kept, factory, function, arguments)
        found: Entry | None = kept_entry(factory, key, function, arguments, make)
        if found is not None:
            return found
    return _captured(function, arguments, request, partial(_keeping, factory, key) if key else None)


def may_be_kept(request: Request) -> bool:
    """Whether the entry may be read from disk: no observer, setting or log topic wants to see the capture."""
    watched = settings.verify or observers or request.context.on_entry or is_heard("graph")
    return request.kept and not watched


def _captured(
    function: types.FunctionType, arguments: dict[str, Any], request: Request, keep: Keeping | None
) -> Entry:
    machines: list[Machine] = []
    prepared: list[Callable[[], None]] = []
    again: list[Any] = []
    try:
        with working(f"compiling {function.__qualname__}"):
            entry = _compile(function, arguments, request, machines, prepared, again, keep)
        prepared.clear()  # the guards count on it, and the original comes to it as well
        return entry
    finally:
        for undo in reversed(prepared):
            undo()
        for machine in machines:
            release(machine)


def _compile(
    function: types.FunctionType,
    arguments: dict[str, Any],
    request: Request,
    machines: list[Machine],
    prepared: list[Callable[[], None]],
    again: list[Any],
    keep: Keeping | None,
) -> Entry:
    if drafts.VERSION not in drafts.KNOWN:
        return _original(function, None, unknown_python())
    stop_at: int | None = None
    stop: Break | None = None
    names = function.__code__.co_names
    by_ops = "backward" in names or ("autograd" in names and "grad" in names)  # else found out on the way
    by_calls = False
    volatile = request.volatile
    while True:
        try:
            found = capture(
                function,
                arguments,
                volatile,
                request.dynamic,
                stop_at,
                machines,
                by_ops,
                by_calls,
            )
        except UnknownInstruction as error:
            return _original(function, None, str(error))
        except Unprepared as unprepared:
            if not _prepared(unprepared.prepare, prepared):
                return _original(function, None, "its preparation (a lazy module, optimizer state) raises")
            again.append(unprepared.again)
            continue
        if isinstance(found, Failed):
            return _original(function, found, f"it raises {type(found.error).__name__}")
        if isinstance(found, Broken):
            if isinstance(found.stop, NeedOps) and not by_ops and not by_calls:
                by_ops = True
                continue
            if request.fullgraph:
                if isinstance(found.stop, OutOfOrder) and _prepared(found.stop.prepare, prepared):
                    again.append(None)
                    continue
                raise _refusal(found)
            stop, stop_at = found.stop.with_traceback(None), found.step  # which would hold all frames
            continue
        varying = numbers_counted(found) if request.dynamic is None else frozenset()
        if not varying <= volatile:
            volatile |= varying
            continue
        found.stop = stop
        try:
            return _entry(function, arguments, found, request, keep and partial(keep, again))
        except EscapingException as escaping:
            earlier = max(escaping.step - 1, 0)
            stop = Break("exception-escapes")
            if stop_at is not None and earlier >= stop_at:
                return _original(function, found, "an exception raised by captured code escapes")
            stop_at = earlier
        except Break as refused:
            if isinstance(refused, NeedCalls) and not by_calls:
                by_ops, by_calls = False, True
                continue
            if request.fullgraph:
                raise _refusal(Broken(refused, 0, found.frame)) from None
            earlier = found.world.made_at.get(id(refused.culprit), 0) - 1
            if earlier < 0 or (stop_at is not None and earlier >= stop_at):
                return _original(function, found, str(refused))
            stop, stop_at = refused.with_traceback(None), earlier
            refused.culprit = None


def _prepared(prepare: Callable[[], Callable[[], None]], undone: list[Callable[[], None]]) -> bool:
    """Does what has to be done before the call is captured; says whether that went well."""
    try:
        undone.append(prepare())
    except Exception as error:  # the original comes to it as well, at the right place
        let_through(error)
        return False
    return True


def _entry(
    function: types.FunctionType, arguments: dict[str, Any], outcome: Outcome, request: Request, keep: Any
) -> Entry:
    """Finishes the graph, has it compiled, and generates the entry around it."""
    mutation_guards(outcome.world, outcome.recorder.graph.nodes, outcome.inputs)
    outcome.world.guard("CODE", own_function(), function.__code__)
    graph: Graph = outcome.recorder.graph
    outputs = without_clones(outcome.recorder, plan_outputs(outcome))
    check_spent(outcome, outputs)
    drop_idle_states(graph)
    early_numbers(outcome)
    with_calls = count_ops(graph) > 0
    if not with_calls and outcome.kind == "return":
        return _original(function, outcome, "no tensor is computed")
    outcome.recorder.finish()
    graph.output(tuple(outputs))
    graph.placeholders_first()
    if request.varying is not None:
        graph.meta[VARYING] = request.varying
    module = GraphModule(outcome.recorder.constants, graph, lazily=True)
    module.materialise(request.context.backend)
    for item in outcome.inputs:
        if not isinstance(item.known.value, Tensor):
            item.node.meta[READ_FROM] = str(item.known.source), place_of(function.__code__)
    inputs = [_example(item, function, arguments) for item in outcome.inputs]
    compiled = request.backend(module, inputs) if with_calls else None
    emitted = emit(outcome, graph_callable=compiled, runtime=request.context)
    kept = keep(emitted) if keep is not None and emitted.recipe is not None else None
    make_native_entry = partial(_make_native_entry, emitted, kept) if emitted.recipe is not None else None
    return Entry(
        call=emitted.make(),
        guards=outcome.world.guards,
        graph_module=module if with_calls else None,
        text=emitted.text,
        stop=outcome.stop,
        where=outcome.frame.place() if outcome.stop is not None else None,
        positions=outcome.frame.instruction.positions,
        setbacks=emitted.setbacks,
        check=partial(_check_of, function.__code__, outcome.world.guards),
        make_native_entry=make_native_entry,
        noted=None if kept is None else partial(_note, kept),
    )


def place_of(code: types.CodeType) -> str:
    """A function, and where it stands, as warnings say it."""
    return f"{code.co_qualname} ({code.co_filename}:{code.co_firstlineno})"


# -- entries on disk -----------------------------------------------------------------------------------------
Keeping = Callable[[list[Any], Emitted], "Keep | None"]


def _keeping(factory: Any, key: str, prepared: list[Any], emitted: Emitted) -> Keep | None:
    """What keeps an entry for other processes."""
    if None in prepared or emitted.recipe is None:
        return None
    return Keep(factory, key, emitted.recipe, emitted.namespace, list(prepared))


def _note(keep: Keep, function: Any, values: Any) -> None:
    names = parameter_names(keep.recipe.code)
    given = dict(zip(names, values, strict=True))
    try:
        inputs = [fetch(source, function, given) for source in keep.recipe.inputs]
    except Exception as error:  # the call has changed what it was given
        let_through(error)
        return
    keep.note(function, inputs)


def _kept(
    factory: Any, function: Any, arguments: dict[str, Any], recipe: Any, direct: Any, namespace: Any
) -> Entry | None:
    """The entry of what another process has captured."""
    given = PresentCall(function, arguments)
    try:
        found = at_once(shortcut(recipe, factory, _check_of, _missing, given, direct))
    except Differs:
        return None
    if found is None:
        return None
    count("built", "native entries")
    text, names, _kind = found
    parameters = tuple(map(local_name, parameter_names(recipe.code)))
    call = Emitted(text, namespace | names, parameters, [], recipe.code).make()
    return Entry(call=call, guards=recipe.guards, text=text, kept=True)


def _missing(*_values: Any) -> Any:
    """Stands behind a shortcut that has no entry."""
    return MISS


# -- shortcuts -----------------------------------------------------------------------------------------------


def _make_native_entry(
    emitted: Emitted, keep: Keep | None, factory: Any, slow: Any, call: PresentCall
) -> Steps[tuple[Any, str] | None]:
    """A shortcut to an entry that has just served the call, and for which calls it is; None where there is
    none."""
    recipe = emitted.recipe
    assert recipe is not None
    if keep is not None:
        yield from keep.writing()
    while not factory.is_ready():
        yield True

    def make(behind: Any, call: PresentCall) -> Steps[tuple[Any, str] | None]:
        found = yield from shortcut(recipe, factory, _check_of, behind, call)
        if found is None:
            return None
        count("built", "native entries")
        text, names, kind = found
        return replace(emitted, text=text, namespace=emitted.namespace | names).make(), kind

    return (yield from chained(make, open_sources(recipe), parameter_names(recipe.code), slow, call))


def _check_of(code: types.CodeType, guards: GuardSet) -> Callable[..., Any]:
    return emit_guards(code, guards).make()


def _example(item: Any, function: Any, arguments: dict[str, Any]) -> Any:
    """What a placeholder receives in this call."""
    return hint_of(fetch(item.known.source, function, arguments))


def _refusal(broken: Broken) -> BaseException:
    frame = broken.frame
    return unsupported(broken.stop, *frame.place(), frame.instruction.positions)


def unknown_python() -> str:
    """Why nothing is compiled on a Python whose bytecode is new."""
    known = ", ".join(f"{major}.{minor}" for major, minor in sorted(drafts.KNOWN))
    here = platform.python_version()
    return f"Weft reads the bytecode of Python {known}; on {here} functions run as written"


def _original(function: types.FunctionType, found: Any, reason: str) -> Entry:
    """An entry that runs the function as it is, where the guards of what was captured hold."""
    if found is None:
        return Entry(call=lambda *_values: None, reason=reason)
    world = found.machine.world if isinstance(found, Failed) else found.world
    return _guarded_original(function, world.guards, reason, raises=isinstance(found, Failed))


def _guarded_original(
    function: types.FunctionType, guards: GuardSet, reason: str, raises: bool = False
) -> Entry:
    emitted = emit_guards(function.__code__, guards)
    return Entry(call=emitted.make(), guards=guards, text=emitted.text, reason=reason, raises=raises)


def function_modes_active() -> bool:
    """Whether a mode of the user's sees every call: it must see them as they happen."""
    state = modes.current()
    return type(state) is not bool and bool(state.functions or state.dispatch)


def emit_guards(code: types.CodeType, guards: Any) -> Emitted:
    """A function that only says whether the guards hold."""
    lines: list[str] = []
    namespace: dict[str, Any] = {}
    names = parameter_names(code)
    reader = Reader(lines, namespace, names)
    render_guards(guards, reader)
    parameters = tuple(map(local_name, names))
    body = guarded(reader) or ["pass"]
    head = f"def entry({', '.join([FUNCTION, *parameters])}):"
    text = "\n".join([head, *(f"    {line}" for line in body)]) + "\n"
    return Emitted(text, namespace, parameters, [], code)
