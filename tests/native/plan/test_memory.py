"""Places of values in a block: none that is needed shares memory with another that is."""

from __future__ import annotations

import threading
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from weft.core.expressions import Expression, Symbol
from weft.core.polynomials import Algebra
from weft.core.records import replace
from weft.native.ir.sizes import At, Sizes, at_least, where
from weft.native.plan.memory import (
    ALIGNMENT,
    LARGE,
    MOST_WASTE,
    Block,
    Blocks,
    Lifetime,
    placed,
    placed_open,
    room_for,
)
from weft.native.program.assemble import bound_waste, calls_around
from weft.native.program.template import Formulas

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


N = Symbol("n", int)
OPEN = st.lists(
    st.tuples(st.integers(0, 9), st.integers(0, 500), st.integers(0, 20), st.integers(0, 8)), max_size=30
)


@given(OPEN, st.integers(2, 40))
@settings(max_examples=200, deadline=None)
def test_living_values_lie_apart_at_all_sizes(drawn: list[tuple[int, int, int, int]], planned: int) -> None:
    sizes = Sizes(Algebra(), {N: planned})
    n = sizes.of(Expression("symbol", (N,), int))
    values = [
        Lifetime(i, factor * n + more, first, first + long)
        for i, (factor, more, first, long) in enumerate(drawn)
    ]
    found = placed_open(values, [At({N: max(planned // 4, 2)}), At({N: planned * 4})])
    for number in (1, planned // 3, planned, planned * 9 + 1):
        at = At({N: number})
        ends = {value.key: at(found.offsets[value.key]) + at(value.size) for value in values}
        assert max(ends.values(), default=0) <= at(found.size)
        for value in values:
            start = at(found.offsets[value.key])
            assert start % ALIGNMENT == 0
            for other in values:
                together = value.first <= other.last and other.first <= value.last
                if other is not value and together and at(value.size) and at(other.size):
                    begin = at(found.offsets[other.key])
                    assert ends[value.key] <= begin or ends[other.key] <= start


@given(OPEN, st.integers(8, 400))
@settings(max_examples=300, deadline=None)
def test_plans_that_waste_are_for_other_sizes(drawn: list[tuple[int, int, int, int]], planned: int) -> None:
    sizes = Sizes(Algebra(), {N: planned})
    n = sizes.of(Expression("symbol", (N,), int))
    values = [
        Lifetime(i, (factor << 14) * n + (more << 14), first, first + long)
        for i, (factor, more, first, long) in enumerate(drawn)
    ]
    plan = placed_open(values, calls_around(sizes))
    bound_waste(sizes, plan)
    for number in (planned // 4, planned, planned * 4):
        at = At({N: number})
        alone = placed([replace(each, size=at(each.size)) for each in values]).size
        formulas = Formulas([*sizes.conditions])
        fits = formulas.values({N: number}) == [*sizes.conditions.values()]
        assert fits or number != planned
        assert not fits or at(plan.size) <= max(MOST_WASTE * alone, LARGE)


FAR = (
    (0, 1 << 14, 0, 1), (1 << 18, 1 << 10, 1, 1), (0, 1 << 10, 7, 8), (1 << 22, 1 << 14, 10, 13),
    (1 << 22, 0, 1, 5), (0, 1 << 14, 5, 7), (0, 1 << 17, 0, 0), (1 << 22, 1 << 10, 6, 7),
)  # fmt: skip
"""Bytes, bytes for each of n, first and last step: at a quarter of n, a third more than a plan for that."""


def test_sizes_far_from_the_plans_are_for_another_one() -> None:
    sizes = Sizes(Algebra(), {N: 64})
    n = sizes.of(Expression("symbol", (N,), int))
    values = [Lifetime(i, each * n + more, *steps) for i, (more, each, *steps) in enumerate(FAR)]
    plan = placed_open(values, calls_around(sizes))
    assert plan.around[0][1] <= 1 and plan.around[1][1] > MOST_WASTE
    bound_waste(sizes, plan)
    ((condition, truth),) = sizes.conditions.items()
    assert [condition.evaluate({N: number}) is truth for number in (16, 20, 50, 64, 1000)] == [
        False, False, True, True, True,
    ]  # fmt: skip


def test_values_without_elements_are_no_reason_to_lie_higher() -> None:
    """Large things that one call has no use for, as copies for products, lay on others all the same."""
    sizes = Sizes(Algebra(), {N: 64})
    n = sizes.of(Expression("symbol", (N,), int))
    nothing = where(at_least(n, 1000), 64 * n, 0)
    found = placed_open([Lifetime(0, 64 * n, 0, 1), Lifetime(1, nothing, 1, 2), Lifetime(2, 64 * n, 2, 3)])
    assert At({N: 64})(found.size) == 64 * 64


def test_a_large_value_makes_room_for_small_ones() -> None:
    """And they for it, which no slots of one value each do."""
    sizes = Sizes(Algebra(), {N: 64})
    n = sizes.of(Expression("symbol", (N,), int))
    values = [Lifetime(0, 256 * n, 0, 1), *[Lifetime(k, 64 * n, 2, 3) for k in range(1, 5)]]
    values.append(Lifetime(5, 256 * n, 4, 5))
    found = placed_open(values)
    assert [At({N: each})(found.size) for each in (4, 64, 1000)] == [1024, 256 * 64, 256000]


def test_a_long_program_is_placed() -> None:
    sizes = Sizes(Algebra(), {N: 8})
    n = sizes.of(Expression("symbol", (N,), int))
    last = 1500
    found = placed_open([Lifetime(k, 64 * n, k, last if k % 2 else k + 3) for k in range(last)])
    formulas = Formulas([found.size.expression])
    assert formulas.values({N: 8}) == [found.size.hint]
    assert formulas.values({N: 16}) == [2 * found.size.hint]


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
