"""Images and other grids: padding, resizing, unfolding into columns, rearranging channels.

Takes tensors whose last axes are spatial; gives tensors on another grid. The one idea: all of these are
linear, so each gradient is the transposed map, and the transposed map's gradient is the map itself.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

from weft.core.arrays import Array
from weft.core.dtypes import BY_NUMPY, bool_, uint8
from weft.core.types import TensorType
from weft.core.warn import warn
from weft.ops.batching import leading, to_front
from weft.ops.families import HIDDEN, composite, index
from weft.ops.kernels import folding, padding, resize
from weft.ops.kernels.resize import Scales
from weft.ops.options import fits
from weft.ops.pooling import ADAPTIVE, fold_lead, lead_batch
from weft.ops.record import Op, type_of, unsupported
from weft.ops.samples import Maker, Sample
from weft.ops.values import Number, Sizes, Spread, TensorLike


# -- padding -------------------------------------------------------------------------------------------------
def _check_pad(shape: tuple[int, ...], pad: Sequence[int]) -> None:
    if len(pad) % 2:
        raise RuntimeError("Padding length must be divisible by 2")
    if len(pad) > 2 * len(shape):
        raise RuntimeError(
            "Padding length should be less than or equal to two times the input dimension but got padding "
            "length "
            f"{len(pad)} and input of dimension {len(shape)}"
        )


def _constant_rule(x: TensorType, pad: Sizes, value: Number) -> TensorType:
    _check_pad(x.shape, pad)
    pairs = padding.pairs_from_flat(tuple(pad))
    for size, (low, high) in zip(x.shape[x.ndim - len(pairs) :], pairs, strict=True):
        if size + min(low, 0) < 0 or size + min(low, 0) + min(high, 0) < 0:
            raise RuntimeError("narrow(): length must be non-negative.")
    if any(width > 0 for width in pad):
        fits(value, x.dtype)
    return TensorType(padding.output_shape(x.shape, pairs), x.dtype, x.device)


def _constant_pad(x: Array, pad: Sizes, value: Number) -> Array:
    filling = fits(value, BY_NUMPY[x.dtype]) if any(width > 0 for width in pad) else 0
    return padding.pad(x, padding.pairs_from_flat(tuple(pad)), "constant", filling)


def _constant_samples(make: Maker) -> Iterator[Sample]:
    yield Sample(make(2, 3), (1, 2))
    yield Sample(make(2, 3), (-1, 2, 0, 1), 1.5)
    yield Sample(make(2), (0, 0), 1)
    yield Sample(make(0, 3), (1, 1), 2)
    yield Sample(make(4, 3).T, ())


constant_pad_nd: Op = index(
    "constant_pad_nd",
    _constant_pad, _constant_rule, "input: Tensor, pad: Any, value: Number = 0",
    vjp=lambda g, _out, _x, pad: constant_pad_nd(g, tuple(-width for width in pad)), batch=leading,
    samples=_constant_samples, method=False,
    refuses="nothing", lowering="indexing",
)  # fmt: skip
BORDERS: dict[tuple[str, int], Op] = {}


def _pad_backward_samples(make: Maker) -> Iterator[Sample]:
    yield Sample(make(2, 3, 7), (2, 3, 4), (1, 2), "reflect")
    yield Sample(make(2, 5, 7), (2, 3, 4), (1, 2, 1, 1), "replicate")
    yield Sample(make(2, 5, 5), (2, 3, 4), (-1, 2, 1, 1), "circular")


border_backward = index(
    "border_backward",
    lambda g, shape, pad, mode: padding.pad_backward(g, shape, padding.pairs_from_flat(tuple(pad)), mode),
    lambda g, shape, pad, mode: TensorType(shape, g.dtype, g.device),
    "grad: Tensor, input_shape: Any, pad: Any, mode: str",
    vjp=lambda g, _out, _g, _shape, pad, mode: BORDERS[mode, len(pad) // 2](g, pad),
    batch=lambda op, size, args, dims: (op(to_front(args[0], dims[0]), (size, *args[1]), *args[2:]), 0),
    samples=_pad_backward_samples, **HIDDEN,
    refuses="nothing", lowering="scatter",
)  # fmt: skip


def _check_border(
    mode: str, axes: int, x: TensorType, pairs: Sequence[tuple[int, int]], pad: Sequence[int]
) -> None:
    first = x.ndim - axes
    if mode != "circular" and 0 in x.shape[max(first - 1, 0) :]:
        raise RuntimeError(
            f"Expected {axes + 1}D or {axes + 2}D (batch mode) tensor with possibly 0 batch size and other "
            "non-zero dimensions "
            f"for input, but got: {list(x.shape)}"
        )
    for place in range(axes - 1, -1, -1):
        dim, (low, high) = first + place, pairs[place]
        size = x.shape[dim]
        if mode == "reflect" and (low >= size or high >= size):
            raise RuntimeError(
                f"Argument #{4 + 2 * (axes - 1 - place)}: Padding size should be less than the "
                "corresponding input dimension, "
                f"but got: padding ({low}, {high}) at dimension {dim} of input {list(x.shape)}"
            )
        if mode == "circular" and (low > size or high > size):
            raise RuntimeError("Padding value causes wrapping around more than once.")
        if size + low + high < (0 if mode == "circular" else 1):
            if mode == "circular":
                raise RuntimeError("Negative padding value is resulting in an empty dimension")
            letters = "DHW"[3 - axes :]
            have = " ".join(f"{a}: {n}" for a, n in zip(letters, x.shape[first:], strict=True))
            want = " ".join(
                f"{a}: {n + sum(p)}" for a, n, p in zip(letters, x.shape[first:], pairs, strict=True)
            )
            raise RuntimeError(f"input ({have}) is too small. Calculated output {want}")


def _border(mode: str, axes: int, name: str) -> None:
    """Defines the pad of one mode over the last `axes` axes; leading axes are as many as there are."""

    def rule(x: TensorType, pad: Sizes) -> TensorType:
        pairs = padding.pairs_from_flat(tuple(pad))
        _check_border(mode, axes, x, pairs, pad)
        if x.dtype is bool_ and mode != "circular":
            raise NotImplementedError(f"\"{name}\" not implemented for 'Bool'")
        return TensorType(padding.output_shape(x.shape, pairs), x.dtype, x.device)

    def samples(make: Maker) -> Iterator[Sample]:
        space = (4, 3, 5)[:axes]
        yield Sample(make(2, 3, *space), (1, 2, 1, 0, 1, 2)[: 2 * axes])
        yield Sample(make(2, *space), (-1, 2, 1, 1, 0, 1)[: 2 * axes])

    BORDERS[mode, axes] = index(
        name, lambda x, pad: padding.pad(x, padding.pairs_from_flat(tuple(pad)), mode), rule,
        "input: Tensor, padding: Any",
        vjp=lambda g, _out, _x, pad: border_backward(g, _x.shape, pad, mode), batch=leading, samples=samples,
        node="".join(part.capitalize() for part in name.split("_"))[:-1] + "DBackward0",
        amp=None if mode == "circular" else "float32", **HIDDEN,
        refuses="nothing", lowering="indexing",
    )  # fmt: skip


for _axes in (1, 2, 3):
    _border("reflect", _axes, f"reflection_pad{_axes}d")
    _border("replicate", _axes, f"replication_pad{_axes}d")
    _border("circular", _axes, f"circular_pad{_axes}d")


def _pad_samples(make: Maker) -> Iterator[Sample]:
    yield Sample(make(2, 3), (1, 2))
    yield Sample(make(2, 3), (1, 2, 0, 1), value=2.5)
    for mode in ("reflect", "replicate", "circular"):
        yield Sample(make(2, 3, 4), (1, 2), mode)
        yield Sample(make(1, 2, 3, 4), (1, 0, 2, 1), mode)


@composite(
    "input: Tensor, pad: Any, mode: str = 'constant', value: Any = None",
    namespace="nn.functional",
    samples=_pad_samples,
)
def pad(input: TensorLike, pad: Sizes, mode: str, value: Any) -> Any:
    """Pads the last axes of a tensor; the amounts are given from the last axis forwards, (before, after) for
    each."""
    if not isinstance(pad, (tuple, list)):
        raise TypeError(f"pad(): argument 'pad' (position 2) must be tuple of ints, not {type(pad).__name__}")
    shape = type_of(input).shape
    widths = tuple(int(width) for width in pad)
    _check_pad(shape, widths)
    if mode == "constant":
        value = value.item() if hasattr(value, "item") else value
        value = float(value) if type(value) is int else value  # as PyTorch takes it: no -1 for unsigned
        return constant_pad_nd(input, widths, 0 if value is None else value)
    if value is not None and value != 0:
        raise RuntimeError(f'Padding mode "{mode}" doesn\'t take in value argument')
    axes = len(widths) // 2
    if mode not in ("reflect", "replicate", "circular"):
        raise NotImplementedError(f"Unrecognised padding mode {mode}")
    if len(shape) not in (axes + 1, axes + 2) or axes not in (1, 2, 3):
        raise NotImplementedError(
            f"Padding size {len(widths)} is not supported for {len(shape)}D input tensor.\n"
            "Supported combinations for non-constant padding:\n"
            "  - 2D or 3D input: padding size = 2 (pads last dimension)\n"
            "  - 3D or 4D input: padding size = 4 (pads last 2 dimensions)\n"
            "  - 4D or 5D input: padding size = 6 (pads last 3 dimensions)"
        )
    return BORDERS[mode, axes](input, widths)


# -- resizing ------------------------------------------------------------------------------------------------
UPSAMPLE: dict[tuple[str, int, bool], Op] = {}


def _resize_backward_samples(make: Maker) -> Iterator[Sample]:
    yield Sample(make(1, 2, 5), (3,), "nearest", False, None, False)
    yield Sample(make(1, 2, 5, 3), (3, 4), "bilinear", True, None, False)
    yield Sample(make(1, 2, 5, 3), (3, 4), "bicubic", False, (1.7, 0.8), True)


upsample_backward = index(
    "upsample_backward", resize.interpolate_backward,
    lambda g, size, *rest: TensorType((*g.shape[: g.ndim - len(size)], *size), g.dtype, g.device),
    "grad: Tensor, input_size: Any, mode: str, align_corners: bool, scales: Any, antialias: bool",
    vjp=lambda g, _out, _g, size, mode, align, scales, antialias: UPSAMPLE[mode, len(size), antialias](
        g, tuple(_g.shape[2:]), align, scales
    ),
    batch=fold_lead, samples=_resize_backward_samples, **HIDDEN,
    refuses="nothing", lowering="resize",
)  # fmt: skip


def _resampler(name: str, mode: str, axes: int, antialias: bool = False) -> None:
    """Defines one resizing op."""

    def kernel(x: Array, size: Sizes, align: bool, scales: Scales | None) -> Array:
        return resize.interpolate(x, size, mode, align, scales, antialias)

    def rule(x: TensorType, size: Sizes, align: bool, scales: Scales | None) -> TensorType:
        letters = "DHW"[3 - axes :]
        if min(*x.shape[2:], *size, 1) < 1:
            have = ", ".join(f"{a}: {n}" for a, n in zip(letters, x.shape[2:], strict=True))
            want = ", ".join(f"{a}: {n}" for a, n in zip(letters, size, strict=True))
            raise RuntimeError(
                f"Input and output sizes should be greater than 0, but got input ({have}) output ({want})"
            )
        if 0 in x.shape[1:]:
            raise RuntimeError(
                f"Non-empty {axes + 2}D data tensor expected but got a tensor with sizes {list(x.shape)}"
            )
        if not x.dtype.is_floating_point and x.dtype is not uint8:
            raise unsupported(f"{name.strip('_')}_channels_last", x.dtype)
        return TensorType((*x.shape[:2], *size), x.dtype, x.device)

    def samples(make: Maker) -> Iterator[Sample]:
        space = (3, 4, 2)[:axes]
        yield Sample(make(1, 2, *space), (5, 3, 3)[:axes], False, None)
        yield Sample(make(2, 1, *space), (2, 6, 3)[:axes], False, (0.8, 1.6, 1.7)[:axes])
        if not mode.startswith("nearest"):
            yield Sample(make(1, 2, *space), (5, 3, 3)[:axes], True, None)

    words = name.strip("_").split("_")
    node = "".join(
        part[:-1].capitalize() + "D" if part[-2:-1].isdigit() else part.capitalize() for part in words
    )
    UPSAMPLE[mode, axes, antialias] = index(
        name, kernel, rule, "input: Tensor, output_size: Any, align_corners: bool, scales: Any",
        vjp=lambda g, _out, _x, _size, align, scales: upsample_backward(
            g, tuple(_x.shape[2:]), mode, align, scales, antialias
        ),
        batch=fold_lead, samples=samples, node=f"{node}Backward0", **HIDDEN,
        refuses="nothing", lowering="resize",
    )  # fmt: skip


for _axes in (1, 2, 3):
    _resampler(f"upsample_nearest{_axes}d", "nearest", _axes)
    _resampler(f"_upsample_nearest_exact{_axes}d", "nearest-exact", _axes)
_resampler("upsample_linear1d", "linear", 1)
_resampler("upsample_bilinear2d", "bilinear", 2)
_resampler("upsample_bicubic2d", "bicubic", 2)
_resampler("upsample_trilinear3d", "trilinear", 3)
_resampler("_upsample_bilinear2d_aa", "bilinear", 2, True)
_resampler("_upsample_bicubic2d_aa", "bicubic", 2, True)
MODE_RANKS = {"linear": 3, "bilinear": 4, "trilinear": 5}
MODES_TEXT = "nearest | linear | bilinear | bicubic | trilinear | lanczos | area | nearest-exact"


def _target_size(spatial: tuple[int, ...], size: Any, scale_factor: Any) -> tuple[Any, Any]:
    """`(sizes, factors)`, one of which is None, checked against the input's spatial axes."""
    axes = len(spatial)
    if size is not None and scale_factor is not None:
        raise ValueError("only one of size or scale_factor should be defined")
    for value, word, shown, letter in (
        (size, "output", "output size of", "o"), (scale_factor, "scale_factor", "scale_factor of shape", "s")
    ):  # fmt: skip
        if isinstance(value, (tuple, list)) and len(value) != axes:
            pattern = "output size" if word == "output" else word
            raise ValueError(
                f"Input and {word} must have the same number of spatial dimensions, but got input with "
                "spatial dimensions of "
                f"{list(spatial)} and {shown} {value}. Please provide input tensor in (N, C, d1, d2, "
                "...,dK) format and "
                f"{pattern} in ({letter}1, {letter}2, ...,{letter}K) format."
            )
    if size is not None:
        wanted = tuple(size) if isinstance(size, (tuple, list)) else (size,) * axes
        if not all(isinstance(n, int) or hasattr(n, "__index__") for n in wanted):
            raise TypeError(
                "expected size to be one of int or Tuple[int] or Tuple[int, int] or Tuple[int, int, int], "
                "but got size with "
                f"types {[type(n) for n in wanted]}"
            )
        return tuple(int(n) for n in wanted), None
    if scale_factor is None:
        raise ValueError("either size or scale_factor should be defined")
    factors = tuple(scale_factor) if isinstance(scale_factor, (tuple, list)) else (scale_factor,) * axes
    return None, tuple(float(f) for f in factors)


