"""Pooling over the last k axes: maxima with their places, averages, adaptive forms, and every gradient.

Takes arrays `(*lead, *spatial)` and per-axis kernel, stride, padding and dilation, k being the kernel's
length; indices are flat places in the input's spatial plane. The one idea: a window is a handful of taps,
and each tap of all windows is one strided slice, so the loops run over taps, never over pixels. Averages
are separable and go axis by axis.

All gradients are transposes of linear maps, so second order needs no further kernel: `gather` and `scatter`
are each other's transpose, and so are the forward and backward forms of the averages. Adaptive averaging is
even its own transpose with input and output sizes exchanged (Note [Adaptive windows]).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from weft.core.arrays import Array, ArrayModule, namespace
from weft.ops.kernels.folding import Sizes, tap_slices
from weft.ops.kernels.padding import along, pad, pad_backward, summing_dtype
from weft.ops.values import ArrayDType


def output_size(
    size: int, kernel: int, stride: int, padding: int, dilation: int = 1, ceil_mode: bool = False
) -> int:
    """How many windows one axis has; with `ceil_mode` the last may hang over if it starts inside."""
    room = size + 2 * padding - dilation * (kernel - 1) - 1
    count = (-(-room // stride) if ceil_mode else room // stride) + 1
    if ceil_mode and (count - 1) * stride >= size + padding:
        count -= 1
    return count


def output_shape(
    shape: Sizes,
    kernel: Sizes,
    stride: Sizes,
    padding: Sizes,
    dilation: Sizes | None = None,
    ceil_mode: bool = False,
) -> tuple[int, ...]:
    """The shape of a pooled array: the last `len(kernel)` axes are counted in windows."""
    lead = len(shape) - len(kernel)
    gaps = dilation or (1,) * len(kernel)
    axes = zip(shape[lead:], kernel, stride, padding, gaps, strict=True)
    return (*shape[:lead], *(output_size(*axis, ceil_mode) for axis in axes))


def max_pool(
    x: Array, kernel: Sizes, stride: Sizes, padding: Sizes, dilation: Sizes, ceil_mode: bool = False
) -> tuple[Array, Array]:
    """Every window's maximum and its flat int64 place; the first maximum wins, the last NaN beats all."""
    xp = namespace(x)
    axes = len(kernel)
    spatial = x.shape[x.ndim - axes :]
    counts = output_shape(x.shape, kernel, stride, padding, dilation, ceil_mode)[x.ndim - axes :]
    pairs = _reach(spatial, kernel, stride, padding, dilation, counts)
    padded = pad(x, pairs, value=_lowest(xp, x.dtype)) if any(map(any, pairs)) else x
    places = list(tap_slices(kernel, stride, dilation, counts))
    values = padded[places[0]].copy()
    swapped = (
        x.dtype.itemsize == 2 and x.dtype.kind == "f"
    )  # of two zeros float16 takes the first, others not
    for place in places[1:]:
        pair = (padded[place], values) if swapped else (values, padded[place])
        xp.maximum(*pair, out=values)
    indices = _tap_numbers(xp, padded, values, places)
    indices = _flat_places(xp, indices, spatial, kernel, stride, padding, dilation, counts)
    if padded is not x:
        # A window whose maximum is the padding's own value points at its first element that is not padding.
        lowest = values == _lowest(xp, x.dtype)
        if lowest.any():
            starts = [
                _first_inside(*axis) for axis in zip(spatial, stride, padding, dilation, counts, strict=True)
            ]
            indices = xp.where(lowest, _outer_places(xp, starts, spatial), indices)
    return values, indices


def gather(x: Array, indices: Array, axes: int) -> Array:
    """The elements of `x` at flat places of its last `axes` axes, shaped as `indices`."""
    xp = namespace(x)
    return xp.take(x.reshape(-1), _global_places(xp, indices, x.shape[x.ndim - axes :]))


def scatter(g: Array, indices: Array, spatial: Sizes, unique: bool = False) -> Array:
    """Add `g` into zeros `(*lead, *spatial)` at flat places: a maximum pool's gradient, `gather` transposed.

    `unique` promises that no place occurs twice (`folding.disjoint` windows), which is faster; it is also
    unpooling, where the last of several writers wins.
    """
    xp = namespace(g)
    lead = g.shape[: g.ndim - len(spatial)]
    size = math.prod(lead) * math.prod(spatial)
    flat = _global_places(xp, indices, spatial).reshape(-1)
    if unique:
        out = xp.zeros(size, g.dtype)
        out[flat] = g.reshape(-1)
    elif g.dtype.kind in "fV":
        weights = g.reshape(-1).astype(
            xp.float64, copy=False
        )  # one rounding, however many windows share a place
        out = xp.bincount(flat, weights=weights, minlength=size).astype(g.dtype)
    else:
        out = xp.zeros(size, g.dtype)
        xp.add.at(out, flat, g.reshape(-1))
    return out.reshape(*lead, *spatial)


