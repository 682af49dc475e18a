"""The checks of an entry: each operation of `weft.core.checks`, and arithmetic, as LLVM text.

Takes the writer of an entry and the row at hand; writes one block per operation, which goes to `passed`, or
to `missed` where things are not as they were. One idea: a check reads memory as CPython lays it out, and only
behind a check of the exact type that says how that is.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from weft.core.checks import LEAST, OPERATIONS
from weft.native.entry.text import (
    FLAGS,
    FLOAT_AT,
    GENERAL,
    ITEMS,
    KEYS,
    KIND,
    LENGTH,
    RANK,
    SIZES,
    STRIDES,
    VERSION,
)

Check = Callable[[Any, str], None]


def write_checks(w: Any, row: str) -> None:
    for name, write in WRITERS.items():
        w.begin(f"do_{name}")
        write(w, row)
        w.go("passed")


def _there(w: Any, value: str) -> None:
    w.need(w.other("ptr", value, "null"))


# -- reading -------------------------------------------------------------------------------------------------
def _argument(w: Any, row: str) -> None:
    w.need(w.compared("ult", w.field(row, 2), "%count"))
    w.give(row, w.load("%args", w.scaled(w.field(row, 2), 8)))


def _held(w: Any, row: str) -> None:
    w.give(row, w.pointer(row, 2))


def _slot(w: Any, row: str) -> None:
    value = w.load(w.operand(row, 2), w.field(row, 3))
    _there(w, value)
    w.give(row, value)


def _type_of(w: Any, row: str) -> None:
    w.give(row, w.load(w.operand(row, 2), 8))


def _instance_dict(w: Any, row: str) -> None:
    w.pause()  # it may be made here
    found = w.call("ptr", "PyObject_GenericGetDict", f"ptr {w.operand(row, 2)}", "ptr null")
    w.resume()
    w.need(w.other("ptr", found, "null"), "erred")
    w.call("void", "Py_DecRef", f"ptr {found}")  # the object holds it
    w.kind_is(found, w.pointer(row, 3))
    w.give(row, found)


def _plain_keys(w: Any, owner: str) -> None:
    """That looking for a key compares it with strings and ints only: other keys are compared by users' code,
    and what registers hold may go away meanwhile.
    """
    look, on = w.label(), w.label()
    strings = w.other("i8", w.load(w.load(owner, KEYS), GENERAL, "i8"), "0")
    w.choose(strings, on, look)
    w.begin(look)
    w.store("i64", "0", "%position")
    number, head, done = w.loop(w.call("i64", "PyDict_Size", f"ptr {owner}"))
    _next(w, owner)
    kind = w.load(w.load("%key"), 8)
    string, whole = (w.same("ptr", kind, w.api(name)) for name in ("str", "int"))
    w.need(w.or_(string, whole))
    w.turn(number, head, done)
    w.go(on)
    w.begin(on)


def _dict_item(w: Any, row: str) -> None:
    owner = w.operand(row, 2)
    _plain_keys(w, owner)
    found = w.call("ptr", "PyDict_GetItemWithError", f"ptr {owner}", f"ptr {w.pointer(row, 3)}")
    w.need(w.other("ptr", found, "null"), "erred")
    w.give(row, found)


def _dict_maybe(w: Any, row: str) -> None:
    owner = w.operand(row, 2)
    _plain_keys(w, owner)
    found = w.call("ptr", "PyDict_GetItemWithError", f"ptr {owner}", f"ptr {w.pointer(row, 3)}")
    there = w.other("ptr", found, "null")  # no key that is compared can raise
    w.give(row, w.pick(there, "ptr", found, w.pointer(row, 4)))


def _type_or(w: Any, row: str) -> None:
    value, look, on = w.operand(row, 2), w.label(), w.label()
    w.choose(w.same("ptr", value, w.pointer(row, 4)), on, look)
    w.begin(look)
    w.kind_is(value, w.pointer(row, 3))
    w.go(on)
    w.begin(on)


def _list_item(w: Any, row: str) -> None:
    owner, place = w.operand(row, 2), w.field(row, 3)
    length = w.load(owner, LENGTH, "i64")
    from_end = w.add(place, length)
    place = w.pick(w.compared("slt", place, 0), "i64", from_end, place)
    w.need(w.compared("ult", place, length))
    w.give(row, w.load(w.load(owner, ITEMS), w.scaled(place, 8)))


def _tuple_item(w: Any, row: str) -> None:
    owner, place = w.operand(row, 2), w.field(row, 3)
    w.need(w.compared("ult", place, w.load(owner, LENGTH, "i64")))
    w.give(row, w.load(w.at(owner, ITEMS), w.scaled(place, 8)))


def _dict_walk(w: Any, row: str) -> None:
    """Keys and values to neighbouring registers, of a dict of so many entries."""
    owner, count = w.operand(row, 2), w.field(row, 3)
    w.need(w.same("i64", w.call("i64", "PyDict_Size", f"ptr {owner}"), count))
    w.store("i64", "0", "%position")
    base = w.register(w.field(row, 1))
    number, head, done = w.loop(count)
    _next(w, owner)
    pair = w.at(base, w.scaled(number, 16))
    w.store_at("ptr", w.load("%key"), pair)
    w.store("ptr", w.load("%value"), pair, 8)
    w.turn(number, head, done)


def _next(w: Any, owner: str) -> None:
    given = [f"ptr {each}" for each in (owner, "%position", "%key", "%value")]
    w.need(w.other("i32", w.call("i32", "PyDict_Next", *given), "0"))


# -- asking --------------------------------------------------------------------------------------------------
def _slot_is(w: Any, row: str) -> None:
    w.need(w.same("ptr", w.load(w.operand(row, 2), w.field(row, 3)), w.pointer(row, 4)))


def _slot_isnt(w: Any, row: str) -> None:
    value = w.load(w.operand(row, 2), w.field(row, 3))
    _there(w, value)
    w.need(w.other("ptr", value, w.pointer(row, 4)))


def _type_is(w: Any, row: str) -> None:
    w.kind_is(w.operand(row, 2), w.pointer(row, 3))


def _same(w: Any, row: str) -> None:
    w.need(w.same("ptr", w.operand(row, 2), w.operand(row, 3)))


def _is_object(w: Any, row: str) -> None:
    w.need(w.same("ptr", w.operand(row, 2), w.pointer(row, 3)))


def _is_surely(w: Any, row: str) -> None:
    w.need(w.same("ptr", w.operand(row, 2), w.pointer(row, 3)), "refused")


def _dict_lacks(w: Any, row: str) -> None:
    owner = w.operand(row, 2)
    _plain_keys(w, owner)
    found = w.call("i32", "PyDict_Contains", f"ptr {owner}", f"ptr {w.pointer(row, 3)}")
    w.need(w.same("i32", found, "0"), "erred")


def _dict_length(w: Any, row: str) -> None:
    w.need(w.same("i64", w.call("i64", "PyDict_Size", f"ptr {w.operand(row, 2)}"), w.field(row, 3)))


def _length(w: Any, row: str) -> None:
    w.need(w.same("i64", w.load(w.operand(row, 2), LENGTH, "i64"), w.field(row, 3)))


def _dict_keys(w: Any, row: str) -> None:
    """These very keys in this order."""
    owner, count, keys = w.operand(row, 2), w.field(row, 3), w.pointer(row, 4)
    w.need(w.same("i64", w.call("i64", "PyDict_Size", f"ptr {owner}"), count))
    w.store("i64", "0", "%position")
    number, head, done = w.loop(count)
    _next(w, owner)
    w.need(w.same("ptr", w.load("%key"), w.load(keys, w.scaled(number, 8))))
    w.turn(number, head, done)


def _bits(w: Any, row: str) -> None:
    """A float's bits, or another number behind an object's head."""
    w.need(w.same("i64", w.load(w.operand(row, 2), LENGTH, "i64"), w.field(row, 3)))


def _equal(w: Any, row: str) -> None:
    """Of two objects of one exact type of Python's own."""
    left, right, done = w.operand(row, 2), w.pointer(row, 3), w.label()
    ask = w.label()
    w.choose(w.same("ptr", left, right), "passed", ask)
    w.begin(ask)
    found = w.call("i32", "PyObject_RichCompareBool", f"ptr {left}", f"ptr {right}", "i32 2")
    w.need(w.same("i32", found, "1"), "erred")
    w.go(done)
    w.begin(done)


