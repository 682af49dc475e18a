"""Losses: distances between predictions and targets, per element or reduced.

Takes predictions and targets; gives a number, or one per element with `reduction="none"`. The one idea: what
must be quick or needs care at the edges (the class losses, squared error, cross entropy of probabilities near
0 and 1) is a record with its own gradient; everything else is written in ops.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from operator import itemgetter
from typing import Any

from weft.core.arrays import Array, ArrayModule, namespace
from weft.core.dtypes import as_dtype, bfloat16, dtype, float16, int64, promote_types, uint8
from weft.core.interrupts import let_through
from weft.core.types import Size, TensorType
from weft.core.warn import warn
from weft.ops.batching import spread_to
from weft.ops.facts import Rule
from weft.ops.families import HIDDEN, composite, float_result, pointwise, reduce
from weft.ops.options import LARGEST
from weft.ops.record import Op, broadcast_shapes, ops, same_shape, type_of, unsupported
from weft.ops.samples import Maker, Sample, Samples
from weft.ops.softmax import floats_only, log_softmax, working
from weft.ops.values import ArrayDType, BodyBuilder, Element, MaybeTensor, Operand, TensorLike

Legacy = bool | None  # of the old pair of arguments
LEGACY = "size_average: Any = None, reduce: Any = None"
REDUCTION = "reduction: str = 'mean'"
REDUCTIONS = ("mean", "sum", "none")
PLACE: dict[str, Any] = {"namespace": "nn.functional", "amp": "float32"}


# -- reductions --------------------------------------------------------------------------------------------
def legacy_reduction(size_average: Legacy, reduce: Legacy, reduction: str) -> str:
    """The reduction that the old pair of arguments stands for, with a word about it."""
    if size_average is None and reduce is None:
        return reduction
    average = size_average is None or size_average
    chosen = "none" if reduce is not None and not reduce else "mean" if average else "sum"
    warn(f"size_average and reduce args will be deprecated, please use reduction='{chosen}' instead.")
    return chosen


def check_reduction(reduction: str) -> None:
    if reduction not in REDUCTIONS:
        raise ValueError(f"{reduction} is not a valid value for reduction")


def reduced(loss: TensorLike, reduction: str) -> Any:
    """The elements, their mean or their sum."""
    if reduction not in REDUCTIONS:
        check_reduction(reduction)
    if reduction == "none":
        return loss
    return ops.mean(loss) if reduction == "mean" else ops.sum(loss)


def loss_of_elements(signature: str, samples: Samples, node: str | None = None) -> Callable[[Rule], Op]:
    """Decorator: the function below gives the loss of each element. Its op in `nn.functional` reduces it, as
    `reduction` or the older pair of arguments say, which the function is not given.
    """
    if "reduction" not in signature:
        signature = f"{signature}, {LEGACY}, {REDUCTION}"
    names = [parameter.partition(":")[0] for parameter in signature.split(", ")]
    average, reduce, how = (names.index(word) for word in ("size_average", "reduce", "reduction"))
    own = itemgetter(*(place for place in range(len(names)) if place not in (average, reduce, how)))

    def define(elements: Rule) -> Op:
        def body(*args: Any) -> Any:
            reduction = legacy_reduction(args[average], args[reduce], args[how])
            check_reduction(reduction)
            return reduced(elements(*own(args)), reduction)

        body.__doc__ = elements.__doc__
        return composite(signature, elements.__name__, samples=samples, node=node, **PLACE)(body)

    return define


def _matched(input: Operand, target: Operand) -> tuple[Any, Any]:
    """Input and target with one shape; a target that had to be broadcast is worth a warning."""
    for value in (input, target):
        if not hasattr(value, "shape"):
            raise AttributeError(f"'{type(value).__name__}' object has no attribute 'size'")
    have, want = type_of(input).shape, type_of(target).shape
    if have == want:
        return input, target
    warn(
        f"Using a target size ({Size(want)!r}) that is different to the input size ({Size(have)!r}). This "
        "will likely lead "
        "to incorrect results due to broadcasting. Please ensure they have the same size."
    )
    shape = broadcast_shapes(have, want)
    return ops.expand(input, shape), ops.expand(target, shape)


def _only_floats(name: str, *values: Operand) -> None:
    kind = type_of(values[0]).dtype
    for value in values[1:]:
        kind = promote_types(kind, type_of(value).dtype)
    if not kind.is_floating_point:
        raise unsupported(name, kind)


def _weighted(loss: TensorLike, weight: TensorLike, input: Operand, reduction: str) -> Any:
    """A loss with a weight per element: the mean is a weighted one."""
    if not same_shape(type_of(weight).shape, type_of(input).shape):
        raise ValueError("Weights and input must have the same size.")
    scaled = ops.mul(loss, weight)
    if reduction == "mean":
        return ops.div(ops.sum(scaled), ops.sum(weight))
    return reduced(scaled, reduction)


# -- squared, absolute and robust errors ---------------------------------------------------------------------
def _mse_kernel(x: Array, y: Array, reduction: str) -> Array:
    xp = namespace(x)
    kind = x.dtype
    if y.dtype is not kind:
        common = promote_types(as_dtype(x.dtype), as_dtype(y.dtype))
        kind, carrier = common.numpy, common.computes_in.numpy
        x, y = x.astype(carrier), y.astype(carrier)
    difference = xp.subtract(working(x), working(y), out=...)
    xp.multiply(difference, difference, out=difference)
    if reduction != "none":
        count = difference.size
        difference = xp.add.reduce(difference, None, out=...)
        if reduction == "mean":
            difference /= count
    return difference if difference.dtype is kind else difference.astype(kind)


def _mse_rule(x: TensorType, y: TensorType, reduction: str) -> TensorType:
    kind = promote_types(x.dtype, y.dtype)
    floats_only("mse_cpu", kind)
    return TensorType(x.shape if reduction == "none" else (), kind, x.device)


def _mse_vjp(g: TensorLike, _out: object, x: TensorLike, y: TensorLike, reduction: str) -> Any:
    scale = 2.0 / max(math.prod(x.shape), 1) if reduction == "mean" else 2.0
    return ops.mul(ops.sub(x, y), ops.mul(g, scale))


def _mse_batch(op: Op, size: int, args: tuple[Any, ...], dims: tuple[Any, ...]) -> tuple[Any, Any]:
    x, y = spread_to(args[0], dims[0], size), spread_to(args[1], dims[1], size)
    out = op(x, y, "none")
    if args[2] == "none" or len(out.shape) == 1:
        return out, 0
    axes = tuple(range(1, len(out.shape)))
    return (ops.mean if args[2] == "mean" else ops.sum)(out, axes), 0


mse_elements = reduce(
    "mse_loss", _mse_kernel, _mse_rule, "input: Tensor, target: Tensor, reduction: str",
    vjp=(_mse_vjp, lambda g, _out, x, y, reduction: ops.neg(_mse_vjp(g, _out, x, y, reduction))),
    batch=_mse_batch,
    samples=lambda make: [Sample(make(2, 3), make(2, 3), how) for how in REDUCTIONS],
    trusted=True, **HIDDEN, refuses="nothing", lowering="losses",
)  # fmt: skip


def _pair_samples(make: Maker) -> Iterator[Sample]:
    for reduction in REDUCTIONS:
        yield Sample(make(2, 3), make(2, 3), reduction=reduction)
    yield Sample(make(2, 3), make(2, 3), weight=make(2, 3, low=0.5))
    yield Sample(make(), make())


@composite(
    f"input: Operand, target: Operand, {LEGACY}, {REDUCTION}, weight: MaybeTensor = None",
    **PLACE, samples=_pair_samples,
)  # fmt: skip
def mse_loss(
    input: Operand, target: Operand, size_average: Legacy, reduce: Legacy, reduction: str, weight: MaybeTensor
) -> Any:
    """The squared difference."""
    input, target = _matched(input, target)
    reduction = legacy_reduction(size_average, reduce, reduction)
    check_reduction(reduction)
    _only_floats("mse_cpu", input, target)
    if weight is None:
        return mse_elements(input, target, reduction)
    return _weighted(mse_elements(input, target, "none"), weight, input, reduction)


@composite(
    f"input: Operand, target: Operand, {LEGACY}, {REDUCTION}, weight: MaybeTensor = None",
    **PLACE, samples=_pair_samples,
)  # fmt: skip
def l1_loss(
    input: Operand, target: Operand, size_average: Legacy, reduce: Legacy, reduction: str, weight: MaybeTensor
) -> Any:
    """The absolute difference."""
    input, target = _matched(input, target)
    reduction = legacy_reduction(size_average, reduce, reduction)
    loss = ops.abs(ops.sub(input, target))
    return reduced(loss, reduction) if weight is None else _weighted(loss, weight, input, reduction)


def _huber_kernel(x: Array, y: Array, delta: float) -> Array:
    xp = namespace(x)
    distance = xp.abs(x - y)
    edge, half = xp.asarray(delta, x.dtype), xp.asarray(0.5, x.dtype)
    far = edge * (distance - xp.multiply(half, edge, out=...))
    return xp.where(distance <= edge, half * distance * distance, far)


def _emit_huber(b: BodyBuilder, x: Element, y: Element, delta: float) -> Any:
    distance, edge, half = b.abs(b.sub(x, y)), b.like(delta, x), b.like(0.5, x)
    near = b.mul(b.mul(half, distance), distance)
    far = b.mul(edge, b.sub(distance, b.mul(half, edge)))
    return b.select(b.le(distance, edge), near, far)


def _huber_gradient(g: TensorLike, x: TensorLike, y: TensorLike, delta: float) -> Any:
    """The difference, up to the edge; an edge that no element can reach is none, and `clamp` refuses it."""
    difference = ops.sub(x, y)
    far = delta > LARGEST[type_of(x).dtype]
    return ops.mul(g, difference if far else ops.clamp(difference, -delta, delta))


def _two_parts(
    name: str, edge: str, kernel: Rule, emit: Rule, gradient: Rule, stepwise: tuple[dtype, ...]
) -> Op:
    """A distance that is square near zero and a line beyond the edge."""
    return pointwise(
        name, kernel, float_result, f"input: Tensor, target: Tensor, {edge}: float = 1.0", emit=emit,
        vjp=(
            lambda g, _out, x, y, edge: gradient(g, x, y, edge),
            lambda g, _out, x, y, edge: ops.neg(gradient(g, x, y, edge)),
        ),
        samples=lambda make: [Sample(make(2, 3), make(2, 3), 0.7), Sample(make(3), make(), 1.0)],
        native_above=True, stepwise=stepwise, **HIDDEN,
    )  # fmt: skip


huber_elements = _two_parts(
    "huber_elements", "delta", _huber_kernel, _emit_huber, _huber_gradient, (bfloat16,)
)


def _smooth_kernel(x: Array, y: Array, beta: float) -> Array:
    xp = namespace(x)
    distance = xp.abs(x - y)
    edge, half = xp.asarray(beta, x.dtype), xp.asarray(0.5, x.dtype)
    far = distance - xp.multiply(half, edge, out=...)
    return xp.where(distance < edge, half * distance * distance / edge, far)


def _emit_smooth(b: BodyBuilder, x: Element, y: Element, beta: float) -> Any:
    distance, edge, half = b.abs(b.sub(x, y)), b.like(beta, x), b.like(0.5, x)
    near = b.div(b.mul(b.mul(half, distance), distance), edge)
    return b.select(b.lt(distance, edge), near, b.sub(distance, b.mul(half, edge)))


def _smooth_gradient(g: TensorLike, x: TensorLike, y: TensorLike, beta: float) -> Any:
    gap = ops.sub(x, y)
    far = ops.ge(ops.abs(gap), beta)
    return ops.where(far, ops.mul(ops.sign(gap), g), ops.div(ops.mul(gap, g), beta))


smooth_l1_elements = _two_parts(
    "smooth_l1_elements", "beta", _smooth_kernel, _emit_smooth, _smooth_gradient, (float16,)
)


@composite(
    f"input: Operand, target: Operand, {REDUCTION}, delta: float = 1.0, weight: MaybeTensor = None",
    **PLACE, samples=_pair_samples, node="HuberLossBackward0",
)  # fmt: skip
def huber_loss(input: Operand, target: Operand, reduction: str, delta: float, weight: MaybeTensor) -> Any:
    """Squared near zero, linear beyond `delta`."""
    input, target = _matched(input, target)
    check_reduction(reduction)
    if delta <= 0:
        raise RuntimeError("huber_loss does not support non-positive values for delta.")
    _only_floats("huber_cpu", input, target)
    loss = huber_elements(input, target, delta)
    if weight is not None:  # unlike the squared error's, the mean is a plain one
        loss = _weighted(loss, weight, input, "none")
    return reduced(loss, reduction)


def _smooth_samples(make: Maker) -> Iterator[Sample]:
    yield Sample(make(2, 3), make(2, 3))
    yield Sample(make(2, 3), make(2, 3), reduction="none", beta=0.5)
    yield Sample(make(2, 3), make(2, 3), reduction="sum", beta=0)


@composite(
    f"input: Operand, target: Operand, {LEGACY}, {REDUCTION}, beta: float = 1.0", namespace="nn.functional",
    amp="float32", samples=_smooth_samples, node="SmoothL1LossBackward0",
)  # fmt: skip
def smooth_l1_loss(
    input: Operand, target: Operand, size_average: Legacy, reduce: Legacy, reduction: str, beta: float
) -> Any:
    """The absolute difference, quadratic below `beta`."""
    input, target = _matched(input, target)
    reduction = legacy_reduction(size_average, reduce, reduction)
    check_reduction(reduction)
    if beta < 0:
        raise RuntimeError("smooth_l1_loss does not support negative values for beta.")
    _only_floats("smooth_l1_cpu", input, target)
    if beta == 0:
        return reduced(ops.abs(ops.sub(input, target)), reduction)
    return reduced(smooth_l1_elements(input, target, beta), reduction)


# -- probabilities -------------------------------------------------------------------------------------------
def _divergence_samples(make: Maker) -> Iterator[Sample]:
    for reduction in ("batchmean", "sum", "none"):
        yield Sample(make(2, 3), make(2, 3, low=0.1), reduction=reduction)
    yield Sample(make(2, 3), make(2, 3), reduction="sum", log_target=True)


@composite(
    f"input: Tensor, target: Tensor, {LEGACY}, {REDUCTION}, log_target: bool = False",
    **PLACE, samples=_divergence_samples,
)  # fmt: skip
def kl_div(
    input: TensorLike, target: TensorLike, size_average: Legacy, reduce: Legacy, reduction: str,
    log_target: bool,
) -> Any:  # fmt: skip
    """The Kullback-Leibler divergence of `input` (logarithms) from `target`."""
    if size_average is not None or reduce is not None:
        reduction = legacy_reduction(size_average, reduce, reduction)
    elif reduction == "mean":
        warn(
            "reduction: 'mean' divides the total loss by both the batch size and the support "
            "size.'batchmean' divides only by the batch size, and aligns with the KL div math definition."
            "'mean' will be changed to behave the same as 'batchmean' in the next major release."
        )
    kinds = type_of(input).dtype, type_of(target).dtype
    if not all(kind.is_floating_point for kind in kinds):
        numbers = "Complex" if any(kind.is_complex for kind in kinds) else "Integral"
        raise RuntimeError(f"kl_div: {numbers} inputs not supported.")
    if log_target:
        loss = ops.mul(ops.exp(target), ops.sub(target, input))
    else:
        loss = ops.sub(ops.xlogy(target, target), ops.mul(target, input))
    if reduction != "batchmean":
        return reduced(loss, reduction)
    shape = type_of(input).shape
    total = ops.sum(loss)
    return ops.div(total, shape[0]) if shape else total


def _bce_kernel(x: Array, y: Array) -> Array:
    xp = namespace(x)
    for array, word in ((x, "input"), (y, "target")):
        if not xp.logical_and(array >= 0, array <= 1).all():
            raise RuntimeError(f"all elements of {word} should be between 0 and 1")
    return (y - 1) * xp.maximum(xp.log1p(-x), -100) - y * xp.maximum(xp.log(x), -100)


def _bce_vjp(g: TensorLike, _out: object, x: TensorLike, y: TensorLike) -> Any:
    """(x - y) / (x * (1 - x)), the divisor kept off zero."""
    return ops.div(ops.mul(g, ops.sub(x, y)), ops.clamp_min(ops.mul(ops.rsub(x, 1), x), 1e-12))


bce_elements = pointwise(
    "binary_cross_entropy", _bce_kernel, float_result, signature="input: Tensor, target: Tensor",
    vjp=(_bce_vjp, lambda g, _out, x: ops.mul(g, ops.sub(ops.log(ops.rsub(x, 1)), ops.log(x)))),
    samples=lambda make: [Sample(make(2, 3, low=0.1, high=0.9), make(2, 3, low=0.1, high=0.9))],
    **HIDDEN, refuses="anything", lowering="losses",
)  # fmt: skip


def _bce_samples(make: Maker) -> Iterator[Sample]:
    for reduction in REDUCTIONS:
        yield Sample(make(2, 3, low=0.1, high=0.9), make(2, 3, low=0.1, high=0.9), reduction=reduction)
    yield Sample(make(2, 3, low=0.1, high=0.9), make(2, 3, low=0.1, high=0.9), make(3, low=0.5))


def _expanded_weight(weight: TensorLike, shape: tuple[int, ...]) -> Any:
    have = tuple(type_of(weight).shape)
    if same_shape(have, shape):
        return weight
    for back in range(1, min(len(have), len(shape)) + 1):
        if have[-back] not in (1, shape[-back]):
            raise RuntimeError(
                f"Attempting to broadcast a dimension of length {have[-back]} at -{back}! Mismatching "
                "argument at index 1 had "
                f"{Size(have)!r}; but expected shape should be broadcastable to {list(shape)}"
            )
    return ops.expand(weight, tuple(shape))


@loss_of_elements(
    "input: Tensor, target: Tensor, weight: MaybeTensor = None",
    _bce_samples,
    node="BinaryCrossEntropyBackward0",
)
def binary_cross_entropy(input: TensorLike, target: TensorLike, weight: MaybeTensor) -> Any:
    """The cross entropy of probabilities `input` with probabilities `target`."""
    have, want = type_of(input), type_of(target)
    if have.shape != want.shape:
        raise ValueError(
            f"Using a target size ({Size(want.shape)!r}) that is different to the input size "
            f"({Size(have.shape)!r}) is "
            "deprecated. Please ensure they have the same size."
        )
    if weight is not None:
        weight = _expanded_weight(weight, have.shape)
    if want.dtype is not have.dtype:
        raise RuntimeError(f"Found dtype {want.dtype.scalar_name} but expected {have.dtype.scalar_name}")
    _only_floats("binary_cross_entropy", input)
    loss = bce_elements(input, target)
    return loss if weight is None else ops.mul(loss, weight)


def _logit_samples(make: Maker) -> Iterator[Sample]:
    for reduction in REDUCTIONS:
        yield Sample(make(2, 3), make(2, 3, low=0, high=1), reduction=reduction)
    yield Sample(make(2, 3), make(2, 3, low=0, high=1), make(3, low=0.5), pos_weight=make(3, low=0.5))


@loss_of_elements(
    f"input: Tensor, target: Tensor, weight: MaybeTensor = None, {LEGACY}, {REDUCTION}, pos_weight: "
    "MaybeTensor = None",
    _logit_samples,
    node="BinaryCrossEntropyWithLogitsBackward0",
)
def binary_cross_entropy_with_logits(
    input: TensorLike, target: TensorLike, weight: MaybeTensor, pos_weight: MaybeTensor
) -> Any:
    """The cross entropy of `sigmoid(input)` with `target`, without ever forming the sigmoid."""
    have, want = type_of(input).shape, type_of(target).shape
    if have != want:
        raise ValueError(f"Target size ({Size(want)!r}) must be the same as input size ({Size(have)!r})")
    logs = ops.nn_functional_logsigmoid(input)
    if pos_weight is not None:
        logs = ops.mul(ops.add(ops.mul(ops.sub(pos_weight, 1), target), 1), logs)
    loss = ops.sub(ops.mul(ops.rsub(target, 1), input), logs)
    return loss if weight is None else ops.mul(loss, weight)


# -- classes -------------------------------------------------------------------------------------------------
def _class_weights(
    xp: ArrayModule, target: Array, weight: Array | None, ignore: int, classes: int, work: ArrayDType
) -> Any:
    """Targets fit for indexing, and the weight of each (None: all are one). Refuses targets that are no
    class."""
    kept = target != ignore
    everything = bool(kept.all())
    safe = target if everything else xp.where(kept, target, 0)
    bad = (safe < 0) | (safe >= classes)
    if bad.any():
        raise IndexError(f"Target {int(safe[bad].reshape(-1)[0])} is out of bounds.")
    if weight is None:
        return safe, None if everything else kept.astype(work)
    weights = weight.astype(work, copy=False)[safe]
    return safe, weights if everything else weights * kept


def _places(xp: ArrayModule, shape: tuple[int, ...], safe: Array) -> tuple[Any, ...]:
    """The index of each target's element in an array `(N, C, *spatial)`."""
    if len(shape) == 1:
        return (safe.reshape(()),)
    if len(shape) == 2:
        return xp.arange(shape[0]), safe
    rank = safe.ndim
    grid = [xp.arange(n).reshape((-1,) + (1,) * (rank - 1 - d)) for d, n in enumerate(safe.shape)]
    return (grid[0], safe, *grid[1:])


