"""The functions of convolutions, as LLVM text.

Takes the sizes of register tiles; gives modules. One idea: no function knows what a convolution is. They walk
along tables that the plan has made (`weft.native.cpu.conv_tables`): where vectors of pixels start, how far
from
there the input of each tap lies, and where results belong; so stride, dilation, padding, groups and the
number of axes are the plan's business alone.

# Note [Tables of a convolution]
    packing     of a plane, vector by vector: where to, where from, which lanes come, which are stored
    entries     for each (channel, tap): how far its input lies from a pixel
    vectors     of pixels: where their input lies, which segments they have: from, to
    segments    where lane 0 of a vector belongs in the result, which lanes do (a row ends within a vector)
    tiles       of vectors: which entries (first, count), where their weights begin
Offsets are in elements. A packed plane holds one channel, padded, places that a stride keeps apart laid
apart, so that neighbouring pixels always read neighbouring elements.
"""

from __future__ import annotations

from functools import cache

from weft.core.records import record
from weft.native.cpu.body_text import BodyText
from weft.native.cpu.conv_code import Code
from weft.native.ir.scalar import Body


def every_second(code: Code, pointer: str, elements: str, otherwise: str = "zeroinitializer") -> list[str]:
    """The even and the odd ones of two vectors' elements, of which a number's bits say which are there."""
    low = code.masked_load(pointer, code.lanes_of(elements), otherwise)
    upper = code.out.let(f"lshr i64 {elements}, {code.lanes}")
    high = code.masked_load(code.past(pointer, code.lanes), code.lanes_of(upper), otherwise)
    found = []
    for first in (0, 1):
        which = ", ".join(f"i32 {2 * i + first}" for i in range(code.lanes))
        kinds = f"{code.vector} {low}, {code.vector} {high}"
        found.append(code.out.let(f"shufflevector {kinds}, <{code.lanes} x i32> <{which}>"))
    return found


def _every_second_one(code: Code, here: str, bits: str) -> str:
    """The even ones of two vectors' elements, all but the last of which may be there."""
    found = []
    for whole in code.either(code.out.let(f"icmp eq i64 {bits}, {(1 << 2 * code.lanes - 1) - 1}")):
        if whole:  # the second vector ends with the last one that is wanted: nothing behind it is read
            low, high = code.load(here), code.load(code.past(here, code.lanes - 1))
            picks = [2 * i if 2 * i < code.lanes else 2 * i + 1 for i in range(code.lanes)]
            which = ", ".join(f"i32 {pick}" for pick in picks)
            kinds = f"{code.vector} {low}, {code.vector} {high}"
            value = code.out.let(f"shufflevector {kinds}, <{code.lanes} x i32> <{which}>")
        else:
            value = every_second(code, here, bits)[0]
        found.append((value, code.out.block))
    sources = ", ".join(f"[ {value}, %{block} ]" for value, block in found)
    return code.out.let(f"phi {code.vector} {sources}")


@cache
def pack(type_: str, width: int, column: int) -> str:
    """Planes of channels, padded. Rows are planes.

    0 result, input    2 channels, stride of an example, of a channel, of a column    6 plane, vectors, their
    table (where to, where lane 0 comes from, which lanes come from there, which are stored; where columns lie
    two apart, which elements come), where the input starts
    """
    code = Code(type_, width)
    target, source = code.buffer(0), code.buffer(1)
    channels, example, channel, step, plane, count, place, start = code.numbers(2, 8)
    table = code.table(place)
    source = code.past(source, start)
    with code.loop("%lo", "%hi") as outer:
        n, c = code.apart(outer.at, channels)
        into = code.past(target, code.mul(outer.at, plane))
        taken = code.past(code.past(source, code.mul(n, example)), code.mul(c, channel))
        with code.loop("0", count) as vector:
            line = code.past(table, code.mul(vector.at, 4), "i64")
            to, come, bits, stored = [code.number(i, line) for i in range(4)]
            here = code.past(taken, come)
            if column == 1:
                value = code.masked_load(here, code.lanes_of(bits))
            elif column == 2:
                value = _every_second_one(code, here, bits)
            else:
                value = code.gather(code.spread(here, step), code.lanes_of(bits))
            code.store_lanes(value, code.past(into, to), stored)
    return code.text()


