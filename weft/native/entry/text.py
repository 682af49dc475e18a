"""The entry as machine code: one function that checks guards, runs a program and makes the results.

Gives the LLVM text of `enter(self, args, count)`, a function of Python's calling convention. One idea: it is
the same for every entry; what to check, run and give stands in tables that `self` (an array of numbers) leads
to, so an entry costs no compilation.

# Note [Tables]
`self` is an array of 64-bit numbers, named below; addresses are numbers, too. A check is a row of numbers:
what to do, a register for the result, and operands; registers hold borrowed references to Python objects, or
numbers. Which registers hold what is decided where expressions become rows
(`weft.native.entry.entry.Lowering`).
Nothing that runs here can release the interpreter lock or run a user's code before all checks are done, so
borrowed references stay good. Whatever is not as expected gives MISS; no error is raised, but interrupts
come through: what a function of Python's raised is shown to another one, which tells them from errors.
Where what a guard asks for is not so, as Python would find, too, the answer is NEVER: nobody asks again.

# Note [Numbers that change]
An entry whose program is a template has a second table of rows, `fills`, which compute the numbers of the
program from sizes in registers, and `stores`, which say where each number belongs. They are done where sizes
are others than in the last call, and in the first (`filled` says whether there was one); a row that fails is
a miss, before anything has changed. While a program runs other threads may come: where these have other
sizes, they miss (`busy` counts who is inside).

# Note [Collections]
Up to Python 3.11, making an object may start a garbage collection, which runs finalizers, and these may drop
what registers and addresses lead to. So nothing is collected while objects are made; later versions collect
between instructions of Python's alone.
"""

from __future__ import annotations

import sys
from typing import Final

from weft.native.cpu import calls
from weft.native.cpu.writer import Writer

HEADER: Final = (
    "alive", "checks", "checks_at", "registers", "miss", "api",
    "returned", "returned_at", "runs",
    "givens", "givens_at", "places", "template_at", "arena", "arena_at", "arena_bytes", "block",
    "home", "room", "last_at", "made", "made_at", "code", "steps", "outside", "release",
    "outputs", "outputs_at", "written", "written_at", "pool", "draw", "give_back", "seeds",
    "seeds_item", "calls",
    "sizes", "sizes_at", "sizes_last", "filled", "fills", "fills_at", "stores", "stores_at", "busy", "grow",
    "drops", "drops_at", "objects", "parts", "parts_at", "takes", "takes_at", "gives", "gives_at", "quiet",
    "never",
)  # fmt: skip
"""What stands in an entry's array, in order."""
ROW: Final = 5
"""How many numbers a row of any table has."""

API: Final = (
    "PyObject_GenericGetDict", "PyDict_GetItemWithError", "PyDict_Contains", "PyDict_Size", "PyDict_Next",
    "PyObject_RichCompareBool", "PyContextVar_Get", "PyObject_CallNoArgs", "PyObject_Vectorcall",
    "PyErr_Clear", "Py_IncRef", "Py_DecRef", "PyTuple_New", "PyType_GenericAlloc", "PyEval_SaveThread",
    "PyEval_RestoreThread", "PyList_New", "PyLong_FromLong", "PyLong_AsLong", "PyErr_Occurred",
    "aligned_alloc", "free", "PyArray_NewFromDescr", "PyGC_Disable", "PyGC_Enable",
    "PyErr_Fetch", "PyErr_NormalizeException", "PyException_SetTraceback", "PyErr_Restore",
    "PyFloat_FromDouble", "PyArray_NewCopy",
    "None", "True", "False", "zero", "Tensor", "Parameter", "View", "ndarray", "str", "int", "comes_through",
)  # fmt: skip
"""Addresses of functions and objects, in the order of their table."""

DATA, RANK, SIZES, STRIDES, KIND, FLAGS = (
    calls.DATA, calls.RANK, calls.SIZES, calls.STRIDES, calls.KIND, calls.FLAGS,
)  # fmt: skip
BASE, REFERRED = 48, 72
"""Where things stand in an array object."""
ITEMS = 24
"""Where a tuple's items stand, and a list's pointer to them."""
LENGTH = 16
FLOAT_AT: Final = 16
"""Where a float's bits stand."""
KEYS, GENERAL = 32, 10
"""Where a dict keeps its keys, and these of what kind they are: 0 unless all are exactly strings."""
VERSION = 384
"""Where a class keeps the number that changes whenever it, or a class behind it, does."""
ALIGNED, WRITEABLE = calls.ALIGNED, calls.WRITEABLE
COLLECTS: Final = not hasattr(sys, "monitoring")
"""See Note [Collections]; interpreters that collect between instructions alone have this module."""