def _plain_rows(x_shape: tuple[int, ...], target: Array, weight: Array | None, ignore: int) -> bool:
    """The common case: rows of classes, no weights, no target that could be ignored or count from the end."""
    return weight is None and len(x_shape) == 2 and ignore < 0 < target.size and bool(target.min() >= 0)


def _nll_kernel(x: Array, target: Array, weight: Array | None, reduction: str, ignore: int) -> Array:
    xp = namespace(x)
    _check_nll(type_of(x), type_of(target), weight if weight is None else type_of(weight))
    kind = x.dtype
    if reduction != "none" and kind.itemsize > 2 and _plain_rows(x.shape, target, weight, ignore):
        try:
            total = xp.add.reduce(x[xp.arange(x.shape[0]), target], out=...)
            return xp.divide(total, -x.shape[0] if reduction == "mean" else -1, out=total)
        except IndexError as error:
            let_through(error)
            # the slow way tells which target it was
    work = as_dtype(kind).computes_in.numpy
    target = target.reshape(()) if x.ndim == 1 else target
    classes = x.shape[0] if x.ndim == 1 else x.shape[1]
    safe, weights = _class_weights(xp, target, weight, ignore, classes, work)
    loss = -x[_places(xp, x.shape, safe)].astype(work, copy=False)
    if weights is not None:
        loss = (
            xp.where(weights == 0, xp.zeros((), work), loss * weights) if weight is None else loss * weights
        )
    if reduction == "none":
        return xp.asarray(loss).astype(kind, copy=False)
    total = xp.add.reduce(loss, None, out=...)
    if reduction == "mean":
        total = xp.divide(total, loss.size if weights is None else xp.add.reduce(weights, None), out=...)
    return total.astype(kind, copy=False)


