"""Windows over the spatial axes of an array: as a view, as columns (unfold), and summed back (fold).

Takes arrays laid out `(N, C, *spatial)` and per-axis kernel, stride, dilation and padding; gives columns in
the layout `(N, C * taps, positions)`. The one idea: all windows are one strided view `(N, C, *kernel,
*positions)`, so unfolding is a single copy, and folding one addition per kernel tap, or a single write
where windows do not overlap.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from typing import Any

from weft.core.arrays import Array, namespace
from weft.ops.kernels.padding import Pads, as_pairs, pad, pad_backward, summing_dtype

Sizes = Sequence[int]


def window_counts(
    spatial: Sizes, kernel: Sizes, stride: Sizes, padding: Pads, dilation: Sizes
) -> tuple[int, ...]:
    """How many windows fit along each axis (zero where the padded axis is shorter than the kernel)."""
    return tuple(
        max((size + low + high - gap * (taps - 1) - 1) // step + 1, 0)
        for size, taps, step, (low, high), gap in zip(
            spatial, kernel, stride, as_pairs(padding), dilation, strict=True
        )
    )


def windows(x: Array, kernel: Sizes, stride: Sizes, dilation: Sizes, counts: Sizes) -> Array:
    """All windows of `x` (padded already) as a view `(*lead, *kernel, *counts)`; nothing is copied."""
    lead = x.ndim - len(kernel)
    strides = x.strides
    return namespace(x).lib.stride_tricks.as_strided(
        x,
        (*x.shape[:lead], *kernel, *counts),
        (
            *strides[:lead],
            *(step * gap for step, gap in zip(strides[lead:], dilation, strict=True)),
            *(step * jump for step, jump in zip(strides[lead:], stride, strict=True)),
        ),
    )


def disjoint(kernel: Sizes, stride: Sizes, dilation: Sizes) -> bool:
    """Whether no element lies in two windows, by the windows' extents."""
    return all(
        taps == 1 or gap * (taps - 1) < step for taps, step, gap in zip(kernel, stride, dilation, strict=True)
    )


def tap_slices(kernel: Sizes, stride: Sizes, dilation: Sizes, counts: Sizes) -> Iterator[tuple[Any, ...]]:
    """Per kernel tap, in row-major order: the index that picks that tap's element of every window."""
    for taps in itertools.product(*(range(size) for size in kernel)):
        yield (
            ...,
            *(
                slice(tap * gap, tap * gap + step * (count - 1) + 1 if count else tap * gap, step)
                for tap, step, gap, count in zip(taps, stride, dilation, counts, strict=True)
            ),
        )


def add_windows(target: Array, columns: Array, stride: Sizes, dilation: Sizes, axes: int) -> None:
    """Add `columns` `(*lead, *kernel, *counts)` into `target` `(*lead, *spatial)`, which holds zeros."""
    lead = columns.ndim - 2 * axes
    kernel, counts = columns.shape[lead : lead + axes], columns.shape[lead + axes :]
    if disjoint(kernel, stride, dilation):
        windows(target, kernel, stride, dilation, counts)[...] = columns
        return
    whole = (slice(None),) * lead
    taps = itertools.product(*(range(size) for size in kernel))
    for tap, place in zip(taps, tap_slices(kernel, stride, dilation, counts), strict=True):
        target[place] += columns[(*whole, *tap)]


def output_shape(
    shape: Sizes, kernel: Sizes, dilation: Sizes, padding: Pads, stride: Sizes
) -> tuple[int, int, int]:
    """The shape of `unfold`'s columns for an input `(N, C, *spatial)`."""
    counts = window_counts(shape[2:], kernel, stride, padding, dilation)
    return shape[0], shape[1] * math.prod(kernel), math.prod(counts)


def unfold(x: Array, kernel: Sizes, dilation: Sizes, padding: Pads, stride: Sizes) -> Array:
    """Every window of `x` `(N, C, *spatial)` as a column of `(N, C * taps, positions)`: `fold` transposed."""
    pairs = as_pairs(padding)
    counts = window_counts(x.shape[2:], kernel, stride, pairs, dilation)
    padded = pad(x, pairs) if any(map(any, pairs)) else x
    view = windows(padded, kernel, stride, dilation, counts)
    return view.copy().reshape(x.shape[0], x.shape[1] * math.prod(kernel), math.prod(counts))


def fold(
    columns: Array, output_size: Sizes, kernel: Sizes, dilation: Sizes, padding: Pads, stride: Sizes
) -> Array:
    """Sum the columns of `(N, C * taps, positions)` into `(N, C, *output_size)`: `unfold` transposed."""
    xp = namespace(columns)
    pairs = as_pairs(padding)
    counts = window_counts(output_size, kernel, stride, pairs, dilation)
    batch, channels = columns.shape[0], columns.shape[1] // math.prod(kernel)
    work = summing_dtype(xp, columns.dtype)
    padded_size = (size + low + high for size, (low, high) in zip(output_size, pairs, strict=True))
    padded = xp.zeros((batch, channels, *padded_size), work)
    parts = columns.astype(work, copy=False).reshape(batch, channels, *kernel, *counts)
    add_windows(padded, parts, stride, dilation, len(kernel))
    if any(map(any, pairs)):
        padded = pad_backward(padded, (batch, channels, *output_size), pairs)
    return padded.astype(columns.dtype, copy=False)
