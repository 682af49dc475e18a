"""Views of parts: select, narrow, diagonals, splits, windows, free strides and complex pairs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import weft
from weft.autograd import gradcheck, gradgradcheck


def matrix() -> Any:
    return weft.arange(12.0).reshape(3, 4)


ERRORS = [
    (lambda x: x.select(0, 3), IndexError,
        r"index 3 out of range for tensor of size \[3, 4\] at dimension 0"),
    (lambda x: x.select(2, 0), IndexError, r"expected to be in range of \[-2, 1\], but got 2"),
    (lambda x: x[0, 0].select(0, 0), IndexError, "cannot be applied to a 0-dim tensor"),
    (lambda x: weft.ops_slice(x, step=0), RuntimeError, "slice step must be positive"),
    (lambda x: x.narrow(0, 1, 3), RuntimeError, r"start \(1\) \+ length \(3\) exceeds dimension size \(3\)"),
    (lambda x: x.narrow(0, 4, 0), IndexError,
        r"start out of range \(expected to be in range of \[-3, 3\], but got 4\)"),
    (lambda x: x.narrow(0, 0, -1), RuntimeError, "length must be non-negative"),
    (lambda x: x.narrow(0, weft.tensor([1]), 1), RuntimeError, "start must be an 0-dim integral Tensor"),
    (lambda x: x.diagonal(0, 0, 0), RuntimeError, "diagonal dimensions cannot be identical 0, 0"),
    (lambda x: x[0, 0].unbind(), IndexError, "Dimension specified as 0 but tensor has no dimensions"),
    (lambda x: x.split([1, 1]), RuntimeError, r"to sum exactly to 3 .* but got split_sizes=\[1, 1\]"),
    (lambda x: x.split([-1, 4]), RuntimeError, "only non-negative entries"),
    (lambda x: x.split(0), RuntimeError, "split_size can only be 0 if dimension size is 0"),
    (lambda x: x.split(-1), RuntimeError, "split_size be non-negative"),
    (lambda x: x.chunk(0), RuntimeError, "`chunks` to be greater than 0, got: 0"),
    (lambda x: x.tensor_split(0), RuntimeError, "number of sections must be larger than 0, got 0"),
    (lambda x: x.hsplit(3), RuntimeError, "is not divisible by the split_size 3"),
    (lambda x: x.unfold(0, 4, 1), RuntimeError, "maximum size for tensor at dimension 0 is 3 but size is 4"),
    (lambda x: x.unfold(0, 2, 0), RuntimeError, "step is 0 but must be > 0"),
    (lambda x: x.as_strided((2, 2), (1, 2), 11), RuntimeError, "are out of bounds for storage of size 48"),
    (lambda x: x.as_strided((2, 2), (-1, 2)), RuntimeError, "Negative strides are not supported"),
    (lambda x: x.as_strided((2, 2), (1,)), RuntimeError, "mismatch in length of strides and shape"),
    (lambda x: weft.view_as_real(x), RuntimeError, "only supported for complex tensors"),
    (lambda x: weft.view_as_complex(x), RuntimeError, "last dimension of size 2"),
]  # fmt: skip


@pytest.mark.parametrize(("call", "kind", "text"), ERRORS)
def test_errors(call: Any, kind: type[Exception], text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from weft.ops.slicing import slice_

    monkeypatch.setattr(weft, "ops_slice", slice_, raising=False)  # the op has no public name
    with pytest.raises(kind, match=text):
        call(matrix())


def test_splits_are_views_of_the_right_sizes() -> None:
    x = matrix()
    assert [part.shape[0] for part in x.split(2)] == [2, 1]
    assert [part.shape[1] for part in weft.split(x, split_size_or_sections=[1, 3], dim=1)] == [1, 3]
    assert [part.shape[0] for part in x.split(split_size=3)] == [3]
    assert [part.shape[0] for part in x.chunk(5)] == [1, 1, 1]
    assert [part.shape[0] for part in weft.ones(0, 2).chunk(3)] == [0, 0, 0]
    assert [part.shape[0] for part in x.tensor_split(5)] == [1, 1, 1, 0, 0]
    assert [part.shape[0] for part in x.tensor_split(weft.tensor([1, 2]))] == [1, 1, 1]
    assert [part.tolist() for part in x[0].unbind()] == [0, 1, 2, 3]
    for part in (*x.split(2), *x.chunk(2), *x.tensor_split(2), *x.unbind(), *x.hsplit(2), *x.vsplit((1,))):
        assert np.shares_memory(part.numpy(), x.numpy())


def test_names_of_split_nodes() -> None:
    x = weft.ones(4, requires_grad=True)
    assert x.split(2)[0].grad_fn.name() == x.chunk(2)[0].grad_fn.name() == "SplitBackward0"
    assert x.split([1, 3])[0].grad_fn.name() == "SplitWithSizesBackward0"
    assert x.tensor_split(2)[0].grad_fn.name() == x.narrow(0, 0, 2).grad_fn.name() == "SliceBackward0"


def test_gradients_where_only_some_parts_are_used() -> None:
    x = weft.arange(4.0).requires_grad_()
    x.split(1)[2].mul(3).backward()
    assert x.grad.tolist() == [0, 0, 3, 0]
    y = weft.arange(4.0).reshape(2, 2).requires_grad_()
    y.unbind(1)[1].sum().backward()
    assert y.grad.tolist() == [[0, 1], [0, 1]]


def test_diagonal_is_a_writable_view() -> None:
    x = weft.zeros(3, 4)
    x.diagonal(1).fill_(5)
    assert x.tolist() == [[0, 5, 0, 0], [0, 0, 5, 0], [0, 0, 0, 5]]
    assert x.diagonal(5).shape == (0,)
    assert x.diagonal().stride() == (5,)


def test_windows_add_their_gradients_up() -> None:
    x = weft.arange(4.0).requires_grad_()
    windows = x.unfold(0, 2, 1)
    assert windows.tolist() == [[0, 1], [1, 2], [2, 3]]
    assert windows.stride() == (1, 1)
    windows.sum().backward()
    assert x.grad.tolist() == [1, 2, 2, 1]


def test_free_strides_see_the_whole_memory() -> None:
    x = matrix()
    assert x.as_strided((2, 2), (1, 2)).tolist() == [[0, 2], [1, 3]]
    part = x[1:]
    assert part.as_strided((2, 2), (1, 2)).tolist() == [[4, 6], [5, 7]]
    assert part.as_strided((2, 2), (1, 2), 0).tolist() == [[0, 2], [1, 3]]
    assert np.shares_memory(part.as_strided((1,), (1,), 0).numpy(), x.numpy())
    rows = weft.from_numpy(np.arange(12.0).reshape(3, 4)[:, ::2])  # memory with gaps
    assert rows.as_strided((2,), (1,), 1).tolist() == [1, 2]


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x.as_strided((2, 3), (1, 1), 2),  # elements seen twice
        lambda x: x.t().as_strided((2, 2), (1, 4), 1),  # an input that is not row-major
        lambda x: x[:1].expand(2, 4).as_strided((2,), (1,), 0),  # an input that overlaps itself
        lambda x: x.unfold(1, 3, 1),
    ],
)
def test_second_order_of_overlapping_views(function: Any) -> None:
    x = weft.rand(3, 4, dtype=weft.float64, requires_grad=True)
    assert gradgradcheck(lambda x: function(x * x), (x,))
    assert gradcheck(lambda x: function(x.clone()), (x,))


def test_free_strides_pass_no_gradient_to_memory_outside_their_input() -> None:
    x = matrix().requires_grad_()
    x[1:].as_strided((6,), (1,), 0).sum().backward()
    assert x.grad.tolist() == [[0, 0, 0, 0], [1, 1, 0, 0], [0, 0, 0, 0]]


def test_complex_numbers_are_pairs_in_memory() -> None:
    z = weft.tensor([[1 + 2j, 3 - 1j]])
    pairs = weft.view_as_real(z)
    assert pairs.tolist() == [[[1, 2], [3, -1]]]
    assert pairs.stride() == (4, 2, 1)
    pairs[0, 0, 1] = 7
    assert z.tolist() == [[1 + 7j, 3 - 1j]]
    assert weft.view_as_complex(pairs).tolist() == z.tolist()
    assert weft.view_as_real(z[:, ::2]).tolist() == [[[1, 7]]]
