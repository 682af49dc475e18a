"""The functions of pools, as LLVM text: maxima of windows, and gathers and scatters by places.

Gives modules for `weft.native.lower.pools`. One idea: as for convolutions, tables say where windows lie; a
vector is a row of neighbouring windows, and each tap of theirs is one load with a mask.

# Note [Tables of windows]
    vectors    of windows: taps (first, behind the last), where results go, which lanes are windows
    taps       where lane 0 reads, which lanes read, which elements those are (where every second is read),
    and
               lane 0's place in its plane
"""

from __future__ import annotations

from functools import cache

from weft.native.cpu.conv_code import Code
from weft.native.cpu.conv_text import every_second
from weft.native.cpu.writer import literal


def _integers(code: Code) -> str:
    return f"<{code.lanes} x i32>"


def loaded(code: Code, pointer: str, column: int, bits: str, step: str, otherwise: str) -> list[str]:
    """The values of a tap in all lanes, whose neighbours lie one, two or `step` elements apart; of that tap
    and the next where they lie two apart, since both lie in the same two vectors.
    """
    if column == 2:
        return every_second(code, pointer, bits, otherwise)
    mask = code.lanes_of(bits)
    if column == 1:
        return [code.masked_load(pointer, mask, otherwise)]
    return [code.gather(code.spread(pointer, step), mask, otherwise)]


@cache
def maxima(type_: str, width: int, column: int, places: bool) -> str:
    """Maxima of windows, and their places: the first of equals, the last NaN. Rows are planes.

    0 result, (places,) input    then: channels, stride of an example, of a channel, of neighbouring windows
    (4), where the input starts, results a plane, step from one window's place to the next, vectors (4),
    tables: vectors, taps, the first places of all windows of a plane
    """
    code = Code(type_, width)
    whole = _integers(code)
    target, source = code.buffer(0), code.buffer(1 + places)
    where = code.buffer(1) if places else ""
    channels, example, channel, step, start, size, move, count = code.numbers(2 + places, 8)
    table, taps, begins = [code.table(place) for place in code.numbers(10 + places, 3)]
    source = code.past(source, start)
    lowest = f"splat ({code.element} {literal(float('-inf'), type_)})"
    with code.loop("%lo", "%hi") as plane:
        n, c = code.apart(plane.at, channels)
        x = code.past(code.past(source, code.mul(n, example)), code.mul(c, channel))
        first_result = code.mul(plane.at, size)
        y = code.past(target, first_result)
        with code.loop("0", count) as vector:
            line = code.past(table, code.mul(vector.at, 4), "i64")
            first, last, to, bits = [code.number(i, line) for i in range(4)]
            carried = [(code.vector, lowest)]
            if places:
                carried.append((whole, _first_places(code, begins, to, bits, move)))
            with code.loop(first, last, 1, carried) as tap:
                entry = code.past(taps, code.mul(tap.at, 3), "i64")
                offset, place, own = [code.number(i, entry) for i in range(3)]
                values = loaded(code, code.past(x, offset), column, own, step, lowest)
                for turn, value in enumerate(values):
                    if places:
                        _improve(code, tap.following, value, code.add(place, turn))
                    else:
                        tap.following[0] = _greater(code, tap.following[0], value)
            code.store_lanes(tap.values[0], code.past(y, to), bits)
            if places:
                found = code.past(where, first_result, "i64")
                _store_places(code, tap.values[1], found, to, bits, move)
    return code.text()


def _greater(code: Code, best: str, value: str) -> str:
    """The greater of two; what is no number, if either is not."""
    out, kind = code.out, code.vector
    more = out.let(f"fcmp ogt {kind} {best}, {value}")
    found = out.let(f"select {code.mask} {more}, {kind} {best}, {kind} {value}")
    odd = out.let(f"fcmp uno {kind} {best}, {best}")
    return out.let(f"select {code.mask} {odd}, {kind} {best}, {kind} {found}")


def _first_places(code: Code, begins: str, to: str, bits: str, move: str) -> str:
    """What stands for windows of which no element is greater than minus infinity, less the lanes' steps."""
    lanes, out = code.lanes, code.out
    whole = f"<{lanes} x i64>"
    name = f"@llvm.masked.load.v{lanes}i64.p0"
    out.declared[name] = f"declare {whole} {name}(ptr, i32, {code.mask}, {whole})"
    pointer = code.past(begins, to, "i64")
    mask = code.lanes_of(bits)
    found = out.let(f"call {whole} {name}(ptr {pointer}, i32 8, {code.mask} {mask}, {whole} zeroinitializer)")
    made = out.let(f"sub {whole} {found}, {_steps(code, move)}")
    return out.let(f"trunc {whole} {made} to {_integers(code)}")


