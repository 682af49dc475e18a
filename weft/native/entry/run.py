"""What an entry does behind its checks: addresses, results, the run, versions; as LLVM text.

Takes the writer of an entry. One idea: everything that can fail (memory) is done before the program runs, and
the results are owned by one tuple from the start, so giving up is dropping that tuple.

# Note [Tables of a run]
    givens    place, register of the array (or float), whether it is a float, first and last byte reached
    made      place, dtype, rank, sizes, strides (or 0)           arrays that the program fills
              place, 0, -1                                        a float that it fills
    outputs   NEW, number of `made`, version                      a new tensor on a new array
              AGAIN, number of `made`, version                    another one on an array made before
              NUMBER, number of `made`                            a new float
              ARRAY, number of `made`                             a new array; SHARED is one made before
              THERE, register                                     an object that is there
              CONSTANT, object
    written   register of the tensor, number in `givens`, by how much its version grows
    arena     place, offset
`draw` is called without arguments and gives an array, the seeds: its memory is the program's at the place
`seeds`. Where the program comes to nothing, `give_back` is called with it; otherwise it may be one of the
results.
"""

from __future__ import annotations

from typing import Any

from weft.native.entry.parts import write_dropped, write_gives, write_parts, write_takes, write_undone
from weft.native.entry.text import BASE, DATA, FLOAT_AT, ITEMS, LENGTH, REFERRED

NEW, THERE, CONSTANT, AGAIN, NUMBER, ARRAY, SHARED = range(7)


def write_run(w: Any) -> None:
    """From `run` to the end; `give` is where entries without a program come in."""
    _addresses(w)
    _apart(w)
    _drop(w)
    w.go("give")
    w.begin("give")
    _results(w)
    w.choose(w.other("i64", w.header("runs", "i64"), "0"), "prepare", "finish")
    w.begin("prepare")
    write_parts(w, _new_array, _new_number)
    _made_addresses(w)
    _arena(w)
    write_takes(w)
    _hold(w, "Py_IncRef")
    _draw(w)
    _call(w)
    _put_back(w)
    _count(w)
    _finish(w)
    w.begin("finish")
    w.leave()
    let_go(w)
    w.resume()
    write_dropped(w)
    w.ret("ptr", w.load("%results"))
    w.begin("short")  # of memory, of an end, or of seeds
    w.call("void", "Py_DecRef", f"ptr {w.load('%results')}")
    w.go("raised")


def _count(w: Any) -> None:
    """One more call, where somebody counts them."""
    counted, on = w.label(), w.label()
    place = w.header("calls")
    w.choose(w.other("ptr", place, "null"), counted, on)
    w.begin(counted)
    w.store("i64", w.add(w.load(place, 0, "i64"), 1), place)
    w.go(on)
    w.begin(on)


def _addresses(w: Any) -> None:
    """Where inputs lie; whether that is where they lay in the last call."""
    template = w.header("template_at")
    number, head, done = w.loop("%place.count")
    place = w.scaled(number, 8)
    w.store("i64", w.load(template, place, "i64"), "%buffers", place)
    w.turn(number, head, done)
    w.store("i1", "0", "%changed")
    table, last = w.header("givens_at"), w.header("last_at")
    number, head, done = w.loop(w.header("givens", "i64"))
    row = w.row(table, number)
    value, kind = w.operand(row, 1), w.field(row, 2)
    inside = w.number_of(w.at(value, FLOAT_AT))
    data = w.pick(w.other("i64", kind, "0"), "i64", inside, w.load(value, DATA, "i64"))
    w.store("i64", data, "%buffers", w.scaled(w.field(row, 0), 8))
    moved = w.other("i64", data, w.load(last, w.scaled(number, 8), "i64"))
    w.store("i1", w.or_(moved, w.load("%changed", 0, "i1")), "%changed")
    w.turn(number, head, done)


