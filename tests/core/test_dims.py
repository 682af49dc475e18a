"""Dimensions counted from the front: what is in range, what is refused, and with which words."""

from __future__ import annotations

import numpy as np
import pytest

from weft.core.dims import outside, wrap_dim, wrap_dims


def test_counts_from_the_front():
    assert [wrap_dim(dim, 3) for dim in range(-3, 3)] == [0, 1, 2, 0, 1, 2]
    assert wrap_dims((-1, 0), 3) == (2, 0)


def test_zero_dim_tensor_has_one_dimension():
    assert [wrap_dim(dim, 0) for dim in (-1, 0)] == [0, 0]
    assert str(outside(1, 0)).endswith("(expected to be in range of [-1, 0], but got 1)")


def test_gives_plain_ints():
    assert type(wrap_dim(np.int64(-1), 2)) is int
    assert type(wrap_dim(True, 2)) is int


@pytest.mark.parametrize("dim", [-3, 2])
def test_refuses_what_is_outside(dim):
    with pytest.raises(IndexError) as raised:
        wrap_dim(dim, 2)
    words = f"Dimension out of range (expected to be in range of [-2, 1], but got {dim})"
    assert str(raised.value) == words


def test_refuses_what_counts_nothing():
    with pytest.raises(TypeError):
        wrap_dim(1.0, 2)


def test_refuses_repeated_dimensions():
    with pytest.raises(RuntimeError, match="dim 1 appears multiple times in the list of dims"):
        wrap_dims((1, -1), 2)
