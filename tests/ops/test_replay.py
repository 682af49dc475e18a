"""Writes through views of other types: complex numbers as pairs, and pairs as complex numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import weft


def start(z: Any) -> Any:
    return z * (1 + 0.5j)


def imag(z: Any) -> Any:
    y = start(z)
    y.imag.mul_(3.0)
    return (y.abs() ** 4).sum()


def real(z: Any) -> Any:
    y = start(z)
    y.real.add_(1.0)
    return (y.abs() ** 4).sum()


def assigned(z: Any) -> Any:
    y = start(z)
    y.imag = weft.tensor([2.0, 3.0], dtype=weft.float64)
    return (y.abs() ** 4).sum()


def pair(z: Any) -> Any:
    y = start(z)
    weft.view_as_real(y)[0].mul_(weft.tensor([2.0, 5.0], dtype=weft.float64))
    return (y.abs() ** 4).sum()


def joined(z: Any) -> Any:
    q = weft.view_as_real(z) * 1
    weft.view_as_complex(q)[0].mul_(2j)
    return (q**3).sum()


def strided(z: Any) -> Any:
    y = start(z)
    y.view(-1).real[::2].fill_(7.0)
    return (y.abs() ** 4).sum()


WRITES = [  # the value, its gradient, and the gradient of that one's squares, as PyTorch has them
    (imag, 3374.3125, [2531.25 + 5062.5j, 333.5 + 159.5j],
        [38443359.375 + 76886718.75j, 416512.5 + 429562.5j]),
    (real, 472.8125, [65.25 + 58j, 389.5 - 143.5j], [14191.875 + 12615j, 239542.5 - 88252.5j]),
    (assigned, 467.5625, [0j, 297.5 - 148.75j], [0j, 136106.25 - 68053.125j]),
    (pair, 24570.3125, [19531.25 + 39062.5j, 187.5 - 62.5j],
        [2288818359.375 + 4577636718.75j, 70312.5 - 23437.5j]),
    (joined, -30.0, [24 - 96j, 27 + 3j], [2304 + 18432j, 972 - 36j]),
    (strided, 3208.8125, [276.25 + 552.5j, 187.5 - 62.5j], [187159.375 + 374318.75j, 70312.5 - 23437.5j]),
]  # fmt: skip


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "native"])
@pytest.mark.parametrize("write, value, gradient, second", WRITES, ids=[row[0].__name__ for row in WRITES])
def test_gradients_pass_writes_to_parts_of_complex_numbers(write, value, gradient, second, backend):
    z = weft.tensor([1 + 2j, 3 - 1j], dtype=weft.complex128).requires_grad_()
    out = (write if backend == "eager" else weft.compile(write, backend=backend))(z)
    first = weft.autograd.grad(out, z, create_graph=True)[0]
    again = weft.autograd.grad((first.abs() ** 2).sum(), z)[0]
    np.testing.assert_allclose(out.item(), value, rtol=1e-12)
    np.testing.assert_allclose(first.detach().numpy(), gradient, rtol=1e-12)
    np.testing.assert_allclose(again.numpy(), second, rtol=1e-12)
