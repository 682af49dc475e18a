"""Convolution over any number of spatial axes, and its two gradients.

Takes arrays `(N, C, *spatial)` and weights `(O, C / groups, *kernel)`, with stride, padding (ints or
pairs), dilation and groups; gives arrays of the same dtype. The one idea: windows are copied into columns
tile by tile, small enough to stay in cache, and every tile is one matrix product.

Note [Convolution is closed under differentiation]
`forward(x, w)`, `grad_input(g, w)` and `grad_weight(g, x)` are the three partial products of one trilinear
form `sum(g * conv(x, w))`, so the derivatives of each are the other two, to any order (G is the incoming
gradient):

    forward(x, w):      x <- grad_input(G, w)                  w <- grad_weight(G, x)
    grad_input(g, w):   g <- forward(G, w, output_size=...)    w <- grad_weight(g, G)
    grad_weight(g, x):  g <- forward(x, G, output_size=...)    x <- grad_input(g, G)

A transposed convolution is `grad_input` with the shape given by `transpose_output_shape`. Nothing is
conjugated: for complex arrays these are transposes, not adjoints. `output_size` is needed only where
`output_padding` reaches a stride, so that another window would fit.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from weft.core.arrays import Array, ArrayModule, namespace
from weft.ops.kernels.folding import Sizes, add_windows, window_counts, windows
from weft.ops.kernels.padding import Pads, as_pairs, pad, pad_backward, summing_dtype

COLUMN_BYTES = 8 << 20  # columns made at a time: the copy is still in cache when the product reads it
# With few output positions and a large weight, a product per sample would spend its time reading the weight:
# samples are joined into one wide product.
FEW_POSITIONS = 256
LARGE_WEIGHT = 1 << 14


def output_shape(
    input_shape: Sizes, weight_shape: Sizes, stride: Sizes, padding: Pads, dilation: Sizes
) -> tuple[int, ...]:
    """The shape of `forward`'s result."""
    counts = window_counts(input_shape[2:], weight_shape[2:], stride, padding, dilation)
    return (input_shape[0], weight_shape[0], *counts)


def transpose_output_shape(
    input_shape: Sizes,
    weight_shape: Sizes,
    stride: Sizes,
    padding: Pads,
    output_padding: Sizes,
    dilation: Sizes,
    groups: int = 1,
) -> tuple[int, ...]:
    """The shape of a transposed convolution's result, whose weight is `(C, O / groups, *kernel)`."""
    spatial = (
        (size - 1) * step - low - high + gap * (taps - 1) + extra + 1
        for size, taps, step, (low, high), extra, gap in zip(
            input_shape[2:],
            weight_shape[2:],
            stride,
            as_pairs(padding),
            output_padding,
            dilation,
            strict=True,
        )
    )
    return (input_shape[0], weight_shape[1] * groups, *spatial)


