"""Sums of products are products that are added to others."""

from __future__ import annotations

from typing import Any

import pytest

import weft
from weft.native.cpu import runner as run
from weft.native.cpu.runner import Runner
from weft.native.ir.definitions import Product
from weft.testing import assert_close


def chain(x: Any, w: Any) -> Any:
    loss = x.sum() * 0
    for _ in range(5):
        x = weft.tanh(x @ w.t())
        loss = loss + (x @ w).sum()
    return weft.autograd.grad(loss, [w])[0]


def kept_otherwise(x: Any, w: Any) -> Any:
    a, b, c = x @ w, w @ x, x @ x
    return a + b, b + c, c + c, (a - b) + c, weft.add(x @ w, w @ w, alpha=2)


def given_out(x: Any, w: Any) -> Any:
    made = x @ w + w @ x
    return made, made + x @ x


def written(x: Any, w: Any) -> Any:
    x.copy_(x @ w + w @ x)
    return x


def gathered(x: Any, w: Any) -> Any:
    return weft.nn.functional.pad(x @ w + w @ x, (1, 1)), (x @ x + w @ w)[weft.arange(3)]


def turned_round(x: Any, w: Any) -> Any:
    both = (x @ w).t() + (w @ x).t() + (x @ x).t()
    return both, (x @ w).t() + w @ x, (x @ w)[:3] + (w @ w)[:3], (x @ x).t()[1:] + (w @ w).t()[1:]


@pytest.mark.parametrize(
    "program", [chain, kept_otherwise, given_out, written, gathered, turned_round], ids=lambda p: p.__name__
)
def test_values_are_eagers(program: Any) -> None:
    results = []
    for function in (program, weft.compile(program, backend="native", fullgraph=True)):
        weft.manual_seed(0)
        x, w = weft.randn(12, 12), weft.randn(12, 12)
        if program is chain:
            w = (w * 0.1).detach().requires_grad_()
        for _ in range(2):
            made = function(x, w)
        results.append((made, x.detach(), w.detach()))
    assert_close(results[0], results[1], rtol=1e-4, atol=1e-4)


def test_long_sums_take_no_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    found: list[Runner] = []
    before = run.Runner.__init__

    def noted(self: Any, *args: Any, **options: Any) -> None:
        before(self, *args, **options)
        found.append(self)

    def f(*tensors: Any) -> Any:
        total = tensors[0] @ tensors[1]
        for a, b in zip(tensors[2::2], tensors[3::2]):
            total = total + a @ b
        return total

    monkeypatch.setenv("WEFT_CACHE", "0")
    monkeypatch.setattr(run.Runner, "__init__", noted)
    weft.compiler.reset()
    tensors = [weft.randn(8, 8) for _ in range(40)]
    assert_close(weft.compile(f, backend="native", fullgraph=True)(*tensors), f(*tensors))
    steps = found[-1].program.listing.steps
    assert len(steps) == 20 and all(isinstance(step, Product) for step in steps)
    assert len(found[-1].made) == 1 and not found[-1].arena_bytes
