"""Buffers, and parameters whose shape is not known yet."""

import copy
import pickle

import pytest

import weft
from weft import nn
from weft.nn.parameter import is_lazy


def test_a_buffer_is_a_marked_tensor():
    source = weft.ones(2)
    b = nn.Buffer(source, persistent=False)
    assert type(b) is weft.Tensor and isinstance(b, nn.Buffer) and not b.persistent
    assert not isinstance(source, nn.Buffer) and not isinstance(3, nn.Buffer)
    assert b.data_ptr() == source.data_ptr()
    assert nn.Buffer().shape == (0,)
    assert not isinstance(b.double(), nn.Buffer)


@pytest.mark.parametrize("again", [copy.deepcopy, lambda b: pickle.loads(pickle.dumps(b))])
def test_copies_of_buffers_are_buffers(again):
    b = again(nn.Buffer(weft.ones(2), persistent=False))
    assert isinstance(b, nn.Buffer) and not b.persistent


@pytest.mark.parametrize("again", [copy.deepcopy, lambda p: pickle.loads(pickle.dumps(p)), lambda p: p])
def test_uninitialized_parameters(again):
    p = again(nn.UninitializedParameter(dtype=weft.float64))
    assert repr(p) == "<UninitializedParameter>" and is_lazy(p) and isinstance(p, nn.Parameter)
    assert p.requires_grad and p.dtype is weft.float64 and p.is_floating_point()
    p.materialize((2, 3))
    assert type(p) is nn.Parameter and p.shape == (2, 3) and p.requires_grad and p.dtype is weft.float64
    assert not is_lazy(p)


def test_uninitialized_buffers():
    b = nn.UninitializedBuffer()
    assert repr(b) == "<UninitializedBuffer>" and isinstance(b, nn.Buffer)
    b.materialize((2,), dtype=weft.int64)
    assert type(b) is weft.Tensor and b.dtype is weft.int64 and isinstance(b, nn.Buffer)


def test_nothing_is_computed_without_a_shape():
    p = nn.UninitializedParameter()
    with pytest.raises(RuntimeError, match="Can't access the shape of an uninitialized parameter"):
        p.shape
    with pytest.raises(RuntimeError, match="Can't share memory on an uninitialized parameter"):
        p.share_memory_()
    for use in (lambda: p + 1, lambda: weft.add(p, 1), lambda: p.sum(), p.numel, p.detach, lambda: p.zero_()):
        with pytest.raises(ValueError, match="Attempted to use an uninitialized parameter in"):
            use()


def test_modules_hold_them():
    m = nn.Module()
    m.p = nn.UninitializedParameter()
    m.double().to("cpu")
    assert is_lazy(m.p) and m.p.dtype is weft.float64
    with pytest.raises(RuntimeError, match='While copying the parameter named "p"'):
        m.load_state_dict({"p": weft.ones(2)})
