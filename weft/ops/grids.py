"""Grids of places, and reading images at them: `affine_grid` and `grid_sample`.

Takes affine maps, or images and places between -1 and 1; gives places, or the images' values there. The one
idea: a sample is a weighted sum of a few gathered elements, so all but the base grid is written in ops.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from typing import Any

from weft.core.arrays import Array, namespace
from weft.core.dtypes import int64
from weft.core.naming import named
from weft.core.types import TensorType
from weft.core.warn import warn
from weft.ops.families import HIDDEN, composite, contract
from weft.ops.pooling import fold_lead
from weft.ops.record import Op, ops, type_of
from weft.ops.samples import Maker, Sample
from weft.ops.softmax import floats_only, working
from weft.ops.values import Sizes, TensorLike


def _base_grid(like: Array, size: Sequence[int], align_corners: bool) -> Array:
    """Homogeneous coordinates of every place, `(places, axes + 1)`, the last axis first."""
    xp = namespace(like)
    spatial = tuple(size[2:])
    lines = []
    for length in spatial:
        line = xp.linspace(-1, 1, length, dtype=like.dtype) if length > 1 else xp.zeros(1, like.dtype)
        lines.append(line if align_corners else line * ((length - 1) / length))
    columns = [column.reshape(-1) for column in xp.meshgrid(*lines, indexing="ij")][::-1]
    return xp.stack([*columns, xp.ones(math.prod(spatial), like.dtype)], axis=-1)


def _affine_kernel(theta: Array, size: Sizes, align_corners: bool) -> Array:
    work = working(theta)
    out = _base_grid(work, size, align_corners) @ work.swapaxes(-1, -2)
    return out.reshape(theta.shape[0], *size[2:], len(size) - 2).astype(theta.dtype, copy=False)


def _affine_rule(theta: TensorType, size: Sizes, align_corners: bool) -> TensorType:
    floats_only("affine_grid", theta.dtype)
    if theta.shape[0] != size[0]:
        rows = theta.shape[-1]
        raise RuntimeError(
            f"Expected size for first two dimensions of batch2 tensor to be: [{size[0]}, {rows}] but got: "
            f"[{theta.shape[0]}, {rows}]."
        )
    return TensorType((size[0], *size[2:], len(size) - 2), theta.dtype, theta.device)


def _affine_backward_kernel(g: Array, size: Sizes, align_corners: bool) -> Array:
    axes = len(size) - 2
    flat = working(g).reshape(g.shape[0], -1, axes)
    return (flat.swapaxes(-1, -2) @ _base_grid(flat, size, align_corners)).astype(g.dtype, copy=False)


def _affine_backward_rule(g: TensorType, size: Sizes, align_corners: bool) -> TensorType:
    floats_only("affine_grid_backward", g.dtype)
    return TensorType((size[0], len(size) - 2, len(size) - 1), g.dtype, g.device)


def _affine_batch(op: Op, size: int, args: tuple[Any, ...], dims: tuple[Any, ...]) -> tuple[Any, Any]:
    wide = (size * args[1][0], *args[1][1:])
    return fold_lead(op, size, (args[0], wide, *args[2:]), dims)


affine_grid_generator: Op = contract(
    "affine_grid_generator", _affine_kernel, _affine_rule, "theta: Tensor, size: Any, align_corners: bool",
    vjp=lambda g, _out, _theta, size, align: affine_grid_backward(g, size, align), batch=_affine_batch,
    samples=lambda make: [Sample(make(2, 2, 3), (2, 1, 3, 4), True),
        Sample(make(1, 3, 4), (1, 1, 2, 3, 1), False)],
    method=False, out=False,
    refuses="nothing",
)  # fmt: skip
affine_grid_backward: Op = contract(
    "affine_grid_backward", _affine_backward_kernel, _affine_backward_rule,
    "grad: Tensor, size: Any, align_corners: bool",
    vjp=lambda g, _out, _g, size, align: affine_grid_generator(g, size, align), batch=_affine_batch,
    samples=lambda make: [Sample(make(2, 3, 4, 2), (2, 1, 3, 4), True)], **HIDDEN,
    refuses="nothing",
)  # fmt: skip
ALIGN_WARNING = (
    "Default grid_sample and affine_grid behavior has changed to align_corners=False since 1.3.0. Please "
    "specify "
    "align_corners=True if the old behavior is desired. See the documentation of grid_sample for details."
)


@composite(
    "theta: Tensor, size: Any, align_corners: Any = None", namespace="nn.functional",
    samples=lambda make: [Sample(make(2, 2, 3), (2, 1, 3, 4), True),
        Sample(make(1, 3, 4), (1, 1, 2, 3, 1), False)],
)  # fmt: skip
def affine_grid(theta: Any, size: Any, align_corners: Any) -> Any:
    """The grid that makes `grid_sample` apply 2D or 3D affine maps to images of this size."""
    if align_corners is None:
        warn(ALIGN_WARNING)
        align_corners = False
    kind = type_of(theta)
    size = tuple(size)
    if not kind.dtype.is_floating_point:
        raise ValueError(f"Expected theta to have floating point type, but got {kind.dtype}")
    if len(size) not in (4, 5):
        raise NotImplementedError(
            "affine_grid only supports 4D and 5D sizes, for 2D and 3D affine transforms, respectively. "
            f"Got size {size}."
        )
    axes = len(size) - 2
    if kind.ndim != 3 or tuple(kind.shape[1:]) != (axes, axes + 1):
        raise ValueError(
            named(
                f"Expected a batch of {axes}D affine matrices of shape Nx{axes}x{axes + 1} "
                f"for size {size}. Got "
                f"weft.Size({list(kind.shape)})."
            )
        )
    if any(n <= 0 for n in size):
        raise ValueError(f"Expected non-zero, positive output size. Got {size}")
    return affine_grid_generator(theta, size, align_corners)


# -- sampling ------------------------------------------------------------------------------------------------
CUBIC = -0.75  # the free coefficient of the cubic convolution kernel


def _check_sample(x: TensorType, grid: TensorType, mode: str, padding_mode: str) -> None:
    """PyTorch's checks in its order."""
    if mode not in ("bilinear", "nearest", "bicubic"):
        raise ValueError(
            "nn.functional.grid_sample(): expected mode to be 'bilinear', 'nearest' or 'bicubic', but got: "
            f"'{mode}'"
        )
    if padding_mode not in ("zeros", "border", "reflection"):
        raise ValueError(
            "nn.functional.grid_sample(): expected padding_mode to be 'zeros', 'border', or 'reflection', "
            f"but got: '{padding_mode}'"
        )


