"""What an entry makes beside results, and where results go: nodes of the tape, and gradients of leaves.

Takes the writer of an entry; writes the blocks that make objects and tuples part by part, that take objects
out of slots while a program runs, and that put results into slots. One idea: a part is a row of numbers that
says what it is and in which slot of what was made before it belongs, so all that is made is owned by the
results from its first moment on.

# Note [Tables of parts]
    parts     kind, two operands, the object that it belongs to, its offset there; kinds are listed below.
              Objects are numbered: results first, then what parts of kind OBJECT and TUPLE make
    takes     register of an object, offset of a slot, what stands there instead from before the run on; what
              stood there is put back if the program does not come to its end
    gives     number of a result, register of an object, offset of a slot: where None stands in the slot when
              the program is done, they are exchanged
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from weft.native.entry.text import ITEMS

OBJECT, TUPLE, CONSTANT, REGISTER, SLOT, CELL, COUNT, OWN_CELL, OWN_COUNT = range(9)
FIRST, FRESH, COPY, SEEDS, CALLED, SAME, WHOLE, NUMBER, COPIED = range(9, 18)
"""    OBJECT      class, its number: a new one          TUPLE      length, its number: a new one
    CONSTANT    object                                REGISTER   register of an object
    SLOT        register of an object, offset         SAME       number of an object
    CELL        register of a tensor: its version cell, made if there is none; COUNT is what it counts
    OWN_CELL    the same of an object by its number, and OWN_COUNT
    FIRST       number of `made`: a new array; FRESH is one that was made before
    COPY        register of an array                  SEEDS      of random numbers, when they are known
    CALLED      function: what it gives               WHOLE      number: an int
    NUMBER      number of `made`: a new float         COPIED     array: a copy of it"""
OF_OBJECTS: Final = (OBJECT, CONSTANT, CALLED, SEEDS, COPIED)
"""Kinds whose first operand is an object."""
New = Callable[[Any, str], str]


def write_parts(w: Any, new_array: New, new_number: New) -> None:
    """Makes all parts, behind the results. `new_array` and `new_number` make what a row names."""
    some, on = w.label(), w.label()
    count = w.header("parts", "i64")
    w.choose(w.same("i64", count, "0"), on, some)
    w.begin(some)
    items = w.at(w.load("%results"), ITEMS)
    number, head, done = w.loop(w.header("outputs", "i64"))
    place = w.scaled(number, 8)
    w.store("ptr", w.load(items, place), "%objects", place)
    w.turn(number, head, done)
    table = w.header("parts_at")
    number, head, done = w.loop(count)
    row = w.row(table, number)
    labels = [w.label() for _ in WRITERS]
    first, single, end = w.label(), w.label(), w.label()
    kinds = zip([*WRITERS, FIRST, NUMBER], [*labels, first, single], strict=True)
    w.switch(w.field(row, 0), dict(kinds), "short")
    for write, label in zip(WRITERS.values(), labels, strict=True):
        w.begin(label)
        write(w, row)
        w.go(end)
    for label, new in ((first, new_array), (single, new_number)):
        w.begin(label)
        _put(w, row, new(w, row))
        w.go(end)
    w.begin(end)
    w.turn(number, head, done)
    w.go(on)
    w.begin(on)


def _put(w: Any, row: str, value: str) -> None:
    """Stores what is owned from here on; drops what stood there."""
    place = w.at(_object(w, w.field(row, 3)), w.field(row, 4))
    old = w.load(place)
    w.store_at("ptr", value, place)
    w.call("void", "Py_DecRef", f"ptr {old}")


def _share(w: Any, row: str, value: str) -> None:
    w.call("void", "Py_IncRef", f"ptr {value}")
    _put(w, row, value)


def _object(w: Any, number: str) -> str:
    return str(w.load("%objects", w.scaled(number, 8)))


def _owned(w: Any, row: str, value: str) -> None:
    w.need(w.other("ptr", value, "null"), "short")
    _put(w, row, value)


def _numbered(w: Any, row: str, value: str) -> None:
    _owned(w, row, value)
    w.store("ptr", value, "%objects", w.scaled(w.field(row, 2), 8))


def _new_object(w: Any, row: str) -> None:
    _numbered(w, row, w.call("ptr", "PyType_GenericAlloc", f"ptr {w.pointer(row, 1)}", "i64 0"))


def _new_tuple(w: Any, row: str) -> None:
    _numbered(w, row, w.call("ptr", "PyTuple_New", f"i64 {w.field(row, 1)}"))


def _slot(w: Any, row: str) -> None:
    value = w.load(w.operand(row, 1), w.field(row, 2))
    w.need(w.other("ptr", value, "null"), "short")
    _share(w, row, value)


def _cell(w: Any, tensor: str) -> str:
    """A tensor's version cell."""
    none, made, on = w.label(), w.label(), w.label()
    cell = w.load(tensor, w.tensor["cell"])
    w.store("ptr", cell, "%value")
    w.choose(w.same("ptr", cell, w.api("None")), none, on)
    w.begin(none)
    new = w.call("ptr", "PyList_New", "i64 1")
    w.choose(w.other("ptr", new, "null"), made, "short")
    w.begin(made)
    w.call("void", "Py_IncRef", f"ptr {w.api('zero')}")
    w.store("ptr", w.api("zero"), w.load(new, ITEMS))
    w.store("ptr", new, tensor, w.tensor["cell"])
    w.call("void", "Py_DecRef", f"ptr {cell}")
    w.store("ptr", new, "%value")
    w.go(on)
    w.begin(on)
    return str(w.load("%value"))


