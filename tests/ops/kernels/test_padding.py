"""Padding kernels against index arithmetic, as transposes, and against torch where it is installed."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from weft.ops.kernels import padding

MODES = ("constant", "reflect", "replicate", "circular")


@st.composite
def cases(draw: st.DrawFn) -> tuple[str, tuple[int, ...], tuple[tuple[int, int], ...], int]:
    mode = draw(st.sampled_from(MODES))
    axes = draw(st.integers(1, 3))
    pairs, sizes = [], []
    for _ in range(axes):
        size = draw(st.integers(2, 5))
        most = {"constant": 4, "reflect": size - 1, "replicate": 6, "circular": size}[mode]
        low = draw(st.integers(-1 if size > 2 else 0, most))
        least = -1 if size + low > 2 else 0
        if mode == "circular" and low < 0:  # what wraps round is what is left after cropping
            most = size + low
        high = draw(st.integers(least, most))
        if mode == "circular" and high < 0:
            low = min(low, size + high)
        pairs.append((low, high))
        sizes.append(size)
    lead = draw(st.sampled_from([(), (2,), (2, 3)]))
    return mode, (*lead, *sizes), tuple(pairs), draw(st.integers(0, 1000))


def source(place: int, size: int, low: int, high: int, mode: str) -> int | None:
    """Which input element the padded element `place` repeats, if any."""
    place -= low
    if 0 <= place < size and mode != "circular":
        return place
    if mode == "reflect":
        return -place if place < 0 else 2 * (size - 1) - place
    if mode == "replicate":
        return min(max(place, 0), size - 1)
    if mode == "circular":
        first, stop = max(-low, 0), size - max(-high, 0)
        return first + (place - first) % (stop - first)
    return None


@settings(deadline=None, max_examples=200)
@given(cases())
def test_every_element_comes_from_its_source_and_the_gradient_returns_there(case: Any) -> None:
    mode, shape, pairs, seed = case
    rng = np.random.default_rng(seed)
    x = rng.standard_normal(shape)
    before = x.copy()
    out = padding.pad(x, pairs, mode, 7.5)
    assert out.shape == padding.output_shape(shape, pairs)
    assert not np.shares_memory(out, x)
    g = rng.standard_normal(out.shape)
    expected_grad = np.zeros(shape)
    lead = len(shape) - len(pairs)
    for place in np.ndindex(out.shape):
        inner = [
            source(spot, size, low, high, mode)
            for spot, size, (low, high) in zip(place[lead:], shape[lead:], pairs)
        ]
        if None in inner:
            assert out[place] == 7.5
        else:
            assert out[place] == x[(*place[:lead], *inner)]
            expected_grad[(*place[:lead], *inner)] += g[place]
    np.testing.assert_allclose(padding.pad_backward(g, shape, pairs, mode), expected_grad, atol=1e-12)
    np.testing.assert_array_equal(x, before)


def test_flat_order_is_last_axis_first() -> None:
    assert padding.pairs_from_flat((1, 2, 3, 4)) == ((3, 4), (1, 2))


def test_negative_zero_and_nan_fill() -> None:
    assert np.signbit(padding.pad(np.ones(1), [(1, 0)], value=-0.0)[0])
    assert np.isnan(padding.pad(np.ones(1), [(1, 0)], value=np.nan)[0])


def test_cropping_everything_away() -> None:
    assert padding.pad(np.ones((2, 3)), [(-2, -1)]).shape == (2, 0)


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
def test_gradient_of_replicated_edge_sums_in_single_precision(dtype: Any) -> None:
    out = padding.pad_backward(np.ones(1001, dtype), (1,), [(500, 500)], "replicate")
    assert out.dtype == dtype
    assert float(out[0]) == float(dtype(1001))


def test_unknown_mode() -> None:
    with pytest.raises(NotImplementedError, match="mirror"):
        padding.pad(np.ones(3), [(1, 1)], "mirror")


@pytest.mark.torch
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("flat", [(1, 2, 0, 1), (2, -1, -1, 2), (-1, -1, 1, 1)])
def test_against_torch(mode: str, flat: tuple[int, ...]) -> None:
    torch = pytest.importorskip("torch")
    x = np.random.default_rng(0).standard_normal((2, 3, 4, 5))
    tensor = torch.from_numpy(x).requires_grad_()
    expected = torch.nn.functional.pad(tensor, flat, mode=mode)
    pairs = padding.pairs_from_flat(flat)
    np.testing.assert_array_equal(padding.pad(x, pairs, mode), expected.detach().numpy())
    g = np.random.default_rng(1).standard_normal(expected.shape)
    expected.backward(torch.from_numpy(g))
    np.testing.assert_allclose(padding.pad_backward(g, x.shape, pairs, mode), tensor.grad.numpy())
