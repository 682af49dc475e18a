"""Elements by rank against NumPy's own."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import weft

X = np.random.default_rng(0).standard_normal((4, 5))
HOLES = np.where(X > 0.8, np.nan, X)


def tensor(array: Any) -> weft.Tensor:
    return weft.from_numpy(np.asarray(array))


def test_extremes() -> None:
    low, high = weft.aminmax(tensor(X), dim=1)
    np.testing.assert_array_equal(low.numpy(), X.min(1))
    np.testing.assert_array_equal(high.numpy(), X.max(1))
    for name, fold in (("cummax", np.maximum), ("cummin", np.minimum)):
        values, indices = getattr(weft, name)(tensor(X), 1)
        np.testing.assert_array_equal(values.numpy(), fold.accumulate(X, 1))
        np.testing.assert_array_equal(np.take_along_axis(X, indices.numpy(), 1), values.numpy())
    assert weft.cummax(weft.tensor([1.0, 1.0, 0.0]), 0).indices.tolist() == [0, 1, 1]


def test_order_statistics() -> None:
    values, indices = weft.kthvalue(tensor(X), 2, 0)
    np.testing.assert_array_equal(values.numpy(), np.sort(X, 0)[1])
    np.testing.assert_array_equal(X[indices.numpy(), np.arange(5)], values.numpy())
    values, indices = weft.mode(weft.tensor([[3, 1, 3, 1, 2], [5, 4, 4, 0, 0]]))
    assert values.tolist() == [1, 0] and indices.tolist() == [3, 4]
    np.testing.assert_array_equal(weft.msort(tensor(X)).numpy(), np.sort(X, 0))
    assert weft.nanmedian(weft.tensor([3.0, float("nan"), 1.0, 2.0])).item() == 2.0


def test_folds_without_nan() -> None:
    np.testing.assert_allclose(weft.nansum(tensor(HOLES), 1).numpy(), np.nansum(HOLES, 1))
    np.testing.assert_allclose(weft.nanmean(tensor(HOLES), 0).numpy(), np.nanmean(HOLES, 0))
    assert weft.count_nonzero(weft.tensor([[0, 1], [2, 3]]), 0).tolist() == [1, 2]
    x = tensor(HOLES).requires_grad_()
    weft.nansum(x).backward()
    np.testing.assert_array_equal(x.grad.numpy(), ~np.isnan(HOLES))


@pytest.mark.parametrize("how", ["linear", "lower", "higher", "midpoint", "nearest"])
def test_quantiles(how: Any) -> None:
    levels = np.array([0.0, 0.13, 0.5, 0.77, 1.0])
    got = weft.quantile(tensor(X), tensor(levels), 1, interpolation=how)
    np.testing.assert_allclose(got.numpy(), np.quantile(X, levels, 1, method=how))
    got = weft.nanquantile(tensor(HOLES), 0.3, 0, True, interpolation=how)
    np.testing.assert_allclose(got.numpy(), np.nanquantile(HOLES, 0.3, 0, keepdims=True, method=how))
    assert np.isnan(weft.quantile(tensor(HOLES), 0.3).item())


def test_errors() -> None:
    x = weft.ones(3)
    with pytest.raises(RuntimeError, match=r"kthvalue\(\): selected number k out of range for dimension 0"):
        weft.kthvalue(x, 4)
    with pytest.raises(RuntimeError, match=r"quantile\(\) q must be in the range \[0, 1\] but got 2"):
        weft.quantile(x, 2)
    with pytest.raises(RuntimeError, match=r"quantile\(\) q values must be in the range \[0, 1\]"):
        weft.quantile(x, weft.tensor([1.5]))
    with pytest.raises(RuntimeError, match="cannot compute aminmax over an empty dimension"):
        weft.aminmax(weft.empty(0))