def _check_places(x: TensorType, grid: TensorType, mode: str) -> None:
    sizes = f"input with sizes {list(x.shape)} and grid with sizes {list(grid.shape)}"
    if x.shape[:1] != grid.shape[:1]:
        raise RuntimeError(
            f"grid_sampler(): expected grid and input to have same batch size, but got {sizes}"
        )
    if grid.shape[-1] != x.ndim - 2:
        raise RuntimeError(
            f"grid_sampler(): expected grid to have size {x.ndim - 2} in last dimension, but got grid with "
            f"sizes {list(grid.shape)}"
        )
    if x.ndim not in (4, 5) or x.ndim != grid.ndim:
        raise RuntimeError(
            "grid_sampler(): expected 4D or 5D input and grid with same number of dimensions, but got "
            f"{sizes}"
        )
    if 0 in x.shape[2:]:
        place = 2 + x.shape[2:].index(0)
        raise RuntimeError(
            "grid_sampler(): expected input to have non-empty spatial dimensions, but input has sizes "
            f"{list(x.shape)} with dimension {place} being empty"
        )
    if mode == "bicubic" and x.ndim == 5:
        raise RuntimeError("grid_sampler(): bicubic interpolation only supports 4D input")
    if grid.dtype is not x.dtype:
        raise RuntimeError(f"expected scalar type {x.dtype.scalar_name} but found {grid.dtype.scalar_name}")
    floats_only("grid_sampler_2d_cpu", x.dtype)


def _inside(place: TensorLike, size: int, padding_mode: str, align: bool) -> Any:
    """A coordinate brought into the image by the padding mode (zeros lets it lie outside)."""
    if padding_mode == "zeros":
        return place
    if padding_mode == "reflection":
        low, span = (0.0, size - 1.0) if align else (-0.5, float(size))
        if span <= 0:
            return ops.mul(place, 0.0)
        distance = ops.abs(ops.sub(place, low))
        turns = ops.floor(ops.div(distance, span))
        rest = ops.sub(distance, ops.mul(turns, span))
        odd = ops.ne(ops.remainder(turns, 2), 0)
        place = ops.add(ops.where(odd, ops.rsub(rest, span), rest), low)
    return ops.clamp(place, 0, size - 1)


def _pick(flat: TensorLike, sizes: Sequence[int], places: Sequence[Any]) -> Any:
    """The elements of `(N, C, places)` at whole coordinates `(N, P)`; zero outside."""
    index: Any = None
    within: Any = None
    step = 1
    for place, size in zip(reversed(places), reversed(sizes), strict=True):
        legal = ops.logical_and(ops.ge(place, 0), ops.le(place, size - 1))
        whole = ops.mul(ops._to_copy(ops.nan_to_num(ops.clamp(place, 0, size - 1)), int64), step)
        index = whole if index is None else ops.add(index, whole)
        within = legal if within is None else ops.logical_and(within, legal)
        step *= size
    count, channels = flat.shape[:2]
    shape = (count, channels, index.shape[-1])
    values = ops.gather(flat, 2, ops.expand(ops.unsqueeze(index, 1), shape))
    return ops.mul(values, ops.unsqueeze(within, 1))


