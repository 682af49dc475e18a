"""Samplers: what they give, that seeds decide it, and what they refuse."""

from __future__ import annotations

from collections import Counter

import hypothesis
import pytest
from hypothesis import strategies as st

import weft
from weft.data import (
    BatchSampler,
    DistributedSampler,
    RandomSampler,
    Sampler,
    SequentialSampler,
    SubsetRandomSampler,
    WeightedRandomSampler,
)


def seeded(seed):
    return weft.Generator().manual_seed(seed)


@hypothesis.settings(max_examples=30)
@hypothesis.given(st.integers(1, 30), st.integers(1, 70), st.integers(0, 99))
def test_random_order(size, count, seed):
    whole = list(RandomSampler(range(size), generator=seeded(seed)))
    assert sorted(whole) == list(range(size))
    some = list(RandomSampler(range(size), num_samples=count, generator=seeded(seed)))
    assert len(some) == count == len(RandomSampler(range(size), num_samples=count))
    counts = Counter(some)
    assert all(count // size <= counts[key] <= -(-count // size) for key in range(size))
    drawn = list(RandomSampler(range(size), True, count, seeded(seed)))
    assert len(drawn) == count and set(drawn) <= set(range(size))
    assert drawn == list(RandomSampler(range(size), True, count, seeded(seed)))


def test_the_default_generator_decides_where_none_is_given():
    sampler = RandomSampler(range(20))
    weft.manual_seed(5)
    first = list(sampler)
    second = list(sampler)
    weft.manual_seed(5)
    iterator = iter(sampler)
    found = [next(iterator)]
    weft.rand(3)  # the order is a stream of its own by now
    assert found + list(iterator) == first != second


@hypothesis.settings(max_examples=30)
@hypothesis.given(st.integers(0, 40), st.integers(1, 9), st.booleans())
def test_batches(size, batch, drop):
    sampler = BatchSampler(SequentialSampler(range(size)), batch, drop)
    found = list(sampler)
    assert len(found) == len(sampler)
    assert all(len(each) == batch for each in found[:-1])
    assert sum(found, []) == list(range(size - size % batch if drop else size))


def test_subsets_and_weights():
    assert sorted(SubsetRandomSampler([7, 1, 4])) == [1, 4, 7]
    assert list(SubsetRandomSampler("abc", seeded(1))) == list(SubsetRandomSampler("abc", seeded(1)))
    drawn = Counter(WeightedRandomSampler([1, 0, 3], 4000, generator=seeded(0)))
    assert set(drawn) == {0, 2} and 2.6 < drawn[2] / drawn[0] < 3.4
    assert sorted(WeightedRandomSampler([1, 2, 3], 3, replacement=False)) == [0, 1, 2]


@hypothesis.settings(max_examples=30)
@hypothesis.given(st.integers(1, 30), st.integers(1, 5), st.booleans(), st.booleans())
def test_shares_of_several_processes(size, replicas, shuffle, drop):
    shares = [DistributedSampler(range(size), replicas, rank, shuffle, 3, drop) for rank in range(replicas)]
    found = [list(share) for share in shares]
    assert {len(each) for each in found} == {len(shares[0])}
    together = Counter(sum(found, []))
    if drop:
        assert max(together.values(), default=1) == 1
    else:
        assert set(together) == set(range(size))
    if shuffle and size > 20 and not drop:
        for share in shares:
            share.set_epoch(1)
        assert [list(share) for share in shares] != found


@pytest.mark.parametrize(
    ("make", "kind", "text"),
    [
        (lambda: RandomSampler([1], replacement=1), TypeError, "replacement should be a boolean value"),
        (lambda: RandomSampler([]), ValueError, "num_samples=0"),
        (lambda: WeightedRandomSampler([1], 0), ValueError, "num_samples=0"),
        (lambda: WeightedRandomSampler([1], True), ValueError, "num_samples=True"),
        (lambda: WeightedRandomSampler([1], 1, 2), ValueError, "replacement=2"),
        (lambda: WeightedRandomSampler([[1]], 1), ValueError, r"given weights have shape \(1, 1\)"),
        (lambda: BatchSampler([1], 0, False), ValueError, "batch_size=0"),
        (lambda: BatchSampler([1], 1, 1), ValueError, "drop_last=1"),
        (lambda: DistributedSampler([1], 2, 2), ValueError, r"Invalid rank 2, .* \[0, 1\]"),
        (lambda: DistributedSampler([1]), RuntimeError, "Requires distributed package"),
        (lambda: iter(Sampler()), NotImplementedError, "^$"),
    ],
)
def test_what_is_refused(make, kind, text):
    with pytest.raises(kind, match=text):
        make()
