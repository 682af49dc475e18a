"""Pairs of tensors: both halves are computed with, gradients come in pairs."""

from __future__ import annotations

import weft
from weft.compat.torch_internals.two_tensor import TwoTensor, TwoTensorMode
from weft.utils._python_dispatch import is_traceable_wrapper_subclass, transform_subclass


def test_both_halves_are_computed_with():
    x = TwoTensor(weft.ones(2), weft.zeros(2)).requires_grad_()
    y = (x * 3).exp().sum()
    y.backward()
    assert type(x.grad) is TwoTensor and x.grad.b.tolist() == [3, 3]
    weft.testing.assert_close(x.grad.a, 3 * weft.full((2,), 3.0).exp())


def test_writes_and_splits():
    x = TwoTensor(weft.ones(4), weft.zeros(4))
    x.add_(1)
    first, second = x.split(2)
    assert (x.a.tolist(), x.b.tolist()) == ([2] * 4, [1] * 4) and second.b.tolist() == [1, 1]
    assert first.a.tolist() == [2, 2]


def test_it_tells_what_it_holds():
    x = TwoTensor(weft.ones(2), weft.zeros(2))
    assert is_traceable_wrapper_subclass(x)
    made = transform_subclass(x, lambda name, inner: inner + 1)
    assert (made.a.tolist(), made.b.tolist()) == ([2, 2], [1, 1])


def test_factories_make_pairs_under_the_mode():
    with TwoTensorMode():
        x = weft.ones(2)
    assert type(x) is TwoTensor and x.b.tolist() == [1, 1]
