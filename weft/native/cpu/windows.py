"""Maxima of windows, and what is put or found at their places, as steps of our programs.

Takes where planes lie, with the taps of every window; gives definitions of maxima, of their places, and of
elements that are moved there and back. One idea: tables list what each vector of neighbouring windows reads,
so that strides, paddings and edges cost nothing while they run.
"""

from __future__ import annotations

from itertools import product
from math import prod

from weft.native.cpu import window_text
from weft.native.cpu.conv import MOVE, direct, lanes_of
from weft.native.ir.definitions import Definition, Shape
from weft.native.ir.spatial import Laid, Start, Windowed


def tap_reads(
    rows: list[list[tuple[int, int]]], taps: int, stride: int, pairs: bool
) -> list[tuple[int, int]]:
    """For each tap of neighbouring windows: lane 0's place, which lanes read; with pairs, for each two taps
    which elements are read.
    """
    masks, places = [0] * (taps + 1), [0] * (taps + 1)
    for lane, row in enumerate(rows):
        for tap, place in row:
            masks[tap] |= 1 << lane
            places[tap] = place - lane * stride
    found = []
    for tap in range(0, taps, 2 if pairs else 1):
        first, second = masks[tap], masks[tap + 1] if pairs else 0
        place = places[tap] if first else places[tap + 1] - 1
        if first or second:
            bits = [(first >> i & 1) | (second >> i & 1) << 1 for i in range(len(rows))]
            elements = sum(each << 2 * i for i, each in enumerate(bits))
            found.append((place, elements if pairs else first))
    return found


def window_tables(
    x: Laid, sizes: Shape, counts: Shape, along: list[list[list[tuple[int, int]]]], taps: int, stride: int,
    pairs: bool, lanes: int,
) -> tuple[list[int], list[int]]:  # fmt: skip
    """See Note [Tables of windows] in `weft.native.cpu.window_text`; the last axis is given by its taps."""
    steps = x.strides[2:]
    vectors: list[int] = []
    entries: list[int] = []
    for d, h in product(range(counts[0]), range(counts[1])):
        for begin in range(0, counts[2], lanes):
            length = min(lanes, counts[2] - begin)
            rows = along[2][begin : begin + length]
            first = len(entries) // 3
            reads = tap_reads(rows, taps, stride, pairs)
            for (_, i), (_, j), (place, bits) in product(along[0][d], along[1][h], reads):
                entries += [i * steps[0] + j * steps[1] + place * steps[2]]
                entries += [(i * sizes[1] + j) * sizes[2] + place, bits]
            to = (d * counts[1] + h) * counts[2] + begin
            vectors += [first, len(entries) // 3, to, (1 << length) - 1]
    return vectors, entries


def maxima(
    x: Laid, windows: Windowed, shape: Shape, type_: str, read: bool, width: int
) -> tuple[Definition, Definition]:
    """Maxima and their places; both by one function if somebody reads the latter."""
    sizes, counts, along, stride = windows.sizes, windows.counts, windows.along, windows.stride
    column = stride * x.strides[-1]
    if x.strides[-1] != 1 or windows.dilation != 1:
        column = 0 if column == 2 else column
    pairs = column == 2
    vectors, entries = window_tables(
        x, sizes, counts, along, windows.taps, stride, pairs, lanes_of(type_, width)
    )
    head = [windows.planes[1], *x.strides[:2], stride * x.strides[-1], x.offset, prod(counts), stride]
    begins = [(i[0][1] * sizes[1] + j[0][1]) * sizes[2] + k[0][1] for i, j, k in product(*along)]
    rows = prod(windows.planes)
    made = []
    for places in (False, True):
        place = 13 + places
        numbers = [*head, len(vectors) // 4, place, place + len(vectors), place + len(vectors) + len(entries)]
        numbers += [*vectors, *entries, *begins]
        text = window_text.maxima(type_, width, column if column in (1, 2) else 0, places)
        work = rows * prod(sizes) * MOVE * (1 + places)
        made.append(direct(text, "max_pool", shape, type_, [x.base], numbers, rows, work))
    values, both = made
    text = window_text.nothing(type_, width)
    found = both.also = direct(text, "max_pool places", shape, "i64", [both], [], 1, 0)
    return (both if read else values), found


def unpooled(
    values: Start, places: Start, planes: Shape, sizes: Shape, spatial: Shape, type_: str, unique: bool,
    width: int,
) -> Definition:  # fmt: skip
    """Zeros with each plane's values put (or added, unless they are `unique`) at their places in it."""
    (left, start), (right, place_start) = values, places
    numbers = [prod(sizes), prod(spatial), start, place_start]
    text = window_text.scatter(type_, width, unique)
    rows, work = prod(planes), prod(planes) * prod(spatial) * MOVE
    return direct(text, "pool_scatter", (*planes, *spatial), type_, [left, right], numbers, rows, work)


def gathered(
    values: Start, places: Start, planes: Shape, spatial: Shape, sizes: Shape, type_: str, width: int
) -> Definition:
    """The values at each plane's places."""
    (left, start), (right, place_start) = values, places
    numbers = [prod(sizes), prod(spatial), start, place_start]
    text = window_text.gather(type_, width)
    rows, shape = prod(planes), (*planes, *sizes)
    return direct(text, "pool_gather", shape, type_, [left, right], numbers, rows, prod(shape) * MOVE * 2)
