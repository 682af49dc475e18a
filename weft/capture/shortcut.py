"""Shortcuts: entries whose guards, and where that can be the graph too, run as one native function.

Takes what an entry was made from, and a call that it has just served; gives another function that does the
same, or None. One idea: the shortcut may miss whenever it likes, since the entry itself stands behind it: so
only what is common, and can be checked without running any Python, is checked natively.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import field
from time import perf_counter
from typing import Any

from weft.capture.binding import parameter_names
from weft.capture.checking import Checks, EntryFactory, Operands, Unreadable
from weft.capture.fronts import uncounted
from weft.capture.guards import Condition, Guard, GuardSet
from weft.capture.reading import FUNCTION, MISS, Reader, local_name
from weft.capture.sources import Source, fetch, safe_length, written_in_c
from weft.core.expressions import Expression
from weft.core.interrupts import let_through
from weft.core.logs import log
from weft.core.records import record
from weft.core.slices import Differs, PresentCall, Steps, at_once

NATIVE, SLOW, FINISH, LENGTH = "_v_shortcut", "_v_slow", "_v_finish", "_v_length"
FOUND, MADE, NEVER = "_v_found", "_v_made", "_v_never"
ANY, ALONE, OPEN = "all calls", "calls of these sizes", "calls of sizes that a program serves"
EARLY = "all calls, but one that is made at the beginning of a call may do more"
"""For which calls a shortcut is."""


@record(slots=True)
class ShortcutRecipe:
    """What an entry was made from, as far as a shortcut needs it."""

    code: types.CodeType
    guards: GuardSet
    lines: list[str]
    """Everything behind the guards."""
    read: dict[str, Source]
    """Variables that these use, and what guards have read into them."""
    inputs: list[Source]
    outputs: list[str]
    """The variables in which the graph's results are expected."""
    ending: list[str] | None
    """Everything behind the graph; None where the graph must be seen to run."""
    read_behind: dict[str, Source]
    graph: Any
    let_go: list[Source] = field(default_factory=list)
    """The tensors whose gradients go before the graph runs; others go when new ones are stored."""


# -- when ----------------------------------------------------------------------------------------------------
CALLS_BEFORE_NATIVE_ENTRY = 2
"""So often an entry has served a call before a shortcut to it is made."""


def after_calls(step: Callable[..., Any], then: Callable[[Any, Any, float], None]) -> Callable[..., Any]:
    """The entry; `then` is told the function and the values of each call that it has served, and how many
    seconds that took."""

    @uncounted
    def run(function: Any, *values: Any) -> Any:
        began = perf_counter()
        result = step(function, *values)
        if result is not MISS:
            then(function, values, perf_counter() - began)
        return result

    return run


def before_calls(
    step: Callable[..., Any], holds: Callable[..., Any], make: Callable[[Any, Any], Any]
) -> Callable[..., tuple[Any, Any]]:
    """For calls that change what guards read (they take gradients away, say): a function that gives the
    result of a call and what is to run from then on, made at the beginning of a call that fits; None as long
    as there was none."""

    @uncounted
    def run(function: Any, *values: Any) -> tuple[Any, Any]:
        if holds(function, *values) is MISS:
            return MISS, None
        quick, _kind = make(function, values) or (step, ANY)
        return step(function, *values), quick

    return run


# -- shortcuts -----------------------------------------------------------------------------------------------
Made = tuple[str, dict[str, Any], str]
Python = Callable[[types.CodeType, GuardSet], Callable[..., Any]]
"""Makes a Python function of guards."""


def shortcut(
    recipe: ShortcutRecipe,
    factory: EntryFactory,
    python: Python,
    slow: Any,
    call: PresentCall,
    direct: Any = None,
) -> Steps[Made | None]:
    """The text of an entry's shortcut, what it needs beside the entry's own names, and for which calls it is;
    None where there is none. The entry, which is to stand behind it, has just served the call, and each one
    behind which this goes on, or `direct` says how it is run. Raises `Differs` where they differ.
    """
    if direct is not None:
        checks = Checks(factory, call)
        run = AskedRun(recipe, checks, direct, _arrays(recipe, checks))
        left = yield from settling(checks, recipe.guards)
        return (yield from _text(recipe, checks, left, run, python, slow))
    arrays = _arrays(recipe, Checks(factory, call)) if call.stays else None
    direct = _direct(recipe, factory, call)
    is_early = direct is False
    if direct:
        direct = factory.opened(direct)  # no rest in between: inputs are in it
        if direct is not None:
            run = AskedRun(recipe, Checks(factory, call, sized=False), direct, arrays)
            direct = None
            yield
            made = yield from _opened(recipe, run, python, slow)
            if made is not None:
                return made
        try:
            return _closed(recipe, Checks(factory, call), python, slow)
        except Gone:
            is_early = True
    checks = Checks(factory, call, sized=False)
    left = yield from settling(checks, recipe.guards)
    made = yield from _text(recipe, checks, left, None, python, slow)
    return (*made[:2], EARLY) if made is not None and is_early else made


