"""Running sums and products, differences."""

from __future__ import annotations

import numpy as np
import pytest

import weft
from weft.ops.record import ops


@pytest.mark.parametrize("dim", [0, 1, -1])
def test_running_sums_and_products(dim: int) -> None:
    x = np.random.default_rng(0).random((3, 4))
    np.testing.assert_allclose(weft.cumsum(weft.from_numpy(x), dim).numpy(), np.cumsum(x, dim))
    np.testing.assert_allclose(weft.cumprod(weft.from_numpy(x), dim).numpy(), np.cumprod(x, dim))


def test_dtypes() -> None:
    flags = weft.from_numpy(np.array([True, True]))
    assert weft.cumsum(flags, 0).dtype is weft.int64
    assert weft.cumsum(flags, 0, dtype=weft.float16).dtype is weft.float16
    with pytest.raises(NotImplementedError, match="\"cumprod_out_cpu\" not implemented for 'Bool'"):
        weft.cumprod(flags, 0, dtype=weft.bool)
    ones = weft.from_numpy(np.ones(4096, np.float16))
    assert weft.cumsum(ones, 0)[-1].item() == 4096  # 2048 + 1 is 2048 in float16


def test_in_place() -> None:
    x = weft.from_numpy(np.array([1, 2, 3], np.int32))
    assert x.cumsum_(0) is x
    assert x.dtype is weft.int32
    assert x.numpy().tolist() == [1, 3, 6]


def test_dimension_error() -> None:
    with pytest.raises(IndexError, match=r"range of \[-1, 0\], but got 1"):
        weft.cumsum(weft.from_numpy(np.ones(3)), 1)


@pytest.mark.parametrize("zeros", [(), (1,), (0, 2), (0, 1, 2, 3)])
def test_cumprod_gradient_with_zeros(zeros: tuple[int, ...]) -> None:
    values = np.array([2.0, -3.0, 0.5, 4.0])
    values[list(zeros)] = 0
    x = weft.from_numpy(values).requires_grad_()
    weights = np.array([1.0, 10.0, 100.0, 1000.0])
    (grad,) = weft.autograd.grad(weft.cumprod(x, 0), x, weft.from_numpy(weights))
    expected = [
        sum(weights[k] * np.prod([values[j] for j in range(k + 1) if j != i]) for k in range(i, 4))
        for i in range(4)
    ]
    np.testing.assert_allclose(grad.numpy(), expected)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("length", [0, 1, 2, 7, 64])
def test_linear_scan_against_the_loop(length: int, reverse: bool) -> None:
    generator = np.random.default_rng(length)
    x, factors = generator.normal(size=(2, length)), generator.normal(size=(2, length))
    expected = np.zeros_like(x)
    carry = np.zeros(2)
    for i in reversed(range(length)) if reverse else range(length):
        carry = expected[:, i] = x[:, i] + factors[:, i] * carry
    np.testing.assert_allclose(ops._linear_scan(x, factors, 1, reverse), expected)


def test_diff() -> None:
    x = weft.from_numpy(np.array([1, 4, 9, 16]))
    assert weft.diff(x).numpy().tolist() == [3, 5, 7]
    assert x.diff(2).numpy().tolist() == [2, 2]
    assert weft.diff(x, 9).shape == (0,)
    assert weft.diff(x, prepend=x[:1]).numpy().tolist() == [0, 3, 5, 7]
    assert weft.diff(weft.from_numpy(np.array([True, True, False]))).numpy().tolist() == [False, True]


def test_diff_errors() -> None:
    x = weft.from_numpy(np.ones((2, 3)))
    with pytest.raises(RuntimeError, match="at least one-dimensional"):
        weft.diff(weft.from_numpy(np.ones(())))
    with pytest.raises(RuntimeError, match="order must be non-negative but got -1"):
        weft.diff(x, -1)
    with pytest.raises(RuntimeError, match="to be the same dimension as input"):
        weft.diff(x, prepend=weft.from_numpy(np.ones(2)))
    with pytest.raises(RuntimeError, match=r"input.size\(0\) = 2, but got tensor.size\(0\) = 3"):
        weft.diff(x, append=weft.from_numpy(np.ones((3, 1))))


def test_a_linear_scan_whose_factors_overflow_together() -> None:
    """Their product meets zeros that the elements themselves do not meet: one by one, nothing is NaN."""
    factors = np.array([1.0, 0.0, 1e30, 1e30, np.inf, 2.0], np.float32)
    x = np.array([1.0, 1e-30, 1.0, -1.0, 1.0, 1.0], np.float32)
    expected = np.array([1.0, 1e-30, 2.0, 2e30, np.inf, np.inf], np.float32)
    np.testing.assert_allclose(ops._linear_scan(x, factors, 0, False), expected)
    np.testing.assert_allclose(ops._linear_scan(x[::-1], factors[::-1], 0, True), expected[::-1])


def test_gradients_of_a_running_product_with_infinite_factors() -> None:
    x = weft.tensor([-np.inf, np.inf, -1e-42, 0.1, 1e-40, -2.5, np.inf, np.inf], requires_grad=True)
    weights = weft.linspace(-1, 1.5, 8)
    for call in (weft.cumprod, weft.compile(lambda z, dim: z.cumprod(dim), backend="native")):
        (found,) = weft.autograd.grad((call(x, 0) * weights).sum(), x)
        assert found.tolist() == [np.inf, -np.inf, np.inf, -np.inf, -np.inf, np.inf, -np.inf, -np.inf]


@pytest.mark.parametrize("columns", [1, 3, 40])
@pytest.mark.parametrize("kind", [weft.float32, weft.complex64])
def test_what_is_carried_along_is_wider_than_the_elements(kind: weft.dtype, columns: int) -> None:
    """In float32, 2**24 + 1 is 2**24, and 1e30 squared is infinite for good."""
    sums = weft.tensor([2.0**24, 1, 1, 1, 1], dtype=kind)[:, None].repeat(1, columns)
    products = weft.tensor([1e30, 1e30, 1e-30, 2], dtype=kind)[:, None].repeat(1, columns)
    for make in (lambda f: f, lambda f: weft.compile(f, fullgraph=True)):
        found = make(lambda x: x.cumsum(0))(sums)
        assert (found[-1] == 2**24 + 4).all()
        x = weft.zeros(5, columns, dtype=kind, requires_grad=True)
        make(lambda x: x.cumsum(0))(x).backward(sums.flip(0))
        assert (x.grad[0] == 2**24 + 4).all()
        found = make(lambda x: x.cumprod(0))(products)
        np.testing.assert_allclose(found[-1].abs(), 2e30, rtol=1e-6)
        found = make(lambda x: ops._linear_scan.face(x, weft.ones_like(x), 0, False))(sums)
        assert (found[-1] == 2**24 + 4).all()


@pytest.mark.parametrize("kind", [weft.float16, weft.bfloat16])
def test_halves_are_carried_along_in_float32(kind: weft.dtype) -> None:
    """As in PyTorch: of 2**15 + 2**-8 + 2**-20, the last is lost, as float64 would not lose it."""
    x = weft.tensor([2.0**15, 2.0**-8, 2.0**-20, -(2.0**15)], dtype=kind)
    for call in (weft.cumsum, weft.compile(lambda x, dim: x.cumsum(dim), fullgraph=True)):
        assert call(x, 0).tolist() == [2.0**15, 2.0**15, 2.0**15, 2.0**-8]
        wide = call(x.float(), 0)
        assert wide[-1].item() == 2.0**-8 + 2.0**-20