def _steps(code: Code, move: str) -> str:
    """How far the place of each lane is from that of lane 0."""
    lanes, out = code.lanes, code.out
    whole = f"<{lanes} x i64>"
    first = out.let(f"insertelement {whole} poison, i64 {move}, i64 0")
    spread = out.let(f"shufflevector {whole} {first}, {whole} poison, <{lanes} x i32> zeroinitializer")
    steps = ", ".join(f"i64 {i}" for i in range(lanes))
    return out.let(f"mul {whole} {spread}, <{steps}>")


def _improve(code: Code, state: list[str], value: str, place: str) -> None:
    """Takes those values that are greater, or no numbers."""
    out, whole = code.out, _integers(code)
    best, where = state
    more = out.let(f"fcmp ogt {code.vector} {value}, {best}")
    odd = out.let(f"fcmp uno {code.vector} {value}, {value}")
    better = out.let(f"or {code.mask} {more}, {odd}")
    pick = f"select {code.mask} {better},"
    short = out.let(f"trunc i64 {place} to i32")
    one = out.let(f"insertelement {whole} poison, i32 {short}, i64 0")
    zeros = f"<{code.lanes} x i32> zeroinitializer"
    wide = out.let(f"shufflevector {whole} {one}, {whole} poison, {zeros}")
    state[0] = out.let(f"{pick} {code.vector} {value}, {code.vector} {best}")
    state[1] = out.let(f"{pick} {whole} {wide}, {whole} {where}")


def _store_places(code: Code, where: str, y: str, to: str, bits: str, move: str) -> None:
    """Places of lanes: that of lane 0, and so much more for each lane."""
    lanes, out = code.lanes, code.out
    whole = f"<{lanes} x i64>"
    wide = out.let(f"sext <{lanes} x i32> {where} to {whole}")
    made = out.let(f"add {whole} {wide}, {_steps(code, move)}")
    name = f"@llvm.masked.store.v{lanes}i64.p0"
    out.declared[name] = f"declare void {name}({whole}, ptr, i32, {code.mask})"
    pointer = code.past(y, to, "i64")
    for every in code.either(code.all_lanes(bits)):
        if every:
            out.line(f"store {whole} {made}, ptr {pointer}, align 8")
            continue
        mask = code.lanes_of(bits)
        out.line(f"call void {name}({whole} {made}, ptr {pointer}, i32 8, {code.mask} {mask})")


@cache
def nothing(type_: str, width: int) -> str:
    """What another function has done already."""
    return Code(type_, width).text()


@cache
def scatter(type_: str, width: int, unique: bool) -> str:
    """Planes of zeros, with numbers added (or put, where none meets another) at their places. Rows are
    planes.

    0 result, numbers, places    3 numbers a plane, plane    5 where numbers start, where places start
    """
    code = Code(type_, width)
    out = code.out
    target, source, places = code.buffer(0), code.buffer(1), code.buffer(2)
    count, size, start, place_start = code.numbers(3, 4)
    source, places = code.past(source, start), code.past(places, place_start, "i64")
    with code.loop("%lo", "%hi") as plane:
        into = code.past(target, code.mul(plane.at, size))
        with code.loop("0", size, code.lanes) as at:
            code.store_first("zeroinitializer", code.past(into, at.at), code.sub(size, at.at))
        first = code.mul(plane.at, count)
        with code.loop("0", count) as number:
            here = code.add(first, number.at)
            place = code.number(here, places)
            inside = out.let(f"icmp ult i64 {place}, {size}")
            with code.when(inside):
                there = code.past(into, place)
                value = code.load_one(code.past(source, here))
                if not unique:
                    value = out.let(f"fadd {code.element} {code.load_one(there)}, {value}")
                code.store_one(value, there)
    return code.text()


@cache
def gather(type_: str, width: int) -> str:
    """The elements of planes at places. Rows are planes.

    0 result, planes, places    3 results a plane, plane    5 where planes start, where places start
    """
    code = Code(type_, width)
    out = code.out
    target, source, places = code.buffer(0), code.buffer(1), code.buffer(2)
    count, size, start, place_start = code.numbers(3, 4)
    source, places = code.past(source, start), code.past(places, place_start, "i64")
    with code.loop("%lo", "%hi") as plane:
        taken = code.past(source, code.mul(plane.at, size))
        first = code.mul(plane.at, count)
        with code.loop("0", count) as number:
            here = code.add(first, number.at)
            place = code.number(here, places)
            inside = out.let(f"icmp ult i64 {place}, {size}")
            safe = out.let(f"select i1 {inside}, i64 {place}, i64 0")
            value = code.load_one(code.past(taken, safe))
            value = out.let(f"select i1 {inside}, {code.element} {value}, {code.element} 0.0")
            code.store_one(value, code.past(target, here))
    return code.text()
