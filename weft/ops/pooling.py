"""Pooling: averages, maxima with their places, adaptive and power-mean forms, over one to three axes.

Takes tensors `(N, C, *spatial)` (or one example without N); gives one value per window. The one idea:
averages are linear and so are their gradients (each is the other's transpose); a maximum is a gather at
places found once, whose gradient scatters to the same places.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from weft.core.arrays import Array, namespace
from weft.core.dtypes import bool_, int64
from weft.core.types import TensorType
from weft.ops.batching import leading, to_front
from weft.ops.families import composite, index, reduce
from weft.ops.kernels import pooling as kernels
from weft.ops.kernels.folding import disjoint
from weft.ops.record import Op, ops, type_of, unsupported
from weft.ops.samples import Maker, Sample
from weft.ops.softmax import floats_only
from weft.ops.values import MaybeTensor, Spread, TensorLike

COUNT_WORDS = {2: "two", 3: "three"}


# -- arguments -----------------------------------------------------------------------------------------------
def sizes(value: Any, name: str, word: str, axes: int) -> tuple[int, ...]:
    """One int per axis, or PyTorch's complaint about this parameter."""
    values = (value,) if isinstance(value, int) or not hasattr(value, "__len__") else tuple(value)
    if not all(isinstance(item, int) or hasattr(item, "__index__") for item in values):
        position = {"kernel_size": " (position 2)", "output_size": " (position 2)"}.get(word, "")
        raise TypeError(
            f"{name}(): argument '{word}'{position} must be tuple of ints, not {type(value).__name__}"
        )
    if len(values) == 1:
        return values * axes
    if len(values) == axes:
        return values
    if axes == 1:
        raise RuntimeError(f"{name}() argument '{word}' should contain one int (got {len(values)})")
    count = COUNT_WORDS[axes]
    either = {"stride": "must either be omitted, a", "dilation": "must be either a"}.get(
        word, "must either be a"
    )
    raise RuntimeError(f"{name}: {word} {either} single int, or a tuple of {count} ints")


def strides(value: Spread | None, kernel: tuple[int, ...], name: str) -> tuple[int, ...]:
    """The stride, which is the kernel's size where it is left out."""
    omitted = value is None or (isinstance(value, (tuple, list)) and not value)
    return kernel if omitted else sizes(value, name, "stride", len(kernel))


Window = tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...], tuple[int, ...]]


def window(
    name: str, axes: int, kernel: Spread, stride: Spread | None, padding: Spread, dilation: Spread = 1
) -> Window:
    """Kernel, stride, padding and dilation per axis."""
    taps = sizes(kernel, name, "kernel_size", axes)
    steps = strides(stride, taps, name)
    return taps, steps, sizes(padding, name, "padding", axes), sizes(dilation, name, "dilation", axes)


def _check_window(shape: tuple[int, ...], geometry: Window, ceil_mode: bool) -> tuple[int, ...]:
    """The counts of windows; refuses strides and paddings that make no sense."""
    counts = []
    for size, taps, step, low, gap in zip(shape, *geometry, strict=True):
        if step == 0:
            raise RuntimeError("stride should not be zero")
        if low < 0:
            raise RuntimeError(f"pad must be non-negative, but got pad: {low}")
        if low > ((taps - 1) * gap + 1) // 2:
            raise RuntimeError(
                f"pad should be at most half of effective kernel size, but got pad={low}, "
                f"kernel_size={taps} and "
                f"dilation={gap}"
            )
        counts.append(kernels.output_size(size, taps, step, low, gap, ceil_mode))
    return tuple(counts)


def _positive(word: str, letter: str, values: tuple[int, ...]) -> None:
    if min(values) <= 0:
        names = ("T", "H", "W")[3 - len(values) :]
        parts = " ".join(f"{letter}{axis}: {value}" for axis, value in zip(names, values, strict=True))
        raise RuntimeError(f"{word} should be greater than zero, but got {parts}")


