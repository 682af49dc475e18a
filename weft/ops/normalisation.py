"""Normalisations: batch, layer, group, instance and RMS norms, unit vectors and distances.

Takes tensors, gives tensors scaled by statistics of themselves. The one idea: a norm is `(x - mean) * rstd`
over some dimensions, whose gradient is a projection; one backward op states it, and its own gradient is
written in ops, so every order is exact (Note [Gradient of a norm]).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

from weft.core import modes
from weft.core.arrays import Array, ArrayModule, namespace, row_major
from weft.core.dtypes import HALVES, dtype, finfo, float32, promote_types
from weft.core.types import Size, TensorType
from weft.ops.batching import spread_to, to_front
from weft.ops.families import HIDDEN, composite, reduce
from weft.ops.record import Op, broadcast_shapes, joint, ops, same_shape, type_of
from weft.ops.samples import Maker, Sample
from weft.ops.softmax import floats_only, no_grad, working
from weft.ops.values import MaybeTensor, Sizes, TensorLike


# -- the common core of the norms ----------------------------------------------------------------------------
# Note [Gradient of a norm]
# With xh = (x - mean) * r, r = (var + eps) ** -0.5 and gh = g * weight, the gradient of x is r * P(gh), where
# P(v) = v - mean(v) - xh * mean(v * xh) is symmetric and linear. For a cotangent G of that gradient therefore
#     gh <- r * P(G)
#     x  <- -r**2 * (S * xh + b * P(G) + a * P(gh)),   a = mean(G * xh), b = mean(gh * xh),
#                                                      S = mean(G * gh) - mean(G) * mean(gh) - a * b
# and `weight`'s gradient sum(g * xh) adds, for its cotangent W, W * xh to g and r * P(W * g) to x. All of it
# is written in ops of x, so that the third order follows from the second.
def _moments(xp: ArrayModule, x: Array, dims: tuple[int, ...], eps: float) -> tuple[Array, ...]:
    """The centred array, the mean, the variance and the reciprocal deviation."""
    count = max(math.prod(x.shape[d] for d in dims), 1)
    mean = xp.add.reduce(x, dims, keepdims=True) / count
    centred = x - mean
    variance = xp.add.reduce(centred * centred, dims, keepdims=True)
    variance /= count
    return centred, mean, variance, 1.0 / xp.sqrt(variance + x.dtype.type(eps))


def _affine(out: Array, weight: Array | None, bias: Array | None) -> Array:
    if weight is not None:
        out *= working(weight)
    if bias is not None:
        out += working(bias)
    return out


def _norm_backward_kernel(
    g: Array, x: Array, weight: Array | None, shape: tuple[int, ...], dims: tuple[int, ...], eps: float,
    needs: tuple[bool, ...],
) -> tuple[Array, Array, Array]:  # fmt: skip
    xp = namespace(g)
    kind, left = g.dtype, working(g)
    axes = _summed(x.shape, shape)
    count = max(math.prod(x.shape[d] for d in dims), 1)
    none = xp.zeros(0, kind)
    by_input = by_weight = by_bias = none
    if needs[2]:
        by_bias = (
            xp.add.reduce(left, axes).reshape(shape).astype(weight.dtype if weight is not None else kind)
        )
    if needs[0] or needs[1]:
        normal, _, _, scale = _moments(xp, working(x), dims, eps)
        normal *= scale
        if needs[1]:
            assert weight is not None
            by_weight = xp.add.reduce(left * normal, axes).reshape(shape).astype(weight.dtype)
    if needs[0]:
        inner = left if weight is None else left * working(weight)
        first = xp.add.reduce(inner, dims, keepdims=True)
        second = xp.add.reduce(inner * normal, dims, keepdims=True)
        first /= count
        second /= count
        normal *= second
        out = xp.subtract(inner, first, out=None if inner is left else inner)
        out -= normal
        out *= scale
        by_input = out.astype(x.dtype, copy=False)
    return by_input, by_weight, by_bias


def _summed(shape: tuple[int, ...], affine: tuple[int, ...]) -> tuple[int, ...]:
    """The dimensions along which parameters of shape `affine` were broadcast."""
    lead = len(shape) - len(affine)
    return (*range(lead), *(lead + i for i, n in enumerate(affine) if n == 1 and shape[lead + i] != 1))


def _norm_backward_rule(
    g: TensorType, x: TensorType, weight: TensorType | None, shape: tuple[int, ...], dims: tuple[int, ...],
    eps: float, needs: Sequence[bool],
) -> tuple[TensorType, ...]:  # fmt: skip
    floats_only("norm_backward", x.dtype)
    kind = x.dtype if weight is None else weight.dtype
    shapes = (x.shape if needs[0] else (0,), shape if needs[1] else (0,), shape if needs[2] else (0,))
    return tuple(TensorType(s, k, x.device) for s, k in zip(shapes, (x.dtype, kind, kind), strict=True))


def _norm_second(
    needs: Sequence[bool], g: Sequence[MaybeTensor], _out: object, grad: TensorLike, x: TensorLike,
    weight: MaybeTensor, shape: tuple[int, ...], dims: tuple[int, ...], eps: float, wanted: Sequence[bool],
) -> tuple[Any, Any, Any]:  # fmt: skip
    """See Note [Gradient of a norm]."""
    by_input, by_weight, by_bias = (part if want else None for part, want in zip(g, wanted, strict=True))

    def mean(value: TensorLike) -> Any:
        return ops.mean(value, dims, True)

    def project(value: TensorLike) -> Any:
        return ops.sub(ops.sub(value, mean(value)), ops.mul(normal, mean(ops.mul(value, normal))))

    def total(parts: list[Any]) -> Any:
        result = parts[0] if parts else None
        for part in parts[1:]:
            result = ops.add(result, part)
        return result

    centred = ops.sub(x, mean(x))
    scale = ops.rsqrt(ops.add(mean(ops.mul(centred, centred)), eps))
    normal = ops.mul(centred, scale)
    inner = grad if weight is None else ops.mul(grad, weight)
    to_grad: list[Any] = []
    to_x: list[Any] = []
    to_weight = None
    if by_input is not None:
        projected = project(by_input)
        back = ops.mul(scale, projected)
        to_grad.append(back if weight is None else ops.mul(back, weight))
        if weight is not None and needs[2]:
            to_weight = ops.sum_to_size(ops.mul(back, grad), shape)
        a, b = mean(ops.mul(by_input, normal)), mean(ops.mul(inner, normal))
        spread = ops.sub(
            ops.sub(mean(ops.mul(by_input, inner)), ops.mul(mean(by_input), mean(inner))), ops.mul(a, b)
        )
        bracket = total([ops.mul(spread, normal), ops.mul(b, projected), ops.mul(a, project(inner))])
        to_x.append(ops.neg(ops.mul(ops.mul(scale, scale), bracket)))
    if by_weight is not None:
        to_grad.append(ops.mul(normal, by_weight))
        to_x.append(ops.mul(scale, project(ops.mul(grad, by_weight))))
    if by_bias is not None:
        to_grad.append(ops.expand(by_bias, tuple(x.shape)))
    return total(to_grad), total(to_x), to_weight


def _norm_backward_batch(op: Op, size: int, args: tuple[Any, ...], dims: tuple[Any, ...]) -> tuple[Any, Any]:
    g, x, weight, shape, axes, eps, needs = args
    g, x = spread_to(g, dims[0], size), spread_to(x, dims[1], size)
    rank = len(x.shape) - 1
    full = (*(1,) * (rank - len(shape)), *shape)
    if weight is not None:
        weight = ops.reshape(spread_to(weight, dims[2], size), (size, *full))
    outs = op(g, x, weight, (size, *full), tuple(a + 1 for a in axes), eps, needs)
    fitted = [outs[0]]
    for out, need in zip(outs[1:], needs[1:], strict=True):
        fitted.append(ops.reshape(out, (size, *shape)) if need else out)
    return tuple(fitted), tuple(0 if need else None for need in needs)


def _norm_backward_samples(make: Maker) -> Iterator[Sample]:
    yield Sample(make(2, 4), make(2, 4), make(4), (4,), (1,), 1e-3, (True, True, True))
    yield Sample(make(3, 2, 3), make(3, 2, 3), make(1, 2, 1), (1, 2, 1), (0, 2), 1e-3, (True, True, True))
    yield Sample(make(2, 4), make(2, 4), None, (4,), (1,), 1e-3, (True, False, False))


norm_backward = reduce(
    "norm_backward", _norm_backward_kernel, _norm_backward_rule,
    "grad: Tensor, input: Tensor, weight: MaybeTensor, shape: Any, dims: Any, eps: float, needs: Any",
    vjp=joint(_norm_second), batch=_norm_backward_batch, samples=_norm_backward_samples, **HIDDEN,
    refuses="nothing", lowering="folds", native_above=True,
)  # fmt: skip


def _norm_vjp(
    needs: Sequence[bool], g: TensorLike, x: TensorLike, weight: MaybeTensor, shape: tuple[int, ...],
    dims: tuple[int, ...], eps: float,
) -> list[Any]:  # fmt: skip
    """Gradients of input, weight and bias, those that are needed."""
    wanted = (needs[0], needs[1] and weight is not None, needs[2])
    parts = norm_backward(g, x, weight, shape, dims, eps, wanted)
    return [part if want else None for part, want in zip(parts, wanted, strict=True)]


def check_parameters(x: TensorType, *parameters: TensorType | None) -> None:
    """Parameters have the input's dtype, or float32 for an input of a half type."""
    for parameter in parameters:
        if parameter is None or parameter.dtype is x.dtype:
            continue
        if x.dtype not in HALVES or parameter.dtype is not float32:
            raise RuntimeError("mixed dtype (CPU): expect parameter to have scalar type of Float")


