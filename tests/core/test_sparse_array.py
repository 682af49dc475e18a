"""Sparse arrays: added to dense ones and to their like, in both orders."""

from __future__ import annotations

import numpy as np
import pytest

from weft.core.arrays import MODULES
from weft.core.sparse_array import SparseArray


def rows(*places):
    return SparseArray(np.array([places]), np.ones((len(places), 2), np.float32), (3, 2))


def test_sums():
    dense = np.full((3, 2), 5, np.float32)
    both = MODULES[SparseArray].add(rows(0, 0), rows(2))
    assert both.indices.tolist() == [[0, 0, 2]] and both.values.shape == (3, 2)
    for total in (np.add(dense, both), MODULES[SparseArray].add(both, dense)):
        assert total.tolist() == [[7, 7], [5, 5], [6, 6]]
    assert dense.tolist() == [[5, 5]] * 3
    np.add(dense, both, out=dense)
    assert dense.tolist() == [[7, 7], [5, 5], [6, 6]]


def test_nothing_else_is_computed_with_them():
    with pytest.raises(TypeError):
        np.multiply(np.ones((3, 2)), rows(0))
    with pytest.raises(AttributeError, match="multiply"):
        MODULES[SparseArray].multiply(rows(0), 2)
