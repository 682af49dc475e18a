"""Pickles, copies and deep copies of tensors."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest

import weft


class Special(weft.Tensor):
    """A subclass with state of its own."""


def round_trip(value: Any, protocol: int = pickle.DEFAULT_PROTOCOL) -> Any:
    return pickle.loads(pickle.dumps(value, protocol))


@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
def test_every_protocol(protocol: int) -> None:
    for kind in (weft.float32, weft.bfloat16, weft.bool, weft.complex64, weft.int8):
        x = weft.tensor([[0, 1, 2], [3, 4, 5]], dtype=kind).t()
        back = round_trip(x, protocol)
        assert weft.equal(back, x) and back.dtype is kind and back.stride() == x.stride()
    assert round_trip(weft.ones(2, requires_grad=True), protocol).requires_grad
    assert round_trip(weft.zeros(2, 3, device="meta"), protocol).shape == (2, 3)
    assert round_trip(weft.zeros(0, 3), protocol).shape == (0, 3)


@pytest.mark.parametrize("through", [round_trip, copy.deepcopy])
def test_views_still_share_memory(through: Any) -> None:
    base = weft.arange(6.0).reshape(2, 3)
    x, view = through([base, base[:, 1:]])
    assert view.storage_offset() == 1 and view.stride() == (3, 1)
    view.zero_()
    assert x.tolist() == [[0, 0, 0], [3, 0, 0]] and base.tolist() == [[0, 1, 2], [3, 4, 5]]


def test_constants_are_singletons() -> None:
    for value in (weft.float32, weft.bool, weft.strided, weft.channels_last):
        assert round_trip(value) is value and copy.deepcopy(value) is value
    assert round_trip(weft.Size([2, 3])) == (2, 3) and isinstance(round_trip(weft.Size([2])), weft.Size)
    assert round_trip(weft.device("cpu")) == weft.device("cpu")


def test_copies() -> None:
    x = weft.ones(2, requires_grad=True)
    shallow = copy.copy(x)
    assert shallow is not x and shallow.requires_grad and shallow.data_ptr() == x.data_ptr()
    x.grad = weft.full((2,), 3.0)
    x.note = ["kept"]
    deep = copy.deepcopy(x)
    assert deep.data_ptr() != x.data_ptr() and deep.requires_grad and deep.grad.tolist() == [3, 3]
    assert deep.note == ["kept"] and deep.note is not x.note
    twins = copy.deepcopy([x, x])
    assert twins[0] is twins[1]
    with pytest.raises(RuntimeError, match="Only Tensors created explicitly by the user"):
        copy.deepcopy(x * 2)


def test_subclasses_and_attributes_survive() -> None:
    x = weft.ones(2).as_subclass(Special)
    x.note = "kept"
    for back in (round_trip(x), copy.deepcopy(x)):
        assert type(back) is Special and back.note == "kept"


def test_hooks_are_dropped_with_a_warning() -> None:
    x = weft.ones(2, requires_grad=True)
    x.register_hook(print)
    with pytest.warns(UserWarning, match="backward hooks .* will not be serialized"):
        assert not round_trip(x)._backward_hooks
