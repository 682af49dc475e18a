"""Direct entries: a program behind the checks of a compiled function, as one native function.

Takes a call as data (`weft.aot.runtime.direct.Direct`, known by its fields alone) and the registers in which
checks have its inputs; adds checks on how these lie in memory, and gives the tables of the run. One idea: it
is made from the program that has just served that very call.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import suppress
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from weft.core import checks as ask
from weft.core.checks import Slot
from weft.core.expressions import Expression
from weft.core.interrupts import let_through
from weft.core.lazy import lazy
from weft.core.logs import log
from weft.core.settings import settings
from weft.core.slices import Steps, at_once
from weft.native.backend import Compiled, is_watched, plain
from weft.native.cpu import tiers
from weft.native.cpu.calls import ALIGNED, WRITEABLE
from weft.native.cpu.pool import pool
from weft.native.cpu.runner import Runner
from weft.native.entry.entry import (
    NEVER,
    Layout,
    Lowering,
    Run,
    class_version,
    entrance,
    member_offset,
    slot_offset,
    supported,
)
from weft.native.entry.tables import C_CONTIGUOUS, number_checks, program_of, row_major, run_of
from weft.native.lower.opening import values_of
from weft.native.program.cache import keeps_entries, store
from weft.native.program.stored import kept_program, library_files
from weft.native.target import Uncompiled

if TYPE_CHECKING:
    from weft.native.entry.opened import OpenCall

_opened: Any = lazy("weft.native.entry.opened")
_looking: Any = lazy("weft.native.program.describe")
_nodes: Any = lazy("weft.native.entry.nodes")
_backwards: Any = lazy("weft.native.entry.backwards")
"""Not needed where all programs are on disk."""
Operands = Sequence[tuple[Expression, Expression | None]]
MOST_KEPT: Final = 4
"""So many entries are kept under one key."""
MOST_TEXT: Final = 1 << 24


class Machine:
    """What compiled functions make their native entries with."""

    def __init__(self, layout: Layout, miss: Any, describe: Any) -> None:
        self.layout, self.miss, self.describe = layout, miss, describe
        self.is_asked = False

    class_version = staticmethod(class_version)
    never: Final = NEVER

    def slot(self, owner: type, name: str) -> Slot:
        """A slot of a class or of one behind it, which must be one."""
        owner = next((kind for kind in owner.__mro__ if name in kind.__dict__), owner)
        return Slot(slot_offset(owner, name), owner.__dict__[name])

    def member(self, kind: type, name: str) -> Slot | None:
        """A member of one of Python's own types; None where it is not known where that lies."""
        offset = member_offset(kind, name)
        return None if offset is None else Slot(offset, kind.__dict__[name])

    def direct(self, graph: Any, inputs: Sequence[Any]) -> Any:
        """The call as data, and its program; None where it needs Python, False where inputs have changed."""
        found = self.describe(getattr(graph, "__wrapped__", graph), tuple(inputs))
        if found is False:
            return found
        if found is None or type(found.forward) is not Compiled:
            return None
        if found.calls is not None and found.forward.places:
            found.forward.builds.calls = found.calls  # which native entries count, too
        program = program_of(found.forward, inputs)
        if program is None or program.frame is None or not _is_simple(found, program):
            log("entries", lambda: f"a graph is left to Python: {_reason(found, program)}")
            return None
        if found.recorded is not None and not _nodes.has_parts(found, program):
            found = found.recorded.otherwise()
            if found is None:
                return None
        if found.finish is not None or found.recorded is not None:
            if program.draws is not None and not program.draws.is_default:
                return None
        return found, program

    def opened(self, direct: Any) -> Any:
        """The same call for other sizes, too: with a program whose numbers follow from them, or that has no
        such numbers. None where that does not go."""
        found, program = direct[:2]
        if found.is_closed:
            return found, program, None
        call = _opened.opened_call(found, program)
        if call is None and found.recorded is not None:  # by Python, then
            found = found.recorded.otherwise()
            if found is not None and found.finish_open is not None:
                call = _opened.opened_call(found, program)
        if call is None:
            return None
        inputs = [plain(found.forward.layout.array(value)) for value in found.inputs]
        return found, call.template.at(values_of(found.forward.places, inputs), inputs), call

    def records(self, direct: Any) -> bool:
        """Whether there are nodes of the tape behind what it gives."""
        return direct[0].finish is not None or direct[0].recorded is not None

    def finish(self, direct: Any) -> Any:
        """What is left to do behind the program, as a function of what it gives and of its inputs."""
        found, draws = direct[0], direct[1].draws
        end = found.finish
        if end is not None and len(direct) == 3 and direct[2] is not None:
            end = _opened.telling(direct[2], found.finish_open)
        if end is None or draws is None:
            return end

        def finish(results: tuple[Any, ...], given: tuple[Any, ...]) -> Any:
            seeds = results[-1]
            made = end(results[:-1], given, draws.drawn(seeds))
            if made is None:  # all is done again
                draws.give_back(seeds)
            return made

        return finish

    def conditions(self, direct: Any) -> list[tuple[Any, bool, dict[Any, int]]]:
        """What has to hold of the call's numbers: expressions, their truths, and the inputs that their
        symbols stand for. Calls that are kept have none."""
        found = direct[0].conditions
        if found is None:
            return []
        if len(direct) == 3 and direct[2] is not None:
            found = found.of_floats()
        return [
            (fact, truth, {one: found.places[one] for one in fact.symbols}) for fact, truth in found.facts
        ]

    # -- on disk ---------------------------------------------------------------------------------------------
    def surroundings(self) -> tuple[str, ...] | None:
        """What entries on disk depend on; None where none are kept."""
        return library_files() if keeps_entries() and not is_watched() else None

    def program_key(self, direct: Any) -> str | None:
        """The key of the program on disk; None where it is not there."""
        return getattr(direct[1], "key", None)

    def reads(self, direct: Any) -> set[int]:
        """The inputs that the program reads when it runs; others are part of it."""
        return {number for _place, number in direct[1].givens}

    def described(self, direct: Any) -> tuple[Any, ...]:
        """All of the call but its inputs and its program."""
        found = direct[0]
        return found.outputs, found.written, found.strides, found.values

    def kept(self, key: str) -> list[dict[str, Any]]:
        """What was kept under a key, the latest first."""
        content = store().get("entry", key)
        try:
            found = [] if content is None else json.loads(content)
        except ValueError as error:
            let_through(error)
            return []
        return [each for each in reversed(found) if isinstance(each, dict)] if isinstance(found, list) else []

    def later(self, owner: Any) -> None:
        """Has `owner.improve()` called in the background, or at once where nothing is done there."""
        if settings.tiers == "smooth":
            tiers.ask(owner, is_held=True)
        else:
            owner.improve()

    def keep(self, key: str, made: dict[str, Any], name: str) -> None:
        """Keeps an entry beside those that are there, as far as there is room."""
        made = json.loads(json.dumps(made))
        others = [each for each in reversed(self.kept(key)) if each | {name: ""} != made | {name: ""}]
        content = json.dumps([*others[1 - MOST_KEPT :], made], separators=(",", ":")).encode()
        if len(content) <= MOST_TEXT:
            store().put("entry", key, content)
            entrance(self.layout)  # which the next process needs at once, and is on disk from now on

    def restored(
        self, key: str, inputs: list[Any], outputs: Any, written: Any, strides: Any, values: int
    ) -> Any:
        """A call as data, and its program, as they were kept; None where the program is gone."""
        arrays = [plain(getattr(value, "array", value)) for value in inputs]
        program = kept_program(key, arrays)
        writes = [tuple(each) for each in written]
        lies = [None if each is None else tuple(each) for each in strides]
        found = SimpleNamespace(
            forward=None, inputs=inputs, outputs=outputs, written=writes, strides=lies, values=values,
            conditions=None, open=(), calls=None, finish=None, sizes=None, recorded=None, finish_open=None,
            is_closed=False,
        )  # fmt: skip
        if program is None or program.frame is None or not _is_simple(found, program):
            return None
        return found, program

    # -- making ----------------------------------------------------------------------------------------------
    def is_ready(self) -> bool:
        """Whether the entrance is there, or will not be made in the background, which this asks for."""
        if (self.layout,) in entrance.made or settings.tiers != "smooth":
            return True
        if not self.is_asked:
            self.is_asked = True
            tiers.ask(self)
        return not tiers.is_running()

    def improve(self) -> None:
        """Loads what entries are made with and makes the entrance, in the background."""
        _loaded = _opened.opened_call, _nodes.add_nodes, _backwards.backward_entry
        entrance(self.layout)

    def make(self, *given: Any) -> Any:
        """As `making`, at once."""
        return at_once(self.making(*given))

    def making(
        self, arguments: Sequence[str], checks: list[Expression], rest: Any, returned: list[Expression],
        run: Any, operands: Operands, drops: Sequence[Expression] = (),
    ) -> Steps[Any]:  # fmt: skip
        """The function of these arguments. What is left to Python is checked by `rest`, before anything is
        read. `run` says how a graph runs, when that is asked."""
        lowering, tables = Lowering(arguments), None
        if rest is not None:
            for check in filter(is_of_argument, checks):
                lowering.need_surely(check)
            lowering.rows.append(("call_missing", 0, rest))
        for check in checks:
            yield
            lowering.need_surely(check)
        wanted = [lowering.register(value) for value in returned]
        if run is not None:
            yield
            tables = self.tables(run, lowering, operands)
            tables.drops = [lowering.register(each) for each in drops]
        yield
        making = entrance(self.layout).making(lowering, wanted, self.miss, tables, self.never)
        return (yield from making)

    def tables(self, asked: Any, lowering: Lowering, operands: Operands) -> Run:
        """The run of a program. It is in one piece: what it reads of inputs belongs together."""
        direct = asked.look()
        found, program = direct[:2]
        opened = None if len(direct) < 3 else direct[2]
        for check in self.layouts(found, program, operands, opened):
            lowering.need(check)
        if found.recorded is not None:
            lowering.need(self.serves(found.recorded.plan, opened is not None))
        places = [
            (lowering.register(value), None if array is None else lowering.register(array))
            for value, array in operands
        ]
        run = run_of(found, program, places)
        if found.recorded is not None:
            _nodes.add_nodes(run, found, program, places, self, None if opened is None else opened.template)
        if opened is not None:
            run.sizes = _opened.open_run(run, found, program, opened, operands)
            for each in (*run.sizes.symbols.values(), *run.sizes.looked):
                lowering.register(each)
        asked.check()
        return run

    def backward(self, found: Any) -> Any:
        """The native function of a node's backward, the edges whose gradients it puts into leaves, and
        whether all edges lead to leaves (see `weft.aot.runtime.quick`); None where there is none."""
        return _backwards.backward_entry(self, found)

    def serves(self, plan: Any, is_open: bool) -> Expression:
        """That a plan has this program still; that it is the latest of its template, for all sizes."""
        if not is_open:
            return ask.slot_is(ask.held(plan), self.slot(type(plan), "program"), plan.program)
        programs = ask.slot(ask.held(plan.template), self.slot(type(plan.template), "programs"))
        return ask.same(ask.list_item(programs, -1), ask.held(plan.program))

    def layouts(
        self, found: Any, program: Runner, operands: Operands, opened: OpenCall | None = None
    ) -> list[Expression]:
        """Checks that inputs lie in memory, and stand on the tape, as they did."""
        checks: list[Expression] = []
        written = {number for number, _value, _times in found.written}
        read = {number for _place, number in program.givens}
        origin, cell, node = (self.slot(self.layout.tensor, name) for name in ("origin", "cell", "node"))
        for number, ((given, array), value) in enumerate(zip(operands, found.inputs, strict=True)):
            if opened is not None and number in opened.numbers:
                continue
            if array is None:
                checks += number_checks(given, value, number in read or number in found.open)
                continue
            wanted = ALIGNED | (WRITEABLE if number in written else 0)
            if value.array.flags.c_contiguous:  # which says all of it, for sizes that were checked
                wanted |= C_CONTIGUOUS
            elif opened is None or number not in opened.lies:  # else where sizes are looked at
                checks.append(ask.strides(array, list(value.array.strides)))
            checks.append(ask.flags(array, wanted, wanted))
            if number in written or value.tracked:
                checks.append(ask.slot_is(given, origin, None))
            checks.append(ask.slot_isnt(given, cell, self.layout.inference))
            checks.append((ask.slot_is if value.node is None else ask.slot_isnt)(given, node, None))
        return checks


