"""The tables of a convolution: see Note [Tables of a convolution] in `weft.native.cpu.conv_text`.

Takes sizes, strides, paddings and dilations of up to three axes; gives how inputs are packed, and tables of
entries, vectors and segments. One idea: once places that a stride keeps apart are laid apart, the input of
every tap is that of the pixel plus a distance, whatever the pixel.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from itertools import product
from math import prod

from weft.core.records import record
from weft.native.ir.spatial import AXES, Geometry, Sizes


@record(slots=True)
class Plane:
    """How a packed plane of one channel is made."""

    size: int
    rows: list[int]
    """Five numbers each: where to, where from, zeros before, elements, zeros behind."""
    column: int
    """How far apart neighbours along a row lie in the source."""

    def vectors(self, lanes: int) -> list[int]:
        """How it is packed: see Note [Tables of a convolution] in `weft.native.cpu.conv_text`. Rows lie one
        behind the other: what a vector writes behind its row is written over by the next one."""
        found: list[int] = []
        for place in range(0, len(self.rows), 5):
            to, come, before, count, behind = self.rows[place : place + 5]
            width = before + count + behind
            for at in range(0, width, lanes):
                first, last = max(before - at, 0), min(before + count - at, lanes)
                bits = (1 << last) - (1 << first) if last > first else 0
                if self.column == 2 and bits:
                    bits = (1 << 2 * last - 1) - (1 << 2 * first)
                stored = (1 << min(self.size - to - at, lanes)) - 1
                found += [to + at, come + (at - before) * self.column, bits, stored]
        return found


@record(slots=True)
class Variant:
    """Pixels that read the same taps."""

    taps: list[int]
    """Numbers of taps."""
    offsets: list[int]
    """How far the input of each tap lies from its pixel's."""
    counts: Sizes
    """How many pixels there are along each axis."""
    vectors: list[tuple[int, list[tuple[int, int]]]] = field(default_factory=list)
    """Where the input starts; segments: where to, which lanes."""


@record(slots=True)
class Tables:
    """A convolution's: how its input is packed, and the pixels of its result."""

    plane: Plane
    variants: list[Variant]
    column: int
    """How far apart the lanes of a vector lie in the result."""
    pitch: Sizes
    """How far apart the inputs of neighbouring pixels lie."""


def row_major(sizes: Sequence[int]) -> Sizes:
    return tuple([prod(sizes[axis + 1 :]) for axis in range(len(sizes))])


