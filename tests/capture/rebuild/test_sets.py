"""Sets are walked in the order in which captured code walked them."""

from __future__ import annotations

import random
import string

import pytest

from tests.capture.segments import rebuilt
from weft.capture.rebuild.sets import filling, table_size
from weft.trace.breaks import Break


def words(count, seed):
    generator = random.Random(seed)
    return {"".join(generator.choices(string.ascii_letters, k=6)) for _ in range(count)}


@pytest.mark.parametrize("count", [0, 1, 2, 3, 4, 5, 7, 12, 20, 33, 60, 150])
def test_walked_in_the_same_order(count):
    found = 0
    for seed in range(20):
        value = words(count, seed)
        for same in (value, value.copy(), value | {"x", "y"}, set(frozenset(value)), {*value, 1, 2.5, None}):
            try:
                made = rebuilt((same,))[0]
            except Break:
                continue  # some orders come from a history that is gone
            found += 1
            assert list(made) == list(same)
    assert found >= 30


def test_frozen_sets_are_made_anew_in_the_same_order():
    value = frozenset(words(10, 1))
    made = rebuilt((value,))[0]
    assert list(made) == list(value) and (made is not value or list(value.union()) != list(value))


def test_a_small_set_in_a_large_table_is_refused():
    value = set(range(0, 4000, 7))
    for item in range(100, 4000):
        value.discard(item)
    assert filling(list(value), table_size(value)) is None
    with pytest.raises(Break, match="set-order"):
        rebuilt((value,))


def test_numbers_fill_in_any_order():
    value = {8, 0, 16, 24}
    assert list(rebuilt((value,))[0]) == list(value)
    value = set(range(50, 0, -1))
    assert list(rebuilt((value,))[0]) == list(value)
