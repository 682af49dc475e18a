"""Softmax and its kin, with their gradients as ops.

Takes a tensor and a dimension; gives probabilities, or their logarithms, along it. The one idea: subtract the
maximum first, sum once, and keep the result: both gradients need nothing but it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from weft.core import modes
from weft.core.arrays import Array, ArrayModule, namespace, row_major
from weft.core.dims import wrap_dim
from weft.core.dtypes import as_dtype, dtype
from weft.core.types import TensorType
from weft.core.warn import warn
from weft.ops.batching import aligned, spread_to
from weft.ops.families import HIDDEN, composite, reduce
from weft.ops.record import Op, ops, type_of, unsupported
from weft.ops.samples import Maker, Sample
from weft.ops.values import DType, TensorLike

SHORT_ROWS = 16  # rows so short are summed faster with the rows' axis last
MANY = 1 << 14  # elements from which on the choice of algorithm pays
PIECE = 1 << 16  # elements that stay in cache
EXACT_ROWS = 4096  # up to here a plain running sum in vector lanes is as good as a pairwise one


def working(array: Array) -> Array:
    """The array in the dtype that its kind is summed in: float32 for half types."""
    return array.astype(as_dtype(array.dtype).computes_in.numpy, copy=False)


def no_grad(function: Callable[..., Any], *args: Any) -> Any:
    """Calls an op with recording off."""
    token = modes.enter(grad=False)
    try:
        return function(*args)
    finally:
        modes.leave(token)


def _row_sums(xp: ArrayModule, x: Array, axis: int) -> Array:
    """Sums along an axis that stays, as size one."""
    if (
        x.size > MANY
        and x.ndim == 2
        and axis in (-1, 1)
        and x.shape[1] <= EXACT_ROWS
        and x.flags.c_contiguous
    ):
        return xp.einsum("ij->i", x)[:, None]
    return xp.add.reduce(x, axis, keepdims=True)


def _softmax_core(xp: ArrayModule, x: Array, axis: int) -> Array:
    out = xp.subtract(x, xp.maximum.reduce(x, axis, keepdims=True))
    xp.exp(out, out)
    return xp.divide(out, _row_sums(xp, out, axis), out)


def _log_softmax_core(xp: ArrayModule, x: Array, axis: int, out: Array | None = None) -> Array:
    if out is None and x.size >= 2 * PIECE and axis in (-1, x.ndim - 1) and x.flags.c_contiguous:
        return _log_softmax_by_rows(xp, x.reshape(-1, x.shape[-1])).reshape(x.shape)
    out = xp.subtract(x, xp.maximum.reduce(x, axis, keepdims=True), out)
    total = _row_sums(xp, xp.exp(out), axis)
    return xp.subtract(out, xp.log(total, total), out)


def _log_softmax_by_rows(xp: ArrayModule, rows: Array) -> Array:
    """A few rows at a time: the exponentials then fit in cache, where all at once they would take fresh
    pages.
    """
    out = xp.empty_like(rows)
    step = max(PIECE // rows.shape[1], 1)
    for start in range(0, len(rows), step):
        _log_softmax_core(xp, rows[start : start + step], 1, out[start : start + step])
    return out


def _along(core: Callable[..., Array], x: Array, dim: int, dtype: DType) -> Array:
    """Runs a softmax core along `dim` in a float dtype, whatever the rank and the layout."""
    kind = as_dtype(x.dtype if dtype is None else dtype)
    if not kind.is_floating_point:
        raise NotImplementedError(kind.name)  # the type rule says it in the user's words
    xp = namespace(x)
    carrier = kind.computes_in.numpy
    work = row_major(x if x.dtype is carrier else x.astype(carrier))  # so lies what PyTorch gives
    if x.size == 0 or x.ndim == 0:  # `reshape` also refuses what only stands for an array
        if not -max(x.ndim, 1) <= dim < max(x.ndim, 1):
            raise IndexError(dim)
        out = core(xp, work.reshape(1), 0).reshape(()) if x.ndim == 0 else work.reshape(x.shape).copy()
    elif x.shape[-1] <= SHORT_ROWS and dim in (-1, x.ndim - 1) and x.size >= MANY and x.ndim > 1:
        columns = xp.ascontiguousarray(work.reshape(-1, x.shape[-1]).T)
        out = xp.ascontiguousarray(core(xp, columns, 0).T).reshape(x.shape)
    else:
        out = core(xp, work, dim)
    return out if kind.numpy is carrier else out.astype(kind.numpy)


def _softmax_rule(name: str) -> Any:
    def rule(x: TensorType, dim: int, dtype: DType) -> TensorType:
        if not isinstance(dim, int):
            raise TypeError(f"{name}(): argument 'dim' (position 2) must be int, not {type(dim).__name__}")
        place = wrap_dim(dim, x.ndim)
        kind = x.dtype if dtype is None else as_dtype(dtype)
        if not kind.is_floating_point:
            last = "lastdim_" if place == max(x.ndim, 1) - 1 else ""
            raise unsupported(f"{name}_{last}kernel_impl", kind)
        return TensorType(x.shape, kind, x.device)

    return rule


def _softmax_backward_kernel(g: Array, out: Array, dim: int) -> Array:
    xp = namespace(g)
    left, right = working(g), working(out)
    product = left * right
    total = product if g.ndim == 0 else _row_sums(xp, product, dim)
    result = xp.multiply(left - total, right)
    return result if result.dtype is g.dtype else result.astype(g.dtype)


def _log_softmax_backward_kernel(g: Array, out: Array, dim: int) -> Array:
    xp = namespace(g)
    left, right = working(g), working(out)
    total = left if g.ndim == 0 else _row_sums(xp, left, dim)
    scaled = xp.exp(right, out=...)
    xp.multiply(scaled, total, scaled)
    result = xp.subtract(left, scaled, out=...)
    return result if result.dtype is g.dtype else result.astype(g.dtype)


def floats_only(name: str, kind: dtype, *also: dtype) -> None:
    """Refuses dtypes that have no gradients."""
    if not kind.is_floating_point and kind not in also:
        raise unsupported(name, kind)


def _backward_rule(g: TensorType, out: TensorType, dim: int) -> TensorType:
    floats_only("softmax_backward", g.dtype)
    return g


def _backward_batch(op: Op, size: int, args: tuple[Any, ...], dims: tuple[Any, ...]) -> Any:
    result = aligned(op, size, args, dims)
    if result is not NotImplemented:
        return result
    g, out = (ops.reshape(spread_to(v, d, size), (size, 1)) for v, d in zip(args[:2], dims[:2], strict=True))
    return ops.reshape(op(g, out, 1), (size,)), 0


def _softmax_second(g: TensorLike, _out: object, grad: TensorLike, out: TensorLike, dim: int) -> Any:
    """The gradient of `out * (grad - sum(grad * out))` for out."""
    inner = ops.sub(grad, ops.sum(ops.mul(grad, out), dim, True))
    return ops.sub(ops.mul(g, inner), ops.mul(grad, ops.sum(ops.mul(g, out), dim, True)))


def _log_softmax_second(g: TensorLike, _out: object, grad: TensorLike, out: TensorLike, dim: int) -> Any:
    """The gradient of `grad - exp(out) * sum(grad)` for out."""
    return ops.neg(ops.mul(ops.mul(g, ops.exp(out)), ops.sum(grad, dim, True)))


def _softmax_samples(make: Maker) -> Iterator[Sample]:
    yield Sample(make(2, 3), 1)
    yield Sample(make(2, 3, 4), 0)
    yield Sample(make(2, 3, 4), -2)
    yield Sample(make(), 0)
    yield Sample(make(0, 3), 1)
    yield Sample(make(4, 3).T, -1)


def _backward_samples(make: Maker) -> Iterator[Sample]:
    yield Sample(make(2, 3), make(2, 3), 1)
    yield Sample(make(2, 3, 4), make(2, 3, 4), 0)
    yield Sample(make(), make(), 0)


GRADIENT = "grad: Tensor, output: Tensor, dim: Dim"
softmax_backward: Op = reduce(
    "softmax_backward", _softmax_backward_kernel, _backward_rule, GRADIENT,
    vjp=(lambda g, _out, _grad, out, dim: softmax_backward(g, out, dim), _softmax_second),
    batch=_backward_batch, samples=_backward_samples, **HIDDEN,
    refuses="nothing", lowering="folds", native_above=True,
)  # fmt: skip
log_softmax_backward: Op = reduce(
    "log_softmax_backward", _log_softmax_backward_kernel, _backward_rule, GRADIENT,
    vjp=(
        lambda g, _out, _grad, out, dim: ops.sub(g, ops.sum(ops.mul(g, ops.exp(out)), dim, True)),
        _log_softmax_second,
    ),
    batch=_backward_batch, samples=_backward_samples, **HIDDEN,
    refuses="nothing", lowering="folds", native_above=True,
)  # fmt: skip
SOFTMAX = "input: Tensor, dim: Dim, dtype: DType = None"
softmax = reduce(
    "softmax", lambda x, dim, dtype: _along(_softmax_core, x, dim, dtype), _softmax_rule("softmax"), SOFTMAX,
    vjp=lambda g, out, _x, dim: softmax_backward(g, out, dim), samples=_softmax_samples, trusted=True,
    out="exact",
    refuses="nothing", lowering="folds", native_above=True,
)  # fmt: skip
log_softmax = reduce(
    "log_softmax", lambda x, dim, dtype: _along(_log_softmax_core, x, dim, dtype),
    _softmax_rule("log_softmax"), SOFTMAX,
    vjp=lambda g, out, _x, dim: log_softmax_backward(g, out, dim), samples=_softmax_samples, trusted=True,
    out="exact",
    refuses="nothing", lowering="folds", native_above=True,
)  # fmt: skip


def _implied_dim(name: str, x: TensorLike) -> int:
    """The dimension that calls without one have always meant."""
    warn(
        f"Implicit dimension choice for {name} has been deprecated. Change the call to include dim=X as an "
        "argument."
    )
    return 0 if len(type_of(x).shape) in (0, 1, 3) else 1


def _user_samples(make: Maker) -> Iterator[Sample]:
    yield Sample(make(2, 3), 1)
    yield Sample(make(2, 3, 4), dim=0)


IMPLIED = "input: Tensor, dim: Any = None, _stacklevel: int = 3, dtype: DType = None"


def _softmax_user(x: TensorLike, dim: int | None, _stacklevel: int, dtype: DType) -> Any:
    dim = _implied_dim("softmax", x) if dim is None else dim
    return softmax(x, dim, dtype)


def _log_softmax_user(x: TensorLike, dim: int | None, _stacklevel: int, dtype: DType) -> Any:
    dim = _implied_dim("log_softmax", x) if dim is None else dim
    return log_softmax(x, dim, dtype)


def _softmin_user(x: TensorLike, dim: int | None, _stacklevel: int, dtype: DType) -> Any:
    dim = _implied_dim("softmin", x) if dim is None else dim
    return softmax(ops.neg(x), dim, dtype)


for _name, _body in (
    ("softmax", _softmax_user),
    ("log_softmax", _log_softmax_user),
    ("softmin", _softmin_user),
):
    composite(IMPLIED, name=_name, namespace="nn.functional", samples=_user_samples)(_body)
SPECIAL = "input: Tensor, dim: int, *, dtype: DType = None"
composite(SPECIAL, name="softmax", namespace="special", samples=_user_samples)(lambda *args: softmax(*args))
composite(SPECIAL, name="log_softmax", namespace="special", samples=_user_samples)(
    lambda *args: log_softmax(*args)
)


@composite(
    "logits: Tensor, tau: float = 1, hard: bool = False, eps: float = 1e-10, dim: int = -1",
    namespace="nn.functional",
    samples=lambda make: [Sample(make(2, 1), grad=False), Sample(make(1, 3), 0.5, True, dim=0, grad=False)],
)
def gumbel_softmax(logits: TensorLike, tau: float, hard: bool, eps: float, dim: int) -> Any:
    """Samples from a categorical distribution, relaxed: softmax of logits plus Gumbel noise."""
    if eps != 1e-10:
        warn("`eps` parameter is deprecated and has no effect.")
    kind = type_of(logits).dtype
    if not kind.is_floating_point:
        raise RuntimeError(
            "Exponential distribution is a continuous probability distribution. dtype must be a floating "
            "point but you "
            f"specified {kind.scalar_name}"
        )
    noise = no_grad(lambda: ops.neg(ops.log(ops.exponential(logits))))
    soft = softmax(ops.div(ops.add(logits, noise), tau), dim)
    if not hard:
        return soft
    places = no_grad(ops.argmax, soft, dim, True)
    one = no_grad(lambda: ops.sub(ops.scatter(ops.zeros_like(soft), dim, places, 1.0), soft))
    return ops.add(one, soft)
