"""Folds and what is made of them, natively, with gradients, against eager."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

import pytest

import weft
import weft.nn.functional as F
from tests.native.whole import same
from weft.testing import assert_close

CASES: dict[str, Callable[..., Any]] = {
    "layer_norm": lambda x, w: F.layer_norm(x, (x.shape[-1],), w, w),
    "layer_norm of two axes": lambda x, w: F.layer_norm(x, x.shape[-2:], eps=1e-3) * w,
    "softmax": lambda x, w: F.softmax(x * w, -1),
    "softmax of another axis": lambda x, w: F.softmax(x, 0) * w,
    "log_softmax": lambda x, w: F.log_softmax(x + w, -1),
    "mean of all": lambda x, w: (x * w).mean(),
    "sum of columns": lambda x, w: (x * w).sum((0, 1)),
    "sum of the middle": lambda x, w: (x * w).sum(1),
    "keepdim": lambda x, w: x / (x * x).sum(-1, keepdim=True),
    "extremes": lambda x, w: x.amax(-1) + x.amin(0).sum(),
    "elements beside sums of columns": lambda x, w: (x[0] * w, (x[0] * w).sum(0), (x[0] * 2).sum(0))[1] * w,
    "softmax of the first of two": lambda x, w: F.softmax(x[0], 0) * w,
    "batch_norm": lambda x, w: F.batch_norm(x, None, None, x[0, :, 0], x[1, :, 1], training=True),
}


@pytest.mark.parametrize("dtype", [weft.float32, weft.float64])
@pytest.mark.parametrize("name", CASES)
def test_values_and_gradients(name: str, dtype: Any) -> None:
    function = CASES[name]
    results = []
    for run in (function, weft.compile(function, backend="native", fullgraph=True)):
        weft.manual_seed(0)
        x = weft.randn(4, 5, 37, dtype=dtype, requires_grad=True)
        w = weft.randn(37, dtype=dtype, requires_grad=True)
        value = run(x, w)
        (value * value).sum().backward()
        results.append((value.detach(), x.grad, w.grad))
    assert_close(results[1], results[0], rtol=2e-4, atol=2e-5)


def test_numbers_of_rows_are_made_of_such_numbers() -> None:
    def f(x: weft.Tensor) -> tuple[weft.Tensor, ...]:
        total = x.sum(-1)
        double = total * 2
        return total, double, double + 1, (double + 1)[:, None] * x

    x = weft.randn(4, 5)
    assert_close(weft.compile(f, backend="native", fullgraph=True)(x), f(x))


@pytest.mark.parametrize("shape", [(8, 16, 8), (3, 4, 5, 6), (5, 7), (4, 1, 6)])
def test_numbers_of_rows_that_depend_on_their_places(shape: tuple[int, ...]) -> None:
    def f(x: weft.Tensor) -> tuple[weft.Tensor, ...]:
        total = (x * x).sum(-1)
        at = weft.arange(total.shape[-1])
        return total - weft.atleast_2d(total).triu(-1), total * at, weft.fmax(total - total * at, total)

    same(f, [weft.arange(prod(shape), dtype=weft.float32).reshape(shape) % 7])
