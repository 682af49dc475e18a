"""Resizing (`interpolate`): every mode over the last k axes, and its transpose.

Takes an array and target sizes; gives the resampled array, or from its gradient the gradient of the input.
The one idea: each mode is, per axis, a small table (for every output, which inputs it reads and with what
weights), and the table of the transpose is the same entries listed by input. Both directions gather;
nothing scatters.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from weft.core.arrays import Array, ArrayModule, namespace
from weft.ops.kernels.folding import Sizes
from weft.ops.kernels.padding import summing_dtype
from weft.ops.kernels.pooling import adaptive_avg_pool, adaptive_avg_pool_backward

Scales = Sequence[float | None]
NEAREST = frozenset({"nearest", "nearest-exact"})
LINEAR = frozenset({"linear", "bilinear", "trilinear"})
CUBIC = frozenset({"bicubic"})
BLOCK_BYTES = 1 << 21  # planes resampled at a time


@dataclass(frozen=True)
class Table:
    """For each of n outputs: up to k source places and weights, and how many of the k are real."""

    places: Any  # int64 (k, n)
    weights: Any  # float64 (k, n)
    counts: Any  # int64 (n,)
    plain: bool  # all weights are one and k is one: copying suffices


def output_size(spatial: Sizes, scales: Sequence[float]) -> tuple[int, ...]:
    """The sizes that a scale factor per axis leads to."""
    return tuple(math.floor(size * scale) for size, scale in zip(spatial, scales, strict=True))


def interpolate(
    x: Array,
    size: Sizes,
    mode: str = "nearest",
    align_corners: bool = False,
    scales: Scales | None = None,
    antialias: bool = False,
) -> Array:
    """Resample the last `len(size)` axes to `size`. Factors in `scales` replace the ratio of the sizes."""
    if mode == "area":
        return adaptive_avg_pool(x, size)
    lead = x.ndim - len(size)
    tables = _tables(x.dtype, x.shape[lead:], size, mode, align_corners, scales, antialias)
    return _apply(x, [table[0] for table in tables], lead, mode)


def interpolate_backward(
    g: Array,
    input_size: Sizes,
    mode: str = "nearest",
    align_corners: bool = False,
    scales: Scales | None = None,
    antialias: bool = False,
) -> Array:
    """The transpose of `interpolate` for an input whose last axes have `input_size`."""
    lead = g.ndim - len(input_size)
    if mode == "area":
        return adaptive_avg_pool_backward(g, (*g.shape[:lead], *input_size))
    tables = _tables(g.dtype, input_size, g.shape[lead:], mode, align_corners, scales, antialias)
    return _apply(g, [table[1] for table in tables], lead, mode)


def _tables(
    dtype: np.dtype[Any],
    input_size: Sizes,
    size: Sizes,
    mode: str,
    align_corners: bool,
    scales: Scales | None,
    antialias: bool,
) -> list[tuple[Table, Table]]:
    """The forward and transposed table of each axis."""
    factors = scales or (None,) * len(size)
    is_double = mode in NEAREST and dtype.kind == "f" and dtype.itemsize == 8
    return [
        _table(
            int(have),
            int(want),
            mode,
            bool(align_corners),
            None if factor is None else float(factor),
            antialias,
            is_double,
        )
        for have, want, factor in zip(input_size, size, factors, strict=True)
    ]


def _apply(x: Array, tables: Sequence[Table], lead: int, mode: str) -> Array:
    """Run one table per axis; the axes that shrink most, and then the last, go first: the rest is less work.

    Planes go through in blocks that stay in cache, for every axis reads and writes them several times.
    """
    xp = namespace(x)
    plain = all(table.plain for table in tables)
    work = x.dtype if plain else summing_dtype(xp, x.dtype)
    if work.kind == "i" and not plain and not mode.startswith("nearest"):
        work = xp.dtype(xp.float32)  # images of bytes: computed as real numbers, rounded at the end
    rounded = x.dtype.kind in "iu" and work.kind == "f"
    have, want = x.shape[lead:], tuple(table.counts.size for table in tables)
    order = sorted(range(len(tables)), key=lambda axis: (want[axis] / max(have[axis], 1), -axis))
    planes = x.reshape(math.prod(x.shape[:lead]), *have)
    out = xp.empty((len(planes), *want), x.dtype)
    step = max(1, BLOCK_BYTES // (max(math.prod(have), math.prod(want), 1) * work.itemsize))
    for start in range(0, len(planes), step):
        block = planes[start : start + step].astype(work, copy=False)
        for axis in order:
            block = _gather_axis(xp, block, 1 + axis, tables[axis])
        if rounded:
            block = xp.clip(xp.rint(block), xp.iinfo(x.dtype).min, xp.iinfo(x.dtype).max)
        out[start : start + step] = block
    return out.reshape(*x.shape[:lead], *want)


def _gather_axis(xp: ArrayModule, x: Array, axis: int, table: Table) -> Array:
    """Weighted sums of gathered slices along one axis; absent entries add nothing, not even 0 * inf."""
    size, real = table.counts.size, table.counts
    column = (-1,) + (1,) * (x.ndim - axis - 1)
    if table.plain:
        return xp.take(x, xp.asarray(table.places[0]), axis=axis)
    total = None
    for number in range(len(table.places)):
        term = xp.take(x, xp.asarray(table.places[number]), axis=axis)
        weights = table.weights[number]
        if (weights != 1.0).any():
            term *= xp.asarray(weights.astype(x.dtype)).reshape(column)
        if int(real.min(initial=number + 1)) <= number:
            term = xp.where(xp.asarray(real > number).reshape(column), term, xp.zeros((), x.dtype))
        total = term if total is None else xp.add(total, term, out=total)
    if total is None:
        shape = list(x.shape)
        shape[axis] = size
        total = xp.zeros(tuple(shape), x.dtype)
    return total


@functools.lru_cache(maxsize=512)
def _table(
    have: int,
    want: int,
    mode: str,
    align_corners: bool,
    factor: float | None,
    antialias: bool,
    is_double: bool,
) -> tuple[Table, Table]:
    """The table of one axis from `have` to `want` elements, and its transpose."""
    if mode in NEAREST:
        entries = _nearest(
            have, want, factor, mode == "nearest-exact", np.float64 if is_double else np.float32
        )
    elif mode not in LINEAR and mode not in CUBIC:
        raise NotImplementedError(f"interpolation mode {mode!r}")
    elif antialias:
        filter_of, width = (_triangle, 2.0) if mode in LINEAR else (_cubic_filter, 4.0)
        entries = _antialiased(have, want, align_corners, factor, filter_of, width)
    else:
        taps = _linear_taps if mode in LINEAR else _cubic_taps
        entries = _resampled(have, want, align_corners, factor, taps)
    return _pack(entries, want), _pack(_transposed(entries, have), have)


Entries = list[list[tuple[int, float]]]  # per output: (input, weight)


def _pack(entries: Entries, count: int) -> Table:
    """Lists of unequal length as arrays; the gaps repeat the row's own first entry with weight zero."""
    longest = max((len(row) for row in entries), default=0)
    places = np.zeros((longest, count), np.int64)
    weights = np.zeros((longest, count), np.float64)
    for output, row in enumerate(entries):
        for number in range(longest):
            places[number, output] = row[number][0] if number < len(row) else (row[0][0] if row else 0)
            weights[number, output] = row[number][1] if number < len(row) else 0.0
    counts = np.array([len(row) for row in entries], np.int64)
    plain = longest == 1 and bool((weights == 1.0).all()) and bool((counts == 1).all())
    for array in (places, weights, counts):
        array.flags.writeable = False
    return Table(places, weights, counts, plain)


