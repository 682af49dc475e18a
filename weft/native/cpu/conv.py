"""Convolutions as steps of our programs: what is packed, and which functions run on it.

Takes definitions of inputs and weights with a geometry; gives the definition of the result. One idea: inputs
and weights are packed into memory of their own first (padded, in the order in which they are read), so the
loop that does the work reads one element after the other, and any layout will do for what comes in.

# Note [Steps of a convolution]
    result                    pack(input), weights(weight), tiles(both, bias)
    gradient of the input     pack(gradient), weights(weight), tiles(both): a tap's shift is turned round;
                              together(that), where columns of the result are computed apart
    gradient of the weight    pack(input), gradient(both), combined: a sum over chunks of examples
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from math import prod
from typing import Final

from weft.core.records import record
from weft.native.cpu import conv_text
from weft.native.cpu.conv_tables import Plane, Tables, Variant, backward, forward, put_together
from weft.native.ir.definitions import Definition, Direct, Shape
from weft.native.ir.sizes import greatest, least, whole_number
from weft.native.ir.spatial import Geometry, Laid, Sides
from weft.native.plan.work import CHUNK, MOST_CHUNKS

REGISTERS: Final = 32
MOVE: Final = 0.25
"""How many ns it takes to move an element to where it is read."""
PRODUCT: Final = 0.02
"""And to multiply and add one."""
PART: Final = 1 << 14
"""About how many multiplications of vectors a part of an example has: tiles that are computed for one block
of weights after the other."""
NEAR: Final = 384 << 10
"""How many bytes of input all blocks of weights go over before others are read."""


def direct(
    text: str, name: str, shape: Shape, type_: str, operands: Sequence[Definition], numbers: list[int],
    rows: int, work: float, most: int = MOST_CHUNKS,
) -> Direct:  # fmt: skip
    """A step of so much work, in ns; it is cut into chunks by its size alone."""
    return Direct(
        shape=shape, type=type_, name=name, call=None, operands=list(operands), function=name, text=text,
        numbers=tuple(numbers), rows=rows, chunks=greatest(1, least(whole_number(work) // CHUNK, rows, most)),
        work=whole_number(work) + 1,
    )  # fmt: skip


def lanes_of(type_: str, width: int) -> int:
    return width // (4 if type_ == "f32" else 8)


def packed_input(given: Laid, plane: Plane, examples: int, channels: int, type_: str, width: int) -> Direct:
    """Planes of all channels of all examples."""
    count = examples * channels
    numbers = [channels, given.strides[0], given.strides[1], plane.column]
    table = plane.vectors(lanes_of(type_, width))
    numbers += [plane.size, len(table) // 4, 10, given.offset, *table]
    size = count * plane.size
    text = conv_text.pack(type_, width, plane.column if plane.column in (1, 2) else 0)
    return direct(text, "conv pack", (size,), type_, [given.base], numbers, count, MOVE * size)


@record(frozen=True, slots=True)
class Tile:
    """A register tile: output channels, vectors of pixels; of `run` pixels if channels are the lanes."""

    block: int
    across: int
    run: int = 0


def tile_for(outputs: int, vectors: int, width: int) -> tuple[float, Tile]:
    """The tile of vectors of pixels that needs least, and how much: products, and some for each load."""
    most = REGISTERS if width == 64 else REGISTERS // 2
    best: tuple[float, Tile] | None = None
    for block in range(1, min(outputs, 16) + 1):
        for across in range(1, min(vectors, 8) + 1):
            if block * across + across + 1 > most:
                continue
            each = max(block * across + 0.35 * (block + across), 8.0)
            cost = -(-outputs // block) * -(-vectors // across) * each
            if best is None or cost < best[0]:
                best = cost, Tile(block, across)
    return best if best is not None else (float(outputs * vectors), Tile(1, 1))


TURN: Final = 5.0
"""What it takes to turn a vector of channels round."""


def turned_tile(
    outputs: int, rows: list[tuple[int, int]], entries: int, lanes: int, width: int
) -> tuple[float, Tile] | None:
    """The tile whose lanes are channels: `rows` are rows of pixels (how many, how long)."""
    most = REGISTERS if width == 64 else REGISTERS // 2
    best: tuple[float, Tile] | None = None
    for wide in (1, 2, 3, 4):
        block = wide * lanes
        for run in range(4, lanes + 1) if outputs % block == 0 else ():
            for across in (1, 2, 3, 4):
                if wide * (run * across + 1) + 1 > most:
                    continue
                tiles = sum(-(-(count * -(-length // run)) // across) for count, length in rows)
                each = wide * run * across + 0.35 * (wide + run * across)
                cost = outputs // block * tiles * (each + TURN * wide * across * lanes / max(entries, 1))
                if best is None or cost < best[0]:
                    best = cost, Tile(block, across, run)
    return best


@record(slots=True)
class Weights:
    """How weights are read: strides of a group, of an output channel, of an input channel, of taps."""

    given: Laid
    group: int
    output: int
    input: int
    taps: list[int]


MANY: Final = 1 << 17
"""From how many weights on they are packed by a function that takes longer to compile."""


def pieces_of(table: list[int], offsets: list[int], lanes: int) -> list[int]:
    """Entries whose weights lie one after the other; none where they are too short to be worth it."""
    pieces: list[int] = []
    for first, count, to in zip(table[::3], table[1::3], table[2::3]):
        at = 0
        while at < count:
            length = 1
            while (
                length < min(lanes, count - at)
                and offsets[first + at + length] == offsets[first + at] + length
            ):
                length += 1
            pieces += [to, count, at, offsets[first + at], length]
            at += length
    return pieces if len(pieces) // 5 * 4 <= len(offsets) else []


def packed_weights(
    weights: Weights, variants: list[Variant], inputs: int, outputs: int, groups: int, block: int,
    type_: str, width: int,
) -> tuple[Direct, list[int], int]:  # fmt: skip
    """The weights; where those of each variant begin; the packed size of a group."""
    blocks = -(-outputs // block)
    table: list[int] = []
    offsets: list[int] = []
    begins: list[int] = []
    size = 0
    for variant in variants:
        count = inputs * len(variant.taps)
        begins.append(size)
        table += [len(offsets), count, size]
        offsets += [c * weights.input + weights.taps[tap] for c in range(inputs) for tap in variant.taps]
        size += blocks * count * block
    head = [blocks, block, outputs, weights.group, weights.output, weights.given.offset, size]
    pieces = pieces_of(table, offsets, lanes_of(type_, width)) if size * groups >= MANY else []
    if pieces:
        numbers = [*head, len(pieces) // 5, 11, *pieces]
        text = conv_text.many_weights(type_, width)
    else:
        numbers = [*head, len(variants), 12, 12 + len(table), *table, *offsets]
        text = conv_text.weights(type_, width)
    shape = (max(size * groups, 1),)
    work = size * groups * MOVE
    made = direct(text, "conv weights", shape, type_, [weights.given.base], numbers, groups * blocks, work)
    return made, begins, size


def vector_tables(variants: list[Variant], across: int) -> tuple[list[int], list[int], list[int]]:
    """Vectors, segments, and how many tiles each variant has; the last tile is filled up with vectors whose
    results are discarded.
    """
    vectors: list[int] = []
    segments: list[int] = []
    counts = []
    for variant in variants:
        for start, parts in variant.vectors:
            first = len(segments) // 2
            for place, mask in parts:
                segments += [place, mask]
            vectors += [start, first, first + len(parts)]
        missing = -len(variant.vectors) % across
        for _ in range(missing):
            vectors += [variant.vectors[-1][0], 0, 0]
        counts.append((len(variant.vectors) + missing) // across)
    return vectors, segments, counts


def chosen(make: Callable[[int], Tables], sides: Sides, type_: str, width: int) -> tuple[Tables, Tile]:
    """The register tile for a convolution, and its tables; `make` makes them for so many lanes."""
    lanes = lanes_of(type_, width)
    tables = make(lanes)
    cost, tile = tile_for(sides.outputs, sum(len(each.vectors) for each in tables.variants), width)
    rows = [(prod(each.counts[:2]), each.counts[2]) for each in tables.variants]
    most = max(len(each.taps) for each in tables.variants) * sides.inputs
    other = turned_tile(sides.outputs, rows, most, lanes, width)
    if other is not None and other[0] < cost:
        return make(other[1].run), other[1]
    return tables, tile


def convolved(
    source: Laid, weights: Weights, bias: Laid | None, make: Callable[[int], Tables], sides: Sides,
    result: Shape, type_: str, width: int,
) -> Direct:  # fmt: skip
    """The result, `(N, C, *spatial)` in row-major order; see Note [Steps of a convolution]."""
    tables, tile = chosen(make, sides, type_, width)
    plane, variants = tables.plane, tables.variants
    pixels = prod(result[2:])
    made = packed_input(source, plane, sides.examples, sides.groups * sides.inputs, type_, width)
    packed, begins, size = packed_weights(
        weights, variants, sides.inputs, sides.outputs, sides.groups, tile.block, type_, width
    )
    vectors, segments, counts = vector_tables(variants, tile.across)
    operands = [made, packed, *([bias.base] if bias is not None else [])]
    place = 1 + len(operands) + 19
    entries: list[int] = []
    tiles: list[int] = []
    for variant, begin, count in zip(variants, begins, counts):
        length = sides.inputs * len(variant.taps)
        tiles += [place + len(entries), length, begin] * count
        entries += [c * plane.size + offset for c in range(sides.inputs) for offset in variant.offsets]
    places = [place + len(entries)]
    places += [places[0] + len(vectors), places[0] + len(vectors) + len(segments)]
    most = max(len(each.taps) for each in variants) * sides.inputs
    length = max(4, PART // (most * (REGISTERS - 6) + 1))
    parts = -(-sum(counts) // length)
    each_part = -(-sides.inputs * plane.size * width // lanes_of(type_, width) // parts)
    blocks = -(-sides.outputs // tile.block)
    x_group = sides.inputs * plane.size
    y_group = sides.outputs * pixels
    numbers = [sides.groups, parts, sum(counts), length, blocks, sides.outputs]
    numbers += [sides.groups * x_group, x_group, sides.groups * y_group, y_group, pixels]
    numbers += [tables.column, size, *((bias.offset, bias.strides[0]) if bias is not None else (0, 0))]
    numbers += [max(1, NEAR // each_part), *places, *entries, *vectors, *segments, *tiles]
    rows = sides.examples * sides.groups * parts
    taps = sum(prod(each.counts) * len(each.taps) for each in variants)
    products = sides.examples * sides.groups * sides.outputs * sides.inputs * taps
    work = products * PRODUCT * (1 if type_ == "f32" else 2) + prod(result) * MOVE / 2
    unit = tables.column == 1
    facts = (type_, width, tile.block, tile.across, tile.run, bias is not None, unit)
    made = direct(conv_text.plain_tiles(*facts), "convolution", result, type_, operands, numbers, rows, work)
    made.finishing = partial(conv_text.tiles, *facts)
    return made


def taps_of(shape: Shape, strides: Shape) -> list[int]:
    """The offset of each tap in weights."""
    found = [0]
    for size, stride in zip(shape, strides):
        found = [place + tap * stride for place in found for tap in range(size)]
    return found


def convolution(
    x: Laid,
    w: Laid,
    bias: Laid | None,
    geometry: Geometry,
    sides: Sides,
    result: Shape,
    type_: str,
    width: int,
) -> Direct:
    """`x` correlated with `w`, which has output channels first."""
    geometry = geometry.settled()
    moves = _moves(geometry.output)
    make = partial(forward, geometry, tuple(map(int, x.strides[2:])), moves)
    taps = taps_of(geometry.taps, w.strides[2:])
    weights = Weights(w, sides.outputs * w.strides[0], w.strides[0], w.strides[1], taps)
    return convolved(x, weights, bias, make, sides, result, type_, width)


def input_gradient(
    g: Laid,
    w: Laid,
    bias: Laid | None,
    geometry: Geometry,
    sides: Sides,
    result: Shape,
    type_: str,
    width: int,
) -> Direct:
    """What a convolution's input gets from its result's gradient `g`; `sides` say what is read and given
    here: outputs are the convolution's input channels.
    """
    geometry = geometry.settled()
    twice = geometry.stride[2] == 2
    lies = tuple(map(int, g.strides[2:]))
    make = partial(backward, geometry, lies, None if twice else _moves(geometry.input))
    taps = taps_of(geometry.taps, w.strides[2:])
    weights = Weights(w, sides.inputs * w.strides[0], w.strides[1], w.strides[0], taps)
    made = convolved(g, weights, bias, make, sides, result, type_, width)
    if not twice:
        return made
    made.finishing = None
    table = put_together(geometry, lanes_of(type_, width))
    numbers = [prod(result[2:]), len(table) // 6, 5, *table]
    text = conv_text.together(type_, width)
    rows, work = result[0] * result[1], prod(result) * MOVE
    return direct(text, "convolution_input", result, type_, [made], numbers, rows, work)


def _moves(sizes: Shape) -> Shape:
    return (sizes[1] * sizes[2], sizes[2], 1)
