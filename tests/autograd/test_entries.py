"""Entering a function that is differentiated, and leaving it."""

from __future__ import annotations

from typing import Any

import pytest

import weft
from weft.autograd.entries import Differentiation
from weft.tensor.wrapper import LevelEntry


def test_entries_and_what_is_left() -> None:
    plain, leaf = weft.ones(2), weft.ones(2, requires_grad=True)
    with Differentiation() as run:
        first, second = run.enter(plain), run.enter(leaf)
        assert first.is_leaf and first.requires_grad and type(second.node) is LevelEntry
        assert (
            not run.followed([first * 2]) and run.followed([first * second]) and run.followed([leaf * first])
        )
        inside, outside = first * 2, second * 2
    assert not run.left({"a": inside})["a"].requires_grad and run.left(outside).requires_grad
    assert run.left(3) == 3 and not plain.requires_grad
    with weft.no_grad(), Differentiation() as run:
        assert run.enter(leaf).is_leaf and weft.is_grad_enabled()
    assert not run.followed([leaf * 2])


@pytest.mark.parametrize("inner", [lambda v: v, lambda v: (v * v).sin()], ids=["a leaf", "computed"])
def test_results_cannot_be_differentiated_by_arguments_of_a_transform_that_has_ended(inner: Any) -> None:
    weight = weft.tensor(0.5, requires_grad=True)

    def weighted(v: weft.Tensor) -> weft.Tensor:
        return inner(v) * v * weight

    def summed(v: weft.Tensor) -> tuple[weft.Tensor, weft.Tensor]:
        return weighted(v).sum(), weighted(v)

    value, pull = weft.func.vjp(weighted, weft.ones(3))
    moved, push = weft.func.linearize(weighted, weft.ones(3))
    found, (both, aux) = weft.func.grad_and_value(summed, has_aux=True)(weft.ones(3))
    jacobian = weft.func.jacrev(weighted)(weft.ones(3))
    first, second = pull(weft.ones(3))[0], pull(weft.ones(3))[0]
    assert first.tolist() == second.tolist() == found.tolist() == jacobian.diagonal().tolist()
    assert push(weft.ones(3)).tolist() == first.tolist()
    for result in (value, moved, found, both, aux, jacobian, first, second):
        assert result.requires_grad
        (gradient,) = weft.autograd.grad(result.sum(), weight, create_graph=True)
        assert gradient.item() == pytest.approx(result.sum().item() * 2) and not gradient.requires_grad


def test_what_was_saved_for_arguments_of_a_transform_that_has_ended_may_be_written() -> None:
    weight = weft.tensor(0.5, requires_grad=True)
    factors = weft.ones(3) * weight
    value, pull = weft.func.vjp(lambda v: (v * factors).sum(), weft.tensor(0.4))
    factors.mul_(2)
    (gradient,) = weft.autograd.grad(value, weight, retain_graph=True)
    assert gradient.item() == pytest.approx(1.2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        pull(weft.ones(()))
