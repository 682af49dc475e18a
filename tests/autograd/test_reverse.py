"""Gradients of wrapped tensors, as `autograd.grad` gives them inside transforms."""

from __future__ import annotations

from typing import Any

import pytest

import weft
from weft.autograd.reverse import added, cut, gradients
from weft.func import jvp, vmap

X = weft.tensor([[1.0, 2.0], [3.0, 4.0]])


def test_plain_tensors() -> None:
    x, y = weft.ones(2, requires_grad=True), weft.ones(2, requires_grad=True)
    assert gradients([x * 2, x.detach()], [x, y], [X[0], X[1]], False)[0].tolist() == [2, 4]
    assert gradients([x * 2], [x, y], [X[0]], False)[1] is None
    assert gradients([x * 2], [x], [None], False) == [None]
    assert added(None, None) is None and added(None, x) is x and added(x, y).tolist() == [2, 2]
    assert not cut(x * 2).requires_grad


def test_users_calls_inside_transforms() -> None:
    batch = X.clone().requires_grad_()
    found = vmap(lambda a: weft.autograd.grad((a**2).sum(), a)[0])(batch)
    assert found.tolist() == (2 * X).tolist()
    shared = weft.ones(2, requires_grad=True)
    with pytest.raises(RuntimeError, match="with respect to a tensor that is not batched"):
        vmap(lambda a: weft.autograd.grad((a * shared).sum(), shared)[0])(X)
    with pytest.raises(RuntimeError, match="grad can be implicitly created only for scalar outputs"):
        vmap(lambda a: weft.autograd.grad(a**2, a)[0])(batch)
    with pytest.raises(RuntimeError, match="appears to not have been used in the graph"):
        vmap(lambda a, b: weft.autograd.grad((a**2).sum(), b)[0])(batch, batch * 1)


def test_gradients_of_duals_are_duals() -> None:
    leaf = X[0].clone().requires_grad_()

    def function(x: Any) -> Any:
        return weft.autograd.grad((x**3).sum(), x, create_graph=True)[0]

    value, move = jvp(function, (leaf,), (X[1],))
    assert value.tolist() == [3, 12] and move.tolist() == [18, 48]
