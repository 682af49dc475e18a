"""Convolutions: `conv1d` to `conv3d`, their transposed forms, and the three products they are made of.

Takes tensors `(N, C, *spatial)` (or one example without N) and weights; gives tensors of the same dtype. The
one idea: a convolution and its two gradients are the partial products of one trilinear form, so three hidden
ops are each other's gradients and any order comes out exact (Note [Convolution is closed under
differentiation] in the kernels).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from weft.core.arrays import Array
from weft.core.dtypes import bool_
from weft.core.types import TensorType
from weft.core.warn import warn
from weft.ops.batching import spread_to, to_front
from weft.ops.families import composite, contract
from weft.ops.kernels import convolution as kernels
from weft.ops.kernels.padding import Pads, as_pairs
from weft.ops.record import Op, ops, type_of
from weft.ops.samples import Maker, Sample
from weft.ops.values import MaybeTensor, Sizes, Spread, TensorLike

GEOMETRY = "stride: Any, padding: Any, dilation: Any, groups: int"


def times(sizes: Iterable[int]) -> str:
    """Sizes as `4 x 5`."""
    return " x ".join(map(str, sizes))


# -- the three products --------------------------------------------------------------------------------------
def _flatten(value: TensorLike, dim: int | None, size: int) -> Any:
    """`(B, N, …)` as `(B * N, …)`."""
    value = to_front(value, dim)
    return ops.reshape(value, (value.shape[0] * value.shape[1], *value.shape[2:]))


def _to_channels(value: TensorLike, dim: int | None, size: int) -> Any:
    """`(B, N, C, …)` as `(N, B * C, …)`: a batch becomes groups."""
    value = ops.movedim(spread_to(value, dim, size), 0, 1)
    return ops.reshape(value, (value.shape[0], size * value.shape[2], *value.shape[3:]))


def _from_channels(value: TensorLike, size: int) -> Any:
    """`(N, B * C, …)` as `(N, B, C, …)`."""
    return ops.reshape(value, (value.shape[0], size, value.shape[1] // size, *value.shape[2:]))


def _unflatten(value: TensorLike, size: int) -> Any:
    """`(B * N, …)` as `(B, N, …)`."""
    return ops.reshape(value, (size, value.shape[0] // size, *value.shape[1:]))


def _batch_forward(op: Op, size: int, args: tuple[Any, ...], dims: tuple[Any, ...]) -> tuple[Any, Any]:
    x, w, stride, padding, dilation, groups, counts = args
    if dims[1] is None:
        return _unflatten(
            op(_flatten(x, dims[0], size), w, stride, padding, dilation, groups, counts), size
        ), 0
    weights = _flatten(w, dims[1], size)
    if dims[0] is None and groups == 1:
        return _from_channels(op(x, weights, stride, padding, dilation, 1, counts), size), 1
    out = op(_to_channels(x, dims[0], size), weights, stride, padding, dilation, groups * size, counts)
    return _from_channels(out, size), 1


def _batch_input(op: Op, size: int, args: tuple[Any, ...], dims: tuple[Any, ...]) -> tuple[Any, Any]:
    g, w, shape, stride, padding, dilation, groups = args
    if dims[1] is None:
        shape = (size * shape[0], *shape[1:])
        return _unflatten(
            op(_flatten(g, dims[0], size), w, shape, stride, padding, dilation, groups), size
        ), 0
    shape = (shape[0], size * shape[1], *shape[2:])
    weights = _flatten(w, dims[1], size)
    out = op(_to_channels(g, dims[0], size), weights, shape, stride, padding, dilation, groups * size)
    return _from_channels(out, size), 1


def _batch_weight(op: Op, size: int, args: tuple[Any, ...], dims: tuple[Any, ...]) -> tuple[Any, Any]:
    g, x, shape, stride, padding, dilation, groups = args
    joined = (size * shape[0], *shape[1:])
    left, right = _to_channels(g, dims[0], size), _to_channels(x, dims[1], size)
    return _unflatten(op(left, right, joined, stride, padding, dilation, groups * size), size), 0


def _forward_samples(make: Maker) -> Iterator[Sample]:
    yield Sample(make(2, 2, 5), make(3, 2, 2), (2,), (1,), (1,), 1, (3,))
    yield Sample(make(1, 2, 4, 4), make(2, 1, 2, 2), (1, 1), ((0, 1), (1, 0)), (2, 1), 2, (3, 4))


def _input_samples(make: Maker) -> Iterator[Sample]:
    yield Sample(make(2, 3, 3), make(3, 2, 2), (2, 2, 5), (2,), (1,), (1,), 1)
    yield Sample(make(1, 2, 3, 4), make(2, 1, 2, 2), (1, 2, 4, 4), (1, 1), ((0, 1), (1, 0)), (2, 1), 2)


def _weight_samples(make: Maker) -> Iterator[Sample]:
    yield Sample(make(2, 3, 3), make(2, 2, 5), (3, 2, 2), (2,), (1,), (1,), 1)
    yield Sample(make(1, 2, 3, 4), make(1, 2, 4, 4), (2, 1, 2, 2), (1, 1), ((0, 1), (1, 0)), (2, 1), 2)


def is_grouped(*bound: Any) -> bool:
    """Whether channels come in groups, of which NumPy's products see one at a time."""
    return bool(bound[-1] > 1)


