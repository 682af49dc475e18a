"""Losses: against eager, with weights, ignored and bad targets, in all their shapes."""

from __future__ import annotations

from typing import Any

import pytest

import weft
from tests.native.lowered import assert_same, opaques
from weft.nn import functional as F

SHAPES = [(7, 5), (5,), (2, 5, 3), (2, 5, 3, 4), (40, 100)]


def targets_of(shape: tuple[int, ...], ignore: int) -> Any:
    classes = shape[1] if len(shape) > 1 else shape[0]
    target = weft.randint(0, classes, (shape[0], *shape[2:]) if len(shape) > 1 else ())
    if target.dim():
        target.view(-1)[1::3] = ignore
    return target


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("ignore", [-100, 2])
@pytest.mark.parametrize("weighted", [False, True])
def test_cross_entropy(shape: Any, reduction: str, ignore: int, weighted: bool) -> None:
    classes = shape[1] if len(shape) > 1 else shape[0]
    weight = weft.rand(classes) if weighted else None
    target = targets_of(shape, ignore)

    def f(x: Any, target: Any) -> Any:
        loss = F.cross_entropy(x, target, weight, ignore_index=ignore, reduction=reduction)
        (grad,) = weft.autograd.grad((loss * 1.5).sum(), x)
        return loss.detach(), grad

    x = weft.randn(*shape, requires_grad=True)
    assert not opaques(f, x, target)
    assert_same(f, x, target)
    assert_same(f, x.detach().double().requires_grad_(), target) if not weighted else None


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_squared_errors(reduction: str) -> None:
    def f(x: Any, y: Any) -> Any:
        loss = F.mse_loss(x, y, reduction=reduction)
        return (loss.detach(), *weft.autograd.grad(loss.sum() * 2, (x, y)))

    for shape in ((7, 5), (), (300, 300)):
        x, y = weft.randn(shape, requires_grad=True), weft.randn(shape, requires_grad=True)
        assert not opaques(f, x, y)
        assert_same(f, x, y)


def test_cross_entropy_of_probabilities() -> None:
    def f(x: Any, y: Any) -> Any:
        loss = F.binary_cross_entropy(x, y)
        return (loss.detach(), *weft.autograd.grad(loss, (x,)))

    x, y = weft.rand(6, 4, requires_grad=True), weft.rand(6, 4).round()
    assert not opaques(f, x, y)
    assert_same(f, x, y)
    compiled = weft.compile(f, backend="native")
    with pytest.raises(RuntimeError, match="between 0 and 1"):
        compiled(x * 2, y)
    with pytest.raises(RuntimeError, match="between 0 and 1"):
        compiled(x, y * float("nan"))


@pytest.mark.parametrize("bad", [-1, 5, 10**9])
def test_bad_targets(bad: int) -> None:
    compiled = weft.compile(lambda x, t: F.cross_entropy(x, t), backend="native")
    x, target = weft.randn(7, 5), weft.randint(0, 5, (7,))
    for _ in range(4):
        compiled(x, target)
    target[3] = bad
    for _ in range(2):
        with pytest.raises(IndexError, match=f"Target {bad} is out of bounds"):
            compiled(x, target)
    target[3] = -100
    weft.testing.assert_close(compiled(x, target), F.cross_entropy(x, target))
    target[:] = -100
    assert compiled(x, target).isnan()


LOSSES = (
    F.l1_loss,
    F.smooth_l1_loss,
    F.huber_loss,
    F.binary_cross_entropy,
    F.binary_cross_entropy_with_logits,
)


def test_other_losses() -> None:
    def f(x: Any, y: Any) -> Any:
        losses = [loss(x, y, reduction=word) for loss in LOSSES for word in ("mean", "sum", "none")]
        return *losses, *weft.autograd.grad(sum(loss.sum() for loss in losses), x)

    x, y = weft.rand(30, 40, requires_grad=True), weft.rand(30, 40)
    assert not opaques(f, x, y)
    assert_same(f, x, y)
