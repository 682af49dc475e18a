"""Old gradients in native entries: they go before there are new ones, and nobody sees them go."""

from __future__ import annotations

import tracemalloc
import weakref
from typing import Any

import pytest

import weft
import weft.nn.functional as F
from tests.native.harness import calls_by_python
from weft.compiler import settings as options

WIDTH = 400
"""So that gradients are more than a little."""


@pytest.fixture
def by_python(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many calls of programs Python did."""
    monkeypatch.setenv("WEFT_CACHE", "0")
    monkeypatch.setattr(options, "strict", True)
    weft.compiler.reset()
    return calls_by_python(monkeypatch)


class Training:
    def __init__(self) -> None:
        weft.manual_seed(0)
        self.net = weft.nn.Sequential(weft.nn.Linear(WIDTH, WIDTH), weft.nn.Tanh(), weft.nn.Linear(WIDTH, 4))
        self.optimizer = weft.optim.SGD(self.net.parameters(), lr=0.1)

    def step(self, x: Any, y: Any) -> Any:
        self.optimizer.zero_grad()
        loss = F.cross_entropy(self.net(x), y)
        loss.backward()
        self.optimizer.step()
        return loss

    def gradients(self) -> list[Any]:
        return [each.grad.clone() for each in self.net.parameters()]


def batch(number: int, size: int = 8) -> tuple[Any, Any]:
    return weft.randn(size, WIDTH, generator=weft.Generator().manual_seed(number)), weft.arange(size) % 4


def test_steps_are_native_and_equal_eagers(by_python: list[int]) -> None:
    ours, theirs = Training(), Training()
    step = weft.compile(ours.step, fullgraph=True)
    for number in range(8):
        if number == 4:
            before = by_python[0]
        found, wanted = step(*batch(number)), theirs.step(*batch(number))
        weft.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-5)
        for one, other in zip(ours.gradients(), theirs.gradients()):
            weft.testing.assert_close(one, other, rtol=1e-3, atol=1e-5)
    assert by_python[0] == before


def test_gradients_that_others_hold_stay_as_they_are(by_python: list[int]) -> None:
    training = Training()
    step = weft.compile(training.step, fullgraph=True)
    for number in range(5):
        step(*batch(number))
    weight, other = training.net[0].weight, training.net[2].weight
    held, array = weight.grad, other.grad.numpy()
    values, elements = held.clone(), array.copy()
    view = training.net[0].bias.grad[:3]
    shown = view.clone()
    step(*batch(9))
    assert weight.grad is not held
    assert weft.equal(held, values) and (array == elements).all() and weft.equal(view, shown)


def test_watched_gradients_are_whole_until_they_are_gone(by_python: list[int]) -> None:
    training = Training()
    step = weft.compile(training.step, fullgraph=True)
    for number in range(5):
        step(*batch(number))
    seen: list[Any] = []
    weight = training.net[0].weight
    reference = weakref.ref(weight.grad, lambda _: seen.append(weight.grad))
    step(*batch(9))
    assert reference() is None
    assert seen == [None]  # as in eager code, which lets go of them first


def test_there_are_no_two_sets_of_gradients(by_python: list[int]) -> None:
    training = Training()
    step = weft.compile(training.step, fullgraph=True)
    for number in range(5):
        step(*batch(number))
    given = batch(9)
    size = sum(each.grad.nbytes for each in training.net.parameters())
    tracemalloc.start()
    try:
        step(*given)
        tracemalloc.reset_peak()
        now, _ = tracemalloc.get_traced_memory()
        step(*given)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak - now < size // 2


def test_steps_that_fail_have_let_go(by_python: list[int]) -> None:
    """As in eager code: zero_grad() comes before the error."""
    ours, theirs = Training(), Training()
    step = weft.compile(ours.step, fullgraph=True)
    for number in range(5):
        step(*batch(number))
        theirs.step(*batch(number))
    x, y = batch(7)
    for call in (step, theirs.step):
        with pytest.raises(IndexError, match="out of bounds"):
            call(x, y + 100)
    for training in (ours, theirs):
        assert [each.grad for each in training.net.parameters()] == [None] * 4
    weft.testing.assert_close(step(x, y), theirs.step(x, y), rtol=1e-4, atol=1e-5)


def test_gradients_that_are_none_already(by_python: list[int]) -> None:
    ours, theirs = Training(), Training()
    step = weft.compile(ours.step, fullgraph=True)
    for number in range(8):
        if number in (5, 6):
            for training in (ours, theirs):
                training.net[2].weight.grad = None
        weft.testing.assert_close(step(*batch(number)), theirs.step(*batch(number)), rtol=1e-4, atol=1e-5)
