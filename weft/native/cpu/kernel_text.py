"""Kernels as LLVM functions: loops over rows, walks along the innermost axis, folds.

Takes a `Kernel` and the width of the host's vectors; gives the text of a function. One idea: a walk is
written three times from the same body (several vectors at once where something is folded, single vectors,
single numbers), and every variable that changes is a phi, so no pass of the compiler is needed.

# Note [A kernel's function]
    void kernel(ptr record, ptr buffers, ptr outside, i64 lo, i64 hi, i64 chunk)
record     sizes of the outer axes and the innermost; then for each access its buffer, offset and strides;
           then scalars, eight bytes each
buffers    addresses of the first elements
outside    addresses of functions from outside: see `weft.native.cpu.outside`
lo, hi     which rows; where there are no outer axes, which part of the innermost axis
chunk      the number of this part, which says where partial results go
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from weft.native.cpu.body_text import HANDLERS, BodyText
from weft.native.cpu.strided_text import Shuffles, loaded
from weft.native.cpu.writer import PARAMETERS, Writer, element_type, literal, memory_type, vector_type
from weft.native.ir.kernels import (
    COMBINED,
    Access,
    Fold,
    Kernel,
    Phase,
    Scope,
    Step,
    Store,
    identity,
    lane_bytes,
    size_of,
    unrolled_by,
)  # fmt: skip
from weft.native.ir.scalar import FLOATS, Instruction, bits_of


def alike_gathers(body: Sequence[Instruction], kernel: Kernel) -> Iterator[Instruction]:
    """Those whose index is the same all along the innermost axis."""
    moving: list[bool] = []
    for each in body:
        own = each.op == "index" and each.value == 0
        if each.op in ("load", "gather"):
            own = kernel.accesses[each.value].step is not Step.NONE
        if each.op == "gather" and not moving[each.args[0]]:
            yield each
        moving.append(own or any(moving[arg] for arg in each.args))


class KernelText:
    """Writes one kernel."""

    def __init__(self, kernel: Kernel, writer: Writer, vector_bytes: int = 32) -> None:
        self.kernel, self.out = kernel, writer
        self.lanes = vector_bytes // lane_bytes(kernel)
        self.one = BodyText(writer, 1, self.lanes)
        self.many = BodyText(writer, self.lanes, self.lanes)
        self.folds: list[str] = []
        self.fold_types: list[str] = []
        self.totals: dict[int, str] = {}
        self.rooms: dict[int, str] = {}
        self.pointers: list[str] = []
        self.fixed: dict[int, str] = {}
        self.known_one: dict[int, str] = {}
        self.known_many: dict[int, str] = {}
        bodies = [body for phase in kernel.phases for body in (phase.body, phase.after)]
        self.loaded = {each.value for body in bodies for each in body if each.op == "load"}
        self.stretches = self.read_together()
        self.taken_apart: dict[tuple[int, str], Mapping[int, str]] = {}
        self.alike = {each for phase in kernel.phases for each in alike_gathers(phase.body, kernel)}

    # -- the whole -------------------------------------------------------------------------------------------
    def write(self, name: str) -> None:
        out, kernel = self.out, self.kernel
        attributes = "optnone noinline " if kernel.quick else ""
        with out.function("void", name, *PARAMETERS, attributes=attributes):
            self.body()
            out.ret()

    def body(self) -> None:
        kernel, place = self.kernel, 0
        self.sizes = [self.number(place + axis) for axis in range(kernel.outer + 1)]
        place += kernel.outer + 1
        self.bases, self.strides = [], []
        for access in kernel.accesses:
            self.bases.append(self.base(place, access))
            self.strides.append([self.number(place + 2 + axis) for axis in range(kernel.outer + 1)])
            place += 3 + kernel.outer
        self.scalars = [self.scalar(place + i, type_) for i, type_ in enumerate(kernel.scalars)]
        self.pointers, self.fixed = self.bases, {}
        self.single = {
            number: self.load_one(number, "0")
            for number, access in enumerate(kernel.accesses)
            if access.single and number in self.loaded and not access.written
        }
        self.start, self.end = ("%lo", "%hi") if not kernel.outer else ("0", self.sizes[-1])
        self.row_number = "%lo"
        if kernel.outer or kernel.rows:
            self.clear_totals()
        self.clear_columns()
        if kernel.outer:
            self.rows()
        else:
            self.row([])
        self.keep_totals()

    def number(self, place: int) -> str:
        return self.out.recorded(place)

    def scalar(self, place: int, type_: str) -> str:
        raw = self.number(place)
        if type_ in FLOATS:
            double = self.out.changed("bitcast", raw, "i64", "double")
            return double if type_ == "f64" else self.out.changed("fptrunc", double, "double", "float")
        if bits_of(type_) == 64:
            return raw
        return self.out.changed("trunc", raw, "i64", element_type(type_))

    def base(self, place: int, access: Any) -> str:
        start = self.out.buffer(place)
        return self.out.past(start, self.number(place + 1), memory_type(access.type))

    def go(self, label: str) -> None:
        """Ends the present block by going to another, which opens."""
        self.out.go(label)
        self.out.begin(label)

    # -- rows ------------------------------------------------------------------------------------------------
    def rows(self) -> None:
        with self.out.counting("%lo", "%hi", names=("rows", "row", "rows_done", "row")) as row:
            self.row_number = row.at
            self.row(self.axes(row.at))

    def all_folds(self) -> list[Fold]:
        return [fold for phase in self.kernel.phases for fold in phase.folds]

    def axes(self, row: str) -> list[str]:
        """The place along each outer axis."""
        found: list[str] = []
        rest = row
        for axis in range(self.kernel.outer - 1, 0, -1):
            found.append(self.out.remainder(rest, self.sizes[axis]))
            rest = self.out.quotient(rest, self.sizes[axis])
        return [rest, *reversed(found)]

    def row(self, places: list[str]) -> None:
        """All phases on one row."""
        out = self.out
        self.places = places
        self.pointers, self.fixed, self.folds, self.fold_types = [], dict(self.single), [], []
        for number, access in enumerate(self.kernel.accesses):
            pointer = self.bases[number]
            for axis, place in enumerate(places):
                distance = out.scaled(place, self.strides[number][axis])
                pointer = out.past(pointer, distance, memory_type(access.type))
            self.pointers.append(pointer)
        for number, access in enumerate(self.kernel.accesses):
            is_known = number in self.fixed or number not in self.loaded
            if access.step is Step.NONE and not is_known and not access.written:
                self.fixed[number] = self.load_one(number, "0")
        for phase in self.kernel.phases:
            self.phase(phase)

    # -- phases ----------------------------------------------------------------------------------------------
    def phase(self, phase: Phase) -> None:
        first = len(self.folds)
        rowwise = [fold for fold in phase.folds if fold.scope is not Scope.COLUMN]
        starts = [literal(identity(fold), fold.type) for fold in rowwise]
        place = self.start
        self.settle(phase)
        if self.lanes > 1:
            unroll = unrolled_by(phase) if rowwise and not self.kernel.rows else 1
            vectors = [[self.many.constant(identity(fold), fold.type)] * unroll for fold in rowwise]
            place, vectors = self.walk(phase, rowwise, place, vectors, self.lanes, unroll)
            if unroll > 1 and not self.kernel.even:
                heads = [[each[0]] for each in vectors]
                place, heads = self.walk(phase, rowwise, place, heads, self.lanes, 1)
                vectors = [[head[0], *each[1:]] for head, each in zip(heads, vectors)]
            if self.kernel.rows:
                for number, (fold, (vector,)) in enumerate(zip(rowwise, vectors)):
                    self.put_total(fold.type, self.rooms[number], vector, self.lanes)
            else:
                starts = [self.gather_lanes(fold, each) for fold, each in zip(rowwise, vectors)]
        scalars = [[start] for start in starts]
        if self.lanes == 1 or not self.kernel.even:
            place, scalars = self.walk(phase, rowwise, place, scalars, 1, 1)
        results = iter([each[0] for each in scalars])
        for number, fold in enumerate(phase.folds):
            result = "poison" if fold.scope is Scope.COLUMN else next(results)
            if fold.scope is Scope.ALL and self.kernel.outer:
                self.add_to_total(self.number_of(phase, number), fold, result, self.row_number)
            elif fold.scope is Scope.ALL and not self.kernel.rows:
                self.totals[self.number_of(phase, number)] = result
            self.folds.append(result)
            self.fold_types.append(fold.type)
        assert len(self.folds) == first + len(phase.folds)
        if phase.after:
            names = self.one.write(phase.after, self.leaves("0", 1))
            for each in phase.given:
                self.folds.append(names[each])
                self.fold_types.append(phase.after[each].type)
            for store in phase.kept:
                self.store(store.access, names[store.value], "0", 1)

    def settle(self, phase: Phase) -> None:
        """Computes what is the same for all elements of the row, before they are walked along."""
        body = phase.body
        still: list[bool] = []
        for each in body:
            if each.op == "load":
                still.append(each.value in self.fixed)
            elif each.op == "index":
                still.append(each.value > 0)
            elif each.op == "gather" and self.kernel.accesses[each.value].step is not Step.NONE:
                still.append(False)
            else:
                still.append(all(still[arg] for arg in each.args))
        names: dict[int, str] = {}
        for place, each in enumerate(body):
            if still[place]:
                args, types = [names[arg] for arg in each.args], [body[arg].type for arg in each.args]
                names[place] = self.one.step(each, args, types, self.leaves("0", 1))
        self.known_one = names
        read = {arg for place, each in enumerate(body) if not still[place] for arg in each.args}
        read |= {store.value for store in phase.stores} | {fold.value for fold in phase.folds}
        self.known_many = {}
        for place, name in names.items() if self.lanes > 1 else ():
            if body[place].op == "const":
                self.known_many[place] = self.many.constant(body[place].value, body[place].type)
            else:
                self.known_many[place] = self.splat(name, body[place].type) if place in read else "poison"

    def number_of(self, phase: Phase, fold: int) -> int:
        before = self.kernel.phases[: self.kernel.phases.index(phase)]
        return sum(len(each.folds) for each in before) + fold

    def walk(
        self,
        phase: Phase,
        folds: list[Fold],
        start: str,
        carried: list[list[str]],
        lanes: int,
        unroll: int,
    ) -> tuple[str, list[list[str]]]:
        """One loop along the innermost axis; gives where it ended, and what was folded."""
        out, text = self.out, self.one if lanes == 1 else self.many
        head, body, done = out.label("walk"), out.label("step"), out.label("walked")
        before = self.out.block
        self.go(head)
        place, following = out.name("i"), out.name("i")
        names = [[out.name("a") for _ in each] for each in carried]
        slot = len(out.lines)
        out.line(f"{following} = add i64 {place}, {lanes * unroll}")
        more = out.compared("sle", following, self.end)
        out.choose(more, body, done)
        self.out.begin(body)
        results = [list(each) for each in names]
        for turn in range(unroll):
            at = place if not turn else out.add(place, turn * lanes)
            known = self.known_one if lanes == 1 else self.known_many
            values = text.write(phase.body, self.leaves(at, lanes), known)
            if lanes > 1:
                self.store_vectors(phase.stores, values, at)
            for store in phase.stores if lanes == 1 else ():
                self.store(store.access, values[store.value], at, lanes)
            for number, fold in enumerate(folds):
                if lanes == 1 and self.kernel.rows:
                    self.add_to_total(number, fold, values[fold.value], at)
                    continue
                args = [results[number][turn], values[fold.value]]
                results[number][turn] = HANDLERS[COMBINED[fold.kind]](text, fold.type, args, [fold.type] * 2)
            self.fold_columns(phase, values, at, lanes)
        out.go(head)
        last = self.out.block
        phis = [f"  {place} = phi i64 [ {start}, %{before} ], [ {following}, %{last} ]"]
        for fold, inner, first, made in zip(folds, names, carried, results):
            for name, old, new in zip(inner, first, made):
                phi = f"phi {text.type(fold.type)} [ {old}, %{before} ], [ {new}, %{last} ]"
                phis.append(f"  {name} = {phi}")
        out.lines[slot:slot] = phis
        self.out.begin(done)
        return place, names

    def gather_lanes(self, fold: Fold, vectors: list[str]) -> str:
        """One number of several vectors."""
        whole = self.many.halved(COMBINED[fold.kind], fold.type, vectors)
        return self.one_of_lanes(COMBINED[fold.kind], fold.type, whole)

    def one_of_lanes(self, op: str, type_: str, value: str) -> str:
        """One number of a vector: by halves, always in the same order."""
        handler, out, lanes = HANDLERS[op], self.out, self.lanes
        while lanes > 1:
            whole = f"<{lanes} x {element_type(type_)}>"
            half = lanes // 2
            parts = []
            for start in (0, half):
                mask = ", ".join(f"i32 {start + i}" for i in range(half))
                parts.append(
                    out.let(f"shufflevector {whole} {value}, {whole} poison, <{half} x i32> <{mask}>")
                )
            if half == 1:
                narrow = f"<1 x {element_type(type_)}>"
                parts = [out.let(f"extractelement {narrow} {part}, i64 0") for part in parts]
            value = handler(BodyText(out, half, self.lanes), type_, parts, [type_] * 2)
            lanes = half
        return value

    # -- operands --------------------------------------------------------------------------------------------
    def leaves(self, at: str, lanes: int) -> Callable[..., str]:
        return lambda each, *args: self.leaf(each, at, lanes, *args)

    def leaf(self, each: Instruction, at: str, lanes: int, *args: str) -> str:
        if each.op == "load":
            return self.load(each.value, at, lanes)
        if each.op == "gather":
            return self.gather(each, at, lanes, *args)
        if each.op == "index":
            return self.index(each.value, at, lanes)
        name = self.scalars[each.value] if each.op == "scalar" else self.folds[each.value]
        return name if lanes == 1 else self.splat(name, each.type)

    def gather(self, each: Instruction, at: str, lanes: int, index: str) -> str:
        """Elements beyond those of an access: neighbours, where all lanes go equally far."""
        out, access = self.out, self.kernel.accesses[each.value]
        memory, element = memory_type(access.type), element_type(access.type)
        align = f"align {size_of(access.type)}"
        alike = access.step is Step.ONE and each in self.alike
        found = "poison"
        for lane in range(1 if alike else lanes):
            far = index if lanes == 1 else out.let(f"extractelement <{lanes} x i64> {index}, i64 {lane}")
            place = at if not lane else out.add(at, lane)
            pointer = out.let(f"getelementptr {memory}, ptr {self.address(each.value, place)}, i64 {far}")
            width = lanes if alike else 1
            whole = memory if width == 1 else f"<{lanes} x {memory}>"
            value = out.let(f"load {whole}, ptr {pointer}, {align}")
            if access.type == "b1":
                value = out.let(f"icmp ne {whole} {value}, {'0' if width == 1 else 'zeroinitializer'}")
            if width == lanes:
                return value
            found = out.let(f"insertelement <{lanes} x {element}> {found}, {element} {value}, i64 {lane}")
        return found

    def splat(self, name: str, type_: str, lanes: int | None = None) -> str:
        """A number in all lanes."""
        lanes = lanes or self.lanes
        whole = f"<{lanes} x {element_type(type_)}>"
        first = self.out.let(f"insertelement {whole} poison, {element_type(type_)} {name}, i64 0")
        return self.out.let(f"shufflevector {whole} {first}, {whole} poison, <{lanes} x i32> zeroinitializer")

    def index(self, axis: int, at: str, lanes: int) -> str:
        if axis:
            place = self.places[-axis]
            return place if lanes == 1 else self.splat(place, "i64")
        if lanes == 1:
            return at
        steps = ", ".join(f"i64 {i}" for i in range(lanes))
        return self.out.let(f"add <{lanes} x i64> {self.splat(at, 'i64')}, <{steps}>")

    def address(self, number: int, at: str) -> str:
        access = self.kernel.accesses[number]
        if access.step is Step.NONE:
            return self.pointers[number]
        if access.step is Step.OTHER:
            at = self.out.scaled(at, self.strides[number][-1])
        return self.out.let(
            f"getelementptr {memory_type(access.type)}, ptr {self.pointers[number]}, i64 {at}"
        )

    def load_one(self, number: int, at: str) -> str:
        type_ = self.kernel.accesses[number].type
        value = self.out.let(
            f"load {memory_type(type_)}, ptr {self.address(number, at)}, align {size_of(type_)}"
        )
        return self.out.other("i8", value, "0") if type_ == "b1" else value

    def load(self, number: int, at: str, lanes: int) -> str:
        access, out = self.kernel.accesses[number], self.out
        if number in self.fixed:
            return self.fixed[number] if lanes == 1 else self.splat(self.fixed[number], access.type)
        if lanes == 1:
            return self.load_one(number, at)
        if access.apart and access.leader in self.stretches:
            return self.load_apart(access, at)
        whole = f"<{lanes} x {memory_type(access.type)}>"
        if access.step is Step.ONE:
            pointer = self.address(number, at)
            value = out.let(f"load {whole}, ptr {pointer}, align {size_of(access.type)}")
            if access.type == "b1":
                value = out.let(f"icmp ne {whole} {value}, zeroinitializer")
            return value
        value = "poison"
        whole = f"<{lanes} x {element_type(access.type)}>"
        for lane in range(lanes):
            place = at if not lane else out.add(at, lane)
            one = self.load_one(number, place)
            value = out.let(f"insertelement {whole} {value}, {element_type(access.type)} {one}, i64 {lane}")
        return value

    def store(self, number: int, value: str, at: str, lanes: int) -> None:
        access, out = self.kernel.accesses[number], self.out
        memory, element = memory_type(access.type), element_type(access.type)
        align = size_of(access.type)
        if lanes > 1 and access.step is not Step.ONE:
            for lane in range(lanes):
                place = at if not lane else out.add(at, lane)
                one = out.let(f"extractelement <{lanes} x {element}> {value}, i64 {lane}")
                self.store(number, one, place, 1)
            return
        whole, narrow = (
            (memory, element) if lanes == 1 else (f"<{lanes} x {memory}>", f"<{lanes} x {element}>")
        )
        if access.type == "b1":
            value = out.let(f"zext {narrow} {value} to {whole}")
        out.line(f"store {whole} {value}, ptr {self.address(number, at)}, align {align}")

    # -- elements that lie apart -----------------------------------------------------------------------------
    def read_together(self) -> dict[int, list[int]]:
        """By the first access of a stretch, which of its places are read: of those that are worth it."""
        found: dict[int, list[int]] = {}
        for number in sorted(self.loaded):
            access = self.kernel.accesses[number]
            if access.apart:
                found.setdefault(access.leader, []).append(access.place)
        return {
            leader: places for leader, places in found.items()
            if self.kernel.accesses[leader].apart <= self.lanes * len(places)
        }  # fmt: skip

    def load_apart(self, access: Access, at: str) -> str:
        """A vector of elements that lie apart."""
        key, out, leader = (access.leader, at), self.out, access.leader
        memory = memory_type(access.type)
        if key not in self.taken_apart:
            start = self.address(leader, at)
            whole, align = f"<{self.lanes} x {memory}>", f"align {size_of(access.type)}"

            def load(distance: int) -> str:
                pointer = out.let(f"getelementptr {memory}, ptr {start}, i64 {distance}")
                return out.let(f"load {whole}, ptr {pointer}, {align}")

            shuffles = Shuffles(out, memory, self.lanes)
            self.taken_apart[key] = loaded(shuffles, access.apart, self.stretches[leader], load)
        value = self.taken_apart[key][access.place]
        if access.type == "b1":
            value = out.let(f"icmp ne <{self.lanes} x i8> {value}, zeroinitializer")
        return value

    def store_vectors(self, stores: Sequence[Store], values: Sequence[str], at: str) -> None:
        """What a phase keeps of several elements: whole stretches as they lie."""
        stretches: dict[int, dict[int, Store]] = {}
        for store in stores:
            access = self.kernel.accesses[store.access]
            if access.apart:
                stretches.setdefault(access.leader, {})[access.place] = store
            else:
                self.store(store.access, values[store.value], at, self.lanes)
        for leader, found in stretches.items():
            access = self.kernel.accesses[leader]
            if len(found) < access.apart:
                for store in found.values():
                    self.store(store.access, values[store.value], at, self.lanes)
                continue
            self.store_apart(access, leader, [values[found[n].value] for n in range(access.apart)], at)

    def store_apart(self, access: Access, leader: int, values: list[str], at: str) -> None:
        """All elements of a stretch."""
        out, memory, lanes = self.out, memory_type(access.type), self.lanes
        if access.type == "b1":
            values = [out.let(f"zext <{lanes} x i1> {each} to <{lanes} x i8>") for each in values]
        start = self.address(leader, at)
        for number, vector in enumerate(Shuffles(out, memory, lanes).together(values, access.apart)):
            pointer = out.let(f"getelementptr {memory}, ptr {start}, i64 {number * lanes}")
            out.line(f"store <{lanes} x {memory}> {vector}, ptr {pointer}, align {size_of(access.type)}")

    # -- partial results -------------------------------------------------------------------------------------
    def column_folds(self) -> list[Fold]:
        return [fold for fold in self.all_folds() if fold.scope is Scope.COLUMN]

    def clear_columns(self) -> None:
        """Starts the partial results of this chunk."""
        for fold in self.all_folds():
            if fold.scope is Scope.ROW:
                continue
            assert fold.access is not None
            step = self.sizes[-1] if fold.scope is Scope.COLUMN else "1"
            distance = self.out.scaled("%chunk", step)
            memory = memory_type(fold.type)
            self.bases[fold.access] = self.out.past(self.bases[fold.access], distance, memory)
        columns = self.column_folds()
        if columns:
            self.pointers = list(self.bases)
            self.fill(columns)

    def fill(self, columns: list[Fold]) -> None:
        names = "clear", "clearing", "cleared", "i"
        with self.out.counting(0, self.sizes[-1], names=names) as place:
            for fold in columns:
                assert fold.access is not None
                self.store(fold.access, literal(identity(fold), fold.type), place.at, 1)

    def fold_columns(self, phase: Phase, values: list[str], at: str, lanes: int) -> None:
        text = self.one if lanes == 1 else self.many
        for fold in phase.folds:
            if fold.scope is Scope.COLUMN:
                assert fold.access is not None
                before = self.load(fold.access, at, lanes)
                args = [before, values[fold.value]]
                made = HANDLERS[COMBINED[fold.kind]](text, fold.type, args, [fold.type] * 2)
                self.store(fold.access, made, at, lanes)

    def clear_totals(self) -> None:
        """Starts what is folded over all rows: a vector in memory, to whose lanes rows are added in turn."""
        for number, fold in enumerate(self.all_folds()):
            if fold.scope is Scope.ALL:
                room = self.out.let(f"alloca [{self.lanes} x {memory_type(fold.type)}], align 64")
                self.rooms[number] = room
                self.put_total(fold.type, room, self.many.constant(identity(fold), fold.type), self.lanes)

    def put_total(self, type_: str, pointer: str, value: str, lanes: int) -> None:
        if type_ == "b1":
            value, type_ = (
                self.out.let(f"zext {vector_type('b1', lanes)} {value} to {vector_type('u8', lanes)}"),
                "u8",
            )
        self.out.line(f"store {vector_type(type_, lanes)} {value}, ptr {pointer}, align {size_of(type_)}")

    def total(self, type_: str, pointer: str, lanes: int) -> str:
        whole = vector_type("u8" if type_ == "b1" else type_, lanes)
        value = self.out.let(f"load {whole}, ptr {pointer}, align {size_of(type_)}")
        return (
            self.out.let(f"trunc {whole} {value} to {vector_type('b1', lanes)}") if type_ == "b1" else value
        )

    def add_to_total(self, number: int, fold: Fold, value: str, row: str) -> None:
        """Adds what a row gives to its lane."""
        lane = self.out.and_(self.out.sub(row, "%lo"), self.lanes - 1, "i64")
        pointer = self.out.item_at(self.rooms[number], lane, memory_type(fold.type))
        args = [self.total(fold.type, pointer, 1), value]
        made = HANDLERS[COMBINED[fold.kind]](self.one, fold.type, args, [fold.type] * 2)
        self.put_total(fold.type, pointer, made, 1)

    def keep_totals(self) -> None:
        """Stores what was folded over everything in the chunk."""
        for number, fold in enumerate(self.all_folds()):
            if number in self.rooms:
                vector = self.total(fold.type, self.rooms[number], self.lanes)
                self.totals[number] = self.one_of_lanes(COMBINED[fold.kind], fold.type, vector)
            if number in self.totals:
                assert fold.access is not None
                self.pointers = list(self.bases)
                self.store(fold.access, self.totals[number], "0", 1)


def kernel_lines(kernel: Kernel, name: str, vector_bytes: int) -> list[str]:
    """The function of a kernel, with what it declares in front."""
    writer = Writer()
    KernelText(kernel, writer, vector_bytes).write(name)
    return [*writer.declared.values(), *writer.lines]


def module_text(kernels: dict[str, Kernel], vector_bytes: int) -> str:
    """A module with these kernels."""
    writer = Writer()
    for name, kernel in kernels.items():
        KernelText(kernel, writer, vector_bytes).write(name)
    return "\n".join([*writer.declared.values(), *writer.lines]) + "\n"
