"""Padding: borders for the last k axes of an array, and the transpose of that map.

Takes an array and one `(before, after)` pair per padded axis, in axis order; gives the padded array, or,
from a gradient of that shape, the gradient of the input. The one idea: every mode copies slices axis by
axis, so that the transpose adds the same slices back; negative amounts crop.

Also home to `summing_dtype`, the dtype in which every kernel of this package adds things up.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from weft.core.arrays import Array, ArrayModule, namespace
from weft.ops.values import ArrayDType, Number

Pair = tuple[int, int]
Pads = Sequence[int | Sequence[int]]


def summing_dtype(xp: ArrayModule, dtype: ArrayDType) -> Any:
    """The dtype to add in: float32 for 16-bit floats, int64 for integers and bool, otherwise `dtype`."""
    kind = dtype.kind
    if kind in "biu":
        return xp.dtype(xp.int64)
    if kind == "V" or (kind == "f" and dtype.itemsize < 4):  # ml_dtypes' bfloat16 calls itself kind V
        return xp.dtype(xp.float32)
    return dtype


def as_pairs(padding: Pads) -> tuple[Pair, ...]:
    """One `(before, after)` pair per axis; a plain int pads both sides alike."""
    return tuple(
        (entry, entry) if isinstance(entry, int) else (int(entry[0]), int(entry[1])) for entry in padding
    )


def pairs_from_flat(flat: Sequence[int]) -> tuple[Pair, ...]:
    """The flat order of `nn.functional.pad` (last axis first) as pairs in axis order."""
    return tuple((flat[place], flat[place + 1]) for place in range(len(flat) - 2, -1, -2))


def output_shape(shape: Sequence[int], pads: Pads) -> tuple[int, ...]:
    """The shape of `shape` with its last `len(pads)` axes padded."""
    pairs = as_pairs(pads)
    lead = len(shape) - len(pairs)
    return (
        *shape[:lead],
        *(size + low + high for size, (low, high) in zip(shape[lead:], pairs, strict=True)),
    )


def pad(x: Array, pads: Pads, mode: str = "constant", value: Number = 0) -> Array:
    """Pad the last `len(pads)` axes of `x`; modes are constant, reflect, replicate and circular.

    Always a fresh array, so that an op may hand it out as its result.
    """
    pairs = as_pairs(pads)
    if mode == "constant":
        return _constant(x, pairs, value)
    out = x
    lead = x.ndim - len(pairs)
    for axis, (low, high) in enumerate(pairs, lead):
        if low or high:
            out = _pad_axis(out, axis, low, high, mode)
    return out.copy() if out is x or out.base is not None else out


def pad_backward(g: Array, input_shape: Sequence[int], pads: Pads, mode: str = "constant") -> Array:
    """The transpose of `pad`: from the gradient of the padded array, that of an input of `input_shape`."""
    xp = namespace(g)
    pairs = as_pairs(pads)
    if mode == "constant":
        return _constant(g, tuple((-low, -high) for low, high in pairs), 0)
    out = g.astype(summing_dtype(xp, g.dtype), copy=False)
    lead = len(input_shape) - len(pairs)
    for axis in range(len(input_shape) - 1, lead - 1, -1):
        low, high = pairs[axis - lead]
        if low or high:
            out = _unpad_axis(out, axis, input_shape[axis], low, high, mode)
    return out.astype(g.dtype, copy=out is g)


def along(
    ndim: int, axis: int, start: int | None, stop: int | None, step: int | None = None
) -> tuple[slice, ...]:
    """An index that slices one axis and keeps the others whole."""
    whole = slice(None)
    return (*(whole,) * axis, slice(start, stop, step), *(whole,) * (ndim - axis - 1))


def _constant(x: Array, pairs: tuple[Pair, ...], value: Number) -> Array:
    """Fill a new array with `value` and copy the part of `x` that survives into its place."""
    xp = namespace(x)
    lead = x.ndim - len(pairs)
    shape = output_shape(x.shape, pairs)
    target: list[slice] = [slice(None)] * lead
    source: list[slice] = [slice(None)] * lead
    for size, out_size, (low, high) in zip(x.shape[lead:], shape[lead:], pairs, strict=True):
        target.append(slice(max(low, 0), max(out_size - max(high, 0), max(low, 0))))
        source.append(slice(max(-low, 0), max(size - max(-high, 0), max(-low, 0))))
    out = xp.zeros(shape, x.dtype) if _is_zero(value) else xp.full(shape, value, x.dtype)
    out[tuple(target)] = x[tuple(source)]
    return out


def _is_zero(value: Number) -> bool:
    """Whether `xp.zeros` gives the same bits as filling with `value`; zeroed pages are cheaper."""
    return isinstance(value, int) and value == 0


def _pad_axis(x: Array, axis: int, low: int, high: int, mode: str) -> Array:
    """Pad one axis by copies of its slices. Reflection sees what is cropped away, wrapping does not."""
    xp = namespace(x)
    if mode == "circular" and (low < 0 or high < 0):
        x = x[along(x.ndim, axis, max(-low, 0), x.shape[axis] - max(-high, 0))]
        low, high = max(low, 0), max(high, 0)
    size = x.shape[axis]
    before, after = max(low, 0), max(high, 0)
    shape = list(x.shape)
    shape[axis] = before + size + after
    out = xp.empty(tuple(shape), x.dtype)
    out[along(x.ndim, axis, before, before + size)] = x
    for target, source in _borders(x.ndim, axis, size, before, after, mode):
        out[target] = x[source]
    if low < 0 or high < 0:
        out = out[along(x.ndim, axis, max(-low, 0), out.shape[axis] - max(-high, 0))]
    return out


def _unpad_axis(g: Array, axis: int, size: int, low: int, high: int, mode: str) -> Array:
    """The transpose of `_pad_axis`: zeros where it cropped, then each border added where it was read."""
    crop = [(0, 0)] * (g.ndim - axis)
    crop[0] = (max(-low, 0), max(-high, 0))
    if mode == "circular":
        inner_size = size - crop[0][0] - crop[0][1]
    else:
        inner_size = size
        g = _constant(g, tuple(crop), 0) if any(crop[0]) else g
    before, after = max(low, 0), max(high, 0)
    out = g[along(g.ndim, axis, before, before + inner_size)].copy()
    for target, source in _borders(g.ndim, axis, inner_size, before, after, mode):
        part = g[target]
        out[source] += part.sum(axis=axis, keepdims=True, dtype=part.dtype) if mode == "replicate" else part
    if mode == "circular" and any(crop[0]):
        out = _constant(out, tuple(crop), 0)
    return out


def _borders(
    ndim: int, axis: int, size: int, before: int, after: int, mode: str
) -> list[tuple[tuple[slice, ...], tuple[slice, ...]]]:
    """Where each border lies in the padded axis, and which slice of the input it repeats."""
    end = before + size
    if mode == "reflect":  # the mirror is the edge element, which is not repeated
        places = [((0, before), (before, 0, -1)), ((end, end + after), (size - 2, size - 2 - after, -1))]
    elif mode == "replicate":
        places = [((0, before), (0, 1, 1)), ((end, end + after), (size - 1, size, 1))]
    elif mode == "circular":
        places = [((0, before), (size - before, size, 1)), ((end, end + after), (0, after, 1))]
    else:
        raise NotImplementedError(f"Unrecognised padding mode {mode}")
    result = []
    for (start, stop), (first, last, step) in places:
        if stop > start:
            bound = None if last < 0 else last  # a negative stop would count from the end
            result.append((along(ndim, axis, start, stop), along(ndim, axis, first, bound, step)))
    return result