def _numbers(w: Any, found: str, expected: str, count: str, free: bool) -> None:
    """That neighbouring numbers are as expected; -1 stands for any."""
    number, head, done = w.loop(count)
    wanted = w.load(expected, w.scaled(number, 8), "i64")
    same = w.same("i64", w.load(found, w.scaled(number, 8), "i64"), wanted)
    if free:
        same = w.or_(same, w.same("i64", wanted, "-1"))
    w.need(same)
    w.turn(number, head, done)


def _tensor(w: Any, row: str) -> None:
    """Class, whether gradients flow, dtype, rank and sizes; gives the array."""
    value, facts = w.operand(row, 2), w.pointer(row, 3)
    w.kind_is(value, w.load(facts, 0), "refused")
    tracked = w.load(value, w.tensor["tracked"])
    w.need(w.same("ptr", tracked, w.load(facts, 8)))
    follows, on = w.label(), w.label()
    w.choose(w.same("ptr", tracked, w.api("True")), on, follows)
    w.begin(follows)
    _alone(w, value, on)
    w.begin(on)
    array = w.load(value, w.tensor["array"])
    _there(w, array)
    _lies(w, row, array, w.at(facts, 16))


def _array(w: Any, row: str) -> None:
    _lies(w, row, w.operand(row, 2), w.pointer(row, 3))