def machine(layout: Layout, miss: Any, describe: Any) -> Machine | None:
    """What native entries are made with; None where this interpreter is laid out otherwise."""
    if not supported():
        return None
    with suppress(Uncompiled):  # the first program says why
        pool()
    return Machine(layout, miss, describe)


def is_of_argument(check: Expression) -> bool:
    """Whether a check asks for what an argument itself is: it may come before anything of Python's runs, and
    spares calls for others that."""
    return check.op in ("is_object", "type_is") and check.args[0].op == "symbol"


def _reason(found: Any, program: Runner | None) -> str:
    """Why a program is not run by an entry."""
    if program is None:
        return "it has no program"
    if program.frame is not None:
        return "a value lies otherwise than eager code has it, or is one that is there"
    steps = [f"step {number}" for number in program.python]
    if program.program.listing is not None:
        steps = [_looking.step_text(program.program, number) for number in program.python]
    return "Python does " + "; ".join(steps) if steps else "it draws from generators that are passed to it"


def _is_simple(found: Any, program: Runner) -> bool:
    """Whether each value of a program is a new array, or in the memory of the input that it is written to;
    what is kept for gradients beside them may also be an input, or a size of the call.
    """
    frame = program.frame
    assert frame is not None
    made = {
        place: row_major(shape, kind) if strides is None else strides
        for (place, shape, kind), strides in zip(frame.made, frame.strides, strict=True)
    }
    floats: dict[Any, Any] = {place: np.dtype(kind) for place, _shape, kind in frame.made}
    inside = {number for _place, number in frame.written}
    written = {value: number for number, value, _times in found.written}
    if len(frame.outputs) != len(found.strides):
        return False
    for value, (place, strides) in enumerate(zip(frame.outputs, found.strides, strict=True)):
        if place in frame.numbers:
            if floats.get(place) != np.float64 or place in frame.outputs[:value]:
                return False
        elif value in written:
            if written[value] not in inside:
                return False
        elif isinstance(place, int) and place in made:
            if strides not in (None, made[place]):
                return False
            if value < found.values and place in frame.outputs[:value]:
                return False
        elif isinstance(place, int) or value < found.values or not _is_at_hand(*place):
            return False
    return True


def _is_at_hand(how: str, what: Any) -> bool:
    """Whether a value is an input, or a size."""
    return how == "input" or type(what) is int
