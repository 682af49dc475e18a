"""Wrappers: which of them takes a call, what their slots tell, and entries."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest

import weft
from weft.autograd.batched import Map, batched
from weft.autograd.dual import Directions, dual
from weft.func import grad, vmap
from weft.overrides import TorchFunctionMode
from weft.tensor.wrapper import LevelEntry, entry, highest, levels, mapping

X = weft.ones(2, 3)


def test_the_innermost_transform_takes_the_call() -> None:
    outer, inner = Map(2, "error"), Directions()
    a, b = batched(X, 0, outer), dual(X[0], X[0], inner)
    assert highest([1, (a, [b])]) is b and highest([X, 3]) is None
    product: Any = a * b
    assert product.level is inner and product.primal.level is outer and tuple(product.shape) == (3,)


def test_slots_are_those_of_what_is_held() -> None:
    tracked = X.clone().requires_grad_() * 2
    wrapped: Any = batched(tracked, 0, Map(2, "error"))
    assert wrapped.tracked and wrapped.node is tracked.node and tuple(wrapped.array.shape) == (3,)
    assert wrapped.grad_fn is tracked.grad_fn and wrapped.requires_grad and not wrapped.is_leaf
    with pytest.raises(AttributeError, match="has no setter"):  # no other memory
        wrapped.array = X
    for copied in (copy.deepcopy, pickle.dumps):
        with pytest.raises(RuntimeError, match="a tensor inside a transform cannot be"):
            copied(wrapped)


def test_levels_end_with_their_transform() -> None:
    depths: list[int] = []

    def look(a: Any) -> Any:
        depths.append(len(levels.get()))
        assert len(mapping()) == 2
        return a.sum()

    vmap(vmap(look))(weft.ones(2, 2, 3))
    assert depths == [2] and levels.get() == ()
    with pytest.raises(ZeroDivisionError):
        vmap(lambda a: 1 / 0)(X)
    assert levels.get() == ()


def test_views_of_itself() -> None:
    assert vmap(lambda a: a.clone().unsqueeze_(0))(X).shape == (2, 1, 3)
    value, move = weft.func.jvp(lambda x: x.clone().t_().mul_(2), (X,), (X,))
    assert value.shape == (3, 2) and move.tolist() == (2 * X.T).tolist()


def test_entries() -> None:
    leaf = weft.ones(2, requires_grad=True)
    assert (
        entry(X, True).is_leaf and type(entry(leaf, True).node) is LevelEntry and entry(leaf, False).is_leaf
    )
    assert weft.autograd.grad((entry(leaf, True) * 3).sum(), leaf)[0].tolist() == [3, 3]
    assert entry(X, True).array is X.array


def test_function_modes_see_calls_first() -> None:
    seen: list[Any] = []

    class Mode(TorchFunctionMode):
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            seen.append(getattr(func, "__name__", None))
            return func(*args, **(kwargs or {}))

    with Mode():
        found = vmap(grad(lambda a: (a.sin() * 2).sum()))(X)
    assert weft.allclose(found, 2 * X.cos()) and "sin" in seen
