"""Bits on demand: with `settings.bitwise`, the samples of all ops have eager's bits when compiled, as do
their gradients; and so do nets, by one program."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import weft
import weft.nn as nn
import weft.nn.functional as F
from tests.whole import test_native_samples as samples
from weft.capture.kinds import Unsupported
from weft.core.settings import settings
from weft.ops.record import Kind, Op


@pytest.fixture(autouse=True)
def bits() -> Iterator[None]:
    settings.bitwise = settings.strict = True
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
    settings.bitwise = settings.strict = False
    weft.compiler.reset()


def bits_of(value: Any) -> Any:
    """The bits of a tensor's elements; of NaNs only that they are."""
    array = np.ascontiguousarray(value.detach().array).reshape(-1)
    parts = array.view(array.real.dtype) if array.dtype.kind == "c" else array
    wide = parts.astype(np.float64) if parts.dtype.kind not in "biu" else parts
    nan = np.isnan(wide) if wide.dtype.kind == "f" else np.zeros(wide.shape, bool)
    return nan.tobytes(), np.where(nan[:, None], 0, parts.view(np.uint8).reshape(parts.size, -1)).tobytes()


def assert_bits(one: Any, other: Any, case: Any) -> None:
    ours, theirs = samples.leaves(one), samples.leaves(other)
    assert len(ours) == len(theirs), case
    for found, expected in zip(ours, theirs, strict=True):
        assert type(found) is type(expected), case
        if isinstance(found, weft.Tensor):
            assert (found.dtype, found.shape) == (expected.dtype, expected.shape), case
            assert not found.numel() or bits_of(found) == bits_of(expected), f"{case}: {found} and {expected}"
        else:
            assert found == expected or found != found, case


def halved(run: Callable[[list[Any]], None], cases: list[Any], failed: list[str]) -> None:
    """Runs the cases as one function; finds out which ones do not go."""
    if not cases:
        return
    weft.compiler.reset()
    try:
        run(cases)
    except BaseException as error:
        if len(cases) == 1:
            sized = type(error) is Unsupported and str(error).startswith("GraphBreak data-dependent-shape at")
            if not sized or cases[0].op.qualified_name not in samples.SIZED:
                failed.append(f"{cases[0]}: {type(error).__name__}: {str(error)[:300]}")
            return
        middle = len(cases) // 2
        halved(run, cases[:middle], failed)
        halved(run, cases[middle:], failed)


def compiled(cases: list[Any]) -> Any:
    return weft.compile(samples.function_of(cases), backend="native", fullgraph=True)


def run_values(cases: list[Any]) -> None:
    found = compiled(cases)(*[tensor for case in cases for tensor in case.inputs])
    for case, result in zip(cases, found, strict=True):
        if case.op.qualified_name not in samples.UNDEFINED:
            assert_bits(result, case.expected, case)


def run_gradients(cases: list[Any]) -> None:
    inputs = [tensor for case in cases for tensor in case.inputs]
    expected = samples.differentiated(samples.function_of(cases), inputs)
    found = samples.differentiated(compiled(cases), inputs)
    assert_bits([each for each in found if each is not None], [e for e in expected if e is not None], cases)


def chosen(part: int, is_sampled: Callable[[Op], bool]) -> list[Op]:
    ops = [op for op in samples.OPS[part :: samples.PARTS] if op.kind is not Kind.RANDOM and is_sampled(op)]
    return [op for op in ops if op.name not in samples.UNTIED and op.qualified_name not in samples.SIZED]


@pytest.mark.wide
@pytest.mark.parametrize("part", range(samples.PARTS))
@pytest.mark.parametrize("kind", samples.KINDS)
def test_samples_have_eagers_bits(kind: str, part: int, is_sampled: Callable[[Op], bool]) -> None:
    failed: list[str] = []
    halved(
        run_values, [case for op in chosen(part, is_sampled) for case in samples.cases_of(op, kind)], failed
    )
    assert not failed, "\n".join(failed)


