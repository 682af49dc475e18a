"""Variables: the old name of tensors, and the engine that goes by it."""

from __future__ import annotations

import pytest

import weft
from weft.autograd.variable import Variable


def test_a_variable_is_a_tensor() -> None:
    made = Variable(weft.ones(2), requires_grad=True)
    assert isinstance(made, weft.Tensor) and made.requires_grad
    assert isinstance(weft.ones(1), Variable)


def test_the_engine_calls_back_when_it_is_done() -> None:
    seen = []
    x, y = weft.ones(2, requires_grad=True), weft.ones(2, requires_grad=True)

    def later() -> None:
        seen.append(x.grad is not None and y.grad is not None)
        if len(seen) == 1:
            Variable._execution_engine.queue_callback(later)

    x.register_hook(lambda grad: Variable._execution_engine.queue_callback(later))
    (x * y).sum().backward()
    assert seen == [True, True]
    with pytest.raises(RuntimeError, match="Final callbacks can only be installed during backward pass"):
        Variable._execution_engine.queue_callback(later)