def _opened(recipe: ShortcutRecipe, run: AskedRun, python: Python, slow: Any) -> Steps[Made | None]:
    """The shortcut that runs the program for all sizes that it serves; None where it is for these alone."""
    left = yield from settling(run.checks, [*recipe.guards, *run.guards])
    try:
        return (yield from _text(recipe, run.checks, left, run, python, slow))
    except (Unreadable, TypeError) as error:
        let_through(error)
        return None


def _closed(recipe: ShortcutRecipe, checks: Checks, python: Python, slow: Any) -> Made | None:
    """The shortcut for these sizes alone, which are asked for again and again: it is made in one piece."""
    arrays = _arrays(recipe, checks)
    left = settle(checks, recipe.guards)
    direct = _direct(recipe, checks.factory, checks.call)
    if direct is None:
        raise Differs
    if direct is False:
        raise Gone
    try:
        _operands(recipe, checks)
    except Unreadable:
        raise Gone from None
    run = AskedRun(recipe, checks, direct, arrays)
    left += settle(checks, run.guards)
    return at_once(_text(recipe, checks, left, run, python, slow))


class Gone(Exception):
    """The inputs of a graph cannot be read behind the call."""


class AskedRun:
    """How the graph runs natively. Without `arrays`, those of its inputs, it is asked once more behind a
    later call, and then must be as it was: meanwhile none of the inputs is held."""

    def __init__(
        self, recipe: ShortcutRecipe, checks: Checks, direct: Any, arrays: dict[Source, Any] | None = None
    ) -> None:
        self.recipe, self.checks, self.arrays = recipe, checks, arrays
        self.direct = None if arrays is None else direct
        self.facts = checks.factory.conditions(direct)
        self.guards = conditions_of(self.facts, recipe)
        self.ends = checks.factory.finish(direct) is not None
        """Whether something is left to do behind it."""
        self.finish: Any = None

    def look(self) -> Any:
        """What the factory says of it, for the present call."""
        factory = self.checks.factory
        if self.arrays is None:
            self.arrays = _arrays(self.recipe, self.checks)
            direct = _direct(self.recipe, factory, self.checks.call)
            self.direct = factory.opened(direct) if direct else None
            if self.direct is None or factory.conditions(self.direct) != self.facts:
                raise Differs
        self.finish = factory.finish(self.direct)
        if self.ends is not (self.finish is not None):
            raise Differs
        return self.direct

    def check(self) -> None:
        """Raises `Differs` where inputs are not as checks say: another thread may give a tensor other data
        meanwhile, and the program would run on what it is not for."""
        before, now, checks = self.arrays or {}, _arrays(self.recipe, self.checks), self.checks
        self.arrays = self.direct = None
        if before.keys() != now.keys() or not all(
            array is now[source]
            and (array is None or source not in checks.arrays or checks.says(source, array))
            for source, array in before.items()
        ):
            raise Differs


def _text(
    recipe: ShortcutRecipe, checks: Checks, left: list[Guard], run: AskedRun | None, python: Python, slow: Any
) -> Steps[Made | None]:
    factory, names = checks.factory, parameter_names(recipe.code)
    kind = ANY if run is None else ALONE if checks.sized else OPEN
    operands = [] if run is None else _operands(recipe, checks)
    ends = run is not None and run.ends
    read = recipe.read if run is None else recipe.read_behind
    try:
        wanted = [checks.read(_held(source)) for source in read.values()]
        drops = [] if run is None else [checks.plain_tensor(source) for source in recipe.let_go]
    except Unreadable:
        return None
    given_back = _objects(recipe, checks, operands) if ends else []
    wanted += [value for value, _text in given_back]
    rest = python(recipe.code, with_types(left, checks)) if left else None
    checks.done.sort(key=lambda check: (not tells_argument(check), check.op != "call_is"))
    yield
    making = factory.making((FUNCTION, *names), checks.done, rest, wanted, run, operands, drops)
    native = yield from making
    given = ", ".join([FUNCTION, *map(local_name, names)])
    lines = [f"{FOUND} = {NATIVE}({given})", f"if {FOUND} is {MISS!r}: return {SLOW}({given})"]
    lines.append(f"if {FOUND} is {NEVER}: return {MISS!r}")
    if ends:
        start, end = (-count or None for count in (len(wanted), len(operands)))  # 0 is none from behind
        results, behind = f"{FOUND}[:{start}]", range(-len(operands), 0)
        each = [text.format(f"{FOUND}[{place}]") for place, (_, text) in zip(behind, given_back, strict=True)]
        is_simple = all(text == "{}" for _, text in given_back)
        inputs = f"{FOUND}[{end}:]" if is_simple and end else f"({', '.join([*each, ''])})"
        lines += [f"{MADE} = {FINISH}({results}, {inputs})", f"if {MADE} is None: return {SLOW}({given})"]
        lines += [f"[{', '.join(recipe.outputs)}] = {MADE}"] if recipe.outputs else []
        part = f"{FOUND}[{start}:{end}]"
        lines += [f"[{', '.join(read)}] = {part}"] if read else []
        lines.append(f"del {FOUND}, {MADE}")
    else:
        variables = [*(recipe.outputs if run is not None else ()), *read]
        lines += [f"[{', '.join(variables)}] = {FOUND}", f"del {FOUND}"] if variables else []
    lengths = {name: source.parent for name, source in read.items() if _held(source) is not source}
    lines += [f"{name} = {LENGTH}({name})" for name in lengths]
    in_c = all(written_in_c(checks.types[parent]) for parent in lengths.values() if parent is not None)
    lines += recipe.lines if run is None else recipe.ending or []
    text = "\n".join([f"def entry({given}):", *("    " + line for line in lines)]) + "\n"
    names_used = {
        NATIVE: native,
        SLOW: slow,
        NEVER: factory.never,
        FINISH: None if run is None else run.finish,
        LENGTH: len if in_c else safe_length,
        repr(MISS): MISS,
    }
    return text, names_used, kind