@pytest.mark.wide
@pytest.mark.parametrize("part", range(samples.PARTS))
def test_gradients_have_eagers_bits(part: int, is_sampled: Callable[[Op], bool]) -> None:
    cases = []
    for op in chosen(part, is_sampled):
        if op.kind is not Kind.CREATE:
            found = list(samples.cases_of(op, "float32"))[:2]
            cases += [case for case in found if case.sample.grad and samples.differentiable(case)]
    failed: list[str] = []
    halved(run_gradients, cases, failed)
    assert not failed, "\n".join(failed)


# -- nets ----------------------------------------------------------------------------------------------------
class Attending(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm, self.last = nn.LayerNorm(32), nn.Linear(32, 5)
        self.mixing = nn.MultiheadAttention(32, 4, batch_first=True)

    def forward(self, x: Any) -> Any:
        x = x + self.mixing(self.norm(x), self.norm(x), self.norm(x), need_weights=False)[0]
        return self.last(F.gelu(x)).mean(1)


class Recurring(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer, self.last = nn.LSTM(32, 16, batch_first=True), nn.Linear(16, 5)

    def forward(self, x: Any) -> Any:
        return self.last(self.layer(x)[0][:, -1])


class Convolving(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm = nn.Conv1d(12, 8, 3, padding=1), nn.BatchNorm1d(8)
        self.last = nn.Linear(8, 5)

    def forward(self, x: Any) -> Any:
        return self.last(F.avg_pool1d(F.silu(self.norm(self.first(x))), 32).flatten(1))


NETS = {
    "perceptron": lambda: nn.Sequential(
        nn.Flatten(), nn.Linear(384, 40), nn.Tanh(), nn.Dropout(0.3), nn.Linear(40, 5)
    ),
    "attention": Attending,
    "lstm": Recurring,
    "convolutions": Convolving,
}


def trained(name: str, how: Callable[[Any], Any]) -> list[Any]:
    """Losses and parameters of a few steps."""
    weft.manual_seed(7)
    net = NETS[name]()
    optimizer = weft.optim.AdamW(net.parameters(), lr=0.05)
    x, y = weft.randn(6, 12, 32), weft.randint(0, 5, (6,))

    def step() -> Any:
        optimizer.zero_grad()
        loss = F.cross_entropy(net(x), y)
        loss.backward()
        nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        optimizer.step()
        return loss.detach()

    run = how(step)
    return [*[run() for _ in range(4)], *net.parameters(), *net.buffers()]


@pytest.mark.parametrize("name", NETS)
def test_steps_have_eagers_bits(name: str) -> None:
    assert_bits(
        trained(name, lambda step: weft.compile(step, fullgraph=True)), trained(name, lambda step: step), name
    )


def test_without_the_setting_bits_differ() -> None:
    """Or else the tests above say nothing."""
    settings.bitwise = False
    found = trained("attention", lambda step: weft.compile(step, fullgraph=True))
    with pytest.raises(AssertionError):
        assert_bits(found, trained("attention", lambda step: step), "attention")


def test_the_setting_may_change_between_calls() -> None:
    x = weft.randn(40, 50)
    function = lambda x: (x @ x.t()).softmax(-1).sum()
    compiled = weft.compile(function)
    for wanted in (True, False, True):
        settings.bitwise = wanted
        assert abs(float(compiled(x)) - float(function(x))) < 1e-4
        assert not wanted or bits_of(compiled(x)) == bits_of(function(x))


def test_operands_lie_as_in_eager_code() -> None:
    """Sums of what is turned, or repeated, are added up in another order than of what lies row by row."""
    function = lambda x: (x.t().sum(0), x.t().expand(3, 50, 40).sum(1), x[:, 3:17].t().cumsum(1))
    x = weft.randn(40, 50)
    for one, other in zip(weft.compile(function)(x), function(x), strict=True):
        assert bits_of(one) == bits_of(other)


def test_sizes_that_vary() -> None:
    settings.strict = False  # programs are made for single sizes
    function = lambda x: (x.softmax(-1) * x).sum(0)
    compiled = weft.compile(function, dynamic=True)
    for size in (3, 5, 8, 13, 21):
        x = weft.randn(size, 2 * size)
        assert bits_of(compiled(x)) == bits_of(function(x))