def _lies(w: Any, row: str, array: str, facts: str) -> None:
    """That something is an array of this dtype, rank and sizes; gives it."""
    w.kind_is(array, w.api("ndarray"))
    w.need(w.same("ptr", w.load(array, KIND), w.load(facts, 0)))
    rank = w.load(facts, 8, "i64")
    w.need(w.same("i64", w.changed("sext", w.load(array, RANK, "i32"), "i32", "i64"), rank))
    _numbers(w, w.load(array, SIZES), w.at(facts, 16), rank, True)
    w.give(row, array)


def _alone(w: Any, value: str, on: str) -> None:
    """Goes on where a tensor is no view, or one of a tensor that gradients do not flow to, either: it would
    come to require grad with its base.
    """
    origin, view = w.load(value, w.tensor["origin"]), w.label()
    w.choose(w.same("ptr", origin, w.api("None")), on, view)
    w.begin(view)
    w.kind_is(origin, w.api("View"))
    base = w.load(origin, w.tensor["base"])
    _there(w, base)
    plain, parameter = (w.same("ptr", w.load(base, 8), w.api(name)) for name in ("Tensor", "Parameter"))
    w.need(w.or_(plain, parameter))
    w.need(w.same("ptr", w.load(base, w.tensor["tracked"]), w.api("False")))
    w.go(on)


def _strides(w: Any, row: str) -> None:
    """Of an array whose rank was checked: so many numbers, in bytes."""
    array = w.operand(row, 2)
    _numbers(w, w.load(array, STRIDES), w.pointer(row, 4), w.field(row, 3), False)


def _flags(w: Any, row: str) -> None:
    """Of an array: those of a mask that are set."""
    flags = w.changed("zext", w.load(w.operand(row, 2), FLAGS, "i32"), "i32", "i64")
    w.need(w.same("i64", w.and_(flags, w.field(row, 3), "i64"), w.field(row, 4)))


def _mode(w: Any, row: str) -> None:
    """What a context variable holds is this object."""
    given = [f"ptr {w.pointer(row, 2)}", "ptr null", "ptr %value"]
    w.need(w.same("i32", w.call("i32", "PyContextVar_Get", *given), "0"), "erred")
    value = w.load("%value")
    _there(w, value)
    w.call("void", "Py_DecRef", f"ptr {value}")
    w.need(w.same("ptr", value, w.pointer(row, 3)))