def _objects(recipe: ShortcutRecipe, checks: Checks, operands: Operands) -> list[tuple[Expression, str]]:
    """What is to be handed on so that the graph's inputs are known behind it, and how each is made of that:
    open sizes are numbers in machine code, and no objects."""
    found = []
    for source, (value, _array) in zip(recipe.inputs, operands, strict=True):
        if value.kind is not int:
            found.append((value, "{}"))
        elif source.kind == "size" and source.parent is not None:
            found.append((checks.read(source.parent), f"{{}}.array.shape[{source.detail}]"))
        else:
            found.append((checks.read(_held(source)), "{}" if _held(source) is source else f"{LENGTH}({{}})"))
    return found


def _held(source: Source) -> Source:
    """What is read for a source: of lengths, which are no objects, the container."""
    return source.parent if source.kind == "length" and source.parent is not None else source


def settle(checks: Checks, guards: Iterable[Guard]) -> list[Guard]:
    """Puts guards among the checks; gives those that cannot be."""
    return at_once(settling(checks, guards))


def settling(checks: Checks, guards: Iterable[Guard]) -> Steps[list[Guard]]:
    """The same, in slices."""
    for guard in guards:
        if guard.source is not None and guard.tells_type:
            checks.typing.setdefault(guard.source, []).append(guard)
    left = []
    for guard in sorted(guards, key=lambda guard: guard.turn()):
        yield
        try:
            if guard.source is not None:
                checks.walk_to(guard.source)
            checks.guard(guard)
        except (Unreadable, ReferenceError, LookupError, AttributeError, TypeError) as error:
            let_through(error)
            left.append(guard)
    return left


def tells_argument(check: Expression) -> bool:
    """Whether a check compares an argument with an object, by which entries often differ."""
    return check.op == "is_object" and bool(check.args[0].op == "symbol")


def with_types(left: list[Guard], checks: Checks) -> GuardSet:
    """The guards, behind those that say of what type things are on the way to what they read."""
    found = GuardSet()
    for guard in left:
        for place in [step for source in guard.sources() for step in source.path()]:
            found.update(checks.typing.get(place, ()))
        found.add(guard)
    return found


def conditions_of(facts: list[tuple[Any, bool, dict[Any, int]]], recipe: ShortcutRecipe) -> list[Guard]:
    """What the program relies upon beside the guards of the entry, which asks for it in each call."""
    found = []
    for expression, truth, places in facts:
        sources = tuple([(symbol, recipe.inputs[place]) for symbol, place in places.items()])
        found.append(Guard("CONDITION", sources[0][1], Condition(expression, truth, sources)))
    return found


def _operands(recipe: ShortcutRecipe, checks: Checks) -> Operands:
    return [(checks.operand(source), checks.arrays.get(source)) for source in recipe.inputs]


def _direct(recipe: ShortcutRecipe, factory: EntryFactory, call: PresentCall) -> Any:
    """How the graph runs natively; None where it does not, False where its inputs are gone."""
    if recipe.ending is None or recipe.graph is None:
        name = recipe.code.co_qualname
        log("entries", lambda: f"{name} is left to Python behind its guards: its graph may fail half way, or "
            "changes modes")  # fmt: skip
        return None
    try:
        inputs = [fetch(source, call.function, call.arguments) for source in recipe.inputs]
    except Exception as error:  # the call has changed what it was given
        let_through(error)
        return False
    return factory.direct(recipe.graph, inputs)


def _arrays(recipe: ShortcutRecipe, checks: Checks) -> dict[Source, Any]:
    """The arrays of the graph's inputs."""
    found: dict[Source, Any] = {}
    for source in recipe.inputs:
        with suppress(Unreadable):
            found[source] = getattr(checks.value(source), "array", None)
    return found


def variables_read(reader: Reader, names: Iterable[str]) -> dict[str, Source] | None:
    """What guards have read into these variables; None where that is no source's value."""
    sources = {name: source for source, name in reader.names.items()}
    return {name: sources[name] for name in names} if all(name in sources for name in names) else None
