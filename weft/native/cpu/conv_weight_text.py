"""The functions of the gradients of convolutions' weights, as LLVM text.

Gives modules for `weft.native.cpu.conv_weight`; see Note [Tables of a convolution] in
`weft.native.cpu.conv_text`.
One idea: a few examples' gradients of one block of channels are laid in order near at hand, then used for
all taps of all channels, so that the loop that does the work reads little from afar.
"""

from __future__ import annotations

from functools import cache

from weft.native.cpu.conv_code import Code
from weft.native.cpu.conv_text import transposed


class Ranges:
    """Which examples and blocks of groups a chunk has, and where its sums and its room are."""

    def __init__(self, code: Code, target: str, fields: list[str], block: int) -> None:
        whole, examples, groups, blocks, self.outputs, entries, begin, room, self.splits, self.each = fields
        self.blocks, self.entries = blocks, entries
        by_example = code.out.let(f"icmp ne i64 {whole}, 0")
        all_blocks = code.mul(groups, blocks)
        choices = (("%lo", "0"), ("%hi", examples), ("0", "%lo"), (all_blocks, "%hi"), ("%chunk", "0"))
        self.low, self.high, self.first, self.last, part = [
            code.out.let(f"select i1 {by_example}, i64 {a}, i64 {b}") for a, b in choices
        ]
        self.length = code.mul(entries, block)
        self.sums = code.past(target, code.mul(part, code.mul(all_blocks, self.length)))
        self.near = code.past(target, code.add(begin, code.mul("%chunk", room)))
        with code.loop("0", room, code.lanes) as at:  # so that all memory is somebody's
            code.store("zeroinitializer", code.past(self.near, at.at))

    def row(self, code: Code, number: str, block: int) -> tuple[str, str, str, str, str]:
        """Of a row: its group, its first output channel, where its block's sums are, its entries."""
        which, split = code.apart(number, self.splits)
        g, b = code.apart(which, self.blocks)
        begin = code.mul(split, self.each)
        end = code.least(code.add(begin, self.each), self.entries)
        return g, code.mul(b, block), code.past(self.sums, code.mul(which, self.length)), begin, end


@cache
def gradient(type_: str, width: int, block: int, taps: int, unit: bool, full: bool) -> str:
    """Products of vectors of the gradient with those of the input, summed over pixels, for `block` output
    channels and `taps` entries at once. Rows are examples, each chunk with sums of its own, or (where `whole`
    is 0) shares of the entries of blocks of groups. Sums lie by part, block, entry and output channel; behind
    them, each chunk has room for some examples' vectors of one block: they are read again and again, and stay
    near. Where vectors are `full`, all of their lanes are pixels.

    0 result, gradient, packed input    3 whole, examples, groups, blocks a group, outputs a group, entries,
    where room begins, room, shares of a block, entries of a share    13 vectors, examples at once    15
    input: of an example, of a group    17 gradient: of an example, of an output, of a column, start    21
    tables: vectors, segments, entries, masks
    """
    code = Code(type_, width)
    target, source, packed = code.buffer(0), code.buffer(1), code.buffer(2)
    fields = code.numbers(3, 10)
    outputs, entries = fields[4:6]
    count, together = code.numbers(13, 2)
    x_example, x_group, example, output, column, start = code.numbers(15, 6)
    table, segments, offsets, masks = [code.table(place) for place in code.numbers(21, 4)]
    masks = "" if full else masks
    source = code.past(source, start)
    ranges = Ranges(code, target, fields, block)
    room = code.room(block * taps)
    low, high, near = ranges.low, ranges.high, ranges.near
    step = code.mul(count, block * code.lanes)
    with code.loop(low, high, together) as some:
        fresh = code.out.let(f"icmp eq i64 {some.at}, {low}")
        until = code.least(code.add(some.at, together), high)
        with code.loop(ranges.first, ranges.last) as outer:
            g, k, into, first, behind = ranges.row(code, outer.at, block)
            channel = code.add(code.mul(g, outputs), k)
            taken = code.past(source, code.mul(channel, output))
            rest = code.sub(outputs, k)
            with code.loop(some.at, until) as n:
                slot = code.past(near, code.mul(code.sub(n.at, some.at), step))
                here = code.past(taken, code.mul(n.at, example))
                _vectors(
                    code, here, slot, rest, output, "" if unit else column, table, segments, count, block
                )
            x = code.past(packed, code.mul(g, x_group))
            with code.loop(first, behind, taps) as entry:
                limit = code.sub(entries, 1)
                starts = []
                for t in range(taps):
                    offset = code.number(code.least(code.add(entry.at, t), limit), offsets)
                    starts.append(code.past(x, offset))
                carried = [(code.vector, "zeroinitializer")] * (block * taps)
                with code.loop(some.at, until, 1, [*carried, ("ptr", near)]) as n:
                    moved = code.mul(n.at, x_example)
                    own = [code.past(each, moved) for each in starts]
                    n.following = _products(code, own, n.values, table, masks, count, block, taps)
                code.put_by(n.values[:-1], room)
                with code.loop("0", code.least(code.sub(entries, entry.at), taps)) as tap:
                    held = code.past(room, code.mul(tap.at, block * code.lanes))
                    sums = [code.load(code.past(held, i * code.lanes)) for i in range(block)]
                    e = code.add(entry.at, tap.at)
                    _kept(code, sums, code.past(into, code.mul(e, block)), fresh)
    return code.text()


