"""What a flag chooses between, by name, place and default; modes of `grid_sample` as numbers."""

from __future__ import annotations

import pytest

import weft
import weft.nn.functional as F


def test_a_flag_chooses():
    def both(x, flag=False):
        """Two of them."""
        return x, x

    def one(x, flag=False):
        """One of them."""
        return x

    made = F.boolean_dispatch("flag", 1, False, both, one, "some.module", "chosen")
    assert made(1) == made(1, False) == made(1, flag=False) == 1
    assert made(1, True) == made(1, flag=True) == (1, 1)
    assert (made.__name__, made.__module__, made.__doc__) == ("chosen", "some.module", "One of them.")


def test_pairs():
    F.assert_int_or_pair(3, "size", "{} is wrong")
    F.assert_int_or_pair((3, 4), "size", "{} is wrong")
    with pytest.raises(AssertionError, match="size is wrong"):
        F.assert_int_or_pair((3, 4, 5), "size", "{} is wrong")


@pytest.mark.parametrize("mode", F.GRID_SAMPLE_INTERPOLATION_MODES)
@pytest.mark.parametrize("padding", F.GRID_SAMPLE_PADDING_MODES)
def test_modes_are_those_of_the_op(mode, padding):
    x, grid = weft.arange(16.0).view(1, 1, 4, 4), weft.zeros(1, 2, 2, 2)
    numbers = F.GRID_SAMPLE_INTERPOLATION_MODES[mode], F.GRID_SAMPLE_PADDING_MODES[padding]
    named = F.grid_sample(x, grid, mode=mode, padding_mode=padding, align_corners=False)
    assert weft.grid_sampler(x, grid, *numbers, False).equal(named)
