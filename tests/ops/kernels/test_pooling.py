"""Pooling kernels against nested loops, as transposes, and against torch where it is installed."""

from __future__ import annotations

import itertools
import math
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from weft.ops.kernels import folding, pooling

Case = dict[str, Any]


@st.composite
def cases(draw: st.DrawFn, dilated: bool) -> Case:
    axes = draw(st.integers(1, 3))
    per_axis = lambda low, high: tuple(draw(st.integers(low, high)) for _ in range(axes))
    kernel, stride = per_axis(1, 3), per_axis(1, 3)
    dilation = per_axis(1, 2) if dilated else (1,) * axes
    padding = tuple(draw(st.integers(0, taps // 2)) for taps in kernel)
    spatial = tuple(
        max(gap * (taps - 1) + 1 - low, 1) + draw(st.integers(0, 3))
        for taps, gap, low in zip(kernel, dilation, padding)
    )
    return {
        "shape": (*draw(st.sampled_from([(), (2,), (2, 2)])), *spatial),
        "rest": (kernel, stride, padding),
        "dilation": dilation,
        "ceil_mode": draw(st.booleans()),
        "seed": draw(st.integers(0, 1000)),
    }


def window(place: Any, shape: Any, kernel: Any, stride: Any, padding: Any, dilation: Any) -> list[Any]:
    """The places in the plane that one output reads, in row-major order."""
    spots = []
    for tap in itertools.product(*map(range, kernel)):
        spot = tuple(p * s + t * d - low for p, s, t, d, low in zip(place, stride, tap, dilation, padding))
        if all(0 <= q < size for q, size in zip(spot, shape)):
            spots.append(spot)
    return spots


@settings(deadline=None, max_examples=150)
@given(cases(dilated=True), st.sampled_from(["normal", "ties", "nan", "low"]))
def test_max_pool(case: Case, kind: str) -> None:
    rng = np.random.default_rng(case["seed"])
    shape, axes = case["shape"], len(case["dilation"])
    x = rng.integers(0, 3, shape).astype(np.float64) if kind == "ties" else rng.standard_normal(shape)
    if kind == "nan":
        x[rng.random(shape) < 0.3] = np.nan
    if kind == "low":
        x[rng.random(shape) < 0.8] = -np.inf
    values, indices = pooling.max_pool(x, *case["rest"], case["dilation"], case["ceil_mode"])
    lead, plane = shape[: len(shape) - axes], shape[len(shape) - axes :]
    assert indices.dtype == np.int64
    for place in np.ndindex(values.shape):
        spots = window(place[len(lead) :], plane, *case["rest"], case["dilation"])
        if not spots:  # dilation can step over the whole axis
            assert values[place] == -np.inf
            continue
        found = [x[(*place[: len(lead)], *spot)] for spot in spots]
        best = 0
        for number, candidate in enumerate(found):
            if candidate > found[best] or math.isnan(candidate):
                best = number
        np.testing.assert_array_equal(values[place], found[best])
        assert indices[place] == np.ravel_multi_index(spots[best], plane)


@settings(deadline=None, max_examples=50)
@given(cases(dilated=True))
def test_scatter_is_the_transpose_of_gather(case: Case) -> None:
    rng = np.random.default_rng(case["seed"])
    x = rng.standard_normal(case["shape"])
    kernel, stride, _ = case["rest"]
    axes = len(kernel)
    values, indices = pooling.max_pool(x, *case["rest"], case["dilation"], case["ceil_mode"])
    probe, g = rng.standard_normal(x.shape), rng.standard_normal(values.shape)
    unique = folding.disjoint(kernel, stride, case["dilation"])
    back = pooling.scatter(g, indices, x.shape[x.ndim - axes :], unique)
    assert back.shape == x.shape
    np.testing.assert_allclose((back * probe).sum(), (pooling.gather(probe, indices, axes) * g).sum())


def test_scatter_of_short_floats_rounds_once_and_integers_stay_exact() -> None:
    places = np.zeros((1, 1000), np.int64)
    short = pooling.scatter(np.ones((1, 1000), ml_dtypes.bfloat16), places, (2,))
    assert short.dtype == ml_dtypes.bfloat16
    assert short.astype(np.float64).tolist() == [[1000.0, 0.0]]
    exact = pooling.scatter(np.array([[2**60 + 1, 1]]), np.array([[1, 1]]), (2,))
    assert exact.tolist() == [[0, 2**60 + 2]]


@pytest.mark.parametrize("dtype", [np.int32, np.uint8, np.float16, ml_dtypes.bfloat16])
def test_max_pool_of_other_dtypes(dtype: Any) -> None:
    x = np.array([[3, 1, 2, 2, 0]], dtype)
    values, indices = pooling.max_pool(x, (3,), (2,), (1,), (1,))
    assert values.dtype == dtype
    assert values.astype(int).tolist() == [[3, 2, 2]]
    assert indices.tolist() == [[0, 2, 3]]


def test_max_pool_with_more_taps_than_a_byte_counts() -> None:
    x = np.random.default_rng(0).standard_normal((1, 20, 20))
    values, indices = pooling.max_pool(x, (20, 20), (1, 1), (0, 0), (1, 1))
    assert indices.item() == x.argmax()
    assert values.item() == x.max()


@settings(deadline=None, max_examples=150)
@given(cases(dilated=False), st.booleans(), st.sampled_from([None, 3]))
def test_avg_pool(case: Case, include: bool, override: int | None) -> None:
    rng = np.random.default_rng(case["seed"])
    shape = case["shape"]
    kernel, stride, padding = case["rest"]
    axes = len(kernel)
    x = rng.standard_normal(shape)
    options = (*case["rest"], case["ceil_mode"], include, override)
    out = pooling.avg_pool(x, *options)
    lead, plane = shape[: len(shape) - axes], shape[len(shape) - axes :]
    for place in np.ndindex(out.shape):
        position = place[len(lead) :]
        spots = window(position, plane, *case["rest"], (1,) * axes)
        total = sum(x[(*place[: len(lead)], *spot)] for spot in spots)
        reach = [
            min(p * s - low + taps, size + low) - (p * s - low)
            for p, s, low, taps, size in zip(position, stride, padding, kernel, plane)
        ]
        divisor = override or (math.prod(reach) if include else len(spots))
        np.testing.assert_allclose(out[place], total / divisor, atol=1e-12)
    g, probe = rng.standard_normal(out.shape), rng.standard_normal(shape)
    back = pooling.avg_pool_backward(g, shape, *options)
    assert back.shape == shape
    np.testing.assert_allclose(
        (back * probe).sum(), (pooling.avg_pool(probe, *options) * g).sum(), atol=1e-12
    )


def test_avg_pool_of_integers_rounds_towards_zero() -> None:
    assert pooling.avg_pool(np.array([[-3, -2, 2, 3]]), (2,), (2,), (0,)).tolist() == [[-2, 2]]


def test_avg_pool_of_short_floats_sums_in_single_precision() -> None:
    x = np.ones((1, 4096), ml_dtypes.bfloat16)
    assert float(pooling.avg_pool(x, (4096,), (1,), (0,)).item()) == 1.0
    assert float(pooling.adaptive_avg_pool(x, (1,)).item()) == 1.0


def test_an_infinity_stays_in_its_windows() -> None:
    x = np.zeros((1, 7))
    x[0, 6] = np.inf
    assert pooling.adaptive_avg_pool(x, (3,)).tolist() == [[0, 0, np.inf]]
    assert pooling.avg_pool(x, (3,), (3,), (1,)).tolist() == [[0, 0, np.inf]]


sizes = st.lists(st.tuples(st.integers(1, 7), st.integers(1, 7)), min_size=1, max_size=3)


def adaptive_window(place: Any, shape: Any, counts: Any) -> list[Any]:
    spans = [
        range(p * size // count, math.ceil((p + 1) * size / count))
        for p, size, count in zip(place, shape, counts)
    ]
    return list(itertools.product(*spans))


@settings(deadline=None, max_examples=100)
@given(sizes, st.integers(0, 1000))
def test_adaptive_avg_pool(pairs: list[tuple[int, int]], seed: int) -> None:
    rng = np.random.default_rng(seed)
    shape, counts = (2, *(pair[0] for pair in pairs)), tuple(pair[1] for pair in pairs)
    x = rng.standard_normal(shape)
    before = x.copy()
    out = pooling.adaptive_avg_pool(x, counts)
    assert out.shape == (2, *counts)
    for place in np.ndindex(out.shape):
        found = [x[(place[0], *spot)] for spot in adaptive_window(place[1:], shape[1:], counts)]
        np.testing.assert_allclose(out[place], np.mean(found), atol=1e-12)
    g, probe = rng.standard_normal(out.shape), rng.standard_normal(shape)
    kept = g.copy()
    back = pooling.adaptive_avg_pool_backward(g, shape)
    forward = pooling.adaptive_avg_pool(probe, counts)
    np.testing.assert_allclose((back * probe).sum(), (forward * g).sum(), atol=1e-12)
    np.testing.assert_array_equal(x, before)
    np.testing.assert_array_equal(g, kept)


@settings(deadline=None, max_examples=100)
@given(sizes, st.integers(0, 1000), st.sampled_from(["ties", "nan"]))
def test_adaptive_max_pool(pairs: list[tuple[int, int]], seed: int, kind: str) -> None:
    rng = np.random.default_rng(seed)
    shape, counts = (2, *(pair[0] for pair in pairs)), tuple(pair[1] for pair in pairs)
    x = rng.integers(0, 3, shape).astype(np.float64)
    if kind == "nan":
        x[rng.random(shape) < 0.2] = np.nan
    values, indices = pooling.adaptive_max_pool(x, counts)
    assert indices.dtype == np.int64
    assert not np.shares_memory(values, x)
    for place in np.ndindex(values.shape):
        spots = adaptive_window(place[1:], shape[1:], counts)
        best = spots[0]
        for spot in spots:
            if x[(place[0], *spot)] > x[(place[0], *best)] or np.isnan(x[(place[0], *spot)]):
                best = spot
        np.testing.assert_array_equal(values[place], x[(place[0], *best)])
        assert indices[place] == np.ravel_multi_index(best, shape[1:])


@pytest.mark.torch
@settings(deadline=None, max_examples=100)
@given(cases(dilated=True), st.booleans())
def test_max_pool_against_torch(case: Case, ties: bool) -> None:
    torch = pytest.importorskip("torch")
    kernel, stride, padding = case["rest"]
    axes = len(kernel)
    rng = np.random.default_rng(case["seed"])
    shape = (1, 2, *(size + 2 for size in case["shape"][len(case["shape"]) - axes :]))
    x = (
        rng.integers(0, 3, shape).astype(np.float32)
        if ties
        else rng.standard_normal(shape).astype(np.float32)
    )
    tensor = torch.from_numpy(x).requires_grad_()
    function = getattr(torch.nn.functional, f"max_pool{axes}d")
    expected, places = function(
        tensor, kernel, stride, padding, case["dilation"], case["ceil_mode"], return_indices=True
    )
    values, indices = pooling.max_pool(x, *case["rest"], case["dilation"], case["ceil_mode"])
    np.testing.assert_array_equal(values, expected.detach().numpy())
    np.testing.assert_array_equal(indices, places.numpy())
    g = rng.standard_normal(values.shape).astype(np.float32)
    expected.backward(torch.from_numpy(g))
    np.testing.assert_allclose(pooling.scatter(g, indices, shape[2:]), tensor.grad.numpy(), atol=1e-5)


@pytest.mark.torch
@settings(deadline=None, max_examples=100)
@given(cases(dilated=False), st.booleans())
def test_avg_pool_against_torch(case: Case, include: bool) -> None:
    torch = pytest.importorskip("torch")
    axes = len(case["rest"][0])
    x = np.random.default_rng(case["seed"]).standard_normal(
        (1, 2, *(size + 2 for size in case["shape"][-axes:]))
    )
    tensor = torch.from_numpy(x).requires_grad_()
    expected = getattr(torch.nn.functional, f"avg_pool{axes}d")(
        tensor, *case["rest"], case["ceil_mode"], include
    )
    out = pooling.avg_pool(x, *case["rest"], case["ceil_mode"], include)
    np.testing.assert_allclose(out, expected.detach().numpy(), atol=1e-12)
    g = np.random.default_rng(1).standard_normal(out.shape)
    expected.backward(torch.from_numpy(g))
    back = pooling.avg_pool_backward(g, x.shape, *case["rest"], case["ceil_mode"], include)
    np.testing.assert_allclose(back, tensor.grad.numpy(), atol=1e-12)


@pytest.mark.torch
@settings(deadline=None, max_examples=50)
@given(sizes)
def test_adaptive_against_torch(pairs: list[tuple[int, int]]) -> None:
    torch = pytest.importorskip("torch")
    axes, counts = len(pairs), tuple(pair[1] for pair in pairs)
    x = np.random.default_rng(0).standard_normal((1, 2, *(pair[0] for pair in pairs)))
    tensor = torch.from_numpy(x).requires_grad_()
    expected = getattr(torch.nn.functional, f"adaptive_avg_pool{axes}d")(tensor, counts)
    np.testing.assert_allclose(pooling.adaptive_avg_pool(x, counts), expected.detach().numpy(), atol=1e-12)
    expected.sum().backward()
    back = pooling.adaptive_avg_pool_backward(np.ones(expected.shape), x.shape)
    np.testing.assert_allclose(back, tensor.grad.numpy(), atol=1e-12)
    values, places = getattr(torch.nn.functional, f"adaptive_max_pool{axes}d")(
        tensor, counts, return_indices=True
    )
    ours = pooling.adaptive_max_pool(x, counts)
    np.testing.assert_array_equal(ours[0], values.detach().numpy())
    np.testing.assert_array_equal(ours[1], places.numpy())
