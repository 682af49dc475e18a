"""Shortcuts: entries whose guards, and where that can be the graph too, run as one native function.

Takes what an entry was made from, and a call that it has just served; gives another function that does the
same, or None. One idea: the shortcut may miss whenever it likes, since the entry itself stands behind it: so
only what is common, and can be checked without running any Python, is checked natively.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import field
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


def after_calls(
    step: Callable[..., Any],
    then: Callable[[Any, Any], None],
    first: Callable[[Any, Any], None] | None = None,
) -> Callable[..., Any]:
    """The entry; once it has served often enough, `then` is told the function and the values of the call;
    `first` is told those of the first one.
    """
    served = 0

    @uncounted
    def run(function: Any, *values: Any) -> Any:
        nonlocal served
        result = step(function, *values)
        if result is not MISS:
            served += 1
            if served == 1 and first is not None:
                first(function, values)
            if served == CALLS_BEFORE_NATIVE_ENTRY:
                then(function, values)
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
Python = Callable[[types.CodeType, GuardSet], Callable[..., Any]]
"""Makes a Python function of guards."""


def shortcut(
    recipe: ShortcutRecipe,
    factory: EntryFactory,
    python: Python,
    slow: Any,
    function: Any,
    values: Sequence[Any],
    direct: Any = None,
) -> tuple[str, dict[str, Any], str] | None:
    """The text of an entry's shortcut, what it needs beside the entry's own names, and for which calls it is;
    None where there is none. The entry, which is to stand behind it, has just served a call of the function
    with these values, or `direct` says how it is run.
    """
    given = function, dict(zip(parameter_names(recipe.code), values, strict=True))
    checks = Checks(factory, *given)
    checks.lay = _arrays(recipe, checks)
    left = settle(checks, recipe.guards)
    if direct is not None:
        return _text(recipe, checks, left, direct, _operands(recipe, checks), python, slow)
    direct, operands = _direct(recipe, factory, checks)
    if direct is None or direct is False:
        checks = Checks(factory, *given, sized=False)
        left = settle(checks, recipe.guards)
        made = _text(recipe, checks, left, None, operands, python, slow)
        return made if made is None or direct is None else (*made[:2], EARLY)
    open_checks = Checks(factory, *given, sized=False, lay=checks.lay)
    opened = _opened(recipe, factory, open_checks, direct, python, slow)
    if opened is not None:
        return opened
    left += settle(checks, conditions_of(factory, direct, recipe))
    return _text(recipe, checks, left, direct, operands, python, slow)


def _opened(
    recipe: ShortcutRecipe, factory: EntryFactory, checks: Checks, direct: Any, python: Any, slow: Any
) -> tuple[str, dict[str, Any], str] | None:
    """The shortcut that runs the program for all sizes that it serves; None where it is for these alone."""
    direct = factory.opened(direct)
    if direct is None:
        return None
    left = settle(checks, [*recipe.guards, *conditions_of(factory, direct, recipe)])
    try:
        return _text(recipe, checks, left, direct, _operands(recipe, checks), python, slow)
    except (Unreadable, TypeError) as error:
        let_through(error)
        return None


def _text(
    recipe: ShortcutRecipe,
    checks: Checks,
    left: list[Guard],
    direct: Any,
    operands: Operands,
    python: Any,
    slow: Any,
) -> tuple[str, dict[str, Any], str] | None:
    factory, names = checks.factory, parameter_names(recipe.code)
    kind = ANY if direct is None else ALONE if checks.sized else OPEN
    finish = None if direct is None else factory.finish(direct)
    read = recipe.read if direct is None else recipe.read_behind
    try:
        wanted = [checks.read(_held(source)) for source in read.values()]
        drops = [] if direct is None else [checks.plain_tensor(source) for source in recipe.let_go]
    except Unreadable:
        return None
    given_back = [] if finish is None else _objects(recipe, checks, operands)
    wanted += [value for value, _text in given_back]
    rest = python(recipe.code, with_types(left, checks)) if left else None
    checks.done.sort(key=lambda check: (not tells_argument(check), check.op != "call_is"))
    native = factory.make((FUNCTION, *names), checks.done, rest, wanted, direct, operands, drops)
    if direct is not None and not _stood(recipe, checks):
        return None
    given = ", ".join([FUNCTION, *map(local_name, names)])
    lines = [f"{FOUND} = {NATIVE}({given})", f"if {FOUND} is {MISS!r}: return {SLOW}({given})"]
    lines.append(f"if {FOUND} is {NEVER}: return {MISS!r}")
    if finish is not None:
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
        variables = [*(recipe.outputs if direct is not None else ()), *read]
        lines += [f"[{', '.join(variables)}] = {FOUND}", f"del {FOUND}"] if variables else []
    lengths = {name: source.parent for name, source in read.items() if _held(source) is not source}
    lines += [f"{name} = {LENGTH}({name})" for name in lengths]
    in_c = all(written_in_c(checks.types[parent]) for parent in lengths.values() if parent is not None)
    lines += recipe.lines if direct is None else recipe.ending or []
    text = "\n".join([f"def entry({given}):", *("    " + line for line in lines)]) + "\n"
    names_used = {
        NATIVE: native,
        SLOW: slow,
        NEVER: factory.never,
        FINISH: finish,
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
    for guard in guards:
        if guard.source is not None and guard.tells_type:
            checks.typing.setdefault(guard.source, []).append(guard)
    left = []
    for guard in sorted(guards, key=lambda guard: guard.turn()):
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


def conditions_of(factory: Any, direct: Any, recipe: ShortcutRecipe) -> list[Guard]:
    """What the program relies upon beside the guards of the entry, which asks for it in each call."""
    found = []
    for expression, truth, places in factory.conditions(direct):
        sources = tuple([(symbol, recipe.inputs[place]) for symbol, place in places.items()])
        found.append(Guard("CONDITION", sources[0][1], Condition(expression, truth, sources)))
    return found


def _operands(recipe: ShortcutRecipe, checks: Checks) -> Operands:
    return [(checks.operand(source), checks.arrays.get(source)) for source in recipe.inputs]


def _direct(recipe: ShortcutRecipe, factory: EntryFactory, checks: Checks) -> tuple[Any, Operands]:
    """How the graph runs natively, and its inputs; None where it does not, False where these are gone."""
    if recipe.ending is None or recipe.graph is None:
        name = recipe.code.co_qualname
        log("entries", lambda: f"{name} is left to Python behind its guards: its graph may fail half way, or "
            "changes modes")  # fmt: skip
        return None, []
    try:
        operands = _operands(recipe, checks)
        inputs = [fetch(source, checks.function, checks.values) for source in recipe.inputs]
    except Unreadable:
        return False, []
    return factory.direct(recipe.graph, inputs), operands


def _arrays(recipe: ShortcutRecipe, checks: Checks) -> dict[Source, Any]:
    """The arrays of the graph's inputs."""
    found: dict[Source, Any] = {}
    for source in recipe.inputs:
        with suppress(Unreadable):
            found[source] = getattr(checks.value(source), "array", None)
    return found


def _stood(recipe: ShortcutRecipe, checks: Checks) -> bool:
    """Whether inputs were as checks say while the program for them was found: another thread may give a
    tensor other data meanwhile, and the program would run on what it is not for."""
    before, now = checks.lay, _arrays(recipe, checks)
    return before.keys() == now.keys() and all(
        array is now[source] and (array is None or source not in checks.arrays or checks.says(source, array))
        for source, array in before.items()
    )


def variables_read(reader: Reader, names: Iterable[str]) -> dict[str, Source] | None:
    """What guards have read into these variables; None where that is no source's value."""
    sources = {name: source for source, name in reader.names.items()}
    return {name: sources[name] for name in names} if all(name in sources for name in names) else None
