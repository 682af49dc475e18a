"""Outlines against arrays: every view op's samples give the same shapes and strides on both."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import weft  # noqa: F401 - fills the registry
from weft.core import dtypes
from weft.ops.outline import KERNELS, Outline, slice_length
from weft.ops.record import REGISTRY, Kind, Op
from weft.ops.samples import Maker
from weft.ops.signature import flatten_variadic

NEEDS_AN_ARRAY = {"_as_strided", "view_as_real"}
VIEWS = [
    op
    for name, op in sorted(REGISTRY.items())
    if op.kind is Kind.VIEW and op.samples is not None and name not in NEEDS_AN_ARRAY
]


def flat(value: Any) -> list[Any]:
    return list(value) if isinstance(value, (tuple, list)) else [value]


@pytest.mark.parametrize("op", VIEWS, ids=lambda op: op.qualified_name)
def test_view_kernels_run_on_outlines(op: Op) -> None:
    for sample in op.samples(Maker(dtypes.float64)):  # type: ignore[misc]
        args = tuple(sample.args)
        for position, parameter in enumerate(op.signature.parameters):
            if parameter.variadic:
                args = (*args[:position], flatten_variadic(args[position:]))
        x, *rest = op.signature.bind(args, dict(sample.kwargs))
        expected = op.kernel(x, *rest)  # type: ignore[misc]
        got = KERNELS.get(op.kernel, op.kernel)(Outline(x.shape, x.strides, x.dtype), *rest)  # type: ignore[arg-type, misc]
        for one, two in zip(flat(got), flat(expected), strict=True):
            assert (one.shape, one.dtype) == (two.shape, two.dtype)
            if two.size:
                assert one.strides == two.strides, sample


sizes = st.lists(st.integers(1, 4), max_size=4)


@given(sizes, st.data())
def test_reshapes_as_numpy_does(shape: list[int], data: Any) -> None:
    x = np.zeros(shape).transpose(data.draw(st.permutations(range(len(shape)))))
    left, target = x.size, []
    while left > 1:
        target.append(data.draw(st.sampled_from([n for n in range(1, left + 1) if left % n == 0])))
        left //= target[-1]
    try:
        expected = x.reshape(target, copy=False)
    except ValueError:
        with pytest.raises(ValueError):
            Outline(x.shape, x.strides, x.dtype).reshape(target)
        return
    got = Outline(x.shape, x.strides, x.dtype).reshape(target)
    assert got.shape == expected.shape
    for n, one, two in zip(target, got.strides, expected.strides, strict=True):
        assert n == 1 or one == two
    assert Outline(x.shape, x.strides, x.dtype).c_contiguous == x.flags.c_contiguous


@given(st.integers(0, 6), *[st.none() | st.integers(-8, 8)] * 2, st.none() | st.integers(1, 4))
def test_slices_take_as_many_items(size: int, start: Any, stop: Any, step: Any) -> None:
    key = slice(start, stop, step)
    assert slice_length(size, key) == len(range(size)[key])