def _apart(w: Any) -> None:
    """That no input which is written reaches into another one: asked anew when something has moved, or has
    another size.
    """
    ask, on = w.label(), w.label()
    some = w.other("i64", w.header("written", "i64"), "0")
    moved = w.or_(w.load("%changed", 0, "i1"), w.load("%fills", 0, "i1"))
    w.choose(w.and_(some, moved), ask, on)
    w.begin(ask)
    writes, table, last = w.header("written_at"), w.header("givens_at"), w.header("last_at")
    count = w.header("givens", "i64")
    number, head, done = w.loop(w.header("written", "i64"))
    own = w.field(w.row(writes, number), 1)
    low, high = _span(w, w.row(table, own))
    other, other_head, other_done = w.loop(count)
    start, stop = _span(w, w.row(table, other))
    meets = w.and_(w.compared("ult", start, high), w.compared("ult", low, stop))
    w.need(w.or_(w.same("i64", own, other), w.not_(meets)))
    w.turn(other, other_head, other_done)
    w.turn(number, head, done)
    number, head, done = w.loop(count)
    place = w.scaled(w.field(w.row(table, number), 0), 8)
    w.store("i64", w.load("%buffers", place, "i64"), last, w.scaled(number, 8))
    w.turn(number, head, done)
    w.go(on)
    w.begin(on)


def _span(w: Any, row: str) -> tuple[str, str]:
    """The first byte that an input reaches, and the one behind the last."""
    data = w.load("%buffers", w.scaled(w.field(row, 0), 8), "i64")
    return w.add(data, w.field(row, 3)), w.add(data, w.field(row, 4))


# -- old gradients -------------------------------------------------------------------------------------------
def _drop(w: Any) -> None:
    """Takes old gradients from their tensors, before there are new ones. Their memory is freed where nobody
    else can see it; they themselves go when all is done, since that may run code of users.
    """
    some, on = w.label(), w.label()
    count = w.header("drops", "i64")
    w.choose(w.same("i64", count, "0"), on, some)
    w.begin(some)
    w.store_at("i1", 1, "%is.dropped")
    table = w.header("drops_at")
    number, head, done = w.loop(count)
    tensor = w.load(w.register(w.load(table, w.scaled(number, 8), "i64")))
    old = w.load(tensor, w.tensor["_grad"])
    _share(w, w.api("None"), w.at(tensor, w.tensor["_grad"]))
    w.store_at("ptr", old, w.at("%dropped", w.scaled(number, 8)))
    kept, alone = w.label(), w.label()
    w.need(w.same("ptr", w.load(old, 8), w.api("Tensor")), kept)
    w.need(w.same("i64", w.load(old, 0, "i64"), "1"), kept)
    w.need(w.same("ptr", w.load(old, w.tensor["__weakref__"]), "null"), kept)
    array = w.load(old, w.tensor["array"])
    w.need(w.same("ptr", w.load(array, 8), w.api("ndarray")), kept)
    w.need(w.same("i64", w.load(array, 0, "i64"), "1"), kept)
    w.need(w.same("ptr", w.load(array, BASE), "null"), kept)
    w.choose(w.same("ptr", w.load(array, REFERRED), "null"), alone, kept)
    w.begin(alone)
    _share(w, w.api("None"), w.at(old, w.tensor["array"]))
    w.call("void", "Py_DecRef", f"ptr {array}")
    w.go(kept)
    w.begin(kept)
    w.turn(number, head, done)
    w.go(on)
    w.begin(on)


def let_go(w: Any) -> None:
    """Drops old gradients for good, if they were taken."""
    some, on = w.label(), w.label()
    w.choose(w.load("%is.dropped", 0, "i1"), some, on)
    w.begin(some)
    w.store_at("i1", 0, "%is.dropped")
    number, head, done = w.loop(w.header("drops", "i64"))
    w.call("void", "Py_DecRef", f"ptr {w.load('%dropped', w.scaled(number, 8))}")
    w.turn(number, head, done)
    w.go(on)
    w.begin(on)