def same_padding(kernel: Sizes, dilation: Sizes) -> tuple[tuple[int, int], ...]:
    """The pairs that `padding="same"` stands for; an odd total puts the extra element after."""
    totals = (gap * (taps - 1) for taps, gap in zip(kernel, dilation, strict=True))
    return tuple((total // 2, total - total // 2) for total in totals)


def forward(
    x: Array,
    w: Array,
    stride: Sizes,
    padding: Pads,
    dilation: Sizes,
    groups: int = 1,
    output_size: Sizes | None = None,
) -> Array:
    """The cross-correlation of `x` `(N, C, *spatial)` with `w` `(O, C / groups, *kernel)`."""
    xp = namespace(x, w)
    dtype, work = x.dtype, summing_dtype(xp, x.dtype)
    kernel = w.shape[2:]
    counts = window_counts(x.shape[2:], kernel, stride, padding, dilation)
    counts = counts if output_size is None else tuple(output_size)
    columns = _column_view(x.astype(work, copy=False), kernel, stride, padding, dilation, groups, counts)
    batch, outputs, positions = x.shape[0], w.shape[0], math.prod(counts)
    if columns.size == 0 or outputs == 0:
        return xp.zeros((batch, outputs, *counts), dtype)
    matrix = w.astype(work, copy=False).reshape(groups, outputs // groups, -1)
    out = xp.empty((batch, groups, outputs // groups, *counts), work)
    if _joins(batch, positions, w.size):
        for some, rows, part in _tiles(xp, columns, counts, joined=True):
            target = out[some, :, :, rows]
            product = xp.matmul(matrix, part).reshape(groups, outputs // groups, *_joined(target.shape))
            target[...] = xp.moveaxis(product, 2, 0)
    else:
        flat = out.reshape(batch, groups, outputs // groups, positions)
        inner = math.prod(counts[1:])
        for some, rows, part in _tiles(xp, columns, counts, joined=False):
            xp.matmul(matrix, part, out=flat[some, :, :, rows.start * inner : rows.stop * inner])
    return out.reshape(batch, outputs, *counts).astype(dtype, copy=False)


def grad_input(
    g: Array, w: Array, input_shape: Sizes, stride: Sizes, padding: Pads, dilation: Sizes, groups: int = 1
) -> Array:
    """The gradient of `forward` for `x` of `input_shape`; also the transposed convolution of `g` by `w`."""
    xp = namespace(g, w)
    dtype, work = g.dtype, summing_dtype(xp, g.dtype)
    if g.size == 0 or w.size == 0:
        return xp.zeros(tuple(input_shape), dtype)
    g, w = g.astype(work, copy=False), w.astype(work, copy=False)
    pairs = as_pairs(padding)
    if all(step == 1 for step in stride) and w.shape[0] <= 2 * input_shape[1]:
        return _flipped(g, w, input_shape, pairs, dilation, groups).astype(dtype, copy=False)
    return _scattered(g, w, input_shape, stride, pairs, dilation, groups).astype(dtype, copy=False)


def grad_weight(
    g: Array, x: Array, weight_shape: Sizes, stride: Sizes, padding: Pads, dilation: Sizes, groups: int = 1
) -> Array:
    """The gradient of `forward` with respect to `w` of `weight_shape`."""
    xp = namespace(g, x)
    dtype, work = g.dtype, summing_dtype(xp, g.dtype)
    counts, kernel = g.shape[2:], weight_shape[2:]
    batch, outputs, positions = g.shape[0], weight_shape[0], math.prod(counts)
    columns = _column_view(x.astype(work, copy=False), kernel, stride, padding, dilation, groups, counts)
    if columns.size == 0 or outputs == 0:
        return xp.zeros(tuple(weight_shape), dtype)
    grouped = g.astype(work, copy=False).reshape(batch, groups, outputs // groups, *counts)
    joined = _joins(batch, positions, math.prod(weight_shape))
    total = None
    for some, rows, part in _tiles(xp, columns, counts, joined):
        share = grouped[some, :, :, rows]
        if joined:
            share = xp.moveaxis(share, 0, 2).reshape(groups, outputs // groups, -1)
            product = xp.matmul(share, part.swapaxes(-1, -2))
        else:
            share = share.reshape(*share.shape[:3], -1)
            product = xp.matmul(share, part.swapaxes(-1, -2)).sum(axis=0, dtype=work)
        total = product if total is None else xp.add(total, product, out=total)
    assert total is not None  # there is at least one tile
    return total.reshape(tuple(weight_shape)).astype(dtype, copy=False)


def _flipped(
    g: Array, w: Array, input_shape: Sizes, pairs: tuple[tuple[int, int], ...], dilation: Sizes, groups: int
) -> Array:
    """For stride 1: correlate the gradient with the mirrored kernel, inputs and outputs exchanged."""
    outputs, channels, *kernel = w.shape
    mirrored = w[(..., *(slice(None, None, -1),) * len(kernel))].reshape(groups, -1, channels, *kernel)
    mirrored = mirrored.swapaxes(1, 2).reshape(groups * channels, outputs // groups, *kernel)
    mirrored = namespace(w).ascontiguousarray(mirrored)  # BLAS takes no negative strides
    borders = []
    for size, have, taps, gap, (low, _) in zip(
        input_shape[2:], g.shape[2:], kernel, dilation, pairs, strict=True
    ):
        before = gap * (taps - 1) - low
        borders.append((before, size + gap * (taps - 1) - have - before))
    return forward(g, mirrored, (1,) * len(kernel), borders, dilation, groups)


def _scattered(
    g: Array,
    w: Array,
    input_shape: Sizes,
    stride: Sizes,
    pairs: tuple[tuple[int, int], ...],
    dilation: Sizes,
    groups: int,
) -> Array:
    """For any stride: the columns' gradient by one product per tile, then added back window by window."""
    xp = namespace(g, w)
    outputs, channels, *kernel = w.shape
    batch, axes = g.shape[0], len(kernel)
    counts = g.shape[2:]
    padded_size = [size + low + high for size, (low, high) in zip(input_shape[2:], pairs, strict=True)]
    padded = xp.zeros((batch, groups, channels, *padded_size), g.dtype)
    matrix = w.reshape(groups, outputs // groups, -1).swapaxes(-1, -2)
    grouped = g.reshape(batch, groups, outputs // groups, *counts)
    joined = _joins(batch, math.prod(counts), w.size)
    per_sample = groups * matrix.shape[1] * math.prod(counts) * g.dtype.itemsize
    for some in _pieces(batch, per_sample):
        share = grouped[some]
        if joined:
            product = xp.matmul(matrix, xp.moveaxis(share, 0, 2).reshape(groups, outputs // groups, -1))
            columns = xp.moveaxis(product.reshape(groups, channels, *kernel, -1, *counts), 2 + axes, 0)
        else:
            product = xp.matmul(matrix, share.reshape(*share.shape[:3], -1))
            columns = product.reshape(-1, groups, channels, *kernel, *counts)
        add_windows(padded[some], columns, stride, dilation, axes)
    padded = padded.reshape(batch, groups * channels, *padded_size)
    return pad_backward(padded, input_shape, pairs) if any(map(any, pairs)) else padded


def _column_view(
    x: Array, kernel: Sizes, stride: Sizes, padding: Pads, dilation: Sizes, groups: int, counts: Sizes
) -> Array:
    """The windows of `x` as a view `(N, groups, C / groups, *kernel, *counts)` of its padded form."""
    pairs = as_pairs(padding)
    padded = pad(x, pairs) if any(map(any, pairs)) else x
    split = padded.reshape(x.shape[0], groups, x.shape[1] // groups, *padded.shape[2:])
    return windows(split, kernel, stride, dilation, counts)


def _tiles(
    xp: ArrayModule, columns: Array, counts: Sizes, joined: bool
) -> Iterator[tuple[slice, slice, Array]]:
    """Cut the column view into contiguous matrices of about `COLUMN_BYTES`: `(samples, rows, matrix)`.

    Matrices are `(samples, groups, C / groups * taps, positions)`, or, joined, `(groups, C / groups * taps,
    samples * positions)`. A sample that is larger than a tile is cut along its first spatial axis. The
    buffer is used again by the next tile: fresh memory costs more than the copy.
    """
    batch, groups = columns.shape[:2]
    axes = len(counts)
    depth = math.prod(columns.shape[2 : 3 + axes])
    per_row = groups * depth * math.prod(counts[1:]) * columns.dtype.itemsize
    height = counts[0]
    if not joined and math.prod(columns.shape[3 : 3 + axes]) == 1:  # the input is its own column matrix
        yield slice(0, batch), slice(0, height), columns.reshape(*columns.shape[:2], depth, math.prod(counts))
        return
    buffer = None
    for some in _pieces(batch, per_row * height):
        rows_at_a_time = [slice(0, height)]
        if some.stop - some.start == 1:
            rows_at_a_time = list(_pieces(height, per_row))
        for rows in rows_at_a_time:
            part = columns[(some, *(slice(None),) * (2 + axes), rows)]
            if joined:
                part = xp.moveaxis(part, 0, 2 + axes)
            if buffer is None or buffer.size < part.size:
                buffer = xp.empty(part.size, columns.dtype)
            tile = buffer[: part.size].reshape(part.shape)
            xp.copyto(tile, part)
            shape = (groups, depth, -1) if joined else (some.stop - some.start, groups, depth, -1)
            yield some, rows, tile.reshape(shape)


def _pieces(total: int, bytes_each: int) -> Iterator[slice]:
    """Cut `range(total)` into even slices of at most `COLUMN_BYTES`, but of one element at least."""
    most = max(1, COLUMN_BYTES // bytes_each)
    even = -(-total // -(-total // most))
    for start in range(0, total, even):
        yield slice(start, min(start + even, total))


def _joins(batch: int, positions: int, weight_size: int) -> bool:
    """Whether one product over several samples beats one product per sample."""
    return batch > 1 and positions < FEW_POSITIONS and weight_size >= LARGE_WEIGHT


def _joined(shape: Sizes) -> tuple[int, ...]:
    """The shape of a joined product's last axes for a target `(samples, groups, outputs, *positions)`."""
    return (shape[0], *shape[3:])
