"""Elements at computed places: against eager, in chunks and folds, and with indices that are out of range."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import weft
from tests.native.lowered import assert_same, opaques
from weft.native import backend

I64 = weft.int64


def test_places_that_indices_tell() -> None:
    def f(x: weft.Tensor, rows: weft.Tensor, wide: weft.Tensor) -> tuple[weft.Tensor, ...]:
        return (
            x[rows], x.t()[rows] * 2, x.index_select(1, rows), x.gather(1, wide), x.gather(0, wide).sum(1),
            x[rows, rows], x[:, rows] + 1, weft.take(x, wide), weft.nn.functional.embedding(wide, x),
            x[None, rows, :, None], weft.take_along_dim(x, wide, 1), (x * 2)[rows].softmax(-1),
        )  # fmt: skip

    x = weft.randn(70, 70)
    rows, wide = weft.randint(-3, 3, (50,)), weft.randint(0, 70, (70, 70))
    rows = rows.abs()
    assert not opaques(f, x, rows, wide)
    assert_same(f, x, rows, wide)
    assert_same(f, x.t(), rows, wide.t())


def test_places_that_are_known() -> None:
    def f(x: weft.Tensor) -> tuple[weft.Tensor, ...]:
        pad = weft.nn.functional.pad
        return (
            x.roll(3), x.roll((2, -5), (0, 1)), pad(x, (1, 2, 0, 3), value=2.5), pad(x, (-1, 2)),
            pad(x[None], (3, 1), mode="reflect"), pad(x[None], (3, 1), mode="replicate"),
            pad(x[None, None], (2, 2, 1, 0), mode="circular"), (x.roll(1, 0) - x).sum(0),
        )  # fmt: skip

    x = weft.randn(300, 200)
    assert not opaques(f, x)
    assert_same(f, x)
    assert_same(f, x.t())


def test_gradients_of_views_are_elements_between_zeros() -> None:
    def f(x: weft.Tensor) -> tuple[weft.Tensor, ...]:
        parts = x[3:50:4, 1:], x[7], x[:, 5], x.diagonal(2), x.t()[::3], x[-1:, None, 4:9], x.unfold(0, 3, 3)
        loss = sum((part * part).sum() for part in parts)
        return weft.autograd.grad(loss, x)

    x = weft.randn(60, 40, requires_grad=True)
    assert not opaques(f, x)
    assert_same(f, x)


@pytest.mark.parametrize("bad", [-71, 70, 1 << 40, -(1 << 62)])
def test_indices_out_of_range_raise_as_in_eager_calls(bad: int) -> None:
    calls: list[Any] = [
        lambda x, at: x[at], lambda x, at: x.index_select(0, at), lambda x, at: weft.take(x, at * 70),
        lambda x, at: x.gather(1, at[:, None]), lambda x, at: weft.nn.functional.embedding(at, x),
    ]  # fmt: skip
    x, at = weft.randn(70, 70), weft.tensor([1, 2, bad])
    for call in calls:
        with pytest.raises((IndexError, RuntimeError)) as theirs:
            call(x, at)
        compiled = weft.compile(call, backend="native", fullgraph=True)
        assert weft.equal(compiled(x, weft.tensor([1, 2, 3])), call(x, weft.tensor([1, 2, 3])))
        with pytest.raises(type(theirs.value)) as ours:
            compiled(x, at)
        assert str(ours.value) == str(theirs.value)


def test_nothing_is_written_where_an_index_is_bad() -> None:
    def f(x: weft.Tensor, at: weft.Tensor) -> weft.Tensor:
        x.mul_(2)
        return x[at]

    x = weft.ones(5)
    compiled = weft.compile(f, backend="native", fullgraph=True)
    compiled(x, weft.tensor([1]))
    with pytest.raises(IndexError):
        compiled(x, weft.tensor([9]))
    np.testing.assert_array_equal(x.numpy(), np.full(5, 4.0))  # by eager's write before its error


def test_one_hot() -> None:
    def f(x: weft.Tensor) -> weft.Tensor:
        return weft.nn.functional.one_hot(x, 7) * 2

    x = weft.randint(0, 7, (40, 3))
    x[0, 0] = 6
    assert not opaques(f, x)
    assert_same(f, x)
    with pytest.raises(RuntimeError, match="smaller than num_classes"):
        weft.compile(f, backend="native", fullgraph=True)(x + 1)


def test_elements_that_move() -> None:
    def f(x: weft.Tensor) -> tuple[weft.Tensor, ...]:
        image = x.reshape(1, 8, 9, 5)
        square = x[:, :8]
        shuffled = weft.nn.functional.pixel_shuffle(image, 2), weft.channel_shuffle(image, 4)
        made = weft.diag_embed(x), weft.diag(x[0], 1), weft.diag(square, -2), square.trace()
        loss = sum((part * part).sum() for part in (*shuffled, *made))
        return *shuffled, *made, *weft.autograd.grad(loss, x)

    x = weft.randn(8, 45, dtype=weft.float64, requires_grad=True)
    assert not opaques(f, x)
    assert_same(f, x)


def test_values_of_places_that_sorting_finds() -> None:
    def f(x: weft.Tensor) -> tuple[weft.Tensor, ...]:
        return *x.sort(0), *x.topk(3, 1), *x.median(1)

    x = weft.randn(20, 30)
    assert not {name for name in opaques(f, x) if "values" in name}
    assert_same(f, x)


def test_a_write_through_a_view_of_one_number() -> None:
    def f(x: weft.Tensor) -> weft.Tensor:
        total = x.sum()
        total.t().add_(1)
        return total * 2

    x = weft.randn(7)
    assert not opaques(f, x)
    assert_same(f, x)


def test_one_element_that_moves_out_of_sight() -> None:
    def f(x: weft.Tensor) -> tuple[weft.Tensor, ...]:
        gone = weft.nn.functional.pad(x, (-1, 1), value=3.0)
        return gone, *weft.autograd.grad((x.cumprod(0) ** 2).sum(), x)

    x = weft.tensor([0.5], requires_grad=True)
    assert not opaques(f, x)
    assert_same(f, x)


def test_a_write_through_a_view_of_another_type() -> None:
    def f(x: weft.Tensor) -> weft.Tensor:
        bits = x.view(weft.int32)
        bits.copy_(bits.flip(0))
        return x * 1

    for given in (weft.randn(3, 4), weft.randn(4, 3).t()):
        one, other = given.clone(), given.clone()
        wanted = f(one)
        found = weft.compile(f, backend="native", fullgraph=True)(other)
        assert weft.equal(one, other) and weft.equal(found, wanted) and found.stride() == wanted.stride()


WRITTEN_VIEWS: dict[str, Any] = {
    "a column": lambda y: y[:, 0].mul_(2),
    "a row": lambda y: y[1].fill_(3),
    "an inner part": lambda y: y[1:-1, ::2].add_(1),
    "the diagonal": lambda y: y.diagonal().zero_(),
    "transposed rows": lambda y: y.t()[0:2].mul_(3),
    "a row of rows": lambda y: y[1:][0].copy_(y[0]),
    "every third row": lambda y: y[::3].mul_(2),
    "the last rows": lambda y: y[-2:].mul_(2),
    "half": lambda y: y[: y.shape[0] // 2].mul_(2),
    "one element": lambda y: y.unsqueeze(0)[0, 1, 1].sub_(1),
    "all": lambda y: y[...].mul_(2),
    "a scalar": lambda y: y.sum().mul_(2),
    "broadcast": lambda y: y[:, 1:].copy_(y[:, :1]),
}


@pytest.mark.parametrize("dynamic", [True, False])
@pytest.mark.parametrize("name", WRITTEN_VIEWS)
def test_writes_through_views_leave_sizes_open(
    name: str, dynamic: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    alone: list[str] = []
    monkeypatch.setattr(
        backend, "log", lambda topic, text: alone.append(text()) if topic == "recompiles" else None
    )
    weft.compiler.reset()

    def function(x: Any) -> Any:
        y = x * 1.5
        WRITTEN_VIEWS[name](y)
        return y + 1

    compiled = weft.compile(function, backend="native", dynamic=dynamic)
    sizes = ((4, 6), (5, 7), (8, 3), (4, 4), (3, 6), (2, 5), (12, 12))
    for size in sizes if dynamic else sizes[:3]:
        results = []
        for call in (compiled, function):
            x = weft.randn(*size, generator=weft.Generator().manual_seed(1)).requires_grad_()
            call(x).sin().sum().backward()
            results.append((call(x.detach()), x.grad))
        assert weft.equal(results[0][0], results[1][0])
        weft.testing.assert_close(results[0][1], results[1][1])
    assert not alone
