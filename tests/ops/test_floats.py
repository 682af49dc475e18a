"""Floats taken apart, stepped through, and the incomplete gamma functions."""

from __future__ import annotations

import math

import numpy as np
import pytest

import weft


@pytest.mark.parametrize("kind", [weft.float16, weft.bfloat16, weft.float32, weft.float64], ids=str)
def test_parts_and_neighbours(kind: weft.dtype) -> None:
    x = weft.tensor([1.5, -0.25, 0.0], dtype=kind)
    mantissa, exponent = weft.frexp(x)
    assert mantissa.dtype is kind and exponent.dtype is weft.int32
    np.testing.assert_array_equal(weft.ldexp(mantissa, exponent).float().numpy(), x.float().numpy())
    up = weft.nextafter(weft.ones(1, dtype=kind), weft.full((1,), 2.0, dtype=kind))
    assert up.dtype is kind and (up - 1).item() == weft.finfo(kind).eps


def test_incomplete_gamma() -> None:
    a, x = np.array([0.5, 1.0, 3.0]), np.array([0.2, 2.0, 2.5])
    np.testing.assert_allclose(weft.igamma(weft.from_numpy(a), weft.from_numpy(x))[1].item(), 1 - np.exp(-2))
    both = weft.igamma(weft.from_numpy(a), weft.from_numpy(x)) + weft.igammac(
        weft.from_numpy(a), weft.from_numpy(x)
    )
    np.testing.assert_allclose(both.numpy(), 1)
    limit = weft.from_numpy(x).requires_grad_()
    assert weft.autograd.gradcheck(lambda t: weft.igamma(weft.from_numpy(a), t), (limit,))
    assert weft.special.gammaincc is weft.igammac
    order = weft.from_numpy(a).requires_grad_()
    with pytest.raises(NotImplementedError, match="the derivative for 'igamma: input' is not implemented"):
        weft.igamma(order, limit).sum().backward()


def test_the_next_number_moves_with_the_first() -> None:
    x, y = weft.ones(2, requires_grad=True), weft.zeros(2, requires_grad=True)
    weft.nextafter(x, y).sum().backward()
    assert (x.grad.tolist(), y.grad.tolist()) == ([1, 1], [0, 0])


@pytest.mark.parametrize("compiled", [False, True])
def test_a_number_that_is_there_already_has_no_next_one_and_no_gradient(compiled: bool) -> None:
    def slopes(x: weft.Tensor, y: weft.Tensor) -> tuple[weft.Tensor, ...]:
        return weft.autograd.grad(weft.nextafter(x, y).sum(), (x, y))

    x, y = (weft.tensor(values, requires_grad=True) for values in ([0.0, 1.0, 1.0], [0.0, 1.0, 2.0]))
    found = (weft.compile(slopes) if compiled else slopes)(x, y)
    assert [each.tolist() for each in found] == [[0, 0, 1], [0, 0, 0]]


@pytest.mark.parametrize("compiled", [False, True])
def test_ldexp_by_whole_numbers_has_no_infinite_factor(compiled: bool) -> None:
    """As in PyTorch, where C's function computes it; powers that are floats are factors."""
    function = weft.compile(lambda x, y: weft.ldexp(x, y)) if compiled else weft.ldexp
    x = weft.tensor([0.0, 1.0, 2.0**-126, math.inf], requires_grad=True)
    found = function(x, weft.tensor([200, 200, 150, -300]))
    assert found.tolist() == [0.0, math.inf, 2.0**24, math.inf] and found.dtype is weft.float32
    assert function(x, weft.full((4,), 3, dtype=weft.uint8)).tolist() == [0, 8, 2.0**-123, math.inf]
    assert math.isnan(function(x, weft.full((4,), 200.0))[0].item())
    for kind, ends in (
        (weft.float16, (-24, 15)),
        (weft.bfloat16, (-133, 127)),
        (weft.float64, (-1074, 1023)),
    ):
        made = function(weft.ones(2, 1, dtype=kind), weft.tensor(ends))
        assert made.dtype is kind and made.tolist() == [[2.0**power for power in ends]] * 2
    slope = weft.autograd.grad(weft.ldexp(x, weft.tensor([1, 2, -1, 3])).sum(), x)[0]
    assert slope.tolist() == [2, 4, 0.5, 8]
    with pytest.raises(NotImplementedError, match="not implemented for 'Bool'"):
        function(x.detach(), weft.ones(4, dtype=weft.bool))


@pytest.mark.parametrize("kind", [weft.float16, weft.bfloat16, weft.float32, weft.float64])
def test_the_next_number_of_equal_ones_is_the_second(kind: weft.dtype) -> None:
    zeros = weft.tensor([0.0, -0.0], dtype=kind)
    for function in (weft.nextafter, weft.compile(lambda x, y: weft.nextafter(x, y))):
        assert function(zeros, -zeros).signbit().tolist() == [True, False]
