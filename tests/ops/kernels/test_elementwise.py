"""Blocked kernels: accuracy in float32, every layout, and pieces that join without a seam."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from weft.ops.kernels import elementwise

UNARY = ["sigmoid", "silu", "mish", "erf", "gelu", "gelu_tanh", "log_sigmoid"]


def on_grid(function: Any, x: Any) -> Any:
    return np.array([function(float(v)) for v in x])


def test_erf_is_within_three_units_in_the_last_place() -> None:
    x = np.concatenate([np.linspace(-5, 5, 20_001), np.geomspace(1e-8, 1, 5001)]).astype(np.float32)
    truth = on_grid(math.erf, x)
    error = np.abs(elementwise.erf(x) - truth) / np.spacing(np.abs(truth).astype(np.float32))
    assert error.max() <= 4
    assert elementwise.erf(np.float32([5, -5, np.inf, -np.inf])).tolist() == [1, -1, 1, -1]
    assert np.isnan(elementwise.erf(np.float32([np.nan]))).all()


def test_gelu_is_as_good_as_its_formula_in_float32() -> None:
    x = np.linspace(-9, 9, 20_001).astype(np.float32)
    truth = on_grid(lambda v: 0.5 * v * math.erfc(-v / math.sqrt(2)), x)
    np.testing.assert_allclose(elementwise.gelu(x), truth, rtol=3e-7, atol=7e-7)


@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_softplus_and_log_sigmoid_keep_relative_accuracy(kind: Any) -> None:
    x = np.linspace(-80, 80, 4001).astype(kind)
    truth = on_grid(lambda v: max(v, 0.0) + math.log1p(math.exp(-abs(v))), x)
    tolerance = 4 * np.finfo(kind).eps
    np.testing.assert_allclose(elementwise.softplus(x, 1.0, 1e9), truth, rtol=tolerance)
    np.testing.assert_allclose(elementwise.log_sigmoid(-x), -truth, rtol=tolerance)


@pytest.mark.parametrize("name", UNARY)
@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_pieces_and_layouts_give_the_same_bits(name: str, kind: Any) -> None:
    kernel = getattr(elementwise, name)
    x = np.random.default_rng(0).standard_normal((3, elementwise.BLOCK)).astype(kind)[:, 5:]
    x = np.ascontiguousarray(x)
    whole = kernel(x)
    np.testing.assert_array_equal(kernel(x[1]), whole[1])
    np.testing.assert_array_equal(kernel(x.T), whole.T)
    np.testing.assert_array_equal(kernel(x[:, ::2]), whole[:, ::2])
    assert kernel(x[0, 0, ...]).shape == ()
    assert kernel(x[:0]).shape == (0, x.shape[1])
    assert kernel(x).dtype == kind


def test_input_is_left_alone() -> None:
    x = np.linspace(-2, 2, 101).astype(np.float32)
    before = x.copy()
    for name in UNARY:
        getattr(elementwise, name)(x)
    elementwise.softplus(x, 2.0, 1.0)
    elementwise.logaddexp(x, x)
    elementwise.gelu_backward(x, x)
    np.testing.assert_array_equal(x, before)
