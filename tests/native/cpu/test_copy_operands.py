"""Second matrices of products that lie transposed are copied once, by registers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import weft
from weft.native.cpu import runner as run
from weft.native.cpu.runner import Runner
from weft.native.ir.definitions import Direct, Product


@pytest.mark.parametrize("kind", [weft.float32, weft.float64])
@pytest.mark.parametrize("sizes", [(64, 64, 8), (17, 19, 5), (16, 16, 4), (33, 70, 100), (24, 40, 9)])
def test_products_with_transposed_matrices(sizes: tuple[int, int, int], kind: Any) -> None:
    columns, depth, rows = sizes

    def f(x: Any, w: Any) -> Any:
        return x @ w.t(), x[:, 3:] @ w[:, 3:].t(), x @ w[1:].t()

    weft.manual_seed(0)
    x, w = weft.randn(rows, depth, dtype=kind), weft.randn(columns, depth, dtype=kind)
    found = weft.compile(f, backend="native", fullgraph=True)(x, w)
    a, b = x.numpy().astype(np.float64), w.numpy().astype(np.float64)
    for got, expected in zip(found, (a @ b.T, a[:, 3:] @ b[:, 3:].T, a @ b[1:].T)):
        np.testing.assert_allclose(got.numpy(), expected, rtol=1e-4, atol=1e-4)


def test_one_copy_serves_all(monkeypatch: pytest.MonkeyPatch) -> None:
    found: list[Runner] = []
    before = run.Runner.__init__

    def noted(self: Any, *args: Any, **options: Any) -> None:
        before(self, *args, **options)
        found.append(self)

    def f(x: Any, w: Any) -> Any:
        for _ in range(4):
            x = weft.tanh(x @ w.t())
        return x

    monkeypatch.setenv("WEFT_CACHE", "0")  # programs are made, not read
    monkeypatch.setattr(run.Runner, "__init__", noted)
    weft.compiler.reset()
    weft.compile(f, backend="native", fullgraph=True)(weft.randn(8, 32), weft.randn(32, 32))
    steps = found[-1].program.listing.steps
    assert sum(isinstance(step, Direct) for step in steps) == 1
    products = [step for step in steps if isinstance(step, Product)]
    assert len(products) == 4 and not any(step.right.transposed for step in products)


@pytest.mark.parametrize("kind", [weft.float32, weft.float64])
@pytest.mark.parametrize("sizes", [(64, 64, 64), (70, 33, 100), (48, 17, 19), (130, 40, 24)])
def test_batches(sizes: tuple[int, int, int], kind: Any) -> None:
    """Of matrices that lie transposed, as themselves and as slices of others, and of one for all."""
    rows, depth, columns = sizes

    def f(x: Any, w: Any) -> Any:
        turned = w.transpose(1, 2)
        return x @ turned, x[:, :, 3:] @ turned[:, 3:], x @ turned[:1], x.transpose(1, 2) @ (x @ turned)

    weft.manual_seed(0)
    x, w = weft.randn(3, rows, depth, dtype=kind), weft.randn(3, columns, depth, dtype=kind)
    found = weft.compile(f, backend="native", fullgraph=True)(x, w)
    a, b = x.numpy().astype(np.float64), w.numpy().astype(np.float64).transpose(0, 2, 1)
    expected = (a @ b, a[:, :, 3:] @ b[:, 3:], a @ b[:1], a.transpose(0, 2, 1) @ (a @ b))
    for got, wanted in zip(found, expected, strict=True):
        np.testing.assert_allclose(got.numpy(), wanted, rtol=1e-3, atol=1e-3)
    for got, wanted in zip(weft.compile(f, backend="reference", fullgraph=True)(x, w), found, strict=True):
        np.testing.assert_allclose(got.numpy(), wanted.numpy(), rtol=1e-3, atol=1e-3)
