"""Folding kernels against nested loops, as transposes, and against torch where it is installed."""

from __future__ import annotations

import itertools
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from weft.ops.kernels import folding

two = st.tuples(st.integers(1, 3), st.integers(1, 3))
borders = st.tuples(st.integers(0, 2), st.integers(0, 2))


@settings(deadline=None, max_examples=100)
@given(two, two, borders, two, borders, st.integers(1, 2), st.integers(1, 2))
def test_unfold_and_fold(
    kernel: Any, dilation: Any, padding: Any, stride: Any, extra: Any, batch: int, channels: int
) -> None:
    spatial = tuple(
        max(gap * (taps - 1) + 1 - 2 * low, 1) + more
        for taps, gap, low, more in zip(kernel, dilation, padding, extra)
    )
    rest = (kernel, dilation, padding, stride)
    x = np.random.default_rng(0).standard_normal((batch, channels, *spatial))
    columns = folding.unfold(x, *rest)
    assert columns.shape == folding.output_shape(x.shape, *rest)
    g = np.random.default_rng(1).standard_normal(columns.shape)
    counts = folding.window_counts(spatial, kernel, stride, padding, dilation)
    summed = np.zeros_like(x)
    for sample, channel in itertools.product(range(batch), range(channels)):
        for number, tap in enumerate(np.ndindex(*kernel)):
            for position, window in enumerate(np.ndindex(*counts)):
                spot = [w * s + t * d - p for w, s, t, d, p in zip(window, stride, tap, dilation, padding)]
                inside = all(0 <= q < size for q, size in zip(spot, spatial))
                row = channel * kernel[0] * kernel[1] + number
                assert columns[sample, row, position] == (x[(sample, channel, *spot)] if inside else 0)
                if inside:
                    summed[(sample, channel, *spot)] += g[sample, row, position]
    np.testing.assert_allclose(folding.fold(g, spatial, *rest), summed, atol=1e-12)


def test_disjoint_windows() -> None:
    assert folding.disjoint((2, 1), (2, 1), (1, 5))
    assert not folding.disjoint((2, 2), (2, 1), (1, 1))
    assert not folding.disjoint((2,), (2,), (2,))


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
def test_fold_sums_in_single_precision(dtype: Any) -> None:
    columns = np.ones((1, 600, 600), dtype)
    out = folding.fold(columns, (1199,), (600,), (1,), (0,), (1,))
    assert out.dtype == dtype
    assert float(out[0, 0, 599]) == float(dtype(600))


def test_unfold_is_a_fresh_array() -> None:
    x = np.ones((1, 1, 2, 2))
    assert not np.shares_memory(folding.unfold(x, (1, 1), (1, 1), (0, 0), (1, 1)), x)


@pytest.mark.torch
def test_against_torch() -> None:
    torch = pytest.importorskip("torch")
    rest = ((3, 2), (1, 2), (1, 0), (2, 1))
    x = np.random.default_rng(0).standard_normal((2, 3, 6, 7))
    expected = torch.nn.functional.unfold(torch.from_numpy(x), *rest)
    np.testing.assert_array_equal(folding.unfold(x, *rest), expected.numpy())
    back = torch.nn.functional.fold(expected, (6, 7), *rest)
    np.testing.assert_allclose(folding.fold(expected.numpy(), (6, 7), *rest), back.numpy())
