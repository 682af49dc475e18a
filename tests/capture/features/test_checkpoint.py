"""Checkpoints in captured code: what is forgotten is computed again, as often and with the same numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import weft
import weft.compiler
from tests.capture.features.test_whole_steps import BACKENDS, bits, strictly  # noqa: F401
from weft.nn import functional as F
from weft.testing import CompileCounterWithBackend
from weft.utils.checkpoint import checkpoint, checkpoint_sequential

both = pytest.mark.parametrize("reentrant", [False, True])
pytestmark = pytest.mark.parametrize("backend", BACKENDS)


class Block(weft.nn.Module):
    def __init__(self, rate: float = 0.5) -> None:
        super().__init__()
        self.first = weft.nn.Linear(6, 6)
        self.norm = weft.nn.BatchNorm1d(6)
        self.second = weft.nn.Linear(6, 6)
        self.rate = rate

    def forward(self, x: Any) -> Any:
        x = F.dropout(self.norm(self.first(x)).tanh(), self.rate, self.training)
        return self.second(x).exp()


def run(
    make: Callable[[], Any],
    forward: Callable[[Any, Any], Any],
    compiled: Callable[..., Any],
    inside: bool,
    count: int,
) -> list[Any]:
    weft.manual_seed(0)
    model = make()

    def step(x: Any) -> Any:
        loss = forward(model, x)
        if inside:
            loss.backward()
        return loss

    called = compiled(step)
    weft.manual_seed(1)
    seen = []
    for _ in range(count):
        model.zero_grad()
        x = weft.randn(4, 6, requires_grad=True)
        loss = called(x)
        if not inside:
            loss.backward()
        seen.append(bits([loss, x.grad, [p.grad for p in model.parameters()], list(model.buffers())]))
        seen.append(bits(weft.get_rng_state()))
    return seen


def check(
    make: Callable[[], Any],
    forward: Callable[[Any, Any], Any],
    backend: str,
    inside: bool,
    count: int = 3,
    frames: int = 1,
) -> CompileCounterWithBackend:
    counter = CompileCounterWithBackend(backend)
    expected = run(make, forward, lambda step: step, inside, count)
    actual = run(
        make, forward, lambda step: weft.compile(step, fullgraph=True, backend=counter), inside, count
    )
    for number, (ours, theirs) in enumerate(zip(expected, actual, strict=True)):
        assert ours == theirs, f"iteration {number // 2}"
    assert counter.frame_count == frames
    return counter


@both
@pytest.mark.parametrize("inside", [False, True])
def test_a_block_is_computed_again(reentrant: bool, inside: bool, backend: str) -> None:
    def forward(model: Any, x: Any) -> Any:
        return checkpoint(model, x, use_reentrant=reentrant).square().sum()

    check(Block, forward, backend, inside)


@both
@pytest.mark.parametrize("inside", [False, True])
def test_blocks_in_turn(reentrant: bool, inside: bool, backend: str) -> None:
    def make() -> Any:
        return weft.nn.Sequential(Block(0.2), Block(0.3), Block(0.1), Block(0.5))

    def forward(model: Any, x: Any) -> Any:
        return checkpoint_sequential(model, 2, x, use_reentrant=reentrant).square().sum()

    check(make, forward, backend, inside)


@pytest.mark.parametrize("inside", [False, True])
def test_checkpoints_inside_checkpoints(inside: bool, backend: str) -> None:
    def make() -> Any:
        return weft.nn.ModuleList([Block(0.2), Block(0.3)])

    def forward(model: Any, x: Any) -> Any:
        def outer(x: Any) -> Any:
            y = checkpoint(model[0], x, use_reentrant=False)
            return model[1](y.clamp(max=2)) + y

        return checkpoint(outer, x, use_reentrant=False).square().mean()

    check(make, forward, backend, inside)