def _cubic_weights(part: TensorLike) -> list[Any]:
    """The weights of the four neighbours of a place this far past the second."""

    def outer(t: TensorLike) -> Any:  # ((t - 5) t + 8) t a - 4 a, for 1 < t < 2
        return ops.sub(ops.mul(ops.mul(ops.add(ops.mul(ops.sub(t, 5), t), 8), t), CUBIC), 4 * CUBIC)

    def inner(t: TensorLike) -> Any:  # ((a + 2) t - (a + 3)) t t + 1, for t < 1
        return ops.add(ops.mul(ops.mul(ops.sub(ops.mul(t, CUBIC + 2), CUBIC + 3), t), t), 1)

    rest = ops.rsub(part, 1)
    return [outer(ops.add(part, 1)), inner(part), inner(rest), outer(ops.add(rest, 1))]


def _taps(place: TensorLike, size: int, mode: str, padding_mode: str, align: bool) -> list[tuple[Any, Any]]:
    """Whole coordinates along one axis and their weights."""
    if mode == "bicubic":
        base = ops.floor(place)
        weights = _cubic_weights(ops.sub(place, base))
        return [
            (_inside(ops.add(base, shift - 1), size, padding_mode, align), weight)
            for shift, weight in enumerate(weights)
        ]
    place = _inside(place, size, padding_mode, align)
    if mode == "nearest":
        return [(ops.round(place), None)]
    base = ops.floor(place)
    part = ops.sub(place, base)
    return [(base, ops.rsub(part, 1)), (ops.add(base, 1), part)]


def _level(place: TensorLike) -> Any:
    """Zeros whose gradient is zero: what is read at the nearest place does not change with it, which is not
    the same as not to depend on it.
    """
    return ops.nan_to_num(ops.mul(ops.abs(ops.round(place)), 0.0), 0.0, 0.0, 0.0)


def _sample_samples(make: Maker) -> Iterator[Sample]:
    for mode in ("bilinear", "bicubic"):
        yield Sample(make(2, 2, 3, 4), make(2, 3, 2, 2, low=-0.9, high=0.9), mode, align_corners=True)
    yield Sample(make(1, 2, 3, 4), make(1, 3, 2, 2, low=-1.7, high=1.7), padding_mode="reflection")
    yield Sample(make(1, 2, 3, 4), make(1, 3, 2, 2, low=-1.7, high=1.7), padding_mode="border")
    yield Sample(make(1, 2, 3, 4), make(1, 3, 2, 2, low=-1.7, high=1.7), "nearest", align_corners=False)
    yield Sample(make(1, 1, 3, 4, 2), make(1, 2, 2, 2, 3, low=-1.2, high=1.2), align_corners=False)


@composite(
    "input: Tensor, grid: Tensor, mode: str = 'bilinear', padding_mode: str = 'zeros', "
    "align_corners: Any = None",
    namespace="nn.functional", amp="float32", samples=_sample_samples,
    refuses="nothing",
)  # fmt: skip
def grid_sample(input: Any, grid: Any, mode: str, padding_mode: str, align_corners: Any) -> Any:
    """The values of images at grid points between -1 (the first edge or corner) and 1 (the last)."""
    kind = type_of(input)
    _check_sample(kind, type_of(grid), mode, padding_mode)
    if align_corners is None:
        warn(ALIGN_WARNING)
    _check_places(kind, type_of(grid), mode)
    align = bool(align_corners)
    count, channels, *sizes = kind.shape
    target = tuple(type_of(grid).shape[1:-1])
    flat = ops.reshape(input, (count, channels, math.prod(sizes)))
    taps = []
    for axis, size in enumerate(sizes):
        place = ops.reshape(ops.select(grid, -1, len(sizes) - 1 - axis), (count, math.prod(target)))
        if align:
            place = ops.mul(ops.add(place, 1), (size - 1) / 2)
        else:
            place = ops.sub(ops.mul(ops.add(place, 1), size / 2), 0.5)
        taps.append(_taps(place, size, mode, padding_mode, align))
    total = None
    for corner in itertools.product(*taps):
        term = _pick(flat, sizes, [place for place, _ in corner])
        for _, weight in corner:
            term = term if weight is None else ops.mul(term, ops.unsqueeze(weight, 1))
        total = term if total is None else ops.add(total, term)
    if mode == "nearest":
        total = ops.sub(total, ops.unsqueeze(_level(place), 1))
    return ops.reshape(total, (count, channels, *target))