def _nll_backward_kernel(
    g: Array, target: Array, weight: Array | None, shape: tuple[int, ...], reduction: str, ignore: int
) -> Array:
    xp = namespace(g)
    out = xp.zeros(shape, g.dtype)
    if _plain_rows(shape, target, weight, ignore):
        out[xp.arange(shape[0]), target] = xp.divide(g, -shape[0] if reduction == "mean" else -1)
        return out
    work = as_dtype(g.dtype).computes_in.numpy
    target = target.reshape(()) if len(shape) == 1 else target
    classes = shape[0] if len(shape) == 1 else shape[1]
    safe, weights = _class_weights(xp, target, weight, ignore, classes, work)
    scale = -g.astype(work, copy=False)
    if reduction == "mean":
        scale = scale / (safe.size if weights is None else xp.add.reduce(weights, None))
    parts = scale if weights is None else xp.where(weights == 0, 0, scale * weights)
    out[_places(xp, tuple(shape), safe)] = parts
    return out


def _check_nll(x: TensorType, target: TensorType, weight: TensorType | None) -> None:
    """PyTorch's checks in its order; they differ by rank, as its kernels do."""
    if target.dtype is not int64 and target.dtype is not uint8:
        raise RuntimeError(f"expected target dtype to be Long or Byte, but got {target.dtype.scalar_name}")
    shape = tuple(x.shape)
    if x.ndim <= 2:
        if target.ndim > 1:
            raise RuntimeError("0D or 1D target tensor expected, multi-target not supported")
        if x.ndim == 1 and target.ndim == 1 and target.shape[0] != 1:
            raise ValueError(
                f"For 1D input, 1D target must have size 1, but got target size: {target.shape[0]}"
            )
        if x.ndim > 1 and shape[0] != (target.shape[0] if target.ndim else 1):
            raise RuntimeError(f"size mismatch (got input: {list(shape)}, target: {list(target.shape)})")
    elif x.ndim == 4:
        if target.ndim != 3:
            raise RuntimeError(
                "only batches of spatial targets supported (3D tensors) but got targets of dimension: "
                f"{target.ndim}"
            )
        if (shape[0], *shape[2:]) != tuple(target.shape):
            raise RuntimeError(f"size mismatch (got input: {list(shape)} , target: {list(target.shape)}")
    elif (shape[0], *shape[2:]) != tuple(target.shape):
        raise RuntimeError(f"Expected target size {[shape[0], *shape[2:]]}, got {list(target.shape)}")
    classes = shape[0] if x.ndim == 1 else shape[1]
    if weight is not None and (weight.ndim != 1 or weight.shape[0] != classes):
        raise RuntimeError(
            f"weight tensor should be defined either for all {classes} classes or no classes but got weight "
            "tensor of shape: "
            f"{list(weight.shape)}"
        )
    if not x.dtype.is_floating_point:
        name = "nll_loss_out_frame" if x.ndim <= 2 else "nll_loss2d_forward_out_frame"
        raise unsupported(name, x.dtype)
    if weight is not None and weight.dtype is not x.dtype:
        raise RuntimeError(f"expected scalar type {x.dtype.scalar_name} but found {weight.dtype.scalar_name}")


