"""Entries: native functions that check a call's guards, run its program and make its results.

Takes checks and a run as data; gives a builtin function, which returns MISS wherever anything is not as it
was when it was made. One idea: whoever calls it has a slow way that does the same, so an entry may be as
narrow as it likes, and is never responsible for what it cannot do.

# Note [Objects that checks know]
Tables hold addresses. What stands at them is kept alive by the entry; objects that must not be (classes and
functions of a user's) are given as weak references, and when one of them dies the entry is dead, too: its
address may come to be another object's.
"""

from __future__ import annotations

import ctypes
import sys
import types
import weakref
from collections.abc import Iterable, Sequence
from dataclasses import field
from functools import cache
from typing import Any, Final

import numpy as np

from weft.core.checks import ARITHMETIC, Borrowed, Check, is_float, whole
from weft.core.expressions import Expression, Symbol, float_word, in_order
from weft.core.interrupts import is_interrupt
from weft.core.once import once
from weft.core.records import record
from weft.core.slices import Steps, at_once
from weft.native.cpu.engine import Loaded
from weft.native.cpu.outside import address_of
from weft.native.entry.checks import DECLARATIONS, FLOATING, NUMBERS, OPERANDS, ORDERED, write_checks
from weft.native.entry.parts import OF_OBJECTS
from weft.native.entry.run import AGAIN as AGAIN
from weft.native.entry.run import ARRAY as ARRAY
from weft.native.entry.run import CONSTANT as CONSTANT
from weft.native.entry.run import NEW as NEW
from weft.native.entry.run import NUMBER as NUMBER
from weft.native.entry.run import SHARED as SHARED
from weft.native.entry.run import THERE as THERE
from weft.native.entry.run import let_go, write_run
from weft.native.entry.text import (
    API,
    GENERAL,
    HEADER,
    KEYS,
    KIND,
    PROLOGUE,
    RANK,
    ROW,
    VERSION,
    EntryText,
)
from weft.native.ir.sizes import Size
from weft.native.plan.memory import blocks

Row = tuple[Any, ...]
"""A check as the entry runs it: its name, the register for its result (0 if it has none), and operands."""

NOTHING: Final = [0] * ROW
CHUNK: Final = 4096
MOST_REGISTERS: Final = 1 << 14
"""Registers lie on the stack."""
SIZE: Final = HEADER.index("arena_bytes")
HOME: Final = slice(HEADER.index("home"), HEADER.index("room") + 1)
"""The memory of a call's own, and how much that is."""


@record(frozen=True, slots=True)
class Layout:
    """What an entry has to know of tensors."""

    tensor: type
    parameter: type
    view: type
    """Of what stands in the slot `origin` of views; its slot `base` is the tensor behind."""
    inference: Any
    """What stands in the slot `cell` of tensors that count no versions."""


@record(slots=True)
class Run:
    """A program between checks and results: see Note [Tables of a run] in `weft.native.entry.run`."""

    givens: list[tuple[int, int, bool, Any, Any]]
    made: list[tuple[int, Any, tuple[Any, ...], tuple[Any, ...] | None]]
    """Places, dtypes, shapes, and strides in bytes where they are not row-major. A float has no dtype."""
    outputs: list[tuple[Any, ...]]
    written: list[tuple[int, int, int]]
    constants: Sequence[tuple[int, Any]]
    """Places, and the arrays that lie there in every call."""
    arena: Sequence[tuple[int, Any]]
    arena_bytes: Any
    """A multiple of 64."""
    places: int
    code: int
    steps: int
    outside: int
    pool: Any
    """An array of addresses: the loop of programs, the state of its threads, what keeps BLAS to one."""
    release: Any
    """Whether others may use the interpreter meanwhile: a number that is not 0."""
    block: Any = None
    """Memory for what the program keeps to itself (`weft.native.plan.memory.Block`)."""
    keep: Any = None
    calls: int = 0
    """Where calls are counted; 0 if nowhere."""
    draw: tuple[Any, Any, int] | None = None
    """Gives seeds; takes them back; their place."""
    seeds_item: int = 0
    """Which of the results is to be the seeds, counted from 1; 0 if none is."""
    drops: list[int] = field(default_factory=list)
    """Registers of tensors whose old gradients go before there are new ones."""
    sizes: NumbersOfSizes | None = None
    """Where numbers of it are open: see Note [Numbers that change] in `weft.native.entry.text`."""
    parts: list[tuple[Any, ...]] = field(default_factory=list)
    """What else is made, and where it belongs: see `weft.native.entry.parts`."""
    objects: int = 0
    takes: list[tuple[int, int, Any]] = field(default_factory=list)
    gives: list[tuple[int, int, int]] = field(default_factory=list)
    quiet: bool = False
    """Whether None is the result where all of its results were given away."""


