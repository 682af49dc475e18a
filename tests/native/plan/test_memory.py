"""Places of values in a block: none that is needed shares memory with another that is."""

from __future__ import annotations

import threading
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from weft.native.plan.memory import ALIGNMENT, Block, Blocks, Lifetime, placed, room_for

VALUES = st.lists(st.tuples(st.integers(0, 500), st.integers(0, 20), st.integers(0, 8)), max_size=40)


@given(VALUES)
@settings(max_examples=200, deadline=None)
def test_living_values_lie_apart(sizes: list[tuple[int, int, int]]) -> None:
    values = [Lifetime(i, size, first, first + long) for i, (size, first, long) in enumerate(sizes)]
    found = placed(values)
    for value in values:
        start = found.offsets[value.key]
        assert start % ALIGNMENT == 0 and start + value.size <= found.size
        for other in values:
            together = value.first <= other.last and other.first <= value.last
            if other is not value and together and value.size and other.size:
                begin = found.offsets[other.key]
                assert start + value.size <= begin or begin + other.size <= start


def test_a_chain_needs_two_places() -> None:
    found = placed([Lifetime(i, 1000, i, i + 1) for i in range(50)])
    assert found.size == 2 * 1024


def test_the_smallest_gap_is_taken() -> None:
    values = [
        Lifetime(0, 64, 0, 9), Lifetime(1, 640, 1, 5), Lifetime(2, 64, 2, 9), Lifetime(3, 128, 3, 5),
        Lifetime(4, 64, 4, 9), Lifetime(5, 128, 6, 7),
    ]  # fmt: skip
    found = placed(values)
    assert found.offsets[5] == found.offsets[3]


def test_a_last_gap_that_is_too_small_grows() -> None:
    found = placed([Lifetime(0, 64, 0, 5), Lifetime(1, 64, 0, 1), Lifetime(2, 256, 2, 3)])
    assert found.offsets == {0: 0, 1: 64, 2: 64} and found.size == 320


def test_nothing_needs_nothing() -> None:
    assert placed([]).size == 0
    assert placed([Lifetime(0, 0, 0, 3)]).offsets == {0: 0}


def test_blocks_are_aligned_and_used_again() -> None:
    blocks = Blocks()
    block = blocks.take(5000)
    assert block.address % ALIGNMENT == 0 and block.room >= 5000
    assert block.array.__array_interface__["data"][0] == block.address and block.array.size == block.room
    assert blocks.take(5000) is not block
    blocks.give(block)
    assert blocks.take(4500) is block
    assert room_for(0) == 1024 and room_for(1025) == 2048


def test_few_blocks_wait() -> None:
    blocks = Blocks()
    for _ in range(50):
        blocks.give(Block(1024))
    assert len(blocks.free[1024]) == Blocks.MOST
    for number in range(40):
        blocks.give(Block(1 << (20 + number % 8)))
        assert blocks.held() <= Blocks.KEPT
    large = Block(Blocks.KEPT * 2)
    blocks.give(large)
    assert blocks.take(Blocks.KEPT * 2) is large


def test_a_block_has_one_owner() -> None:
    blocks = Blocks()
    owners: dict[int, int] = {}
    wrong: list[Any] = []

    def work(me: int) -> None:
        for _ in range(500):
            block = blocks.take(100)
            if owners.setdefault(id(block), me) != me:
                wrong.append(block)
            del owners[id(block)]
            blocks.give(block)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