def _nll_rule(
    x: TensorType, target: TensorType, weight: TensorType | None, reduction: str, ignore: int
) -> TensorType:
    _check_nll(x, target, weight)
    shape = () if reduction != "none" or x.ndim == 1 else target.shape
    return TensorType(shape, x.dtype, x.device)


def _per_example(values: TensorLike, reduction: str, totals: Callable[[], Any]) -> Any:
    """Losses `(B, …)` reduced to one per example."""
    axes = tuple(range(1, len(values.shape)))
    parts = [values, totals()] if reduction == "mean" else [values]
    if axes and reduction != "none":
        parts = [ops.sum(each, axes) for each in parts]
    return ops.div(*parts) if reduction == "mean" else parts[0]


def _nll_batch(op: Op, size: int, args: tuple[Any, ...], dims: tuple[Any, ...]) -> Any:
    x, target, weight, reduction, ignore = args
    if dims[2] is not None:
        return NotImplemented
    x = spread_to(x, dims[0], size)
    single = len(x.shape) == 2
    flat = x if single else ops.reshape(x, (size * x.shape[1], *x.shape[2:]))
    target = ops.reshape(spread_to(target, dims[1], size), (flat.shape[0], *flat.shape[2:]))

    def elements(values: TensorLike) -> Any:
        out = op(values, target, weight, "none", ignore)
        return out if single else ops.reshape(out, (size, x.shape[1], *x.shape[3:]))

    return _per_example(elements(flat), reduction, lambda: ops.neg(elements(ops.ones_like(flat)))), 0


