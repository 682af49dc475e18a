"""Programs that log, count, accumulate and hook: after their first few calls nothing is built any more, and
what they leave behind is what eager code leaves."""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

import weft
from weft import nn
from weft.core.counters import built
from weft.nn import functional as F
from weft.testing import assert_close
from weft.utils._pytree import tree_leaves

Made = tuple[Callable[..., Any], Callable[[], Any]]
"""A step, and what is to be seen of what it has left behind."""


@pytest.fixture(autouse=True)
def _apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(weft.compiler.settings, "strict", True)
    weft.compiler.reset()


def steady(make: Callable[[], Made], calls: list[tuple[Any, ...]], first: int, captures: int) -> None:
    """That a compiled step does what the step does, in at most so many captures, all in the first calls."""
    weft.manual_seed(0)
    step, left = make()
    weft.manual_seed(0)
    other, found = make()
    compiled, before = weft.compile(other), built()
    made = []
    for given in calls:
        assert_close(compiled(*given), step(*given), rtol=1e-4, atol=1e-5)
        made.append({kind: number - before[kind] for kind, number in built().items()})
    ours, theirs = tree_leaves(found()), tree_leaves(left())
    assert len(ours) == len(theirs)
    for one, another in zip(ours, theirs, strict=True):
        assert_close(one, another, rtol=1e-4, atol=1e-5)
    kinds = ("captures", "plans", "programs")
    assert [made[first - 1][kind] for kind in kinds] == [made[-1][kind] for kind in kinds], made
    assert made[-1]["captures"] <= captures


# -- what is logged ------------------------------------------------------------------------------------------
class Meter:
    """Counts and sums up what it is told."""

    def __init__(self) -> None:
        self.values: list[Any] = []
        self.count, self.total = 0, 0.0

    def update(self, value: Any) -> None:
        self.values.append(value)
        self.count += 1
        self.total = self.total + value


def logging(log: Any, note: Callable[[Any, Any], Any], see: Callable[[Any], Any] = lambda log: log) -> Made:
    def step(x: Any) -> Any:
        loss = (x * 2).sum()
        note(log, loss)
        return loss

    return step, lambda: see(log)


def numbered(log: Any, loss: Any) -> None:
    log[len(log)] = loss


def counted(log: Any, _loss: Any) -> None:
    log["steps"] += 1


LOGS: dict[str, tuple[Callable[[], Made], int]] = {
    "a list": (lambda: logging([], lambda log, loss: log.append(loss)), 1),
    "a list in a dict": (lambda: logging({"loss": []}, lambda log, loss: log["loss"].append(loss)), 1),
    "setdefault": (lambda: logging({}, lambda log, loss: log.setdefault("loss", []).append(loss)), 1),
    "defaultdict": (lambda: logging(defaultdict(list), lambda log, loss: log["loss"].append(loss)), 1),
    "a list in a list": (lambda: logging([[], []], lambda log, loss: log[1].append(loss)), 1),
    "an attribute": (
        lambda: logging(SimpleNamespace(h=[]), lambda log, loss: log.h.append(loss), lambda log: log.h),
        1,
    ),
    "a dict of an object": (
        lambda: logging(
            SimpleNamespace(d={"loss": []}), lambda log, loss: log.d["loss"].append(loss), lambda log: log.d
        ),
        1,
    ),
    "the latest": (lambda: logging(deque(maxlen=5), lambda log, loss: log.append(loss), list), 1),
    "a deque": (lambda: logging(deque(), lambda log, loss: log.append(loss), list), 1),
    # whose number, or length, is a constant of the first capture, and an input of the second
    "a meter": (
        lambda: logging(Meter(), Meter.update, lambda log: [log.values, weft.tensor(log.count), log.total]),
        2,
    ),
    "a dict by number": (lambda: logging({}, numbered), 2),
    "a counter": (lambda: logging(Counter(steps=3), counted), 1),
}
"""With how many captures they may take."""


@pytest.mark.parametrize("name", LOGS)
def test_logging_builds_nothing_more(name: str) -> None:
    make, captures = LOGS[name]
    steady(make, [(weft.ones(3) * k,) for k in range(20)], 4, captures)


