"""Sort, topk, unique: order, ties, NaN, gradients, errors."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import weft

NAN, INF = float("nan"), float("inf")


def tensor(values: Any, kind: Any = None) -> Any:
    return weft.from_numpy(np.array(values, kind))


@pytest.mark.parametrize("kind", [np.float16, np.float32, np.float64, ml_dtypes.bfloat16])
def test_nan_sorts_as_the_largest(kind: Any) -> None:
    x = weft.from_numpy(np.array([3, NAN, 1, INF, -INF]).astype(kind))
    assert x.sort().indices.numpy().tolist() == [4, 2, 0, 3, 1]
    assert x.sort(descending=True).indices.numpy().tolist() == [1, 3, 0, 2, 4]
    assert x.topk(2).indices.numpy().tolist() == [1, 3]
    assert x.topk(2, largest=False).indices.numpy().tolist() == [4, 2]
    assert x.sort().values.dtype is x.dtype


@pytest.mark.parametrize("descending", [False, True])
def test_equal_elements_keep_their_order(descending: bool) -> None:
    x = tensor([1, 0, 1, 0, 1])
    expected = [0, 2, 4, 1, 3] if descending else [1, 3, 0, 2, 4]
    assert weft.argsort(x, 0, descending, stable=True).numpy().tolist() == expected


@pytest.mark.parametrize("dim", [0, 1, -1])
def test_sort_along_a_dimension(dim: int) -> None:
    x = np.random.default_rng(0).permutation(12).reshape(3, 4)
    values, indices = weft.sort(tensor(x), dim)
    np.testing.assert_array_equal(values.numpy(), np.sort(x, dim))
    np.testing.assert_array_equal(np.take_along_axis(x, indices.numpy(), dim), values.numpy())


@pytest.mark.parametrize("largest", [False, True])
@pytest.mark.parametrize(("size", "k"), [(5, 2), (100, 7), (100, 100), (100, 0)])
def test_topk_equals_the_head_of_a_sort(size: int, k: int, largest: bool) -> None:
    x = np.random.default_rng(1).integers(0, 20, (3, size)).astype(np.float32)
    values, indices = weft.topk(tensor(x), k, largest=largest)
    ordered = np.sort(x, 1)[:, ::-1] if largest else np.sort(x, 1)
    np.testing.assert_array_equal(values.numpy(), ordered[:, :k])
    np.testing.assert_array_equal(np.take_along_axis(x, indices.numpy(), 1), values.numpy())


def test_gradients_go_back_to_their_elements() -> None:
    x = tensor([[3.0, 1.0, 2.0]]).requires_grad_()
    weights = tensor([[1.0, 10.0, 100.0]])
    assert weft.autograd.grad(x.sort().values, x, weights)[0].numpy().tolist() == [[100, 1, 10]]
    assert weft.autograd.grad(x.topk(2).values, x, weights[:, :2])[0].numpy().tolist() == [[1, 0, 10]]


def test_errors() -> None:
    x = tensor(np.arange(6.0))
    for k in (7, -1):
        with pytest.raises(RuntimeError, match="selected index k out of range"):
            x.topk(k)
    with pytest.raises(IndexError, match=r"range of \[-1, 0\], but got 1"):
        x.sort(1)
    with pytest.raises(RuntimeError, match="Sort does not support complex dtypes on CPU"):
        tensor([1j]).sort()
    with pytest.raises(RuntimeError, match="topk does not support bool dtypes on CPU"):
        tensor([True]).topk(1)


def test_unique_values() -> None:
    x = tensor([[3, 1], [1, 2]])
    assert weft.unique(x).numpy().tolist() == [1, 2, 3]
    values, inverse, counts = x.unique(return_inverse=True, return_counts=True)
    np.testing.assert_array_equal(values.numpy()[inverse.numpy()], x.numpy())
    assert counts.numpy().tolist() == [2, 1, 1]
    assert len(weft.unique(x, return_counts=True)) == 2
    assert weft.unique(tensor([2.0, NAN, NAN])).shape == (3,)  # NaN equals nothing


def test_unique_slices() -> None:
    x = tensor([[3, 1, 3], [1, 2, 1], [3, 1, 3]])
    rows, inverse, counts = weft.unique(x, return_inverse=True, return_counts=True, dim=0)
    assert rows.numpy().tolist() == [[1, 2, 1], [3, 1, 3]]
    assert inverse.numpy().tolist() == [1, 0, 1]
    assert counts.numpy().tolist() == [1, 2]
    assert weft.unique(x, dim=-1).numpy().tolist() == [[1, 3], [2, 1], [1, 3]]


def test_unique_errors() -> None:
    with pytest.raises(RuntimeError, match="There are 0 sized dimensions, and they aren't selected"):
        weft.unique(tensor(np.zeros((0, 3))), dim=1)
    with pytest.raises(IndexError, match="Dimension specified as 0 but tensor has no dimensions"):
        weft.unique(tensor(1.0), dim=0)
    assert weft.unique(tensor(np.zeros((0, 3))), dim=0).shape == (0, 3)


def test_unique_consecutive() -> None:
    values, inverse, counts = weft.unique_consecutive(weft.tensor([1, 1, 2, 1]), True, True)
    assert values.tolist() == [1, 2, 1] and inverse.tolist() == [0, 0, 1, 2] and counts.tolist() == [2, 1, 1]
    assert weft.tensor([[1, 1], [1, 1], [2, 1]]).unique_consecutive(dim=0).tolist() == [[1, 1], [2, 1]]