def pooled_shape(name: str, axes: int, x: TensorType, geometry: Window, ceil_mode: bool) -> tuple[int, ...]:
    """The shape of the result, after PyTorch's checks in its order."""
    shape, rank = x.shape, x.ndim
    if axes == 1 and rank not in (2, 3):
        raise RuntimeError(
            f"Expected 2 to 3 dimensions, but got {rank}-dimensional tensor for argument #1 'self' (while "
            "checking arguments "
            f"for {name.removesuffix('_with_indices')})"
        )
    if axes == 3 and rank not in (4, 5):
        raise RuntimeError("non-empty 4D or 5D (batch mode) tensor expected for input")
    if axes == 2 and rank not in (3, 4):
        if name.startswith("avg") and rank < 3:
            raise IndexError(
                f"Dimension out of range (expected to be in range of [{-rank}, {rank - 1}], but got -3)"
            )
        raise RuntimeError("non-empty 3D or 4D (batch mode) tensor expected for input")
    spatial = shape[rank - axes :]
    taps, steps, padding, gaps = geometry
    counts = _check_window(spatial, geometry, ceil_mode)
    padded = (1,) * (2 - axes)
    _positive("kernel size", "k", padded + taps)
    _positive("stride", "d", padded + steps)
    _positive("dilation", "dilation", padded + gaps)
    if math.prod(shape[rank - axes - 1 :]) == 0:
        if axes == 3:
            full = f"{name}_out_cpu_template" if "indices" in name else f"{name}"
            zero = shape[rank - axes - 1 :].index(0)
            raise RuntimeError(
                f"{full}(): Expected input's non-batch dimensions to have positive length, but input has a "
                "shape of "
                f"{list(shape)} and non-batch dimension {max(zero - 1, 0)} has length zero!"
            )
        raise RuntimeError(
            f"Expected {axes + 1}D or {axes + 2}D (batch mode) tensor with optional 0 dim batch size for "
            "input, but "
            f"got:{list(shape)}"
        )
    if any(count < 1 for count in counts):
        if axes == 3 and name == "avg_pool3d":
            have = " ".join(f"{a}: {n}" for a, n in zip("THW", spatial, strict=True))
            want = " ".join(f"k{a}: {n}" for a, n in zip("THW", taps, strict=True))
            raise RuntimeError(f"input image ({have}) smaller than kernel size ({want})")
        channels = shape[rank - axes - 1]
        have = "x".join(map(str, (channels, *padded, *spatial)))
        want = "x".join(map(str, (channels, *padded, *counts)))
        raise RuntimeError(
            f"Given input size: ({have}). Calculated output size: ({want}). Output size is too small"
        )
    return (*shape[: rank - axes], *counts)


def lead_batch(axes: int) -> Callable[..., tuple[Any, Any]]:
    """The batch rule of an op on `(N, C, *spatial)` or `(C, *spatial)` whose first tensor alone carries the
    batch."""

    def rule(op: Op, size: int, args: tuple[Any, ...], dims: tuple[Any, ...]) -> tuple[Any, Any]:
        x = to_front(args[0], dims[0])
        if len(x.shape) == axes + 2:
            out = op(x, *args[1:])
            return out, (0,) * len(out) if isinstance(out, tuple) else 0
        out = op(ops.reshape(x, (size * x.shape[1], *x.shape[2:])), *args[1:])
        if isinstance(out, tuple):
            return tuple(ops.reshape(o, (size, x.shape[1], *o.shape[1:])) for o in out), (0,) * len(out)
        return ops.reshape(out, (size, x.shape[1], *out.shape[1:])), 0

    return rule


def fold_lead(op: Op, size: int, args: tuple[Any, ...], dims: tuple[Any, ...]) -> tuple[Any, Any]:
    """The batch rule of an op on `(N, …)` whose first tensor alone carries the batch: it joins N."""
    g = to_front(args[0], dims[0])
    out = op(ops.reshape(g, (size * g.shape[1], *g.shape[2:])), *args[1:])
    return ops.reshape(out, (size, g.shape[1], *out.shape[1:])), 0