# -- hooks ---------------------------------------------------------------------------------------------------
def hooking(register: Callable[[Any, Any, dict[str, list[Any]]], None]) -> Made:
    weight, layer, log = nn.Parameter(weft.ones(3)), nn.Linear(3, 1), {"a": [], "b": []}
    register(weight, layer, log)

    def step(x: Any) -> Any:
        weight.grad = None
        layer.zero_grad()
        loss = layer(x * weight).square().sum()
        loss.backward()
        return loss.detach()

    return step, lambda: (log, weight.grad, layer.weight.grad)


def both(weight: Any, layer: Any, log: dict[str, list[Any]]) -> None:
    weight.register_hook(lambda g: log["a"].append(g.norm()))
    layer.weight.register_hook(lambda g: log["b"].append(g.norm()))


HOOKS: dict[str, Callable[[Any, Any, dict[str, list[Any]]], None]] = {
    "tensors": lambda w, _layer, log: w.register_hook(lambda g: log["a"].append(g.norm())),
    "numbers": lambda w, _layer, log: w.register_hook(lambda g: log["a"].append(float(g.norm()))),
    "items": lambda w, _layer, log: w.register_hook(lambda g: log["a"].append(g.norm().item())),
    "gradients of a module": lambda _w, layer, log: layer.register_full_backward_hook(
        lambda _module, _given, made: log["a"].append(made[0].norm())
    ),
    "calls": lambda _w, layer, log: layer.register_forward_hook(
        lambda _module, _given, made: log["a"].append(made.detach().sum())
    ),
    "two": both,
}


@pytest.mark.parametrize("name", HOOKS)
def test_hooks_build_nothing_more(name: str) -> None:
    steady(lambda: hooking(HOOKS[name]), [(weft.ones(2, 3) * k,) for k in range(16)], 3, 1)


# -- training ------------------------------------------------------------------------------------------------
def accumulating() -> Made:
    """Gradients of two calls for each step of the optimizer, with an average of parameters."""
    net, average = nn.Linear(10, 1), nn.Linear(10, 1)
    optimizer = weft.optim.SGD(net.parameters(), 0.1)
    turn = SimpleNamespace(count=0)

    def step(x: Any, y: Any) -> Any:
        loss = F.mse_loss(net(x), y) / 2
        loss.backward()
        turn.count += 1
        if turn.count % 2 == 0:
            optimizer.step()
            optimizer.zero_grad()
            with weft.no_grad():
                for old, new in zip(average.parameters(), net.parameters(), strict=True):
                    old.lerp_(new, 0.1)
        return loss.detach()

    return step, lambda: [*net.parameters(), *average.parameters()]


def test_accumulation_builds_nothing_more() -> None:
    """One capture for each of the two kinds of calls."""
    steady(accumulating, [(weft.ones(4, 10), weft.ones(4, 1))] * 24, 6, 2)


def learning() -> Made:
    """A policy's steps, over as many turns as an episode took."""
    net = nn.Linear(4, 2)
    optimizer = weft.optim.Adam(net.parameters(), 1e-2)

    def step(states: Any, actions: Any) -> Any:
        loss = F.cross_entropy(net(states), actions)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step, lambda: [*net.parameters()]


def test_episodes_of_any_length_build_nothing_more() -> None:
    calls = [(weft.linspace(-1, 1, 4 * n).view(n, 4), weft.arange(n) % 2) for n in range(10, 40)]
    steady(learning, calls, 4, 2)


def recurrent() -> Made:
    words, cells, last = nn.Embedding(20, 8), nn.LSTM(8, 12, batch_first=True), nn.Linear(12, 20)
    parameters = [*words.parameters(), *cells.parameters(), *last.parameters()]
    optimizer = weft.optim.SGD(parameters, 0.1)

    def step(text: Any) -> Any:
        optimizer.zero_grad()
        found, _ = cells(words(text))
        loss = F.cross_entropy(last(found).flatten(0, 1), text.flatten())
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step, lambda: parameters


def test_batches_of_a_recurrent_net_build_nothing_more() -> None:
    sizes = (6, 6, 5, 3, 7, 4, 9, 2, 8, 6)
    steady(recurrent, [(weft.arange(n * 4).view(n, 4) % 20,) for n in sizes], 4, 2)
