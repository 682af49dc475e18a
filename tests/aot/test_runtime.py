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


# -- writes and views ----------------------------------------------------------------------------------------
def write_to_view(x, w):
    y = x * w
    view = y[:, 1:]
    view.mul_(2)
    y.t()[0].add_(w.sum())
    return y, view, y[0]


def write_item(x, w):
    y = x.sin()
    y[0] = 1.0
    y[:, 1] = w[0]
    y[1, 2:] += 3
    return y * x


def write_masked(x, w):
    y = x * 1
    y[y > 0] = 0.5
    y[y < -1] = w[0]
    return y * x


def write_input(x, w):
    x.mul_(w)
    return x.sum() * x


def write_input_twice(x, w):
    y = x * 1
    x.add_(1)
    x[0].zero_()
    return y * w, x.t()


def write_under_no_grad(x, w):
    y = x * w
    with weft.no_grad():
        y.add_(1)
    return y * w


def write_through_data(x, w):
    y = x * w
    y.data.mul_(2)
    return y.sin() + w


def no_grad_region(x, w):
    y = x * w
    with weft.no_grad():
        z = y * 2
    return y * z, z


def detached(x, w):
    y = x * w
    return y.detach() * x + y, y.detach()


def strided(x, w):
    y = x * w
    return y.as_strided((2, 2), (4, 1), 1) * 2, y.diagonal().sum()


def written_strided(x, w):
    y = x * w
    y.as_strided((2, 2), (4, 1), 1).mul_(3)
    return y


def chunks_written(x, w):
    y = x * w
    first, second = y[:, :2], y[:, 2:]
    first.add_(second)
    return y, first


def in_place_keeps_old_value(x, w):
    y = x * 1
    y.mul_(w)
    y.mul_(x)
    return y


def outputs_share(x, w):
    y = x * w
    return y[0], y[1:], y.view(-1)


def copies(x, w):
    y = weft.empty(3, 4, dtype=x.dtype)
    y.copy_(w)
    y[1].copy_(x[2])
    z = weft.zeros_like(x).fill_(2.0)
    return y * x, z


def results_into(x, w):
    with weft.no_grad():
        out = weft.empty(3, 4, dtype=x.dtype)
        weft.mul(x, w, out=out)
    return out * x


WRITES = [
    write_to_view, write_item, write_masked, write_input, write_input_twice, write_under_no_grad,
    write_through_data, no_grad_region, detached, strided, written_strided, chunks_written,
    in_place_keeps_old_value, outputs_share, copies, results_into,
]  # fmt: skip


@pytest.mark.parametrize("function", WRITES, ids=lambda f: f.__name__)
def test_writes_and_views(function):
    compare(function, floats(3, 4), floats(4), order=3)


@pytest.mark.parametrize("function", WRITES, ids=lambda f: f.__name__)
def test_writes_and_views_without_gradients(function):
    compare(function, floats(3, 4, grad=False), floats(4, grad=False))


def test_running_statistics_are_written_back():
    def step(x, mean, variance):
        return F.batch_norm(x, mean, variance, training=True)

    compare(step, floats(5, 3), weft.zeros(3, dtype=weft.float64), weft.ones(3, dtype=weft.float64))