# -- averages ------------------------------------------------------------------------------------------------
AVERAGE: dict[int, Op] = {}
ADAPTIVE: dict[int, Op] = {}
GEOMETRY = (
    "kernel_size: Any, stride: Any = None, padding: Any = 0, ceil_mode: bool = False, "
    "count_include_pad: bool = True"
)


def _backward_samples(make: Maker) -> Iterator[Sample]:
    yield Sample(make(2, 3, 2), (2, 3, 5), (2,), (2,), (0,), False, True, None)
    yield Sample(make(2, 3, 3, 2), (2, 3, 5, 4), (3, 2), (2, 2), (1, 0), True, False, None)


def _batch_backward(op: Op, size: int, args: tuple[Any, ...], dims: tuple[Any, ...], axes: int) -> Any:
    """A batch of examples that have a batch themselves becomes one batch: pools know no more dimensions."""
    g, shape = to_front(args[0], dims[0]), tuple(args[1])
    if len(shape) == axes + 1:
        return op(g, (size, *shape), *args[2:]), 0
    folded = ops.reshape(g, (size * shape[0], *g.shape[2:]))
    return ops.reshape(op(folded, (size * shape[0], *shape[1:]), *args[2:]), (size, *shape)), 0


def _average_backward_rule(g: TensorType, shape: tuple[int, ...], *rest: object) -> TensorType:
    floats_only("avg_pool_backward", g.dtype)
    return TensorType(shape, g.dtype, g.device)


avg_pool_backward = reduce(
    "avg_pool_backward", kernels.avg_pool_backward, _average_backward_rule,
    "grad: Tensor, input_shape: Any, kernel_size: Any, stride: Any, padding: Any, ceil_mode: bool, "
    "count_include_pad: bool, divisor_override: Any",
    vjp=lambda g, _out, _g, _shape, kernel, *rest: AVERAGE[len(kernel)](g, kernel,
    *rest[: 4 + (len(kernel) > 1)]),
    batch=lambda op, size, args, dims: _batch_backward(op, size, args, dims, len(args[2])),
    samples=_backward_samples, method=False, function=False, out=False,
    refuses="nothing", lowering="pools",
)  # fmt: skip


def _average(axes: int) -> None:
    """Defines `avg_pool1d`, `2d` or `3d`."""
    name = f"avg_pool{axes}d"

    def read(kernel_size: Spread, stride: Spread | None, padding: Spread, *rest: Any) -> tuple[Any, ...]:
        """The arguments as kernels take them: a size for each axis, and the divisor that lines lack."""
        taps, steps, pads, _ = window(name, axes, kernel_size, stride, padding)
        ceil, count, divisor = rest if axes > 1 else (*rest, None)
        return taps, steps, pads, ceil, count, divisor

    def kernel(x: Array, *given: Any) -> Array:
        taps, steps, pads, ceil, count, divisor = read(*given)
        if divisor is not None and divisor < 0:  # so that integers round towards zero
            return -kernels.avg_pool(x, taps, steps, pads, ceil, count, -divisor)
        return kernels.avg_pool(x, taps, steps, pads, ceil, count, divisor)

    def rule(x: TensorType, *given: Any) -> TensorType:
        *geometry, ceil, _count, divisor = read(*given)
        if divisor == 0:
            raise RuntimeError("divisor must be not zero")
        shape = pooled_shape(name, axes, x, (*geometry, (1,) * axes), ceil)
        floats_only("avg_pool2d" if axes == 1 else name, x.dtype, int64)
        return TensorType(shape, x.dtype, x.device)

    def vjp(g: TensorLike, _out: object, _x: TensorType, *given: Any) -> Any:
        return avg_pool_backward(g, _x.shape, *read(*given))

    def samples(make: Maker) -> Iterator[Sample]:
        space = (5, 6, 4)[:axes]
        yield Sample(make(2, 3, *space), 2)
        yield Sample(make(3, *space), (3, 2, 2)[:axes], stride=1, padding=1, ceil_mode=True)
        yield Sample(make(1, 2, *space), 3, 2, 1, True, False)
        if axes > 1:
            yield Sample(make(1, 2, *space), 2, divisor_override=3)

    place: dict[str, Any] = {"namespace": "nn.functional", "out": "exact"}
    if axes == 1:
        place = {"aliases": ("nn.functional.avg_pool1d",), "method": False, "out": False}
    AVERAGE[axes] = reduce(
        name, kernel, rule,
        f"input: Tensor, {GEOMETRY}" + (", divisor_override: Any = None" if axes > 1 else ""),
        vjp=vjp, batch=lead_batch(axes), samples=samples,
        node=f"AvgPool{axes}DBackward0", amp="float32" if axes == 3 else None, **place,
        refuses="nothing", lowering="pools",
    )  # fmt: skip


