from __future__ import annotations

import pytest

import weft
from weft import nn


def test_flatten_keeps_the_batch(agrees, draw):
    agrees(nn.Flatten(), lambda x: x.reshape(2, 12), draw(2, 3, 4))
    agrees(nn.Flatten(0, 1), lambda x: x.reshape(6, 4), draw(2, 3, 4))
    assert repr(nn.Flatten(0, 1)) == "Flatten(start_dim=0, end_dim=1)"


def test_unflatten_splits(agrees, draw):
    agrees(nn.Unflatten(1, (2, -1)), lambda x: x.reshape(2, 2, 3, 4), draw(2, 6, 4))
    agrees(nn.Unflatten(-1, [2, 2]), lambda x: x.reshape(2, 6, 2, 2), draw(2, 6, 4))
    assert repr(nn.Unflatten(1, (2, 3))) == "Unflatten(dim=1, unflattened_size=(2, 3))"


def test_flatten_gives_a_view():
    x = weft.zeros(2, 3, 4)
    assert nn.Flatten()(x).data_ptr() == x.data_ptr()


def test_unflatten_needs_whole_numbers():
    with pytest.raises(TypeError, match="must be a tuple of ints, but found type str"):
        nn.Unflatten(1, "ab")
    with pytest.raises(TypeError, match="found element of type float at pos 1"):
        nn.Unflatten(1, (2, 3.0))
