"""Runs of the engine: nesting, callbacks, accumulation."""

from __future__ import annotations

import numpy as np
import pytest

import weft
from weft.autograd import tasks


def test_backward_inside_a_hook():
    x = weft.tensor([1.0, 2.0], requires_grad=True)
    inner = weft.tensor([3.0], requires_grad=True)

    def hook(gradient):
        assert not weft.is_grad_enabled()
        with weft.enable_grad():
            (inner * 2).sum().backward()
        return gradient * 10

    x.register_hook(hook)
    (x * 2).sum().backward()
    assert x.grad.array.tolist() == [20, 20]
    assert inner.grad.array.tolist() == [2]


def test_backward_of_the_same_graph_inside_a_hook():
    x = weft.tensor([1.0], requires_grad=True)
    y = x * 2
    calls = []

    def hook(gradient):
        calls.append(gradient.item())
        if len(calls) < 3:
            with weft.enable_grad():
                (x * 2).sum().backward()

    x.register_hook(hook)
    y.sum().backward()
    assert calls == [2, 2, 2]
    assert x.grad.item() == 6


def test_nested_thousands_of_levels_deep():
    reached = []

    def descend(level):
        x = weft.tensor([1.0], requires_grad=True)

        def hook(_gradient):
            reached.append(level)
            if level < 2000:
                with weft.enable_grad():
                    descend(level + 1)

        x.register_hook(hook)
        (x * 1).sum().backward()

    descend(1)
    assert reached == list(range(1, 2001))


def test_an_error_far_down_comes_up():
    def descend(level):
        x = weft.tensor([1.0], requires_grad=True)

        def hook(_gradient):
            if level == 2 * tasks.LEVELS + 3:
                raise KeyError("deep")
            with weft.enable_grad():
                descend(level + 1)

        x.register_hook(hook)
        (x * 1).sum().backward()

    with pytest.raises(KeyError, match="deep"):
        descend(1)
    assert weft.is_grad_enabled()
    assert tasks.local.task is None


def test_grad_mode_is_restored_after_an_error():
    x = weft.tensor([1.0], requires_grad=True)

    def hook(_gradient):
        raise ValueError("no")

    x.register_hook(hook)
    with pytest.raises(ValueError, match="no"):
        (x * 1).sum().backward()
    assert weft.is_grad_enabled()
    with weft.no_grad():
        assert not weft.is_grad_enabled()


def test_callbacks_run_at_the_end():
    x = weft.tensor([1.0], requires_grad=True)
    log = []

    def hook(_gradient):
        tasks.queue_callback(lambda: log.append(x.grad.item()))

    (y := x * 3).register_hook(hook)
    y.sum().backward()
    assert log == [3]
    with pytest.raises(RuntimeError, match="Final callbacks can only be installed during backward pass"):
        tasks.queue_callback(print)


def test_accumulation_casts_to_the_dtype_that_is_there():
    x = weft.tensor([1.0], requires_grad=True)
    tasks.accumulate(x, np.array([0.5]), False)
    assert x.grad.dtype is weft.float64
    tasks.accumulate(x, np.array([1.0], np.float32), False)
    assert x.grad.dtype is weft.float64
    assert x.grad.item() == 1.5


def test_leading_to_finds_the_nodes_between():
    x = weft.tensor([1.0], requires_grad=True)
    y = weft.tensor([1.0], requires_grad=True)
    a, b = x * 2, y * 2
    c = a + b
    assert tasks.leading_to([c.node], {x}) == {c.node, a.node}
    assert tasks.leading_to([c.node], {a.node}) == {c.node}
    assert set(tasks.reachable([c.node])) == {a.node, b.node, c.node, x, y}


def test_gradients_are_not_added_to_memory_that_several_elements_share():
    x = weft.zeros(2, requires_grad=True)
    x.grad = weft.ones(1).expand(2)
    with pytest.raises(RuntimeError, match="more than one element of the written-to tensor"):
        (x * weft.tensor([2.0, 5.0])).sum().backward()
    assert x.grad.tolist() == [1.0, 1.0] and x.grad._version == 0
