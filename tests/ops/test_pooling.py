"""Pools against slices of NumPy arrays, their indices, and PyTorch's error texts."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import weft
from weft.nn import functional as F

random = np.random.default_rng(0)


def make(*shape: int) -> weft.Tensor:
    return weft.from_numpy(random.standard_normal(shape))


def test_average_and_maximum_of_each_window() -> None:
    x = make(2, 3, 4, 6)
    blocks = x.numpy().reshape(2, 3, 2, 2, 3, 2)
    np.testing.assert_allclose(F.avg_pool2d(x, 2).numpy(), blocks.mean((3, 5)))
    np.testing.assert_array_equal(F.max_pool2d(x, 2).numpy(), blocks.max((3, 5)))


def test_indices_find_the_maxima() -> None:
    x = make(2, 3, 5, 7)
    values, places = F.max_pool2d(x, 3, stride=2, padding=1, ceil_mode=True, return_indices=True)
    found = np.take_along_axis(x.numpy().reshape(2, 3, -1), places.numpy().reshape(2, 3, -1), -1)
    np.testing.assert_array_equal(found, values.numpy().reshape(2, 3, -1))
    assert places.dtype is weft.int64


def test_ceil_mode_and_dilation_of_one_axis() -> None:
    x = weft.tensor([[1.0, 5.0, 2.0, 4.0, 3.0]])
    assert F.max_pool1d(x, 2).tolist() == [[5.0, 4.0]]
    assert F.max_pool1d(x, 2, ceil_mode=True).tolist() == [[5.0, 4.0, 3.0]]
    assert F.max_pool1d(x, 2, stride=1, dilation=2).tolist() == [[2.0, 5.0, 3.0]]


def test_what_an_average_divides_by() -> None:
    x = weft.ones(1, 1, 4)
    assert F.avg_pool1d(x, 3, stride=2, padding=1).tolist() == [[[pytest.approx(2 / 3), 1.0]]]
    assert F.avg_pool1d(x, 3, stride=2, padding=1, count_include_pad=False).tolist() == [[[1.0, 1.0]]]
    assert F.avg_pool2d(weft.ones(1, 2, 2), 2, divisor_override=2).tolist() == [[[2.0]]]
    whole = weft.tensor([[[3, -4, 5]]])
    assert F.avg_pool1d(whole, 2, stride=1).tolist() == [[[0, 0]]]


@pytest.mark.parametrize("size", [1, 3, 5, 7])
def test_adaptive_windows(size: int) -> None:
    x = make(2, 5)
    starts = [i * 5 // size for i in range(size)]
    stops = [math.ceil((i + 1) * 5 / size) for i in range(size)]
    windows = [x.numpy()[:, a:b] for a, b in zip(starts, stops, strict=True)]
    averages = np.stack([w.mean(-1) for w in windows], -1)
    maxima = np.stack([w.max(-1) for w in windows], -1)
    np.testing.assert_allclose(F.adaptive_avg_pool1d(x, size).numpy(), averages)
    np.testing.assert_array_equal(F.adaptive_max_pool1d(x, size).numpy(), maxima)


def test_none_keeps_an_axis() -> None:
    assert F.adaptive_avg_pool2d(make(2, 3, 4, 5), (None, 2)).shape == (2, 3, 4, 2)


def test_gradient_of_overlapping_maxima_adds_up() -> None:
    x = weft.tensor([[0.0, 9.0, 1.0]], requires_grad=True)
    F.max_pool1d(x, 2, stride=1).sum().backward()
    assert x.grad.tolist() == [[0.0, 2.0, 0.0]]


def test_gradient_of_an_empty_batch() -> None:
    x = weft.zeros(0, 3, 8, requires_grad=True)
    F.adaptive_avg_pool1d(x, 5).sum().backward()
    assert x.grad.shape == (0, 3, 8)


def test_power_mean() -> None:
    x = make(1, 2, 4).abs()
    expected = np.sqrt((x.numpy().reshape(1, 2, 2, 2) ** 2).sum(-1))
    np.testing.assert_allclose(F.lp_pool1d(x, 2, 2).numpy(), expected)
    y = make(1, 2, 4, 4).abs()
    cubes = (y.numpy().reshape(1, 2, 2, 2, 2, 2) ** 3).sum((3, 5)) ** (1 / 3)
    np.testing.assert_allclose(F.lp_pool2d(y, 3, 2).numpy(), cubes)


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (
            lambda: F.avg_pool2d(weft.zeros(1, 1, 4, 4), 5),
            r"Given input size: \(1x4x4\). Calculated output size: "
            r"\(1x0x0\). Output size is too small",
        ),
        (
            lambda: F.avg_pool2d(weft.zeros(1, 1, 4, 4), (1, 2, 3)),
            "avg_pool2d: kernel_size must either be a single int, or a tuple of two ints",
        ),
        (
            lambda: F.max_pool2d(weft.zeros(1, 1, 4, 4), 2, padding=2),
            "pad should be at most half of effective kernel "
            "size, but got pad=2, kernel_size=2 and dilation=1",
        ),
        (
            lambda: F.max_pool1d(weft.zeros(2, 2, 2), 5, stride=1),
            r"max_pool1d\(\) Invalid computed output size: -2",
        ),
        (lambda: F.max_pool2d(weft.zeros(1, 1, 4, 4), 2, stride=0), "stride should not be zero"),
        (lambda: F.avg_pool2d(weft.zeros(3, 3, 3), 2, divisor_override=0), "divisor must be not zero"),
        (
            lambda: F.adaptive_avg_pool1d(weft.zeros(1, 2, 3), ()),
            r"adaptive_avg_pool1d\(\) argument 'output_size' "
            r"should contain one int \(got 0\)",
        ),
        (
            lambda: F.adaptive_avg_pool2d(weft.zeros(1, 1, 1, 1), (-1, 0)),
            "elements of output_size must be greater than "
            r"or equal to 0 but received \{-1, 0\}",
        ),
    ],
)
def test_refusals(call: Any, text: str) -> None:
    with pytest.raises(RuntimeError, match=text):
        call()


def test_dtypes_that_pools_do_not_take() -> None:
    with pytest.raises(NotImplementedError, match="\"avg_pool2d\" not implemented for 'Bool'"):
        F.avg_pool2d(weft.ones(1, 2, 2, dtype=weft.bool), 2)
    with pytest.raises(NotImplementedError, match="\"max_pool1d_impl\" not implemented for 'Long'"):
        F.max_pool1d(weft.ones(1, 4, dtype=weft.int64), 2)