def _interpolate_samples(make: Maker) -> Iterator[Sample]:
    for mode, rank in {**MODE_RANKS, "nearest": 4, "nearest-exact": 3, "bicubic": 4, "area": 4}.items():
        space = (3, 4, 2)[: rank - 2]
        yield Sample(make(1, 2, *space), size=5, mode=mode)
        yield Sample(make(2, 1, *space), scale_factor=1.6, mode=mode)
    yield Sample(make(1, 2, 3, 4), size=(5, 2), mode="bilinear", align_corners=True)
    yield Sample(make(1, 2, 5, 4), size=(3, 2), mode="bicubic", antialias=True)
    yield Sample(make(1, 2, 5), scale_factor=0.7, mode="linear", recompute_scale_factor=True)


@composite(
    "input: Tensor, size: Any = None, scale_factor: Any = None, mode: str = 'nearest', align_corners: Any = "
    "None, "
    "recompute_scale_factor: Any = None, antialias: bool = False",
    namespace="nn.functional", samples=_interpolate_samples,
)  # fmt: skip
def interpolate(
    input: TensorLike,
    size: Spread | None,
    scale_factor: Any,
    mode: str,
    align_corners: bool | None,
    recompute_scale_factor: bool | None,
    antialias: bool,
) -> Any:
    """Resizes the spatial axes of `(N, C, *spatial)` to `size`, or by `scale_factor`."""
    if mode in ("nearest", "area", "nearest-exact") and align_corners is not None:
        raise ValueError(
            "align_corners option can only be set with the interpolating modes: linear | bilinear | bicubic "
            "| trilinear"
        )
    shape = type_of(input).shape
    rank = len(shape)
    spatial = tuple(shape[2:])
    wanted, factors = _target_size(spatial, size, scale_factor)
    if recompute_scale_factor and size is not None:
        raise ValueError("recompute_scale_factor is not meaningful with an explicit size.")
    if factors is not None:
        wanted = resize.output_size(spatial, factors)
        if recompute_scale_factor or mode == "area":
            factors = None
    if antialias and not (mode in ("bilinear", "bicubic", "lanczos") and rank == 4):
        raise ValueError(
            "Anti-alias option is restricted to bilinear, bicubic, and lanczos modes and requires a 4-D "
            "tensor as input"
        )
    if mode == "area" and rank in (3, 4, 5):
        return ADAPTIVE[rank - 2](input, wanted)
    if mode in MODE_RANKS and rank in (3, 4, 5) and rank != MODE_RANKS[mode]:
        raise NotImplementedError(f"Got {rank}D input, but {mode} mode needs {MODE_RANKS[mode]}D input")
    op = UPSAMPLE.get((mode, rank - 2, antialias))
    if op is None:
        raise NotImplementedError(
            f"Input Error: Only 3D, 4D and 5D input Tensors supported (got {rank}D) for the modes: "
            f"{MODES_TEXT} (got {mode})"
        )
    return op(input, wanted, bool(align_corners), factors)