def avg_pool(
    x: Array,
    kernel: Sizes,
    stride: Sizes,
    padding: Sizes,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Array:
    """The average of every window; integers round towards zero."""
    xp = namespace(x)
    axes = len(kernel)
    lead = x.ndim - axes
    spatial = x.shape[lead:]
    counts = output_shape(x.shape, kernel, stride, padding, None, ceil_mode)[lead:]
    pairs = _reach(spatial, kernel, stride, padding, (1,) * axes, counts)
    total = x.astype(summing_dtype(xp, x.dtype), copy=False)
    total = pad(total, pairs) if any(map(any, pairs)) else total
    for axis, (taps, step, count) in enumerate(zip(kernel, stride, counts, strict=True), lead):
        source = total
        total = source[along(x.ndim, axis, 0, step * (count - 1) + 1, step)].copy()
        for tap in range(1, taps):
            total += source[along(x.ndim, axis, tap, tap + step * (count - 1) + 1, step)]
    divisor = _divisor(
        xp, spatial, kernel, stride, padding, counts, count_include_pad, divisor_override, total.dtype
    )
    if total.dtype.kind == "i":
        return (xp.sign(total) * (xp.abs(total) // divisor)).astype(x.dtype, copy=False)
    total += 0  # sums start from zero: that of negative zeros has no sign
    return xp.divide(total, divisor, out=total).astype(x.dtype, copy=False)


def avg_pool_backward(
    g: Array,
    input_shape: Sizes,
    kernel: Sizes,
    stride: Sizes,
    padding: Sizes,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Array:
    """The transpose of `avg_pool`; `g` says how many windows there are, `ceil_mode` is for symmetry."""
    xp = namespace(g)
    axes = len(kernel)
    lead = g.ndim - axes
    spatial, counts = tuple(input_shape[lead:]), g.shape[lead:]
    pairs = _reach(spatial, kernel, stride, padding, (1,) * axes, counts)
    work = summing_dtype(xp, g.dtype)
    divisor = _divisor(
        xp, spatial, kernel, stride, padding, counts, count_include_pad, divisor_override, work
    )
    out = xp.divide(g.astype(work, copy=False), divisor)
    for axis in range(g.ndim - 1, lead - 1, -1):
        taps, step, count = kernel[axis - lead], stride[axis - lead], counts[axis - lead]
        source = out
        shape = list(source.shape)
        shape[axis] = spatial[axis - lead] + sum(pairs[axis - lead])
        out = xp.zeros(tuple(shape), work)
        for tap in range(taps):
            out[along(g.ndim, axis, tap, tap + step * (count - 1) + 1, step)] += source
    out = pad_backward(out, input_shape, pairs) if any(map(any, pairs)) else out
    return out.astype(g.dtype, copy=False)


def adaptive_avg_pool(x: Array, size: Sizes) -> Array:
    """Average the last `len(size)` axes down (or up) to `size`."""
    xp = namespace(x)
    lead = x.ndim - len(size)
    total = x.astype(summing_dtype(xp, x.dtype), copy=False)
    if all(count == 1 for count in size):  # one long sum is much faster than one short sum per axis
        total = total.reshape(*x.shape[:lead], math.prod(x.shape[lead:])).sum(axis=-1, dtype=total.dtype)
        total = total.reshape(*x.shape[:lead], *size)
    for axis, count in enumerate(size, lead):
        total = _adaptive_sum(xp, total, axis, count)
    total = total + 0  # sums start from zero: that of negative zeros has no sign
    return (total / _adaptive_divisor(xp, x.shape[lead:], size, total.dtype)).astype(x.dtype, copy=False)


def adaptive_avg_pool_backward(g: Array, input_shape: Sizes) -> Array:
    """The transpose of `adaptive_avg_pool` for an input of `input_shape`, whose last axes differ from `g`'s.

    Note [Adaptive windows]
    Output i reads the inputs from floor(i * n / m) to ceil((i + 1) * n / m). So input j is read by the
    outputs from floor(j * m / n) to ceil((j + 1) * m / n): the same rule with n and m exchanged. Summing
    windows of the divided gradient is therefore the exact transpose, without any scatter.
    """
    xp = namespace(g)
    work = summing_dtype(xp, g.dtype)
    out = g.astype(work, copy=False) / _adaptive_divisor(xp, input_shape, g.shape, work)
    for axis, size in enumerate(input_shape):
        if g.shape[axis] != size:
            out = _adaptive_sum(xp, out, axis, size)
    return out.astype(g.dtype, copy=False)


def adaptive_max_pool(x: Array, size: Sizes) -> tuple[Array, Array]:
    """The maxima of adaptive windows over the last `len(size)` axes, and their places as in `max_pool`."""
    xp = namespace(x)
    lead = x.ndim - len(size)
    values = x
    places = xp.zeros((1,) * x.ndim, xp.int64)
    weight = 1
    # Last axis first: the row-major order of the places, and with it "first wins", survives axis by axis.
    for axis in range(x.ndim - 1, lead - 1, -1):
        values, chosen = _adaptive_axis_max(xp, values, axis, size[axis - lead])
        if axis < x.ndim - 1:
            places = xp.take_along_axis(places, chosen, axis=axis)
        places = places + chosen * weight
        weight *= x.shape[axis]
    return (values.copy() if values is x else values), places


def _reach(
    spatial: Sizes, kernel: Sizes, stride: Sizes, padding: Sizes, dilation: Sizes, counts: Sizes
) -> tuple[tuple[int, int], ...]:
    """How far the windows reach before and after each axis; never negative, though rows may stay unread."""
    return tuple(
        (low, max(step * (count - 1) + gap * (taps - 1) + 1 - size - low, 0))
        for size, taps, step, low, gap, count in zip(
            spatial, kernel, stride, padding, dilation, counts, strict=True
        )
    )


def _lowest(xp: ArrayModule, dtype: ArrayDType) -> Any:
    """The value that loses against everything: minus infinity, or the least integer."""
    if dtype.kind == "b":
        return False
    return int(xp.iinfo(dtype).min) if dtype.kind in "iu" else -math.inf


def _tap_numbers(xp: ArrayModule, padded: Array, values: Array, places: Sequence[Any]) -> Array:
    """Which tap of each window holds its maximum, as the tap's number.

    Later taps get smaller ranks, and the largest rank that matches is kept: two passes of small integers,
    where masked copies would be several times slower. NaN matches nothing and so keeps rank 0.
    """
    count = len(places)
    small = xp.uint8 if count < 256 else xp.int32
    ranks = xp.zeros(values.shape, small)
    for number, place in enumerate(places):
        match = xp.equal(padded[place], values)
        xp.maximum(ranks, xp.multiply(match, small(count - number), dtype=small), out=ranks)
    if values.dtype.kind in "fV" and not ranks.all():
        last = xp.zeros(values.shape, xp.int32)
        for number, place in enumerate(places):
            xp.copyto(last, number, where=xp.isnan(padded[place]))
        return xp.where(ranks == 0, last, count - ranks.astype(xp.int32))
    return count - ranks.astype(xp.int32)


def _flat_places(
    xp: ArrayModule,
    taps: Array,
    spatial: Sizes,
    kernel: Sizes,
    stride: Sizes,
    padding: Sizes,
    dilation: Sizes,
    counts: Sizes,
) -> Array:
    """Tap numbers as flat places: the window's origin plus the tap's offset, which a small table knows."""
    origins = [
        [step * place - low for place in range(count)]
        for step, low, count in zip(stride, padding, counts, strict=True)
    ]
    offsets = [[gap * tap for tap in range(size)] for size, gap in zip(kernel, dilation, strict=True)]
    table = _outer_places(xp, offsets, spatial).reshape(-1)
    return xp.take(table, taps) + _outer_places(xp, origins, spatial)


def _outer_places(xp: ArrayModule, per_axis: Sequence[Sequence[int]], spatial: Sizes) -> Array:
    """Flat places of every combination of per-axis coordinates, one array axis each."""
    axes = len(per_axis)
    total = xp.zeros((1,) * axes, xp.int64)
    weight = 1
    for axis in range(axes - 1, -1, -1):
        line = xp.asarray(per_axis[axis], dtype=xp.int64) * weight
        total = total + line.reshape((-1,) + (1,) * (axes - axis - 1))
        weight *= spatial[axis]
    return total


def _first_inside(size: int, step: int, low: int, gap: int, count: int) -> list[int]:
    """The first coordinate of each window that is not left padding."""
    starts = (step * place - low for place in range(count))
    return [min(start + gap * (-(min(start, 0) // gap)), size - 1) for start in starts]


def _global_places(xp: ArrayModule, indices: Array, spatial: Sizes) -> Array:
    """Flat places of each plane as flat places of the whole array."""
    lead = indices.shape[: indices.ndim - len(spatial)]
    planes = xp.arange(math.prod(lead), dtype=xp.int64) * math.prod(spatial)
    return indices + planes.reshape(*lead, *(1,) * len(spatial))


def _divisor(
    xp: ArrayModule,
    spatial: Sizes,
    kernel: Sizes,
    stride: Sizes,
    padding: Sizes,
    counts: Sizes,
    count_include_pad: bool,
    override: int | None,
    dtype: ArrayDType,
) -> Array:
    """What each window's sum is divided by, as an array that broadcasts over the windows."""
    axes = len(kernel)
    if override is not None:
        return xp.asarray(override, dtype=dtype)
    total = xp.ones((1,) * axes, dtype)
    rows = zip(spatial, kernel, stride, padding, counts, strict=True)
    for axis, (size, taps, step, low, count) in enumerate(rows):
        line = []
        for start in range(-low, step * count - low, step):
            stop = min(start + taps, size + low)
            line.append(stop - start if count_include_pad else min(stop, size) - max(start, 0))
        if any(entry != line[0] for entry in line):
            total = total * xp.asarray(line, dtype=dtype).reshape((-1,) + (1,) * (axes - axis - 1))
        elif line:
            total = total * line[0]
    return total


def _adaptive_windows(size: int, count: int) -> tuple[list[int], list[int]]:
    """Where each of `count` adaptive windows over `size` elements starts and stops."""
    starts = [place * size // count for place in range(count)]
    stops = [-(-(place + 1) * size // count) for place in range(count)]
    return starts, stops


def _adaptive_divisor(xp: ArrayModule, sizes: Sizes, counts: Sizes, dtype: Any) -> Array:
    """The number of elements in each adaptive window."""
    axes = len(sizes)
    total = xp.ones((1,) * axes, dtype)
    for axis, (size, count) in enumerate(zip(sizes, counts, strict=True)):
        if size % count == 0:
            total = total * (size // count)
        else:
            starts, stops = _adaptive_windows(size, count)
            line = [stop - start for start, stop in zip(starts, stops, strict=True)]
            total = total * xp.asarray(line, dtype=dtype).reshape((-1,) + (1,) * (axes - axis - 1))
    return total


def _adaptive_sum(xp: ArrayModule, x: Array, axis: int, count: int) -> Array:
    """The sums of `count` adaptive windows along one axis."""
    size = x.shape[axis]
    if size == count:
        return x
    if size % count == 0:
        split = x.reshape(*x.shape[:axis], count, size // count, *x.shape[axis + 1 :])
        return split.sum(axis=axis + 1, dtype=x.dtype)
    starts, stops = _adaptive_windows(size, count)
    longest = max(stop - start for start, stop in zip(starts, stops, strict=True))
    total = xp.take(x, xp.asarray(starts), axis=axis)
    for tap in range(1, longest):
        inside = [start + tap < stop for start, stop in zip(starts, stops, strict=True)]
        places = [min(start + tap, size - 1) for start in starts]
        term = xp.take(x, xp.asarray(places), axis=axis)
        if not all(inside):
            mask = xp.asarray(inside).reshape((-1,) + (1,) * (x.ndim - axis - 1))
            term = xp.where(mask, term, xp.zeros((), x.dtype))
        total += term
    return total


def _adaptive_axis_max(xp: ArrayModule, x: Array, axis: int, count: int) -> tuple[Array, Array]:
    """The maxima of `count` adaptive windows along one axis, and their coordinates on it."""
    size = x.shape[axis]
    starts, stops = _adaptive_windows(size, count)
    longest = max((stop - start for start, stop in zip(starts, stops, strict=True)), default=0)
    first = xp.asarray(starts, dtype=xp.int64)
    last = xp.asarray(stops, dtype=xp.int64) - 1
    column = (-1,) + (1,) * (x.ndim - axis - 1)
    values = xp.take(x, first, axis=axis)
    chosen = xp.broadcast_to(first.reshape(column), values.shape).copy()
    if count == 1 and size > 1 and x.dtype.kind != "V":
        chosen = xp.argmax(x, axis=axis, keepdims=True).astype(xp.int64)
        values = xp.take_along_axis(x, chosen, axis=axis)
        if (
            x.dtype.kind == "f" and xp.isnan(values).any()
        ):  # argmax finds the first NaN, and the last is wanted
            flipped = size - 1 - xp.argmax(xp.flip(xp.isnan(x), axis), axis=axis, keepdims=True)
            chosen = xp.where(xp.isnan(values), flipped, chosen)
        return values, chosen
    for tap in range(1, longest):
        # Past its end a window sees its last element again, which can never win a second time.
        place = xp.minimum(first + tap, last)
        candidate = xp.take(x, place, axis=axis)
        better = candidate > values
        if x.dtype.kind in "fV":
            better |= xp.isnan(candidate)
        xp.copyto(values, candidate, where=better)
        xp.copyto(chosen, xp.broadcast_to(place.reshape(column), chosen.shape), where=better)
    return values, chosen
