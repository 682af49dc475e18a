"""Gradients of convolutions' weights, as steps of our programs.

Takes definitions of the result's gradient and of the input; gives the definition of the weights' gradient.
One idea: examples are summed in chunks, each with sums of its own, which are added up in order at the end.
"""

from __future__ import annotations

from math import prod
from typing import Final

from weft.core.records import record
from weft.native.cpu import conv_weight_text as texts
from weft.native.cpu.conv import (
    MOVE,
    PRODUCT,
    REGISTERS,
    direct,
    lanes_of,
    packed_input,
    vector_tables,
)
from weft.native.cpu.conv_tables import Tables, forward
from weft.native.ir.definitions import Definition, Shape
from weft.native.ir.sizes import greatest, least, whole_number
from weft.native.ir.spatial import Geometry, Laid, Sides
from weft.native.plan.work import CHUNK

NEAR: Final = 24 << 10
"""How many bytes of the gradient are used again and again before others are."""
MOST_CHUNKS: Final = 8
LEAST_ENTRIES: Final = 192
"""So many entries at least share what it takes to lay a gradient in order."""
POINTERS: Final = 8
"""How many addresses are held in registers besides what a loop needs: more would be read from the stack."""
LATENCY: Final = 8
"""Multiplications that are under way at once: fewer sums wait for each other."""


@record(frozen=True, slots=True)
class Tile:
    """Output channels and entries at once; whether channels are the lanes."""

    block: int
    taps: int
    turned: bool = False


def tile_for(outputs: int, entries: int, vectors: int, pixels: int, lanes: int, width: int) -> Tile:
    """The tile that needs least: products, some for each load, and adding up lanes or turning round."""
    most = REGISTERS if width == 64 else REGISTERS // 2
    found = []
    for block in (1, 2, 4, 8) if width == 64 else (1, 2, 4):
        for taps in range(1, 13):
            if block <= lanes and block * taps + taps + 1 <= most:
                each = vectors * max(block * taps + 0.35 * (block + taps), 4.0) + 3 * taps * lanes
                found.append((-(-outputs // block) * -(-entries // taps) * each, Tile(block, taps)))
    for wide in (1, 2, 3, 4):
        for taps in range(3, POINTERS + 1):
            if wide * (taps + 1) + 1 > most:
                continue
            each = pixels * (max(wide * taps, wide + taps + 1, LATENCY) + 1.0)
            cost = -(-outputs // (wide * lanes)) * -(-entries // taps) * each
            cost += -(-outputs // lanes) * pixels * 10.0
            found.append((cost, Tile(wide * lanes, taps, True)))
    return min(found, key=lambda each: each[0])[1]


def shares(entries: int, taps: int, blocks: int) -> tuple[int, int]:
    """How many entries a row has that all examples are summed for, and how many such rows a block has: enough
    for chunks, but no shorter than is worth while."""
    most = max(1, min(-(-2 * MOST_CHUNKS // blocks), entries // LEAST_ENTRIES))
    each = -(-entries // (most * taps)) * taps
    return each, -(-entries // each)


def rows_of(tables: Tables, moves: Shape, lanes: int) -> tuple[list[int], list[int]]:
    """Vectors of pixels of a row each (where from, which lanes, first pixel), and each pixel's input."""
    plane, (variant,) = tables.pitch, tables.variants
    vectors: list[int] = []
    pixels: list[int] = []
    deep, high, long = variant.counts
    for d in range(deep):
        for h in range(high):
            for begin in range(0, long, lanes):
                length = min(long - begin, lanes)
                place = d * moves[0] + h * moves[1] + begin * moves[2]
                vectors += [place, (1 << length) - 1, len(pixels)]
                first = d * plane[0] + h * plane[1] + begin
                pixels += range(first, first + length)
    return vectors, pixels


def weight_gradient(
    g: Laid, x: Laid, geometry: Geometry, sides: Sides, result: Shape, type_: str, width: int
) -> Definition:
    """What a convolution's weights get from its result's gradient `g`."""
    lanes = lanes_of(type_, width)
    lies, moves = (tuple(map(int, each.strides[2:])) for each in (x, g))
    tables = forward(geometry.settled(), lies, moves, lanes)
    (variant,) = tables.variants
    plane = tables.plane
    packed = packed_input(x, plane, sides.examples, sides.groups * sides.inputs, type_, width)
    entries = [c * plane.size + offset for c in range(sides.inputs) for offset in variant.offsets]
    count, pixels = len(variant.vectors), prod(variant.counts)
    tile = tile_for(sides.outputs, len(entries), count, pixels, lanes, width)
    blocks = -(-sides.outputs // tile.block)
    all_blocks = sides.groups * blocks
    each, splits = shares(len(entries), tile.taps, all_blocks)
    whole = all_blocks * splits < MOST_CHUNKS and (sides.examples >= 4 or sides.examples > all_blocks)
    if whole:
        each, splits = len(entries), 1
    rows = sides.examples if whole else all_blocks * splits
    work = sides.examples * sides.groups * sides.outputs * pixels * len(entries) * PRODUCT
    work *= 1 if type_ == "f32" else 2
    chunks = greatest(1, least(whole_number(work) // CHUNK, MOST_CHUNKS, rows))
    room = ((pixels + lanes) if tile.turned else count * lanes) * tile.block
    each_chunk = -(-sides.examples // chunks) if whole else sides.examples
    together = max(1, min(NEAR * lanes // (room * width), each_chunk))
    parts, size = chunks if whole else 1, all_blocks * len(entries) * tile.block
    x_group = sides.inputs * plane.size
    numbers = [int(whole), sides.examples, sides.groups, blocks, sides.outputs, len(entries), parts * size]
    numbers += [together * room, splits, each]
    if tile.turned:
        lines, places = rows_of(tables, g.strides[2:], lanes)
        numbers += [len(lines) // 3, together, sides.groups * x_group, x_group]
        numbers += [g.strides[0], g.strides[1], g.strides[-1], g.offset, pixels]
        listed = [lines, places, entries]
        text = texts.turned(type_, width, tile.block // lanes, tile.taps, g.strides[-1] == 1)
    else:
        vectors, segments, _ = vector_tables([variant], 1)
        masks = [sum(mask for _, mask in each) for _, each in variant.vectors]
        numbers += [count, together, sides.groups * x_group, x_group]
        numbers += [g.strides[0], g.strides[1], g.strides[-1], g.offset]
        listed = [vectors, segments, entries, masks]
        full = all(mask == (1 << lanes) - 1 for mask in masks)
        text = texts.gradient(type_, width, tile.block, tile.taps, g.strides[-1] == 1, full)
    place = 3 + len(numbers) + len(listed)
    for table in listed:
        numbers.append(place)
        place += len(table)
    numbers += [number for table in listed for number in table]
    shape = (parts * size + chunks * together * room,)
    sums = direct(
        text, "convolution_weight", shape, type_, [g.base, packed], numbers, rows, work, MOST_CHUNKS
    )
    numbers = [parts, blocks, sides.outputs, len(entries), size]
    text = texts.combined(type_, width, tile.block)
    return direct(
        text, "convolution_weight sum", result, type_, [sums], numbers, all_blocks, parts * size * MOVE / 2
    )