def packed_rows(
    sizes: Sizes, strides: Sizes, phases: list[list[int]], step: Sizes, before: Sizes, wide: Sizes
) -> list[int]:
    """The rows of a plane: for each choice of phases, `wide` places, of which number `i` along an axis is the
    source's `i * step + phase - before`.
    """
    rows: list[int] = []
    to = 0
    for choice in product(*phases):
        width, size = wide[2], sizes[2]
        shift = before[2] - choice[2]
        first = min(max(-(-shift // step[2]), 0), width)
        behind = min(max((size - 1 + shift) // step[2] + 1, first), width)
        for place in product(range(wide[0]), range(wide[1])):
            at = [place[axis] * step[axis] + choice[axis] - before[axis] for axis in range(2)]
            if all(0 <= at[axis] < sizes[axis] for axis in range(2)) and behind > first:
                source = at[0] * strides[0] + at[1] * strides[1] + (first * step[2] - shift) * strides[2]
                rows += [to, source, first, behind - first, width - behind]
            else:
                rows += [to, 0, width, 0, 0]
            to += width
    return rows


def vectors_of(
    counts: Sizes, starts: int, pitch: Sizes, result: int, moves: Sizes, lanes: int
) -> list[tuple[int, list[tuple[int, int]]]]:
    """Vectors of pixels: `counts` of them along each axis, whose inputs lie `pitch` apart and begin at
    `starts`, whose results lie `moves` apart and begin at `result`. Either each row has vectors of its own,
    or they run through all rows, whichever needs fewer.
    """
    if 0 in counts:
        return []
    deep, high, wide = counts
    rows = [
        (d * pitch[0] + h * pitch[1], result + d * moves[0] + h * moves[1])
        for d in range(deep)
        for h in range(high)
    ]
    flat: dict[int, list[tuple[int, int]]] = {}
    for source, to in rows:
        for number in range(source // lanes, (source + wide - 1) // lanes + 1):
            begin = number * lanes
            low, most = max(source - begin, 0), min(source + wide - begin, lanes)
            place = to + (begin - source) * moves[2]
            flat.setdefault(begin, []).append((place, (1 << most) - (1 << low)))
    each = -(-wide // lanes)
    if 1.08 * len(flat) <= len(rows) * each:  # a row that ends within a vector is stored by itself
        return [(starts + begin, segments) for begin, segments in flat.items()]
    found = []
    for source, to in rows:
        for begin in range(0, wide, lanes):
            mask = (1 << min(wide - begin, lanes)) - 1
            found.append((starts + source + begin, [(to + begin * moves[2], mask)]))
    return found


def reach(plane: Plane, variants: list[Variant], lanes: int) -> None:
    """Pads a plane with zeros to the length that is read: no uninitialised memory is."""
    last = plane.size
    for variant in variants:
        most = max((start for start, _ in variant.vectors), default=0) + max(variant.offsets, default=0)
        last = max(last, most + lanes)
    if last > plane.size:
        plane.rows += [plane.size, 0, last - plane.size, 0, 0]
        plane.size = last


def forward(geometry: Geometry, strides: Sizes, moves: Sizes, lanes: int) -> Tables:
    """Of a convolution: input's strides and result's along the axes."""
    phases, shifts, wide = [], [], []
    for taps, stride, dilation, count in zip(
        geometry.taps, geometry.stride, geometry.dilation, geometry.output
    ):
        phases.append(sorted({tap * dilation % stride for tap in range(taps)}))
        shifts.append([tap * dilation // stride for tap in range(taps)])
        wide.append(max(shifts[-1]) + count)
    inner = row_major(wide)
    outer = [prod(len(each) for each in phases[axis + 1 :]) * prod(wide) for axis in range(AXES)]
    offsets = []
    for tap in product(*[range(taps) for taps in geometry.taps]):
        total = 0
        for axis, each in enumerate(tap):
            phase = each * geometry.dilation[axis] % geometry.stride[axis]
            total += phases[axis].index(phase) * outer[axis] + shifts[axis][each] * inner[axis]
        offsets.append(total)
    rows = packed_rows(
        geometry.input, strides, phases, geometry.stride, geometry.padding, (wide[0], wide[1], wide[2])
    )
    plane = Plane(prod(len(each) for each in phases) * prod(wide), rows, geometry.stride[2] * strides[2])
    variant = Variant(list(range(len(offsets))), offsets, geometry.output)
    variant.vectors = vectors_of(geometry.output, 0, inner, 0, moves, lanes)
    reach(plane, [variant], lanes)
    return Tables(plane, [variant], moves[2], inner)


def backward(geometry: Geometry, strides: Sizes, moves: Sizes | None, lanes: int) -> Tables:
    """Of the gradient for the input: the output gradient's strides and the result's along the axes. Without
    the latter, pixels that a stride keeps apart are laid apart, those of one variant after the other.

    With `i + padding = stride * q + f`, an element of the input is met by the taps of phase `f`, whose shift
    is `m`, at the output's `q - m`.
    """
    sizes = zip(geometry.input, geometry.taps, geometry.stride, geometry.padding, geometry.dilation)
    most, least, wide, found = [], [], [], []
    for size, taps, stride, padding, dilation in sizes:
        most.append(max(tap * dilation // stride for tap in range(taps)))
        least.append(padding // stride)
        wide.append((size - 1 + padding) // stride - least[-1] + most[-1] + 1)
        choices = []
        for start in range(min(stride, size)):
            phase = (start + padding) % stride
            own = [tap for tap in range(taps) if tap * dilation % stride == phase]
            choices.append((start, -(-(size - start) // stride), own))
        found.append(choices)
    inner = row_major(wide)
    variants = []
    laid = 0
    for choice in product(*found):
        numbers: list[int] = []
        offsets: list[int] = []
        for tap in product(*[own for _, _, own in choice]):
            number, total = 0, 0
            for axis, each in enumerate(tap):
                number = number * geometry.taps[axis] + each
                shift = each * geometry.dilation[axis] // geometry.stride[axis]
                total += (most[axis] - shift) * inner[axis]
            numbers.append(number)
            offsets.append(total)
        counts = (choice[0][1], choice[1][1], choice[2][1])
        variant = Variant(numbers, offsets, counts)
        begins = [
            (start + geometry.padding[axis]) // geometry.stride[axis] - least[axis]
            for axis, (start, _, _) in enumerate(choice)
        ]
        if moves is None:
            result, apart = laid, row_major(counts)
            laid += prod(counts)
        else:
            result = sum(start * move for (start, _, _), move in zip(choice, moves))
            apart = tuple([stride * move for stride, move in zip(geometry.stride, moves)])
        source = sum(a * b for a, b in zip(begins, inner))
        variant.vectors = vectors_of(counts, source, inner, result, apart, lanes)
        variants.append(variant)
    before = tuple([a - b for a, b in zip(most, least)])
    rows = packed_rows(geometry.output, strides, [[0]] * AXES, (1, 1, 1), before, (wide[0], wide[1], wide[2]))
    plane = Plane(prod(wide), rows, strides[2])
    reach(plane, variants, lanes)
    return Tables(plane, variants, 1 if moves is None else geometry.stride[2] * moves[2], inner)


def put_together(geometry: Geometry, lanes: int) -> list[int]:
    """How the pixels of `backward` without moves are put in order, where the last stride is two: for each two
    vectors of a row, where to; where even and odd pixels lie; which of both exist, and which are stored.
    """
    sizes, strides = geometry.input, geometry.stride
    bases: dict[Sizes, int] = {}
    total = 0
    for choice in product(*[range(min(size, stride)) for size, stride in zip(sizes, strides)]):
        bases[choice] = total
        total += prod(-(-(size - start) // stride) for size, stride, start in zip(sizes, strides, choice))
    found: list[int] = []
    for d, h in product(range(sizes[0]), range(sizes[1])):
        rows = []
        for start in range(min(sizes[2], 2)):
            deep, high = -(-(sizes[1] - h % strides[1]) // strides[1]), -(-(sizes[2] - start) // 2)
            at = bases[d % strides[0], h % strides[1], start]
            rows.append(at + ((d // strides[0]) * deep + h // strides[1]) * high)
        rows += rows[: 2 - len(rows)]
        for begin in range(0, sizes[2], 2 * lanes):
            left = min(sizes[2] - begin, 2 * lanes)
            masks = [(1 << -(-left // 2)) - 1, (1 << left // 2) - 1]
            to = (d * sizes[1] + h) * sizes[2] + begin
            found += [to, rows[0] + begin // 2, rows[1] + begin // 2, *masks, (1 << left) - 1]
    return found
