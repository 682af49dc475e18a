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

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

from weft.native.cpu.body_text import HANDLERS, BodyText
from weft.native.cpu.writer import Writer, element_type, literal, memory_type
from weft.native.ir.kernels import LANES, Fold, Kernel, Phase, Scope, Step
from weft.native.ir.scalar import FLOATS, TYPES, Instruction, bits_of

COMBINED: Final = {"sum": "add", "prod": "mul", "max": "max", "min": "min", "any": "or", "all": "and"}

SHORT: Final = 12
"""So many instructions do not hide that an addition waits for the one before."""


def identity(fold: Fold) -> Any:
    """What a fold starts from."""
    kind = TYPES[fold.type]
    if fold.kind in ("sum", "any"):
        return 0
    if fold.kind in ("prod", "all"):
        return 1
    if fold.type in FLOATS:
        return float("-inf") if fold.kind == "max" else float("inf")
    limits: Any = (0, 1) if fold.type == "b1" else (_low(kind), _high(kind))
    return limits[0] if fold.kind == "max" else limits[1]


def _low(kind: Any) -> int:
    return 0 if kind.kind == "u" else -(1 << (8 * kind.itemsize - 1))


def _high(kind: Any) -> int:
    return int((1 << (8 * kind.itemsize - (0 if kind.kind == "u" else 1))) - 1)


def size_of(type_: str) -> int:
    return 1 if type_ == "b1" else bits_of(type_) // 8


