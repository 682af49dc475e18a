"""What tests of lowering share: which ops array kernels run, and whether results are eager's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import weft
from weft.native.lower.lowering import Lowering


def opaques(function: Callable[..., Any], *args: Any) -> set[str]:
    """The ops of a function that its program leaves to array kernels."""
    found: set[str] = set()
    known = Lowering.opaque

    def noted(self: Lowering, op: Any, bound: Any, result: Any) -> Any:
        found.add(op.qualified_name)
        return known(self, op, bound, result)

    Lowering.opaque = noted  # type: ignore[method-assign]
    try:
        weft.compiler.reset()
        weft.compile(function, backend="native", fullgraph=True)(*args)
    finally:
        Lowering.opaque = known  # type: ignore[method-assign]
    return found


def assert_same(function: Callable[..., Any], *args: Any, near: float = 0) -> None:
    """That a compiled function gives what eager gives: values, dtypes, shapes, strides."""
    weft.compiler.reset()
    ours = weft.compile(function, backend="native", fullgraph=True)(*args)
    theirs = function(*args)
    for place, (one, other) in enumerate(zip(flat(ours), flat(theirs), strict=True)):
        assert (one.dtype, one.shape) == (other.dtype, other.shape), place
        assert one.stride() == other.stride(), (place, one.shape)
        one, other = one.detach().array, other.detach().array
        if one.dtype.kind in "biu":
            np.testing.assert_array_equal(one, other, err_msg=str(place))
        else:
            close = max(near, 1e-2 if one.dtype.itemsize == 2 else 2e-5 if one.dtype == np.float32 else 1e-12)
            wide = one.astype(np.float64), other.astype(np.float64)
            np.testing.assert_allclose(*wide, close, close, err_msg=str(place))


def flat(value: Any) -> list[Any]:
    return [leaf for item in value for leaf in flat(item)] if isinstance(value, (tuple, list)) else [value]