def _transposed(entries: Entries, have: int) -> Entries:
    """The same weights listed by input, those that one output gives twice (at a border) added up."""
    rows: list[dict[int, float]] = [{} for _ in range(have)]
    for output, row in enumerate(entries):
        for place, weight in row:
            rows[place][output] = rows[place].get(output, 0.0) + weight
    return [list(row.items()) for row in rows]


def _nearest(have: int, want: int, factor: float | None, exact: bool, real: Any) -> Entries:
    """One source per output, in PyTorch's rounding, as users' pixels were chosen so.

    Positions are computed in `real`, the type in which the elements are computed with, half a pixel off with
    one rounding (a fused product and sum), and rounded to single precision before the floor is taken.
    """
    scale = real(1.0 / factor) if factor is not None and factor > 0 else real(have) / real(want)
    places = np.arange(want)
    if exact:
        positions = real((places + 0.5) * np.float64(scale) - 0.5) + real(0.5)
    else:
        positions = real(places) * scale
    sources = np.minimum(np.floor(np.float32(positions)), have - 1)
    return [[(int(source), 1.0)] for source in sources]


def _scale(have: int, want: int, align_corners: bool, factor: float | None) -> float:
    """How far one step of the output moves in the input."""
    if align_corners:
        return (have - 1) / (want - 1) if want > 1 else 0.0
    return 1.0 / factor if factor is not None and factor > 0 else have / want


