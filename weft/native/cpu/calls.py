"""Calls of programs: from Python's objects to addresses, in machine code.

Takes the arrays of a call in a list; checks that they are laid out as the program was made for, fills in the
addresses of its places, and runs it. One idea: everything that such a call reads of Python's objects are
fields at offsets that are part of NumPy's and Python's binary interfaces, so a call costs what a call of one
C function costs, however many arrays there are.

# Note [Table of a program]
    0 places    1 code    2 steps    3 outside    4 BLAS, or 0    5 checks: rows, address
    7 fills: rows, address        9 whether others may use the interpreter meanwhile
    10 PyEval_SaveThread          11 PyEval_RestoreThread

# Note [Checks and fills]
A check is a row of eight numbers: which item of the list, the type it must have, how many axes (-1: it is no
array), the address of its sizes and strides, its dtype's address, and the flags that it must have. Strides
of axes of length 1 do not matter. A fill is a row of three: the place, where the address comes from, and a
number: an offset in the block, the item of the list that is an array or a float, or the address itself.
"""

from __future__ import annotations

import ctypes
import struct
import sys
from functools import cache
from typing import Any, Final

import numpy as np

from weft.native.cpu.writer import PARAMETERS, Writer

FROM_BLOCK, FROM_ARRAY, FROM_FLOAT, FIXED = range(4)
TYPE, DATA, RANK, SIZES, STRIDES, KIND, FLAGS = 8, 16, 24, 32, 40, 56, 64
"""Where things stand in an array object."""
LIST_ITEMS, DIGITS = 24, 16
"""Where a list's pointer to its items stands, and the bits of a float."""
CHECK_FIELDS: Final = 8
FILL_FIELDS: Final = 3
TABLE_FIELDS: Final = 12
ALIGNED: Final = 0x100
WRITEABLE: Final = 0x400
CHANGED: Final = -1
"""What a call gives if an input is not as it was."""
FAILED: Final = -2
"""And if a check has failed: nothing has been written."""


# -- machine code --------------------------------------------------------------------------------------------
def _check() -> str:
    w = Writer()
    with w.function("void", "function", *PARAMETERS):
        target, source = (w.item("%buffers", w.item("%record", place), "ptr", "p") for place in (0, 1))
        w.put_item("i64", w.let(f"zext i8 {w.item(source, 0, 'i8')} to i64"), target, 0)
        w.ret()
    return w.text()


CHECK: Final = _check()
"""A step that checks: whether a truth holds."""
NOTHING: Final = """
define void @function(ptr %record, ptr %buffers, ptr %outside, i64 %lo, i64 %hi, i64 %chunk) {
  ret void
}
"""
"""A step that is there for its place in the order alone."""


def text() -> str:
    """The functions of calls, which need those of the pool."""
    w = Writer()
    _as_expected(w)
    _fill(w)
    _prepare(w)
    _steps(w)
    _call(w)
    return w.text()


def _as_expected(w: Writer) -> None:
    """Whether items of a list are as checks want them: see Note [Checks and fills]."""
    with w.function("i1", "as_expected", "ptr %checks", "i64 %count", "ptr %items"):
        no = w.label("no")
        with w.counting("0", "%count") as number:
            row = w.item_at("%checks", w.scaled(number.at, CHECK_FIELDS))
            item = w.item("%items", w.item(row, 0), "ptr", "p")
            w.need(w.same("i64", w.load(item, TYPE, "i64"), w.item(row, 1)), no)
            axes = w.item(row, 2)
            with w.when(w.let(f"icmp sge i64 {axes}, 0")):
                _array_as_expected(w, row, item, axes, no)
        w.ret("i1", "true")
        w.begin(no)
        w.ret("i1", "false")


def _array_as_expected(w: Writer, row: str, array: str, axes: str, no: str) -> None:
    rank, flags = (w.let(f"zext i32 {w.load(array, at, 'i32')} to i64") for at in (RANK, FLAGS))
    mask = w.item(row, 5)
    same = w.let(f"and i1 {w.same('i64', rank, axes)}, "
                 f"{w.same('i64', w.load(array, KIND, 'i64'), w.item(row, 4))}")  # fmt: skip
    flagged = w.same("i64", w.let(f"and i64 {flags}, {mask}"), mask)
    w.need(w.let(f"and i1 {same}, {flagged}"), no)
    sizes, strides = w.load(array, SIZES), w.load(array, STRIDES)
    numbers = w.item(row, 3, "ptr", "p")
    with w.counting("0", axes) as axis:
        size, stride = w.item(sizes, axis.at), w.item(strides, axis.at)
        w.need(w.same("i64", size, w.item(numbers, axis.at)), no)
        alike = w.same("i64", stride, w.item(numbers, w.add(axis.at, axes)))
        w.need(w.let(f"or i1 {alike}, {w.same('i64', size, '1')}"), no)


