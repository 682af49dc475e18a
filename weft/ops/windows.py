"""Pools that are undone, pools of random windows, and normalisation over neighbouring channels.

Takes tensors `(N, C, *spatial)` (or one example without N). The one idea: unpooling scatters to the places a
maximum came from and its gradient gathers from them; a fractional pool is a maximum whose windows start where
random numbers say.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from weft.core.arrays import Array, ArrayModule, namespace
from weft.core.dtypes import int64
from weft.core.types import TensorType
from weft.ops.batching import spread_to
from weft.ops.families import HIDDEN, composite, index
from weft.ops.kernels import pooling as kernels
from weft.ops.pooling import pool_gather, pool_scatter
from weft.ops.record import Op, ops, type_of, unsupported
from weft.ops.samples import Maker, Sample
from weft.ops.softmax import no_grad
from weft.ops.values import MaybeTensor, Sizes, Spread, TensorLike


def each(value: Any, axes: int) -> tuple[int, ...]:
    """One int per axis."""
    return tuple(value) if isinstance(value, (tuple, list)) else (value,) * axes


# -- unpooling -----------------------------------------------------------------------------------------------
def _unpool_kernel(x: Array, indices: Array, size: Sizes, axes: int) -> Array:
    spatial = tuple(size)
    volume = 1
    for length in spatial:
        volume *= length
    if indices.size and (int(indices.min()) < 0 or int(indices.max()) >= volume):
        wrong = indices[(indices < 0) | (indices >= volume)].reshape(-1)[0]
        shown = "x".join(map(str, spatial if axes > 1 else (*spatial, 1)))
        raise RuntimeError(f"Found an invalid max index: {int(wrong)} (output volumes are of size {shown})")
    return kernels.scatter(x, indices, spatial, True)


def _unpool_rule(x: TensorType, indices: TensorType, size: Sizes, axes: int) -> TensorType:
    if indices.dtype is not int64:
        raise RuntimeError(f"elements in indices should be type int64 but got: {indices.dtype.scalar_name}")
    if x.ndim < axes:
        raise IndexError("tuple index out of range")
    if axes < 3 and x.ndim not in (axes + 1, axes + 2):
        raise RuntimeError(
            "Input to max_unpooling2d should be a 3d or 4d Tensor, but got a tensor with "
            f"{x.ndim + 2 - axes} dimensions."
        )
    if axes == 3 and x.ndim not in (4, 5):
        raise RuntimeError(
            "Input to max_unpooling3d should be a 4d or 5d Tensor, but got a tensor with "
            f"{x.ndim} dimensions."
        )
    if x.shape != indices.shape:
        raise RuntimeError(
            f"Expected shape of indices to be same as that of the input tensor ({list(x.shape)}) but got "
            f"indices tensor with shape: {list(indices.shape)}"
        )
    for place in range(1, x.ndim):
        if x.shape[place] == 0:
            raise RuntimeError(
                f"max_unpooling{max(axes, 2)}d_forward_out_cpu(): Expected input to have non-zero size for "
                f"non-batch dimensions, but got {list(x.shape)} with dimension {place} being empty."
            )
    if not x.dtype.is_floating_point:
        raise unsupported(f"max_unpool{max(axes, 2)}d", x.dtype)
    return TensorType((*x.shape[: x.ndim - axes], *size), x.dtype, x.device)


def _unpool_batch(op: Op, size: int, args: tuple[Any, ...], dims: tuple[Any, ...]) -> tuple[Any, Any]:
    """The batch joins N."""
    x, indices = spread_to(args[0], dims[0], size), spread_to(args[1], dims[1], size)
    if len(x.shape) == args[3] + 2:
        return op(x, indices, *args[2:]), 0
    flat = (size * x.shape[1], *x.shape[2:])
    out = op(ops.reshape(x, flat), ops.reshape(indices, flat), *args[2:])
    return ops.reshape(out, (size, x.shape[1], *out.shape[1:])), 0


def _places(make: Maker, lead: tuple[int, ...], count: int, volume: int) -> Any:
    """Different places in each plane."""
    planes = [make.random.permutation(volume)[:count] for _ in range(int(np.prod(lead)))]
    return np.asarray(planes, dtype=np.int64)


def _unpool_samples(make: Maker) -> Iterator[Sample]:
    yield Sample(make(2, 3, 2), _places(make, (2, 3), 2, 5).reshape(2, 3, 2), (5,), 1)
    yield Sample(make(3, 2, 2), _places(make, (3,), 4, 12).reshape(3, 2, 2), (3, 4), 2)


max_unpool: Op = index(
    "max_unpool", _unpool_kernel, _unpool_rule,
    "input: Tensor, indices: Tensor, output_size: Any, axes: int",
    vjp=(lambda g, _out, _x, indices, _size, axes: pool_gather(g, indices, axes), None),
    batch=_unpool_batch, samples=_unpool_samples, node="MaxUnpool2DBackward0", **HIDDEN,
    refuses="integers",
)  # fmt: skip


def _output_size(
    shape: tuple[int, ...],
    taps: tuple[int, ...],
    steps: tuple[int, ...],
    pads: tuple[int, ...],
    size: Sizes | None,
) -> tuple[int, ...]:
    """The size asked for, if a pool could have come from it; else the smallest such size."""
    axes = len(taps)
    spatial = shape[len(shape) - axes :]
    usual = tuple((n - 1) * s + k - 2 * p for n, k, s, p in zip(spatial, taps, steps, pads, strict=True))
    if size is None:
        return usual
    given = tuple(size)
    if len(given) == axes + 2:
        given = given[2:]
    if len(given) != axes:
        raise ValueError(
            f"output_size should be a sequence containing {axes} or {axes + 2} elements, but it has a length "
            f"of '{len(given)}'"
        )
    for dim, (have, default, step) in enumerate(zip(given, usual, steps, strict=True)):
        if not default - step < have < default + step:
            raise ValueError(
                f'invalid output_size "{size if len(size) == axes else size[2:]}" (dim {dim} must be between '
                f"{default - step} and {default + step})"
            )
    return given


def _unpool(axes: int) -> None:
    """Defines `max_unpool1d`, `2d` or `3d`."""

    def body(
        x: TensorLike,
        indices: TensorLike,
        kernel_size: Spread,
        stride: Spread | None,
        padding: Spread,
        output_size: Sizes | None,
    ) -> Any:
        taps, pads = each(kernel_size, axes), each(padding, axes)
        steps = taps if stride is None else each(stride, axes)
        shape = type_of(x).shape
        if len(shape) < axes:
            raise IndexError("tuple index out of range")
        size = _output_size(shape, taps, steps, pads, output_size)
        if axes == 3 and min(steps) <= 0:
            raise RuntimeError(f"strides should be greater than zero, but got stride: {list(steps)}")
        return max_unpool(x, indices, size, axes)

    def samples(make: Maker) -> Iterator[Sample]:
        space = (2, 3, 2)[:axes]
        count = (2, 6, 12)[axes - 1]
        volume = (4, 24, 96)[axes - 1]
        yield Sample(make(2, 1, *space), _places(make, (2, 1), count, volume).reshape(2, 1, *space), 2)
        wide = tuple(2 * n + 1 for n in space)
        places = _places(make, (1,), count, volume).reshape(1, *space)
        yield Sample(make(1, *space), places, 2, 2, 0, wide)

    composite(
        "input: Tensor, indices: Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0, "
        "output_size: Any = None",
        name=f"max_unpool{axes}d", namespace="nn.functional", samples=samples,
    )(body)  # fmt: skip


# -- fractional pools ----------------------------------------------------------------------------------------
FRACTIONAL: dict[int, Op] = {}


def _starts(xp: ArrayModule, draws: Array, length: int, count: int, taps: int) -> Array:
    """Where the windows of one axis start, `(N, C, count)`, from one draw for each plane."""
    work = xp.float64 if draws.dtype == xp.float64 else xp.float32
    draws = draws.astype(work)[..., None]
    if count == 1:
        return xp.full((*draws.shape[:-1], 1), length - taps, xp.int64)
    step = work(length - taps) / work(count - 1)
    numbers = xp.arange(count, dtype=work)
    found: Array = ((numbers + draws) * step).astype(xp.int64) - (draws * step).astype(xp.int64)
    found[..., -1] = length - taps
    return found


def _fractional_kernel(
    x: Array, kernel_size: Spread, output_size: Spread, draws: Array, axes: int
) -> tuple[Array, Array]:
    xp = namespace(x)
    taps, counts = each(kernel_size, axes), each(output_size, axes)
    single = x.ndim == axes + 1
    whole = x[None] if single else x
    draws = draws[: whole.shape[0]]  # there may be more of them than of images
    spatial = whole.shape[2:]
    flat: Any = xp.zeros((1,) * (2 + 2 * axes), xp.int64)
    for axis in range(axes):
        column = axis if axes == 3 else 1 - axis  # planes have the draw of their last axis first
        starts = _starts(xp, draws[..., column], spatial[axis], counts[axis], taps[axis])
        places = starts[..., None] + xp.arange(taps[axis])
        shape = [*whole.shape[:2], *(1,) * (2 * axes)]
        shape[2 + axis], shape[2 + axes + axis] = counts[axis], taps[axis]
        flat = flat * spatial[axis] + places.reshape(shape)
    flat = xp.broadcast_to(flat, (*whole.shape[:2], *counts, *taps)).reshape(*whole.shape[:2], *counts, -1)
    numbers = xp.arange(whole.shape[0])[:, None], xp.arange(whole.shape[1])[None, :]
    lead = tuple(part.reshape(*part.shape, *(1,) * (axes + 1)) for part in numbers)
    values = whole.reshape(*whole.shape[:2], -1)[(*lead, flat)]
    best = xp.argmax(values, -1)[..., None]
    out = xp.take_along_axis(values, best, -1)[..., 0], xp.take_along_axis(flat, best, -1)[..., 0]
    return (out[0][0], out[1][0]) if single else out


def _fractional_rule(
    x: TensorType, kernel_size: Spread, output_size: Spread, draws: TensorType, axes: int
) -> tuple[TensorType, TensorType]:
    name = f"fractional_max_pool{axes}d" + ("_out" if axes == 3 else "")
    if x.ndim not in (axes + 1, axes + 2):
        raise RuntimeError(f"{name}(): Expected {axes + 1}D or {axes + 2}D tensor, but got: {list(x.shape)}")
    taps, counts = each(kernel_size, axes), each(output_size, axes)
    words = ("time", "height", "width")[3 - axes :]
    for word, length, tap, count in zip(words, x.shape[x.ndim - axes :], taps, counts, strict=True):
        if count + tap - 1 > length:
            raise RuntimeError(f"{name}(): pool {word} {tap} too large relative to input {word} {length}")
    if not x.dtype.is_floating_point:
        kernel = f"fractional_max_pool{axes}d_out_frame"
        raise unsupported(kernel, x.dtype)
    shape = (*x.shape[: x.ndim - axes], *counts)
    return TensorType(shape, x.dtype, x.device), TensorType(shape, int64, x.device)


def _fractional_batch(op: Op, size: int, args: tuple[Any, ...], dims: tuple[Any, ...]) -> tuple[Any, Any]:
    x, draws = spread_to(args[0], dims[0], size), spread_to(args[3], dims[3], size)
    flat = ops.reshape(draws, (-1, *draws.shape[2:]))
    if len(x.shape) == args[4] + 2:
        return op(x, args[1], args[2], flat, args[4]), (0, 0)
    wide = ops.reshape(x, (size * x.shape[1], *x.shape[2:]))
    out = op(wide, args[1], args[2], flat, args[4])
    return tuple(ops.reshape(o, (size, x.shape[1], *o.shape[1:])) for o in out), (0, 0)


def _fractional_vjp(axes: int) -> Any:
    def rule(g: Sequence[MaybeTensor], out: Sequence[TensorLike], _x: TensorType) -> Any:
        return pool_scatter(g[0], out[1], tuple(_x.shape[len(_x.shape) - axes :]), False)

    return rule


def _fractional_size(name: str, axes: int, shape: tuple[int, ...], size: Spread | None, ratio: Any) -> Any:
    if size is None and ratio is None:
        raise ValueError(f"{name} requires specifying either an output_size or an output_ratio")
    if size is not None:
        return size
    if axes == 2 and len(ratio) > 2:
        raise ValueError(f"{name} requires output_ratio to either be a single Int or tuple of Ints.")
    lengths = shape[len(shape) - axes :]
    return tuple(int(n * r) for n, r in zip(lengths, each(ratio, axes), strict=True))


def _fractional(axes: int) -> None:
    """Defines `fractional_max_pool2d` or `3d`."""
    name = f"fractional_max_pool{axes}d"
    space = (4, 5, 3)[:axes]

    def inner_samples(make: Maker) -> Iterator[Sample]:
        yield Sample(make.distinct(2, 1, *space), 2, (3, 4, 2)[:axes], make(2, 1, axes, low=0, high=1), axes)
        yield Sample(make.distinct(1, *space), 2, 2, make(1, 1, axes, low=0, high=1), axes)
        yield Sample(make.distinct(1, *space), 2, 1, make(1, 1, axes, low=0, high=1), axes)

    FRACTIONAL[axes] = index(
        f"{name}_with_indices", _fractional_kernel, _fractional_rule,
        "input: Tensor, kernel_size: Any, output_size: Any, random_samples: Tensor, axes: int",
        vjp=(
            _fractional_vjp(axes),
            lambda g, _out, _x, _kernel, _size, _draws: ops.new_zeros(g[0], _draws.shape),
        ),
        batch=_fractional_batch, samples=inner_samples, outputs_read=(1,),
        node=f"FractionalMaxPool{axes}DBackward0", **HIDDEN,
    )  # fmt: skip

    def body(
        x: TensorLike,
        kernel_size: Spread,
        size: Spread | None,
        ratio: Any,
        return_indices: bool,
        draws: MaybeTensor,
    ) -> Any:
        kind = type_of(x)
        size = _fractional_size(name, axes, kind.shape, size, ratio)
        if draws is None:
            if kind.ndim <= axes:
                raise IndexError(
                    f"Dimension out of range (expected to be in range of [{-kind.ndim}, {kind.ndim - 1}], "
                    f"but got {-axes - 1})"
                )
            count = 1 if kind.ndim == axes + 1 else kind.shape[0]
            shape = (count, kind.shape[kind.ndim - axes - 1], axes)
            draws = no_grad(lambda: ops.uniform(ops.new_empty(x, shape), 0.0, 1.0))
        values, places = FRACTIONAL[axes](x, kernel_size, size, draws, axes)
        return (values, places) if return_indices else values

    def samples(make: Maker) -> Iterator[Sample]:
        draws = make(2, 1, axes, low=0, high=1)
        yield Sample(make.distinct(2, 1, *space), 2, 2, _random_samples=draws)
        yield Sample(
            make.distinct(2, 1, *space), 2, output_ratio=(0.6,) * axes, return_indices=True,
            _random_samples=draws,
        )  # fmt: skip

    composite(
        "input: Tensor, kernel_size: Any, output_size: Any = None, output_ratio: Any = None, "
        "return_indices: bool = False, _random_samples: MaybeTensor = None",
        name=name, namespace="nn.functional", samples=samples,
    )(body)  # fmt: skip


for _axes in (1, 2, 3):
    _unpool(_axes)
    if _axes > 1:
        _fractional(_axes)


# -- neighbouring channels -----------------------------------------------------------------------------------
def _response_samples(make: Maker) -> Iterator[Sample]:
    yield Sample(make(2, 4, 3), 2)
    yield Sample(make(2, 4, 3, 2), 3, 0.1, 0.5, 2.0)
    yield Sample(make(0, 4, 3), 2)


@composite(
    "input: Tensor, size: int, alpha: float = 0.0001, beta: float = 0.75, k: float = 1.0",
    namespace="nn.functional",
    samples=_response_samples,
)
def local_response_norm(x: TensorLike, size: int, alpha: float, beta: float, k: float) -> Any:
    """Divides by a power of the mean square over neighbouring channels."""
    kind = type_of(x)
    shape = tuple(kind.shape)
    if kind.ndim < 3:
        raise ValueError(f"Expected 3D or higher dimensionality {' ' * 25}input (got {kind.ndim} dimensions)")
    if kind.numel() == 0:
        return x
    squares = ops.reshape(ops.mul(x, x), (shape[0], 1, shape[1], -1))
    squares = ops.constant_pad_nd(squares, (0, 0, size // 2, (size - 1) // 2), 0)
    mean = ops.reshape(ops.nn_functional_avg_pool2d(squares, (size, 1), 1), shape)
    return ops.div(x, ops.pow(ops.add(ops.mul(mean, alpha), k), beta))
