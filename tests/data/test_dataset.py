"""Data sets: samples by number, streams, and parts put together and taken apart."""

from __future__ import annotations

import hypothesis
import pytest
from hypothesis import strategies as st

import weft
from weft.data import (
    ChainDataset,
    ConcatDataset,
    Dataset,
    IterableDataset,
    StackDataset,
    Subset,
    TensorDataset,
    random_split,
)


class Stream(IterableDataset):
    def __init__(self, *items):
        self.items = items

    def __iter__(self):
        return iter(self.items)

    def __len__(self):
        return len(self.items)


class Counting(Dataset):
    """Squares, fetched several at once."""

    def __len__(self):
        return 5

    def __getitem__(self, index):
        return index**2

    def __getitems__(self, indices):
        return [index**2 for index in indices]


class Short(Counting):
    def __getitems__(self, indices):
        return [0]


def test_names_are_the_same_objects_where_pytorch_has_them():
    import weft.utils.data.dataloader as loaders
    from weft.utils.data.dataset import random_split as split

    from weft.utils.data import DataLoader, default_collate

    assert weft.utils.data.DataLoader is weft.data.DataLoader is DataLoader is loaders.DataLoader
    assert split is random_split and loaders.default_collate is default_collate
    assert loaders.get_worker_info is weft.data.get_worker_info
    assert Dataset[int] and weft.data.Sampler[int]


def test_a_dataset_must_say_what_its_samples_are():
    with pytest.raises(NotImplementedError, match=r"^Subclasses of Dataset should implement __getitem__\.$"):
        Dataset()[0]
    with pytest.raises(TypeError):
        len(Dataset())


def test_tensor_dataset():
    pairs = TensorDataset(weft.arange(6).reshape(3, 2), weft.arange(3))
    assert len(pairs) == 3
    row, label = pairs[1]
    assert row.tolist() == [2, 3] and label.item() == 1
    with pytest.raises(AssertionError, match="^Size mismatch between tensors$"):
        TensorDataset(weft.zeros(2), weft.zeros(3))


def test_concatenation():
    both = Counting() + Counting()
    assert isinstance(both, ConcatDataset) and len(both) == 10
    assert [both[i] for i in (0, 4, 5, 9, -1, -10)] == [0, 16, 0, 16, 16, 0]
    with pytest.raises(ValueError, match="^absolute value of index should not exceed dataset length$"):
        both[-11]
    with pytest.raises(IndexError):
        ConcatDataset([[1]])[1]
    with pytest.raises(AssertionError, match="^datasets should not be an empty iterable$"):
        ConcatDataset([])
    with pytest.raises(AssertionError, match="^ConcatDataset does not support IterableDataset$"):
        ConcatDataset([Stream()])
    with pytest.warns(FutureWarning):
        assert both.cummulative_sizes == [5, 10]


def test_chains():
    chain = Stream(1, 2) + Stream(3)
    assert isinstance(chain, ChainDataset) and list(chain) == [1, 2, 3] and len(chain) == 3
    with pytest.raises(AssertionError, match="^ChainDataset only supports IterableDataset$"):
        list(ChainDataset([[1]]))


def test_stacks():
    columns = StackDataset(Counting(), range(5))
    assert columns[2] == (4, 2) and len(columns) == 5
    assert columns.__getitems__([1, 3]) == [(1, 1), (9, 3)]
    named = StackDataset(square=Counting(), root=range(5))
    assert named[2] == {"square": 4, "root": 2}
    assert named.__getitems__([3]) == [{"square": 9, "root": 3}]
    for bad, text in [
        (lambda: StackDataset(), "At least one dataset should be passed"),
        (lambda: StackDataset([1], [1, 2]), "Size mismatch between datasets"),
        (lambda: StackDataset([1], x=[1]), "but both types are given"),
        (lambda: StackDataset(Short()).__getitems__([1, 2]), "size mismatch. Expected 2, got 1"),
    ]:
        with pytest.raises(ValueError, match=text):
            bad()


def test_subsets():
    part = Subset(Counting(), [4, 2])
    assert part[0] == 16 and part.__getitems__([1, 0]) == [4, 16] and len(part) == 2
    assert Subset(part, [1])[0] == 4
    assert Subset(weft.arange(5), [4, 2])[[0, 1]].tolist() == [4, 2]

    class Half(Subset):
        def __getitem__(self, idx):
            return super().__getitem__(idx) / 2

    with pytest.raises(NotImplementedError, match="Half overrides __getitem__ but not __getitems__"):
        Half(Counting(), [0])


@hypothesis.settings(max_examples=25)
@hypothesis.given(st.lists(st.integers(0, 20), min_size=1, max_size=5), st.integers(0, 2**32))
def test_parts_of_a_split_are_a_partition_that_the_seed_decides(lengths, seed):
    hypothesis.assume(sum(lengths) != 1)  # these would be shares, as in PyTorch
    data = range(sum(lengths))

    def split():
        return random_split(data, lengths, weft.Generator().manual_seed(seed))

    parts = split()
    assert [len(part) for part in parts] == lengths
    assert sorted(item for part in parts for item in part.__getitems__(range(len(part)))) == list(data)
    assert [part.indices for part in parts] == [part.indices for part in split()]


def test_splits_by_shares():
    assert [len(part) for part in random_split(range(10), [0.33, 0.33, 0.34])] == [4, 3, 3]
    with pytest.warns(UserWarning, match="Length of split at index 1 is 0"):
        random_split(range(1), [0.5, 0.5])
    with pytest.raises(ValueError, match="Fraction at index 0 is not between 0 and 1"):
        random_split(range(3), [-0.5, 1.5])
    with pytest.raises(ValueError, match="Sum of input lengths does not equal"):
        random_split(range(3), [1, 1])
