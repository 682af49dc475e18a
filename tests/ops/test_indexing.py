"""Reading by data: gather, take, index_select, masks and where; against NumPy, with PyTorch's errors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import weft


def matrix() -> Any:
    return weft.arange(12.0).reshape(3, 4)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2), st.integers(0, 2**31), st.lists(st.integers(1, 3), min_size=3, max_size=3))
def test_gather_and_its_gradient(dim: int, seed: int, sizes: list[int]) -> None:
    random = np.random.default_rng(seed)
    array = random.normal(size=(3, 3, 3))
    places = random.integers(0, 3, size=sizes)
    wanted = np.empty(sizes)
    counts = np.zeros((3, 3, 3))
    for spot in np.ndindex(*sizes):
        source = (*spot[:dim], places[spot], *spot[dim + 1 :])
        wanted[spot] = array[source]
        counts[source] += 1
    x = weft.from_numpy(array).requires_grad_()
    out = x.gather(dim, weft.from_numpy(places))
    np.testing.assert_array_equal(out.detach().numpy(), wanted)
    out.sum().backward()
    np.testing.assert_array_equal(x.grad.numpy(), counts)


LONG = weft.int64
ERRORS = [
    (lambda x: x.gather(0, weft.tensor([0])), RuntimeError, "same number of dimensions as input tensor"),
    (lambda x: x.gather(0, weft.tensor([[3]])), RuntimeError,
        "index 3 is out of bounds for dimension 0 with size 3"),
    (lambda x: x.gather(0, weft.tensor([[-1]])), RuntimeError,
        "index -1 is out of bounds for dimension 0 with size 3"),
    (lambda x: x.gather(0, weft.tensor([[0.0]])), RuntimeError, r"Expected dtype int32/int64 for index"),
    (lambda x: x.gather(0, weft.zeros(1, 5, dtype=LONG)), RuntimeError,
        r"expected index \[1, 5\] to be no larger than self"),
    (lambda x: x.index_select(0, weft.tensor([0, 3])), IndexError, "index out of range in self"),
    (lambda x: x.index_select(0, weft.tensor([-1])), IndexError, "index out of range in self"),
    (lambda x: x.index_select(0, weft.tensor([[0]])), IndexError, "Index is supposed to be a vector"),
    (lambda x: x.take(weft.tensor([12])), IndexError, "tried to access index 12 on a tensor of 12 elements"),
    (lambda x: x.take(weft.tensor([0], dtype=weft.int32)), RuntimeError,
        "Expected a long tensor for index, but got Int"),
    (lambda x: weft.ones(0).take(weft.tensor([0])), IndexError, "tried to take from an empty tensor"),
    (lambda x: x.take_along_dim(weft.tensor([0]), 1), RuntimeError,
        "should have the same number of dimensions"),
    (lambda x: x.masked_select(x), RuntimeError, "expected BoolTensor for mask"),
    (lambda x: x.masked_fill(x, 0), RuntimeError,
        "only supports boolean masks, but got mask with dtype float"),
    (lambda x: x.masked_fill(x > 2, weft.ones(1)), RuntimeError,
        "only supports a 0-dimensional value tensor"),
    (lambda x: x.masked_fill(x > 2, 1j), RuntimeError,
        "value cannot be converted to type float without overflow"),
    (lambda x: x.masked_fill_(weft.ones(2, 3, 4) > 0, 0), RuntimeError,
        r"output with shape \[3, 4\] doesn't match"),
    (lambda x: weft.where(x, x, x), RuntimeError,
        "condition to be a boolean tensor, but got a tensor with dtype Float"),
    (lambda x: weft.where(x > 2, x), TypeError, "invalid combination of arguments"),
    (lambda x: weft.where(x > 2, x, weft.ones(5)), RuntimeError,
        r"The size of tensor a \(4\) must match the size of tensor b \(5\)"),
]  # fmt: skip


@pytest.mark.parametrize(("call", "kind", "text"), ERRORS)
def test_errors(call: Any, kind: type[Exception], text: str) -> None:
    with pytest.raises(kind, match=text):
        call(matrix())


def test_where_promotes_and_broadcasts() -> None:
    x = matrix()
    assert weft.where(x > 2, x, 0).sum().item() == 63
    assert weft.where(x > 2, 1, 0).dtype == weft.int64
    assert weft.where(x > 2, 1.0, 0).dtype == weft.float32
    assert weft.where(x > 2, x, x.double()).dtype == weft.float64
    assert weft.where(x > 2, weft.tensor(1.0, dtype=weft.float64), x).dtype == weft.float32
    assert x.where(x > 2, -1)[0].tolist() == [-1, -1, -1, 3]
    rows, columns = weft.where(x > 9)
    assert (rows.tolist(), columns.tolist()) == ([2, 2], [2, 3])


def test_gradient_of_where_is_unbroadcast() -> None:
    a, b = weft.ones(4, requires_grad=True), weft.ones((), requires_grad=True)
    weft.where(matrix() > 5, a, b).sum().backward()
    assert a.grad.tolist() == [1, 1, 2, 2]
    assert b.grad.item() == 6


def test_nonzero() -> None:
    x = matrix()
    assert x.nonzero().shape == (11, 2)
    assert weft.argwhere(x > 9).tolist() == [[2, 2], [2, 3]]
    assert weft.tensor(1).nonzero().shape == (1, 0)
    assert [part.tolist() for part in weft.tensor(0).nonzero(as_tuple=True)] == [[]]
    with pytest.raises(NotImplementedError):
        weft.empty(3, device="meta").nonzero()


def test_masks() -> None:
    x = matrix().requires_grad_()
    chosen = x.masked_select(x.detach() > 8)
    assert chosen.tolist() == [9, 10, 11]
    chosen.sum().backward()
    assert x.grad.sum().item() == 3
    value = weft.tensor(2.0, requires_grad=True)
    x.masked_fill(weft.tensor([True, False, False, True]), value).sum().backward()
    assert value.grad.item() == 6


def test_take_counts_from_the_end_too() -> None:
    x = matrix().requires_grad_()
    taken = x.take(weft.tensor([[0, -1], [0, 5]]))
    assert taken.tolist() == [[0, 11], [0, 5]]
    taken.sum().backward()
    assert x.grad.tolist() == [[2, 0, 0, 0], [0, 1, 0, 0], [0, 0, 0, 1]]
    assert x.take_along_dim(weft.tensor([[1]]), 1).tolist() == [[1], [5], [9]]
    assert x.take_along_dim(weft.tensor([[5, 3]])).tolist() == [5, 3]


def test_an_index_that_changed_since_is_noticed() -> None:
    x = matrix().requires_grad_()
    places = weft.tensor([0, 1])
    out = x.index_select(0, places).sum()
    places.zero_()
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        out.backward()


def test_where_refuses_numbers_that_do_not_fit() -> None:
    condition = weft.tensor([True, False])
    with pytest.raises(RuntimeError, match="value cannot be converted to type uint8_t without overflow"):
        weft.where(condition, weft.ones(2, dtype=weft.uint8), 300)
    assert weft.where(condition, weft.ones(2, dtype=weft.float16), -1e9).tolist() == [1, float("-inf")]


def test_what_an_index_picks_lies_in_order() -> None:
    x = weft.arange(60.0).reshape(3, 4, 5)
    places = weft.tensor([0, 2])
    assert x[:, places].stride() == (10, 5, 1) and x[:, :, places].view(-1).shape == (24,)
    assert x[:, places, places].stride() == (2, 1)
    assert x.transpose(0, 2)[:, places].stride() == (1, 5, 10)
    assert x[:, places].tolist() == x.numpy()[:, [0, 2]].tolist()
    assert x.transpose(0, 2)[:, places].tolist() == x.numpy().T[:, [0, 2]].tolist()
    with pytest.raises(IndexError, match="index 4 is out of bounds for dimension 1 with size 4"):
        x[:, weft.tensor([4])]
