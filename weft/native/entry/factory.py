"""Direct entries: a program behind the checks of a compiled function, as one native function.

Takes a call as data (`weft.aot.runtime.direct.Direct`, known by its fields alone) and the registers in which
checks have its inputs; adds checks on how these lie in memory, and gives the tables of the run. One idea: it
is made from the program that has just served that very call.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Sequence
from contextlib import suppress
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from weft.core import checks as ask
from weft.core.checks import Slot
from weft.core.expressions import Expression, constant
from weft.core.interrupts import let_through
from weft.core.lazy import lazy
from weft.native.backend import Compiled, is_watched, plain
from weft.native.cpu.blas import guard
from weft.native.cpu.calls import ALIGNED, WRITEABLE, address
from weft.native.cpu.objects import Uncompiled
from weft.native.cpu.pool import pool
from weft.native.entry.entry import (
    AGAIN,
    CONSTANT,
    NEW,
    NUMBER,
    THERE,
    Layout,
    Lowering,
    Run,
    class_version,
    entrance,
    member_offset,
    slot_offset,
    supported,
)
from weft.native.lower.opening import values_of
from weft.native.plan.memory import blocks
from weft.native.program.cache import keeps_entries, store
from weft.native.program.program import LONG, Program
from weft.native.program.stored import kept_program, library_files

if TYPE_CHECKING:
    from weft.native.entry.opened import OpenCall

_opened: Any = lazy("weft.native.entry.opened")
"""Not needed where all programs are on disk."""
Operands = Sequence[tuple[Expression, Expression | None]]
Registers = Sequence[tuple[int, int | None]]
SINGLETONS: Final = (bool, type(None))
C_CONTIGUOUS: Final = 0x1
MOST_KEPT: Final = 4
"""So many entries are kept under one key."""
MOST_TEXT: Final = 1 << 24


class Machine:
    """What compiled functions make their native entries with."""

    def __init__(self, layout: Layout, miss: Any, describe: Any) -> None:
        self.layout, self.miss, self.describe = layout, miss, describe

    class_version = staticmethod(class_version)

    def slot(self, owner: type, name: str) -> Slot:
        """A slot of a class, which must be one."""
        return Slot(slot_offset(owner, name), owner.__dict__[name])

    def member(self, kind: type, name: str) -> Slot | None:
        """A member of one of Python's own types; None where it is not known where that lies."""
        offset = member_offset(kind, name)
        return None if offset is None else Slot(offset, kind.__dict__[name])

    def direct(self, graph: Any, inputs: Sequence[Any]) -> Any:
        """The call as data, and its program; None where it needs Python."""
        found = self.describe(getattr(graph, "__wrapped__", graph), tuple(inputs))
        if found is None or type(found.forward) is not Compiled:
            return None
        if found.calls is not None and found.forward.places:
            found.forward.builds.calls = found.calls  # which native entries count, too
        program = _program(found.forward, inputs)
        if program is None or program.frame is None or not _is_simple(found, program):
            return None
        if found.finish is not None and program.draws is not None and not program.draws.is_default:
            return None
        return found, program

    def opened(self, direct: Any) -> Any:
        """The same call for other sizes, too: with a program whose numbers follow from them. None where that
        does not go."""
        found, program = direct[:2]
        call = _opened.opened_call(found, program)
        if call is None:
            return None
        inputs = [plain(found.forward.layout.array(value)) for value in found.inputs]
        return found, call.template.at(values_of(found.forward.places, inputs), inputs), call

    def finish(self, direct: Any) -> Any:
        """What is left to do behind the program, as a function of what it gives and of its inputs."""
        found, draws = direct[0], direct[1].draws
        if found.finish is None or draws is None:
            return found.finish

        def finish(results: tuple[Any, ...], given: tuple[Any, ...]) -> Any:
            seeds = results[-1]
            made = found.finish(results[:-1], given, draws.drawn(seeds))
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
        if len(direct) == 3:
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
            conditions=None, open=(), calls=None, finish=None, sizes=None,
        )  # fmt: skip
        if program is None or program.frame is None or not _is_simple(found, program):
            return None
        return found, program

    def make(
        self, arguments: Sequence[str], checks: list[Expression], rest: Any, returned: list[Expression],
        direct: Any, operands: Operands, drops: Sequence[Expression] = (),
    ) -> Any:  # fmt: skip
        """The function of these arguments. What is left to Python is checked by `rest`, before anything is
        read."""
        lowering, run = Lowering(arguments), None
        opened = None if direct is None or len(direct) < 3 else direct[2]
        if rest is not None:
            lowering.rows.append(("call_missing", 0, rest))
        for check in checks:
            lowering.need(check)
        wanted = [lowering.register(value) for value in returned]
        if direct is not None:
            found, program = direct[:2]
            for check in self.layouts(found, program, operands, opened):
                lowering.need(check)
            places = [
                (lowering.register(value), None if array is None else lowering.register(array))
                for value, array in operands
            ]
            run = _run(found, program, places)
            run.drops = [lowering.register(each) for each in drops]
            if opened is not None:
                run.sizes = _opened.open_run(run, found, program, opened, operands)
                for each in run.sizes.symbols.values():
                    lowering.register(each)
        return entrance(self.layout).make(lowering, wanted, self.miss, run)

    def layouts(
        self, found: Any, program: Program, operands: Operands, opened: OpenCall | None = None
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
                checks += _number(given, value, number in read or number in found.open)
                continue
            wanted = ALIGNED | (WRITEABLE if number in written else 0)
            if value.array.flags.c_contiguous:  # which says all of it, for sizes that were checked
                wanted |= C_CONTIGUOUS
            else:
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


def _program(compiled: Compiled, inputs: Sequence[Any]) -> Program | None:
    """The program that has served a call with these inputs."""
    arrays = [plain(compiled.layout.array(value)) for value in inputs]
    found = compiled.programs.get(compiled.key(arrays))
    return found if isinstance(found, Program) else None


def _number(given: Expression, value: Any, is_read: bool) -> list[Expression]:
    """Checks of an input that is no tensor: floats that the program reads may be others."""
    if given.kind is not object:  # a number that follows from sizes, of which there is no object
        if type(value) is not int:
            raise TypeError(f"{given} has no machine code")
        return [Expression("eq", (given, constant(value)), bool)]
    if type(value) in SINGLETONS:
        return [ask.is_object(given, value)]
    exact = ask.type_is(given, type(value))
    if type(value) is float:
        return (
            [exact] if is_read else [exact, ask.bits(given, *struct.unpack("<q", struct.pack("<d", value)))]
        )
    return [exact, ask.equal(given, value)]


def _is_simple(found: Any, program: Program) -> bool:
    """Whether each value of a program is a new array, or in the memory of the input that it is written to;
    what is kept for gradients beside them may also be an input, or a size of the call.
    """
    frame = program.frame
    assert frame is not None
    made = {
        place: _row_major(shape, kind) if strides is None else strides
        for (place, shape, kind), strides in zip(frame.made, frame.strides, strict=True)
    }
    floats = {place: np.dtype(kind) for place, _shape, kind in frame.made}
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


def _row_major(shape: tuple[int, ...], kind: Any) -> tuple[int, ...]:
    strides, step = [], np.dtype(kind).itemsize
    for size in reversed(shape):
        strides.append(step)
        step *= max(size, 1)
    return tuple(reversed(strides))


def _span(value: Any) -> tuple[int, int]:
    """The first byte that an array reaches, and the one behind the last, from its address."""
    if not isinstance(value, np.ndarray) or not value.size:
        return 0, 0
    moves = [(size - 1) * step for size, step in zip(value.shape, value.strides)]
    return sum(m for m in moves if m < 0), sum(m for m in moves if m > 0) + value.itemsize


def _run(found: Any, program: Program, operands: Registers) -> Run:
    """The tables of a program behind its checks."""
    frame = program.frame
    assert frame is not None
    order = {place: number for number, (place, _shape, _kind) in enumerate(frame.made)}
    givens: list[tuple[int, int, bool, int, int]] = []
    numbers: dict[int, int] = {}
    places = dict(frame.givens)
    places.update(frame.written)
    for place, number in places.items():
        register, array = operands[number]
        value = found.inputs[number]
        low, high = _span(getattr(value, "array", value))
        numbers[number] = len(givens)
        givens.append((place, register if array is None else array, array is None, low, high))
    outputs: list[tuple[Any, ...]] = []
    seen: set[int] = set()
    for how, what, version in found.outputs:
        result = frame.outputs[what] if how == "value" else None
        if isinstance(result, int):
            kind = AGAIN if result in seen else NUMBER if result in frame.numbers else NEW
            outputs.append((kind, order[result], version))
            seen.add(result)
        elif how == "constant":
            outputs.append((CONSTANT, what))
        elif result is not None and result[0] == "constant":
            outputs.append((CONSTANT, result[1]))
        else:
            outputs.append((THERE, operands[what if result is None else result[1]][0]))
    written = [(operands[number][0], numbers[number], times) for number, _value, times in found.written]
    draws = program.draws
    draw = None if draws is None else (draws.take, draws.give_back, frame.seeds)
    seeds_item = 0
    if draws is not None and found.finish is not None:
        outputs.append((CONSTANT, None))
        seeds_item = len(outputs)
    program.ask()
    threads = pool()
    if program.splits and not threads.started:
        threads.start()
    one = guard() if frame.multiplies else None
    addresses = [threads.run_address, threads.here, 0 if one is None else address(one)]
    return Run(
        givens=givens,
        made=[
            (place, None if place in frame.numbers else np.dtype(kind), shape, strides)
            for (place, shape, kind), strides in zip(frame.made, frame.strides, strict=True)
        ],
        outputs=outputs, written=written, constants=frame.constants, arena=frame.arena,
        arena_bytes=frame.arena_bytes, places=frame.places, code=frame.code, steps=frame.count,
        outside=frame.outside, pool=np.array(addresses, np.int64),
        release=int(program.work > LONG or draw is not None),  # Python is asked for seeds: all must be held
        draw=draw, seeds_item=seeds_item,
        keep=(program, threads, one, found.forward, found.calls),
        calls=0 if found.calls is None else found.calls.buffer_info()[0],
        block=blocks.take(frame.arena_bytes) if frame.arena_bytes else None,
    )  # fmt: skip
