"""Counts, places and membership against NumPy's own."""

from __future__ import annotations

import numpy as np
import pytest

import weft

RANDOM = np.random.default_rng(0)


def test_counts() -> None:
    numbers, weights = RANDOM.integers(0, 5, 20), RANDOM.random(20)
    np.testing.assert_array_equal(
        weft.bincount(weft.from_numpy(numbers), minlength=9).numpy(), np.bincount(numbers, minlength=9)
    )
    got = weft.bincount(weft.from_numpy(numbers), weft.from_numpy(weights))
    np.testing.assert_allclose(got.numpy(), np.bincount(numbers, weights))
    x = RANDOM.standard_normal(50)
    np.testing.assert_array_equal(
        weft.histc(weft.from_numpy(x), 7, -1, 2).numpy(), np.histogram(x, 7, (-1, 2))[0]
    )
    counts, edges = weft.histogram(
        weft.from_numpy(x), 6, range=(-1.0, 1.0), weight=weft.from_numpy(np.abs(x)), density=True
    )
    wanted = np.histogram(x, 6, (-1, 1), weights=np.abs(x), density=True)
    np.testing.assert_allclose(counts.numpy(), wanted[0])
    np.testing.assert_allclose(edges.numpy(), wanted[1])


@pytest.mark.parametrize("right", [False, True])
def test_places_in_sorted_rows(right: bool) -> None:
    rows, values = np.sort(RANDOM.integers(0, 9, (3, 7)), -1), RANDOM.integers(-1, 11, (3, 5))
    got = weft.searchsorted(weft.from_numpy(rows), weft.from_numpy(values), right=right).numpy()
    side = "right" if right else "left"
    wanted = [np.searchsorted(row, value, side) for row, value in zip(rows, values, strict=True)]
    np.testing.assert_array_equal(got, wanted)
    got = weft.bucketize(weft.from_numpy(values), weft.from_numpy(rows[0]), right=right, out_int32=True)
    assert got.dtype is weft.int32
    np.testing.assert_array_equal(got.numpy(), np.searchsorted(rows[0], values, side))
    shuffled = RANDOM.permutation(rows[0])
    got = weft.searchsorted(
        weft.from_numpy(shuffled),
        weft.from_numpy(values),
        sorter=weft.from_numpy(np.argsort(shuffled)),
        side=side,
    )
    np.testing.assert_array_equal(got.numpy(), np.searchsorted(rows[0], values, side))


def test_membership_and_coordinates() -> None:
    x = weft.tensor([[1, 2], [3, 4]])
    assert weft.isin(x, weft.tensor([2, 3])).tolist() == [[False, True], [True, False]]
    assert weft.isin(x, 4, invert=True).tolist() == [[True, True], [True, False]]
    places = weft.unravel_index(weft.tensor([5, 0]), (2, 3))
    assert [p.tolist() for p in places] == [[1, 0], [2, 0]]


def test_errors() -> None:
    with pytest.raises(RuntimeError, match="bincount only supports 1-d non-negative integral inputs"):
        weft.bincount(weft.tensor([-1]))
    with pytest.raises(RuntimeError, match="torch.histc: max must be larger than min"):
        weft.histc(weft.ones(3), 4, 2, 1)
    with pytest.raises(RuntimeError, match="side can only be 'left' or 'right' but got up"):
        weft.searchsorted(weft.ones(3), weft.ones(3), side="up")
    with pytest.raises(RuntimeError, match=r"boundaries tensor must be 1 dimension, but got dim\(2\)"):
        weft.bucketize(weft.ones(3), weft.ones(2, 2))


def test_histograms_of_equal_elements_have_room_around_them() -> None:
    for x, limits, edges in (
        ([2.0, 2.0], None, [1.5, 2.0, 2.5]),
        ([], None, [0.0, 0.5, 1.0]),
        ([1.0, 2.0], (1.0, 1.0), [0.5, 1.0, 1.5]),
    ):
        assert weft.histogram(weft.tensor(x), 2, range=limits).bin_edges.tolist() == edges
