"""Floats taken apart, stepped through, and the incomplete gamma functions."""

from __future__ import annotations

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
