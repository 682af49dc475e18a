"""Gradients brought to the shapes of inputs, on arrays and on tensors."""

from __future__ import annotations

import numpy as np
import pytest

import weft
from weft.tensor.backward import finish, unbroadcast


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ((2, 3), (2, 3)), ((2, 3), (3,)), ((2, 3), (1, 3)), ((2, 3), (2, 1)), ((2, 3), ()),
        ((4, 2, 3), (2, 1)), ((), (2, 3)), ((3,), (2, 3)),
    ],
)  # fmt: skip
def test_both_ways_agree_and_give_memory_that_may_be_written(given, wanted):
    gradient = np.arange(1.0, 1 + np.prod(given)).reshape(given)
    found = unbroadcast(gradient.copy(), wanted)
    assert found.shape == wanted and found.flags.writeable
    assert found.size < 2 or 0 not in found.strides  # or a write to one element would be one to many
    recorded = finish(weft.from_numpy(gradient), wanted, np.dtype(np.float64))
    assert recorded.tolist() == found.tolist()