class Table(np.ndarray[Any, Any]):
    """Numbers of an entry, and the objects whose addresses are among them."""

    keep: list[Any]


@record(slots=True)
class NumbersOfSizes:
    """What an entry needs to have the numbers of its program be those of a call."""

    symbols: dict[Symbol, Expression]
    """Of sizes: what checks read."""
    looked: list[Expression]
    """What else conditions look at, and numbers do not follow from."""
    functions: dict[Symbol, int]
    """Of functions that sizes choose among: where their addresses stand."""
    conditions: list[tuple[Expression, bool]]
    numbers: list[tuple[int, Expression]]
    """Addresses of numbers, and what belongs there."""


@record(slots=True)
class Holding:
    """The objects that an entry knows by their addresses."""

    header: Any
    keep: list[Any] = field(default_factory=list)
    known: dict[int, int] = field(default_factory=dict)
    """Addresses of what is kept, by its own."""
    open: list[tuple[int, Expression]] = field(default_factory=list)
    """Where numbers lie that are open, and what they are."""
    room: Any = ()
    """Memory for rows of numbers: where it lies, and how many are taken."""
    start: int = 0
    used: int = 0

    def address(self, value: Any) -> int:
        """An object's address; that of a weak reference's object ends the entry with it."""
        known = self.known.get(id(value))
        if known is not None:
            return known
        if type(value) is Borrowed:
            return id(value.value)
        if type(value) is weakref.ref:
            found, header = value(), self.header
            if found is None:
                raise ReferenceError("an object that is gone")

            def end(_reference: Any) -> None:
                header[0] = 0

            self.keep += [value, weakref.ref(found, end)]
            self.known[id(value)] = id(found)
            return id(found)
        self.keep.append(value)
        self.known[id(value)] = id(value)
        return id(value)

    def numbers(self, values: Iterable[int]) -> int:
        """The address of a row of numbers."""
        given = [*values, 0]
        if self.used + len(given) > len(self.room):
            self.room = np.zeros(max(CHUNK, len(given)), np.int64)
            self.keep.append(self.room)
            self.start, self.used = _data(self.room), 0
        place, self.used = self.used, self.used + len(given)
        self.room[place : self.used] = self.now(given, self.start + 8 * place)
        return self.start + 8 * place

    def now(self, numbers: Sequence[Any], start: int) -> list[int]:
        """Numbers that are to lie from an address on; notes those that are open."""
        self.open += [
            (start + 8 * n, each.expression) for n, each in enumerate(numbers) if type(each) is Size
        ]
        return [each.hint if type(each) is Size else each for each in numbers]

    def table(self, rows: Sequence[Sequence[Any]]) -> int:
        return at_once(self.filled(rows, len(rows)))

    def filled(self, rows: Iterable[Sequence[Any]], count: int) -> Steps[int]:
        """A table of so many rows, in slices."""
        made = np.zeros((count + 1, ROW), np.int64)
        for number, row in enumerate(rows):
            yield
            made[number, : len(row)] = self.now(row, _data(made) + 8 * ROW * number)
        self.keep.append(made)
        return _data(made)

    def row(self, row: Row) -> list[int]:
        name, result, *operands = row
        found = [NUMBERS[name], result]
        for kind, value in zip(OPERANDS[name], operands, strict=True):
            if kind == "n":
                found.append(int(value))
            elif kind == "o":
                found.append(self.address(value))
            else:
                found.append(
                    self.numbers([each if type(each) is int else self.address(each) for each in value])
                )
        return found


def _data(array: Any) -> int:
    return int(array.__array_interface__["data"][0])


