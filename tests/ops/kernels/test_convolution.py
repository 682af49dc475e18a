"""Convolution kernels against nested loops, as transposes of each other, and against torch where it is."""

from __future__ import annotations

import itertools
from typing import Any
from unittest import mock

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from weft.ops.kernels import convolution

Case = dict[str, Any]


@st.composite
def cases(draw: st.DrawFn) -> Case:
    """A small convolution with every parameter free, and a tiling that may be forced on it."""
    axes = draw(st.integers(1, 3))
    most = {1: 3, 2: 3, 3: 2}[axes]
    per_axis = lambda low, high: tuple(draw(st.integers(low, high)) for _ in range(axes))
    kernel, stride, dilation = per_axis(1, most), per_axis(1, 3), per_axis(1, 2)
    padding = tuple((draw(st.integers(-1, 2)), draw(st.integers(-1, 2))) for _ in range(axes))
    spatial = tuple(
        max(gap * (taps - 1) + 1 - low - high, 1 - min(low, 0) - min(high, 0)) + draw(st.integers(0, 3))
        for taps, gap, (low, high) in zip(kernel, dilation, padding)
    )
    groups, inputs, outputs = draw(st.integers(1, 3)), draw(st.integers(1, 3)), draw(st.integers(1, 3))
    return {
        "x": (draw(st.integers(1, 3)), groups * inputs, *spatial),
        "w": (groups * outputs, inputs, *kernel),
        "stride": stride,
        "padding": padding,
        "dilation": dilation,
        "groups": groups,
        "tiling": draw(
            st.sampled_from(
                [{"COLUMN_BYTES": 8 << 20}, {"COLUMN_BYTES": 64}, {"COLUMN_BYTES": 900, "LARGE_WEIGHT": 0}]
            )
        ),
        "seed": draw(st.integers(0, 1000)),
    }


def naive(x: Any, w: Any, stride: Any, padding: Any, dilation: Any, groups: int) -> Any:
    """The definition, one output element at a time."""
    shape = convolution.output_shape(x.shape, w.shape, stride, padding, dilation)
    out = np.zeros(shape, x.dtype)
    per_group = w.shape[0] // groups
    for place in itertools.product(*map(range, shape)):
        sample, output, *position = place
        for tap in itertools.product(*map(range, w.shape[2:])):
            source = [
                p * s + t * d - low for p, s, t, d, (low, _) in zip(position, stride, tap, dilation, padding)
            ]
            inside = all(0 <= q < size for q, size in zip(source, x.shape[2:]))
            # A negative border crops: what it cuts off is not read, although it exists.
            cropped = any(
                q < -low or q >= size + high for q, size, (low, high) in zip(source, x.shape[2:], padding)
            )
            if inside and not cropped:
                first = output // per_group * w.shape[1]
                channels = x[(sample, slice(first, first + w.shape[1]), *source)]
                out[place] += (channels * w[(output, slice(None), *tap)]).sum()
    return out


@settings(deadline=None, max_examples=150)
@given(cases())
def test_forward_and_both_gradients_match_the_definition(case: Case) -> None:
    rng = np.random.default_rng(case["seed"])
    x, w = rng.standard_normal(case["x"]), rng.standard_normal(case["w"])
    rest = (case["stride"], case["padding"], case["dilation"], case["groups"])
    expected = naive(x, w, *rest)
    g = rng.standard_normal(expected.shape)
    with mock.patch.multiple(convolution, **case["tiling"]):
        np.testing.assert_allclose(convolution.forward(x, w, *rest), expected, atol=1e-12)
        grad_x = convolution.grad_input(g, w, x.shape, *rest)
        grad_w = convolution.grad_weight(g, x, w.shape, *rest)
    assert grad_x.shape == x.shape
    assert grad_w.shape == w.shape
    # Linear in x and in w, so the inner product with a random g determines the transpose.
    np.testing.assert_allclose((grad_x * x).sum(), (expected * g).sum(), atol=1e-10)
    np.testing.assert_allclose((grad_w * w).sum(), (expected * g).sum(), atol=1e-10)
    probe_x, probe_w = rng.standard_normal(x.shape), rng.standard_normal(w.shape)
    np.testing.assert_allclose((grad_x * probe_x).sum(), (naive(probe_x, w, *rest) * g).sum(), atol=1e-10)
    np.testing.assert_allclose((grad_w * probe_w).sum(), (naive(x, probe_w, *rest) * g).sum(), atol=1e-10)


def test_scatter_and_flip_agree_where_both_apply() -> None:
    rng = np.random.default_rng(0)
    g, w = rng.standard_normal((2, 4, 6, 5)), rng.standard_normal((4, 3, 3, 2))
    pairs = ((1, 1), (0, 1))
    flipped = convolution._flipped(g, w, (2, 6, 6, 5), pairs, (1, 1), 2)
    scattered = convolution._scattered(g, w, (2, 6, 6, 5), (1, 1), pairs, (1, 1), 2)
    np.testing.assert_allclose(flipped, scattered, atol=1e-12)


