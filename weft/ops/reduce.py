"""Reductions."""

from __future__ import annotations

from typing import Any

import numpy as np

from weft.core import dtypes
from weft.core.arrays import Array
from weft.core.dtypes import as_dtype
from weft.core.types import TensorType
from weft.ops.families import reduce
from weft.ops.record import REGISTRY


def dims_of(dim: Any, rank: int) -> tuple[int, ...]:
    if dim is None:
        return tuple(range(rank))
    dims = (dim,) if isinstance(dim, int) else tuple(dim)
    if not dims:
        return tuple(range(rank))
    span = max(rank, 1)
    out = []
    for d in dims:
        if not -span <= d < span:
            raise IndexError(f"Dimension out of range (expected to be in range of [{-span}, {span - 1}], but got {d})")
        out.append(d % span)
    return tuple(out) if rank else ()


def reduced_shape(shape: tuple[int, ...], dims: tuple[int, ...], keepdim: bool) -> tuple[int, ...]:
    if keepdim:
        return tuple(1 if i in dims else n for i, n in enumerate(shape))
    return tuple(n for i, n in enumerate(shape) if i not in dims)


def _sum_rule(x: TensorType, dim: Any, keepdim: bool, dtype: Any) -> TensorType:
    kind = as_dtype(dtype) if dtype is not None else x.dtype if x.dtype.category >= 2 else dtypes.int64
    return TensorType(reduced_shape(x.shape, dims_of(dim, x.ndim), keepdim), kind, x.device)


def _sum(x: Array, dim: Any, keepdim: bool, dtype: Any) -> Array:
    if dtype is None and dim is None and not keepdim and x.dtype.kind == "f" and x.dtype.itemsize > 2:
        return np.add.reduce(x, None, out=...)
    kind = as_dtype(x.dtype)
    kind = as_dtype(dtype) if dtype is not None else kind if kind.category >= 2 else dtypes.int64
    carrier = dtypes.float32 if kind in dtypes.HALVES else kind
    out = np.add.reduce(x, dims_of(dim, x.ndim), dtype=carrier.numpy, keepdims=keepdim, out=...)
    return out if kind is carrier else out.astype(kind.numpy)


def spread(g: Any, like: TensorType, dim: Any, keepdim: bool) -> Any:
    dims = dims_of(dim, like.ndim)
    if not keepdim and dims and g.ndim:
        g = REGISTRY["reshape"](g, reduced_shape(like.shape, dims, True))
    return REGISTRY["expand"](g, like.shape)


sum = reduce(
    "sum", _sum, _sum_rule, "input: Tensor, dim: Dims = None, keepdim: bool = False, *, dtype: DType = None",
    vjp=lambda g, _out, _x, dim, keepdim: spread(g, _x, dim, keepdim), trusted=True,
)  # fmt: skip
