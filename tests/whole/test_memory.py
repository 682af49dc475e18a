"""Memory: training does not grow, and tensors go when their last reference goes, without the garbage
collector.
"""

from __future__ import annotations

import gc
import tracemalloc
import weakref
from collections.abc import Iterator

import pytest

import weft
import weft.nn.functional as F


@pytest.fixture
def no_collector() -> Iterator[None]:
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def train(steps: int, x: weft.Tensor, y: weft.Tensor, parameters: list[weft.Tensor]) -> None:
    for _ in range(steps):
        hidden = F.relu(F.linear(x, parameters[0], parameters[1]))
        loss = F.cross_entropy(F.linear(hidden, parameters[2]), y)
        hidden[0].sum()
        loss.backward()
        with weft.no_grad():
            for p in parameters:
                p -= 0.01 * p.grad
                p.grad = None


def test_ten_thousand_steps_do_not_grow(no_collector: None) -> None:
    x, y = weft.randn(4, 6), weft.tensor([0, 1, 2, 1])
    shapes = [(5, 6), (5,), (3, 5)]
    parameters = [weft.randn(*shape).requires_grad_() for shape in shapes]
    train(
        3_000, x, y, parameters
    )  # CPython keeps up to 2,000 dead tuples of each length: let it fill those lists
    objects = len(gc.get_objects())
    tracemalloc.start()
    train(500, x, y, parameters)
    before, _ = tracemalloc.get_traced_memory()
    train(500, x, y, parameters)
    after, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    train(6_000, x, y, parameters)
    assert after - before < 4_000
    assert len(gc.get_objects()) - objects < 50


def test_everything_is_freed_with_its_last_reference(no_collector: None) -> None:
    x = weft.randn(3, requires_grad=True)
    y = (x * 2).exp()
    view = y[1:]
    loss = (view * view).sum()
    nodes = [weakref.ref(t.grad_fn) for t in (y, view, loss)]
    tensors = [weakref.ref(t) for t in (x, y, view, loss)]
    loss.backward(retain_graph=True)
    (grad,) = weft.autograd.grad(loss, x, create_graph=True)
    nodes.append(weakref.ref(grad.grad_fn))
    del x, y, view, loss, grad
    assert [r() for r in tensors] == [None] * 4
    assert [r() for r in nodes] == [None] * 4


def test_inplace_history_is_freed(no_collector: None) -> None:
    x = weft.randn(4, requires_grad=True)
    y = x * 1
    view = y[:2]
    view.mul_(3)
    y.add_(1)
    total = view.sum() + y.sum()
    refs = [weakref.ref(o) for o in (x, y, view, total, y.grad_fn, view.grad_fn)]
    total.backward()
    del x, y, view, total
    assert [r() for r in refs] == [None] * 6


def test_backward_frees_what_was_saved(no_collector: None) -> None:
    x = weft.randn(5, requires_grad=True)
    y = x.exp()
    loss = (y * y).sum()
    saved = weakref.ref(y)
    del y
    loss.backward()
    assert saved() is None
    with pytest.raises(RuntimeError, match="second time"):
        loss.backward()


@pytest.mark.parametrize("length", [100_000])
def test_long_chains_build_run_and_free(no_collector: None, length: int) -> None:
    x = weft.ones(1, requires_grad=True)
    y = x
    for _ in range(length):
        y = y + 1.0
    y.sum().backward()
    assert x.grad.item() == 1.0
    del y


def test_long_chain_of_views_and_products(no_collector: None) -> None:
    x = weft.ones(2, requires_grad=True)
    y = x
    for _ in range(20_000):
        y = (y * 1.0).view(2)
    y.sum().backward()
    assert x.grad.tolist() == [1.0, 1.0]
    del y