convolution_forward: Op = contract(
    "convolution_forward",
    lambda x, w, stride, padding, dilation, groups, counts: kernels.forward(x, w, stride, padding, dilation,
    groups, counts),
    lambda x, w, stride, padding, dilation, groups, counts: TensorType((x.shape[0], w.shape[0], *counts),
    x.dtype, x.device),
    f"input: Tensor, weight: Tensor, {GEOMETRY}, output_size: Any",
    vjp=(
        lambda g, _out, _x, w, *geometry: convolution_input(g, w, _x.shape, *geometry[:4]),
        lambda g, _out, x, _w, *geometry: convolution_weight(g, x, _w.shape, *geometry[:4]),
    ),
    batch=_batch_forward, samples=_forward_samples, method=False, function=False, out=False,
    refuses="nothing", lowering="conv",
)  # fmt: skip
convolution_input: Op = contract(
    "convolution_input", kernels.grad_input,
    lambda g, w, shape, stride, padding, dilation, groups: TensorType(shape, g.dtype, g.device),
    f"grad: Tensor, weight: Tensor, input_shape: Any, {GEOMETRY}",
    vjp=(
        lambda g, _out, _g, w, _shape, *geometry: convolution_forward(g, w, *geometry, _g.shape[2:]),
        lambda g, _out, left, _w, _shape, *geometry: convolution_weight(left, g, _w.shape, *geometry),
    ),
    batch=_batch_input, samples=_input_samples, method=False, function=False, out=False,
    refuses="nothing", lowering="conv", native_above=is_grouped,
)  # fmt: skip
convolution_weight: Op = contract(
    "convolution_weight", kernels.grad_weight,
    lambda g, x, shape, stride, padding, dilation, groups: TensorType(shape, g.dtype, g.device),
    f"grad: Tensor, input: Tensor, weight_shape: Any, {GEOMETRY}",
    vjp=(
        lambda g, _out, _g, x, _shape, *geometry: convolution_forward(x, g, *geometry, _g.shape[2:]),
        lambda g, _out, left, _x, _shape, *geometry: convolution_input(left, g, _x.shape, *geometry),
    ),
    batch=_batch_weight, samples=_weight_samples, method=False, function=False, out=False,
    refuses="nothing", lowering="conv", native_above=is_grouped,
)  # fmt: skip


# -- convolution ---------------------------------------------------------------------------------------------
def per_axis(value: int | Pads, name: str, axes: int) -> tuple[Any, ...]:
    """One entry per spatial axis from an int or a list of one or `axes` entries."""
    if isinstance(value, int):
        return (value,) * axes
    values = tuple(value)
    if len(values) == 1:
        return values * axes
    if len(values) != axes:
        raise RuntimeError(
            f"expected {name} to be a single integer value or a list of {axes} values to match the "
            "convolution dimensions, "
            f"but got {name}={list(values)}"
        )
    return values


