"""Creation and copies: ops that make new memory, filled by a rule or from another tensor.

Takes sizes, numbers or a tensor to be like; gives new arrays. One idea: shape, dtype, device and memory format are settled in
the type rule (defaults included), and every kernel asks that same rule what to allocate.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from weft.core.arrays import Array, namespace
from weft.core.dtypes import as_dtype
from weft.core.types import TensorType
from weft.ops.families import create, index
from weft.ops.record import ops
from weft.ops.samples import Maker, Sample


# -- copies -------------------------------------------------------------------------------------------------------------
def _cast(x: Array, dtype: Any) -> Array:
    kind = dtype.numpy
    if x.dtype.kind == "c" and kind.kind not in "cb":
        x = x.real
    return x.astype(kind)


def _to_copy_samples(make: Maker) -> Iterator[Sample]:
    yield Sample(make(2, 3), as_dtype(np.float64))
    yield Sample(make(2, 3), as_dtype(np.float32), grad=False)
    yield Sample(make(), as_dtype(np.int64), grad=False)
    yield Sample(make(0, 3).T, as_dtype(np.complex64), grad=False)


_to_copy = index(
    "_to_copy", _cast, lambda x, dtype: TensorType(x.shape, dtype, x.device), "input: Tensor, dtype: DType",
    vjp=lambda g, _out, _x: _to_copy(g, _x.dtype), node="ToCopyBackward0", samples=_to_copy_samples, method=False, function=False,
)  # fmt: skip
zeros_like = create(
    "zeros_like", lambda x: namespace(x).zeros_like(x), lambda x: x, "input: Tensor", vjp=lambda g: ops.zeros_like(g)
)
