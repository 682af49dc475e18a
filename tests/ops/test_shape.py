"""Joins, repeats and rearrangements: values against NumPy, PyTorch's promotion and errors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import weft


def matrix() -> Any:
    return weft.arange(12.0).reshape(3, 4)


A = np.arange(12.0).reshape(3, 4)

VALUES = [
    (lambda x: weft.cat([x, x], 1), np.concatenate([A, A], 1)),
    (lambda x: weft.concat([x, weft.ones(0)], dim=0), A),
    (lambda x: weft.concatenate((x, x), axis=-1), np.concatenate([A, A], -1)),
    (lambda x: weft.stack([x, x], 2), np.stack([A, A], 2)),
    (lambda x: weft.hstack([x[0], x[1]]), np.hstack([A[0], A[1]])),
    (lambda x: weft.vstack([x[0], x[1]]), np.vstack([A[0], A[1]])),
    (lambda x: weft.dstack([x, x]), np.dstack([A, A])),
    (lambda x: weft.column_stack([x[:, 0], x]), np.column_stack([A[:, 0], A])),
    (lambda x: x.tile(2), np.tile(A, 2)),
    (lambda x: x.tile((2, 1, 2)), np.tile(A, (2, 1, 2))),
    (lambda x: x.repeat(2, 1, 3), np.tile(A, (2, 1, 3))),
    (lambda x: x.repeat_interleave(2), np.repeat(A, 2)),
    (lambda x: x.repeat_interleave(2, 1), np.repeat(A, 2, 1)),
    (lambda x: x.repeat_interleave(weft.tensor([1, 0, 2]), 0), np.repeat(A, [1, 0, 2], 0)),
    (lambda x: x.repeat_interleave(weft.tensor(3), 1), np.repeat(A, 3, 1)),
    (lambda x: x.flip(0, 1), np.flip(A)),
    (lambda x: x.flip(()), A),
    (lambda x: x.fliplr(), np.fliplr(A)),
    (lambda x: x.flipud(), np.flipud(A)),
    (lambda x: x.roll(1), np.roll(A, 1)),
    (lambda x: x.roll((1, -2), (0, 1)), np.roll(A, (1, -2), (0, 1))),
    (lambda x: x.rot90(), np.rot90(A)),
    (lambda x: x.rot90(-1), np.rot90(A, -1)),
    (lambda x: x.tril(1), np.tril(A, 1)),
    (lambda x: x.triu(-1), np.triu(A, -1)),
    (lambda x: x.diag(1), np.diag(A, 1)),
    (lambda x: x[0].diag(-1), np.diag(A[0], -1)),
    (lambda x: x[0].diag_embed(1), np.diag(A[0], 1)),
    (lambda x: x[:2, :2].diagflat(), np.diagflat(A[:2, :2])),
]


@pytest.mark.parametrize(("call", "wanted"), VALUES)
def test_values_against_numpy(call: Any, wanted: Any) -> None:
    out = call(matrix())
    assert out.shape == wanted.shape
    np.testing.assert_array_equal(out.numpy(), wanted)


ERRORS = [
    (lambda x: weft.cat([]), ValueError, "expected a non-empty list of Tensors"),
    (lambda x: weft.cat([x, x], 2), IndexError, r"expected to be in range of \[-2, 1\], but got 2"),
    (lambda x: weft.cat([x, x[0]]), RuntimeError, "must have same number of dimensions: got 2 and 1"),
    (
        lambda x: weft.cat([x, weft.ones(2, 3)]),
        RuntimeError,
        "Expected size 4 but got size 3 for tensor number 1 in the list",
    ),
    (
        lambda x: weft.cat([weft.ones(())]),
        RuntimeError,
        r"zero-dimensional tensor \(at position 0\) cannot be concatenated",
    ),
    (lambda x: weft.cat([x, 1]), TypeError, "expected Tensor as element 1 in argument 0, but got int"),
    (lambda x: weft.cat(x), TypeError, "must be tuple of Tensors, not Tensor"),
    (lambda x: weft.stack([]), RuntimeError, "stack expects a non-empty TensorList"),
    (lambda x: weft.stack([x, x[0]]), RuntimeError, r"got \[3, 4\] at entry 0 and \[4\] at entry 1"),
    (lambda x: weft.vstack([]), RuntimeError, "vstack expects a non-empty TensorList"),
    (lambda x: x.repeat(2), RuntimeError, "can not be smaller than number of dimensions of tensor"),
    (
        lambda x: x.repeat(-1, 1),
        RuntimeError,
        r"Trying to create tensor with negative dimension -3: \[-3, 4\]",
    ),
    (lambda x: x.repeat_interleave(-1), RuntimeError, "Repeats must be non-negative"),
    (lambda x: x.repeat_interleave(weft.tensor([1, -2, 1]), 0), RuntimeError, "repeats can not be negative"),
    (
        lambda x: x.repeat_interleave(weft.tensor([1, 2]), 0),
        RuntimeError,
        "repeats must have the same size as input along dim",
    ),
    (lambda x: x.flip(0, 0), RuntimeError, "dim 0 appears multiple times in the list of dims"),
    (lambda x: x.roll((1, 1), 0), RuntimeError, "shifts and dimensions must align. shifts: 2, dims:1"),
    (lambda x: x[0].tril(), RuntimeError, "tril: input tensor must have at least 2 dimensions"),
    (lambda x: x[0, 0].diag(), RuntimeError, r"Supports 1D or 2D tensors. Got 0D"),
    (lambda x: x[0].diag_embed(0, 0, 0), RuntimeError, "diagonal dimensions cannot be identical 0, 0"),
    (lambda x: weft.meshgrid(indexing="ij"), RuntimeError, "expects a non-empty TensorList"),
    (lambda x: weft.meshgrid(x[0], indexing="ab"), RuntimeError, "must be one of"),
]


@pytest.mark.parametrize(("call", "kind", "text"), ERRORS)
def test_errors(call: Any, kind: type[Exception], text: str) -> None:
    with pytest.raises(kind, match=text):
        call(matrix())


def test_joins_promote() -> None:
    whole, real = weft.ones(2, dtype=weft.int64), weft.ones(2, dtype=weft.float16)
    assert weft.cat([whole, real]).dtype == weft.stack([whole, real]).dtype == weft.float16
    assert weft.cat([real, weft.ones(1, dtype=weft.bfloat16)]).dtype == weft.float32
    with pytest.raises(TypeError, match="can't be cast to the desired output type Long"):
        weft.cat([real, real], out=weft.empty(4, dtype=weft.int64))


def test_out_must_not_be_an_argument() -> None:
    x = weft.ones(4)
    with pytest.raises(RuntimeError, match="some elements of the input tensor and the written-to tensor"):
        weft.cat([x[:2], x[2:]], out=x)


@pytest.mark.parametrize("indexing", ["ij", "xy"])
def test_meshgrid(indexing: Any) -> None:
    ours = weft.meshgrid(weft.arange(2), weft.arange(3), weft.arange(4), indexing=indexing)
    theirs = np.meshgrid(np.arange(2), np.arange(3), np.arange(4), indexing=indexing)
    for grid, wanted in zip(ours, theirs, strict=True):
        np.testing.assert_array_equal(grid.numpy(), wanted)
    assert isinstance(weft.meshgrid([weft.arange(2), weft.tensor(1)], indexing="ij"), tuple)
    with pytest.warns(UserWarning, match="required to pass the indexing argument"):
        weft.meshgrid(weft.arange(2), weft.arange(3))


def test_gradients_of_joins_go_where_they_came_from() -> None:
    a, b = weft.ones(2, requires_grad=True), weft.ones(3, requires_grad=True)
    weft.cat([a, b, a]).mul(weft.arange(7.0)).sum().backward()
    assert a.grad.tolist() == [5, 7]
    assert b.grad.tolist() == [2, 3, 4]


def test_repeat_positions_of_counts_alone() -> None:
    assert weft.repeat_interleave(weft.tensor([1, 0, 2])).tolist() == [0, 2, 2]


@pytest.mark.parametrize("counts", [(2,), (3, 1)])
def test_repeats_of_nothing_are_no_views(counts: Any) -> None:
    row = weft.randn(17, 0)[1]
    assert row.storage_offset() == 1
    assert row.repeat(*counts).storage_offset() == 0