# -- expressions as rows -------------------------------------------------------------------------------------
class Lowering:
    """Expressions as rows, each at its first use. Symbols are the arguments of these names."""

    def __init__(self, arguments: Sequence[str]) -> None:
        self.arguments = {name: number for number, name in enumerate(arguments)}
        self.rows: list[Row] = []
        self.count = 0
        self.registers: dict[Expression, int] = {}
        self.floats: dict[int, int] = {}
        """Registers of whole numbers, as floats."""
        self.sizes: NumbersOfSizes | None = None

    def need(self, check: Expression) -> None:
        """That it holds; of an object, that it is there."""
        if type(check) is not Check or check.kind is not bool:
            register = self.register(check)
            if check.kind is not object:
                self.rows.append(("true", 0, register))
        else:
            self.rows.append((check.op, 0, *self.operands(check)))

    def need_surely(self, check: Expression) -> None:
        """The same, where a guard of Python's asks for no less."""
        self.need(check)
        op, *rest = self.rows[-1]
        if op == "is_object" and check.op == op:
            self.rows[-1] = ("is_surely", *rest)

    def register(self, value: Expression) -> int:
        """The register of a value."""
        found = self.registers.get(value)
        if found is None:
            found = self.registers[value] = self.computed(value)
        return found

    def computed(self, value: Expression) -> int:
        if type(value) is Check:
            if value.kind is bool:
                raise TypeError(f"{value} is asked for, and is no value")
            operands = self.operands(value)
            if value.op == "walked":
                return sum(operands)
            return self.put(value.op, *operands, count=2 * value.args[1] if value.op == "dict_walk" else 1)
        if value.op == "symbol":
            symbol = value.args[0]
            if symbol.kind is object:
                return self.put("argument", self.arguments[symbol.name])
            if self.sizes is not None and symbol in self.sizes.symbols:
                return self.register(self.sizes.symbols[symbol])
            if self.sizes is not None and symbol in self.sizes.functions:
                return self.put("cell", self.sizes.functions[symbol])
            return self.register(whole(Expression("symbol", (Symbol(symbol.name, object),), object)))
        if is_float(value) or (
            self.sizes is not None and (value.kind is float or value.op in ("int", "word"))
        ):
            return self.floating(value)
        if f"f{value.op}" in ORDERED and any(map(is_float, value.args)):
            return self.put(f"f{value.op}", *[self.as_float(each) for each in value.args])
        if value.kind not in (int, bool) or value.op not in (*ARITHMETIC, "constant"):
            raise TypeError(f"{value} has no machine code")
        if value.op == "constant":
            return self.put("number", int(value.args[0]))
        return self.put(value.op, *[self.register(each) for each in value.args])

    def floating(self, value: Expression) -> int:
        """The register of a float, or of a whole number that is made of one."""
        if value.op == "constant":
            return self.put("number", float_word(value.args[0]))
        given = [self.as_float(each) for each in value.args]
        if value.op == "int":
            return self.put("truncated", *given)
        if value.op == "word":  # registers hold the bits
            return given[0]
        if f"f{value.op}" not in (*FLOATING, "fneg", "fabs"):
            raise TypeError(f"{value} has no machine code")
        return self.put(f"f{value.op}", *given)

    def as_float(self, value: Expression) -> int:
        register = self.register(value)
        if value.kind is float:
            return register
        if register not in self.floats:
            self.floats[register] = self.put("float", register)
        return self.floats[register]

    def filled(
        self, open: Sequence[tuple[int, Expression]], sizes: NumbersOfSizes
    ) -> tuple[list[Row], list[Row]]:
        """Rows that compute numbers, behind conditions on sizes; and where each of them belongs."""
        before, self.rows, self.sizes = self.rows, [], sizes
        wanted = [*[fact for fact, _ in sizes.conditions], *[each for _, each in open]]
        for each in in_order(wanted):
            if each.op != "constant" and type(each) is not Check:
                self.register(each)
        for fact, truth in sizes.conditions:
            self.need(fact if truth else Expression("not_", (fact,), bool))
        stores = [(address, self.register(each)) for address, each in open]
        rows, self.rows = self.rows, before
        return rows, stores

    def put(self, name: str, *operands: Any, count: int = 1) -> int:
        """A row with a result, in so many registers."""
        register, self.count = self.count, self.count + count
        self.rows.append((name, register, *operands))
        return register

    def operands(self, check: Check) -> list[Any]:
        found: list[Any] = []
        for letter, value in zip(check.operation.operands, check.args):
            match letter:
                case "v":
                    found.append(self.register(value))
                case "V":
                    found += [len(value), [self.register(each) for each in value], [0] * len(value)]
                case "L":
                    found += [len(value), value]
                case "s":
                    found.append(value.offset)
                case "-":
                    pass
                case _:
                    found.append(value)
        return found


