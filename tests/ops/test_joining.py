"""Joined tensors against itertools and NumPy."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import weft


def test_ranks() -> None:
    assert [weft.atleast_3d(weft.ones(shape)).shape for shape in ((), (2,), (2, 3))] == [
        (1, 1, 1),
        (1, 2, 1),
        (2, 3, 1),
    ]
    pair = weft.atleast_2d(weft.ones(2), weft.ones(()))
    assert isinstance(pair, tuple) and [x.shape for x in pair] == [(1, 2), (1, 1)]


def test_blocks_and_products() -> None:
    got = weft.block_diag(weft.ones(1, 2), weft.tensor(3.0), weft.tensor([4.0, 5.0]))
    assert got.tolist() == [[1, 1, 0, 0, 0], [0, 0, 3, 0, 0], [0, 0, 0, 4, 5]]
    got = weft.cartesian_prod(weft.tensor([1, 2]), weft.tensor([3, 4, 5]))
    assert got.tolist() == [list(row) for row in itertools.product([1, 2], [3, 4, 5])]
    got = weft.combinations(weft.tensor([7, 8, 9]), 2, True)
    assert got.tolist() == [list(r) for r in itertools.combinations_with_replacement([7, 8, 9], 2)]
    x = np.array([2.0, 3.0, 0.0])
    np.testing.assert_array_equal(weft.vander(weft.from_numpy(x), 4).numpy(), np.vander(x, 4))


def test_errors() -> None:
    with pytest.raises(RuntimeError, match="Input 0 has 3 dimensions"):
        weft.block_diag(weft.ones(1, 1, 1))
    with pytest.raises(RuntimeError, match=r"Expect a 1D vector, but got shape \[2, 2\]"):
        weft.combinations(weft.ones(2, 2))
    with pytest.raises(RuntimeError, match="x must be a one-dimensional tensor"):
        weft.vander(weft.ones(2, 2))
