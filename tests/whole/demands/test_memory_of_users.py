"""Users' cases of memory: at most eager's, and freed with the model: see docs/demands.md, item 14."""

from __future__ import annotations

import gc
import tracemalloc
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

import weft
from tests.capture.features.harness import everything_strict
from weft import nn
from weft.autograd import Function

F = nn.functional
SLACK = 64 * 1024
"""Bytes of Python objects that a call may make; a single tensor of these cases is larger."""
WARM = 6
"""Calls before what is measured: the first few make native functions, of backward among others."""


class Traced:
    before = held = peak = 0


@contextmanager
def traced() -> Iterator[Traced]:
    """Bytes that are allocated within, NumPy's included."""
    found = Traced()
    gc.collect()
    tracemalloc.start()
    try:
        found.before, _ = tracemalloc.get_traced_memory()
        tracemalloc.reset_peak()
        yield found
        now, peak = tracemalloc.get_traced_memory()
        found.held, found.peak = now - found.before, peak - found.before
    finally:
        tracemalloc.stop()


# -- pytorch#141881 ------------------------------------------------------------------------------------------
class LowPrecision(Function):
    """Weights are cast in forward and, in another way, in backward; no cast of them is kept between."""

    @staticmethod
    def forward(ctx, x, weight):
        ctx.save_for_backward(x, weight)
        scale = weight.abs().max()
        return (x.half() @ (weight / scale).half().t()).float() * scale

    @staticmethod
    def backward(ctx, g):
        x, weight = ctx.saved_tensors
        scale = weight.abs().max()
        low = (weight / scale).half()
        return (g.half() @ low).float() * scale, g.t() @ x


def test_pytorch_141881_no_copy_of_the_weights_is_kept_for_backward(backend: str) -> None:
    """The thread's own bound: what eager keeps between forward and backward, and at the peak, is the most."""
    layers, width = 6, 192

    def measure(compiled: Callable[[Any], Any]) -> tuple[Traced, Traced, Any]:
        weft.manual_seed(0)
        weights = [(weft.randn(width, width) / 14).requires_grad_() for _ in range(layers)]
        x = weft.randn(4, width)

        def f(x):
            for weight in weights:
                x = LowPrecision.apply(x, weight)
            return x.square().sum()

        called = compiled(f)
        for _ in range(2):
            called(x).backward()
            for weight in weights:
                weight.grad = None
        with traced() as forward:
            loss = called(x)
        with traced() as backward:
            loss.backward()
        return forward, backward, [weight.grad for weight in weights]

    with everything_strict():
        eager = measure(lambda function: function)
        ours = measure(lambda function: weft.compile(function, backend=backend, fullgraph=True))
    weft.testing.assert_close(ours[2], eager[2])
    assert ours[0].held <= eager[0].held + SLACK
    assert ours[0].peak <= eager[0].peak + SLACK
    assert ours[1].peak <= eager[1].peak + SLACK


# -- pytorch#197838 ------------------------------------------------------------------------------------------
@pytest.mark.parametrize("whole", [False, True])
def test_pytorch_197838_the_peak_of_a_step_is_at_most_eagers(whole: bool, backend: str) -> None:
    """Ten layers; the forward compiled with backward outside, and the whole step compiled."""
    layers, width, rows = 10, 64, 256

    def measure(compiled: Callable[[Any], Any]) -> tuple[Traced, Any]:
        weft.manual_seed(0)
        model = nn.Sequential(
            *[layer for _ in range(layers) for layer in (nn.Linear(width, width), nn.Tanh())]
        )
        optimizer = weft.optim.SGD(model.parameters(), lr=0.01)
        x = weft.randn(rows, width)

        def forward(x):
            return model(x).square().mean()

        called = forward if whole else compiled(forward)

        def step(x):
            loss = called(x)
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            return loss.detach()

        stepped = compiled(step) if whole else step
        for _ in range(WARM):
            stepped(x)
        with traced() as found:
            stepped(x)
        return found, [p.detach() for p in model.parameters()]

    with everything_strict():
        eager, expected = measure(lambda function: function)
        ours, actual = measure(lambda function: weft.compile(function, backend=backend, fullgraph=True))
    weft.testing.assert_close(actual, expected)
    assert eager.peak > layers * rows * width * 4
    # the backend `eager` runs ops on the tape, which a whole step in a graph has no use for, and keeps it
    limit = 1.25 * eager.peak if whole and backend == "eager" else eager.peak + SLACK
    assert ours.peak <= limit, f"{ours.peak / eager.peak:.2f} times eager's"


# -- pytorch#105181 ------------------------------------------------------------------------------------------
@pytest.fixture
def no_collector() -> Iterator[None]:
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@pytest.mark.parametrize("kind", ["module", "function"])
def test_pytorch_105181_everything_is_freed_with_the_model(
    kind: str, backend: str, no_collector: None
) -> None:
    """At once: neither a reset nor the collector is needed."""

    def use() -> None:
        model: Any = nn.Sequential(nn.Linear(256, 256), nn.Tanh(), nn.Linear(256, 256))
        called = model if kind == "module" else lambda x, model=model: model(x)
        compiled: Any = weft.compile(called, backend=backend, fullgraph=True)
        for rows in (2, 2, 3, 4):
            compiled(weft.randn(rows, 256)).square().mean().backward()
        references = [weakref.ref(t) for p in model.parameters() for t in (p, p.grad)]
        references.append(weakref.ref(model))
        del model, called, compiled
        assert [reference() for reference in references] == [None] * 9

    use()  # what is made once and for all
    with traced() as found:
        gc.disable()
        use()
        gc.collect()  # graphs and guards are cycles
    assert found.held < 256 * 256 * 4, "a single weight takes as much"


def double(f: Any, x: Any) -> None:
    (first,) = weft.autograd.grad(f(x).square().mean(), x, create_graph=True)
    first.square().sum().backward()


USES: dict[str, Callable[[Any, Any], Any]] = {
    "forward": lambda f, x: f(x),
    "backward": lambda f, x: f(x).square().mean().backward(),
    "backward twice": lambda f, x: [f(x).square().mean().backward(retain_graph=True) for _ in range(2)],
    "double backward": double,
    "no gradient": lambda f, x: f(x.detach()),
}


@pytest.mark.parametrize("use", USES)
def test_pytorch_105181_what_calls_keep_does_not_wait_for_the_collector(
    use: str, backend: str, no_collector: None
) -> None:
    model = nn.Sequential(nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh())
    compiled = weft.compile(model, backend=backend, fullgraph=True)
    x = weft.randn(64, 64, requires_grad=True)
    for _ in range(WARM):
        USES[use](compiled, x)
    with traced() as found:
        gc.disable()
        for _ in range(8):
            USES[use](compiled, x)
    assert found.held < SLACK, "the four layers of one call alone keep 64 KiB"