def _check_normalized(name: str, x: TensorType, shape: Sizes, **parameters: Any) -> tuple[int, ...]:
    if not isinstance(shape, (tuple, list)):
        raise TypeError(
            f"{name}(): argument 'normalized_shape' (position 2) must be tuple of ints, not "
            f"{type(shape).__name__}"
        )
    wanted = tuple(shape)
    if not wanted:
        raise RuntimeError(
            "Expected normalized_shape to be at least 1-dimensional, i.e., containing at least one element, "
            "but got "
            "normalized_shape = []"
        )
    for word, parameter in parameters.items():
        if parameter is not None and tuple(parameter.shape) != wanted:
            raise RuntimeError(
                f"Expected {word} to be of same shape as normalized_shape, but got {word} of shape "
                f"{list(parameter.shape)} and normalized_shape = {list(wanted)}"
            )
    if x.ndim < len(wanted) or tuple(x.shape[x.ndim - len(wanted) :]) != wanted:
        listed = ", ".join(map(str, wanted))
        comma = "" if name == "rms_norm" else ", "
        raise RuntimeError(
            f"Given normalized_shape={list(wanted)}, expected input with shape [*{comma}{listed}], but got "
            "input of "
            f"size{list(x.shape)}"
        )
    return wanted


def _layer_rule(
    x: TensorType, shape: Sizes, weight: TensorType | None, bias: TensorType | None, eps: float,
    cudnn_enable: bool,
) -> TensorType:  # fmt: skip
    _check_normalized("layer_norm", x, shape, weight=weight, bias=bias)
    floats_only("LayerNormKernelImpl", x.dtype)
    check_parameters(x, weight, bias)
    return x


