"""Distances between rows, and rows cut back to a greatest norm.

Takes matrices whose rows are points; gives norms of their differences. The one idea: a distance is a norm of
a difference; only Euclidean distances between all pairs are a record, whose gradient is two matrix products
instead of a tensor of all differences.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from weft.core.arrays import Array, namespace
from weft.core.dims import wrap_dim
from weft.core.dtypes import HALVES, float32, float64, int64
from weft.core.types import TensorType
from weft.ops.batching import leading
from weft.ops.families import HIDDEN, composite, contract, index
from weft.ops.record import Op, broadcast_shapes, joint, ops, type_of, unsupported
from weft.ops.samples import Maker, Sample
from weft.ops.values import TensorLike

BLOCK = 1 << 22  # differences held at a time


# -- all pairs of two sets -----------------------------------------------------------------------------------
def _euclid_kernel(x: Array, y: Array) -> Array:
    xp = namespace(x)
    shape = (*xp.broadcast_shapes(x.shape[:-2], y.shape[:-2]), x.shape[-2], y.shape[-2])
    out = xp.empty(shape, x.dtype)
    rows = max(1, BLOCK // max(1, out.size // max(shape[-2], 1) * x.shape[-1]))
    for start in range(0, shape[-2], rows):
        gap = x[..., start : start + rows, None, :] - y[..., None, :, :]
        out[..., start : start + rows, :] = xp.sqrt(xp.einsum("...i,...i->...", gap, gap))
    return out


def _euclid_rule(x: TensorType, y: TensorType) -> TensorType:
    if x.dtype not in (float32, float64):
        raise unsupported("cdist", x.dtype)
    lead = broadcast_shapes(x.shape[:-2], y.shape[:-2])
    return TensorType((*lead, x.shape[-2], y.shape[-2]), x.dtype, x.device)


def _euclid_vjp(
    needs: Sequence[bool], g: TensorLike, out: TensorLike, x: TensorLike, y: TensorLike
) -> list[Any]:
    """Towards each point from all others, by their distance; nothing where points coincide."""
    apart = ops.gt(out, 0)
    share = ops.where(apart, ops.div(g, ops.where(apart, out, 1.0)), 0.0)
    found: list[Any] = [None, None]
    if needs[0]:
        found[0] = ops.sub(ops.mul(x, ops.unsqueeze(ops.sum(share, -1), -1)), ops.matmul(share, y))
    if needs[1]:
        turned = ops.transpose(share, -1, -2)
        found[1] = ops.sub(ops.mul(y, ops.unsqueeze(ops.sum(turned, -1), -1)), ops.matmul(turned, x))
    return found


cdist_euclidean: Op = contract(
    "_cdist_forward", _euclid_kernel, _euclid_rule, "x1: Tensor, x2: Tensor", vjp=joint(_euclid_vjp),
    batch=leading, samples=lambda make: [Sample(make(3, 2), make(4, 2)),
        Sample(make(2, 3, 2), make(2, 4, 2))],
    node="CdistBackward0", **HIDDEN,
    refuses="nothing",
)  # fmt: skip


def _lengths(gaps: TensorLike, p: float) -> Any:
    """The p-norms of the last dimension. How many elements differ is level wherever it can be told: the
    gradient of that is zero, and not absent.
    """
    found = ops.linalg_vector_norm(gaps, p, -1)
    if p:
        return found
    level = ops.nan_to_num(ops.mul(ops.round(gaps), 0.0), 0.0, 0.0, 0.0)
    return ops.add(found, ops.sum(level, -1))


def _cdist_samples(make: Maker) -> Iterator[Sample]:
    for p in (2.0, 1.0, 3.0, float("inf"), 0.0):
        yield Sample(make(3, 2), make(4, 2), p)
    yield Sample(make(2, 1, 3, 2), make(3, 4, 2))
    yield Sample(make(3, 0), make(2, 0))


MODES = ("use_mm_for_euclid_dist_if_necessary", "use_mm_for_euclid_dist", "donot_use_mm_for_euclid_dist")


@composite(
    "x1: Tensor, x2: Tensor, p: float = 2.0, "
    "compute_mode: str = 'use_mm_for_euclid_dist_if_necessary'",
    method=False, samples=_cdist_samples,
)  # fmt: skip
def cdist(x1: TensorLike, x2: TensorLike, p: float, compute_mode: str) -> Any:
    """The distances between all rows of `x1` and all rows of `x2`, in the p-norm."""
    if compute_mode not in MODES:
        raise ValueError(f"{compute_mode} is not a valid value for compute_mode")
    one, two = type_of(x1), type_of(x2)
    for word, kind in (("X1", one), ("X2", two)):
        if kind.ndim < 2:
            raise RuntimeError(f"cdist only supports at least 2D tensors, {word} got: {kind.ndim}D")
    if one.shape[-1] != two.shape[-1]:
        raise RuntimeError(
            f"X1 and X2 must have the same number of columns. X1: {one.shape[-1]} X2: {two.shape[-1]}"
        )
    for word, kind in (("X1", one), ("X2", two)):
        if not kind.dtype.is_floating_point:
            raise RuntimeError(
                f"cdist only supports floating-point dtypes, {word} got: {kind.dtype.scalar_name}"
            )
    if p < 0:
        raise RuntimeError("cdist only supports non-negative p values")
    if one.dtype in HALVES and one.numel() and two.numel():
        raise unsupported("cdist", one.dtype)
    if one.dtype is not two.dtype:
        raise RuntimeError(f"expected scalar type {one.dtype.scalar_name} but found {two.dtype.scalar_name}")
    lead = broadcast_shapes(one.shape[:-2], two.shape[:-2])
    if p == 2 and one.dtype not in HALVES:
        wide = [ops.expand(x, (*lead, *k.shape[k.ndim - 2 :])) for x, k in ((x1, one), (x2, two))]
        return cdist_euclidean(*wide)
    return _lengths(ops.sub(ops.unsqueeze(x1, -2), ops.unsqueeze(x2, -3)), p)


# -- pairs within one set ------------------------------------------------------------------------------------
def _pairs_kernel(x: Array) -> Array:
    xp = namespace(x)
    return xp.stack(xp.triu_indices(x.shape[0], 1)).astype(xp.int64)


upper_pairs: Op = index(
    "upper_pairs", _pairs_kernel,
    lambda x: TensorType((2, x.shape[0] * (x.shape[0] - 1) // 2), int64, x.device), "input: Tensor",
    batch=lambda op, size, args, dims: (op(ops.select(args[0], dims[0], 0)), None),
    samples=lambda make: [Sample(make(4, 3)), Sample(make(1, 3))], **HIDDEN,
    refuses="nothing",
)  # fmt: skip
"""The places of all pairs of rows, first and second."""


def _pdist_samples(make: Maker) -> Iterator[Sample]:
    for p in (2.0, 1.0, 3.0, float("inf"), 0.0):
        yield Sample(make(4, 3), p)
    yield Sample(make(1, 3))
    yield Sample(make(0, 3))


@composite(
    "input: Tensor, p: float = 2.0", method=False, aliases=("nn.functional.pdist",), samples=_pdist_samples
)
def pdist(input: TensorLike, p: float) -> Any:
    """The distances between all pairs of rows, in the p-norm, as one vector."""
    kind = type_of(input)
    if kind.ndim != 2:
        raise RuntimeError(f"pdist only supports 2D tensors, got: {kind.ndim}D")
    if not kind.dtype.is_floating_point:
        raise RuntimeError("pdist only supports floating-point dtypes")
    if p < 0:
        raise RuntimeError("pdist only supports non-negative p values")
    if kind.dtype in HALVES and kind.shape[0] > 1:
        raise unsupported("pdist", kind.dtype)
    first, second = ops.unbind(upper_pairs(input), 0)
    gap = ops.sub(ops.index_select(input, 0, first), ops.index_select(input, 0, second))
    return _lengths(gap, p)


# -- two tensors ---------------------------------------------------------------------------------------------
def _dist_samples(make: Maker) -> Iterator[Sample]:
    for p in (2, 1, 3, float("inf"), 0, -1.5):
        yield Sample(make(2, 3), make(3), p)
    yield Sample(make(), make())


@composite("input: Tensor, other: Tensor, p: float = 2", samples=_dist_samples, amp="float32")
def dist(input: TensorLike, other: TensorLike, p: float) -> Any:
    """The p-norm of the difference of two tensors."""
    return ops.norm(ops.sub(input, other), p)


def _renorm_samples(make: Maker) -> Iterator[Sample]:
    yield Sample(make(3, 4), 2, 0, 1.0)
    yield Sample(make(2, 3, 2), 1, -1, 100.0)
    yield Sample(make(2, 3, 2), 3.0, 1, 1.5)


@composite(
    "input: Tensor, p: float, dim: int, maxnorm: float", inplace=True, out=True, amp="float32",
    samples=_renorm_samples,
)  # fmt: skip
def renorm(input: TensorLike, p: float, dim: int, maxnorm: float) -> Any:
    """Slices along a dimension, those of a greater p-norm than `maxnorm` scaled down to it."""
    kind = type_of(input)
    if p <= 0:
        raise RuntimeError("renorm: non-positive-norm not supported")
    if maxnorm < 0:
        shown = int(maxnorm) if float(maxnorm).is_integer() else maxnorm
        raise RuntimeError(f"renorm: expected maxnorm to be >= 0 but got {shown}")
    if kind.ndim < 2:
        raise RuntimeError(f"renorm: input needs at least 2 dimensions, got {kind.ndim} dimensions")
    dim = wrap_dim(dim, kind.ndim)
    axes = tuple(axis for axis in range(kind.ndim) if axis != dim)
    half = kind.dtype in HALVES  # norms are not rounded, factors are
    norms = ops.linalg_vector_norm(input, p, axes, True, dtype=float32 if half else None)
    large = ops.gt(norms, maxnorm)
    factor = ops.where(large, ops.div(maxnorm, ops.add(norms, 1e-7)), 1.0)
    return ops.mul(input, ops._to_copy(factor, kind.dtype) if half else factor)