def _adaptive_backward(g: Array, shape: tuple[int, ...], axes: int) -> Array:
    if g.size == 0:
        return namespace(g).zeros(shape, g.dtype)
    return kernels.adaptive_avg_pool_backward(g, shape)


def _adaptive_backward_samples(make: Maker) -> Iterator[Sample]:
    yield Sample(make(2, 3, 2), (2, 3, 5), 1)
    yield Sample(make(2, 3, 3, 2), (2, 3, 5, 4), 2)


adaptive_avg_pool_backward = reduce(
    "adaptive_avg_pool_backward", _adaptive_backward,
    lambda g, shape, axes: TensorType(shape, g.dtype, g.device), "grad: Tensor, input_shape: Any, axes: int",
    vjp=lambda g, _out, _g, _shape, axes: ADAPTIVE[axes](g, tuple(_g.shape[len(_g.shape) - axes :])),
    batch=lambda op, size, args, dims: _batch_backward(op, size, args, dims, args[2]),
    samples=_adaptive_backward_samples, method=False, function=False, out=False,
    refuses="nothing", lowering="resize",
)  # fmt: skip


def adaptive_size(name: str, axes: int, size: Any, shape: tuple[int, ...]) -> tuple[int, ...]:
    """The output sizes; None keeps the input's."""
    if axes == 1:
        return sizes(size, name, "output_size", 1)
    spatial = shape[len(shape) - axes :]
    if size is None:
        raise TypeError("object of type 'NoneType' has no len()")
    if isinstance(size, int):
        return (size,) * axes
    values = tuple(size)
    if len(shape) <= len(values):
        raise ValueError(f"Input dimension should be at least {len(values) + 1}")
    if len(values) == axes:
        values = tuple(have if want is None else want for have, want in zip(spatial, values, strict=True))
    return values


def _adaptive_shape(name: str, axes: int, x: TensorType, size: tuple[int, ...]) -> tuple[int, ...]:
    rank = x.ndim
    shown, called, sized = tuple(x.shape), name, tuple(size)
    if axes == 1:
        if rank not in (2, 3):
            raise RuntimeError(
                f"Expected 2 to 3 dimensions, but got {rank}-dimensional tensor for argument #1 'self' "
                "(while checking "
                f"arguments for {name})"
            )
        shown, called, sized = (*x.shape[:-1], 1, x.shape[-1]), name.replace("1d", "2d"), (1, *sized)
    maximum = "max" in name
    if rank not in (axes + 1, axes + 2):
        got = "got:" if maximum else "got"
        raise RuntimeError(f"{name}(): Expected {axes + 1}D or {axes + 2}D tensor, but {got} {list(x.shape)}")
    if len(size) != axes:
        if maximum:
            raise RuntimeError(f"{name}(): internal error: output_size.size() must be {axes}")
        raise RuntimeError(f"{name}: output_size must be {axes}")
    for place, length in enumerate(shown):
        if length == 0 and place >= len(shown) - max(axes, 2):
            raise RuntimeError(
                f"{called}(): Expected input to have non-zero size for non-batch dimensions, but input has "
                "sizes "
                f"{list(shown)} with dimension {place} being empty"
            )
    shape = (*x.shape[: rank - axes], *size)
    if any(n < 0 for n in size):
        if maximum:
            full = (*shown[: len(shown) - len(sized)], *sized)
            raise RuntimeError(f"Trying to create tensor with negative dimension {min(size)}: {list(full)}")
        listed = ", ".join(map(str, sized[:2])) + "".join(f",{n}" for n in sized[2:])
        raise RuntimeError(
            f"{called}: elements of output_size must be greater than or equal to 0 but received {{{listed}}}"
        )
    return shape