@cache
def together(type_: str, width: int) -> str:
    """Planes whose even and odd columns are put together. Rows are planes.

    0 result, planes    2 plane, vectors, their table: where to, where even and odd ones lie, which of both
    exist, which are stored
    """
    code = Code(type_, width)
    target, source = code.buffer(0), code.buffer(1)
    plane, count, place = code.numbers(2, 3)
    table = code.table(place)
    with code.loop("%lo", "%hi") as outer:
        start = code.mul(outer.at, plane)
        into, taken = code.past(target, start), code.past(source, start)
        with code.loop("0", count) as vector:
            line = code.past(table, code.mul(vector.at, 6), "i64")
            to, even, odd, evens, odds, stored = [code.number(i, line) for i in range(6)]
            places = [(code.past(taken, even), evens), (code.past(taken, odd), odds)]
            all_bits = (1 << 2 * code.lanes) - 1
            for whole in code.either(code.out.let(f"icmp eq i64 {stored}, {all_bits}")):
                if whole:
                    kinds = ", ".join(f"{code.vector} {code.load(place)}" for place, _ in places)
                else:
                    values = [code.masked_load(place, code.lanes_of(bits)) for place, bits in places]
                    kinds = ", ".join(f"{code.vector} {value}" for value in values)
                for half in (0, 1):
                    begin = half * code.lanes // 2
                    picks = [begin + i // 2 + (code.lanes if i % 2 else 0) for i in range(code.lanes)]
                    which = ", ".join(f"i32 {pick}" for pick in picks)
                    value = code.out.let(f"shufflevector {kinds}, <{code.lanes} x i32> <{which}>")
                    there = code.past(code.past(into, to), half * code.lanes)
                    if whole:
                        code.store(value, there)
                    else:
                        bits = code.out.let(f"lshr i64 {stored}, {half * code.lanes}")
                        code.masked_store(value, there, code.lanes_of(bits))
    return code.text()


@cache
def weights(type_: str, width: int) -> str:
    """Weights in blocks of output channels, each entry's beside each other. Rows are blocks of groups.

    0 result, weights    2 blocks a group, block, outputs a group, stride of a group, of an output    7 where
    the weights start, packed size of a group    9 variants, their table (first entry, count, where to),
    offsets' table
    """
    code = Code(type_, width)
    target, source = code.buffer(0), code.buffer(1)
    blocks, block, outputs, group, output, start, packed, variants, place, offsets = code.numbers(2, 10)
    table, entries = code.table(place), code.table(offsets)
    source = code.past(source, start)
    with code.loop("%lo", "%hi") as row:
        g, b = code.apart(row.at, blocks)
        into = code.past(target, code.mul(g, packed))
        taken = code.past(source, code.mul(g, group))
        first, last = code.mul(b, block), code.sub(outputs, 1)
        with code.loop("0", block) as channel:
            k = code.add(first, channel.at)
            inside = code.out.let(f"icmp slt i64 {k}, {outputs}")
            own = code.past(taken, code.mul(code.least(k, last), output))
            with code.loop("0", variants) as variant:
                line = code.past(table, code.mul(variant.at, 3), "i64")
                begin, count, to = [code.number(i, line) for i in range(3)]
                there = code.past(code.past(into, to), code.mul(code.mul(b, count), block))
                there = code.past(there, channel.at)
                with code.loop("0", count) as entry:
                    offset = code.number(code.add(begin, entry.at), entries)
                    value = code.load_one(code.past(own, offset))
                    zero = f"{code.element} 0.0"
                    value = code.out.let(f"select i1 {inside}, {code.element} {value}, {zero}")
                    code.store_one(value, code.past(there, code.mul(entry.at, block)))
    return code.text()


@cache
def many_weights(type_: str, width: int) -> str:
    """The same for many weights, sixteen entries of sixteen channels at a time. Rows are blocks of groups.

    0 result, weights    2 blocks a group, block, outputs a group, stride of a group, of an output    7 where
    the weights start, packed size of a group    9 pieces, their table: where their variant begins, its
    entries, the first entry, its offset, how many (offsets one after the other)
    """
    code = Code(type_, width)
    target, source = code.buffer(0), code.buffer(1)
    blocks, block, outputs, group, output, start, packed, pieces, place = code.numbers(2, 9)
    room = code.room(code.lanes)
    table = code.table(place)
    source = code.past(source, start)
    with code.loop("%lo", "%hi") as row:
        g, b = code.apart(row.at, blocks)
        into = code.past(target, code.mul(g, packed))
        first = code.mul(b, block)
        taken = code.past(code.past(source, code.mul(g, group)), code.mul(first, output))
        rest = code.least(code.sub(outputs, first), block)
        with code.loop("0", pieces) as piece, code.loop("0", block, code.lanes) as some:
            line = code.past(table, code.mul(piece.at, 5), "i64")
            to, count, entry, offset, length = [code.number(i, line) for i in range(5)]
            there = code.add(to, code.mul(code.add(code.mul(b, count), entry), block))
            slot = code.past(into, code.add(there, some.at))
            here = code.past(code.past(taken, offset), code.mul(some.at, output))
            left = code.sub(rest, some.at)
            rows = []
            for i in range(code.lanes):
                fits = code.out.let(f"icmp sgt i64 {left}, {i}")
                long = code.out.let(f"select i1 {fits}, i64 {length}, i64 0")
                rows.append(code.masked_load(here, code.first_lanes(long)))
                here = code.past(here, output)
            code.put_by(transposed(code, rows), room)
            mask = code.first_lanes(code.sub(block, some.at))
            with code.loop("0", length) as each:
                value = code.load(code.past(room, code.mul(each.at, code.lanes)))
                code.masked_store(value, code.past(slot, code.mul(each.at, block)), mask)
    return code.text()


@cache
def plain_tiles(type_: str, width: int, block: int, across: int, run: int, bias: bool, unit: bool) -> str:
    return tiles(type_, width, block, across, run, bias, unit, ())


def tiles(
    type_: str, width: int, block: int, across: int, run: int, bias: bool, unit: bool, after: Body
) -> str:
    """Tiles of `block` output channels and `across` vectors of pixels. Rows are parts of groups of examples.
    With a `run`, channels are the lanes, and vectors of pixels are so many neighbours: no lane is idle where
    rows are no multiples of vectors. A body is computed of each result before it is stored.

    0 result, packed input, packed weights (bias)    then: groups, parts, tiles, tiles a part, blocks a group,
    outputs a group (6)    input: of an example, of a group    result: of an example, of a group, of an
    output, of a column    weights of a group    bias: start, stride    rows at once    tables: vectors,
    segments, tiles
    """
    code = Code(type_, width)
    target, source, packed = code.buffer(0), code.buffer(1), code.buffer(2)
    added = code.buffer(3) if bias else ""
    numbers = code.numbers(3 + bias, 19)
    groups, parts, count, length, blocks, outputs, x_example, x_group = numbers[:8]
    y_example, y_group, y_output, column, w_group, bias_start, bias_step = numbers[8:15]
    together = numbers[15]
    vectors, segments, tile_table = [code.table(place) for place in numbers[16:]]
    room = code.room(block * across if not run else block // code.lanes * across * run)
    with code.loop("%lo", "%hi", together) as some:
        until = code.least(code.add(some.at, together), "%hi")
        with code.loop("0", blocks) as outer, code.loop(some.at, until) as row:
            ng, part = code.apart(row.at, parts)
            n, g = code.apart(ng, groups)
            x = code.past(code.past(source, code.mul(n, x_example)), code.mul(g, x_group))
            y = code.past(code.past(target, code.mul(n, y_example)), code.mul(g, y_group))
            w = code.past(packed, code.mul(g, w_group))
            first = code.mul(part, length)
            last = code.least(code.add(first, length), count)
            k = code.mul(outer.at, block)
            rest = code.sub(outputs, k)
            here = code.past(y, code.mul(k, y_output))
            with code.loop(first, last) as tile:
                line = code.past(tile_table, code.mul(tile.at, 3), "i64")
                begin, entries, to = [code.number(i, line) for i in range(3)]
                weight = code.past(code.past(w, to), code.mul(code.mul(outer.at, entries), block))
                vector = code.past(vectors, code.mul(tile.at, 3 * across), "i64")
                at = code.add(code.mul(g, outputs), k)
                biases = code.past(added, code.add(code.mul(at, bias_step), bias_start)) if bias else ""
                starts = _biases(code, biases, bias_step, rest, block, run)
                sums = (
                    _turned_sums(code, x, weight, vector, begin, entries, block, across, run, starts)
                    if run
                    else _sums(code, x, weight, vector, begin, entries, block, across, starts)
                )
                code.put_by(sums, room)
                goal = Goal(vector, segments, here, rest, y_output, "" if unit else column, after)
                if run:
                    _turned_results(code, room, goal, block, across, run)
                else:
                    _results(code, room, goal, block, across)
    return code.text()


@record(frozen=True, slots=True)
class Goal:
    """Where results of a tile belong: its vectors, their segments, the first channel's plane, how many
    channels are left, how far apart planes lie, and columns (if not one behind the other); what is added to
    them.
    """

    vector: str
    segments: str
    here: str
    rest: str
    output: str
    column: str
    after: Body

    def finished(self, code: Code, value: str) -> str:
        """What the body makes of a result."""
        if not self.after:
            return value
        return BodyText(code.out, code.lanes).write(self.after, lambda _: value)[-1]


def _biases(code: Code, biases: str, step: str, rest: str, block: int, run: int) -> list[str]:
    """What sums start from: for each output channel, or each vector of them if channels are lanes."""
    if not biases:
        return ["zeroinitializer"] * block
    if run:
        found = []
        for v in range(block // code.lanes):
            pointer = code.past(biases, code.mul(step, v * code.lanes))
            found.append(code.gather(code.spread(pointer, step), "splat (i1 true)"))
        return found
    last = code.sub(rest, 1)
    places = [code.mul(code.least(str(i), last), step) for i in range(block)]
    return [code.splat(code.load_one(code.past(biases, place))) for place in places]


def _sums(
    code: Code, x: str, weight: str, vector: str, begin: str, entries: str, block: int, across: int,
    starts: list[str],
) -> list[str]:  # fmt: skip
    """The register tile: [vector][output channel]."""
    pixels = [code.past(x, code.number(3 * p, vector)) for p in range(across)]
    offsets = code.past("%record", begin, "i64")
    carried = [(code.vector, first) for _ in range(across) for first in starts]
    with code.loop("0", entries, 1, [*carried, ("ptr", weight)]) as loop:
        offset = code.number(loop.at, offsets)
        values = [code.load(code.past(pixel, offset)) for pixel in pixels]
        now = loop.values[-1]
        for i in range(block):
            factor = code.splat(code.load_one(code.past(now, i)))
            for p in range(across):
                place = p * block + i
                loop.following[place] = code.fma(values[p], factor, loop.values[place])
        loop.following[-1] = code.past(now, block)
    return loop.values[:-1]


def _turned_sums(
    code: Code, x: str, weight: str, vector: str, begin: str, entries: str, block: int, across: int, run: int,
    starts: list[str],
) -> list[str]:  # fmt: skip
    """The register tile with channels as lanes: [vector of channels][pixel]."""
    runs = [code.past(x, code.number(3 * p, vector)) for p in range(across)]
    offsets = code.past("%record", begin, "i64")
    wide, pixels = block // code.lanes, across * run
    carried = [(code.vector, first) for first in starts[:wide] for _ in range(pixels)]
    with code.loop("0", entries, 1, [*carried, ("ptr", weight)]) as loop:
        offset = code.number(loop.at, offsets)
        here = [code.past(start, offset) for start in runs]
        now = loop.values[-1]
        factors = [code.load(code.past(now, v * code.lanes)) for v in range(wide)]
        for p in range(pixels):
            value = code.splat(code.load_one(code.past(here[p // run], p % run)))
            for v in range(wide):
                place = v * pixels + p
                loop.following[place] = code.fma(value, factors[v], loop.values[place])
        loop.following[-1] = code.past(now, block)
    return loop.values[:-1]


def transposed(code: Code, rows: list[str]) -> list[str]:
    """As many vectors as there are lanes, turned round; missing ones hold anything."""
    found = rows + ["poison"] * (code.lanes - len(rows))
    step = 1
    while step < code.lanes:
        masks = []
        for upper in (False, True):
            lanes = range(code.lanes)
            if upper:
                picks = [i + step if not i & step else code.lanes + i for i in lanes]
            else:
                picks = [i if not i & step else code.lanes + i - step for i in lanes]
            masks.append(", ".join(f"i32 {pick}" for pick in picks))
        for i in range(code.lanes):
            if not i & step:
                kinds = f"{code.vector} {found[i]}, {code.vector} {found[i + step]}"
                pair = [
                    code.out.let(f"shufflevector {kinds}, <{code.lanes} x i32> <{mask}>") for mask in masks
                ]
                found[i], found[i + step] = pair
        step *= 2
    return found


def _results(code: Code, room: str, goal: Goal, block: int, across: int) -> None:
    """Puts the lanes of a tile where they belong."""
    with code.loop("0", str(across)) as p:
        own = code.past(room, code.mul(p.at, block * code.lanes))
        values = [goal.finished(code, code.load(code.past(own, i * code.lanes))) for i in range(block)]
        _stored(code, values, p.at, goal.here, goal.rest, goal)


def _turned_results(code: Code, room: str, goal: Goal, block: int, across: int, run: int) -> None:
    """The same with channels as lanes, which are turned round."""
    wide = block // code.lanes
    with code.loop("0", str(wide)) as v:
        first = code.mul(v.at, code.lanes)
        here = code.past(goal.here, code.mul(first, goal.output))
        with code.loop("0", str(across)) as p:
            number = code.add(code.mul(v.at, across), p.at)
            own = code.past(room, code.mul(number, run * code.lanes))
            rows = [code.load(code.past(own, i * code.lanes)) for i in range(run)]
            rows = [goal.finished(code, row) for row in rows]
            _stored(code, transposed(code, rows), p.at, here, "", goal)


def _stored(code: Code, values: list[str], number: str, here: str, rest: str, goal: Goal) -> None:
    """Vectors of pixels of neighbouring channels, of which `rest` exist (all, where that is not given)."""
    line = code.past(goal.vector, code.mul(number, 3), "i64")
    with code.loop(code.number(1, line), code.number(2, line)) as segment:
        line = code.past(goal.segments, code.mul(segment.at, 2), "i64")
        there, bits = code.past(here, code.number(0, line)), code.number(1, line)
        whole = code.all_lanes(bits)
        if rest:
            every = code.out.let(f"icmp sge i64 {rest}, {len(values)}")
            whole = code.out.let(f"and i1 {whole}, {every}")
        for plain in (False,) if goal.column else code.either(whole):
            place = there
            for i, value in enumerate(values):
                place = code.past(place, goal.output) if i else there
                if plain:
                    code.store(value, place)
                    continue
                own = bits
                if rest:
                    fits = code.out.let(f"icmp sgt i64 {rest}, {i}")
                    own = code.out.let(f"select i1 {fits}, i64 {bits}, i64 0")
                if goal.column:
                    code.scatter(value, code.spread(place, goal.column), code.lanes_of(own))
                else:
                    code.masked_store(value, place, code.lanes_of(own))
