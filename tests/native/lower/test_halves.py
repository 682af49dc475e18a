"""float16 and bfloat16: computed in float32 and rounded after each op, bit for bit as eager does."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import weft
from tests.native.lowered import flat, opaques
from tests.native.whole import same
from weft.nn import functional as F

HALVES = [weft.float16, weft.bfloat16]


def assert_bits(function: Any, *args: Any) -> None:
    """That a compiled function gives the same bits; NaN is NaN."""
    weft.compiler.reset()
    ours = weft.compile(function, backend="native", fullgraph=True)(*args)
    for place, (one, other) in enumerate(zip(flat(ours), flat(function(*args)), strict=True)):
        assert (one.dtype, one.shape, one.stride()) == (other.dtype, other.shape, other.stride()), place
        one, other = one.detach().array, other.detach().array
        with np.errstate(all="ignore"):
            strange = np.isnan(other.astype(np.float32))
            np.testing.assert_array_equal(np.isnan(one.astype(np.float32)), strange, err_msg=str(place))
        raw = [
            np.ascontiguousarray(x)[~strange].view(np.uint16) if x.itemsize == 2 else x for x in (one, other)
        ]
        np.testing.assert_array_equal(*raw, err_msg=str(place))


def all_halves(kind: weft.dtype) -> weft.Tensor:
    """All numbers there are."""
    return weft.from_numpy(np.arange(1 << 16, dtype=np.uint16).view(kind.numpy).copy())


@pytest.mark.parametrize("kind", HALVES)
def test_every_number(kind: weft.dtype) -> None:
    def f(x: weft.Tensor) -> tuple[weft.Tensor, ...]:
        return (
            x.float(), -x, x + 1, x * x, x / 3, x.sqrt(), x.double(), x.abs() * 0.1, x > 0.5,
            x.clamp(-1, 2), weft.where(x > 0, x, 0.3), x.floor(), x[::2] * x[1::2], (x * 3 + 1) * 0.37,
        )  # fmt: skip

    x = all_halves(kind)
    assert not opaques(f, x)
    assert_bits(f, x)


@pytest.mark.parametrize("kind", HALVES)
def test_rounding(kind: weft.dtype) -> None:
    def f(x: weft.Tensor, n: weft.Tensor) -> tuple[weft.Tensor, ...]:
        return x.to(kind), n.to(kind), (x * 1.5).to(kind) + 1

    bits = np.random.default_rng(0).integers(0, 1 << 32, 100_000, np.uint64).astype(np.uint32)
    ties = (np.arange(1 << 16, dtype=np.uint32) << 16) + np.array([[0x7FFF], [0x8000], [0x8001]], np.uint32)
    near = np.arange(1 << 16, dtype=np.uint32) * 8192 + np.array([[0xFFF], [0x1000], [0x1001]], np.uint32)
    x = np.concatenate([each.reshape(-1) for each in (bits, ties, near + 0x38000000)]).view(np.float32)
    n = np.random.default_rng(1).integers(-(1 << 40), 1 << 40, 1000)
    assert_bits(f, weft.from_numpy(x), weft.from_numpy(n))


@pytest.mark.parametrize("kind", HALVES)
def test_layers(kind: weft.dtype) -> None:
    def f(x: weft.Tensor, w: weft.Tensor, at: weft.Tensor) -> tuple[weft.Tensor, ...]:
        y = F.layer_norm(x @ w.t(), (w.shape[0],)).softmax(-1)
        return (
            y,
            x.sum(0),
            x.mean(),
            x.max(1).values,
            x.t() + 1,
            x[at],
            weft.cat([x, x * 2]),
            y.log_softmax(0),
        )

    x, w = weft.randn(30, 40).to(kind), weft.randn(50, 40).to(kind)
    at = weft.randint(0, 30, (9,))
    assert not opaques(f, x, w, at)
    weft.compiler.reset()
    for one, other in zip(weft.compile(f, backend="native", fullgraph=True)(x, w, at), f(x, w, at)):
        assert one.dtype is other.dtype is kind and one.stride() == other.stride()
        weft.testing.assert_close(one, other, rtol=2e-2, atol=2e-2)


@pytest.mark.parametrize("kind", HALVES)
def test_gradients(kind: weft.dtype) -> None:
    def f(x: weft.Tensor, w: weft.Tensor) -> tuple[weft.Tensor, ...]:
        loss = F.cross_entropy(F.gelu(F.linear(x, w)), weft.arange(8))
        return weft.autograd.grad(loss, (x, w))

    x, w = weft.randn(8, 16).to(kind).requires_grad_(), weft.randn(10, 16).to(kind).requires_grad_()
    for one, other in zip(weft.compile(f, backend="native", fullgraph=True)(x, w), f(x, w)):
        assert one.dtype is kind
        weft.testing.assert_close(one, other, rtol=2e-2, atol=2e-3)


def test_numbers_of_one_element_are_put_into_halves() -> None:
    def f(x: weft.Tensor, value: weft.Tensor) -> weft.Tensor:
        largest = x.max(1).values
        largest.flatten()[0] = 1
        largest[1, 1] = value
        return largest

    same(f, [weft.randn(4, 3, 2).half(), weft.ones(1, 1).half()])


@pytest.mark.parametrize("kind", HALVES)
def test_numbers_beside_halves_are_rounded_to_them(kind: weft.dtype) -> None:
    """But for those that products and quotients take, which are rounded with the result only."""

    def f(x: weft.Tensor, y: weft.Tensor, number: float, n: weft.Tensor) -> list[weft.Tensor]:
        single = weft.tensor(number)
        return [
            x + number, number - x, weft.add(x, y, alpha=number), weft.rsub(x, y, alpha=number), x % number,
            number % x, weft.fmod(x, number), x.abs() ** number, number**x, x < number, x == number,
            weft.atan2(x, single), x + single, number // x, x * n, x + n, weft.hypot(x, n.double()[0]),
            x * number, x / number, number / x, x // number, weft.div(x, number, rounding_mode="trunc"),
            x * single, x / single, weft.lerp(x, y, number), F.hardshrink(x, number), x.clone().add_(number),
        ]  # fmt: skip

    x, y = weft.randn(40).to(kind), weft.randn(40).to(kind)
    n = weft.arange(40) * 1001 + 257
    for number in (0.7, 1 / 3):
        assert_bits(f, x, y, number, n)


@pytest.mark.parametrize("kind", HALVES)
def test_what_numbers_beside_halves_are(kind: weft.dtype) -> None:
    near = weft.tensor(0.7, dtype=kind)
    x = weft.stack([near, near * 2, -near])
    for call in (lambda f, *args: f(*args), lambda f, *args: weft.compile(f)(*args)):
        assert call(lambda x: weft.remainder(x, 0.7), x).tolist() == [0, 0, 0]
        assert call(lambda x: weft.fmod(x, 0.7), x).tolist() == [0, 0, 0]
        assert call(lambda x: x == 0.7, x).tolist() == [True, False, False]
        assert call(lambda x: x - 0.7, x).tolist() == [0, near.item(), 2 * -near.item()]
        assert call(lambda x: x + weft.tensor(0.7), x)[2].item() == 0
        assert call(lambda x: weft.sub(x, x / near, alpha=0.7), x).tolist()[:2] == [0, 0]
        exact = (x.float() * np.float32(0.7)).to(kind)
        assert call(lambda x: x * 0.7, x).tolist() == exact.tolist()
        assert (
            call(lambda x: x + 1001, x).tolist() == (x.float() + weft.tensor(1001).to(kind)).to(kind).tolist()
        )


def test_float64_becomes_float16_by_way_of_float32() -> None:
    """1 + 2**-11 + 2**-30 is half way between two float16 numbers once it is a float32."""
    x = weft.tensor([1 + 2.0**-11 + 2.0**-30], dtype=weft.float64)
    for call in (lambda x: x.half(), weft.compile(lambda x: x.half())):
        assert call(x).item() == 1.0
    assert weft.tensor(x.tolist(), dtype=weft.float16).item() == 1.0
    for make in (weft.full, weft.compile(lambda *args, **kinds: weft.full(*args, **kinds))):
        assert make((1,), x.item(), dtype=weft.float16).item() == 1.0