def _adaptive(axes: int) -> None:
    """Defines `adaptive_avg_pool1d`, `2d` or `3d`."""
    name = f"adaptive_avg_pool{axes}d"

    def rule(x: TensorType, size: Any) -> TensorType:
        shape = _adaptive_shape(name, axes, x, adaptive_size(name, axes, size, x.shape))
        floats_only("adaptive_avg_pool2d" if axes == 1 else name, x.dtype)
        return TensorType(shape, x.dtype, x.device)

    def samples(make: Maker) -> Iterator[Sample]:
        space = (5, 6, 4)[:axes]
        yield Sample(make(2, 3, *space), (3, 2, 4)[:axes])
        yield Sample(make(3, *space), 1)
        if axes > 1:
            yield Sample(make(1, 2, *space), (None, *(7,) * (axes - 1)))

    place: dict[str, Any] = {"namespace": "nn.functional"}
    if axes == 1:
        place = {"aliases": (f"nn.functional.{name}",), "method": False, "out": False}
    ADAPTIVE[axes] = reduce(
        name, lambda x, size: kernels.adaptive_avg_pool(x, adaptive_size(name, axes, size, x.shape)), rule,
        "input: Tensor, output_size: Any",
        vjp=lambda g, _out, _x: adaptive_avg_pool_backward(g, _x.shape, axes), batch=lead_batch(axes),
        samples=samples, node=f"AdaptiveAvgPool{axes}DBackward0", amp="float32" if axes == 3 else None,
        **place,
        refuses="nothing", lowering="resize",
    )  # fmt: skip


# -- maxima --------------------------------------------------------------------------------------------------
def _scatter_samples(make: Maker) -> Iterator[Sample]:
    yield Sample(make(2, 3, 2), make.ints(2, 3, 2, high=5), (5,), False)
    yield Sample(make(1, 2, 2, 2), make.ints(1, 2, 2, 2, high=12), (3, 4), False)


def _gather_samples(make: Maker) -> Iterator[Sample]:
    yield Sample(make(2, 3, 5), make.ints(2, 3, 2, high=5), 1)
    yield Sample(make(1, 2, 3, 4), make.ints(1, 2, 2, 2, high=12), 2)


pool_scatter: Op = index(
    "pool_scatter", kernels.scatter,
    lambda g, places, spatial, unique: TensorType((*g.shape[: g.ndim - len(spatial)], *spatial), g.dtype,
    g.device),
    "grad: Tensor, indices: Tensor, spatial: Any, unique: bool",
    vjp=(lambda g, _out, _g, places, spatial: pool_gather(g, places, len(spatial)), None), batch=leading,
    samples=_scatter_samples, method=False, function=False,
    refuses="integers", lowering="pools",
)  # fmt: skip
pool_gather: Op = index(
    "pool_gather", kernels.gather,
    lambda x, places, axes: TensorType(places.shape, x.dtype, x.device),
    "input: Tensor, indices: Tensor, axes: int",
    vjp=(lambda g, _out, _x, places, axes: pool_scatter(g, places, tuple(_x.shape[len(_x.shape) - axes :]),
    False), None),
    batch=leading, samples=_gather_samples, method=False, function=False,
    refuses="integers", lowering="pools",
)  # fmt: skip
MAXIMUM: dict[int, Op] = {}
ADAPTIVE_MAXIMUM: dict[int, Op] = {}
MAX_GEOMETRY = (
    "kernel_size: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1, ceil_mode: bool = False"
)


