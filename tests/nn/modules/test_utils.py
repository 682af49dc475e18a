from __future__ import annotations

from weft.nn.modules.utils import _pair, _quadruple, _reverse_repeat_tuple, _single, _triple


def test_a_number_stands_for_every_dimension():
    assert (_single(3), _pair(3), _triple(3), _quadruple(3)) == ((3,), (3, 3), (3, 3, 3), (3, 3, 3, 3))


def test_a_sequence_stays():
    assert _pair([3, 5]) == (3, 5) and _triple((1, 2, 3)) == (1, 2, 3)


def test_paddings_from_the_last_dimension():
    assert _reverse_repeat_tuple((1, 2), 2) == (2, 2, 1, 1)
