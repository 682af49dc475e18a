"""Chains: an entry that serves many sizes runs natively for those that come again.

Each scenario calls a compiled function with sizes in some order and compares every result with the function
itself. One idea: a shortcut is for the sizes that it was made from, whatever the entry behind it allows.
"""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import weft
from weft import nn
from weft.capture.chaining import LONGEST, Chain
from weft.capture.fronts import FRONT
from weft.capture.shortcut import NATIVE, SLOW
from weft.capture.sources import local
from weft.core.slices import PresentCall, at_once
from weft.native.entry.factory import Machine


def links(compiled: Any) -> list[Any]:
    """The shortcuts of the entry that was used last."""
    context = compiled.__dict__[FRONT]
    (cache,) = [cache for cache in context.caches.values() if cache.entries]
    found, here = [], cache.entries[0].run
    while NATIVE in getattr(here, "__globals__", ()):
        found.append(here)
        here = here.__globals__[SLOW]
    return found


def is_native(compiled: Any, *args: Any) -> bool:
    """Whether one of the shortcuts serves this call."""
    chain = links(compiled)
    before = chain[-1].__globals__[SLOW]
    missed = []

    def behind(*given: Any) -> Any:
        missed.append(True)
        return before(*given)

    chain[-1].__globals__[SLOW] = behind
    try:
        compiled(*args)
    finally:
        chain[-1].__globals__[SLOW] = before
    return not missed


def pointwise(x: Any) -> Any:
    return (x * 2 + 1).sum(0)


def branching(x: Any) -> Any:
    return x.sum(0) if x.shape[0] > 5 else x.amax(0)


def counted(x: Any) -> Any:
    total = x[0]
    for row in range(1, x.shape[0]):
        total = total + x[row] * row
    return total


def scaled(x: Any) -> Any:
    return x.sum(0) / x.shape[0] + x.numel()


def reshaped(x: Any) -> Any:
    return x.reshape(-1).cumsum(0), x.shape[0]


@pytest.mark.filterwarnings("ignore:weft.compile built programs")
@pytest.mark.parametrize("function", [pointwise, branching, counted, scaled, reshaped])
def test_sizes_come_again(function: Callable[..., Any]) -> None:
    compiled = weft.compile(function, backend="native", dynamic=True)
    for size in (4, 4, 7, 4, 7, 7, 4, 3, 2, 3, 9, 7, 4, 3, 2, 2):
        x = weft.randn(size, 3)
        got, expected = compiled(x), function(x)
        for one, other in zip(leaves(got), leaves(expected), strict=True):
            np.testing.assert_array_equal(one, other)


def leaves(value: Any) -> list[Any]:
    if isinstance(value, tuple):
        return [leaf for each in value for leaf in leaves(each)]
    return [value.numpy() if isinstance(value, weft.Tensor) else value]


def test_each_size_is_native() -> None:
    compiled = weft.compile(lambda x: pointwise(x), backend="native", dynamic=True)
    for size in (4, 7, 6) * 4:
        compiled(weft.randn(size, 3))
    assert all(is_native(compiled, weft.randn(size, 3)) for size in (4, 7, 6, 5, 50))
    assert not is_native(compiled, weft.randn(1, 3))


def test_equal_strides_are_not_equal_sizes() -> None:
    compiled = weft.compile(lambda x: counted(x), backend="native", dynamic=True)
    x = weft.randn(6, 3)
    for _ in range(4):
        compiled(x)
    assert links(compiled)
    np.testing.assert_array_equal(compiled(x[:4]).numpy(), counted(x[:4]).numpy())


def test_strides_get_a_shortcut_too() -> None:
    compiled = weft.compile(lambda x: pointwise(x), backend="native")
    rows, columns = weft.randn(4, 4), weft.randn(4, 4).t()
    for _ in range(4):
        for x in (rows, columns):
            np.testing.assert_array_equal(compiled(x).numpy(), pointwise(x).numpy())
    assert is_native(compiled, rows) and is_native(compiled, columns)


def test_the_last_batch_is_smaller() -> None:
    net, twin = (nn.Sequential(nn.Linear(5, 8), nn.Tanh(), nn.Linear(8, 3)) for _ in range(2))
    twin.load_state_dict(net.state_dict())

    def steps(model: Any) -> Callable[..., Any]:
        optimizer = weft.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)

        def step(x: Any, y: Any) -> Any:
            loss = nn.functional.cross_entropy(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            return loss

        return step

    eager, compiled = steps(twin), weft.compile(steps(net), backend="native")
    for size in (16, 16, 16, 6) * 3:
        x, y = weft.randn(size, 5), weft.randint(0, 3, (size,))
        np.testing.assert_allclose(compiled(x, y).detach().numpy(), eager(x, y).detach().numpy(), rtol=1e-5)
    for one, other in zip(net.parameters(), twin.parameters(), strict=True):
        np.testing.assert_allclose(one.detach().numpy(), other.detach().numpy(), rtol=1e-4, atol=1e-6)
    for size in (16, 6):
        assert is_native(compiled, weft.randn(size, 5), weft.randint(0, 3, (size,)))


def test_gradients_of_several_sizes() -> None:
    compiled = weft.compile(lambda x: (x * x.sin()).sum(), backend="native", dynamic=True)
    for size in (3, 5) * 4:
        x = weft.linspace(0.2, 1.5, size).requires_grad_()  # where nothing cancels
        twin = x.detach().clone().requires_grad_()
        compiled(x).backward()
        (twin * twin.sin()).sum().backward()
        np.testing.assert_allclose(x.grad.numpy(), twin.grad.numpy(), rtol=1e-6)
    assert is_native(compiled, x)


def test_a_whole_number_that_varies() -> None:
    compiled = weft.compile(lambda x, n: x * n, backend="native", dynamic=True)
    x = weft.ones(3)
    for n in (2, 3, 2, 3, 2, 4, 3, 4, 4):
        assert compiled(x, n).tolist() == [n] * 3
    assert is_native(compiled, x, 4) and is_native(compiled, x, 5)


def test_a_chain_does_not_grow() -> None:
    made: list[int] = []

    def make(behind: Any, call: PresentCall) -> Any:
        n = call.arguments["n"]
        made.append(n)
        yield
        space: dict[str, Any] = {SLOW: behind}
        exec(f"def link(function, n):\n    return n if n == {n} else {SLOW}(function, n)", space)
        return space["link"], True

    first = at_once(make(None, PresentCall(None, {"n": 0})))[0]
    chain = Chain(make, [local("n")], ("n",), lambda _function, _n: -1, first)
    for _turn in range(40):
        for n in range(30):
            first(None, n)
    assert len(chain.links()[0]) == LONGEST and len(made) < 60
    assert first(None, 0) == 0 and first(None, made[-1]) == made[-1]


def test_a_chain_goes_with_its_entry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Machine, "opened", lambda _self, _direct: None)  # one size at a time
    compiled = weft.compile(lambda x: x * 3, backend="native", dynamic=True)
    for size in (2, 3) * 4:
        compiled(weft.ones(size, size).t())
    gone = [weakref.ref(link) for link in links(compiled)]
    assert len(gone) == 2
    gc.disable()
    try:
        compiled.__dict__[FRONT].reset()
        assert [link() for link in gone] == [None, None]
    finally:
        gc.enable()