def _nll_backward_batch(op: Op, size: int, args: tuple[Any, ...], dims: tuple[Any, ...]) -> Any:
    g, target, weight, shape, reduction, ignore = args
    if dims[2] is not None:
        return NotImplemented
    single = len(shape) == 1
    flat = (size, *shape) if single else (size * shape[0], *shape[1:])
    target = ops.reshape(spread_to(target, dims[1], size), (flat[0], *flat[2:]))
    g = spread_to(g, dims[0], size)
    if reduction == "mean":
        ones = ops.new_ones(g, flat)
        totals = ops.neg(nll_elements(ones, target, weight, "none", ignore))
        g = ops.div(g, ops.sum(ops.reshape(totals, (size, -1)), 1))
    if reduction != "none" and not single:
        g = ops.expand(ops.reshape(g, (size, *(1,) * (len(shape) - 1))), (size, shape[0], *shape[2:]))
    g = ops.reshape(g, (flat[0], *flat[2:]))
    return ops.reshape(op(g, target, weight, flat, "none", ignore), (size, *shape)), 0


def _nll_samples(make: Maker) -> Iterator[Sample]:
    yield Sample(make(4, 3), make.ints(4, high=3), None, "mean", -100)
    yield Sample(make(4, 3), make.ints(4, high=3), make(3, low=0.5), "sum", 1)
    yield Sample(make(2, 3, 4), make.ints(2, 4, high=3), make(3, low=0.5), "mean", 1)
    yield Sample(make(2, 3, 2, 2), make.ints(2, 2, 2, high=3), None, "none", 0)
    yield Sample(make(3), make.ints(high=3), make(3, low=0.5), "mean", -100)


