"""Nodes of the tape, as parts that an entry makes.

Takes a recorded call as data (`weft.aot.runtime.recorded`, known by its fields alone), its program and the
registers of its inputs; adds rows to the tables of its run. One idea: a part is a row, and what belongs to a
part follows it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from weft.native.entry import parts
from weft.native.entry.entry import AGAIN, NEW, NUMBER, Run
from weft.native.entry.text import ITEMS
from weft.native.ir.sizes import Size

Place = tuple[int, int]
"""The number of an object, and an offset in it."""


class NodeRows:
    """The rows of one call's nodes."""

    def __init__(
        self, run: Run, found: Any, program: Any, operands: Sequence[Any], machine: Any, template: Any
    ) -> None:
        self.run, self.found, self.machine, self.operands = run, found, machine, operands
        self.recorded, self.program, self.template = found.recorded, program, template
        self.results = program.frame.outputs if template is None else template.program.outputs
        self.order = {place: number for number, (place, *_) in enumerate(run.made)}
        self.written = {number for number, *_ in found.written}
        self.made = {number for how, number, *_ in run.outputs if how in (NEW, AGAIN, NUMBER)}
        self.stages: dict[int, int] = {}
        """The numbers of their nodes."""
        run.objects = len(run.outputs)

    def all(self) -> None:
        tensor = self.machine.layout.tensor
        for number, (stage, index) in self.in_order():
            self.stage(stage, (number, self.offset(tensor, "node")))
            self.put(("constant", index), (number, self.offset(tensor, "index")))
            self.put(("constant", True), (number, self.offset(tensor, "tracked")))

    def in_order(self) -> list[tuple[int, tuple[int, int]]]:
        return sorted(self.recorded.ends.items(), key=lambda each: each[1])

    def offset(self, owner: type, name: str) -> int:
        return int(self.machine.slot(owner, name).offset)

    def row(self, kind: int, first: Any, second: int, place: Place) -> None:
        self.run.parts.append((kind, first, second, *place))

    def stage(self, number: int, place: Place) -> None:
        """The node of a stage, made where it is first needed."""
        if number in self.stages:
            self.row(parts.SAME, self.stages[number], 0, place)
        else:
            self.stages[number] = self.run.objects
            self.put(self.recorded.nodes[number], place)

    def numbered(self, kind: int, first: Any, place: Place) -> int:
        number = self.run.objects
        self.row(kind, first, number, place)
        self.run.objects += 1
        return number

    def put(self, part: tuple[Any, ...], place: Place) -> None:
        """The rows of a part that belongs to a place."""
        how, *what = part
        match how:
            case "constant":
                self.row(parts.CONSTANT, what[0], 0, place)
            case "called":
                self.row(parts.CALLED, what[0], 0, place)
            case "size" if self.template is not None:
                self.row(parts.WHOLE, Size(self.template.sizes, *what), 0, place)
            case "size":
                self.row(parts.CONSTANT, what[1], 0, place)
            case "counts":
                drawn = self.run.draw is not None
                counts = self.program.draws.counts if drawn else None
                self.row(parts.COPIED if drawn else parts.CONSTANT, counts, 0, place)
            case "seeds":
                self.row(parts.CONSTANT if self.run.draw is None else parts.SEEDS, None, 0, place)
            case "stage":
                self.stage(what[0], place)
            case "tuple":
                number = self.numbered(parts.TUPLE, len(what[0]), place)
                for position, each in enumerate(what[0]):
                    self.put(each, (number, ITEMS + 8 * position))
            case "instance":
                number = self.numbered(parts.OBJECT, what[0], place)
                for name, each in what[1].items():
                    self.put(each, (number, self.offset(what[0], name)))
            case "kept":
                self.kept(what[0], place)
            case "own cell" | "own count":
                self.row(parts.OWN_CELL if how == "own cell" else parts.OWN_COUNT, what[0], 0, place)
            case _:
                self.of_input(how, what, place)

    def of_input(self, how: str, what: list[Any], place: Place) -> None:
        register, array = self.operands[what[0]]
        tensor = self.machine.layout.tensor
        match how:
            case "input":
                self.row(parts.REGISTER, register, 0, place)
            case "array":
                self.row(parts.REGISTER, array, 0, place)
            case "copy":
                self.row(parts.COPY, array, 0, place)
            case "slot":
                self.row(parts.SLOT, register, self.offset(tensor, what[1]), place)
            case "cell":
                self.row(parts.CELL, register, 0, place)
            case "count":
                self.row(parts.COUNT, register, 0, place)
            case _:
                raise ValueError(f"an unknown part: {how}")

    def kept(self, number: int, place: Place) -> None:
        """A result of the program that a node keeps."""
        result, private = self.results[number], number - self.found.values in self.recorded.private
        if isinstance(result, int):
            made = self.order[result]
            first = parts.NUMBER if self.run.made[made][1] is None else parts.FIRST
            self.row(parts.FRESH if made in self.made else first, made, 0, place)
            self.made.add(made)
        elif result[0] == "input" and self.operands[result[1]][1] is not None:
            self.of_input("copy" if private or result[1] in self.written else "array", [result[1]], place)
        elif result[0] == "input":
            self.put(self.recorded.numbers.get(result[1], ("input", result[1])), place)
        elif type(result[1]) is Size:
            self.row(parts.WHOLE, result[1], 0, place)
        else:
            self.put(("constant", result[1]), place)


def has_parts(found: Any, program: Any) -> bool:
    """Whether what nodes keep is at hand: not where a copy would be made of what the program gives, too."""
    given = program.frame.outputs[: found.values]
    kept = enumerate(program.frame.outputs[found.values :])
    return not any(number in found.recorded.private and each in given for number, each in kept)


def add_nodes(
    run: Run, found: Any, program: Any, operands: Sequence[Any], machine: Any, template: Any
) -> None:
    """Has a run make the nodes behind its results. `template`: where it is for all its sizes."""
    NodeRows(run, found, program, operands, machine, template).all()
    if program.draws is not None:
        found.recorded.call.drawn = program.draws.drawn
    found.recorded.run_by(machine)