def _layer_kernel(
    x: Array, shape: Sizes, weight: Array | None, bias: Array | None, eps: float, cudnn_enable: bool
) -> Array:
    wanted = tuple(shape)
    rank = x.ndim - len(wanted)
    for parameter in (weight, bias):
        if parameter is not None and parameter.shape != wanted:
            raise ValueError(wanted)
    if not wanted or rank < 0 or x.shape[rank:] != wanted:
        raise ValueError(wanted)
    out, _, _, scale = _moments(namespace(x), row_major(working(x)), tuple(range(rank, x.ndim)), eps)
    out *= scale
    return _affine(out, weight, bias).astype(x.dtype, copy=False)


def _layer_vjp(
    needs: Sequence[bool], g: TensorLike, _out: object, x: TensorLike, shape: Sizes, weight: MaybeTensor,
    _bias: object, eps: float,
) -> list[Any]:  # fmt: skip
    shape = tuple(shape)
    rank = len(x.shape)
    return _norm_vjp(needs, g, x, weight, shape, tuple(range(rank - len(shape), rank)), eps)


def _layer_batch(op: Op, size: int, args: tuple[Any, ...], dims: tuple[Any, ...]) -> tuple[Any, Any]:
    x, shape, weight, bias, *rest = args
    if dims[2] is None and dims[3] is None:
        return op(to_front(x, dims[0]), *args[1:]), 0
    out = op(spread_to(x, dims[0], size), shape, None, None, *rest)
    gap = (1,) * (len(out.shape) - 1 - len(shape))
    if weight is not None:
        out = ops.mul(out, ops.reshape(spread_to(weight, dims[2], size), (size, *gap, *shape)))
    if bias is not None:
        out = ops.add(out, ops.reshape(spread_to(bias, dims[3], size), (size, *gap, *shape)))
    return out, 0


def _layer_samples(make: Maker) -> Iterator[Sample]:
    yield Sample(make(3, 4), (4,), make(4), make(4))
    yield Sample(make(2, 3, 4), (3, 4), make(3, 4), None, 1e-3)
    yield Sample(make(2, 3), (3,))
    yield Sample(make(0, 3), (3,), make(3), make(3))


layer_norm = reduce(
    "layer_norm", _layer_kernel, _layer_rule,
    "input: Tensor, normalized_shape: Any, weight: MaybeTensor = None, bias: MaybeTensor = None, eps: float "
    "= 1e-05, "
    "cudnn_enable: bool = True",
    vjp=joint(_layer_vjp), batch=_layer_batch, samples=_layer_samples, trusted=True, method=False, out=False,
    aliases=("nn.functional.layer_norm",), node="NativeLayerNormBackward0",
    refuses="nothing", lowering="folds", native_above=True,
)  # fmt: skip


