"""Compiled parts and loops: the same as eager code, also for counts that leave a rest."""

# ruff: noqa: UP006, UP035
from typing import List

import pytest

import weft
from weft import Tensor


def recurrence(x, w, u):
    h = weft.zeros(x.size(1), 3)
    outs: List[Tensor] = []
    for t in range(x.size(0)):
        a, b = (x[t] @ w + h @ u).chunk(2, 1)
        h = weft.tanh(a) * weft.sigmoid(b) + h
        outs.append(h)
    return weft.stack(outs), h


def straight(x, w, u):
    y = (x[0] @ w).sin() * 2.0
    return y.sum(dim=0) + u[0], y


def by_data(x, w, u):
    y = x[0, 0].abs() + 1.0
    while (y * y - 2.0).abs().max() > 1e-3:
        y = y - (y * y - 2.0) / (2.0 * y)
    return y, w


@pytest.mark.parametrize("function, length", [(recurrence, 70), (recurrence, 1), (straight, 2), (by_data, 2)])
def test_compiled_parts_equal_eager(function, length):
    weft.manual_seed(0)
    scripted = weft.jit.script(function)
    scripted.executor.compile()
    tensors = [
        weft.randn(length, 2, 4),
        weft.randn(4, 6, requires_grad=True),
        weft.randn(3, 6, requires_grad=True),
    ]
    for _ in range(2):
        found, expected = scripted(*tensors), function(*tensors)
        for one, two in zip(found, expected, strict=True):
            assert one.requires_grad == two.requires_grad
            weft.testing.assert_close(one.detach(), two.detach(), rtol=1e-4, atol=1e-5)
        if expected[0].requires_grad:
            wanted = tensors[1:]
            one = weft.autograd.grad(found[0].sum(), wanted, allow_unused=True)
            two = weft.autograd.grad(expected[0].sum(), wanted, allow_unused=True)
            for a, b in zip(one, two, strict=True):
                assert (a is None) == (b is None)
                if a is not None:
                    weft.testing.assert_close(a, b, rtol=1e-3, atol=1e-4)
        with weft.no_grad():
            assert not scripted(*tensors)[0].requires_grad


def test_turns_leave_no_rest_where_they_can():
    scripted = weft.jit.script(recurrence)
    scripted.executor.compile()
    from weft.jit.hot import LoopFacts, Turns
    from weft.jit.passes import inline

    loop = inline(scripted.graph).findNode("prim::Loop")
    facts = LoopFacts(loop)
    assert facts.usable() and facts.windows == 1 and facts.lists == 1
    facts.inputs()
    turns = Turns(facts)
    assert turns.turns(5) == 5
    assert turns.many > 10 and 500 % turns.turns(500) == 0
