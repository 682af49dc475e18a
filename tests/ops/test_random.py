"""Samplers: shapes, dtypes, streams, distributions by their moments, gradients of zero, refusals."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import weft
from weft.ops import philox
from weft.ops.record import REGISTRY, Kind, ops

CREATED = {
    "rand": lambda **k: weft.rand(1000, **k),
    "randn": lambda **k: weft.randn(1000, **k),
    "randint": lambda **k: weft.randint(100, (1000,), **k),
    "randperm": lambda **k: weft.randperm(1000, **k),
    "normal": lambda **k: weft.normal(1.0, 2.0, (1000,), **k),
    "bernoulli": lambda **k: weft.bernoulli(weft.full((1000,), 0.5), **k),
    "multinomial": lambda **k: weft.multinomial(weft.arange(1.0, 11.0), 1000, True, **k),
    "uniform_": lambda **k: weft.empty(1000).uniform_(-1, 1, **k),
    "normal_": lambda **k: weft.empty(1000).normal_(1, 2, **k),
    "exponential_": lambda **k: weft.empty(1000).exponential_(2, **k),
    "bernoulli_": lambda **k: weft.empty(1000).bernoulli_(0.25, **k),
    "geometric_": lambda **k: weft.empty(1000).geometric_(0.25, **k),
    "cauchy_": lambda **k: weft.empty(1000).cauchy_(1, 2, **k),
    "log_normal_": lambda **k: weft.empty(1000).log_normal_(0, 0.5, **k),
    "random_": lambda **k: weft.empty(1000).random_(7, **k),
}


def refuses(error: type[Exception], text: str, call: Any) -> None:
    with pytest.raises(error) as caught:
        call()
    assert text in str(caught.value)


@pytest.mark.parametrize("name", CREATED)
def test_streams(name: str) -> None:
    """Equal seeds give equal draws, a stream moves on, and a generator of one's own leaves the default
    alone.
    """
    draw = CREATED[name]
    weft.manual_seed(3)
    first, second = draw(), draw()
    weft.manual_seed(3)
    assert weft.equal(draw(), first) and not weft.equal(first, second)
    state = weft.get_rng_state()
    own = weft.Generator().manual_seed(3)
    assert weft.equal(draw(generator=own), first) and weft.equal(draw(generator=own), second)
    assert weft.equal(weft.get_rng_state(), state)


@pytest.mark.parametrize(
    "name, mean, deviation",
    [
        ("rand", 0.5, math.sqrt(1 / 12)),
        ("randn", 0, 1),
        ("normal", 1, 2),
        ("uniform_", 0, math.sqrt(1 / 3)),
        ("normal_", 1, 2),
        ("exponential_", 0.5, 0.5),
        ("bernoulli_", 0.25, math.sqrt(3 / 16)),
        ("geometric_", 4, math.sqrt(12)),
        ("random_", 3, 2),
        ("randint", 49.5, math.sqrt(9999 / 12)),
    ],
)
def test_moments(name: str, mean: float, deviation: float) -> None:
    weft.manual_seed(11)
    values = np.concatenate([CREATED[name]().numpy() for _ in range(20)]).astype(float)
    assert abs(values.mean() - mean) < 5 * deviation / math.sqrt(values.size)
    assert abs(values.std() - deviation) < 0.05 * deviation


def test_multinomial_and_bernoulli_follow_their_probabilities() -> None:
    counts = np.bincount(weft.multinomial(weft.tensor([1.0, 0.0, 3.0]), 8000, True).numpy(), minlength=3)
    assert counts[1] == 0 and abs(counts[2] / 8000 - 0.75) < 0.03
    without = weft.multinomial(weft.ones(5, 8), 8)
    assert all(sorted(row) == list(range(8)) for row in without.tolist())
    assert weft.bernoulli(weft.tensor([0.0, 1.0])).tolist() == [0, 1]
    means = weft.normal(weft.tensor([0.0, 100.0]).expand(4000, 2), weft.tensor([1.0, 0.0]))
    assert means[:, 1].eq(100).all() and abs(means[:, 0].mean().item()) < 0.1


def test_dtypes() -> None:
    assert weft.rand(2).dtype is weft.randn(2).dtype is weft.float32
    assert weft.randint(5, (2,)).dtype is weft.randperm(3).dtype is weft.int64
    for kind in (weft.float16, weft.bfloat16, weft.float64, weft.complex64):
        assert weft.rand(3, dtype=kind).dtype is weft.randn(3, dtype=kind).dtype is kind
    like = weft.zeros(2, 3, dtype=weft.float64)
    assert weft.rand_like(like).dtype is weft.randint_like(like, 5).dtype is weft.float64
    assert weft.randn_like(like, dtype=weft.float32).dtype is weft.float32
    assert weft.rand_like(weft.zeros(2, 3, 4, 5), memory_format=weft.channels_last).stride() == (60, 1, 15, 3)
    assert weft.bernoulli(weft.zeros(3, dtype=weft.long), 1.0).tolist() == [1, 1, 1]
    assert weft.multinomial(weft.ones(3), 2).dtype is weft.int64
    assert weft.rand(10_000).min() >= 0 and weft.rand(10_000).max() < 1


def test_shapes_and_options() -> None:
    assert weft.rand(2, 3).shape == weft.rand((2, 3)).shape == weft.rand(size=(2, 3)).shape == (2, 3)
    assert weft.rand(()).shape == () and weft.rand(0, 2).shape == (0, 2)
    assert weft.randint(low=0, high=5, size=(2,)).shape == weft.randint(high=5, size=[2]).shape == (2,)
    assert weft.rand(2, requires_grad=True).requires_grad
    assert weft.normal(weft.zeros(2, 1), weft.ones(3)).shape == (2, 3)
    assert weft.rand(2, device="meta").is_meta and weft.zeros(2, device="meta").normal_().is_meta
    out = weft.empty(3, dtype=weft.float64)
    assert weft.rand(3, out=out) is out and out.dtype is weft.float64


def test_draws_are_pure_functions_of_key_and_offset() -> None:
    generator = weft.Generator().manual_seed(17)
    key, offset = generator.advance(0)
    drawn = weft.rand(20, generator=generator)
    assert np.array_equal(drawn.numpy(), philox.uniform(key, offset, (20,), np.float32))
    assert weft.equal(ops.philox_uniform((20,), key, offset, 0.0, 1.0, weft.float32), drawn)
    assert generator.get_offset() == offset + philox.blocks("uniform", 20, np.float32)


def test_samplers_are_no_pure_ops() -> None:
    for name in ("rand", "randn", "randint", "randperm", "bernoulli", "normal", "uniform", "random"):
        assert REGISTRY[name].kind is Kind.RANDOM
    assert REGISTRY["philox_uniform"].kind is Kind.CREATE


def test_in_place_gradients_are_zero_and_leaves_are_refused() -> None:
    for name in ("uniform_", "normal_", "exponential_", "bernoulli_", "random_", "cauchy_", "log_normal_"):
        leaf = weft.ones(3, requires_grad=True)
        written = getattr(leaf * 2, name)()
        assert written.requires_grad
        written.sum().backward()
        assert leaf.grad.tolist() == [0, 0, 0]
        refuses(RuntimeError, "a leaf Variable that requires grad", getattr(leaf, name))
    p = weft.full((3,), 0.5, requires_grad=True)
    weft.bernoulli(p).sum().backward()
    assert p.grad.tolist() == [0, 0, 0]
    mean, std = weft.zeros(2, 1, requires_grad=True), weft.ones(3, requires_grad=True)
    weft.normal(mean, std).sum().backward()
    assert mean.grad.shape == (2, 1) and std.grad.tolist() == [0, 0, 0]


def test_in_place_returns_itself_and_counts_a_version() -> None:
    x = weft.zeros(4, 4)
    view = x[1]
    assert view.uniform_(1, 2) is view and x._version == 1
    assert x[0].tolist() == [0] * 4 and (x[1] >= 1).all()
    refuses(RuntimeError, "more than one element of the written-to tensor", weft.zeros(1).expand(3).normal_)


@pytest.mark.parametrize(
    "call, error, text",
    [
        (
            lambda: weft.rand(2, dtype=weft.long),
            NotImplementedError,
            "\"check_uniform_bounds\" not implemented for 'Long'",
        ),
        (
            lambda: weft.randn(2, dtype=weft.bool),
            NotImplementedError,
            "\"normal_kernel_cpu\" not implemented for 'Bool'",
        ),
        (lambda: weft.rand(-1), RuntimeError, "Trying to create tensor with negative dimension -1: [-1]"),
        (
            lambda: weft.randint(5, 5, (2,)),
            RuntimeError,
            "random_ expects 'from' to be less than 'to', but got from=5 >= to=5",
        ),
        (
            lambda: weft.randint(0, 300, (2,), dtype=weft.uint8),
            RuntimeError,
            "to - 1 is out of bounds for unsigned char",
        ),
        (
            lambda: weft.randint(5, 2),
            TypeError,
            "argument 'size' (position 2) must be tuple of ints, not int",
        ),
        (lambda: weft.randperm(-1), RuntimeError, "negative dimension -1"),
        (lambda: weft.randperm(300, dtype=weft.uint8), RuntimeError, "uint8_t without overflow"),
        (
            lambda: weft.bernoulli(weft.tensor([2.0])),
            RuntimeError,
            "Expected p_in >= 0 && p_in <= 1 to be true",
        ),
        (lambda: weft.bernoulli(weft.tensor([1])), NotImplementedError, '"bernoulli_tensor_cpu_p_"'),
        (
            lambda: weft.zeros(2).bernoulli_(2),
            RuntimeError,
            "bernoulli_ expects p to be in [0, 1], but got p=2",
        ),
        (
            lambda: weft.multinomial(weft.ones(2), 3),
            RuntimeError,
            "cannot sample n_sample > prob_dist.size(-1)",
        ),
        (
            lambda: weft.multinomial(weft.tensor([1.0, -1.0]), 1),
            RuntimeError,
            "contains either `inf`, `nan` or element < 0",
        ),
        (lambda: weft.multinomial(weft.ones(2, dtype=weft.long), 1), RuntimeError, "got: Long"),
        (lambda: weft.normal(0.0, -1.0, (2,)), RuntimeError, "normal expects std >= 0.0, but found std -1"),
        (
            lambda: weft.normal(weft.zeros(2), weft.tensor([1.0, -1.0])),
            RuntimeError,
            "all elements of std >= 0.0",
        ),
        (lambda: weft.normal(0.0, 1.0), TypeError, "normal() received an invalid combination of arguments"),
        (lambda: weft.zeros(2).uniform_(1, 0), RuntimeError, "found from=1 > to=0"),
        (lambda: weft.zeros(2).uniform_(0, math.inf), RuntimeError, "to is out of bounds for float"),
        (
            lambda: weft.zeros(2).exponential_(0),
            RuntimeError,
            "exponential_ expects lambda > 0.0, but found lambda=0",
        ),
        (
            lambda: weft.zeros(2).geometric_(1.0),
            RuntimeError,
            "geometric_ expects p to be in (0, 1), but got p=1",
        ),
        (lambda: weft.zeros(2).cauchy_(0, 0), RuntimeError, "cauchy_ expects sigma > 0.0, but found sigma=0"),
        (
            lambda: weft.zeros(2).log_normal_(1, 0),
            RuntimeError,
            "log_normal_ expects std > 0.0, but found std=0",
        ),
        (lambda: weft.zeros(2).random_(0), RuntimeError, "from=0 >= to=0"),
        (
            lambda: weft.rand(2, generator=3),
            TypeError,
            "argument 'generator' must be weft.Generator, not int",
        ),
    ],
)
def test_refusals(call: Any, error: type[Exception], text: str) -> None:
    refuses(error, text, call)