class EntryText(Writer):
    """The text of `enter`, for tensors whose slots lie at these places."""

    def __init__(self, slots: dict[str, int]) -> None:
        super().__init__()
        self.tensor = slots
        self.slots: list[str] = []
        """Variables of loops, which stand in memory: see `loop`."""

    def put(self, text: str) -> None:
        """A line that gives no value."""
        self.line(text)

    def loop(self, count: str) -> tuple[str, str, str]:
        """Begins a loop: its counter, and the labels of what comes next and behind. Ends with `turn`."""
        head, body, done = self.label(), self.label(), self.label()
        self.slots.append(f"%slot{head}")
        self.store("i64", "0", f"%slot{head}")
        self.go(head)
        self.begin(head)
        number = self.load(f"%slot{head}", 0, "i64")
        self.choose(self.compared("ult", number, count), body, done)
        self.begin(body)
        return number, head, done

    def turn(self, number: str, head: str, done: str) -> None:
        """Ends a loop."""
        self.store("i64", self.add(number, 1), f"%slot{head}")
        self.go(head)
        self.begin(done)

    # -- tables ----------------------------------------------------------------------------------------------
    def header(self, name: str, type: str = "ptr") -> str:
        return self.load("%header", 8 * HEADER.index(name), type)

    def place_of(self, name: str) -> int:
        return HEADER.index(name)

    def api(self, name: str, type: str = "ptr") -> str:
        return self.load("%api", 8 * API.index(name), type)

    def call(self, result: str, name: str, *arguments: str) -> str:
        """A call of one of the functions of `API`."""
        return super().call(result, self.api(name), *arguments)

    def register(self, number: str) -> str:
        """The address of a register."""
        return self.at("%registers", self.scaled(number, 8))

    def field(self, row: str, place: int) -> str:
        return self.load(row, 8 * place, "i64")

    def pointer(self, row: str, place: int) -> str:
        return self.load(row, 8 * place)

    def operand(self, row: str, place: int, type: str = "ptr") -> str:
        """The object, or the number, in a register that a row names."""
        return self.load(self.register(self.field(row, place)), 0, type)

    def give(self, row: str, value: str, type: str = "ptr") -> None:
        self.store_at(type, value, self.register(self.field(row, 1)))

    def row(self, table: str, number: str) -> str:
        return self.at(table, self.scaled(number, 8 * ROW))

    def pause(self) -> None:
        """Nothing is collected from here on; see Note [Collections]."""
        if COLLECTS:
            self.store("i32", self.call("i32", "PyGC_Disable"), "%collects")

    def resume(self) -> None:
        """Ends a pause, if there is one."""
        if COLLECTS:
            paused, on = self.label(), self.label()
            self.choose(self.other("i32", self.load("%collects", 0, "i32"), "0"), paused, on)
            self.begin(paused)
            self.store("i32", "0", "%collects")
            self.put(f"call i32 {self.api('PyGC_Enable')}()")
            self.go(on)
            self.begin(on)

    def enter(self) -> None:
        """Counts this call among those that the program's numbers are for."""
        self.store("i64", "1", "%entered")
        inside = self.add(self.header("busy", "i64"), 1)
        self.store("i64", inside, "%header", 8 * HEADER.index("busy"))

    def leave(self) -> None:
        """Ends that, if this call was counted."""
        inside = self.sub(self.header("busy", "i64"), self.load("%entered", 0, "i64"))
        self.store("i64", inside, "%header", 8 * HEADER.index("busy"))
        self.store("i64", "0", "%entered")

    def kind_is(self, value: str, kind: str, otherwise: str = "missed") -> None:
        self.need(self.same("ptr", self.load(value, 8), kind), otherwise)


PROLOGUE: Final = f"""define ptr @enter(ptr %self, ptr %args, i64 %count) {{
entry:
  %held = getelementptr i8, ptr %self, i64 {DATA}
  %header = load ptr, ptr %held
  %api.at = getelementptr i8, ptr %header, i64 {8 * HEADER.index("api")}
  %api = load ptr, ptr %api.at
  %registers.at = getelementptr i8, ptr %header, i64 {8 * HEADER.index("registers")}
  %register.count = load i64, ptr %registers.at
  %registers = alloca i64, i64 %register.count
  %key = alloca ptr
  %value = alloca ptr
  %position = alloca i64
  %results = alloca ptr
  %arena = alloca ptr
  %changed = alloca i1
  %reached = alloca i64
  %drawn = alloca ptr
  %raised.kind = alloca ptr
  %raised.value = alloca ptr
  %raised.trace = alloca ptr
  %collects = alloca i32
  store i32 0, ptr %collects
  %rows.at = alloca ptr
  %rows.count = alloca i64
  %rows.place = alloca i64
  %fills = alloca i1
  %drops.at = getelementptr i8, ptr %header, i64 {8 * HEADER.index("drops")}
  %drops.count = load i64, ptr %drops.at
  %dropped = alloca ptr, i64 %drops.count
  %takes.at = getelementptr i8, ptr %header, i64 {8 * HEADER.index("takes")}
  %takes.count = load i64, ptr %takes.at
  %taken = alloca ptr, i64 %takes.count
  %is.taken = alloca i1
  store i1 0, ptr %is.taken
  %objects.at = getelementptr i8, ptr %header, i64 {8 * HEADER.index("objects")}
  %objects.count = load i64, ptr %objects.at
  %objects = alloca ptr, i64 %objects.count
  %seeds.place = alloca ptr
  store ptr null, ptr %seeds.place
  %left = alloca i1
  store i1 0, ptr %left
  %is.dropped = alloca i1
  store i1 0, ptr %is.dropped
  %entered = alloca i64
  store i64 0, ptr %entered
  %places.at = getelementptr i8, ptr %header, i64 {8 * HEADER.index("places")}
  %place.count = load i64, ptr %places.at
  %buffers = alloca i64, i64 %place.count, align 64
  %made.at = getelementptr i8, ptr %header, i64 {8 * HEADER.index("made")}
  %made.count = load i64, ptr %made.at
  %fresh = alloca ptr, i64 %made.count"""
