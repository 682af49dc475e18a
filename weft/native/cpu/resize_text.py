"""The functions of resizing, as LLVM text: weighted sums of elements along one axis.

Gives modules for `weft.native.lower.resize`. One idea: whatever is resampled or averaged along an axis is,
for each of its results, a list of places and weights; what stands in no list is not read.
"""

from __future__ import annotations

from functools import cache

from weft.native.cpu.conv_code import Code


def _weight(code: Code, place: str, table: str) -> str:
    """A number of a table as a float64's bits, in all lanes."""
    slot = code.past(table, place, "i64")
    value = code.out.let(f"load double, ptr {slot}, align 8")
    if code.type == "f32":
        value = code.out.changed("fptrunc", value, "double", "float")
    return code.splat(value)


@cache
def across(type_: str, width: int, weighted: bool) -> str:
    """Along an axis that is not the last. Rows are results along the axis, of all entries of the axes before.

    0 result, source    2 results, length of the axis, elements behind it, where the source starts    6
    tables: where each result's list begins, and the last one's ends; lists (place, weight)
    """
    code = Code(type_, width)
    out = code.out
    target, source = code.buffer(0), code.buffer(1)
    count, length, inner, start = code.numbers(2, 4)
    starts, lists = [code.table(place) for place in code.numbers(6, 2)]
    source = code.past(source, start)
    with code.loop("%lo", "%hi") as row:
        o, i = code.apart(row.at, count)
        first, last = code.number(i, starts), code.number(code.add(i, 1), starts)
        into = code.past(target, code.mul(row.at, inner))
        taken = code.past(source, code.mul(code.mul(o, length), inner))
        with code.loop("0", inner, code.lanes) as at:
            left = code.sub(inner, at.at)
            mask = code.first_lanes(left)
            here = code.past(taken, at.at)
            with code.loop(first, last, 1, [(code.vector, "splat " + _minus_zero(code))]) as entry:
                line = code.past(lists, code.mul(entry.at, 2), "i64")
                moved = code.mul(code.number(0, line), inner)
                value = code.masked_load(code.past(here, moved), mask)
                if weighted:
                    value = out.let(f"fmul {code.vector} {value}, {_weight(code, '1', line)}")
                entry.following = [code.plus(entry.values[0], value)]
            code.store_first(entry.values[0], code.past(into, at.at), left)
    return code.text()


def _minus_zero(code: Code) -> str:
    """What changes nothing when it is added to."""
    return f"({code.element} 0x8000000000000000)"


@cache
def along(type_: str, width: int, weighted: bool) -> str:
    """Along the last axis. Rows are those of the source.

    0 result, source    2 results, length of the axis, where the source starts, vectors of results    6
    tables: vectors (first tap, behind the last, which lanes are results), taps (which lanes read, places,
    weights)
    """
    code = Code(type_, width)
    out, lanes = code.out, code.lanes
    target, source = code.buffer(0), code.buffer(1)
    count, length, start, vectors = code.numbers(2, 4)
    table, taps = [code.table(place) for place in code.numbers(6, 2)]
    source = code.past(source, start)
    whole = f"<{lanes} x i64>"
    with code.loop("%lo", "%hi") as row:
        into = code.past(target, code.mul(row.at, count))
        taken = code.past(source, code.mul(row.at, length))
        with code.loop("0", vectors) as vector:
            line = code.past(table, code.mul(vector.at, 3), "i64")
            first, last, bits = [code.number(i, line) for i in range(3)]
            with code.loop(first, last, 1, [(code.vector, "splat " + _minus_zero(code))]) as tap:
                line = code.past(taps, code.mul(tap.at, 1 + 2 * lanes), "i64")
                mask = code.lanes_of(code.number(0, line))
                places = out.let(f"load {whole}, ptr {code.past(line, 1, 'i64')}, align 8")
                pointers = out.let(f"getelementptr {code.element}, ptr {taken}, {whole} {places}")
                value = code.gather(pointers, mask, f"splat {_minus_zero(code)}")
                if weighted:
                    wide = f"<{lanes} x double>"
                    weights = out.let(f"load {wide}, ptr {code.past(line, 1 + lanes, 'i64')}, align 8")
                    if type_ == "f32":
                        weights = out.let(f"fptrunc {wide} {weights} to {code.vector}")
                    value = out.let(f"fmul {code.vector} {value}, {weights}")
                tap.following = [code.plus(tap.values[0], value)]
            code.store_lanes(tap.values[0], code.past(into, code.mul(vector.at, lanes)), bits)
    return code.text()