def _nll_backward_samples(make: Maker) -> Iterator[Sample]:
    yield Sample(make(), make.ints(4, high=3), None, (4, 3), "mean", -100)
    yield Sample(make(2, 4), make.ints(2, 4, high=3), make(3, low=0.5), (2, 3, 4), "none", 1)


def _by_weight(
    g: TensorLike, x: TensorLike, target: TensorLike, weight: TensorLike, reduction: str, ignore: int
) -> Any:
    """The gradient for the weights: each target's loss (less the mean one, in a mean) goes to its class."""
    loss = nll_elements(x, target, None, "none", ignore)
    if reduction == "mean":
        total = ops.neg(nll_elements(ops.ones_like(x), target, weight, "sum", ignore))
        loss = ops.sub(loss, nll_elements(x, target, weight, "mean", ignore))
        g = ops.div(g, total)
    kept = ops.ne(target, ignore)
    places = ops._to_copy(ops.where(kept, target, ops.zeros_like(target)), int64)
    shares = ops.mul(ops.mul(loss, ops.reshape(kept, tuple(loss.shape))), g)
    zeros = ops.new_zeros(g, tuple(weight.shape))
    return ops.scatter_add(zeros, 0, ops.reshape(places, (-1,)), ops.reshape(shares, (-1,)))


