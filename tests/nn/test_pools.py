"""Pools that always give their indices."""

from __future__ import annotations

import weft
import weft.nn.functional as F


def test_indices_come_with_the_maxima() -> None:
    x = weft.arange(16.0).reshape(1, 1, 4, 4)
    values, places = F.max_pool2d_with_indices(x, 2)
    assert places.flatten().tolist() == [5, 7, 13, 15]
    assert weft.equal(values, F.max_pool2d(x, 2))
    assert len(F.adaptive_max_pool1d_with_indices(x[0], 2)) == 2


def test_they_are_captured() -> None:
    x = weft.arange(16.0).reshape(1, 1, 4, 4)
    compiled = weft.compile(lambda x: F.max_pool2d_with_indices(x, 2), fullgraph=True)
    assert [part.flatten().tolist() for part in compiled(x)] == [[5, 7, 13, 15]] * 2
