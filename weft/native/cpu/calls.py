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

FROM_BLOCK, FROM_ARRAY, FROM_FLOAT, FIXED = range(4)
CHECK_FIELDS: Final = 8
FILL_FIELDS: Final = 3
TABLE_FIELDS: Final = 12
ALIGNED: Final = 0x100
WRITEABLE: Final = 0x400
CHANGED: Final = -1
"""What a call gives if an input is not as it was."""
FAILED: Final = -2
"""And if a check has failed: nothing has been written."""
CHECK: Final = """
define void @function(ptr %record, ptr %buffers, ptr %outside, i64 %lo, i64 %hi, i64 %chunk) {
  %p0 = getelementptr i64, ptr %record, i64 0
  %to = load i64, ptr %p0
  %p1 = getelementptr i64, ptr %record, i64 1
  %from = load i64, ptr %p1
  %toslot = getelementptr ptr, ptr %buffers, i64 %to
  %fromslot = getelementptr ptr, ptr %buffers, i64 %from
  %target = load ptr, ptr %toslot
  %source = load ptr, ptr %fromslot
  %truth = load i8, ptr %source
  %word = zext i8 %truth to i64
  store i64 %word, ptr %target
  ret void
}
"""
"""A step that checks: whether a truth holds."""

TEXT: Final = """
define i1 @as_expected(ptr %checks, i64 %count, ptr %items) {
entry:
  br label %head
head:
  %i = phi i64 [ 0, %entry ], [ %after, %good ]
  %more = icmp slt i64 %i, %count
  br i1 %more, label %look, label %yes
yes:
  ret i1 true
no:
  ret i1 false
look:
  %start = mul i64 %i, 8
  %row = getelementptr i64, ptr %checks, i64 %start
  %number = load i64, ptr %row
  %slot = getelementptr ptr, ptr %items, i64 %number
  %object = load ptr, ptr %slot
  %typeslot = getelementptr i8, ptr %object, i64 8
  %type = load i64, ptr %typeslot
  %row1 = getelementptr i64, ptr %row, i64 1
  %wanted = load i64, ptr %row1
  %istype = icmp eq i64 %type, %wanted
  br i1 %istype, label %kind, label %no
kind:
  %row2 = getelementptr i64, ptr %row, i64 2
  %axes = load i64, ptr %row2
  %plain = icmp slt i64 %axes, 0
  br i1 %plain, label %good, label %array
array:
  %axesslot = getelementptr i8, ptr %object, i64 24
  %axes32 = load i32, ptr %axesslot
  %axeshere = zext i32 %axes32 to i64
  %sameaxes = icmp eq i64 %axeshere, %axes
  %descrslot = getelementptr i8, ptr %object, i64 56
  %descr = load i64, ptr %descrslot
  %row4 = getelementptr i64, ptr %row, i64 4
  %descrwanted = load i64, ptr %row4
  %samedescr = icmp eq i64 %descr, %descrwanted
  %flagsslot = getelementptr i8, ptr %object, i64 64
  %flags32 = load i32, ptr %flagsslot
  %flags = zext i32 %flags32 to i64
  %row5 = getelementptr i64, ptr %row, i64 5
  %mask = load i64, ptr %row5
  %masked = and i64 %flags, %mask
  %sameflags = icmp eq i64 %masked, %mask
  %two = and i1 %sameaxes, %samedescr
  %three = and i1 %two, %sameflags
  br i1 %three, label %shape, label %no
shape:
  %sizesslot = getelementptr i8, ptr %object, i64 32
  %sizes = load ptr, ptr %sizesslot
  %stridesslot = getelementptr i8, ptr %object, i64 40
  %strides = load ptr, ptr %stridesslot
  %row3 = getelementptr i64, ptr %row, i64 3
  %numbers = load ptr, ptr %row3
  br label %axis
axis:
  %a = phi i64 [ 0, %shape ], [ %b, %alike ]
  %left = icmp slt i64 %a, %axes
  br i1 %left, label %compare, label %good
compare:
  %sizeslot = getelementptr i64, ptr %sizes, i64 %a
  %size = load i64, ptr %sizeslot
  %sizewantedslot = getelementptr i64, ptr %numbers, i64 %a
  %sizewanted = load i64, ptr %sizewantedslot
  %samesize = icmp eq i64 %size, %sizewanted
  %strideslot = getelementptr i64, ptr %strides, i64 %a
  %stride = load i64, ptr %strideslot
  %further = add i64 %a, %axes
  %stridewantedslot = getelementptr i64, ptr %numbers, i64 %further
  %stridewanted = load i64, ptr %stridewantedslot
  %samestride = icmp eq i64 %stride, %stridewanted
  %single = icmp eq i64 %size, 1
  %strideok = or i1 %samestride, %single
  %both = and i1 %samesize, %strideok
  br i1 %both, label %alike, label %no
alike:
  %b = add i64 %a, 1
  br label %axis
good:
  %after = add i64 %i, 1
  br label %head
}

define void @fill(ptr %fills, i64 %count, ptr %items, ptr %block, ptr %buffers) {
entry:
  br label %head
head:
  %i = phi i64 [ 0, %entry ], [ %after, %put ]
  %more = icmp slt i64 %i, %count
  br i1 %more, label %look, label %done
done:
  ret void
look:
  %start = mul i64 %i, 3
  %row = getelementptr i64, ptr %fills, i64 %start
  %place = load i64, ptr %row
  %row1 = getelementptr i64, ptr %row, i64 1
  %kind = load i64, ptr %row1
  %row2 = getelementptr i64, ptr %row, i64 2
  %number = load i64, ptr %row2
  %blocknumber = ptrtoint ptr %block to i64
  switch i64 %kind, label %fixed [ i64 0, label %inblock i64 1, label %array i64 2, label %float ]
inblock:
  %offset = add i64 %blocknumber, %number
  br label %put
array:
  %slot = getelementptr ptr, ptr %items, i64 %number
  %object = load ptr, ptr %slot
  %dataslot = getelementptr i8, ptr %object, i64 16
  %data = load i64, ptr %dataslot
  br label %put
float:
  %floatslot = getelementptr i64, ptr %items, i64 %number
  %floatobject = load i64, ptr %floatslot
  %value = add i64 %floatobject, 16
  br label %put
fixed:
  br label %put
put:
  %address = phi i64 [ %offset, %inblock ], [ %data, %array ], [ %value, %float ], [ %number, %fixed ]
  %target = getelementptr i64, ptr %buffers, i64 %place
  store i64 %address, ptr %target
  %after = add i64 %i, 1
  br label %head
}

define i64 @prepare(ptr %table, ptr %list, ptr %block, ptr %buffers) {
  %itemsslot = getelementptr i8, ptr %list, i64 24
  %items = load ptr, ptr %itemsslot
  %t5 = getelementptr i64, ptr %table, i64 5
  %checked = load i64, ptr %t5
  %t6 = getelementptr i64, ptr %table, i64 6
  %checks = load ptr, ptr %t6
  %good = call i1 @as_expected(ptr %checks, i64 %checked, ptr %items)
  br i1 %good, label %go, label %changed
changed:
  ret i64 -1
go:
  %t7 = getelementptr i64, ptr %table, i64 7
  %filled = load i64, ptr %t7
  %t8 = getelementptr i64, ptr %table, i64 8
  %fills = load ptr, ptr %t8
  call void @fill(ptr %fills, i64 %filled, ptr %items, ptr %block, ptr %buffers)
  ret i64 0
}

define i64 @steps(ptr %table, i64 %first, ptr %buffers, ptr %state) {
  %t1 = getelementptr i64, ptr %table, i64 1
  %code = load ptr, ptr %t1
  %t2 = getelementptr i64, ptr %table, i64 2
  %count = load i64, ptr %t2
  %t3 = getelementptr i64, ptr %table, i64 3
  %outside = load ptr, ptr %t3
  %t4 = getelementptr i64, ptr %table, i64 4
  %blas = load ptr, ptr %t4
  %t9 = getelementptr i64, ptr %table, i64 9
  %long = load i64, ptr %t9
  %frees = icmp ne i64 %long, 0
  br i1 %frees, label %free, label %hold
hold:
  %quick = call i64 @run(ptr %code, i64 %first, i64 %count, ptr %buffers, ptr %outside, ptr %state, ptr %blas)
  ret i64 %quick
free:
  %t10 = getelementptr i64, ptr %table, i64 10
  %save = load ptr, ptr %t10
  %t11 = getelementptr i64, ptr %table, i64 11
  %restore = load ptr, ptr %t11
  %thread = call ptr %save()
  %slow = call i64 @run(ptr %code, i64 %first, i64 %count, ptr %buffers, ptr %outside, ptr %state, ptr %blas)
  call void %restore(ptr %thread)
  ret i64 %slow
}

define i64 @call(ptr %table, ptr %list, ptr %block, ptr %state) {
  %places = load i64, ptr %table
  %buffers = alloca i64, i64 %places, align 64
  %ready = call i64 @prepare(ptr %table, ptr %list, ptr %block, ptr %buffers)
  %changed = icmp slt i64 %ready, 0
  br i1 %changed, label %no, label %go
no:
  ret i64 -1
go:
  %step = call i64 @steps(ptr %table, i64 0, ptr %buffers, ptr %state)
  ret i64 %step
}
"""


@cache
def is_known() -> bool:
    """Whether objects of this interpreter are laid out as machine code reads them. Those of builds without
    the interpreter's lock are not.
    """
    if "t" in sys.abiflags or struct.calcsize("P") != 8:
        return False
    array = np.zeros((3, 5), np.float32)[:, 1:]
    sizes = [(ctypes.c_int64 * 2).from_address(_at(array, offset)) for offset in (32, 40)]
    items = [array, 2.5]
    return (
        _at(array, 8) == id(np.ndarray)
        and _at(array, 16) == address(array)
        and ctypes.c_int32.from_address(id(array) + 24).value == 2
        and [tuple(each) for each in sizes] == [array.shape, array.strides]
        and _at(array, 56) == id(array.dtype)
        and bool(ctypes.c_int32.from_address(id(array) + 64).value & WRITEABLE)
        and ctypes.c_int64.from_address(_at(items, 24)).value == id(array)
        and ctypes.c_double.from_address(id(items[1]) + 16).value == 2.5
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