def _maximum(axes: int) -> None:
    """Defines the maximum pool over so many axes that gives values and places."""
    name = f"max_pool{axes}d"

    def kernel(x: Array, *given: Any) -> tuple[Array, Array]:
        *spread, ceil = given
        return kernels.max_pool(x, *window(name, axes, *spread), ceil)

    def rule(x: TensorType, *given: Any) -> tuple[TensorType, TensorType]:
        *spread, ceil = given
        shape = pooled_shape(f"{name}_with_indices", axes, x, window(name, axes, *spread), ceil)
        if x.dtype is bool_ or x.dtype.is_complex:
            raise unsupported(f"max_pool{max(axes, 2)}d", x.dtype)
        return TensorType(shape, x.dtype, x.device), TensorType(shape, int64, x.device)

    def vjp(g: Sequence[MaybeTensor], out: Sequence[TensorLike], _x: TensorType, *given: Any) -> Any:
        taps, steps, _, gaps = window(name, axes, *given[:4])
        return pool_scatter(
            g[0], out[1], tuple(_x.shape[len(_x.shape) - axes :]), disjoint(taps, steps, gaps)
        )

    def samples(make: Maker) -> Iterator[Sample]:
        space = (5, 6, 4)[:axes]
        yield Sample(make.distinct(2, 3, *space), 2)
        yield Sample(make.distinct(3, *space), (3, 2, 2)[:axes], stride=1, padding=1, ceil_mode=True)
        yield Sample(make.distinct(1, 2, *space), 2, 2, 1, 2)

    MAXIMUM[axes] = index(
        f"{name}_with_indices", kernel, rule, f"input: Tensor, {MAX_GEOMETRY}", vjp=vjp,
        batch=lead_batch(axes),
        samples=samples, node=f"MaxPool{axes}DWithIndicesBackward0", outputs_read=(1,),
        function=axes == 1, method=False,
        refuses="nothing", lowering="pools",
    )  # fmt: skip

    def body(x: TensorLike, *given: Any) -> Any:
        *geometry, return_indices = given
        if axes == 1 and not return_indices:
            _check_line(type_of(x), *geometry)
        values, places = MAXIMUM[axes](x, *geometry)
        return (values, places) if return_indices else values

    def user_samples(make: Maker) -> Iterator[Sample]:
        space = (5, 6, 4)[:axes]
        yield Sample(make.distinct(2, 3, *space), 2)
        yield Sample(make.distinct(3, *space), 3, stride=2, padding=1)
        yield Sample(make.distinct(2, *space), 2, return_indices=True)

    composite(
        f"input: Tensor, {MAX_GEOMETRY}, return_indices: bool = False", name=name,
        aliases=(f"nn.functional.{name}",),
        method=False, samples=user_samples, amp="float32" if axes == 3 else None,
    )(body)  # fmt: skip


def _check_line(x: TensorType, *given: Any) -> None:
    """`max_pool1d` without indices has its own checks and texts."""
    if x.ndim not in (2, 3) or 0 in x.shape[x.ndim - 2 :]:
        raise RuntimeError(
            "max_pool1d: Expected 2D or 3D (batch mode) tensor with optional 0 dim batch size for input, but "
            f"got:{list(x.shape)}"
        )
    *geometry, ceil_mode = given
    words = {
        "kernel_size": "an int, list of ints or", "stride": "None, an int, list of ints, or",
        "padding": "an int, list of ints, or", "dilation": "an int, list of ints or",
    }  # fmt: skip
    found: dict[str, int] = {}
    for (word, kinds), value in zip(words.items(), geometry, strict=True):
        items = tuple(value) if isinstance(value, (tuple, list)) else () if value is None else (value,)
        if len(items) > 1 or (not items and word != "stride"):
            raise RuntimeError(
                f"max_pool1d() {word} must be {kinds} tuple of ints of size 1 but got size {len(items)}"
            )
        found[word] = items[0] if items else found["kernel_size"]
    for word in ("kernel_size", "stride"):
        if found[word] <= 0:
            raise RuntimeError(f"max_pool1d() {word} must be greater than zero, but got {found[word]}")
    taps, step, low, gap = found.values()
    if low < 0:
        raise RuntimeError(f"max_pool1d() padding must be non-negative, but got {low}")
    if low > taps // 2:
        raise RuntimeError(
            f"max_pool1d() padding should be at most half of kernel size, but got padding={low} and "
            f"kernel_size={taps}"
        )
    if gap <= 0:
        raise RuntimeError(f"max_pool1d() dilation must be greater than zero, but got {gap}")
    count = kernels.output_size(x.shape[-1], taps, step, low, gap, ceil_mode)
    if count <= 0:
        raise RuntimeError(f"max_pool1d() Invalid computed output size: {count}")
    floats_only("max_pool1d_impl", x.dtype)