# -- results -------------------------------------------------------------------------------------------------
def _results(w: Any) -> None:
    """A tuple of outputs and of what checks have read; owned from here on."""
    outputs, returned = w.header("outputs", "i64"), w.header("returned", "i64")
    found = w.call("ptr", "PyTuple_New", f"i64 {w.add(outputs, returned)}")
    w.need(w.other("ptr", found, "null"), "erred")
    w.store_at("ptr", found, "%results")
    items, table = w.at(found, ITEMS), w.header("outputs_at")
    number, head, done = w.loop(outputs)
    row, place = w.row(table, number), w.at(items, w.scaled(number, 8))
    new, again, there, constant, single, alone, shared, end = (w.label() for _ in range(8))
    kinds = {THERE: there, CONSTANT: constant, AGAIN: again, NUMBER: single, ARRAY: alone, SHARED: shared}
    w.switch(w.field(row, 0), kinds, new)
    w.begin(new)
    w.store_at("ptr", _tensor(w, row, _new_array(w, row)), place)
    w.go(end)
    w.begin(again)
    array = w.load("%fresh", w.scaled(w.field(row, 1), 8))
    w.call("void", "Py_IncRef", f"ptr {array}")
    w.store_at("ptr", _tensor(w, row, array), place)
    w.go(end)
    w.begin(there)
    _share(w, w.operand(row, 1), place)
    w.go(end)
    w.begin(constant)
    _share(w, w.pointer(row, 1), place)
    w.go(end)
    w.begin(single)
    w.store_at("ptr", _new_number(w, row), place)
    w.go(end)
    w.begin(alone)
    w.store_at("ptr", _new_array(w, row), place)
    w.go(end)
    w.begin(shared)
    _share(w, w.load("%fresh", w.scaled(w.field(row, 1), 8)), place)
    w.go(end)
    w.begin(end)
    w.turn(number, head, done)
    behind, table = w.at(items, w.scaled(outputs, 8)), w.header("returned_at")
    number, head, done = w.loop(returned)
    value = w.load(w.register(w.load(table, w.scaled(number, 8), "i64")))
    _share(w, value, w.at(behind, w.scaled(number, 8)))
    w.turn(number, head, done)


def _share(w: Any, value: str, place: str) -> None:
    w.call("void", "Py_IncRef", f"ptr {value}")
    w.store_at("ptr", value, place)


def _new_number(w: Any, row: str) -> str:
    value = w.call("ptr", "PyFloat_FromDouble", "double 0.0")
    w.need(w.other("ptr", value, "null"), "short")
    w.store_at("ptr", value, w.at("%fresh", w.scaled(w.field(row, 1), 8)))
    return str(value)


def _new_array(w: Any, row: str) -> str:
    made = w.field(row, 1)
    facts = w.row(w.header("made_at"), made)
    kind = w.pointer(facts, 1)
    w.call("void", "Py_IncRef", f"ptr {kind}")  # which the call takes
    rank = w.changed("trunc", w.field(facts, 2), "i64", "i32")
    given = [f"ptr {w.api('ndarray')}", f"ptr {kind}", f"i32 {rank}"]
    given += [f"ptr {w.pointer(facts, 3)}", f"ptr {w.pointer(facts, 4)}", "ptr null", "i32 0", "ptr null"]
    array = w.call("ptr", "PyArray_NewFromDescr", *given)
    w.need(w.other("ptr", array, "null"), "short")
    w.store_at("ptr", array, w.at("%fresh", w.scaled(made, 8)))
    return str(array)


def _tensor(w: Any, row: str, array: str) -> str:
    """A new tensor that holds an array, which becomes its own."""
    tensor = w.call("ptr", "PyType_GenericAlloc", f"ptr {w.api('Tensor')}", "i64 0")
    holds = w.label()
    drop = w.label()
    w.choose(w.other("ptr", tensor, "null"), holds, drop)
    w.begin(drop)
    w.call("void", "Py_DecRef", f"ptr {array}")
    w.go("short")
    w.begin(holds)
    w.store("ptr", array, tensor, w.tensor["array"])
    plain = {"tracked": "False", "index": "zero"}
    for slot in ("tracked", "index", "node", "cell", "origin", "_grad", "hooks"):
        _share(w, w.api(plain.get(slot, "None")), w.at(tensor, w.tensor[slot]))
    version, written, on = w.field(row, 2), w.label(), w.label()
    w.choose(w.same("i64", version, "0"), on, written)
    w.begin(written)
    _new_cell(w, tensor, version)
    w.go(on)
    w.begin(on)
    return str(tensor)


def _new_cell(w: Any, tensor: str, version: str) -> None:
    """A version of its own for a tensor that has none; without memory it is left without."""
    cell = w.call("ptr", "PyList_New", "i64 1")
    give, on, lost = w.label(), w.label(), w.label()
    w.choose(w.other("ptr", cell, "null"), give, lost)
    w.begin(give)
    w.store_at("ptr", w.call("ptr", "PyLong_FromLong", f"i64 {version}"), w.load(cell, ITEMS))
    w.store("ptr", cell, tensor, w.tensor["cell"])
    w.call("void", "Py_DecRef", f"ptr {w.api('None')}")
    w.go(on)
    w.begin(lost)
    w.call("void", "PyErr_Clear")
    w.go(on)
    w.begin(on)