def _nll_backward_rule(
    g: TensorType, target: TensorType, weight: TensorType | None, shape: tuple[int, ...], *rest: object
) -> TensorType:
    floats_only("nll_loss_backward", g.dtype)
    return TensorType(shape, g.dtype, g.device)


nll_elements: Op = reduce(
    "nll_loss", _nll_kernel, _nll_rule,
    "input: Tensor, target: Tensor, weight: MaybeTensor, reduction: str, ignore_index: int",
    vjp=(
        lambda g, _out, _x, target, weight, *how: nll_backward(g, target, weight, _x.shape, *how),
        None,
        lambda g, _out, x, target, weight, *how: _by_weight(g, x, target, weight, *how),
    ),
    batch=_nll_batch, samples=_nll_samples, trusted=True, **HIDDEN, refuses="integers", lowering="losses",
)  # fmt: skip
nll_backward: Op = reduce(
    "nll_loss_backward", _nll_backward_kernel, _nll_backward_rule,
    "grad: Tensor, target: Tensor, weight: MaybeTensor, shape: Any, reduction: str, ignore_index: int",
    vjp=(
        lambda g, _out, _g, target, weight, _shape, *how: nll_elements(g, target, weight, *how),
        None,
        lambda g, _out, grad, target, weight, _shape, *how: _by_weight(grad, g, target, weight, *how),
    ),
    batch=_nll_backward_batch, samples=_nll_backward_samples, **HIDDEN, refuses="integers", lowering="losses",
)  # fmt: skip


def _user_nll_samples(make: Maker) -> Iterator[Sample]:
    yield Sample(make(4, 3), make.ints(4, high=3))
    yield Sample(make(4, 3), make.ints(4, high=3), make(3, low=0.5), ignore_index=1, reduction="sum")
    yield Sample(make(2, 3, 4), make.ints(2, 4, high=3), reduction="none")


@composite(
    "input: Tensor, target: Tensor, weight: MaybeTensor = None, size_average: Any = None, ignore_index: "
    "int = -100, "
    f"reduce: Any = None, {REDUCTION}",
    **PLACE, samples=_user_nll_samples,
)  # fmt: skip
def nll_loss(
    input: TensorLike, target: TensorLike, weight: MaybeTensor, size_average: Legacy, ignore_index: int,
    reduce: Legacy, reduction: str,
) -> Any:  # fmt: skip
    """The negative of the log-probability given to each target class."""
    reduction = legacy_reduction(size_average, reduce, reduction)
    check_reduction(reduction)
    return _nll(input, target, weight, reduction, ignore_index)


def _nll(
    input: TensorLike, target: TensorLike, weight: MaybeTensor, reduction: str, ignore_index: int
) -> Any:
    shape, places = input.shape, target.shape
    if not shape:
        raise ValueError(f"Expected 1 or more dimensions (got {len(shape)})")
    if len(shape) > 1 and (not places or shape[0] != places[0]):
        have = places[0] if places else 1
        raise ValueError(f"Expected input batch_size ({shape[0]}) to match target batch_size ({have}).")
    return nll_elements(input, target, weight, reduction, ignore_index)


