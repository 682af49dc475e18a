"""Weighted sums along an axis as steps of our programs.

Takes a definition that lies row by row, and places with weights for each result; gives the definition of the
sums. One idea: lists of places and weights stand in the record, so one function serves all of resampling.
"""

from __future__ import annotations

from math import prod

import numpy as np

from weft.native.cpu import resize_text
from weft.native.cpu.conv import MOVE, direct, lanes_of
from weft.native.ir.definitions import Definition, Shape
from weft.native.ir.spatial import WeightedPlaces


def bits_of(number: float) -> int:
    return int(np.float64(number).view(np.int64))


def weighted_sums(
    base: Definition, start: int, source: Shape, axis: int, lists: WeightedPlaces, type_: str, name: str,
    width: int,
) -> Definition:  # fmt: skip
    """The sums along an axis of what has the shape `source`, and begins there in its memory."""
    count, length = len(lists), source[axis]
    inner, outer = prod(source[axis + 1 :]), prod(source[:axis])
    weighted = any(weight != 1.0 for row in lists for _, weight in row)
    shape = (*source[:axis], count, *source[axis + 1 :])
    if inner > 1:
        starts, entries = [0], []
        for row in lists:
            entries += [number for place, weight in row for number in (place, bits_of(weight))]
            starts.append(len(entries) // 2)
        numbers = [count, length, inner, start, 8, 8 + len(starts), *starts, *entries]
        text, rows = resize_text.across(type_, width, weighted), outer * count
    else:
        vectors, taps = lane_tables(lists, lanes_of(type_, width))
        numbers = [count, length, start, len(vectors) // 3, 8, 8 + len(vectors), *vectors, *taps]
        text, rows = resize_text.along(type_, width, weighted), outer
    return direct(text, name, shape, type_, [base], numbers, rows, prod(shape) * MOVE * 2)


def lane_tables(lists: WeightedPlaces, lanes: int) -> tuple[list[int], list[int]]:
    """Vectors of results along the last axis, and their taps."""
    vectors: list[int] = []
    taps: list[int] = []
    size = 1 + 2 * lanes
    for begin in range(0, len(lists), lanes):
        rows = lists[begin : begin + lanes]
        first = len(taps) // size
        for number in range(max(map(len, rows))):
            own = [row[number] if number < len(row) else None for row in rows]
            own += [None] * (lanes - len(rows))
            taps.append(sum(1 << lane for lane, each in enumerate(own) if each is not None))
            taps += [0 if each is None else each[0] for each in own]
            taps += [0 if each is None else bits_of(each[1]) for each in own]
        vectors += [first, len(taps) // size, (1 << len(rows)) - 1]
    return vectors, taps