def lanes_for(kernel: Kernel, vector_bytes: int) -> int:
    """How many elements are worked on at once: a vector of the smallest numbers that matter."""
    types = {each.type for phase in kernel.phases for each in phase.body} | {a.type for a in kernel.accesses}
    sizes = [size_of(type_) for type_ in types if type_ in FLOATS or type_ in ("i32", "i64", "u32", "u64")]
    return vector_bytes // min(sizes, default=4)


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
        self.lanes = lanes_for(kernel, vector_bytes)
        self.one = BodyText(writer, 1)
        self.many = BodyText(writer, self.lanes)
        self.folds: list[str] = []
        self.fold_types: list[str] = []
        self.totals: dict[int, str] = {}
        self.pointers: list[str] = []
        self.fixed: dict[int, str] = {}
        self.known_one: dict[int, str] = {}
        self.known_many: dict[int, str] = {}
        bodies = [body for phase in kernel.phases for body in (phase.body, phase.after)]
        self.loaded = {each.value for body in bodies for each in body if each.op == "load"}
        self.alike = {each for phase in kernel.phases for each in alike_gathers(phase.body, kernel)}

    # -- the whole -------------------------------------------------------------------------------------------
    def write(self, name: str) -> None:
        out, kernel = self.out, self.kernel
        parameters = "ptr %record, ptr %buffers, ptr %outside, i64 %lo, i64 %hi, i64 %chunk"
        attributes = "optnone noinline " if kernel.quick else ""
        out.lines.append(f"define void @{name}({parameters}) {attributes}{{")
        out.begin("entry")
        place = 0
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
        self.clear_columns()
        if kernel.outer:
            self.rows()
        else:
            self.row([])
            self.keep_totals({place: self.totals[place] for place in self.totals})
        out.line("ret void")
        out.lines.append("}")

    def number(self, place: int) -> str:
        slot = self.out.let(f"getelementptr i64, ptr %record, i64 {place}")
        return self.out.let(f"load i64, ptr {slot}", "n")

    def scalar(self, place: int, type_: str) -> str:
        raw = self.number(place)
        if type_ in FLOATS:
            double = self.out.let(f"bitcast i64 {raw} to double")
            return double if type_ == "f64" else self.out.let(f"fptrunc double {double} to float")
        if bits_of(type_) == 64:
            return raw
        return self.out.let(f"trunc i64 {raw} to {element_type(type_)}")

    def base(self, place: int, access: Any) -> str:
        buffer = self.number(place)
        slot = self.out.let(f"getelementptr ptr, ptr %buffers, i64 {buffer}")
        start = self.out.let(f"load ptr, ptr {slot}", "p")
        offset = self.number(place + 1)
        return self.out.let(f"getelementptr {memory_type(access.type)}, ptr {start}, i64 {offset}", "p")

    def go(self, label: str) -> None:
        """Ends the present block by going to another, which opens."""
        self.out.go(label)
        self.out.begin(label)

    # -- rows ------------------------------------------------------------------------------------------------
    def rows(self) -> None:
        out = self.out
        head, body, done = out.label("rows"), out.label("row"), out.label("rows_done")
        before = self.out.block
        out.go(head)
        self.out.begin(head)
        row, following = out.name("row"), out.name("row")
        slot = len(out.lines)
        total_names = {
            number: out.name("total")
            for number, fold in enumerate(self.all_folds())
            if fold.scope is Scope.ALL
        }
        more = out.let(f"icmp slt i64 {row}, %hi")
        out.choose(more, body, done)
        self.out.begin(body)
        self.totals = dict(total_names)
        self.row(self.axes(row))
        out.line(f"{following} = add i64 {row}, 1")
        out.go(head)
        last = self.out.block
        phis = [f"  {row} = phi i64 [ %lo, %{before} ], [ {following}, %{last} ]"]
        for number, fold in enumerate(self.all_folds()):
            if number in total_names:
                start = literal(identity(fold), fold.type)
                type_ = element_type(fold.type)
                phi = f"phi {type_} [ {start}, %{before} ], [ {self.totals[number]}, %{last} ]"
                phis.append(f"  {total_names[number]} = {phi}")
        out.lines[slot:slot] = phis
        self.out.begin(done)
        self.keep_totals(total_names)

    def all_folds(self) -> list[Fold]:
        return [fold for phase in self.kernel.phases for fold in phase.folds]

    def axes(self, row: str) -> list[str]:
        """The place along each outer axis."""
        found: list[str] = []
        rest = row
        for axis in range(self.kernel.outer - 1, 0, -1):
            found.append(self.out.let(f"urem i64 {rest}, {self.sizes[axis]}"))
            rest = self.out.let(f"udiv i64 {rest}, {self.sizes[axis]}")
        return [rest, *reversed(found)]

    def row(self, places: list[str]) -> None:
        """All phases on one row."""
        out = self.out
        self.places = places
        self.pointers, self.fixed, self.folds, self.fold_types = [], dict(self.single), [], []
        for number, access in enumerate(self.kernel.accesses):
            pointer = self.bases[number]
            for axis, place in enumerate(places):
                distance = out.let(f"mul i64 {place}, {self.strides[number][axis]}")
                pointer = out.let(
                    f"getelementptr {memory_type(access.type)}, ptr {pointer}, i64 {distance}", "p"
                )
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
            unroll = self.unroll(phase) if rowwise else 1
            vectors = [[self.many.constant(identity(fold), fold.type)] * unroll for fold in rowwise]
            place, vectors = self.walk(phase, rowwise, place, vectors, self.lanes, unroll)
            if unroll > 1 and not self.kernel.even:
                heads = [[each[0]] for each in vectors]
                place, heads = self.walk(phase, rowwise, place, heads, self.lanes, 1)
                vectors = [[head[0], *each[1:]] for head, each in zip(heads, vectors)]
            starts = [self.gather_lanes(fold, each) for fold, each in zip(rowwise, vectors)]
        scalars = [[start] for start in starts]
        if self.lanes == 1 or not self.kernel.even:
            place, scalars = self.walk(phase, rowwise, place, scalars, 1, 1)
        results = iter([each[0] for each in scalars])
        for number, fold in enumerate(phase.folds):
            result = "poison" if fold.scope is Scope.COLUMN else next(results)
            if fold.scope is Scope.ALL:
                before = self.totals.get(self.number_of(phase, number))
                if before is not None:
                    result = HANDLERS[COMBINED[fold.kind]](
                        self.one, fold.type, [before, result], [fold.type] * 2
                    )
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

    def unroll(self, phase: Phase) -> int:
        """How many vectors a fold takes at a time: few, where their elements take longer than additions wait
        for each other.
        """
        length = sum(each.op not in ("const", "fold", "scalar") for each in phase.body)
        return LANES if length <= SHORT else LANES // 2 if length <= 4 * SHORT else 1

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
        more = out.let(f"icmp sle i64 {following}, {self.end}")
        out.choose(more, body, done)
        self.out.begin(body)
        results = [list(each) for each in names]
        for turn in range(unroll):
            at = place if not turn else out.let(f"add i64 {place}, {turn * lanes}")
            known = self.known_one if lanes == 1 else self.known_many
            values = text.write(phase.body, self.leaves(at, lanes), known)
            for store in phase.stores:
                self.store(store.access, values[store.value], at, lanes)
            for number, fold in enumerate(folds):
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
        """One number of several vectors: by halves, always in the same order."""
        handler, out = HANDLERS[COMBINED[fold.kind]], self.out
        while len(vectors) > 1:
            pairs = zip(vectors[::2], vectors[1::2])
            vectors = [handler(self.many, fold.type, [a, b], [fold.type] * 2) for a, b in pairs]
        value, lanes = vectors[0], self.lanes
        while lanes > 1:
            whole = f"<{lanes} x {element_type(fold.type)}>"
            half = lanes // 2
            parts = []
            for start in (0, half):
                mask = ", ".join(f"i32 {start + i}" for i in range(half))
                parts.append(
                    out.let(f"shufflevector {whole} {value}, {whole} poison, <{half} x i32> <{mask}>")
                )
            if half == 1:
                narrow = f"<1 x {element_type(fold.type)}>"
                parts = [out.let(f"extractelement {narrow} {part}, i64 0") for part in parts]
            value = handler(BodyText(out, half), fold.type, parts, [fold.type] * 2)
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
            place = at if not lane else out.let(f"add i64 {at}, {lane}")
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
            at = self.out.let(f"mul i64 {at}, {self.strides[number][-1]}")
        return self.out.let(
            f"getelementptr {memory_type(access.type)}, ptr {self.pointers[number]}, i64 {at}"
        )

    def load_one(self, number: int, at: str) -> str:
        type_ = self.kernel.accesses[number].type
        value = self.out.let(
            f"load {memory_type(type_)}, ptr {self.address(number, at)}, align {size_of(type_)}"
        )
        return self.out.let(f"icmp ne i8 {value}, 0") if type_ == "b1" else value

    def load(self, number: int, at: str, lanes: int) -> str:
        access, out = self.kernel.accesses[number], self.out
        if number in self.fixed:
            return self.fixed[number] if lanes == 1 else self.splat(self.fixed[number], access.type)
        if lanes == 1:
            return self.load_one(number, at)
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
            place = at if not lane else out.let(f"add i64 {at}, {lane}")
            one = self.load_one(number, place)
            value = out.let(f"insertelement {whole} {value}, {element_type(access.type)} {one}, i64 {lane}")
        return value

    def store(self, number: int, value: str, at: str, lanes: int) -> None:
        access, out = self.kernel.accesses[number], self.out
        memory, element = memory_type(access.type), element_type(access.type)
        align = size_of(access.type)
        if lanes > 1 and access.step is not Step.ONE:
            for lane in range(lanes):
                place = at if not lane else out.let(f"add i64 {at}, {lane}")
                one = out.let(f"extractelement <{lanes} x {element}> {value}, i64 {lane}")
                self.store(number, one, place, 1)
            return
        whole, narrow = (
            (memory, element) if lanes == 1 else (f"<{lanes} x {memory}>", f"<{lanes} x {element}>")
        )
        if access.type == "b1":
            value = out.let(f"zext {narrow} {value} to {whole}")
        out.line(f"store {whole} {value}, ptr {self.address(number, at)}, align {align}")

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
            distance = self.out.let(f"mul i64 %chunk, {step}")
            memory = memory_type(fold.type)
            self.bases[fold.access] = self.out.let(
                f"getelementptr {memory}, ptr {self.bases[fold.access]}, i64 {distance}", "p"
            )
        columns = self.column_folds()
        if columns:
            self.pointers = list(self.bases)
            self.fill(columns)

    def fill(self, columns: list[Fold]) -> None:
        out = self.out
        head, body, done = out.label("clear"), out.label("clearing"), out.label("cleared")
        before = self.out.block
        self.go(head)
        place, following = out.name("i"), out.name("i")
        slot = len(out.lines)
        more = out.let(f"icmp slt i64 {place}, {self.sizes[-1]}")
        out.choose(more, body, done)
        self.out.begin(body)
        for fold in columns:
            assert fold.access is not None
            self.store(fold.access, literal(identity(fold), fold.type), place, 1)
        out.line(f"{following} = add i64 {place}, 1")
        out.go(head)
        out.lines[slot:slot] = [f"  {place} = phi i64 [ 0, %{before} ], [ {following}, %{self.out.block} ]"]
        self.out.begin(done)

    def fold_columns(self, phase: Phase, values: list[str], at: str, lanes: int) -> None:
        text = self.one if lanes == 1 else self.many
        for fold in phase.folds:
            if fold.scope is Scope.COLUMN:
                assert fold.access is not None
                before = self.load(fold.access, at, lanes)
                args = [before, values[fold.value]]
                made = HANDLERS[COMBINED[fold.kind]](text, fold.type, args, [fold.type] * 2)
                self.store(fold.access, made, at, lanes)

    def keep_totals(self, totals: dict[int, str]) -> None:
        for number, fold in enumerate(self.all_folds()):
            if number in totals:
                assert fold.access is not None
                self.pointers = list(self.bases)
                self.store(fold.access, totals[number], "0", 1)


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