# -- group norm ----------------------------------------------------------------------------------------------
def _group_rule(
    x: TensorType, groups: int, weight: TensorType | None, bias: TensorType | None, eps: float,
    cudnn_enabled: bool,
) -> TensorType:  # fmt: skip
    if x.ndim < 2:
        raise RuntimeError(f"Expected at least 2 dimensions for input tensor but received {x.ndim}")
    if groups <= 0:
        raise RuntimeError(f"Expected num groups to be greater than 0, got {groups}")
    if x.shape[1] % groups:
        raise RuntimeError(
            "Expected number of channels in input to be divisible by num_groups, but got input of shape "
            f"{list(x.shape)} and num_groups={groups}"
        )
    for word, parameter in (("weight", weight), ("bias", bias)):
        if parameter is not None and tuple(parameter.shape) != (x.shape[1],):
            raise RuntimeError(
                f"Expected {word} to be a vector of size equal to the number of channels in input, but got "
                f"{word} of shape "
                f"{list(parameter.shape)} and input of shape {list(x.shape)}"
            )
    floats_only("GroupNormKernelImpl", x.dtype)
    check_parameters(x, weight, bias)
    return x


def _group_shapes(shape: tuple[int, ...], groups: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The input's shape with channels split into groups, and that of its parameters."""
    inner = shape[1] // groups
    return (shape[0], groups, inner, math.prod(shape[2:])), (1, groups, inner, 1)


def _group_kernel(
    x: Array, groups: int, weight: Array | None, bias: Array | None, eps: float, cudnn_enabled: bool
) -> Array:
    split, affine = _group_shapes(x.shape, groups)
    out, _, _, scale = _moments(namespace(x), working(x).reshape(split), (2, 3), eps)
    out *= scale
    weight, bias = (None if p is None else p.reshape(affine) for p in (weight, bias))
    return _affine(out, weight, bias).reshape(x.shape).astype(x.dtype, copy=False)


def _group_vjp(
    needs: Sequence[bool], g: TensorLike, _out: object, x: TensorLike, groups: int, weight: MaybeTensor,
    _bias: object, eps: float,
) -> list[Any]:  # fmt: skip
    split, affine = _group_shapes(tuple(x.shape), groups)
    scaled = None if weight is None else ops.reshape(weight, affine)
    parts = _norm_vjp(needs, ops.reshape(g, split), ops.reshape(x, split), scaled, affine, (2, 3), eps)
    shapes = (tuple(x.shape), (x.shape[1],), (x.shape[1],))
    return [None if p is None else ops.reshape(p, s) for p, s in zip(parts, shapes, strict=True)]


def _group_batch(op: Op, size: int, args: tuple[Any, ...], dims: tuple[Any, ...]) -> tuple[Any, Any]:
    x, groups, weight, bias, *rest = args
    x = spread_to(x, dims[0], size)
    flat = ops.reshape(x, (size * x.shape[1], *x.shape[2:]))
    simple = dims[2] is None and dims[3] is None
    out = op(flat, groups, weight if simple else None, bias if simple else None, *rest)
    out = ops.reshape(out, tuple(x.shape))
    if not simple:
        shape = (size, 1, x.shape[2], *(1,) * (len(x.shape) - 3))
        if weight is not None:
            out = ops.mul(out, ops.reshape(spread_to(weight, dims[2], size), shape))
        if bias is not None:
            out = ops.add(out, ops.reshape(spread_to(bias, dims[3], size), shape))
    return out, 0


def _group_samples(make: Maker) -> Iterator[Sample]:
    yield Sample(make(2, 4, 3), 2, make(4), make(4))
    yield Sample(make(2, 6), 3, None, make(6), 1e-3)
    yield Sample(make(1, 4, 2, 2), 1, make(4))


group_norm = reduce(
    "group_norm", _group_kernel, _group_rule,
    "input: Tensor, num_groups: int, weight: MaybeTensor = None, bias: MaybeTensor = None, eps: float = "
    "1e-05, "
    "cudnn_enabled: bool = True",
    vjp=joint(_group_vjp), batch=_group_batch, samples=_group_samples, method=False, out=False,
    node="NativeGroupNormBackward0", refuses="nothing", lowering="norms",
)  # fmt: skip


@composite(
    "input: Tensor, num_groups: int, weight: MaybeTensor = None, bias: MaybeTensor = None, eps: float = "
    "1e-05",
    name="group_norm", namespace="nn.functional", samples=_group_samples,
)  # fmt: skip
def _group_norm_user(
    x: TensorLike, num_groups: int, weight: MaybeTensor, bias: MaybeTensor, eps: float
) -> Any:
    """Normalises each group of channels of each example."""
    shape = tuple(type_of(x).shape)
    if len(shape) < 2:
        raise RuntimeError(f"Expected at least 2 dimensions for input tensor but received {len(shape)}")
    count = shape[0] * shape[1] // num_groups * math.prod(shape[2:])
    if count == 1:
        raise ValueError(
            f"Expected more than 1 value per channel when training, got input size {list(shape)}"
        )
    return group_norm(x, num_groups, weight, bias, eps)


# -- batch norm ----------------------------------------------------------------------------------------------
def _channel_shape(rank: int, channels: int) -> tuple[int, ...]:
    return (1, channels, *(1,) * (rank - 2))


def _training_rule(
    x: TensorType, weight: TensorType | None, bias: TensorType | None, eps: float
) -> tuple[TensorType, TensorType, TensorType]:
    floats_only("batch_norm", x.dtype)
    check_parameters(x, weight, bias)
    kind = x.dtype.computes_in
    channels = (x.shape[1],)
    return x, TensorType(channels, kind, x.device), TensorType(channels, kind, x.device)


def _training_kernel(
    x: Array, weight: Array | None, bias: Array | None, eps: float
) -> tuple[Array, Array, Array]:
    dims = (0, *range(2, x.ndim))
    out, mean, variance, scale = _moments(namespace(x), working(x), dims, eps)
    shape = _channel_shape(x.ndim, x.shape[1])
    if weight is not None:
        scale = scale * working(weight).reshape(shape)
    out *= scale
    if bias is not None:
        out += working(bias).reshape(shape)
    return out.astype(x.dtype, copy=False), mean.reshape(-1), variance.reshape(-1)


def _training_vjp(
    needs: Sequence[bool], g: Sequence[MaybeTensor], _out: object, x: TensorLike, weight: MaybeTensor,
    _bias: object, eps: float,
) -> list[Any]:  # fmt: skip
    shape = _channel_shape(len(x.shape), x.shape[1])
    scaled = None if weight is None else ops.reshape(weight, shape)
    dims = (0, *range(2, len(x.shape)))
    parts = [None] * 3 if g[0] is None else _norm_vjp(needs, g[0], x, scaled, shape, dims, eps)
    by_input = parts[0]
    if needs[0]:  # the statistics are outputs too, for the running ones and for whoever differentiates them
        count = math.prod(x.shape[d] for d in dims)
        for grad, centred in ((g[1], False), (g[2], True)):
            if grad is None:
                continue
            share = ops.reshape(ops.div(grad, count), shape)
            spread = ops.mul(ops.sub(x, ops.mean(x, dims, True)), ops.mul(share, 2)) if centred else share
            spread = ops.expand(spread, tuple(x.shape))
            by_input = spread if by_input is None else ops.add(by_input, spread)
    return [by_input, *(None if p is None else ops.reshape(p, (x.shape[1],)) for p in parts[1:])]


def _fold_channels(value: TensorLike, dim: int | None, size: int) -> Any:
    """`(B, N, C, …)` as `(N, B * C, …)`."""
    value = ops.movedim(spread_to(value, dim, size), 0, 1)
    return ops.reshape(value, (value.shape[0], size * value.shape[2], *value.shape[3:]))


def _training_batch(op: Op, size: int, args: tuple[Any, ...], dims: tuple[Any, ...]) -> tuple[Any, Any]:
    """A batch becomes more channels."""
    x, weight, bias, eps = args
    wide = _fold_channels(x, dims[0], size)
    weight, bias = (
        None if p is None else ops.reshape(spread_to(p, d, size), (-1,))
        for p, d in ((weight, dims[1]), (bias, dims[2]))
    )
    out, mean, variance = op(wide, weight, bias, eps)
    channels = wide.shape[1] // size
    out = ops.reshape(out, (out.shape[0], size, channels, *out.shape[2:]))
    return (out, ops.reshape(mean, (size, channels)), ops.reshape(variance, (size, channels))), (1, 0, 0)


def _training_samples(make: Maker) -> Iterator[Sample]:
    yield Sample(make(4, 3), make(3), make(3), 1e-3)
    yield Sample(make(3, 2, 3), None, make(2), 1e-3)
    yield Sample(make(2, 3, 2, 2), make(3), None, 1e-3)


batch_norm_training = reduce(
    "batch_norm_training", _training_kernel, _training_rule,
    "input: Tensor, weight: MaybeTensor, bias: MaybeTensor, eps: float", vjp=joint(_training_vjp), **HIDDEN,
    batch=_training_batch, samples=_training_samples, node="NativeBatchNormBackward0", refuses="nothing",
    lowering="norms",
)  # fmt: skip


def _inference_rule(
    x: TensorType, weight: TensorType | None, bias: TensorType | None, mean: TensorType,
    variance: TensorType, eps: float,
) -> TensorType:  # fmt: skip
    floats_only("batch_norm", x.dtype)
    check_parameters(x, weight, bias)
    return x


def _inference_kernel(
    x: Array, weight: Array | None, bias: Array | None, mean: Array, variance: Array, eps: float
) -> Array:
    xp = namespace(x)
    shape = _channel_shape(x.ndim, x.shape[1])
    scale = 1.0 / xp.sqrt(working(variance) + eps)
    scale = scale if weight is None else scale * working(weight)
    shift = -working(mean) * scale
    shift = shift if bias is None else shift + working(bias)
    out = working(x) * scale.reshape(shape)
    out += shift.reshape(shape)
    return out.astype(x.dtype, copy=False)


def _inference_vjp(
    needs: Sequence[bool], g: TensorLike, _out: object, x: TensorLike, weight: MaybeTensor, _bias: object,
    mean: TensorLike, variance: TensorLike, eps: float,
) -> list[Any]:  # fmt: skip
    rank = len(x.shape)
    shape, dims = _channel_shape(rank, x.shape[1]), (0, *range(2, rank))
    scale = ops.rsqrt(ops.add(variance, eps))
    by_input = by_weight = None
    if needs[0]:
        factor = scale if weight is None else ops.mul(scale, weight)
        by_input = ops.mul(g, ops.reshape(factor, shape))
    if needs[1]:
        centred = ops.sub(x, ops.reshape(mean, shape))
        by_weight = ops.mul(ops.sum(ops.mul(g, centred), dims), scale)
    return [by_input, by_weight, ops.sum(g, dims) if needs[2] else None, None, None]


def _inference_samples(make: Maker) -> Iterator[Sample]:
    yield Sample(make(4, 3), make(3), make(3), make(3), make(3, low=0.5), 1e-3, grad=False)
    yield Sample(make(2, 3, 2, 2), None, None, make(3), make(3, low=0.5), 1e-3, grad=False)


def _inference_batch(op: Op, size: int, args: tuple[Any, ...], dims: tuple[Any, ...]) -> tuple[Any, Any]:
    wide = _fold_channels(args[0], dims[0], size)
    parameters = [
        None if p is None else ops.reshape(spread_to(p, d, size), (-1,))
        for p, d in zip(args[1:5], dims[1:5], strict=True)
    ]
    out = op(wide, *parameters, args[5])
    return ops.reshape(out, (out.shape[0], size, out.shape[1] // size, *out.shape[2:])), 1


batch_norm_inference = reduce(
    "batch_norm_inference", _inference_kernel, _inference_rule,
    "input: Tensor, weight: MaybeTensor, bias: MaybeTensor, running_mean: Tensor, running_var: Tensor, eps: "
    "float",
    vjp=joint(_inference_vjp), batch=_inference_batch, samples=_inference_samples,
    node="NativeBatchNormBackward0", **HIDDEN, refuses="nothing", lowering="norms",
)  # fmt: skip


def _update(running: Any, batch: TensorLike, momentum: float) -> None:
    """Moves a running statistic towards a batch's, in place and unrecorded."""
    token = modes.enter(grad=False)
    try:
        running.mul_(1.0 - momentum).add_(batch, alpha=momentum)
    finally:
        modes.leave(token)


def _check_channels(channels: int, **parameters: Any) -> None:
    for word, parameter in parameters.items():
        if parameter is not None and math.prod(parameter.shape) != channels:
            raise RuntimeError(f"{word} should contain {channels} elements not {math.prod(parameter.shape)}")


def _run_batch_norm(
    x: TensorLike, weight: MaybeTensor, bias: MaybeTensor, mean: MaybeTensor, variance: MaybeTensor,
    training: bool, momentum: float | None, eps: float,
) -> Any:  # fmt: skip
    kind = type_of(x)
    if not isinstance(momentum, (int, float)):
        raise TypeError(
            f"batch_norm(): argument 'momentum' (position 7) must be float, not {type(momentum).__name__}"
        )
    if not training:
        for word, statistic in (("running_mean", mean), ("running_var", variance)):
            if statistic is None:
                raise RuntimeError(f"{word} must be defined in evaluation mode")
    if kind.ndim < 2 and kind.numel():
        raise IndexError("Dimension out of range (expected to be in range of [-1, 0], but got 1)")
    channels = kind.shape[1] if kind.ndim > 1 else 0
    _check_channels(channels, running_mean=mean, running_var=variance, weight=weight, bias=bias)
    if kind.ndim < 2:
        return ops.clone(x)
    if not training:
        return batch_norm_inference(x, weight, bias, mean, variance, eps)
    out, batch_mean, batch_variance = batch_norm_training(x, weight, bias, eps)
    count = kind.numel() // max(channels, 1)
    if count and mean is not None and hasattr(mean, "mul_"):
        _update(mean, batch_mean, momentum)
    if count and variance is not None and hasattr(variance, "mul_"):
        unbiased = no_grad(ops.mul, batch_variance, count / max(count - 1, 1))
        _update(variance, unbiased, momentum)
    return out


def _batch_samples(make: Maker) -> Iterator[Sample]:
    yield Sample(make(4, 3), None, None, make(3), make(3), True)
    yield Sample(make(3, 2, 3), make(2), make(2, low=0.5), make(2), make(2), False, 0.1, 1e-3, grad=False)


@composite(
    "input: Tensor, weight: MaybeTensor, bias: MaybeTensor, running_mean: MaybeTensor, running_var: "
    "MaybeTensor, "
    "training: bool, momentum: Any, eps: float, cudnn_enabled: bool",
    method=False,
    samples=lambda make: [Sample(make(4, 3), make(3), make(3), None, None, True, 0.1, 1e-3, False)],
)
def batch_norm(
    x: TensorLike, weight: MaybeTensor, bias: MaybeTensor, mean: MaybeTensor, variance: MaybeTensor,
    training: bool, momentum: float | None, eps: float, _cudnn: bool,
) -> Any:  # fmt: skip
    """Normalises each channel over the batch, or by running statistics."""
    return _run_batch_norm(x, weight, bias, mean, variance, training, momentum, eps)


@composite(
    "input: Tensor, running_mean: MaybeTensor, running_var: MaybeTensor, weight: MaybeTensor = None, "
    "bias: MaybeTensor = None, training: bool = False, momentum: Any = 0.1, eps: float = 1e-05",
    name="batch_norm", namespace="nn.functional", samples=_batch_samples,
)  # fmt: skip
def _batch_norm_user(
    x: TensorLike, mean: MaybeTensor, variance: MaybeTensor, weight: MaybeTensor, bias: MaybeTensor,
    training: bool, momentum: float | None, eps: float,
) -> Any:  # fmt: skip
    """Normalises each channel over the batch (and updates running statistics), or by running statistics."""
    shape = type_of(x).shape
    if training and shape[0] * math.prod(shape[2:]) == 1:
        raise ValueError(
            f"Expected more than 1 value per channel when training, got input size {Size(shape)!r}"
        )
    return _run_batch_norm(x, weight, bias, mean, variance, training, momentum, eps)


# -- instance norm -------------------------------------------------------------------------------------------
def _instance_samples(make: Maker) -> Iterator[Sample]:
    yield Sample(make(2, 3, 4))
    yield Sample(make(2, 2, 3, 2), weight=make(2), bias=make(2), eps=1e-3)
    yield Sample(make(2, 2, 3), make(2), make(2, low=0.5), None, None, False, grad=False)


@composite(
    "input: Tensor, running_mean: MaybeTensor = None, running_var: MaybeTensor = None, weight: MaybeTensor "
    "= None, "
    "bias: MaybeTensor = None, use_input_stats: bool = True, momentum: float = 0.1, eps: float = 1e-05",
    name="instance_norm", namespace="nn.functional", samples=_instance_samples,
)  # fmt: skip
def _instance_norm_user(
    x: Any,
    mean: Any,
    variance: Any,
    weight: Any,
    bias: Any,
    use_input_stats: bool,
    momentum: float,
    eps: float,
) -> Any:
    """Normalises each channel of each example over its spatial dimensions."""
    shape = tuple(type_of(x).shape)
    if use_input_stats and math.prod(shape[2:]) == 1:
        raise ValueError(
            f"Expected more than 1 spatial element when training, got input size {Size(shape)!r}"
        )
    return _run_instance_norm(x, weight, bias, mean, variance, use_input_stats, momentum, eps)


@composite(
    "input: Tensor, weight: MaybeTensor, bias: MaybeTensor, running_mean: MaybeTensor, running_var: "
    "MaybeTensor, "
    "use_input_stats: bool, momentum: float, eps: float, cudnn_enabled: bool",
    method=False,
    samples=lambda make: [Sample(make(2, 3, 4), make(3), make(3), None, None, True, 0.1, 1e-3, False)],
)
def instance_norm(
    x: TensorLike, weight: MaybeTensor, bias: MaybeTensor, mean: MaybeTensor, variance: MaybeTensor,
    use_input_stats: bool, momentum: float, eps: float, _cudnn: bool,
) -> Any:  # fmt: skip
    """Normalises each channel of each example over its spatial dimensions."""
    return _run_instance_norm(x, weight, bias, mean, variance, use_input_stats, momentum, eps)


def _run_instance_norm(
    x: TensorLike, weight: MaybeTensor, bias: MaybeTensor, mean: MaybeTensor, variance: MaybeTensor,
    use_input_stats: bool, momentum: float, eps: float,
) -> Any:  # fmt: skip
    if not use_input_stats and (mean is None or variance is None):
        raise RuntimeError(
            "Expected running_mean and running_var to be defined when use_input_stats is false"
        )
    shape = tuple(type_of(x).shape)
    count, channels = shape[0], shape[1]

    def spread(value: MaybeTensor) -> Any:
        return None if value is None else ops.repeat(value, (count,))

    wide = ops.reshape(x, (1, count * channels, *shape[2:]))
    means, variances = no_grad(spread, mean), no_grad(spread, variance)
    scale, shift = spread(weight), spread(bias)
    out = _run_batch_norm(wide, scale, shift, means, variances, use_input_stats, momentum, eps)
    if use_input_stats and hasattr(mean, "copy_"):
        for statistic, found in ((mean, means), (variance, variances)):
            if statistic is not None:
                average = no_grad(lambda found=found: ops.mean(ops.reshape(found, (count, channels)), 0))
                no_grad(statistic.copy_, average)
    return ops.reshape(out, shape)


# -- RMS norm, unit vectors, distances -----------------------------------------------------------------------
def _rms_samples(make: Maker) -> Iterator[Sample]:
    yield Sample(make(3, 4), (4,), make(4))
    yield Sample(make(2, 3, 4), (3, 4), None, 1e-3)


@composite(
    "input: Tensor, normalized_shape: Any, weight: MaybeTensor = None, eps: Any = None", method=False,
    aliases=("nn.functional.rms_norm",), samples=_rms_samples,
)  # fmt: skip
def rms_norm(x: TensorLike, normalized_shape: Sizes, weight: MaybeTensor, eps: float | None) -> Any:
    """Divides by the root of the mean square over the last dimensions."""
    kind = type_of(x)
    parameter = None if weight is None else type_of(weight)
    if kind.ndim < len(tuple(normalized_shape)):
        raise ValueError(
            f"Input tensor must have at least {len(tuple(normalized_shape))} dimensions, but got {kind.ndim}"
        )
    shape = _check_normalized("rms_norm", kind, normalized_shape, weight=parameter)
    if not kind.dtype.is_complex:
        floats_only("rms_norm", kind.dtype)
    wide = kind.dtype in HALVES
    work = ops._to_copy(x, float32) if wide else x
    dims = tuple(range(kind.ndim - len(shape), kind.ndim))
    floor = finfo(float32 if wide else kind.dtype).eps if eps is None else eps
    out = ops.mul(work, ops.rsqrt(ops.add(ops.mean(ops.mul(work, work), dims, True), floor)))
    if weight is not None:
        out = ops.mul(out, weight)
    return out if type_of(out).dtype is kind.dtype else ops._to_copy(out, kind.dtype)


def _normalize_samples(make: Maker) -> Iterator[Sample]:
    yield Sample(make(3, 4))
    yield Sample(make(2, 3, 4), 1.5, -1)
    yield Sample(make(2, 3), dim=0, eps=1e-3)


@composite(
    "input: Tensor, p: Any = 2.0, dim: Any = 1, eps: float = 1e-12", namespace="nn.functional", out=True,
    samples=_normalize_samples,
)  # fmt: skip
def normalize(x: TensorLike, p: float, dim: int, eps: float) -> Any:
    """Divides by the p-norm along `dim`, or by `eps` where that is smaller."""
    length = ops.clamp_min(ops.linalg_vector_norm(x, p, dim, True), eps)
    return ops.div(x, ops.expand(length, tuple(type_of(x).shape)))


def _common(x: TensorLike, y: TensorLike) -> dtype:
    return promote_types(type_of(x).dtype, type_of(y).dtype)


def _pair_samples(make: Maker) -> Iterator[Sample]:
    yield Sample(make(3, 4), make(3, 4))
    yield Sample(make(2, 3, 4), make(3, 1), dim=-1)
    yield Sample(make(4), make(4), dim=0)


@composite(
    "x1: Tensor, x2: Tensor, dim: int = 1, eps: float = 1e-08", method=False,
    aliases=("nn.functional.cosine_similarity",), samples=_pair_samples,
)  # fmt: skip
def cosine_similarity(x1: TensorLike, x2: TensorLike, dim: int, eps: float) -> Any:
    """The cosine of the angle between vectors along `dim`; lengths count as `eps` at least."""
    kind = _common(x1, x2)
    if not kind.is_floating_point:
        raise RuntimeError(
            f"expected common dtype to be floating point, yet common dtype is {kind.scalar_name}"
        )
    shape = broadcast_shapes(type_of(x1).shape, type_of(x2).shape)
    parts = []
    for x in (x1, x2):
        x = x if same_shape(type_of(x).shape, shape) else ops.expand(x, shape)
        x = x if type_of(x).dtype is kind else ops._to_copy(x, kind)
        length = ops.linalg_vector_norm(x, 2, dim, True)
        # Where the length is too small it is replaced in value only: the gradient is still that of the
        # length.
        lift = no_grad(lambda length=length: ops.sub(ops.clamp_min(length, eps), length))
        parts.append(ops.div(x, ops.add(length, lift)))
    return ops.sum(ops.mul(*parts), dim)


def _distance_samples(make: Maker) -> Iterator[Sample]:
    yield Sample(make(3, 4), make(3, 4))
    yield Sample(make(2, 3, 4), make(4), 1.5, 1e-3, True)
    yield Sample(make(4), make(2, 4), 3)


@composite(
    "x1: Tensor, x2: Tensor, p: Any = 2.0, eps: float = 1e-06, keepdim: bool = False", method=False,
    aliases=("nn.functional.pairwise_distance",), samples=_distance_samples,
)  # fmt: skip
def pairwise_distance(x1: TensorLike, x2: TensorLike, p: float, eps: float, keepdim: bool) -> Any:
    """The p-norm of the difference of vectors along the last dimension."""
    return ops.norm(ops.add(ops.sub(x1, x2), eps), p, -1, keepdim)
