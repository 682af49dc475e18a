"""Functions with loops as LLVM text: a thin layer above lines.

Gives what the writers of convolutions and pools need: numbers from the record, arithmetic, loops with carried
values, vectors with masks. One idea: a loop is a `with` block whose variables are phis, so no pass of the
compiler is needed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Final

from weft.native.cpu.writer import PARAMETERS, Loop, Writer

NAME: Final = "function"
"""What a function is called in its own text."""
ELEMENTS: Final = {"f32": "float", "f64": "double", "i64": "i64"}
BYTES: Final = {"f32": 4, "f64": 8, "i64": 8}


class Code:
    """One function `(record, buffers, outside, lo, hi, chunk)` on numbers of a type."""

    def __init__(self, type_: str, vector_bytes: int) -> None:
        self.out = Writer()
        self.type, self.element, self.size = type_, ELEMENTS[type_], BYTES[type_]
        self.lanes = vector_bytes // self.size
        self.vector = f"<{self.lanes} x {self.element}>"
        self.mask = f"<{self.lanes} x i1>"
        self.suffix = f"v{self.lanes}{type_}"
        self.out.begin("entry")

    def text(self) -> str:
        """The whole module."""
        head = f"define void @{NAME}({', '.join(PARAMETERS)}) {{"
        lines = [*self.out.declared.values(), head, *self.out.lines, "  ret void", "}"]
        return "\n".join(lines) + "\n"

    # -- numbers ---------------------------------------------------------------------------------------------
    def add(self, a: str, b: str | int) -> str:
        return self.out.add(a, b)

    def sub(self, a: str, b: str | int) -> str:
        return self.out.sub(a, b)

    def mul(self, a: str, b: str | int) -> str:
        return self.out.let(f"mul i64 {a}, {b}")

    def least(self, a: str, b: str | int) -> str:
        less = self.out.let(f"icmp slt i64 {a}, {b}")
        return self.out.let(f"select i1 {less}, i64 {a}, i64 {b}")

    def apart(self, a: str, b: str) -> tuple[str, str]:
        """Quotient and remainder."""
        return self.out.let(f"udiv i64 {a}, {b}"), self.out.let(f"urem i64 {a}, {b}")

    def number(self, place: int | str, table: str = "%record") -> str:
        return self.out.recorded(place, table)

    def numbers(self, first: int, count: int) -> list[str]:
        return [self.number(first + i) for i in range(count)]

    def table(self, place: str) -> str:
        """A part of the record."""
        return self.out.let(f"getelementptr i64, ptr %record, i64 {place}")

    def buffer(self, place: int) -> str:
        """The address of an operand whose number stands at this place of the record."""
        return self.out.buffer(place)

    def past(self, pointer: str, count: str | int, element: str | None = None) -> str:
        """The address so many elements further."""
        return self.out.past(pointer, count, element or self.element)

    def room(self, vectors: int) -> str:
        """Memory of the function's own, asked for before any loop: values that a loop is to count through."""
        name = self.out.name("room")
        self.out.lines.insert(1, f"  {name} = alloca [{vectors} x {self.vector}], align 64")
        return name

    def put_by(self, values: Sequence[str], room: str) -> None:
        """Puts vectors into memory, one behind the other."""
        for place, value in enumerate(values):
            self.store(value, self.past(room, place * self.lanes))

    # -- loops -----------------------------------------------------------------------------------------------
    def loop(
        self, start: str, stop: str, step: int | str = 1, carried: Sequence[tuple[str, str]] = ()
    ) -> AbstractContextManager[Loop]:
        """`for at in range(start, stop, step)`; see `weft.native.cpu.writer.Writer.counting`."""
        return self.out.counting(start, stop, step, carried)

    def when(self, condition: str) -> AbstractContextManager[None]:
        """What is done only if a condition holds."""
        return self.out.when(condition)

    def either(self, condition: str) -> Iterator[bool]:
        """First what is done where a condition holds, then what is done otherwise."""
        yes, no, after = self.out.label("then"), self.out.label("else"), self.out.label("after")
        self.out.choose(condition, yes, no)
        for label in (yes, no):
            self.out.begin(label)
            yield label == yes
            self.out.go(after)
        self.out.begin(after)

    def all_lanes(self, bits: str) -> str:
        """Whether the lower bits of a number ask for every lane: then no mask is needed, which processors
        without masks of their own are slow with."""
        return self.out.let(f"icmp eq i64 {bits}, {(1 << self.lanes) - 1}")

    def store_lanes(self, value: str, pointer: str, bits: str) -> None:
        """Stores the lanes that the lower bits of a number ask for."""
        for whole in self.either(self.all_lanes(bits)):
            if whole:
                self.store(value, pointer)
            else:
                self.masked_store(value, pointer, self.lanes_of(bits))

    def store_first(self, value: str, pointer: str, count: str) -> None:
        """Stores the first lanes; all where the count is greater."""
        for whole in self.either(self.out.let(f"icmp sge i64 {count}, {self.lanes}")):
            if whole:
                self.store(value, pointer)
            else:
                self.masked_store(value, pointer, self.first_lanes(count))

    def go(self, label: str) -> None:
        """Ends the present block by going to another, which begins."""
        self.out.go(label)
        self.out.begin(label)

    # -- vectors ---------------------------------------------------------------------------------------------
    def splat(self, value: str) -> str:
        first = self.out.let(f"insertelement {self.vector} poison, {self.element} {value}, i64 0")
        zeros = f"<{self.lanes} x i32> zeroinitializer"
        return self.out.let(f"shufflevector {self.vector} {first}, {self.vector} poison, {zeros}")

    def load(self, pointer: str) -> str:
        return self.out.let(f"load {self.vector}, ptr {pointer}, align {self.size}")

    def load_one(self, pointer: str) -> str:
        return self.out.let(f"load {self.element}, ptr {pointer}, align {self.size}")

    def store(self, value: str, pointer: str) -> None:
        self.out.line(f"store {self.vector} {value}, ptr {pointer}, align {self.size}")

    def store_one(self, value: str, pointer: str) -> None:
        self.out.line(f"store {self.element} {value}, ptr {pointer}, align {self.size}")

    def fma(self, a: str, b: str, c: str) -> str:
        return self.out.intrinsic("fma", self.type, self.lanes, a, b, c)

    def plus(self, a: str, b: str) -> str:
        return self.out.let(f"fadd {self.vector} {a}, {b}")

    def lanes_of(self, bits: str) -> str:
        """A mask from the lower bits of a number."""
        narrow = self.out.let(f"trunc i64 {bits} to i{self.lanes}")
        return self.out.let(f"bitcast i{self.lanes} {narrow} to {self.mask}")

    def first_lanes(self, count: str) -> str:
        """A mask of the first lanes; of all where the count is greater."""
        whole = f"<{self.lanes} x i64>"
        first = self.out.let(f"insertelement {whole} poison, i64 {count}, i64 0")
        zeros = f"<{self.lanes} x i32> zeroinitializer"
        wide = self.out.let(f"shufflevector {whole} {first}, {whole} poison, {zeros}")
        steps = ", ".join(f"i64 {i}" for i in range(self.lanes))
        return self.out.let(f"icmp sgt {whole} {wide}, <{steps}>")

    def masked_load(self, pointer: str, mask: str, otherwise: str = "zeroinitializer") -> str:
        name = f"@llvm.masked.load.{self.suffix}.p0"
        self.out.declared[name] = f"declare {self.vector} {name}(ptr, i32, {self.mask}, {self.vector})"
        return self.out.let(
            f"call {self.vector} {name}(ptr {pointer}, i32 {self.size}, {self.mask} {mask}, "
            f"{self.vector} {otherwise})"
        )

    def masked_store(self, value: str, pointer: str, mask: str) -> None:
        name = f"@llvm.masked.store.{self.suffix}.p0"
        self.out.declared[name] = f"declare void {name}({self.vector}, ptr, i32, {self.mask})"
        self.out.line(
            f"call void {name}({self.vector} {value}, ptr {pointer}, i32 {self.size}, {self.mask} {mask})"
        )

    def spread(self, pointer: str, stride: str) -> str:
        """The addresses of lanes that lie so many elements apart."""
        whole = f"<{self.lanes} x i64>"
        first = self.out.let(f"insertelement {whole} poison, i64 {stride}, i64 0")
        zeros = f"<{self.lanes} x i32> zeroinitializer"
        wide = self.out.let(f"shufflevector {whole} {first}, {whole} poison, {zeros}")
        steps = ", ".join(f"i64 {i}" for i in range(self.lanes))
        distances = self.out.let(f"mul {whole} {wide}, <{steps}>")
        return self.out.let(f"getelementptr {self.element}, ptr {pointer}, {whole} {distances}")

    def gather(self, pointers: str, mask: str, otherwise: str = "zeroinitializer") -> str:
        name = f"@llvm.masked.gather.{self.suffix}.v{self.lanes}p0"
        pointer = f"<{self.lanes} x ptr>"
        self.out.declared[name] = f"declare {self.vector} {name}({pointer}, i32, {self.mask}, {self.vector})"
        return self.out.let(
            f"call {self.vector} {name}({pointer} {pointers}, i32 {self.size}, {self.mask} {mask}, "
            f"{self.vector} {otherwise})"
        )

    def scatter(self, value: str, pointers: str, mask: str) -> None:
        name = f"@llvm.masked.scatter.{self.suffix}.v{self.lanes}p0"
        pointer = f"<{self.lanes} x ptr>"
        self.out.declared[name] = f"declare void {name}({self.vector}, {pointer}, i32, {self.mask})"
        self.out.line(
            f"call void {name}({self.vector} {value}, {pointer} {pointers}, i32 {self.size}, "
            f"{self.mask} {mask})"
        )