def _check(
    x: TensorType, w: TensorType, bias: TensorType | None, stride: Sizes, padding: Pads, dilation: Sizes,
    transposed: bool, output_padding: Sizes, groups: int,
) -> None:  # fmt: skip
    """PyTorch's checks in its order."""
    if min((min(pair) for pair in as_pairs(padding)), default=0) < 0:
        raise RuntimeError("negative padding is not supported")
    if min(output_padding, default=0) < 0:
        raise RuntimeError("negative output_padding is not supported")
    if min(stride, default=1) <= 0:
        raise RuntimeError("non-positive stride is not supported")
    if min(dilation, default=1) <= 0:
        raise RuntimeError("dilation should be greater than zero")
    if x.ndim != w.ndim:
        raise RuntimeError(
            f"Expected {w.ndim}-dimensional input for {w.ndim}-dimensional weight{list(w.shape)}, but got "
            f"{x.ndim}-dimensional "
            f"input of size {list(x.shape)} instead"
        )
    if w.shape[0] < groups:
        raise RuntimeError(
            f"Given groups={groups}, expected weight to be at least {groups} at dimension 0, but got weight "
            "of size "
            f"{list(w.shape)} instead"
        )
    if w.shape[0] % groups:
        raise RuntimeError(
            f"Given groups={groups}, expected weight to be divisible by {groups} at dimension 0, but got "
            "weight of size "
            f"[{list(w.shape)}] instead"
        )
    given = f"transposed={int(transposed)}" if transposed else f"groups={groups}"
    channels = w.shape[0] if transposed else w.shape[1] * groups
    if x.shape[1] != channels:
        raise RuntimeError(
            f"Given {given}, weight of size {list(w.shape)}, expected input{list(x.shape)} to have "
            f"{channels} channels, but "
            f"got {x.shape[1]} channels instead"
        )
    outputs = w.shape[1] * groups if transposed else w.shape[0]
    if bias is not None and tuple(bias.shape) != (outputs,):
        given = f"{given}, weight" if transposed else "weight"
        raise RuntimeError(
            f"Given {given} of size {list(w.shape)}, expected bias to be 1-dimensional with {outputs} "
            "elements, but got bias "
            f"of size {list(bias.shape)} instead"
        )


def _check_dtypes(x: TensorType, w: TensorType, bias: TensorType | None) -> None:
    if bias is not None and bias.dtype is not x.dtype:
        raise RuntimeError(
            f"Input type ({x.dtype.cpp_name}) and bias type ({bias.dtype.cpp_name}) should be the same"
        )
    if w.dtype is not x.dtype:
        raise RuntimeError(f"expected scalar type {x.dtype.scalar_name} but found {w.dtype.scalar_name}")
    if x.dtype is bool_:
        raise NotImplementedError("\"slow_conv2d_cpu\" not implemented for 'Bool'")


def _rule(
    x: TensorType, w: TensorType, bias: TensorType | None, stride: Spread, padding: int | Pads,
    dilation: Spread, transposed: bool, output_padding: Spread, groups: int,
) -> TensorType:  # fmt: skip
    axes = w.ndim - 2
    if axes <= 0:
        raise RuntimeError("weight should have at least three dimensions")
    if groups <= 0:
        raise RuntimeError("non-positive groups is not supported")
    stride, dilation = per_axis(stride, "stride", axes), per_axis(dilation, "dilation", axes)
    padding, output_padding = (
        per_axis(padding, "padding", axes),
        per_axis(output_padding, "output_padding", axes),
    )
    _check(x, w, bias, stride, padding, dilation, transposed, output_padding, groups)
    pairs = as_pairs(padding)
    taps = [gap * (size - 1) + 1 for size, gap in zip(w.shape[2:], dilation, strict=True)]
    if transposed:
        shape = kernels.transpose_output_shape(
            x.shape, w.shape, stride, pairs, output_padding, dilation, groups
        )
        _check_transposed(x, shape, stride, output_padding, dilation)
    else:
        padded = [size + low + high for size, (low, high) in zip(x.shape[2:], pairs, strict=True)]
        if any(have < tap for have, tap in zip(padded, taps, strict=True)):
            raise RuntimeError(
                f"Calculated padded input size per channel: ({times(padded)}). Kernel size: "
                f"({times(taps)}). Kernel size "
                "can't be greater than actual input size"
            )
        shape = kernels.output_shape(x.shape, w.shape, stride, pairs, dilation)
    _check_dtypes(x, w, bias)
    return TensorType(shape, x.dtype, x.device)


