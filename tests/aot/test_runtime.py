"""Compiled calls against eager ones."""

from __future__ import annotations

import pytest

import weft
from tests.aot.differing import compare
from weft.nn import functional as F


def floats(*shape: int, grad: bool = True) -> weft.Tensor:
    return weft.randn(*shape, dtype=weft.float64).requires_grad_(grad)


@pytest.fixture(autouse=True)
def seeded():
    weft.manual_seed(0)
    weft.compiler.reset()


PROGRAMS = {
    "pointwise": (lambda x, y: (x * y).sin() + x, ((3, 4), (4,))),
    "layer": (lambda x, w, b: (x @ w + b).relu(), ((3, 4), (4, 5), (5,))),
    "reductions": (lambda x: (x.sum(0), x.mean(), x.max(1)[0], x.softmax(1)), ((3, 4),)),
    "views inside": (lambda x: (x.t() @ x).view(-1)[2:].sum(), ((3, 4),)),
    "views given out": (lambda x: ((x + 1).t(), x[0], x.detach(), x.data), ((3, 4),)),
    "layer norm": (lambda x, w, b: F.layer_norm(x, (4,), w, b), ((3, 4), (4,), (4,))),
    "convolution": (lambda x, w: F.conv2d(x, w, padding=1), ((2, 3, 5, 5), (4, 3, 3, 3))),
    "pieces": (lambda x: [part * i for i, part in enumerate(x.split(2))], ((5, 3),)),
    "rows": (lambda x: weft.stack([row * i for i, row in enumerate(x.unbind(0))]).sum(1), ((5, 3),)),
    "unused": (lambda x, y: x * 2, ((5, 3), (2,))),
    "attention": (
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v), ((2, 3, 4), (2, 3, 4), (2, 3, 4))
    ),
    "dropout": (lambda x: F.dropout(x, 0.5) * x, ((4, 4),)),
    "noise": (lambda x: (x * weft.rand(4, dtype=weft.float64)).sin() * x, ((4, 4),)),
}  # fmt: skip


@pytest.mark.parametrize("name", PROGRAMS)
def test_values_and_gradients_to_third_order(name):
    function, shapes = PROGRAMS[name]
    compare(function, *[floats(*shape) for shape in shapes], order=3)


def test_nothing_requires_grad():
    compare(lambda x: (x * 2, x.t()), floats(3, 4, grad=False))
