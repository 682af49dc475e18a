"""Ops that give what others compute on the way: norms with their statistics, norms by older names, sampling
by numbers for modes, and counts in several dimensions.

Takes and gives what PyTorch's functions of these names do. One idea: all but counting is written in ops, so
that gradients, batching and lowering are theirs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod
from typing import Any

import numpy as np

from weft.core import dtypes
from weft.core.arrays import Array, namespace
from weft.core.types import TensorType
from weft.ops.counting import _edges
from weft.ops.families import composite, index
from weft.ops.record import ops, type_of, unsupported
from weft.ops.return_types import result
from weft.ops.samples import Maker, Sample
from weft.ops.softmax import no_grad
from weft.ops.values import Dims, MaybeTensor, TensorLike

HISTOGRAMDD = result("histogramdd", "hist", "bin_edges")
MODES = ("bilinear", "nearest", "bicubic")
PADDINGS = ("zeros", "border", "reflection")


# -- norms with their statistics -----------------------------------------------------------------------------
def _statistics(x: TensorLike, dims: tuple[int, ...], eps: float) -> tuple[Any, Any]:
    """Means, and one over standard deviations, dimensions kept."""
    mean = ops.mean(x, dims, True)
    spread = ops.mean(ops.square(ops.sub(x, mean)), dims, True)
    return mean, ops.rsqrt(ops.add(spread, eps))


def _layer_samples(make: Maker) -> Iterator[Sample]:
    # forward mode moves the statistics, which have no gradient
    yield Sample(make(2, 3, 4), (3, 4), make(3, 4), make(3, 4), 1e-5, grad=False)
    yield Sample(make(2, 3), [3], None, None, 1e-5, grad=False)


@composite(
    "input: Tensor, normalized_shape: Any, weight: MaybeTensor, bias: MaybeTensor, eps: float",
    method=False, samples=_layer_samples, amp="float32",
)  # fmt: skip
def native_layer_norm(input: Any, normalized_shape: Any, weight: Any, bias: Any, eps: float) -> Any:
    """`layer_norm`, with the means and reciprocal standard deviations."""
    count = len(normalized_shape)
    out = ops.layer_norm(input, normalized_shape, weight, bias, eps)
    mean, scale = no_grad(_statistics, input, tuple(range(-count, 0)), eps)
    return out, mean, scale


def _group_samples(make: Maker) -> Iterator[Sample]:
    yield Sample(make(2, 4, 3), make(4), make(4), 2, 4, 3, 2, 1e-5)


@composite(
    "input: Tensor, weight: MaybeTensor, bias: MaybeTensor, N: int, C: int, HxW: int, group: int, eps: float",
    method=False, samples=_group_samples, amp="float32",
)  # fmt: skip
def native_group_norm(
    input: TensorLike,
    weight: MaybeTensor,
    bias: MaybeTensor,
    N: int,
    C: int,
    HxW: int,
    group: int,
    eps: float,
) -> Any:
    """`group_norm`, with the means and reciprocal standard deviations of the groups.

    Gradients of means and inverse deviations count whichever of them arrive; PyTorch drops them, silently,
    where only one of the two does.
    """
    out = ops.group_norm(input, group, weight, bias, eps)
    width = prod(type_of(input).shape[1:]) // group  # -1 cannot be told where there are no samples
    mean, scale = _statistics(ops.reshape(input, (N, group, width)), (2,), eps)
    return out, ops.squeeze(mean, 2), ops.squeeze(scale, 2)


# -- norms by older names ------------------------------------------------------------------------------------
@composite(
    "input: Tensor, dim: Any = (), keepdim: bool = False", method=False,
    samples=lambda make: [Sample(make(2, 3)), Sample(make(2, 3), 1, True)],
)  # fmt: skip
def frobenius_norm(input: TensorLike, dim: Dims, keepdim: bool) -> Any:
    """The root of the sum of squares."""
    return ops.linalg_vector_norm(input, 2, None if dim == () else dim, keepdim)


@composite(
    "input: Tensor, dim: Any = (-2, -1), keepdim: bool = False", method=False,
    samples=lambda make: [Sample(make(2, 3)), Sample(make(2, 3, 2), (0, 1))],
)  # fmt: skip
def nuclear_norm(input: TensorLike, dim: Dims, keepdim: bool) -> Any:
    """The sum of singular values."""
    return ops.linalg_matrix_norm(input, "nuc", dim, keepdim)


@composite(
    "v: Tensor, pow: int = 2, dim: int = 0", method=False,
    samples=lambda make: [Sample(make(2, 3)), Sample(make(2, 3, 2), 2, 1), Sample(make(3), 1, -1)],
)  # fmt: skip
def norm_except_dim(v: TensorLike, pow: int, dim: int) -> Any:
    """Norms over all dimensions but one."""
    if dim == -1:
        return ops.linalg_vector_norm(v, pow)
    rank = type_of(v).ndim
    return ops.linalg_vector_norm(v, pow, [i for i in range(rank) if i != dim % rank], True)


# -- sampling by numbers for modes ---------------------------------------------------------------------------
GRID = "input: Tensor, grid: Tensor, interpolation_mode: int, padding_mode: int, align_corners: bool"


def _sampler(name: str, sizes: tuple[int, ...]) -> None:
    def body(
        input: TensorLike, grid: TensorLike, interpolation_mode: int, padding_mode: int, align_corners: bool
    ) -> Any:
        mode, padding = MODES[interpolation_mode], PADDINGS[padding_mode]
        return ops.nn_functional_grid_sample(input, grid, mode, padding, align_corners)

    def samples(make: Maker) -> Iterator[Sample]:
        places = make(1, *sizes, len(sizes), low=-0.9, high=0.9)
        yield Sample(make(1, 2, *sizes), places, 0, 0, True)

    body.__doc__ = "`grid_sample` with its modes as integers."
    composite(GRID, name=name, method=False, samples=samples, amp="float32", refuses="nothing")(body)


for _name, _sizes in (("grid_sampler", (3, 4)), ("grid_sampler_2d", (3, 4)), ("grid_sampler_3d", (2, 3, 2))):
    _sampler(_name, _sizes)


# -- counts --------------------------------------------------------------------------------------------------
def _count_kernel(x: Array, edges: Sequence[Array], weight: Array | None, density: bool) -> Array:
    xp = namespace(x)
    sides = [xp.asarray(edge, np.float64) for edge in edges]
    shares = None if weight is None else xp.asarray(weight, np.float64).reshape(-1)
    rows = xp.asarray(x, np.float64).reshape(-1, x.shape[-1])
    return xp.histogramdd(rows, sides, density=density, weights=shares)[0].astype(x.dtype)


def _count_rule(
    x: TensorType, edges: Sequence[TensorType], weight: TensorType | None, density: bool
) -> TensorType:
    if x.dtype not in (dtypes.float32, dtypes.float64):
        raise unsupported("histogramdd", x.dtype)
    return TensorType(tuple([edge.shape[0] - 1 for edge in edges]), x.dtype, x.device)


_counts = index(
    "_histogramdd_counts", _count_kernel, _count_rule,
    "input: Tensor, edges: Tensors, weight: MaybeTensor, density: bool", method=False, function=False,
    batch=lambda op, size, args, dims: NotImplemented,
)  # fmt: skip


@composite(
    "input: Tensor, bins: Any, range: Any = None, weight: MaybeTensor = None, density: bool = False",
    returns=HISTOGRAMDD, method=False,
    samples=lambda make: [Sample(make(6, 2), [3, 2], grad=False), Sample(make(6, 2), 2, grad=False)],
)  # fmt: skip
def histogramdd(input: TensorLike, bins: Any, range: Any, weight: MaybeTensor, density: bool) -> Any:
    """Counts of points in boxes, and the boxes' edges in each dimension."""
    kind = type_of(input)
    if kind.ndim < 2:
        raise RuntimeError(
            f"torch.histogramdd(): input tensor should have at least 2 dimensions, but got {kind.ndim}"
        )
    count = kind.shape[-1]
    each = [bins] * count if isinstance(bins, int) else list(bins)
    if len(each) != count:
        raise RuntimeError(
            "torch.histogramdd(): expected 1 sequence of bin edges (or numbers of bins) for each dimension "
            f"{count}, but got {len(each)}"
        )
    edges = []
    for place, one in enumerate(each):
        limits = None if range is None else tuple(range[2 * place : 2 * place + 2])
        column = ops.reshape(ops.select(input, -1, place), (-1,))
        edges.append(one if hasattr(one, "shape") else _edges(column, one, limits))
    return HISTOGRAMDD(_counts(input, edges, weight, density), tuple(edges))


def _places_kernel(x: Array, size: int, fill_value: int) -> Array:
    xp = namespace(x)
    found = xp.argwhere(x)[:size]
    out = xp.full((size, x.ndim), fill_value, xp.int64)
    out[: len(found)] = found
    return out


def _places_rule(x: TensorType, size: int, fill_value: int) -> TensorType:
    if size < 0:
        raise RuntimeError("nonzero_static: 'size' must be an non-negative integer")
    return TensorType((size, x.ndim), dtypes.int64, x.device)


index(
    "nonzero_static", _places_kernel, _places_rule, "input: Tensor, *, size: int, fill_value: int = -1",
    batch=lambda op, size, args, dims: NotImplemented,
    samples=lambda make: [Sample(make.ints(3, 2, high=2), size=4, grad=False)],
    doc="The indices of elements that are not zero, as many rows as `size` says.",
    refuses="nothing",
)  # fmt: skip