def _vectors(
    code: Code, here: str, slot: str, rest: str, output: str, column: str, table: str, segments: str,
    count: str, block: int,
) -> None:  # fmt: skip
    """A gradient as vectors of pixels, those of a block of channels beside each other."""
    held, inside = [here], []
    for i in range(block):
        if i:
            held.append(code.past(held[-1], output))
        fits = code.out.let(f"icmp sgt i64 {rest}, {i}")
        inside.append(code.out.let(f"sext i1 {fits} to i64"))
    with code.loop("0", count) as vector:
        line = code.past(table, code.mul(vector.at, 3), "i64")
        begin, end = code.number(1, line), code.number(2, line)
        zeros = [(code.vector, "zeroinitializer")] * block
        with code.loop(begin, end, 1, zeros) as segment:
            line = code.past(segments, code.mul(segment.at, 2), "i64")
            to, bits = code.number(0, line), code.number(1, line)
            for i in range(block):
                mask = code.lanes_of(code.out.let(f"and i64 {bits}, {inside[i]}"))
                there, before = code.past(held[i], to), segment.values[i]
                if column:
                    value = code.gather(code.spread(there, column), mask, before)
                else:
                    value = code.masked_load(there, mask, before)
                segment.following[i] = value
        into = code.past(slot, code.mul(vector.at, block * code.lanes))
        for i in range(block):
            code.store(segment.values[i], code.past(into, i * code.lanes))


def _products(
    code: Code,
    starts: list[str],
    values: list[str],
    table: str,
    masks: str,
    count: str,
    block: int,
    taps: int,
) -> list[str]:
    """One example's vectors, added to the sums; the last value says where its gradient lies."""
    types = [code.vector] * (block * taps) + ["ptr"]
    with code.loop("0", count, 1, list(zip(types, values))) as loop:
        at = code.number(code.mul(loop.at, 3), table)
        if masks:
            mask = code.lanes_of(code.number(loop.at, masks))
            taken = [code.masked_load(code.past(start, at), mask) for start in starts]
        else:
            taken = [code.load(code.past(start, at)) for start in starts]
        now = loop.values[-1]
        for i in range(block):
            factor = code.load(code.past(now, i * code.lanes))
            for t in range(taps):
                place = t * block + i
                loop.following[place] = code.fma(taken[t], factor, loop.values[place])
        loop.following[-1] = code.past(now, block * code.lanes)
    return loop.values