def _adaptive_maximum(axes: int) -> None:
    """Defines the adaptive maximum pool over so many axes: with places, and the user's form."""
    name = f"adaptive_max_pool{axes}d"

    def rule(x: TensorType, size: Any) -> tuple[TensorType, TensorType]:
        shape = _adaptive_shape(name, axes, x, adaptive_size(name, axes, size, x.shape))
        floats_only(f"adaptive_max_pool{max(axes, 2)}d", x.dtype)
        return TensorType(shape, x.dtype, x.device), TensorType(shape, int64, x.device)

    def vjp(g: Sequence[MaybeTensor], out: Sequence[TensorLike], _x: TensorType) -> Any:
        return pool_scatter(g[0], out[1], tuple(_x.shape[len(_x.shape) - axes :]), False)

    def samples(make: Maker) -> Iterator[Sample]:
        space = (5, 6, 4)[:axes]
        yield Sample(make.distinct(2, 3, *space), (3, 2, 4)[:axes])
        yield Sample(make.distinct(3, *space), 1)

    ADAPTIVE_MAXIMUM[axes] = index(
        name if axes == 1 else f"{name}_with_indices",
        lambda x, size: kernels.adaptive_max_pool(x, adaptive_size(name, axes, size, x.shape)), rule,
        "input: Tensor, output_size: Any", vjp=vjp, batch=lead_batch(axes), samples=samples, method=False,
        function=axes == 1, node=f"AdaptiveMaxPool{axes}DBackward0", outputs_read=(1,),
        refuses="nothing", lowering="pools",
    )  # fmt: skip

    def body(x: TensorLike, output_size: Any, return_indices: bool) -> Any:
        values, places = ADAPTIVE_MAXIMUM[axes](x, output_size)
        return (values, places) if return_indices else values

    composite(
        "input: Tensor, output_size: Any, return_indices: bool = False",
        name=name,
        namespace="nn.functional",
        amp="float32" if axes == 3 else None,
        samples=samples,
    )(body)


for _axes in (1, 2, 3):
    _average(_axes)
    _adaptive(_axes)
    _maximum(_axes)
    _adaptive_maximum(_axes)


# -- power means ---------------------------------------------------------------------------------------------
def _power_mean(axes: int) -> None:
    """Defines `lp_pool1d`, `2d` or `3d`: the sum of powers in each window, and its root."""
    name = f"lp_pool{axes}d"

    def body(
        x: TensorLike, norm_type: float, kernel_size: Spread, stride: Spread | None, ceil_mode: bool
    ) -> Any:
        taps = sizes(kernel_size, name, "kernel_size", axes)
        out = AVERAGE[axes](ops.pow(x, norm_type), taps, stride, 0, ceil_mode)
        positive = ops.mul(ops.sign(out), ops.relu(ops.abs(out)))
        return ops.pow(ops.mul(positive, math.prod(taps)), 1.0 / norm_type)

    def samples(make: Maker) -> Iterator[Sample]:
        space = (5, 6, 4)[:axes]
        yield Sample(make(2, 3, *space, low=0.5), 2, 2)
        yield Sample(make(3, *space, low=0.5), 1.5, (3, 2, 1)[:axes], stride=2, ceil_mode=True)

    composite(
        "input: Tensor, norm_type: Any, kernel_size: Any, stride: Any = None, ceil_mode: bool = False",
        name=name,
        namespace="nn.functional", samples=samples,
    )(body)  # fmt: skip


for _axes in (1, 2, 3):
    _power_mean(_axes)