# -- the run -------------------------------------------------------------------------------------------------
def _made_addresses(w: Any) -> None:
    table = w.header("made_at")
    number, head, done = w.loop("%made.count")
    made, row = w.load("%fresh", w.scaled(number, 8)), w.row(table, number)
    inside = w.number_of(w.at(made, FLOAT_AT))
    single = w.same("i64", w.field(row, 2), "-1")
    data = w.pick(single, "i64", inside, w.load(made, DATA, "i64"))
    w.store("i64", data, "%buffers", w.scaled(w.field(row, 0), 8))
    w.turn(number, head, done)


def _arena(w: Any) -> None:
    """Memory for what the program keeps to itself: the entry's own, or new where that is taken."""
    take, new, have, on, small = (w.label() for _ in range(5))
    size = w.header("arena_bytes", "i64")
    w.store_at("ptr", "null", "%arena")
    w.choose(w.same("i64", size, "0"), on, take)
    w.begin(take)
    block = w.header("block")
    w.store_at("ptr", block, "%arena")
    w.store("ptr", "null", "%header", 8 * w.place_of("block"))
    fits = w.label()
    w.choose(w.same("ptr", block, "null"), new, fits)
    w.begin(fits)
    w.choose(w.compared("ule", size, w.header("room", "i64")), have, small)
    w.begin(small)
    _grow(w)
    w.go(have)
    w.begin(new)
    made = w.call("ptr", "aligned_alloc", "i64 64", f"i64 {size}")
    w.need(w.other("ptr", made, "null"), "short")
    w.store_at("ptr", made, "%arena")
    w.go(have)
    w.begin(have)
    start = w.number_of(w.load("%arena"))
    table = w.header("arena_at")
    number, head, done = w.loop(w.header("arena", "i64"))
    row = w.row(table, number)
    w.store("i64", w.add(start, w.field(row, 1)), "%buffers", w.scaled(w.field(row, 0), 8))
    w.turn(number, head, done)
    w.go(on)
    w.begin(on)


def _grow(w: Any) -> None:
    """Has Python find a larger home for this call and later ones, where the block is too small."""
    grown, failed = w.label(), w.label()
    w.resume()
    found = w.call("ptr", "PyObject_CallNoArgs", f"ptr {w.header('grow')}")
    w.pause()
    w.choose(w.same("ptr", found, "null"), failed, grown)
    w.begin(failed)
    w.store("ptr", w.header("home"), "%header", 8 * w.place_of("block"))
    w.go("short")
    w.begin(grown)
    w.call("void", "Py_DecRef", f"ptr {found}")
    w.store_at("ptr", w.header("home"), "%arena")


def _put_back(w: Any) -> None:
    none, own, other, on = (w.label() for _ in range(4))
    block = w.load("%arena")
    w.choose(w.same("ptr", block, "null"), on, none)
    w.begin(none)
    w.choose(w.same("ptr", block, w.header("home")), own, other)
    w.begin(own)
    w.store("ptr", block, "%header", 8 * w.place_of("block"))
    w.go(on)
    w.begin(other)
    w.call("void", "free", f"ptr {block}")
    w.go(on)
    w.begin(on)


def _hold(w: Any, what: str) -> None:
    """Takes hold of all that the program reads while others may run, and lets it go."""
    hold, on = w.label(), w.label()
    w.choose(w.other("i64", w.header("release", "i64"), "0"), hold, on)
    w.begin(hold)
    for name, place in (("givens", 1), ("written", 0)):
        table = w.header(f"{name}_at")
        number, head, done = w.loop(w.header(name, "i64"))
        w.call("void", what, f"ptr {w.operand(w.row(table, number), place)}")
        w.turn(number, head, done)
    w.go(on)
    w.begin(on)


def _draw(w: Any) -> None:
    """Asks Python for the seeds of random numbers, where the program draws; all that it reads is held."""
    ask, given, none, on = (w.label() for _ in range(4))
    w.store_at("ptr", "null", "%drawn")
    function = w.header("draw")
    w.choose(w.same("ptr", function, "null"), on, ask)
    w.begin(ask)
    w.resume()
    seeds = w.call("ptr", "PyObject_CallNoArgs", f"ptr {function}")
    w.pause()
    w.choose(w.other("ptr", seeds, "null"), given, none)
    w.begin(none)
    w.store("i64", "-1", "%reached")
    w.go("called")
    w.begin(given)
    w.store_at("ptr", seeds, "%drawn")
    w.store("i64", w.load(seeds, DATA, "i64"), "%buffers", w.scaled(w.header("seeds", "i64"), 8))
    w.go(on)
    w.begin(on)