# -- this interpreter ----------------------------------------------------------------------------------------
def _read(place: int, kind: Any = ctypes.c_void_p) -> int:
    return int(kind.from_address(place).value or 0)


def slot_offset(owner: type, name: str) -> int:
    """Where in an object a slot of its class lies."""
    descriptor = owner.__dict__[name]
    if type(descriptor) is not types.MemberDescriptorType:
        raise TypeError(f"{owner.__name__}.{name} is no slot")
    member = _read(id(descriptor) + 40)
    return _read(member + 16, ctypes.c_int64)


@cache
def member_offset(kind: type, name: str) -> int | None:
    """Where objects of one of Python's own types keep a member; None where that is not known."""
    sample = SAMPLES.get(kind)
    if sample is None:
        return None
    value = getattr(sample(), name, None)
    if value is None:
        return None
    owner = sample()
    wanted = id(getattr(owner, name))
    places = [at for at in range(16, kind.__basicsize__, 8) if _read(id(owner) + at) == wanted]
    return places[0] if len(places) == 1 else None


def _sample_function() -> Any:
    return _SAMPLE


def _make_sample() -> Any:
    there = object()

    def sample(first: Any = there, *, second: Any = there) -> Any:
        return there, first, second

    return sample


_SAMPLE: Final = _make_sample()
_METHOD: Final = types.MethodType(_SAMPLE, object())
_CELL: Final = _SAMPLE.__closure__[0]
SAMPLES: Final[dict[type, Any]] = {
    types.FunctionType: _sample_function,
    types.MethodType: lambda: _METHOD,
    types.CellType: lambda: _CELL,
}
_STATIC: Final[Any] = staticmethod(_SAMPLE)
_OF_CLASS: Final[Any] = classmethod(_SAMPLE)
SAMPLES[staticmethod] = lambda: _STATIC
SAMPLES[classmethod] = lambda: _OF_CLASS
KEYED: Final[tuple[dict[Any, int], ...]] = ({"a": 1}, {1: 1})


def class_version(kind: type) -> int:
    """A number that is another one as soon as the class changes, or one behind it; 0 if it has none now."""
    getattr(kind, "__weft_no_such_name__", None)  # being asked for something, a class gets one
    return _read(id(kind) + VERSION, ctypes.c_uint32)


@cache
def supported() -> bool:
    """Whether objects of this interpreter lie in memory as entries read them."""
    if sys.implementation.name != "cpython" or not getattr(sys, "_is_gil_enabled", lambda: True)():
        return False
    array = np.zeros((2, 3), np.float32)
    at = id(array)
    if _read(at + 16) != _data(array) or _read(at + RANK, ctypes.c_int32) != 2:
        return False
    if _read(at + KIND) != id(array.dtype) or _read(_array_api() + 2 * 8) != id(np.ndarray):
        return False
    if [_read(_read(id(each) + KEYS) + GENERAL, ctypes.c_uint8) > 0 for each in KEYED] != [True, False]:
        return False
    kind: Any = type("sample", (), {})
    before = class_version(kind)
    kind.something = 1
    return (
        before != 0
        and class_version(kind) != before
        and member_offset(types.FunctionType, "__code__") is not None
    )


@cache
def _array_api() -> int:
    """The table of NumPy's functions."""
    get = ctypes.pythonapi.PyCapsule_GetPointer
    get.restype, get.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    private: Any = np
    return int(get(private._core._multiarray_umath._ARRAY_API, None))


IN_NUMPY: Final = {"PyArray_NewFromDescr": 94, "PyArray_NewCopy": 85}
"""Places in NumPy's table, which never change."""


