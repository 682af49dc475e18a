"""Backward entries: the program of a node's gradients behind checks of the node, as one native function.

Takes a run of a node's backward as data (`weft.aot.runtime.quick.DirectBackward`, known by its fields alone);
gives a function of a node and the gradients of its outputs. One idea: whatever the general way would ask of
the node and of its leaves is a check, so that nothing has happened yet when one of them fails.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np

from weft.core import checks as ask
from weft.core.expressions import Expression, symbol
from weft.core.symbolic import Symbolic, any_symbolic
from weft.native.backend import Compiled
from weft.native.cpu.calls import ALIGNED
from weft.native.entry.entry import ARRAY, CONSTANT, NEW, SHARED, THERE, Lowering, Run, entrance
from weft.native.entry.opened import OpenCall, open_run
from weft.native.entry.tables import C_CONTIGUOUS, number_checks, program_of, row_major, run_of
from weft.native.lower.opening import values_of

Entry = tuple[Any, list[int], bool]


def backward_entry(machine: Any, found: Any) -> Entry | None:
    """The function, the edges whose gradients it puts into leaves, and whether all edges lead to leaves."""
    if type(found.forward) is not Compiled:
        return None
    program: Any = program_of(found.forward, found.inputs)
    if program is None and found.forward.templates:  # sizes that no call has had
        program = found.forward.settled(found.forward.key(found.inputs), found.inputs)
    if program is None or program.frame is None or program.draws is not None or program.frame.written:
        return None
    template = found.forward.template_of(program)
    if template is not None:
        values = values_of(found.forward.places, found.inputs)
        made = BackwardEntry(machine, found, template.at(values, found.inputs), template).made()
        if made is not None:
            return made
    return BackwardEntry(machine, found, program, None).made()


class BackwardEntry:
    """One that is being made. `template`: where it is for all its sizes."""

    def __init__(self, machine: Any, found: Any, program: Any, template: Any) -> None:
        self.machine, self.found, self.program, self.node = machine, found, program, found.node
        self.template, self.axes, self.sized = template, {}, {}  # type: ignore[var-annotated]
        count = len(found.inputs) - found.saved
        names = ["node", *[f"gradient{number}" for number in range(count)]]
        self.lowering = Lowering(names)
        self.given, *self.gradients = [symbol(name, object) for name in names]
        self.arrays: dict[int, Expression] = {}
        self.leaf_arrays: dict[int, Any] = {}
        """By edges. Asked for once: another thread may give a leaf other data."""
        frame = program.frame
        open_ones = set()
        if template is not None:
            open_ones = {place for place, shape, _ in template.program.made if any_symbolic(shape)}
        self.open_ones = open_ones
        self.lies = {
            place: (shape, np.dtype(kind), row_major(shape, kind) if strides is None else strides)
            for (place, shape, kind), strides in zip(frame.made, frame.strides, strict=True)
        }

    def slot(self, name: str) -> Any:
        return self.machine.slot(type(self.node), name)

    def need(self, check: Expression) -> None:
        self.lowering.need(check)

    def held(self, name: str) -> Expression:
        """The tuple in a slot of the node."""
        value: Expression = ask.slot(self.given, self.slot(name))
        self.need(ask.type_is(value, tuple))
        return value

    def made(self) -> Entry | None:
        settled = self.settled()
        if settled is None or (self.template is not None and not self.open_sizes()):
            return None
        saved = self.held("saved")
        self.held("rerun")
        self.need(ask.slot_is(self.given, self.slot("hooks"), None))
        self.need(ask.slot_is(self.given, self.slot("freed"), 0))
        watched = self.held("watched")
        for place in range(0, len(self.node.watched), 2):
            count = ask.list_item(ask.tuple_item(watched, place), 0)
            self.need(ask.same(count, ask.tuple_item(watched, place + 1)))
        values = [ask.tuple_item(saved, place) for place in range(self.found.saved)] + self.gradients
        read = {number for _, number in self.program.givens}
        places = [self.operand(value, number, read) for number, value in enumerate(values)]
        leaves = self.leaves(settled)
        calls = self.found.forward.builds.calls
        given = [
            SimpleNamespace(array=each) if isinstance(each, np.ndarray) else each
            for each in self.found.inputs
        ]
        named = SimpleNamespace(
            inputs=given, outputs=[], written=[], forward=self.found.forward, calls=calls,
            finish=None,
        )  # fmt: skip
        run = run_of(named, self.program, places)
        run.outputs = self.outputs(settled, places)
        if self.template is not None:
            self.open(run, named, values)
        if self.found.releases:
            node = self.lowering.register(self.given)
            instead: dict[str, Any] = {"saved": None, "freed": self.found.parts}
            instead |= {"rerun": None, "watched": ()} if self.found.frees_all else {"running": 0}
            run.takes = [(node, int(self.slot(name).offset), value) for name, value in instead.items()]
        grad = int(self.machine.slot(self.machine.layout.tensor, "_grad").offset)
        run.gives = [(number, leaves[number], grad) for number in settled]
        run.quiet = all(row == (CONSTANT, None) for n, row in enumerate(run.outputs) if n not in leaves)
        enter = entrance(self.machine.layout).make(self.lowering, [], self.machine.miss, run)
        tensors = self.machine.layout.tensor
        return enter, settled, all(each is None or isinstance(each, tensors) for each in self.node.next)

    def open_sizes(self) -> bool:
        """Finds what is open of the inputs; whether all that the program depends on can be read from them."""
        forward = self.found.forward
        needed = set(self.template.sizes.values)
        for number, node in enumerate(forward.graph_module.graph.placeholders):
            value, known = node.meta.get("val"), self.found.inputs[number]
            if isinstance(known, np.ndarray):
                sizes = enumerate(value.array.shape)
                axes = {n: size.expression for n, size in sizes if isinstance(size, Symbolic)}
                if axes and not known.flags.c_contiguous:
                    return False
                self.axes.update({number: axes} if axes else {})
                needed.update(*[each.symbols for each in axes.values()])
            elif isinstance(value, Symbolic) and type(known) is int:
                self.sized[number] = value.expression
                needed |= value.expression.symbols
        return bool(needed <= forward.places.keys())

    def open(self, run: Run, named: Any, values: list[Expression]) -> None:
        """Has the numbers of a run follow from the sizes of its inputs."""
        facts = list(self.template.conditions.items())
        places = self.found.forward.places
        call = OpenCall(self.template, frozenset(self.sized), self.axes, facts, places)
        operands: list[tuple[Expression, Expression | None]] = []
        for number, value in enumerate(values):
            array = self.arrays.get(number)
            operands.append((ask.whole(value) if number in self.sized else value, array))
        run.sizes = open_run(run, named, self.program, call, operands)
        for number, expression in self.sized.items():
            run.sizes.conditions.append((Expression("eq", (operands[number][0], expression), bool), True))
        for each in run.sizes.symbols.values():
            self.lowering.register(each)

    def operand(self, value: Expression, number: int, read: set[int]) -> tuple[int, int | None]:
        """The registers of an input, which is checked."""
        known = self.found.inputs[number]
        if number in self.sized:
            return self.lowering.register(value), None
        if not isinstance(known, np.ndarray):
            for check in number_checks(value, known, number in read):
                self.need(check)
            return self.lowering.register(value), None
        axes = self.axes.get(number, {})
        sizes = [-1 if axis in axes else size for axis, size in enumerate(known.shape)]
        array = self.arrays[number] = ask.array(value, [known.dtype, known.ndim, *sizes])
        self.need(array)
        wanted = ALIGNED
        if known.flags.c_contiguous:
            wanted |= C_CONTIGUOUS
        else:
            self.need(ask.strides(array, list(known.strides)))
        self.need(ask.flags(array, wanted, wanted))
        register = self.lowering.register(array)
        return register, register

    def settled(self) -> list[int] | None:
        """The edges whose gradients may go into leaves; None where one is neither an array nor there."""
        frame, layout = self.program.frame, self.machine.layout
        found: list[int] = []
        taken: set[Any] = set()
        for number, (target, place) in enumerate(zip(self.node.next, frame.outputs, strict=True)):
            if not isinstance(place, int):
                if place != ("constant", None) and place[0] != "input":
                    return None
                continue
            if place in frame.numbers or place not in self.lies:
                return None
            is_leaf = type(target) in (layout.tensor, layout.parameter)
            if self.found.settles and is_leaf and place not in taken | self.open_ones:
                array = self.leaf_arrays[number] = target.array
                lies = array.shape, array.dtype, array.strides
                if lies == self.lies[place] and type(array) is np.ndarray:
                    found.append(number)
            taken.add(place)
        shared = [place for place in frame.outputs if isinstance(place, int)]
        return [number for number in found if shared.count(frame.outputs[number]) == 1]

    def leaves(self, settled: list[int]) -> dict[int, int]:
        """The registers of leaves that gradients are put into. What the general way would ask of a leaf is
        checked of the others, too: theirs are accumulated without it where the sweep ends with this node."""
        found: dict[int, Expression] = {}
        others: list[Expression] = []
        tensor = self.machine.layout.tensor
        targets = self.held("next")
        for number, known in enumerate(self.node.next):
            if not self.found.settles or not isinstance(known, tensor):
                continue
            leaf = ask.tuple_item(targets, number)
            if number in settled:
                found[number] = leaf
                self.lies_as(leaf, type(known), self.leaf_arrays[number])
            else:
                others.append(leaf)
                self.need(ask.type_is(leaf, type(known)))
            for name in ("node", "hooks"):
                self.need(ask.slot_is(leaf, self.machine.slot(tensor, name), None))
        if len(found) + len(others) > 1:
            self.need(ask.distinct((*found.values(), *others)))
        return {number: self.lowering.register(leaf) for number, leaf in found.items()}

    def lies_as(self, leaf: Expression, kind: type, array: Any) -> None:
        """Checks that a leaf lies in memory as it did."""
        lies = ask.tensor(leaf, [kind, True, array.dtype, array.ndim, *array.shape])
        self.need(lies)
        if array.flags.c_contiguous:
            self.need(ask.flags(lies, C_CONTIGUOUS, C_CONTIGUOUS))
        else:
            self.need(ask.strides(lies, list(array.strides)))

    def outputs(self, settled: list[int], places: list[Any]) -> list[tuple[Any, ...]]:
        """One for each edge."""
        frame = self.program.frame
        order = {place: number for number, (place, *_) in enumerate(frame.made)}
        rows: list[tuple[Any, ...]] = []
        seen: set[Any] = set()
        for number, place in enumerate(frame.outputs):
            if not isinstance(place, int):
                rows.append((CONSTANT, None) if place[0] == "constant" else (THERE, places[place[1]][1]))
            elif number in settled:
                rows.append((NEW, order[place], 0))
            else:
                rows.append((SHARED if place in seen else ARRAY, order[place]))
            seen.add(place)
        return rows