UPSAMPLE_SIGNATURE = "input: Tensor, size: Any = None, scale_factor: Any = None"


@composite(
    f"{UPSAMPLE_SIGNATURE}, mode: str = 'nearest', align_corners: Any = None", namespace="nn.functional",
    samples=lambda make: [Sample(make(1, 2, 3), 5, grad=False)],
)  # fmt: skip
def upsample(
    input: TensorLike, size: Spread | None, scale_factor: Any, mode: str, align_corners: bool | None
) -> Any:
    """The old name of `interpolate`."""
    warn("`nn.functional.upsample` is deprecated. Use `nn.functional.interpolate` instead.")
    return interpolate(input, size, scale_factor, mode, align_corners)


# -- columns -------------------------------------------------------------------------------------------------
def _pair(value: Spread, word: str) -> tuple[int, int]:
    values = (value,) * 2 if isinstance(value, int) else tuple(value)
    values = values * 2 if len(values) == 1 else values
    if len(values) != 2:
        raise RuntimeError(f"It is expected {word} equals to 2, but got size {len(values)}")
    return values


def _block(
    kernel_size: Spread, dilation: Spread, pads: Spread, stride: Spread
) -> tuple[tuple[int, int], ...]:
    return (
        _pair(kernel_size, "kernel_size"), _pair(dilation, "dilation"), _pair(pads, "padding"), _pair(stride,
        "stride")
    )  # fmt: skip


