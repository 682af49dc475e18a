"""An optimizer's step is one graph, and gives the parameters that eager gives, to the last bit."""

from __future__ import annotations

import copy
from typing import Any

import pytest

import weft
import weft.compiler
from weft.core.settings import settings
from weft.testing import CompileCounter

OPTIMIZERS: list[tuple[str, dict[str, Any], int]] = [
    ("SGD", {"lr": 0.05}, 1),
    ("SGD", {"lr": 0.05, "momentum": 0.9, "nesterov": True, "weight_decay": 0.01}, 1),
    ("Adam", {"lr": 0.05}, 1),
    ("Adam", {"lr": 0.05, "amsgrad": True, "weight_decay": 0.01}, 1),
    ("AdamW", {"lr": 0.05}, 1),
    ("RMSprop", {"lr": 0.01, "momentum": 0.5, "centered": True}, 1),
]


@pytest.mark.parametrize(("name", "options", "frames"), OPTIMIZERS)
def test_steps_are_captured_whole(
    name: str, options: dict[str, Any], frames: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two frames at most: one that makes the state, one that has it."""
    monkeypatch.setattr(settings, "strict", True)
    weft.manual_seed(0)
    models = [weft.nn.Linear(4, 3)]
    models.append(copy.deepcopy(models[0]))
    plain, compiled = (getattr(weft.optim, name)(model.parameters(), **options) for model in models)
    counter = CompileCounter()
    weft.compiler.counters.clear()
    step = weft.compile(compiled.step, backend=counter)
    x = weft.randn(5, 4)
    for _ in range(5):
        for model in models:
            model.zero_grad()
            model(x).square().sum().backward()
        plain.step()
        step()
    for ours, theirs in zip(models[1].parameters(), models[0].parameters()):
        assert weft.equal(ours, theirs)
    assert counter.frame_count == frames
    assert not weft.compiler.counters["graph_break"]


def test_a_changed_learning_rate_is_no_recompile(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settings, "strict", True)
    weight = weft.nn.Parameter(weft.ones(3))
    optimizer = weft.optim.SGD([weight], lr=0.1)
    counter = CompileCounter()
    step = weft.compile(optimizer.step, backend=counter)
    expected = weft.ones(3)
    for rate in (0.1, 0.05, 0.025, 0.0125):
        optimizer.param_groups[0]["lr"] = rate
        weight.grad = weft.ones(3)
        step()
        expected = expected - weft.ones(3) * rate
    assert weft.allclose(weight.detach(), expected)
    assert counter.frame_count == 1


@pytest.mark.parametrize("name", ["SGD", "Adam"])
def test_state_made_for_a_capture_that_fails_is_taken_away_again(name: str) -> None:
    weight = weft.nn.Parameter(weft.ones(3))
    weight.grad = weft.ones(3)
    options = {"momentum": 0.9} if name == "SGD" else {}
    optimizer = getattr(weft.optim, name)([weight], lr=0.1, **options)

    def step(x: weft.Tensor) -> weft.Tensor:
        optimizer.step()
        print(x)
        return x + 1

    with pytest.raises(Exception, match="print"):
        weft.compile(step, fullgraph=True)(weft.ones(2))
    assert not optimizer.state
    assert weft.equal(weight, weft.ones(3))


def test_only_parameters_with_gradients_get_state(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settings, "strict", True)
    used, unused = weft.nn.Parameter(weft.ones(3)), weft.nn.Parameter(weft.ones(3))
    optimizer = weft.optim.Adam([used, unused])
    used.grad = weft.ones(3)
    weft.compile(optimizer.step, fullgraph=True)()
    assert list(optimizer.state) == [used]


def test_dampened_momentum_starts_as_in_eager(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first step is another program there: two graphs."""
    monkeypatch.setattr(settings, "strict", True)
    weights = [weft.nn.Parameter(weft.ones(3)) for _ in range(2)]
    plain, compiled = (weft.optim.SGD([w], lr=0.1, momentum=0.9, dampening=0.5) for w in weights)
    counter = CompileCounter()
    step = weft.compile(compiled.step, backend=counter, fullgraph=True)
    for _ in range(3):
        for weight in weights:
            weight.grad = weft.tensor([1.0, -0.0, 0.0])
        plain.step()
        step()
        assert weft.equal(*weights)
    assert counter.frame_count == 2


def test_the_first_buffer_has_the_signs_of_the_gradient() -> None:
    weight = weft.nn.Parameter(weft.ones(3))
    weight.grad = weft.tensor([1.0, -0.0, 0.0])
    optimizer = weft.optim.SGD([weight], lr=0.1, momentum=0.9)
    weft.compile(optimizer.step, fullgraph=True)()
    assert weft.signbit(optimizer.state[weight]["momentum_buffer"]).tolist() == [False, True, False]