def test_output_padding_beyond_the_stride_keeps_the_transpose() -> None:
    rng = np.random.default_rng(1)
    x, w = rng.standard_normal((2, 3, 4)), rng.standard_normal((3, 2, 3))
    rest = ((1,), (1,), (3,), 1)
    shape = convolution.transpose_output_shape(x.shape, w.shape, (1,), (1,), (2,), (3,), 1)
    assert shape == (2, 2, 10)
    y = convolution.grad_input(x, w, shape, *rest)
    g = rng.standard_normal(shape)
    back_x = convolution.forward(g, w, *rest, output_size=x.shape[2:])
    back_w = convolution.grad_weight(x, g, w.shape, *rest)
    assert back_x.shape == x.shape
    np.testing.assert_allclose((back_x * x).sum(), (y * g).sum())
    np.testing.assert_allclose((back_w * w).sum(), (y * g).sum())


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
def test_short_floats_are_summed_in_single_precision(dtype: Any) -> None:
    x, w = np.ones((1, 1000, 2, 2), dtype), np.ones((1, 1000, 1, 1), dtype)
    out = convolution.forward(x, w, (1, 1), (0, 0), (1, 1))
    assert out.dtype == dtype
    np.testing.assert_array_equal(out.astype(np.float64), 1000.0)


def test_integers_are_exact() -> None:
    x = np.full((1, 1, 3), 2**40 + 1, np.int64)
    out = convolution.forward(x, np.full((1, 1, 2), 2**20 + 1, np.int64), (1,), (0,), (1,))
    assert out.dtype == np.int64
    assert out.tolist() == [[[2 * (2**40 + 1) * (2**20 + 1)] * 2]]


@pytest.mark.parametrize("shape", [(0, 2, 5), (2, 0, 5)])
def test_empty_batch_or_channels(shape: tuple[int, ...]) -> None:
    x, w = np.zeros(shape), np.zeros((3, shape[1], 2))
    out = convolution.forward(x, w, (1,), (0,), (1,))
    assert out.shape == (shape[0], 3, 4)
    assert not out.any()
    assert convolution.grad_input(out, w, shape, (1,), (0,), (1,)).shape == shape
    assert convolution.grad_weight(out, x, w.shape, (1,), (0,), (1,)).shape == w.shape


def test_inputs_that_are_views() -> None:
    rng = np.random.default_rng(2)
    x = rng.standard_normal((6, 7, 2, 4)).transpose(2, 3, 0, 1)[:, ::2]
    w = rng.standard_normal((3, 3, 2, 5)).transpose(3, 2, 0, 1)
    rest = ((2, 1), ((1, 0), (0, 1)), (1, 2), 1)
    np.testing.assert_allclose(convolution.forward(x, w, *rest), naive(x, w, *rest), atol=1e-12)


def test_results_do_not_share_memory_with_inputs() -> None:
    x, w = np.ones((1, 1, 3)), np.ones((1, 1, 1))
    one = ((1,), (0,), (1,))
    assert not np.shares_memory(convolution.forward(x, w, *one), x)
    assert not np.shares_memory(convolution.grad_input(x, w, x.shape, *one), x)


def test_same_padding_puts_the_odd_element_after() -> None:
    assert convolution.same_padding((3, 4), (1, 1)) == ((1, 1), (1, 2))


@pytest.mark.torch
@settings(deadline=None, max_examples=60)
@given(cases())
def test_against_torch(case: Case) -> None:
    torch = pytest.importorskip("torch")
    padding = tuple(max(low, 0) for low, _ in case["padding"])
    rng = np.random.default_rng(case["seed"])
    axes = len(padding)
    spatial = tuple(size + 4 for size in case["x"][2:])
    x = rng.standard_normal((*case["x"][:2], *spatial)).astype(np.float32)
    w = rng.standard_normal(case["w"]).astype(np.float32)
    rest = (case["stride"], padding, case["dilation"], case["groups"])
    tx, tw = (torch.from_numpy(array).requires_grad_() for array in (x, w))
    ty = getattr(torch.nn.functional, f"conv{axes}d")(tx, tw, None, *rest)
    y = convolution.forward(x, w, *rest)
    np.testing.assert_allclose(y, ty.detach().numpy(), rtol=1e-4, atol=1e-4)
    g = rng.standard_normal(y.shape).astype(np.float32)
    ty.backward(torch.from_numpy(g))
    np.testing.assert_allclose(
        convolution.grad_input(g, w, x.shape, *rest), tx.grad.numpy(), rtol=1e-4, atol=1e-4
    )
    np.testing.assert_allclose(
        convolution.grad_weight(g, x, w.shape, *rest), tw.grad.numpy(), rtol=1e-4, atol=1e-4
    )


@pytest.mark.torch
@pytest.mark.parametrize("stride, output_padding, dilation", [(1, 0, 1), (2, 1, 1), (3, 2, 2), (2, 1, 3)])
def test_transposed_against_torch(stride: int, output_padding: int, dilation: int) -> None:
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(0)
    x, w = rng.standard_normal((2, 4, 5, 6)), rng.standard_normal((4, 3, 3, 2))
    expected = torch.nn.functional.conv_transpose2d(
        torch.from_numpy(x), torch.from_numpy(w), None, stride, 1, output_padding, 2, dilation
    ).numpy()
    pair = lambda value: (value, value)
    shape = convolution.transpose_output_shape(
        x.shape, w.shape, pair(stride), (1, 1), pair(output_padding), pair(dilation), 2
    )
    assert shape == expected.shape
    out = convolution.grad_input(x, w, shape, pair(stride), (1, 1), pair(dilation), 2)
    np.testing.assert_allclose(out, expected, atol=1e-12)