def _call_is(w: Any, row: str) -> None:
    """A function of the library's own gives this object."""
    found = w.call("ptr", "PyObject_CallNoArgs", f"ptr {w.pointer(row, 2)}")
    w.need(w.other("ptr", found, "null"), "raised")
    w.call("void", "Py_DecRef", f"ptr {found}")
    w.need(w.same("ptr", found, w.pointer(row, 3)))


def _call_missing(w: Any, row: str) -> None:
    """A function that checks what only Python can; it gives None where all is well."""
    given = [f"ptr {w.pointer(row, 2)}", "ptr %args", "i64 %count", "ptr null"]
    found = w.call("ptr", "PyObject_Vectorcall", *given)
    w.need(w.other("ptr", found, "null"), "raised")
    w.call("void", "Py_DecRef", f"ptr {found}")
    w.need(w.same("ptr", found, w.api("None")))


def _version(w: Any, row: str) -> None:
    """A class has not changed."""
    w.need(
        w.same(
            "i64", w.changed("zext", w.load(w.pointer(row, 2), VERSION, "i32"), "i32", "i64"), w.field(row, 3)
        )
    )


def _distinct(w: Any, row: str) -> None:
    """Objects in neighbouring numbers of registers are pairwise different; asked anew only if one is new."""
    count, numbers, last = w.field(row, 2), w.pointer(row, 3), w.pointer(row, 4)
    differ, known = w.label(), w.label()
    number, head, done = w.loop(count)
    place = w.scaled(number, 8)
    value = w.load(w.register(w.load(numbers, place, "i64")))
    w.need(w.same("ptr", value, w.load(last, place)), differ)
    w.turn(number, head, done)
    w.go("passed")
    w.begin(differ)
    left, left_head, left_done = w.loop(count)
    value = w.load(w.register(w.load(numbers, w.scaled(left, 8), "i64")))
    right, right_head, right_done = w.loop(left)
    w.need(w.other("ptr", value, w.load(last, w.scaled(right, 8))), known)
    w.turn(right, right_head, right_done)
    w.store_at("ptr", value, w.at(last, w.scaled(left, 8)))
    w.turn(left, left_head, left_done)
    w.go("passed")
    w.begin(known)  # what was noted is not distinct: nothing may be taken from it
    w.store("ptr", "null", last)
    w.go("missed")
    w.begin(w.label())


# -- whole numbers -------------------------------------------------------------------------------------------
def _number(w: Any, row: str) -> None:
    w.give(row, w.field(row, 2), "i64")


def _true(w: Any, row: str) -> None:
    w.need(w.other("i64", w.operand(row, 2, "i64"), "0"))


def _whole(w: Any, row: str) -> None:
    value, ask, on = w.operand(row, 2), w.label(), w.label()
    w.kind_is(value, w.api("int"))
    number = w.call("i64", "PyLong_AsLong", f"ptr {value}")
    w.choose(w.same("i64", number, "-1"), ask, on)
    w.begin(ask)
    w.need(w.same("ptr", w.call("ptr", "PyErr_Occurred"), "null"), "erred")
    w.go(on)
    w.begin(on)
    w.give(row, number, "i64")


def _size(w: Any, row: str) -> None:
    w.give(row, w.load(w.load(w.operand(row, 2), SIZES), w.scaled(w.field(row, 3), 8), "i64"), "i64")


def _step(w: Any, row: str) -> None:
    w.give(row, w.load(w.load(w.operand(row, 2), STRIDES), w.scaled(w.field(row, 3), 8), "i64"), "i64")


def _count(w: Any, row: str) -> None:
    w.give(row, w.load(w.operand(row, 2), LENGTH, "i64"), "i64")


def _dict_count(w: Any, row: str) -> None:
    w.give(row, w.call("i64", "PyDict_Size", f"ptr {w.operand(row, 2)}"), "i64")


def _two(w: Any, row: str) -> tuple[str, str]:
    return w.operand(row, 2, "i64"), w.operand(row, 3, "i64")