def _address(name: str, layout: Layout) -> int:
    objects = {
        "None": None, "True": True, "False": False, "zero": 0, "ndarray": np.ndarray,
        "str": str, "int": int, "comes_through": comes_through,
        "Tensor": layout.tensor, "Parameter": layout.parameter, "View": layout.view,
    }  # fmt: skip
    if name in objects:
        return id(objects[name])
    if name in IN_NUMPY:
        return _read(_array_api() + 8 * IN_NUMPY[name])
    if name.startswith("Py"):
        return ctypes.cast(getattr(ctypes.pythonapi, name), ctypes.c_void_p).value or 0
    return address_of(f"{name}.f64")


def comes_through(error: BaseException) -> bool:
    """Whether a call ends with what a function raised that its entry has called."""
    try:
        raise error
    except BaseException as caught:
        return not isinstance(caught, Exception) or is_interrupt(caught)


SLOTS: Final = ("array", "tracked", "node", "index", "cell", "origin", "_grad", "hooks")
WEAK: Final = "__weakref__"


class _Method(ctypes.Structure):
    _fields_ = [
        ("name", ctypes.c_char_p),
        ("function", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    ]


FASTCALL: Final = 0x80


NEVER: Final = object()
"""What an entry gives where Python's guards would fail, too."""


class Entrance:
    """What all entries for one class of tensors share: the machine code, and addresses."""

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        slots = {name: slot_offset(layout.tensor, name) for name in SLOTS}
        slots |= {"base": slot_offset(layout.view, "base"), WEAK: layout.tensor.__weakrefoffset__}
        self.loaded = Loaded(entry_text(slots))
        self.method = _Method(b"enter", self.loaded.address("enter"), FASTCALL, None)
        self.api = np.array([_address(name, layout) for name in API], np.int64)
        self.new = ctypes.pythonapi["PyCFunction_NewEx"]
        self.new.restype = ctypes.py_object
        self.new.argtypes = [ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p]

    def make(self, *given: Any) -> Any:
        """As `making`, at once."""
        return at_once(self.making(*given))

    def making(
        self, lowering: Lowering, returned: Sequence[int], miss: Any, run: Run | None, never: Any = None
    ) -> Steps[Any]:
        """The builtin function of these checks: `miss`, or a tuple of outputs and registers. `never` says
        that Python's checks would fail, too."""
        checks = lowering.rows
        raw = np.zeros(len(HEADER), np.int64)
        raw[HEADER.index("alive")] = 1  # before anything that it needs can be gone
        holding = Holding(raw)
        holding.keep.append(self)
        values: dict[str, Any] = {"miss": holding.address(miss)}
        values["never"] = holding.address(miss if never is None else never)
        values |= {"api": _data(self.api), "checks": len(checks), "returned": len(returned)}
        values["checks_at"] = yield from holding.filled(map(holding.row, checks), len(checks))
        values["returned_at"] = holding.numbers(returned)
        if run is not None:
            yield
            values |= _run_values(run, holding)
            yield
        for name, value in values.items():
            place = HEADER.index(name)
            raw[place : place + 1] = holding.now([value], _data(raw) + 8 * place)
        sizes = {} if run is None else (yield from _sizes_values(run, holding, lowering))
        for name, value in sizes.items():
            raw[HEADER.index(name)] = value
        if lowering.count > MOST_REGISTERS:
            raise ValueError(f"{lowering.count} values to check do not fit the stack")
        raw[HEADER.index("registers")] = max(lowering.count, 1)
        table = raw.view(Table)
        table.keep = holding.keep
        return self.new(ctypes.addressof(self.method), table, None)


def _sizes_values(run: Run, holding: Holding, lowering: Lowering) -> Steps[dict[str, int]]:
    """The part of an entry's numbers that says how others follow from sizes."""
    if run.sizes is None:
        return {}
    wanted = [*run.sizes.symbols.values(), *run.sizes.looked]
    registers = [lowering.register(each) for each in wanted]
    rows, stores = lowering.filled([*holding.open, *run.sizes.numbers], run.sizes)
    header = holding.header
    fills = yield from holding.filled(map(holding.row, rows), len(rows))

    def grow() -> None:
        block = blocks.take(int(header[SIZE]))
        given = block.address, block.room
        header[HOME], run.block = given, block  # nothing interrupts this: the one is the other's memory

    return {
        "sizes": len(registers), "sizes_at": holding.numbers(registers),
        "sizes_last": holding.numbers([0] * len(registers)),
        "fills": len(rows), "fills_at": fills,
        "stores": len(stores), "stores_at": holding.table(stores), "grow": holding.address(grow),
    }  # fmt: skip


def _run_values(run: Run, holding: Holding) -> dict[str, Any]:
    """The part of an entry's numbers that is about its program."""
    template = np.zeros(run.places + 1, np.int64)
    for place, array in run.constants:
        template[place] = _data(array)
    made = [
        (place, 0, -1, 0, 0)
        if kind is None
        else (
            place,
            holding.address(kind),
            len(shape),
            holding.numbers(shape),
            0 if strides is None else holding.numbers(strides),
        )
        for place, kind, shape, strides in run.made
    ]
    outputs = [
        (CONSTANT, holding.address(value[1])) if value[0] == CONSTANT else tuple(map(int, value))
        for value in run.outputs
    ]
    home, room = (0, 0) if run.block is None else (run.block.address, run.block.room)
    holding.keep += [template, run]
    return {
        "runs": 1, "givens": len(run.givens),
        "givens_at": holding.table(run.givens),
        "places": run.places + 1, "template_at": _data(template),
        "arena": len(run.arena), "arena_at": holding.table(run.arena),
        "arena_bytes": run.arena_bytes, "block": home, "home": home, "room": room,
        "last_at": holding.numbers([0] * len(run.givens)),
        "made": len(made), "made_at": holding.table(made), "code": run.code, "steps": run.steps,
        "outside": run.outside, "release": run.release, "outputs": len(outputs),
        "outputs_at": holding.table(outputs), "written": len(run.written),
        "written_at": holding.table(run.written), "pool": _data(run.pool),
        "draw": 0 if run.draw is None else holding.address(run.draw[0]),
        "give_back": 0 if run.draw is None else holding.address(run.draw[1]),
        "seeds": 0 if run.draw is None else run.draw[2], "seeds_item": run.seeds_item, "calls": run.calls,
        "drops": len(run.drops), "drops_at": holding.numbers(run.drops), **_parts_values(run, holding),
    }  # fmt: skip


def _parts_values(run: Run, holding: Holding) -> dict[str, Any]:
    """The part of an entry's numbers that is about what it makes beside results, and where results go."""
    parts = [
        (kind, holding.address(first) if kind in OF_OBJECTS else first, *rest)
        for kind, first, *rest in run.parts
    ]
    takes = [(register, place, holding.address(instead)) for register, place, instead in run.takes]
    return {
        "objects": run.objects, "parts": len(parts), "parts_at": holding.table(parts),
        "takes": len(takes), "takes_at": holding.table(takes),
        "gives": len(run.gives), "gives_at": holding.table(run.gives), "quiet": int(run.quiet),
    }  # fmt: skip


def entry_text(slots: dict[str, int]) -> str:
    """The text of `enter`."""
    w = EntryText(slots)
    w.begin("look")
    w.need(w.other("i64", w.header("alive", "i64"), "0"))
    w.store_at("i1", 0, "%fills")
    _write_rows(w)
    w.begin("passed")
    w.store("i64", w.add(w.load("%rows.place", 0, "i64"), 1), "%rows.place")
    w.go("more")
    w.begin("through")
    w.choose(w.load("%fills", 0, "i1"), "store", "sized")
    _write_sizes(w)
    w.begin("all")
    w.choose(w.other("i64", w.header("runs", "i64"), "0"), "run", "give")
    w.begin("run")
    write_run(w)
    _write_raised(w)
    w.begin("erred")  # by a function of C's, which runs no code of others
    w.call("void", "PyErr_Clear")
    w.go("missed")
    for label, name in (("missed", "miss"), ("refused", "never")):
        w.begin(label)
        w.leave()
        w.resume()
        let_go(w)
        answer = w.header(name)
        w.call("void", "Py_IncRef", f"ptr {answer}")
        w.ret("ptr", answer)
    slot_lines = [f"  {slot} = alloca i64" for slot in w.slots]
    return "\n".join([PROLOGUE, *slot_lines, "  br label %look", *w.lines, "}", *DECLARATIONS]) + "\n"


def _write_rows(w: EntryText) -> None:
    """Goes over a table of rows, from `again` on; each goes to `passed`, or to `missed`."""
    w.store("ptr", w.header("checks_at"), "%rows.at")
    w.store("i64", w.header("checks", "i64"), "%rows.count")
    w.go("again")
    w.begin("again")
    w.store("i64", "0", "%rows.place")
    w.go("more")
    w.begin("more")
    number = w.load("%rows.place", 0, "i64")
    body = w.label()
    w.choose(w.compared("ult", number, w.load("%rows.count", 0, "i64")), body, "through")
    w.begin(body)
    row = w.row(w.load("%rows.at"), number)
    w.switch(w.field(row, 0), {place: f"do_{name}" for name, place in NUMBERS.items()}, "missed")
    write_checks(w, row)


def _write_sizes(w: EntryText) -> None:
    """Has the program's numbers be those of this call: see Note [Numbers that change]."""
    other, some, same, fill = (w.label() for _ in range(4))
    w.begin("sized")
    w.pause()
    count = w.header("sizes", "i64")
    w.choose(w.same("i64", count, "0"), "all", some)
    w.begin(some)
    w.need(w.other("i64", w.header("filled", "i64"), "0"), other)
    numbers, last = w.header("sizes_at"), w.header("sizes_last")
    number, head, done = w.loop(count)
    place = w.scaled(number, 8)
    size = w.load(w.register(w.load(numbers, place, "i64")), 0, "i64")
    w.need(w.same("i64", size, w.load(last, place, "i64")), other)
    w.turn(number, head, done)
    w.go(same)
    w.begin(other)
    w.need(w.same("i64", w.header("busy", "i64"), "0"))
    w.go(fill)
    w.begin(fill)
    w.store_at("i1", 1, "%fills")
    w.store("ptr", w.header("fills_at"), "%rows.at")
    w.store("i64", w.header("fills", "i64"), "%rows.count")
    w.go("again")
    w.begin("store")
    table = w.header("stores_at")
    number, head, done = w.loop(w.header("stores", "i64"))
    row = w.row(table, number)
    w.store("i64", w.operand(row, 1, "i64"), w.pointer(row, 0))
    w.turn(number, head, done)
    numbers, last = w.header("sizes_at"), w.header("sizes_last")
    number, head, done = w.loop(w.header("sizes", "i64"))
    place = w.scaled(number, 8)
    w.store("i64", w.load(w.register(w.load(numbers, place, "i64")), 0, "i64"), last, place)
    w.turn(number, head, done)
    w.store("i64", "1", "%header", 8 * w.place_of("filled"))
    w.go(same)
    w.begin(same)
    w.enter()
    w.go("all")


def _write_raised(w: EntryText) -> None:
    """Where a function of Python's, or memory, has failed: an interrupt goes on, an error is a miss."""
    parts = "%raised.kind", "%raised.value", "%raised.trace"
    given = [f"ptr {part}" for part in parts]
    traced, ask, answered, dropped, passed = (w.label() for _ in range(5))
    w.begin("raised")
    w.leave()
    w.resume()
    w.need(w.other("ptr", w.call("ptr", "PyErr_Occurred"), "null"))
    w.call("void", "PyErr_Fetch", *given)
    w.call("void", "PyErr_NormalizeException", *given)
    trace = w.load("%raised.trace")
    w.choose(w.other("ptr", trace, "null"), traced, ask)
    w.begin(traced)
    w.call("i32", "PyException_SetTraceback", f"ptr {w.load('%raised.value')}", f"ptr {trace}")
    w.go(ask)
    w.begin(ask)
    asked = [f"ptr {w.api('comes_through')}", "ptr %raised.value", "i64 1", "ptr null"]
    answer = w.call("ptr", "PyObject_Vectorcall", *asked)
    w.call("void", "Py_DecRef", f"ptr {answer}")
    w.choose(w.same("ptr", answer, w.api("True")), passed, answered)
    w.begin(passed)
    let_go(w)
    w.call("void", "PyErr_Restore", *[f"ptr {w.load(part)}" for part in parts])
    w.ret("ptr", "null")
    w.begin(answered)
    for part in parts:
        w.call("void", "Py_DecRef", f"ptr {w.load(part)}")
    w.choose(w.same("ptr", answer, "null"), dropped, "missed")
    w.begin(dropped)  # the other one was interrupted itself
    let_go(w)
    w.ret("ptr", "null")


@once
def entrance(layout: Layout) -> Entrance:
    """The one entrance for a class of tensors."""
    return Entrance(layout)