def _copy(w: Any, row: str, array: str) -> None:
    _owned(w, row, w.call("ptr", "PyArray_NewCopy", f"ptr {array}", f"i32 {AS_IT_LIES}"))


def _seeds(w: Any, row: str) -> None:
    """None until they are known."""
    _share(w, row, w.api("None"))
    w.store("ptr", w.at(_object(w, w.field(row, 3)), w.field(row, 4)), "%seeds.place")


AS_IT_LIES: Final = 2
"""NumPy's number for the order of elements that a copy shares with what it is one of."""
WRITERS: Final[dict[int, Callable[[Any, str], None]]] = {
    OBJECT: _new_object,
    TUPLE: _new_tuple,
    CONSTANT: lambda w, row: _share(w, row, w.pointer(row, 1)),
    REGISTER: lambda w, row: _share(w, row, w.operand(row, 1)),
    SLOT: _slot,
    CELL: lambda w, row: _share(w, row, _cell(w, w.operand(row, 1))),
    COUNT: lambda w, row: _share(w, row, w.load(w.load(_cell(w, w.operand(row, 1)), ITEMS))),
    OWN_CELL: lambda w, row: _share(w, row, _cell(w, _object(w, w.field(row, 1)))),
    OWN_COUNT: lambda w, row: _share(w, row, w.load(w.load(_cell(w, _object(w, w.field(row, 1))), ITEMS))),
    FRESH: lambda w, row: _share(w, row, w.load("%fresh", w.scaled(w.field(row, 1), 8))),
    COPY: lambda w, row: _copy(w, row, w.operand(row, 1)),
    COPIED: lambda w, row: _copy(w, row, w.pointer(row, 1)),
    SEEDS: _seeds,
    CALLED: lambda w, row: _owned(w, row, w.call("ptr", "PyObject_CallNoArgs", f"ptr {w.pointer(row, 1)}")),
    SAME: lambda w, row: _share(w, row, _object(w, w.field(row, 1))),
    WHOLE: lambda w, row: _owned(w, row, w.call("ptr", "PyLong_FromLong", f"i64 {w.field(row, 1)}")),
}


# -- slots ---------------------------------------------------------------------------------------------------
def write_takes(w: Any) -> None:
    """Takes objects out of slots: nothing can fail between here and the run."""
    some, on = w.label(), w.label()
    count = w.header("takes", "i64")
    w.choose(w.same("i64", count, "0"), on, some)
    w.begin(some)
    w.store_at("i1", 1, "%is.taken")
    table = w.header("takes_at")
    number, head, done = w.loop(count)
    row = w.row(table, number)
    place, instead = w.at(w.operand(row, 0), w.field(row, 1)), w.pointer(row, 2)
    w.store("ptr", w.load(place), "%taken", w.scaled(number, 8))
    w.call("void", "Py_IncRef", f"ptr {instead}")
    w.store_at("ptr", instead, place)
    w.turn(number, head, done)
    w.go(on)
    w.begin(on)


def write_undone(w: Any) -> None:
    """Puts back what was taken."""
    some, on = w.label(), w.label()
    w.choose(w.load("%is.taken", 0, "i1"), some, on)
    w.begin(some)
    w.store_at("i1", 0, "%is.taken")
    table = w.header("takes_at")
    number, head, done = w.loop(w.header("takes", "i64"))
    row = w.row(table, number)
    place = w.at(w.operand(row, 0), w.field(row, 1))
    old = w.load(place)
    w.store_at("ptr", w.load("%taken", w.scaled(number, 8)), place)
    w.call("void", "Py_DecRef", f"ptr {old}")
    w.turn(number, head, done)
    w.go(on)
    w.begin(on)


def write_gives(w: Any) -> None:
    """Exchanges results and the None of slots; notes whether some are left."""
    items, table = w.at(w.load("%results"), ITEMS), w.header("gives_at")
    number, head, done = w.loop(w.header("gives", "i64"))
    row = w.row(table, number)
    item, place = w.at(items, w.scaled(w.field(row, 0), 8)), w.at(w.operand(row, 1), w.field(row, 2))
    there, free, held, end = w.load(place), w.label(), w.label(), w.label()
    w.choose(w.same("ptr", there, w.api("None")), free, held)
    w.begin(free)
    w.store_at("ptr", w.load(item), place)
    w.store_at("ptr", there, item)
    w.go(end)
    w.begin(held)
    w.store_at("i1", 1, "%left")
    w.go(end)
    w.begin(end)
    w.turn(number, head, done)


def write_dropped(w: Any) -> None:
    """Drops what was taken, and results that are all given away, where nobody wants to see them."""
    some, on, ask, quiet, loud = (w.label() for _ in range(5))
    w.choose(w.load("%is.taken", 0, "i1"), some, on)
    w.begin(some)
    w.store_at("i1", 0, "%is.taken")
    number, head, done = w.loop(w.header("takes", "i64"))
    w.call("void", "Py_DecRef", f"ptr {w.load('%taken', w.scaled(number, 8))}")
    w.turn(number, head, done)
    w.go(on)
    w.begin(on)
    w.choose(w.load("%left", 0, "i1"), loud, ask)
    w.begin(ask)
    w.choose(w.same("i64", w.header("quiet", "i64"), "0"), loud, quiet)
    w.begin(quiet)
    w.call("void", "Py_DecRef", f"ptr {w.load('%results')}")
    w.call("void", "Py_IncRef", f"ptr {w.api('None')}")
    w.ret("ptr", w.api("None"))
    w.begin(loud)