def _resampled(
    have: int,
    want: int,
    align_corners: bool,
    factor: float | None,
    taps: Callable[[float, int], list[tuple[int, float]]],
) -> Entries:
    """Sample a kernel at each output's position; pixel centres lie at halves unless corners align."""
    scale = _scale(have, want, align_corners, factor)
    if have == want and (align_corners or factor is None or factor == 1.0):
        return [[(place, 1.0)] for place in range(want)]
    return [
        taps(place * scale if align_corners else (place + 0.5) * scale - 0.5, have) for place in range(want)
    ]


def _linear_taps(position: float, have: int) -> list[tuple[int, float]]:
    """The two neighbours, the position being kept inside the axis."""
    position = max(position, 0.0)
    low = min(int(position), have - 1)
    high = min(low + 1, have - 1)
    part = min(max(position - low, 0.0), 1.0)
    return [(low, 1.0)] if high == low else [(low, 1.0 - part), (high, part)]


def _cubic_taps(position: float, have: int) -> list[tuple[int, float]]:
    """Four neighbours of the cubic convolution kernel with a = -0.75; beyond the border the edge repeats."""
    low = math.floor(position)
    part = position - low
    distances = (1.0 + part, part, 1.0 - part, 2.0 - part)
    return [
        (min(max(low - 1 + number, 0), have - 1), _cubic(distance, -0.75))
        for number, distance in enumerate(distances)
    ]


def _cubic(distance: float, a: float) -> float:
    """Keys' cubic convolution kernel."""
    t = abs(distance)
    if t <= 1.0:
        return ((a + 2.0) * t - (a + 3.0)) * t * t + 1.0
    return ((t - 5.0) * t + 8.0) * t * a - 4.0 * a if t < 2.0 else 0.0


def _cubic_filter(distance: float) -> float:
    """The antialiasing cubic, with a = -0.5."""
    return _cubic(distance, -0.5)


def _triangle(distance: float) -> float:
    """The antialiasing tent."""
    return max(0.0, 1.0 - abs(distance))


def _antialiased(
    have: int,
    want: int,
    align_corners: bool,
    factor: float | None,
    filter_of: Callable[[float], float],
    width: float,
) -> Entries:
    """The filter stretched by the scale where the axis shrinks, cut at the borders and normalised."""
    scale = _scale(have, want, align_corners, factor)
    support = width * 0.5 * max(scale, 1.0)
    inverse = 1.0 / scale if scale >= 1.0 else 1.0
    rows: Entries = []
    for place in range(want):
        centre = scale * (place + 0.5)
        first = max(int(centre - support + 0.5), 0)
        stop = min(int(centre + support + 0.5), have)
        weights = [filter_of((source - centre + 0.5) * inverse) for source in range(first, stop)]
        total = sum(weights)
        rows.append(
            [(source, weight / total) for source, weight in enumerate(weights, first) if weight or not total]
        )
    return rows
