"""Checkpoints in captured code: what is forgotten is computed again, as often and with the same numbers."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from typing import Any

import pytest

import weft
import weft.compiler
from tests.capture.features.test_whole_steps import BACKENDS, bits, strictly  # noqa: F401
from weft.graph.passes import REPEATS, cse
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


# -- what may be checkpointed --------------------------------------------------------------------------------
def cast(x: Any) -> Any:
    with weft.autocast("cpu", dtype=weft.bfloat16):
        return (x @ x.t()).float()


def without(x: Any, reentrant: bool) -> Any:
    with weft.no_grad():
        y = checkpoint(lambda x: x.exp(), x, use_reentrant=reentrant)
    return y * x


PARTS: dict[str, Callable[[Any, bool], Any]] = {
    "numbers and lists": lambda x, r: checkpoint(
        lambda x, n, none, items: x.exp() * n * len(items), x, 3, None, [1, 2], use_reentrant=r
    ),
    "two results": lambda x, r: checkpoint(lambda x: (x.exp(), x.sin()), x, use_reentrant=r)[1],
    "an argument twice": lambda x, r: checkpoint(lambda a, b: a * b, x, x, use_reentrant=r),
    "other numbers drawn again": lambda x, r: checkpoint(
        lambda x: F.dropout(x, 0.5) * x, x, use_reentrant=r, preserve_rng_state=False
    ),
    "an op": lambda x, r: checkpoint(weft.exp, x, use_reentrant=r),
    "without gradients": without,
    "closed over": lambda x, r: checkpoint(lambda y: (y * x).exp(), x.sin(), use_reentrant=r),
}
NEWER: dict[str, Callable[[Any], Any]] = {
    "keywords": lambda x: checkpoint(lambda x, k, s=1: x.exp() * k * s, x, k=x * 2, s=3, use_reentrant=False),
    "to the end": lambda x: checkpoint(lambda x: x.exp() * x + 1, x, use_reentrant=False, early_stop=False),
    "a dict": lambda x: checkpoint(lambda x: {"a": x.exp(), "b": 3}, x, use_reentrant=False)["a"],
    "the argument": lambda x: checkpoint(lambda x: x, x * 2, use_reentrant=False),
    "a view": lambda x: checkpoint(lambda x: x.t(), x * 2, use_reentrant=False),
    "in place": lambda x: checkpoint(lambda x: x.exp().add_(1).mul(x), x, use_reentrant=False),
}


def identity() -> Any:
    return weft.nn.Identity()


@both
@pytest.mark.parametrize("inside", [False, True])
@pytest.mark.parametrize("name", PARTS)
def test_parts(name: str, inside: bool, reentrant: bool, backend: str) -> None:
    check(identity, lambda model, x: PARTS[name](x, reentrant).sum(), backend, inside)


@both
def test_autocast_in_a_part(reentrant: bool, backend: str) -> None:
    """Beside a backward outside it is a break: casts of leaves are kept inside, and a graph does not know."""

    def forward(model: Any, x: Any) -> Any:
        return checkpoint(cast, x, use_reentrant=reentrant).sum()

    check(identity, forward, backend, inside=True)
    x = weft.randn(4, 6, requires_grad=True)
    with pytest.raises(Exception, match="autocast around code that is differentiated later"):
        weft.compile(forward, fullgraph=True, backend=backend)(None, x)
    weft.compile(forward, backend=backend)(None, x).backward()
    ours, x.grad = x.grad, None
    forward(None, x).backward()
    assert bits(ours) == bits(x.grad)


@pytest.mark.parametrize("inside", [False, True])
@pytest.mark.parametrize("name", NEWER)
def test_parts_of_the_newer_kind(name: str, inside: bool, backend: str) -> None:
    check(identity, lambda model, x: NEWER[name](x).sum(), backend, inside)


@both
def test_effects_happen_as_often_as_in_eager(reentrant: bool, backend: str) -> None:
    """What stands behind the last tensor that is needed again is not done again, by the newer kind."""
    log: list[str] = []

    def part(x: Any) -> Any:
        log.append("first")
        y = x.exp() * x
        log.append("last")
        return y + 1

    def f(x: Any) -> Any:
        y = checkpoint(part, x, use_reentrant=reentrant).sum()
        y.backward()
        log.append("after")
        return y.detach()

    f(weft.ones(3, requires_grad=True))
    expected = list(log)
    log.clear()
    weft.compile(f, fullgraph=True, backend=backend)(weft.ones(3, requires_grad=True))
    assert log == expected
    assert log.count("last") == (2 if reentrant else 1)


def test_handlers_run_where_recomputation_stops(backend: str) -> None:
    log: list[str] = []

    def part(x: Any) -> Any:
        try:
            return x.exp() * x + 1
        finally:
            log.append("left")

    def f(x: Any) -> Any:
        y = checkpoint(part, x, use_reentrant=False).sum()
        y.backward()
        return y.detach()

    weft.compile(f, fullgraph=True, backend=backend)(weft.ones(3, requires_grad=True))
    assert log == ["left", "left"]


def test_nothing_is_kept_that_is_computed_again(backend: str) -> None:
    """The peak of a chain of blocks, beside that of the same chain without checkpoints."""

    def block(x: Any, w: Any) -> Any:
        return (x @ w).tanh().exp().sin().cos().sigmoid()

    def peak(checkpointed: bool) -> int:
        def f(x: Any, weights: Any) -> Any:
            for w in weights:
                x = checkpoint(block, x, w, use_reentrant=False) if checkpointed else block(x, w)
            return x.sum()

        compiled = weft.compile(f, fullgraph=True, backend="eager" if not checkpointed else backend)
        weights = [weft.randn(16, 16).mul_(0.1).requires_grad_() for _ in range(8)]
        x = weft.randn(2048, 16)
        for _ in range(2):
            compiled(x, weights).backward()
        tracemalloc.start()
        compiled(x, weights).backward()
        found = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return found

    assert peak(True) < 0.5 * peak(False)


def test_what_is_computed_again_is_marked(backend: str) -> None:
    counter = CompileCounterWithBackend(backend)

    def f(x: Any) -> Any:
        y = checkpoint(lambda x: x.exp().sin(), x, use_reentrant=False).sum()
        y.backward()
        return y.detach()

    weft.compile(f, fullgraph=True, backend=counter)(weft.ones(3, requires_grad=True))
    (module,) = counter.graphs
    repeated = [node for node in module.graph.nodes if REPEATS in node.meta]
    assert [node.target.__name__ for node in repeated if node.op == "call_function"].count("exp") == 1
    merged = [node for node in cse(module.graph).nodes if getattr(node.target, "__name__", "") == "exp"]
    assert len(merged) == 2


@pytest.mark.parametrize("inside", [False, True])
def test_recomputation_stops_in_the_middle_of_a_call(inside: bool, backend: str) -> None:
    """Running statistics are written behind the last tensor that is saved, within one call."""

    def make() -> Any:
        return weft.nn.BatchNorm1d(6)

    def forward(model: Any, x: Any) -> Any:
        return checkpoint(model, x, use_reentrant=False).exp().sum()

    check(make, forward, backend, inside)


@pytest.mark.parametrize("inside", [False, True])
def test_a_failing_call_leaves_everything_to_the_original(inside: bool, backend: str) -> None:
    def run(compiled: bool) -> Any:
        norm, table = weft.nn.BatchNorm1d(6), weft.arange(5.0)

        def f(x: Any, index: Any) -> Any:
            y = checkpoint(norm, x, use_reentrant=False).exp().sum()
            if inside:
                y.backward()
            return y, table[index]

        called = weft.compile(f, fullgraph=True, backend=backend) if compiled else f
        seen = []
        for index in (1, 9, 2):
            weft.manual_seed(index)
            norm.zero_grad()
            x = weft.randn(4, 6)
            try:
                y, element = called(x, weft.tensor(index))
            except IndexError as error:
                seen.append(str(error))
            else:
                if not inside:
                    y.backward()
                seen.append(bits([y, element]))
            seen.append(bits([norm.weight.grad, *norm.buffers()]))
        return seen

    assert run(True) == run(False)


@pytest.mark.parametrize("rate", [0.0, 0.5])
def test_the_random_state_is_kept_where_numbers_are_drawn(rate: float, backend: str) -> None:
    counter = CompileCounterWithBackend(backend)

    def part(x: Any) -> Any:
        return F.dropout(x.exp(), rate).sin() if rate else x.exp().sin()

    def f(x: Any) -> Any:
        y = checkpoint(lambda x: checkpoint(part, x, use_reentrant=False) * x, x, use_reentrant=False).sum()
        y.backward()
        return y.detach()

    seen = []
    for called in (f, weft.compile(f, fullgraph=True, backend=counter)):
        weft.manual_seed(0)
        x = weft.ones(8, requires_grad=True)
        seen.append(bits([called(x), x.grad, weft.get_rng_state()]))
    assert seen[0] == seen[1]
    names = [getattr(node.target, "__name__", "") for node in counter.graphs[0].graph.nodes]
    assert ("put_random_state" in names) == ("random_state" in names) == bool(rate)
