"""Long programs: compiling twice as much takes twice the work, and no depth of Python's stack."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import weft
import weft.nn.functional as F
from tests import wide
from weft.core.settings import settings
from weft.native import backend
from weft.native.cpu import tiers


def line(count: int) -> Callable[..., Any]:
    x = weft.linspace(-1, 1, 12).reshape(3, 4).requires_grad_()

    def run(x: Any) -> Any:
        y = x
        for _ in range(count):
            y = y.sin() + x
        return y.sum()

    return lambda: weft.compile(run)(x).backward()


def products(count: int) -> Callable[..., Any]:
    x, w = weft.ones(3, 4), weft.eye(4).requires_grad_()

    def run(x: Any, w: Any) -> Any:
        for _ in range(count):
            x = (x @ w).tanh()
        return x.sum()

    return lambda: weft.compile(run)(x, w).backward()


def norms(count: int) -> Callable[..., Any]:
    x = weft.linspace(-1, 1, 12).reshape(3, 4).requires_grad_()

    def run(x: Any) -> Any:
        y = x
        for _ in range(count):
            y = weft.softmax(y, -1) + x
        return y.sum()

    return lambda: weft.compile(run)(x).backward()


def outputs(count: int) -> Callable[..., Any]:
    x = weft.linspace(-1, 1, 4).requires_grad_()

    def run(x: Any) -> Any:
        return [x * (number + 0.5) for number in range(count)]

    return lambda: sum(each.sum() for each in weft.compile(run)(x)).backward()


def written(count: int) -> Callable[..., Any]:
    x = weft.linspace(-1, 1, 4)

    def run(x: Any) -> Any:
        y = x * 1
        for _ in range(count):
            y.mul_(0.5)
            y[1:].add_(x[1:])
        return y

    return lambda: weft.compile(run)(x)


def parameters(count: int) -> Callable[..., Any]:
    given = [weft.full((2, 3), float(number), requires_grad=True) for number in range(count // 2)]
    optimizer = weft.optim.Adam(given, lr=0.1)

    def run() -> Any:
        optimizer.zero_grad()
        loss = sum((each * each).sum() for each in given)
        loss.backward()  # type: ignore[union-attr]
        optimizer.step()
        return loss

    return lambda: weft.compile(run)()


def calls_of(function: Callable[[], Any]) -> int:
    """How many functions a call calls."""
    count = 0

    def note(_frame: Any, event: str, _arg: Any) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(note)
    try:
        function()
    finally:
        sys.setprofile(None)
    return count


@pytest.mark.parametrize("program", [line, products, norms, outputs, written, parameters])
def test_work_grows_as_programs_do(program: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tiers, "ask", lambda owner: None)
    program(12)()
    small, large = calls_of(program(40)), calls_of(program(80))
    assert large / small < 2.3


# -- no depth ------------------------------------------------------------------------------------------------
TURNS = sys.getrecursionlimit() + 100


@pytest.fixture
def made() -> Iterator[list[Any]]:
    """The programs that are made; what runs op by op is an error."""
    programs: list[Any] = []
    backend.listeners.append(lambda program, inputs: programs.append(program))
    settings.strict = True
    yield programs
    settings.strict = False
    backend.listeners.pop()


def test_a_chain_of_five_thousand_ops_is_compiled(made: list[Any]) -> None:
    def run(x: Any) -> Any:
        y = x
        for _ in range(2500):
            y = y * 0.5 + x
        return y

    x = weft.linspace(-1, 1, 5).requires_grad_()
    found = weft.compile(run)(x)
    found.sum().backward()
    assert len(made) == 2
    weft.testing.assert_close(found.detach(), run(x.detach()), rtol=0, atol=0)
    weft.testing.assert_close(x.grad, weft.full((5,), 2.0))


def test_an_lstm_of_four_hundred_turns_is_compiled(made: list[Any]) -> None:
    lstm = weft.nn.LSTM(4, 8)
    optimizer = weft.optim.SGD(lstm.parameters(), lr=0.1)
    x = weft.randn(400, 2, 4)

    def loss() -> Any:
        outputs, (_, cell) = lstm(x)
        return (outputs * outputs).mean() + cell.sum()

    def step() -> Any:
        optimizer.zero_grad()
        found = loss()
        found.backward()
        optimizer.step()
        return found

    wanted = weft.autograd.grad(loss(), list(lstm.parameters()))
    before = [each.detach().clone() for each in lstm.parameters()]
    expected = loss()
    found = weft.compile(step)()
    assert len(made) == 1
    weft.testing.assert_close(found, expected.detach(), rtol=1e-4, atol=1e-5)
    for was, each, gradient in zip(before, lstm.parameters(), wanted, strict=True):
        weft.testing.assert_close(each.detach(), was - 0.1 * gradient, rtol=1e-3, atol=1e-4)


def exchanged(x: Any) -> Any:
    for _ in range(TURNS):
        x = x.t().reshape(3, 4)
    return x @ x.t()


def beside_ones(x: Any) -> Any:
    for _ in range(TURNS):
        x = x * weft.ones(3, 4)
    return x @ x.t()


def slices(x: Any) -> Any:
    x = weft.cat([x] * TURNS)
    for _ in range(TURNS):
        x = x[1:]
    return x * 2


def reshaped_and_added(x: Any) -> Any:
    for _ in range(TURNS):
        x = x.t().reshape(x.shape[0], x.shape[1]) + 1
    return x


def folded(x: Any) -> Any:
    for _ in range(TURNS):
        x = F.layer_norm(x - x.sum(), (4,))
    return x


def by_array_kernels(x: Any) -> Any:
    for _ in range(TURNS):
        x = x.cumsum(0) * 0.5
    return x


def in_half(x: Any) -> Any:
    y = x.to(weft.bfloat16)
    for _ in range(TURNS):
        y = weft.where(y > 0, y * 0.5, y + 1)
    return y.float()


def joined(x: Any) -> Any:
    for _ in range(TURNS // 4):
        x = weft.cat([x, x[:1]]).roll(1, 0)
    return x


CHAINS = [exchanged, beside_ones, slices, reshaped_and_added, folded, by_array_kernels, in_half, joined]


@pytest.mark.parametrize(
    ("run", "dynamic"),
    [*[(run, False) for run in CHAINS], (exchanged, True), (slices, True), (folded, True)],
)
def test_chains_longer_than_the_stack_are_compiled(run: Any, dynamic: bool, made: list[Any]) -> None:
    x = weft.linspace(-1, 1, 12).reshape(3, 4)
    one, other = x.clone().requires_grad_(), x.clone().requires_grad_()
    found, expected = weft.compile(run, dynamic=dynamic)(one), run(other)
    assert made
    (found * found).sum().backward()
    (expected * expected).sum().backward()
    weft.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)
    weft.testing.assert_close(one.grad, other.grad, rtol=1e-3, atol=1e-3)


@wide.by_hand
def test_recurrent_cells_of_a_thousand_turns_are_compiled() -> None:
    cell = weft.nn.LSTMCell(2, 2)

    def run(x: Any) -> Any:
        h, c = weft.zeros(1, 2), weft.zeros(1, 2)
        for step in x:
            h, c = cell(step, (h, c))
        return h.sum()

    x = weft.randn(1000, 1, 2)
    expected = run(x)
    wanted = weft.autograd.grad(expected, list(cell.parameters()))
    found = weft.compile(run)(x)
    given = weft.autograd.grad(found, list(cell.parameters()))
    weft.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)
    for one, two in zip(given, wanted, strict=True):
        weft.testing.assert_close(one, two, rtol=1e-3, atol=1e-5)


@pytest.mark.slow
def test_twenty_thousand_eager_ops_have_gradients() -> None:
    x = weft.ones(2, requires_grad=True)
    y = x
    for _ in range(20_000):
        y = y * 1.0
    y.sum().backward()
    weft.testing.assert_close(x.grad, weft.ones(2))
