"""View ops: PyTorch's shapes, strides and errors; what shares memory and what copies."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import weft


def matrix(**options: Any) -> Any:
    return weft.arange(12.0, **options).reshape(3, 4)


STRIDES = [
    (lambda x: x.view(2, 6), (2, 6), (6, 1)),
    (lambda x: x.view(-1, 2), (6, 2), (2, 1)),
    (lambda x: x.view(size=(4, 3)), (4, 3), (3, 1)),
    (lambda x: x.expand(2, 3, 4), (2, 3, 4), (0, 4, 1)),
    (lambda x: x.expand(3, -1), (3, 4), (4, 1)),
    (lambda x: x[:1].expand(0, 4), (0, 4), (4, 1)),
    (lambda x: x.expand(1, 3, 4), (1, 3, 4), (12, 4, 1)),
    (lambda x: x.permute(1, 0), (4, 3), (1, 4)),
    (lambda x: x.permute(dims=(-1, 0)), (4, 3), (1, 4)),
    (lambda x: x.t(), (4, 3), (1, 4)),
    (lambda x: x.swapaxes(0, 1), (4, 3), (1, 4)),
    (lambda x: x.unsqueeze(0), (1, 3, 4), (12, 4, 1)),
    (lambda x: x.unsqueeze(2), (3, 4, 1), (4, 1, 1)),
    (lambda x: x.t().unsqueeze(1), (4, 1, 3), (1, 12, 4)),
    (lambda x: x[:, ::2].unsqueeze(2), (3, 2, 1), (4, 2, 1)),
    (lambda x: x.unsqueeze(0).squeeze(0), (3, 4), (4, 1)),
    (lambda x: x.unflatten(1, (2, -1)), (3, 2, 2), (4, 2, 1)),
    (lambda x: x.flatten(), (12,), (1,)),
    (lambda x: x.movedim(0, 1), (4, 3), (1, 4)),
    (lambda x: weft.broadcast_tensors(x, weft.ones(2, 1, 1))[0], (2, 3, 4), (0, 4, 1)),
]


@pytest.mark.parametrize(("call", "shape", "strides"), STRIDES)
def test_shapes_strides_and_memory(call: Any, shape: tuple[int, ...], strides: tuple[int, ...]) -> None:
    x = matrix()
    view = call(x)
    assert (view.shape, view.stride()) == (shape, strides)
    assert view._is_view()
    if view.numel():
        assert np.shares_memory(view.numpy(), x.numpy())


ERRORS = [
    (lambda x: x.view(5), RuntimeError, r"shape '\[5\]' is invalid for input of size 12"),
    (lambda x: x.view(2, 3), RuntimeError, r"shape '\[2, 3\]' is invalid for input of size 12"),
    (lambda x: x.reshape(-1, 5), RuntimeError, r"shape '\[-1, 5\]' is invalid for input of size 12"),
    (lambda x: x.view(-1, -1), RuntimeError, "only one dimension can be inferred"),
    (lambda x: x.view(-2, 6), RuntimeError, r"invalid shape dimension -2 at index 0 of shape \[-2, 6\]"),
    (lambda x: x[:0].view(-1, 0), RuntimeError, "because the unspecified dimension size -1 can be any value"),
    (
        lambda x: x.t().view(12),
        RuntimeError,
        "view size is not compatible with input tensor's size and stride",
    ),
    (
        lambda x: x.expand(4, 4),
        RuntimeError,
        r"The expanded size of the tensor \(4\) must match the existing size \(3\)",
    ),
    (lambda x: x.expand(4), RuntimeError, r"the number of sizes provided \(1\) must be greater or equal"),
    (lambda x: x.expand(-1, 3, 4), RuntimeError, "isn't allowed in a leading, non-existing dimension 0"),
    (lambda x: x.permute(0, 0), RuntimeError, "duplicate dims are not allowed"),
    (lambda x: x.permute(0), RuntimeError, r"input.dim\(\) = 2 is not equal to len\(dims\) = 1"),
    (lambda x: x.permute(0, 2), IndexError, r"expected to be in range of \[-2, 1\], but got 2"),
    (lambda x: x.transpose(0, 2), IndexError, r"expected to be in range of \[-2, 1\], but got 2"),
    (lambda x: x.unsqueeze(4), IndexError, r"expected to be in range of \[-3, 2\], but got 4"),
    (lambda x: x.squeeze((0, 0)), RuntimeError, "dim 0 appears multiple times in the list of dims"),
    (lambda x: x.unsqueeze(0).t(), RuntimeError, "expects a tensor with <= 2 dimensions, but self is 3D"),
    (lambda x: x.flatten(1, 0), RuntimeError, "start_dim cannot come after end_dim"),
    (
        lambda x: x.unflatten(1, (2, 3)),
        RuntimeError,
        r"Provided sizes \[2, 3\] don't multiply up to the size of dim 1 \(4\)",
    ),
    (lambda x: x.unflatten(1, ()), RuntimeError, "sizes must be non-empty"),
    (lambda x: x.movedim((0, 0), (0, 1)), RuntimeError, "repeated dim in `source`"),
    (lambda x: x.sum_to_size(5), RuntimeError, r"size {\[5\]} is not expandable to size {\[3, 4\]}"),
    (lambda x: x[0].adjoint(), RuntimeError, "only supported on matrices or batches of matrices"),
]


@pytest.mark.parametrize(("call", "kind", "text"), ERRORS)
def test_errors(call: Any, kind: type[Exception], text: str) -> None:
    with pytest.raises(kind, match=text):
        call(matrix())


def test_reshape_copies_only_where_it_must() -> None:
    x = matrix(requires_grad=True) * 1
    assert x.reshape(12).grad_fn.name() == "ViewBackward0"
    copied = x.t().reshape(12)
    assert copied.grad_fn.name() == "UnsafeViewBackward0"
    assert not copied._is_view()
    assert copied.tolist() == np.arange(12.0).reshape(3, 4).T.reshape(12).tolist()
    assert x.t().reshape(2, 2, 3)._is_view()
    row = x[0]
    assert row.flatten() is row


def test_view_as_another_dtype_reinterprets_bits() -> None:
    x = weft.ones(3, 4)
    assert x.view(weft.int32)[0, 0].item() == 0x3F800000
    assert x.view(weft.int16).shape == (3, 8)
    assert x.view(weft.float64).shape == (3, 2)
    assert not weft.ones(2, requires_grad=True).view(weft.int32).requires_grad
    with pytest.raises(RuntimeError, match=r"self.size\(-1\) must be divisible by 2 to view Float as Double"):
        weft.ones(3).view(weft.float64)
    with pytest.raises(RuntimeError, match=r"self.stride\(-1\) must be 1 to view Float as Double"):
        x.t()[:, :2].view(weft.float64)
    with pytest.raises(RuntimeError, match=r"self.dim\(\) cannot be 0 to view"):
        weft.ones(()).view(weft.float64)


def test_squeeze_takes_none_one_or_several_dimensions() -> None:
    x = weft.ones(1, 2, 1)
    assert x.squeeze().shape == (2,)
    assert x.squeeze(0).shape == (2, 1)
    assert x.squeeze((0, 2)).shape == (2,)
    assert x.squeeze(()).shape == x.squeeze(1).shape == (1, 2, 1)


def test_sum_to_size_undoes_broadcasting() -> None:
    x = matrix()
    assert x.sum_to_size(1, 4).tolist() == [[12, 15, 18, 21]]
    assert x.sum_to_size(4).tolist() == [12, 15, 18, 21]
    assert x.sum_to_size(()).item() == 66


def test_zero_dim_tensors() -> None:
    x = weft.tensor(3.0)
    assert x.flatten().shape == x.view(1).shape == x.unsqueeze(0).shape == (1,)
    assert x.transpose(0, -1).shape == x.t().shape == x.permute(()).shape == x.movedim(0, -1).shape == ()
    assert x.expand(1, 1).stride() == (0, 0)


def test_broadcast_tensors_leaves_what_fits_alone() -> None:
    x = weft.ones(3, 2, requires_grad=True)
    same, wider = weft.broadcast_tensors(x, weft.ones(2))
    assert same is x and wider.shape == (3, 2)


def test_unflatten_of_a_zero_dim_tensor() -> None:
    with pytest.raises(RuntimeError, match="unflatten got an unexpected error"):
        weft.tensor(1.0).unflatten(0, (1, 1))


def test_sizes_that_do_not_fit_are_named_from_the_last_on() -> None:
    text = r"tensor \(3\) must match the existing size \(4\) at non-singleton dimension 1"
    with pytest.raises(RuntimeError, match=text):
        weft.ones(3, 4).expand(2, 3)