def _check_transposed(
    x: TensorType, shape: tuple[int, ...], stride: Sizes, output_padding: Sizes, dilation: Sizes
) -> None:
    if any(
        extra >= step and extra >= gap
        for extra, step, gap in zip(output_padding, stride, dilation, strict=True)
    ):
        words = {1: ("width",), 2: ("height", "width"), 3: ("depth", "height", "width")}.get(len(stride), ())
        groups = {"output_padding": output_padding, "stride": stride, "dilation": dilation}
        if len(stride) == 1:
            groups = {
                name: (1 if name != "output_padding" else 0, *values) for name, values in groups.items()
            }
            words = ("height", "width")
        detail = " ".join(
            f"{name}_{word}: {value}"
            for name, values in groups.items()
            for word, value in zip(words, values, strict=True)
        )
        raise RuntimeError(f"output padding must be smaller than either stride or dilation, but got {detail}")
    if any(n < 1 for n in shape[2:]) and all(n > 0 for n in x.shape[2:]):
        raise RuntimeError(
            f"Given input size per channel: ({times(x.shape[2:])}). Calculated output size per channel: "
            f"({times(shape[2:])}). "
            "Output size is too small"
        )


def _kernel(
    x: Array, w: Array, bias: Array | None, stride: Spread, padding: int | Pads, dilation: Spread,
    transposed: bool, output_padding: Spread, groups: int,
) -> Array:  # fmt: skip
    axes = w.ndim - 2
    stride, dilation = per_axis(stride, "stride", axes), per_axis(dilation, "dilation", axes)
    padding, extra = per_axis(padding, "padding", axes), per_axis(output_padding, "output_padding", axes)
    if transposed:
        shape = kernels.transpose_output_shape(x.shape, w.shape, stride, padding, extra, dilation, groups)
        out = kernels.grad_input(x, w, shape, stride, padding, dilation, groups)
    else:
        out = kernels.forward(x, w, stride, padding, dilation, groups)
    if bias is not None:
        out += bias.reshape(-1, *(1,) * axes)
    return out


def _geometry(
    w: TensorLike, stride: Spread, padding: int | Pads, dilation: Spread, groups: int
) -> tuple[Any, ...]:
    axes = len(w.shape) - 2
    return (
        per_axis(stride, "stride", axes), per_axis(padding, "padding", axes), per_axis(dilation, "dilation",
        axes), groups,
    )  # fmt: skip


def _input_vjp(
    g: TensorLike, _out: object, _x: TensorType, w: TensorLike, _bias: object, stride: Spread,
    padding: int | Pads, dilation: Spread, transposed: bool, _extra: Spread, groups: int,
) -> Any:  # fmt: skip
    geometry = _geometry(w, stride, padding, dilation, groups)
    if transposed:
        return convolution_forward(g, w, *geometry, _x.shape[2:])
    return convolution_input(g, w, _x.shape, *geometry)


def _weight_vjp(
    g: TensorLike, _out: object, x: TensorLike, _w: TensorType, _bias: object, stride: Spread,
    padding: int | Pads, dilation: Spread, transposed: bool, _extra: Spread, groups: int,
) -> Any:  # fmt: skip
    geometry = _geometry(_w, stride, padding, dilation, groups)
    return (
        convolution_weight(x, g, _w.shape, *geometry)
        if transposed
        else convolution_weight(g, x, _w.shape, *geometry)
    )


def _bias_vjp(g: TensorLike) -> Any:
    return ops.sum(g, (0, *range(2, len(g.shape))))