def _cross_samples(make: Maker) -> Iterator[Sample]:
    yield Sample(make(4, 3), make.ints(4, high=3))
    yield Sample(make(4, 3), make.ints(4, high=3), make(3, low=0.5), ignore_index=1, label_smoothing=0.2)
    yield Sample(make(2, 3, 4), make.ints(2, 4, high=3), reduction="none", label_smoothing=0.1)
    yield Sample(make(4, 3), make(4, 3, low=0, high=1), make(3, low=0.5), label_smoothing=0.1)
    yield Sample(make(2, 3, 4), make(2, 3, 4, low=0, high=1), reduction="sum")
    yield Sample(make(3), make.ints(high=3))


@composite(
    "input: Tensor, target: Tensor, weight: MaybeTensor = None, size_average: Any = None, ignore_index: "
    "int = -100, "
    f"reduce: Any = None, {REDUCTION}, label_smoothing: float = 0.0",
    **PLACE, samples=_cross_samples,
)  # fmt: skip
def cross_entropy(
    input: TensorLike, target: TensorLike, weight: MaybeTensor, size_average: Legacy, ignore_index: int,
    reduce: Legacy, reduction: str, label_smoothing: float,
) -> Any:  # fmt: skip
    """The cross entropy of logits with target classes (integers) or with target probabilities."""
    reduction = legacy_reduction(size_average, reduce, reduction)
    check_reduction(reduction)
    shape = input.shape
    if same_shape(shape, target.shape):
        wanted = type_of(target)
        if not wanted.dtype.is_floating_point:
            raise RuntimeError(
                "Expected floating point type for target with class probabilities, got "
                f"{wanted.dtype.scalar_name}"
            )
        if ignore_index >= 0:
            raise RuntimeError("ignore_index is not supported for floating point target")
        return _probability_loss(input, target, weight, reduction, label_smoothing)
    if not shape:
        raise IndexError("Dimension specified as 1 but tensor has no dimensions")
    if not 0.0 <= label_smoothing <= 1.0:
        raise RuntimeError(f"label_smoothing must be between 0.0 and 1.0. Got: {label_smoothing}")
    logs = log_softmax(input, 1 if len(shape) > 1 else 0)
    loss = _nll(logs, target, weight, reduction, ignore_index)
    if label_smoothing == 0.0:
        return loss
    return _smoothed(logs, loss, target, weight, reduction, ignore_index, label_smoothing)


def _by_class(weight: TensorLike, rank: int) -> Any:
    """A weight per class, shaped to multiply an input of this rank."""
    return weight if rank == 1 else ops.reshape(weight, (-1, *(1,) * (rank - 2)))


def _smoothed(
    logs: TensorLike, loss: TensorLike, target: TensorLike, weight: MaybeTensor, reduction: str,
    ignore_index: int, smoothing: float,
) -> Any:  # fmt: skip
    """The loss mixed with that of a uniform target."""
    shape = type_of(logs).shape
    place = 1 if len(shape) > 1 else 0
    scaled = logs if weight is None else ops.mul(logs, _by_class(weight, len(shape)))
    uniform = ops.neg(ops.sum(scaled, place))
    target = ops.reshape(target, tuple(type_of(uniform).shape))
    uniform = ops.masked_fill(uniform, ops.eq(target, ignore_index), 0.0)
    if reduction == "mean":
        total = ops.neg(nll_elements(ops.ones_like(logs), target, weight, "sum", ignore_index))
        uniform = ops.div(ops.sum(uniform), total)
    elif reduction == "sum":
        uniform = ops.sum(uniform)
    return ops.add(ops.mul(loss, 1 - smoothing), ops.mul(uniform, smoothing / shape[place]))


def _probability_loss(
    input: TensorLike, target: TensorLike, weight: MaybeTensor, reduction: str, smoothing: float
) -> Any:
    shape = type_of(input).shape
    if not shape:
        raise IndexError("Dimension specified as 0 but tensor has no dimensions")
    place = 1 if len(shape) > 1 else 0
    classes = shape[place]
    if weight is not None and tuple(type_of(weight).shape) != (classes,):
        raise RuntimeError(
            f"cross_entropy: weight tensor should be defined either for all {classes} classes or no classes "
            "but got weight "
            f"tensor of shape: {list(type_of(weight).shape)}"
        )
    if not 0.0 <= smoothing <= 1.0:
        raise RuntimeError(f"label_smoothing must be between 0.0 and 1.0. Got: {smoothing}")
    if smoothing > 0.0:
        target = ops.add(ops.mul(target, 1 - smoothing), smoothing / classes)
    product = ops.mul(log_softmax(input, place), target)
    if weight is not None:
        product = ops.mul(product, _by_class(weight, len(shape)))
    if reduction == "none":
        return ops.neg(ops.sum(product, place))
    total = ops.neg(ops.sum(product))
    if reduction == "sum":
        return total
    count = math.prod(shape) / classes if classes else 0
    return ops.div(total, count) if count else ops.mul(total, math.nan)
