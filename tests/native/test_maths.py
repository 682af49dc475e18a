"""Elementary functions against NumPy's in longer numbers."""

from __future__ import annotations

import numpy as np
import pytest

from tests.native.harness import given, point, run_plan
from weft.native import maths


@pytest.mark.parametrize(("kind", "low", "high"), [(np.float32, -87.3, 88.7), (np.float64, -708.0, 709.7)])
def test_exponentials_are_within_an_ulp(kind: type, low: float, high: float) -> None:
    x = np.linspace(low, high, 20_001).astype(kind)
    (actual,), _ = run_plan([point(maths.exp, given(x, 0))], [x])
    expected = np.exp(x.astype(np.longdouble))
    ulps = np.abs(actual - expected) / np.spacing(expected.astype(kind))
    assert ulps.max() < 1.5


@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_special_numbers(kind: type) -> None:
    x = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1e4, -1e4], kind)
    (actual,), _ = run_plan([point(maths.exp, given(x, 0))], [x])
    np.testing.assert_array_equal(actual, np.array([1, 1, np.inf, 0, np.nan, np.inf, 0], kind))