def _kept(code: Code, sums: list[str], into: str, fresh: str) -> None:
    """Adds up the lanes of each vector; puts the results beside each other, or adds them to what is there."""
    out, lanes = code.out, code.lanes
    values = list(sums)
    while lanes > len(sums) or len(values) > 1:
        whole = f"<{lanes} x {code.element}>"
        half = lanes // 2 if len(values) == 1 else lanes
        evens = ", ".join(f"i32 {2 * i}" for i in range(half))
        odds = ", ".join(f"i32 {2 * i + 1}" for i in range(half))
        made = []
        pairs = list(zip(values[::2], values[1::2])) or [(values[0], "poison")]
        for a, b in pairs:
            left, right = [
                out.let(f"shufflevector {whole} {a}, {whole} {b}, <{half} x i32> <{which}>")
                for which in (evens, odds)
            ]
            made.append(out.let(f"fadd <{half} x {code.element}> {left}, {right}"))
        values, lanes = made, half
    whole = f"<{lanes} x {code.element}>"
    before = out.let(f"load {whole}, ptr {into}, align {code.size}")
    before = out.let(f"select i1 {fresh}, {whole} zeroinitializer, {whole} {before}")
    total = out.let(f"fadd {whole} {before}, {values[0]}")
    out.line(f"store {whole} {total}, ptr {into}, align {code.size}")


@cache
def turned(type_: str, width: int, wide: int, taps: int, unit: bool) -> str:
    """The same with channels as lanes, `wide` vectors of them, and one pixel after the other: no lane is idle
    where rows of pixels are short.

    0 result, gradient, packed input    3 as above    13 vectors, examples at once    15 input: of an example,
    of a group    17 gradient: of an example, of an output, of a column, start    21 pixels, tables: vectors
    (where from, which lanes, first pixel), pixels (where their input lies), entries
    """
    code = Code(type_, width)
    block = wide * code.lanes
    target, source, packed = code.buffer(0), code.buffer(1), code.buffer(2)
    fields = code.numbers(3, 10)
    outputs, entries = fields[4:6]
    count, together = code.numbers(13, 2)
    x_example, x_group, example, output, column, start, pixels = code.numbers(15, 7)
    table, places, offsets = [code.table(place) for place in code.numbers(22, 3)]
    source = code.past(source, start)
    ranges = Ranges(code, target, fields, block)
    room = code.room(wide * taps)
    step = code.mul(code.add(pixels, code.lanes), block)
    with code.loop(ranges.low, ranges.high, together) as some:
        fresh = code.out.let(f"icmp eq i64 {some.at}, {ranges.low}")
        until = code.least(code.add(some.at, together), ranges.high)
        with code.loop(ranges.first, ranges.last) as outer:
            g, k, into, first, behind = ranges.row(code, outer.at, block)
            taken = code.past(source, code.mul(code.add(code.mul(g, outputs), k), output))
            rest = code.sub(outputs, k)
            with code.loop(some.at, until) as n:
                slot = code.past(ranges.near, code.mul(code.sub(n.at, some.at), step))
                here = code.past(taken, code.mul(n.at, example))
                _pixels(code, here, slot, rest, output, "" if unit else column, table, count, wide)
            x = code.past(packed, code.mul(g, x_group))
            with code.loop(first, behind, taps) as entry:
                limit = code.sub(entries, 1)
                starts = []
                for t in range(taps):
                    offset = code.number(code.least(code.add(entry.at, t), limit), offsets)
                    starts.append(code.past(x, offset))
                carried = [(code.vector, "zeroinitializer")] * (wide * taps)
                with code.loop(some.at, until, 1, carried) as n:
                    moved = code.mul(n.at, x_example)
                    slot = code.past(ranges.near, code.mul(code.sub(n.at, some.at), step))
                    own = [code.past(each, moved) for each in starts]
                    n.following = _by_pixels(code, own, slot, n.values, places, pixels, wide)
                code.put_by(n.values, room)
                with code.loop("0", code.least(code.sub(entries, entry.at), taps)) as tap:
                    held = code.past(room, code.mul(tap.at, block))
                    there = code.past(into, code.mul(code.add(entry.at, tap.at), block))
                    for v in range(wide):
                        value = code.load(code.past(held, v * code.lanes))
                        _added(code, value, code.past(there, v * code.lanes), fresh)
    return code.text()