def _checked(name: str) -> Check:
    """An operation whose result may not fit, which misses."""

    def write(w: Any, row: str) -> None:
        left, right = ("0", w.operand(row, 2, "i64")) if name == "neg" else _two(w, row)
        pair = w.let(f"call {{i64, i1}} @llvm.{CHECKED[name]}.with.overflow.i64(i64 {left}, i64 {right})")
        w.need(w.same("i1", w.let(f"extractvalue {{i64, i1}} {pair}, 1"), "0"))
        w.give(row, w.let(f"extractvalue {{i64, i1}} {pair}, 0"), "i64")

    return write


def _divided(w: Any, row: str) -> tuple[str, str, str, str]:
    """Quotient and remainder as C has them, the divisor, and whether Python's are the ones below."""
    left, right = _two(w, row)
    w.need(w.other("i64", right, "0"))
    whole, least = w.other("i64", right, "-1"), w.other("i64", left, str(LEAST))
    w.need(w.or_(whole, least))
    quotient, rest = w.let(f"sdiv i64 {left}, {right}"), w.let(f"srem i64 {left}, {right}")
    signs = w.compared("slt", w.let(f"xor i64 {rest}, {right}"), 0)
    return quotient, rest, right, w.and_(w.other("i64", rest, "0"), signs)


def _floordiv(w: Any, row: str) -> None:
    quotient, _rest, _right, below = _divided(w, row)
    w.give(row, w.sub(quotient, w.changed("zext", below, "i1", "i64")), "i64")


def _mod(w: Any, row: str) -> None:
    _quotient, rest, right, below = _divided(w, row)
    w.give(row, w.add(rest, w.pick(below, "i64", right, 0)), "i64")


def _compared(name: str) -> Check:
    def write(w: Any, row: str) -> None:
        left, right = (w.operand(row, 2, "i64"), "0") if name == "not_" else _two(w, row)
        found = w.let(f"icmp {COMPARED[name]} i64 {left}, {right}")
        w.give(row, w.changed("zext", found, "i1", "i64"), "i64")

    return write


def _bitwise(name: str) -> Check:
    def write(w: Any, row: str) -> None:
        left, right = _two(w, row)
        w.give(row, w.let(f"{BITWISE[name]} i64 {left}, {right}"), "i64")

    return write


def _extreme(name: str) -> Check:
    def write(w: Any, row: str) -> None:
        left, right = _two(w, row)
        first = w.let(f"icmp {COMPARED['le' if name == 'min' else 'ge']} i64 {left}, {right}")
        w.give(row, w.pick(first, "i64", left, right), "i64")

    return write


def _where(w: Any, row: str) -> None:
    condition = w.other("i64", w.operand(row, 2, "i64"), "0")
    yes, no = w.operand(row, 3, "i64"), w.operand(row, 4, "i64")
    w.give(row, w.pick(condition, "i64", yes, no), "i64")


def _cell(w: Any, row: str) -> None:
    """What stands at an address that is always the same."""
    w.give(row, w.load(w.pointer(row, 2), 0, "i64"), "i64")


# -- floats, as the bits of doubles --------------------------------------------------------------------------
def _float(w: Any, row: str) -> None:
    w.give(row, w.changed("sitofp", w.operand(row, 2, "i64"), "i64", "double"), "double")


def _truncated(w: Any, row: str) -> None:
    """A float as a whole number, which misses where that is a large one."""
    value = w.operand(row, 2, "double")
    size = w.let(f"call double @llvm.fabs.f64(double {value})")
    w.need(w.let(f"fcmp olt double {size}, {float(1 << 62)!r}"))
    w.give(row, w.changed("fptosi", value, "double", "i64"), "i64")


def _floating(name: str) -> Check:
    def write(w: Any, row: str) -> None:
        left, right = w.operand(row, 2, "double"), w.operand(row, 3, "double")
        w.give(row, w.let(f"{FLOATING[name]} double {left}, {right}"), "double")

    return write


def _double(w: Any, row: str) -> None:
    w.give(row, w.load(w.operand(row, 2), FLOAT_AT, "i64"), "i64")


def _float_neg(w: Any, row: str) -> None:
    w.give(row, w.let(f"fneg double {w.operand(row, 2, 'double')}"), "double")


def _float_abs(w: Any, row: str) -> None:
    w.give(row, w.let(f"call double @llvm.fabs.f64(double {w.operand(row, 2, 'double')})"), "double")


