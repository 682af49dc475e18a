"""Whole training steps are one graph: parameters, gradients, state and losses as in eager, bit by bit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import weft
import weft.compiler
from tests.capture.features.harness import NATIVE, STEADY, Near
from weft.core.settings import settings
from weft.nn import functional as F
from weft.testing import CompileCounterWithBackend

Step = Callable[..., Any]
ITERATIONS = 5
BACKENDS = ("eager", "aot_eager")
OPTIMIZERS: dict[str, Callable[[Any], Any]] = {
    "sgd": lambda p: weft.optim.SGD(p, lr=0.05),
    "sgd, everything": lambda p: weft.optim.SGD(p, lr=0.05, momentum=0.9, nesterov=True, weight_decay=0.01),
    "sgd, maximising": lambda p: weft.optim.SGD(p, lr=0.01, momentum=0.5, maximize=True),
    "sgd, rate in a tensor": lambda p: weft.optim.SGD(p, lr=weft.tensor(0.05)),
    "adam": lambda p: weft.optim.Adam(p, **STEADY, lr=0.05),
    "adam, amsgrad": lambda p: weft.optim.Adam(p, **STEADY, lr=0.05, amsgrad=True, weight_decay=0.01),
    "adam, rate in a tensor": lambda p: weft.optim.Adam(p, **STEADY, lr=weft.tensor(0.05)),
    "adamw, rate in a tensor": lambda p: weft.optim.AdamW(p, **STEADY, lr=weft.tensor(0.05)),
    "rmsprop, rate in a tensor": lambda p: weft.optim.RMSprop(p, **STEADY, lr=weft.tensor(0.05)),
    "adamw": lambda p: weft.optim.AdamW(p, **STEADY, lr=0.05, betas=(0.8, 0.95)),
    "rmsprop": lambda p: weft.optim.RMSprop(p, **STEADY, lr=0.01),
    "rmsprop, everything": lambda p: weft.optim.RMSprop(
        p, **STEADY, lr=0.01, momentum=0.5, centered=True, weight_decay=0.01
    ),
}


class Convolutional(weft.nn.Module):
    """Batch statistics, running statistics and dropout."""

    def __init__(self) -> None:
        super().__init__()
        self.convolution = weft.nn.Conv2d(2, 4, 3, padding=1)
        self.norm = weft.nn.BatchNorm2d(4)
        self.dropout = weft.nn.Dropout(0.3)
        self.head = weft.nn.Linear(4 * 9, 3)

    def forward(self, x: Any) -> Any:
        x = F.max_pool2d(F.relu(self.norm(self.convolution(x))), 2)
        return self.head(self.dropout(x.flatten(1)))


class Recurrent(weft.nn.Module):
    """Words, an LSTM and attention over its outputs."""

    def __init__(self) -> None:
        super().__init__()
        self.words = weft.nn.Embedding(11, 6)
        self.recurrence = weft.nn.LSTM(6, 5, batch_first=True)
        self.attention = weft.nn.MultiheadAttention(5, 1, batch_first=True)
        self.head = weft.nn.Linear(5, 3)

    def forward(self, x: Any) -> Any:
        states, _ = self.recurrence(self.words(x))
        seen, _ = self.attention(states, states, states, need_weights=False)
        return self.head(seen[:, -1])


def perceptron() -> Any:
    return weft.nn.Sequential(weft.nn.Linear(6, 5), weft.nn.ReLU(), weft.nn.Linear(5, 3))


def rows() -> tuple[Any, Any]:
    return weft.randn(4, 6), weft.randint(0, 3, (4,))


def pictures() -> tuple[Any, Any]:
    return weft.randn(4, 2, 6, 6), weft.randint(0, 3, (4,))


def sentences() -> tuple[Any, Any]:
    return weft.randint(0, 11, (4, 7)), weft.randint(0, 3, (4,))


def zero_first(model: Any, optimizer: Any) -> Step:
    def step(x: Any, y: Any) -> Any:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss

    return step


def zero_last(model: Any, optimizer: Any) -> Step:
    def step(x: Any, y: Any) -> Any:
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss.detach()

    return step


def elements(array: Any) -> Any:
    """What two arrays have in common that are the same."""
    if NATIVE and array.dtype != np.uint8:
        return Near(array.copy())
    return np.ascontiguousarray(array).tobytes()


def bits(value: Any) -> Any:
    """A value in which two that differ in any bit differ."""
    if isinstance(value, weft.Tensor):
        array = value.detach().numpy()
        return str(value.dtype), array.shape, elements(array), value.requires_grad
    if isinstance(value, dict):
        return [(bits(key), bits(item)) for key, item in value.items()]
    if isinstance(value, (tuple, list)):
        return [bits(item) for item in value]
    return value


def train(
    make: Callable[[], Any],
    data: Callable[[], tuple[Any, ...]],
    stepping: Callable[..., Step],
    optimizer: Callable[[Any], Any],
    compiled: Callable[[Step], Step],
    between: Callable[[Any, int], None] | None,
    count: int,
) -> list[Any]:
    """What is seen after each iteration."""
    weft.manual_seed(0)
    model = make()
    chosen = optimizer(model.parameters())
    step = compiled(stepping(model, chosen))
    weft.manual_seed(1)
    seen: list[Any] = []
    objects = [[*model.parameters()], [*model.buffers()]]
    for number in range(count):
        loss = step(*data())
        states = [chosen.state.get(p) for p in objects[0]]
        grads = [p.grad for p in objects[0]]
        seen.append([bits(loss), *[bits(part) for part in (objects, grads, states)]])
        seen.append(bits(weft.get_rng_state()))
        assert all(a is b for a, b in zip(objects[0], model.parameters()))
        if between is not None:
            between(chosen, number)
    return seen


def check(
    make: Callable[[], Any] = perceptron,
    data: Callable[[], tuple[Any, ...]] = rows,
    stepping: Callable[..., Step] = zero_first,
    optimizer: Callable[[Any], Any] = OPTIMIZERS["sgd"],
    backend: str = "eager",
    frames: int | None = 1,
    between: Callable[[Any, int], None] | None = None,
    count: int = ITERATIONS,
) -> CompileCounterWithBackend:
    """Asserts that training compiled is training."""
    expected = train(make, data, stepping, optimizer, lambda step: step, between, count)
    counter = CompileCounterWithBackend(backend)
    weft.compiler.counters.clear()

    def compiled(step: Step) -> Step:
        return weft.compile(step, fullgraph=True, backend=counter)  # type: ignore[no-any-return]

    actual = train(make, data, stepping, optimizer, compiled, between, count)
    for number, (left, right) in enumerate(zip(expected, actual, strict=True)):
        for part, (ours, theirs) in enumerate(zip(left, right)):
            assert ours == theirs, f"iteration {number // 2}, part {part}"
    assert frames is None or counter.frame_count == frames, f"{counter.frame_count} graphs"
    return counter


@pytest.fixture(autouse=True)
def strictly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settings, "strict", True)
    weft.compiler.reset()


# -- every optimizer, every kind of model --------------------------------------------------------------------
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("stepping", [zero_first, zero_last])
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_steps_of_a_perceptron(name: str, stepping: Any, backend: str) -> None:
    check(stepping=stepping, optimizer=OPTIMIZERS[name], backend=backend)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", ["sgd, everything", "adam", "rmsprop"])
def test_steps_of_a_convolutional_network(name: str, backend: str) -> None:
    check(Convolutional, pictures, optimizer=OPTIMIZERS[name], backend=backend)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", ["sgd", "adamw"])
def test_steps_of_a_recurrent_network_with_attention(name: str, backend: str) -> None:
    check(Recurrent, sentences, optimizer=OPTIMIZERS[name], backend=backend)


@pytest.mark.parametrize("name", ["adam", "adamw", "rmsprop, everything"])
def test_many_steps_in_double_precision(name: str) -> None:
    """Corrections by the count of steps are computed from a tensor, and equal those from a number."""

    def make() -> Any:
        return perceptron().double()

    def data() -> tuple[Any, Any]:
        return weft.randn(4, 6, dtype=weft.float64), weft.randint(0, 3, (4,))

    check(make, data, optimizer=OPTIMIZERS[name], count=150)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_parameters_of_one_number(name: str, backend: str) -> None:
    class Scaled(weft.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.scale = weft.nn.Parameter(weft.tensor(1.5))
            self.inner = perceptron()

        def forward(self, x: Any) -> Any:
            return self.inner(x) * self.scale

    check(Scaled, optimizer=OPTIMIZERS[name], backend=backend)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("kind", [weft.bfloat16, weft.float16])
@pytest.mark.parametrize("name", ["sgd, everything", "adamw", "rmsprop"])
def test_parameters_in_half_precision(name: str, kind: Any, backend: str) -> None:
    def data() -> tuple[Any, Any]:
        return weft.randn(4, 6).to(kind), weft.randint(0, 3, (4,))

    check(lambda: perceptron().to(kind), data, optimizer=OPTIMIZERS[name], backend=backend)