def _check_block(block: tuple[tuple[int, int], ...]) -> None:
    kernel, gaps, pads, steps = block
    for values, words, letter in ((kernel, "kernel size", "kernel"), (gaps, "dilation", "dilation")):
        if min(values) <= 0:
            detail = f"{letter}_height: {values[0]} {letter}_width: {values[1]}"
            raise RuntimeError(f"{words} should be greater than zero, but got {detail}")
    if min(pads) < 0:
        raise RuntimeError(
            f"padding should be non-negative, but got pad_height: {pads[0]} pad_width: {pads[1]}"
        )
    if min(steps) <= 0:
        detail = f"stride_height: {steps[0]} stride_width: {steps[1]}"
        raise RuntimeError(f"stride should be greater than zero, but got {detail}")


def _counts(spatial: Sequence[int], block: tuple[tuple[int, int], ...]) -> tuple[int, int]:
    """How many blocks fit along each axis; may be negative, which is an error."""
    height, width = (
        (size + 2 * low - gap * (taps - 1) - 1) // step + 1
        for size, taps, gap, low, step in zip(spatial, *block, strict=True)
    )
    return height, width


def _unfold_rule(
    x: TensorType, kernel_size: Spread, dilation: Spread, pads: Spread, stride: Spread
) -> TensorType:
    block = _block(kernel_size, dilation, pads, stride)
    _check_block(block)
    if x.ndim < 3:
        raise IndexError(
            f"Dimension out of range (expected to be in range of [{-x.ndim}, {x.ndim - 1}], but got 2)"
        )
    if x.ndim > 4 or 0 in x.shape[x.ndim - 3 :]:
        raise RuntimeError(
            "Expected 3D or 4D (batch mode) tensor with possibly 0 batch size and other non-zero dimensions "
            "for input, but got: "
            f"{list(x.shape)}"
        )
    counts = _counts(x.shape[-2:], block)
    if min(counts) < 1:
        kernel, gaps, low, _ = block
        raise RuntimeError(
            f"Given input with spatial size {tuple(x.shape[-2:])}, kernel_size={kernel}, dilation={gaps}, "
            f"padding={low}, "
            f"calculated shape of the array of sliding blocks as {counts}, but its components must be at "
            "least one."
        )
    if not x.dtype.is_floating_point and x.dtype is not bool_ and not x.dtype.is_complex:
        raise unsupported("im2col_out_cpu", x.dtype)
    channels = x.shape[-3] * math.prod(block[0])
    return TensorType((*x.shape[: x.ndim - 3], channels, math.prod(counts)), x.dtype, x.device)