def _batch(op: Op, size: int, args: tuple[Any, ...], dims: tuple[Any, ...]) -> tuple[Any, Any]:
    x, w, bias, stride, padding, dilation, transposed, extra, groups = args
    if dims[1] is None and dims[2] is None:
        return _unflatten(op(_flatten(x, dims[0], size), *args[1:]), size), 0
    rest = (stride, padding, dilation, transposed, extra)
    if dims[1] is None:
        out, where = (op(x, w, None, *rest, groups), None) if dims[0] is None else (None, 0)
        if out is None:
            out = _unflatten(op(_flatten(x, dims[0], size), w, None, *rest, groups), size)
    else:
        wide = op(_to_channels(x, dims[0], size), _flatten(w, dims[1], size), None, *rest, groups * size)
        out, where = ops.movedim(_from_channels(wide, size), 1, 0), 0
    if bias is None:
        return out, where
    columns = spread_to(bias, dims[2], size)
    columns = ops.reshape(
        columns, (size, 1, columns.shape[1], *(1,) * (len(out.shape) - 2 - (where is not None)))
    )
    return ops.add(out, columns), 0


def _convolution_samples(make: Maker) -> Iterator[Sample]:
    yield Sample(make(2, 2, 5), make(3, 2, 3), make(3), (1,), (1,), (1,), False, (0,), 1)
    yield Sample(make(1, 4, 5, 4), make(4, 2, 2, 3), None, (2, 1), (1, 0), (1, 1), False, (0, 0), 2)
    yield Sample(make(2, 2, 3), make(2, 3, 3), make(3), (2,), (1,), (1,), True, (1,), 1)
    yield Sample(make(1, 2, 3, 3), make(2, 1, 2, 2), make(2), (2, 2), (0, 1), (1, 2), True, (1, 0), 2)
    yield Sample(make(0, 2, 5), make(3, 2, 3), make(3), (1,), (1,), (1,), False, (0,), 1)


convolution = contract(
    "convolution", _kernel, _rule,
    "input: Tensor, weight: Tensor, bias: MaybeTensor, stride: Any, padding: Any, dilation: Any, "
    "transposed: bool, "
    "output_padding: Any, groups: int",
    vjp=(_input_vjp, _weight_vjp, _bias_vjp), batch=_batch, amp="lower", samples=_convolution_samples,
    method=False, out=False,
    refuses="nothing", lowering="conv", native_above=is_grouped,
)  # fmt: skip


# -- conv1d, conv2d, conv3d and their transposes -------------------------------------------------------------
def _check_rank(name: str, shape: tuple[int, ...], axes: int) -> None:
    if len(shape) not in (axes + 1, axes + 2):
        raise RuntimeError(
            f"Expected {axes + 1}D (unbatched) or {axes + 2}D (batched) input to {name}, but got input of "
            f"size: {list(shape)}"
        )


def _named_padding(
    padding: str, weight: TensorLike, stride: Spread, dilation: Spread, axes: int
) -> int | Pads:
    """The numbers that `padding="same"` or `"valid"` stand for."""
    if padding == "valid":
        return 0
    if padding != "same":
        raise RuntimeError(f"Invalid padding string: '{padding}'")
    if any(step != 1 for step in per_axis(stride, "stride", axes)):
        raise RuntimeError("padding='same' is not supported for strided convolutions")
    shape = type_of(weight).shape
    if len(shape) != axes + 2:
        return 0  # the shapes are refused later
    pairs = kernels.same_padding(shape[2:], per_axis(dilation, "dilation", axes))
    if any(low != high for low, high in pairs):
        warn(
            "Using padding='same' with even kernel lengths and odd dilation may require a zero-padded copy "
            "of the input be "
            "created"
        )
        return pairs
    return tuple(low for low, _ in pairs)


def _run(name: str, axes: int, x: TensorLike, w: TensorLike, bias: MaybeTensor, *rest: Any) -> Any:
    shape = type_of(x).shape
    _check_rank(name, shape, axes)
    if len(shape) == axes + 2:
        return convolution(x, w, bias, *rest)
    out = convolution(ops.unsqueeze(x, 0), w, bias, *rest)
    return ops.squeeze(out, 0)


def _plain(value: int | Pads, axes: int) -> Any:
    return (value,) * axes if isinstance(value, int) else value