def _ordered(name: str) -> Check:
    def write(w: Any, row: str) -> None:
        left, right = w.operand(row, 2, "double"), w.operand(row, 3, "double")
        found = w.let(f"fcmp {ORDERED[name]} double {left}, {right}")
        w.give(row, w.changed("zext", found, "i1", "i64"), "i64")

    return write


ORDERED: Final = {"feq": "oeq", "fne": "une", "flt": "olt", "fle": "ole", "fgt": "ogt", "fge": "oge"}
"""Likewise, of comparisons: nothing but `!=` holds of NaN."""
FLOATING: Final = {"fadd": "fadd", "fsub": "fsub", "fmul": "fmul", "ftruediv": "fdiv"}
"""By the names of operations on numbers, behind an f."""
CHECKED: Final = {"add": "sadd", "sub": "ssub", "mul": "smul", "neg": "ssub"}
COMPARED: Final = {"eq": "eq", "ne": "ne", "lt": "slt", "le": "sle", "gt": "sgt", "ge": "sge", "not_": "eq"}
BITWISE: Final = {"and_": "and", "or_": "or", "xor": "xor"}
DECLARATIONS: Final = [
    f"declare {{i64, i1}} @llvm.{name}.with.overflow.i64(i64, i64)"
    for name in dict.fromkeys(CHECKED.values())
] + ["declare double @llvm.fabs.f64(double)"]
ALONE: Final = {
    "neg": "n", "not_": "n", "argument": "n", "number": "n", "true": "n", "call_missing": "o", "where": "nnn",
    "is_surely": "no",
    "cell": "n", "float": "n", "truncated": "n", "fneg": "n", "fabs": "n",
}  # fmt: skip
LETTERS: Final = {"v": "n", "V": "nNN", "n": "n", "o": "o", "N": "N", "L": "nN", "s": "n", "-": ""}
"""What an operand of an expression is in a row; see Note [Operands] in `weft.core.checks`. Several registers
are told with their number, and with room for as many objects."""

WRITERS: Final[dict[str, Check]] = {
    "argument": _argument, "held": _held, "slot": _slot, "slot_is": _slot_is, "slot_isnt": _slot_isnt,
    "type_is": _type_is, "same": _same, "is_object": _is_object, "is_surely": _is_surely,
    "instance_dict": _instance_dict,
    "dict_item": _dict_item, "dict_lacks": _dict_lacks, "dict_length": _dict_length, "length": _length,
    "list_item": _list_item, "tuple_item": _tuple_item, "dict_keys": _dict_keys, "dict_walk": _dict_walk,
    "bits": _bits, "equal": _equal, "tensor": _tensor, "strides": _strides, "flags": _flags, "mode": _mode,
    "call_is": _call_is, "version": _version, "distinct": _distinct, "call_missing": _call_missing,
    "array": _array,
    "type_of": _type_of, "number": _number, "true": _true, "whole": _whole, "size": _size, "step": _step,
    "dict_maybe": _dict_maybe, "type_or": _type_or, "count": _count, "dict_count": _dict_count,
    "floordiv": _floordiv, "mod": _mod, "min": _extreme("min"), "max": _extreme("max"), "where": _where,
    "cell": _cell, "float": _float, "truncated": _truncated, "double": _double,
    "fneg": _float_neg, "fabs": _float_abs, **{name: _ordered(name) for name in ORDERED},
    **{name: _floating(name) for name in FLOATING},
    **{name: _checked(name) for name in CHECKED}, **{name: _compared(name) for name in COMPARED},
    **{name: _bitwise(name) for name in BITWISE},
}  # fmt: skip
NUMBERS: Final = {name: number for number, name in enumerate(WRITERS)}


def _row_operands(name: str) -> str:
    known = OPERATIONS.get(name)
    return ALONE.get(name, "nn") if known is None else "".join(LETTERS[each] for each in known.operands)


OPERANDS: Final[dict[str, str]] = {name: _row_operands(name) for name in WRITERS}
"""What stands in a row: numbers, objects, and lists of either (in capitals)."""
