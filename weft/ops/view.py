"""Views."""

from __future__ import annotations

from typing import Any

import numpy as np

from weft.core.types import TensorType
from weft.ops.families import index, view as view_op
from weft.ops.record import REGISTRY
from weft.ops import replay  # noqa: F401

expand = view_op(
    "expand", lambda x, size: np.broadcast_to(x, size), lambda x, size: TensorType(size, x.dtype, x.device),
    "input: Tensor, *size: int", vjp=lambda g, _out, _x: REGISTRY["sum_to_size"](g, _x.shape), 
)
view = view_op(
    "view", lambda x, size: x.reshape(size), lambda x, size: TensorType(size, x.dtype, x.device),
    "input: Tensor, *size: int", vjp=lambda g, _out, _x: REGISTRY["reshape"](g, _x.shape),
)
reshape = index(
    "reshape", lambda x, size: x.reshape(size), lambda x, size: TensorType(size, x.dtype, x.device),
    "input: Tensor, *size: int", vjp=lambda g, _out, _x: REGISTRY["reshape"](g, _x.shape),
)
view_as = view_op("view_as", lambda x, y: x[...], lambda x, y: x, "input: Tensor, other: Tensor", vjp=(lambda g: g,))
select = view_op("select", lambda x, dim, i: x[(slice(None),)*dim+(i,...)], lambda x, dim, i: TensorType(x.shape[:dim]+x.shape[dim+1:], x.dtype), "input: Tensor, dim: int, index: int",
   vjp=lambda g, _out, _x, dim, i: select_backward(g, _x.shape, dim, i))
def _sb(g, shape, dim, i):
    r = np.zeros(shape, g.dtype); r[(slice(None),)*dim+(i,)] = g; return r
select_backward = index("select_backward", _sb, lambda g, shape, dim, i: TensorType(shape, g.dtype), "input: Tensor, shape: Any, dim: int, index: int",
   vjp=lambda g, _o, _g, _s, dim, i: select(g, dim, i))
sum_to_size = index("sum_to_size", lambda x, size: (x if x.shape == tuple(size) else np.add.reduce(x, tuple(range(x.ndim-len(size)))+tuple(i+x.ndim-len(size) for i,n in enumerate(size) if n==1 and x.shape[i+x.ndim-len(size)]!=1)).reshape(size)), lambda x, size: TensorType(size, x.dtype), "input: Tensor, *size: int", vjp=lambda g, _o, _x: expand(g, _x.shape))
clone = index("clone", lambda x: x.copy(), lambda x: x, "input: Tensor", vjp=lambda g: g)
cat = index("cat", lambda xs, dim: np.concatenate(xs, dim), lambda xs, dim: TensorType(xs[0].shape[:dim]+(sum(x.shape[dim] for x in xs),)+xs[0].shape[dim+1:], xs[0].dtype), "tensors: Tensors, dim: int = 0",
  vjp=lambda g, _out, _xs, dim: [narrow(g, dim, sum(x.shape[dim] for x in _xs[:i]), t.shape[dim]) for i, t in enumerate(_xs)])
narrow = view_op("narrow", lambda x, dim, s, l: x[(slice(None),)*dim+(slice(s,s+l),)], lambda x, dim, s, l: TensorType(x.shape[:dim]+(l,)+x.shape[dim+1:], x.dtype), "input: Tensor, dim: int, start: int, length: int")