def _numbers(name: str, **values: Any) -> None:
    """Refuses, as PyTorch's argument parser does, what is neither an int nor a list of ints."""
    for word, value in values.items():
        items = value if isinstance(value, (tuple, list)) else (value,)
        if not all(isinstance(item, int) or hasattr(item, "__index__") for item in items):
            raise TypeError(f"{name}(): argument '{word}' must be tuple of ints, not {type(value).__name__}")


def _convolution_of(axes: int) -> Callable[..., Any]:
    name = f"conv{axes}d"

    def body(
        x: TensorLike, weight: TensorLike, bias: MaybeTensor, stride: Spread, padding: int | Pads | str,
        dilation: Spread, groups: int,
    ) -> Any:  # fmt: skip
        _numbers(name, stride=stride, dilation=dilation)
        if isinstance(padding, str):
            padding = _named_padding(padding, weight, stride, dilation, axes)
        else:
            _numbers(name, padding=padding)
        stride, padding, dilation = _plain(stride, axes), _plain(padding, axes), _plain(dilation, axes)
        return _run(name, axes, x, weight, bias, stride, padding, dilation, False, (0,) * axes, groups)

    return body


def _transposed_of(axes: int) -> Callable[..., Any]:
    name = f"conv_transpose{axes}d"

    def body(
        x: TensorLike, weight: TensorLike, bias: MaybeTensor, stride: Spread, padding: Spread,
        output_padding: Spread, groups: int, dilation: Spread,
    ) -> Any:  # fmt: skip
        _numbers(name, stride=stride, padding=padding, output_padding=output_padding, dilation=dilation)
        stride, padding, dilation = _plain(stride, axes), _plain(padding, axes), _plain(dilation, axes)
        return _run(
            name, axes, x, weight, bias, stride, padding, dilation, True, _plain(output_padding, axes), groups
        )

    return body


def _samples_of(axes: int) -> Callable[[Maker], Iterator[Sample]]:
    def samples(make: Maker) -> Iterator[Sample]:
        kernel, space = (3, 2, 1)[:axes], (5, 4, 2)[:axes]
        yield Sample(make(2, 2, *space), make(3, 2, *kernel), make(3))
        yield Sample(make(2, *space), make(3, 2, *kernel), None, stride=2, padding=1)
        yield Sample(make(1, 4, *space), make(2, 2, *(1,) * axes), None, groups=2)
        yield Sample(make(1, 2, *space), make(2, 2, *(3,) * axes), make(2), padding="same")

    return samples


def _transposed_samples_of(axes: int) -> Callable[[Maker], Iterator[Sample]]:
    def samples(make: Maker) -> Iterator[Sample]:
        kernel, space = (3, 2, 1)[:axes], (3, 2, 2)[:axes]
        yield Sample(make(2, 2, *space), make(2, 3, *kernel), make(3))
        yield Sample(make(2, *space), make(2, 1, *kernel), None, stride=2, output_padding=1, groups=2)
        yield Sample(make(1, 2, *space), make(2, 2, *kernel), make(2), padding=(1,) + (0,) * (axes - 1))

    return samples


FORWARD = (
    "input: Tensor, weight: Tensor, bias: MaybeTensor = None, stride: Any = 1, padding: Any = 0, dilation: "
    "Any = 1, "
    "groups: int = 1"
)
TRANSPOSED = (
    "input: Tensor, weight: Tensor, bias: MaybeTensor = None, stride: Any = 1, padding: Any = 0, "
    "output_padding: Any = 0, "
    "groups: int = 1, dilation: Any = 1"
)
for _axes in (1, 2, 3):
    composite(
        FORWARD, name=f"conv{_axes}d", aliases=(f"nn.functional.conv{_axes}d",), method=False, amp="lower",
        samples=_samples_of(_axes),
    )(_convolution_of(_axes))  # fmt: skip
    composite(
        TRANSPOSED, name=f"conv_transpose{_axes}d", aliases=(f"nn.functional.conv_transpose{_axes}d",),
        method=False,
        amp="lower", samples=_transposed_samples_of(_axes),
    )(_transposed_of(_axes))  # fmt: skip