def _pixels(
    code: Code, here: str, slot: str, rest: str, output: str, column: str, table: str, count: str, wide: int
) -> None:
    """A gradient as one vector of channels per pixel: what is no pixel is written over by the next vector."""
    with code.loop("0", str(wide)) as part:
        first = code.mul(part.at, code.lanes)
        left = code.sub(rest, first)
        every = code.out.let(f"icmp sge i64 {left}, {code.lanes}")
        every = "false" if column else every
        held = [code.past(here, code.mul(first, output))]
        inside = []
        for i in range(code.lanes):
            if i:
                held.append(code.past(held[-1], output))
            fits = code.out.let(f"icmp sgt i64 {left}, {i}")
            inside.append(code.out.let(f"sext i1 {fits} to i64"))
        with code.loop("0", count) as vector:
            line = code.past(table, code.mul(vector.at, 3), "i64")
            place, bits, pixel = [code.number(i, line) for i in range(3)]
            into = code.past(code.past(slot, code.mul(pixel, wide * code.lanes)), first)
            whole = code.out.let(f"and i1 {every}, {code.all_lanes(bits)}")
            for plain in code.either(whole):
                rows = []
                for i in range(code.lanes):
                    there = code.past(held[i], place)
                    if plain and not column:
                        rows.append(code.load(there))
                        continue
                    mask = code.lanes_of(code.out.let(f"and i64 {bits}, {inside[i]}"))
                    if column:
                        rows.append(code.gather(code.spread(there, column), mask))
                    else:
                        rows.append(code.masked_load(there, mask))
                for i, row in enumerate(transposed(code, rows)):
                    code.store(row, code.past(into, i * wide * code.lanes))


def _by_pixels(
    code: Code, starts: list[str], slot: str, values: list[str], places: str, pixels: str, wide: int
) -> list[str]:
    """One example's pixels, added to the sums: [entry][vector of channels]."""
    carried = [(code.vector, value) for value in values]
    with code.loop("0", pixels, 1, [*carried, ("ptr", slot)]) as loop:
        at = code.number(loop.at, places)
        now = loop.values[-1]
        factors = [code.load(code.past(now, v * code.lanes)) for v in range(wide)]
        for t, start in enumerate(starts):
            value = code.splat(code.load_one(code.past(start, at)))
            for v in range(wide):
                place = t * wide + v
                loop.following[place] = code.fma(value, factors[v], loop.values[place])
        loop.following[-1] = code.past(now, wide * code.lanes)
    return loop.values[:-1]


def _added(code: Code, value: str, into: str, fresh: str) -> None:
    before = code.out.let(
        f"select i1 {fresh}, {code.vector} zeroinitializer, {code.vector} {code.load(into)}"
    )
    code.store(code.plus(before, value), into)


@cache
def combined(type_: str, width: int, block: int) -> str:
    """The sums of all parts, added up in order, as weights lie: vectors of channels are turned round, so many
    entries at a time. Rows are blocks of groups.

    0 result, sums    2 parts, blocks a group, outputs a group, entries, size of a part
    """
    size = 4 if type_ == "f32" else 8
    code = Code(type_, min(width, block * size))
    target, source = code.buffer(0), code.buffer(1)
    parts, blocks, outputs, entries, size_of_part = code.numbers(2, 5)
    with code.loop("%lo", "%hi") as row:
        g, b = code.apart(row.at, blocks)
        k = code.mul(b, block)
        rest = code.sub(outputs, k)
        into = code.past(target, code.mul(code.add(code.mul(g, outputs), k), entries))
        taken = code.past(source, code.mul(code.mul(row.at, entries), block))
        last = code.sub(entries, 1)
        with code.loop("0", entries, code.lanes) as entry, code.loop("0", str(block), code.lanes) as lane:
            there = [code.least(code.add(entry.at, i), last) for i in range(code.lanes)]
            here = [code.past(code.past(taken, code.mul(each, block)), lane.at) for each in there]
            firsts = [(code.vector, code.load(each)) for each in here]
            with code.loop("1", parts, 1, [*firsts, ("i64", size_of_part)]) as part:
                moved = part.values[-1]
                part.following = [
                    code.plus(value, code.load(code.past(each, moved)))
                    for value, each in zip(part.values, here)
                ]
                part.following.append(code.add(moved, size_of_part))
            mask = code.first_lanes(code.sub(entries, entry.at))
            goal = code.past(code.past(into, code.mul(lane.at, entries)), entry.at)
            left = code.sub(rest, lane.at)
            for number, value in enumerate(transposed(code, part.values[:-1])):
                if number:
                    goal = code.past(goal, entries)
                with code.when(code.out.let(f"icmp sgt i64 {left}, {number}")):
                    code.masked_store(value, goal, mask)
    return code.text()
