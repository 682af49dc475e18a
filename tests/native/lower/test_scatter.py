"""Elements written at computed places, and running folds: against eager, with places that are named often."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import weft
from tests.native.lowered import assert_same, opaques


@pytest.mark.parametrize("kind", [weft.float32, weft.float64, weft.int64])
def test_rows_and_elements(kind: weft.dtype) -> None:
    def f(x: weft.Tensor, y: weft.Tensor, rows: weft.Tensor, wide: weft.Tensor) -> tuple[weft.Tensor, ...]:
        return (
            x.index_add(0, rows, y), x.index_add(1, rows, y.t(), alpha=2), x.index_copy(0, rows, y),
            x.index_fill(1, rows, 3), x.scatter_add(0, wide, x), x.scatter_add(1, wide, x * 2),
            x.scatter(1, wide, 5), x.scatter(0, wide, x, reduce="multiply"),
            x.scatter_reduce(0, wide, x, "amax"), x.scatter_reduce(1, wide, x, "sum"),
            x.index_put((rows, rows), y[:, 0], accumulate=True), x.index_put((rows,), y),
            x[None].index_put((weft.zeros_like(rows), rows), y, accumulate=True),
        )  # fmt: skip

    x = weft.randint(-5, 6, (70, 70)).to(kind)
    y = weft.randint(-5, 6, (50, 70)).to(kind)
    rows, wide = weft.randint(0, 40, (50,)), weft.randint(0, 70, (70, 70))
    assert not opaques(f, x, y, rows, wide)
    assert_same(f, x, y, rows, wide)
    assert_same(f, x.t(), y, rows, wide.t())


def test_gradients_of_gathers() -> None:
    def f(x: weft.Tensor, rows: weft.Tensor, wide: weft.Tensor) -> tuple[weft.Tensor, ...]:
        parts = (
            weft.nn.functional.embedding(wide, x, padding_idx=3), x[rows], x[:, rows], x[rows, rows],
            x.gather(1, wide), weft.take(x, wide), x.index_select(1, rows), x[rows, None, :5],
        )  # fmt: skip
        return weft.autograd.grad(sum((part * part).sum() for part in parts), x)

    x = weft.randn(70, 70, dtype=weft.float64, requires_grad=True)
    rows, wide = weft.randint(0, 40, (50,)), weft.randint(0, 70, (70, 70))
    assert not opaques(f, x, rows, wide)
    assert_same(f, x, rows, wide)


def test_running_folds() -> None:
    def f(x: weft.Tensor, n: weft.Tensor, cube: weft.Tensor) -> tuple[weft.Tensor, ...]:
        loss = (x.cumsum(1) * x.cumprod(0)).sum() + x.prod(0).sum() + (cube.cumsum(1) ** 2).sum()
        return (
            x.t().cumsum(0), n.cumsum(0), n.cumprod(1), x.flip(0).cumsum(0), cube.cumsum(1), cube.cumprod(2),
            *weft.autograd.grad(loss, (x, cube)),
        )  # fmt: skip

    x = (weft.rand(40, 50, dtype=weft.float64) + 0.5).requires_grad_()
    cube = (weft.rand(9, 37, 21, dtype=weft.float64) + 0.5).requires_grad_()
    n = weft.randint(0, 100, (300, 3))
    assert not opaques(f, x, n, cube)
    assert_same(f, x, n, cube, near=1e-9)


@pytest.mark.parametrize("bad", [-71, 70, 1 << 40])
def test_places_out_of_range_raise_as_in_eager_calls(bad: int) -> None:
    calls: list[Any] = [
        lambda x, at: x.index_add(0, at, x[:3]), lambda x, at: x.scatter_add(0, at[:, None], x),
        lambda x, at: x.index_put((at,), x[:3]), lambda x, at: x.index_copy(1, at, x[:, :3]),
        lambda x, at: x.index_fill(1, at, 2.0),
    ]  # fmt: skip
    x, at = weft.randn(70, 70), weft.tensor([1, 2, bad])
    for call in calls:
        with pytest.raises((IndexError, RuntimeError)) as theirs:
            call(x, at)
        with pytest.raises(type(theirs.value)) as ours:
            weft.compile(call, backend="native", fullgraph=True)(x, at)
        assert str(ours.value) == str(theirs.value)


def test_results_have_the_same_bits_in_any_order_of_chunks() -> None:
    x, at = weft.randn(5000, 257), weft.randint(0, 7, (5000,))

    def f(x: weft.Tensor, at: weft.Tensor) -> weft.Tensor:
        return weft.zeros(7, 257).index_add(0, at, x)

    expected = np.zeros((7, 257), np.float32)
    np.add.at(expected, at.numpy(), x.numpy())
    compiled = weft.compile(f, backend="native", fullgraph=True)
    for _ in range(3):
        np.testing.assert_array_equal(compiled(x, at).numpy(), expected)


def test_gradients_of_borders_and_windows() -> None:
    pad = weft.nn.functional.pad

    def f(x: weft.Tensor) -> tuple[weft.Tensor, ...]:
        parts = (
            pad(x, (2, 1, 0, 3), mode="reflect"), pad(x, (2, 1, 0, 3), mode="replicate"),
            pad(x, (2, 1, 0, 3), mode="circular"), weft.nn.functional.unfold(x, (2, 3), padding=1),
        )  # fmt: skip
        return *parts, *weft.autograd.grad(sum((part * part).sum() for part in parts[:3]), x)

    x = weft.randn(2, 3, 6, 7, dtype=weft.float64, requires_grad=True)
    assert not opaques(f, x)
    assert_same(f, x)


def test_running_sums_of_negative_zeros() -> None:
    x = weft.tensor([[-0.0, -0.0, 0.0]])
    for axis in (0, 1):
        found = weft.compile(lambda x, axis=axis: x.cumsum(axis), backend="native", fullgraph=True)(x)
        assert repr(found.tolist()) == repr(x.cumsum(axis).tolist())
