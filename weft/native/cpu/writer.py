"""Functions as LLVM text, line by line: what all that write machine code share.

Gives names of registers and blocks that are fresh, and the instructions that are needed everywhere:
branches, loops, loads, stores, calls. One idea: a value is the name of a register, so text is written as
expressions are in Python, and a loop is a `with` block whose variables are phis.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final

from weft.core.slices import give_way
from weft.native.ir.scalar import FLOATS, bits_of

PARAMETERS: Final = ("ptr %record", "ptr %buffers", "ptr %outside", "i64 %lo", "i64 %hi", "i64 %chunk")
"""Of the functions of steps: see Note [Records of a program] in `weft.native.cpu.pool`."""
LLVM: Final = {"f32": "float", "f64": "double", "b1": "i1", "f16": "half", "b16": "i16"}


# -- types ---------------------------------------------------------------------------------------------------
def element_type(type_: str) -> str:
    """The LLVM type of one number."""
    return LLVM.get(type_) or f"i{bits_of(type_)}"


def memory_type(type_: str) -> str:
    """The LLVM type of one number as it stands in memory: truth takes a byte."""
    return "i8" if type_ == "b1" else element_type(type_)


def vector_type(type_: str, lanes: int) -> str:
    return element_type(type_) if lanes == 1 else f"<{lanes} x {element_type(type_)}>"


def literal(number: Any, type_: str) -> str:
    """A number as LLVM spells it: floats by their bits."""
    if type_ == "b1":
        return "true" if number else "false"
    if type_ in FLOATS:  # float32 is spelt as the float64 of the same value
        return f"0x{struct.unpack('<Q', struct.pack('<d', float(number)))[0]:016X}"
    number = int(number)
    return str(number - (1 << bits_of(type_)) if number >= 1 << (bits_of(type_) - 1) else number)


# -- lines ---------------------------------------------------------------------------------------------------
class Loop:
    """A loop that is being written: `at` counts, `values` are carried; set `following` before it ends."""

    def __init__(self, at: str, values: list[str]) -> None:
        self.at, self.values, self.following = at, values, list(values)


class Phi:
    """A value that depends on where control comes from; `add` says what it is, coming from here."""

    def __init__(self, name: str, type: str) -> None:
        self.name, self.type = name, type
        self.sources: list[tuple[str, str]] = []

    def text(self) -> str:
        sources = ", ".join(f"[ {value}, %{block} ]" for value, block in self.sources)
        return f"  {self.name} = phi {self.type} {sources}"


class Writer:
    """Lines, fresh names, and what the module has to declare."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.declared: dict[str, str] = {}
        self.block = "entry"
        """The label of the block that is being written."""
        self.count = 0

    def text(self) -> str:
        """The whole module."""
        return "\n".join([*self.declared.values(), *self.lines]) + "\n"

    # -- lines and names -------------------------------------------------------------------------------------
    def name(self, hint: str = "v") -> str:
        self.count += 1
        return f"%{hint}{self.count}"

    def label(self, hint: str = "b") -> str:
        """A name for a block."""
        self.count += 1
        return f"{hint}{self.count}"

    def line(self, text: str) -> None:
        self.lines.append(f"  {text}")

    def let(self, text: str, hint: str = "v") -> str:
        """A line that gives a value; its name."""
        name = self.name(hint)
        self.lines.append(f"  {name} = {text}")
        return name

    def declare(self, name: str, result: str, *types: str) -> str:
        """A function of the module's outside; its name."""
        self.declared[name] = f"declare {result} {name}({', '.join(types)})"
        return name

    @contextmanager
    def function(self, result: str, name: str, *parameters: str, attributes: str = "") -> Iterator[None]:
        """A function of its own; parameters with their types, attributes each with a blank behind it."""
        self.lines.append(f"define {result} @{name}({', '.join(parameters)}) {attributes}{{")
        self.begin("entry")
        yield
        self.lines.append("}")

    # -- control ---------------------------------------------------------------------------------------------
    def begin(self, label: str) -> None:
        give_way()
        self.lines.append(f"{label}:")
        self.block = label

    def go(self, label: str) -> None:
        self.line(f"br label %{label}")

    def choose(self, condition: str, yes: str, no: str) -> None:
        self.line(f"br i1 {condition}, label %{yes}, label %{no}")

    def need(self, condition: str, otherwise: str = "missed") -> None:
        """Goes on where the condition holds."""
        on = self.label()
        self.choose(condition, on, otherwise)
        self.begin(on)

    def switch(self, number: str, cases: Mapping[int, str], otherwise: str) -> None:
        listed = " ".join(f"i64 {case}, label %{label}" for case, label in cases.items())
        self.line(f"switch i64 {number}, label %{otherwise} [{listed}]")

    def ret(self, type: str = "void", value: str | int = "") -> None:
        self.line(f"ret {type} {value}".rstrip())

    @contextmanager
    def when(self, condition: str) -> Iterator[None]:
        """What is done only if a condition holds."""
        inside, after = self.label("then"), self.label("after")
        self.choose(condition, inside, after)
        self.begin(inside)
        yield
        self.go(after)
        self.begin(after)

    @contextmanager
    def counting(
        self,
        start: str | int,
        stop: str | int,
        step: str | int = 1,
        carried: Sequence[tuple[str, str]] = (),
        names: tuple[str, str, str, str] = ("head", "body", "done", "i"),
    ) -> Iterator[Loop]:
        """`for at in range(start, stop, step)`; carried values are (type, first); afterwards, `values` are
        the last ones. `names` are those of its blocks and of its variable, for who reads the text.
        """
        head, body, done = map(self.label, names[:3])
        before = self.block
        self.go(head)
        self.begin(head)
        at, following = self.name(names[3]), self.name(names[3])
        values = [self.name("c") for _ in carried]
        slot = len(self.lines)
        self.choose(self.let(f"icmp slt i64 {at}, {stop}"), body, done)
        self.begin(body)
        made = Loop(at, values)
        yield made
        self.line(f"{following} = add i64 {at}, {step}")
        self.go(head)
        phis = [f"  {at} = phi i64 [ {start}, %{before} ], [ {following}, %{self.block} ]"]
        for (type_, first), name, value in zip(carried, values, made.following):
            phis.append(f"  {name} = phi {type_} [ {first}, %{before} ], [ {value}, %{self.block} ]")
        self.lines[slot:slot] = phis
        self.begin(done)

    @contextmanager
    def joining(self, label: str, *phis: Phi) -> Iterator[None]:
        """A block that several lead to: what they bring, `phis` are told until the `with` block ends."""
        self.begin(label)
        slot = len(self.lines)
        yield
        self.lines[slot:slot] = [each.text() for each in phis]

    def phi(self, type: str, hint: str = "v") -> Phi:
        """For `joining`."""
        return Phi(self.name(hint), type)

    def bring(self, phi: Phi, value: str | int) -> None:
        """What a phi is where control comes from this block."""
        phi.sources.append((str(value), self.block))

    # -- memory ----------------------------------------------------------------------------------------------
    def at(self, base: str, offset: int | str) -> str:
        """The address so many bytes further."""
        return self.let(f"getelementptr i8, ptr {base}, i64 {offset}")

    def load(self, base: str, offset: int | str = 0, type: str = "ptr") -> str:
        return self.let(f"load {type}, ptr {self.at(base, offset)}")

    def store(self, type: str, value: str, base: str, offset: int | str = 0) -> None:
        self.line(f"store {type} {value}, ptr {self.at(base, offset)}")

    def store_at(self, type: str, value: str | int, place: str) -> None:
        """Stores at an address that is known."""
        self.line(f"store {type} {value}, ptr {place}")

    def number_of(self, pointer: str) -> str:
        """An address as a number."""
        return self.let(f"ptrtoint ptr {pointer} to i64")

    def past(self, base: str, count: int | str, type: str) -> str:
        """The address so many elements further."""
        return self.let(f"getelementptr {type}, ptr {base}, i64 {count}", "p")

    def recorded(self, place: int | str, table: str = "%record") -> str:
        """A number of the record that a step's function is given."""
        slot = self.let(f"getelementptr i64, ptr {table}, i64 {place}")
        return self.let(f"load i64, ptr {slot}", "n")

    def buffer(self, place: int) -> str:
        """The address of an operand whose number stands at this place of the record."""
        slot = self.let(f"getelementptr ptr, ptr %buffers, i64 {self.recorded(place)}")
        return self.let(f"load ptr, ptr {slot}", "p")

    def item_at(self, base: str, number: int | str, type: str = "i64") -> str:
        """The address of an item of an array."""
        return self.let(f"getelementptr {type}, ptr {base}, i64 {number}", "p") if number != 0 else base

    def item(self, base: str, number: int | str, type: str = "i64", hint: str = "n") -> str:
        return self.let(f"load {type}, ptr {self.item_at(base, number, type)}", hint)

    def put_item(self, type: str, value: str | int, base: str, number: int | str) -> None:
        self.line(f"store {type} {value}, ptr {self.item_at(base, number, type)}")

    # -- numbers and calls -----------------------------------------------------------------------------------
    def add(self, a: str, b: str | int) -> str:
        return self.let(f"add i64 {a}, {b}")

    def sub(self, a: str, b: str | int) -> str:
        return self.let(f"sub i64 {a}, {b}")

    def scaled(self, number: str, by: int | str) -> str:
        return self.let(f"mul i64 {number}, {by}")

    def quotient(self, a: str, b: str | int) -> str:
        """Of numbers that are not negative, as the remainder is."""
        return self.let(f"udiv i64 {a}, {b}")

    def remainder(self, a: str, b: str | int) -> str:
        return self.let(f"urem i64 {a}, {b}")

    def changed(self, how: str, value: str, type: str, to: str) -> str:
        """A value as one of another type: `how` is an instruction, as `zext` or `bitcast`."""
        return self.let(f"{how} {type} {value} to {to}")

    def compared(self, how: str, a: str, b: str | int) -> str:
        """Whether numbers are as `how` says: `slt` and the like for those with signs, `ult` for others."""
        return self.let(f"icmp {how} i64 {a}, {b}")

    def and_(self, a: str, b: str | int, type: str = "i1") -> str:
        return self.let(f"and {type} {a}, {b}")

    def or_(self, a: str, b: str) -> str:
        return self.let(f"or i1 {a}, {b}")

    def not_(self, a: str) -> str:
        return self.let(f"xor i1 {a}, true")

    def same(self, type: str, left: str, right: str) -> str:
        return self.let(f"icmp eq {type} {left}, {right}")

    def other(self, type: str, left: str, right: str) -> str:
        return self.let(f"icmp ne {type} {left}, {right}")

    def pick(self, condition: str, type: str, yes: str | int, no: str | int) -> str:
        return self.let(f"select i1 {condition}, {type} {yes}, {type} {no}")

    def call(self, result: str, name: str, *arguments: str) -> str:
        """A call of a function; its result, if it has one."""
        text = f"call {result} {name}({', '.join(arguments)})"
        if result.startswith("void"):
            self.line(text)
            return ""
        return self.let(text)

    def intrinsic(self, base: str, type_: str, lanes: int, *args: str) -> str:
        """A call of an intrinsic that takes and gives values of one type, of ours."""
        whole = vector_type(type_, lanes)
        suffix = f"{'' if lanes == 1 else f'v{lanes}'}{type_ if type_ != 'b1' else 'i1'}".replace("u", "i")
        name = self.declare(f"@llvm.{base}.{suffix}", whole, *[whole] * len(args))
        return self.call(whole, name, *[f"{whole} {arg}" for arg in args])