def _show_seeds(w: Any) -> None:
    """Lets go of the seeds, or puts them where None stands: in what was made, or among the results."""
    keep, drop, here, ask, on = (w.label() for _ in range(5))
    place = w.load("%seeds.place")
    w.choose(w.same("ptr", place, "null"), ask, here)
    w.begin(here)
    w.store("ptr", w.load("%drawn"), place)
    w.call("void", "Py_DecRef", f"ptr {w.api('None')}")
    w.go(on)
    w.begin(ask)
    item = w.header("seeds_item", "i64")
    w.choose(w.same("i64", item, "0"), drop, keep)
    w.begin(keep)
    place = w.at(w.load("%results"), w.scaled(item, 8))
    w.store("ptr", w.load("%drawn"), place, ITEMS - 8)
    w.call("void", "Py_DecRef", f"ptr {w.api('None')}")
    w.go(on)
    w.begin(drop)
    w.call("void", "Py_DecRef", f"ptr {w.load('%drawn')}")
    w.go(on)
    w.begin(on)


def _undraw(w: Any) -> None:
    """Takes back random numbers that no result contains."""
    give, fine, on = (w.label() for _ in range(3))
    w.choose(w.same("ptr", w.load("%drawn"), "null"), on, give)
    w.begin(give)
    given = [f"ptr {w.header('give_back')}", "ptr %drawn", "i64 1", "ptr null"]
    found = w.call("ptr", "PyObject_Vectorcall", *given)
    w.choose(w.same("ptr", found, "null"), on, fine)  # an error is looked at where the entry ends
    w.begin(fine)
    w.call("void", "Py_DecRef", f"ptr {found}")
    w.go(on)
    w.begin(on)


def _call(w: Any) -> None:
    """Runs the program, without the interpreter's lock where it takes long."""
    run, state, blas = (w.load(w.header("pool"), 8 * place) for place in range(3))
    given = [f"ptr {w.header('code')}", "i64 0", f"i64 {w.header('steps', 'i64')}", "ptr %buffers"]
    given += [f"ptr {w.header('outside')}", f"ptr {state}", f"ptr {blas}"]
    call = f"call i64 {run}({', '.join(given)})"
    apart, here, on = (w.label() for _ in range(3))
    w.choose(w.other("i64", w.header("release", "i64"), "0"), apart, here)
    w.begin(apart)
    w.resume()  # which is for all threads
    thread = w.call("ptr", "PyEval_SaveThread")
    w.store("i64", w.let(call), "%reached")
    w.call("void", "PyEval_RestoreThread", f"ptr {thread}")
    w.pause()
    w.go(on)
    w.begin(here)
    w.store("i64", w.let(call), "%reached")
    w.go(on)
    w.begin(on)
    w.go("called")
    w.begin("called")


def _finish(w: Any) -> None:
    """Versions of what was written; a program that did not come to its end has written nothing."""
    fine, failed = w.label(), w.label()
    w.choose(w.same("i64", w.load("%reached", 0, "i64"), w.header("steps", "i64")), fine, failed)
    w.begin(fine)
    _versions(w)
    _hold(w, "Py_DecRef")
    write_gives(w)
    _show_seeds(w)
    w.go("finish")
    w.begin(failed)
    write_undone(w)
    _undraw(w)
    w.call("void", "Py_DecRef", f"ptr {w.load('%drawn')}")
    _hold(w, "Py_DecRef")
    w.go("short")


def _versions(w: Any) -> None:
    """Counts the writes to inputs."""
    table = w.header("written_at")
    number, head, done = w.loop(w.header("written", "i64"))
    row = w.row(table, number)
    tensor, times = w.operand(row, 0), w.field(row, 2)
    cell = w.load(tensor, w.tensor["cell"])
    none, some, end, grow = (w.label() for _ in range(4))
    w.choose(w.same("ptr", cell, w.api("None")), none, some)
    w.begin(none)
    _new_cell(w, tensor, times)
    w.go(end)
    w.begin(some)
    filled = w.compared("ugt", w.load(cell, LENGTH, "i64"), 0)
    w.choose(filled, grow, end)
    w.begin(grow)
    place = w.load(cell, ITEMS)
    old = w.load(place)
    now = w.add(w.call("i64", "PyLong_AsLong", f"ptr {old}"), times)
    w.store_at("ptr", w.call("ptr", "PyLong_FromLong", f"i64 {now}"), place)
    w.call("void", "Py_DecRef", f"ptr {old}")
    w.go(end)
    w.begin(end)
    w.turn(number, head, done)
