"""Collating: a batch has the shape of a sample."""

from __future__ import annotations

from collections import OrderedDict, UserDict, namedtuple

import hypothesis
import numpy as np
import pytest
from hypothesis import strategies as st

import weft
from weft.data import default_collate, default_convert
from weft.data.collate import collate, default_collate_fn_map

Pair = namedtuple("Pair", "left right")


@pytest.mark.parametrize(
    ("batch", "kind", "values"),
    [
        ([1, 2], weft.int64, [1, 2]),
        ([True, False], weft.bool, [True, False]),
        ([1.0, 2.0], weft.float64, [1, 2]),
        ([np.float32(1), np.float32(2)], weft.float32, [1, 2]),
        ([np.int8(1), np.int8(2)], weft.int8, [1, 2]),
        ([np.zeros(2, np.float16), np.ones(2, np.float16)], weft.float16, [[0, 0], [1, 1]]),
        ([weft.zeros(2), weft.ones(2)], weft.float32, [[0, 0], [1, 1]]),
        ([weft.tensor(1), weft.tensor(2)], weft.int64, [1, 2]),
    ],
)
def test_leaves(batch, kind, values):
    made = default_collate(batch)
    assert made.dtype is kind and made.tolist() == values


def test_containers():
    assert default_collate(["a", "b"]) == ["a", "b"] and default_collate([b"a"]) == [b"a"]
    made = default_collate([OrderedDict(x=1), OrderedDict(x=2)])
    assert type(made) is OrderedDict and made["x"].tolist() == [1, 2]
    made = default_collate([UserDict(x=1), UserDict(x=2)])
    assert type(made) is UserDict and made["x"].tolist() == [1, 2]
    made = default_collate([Pair(1, "a"), Pair(2, "b")])
    assert type(made) is Pair and made.left.tolist() == [1, 2] and made.right == ("a", "b")
    made = default_collate([(1, [2.0]), (3, [4.0])])
    assert type(made) is list and made[0].tolist() == [1, 3] and made[1][0].tolist() == [2, 4]
    sample = [1, 2]
    assert [each.tolist() for each in default_collate([sample, sample])] == [[1, 1], [2, 2]]
    assert sample == [1, 2]


def test_what_is_refused():
    with pytest.raises(RuntimeError, match="each element in list of batch should be of equal size"):
        default_collate([[1], [1, 2]])
    with pytest.raises(
        TypeError, match="default_collate: batch must contain tensors.*found <class 'object'>"
    ):
        default_collate([object()])
    with pytest.raises(TypeError, match="found <U1"):
        default_collate([np.array(["a"])])
    with pytest.raises(RuntimeError, match="stack expects each tensor to be equal size"):
        default_collate([weft.zeros(2), weft.zeros(3)])


def test_a_table_of_ones_own():
    class Word:
        pass

    table = {**default_collate_fn_map, Word: lambda batch, *, collate_fn_map: len(batch)}
    assert collate([(Word(), 1)], collate_fn_map=table)[0] == 1


def test_convert():
    made = default_convert({"x": np.ones(2), "y": (1, np.float32(2)), "z": Pair("a", np.zeros(1)), "n": None})
    assert type(made["x"]) is weft.Tensor and made["n"] is None
    assert type(made["y"]) is list and made["y"][0] == 1 and made["y"][1].dtype is weft.float32
    assert type(made["z"]) is Pair and made["z"].left == "a" and type(made["z"].right) is weft.Tensor
    words = np.array(["a"])
    assert default_convert(words) is words


samples = st.recursive(
    st.just("number") | st.just("text") | st.just("array"),
    lambda inner: (
        st.lists(inner, min_size=1, max_size=3)
        | st.dictionaries(st.text("ab"), inner, min_size=1, max_size=2)
    ),
    max_leaves=5,
)


def _fill(shape, value):
    if isinstance(shape, list):
        return [_fill(each, value) for each in shape]
    if isinstance(shape, dict):
        return {key: _fill(each, value) for key, each in shape.items()}
    return {"number": value, "text": str(value), "array": np.full(2, value)}[shape]


def _take(batch, index):
    if isinstance(batch, list) and not (batch and isinstance(batch[0], str)):
        return [_take(each, index) for each in batch]
    if isinstance(batch, dict):
        return {key: _take(each, index) for key, each in batch.items()}
    return batch[index]


def _plain(sample):
    if isinstance(sample, list):
        return [_plain(each) for each in sample]
    if isinstance(sample, dict):
        return {key: _plain(each) for key, each in sample.items()}
    return sample.tolist() if hasattr(sample, "tolist") else sample


@hypothesis.settings(max_examples=40)
@hypothesis.given(samples, st.integers(1, 4))
def test_sample_i_of_the_batch_is_sample_i(shape, count):
    batch = [_fill(shape, value) for value in range(count)]
    made = default_collate(batch)
    if not isinstance(shape, (list, dict)) and shape == "text":
        assert made == batch
        return
    for index in range(count):
        assert _plain(_take(made, index)) == _plain(batch[index])