def _fill(w: Writer) -> None:
    """Puts addresses into the places of a call."""
    with w.function("void", "fill", "ptr %fills", "i64 %count", "ptr %items", "ptr %block", "ptr %buffers"):
        block = w.let("ptrtoint ptr %block to i64")
        with w.counting("0", "%count") as counter:
            row = w.item_at("%fills", w.scaled(counter.at, FILL_FIELDS))
            place, kind, number = (w.item(row, field) for field in range(FILL_FIELDS))
            address = w.phi("i64")
            inside, array, single, put = (w.label() for _ in range(4))
            w.bring(address, number)  # FIXED
            w.switch(kind, {FROM_BLOCK: inside, FROM_ARRAY: array, FROM_FLOAT: single}, put)
            w.begin(inside)
            w.bring(address, w.add(block, number))
            w.go(put)
            w.begin(array)
            w.bring(address, w.load(w.item("%items", number, "ptr", "p"), DATA, "i64"))
            w.go(put)
            w.begin(single)
            w.bring(address, w.add(w.item("%items", number), DIGITS))
            w.go(put)
            with w.joining(put, address):
                w.put_item("i64", address.name, "%buffers", place)
        w.ret()


def _prepare(w: Writer) -> None:
    """Checks and fills; 0, or -1 where something is not as it was."""
    with w.function("i64", "prepare", "ptr %table", "ptr %list", "ptr %block", "ptr %buffers"):
        items = w.load("%list", LIST_ITEMS)
        count, checks = w.item("%table", 5), w.item("%table", 6, "ptr", "p")
        changed = w.label("changed")
        given = f"ptr {checks}", f"i64 {count}", f"ptr {items}"
        w.need(w.call("i1", "@as_expected", *given), changed)
        count, fills = w.item("%table", 7), w.item("%table", 8, "ptr", "p")
        given = f"ptr {fills}", f"i64 {count}", f"ptr {items}"
        w.call("void", "@fill", *given, "ptr %block", "ptr %buffers")
        w.ret("i64", 0)
        w.begin(changed)
        w.ret("i64", CHANGED)


def _steps(w: Writer) -> None:
    """Runs the steps of a program; long ones without the interpreter."""
    with w.function("i64", "steps", "ptr %table", "i64 %first", "ptr %buffers", "ptr %state"):
        code, outside, blas = (w.item("%table", place, "ptr", "p") for place in (1, 3, 4))
        given = [f"ptr {code}", "i64 %first", f"i64 {w.item('%table', 2)}", "ptr %buffers"]
        given += [f"ptr {outside}", "ptr %state", f"ptr {blas}"]
        free, hold = w.label("free"), w.label("hold")
        w.choose(w.other("i64", w.item("%table", 9), "0"), free, hold)
        w.begin(hold)
        w.ret("i64", w.call("i64", "@run", *given))
        w.begin(free)
        save, restore = (w.item("%table", place, "ptr", "p") for place in (10, 11))
        thread = w.call("ptr", save)
        found = w.call("i64", "@run", *given)
        w.call("void", restore, f"ptr {thread}")
        w.ret("i64", found)


def _call(w: Writer) -> None:
    """A call of a program: what it gives is as for `run`, or -1 where something is not as it was."""
    with w.function("i64", "call", "ptr %table", "ptr %list", "ptr %block", "ptr %state"):
        buffers = w.let(f"alloca i64, i64 {w.item('%table', 0)}, align 64")
        given = "ptr %table", "ptr %list", "ptr %block", f"ptr {buffers}"
        ready = w.call("i64", "@prepare", *given)
        changed = w.label("changed")
        w.need(w.let(f"icmp sge i64 {ready}, 0"), changed)
        w.ret("i64", w.call("i64", "@steps", "ptr %table", "i64 0", f"ptr {buffers}", "ptr %state"))
        w.begin(changed)
        w.ret("i64", CHANGED)


# -- Python's objects ----------------------------------------------------------------------------------------
@cache
def is_known() -> bool:
    """Whether objects of this interpreter are laid out as machine code reads them. Those of builds without
    the interpreter's lock are not.
    """
    if "t" in sys.abiflags or struct.calcsize("P") != 8:
        return False
    array = np.zeros((3, 5), np.float32)[:, 1:]
    sizes = [(ctypes.c_int64 * 2).from_address(_at(array, offset)) for offset in (SIZES, STRIDES)]
    items = [array, 2.5]
    return (
        _at(array, TYPE) == id(np.ndarray)
        and _at(array, DATA) == address(array)
        and ctypes.c_int32.from_address(id(array) + RANK).value == 2
        and [tuple(each) for each in sizes] == [array.shape, array.strides]
        and _at(array, KIND) == id(array.dtype)
        and bool(ctypes.c_int32.from_address(id(array) + FLAGS).value & WRITEABLE)
        and ctypes.c_int64.from_address(_at(items, LIST_ITEMS)).value == id(array)
        and ctypes.c_double.from_address(id(items[1]) + DIGITS).value == 2.5
    )


def _at(owner: Any, offset: int) -> int:
    """A field of an object."""
    return ctypes.c_int64.from_address(id(owner) + offset).value


def address(array: Any) -> int:
    return int(array.__array_interface__["data"][0])


def check_row(number: int, value: Any, flags: int, keep: list[Any]) -> list[int]:
    """The check of an input that is to be as this one; what it points to is kept."""
    if not isinstance(value, np.ndarray):
        return [number, id(type(value)), -1, 0, 0, 0, 0, 0]
    numbers = np.array([*value.shape, *value.strides], np.int64)
    keep += [numbers, value.dtype]
    return [number, id(np.ndarray), value.ndim, address(numbers), id(value.dtype), flags, 0, 0]


def function_address(name: str) -> int:
    """The address of one of the interpreter's own functions."""
    return ctypes.cast(getattr(ctypes.pythonapi, name), ctypes.c_void_p).value or 0
