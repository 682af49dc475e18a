"""Older constructors."""

from __future__ import annotations

import pickle

import pytest

import weft


def test_typed_constructors() -> None:
    assert weft.FloatTensor([1, 2]).dtype is weft.float32 and weft.LongTensor(2, 3).shape == (2, 3)
    assert weft.LongTensor([1.5]).tolist() == [1] and weft.HalfTensor().shape == (0,)
    assert weft.BoolTensor([1, 0]).tolist() == [True, False] and weft.ByteTensor(weft.Size([2])).shape == (2,)
    assert isinstance(weft.zeros(2), weft.FloatTensor) and not isinstance(weft.zeros(2), weft.LongTensor)
    assert weft.FloatTensor.dtype is weft.float32 and repr(weft.FloatTensor) == "<class 'weft.FloatTensor'>"
    assert pickle.loads(pickle.dumps(weft.FloatTensor)).dtype is weft.float32
    with pytest.raises(TypeError, match="expected a tensor of float32"):
        weft.FloatTensor(weft.zeros(2, dtype=weft.long))
    with pytest.raises(TypeError, match="data must be a sequence"):
        weft.FloatTensor(2.5)


def test_tensor_constructor() -> None:
    assert (
        weft.Tensor(2, 3).shape == (2, 3)
        and weft.Tensor([2, 3]).tolist() == [2, 3]
        and weft.Tensor().shape == (0,)
    )
    assert weft.Tensor(weft.Size([2, 3])).shape == (2, 3)


def test_new_and_type() -> None:
    x = weft.zeros(2, dtype=weft.int8)
    assert x.new([1, 2]).dtype is weft.int8 and x.new(2, 3).shape == (2, 3) and x.new().shape == (0,)
    assert x.type() == "weft.CharTensor" and weft.zeros(1, device="meta").type() == "weft.meta.FloatTensor"
    for kind in ("weft.LongTensor", "torch.LongTensor", weft.LongTensor, weft.int64):
        assert x.type(kind).dtype is weft.int64
    assert x.type(weft.Tensor).dtype is weft.float32
    with pytest.raises(ValueError, match="invalid type: 'foo'"):
        x.type("foo")
    with pytest.warns(UserWarning, match="tensor.new_tensor"):
        assert x.new_tensor(x).data_ptr() != x.data_ptr()
    assert weft.scalar_tensor(3).dtype is weft.float32 and weft.scalar_tensor(3, dtype=weft.long).item() == 3


def test_a_size_without_dimensions_is_one_element():
    x = weft.ones(2)
    assert x.new(weft.Size([])).shape == () and weft.FloatTensor(weft.Size([])).shape == ()
    assert x.new().shape == (0,)