def _unfold_kernel(x: Array, kernel_size: Spread, dilation: Spread, pads: Spread, stride: Spread) -> Array:
    out = folding.unfold(x if x.ndim == 4 else x[None], *_block(kernel_size, dilation, pads, stride))
    return out if x.ndim == 4 else out[0]


def _fold_rule(
    x: TensorType, output_size: Spread, kernel_size: Spread, dilation: Spread, pads: Spread, stride: Spread
) -> TensorType:
    size = _pair(output_size, "output_size")
    block = _block(kernel_size, dilation, pads, stride)
    _check_block(block)
    if x.ndim not in (2, 3) or 0 in x.shape[x.ndim - 2 :]:
        raise RuntimeError(
            "Expected 2D or 3D (batch mode) tensor for input with possibly 0 batch size and non-zero "
            "dimensions for input, but "
            f"got: {list(x.shape)}"
        )
    taps = math.prod(block[0])
    if x.shape[-2] % taps:
        raise RuntimeError(
            "Expected size of input's dimension 1 to be divisible by the product of kernel_size, but got "
            f"input.size(1)={x.shape[-2]} and kernel_size={block[0]}."
        )
    height, width = _counts(size, block)
    if x.shape[-1] != height * width:
        kernel, gaps, low, steps = block
        raise RuntimeError(
            f"Given output_size={size}, kernel_size={kernel}, dilation={gaps}, padding={low}, "
            f"stride={steps}, expected size of "
            f"input's dimension 2 to match the calculated number of sliding blocks {height} * {width} = "
            f"{height * width}, but "
            f"got input.size(2)={x.shape[-1]}."
        )
    if height < 1 or width < 1:
        raise RuntimeError(f"calculated number of sliding blocks {height} * {width} must be positive")
    if not x.dtype.is_floating_point and x.dtype is not bool_ and not x.dtype.is_complex:
        raise unsupported("col2im_out_cpu", x.dtype)
    return TensorType((*x.shape[: x.ndim - 2], x.shape[-2] // taps, *size), x.dtype, x.device)


def _fold_kernel(
    x: Array, output_size: Spread, kernel_size: Spread, dilation: Spread, pads: Spread, stride: Spread
) -> Array:
    block = _block(kernel_size, dilation, pads, stride)
    out = folding.fold(x if x.ndim == 3 else x[None], _pair(output_size, "output_size"), *block)
    return out if x.ndim == 3 else out[0]


def _unfold_samples(make: Maker) -> Iterator[Sample]:
    yield Sample(make(2, 2, 4, 5), 2)
    yield Sample(make(2, 4, 5), (3, 2), 1, 1, (2, 1))
    yield Sample(make(1, 2, 5, 5), 2, dilation=2, padding=(1, 0))


def _fold_samples(make: Maker) -> Iterator[Sample]:
    yield Sample(make(2, 8, 12), (4, 5), 2)
    yield Sample(make(12, 12), (4, 5), 2)
    yield Sample(make(1, 12, 6), (4, 4), (3, 2), 1, (1, 0), (2, 1))


BLOCK = "kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1"
unfold: Op = index(
    "unfold", _unfold_kernel, _unfold_rule, f"input: Tensor, {BLOCK}", namespace="nn.functional",
    vjp=lambda g, _out, _x, kernel, gaps, pads, steps: fold(g, tuple(_x.shape[-2:]), kernel, gaps, pads,
    steps),
    batch=lead_batch(2), samples=_unfold_samples, node="Im2ColBackward0",
    refuses="nothing", lowering="indexing",
)  # fmt: skip
fold: Op = index(
    "fold", _fold_kernel, _fold_rule, f"input: Tensor, output_size: Any, {BLOCK}", namespace="nn.functional",
    vjp=lambda g, _out, _x, _size, kernel, gaps, pads, steps: unfold(g, kernel, gaps, pads, steps),
    batch=lead_batch(1), samples=_fold_samples, node="Col2ImBackward0",
    refuses="nothing",
)  # fmt: skip


# -- rearranging channels ------------------------------------------------------------------------------------
def _rearrange(x: Array, split: tuple[int, ...], order: tuple[int, ...], shape: tuple[int, ...]) -> Array:
    lead = x.ndim - 3
    moved = x.reshape(*x.shape[:lead], *split).transpose(*range(lead), *(lead + place for place in order))
    return moved.copy().reshape(*x.shape[:lead], *shape)


def _shuffle_kernel(x: Array, factor: int) -> Array:
    channels, height, width = x.shape[-3:]
    inner = channels // factor**2
    return _rearrange(
        x, (inner, factor, factor, height, width), (0, 3, 1, 4, 2), (inner, height * factor, width * factor)
    )


def _unshuffle_kernel(x: Array, factor: int) -> Array:
    channels, height, width = x.shape[-3:]
    split = (channels, height // factor, factor, width // factor, factor)
    return _rearrange(x, split, (0, 2, 4, 1, 3), (channels * factor**2, height // factor, width // factor))


def _check_shuffle(name: str, word: str, x: TensorType, factor: int) -> None:
    if x.ndim < 3:
        raise RuntimeError(
            f"{name} expects input to have at least 3 dimensions, but got input with {x.ndim} dimension(s)"
        )
    if factor <= 0:
        raise RuntimeError(f"{name} expects a positive {word}, but got {factor}")


def _shuffle_rule(x: TensorType, factor: int) -> TensorType:
    _check_shuffle("pixel_shuffle", "upscale_factor", x, factor)
    channels, height, width = x.shape[-3:]
    if channels % factor**2:
        raise RuntimeError(
            "pixel_shuffle expects its input's 'channel' dimension to be divisible by the square of "
            "upscale_factor, but "
            f"input.size(-3)={channels} is not divisible by {factor**2}"
        )
    shape = (*x.shape[: x.ndim - 3], channels // factor**2, height * factor, width * factor)
    return TensorType(shape, x.dtype, x.device)


def _unshuffle_rule(x: TensorType, factor: int) -> TensorType:
    _check_shuffle("pixel_unshuffle", "downscale_factor", x, factor)
    channels, height, width = x.shape[-3:]
    for word, place, size in (("height", -2, height), ("width", -1, width)):
        if size % factor:
            raise RuntimeError(
                f"pixel_unshuffle expects {word} to be divisible by downscale_factor, but "
                f"input.size({place})={size} is not "
                f"divisible by {factor}"
            )
    shape = (*x.shape[: x.ndim - 3], channels * factor**2, height // factor, width // factor)
    return TensorType(shape, x.dtype, x.device)


def _channel_rule(x: TensorType, groups: int) -> TensorType:
    if x.ndim <= 2:
        raise RuntimeError(
            f"channel_shuffle expects input with > 2 dims, but got input with sizes {list(x.shape)}"
        )
    if groups <= 0:
        raise RuntimeError(
            f"Number of groups to divide channels in must be positive. Value of groups:{groups}"
        )
    if x.shape[1] % groups:
        raise RuntimeError(
            f"Number of channels must be divisible by groups. Got {x.shape[1]} channels and {groups} groups."
        )
    return x


pixel_shuffle: Op = index(
    "pixel_shuffle", _shuffle_kernel, _shuffle_rule, "input: Tensor, upscale_factor: int",
    vjp=lambda g, _out, _x, factor: pixel_unshuffle(g, factor), batch=leading,
    samples=lambda make: [Sample(make(8, 2, 3), 2), Sample(make(2, 1, 9, 1, 2), 3), Sample(make(2, 2, 2), 1)],
    aliases=("nn.functional.pixel_shuffle",), method=False,
    refuses="nothing", lowering="indexing",
)  # fmt: skip
pixel_unshuffle: Op = index(
    "pixel_unshuffle", _unshuffle_kernel, _unshuffle_rule, "input: Tensor, downscale_factor: int",
    vjp=lambda g, _out, _x, factor: pixel_shuffle(g, factor), batch=leading,
    samples=lambda make: [Sample(make(2, 4, 6), 2), Sample(make(2, 1, 1, 3, 6), 3)],
    aliases=("nn.functional.pixel_unshuffle",), method=False,
    refuses="nothing", lowering="indexing",
)  # fmt: skip
channel_shuffle: Op = index(
    "channel_shuffle",
    lambda x, groups: x.reshape(x.shape[0], groups, -1, *x.shape[2:]).swapaxes(1, 2).copy().reshape(x.shape),
    _channel_rule, "input: Tensor, groups: int",
    vjp=lambda g, _out, _x, groups: channel_shuffle(g, _x.shape[1] // groups), batch=fold_lead,
    samples=lambda make: [Sample(make(2, 6, 2), 2), Sample(make(1, 4, 2, 3), 4)],
    aliases=(
        "nn.functional.channel_shuffle", "native_channel_shuffle", "nn.functional.native_channel_shuffle",
    ), method=False,
    refuses="nothing", lowering="indexing",
)  # fmt: skip
